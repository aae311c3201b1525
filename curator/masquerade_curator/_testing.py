"""Charlie's public test set: the released model's error on it, and the objective at each public iterate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.trace import objective_at, objective_trace
from masquerade_core.model import Model, error_on
from masquerade_core.study import Study
from masquerade_host.process.progress import Observer
from masquerade_host.session.charlie import CharlieSession
from masquerade_protocols import protocol_of

__all__ = ["PublicTests"]

_LIVE = 1_000_000  # numbers in a test set; the objective of a larger one is computed only after the run


class PublicTests:
    """A public test set, and an observer that adds the objective on it to every report of progress.

    Parameters
    ----------
    tests : Dataset
    study : Study
    observe : Observer
        Gets all events.

    Attributes
    ----------
    session : CharlieSession or None
        It has the public iterates.
    """

    def __init__(self, tests: Dataset, study: Study, observe: Observer) -> None:
        self._tests = tests
        self._study, self._next = study, observe
        self.session: CharlieSession | None = None

    @classmethod
    def read(cls, path: Path | str, study: Study, observe: Observer) -> Self:
        """Read a public test set, which may have any number of records."""
        coding = protocol_of(study).records.coding
        return cls(load_csv(path, study, need_label=False, coding=coding), study, observe)

    def observe(self, event: str, /, **fields: str | float) -> None:
        """Pass an event on. After one of progress, report the objective as well."""
        self._next(event, **fields)
        if event != "progress" or self._tests.X.size > _LIVE or self.session is None or not self.session.iterates:
            return
        done, w = self.session.iterates[-1]
        if w:
            value = objective_at(w, self._tests, self._study)
            self._next("objective", done=done, total=fields["total"], message=f"{value:.6g}")

    def metrics(self, release: object) -> dict[str, float]:
        """Return the released model's error; nothing of what is no model."""
        return {"test_error": error_on(release, self._tests)} if isinstance(release, Model) else {}

    def rounds(self) -> list[Mapping[str, float | None]]:
        """Return the objective at the public iterates, where there are any."""
        return [] if self.session is None else objective_trace(self.session.iterates, self._tests, self._study)

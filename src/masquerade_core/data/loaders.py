"""How a protocol reads records, and what it makes of them. What reads is loaded when something is read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade_core.study import Coding, Study

__all__ = ["COVARIATES", "POINTS", "Loader"]


@dataclass(frozen=True)
class Loader:
    """How a protocol reads records, and what it makes of them.

    Parameters
    ----------
    one : callable
        (path, study) -> one party's records.
    grouped : callable
        (path, study, column) -> all parties' records by name, from one file in which ``column`` has the names.
    check : callable
        (records, study, source, party): raises BadInput or RefusedLocally for records that do not fit the study;
        ``source`` names them. ``party`` is their owner's name, and may be left out.
    streamed : callable or None
        (path, study, folder) -> one party's records, read into a scratch file in a folder.
    grid_of : callable or None
        (study) -> the bins in which records are counted, where that is all that a protocol needs of them.
    coding : Coding
        What a record becomes, where it is not counted.
    """

    one: Callable[[Path | str, Study], Any]
    grouped: Callable[[Path | str, Study, str], dict[str, Any]]
    check: Callable[..., None]
    streamed: Callable[[Path | str, Study, Path | str], Any] | None = None
    grid_of: Callable[[Study], Any] | None = None
    coding: Coding = "one-hot"


def _encoded(coding: Coding) -> Loader:
    """Return the loader of encoded records in a coding, with their labels."""

    def one(path: Path | str, study: Study) -> Any:
        from masquerade_core.data.loading import load_csv

        return load_csv(path, study, coding=coding)

    def grouped(path: Path | str, study: Study, column: str) -> Any:
        from masquerade_core.data.groups import load_grouped

        return load_grouped(path, study, column, coding)

    def check(data: Any, study: Study, source: str, party: str = "") -> None:
        from masquerade_core.data.loading import check_points

        check_points(data, study, source, party, coding)

    def streamed(path: Path | str, study: Study, folder: Path | str) -> Any:
        from masquerade_core.data.loading import stream_csv

        return stream_csv(path, study, folder, coding)

    return Loader(one, grouped, check, streamed, coding=coding)


POINTS = _encoded("one-hot")
"""Records as vectors in the unit ball, with labels: what a classifier is learned from."""

COVARIATES = _encoded("treatment")
"""Records as covariates in treatment coding, with labels: what a regression is estimated from."""

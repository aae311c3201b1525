"""A site's verdict on a study's file in its inbox, and the run that would follow."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from masquerade_core.errors import MasqueradeError
from masquerade_host.store.results import RESULT

__all__ = ["Facts", "Judging", "Kind", "Known", "Verdict"]


class Kind(StrEnum):
    """The kind of a verdict."""

    REFUSED = "refused"
    WAITS = "waits"
    READY = "ready"


@dataclass(frozen=True)
class Facts:
    """The facts of a study that its record shows: its name, its fingerprint, and which party this site is."""

    study: str = ""
    fingerprint: str = ""
    participant: str = ""


@dataclass(frozen=True)
class Verdict:
    """The decision on a study, and its reason.

    Attributes
    ----------
    kind : Kind
    error : MasqueradeError or None
        The reason; None where nothing stands in the way.
    facts : Facts
    known : Known or None
        What the study's run would be; None where it could not be read.
    rests_on : tuple of Path
        The files besides the study's own from which the verdict follows, the record of an approval first. While none of
        them changes, the verdict stays.
    """

    kind: Kind
    error: MasqueradeError | None = None
    facts: Facts = Facts()
    known: "Known | None" = None
    rests_on: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Known:
    """A study that could be read, and what its run on this machine would be.

    Attributes
    ----------
    facts : Facts
    records : str
        What ``--data`` gets.
    file : Path or None
        The same, if it is a file or a folder and no query.
    key, results : Path
        What ``--key`` and ``--out`` get.
    state : Path or None
        What ``--state`` gets, if anything.
    population : str or None
        What ``--population`` gets, if anything.
    journal : Path
        The folder of the run's journal.
    beside : str
        The name of the file with auxiliary records that must lie beside the study; "" where it needs none.
    """

    facts: Facts
    records: str
    file: Path | None
    key: Path
    results: Path
    state: Path | None
    population: str | None
    journal: Path
    beside: str = ""

    @property
    def begun(self) -> bool:
        """Whether a journal is there: the same command goes on with the run that began."""
        return any(self.journal.glob("journal*"))

    @property
    def over(self) -> bool:
        """Whether the run has its results, and nothing is left to do."""
        return (self.results / RESULT).exists() and not self.begun


class Judging(Protocol):
    """The reader of studies; tests have another."""

    def known(self, path: Path, data: str) -> Known:
        """Read a study; BadInput where it is none, or where this site is none of its parties."""

    def verdict(self, path: Path, data: str) -> Verdict:
        """Say what is to become of a study in the inbox."""

    def turn(self, path: Path) -> int:
        """Return when a file in the inbox is read: those with the smallest numbers first."""

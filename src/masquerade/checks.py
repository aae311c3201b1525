"""One line of the doctor's answer."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Check", "Verdict"]


class Verdict(StrEnum):
    """The result of a check: a note asks for nothing, a warning may pass by itself, a failure does not."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One check's line.

    Parameters
    ----------
    name : str
        The subject of the check.
    verdict : Verdict
    message : str
        What was seen.
    hint : str
        What to do about it.
    """

    name: str
    verdict: Verdict
    message: str
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {**asdict(self), "verdict": str(self.verdict)}

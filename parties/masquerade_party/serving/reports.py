"""The reports of a run's process, one JSON object a line: how far it is, and how it ended."""

import contextlib
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade_host.process.meter import PATIENCE

__all__ = ["DIED", "Doing", "Ending", "doing_of", "ending_of", "shorten"]

DIED = -1
"""The exit code of a process that died without a word, where the system does not tell by which signal."""

_TAIL = 1 << 16  # bytes of a report that are read: its last event is far shorter
_LONGEST = 8 << 20  # bytes of a report; a run of weeks would make it longer


@dataclass(frozen=True)
class Ending:
    """How a run's process ended: its exit code, negative where it died, and its last words."""

    exit_code: int
    error_code: str = ""
    message: str = ""
    hint: str = ""


def ending_of(report: Path, code: int) -> Ending:
    """Return how a process ended, by its report and by its exit code.

    Parameters
    ----------
    report : path
        Its events, one JSON object a line.
    code : int
        ``DIED`` where the code is not known; then the report says it.
    """
    for event in reversed(_events(report)):
        if event.get("event") == "done" and code in {0, DIED}:
            return Ending(0)
        if event.get("event") == "error" and code in {event.get("exit_code"), DIED}:
            words = (str(event.get(name, "")) for name in ("error_code", "message", "hint"))
            return Ending(int(event["exit_code"]), *words)
    if code >= 0:
        return Ending(code, "", f"the process ended with exit code {code} and gave no reason" if code else "")
    how = f" by {signal.Signals(-code).name}" if -code in set(signal.Signals) and code != DIED else ""
    return Ending(code, "", f"the process of the run was ended{how}")


@dataclass(frozen=True)
class Doing:
    """The last report of a running process.

    Attributes
    ----------
    progress : str
        How far it has come, in words; "" where it does not say.
    late : tuple of str
        Who is waited for.
    seconds : float
        For how long.
    address : str
        Where Charlie is.
    """

    progress: str = ""
    late: tuple[str, ...] = ()
    seconds: float = 0.0
    address: str = ""


def doing_of(report: Path) -> Doing:
    """Return what a process does, by its report."""
    stage, rounds, address, late, seconds = "", "", "", tuple[str, ...](), 0.0
    for event in _events(report):
        match event.get("event"):
            case "stage":
                stage, rounds = str(event.get("name", "")), ""
            case "progress":
                rounds = f"round {event.get('done')} of {event.get('total')}"
            case "connecting" | "unreachable" | "cut_off":
                address = str(event.get("address", ""))
            case "traffic":
                waited = float(event.get("seconds", 0.0))
                names = str(event.get("waited_for", "")).split(", ") if waited >= PATIENCE else []
                late, seconds = tuple(filter(None, names)), waited
    return Doing(", ".join(filter(None, (stage, rounds))), late, seconds, address)


def shorten(report: Path) -> None:
    """Empty a report that has become long."""
    with contextlib.suppress(FileNotFoundError):
        if report.stat().st_size > _LONGEST:
            os.truncate(report, 0)


def _events(report: Path) -> list[dict[str, Any]]:
    """Return the last events of a report; a line that is not whole is left out."""
    try:
        with report.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                found.append(event)
    return found

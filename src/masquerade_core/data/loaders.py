"""How a protocol reads records, and what it makes of them. What reads is loaded when something is read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade_core.study import Study

__all__ = ["POINTS", "Loader"]


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
    """

    one: Callable[[Path | str, Study], Any]
    grouped: Callable[[Path | str, Study, str], dict[str, Any]]
    check: Callable[..., None]
    streamed: Callable[[Path | str, Study, Path | str], Any] | None = None
    grid_of: Callable[[Study], Any] | None = None


def _one(path: Path | str, study: Study) -> Any:
    from masquerade_core.data.loading import load_csv

    return load_csv(path, study)


def _grouped(path: Path | str, study: Study, column: str) -> dict[str, Any]:
    from masquerade_core.data.groups import load_grouped

    return dict(load_grouped(path, study, column))


def _check(data: Any, study: Study, source: str, party: str = "") -> None:
    from masquerade_core.data.loading import check_points

    check_points(data, study, source, party)


def _streamed(path: Path | str, study: Study, folder: Path | str) -> Any:
    from masquerade_core.data.loading import stream_csv

    return stream_csv(path, study, folder)


POINTS = Loader(_one, _grouped, _check, _streamed)
"""Records as vectors in the unit ball, with labels: what a classifier is learned from."""

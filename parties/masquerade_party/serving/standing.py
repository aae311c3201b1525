"""``masquerade site status``: what the folders of a site say. It reads them and nothing else."""

import contextlib
import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from masquerade_party.serving.folders import LOCK, Folders, Item, Place, Record
from masquerade_party.serving.reports import Doing, doing_of
from masquerade_party.serving.settings import load_settings

__all__ = ["Standing", "Study", "standing_now", "standing_of"]


@dataclass(frozen=True)
class Study:
    """A study's file, its record, and what its run does, if it runs."""

    item: Item
    record: Record
    doing: Doing


@dataclass(frozen=True)
class Standing:
    """A site at one moment.

    Attributes
    ----------
    root : Path
    serving : bool
        Whether a process serves the folder.
    data : tuple of str
        The names of the data sets.
    studies : tuple of Study
        By data set, and by folder: what runs, what waits, what is refused, what is done.
    others : tuple of (Place, int)
        The numbers of studies in the folders that were not read.
    """

    root: Path
    serving: bool
    data: tuple[str, ...]
    studies: tuple[Study, ...]
    others: tuple[tuple[Place, int], ...] = ()


_ORDER = (Place.RUNNING, Place.INBOX, Place.REFUSED, Place.DONE)


def standing_of(folder: Path | str) -> Standing:
    """Return how a site stands.

    Raises
    ------
    BadInput
        The folder has no ``site.toml``, or none that is valid.
    """
    root = Path(folder).absolute()
    data = tuple(load_settings(root).data)
    return _standing(root, data, _ORDER, serving=_serving(root))


def standing_now(root: Path, data: Sequence[str]) -> Standing:
    """Return how a site stands that this process serves: what runs and what waits. The rest is counted."""
    return _standing(root, tuple(data), _ORDER[:2], serving=True)


def _standing(root: Path, data: tuple[str, ...], order: Sequence[Place], *, serving: bool) -> Standing:
    folders = Folders(root)
    items = [item for name in data for place in order for item in folders.items(place, name)]
    rest = (place for place in _ORDER if place not in order)
    others = tuple((place, sum(len(folders.items(place, name)) for name in data)) for place in rest)
    return Standing(root, serving, data, tuple(_study(folders, item) for item in items), others)


def _study(folders: Folders, item: Item) -> Study:
    doing = doing_of(folders.events(item)) if item.place is Place.RUNNING else Doing()
    return Study(item, folders.record(item), doing)


def _serving(root: Path) -> bool:
    """Say whether a process holds the folder."""
    try:
        lock = os.open(root / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    with contextlib.closing(os.fdopen(lock)):
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

"""``masquerade site status``: what the folders of a site say. It reads them and nothing else."""

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from masquerade_party.serving.folders import LOCK, Folders, Item, Place, Record
from masquerade_party.serving.reports import progress_of
from masquerade_party.serving.settings import load_settings

__all__ = ["Standing", "Study", "standing_of"]


@dataclass(frozen=True)
class Study:
    """A study's file, its record, and how far its run has come, if it runs."""

    item: Item
    record: Record
    progress: str = ""


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
    """

    root: Path
    serving: bool
    data: tuple[str, ...]
    studies: tuple[Study, ...]


def standing_of(folder: Path | str) -> Standing:
    """Return how a site stands.

    Raises
    ------
    BadInput
        The folder has no ``site.toml``, or none that is valid.
    """
    root = Path(folder).absolute()
    data = tuple(load_settings(root).data)
    folders = Folders(root)
    order = (Place.RUNNING, Place.INBOX, Place.REFUSED, Place.DONE)
    items = [item for name in data for place in order for item in folders.items(place, name)]
    return Standing(root, _serving(root), data, tuple(_study(folders, item) for item in items))


def _study(folders: Folders, item: Item) -> Study:
    progress = progress_of(folders.events(item)) if item.place is Place.RUNNING else ""
    return Study(item, folders.record(item), progress)


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

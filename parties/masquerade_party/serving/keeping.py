"""Removes old studies and results of a site after the days that ``[keep]`` in ``site.toml`` says; without it, nothing.

It removes studies that are done or refused, with their records and logs, and folders of results. What waits or runs
stays. So does a folder without a result, for it may hold the evidence of a fault. Nothing in the state folder is ever
removed here: neither the ledger of the privacy budget nor an approval.
"""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from masquerade_host.store.results import RESULT
from masquerade_party.serving.folders import Folders, Item, Place
from masquerade_party.serving.settings import Keep

__all__ = ["Keeper"]

_DAY = 86_400.0
_EVERY = 3600.0  # seconds between two looks
_REMOVED = ".removed-"  # before the name of a folder that is on its way out


class Keeper:
    """Removes what a site no longer keeps.

    Parameters
    ----------
    folders : Folders
    data : tuple of str
        The names of the data sets.
    results : Path
        The folder with the results of all data sets.
    keep : Keep
    say : callable
        Takes a line of the log for everything that is removed.
    clock : callable
        Seconds, the system's clock.
    """

    def __init__(
        self,
        folders: Folders,
        data: tuple[str, ...],
        results: Path,
        keep: Keep,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folders, self._data, self._results = folders, data, results
        self._keep, self._say, self._clock = keep, say, clock
        self._next = 0.0

    def look(self) -> None:
        """Remove what is due, once an hour. What cannot be removed is told of, and tried again."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _EVERY
        for data in self._data:
            for place, days in ((Place.DONE, self._keep.done), (Place.REFUSED, self._keep.refused)):
                if days is not None:
                    self._remove_studies(place, data, now - days * _DAY, days)
            if self._keep.results is not None:
                self._remove_results(data, now - self._keep.results * _DAY, self._keep.results)

    def _remove_studies(self, place: Place, data: str, before: float, days: int) -> None:
        for item in self._folders.items(place, data):
            with self._telling(data, item.name):
                if self._moved(item) < before:
                    self._folders.remove(item)
                    self._say(f"{data}: {item.name} was {place} for {days} days, and is removed")

    def _moved(self, item: Item) -> float:
        """Return when a study came into its folder: never too early, where its record is lost."""
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(self._folders.record(item).changed).timestamp()
        status = self._folders.study(item).lstat()
        return max(status.st_mtime, status.st_ctime)

    def _remove_results(self, data: str, before: float, days: int) -> None:
        with self._telling(data, "results"):
            for folder in self._result_folders(data):
                with self._telling(data, folder.name):
                    if not folder.name.startswith(_REMOVED):
                        if (folder / RESULT).lstat().st_mtime >= before:
                            continue
                        folder = folder.rename(folder.with_name(_REMOVED + folder.name))  # noqa: PLW2901
                        self._say(
                            f"{data}: results {folder.name.removeprefix(_REMOVED)} are {days} days old, and removed"
                        )
                    shutil.rmtree(folder)

    def _result_folders(self, data: str) -> Iterator[Path]:
        """Yield the folders with a result that no study needs which waits or runs, and those half removed."""
        items = (item for place in (Place.INBOX, Place.RUNNING) for item in self._folders.items(place, data))
        needed = {self._folders.record(item).results for item in items}
        for folder in sorted((self._results / data).glob("*")):
            if folder.is_symlink() or not folder.is_dir():
                continue
            if folder.name.startswith(_REMOVED) or ((folder / RESULT).is_file() and str(folder) not in needed):
                yield folder

    @contextlib.contextmanager
    def _telling(self, data: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._say(f"{data}: {name} cannot be removed: {error.strerror}")

"""The folders of a site: where a study's file lies says what has become of it.

A file moves by one rename, so that it is in one folder at every moment, also after a power cut. Beside it lies a small
*record* in JSON, with the reason. A record that is lost or broken costs its words and nothing else.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade_core.errors import BadInput
from masquerade_host.store.state import private_folder, sync_folder, write_private

__all__ = ["GONE", "LOCK", "Folders", "Item", "Mark", "Place", "Record", "State", "mark_of"]

LOCK = ".site.lock"
"""The file that the site's process holds locked."""

_STUDY = ".toml"
_RECORD = ".site.json"
_LOG = ".log"
_EVENTS = ".events"


class Place(StrEnum):
    """The four folders."""

    INBOX = "inbox"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"


class State(StrEnum):
    """The state of a study in its record."""

    NEW = "new"
    WAITS = "waits"
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


_BY_PLACE = {Place.INBOX: State.NEW, Place.RUNNING: State.RUNNING, Place.DONE: State.DONE, Place.REFUSED: State.REFUSED}


@dataclass(frozen=True, order=True)
class Item:
    """A study's file: in which folder, for which data set, and its name without ``.toml``."""

    place: Place
    data: str
    name: str


class Record(BaseModel):
    """The record of a study's file: its state, and the reason. It says nothing of the records, and nothing secret.

    Attributes
    ----------
    schema_version : int
    state : State
    message, hint : str
        Why, in a sentence, and what to do.
    exit_code, error_code : int, str
        As the commands have them; 0 and "" where nothing is wrong.
    study, fingerprint, participant : str
        The study's own name, its fingerprint, and which party this site is; "" where they are not known.
    changed : str
        When the state was written, in UTC.
    tries : int
        How many runs have ended without a result.
    crashes : int
        How many processes died, one after the other, without a word.
    not_before : float
        The next run does not begin before this time, in seconds of the system's clock.
    results : str
        The folder with the results.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: Literal[1] = 1
    state: State = State.NEW
    message: str = ""
    hint: str = ""
    exit_code: int = 0
    error_code: str = ""
    study: str = ""
    fingerprint: str = ""
    participant: str = ""
    changed: str = ""
    tries: Annotated[int, Field(ge=0)] = 0
    crashes: Annotated[int, Field(ge=0)] = 0
    not_before: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    results: str = ""

    def but(self, **changes: Any) -> "Record":
        """Return the record with some values exchanged."""
        return self.model_copy(update=changes)


Mark = tuple[int, int, int]
GONE: Mark = (0, 0, 0)
"""The mark of a file that is not there."""


def mark_of(path: Path) -> Mark:
    """Return what changes when somebody writes to a file; ``GONE`` where it is not there."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return GONE
    return found.st_ino, found.st_size, found.st_mtime_ns


class Folders:
    """The folders below one folder, ``inbox/NAME`` and so on for each data set.

    Parameters
    ----------
    root : Path
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self, data: Iterable[str]) -> None:
        """Make what is missing, and remove records whose study's file is not there.

        Raises
        ------
        BadInput
            A folder cannot be made.
        """
        try:
            for folder in (self.folder(place, name) for name in data for place in Place):
                private_folder(folder)
                for record in folder.glob(f"*{_RECORD}"):
                    if not os.path.lexists(folder / (record.name.removesuffix(_RECORD) + _STUDY)):
                        record.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(
                f"the folder {error.filename} cannot be used: {error.strerror}", "see who owns it"
            ) from error

    def folder(self, place: Place, data: str) -> Path:
        """Return a folder."""
        return self.root / place / data

    def study(self, item: Item) -> Path:
        """Return the path of a study's file."""
        return self.folder(item.place, item.data) / (item.name + _STUDY)

    def log(self, item: Item) -> Path:
        """Return the path of the log of its runs."""
        return self.folder(item.place, item.data) / (item.name + _LOG)

    def events(self, item: Item) -> Path:
        """Return the path of what the running process reports. It is for the owner alone, and goes with the process."""
        return self.folder(Place.RUNNING, item.data) / f".{item.name}{_EVENTS}"

    def lock(self, data: str) -> Path:
        """Return the file that the process of a run over this data set holds locked."""
        return self.folder(Place.RUNNING, data) / ".lock"

    def items(self, place: Place, data: str) -> list[Item]:
        """Return the studies in a folder, by name. A name that begins with a dot is none."""
        try:
            names = os.listdir(self.folder(place, data))  # noqa: PTH208  names are enough
        except FileNotFoundError:
            return []
        return sorted(
            Item(place, data, name.removesuffix(_STUDY))
            for name in names
            if name.endswith(_STUDY) and not name.startswith(".") and name != _STUDY
        )

    def mark(self, item: Item) -> Mark:
        """Return what changes when somebody writes to a study's file."""
        return mark_of(self.study(item))

    def record(self, item: Item) -> Record:
        """Return the record of a study; a new one where there is none, or where it cannot be read."""
        try:
            return Record.model_validate_json(self._record(item).read_bytes())
        except (OSError, ValidationError):
            return Record(state=_BY_PLACE[item.place])

    def write(self, item: Item, record: Record) -> None:
        """Write a record, whole or not at all, unless it stands there already."""
        path = self._record(item)
        text = record.model_dump_json(indent=2) + "\n"
        with contextlib.suppress(OSError):
            if path.read_text(encoding="utf-8") == text:
                return
        write_private(path, text)

    def move(self, item: Item, place: Place, record: Record, name: str = "") -> Item:
        """Move a study's file to another folder, with its record and its log; return where it is now.

        It keeps its name unless it is given another. If a file there has the name, this one gets a number.
        """
        name = name or item.name
        new, number = Item(place, item.data, name), 1
        while os.path.lexists(self.study(new)):
            number += 1
            new = Item(place, item.data, f"{name}-{number}")
        self.write(new, record)
        self.study(item).rename(self.study(new))
        with contextlib.suppress(OSError):  # there is none, or the name is too long for one
            self.log(item).rename(self.log(new))
        if item.place is Place.RUNNING:
            self.events(item).unlink(missing_ok=True)
        self.forget(item)
        sync_folder(self.folder(item.place, item.data))
        sync_folder(self.folder(place, item.data))
        return new

    def bring(self, item: Item, place: Place, beside: str) -> None:
        """Let the file that a study names lie beside it in another folder as well."""
        source, target = (self.folder(where, item.data) / beside for where in (item.place, place))
        if place is Place.INBOX and target.exists():  # a person may have put a newer one there
            return
        part = target.with_name(f".{beside}.part")
        part.unlink(missing_ok=True)
        try:
            part.hardlink_to(source)
        except OSError:  # the folders are on two disks, or the file is another user's
            shutil.copyfile(source, part, follow_symlinks=False)
        part.replace(target)
        part.unlink(missing_ok=True)  # two names of one file: then the system has replaced nothing

    def remove(self, item: Item) -> None:
        """Remove a study's file, and its log and its record after it."""
        self.study(item).unlink()
        self.log(item).unlink(missing_ok=True)
        self.forget(item)

    def forget(self, item: Item) -> None:
        """Remove the record of a study whose file is gone."""
        with contextlib.suppress(OSError):  # there is none, or the name is too long for one
            self._record(item).unlink()

    def _record(self, item: Item) -> Path:
        return self.folder(item.place, item.data) / (item.name + _RECORD)

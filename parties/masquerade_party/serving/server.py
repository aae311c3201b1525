"""A site's round over its folders: it judges new studies, begins runs that are due, and ends those that are over.

All that it decides follows from the folders, the records beside the studies, and the state folders. So a site that was
killed at any moment goes on where it was.
"""

import hashlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from masquerade_core.errors import BadInput, MasqueradeError
from masquerade_core.words import counted, printable
from masquerade_party.serving.children import Child, Runner
from masquerade_party.serving.folders import GONE, Folders, Item, Mark, Place, Record, State
from masquerade_party.serving.reports import Ending, ending_of, shorten
from masquerade_party.serving.verdicts import Facts, Judging, Kind, Known, Verdict

__all__ = ["SETTLED", "Judging", "Server"]

SETTLED = 2.0
"""Seconds for which nobody may have written to a file in the inbox before it is read."""

_AGAIN = frozenset({2, 3})  # nobody was there, or not all: another try helps, however many there were
_NEVER = frozenset({4, 6, 7, 8})  # for people to look at
_TRIES = 5  # of a run that fails
_CRASHES = 5  # of a process that dies, one after the other
_LIVED = 60.0  # seconds after which a process that dies was no immediate crash
_FIRST, _LONGEST = 30.0, 600.0  # seconds between two tries
_LOOK = 1.0  # seconds of one look for reading files, and as many for moving them
_LONGEST_NAME = 128  # bytes: the record beside a file has a longer one
_AT_ONCE = 1.0  # seconds before a process that died is started again, the first time


@dataclass
class _Run:
    """A process, its study, and when it was started."""

    item: Item
    child: Child
    since: float
    stopped: bool = False


@dataclass
class _Seen:
    """A file in the inbox: what it looked like last, and since when."""

    mark: Mark
    since: float


class Server:
    """Serves the data sets of one site.

    Parameters
    ----------
    folders : Folders
    data : tuple of str
        The names of the data sets.
    judge : Judging
    runner : Runner
    say : callable
        Takes what is worth a line of the log.
    clock, monotonic : callable
        Seconds: the system's clock, and one that never goes back.
    """

    def __init__(
        self,
        folders: Folders,
        data: tuple[str, ...],
        judge: Judging,
        runner: Runner,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders, self._data = folders, data
        self._judge, self._runner, self._say = judge, runner, say
        self._clock, self._monotonic = clock, monotonic
        self._runs: dict[str, _Run] = {}
        self._seen: dict[Item, _Seen] = {}
        self._trouble: dict[str, str] = {}
        self._stuck: dict[Item, str] = {}

    def look(self) -> None:
        """Look at all folders once, and do what is due. A disk that fails is told of, and tried again."""
        for data in self._data:
            try:
                self._look(data)
                self._trouble.pop(data, None)
            except OSError as error:
                words = f"{data}: {error.filename or 'a file'} cannot be used: {error.strerror}"
                if self._trouble.get(data) != words:
                    self._say(words)
                self._trouble[data] = words

    def stop(self) -> None:
        """End all processes as a power cut does: their runs go on when the site is started again."""
        for run in self._runs.values():
            if run.child.ended() is None:
                run.child.stop(signal.SIGKILL)
                self._say(f"{run.item.data}: {run.item.name} was stopped; it goes on when the site starts again")

    def _look(self, data: str) -> None:
        run = self._runs.get(data) or self._adopt(data)
        if run is not None:
            self._follow(run)
        ready, refused = self._sort(data)
        if data not in self._runs:
            held = self._folders.items(Place.RUNNING, data)
            if held:
                self._go_on(held[0])
            elif ready:
                self._begin(min(ready)[-1])
        self._put_away(refused)

    # --- A run --------------------------------------------------------------------

    def _adopt(self, data: str) -> _Run | None:
        """Look for a process of a site before this one."""
        child = self._runner.adopted(data)
        if child is None:
            return None
        held = self._folders.items(Place.RUNNING, data)
        item = child.item if child.item.name or not held else held[0]
        self._runs[data] = _Run(item, child, self._monotonic())
        self._say(f"{data}: {item.name} still runs, in a process that an earlier site started")
        return self._runs[data]

    def _begin(self, item: Item) -> None:
        """Start the run of a study in the inbox."""
        known = self._known(item)
        if isinstance(known, MasqueradeError):  # somebody has just written to it: the next look judges it anew
            return
        if known.beside:
            self._folders.bring(item, Place.RUNNING, known.beside)
        record = self._said(self._folders.record(item), State.RUNNING, known.facts, results=str(known.results))
        new = self._folders.move(item, Place.RUNNING, record)
        self._seen.pop(item, None)
        self._start(new, known)

    def _go_on(self, item: Item) -> None:
        """Go on with a study that has begun and has no process."""
        record = self._folders.record(item)
        if self._clock() < record.not_before:
            return
        known = self._known(item)
        if isinstance(known, MasqueradeError):
            self._refuse(item, record, _ending(known))
            return
        if known.over:
            self._done(item, record.but(results=str(known.results)), known)
            return
        self._folders.write(item, self._said(record, State.RUNNING, known.facts, results=str(known.results)))
        self._start(item, known)

    def _start(self, item: Item, known: Known) -> None:
        child = self._runner.start(item, known)
        self._runs[item.data] = _Run(item, child, self._monotonic())
        self._say(f"{item.data}: {item.name} runs")

    def _follow(self, run: _Run) -> None:
        """Look after a process."""
        gone = self._folders.mark(run.item) == GONE
        code = run.child.ended()
        if code is None:
            shorten(self._folders.events(run.item))
            if gone and not run.stopped:  # a person has taken the study away: the others are told
                run.stopped = True
                self._say(f"{run.item.data}: {run.item.name} was taken away, so its run ends")
                run.child.stop(signal.SIGTERM)
            return
        report = self._folders.events(run.item)
        if gone:
            self._folders.forget(run.item)
            report.unlink(missing_ok=True)
        else:
            self._end(run, ending_of(report, code))
        del self._runs[run.item.data]

    def _end(self, run: _Run, ending: Ending) -> None:
        """Decide what follows from the end of a process."""
        item, record = run.item, self._folders.record(run.item)
        known = self._known(item)
        if isinstance(known, MasqueradeError):  # somebody has written to the study's file
            self._refuse(item, record, _ending(known))
            return
        code = ending.exit_code
        if code == 0 or known.over:
            self._done(item, record, known)
        elif code in _NEVER:
            self._refuse(item, record, ending)
        elif code < 0 or known.begun:
            self._crashed(run, record, ending)
        else:
            self._failed(item, record, ending, known)

    def _crashed(self, run: _Run, record: Record, ending: Ending) -> None:
        """The process died in the midst of a run: the same command goes on with it."""
        lived = self._monotonic() - run.since >= _LIVED
        crashes = 1 if lived else record.crashes + 1
        if crashes > _CRASHES:
            self._refuse(run.item, record.but(crashes=0), ending, State.FAILED, counted(crashes, "time"))
            return
        after = min(_AT_ONCE * 2 ** (crashes - 1), _LONGEST)
        record = self._said(record, State.RUNNING, None, ending, crashes=crashes, not_before=self._clock() + after)
        self._folders.write(run.item, record)
        self._say(f"{run.item.data}: {ending.message}; {run.item.name} goes on in {after:g} s")

    def _failed(self, item: Item, record: Record, ending: Ending, known: Known) -> None:
        """The run ended without a result: another try comes later, and other studies have their turn before it."""
        tries = record.tries + 1
        if ending.exit_code not in _AGAIN and tries >= _TRIES:
            self._refuse(item, record.but(tries=0, crashes=0), ending, State.FAILED, counted(tries, "time"))
            return
        after = min(_FIRST * 2 ** min(tries - 1, 16), _LONGEST)
        if known.beside:
            self._folders.bring(item, Place.INBOX, known.beside)
        later = self._clock() + after
        record = self._said(record, State.QUEUED, None, ending, tries=tries, crashes=0, not_before=later)
        self._folders.move(item, Place.INBOX, record)
        self._say(f"{item.data}: {item.name} ended: {ending.message}; the next try is in {after:g} s")

    def _done(self, item: Item, record: Record, known: Known) -> None:
        record = self._said(record, State.DONE, known.facts, tries=record.tries + 1, results=str(known.results))
        self._folders.move(item, Place.DONE, record.but(crashes=0, not_before=0.0))
        self._say(f"{item.data}: {item.name} is done; the results are in {known.results}")

    def _refuse(
        self, item: Item, record: Record, ending: Ending, state: State = State.REFUSED, often: str = ""
    ) -> None:
        if often:
            ending = Ending(ending.exit_code, ending.error_code, f"{ending.message} ({often})", ending.hint)
        record = self._said(record, state, None, ending, not_before=0.0)
        self._folders.move(item, Place.REFUSED, record, _safe(item.name))
        self._seen.pop(item, None)
        self._say(f"{item.data}: {item.name} is {state} (exit code {ending.exit_code}): {ending.message}")

    # --- The inbox -----------------------------------------------------------------

    def _sort(self, data: str) -> tuple[list[tuple[int, int, Item]], list[tuple[Item, Record, Ending]]]:
        """Judge the studies in the inbox, as many as there is time for at one look; the next look goes on.

        Returns
        -------
        ready : list
            Those that may run now, each with what orders them.
        refused : list
            Those that never may, each with its record and the reason.
        """
        ready, refused = [], []
        items = self._folders.items(Place.INBOX, data)
        for item in {known for known in self._seen if known.data == data}.difference(items):
            del self._seen[item]
            self._folders.forget(item)
        end = self._monotonic() + _LOOK
        for item in sorted(filter(self._settled, items), key=self._turn):
            if self._monotonic() > end:
                break
            verdict, record = self._verdict(item), self._folders.record(item)
            ending = None if verdict.error is None else _ending(verdict.error)
            if verdict.kind is Kind.REFUSED and ending is not None:
                refused.append((item, self._said(record, State.REFUSED, verdict.facts), ending))
                continue
            if verdict.kind is Kind.WAITS:
                self._note(item, self._said(record, State.WAITS, verdict.facts, ending))
                continue
            late = self._clock() < record.not_before
            if record.state is not State.QUEUED:
                self._note(item, self._said(record, State.QUEUED, verdict.facts))
            if not late:
                ready.append((record.tries, self._folders.mark(item)[-1], item))
        return ready, refused

    def _turn(self, item: Item) -> tuple[int, int, str]:
        """Return what orders the reading of files: of those that are new, the short ones come first."""
        return self._judge.turn(self._folders.study(item)), self._seen[item].mark[1], item.name

    def _put_away(self, refused: list[tuple[Item, Record, Ending]]) -> None:
        """Refuse studies, as many as there is time for. One that cannot be moved stays, and hinders no other."""
        end = self._monotonic() + _LOOK
        for item, record, ending in refused:
            if self._monotonic() > end:
                break
            try:
                self._refuse(item, record, ending)
                self._stuck.pop(item, None)
            except OSError as error:
                words = f"{item.data}: {item.name} is refused, and cannot be moved: {error.strerror}"
                if self._stuck.get(item) != words:
                    self._say(words)
                self._stuck[item] = words

    def _settled(self, item: Item) -> bool:
        """Say whether a file has been there long enough without a change; it may still be on its way."""
        mark, now = self._folders.mark(item), self._monotonic()
        seen = self._seen.get(item)
        if seen is None or seen.mark != mark:
            self._seen[item] = _Seen(mark, now)
            return False
        return now - seen.since >= SETTLED

    def _verdict(self, item: Item) -> Verdict:
        if _safe(item.name) != item.name:
            words = f"the name of the file is not one line of text, or has more than {_LONGEST_NAME} bytes"
            why = BadInput(f"{words}: {printable(item.name)}", "submit it again under another name")
            return Verdict(Kind.REFUSED, why)
        try:
            return self._judge.verdict(self._folders.study(item), item.data)
        except Exception as error:  # noqa: BLE001  one study must not end the site
            return Verdict(Kind.REFUSED, _bug(error))

    def _known(self, item: Item) -> Known | MasqueradeError:
        try:
            return self._judge.known(self._folders.study(item), item.data)
        except MasqueradeError as error:
            return error
        except Exception as error:  # noqa: BLE001  one study must not end the site
            return _bug(error)

    def _note(self, item: Item, record: Record) -> None:
        """Write what a study in the inbox waits for, where it is news."""
        old = self._folders.record(item)
        if (old.state, old.message) == (record.state, record.message):
            return
        self._folders.write(item, record)
        words = f": {record.message}" if record.message else ""
        self._say(f"{item.data}: {item.name} {'is ' if record.state is State.QUEUED else ''}{record.state}{words}")

    def _said(
        self, record: Record, state: State, facts: Facts | None, ending: Ending | None = None, **more: Any
    ) -> Record:
        """Return a record with a new state, the reason, and the time."""
        now = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ending = ending or Ending(0)
        if facts is not None:
            more |= vars(facts)
        return record.but(
            state=state, message=ending.message, hint=ending.hint, exit_code=ending.exit_code,
            error_code=ending.error_code, changed=now, **more,
        )  # fmt: skip


def _safe(name: str) -> str:
    """Return a name under which a study's file and its record can lie: its own, or one that has its hash."""
    raw = os.fsencode(name)
    if len(raw) <= _LONGEST_NAME and printable(name) == name:
        return name
    return f"unnamed-{hashlib.blake2b(raw, digest_size=8).hexdigest()}"


def _ending(error: MasqueradeError) -> Ending:
    return Ending(error.exit_code, error.error_code, error.message, error.hint)


def _bug(error: Exception) -> MasqueradeError:
    """Return an error that nobody foresaw without its text, which could hold anything."""
    return MasqueradeError(f"this is a bug: reading the study raised a {type(error).__name__}", "please report it")

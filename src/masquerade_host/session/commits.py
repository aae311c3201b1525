"""Commit and debit before sending: nothing leaves before the journal has what led to it and the budget has paid for it.

A session puts frames aside while it works. At the end of each step :meth:`Commits.post` commits the journal, debits
what the frames release, and only then lets them out. So a process that dies between these steps has paid for something
that never left, and never the reverse. After a restart a session first does again what the journal says
(:mod:`masquerade_host.process.driver`). Nothing leaves meanwhile.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from masquerade_core.errors import COPIES, RunFailed, StateCopied
from masquerade_core.seat import Release
from masquerade_core.wire.frames import Frame
from masquerade_core.words import counted
from masquerade_host.channel import Channel
from masquerade_host.process.progress import Stats
from masquerade_host.store.journal import Entry, ReplayLog, digest_of
from masquerade_host.store.transcript import Recorder

__all__ = ["Commits", "Debits", "NoDebits"]


# --- Budget hook ----------------------------------------------------------------------


class Debits(Protocol):
    """Where a session debits what its releases cost."""

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        """Write down what these releases of this run cost. When this returns, a power cut does not make it less.

        The same label of the same run costs once, however often it is debited: after a restart, a role releases again
        what it had released before, and the first call has all of that.

        Raises
        ------
        BudgetExceeded
            The budget does not cover them.
        RunFailed
            They cannot be written down.
        """

    def labels(self, run: bytes) -> frozenset[str]:
        """Return the labels of all that was debited for this run, by this process or by an earlier one."""


class NoDebits:
    """No budget is kept: that of Charlie, who has no records, and of tests."""

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        """Do nothing."""

    def labels(self, run: bytes) -> frozenset[str]:
        """Return nothing."""
        del run
        return frozenset()


# --- Commit and debit, then send ------------------------------------------------------

_COUNT_BYTES = 8


class Commits:
    """The journal, the budget and the channels of one participant, in the only order in which anything leaves.

    Parameters
    ----------
    me : str
        This participant.
    stats : Stats
        Counts bytes.
    transcript : Recorder
        Of the frames that come.
    debits : Debits, optional
        Where the cost of a release is written down before the release leaves; by default nowhere.

    Attributes
    ----------
    steps : ReplayLog
        What happened, written or compared. By default nothing is written. A caller sets another one before the run.
    releases : list of Release
        What each release so far cost in privacy: all that was debited, whether it has left or not.
    """

    def __init__(self, me: str, stats: Stats, transcript: Recorder, debits: Debits | None = None) -> None:
        self.steps = ReplayLog()
        self.releases: list[Release] = []
        self._me = me
        self._stats = stats
        self._transcript = transcript
        self._debits: Debits = debits or NoDebits()
        self._owed: list[Release] = []  # what the frames that are put aside cost
        # Of many channels, those that the next commit, post or beat concerns.
        self._uncommitted: dict[str, Channel] = {}
        self._ready: dict[str, Channel] = {}
        self._owing: dict[str, Channel] = {}

    def owe(self, releases: Sequence[Release]) -> None:
        """Take note of what the frames cost that are put on a channel next."""
        self._owed += releases

    def put(self, channel: Channel, data: bytes) -> None:
        """Put a numbered frame on a channel: from here on it reaches the other end, or the run ends."""
        self.steps.note("sent", channel.peer, data=digest_of(data))
        self._stats.count(len(data))
        channel.put(data)
        if channel.ready:
            self._ready[channel.peer] = channel

    def accepted(self, channel: Channel, frame: Frame) -> None:
        """Take note of a numbered frame that was accepted, before anything follows from it."""
        self.steps.note("received", channel.peer, data=frame.data)
        self._stats.count(frame.size)
        self._transcript.note("received", frame.source, frame.to, frame.kind, frame.type, frame.body, frame.data)
        self._uncommitted[channel.peer] = channel
        if channel.take(frame.data):
            self._owing[channel.peer] = channel

    def commit(self) -> None:
        """Make safe what happened: only then is it acknowledged, and only then does leave what follows from it."""
        self.steps.commit()
        for channel in self._uncommitted.values():
            channel.commit()
        self._uncommitted.clear()

    def take_owing(self) -> Collection[str]:
        """Return once to whom an acknowledgement must not wait for the next beat."""
        owing, self._owing = self._owing, {}
        return owing

    def confirm(self, channel: Channel, got: int) -> None:
        """Take an acknowledgement, the first of which on a connection may make frames leave again."""
        channel.hear(got)
        if channel.ready:
            self._ready[channel.peer] = channel

    def acknowledged(self, channel: Channel, got: int) -> None:
        """Take the other end's acknowledgement from a beat.

        Raises
        ------
        ProtocolViolation
            The other end's fault: it acknowledges what was never sent.
        StateCopied
            The other end's state is older than it was, or this one's: a process that was started again cannot know
            what an old copy of its journal lacks.
        """
        before = channel.acknowledged
        if got > channel.sent and self.steps.passed:
            raise StateCopied(
                f"{channel.peer} acknowledged {counted(got, 'frame')} of this run, but the journal here says that "
                f"{channel.sent} were sent to it: the state of {self._me} is an old copy, or the number from "
                f"{channel.peer} is false",
                COPIES,
                copied=(self._me, channel.peer),
            )
        self.confirm(channel, got)
        if got > before:
            self.steps.note("acked", channel.peer, data=got.to_bytes(_COUNT_BYTES, "big"))

    def acknowledged_again(self, channel: Channel, row: Entry) -> None:
        """Take an acknowledgement again that came before this process was started."""
        channel.forget(int.from_bytes(row.data, "big"))
        self.steps.note(row.kind, row.peer, data=row.data)

    def post(self, run: bytes) -> None:
        """Write down what happened, pay for it, and let out what waits.

        The journal is written before the ledger. So a ledger never knows of a release that the journal of the same run
        does not, unless somebody put an older journal in its place.
        """
        waiting = [channel for channel in self._ready.values() if channel.ready]
        if self.steps.due is not None or not (waiting or self._owed):
            return
        self.commit()
        if self._owed:
            owed, self._owed = self._owed, []
            self._debits.debit(run, owed)
            self.releases.extend(owed)
        self._ready.clear()
        for channel in waiting:
            channel.flush()

    def check_ledger(self, run: bytes) -> None:
        """After a replay, check that the ledger knows no release of this run that the journal does not.

        Raises
        ------
        RunFailed
            It knows one, so the journal is an older copy.
        """
        known = {release.label for release in (*self.releases, *self._owed)}
        if unknown := sorted(self._debits.labels(run) - known):
            raise RunFailed(
                f"this machine's journal is older than its ledger, which has a debit for {unknown[0]!r} of this run: "
                "it is an old copy",
                "nothing was sent, and the debits stay; this attempt is over. Never restore a journal: keep the state "
                "folder out of backups",
            )

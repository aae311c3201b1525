"""Commit before send: nothing leaves a session before everything that led to it is in the journal.

A session puts frames aside while it works. At the end of each step it commits the journal, has the budget pay for what
the frames release, and only then lets them out. After a restart it first does again what the journal says
(:mod:`masquerade_host.process.driver`). Nothing leaves meanwhile.

The budget hook of a session: it writes a cost into the ledger before anything leaves.

A role counts what its next message costs in privacy. The session has this debited first, and only then puts the message
on the wire. So a process that dies between the two has paid for something that never left, and never the reverse.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from masquerade_core.errors import COPIES, RunFailed, StateCopied
from masquerade_core.seat import Release
from masquerade_core.wire.frames import Frame
from masquerade_core.words import counted
from masquerade_host.channel.channel import Channel
from masquerade_host.process.progress import Stats
from masquerade_host.store.journal import Entry, ReplayLog, digest_of
from masquerade_host.store.transcript import Recorder

__all__ = ["Debits", "Journaling", "NoDebits"]


# --- Budget hook ----------------------------------------------------------------------


class Debits(Protocol):
    """Where a session debits what its releases cost."""

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        """Write down what these releases of this run cost. When this returns, a power cut does not lose it.

        The same label of the same run costs once, however often it is debited: after a restart, a role releases again
        what it had released before.

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


# --- Commit before send ---------------------------------------------------------------

_COUNT_BYTES = 8


class Journaling(ABC):
    """The side of a session that a restart needs.

    Parameters
    ----------
    debits : Debits, optional
        Where the cost of a release is written down before the release leaves; by default nowhere.

    Attributes
    ----------
    me : str
        This participant.
    run : bytes
        The id of the run, once it is known.
    steps : ReplayLog
        What happened, written or compared. By default nothing is written. A caller sets another one before the run.
    releases : list of Release
        What each release so far cost in privacy: all that was debited, whether it has left or not.
    """

    me: str
    run: bytes
    stats: Stats
    transcript: Recorder

    def __init__(self, debits: Debits | None = None) -> None:
        self.steps = ReplayLog()
        self.releases: list[Release] = []
        self._debits: Debits = debits or NoDebits()
        self._due: list[Release] = []  # what the next send costs
        self._owed: list[Release] = []  # what the frames that are put aside cost
        # Of many channels, those that the next commit, flush or beat concerns.
        self._uncommitted: dict[str, Channel] = {}
        self._ready: dict[str, Channel] = {}
        self._owing: dict[str, Channel] = {}

    @property
    @abstractmethod
    def _channels(self) -> tuple[Channel, ...]:
        """The numbered frames of each hop."""

    def _outgo(self, channel: Channel, data: bytes) -> None:
        """Put a numbered frame on a channel: from here on it reaches the other end, or the run ends."""
        self.steps.note("sent", channel.peer, data=digest_of(data))
        self.stats.count(len(data))
        channel.put(data)
        if channel.ready:
            self._ready[channel.peer] = channel

    def _accepted(self, channel: Channel, frame: Frame) -> None:
        """Take note of a numbered frame that was accepted, before anything follows from it."""
        self.steps.note("received", channel.peer, data=frame.data)
        self.stats.count(frame.size)
        self.transcript.received(channel.peer, frame.data)
        channel.take(frame.data)
        self._uncommitted[channel.peer] = channel
        if channel.owes:
            self._owing[channel.peer] = channel

    def _commit(self) -> None:
        """Make safe what happened: only then is it acknowledged, and only then does leave what follows from it."""
        self.steps.commit()
        for channel in self._uncommitted.values():
            channel.commit()
        self._uncommitted.clear()

    def _confirm(self, channel: Channel, got: int) -> None:
        """Take an acknowledgement, the first of which on a connection may make frames leave again."""
        channel.hear(got)
        if channel.ready:
            self._ready[channel.peer] = channel

    def _acknowledged(self, channel: Channel, got: int) -> None:
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
                f"{channel.peer} acknowledged {counted(got, 'frame')} of this run, and by the journal here "
                f"{channel.sent} were sent to it: the state of {self.me} is an old copy, or {channel.peer} said what "
                "is not so",
                COPIES,
                copied=(self.me, channel.peer),
            )
        self._confirm(channel, got)
        if got > before:
            self.steps.note("acked", channel.peer, data=got.to_bytes(_COUNT_BYTES, "big"))

    def _post(self) -> None:
        """Write down what happened, pay for it, and let out what waits.

        The journal is written before the ledger. So a ledger never knows of a release that the journal of the same run
        does not, unless somebody put an older journal in its place.
        """
        waiting = [channel for channel in self._ready.values() if channel.ready]
        if self.steps.due is not None or not (waiting or self._owed):
            return
        self._commit()
        if self._owed:
            owed, self._owed = self._owed, []
            self._debits.debit(self.run, owed)
            self.releases.extend(owed)
        self._ready.clear()
        for channel in waiting:
            channel.flush()

    def check_ledger(self) -> None:
        """After a replay, check that the ledger knows no release of this run that the journal does not.

        Raises
        ------
        RunFailed
            It knows one, so the journal is an older copy.
        """
        known = {release.label for release in (*self.releases, *self._owed)}
        if unknown := sorted(self._debits.labels(self.run) - known):
            raise RunFailed(
                f"this machine's journal is older than its ledger, which has a debit for {unknown[0]!r} of this run: "
                "it is an old copy",
                "nothing was sent, and the debits stay; this attempt is over. Never restore a journal: keep the state "
                "folder out of backups",
            )

    def again(self, row: Entry) -> None:
        """Take again what came from outside before this process was started."""
        if row.kind == "acked":
            (channel,) = (channel for channel in self._channels if channel.peer == row.peer)
            channel.forget(int.from_bytes(row.data, "big"))
            self.steps.note(row.kind, row.peer, data=row.data)
        else:
            self._take_again(row)

    @abstractmethod
    def _take_again(self, row: Entry) -> None:
        """Take a frame again, or the loss of a party."""

    @abstractmethod
    def look_again(self) -> None:
        """Answer the role if its answer is there."""

    def resumed(self, nonce: bytes) -> None:
        """Take note that this process goes on with what an earlier one began; ``nonce`` is fresh."""
        del nonce  # Charlie asks nobody

    def let_go(self) -> bool:
        """Send what this session holds back, for it was sent before; return whether there was anything."""
        return False

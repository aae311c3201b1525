"""A lane: one end's numbered frames on a hop, kept until they are acknowledged, and sent again on a new connection.

A *hop* is the way between one party and Charlie. It outlives its connections. Each end keeps what it sent until the
other end has said, in a beat, that it holds it. On a new connection nobody sends a numbered frame before the other
end's beat of that connection has come: the beat says from where on to send again. So the frames of one connection have
no gap.
"""

import secrets
from collections import deque
from collections.abc import Callable

from masquerade_core.errors import ProtocolViolation, StateCopied
from masquerade_core.grounds import COPIES
from masquerade_core.words import counted

__all__ = ["CONNECTIONS", "MAX_KEPT", "Lane", "first_connection"]

MAX_KEPT = 64 * 1024 * 1024
"""Bytes of one hop that wait for their acknowledgement, at most."""

_ACKNOWLEDGE = 4 * 1024 * 1024  # bytes after which an acknowledgement does not wait for the next beat


CONNECTIONS = 1 << 16
"""How many connections one process can number."""


def first_connection() -> int:
    """Return the number of a process's first connection: a random tag of the process, and then a count."""
    return (1 + secrets.randbelow(CONNECTIONS - 1)) * CONNECTIONS


class Lane:
    """One end's numbered frames on one hop.

    Parameters
    ----------
    peer : str
        The participant at the other end.
    send : callable
        Puts a frame on the connection of the moment.

    Attributes
    ----------
    peer : str
        The participant at the other end.
    connection : int
        The number of the connection, which the party chooses and Charlie repeats; 0 before the first beat.
    ready : list of bytes
        The frames that leave at the next :meth:`flush`.
    live : bool
        The other end's beat of this connection has come, so numbered frames may leave.
    acknowledged : int
        How many frames the other end holds for certain.
    kept : int
        Bytes of the frames that are kept.
    taken : int
        How many frames of the other end were accepted.
    got : int
        How many of these are safe here: an acknowledgement counts no others.
    """

    def __init__(self, peer: str, send: Callable[[bytes], None]) -> None:
        self.peer = peer
        self._send = send
        self._frames: deque[bytes] = deque()
        self._unsaid = 0
        self.ready: list[bytes] = []
        self.connection = 0
        self.live = False
        self.acknowledged = 0
        self.kept = 0
        self.taken = 0
        self.got = 0

    @property
    def sent(self) -> int:
        """How many frames were put on this lane."""
        return self.acknowledged + len(self._frames)

    @property
    def all_acknowledged(self) -> bool:
        """Whether the other end holds everything."""
        return not self._frames

    @property
    def owes(self) -> bool:
        """Whether so much has come since the last beat that an acknowledgement must not wait."""
        return self._unsaid > _ACKNOWLEDGE

    def put(self, data: bytes) -> None:
        """Keep a frame, and send it if the connection is there."""
        self._frames.append(data)
        self.kept += len(data)
        if self.live:
            self.ready.append(data)

    def flush(self) -> None:
        """Send what is ready to leave."""
        ready, self.ready = self.ready, []
        for data in ready:
            self._send(data)

    def take(self, data: bytes) -> None:
        """Count a frame of the other end that was accepted."""
        self.taken += 1
        self._unsaid += len(data)

    def commit(self) -> None:
        """All frames that were accepted are safe here, and may be acknowledged."""
        self.got = self.taken

    def say(self) -> int:
        """Return what a beat acknowledges: how many frames of the other end are safe here."""
        self._unsaid = 0
        return self.got

    def hear(self, got: int) -> None:
        """Take an acknowledgement. If it is the first one on this connection, send again what the other end lacks.

        Raises
        ------
        ProtocolViolation
            The fault of the other end: it acknowledges what was never sent.
        StateCopied
            The other end holds less than it has acknowledged before: its state is older than it was.
        """
        if got > self.sent:
            raise ProtocolViolation(
                f"{self.peer} acknowledged {counted(got, 'frame')} of this run; allowed are at most the {self.sent} "
                "that were sent to it",
                peer=self.peer,
            )
        if got < self.acknowledged:
            raise StateCopied(
                f"{self.peer} says that it holds {counted(got, 'frame')} of this run, and has acknowledged "
                f"{self.acknowledged} before: its state is an old copy, or two processes use copies of it",
                COPIES,
                copied=(self.peer,),
            )
        self.forget(got)
        if not self.live:
            self.live = True
            self.ready = list(self._frames)

    def forget(self, got: int) -> None:
        """Discard acknowledged frames; ``got`` is how many the other end holds."""
        while self.acknowledged < got:
            self.kept -= len(self._frames.popleft())
            self.acknowledged += 1

    def break_off(self) -> None:
        """The connection is gone: keep everything until the next one."""
        self.live = False
        self.ready = []

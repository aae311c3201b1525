"""A reliable channel: one end's numbered frames, over connections that come and go.

A *hop* is the way between one party and Charlie. It outlives its connections. A channel is one end of a hop. It knows
no run and no role: it counts the frames that it is given, and says which of them may leave.

*Acknowledgements.* Each end keeps what it sent until the other end has said, in a beat, that it holds it. On a new
connection nobody sends a numbered frame before the other end's beat of that connection has come. That beat says where
to start sending again. So the frames of one connection have no gap. A channel also notes, for the frames that wait on
the present connection, how far the first of them has been sent.

*Chunks.* A frame has up to 4 MB. ZeroMQ has one limit for the length of a message, which also holds for a stranger who
has not proved a key yet. With a limit of 4 MB each stranger's socket could cost 4 MB. So a frame travels as *chunks*,
each of them one ZeroMQ message of at most 16 kB. A chunk is ``length of the frame (4 bytes) | offset (4 bytes) |
data``. Every chunk but a frame's last one carries exactly :data:`CHUNK` bytes of data. The chunks of one frame follow
each other on one connection, and nothing comes between them. Anything else is refused.
"""

import secrets
import struct
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from masquerade_core.errors import COPIES, ProtocolViolation, StateCopied
from masquerade_core.wire.frames import MAX_FRAME
from masquerade_core.words import counted

__all__ = [
    "CHUNK",
    "CONNECTIONS",
    "MAX_CONNECTIONS",
    "MAX_JOINED",
    "MAX_KEPT",
    "MAX_MESSAGE",
    "QUEUE",
    "BadChunk",
    "Channel",
    "Joiner",
    "Joiners",
    "Outbox",
    "cut",
    "first_connection",
]


# --- Chunks ----------------------------------------------------------------------

MAX_MESSAGE = 16 * 1024  # bytes of a ZeroMQ message, encrypted: the most that a stranger's socket can make us hold
CHUNK = 16_000  # bytes of a frame in one message: room for the header here and for CURVE's 33 bytes
MAX_JOINED = MAX_FRAME + 64 * 1024  # a frame that is a little too long arrives, so that its sender can be named
QUEUE = 32  # whole messages of one connection that libzmq holds for us
MAX_CONNECTIONS = 4  # of one party with an unfinished frame each
_HEADER = struct.Struct(">II")


class BadChunk(ValueError):
    """A chunk that is not the one that is due."""


def cut(frame: bytes) -> Iterator[bytes]:
    """Cut a frame into its chunks, the last of which may be shorter than the others; an empty frame has one."""
    view = memoryview(frame)
    for at in range(0, max(len(frame), 1), CHUNK):
        yield _HEADER.pack(len(frame), at) + view[at : at + CHUNK]


class Joiner:
    """Puts the frames of one connection together. Of one unfinished frame it holds what has come, and no more."""

    def __init__(self) -> None:
        self._length = 0
        self._part = bytearray()

    @property
    def begun(self) -> bool:
        """Whether a part of a frame has come."""
        return bool(self._part)

    def take(self, chunk: "bytes | memoryview") -> bytes | None:
        """Take the next chunk; return the frame if this was its last one.

        Raises
        ------
        BadChunk
            The sender's fault: the chunk is not the one that is due, or its frame would be too long.
        """
        if len(chunk) < _HEADER.size:
            raise BadChunk
        length, offset = _HEADER.unpack_from(chunk)
        data = memoryview(chunk)[_HEADER.size :]
        if offset != len(self._part) or (self._part and length != self._length) or length > MAX_JOINED:
            raise BadChunk
        if len(data) != min(CHUNK, length - offset):
            raise BadChunk
        if len(data) == length:
            return bytes(data)
        self._length = length
        self._part += data
        if len(self._part) < length:
            return None
        frame = bytes(self._part)
        self._part = bytearray()
        return frame


class Joiners:
    """Puts together what comes from one party, which may come along several connections.

    A party uses one connection at a time. Of an older one, the rest of a frame may still arrive. So the newest
    connections have a joiner each, and what comes from others is dropped.
    """

    def __init__(self) -> None:
        self._joiners: OrderedDict[bytes, Joiner] = OrderedDict()
        self._left: OrderedDict[bytes, None] = OrderedDict()

    def take(self, route: bytes, chunk: "bytes | memoryview") -> bytes | None:
        """Take the next chunk of the connection ``route``, as :meth:`Joiner.take` does; None also if it is dropped."""
        if route in self._left:
            return None
        joiner = self._joiners.get(route)
        if joiner is None:
            joiner = self._joiners[route] = Joiner()
            if len(self._joiners) > MAX_CONNECTIONS:
                self.leave(next(iter(self._joiners)))
        return joiner.take(chunk)

    def leave(self, route: bytes) -> None:
        """Drop what comes from this connection from now on."""
        self._joiners.pop(route, None)
        self._left[route] = None
        if len(self._left) > 16 * MAX_CONNECTIONS:
            self._left.popitem(last=False)


# --- Outbox ----------------------------------------------------------------------


class Outbox:
    """The frames that wait for one peer. A frame stays until its last chunk has been taken.

    Attributes
    ----------
    waiting : int
        The bytes of the frames that wait.
    """

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._chunks: deque[bytes] = deque()  # of the first frame: those that are still to be sent
        self.waiting = 0

    def put(self, frame: bytes) -> None:
        """Add a frame at the end."""
        self._frames.append(frame)
        self.waiting += len(frame)

    def clear(self) -> None:
        """Drop everything."""
        self._frames.clear()
        self._chunks.clear()
        self.waiting = 0

    def restart(self) -> None:
        """Begin the first frame again: its chunks go over another connection than before."""
        self._chunks.clear()

    def offer(self, send: Callable[[bytes], object]) -> None:
        """Send as much as is taken; ``send`` raises if it takes no more, and then the same chunk is offered again."""
        while self._frames:
            if not self._chunks:
                self._chunks.extend(cut(self._frames[0]))
            while self._chunks:
                send(self._chunks[0])
                self._chunks.popleft()
            self.waiting -= len(self._frames.popleft())


# --- The channel ----------------------------------------------------------------------

MAX_KEPT = 64 * 1024 * 1024
"""Bytes of one hop that wait for their acknowledgement, at most."""

_ACKNOWLEDGE = 4 * 1024 * 1024  # bytes after which an acknowledgement does not wait for the next beat


CONNECTIONS = 1 << 8
"""How many connections a process has under one tag; those after them are taken for another process's."""

_TAGS = (1 << 24) - (1 << 10)  # a number has 32 bits, and a process that used up its tag goes on with the next


def first_connection() -> int:
    """Return the number of a process's first connection: a random tag of the process, and then a count.

    Two processes of one party with the same tag would be taken for one, and the second would never get in.
    """
    return (1 + secrets.randbelow(_TAGS - 1)) * CONNECTIONS


class Channel:
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
        """How many frames were put on this channel."""
        return self.acknowledged + len(self._frames)

    @property
    def all_acknowledged(self) -> bool:
        """Whether the other end holds everything."""
        return not self._frames

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

    def take(self, data: bytes) -> bool:
        """Count a frame of the other end that was accepted; return whether its acknowledgement must not wait."""
        self.taken += 1
        self._unsaid += len(data)
        return self._unsaid > _ACKNOWLEDGE

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
                f"{self.peer} acknowledged {counted(got, 'frame')} of this run, but only {self.sent} were sent to it",
                peer=self.peer,
            )
        if got < self.acknowledged:
            raise StateCopied(
                f"{self.peer} says that it holds {counted(got, 'frame')} of this run, but it acknowledged "
                f"{self.acknowledged} earlier: its state is an old copy, or two processes use copies of it",
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

"""Frames cut into chunks, and put together again.

ZeroMQ limits the length of a message, but the same limit holds for somebody who has not proved a key yet. A frame has
up to 4 MB. A limit of 4 MB would let each stranger's socket cost 4 MB. So a frame travels as *chunks*, each of them one
ZeroMQ message of at most 16 kB. A chunk is ``length of the frame (4 bytes) | offset (4 bytes) | data``. Every chunk but
a frame's last one carries exactly :data:`CHUNK` bytes of data. The chunks of one frame follow each other on one
connection, and nothing comes between them. Anything else is refused.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterator

from masquerade_core.wire.frames import MAX_FRAME

__all__ = ["CHUNK", "MAX_CONNECTIONS", "MAX_JOINED", "MAX_MESSAGE", "QUEUE", "BadChunk", "Joiner", "Joiners", "cut"]

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
        if offset != len(self._part) or (self.begun and length != self._length) or length > MAX_JOINED:
            raise BadChunk
        if len(data) != min(CHUNK, length - offset):
            raise BadChunk
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
        joiner = self._joiners.setdefault(route, Joiner())
        if len(self._joiners) > MAX_CONNECTIONS:
            self.leave(next(iter(self._joiners)))
        return joiner.take(chunk)

    def leave(self, route: bytes) -> None:
        """Drop what comes from this connection from now on."""
        self._joiners.pop(route, None)
        self._left[route] = None
        if len(self._left) > 16 * MAX_CONNECTIONS:
            self._left.popitem(last=False)

"""Frames that wait for one connection, and how far the first of them has been sent."""

from collections import deque
from collections.abc import Callable

from masquerade_host.chunks import cut

__all__ = ["Outbox"]


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

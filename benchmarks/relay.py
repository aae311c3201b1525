"""A TCP relay that delays what it passes on: a long way between processes on one machine.

Every chunk of bytes leaves half a round trip after it came, in either direction, however many are under way. One thread
does all of it.
"""

import contextlib
import select
import socket
import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

__all__ = ["DelayingRelay"]

_CHUNK = 65_536


class DelayingRelay:
    """Pass connections to a local port on, each direction with a delay.

    Parameters
    ----------
    port : int
        Where connections go on to, on this machine.
    delay : float
        Seconds for each direction: half a round trip.
    """

    def __init__(self, port: int, delay: float) -> None:
        self._port, self._delay = port, delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._listener]
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    @property
    def port(self) -> int:
        """The port to connect to."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        """Begin to pass connections on."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close everything; the thread ends when its listener no longer listens."""
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        for sock in self._open:
            sock.close()

    def _pass_on(self) -> None:
        sinks: dict[socket.socket, socket.socket] = {}  # where to what each end says goes
        waiting: deque[tuple[float, socket.socket, bytes]] = deque()  # in the order in which it is due
        with contextlib.suppress(OSError):
            while True:
                rest = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
                for ready in select.select([self._listener, *sinks], [], [], rest)[0]:
                    if ready is self._listener:
                        sinks |= self._accepted()
                        continue
                    chunk = _received(ready)
                    waiting.append((time.monotonic() + self._delay, sinks[ready], chunk))
                    if not chunk:
                        del sinks[ready]
                while waiting and waiting[0][0] <= time.monotonic():
                    _, sink, chunk = waiting.popleft()
                    _send(sink, chunk)

    def _accepted(self) -> dict[socket.socket, socket.socket]:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._port))
        except OSError:  # Charlie does not listen yet: the dialer tries again
            near.close()
            return {}
        self._open += [near, far]
        for sock in (near, far):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return {near: far, far: near}


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(_CHUNK)
    except OSError:
        return b""


def _send(sock: socket.socket, chunk: bytes) -> None:
    """Pass a chunk on; an empty one says that there will be no more."""
    with contextlib.suppress(OSError):
        if chunk:
            sock.sendall(chunk)
        else:
            sock.shutdown(socket.SHUT_WR)

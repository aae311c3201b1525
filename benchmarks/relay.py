"""A TCP relay that delays what it passes on: a long way between processes on one machine.

Every chunk of bytes leaves half a round trip after it came, in either direction, however many are under way.
"""

import contextlib
import queue
import socket
import threading
import time
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

    @property
    def port(self) -> int:
        """The port to connect to."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        """Begin to pass connections on."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close everything; the threads end with their sockets."""
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._port))
                except OSError:  # Charlie does not listen yet: the dialer tries again
                    near.close()
                    continue
                self._open += [near, far]
                for sock in (near, far):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, sink in ((near, far), (far, near)):
                    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    threading.Thread(target=self._read, args=(source, waiting), daemon=True).start()
                    threading.Thread(target=self._write, args=(sink, waiting), daemon=True).start()

    def _read(self, source: socket.socket, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        chunk = b"?"
        while chunk:
            try:
                chunk = source.recv(_CHUNK)
            except OSError:
                chunk = b""
            waiting.put((time.monotonic() + self._delay, chunk))

    @staticmethod
    def _write(sink: socket.socket, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        with contextlib.suppress(OSError):
            while True:
                due, chunk = waiting.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not chunk:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(chunk)

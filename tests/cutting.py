"""A TCP relay that can be cut: connections through it break, and new ones are refused until it is mended."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

__all__ = ["CuttingRelay"]

_CHUNK = 65_536


class CuttingRelay:
    """Pass connections to a local port on, until it is cut.

    Parameters
    ----------
    port : int
        Where connections go on to, on this machine.

    Attributes
    ----------
    port : int
        Where to connect to.
    passed : int
        How many connections it has passed on.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._cut = False
        self.passed = 0

    def __enter__(self) -> Self:
        """Begin to pass connections on."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close everything; the threads end with their sockets."""
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def cut(self) -> None:
        """Break all connections, with whatever is under way in them, and refuse new ones."""
        with self._lock:
            self._cut = True
            broken, self._open = self._open, set()
        for sock in broken:
            # Closing with a linger of zero sends a reset: what lies in the buffers is lost.
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def mend(self) -> None:
        """Pass new connections on again."""
        with self._lock:
            self._cut = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    refused = self._cut
                try:
                    far = None if refused else socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    far = None
                if far is None:
                    near.close()
                    continue
                with self._lock:
                    self._open |= {near, far}
                    self.passed += 1
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                sink.sendall(chunk)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

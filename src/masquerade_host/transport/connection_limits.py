"""Hangs up connections that cost Charlie more than an honest party's do: libzmq alone does not bound these costs.

What libzmq does not bound: the parts of a message that never ends (its limits count whole messages), the connections of
one key, and the connections of those who prove no key. When the process has no file descriptor left, it can open no
file either. So this thread looks at all connections of Charlie's port ten times a second. It finds them by the
process's file descriptors, and asks the kernel how many bytes libzmq has read from each. With many connections it looks
less often, so that it takes a hundredth of a processor at most. Under Linux only; elsewhere nobody watches.

A connection *has spoken* if a whole message of an admitted party came along it. An honest party speaks as soon as it is
connected. Each of its messages has at most 16 kB (:mod:`masquerade_host.channel`), so it never leaves much
unfinished.
"""

import contextlib
import fcntl
import os
import resource
import socket
import stat
import struct
import sys
import termios
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from masquerade_core.errors import BadInput
from masquerade_host.channel import MAX_CONNECTIONS, MAX_MESSAGE, QUEUE

__all__ = ["UNFINISHED", "Connection", "ConnectionLimits", "check_descriptors", "too_costly"]

UNFINISHED = (QUEUE + 16) * MAX_MESSAGE  # bytes that libzmq may have read of a connection since its last whole message
_MOST = 1024  # connections beyond two of each party; in all as few as half of the file descriptors, if those are few
_SPEAKS_WITHIN = 15.0  # seconds after the connection was made
_A_PARTY = 0.05  # seconds more for each party, since all may dial at once
_OTHER_FILES = 128  # that a process opens beside the connections of parties
_EVERY = 0.1  # seconds
_FEW, _TURNS = 128, 10  # with more connections than so, a party's is looked at in every tenth look
_SHARE = 100  # times as long as a look takes is the pause after it, at least
_TCP_INFO = struct.Struct("=128xQ")  # struct tcp_info of Linux 4.1 and later, up to tcpi_bytes_received


@dataclass
class Connection:
    """One connection at Charlie's port.

    Attributes
    ----------
    fd : int
        Its file descriptor, which belongs to libzmq.
    host : str
        The other end's address.
    since, spoke : float
        When it was first seen, and when a message last came along it; 0 for never.
    name, route : str, bytes
        The party that has spoken along it, and the way back.
    leaves : bool
        It is to be hung up.
    read, mark : int
        Bytes that libzmq has read from it, in all and by the last message.
    heard : bool
        A message came along it since these were read.
    """

    fd: int
    host: str
    since: float
    spoke: float = 0.0
    name: str = ""
    route: bytes = b""
    leaves: bool = False
    read: int = 0
    mark: int = 0
    heard: bool = False


def too_costly(
    connections: Iterable[Connection], now: float, most: int, speaks_within: float = _SPEAKS_WITHIN
) -> list[Connection]:
    """Choose the connections to hang up.

    These are: one that is to leave, one with too much unfinished, one that did not speak in time, a party's connections
    but the last few, and, where there are too many in all, the oldest silent ones of the address that has the most.
    """
    connections = list(connections)
    found = [
        c
        for c in connections
        if c.leaves or c.read - c.mark > UNFINISHED or (not c.name and now - c.since > speaks_within)
    ]
    by_name: Counter[str] = Counter()
    for connection in sorted((c for c in connections if c.name), key=lambda c: c.spoke, reverse=True):
        by_name[connection.name] += 1
        if by_name[connection.name] > MAX_CONNECTIONS and connection not in found:
            found.append(connection)
    silent = sorted((c for c in connections if not c.name and c not in found), key=lambda c: c.since)
    by_host = Counter(c.host for c in silent)
    for _ in range(len(connections) - len(found) - most):
        if not silent:
            break
        host = by_host.most_common(1)[0][0]
        oldest = next(c for c in silent if c.host == host)
        silent.remove(oldest)
        by_host[host] -= 1
        found.append(oldest)
    return found


def check_descriptors(parties: int) -> None:
    """Check that each party can have a connection, and a second one while the first is not known to be gone.

    Raises
    ------
    BadInput
        The process may open too few files.
    """
    needed, allowed = 2 * parties + _OTHER_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed < needed:
        raise BadInput(
            f"this process may open {allowed:,} files and connections; {parties:,} parties need {needed:,}",
            f"allow more where Charlie is started, for instance with: ulimit -n {needed}",
        )


class ConnectionLimits(threading.Thread):
    """Looks at the connections of one port of this process, and hangs up those that cost too much.

    Parameters
    ----------
    port : int
        Where this process listens.
    parties : int
        How many parties may connect.
    """

    def __init__(self, port: int, parties: int = 0) -> None:
        super().__init__(name="connection limits", daemon=True)
        self._port = port
        self._speaks_within = _SPEAKS_WITHIN + _A_PARTY * parties
        self._most = min(_MOST + 2 * parties, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._known: dict[
            int, Connection
        ] = {}  # by the inode of the socket, which the process never uses twice at once
        self._lock = threading.Lock()
        self._spoken: dict[int, tuple[str, bytes]] = {}
        self._leaving: dict[bytes, float] = {}
        self._looks = 0
        self._over = threading.Event()
        self.hung_up = 0

    def spoke(self, fd: int, name: str, route: bytes) -> None:
        """Note that a whole message of a party came along a connection."""
        with self._lock:
            self._spoken[fd] = name, route

    def hang_up(self, route: bytes, at: float) -> None:
        """Hang up the connection with this way back at a time, so that what was sent along it can leave before."""
        with self._lock:
            self._leaving[route] = at

    def stop(self) -> None:
        """End the thread."""
        self._over.set()

    def run(self) -> None:
        """Look, until the end."""
        pause = _EVERY
        while sys.platform == "linux" and not self._over.wait(pause):
            begun = time.thread_time()
            self.look(time.monotonic())
            pause = max(_EVERY, _SHARE * (time.thread_time() - begun))

    def look(self, now: float) -> None:
        """Look at all connections once."""
        with self._lock:
            spoken, self._spoken = self._spoken, {}
            leaving = {route for route, at in self._leaving.items() if at <= now}
            self._leaving = {route: at for route, at in self._leaving.items() if at > now}
        there: dict[int, Connection] = {}
        for fd in _descriptors():
            with contextlib.suppress(OSError):
                inode = _inode(fd)
                known = self._known.get(inode)
                if looked := known is None or self._is_due(known):
                    host, read = _look_at(fd, self._port)
                    known = known or Connection(fd, host, now)
                    known.read = read
                    known.mark = read if known.heard or fd in spoken else known.mark
                    known.heard = False
                if fd in spoken:
                    known.name, known.route = spoken[fd]
                    known.spoke, known.heard = now, not looked
                known.leaves |= known.route in leaving
                there[inode] = known
        self._known = there
        self._looks += 1
        chosen = too_costly(there.values(), now, self._most, self._speaks_within)
        inodes = {id(connection): inode for inode, connection in there.items()}
        for connection in chosen:
            self.hung_up += _hang_up(connection.fd, inodes[id(connection)])

    def _is_due(self, connection: Connection) -> bool:
        """Say whether to ask the kernel now: of many parties' connections it is asked about a tenth at a time."""
        few = len(self._known) <= _FEW or not connection.name
        return few or (connection.fd + self._looks) % _TURNS == 0


def _descriptors() -> Iterable[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names, not paths
    except OSError:  # no descriptor is left to open the directory with
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _inode(fd: int) -> int:
    found = os.fstat(fd)
    if not stat.S_ISSOCK(found.st_mode):
        raise OSError
    return found.st_ino


@contextlib.contextmanager
def _borrowed(fd: int) -> Iterator[socket.socket]:
    """Use libzmq's own descriptor: another one may not be left. It stays open."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()


def _look_at(fd: int, port: int) -> tuple[str, int]:
    """Return the address of a connection's other end, and how many bytes were read from it.

    Raises
    ------
    OSError
        It is no connection at this port.
    """
    with _borrowed(fd) as sock:
        own, other = sock.getsockname(), sock.getpeername()
        if not isinstance(own, tuple) or own[1] != port:
            raise OSError
        (received,) = _TCP_INFO.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
        (unread,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    return str(other[0]), received - unread


def _hang_up(fd: int, inode: int) -> int:
    """Shut a connection down, if the descriptor is still its own. libzmq notices, frees its memory and closes it."""
    with contextlib.suppress(OSError), _borrowed(fd) as sock:
        if _inode(fd) == inode:
            sock.shutdown(socket.SHUT_RDWR)
            return 1
    return 0

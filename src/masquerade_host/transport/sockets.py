"""ZeroMQ as a lossy pipe with authenticated ends, and nothing more: Charlie's end.

What both ends share is in :mod:`masquerade_host.transport.interface`.

Charlie binds a ROUTER socket; parties connect DEALER sockets outwards (:mod:`masquerade_host.transport.dialer`). CURVE,
ZeroMQ's encryption, is always on. The key that the CURVE handshake proves says who a peer is. ZeroMQ attaches it to
every message as ``User-Id``; routing ids are only return addresses. One thread alone uses a socket: the one that made
it. Frames that ZeroMQ cannot send at once wait here and are offered again. They travel in pieces
(:mod:`masquerade_host.channel`), so that somebody without a key costs little;
:mod:`masquerade_host.transport.connection_limits` bounds the rest of what strangers and parties can cost.
"""

import contextlib
import errno
import ipaddress
import socket
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping

import zmq
from zmq.utils import z85

from masquerade_core.errors import BadInput
from masquerade_host.channel import BadChunk, Joiners, Outbox, cut
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.connection_limits import ConnectionLimits, check_descriptors
from masquerade_host.transport.interface import AT_ONCE, DENIED, Arrival, harden

__all__ = ["CharlieSocket"]

_LATER = 300  # the status with which it turns away a listed key that connects too often; the party tries again
_CONNECTIONS_AT_ONCE = 16  # of one key
_CONNECTIONS_A_SECOND = 2.0  # of one key, in the long run
_HANDSHAKE = 3.0  # seconds, and 10 ms more for each party
_LAST_WORDS = 0.2  # seconds for what was sent along a connection that is hung up
_DOMAIN = "masquerade"


class _Doorkeeper(threading.Thread):
    """The handler of ZeroMQ's authentication protocol (ZAP): it admits the listed CURVE keys and denies all others.

    It never raises. A listed key may connect some times in a row, and then twice a second: connections that never speak
    pile up until they are hung up. ``ZAP_ENFORCE_DOMAIN``, which :class:`CharlieSocket` sets, makes ZeroMQ fail closed:
    without that option a server whose handler is missing admits everybody.

    References
    ----------
    ZeroMQ RFC 27 (ZAP).
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", allowed: Collection[bytes]) -> None:
        super().__init__(name="doorkeeper", daemon=True)
        self._tokens = dict.fromkeys(allowed, (float(_CONNECTIONS_AT_ONCE), time.monotonic()))
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind("inproc://zeromq.zap.01")
        self.denied: deque[bytes] = deque(maxlen=64)
        self.admitted: deque[bytes] = deque(maxlen=64)

    def run(self) -> None:
        """Answer requests until the context ends."""
        try:
            with contextlib.suppress(zmq.ZMQError):
                while True:
                    self._socket.send_multipart(self._judge(self._socket.recv_multipart()))
        finally:
            self._socket.close(0)  # else the context would never end

    def _judge(self, request: list[bytes]) -> list[bytes]:
        sequence = request[1] if len(request) > 1 else b""
        # version, sequence, domain, address, identity, mechanism, CURVE key
        match request:
            case [b"1.0", _, domain, _, _, b"CURVE", key] if domain == _DOMAIN.encode() and key in self._tokens:
                if not self._may_connect(key, time.monotonic()):
                    return [b"1.0", sequence, str(_LATER).encode(), b"too many connections", b"", b""]
                self.admitted.append(key)
                return [b"1.0", sequence, b"200", b"OK", z85.encode(key), b""]
            case [*_, key]:
                self.denied.append(key)
        return [b"1.0", sequence, str(DENIED).encode(), b"not in the roster", b"", b""]

    def pause(self, key: bytes) -> None:
        """Admit this key again only after a second."""
        self._tokens[key] = (1.0 - _CONNECTIONS_A_SECOND, time.monotonic())

    def _may_connect(self, key: bytes, now: float) -> bool:
        tokens, then = self._tokens[key]
        tokens = min(float(_CONNECTIONS_AT_ONCE), tokens + (now - then) * _CONNECTIONS_A_SECOND)
        admitted = tokens >= 1
        self._tokens[key] = (tokens - admitted, now)
        return admitted


class CharlieSocket:
    """Charlie's end: a bound ROUTER to which only the roster's keys can talk.

    Parameters
    ----------
    address : str
        ``tcp://host:port``, an address of this machine.
    keys : Keys
        Charlie's.
    roster : mapping of str to bytes
        Each party's CURVE key.

    Raises
    ------
    BadInput
        The port is in use, or the address is not one of this machine; or this process may open too few files for so
        many parties.
    """

    def __init__(self, address: str, keys: Keys, roster: Mapping[str, bytes]) -> None:
        check_descriptors(len(roster))
        self._keys = dict(roster)
        self._names = {z85.encode(key).decode(): name for name, key in roster.items()}
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._doorkeeper = _Doorkeeper(self._context, roster.values())
        self._doorkeeper.start()
        self._router = self._context.socket(zmq.ROUTER)
        harden(self._router, keys, _HANDSHAKE + len(roster) / 100)  # all may dial at once
        self._router.curve_server = True
        self._router.zap_domain = _DOMAIN.encode()
        self._router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.setsockopt(zmq.BACKLOG, 1024)
        self._routes: dict[str, bytes] = {}
        self._gone: set[str] = set()
        self._outbox = {name: Outbox() for name in roster}
        self._waiting: set[str] = set()  # those for whom something waits
        self._joiners = {name: Joiners() for name in roster}
        self._limits: ConnectionLimits | None = None
        try:
            self._bind(address)
        except BaseException:
            self.close(0)
            raise
        self._limits = ConnectionLimits(int(self.address.rpartition(":")[2]), len(roster))
        self._limits.start()

    def _bind(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        host = host.strip("[]")
        numeric = _numeric_host(host)
        self._router.ipv6 = ":" in numeric
        try:
            self._router.bind(f"tcp://[{numeric}]:{port}" if ":" in numeric else f"tcp://{numeric}:{port}")
        except zmq.ZMQError as error:
            if error.errno == errno.EADDRINUSE:
                raise BadInput(
                    f"{address} is in use by another process", "end that process, or choose another port in the study"
                ) from error
            if error.errno in (errno.EADDRNOTAVAIL, errno.ENODEV):
                raise BadInput(
                    f"{host} is not an address of this machine",
                    f"run Charlie where the study says, or listen elsewhere: --listen tcp://0.0.0.0:{port}",
                ) from error
            raise BadInput(f"Charlie cannot listen at {address}: {error.strerror}", "choose another port") from error

    @property
    def sockets(self) -> tuple["zmq.Socket[bytes]", ...]:
        """The sockets whose input a driver waits for."""
        return (self._router,)

    @property
    def address(self) -> str:
        """The address at which this socket listens."""
        return self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    @property
    def busy(self) -> bool:
        """Whether frames wait that ZeroMQ has not taken yet."""
        return any(name in self._routes for name in self._waiting)

    def reachable(self, name: str) -> bool:
        """Say whether a party's connection was there when something was last sent to it."""
        return name not in self._gone

    def waiting(self, name: str) -> int:
        """Return how many bytes wait for a party."""
        return self._outbox[name].waiting

    def admitted(self) -> tuple[str, ...]:
        """Return whose handshakes succeeded since the last call, whether or not a frame followed."""
        found = []
        while self._doorkeeper.admitted:
            found.append(self._names[z85.encode(self._doorkeeper.admitted.popleft()).decode()])
        return tuple(found)

    def denied(self) -> int:
        """Return how many strangers were turned away since the last call."""
        count = 0
        while self._doorkeeper.denied:
            self._doorkeeper.denied.popleft()
            count += 1
        return count

    def arrivals(self) -> Iterator[Arrival]:
        """Take what has arrived, but not without end, so that the session checks its clocks in between."""
        for _ in range(AT_ONCE):
            try:
                first = payload = self._router.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            parts = 1
            while payload.more:
                payload, parts = self._router.recv(copy=False), parts + 1
            name, route = self._names[str(payload.get("User-Id"))], first.bytes
            if self._limits is not None:
                self._limits.spoke(int(payload.get(zmq.SRCFD)), name, route)
            if parts != 2:  # noqa: PLR2004 - the routing id and one chunk
                yield Arrival(name, route, None)
                continue
            try:
                data = self._joiners[name].take(route, payload.buffer)
            except BadChunk:
                yield Arrival(name, route, None)
                continue
            if data is not None:
                yield Arrival(name, route, data)

    def found(self, name: str, route: bytes) -> None:
        """Remember the way back to a party, after a frame with a valid signature came along it."""
        if self._routes.get(name) != route:
            self._outbox[name].restart()
        self._routes[name] = route
        self._gone.discard(name)

    def forget(self, name: str) -> None:
        """Drop what waits for a party that starts anew."""
        self._outbox[name].clear()
        self._waiting.discard(name)

    def send(self, name: str, data: bytes) -> None:
        """Send a frame to a party, now or when its connection takes it."""
        self._outbox[name].put(data)
        self._offer(name)

    def tell(self, route: bytes, data: bytes) -> bool:
        """Send one frame along a route that is not the way back to its party; False if nobody is there."""
        try:
            for chunk in cut(data):
                self._router.send_multipart((route, chunk), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            return error.errno != errno.EHOSTUNREACH
        return True

    def hang_up(self, name: str, route: bytes) -> None:
        """End a party's connection a moment from now, and admit no other one of that party for a second.

        What was sent along it still leaves; what comes along it is dropped.
        """
        self._joiners[name].leave(route)
        self._doorkeeper.pause(self._keys[name])
        if self._limits is not None:
            self._limits.hang_up(route, time.monotonic() + _LAST_WORDS)

    def flush(self) -> None:
        """Offer the waiting frames to ZeroMQ again."""
        for name in tuple(self._waiting):
            self._offer(name)

    def _offer(self, name: str) -> None:
        route = self._routes.get(name)
        self._waiting.add(name)
        if route is None or name in self._gone:
            return  # a way back that is gone never comes back: :meth:`found` gets another one
        try:
            self._outbox[name].offer(lambda chunk: self._router.send_multipart((route, chunk), zmq.NOBLOCK))
            self._waiting.discard(name)
        except zmq.ZMQError as error:
            if error.errno == errno.EHOSTUNREACH:
                self._gone.add(name)
            elif error.errno != errno.EAGAIN:
                raise

    def close(self, linger: int) -> None:
        """Close, after at most ``linger`` milliseconds for what ZeroMQ still has to send."""
        if self._limits is not None:
            self._limits.stop()
        self._router.close(linger)
        self._context.term()
        self._doorkeeper.join()


def _numeric_host(host: str) -> str:
    """Resolve a name, since ZeroMQ binds to numeric addresses only."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A party resolves a name as IPv4. Where a name has both kinds of address, Charlie must listen at the same one.
        return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])
    except OSError as error:
        raise BadInput(
            f"the name {host} cannot be resolved here, so Charlie cannot listen at it",
            "run Charlie where the study says, or listen elsewhere: --listen tcp://0.0.0.0:PORT",
        ) from error

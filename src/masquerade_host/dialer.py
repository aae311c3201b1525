"""A party's end of the connection: it dials out, and can say why nobody answers.

ZeroMQ connects again after most failures and tells nobody. Its monitor tells us; what libzmq 4.3.5 was seen to say:

* a key that is not on Charlie's list: HANDSHAKE_FAILED_AUTH 400, then nothing, and no further attempt;
* another server key than Charlie's: HANDSHAKE_FAILED_NO_DETAIL at every attempt, for he cannot read it and hangs up;
  a proxy with nobody behind it looks the same, but gives no greeting (:func:`speaks_curve`);
* nobody listens, or the name is unknown: CONNECT_RETRIED at every attempt (so the name is looked up here as well);
* a server without CURVE: HANDSHAKE_FAILED_PROTOCOL, no further attempt; HTTP: DISCONNECTED alone, no further attempt.
"""

import socket
import threading
from collections import deque
from collections.abc import Iterator
from enum import Enum, auto

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from masquerade_host.keyfiles import Keys
from masquerade_host.transport import DENIED, HIGH_WATER, harden

__all__ = ["ConnectionEvent", "PartySocket", "speaks_curve"]


class ConnectionEvent(Enum):
    """What a party's connection attempt came to."""

    CONNECTED = auto()
    DENIED = auto()  # the other side is Charlie, and this key is not on his list
    FAILED = auto()  # the handshake broke off: a wrong key on either side, a proxy with nobody behind it, or bad luck
    FOREIGN = auto()  # somebody answers who speaks something else; ZeroMQ does not try again
    UNRESOLVED = auto()  # nobody knows the name in the address; it may be known later
    LOST = auto()  # an established connection broke; ZeroMQ connects again


_EVENTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECTED
_FAILURES = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL


class PartySocket:
    """A party's end: a DEALER that connects outwards to the one server key of the study.

    Parameters
    ----------
    address : str
        Charlie's, as in the study.
    keys : Keys
        This party's.
    server_key : bytes
        Charlie's CURVE key.
    """

    def __init__(self, address: str, keys: Keys, server_key: bytes) -> None:
        self._address = address
        self._keys = keys
        self._server_key = server_key
        self._outbox: deque[bytes] = deque()
        self._unresolved = threading.Event()
        # ZeroMQ resolves by itself and says nothing. A look-up may last long, and is waited for by nobody.
        threading.Thread(target=self._resolve, name="resolver", daemon=True).start()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._connect()

    def _resolve(self) -> None:
        host = self._address.removeprefix("tcp://").rpartition(":")[0]
        try:
            socket.getaddrinfo(host.strip("[]"), None, socket.AF_INET6 if "[" in host else socket.AF_INET)
        except (OSError, UnicodeError):  # a UnicodeError: it cannot be a name at all
            self._unresolved.set()

    def _connect(self) -> None:
        self._outbox.clear()
        self._established = False
        self._judged = True
        self._dealer = self._context.socket(zmq.DEALER)
        harden(self._dealer, self._keys)
        self._dealer.curve_serverkey = z85.encode(self._server_key)
        self._dealer.ipv6 = "[" in self._address
        # Not ZMQ_IMMEDIATE: with it libzmq 4.3.5 drops what has arrived and is not read yet when the other side hangs
        # up, and Charlie's last frame was lost in one run of ten.
        self._dealer.reconnect_ivl = 250
        self._dealer.reconnect_ivl_max = 2000
        self._dealer.setsockopt(zmq.CONNECT_TIMEOUT, 5000)
        self._monitor = self._dealer.get_monitor_socket(_EVENTS | _FAILURES)
        self._dealer.connect(self._address)

    def reopen(self) -> None:
        """Throw the connection away, with all that waits on it, and make another."""
        self._disconnect(0)
        self._connect()

    def _disconnect(self, linger: int) -> None:
        self._dealer.disable_monitor()
        self._monitor.close(0)
        self._dealer.close(linger)

    @property
    def sockets(self) -> tuple["zmq.Socket[bytes]", ...]:
        """What to wait for."""
        return (self._dealer, self._monitor)

    @property
    def busy(self) -> bool:
        """Whether frames wait that ZeroMQ has not taken yet."""
        return bool(self._outbox)

    def connection_events(self) -> Iterator[ConnectionEvent]:
        """Take what the connection went through since the last call."""
        if self._unresolved.is_set():
            self._unresolved.clear()
            yield ConnectionEvent.UNRESOLVED
        while self._monitor.poll(0):
            event = recv_monitor_message(self._monitor, zmq.NOBLOCK)
            connection_event = self._read(event["event"], event["value"])
            if connection_event is not None:
                yield connection_event

    def _read(self, event: int, value: int) -> ConnectionEvent | None:
        connection_event: ConnectionEvent | None = None
        match event:
            case zmq.EVENT_CONNECTED:
                self._judged = False
                return None
            case zmq.EVENT_HANDSHAKE_SUCCEEDED:
                connection_event, self._established = ConnectionEvent.CONNECTED, True
            case zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                connection_event = ConnectionEvent.DENIED if value == DENIED else ConnectionEvent.FAILED
            case zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                connection_event = ConnectionEvent.FOREIGN
            case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                connection_event = ConnectionEvent.FAILED
            case zmq.EVENT_DISCONNECTED if self._established:
                connection_event, self._established = ConnectionEvent.LOST, False
            case zmq.EVENT_DISCONNECTED if not self._judged:
                # libzmq says no more than this about a greeting that is not ZeroMQ's, and gives up silently.
                connection_event = ConnectionEvent.FOREIGN
        self._judged = True
        return connection_event

    def arrivals(self) -> Iterator[bytes | None]:
        """Take what has arrived from Charlie; None for a message that is not one frame."""
        for _ in range(HIGH_WATER):
            try:
                frames = self._dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield frames[0] if len(frames) == 1 else None

    def send(self, data: bytes) -> None:
        """Send a frame to Charlie, now or when the connection takes it."""
        self._outbox.append(data)
        self.flush()

    def flush(self) -> None:
        """Offer ZeroMQ what waits."""
        while self._outbox:
            try:
                self._dealer.send(self._outbox[0], zmq.NOBLOCK)
            except zmq.Again:
                return
            self._outbox.popleft()

    def close(self, linger: int) -> None:
        """Close, after at most ``linger`` milliseconds for what ZeroMQ still has to send."""
        self._disconnect(linger)
        self._context.term()


def speaks_curve(address: str) -> bool:
    """Ask whoever listens at ``address`` for its ZMTP greeting, and say whether it is a CURVE server's.

    A handshake that breaks off looks the same for a wrong key as for a proxy with nobody behind it; this tells the two
    apart. Greeting: 0xFF, 8 bytes, 0x7F, version 3.x, mechanism in 20 bytes, as-server, filler; 64 bytes.

    References
    ----------
    ZeroMQ RFC 37 (ZMTP 3.1), section "Greeting".
    """
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
    received = b""
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2.0) as connection:
            connection.sendall(greeting)
            while len(received) < len(greeting) and (part := connection.recv(len(greeting) - len(received))):
                received += part
    except OSError:
        return False
    return received[:1] == b"\xff" and received[9:10] == b"\x7f" and received[12:32] == b"CURVE".ljust(20, b"\0")

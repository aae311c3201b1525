"""A party's end of the connection: it dials out, tries again, and when it gives up it says why.

A :class:`PartySocket` makes one connection at a time and never a second one by itself: :meth:`PartySocket.reopen` does,
and the session says when. Only ZeroMQ's monitor socket reports failures. These are the reports of libzmq 4.3.5, as
observed:

* This party's key is not on Charlie's list: HANDSHAKE_FAILED_AUTH 400, and no further attempt.
* The server has another key than the study says: HANDSHAKE_FAILED_NO_DETAIL, for the server cannot read the handshake
  and hangs up. A proxy with nobody behind it and a server with too much to do look the same.
* Nobody listens: CLOSED, at once or after the time-out.
* The name is unknown: nothing. So the name is resolved here as well, and the attempt has an end of its own.
* The server does not use CURVE: HANDSHAKE_FAILED_PROTOCOL, and no further attempt.
* The server speaks HTTP: DISCONNECTED alone, and no further attempt.

*Who answers* at an address is asked without libzmq, which would not say: with the first two messages of a CURVE
handshake. A handshake breaks off in the same way for a wrong key, for a proxy with nobody behind it, and for a server
that has too much to do. A CURVE server proves its long-term key in its second message. So this tells these cases apart.
It proves no key of this side, and leaves no trace in a session.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from enum import Enum, auto
from typing import TYPE_CHECKING

import zmq
from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey
from zmq.utils import z85

from masquerade_core.errors import CannotConnect
from masquerade_core.rng import SystemRng
from masquerade_host.channel import BadChunk, Joiner, Outbox
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.interface import AT_ONCE, DENIED, ConnectionEvent, ProxyRefusedError, harden

if TYPE_CHECKING:
    from masquerade_host.transport.proxy import Proxy

__all__ = [
    "RETRY_EVERY",
    "Answer",
    "Dialing",
    "PartySocket",
    "WhoAnswers",
    "probe",
]


# --- Who answers -----------------------------------------------------------------

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
_MECHANISM = slice(12, 32)
_COMMAND = 4  # the flag of a ZMTP command with a length of one byte
_WELCOME = b"\x07WELCOME"
_WELCOME_BYTES = len(_WELCOME) + 16 + 144
_HANGS_UP_AT_ONCE = 1.0  # seconds
_HELLO_NONCE, _WELCOME_NONCE = b"CurveZMQHELLO---", b"WELCOME-"


class Answer(Enum):
    """The result of a probe of an address."""

    UNKNOWN_NAME = auto()  # the name cannot be resolved here
    REFUSED = auto()  # the machine answers that nobody listens there
    BLOCKED = auto()  # nothing answers: no such machine, or a firewall drops what is sent
    SILENT = auto()  # a connection was made, and nothing came in time
    FOREIGN = auto()  # somebody else's program, or a proxy that closed the connection
    OTHER_KEY = auto()  # a CURVE server that does not have the study's key
    NOT_ALLOWED = auto()  # the proxy does not allow the connection
    CHARLIE = auto()  # a CURVE server with the study's key


def probe(address: str, server_key: bytes, proxy: "Proxy | None" = None, *, seconds: float = 3.0) -> Answer:
    """Ask the server at ``address`` to prove a CURVE key.

    Parameters
    ----------
    address : str
        ``tcp://host:port``.
    server_key : bytes
        Charlie's CURVE key, as in the study.
    proxy : Proxy, optional
        The way out of this party's network.
    seconds : float
        How long to wait for each step.

    References
    ----------
    ZeroMQ RFC 37 (ZMTP 3.1), section "Greeting"; RFC 26 (CurveZMQ), HELLO and WELCOME.
    """
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        if proxy is not None:
            connection = proxy.connect(address, timeout=seconds)
        else:
            connection = socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)
    except ProxyRefusedError:
        return Answer.NOT_ALLOWED
    except (socket.gaierror, UnicodeError):
        return Answer.UNKNOWN_NAME
    except ConnectionRefusedError:
        return Answer.REFUSED
    except OSError:
        return Answer.BLOCKED
    with closing(connection):
        return ask(connection, server_key)


def ask(connection: socket.socket, server_key: bytes) -> Answer:
    """Do what :func:`probe` does, over a connection that is there."""
    try:
        connection.sendall(_GREETING)
        greeting = _read(connection, len(_GREETING))
    except TimeoutError:
        return Answer.SILENT
    except OSError:
        return Answer.FOREIGN
    greets = greeting[:1] + greeting[9:10] == b"\xff\x7f" and greeting[_MECHANISM] == _GREETING[_MECHANISM]
    return _prove(connection, server_key) if greets else Answer.FOREIGN


def _prove(connection: socket.socket, server_key: bytes) -> Answer:
    """Say hello, and see whether the welcome comes from the owner of the key."""
    mine = PrivateKey(SystemRng().bytes(32))
    box = Box(mine, PublicKey(server_key))
    nonce = bytes(7) + b"\1"
    proof = box.encrypt(bytes(64), _HELLO_NONCE + nonce).ciphertext
    hello = b"\x05HELLO\x01\x00" + bytes(72) + bytes(mine.public_key) + nonce + proof
    asked = time.monotonic()
    try:
        connection.sendall(bytes([_COMMAND, len(hello)]) + hello)
        welcome = _read(connection, 2 + _WELCOME_BYTES)[2:]
    except TimeoutError:
        return Answer.SILENT
    except OSError:
        # A server that cannot read a hello hangs up at once; one that has too much to do hangs up later.
        return Answer.OTHER_KEY if time.monotonic() - asked < _HANGS_UP_AT_ONCE else Answer.SILENT
    try:
        box.decrypt(welcome[-144:], _WELCOME_NONCE + welcome[len(_WELCOME) : -144])
    except CryptoError:
        return Answer.OTHER_KEY
    return Answer.CHARLIE


def _read(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        part = connection.recv(length - len(received))
        if not part:
            raise ConnectionResetError
        received += part
    return received


# --- Dialing ---------------------------------------------------------------------

WhoAnswers = Callable[[], Answer]
"""Looks at Charlie's address."""

RETRY_EVERY = 1.0
"""Seconds between two hellos."""

_FIRST_PAUSE = 0.25  # seconds before the second attempt to connect; each further pause is twice as long
_LONGEST_PAUSE = 2.0  # seconds
_COMPARE = "compare the fingerprints of 'masquerade keys show' with the coordinator's, by telephone"
_BROKEN_HANDSHAKES = 3  # in a row, before the other side is looked at more closely


class Dialing:
    """Keeps what is known of a party's connection to Charlie.

    Parameters
    ----------
    address : str
        Charlie's, as in the study.
    who_answers : callable
        Looks at that address (:func:`~masquerade_host.transport.dialer.probe`).

    Attributes
    ----------
    connected : bool
        The connection that is open now has completed its handshake.
    met : bool
        Some connection of this run has completed its handshake.
    reopen_at : float or None
        When to make a new connection.
    """

    def __init__(self, address: str, who_answers: WhoAnswers) -> None:
        self._address = address
        self._who_answers = who_answers
        self._failures = 0
        self._pause = _FIRST_PAUSE
        self.connected = False
        self.met = False
        self.reopen_at: float | None = None

    def note(self, event: ConnectionEvent, now: float) -> None:
        """Take in one event.

        Raises
        ------
        CannotConnect
            Trying again would not help.
        """
        match event:
            case ConnectionEvent.CONNECTED:
                self.connected = self.met = True
                self._failures, self._pause = 0, _FIRST_PAUSE
            case ConnectionEvent.LOST:
                self.connected = False
                self._pause_until_next(now)
            case _ if self.met:  # the keys and the address were right, so waiting may help
                self._pause_until_next(now)
            case ConnectionEvent.DENIED:
                raise CannotConnect(
                    f"Charlie at {self._address} did not admit this party: its key is not in Charlie's study",
                    _COMPARE,
                )
            case ConnectionEvent.UNREACHED | ConnectionEvent.UNRESOLVED:
                self._pause_until_next(now)
            case ConnectionEvent.FAILED | ConnectionEvent.FOREIGN:
                self._failures += 1
                if self._failures >= _BROKEN_HANDSHAKES:
                    self._judge(event)
                self._pause_until_next(now)

    def _pause_until_next(self, now: float) -> None:
        self.reopen_at = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _judge(self, event: ConnectionEvent) -> None:
        # A handshake also breaks off where Charlie has too much to do, or a proxy has nobody behind it. Then the party
        # tries again until its deadline.
        found = self._who_answers()
        if event is ConnectionEvent.FOREIGN and found is Answer.FOREIGN:
            raise CannotConnect(
                f"what answers at {self._address} is not Charlie: it does not speak this program's protocol",
                "check the address and port in the study",
            )
        if found is Answer.NOT_ALLOWED:
            raise CannotConnect(
                f"the proxy does not allow a connection to {self._address}, or does not accept this user",
                "ask the proxy's operator to allow CONNECT to that address and port; many allow port 443 only",
            )
        if found is Answer.OTHER_KEY:
            raise CannotConnect(
                f"the server at {self._address} does not have the key that Charlie has in this study",
                _COMPARE,
            )
        self._failures = 0


# --- Dialer ----------------------------------------------------------------------

_EVENT = struct.Struct("=hi")  # of a monitor: the event, and a number. zmq.utils reads it as well, but loads asyncio


_EVENTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECTED | zmq.EVENT_CLOSED
_FAILURES = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL

_NEVER = 7 * 24 * 3600 * 1000  # milliseconds until ZeroMQ would connect again by itself
_CONNECT_TIMEOUT = 5.0  # seconds
_ATTEMPT = _CONNECT_TIMEOUT + 5.0  # seconds after which an attempt of which nothing was heard has failed


class PartySocket:
    """A party's end: a DEALER that connects outwards to the one server key of the study.

    It makes one connection. After that has failed or broken, :meth:`reopen` makes the next one.

    Parameters
    ----------
    address : str
        Charlie's, as in the study.
    keys : Keys
        This party's.
    server_key : bytes
        Charlie's CURVE key.
    proxy : Proxy, optional
        The way out of this party's network.
    """

    def __init__(self, address: str, keys: Keys, server_key: bytes, proxy: "Proxy | None" = None) -> None:
        self._tunnel = None if proxy is None else proxy.tunnel(address)
        if self._tunnel is not None:
            self._tunnel.start()
        self._address = address if self._tunnel is None else self._tunnel.address
        self._keys = keys
        self._server_key = server_key
        self._outbox = Outbox()
        self._joiner = Joiner()
        self._unresolved = threading.Event()
        self._told_unresolved = False
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._connect()

    def _resolve(self) -> None:
        host = self._address.removeprefix("tcp://").rpartition(":")[0]
        try:  # bytes, as ZeroMQ looks them up: Python would load its tables of international names for a text
            socket.getaddrinfo(host.strip("[]").encode(), None, socket.AF_INET6 if "[" in host else socket.AF_INET)
        except OSError:
            self._unresolved.set()

    def _connect(self) -> None:
        self._outbox.clear()
        self._joiner = Joiner()
        self._established = False
        self._judged = False
        self._silent_until = time.monotonic() + _ATTEMPT
        self._unresolved.clear()
        # ZeroMQ resolves the name by itself and does not report a failure. A look-up may take long, so nobody waits.
        threading.Thread(target=self._resolve, name="resolver", daemon=True).start()
        self._dealer = self._context.socket(zmq.DEALER)
        harden(self._dealer, self._keys, _ATTEMPT)
        self._dealer.curve_serverkey = z85.encode(self._server_key)
        self._dealer.ipv6 = "[" in self._address
        # Not ZMQ_IMMEDIATE: with it, libzmq 4.3.5 drops what has arrived but was not read yet when the other side hangs
        # up. Charlie's last frame was lost in one run of ten.
        # Not -1 either, which switches reconnecting off: with it, what has arrived is dropped in the same way.
        self._dealer.reconnect_ivl = _NEVER
        self._dealer.setsockopt(zmq.CONNECT_TIMEOUT, int(1000 * _CONNECT_TIMEOUT))
        self._monitor = self._dealer.get_monitor_socket(_EVENTS | _FAILURES)
        self._dealer.connect(self._address)

    def reopen(self) -> None:
        """Drop the connection and all that waits on it, and make another."""
        self._disconnect(0)
        self._connect()

    def _disconnect(self, linger: int) -> None:
        self._dealer.disable_monitor()
        self._monitor.close(0)
        self._dealer.close(linger)

    @property
    def sockets(self) -> tuple["zmq.Socket[bytes]", ...]:
        """The sockets whose input a driver waits for."""
        return (self._dealer, self._monitor)

    @property
    def busy(self) -> bool:
        """Whether frames wait that ZeroMQ has not taken yet."""
        return bool(self._outbox.waiting)

    def connection_events(self) -> Iterator[ConnectionEvent]:
        """Take what the connection went through since the last call."""
        if self._unresolved.is_set():
            self._unresolved.clear()
            yield from self._failed(ConnectionEvent.UNRESOLVED)
        while self._monitor.poll(0):
            what, _ = self._monitor.recv_multipart(zmq.NOBLOCK)
            found = self._read(*_EVENT.unpack(what))
            if found is not None:
                yield found
        if time.monotonic() > self._silent_until:
            yield from self._failed(ConnectionEvent.UNREACHED)

    def _failed(self, event: ConnectionEvent) -> Iterator[ConnectionEvent]:
        """Tell once that nobody was reached; that the name is unknown, once in all."""
        if self._judged:
            return
        self._judged = True
        if event is ConnectionEvent.UNRESOLVED and self._told_unresolved:
            event = ConnectionEvent.UNREACHED
        self._told_unresolved |= event is ConnectionEvent.UNRESOLVED
        yield event

    def _read(self, event: int, value: int) -> ConnectionEvent | None:
        found: ConnectionEvent | None = None
        match event:
            case zmq.EVENT_CONNECTED:
                return None
            case zmq.EVENT_CLOSED:
                found = None if self._judged else ConnectionEvent.UNREACHED
            case zmq.EVENT_HANDSHAKE_SUCCEEDED:
                found, self._established = ConnectionEvent.CONNECTED, True
            case zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                found = ConnectionEvent.DENIED if value == DENIED else ConnectionEvent.FAILED
            case zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                found = ConnectionEvent.FOREIGN
            case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                found = ConnectionEvent.FAILED
            case zmq.EVENT_DISCONNECTED if self._established:
                found, self._established = ConnectionEvent.LOST, False
            case zmq.EVENT_DISCONNECTED if not self._judged:
                # This is all that libzmq reports of a greeting that is not ZeroMQ's, before it gives up silently.
                found = ConnectionEvent.FOREIGN
        self._judged = True
        return found

    def arrivals(self) -> Iterator[bytes | None]:
        """Take what has arrived from Charlie; None for what is no chunk of a frame, or not the one that is due."""
        for _ in range(AT_ONCE):
            try:
                parts = self._dealer.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            if len(parts) != 1:
                yield None
                continue
            try:
                frame = self._joiner.take(parts[0].buffer)
            except BadChunk:
                yield None
                continue
            if frame is not None:
                yield frame

    def send(self, data: bytes) -> None:
        """Send a frame to Charlie, now or when the connection takes it."""
        self._outbox.put(data)
        self.flush()

    def flush(self) -> None:
        """Offer the waiting frames to ZeroMQ again."""
        with contextlib.suppress(zmq.Again):
            self._outbox.offer(lambda chunk: self._dealer.send(chunk, zmq.NOBLOCK))

    def close(self, linger: int) -> None:
        """Close, after at most ``linger`` milliseconds for what ZeroMQ still has to send."""
        self._disconnect(linger)
        self._context.term()
        if self._tunnel is not None:
            self._tunnel.close()

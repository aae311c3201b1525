"""The interface between a session and its transport, and the common part of both ends' sockets.

Sockets do it in a run, lists do it in a test.
"""

import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

import zmq
from zmq.utils import z85

from masquerade_host.channel import MAX_MESSAGE, QUEUE
from masquerade_host.store.keyfiles import Keys

__all__ = [
    "AT_ONCE",
    "DENIED",
    "Arrival",
    "CharlieLink",
    "ConnectionEvent",
    "Link",
    "PartyLink",
    "ProxyRefusedError",
    "harden",
    "wait",
]

AT_ONCE = 256  # chunks that are taken before the session checks its clocks
DENIED = 400  # the status with which our ZAP handler denies a key
_TO_SEND = 512  # chunks for one peer inside ZeroMQ: the longest frame fits, so nobody waits to offer the rest


class ConnectionEvent(Enum):
    """An event of a party's connection."""

    CONNECTED = auto()
    DENIED = auto()  # Charlie answered, and this party's key is not on his list
    FAILED = auto()  # the handshake broke off: a wrong key on either side, a proxy with nobody behind it, or chance
    FOREIGN = auto()  # the answer is in another protocol; ZeroMQ does not try again
    UNRESOLVED = auto()  # the name in the address cannot be resolved now; it may be later
    UNREACHED = auto()  # nobody answered, or the name is still unknown
    LOST = auto()  # an established connection broke


@dataclass(frozen=True)
class Arrival:
    """One ZeroMQ message at Charlie.

    Attributes
    ----------
    name : str
        The party whose key the connection proved.
    route : bytes
        The way back.
    data : bytes or None
        The frame; ``None`` for what is no chunk of a frame, or not the one that is due.
    """

    name: str
    route: bytes
    data: bytes | None


class ProxyRefusedError(OSError):
    """The proxy was reached, and does not allow this connection; trying again would not help."""


class Link(Protocol):
    """The transport interface of any session."""

    @property
    def sockets(self) -> tuple[Any, ...]:
        """The sockets whose input a driver waits for."""

    @property
    def busy(self) -> bool:
        """Whether frames wait that could not be sent yet."""

    def flush(self) -> None:
        """Try to send the waiting frames again."""

    def close(self, linger: int) -> None:
        """Close, after at most ``linger`` milliseconds for what is still to be sent."""


class PartyLink(Link, Protocol):
    """The transport interface of a party's session; :class:`~masquerade_host.transport.dialer.PartySocket` is one."""

    def connection_events(self) -> Iterable[ConnectionEvent]:
        """Take what the connection went through."""

    def arrivals(self) -> Iterable[bytes | None]:
        """Take what has arrived; ``None`` for a message that is not one frame."""

    def send(self, data: bytes) -> None:
        """Send a frame to Charlie."""

    def reopen(self) -> None:
        """Make a new connection, and drop what waits on the old one."""


class CharlieLink(Link, Protocol):
    """The transport of Charlie's session, as :class:`~masquerade_host.transport.sockets.CharlieSocket` is one."""

    @property
    def address(self) -> str:
        """The address at which it listens."""

    def arrivals(self) -> Iterable[Arrival]:
        """Take what has arrived."""

    def found(self, name: str, route: bytes) -> None:
        """Remember the way back to a party."""

    def forget(self, name: str) -> None:
        """Drop what waits for a party."""

    def send(self, name: str, data: bytes) -> None:
        """Send a frame to a party."""

    def tell(self, route: bytes, data: bytes) -> bool:
        """Send one frame along a route that is not the way back to its party; it may be lost."""

    def hang_up(self, name: str, route: bytes) -> None:
        """End a party's connection a moment from now, and admit no other one of that party for a second."""

    def reachable(self, name: str) -> bool:
        """Say whether a party's connection was there when something was last sent to it."""

    def denied(self) -> int:
        """Return how many strangers were turned away since the last call."""


# --- Both ends of a connection ------------------------------------------------------


def harden(sock: "zmq.Socket[bytes]", keys: Keys, handshake: float = 3.0) -> None:
    """Set the options of both ends: CURVE, bounded queues and frames, heartbeats, and nothing kept after the close.

    Parameters
    ----------
    sock : Socket
    keys : Keys
    handshake : float
        Seconds within which a CURVE handshake has to be done.
    """
    sock.linger = 0
    sock.sndhwm, sock.rcvhwm = _TO_SEND, QUEUE
    sock.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
    sock.setsockopt(zmq.HANDSHAKE_IVL, int(1000 * handshake))
    sock.setsockopt(zmq.HEARTBEAT_IVL, 5000)
    sock.setsockopt(zmq.HEARTBEAT_TIMEOUT, 15000)
    sock.setsockopt(zmq.HEARTBEAT_TTL, 15000)
    sock.setsockopt(zmq.TCP_KEEPALIVE, 1)
    sock.curve_secretkey = z85.encode(keys.curve)
    sock.curve_publickey = z85.encode(keys.public.curve)


def wait(sockets: Collection["zmq.Socket[bytes]"], bell: socket.socket, milliseconds: int) -> bool:
    """Sleep until something arrives at a socket, the bell rings, or the time is over; return whether it rang."""
    poller = zmq.Poller()
    poller.register(bell, zmq.POLLIN)
    for sock in sockets:
        poller.register(sock, zmq.POLLIN)
    return bell.fileno() in dict(poller.poll(milliseconds))

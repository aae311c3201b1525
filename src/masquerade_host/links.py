"""What a session needs of its transport: sockets do it in a run, lists do it in a test."""

from collections.abc import Iterable
from typing import Any, Protocol

from masquerade_host.dialer import ConnectionEvent
from masquerade_host.transport import Arrival

__all__ = ["CharlieLink", "Link", "PartyLink"]


class Link(Protocol):
    """What any session needs of its transport."""

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
    """What a party's session needs; :class:`~masquerade_host.dialer.PartySocket` is one."""

    def connection_events(self) -> Iterable[ConnectionEvent]:
        """Take what the connection went through."""

    def arrivals(self) -> Iterable[bytes | None]:
        """Take what has arrived; ``None`` for a message that is not one frame."""

    def send(self, data: bytes) -> None:
        """Send a frame to Charlie."""

    def reopen(self) -> None:
        """Make a new connection, and drop what waits on the old one."""


class CharlieLink(Link, Protocol):
    """What Charlie's session needs; :class:`~masquerade_host.transport.CharlieSocket` is one."""

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

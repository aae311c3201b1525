"""What a party makes of its connection's ups and downs: when to try again, and when to give up and say why."""

from collections.abc import Callable

from masquerade_core.errors import CannotConnect
from masquerade_host.dialer import ConnectionEvent

__all__ = ["RETRY_EVERY", "Dialing"]

RETRY_EVERY = 1.0
"""Seconds between two hellos, and between two connections to somebody who speaks another protocol."""

_BROKEN_HANDSHAKES = 3  # in a row, before the other side is looked at more closely


class Dialing:
    """Keeps what is known of a party's connection to Charlie.

    Parameters
    ----------
    address : str
        Charlie's, as in the study.
    answers_as_curve : callable
        Looks at that address and says whether a CURVE server answers there.

    Attributes
    ----------
    connected : bool
        The connection that is open now has completed its handshake.
    met : bool
        Some connection of this run has completed its handshake.
    broken : bool
        A connection was lost, and no frame has arrived in order since.
    reopen_at : float or None
        When to make a new connection.
    """

    def __init__(self, address: str, answers_as_curve: Callable[[], bool]) -> None:
        self._address = address
        self._answers_as_curve = answers_as_curve
        self._failures = 0
        self.connected = False
        self.met = False
        self.broken = False
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
                self._failures = 0
            case ConnectionEvent.DENIED:
                raise self._not_admitted()
            case ConnectionEvent.LOST:
                self.broken = True
            case ConnectionEvent.FAILED | ConnectionEvent.FOREIGN:
                self._failures += 1
                if self._failures >= _BROKEN_HANDSHAKES:
                    self._judge(event)
                if event is ConnectionEvent.FOREIGN:
                    self.reopen_at = now + RETRY_EVERY

    def _judge(self, event: ConnectionEvent) -> None:
        if event is ConnectionEvent.FOREIGN:
            raise CannotConnect(
                f"what answers at {self._address} is not Charlie: it does not speak this program's protocol",
                "check the address and port in the study",
            )
        if self._answers_as_curve():
            raise self._not_admitted()
        self._failures = 0

    def _not_admitted(self) -> CannotConnect:
        return CannotConnect(
            f"Charlie at {self._address} did not admit this party: either its key is not in Charlie's study, or "
            "Charlie's key is not the one in this study",
            "compare the fingerprints of 'masquerade keys show' with the coordinator's, by telephone",
        )

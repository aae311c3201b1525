"""A party's reconnection rules: when to try again, and when to give up and say why."""

from collections.abc import Callable

from masquerade_core.errors import CannotConnect
from masquerade_host.links import ConnectionEvent
from masquerade_host.probe import Answer

__all__ = ["RETRY_EVERY", "Dialing", "WhoAnswers"]

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
        Looks at that address (:func:`~masquerade_host.probe.probe`).

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
                f"the server at {self._address} has another key than Charlie has in this study",
                _COMPARE,
            )
        self._failures = 0

"""Progress events of a session: how far a long stage is, and how much passed so far."""

from collections.abc import Callable

from masquerade_host.stats import Observer, Stats

__all__ = ["News"]

_EVERY = 0.5  # seconds between two reports of a long stage's progress


class News:
    """Reports to an observer, not too often.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.
    observe : Observer

    Attributes
    ----------
    heard : float or None
        At a party: when Charlie's last frame came.
    """

    def __init__(self, clock: Callable[[], float], observe: Observer) -> None:
        self._clock = clock
        self._observe = observe
        self._next = 0.0
        self.heard: float | None = None

    def progress(self, done: int, total: int) -> None:
        """Report how many rounds of a long stage are over; the last one always, others now and then."""
        now = self._clock()
        if now >= self._next or done == total:
            self._next = now + _EVERY
            self._observe("progress", done=done, total=total)

    def traffic(self, stats: Stats, missing: tuple[str, ...], waited: float) -> None:
        """Report what passed so far, and for whom the role has waited for how long: the signs that this thread runs."""
        passed = {"messages": stats.messages, "bytes": stats.bytes}
        silence = 0.0 if self.heard is None else self._clock() - self.heard
        who = ", ".join(missing)
        self._observe("traffic", **passed, waited_for=who, seconds=round(waited, 1), silence=round(silence, 1))

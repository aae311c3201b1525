"""The public schedule: a party's frames leave at fixed times after the frame that they answer, not when they are ready.

Computing time grows with the number of records. An observer of the network sees when a frame arrives at a party and
when its answer leaves. The study's ``slot_seconds`` makes the time between them public: an answer leaves one slot after
the frame that it answers came, or two, or three. Roles know no clock; this is the session's business alone.
"""

import math
from collections import deque
from collections.abc import Callable

__all__ = ["Schedule"]

_LATE = 0.1  # of a slot: a frame that this process lets go later than so waits for the next slot


class Schedule:
    """Holds what a party is about to send until its slot.

    Parameters
    ----------
    slot : float or None
        The study's ``slot_seconds``; ``None`` lets everything leave at once.
    """

    def __init__(self, slot: float | None) -> None:
        self._slot = slot
        self._opened = 0.0  # the slots are counted from here
        self._held: deque[tuple[float, Callable[[], None]]] = deque()

    def hold(self, now: float, opened: float, send: Callable[[], None]) -> None:
        """Call ``send`` in its slot, and never before what was held earlier.

        Parameters
        ----------
        now : float
            The time.
        opened : float
            When the last of the frames came that the role has taken so far.
        send : callable
        """
        if self._slot is None:
            send()
            return
        self._opened = opened
        due = self._next_slot(now, self._slot)
        self._held.append((max(due, self._held[-1][0]) if self._held else due, send))

    def _next_slot(self, now: float, slot: float) -> float:
        return self._opened + slot * (math.floor((now - self._opened) / slot) + 1)

    def release(self, now: float) -> None:
        """Send what is due. If this process comes late, the time would show how busy it was: the next slot, then."""
        while self._slot is not None and self._held and self._held[0][0] <= now:
            due, send = self._held[0]
            if now - due > _LATE * self._slot:
                later = self._next_slot(now, self._slot)
                self._held = deque((max(at, later), action) for at, action in self._held)
                return
            self._held.popleft()
            send()

    @property
    def immediate(self) -> bool:
        """Whether everything leaves at once."""
        return self._slot is None

    def let_go(self) -> bool:
        """Send the first frame that is held, whatever the time; return whether there was one."""
        if not self._held:
            return False
        self._held.popleft()[1]()
        return True

    @property
    def due(self) -> float | None:
        """When the next frame is due; ``None`` if none is held."""
        return self._held[0][0] if self._held else None

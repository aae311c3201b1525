"""Deadlines: which frame is due, since when, and until when. Every wait of a session asks here.

A frame is *due* from a participant once it holds all that the frame follows from. From that moment on it has the
study's ``deadline_seconds``, and the public forecast of the work (:class:`~masquerade_core.forecast.Forecast`). Beats
do not lengthen that: a participant that lives and withholds the frame is out of time like a silent one.

Charlie sees what a party holds, since its beats acknowledge what it was sent. A party does not see what the others
hold. So Charlie's beats say how often somebody's clock has started at his end, and a party's patience with him, a
quarter longer than his with the parties, begins anew each time. That is his word alone. So no wait lasts longer than
the run's longest chain of frames would take, if each of them used up its time.
"""

from dataclasses import dataclass

from masquerade_core.forecast import Forecast

__all__ = ["Allowance", "Wait"]

_PATIENCE = 1.25  # how long a party waits for Charlie, beside what he allows the one whom he waits for


@dataclass(frozen=True)
class Allowance:
    """How many seconds a study allows.

    Parameters
    ----------
    deadline : float
        The study's ``deadline_seconds``.
    forecast : Forecast
        Of the study's protocol.
    slot : float
        The study's ``slot_seconds``, for which a frame may be held back; 0 where there are none.
    """

    deadline: float
    forecast: Forecast
    slot: float = 0.0

    @property
    def delivery(self) -> float:
        """From when a frame was sent until its recipient acknowledges it."""
        return self.deadline

    @property
    def frame(self) -> float:
        """From when a frame's inputs were delivered until it comes."""
        return self.deadline + self.forecast.seconds + self.slot

    @property
    def of_charlie(self) -> float:
        """How long a party waits for Charlie, who himself waits for :attr:`frame`."""
        return _PATIENCE * self.frame

    def wait(self, allowed: float) -> "Wait":
        """Return a wait for so many seconds without a sign that the run goes on."""
        return Wait(allowed, allowed + self.delivery)


class Wait:
    """One wait.

    Parameters
    ----------
    allowed : float
        Seconds without a sign that the run goes on.
    turn : float
        Seconds that one frame of a chain may take at most, its delivery included.

    Attributes
    ----------
    began : float
        When the wait began.
    moved : float
        When the run was last seen to go on.
    """

    def __init__(self, allowed: float, turn: float) -> None:
        self._allowed = allowed
        self._turn = turn
        self.began = self.moved = 0.0

    def begin(self, now: float) -> None:
        """Wait for something from now on."""
        self.began = self.moved = now

    def sign(self, now: float) -> None:
        """The run has gone on: somebody's clock starts now."""
        self.moved = now

    def shift(self, seconds: float) -> None:
        """Move on by a pause in which this process did not run."""
        self.began += seconds
        self.moved += seconds

    def stands_still(self, now: float) -> bool:
        """Say whether the run has not gone on for too long."""
        return now - self.moved > self._allowed

    def lasts(self, now: float, turns: int) -> bool:
        """Say whether the wait lasts longer than so many frames, one after the other, could make it last."""
        return now - self.began > (turns + 1) * self._turn

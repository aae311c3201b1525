"""The cost of a run: seconds, messages and bytes, stage by stage."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import dropwhile
from typing import Any, Protocol

__all__ = ["JOINING", "Observer", "Relayed", "StageCost", "Stats", "quiet"]

JOINING = "joining"
"""The stage between a role's Join and its own next stage: most of it is waiting for people."""


class Observer(Protocol):
    """Gets the events of a run, for a progress line, a live view or a log. The I/O thread calls it."""

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Take one event."""


def quiet(_event: str, /, **_fields: str | float) -> None:
    """Ignore every event."""


@dataclass(frozen=True)
class Relayed:
    """One box that Charlie relayed: its source, recipient, type and length are all that he knows of it."""

    source: str
    to: str
    type: str
    length: int


@dataclass
class StageCost:
    """The cost of one stage. Frames in both directions count as messages and bytes; beats do not."""

    name: str
    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0


class Stats:
    """Counts each frame under the stage in which it passed.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.
    observe : Observer
        Gets an event when a stage begins and when it ends.
    """

    def __init__(self, clock: Callable[[], float], observe: Observer) -> None:
        self._clock = clock
        self._observe = observe
        self._begun = self._entered = clock()
        self._open = False
        self.stages: list[StageCost] = []
        self.beats = 0
        self.seconds = 0.0

    def stage(self, name: str) -> None:
        """End the current stage and begin the next, if it is another one."""
        if self._open and self.stages[-1].name == name:
            return
        self.end()
        self.stages.append(StageCost(name))
        self._open = True
        self._observe("stage", name=name)

    def end(self) -> None:
        """End the current stage, if there is one."""
        now = self._clock()
        self.seconds = now - self._begun
        if self._open:
            last = self.stages[-1]
            last.seconds = now - self._entered
            self._open = False
            self._observe("stage_done", **asdict(last))
        self._entered = now

    def count(self, size: int) -> None:
        """Count one frame of ``size`` bytes."""
        if not self.stages:
            self.stage(JOINING)
        self.stages[-1].messages += 1
        self.stages[-1].bytes += size

    @property
    def messages(self) -> int:
        """The number of frames so far."""
        return sum(s.messages for s in self.stages)

    @property
    def bytes(self) -> int:
        """The number of bytes so far."""
        return sum(s.bytes for s in self.stages)

    def to_json(self, *, from_join: bool = False) -> dict[str, Any]:
        """Return the cost part of ``result.json``.

        Parameters
        ----------
        from_join : bool
            Leave out what was before the role joined: the time that a party trains shows how many records it has.
        """
        stages, seconds = self.stages, self.seconds
        if from_join:
            stages = list(dropwhile(lambda stage: stage.name != JOINING, stages))
            seconds = sum(stage.seconds for stage in stages)
        return {
            "seconds": round(seconds, 3),
            "stages": [asdict(s) | {"seconds": round(s.seconds, 3)} for s in stages],
            "messages": self.messages,
            "bytes": self.bytes,
        }

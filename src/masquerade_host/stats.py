"""The cost of a run: seconds, messages and bytes, stage by stage."""

import math
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
    """The cost of one stage. Frames in both directions count as messages and bytes; beats do not.

    ``ciphertexts`` counts those that this participant's role sent, once for each recipient.
    """

    name: str
    seconds: float = 0.0
    messages: int = 0
    bytes: int = 0
    ciphertexts: int = 0


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

    def encrypted(self, ciphertexts: int) -> None:
        """Count ciphertexts that the role sends."""
        if ciphertexts:
            self.stages[-1].ciphertexts += ciphertexts

    @property
    def messages(self) -> int:
        """The number of frames so far."""
        return sum(s.messages for s in self.stages)

    @property
    def bytes(self) -> int:
        """The number of bytes so far."""
        return sum(s.bytes for s in self.stages)

    def to_json(self, *, of_party: bool = False) -> dict[str, Any]:
        """Return the cost part of ``result.json``.

        Parameters
        ----------
        of_party : bool
            A party's times show how many records it has. So its stages have none, what was before the role joined is
            left out, and the whole seconds from then on, rounded up, are those that everybody takes.
        """
        stages, seconds = [asdict(s) | {"seconds": round(s.seconds, 3)} for s in self.stages], round(self.seconds, 3)
        if of_party:
            joined = list(dropwhile(lambda stage: stage["name"] != JOINING, stages))
            seconds = float(math.ceil(sum(stage.pop("seconds") for stage in joined)))
            stages = joined
        return {
            "seconds": seconds,
            "stages": stages,
            "messages": self.messages,
            "bytes": self.bytes,
            "ciphertexts": sum(stage.ciphertexts for stage in self.stages),
        }

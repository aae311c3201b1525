"""The effects: all that a role can ask of the world, as frozen values.

A role awaits the methods of its :class:`~masquerade_core.seat.Seat`. Each await yields one of these to the driver that
runs the role.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from masquerade_core.rng import Rng

__all__ = ["Effect", "Join", "Once", "Progress", "Receive", "Release", "Send", "Stage"]


class Effect:
    """A request of a role to its driver; awaiting it hands it over and returns the driver's answer."""

    def __await__(self) -> Generator["Effect", Any, Any]:
        """Yield this effect and return what the driver sends back."""
        return (yield self)


@dataclass(frozen=True)
class Join(Effect):
    """Join the run: publish the key for sealed boxes and a nonce, and wait for everybody's.

    The answer is (((name, key), ...), run id). The run id depends on everybody's nonce. Where a participant is not
    shown everybody's key, a third item follows: the root of the tree over everybody's hello.

    ``prove(study_id=..., signing=...)`` proves that this participant owns the key. The driver knows both: the id of the
    study, and the public key under which it signs.
    """

    box_key: bytes
    nonce: bytes
    prove: Callable[..., bytes] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Stage(Effect):
    """A new stage begins; from here on, time, messages and bytes are counted under its name."""

    name: str


@dataclass(frozen=True)
class Once(Effect):
    """Run ``compute(rng)`` once in this run; its result is plain data, and a replay of the run gets it again."""

    label: str
    compute: Callable[[Rng], Any]


@dataclass(frozen=True)
class Send(Effect):
    """Send one body to each recipient. ``kind`` is "message", or "sealed" for boxes, which are all equally long.

    In a ``broadcast`` all bodies are the same, and all parties are recipients. One body has so many ``ciphertexts``.
    """

    kind: str
    type: str
    to: tuple[str, ...]
    bodies: tuple[bytes, ...]
    broadcast: bool = False
    ciphertexts: int = 0


@dataclass(frozen=True)
class Receive(Effect):
    """Wait for one body of this kind and type from each sender; the answer has them in the order of ``senders``.

    A ``broadcast`` must have gone to all parties. Where ``within`` is set, the driver waits so many seconds at most,
    and the answer has None in the place of a party that sent nothing.
    """

    kind: str
    type: str
    senders: tuple[str, ...]
    broadcast: bool = False
    within: float | None = None


@dataclass(frozen=True)
class Release(Effect):
    """Count what the contents of the next send cost in privacy.

    Attributes
    ----------
    label : str
        Names what is released; one label stands for one release of the run.
    epsilon, delta : float
        What this release costs alone.
    mu : float
        Greater than 0 where the noise is Gaussian: its sensitivity over its standard deviation. Such releases compose
        exactly (:mod:`~masquerade_core.privacy.accounting.gaussian_dp`).
    slack : float
        The delta that pays for the distance of the drawn noise from a Gaussian, where mu is greater than 0.
    """

    label: str
    epsilon: float
    delta: float
    mu: float = 0.0
    slack: float = 0.0


@dataclass(frozen=True)
class Progress(Effect):
    """``done`` of ``total`` rounds are over; ``iterate`` is the current public classifier, if there is one."""

    done: int
    total: int
    iterate: tuple[float, ...]

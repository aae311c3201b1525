"""Less noise than a study says, for the control of its audit: the roles stay as they are, and the samplers change.

A control runs the whole study, from its file to the released model, with a fraction of its noise. No protocol has a
setting for that, and none should have. So this module puts others in the place of the four samplers, in every module
that imported them, and takes them back. It serves audits alone: they run in one process, with made-up records.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from masquerade_core.privacy.samplers import discrete_gaussian, discrete_laplace, l2_laplace, rounded_gaussian

__all__ = ["Drawn", "less_noise"]


@dataclass
class Drawn:
    """How often a sampler was called while there was less noise; ``factor`` is 1 before and afterwards."""

    factor: Fraction
    calls: int = 0


# What a sampler takes after the source of randomness: a standard deviation, a scale, or a rate, which is its inverse.
_SAMPLERS: tuple[tuple[Callable[..., Any], bool], ...] = (
    (discrete_gaussian.discrete_gaussian, False),
    (rounded_gaussian.gaussian, False),
    (discrete_laplace.discrete_laplace, False),
    (l2_laplace.l2_laplace, True),
)


@contextmanager
def less_noise(factor: Fraction) -> Iterator[Drawn]:
    """Multiply all noise that the samplers draw by a factor, for as long as the context lasts.

    The randomised response draws its answers with a sampler too, so it lies less often.
    """
    drawn = Drawn(factor)
    replaced = {id(sampler): _scaled(sampler, drawn, rate) for sampler, rate in _SAMPLERS}
    places = [
        (module, name, value)
        for module in list(sys.modules.values())
        for name, value in list(getattr(module, "__dict__", {}).items())
        if id(value) in replaced
    ]
    for module, name, value in places:
        setattr(module, name, replaced[id(value)])
    try:
        yield drawn
    finally:
        drawn.factor = Fraction(1)  # for a module that was imported meanwhile, and keeps the other sampler
        for module, name, value in places:
            setattr(module, name, value)


def _scaled(sampler: Callable[..., Any], drawn: Drawn, rate: bool) -> Callable[..., Any]:
    def scaled(rng: Any, size_of_noise: Fraction, *more: Any, **named: Any) -> Any:
        drawn.calls += 1
        factor = 1 / drawn.factor if rate else drawn.factor
        return sampler(rng, size_of_noise * factor, *more, **named)

    return scaled

"""What an audit is: a mechanism, two neighbouring data sets, somebody's view, and what its runs must show."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade.audit.bounds import epsilon_bound
from masquerade.audit.source import Source

__all__ = ["CONFIDENT", "ERROR", "SEED", "Audit", "Finding", "Gate", "Scores"]

ERROR = 0.05
"""Of a bound that refutes: it holds at 95 %."""

CONFIDENT = 0.001
"""Of all bounds together that must not exceed what is proved: each holds at 99.9 % and more."""

SEED = 20261122
"""Of every audit. Canaries and numbers of runs were settled with other seeds; this one had no say in them."""

Scores = Callable[[int, bool, Source, Fraction], NDArray[np.float64]]
"""(runs, moved, source, factor) -> one score a run, under D' if ``moved``; all noise is ``factor`` times as large.

A score is what the adversary computes from what it sees, and from all records but one. It knows D and D'.
"""


class Gate(Enum):
    """What the bound must do."""

    REFUTED = "refuted"
    """A paper's claim: the bound must exceed it."""

    CAUGHT = "caught"
    """A known slip in our own code: the bound must exceed the wish."""

    HOLDS = "holds"
    """A proof: the bound must not exceed it; the same audit of less noise must."""


@dataclass(frozen=True)
class Audit:
    """One audit; its canary, runs and seed are fixed here, before anything is drawn.

    Parameters
    ----------
    name, protocol : str
    gate : Gate
    adversary : str
        Whose view the scores are computed from, in a few words.
    canary : str
        The record that differs.
    epsilon, delta : float
        What is claimed, wished or proved of the whole run.
    scores : callable
        See :data:`Scores`.
    runs, quick : int
        Of each data set; ``quick`` is 0 where the audit is too slow for a quick selection.
    seed : int
        Of all randomness.
    proved : float, optional
        The epsilon at this delta that is proved, or exactly true, of what was run; None where there is none.
    control : Fraction
        Of a gate ``HOLDS``: the part of the noise with which the same audit must exceed epsilon.
    how : str
        How the runs were made, where not by the protocol's own functions and samplers.
    """

    name: str
    protocol: str
    gate: Gate
    adversary: str
    canary: str
    epsilon: float
    delta: float
    scores: Scores
    runs: int
    quick: int
    seed: int = SEED
    proved: float | None = None
    control: Fraction = Fraction(1, 2)
    how: str = "own functions and samplers"

    def bound(self, runs: int, error: float, factor: Fraction = Fraction(1)) -> float:
        """Return the lower bound on epsilon that so many runs of each data set show.

        Parameters
        ----------
        runs : int
        error : float
            The chance that the bound is too large.
        factor : Fraction
            Of the noise.
        """
        zeros, ones = (
            self.scores(runs, moved, Source(self.seed, f"{self.name} {'D-prime' if moved else 'D'} {factor}"), factor)
            for moved in (False, True)
        )
        return epsilon_bound(zeros, ones, self.delta, error)


@dataclass(frozen=True)
class Finding:
    """What an audit showed.

    Parameters
    ----------
    audit : Audit
    runs : int
        Of each data set.
    error : float
        The chance that the bound is too large.
    bound : float
        On epsilon, from below.
    control : float, optional
        The same with less noise, for a gate ``HOLDS``.
    seconds : float
    """

    audit: Audit
    runs: int
    error: float
    bound: float
    control: float | None
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether what is asked of the bound is so."""
        if self.audit.gate is Gate.HOLDS:
            return self.bound <= self.audit.epsilon and self.control is not None and self.control > self.audit.epsilon
        return self.bound > self.audit.epsilon

    @property
    def verdict(self) -> str:
        """A word for people; capitals where it is not as it must be."""
        if self.audit.gate is not Gate.HOLDS:
            return self.audit.gate.value if self.holds else f"NOT {self.audit.gate.value.upper()}"
        if self.bound > self.audit.epsilon:
            return "EXCEEDED"
        return "holds" if self.holds else "NO POWER"

    def to_json(self) -> dict[str, object]:
        """Return the fields of this finding."""
        a = self.audit
        return {
            "audit": a.name,
            "protocol": a.protocol,
            "gate": a.gate.value,
            "adversary": a.adversary,
            "canary": a.canary,
            "epsilon": a.epsilon,
            "delta": a.delta,
            "proved": a.proved,
            "runs": self.runs,
            "seed": a.seed,
            "error": self.error,
            "bound": self.bound,
            "control_noise": str(a.control) if self.control is not None else None,
            "control": self.control,
            "holds": self.holds,
            "verdict": self.verdict,
            "how": a.how,
            "seconds": round(self.seconds, 1),
        }

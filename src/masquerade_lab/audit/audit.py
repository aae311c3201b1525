"""The definition of an audit: a mechanism, two neighbouring data sets, a view, and the expected result of the runs."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade_lab.audit.bounds import epsilon_bound
from masquerade_lab.audit.source import Source

__all__ = ["CONFIDENT", "CONTROL", "ERROR", "SEED", "Audit", "Finding", "Gate", "Scores"]

ERROR = 0.05
"""How often any of the bounds that refute claims may be too large: all of them together hold at 95 %.

The bounds that catch known bugs hold together at 95 % too.
"""

CONFIDENT = 0.001
"""How often any of the bounds on what is proved may be too large: all of them together hold at 99.9 %."""

CONTROL = Fraction(1, 2)
"""The fraction of the noise with which the audit of a proof is repeated: then it must exceed what is proved."""

SEED = 20261122
"""The seed of every audit. Canaries and numbers of runs were chosen with other seeds, and not changed for this one."""

Scores = Callable[[int, bool, Source, Fraction], NDArray[np.float64]]
"""(runs, moved, source, factor) -> one score a run, under D' if ``moved``; all noise is ``factor`` times as large.

A score is what the adversary computes from what it sees, and from all records but one. It knows D and D'.
"""


class Gate(Enum):
    """The requirement on the lower bound on epsilon."""

    REFUTED = "refuted"
    """A paper's claim: the bound must exceed it."""

    CAUGHT = "caught"
    """A known bug in the noise, made on purpose: the bound must exceed the privacy target."""

    HOLDS = "holds"
    """A proof: the bound must not exceed it, and the same audit must exceed it with half of the noise."""


@dataclass(frozen=True)
class Audit:
    """One audit; its canary, runs and seed are fixed here, before anything is drawn.

    Parameters
    ----------
    name, protocol : str
    gate : Gate
    adversary : str
        Who computes the scores from what it sees, in a few words.
    canary : str
        The record that differs between the two data sets.
    epsilon, delta : float
        What is claimed, targeted or proved for the whole run.
    scores : callable
        See :data:`Scores`.
    runs, quick : int
        Runs of each data set, in full and in a quick selection; 0 where the audit is too slow for the latter.
    seed : int
        Of all randomness.
    proved : float, optional
        The epsilon that is proved of the runs at this delta, or that is exactly true of them; None where there is none.
    how : str
        How the runs are made.
    cost : float
        About how many milliseconds a run takes, for the time that is left alone.
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
    how: str = "own functions and samplers"
    cost: float = 1.0

    def drawn(self, runs: int, moved: bool, factor: Fraction = Fraction(1)) -> NDArray[np.float64]:
        """Return the scores of a number of runs under D, or under D' if ``moved``."""
        source = Source(self.seed, f"{self.name} {'D-prime' if moved else 'D'} {factor}")
        return self.scores(runs, moved, source, factor)

    def bound(self, runs: int, error: float, factor: Fraction = Fraction(1)) -> float:
        """Return the lower bound on epsilon that a number of runs of each data set shows.

        Parameters
        ----------
        runs : int
        error : float
            The chance that the bound is too large.
        factor : Fraction
            All noise is multiplied by it.
        """
        return epsilon_bound(self.drawn(runs, False, factor), self.drawn(runs, True, factor), self.delta, error)


@dataclass(frozen=True)
class Finding:
    """The result of an audit.

    Parameters
    ----------
    audit : Audit
    runs : int
        Runs of each data set.
    error : float
        The chance that the bound is too large.
    bound : float
        The lower bound on epsilon.
    control : float, optional
        The same with half of the noise, for the gate ``HOLDS``.
    seconds : float
        How long the audit took.
    noticed : float, optional
        For the gate ``HOLDS``: the estimated fraction of the noise below which the bound would have exceeded epsilon.
    checked : float, optional
        The bound that runs with that fraction of the noise show; None in a quick selection.
    """

    audit: Audit
    runs: int
    error: float
    bound: float
    control: float | None
    seconds: float
    noticed: float | None = None
    checked: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the bound is what the gate asks for."""
        if self.audit.gate is Gate.HOLDS:
            return self.bound <= self.audit.epsilon and self.control is not None and self.control > self.audit.epsilon
        return self.bound > self.audit.epsilon

    @property
    def verdict(self) -> str:
        """The outcome in a word or two; in capitals where the audit failed."""
        if self.audit.gate is not Gate.HOLDS:
            return self.audit.gate.value if self.holds else f"NOT {self.audit.gate.value.upper()}"
        if self.bound > self.audit.epsilon:
            return "EXCEEDED"
        return "not exceeded" if self.holds else "NO POWER"

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
            "control_noise": None if self.control is None else str(CONTROL),
            "control": self.control,
            "noticed": self.noticed,
            "checked": self.checked,
            "holds": self.holds,
            "verdict": self.verdict,
            "how": a.how,
            "seconds": round(self.seconds, 1),
        }

"""PSGD and local aggregation without encryption, many draws at a time, with the noise that the protocols draw.

Nothing here is a protocol: one process sees all records. The arithmetic of a round is the protocol's own: the same sums
of gradients, the same steps, and the same noise on the same grid. Many runs are computed at once, as columns of a
matrix.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from masquerade.datasets import deal
from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.learning.gradients import gradient_sum, step_sizes
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.objective_perturbation import sigma_share
from masquerade_core.privacy.noise.output_perturbation import paper_beta, paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng, SimulationRng
from masquerade_core.study import Feature, Study
from masquerade_protocols.local_aggregation.public import FRACTION_BITS as AGGREGATION_BITS
from masquerade_protocols.psgd.schedule import FRACTION_BITS as GRADIENT_BITS
from masquerade_protocols.psgd.schedule import Schedule

__all__ = [
    "DELTA",
    "D",
    "Split",
    "aggregates",
    "average",
    "descend",
    "draw_eta",
    "draw_fresh",
    "draw_rho",
    "output_noise",
    "printed_root",
    "study_of",
]

D = 10
DELTA = 0.05
_SHARES = 30  # divided evenly among 5, 10 or 15 parties, so that all K have the same sum of eta

_Array = NDArray[np.float64]
_UNIT = Fraction(1 << GRADIENT_BITS)


@cache
def study_of(epsilon: float, Lambda: float, d: int = D) -> Study:
    """Return a study with the paper's settings; K is not among them."""
    names = [f"party-{k}" for k in range(1, 6)]
    draft = Draft(
        parties=[(name, throwaway_key()) for name in names],
        curator_key=throwaway_key(),
        protocol="psgd",
        features=[Feature(name=f"x{i}", min=-1.0, max=1.0) for i in range(1, d + 1)],
        epsilon=epsilon,
        delta=DELTA,
        calibration="paper",
        regularization=Lambda,
        intercept=False,
    )
    return Study.parse(draft.to_toml(), "the paper's settings", in_memory=True)


def printed_root(d: int, epsilon: float | Fraction, delta: float) -> float:
    """Return the only positive sigma of Procedure 3 as printed: Pr(U <= (sigma eps~ - 2)^2 / (4 sigma^2)) = 1 - delta.

    With q^2 the quantile, sigma eps~ - 2 = -2 q sigma, so sigma = 2/(eps~ + 2q): hardly any noise. For the intended
    equation, and for what follows from it, see :func:`masquerade_core.privacy.noise.objective_perturbation.sigma_star`.
    """
    return 2 / (float(epsilon) + 2 * math.sqrt(float(chdtri(d, delta))))


# --- Noise ------------------------------------------------------------------------


def draw_eta(seed: str, sigma: Fraction, draws: int, d: int = D) -> _Array:
    """Draw sum_k eta^k, which is the same for 5, 10 and 15 parties; shape (draws, d).

    Thirty shares of variance sigma^2/30 a coordinate are dealt evenly, so each of K parties has an eta^k of variance
    sigma^2/K.
    """
    rng, share = SimulationRng(seed, "eta"), sigma_share(sigma, _SHARES)
    drawn = np.array([gaussian(rng, share, _SHARES * d, _UNIT) for _ in range(draws)], dtype=np.float64)
    return _ungrid(drawn.reshape(draws, _SHARES, d).sum(axis=1))


def draw_fresh(seed: str, sigma: Fraction, rounds: int, draws: int) -> _Array:
    """Draw a new sum_k eta^k for each round, which is wrong; shape (rounds, draws, d). K makes no difference."""
    rng = SimulationRng(seed, "fresh eta")
    drawn = gaussian(rng, sigma, rounds * draws * D, _UNIT)
    return _ungrid(np.array(drawn, dtype=np.float64).reshape(rounds, draws, D))


def draw_rho(
    seed: str,
    schedule: Schedule,
    rounds: int,
    draws: int,
    parties: Sequence[int],
    d: int = D,
) -> _Array:
    """Draw rho_t^k for every party, round and draw, and add up those of the first K; shape (rounds, K's, draws, d).

    Parameters
    ----------
    parties : sequence of int
        The values of K, rising.
    """
    sums = np.empty((rounds, len(parties), draws, d))
    for draw in range(draws):
        rngs = [SimulationRng(seed, f"rho {draw} {k}") for k in range(parties[-1])]
        for t in range(rounds):
            beta = schedule.beta(t)
            rho = np.array([l2_laplace(rng, beta, d, _UNIT) for rng in rngs], dtype=np.float64)
            sums[t, :, draw] = np.cumsum(rho, axis=0)[[K - 1 for K in parties]]
    return _ungrid(sums)


def _ungrid(noise: _Array) -> _Array:
    return np.asarray(noise / 2**GRADIENT_BITS, dtype=np.float64)


# --- PSGD -------------------------------------------------------------------------


def descend(
    records: Dataset,
    study: Study,
    schedule: Schedule,
    noise: Callable[[int], _Array],
    after: Sequence[int],
) -> tuple[_Array, ...]:
    """Run Algorithm 1 once for each row of noise.

    Parameters
    ----------
    records : Dataset
        Everybody's records, since only sums over all parties enter a round.
    noise : callable
        t -> sum_k (rho_t^k + eta^k), shape (R, d).
    after : sequence of int
        Numbers of rounds, rising.

    Returns
    -------
    tuple of ndarray, shape (R, d)
        The iterates after these rounds.
    """
    X, y, N = records.X, records.y[:, None], len(records.y)
    loss, Lambda = loss_of(study.model.loss), study.model.regularization
    curvature = Lambda + float(schedule.Delta)
    z = step_sizes(float(loss.c), Lambda, float(schedule.Delta))
    w = np.zeros_like(noise(0).T)
    iterates = []
    for t in range(after[-1]):
        w = w - z(t) * ((gradient_sum(X, y, w, loss) + noise(t).T) / N + curvature * w)
        if t + 1 in after:
            iterates.append(w.T)
    return tuple(iterates)


# --- Local aggregation --------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """How the records are dealt, and what noise is added to the average.

    Parameters
    ----------
    parts : tuple of float
        Fractions of all records.
    epsilon : float
    law : "l2" or "laplace"
        Density exp(-beta ||eta||_2), or independent Laplace noise per coordinate.
    divided : bool
        Whether the noise is divided by K, as the average's own sensitivity allows. Neither paper does so.
    """

    parts: tuple[float, ...]
    epsilon: float
    law: Literal["l2", "laplace"] = "l2"
    divided: bool = False


def average(records: Dataset, parts: Sequence[float], Lambda: float) -> _Array:
    """Average the parties' classifiers; shape (d,)."""
    return np.asarray(np.mean([fit(part.X, part.y, Lambda) for part in deal(records, parts)], axis=0))


def output_noise(records: Dataset, split: Split, Lambda: float, seed: str, draws: int) -> _Array:
    """Draw the smallest party's noise; shape (draws, d)."""
    rng, d = SimulationRng(seed, repr(split)), records.X.shape[1]
    smallest = min(len(part.y) for part in deal(records, split.parts))
    noise = np.array([_output_noise(rng, split, smallest, Lambda, d) for _ in range(draws)], dtype=np.float64)
    return np.asarray(noise / 2**AGGREGATION_BITS / (len(split.parts) if split.divided else 1), dtype=np.float64)


def aggregates(records: Dataset, split: Split, Lambda: float, seed: str, draws: int) -> _Array:
    """Average the parties' classifiers and add the smallest party's noise; shape (draws, d)."""
    noise = output_noise(records, split, Lambda, seed, draws)
    return np.asarray(average(records, split.parts, Lambda) + noise, dtype=np.float64)


def _output_noise(rng: Rng, split: Split, n: int, Lambda: float, d: int) -> list[int]:
    unit = Fraction(1 << AGGREGATION_BITS)
    if split.law == "laplace":
        return discrete_laplace(rng, unit * paper_scale(n, split.epsilon, Lambda), d)
    return l2_laplace(rng, paper_beta(n, split.epsilon, Lambda), d, unit)

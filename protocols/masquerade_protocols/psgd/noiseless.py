"""What a descent along noisy gradients would release without noise. Whoever computes it sees all records."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.gradients import StepSizes, gradient_sum, step_sizes
from masquerade_core.learning.losses import loss_of
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.comparing import SMALL_NOISE, times, two_digits
from masquerade_protocols.entry import Noiseless, Weights
from masquerade_protocols.psgd.schedule import Schedule, Variant, parameters_of

__all__ = ["first_drowned_round", "noise_ratio", "noiseless", "with_epsilon", "without_noise"]


def noiseless(
    study: Study, data: Mapping[str, Dataset], _released: Weights, *, variant: Variant, name: str, **_unused: Any
) -> Noiseless:
    """Judge the noise by how large it is in the records' scores w.x; ``name`` is the protocol's."""
    together = pool(study, data)
    clean = without_noise(study, together, variant)

    def ratio_at(epsilon: float) -> float:
        other = with_epsilon(study, epsilon)  # epsilon decides on Delta too, and so on the classifier without noise
        return noise_ratio(other, together, without_noise(other, together, variant), variant)

    epsilon, rounds = study.privacy.epsilon, parameters_of(study).rounds
    ratio, drowned = ratio_at(epsilon), first_drowned_round(study, len(together.y), variant)
    enough = _smallest_epsilon(ratio_at, epsilon)
    if name == "decaying-budget" and drowned is not None:
        advice = (
            f"Every further round has half the epsilon, and so twice the noise: from round {drowned} of {rounds} on, "
            f"the noise is longer than the sum of all {len(together.y):,} records' gradients can be. So the released "
            "classifier is noise. The paper rejects this protocol for that reason; it is kept for comparisons."
        )
    elif name == "noisy-gradient":
        advice = (
            f"Do not compare this error with those of other protocols: here epsilon = {epsilon:g} is spent in every "
            f"one of {counted(rounds, 'round')}. The paper rejects the protocol for that reason."
        )
    elif ratio > SMALL_NOISE:
        advice = f"At epsilon = {epsilon:g} the noise in a record's score is {times(ratio)} as large as the score" + (
            f"; epsilon = {two_digits(enough)} would do, or {times(enough / epsilon)} the {len(together.y):,} records."
            if enough is not None
            else ", and no epsilon makes it small: choose more rounds, or a larger regularization."
        )
    else:
        advice = ""
    return Noiseless(clean, f"{counted(rounds, 'round')} on exact gradients", ratio, enough, advice)


def _steps(study: Study, schedule: Schedule) -> tuple[int, StepSizes, float]:
    """Return T, z_t and Lambda + Delta."""
    chosen, Lambda = parameters_of(study), study.model.regularization
    c, Delta = float(loss_of(study.model.loss).c), float(schedule.Delta)
    return chosen.rounds, step_sizes(c, Lambda, Delta, a=chosen.a, t0=chosen.t0), Lambda + Delta


def with_epsilon(study: Study, epsilon: float) -> Study:
    """Return the same study with another epsilon."""
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"epsilon": epsilon})})


def without_noise(study: Study, records: Dataset, variant: Variant) -> Weights:
    """Return w_T of Algorithm 1 on exact gradients of everybody's records; shape (d,)."""
    N = len(records.y)
    T, z, curvature = _steps(study, variant(study, N))
    w = np.zeros(study.d)
    for t in range(T):
        w = w - z(t) * (gradient_sum(records.X, records.y, w, study.model.loss) / N + curvature * w)
    return w


def noise_ratio(study: Study, records: Dataset, w: Weights, variant: Variant) -> float:
    """Return how large the noise's part of a record's score w_T.x is beside the score: root mean squares, first order.

    Let h be an eigenvalue of the objective's second derivative at ``w``. Along its eigenvector, the noise of round t
    arrives at the end multiplied by z_t prod_{s > t} (1 - z_s h) / N. rho_t is new in each round, so its squares add
    up. eta is the same in each round, so its multipliers add up. Scores are compared, not lengths: noise along a
    direction that no record has does no harm.

    Parameters
    ----------
    w : ndarray, shape (d,)
        The classifier without noise.
    """
    X, N = records.X, len(records.y)
    schedule = variant(study, N)
    T, z, curvature = _steps(study, schedule)
    second = loss_of(study.model.loss).curvature(records.y * (X @ w)) / N
    h, axes = np.linalg.eigh((X.T * second) @ X)
    gain = np.full(study.d, 1.0 / N)
    alike, fresh = np.zeros(study.d), np.zeros(study.d)
    for t in reversed(range(T)):
        rho = study.K * (study.d + 1) / float(schedule.beta(t)) ** 2  # variance of a coordinate, of all parties' sum
        alike += z(t) * gain
        fresh += rho * (z(t) * gain) ** 2
        gain = gain * (1 - z(t) * (h + curvature))
    spread = np.mean((X @ axes) ** 2, axis=0)
    noise = float(spread @ ((float(schedule.sigma) * alike) ** 2 + fresh))
    return math.sqrt(noise / float(np.mean((X @ w) ** 2)))


def first_drowned_round(study: Study, N: int, variant: Variant) -> int | None:
    """Return the first round, counted from 1, whose noise is longer than N gradients can be; None if there is none.

    rho_t has length Gamma(d)/beta_t. The squared lengths of K independent vectors add up on average.
    """
    schedule, L = variant(study, N), float(loss_of(study.model.loss).L)
    T, _, _ = _steps(study, schedule)
    lengths = (math.sqrt(study.K * study.d * (study.d + 1)) / float(schedule.beta(t)) for t in range(T))
    return next((t + 1 for t, length in enumerate(lengths) if length > N * L), None)


_LARGEST_EPSILON = 1e6


def _smallest_epsilon(ratio_at: Callable[[float], float], least: float) -> float | None:
    """Return the smallest epsilon from ``least`` on where the noise is small, to within a few per cent."""
    low = high = least
    while ratio_at(high) > SMALL_NOISE:
        low, high = high, 2 * high
        if high > _LARGEST_EPSILON:
            return None
    while high > 1.05 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if ratio_at(middle) <= SMALL_NOISE else (middle, high)
    return high

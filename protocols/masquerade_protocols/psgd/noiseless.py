"""How the noise of a descent along noisy gradients compares with the model: before a run, and with all records."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from masquerade_core.data.pooling import pool
from masquerade_core.data.records import training_sides
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.gradients import StepSizes, gradient_sum, step_sizes
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.expectation import Expectation, counted_records
from masquerade_core.privacy.noise.output_perturbation import classifier_norm_bound
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.comparing import SMALL_NOISE, expected_by_ratio, model_of, times, two_digits
from masquerade_protocols.entry import Noiseless, Released, Weights
from masquerade_protocols.psgd.schedule import FRACTION_BITS, Schedule, Variant, parameters_of

__all__ = ["expectation", "first_drowned_round", "noise_ratio", "noiseless", "with_epsilon", "without_noise"]


def noiseless(
    study: Study, data: Mapping[str, Dataset], _released: Released, *, variant: Variant, name: str, **_unused: Any
) -> Noiseless:
    """Judge the noise by how large it is in the records' scores w.x; ``name`` is the protocol's."""
    together = pool(study, training_sides(study, data))
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
    return Noiseless(model_of(clean), f"{counted(rounds, 'round')} on exact gradients", ratio, enough, advice)


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
    second = loss_of(study.model.loss).curvature(records.y * (X @ w)) / N
    h, axes = np.linalg.eigh((X.T * second) @ X)
    spread = np.mean((X @ axes) ** 2, axis=0)
    return math.sqrt(float(spread @ _variances(study, schedule, N, h)) / float(np.mean((X @ w) ** 2)))


def _variances(study: Study, schedule: Schedule, N: int, h: Weights) -> Weights:
    """Return the variance of the noise in w_T along directions of curvature ``h``, shape (d,)."""
    T, z, curvature = _steps(study, schedule)
    gain = np.full(study.d, 1.0 / N)
    alike, fresh = np.zeros(study.d), np.zeros(study.d)
    for t in reversed(range(T)):
        alike += z(t) * gain
        fresh += _round_variance(study, schedule, t) * (z(t) * gain) ** 2
        gain = gain * (1 - z(t) * (h + curvature))
    variances: Weights = (float(schedule.sigma) * alike) ** 2 + fresh
    return variances


def _round_variance(study: Study, schedule: Schedule, t: int) -> float:
    """Return the variance of a coordinate of the noise that is new in round t, of all parties' sum."""
    if schedule.share is not None:
        return study.K * (float(schedule.share(FRACTION_BITS).share) / (1 << FRACTION_BITS)) ** 2
    return study.K * (study.d + 1) / float(schedule.beta(t)) ** 2


def expectation(study: Study, *, variant: Variant) -> Expectation:
    """Compare the noise with the longest classifier that Lambda allows.

    The curvatures of the mean loss add up to c at most, and the noise is least where they are all alike; see
    :func:`~masquerade_protocols.comparing.least_noise_left`.
    """
    N, _ = counted_records(study)
    schedule, c = variant(study, N), float(loss_of(study.model.loss).c)
    length = math.sqrt(float(_variances(study, schedule, N, np.full(study.d, c / study.d)).sum()))
    allowed = study.model.regularization + float(schedule.Delta)
    return expected_by_ratio(
        study,
        length / classifier_norm_bound(allowed),
        noise="the noise on the model",
        beside=f"the longest classifier that a regularization of {allowed:.3g} allows",
        cure="more records, a larger epsilon or fewer rounds",
    )


def first_drowned_round(study: Study, N: int, variant: Variant) -> int | None:
    """Return the first round, counted from 1, whose noise is longer than N gradients can be; None if there is none.

    The length is a root mean square: the squared lengths of K independent vectors add up on average.
    """
    schedule, L = variant(study, N), float(loss_of(study.model.loss).L)
    T, _, _ = _steps(study, schedule)
    lengths = (math.sqrt(study.d * _round_variance(study, schedule, t)) for t in range(T))
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

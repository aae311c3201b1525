"""A descent along noisy gradients, looked at by somebody who may see everything: what it would be without the noise."""

import math

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.gradients import StepSizes, gradient_sum, step_sizes
from masquerade_core.learning.losses import loss_of
from masquerade_core.study import Study
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.psgd import roles as psgd

__all__ = [
    "first_drowned_round",
    "is_descent",
    "noise_ratio",
    "plaintexts",
    "rounds_of",
    "with_epsilon",
    "without_noise",
]

_VARIANTS = {"psgd": psgd.psgd, "noisy-gradient": psgd.noisy, "decaying-budget": psgd.decaying}

_Array = NDArray[np.float64]


def is_descent(study: Study) -> bool:
    """Whether the study's protocol descends along noisy sums of gradients."""
    return study.study.protocol in _VARIANTS


def rounds_of(study: Study) -> int:
    """Return T."""
    return psgd.Parameters.model_validate(study.protocol).rounds


def _schedule(study: Study, N: int) -> psgd.Schedule:
    return _VARIANTS[study.study.protocol](study, N)


def plaintexts(study: Study) -> float:
    """Return how many plaintexts a party encrypts in all rounds, at the fewest records that there may be."""
    N = study.K * study.study.min_records
    if study.study.protocol == "dp-gd":
        noise = dp_gd.noise_of(study)
        return noise.rounds * dp_gd.layout(study, noise, N).count
    T = rounds_of(study)
    schedule = _schedule(study, N)
    # Slots are of one width, or grow by a bit a round.
    first, last = (psgd.layout(study, schedule, N, t).count for t in (0, T - 1))
    return T * (first + last) / 2


def _steps(study: Study, schedule: psgd.Schedule) -> tuple[int, StepSizes, float]:
    """Return T, z_t and Lambda + Delta."""
    chosen, Lambda = psgd.Parameters.model_validate(study.protocol), study.model.regularization
    c, Delta = float(loss_of(study.model.loss).c), float(schedule.Delta)
    return chosen.rounds, step_sizes(c, Lambda, Delta, a=chosen.a, t0=chosen.t0), Lambda + Delta


def with_epsilon(study: Study, epsilon: float) -> Study:
    """Return the same study with another wish."""
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"epsilon": epsilon})})


def without_noise(study: Study, records: Dataset) -> _Array:
    """Return w_T of Algorithm 1 on exact gradients of everybody's records; shape (d,)."""
    N = len(records.y)
    T, z, curvature = _steps(study, _schedule(study, N))
    w = np.zeros(study.d)
    for t in range(T):
        w = w - z(t) * (gradient_sum(records.X, records.y, w, study.model.loss) / N + curvature * w)
    return w


def noise_ratio(study: Study, records: Dataset, w: _Array) -> float:
    """Return how large the noise's part of a record's score w_T.x is beside the score: root mean squares, first order.

    Along an eigenvector of the objective's second derivative H at ``w`` with eigenvalue h, noise of round t arrives at
    the end multiplied by z_t prod_{s > t} (1 - z_s h) / N. rho_t is new in each round, so squares add up; eta is the
    same, so the multipliers do. Scores count, not lengths: where no record lies, noise does no harm.

    Parameters
    ----------
    w : ndarray, shape (d,)
        The classifier without noise.
    """
    X, N = records.X, len(records.y)
    schedule = _schedule(study, N)
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


def first_drowned_round(study: Study, N: int) -> int | None:
    """Return the first round, counted from 1, whose noise is longer than N gradients can be; None if there is none.

    rho_t has length Gamma(d)/beta_t, and K of them add up like steps of a random walk.
    """
    schedule, L = _schedule(study, N), float(loss_of(study.model.loss).L)
    T, _, _ = _steps(study, schedule)
    lengths = (math.sqrt(study.K * study.d * (study.d + 1)) / float(schedule.beta(t)) for t in range(T))
    return next((t + 1 for t, length in enumerate(lengths) if length > N * L), None)

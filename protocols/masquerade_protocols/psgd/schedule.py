"""Public numbers from the study and N, the number of all records: noise, grids and slots of the three protocols."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from math import ceil
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, rounds_noise
from masquerade_core.privacy.noise.local_descent import ROUNDING
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, noise_sigma, sigma_share
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound
from masquerade_core.privacy.samplers.l2_laplace import l2_tail_bound
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian_tail_bound
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import TAIL_BITS
from masquerade_protocols.blocks.layouts import Layout, check_slots, layout_of

__all__ = [
    "FRACTION_BITS",
    "RHO_TV_BITS",
    "Parameters",
    "Schedule",
    "Variant",
    "coarsest_bits",
    "decaying",
    "fraction_bits",
    "joint_noise",
    "layout",
    "layouts",
    "noisy",
    "parameters_of",
    "psgd",
]

FRACTION_BITS = 28
"""The largest F. Gradients and noise are integers in units of 2^-F; :func:`fraction_bits` chooses F."""

RHO_TV_BITS = 128
"""A draw of rho is within total variation 2^-RHO_TV_BITS of its law. All rounds together cost an epsilon of 40 or so,
and delta pays (1 + e^epsilon) times that distance: with 2^-60, delta would reach 1."""

_LEAST_FRACTION_BITS = 12  # so that rounding to the grid moves a gradient's norm by little, whatever N is
_EXACT_BITS = 26  # of the mean gradient


class Parameters(BaseModel):
    """The study's ``[protocol]`` section.

    ``rounds`` is T. The steps are z_t = a/(t0 + t), which meet Algorithm 1's two conditions. Where a or t0 is left out,
    it follows from the objective (:func:`~masquerade_core.learning.gradients.step_sizes`).
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    rounds: Annotated[int, Field(ge=1, le=100_000, description="T, how many rounds")] = 100
    a: Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="of the steps a/(t0 + t)")] = None
    t0: Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="of the steps a/(t0 + t)")] = None


@dataclass(frozen=True)
class Schedule:
    """The noise of one run, which depends on N. The three protocols differ in nothing else.

    Parameters
    ----------
    Delta : Fraction
        Extra curvature.
    beta : callable
        beta_t of rho_t's density exp(-beta_t |x|_2), t = 0, 1, ...
    sigma : Fraction
        sigma*, the standard deviation of a coordinate of sum_k eta^k; 0 where there is no eta.
    share : callable, optional
        With ``calibration = "proven"``: F -> the noise, in units of 2^-F. Every party draws a share of it in each
        round, in place of rho and eta.
    """

    Delta: Fraction
    beta: Callable[[int], Fraction]
    sigma: Fraction
    share: Callable[[int], SharedNoise] | None = None


Variant = Callable[[Study, int], Schedule]


def _beta(study: Study, epsilon: Fraction) -> Fraction:
    """Beta = epsilon/(2 L): Proposition 3.1 and equation (10)."""
    return epsilon / (2 * loss_of(study.model.loss).L)


def psgd(study: Study, N: int) -> Schedule:
    """Algorithm 1: eta^k once and rho_t^k in every round, both with eps~, which Algorithm 1 passes to Procedure 3.

    With ``calibration = "proven"`` there is Gaussian noise on the sum of every round, and nothing else. A replaced
    record moves a sum by 2 L at most, and T rounds compose exactly (``docs/privacy/psgd.md``).
    """
    if study.proven:
        return Schedule(Fraction(0), lambda _: Fraction(0), Fraction(0), partial(joint_noise, study))
    slack = compute_slack(study.privacy.epsilon, study.model.regularization, N, loss_of(study.model.loss).c)
    sigma = noise_sigma(study.d, slack.epsilon, study.privacy.delta)
    beta = _beta(study, slack.epsilon)
    return Schedule(slack.Delta, lambda _: beta, sigma)


def joint_noise(study: Study, F: int) -> SharedNoise:
    """Return the noise of a round with ``calibration = "proven"``, in units of 2^-F.

    A party's sum is rounded as a whole, which moves it by sqrt(d)/2 units at most, under either neighbour. So Delta is
    2 L (1 + ``ROUNDING``) 2^F + sqrt(d), as if a single gradient of length L were rounded. ``ROUNDING`` covers the
    error of floats in a sum of gradients.

    Raises
    ------
    BadInput
        No noise meets the privacy target.
    """
    return rounds_noise(
        clip=loss_of(study.model.loss).L * (1 + ROUNDING),
        d=study.d,
        rounds=parameters_of(study).rounds,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
        fraction_bits=F,
        retries=study.retries,
    )


def noisy(study: Study, _N: int) -> Schedule:
    """Section 3.2, attempt 1: rho_t^k with epsilon in every round, and nothing else. T rounds cost T epsilon."""
    beta = _beta(study, as_fraction(study.privacy.epsilon))
    return Schedule(Fraction(0), lambda _: beta, Fraction(0))


def decaying(study: Study, _N: int) -> Schedule:
    """Section 3.2: rho_t^k with epsilon/2^t, t = 1, 2, ... All rounds cost epsilon together; late ones are noise."""
    beta = _beta(study, as_fraction(study.privacy.epsilon))
    return Schedule(Fraction(0), lambda t: beta / 2 ** (t + 1), Fraction(0))


def parameters_of(study: Study) -> Parameters:
    """Return the study's choices."""
    return Parameters.model_validate(study.protocol)


def fraction_bits(study: Study, schedule: Schedule, N: int) -> int:
    """Return F of the grid 2^-F: the finest, up to ``FRACTION_BITS``, for as few plaintexts as accuracy allows.

    Each party rounds its part of the mean gradient. A coordinate of the mean may be off by 2^-26 at most, so the grid
    must be so fine that K 2^-(F+1) <= N 2^-26. If the plaintexts for that grid have room left, F grows to fill them.
    """
    N = max(N, study.K * study.study.min_records)  # an honest run has no fewer, and check made sure that so many fit
    ratio = -(-(study.K << (_EXACT_BITS - 1)) // N)
    least = max((ratio - 1).bit_length(), _LEAST_FRACTION_BITS)
    coarse = _slots(study, schedule, N, 0, least)
    if not coarse.fits:
        return least
    finer = (F for F in range(FRACTION_BITS, least, -1) if _fits_as_well(_slots(study, schedule, N, 0, F), coarse))
    return next(finer, least)


def coarsest_bits(study: Study, variant: Variant = psgd) -> int:
    """Return a lower bound of :func:`fraction_bits` for every N that the study allows; a statement is made without N.

    A layout takes at least as many plaintexts as one for numbers up to K 2^25, because K 2^25 <= N 2^F. It takes at
    most as many as one for N = sum of max_records.
    """
    fewest, most = study.K * study.study.min_records, study.most_records
    schedule = variant(study, fewest)  # it has the most noise
    count = layout_of(study, study.d, study.K << (_EXACT_BITS - 1)).count
    fine = (_slots(study, schedule, most, 0, F) for F in range(FRACTION_BITS, _LEAST_FRACTION_BITS, -1))
    found = (
        F for F, slots in zip(range(FRACTION_BITS, 0, -1), fine, strict=False) if slots.fits and slots.count <= count
    )
    return next(found, _LEAST_FRACTION_BITS)


def _fits_as_well(slots: Layout, coarse: Layout) -> bool:
    return slots.fits and slots.count == coarse.count


def _slots(study: Study, schedule: Schedule, N: int, t: int, F: int) -> Layout:
    gradients = ceil(N * loss_of(study.model.loss).L * (1 << F)) + study.K
    return layout_of(study, study.d, gradients + study.K * _largest(study, schedule, t, F))


def _largest(study: Study, schedule: Schedule, t: int, F: int) -> int:
    """Bound one party's noise of round t, in units of 2^-F."""
    if schedule.share is not None:
        noise = schedule.share(F)
        return discrete_gaussian_tail_bound(noise.share, study.K * noise.releases * study.d, TAIL_BITS)
    # If eta and rho together are within B units of the finest grid, they are within 1 + B/2^(28-F) of a coarser one.
    finest = _largest_noise(schedule.beta(t), schedule.sigma, study.K, study.d)
    return -(-finest >> (FRACTION_BITS - F)) + (F < FRACTION_BITS)


def layout(study: Study, schedule: Schedule, N: int, t: int) -> Layout:
    """Lay out the sum of round t.

    A slot holds N gradients of length L at most, and the noise of K parties. Each draw exceeds its part of the slot
    with a chance of 2^-60 at most. With ``calibration = "proven"`` it is 2^-128 for all draws of a run together.

    Raises
    ------
    BadInput
        The slots are too wide for a plaintext, or a coordinate for a float.
    """
    slots = _slots(study, schedule, N, t, fraction_bits(study, schedule, N))
    return check_slots(study, slots, f"the sum of round {t}", "fewer rounds", "a larger epsilon")


def layouts(study: Study, schedule: Schedule, N: int, rounds: int) -> Iterator[Layout]:
    """Lay out every round. A layout is computed again only where beta_t changes."""
    beta, slots = schedule.beta(0), layout(study, schedule, N, 0)
    for t in range(rounds):
        if schedule.beta(t) != beta:
            beta, slots = schedule.beta(t), layout(study, schedule, N, t)
        yield slots


@cache
def _largest_noise(beta: Fraction, sigma: Fraction, K: int, d: int) -> int:
    """Bound one party's noise of one round, in units of the finest grid."""
    unit = Fraction(1 << FRACTION_BITS)
    eta = gaussian_tail_bound(sigma_share(sigma, K), d, unit) if sigma else 0
    return l2_tail_bound(beta, d, unit) + eta

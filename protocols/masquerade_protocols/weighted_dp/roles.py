"""Weighted DP: every party walks down its own objective under noise, and what is released is the average, by size.

Kang, Liu and Wang, "Weighted Distributed Differential Privacy ERM: Convex and Non-convex", Algorithm 1. The paper's
server is trusted with every party's size and classifier; here a secure sum stands in its place, so Charlie learns n and
the released classifier and neither any n_j nor any theta^(j). For m parties, T rounds, d coordinates in p plaintexts,
keys of b bits::

    party P_j                                    Charlie                          lead P_L (one of the parties)
      |============ join: everybody's box key of this run, signed =================|
      |<------- SumKey ---------------------------|<------- SumKey ----------------|   b/8
      |<~~~~~~~~~~~~~~~~~~ coin toss: binds the pairwise masks ~~~~~~~~~~~~~~~~~~~>|   3 boxes to each other party
      |                       one secure sum: n = sum_j n_j; no n_j is seen        |
      | theta_(t+1) = theta_t - eta (grad L_Dj(theta_t) + z_t), t = 0 .. T-1       |
      |                       one secure sum: sum_j n_j theta_T^(j)                |
      | theta^(c) = that sum / n, by everybody alike                               |

See :mod:`masquerade_protocols.blocks.secure_sum` for the messages of a sum. sigma follows from n, so whoever raises n takes
everybody's noise away: Charlie, who adds to the total before it is opened, or a party that claims records which it does
not have. Hence the public ``smallest_part``: a party that has less than that of n goes no further.

``weights = "uniform"`` is the method that the paper compares with (Jayaraman and others 2018, in the paper's table 1):
the plain mean of the walks, equation (2), with the noise of m n_(1) records. n_(1) is private, so the public
``min_records`` stands for it; then no n is opened.

All that is ``calibration = "paper"``. With "proven" each walk alone keeps the wish, whatever all others do
(``docs/privacy/weighted-dp.md``): the noise on a party's *sum* of gradients follows from the wish, T and G, and from no
size. Nothing in it waits for n, so a party walks before it joins, and the time that this takes is seen by nobody.

All that a walk takes from the records is integers: the sum of the gradients on the grid of 2^-F plus an integer
Gaussian vector. What leaves is a function of these.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.learning.losses import loss_of
from masquerade_core.model import Model
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.noise.local_descent import (
    MOST_ROUNDED_RECORDS,
)
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian_tail_bound
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study, as_fraction
from masquerade_protocols.blocks.descent import (
    check_steps,
    fingerprint,
    join_and_count,
    relay_and_count,
)
from masquerade_protocols.blocks.local_descent import (
    FRACTION_BITS,
    DescentParameters,
    check_no_c,
    local_descent,
    paper_sigma,
    proven_noise,
)
from masquerade_protocols.blocks.secure_sum import relay_key, set_up
from masquerade_protocols.blocks.slots import check_slots
from masquerade_protocols.weighted_dp.statement import shown

__all__ = ["Parameters", "Plan", "charlie", "check", "layout", "noise_of", "party", "plan", "smallest_part"]

_UNIT = Fraction(1 << FRACTION_BITS)
_QUARTER = 4  # of an even share: the smallest part of all records that a party may have, if the study names none
_Array = NDArray[np.float64]


class Parameters(DescentParameters):
    """The study's ``[protocol]`` section.

    ``smallest_part`` is the least part of all records that a party may have: what is proved with the paper's noise
    holds for that part. Where it is left out it is 1/(4K), a quarter of an even share.
    """

    weights: Literal["sizes", "uniform"] = "sizes"
    smallest_part: Annotated[float | None, Field(gt=0, le=1, description="the least n_j/n that a party may have")] = (
        None
    )


@dataclass(frozen=True)
class Plan:
    """A run's descent, once n is known: the same at everybody.

    Parameters
    ----------
    T : int
        Rounds.
    eta : Fraction
        Learning rate.
    sigma : Fraction
        Standard deviation of a coordinate of the noise, on a mean of gradients or on a sum of them.
    on_mean : bool
        Which of these: the paper's is on the mean, the proven one on the sum.
    by_size : bool
        Whether a walk counts n_j times, or once.
    divisor : int
        What the sum of walks is divided by: n, or m.
    """

    T: int
    eta: Fraction
    sigma: Fraction
    on_mean: bool
    by_size: bool
    divisor: int

    def sigma_at(self, n: int) -> Fraction:
        """Return the standard deviation of a coordinate of z_t at a party of n records: on its mean gradient."""
        return self.sigma if self.on_mean else self.sigma / n

    def reach(self, G: Fraction, d: int, weight: int, parties: int = 1) -> int:
        """Bound the sum of what ``parties`` walks that count ``weight`` times together come to, in units of 2^-F.

        No step is longer than eta (G + noise), so |theta_T| is at most T of them. The noise of one walk is within its
        bound but for a chance of 2^-60. A regulariser only shortens theta.
        """
        noise = gaussian_tail_bound(self.sigma, self.T * d, _UNIT) + 2
        times = weight if self.on_mean else parties  # noise on a sum stays the same however many records are in it
        return int(self.eta * self.T * (weight * G * _UNIT + times * noise)) + weight


def _parameters(study: Study) -> Parameters:
    return Parameters.model_validate(study.protocol)


def smallest_part(study: Study) -> Fraction:
    """Return the least n_j/n that a party may have: with ``weights = "sizes"`` and the paper's noise."""
    named = _parameters(study).smallest_part
    return Fraction(1, _QUARTER * study.K) if named is None else as_fraction(named)


def noise_of(study: Study) -> SharedNoise:
    """Return the noise with which each local descent alone keeps the privacy target; BadInput where there is none."""
    return proven_noise(study, _parameters(study).rounds)


def plan(study: Study, n: int) -> Plan:
    """Return the descent for n records; for "uniform" weights n is not looked at.

    Raises
    ------
    BadInput
        There is no such noise.
    """
    chosen = _parameters(study)
    by_size = chosen.weights == "sizes"
    if study.proven:
        sigma = noise_of(study).share / _UNIT
    else:
        sigma = paper_sigma(study, chosen, n if by_size else study.K * study.study.min_records)
    eta = as_fraction(chosen.learning_rate)
    return Plan(chosen.rounds, eta, sigma, not study.proven, by_size, n if by_size else study.K)


def check(study: Study) -> None:
    """Refuse what can be known to fail before anybody joins.

    With the paper's noise n sigma is the same for every n, and so is the noise in sum_j n_j theta^(j); the proven noise
    depends on no n. The gradients in the sum are largest at n = m max_records.

    Raises
    ------
    BadInput
        Steps that diverge, parameters that do not go together, a wish without noise, or sums that fit no plaintext.
    """
    chosen = _parameters(study)
    check_steps(study, chosen.learning_rate)
    _check_together(study, chosen)
    for n in (study.K * study.study.min_records, study.K * study.max_records):
        layout(study, plan(study, n))


def _check_together(study: Study, chosen: Parameters) -> None:
    check_no_c(study, chosen)
    if study.proven and chosen.weights == "uniform":
        raise BadInput(
            '[protocol] weights is "uniform", but with calibration = "proven" a plain average\'s noise would be mostly '
            "that of the party with the fewest records, and so show how many these are",
            'set weights = "sizes"',
        )
    part, noise_of_n = chosen.smallest_part, not study.proven and chosen.weights == "sizes"
    if part is not None and not noise_of_n:
        raise BadInput(
            f"[protocol] smallest_part is {part:g}, but no noise of this study follows from the number of all records",
            "leave smallest_part out",
        )
    if part is not None and as_fraction(part) * study.K > 1:
        raise BadInput(
            f"[protocol] smallest_part is {part:g}, but of {study.K} parties one has 1/{study.K} of all records or "
            "less",
            f"choose one of at most 1/{study.K}, and well below for parties that are not equally large",
        )


def layout(study: Study, descent: Plan) -> Packing:
    """Lay out the sum of the walks, each counted by its weight.

    Raises
    ------
    BadInput
        No slot of a plaintext is wide enough, or no float is large enough.
    """
    bound = descent.reach(loss_of(study.model.loss).L, study.d, descent.divisor, study.K)
    return check_slots(
        study,
        Packing(study.d, bound, study.crypto.key_bits),
        "the sum of classifiers",
        "fewer rounds",
        "a smaller learning_rate",
        "a larger epsilon",
    )


def _released(descent: Plan, sums: tuple[int, ...]) -> Model:
    """Line 8: theta^(c) = sum_j (n_j/n) theta_T^(j)."""
    return Model(tuple(float(Fraction(v, descent.divisor << FRACTION_BITS)) for v in sums), None)


async def party(seat: Seat, study: Study, data: Dataset) -> Model:
    """Party P_j, the lead included.

    Raises
    ------
    RefusedLocally
        Its records are too small a part of all, or more than are counted.
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    by_size, own = _parameters(study).weights == "sizes", None
    if study.proven:
        own = await _walked(seat, study, plan(study, study.K), data)
    if by_size:
        sums, n = await join_and_count(seat, study, data)
        _check_part(study, len(data.y), n)
    else:
        await seat.join()
        await seat.stage("keys")
        sums, n = await set_up(seat, study), 0
    descent = plan(study, n)
    slots = layout(study, descent)
    await sums.precompute(slots.count)
    if own is None:
        own = await _walked(seat, study, descent, data)

    # Line 8, as one secure sum.
    await seat.stage("sum")
    await seat.release("model", study.privacy.epsilon, study.privacy.delta)
    return _released(descent, await sums.open_sum(slots, own, fingerprint(n)))


def _check_part(study: Study, own: int, n: int) -> None:
    """Refuse the noise of n records for ``own`` that are too few of them; an error's text has neither number."""
    part = smallest_part(study)
    if not study.proven and own < part * n:
        raise RefusedLocally(
            f"these records are less than the study's smallest_part, {shown(part)}, of all that were counted, and the "
            "noise is sized for all: they would have less privacy than the statement says",
            "ask the coordinator for a study with a smaller smallest_part, whose statement then holds for so few; if "
            "there cannot be so many records, somebody has counted too many",
        )


async def _walked(seat: Seat, study: Study, descent: Plan, data: Dataset) -> tuple[int, ...]:
    """Lines 3 to 6. Drawing the noise takes a time that depends on T and d alone."""
    if study.proven and len(data.y) > MOST_ROUNDED_RECORDS:
        raise RefusedLocally(
            f"there are more records than the {MOST_ROUNDED_RECORDS:,} for which rounding is counted in the noise",
            "take part with fewer records",
        )
    await seat.stage("training")
    return await seat.once("walk", lambda rng: _contribution(study, descent, data, rng))


def _contribution(study: Study, descent: Plan, data: Dataset, rng: Rng) -> tuple[int, ...]:
    """Return n_j theta_T^(j) (or theta_T^(j) itself) on the grid, within what its slots hold."""
    n = len(data.y)
    theta = local_descent(study, descent.T, float(descent.eta), descent.sigma_at(n), data, rng)
    weight = n if descent.by_size else 1
    bound = descent.reach(loss_of(study.model.loss).L, study.d, weight)
    exact = (round(weight * _UNIT * Fraction(v)) for v in theta.tolist())
    return tuple(max(-bound, min(bound, v)) for v in exact)


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie, the paper's server: he sees 2 m ciphertexts or vectors of them, n, and the sum.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    if _parameters(study).weights == "sizes":
        sums, n = await relay_and_count(seat, study)
    else:
        await seat.join()
        await seat.stage("keys")
        sums, n = await relay_key(seat, study), 0
    descent = plan(study, n)
    if not study.proven:
        await seat.stage("training")
    return _released(descent, await sums.open_sum(layout(study, descent)))

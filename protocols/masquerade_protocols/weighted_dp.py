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

See :mod:`masquerade_protocols.secure_sum` for the messages of a sum. sigma follows from n, so whoever raises n takes
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
from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.learning.losses import loss_of
from masquerade_core.model import Model
from masquerade_core.privacy.discrete import discrete_gaussian
from masquerade_core.privacy.dp_gd_claims import Noise
from masquerade_core.privacy.mechanisms import gaussian, gaussian_tail_bound
from masquerade_core.privacy.weighted_claims import C_OF_THE_PROOF, descent_sigma, shown
from masquerade_core.privacy.weighted_proven_claims import MOST_RECORDS, walk_noise
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study, as_fraction
from masquerade_protocols.counting import check_count, count_layout, fingerprint
from masquerade_protocols.secure_sum import add_up, learn_key, set_up

__all__ = [
    "DESCENT_SECTION",
    "FRACTION_BITS",
    "STEPS_SECTION",
    "DescentParameters",
    "Parameters",
    "Plan",
    "charlie",
    "check",
    "check_no_c",
    "check_steps",
    "draws",
    "paper_c",
    "paper_sigma",
    "party",
    "plan",
    "proven_noise",
    "smallest_part",
    "walk",
]

FRACTION_BITS = 28  # F: gradients, noise and classifiers are integers in units of 2^-F
_UNIT = Fraction(1 << FRACTION_BITS)
_WIDEST = 500  # bits of a coordinate; beyond them the squared length of a classifier is no float
_NORMALS = 1 << 16  # drawn at a time
_DIVERGES = 2.0  # eta times the largest curvature

_QUARTER = 4  # of an even share: the smallest part of all records that a party may have, if the study names none

STEPS_SECTION = """\
# How many steps, and how long they are.
rounds = 1000
learning_rate = 0.5
"""
"""The ``[protocol]`` section of a new study, where somebody descends by noisy steps and a proof sizes the noise."""

DESCENT_SECTION = (
    STEPS_SECTION
    + """\
# The noise's variance is proportional to c. The paper leaves c open; its own proof needs 16 or more.
c = 16.0
"""
)
"""The same with the paper's noise."""

_Array = NDArray[np.float64]


class DescentParameters(BaseModel):
    """What noisy gradient descent takes: ``[protocol]`` of ``central-dp``, and part of ``weighted-dp``'s.

    ``rounds`` is T, 1000 in the paper's experiments. The noise grows with sqrt(T), so neither more rounds nor fewer are
    safe; the best number depends on the data, and choosing it by looking at them costs privacy that nothing counts.
    ``c`` is the paper's and has no default: the paper leaves it open. ``learning_rate`` is eta.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    rounds: Annotated[int, Field(ge=1, le=10_000, description="T, how many local rounds")] = 1000
    c: Annotated[float | None, Field(gt=0, le=1e6, allow_inf_nan=False)] = None
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False, description="eta, of every step")] = 0.5


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


# --- What follows from public numbers alone -------------------------------------


def _parameters(study: Study) -> Parameters:
    return Parameters.model_validate(study.protocol)


def paper_c(chosen: DescentParameters) -> float:
    """Return c of the paper's noise, which has no default: BadInput where the study has none."""
    if chosen.c is None:
        raise BadInput(
            "[protocol] c is missing: the noise's variance is proportional to it, and the paper says only that "
            f"there is some constant; its own proof needs c >= {C_OF_THE_PROOF}",
            f"set c = {C_OF_THE_PROOF}.0",
        )
    return chosen.c


def check_no_c(study: Study, chosen: DescentParameters) -> None:
    """Refuse c where it would change nothing."""
    if study.proven and chosen.c is not None:
        raise BadInput(
            f'[protocol] c is {chosen.c:g}, but with calibration = "proven" the noise follows from epsilon and delta',
            'leave c out, or set calibration = "paper"',
        )


def paper_sigma(study: Study, chosen: DescentParameters, n: int) -> Fraction:
    """Return equation (3)'s sigma for n records.

    Raises
    ------
    BadInput
        There is no c, or epsilon or delta are out of range.
    """
    G, privacy = loss_of(study.model.loss).L, study.privacy
    return descent_sigma(paper_c(chosen), G, chosen.rounds, privacy.epsilon, privacy.delta, n)


def proven_noise(study: Study) -> Noise:
    """Return the noise with which each walk alone keeps the study's wish.

    Raises
    ------
    BadInput
        There is no such noise.
    """
    return walk_noise(
        G=loss_of(study.model.loss).L,
        d=study.d,
        rounds=_parameters(study).rounds,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        fraction_bits=FRACTION_BITS,
    )


def smallest_part(study: Study) -> Fraction:
    """Return the least n_j/n that a party may have: with ``weights = "sizes"`` and the paper's noise."""
    named = _parameters(study).smallest_part
    return Fraction(1, _QUARTER * study.K) if named is None else as_fraction(named)


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
        sigma = proven_noise(study).share / _UNIT
    else:
        sigma = paper_sigma(study, chosen, n if by_size else study.K * study.study.min_records)
    eta = as_fraction(chosen.learning_rate)
    return Plan(chosen.rounds, eta, sigma, not study.proven, by_size, n if by_size else study.K)


def check_steps(study: Study, chosen: DescentParameters) -> None:
    """Refuse steps that diverge, by BadInput."""
    curvature = float(loss_of(study.model.loss).c) + study.model.regularization
    if not chosen.learning_rate * curvature < _DIVERGES:
        raise BadInput(
            f"[protocol] learning_rate is {chosen.learning_rate:g}, but steps of {_DIVERGES / curvature:.4g} or more "
            f"diverge: a step times the objective's largest curvature, {curvature:.4g}, must be less than 2",
            "choose a smaller learning_rate",
        )


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
    check_steps(study, chosen)
    _check_together(study, chosen)
    for n in (study.K * study.study.min_records, study.K * study.max_records):
        _layout(study, plan(study, n))


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


def _layout(study: Study, descent: Plan) -> Packing:
    """Lay out the sum of the walks, each counted by its weight.

    Raises
    ------
    BadInput
        No slot of a plaintext is wide enough, or no float is large enough.
    """
    bound = descent.reach(loss_of(study.model.loss).L, study.d, descent.divisor, study.K)
    slots = Packing(study.d, bound, study.crypto.key_bits)
    if not slots.fits or slots.width > _WIDEST:
        most = "have at most 500" if slots.fits else f"a key of {study.crypto.key_bits} bits has no room for them"
        raise BadInput(
            f"the sum of classifiers needs slots of {slots.width} bits; {most}",
            "ask for fewer rounds, a smaller learning_rate, a larger epsilon or a longer key",
        )
    return slots


def _released(descent: Plan, sums: tuple[int, ...]) -> Model:
    """Line 8: theta^(c) = sum_j (n_j/n) theta_T^(j)."""
    return Model(tuple(float(Fraction(v, descent.divisor << FRACTION_BITS)) for v in sums), None)


# --- The parties ------------------------------------------------------------------


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
    await seat.join()
    await seat.stage("keys")
    adder, n = await set_up(seat, study), 0
    if by_size:
        await adder.fill(1)
        (n,) = await adder.open_sum(count_layout(study), [len(data.y)], b"n")
        check_count(study, len(data.y), n)
        _check_part(study, len(data.y), n)
    descent = plan(study, n)
    slots = _layout(study, descent)
    await adder.fill(slots.count)
    if own is None:
        own = await _walked(seat, study, descent, data)

    # Line 8, as one secure sum.
    await seat.stage("sum")
    await seat.release("model", study.privacy.epsilon, study.privacy.delta)
    return _released(descent, await adder.open_sum(slots, own, fingerprint(n)))


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
    if study.proven and len(data.y) > MOST_RECORDS:
        raise RefusedLocally(
            f"there are more records than the {MOST_RECORDS:,} for which rounding is counted in the noise",
            "take part with fewer records",
        )
    await seat.stage("training")
    return await seat.once("walk", lambda rng: _contribution(study, descent, data, rng))


def _contribution(study: Study, descent: Plan, data: Dataset, rng: Rng) -> tuple[int, ...]:
    """Return n_j theta_T^(j) (or theta_T^(j) itself) on the grid, within what its slots hold."""
    n = len(data.y)
    theta = walk(study, descent.T, float(descent.eta), descent.sigma_at(n), data, rng)
    weight = n if descent.by_size else 1
    bound = descent.reach(loss_of(study.model.loss).L, study.d, weight)
    exact = (round(weight * _UNIT * Fraction(v)) for v in theta.tolist())
    return tuple(max(-bound, min(bound, v)) for v in exact)


def walk(study: Study, T: int, eta: float, sigma: Fraction, data: Dataset, rng: Rng) -> _Array:
    """Walk T rounds down the objective of ``data`` under noise: lines 3 to 6 at one party, or at the centre.

    theta_0 = 0, which is public, where the paper has the server draw it. The regulariser's gradient Lambda theta takes
    nothing from the records and needs no noise.

    Parameters
    ----------
    study : Study
        Loss and Lambda.
    T, eta : int, float
        Rounds and learning rate.
    sigma : Fraction
        Standard deviation of a coordinate of z_t; n_j sigma for the sum of n_j gradients.
    data : Dataset
    rng : Rng
        The only source of randomness.

    Returns
    -------
    ndarray, shape (d,)
        theta_T.
    """
    loss, Lambda, n = loss_of(study.model.loss), study.model.regularization, len(data.y)
    theta, d = np.zeros(study.d), study.d
    rounds = _rounds_a_draw(d)
    noise: list[int] = []
    for t in range(T):
        if t % rounds == 0:
            noise = _noise(study, rng, n * sigma, min(rounds, T - t) * d)
        z = noise[t % rounds * d : (t % rounds + 1) * d]
        gradient = gradient_sum(data.X, data.y, theta, loss)
        noisy = [round(g * 2**FRACTION_BITS) + v for g, v in zip(gradient.tolist(), z, strict=True)]
        mean = np.array([v / (n << FRACTION_BITS) for v in noisy])
        theta = theta - eta * (mean + Lambda * theta)
    return theta


def _noise(study: Study, rng: Rng, sigma: Fraction, size: int) -> list[int]:
    """Draw a sum's noise on the grid: a rounded normal, or, for the proof's lemma, a discrete Gaussian."""
    if study.proven:
        return discrete_gaussian(rng, sigma * _UNIT, size)
    return gaussian(rng, sigma, size, _UNIT)


def _rounds_a_draw(d: int) -> int:
    return max(1, _NORMALS // d)


def draws(T: int, d: int) -> int:
    """Return how many vectors of noise a walk draws; each serves many rounds."""
    return -(-T // _rounds_a_draw(d))


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie, the paper's server: he sees 2 m ciphertexts or vectors of them, n, and the sum.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    await seat.join()
    await seat.stage("keys")
    key, n, sums = await learn_key(seat, study), 0, 0
    if _parameters(study).weights == "sizes":
        (n,) = await add_up(seat, study, key, count_layout(study), sums)
        check_count(study, 1, n)
        sums += 1
    descent = plan(study, n)
    if not study.proven:
        await seat.stage("training")
    return _released(descent, await add_up(seat, study, key, _layout(study, descent), sums))

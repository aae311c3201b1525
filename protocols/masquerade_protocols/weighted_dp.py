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

See :mod:`masquerade_protocols.secure_sum` for the messages of a sum. ``weights = "uniform"`` is the method that the
paper compares with (Jayaraman and others 2018, in the paper's table 1): the plain mean of the walks, equation (2), with
the noise of m n_(1) records. n_(1) is private, so the public ``min_records`` stands for it; then no n is opened.

All that a walk takes from the records is integers: the sum of the clipped gradients on the grid of 2^-F plus an integer
Gaussian vector. What leaves is a function of these.
"""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.learning.losses import loss_of
from masquerade_core.model import Model
from masquerade_core.privacy.mechanisms import gaussian, gaussian_tail_bound
from masquerade_core.privacy.weighted_claims import C_OF_THE_PROOF, descent_sigma
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study, as_fraction
from masquerade_protocols.secure_sum import add_up, learn_key, set_up

__all__ = [
    "DESCENT_SECTION",
    "FRACTION_BITS",
    "DescentParameters",
    "Parameters",
    "Plan",
    "charlie",
    "check",
    "check_descent",
    "draws",
    "party",
    "plan",
    "walk",
]

FRACTION_BITS = 28  # F: gradients, noise and classifiers are integers in units of 2^-F
_UNIT = Fraction(1 << FRACTION_BITS)
_RECORDS_BITS = 32  # of a party's n_j
_WIDEST = 500  # bits of a coordinate; beyond them the squared length of a classifier is no float
_NORMALS = 1 << 16  # drawn at a time
_DIVERGES = 2.0  # eta times the largest curvature

DESCENT_SECTION = """\
# How many steps, and how long they are.
rounds = 1000
learning_rate = 0.5
# The noise's variance is proportional to c. The paper leaves c open; its own proof needs 16 or more.
c = 16.0
"""
"""The ``[protocol]`` section of a new study, where somebody descends by noisy steps."""

_Array = NDArray[np.float64]


class DescentParameters(BaseModel):
    """What noisy gradient descent takes: ``[protocol]`` of ``central-dp``, and part of ``weighted-dp``'s.

    ``rounds`` is T, 1000 in the paper's experiments. sigma grows with sqrt(T), so neither more rounds nor fewer are
    safe; the best number depends on the data, and choosing it by looking at them costs privacy that nothing counts.
    ``c`` has no default: the paper leaves it open. ``learning_rate`` is eta.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    rounds: Annotated[int, Field(ge=1, le=10_000, description="T, how many local rounds")] = 1000
    c: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False, description="eta, of every step")] = 0.5

    @model_validator(mode="before")
    @classmethod
    def _c_is_chosen(cls, values: Any) -> Any:
        if isinstance(values, dict) and "c" not in values:
            raise ValueError(
                "[protocol] c is missing: the noise's variance is proportional to it, and the paper says only that "
                f"there is some constant; its own proof needs c >= {C_OF_THE_PROOF}"
            )
        return values


class Parameters(DescentParameters):
    """The study's ``[protocol]`` section."""

    weights: Literal["sizes", "uniform"] = "sizes"


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
        Standard deviation of a coordinate of z_t.
    by_size : bool
        Whether a walk counts n_j times, or once.
    divisor : int
        What the sum of walks is divided by: n, or m.
    """

    T: int
    eta: Fraction
    sigma: Fraction
    by_size: bool
    divisor: int

    def reach(self, G: Fraction, d: int) -> int:
        """Bound |theta_T| in units of 2^-F: no step is longer than eta (G + noise).

        The noise of one walk is within its bound but for a chance of 2^-60. A regulariser only shortens theta.
        """
        noise = gaussian_tail_bound(self.sigma, self.T * d, _UNIT) + 2
        return ceil(self.eta * self.T * (G * _UNIT + noise)) + 1


# --- What follows from public numbers alone -------------------------------------


def _parameters(study: Study) -> Parameters:
    return Parameters.model_validate(study.protocol)


def _sigma(study: Study, chosen: DescentParameters, n: int) -> Fraction:
    G, privacy = loss_of(study.model.loss).L, study.privacy
    return descent_sigma(chosen.c, G, chosen.rounds, privacy.epsilon, privacy.delta, n)


def plan(study: Study, n: int) -> Plan:
    """Return the descent for n records; for "uniform" weights n is not looked at.

    Raises
    ------
    BadInput
        epsilon or delta are out of range.
    """
    chosen = _parameters(study)
    by_size = chosen.weights == "sizes"
    sigma = _sigma(study, chosen, n if by_size else study.K * study.study.min_records)
    return Plan(chosen.rounds, as_fraction(chosen.learning_rate), sigma, by_size, n if by_size else study.K)


def check_descent(study: Study, chosen: DescentParameters) -> None:
    """Refuse steps that diverge, and a wish for which there is no noise.

    Raises
    ------
    BadInput
        The sentence says which.
    """
    curvature = float(loss_of(study.model.loss).c) + study.model.regularization
    if not chosen.learning_rate * curvature < _DIVERGES:
        raise BadInput(
            f"[protocol] learning_rate is {chosen.learning_rate:g}, but steps of {_DIVERGES / curvature:.4g} or more "
            f"diverge: a step times the objective's largest curvature, {curvature:.4g}, must be less than 2",
            "choose a smaller learning_rate",
        )
    _sigma(study, chosen, study.K * study.study.min_records)


def check(study: Study) -> None:
    """Refuse what can be known to fail before anybody joins.

    n sigma is the same for every n, and so is the noise in sum_j n_j theta^(j); the gradients in it are largest at
    n = m max_records.

    Raises
    ------
    BadInput
        Steps that diverge, a delta or epsilon without Gaussian noise, or sums that fit no plaintext.
    """
    check_descent(study, _parameters(study))
    for n in (study.K * study.study.min_records, study.K * study.max_records):
        _layout(study, plan(study, n))


def _count_layout(study: Study) -> Packing:
    """Lay out the sum of sizes."""
    return Packing(1, study.K << _RECORDS_BITS, study.crypto.key_bits)


def _layout(study: Study, descent: Plan) -> Packing:
    """Lay out the sum of the walks, each counted by its weight.

    Raises
    ------
    BadInput
        No slot of a plaintext is wide enough, or no float is large enough.
    """
    bound = descent.divisor * descent.reach(loss_of(study.model.loss).L, study.d)
    slots = Packing(study.d, bound, study.crypto.key_bits)
    if not slots.fits or slots.width > _WIDEST:
        most = "have at most 500" if slots.fits else f"a key of {study.crypto.key_bits} bits has no room for them"
        raise BadInput(
            f"the sum of classifiers needs slots of {slots.width} bits; {most}",
            "ask for fewer rounds, a smaller learning_rate, a larger epsilon or a longer key",
        )
    return slots


def _bound_to(n: int) -> bytes:
    """What the walks depend on beside the study: so a party that was told another n ends the run."""
    return hashlib.sha256(b"weighted-dp\0" + n.to_bytes(16, "big")).digest()


def _released(descent: Plan, sums: tuple[int, ...]) -> Model:
    """Line 8: theta^(c) = sum_j (n_j/n) theta_T^(j)."""
    return Model(tuple(float(Fraction(v, descent.divisor << FRACTION_BITS)) for v in sums), None)


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset) -> Model:
    """Party P_j, the lead included.

    Raises
    ------
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    await seat.join()
    await seat.stage("keys")
    adder, n = await set_up(seat, study), 0
    if _parameters(study).weights == "sizes":
        await adder.fill(1)
        (n,) = await adder.open_sum(_count_layout(study), [len(data.y)], b"n")
    descent = plan(study, n)
    slots = _layout(study, descent)
    await adder.fill(slots.count)

    # Lines 3 to 6. The noise is drawn beside: how long that takes depends on T and d alone.
    await seat.stage("training")
    own = await seat.once("walk", lambda rng: _contribution(study, descent, data, rng))

    # Line 8, as one secure sum.
    await seat.stage("sum")
    await seat.release("model", study.privacy.epsilon, study.privacy.delta)
    return _released(descent, await adder.open_sum(slots, own, _bound_to(n)))


def _contribution(study: Study, descent: Plan, data: Dataset, rng: Rng) -> tuple[int, ...]:
    """Return n_j theta_T^(j) (or theta_T^(j) itself) on the grid, within what its slots hold."""
    theta = walk(study, descent.T, float(descent.eta), descent.sigma, data, rng)
    weight = len(data.y) if descent.by_size else 1
    bound = weight * descent.reach(loss_of(study.model.loss).L, study.d)
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
            noise = gaussian(rng, n * sigma, min(rounds, T - t) * d, _UNIT)
        z = noise[t % rounds * d : (t % rounds + 1) * d]
        noisy = [g + v for g, v in zip(_encode(gradient_sum(data.X, data.y, theta, loss), n, loss.L), z, strict=True)]
        mean = np.array([v / (n << FRACTION_BITS) for v in noisy])
        theta = theta - eta * (mean + Lambda * theta)
    return theta


def _rounds_a_draw(d: int) -> int:
    return max(1, _NORMALS // d)


def draws(T: int, d: int) -> int:
    """Return how many vectors of noise a walk draws; each serves many rounds."""
    return -(-T // _rounds_a_draw(d))


def _encode(gradient: _Array, n: int, G: Fraction) -> list[int]:
    """Clip to norm n G, which only rounding could exceed, and round to the grid of 2^-F."""
    norm = float(np.linalg.norm(gradient))
    clipped = gradient * min(1.0, float(n * G) / norm) if norm > 0 else gradient
    return [round(v * 2**FRACTION_BITS) for v in clipped.tolist()]


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
        (n,) = await add_up(seat, study, key, _count_layout(study), sums)
        if n < study.K:
            raise LocalProtocolError("the sum of sizes is smaller than the number of parties")
        sums += 1
    descent = plan(study, n)
    await seat.stage("training")
    return _released(descent, await add_up(seat, study, key, _layout(study, descent), sums))

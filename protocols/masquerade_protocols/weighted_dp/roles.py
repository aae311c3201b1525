"""Weighted DP: every party makes a noisy descent on its own records; the release is the average by size.

Kang, Liu and Wang, "Weighted Distributed Differential Privacy ERM: Convex and Non-convex", Algorithm 1. The paper
trusts its server with every party's size and classifier. Here a secure sum takes the server's place, so Charlie learns
n and the released classifier, and no n_j or theta^(j) of any party. n is the number of all records, n_j that of party
P_j, and theta^(j) its classifier. For m parties, T rounds, d coordinates in p plaintexts, keys of b bits::

    party P_j                                    Charlie                          lead P_L (one of the parties)
      |============ join: everybody's box key of this run, signed =================|
      |<------- SumKey ---------------------------|<------- SumKey ----------------|   b/8
      |<~~~~~~~~~~~~~~~~~~ coin toss: binds the pairwise masks ~~~~~~~~~~~~~~~~~~~>|   3 boxes to each other party
      |                       one secure sum: n = sum_j n_j; no n_j is seen        |
      | theta_(t+1) = theta_t - eta (grad L_Dj(theta_t) + z_t), t = 0 .. T-1       |
      |                       one secure sum: sum_j n_j theta_T^(j)                |
      | theta^(c) = that sum / n, computed by every participant                    |

:mod:`masquerade_protocols.blocks.secure_sum` has the messages of a sum.

**Why there is a smallest part.** The paper's sigma, the standard deviation of the noise, falls as n grows. So a party
that raises n takes noise away from everybody. Charlie with a party's help can change the total, and a party can claim
records that it does not have. Hence the public ``smallest_part``: a party that has less than that part of n adds as
much noise as if its records were that part. No party stops, for that would tell of its size.

**Uniform weights** are the method that the paper compares with (Jayaraman and others 2018, in the paper's table 1): the
plain mean of the parties' classifiers, equation (2), with the noise of m n_(1) records, where n_(1) is the size of the
smallest party. n_(1) is private, so the public ``min_records`` takes its place, and no n is opened.

**Proven noise** lets each local descent alone keep the privacy target, whatever all others do
(``docs/privacy/weighted-dp.md``). The noise on a party's *sum* of gradients follows from the target, T and G, and from
no size. A party need not wait for n. So it descends before it joins, and nobody sees how long that takes.

A local descent takes nothing but integers from the records: the sum of the gradients on the grid of 2^-F plus an
integer Gaussian vector. All that leaves the party is a function of these integers.
"""

from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from masquerade_core.crypto.masks import as_array, as_integers
from masquerade_core.data.records import Records
from masquerade_core.errors import RefusedLocally
from masquerade_core.learning.losses import loss_of
from masquerade_core.model import Model
from masquerade_core.privacy.noise.local_descent import MOST_ROUNDED_RECORDS
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import fingerprint, join_and_count, relay_and_count
from masquerade_protocols.blocks.local_descent import FRACTION_BITS, UNIT, local_descent
from masquerade_protocols.blocks.noise_shares import count_at_once
from masquerade_protocols.blocks.secure_sum import set_up, set_up_charlie
from masquerade_protocols.weighted_dp.public import Plan, layout, noise_of, parameters_of, plan, smallest_part

__all__ = ["charlie", "party"]


# --- Replay log -----------------------------------------------------------------------


def _own_plan(study: Study, descent: Plan, own: int, n: int) -> Plan:
    """Return the plan with this party's noise: that of n records, or of own/``smallest_part`` if they are fewer.

    A party with a smaller part than the study's thus adds more noise than the others. If it stopped instead, everybody
    would learn that its size is less than that part of n, for each n that Charlie makes up.
    """
    if study.proven or not descent.by_size:
        return descent
    return plan(study, min(n, int(own / smallest_part(study))))


def _contribution(study: Study, descent: Plan, data: Records, rng: Rng) -> tuple[int, ...]:
    """Return n_j theta_T^(j) (or theta_T^(j) itself) on the grid, cut off at its slots' bound."""
    n = data.n
    theta = local_descent(study, descent.T, float(descent.eta), descent.sigma_at(n), data, rng)
    weight = n if descent.by_size else 1
    bound = descent.reach(loss_of(study.model.loss).L, study.d, weight)
    exact = (round(weight * UNIT * Fraction(v)) for v in theta.tolist())
    return tuple(max(-bound, min(bound, v)) for v in exact)


async def _train(seat: Seat, study: Study, descent: Plan, data: Records) -> NDArray[Any]:
    """Make the local descent: lines 3 to 6. The time for drawing the noise depends on T and d alone."""
    if study.proven and data.n > MOST_ROUNDED_RECORDS:
        raise RefusedLocally(
            f"this party has more than {MOST_ROUNDED_RECORDS:,} records, the most for which the proof counts rounding "
            "errors",
            "take part with fewer records",
        )
    await seat.stage("training")
    return as_array(await seat.once("local descent", lambda rng: _contribution(study, descent, data, rng)))


def _released(descent: Plan, sums: tuple[int, ...]) -> Model:
    """Return the model of line 8: theta^(c) = sum_j (n_j/n) theta_T^(j)."""
    return Model(tuple(float(Fraction(v, descent.divisor << FRACTION_BITS)) for v in sums), None)


# --- Roles ----------------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Records) -> Model:
    """Party P_j, the lead included.

    Raises
    ------
    RefusedLocally
        It has too many records for the proof; it says so before it joins.
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    by_size, own = parameters_of(study).weights == "sizes", None
    if study.proven:
        own = await _train(seat, study, plan(study, study.K), data)
    if by_size:
        sums, n = await join_and_count(seat, study, data)
    else:
        await seat.join()
        await seat.stage("keys")
        sums, n = await set_up(seat, study), 0
    descent = plan(study, n)
    slots = layout(study, descent)
    await sums.precompute([slots])
    if own is None:
        own = await _train(seat, study, _own_plan(study, descent, data.n, n), data)

    # Line 8, as one secure sum.
    await seat.stage("sum")
    await count_at_once(seat, "model", study, noise_of(study) if study.proven else None)
    opened = as_integers(await sums.open_sum(slots, own, fingerprint(n)))
    await sums.close()
    return _released(descent, opened)


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie, in the place of the paper's server: he sees each party's ciphertexts for two sums, n, and the model.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    if parameters_of(study).weights == "sizes":
        sums, n = await relay_and_count(seat, study)
    else:
        await seat.join()
        await seat.stage("keys")
        sums, n = await set_up_charlie(seat, study), 0
    descent = plan(study, n)
    if not study.proven:
        await seat.stage("training")
    opened = as_integers(await sums.open_sum(layout(study, descent)))
    await sums.close()
    return _released(descent, opened)

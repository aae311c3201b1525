"""dp-glm: regression coefficients with intervals, from six noisy sums.

This program's own protocol. A record is u, its p covariates, and a label y of 0 or 1; the model is logistic regression,
P(y = 1) = 1/(1 + exp(-b0 - b.u)). mu is the parameter of Gaussian differential privacy that meets the privacy target; a
sum's *part* is its share of mu^2. s = N mu sqrt(h/K)/sqrt(d), for N records, d = p + 1 coefficients, and K parties of
which h do not side with Charlie, says how much there is to go by. ``docs/privacy/dp-glm.md`` has the proof.

In a *secure sum* Charlie adds up what all parties send, and reads nothing but the total::

    party P_k                                                           Charlie
      | 0. draw this party's share of all noise                           |
      |============ join: everybody's box key of this run, signed ========|
      |~~~ GroupKey: the parties' key for check values ~~~~~~~~~~~~~~~~~~~|   K - 1 boxes
      |     1. one secure sum: N = sum of n_k; no n_k is seen             |
      |     2. two secure sums: where each column lies, and its spread    |
      |<--- PublicNumbers: m, r, y; then m, s, y -------------------------|   8 (2 p + 1), after each
      |     3. one secure sum: noisy second moments                       |
      |<--- PublicNumbers: W, theta, C, CH -------------------------------|   4 p (p + 1) + 8 (d + 2)
      |     4. three secure sums: Newton's steps at theta                 |
      |<--- PublicNumbers: theta, C, CH; then the result -----------------|   8 (d + 2), and 8 d (d + 3) + 32

0. A share is discrete Gaussian, with a standard deviation that is a constant. So it can be drawn before N is known.
1. Where s is below 250, nothing can be told whatever the records say. Then the run ends here, and nothing is spent.
2. From the means and squares follow each column's mean m and spread s. z = (u - m)/s is not cut.
3. Second moments of z, cut, give coordinates x = (1, W z) with nearly no correlation, and a first theta.
4. A record's score (y - q) x at theta, q = 1/(1 + exp(-x.theta)), is weighted by a w that depends on x alone. So the
   scores of all records have mean 0 at the true theta, whatever is weighted down: nothing is cut, and nothing biased.
   The weighted Hessian and squared scores travel with it. They give Newton's step, and the standard errors.

:mod:`~masquerade_protocols.dp_glm.vectors` has what a party adds up,
:mod:`~masquerade_protocols.dp_glm.estimates` what follows from the sums,
:mod:`~masquerade_protocols.dp_glm.release` what of it is told, and
:mod:`masquerade_protocols.blocks.adaptive_sums` how each side makes a sum. The messages of a secure sum are those of
:mod:`masquerade_protocols.blocks.masked_sum`, or of :mod:`masquerade_protocols.blocks.paillier_sum`.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import Records
from masquerade_core.model import Model
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.adaptive_sums import CharlieSide, PartySide, Side, drawn_ahead
from masquerade_protocols.blocks.descent import join_and_count, relay_and_count
from masquerade_protocols.blocks.evaluation import evaluated, evaluated_by_all, hold_back
from masquerade_protocols.dp_glm import vectors
from masquerade_protocols.dp_glm.estimates import (
    Design,
    Fit,
    Located,
    Location,
    Point,
    Step,
    fitted,
    located,
    next_point,
    opened_step,
    spread_out,
    whitened,
)
from masquerade_protocols.dp_glm.public import Parameters, Plan, check
from masquerade_protocols.dp_glm.release import release, too_few

__all__ = ["Parameters", "charlie", "check", "learn", "party"]

_Floats = NDArray[np.float64]


async def learn(side: Side, plan: Plan) -> Model:
    """Steps 2 to 4. A party contributes to each sum; all else is the same for everybody."""
    if not plan.tells:
        return too_few(plan)
    columns = plan.columns
    await side.stage("moments")
    # 2. Where the columns lie.
    opened = await _total(side, plan, "location", vectors.location(columns, linear=plan.linear))
    first = Location.of(await side.agree(located(plan, opened).numbers()), plan)
    opened = await _total(side, plan, "spread", vectors.spread(columns, first, linear=plan.linear))
    place = Located.of(await side.agree(spread_out(plan, first, opened).numbers()), plan)
    # 3. Second moments.
    opened = await _total(side, plan, "moments", vectors.moments(place, linear=plan.linear))
    W, own = whitened(plan, place, opened)
    upper = np.triu_indices(columns.p)
    agreed = await side.agree(np.concatenate([W[upper], own.numbers()]))
    W = np.zeros_like(W)
    W[upper] = agreed[: len(upper[0])]
    design = Design(place.m, place.s, W + np.triu(W, 1).T, place.yb, place.sy)
    point = Point.of(agreed[len(upper[0]) :], plan)
    # 4. Newton's steps.
    await side.stage("rounds")
    steps: list[Step] = []
    for t in (1, 2, 3):
        opened = await _total(side, plan, f"step {t}", vectors.step(design, point, t))
        steps.append(opened_step(plan, f"step {t}", point, opened))
        await side.progress(t, 3)
        if t < 3:  # noqa: PLR2004
            own = next_point(plan, steps[-1], point if steps[1:] else None)
            point = Point.of(await side.agree(own.numbers(), unsure=own.unsure), plan)
    result = fitted(plan, design.W, steps[1], steps[2])
    numbers = await side.agree(result.numbers(plan.N), unsure=result.unsure)
    return release(plan, place, Fit.of(numbers, plan.N, plan.d))


async def _total(side: Side, plan: Plan, label: str, rows: vectors.Rows) -> _Floats:
    """Return a noisy sum as a mean vector, in units of 1/N."""
    noisy = plan.sums[label]
    own = partial(vectors.contribution, rows=rows, columns=plan.columns, scale=plan.scale(label))
    return await side.total(label, noisy.length, plan.unit(label), own, products=noisy.products)


# --- The parties --------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Records) -> Model:
    """Party P_k, the lead included.

    Raises
    ------
    ProtocolViolation
        Another participant is at fault; the error names it where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    # 0. Before the join: afterwards, the time that drawing takes would tell of the noise.
    await seat.stage("noise")
    noise = await drawn_ahead(seat, Plan(study, 1).numbers_drawn)  # how many these are does not depend on N
    held = await hold_back(seat, study, data)
    sums, N = await join_and_count(seat, study, held.training, held.records)  # 1.
    plan = Plan(study, N)
    model = await learn(PartySide(seat, plan, sums, held.training, noise), plan)
    return await evaluated(sums, held, model)


# --- Charlie --------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie: he sees K contributions that he cannot read and one total of each sum, and sends what follows from it.

    Raises
    ------
    ProtocolViolation
        A party is at fault; the error names it where that can be known.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    sums, N = await relay_and_count(seat, study)
    plan = Plan(study, N)
    model = await learn(CharlieSide(seat, plan, sums), plan)
    return await evaluated_by_all(sums, model)

"""dp-whitened: noisy means and second moments, then a few noisy gradients in whitened coordinates.

This program's own protocol. It has no settings: all follows from N (the number of all records), d (the coordinates of
a record u), the privacy target, and sums that were paid for. mu is the parameter of Gaussian differential privacy that
meets the target; a sum's *part* is its share of mu^2. s = N mu sqrt(h/K)/sqrt(d), for K parties of which h do not side
with Charlie, says how much there is to go by. ``docs/privacy/dp-whitened.md`` has the proof.

In a *secure sum* Charlie adds up what all parties send, and reads nothing but the total::

    party P_k                                                           Charlie
      | 0. draw this party's share of all noise                           |
      |============ join: everybody's box key of this run, signed ========|
      |~~~ GroupKey: the parties' key for check values ~~~~~~~~~~~~~~~~~~~|   K - 1 boxes
      |     1. one secure sum: N = sum of n_k; no n_k is seen             |
      |     2. two secure sums: noisy means, where s is large enough      |
      |<--- PublicNumbers: m, R, yb --------------------------------------|   8 (d + 2), after each
      |     3. one secure sum, in pieces: noisy second moments            |
      |<--- PublicNumbers: A, L, K, th, b0 -------------------------------|   4 d (d + 1) + 8 (d + 3)
      |     4. T secure sums: noisy gradients at (th, b0)                 |
      |<--- PublicNumbers: th, b0 ----------------------------------------|   8 (d + 1), after each
      |<--- PublicNumbers: the classifier, and a grid for its scores -----|   8 (d + 3)
      |     5. one secure sum: noisy counts of scores, by label            |
      |<--- PublicNumbers: the classifier, with slope and offset ---------|   8 (d + 1)
      |<--- PublicNumbers: the noise on each weight ----------------------|   8 d

0. A share is discrete Gaussian, with a standard deviation that is a constant. So it can be drawn before N is known.
2. m estimates the mean of all records, and R the radius around it. z = cut(u - m, R)/R is a record from then on; cut
   shortens a vector to a length. Where R is too large to help, the second sum is of the labels, and z = u.
3. The second moments of z give its covariance, without the noise's part. A = V diag(1/sqrt(lp)) V' whitens: x = A z has
   nearly the same spread in every direction that is not noise. Second moments and labels give a first classifier th, b0
   by ridge regression.
4. A record's gradient at (th, b0) is weighted or cut to a length C and rounded. T is 4 or 8.
5. Scores become log-odds, as :func:`~masquerade_protocols.dp_whitened.estimates.recalibrated` says. Where there is too
   little to go by, there is no such step.
6. How much of each weight is noise follows from the opened sums, and from the noise that is known to be on them. It is
   told with two classes, and where there are a centre and a last sum.

With m classes there are m labels, and as many columns of th.

:mod:`~masquerade_protocols.dp_whitened.vectors` has what a party adds up,
:mod:`~masquerade_protocols.dp_whitened.estimates` what follows from the sums,
:mod:`masquerade_protocols.blocks.adaptive_sums` how each side makes a sum and how everybody goes on from the same
numbers, and :mod:`masquerade_protocols.blocks.masked_sum` the messages of a secure sum. With
``[crypto] sum = "paillier"`` they are those of :mod:`masquerade_protocols.blocks.paillier_sum`.
"""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import Records
from masquerade_core.model import Model, Published
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.adaptive_sums import CharlieSide, PartySide, Side, drawn_ahead
from masquerade_protocols.blocks.descent import join_and_count, relay_and_count
from masquerade_protocols.blocks.evaluation import evaluated, evaluated_by_all, hold_back
from masquerade_protocols.dp_whitened.estimates import (
    Centre,
    Labels,
    Point,
    Scorer,
    Whitened,
    class_shares,
    classifier,
    first_centre,
    recalibrated,
    second_centre,
    step,
    weight_noise,
    whitened,
)
from masquerade_protocols.dp_whitened.public import (
    Parameters,
    Plan,
    check,
    counts_length,
    gradient_length,
    moments_length,
    numbers_drawn,
    point_length,
)
from masquerade_protocols.dp_whitened.vectors import (
    counts_sum,
    gradient_sum,
    labels_sum,
    mean_sum,
    moments_sum,
    shift_sum,
)

__all__ = ["Parameters", "Side", "charlie", "check", "learn", "party"]

_Floats = NDArray[np.float64]


# --- What both sides do, in the order of the steps ----------------------------------


async def learn(side: Side, plan: Plan) -> Model:
    """Steps 2 to 4. A party contributes to each sum; all else is the same for everybody."""
    d, m = plan.study.d, plan.study.outputs
    await side.stage("moments")
    # 2. The centre, or a second look at the labels.
    centre, labels, published = Centre.none(d, m), None, Published(plan.N)
    if plan.looks_for_centre:
        B = plan.first_mean
        opened = await side.total("first mean", d + m, B, partial(mean_sum, B=B))
        published = class_shares(plan, opened)
        first = Centre.of(await side.agree(first_centre(plan, opened).numbers()), d)
        B = plan.second_mean
        if plan.centres(first.R):
            shift = partial(shift_sum, centre=first, B=B, distance=plan.plenty)
            opened = await side.total("second mean", d + plan.plenty, B, shift)
            centre = Centre.of(await side.agree(second_centre(plan, first, opened).numbers()), d)
        else:
            labels = Labels.of(plan, await side.total("labels", d * m, B, partial(labels_sum, B=B)))
    # 3. Second moments, and what is whitened by them.
    B, length = plan.moments(centred=centre.centred), moments_length(d, m, centred=centre.centred)
    products = partial(moments_sum, centre=centre, B=B)
    moments = [await side.total("second moments", length, B**2, products, products=d * (d - 1) // 2)]
    found: list[Whitened] = []

    def own() -> tuple[_Floats, bool]:
        found.append(whitened(plan, centre, moments, labels))
        return found[0].numbers(), found[0].unsure

    point = Point.of(await side.agree_on_many(point_length(d, m), own), d, centred=centre.centred)
    seen, unsure = found[0].seen if plan.tells_noise else None, found.pop().unsure
    # 4. Gradients.
    await side.stage("rounds")
    iterates: list[_Floats] = []
    points = [point]
    for t in range(plan.rounds):
        B, length = plan.gradient, gradient_length(d, m, centred=centre.centred)
        gradient = partial(gradient_sum, centre=centre, point=point, B=B, weighted=plan.weighs)
        opened = await side.total(f"gradient {t}", length, B, gradient)
        iterates.append(await side.agree(step(plan, point, opened)))
        point = point.at(iterates[-1])
        points.append(point)
        await side.progress(t + 1, plan.rounds)
    # 5. Slope and offset, and the classifier.
    scorer = Scorer.of(await side.agree(classifier(plan, centre, point, iterates)), d, m)
    released, of_slope = scorer.released(), 0.0
    if plan.recalibrates:
        B = plan.counts
        opened = await side.total("score counts", counts_length(m), B, partial(counts_sum, scorer=scorer, B=B))
        numbers, of_slope = recalibrated(plan, scorer, opened)
        released = await side.agree(numbers)
    # 6. The noise on each weight.
    if seen is not None:
        noise = weight_noise(plan, centre, seen, points[:-1], (scorer, released, of_slope))
        noise = await side.agree(noise, unsure=unsure)
        published = replace(published, weight_noise=tuple(noise.tolist()))
    weights = released.tolist()
    return Model(tuple(weights[:-m]), None, offset=tuple(weights[-m:]), published=published)


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
    noise = await drawn_ahead(seat, numbers_drawn(study.d, study.outputs, study.retries))
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

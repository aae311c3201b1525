"""Vote and soft: the parties' classifiers vote on public points, and the votes train one private classifier.

Hamm, Cao and Belkin, "Learning Privately from Multiparty Data", ICML 2016: Algorithm 1 (``vote``: the majority's
labels), Algorithm 2 (``soft``: fractions of votes), Appendix B (several classes), section 4.5 (private auxiliary data).
The lead is the party that holds the Paillier key xi, of n bits. M is the number of parties, N that of auxiliary points,
C that of classes and d that of coordinates. m is the number of ciphertexts. Sizes are in bytes::

    party P_j                                  Charlie                           lead P_L (one of the parties)
      | 1. h_j trained; h_j(x_1) .. h_j(x_N)     |                                 |
      |============ join: everybody's box key of this run, signed =================|
      |<------- SumKey --------------------------|<------- SumKey -----------------|   n/8
      |<~~~~~~~~~~~~~~~~~~ coin toss: binds the pairwise masks ~~~~~~~~~~~~~~~~~~~>|   3 boxes to each other party
      | 2. N (C - 1) counters, packed, masked    |                                 |
      |-------- Contribution ------------------->|<------- Contribution -----------|   m 2n/8
      |                                          | 3. -- BlindedTotal ------------>|   m 2n/8
      |                                          |<------- BlindedSum -------------|   m n/8
      |                                          | 4. v(x_i) by (6), or alpha(x_i) by (12)
      |                                          | 5. w_s, the minimiser of (8), (19), (41) or (55)
      |                                          | 6. w_p = w_s + eta              |
      |<------- Released ------------------------|-------- Released -------------->|   d, or C d, numbers

The paper's trusted entity holds every h_j. Here Charlie sees what Algorithms 1 and 2 need and no more: how many
parties voted for each class. The parties see w_p alone. For steps 2 and 3 see
:mod:`masquerade_protocols.blocks.secure_sum`.

A vote is for one of C classes, so C - 1 counters are enough: the last class has what the others leave of M. C counters
would take more ciphertexts, and they could contradict each other.

With ``calibration = "proven"`` Charlie is not trusted either. Every party adds its share of noise to its counters in
step 2, and the shares of any h honest parties are enough. Step 6 adds nothing: a classifier made of noisy counts costs
no more privacy than they do. Each of three classes or more then has a counter, so that all counts are equally noisy.
"""

from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.masks import as_array, as_integers
from masquerade_core.data.auxiliary import Auxiliary, check_auxiliary
from masquerade_core.data.records import Records
from masquerade_core.learning.classifiers import Linear, cast_votes, classifier_of
from masquerade_core.model import Model
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Broadcast
from masquerade_protocols.blocks.noise_shares import count_at_once
from masquerade_protocols.blocks.secure_sum import set_up, set_up_charlie
from masquerade_protocols.voting.counting import counters_of, exact_counts, minimiser, noisy_counts, targets_of
from masquerade_protocols.voting.public import (
    FRACTION_BITS,
    Grid,
    beta,
    layout,
    noise_of,
)

__all__ = ["Released", "charlie", "party"]


class Released(Broadcast):
    """Charlie to all: w_p, each weight in units of 2^-F, as a number from 0 that stands for -bound."""

    weights: bytes


# --- The steps -----------------------------------------------------------------------


def _draw_share(noise: SharedNoise, size: int, rng: Rng) -> tuple[int, ...]:
    """Draw a party's share of the noise on all counters."""
    return tuple(discrete_gaussian(rng, noise.share, size))


def _draw_noise(rate: Fraction, dimensions: int, rng: Rng) -> tuple[int, ...]:
    """Draw eta with density proportional to exp(-beta |eta|_2), on the grid."""
    return tuple(l2_laplace(rng, rate, dimensions, Fraction(1 << FRACTION_BITS)))


def _encoded(study: Study, X: NDArray[np.float64], targets: NDArray[np.float64], _rng: Rng) -> tuple[int, ...]:
    """Round w_s to the grid of 2^-F."""
    return tuple(round(v * 2**FRACTION_BITS) for v in minimiser(study, X, targets).tolist())


def _model(weights: tuple[int, ...]) -> Model:
    return Model(tuple(v / (1 << FRACTION_BITS) for v in weights), None)


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Records, auxiliary: Auxiliary, classifier: object = None) -> Model:
    """Party P_j, the lead included.

    Parameters
    ----------
    seat : Seat
    study : Study
    data : Records
        This party's records.
    auxiliary : Auxiliary
        The public records that the study names.
    classifier : object, optional
        h_j: anything with fit and predict, or the name of one of scikit-learn's. By default the exact minimiser of the
        study's loss with the study's Lambda.

    Returns
    -------
    Model
        w_p.

    Raises
    ------
    BadInput
        The classifier does not vote for the study's classes, or the auxiliary records are not the study's; nothing was
        sent. Records are no reason: neither those that lack a class, nor those on which the classifier fails.
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    """
    check_auxiliary(study, auxiliary)
    slots, grid = layout(study), Grid.of(study)

    # 1. Before the join: after it, the time that training takes would tell n_j.
    await seat.stage("training")
    h_j = classifier_of(classifier, Linear(study.model.loss, study.model.regularization, study.classes))
    votes = await seat.once("votes", lambda rng: cast_votes(h_j, data, auxiliary.X, rng))
    counters = counters_of(study, votes)
    if study.proven:
        x = await seat.once("noise", partial(_draw_share, noise_of(study), slots.length))
        counters = [(vote << COUNT_BITS) + share for vote, share in zip(counters, x, strict=True)]
    own = as_array(counters)

    await seat.join()
    await seat.stage("keys")
    sums = await set_up(seat, study)
    await sums.precompute([slots])

    # 2. and 3. The counters, in a sum that Charlie alone learns.
    await seat.stage("votes")
    await count_at_once(seat, "model", study, noise_of(study) if study.proven else None)
    await sums.contribute(slots, own, b"votes" + auxiliary.digest)

    await seat.stage("model")
    return _model(grid.unpack((await seat.receive(Released, CHARLIE)).weights))


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study, auxiliary: Auxiliary) -> Model:
    """Charlie, the paper's trusted entity: he sees the exact counts and draws the noise.

    With ``calibration = "proven"`` he sees noisy counts, and draws no noise.

    Raises
    ------
    BadInput
        The auxiliary records are not the study's.
    ProtocolViolation
        A party's fault; it is named.
    RunFailed
        The total is not the sum of one contribution of each party, or its numbers are not counts of votes.
    """
    check_auxiliary(study, auxiliary)
    slots, grid, X = layout(study), Grid.of(study), auxiliary.X
    eta = (0,) * grid.length
    if not study.proven:
        eta = await seat.once("eta", partial(_draw_noise, beta(study), grid.length))
    await seat.join()
    await seat.stage("keys")
    sums = await set_up_charlie(seat, study)

    await seat.stage("votes")
    total = as_integers(await sums.aggregate(slots))
    counts = noisy_counts(study, total) if study.proven else exact_counts(study, total)

    # 4. and 5.
    await seat.stage("model")
    w_s = await seat.once("minimiser", partial(_encoded, study, X, targets_of(study, counts)))
    # 6.
    w_p = tuple(w + noise for w, noise in zip(w_s, eta, strict=True))
    await seat.broadcast(Released(weights=grid.pack(w_p)))
    return _model(w_p)

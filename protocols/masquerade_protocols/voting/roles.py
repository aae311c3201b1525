"""Vote and soft: an ensemble's votes on public points become labels, and these one private classifier.

Hamm, Cao and Belkin, "Learning Privately from Multiparty Data", ICML 2016: Algorithm 1 (``vote``: the majority's
labels), Algorithm 2 (``soft``: fractions of votes), Appendix B (several classes), section 4.5 (private auxiliary data).
For M parties, N auxiliary points, C classes, d coordinates, a Paillier key xi of n bits at the lead::

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
parties voted for what. The parties see w_p alone. See :mod:`masquerade_protocols.blocks.secure_sum` for steps 2 and 3.

One vote is one of C classes, so C - 1 counters say it: what the last class got is M less the others. C counters would
cost more ciphertexts and could contradict each other.

With ``calibration = "proven"`` Charlie is not trusted either: every party adds its share of noise to its counters in
step 2, any h honest parties' shares are enough, and step 6 adds nothing, since what is made of noisy counts costs no
more than they do. Of three classes or more each then has a counter, so that no class's count is noisier than another's.
"""

import math
from fractions import Fraction
from functools import partial
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.auxiliary import Auxiliary, check_auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.learning.classifiers import Linear, cast_votes, classifier_of
from masquerade_core.learning.erm import fit
from masquerade_core.learning.losses import LOGISTIC, require_convex
from masquerade_core.learning.softmax import fit_softmax
from masquerade_core.model import Model
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS, count_noise, counters_at_a_point
from masquerade_core.privacy.noise.votes import output_rate
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian, discrete_gaussian_tail_bound
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace, l2_tail_bound
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, AuxiliaryFile, Study, as_fraction
from masquerade_core.wire.codec import numbers, pack_numbers
from masquerade_core.wire.messages import Message
from masquerade_protocols.blocks.secure_sum import relay_key, set_up
from masquerade_protocols.blocks.slots import WIDEST

__all__ = [
    "FRACTION_BITS",
    "Released",
    "SoftParameters",
    "VoteParameters",
    "beta",
    "charlie",
    "check",
    "fractions",
    "layout",
    "majority",
    "minimiser",
    "noise_of",
    "party",
]

FRACTION_BITS = 40  # F: weights and noise are integers in units of 2^-F
_TAIL_BITS = 128  # noise on the counts goes beyond its slots with a chance of 2^-_TAIL_BITS at most

_Array = NDArray[np.float64]
_Counts = NDArray[np.int64]


class SoftParameters(BaseModel):
    """The study's ``[protocol]`` section for ``soft``."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    auxiliary: AuxiliaryFile
    unseen_classes: Annotated[
        Literal["refuse", "allow"], Field(description="may a party take part whose records lack a class?")
    ] = "refuse"
    private_auxiliary: Annotated[bool, Field(description="is each auxiliary sample to be protected as well?")] = False


class VoteParameters(SoftParameters):
    """The study's ``[protocol]`` section for ``vote``: a majority may be tied."""

    ties: Annotated[Literal["first"] | None, Field(description="which of several classes with as many votes wins")] = (
        None
    )


class Released(Message):
    """Charlie to all: w_p, each weight in units of 2^-F, as a number from 0 that stands for -bound."""

    weights: bytes


# --- What follows from public numbers alone -------------------------------------

# The paper's M is study.K; its N is the number of auxiliary points, and its K that of classes, C here.


def _parameters(study: Study) -> SoftParameters:
    return (SoftParameters if _soft(study) else VoteParameters).model_validate(study.protocol)


def _soft(study: Study) -> bool:
    return study.study.protocol == "soft"


def _classes(study: Study) -> int:
    """C."""
    return study.classes or 2


def check(study: Study) -> None:
    """Refuse what can be known to fail before anybody joins.

    Raises
    ------
    BadInput
        An objective without one minimiser; softmax with another loss; ties that nobody said how to break; a wish that
        noise on the counts cannot keep; or noise that no float or slot holds.
    """
    require_convex(study.model)
    chosen, C = _parameters(study), _classes(study)
    if study.proven and chosen.private_auxiliary:
        raise BadInput(
            '[protocol] private_auxiliary is true, but with calibration = "proven" noise is on the counts of votes, '
            "and the auxiliary samples themselves have none",
            'leave private_auxiliary out, or set calibration = "paper"',
        )
    if study.multiclass and study.model.loss != LOGISTIC.name:
        raise BadInput(
            f'[model] loss is "{study.model.loss}", but classes are told apart by the logistic loss of several classes',
            f'set loss = "{LOGISTIC.name}"',
        )
    if isinstance(chosen, VoteParameters) and chosen.ties is None and (study.proven or _may_tie(study.K, C)):
        counts = "noisy counts" if study.proven else f"{study.K} parties that vote"
        raise BadInput(
            f"{counts} for {C} classes can be tied, and [protocol] ties does not say who wins then",
            'set ties = "first": the class that stands first in [label] classes wins, and of two values the positive '
            "one" + ("" if study.proven else "; or, for two classes, choose an odd number of parties"),
        )
    slots = layout(study)
    if study.proven and (not slots.fits or slots.width > WIDEST):
        most = f"have at most {WIDEST}" if slots.fits else f"no key of {study.crypto.key_bits} bits has room for them"
        raise BadInput(
            f"the noise on the counts needs slots of {slots.width} bits; {most}", "ask for a larger epsilon or delta"
        )
    if not slots.fits:
        raise BadInput(f"{study.K} parties are too many for a key of {study.crypto.key_bits} bits")
    if (bits := _bound(study).bit_length()) > WIDEST:
        raise BadInput(
            f"the noise on a weight has up to {bits} bits, but at most {WIDEST} are possible",
            "ask for a larger epsilon or a larger regularization",
        )


def _may_tie(M: int, C: int) -> bool:
    return M % 2 == 0 or (C > 2 and M > 1)  # noqa: PLR2004  two classes and an odd number of votes


def noise_of(study: Study) -> SharedNoise:
    """Return the noise on the counts that a proven study's wish asks for, in units of 2^-G votes.

    Raises
    ------
    BadInput
        There is no such noise.
    """
    return count_noise(
        N=_parameters(study).auxiliary.records,
        classes=_classes(study),
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        honest=study.honest,
    )


def _counted(study: Study) -> int:
    """How many classes have a counter: all but the last or the negative one, but for what is proven."""
    return counters_at_a_point(_classes(study)) if study.proven else _classes(study) - 1


def layout(study: Study) -> Packing:
    """Lay out the counters, point by point: each 0 to M; or so many units of 2^-G, and M parties' noise.

    Raises
    ------
    BadInput
        There is no noise for the wish.
    """
    counters, largest = _parameters(study).auxiliary.records * _counted(study), study.K
    if study.proven:
        tail = discrete_gaussian_tail_bound(noise_of(study).share, study.K * counters, _TAIL_BITS)
        largest = study.K * ((1 << COUNT_BITS) + tail)
    return Packing(counters, largest, study.crypto.key_bits)


def beta(study: Study) -> Fraction:
    """Return the rate of the output noise eta; see :func:`~masquerade_core.privacy.noise.votes.output_rate`."""
    chosen = _parameters(study)
    return output_rate(
        soft=_soft(study),
        softmax=study.multiclass,
        eps=as_fraction(study.privacy.epsilon),
        Lambda=as_fraction(study.model.regularization),
        M=study.K,
        N=chosen.auxiliary.records,
        private_auxiliary=chosen.private_auxiliary,
    )


def _bound(study: Study) -> int:
    """A released weight is at most this in units of 2^-F, but for a chance of 2^-60 if it is noisy.

    (lambda/2) |w_s|^2 is at most the risk at 0, which is log C for softmax and at most 1 for the other losses.
    """
    longest = math.ceil(math.sqrt(2 * max(1.0, math.log(_classes(study))) / study.model.regularization)) + 1
    if study.proven:
        return longest << FRACTION_BITS
    dimensions = study.outputs * study.d
    return (longest << FRACTION_BITS) + l2_tail_bound(beta(study), dimensions, Fraction(1 << FRACTION_BITS))


class _Grid(NamedTuple):
    """How the released weights travel: ``length`` numbers of ``width`` bytes, offset by ``bound``."""

    bound: int
    width: int
    length: int

    def pack(self, weights: tuple[int, ...]) -> bytes:
        if any(abs(v) > self.bound for v in weights):
            raise RunFailed("the noise is larger than what is sent can hold, which has a chance of 2^-60", "run again")
        return pack_numbers([v + self.bound for v in weights], self.width)

    def unpack(self, raw: bytes) -> tuple[int, ...]:
        return tuple(v - self.bound for v in numbers(raw, self.width, self.length, CHARLIE))


def _grid(study: Study) -> _Grid:
    bound = _bound(study)
    return _Grid(bound, -(-(2 * bound).bit_length() // 8), study.outputs * study.d)


def _model(weights: tuple[int, ...]) -> Model:
    return Model(tuple(v / (1 << FRACTION_BITS) for v in weights), None)


# --- The parties ------------------------------------------------------------------


async def party(seat: Seat, study: Study, data: Dataset, auxiliary: Auxiliary, classifier: object = None) -> Model:
    """Party P_j, the lead included.

    Parameters
    ----------
    seat : Seat
    study : Study
    data : Dataset
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
        The classifier does not vote for the study's classes, the records lack a class, or the auxiliary records are
        not the study's; nothing was sent.
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    """
    check_auxiliary(study, auxiliary)
    slots, grid = layout(study), _grid(study)
    _require_all_classes(study, data)

    # 1. Before the join: afterwards, the time that training takes would tell n_j.
    await seat.stage("training")
    h_j = classifier_of(classifier, Linear(study.model.loss, study.model.regularization, study.classes))
    votes = await seat.once("votes", lambda rng: cast_votes(h_j, data, auxiliary.X, rng))
    counters = _counters(study, votes)
    if study.proven:
        x = await seat.once("noise", partial(_draw_share, noise_of(study), slots.length))
        counters = [(vote << COUNT_BITS) + share for vote, share in zip(counters, x, strict=True)]

    await seat.join()
    await seat.stage("keys")
    sums = await set_up(seat, study)
    await sums.precompute(slots.count)

    # 2. and 3. The counters, in a sum that Charlie alone learns.
    await seat.stage("votes")
    await seat.release("model", study.privacy.epsilon, study.privacy.delta)
    await sums.contribute(slots, counters, b"votes" + auxiliary.digest)

    await seat.stage("model")
    return _model(grid.unpack((await seat.receive(Released, CHARLIE)).weights))


def _require_all_classes(study: Study, data: Dataset) -> None:
    """Refuse records that lack a class, unless the study allows them; which class that is, is not said."""
    if len(np.unique(data.y)) < _classes(study) and _parameters(study).unseen_classes == "refuse":
        raise BadInput(
            "these records do not hold every class of the study, so a classifier that learns from them never votes for "
            "some of them",
            'take part with records of every class, or ask for a study with unseen_classes = "allow"',
        )


def _counters(study: Study, votes: tuple[int, ...]) -> list[int]:
    """One party's counters, point by point: 1 for the positive label, or a 1 at the class if it has a counter."""
    if not study.multiclass:
        return list(votes)
    return [int(vote == k) for vote in votes for k in range(_counted(study))]


def _draw_share(noise: SharedNoise, size: int, rng: Rng) -> tuple[int, ...]:
    return tuple(discrete_gaussian(rng, noise.share, size))


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study, auxiliary: Auxiliary) -> Model:
    """Charlie, the paper's trusted entity: he sees the counts, exactly, and draws the noise.

    With ``calibration = "proven"`` the counts are noisy when he sees them, and he draws none.

    Raises
    ------
    BadInput
        The auxiliary records are not the study's.
    ProtocolViolation
        A party's fault; it is named.
    RunFailed
        The total is not the sum of one contribution of each party, or holds numbers that are no counts of votes.
    """
    check_auxiliary(study, auxiliary)
    slots, grid, X = layout(study), _grid(study), auxiliary.X
    eta = (0,) * grid.length
    if not study.proven:
        eta = await seat.once("eta", partial(_draw_noise, beta(study), grid.length))
    await seat.join()
    await seat.stage("keys")
    sums = await relay_key(seat, study)

    await seat.stage("votes")
    total = await sums.aggregate(slots)
    counts = _noisy_counts(study, total) if study.proven else _counts(study, total)

    # 4. and 5.
    await seat.stage("model")
    targets = fractions(counts) if _soft(study) else majority(counts, positive=not study.multiclass)
    w_s = await seat.once("minimiser", partial(_encoded, study, X, targets))
    # 6.
    w_p = tuple(w + noise for w, noise in zip(w_s, eta, strict=True))
    await seat.broadcast(Released(weights=grid.pack(w_p)))
    return _model(w_p)


def _draw_noise(rate: Fraction, dimensions: int, rng: Rng) -> tuple[int, ...]:
    """Draw eta with density proportional to exp(-beta |eta|_2), on the grid."""
    return tuple(l2_laplace(rng, rate, dimensions, Fraction(1 << FRACTION_BITS)))


def _counts(study: Study, counters: tuple[int, ...]) -> _Counts:
    """Return everybody's votes by point and class, shape (N, C); with a positive label the columns are -1 and +1.

    Raises
    ------
    RunFailed
        They are not what M parties can vote.
    """
    M, C = study.K, _classes(study)
    opened = np.array(counters, dtype=np.int64).reshape(-1, C - 1)
    rest = M - opened.sum(axis=1, keepdims=True)
    if (opened < 0).any() or (rest < 0).any():
        raise RunFailed(
            f"the opened totals are not the votes of {M} parties",
            "a party contributed something else than votes; the totals do not tell who",
        )
    return np.hstack([opened, rest] if study.multiclass else [rest, opened])


def _noisy_counts(study: Study, counters: tuple[int, ...]) -> _Array:
    """Return the noisy counts by point and class, shape (N, C), columns as in :func:`_counts`; none is negative.

    True counts at a point add up to M. So what is left of M is the second class's of two; of more classes, all counts
    are shifted alike until they do. Then every negative one is 0. At each point at least one is more than 0.
    """
    opened = np.array([v / (1 << COUNT_BITS) for v in counters]).reshape(-1, _counted(study))
    rest = study.K - opened.sum(axis=1, keepdims=True)
    if opened.shape[1] > 1:
        counts = opened + rest / opened.shape[1]
    else:
        counts = np.hstack([opened, rest] if study.multiclass else [rest, opened])
    kept: _Array = np.maximum(counts, 0.0)
    return kept


def majority(counts: _Counts | _Array, *, positive: bool) -> _Array:
    """Return v(x_i), the class with the most votes: equation (6).

    Parameters
    ----------
    counts : ndarray, shape (N, C)
        Votes by point and class.
    positive : bool
        Whether the two columns stand for the labels -1 and +1. Then +1 wins a tie, as in equation (6); else the class
        that stands first.

    Returns
    -------
    ndarray, shape (N, C)
        1 at the class that wins, 0 elsewhere.
    """
    C = counts.shape[1]
    winner = (counts[:, 1] >= counts[:, 0]).astype(np.intp) if positive else counts.argmax(axis=1)
    labels: _Array = np.eye(C)[winner]
    return labels


def fractions(counts: _Counts | _Array) -> _Array:
    """Return alpha^k(x_i), the fraction of votes for each class: equation (12); shape (N, C)."""
    alpha: _Array = counts / counts.sum(axis=1, keepdims=True)
    return alpha


def minimiser(study: Study, X: _Array, targets: _Array) -> _Array:
    """Return w_s, the minimiser of the risk that weights each class's loss by its target.

    With targets 0 and 1 it is that of equation (8), or (41) for named classes; with fractions, of (19) or (55).

    Parameters
    ----------
    study : Study
        Its loss and Lambda.
    X : ndarray, shape (N, d)
        Auxiliary points.
    targets : ndarray, shape (N, C)
        Each row sums to 1; with a positive label the columns are -1 and +1.

    Returns
    -------
    ndarray, shape (outputs d,)
        Class by class.
    """
    Lambda = study.model.regularization
    if study.multiclass:
        return fit_softmax(X, targets, Lambda).ravel()
    # alpha l(w.x) + (1 - alpha) l(-w.x): every point twice, with both labels and their weights.
    y = np.repeat((-1.0, 1.0), len(X))
    return fit(np.vstack([X, X]), y, Lambda, study.model.loss, weights=2 * targets.T.ravel())


def _encoded(study: Study, X: _Array, targets: _Array, _rng: Rng) -> tuple[int, ...]:
    """Round w_s to the grid of 2^-F."""
    return tuple(round(v * 2**FRACTION_BITS) for v in minimiser(study, X, targets).tolist())

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
parties voted for what. The parties see w_p alone. See :mod:`masquerade_protocols.secure_sum` for steps 2 and 3.

One vote is one of C classes, so C - 1 counters say it: what the last class got is M less the others. C counters would
cost more ciphertexts and could contradict each other.
"""

import math
from fractions import Fraction
from functools import partial
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.learning.classifiers import Linear, cast_votes, classifier_of
from masquerade_core.learning.erm import fit
from masquerade_core.learning.losses import LOGISTIC, require_convex
from masquerade_core.learning.softmax import fit_softmax
from masquerade_core.model import Model
from masquerade_core.privacy.mechanisms import l2_laplace, l2_tail_bound
from masquerade_core.privacy.vote_claims import output_rate
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, AuxiliaryFile, Study, as_fraction
from masquerade_core.wire.codec import numbers, pack_numbers
from masquerade_core.wire.messages import Message
from masquerade_protocols.secure_sum import add_up_alone, learn_key, set_up

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
    "party",
]

FRACTION_BITS = 40  # F: weights and noise are integers in units of 2^-F
_WIDEST = 500  # bits of a released number; beyond them the squared length of a classifier is no float

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
        An objective without one minimiser; softmax with another loss; ties that nobody said how to break; or noise
        that no float holds.
    """
    require_convex(study.model)
    chosen, C = _parameters(study), _classes(study)
    if study.multiclass and study.model.loss != LOGISTIC.name:
        raise BadInput(
            f'[model] loss is "{study.model.loss}", but classes are told apart by the logistic loss of several classes',
            f'set loss = "{LOGISTIC.name}"',
        )
    if isinstance(chosen, VoteParameters) and chosen.ties is None and _may_tie(study.K, C):
        raise BadInput(
            f"{study.K} parties that vote for {C} classes can be tied, and [protocol] ties does not say who wins then",
            'set ties = "first": the class that stands first in [label] classes wins, and of two values the positive '
            "one; or, for two classes, choose an odd number of parties",
        )
    if not layout(study).fits:
        raise BadInput(f"{study.K} parties are too many for a key of {study.crypto.key_bits} bits")
    if (bits := _bound(study).bit_length()) > _WIDEST:
        raise BadInput(
            f"the noise on a weight has up to {bits} bits, but at most {_WIDEST} are possible",
            "ask for a larger epsilon or a larger regularization",
        )


def _may_tie(M: int, C: int) -> bool:
    return M % 2 == 0 or (C > 2 and M > 1)  # noqa: PLR2004  two classes and an odd number of votes


def layout(study: Study) -> Packing:
    """Lay out the counters: point by point, each 0 to M; one class, the last or the negative one, has none."""
    N = _parameters(study).auxiliary.records
    return Packing(N * (_classes(study) - 1), study.K, study.crypto.key_bits)


def beta(study: Study) -> Fraction:
    """Return the rate of the output noise eta; see :func:`~masquerade_core.privacy.vote_claims.output_rate`."""
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
    """A released weight is at most this in units of 2^-F, but for a chance of 2^-60.

    (lambda/2) |w_s|^2 is at most the risk at 0, which is log C for softmax and at most 1 for the other losses.
    """
    longest = math.ceil(math.sqrt(2 * max(1.0, math.log(_classes(study))) / study.model.regularization)) + 1
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


async def party(seat: Seat, study: Study, data: Dataset, classifier: object = None) -> Model:
    """Party P_j, the lead included.

    Parameters
    ----------
    seat : Seat
    study : Study
        With its auxiliary records.
    data : Dataset
        This party's records.
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
        The classifier does not vote for the study's classes, or the records lack a class; nothing was sent.
    ProtocolViolation
        Another participant's fault; it is named where that can be known.
    """
    slots, grid, points = layout(study), _grid(study), study.auxiliary
    _require_all_classes(study, data)

    # 1. Before the join: afterwards, the time that training takes would tell n_j.
    await seat.stage("training")
    h_j = classifier_of(classifier, Linear(study.model.loss, study.model.regularization, study.classes))
    votes = await seat.once("votes", lambda rng: cast_votes(h_j, data, points.X, rng))

    await seat.join()
    await seat.stage("keys")
    adder = await set_up(seat, study)
    await adder.fill(slots.count)

    # 2. and 3. The counters, in a sum that Charlie alone learns.
    await seat.stage("votes")
    await seat.release("model", study.privacy.epsilon, study.privacy.delta)
    await adder.give(slots, _counters(votes, study.classes), b"votes" + points.digest)

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


def _counters(votes: tuple[int, ...], classes: int | None) -> list[int]:
    """One party's counters, point by point: 1 for the positive label, or a 1 at the class unless it is the last."""
    if classes is None:
        return list(votes)
    return [int(vote == k) for vote in votes for k in range(classes - 1)]


# --- Charlie ------------------------------------------------------------------------


async def charlie(seat: Seat, study: Study) -> Model:
    """Charlie, the paper's trusted entity: he sees the counts, exactly, and draws the noise.

    Raises
    ------
    ProtocolViolation
        A party's fault; it is named.
    RunFailed
        The total is not the sum of one contribution of each party, or holds numbers that are no counts of votes.
    """
    slots, grid, X = layout(study), _grid(study), study.auxiliary.X
    soft, rate = _soft(study), beta(study)
    eta = await seat.once("eta", lambda rng: _draw_noise(rng, rate, grid.length))
    await seat.join()
    await seat.stage("keys")
    key = await learn_key(seat, study)

    await seat.stage("votes")
    counts = _counts(study, await add_up_alone(seat, study, key, slots, 0))

    # 4. and 5.
    await seat.stage("model")
    targets = fractions(counts) if soft else majority(counts, positive=not study.multiclass)
    w_s = await seat.once("minimiser", partial(_encoded, study, X, targets))
    # 6.
    w_p = tuple(w + noise for w, noise in zip(w_s, eta, strict=True))
    await seat.broadcast(Released(weights=grid.pack(w_p)))
    return _model(w_p)


def _draw_noise(rng: Rng, rate: Fraction, dimensions: int) -> tuple[int, ...]:
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


def majority(counts: _Counts, *, positive: bool) -> _Array:
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


def fractions(counts: _Counts) -> _Array:
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

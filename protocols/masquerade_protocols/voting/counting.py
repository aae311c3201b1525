"""From votes to counters, from opened counters to labels, from labels to the classifier; nothing is sent here."""

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import RunFailed
from masquerade_core.learning.erm import fit
from masquerade_core.learning.softmax import fit_softmax
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS
from masquerade_core.study import Study
from masquerade_protocols.voting.public import classes_of, counters_per_point, is_soft

__all__ = ["counters_of", "exact_counts", "fractions", "majority", "minimiser", "noisy_counts", "targets_of"]

_Array = NDArray[np.float64]
_Counts = NDArray[np.int64]


def counters_of(study: Study, votes: tuple[int, ...]) -> list[int]:
    """Return one party's counters, point by point, from its votes, which are numbers of classes.

    For a positive label a counter is 1 where the party votes for it. For named classes each class with a counter has
    its own, and the vote's class has a 1; a class without a counter leaves all of them 0.
    """
    if not study.multiclass:
        return list(votes)
    return [int(vote == k) for vote in votes for k in range(counters_per_point(study))]


def exact_counts(study: Study, counters: tuple[int, ...]) -> _Counts:
    """Return everybody's votes by point and class, shape (N, C); with a positive label the columns are -1 and +1.

    Raises
    ------
    RunFailed
        M parties cannot vote like this.
    """
    M, C = study.K, classes_of(study)
    opened = np.array(counters, dtype=np.int64).reshape(-1, C - 1)
    rest = M - opened.sum(axis=1, keepdims=True)
    if (opened < 0).any() or (rest < 0).any():
        raise RunFailed(
            f"the opened totals are not the votes of {M} parties: at some point a class has a negative number "
            f"of votes, or all classes have more than {M}",
            "a party contributed something other than votes, or the lead changed the sum; the totals do not tell who. "
            "Start a new run",
        )
    return np.hstack([opened, rest] if study.multiclass else [rest, opened])


def noisy_counts(study: Study, counters: tuple[int, ...]) -> _Array:
    """Return the noisy counts by point and class, shape (N, C), columns as in :func:`exact_counts`; none is negative.

    True counts at a point add up to M. So the second of two classes has what the first leaves of M. Of more classes,
    all counts at a point are shifted alike until they add up to M. Then each negative count becomes 0. At each point at
    least one count stays above 0.
    """
    opened = np.array([v / (1 << COUNT_BITS) for v in counters]).reshape(-1, counters_per_point(study))
    rest = study.K - opened.sum(axis=1, keepdims=True)
    if opened.shape[1] > 1:
        counts = opened + rest / opened.shape[1]
    else:
        counts = np.hstack([opened, rest] if study.multiclass else [rest, opened])
    kept: _Array = np.maximum(counts, 0.0)
    return kept


def targets_of(study: Study, counts: _Counts | _Array) -> _Array:
    """Return how much each class counts at each point, shape (N, C): the majority's label, or fractions of votes."""
    return fractions(counts) if is_soft(study) else majority(counts, positive=not study.multiclass)


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

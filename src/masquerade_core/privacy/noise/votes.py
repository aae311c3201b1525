"""How far one party's votes move a classifier that is learned from them, and the noise that Hamm, Cao and Belkin add.

A party's data reach the classifier through its votes alone: one class at each of N auxiliary points. In formulas M is
the number of parties, as in the paper. The votes of one party move the minimiser by at most Delta in L2 norm
(Theorems 1 and 3; equations (53) and (60))::

                      vote              soft
    labels -1, +1     2/lambda          2/(M lambda)
    softmax           sqrt2/lambda      sqrt2/(M lambda)

At each point the gradients of two labels differ by at most 2, or sqrt2 for softmax. Where only one of M votes differs,
fractions of votes differ by an M-th of that. The objective is lambda-strongly convex, which turns a difference of
gradients into a distance of minimisers. The paper's noise has the scale of these bounds (:func:`output_rate`). They are
right, and not sharp; :func:`sharp_sensitivity` has smaller ones.
"""

import math
from fractions import Fraction

import numpy as np

from masquerade_core.lazy_scipy import lambertw
from masquerade_core.learning.losses import LOGISTIC, loss_of
from masquerade_core.privacy.noise.output_perturbation import classifier_norm_bound

__all__ = ["minimiser_radius", "output_rate", "sharp_sensitivity", "votes_sensitivity"]

_SQRT2_BITS = 64


def output_rate(
    *, soft: bool, softmax: bool, eps: Fraction, Lambda: Fraction, M: int, N: int, private_auxiliary: bool
) -> Fraction:
    """Return beta of the output noise's density exp(-beta ||eta||_2).

    vote: lambda eps/2; soft: M lambda eps/2. For softmax: lambda eps/sqrt2 and M lambda eps/sqrt2, rounded down by a
    part in 2^64. With private auxiliary data, soft's noise is (N + M - 1)/N times as large.

    Parameters
    ----------
    soft, softmax : bool
        Whether labels are fractions of votes; whether classes are named.
    eps, Lambda : Fraction
        The study's epsilon; the paper's lambda.
    M, N : int
        Parties; auxiliary points.
    private_auxiliary : bool
        Whether each auxiliary point is to be protected as well.

    References
    ----------
    Hamm, Cao, Belkin 2016, Algorithms 1 and 2; equations (53) and (60); section 4.5.
    """
    root = Fraction(math.isqrt(2 << (2 * _SQRT2_BITS)) + 1, 1 << _SQRT2_BITS)  # a little more than sqrt2
    beta = Lambda * eps / (root if softmax else 2)
    if not soft:
        return beta
    return M * beta * (Fraction(N, N + M - 1) if private_auxiliary else 1)


def votes_sensitivity(*, soft: bool, softmax: bool, Lambda: float, M: int, N: int | None = None) -> float:
    """Return Delta, how far one party's votes move the exact minimiser.

    Parameters
    ----------
    soft, softmax, Lambda, M
        As in :func:`output_rate`.
    N : int, optional
        If given, one of N auxiliary samples may change as well. Its gradients then differ by up to 2 with two classes.
        For softmax they differ by up to 2 sqrt2, since a gradient has a norm of at most sqrt2 (equation (47)).

    References
    ----------
    Hamm, Cao, Belkin 2016, Appendix A and B; section 4.5, equations (23) to (25), for N.
    """
    of_a_vote = (math.sqrt(2) if softmax else 2) / (M if soft else 1)
    if N is None:
        return of_a_vote / Lambda
    of_a_sample = 2 * math.sqrt(2) if softmax else 2
    return ((N - 1) * of_a_vote + of_a_sample) / (N * Lambda)


def minimiser_radius(*, loss: str, classes: int | None, Lambda: float) -> float:
    """Return R with ||w_s||_2 <= R for the minimiser w_s over any points in the unit ball, any labels and fractions.

    Parameters
    ----------
    loss : str
        By its name.
    classes : int or None
        C of softmax, whose loss is the logistic one; None for labels -1 and +1.
    Lambda : float
        The paper's lambda.

    Notes
    -----
    *Softmax*: let s be the scores and p their softmax. At the minimiser lambda ||W||^2 is the mean of sum_y alpha_y f_y
    with f_y = s_y - sum_k p_k s_k. With u_k = s_y - s_k, f_y = sum_{k != y} u_k exp(-u_k)/(1 + sum_{k != y} exp(-u_k)).
    That is at most V = W((C - 1)/e), as sum_k (u_k - V) exp(-u_k) <= (C - 1) exp(-1 - V) = V. So ||W|| is at most
    sqrt(V/lambda).

    *Logistic loss of two labels*: the same with C = 2, or less. The proof of
    :func:`~masquerade_core.privacy.noise.output_perturbation.classifier_norm_bound` allows fractions of labels.

    *Other losses*: (lambda/2) ||w||^2 is at most the risk at 0.
    """
    if classes is not None:
        return math.sqrt(float(lambertw((classes - 1) / math.e).real) / Lambda)
    if loss == LOGISTIC.name:
        return classifier_norm_bound(Lambda)
    return math.sqrt(2 * float(loss_of(loss).value(np.zeros(1))[0]) / Lambda)


def sharp_sensitivity(
    *, soft: bool, loss: str, classes: int | None, Lambda: float, M: int, N: int | None = None
) -> float:
    """Return how far one party's votes move the exact minimiser: the smaller of two bounds.

    * The bound of :func:`votes_sensitivity`, halved for the logistic loss phi of two labels. As phi'(m) + phi'(-m) = -1
      for every m, the gradients of the two labels differ by at most 1, not 2.
    * Twice R of :func:`minimiser_radius`: no two minimisers are farther apart, even with other auxiliary data.

    Parameters
    ----------
    soft, M
        As in :func:`output_rate`.
    loss, classes, Lambda
        As in :func:`minimiser_radius`.
    N : int, optional
        As in :func:`votes_sensitivity`.
    """
    bound = votes_sensitivity(soft=soft, softmax=classes is not None, Lambda=Lambda, M=M, N=N)
    if classes is None and loss == LOGISTIC.name:
        votes = 1 / (M if soft else 1)
        bound = (votes if N is None else ((N - 1) * votes + 2) / N) / Lambda
    return min(bound, 2 * minimiser_radius(loss=loss, classes=classes, Lambda=Lambda))

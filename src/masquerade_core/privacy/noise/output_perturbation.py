"""Output perturbation: how much noise hides one record in a trained classifier, by the papers and as proved.

Here alone Pathak's lambda meets our Lambda: **Lambda = 2 lambda**. Pathak's equation (2) regularizes with lambda w.w,
whose strong convexity is 2 lambda. The study's ``regularization`` is the Lambda of (Lambda/2) ||w||^2. So the paper's
experiments at lambda = 1 are ours at Lambda = 2.

Numbers of the study enter as the decimals of its file (:func:`~masquerade_core.privacy.numbers.as_fraction`). So all
participants draw at the same rational scale.

``n`` is a number of records. A party that draws noise uses its own n_j, which is secret. The layout of slots uses the
public ``min_records``, since less data means more noise.
"""

import math
from fractions import Fraction

from masquerade_core.errors import LocalProtocolError
from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.privacy.samplers.l2_laplace import L2_TV_BITS
from masquerade_core.rng import TAIL_BITS

__all__ = [
    "LARGEST_SMALLEST",
    "SMALL_NOISE",
    "classifier_norm_bound",
    "eps_where_noise_is_small",
    "l2_sensitivity",
    "paper_beta",
    "paper_noise_norm",
    "paper_scale",
    "provable_delta",
    "provable_epsilon",
    "refined_l2_sensitivity",
]

SMALL_NOISE = 0.25
"""Noise counts as small when its root mean square norm is at most this part of the classifier's norm."""

_W_1E = 0.27846454276107374
"""W(1/e), the largest value of m sigma(-m); reached at m = 1 + W(1/e)."""


def _check(n: int, *positive: float) -> None:
    if n < 1 or not all(p > 0 for p in positive):
        raise LocalProtocolError("noise was asked for with no records, epsilon or regularization; all must be positive")


def paper_scale(n: int, eps: float, Lambda: float) -> Fraction:
    """Return b = 2/(n eps lambda) = 4/(n eps Lambda): the scale of the paper's noise on the *average* classifier.

    Parameters
    ----------
    n : int
        Records: n_j of the party that draws.
    eps : float
        The privacy target.
    Lambda : float
        Twice the paper's lambda.

    References
    ----------
    Pathak, Rane, Raj 2010, section 3.2 and Stage 2, step 3.
    """
    _check(n, eps, Lambda)
    return 4 / (n * as_fraction(eps) * as_fraction(Lambda))


def paper_beta(n: int, eps: float, Lambda: float) -> Fraction:
    """Return beta = n Lambda eps / 2, of the density exp(-beta ||eta||_2) on the *average* classifier.

    Rajkumar and Agarwal's equation (2) has beta = eps / C with C the L2 sensitivity. For logistic regression with
    (Lambda/2) ||w||^2, which is also our form, they have C = 2/(Lambda n). Their footnote 2 says that this density,
    too, makes Pathak's aggregate private. Put together: beta = eps n Lambda / 2. Like Pathak they do not divide by K,
    although one party's record moves the average by only 1/K of C.

    References
    ----------
    Rajkumar and Agarwal 2012, section 2.2, equation (2); section 2.4, equation (5) and footnote 2.
    """
    _check(n, eps, Lambda)
    return n * as_fraction(Lambda) * as_fraction(eps) / 2


def l2_sensitivity(n: int, Lambda: float) -> float:
    """Return 2/(n Lambda): how far one record of n, replaced, moves one party's minimiser in L2 norm.

    References
    ----------
    Chaudhuri and Monteleoni 2008, Corollary 2, for ||x||_2 <= 1 and regularization (Lambda/2) ||w||^2. Pathak's Theorem
    6.1 prints it as an L1 norm and with a factor 1/eps; both are slips.
    """
    _check(n, Lambda)
    return 2 / (n * Lambda)


def classifier_norm_bound(Lambda: float) -> float:
    """Return R with ||w_j||_2 <= R for every minimiser over records in the unit ball.

    At the minimiser Lambda ||w||^2 = mean_i m_i sigma(-m_i) <= W(1/e), as m sigma(-m) is nowhere larger. Where that
    bound on ||w|| lies below the maximum's place, m_i <= ||w|| gives the sharper Lambda ||w|| <= sigma(-||w||).
    """
    _check(1, Lambda)
    R = math.sqrt(_W_1E / Lambda)
    if R > 1 + _W_1E:
        return R
    low, high = 0.0, R
    for _ in range(100):  # Lambda r - sigma(-r) grows in r
        middle = (low + high) / 2
        low, high = (middle, high) if Lambda * middle < 1 / (1 + math.exp(middle)) else (low, middle)
    return high


def refined_l2_sensitivity(n: int, Lambda: float) -> float:
    """Return min(2 sigma(R)/(n Lambda), 2R): :func:`l2_sensitivity` with only the slopes that can occur.

    Let w be the minimiser over D, and D' a neighbour of D. Strong convexity of J' gives ||w - w'|| <=
    ||grad J'(w)||/Lambda. Here grad J'(w) is the difference of two records' gradients at w, over n. Each of them is at
    most sigma(||w||) <= sigma(R) long.
    """
    R = classifier_norm_bound(Lambda)
    return min(l2_sensitivity(n, Lambda) / (1 + math.exp(-R)), 2 * R)


def paper_noise_norm(d: int, n: int, eps: float, Lambda: float, noise: str = "laplace") -> float:
    """Return the root mean square norm of the noise on the average classifier.

    It is sqrt(2 d) b for "laplace", and sqrt(d (d+1)) / beta for "l2", whose norm has the law Gamma(d)/beta. It does
    not depend on K: the paper's noise is as large for fifty parties as for two.
    """
    if noise == "laplace":
        return math.sqrt(2 * d) * float(paper_scale(n, eps, Lambda))
    return math.sqrt(d * (d + 1)) / float(paper_beta(n, eps, Lambda))


def eps_where_noise_is_small(d: int, n: int, Lambda: float, norm: float | None = None, noise: str = "laplace") -> float:
    """Return the epsilon at which the noise's norm is ``SMALL_NOISE`` of the classifier's.

    Parameters
    ----------
    d : int
        Coordinates.
    n : int
        Records of the smallest party.
    Lambda : float
        Twice the paper's lambda.
    norm : float
        ||average classifier||_2 where it is known, as in a demonstration. Where it is left out,
        :func:`classifier_norm_bound` stands for it, and no data could do with less than the epsilon returned.
    noise : str
        "laplace" or "l2".

    Notes
    -----
    Noise in d dimensions is nearly orthogonal to the classifier. So noise of a quarter of its length tilts it by some
    14 degrees on average, and only records with a smaller margin change their label. This is a rule of thumb, and no
    guarantee of accuracy.
    """
    size = classifier_norm_bound(Lambda) if norm is None else norm
    return paper_noise_norm(d, n, 1.0, Lambda, noise) / (SMALL_NOISE * size)


LARGEST_SMALLEST = 1_000_000
"""Rounding and inexact minimisers are counted for a smallest party of at most this many records."""


def provable_epsilon(
    *,
    K: int,
    d: int,
    eps: float,
    Lambda: float,
    noise: str,
    fraction_bits: int | None = None,
    refined: bool = True,
) -> float:
    """Return the epsilon that is proved of the released model, where the study's is ``eps``.

    One record moves one w_j, and so the sum of all, by at most Delta_2 = 2 s/(n_j Lambda) in L2 norm. Here s = 1, or
    s = sigma(R) when ``refined`` (:func:`refined_l2_sensitivity`). The noise on the sum is K times that on the average:

    * "laplace": scale K b, b = 4/(n_(1) eps Lambda), per coordinate, and an L1 norm of sqrt(d) Delta_2 at most:
      sqrt(d) Delta_2/(K b) = eps s sqrt(d)/(2K).
    * "l2": rate beta/K, beta = n_(1) Lambda eps/2: beta Delta_2/K = eps s/K.

    Parameters
    ----------
    fraction_bits : int, optional
        F, if the release lies on a grid of 2^-F. Rounding moves two neighbours apart by up to sqrt(d) 2^-F more, and
        minimisers of gradient norm gamma by 2 gamma/Lambda more. Both are counted at ``LARGEST_SMALLEST`` records.
        Without F the number is that of exact arithmetic.

    References
    ----------
    Chaudhuri and Monteleoni 2008, Corollary 2; Rajkumar and Agarwal 2012, equation (2).
    """
    slope = 1 / (1 + math.exp(-classifier_norm_bound(Lambda))) if refined else 1.0
    if fraction_bits is not None:
        inexact = math.sqrt(d) * 2.0**-fraction_bits + 2 * TOLERANCE / Lambda
        slope += inexact * LARGEST_SMALLEST * Lambda / 2  # in units of 2/(n Lambda)
    if noise == "laplace":
        return eps * slope * math.sqrt(d) / (2 * K)
    if noise == "l2":
        return eps * slope / K
    raise LocalProtocolError(f"there is no statement for noise {noise!r}, only for 'laplace' and 'l2'")


def provable_delta(*, d: int, epsilon: float, noise: str) -> float:
    """Return the delta that goes with a proved ``epsilon``: the slots' bound on the noise, and the sampler's error.

    A draw beyond the bound B aborts the run, with equal probability on neighbours. There remains noise x within B for
    which the neighbour's x + v is beyond B. For "laplace" its probability is at most sum_i P(|x_i| > B - |v_i|) <=
    2^-60 exp(Delta_2/(K b)), and Delta_2/(K b) = epsilon/sqrt(d). For "l2" it is at most 2^-60 exp(epsilon). There the
    sampler's total variation adds (1 + exp(epsilon)) 2^-60.
    """
    if noise == "laplace":
        return min(1.0, 2.0**-TAIL_BITS * math.exp(min(epsilon / math.sqrt(d), 700)))
    growth = math.exp(min(epsilon, 700))
    return min(1.0, 2.0**-TAIL_BITS * growth + 2.0**-L2_TV_BITS * (1 + growth))

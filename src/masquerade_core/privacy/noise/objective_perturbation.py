"""Objective perturbation with Gaussian noise: how Rajkumar and Agarwal's sigma* follows from epsilon and delta.

Their Algorithm 4 releases the minimiser of J(w) + eta.w/N + (Delta/2) ||w||^2 with eta ~ N(0, sigma*^2 I), and their
Algorithm 1 approaches it. ``docs/privacy/sigma-star.md`` derives everything here, and shows which square is missing in
their Procedure 3.

**The same number everywhere.** Every machine computes Delta, eps~ and sigma* for itself. A last bit that differs would
mean noise of another scale and gradients of another objective. So :func:`compute_slack`, :func:`noise_sigma` and
:func:`sigma_share` take fractions, and evaluate logarithms and chi-square tails in 448-bit arithmetic whose every
operation is correctly rounded (MPFR). They return multiples of a public grid, always rounded towards more privacy:
Delta and sigma up, eps~ down. :func:`sigma_star` is the same number as a float, for people.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import gmpy2

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.lazy_scipy import chdtri
from masquerade_core.privacy.noise.gaussian_rounds import check_delta
from masquerade_core.privacy.numbers import as_fraction, smallest
from masquerade_core.privacy.samplers.rounded_gaussian import decide

__all__ = ["SIGMA_BITS", "SLACK_BITS", "Slack", "compute_slack", "noise_sigma", "sigma_share", "sigma_star"]

SLACK_BITS = 40
"""Delta and eps~ are multiples of 2^-SLACK_BITS; a float holds such a number exactly up to 2^13."""

SIGMA_BITS = 32
"""sigma* and its shares are multiples of 2^-SIGMA_BITS."""

_PRECISION = 448
_LARGEST_SIGMA = 2**64  # no plaintext holds more noise; the search ends here


@dataclass(frozen=True)
class Slack:
    """The epsilon that is left for the noise once the determinants are paid for, and the curvature that this needs.

    Parameters
    ----------
    Delta : Fraction
        Extra strong convexity, >= 0; a multiple of 2^-SLACK_BITS, rounded up.
    epsilon : Fraction
        eps~, for the noise; a multiple of 2^-SLACK_BITS, rounded down.
    """

    Delta: Fraction
    epsilon: Fraction


def compute_slack(epsilon: float | Fraction, Lambda: float | Fraction, N: int, c: Fraction) -> Slack:
    """Return Delta and eps~: Procedure 2, computeSlack.

    If eps - 2 log(1 + c/(N Lambda)) is positive, it is eps~, and Delta = 0. Otherwise eps~ = eps/2, and Delta =
    c/(N (exp(eps/4) - 1)) - Lambda. This Delta is then positive, and makes 2 log(1 + c/(N (Lambda + Delta))) = eps/2.

    Parameters
    ----------
    epsilon : float or Fraction
        The target's epsilon, > 0. A float stands for the decimal with which a study writes it.
    Lambda : float or Fraction
        Of (Lambda/2) ||w||^2, > 0; Rajkumar and Agarwal's lambda is this one.
    N : int
        Records of all parties together.
    c : Fraction
        Bound on the loss's second derivative.

    Raises
    ------
    BadInput
        epsilon or Lambda is not a positive number.

    Notes
    -----
    As printed, the first branch may leave next to nothing: eps~ just above 0 and a uselessly large sigma*, where the
    second branch would leave eps/2. One logarithm would be enough, as the determinants' ratio has one factor above 1
    and one below; the paper charges two.

    References
    ----------
    Rajkumar and Agarwal 2012, Procedure 2.
    """
    if not all(x > 0 and math.isfinite(x) for x in (epsilon, Lambda)):
        raise BadInput(
            f"epsilon is {epsilon} and regularization is {Lambda}, but objective perturbation needs both finite and "
            "greater than 0",
            "correct [privacy] epsilon or [model] regularization",
        )
    eps, lam = _exactly(epsilon), _exactly(Lambda)
    if N < 1 or c <= 0:
        raise LocalProtocolError("the slack was asked for with no records, or for a loss without curvature")
    grid = 1 << SLACK_BITS
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        spent = 2 * gmpy2.log1p(_mpfr(c / (N * lam)))
        left = int(gmpy2.floor((_mpfr(eps) - spent) * grid))
        if left > 0:
            return Slack(Fraction(0), Fraction(left, grid))
        total = _mpfr(c) / (N * gmpy2.expm1(_mpfr(eps / 4)))
        Delta = Fraction(int(gmpy2.ceil((total - _mpfr(lam)) * grid)), grid)
        half = Fraction(math.floor(eps / 2 * grid), grid)
    if half <= 0:
        raise BadInput(f"[privacy] epsilon is {epsilon}, which is too small to compute with", "choose a larger epsilon")
    return Slack(max(Delta, Fraction(0)), half)


def sigma_star(d: int, epsilon: float | Fraction, delta: float | Fraction) -> float:
    """Return sigma* = (q + sqrt(q^2 + 2 eps~))/eps~, q^2 the 1 - delta quantile of the chi-square law with d degrees.

    It solves Pr(U <= (sigma^2 eps~ - 2)^2 / (4 sigma^2)) = 1 - delta with sigma^2 eps~ > 2, U chi-square. Procedure 3
    prints sigma eps~ - 2 in place of sigma^2 eps~ - 2.

    Parameters
    ----------
    d : int
        Coordinates of a classifier.
    epsilon : float or Fraction
        eps~, which :func:`compute_slack` leaves.
    delta : float or Fraction
        The probability of the outputs for which eps~ does not hold, greater than 0 and less than 1: the paper's
        guarantee is probabilistic.

    Raises
    ------
    BadInput
        epsilon or delta is out of range.

    References
    ----------
    Rajkumar and Agarwal 2012, Procedure 3, step 4, with its square put back; ``docs/privacy/sigma-star.md``.
    """
    _check_target(d, epsilon, delta)
    e, q2 = float(epsilon), float(chdtri(d, float(delta)))
    return (math.sqrt(q2) + math.sqrt(q2 + 2 * e)) / e


def noise_sigma(d: int, epsilon: float | Fraction, delta: float | Fraction) -> Fraction:
    """Return sigma* for use: the smallest multiple of 2^-SIGMA_BITS that satisfies its condition.

    Pr(U > (sigma^2 eps~ - 2)^2 / (4 sigma^2)) <= delta with sigma^2 eps~ > 2, where the left side falls as sigma grows.
    The closed form of :func:`sigma_star` is not used: the condition itself is tested, in correctly rounded arithmetic.

    Raises
    ------
    BadInput
        epsilon or delta is out of range, or so small that no plaintext would hold the noise.
    """
    _check_target(d, epsilon, delta)
    return _noise_sigma(d, _exactly(epsilon), _exactly(delta))


@cache
def _noise_sigma(d: int, epsilon: Fraction, delta: Fraction) -> Fraction:
    grid = 1 << SIGMA_BITS

    def enough(multiple: int) -> bool:
        sigma = Fraction(multiple, grid)
        reach = sigma * sigma * epsilon - 2
        return reach > 0 and _tail_within(d, (reach / (2 * sigma)) ** 2, _mpfr(delta))

    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        guess = min(sigma_star(d, epsilon, delta), float(_LARGEST_SIGMA))
        multiple = smallest(enough, int(guess * grid), least=1, most=_LARGEST_SIGMA * grid)
    if multiple is None:
        raise BadInput(
            f"{float(epsilon):g} of epsilon is left for the noise, and with delta = {float(delta):g} the noise would "
            "be larger than any encrypted number",
            "choose a larger epsilon or delta",
        )
    return Fraction(multiple, grid)


def sigma_share(sigma: Fraction, K: int) -> Fraction:
    """Return the standard deviation of one of K shares of the noise: sigma/sqrt(K), rounded up to the grid.

    The sum of K such shares has a variance of sigma^2 at least.

    References
    ----------
    Rajkumar and Agarwal 2012, section 3.3: eta^k has variance sigma*^2/K.
    """
    if sigma <= 0 or K < 1:
        raise LocalProtocolError("a share of noise was asked for where there is no noise or no party")
    square = math.ceil(sigma * sigma / K * (1 << 2 * SIGMA_BITS))
    return Fraction(math.isqrt(square - 1) + 1, 1 << SIGMA_BITS)


def _tail_within(d: int, x: Fraction, delta: gmpy2.mpfr) -> bool:
    """Return whether Pr(U > x) <= delta for U chi-square with d degrees of freedom, in the precision of the context.

    With y = x/2 it is exp(-y) sum_{k < d/2} y^k/k! for even d, and erfc(sqrt y) + exp(-y) sum_{k <= (d-1)/2} y^(k -
    1/2)/Gamma(k + 1/2) for odd d: sums of positive terms, so nothing cancels.
    """
    y = _mpfr(x / 2)
    if d % 2 == 0:
        tail = term = gmpy2.exp(-y)
        for k in range(1, d // 2):
            term = term * y / k
            tail += term
        return bool(tail <= delta)
    terms = gmpy2.mpfr(0)
    term = 2 * gmpy2.sqrt(y / gmpy2.const_pi()) * gmpy2.exp(-y)
    for k in range(1, (d + 1) // 2):
        terms += term
        term = 2 * term * y / (2 * k + 1)
    return decide(gmpy2.sqrt(y), lambda tail: bool(tail + terms <= delta))


def _check_target(d: int, epsilon: float | Fraction, delta: float | Fraction) -> None:
    if d < 1:
        raise LocalProtocolError("noise was asked for a vector without coordinates")
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise BadInput(
            f"epsilon is {epsilon}, but noise needs a finite epsilon greater than 0", "correct [privacy] epsilon"
        )
    check_delta(delta)


def _exactly(x: float | Fraction) -> Fraction:
    return x if isinstance(x, Fraction) else as_fraction(x)


def _mpfr(x: Fraction) -> gmpy2.mpfr:
    return gmpy2.mpfr(gmpy2.mpq(x.numerator, x.denominator))

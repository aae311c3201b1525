"""The noise of a local descent: T rounds of gradient descent on n_j of n records, with Gaussian noise in every round.

There are two ways to size it:

* :func:`descent_sigma` is Kang, Liu and Wang's equation (3): the noise on a *mean* gradient, sized for n records.
  :func:`exact_mu` is the privacy it gives n_j of them, when a descent sees these n_j alone. One record moves their mean
  gradient by at most 2 G/n_j, as no record's gradient is longer than G. T rounds of Gaussian noise compose exactly to
  one with mu_j = 2 G sqrt(T)/(n_j sigma).
* :func:`local_descent_noise` is the noise on a *sum* of gradients that keeps a privacy target. It depends on no size.

Both count rounding: to the grid of 2^-F on which sums and noise lie, and that of floating point, ``ROUNDING``.
"""

import math
from fractions import Fraction
from functools import cache

import gmpy2

from masquerade_core.errors import BadInput
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, check_delta, rounds_noise
from masquerade_core.privacy.numbers import as_fraction, root_up

__all__ = [
    "C_OF_THE_PROOF",
    "MOST_ROUNDED_RECORDS",
    "ROUNDING",
    "SIGMA_BITS",
    "descent_sigma",
    "exact_mu",
    "local_descent_noise",
    "rounding_part",
]

C_OF_THE_PROOF = 16
"""The least c with which the proof of Kang, Liu and Wang's Theorem 1 goes through.

It takes alpha(lambda) <= 4 lambda^2 G^2 T/(sigma^2 n^2) <= lambda epsilon/2 and delta = exp(-lambda epsilon/2). From
the second, lambda = 2 ln(1/delta)/epsilon; with equation (3) the first is then 8/c <= 1/2.
"""

SIGMA_BITS = 64
"""sigma is a multiple of 2^-SIGMA_BITS, rounded up."""

MOST_ROUNDED_RECORDS = 2**20
"""Rounding is counted for sums over at most so many records."""

ROUNDING = Fraction(MOST_ROUNDED_RECORDS**2, 2**52)
"""How much further apart floating point moves the gradient sums of two neighbouring data sets, as a part of 2 G.

A float sum of n gradients is off by at most (n + 2) n 2^-53 G in norm, since the error of a dot product is at most
(n + 2) 2^-53 times the sizes of its terms. Gradients and records of norm 1 are off by less. n^2 2^-52 is twice all of
it.
"""

_PRECISION = 448
_SMALLEST_EPSILON = Fraction(1, 10**12)


@cache
def descent_sigma(c: float, G: Fraction, rounds: int, epsilon: float, delta: float, n: int) -> Fraction:
    """Return sigma with sigma^2 = c G^2 T ln(1/delta)/(n^2 epsilon^2): the noise on a coordinate of one mean gradient.

    Parameters
    ----------
    c : float
        The paper's "some constant".
    G : Fraction
        Bound on a record's gradient.
    rounds : int
        T.
    epsilon, delta : float
        The privacy target.
    n : int
        Records that the noise is sized for.

    Returns
    -------
    Fraction
        The same on every machine: MPFR's logarithm is correctly rounded, the rest is done in integers.

    Raises
    ------
    BadInput
        No Gaussian noise keeps such a target, or epsilon is too small to compute with.

    References
    ----------
    Kang, Liu and Wang, Theorem 1, equation (3).
    """
    check_delta(delta)
    if as_fraction(epsilon) < _SMALLEST_EPSILON:
        raise BadInput(
            f"[privacy] epsilon is {epsilon:g}, but noise can be computed only for 1e-12 or more",
            "choose a larger epsilon",
        )
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        exact = as_fraction(delta)
        logarithm = -gmpy2.log(gmpy2.mpfr(gmpy2.mpq(exact.numerator, exact.denominator)))
        scaled = int(gmpy2.ceil(logarithm * (1 << 256)))
    square = as_fraction(c) * G**2 * rounds * Fraction(scaled, 1 << 256) / (n * as_fraction(epsilon)) ** 2
    return root_up(square, SIGMA_BITS)


def exact_mu(*, c: float, epsilon: float, delta: float, part: float, rounding: float = 0.0) -> float:
    """Return mu_j = 2 G sqrt(T)/(n_j sigma) of :func:`descent_sigma`'s noise, for n_j of n records.

    With sigma put in, mu_j = 2 epsilon/((n_j/n) sqrt(c ln(1/delta))), which holds neither G nor T.

    Parameters
    ----------
    c, epsilon, delta : float
        As for :func:`descent_sigma`.
    part : float
        n_j/n, between 0 and 1.
    rounding : float
        By how much of 2 G the grid and floating point move two neighbours further apart.
    """
    return 2 * (1 + rounding) * epsilon / (part * math.sqrt(c * math.log(1 / delta)))


def rounding_part(d: int, fraction_bits: int, G: Fraction) -> float:
    """Bound how much further apart rounding moves two neighbours' gradient sums, as a part of 2 G.

    Rounding to the grid of 2^-F moves each sum by at most sqrt(d)/2 units. ``ROUNDING`` is floating point's part.
    """
    return math.sqrt(d) * 2.0**-fraction_bits / (2 * float(G)) + float(ROUNDING)


def local_descent_noise(
    *, G: Fraction, d: int, rounds: int, epsilon: float, delta: float, fraction_bits: int
) -> SharedNoise:
    """Return the noise of one local descent in units of 2^-F; its ``share`` is the noise to draw.

    Delta = 2 G (1 + ``ROUNDING``) 2^F + sqrt(d) counts two gradients, the errors of floating point in their sums, and
    rounding to the grid. One share alone keeps the privacy target.

    Parameters
    ----------
    G : Fraction
        The longest gradient of one record.
    d, rounds : int
        Coordinates; T.
    epsilon, delta : float
        The privacy target.
    fraction_bits : int
        F.

    Raises
    ------
    BadInput
        No noise keeps that target.
    """
    longest = G * (1 + ROUNDING)
    return rounds_noise(
        clip=longest, d=d, rounds=rounds, epsilon=epsilon, delta=delta, honest=1, fraction_bits=fraction_bits
    )

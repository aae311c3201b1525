"""Kang, Liu and Wang's noise, what they claim of it, and what is provable of a run of ``weighted-dp``.

Their Theorem 1 calibrates sigma to n = sum_j n_j by adding up, in every round, the parties' gradients at one common
point (equation (4)). Algorithm 1 does not do that: each party walks by itself, along gradients of which one of its own
n_j records moves the mean by 2 G/n_j; and the sum of (n_j/n) z_t has the variance sigma^2 sum_j (n_j/n)^2, not sigma^2.

So what is proved here rests on the walk of the one party that holds the record: T rounds, each of them Gaussian noise
on a vector that moves by 2 G/n_j, compose exactly to mu_j = 2 G sqrt(T)/(n_j sigma). Nothing that leaves that party is
more than a function of its walk, so every view has the same bound, whatever the others do.

n_j is private. What is said holds for the smallest part n_j/n of all records that a study allows: a party that has less
goes no further once n is opened. As sigma is proportional to 1/n, that bound does not depend on n, and so on nobody who
changes it.
"""

import math
from fractions import Fraction
from functools import cache

import gmpy2

from masquerade_core.errors import BadInput
from masquerade_core.privacy._roots import root_up
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, rounds_noise
from masquerade_core.study import as_fraction

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
"""The least c that the proof of Theorem 1 lets pass.

It takes alpha(lambda) <= 4 lambda^2 G^2 T/(sigma^2 n^2) <= lambda epsilon/2 and delta = exp(-lambda epsilon/2). From
the second, lambda = 2 ln(1/delta)/epsilon; with equation (3) the first is then 8/c <= 1/2.
"""

SIGMA_BITS = 64
"""sigma is a multiple of 2^-SIGMA_BITS, rounded up."""

MOST_ROUNDED_RECORDS = 2**20
"""Rounding is counted for a party of at most so many records."""

ROUNDING = Fraction(MOST_ROUNDED_RECORDS**2, 2**52)
"""What floats move two neighbours' sums of gradients further apart, as a part of 2 G.

A float sum of n gradients is off by at most (n + 2) n 2^-53 G in norm: a dot product's error is at most that times the
sizes of its terms. Gradients and records of norm 1 are off by less. n^2 2^-52 counts all that twice.
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
        The study's wish.
    n : int
        Records of everybody.

    Returns
    -------
    Fraction
        The same on every machine: MPFR's logarithm is correctly rounded, the rest is done in integers.

    Raises
    ------
    BadInput
        There is no such noise, or none that any plaintext would hold.

    References
    ----------
    Kang, Liu and Wang, Theorem 1, equation (3).
    """
    if not 0 < delta < 1:
        raise BadInput(
            f"[privacy] delta is {delta:g}, but Gaussian noise needs a delta between 0 and 1, both excluded",
            "set delta to less than 1 divided by the number of all records",
        )
    if as_fraction(epsilon) < _SMALLEST_EPSILON:
        raise BadInput(
            f"[privacy] epsilon is {epsilon:g}, too small for any noise to be drawn", "ask for at least 1e-12"
        )
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        wish = as_fraction(delta)
        logarithm = -gmpy2.log(gmpy2.mpfr(gmpy2.mpq(wish.numerator, wish.denominator)))
        scaled = int(gmpy2.ceil(logarithm * (1 << 256)))
    square = as_fraction(c) * G**2 * rounds * Fraction(scaled, 1 << 256) / (n * as_fraction(epsilon)) ** 2
    return root_up(square, SIGMA_BITS)


def exact_mu(*, c: float, epsilon: float, delta: float, part: float, rounding: float = 0.0) -> float:
    """Return mu_j = 2 G sqrt(T)/(n_j sigma) = 2 epsilon/((n_j/n) sqrt(c ln(1/delta))): neither G nor T is left in it.

    Parameters
    ----------
    part : float
        n_j/n, between 0 and 1.
    rounding : float
        By how much of 2 G the grid and floating point move two neighbours further apart.
    """
    return 2 * (1 + rounding) * epsilon / (part * math.sqrt(c * math.log(1 / delta)))


def rounding_part(d: int, fraction_bits: int, G: Fraction) -> float:
    """Return, as a part of 2 G, what rounding adds at most to the distance of two neighbours' gradient sums.

    Rounding to the grid of 2^-F moves each by sqrt(d)/2 units at most; the rest is ``ROUNDING``.
    """
    return math.sqrt(d) * 2.0**-fraction_bits / (2 * float(G)) + float(ROUNDING)


def local_descent_noise(
    *, G: Fraction, d: int, rounds: int, epsilon: float, delta: float, fraction_bits: int
) -> SharedNoise:
    """Return the noise of a party's walk, in units of the grid 2^-F; its ``share`` is what the party draws with.

    Delta = 2 G (1 + ``ROUNDING``) 2^F + sqrt(d): two gradients, what floats add to their sums, and rounding to the
    grid. One share is enough for the wish.

    Parameters
    ----------
    G : Fraction
        The longest gradient of one record.
    d, rounds : int
        Coordinates; T.
    epsilon, delta : float
        The wish.
    fraction_bits : int
        F.

    Raises
    ------
    BadInput
        There is no such noise.
    """
    longest = G * (1 + ROUNDING)
    return rounds_noise(
        clip=longest, d=d, rounds=rounds, epsilon=epsilon, delta=delta, honest=1, fraction_bits=fraction_bits
    )

"""The discrete Laplace law on the integers: an exact sampler in integer arithmetic, and a bound on its tail."""

from fractions import Fraction

import gmpy2

from masquerade_core.rng import TAIL_BITS, Bits, Rng, check_positive

__all__ = ["discrete_laplace", "discrete_laplace_draw", "tail_bound"]

_PRECISION = 448


def discrete_laplace(rng: Rng, scale: Fraction, size: int) -> list[int]:
    """Draw independent integers with P(x) proportional to exp(-|x|/scale), exactly.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    scale : Fraction
        Greater than 0; an integer counts as one grid unit.
    size : int
        How many integers.

    References
    ----------
    Canonne, Kamath, Steinke, arXiv 2004.00010, Algorithm 2, with t/s = scale.
    """
    check_positive(scale)
    source, t, s = Bits(rng), scale.numerator, scale.denominator
    return [discrete_laplace_draw(source, t, s) for _ in range(size)]


def discrete_laplace_draw(source: Bits, t: int, s: int) -> int:
    """Draw one integer with P(x) proportional to exp(-|x| s/t), exactly; t and s are at least 1."""
    while True:
        u = source.below(t)
        if not source.exp_minus(u, t):
            continue
        v = 0
        while source.exp_minus(1, 1):
            v += 1
        y = (u + t * v) // s
        negative = source.bits(1)
        if negative and y == 0:  # otherwise 0 would come up twice as often as it should
            continue
        return -y if negative else y


def tail_bound(scale: Fraction, bits: int = TAIL_BITS, count: int = 1) -> int:
    """Return the smallest B with ``count`` P(|x| > B) <= 2^-bits for a discrete Laplace x of this scale.

    So any of ``count`` draws exceeds B with a chance of at most 2^-bits.

    Notes
    -----
    P(|x| > B) = 2 q^(B+1) / (1+q) with q = exp(-1/scale).
    """
    check_positive(scale)
    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        inverse = gmpy2.mpfr(gmpy2.mpq(scale.denominator, scale.numerator))
        logarithm = bits * gmpy2.log(gmpy2.mpfr(2)) + gmpy2.log(2 * count / (1 + gmpy2.exp(-inverse)))
        return max(0, int(gmpy2.ceil(logarithm / inverse)) - 1)

"""The discrete Gaussian law on the integers: an exact sampler, and a bound on its tail."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from masquerade_core.privacy.numbers import (
    decimal_of,
    density,
    digits,
    erfcinv,
    mills_ratio,
    require,
    smallest_bound,
)
from masquerade_core.rng import TAIL_BITS, Bits, Rng, check_positive

__all__ = [
    "discrete_gaussian",
    "discrete_gaussian_array",
    "discrete_gaussian_tail_bound",
    "discrete_laplace_draw",
]


_DIGITS = 80  # in which a bound is computed; a bound itself has at most 61


_Whole = npt.NDArray[np.int64]


def discrete_gaussian(rng: Rng, sigma: Fraction, size: int) -> list[int]:
    """Draw independent integers with P(x) proportional to exp(-x^2/(2 sigma^2)), exactly.

    Parameters
    ----------
    rng : Rng
        The only source of randomness.
    sigma : Fraction
        Greater than 0; an integer counts as one grid unit.
    size : int
        How many integers.

    Notes
    -----
    This is rejection sampling. A proposal y is discrete Laplace of scale t = floor(sigma) + 1. It is kept with the
    chance exp(-(abs(y) - sigma^2/t)^2/(2 sigma^2)), which is proportional to exp(-y^2/(2 sigma^2)) exp(abs(y)/t). With
    sigma^2 = a/b the exponent is (abs(y) t b - a)^2 / (2 a b t^2), a ratio of integers. Some 46 % of the proposals are
    kept for a tiny sigma, and 76 % for a large one.

    Many proposals are drawn at once. Floats only settle a decision whose answer no error of theirs can change; integers
    settle the others (:func:`_coins`). So the law is exact, and a seed gives the same integers on every machine.

    References
    ----------
    Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", arXiv 2004.00010, Algorithm 3.
    """
    check_positive(sigma)
    a, b, t = _scale(sigma)
    if t > _LARGEST:
        return _one_by_one(Bits(rng), a, b, t, size)
    drawn: list[int] = discrete_gaussian_array(rng, sigma, size).tolist()
    return drawn


def discrete_gaussian_array(rng: Rng, sigma: Fraction, size: int) -> _Whole:
    """Draw as :func:`discrete_gaussian` does, into an array: many integers take 8 bytes each, and not 40.

    Parameters
    ----------
    rng : Rng
    sigma : Fraction
        Greater than 0, and less than 2^52.
    size : int
    """
    check_positive(sigma)
    a, b, t = _scale(sigma)
    require(t <= _LARGEST, "noise in an array needs a standard deviation below 2^52")
    middle, deviation, denominator = float(sigma**2 / t), float(sigma), 2 * a * b * t * t
    draws, done = np.empty(size, dtype=np.int64), 0
    while done < size:
        y = _proposals(rng, t, min(3 * (size - done) + 16, _MOST))
        far = np.abs(y)

        def exact(i: int, far: _Whole = far) -> tuple[int, int]:
            return (int(far[i]) * t * b - a) ** 2, denominator

        with np.errstate(over="ignore", under="ignore"):
            exponent = ((far - middle) / deviation) ** 2 / 2
        kept = y[_coins(rng, exponent, exact)][: size - done]
        draws[done : done + len(kept)] = kept
        done += len(kept)
    return draws


def _scale(sigma: Fraction) -> tuple[int, int, int]:
    """Return a, b and t, where sigma^2 = a/b."""
    variance = sigma**2
    a, b = variance.numerator, variance.denominator
    return a, b, math.isqrt(a // b) + 1


def _one_by_one(source: Bits, a: int, b: int, t: int, size: int) -> list[int]:
    """Draw for a sigma that is too large for floats, by the same rules."""
    denominator = 2 * a * b * t * t
    draws: list[int] = []
    while len(draws) < size:
        y = discrete_laplace_draw(source, t, 1)
        times, rest = divmod((abs(y) * t * b - a) ** 2, denominator)
        if all(source.exp_minus(1, 1) for _ in range(times)) and source.exp_minus(rest, denominator):
            draws.append(y)
    return draws


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


# --- Many decisions at once -----------------------------------------------------------------------------------------

_LARGEST = 1 << 52  # of a scale t: integers up to it are floats as well
_MOST = 1 << 16  # proposals at once
_ERROR = 2.0**-44  # of exp(-x) and of a uniform number, both in floats: 30 times what the proof below needs


def _proposals(rng: Rng, t: int, count: int) -> _Whole:
    """Return independent discrete Laplace integers of scale t, some ``count`` / 3 to ``count`` of them.

    Notes
    -----
    With u uniform below t, kept with the chance exp(-u/t), and P(v >= k) = exp(-k), the sum u + t v is geometric. It
    gets a sign, and a negative 0 is left out (Algorithm 2 of the reference above).
    """
    surplus = 64 - (t - 1).bit_length()
    u = (_words(rng, count) >> np.uint64(surplus)).astype("<i8") if t > 1 else np.zeros(count, "<i8")
    u = u[u < t]
    if t > 1:
        u = u[_coins(rng, u / t, lambda i: (int(u[i]), t))]
    y = u + t * _geometric(rng, len(u))
    negative = np.frombuffer(rng.bytes(len(y)), dtype=np.uint8) & 1 == 1
    proposals: _Whole = np.where(negative, -y, y)[~(negative & (y == 0))]
    return proposals


def _geometric(rng: Rng, count: int) -> _Whole:
    """Return independent v >= 0 with P(v >= k) = exp(-k), exactly: v counts the k >= 1 with U < exp(-k)."""
    words, edges = _words(rng, count), _edges()
    below = np.searchsorted(edges, words, side="right")
    v = len(edges) - below
    for i in np.flatnonzero(edges[below - 1] == words):  # 64 bits of U do not tell
        uniform = _Uniform(rng, int(words[i]))
        while uniform.below_exp(int(v[i]) + 1, 1):
            v[i] += 1
    return v


@cache
def _edges() -> npt.NDArray[np.uint64]:
    """Return floor(2^64 exp(-k)) for k = 45, 44, ..., 1; the first is 0, so that some edge is at most any word."""
    with digits(_DIGITS):
        return np.array([int(Decimal(-k).exp() * 2**64) for k in range(45, 0, -1)], dtype=np.uint64)


def _coins(
    rng: Rng, exponent: npt.NDArray[np.float64], exact: Callable[[int], tuple[int, int]]
) -> npt.NDArray[np.bool_]:
    """Return True at i with the chance exp(-x) exactly, where x is the ratio of the integers ``exact(i)``.

    Notes
    -----
    A coin is True if a uniform U < exp(-x). Floats have the first 64 bits of U, and exp(-x) with an error below
    2^-49. That holds for x = u/t, where one quotient is rounded. It holds for x = z^2/2 with z = (w sigma - m)/sigma,
    w = abs(y)/sigma and m <= sigma as well: roundings move z by (4 w + 5) 2^-53 at most, x by w (5 w + 5) 2^-53, and
    exp(-x) <= exp(-(w - 1)^2/2) times that is largest at w = 2.5. numpy's exp is within 4 units of the last place.
    Where U and exp(-x) are nearer to each other than 2^-44, integers decide.
    """
    words = _words(rng, len(exponent))
    uniform, chance = words * 2.0**-64, np.exp(-exponent)
    coins = uniform < chance
    for i in np.flatnonzero(np.abs(uniform - chance) <= _ERROR):
        coins[i] = _Uniform(rng, int(words[i])).below_exp(*exact(int(i)))
    return coins


def _words(rng: Rng, count: int) -> npt.NDArray[np.uint64]:
    return np.frombuffer(rng.bytes(8 * count), dtype="<u8")


class _Uniform:
    """A number uniform in [0, 1), of which the first 64 bits are drawn, and others when a decision needs them."""

    def __init__(self, rng: Rng, word: int) -> None:
        self._rng, self._known, self._bits = rng, word, 64

    def below_exp(self, numerator: int, denominator: int) -> bool:
        """Say whether the number is below exp(-numerator/denominator).

        The known bits say that the number is in a cell of width 2^-bits. Rounding moves exp(-x) by far less than such a
        width, because x exp(-x) < 1. So two cells are undecided at most on either side.
        """
        while True:
            with digits(self._bits // 3 + 20):
                edge = int((-decimal_of(Fraction(numerator, denominator))).exp() * 2**self._bits)
            if abs(self._known - edge) > 1:
                return self._known < edge
            self._known, self._bits = self._known << 64 | self._rng.bits(64), self._bits + 64


@lru_cache(maxsize=256)  # every participant of a simulation asks for the same bound, many times
def discrete_gaussian_tail_bound(sigma: Fraction, size: int, bits: int = TAIL_BITS) -> int:
    """Return a bound B with P(any of ``size`` coordinates of :func:`discrete_gaussian` beyond +-B) <= 2^-bits.

    It is the smallest B for which the inequality below shows this.

    Notes
    -----
    P(x >= m) <= P(z >= m - 1) for a normal z of the same sigma. The sum of exp(-k^2/(2 sigma^2)) over k >= m is at most
    its integral from m - 1 on. The sum over all k is at least sqrt(2 pi) sigma: all terms of Poisson's formula are
    positive. So P(any abs(x) > B) <= size erfc(B/(sqrt(2) sigma)), and B is chosen to make that at most 2^-bits.
    """
    check_positive(sigma)
    require(size >= 1, "a bound on noise needs at least one coordinate")

    def enough(B: int, limit: Fraction) -> bool:
        x = decimal_of(B / sigma)
        return 2 * density(x) * mills_ratio(x) <= limit

    with digits(_DIGITS):
        return smallest_bound(enough, lambda limit: math.sqrt(2) * erfcinv(limit) * float(sigma), size=size, bits=bits)

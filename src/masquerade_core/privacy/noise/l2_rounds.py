"""The joint cost of T rounds of noise with density proportional to exp(-beta |x|_2), in d coordinates.

A round moves a sum by a vector of length at most e/beta, where e is the round's pure epsilon. Among those vectors a
longest one is the easiest to notice. Rounds compose by adding up their privacy losses. This module computes the law of
one round's loss on a grid, rounded so that it describes a mechanism that reveals more. It convolves that law with
itself by Fourier transforms. ``docs/privacy/psgd.md`` has the derivation.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from masquerade_core.lazy_scipy import betainc, gammainc, gammaln
from masquerade_core.privacy.numbers import require

__all__ = ["composed_epsilon", "loss_distribution"]

_NATS = 80.0  # an integrand is left out where it is below exp(-80) of its peak
_STEP = 0.15  # of the logarithm of r - r0: the trapezoidal rule errs by some exp(-2 pi 1.5/0.15)
_WIDEST = 30.0  # epsilon of one round; beyond it, composition gains nothing over adding the rounds' epsilons up
_SPREADS = 12.0  # standard deviations kept on either side; delta pays for the rest, by Chernoff's bound
_ROUNDING = 1e-12  # the part of delta that pays for errors of floats, in each round
_FINEST = 2000

_Array = NDArray[np.float64]


def _tails(t: _Array, epsilon: float, d: int) -> tuple[_Array, _Array]:
    """Return P(loss <= t) and P(loss > t) for |t| < epsilon.

    u has the density exp(-|u|) in R^d, |a| = epsilon, and the loss is |u - a| - |u|. With r = |u|, of law Gamma(d), and
    c the cosine of the angle to a: loss <= t if and only if c >= k(r) = ((epsilon^2 - t^2)/(2 r) - t)/epsilon, which
    takes r > r0 = (epsilon - t)/2. (1 + c)/2 is Beta((d - 1)/2, (d - 1)/2).
    """
    r0 = (epsilon - t) / 2
    if d == 1:
        below = np.asarray(np.exp(-r0) / 2)
        return below, 1 - below
    step = min(_STEP, 0.6 / math.sqrt(d))
    high = math.log1p(_NATS / d + math.sqrt(2 * _NATS / d)) + step
    # Less than 10^-17 lies below exp(low): of the law of r near r0 <= epsilon, and of the integrand near 0.
    peak = min(epsilon, d - 1.0)
    low = min(-(1 + _NATS / d), max(-40.0, -39.0 - math.log(d) - (d - 1) * math.log(peak) + peak + math.lgamma(d)))
    x = d * np.exp(np.arange(low, high, step))[None, :]
    r = r0[:, None] + x
    density = np.exp((d - 1) * np.log(r) - r - gammaln(d)) * x * step
    k = ((epsilon**2 - t[:, None] ** 2) / (2 * r) - t[:, None]) / epsilon
    half = (d - 1) / 2
    below, beyond = (
        np.asarray((density * betainc(half, half, np.clip((1 + sign * k) / 2, 0, 1))).sum(axis=1)) for sign in (-1, 1)
    )
    return below, beyond + gammainc(d, r0)


@lru_cache(maxsize=32)
def loss_distribution(epsilon: float, d: int) -> tuple[float, _Array]:
    """Return (h, p): the loss of one round is j h with probability p[j + m], j = -m .. m, h = epsilon/m.

    A loss between two multiples of h is split between both of them, such that its probability stays the same under
    either neighbour. The original outcome can be computed from the split one, so the mechanism of p reveals no less.

    Parameters
    ----------
    epsilon : float
        beta times the longest shift, greater than 0.
    d : int
        Coordinates.

    References
    ----------
    Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the dots: tighter discrete approximations of privacy
    loss distributions".
    """
    m = min(_FINEST, max(200, math.ceil(130 * math.sqrt(d))))
    h = epsilon / m
    t = h * np.arange(-m, m + 1, dtype=np.float64)
    below, beyond = _tails(t[1:-1], epsilon, d)
    # Each tail is summed from its own end: differences of numbers near 1 would lose all digits.
    mass = np.concatenate((np.diff(below[:m], prepend=0.0), -np.diff(beyond[m - 1 :], append=0.0)))
    ends = 0.0
    if d == 1:  # half of all outcomes have the highest loss; half of the neighbour's have the lowest
        ends, mass[0], mass[-1] = 0.5, mass[0] - math.exp(-epsilon) / 2, mass[-1] - 0.5
    mass = np.maximum(mass, 0.0)
    other = mass[::-1]  # the neighbour's law, whose losses are mirrored
    lower = t[:-1]
    upwards = np.clip((mass - np.exp(lower) * other) / -np.expm1(-h), 0.0, mass)
    p = np.zeros(2 * m + 1)
    p[1:] += upwards
    p[:-1] += mass - upwards
    p[-1] += ends
    p[0] += ends * math.exp(-epsilon)
    return h, p


def composed_epsilon(epsilon: float, rounds: int, d: int, delta: float) -> float:
    """Return an epsilon that all rounds together keep at ``delta``: at most ``rounds`` times ``epsilon``.

    Parameters
    ----------
    epsilon : float
        The pure epsilon of one round.
    rounds : int
        T.
    d : int
        Coordinates.
    delta : float
        At least 0; with 0 the result is ``rounds`` times ``epsilon``.
    """
    require(epsilon > 0 and rounds >= 1 and d >= 1, "epsilon must be greater than 0, and rounds and d at least 1")
    pure = rounds * epsilon
    if epsilon > _WIDEST or delta <= rounds * _ROUNDING:
        return pure
    return min(pure, _composed(epsilon, rounds, d, delta))


@lru_cache(maxsize=64)
def _composed(epsilon: float, rounds: int, d: int, delta: float) -> float:
    h, p = loss_distribution(epsilon, d)
    m = len(p) // 2
    t = h * np.arange(-m, m + 1, dtype=np.float64)
    mean = float(p @ t)
    spread = math.sqrt(max(float(p @ (t - mean) ** 2), 0.0) * rounds)
    reach = min(_SPREADS * spread + 4 * epsilon, 2 * rounds * epsilon + 2 * h)
    n = 1 << math.ceil(math.log2(2 * reach / h + 2))
    start = round(rounds * mean / h) - n // 2
    if start <= -rounds * m and start + n > rounds * m:
        beyond = 0.0  # no sum of losses lies outside
    else:
        reached = n // 2 * h - h
        beyond = _tail(p, t - mean, rounds, reached, 1) + _tail(p, t - mean, rounds, reached, -1)
    left = delta - rounds * _ROUNDING - 2 * beyond
    if left <= 0:
        return math.inf
    ring = np.zeros(n)
    np.add.at(ring, np.arange(-m, m + 1) % n, p)
    total = np.fft.irfft(np.fft.rfft(ring) ** rounds, n)
    total = np.maximum(np.roll(total, -start % n), 0.0)
    losses = h * (start + np.arange(n))
    losses, total = losses[losses > 0], total[losses > 0]
    # For a loss l, delta(l) = above - below: the sums over losses l' >= l of p(l') and of p(l') exp(l - l').
    above = np.cumsum(total[::-1])[::-1]
    below = _faded_sums(total[::-1], h)[::-1]
    met = np.flatnonzero(above - below <= left)
    if not len(met) or above[0] <= left:
        return 0.0 if len(met) or not len(losses) else math.inf
    # Between this loss and the one before it, delta is linear in exp(epsilon).
    i = int(met[0])
    return float(losses[i]) + max(math.log((above[i] - left) / below[i]), -h)


def _tail(p: _Array, t: _Array, rounds: int, reach: float, sign: int) -> float:
    """Bound the chance that the sum of losses lies ``reach`` or more beyond its mean on one side, after Chernoff."""
    spread = math.sqrt(rounds * float(p @ t**2))
    rates = (k / spread for k in range(1, math.ceil(_SPREADS) + 1))
    found = (
        rounds * math.log(float(p @ np.exp(sign * rate * t))) - rate * reach
        for rate in rates
        if rate * float(np.max(np.abs(t))) < 500  # noqa: PLR2004  exp would overflow
    )
    return math.exp(min(found, default=0.0))


def _faded_sums(x: NDArray[np.float64], h: float) -> NDArray[np.float64]:
    """Return the sums over j <= i of x_j exp(-h (i - j)), for every i.

    After k passes each sum has its last 2^k terms. All are positive, so the relative error is a few roundings a pass.
    """
    y, reach = x.copy(), 1
    while reach < len(y) and (fade := math.exp(-h * reach)) > 0:
        y[reach:] += fade * y[:-reach]
        reach *= 2
    return y

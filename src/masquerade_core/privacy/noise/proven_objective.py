"""Gaussian objective perturbation: how much noise a proof needs, and what is provable; ``docs/privacy/gop.md``.

Rajkumar and Agarwal's sigma* bounds eta by its norm in all d coordinates. But a record, replaced, moves the gradient
within the plane of two vectors that are known beforehand; and where phi' has one sign, the worst two records lie
opposite each other, so that one number in R decides: N(0, 1) against N(2/sigma, 1). The noise that follows from that
does not depend on d.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from scipy.integrate import quad

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.privacy.accounting.gaussian_dp import mu_of
from masquerade_core.privacy.noise.objective_perturbation import SLACK_BITS
from masquerade_core.privacy.samplers.rounded_gaussian import GAUSSIAN_TV_BITS

__all__ = ["Perturbation", "gop_sigma", "perturbation", "plane_delta"]

_SLACK_PART = 0.3
"""Of epsilon: more than that is not spent on determinants; curvature is bought instead."""

_OUTPUT_PART = 1 / 64
"""Of epsilon and of delta: what the noise on the minimiser costs."""

_UP = 1 + 1e-7  # floats' error, that of mu for tiny wishes included, towards more noise
_GRID = 1 << SLACK_BITS


def plane_delta(epsilon: float, sigma: float) -> float:
    """Return the delta of GOP at eps~, from a bound over all v with |v| <= 2 in a plane known beforehand.

    With R = |projection of eta|/sigma, of density r exp(-r^2/2): the loss is at most 2 R/sigma + 2/sigma^2, so

        delta(eps~) = integral from t to infinity of r exp(-r^2/2) (1 - exp(eps~ - 2/sigma^2 - 2 r/sigma)) dr,

    t = max(0, (eps~ - 2/sigma^2) sigma/2). It does not depend on d, and needs no sign of phi'.
    """
    start = max(0.0, (epsilon - 2 / sigma**2) * sigma / 2)
    value, _ = quad(
        lambda r: r * math.exp(-r * r / 2) * -math.expm1(epsilon - 2 / sigma**2 - 2 * r / sigma), start, start + 40
    )
    return float(value)


def gop_sigma(epsilon: float, delta: float) -> float:
    """Return a sigma for which eta ~ N(0, sigma^2 I) keeps eps~: max(2/mu(eps~, delta), 1/sqrt(eps~)), rounded up.

    For losses with -1 <= phi' <= 0. sigma^2 eps~ >= 1 is what the proof that opposite records are the worst asks for.

    Parameters
    ----------
    epsilon : float
        eps~ > 0: what is left of epsilon when the determinants are paid for.
    delta : float
        Between 0 and 1, ends excluded.
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise LocalProtocolError("noise was asked for a wish that should have been refused")
    return max(2 / mu_of(epsilon, delta), 1 / math.sqrt(epsilon)) * _UP


@dataclass(frozen=True)
class Perturbation:
    """What GOP draws with, ``calibration = "proven"``.

    Parameters
    ----------
    Delta : Fraction
        Extra curvature, a multiple of 2^-40.
    sigma : Fraction
        Standard deviation of eta's coordinates.
    output : Fraction
        Standard deviation of the noise on the minimiser's coordinates.
    """

    Delta: Fraction
    sigma: Fraction
    output: Fraction


def perturbation(
    *, epsilon: float, delta: float, Lambda: float, N: int, c: float, d: int, tolerance: float, grid: float
) -> Perturbation:
    """Return the noise for a wish.

    Of epsilon and delta, 1/64 each pays for noise on the released minimiser: it hides that the minimiser is inexact,
    that eta lies on a grid, and that weights are rounded. Of what remains, s = log(1 + c/(N (Lambda + Delta))) pays for
    the determinants, once (the paper pays twice), and eps~ for eta.

    Parameters
    ----------
    epsilon, delta : float
        The wish.
    Lambda, c : float
        Of the regularizer; bound on phi''.
    N, d : int
        Records; coordinates.
    tolerance : float
        Bound on the gradient's norm at what is released.
    grid : float
        The step of eta's grid, and of the weights'.

    Raises
    ------
    BadInput
        delta is 0, or less than the samplers' distance from their laws.
    """
    left = delta - 2 * math.exp(min(epsilon, 700)) * 2.0 ** (1 - GAUSSIAN_TV_BITS)
    if not left > 0:
        raise BadInput(
            f"[privacy] delta is {delta:g}, but no Gaussian noise keeps epsilon = {epsilon:g} with so much certainty",
            "set delta to more than 0, and to less than one over the number of records",
        )
    whole, left = epsilon * (1 - _OUTPUT_PART), left * (1 - 2.0**-40)
    most = _SLACK_PART * whole
    bought = max(0.0, c / (N * math.expm1(most)) - Lambda)
    Delta = Fraction(math.ceil(bought * _UP * _GRID), _GRID)
    curvature = Lambda + float(Delta)
    rest = whole - math.log1p(c / (N * curvature)) * _UP
    sigma = gop_sigma(rest, left * (1 - _OUTPUT_PART))
    # A gradient of norm gamma, and what floats hide of it, or an eta that is off by half a step a coordinate: the
    # minimiser moves by no more.
    root = math.sqrt(d)
    off = (1.25 * tolerance + root * grid / (2 * N)) / curvature + root * grid / 2
    output = 2 * off / mu_of(epsilon * _OUTPUT_PART, left * _OUTPUT_PART) * _UP
    return Perturbation(Delta, Fraction(sigma), Fraction(output))

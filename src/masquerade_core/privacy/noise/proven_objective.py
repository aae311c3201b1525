"""Objective perturbation with Gaussian noise that a proof sizes; ``docs/privacy/gop.md`` derives it.

Rajkumar and Agarwal's sigma* bounds eta by its norm in all d coordinates. But replacing a record moves the gradient
within one plane, that of two vectors which are known beforehand. Where phi' has one sign, the worst two records lie
opposite each other. The proof then comes down to one real number: N(0, 1) against N(2/sigma, 1). So the noise here does
not depend on d.

:func:`perturbation` also adds a little noise to the minimiser, since a computed minimiser is not the exact one of which
the proof speaks.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.noise.gaussian_rounds import check_delta, used_up
from masquerade_core.privacy.noise.objective_perturbation import SLACK_BITS
from masquerade_core.privacy.samplers.rounded_gaussian import GAUSSIAN_TV_BITS

__all__ = ["Perturbation", "gop_sigma", "perturbation", "plane_delta"]

_SLACK_PART = 0.3
"""The largest part of epsilon that determinants may cost; beyond it, curvature is added instead."""

_OUTPUT_PART = 1 / 64
"""The part of epsilon and of delta that the noise on the minimiser costs."""

_UP = 1 + 1e-7  # more than floats are off by, mu for tiny targets included; it only adds noise
_GRID = 1 << SLACK_BITS


def plane_delta(epsilon: float, sigma: float) -> float:
    """Return the delta of objective perturbation at eps~, from a bound over all v with |v| <= 2 in a known plane.

    R = |projection of eta to the plane|/sigma has the density r exp(-r^2/2). The privacy loss is at most 2 R/sigma +
    2/sigma^2, so

        delta(eps~) = integral from t to infinity of r exp(-r^2/2) (1 - exp(eps~ - 2/sigma^2 - 2 r/sigma)) dr,

    with t = max(0, (eps~ - 2/sigma^2) sigma/2). It does not depend on d, and holds for either sign of phi'.
    """
    from scipy.integrate import quad

    start = max(0.0, (epsilon - 2 / sigma**2) * sigma / 2)
    value, _ = quad(
        lambda r: r * math.exp(-r * r / 2) * -math.expm1(epsilon - 2 / sigma**2 - 2 * r / sigma), start, start + 40
    )
    return float(value)


def gop_sigma(epsilon: float, delta: float) -> float:
    """Return a sigma for which eta ~ N(0, sigma^2 I) keeps eps~: max(2/mu(eps~, delta), 1/sqrt(eps~)), rounded up.

    It holds for losses with -1 <= phi' <= 0. The proof that opposite records are the worst needs sigma^2 eps~ >= 1.

    Parameters
    ----------
    epsilon : float
        eps~ > 0, which is left of epsilon once the determinants are paid for.
    delta : float
        Between 0 and 1, ends excluded.
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise LocalProtocolError("noise was asked for a privacy target that should have been refused")
    return max(2 / mu_of(epsilon, delta), 1 / math.sqrt(epsilon)) * _UP


@dataclass(frozen=True)
class Perturbation:
    """The noise of one run: in the objective, and on its minimiser.

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
    """Return the noise that keeps a privacy target.

    1/64 of epsilon and of delta pays for noise on the released minimiser. That noise hides that the minimiser is
    inexact, that eta lies on a grid, and that weights are rounded. From the rest of epsilon, s = log(1 + c/(N (Lambda +
    Delta))) pays for the determinants, once where the paper pays twice, and eps~ is left for eta.

    Parameters
    ----------
    epsilon, delta : float
        The privacy target.
    Lambda, c : float
        Of (Lambda/2) ||w||^2; bound on phi''.
    N, d : int
        Records; coordinates.
    tolerance : float
        Bound on the gradient's norm at the computed minimiser.
    grid : float
        The step of eta's grid, and of the weights'.

    Raises
    ------
    BadInput
        delta is not between 0 and 1, or is less than the samplers' distance from their laws.
    """
    check_delta(delta)
    lost = 2 * math.exp(min(epsilon, 700)) * 2.0 ** (1 - GAUSSIAN_TV_BITS)
    left = delta - lost
    if not left > 0:
        raise used_up(epsilon, delta, min(lost, 1.0))
    whole, left = epsilon * (1 - _OUTPUT_PART), left * (1 - 2.0**-40)
    most = _SLACK_PART * whole
    bought = max(0.0, c / (N * math.expm1(most)) - Lambda)
    Delta = Fraction(math.ceil(bought * _UP * _GRID), _GRID)
    curvature = Lambda + float(Delta)
    rest = whole - math.log1p(c / (N * curvature)) * _UP
    sigma = gop_sigma(rest, left * (1 - _OUTPUT_PART))
    # How far the computed minimiser may lie from the exact one: its gradient is not quite 0, floats hide some of that,
    # and each coordinate of eta is off by half a step of the grid.
    root = math.sqrt(d)
    off = (1.25 * tolerance + root * grid / (2 * N)) / curvature + root * grid / 2
    output = 2 * off / mu_of(epsilon * _OUTPUT_PART, left * _OUTPUT_PART) * _UP
    return Perturbation(Delta, Fraction(sigma), Fraction(output))

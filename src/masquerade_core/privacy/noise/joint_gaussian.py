"""The noise of ``local-aggregation`` that a proof needs, drawn by all parties; ``docs/privacy/local-aggregation.md``.

What is opened is q + x: q = sum_j W_j (or sum_j n_j W_j) on the grid of 2^-F, x the parties' noise. Replacing one
record of P_j moves q by at most Delta (:meth:`JointNoise.sensitivity`), and any h parties' shares of x hide as well as
a continuous normal of standard deviation Delta/mu, (epsilon, delta) -> mu by Balle and Wang's curve. Three laws:

* "floor": every n_j is taken to be the public ``min_records``; one discrete Gaussian share from each party.
* "sizes": classifiers count n_j times, so that no size is left in Delta; the same shares. n is opened.
* "selected": Delta is that of the smallest party, whose scale b stays encrypted: x = b sum_j g_j + sum_j f_j, where
  g_j is unit noise and f_j a finer one, without which x would lie on the lattice b Z.

Slots must be the same at every participant, so bounds come from fractions and correctly rounded arithmetic alone. The
slope s, which is computed in floats, enters only what a party draws with.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy._roots import root_up
from masquerade_core.privacy.accounting.closeness import LEAST_SHARE_SIGMA
from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of
from masquerade_core.privacy.noise.gaussian_rounds import LOST_BITS, rounds_sigma
from masquerade_core.privacy.noise.output_perturbation import refined_l2_sensitivity
from masquerade_core.privacy.noise.shares import gaussian_share_sigma
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound
from masquerade_core.study import as_fraction

__all__ = ["FINE", "MOST_COUNTED_RECORDS", "UNIT", "JointNoise"]

UNIT = 1 << 20
"""sigma of a party's unit noise g_j. So large, b is fine: rounding b up costs less than 2^-20 of the noise's range."""

FINE = 5
"""sigma of a party's fine noise f_j in units of the largest scale b that there may be."""

MOST_COUNTED_RECORDS = 1_000_000
"""Inexact minimisers are counted for at most this many records of a party that counts by its size."""

_ROOT_BITS = 32
_LARGEST_SIGMA = 1 << 180  # grid units; tail bounds are worked out up to 2^200
_ROUNDED = 1 + 1e-12  # floats of a statement, upwards


@dataclass(frozen=True)
class JointNoise:
    """The noise of one study, from public numbers alone.

    Parameters
    ----------
    scale_rule : str
        "selected", "floor" or "sizes".
    K, d : int
        Parties; coordinates.
    honest : int
        h: any so many shares are enough for the wish.
    epsilon, delta : float
        The wish.
    Lambda : float
        Strong convexity, twice the paper's lambda.
    min_records : int
        The public floor of n_j.
    fraction_bits : int
        F of the grid 2^-F.
    """

    scale_rule: str
    K: int
    d: int
    honest: int
    epsilon: float
    delta: float
    Lambda: float
    min_records: int
    fraction_bits: int

    # --- How far a record moves the sum -------------------------------------------

    def sensitivity(self, n: int, *, generic: bool = False) -> Fraction:
        """Return Delta in grid units, L2 norm, for a record of a party with n records; for "sizes", of any party.

        2 s/(n Lambda), s = sigma(R) <= 1 (:func:`~masquerade_core.privacy.noise.output_perturbation.refined_l2_sensitivity`) or 1 if
        ``generic``; 2 gamma/Lambda more, as both minimisers are exact up to a gradient norm of gamma; and sqrt(d) grid
        units, as each vector is rounded. A classifier that counts n times moves n times as far, so n cancels but in
        gamma's term, which is counted at ``MOST_COUNTED_RECORDS``.
        """
        if n < 1 or self.Lambda <= 0:
            raise LocalProtocolError("a sensitivity was asked for with no records or no regularization")
        Lambda = as_fraction(self.Lambda)
        weight, n = (MOST_COUNTED_RECORDS, MOST_COUNTED_RECORDS) if self.scale_rule == "sizes" else (1, n)
        moved = 2 / (n * Lambda)
        if not generic:
            moved = min(moved, Fraction(refined_l2_sensitivity(n, self.Lambda) * _ROUNDED))
        exact = weight * (moved + 2 * Fraction(TOLERANCE) / Lambda)
        return exact * (1 << self.fraction_bits) + root_up(Fraction(self.d), _ROOT_BITS)

    def sigma(self, n: int, *, generic: bool = False) -> Fraction:
        """Return Delta/mu in grid units: what any h shares must be worth.

        Raises
        ------
        BadInput
            There is no Gaussian noise for this wish.
        """
        return rounds_sigma(self.sensitivity(n, generic=generic), 1, self.epsilon, self.delta)

    # --- What a party draws with ----------------------------------------------------

    def share(self, *, generic: bool = False) -> Fraction:
        """Return sigma of a party's share, in grid units: "floor" and "sizes"."""
        return gaussian_share_sigma(self.sigma(self.min_records, generic=generic), self.honest)

    def scale(self, n: int, *, generic: bool = False) -> int:
        """Return b, the least integer with which b ``UNIT`` is a share for n records: "selected"."""
        return math.ceil(gaussian_share_sigma(self.sigma(n, generic=generic), self.honest) / UNIT)

    @cached_property
    def largest_scale(self) -> int:
        """The largest b that any party may have."""
        return self.scale(self.min_records, generic=True)

    @property
    def fine(self) -> Fraction:
        """Return sigma of a party's fine noise, in grid units."""
        return Fraction(FINE * self.largest_scale)

    # --- Public bounds ------------------------------------------------------------------

    def reach(self, sigma: Fraction) -> int:
        """Bound a party's d draws of this sigma, but for a chance of 2^-``LOST_BITS``/(4K), which delta pays for."""
        return discrete_gaussian_tail_bound(sigma, self.d, LOST_BITS + 2 + self.K.bit_length())

    @cached_property
    def largest(self) -> int:
        """Bound, in grid units, a coordinate of all parties' noise together.

        Raises
        ------
        BadInput
            There is no noise for the wish, or it is beyond all use.
        """
        if self.share(generic=True) > _LARGEST_SIGMA:
            raise BadInput(
                "the noise that this study asks for is beyond all use: 10^42 and more on a weight",
                "choose a larger epsilon, delta, regularization or min_records",
            )
        if self.scale_rule == "selected":
            return self.K * (self.largest_scale * self.reach(Fraction(UNIT)) + self.reach(self.fine))
        return self.K * self.reach(self.share(generic=True))

    # --- What it is worth -----------------------------------------------------------------

    def mu(self, shares: int) -> float:
        """Return mu of the release for whoever does not know ``shares`` >= 1 of the parties' noise, whatever n_(1) is.

        Delta/sqrt(m s^2 - 9) for shares of sigma s. For "selected", m shares have the variance m b^2 UNIT^2 + m fine^2,
        of which the second term exceeds 9 and the first is at least (m/h) sigma^2: so mu_h sqrt(h/m), mu_h being that
        of the wish, bounds mu for every n_(1).
        """
        if shares < 1:
            raise LocalProtocolError("the privacy of no noise was asked for")
        if self.scale_rule == "selected":
            large = Fraction(1 << 64)
            at_h = float(large / rounds_sigma(large, 1, self.epsilon, self.delta))
            return at_h * math.sqrt(self.honest / shares) * _ROUNDED
        variance = shares * self.share() ** 2 - LEAST_SHARE_SIGMA**2
        return math.sqrt(self.sensitivity(self.min_records) ** 2 / variance) * _ROUNDED

    def proved(self, shares: int) -> tuple[float, float] | None:
        """Return (epsilon, delta) for whoever does not know ``shares`` of the parties' noise; None where none holds."""
        if shares < 1:
            return None
        paid = 2.0**-LOST_BITS
        left = self.delta - paid * (1 + _exp(self.epsilon))
        found = epsilon_of(self.mu(shares), math.nextafter(left, 0))
        if shares >= self.honest:  # by construction, whatever the last bit of a float is
            return min(found, self.epsilon), self.delta
        delta = left + paid * (1 + _exp(found))
        return (found, delta * _ROUNDED) if delta < 1 else None


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700)) * _ROUNDED

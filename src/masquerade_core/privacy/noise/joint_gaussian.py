"""The noise with which averaged classifiers are proved private, where all parties draw it together in shares.

K parties open q + x. Here q = sum_j W_j (or sum_j n_j W_j) is the sum of their classifiers on the grid of 2^-F, and x
is the sum of their noise. Replacing one record of a party moves q by at most Delta (:meth:`JointNoise.sensitivity`).
Any h parties' shares of x hide as well as a continuous normal of standard deviation Delta/mu. Balle and Wang's curve
gives mu for the privacy target (epsilon, delta). Three *scale rules* say whose Delta sets the scale of the noise:

* "floor": every party is taken to have the public ``min_records``. Each party draws one discrete Gaussian share.
* "sizes": classifiers count n_j times, so that Delta depends on no size. Each party draws the same kind of share, and
  n, the number of all records, is opened.
* "selected": sizes fall into public *size classes*, four for each doubling from ``min_records``. The smallest party's
  class k is announced, and everybody draws as with "floor" for N_k, the least size in that class.

``docs/privacy/local-aggregation.md`` has the proof. Slots must be the same at every participant, so bounds come from
fractions and correctly rounded arithmetic alone. The slope s is computed in floats, and only decides how much noise a
party draws.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import isqrt

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.accounting import LEAST_SHARE_SIGMA, epsilon_of
from masquerade_core.privacy.noise.gaussian_rounds import LOST_BITS, gaussian_share_sigma, rounds_sigma
from masquerade_core.privacy.noise.output_perturbation import refined_l2_sensitivity
from masquerade_core.privacy.numbers import as_fraction, root_up
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian_tail_bound

__all__ = ["MOST_COUNTED_RECORDS", "SIZE_CLASSES", "JointNoise"]

SIZE_CLASSES = 128
"""How many size classes there are: the last one begins at 2^31.75 times ``min_records``."""

MOST_COUNTED_RECORDS = 1_000_000
"""With "sizes", inexact minimisers are counted for a party of at most this many records."""

_CLASSES_A_DOUBLING = 4
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
        h: any h of the K shares meet the privacy target.
    epsilon, delta : float
        The privacy target.
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

        It has three parts. The first is 2 s/(n Lambda), with s = sigma(R) <= 1 as in
        :func:`~masquerade_core.privacy.noise.output_perturbation.refined_l2_sensitivity`, or s = 1 if ``generic``. The
        second is 2 gamma/Lambda, since both minimisers are exact up to a gradient norm of gamma. The third is sqrt(d)
        grid units, since each vector is rounded. A classifier that counts n times moves n times as far. There n cancels
        in the first part, and the second is counted for ``MOST_COUNTED_RECORDS``.
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
        """Return Delta/mu in grid units: the standard deviation that any h shares must be worth.

        Raises
        ------
        BadInput
            No Gaussian noise meets this privacy target.
        """
        return rounds_sigma(self.sensitivity(n, generic=generic), 1, self.epsilon, self.delta)

    # --- What a party draws with ----------------------------------------------------

    def share(self, *, generic: bool = False) -> Fraction:
        """Return sigma of a party's share, in grid units; for "selected", in class 0, where it is largest."""
        return gaussian_share_sigma(self.sigma(self.min_records, generic=generic), self.honest)

    # --- Size classes, for "selected" -------------------------------------------------

    def class_begins(self, k: int) -> int:
        """Return N_k, the least size in class k: min_records 2^(k/4), rounded down."""
        return isqrt(isqrt(self.min_records**_CLASSES_A_DOUBLING << k))

    def class_of(self, n: int) -> int:
        """Return the last class that begins at n records or fewer; n is at least ``min_records``."""
        return max(k for k in range(SIZE_CLASSES) if self.class_begins(k) <= n)

    def of_class(self, k: int) -> "JointNoise":
        """Return the noise that everybody draws once class k is announced: that of "floor" for N_k records."""
        return replace(self, scale_rule="floor", min_records=self.class_begins(k))

    # --- Public bounds ------------------------------------------------------------------

    def reach(self, sigma: Fraction) -> int:
        """Bound a party's d draws of this sigma, except with a chance of 2^-``LOST_BITS``/(4K). Delta pays for it."""
        return discrete_gaussian_tail_bound(sigma, self.d, LOST_BITS + 2 + self.K.bit_length())

    @cached_property
    def largest(self) -> int:
        """Bound, in grid units, a coordinate of all parties' noise together.

        Raises
        ------
        BadInput
            No noise meets the privacy target, or the noise is beyond all use.
        """
        if self.share(generic=True) > _LARGEST_SIGMA:
            raise BadInput(
                "the noise that this study needs makes its model useless: it moves a weight by 10^42 or more",
                "choose a larger epsilon, delta, regularization or min_records",
            )
        return self.K * self.reach(self.share(generic=True))

    # --- What it is worth -----------------------------------------------------------------

    def mu(self, shares: int) -> float:
        """Return mu of the release against somebody who does not know ``shares`` >= 1 of the parties' shares of noise.

        For m such shares of sigma s it is Delta/sqrt(m s^2 - 9). With "selected" it is the largest of all classes.
        """
        if shares < 1:
            raise LocalProtocolError(
                "a privacy bound needs at least one share of noise that the adversary does not know"
            )
        if self.scale_rule == "selected":
            return _largest_mu(self, shares)
        variance = shares * self.share() ** 2 - LEAST_SHARE_SIGMA**2
        return math.sqrt(self.sensitivity(self.min_records) ** 2 / variance) * _ROUNDED

    def proved(self, shares: int, size: int = 1) -> tuple[float, float] | None:
        """Return (epsilon, delta) against somebody who lacks ``shares`` of the shares; None where nothing is proved.

        If ``size`` records are replaced together, mu is ``size`` times as large.
        """
        if shares < 1:
            return None
        paid = 2.0**-LOST_BITS
        left = self.delta - paid * (1 + _exp(self.epsilon))
        mu = size * self.mu(shares)
        found = epsilon_of(mu, math.nextafter(left, 0))
        if shares >= self.honest and size == 1:  # holds by construction, whatever the last bit of a float is
            return min(found, self.epsilon), self.delta
        more = self.delta - paid * (
            2 + _exp(found + 1)
        )  # where epsilon grows by less than 1, the target's delta is kept
        if more > self.delta / 2 and (larger := epsilon_of(mu, more)) <= found + 1:
            return larger, self.delta
        delta = left + paid * (1 + _exp(found))
        return (found, delta * _ROUNDED) if delta < 1 else None


@lru_cache(maxsize=256)  # a statement asks for it in many rows, and there are many classes
def _largest_mu(noise: JointNoise, shares: int) -> float:
    return max(noise.of_class(k).mu(shares) for k in range(SIZE_CLASSES))


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700)) * _ROUNDED

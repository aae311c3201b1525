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
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.calibration import refined_l2_sensitivity
from masquerade_core.privacy.claims import LARGEST_SMALLEST, NONE, PARTY_UNIT, Claim, digits
from masquerade_core.privacy.discrete import (
    LEAST_SHARE_SIGMA,
    closeness_of_sum,
    discrete_gaussian_tail_bound,
    gaussian_share_sigma,
)
from masquerade_core.privacy.dp_gd_claims import LOST_BITS, noise_sigma
from masquerade_core.privacy.gaussian_dp import epsilon_of
from masquerade_core.study import as_fraction

__all__ = ["FINE", "MOST_RECORDS", "UNIT", "JointNoise", "closeness", "local_proven_statement"]

UNIT = 1 << 20
"""sigma of a party's unit noise g_j. So large, b is fine: rounding b up costs less than 2^-20 of the noise's range."""

FINE = 5
"""sigma of a party's fine noise f_j in units of the largest scale b that there may be."""

MOST_RECORDS = LARGEST_SMALLEST
"""Inexact minimisers are counted for at most this many records of a party that counts by its size."""

_ROOT_BITS = 32
_LARGEST_SIGMA = 1 << 180  # grid units; tail bounds are worked out up to 2^200
_ROUNDED = 1 + 1e-12  # floats of a statement, upwards
_NEIGHBOURS = "replace one record, all sizes fixed"
_PREPROCESSING = (
    "records are encoded by public bounds and clipped to norm 1; no other preprocessing, bound, epsilon or "
    "regularization was chosen by looking at them"
)


@dataclass(frozen=True)
class JointNoise:
    """The noise of one study, from public numbers alone.

    Parameters
    ----------
    law : str
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

    law: str
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

        2 s/(n Lambda), s = sigma(R) <= 1 (:func:`~masquerade_core.privacy.calibration.refined_l2_sensitivity`) or 1 if
        ``generic``; 2 gamma/Lambda more, as both minimisers are exact up to a gradient norm of gamma; and sqrt(d) grid
        units, as each vector is rounded. A classifier that counts n times moves n times as far, so n cancels but in
        gamma's term, which is counted at ``MOST_RECORDS``.
        """
        if n < 1 or self.Lambda <= 0:
            raise LocalProtocolError("a sensitivity was asked for with no records or no regularization")
        Lambda = as_fraction(self.Lambda)
        weight, n = (MOST_RECORDS, MOST_RECORDS) if self.law == "sizes" else (1, n)
        moved = 2 / (n * Lambda)
        if not generic:
            moved = min(moved, Fraction(refined_l2_sensitivity(n, self.Lambda) * _ROUNDED))
        exact = weight * (moved + 2 * Fraction(TOLERANCE) / Lambda)
        return exact * (1 << self.fraction_bits) + _root(Fraction(self.d))

    def sigma(self, n: int, *, generic: bool = False) -> Fraction:
        """Return Delta/mu in grid units: what any h shares must be worth.

        Raises
        ------
        BadInput
            There is no Gaussian noise for this wish.
        """
        return noise_sigma(self.sensitivity(n, generic=generic), 1, self.epsilon, self.delta)

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
        if self.law == "selected":
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
        if self.law == "selected":
            large = Fraction(1 << 64)
            at_h = float(large / noise_sigma(large, 1, self.epsilon, self.delta))
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


def _root(square: Fraction) -> Fraction:
    """Return the square root, rounded up."""
    return Fraction(math.isqrt(math.ceil(square * 4**_ROOT_BITS) - 1) + 1, 2**_ROOT_BITS)


def closeness(shares: int, d: int, unit: Fraction, fine: Fraction, b: int) -> float:
    """Return tau: how far b G + F is from a rounded normal of variance m (b^2 unit^2 + fine^2) - 9, in total variation.

    G and F are sums of m = ``shares`` draws of sigma ``unit`` and ``fine`` in d coordinates. A guarantee of the normal
    holds with (1 + exp(epsilon)) tau more in delta. With ``UNIT`` and ``FINE`` tau is below 10^-70 d m.

    Notes
    -----
    But for factors within exp(+-tau) of :func:`~masquerade_core.privacy.discrete.closeness_of_sum`, G and F are
    discrete Gaussians of variances A^2 = m unit^2 and C^2 = m fine^2. Completing the square, P(b G + F = v) is
    proportional to exp(-v^2/(2 (b^2 A^2 + C^2))) theta(c, v c^2 b/C^2), 1/c^2 = 1/A^2 + b^2/C^2, and by Poisson's
    formula theta is constant but for a factor of 1 +- 2.1 exp(-2 pi^2 c^2): so that of the discrete Gaussian of this
    variance, within exp(+-10 exp(-2 pi^2 c^2)), the normalisation included. Rounding a normal is as there.
    """
    c2 = shares / (1 / float(unit) ** 2 + (b / float(fine)) ** 2)
    if c2 < 1:
        raise LocalProtocolError("fine noise that is no finer than the scale: the lattice shows")
    smoothing = 10 * d * math.exp(-2 * math.pi**2 * c2) * _ROUNDED
    sums = closeness_of_sum(unit, shares, d) + closeness_of_sum(fine, shares, d)
    return max(sums + smoothing, sys.float_info.min)


# --- The statement ----------------------------------------------------------------


def local_proven_statement(noise: JointNoise) -> tuple[Claim, ...]:
    """Return the statement for ``local-aggregation`` with ``calibration = "proven"``."""
    K, h = noise.K, noise.honest
    t = max(1, K - h)
    rows = _Rows(noise)
    selected = noise.law == "selected"
    masked = "a bracket of unnamed sizes whose law is the same for all sizes, blinded noise, " if selected else ""
    opened = " The lead opens blinded numbers." if selected else " The lead does what all do; it holds no key."
    scale = (
        " With Charlie's key they read b, and so about n_(1), and of some pairs of parties which is larger." * selected
    )
    result = [
        rows.row(
            "released model",
            K,
            f"The noise of all {K} parties is on the sum; nobody knows the whole of it." + rows.about_delta,
            "the published shares are masked with keys that no outsider can compute",
        ),
        rows.row(
            "Charlie",
            K,
            f"Charlie sees {masked}shares that are uniform one by one, and the sum. He knows no party's noise.",
            "Charlie colludes with nobody, and cannot break the boxes" + (" or the lead's key" if selected else ""),
        ),
        rows.row(
            "one party, the smallest included",
            K - 1,
            "A party knows its own share of the noise and takes it off; the others' stands, also where it is the "
            "smallest." + (" b reaches it under Charlie's key, which it cannot open." if selected else ""),
            "the party colludes with nobody",
        ),
        rows.row("the lead", K - 1, "As any other party." + opened, "the lead colludes with nobody"),
        rows.row(
            f"Charlie with {t} {'party' if t == 1 else 'parties'}",
            K - t,
            f"They take their own noise off; that of the other {K - t} stands. Of the other classifiers they see "
            "the sum." + scale,
            "the other parties are honest",
        ),
    ]
    if selected:
        result.append(
            rows.row(
                "Charlie with the lead",
                K - 1,
                "Together they hold both keys and read every party's number of records. Of the noise they lack all but "
                "the lead's share.",
                "the other parties are honest",
            )
        )
    if t < K - 1:
        result.append(
            rows.row(
                "Charlie with all parties but one",
                1,
                "What is left is one party's classifier with that party's own noise." + scale,
                "the party that holds the record is honest",
            )
        )
    return (*result, _rule_breakers(noise), PARTY_UNIT)


def _rule_breakers(noise: JointNoise) -> Claim:
    if noise.law == "selected":
        text = (
            "A lead that sends another scale than the selected one, or a participant that tampers with the selection, "
            f"can leave no more than the fine noise, {FINE}/{UNIT:,} of what the fewest records allowed would get, and "
            "is not caught. A party that draws no noise is missed like one more colluding party."
        )
    else:
        text = (
            "A party that draws no noise is missed like one more colluding party. A party that claims other numbers of "
            "records than it has, or another classifier than its minimiser, may move the sum further than is counted."
        )
    return Claim(
        view="Charlie or a party that breaks the rules",
        unit="record",
        neighbours=_NEIGHBOURS,
        definition=NONE,
        claimed="nothing: the paper assumes that all follow the protocol",
        provable=NONE,
        epsilon=None,
        delta=None,
        holds_at="no scale of this noise; it takes a protocol that checks what participants do",
        source="by inspection",
        assumptions=(),
        text=text,
    )


@dataclass(frozen=True)
class _Rows:
    """What the rows of one statement have in common."""

    noise: JointNoise

    @property
    def about_delta(self) -> str:
        """A warning where delta is no small number."""
        records = self.noise.K * self.noise.min_records
        if self.noise.delta * records < 1:
            return ""
        return (
            f" Mind delta = {self.noise.delta:g}: it is not less than 1/{records:,}, one over the fewest records that "
            "there may be, and a protocol that publishes each record with that probability would do as well by it."
        )

    def row(self, view: str, shares: int, text: str, *assumptions: str) -> Claim:
        """Return the row of a view that does not know ``shares`` of the parties' noise."""
        noise = self.noise
        enough, found = shares >= noise.honest, noise.proved(shares)
        wish = f"epsilon = {digits(noise.epsilon)}, delta = {noise.delta:g}"
        t = noise.K - noise.honest
        return Claim(
            view=view,
            unit="record",
            neighbours=_NEIGHBOURS,
            definition=NONE if found is None else "approximate, computational",
            claimed=f"approximate, {wish}: the wish, for {t} colluding {'party' if t == 1 else 'parties'}"
            if enough
            else "nothing: these are more than the study's colluders",
            provable=NONE if found is None else f"epsilon = {digits(found[0])}, delta = {found[1]:g}",
            epsilon=None if found is None else found[0],
            delta=None if found is None else found[1],
            holds_at="this noise" if enough else f"colluders = {noise.K - shares} in the study",
            source="docs/privacy/local-aggregation.md; Balle and Wang 2018, Theorem 8",
            assumptions=(*self._assumptions(), *assumptions),
            text=text,
        )

    def _assumptions(self) -> tuple[str, ...]:
        noise = self.noise
        sizes = {
            "selected": "the numbers of records are not covered by epsilon: masks hide them, but the noise's scale "
            "follows from the smallest one, which everybody can estimate from the model where the noise is not small",
            "floor": "the numbers of records do not show in the noise; epsilon does not cover them otherwise",
            "sizes": "n, the number of all records, is published as it is; with two parties each learns the other's "
            "number. epsilon does not cover sizes",
        }[noise.law]
        counted = f"; every party has at most {MOST_RECORDS:,} records" if noise.law == "sizes" else ""
        return (
            "everybody follows the protocol, and honest parties draw their share of the noise",
            _PREPROCESSING,
            f"each local classifier is the exact minimiser up to a gradient norm of {TOLERANCE:g}, which is counted"
            + counted,
            f"every party has at least {noise.min_records:,} records",
            sizes,
            "the model is released once; every further run over the same records adds its own epsilon",
        )

"""How much Gaussian noise T rounds of noisy sums need for a privacy target, and what is proved of a run.

A round releases q + x. Here q is the sum of all records' clipped vectors, rounded to a grid, and x the sum of the
parties' shares of discrete Gaussian noise. Replacing one record moves q by at most Delta (:func:`sensitivity`). The sum
of h shares is a normal variable that was rounded in a way that commutes with q, up to a total variation distance of
less than 2^-200 (:func:`~masquerade_core.privacy.closeness.closeness_of_sum`). Each of the T rounds may
depend on those before. From all rounds together, two neighbouring data sets are at least as hard to tell apart as one
number drawn from N(0, 1) and one drawn from N(mu, 1), with mu = Delta sqrt(T)/sigma. ``docs/privacy/dp-gd.md`` has the
derivation.

Each party draws its share with the standard deviation of :func:`gaussian_share_sigma`, so that the sum of the honest
parties' shares is enough.

Every participant computes the noise for itself, and the layout of its messages follows from it. So
:func:`rounds_sigma` uses fractions and correctly rounded decimals, and gives the same number on every machine.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache

from masquerade_core.errors import BadInput
from masquerade_core.privacy.accounting import LEAST_SHARE_SIGMA, epsilon_of, mu_of
from masquerade_core.privacy.numbers import (
    as_fraction,
    decimal_of,
    density,
    digits,
    mills_ratio,
    require,
    root_up,
    smallest,
)

__all__ = [
    "LOST_BITS",
    "SharedNoise",
    "charge",
    "check_delta",
    "check_honest",
    "gaussian_share_sigma",
    "lost_delta",
    "rounds_noise",
    "rounds_sigma",
    "sensitivity",
    "used_up",
]


# --- Targets that no noise meets --------------------------------------------------


def check_delta(delta: float | Fraction) -> None:
    """Refuse a study's delta that no Gaussian noise meets.

    Raises
    ------
    BadInput
        It is not greater than 0 and less than 1.
    """
    if not 0 < delta < 1:
        raise BadInput(
            f"[privacy] delta is {float(delta):g}, but Gaussian noise needs a delta greater than 0 and less than 1",
            "set delta to more than 0, and to less than 1 divided by the number of all records",
        )


def used_up(epsilon: float, delta: float, lost: float) -> BadInput:
    """Return the error for a delta that is less than ``lost``, the part that a sampler's small errors use up."""
    return BadInput(
        f"[privacy] delta is {delta:g}, but at epsilon = {epsilon:g} small errors of the noise alone use up a delta of "
        f"{lost:.2g}",
        "choose a larger delta" if epsilon < 1 else "choose a smaller epsilon, or a larger delta",
    )


def check_honest(honest: int) -> None:
    """Refuse a study in which no party is assumed to be honest.

    Raises
    ------
    BadInput
        It has so many colluders that nobody's noise hides anything.
    """
    if honest < 1:
        raise BadInput(
            "no party's noise counts: all are assumed to side with Charlie",
            "set [privacy] colluders to less than the number of parties",
        )


# --- Shares ----------------------------------------------------------------------

_LEAST_USED_SIGMA = 4
_SHARE_BITS = 20  # fraction bits of a share's sigma: rounding up costs less than 2^-20/3 of it


def gaussian_share_sigma(sigma: Fraction, honest: int) -> Fraction:
    """Return the sigma of a share, such that any ``honest`` shares hide as well as one continuous normal of ``sigma``.

    It is sqrt((sigma^2 + 9)/h), rounded up to a multiple of 2^-20, and at least 4. Then tau of ``closeness_of_sum``
    is below 10^-67 for each share and coordinate, which is less than the part of delta that statements reserve for it.

    Parameters
    ----------
    sigma : Fraction
        Standard deviation that the sum must have, in grid units, greater than 0.
    honest : int
        h, how many shares the adversary does not know: at least 1.

    Notes
    -----
    Each of h parties draws from :func:`~masquerade_core.privacy.samplers.discrete_gaussian.discrete_gaussian` with the
    returned sigma, s. Let x be the sum of their draws on each coordinate. The release is q + x, where q is an integer
    vector that differs by at most Delta in L2 norm between neighbours. Let z be continuous and normal, of standard
    deviation sqrt(h s^2 - 9) >= sigma. A guarantee (epsilon, delta) of q + z holds for q + x with
    (1 + exp(epsilon)) tau more in delta, tau =
    :func:`~masquerade_core.privacy.closeness.closeness_of_sum`. So the exact curve of Gaussian noise in
    :mod:`masquerade_core.privacy.accounting` applies, in any number of dimensions. Further shares that the
    adversary does not know only add independent noise.
    """
    require(sigma > 0 and honest >= 1, "sigma must be greater than 0, and at least one share unknown to the adversary")
    least = (sigma**2 + LEAST_SHARE_SIGMA**2) / honest
    return max(root_up(least, _SHARE_BITS), Fraction(_LEAST_USED_SIGMA))


# --- Gaussian rounds -------------------------------------------------------------

LOST_BITS = 127
"""(1 + exp(epsilon)) 2^-LOST_BITS of delta is reserved.

It pays for noise that is larger than the space a message has for it, and for the distance from normal noise.
"""

_SIGMA_BITS = 32  # fraction bits of 1/mu, and of a root
_DIGITS = 140
_LARGEST = 2**64  # of 1/mu; no plaintext holds such noise
_ROUNDED_UP = 1 + 1e-12  # more than the errors of a few operations on floats


def sensitivity(clip: Fraction, d: int, fraction_bits: int) -> Fraction:
    """Return Delta = 2 C/gamma + sqrt(d), gamma = 2^-F: how far a replaced record moves a sum, in grid units, L2 norm.

    A record's vector has a norm of at most C, and rounding its coordinates moves it by at most sqrt(d)/2 units. Under
    "replace one record" one such vector leaves the sum and another enters it, so the record's part counts twice.

    Parameters
    ----------
    clip : Fraction
        C, the longest vector of one record.
    d : int
        Coordinates.
    fraction_bits : int
        F: the grid has steps of 2^-F.
    """
    return 2 * clip * (1 << fraction_bits) + root_up(Fraction(d), _SIGMA_BITS)


@cache
def rounds_sigma(Delta: Fraction, rounds: int | Fraction, epsilon: float, delta: float) -> Fraction:
    """Return sigma = Delta sqrt(T)/mu, rounded up: the standard deviation of each coordinate of a round's noise.

    mu is the largest for which Gaussian noise provides (epsilon, delta'), where delta' is delta without the part that
    ``LOST_BITS`` reserves (Balle and Wang 2018, Theorem 8).

    Parameters
    ----------
    Delta : Fraction
        As :func:`sensitivity` returns it.
    rounds : int or Fraction
        T; or 1 times a :func:`charge`, for one release that may be made again.
    epsilon, delta : float
        The study's privacy target.

    Raises
    ------
    BadInput
        No noise meets the target; the message says what would make it possible.
    """
    return root_up(Delta**2 * rounds * _inverse_mu(epsilon, delta) ** 2, _SIGMA_BITS)


@cache
def _inverse_mu(epsilon: float, delta: float) -> Fraction:
    """Return 1/mu, rounded up, with mu and errors as in :func:`rounds_sigma`."""
    if not epsilon > 0:
        raise BadInput(
            f"[privacy] epsilon is {epsilon:g}, but noise needs an epsilon greater than 0", "choose a larger epsilon"
        )
    check_delta(delta)
    left = as_fraction(delta) - lost_delta(epsilon)
    if left <= 0:
        raise _all_lost(epsilon, delta)
    grid = 1 << _SIGMA_BITS

    def enough(multiple: int) -> bool:
        return _delta_at(Fraction(multiple, grid), epsilon) <= left

    with digits(_DIGITS):
        guess = min(1 / mu_of(epsilon, delta), float(_LARGEST))
        multiple = smallest(enough, int(guess * grid), least=1, most=_LARGEST * grid)
    if multiple is None:
        raise BadInput(
            f"[privacy] epsilon is {epsilon:g} and delta is {delta:g}, but the noise that they need is larger than any "
            "encrypted number",
            "choose a larger epsilon or a larger delta",
        )
    return Fraction(multiple, grid)


def _all_lost(epsilon: float, delta: float) -> BadInput:
    """Say which epsilon leaves something of delta, or that none does."""
    room = as_fraction(delta) * (1 << LOST_BITS) - 3
    most = math.floor(10 * math.log(room)) / 10 if room > 1 else 0.0
    if most > 0:
        return BadInput(
            f"[privacy] epsilon is {epsilon:g}, but with delta = {delta:g} it can be at most {most:g}: beyond that, "
            "small errors of the noise use up all of delta",
            f"choose an epsilon of {most:g} or less",
        )
    return BadInput(
        f"[privacy] delta is {delta:g}, but small errors of the noise use up a delta of {float(lost_delta(0)):.2g} or "
        "less, whatever epsilon is",
        "choose a larger delta, which is still less than 1 divided by the number of all records",
    )


def lost_delta(epsilon: float) -> Fraction:
    """Return (1 + exp(epsilon)) 2^-LOST_BITS, rounded up: the part of delta that is reserved."""
    if epsilon > 700:  # noqa: PLR2004  exp would overflow, and the result would be far above 1
        return Fraction(1)
    return Fraction(2 + math.ceil(math.exp(epsilon) * _ROUNDED_UP)) / (1 << LOST_BITS)


def _delta_at(inverse: Fraction, epsilon: float) -> Decimal:
    """Return delta(epsilon) at mu = 1/``inverse``, in the digits of the context.

    The formula is that of :func:`~masquerade_core.privacy.accounting.delta_of`.
    """
    s, e = decimal_of(inverse), decimal_of(as_fraction(epsilon))
    a, b = e * s - 1 / (2 * s), e * s + 1 / (2 * s)
    if a < 0:
        return 1 - density(a) * (mills_ratio(-a) + mills_ratio(b))
    return density(a) * (mills_ratio(a) - mills_ratio(b))


@dataclass(frozen=True)
class SharedNoise:
    """Gaussian noise of which every party draws a share, and the privacy target that it is sized for.

    Parameters
    ----------
    Delta : Fraction
        How far a replaced record moves a round's sum, in grid units, L2 norm.
    rounds : int
        T.
    sigma : Fraction
        The standard deviation that each coordinate of a round's noise needs, in grid units.
    share : Fraction
        The sigma of each party's share; any h shares together are as good as ``sigma``.
    epsilon, delta : float
        The study's privacy target.
    honest : int
        h, the number of shares that meet the target.
    retries : int
        R, how many sums a run may make again; see :func:`charge`.
    largest : Fraction
        The part of mu^2 that the dearest sum takes of a run without retries; 1/T where rounds are equal.
    """

    Delta: Fraction
    rounds: int
    sigma: Fraction
    share: Fraction
    epsilon: float
    delta: float
    honest: int
    retries: int = 0
    largest: Fraction = Fraction(1)

    @property
    def releases(self) -> int:
        """T + R, how many sums parties draw noise for."""
        return self.rounds + self.retries

    def mu(self, shares: int) -> float:
        """Return mu of the whole run against an adversary who does not know ``shares`` >= 1 of the shares of noise."""
        require(shares >= 1, "at least one share of noise must be unknown to the adversary")
        variance = shares * self.share**2 - LEAST_SHARE_SIGMA**2
        spent = self.rounds * charge(self.retries, self.largest)
        return math.sqrt(self.Delta**2 * spent / variance) * _ROUNDED_UP

    def proved(self, shares: int, size: int = 1) -> tuple[float, float] | None:
        """Return (epsilon, delta) against an adversary who does not know ``shares`` of the shares.

        None where nothing is proved. With h shares or more the result for one record is never worse than the target,
        whatever the last bit of a float. If ``size`` records are replaced together, mu is ``size`` times as large.

        References
        ----------
        Dong, Roth and Su 2022, Theorem 2.14: the privacy of a group.
        """
        if shares < 1:
            return None
        left = as_fraction(self.delta) - lost_delta(self.epsilon)
        found = epsilon_of(size * self.mu(shares), math.nextafter(float(left), 0))
        if shares >= self.honest and size == 1:
            return min(found, self.epsilon), self.delta
        delta = float(min(Fraction(1), left + lost_delta(found)))
        return (found, delta) if delta < 1 else None


def charge(retries: int, largest: Fraction) -> Fraction:
    """Return 1 + R times the largest part: how many times mu^2 a run may take if Charlie spends every retry.

    A sum that is made again is a release of its own, with fresh noise. Releases compose: their mu^2 add up. Charlie
    chooses what is made again, and he would choose the dearest sum each time. Of T equal rounds each takes 1/T of mu^2,
    so the whole is that of T + R rounds.

    Parameters
    ----------
    retries : int
        R.
    largest : Fraction
        The part of mu^2 that the dearest sum takes of a run without retries: 1/T to 1.
    """
    return 1 + retries * largest


def rounds_noise(
    *,
    clip: Fraction,
    d: int,
    rounds: int,
    epsilon: float,
    delta: float,
    honest: int,
    fraction_bits: int,
    retries: int = 0,
) -> SharedNoise:
    """Return the noise of a run.

    Parameters
    ----------
    clip : Fraction
        C, the longest vector of one record.
    d, rounds : int
        Coordinates; T.
    epsilon, delta : float
        The study's privacy target.
    honest : int
        h, how many parties do not collude; their noise alone must meet the target.
    fraction_bits : int
        F: the grid has steps of 2^-F.
    retries : int
        R, how many of the rounds may be made again.

    Raises
    ------
    BadInput
        There is no such noise, or no honest party.
    """
    check_honest(honest)
    Delta = sensitivity(clip, d, fraction_bits)
    sigma = rounds_sigma(Delta, rounds + retries, epsilon, delta)
    share = gaussian_share_sigma(sigma, honest)
    return SharedNoise(Delta, rounds, sigma, share, epsilon, delta, honest, retries, Fraction(1, rounds))

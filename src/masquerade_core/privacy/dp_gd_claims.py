"""How much noise ``dp-gd`` needs for a wish, and what is proved of its run; ``docs/privacy/dp-gd.md`` derives it.

A round opens q + x: q the sum of all records' clipped gradients on the grid, x the parties' shares of noise. Replacing
one record moves q by at most Delta (:func:`sensitivity`). The sum of h shares of discrete Gaussian noise is, but for a
total variation of less than 2^-200, a way to round a continuous normal that commutes with q
(:func:`~masquerade_core.privacy.discrete.closeness_of_sum`). So T rounds, each at whatever point follows from those
before, are as private as one number from N(0, 1) against one from N(mu, 1), mu = Delta sqrt(T)/sigma.

Every participant works out the noise for itself, and slots follow from it: :func:`noise_sigma` is computed in fractions
and correctly rounded arithmetic, and is the same number everywhere.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import gmpy2

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.privacy._search import smallest
from masquerade_core.privacy.claims import NONE, PARTY_UNIT, Claim, digits
from masquerade_core.privacy.discrete import LEAST_SHARE_SIGMA, gaussian_share_sigma
from masquerade_core.privacy.gaussian_dp import epsilon_of, mu_of
from masquerade_core.study import as_fraction

__all__ = ["LOST_BITS", "Noise", "dp_gd_statement", "noise_sigma", "run_noise", "sensitivity"]

LOST_BITS = 127
"""(1 + exp(epsilon)) 2^-LOST_BITS of delta pays for noise beyond its slots, and for its distance from the normal."""

_SIGMA_BITS = 32  # behind the point of 1/mu, and of a root
_PRECISION = 448
_LARGEST = 2**64  # of 1/mu; no plaintext holds such noise
_NEIGHBOURS = "replace one record, all sizes fixed"
_ROUNDED = 1 + 1e-12  # floats of a statement, upwards


def sensitivity(clip: Fraction, d: int, fraction_bits: int) -> Fraction:
    """Return Delta = 2 C/gamma + sqrt(d), gamma = 2^-F: how far a replaced record moves a sum, in grid units, L2 norm.

    A record's gradient has a norm of at most C, and rounding its coordinates moves it by sqrt(d)/2 units at most; one
    leaves the sum and another comes in. This is "replace one record"; it is stated here and nowhere else.
    """
    return 2 * clip * (1 << fraction_bits) + _root(Fraction(d))


def _root(square: Fraction) -> Fraction:
    """Return the square root, rounded up."""
    return Fraction(math.isqrt(math.ceil(square * (1 << 2 * _SIGMA_BITS)) - 1) + 1, 1 << _SIGMA_BITS)


@cache
def noise_sigma(Delta: Fraction, rounds: int, epsilon: float, delta: float) -> Fraction:
    """Return sigma = Delta sqrt(T)/mu, rounded up: what each coordinate of a round's noise must have.

    mu is the largest for which Gaussian noise keeps epsilon but for a probability of delta, less what ``LOST_BITS``
    says (Balle and Wang 2018, Theorem 8).

    Parameters
    ----------
    Delta : Fraction
        Of :func:`sensitivity`.
    rounds : int
        T.
    epsilon, delta : float
        The study's wish.

    Raises
    ------
    BadInput
        There is no such noise; the sentence says what would make it possible.
    """
    if not epsilon > 0:
        raise BadInput(f"[privacy] epsilon is {epsilon:g}, but noise needs an epsilon greater than 0")
    if not 0 < delta < 1:
        raise BadInput(
            f"[privacy] delta is {delta:g}, but no Gaussian noise keeps epsilon with certainty",
            "set delta to more than 0, and to less than 1 divided by the number of all records",
        )
    wish = as_fraction(delta) - _lost(epsilon)
    if wish <= 0:
        raise BadInput(
            f"[privacy] epsilon is {epsilon:g} and delta {delta:g}, but a delta of "
            f"{float(min(Fraction(1), _lost(epsilon))):.2g} is lost to arithmetic at this epsilon",
            "choose a smaller epsilon, or a larger delta",
        )
    grid = 1 << _SIGMA_BITS

    def enough(multiple: int) -> bool:
        return bool(_delta_at(Fraction(multiple, grid), epsilon) <= gmpy2.mpq(wish.numerator, wish.denominator))

    with gmpy2.context(gmpy2.get_context(), precision=_PRECISION):
        guess = min(1 / mu_of(epsilon, delta), float(_LARGEST))
        multiple = smallest(enough, int(guess * grid), least=1, most=_LARGEST * grid)
    if multiple is None:
        raise BadInput(
            f"[privacy] epsilon is {epsilon:g} and delta {delta:g}: no plaintext holds the noise for that",
            "choose a larger epsilon or delta",
        )
    return _root(Delta**2 * rounds * Fraction(multiple, grid) ** 2)


def _lost(epsilon: float) -> Fraction:
    """Return (1 + exp(epsilon)) 2^-LOST_BITS, rounded up."""
    if epsilon > 700:  # noqa: PLR2004  exp would be no float; it is all lost long before
        return Fraction(1)
    return Fraction(2 + math.ceil(math.exp(epsilon) * _ROUNDED)) / (1 << LOST_BITS)


def _delta_at(inverse: Fraction, epsilon: float) -> gmpy2.mpfr:
    """Return delta(epsilon) at mu = 1/``inverse``, in the precision of the context."""
    s, e = (gmpy2.mpfr(gmpy2.mpq(x.numerator, x.denominator)) for x in (inverse, as_fraction(epsilon)))
    root = gmpy2.sqrt(gmpy2.mpfr(2))
    below = gmpy2.erfc((e * s - 1 / (2 * s)) / root)
    return (below - gmpy2.exp(e) * gmpy2.erfc((e * s + 1 / (2 * s)) / root)) / 2


@dataclass(frozen=True)
class Noise:
    """The noise of one run.

    Parameters
    ----------
    Delta : Fraction
        How far a replaced record moves a round's sum, in grid units.
    rounds : int
        T.
    sigma : Fraction
        What a coordinate of the noise must have in every round, in grid units.
    share : Fraction
        What each party draws with; any h shares are as good as sigma.
    """

    Delta: Fraction
    rounds: int
    sigma: Fraction
    share: Fraction

    def mu(self, shares: int) -> float:
        """Return mu of the whole run for whoever does not know ``shares`` >= 1 of the shares of noise."""
        if shares < 1:
            raise LocalProtocolError("the privacy of no noise was asked for")
        variance = shares * self.share**2 - LEAST_SHARE_SIGMA**2
        return math.sqrt(self.Delta**2 * self.rounds / variance) * _ROUNDED


def run_noise(
    *, clip: Fraction, d: int, rounds: int, epsilon: float, delta: float, honest: int, fraction_bits: int
) -> Noise:
    """Return the noise of a run.

    Parameters
    ----------
    clip : Fraction
        C, the longest gradient of one record.
    d, rounds : int
        Coordinates; T.
    epsilon, delta : float
        The wish.
    honest : int
        h, the parties whose noise must be enough.
    fraction_bits : int
        F.

    Raises
    ------
    BadInput
        There is no such noise, or no honest party.
    """
    if honest < 1:
        raise BadInput(
            "no party is left whose noise counts: all are taken to side with Charlie",
            "set colluders to less than the number of parties",
        )
    Delta = sensitivity(clip, d, fraction_bits)
    sigma = noise_sigma(Delta, rounds, epsilon, delta)
    return Noise(Delta, rounds, sigma, gaussian_share_sigma(sigma, honest))


# --- The statement ----------------------------------------------------------------


def dp_gd_statement(
    noise: Noise, *, K: int, honest: int, epsilon: float, delta: float, min_records: int
) -> tuple[Claim, ...]:
    """Return the statement for ``dp-gd``.

    Parameters
    ----------
    noise : Noise
    K, honest : int
        Parties; h, those whose noise must be enough.
    epsilon, delta : float
        The wish.
    min_records : int
        The public floor of n_j.
    """
    rows = _Rows(noise, K, honest, epsilon, delta, min_records)
    t = max(1, K - honest)
    views = [
        rows.row(
            "released model and all iterates",
            K,
            f"{noise.rounds} noisy sums are public, and every classifier on the way. The noise of all {K} parties is "
            "on each of them." + rows.about_delta,
        ),
        rows.row(
            "Charlie",
            K,
            "Charlie sees ciphertexts and the sums that everybody sees. A Charlie who breaks the rules can shift a "
            "sum, and so the point of the next gradients; what is proved holds at any points.",
            "Charlie colludes with nobody, and cannot break the lead's Paillier key",
        ),
        rows.row(
            "one party",
            K - 1,
            "A party knows its own noise and takes it off; the others' stands. The lead opens sums, never a part.",
            "the party colludes with nobody",
        ),
        rows.row(
            f"Charlie with {t} {'party' if t == 1 else 'parties'}",
            K - t,
            f"They take their own noise off; {_count(K - t)} stands. With the lead among them they hold the key and "
            "every ciphertext, and still see only the sum of what the others sent: each contribution is masked.",
            "the other parties are honest",
        ),
    ]
    if t < K - 1:
        views.append(
            rows.row(
                "Charlie with all parties but one",
                1,
                "What is left is one party's sum of gradients with that party's own noise.",
                "the party that holds the record is honest",
            )
        )
    if honest > 1:
        views.append(
            rows.row(
                "everybody, where one honest party adds no noise",
                honest - 1,
                f"The wish counts on {_count(honest)}. A share that is missing is missed like that of one more party "
                "on Charlie's side; one that is too short counts by its variance. Nobody sees that from outside.",
                "the party that holds the record draws its own share",
            )
        )
    return (*views, PARTY_UNIT)


def _count(parties: int) -> str:
    return "the noise of one honest party" if parties == 1 else f"the noise of {parties} honest parties"


def _colluding(parties: int) -> str:
    return f"{parties or 'no'} colluding {'party' if parties == 1 else 'parties'}"


@dataclass(frozen=True)
class _Rows:
    """What the rows of one statement have in common."""

    noise: Noise
    K: int
    honest: int
    epsilon: float
    delta: float
    min_records: int

    @property
    def about_delta(self) -> str:
        """A warning where delta is no small number."""
        records = self.K * self.min_records
        if self.delta * records < 1:
            return ""
        return (
            f" Mind delta = {self.delta:g}: it is not less than 1/{records:,}, one over the fewest records that there "
            "may be, and a protocol that publishes each record with that probability would do as well by it."
        )

    def row(self, view: str, shares: int, text: str, *assumptions: str) -> Claim:
        """Return the row of a view that does not know ``shares`` of the shares of noise."""
        wish = f"epsilon = {digits(self.epsilon)}, delta = {self.delta:g}"
        enough = shares >= self.honest
        found, lost = self._proved(shares)
        proved = lost < 1
        return Claim(
            view=view,
            unit="record",
            neighbours=_NEIGHBOURS,
            definition="approximate, computational" if proved else NONE,
            claimed=f"approximate, {wish}: the wish, for {_colluding(self.K - self.honest)}"
            if enough
            else "nothing: these are more than the study's colluders",
            provable=f"epsilon = {digits(found)}, delta = {lost:g}" if proved else NONE,
            epsilon=found if proved else None,
            delta=lost if proved else None,
            holds_at="this noise" if enough else f"colluders = {self.K - shares} in the study",
            source="docs/privacy/dp-gd.md: exact composition of T Gaussian rounds; Balle and Wang 2018, Theorem 8",
            assumptions=(*self._assumptions(), *assumptions),
            text=text,
        )

    def _proved(self, shares: int) -> tuple[float, float]:
        """Return epsilon and delta; a delta of 1 where nothing is proved."""
        left = as_fraction(self.delta) - _lost(self.epsilon)
        found = epsilon_of(self.noise.mu(shares), math.nextafter(float(left), 0))
        if shares >= self.honest:  # by construction, whatever the last bit of a float is
            return min(found, self.epsilon), self.delta
        return found, float(min(Fraction(1), left + _lost(found)))

    def _assumptions(self) -> tuple[str, ...]:
        return (
            "everybody follows the protocol, and honest parties draw their share of the noise",
            "records are encoded by public bounds; nothing, steps and clip included, was chosen by looking at them",
            "N, the number of all records, is published as it is; sizes are not covered by epsilon",
            "the model is released once; every further run over the same records adds its own epsilon",
        )

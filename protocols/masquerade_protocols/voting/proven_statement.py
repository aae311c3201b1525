"""The noise that ``vote`` and ``soft`` need on the counts of votes, from all parties; see ``docs/privacy/voting.md``.

Charlie opens q + x: q the counts of votes, x the parties' shares of noise. A party that votes otherwise at every one of
N points moves q by at most Delta in L2 norm (:func:`votes_sensitivity`); votes are whole numbers, and nothing is
rounded. Any h shares of x hide as well as a continuous normal of standard deviation Delta/mu (Balle and Wang 2018,
Theorem 8; :func:`~masquerade_core.privacy.noise.shares.gaussian_share_sigma`). The labels, the classifier and its release
are computed from q + x, and cost nothing more.

Slots follow from the noise, so it is worked out in fractions and correctly rounded arithmetic: the same at everybody.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise, lost_delta
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS, counters_at_a_point
from masquerade_core.privacy.statement import NONE, Claim, digits
from masquerade_core.study import as_fraction

__all__ = ["proven_vote_statement"]

_PARTY = "replace all records of one party, their number included"
_RECORD = "replace one record, or add or remove it"


def proven_vote_statement(
    noise: SharedNoise,
    *,
    M: int,
    N: int,
    classes: int,
    honest: int,
    epsilon: float,
    delta: float,
    on_the_model: tuple[float, float],
) -> tuple[Claim, ...]:
    """Return the statement for ``vote`` or ``soft`` with ``calibration = "proven"``.

    Parameters
    ----------
    noise : SharedNoise
        Of :func:`count_noise`.
    M, N, classes : int
        Parties; auxiliary points; C.
    honest : int
        h.
    epsilon, delta : float
        The wish.
    on_the_model : tuple of float
        What it would take instead to put noise on the classifier: how far one party's votes move it
        (:func:`~masquerade_core.privacy.noise.votes.sharp_sensitivity`), and the mean norm of pure noise for that.
    """
    rows = _Rows(noise, M, honest, epsilon, delta)
    t = max(1, M - honest)
    deviation = math.sqrt(M) * float(noise.share) / (1 << COUNT_BITS)
    reach = "sqrt(N)" if counters_at_a_point(classes) == 1 else "sqrt(2 N)"
    views = [
        rows.row(
            "released model",
            M,
            f"The classifier is made of noisy counts alone. One party moves the N = {N:,} counts by at most {reach} "
            f"votes in L2 norm, and each count, of M = {M:,} votes, carries noise of standard deviation "
            f"{deviation:.4g}, everybody's share included. SharedNoise on the classifier instead would have to cover a "
            f"distance of {digits(on_the_model[0])} with a mean length of {digits(on_the_model[1])}; it would keep "
            "epsilon without a delta, and Charlie would see the counts." + rows.about_delta,
        ),
        rows.row(
            "released model",
            M,
            "A record is part of one party's data, so what is proved of these is proved of it.",
            neighbours=_RECORD,
        ),
        rows.row(
            "Charlie",
            M,
            "Charlie sees the noisy counts, and labels the auxiliary points by them. He draws no noise himself.",
            "Charlie colludes with nobody, and cannot break the lead's Paillier key",
        ),
        rows.row(
            "one party",
            M - 1,
            "A party knows its own votes and noise, and sees the model. So does the lead: the counts that it opens for "
            "Charlie are hidden behind random numbers of his.",
            "the party colludes with nobody, and cannot break the boxes or the lead's Paillier key",
        ),
        rows.row(
            f"Charlie with {t} {'party' if t == 1 else 'parties'}",
            M - t,
            f"They take their own votes and noise off the counts; {_count(M - t)} stands. With the lead among them "
            "they hold the key and every ciphertext, and still see only the sum of what the others sent: each "
            "contribution is masked.",
            "the other parties are honest",
        ),
    ]
    if t < M - 1:
        views.append(
            rows.row(
                "Charlie with all parties but one",
                1,
                "What is left is one party's votes with that party's own noise.",
                "the party whose records are meant is honest",
            )
        )
    if honest > 1:
        views.append(
            rows.row(
                "everybody, where one honest party adds no noise",
                honest - 1,
                f"The wish counts on {_count(honest)}. A share that is missing is missed like that of one more party "
                "on Charlie's side; one that is too short counts by its variance. Nobody sees that from outside.",
                "the party whose records are meant draws its own share",
            )
        )
    return tuple(views)


def _count(parties: int) -> str:
    return "the noise of one honest party" if parties == 1 else f"the noise of {parties} honest parties"


@dataclass(frozen=True)
class _Rows:
    """What the rows of one statement have in common."""

    noise: SharedNoise
    M: int
    honest: int
    epsilon: float
    delta: float

    @property
    def about_delta(self) -> str:
        """A warning where delta is no small number: the unit is a party."""
        if self.delta * self.M < 1:
            return ""
        return (
            f" Mind delta = {self.delta:g}: it is not less than 1/{self.M:,}, one over the number of parties, and a "
            "protocol that publishes each party's records with that probability would do as well by it."
        )

    def row(self, view: str, shares: int, text: str, *assumptions: str, neighbours: str = _PARTY) -> Claim:
        """Return the row of a view that does not know ``shares`` of the shares of noise."""
        t, enough = self.M - self.honest, shares >= self.honest
        wish = f"epsilon = {digits(self.epsilon)}, delta = {self.delta:g}"
        found, lost = self._proved(shares)
        proved = lost < 1
        bounded = "approximate" if view == "released model" else "approximate, computational"
        return Claim(
            view=view,
            unit="party" if neighbours == _PARTY else "record",
            neighbours=neighbours,
            definition=bounded if proved else NONE,
            claimed=f"approximate, {wish}: the wish, for {t} colluding {'party' if t == 1 else 'parties'}"
            if enough
            else "nothing: these are more than the study's colluders",
            provable=f"epsilon = {digits(found)}, delta = {lost:g}" if proved else NONE,
            epsilon=found if proved else None,
            delta=lost if proved else None,
            holds_at="this noise" if enough else f"colluders = {self.M - shares} in the study",
            source="docs/privacy/voting.md: one Gaussian release of the counts; Balle and Wang 2018, Theorem 8",
            assumptions=(*_ASSUMPTIONS, *assumptions),
            text=text,
        )

    def _proved(self, shares: int) -> tuple[float, float]:
        """Return epsilon and delta; a delta of 1 where nothing is proved."""
        left = as_fraction(self.delta) - lost_delta(self.epsilon)
        found = epsilon_of(self.noise.mu(shares), math.nextafter(float(left), 0))
        if shares >= self.honest:  # by construction, whatever the last bit of a float is
            return min(found, self.epsilon), self.delta
        return found, float(min(Fraction(1), left + lost_delta(found)))


_ASSUMPTIONS = (
    "everybody follows the protocol, and honest parties draw their share of the noise",
    "the auxiliary points, epsilon and regularization were chosen without looking at any party's records",
    "the auxiliary points themselves, and who takes part, are not covered by epsilon",
    "the model is released once; every further run over the same records adds its own epsilon",
)

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

from dataclasses import dataclass

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.joint_gaussian import FINE, MOST_COUNTED_RECORDS, UNIT, JointNoise
from masquerade_core.privacy.statement import NONE, PARTY_UNIT, Claim, digits

__all__ = ["local_proven_statement"]

_NEIGHBOURS = "replace one record, all sizes fixed"
_PREPROCESSING = (
    "records are encoded by public bounds and clipped to norm 1; no other preprocessing, bound, epsilon or "
    "regularization was chosen by looking at them"
)


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
        counted = f"; every party has at most {MOST_COUNTED_RECORDS:,} records" if noise.law == "sizes" else ""
        return (
            "everybody follows the protocol, and honest parties draw their share of the noise",
            _PREPROCESSING,
            f"each local classifier is the exact minimiser up to a gradient norm of {TOLERANCE:g}, which is counted"
            + counted,
            f"every party has at least {noise.min_records:,} records",
            sizes,
            "the model is released once; every further run over the same records adds its own epsilon",
        )

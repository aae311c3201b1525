"""The privacy statement of ``local-aggregation`` with calibration "proven": ``docs/privacy/local-aggregation.md``."""

from dataclasses import replace

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.joint_gaussian import FINE, MOST_COUNTED_RECORDS, UNIT, JointNoise
from masquerade_core.privacy.statement import (
    COMPUTATIONAL,
    ONE_RELEASE,
    PUBLIC_SETTINGS,
    Claim,
    SharedNoiseRows,
    honest_noise,
    large_delta,
)
from masquerade_core.words import counted

__all__ = ["SMALLEST_SHOWS", "proven_statement"]

SMALLEST_SHOWS = (
    "epsilon does not cover sizes; masks hide them, but the scale of the noise follows from the smallest one, and "
    "everybody can estimate that one from the model where the noise is not small"
)
"""An assumption where the noise is sized for the smallest party."""

_LAST = "the party that holds the record is honest"
_OTHERS = "the other parties are honest, and the masks between them are not broken"
_ALL_FOLLOW = "everybody follows the protocol, and "

_SIZES = {
    "selected": SMALLEST_SHOWS,
    "floor": "epsilon does not cover sizes; masks hide them, and they do not show in the noise",
    "sizes": "n, the number of all records, is published as it is; epsilon does not cover sizes; of two parties, "
    "each thus learns the other's",
}


def proven_statement(noise: JointNoise) -> tuple[Claim, ...]:
    """Return the rows of a study whose noise all parties draw in shares."""
    K, t = noise.K, max(1, noise.K - noise.honest)
    rows = SharedNoiseRows(
        source="docs/privacy/local-aggregation.md; Balle and Wang 2018, Theorem 8",
        assumptions=_assumptions(noise),
        noise=noise,
        K=K,
    )
    selected = noise.scale_rule == "selected"
    bracket = (
        " He also sees blinded noise, and who wins the comparisons of unnamed parties, but the winners are equally "
        "random for all sizes."
        if selected
        else ""
    )
    charlies_key = (
        " With Charlie's key they read the scale b of the noise, and so about how many records the smallest party has. "
        "For some pairs of parties they learn which of the two has fewer records."
        if selected
        else ""
    )
    result = [
        rows.row(
            "released model",
            K,
            f"The noise of all {K} parties is on the sum. Nobody knows the whole of it."
            + large_delta(noise.delta, K * noise.min_records),
            "the published shares are masked with keys that no outsider can compute",
        ),
        rows.row(
            "Charlie",
            K,
            "Charlie sees the sum, and every party's share of it, which alone is a uniform random number."
            f"{bracket} He knows no party's noise.",
            "Charlie colludes with nobody, and cannot break the sealed boxes"
            + (" or the lead's Paillier key" if selected else ""),
        ),
        rows.row(
            "one party, the smallest included",
            K - 1,
            "A party knows its own noise and takes it off; the others' noise stays. The party with the fewest records "
            "can do no more than any other."
            + (
                " The scale b of the noise reaches it only under Charlie's key, which it does not hold."
                if selected
                else ""
            ),
            "the party colludes with nobody, and cannot break the others' masks",
        ),
        rows.row(
            "the lead",
            K - 1,
            "The lead learns no more than any other party."
            + (" The numbers that it opens are blinded." if selected else " It holds no key here."),
            "the lead colludes with nobody, and cannot break the others' masks",
        ),
        rows.row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            K - t,
            (
                "They take their own noise off. They see the last party's classifier, with that party's noise on it."
                if K - t == 1
                else f"They take their own noise off; {honest_noise(K - t)} stays. Of the other classifiers they see "
                "only the sum."
            )
            + charlies_key,
            _LAST if K - t == 1 else _OTHERS,
            definition="approximate" if K - t == 1 else COMPUTATIONAL,
        ),
    ]
    if selected:
        result.append(
            rows.row(
                "Charlie with the lead",
                K - 1,
                "Together they hold both keys. They read every party's number of records. Of the noise they know only "
                "the lead's share. Of the other classifiers they see only the sum.",
                _LAST if K - 1 == 1 else _OTHERS,
                definition="approximate" if K - 1 == 1 else COMPUTATIONAL,
            )
        )
    if t < K - 1:
        result.append(
            rows.row(
                "Charlie with all parties but one",
                1,
                "They see one party's classifier, with that party's noise on it." + charlies_key,
                _LAST,
                definition="approximate",
            )
        )
    return (*result, _selection_breakers(rows) if selected else _rule_breakers(rows, t))


def _selection_breakers(rows: SharedNoiseRows) -> Claim:
    """Return the row of those who break the rules where a scale is selected: nothing is proved against them."""
    return rows.none(
        "Charlie or a party that breaks the rules",
        "One party can take nearly all of the noise away: it claims to have the fewest records, and sends a scale of "
        "0. The lead can send another scale than the selected one. Charlie can select a party that sides with him. "
        f"What stays is {FINE}/{UNIT:,} of the noise for min_records records. Nobody notices. To exclude it takes "
        "proofs that Charlie selects exactly one party, and that its scale fits its size. Masquerade has none yet. "
        'With scale = "floor" or weights = "sizes" nothing is selected, and nobody can do this.',
        claimed="nothing: the paper assumes that all follow the protocol",
        holds_at='scale = "floor" or weights = "sizes"'
        + (" and colluders = 1" if rows.noise.honest == rows.K else "")
        + " in the study",
    )


def _rule_breakers(rows: SharedNoiseRows, t: int) -> Claim:
    """Return the row of Charlie and t parties that break the rules, where the scale of the noise is public."""
    first, *others = rows.assumptions
    kept = (
        "the noise of the party that holds the record"
        if rows.K - t == 1
        else f"the noise of {rows.K - t} parties that follow the protocol"
    )
    return replace(rows, assumptions=(first.removeprefix(_ALL_FOLLOW), *others)).row(
        f"Charlie with {counted(t, 'party', 'parties')}, who break the rules",
        rows.K - t,
        f"Whatever they send, change or leave out, {kept} stays on the sum. Nobody selects that noise, and no key "
        "opens what it is added to. So they learn no more than if they followed the protocol. If these parties add no "
        "noise, this row also holds for everybody who sees the model. False numbers of records, and classifiers that "
        "nobody trained, spoil the model, and nobody notices.",
        "the other parties, of which one holds the record, follow the protocol"
        + ("" if rows.K - t == 1 else ", and the masks between them are not broken"),
        definition="approximate" if rows.K - t == 1 else COMPUTATIONAL,
    )


def _assumptions(noise: JointNoise) -> tuple[str, ...]:
    most = f"; every party has at most {MOST_COUNTED_RECORDS:,} records" if noise.scale_rule == "sizes" else ""
    return (
        f"{_ALL_FOLLOW}honest parties draw their share of the noise",
        PUBLIC_SETTINGS,
        f"each local classifier is the exact minimiser up to a gradient norm of {TOLERANCE:g}, which is counted" + most,
        f"every party has at least {noise.min_records:,} records",
        _SIZES[noise.scale_rule],
        ONE_RELEASE,
    )

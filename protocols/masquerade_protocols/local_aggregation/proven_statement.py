"""The privacy statement of ``local-aggregation`` with calibration "proven": ``docs/privacy/local-aggregation.md``."""

from dataclasses import replace

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.joint_gaussian import MOST_COUNTED_RECORDS, JointNoise
from masquerade_core.privacy.statement import (
    BREAKS,
    COMPUTATIONAL,
    ONE_RELEASE,
    PUBLIC_SETTINGS,
    Claim,
    SharedNoiseRows,
    honest_noise,
    large_delta,
)
from masquerade_core.words import counted

__all__ = ["proven_statement"]

_LAST = "the party that holds the record is honest"
_OTHERS = "the other parties are honest, and the masks between them are not broken"
_ALL_FOLLOW = "everybody follows the protocol, and "

_SIZES = {
    "selected": "epsilon does not cover sizes; the run tells all participants the smallest one to within 19 %, and not "
    "whose it is (of two parties, the one that has more records knows); masks hide the others",
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
        " He also sees who wins the comparisons of unnamed parties, but the winners are equally random for all sizes, "
        "and the size class of the party with the fewest records, which he announces."
        if selected
        else ""
    )
    pairs = " For some pairs of parties they learn which of the two has fewer records." if selected else ""
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
            "A party knows its own noise and subtracts it; the others' noise stays. The party with the fewest records "
            "can do no more than any other.",
            "the party colludes with nobody, and cannot break the others' masks",
        ),
        rows.row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            K - t,
            (
                "They subtract their own noise. They see the last party's classifier, with that party's noise on it."
                if K - t == 1
                else f"They subtract their own noise; {honest_noise(K - t)} stays. Of the other classifiers they see "
                "only the sum."
            )
            + pairs,
            _LAST if K - t == 1 else _OTHERS,
            definition="approximate" if K - t == 1 else COMPUTATIONAL,
        ),
    ]
    if selected:
        result.append(
            rows.row(
                "the lead",
                K - 1,
                "The lead learns no more than any other party. The numbers that it opens are blinded.",
                "the lead colludes with nobody, and cannot break the others' masks",
            )
        )
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
                "They see one party's classifier, with that party's noise on it." + pairs,
                _LAST,
                definition="approximate",
            )
        )
    return (*result, _rule_breakers(rows, t, selected=selected))


def _rule_breakers(rows: SharedNoiseRows, t: int, *, selected: bool) -> Claim:
    """Return the row of Charlie and t parties that break the rules."""
    first, *others = rows.assumptions
    kept = (
        "the noise of the party that holds the record"
        if rows.K - t == 1
        else f"the noise of {rows.K - t} parties that follow the protocol"
    )
    why = (
        "Each honest party adds noise only if it is enough for its own records, and the masks bind all to one size. So "
        "of records they learn no more than if they followed the protocol. Of sizes they can learn more: with the lead "
        "all of them, and from a party that refuses, whether it has fewer records than a size of their choice."
        if selected
        else "Nobody selects that noise, and no key opens what it is added to. So they learn no more than if they "
        "followed the protocol."
    )
    return replace(rows, assumptions=(first.removeprefix(_ALL_FOLLOW), *others)).row(
        f"Charlie with {counted(t, 'party', 'parties')}, who break the rules",
        rows.K - t,
        f"Whatever they send, change or leave out, {kept} stays on the sum. {why} If these parties add no "
        "noise, this row also holds for everybody who sees the model. False numbers of records, and classifiers that "
        "nobody trained, spoil the model, and nobody notices.",
        "the other parties, of which one holds the record, follow the protocol"
        + ("" if rows.K - t == 1 else ", and the masks between them are not broken"),
        definition="approximate" if rows.K - t == 1 else COMPUTATIONAL,
        adversary=BREAKS,
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

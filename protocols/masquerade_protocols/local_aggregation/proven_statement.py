"""The privacy statement of ``local-aggregation`` with calibration "proven": ``docs/privacy/local-aggregation.md``."""

from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.privacy.noise.joint_gaussian import FINE, MOST_COUNTED_RECORDS, UNIT, JointNoise
from masquerade_core.privacy.statement import PARTY_UNIT, Claim, SharedNoiseRows, large_delta
from masquerade_core.words import counted

__all__ = ["proven_statement"]

_PREPROCESSING = (
    "records are encoded by public bounds and clipped to norm 1; nobody looked at them to choose the preprocessing, "
    "the bounds, epsilon or the regularization"
)
_SIZES = {
    "selected": "epsilon does not cover the numbers of records; masks hide them, but the noise's scale follows from "
    "the smallest one, and everybody can estimate that one from the model where the noise is not small",
    "floor": "the numbers of records do not show in the noise; epsilon does not cover them otherwise",
    "sizes": "n, the number of all records, is published as it is; with two parties each learns the other's number; "
    "epsilon does not cover sizes",
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
        " He also sees blinded noise, and who wins the comparisons of unnamed parties, and that is equally random for "
        "all sizes."
        if selected
        else ""
    )
    charlies_key = (
        " With Charlie's key they read the scale b of the noise, and so about how many records the smallest party has. "
        "For some pairs of parties they read which is larger."
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
            f"Charlie sees the sum, and shares that are uniform one by one.{bracket} He knows no party's noise.",
            "Charlie colludes with nobody, and cannot break the boxes" + (" or the lead's key" if selected else ""),
        ),
        rows.row(
            "one party, the smallest included",
            K - 1,
            "A party knows its own share of the noise and takes it off. The others' shares stay, also where the party "
            "is the smallest."
            + (
                " The scale b of the noise reaches it only under Charlie's key, which it does not hold."
                if selected
                else ""
            ),
            "the party colludes with nobody",
        ),
        rows.row(
            "the lead",
            K - 1,
            "The lead is like any other party."
            + (" The numbers that it opens are blinded." if selected else " It holds no key here."),
            "the lead colludes with nobody",
        ),
        rows.row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            K - t,
            (
                "They take their own noise off. They see the last party's classifier, with that party's noise on it."
                if K - t == 1
                else f"They take their own noise off. That of {K - t} other parties stays. Of the other classifiers "
                "they see the sum."
            )
            + charlies_key,
            "the other parties are honest",
        ),
    ]
    if selected:
        result.append(
            rows.row(
                "Charlie with the lead",
                K - 1,
                "Together they hold both keys and read every party's number of records. Of the noise they know only "
                "the lead's share.",
                "the other parties are honest",
            )
        )
    if t < K - 1:
        result.append(
            rows.row(
                "Charlie with all parties but one",
                1,
                "They see one party's classifier, with that party's noise on it." + charlies_key,
                "the party that holds the record is honest",
            )
        )
    return (*result, _rule_breakers(rows, selected=selected), PARTY_UNIT)


def _rule_breakers(rows: SharedNoiseRows, *, selected: bool) -> Claim:
    if selected:
        text = (
            "A lead that sends another scale than the selected one, or a participant that tampers with the selection, "
            f"can leave only the fine noise, {FINE}/{UNIT:,} of the noise that the fewest allowed records would get. "
            "Nobody notices. A party that draws no noise counts like one more colluding party."
        )
    else:
        text = (
            "A party that draws no noise counts like one more colluding party. A party that claims another number of "
            "records than it has, or another classifier than its minimiser, may move the sum further than is counted."
        )
    return rows.none(
        "Charlie or a party that breaks the rules",
        text,
        claimed="nothing: the paper assumes that all follow the protocol",
        holds_at="no scale of this noise; it takes a protocol that checks what participants do",
    )


def _assumptions(noise: JointNoise) -> tuple[str, ...]:
    most = f"; every party has at most {MOST_COUNTED_RECORDS:,} records" if noise.scale_rule == "sizes" else ""
    return (
        "everybody follows the protocol, and honest parties draw their share of the noise",
        _PREPROCESSING,
        f"each local classifier is the exact minimiser up to a gradient norm of {TOLERANCE:g}, which is counted" + most,
        f"every party has at least {noise.min_records:,} records",
        _SIZES[noise.scale_rule],
        "the model is released once; every further run over the same records adds its own epsilon",
    )

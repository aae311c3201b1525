"""Who sees what of a run of ``evaluation``, and what is proved against each; ``docs/privacy/evaluation.md``."""

from masquerade_core.privacy.statement import PARTY_UNIT, Claim, SharedNoiseRows, honest_noise, large_delta
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.evaluation import noise_of

__all__ = ["statement"]

_ASSUMPTIONS = (
    "everybody follows the protocol, and honest parties draw their share of the noise",
    "N, the number of all records, is published as it is; epsilon does not cover sizes",
    "the model's own run, and every other run over the same records, adds its own epsilon",
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement: what is proved is the study's privacy target, of the evaluation alone."""
    noise, K = noise_of(study), study.K
    rows = SharedNoiseRows(
        noise=noise,
        K=K,
        source="docs/privacy/evaluation.md; Balle and Wang 2018, Theorem 8",
        assumptions=_ASSUMPTIONS,
    )
    t = max(1, K - noise.honest)
    return (
        rows.row(
            "evaluation",
            K,
            f"Two sums of counts are public. Each number carries the noise of all {K} parties."
            + large_delta(noise.delta, K * study.study.min_records),
        ),
        rows.row(
            "Charlie",
            K,
            "Charlie sees ciphertexts, and the sums that everybody sees.",
            "Charlie colludes with nobody, and cannot break the lead's Paillier key",
        ),
        rows.row(
            "one party",
            K - 1,
            "A party knows its own noise and takes it off; the others' noise stays.",
            "the party colludes with nobody",
        ),
        rows.row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            K - t,
            f"They take their own noise off; {honest_noise(K - t)} stays.",
            "the other parties are honest",
        ),
        PARTY_UNIT,
    )

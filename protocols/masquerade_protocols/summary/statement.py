"""Who sees what of a run of ``summary``, and what is proved against each; ``docs/privacy/summary.md`` derives it."""

from dataclasses import replace

from masquerade_core.privacy.statement import PARTY_UNIT, Claim, SharedNoiseRows, honest_noise, large_delta
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.summary.public import grid_of, noise_of

__all__ = ["statement"]

_RELEASED = "released statistics"

_ASSUMPTIONS = (
    "everybody follows the protocol, and honest parties draw their share of the noise",
    "ranges, levels and edges are public; nobody looked at the records to choose them",
    "the statistics are released once; every further run over the same records adds its own epsilon",
)


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement: what is proved is the study's privacy target."""
    noise, K = noise_of(study), study.K
    rows = SharedNoiseRows(
        noise=noise,
        K=K,
        source="docs/privacy/summary.md: one Gaussian release of all counts; Balle and Wang 2018, Theorem 8",
        assumptions=_ASSUMPTIONS,
    )
    honest = noise.honest
    t = max(1, K - honest)
    histograms = counted(len(grid_of(study).histograms), "histogram")
    views = [
        rows.row(
            _RELEASED,
            K,
            f"The noisy counts of {histograms} are public, and all that follows from them. They carry the noise of all "
            f"{K} parties. No number of records is published without noise."
            + large_delta(noise.delta, K * study.study.min_records),
        ),
        rows.row(
            "Charlie",
            K,
            "Charlie sees ciphertexts, and the sum that everybody sees. If he breaks the rules, he can shift the sum, "
            "and with it the statistics. Nothing that a party sends depends on it.",
            "Charlie colludes with nobody, and cannot break the lead's Paillier key",
        ),
        rows.row(
            "one party",
            K - 1,
            "A party knows its own counts and its own noise and takes them off; the others' noise stays. The lead "
            "opens the sum, never a part.",
            "the party colludes with nobody",
        ),
        rows.row(
            f"Charlie with {counted(t, 'party', 'parties')}",
            K - t,
            f"They take their own noise off; {honest_noise(K - t)} stays. If the lead is among them, they hold the key "
            "and every ciphertext. They still see only the sum of what the others sent: each contribution is masked.",
            "the other parties are honest",
        ),
    ]
    if t < K - 1:
        views.append(
            rows.row(
                "Charlie with all parties but one",
                1,
                "What is left is one party's counts with that party's own noise.",
                "the party that holds the record is honest",
            )
        )
    if honest > 1:
        views.append(
            rows.row(
                "everybody, where one honest party adds no noise",
                honest - 1,
                f"The privacy target counts on {honest_noise(honest)}. A missing share weakens it like one more party "
                "on Charlie's side. A share that is too small counts by its variance. Nobody sees either from outside.",
                "the party that holds the record draws its own share",
            )
        )
    return (*views, replace(PARTY_UNIT, view=_RELEASED))

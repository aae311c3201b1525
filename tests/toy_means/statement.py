"""Who sees what of a run of ``toy-means``, and what is proved of it."""

from masquerade_core.privacy.several_records import several_records
from masquerade_core.privacy.statement import Claim, SharedNoiseRows
from masquerade_core.study import Study
from tests.toy_means.roles import noise_of

__all__ = ["statement"]


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement: one Gaussian release, of which the parties draw shares."""
    noise = noise_of(study)
    rows = SharedNoiseRows(
        noise=noise,
        K=study.K,
        source="one Gaussian release; Balle and Wang 2018, Theorem 8",
        assumptions=("everybody follows the protocol", "the model is released once"),
    )
    found = (
        rows.row("released model", study.K, "The sum of all records carries the noise of all parties."),
        rows.row("Charlie", study.K, "Charlie sees ciphertexts, and the sum that everybody sees."),
        rows.row("one party", study.K - 1, "A party takes its own noise off; the others' noise stays."),
    )
    return (*found, *several_records(study, found[0], lambda size: noise.proved(study.K, size)))

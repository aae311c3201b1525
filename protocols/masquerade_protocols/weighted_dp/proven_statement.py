"""Who sees what of a run of ``weighted-dp`` with proven noise, which keeps the privacy target in every view.

A party takes T sums of its records' gradients and adds its own noise to each. Replacing one record moves a sum by at
most Delta, however many records n_j there are. So the noise on a *sum* follows from the target, from T, and from G, the
longest gradient of a record. All that leaves the party is a function of these noisy sums and of n_j, so nobody else has
to be trusted, and colluders are not counted. ``docs/privacy/weighted-dp.md`` derives it.
"""

from functools import partial

from masquerade_core.privacy.several_records import several_records
from masquerade_core.privacy.statement import ONE_RELEASE, PUBLIC_SETTINGS, Claim, Rows, digits, large_delta
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.local_descent import UNIT
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.weighted_dp.public import noise_of

__all__ = ["proven_statement"]

_ROWS = Rows(
    source="docs/privacy/weighted-dp.md: exact composition of T Gaussian rounds at one party; Balle and Wang 2018, "
    "Theorem 8",
    assumptions=(
        "the party that holds the record follows the protocol and draws its noise",
        PUBLIC_SETTINGS,
        "n, the number of all records, is published as it is; epsilon does not cover sizes",
        ONE_RELEASE,
    ),
)


def proven_statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement for ``calibration = "proven"``."""
    privacy, noise, words = study.privacy, noise_of(study), sum_words(study)
    sd = digits(float(noise.share / UNIT))
    target = f"epsilon = {digits(privacy.epsilon)}, delta = {privacy.delta:g}"
    row = partial(
        _ROWS.proved,
        claimed=f"approximate, {target}: the privacy target, whoever colludes",
        provable=target,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        holds_at="this noise",
        definition="approximate",
    )
    colluders = max(1, privacy.colluders)
    left = study.K - colluders
    rest = (
        "the last party's number of records, and its classifier with its own noise"
        if left == 1
        else f"the sum of {left} classifiers, each with its party's own noise"
    )
    found = (
        row(
            "released model",
            "The model is an average of the parties' noisy local descents. A party adds noise of its own, of standard "
            f"deviation {sd}, to each coordinate of every sum of its gradients. That is enough for its records, and "
            "whatever is computed from the noisy sums costs nothing more."
            + large_delta(privacy.delta, study.K * study.study.min_records),
        ),
        row(
            "Charlie",
            f"Charlie sees {words.charlie_sees}, and the two sums that everybody sees. The paper's server sees every "
            "party's classifier; even that would cost no more than is proved here. The parties train before they "
            "join, so nobody sees how long that takes.",
        ),
        row(
            "one party",
            f"A party knows its own records and its own noise; the others' noise stays. {words.one_party}",
        ),
        row(
            f"Charlie with {counted(colluders, 'party', 'parties')}",
            f"They subtract their own classifiers from the sum. That leaves {rest}. One party's is enough for this "
            "bound.",
        ),
    )
    return (*found, *several_records(study, found[0], lambda size: noise.proved(1, size)))

"""The noise with which every walk of ``weighted-dp`` alone keeps a study's wish; ``docs/privacy/weighted-dp.md``.

A party takes T sums of its records' gradients and adds noise of its own to each. Replacing one record moves a sum by at
most Delta, whatever n_j is, so the noise on a *sum* follows from the wish, T and G alone. All that leaves the party is
a function of these noisy sums and of n_j, so nobody else has to be trusted, and no colluders have to be counted.
"""

from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.statement import PARTY_UNIT, Claim, digits

__all__ = ["weighted_proven_statement"]


def weighted_proven_statement(
    noise: SharedNoise, *, K: int, epsilon: float, delta: float, colluders: int, min_records: int, fraction_bits: int
) -> tuple[Claim, ...]:
    """Return the statement for ``weighted-dp`` with calibration "proven".

    Parameters
    ----------
    noise : SharedNoise
        Of :func:`walk_noise`.
    K : int
        Parties.
    epsilon, delta : float
        The wish.
    colluders : int
        Parties that may side with Charlie.
    min_records : int
        The public floor of n_j.
    fraction_bits : int
        F.
    """
    wish, fewest = f"epsilon = {digits(epsilon)}, delta = {delta:g}", K * min_records
    sd = digits(float(noise.share) / 2**fraction_bits)
    common = (
        "the party that holds the record follows the protocol and draws its noise",
        "records are encoded by public bounds and clipped to norm 1; nothing else was chosen by looking at them",
        "n, the number of all records, is published as it is; sizes are not covered by epsilon",
        "the model is released once; every further run over the same records adds its own epsilon",
    )
    mind = (
        f" Mind delta = {delta:g}: it is not less than 1/{fewest:,}, one over the fewest records that there may be, "
        "and a protocol that publishes each record with that probability would do as well by it."
        if delta * fewest >= 1
        else ""
    )

    def row(view: str, text: str) -> Claim:
        return Claim(
            view=view,
            unit="record",
            neighbours="replace one record, all sizes fixed",
            definition="approximate",
            claimed=f"approximate, {wish}: the wish, whoever colludes",
            provable=wish,
            epsilon=epsilon,
            delta=delta,
            holds_at="this noise",
            source="docs/privacy/weighted-dp.md: exact composition of T Gaussian rounds at one party; Balle and Wang "
            "2018, Theorem 8",
            assumptions=common,
            text=text,
        )

    t = max(1, colluders)
    left = K - t
    return (
        row(
            "released model",
            f"The model is an average of the parties' noisy walks. A party's own noise, of standard deviation {sd} on "
            "a coordinate of every sum of its gradients, is enough for its records, and what is computed from a walk "
            "costs nothing more." + mind,
        ),
        row(
            "Charlie",
            "Charlie sees ciphertexts and the two sums that everybody sees. The paper's server sees every party's "
            "classifier; even that would cost no more. A Charlie who breaks the rules can spoil the sums; the noise "
            "does not depend on them. The parties train before they join, when nobody sees how long that takes.",
        ),
        row("one party", "A party knows its own records and noise. The others' noise stands, and the lead opens sums."),
        row(
            "Charlie with the lead",
            "They hold the key and every ciphertext. Each contribution is masked, so they see the sum of the others' "
            "classifiers, and how many records the others have together.",
        ),
        row(
            f"Charlie with {t} {'party' if t == 1 else 'parties'}",
            "They take their own classifiers off the sum. What is left is "
            + (
                "the last party's number of records and noisy walk, for which its own noise is enough."
                if left == 1
                else f"the sum of {left} classifiers, each with its own party's noise; one is enough."
            ),
        ),
        PARTY_UNIT,
    )

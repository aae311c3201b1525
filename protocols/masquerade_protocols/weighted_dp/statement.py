"""Kang, Liu and Wang's noise, what they claim of it, and what is provable of a run of ``weighted-dp``.

Their Theorem 1 calibrates sigma to n = sum_j n_j by adding up, in every round, the parties' gradients at one common
point (equation (4)). Algorithm 1 does not do that: each party walks by itself, along gradients of which one of its own
n_j records moves the mean by 2 G/n_j; and the sum of (n_j/n) z_t has the variance sigma^2 sum_j (n_j/n)^2, not sigma^2.

So what is proved here rests on the walk of the one party that holds the record: T rounds, each of them Gaussian noise
on a vector that moves by 2 G/n_j, compose exactly to mu_j = 2 G sqrt(T)/(n_j sigma). Nothing that leaves that party is
more than a function of its walk, so every view has the same bound, whatever the others do.

n_j is private. What is said holds for the smallest part n_j/n of all records that a study allows: a party that has less
goes no further once n is opened. As sigma is proportional to 1/n, that bound does not depend on n, and so on nobody who
changes it.
"""

import math
from fractions import Fraction

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.privacy.noise.local_descent import C_OF_THE_PROOF, MOST_ROUNDED_RECORDS, exact_mu, rounding_part
from masquerade_core.privacy.samplers.bits import TAIL_BITS
from masquerade_core.privacy.statement import NONE, PARTY_UNIT, Claim, digits

__all__ = ["shown", "weighted_statement"]

_NEIGHBOURS = "replace one record, all sizes fixed"
_NO_COLLUSION = "nothing: the paper's server is trusted"


def shown(part: Fraction) -> str:
    """Return a part of all records as it is read best: 1/20, or 0.03."""
    return str(part) if part.numerator == 1 else f"{float(part):g}"


def weighted_statement(
    *,
    K: int,
    d: int,
    eps: float,
    delta: float,
    c: float,
    G: Fraction,
    rounds: int,
    weights: str,
    smallest_part: Fraction,
    fraction_bits: int,
    draws: int,
    colluders: int,
    min_records: int,
) -> tuple[Claim, ...]:
    """Return the statement for ``weighted-dp``.

    Parameters
    ----------
    K, d : int
        Parties; coordinates.
    eps, delta : float
        The study's wish.
    c : float
        Of equation (3).
    G : Fraction
        Bound on a record's gradient.
    rounds : int
        T.
    weights : str
        "sizes": sigma follows from n, and the figure is that of the smallest part of n that is allowed. "uniform":
        sigma follows from K min_records, so the figure is that of min_records.
    smallest_part : Fraction
        The least n_j/n that a party may have; "sizes" only.
    fraction_bits : int
        F of the grid 2^-F.
    draws : int
        Vectors of noise that a party draws; each is within total variation 2^-60 of its law.
    colluders : int
        Parties that may side with Charlie.
    min_records : int
        The public floor of n_j.
    """
    extra = rounding_part(d, fraction_bits, G)

    def proved(part: float) -> float:
        return epsilon_of(exact_mu(c=c, epsilon=eps, delta=delta, part=part, rounding=extra), delta)

    by_size = weights == "sizes"
    found = proved(float(smallest_part) if by_size else 1 / K)
    lost = draws * 2.0**-TAIL_BITS * (1 + math.exp(min(found, 700.0)))  # each draw's distance from its law
    total = min(1.0, delta + lost)
    claimed = f"approximate, epsilon = {digits(eps)}, delta = {delta:g}, with a trusted server (Theorem 1)"
    if c < C_OF_THE_PROOF:
        claimed += f"; its proof needs c >= {C_OF_THE_PROOF}, and c is {c:g}"
    about: tuple[str, ...] = ()
    if by_size:
        spread = (
            f" It holds for every party that takes part, the smallest with {shown(smallest_part)} of all records: who "
            f"has less refuses when n is opened. With an even share, 1/{K}, it is epsilon = {digits(proved(1 / K))}. "
            "In general mu_j = 2 epsilon/((n_j/n) sqrt(c ln(1/delta))), and what is proved is the epsilon' at which "
            "Phi(-epsilon'/mu_j + mu_j/2) - exp(epsilon') Phi(-epsilon'/mu_j - mu_j/2) is delta."
        )
        about = (f"the party that holds the record refuses if it has less than {shown(smallest_part)} of all records",)
        sizes = "n, the number of all records, is published as it is; sizes are not covered by epsilon"
    else:
        spread = " It holds for every party, as each has at least min_records."
        sizes = f"each party has at least {min_records:,} records; no sum of sizes is opened"
    common = (
        "everybody follows the protocol",
        "records are encoded by public bounds and clipped to norm 1; nothing else was chosen by looking at them",
        f"a party has at most {MOST_ROUNDED_RECORDS:,} records, for which rounding is counted",
        sizes,
        "the model is released once; every further run over the same records adds its own epsilon",
    )
    wanted = 2 * math.sqrt(rounds) * float(G) / mu_of(eps, delta)

    def row(view: str, text: str, *assumptions: str, claimed: str = _NO_COLLUSION) -> Claim:
        return Claim(
            view=view,
            unit="record",
            neighbours=_NEIGHBOURS,
            definition=NONE if total >= 1 else "approximate, computational",
            claimed=claimed,
            provable=NONE if total >= 1 else f"epsilon = {digits(found)}, delta = {total:.1e}, for every party",
            epsilon=None if total >= 1 else found,
            delta=None if total >= 1 else total,
            holds_at=f"noise of standard deviation {digits(wanted)}/n_j, that is 2 G sqrt(T)/(n_j mu(epsilon, delta))",
            source="our derivation: exact composition of T Gaussian rounds at one party",
            assumptions=(*common, *about, *assumptions),
            text=text,
        )

    t = max(1, colluders)
    return (
        row(
            "released model",
            "The model is an average of the parties' noisy walks, and the paper adds their privacy up as if they had "
            "walked together. What is proved is the privacy of one party's walk alone." + spread,
            claimed=claimed,
        ),
        row(
            "Charlie",
            "Charlie sees ciphertexts and the sum that everybody sees. The paper's server sees every party's "
            "classifier; even that would cost no more than is proved here. How long a party trains shows in the time "
            "at which its contribution arrives, and so, roughly, how many records it has.",
            "Charlie colludes with nobody, and cannot break the lead's Paillier key",
            claimed=claimed,
        ),
        row(
            "one party",
            "A party knows its own records and noise. The others' noise stands. The lead opens the sum, never a part.",
            "the party colludes with nobody",
        ),
        row(
            "Charlie with the lead",
            "They hold the key and every ciphertext. Each contribution is masked with numbers unknown to them, so they "
            "see the sum of the others' classifiers"
            + (", and how many records the others have together." if by_size else "."),
            "another party is honest",
        ),
        row(
            f"Charlie with {t} {'party' if t == 1 else 'parties'}",
            "They take their own classifiers off the sum. "
            + (
                "What is left is the last party's classifier, with its own noise"
                if K - t == 1
                else f"What is left is the sum of {K - t} classifiers, each with its party's own noise"
            )
            + "; one party's noise is enough for this bound.",
            "at least one party is honest",
        ),
        PARTY_UNIT,
    )

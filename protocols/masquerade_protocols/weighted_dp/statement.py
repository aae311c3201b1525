"""Who sees what of a run of ``weighted-dp``: what Kang, Liu and Wang claim of their noise, and what is proved of it.

Their Theorem 1 sizes sigma for n = sum_j n_j records. Its proof adds up, in every round, the parties' gradients at one
common point (equation (4)). Algorithm 1 has no common point: each party descends by itself, along gradients of which
one of its own n_j records moves the mean by 2 G/n_j. And the sum of (n_j/n) z_t has the variance sigma^2 sum_j
(n_j/n)^2, not sigma^2.

So the proof here rests on the local descent of the one party that holds the record. Each of its T rounds is Gaussian
noise on a vector that moves by 2 G/n_j, and T such rounds compose exactly to mu_j = 2 G sqrt(T)/(n_j sigma). All that
leaves this party is a function of its descent, so every view has the same bound, whatever the others do.

n_j is private, so the statement is about the smallest part n_j/n of all records that the study allows. A party that has
less goes no further once n is opened. As sigma is proportional to 1/n, the bound does not depend on n, and nobody gains
by changing n.
"""

import math
from typing import NamedTuple

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.privacy.noise.local_descent import C_OF_THE_PROOF, MOST_ROUNDED_RECORDS, exact_mu, rounding_part
from masquerade_core.privacy.several_records import Bound, Target, several_records
from masquerade_core.privacy.statement import COMPUTATIONAL, ONE_RELEASE, PUBLIC_SETTINGS, Claim, Rows, digits
from masquerade_core.rng import TAIL_BITS
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.local_descent import FRACTION_BITS, draws, paper_c
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.weighted_dp.proven_statement import proven_statement
from masquerade_protocols.weighted_dp.public import parameters_of, shown, smallest_part

__all__ = ["statement"]

_NO_COLLUSION = "nothing: the paper's server is trusted"


class _View(NamedTuple):
    """A view: the row's text, the paper's claim, the assumptions of this row alone, and the definition."""

    view: str
    text: str
    claimed: str
    assumptions: tuple[str, ...]
    definition: str = COMPUTATIONAL


def statement(study: Study) -> tuple[Claim, ...]:
    """Return the privacy statement, for the study's calibration."""
    return proven_statement(study) if study.proven else _paper_statement(study)


def _paper_statement(study: Study) -> tuple[Claim, ...]:
    """Return the statement for the paper's noise.

    With ``weights = "sizes"`` sigma follows from n, and the proved epsilon is that of the smallest part of n that the
    study allows. With "uniform" sigma follows from K min_records, and the proved epsilon is that of min_records.
    """
    chosen, privacy, K = parameters_of(study), study.privacy, study.K
    c, G, T = paper_c(chosen), loss_of(study.model.loss).L, chosen.rounds
    rounding, part = rounding_part(study.d, FRACTION_BITS, G), smallest_part(study)

    def proved(part: float, size: int = 1) -> float:
        mu = exact_mu(c=c, epsilon=privacy.epsilon, delta=privacy.delta, part=part, rounding=rounding)
        return epsilon_of(size * mu, privacy.delta)

    def spent(epsilon: float) -> float:
        # Each vector of noise is within total variation 2^-TAIL_BITS of its law, under both neighbours.
        lost = draws(T, study.d) * 2.0**-TAIL_BITS * (1 + math.exp(min(epsilon, 700.0)))
        return min(1.0, privacy.delta + lost)

    by_size = chosen.weights == "sizes"
    smallest = float(part) if by_size else 1 / K
    epsilon = proved(smallest)
    delta = spent(epsilon)

    def of_several(size: int) -> Bound:
        found = proved(smallest, size)
        return (found, spent(found)) if spent(found) < 1 else None

    claimed = (
        f"approximate, epsilon = {digits(privacy.epsilon)}, delta = {privacy.delta:g}, with a trusted server "
        "(Theorem 1)"
    )
    if c < C_OF_THE_PROOF:
        claimed += f"; its proof needs c >= {C_OF_THE_PROOF}, and c is {c:g}"
    rows = Rows(
        source="our derivation: exact composition of T Gaussian rounds at one party",
        assumptions=_assumptions(study, by_size=by_size),
    )
    least = 'calibration = "proven" and weights = "sizes", without c and smallest_part,'
    holds_at = f"{least} in the study"

    def settings(target: Target) -> str:
        return f"epsilon = {target.epsilon:g}, {least}"

    if by_size:
        reach = (
            f" The epsilon holds for every party. It is that of a party with {shown(part)} of all records: a party "
            "with less adds as much noise as if it had that part. For a party with an even share, "
            f"1/{K}, it is epsilon = {digits(proved(1 / K))}. "
            "In general mu_j = 2 epsilon/((n_j/n) sqrt(c ln(1/delta))), and the proved epsilon' is the one at which "
            "Phi(-epsilon'/mu_j + mu_j/2) - exp(epsilon') Phi(-epsilon'/mu_j - mu_j/2) is delta."
        )
    else:
        reach = " The epsilon holds for every party, as each has at least min_records."

    found = []
    provable = f"epsilon = {digits(epsilon)}, delta = {delta:.1e}, for every party"
    for view, text, said, own, definition in _views(study, reach, claimed, by_size=by_size):
        row = rows.proved(
            view,
            text,
            *own,
            claimed=said,
            provable=provable,
            epsilon=epsilon,
            delta=delta,
            holds_at=holds_at,
            definition=definition,
        )
        found.append(row)
    return (*found, *several_records(study, found[0], of_several, settings=settings))


def _assumptions(study: Study, *, by_size: bool) -> tuple[str, ...]:
    refusal: tuple[str, ...] = ()
    if by_size:
        sizes = "n, the number of all records, is published as it is; epsilon does not cover sizes"
        least = shown(smallest_part(study))
        refusal = (f"the party that holds the record adds more noise if it has less than {least} of all records",)
    else:
        sizes = f"each party has at least {study.study.min_records:,} records; no sum of sizes is opened"
    return (
        "everybody follows the protocol",
        PUBLIC_SETTINGS,
        f"a party has at most {MOST_ROUNDED_RECORDS:,} records, the most for which rounding is counted",
        sizes,
        ONE_RELEASE,
        *refusal,
    )


def _views(study: Study, reach: str, claimed: str, *, by_size: bool) -> tuple[_View, ...]:
    """Return all views; ``reach`` says for which parties the bound holds, ``claimed`` is Theorem 1."""
    words, colluders = sum_words(study), max(1, study.privacy.colluders)
    left = study.K - colluders
    rest = (
        "the last party's classifier, with its own noise"
        if left == 1
        else f"the sum of {left} classifiers, each with its party's own noise"
    )
    return (
        _View(
            "released model",
            "The model is an average of the parties' noisy local descents. The paper adds up their privacy as if they "
            "had made one descent together. The proof covers one party's descent alone." + reach,
            claimed,
            ("an observer of the release sees nothing that only the participants see",),
            "approximate",
        ),
        _View(
            "Charlie",
            f"Charlie sees {words.charlie_sees}, and "
            + ("the two sums" if by_size else "the sum")
            + " that everybody sees. The paper's server sees every party's classifier; even that would cost no more "
            "than is proved here. Charlie also sees when a party's contribution arrives. That shows how long the party "
            "trained, and so roughly how many records it has.",
            claimed,
            (words.charlie,),
        ),
        _View(
            "one party",
            f"A party knows its own records and its own noise; the others' noise stays. {words.one_party}",
            _NO_COLLUSION,
            (words.party,),
        ),
        _View(
            f"Charlie with {counted(colluders, 'party', 'parties')}",
            f"They subtract their own classifiers from the sum. That leaves {rest}. One party's is enough for this "
            "bound.",
            _NO_COLLUSION,
            ("the party that holds the record is honest",),
            "approximate",
        ),
    )

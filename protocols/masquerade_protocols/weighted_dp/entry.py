"""Weighted DP, for those who choose it."""

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.weighted_dp import roles as weighted_dp
from masquerade_protocols.weighted_dp.noiseless import noiseless
from masquerade_protocols.weighted_dp.proven_statement import weighted_proven_statement
from masquerade_protocols.weighted_dp.statement import shown, weighted_statement

__all__ = ["WEIGHTED_DP"]

_LEAVES = """
Your records stay on your machine. A classifier is trained on them here, in {rounds} steps, each with noise of your own
on it.

What leaves: {size}that classifier{times}, encrypted, and masked so that not even {lead}, who holds the key, can read it
alone.

What everybody sees: {seen}, which is the model.

{time}
"""
_SEEN = (
    "How long the training takes depends on how many records you have, and Charlie sees when your classifier arrives."
)
_UNSEEN = "You train before you join. How long that takes depends on how many records you have, and nobody sees it."
_COLLUSION = """
Charlie and {lead} together hold the key and all ciphertexts, and still see only the sum of what the other parties sent,
with those parties' noise.

Parties that side with Charlie take their own classifiers off the sum; with all parties but you on his side, he has
yours. What is proved counts on no noise but your own.

{lies} A contribution that is dropped, doubled or foreign ends the run; a party that lies about its records is not
caught.
"""
_RELIES = "Everybody is assumed to follow the protocol."
_RELIES_ON_NOBODY = (
    "The model rests on everybody's following the protocol, your records' privacy on your own noise alone."
)
_COST = """
The paper claims that each of your records loses at most epsilon = {epsilon:g} of its privacy in all. That is not
proved: {proved} What holds against whom stands in the privacy statement.

A second run over the same records costs the same again: the costs add up.
"""
_PROVEN_COST = """
Each of your records loses at most epsilon = {epsilon:g} of its privacy in all, but for a probability of delta =
{delta:g}. That is proved, against everybody else together. It holds whatever part of all records is yours; the noise of
a party with few records is large beside what it learns, and weighs as little as they do.

A second run over the same records costs the same again: the costs add up.
"""
_BY_SIZE = """
what is proved is {found}, if you have at least {part} of all records. The noise is sized for everybody's records
together, and your classifier is made from yours alone: so the fewer of all records are yours, the less privacy they
have. If you have less than that part, your program stops once it knows how many there are in all, and everybody sees
that it stops.
"""
_UNIFORM = "what is proved is {found}, for every party that has at least {least:,} records, as all must."


def _chosen(study: Study) -> weighted_dp.Parameters:
    return weighted_dp.Parameters.model_validate(study.protocol)


def _statement(study: Study) -> tuple[Claim, ...]:
    chosen, privacy = _chosen(study), study.privacy
    if study.proven:
        return weighted_proven_statement(
            weighted_dp.noise_of(study),
            K=study.K,
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            colluders=privacy.colluders,
            min_records=study.study.min_records,
            fraction_bits=local_descent.FRACTION_BITS,
        )
    return weighted_statement(
        K=study.K,
        d=study.d,
        eps=privacy.epsilon,
        delta=privacy.delta,
        c=local_descent.paper_c(chosen),
        G=loss_of(study.model.loss).L,
        rounds=chosen.rounds,
        weights=chosen.weights,
        smallest_part=weighted_dp.smallest_part(study),
        fraction_bits=local_descent.FRACTION_BITS,
        draws=local_descent.draws(chosen.rounds, study.d),
        colluders=privacy.colluders,
        min_records=study.study.min_records,
    )


def _explain(study: Study) -> Explanation:
    chosen, privacy = _chosen(study), study.privacy
    by_size = chosen.weights == "sizes"
    words = {
        "lead": study.lead,
        "rounds": chosen.rounds,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "size": "the number of your records, encrypted and masked; then " if by_size else "",
        "times": " times that number" if by_size else "",
        "seen": (
            "the number of all records together (of two parties, each so learns the other's), and the average of all "
            "classifiers by their numbers of records"
            if by_size
            else "the average of all classifiers"
        ),
        "time": _UNSEEN if study.proven else _SEEN,
        "lies": _RELIES_ON_NOBODY if study.proven else _RELIES,
        "proved": "" if study.proven else _proved(study, by_size=by_size),
    }
    texts = (_LEAVES, _COLLUSION, _PROVEN_COST if study.proven else _COST)
    return Explanation(*(paragraphs(text, words) for text in texts))


def _proved(study: Study, *, by_size: bool) -> str:
    words = {
        "found": _statement(study)[0].provable.partition(", for ")[0],
        "part": shown(weighted_dp.smallest_part(study)),
        "least": study.study.min_records,
    }
    return " ".join((_BY_SIZE if by_size else _UNIFORM).split()).format(**words)


_SECTION = """\
# The smallest part of all records that a party may have: what is proved holds for it. A quarter of an even share, if
# left out.
# smallest_part = 0.05
# Or "uniform": every party's classifier counts the same.
weights = "sizes"
"""


def _cost(study: Study) -> Cost:
    """Price a run at the fewest records that there may be."""
    fewest = study.K * study.study.min_records
    counted = [1] if _chosen(study).weights == "sizes" else []
    return price_of_sums(study, [*counted, weighted_dp.layout(study, weighted_dp.plan(study, fewest)).count])


WEIGHTED_DP = Protocol(
    name="weighted-dp",
    paper="Kang, Liu and Wang",
    party=weighted_dp.party,
    charlie=weighted_dp.charlie,
    parameters=weighted_dp.Parameters,
    section=local_descent.DESCENT_SECTION + _SECTION,
    stages=("keys", "training", "sum"),
    check=weighted_dp.check,
    statement=_statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    calibrations=("paper", "proven"),
    proven_section=local_descent.STEPS_SECTION,
    regularization_note="the larger, the simpler the model; the noise does not depend on it",
)

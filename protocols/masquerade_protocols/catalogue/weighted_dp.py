"""Weighted DP, for those who choose it."""

from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.claims import Claim
from masquerade_core.privacy.weighted_claims import weighted_statement
from masquerade_core.study import Study
from masquerade_protocols import weighted_dp
from masquerade_protocols.protocol import Explanation, Protocol, paragraphs

__all__ = ["WEIGHTED_DP"]

_LEAVES = """
Your records stay on your machine. A classifier is trained on them here, in {rounds} steps, each with noise of your own
on it.

What leaves: {size}that classifier{times}, encrypted, and masked so that not even {lead}, who holds the key, can read it
alone.

What everybody sees: {seen}, which is the model.

How long the training takes depends on how many records you have, and Charlie sees when your classifier arrives.
"""
_COLLUSION = """
Charlie and {lead} together hold the key and all ciphertexts, and still see only the sum of what the other parties sent,
with those parties' noise.

Parties that side with Charlie take their own classifiers off the sum; with all parties but you on his side, he has
yours. What is proved counts on no noise but your own.

Everybody is assumed to follow the protocol. A contribution that is dropped, doubled or foreign ends the run; a party
that lies about its records is not caught.
"""
_COST = """
The paper claims that each of your records loses at most epsilon = {epsilon:g} of its privacy in all. That is not
proved: {proved} What holds against whom stands in the privacy statement.

A second run over the same records costs the same again: the costs add up.
"""
_BY_SIZE = """
what is proved is {even}, if you have one {K}th of all records. The fewer of all records are yours, the less privacy
they have: the noise is sized for everybody's records together, and your classifier is made from yours alone.
"""
_UNIFORM = "what is proved is {even}, for every party that has at least {least:,} records, as all must."


def _chosen(study: Study) -> weighted_dp.Parameters:
    return weighted_dp.Parameters.model_validate(study.protocol)


def _statement(study: Study) -> tuple[Claim, ...]:
    chosen = _chosen(study)
    return weighted_statement(
        K=study.K,
        d=study.d,
        eps=study.privacy.epsilon,
        delta=study.privacy.delta,
        c=chosen.c,
        G=loss_of(study.model.loss).L,
        rounds=chosen.rounds,
        weights=chosen.weights,
        fraction_bits=weighted_dp.FRACTION_BITS,
        draws=weighted_dp.draws(chosen.rounds, study.d),
        colluders=study.privacy.colluders,
        min_records=study.study.min_records,
    )


def _explain(study: Study) -> Explanation:
    chosen = _chosen(study)
    by_size = chosen.weights == "sizes"
    even = _statement(study)[0].provable.partition(", for ")[0]
    proved = " ".join(_BY_SIZE.split()) if by_size else _UNIFORM
    proved = proved.format(even=even, K=study.K, least=study.study.min_records)
    words = {
        "lead": study.lead,
        "rounds": chosen.rounds,
        "epsilon": study.privacy.epsilon,
        "size": "the number of your records, encrypted and masked; then " if by_size else "",
        "times": " times that number" if by_size else "",
        "seen": (
            "the number of all records together (of two parties, each so learns the other's), and the average of all "
            "classifiers by their numbers of records"
            if by_size
            else "the average of all classifiers"
        ),
        "proved": proved,
    }
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


WEIGHTED_DP = Protocol(
    name="weighted-dp",
    paper="Kang, Liu and Wang",
    party=weighted_dp.party,
    charlie=weighted_dp.charlie,
    parameters=weighted_dp.Parameters,
    section=weighted_dp.DESCENT_SECTION
    + '# Or "uniform": every party\'s classifier counts the same.\nweights = "sizes"\n',
    stages=("keys", "training", "sum"),
    check=weighted_dp.check,
    statement=_statement,
    explain=_explain,
)

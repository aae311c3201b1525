"""Local aggregation, for those who choose it."""

from masquerade_core.privacy.claims import Claim, local_aggregation_statement
from masquerade_core.study import Study
from masquerade_protocols import local_aggregation
from masquerade_protocols.protocol import Explanation, Protocol, paragraphs

__all__ = ["LOCAL_AGGREGATION"]


def _statement(study: Study) -> tuple[Claim, ...]:
    return local_aggregation_statement(
        K=study.K,
        d=study.d,
        eps=study.privacy.epsilon,
        delta=study.privacy.delta,
        Lambda=study.model.regularization,
        noise=local_aggregation.Parameters.model_validate(study.protocol).noise,
        fraction_bits=local_aggregation.FRACTION_BITS,
        colluders=study.privacy.colluders,
        min_records=study.study.min_records,
    )


_LEAVES = """
Your records stay on your machine. A classifier is trained on them here, before you join.

What leaves: coins that shuffle the parties; the number of your records, split into two random halves of which {lead}
gets one and Charlie the other, his without your name; noise, encrypted and masked; and your classifier, hidden behind a
random number as large as the key.

What is published: {shares} random-looking shares. They add up to the sum of the {K} classifiers and of the noise that
the party with the fewest records drew. Anybody can add them up; that sum is the model. Where the noise is not small,
it also shows roughly how many records that party has.
"""
_COLLUSION = """
Charlie and {lead} must not work together: with both their keys they read everybody's number of records and whose noise
was taken, though no single classifier. If it was {lead}'s own, they take it off the model.

Charlie and any other party together learn of {pairs} pairs of parties which has fewer records, and who has the
fewest. If it is that party, it can take its noise off the model.

The party with the fewest records can do so alone, for it knows the noise: that is the paper's design. With two parties
it then holds the other's classifier.

Everybody is assumed to follow the protocol. A party that lies about its records, and a Charlie who steers the
comparison, are not caught.
"""
_COST = """
The paper claims that each of your records loses at most epsilon = {epsilon:g} of its privacy to whoever sees the model.
What is proved, and against whom, stands in the privacy statement.

A second run over the same records costs the same again: the costs add up.
"""


def _explain(study: Study) -> Explanation:
    words = {
        "lead": study.lead,
        "K": study.K,
        "shares": study.K + 1,
        "pairs": study.K - 1,
        "epsilon": study.privacy.epsilon,
    }

    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


LOCAL_AGGREGATION = Protocol(
    name="local-aggregation",
    paper="Pathak, Rane and Raj 2010",
    party=local_aggregation.party,
    charlie=local_aggregation.charlie,
    parameters=local_aggregation.Parameters,
    section='# Or "l2".\nnoise = "laplace"\n',
    stages=("training", "keys", "stage 1: smallest data set", "stage 2: noise", "stage 3: shares"),
    check=local_aggregation.packing,
    statement=_statement,
    explain=_explain,
)

"""Local aggregation, for those who choose it."""

from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.local_aggregation import roles as local_aggregation
from masquerade_protocols.local_aggregation.noiseless import noiseless
from masquerade_protocols.local_aggregation.proven_statement import local_proven_statement
from masquerade_protocols.local_aggregation.statement import local_aggregation_statement

__all__ = ["LOCAL_AGGREGATION"]


def _statement(study: Study) -> tuple[Claim, ...]:
    if study.proven:
        return local_proven_statement(local_aggregation.joint_noise_of(study))
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


_PROVEN_LEAVES = {
    "selected": """
Your records stay on your machine. A classifier is trained on them here, before you join.

What leaves: coins that shuffle the parties; the number of your records, split into two random halves of which {lead}
gets one and Charlie the other, his without your name; how much noise so many records would need, encrypted so that only
the answer of the party with the fewest is left, which nobody reads; your share of that noise, encrypted and masked; and
your classifier, hidden behind a random number as large as the key.

What is published: {shares} random-looking shares. They add up to the sum of the {K} classifiers and of everybody's
noise. Anybody can add them up; that sum is the model. Where the noise is not small, it also shows roughly how many
records the party with the fewest has.
""",
    "floor": """
Your records stay on your machine. A classifier is trained on them here, before you join.

What leaves: coins, and your classifier with your share of the noise, hidden behind a random number as large as a key.
The noise is sized as if every party had only {floor:,} records, so sizes are not compared, and none shows in it.

What is published: {shares} random-looking shares. They add up to the sum of the {K} classifiers and of everybody's
noise. Anybody can add them up; that sum is the model.
""",
    "sizes": """
Your records stay on your machine. A classifier is trained on them here, before you join.

What leaves: coins, the number of your records, and your classifier times that number with your share of the noise, both
hidden behind random numbers as large as a key.

What is published: {shares} random-looking shares. They add up to the number of all records together (of two parties,
each so learns the other's), and to the sum of the {K} classifiers, each counted as often as its party has records, with
everybody's noise. From these follows the model.
""",
}
_PROVEN_KEYS = {
    "selected": """
Charlie and {lead} together hold both keys and read everybody's number of records, though no classifier but what the sum
shows. Charlie and any other party together read how much noise the party with the fewest records asked for, and so
about how many it has, and of {pairs} pairs of parties which has fewer.

""",
    "floor": """
Charlie and {lead} together see no more than the sum of what the other parties sent: nobody holds a key here.

""",
    "sizes": """
Charlie and {lead} together see no more than the sum of what the other parties sent: nobody holds a key here.

""",
}
_PROVEN_COLLUSION = """
{wish}

Every party knows its own share of the noise and takes it off, the party with the fewest records like any other.
{beyond}
{keys}
Everybody is assumed to follow the protocol and to draw its share of the noise. A party that lies about its records or
adds no noise is not caught{steering}.
"""
_PROVEN_COST = """
Each of your records loses at most epsilon = {epsilon:g} of its privacy to whoever sees the model, but for a probability
of delta = {delta:g}. That is proved.{careful}

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
    if study.proven:
        return _explain_proven(study, words)
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


def _explain_proven(study: Study, words: dict[str, object]) -> Explanation:
    law, privacy, t = local_aggregation.joint_noise_of(study).law, study.privacy, study.privacy.colluders
    fewest = study.K * study.study.min_records
    if t:
        parties = "one other party sides" if t == 1 else f"{t} other parties side"
        wish = f"What is promised holds even if {parties} with Charlie."
        beyond = "If more side with Charlie, less is promised; the privacy statement says how much."
    else:
        wish = "What is promised holds against Charlie, and against all who see the model."
        beyond = (
            "The noise is sized for nobody doing so: less is promised against a party than against outsiders, and the "
            "privacy statement says how much. Set colluders to 1 or more, and there will be more noise."
        )
    more = {
        **words,
        "floor": study.study.min_records,
        "delta": privacy.delta,
        "wish": wish,
        "beyond": beyond,
        "steering": ", nor is a Charlie who steers the comparison" if law == "selected" else "",
        "careful": f" Such a delta is large: with {fewest:,} records it allows one of them to be published."
        if privacy.delta * fewest >= 1
        else "",
    }
    collusion = _PROVEN_COLLUSION.replace("{keys}", _PROVEN_KEYS[law])
    return Explanation(*(paragraphs(text, more) for text in (_PROVEN_LEAVES[law], collusion, _PROVEN_COST)))


_PROVEN_SECTION = """\
# The noise is sized for the party with the fewest records, whose number stays hidden: "selected".
# Or for min_records, as if every party had no more: "floor".
scale = "selected"
# Each classifier counts once: "uniform". Or as often as its party has records: "sizes". Then there is less noise,
# whatever scale says, and the number of all records is published.
weights = "uniform"
"""


_EXPONENTIATIONS = 80
"""Of the paper's protocol with five parties, all participants together; it grows with the number of parties."""

_USUAL_PARTIES = 5


def _cost(study: Study) -> Cost:
    """Price a run; with calibration "proven" and a public scale nothing is encrypted."""
    if study.proven and local_aggregation.joint_noise_of(study).law != "selected":
        return Cost(sums=0, plaintexts=0, ciphertexts=0, round_trips=5, exponentiations=0.0)
    count, K = local_aggregation.packing(study).count, study.K
    matches = (K - 1).bit_length()
    return Cost(
        sums=0,
        plaintexts=count + study.proven,  # the noise term, and the scale term
        # The permuted and the blinded sizes; the indicator, to every party; noise terms and their total; scales.
        ciphertexts=2 * K + K * K + K * count + 2 * (K - 1) * study.proven,
        round_trips=9 + matches + 2 * study.proven,
        exponentiations=_EXPONENTIATIONS * max(1.0, K / _USUAL_PARTIES),
    )


LOCAL_AGGREGATION = Protocol(
    name="local-aggregation",
    paper="Pathak, Rane and Raj 2010",
    party=local_aggregation.party,
    charlie=local_aggregation.charlie,
    parameters=local_aggregation.Parameters,
    section='# Or "l2".\nnoise = "laplace"\n',
    stages=("training", "keys", "stage 1: smallest data set", "stage 2: noise", "stage 3: shares"),
    check=local_aggregation.check,
    statement=_statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    calibrations=("paper", "proven"),
    proven_section=_PROVEN_SECTION,
    regularization_note="the larger, the less noise, and the simpler the model",
)

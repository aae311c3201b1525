"""Local aggregation for those who choose it: its parameters, an explanation in plain words, its cost and its entry."""

from math import sqrt

from masquerade_core.privacy.noise.joint_gaussian import JointNoise
from masquerade_core.privacy.noise.output_perturbation import paper_scale
from masquerade_core.privacy.statement import gained
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.explanation import careful_of_delta, of_a_person
from masquerade_protocols.comparing import times
from masquerade_protocols.entry import Cost, Explanation, Protocol, WeightNoise, paragraphs
from masquerade_protocols.local_aggregation.noiseless import expectation, noiseless, times_the_paper_s
from masquerade_protocols.local_aggregation.public import (
    Parameters,
    check,
    joint_noise_of,
    packing,
    parameters_of,
    selects,
)
from masquerade_protocols.local_aggregation.roles import charlie, party
from masquerade_protocols.local_aggregation.statement import statement

__all__ = ["LOCAL_AGGREGATION"]

_LEAVES = """
Your records stay on your machine. Your program trains a classifier on them here, before you join.

Four things leave your machine. First, random numbers that shuffle the parties. Second, the number of your records,
split into two random numbers that add up to it: {lead} gets one, and Charlie gets the other without your name. Third,
noise, encrypted and masked. Fourth, your classifier, hidden behind random numbers as large as the key.

The run publishes {shares} random-looking shares, and anybody can add them up. Their sum is the sum of the {K}
classifiers, plus the noise that the party with the fewest records drew. From that sum follows the model. Where the
noise is not small, it also shows roughly how many records that party has.
"""
_COLLUSION = """
Charlie and {lead} must not work together. With both their keys they read everybody's number of records, and so learn
whose noise was taken. They read no other party's classifier, only the sum. If {lead} itself drew that noise, they can
take it off the model.

Charlie and any other party together learn, for {pairs} of parties, which of the two has fewer records. So they learn
who has the fewest. If that other party has the fewest, it can take its noise off the model.

The party with the fewest records can take its noise off alone, because it knows that noise. That is the paper's
design. With two parties, this party then holds the other's classifier.

Everybody is assumed to follow the protocol. Nobody notices a party that lies about its records, or a Charlie who steers
the comparison.
"""
_COST = """
The paper claims epsilon = {epsilon:g} for each of your records, against anybody who sees the model. The privacy
statement says what is proved, and against whom.{person}

A second run over the same records costs the same again: the costs add up.
"""

_PROVEN_LEAVES = {
    "selected": """
Your records stay on your machine. Your program trains a classifier on them here, before you join.

Four things leave your machine. First, random numbers that shuffle the parties. Second, the number of your records,
split into two random numbers that add up to it: {lead} gets one, and Charlie gets the other without your name. Third,
roughly the same number, encrypted: only that of the party with the fewest records is opened. Fourth, your classifier
with your share of the noise, hidden behind random numbers as large as a key.

All participants are told the smallest number of records, to within 19 %, and not whose it is. Your program continues
only if noise for that number is enough for your own records.

The run publishes {shares} random-looking shares, and anybody can add them up. Their sum is the sum of the {K}
classifiers, plus everybody's noise. From that sum follows the model.
""",
    "floor": """
Your records stay on your machine. Your program trains a classifier on them here, before you join.

Two things leave your machine. First, random numbers that go into this run's masks. Second, your classifier with your
share of the noise, hidden behind random numbers as large as a key. The noise is sized as if every party had only
{floor:,} records. So nobody compares numbers of records, and the noise shows none of them.

The run publishes {shares} random-looking shares, and anybody can add them up. Their sum is the sum of the {K}
classifiers, plus everybody's noise. From that sum follows the model.
""",
    "sizes": """
Your records stay on your machine. Your program trains a classifier on them here, before you join.

Three things leave your machine. First, random numbers that go into this run's masks. Second, the number of your
records. Third, your classifier times that number, with your share of the noise. The second and the third are hidden
behind random numbers as large as a key.

The run publishes {shares} random-looking shares, and anybody can add them up. They give the number of all records
together (of two parties, each thus learns the other's). They also give the sum of the {K} classifiers, each counted as
often as its party has records, plus everybody's noise. From both follows the model.
""",
}
_NO_KEY = """
Nobody holds a key here. Charlie and any party together see no more than the sum of what the other parties sent.

"""
_PROVEN_KEYS = {
    "selected": """
Charlie and {lead} together hold both keys and read everybody's number of records. Of the other classifiers they read
only the sum. Charlie and any other party together learn, for {pairs} of parties, which of the two has fewer records.

""",
    "floor": _NO_KEY,
    "sizes": _NO_KEY,
}
_PROVEN_COLLUSION = """
{target}

Every party, the one with the fewest records included, knows its own share of the noise and can subtract it. {beyond}
{keys}
{rules}
"""
_PROVEN_RULES = """\
It makes no difference to your noise whether Charlie and such parties follow the protocol. A party that adds no noise
counts as one of them. Whatever they do, they cannot remove your noise, or that of others who follow the protocol.
They can spoil the model, and nobody notices.{sizes}\
"""
_SIZES_IN_DANGER = """ They can also learn more of your number of records: {lead} with Charlie all of it, and others
whether it is below a number of their choice, in a run that your program then ends.\
"""
_PROVEN_COST = """
{gained} That is proved against anybody who sees the model.{careful}{person}

A second run over the same records costs the same again: the costs add up.
"""


def _explain(study: Study) -> Explanation:
    words = {
        "lead": study.lead,
        "K": study.K,
        "shares": study.K + 1,
        "pairs": counted(study.K - 1, "pair"),
        "epsilon": study.privacy.epsilon,
        "person": of_a_person(study),
    }
    if study.proven:
        return _explain_proven(study, joint_noise_of(study), words)
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


def _explain_proven(study: Study, noise: JointNoise, words: dict[str, object]) -> Explanation:
    rule, privacy, t = noise.scale_rule, study.privacy, study.privacy.colluders
    if t:
        others = "one other party sides" if t == 1 else f"{t} other parties side"
        target = f"The promise holds even if {others} with Charlie."
        beyond = "If more side with Charlie, less is promised; the privacy statement says how much."
    else:
        target = "What is promised holds against Charlie, and against all who see the model."
        beyond = (
            "The noise is sized as if no party did that. So less is promised against a party than against outsiders; "
            "the privacy statement says how much. Set colluders to 1 or more, and there will be more noise."
        )
    more = {
        **words,
        "floor": study.study.min_records,
        "gained": gained(privacy.epsilon, privacy.delta, about="one of your records"),
        "target": target,
        "beyond": beyond,
        "careful": careful_of_delta(study),
    }
    rules = _PROVEN_RULES.replace("{sizes}", _SIZES_IN_DANGER if rule == "selected" else "")
    collusion = _PROVEN_COLLUSION.replace("{keys}", _PROVEN_KEYS[rule]).replace("{rules}", rules)
    return Explanation(*(paragraphs(text, more) for text in (_PROVEN_LEAVES[rule], collusion, _PROVEN_COST)))


_SECTION = """\
# The distribution of the noise: "laplace", as in the paper; or "l2", which is the same in all directions.
noise = "laplace"
"""

_PROVEN_SECTION = """\
# "selected": stages 1 and 2 of the paper find the party with the fewest records, and the noise is sized for it. All who
# take part learn that number, to within 19 %, and not whose it is.
# "floor": the noise is sized for min_records, as if every party had no more. Nothing is selected, and no size shows.
scale = "selected"
# "uniform": each classifier counts once. "sizes": each counts as often as its party has records. Then there is less
# noise, the setting scale has no effect, and the number of all records is published.
weights = "uniform"
"""


_EXPONENTIATIONS = 80
"""The time of the paper's protocol with five parties, for all participants. It grows with the number of parties."""

_USUAL_PARTIES = 5


def _cost(study: Study) -> Cost:
    """Price a run. Where the scale of the noise is public, nothing is encrypted."""
    if not selects(study):
        return Cost(sums=0, plaintexts=0, ciphertexts=0, round_trips=5, exponentiations=0.0)
    count, K = 1 if study.proven else packing(study).count, study.K  # a size class, or the noise
    return Cost(
        sums=0,
        plaintexts=count,
        # The permuted and the blinded sizes; the indicator, to every party; the terms and their total.
        ciphertexts=2 * K + K * K + K * count,
        round_trips=9 + (K - 1).bit_length() + study.proven,
        exponentiations=_EXPONENTIATIONS * max(1.0, K / _USUAL_PARTIES),
    )


def _weight_noise(study: Study, _records: int | None) -> WeightNoise | None:
    """Return the noise on a weight of the model, which is the sum of what the parties send, divided by K, or by N.

    Where it follows from the smallest party's size, or is divided by N, nobody knows it. The bound is that of
    ``min_records`` everywhere.
    """
    if not study.proven:
        if parameters_of(study).noise != "laplace":
            return None
        scale = paper_scale(study.study.min_records, study.privacy.epsilon, study.model.regularization)
        return WeightNoise(sqrt(2) * float(scale), at_most=True)
    noise = joint_noise_of(study)
    parts = study.K * study.study.min_records if noise.scale_rule == "sizes" else study.K
    sd = sqrt(study.K) * float(noise.share()) / (1 << noise.fraction_bits) / parts
    return WeightNoise(sd, at_most=noise.scale_rule != "floor")


_BESIDE = {
    "selected": "Stages 1 and 2 ran as in the paper; what they selected is a size, and the noise was drawn jointly.",
    "floor": "Stages 1 and 2 of the paper did not run, since the scale of the noise is public; it was drawn jointly.",
    "sizes": "Stages 1 and 2 of the paper did not run, since the scale of the noise is public; it was drawn jointly.",
}


def _beside_the_paper(study: Study) -> str:
    if not study.proven:
        return "All stages ran as in the paper. The party with the fewest records drew the noise, and can take it off."
    return (
        f"{_BESIDE[joint_noise_of(study).scale_rule]} The paper's own noise (--calibration paper) would be "
        f"{times(times_the_paper_s(study))} as long, if all parties had {study.study.min_records:,} records; the party "
        "that drew it could take it off."
    )


LOCAL_AGGREGATION = Protocol(
    name="local-aggregation",
    meaning=2,
    streams=True,
    paper="Pathak, Rane and Raj 2010",
    party=party,
    charlie=charlie,
    parameters=Parameters,
    section=_SECTION,
    stages=("training", "keys", "stage 1: smallest data set", "stage 2: noise", "stage 3: shares"),
    check=check,
    statement=statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    expectation=expectation,
    weight_noise=_weight_noise,
    beside_the_paper=_beside_the_paper,
    theorems="masquerade_protocols.local_aggregation.theorems",
    opens_sizes=lambda study: study.proven and joint_noise_of(study).scale_rule == "sizes",
    calibrations=("paper", "proven"),
    proven_section=_PROVEN_SECTION,
    regularization_note="the larger, the less noise, and the simpler the model",
)

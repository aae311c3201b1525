"""Weighted DP for those who choose it: its parameters, an explanation in plain words, its cost and its entry."""

from masquerade_core.privacy.statement import digits, gained
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.blocks.descent import descent_lengths
from masquerade_protocols.blocks.explanation import of_a_person
from masquerade_protocols.blocks.noise_shares import spends_gaussian
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.weighted_dp.noiseless import expectation, noiseless
from masquerade_protocols.weighted_dp.public import Parameters, check, layout, parameters_of, plan, shown, smallest_part
from masquerade_protocols.weighted_dp.roles import charlie, party
from masquerade_protocols.weighted_dp.statement import statement

__all__ = ["WEIGHTED_DP"]

_LEAVES = """
Your records stay on your machine. Your program trains a classifier on them here, in {steps}, and adds your own noise to
each step.

What leaves: {leaves} {hidden}.

What everybody sees: {seen}, which is the model.

{time}
"""
_SEEN = (
    "The training takes longer the more records you have. Charlie, who passes all messages on, sees when your "
    "classifier arrives."
)
_UNSEEN = "You train before you join. That takes longer the more records you have, and nobody sees how long."
_COLLUSION = """
{collusion}

Parties that side with Charlie can subtract their own classifiers from the sum. If all parties but you side with him, he
has your classifier. The guarantee rests on your own noise alone.

{lies} A contribution that is dropped, doubled or from another run ends the run. Nobody notices a party that lies about
its records.
"""
_RELIES = "Everybody is assumed to follow the protocol."
_RELIES_ON_NOBODY = (
    "The model is right only if everybody follows the protocol. Your records' privacy rests on your own noise alone."
)
_COST = """
The paper claims epsilon = {epsilon:g} for each of your records, in all. That is not proved. {proved} The privacy
statement says what holds against whom.{person}

A second run over the same records costs the same again: the costs add up.
"""
_PROVEN_COST = """
{gained} That is proved, against everybody else together, however many or few of all records are yours. If yours are
few, your noise hides most of what they could teach, and your classifier counts little.{person}

A second run over the same records costs the same again: the costs add up.
"""
_BY_SIZE = """
What is proved is {found}. That is what holds for {part} of all records. The noise is sized for everybody's records
together, but your classifier is made from yours alone. So the smaller your part of all records, the less privacy yours
have.
"""
_UNIFORM = "What is proved is {found}, for every party. Each has at least {least:,} records."
_NOTHING = "With so little noise nothing can be proved."
_MORE = """
 If you have less than {part} of all records, your program adds as much noise as if you had that part.
"""


def _explain(study: Study) -> Explanation:
    chosen, privacy = parameters_of(study), study.privacy
    by_size, sums = chosen.weights == "sizes", sum_words(study)
    words = {
        "collusion": sums.collusion,
        "steps": counted(chosen.rounds, "step"),
        "epsilon": privacy.epsilon,
        "leaves": (
            "the number of your records, and then your classifier times that number. Both are"
            if by_size
            else "your classifier. It is"
        ),
        "hidden": sums.hidden_all if by_size else sums.hidden,
        "gained": gained(privacy.epsilon, privacy.delta, about="one of your records"),
        "person": of_a_person(study),
        "seen": (
            "the number of all records together (of two parties, each thus learns the other's), and the average of all "
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
    model, found, text = statement(study)[0], "", _NOTHING
    if model.epsilon is not None:
        found = f"epsilon = {digits(model.epsilon)}, delta = {model.delta:.1e}"
        text = _BY_SIZE if by_size else _UNIFORM
    if by_size:
        text += _MORE
    words = {"found": found, "part": shown(smallest_part(study)), "least": study.study.min_records}
    return " ".join(text.split()).format(**words)


_SECTION = """\
# The part of all records for which the proof is worked out. A party with less adds more noise, and the proof holds for
# it too. If the line is left out, it is a quarter of an even share.
# smallest_part = 0.05
# "sizes": each classifier counts as often as its party has records. Or "uniform": each counts once.
weights = "sizes"
"""


def _cost(study: Study) -> Cost:
    """Price a run over the fewest records that the study allows."""
    fewest = study.K * study.study.min_records
    sizes = [1] if parameters_of(study).weights == "sizes" else []
    return price_of_sums(study, [*sizes, layout(study, plan(study, fewest)).count])


WEIGHTED_DP = Protocol(
    name="weighted-dp",
    sum_lengths=descent_lengths,
    meaning=2,
    streams=True,
    paper="Kang, Liu and Wang",
    party=party,
    charlie=charlie,
    parameters=Parameters,
    section=local_descent.DESCENT_SECTION + _SECTION,
    stages=("keys", "training", "sum"),
    check=check,
    statement=statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    spends=spends_gaussian,
    opens_sizes=lambda study: parameters_of(study).weights == "sizes",
    expectation=expectation,
    calibrations=("paper", "proven"),
    noise_in_shares=False,
    proven_section=local_descent.STEPS_SECTION,
    regularization_note="the larger, the simpler the model; the noise does not depend on it",
    theorems="masquerade_protocols.weighted_dp.theorems",
)

"""``evaluation``, for those who have a model and want to know how good it is."""

from masquerade_core.privacy.statement import gained
from masquerade_core.study import Study
from masquerade_protocols.blocks.evaluating import what_leaves
from masquerade_protocols.blocks.evaluation import evaluation_layouts, noise_of
from masquerade_protocols.blocks.noisy_sums import careful_of_delta, collusion_of_sums, of_a_person
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.blocks.retrying import with_retries
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.evaluation import roles
from masquerade_protocols.evaluation.noiseless import noiseless
from masquerade_protocols.evaluation.statement import statement

__all__ = ["EVALUATION"]

_LEAVES = """
Your records stay on your machine.

What leaves: first the number of your records. The model stands in the study. {sums} Your share of the noise is on every
number. All of it is {hidden}.

What everybody sees: the number of all records together (of two parties, each thus learns the other's), and the noisy
counts of all records together. From these follow the error and all other figures.
"""
_COST = """
{gained} That holds for this run.{careful}{person}

If the model was learned from the same records, this adds to what they paid then. The figures are also too good then: a
model answers best on what it has seen. Take records that it has not seen, if you have any.
"""


def _explain(study: Study) -> Explanation:
    privacy = study.privacy
    words = {
        "sums": what_leaves(study),
        "hidden": sum_words(study).hidden,
        "gained": gained(privacy.epsilon, privacy.delta, about="one of your records"),
        "careful": careful_of_delta(study),
        "person": of_a_person(study),
    }
    return Explanation(paragraphs(_LEAVES, words), collusion_of_sums(study, "the evaluation"), paragraphs(_COST, words))


def _cost(study: Study) -> Cost:
    """Price a run with the fewest records that there may be."""
    layouts = evaluation_layouts(study, study.K * study.study.min_records)
    return price_of_sums(study, [1, *(layout.count for layout in layouts)])


_ENTRY = Protocol(
    name="evaluation",
    paper="this program's own",
    party=roles.party,
    charlie=roles.charlie,
    parameters=roles.Parameters,
    section="# The model: 'masquerade evaluate STUDY --model MODEL' fills this in.\nweights = []\n",
    stages=("keys", "evaluation"),
    check=roles.check,
    statement=statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    calibrations=("proven",),
    sum="masks",
    multiclass=True,
    measures=True,
)

EVALUATION = with_retries(_ENTRY, lambda study: noise_of(study).largest)
"""The protocol. Its noisy sums may be made again."""

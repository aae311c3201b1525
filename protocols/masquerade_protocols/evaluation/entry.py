"""``evaluation``, for those who have a model and want to know how good it is."""

from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.evaluating import what_leaves
from masquerade_protocols.blocks.evaluation import evaluation_layouts
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.evaluation import roles
from masquerade_protocols.evaluation.noiseless import noiseless
from masquerade_protocols.evaluation.statement import statement

__all__ = ["EVALUATION"]

_LEAVES = """
Your records stay on your machine.

What leaves: first the number of your records. The model stands in the study. {sums} Your share of the noise is on every
number. All of it is encrypted, and masked so that not even {lead}, who holds the key, can read it alone.

What everybody sees: the number of all records together (of two parties, each thus learns the other's), and the noisy
counts of all records together. From these follow the error and all other figures.
"""
_COLLUSION = """
Charlie and {lead} together hold the key and all ciphertexts. They still see only the sum of what the other parties
sent, with those parties' noise.

The noise is sized for {colluders} on Charlie's side. Parties that side with him take their own noise off; the privacy
statement says what is left.
"""
_COST = """
Each of your records loses at most epsilon = {epsilon:g} of its privacy in this run. This can fail with a probability of
delta = {delta:g}.

If the model was learned from the same records, this adds to what they paid then. The figures are also too good then: a
model answers best on what it has seen. Take records that it has not seen, if you have any.
"""


def _explain(study: Study) -> Explanation:
    privacy = study.privacy
    words = {
        "lead": study.lead,
        "sums": what_leaves(study),
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "colluders": counted(privacy.colluders, "party", "parties"),
    }
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST)))


def _cost(study: Study) -> Cost:
    """Price a run with the fewest records that there may be."""
    layouts = evaluation_layouts(study, study.K * study.study.min_records)
    return price_of_sums(study, [1, *(layout.count for layout in layouts)])


EVALUATION = Protocol(
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
    multiclass=True,
    measures=True,
)

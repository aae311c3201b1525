"""``dp-glm``, for those who choose it."""

from collections.abc import Collection
from fractions import Fraction

from masquerade_core.data.loaders import COVARIATES
from masquerade_core.data.records import fewest_to_learn_from
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import count_layout
from masquerade_protocols.blocks.evaluation import with_evaluation
from masquerade_protocols.blocks.noise_shares import spends_gaussian
from masquerade_protocols.blocks.prices import price_of_sums, with_retries
from masquerade_protocols.dp_glm import public, roles
from masquerade_protocols.dp_glm.statement import statement
from masquerade_protocols.entry import Cost, Explanation, Protocol, late

__all__ = ["DP_GLM"]


_LEAVES = """
Your records stay on your machine.

What leaves: six sums over your records, with your share of the noise added. The first three tell where each column
lies, how far it spreads, and how columns and label go together. The others are sums of scores: a record's score tells
how that record would change coefficients that everybody knows. A record that would count too much is weighted down.
Every sum is {hidden}. Before the first of them, the number of your records leaves, hidden in the same way.

What everybody sees: the number of all records together, and the noisy sums over all records. If there are only two
parties, each learns the other's number of records. The coefficients and their intervals follow from these sums. If the
records are so few that nothing can be told, no noisy sum leaves.
"""


_in_words = late("masquerade_protocols.blocks.explanation", "explain_noisy_sums")


def _explain(study: Study) -> Explanation:
    said: Explanation = _in_words(study, len(public.SUMS), leaves=_LEAVES)
    return said


def _cost(study: Study) -> Cost:
    """Price a run with the minimum of records."""
    return price_of_sums(study, [1, *public.Plan(study, fewest_to_learn_from(study)).plaintexts()])


def _sum_lengths(study: Study) -> Collection[int]:
    return {count_layout(study).length, *public.Plan(study, 1).lengths}


_ENTRY = Protocol(
    name="dp-glm",
    records=COVARIATES,
    sum_lengths=_sum_lengths,
    streams=True,
    paper="this program's own",
    party=roles.party,
    charlie=roles.charlie,
    parameters=public.Parameters,
    section='# "logistic" for a label of two values, "linear" for a number with public bounds.\nfamily = "logistic"\n',
    stages=("keys", "moments", "rounds"),
    check=public.check,
    statement=statement,
    explain=_explain,
    noiseless=late("masquerade_protocols.dp_glm.noiseless", "noiseless"),
    cost=_cost,
    spends=spends_gaussian,
    expectation=late("masquerade_protocols.dp_glm.expected", "expected"),
    calibrations=("proven",),
    sum="masks",
    coefficients=True,
    numbers=True,
    regularization=1e-4,
    regularization_note="not used: nothing is added to the likelihood",
    meaning=3,
)


def _dearest(study: Study) -> Fraction:
    """Return the part of the dearest sum."""
    return public.Plan(study, 1).dearest


DP_GLM = with_retries(with_evaluation(_ENTRY), _dearest)

"""``dp-whitened``, for those who choose it."""

from dataclasses import replace
from fractions import Fraction

from masquerade_core.data.records import counted_to_learn_from, fewest_to_learn_from
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import count_layout
from masquerade_protocols.blocks.evaluation import with_evaluation
from masquerade_protocols.blocks.noise_shares import spends_gaussian
from masquerade_protocols.blocks.prices import price_of_sums, with_retries
from masquerade_protocols.dp_whitened import public, roles
from masquerade_protocols.dp_whitened.statement import statement
from masquerade_protocols.entry import Cost, Explanation, Protocol, late

__all__ = ["DP_WHITENED"]


_LEAVES = """
Your records stay on your machine.

What leaves: sums over your records, with your share of the noise added. They are sums of four kinds: the records
themselves, the products of each two of their coordinates, gradients, and counts of the records by their score. A
record's gradient tells how that record would change a classifier that everybody knows. Each record's part of a sum is
cut to a length that is the same for all. Every sum is {hidden}. Before the first of them, the number of your records
leaves, hidden in the same way.

What everybody sees: the number of all records together, and the noisy sums over all records. If there are only two
parties, each learns the other's number of records. The model follows from these sums.
"""


_in_words = late("masquerade_protocols.blocks.explanation", "explain_noisy_sums")


def _explain(study: Study) -> Explanation:
    said: Explanation = _in_words(study, public.MOST_ROUNDS, leaves=_LEAVES)
    return said


def _cost(study: Study) -> Cost:
    """Price a run with the minimum of records; its bytes are those with as many records as are counted on."""
    plan = public.Plan(study, fewest_to_learn_from(study))
    price = price_of_sums(study, [1, *plan.plaintexts()])
    if study.crypto.sum != "masks":
        return price
    expected = public.Plan(study, counted_to_learn_from(study))
    sent, received = expected.bytes
    return replace(price, sent=sent, received=received, memory=expected.memory)


_ENTRY = Protocol(
    name="dp-whitened",
    sum_lengths=lambda study: {count_layout(study).length, *public.lengths(study)},
    streams=True,
    paper="this program's own",
    party=roles.party,
    charlie=roles.charlie,
    parameters=public.Parameters,
    section="# There is nothing to choose: everything follows from public numbers, and from noisy sums.\n",
    stages=("keys", "moments", "rounds"),
    check=public.check,
    statement=statement,
    explain=_explain,
    noiseless=late("masquerade_protocols.dp_whitened.noiseless", "noiseless"),
    cost=_cost,
    spends=spends_gaussian,
    expectation=late("masquerade_protocols.dp_whitened.expected", "expected"),
    calibrations=("proven",),
    sum="masks",
    regularization=1e-4,
    regularization_note="not used: the noise decides how simple the model is",
    multiclass=True,
    learns_from_hundreds=True,
    meaning=4,
)


def _dearest(study: Study) -> Fraction:
    """Return the part of the dearest sum, for as many records as are counted on."""
    from masquerade_core.privacy.expectation import counted_records

    return public.Plan(study, counted_records(study)[0]).dearest


DP_WHITENED = with_retries(with_evaluation(_ENTRY), _dearest)

"""``summary``, for those who choose it."""

import math
from fractions import Fraction

from masquerade_core.data.histograms import cells_loader
from masquerade_core.privacy.expectation import Expectation, expected_of_counts
from masquerade_core.privacy.statement import gained
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.descent import count_layout
from masquerade_protocols.blocks.explanation import careful_of_delta, collusion_of_sums, of_a_person
from masquerade_protocols.blocks.noise_shares import spends_gaussian
from masquerade_protocols.blocks.prices import price_of_sums, with_retries
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.summary import public, roles
from masquerade_protocols.summary.statement import statement

__all__ = ["SUMMARY"]

_SECTION = """\
# Into how many equal cells the public range of a column of numbers is cut.
cells = 32
# The bounds that the statistics suggest lie around these quantiles.
low = 0.02
high = 0.98
# A count is shown only if it reaches so many standard deviations of its noise. Rarer levels are pooled.
suppress_below = 3.0
"""

_LEAVES = """
Your records stay on your machine.

What leaves, once: how many of your records fall into each bin of {histograms}, one for each column and one for the
column to predict. Your share of the noise is on these counts. They are {hidden}.

What everybody sees: the noisy counts of all records together. From these follow the statistics: sizes, rates, means,
quantiles, and which levels occur. No model is made.
"""
_COST = """
{gained} It is proved of the noisy counts, and so of all that follows from them.{careful}{person}

The study that is made from the statistics costs its own epsilon on top, if it learns from the same records: the costs
add up.
"""
_NEEDS = """
At least {min_records:,} records, with the columns {columns}.

What a cell holds does not matter: a number outside the range counts as below or above it, a value that is no public
level as "other", and an empty or unreadable cell as missing. No record makes your process refuse.
"""


def _explain(study: Study) -> Explanation:
    privacy, grid = study.privacy, public.grid_of(study)
    words = {
        "histograms": counted(len(grid.histograms), "histogram"),
        "hidden": sum_words(study).hidden_all,
        "gained": gained(privacy.epsilon, privacy.delta, about="one of your records"),
        "careful": careful_of_delta(study),
        "person": of_a_person(study),
        "min_records": study.study.min_records,
        "columns": ", ".join([*(f"{f.name} ({f.range})" for f in study.features), study.label.name]),
    }
    leaves, cost, needs = (paragraphs(text, words) for text in (_LEAVES, _COST, _NEEDS))
    return Explanation(leaves, collusion_of_sums(study, "the statistics"), cost, needs)


def _expectation(study: Study) -> Expectation:
    """Compare the noise on a count with the records in a bin of the column that has the most bins."""
    sd = math.sqrt(study.K) * float(public.noise_of(study).share) / (1 << public.COUNT_BITS)
    finest = max(public.grid_of(study).histograms, key=lambda histogram: histogram.inner)
    cure = ", or fewer cells" if finest.edges else ", or fewer levels"
    return expected_of_counts(
        study, sd, finest.inner, about="statistics", what=f"the column {finest.name!r}", cure=cure
    )


def _cost(study: Study) -> Cost:
    return price_of_sums(study, [public.layout(study, public.noise_of(study)).count])


_ENTRY = Protocol(
    name="summary",
    sum_lengths=lambda study: {count_layout(study).length, len(public.grid_of(study))},
    meaning=2,
    paper="this program's own",
    party=roles.party,
    charlie=roles.charlie,
    parameters=public.Parameters,
    section=_SECTION,
    stages=("noise", "keys", "histograms"),
    check=public.check,
    statement=statement,
    explain=_explain,
    cost=_cost,
    spends=spends_gaussian,
    expectation=_expectation,
    records=cells_loader(public.grid_of),
    streams=True,
    makes_model=False,
    opens_sizes=lambda _: False,  # the number of records is under noise
    calibrations=("proven",),
    sum="masks",
    multiclass=True,
    regularization_note="statistics need no model, so nothing depends on it",
    learns_from_hundreds=True,
)

SUMMARY = with_retries(_ENTRY, lambda _: Fraction(1))
"""The protocol. Its one sum may be made again."""

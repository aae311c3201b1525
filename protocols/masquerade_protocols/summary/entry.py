"""``summary``, for those who choose it."""

from masquerade_core.data.cells import cells_loader
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.prices import price_of_sums
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
column to predict. Your share of the noise is on these counts. They are encrypted, and masked so that not even {lead},
who holds the key, can read them alone.

What everybody sees: the noisy counts of all records together. From these follow the statistics: sizes, rates, means,
quantiles, and which levels occur. No model is made.
"""
_COLLUSION = """
{promise}

Charlie and {lead} together hold the key and all ciphertexts. They still see only the sum of what the other parties
sent, with those parties' noise.

Parties that side with Charlie take their own noise off. {beyond}

Everybody is assumed to follow the protocol and to draw its share of the noise. A contribution that is dropped, doubled
or from another run ends the run. Nobody notices a party that lies about its records or adds no noise.
"""
_COST = """
Each of your records loses at most epsilon = {epsilon:g} of its privacy. This can fail with a probability of delta =
{delta:g}. It is proved of the noisy counts, and so of all that follows from them.{careful}

The study that is made from the statistics costs its own epsilon on top, if it learns from the same records: the costs
add up.
"""
_NEEDS = """
At least {min_records:,} records, with the columns {columns}.

What a cell holds does not matter: a number outside the range counts as below or above it, a value that is no public
level as "other", and an empty or unreadable cell as missing. No record makes your process refuse.
"""


def _explain(study: Study) -> Explanation:
    privacy, t = study.privacy, study.privacy.colluders
    if t:
        parties = "one other party sides" if t == 1 else f"{t} other parties side"
        promise = f"What is promised holds even if {parties} with Charlie."
        beyond = "If more do, less is promised; the privacy statement says how much."
    else:
        promise = "What is promised holds against Charlie, and against all who see the statistics."
        beyond = (
            "The noise is not sized for that. Every party knows its own noise, so less is promised against a party "
            "than against outsiders; the privacy statement says how much. Set colluders to 1 or more, and there will "
            "be more noise."
        )
    fewest, grid = study.K * study.study.min_records, public.grid_of(study)
    careful = (
        f" Such a delta is large: with {fewest:,} records it allows one of them to be published."
        if privacy.delta * fewest >= 1
        else ""
    )
    words = {
        "lead": study.lead,
        "histograms": counted(len(grid.histograms), "histogram"),
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "promise": promise,
        "beyond": beyond,
        "careful": careful,
        "min_records": study.study.min_records,
        "columns": ", ".join([*(f"{f.name} ({f.range})" for f in study.features), study.label.name]),
    }
    return Explanation(*(paragraphs(text, words) for text in (_LEAVES, _COLLUSION, _COST, _NEEDS)))


def _cost(study: Study) -> Cost:
    return price_of_sums(study, [public.layout(study, public.noise_of(study)).count])


SUMMARY = Protocol(
    name="summary",
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
    records=cells_loader(public.grid_of),
    makes_model=False,
    calibrations=("proven",),
    multiclass=True,
    regularization_note="statistics need no model, so nothing depends on it",
    learns_from_hundreds=True,
)

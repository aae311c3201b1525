"""``evaluation``, for those who have a model and want to know how good it is."""

import math

from masquerade_core.evaluation import count_sd
from masquerade_core.learning.expected_intervals import expected_reach, records_needed
from masquerade_core.privacy.expectation import Expectation, Verdict, counted_records
from masquerade_core.privacy.statement import gained
from masquerade_core.study import Study
from masquerade_protocols.blocks.descent import count_layout
from masquerade_protocols.blocks.evaluation import evaluation_layouts, evaluation_lengths, noise_of
from masquerade_protocols.blocks.explanation import careful_of_delta, collusion_of_sums, of_a_person, what_leaves
from masquerade_protocols.blocks.noise_shares import spends_gaussian
from masquerade_protocols.blocks.prices import price_of_sums, with_retries
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs
from masquerade_protocols.evaluation import roles
from masquerade_protocols.evaluation.noiseless import noiseless
from masquerade_protocols.evaluation.statement import statement

__all__ = ["EVALUATION"]

_WORTH = 0.05  # an interval that reaches farther to each side says little

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


def _expectation(study: Study) -> Expectation:
    """Say how far the intervals of the error would reach in an ordinary case, beside the noise on a count."""
    N, words = counted_records(study)
    sd = count_sd(noise_of(study), study.K)
    if study.classes is None:
        reach, figures = expected_reach(N, sd), "error and AUC"
        needed = records_needed(sd, _WORTH)
    else:
        reach, figures, needed = _error_reach(N, sd, study.classes), "the error", None
    verdict = Verdict.COUNTS if reach <= _WORTH else Verdict.COARSE if reach < 0.5 else Verdict.NOTHING  # noqa: PLR2004
    head = {
        Verdict.COUNTS: f"intervals of {figures} that reach about {100 * reach:.1f} points to each side.",
        Verdict.COARSE: f"wide intervals: those of {figures} reach about {100 * reach:.0f} points to each side.",
        Verdict.NOTHING: f"nothing: {figures} drown in the noise.",
    }[verdict]
    remedy = (
        "" if verdict is Verdict.COUNTS or needed is None else f" {needed:,} records would do, or a larger epsilon."
    )
    counted_by = "by label and range of scores" if study.classes is None else "by label and answer"
    noise = f"Every count of records, {counted_by}, carries noise of standard deviation {sd:.3g}."
    text = f"With {words}, expect {head} {noise}{remedy}"
    return Expectation(verdict, text, N, enough_records=needed, ratio=reach, about="evaluation")


def _error_reach(N: int, sd: float, classes: int) -> float:
    """Return how far the interval of the error reaches: chance, and noise on the counts of right answers and of all."""
    return 1.96 * math.sqrt(0.25 / N + classes * (sd / N) ** 2)


def _cost(study: Study) -> Cost:
    """Price a run with the minimum of records."""
    layouts = evaluation_layouts(study, study.K * study.study.min_records)
    return price_of_sums(study, [1, *(layout.count for layout in layouts)])


_ENTRY = Protocol(
    name="evaluation",
    sum_lengths=lambda study: {count_layout(study).length, *evaluation_lengths(study)},
    meaning=3,
    streams=True,
    paper="this program's own",
    party=roles.party,
    charlie=roles.charlie,
    parameters=roles.Parameters,
    section="# The model: 'masquerade study new --like STUDY --measure MODEL' fills this in.\nweights = []\n",
    stages=("keys", "evaluation"),
    check=roles.check,
    statement=statement,
    explain=_explain,
    noiseless=noiseless,
    cost=_cost,
    spends=spends_gaussian,
    expectation=_expectation,
    calibrations=("proven",),
    sum="masks",
    multiclass=True,
    measures=True,
)

EVALUATION = with_retries(_ENTRY, lambda study: noise_of(study).largest)
"""The protocol. Its noisy sums may be made again."""

"""The evaluation as commands see it: rows of the statement, paragraphs, the price. Every protocol gets them alike."""

from collections.abc import Collection
from dataclasses import replace

from masquerade_core.data.records import fewest_held_back
from masquerade_core.learning.evaluation import CELLS, MOST_BINS
from masquerade_core.privacy.several_records import PARTY, PERSON
from masquerade_core.privacy.statement import ALL_FOLLOW, COMPUTATIONAL, Claim, SharedNoiseRows, digits
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.evaluation import check_evaluation, evaluation_layouts, evaluation_lengths, noise_of
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, paragraphs

__all__ = ["evaluation_rows", "what_leaves", "with_evaluation"]

_ASSUMPTIONS = (
    ALL_FOLLOW,
    "which records are held back follows from their place in the file; a replaced record keeps its place",
    "N and the number of records held back are published as they are; epsilon does not cover sizes",
    "a second evaluation of the same records, or one after the file was sorted anew, adds its own epsilon",
)
_SOURCE = "docs/privacy/evaluation.md: parallel composition; Balle and Wang 2018, Theorem 8"
_PARALLEL = (
    "A record is learned from or held back, never both. So it takes part in the training or in these counts, and the "
    "two cost no more together than the larger one: this row adds nothing to the others."
)
_LEAVES = """
{share} % of your records, chosen by their place in the file, are held back: nothing is learned from them. {sums} Your
share of the noise is on every number, and {also} hide them like the sums before. Before the first round, the number
of your records held back leaves as well.
"""
_TWO_SUMS = """
Once the model is there, two more sums leave. The first counts in which of {cells} ranges of scores they lie. The second
counts how many of each label lie in each of {bins} ranges at most, and adds up the squares by which the model's
probabilities are off.
"""
_ONE_SUM = """
Once the model is there, one more sum leaves. It counts how many of each class get which answer.
"""
_COST = """
Measuring the model costs nothing more. What is promised of a record, epsilon = {epsilon}, holds for the run as a whole.
A record that is held back shows in the counts alone; the model does not depend on it. Every other record shows in the
training alone. This holds because the side of a record follows from its place in the file. If you sort the file anew
between two runs, their costs add up, as those of any two runs do.
"""


def evaluation_rows(study: Study) -> tuple[Claim, ...]:
    """Return the statement's rows for an evaluation."""
    noise, K = noise_of(study), study.survivors
    rows = SharedNoiseRows(noise=noise, K=K, source=_SOURCE, assumptions=_ASSUMPTIONS)
    t = max(1, K - noise.honest)
    return (
        rows.row(
            "evaluation, with the model",
            K,
            f"{_PARALLEL} Each count carries the noise of all {K} parties.",
            "an observer of the release sees nothing that only the participants see",
            definition="approximate",
        ),
        rows.row(
            f"evaluation, to Charlie with {counted(t, 'party', 'parties')}",
            K - t,
            f"{_PARALLEL} They subtract their own noise from the counts; the others' noise stays.",
            sum_words(study).others if t < K - 1 else "the party that holds the record is honest",
            definition=COMPUTATIONAL if t < K - 1 else "approximate",
        ),
    )


def what_leaves(study: Study) -> str:
    """Return in words which sums are made of the records that measure a model."""
    if study.multiclass:
        return paragraphs(_ONE_SUM, {})[0]
    return paragraphs(_TWO_SUMS, {"cells": CELLS, "bins": MOST_BINS})[0]


def with_evaluation(entry: Protocol) -> Protocol:
    """Return a protocol's entry that also takes a study with ``[evaluation]``; its roles must carry the evaluation out.

    Where a study has no ``[evaluation]``, the entry says what it said before.
    """

    def check(study: Study) -> None:
        entry.check(study)
        check_evaluation(study)

    def statement(study: Study) -> tuple[Claim, ...]:
        rows = entry.statement(study)
        if study.evaluation is None:
            return rows
        several = tuple(row for row in rows if row.unit in {PARTY, PERSON})
        return (*(row for row in rows if row not in several), *evaluation_rows(study), *several)

    def explain(study: Study) -> Explanation:
        said = entry.explain(study)
        if study.evaluation is None:
            return said
        words = {
            "share": f"{100 * study.evaluation.share:.4g}",
            "epsilon": digits(study.privacy.epsilon),
            "sums": what_leaves(study),
            "also": sum_words(study).also_hidden,
        }
        leaves, cost = paragraphs(_LEAVES, words), paragraphs(_COST, words)
        return replace(said, leaves=(*said.leaves, *leaves), cost=(*said.cost, *cost))

    def cost(study: Study) -> Cost:
        price = entry.cost(study)
        if study.evaluation is None:
            return price
        layouts = evaluation_layouts(study, fewest_held_back(study))
        more = price_of_sums(study, [layout.count for layout in layouts], set_up=False)
        return Cost(*(old + new for old, new in zip(vars(price).values(), vars(more).values(), strict=True)))

    def sum_lengths(study: Study) -> Collection[int]:
        return {*entry.sum_lengths(study), *(() if study.evaluation is None else evaluation_lengths(study))}

    return replace(
        entry,
        check=check,
        statement=statement,
        explain=explain,
        cost=cost,
        sum_lengths=sum_lengths,
        evaluates=True,
    )

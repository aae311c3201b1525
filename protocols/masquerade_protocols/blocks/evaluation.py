"""The evaluation of a released model on records that were held back: two more secure sums, under noise of their own.

A study with ``[evaluation]`` holds a share of each party's records back, by their place in the file
(:mod:`masquerade_core.data.records`). Nothing depends on them until the model is there. For K parties and N' records
held back, all parties together::

    party P_k                                   Charlie
      | before the join: draw both shares of noise |
      |           with N, one secure sum also opens N'; no party's own number is seen
      |           ... the protocol's own rounds, on the other records; the model w ...
      |           1. sum_k (64 cells(w) + x^k): how many records have a score in each of 256 cells
      | bins of equal mass, by everybody alike     |
      |           2. sum_k (192 counts(w) + x'^k): how many records of each label lie in each of 22 bins at most
      | the evaluation, by everybody alike         |

A replaced record is either held back, in both of two neighbouring data sets, or in neither. So it takes part in the
training or in the evaluation, and the noise of each is sized for the study's whole privacy target: they compose in
parallel. That the evaluation's questions depend on the model changes nothing (``docs/privacy/evaluation.md``). So what
a role has counted for its training is not counted again here, but only what the evaluation costs beyond it.

A role needs three lines for it::

    held = await hold_back(seat, study, data)  # before the join
    sums, N = await join_and_count(seat, study, held.training, held.records)
    return await evaluated(sums, held, model)  # Charlie: evaluated_by_all(sums, model)

The functions below count held-back records by the cell, the bin or the class of their scores.

Every protocol's statement, explanation and price get what an evaluation adds to them here as well.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core import same_time
from masquerade_core.crypto.masks import as_integers
from masquerade_core.data.records import OfBlock, Records, fewest_held_back, split
from masquerade_core.errors import LocalProtocolError
from masquerade_core.evaluation import (
    CELLS,
    COUNT_UNITS,
    LOCATE_UNITS,
    MOST_BINS,
    SQUARE_UNITS,
    Bins,
    Counts,
    Noisy,
    cells_of,
    count_sd,
    counts_noise,
    evaluate,
    locate_bins,
    score_range,
)
from masquerade_core.model import Model, scores_of
from masquerade_core.privacy.noise.gaussian_rounds import SharedNoise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian, discrete_gaussian_tail_bound
from masquerade_core.privacy.several_records import PARTY, PERSON
from masquerade_core.privacy.statement import ALL_FOLLOW, COMPUTATIONAL, Claim, SharedNoiseRows
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_core.words import counted
from masquerade_protocols.blocks.descent import TAIL_BITS, fingerprint
from masquerade_protocols.blocks.layouts import Layout, check_slots, layout_of
from masquerade_protocols.blocks.noise_shares import FreshNoise, Parallel, Price, kept, price_of, to_keep, with_cost
from masquerade_protocols.blocks.prices import price_of_sums
from masquerade_protocols.blocks.secure_sum import CharlieSums, PartySums
from masquerade_protocols.blocks.sum_words import sum_words
from masquerade_protocols.entry import Cost, Explanation, Protocol, late

__all__ = [
    "Confusion",
    "HeldBack",
    "InBins",
    "InCells",
    "check_evaluation",
    "draw_share",
    "evaluated",
    "evaluated_by_all",
    "evaluation_layouts",
    "evaluation_lengths",
    "evaluation_rows",
    "hold_back",
    "measured",
    "measured_by_all",
    "noise_of",
    "with_evaluation",
]


# --- Score counts ----------------------------------------------------------------

_Array = NDArray[np.float64]


def _scores(model: Model, X: _Array, classes: int | None) -> _Array:
    with np.errstate(over="ignore", invalid="ignore"):  # whatever the model is, nobody stops
        return scores_of(model, X, classes)


@dataclass(frozen=True, eq=False)
class InCells:
    """The first vector: how many records have a score in each cell, in units of the grid."""

    model: Model
    exponent: int

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        """Count one block of records."""
        del y
        cells = cells_of(_scores(self.model, X, None), self.exponent)
        return same_time.counts(cells, CELLS) * LOCATE_UNITS


@dataclass(frozen=True, eq=False)
class InBins:
    """The second vector: the records of each label in each bin, and the sum of squares."""

    model: Model
    bins: Bins

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        """Count one block of records."""
        scores = _scores(self.model, X, None)
        where = self.bins.of(scores)
        # Negative labels count in places of their own: to pick the records of one label would take its own time.
        counts = same_time.counts(where + MOST_BINS * (y < 0), 2 * MOST_BINS)
        return np.append(counts * COUNT_UNITS, _squares(scores, y))


@dataclass(frozen=True, eq=False)
class Confusion:
    """The only vector for named classes: the confusion matrix row by row, in units of the grid."""

    model: Model
    classes: int

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        """Count one block of records."""
        answers = same_time.first_largest(_scores(self.model, X, self.classes))
        return same_time.counts(y.astype(np.int64) * self.classes + answers, self.classes**2) * COUNT_UNITS


def _squares(scores: _Array, y: _Array) -> int:
    """Return the sum of all (probability - label)^2, where each record is rounded to the grid by itself."""
    off = 0.5 * (1 - same_time.tanh(np.nan_to_num(y * scores) / 2))  # the probability of the other label
    return int(np.clip(np.rint(off**2 * SQUARE_UNITS), 0, SQUARE_UNITS).astype(np.int64).sum())


# --- Evaluation ------------------------------------------------------------------

_WITH_PROBABILITIES = "logistic"  # the loss whose scores are the logarithms of odds

_COUNTS = 2 * MOST_BINS + 1  # of each label in each bin, and the sum of squares

_STAGE = "evaluation"

Rule = str | float | None
"""How a threshold is chosen: see :func:`~masquerade_core.evaluation.evaluate`."""


# --- What follows from public numbers ---------------------------------------------


def noise_of(study: Study) -> SharedNoise:
    """Return the noise of an evaluation: it meets the study's privacy target by itself.

    Raises
    ------
    BadInput
        No noise meets it.
    """
    return counts_noise(
        study.privacy.epsilon, study.privacy.delta, study.honest, classes=study.multiclass, retries=study.retries
    )


def evaluation_lengths(study: Study) -> tuple[int, ...]:
    """Return how long the opened vectors are. With named classes, the confusion matrix is the only one."""
    return (CELLS, _COUNTS) if study.classes is None else (study.classes**2,)


def _prices(study: Study) -> tuple[Price, ...]:
    """Return what each of the opened vectors costs."""
    noise = noise_of(study)
    if len(evaluation_lengths(study)) == 1:
        return (price_of(noise, noise.largest),)
    return price_of(noise, 1 - noise.largest), price_of(noise, noise.largest)


def _drawn(study: Study) -> int:
    """Return how many numbers of noise a party draws: with those for vectors that are opened anew."""
    lengths = evaluation_lengths(study)
    return sum(lengths) + study.retries * max(lengths)


def check_evaluation(study: Study) -> None:
    """Refuse a study whose evaluation must fail, before anybody joins; one without ``[evaluation]`` passes.

    Raises
    ------
    BadInput
        No noise meets the privacy target, or no plaintext holds it.
    """
    if study.evaluation is not None:
        evaluation_layouts(study, study.most_records)
        if study.multiclass:
            _judge_of_classes()  # loaded now: after the hello a process loads nothing of this program


def evaluation_layouts(study: Study, N: int) -> tuple[Layout, ...]:
    """Lay out the sums of an evaluation with N records held back. Bins that are not used hold noise alone.

    Raises
    ------
    BadInput
        A slot is too wide for a plaintext.
    """
    noise, lengths = noise_of(study), evaluation_lengths(study)
    tail = study.K * discrete_gaussian_tail_bound(noise.share, study.K * _drawn(study), TAIL_BITS)
    units = (LOCATE_UNITS, COUNT_UNITS)[-len(lengths) :]
    layouts = (layout_of(study, n, N * unit + tail) for n, unit in zip(lengths, units, strict=True))
    return tuple(check_slots(study, slots, "a sum of the evaluation", "a larger epsilon") for slots in layouts)


def _bound_to(N: int, model: Model, opened: Sequence[int] = ()) -> bytes:
    """Return the hash to which masks are bound: the model, N', and the sum that was opened before."""
    released = fingerprint(N, np.array((*model.weights, *model.offset, model.threshold)))
    return hashlib.sha256(released + repr(tuple(opened)).encode()).digest()


# --- The parties ------------------------------------------------------------------


@dataclass(frozen=True)
class HeldBack:
    """A party's records on both sides, and its share of the evaluation's noise.

    Parameters
    ----------
    training : Records
        The records to learn from; all of them where the study has no ``[evaluation]``.
    records : Records or None
        Those held back.
    noise : FreshNoise
        In grid units; none where nothing is held back.
    """

    training: Records
    records: Records | None
    noise: FreshNoise


async def hold_back(seat: Seat, study: Study, data: Records) -> HeldBack:
    """Split a party's records and draw its noise. Before the join: later, the time for it would tell of the noise."""
    training, records = split(study, data)
    if records is None:
        return HeldBack(training, None, FreshNoise(()))
    return HeldBack(training, records, await draw_share(seat, study))


async def draw_share(seat: Seat, study: Study) -> FreshNoise:
    """Draw a party's share of the noise on all numbers of an evaluation."""
    share, count = noise_of(study).share, _drawn(study)
    return FreshNoise(await seat.once("evaluation noise", lambda rng: tuple(discrete_gaussian(rng, share, count))))


async def evaluated(sums: PartySums, held: HeldBack, model: Model) -> Model:
    """Take a party's part in the evaluation; returns the model with its evaluation and its threshold.

    Without ``[evaluation]`` the model comes back as it is.

    Raises
    ------
    ProtocolViolation
        Another participant is at fault.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    if held.records is None:
        await sums.close()
        return model
    return await measured(sums, sums.held_back, held, model, _rule(sums.study))


async def measured(sums: PartySums, N: int, held: HeldBack, model: Model, rule: Rule) -> Model:
    """Take a party's part in the measurement of a model with N records; ``rule`` chooses its threshold."""
    seat, study, records = sums.seat, sums.study, held.records
    if records is None:
        raise LocalProtocolError("a model was to be measured without records")
    await seat.stage(_STAGE)
    noise, prices, paid = held.noise, _prices(study), Parallel(seat)
    if (classes := study.classes) is not None:
        matrix = kept(await seat.once("confusion", lambda _: _counted(records, Confusion(model, classes))))
        (layout,) = evaluation_layouts(study, N)
        noisy_matrix = with_cost(seat, "confusion matrix", prices[0], partial(noise.on, matrix, layout), paid)
        opened = as_integers(await sums.open_sum(layout, await noisy_matrix(), _bound_to(N, model), noisy_matrix))
        await sums.close()
        return _judged_classes(study, model, N, opened)
    layouts, exponent = evaluation_layouts(study, N), score_range(model.weights, model.offset)
    cells = kept(await seat.once("cells", lambda _: _counted(records, InCells(model, exponent))))
    noisy_cells = with_cost(seat, "scores", prices[0], partial(noise.on, cells, layouts[0]), paid)
    opened = as_integers(await sums.open_sum(layouts[0], await noisy_cells(), _bound_to(N, model), noisy_cells))
    bins = _bins(study, opened, exponent, model, rule)
    counts = kept(await seat.once("counts", lambda _: _counted(records, InBins(model, bins))))
    noisy_counts = with_cost(seat, "counts", prices[1], partial(noise.on, counts, layouts[1]), paid)
    bound_to = _bound_to(N, model, opened)
    totals = as_integers(await sums.open_sum(layouts[1], await noisy_counts(), bound_to, noisy_counts))
    await sums.close()
    return _judged(study, model, bins, N, totals, rule)


def _counted(records: Records, counts: OfBlock) -> bytes | tuple[int, ...]:
    """Return what a function counts over all records, in units of the grid."""
    return to_keep(records.total(counts))


# --- Charlie ------------------------------------------------------------------------


async def evaluated_by_all(sums: CharlieSums, model: Model) -> Model:
    """Take Charlie's part in the evaluation; returns what :func:`evaluated` returns.

    Raises
    ------
    ProtocolViolation
        A party is at fault.
    RunFailed
        A total was not the sum of one contribution of each party.
    """
    study = sums.study
    if study.evaluation is None:
        await sums.close()
        return model
    return await measured_by_all(sums, sums.held_back, model, _rule(study))


async def measured_by_all(sums: CharlieSums, N: int, model: Model, rule: Rule) -> Model:
    """Take Charlie's part in the measurement of a model; returns what :func:`measured` returns."""
    study = sums.study
    await sums.seat.stage(_STAGE)
    if study.multiclass:
        (layout,) = evaluation_layouts(study, N)
        confused = as_integers(await sums.open_sum(layout, again=True))
        await sums.close()
        return _judged_classes(study, model, N, confused)
    cells, counts = evaluation_layouts(study, N)
    opened = as_integers(await sums.open_sum(cells, again=True))
    bins = _bins(study, opened, score_range(model.weights, model.offset), model, rule)
    totals = as_integers(await sums.open_sum(counts, again=True))
    await sums.close()
    return _judged(study, model, bins, N, totals, rule)


# --- What everybody computes --------------------------------------------------------


def _rule(study: Study) -> Rule:
    return None if study.evaluation is None else study.evaluation.threshold


def _bins(study: Study, opened: Sequence[int], exponent: int, model: Model, rule: Rule) -> Bins:
    """Lay out the bins by the first sum."""
    sd = count_sd(noise_of(study), study.K) * COUNT_UNITS / LOCATE_UNITS
    rate = rule if isinstance(rule, float) else None
    return locate_bins([value / LOCATE_UNITS for value in opened], sd, exponent, rate, model.threshold)


def _judged(study: Study, model: Model, bins: Bins, N: int, opened: Sequence[int], rule: Rule) -> Model:
    """Return the model with what the second sum tells of it."""
    noisy, size = np.array(opened, dtype=np.float64) / COUNT_UNITS, len(bins.middles)
    variance, units = count_sd(noise_of(study), study.K) ** 2, COUNT_UNITS / SQUARE_UNITS
    squares = Noisy(float(noisy[-1]) * units, variance * units**2) if study.model.loss == _WITH_PROBABILITIES else None
    counts = Counts(noisy[:size], noisy[MOST_BINS:][:size], variance, N, bins, squares)
    found = evaluate(counts, rule=rule, threshold=model.threshold)
    return replace(model, threshold=found.threshold, evaluation=found)


def _judged_classes(study: Study, model: Model, N: int, opened: Sequence[int]) -> Model:
    """Return a model of named classes with what its confusion matrix tells of it."""
    names = study.label.classes or ()
    counts = np.array(opened, dtype=np.float64).reshape(len(names), -1) / COUNT_UNITS
    return replace(model, evaluation=_judge_of_classes()(counts, count_sd(noise_of(study), study.K) ** 2, N, names))


def _judge_of_classes() -> Callable[..., Any]:
    from masquerade_core.learning.class_evaluation import evaluate_classes

    return evaluate_classes


# --- What the statement says --------------------------------------------------------


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


_explained = late("masquerade_protocols.blocks.explanation", "with_evaluation_explained")


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
        with_words: Explanation = _explained(study, said)
        return with_words

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

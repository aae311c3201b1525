"""How often an evaluation's intervals hold the truth: many simulated evaluations, for each size, share and epsilon.

    python -m benchmarks.coverage --runs 1000

A simulated evaluation draws what its second sum would open. The scores of each label are normal. They are a calibrated
model's: a score is the log-odds of its record. So few records score above 0 where few are positive. The numbers of
records in the 256 cells are drawn at once, as multinomial numbers, and so is the noise of all runs of a case. The rest
is the program's own: it places the bins by the first sum, and computes the intervals from the second.

It prints a table in Markdown. A cell has the share of intervals that hold the truth, among those that there are; a dash
means that fewer than a tenth of the runs have one. "Calibration" counts the groups of all runs.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from masquerade_core.evaluation import (
    CELLS,
    COUNT_UNITS,
    LOCATE_UNITS,
    SQUARE_UNITS,
    Counts,
    Estimate,
    Evaluation,
    Noisy,
    count_sd,
    counts_noise,
    evaluate,
    locate_bins,
)
from masquerade_core.lazy_scipy import ndtr

__all__ = ["FIGURES", "GRID", "Case", "Tally", "tallies"]

GRID = tuple(product((500, 2_000, 10_000), (0.02, 0.05, 0.3), (0.3, 1.0, 3.0)))
"""Records held back, share of positive ones, epsilon."""

FIGURES = (
    "auc",
    "error",
    "advantage",
    "brier",
    "positive share",
    "sensitivity",
    "specificity",
    "precision",
    "f1",
    "calibration",
)
"""The figures that a report prints with an interval, at the model's own threshold."""

_PARTIES, _HONEST, _DELTA = 3, 2, 1e-6
_APART = 1.5  # of the labels' scores, in standard deviations: an AUC of .86
_EXPONENT = 4  # scores lie between -16 and 16
_FINE = 64  # parts of a cell over which a mean square is taken
_SAID = 0.1  # of the runs; fewer intervals tell nothing of their coverage

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tally:
    """How many intervals there could be, how many there are, and how many of these hold the truth."""

    possible: int
    intervals: int
    held: int

    @property
    def coverage(self) -> float | None:
        """The share of the intervals that hold the truth; None where too few runs have one."""
        return self.held / self.intervals if self.intervals > _SAID * self.possible else None


@dataclass(frozen=True)
class Case:
    """A population of records, and the noise of an evaluation.

    Parameters
    ----------
    records : int
        How many are held back.
    positive : float
        The share of positive records.
    epsilon : float
    apart : float
        How far apart the labels' mean scores are, in standard deviations.
    """

    records: int
    positive: float
    epsilon: float
    apart: float = _APART

    @property
    def sd(self) -> float:
        """The standard deviation of the noise on a count."""
        return count_sd(counts_noise(self.epsilon, _DELTA, _HONEST), _PARTIES)

    @property
    def means(self) -> tuple[float, float]:
        """The mean scores of the positive and of the other records; the variance of both is ``apart`` squared."""
        middle = float(np.log(self.positive / (1 - self.positive)))
        return middle + self.apart**2 / 2, middle - self.apart**2 / 2

    def within(self) -> tuple[_Array, _Array]:
        """Return the chance of each cell for a record with either label; shape (2, 256), the chances of all add to 1.

        And the mean square by which the model's probability is off there.
        """
        R = 2.0**_EXPONENT
        fine = np.linspace(-R, R, CELLS * _FINE + 1)
        centres = (fine[1:] + fine[:-1]) / 2
        chance, square = np.empty((2, CELLS)), np.empty((2, CELLS))
        for label, (mean, share) in enumerate(zip(self.means, (self.positive, 1 - self.positive), strict=True)):
            below = np.array(ndtr((fine - mean) / self.apart))
            below[0], below[-1] = 0.0, 1.0
            parts = share * np.diff(below).reshape(CELLS, _FINE)
            off = (1 / (1 + np.exp(centres)) if label == 0 else 1 / (1 + np.exp(-centres))).reshape(CELLS, _FINE)
            chance[label] = parts.sum(axis=1)
            square[label] = (parts * off**2).sum(axis=1) / np.maximum(chance[label], 1e-300)
        return chance, square

    def truth(self) -> dict[str, float]:
        """Return what the figures estimate."""
        plus, minus = self.means
        tp = self.positive * float(ndtr(plus / self.apart))
        fp = (1 - self.positive) * float(ndtr(minus / self.apart))
        fn, chance, square = self.positive - tp, *self.within()
        return {
            "auc": float(ndtr(self.apart / 2**0.5)),
            "error": fp + fn,
            "advantage": min(self.positive, 1 - self.positive) - fp - fn,
            "brier": float((chance * square).sum()),
            "positive share": self.positive,
            "sensitivity": tp / self.positive,
            "specificity": 1 - fp / (1 - self.positive),
            "precision": tp / (tp + fp),
            "f1": 2 * tp / (2 * tp + fp + fn),
        }

    def positive_between(self, low: float | None, high: float | None) -> float:
        """Return the share of positive records among those with scores between two numbers; None is no limit."""
        ends = np.array([-np.inf if low is None else low, np.inf if high is None else high])
        plus, minus = (float(np.diff(ndtr((ends - mean) / self.apart))[0]) for mean in self.means)
        return self.positive * plus / max(self.positive * plus + (1 - self.positive) * minus, 1e-300)

    def runs(self, count: int, rng: np.random.Generator) -> Iterator[Evaluation]:
        """Simulate evaluations."""
        chance, square = self.within()
        drawn = rng.multinomial(self.records, chance.ravel() / chance.sum(), size=count).reshape(count, 2, CELLS)
        first = drawn.sum(axis=1) + rng.normal(0, self.sd * COUNT_UNITS / LOCATE_UNITS, (count, CELLS))
        units = self.sd * COUNT_UNITS / SQUARE_UNITS
        squares = (drawn * square).sum(axis=(1, 2)) + rng.normal(0, units, count)
        for cells, seen, total in zip(drawn, first, squares, strict=True):
            bins = locate_bins(seen, self.sd * COUNT_UNITS / LOCATE_UNITS, _EXPONENT)
            starts = (0, *bins.cuts)
            noisy = np.add.reduceat(cells, starts, axis=1) + rng.normal(0, self.sd, (2, len(starts)))
            counts = Counts(noisy[0], noisy[1], self.sd**2, self.records, bins, Noisy(float(total), units**2))
            yield evaluate(counts)


def _figures(found: Evaluation, truth: Mapping[str, float]) -> Iterator[tuple[str, Estimate, float]]:
    """Yield the figures with their intervals, and what they estimate."""
    chosen, brier = found.chosen, found.brier
    assert brier is not None
    named = (found.auc, chosen.error, found.advantage, brier, found.positive_share)
    more = (chosen.sensitivity, chosen.specificity, chosen.precision, chosen.f1)
    for name, estimate in zip(truth, (*named, *more), strict=True):
        yield name, estimate, truth[name]


def tallies(case: Case, runs: int, seed: int = 0) -> dict[str, Tally]:
    """Return for each figure how often its interval holds the truth."""
    truth, possible, told, held = case.truth(), *(defaultdict[str, int](int) for _ in range(3))
    for found in case.runs(runs, np.random.default_rng([seed, case.records, int(1e3 * case.positive)])):
        groups = (("calibration", g.observed, case.positive_between(g.low, g.high)) for g in found.calibration)
        for name, estimate, true in (*_figures(found, truth), *groups):
            possible[name] += 1
            told[name] += estimate.value is not None
            held[name] += estimate.value is not None and estimate.low <= true <= estimate.high
    return {name: Tally(possible[name], told[name], held[name]) for name in FIGURES}


def _line(case: Case, found: Mapping[str, Tally]) -> str:
    shown = (found[name].coverage for name in FIGURES)
    cells = ("-" if share is None else f"{share:.3f}" for share in shown)
    return f"| {case.records:,} | {100 * case.positive:g} % | {case.epsilon:g} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--apart", type=float, default=_APART)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    head = ("held back", "positive", "epsilon", *FIGURES)
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for records, positive, epsilon in GRID:
        case = Case(records, positive, epsilon, given.apart)
        print(_line(case, tallies(case, given.runs, given.seed)), flush=True)


if __name__ == "__main__":
    main()

"""The forecast before a run, beside many runs: how often the error contradicts what was promised of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from masquerade.demo.tuned import tuned_answers
from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.expectation import Verdict, expected_of_sums
from masquerade_core.study import Study
from masquerade_lab.reproduce.dp_whitened import draw_shares, learn_in_clear, study_of
from tests.pages import Page

pytestmark = pytest.mark.timeout(1800)  # some 1,000 runs, which several processes may make at once on a busy machine

SEEDS, EPSILONS, DELTA = 20, (0.1, 0.2, 0.5, 1.0, 3.0), 1e-5
PAGE = Page("docs/expectation.md")
FEWEST = 20.0  # s from which a model errs less than always the same answer even if the columns tell little

_Array = NDArray[np.float64]
_Drawn = tuple[Dataset, Dataset]
_Draw = Callable[[np.random.Generator], _Drawn]


def _in_ball(columns: _Array) -> _Array:
    """Return numbers in [-1, 1] with a constant, cut to length 1."""
    X = np.hstack([columns, np.ones((len(columns), 1))])
    return np.asarray(X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None])


def _bundled(columns: _Array, positive: NDArray[np.bool_], rng: np.random.Generator) -> _Drawn:
    """Return four fifths of public records to learn from, and a fifth to test on."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    wide = np.where(high > low, high - low, 1.0)
    data, order = Dataset(_in_ball(2 * (columns - low) / wide - 1), np.where(positive, 1.0, -1.0)), rng.permutation
    first, second = np.split(order(len(columns)), [len(columns) - len(columns) // 5])
    return Dataset(data.X[first], data.y[first]), Dataset(data.X[second], data.y[second])


def _made(rng: np.random.Generator, *, strong: float, offset: float, useless: int = 0, N: int = 1000) -> _Drawn:
    """Return records of a logistic model, in bounds of four standard deviations."""
    w = strong * np.array([1.0, -0.8, 0.6, 0.5, -0.3, 0.2])
    columns = rng.normal(size=(N + 20_000, len(w) + useless))
    positive = rng.random(len(columns)) < 1 / (1 + np.exp(-(columns[:, : len(w)] @ w + offset)))
    X, y = _in_ball(np.clip(columns / 4, -1, 1)), np.where(positive, 1.0, -1.0)
    return Dataset(X[:N], y[:N]), Dataset(X[N:], y[N:])


def _digits(positive: Callable[[_Array], NDArray[np.bool_]], rng: np.random.Generator) -> _Drawn:
    X, digit = load_digits(return_X_y=True)
    return _bundled(X, positive(digit), rng)


def _cancer(rng: np.random.Generator) -> _Drawn:
    X, kind = load_breast_cancer(return_X_y=True)
    return _bundled(X, kind == 0, rng)


def _wine(rng: np.random.Generator) -> _Drawn:
    X, kind = load_wine(return_X_y=True)
    return _bundled(X, kind == 1, rng)


def _diabetes(rng: np.random.Generator) -> _Drawn:
    X, grown = load_diabetes(return_X_y=True)
    return _bundled(X, grown > np.median(grown), rng)


# Columns that tell much: without privacy a model errs a third as often as always the same answer, or less.
MUCH: dict[str, _Draw] = {
    "breast cancer": _cancer,
    "digits, 0 to 4": partial(_digits, lambda digit: digit < 5),
    "digits, odd": partial(_digits, lambda digit: digit % 2 == 1),
    "wine": _wine,
    "made up": partial(_made, strong=4.0, offset=-2.0),
    "made up, a fifth positive": partial(_made, strong=8.0, offset=-10.0),
}
LITTLE: dict[str, _Draw] = {
    "diabetes": _diabetes,
    "made up, weak": partial(_made, strong=1.0, offset=-0.5),
    "made up, weak and few": partial(_made, strong=1.0, offset=-0.5, N=300),
    "made up, weak, with 20 useless columns": partial(_made, strong=1.0, offset=-0.5, useless=20),
}


class Run(NamedTuple):
    """The errors of one run, in percent, and what was said of it beforehand."""

    name: str
    s: float
    verdict: Verdict
    majority: float
    free: float
    error: float

    @property
    def poor(self) -> bool:
        """Whether the promise is broken; where nothing is promised, whether the model is much worse than none."""
        if self.verdict is Verdict.HALF:
            return self.majority - self.error < 0.5 * (self.majority - self.free)
        return self.error > self.majority + (self.verdict is Verdict.OPEN)

    @property
    def contradicted(self) -> bool:
        """Whether the promise is broken; nothing breaks none."""
        return self.poor and self.verdict is not Verdict.OPEN


def _foreseen(study: Study, N: int, share: float | None) -> tuple[float, Verdict]:
    rules = study.study.model_copy(update={"expected_records": N, "commoner_share": share})
    told = expected_of_sums(study.model_copy(update={"study": rules}))
    assert told.s is not None
    return told.s, told.verdict


def _runs(name: str, draw: _Draw) -> Iterator[Run]:
    for seed in range(SEEDS):
        train, test = draw(np.random.default_rng([seed, len(name)]))
        (N, d), positive = train.X.shape, float(np.mean(test.y > 0))
        free = float(np.mean(tuned_answers(train, test.X) != test.y))
        share = 0.8 if "a fifth" in name else None
        for epsilon in EPSILONS:
            study = study_of(d, epsilon, DELTA)
            model = learn_in_clear(study, train, draw_shares(f"forecast {name} {seed} {epsilon}", d))
            answers = np.where(test.X @ np.array(model.weights) + model.offset[0] > 0, 1.0, -1.0)
            errors = (min(positive, 1 - positive), free, float(np.mean(answers != test.y)))
            yield Run(name, *_foreseen(study, N, share), *(100 * error for error in errors))


@cache
def runs_of(much: bool) -> tuple[Run, ...]:
    return tuple(run for name, draw in (MUCH if much else LITTLE).items() for run in _runs(name, draw))


def _poor(runs: list[Run]) -> float:
    assert len(runs) >= SEEDS
    return float(np.mean([run.poor for run in runs]))


@pytest.mark.parametrize(
    ("much", "names"), [(True, MUCH), (False, LITTLE)], ids=["columns that tell much", "columns that tell little"]
)
def test_the_columns_tell_as_much_as_is_said_of_them(much: bool, names: dict[str, _Draw]) -> None:
    for name in names:
        found = [run for run in runs_of(much) if run.name == name]
        assert (np.mean([run.free for run in found]) <= np.mean([run.majority for run in found]) / 3) == much


def test_at_most_one_run_in_twenty_breaks_a_promise() -> None:
    for verdict in (Verdict.HALF, Verdict.BETTER):
        assert _poor([run for run in runs_of(True) if run.verdict is verdict]) <= 0.05
    assert _poor([run for run in runs_of(False) if run.verdict is Verdict.HALF]) <= 0.05
    better = [run for run in runs_of(False) if run.verdict is Verdict.BETTER]
    assert _poor([run for run in better if run.s >= FEWEST]) <= 0.05


def test_the_page_has_the_shares_of_these_runs() -> None:
    """A linear algebra with other roundings may turn a run or two."""
    rows = [
        line.strip("| ").split(" | ")
        for line in PAGE.text.splitlines()
        if line.startswith(("| 40 or", "| 6 to", "| less"))
    ]
    for row, verdict in zip(rows, (Verdict.HALF, Verdict.BETTER, Verdict.OPEN), strict=True):
        for cell, much in zip(row[3:], (True, False), strict=True):
            found = 100 * _poor([run for run in runs_of(much) if run.verdict is verdict])
            assert float(cell.removesuffix(" %")) == pytest.approx(found, abs=2.0), (row[0], much)


def test_the_page_counts_the_broken_promises_of_all_runs() -> None:
    """Each set and seed has five runs, which are no independent ones: the interval counts them as one."""
    runs = runs_of(True)
    broken, poor = sum(run.contradicted for run in runs), sum(run.poor for run in runs)
    assert broken <= 0.05 * len(runs)
    found = re.search(
        r"(\d+) of (\d+) runs broke a promise.*?All (\d+) together.*?from ([\d.]+) to ([\d.]+) %", PAGE.text, re.DOTALL
    )
    assert found is not None
    assert [int(found[1]), int(found[2]), int(found[3])] == [
        pytest.approx(broken, abs=3),
        len(runs),
        pytest.approx(poor, abs=6),
    ]
    share = poor / len(runs)
    apart = np.array([run.poor - share for run in runs]).reshape(-1, len(EPSILONS)).sum(axis=1)
    half = 1.96 * float(np.linalg.norm(apart)) / len(runs)
    assert [float(found[4]), float(found[5])] == pytest.approx([100 * (share - half), 100 * (share + half)], abs=1.0)

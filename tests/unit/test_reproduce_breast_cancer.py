"""Rajkumar and Agarwal's figure 2: the null result on the diagnostic records of breast cancer, and that it can fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade.reproduce import Report, rajkumar_breast_cancer, rajkumar_tasks, reproduce
from masquerade.reproduce.rajkumar_tasks import FOLDS, breast_cancer_fold
from masquerade.reproduce.tasks import Task, one_after_another

_Array = NDArray[np.float64]


_SMALL = {"_PARTIES": (2, 3), "_ROUNDS": 2, "_OTHER_LAMBDAS": (0.1,)}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _SMALL.items():
        monkeypatch.setattr(rajkumar_breast_cancer, name, value)


@pytest.fixture(scope="module")
def report() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _SMALL.items():
            patch.setattr(rajkumar_breast_cancer, name, value)
        return reproduce("rajkumar-2012", "2", draws=1)


def _rows(report: Report, table: str) -> dict[str, float]:
    return {row.name: row.value for row in report.rows if row.table == table}


def test_each_record_is_in_one_fold_and_rows_are_in_the_unit_ball() -> None:
    folds = [breast_cancer_fold(number) for number in range(FOLDS)]
    assert [len(test.y) for _, test in folds] == [114, 114, 114, 114, 113]
    for records, test in folds:
        assert (len(records.y) + len(test.y), records.X.shape[1]) == (569, 30)
        assert (np.linalg.norm(records.X, axis=1) <= 1 + 1e-12).all()
    tested = np.vstack([test.X for _, test in folds])
    first = np.vstack([folds[0][0].X, folds[0][1].X])
    assert len(np.unique(tested, axis=0)) == len(np.unique(first, axis=0)) == 569
    assert np.concatenate([test.y for _, test in folds]).tolist().count(1.0) == 212


@pytest.mark.usefixtures("small")
def test_the_majority_has_its_line_and_no_private_method_is_below_it(report: Report) -> None:
    assert _rows(report, rajkumar_breast_cancer._MAJORITY)["its error"] == pytest.approx(212 / 569, abs=5e-4)
    for eps in (0.1, 0.2):
        assert len(_rows(report, rajkumar_breast_cancer._NULL.format(eps))) == 1 + 2 + 2 + 3
    (no_privacy,) = (row.value for row in report.rows if row.name == "no privacy, lambda = 0.01")
    assert no_privacy < 0.15
    assert no_privacy < _rows(report, rajkumar_breast_cancer._BELOW)["GOP"] < 0.37
    # The printed sigma* takes the null result away, so the band tells noise from none.
    broken = [row for row in report.rows if row.broken]
    assert len(broken) == 2
    assert all(row.holds for row in broken)
    assert any("printed equation" in note for note in report.notes)
    titles = [panel.title for panel in report.panels]
    assert len(titles) == 7
    for panel in report.panels:
        assert panel.reference == (("majority", _rows(report, rajkumar_breast_cancer._MAJORITY)["its error"]),)
    drawn = {series.name: tuple(series.y) for series in report.panels[0].series}
    found = _rows(report, rajkumar_breast_cancer._NULL.format(0.1))
    assert drawn["PSGD"] == (found["PSGD, K = 2"], found["PSGD, K = 3"])
    assert drawn["local aggregation"][0] == found["local aggregation, random, K = 2"]


@pytest.mark.usefixtures("small")
def test_a_gop_without_noise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_seed: str, _sigma: Any, draws: int, d: int) -> _Array:
        return np.zeros((draws, d))

    monkeypatch.setattr(rajkumar_tasks, "draw_eta", nothing)
    report = reproduce("rajkumar-2012", "2", draws=1)
    failed = {(row.table, row.name) for row in report.failed}
    for eps in (0.1, 0.2):
        assert (rajkumar_breast_cancer._NULL.format(eps), "GOP") in failed


@pytest.mark.usefixtures("small")
def test_the_numbers_depend_on_the_seed_and_not_on_the_order_of_the_tasks(report: Report) -> None:
    def backwards(tasks: Sequence[Task]) -> list[Any]:
        assert len({task.key for task in tasks}) == len(tasks) == FOLDS * 5
        return one_after_another(tasks[::-1])[::-1]

    assert reproduce("rajkumar-2012", "2", draws=1, run_tasks=backwards).to_json() == report.to_json()
    other = reproduce("rajkumar-2012", "2", draws=1, seed=1)
    assert [row.value for row in other.rows] != [row.value for row in report.rows]

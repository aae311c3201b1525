"""Rajkumar and Agarwal's figure 2: the null result on the diagnostic records of breast cancer, and that it can fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_lab.reproduce import PAPERS, Report, rajkumar, reproduce
from masquerade_lab.reproduce.engine.judging import judged, reference
from masquerade_lab.reproduce.engine.tasks import Task, one_after_another
from masquerade_lab.reproduce.rajkumar import FOLDS, breast_cancer_fold

_Array = NDArray[np.float64]


_SMALL = replace(rajkumar.FIGURE_2, parties=(2, 3), rounds=(2,), other_lambdas=(0.1,))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rajkumar, "FIGURE_2", _SMALL)


@pytest.fixture(scope="module")
def report() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rajkumar, "FIGURE_2", _SMALL)
        return reproduce("rajkumar-2012", "2", draws=2)


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
def test_the_majority_has_its_line_and_every_method_its_rows(report: Report) -> None:
    assert _rows(report, rajkumar._MAJORITY)["its error"] == pytest.approx(212 / 569, abs=5e-4)
    (no_privacy,) = (row.value for row in report.rows if row.name == "no privacy, lambda = 0.01")
    assert no_privacy < 0.15
    for eps in (0.1, 0.2, 1.0):
        found = [row for row in report.rows if row.table == rajkumar._AT.format(eps)]
        assert [row.name for row in found if not row.broken] == ["GOP", "PSGD, K = 2", "PSGD, K = 3"]
        assert found[1].name == "GOP: no noise"
        assert found[1].value == pytest.approx(no_privacy)
        assert len(_rows(report, rajkumar._AGGREGATION.format(eps))) == 2 + 3
    assert any("printed equation" in note for note in report.notes)
    titles = [panel.title for panel in report.panels]
    assert len(titles) == 7
    for panel in report.panels:
        assert panel.reference == (("majority", _rows(report, rajkumar._MAJORITY)["its error"]),)
    drawn = {series.name: tuple(series.y) for series in report.panels[0].series}
    found_at = _rows(report, rajkumar._AT.format(0.1))
    np.testing.assert_allclose(drawn["PSGD"], (found_at["PSGD, K = 2"], found_at["PSGD, K = 3"]))
    aggregated = _rows(report, rajkumar._AGGREGATION.format(0.1))
    assert drawn["local aggregation"][0] == aggregated["random, K = 2"]


@pytest.mark.usefixtures("small")
def test_a_gop_without_noise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_seed: str, _sigma: Any, draws: int, d: int) -> _Array:
        return np.zeros((draws, d))

    monkeypatch.setattr(rajkumar, "draw_eta", nothing)
    report = reproduce("rajkumar-2012", "2", draws=2)
    failed = {(row.table, row.name) for row in report.failed}
    for eps in (0.1, 0.2):
        assert (rajkumar._AT.format(eps), "GOP") in failed


@pytest.mark.parametrize("eps", [0.1, 0.2, 1.0])
@pytest.mark.parametrize("name", ["GOP", "PSGD, K = 5", "PSGD, K = 10", "PSGD, K = 15"])
def test_a_random_classifier_passes_for_no_method(eps: float, name: str) -> None:
    """As many draws as the figure has; each scatters as the reference's do."""
    expected = reference("rajkumar-2012 2", f"{name}, eps = {eps}")
    assert expected is not None
    spread = expected.error * np.sqrt(expected.sets)
    draws = PAPERS["rajkumar-2012"]["2"].draws
    pairs = 0.5 + spread * np.random.default_rng(1).standard_normal((draws, 1))
    right, wrong = judged("t", name, pairs, expected, {"chance": np.full((draws, 1), 0.5)})
    assert not right.holds
    assert wrong.holds


def test_a_draw_and_its_mirror_image_are_one_pair_and_halves_have_half_of_the_noise() -> None:
    found = rajkumar.gradient("breast cancer", 1, 0, 3, 0.01, 0.2, (2,), (2,), False)
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(found, 6)
    assert set(found) == {"gop, same eta, 0.2", "psgd 0.2 2 2", "half gop, same eta, 0.2", "half psgd 0.2 2 2"}
    errors = np.array([[0.1, 0.2, 0.5, 0.7], [0.3, 0.2, 0.1, 0.1]])
    np.testing.assert_allclose(rajkumar._pairs(errors), [[0.25], [0.3]])
    # Where noise is all there is, a classifier and its mirror image are right on each other's mistakes.
    lost = rajkumar.gradient("breast cancer", 1, 0, 3, 0.01, 1e-5, (2,), (40,), False)["psgd 1e-05 2 40"]
    np.testing.assert_allclose(lost.reshape(2, 3).mean(axis=0), 0.5, atol=0.02)


def test_the_numbers_depend_on_the_seed_and_not_on_the_order_of_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On two folds, and with the epsilons of the panels alone."""
    gop, printed = ((name, _SMALL.epsilons) for name, _ in (_SMALL.gop, _SMALL.printed))
    monkeypatch.setattr(rajkumar, "FIGURE_2", replace(_SMALL, sets=2, gop=gop, printed=printed))
    report = reproduce("rajkumar-2012", "2", draws=2)

    def backwards(tasks: Sequence[Task]) -> list[Any]:
        assert len({task.key for task in tasks}) == len(tasks) == 2 * 5
        return one_after_another(tasks[::-1])[::-1]

    assert reproduce("rajkumar-2012", "2", draws=2, run_tasks=backwards).to_json() == report.to_json()
    other = reproduce("rajkumar-2012", "2", draws=2, seed=1)
    assert [row.value for row in other.rows] != [row.value for row in report.rows]

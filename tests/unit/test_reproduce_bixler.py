"""Bixler's section 4: many descents at once equal the protocol's descent, and broken variants miss the bands."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest

from masquerade_core.learning.input_noise import sgd
from masquerade_core.rng import SimulationRng
from masquerade_lab.reproduce import Report, bixler, bixler_runs
from masquerade_lab.reproduce.bixler_runs import CAP, Column, Kind, descend, draw_sample
from masquerade_lab.reproduce.results import decode, encode
from masquerade_lab.reproduce.tasks import Task, one_after_another

SEED = "test"


@pytest.fixture(scope="module")
def sample() -> bixler_runs.Sample:
    return draw_sample(1, 3)


def _short(monkeypatch: pytest.MonkeyPatch, last: int = 300) -> None:
    monkeypatch.setattr(bixler_runs, "CHECKPOINTS", (100, last))
    monkeypatch.setattr(bixler_runs, "CAP", last)
    monkeypatch.setattr(bixler, "CAP", last)


def test_records_are_standard_normal_and_labelled_by_a_hyperplane(sample: bixler_runs.Sample) -> None:
    assert sample.X.shape == (3, 5000, 10)
    np.testing.assert_allclose(np.cov(sample.X[0].T), np.eye(10), atol=0.1)
    assert (np.abs(sample.start) <= 1).all()
    u = np.linalg.lstsq(sample.X[0], sample.y[0], rcond=None)[0]
    assert np.mean(np.sign(sample.X[0] @ u) == sample.y[0]) > 0.95


@pytest.mark.parametrize("sd", [None, 0.0, 0.5])
def test_side_by_side_they_are_the_descent_that_the_protocol_trains_with(
    sd: float | None, sample: bixler_runs.Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    _short(monkeypatch)
    found = descend(sample, None if sd is None else [Column(1.0), Column(sd)], SEED)
    column = 0 if sd is None else 1
    order, rng = SimulationRng(SEED, "order"), SimulationRng(SEED, "noise")
    picked = [(bixler_runs._uniforms(order, 3) * 5000).astype(int) for _ in range(300)]
    noise = (sd or 0.0) * np.array([bixler_runs._normals(rng, 3, 11)[:, :10] for _ in range(300)])
    for r in range(3):
        X = np.array([sample.X[r, i[r]] for i in picked]) + noise[:, r]
        batches = [(X[t : t + 1], sample.y[r, i[r] : i[r] + 1]) for t, i in enumerate(picked)]
        w = sgd(sample.start[r], batches, 0.02, "logistic")
        np.testing.assert_allclose(found.weights[1, column, r], w, rtol=0, atol=1e-9)
        loss = np.log1p(np.exp(-sample.y[r] * (sample.X[r] @ w))).mean()
        assert found.losses[1, column, r] == pytest.approx(loss)


def test_a_run_stops_at_its_first_short_gradient(sample: bixler_runs.Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    _short(monkeypatch)
    monkeypatch.setattr(bixler_runs, "TOLERANCE", 0.2)
    found = descend(sample, None, SEED)
    order = SimulationRng(SEED, "order")
    picked = [(bixler_runs._uniforms(order, 3) * 5000).astype(int) for _ in range(300)]
    for r in range(3):
        w, lengths = sample.start[r], []
        for i in picked:
            before, w = w, sgd(w, [(sample.X[r, i[r] : i[r] + 1], sample.y[r, i[r] : i[r] + 1])], 0.02, "logistic")
            lengths.append(np.linalg.norm(w - before) / 0.02)
        short = np.flatnonzero(np.array(lengths) < 0.2)
        assert found.iterations[0, r] == short[0] + 1
        assert len(short) > 1
    monkeypatch.setattr(bixler_runs, "TOLERANCE", 0.0)
    assert (descend(sample, None, SEED).iterations == 300).all()


def test_kinds_of_noise_are_what_they_are_called() -> None:
    kinds = get_args(Kind)
    draw = bixler_runs._noise([Column(0.5, kind) for kind in kinds], SimulationRng(SEED), 2)
    i = np.array([3, 4])
    first, second = (dict(zip(kinds, draw(i), strict=True)) for _ in range(2))
    assert (first["kept"] == second["kept"]).all()
    assert all((first[kind] != second[kind]).all() for kind in kinds if kind != "kept")
    assert (first["scalar"] == first["scalar"][:, :1]).all()
    assert all(len(set(row)) == 1 for row in np.sign(first["half-line"]).tolist())
    many = np.array([draw(i)[0] for _ in range(2000)])
    assert many.std() == pytest.approx(0.5, rel=0.03)


def test_extra_iterations_are_a_ratio_of_means_and_losses_a_mean_of_ratios() -> None:
    assert bixler._extra(np.array([110.0, 130.0]), np.array([100.0, 100.0]))[0] == pytest.approx(0.2)
    assert bixler._extra(np.array([110.0]), np.array([100.0]))[1] is None
    doubled = bixler._extra(np.array([200.0, 600.0]), np.array([100.0, 300.0]))
    assert doubled == pytest.approx((1.0, 0.0))  # runs differ, what is added to them does not
    assert bixler._extra(np.array([110.0, 130.0]), np.array([100.0, 100.0]))[1] == pytest.approx(0.1)
    losses = np.array([[[2.0], [2.2]], [[1.0], [0.7]]])  # two checkpoints, two columns, one run
    both = bixler_runs.Descents(np.full((2, 1), CAP), np.zeros((2, 2, 1, 1)), losses)
    assert bixler._relative(both, 1, both) == pytest.approx((0.1 + 0.3) / 2)


def test_a_small_report_has_every_table_and_catches_the_broken_samplers(monkeypatch: pytest.MonkeyPatch) -> None:
    _short(monkeypatch)
    monkeypatch.setattr(bixler, "CHECKPOINTS", (100, 300))
    monkeypatch.setattr(bixler, "_E4_EPOCHS", 4)
    report = bixler.section_4(2, 5, one_after_another)
    tables = report.tables()
    assert len(tables) == 9
    assert len([row for row in report.rows if row.broken]) == 3
    assert all(row.holds for row in tables[bixler._BROKEN])
    assert all(row.value == 0 and row.holds for row in tables[bixler._E3])
    assert not tables[bixler._E1][0].holds  # three hundred updates are too few
    assert [row.holds for row in tables[bixler._E4] if "once" in row.name] == [True]
    assert all(abs(row.value) < 0.1 for row in tables[bixler._E4] if "correlation" in row.name)

    def elsewhere(tasks: Sequence[Task]) -> list[Any]:
        sent = [pickle.loads(pickle.dumps(task)) for task in reversed(tasks)]  # noqa: S301 - made here
        done = {task.key: task.function(*task.arguments) for task in sent}
        assert len(done) == len(tasks) > 8
        return [decode(json.loads(json.dumps(encode(done[task.key])))) for task in tasks]

    assert bixler.section_4(2, 5, elsewhere) == report
    monkeypatch.setattr(bixler, "_COLUMNS", 15)  # columns share their normals, however they are split
    whole = bixler.section_4(2, 5, one_after_another)
    assert [row.value for row in whole.rows] == pytest.approx([row.value for row in report.rows], rel=1e-9, abs=1e-12)
    _check_panels(report)


def _check_panels(report: Report) -> None:
    iterations, extra, loss, over = report.panels
    claims = {series.name: series.y[0] for panel in report.panels for series in panel.series if series.claimed}
    assert claims == {
        "the paper: plain descent, about 3000": 3000,
        "the paper: 5 %": 0.05,
        "the paper: 2.4 %": 0.024,
    }
    tables = report.tables()
    assert iterations.reference == (("plain descent", tables[bixler._E1][0].value),)
    for panel, table in ((extra, bixler._EXTRA), (loss, bixler._LOSS)):
        shown = {row.name: row for row in tables[table]}
        for alpha, y, error in zip(panel.series[0].x, panel.series[0].y, panel.series[0].error or (), strict=True):
            assert (y, error) == (shown[f"alpha = {alpha:g}"].value, shown[f"alpha = {alpha:g}"].error)
        assert (panel.x_label, panel.x_scale) == ("alpha", "log")
    ind = {row.name: row.value for row in tables[bixler._IND]}
    notes = {row.name: row.note for row in tables[bixler._IND]}
    assert not notes["alpha = inf"].startswith("loss 0.0%")  # the order is another one
    assert extra.series[1].y == [ind[f"alpha = {alpha:g}"] for alpha in extra.series[1].x]
    assert over.series[0].x == [100, 300]


def test_a_claim_holds_from_the_least_alpha_on_above_which_none_misses_it() -> None:
    values = [("1", 0.9), ("2", 0.01), ("3.3", 0.06), ("5", 0.05), ("10", 0.0)]
    assert bixler._from(values, 0.05) == 5
    assert bixler._from(values, 0.001) == 10
    assert bixler._from([("10", 0.2)], 0.05) == float("inf")

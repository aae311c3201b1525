"""Bixler's section 4: many descents at once equal the protocol's descent, and broken variants miss the bands."""

from __future__ import annotations

import csv
import json
import pickle
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core.learning.input_noise import sgd
from masquerade_core.simulation_rng import SimulationRng
from masquerade_lab.reproduce import Report, bixler
from masquerade_lab.reproduce.bixler import CAP, Column, Kind, descend, draw_sample
from masquerade_lab.reproduce.engine.judging import band
from masquerade_lab.reproduce.engine.tasks import Task, decode, encode, one_after_another
from masquerade_lab.reproduce.papers import PAPERS
from tests import ROOT, bixler_oracle

SEED = "test"


@pytest.fixture(scope="module")
def sample() -> bixler.Sample:
    return draw_sample(1, 3)


def _short(monkeypatch: pytest.MonkeyPatch, last: int = 300) -> None:
    monkeypatch.setattr(bixler, "CHECKPOINTS", (100, last))
    monkeypatch.setattr(bixler, "CAP", last)
    monkeypatch.setattr(bixler, "CAP", last)


def test_records_are_standard_normal_and_labelled_by_a_hyperplane(sample: bixler.Sample) -> None:
    assert sample.X.shape == (3, 5000, 10)
    np.testing.assert_allclose(np.cov(sample.X[0].T), np.eye(10), atol=0.1)
    assert (np.abs(sample.start) <= 1).all()
    u = np.linalg.lstsq(sample.X[0], sample.y[0], rcond=None)[0]
    assert np.mean(np.sign(sample.X[0] @ u) == sample.y[0]) > 0.95


@pytest.mark.parametrize("sd", [None, 0.0, 0.5])
def test_side_by_side_they_are_the_descent_that_the_protocol_trains_with(
    sd: float | None, sample: bixler.Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    _short(monkeypatch)
    found = descend(sample, None if sd is None else [Column(1.0), Column(sd)], SEED)
    column = 0 if sd is None else 1
    order, rng = SimulationRng(SEED, "order"), SimulationRng(SEED, "noise")
    picked = [(bixler._uniforms(order, 3) * 5000).astype(int) for _ in range(300)]
    noise = (sd or 0.0) * np.array([bixler._normals(rng, 3, 11)[:, :10] for _ in range(300)])
    for r in range(3):
        X = np.array([sample.X[r, i[r]] for i in picked]) + noise[:, r]
        batches = [(X[t : t + 1], sample.y[r, i[r] : i[r] + 1]) for t, i in enumerate(picked)]
        w = sgd(sample.start[r], batches, 0.02, "logistic")
        np.testing.assert_allclose(found.weights[1, column, r], w, rtol=0, atol=1e-9)
        loss = np.log1p(np.exp(-sample.y[r] * (sample.X[r] @ w))).mean()
        assert found.losses[1, column, r] == pytest.approx(loss)


def test_a_run_stops_at_its_first_short_gradient(sample: bixler.Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    _short(monkeypatch)
    monkeypatch.setattr(bixler, "TOLERANCE", 0.2)
    found = descend(sample, None, SEED)
    order = SimulationRng(SEED, "order")
    picked = [(bixler._uniforms(order, 3) * 5000).astype(int) for _ in range(300)]
    for r in range(3):
        w, lengths = sample.start[r], []
        for i in picked:
            before, w = w, sgd(w, [(sample.X[r, i[r] : i[r] + 1], sample.y[r, i[r] : i[r] + 1])], 0.02, "logistic")
            lengths.append(np.linalg.norm(w - before) / 0.02)
        short = np.flatnonzero(np.array(lengths) < 0.2)
        assert found.iterations[0, r] == short[0] + 1
        assert len(short) > 1
    monkeypatch.setattr(bixler, "TOLERANCE", 0.0)
    assert (descend(sample, None, SEED).iterations == 300).all()


def test_kinds_of_noise_are_what_they_are_called() -> None:
    kinds = get_args(Kind)
    draw = bixler._noise([Column(0.5, kind) for kind in kinds], SimulationRng(SEED), 2)
    i = np.array([3, 4])
    first, second = (dict(zip(kinds, draw(i), strict=True)) for _ in range(2))
    assert (first["kept"] == second["kept"]).all()
    assert all((first[kind] != second[kind]).all() for kind in kinds if kind != "kept")
    assert (first["scalar"] == first["scalar"][:, :1]).all()
    assert all(len(set(row)) == 1 for row in np.sign(first["half-line"]).tolist())
    many = np.array([draw(i)[0] for _ in range(2000)])
    assert many.std() == pytest.approx(0.5, rel=0.03)


def test_the_oracle_s_descents_are_the_figure_s(sample: bixler.Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same records, order and normals; so the references hold it against what it should be."""
    _short(monkeypatch)
    monkeypatch.setattr(bixler, "TOLERANCE", 0.2)
    monkeypatch.setattr(bixler_oracle, "SHORT", 0.2)
    found = descend(sample, [Column(0.0), Column(0.3)], SEED)
    order, rng = SimulationRng(SEED, "order"), SimulationRng(SEED, "noise")
    stopped, losses = bixler_oracle.descents(
        sample.X,
        sample.y,
        sample.start,
        np.array([0.0, 0.3]),
        lambda: (bixler._uniforms(order, 3) * 5000).astype(int),
        lambda: bixler._normals(rng, 3, 11)[:, :10],
        cap=300,
        checkpoints=range(100, 301, 200),
    )
    np.testing.assert_array_equal(found.iterations, stopped)
    assert len(set(stopped.ravel())) > 3
    np.testing.assert_allclose(found.losses, losses, rtol=1e-9)


def test_half_of_the_step_moves_half_as_far(sample: bixler.Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bixler, "CAP", 1)
    monkeypatch.setattr(bixler, "CHECKPOINTS", (1,))
    whole, half = (descend(sample, None, SEED, step=step).weights[0, 0] - sample.start for step in (0.02, 0.01))
    np.testing.assert_allclose(half, whole / 2)
    assert (np.linalg.norm(whole, axis=1) > 0).all()


def test_extra_iterations_are_a_ratio_of_means_and_losses_a_mean_of_ratios() -> None:
    assert bixler._extra(np.array([110.0, 130.0]), np.array([100.0, 100.0])) == pytest.approx([0.1, 0.3])
    doubled = bixler._extra(np.array([200.0, 600.0]), np.array([100.0, 300.0]))
    assert doubled == pytest.approx([1.0, 1.0])  # runs differ, what is added to them does not
    uneven = bixler._extra(np.array([100.0, 600.0]), np.array([100.0, 300.0]))
    assert uneven.mean() == pytest.approx(0.75)
    assert uneven == pytest.approx(0.75 + np.array([-75, 75]) / 200)
    losses = np.array([[[2.0], [2.2]], [[1.0], [0.7]]])  # two checkpoints, two columns, one run
    both = bixler.Descents(np.full((2, 1), CAP), np.zeros((2, 2, 1, 1)), losses)
    first = bixler.Descents(both.iterations[:1], both.weights[:, :1], losses[:, :1])
    assert bixler._relatives(both, first) == pytest.approx(np.array([[0.0], [(0.1 + 0.3) / 2]]))


def test_a_small_report_has_every_table_and_catches_the_broken_samplers(monkeypatch: pytest.MonkeyPatch) -> None:
    _short(monkeypatch)
    monkeypatch.setattr(bixler, "CHECKPOINTS", (100, 300))
    monkeypatch.setattr(bixler, "_E4_EPOCHS", 4)
    report = bixler.section_4(2, 5, one_after_another)
    tables = report.tables()
    assert len(tables) == 8
    E3 = {row.name: row for row in tables[bixler._E3]}
    assert [name for name, row in E3.items() if row.broken] == ["weights: alpha = 100", "iterations: alpha = 100"]
    same = ("weights", "iterations", "iterations: alpha = 100")  # no run has ended, with noise or without
    assert all((E3[name].value == 0) == (name in same) for name in E3)
    assert not tables[bixler._E1][0].holds  # three hundred updates are too few
    E4 = {row.name: row for row in tables[bixler._E4]}
    assert [row.holds for name, row in E4.items() if "once" in name] == [True, True]
    assert {name: row.holds for name, row in E4.items() if row.broken} == {
        f"{quantity}: {mistake}": True
        for quantity, mistakes in {
            "smallest variance, alpha^2": ("no noise", "half of the noise"),
            "largest variance, alpha^2": ("no noise", "half of the noise"),
            "largest correlation of two coordinates, without its sign": ("scalar n", "n >= 0, one sign"),
            "correlation of accesses": ("kept noise",),
            "once = true: difference": ("noise drawn anew",),
        }.items()
        for mistake in mistakes
    }
    assert E4["smallest variance, alpha^2: half of the noise"].value == E4["smallest variance, alpha^2"].value / 4
    assert all(abs(row.value) < 0.1 for row in E4.values() if "correlation" in row.name and not row.broken)

    def elsewhere(tasks: Sequence[Task]) -> list[Any]:
        sent = [pickle.loads(pickle.dumps(task)) for task in reversed(tasks)]  # noqa: S301 - made here
        done = {task.key: task.function(*task.arguments) for task in sent}
        assert len(done) == len(tasks) > 9
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


def test_a_claim_is_reached_where_the_curve_crosses_its_level() -> None:
    """Alphas are 1/sd; between two of them a value is linear in sd^2."""
    sds = np.array(list(bixler._SDS.values())[1:])
    assert bixler._crossing(3 * sds**2, 0.05) == pytest.approx((3 / 0.05) ** 0.5)
    assert bixler._crossing(3 * sds**2, 1e-5) == pytest.approx((3 / 1e-5) ** 0.5)  # before the first alpha
    assert bixler._crossing(0 * sds, 0.05) == 0.0
    with_a_step = np.where(sds < 0.2, 0.0, 1.0)
    assert bixler._crossing(with_a_step, 0.5) == pytest.approx(((0.15**2 + 0.2**2) / 2) ** -0.5)
    assert bixler_oracle.crossing(3 * sds**2, 0.05) == pytest.approx((3 / 0.05) ** 0.5)


def test_jackknife_s_values_scatter_as_the_quantity_does() -> None:
    rng = np.random.default_rng(3)
    values = 5 + rng.standard_normal((400, 50))

    def log_mean(row: NDArray[np.float64], on: NDArray[np.intp]) -> float:
        return float(np.log(row[on].mean()))

    found = np.array([bixler._jackknifed(partial(log_mean, row), 50) for row in values])
    assert found.shape == (400, 50)
    errors = found.std(axis=1, ddof=1) / 50**0.5
    assert found.mean() == pytest.approx(np.log(5), abs=3 * errors.mean() / 20)
    assert errors.mean() == pytest.approx(found.mean(axis=1).std(), rel=0.15)
    assert bixler._jackknifed(lambda on: 7.0 + len(on), 1) == [8.0]


def test_the_references_bands_of_the_losses_do_not_touch_and_fall_as_alpha_grows() -> None:
    edges = []
    for alpha in list(bixler._SDS)[1:]:
        expected = bixler._expected(f"loss, alpha = {alpha}")
        assert expected is not None
        edges.append(band(expected, PAPERS["bixler"]["4"].draws))
    assert all(below[1] < above[0] for below, above in pairwise(edges))


def test_every_mistake_that_a_band_hides_is_caught_by_another() -> None:
    hidden = {mistake for by_alpha in bixler._UNSEEN.values() for found in by_alpha.values() for mistake in found}
    path = ROOT / "docs" / "reproduction" / "results" / "bixler-4.csv"
    with path.open(encoding="utf-8", newline="") as file:
        caught = [row["name"] for row in csv.DictReader(file) if "caught, power" in row["verdict"]]
    assert {"no noise", "half of the noise", *bixler._KINDS.values()} >= hidden
    for mistake in hidden:
        assert any(name.endswith(f": {mistake}") for name in caught), mistake

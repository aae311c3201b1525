"""Kang's figures: the descents are the protocol's, groups and noises are the paper's, and misses are reported."""

from __future__ import annotations

import csv
import json
import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.privacy.noise.local_descent import descent_sigma
from masquerade_core.simulation_rng import SimulationRng
from masquerade_lab.encoding import _coordinates, one_hot
from masquerade_lab.originals import Table
from masquerade_lab.reproduce import Report, kang
from masquerade_lab.reproduce.engine.draws import normals
from masquerade_lab.reproduce.engine.judging import reference
from masquerade_lab.reproduce.engine.tasks import Task, decode, encode, one_after_another
from masquerade_lab.reproduce.kang import (
    BEST,
    ETAS,
    FIGURE_1,
    FIGURE_2,
    FIGURE_PL,
    NOT_CONVEX,
    SHARE,
    Descents,
    FigurePlan,
    Found,
    Setting,
    Split,
    Together,
    accuracies,
    descended,
    local_descents,
    losses,
    party_sizes,
    random_sizes,
    sigma,
)
from masquerade_protocols.blocks import local_descent
from tests import ROOT, kang_oracle
from tests.messages import raises, sentence
from tests.protocol_helpers import make_data
from tests.sum_helpers import descent_study

_Array = NDArray[np.float64]


def _records(n: int = 300, d: int = 4, seed: int = 0) -> Dataset:
    return make_data(descent_study("weighted-dp", K=2, d=d, section="c = 1.0"), (n, 2), seed)["p0"]


def test_local_descents_are_the_protocol_s_without_noise_and_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol gets the same normal numbers as the figure's descent."""
    T, sizes = 12, (30, 31, 90, 90)
    study = descent_study("weighted-dp", K=4, d=3, section="c = 1.0", Lambda=0.0)
    data = make_data(study, sizes)
    parts = [part.X * part.y[:, None] for part in data.values()]
    sds = np.array([[0.3, 0.3, 0.3, 0.3], [0.1, 0.2, 0.3, 0.4]])
    theta, _ = local_descents(parts, sds, T, 2, SimulationRng(1, "descents"))
    assert theta.shape == (4, 3, 5, 5)
    same = SimulationRng(1, "descents")
    z = np.array([normals(same, 24).reshape(4, 3, 2) for _ in range(T)])
    unit = float(1 << local_descent.FRACTION_BITS)
    for j, (name, n) in enumerate(zip(study.names, sizes, strict=True)):
        for column in range(5):
            sd = 0.0 if column == 0 else sds[(column - 1) // 2, j]
            planted = (n * sd * unit * z[:, j, :, (column - 1) % 2]).round().astype(int).ravel().tolist()
            monkeypatch.setattr(local_descent, "gaussian", lambda *_, planted=planted: planted)
            own = local_descent.local_descent(study, T, ETAS[3], Fraction(1), data[name], SimulationRng(0))
            np.testing.assert_allclose(theta[j, :, 3, column], own, rtol=0, atol=1e-6)


@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_a_descent_together_has_one_theta_for_all_and_one_noise_a_round(*, single: bool, by_size: bool) -> None:
    """Against a few lines that get the same normals; parties of other sizes count as much as each other, or by size.

    The local descents beside which it runs, and the order of such descents, change nothing.
    """
    rng = np.random.default_rng(6)
    parts = [np.round(rng.standard_normal((n, 3)), 1) / 4 for n in (5, 40, 41, 90)]
    rounds, draws, sds = 30, 2, np.array([0.05, 0.2])
    other = Together(np.array([0.4]), SimulationRng(1, "other"), by_size=not by_size)
    asked, local = Together(sds, SimulationRng(1, "gathered"), by_size), np.array([[0.3, 0.1, 0.2, 0.4]])
    theta, (_, found) = local_descents(parts, local, rounds, draws, SimulationRng(2), [other, asked], single=single)
    alone, _ = local_descents(parts, local, rounds, draws, SimulationRng(2), single=single)
    np.testing.assert_allclose(theta, alone, atol=1e-5 if single else 1e-12)
    assert found.shape == (3, 5, 5)
    together = [np.concatenate(parts)] if by_size else parts
    for which, sd in enumerate((0.0, *sds)):
        same = SimulationRng(1, "gathered")

        def shaped(shape: tuple[int, ...], same: SimulationRng = same) -> _Array:
            return normals(same, math.prod(shape)).reshape(shape)

        expected = kang_oracle.gradient_perturbation(together, sd, rounds, draws, shaped)
        columns = slice(1 + (which - 1) * draws, 1 + which * draws) if which else slice(0, 1)
        np.testing.assert_allclose(
            found[:, :, columns], expected[:, :, : columns.stop - columns.start], atol=1e-5 if single else 1e-12
        )


def test_the_oracle_s_local_descents_are_the_figure_s() -> None:
    rng = np.random.default_rng(7)
    parts = [rng.standard_normal((n, 3)) / 4 for n in (5, 40)]
    theta, _ = local_descents(parts, np.zeros((1, 2)), 20, 1, SimulationRng(1))
    average = np.einsum("j,jdec->dec", np.array([5, 40]) / 45, theta)
    expected = kang_oracle.weighted(parts, 0.0, 20, 1, np.zeros)
    np.testing.assert_allclose(average[:, :, :1], expected, atol=1e-12)


def test_normals_are_normal() -> None:
    z = normals(SimulationRng(7, "normals"), 40_001)
    assert len(z) == 40_001
    assert stats.kstest(z, stats.norm.cdf).pvalue > 1e-6
    assert abs(float(np.corrcoef(z[:20_000], z[20_000:40_000])[0, 1])) < 0.04


@pytest.mark.parametrize(("n", "m", "u"), [(559, 16, 1), (559, 16, 5), (757, 16, 3), (36178, 16, 9), (45222, 32, 5)])
def test_half_of_the_parties_have_u_times_as_many_records(n: int, m: int, u: float) -> None:
    sizes = party_sizes(n, m, u)
    assert sizes.sum() == n
    assert len(sizes) == m
    assert sizes[m // 2 :].mean() / sizes[: m // 2].mean() == pytest.approx(u, rel=0.06)
    assert len(set(sizes[: m // 2])) == 1


def test_sigma_is_the_protocol_s() -> None:
    setting = Setting(c=2.0, rounds=77)
    exact = descent_sigma(2.0, Fraction(1), 77, setting.epsilon, setting.delta, 559)
    assert sigma(setting, 559) == pytest.approx(float(exact), rel=1e-12)


def test_single_precision_finds_the_same_weights_however_records_are_stacked_and_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records that occur more than once are taken once, with their count; long parties are cut into blocks of rows."""
    records = _records(240, 3)
    Z = np.repeat(records.X * records.y[:, None], 2, axis=0)[:470]
    parts = np.split(Z, np.cumsum([20, 22, 60, 64]))
    sds = np.array([[0.3] * 5, [0.1, 0.2, 0.3, 0.4, 0.5]])
    exact, _ = local_descents(parts, sds, 60, 2, SimulationRng(4))
    for part, theta in zip(parts, exact, strict=True):  # the oracle takes a record as often as it occurs
        np.testing.assert_allclose(theta[..., :1], kang_oracle.weighted([part], 0.0, 60, 1, np.zeros), atol=1e-12)
    for chunk in (2048, 17):
        monkeypatch.setattr(kang, "_CHUNK", chunk)
        blocks = kang._blocks(parts, np.float32)
        assert sum(block.Z.shape[0] * block.Z.shape[1] for block in blocks) < 0.7 * len(Z)
        found, _ = local_descents(parts, sds, 60, 2, SimulationRng(4), single=True)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-4)
    cut = kang._blocks(parts, np.float32)
    assert len({block.at.start for block in cut}) < len(cut)


@pytest.mark.parametrize(("n", "m"), [(559, 32), (36178, 2), (40, 8)])
def test_random_sizes_add_up_and_no_party_has_less_than_a_quarter_of_an_even_share(n: int, m: int) -> None:
    seen = {tuple(random_sizes(n, m, SimulationRng(seed))) for seed in range(20)}
    assert len(seen) > 15
    for sizes in seen:
        assert (sum(sizes), len(sizes)) == (n, m)
        assert sizes == tuple(sorted(sizes))
        assert sizes[0] >= n // (4 * m)
    assert min(sizes[0] for sizes in seen) < 0.6 * n / m


@pytest.fixture(scope="module")
def found() -> Found:
    descents = Descents("u", Setting(rounds=40, m=4), (1, 5), FIGURE_2.small.methods, 3, "test")
    return Found(descended(_records(1600, 4), descents, range(6)), "u", (1, 5))


def test_averages_by_size_have_noise_wider_by_the_root_of_the_sum_of_squared_weights(found: Found) -> None:
    """sqrt(m sum p^2) is sqrt(2 (u^2 + 1))/(1 + u) for two groups, whatever m is."""
    ratio = math.sqrt(found.cells["squares W, u = 5"].mean() / found.cells["squares U, u = 5"].mean())
    assert ratio == pytest.approx(math.sqrt(52) / 6, rel=0.08)


def test_the_comparator_s_noise_grows_with_unevenness(found: Found) -> None:
    rows = {row.name: row for row in kang._banded(FIGURE_2, "BC", found)}
    W, J = found.best("W", 5), found.best("J", 5)
    assert rows["J(1) - J(5)"].value == pytest.approx((found.best("J", 1) - J).mean())
    assert W.mean() > J.mean()
    for method in ("W", "J", "U", "U min", "W own"):
        assert found.at(method, 5).shape == (6, 5, 3)
    assert found.at("W none", 5).shape == found.at("C none", 1).shape == (6, 5, 1)
    assert np.allclose(found.best("U", 1), found.best("U min", 1), atol=0.02)  # at u = 1, m n_(1) = n


def test_a_gap_is_the_loss_above_the_least_possible_one(found: Found) -> None:
    split = Split.of(_records(1600, 4), SimulationRng("test", "partition 2"))
    steps = np.zeros(4)
    for _ in range(4000):
        steps -= 4 * (split.Z * -1 / (1 + np.exp(split.Z @ steps))[:, None]).mean(axis=0)
    least = np.log1p(np.exp(-(split.Z @ steps))).mean()
    assert found.cells[BEST][2] == pytest.approx(least, abs=1e-5)
    assert losses(steps[None, None], split.Z)[0, 0] == pytest.approx(least)
    for method in ("W", "J", "U", "U min", "W own"):
        assert (found.gap(method, 5) > 0).all()
    assert found.gap("C none", 1).mean() < found.gap("C", 1).mean() < 2


def test_the_best_learning_rate_is_taken_for_each_method_and_cell() -> None:
    cells = {
        "W, u = 1": np.array([[[0.1, 0.2], [0.9, 0.5]], [[0.1, 0.3], [0.6, 0.4]]]),
        "loss W, u = 1": np.array([[[0.1, 0.2], [0.9, 0.5]], [[0.1, 0.3], [0.6, 0.4]]]),
        BEST: np.array([0.1, 0.0]),
    }
    np.testing.assert_array_equal(Found(cells, "u", (1,)).best("W", 1), [[0.9, 0.5], [0.6, 0.4]])
    np.testing.assert_allclose(Found(cells, "u", (1,)).gap("W", 1), [[0.0, 0.1], [0.1, 0.3]], atol=1e-15)


def test_accuracy_counts_what_is_labelled_rightly() -> None:
    test = Dataset.from_unit_ball(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([1.0, -1.0, -1.0]))
    theta = np.array([[[1.0, -1.0], [1.0, 1.0], [-1.0, 0.0]]])
    np.testing.assert_allclose(accuracies(theta, test), [[1.0, 2 / 3, 1 / 3]])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one data set: as many records as BC's, invented."""
    root = tmp_path_factory.mktemp("data")
    folder = root / "breast-cancer-wisconsin"
    folder.mkdir()
    rng = np.random.default_rng(2)
    ill = rng.random(699) < 0.345
    grades = np.clip(np.where(ill, 7, 2)[:, None] + rng.integers(-2, 4, size=(699, 9)), 1, 10)
    lines = [
        f"{i},{','.join(map(str, row))},{4 if sick else 2}"
        for i, (row, sick) in enumerate(zip(grades, ill, strict=True))
    ]
    lines[5] = "5,1,1,1,1,2,?,3,1,1,2"
    (folder / "breast-cancer-wisconsin.data").write_text("\n".join(lines) + "\n")
    return root


def _smaller(plan: FigurePlan, setting: Setting, partitions: int) -> FigurePlan:
    """The main figure with fewer partitions of all sets, and the appendix with fewer of the small ones."""
    small, large, appendix = (
        replace(effort, partitions=partitions, tasks=min(partitions, effort.tasks))
        for effort in (plan.small, plan.large, plan.small_appendix)
    )
    return replace(plan, setting=setting, small=small, large=large, small_appendix=appendix)


def _elsewhere(tasks: Sequence[Task]) -> list[Any]:
    """Run the tasks in another order, each as it would travel to another process."""
    done = {}
    for task in reversed(tasks):
        kang.stored.cache_clear()
        sent = pickle.loads(pickle.dumps(task))  # noqa: S301 - made here
        done[task.key] = sent.function(*sent.arguments)
    assert len(done) == len(tasks)
    return [decode(json.loads(json.dumps(encode(done[task.key])))) for task in tasks]


def test_a_missing_folder_is_named_and_a_directory_without_folders_is_refused(tmp_path: Path, directory: Path) -> None:
    (tmp_path / "empty").mkdir()
    for figure, folder in ((kang.figure_2, "creditcard-balanced946"), (kang.figure_1, "adult")):
        with raises(BadInput, "no_folder_needed", ..., ...) as caught:
            figure(1, 1, one_after_another, tmp_path / "empty")
        assert folder in caught.value.message
    plan = _smaller(FIGURE_2, Setting(rounds=5), 2)
    report = kang.figure_2(2, 1, one_after_another, directory, plan)
    assert any(
        "Left out" in note and sentence("no_such_folder", "Credit", "creditcard-balanced946") in note
        for note in report.notes
    )
    assert not any("Credit" in row.name or "Credit" in row.table for row in report.rows)
    assert any(row.table == "C3: BC" for row in report.rows)
    proved = {row.name: row.value for row in report.rows if row.table == kang._PROVED_BY_SIZE}
    assert proved["even split"] == pytest.approx(1.713, abs=1e-3)
    assert kang.figure_2(2, 1, _elsewhere, directory, plan) == report
    assert kang.figure_2(2, 2, one_after_another, directory, plan).rows != report.rows


def test_figure_2_draws_accuracies_and_gaps_over_u_for_all_settings_of_the_paper(
    directory: Path,
) -> None:
    report = kang.figure_2(1, 1, one_after_another, directory, _smaller(FIGURE_2, Setting(rounds=5), 4))
    titles = [panel.title for panel in report.panels]
    assert titles == [
        "Figure 2: BC, m = 16, eps = 0.05",
        "Figure 12: BC, m = 16, eps = 0.05",
        "Figure 13: BC, m = 32, eps = 0.1",
        "Figure 14: BC, m = 32, eps = 0.1",
        "Figure 15: BC, m = 8, eps = 0.01",
        "Figure 16: BC, m = 8, eps = 0.01",
    ]
    shown = {row.name: row for row in report.rows if row.table == "Figure 2: accuracy, BC"}
    by_name = {series.name: series for series in report.panels[0].series}
    assert by_name["J, compared"].y == [shown[f"J, u = {u}"].value for u in (1, 3, 5)]
    assert by_name["J, compared"].error == [shown[f"J, u = {u}"].error for u in (1, 3, 5)]
    assert by_name["C, central"].y == [shown["C"].value] * 3
    assert report.panels[0].reference[0] == ("the more frequent label", shown["the more frequent label"].value)
    for panel in report.panels[1::2]:
        assert panel.y_scale == "log"
        assert min(y for series in panel.series for y in series.y) > 0


def test_the_large_sets_have_noise_and_rows_without_bands(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, read = kang.SMALL["BC"]
    monkeypatch.setitem(kang.LARGE, "Adult", (folder, read))
    monkeypatch.setattr(kang, "folders", lambda *_, **__: ({"Adult": directory / folder}, []))
    report = kang.figure_2(2, 1, _elsewhere, directory, _smaller(FIGURE_2, Setting(rounds=10), 2))
    differences = {row.name: row for row in report.rows if row.table == "The same differences: Adult"}
    assert {row.banded for row in differences.values()} == {False}
    assert all(row.error is not None and row.error > 0 for row in differences.values())
    accuracies = {row.name: row for row in report.rows if row.table == "Figure 2: accuracy, Adult"}
    assert (accuracies["U min, u = 9"].note, accuracies["U min, u = 5"].note) == ("expected 0.8288", "")
    assert differences["W(9) - J(9)"].value == pytest.approx(
        accuracies["W, u = 9"].value - accuracies["J, u = 9"].value
    )


def test_half_of_the_noise_is_half_of_each_method_s(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth noise of the local descents, and the second of J and C."""
    asked: list[tuple[_Array, list[Together]]] = []

    def noted(parts: Sequence[_Array], sds: _Array, *rest: Any, **more: Any) -> Any:
        asked.append((sds, rest[3]))
        return local_descents(parts, sds, *rest, **more)

    monkeypatch.setattr(kang, "local_descents", noted)
    descents = Descents("u", Setting(m=4, rounds=3), (1, 5), FIGURE_2.small.methods, 2, "seed")
    folder = directory / kang.SMALL["BC"][0]
    cells = descended(("BC", folder), descents, (0,))
    for (sds, together), u in zip(asked, (1, 5), strict=True):
        np.testing.assert_allclose(sds[3], sds[0] / 2)
        J, *C = together
        np.testing.assert_allclose(J.sds, [sds[1, 0], sds[1, 0] / 2])
        assert not J.by_size
        assert [one.by_size for one in C] == ([True] if u == 1 else [])
        for one in C:
            np.testing.assert_allclose(one.sds, [sds[0, 0], sds[0, 0] / 2])
        assert cells[f"J half, u = {u}"].shape == cells[f"J, u = {u}"].shape
        assert not np.array_equal(cells[f"loss J half, u = {u}"], cells[f"loss J, u = {u}"])
    whole = replace(descents, methods=FIGURE_2.large.methods)
    assert not any("half" in name for name in descended(("BC", folder), whole, (0,)))


@pytest.mark.parametrize(
    ("levels", "outside"),
    [
        ({}, set()),
        ({"W, u = 5": 0.5}, {"W(5)", "W(5) - J(5)", "W(1) - W(5)"}),
        ({"J, u = 1": 0.9}, {"J(1)", "W(1) - J(1)", "J(1) - J(5)"}),
        ({"C, u = 1": 0.9}, {"C"}),
    ],
)
def test_figure_2_s_method_that_is_not_where_the_other_program_has_it_is_seen(
    levels: dict[str, float], outside: set[str]
) -> None:
    """Every draw lies at the reference's mean, but for the methods that are moved."""
    expected = {}
    for name, point in (("W(1)", "W, u = 1"), ("W(5)", "W, u = 5"), ("J(1)", "J, u = 1"), ("J(5)", "J, u = 5")):
        found = reference("kang 2", f"BC, {name}")
        assert found is not None
        expected[point] = found.mean
    central = reference("kang 2", "BC, C")
    assert central is not None
    expected["C, u = 1"] = central.mean
    methods = ("W own", "U min", "U", "W half", "J half", "C half", *map("{} none".format, "WJC"))
    others = {f"{method}, u = {u}": 0.99 for method in methods for u in (1, 5)}
    rng = np.random.default_rng(1)
    cells: kang.Cells = {
        point: level + 1e-3 * rng.standard_normal((20, 5, 2)) for point, level in (expected | others | levels).items()
    }
    rows = kang._banded(FIGURE_2, "BC", Found(cells, "u", (1, 3, 5)))
    assert {row.name for row in rows if not row.broken and not row.holds} == outside


def test_a_mistake_that_a_band_of_figure_2_hides_is_caught_elsewhere() -> None:
    """On the other set, or by another quantity of the same method; the plain average by the spread of the noise."""
    path = ROOT / "docs" / "reproduction" / "results" / "kang-2.csv"
    with path.open(encoding="utf-8", newline="") as file:
        stored = list(csv.DictReader(file))
    caught = {row["name"] for row in stored if row["table"].startswith("C3") and ": caught, power" in row["verdict"]}
    hidden = {mistake for found in FIGURE_2.unseen.values() for mistake in found}
    assert len(hidden) > 10
    for _, mistake in hidden:
        assert any(name.endswith(f": {mistake}") for name in caught), mistake
    assert {name for name in caught if "half of the noise" in name} >= {
        f"{quantity}: half of the noise" for quantity in ("W(1)", "W(5)", "J(1)", "J(5)", "C")
    }
    assert [row["verdict"] for row in stored if "weights left out" in row["name"]] == ["outside: caught"] * 2


def test_accuracy_without_noise_tells_noise_and_the_frequent_label_apart_where_it_can(found: Found) -> None:
    cells = {name: np.full_like(values, 0.955) for name, values in found.cells.items() if "none" in name}
    noisy = found.at("W", 1)
    cells |= {"W, u = 1": np.full_like(noisy, 0.9), SHARE: np.full(6, 0.65)}
    rows = {row.name: row for row in kang._noiseless("BC", Found(cells, "u", (1, 5)))}
    assert rows["BC, W"].holds
    for mistake, level in (("the more frequent label", 0.65), ("noise of n records", 0.9)):
        assert rows[f"BC, W: {mistake}"].value == pytest.approx(level)
        assert rows[f"BC, W: {mistake}"].holds
    cells["W, u = 1"] = np.full_like(noisy, 0.955)
    rows = {row.name: row for row in kang._noiseless("BC", Found(cells, "u", (1, 5)))}
    assert not rows["BC, W: noise of n records"].holds
    large = {row.name: row for row in kang._noiseless("Adult", Found(cells, "u", (1, 5)))}
    assert large["Adult, W: noise of n records"].note.startswith("not seen here: power ")


# --- Figure 1 -----------------------------------------------------------------------


_FEWER_M = replace(_smaller(FIGURE_1, Setting(m=16, rounds=100, c=0.1), 4), appendix=({"m": 2}, {"m": 4}))


@pytest.fixture(scope="module")
def report(directory: Path) -> Report:
    return kang.figure_1(2, 1, _elsewhere, directory, _FEWER_M)


def test_figure_1_has_every_table_and_every_figure_of_the_appendix(report: Report, directory: Path) -> None:
    banded = [row for row in report.rows if row.table == FIGURE_1.banded.format("BC")]
    assert {row.name for row in banded if row.banded and not row.broken} == {"W", "J", "C", "W - J", "W - C"}
    assert {row.name for row in banded if row.broken} >= {
        "W: no noise",
        "W: half of the noise",
        "J: no noise",
    }
    assert {row.table for row in report.rows} >= {
        f"The appendix, m = {m}: means over epsilon of differences" for m in (2, 4)
    }
    assert [panel.title for panel in report.panels[::2]] == [
        "Figure 10: BC, m = 16",
        "Figure 4: BC, m = 2",
        "Figure 6: BC, m = 4",
    ]
    for panel in report.panels:
        assert all(tuple(series.x) == kang.EPSILONS and not series.claimed for series in panel.series)
    again = kang.figure_1(2, 1, one_after_another, directory, _FEWER_M)
    assert again == report


def test_figure_1_s_curves_are_the_rows_and_c_is_the_same_for_every_m(report: Report) -> None:
    shown = {row.name: row.value for row in report.rows if row.table == "Figure 1: accuracy, BC"}
    main = {series.name: series.y for series in report.panels[0].series}
    assert main["W, the paper's"] == [shown[f"W, eps = {eps:g}"] for eps in kang.EPSILONS]
    for panel in report.panels[::2]:
        assert {series.name: series.y for series in panel.series}["C, central"] == main["C, central"]
    others = [{series.name: series.y for series in panel.series} for panel in report.panels[2::2]]
    assert all(
        set(one) == {"W, the paper's", "U, plain average", "U min", "J, compared", "C, central"} for one in others
    )
    assert others[0]["J, compared"] != others[1]["J, compared"]


def test_figure_1_s_noises_are_those_of_their_records(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[_Array] = []

    def noted(parts: Sequence[_Array], sds: _Array, *rest: Any, **more: Any) -> Any:
        asked.append(sds / np.array([len(part) for part in parts])[None, :] ** -1.0)
        sizes.append([len(part) for part in parts])
        return local_descents(parts, sds, *rest, **more)

    sizes: list[list[int]] = []
    monkeypatch.setattr(kang, "local_descents", noted)
    folder = directory / "breast-cancer-wisconsin"
    descents = Descents("eps", Setting(m=4, rounds=2), (0.1, 0.2), FIGURE_1.small.methods, 1, "seed", single=True)
    descended(("BC", folder), descents, (0,))
    (sds,), (counts,) = asked, sizes
    n = sum(counts)
    unit = math.sqrt(2 * math.log(1000))
    for i, eps in enumerate((0.1, 0.2)):
        noises: list[list[float]] = [[n] * 4, [4 * min(counts)] * 4, [*counts], [n / 2] * 4]
        for row, records in enumerate(noises):
            expected = [unit / (k * eps) * own for k, own in zip(records, counts, strict=True)]
            np.testing.assert_allclose(sds[4 * i + row], expected)


def test_each_epsilon_has_the_descents_that_it_has_alone() -> None:
    records = _records(200, 4)
    both = Descents("eps", Setting(m=4, rounds=20), (0.1, 0.4), FIGURE_1.small.methods, 2, "seed")
    found = descended(records, both, (0, 1))
    for eps in both.points:
        alone = descended(records, replace(both, points=(eps,)), (0, 1))
        for method in both.methods:
            name = f"loss {method}, eps = {eps:g}"
            np.testing.assert_allclose(found[name], alone[name], rtol=1e-9)
    assert found["loss W, eps = 0.1"].mean() > found["loss W, eps = 0.4"].mean()


@pytest.mark.parametrize(
    ("levels", "outside"),
    [({}, set()), ({"W": 0.95}, {"W", "W - J", "W - C"}), ({"J": 0.85}, {"J", "W - J"}), ({"C": 0.5}, {"C", "W - C"})],
)
def test_a_method_that_is_not_where_the_other_program_has_it_is_seen(
    levels: dict[str, float], outside: set[str]
) -> None:
    """Every draw lies at the reference's mean, but for the methods that are moved."""
    expected = {}
    for method in ("W", "J", "C"):
        found = reference("kang 1", f"BC, {method}")
        assert found is not None
        expected[method] = found.mean
    rng, others = (
        np.random.default_rng(1),
        dict.fromkeys(("U", "U min", "W own", "W wide", *map("{} none".format, "WJC")), 0.99),
    )
    cells: kang.Cells = {SHARE: np.full(20, 0.6), BEST: np.zeros(20)}
    for method, level in (expected | others | levels).items():
        for eps in kang.EPSILONS:
            cells[f"{method}, eps = {eps:g}"] = level + 1e-3 * rng.standard_normal((20, 5, 2))
    rows = kang._banded(FIGURE_1, "BC", Found(cells, "eps", kang.EPSILONS))
    assert {row.name for row in rows if not row.broken and not row.holds} == outside


# --- The loss that is not convex ---------------------------------------------------------


def test_a_descent_on_the_sigmoid_is_that_of_a_few_lines_and_its_ratio_is_the_condition_s() -> None:
    records = _records(200, 3)
    Z = records.X * records.y[:, None]
    eps, draws = 0.5, 2
    same = SimulationRng(1, "PL")
    expected = kang_oracle.sigmoid_gaps(Z, eps, draws, lambda shape: normals(same, math.prod(shape)).reshape(shape))
    best = np.zeros(3)
    for _ in range(20_000):
        best -= NOT_CONVEX.gradient(Z, best) / NOT_CONVEX.smooth
    least = float(NOT_CONVEX.value(Z, best))
    sds = np.full(draws, sigma(FIGURE_PL.setting(eps), len(Z)))
    found, ratio = FIGURE_PL.descend(Z, np.zeros((3, draws)), sds, SimulationRng(1, "PL"), least)
    np.testing.assert_allclose(found, expected, rtol=1e-5)  # its 1/L is rounded: 1e-7 of a step
    first = NOT_CONVEX.gradient(Z, np.zeros(3))
    assert 0 < ratio <= (first @ first) / (2 * (0.5 - least)) + 1e-12
    theta, ratios = np.zeros((3, 1)), []
    for _ in range(FIGURE_PL.rounds):
        gradient = NOT_CONVEX.gradient(Z, theta)
        ratios.append(float((gradient**2).sum() / (2 * (NOT_CONVEX.value(Z, theta)[0] - least))))
        theta = theta - gradient / NOT_CONVEX.smooth
    assert min(ratios) < 0.99 * min(ratios[:50])
    assert FIGURE_PL.descend(Z, np.zeros((3, 1)), np.zeros(1), None, least)[1] == pytest.approx(min(ratios))
    h, w = 1e-5, -best
    columns = [(NOT_CONVEX.gradient(Z, w + h * e) - NOT_CONVEX.gradient(Z, w - h * e)) / (2 * h) for e in np.eye(3)]
    assert NOT_CONVEX.least_eigenvalue(Z, w) == pytest.approx(np.linalg.eigvalsh(np.array(columns))[0], abs=1e-6)
    assert NOT_CONVEX.least_eigenvalue(Z, w) < 0


def test_the_figure_of_the_loss_that_is_not_convex(directory: Path) -> None:
    plan = replace(FIGURE_PL, partitions=3)
    report = kang.figure_pl(2, 1, one_after_another, directory, plan)
    rows = {row.name: row for row in report.rows}
    assert rows["least eigenvalue of the Hessian"].value < 0 < rows["mu on the noisy paths"].value
    for eps in plan.epsilons:
        assert 0 < rows[f"eps = {eps:g}: measured"].value < rows[f"eps = {eps:g}: bound"].value
    assert [row.name for row in report.rows if row.broken] == ["gap: no noise", "gap: half of the noise"] * 2
    assert kang.figure_pl(2, 1, _elsewhere, directory, plan) == report


def test_tables_become_records_in_the_unit_ball() -> None:
    table = Table(("age", "job", "y"), [("20", "a", "no"), ("60", "b", "yes"), ("40", "a", "no")])
    data = one_hot(table, "y", lambda cell: cell == "yes")
    rows = np.array([[0, 1, 0, 1], [1, 0, 1, 1], [0.5, 1, 0, 1]])
    np.testing.assert_allclose(data.X, rows / np.linalg.norm(rows, axis=1)[:, None])
    np.testing.assert_array_equal(data.y, [-1, 1, -1])


def test_amounts_that_span_two_orders_of_magnitude_go_in_by_their_logarithm_and_columns_can_be_left_out() -> None:
    gains, rates, balances = ("0", "9", "99"), ("0", "9", "100"), ("-1", "9", "500")
    for cells, expected in ((gains, [0, 9 / 99, 1]), (rates, [0, math.log(10) / math.log(101), 1])):
        np.testing.assert_allclose(_coordinates(cells)[:, 0], expected)
    np.testing.assert_allclose(_coordinates(balances)[:, 0], [0, 10 / 501, 1])
    table = Table(("age", "duration", "y"), [("20", "7", "no"), ("60", "8", "yes")])
    assert one_hot(table, "y", lambda cell: cell == "yes", left_out=("duration",)).X.shape == (2, 2)

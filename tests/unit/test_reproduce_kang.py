"""Kang's figure 2: the descents are the protocol's, groups and noises are the paper's, and misses are reported."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade.originals import Table
from masquerade.reproduce import kang, kang_runs
from masquerade.reproduce.kang_data import _coordinates, one_hot
from masquerade.reproduce.kang_runs import ETAS, Setting, accuracies, local_descents, party_sizes, sigma
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.privacy.noise.local_descent import descent_sigma
from masquerade_core.rng import SimulationRng
from masquerade_protocols.blocks import local_descent
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
    theta = local_descents(parts, sds, T, 2, SimulationRng(1, "descents"))
    assert theta.shape == (4, 3, 5, 5)
    same = SimulationRng(1, "descents")
    z = np.array([kang_runs._normals(same, 24).reshape(4, 3, 2) for _ in range(T)])
    unit = float(1 << local_descent.FRACTION_BITS)
    for j, (name, n) in enumerate(zip(study.names, sizes, strict=True)):
        for column in range(5):
            sd = 0.0 if column == 0 else sds[(column - 1) // 2, j]
            planted = (n * sd * unit * z[:, j, :, (column - 1) % 2]).round().astype(int).ravel().tolist()
            monkeypatch.setattr(local_descent, "gaussian", lambda *_, planted=planted: planted)
            own = local_descent.local_descent(study, T, ETAS[3], Fraction(1), data[name], SimulationRng(0))
            np.testing.assert_allclose(theta[j, :, 3, column], own, rtol=0, atol=1e-6)


def test_normals_are_normal() -> None:
    z = kang_runs._normals(SimulationRng(7, "normals"), 40_001)
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


@pytest.fixture(scope="module")
def found() -> kang.Found:
    return kang.descend_all(_records(1600, 4), Setting(rounds=40, m=4), (1, 5), 6, 3, "test")


def test_averages_by_size_have_noise_wider_by_the_root_of_the_sum_of_squared_weights(found: kang.Found) -> None:
    """sqrt(m sum p^2) is sqrt(2 (u^2 + 1))/(1 + u) for two groups, whatever m is."""
    ratio = math.sqrt(np.mean(found.squares["W"]) / np.mean(found.squares["U"]))
    assert ratio == pytest.approx(math.sqrt(52) / 6, rel=0.08)


def test_the_comparison_s_noise_grows_with_unevenness_and_equal_noise_shows_nothing(found: kang.Found) -> None:
    rows = {row.name: row for row in kang._compared("BC", found)}
    W, UJ = found.best("W", 5), found.best("UJ", 5)
    assert rows["W(5) - U(5)"].broken
    assert rows["UJ(1) - UJ(5)"].value == pytest.approx((found.best("UJ", 1) - UJ).mean())
    assert W.mean() > UJ.mean()
    for key, at in found.by.items():
        assert all(part.shape == (5, 1 if "none" in key[0] else 3) for part in at)
    assert np.allclose(found.best("U", 1), found.best("UJ", 1), atol=0.02)  # at u = 1, m n_(1) = n


def test_the_best_learning_rate_is_taken_for_each_method_and_cell() -> None:
    found = kang.Found({("W", 1): [np.array([[0.1, 0.2], [0.9, 0.5]]), np.array([[0.1, 0.3], [0.6, 0.4]])]})
    np.testing.assert_array_equal(found.best("W", 1), [[0.9, 0.5], [0.6, 0.4]])


def test_accuracy_counts_what_is_labelled_rightly() -> None:
    test = Dataset.from_unit_ball(np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([1.0, -1.0, -1.0]))
    theta = np.array([[[1.0, -1.0], [1.0, 1.0], [-1.0, 0.0]]])
    np.testing.assert_allclose(accuracies(theta, test), [[1.0, 2 / 3, 1 / 3]])


def test_a_missing_folder_is_named_and_a_directory_without_folders_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="neither a folder breast-cancer-wisconsin nor"):
        kang.figure_2(1, 1, lambda _done, _of: None, tmp_path)
    folder = tmp_path / "breast-cancer-wisconsin"
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
    monkeypatch.setattr(kang, "_SMALL_PARTITIONS", 2)
    steps: list[tuple[int, int]] = []
    report = kang.figure_2(2, 1, lambda done, of: steps.append((done, of)), tmp_path, Setting(rounds=5))
    assert any("Left out" in note and "Credit (no folder creditcard-balanced946)" in note for note in report.notes)
    assert not any("Credit" in row.name or "Credit" in row.table for row in report.rows)
    assert any(row.table == "C3: BC" for row in report.rows)
    assert steps == [(i, 6) for i in range(1, 7)]
    proved = {row.name: row.value for row in report.rows if row.table == kang._PROVED}
    assert proved["even split"] == pytest.approx(1.713, abs=1e-3)


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

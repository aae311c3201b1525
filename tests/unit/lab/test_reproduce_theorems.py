"""Figures next to the papers' theorems, on invented records: the right quantity is measured, and a break shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from masquerade.console import literal_console
from masquerade_core.data.schema import Dataset
from masquerade_lab.baselines.gop import gop_minimiser
from masquerade_lab.commands.reproduce import _theorems
from masquerade_lab.reproduce import Report, hamm, kang, pathak, rajkumar
from masquerade_lab.reproduce.engine.draws import normals
from masquerade_lab.reproduce.engine.files import numbers_csv
from masquerade_lab.reproduce.engine.report import Measured
from masquerade_lab.reproduce.kang import Setting
from masquerade_lab.reproduce.pathak import Records

_Array = NDArray[np.float64]


def _failed(found: list[Measured]) -> list[str]:
    return [row.name.partition(": 95")[0] for row in Report("p", "1", (), {}, (), theorems=found).failed]


# --- Pathak ---------------------------------------------------------------------------------


def _adult(seed: int, n: int) -> tuple[_Array, _Array]:
    generator = np.random.default_rng(seed)
    bits = generator.integers(0, 2, (n, 14))
    X = np.hstack([bits, 1 - bits]).astype(float)
    return X, np.where(X[:, 0] + generator.normal(size=n) > 0.7, 1.0, -1.0)


@pytest.fixture(scope="module")
def adult() -> Records:
    return Records(*_adult(1, 500), *_adult(2, 300))


def _pathak(adult: Records) -> list[Measured]:
    return pathak.compared([pathak.excesses(adult, part, 20, 1) for part in ((0, 1), (2,))])


def test_pathaks_theorems_are_measured_on_every_partition_and_hold(adult: Records) -> None:
    found = _pathak(adult)
    assert _failed(found) == []
    assert [one.draws for one in found] == [3, 3, 60, 60, 3, 3, 60, 60, 60, 3]
    rows = {one.name: one for one in found}
    # J(w* + eta) - J(w*) is about (lambda + 1/8) E|eta|^2 for unit rows: 28 coordinates of variance 2 (2/(500/10))^2.
    assert rows["(4), one party"].mean == pytest.approx(28 * 2 * 0.04**2 * (1 + 1 / 28 / 8), rel=0.2)
    assert rows["Theorem 4.3, even"].mean == pytest.approx(25 * rows["(4), one party"].mean, rel=0.2)
    assert rows["Theorem 4.3, 10%"].mean == pytest.approx(100 * rows["(4), one party"].mean, rel=0.2)
    assert rows["Theorem 4.3, even"].mean > 1000 * rows["(3), even"].mean


def test_pathaks_theorems_fail_a_figure_whose_average_is_wrong(adult: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    averages = pathak.averages

    def wrong(*arguments: Any) -> dict[str, _Array]:
        return {split: 5 * w for split, w in averages(*arguments).items()}  # a sum of five in place of their average

    monkeypatch.setattr(pathak, "averages", wrong)
    assert set(_failed(_pathak(adult))) == {
        f"{name}, {split}" for name in ("Theorem 4.2", "(3)") for split in ("even", "10%")
    }


# --- Rajkumar and Agarwal ---------------------------------------------------------------------


def _rajkumar() -> list[Measured]:
    parts = [rajkumar.excesses(7, number, 10, 0.1, 0.2, 3, 40) for number in range(2)]
    return rajkumar.compared(parts, 0.1, 0.2, 3)


def test_rajkumars_theorems_hold_and_the_sharper_bound_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {one.name: one for one in _rajkumar()}
    assert _failed(list(found.values())) == []
    assert found["what is proved of it, GOP"].bound < 3 * found["what is proved of it, GOP"].quantile
    gop, psgd = found["Theorem 5.1, GOP"], found["Theorem 5.1, PSGD, K = 3"]
    assert gop.bound == psgd.bound
    assert psgd.mean == pytest.approx(gop.mean, rel=0.5)
    monkeypatch.setattr(rajkumar, "gop_minimiser", lambda study, records, eta: gop_minimiser(study, records, 2 * eta))
    assert "what is proved of it, GOP" in _failed(_rajkumar())


# --- Kang ----------------------------------------------------------------------------------------


def _kang(monkeypatch: pytest.MonkeyPatch, wider: float = 1.0) -> list[Measured]:
    generator = np.random.default_rng(4)
    X = generator.normal(size=(300, 5))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    records = Dataset(X, np.where(X[:, 0] + 0.3 * generator.normal(size=300) > 0, 1.0, -1.0))
    monkeypatch.setattr(kang, "stored", lambda *_: records)
    monkeypatch.setattr(kang, "normals", lambda rng, count: wider * normals(rng, count))
    setting = Setting(m=4, rounds=100)
    parts = [kang.excesses("x", Path(), setting, (i,), 10, "seed") for i in range(2)]
    return kang.compared("x", parts, setting)


def test_kangs_inequality_holds_of_one_descent_and_noise_that_is_too_wide_fails_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {one.name: one for one in _kang(monkeypatch)}
    assert _failed(list(found.values())) == []
    one, average = found["x: (11), one descent, C"], found["x: (11), the average, W"]
    assert average.mean < one.mean < one.bound < 20 * one.mean
    assert "x: (11), one descent, C" in _failed(_kang(monkeypatch, 6.0))


# --- Hamm -----------------------------------------------------------------------------------------


def test_hamms_excess_is_that_of_the_soft_labels() -> None:
    generator = np.random.default_rng(3)
    X, alpha = generator.normal(size=(40, 3)), generator.dirichlet(np.ones(4), size=40)
    W, noise = generator.normal(size=(4, 3)), generator.normal(size=(5, 12))

    def risk(V: _Array) -> float:
        each = [logsumexp(V @ x) - a @ (V @ x) for x, a in zip(X, alpha, strict=True)]
        return float(np.mean(each) + 0.05 * np.sum(V**2))

    found = hamm.excesses(W, X, alpha, 0.1, noise)
    np.testing.assert_allclose(found["lemma 6"], [risk(W + eta.reshape(4, 3)) - risk(W) for eta in noise])
    np.testing.assert_allclose(found["lemma 6, zeros"], [risk(np.zeros((4, 3))) - risk(W)])
    rows = hamm.compared([found, found], 10, 4, 3, 0.1)
    assert [one.draws for one in rows] == [10, 2]
    assert _failed(hamm.compared([{name: 1e6 * v for name, v in found.items()}] * 2, 10, 4, 3, 0.1)) != []


# --- How they are shown -------------------------------------------------------------------------------


def test_the_command_and_the_files_show_bound_measured_and_ratio() -> None:
    report = Report("p", "1", (), {}, (), theorems=(Measured("Theorem 9", 8.7, 0.0023, 0.0001, 0.003, 200),))
    console = literal_console()
    with console.capture() as captured:
        console.print(_theorems(report))
    (line,) = (line for line in captured.get().splitlines() if "Theorem 9" in line)
    assert line.split() == ["Theorem", "9", "8.7", "0.0023", "0.0001", "0.003", "3,783"]
    assert report.to_json()["theorems"][0]["ratio"] == pytest.approx(8.7 / 0.0023)
    assert "theorems,Theorem 9: 95 % quantile,0.003,,,8.7,within" in numbers_csv(report)

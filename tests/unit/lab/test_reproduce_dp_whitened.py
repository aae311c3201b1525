"""dp-whitened's tables: runs in the clear are the protocol's, central methods are right, mistakes are caught."""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import fit, gradient_norm
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.simulation_rng import SimulationRng
from masquerade_lab.originals import ADULT_COLUMNS, KDDCUP_COLUMNS, Table
from masquerade_lab.reproduce import PAPERS, Report, dp_whitened, reproduce
from masquerade_lab.reproduce.dp_whitened import (
    Found,
    Logistic,
    adassp,
    amp,
    calibration_slope,
    draw_shares,
    learn_in_clear,
    measure,
    objective_perturbation,
    objective_sigma,
    study_of,
)
from masquerade_lab.reproduce.engine.tasks import one_after_another
from masquerade_protocols.dp_whitened.public import SIGMA, Plan
from tests.adult_helpers import official, write_adult
from tests.messages import raises, says, sentence

_Array = NDArray[np.float64]

WIDENED = 4.0
"""Standard errors."""


def _records(n: int = 400, d: int = 6, seed: int = 0, mean: float = 0.5) -> Dataset:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + mean
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    scores = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    return Dataset(X, np.where(scores > np.median(scores), 1.0, -1.0))


def _benchmark(title: str = "Adult", delta: float = 1e-5) -> dp_whitened.Benchmark:
    return dp_whitened.Benchmark(title, "", lambda _: dp_whitened.Split(_records()), delta)


# --- Runs in the clear ------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_a_run_in_the_clear_is_the_one_through_the_real_roles(epsilon: float) -> None:
    records, study = _records(500), study_of(6, epsilon, 1e-5)
    real = dp_whitened._through_roles(study, records, "one")
    clear = learn_in_clear(study, records, draw_shares("one", 6))
    np.testing.assert_allclose(clear.weights + clear.offset, real.weights + real.offset, rtol=0, atol=1e-9)
    other = learn_in_clear(study, records, draw_shares("two", 6))
    assert np.linalg.norm(np.array(other.weights) - clear.weights) > 1e-3


def test_the_shares_of_five_parties_add_up() -> None:
    shares = draw_shares("law", 60) / (SIGMA * sqrt(5))
    shares[: 60 * 59 // 2] *= sqrt(2)
    assert stats.kstest(shares, stats.norm.cdf).pvalue > 1e-6
    low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], len(shares))
    for parties in (4, 5, 6):
        assert (low <= float(shares @ shares) * parties / 5 <= high) == (parties == 5)


def test_the_noise_that_is_measured_keeps_the_mu_of_the_target_and_half_of_it_keeps_twice_that() -> None:
    """So far off the middle that they are centred from epsilon = 1 on."""
    found = measure(_benchmark(), dp_whitened.Split(_records(d=24, mean=2.0)), 4, 1, broken=(0.1,))
    for epsilon in dp_whitened.EPSILONS:
        assert found.mu_kept(dp_whitened.OURS, epsilon) == pytest.approx(1, abs=0.03)
    for variant in (dp_whitened.HALVED, dp_whitened.THINNED):
        assert found.mu_kept(variant, 0.1) == pytest.approx(2, abs=0.06)
    assert found.apart < 1e-9
    assert [number for number, _, _ in found.by[dp_whitened.OURS, 1.0]] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert (found.N, found.d) == (320, 24)


def test_a_replaced_record_moves_each_sum_as_far_as_the_protocol_s_plan_has_it() -> None:
    """In the plan, squared moves are proportional to the sums' parts of mu^2, with a distance and without one."""
    for N in (1000, 4000):
        _compare_moves(Plan(study_of(6, 1.0, 1e-5), N))


def _compare_moves(plan: Plan) -> None:
    d, move = plan.study.d, dp_whitened._squared_move
    first, second, moments, gradients, counts = map(float, plan.parts)
    squared = [
        move("first mean", d + 1, d) * plan.first_mean**2 / first,
        move("second mean", d + plan.plenty, d) * plan.second_mean**2 / second,
        move("score counts", 18, d) * plan.counts**2 / counts,
        move("second moments", 2 * d + 1, d) * plan.moments(centred=True) ** 4 / moments,
        move("second moments", 2 * d, d) * plan.moments(centred=False) ** 4 / moments,
        move("gradient 0", d + 2, d) * plan.gradient**2 * plan.rounds / gradients,
    ]
    assert squared == pytest.approx([squared[0]] * 6, rel=1e-3)


def test_the_calibration_slope_is_that_of_scikit_learn_s_fit() -> None:
    rng = np.random.default_rng(6)
    t = 2 * rng.normal(size=4000) - 0.5
    y = np.where(rng.random(4000) < 1 / (1 + np.exp(-t)), 1.0, -1.0)
    for factor in (0.2, 1.0, 3.0):
        fit = LogisticRegression(C=np.inf, tol=1e-10).fit(factor * t[:, None], y)
        assert calibration_slope(factor * t, y) == pytest.approx(fit.coef_[0, 0], rel=1e-4)
        assert calibration_slope(factor * t, y) == pytest.approx(1 / factor, rel=0.1)


def test_a_slope_has_a_band_where_there_is_plenty_to_go_by() -> None:
    found = Found(_benchmark(delta=1e-6), 32_561, 109)
    for epsilon in dp_whitened.EPSILONS:
        found.by[dp_whitened.OURS, epsilon] = [(0, 0.15, 0.9)]
        found.slopes[epsilon] = [0.8, 0.84, 1.3]
    rows = {row.name: row for row in dp_whitened._own_rows(found) if "slope" in row.table}
    assert [row.low for row in rows.values()] == [None, None, None, 0.85, 0.85]
    assert rows["eps = 1.0"].value == 0.84
    assert not rows["eps = 1.0"].holds


def test_the_epsilon_of_half_the_noise_has_twice_the_mu() -> None:
    for epsilon in (0.1, 1.0):
        assert mu_of(dp_whitened.halved_epsilon(epsilon, 1e-6), 1e-6) == pytest.approx(2 * mu_of(epsilon, 1e-6))


def test_error_and_auc_are_those_of_scikit_learn() -> None:
    rng, found = np.random.default_rng(3), Found(_benchmark())
    X = np.round(rng.normal(size=(60, 2)), 1) / 10  # with ties
    test = Dataset(X, np.where(rng.random(60) < 0.3, 1.0, -1.0))
    found.note(("a", 1.0, 0), test, [2.0, -1.0], 0.05)
    scores = X @ [2.0, -1.0] + 0.05
    wrong = np.mean(np.where(scores > 0, 1, -1) != test.y)
    for (value, error), expected in (
        (found.auc("a", 1.0), roc_auc_score(test.y, scores)),
        (found.error("a", 1.0), wrong),
    ):
        assert value == pytest.approx(expected)
        assert error is None
    found.note(("a", 1.0, 0), test, [2.0, -1.0], 0.05)
    found.note(("a", 1.0, 1), test, [-2.0, 1.0], -0.05)
    mean, error = found.auc("a", 1.0)  # of two splits, the first with two draws
    assert mean == pytest.approx(0.5)
    assert error == pytest.approx(abs(roc_auc_score(test.y, scores) - 0.5))


# --- Central methods --------------------------------------------------------------------


def test_the_minimiser_is_that_of_the_program_s_own_solver() -> None:
    records, penalty = _records(), 2.0
    n, linear = len(records.y), 5 * np.arange(-3.0, 3.0)
    ours = Logistic(records).fit(penalty, linear)
    np.testing.assert_allclose(ours, fit(records.X, records.y, penalty / n, linear=linear / n), atol=2e-4)
    assert gradient_norm(ours, records.X, records.y, penalty / n, linear=linear / n) < 1e-5


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.05), (1.0, 1e-2), (3.0, 1e-3)])
def test_objective_perturbation_s_noise_is_the_least_that_its_bound_on_the_loss_allows(
    epsilon: float, delta: float
) -> None:
    """The worst change of the gradient has length 2 and lies along the noise: its privacy loss, drawn."""
    penalty = 100.0
    sigma, paid = objective_sigma(penalty, epsilon, delta), log(1 + 0.25 / penalty)
    b = sigma * np.random.default_rng(1).normal(size=(400_000, 2))
    b_other = b * (1 + 2 / np.linalg.norm(b, axis=1))[:, None]
    loss = paid + ((b_other**2).sum(axis=1) - (b**2).sum(axis=1)) / (2 * sigma**2)
    assert np.maximum(0, 1 - np.exp(epsilon - loss)).mean() == pytest.approx(delta, rel=0.2)


def test_objective_perturbation_s_noise_is_the_note_s_and_grows_as_the_penalty_falls() -> None:
    for epsilon, delta, sigma in ((0.1, 0.05, 18.35), (0.2, 0.05, 12.07), (1, 0.05, 3.87), (0.1, 1e-5, 72.7)):
        assert objective_sigma(1e12, epsilon, delta) == pytest.approx(sigma, rel=1e-3)
    noises = [objective_sigma(penalty, 0.1, 1e-5) for penalty in dp_whitened.penalties(0.1)]
    assert noises == sorted(noises, reverse=True)
    assert noises[0] == pytest.approx(objective_sigma(1e12, 0.05, 1e-5), rel=1e-6)  # half of epsilon is left


class _Asked:
    """It notes what is to be minimised."""

    gram = np.eye(20_000, 1)

    def fit(self, penalty: float, linear: _Array) -> tuple[float, _Array]:
        return penalty, linear


@pytest.mark.parametrize("method", [amp, objective_perturbation])
def test_the_objective_is_tilted_by_as_much_noise_as_is_needed(method: Callable[..., Any]) -> None:
    epsilon, delta, rng = 1.0, 1e-6, SimulationRng(1)
    if method is amp:
        part = 0.88671 + 0.0186607
        penalty, tilt = amp(_Asked(), epsilon, delta, rng)  # type: ignore[arg-type]  # it only notes
        assert penalty == pytest.approx(0.5 / (1 - part))
        sigma = 2 * (1 + sqrt(2 * log(1e6))) / part
    else:
        penalty, tilt = objective_perturbation(_Asked(), 3.0, epsilon, delta, rng)  # type: ignore[arg-type]  # it only notes
        assert penalty == 3.0
        sigma = objective_sigma(3.0, epsilon, delta)
    for factor, fits in ((1.0, True), (0.9, False), (1.1, False)):
        assert (stats.kstest(tilt, stats.norm(scale=factor * sigma).cdf).pvalue > 1e-6) == fits


def test_amp_leaves_less_than_one_of_epsilon_for_the_determinants() -> None:
    for epsilon in dp_whitened.EPSILONS:
        penalty, _ = amp(_Asked(), epsilon, 1e-5, SimulationRng(1))  # type: ignore[arg-type]  # it only notes
        assert 0 < 0.5 / penalty < min(1, epsilon / 3 + 0.7)


def test_adassp_is_least_squares_where_nothing_is_private_and_noise_where_everything_is() -> None:
    logistic = Logistic(_records())
    X, y = logistic.records.X, logistic.records.y
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(adassp(logistic, 1e7, 1e-5, SimulationRng(1)), exact, atol=1e-3)
    noisy = np.array([adassp(logistic, 0.05, 1e-5, SimulationRng(i)) for i in range(200)])
    scale = sqrt(log(6e5)) / (0.05 / 3)
    ridge = sqrt(6 * log(6e5) * log(2 * 36 / 0.05)) / (0.05 / 3)
    assert 0.5 < noisy.std() / (scale / ridge) < 2


# --- The data sets ----------------------------------------------------------------------


def test_numbers_go_by_their_bounds_and_words_by_their_levels_and_a_constant_stands_last() -> None:
    table = Table(("age", "job", "id", "y"), [("20", "b", "7", "no"), ("70", "a", "8", "yes"), ("99", "b", "9", "no")])
    data = dp_whitened._encoded(table, "y", "yes", {"age": (20, 70)}, left_out=("id",))
    rows = np.array([[-1, 0, 1, 1], [1, 1, 0, 1], [1, 0, 1, 1]])
    np.testing.assert_allclose(data.X, rows / sqrt(3))
    np.testing.assert_array_equal(data.y, [-1, 1, -1])
    assert [dp_whitened._round_above(x) for x in (0.4, 1, 7, 30, 255, 256, 1000, 5001)] == [
        1,
        1,
        10,
        100,
        255,
        1e3,
        1e3,
        1e4,
    ]


def test_a_fifth_is_drawn_for_testing_or_the_split_is_fixed() -> None:
    records = _records(101)
    (train, test), (again, _) = (dp_whitened.Split(records).draw("a") for _ in range(2))
    assert (len(train.y), len(test.y)) == (81, 20)
    together = np.vstack([train.X, test.X])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(records.X, axis=0))
    np.testing.assert_array_equal(train.X, again.X)
    assert (dp_whitened.Split(records).draw("b")[0].X != train.X).any()
    assert dp_whitened.Split(records, test).draw("a") == dp_whitened.Split(records, test).draw("b") == (records, test)


def _folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    return folder


def test_each_set_is_read_and_no_column_of_the_outcome_is_among_its_coordinates(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    write_adult(_folder(tmp_path, "adult") / "adult.data", official(60), columns=ADULT_COLUMNS, heading=False)
    write_adult(tmp_path / "adult" / "adult.test", official(30, seed=1), heading=False, stop=".")
    lines = [f"{(-1) ** i:+d} {1 + i % 123}:1" for i in range(40)]
    for name in ("a9a", "a9a.t"):
        (_folder(tmp_path, "a9a") if name == "a9a" else tmp_path / "a9a").joinpath(name).write_text("\n".join(lines))
    kdd = [["0"] * 41 + ["normal." if i % 2 else "smurf."] for i in range(40)]
    for i, row in enumerate(kdd):
        row[1:6] = ["tcp", "http", "SF", str(i), str(2 * i)]
    text = "\n".join(",".join(row) for row in [*kdd, *kdd])
    (_folder(tmp_path, "kddcup99") / "kddcup.data_10_percent").write_text(text)
    head = ";".join(dp_whitened._BANK_WORDS.split())
    calls = [f"40;job;m;e;no;100;no;no;c;5;may;{i};1;-1;0;unknown;{'yes' if i % 9 else 'no'}" for i in range(40)]
    (_folder(tmp_path, "bank-marketing") / "bank-full.csv").write_text("\n".join([head, *calls]))
    payments = ["Time," + ",".join(f"V{i}" for i in range(1, 29)) + ",Amount,Class"]
    payments += [",".join(["9", *["30"] * 28, "5.5", str(i % 2)]) for i in range(40)]
    (_folder(tmp_path, "creditcard-balanced946") / "creditcard_balanced_unscaled.csv").write_text("\n".join(payments))
    X, y = rng.uniform(-1, 1, size=(60, 300)), np.arange(60) % 6 + 1
    np.savez(_folder(tmp_path, "uci-har-time265") / "har.npz", X_train=X, y_train=y, X_test=X[:30], y_test=y[:30])
    sizes = {}
    for one in dp_whitened.BENCHMARKS:
        if one.folder and (tmp_path / one.folder).is_dir():
            train, test = one.read(tmp_path / one.folder).draw("x")
            sizes[one.title] = (*train.X.shape, len(test.y))
            assert set(train.y) == {-1.0, 1.0}
            assert (train.X[:, -1] > 0).all()
    assert sizes.pop("Adult")[::2] == (60, 30)
    assert sizes == {
        "a9a": (40, 124, 40),
        "KDD": (40, 42, 0),  # of 80 rows 40 are distinct, and all of them are drawn for training
        "Bank": (32, 16, 8),  # without the length of the call
        "Credit card": (32, 31, 8),
        "HAR": (20, 266, 10),  # two of six classes
    }
    assert len(KDDCUP_COLUMNS) == 42


def test_a_directory_without_any_of_the_folders_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with raises(
        BadInput,
        "none_of_the_folders",
        ...,
        "adult, a9a, kddcup99, breast-cancer-wisconsin, creditcard-balanced946, uci-har-time265, bank-marketing",
    ) as caught:
        reproduce("dp-whitened", data=tmp_path)
    assert says(caught.value.hint or "", "one_of_the_folders")
    with raises(BadInput, "needs_real_data", ..., ...):
        reproduce("dp-whitened")


# --- The tables -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Two small sets: the diagnostic records of breast cancer, and made-up grades."""
    root = tmp_path_factory.mktemp("data")
    folder = _folder(root, "breast-cancer-wisconsin")
    rng = np.random.default_rng(2)
    ill = rng.random(699) < 0.345
    grades = np.clip(np.where(ill, 7, 2)[:, None] + rng.integers(-2, 4, size=(699, 9)), 1, 10)
    lines = [f"{i},{','.join(map(str, row))},{4 if ill[i] else 2}" for i, row in enumerate(grades)]
    lines[5] = "5,1,1,1,1,2,?,3,1,1,2"
    (folder / "breast-cancer-wisconsin.data").write_text("\n".join(lines) + "\n")
    return PAPERS["dp-whitened"]["1"].run(3, 2026, one_after_another, root)


def test_a_reduced_run_lies_in_its_bands_give_or_take_its_errors(
    reduced: Report,
) -> None:
    banded = [row for row in reduced.rows if row.banded and not row.table.startswith("The noise itself")]
    assert len(banded) >= 4 + 5 + 2
    assert [row for row in banded if not row.inside(WIDENED)] == []
    tables = reduced.tables()
    assert "WDBC, N = 456, d = 31, delta = 1e-05: error" in tables
    assert [row.value for row in tables[dp_whitened._ROLES]] == [pytest.approx(0, abs=1e-9)] * 2
    (left_out,) = (note for note in reduced.notes if note.startswith("Left out"))
    assert "uci-har-time265" in left_out
    assert "WDBC" not in left_out


def test_what_stands_beside_it_is_shown_with_its_auc(reduced: Report) -> None:
    found = {row.name: row for row in reduced.tables()["WDBC, beside it"]}
    assert 0.3 < found["majority"].value < 0.45
    assert found["majority"].note == "AUC 0.500"
    assert found["no privacy"].value < 0.05
    for method in ("AMP", "objective perturbation", "AdaSSP"):
        assert found[f"{method}, eps = 3.0"].value < found[f"{method}, eps = 0.1"].value


def test_the_same_seed_gives_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _folder(tmp_path, "adult")
    small = (_benchmark("WDBC"), dp_whitened.Benchmark("HAR", "adult", lambda _: dp_whitened.Split(_records(60)), 1e-5))
    monkeypatch.setattr(dp_whitened, "BENCHMARKS", small)
    monkeypatch.setattr(dp_whitened, "EPSILONS", (0.1, 1.0))  # each has draws of its own
    monkeypatch.setattr(dp_whitened, "EACH", 2)
    first, second, other = (dp_whitened.figure_1(1, seed, one_after_another, tmp_path).to_json() for seed in (1, 1, 2))
    assert first == second != other


def _made(errors: dict[tuple[str, float], list[float]], N: int = 32_561, d: int = 109) -> Found:
    found = Found(_benchmark(delta=1e-6), N, d)
    for key, values in errors.items():
        found.by[key] = [(number, value, 0.9) for number, value in enumerate(values)]
    return found


def test_half_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    mu = {dp_whitened.OURS: 1.0, dp_whitened.HALVED: 2.0, dp_whitened.THINNED: 2.0}
    monkeypatch.setattr(Found, "mu_kept", lambda _self, method, _epsilon: mu[method])
    found = _made({(dp_whitened.HALVED, 0.1): [0.161, 0.162], (dp_whitened.THINNED, 0.1): [0.165, 0.166]})
    rows = dp_whitened._broken_rows([found])
    assert [row.verdict for row in rows] == ["outside: caught", "", "outside: caught", "outside: caught"]
    assert {row.note for row in rows} == {sentence("its_epsilon", "0.21"), sentence("error_cannot_tell")}
    monkeypatch.setattr(Found, "mu_kept", lambda *_: 1.0)
    rows = dp_whitened._broken_rows([_made({**found_errors(0.165), (dp_whitened.THINNED, 0.1): [0.165, 0.166]})])
    assert [row.holds for row in rows] == [False, True, False, False]


def found_errors(value: float) -> dict[tuple[str, float], list[float]]:
    """The errors of two draws of the variant with half of every sensitivity."""
    return {(dp_whitened.HALVED, 0.1): [value, value + 0.001]}


def test_more_errors_than_the_others_are_reported_where_s_promises_otherwise() -> None:
    errors = {(dp_whitened.MAJORITY, 0.0): [0.236], ("objective perturbation 0", 1.0): [0.3], ("AMP", 1.0): [0.16]}
    errors["objective perturbation 1", 1.0] = [0.155]
    errors[dp_whitened.OURS, 1.0] = [0.1575]
    for epsilon in (0.1, 0.2, 0.5, 3.0):
        errors |= {(method, epsilon): [0.2] for method in (dp_whitened.OURS, "AMP", "objective perturbation 0")}
    rows = {row.name: row for row in dp_whitened._promised_rows(_made(errors))}
    assert len(rows) == 5 * 3
    assert all(row.holds for row in rows.values())
    errors[dp_whitened.OURS, 1.0] = [0.1585]
    missed = [row.name for row in dp_whitened._promised_rows(_made(errors)) if not row.holds]
    assert missed == ["objective perturbation, eps = 1.0"]
    few = {row.name.partition(", ")[2] for row in dp_whitened._promised_rows(_made(errors, N=2000))}
    assert few == {"eps = 1.0", "eps = 3.0"}  # s is at least 40
    assert _made(errors, N=2000).strength(1.0) == pytest.approx(2000 * mu_of(1.0, 1e-6) / sqrt(109))

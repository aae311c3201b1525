"""The papers' theorems on how good a model is: each against a value worked out by hand, and against simulated runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade.cli.app import run
from masquerade_core.learning import theorems as common
from masquerade_core.learning.erm import fit
from masquerade_core.learning.losses import LOGISTIC, LOSSES, objective
from masquerade_core.privacy.noise.objective_perturbation import sigma_star
from masquerade_core.privacy.noise.output_perturbation import classifier_norm_bound
from masquerade_core.study import Study
from masquerade_lab.reproduce.engine.report import Report, measured
from masquerade_protocols import entry_of, theorems_of
from masquerade_protocols.blocks import descent_theorems as kang
from masquerade_protocols.blocks import objective_theorems as rajkumar
from masquerade_protocols.local_aggregation import theorems as pathak
from masquerade_protocols.voting import theorems as hamm
from tests.messages import says
from tests.statement_studies import studies

_Array = NDArray[np.float64]

TEXTS = {name: text for name, text in studies() if not name.startswith("the example") and "K=5 " not in name}
"""Five parties lie between three and twenty, and have the epsilon and the delta of two."""
D = 4


def _records(seed: int, n: int) -> tuple[_Array, _Array]:
    """Draw records in the unit ball, whose labels follow a noisy line."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, D))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, np.where(X @ np.arange(1, D + 1) + generator.normal(size=n) > 0, 1.0, -1.0)


# --- What all theorems share --------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 10, 123])
def test_a_vector_of_noise_is_longer_than_its_bound_in_one_draw_of_twenty_at_most(d: int) -> None:
    generator, draws = np.random.default_rng(d), 20_000
    gaussian = np.linalg.norm(generator.normal(size=(draws, d)), axis=1)
    laplace = np.linalg.norm(generator.laplace(size=(draws, d)), axis=1)
    assert abs(np.mean(gaussian > common.gaussian_norm(d)) - 0.05) < 0.007  # sd .0015
    assert abs(np.mean(generator.gamma(d, size=draws) > common.gamma_quantile(d)) - 0.05) < 0.007
    assert np.mean(laplace > common.laplace_norm(d)) < 0.05
    assert np.quantile(laplace, 0.95) > common.laplace_norm(d) / 1.6  # and the bound is not idle


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_no_model_gains_more_on_zeros_than_their_excess(name: str) -> None:
    loss = LOSSES[name]
    for Lambda in (0.01, 0.5, 4.0):
        bound, X, y = common.zeros_excess(loss, Lambda), np.array([[1.0]]), np.ones(1)  # one record, all it can gain
        values = [objective(np.array([w]), X, y, Lambda, loss) for w in np.linspace(-20, 20, 4001)]
        found = objective(np.zeros(1), X, y, Lambda, loss) - min(values)
        assert found <= bound
        assert found > bound / 4


def test_a_theorem_knows_its_ratio_and_whether_it_says_anything() -> None:
    some = common.Theorem("1", "", 3.0, 2.0, 1.0)
    assert (some.ratio, some.vacuous) == (1.5, True)
    assert not common.Theorem("1", "", 0.5, 2.0, 1.0).vacuous
    nothing = common.Theorem("1", "", None, 2.0, 1.0)
    assert (nothing.ratio, nothing.vacuous) == (None, False)


def test_a_bound_that_a_simulation_breaks_fails_the_figure() -> None:
    draws = np.concatenate([np.full((2, 90), 0.5), np.full((2, 10), 2.0)], axis=1)
    holds, broken = (measured("Theorem", bound, draws) for bound in (2.0, 1.9))  # the mean, .65, is below both
    assert Report("p", "1", (), {}, (), theorems=(holds,)).failed == ()
    report = Report("p", "1", (), {}, (), theorems=(holds, broken))
    assert [row.name for row in report.failed] == ["Theorem: 95 % quantile"]
    assert len(report.checked) == 2
    assert holds.ratio == pytest.approx(2 / 0.65)


# --- Pathak, Rane and Raj ------------------------------------------------------------------


def test_pathaks_bounds_have_the_values_that_a_hand_works_out() -> None:
    """K = 3, n = 10, N = 30, lambda = 1/2, d = 2, eps = 2: log(d/delta) = log 40 = 3.688879."""
    assert pathak.theorem_4_2(3, 10, 0.5) == pytest.approx(0.4)  # 2/5
    assert (pathak.proved_distance(1, 0.5), pathak.proved_distance(2, 0.5)) == (0, 2 * classifier_norm_bound(1.0))
    assert all(pathak.proved_distance(2, lam) <= 1 / (2 * lam) for lam in (0.001, 0.1, 1.0, 10.0))
    assert pathak.inequality_3(3, 10, 0.5) == pytest.approx(0.12)  # 4 x 1.5/(2 x 100 x .25) = 6/50
    assert pathak.inequality_4(10, 0.5, 2, 2.0) == pytest.approx(1.632939, abs=1e-6)  # 2 x 4 x 1.5/100 x 13.607832
    assert pathak.theorem_4_3(3, 10, 0.5, 2, 2.0) == pytest.approx(
        2.638270, abs=1e-6
    )  # + 2 x 2 x 2 x 1.5/50 x 3.688879
    assert pathak.theorem_4_4(3, 10, 30, 0.5, 2, 2.0) == pytest.approx(42.605323, abs=1e-5)  # + 16 x 34.995732/15


def test_pathaks_bounds_at_the_papers_own_setting() -> None:
    """The paper's a9a, even split, eps = .1: 8.7 for a risk that cannot exceed log 2 = .69."""
    assert pathak.theorem_4_3(5, 6512, 1.0, 123, 0.1) == pytest.approx(8.7035, abs=1e-4)
    assert common.zeros_excess(LOGISTIC, 2.0) == pytest.approx(1 / 16)


def _parties(lam: float, sizes: tuple[int, ...], seed: int) -> tuple[float, Callable[[_Array], float], _Array, _Array]:
    X, y = _records(seed, sum(sizes))
    parts = np.split(np.arange(len(y)), np.cumsum(sizes)[:-1])
    average = np.mean([fit(X[part], y[part], 2 * lam) for part in parts], axis=0)
    best = fit(X, y, 2 * lam)
    least = objective(best, X, y, 2 * lam)
    return float(np.linalg.norm(average - best)), lambda w: objective(w, X, y, 2 * lam) - least, average, best


@pytest.mark.parametrize("lam", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("sizes", [(100, 100, 100), (30, 100, 170)])
def test_pathaks_theorems_hold_where_records_are_dealt_at_random(lam: float, sizes: tuple[int, ...]) -> None:
    n, N, eps = min(sizes), sum(sizes), 0.5
    generator = np.random.default_rng(5)
    noisy, alone = [], []
    for seed in range(20):
        distance, excess, average, best = _parties(lam, sizes, seed)
        assert distance <= min(pathak.theorem_4_2(3, n, lam), pathak.proved_distance(3, lam))
        quiet = excess(average)
        assert quiet <= min(pathak.inequality_3(3, n, lam), pathak.proved_excess(distance, 0, lam))
        for _ in range(20):
            eta = generator.laplace(scale=2 / (n * eps * lam), size=D)
            noisy.append(excess(average + eta))
            alone.append(excess(best + eta * n / N))
    paper, one = pathak.theorem_4_3(3, n, lam, D, eps), pathak.inequality_4(N, lam, D, eps)
    noise = common.laplace_norm(D) * 2 / (n * eps * lam)
    proved = pathak.proved_excess(pathak.proved_distance(3, lam), noise, lam)
    assert np.quantile(noisy, 0.95) <= min(paper, proved)
    assert np.quantile(alone, 0.95) <= min(one, pathak.proved_excess(0, noise * n / N, lam))
    assert np.quantile(alone, 0.95) > pathak.proved_excess(0, noise * n / N, lam) / 30  # no idle bound


def test_theorem_4_2_does_not_hold_for_parties_whose_records_differ_in_kind() -> None:
    """One party's records are all 1, the other's 1/10 with the other label: however many, the distance stays."""
    lam = 0.01
    for n in (10, 10_000):
        ours, theirs = (np.ones((n, 1)), np.ones(n)), (np.full((n, 1), 0.1), -np.ones(n))
        average = np.mean([fit(X, y, 2 * lam) for X, y in (ours, theirs)], axis=0)
        best = fit(np.concatenate([ours[0], theirs[0]]), np.concatenate([ours[1], theirs[1]]), 2 * lam)
        distance = float(np.abs(average - best)[0])
        assert distance <= pathak.proved_distance(2, lam)
        assert distance > 0.1
        assert (distance > pathak.theorem_4_2(2, n, lam)) == (n == 10_000)


def test_pathaks_smoothness_is_below_the_objectives_where_lambda_exceeds_three_quarters() -> None:
    for lam, enough in ((0.7, True), (0.8, False)):
        assert (common.smoothness(LOGISTIC, 2 * lam) <= lam + 1) == enough


# --- Rajkumar and Agarwal ------------------------------------------------------------------


def test_rajkumars_bounds_have_the_values_that_a_hand_works_out() -> None:
    """The chi-square law with two degrees has the quantile -2 log .05 = 5.991465."""
    assert rajkumar.t_hat(2, 3.0) == pytest.approx(53.923181, abs=1e-5)  # 9 x 5.991465
    assert rajkumar.theorem_5_1(53.923181, 100, 0.5, 0.25) == pytest.approx(0.00808848, abs=1e-7)  # .75 x T/5000
    assert rajkumar.proposition_5_2(3, 0.5, 0.1) == pytest.approx(248.3254, abs=1e-3)  # 36 x 2.302585 x 2.995732
    assert rajkumar.theorem_5_3(4.0, 100, 0.5, 0.25, kappa=2.0) == pytest.approx(
        0.244775, abs=1e-6
    )  # sqrt(2 x 2.9957/100)
    assert rajkumar.theorem_5_3(1e4, 100, 0.5, 0.25, kappa=2.0) == pytest.approx(2.0)  # 2 x 100/100
    assert rajkumar.theorem_5_3(4.0, 100, 0.01, 0.25, kappa=2.0) == pytest.approx(0.5)  # 2 x .25/1
    assert rajkumar.proved_excess(20.0, 100, 0.5) == pytest.approx(0.04)  # .2^2/1
    assert rajkumar.proved_excess(20.0, 100, 0.5, 0.5) == pytest.approx(0.64)  # (.2 + .5 x 1.2)^2


@pytest.mark.parametrize("Delta", [0.0, 0.3])
def test_theorem_5_1_and_what_is_proved_of_it_hold_in_simulated_runs(Delta: float) -> None:
    N, Lambda, sigma, generator = 300, 0.2, 20.0, np.random.default_rng(2)
    X, y = _records(1, N)
    least = objective(fit(X, y, Lambda), X, y, Lambda)
    etas = generator.normal(scale=sigma, size=(300, D))
    excess = [objective(fit(X, y, Lambda, linear=eta / N, extra=Delta), X, y, Lambda) - least for eta in etas]
    found, T = float(np.quantile(excess, 0.95)), rajkumar.t_hat(D, sigma)
    proved = rajkumar.proved_excess(math.sqrt(T), N, Lambda, Delta)
    assert found <= proved
    if Delta == 0:
        assert proved / 4 < found
        assert proved <= rajkumar.theorem_5_1(T, N, Lambda, 0.25)


@pytest.mark.parametrize("d", [1, 10, 124])
@pytest.mark.parametrize("delta", [1e-6, 0.05, 0.36])
@pytest.mark.parametrize("eps", [0.05, 1.0, 8.0])
def test_the_constant_of_proposition_5_2_is_enough(d: int, delta: float, eps: float) -> None:
    T, order = rajkumar.t_hat(d, sigma_star(d, eps, delta)), rajkumar.proposition_5_2(d, eps, delta)
    assert (100 + 20 * eps / (d * math.log(1 / delta))) * order >= T


@pytest.mark.parametrize("N", [1_000, 10**6])
@pytest.mark.parametrize("T", [1.0, 1e6])
@pytest.mark.parametrize("eps", [0.01, 1.0])
def test_theorem_5_3_follows_from_its_own_steps_with_our_kappa(N: int, T: float, eps: float) -> None:
    assert rajkumar.KAPPA == 64 * 33
    tau = rajkumar.theorem_5_3(T, N, eps, 0.25)
    steps = 2 * rajkumar.proved_excess(math.sqrt(T), N, tau) + common.generalisation_term(tau, N) + tau / 2
    assert steps <= tau
    assert 2 * math.log1p(0.25 / (N * tau)) <= 2 / rajkumar.KAPPA * eps  # so Delta = 0, and eps~ is nearly eps


# --- Kang, Liu and Wang ---------------------------------------------------------------------


def test_kangs_bounds_have_the_values_that_a_hand_works_out() -> None:
    assert kang.inequality_11(0.5, 2, 3, 0.2, 0.1, 0.4) == pytest.approx(0.88125)  # .75^2/2 + 3 x .04/.2
    assert kang.order(2, 1.0, 0.1, 100, 0.5) == pytest.approx(0.00848304, abs=1e-7)  # 2 x 2.302585 x 4.605170/2500
    assert kang.proved_descent(0.5, 2, 2.5, 3, 0.2, 0.1, 0.4) == pytest.approx(0.54375)  # .28125 + .4375 x .6
    assert kang.proved_descent(0.5, 2, 2.6, 3, 0.2, 0.1, 0.4) is None
    assert kang.proved_average(1, 1.0, 1, 0.0, 0.5, 1.0, 2.0) == pytest.approx(12.5)  # (1 + 4)^2/2
    assert kang.proved_average(1, 1.0, 4, 0.5, 0.5, 1.0, 0.0) == pytest.approx(0.5)  # noise alone: 4 x .25/2
    assert kang.proved_average(1, 1.4, 1, 0.0, 0.5, 1.0, 2.0) is None


def _descended(X: _Array, y: _Array, Lambda: float, eta: float, T: int, noise: _Array) -> _Array:
    """Descend for every column of noise at once; noise has the shape (T, d, runs)."""
    theta = np.zeros(noise.shape[1:])
    for z in noise[:T]:
        slopes = LOGISTIC.derivative(y[:, None] * (X @ theta)) * y[:, None]
        theta = theta - eta * (X.T @ slopes / len(y) + Lambda * theta + z)
    return theta


@pytest.mark.parametrize("T", [3, 200])
@pytest.mark.parametrize("part", [1.0, 0.3])
def test_kangs_inequality_holds_for_one_descent_on_all_records(T: int, part: float) -> None:
    Lambda, sigma, generator = 0.05, 0.3, np.random.default_rng(8)
    X, y = _records(4, 200)
    L = common.smoothness(LOGISTIC, Lambda)
    least = objective(fit(X, y, Lambda), X, y, Lambda)
    start = objective(np.zeros(D), X, y, Lambda) - least
    found = _descended(X, y, Lambda, part / L, T, generator.normal(scale=sigma, size=(T, D, 200)))
    mean = float(np.mean([objective(theta, X, y, Lambda) - least for theta in found.T]))
    proved = kang.proved_descent(start, T, part / L, D, sigma, Lambda, L)
    assert proved is not None
    assert proved / 30 < mean <= proved
    if part == 1:
        assert proved <= kang.inequality_11(start, T, D, sigma, Lambda, L)


def test_kangs_inequality_does_not_hold_for_an_average_and_what_is_proved_of_it_does() -> None:
    """Two parties whose records differ in kind, and no noise: (11) goes to 0, and the excess of the average stays."""
    Lambda, T, n = 0.02, 2_000, 50
    L = common.smoothness(LOGISTIC, Lambda)
    parties = ((np.ones((n, 1)), np.ones(n)), (np.full((n, 1), 0.1), -np.ones(n)))
    X, y = np.concatenate([parties[0][0], parties[1][0]]), np.concatenate([parties[0][1], parties[1][1]])
    theta = np.mean([_descended(u, v, Lambda, 1 / L, T, np.zeros((T, 1, 1))) for u, v in parties], axis=0)[:, 0]
    found = objective(theta, X, y, Lambda) - objective(fit(X, y, Lambda), X, y, Lambda)
    assert kang.inequality_11(common.zeros_excess(LOGISTIC, Lambda), T, 1, 0.0, Lambda, L) < 1e-9
    proved = kang.proved_average(T, 1 / L, 1, 0.0, Lambda, L, math.sqrt(2 * math.log(2) / Lambda))
    assert proved is not None
    assert 0.01 < found <= proved


# --- Hamm, Cao and Belkin --------------------------------------------------------------------


def test_hamms_bounds_have_the_values_that_a_hand_works_out() -> None:
    """M = 2, d = 2, lambda = 1/2, c = 1/4, eps = 1: lambda M eps = 1, and log(d/delta)^2 = 13.607832."""
    assert hamm.lemma_6(2, 2, 0.5, 0.25, 1.0) == pytest.approx(81.646990, abs=1e-4)  # 2 x 4 x .75 x 13.607832
    assert hamm.theorem_4(2, 100, 2, 0.5, 0.25, 1.0) == pytest.approx(174.742615, abs=1e-4)  # + 16 x 34.995732/50 + 1/4
    assert hamm.lemma_6(1, 2, 0.5, 0.25, 1.0) == pytest.approx(4 * 81.646990, abs=1e-3)
    # Three classes: six weights, (6 sqrt 2 log 120)^2 = 72 x 22.920102, and half of 1/2 + 1/2.
    assert hamm.lemma_6_softmax(2, 3, 2, 0.5, 1.0) == pytest.approx(825.1237, abs=1e-2)


def test_hamms_lemma_and_what_is_proved_of_it_hold_in_simulated_runs() -> None:
    lam, M, eps, generator = 0.1, 20, 1.0, np.random.default_rng(6)
    X, y = _records(7, 300)
    best = fit(X, y, lam)
    least = objective(best, X, y, lam)
    directions = generator.normal(size=(400, D))
    lengths = generator.gamma(D, 2 / (M * lam * eps), size=(400, 1))
    etas = directions / np.linalg.norm(directions, axis=1)[:, None] * lengths
    found = float(np.quantile([objective(best + eta, X, y, lam) - least for eta in etas], 0.95))
    proved = hamm.proved_excess(M * lam * eps / 2, D, lam, 0.25)
    assert proved / 6 < found <= proved <= hamm.lemma_6(M, D, lam, 0.25, eps)


# --- Every study ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({name.split(":")[0] for name in TEXTS}))
def test_every_studys_theorems_are_numbers_or_say_why_not(name: str) -> None:
    for full, text in TEXTS.items():
        if full.split(":")[0] == name:
            study = Study.parse(text, in_memory=True)
            for one in theorems_of(study):
                assert one.note or one.paper is not None
                for value in (one.paper, one.proved, one.zeros):
                    assert value is None or (value >= 0 and math.isfinite(value))
                json.dumps(one.to_json(), allow_nan=False)


def test_bounds_prints_a_studys_theorems_and_which_of_them_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "local-aggregation proven 0: K=20 d=124 t=0"
    (tmp_path / "study.toml").write_text(TEXTS[name])
    assert run(["bounds", str(tmp_path / "study.toml"), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    study = Study.parse(TEXTS[name], in_memory=True)
    assert data["theorems"] == [one.to_json() for one in theorems_of(study)]
    assert data["paper"] == entry_of(study).paper
    (first, second, *_) = data["theorems"]
    assert first["paper"] == pytest.approx(19 / (300 * 0.025))
    assert first["zeros"] == pytest.approx(classifier_norm_bound(0.05))
    assert second["vacuous"]
    assert run(["bounds", str(tmp_path / "study.toml")]) == 0
    shown = capsys.readouterr().err
    assert "Theorem 4.3" in shown
    assert "Vacuous here" in shown


def test_bounds_says_that_a_protocol_has_no_theorem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study.toml").write_text(TEXTS["dp-gd proven 0: K=2 d=3 t=0"])
    assert run(["bounds", str(tmp_path / "study.toml")]) == 0
    assert says(capsys.readouterr().err, "no_theorem", ...)

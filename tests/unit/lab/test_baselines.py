"""The baselines: their noise, their exactness, and the error rates of Rajkumar and Agarwal's figure 1."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression

from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import TOLERANCE, error_rate, fit, gradient_norm
from masquerade_core.learning.losses import LOSSES, loss_of
from masquerade_core.privacy.noise.objective_perturbation import compute_slack, noise_sigma
from masquerade_core.rng import SystemRng
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Study
from masquerade_core.words import listed
from masquerade_lab.baselines import gop
from masquerade_lab.baselines.average import average_rate
from masquerade_lab.baselines.exact import best_single_party
from masquerade_lab.baselines.gop import gop_minimiser, gop_noise
from masquerade_protocols import BASELINES, entry_of, protocol_of
from masquerade_protocols.entry import Weights
from masquerade_protocols.registry import entry_named
from tests.messages import raises
from tests.paper_data import D, N, simulated, split, study_of

EVEN = (0.2,) * 5
SKEWED = (0.01, 0.29, 0.2, 0.25, 0.25)


def _one(weights: Weights | dict[str, Weights]) -> Weights:
    assert isinstance(weights, np.ndarray)
    return weights


# --- gop -------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.1, 0.2])
def test_eta_is_gaussian_with_sigma_star_and_no_other_scale(eps: float) -> None:
    study = study_of("gop", epsilon=eps)
    sigma = {0.1: 90.3045, 0.2: 44.1149}[eps]
    rng = SimulationRng(31)
    eta = np.concatenate([gop_noise(rng, study, N) for _ in range(600)])
    assert stats.kstest(eta, stats.norm(scale=sigma).cdf).pvalue > 1e-9
    for factor in (0.7, 1.3):
        assert stats.kstest(eta, stats.norm(scale=sigma * factor).cdf).pvalue < 1e-20
    assert ((eta * 2**32) % 1 == 0).all()


@pytest.mark.parametrize("loss", [name for name, loss in LOSSES.items() if loss.convex])
@pytest.mark.parametrize(("eps", "Lambda"), [(0.1, 0.1), (0.2, 0.1), (0.1, 0.001)])
def test_gop_is_an_exact_minimiser_of_its_objective(loss: str, eps: float, Lambda: float) -> None:
    study = study_of("gop", epsilon=eps, Lambda=Lambda, loss=loss)
    records, _ = simulated(0)
    eta = gop_noise(SimulationRng(32), study, N)
    w = gop_minimiser(study, records, eta)
    slack = compute_slack(eps, Lambda, N, loss_of(loss).c)
    Delta = float(slack.Delta)
    assert (Delta > 0) == (Lambda == 0.001)
    assert gradient_norm(w, records.X, records.y, Lambda, loss, linear=eta / N, extra=Delta) <= TOLERANCE
    # ... and of no other: neither without eta or Delta nor with eta not divided by N.
    assert gradient_norm(w, records.X, records.y, Lambda, loss) > 1e-3
    assert gradient_norm(w, records.X, records.y, Lambda, loss, linear=eta, extra=Delta) > 1e-3


def test_gop_by_its_name_is_the_minimiser_under_its_own_noise_however_the_records_are_dealt() -> None:
    study = study_of("gop")
    records, _ = simulated(1)
    w = gop_minimiser(study, records, gop_noise(SimulationRng(33), study, N))
    for shares in (EVEN, SKEWED):
        run = _one(entry_of(study).central(study, split(records, study, shares), SimulationRng(33)))
        np.testing.assert_array_equal(run, w)
    other = _one(entry_of(study).central(study, split(records, study, EVEN), SystemRng()))
    assert np.linalg.norm(w - other) > 1e-3


def _error_of_gop(eps: float) -> float:
    study = study_of("gop", epsilon=eps)
    errors = []
    for number in range(5):
        records, test = simulated(number)
        data = split(records, study, EVEN)
        for draw in range(20):
            w = _one(BASELINES["gop"].central(study, data, SimulationRng(f"{number}/{draw}")))
            errors.append(error_rate(test.X, test.y, w))
    return float(np.mean(errors))


@pytest.mark.parametrize(("eps", "expected", "band"), [(0.2, 0.274, 0.03), (0.1, 0.376, 0.035)])
def test_gop_errs_as_often_as_in_figure_1(eps: float, expected: float, band: float) -> None:
    assert abs(_error_of_gop(eps) - expected) <= band


def test_with_the_printed_root_it_errs_far_less_often_than_privacy_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(d: int, epsilon: Fraction, delta: float) -> Fraction:
        return Fraction(2 / (float(epsilon) + 2 * float(np.sqrt(stats.chi2(d).ppf(1 - delta)))))

    monkeypatch.setattr(gop, "noise_sigma", printed)
    assert _error_of_gop(0.2) == pytest.approx(0.03, abs=0.015)


# --- pooled and individual ---------------------------------------------------------


@pytest.mark.parametrize("loss", [name for name, loss in LOSSES.items() if loss.convex])
def test_pooled_is_one_classifier_for_all_records_and_individual_one_for_each_party_s(loss: str) -> None:
    study = study_of("pooled", loss=loss)
    records, test = simulated(2)
    data = split(records, study, SKEWED)
    w = _one(entry_of(study).central(study, data, SystemRng()))
    np.testing.assert_array_equal(w, fit(records.X, records.y, 0.1, loss))
    assert error_rate(test.X, test.y, w) < 0.06

    study = study_of("individual", loss=loss)
    each = entry_of(study).central(study, data, SystemRng())
    assert isinstance(each, dict)
    assert tuple(each) == study.names
    for name in study.names:
        np.testing.assert_array_equal(each[name], fit(data[name].X, data[name].y, 0.1, loss))
    best, error = best_single_party(each, test)
    errors = [error_rate(test.X, test.y, each[name]) for name in study.names]
    assert error == min(errors) == errors[study.names.index(best)]
    assert best != "p0"  # ten records


def test_records_are_pooled_in_the_roster_s_order() -> None:
    study = study_of("pooled")
    records, _ = simulated(3)
    data = split(records, study, SKEWED)
    pooled = pool(study, dict(reversed(data.items())))
    np.testing.assert_array_equal(pooled.X, records.X)
    np.testing.assert_array_equal(pooled.y, records.y)


def test_absent_records_are_named() -> None:
    study = study_of("pooled")
    data = split(simulated(3)[0], study, EVEN)
    del data["p3"]
    for name in BASELINES:
        with raises(BadInput, "no_records_of", "p3"):
            BASELINES[name].central(study, data, SystemRng())


# --- Several classes ---------------------------------------------------------------


CLASSES = ("a", "b", "c")
LAMBDA = 0.02


def _with_classes(protocol: str, *, Lambda: float = LAMBDA, loss: str = "logistic") -> Study:
    text = study_of(protocol, Lambda=Lambda, loss=loss).to_toml()
    assert text.count('positive = "1"') == 1
    return Study.parse(text.replace('positive = "1"', f"classes = {list(CLASSES)}"), in_memory=True)


def _of_three_classes(seed: int = 5) -> tuple[Dataset, Dataset]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, D))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    y = np.argmax(X @ rng.normal(size=(D, 3)) + 0.2 * rng.normal(size=(600, 3)), axis=1)
    train, test = (Dataset.from_unit_ball(X[part], y[part], 3) for part in (slice(300), slice(300, None)))
    return train, test


def _deal(records: Dataset, study: Study) -> dict[str, Dataset]:
    parts = np.array_split(np.arange(len(records.y)), [20, 100, 160, 220])
    return {
        name: Dataset.from_unit_ball(records.X[part], records.y[part], records.classes)
        for name, part in zip(study.names, parts, strict=True)
    }


def _oracle(records: Dataset) -> LogisticRegression:
    C = 1 / (len(records.y) * LAMBDA)
    return LogisticRegression(C=C, fit_intercept=False, tol=1e-12, solver="newton-cg").fit(records.X, records.y)


def test_with_classes_everybody_learns_by_softmax_regression() -> None:
    records, test = _of_three_classes()
    oracle = _oracle(records)
    for name in ("pooled", "batch"):
        study = _with_classes(name)
        w = _one(entry_of(study).central(study, _deal(records, study), SystemRng()))
        np.testing.assert_allclose(w, oracle.coef_.ravel(), atol=1e-6)  # d weights for each class in turn
    study = _with_classes("individual")
    data = _deal(records, study)
    each = entry_of(study).central(study, data, SystemRng())
    assert isinstance(each, dict)
    errors = []
    for name in study.names:
        oracle = _oracle(data[name])
        np.testing.assert_allclose(each[name], oracle.coef_.ravel(), atol=1e-6)
        errors.append(1 - oracle.score(test.X, test.y))
    best, error = best_single_party(each, test)
    assert best == study.names[int(np.argmin(errors))]
    assert error == pytest.approx(min(errors))


def test_batch_is_pooled_under_hamm_s_name() -> None:
    records, _ = simulated(2)
    pooled, batch = (study_of(name) for name in ("pooled", "batch"))
    assert entry_of(batch).name == "batch"
    assert "Hamm" in entry_of(batch).paper
    np.testing.assert_array_equal(
        _one(entry_of(batch).central(batch, split(records, batch, EVEN), SystemRng())),
        _one(entry_of(pooled).central(pooled, split(records, pooled, EVEN), SystemRng())),
    )


# --- Average -------------------------------------------------------------------------


@pytest.mark.parametrize("multiclass", [False, True])
def test_average_is_the_mean_of_the_parties_classifiers_under_noise_of_the_published_size(multiclass: bool) -> None:
    eps, size = 0.2, (3 if multiclass else 1) * D
    study = _with_classes("average") if multiclass else study_of("average", Lambda=LAMBDA)
    records, _ = _of_three_classes() if multiclass else simulated(4)
    data = _deal(records, study)
    individual = BASELINES["individual"].central(study, data, SystemRng())
    assert isinstance(individual, dict)
    mean = np.mean(list(individual.values()), axis=0)
    run, rng = entry_of(study).central, SimulationRng(40)
    draws = np.array([_one(run(study, data, rng)) for _ in range(1800 // size)])
    assert draws.shape == (1800 // size, size)
    assert ((draws * 2**32) % 1 == 0).all()

    Delta = (2 * np.sqrt(2) if multiclass else 2) / (5 * LAMBDA)
    assert float(average_rate(study)) == pytest.approx(eps / Delta, rel=1e-12)
    assert float(average_rate(study)) <= eps / Delta  # rounded towards more noise
    eta = draws - mean
    norms = np.linalg.norm(eta, axis=1)
    assert stats.kstest(norms, stats.gamma(size, scale=Delta / eps).cdf).pvalue > 1e-6
    for wrong in (stats.gamma(size, scale=Delta / eps / np.sqrt(2)), stats.expon(scale=Delta / eps)):
        assert stats.kstest(norms, wrong.cdf).pvalue < 1e-12
    # Its direction is uniform: each coordinate, over the norm, is symmetric with variance 1/size.
    assert stats.kstest((eta / norms[:, None]).ravel(), _of_a_direction(size)).pvalue > 1e-6


def test_with_hardly_any_noise_average_is_the_mean_and_nothing_else() -> None:
    study = study_of("average", epsilon=1e9)
    records, _ = simulated(4)
    data = _deal(records, study)
    mean = np.mean([fit(data[name].X, data[name].y, 0.1) for name in study.names], axis=0)
    np.testing.assert_allclose(_one(entry_of(study).central(study, data, SystemRng())), mean, atol=1e-6)


def _of_a_direction(size: int) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """The distribution of one coordinate u of a uniform direction: (1 + u)/2 is Beta((size - 1)/2, (size - 1)/2)."""
    law = stats.beta((size - 1) / 2, (size - 1) / 2)
    return lambda u: np.asarray(law.cdf((1 + u) / 2), dtype=np.float64)


def test_no_party_moves_the_average_by_more_than_its_sensitivity() -> None:
    """Where lambda is large, one party can move it by 58 % of that: all of its records from x to -x."""
    study = _with_classes("individual", Lambda=100.0)
    records, _ = _of_three_classes()
    data = _deal(records, study)

    def mean(x: float) -> Weights:
        changed = Dataset.from_unit_ball(np.tile(x * np.eye(1, D), (20, 1)), np.zeros(20), 3)
        each = BASELINES["individual"].central(study, {**data, "p0": changed}, SystemRng())
        assert isinstance(each, dict)
        return np.asarray(np.mean(list(each.values()), axis=0))

    moved = np.linalg.norm(mean(1.0) - mean(-1.0)) / (0.2 / float(average_rate(study)))
    assert 0.55 < moved <= 1


# --- What is refused ---------------------------------------------------------------


def test_baselines_are_found_by_name() -> None:
    assert set(BASELINES) >= {"gop", "pooled", "individual"}
    for name, baseline in BASELINES.items():
        assert baseline.name == name
    for name in ("gop", "pooled", "individual", "batch", "average"):
        assert entry_of(study_of(name)) is BASELINES[name]
    with raises(BadInput, "no_such_protocol", "'local-agregation'", ..., listed(BASELINES)):
        entry_named("local-agregation")


@pytest.mark.parametrize("name", ["gop", "pooled", "individual", "batch", "average"])
def test_what_has_no_single_minimiser_is_refused(name: str) -> None:
    with raises(BadInput, "loss_not_convex", "sigmoid"):
        entry_of(study_of(name, loss="sigmoid"))
    with raises(BadInput, "regularization_needed", 0):
        entry_of(study_of(name, Lambda=0.0))
    if name == "gop":
        with raises(BadInput, "gop_has_no_classes"):
            entry_of(_with_classes(name))
    else:
        with raises(BadInput, "several_classes_need_logistic", "smoothed-hinge"):
            entry_of(_with_classes(name, loss="smoothed-hinge"))


@pytest.mark.parametrize("name", ["gop", "pooled", "individual", "batch", "average"])
def test_a_parameter_that_a_baseline_does_not_have_is_an_error(name: str) -> None:
    with raises(BadInput, "unknown_key", "[protocol]", "rounds", "; it may have none"):
        entry_of(study_of(name, section="rounds = 5"))


def test_gop_refuses_a_delta_of_zero_and_those_without_noise_do_not() -> None:
    with raises(BadInput, "delta_not_in_range", "0"):
        entry_of(study_of("gop", delta=0.0))
    assert entry_of(study_of("pooled", delta=0.0)).name == "pooled"


def test_local_aggregation_refuses_a_loss_that_its_bounds_are_not_for() -> None:
    good = study_of("local-aggregation", section='noise = "laplace"')
    assert protocol_of(good).name == "local-aggregation"
    with raises(BadInput, "bounds_need_logistic", "'smoothed-hinge'"):
        protocol_of(study_of("local-aggregation", section='noise = "laplace"', loss="smoothed-hinge"))


def test_the_paper_s_data_are_as_it_says() -> None:
    records, test = simulated(0)
    assert isinstance(records, Dataset)
    assert (records.X.shape, test.X.shape) == ((1000, 10), (1000, 10))
    # Uniform in the ball: the norm to the tenth power is uniform.
    assert stats.kstest(np.linalg.norm(records.X, axis=1) ** D, stats.uniform.cdf).pvalue > 1e-3
    assert float(noise_sigma(D, compute_slack(0.2, 0.1, N, Fraction(1, 4)).epsilon, 0.05)) == pytest.approx(
        44.11, abs=0.01
    )

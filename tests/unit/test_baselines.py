"""The central references: their noise, their exactness, and the error rates of Rajkumar and Agarwal's figure 1."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import TOLERANCE, error_rate, fit, gradient_norm
from masquerade_core.learning.losses import LOSSES, loss_of
from masquerade_core.privacy.objective import compute_slack, noise_sigma
from masquerade_core.rng import SimulationRng, SystemRng
from masquerade_protocols import baselines, protocol_of
from masquerade_protocols.baselines import (
    BASELINES,
    Weights,
    baseline_of,
    best_single_party,
    gop_minimiser,
    gop_noise,
    pool,
)
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
        run = _one(baseline_of(study).run(study, split(records, study, shares), SimulationRng(33)))
        np.testing.assert_array_equal(run, w)
    other = _one(baseline_of(study).run(study, split(records, study, EVEN), SystemRng()))
    assert np.linalg.norm(w - other) > 1e-3


def _error_of_gop(eps: float) -> float:
    study = study_of("gop", epsilon=eps)
    errors = []
    for number in range(5):
        records, test = simulated(number)
        data = split(records, study, EVEN)
        for draw in range(20):
            w = _one(BASELINES["gop"].run(study, data, SimulationRng(f"{number}/{draw}")))
            errors.append(error_rate(test.X, test.y, w))
    return float(np.mean(errors))


@pytest.mark.parametrize(("eps", "expected", "band"), [(0.2, 0.274, 0.03), (0.1, 0.376, 0.035)])
def test_gop_errs_as_often_as_in_figure_1(eps: float, expected: float, band: float) -> None:
    assert abs(_error_of_gop(eps) - expected) <= band


def test_with_the_printed_root_it_errs_far_less_often_than_privacy_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(d: int, epsilon: Fraction, delta: float) -> Fraction:
        return Fraction(2 / (float(epsilon) + 2 * float(np.sqrt(stats.chi2(d).ppf(1 - delta)))))

    monkeypatch.setattr(baselines, "noise_sigma", printed)
    assert _error_of_gop(0.2) == pytest.approx(0.03, abs=0.015)


# --- pooled and individual ---------------------------------------------------------


@pytest.mark.parametrize("loss", [name for name, loss in LOSSES.items() if loss.convex])
def test_pooled_is_one_classifier_for_all_records_and_individual_one_for_each_party_s(loss: str) -> None:
    study = study_of("pooled", loss=loss)
    records, test = simulated(2)
    data = split(records, study, SKEWED)
    w = _one(baseline_of(study).run(study, data, SystemRng()))
    np.testing.assert_array_equal(w, fit(records.X, records.y, 0.1, loss))
    assert error_rate(test.X, test.y, w) < 0.06

    study = study_of("individual", loss=loss)
    each = baseline_of(study).run(study, data, SystemRng())
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
        with pytest.raises(BadInput, match="no records of p3"):
            BASELINES[name].run(study, data, SystemRng())


# --- What is refused ---------------------------------------------------------------


def test_baselines_are_found_by_name() -> None:
    assert set(BASELINES) >= {"gop", "pooled", "individual"}
    for name, baseline in BASELINES.items():
        assert baseline.name == name
    for name in ("gop", "pooled", "individual"):
        assert baseline_of(study_of(name)) is BASELINES[name]
    with pytest.raises(BadInput, match="the baselines are gop, pooled, individual"):
        baseline_of(study_of("local-aggregation", section='noise = "l2"'))


@pytest.mark.parametrize("name", ["gop", "pooled", "individual"])
def test_a_parameter_that_a_baseline_does_not_have_is_an_error(name: str) -> None:
    with pytest.raises(BadInput, match=r"'rounds' in \[protocol\]"):
        baseline_of(study_of(name, section="rounds = 5"))


def test_gop_refuses_a_delta_of_zero_and_those_without_noise_do_not() -> None:
    with pytest.raises(BadInput, match="delta is 0"):
        baseline_of(study_of("gop", delta=0.0))
    assert baseline_of(study_of("pooled", delta=0.0)).name == "pooled"


def test_local_aggregation_refuses_a_loss_that_its_bounds_are_not_for() -> None:
    good = study_of("local-aggregation", section='noise = "laplace"')
    assert protocol_of(good).name == "local-aggregation"
    with pytest.raises(BadInput, match="'smoothed-hinge', but local-aggregation"):
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

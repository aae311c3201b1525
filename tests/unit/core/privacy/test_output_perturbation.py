"""The noise of output perturbation: the paper's scale, the sensitivities, and a rule of thumb for epsilon."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core.errors import LocalProtocolError
from masquerade_core.learning.erm import fit
from masquerade_core.privacy.noise.output_perturbation import (
    classifier_norm_bound,
    eps_where_noise_is_small,
    l2_sensitivity,
    paper_beta,
    paper_noise_norm,
    paper_scale,
    refined_l2_sensitivity,
)


def test_the_paper_s_scale_in_its_own_letters() -> None:
    """B = 2/(n eps lambda) at the experiment's lambda = 1, which is Lambda = 2, and n_(1) = 6512."""
    n, eps, lam = 6512, 0.1, 1.0
    assert paper_scale(n, eps, 2 * lam) == Fraction(2, 6512) / Fraction(1, 10)
    assert float(paper_scale(n, eps, 2 * lam)) == pytest.approx(0.00307, abs=5e-6)
    assert paper_noise_norm(123, n, eps, 2.0) == pytest.approx(0.0482, abs=5e-5)


def test_the_l2_rate_is_epsilon_over_the_sensitivity_of_one_classifier() -> None:
    assert paper_beta(100, 0.3, 0.01) == Fraction(3, 20)
    assert float(paper_beta(100, 0.3, 0.01)) == pytest.approx(0.3 / l2_sensitivity(100, 0.01))


def test_scales_are_those_of_the_decimals_in_the_study() -> None:
    assert paper_scale(7, 0.1, 0.3) == Fraction(4 * 100, 7 * 3)
    assert paper_scale(7, np.float64(0.1), 0.3) == paper_scale(7, 0.1, 0.3)


@pytest.mark.parametrize(("n", "eps", "Lambda"), [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, 1.0, 0.0), (1, -1.0, 1.0)])
def test_no_noise_is_a_bug(n: int, eps: float, Lambda: float) -> None:
    with pytest.raises(LocalProtocolError):
        paper_scale(n, eps, Lambda)
    with pytest.raises(LocalProtocolError):
        paper_beta(n, eps, Lambda)


def test_known_values_of_the_refined_sensitivity() -> None:
    assert classifier_norm_bound(2.0) == pytest.approx(0.2223, abs=5e-5)
    assert refined_l2_sensitivity(6512, 2.0) == pytest.approx(0.555 / 6512, rel=1e-3)
    assert refined_l2_sensitivity(1000, 0.2) * 1000 * 0.1 == pytest.approx(0.764, abs=1e-3)
    # With very few records, the classifier's norm gives the smaller bound.
    assert refined_l2_sensitivity(1, 0.001) == 2 * classifier_norm_bound(0.001)


def test_the_norm_bound_joins_its_two_halves_and_falls_with_regularization() -> None:
    at = 0.27846454276107 / 1.27846454276107**2  # where sqrt(W/Lambda) is 1 + W
    assert classifier_norm_bound(at * 1.0001) == pytest.approx(classifier_norm_bound(at * 0.9999), rel=1e-3)
    bounds = [classifier_norm_bound(x) for x in np.geomspace(1e-5, 10, 50)]
    assert bounds == sorted(bounds, reverse=True)


def _worst_pair(n: int, Lambda: float) -> float:
    """The largest ||w - w'|| over a few hundred pairs of data sets that differ in one record."""
    rng = np.random.default_rng(17)
    worst = 0.0

    def unit(k: int) -> NDArray[np.float64]:
        X = rng.normal(size=(k, 3))
        X /= np.linalg.norm(X, axis=1)[:, None]
        return X

    for trial in range(300):
        X = unit(n) * rng.choice([0.0, 0.1, 1.0], size=(n, 1))
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        if trial % 3 == 0:  # equal records give the largest classifier, and so the steepest slopes
            X[:] = X[:1] / max(np.linalg.norm(X[0]), 1e-9)
            y[:] = 1.0
        X[0], y[0] = unit(1)[0], 1.0
        X2, y2 = X.copy(), y.copy()
        X2[0] = -X[0] if trial % 2 else unit(1)[0]
        worst = max(worst, float(np.linalg.norm(fit(X, y, Lambda) - fit(X2, y2, Lambda))))
    return worst


@pytest.mark.parametrize("Lambda", [2.0, 0.2, 0.02])
def test_no_record_moves_a_classifier_further_than_the_refined_bound(Lambda: float) -> None:
    n = 40
    worst = _worst_pair(n, Lambda)
    assert worst <= refined_l2_sensitivity(n, Lambda) <= l2_sensitivity(n, Lambda)
    assert worst > 0.4 * refined_l2_sensitivity(n, Lambda)  # so the search comes near the bound


def test_without_clipping_the_bound_would_not_hold() -> None:
    """This shows that the test above can fail: records of norm 4 move the classifier further."""
    X = np.zeros((40, 1))
    X[0] = 4.0
    y = np.ones(40)
    moved = abs(fit(X, y, 2.0)[0] - fit(-X, y, 2.0)[0])
    assert moved > refined_l2_sensitivity(40, 2.0)


@pytest.mark.parametrize("noise", ["laplace", "l2"])
def test_at_the_suggested_epsilon_noise_is_a_quarter_of_the_classifier(noise: str) -> None:
    eps = eps_where_noise_is_small(31, 70, 0.01, norm=4.27, noise=noise)
    assert paper_noise_norm(31, 70, eps, 0.01, noise) == pytest.approx(4.27 / 4)
    assert eps_where_noise_is_small(31, 70, 0.01, noise=noise) < eps  # the smallest for any data


def test_the_noise_norms_are_those_of_the_laws() -> None:
    rng = np.random.default_rng(3)
    b = float(paper_scale(50, 1.0, 0.1))
    drawn = np.linalg.norm(rng.laplace(0, b, (20_000, 7)), axis=1)
    assert np.sqrt(np.mean(drawn**2)) == pytest.approx(paper_noise_norm(7, 50, 1.0, 0.1), rel=0.02)
    norms = rng.gamma(7, 1 / float(paper_beta(50, 1.0, 0.1)), 20_000)
    assert np.sqrt(np.mean(norms**2)) == pytest.approx(paper_noise_norm(7, 50, 1.0, 0.1, "l2"), rel=0.02)

"""sigma* and the slack: the printed equation's root and the intended one, and what both leave of epsilon."""

import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.privacy.noise import objective_perturbation as objective
from masquerade_core.privacy.noise.objective_perturbation import (
    SIGMA_BITS,
    compute_slack,
    noise_sigma,
    sigma_share,
    sigma_star,
)
from tests.messages import raises

C = Fraction(1, 4)
GRID = Fraction(1, 1 << SIGMA_BITS)


def _intended(sigma: float, d: int, eps: float, delta: float) -> float:
    """Zero at the root of Pr(U <= (sigma^2 eps - 2)^2 / (4 sigma^2)) = 1 - delta, where sigma^2 eps > 2."""
    return float(stats.chi2(d).cdf(((sigma**2 * eps - 2) / (2 * sigma)) ** 2)) - (1 - delta)


def _printed(sigma: float, d: int, eps: float, delta: float) -> float:
    """The same as Procedure 3 prints it."""
    return float(stats.chi2(d).cdf(((sigma * eps - 2) / (2 * sigma)) ** 2)) - (1 - delta)


# --- sigma* ----------------------------------------------------------------------


@pytest.mark.parametrize(("eps", "expected"), [(0.1, 85.81), (0.2, 43.02)])
def test_the_intended_root_is_found_by_bracketing_too(eps: float, expected: float) -> None:
    root = brentq(_intended, math.sqrt(2 / eps), 1e6, args=(10, eps, 0.05), xtol=1e-12)
    assert root == pytest.approx(expected, abs=0.005)
    assert sigma_star(10, eps, 0.05) == pytest.approx(root, rel=1e-9)


@pytest.mark.parametrize(("eps", "expected"), [(0.1, 0.231), (0.2, 0.2284)])
def test_the_printed_equation_s_only_positive_root_is_spurious(eps: float, expected: float) -> None:
    d, delta = 10, 0.05
    sigmas = np.geomspace(1e-6, 1e9, 20_001)
    signs = np.sign(stats.chi2(d).cdf(((sigmas * eps - 2) / (2 * sigmas)) ** 2) - (1 - delta))
    [change] = np.flatnonzero(signs[:-1] != signs[1:])
    root = brentq(_printed, sigmas[change], sigmas[change + 1], args=(d, eps, delta), xtol=1e-14)
    assert root == pytest.approx(expected, abs=5e-4)
    assert root == pytest.approx(2 / (eps + 2 * math.sqrt(stats.chi2(d).ppf(1 - delta))), rel=1e-9)
    # It solves the square of an inequality whose left side is negative: no noise vector is that short.
    assert root * eps - 2 < 0
    assert root**2 * eps - 2 < 0
    assert sigma_star(d, eps, delta) > 150 * root


@pytest.mark.parametrize(("eps", "expected"), [(0.1, 90.30), (0.2, 44.11)])
def test_known_values_after_the_slack(eps: float, expected: float) -> None:
    slack = compute_slack(eps, 0.1, 1000, C)
    assert sigma_star(10, slack.epsilon, 0.05) == pytest.approx(expected, abs=0.005)
    assert float(noise_sigma(10, slack.epsilon, 0.05)) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 31, 123])
@pytest.mark.parametrize("eps", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [0.3, 1e-9])
def test_what_is_drawn_is_the_closed_form_rounded_up(d: int, eps: float, delta: float) -> None:
    sigma, closed = noise_sigma(d, eps, delta), sigma_star(d, eps, delta)
    assert (sigma / GRID).denominator == 1
    assert abs(float(sigma - GRID / 2) - closed) <= float(GRID) / 2 + 1e-12 * closed
    assert _intended(float(sigma), d, eps, delta) >= -1e-12
    assert abs(_intended(0.97 * float(sigma), d, eps, delta)) > 0.01 * delta


def test_the_smallest_of_the_grid_and_the_same_from_float_and_fraction() -> None:
    sigma = noise_sigma(7, 0.3, 1e-5)
    assert sigma == noise_sigma(7, Fraction(3, 10), Fraction(1, 100_000))
    for multiple, holds in ((sigma, True), (sigma - GRID, False)):
        reach = (multiple**2 * Fraction(3, 10) - 2) / (2 * multiple)
        with gmpy2.context(gmpy2.get_context(), precision=600):
            assert objective._tail_within(7, reach**2, gmpy2.mpfr(gmpy2.mpq(1, 100_000))) == holds


@pytest.mark.parametrize("d", [1, 2, 3, 4, 10, 123, 1000, 1001])
def test_the_chi_square_tail_is_scipy_s(d: int) -> None:
    for x in (Fraction(1, 100), Fraction(d, 2), Fraction(d), Fraction(3 * d, 2) + 7, Fraction(2 * d + 100)):
        tail = float(stats.chi2(d).sf(float(x)))
        with gmpy2.context(gmpy2.get_context(), precision=448):
            for factor, within in ((1 + 1e-10, True), (1 - 1e-10, False)):
                assert objective._tail_within(d, x, gmpy2.mpfr(tail * factor)) == within


def test_less_epsilon_less_delta_and_more_coordinates_take_more_noise() -> None:
    targets = [(10, 0.2, 0.05), (10, 0.1, 0.05), (10, 0.1, 0.01), (11, 0.1, 0.01)]
    sigmas = [noise_sigma(*target) for target in targets]
    assert sigmas == sorted(set(sigmas))


def test_with_sigma_star_the_loss_is_bounded_but_for_delta_and_with_the_printed_root_it_is_not() -> None:
    """The proof's inequality, by simulation: the density ratio at eta and eta + v, v the worst of length 2."""
    d, eps, delta = 10, 0.1, 0.05
    Z = np.random.default_rng(22).normal(size=(200_000, d))

    def exceeded(sigma: float) -> float:
        eta = sigma * Z
        v = 2 * eta / np.linalg.norm(eta, axis=1)[:, None]
        loss = (np.sum((eta + v) ** 2, axis=1) - np.sum(eta**2, axis=1)) / (2 * sigma**2)
        return float(np.mean(loss > eps))

    assert exceeded(float(noise_sigma(d, eps, delta))) == pytest.approx(delta, abs=0.003)
    assert exceeded(0.231) == 1.0


def test_shares_add_up_to_sigma_and_not_to_much_more() -> None:
    sigma = noise_sigma(10, 0.1, 0.05)
    for K in (1, 2, 5, 10, 997):
        share = sigma_share(sigma, K)
        assert (share / GRID).denominator == 1
        assert K * share**2 >= sigma**2 > K * (share - GRID) ** 2
    assert sigma_share(Fraction(6), 4) == 3


@pytest.mark.parametrize(
    ("d", "eps", "delta", "said"),
    [
        (10, 0.1, 0.0, ("delta_not_in_range", "0")),
        (10, 0.1, 1.0, ("delta_not_in_range", "1")),
        (10, 0.1, -0.5, ("delta_not_in_range", "-0.5")),
        (10, 0.1, math.nan, ("delta_not_in_range", "nan")),
        (10, 0.0, 0.05, ("epsilon_not_finite", "0.0")),
        (10, -1.0, 0.05, ("epsilon_not_finite", "-1.0")),
        (10, math.inf, 0.05, ("epsilon_not_finite", "inf")),
        (10, math.nan, 0.05, ("epsilon_not_finite", "nan")),
    ],
)
def test_a_privacy_target_that_no_noise_keeps_is_refused(d: int, eps: float, delta: float, said: str) -> None:
    for of in (sigma_star, noise_sigma):
        with raises(BadInput, *said):
            of(d, eps, delta)


def test_noise_without_end_is_refused() -> None:
    with raises(BadInput, "noise_beyond_encryption"):
        noise_sigma(10, 1e-25, 0.05)


def test_noise_for_nothing_is_a_bug() -> None:
    with pytest.raises(LocalProtocolError):
        sigma_star(0, 1.0, 0.1)
    with pytest.raises(LocalProtocolError):
        sigma_share(Fraction(0), 3)
    with pytest.raises(LocalProtocolError):
        sigma_share(Fraction(1), 0)


# --- computeSlack ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("eps", "Lambda", "Delta", "left"),
    [
        (0.1, 0.1, 0.0, 0.0950062),
        (0.2, 0.1, 0.0, 0.1950062),
        (0.1, 0.01, 0.0, 0.0506148),
        (0.1, 0.001, 0.0088755, 0.05),
    ],
)
def test_known_values_of_the_slack(eps: float, Lambda: float, Delta: float, left: float) -> None:
    slack = compute_slack(eps, Lambda, 1000, C)
    assert float(slack.Delta) == pytest.approx(Delta, abs=5e-8)
    assert float(slack.epsilon) == pytest.approx(left, abs=5e-8)


def test_each_branch_in_the_paper_s_letters() -> None:
    eps, N, c = 0.3, 500, 1.5
    few, enough = 0.0001, 0.5
    assert float(compute_slack(eps, enough, N, Fraction(3, 2)).epsilon) == pytest.approx(
        eps - 2 * math.log(1 + c / (N * enough)), abs=1e-11
    )
    slack = compute_slack(eps, few, N, Fraction(3, 2))
    assert float(slack.Delta) == pytest.approx(c / (N * (math.exp(eps / 4) - 1)) - few, abs=1e-11)
    assert slack.epsilon == pytest.approx(eps / 2, abs=1e-11)
    # With a bracket less, c/N exp(eps/4) - 1 - Lambda, Delta would be negative.
    assert slack.Delta > 0


def test_the_branches_meet_where_nothing_is_left() -> None:
    """2 log(1 + c/(N Lambda)) = eps: just above, Delta = 0 and next to no eps~ is left; just below, half of it is."""
    Lambda, N = 0.01, 1000
    edge = 2 * math.log1p(0.25 / (N * Lambda))
    above, below = compute_slack(edge * 1.001, Lambda, N, C), compute_slack(edge * 0.999, Lambda, N, C)
    assert above.Delta == 0
    assert 0 < above.epsilon < Fraction(1, 10_000)
    assert below.Delta > Fraction(1, 100)
    assert float(below.epsilon) == pytest.approx(edge / 2, rel=2e-3)


@pytest.mark.parametrize(("eps", "Lambda"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (math.nan, 1.0), (math.inf, 1.0)])
def test_a_slack_without_meaning_is_refused(eps: float, Lambda: float) -> None:
    with raises(BadInput, "perturbation_not_finite"):
        compute_slack(eps, Lambda, 10, C)


def test_a_slack_for_nobody_is_a_bug_and_one_too_small_is_said() -> None:
    with pytest.raises(LocalProtocolError):
        compute_slack(1.0, 1.0, 0, C)
    with pytest.raises(LocalProtocolError):
        compute_slack(1.0, 1.0, 10, Fraction(0))
    with raises(BadInput, "epsilon_too_small", ...):
        compute_slack(1e-13, 1e-3, 10, C)

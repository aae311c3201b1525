"""The delta(epsilon) of Gaussian noise is the integral that defines it, and its inverses invert it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian, get_sigma_gaussian
from scipy import stats
from scipy.integrate import quad

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy import accounting
from masquerade_core.privacy.accounting import _exceeds, delta_of, epsilon_of, mu_of


def _hockey_stick(mu: float, epsilon: float) -> float:
    """The integral of max(0, p - exp(epsilon) q) with p = N(mu, 1) and q = N(0, 1)."""
    start = epsilon / mu + mu / 2  # where p = exp(epsilon) q

    def above(x: float) -> float:
        return float(stats.norm.pdf(x - mu)) * -math.expm1(epsilon + mu * mu / 2 - mu * x)

    value: float = quad(above, start, max(start, mu) + 40, epsabs=0, epsrel=1e-11, limit=400)[0]
    return value


@pytest.mark.parametrize("mu", [0.01, 0.2229, 1.0, 4.3, 12.0])
@pytest.mark.parametrize("reach", [0.0, 0.3, 1.0, 3.0, 6.0])
def test_delta_is_the_integral_that_defines_it(mu: float, reach: float) -> None:
    epsilon = max(0.0, mu * reach + (mu * mu / 2 if reach else 0.0))
    assert delta_of(mu, epsilon) == pytest.approx(_hockey_stick(mu, epsilon), rel=1e-8)


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [(0.222849, 0.1, 0.05), (0.300597, 0.2, 0.05), (0.750312, 1.0, 0.05), (0.057457, 0.1, 1e-3), (0.268051, 1.0, 1e-5)],
)
def test_known_values(mu: float, epsilon: float, delta: float) -> None:
    assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-5)
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.parametrize(("mu", "delta"), [(0.6088, 1e-3), (4.3, 1e-3), (0.05, 1e-5), (30.0, 1e-9)])
def test_it_is_another_library_s_accounting(mu: float, delta: float) -> None:
    epsilon = get_epsilon_gaussian(1 / mu, delta)
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-8)
    assert mu_of(epsilon, delta) == pytest.approx(1 / get_sigma_gaussian(epsilon, delta), rel=1e-8)


@pytest.mark.parametrize("mu", np.geomspace(1e-4, 40, 12).tolist())
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-3, 1e-6, 1e-12])
def test_epsilon_is_the_smallest_that_will_do(mu: float, delta: float) -> None:
    epsilon = epsilon_of(mu, delta)
    assert delta_of(mu, epsilon) <= delta
    if epsilon > 0:
        assert delta_of(mu, epsilon * (1 - 1e-9)) > delta
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-8)
    else:
        assert 2 * stats.norm.cdf(mu / 2) - 1 <= delta * (1 + 1e-9)


@pytest.mark.parametrize("mu", [1e-30, 1e-12, 1e-6, 2.0**-16, 1e-4])
@pytest.mark.parametrize("reach", [0.0, 0.3, 3.0, 8.0])
def test_a_tiny_mu_loses_no_digits(mu: float, reach: float) -> None:
    """The integral of phi(x - mu) (1 - exp(-mu (x - start))), in which nothing cancels."""
    start = reach + mu / 2

    def above(x: float) -> float:
        return float(stats.norm.pdf(x - mu)) * -math.expm1(-mu * (x - start))

    expected = quad(above, start, start + 10, epsabs=0, epsrel=1e-12, limit=400)[0]
    assert delta_of(mu, mu * reach) == pytest.approx(expected, rel=1e-9, abs=0)


@pytest.mark.parametrize("mu", [0.1, 0.3, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01])
def test_a_search_asks_for_few_deltas(mu: float, delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bisection to the last bit asks for some 55: each takes two tails of many digits."""
    asked: list[float] = []

    def noted(mu: float, epsilon: float) -> float:
        asked.append(epsilon)
        return delta_of(mu, epsilon)

    monkeypatch.setattr(accounting, "delta_of", noted)
    found = epsilon_of.__wrapped__(mu, delta)
    first = len(asked)
    assert first <= 35
    assert mu_of.__wrapped__(found, delta) == pytest.approx(mu, rel=1e-9)
    assert len(asked) - first <= 45


def test_more_noise_is_more_private_and_extremes_stay_in_range() -> None:
    deltas = [delta_of(mu, 1.0) for mu in np.geomspace(1e-3, 1e3, 60)]
    assert all(a <= b for a, b in pairwise(deltas))
    assert deltas[0] >= 0
    assert deltas[-1] == 1.0
    assert delta_of(0.1, 1e6) == 0.0
    assert math.isfinite(epsilon_of(1e4, 1e-300))


@pytest.mark.parametrize("wrong", [lambda: delta_of(0.0, 1.0), lambda: epsilon_of(1.0, 0.0), lambda: mu_of(-1.0, 0.1)])
def test_no_noise_has_no_curve(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(LocalProtocolError):
        wrong()


def test_floats_settle_only_what_the_exact_curve_says_as_well() -> None:
    """Also where the second term of the curve is too small for a float, and right beside the curve."""
    draw = np.random.default_rng(30)
    exponents = draw.uniform([-6, -6], [2.5, 2.9], (2000, 2)).tolist()
    for mu, epsilon in [(6.639848624261641, 239.84791389592337), *((10**m, 10**e) for m, e in exponents)]:
        exact = delta_of(mu, epsilon)
        for off in (-0.5, -1e-6, -1e-9, -1e-12, 0, 1e-12, 1e-9, 1e-6, 0.5):
            near = exact * (1 + off)
            assert _exceeds(mu, epsilon, near) == (exact > near)

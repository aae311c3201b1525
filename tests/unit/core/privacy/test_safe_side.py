"""Every rounding is to the safe side, in exact arithmetic: noise up, mu up, clipped gradients down."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting import LEAST_SHARE_SIGMA
from masquerade_core.privacy.noise.gaussian_rounds import (
    SharedNoise,
    gaussian_share_sigma,
    rounds_noise,
    rounds_sigma,
    sensitivity,
)
from masquerade_core.privacy.noise.joint_gaussian import SIZE_CLASSES, JointNoise
from masquerade_core.privacy.noise.local_descent import SIGMA_BITS, descent_sigma
from masquerade_core.privacy.noise.objective_perturbation import sigma_share
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS, counts_sensitivity
from masquerade_core.privacy.numbers import root_up
from masquerade_protocols.dp_gd import roles as dp_gd

# --- Roots ------------------------------------------------------------------------------------------

ROOTS: dict[str, Callable[[int], tuple[Fraction, Fraction]]] = {
    "a descent's sensitivity": lambda n: (Fraction(n), sensitivity(Fraction(1, 4), n, 28) - Fraction(1 << 27)),
    "a descent's sigma": lambda n: (
        n * rounds_sigma(Fraction(1), 1, 1.0, 1e-5) ** 2,
        rounds_sigma(Fraction(1), n, 1.0, 1e-5),
    ),
    "an average's sensitivity": lambda n: (Fraction(n), root_up(Fraction(n), 32)),
    "a square that is no integer": lambda n: (Fraction(n, 7), root_up(Fraction(n, 7), 32)),
    "a share of Gaussian noise": lambda n: (
        (Fraction(10**6) ** 2 + LEAST_SHARE_SIGMA**2) / n,
        gaussian_share_sigma(Fraction(10**6), n),
    ),
    "a share of the objective's noise": lambda n: (Fraction(1, n), sigma_share(Fraction(1), n)),
    "the votes at n points": lambda n: (Fraction(n << 2 * COUNT_BITS), counts_sensitivity(n, 2)),
    "the votes for three classes": lambda n: (Fraction(2 * n << 2 * COUNT_BITS), counts_sensitivity(n, 3)),
}


@pytest.mark.parametrize("name", ROOTS)
def test_a_root_is_rounded_up_and_by_less_than_a_part_in_a_million(name: str) -> None:
    for n in (3, 5, 6, 10, 123, 9_999):  # no root of these is a number of the grid
        square, root = ROOTS[name](n)
        assert root**2 > square
        assert (root * (1 - Fraction(1, 10**6))) ** 2 < square


def test_a_root_that_is_a_number_of_the_grid_is_not_moved() -> None:
    assert root_up(Fraction(9, 4), 32) == root_up(Fraction(9, 4), 1) == Fraction(3, 2)
    assert sensitivity(Fraction(1, 4), 16, 28) == (1 << 27) + 4


def test_the_paper_s_sigma_is_rounded_up() -> None:
    """It is sqrt(c T log(1/delta))/(n epsilon); here with sixty digits."""
    digits = Context(prec=60)
    for T in (3, 10, 250):
        sigma = descent_sigma(16.0, Fraction(1), T, 0.5, 1e-3, 1_000)
        exact = Fraction((Decimal(16 * T) * Decimal(1_000).ln(digits)).sqrt(digits)) / 500
        assert 0 < sigma - exact < Fraction(1, 1 << (SIGMA_BITS - 1))


# --- mu ---------------------------------------------------------------------------------------------


def _descents() -> list[SharedNoise]:
    return [
        rounds_noise(clip=Fraction(1, 4), d=d, rounds=T, epsilon=epsilon, delta=1e-5, honest=h, fraction_bits=28)
        for d in (3, 10, 31)
        for T in (7, 20)
        for epsilon in (0.1, 1.0)
        for h in (2, 3)
    ]


def test_a_descent_s_mu_is_never_less_than_its_noise_gives() -> None:
    for noise in _descents():
        for shares in (1, 2, 5):
            exact = noise.Delta**2 * noise.rounds / (shares * noise.share**2 - LEAST_SHARE_SIGMA**2)
            assert Fraction(noise.mu(shares)) ** 2 >= exact
            assert Fraction(noise.mu(shares)) ** 2 <= exact * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("scale_rule", ["selected", "floor", "sizes"])
def test_an_average_s_mu_is_never_less_than_its_noise_gives(scale_rule: str) -> None:
    for d, epsilon, honest in ((3, 0.1, 2), (10, 1.0, 3), (31, 0.5, 5), (7, 2.0, 4), (5, 0.3, 3)):
        noise = JointNoise(
            scale_rule=scale_rule,
            K=5,
            d=d,
            honest=honest,
            epsilon=epsilon,
            delta=1e-5,
            Lambda=0.1,
            min_records=100,
            fraction_bits=32,
        )
        for shares in (1, 2, 3, 5):
            classes = [noise.of_class(k) for k in range(SIZE_CLASSES)] if scale_rule == "selected" else [noise]
            exact = max(
                one.sensitivity(one.min_records) ** 2 / (shares * one.share() ** 2 - LEAST_SHARE_SIGMA**2)
                for one in classes
            )
            assert Fraction(noise.mu(shares)) ** 2 >= exact
            assert Fraction(noise.mu(shares)) ** 2 <= exact * (1 + Fraction(1, 10**11))


# --- The clip ---------------------------------------------------------------------------------------


def test_no_error_of_a_float_makes_a_clipped_gradient_longer_than_half_of_delta() -> None:
    """The clip is just below half a step of the grid: an error in the last place would round up, and be too long."""
    rng = np.random.default_rng(8)
    F, loss = 1 << dp_gd.FRACTION_BITS, loss_of("logistic")
    for odd in (2**26 + 1, 2**26 + 12_345, 2**26 + 99_999):
        C = (odd + Fraction(1, 2) - Fraction(1, 1 << 26)) / F
        assert Fraction(float(C)) == C
        Delta = sensitivity(C, 1, dp_gd.FRACTION_BITS)
        for x in rng.uniform(0.9, 1.0, size=500):
            record = Dataset(np.array([[x]]), np.array([1.0]))
            (z,) = dp_gd.clipped_sum(record, np.array([-30.0]), loss, C)
            assert 2 * abs(z) <= Delta
            assert 2 * abs(z) >= Delta - 2  # the test looks at a gradient that is cut

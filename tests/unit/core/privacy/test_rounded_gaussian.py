"""Normal noise, rounded to the grid: its law and no other, its bound, its cost."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian, gaussian_tail_bound
from masquerade_core.rng import SystemRng
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import calls
from tests.noise_helpers import P_ACCEPT, P_REJECT

SIGMA, SCALE = Fraction(90305, 1000), Fraction(2**32)


def _draws(label: str, sigma: Fraction, size: int, scale: Fraction) -> NDArray[np.float64]:
    return np.array(gaussian(SimulationRng(20, label), sigma, size, scale), dtype=float)


def test_it_has_the_law_and_no_other_scale() -> None:
    draws = _draws("fine", SIGMA, 20_000, SCALE) / float(SCALE)
    assert stats.kstest(draws, stats.norm(scale=float(SIGMA)).cdf).pvalue > P_ACCEPT
    for factor in (0.7, 1.3):
        assert stats.kstest(draws, stats.norm(scale=float(SIGMA) * factor).cdf).pvalue < P_REJECT
    # A wrong scale of the grid is a wrong scale of the noise.
    assert stats.kstest(draws * 2, stats.norm(scale=float(SIGMA)).cdf).pvalue < P_REJECT


def test_on_a_coarse_grid_it_is_the_rounded_normal() -> None:
    draws = _draws("coarse", Fraction(7, 5), 40_000, Fraction(2)).astype(int)
    reach = 9
    edges = np.arange(-reach, reach) + 0.5
    observed = np.bincount(np.digitize(draws, edges), minlength=2 * reach + 1)

    def p(sd: float) -> float:
        expected = np.diff(stats.norm(scale=sd).cdf(np.array([-np.inf, *edges, np.inf]))) * len(draws)
        return float(stats.chisquare(observed, expected).pvalue)

    assert p(2.8) > P_ACCEPT
    assert p(2.8 * 0.7) < P_REJECT
    assert p(2.8 * 1.3) < P_REJECT
    # Rounding towards zero, or to the other side of a half, would show.
    assert observed[reach] == pytest.approx(40_000 * (2 * stats.norm.cdf(0.5 / 2.8) - 1), rel=0.06)


def test_coordinates_are_independent_of_each_other() -> None:
    """The two normals of a pair share a radius in Box and Muller's method, so absolute values are compared as well."""
    draws = _draws("pairs", SIGMA, 20_000, SCALE).reshape(-1, 4)
    for i, j in ((0, 1), (0, 2), (1, 2), (1, 3)):
        assert stats.spearmanr(draws[:, i], draws[:, j]).pvalue > P_ACCEPT
        assert stats.spearmanr(np.abs(draws[:, i]), np.abs(draws[:, j])).pvalue > P_ACCEPT
    assert len(set(draws.ravel().tolist())) == draws.size


@pytest.mark.parametrize("d", [1, 2, 10, 123])
def test_a_vector_is_of_its_length_and_its_norm_is_chi(d: int) -> None:
    rng = SimulationRng(21, str(d))
    draws = np.array([gaussian(rng, SIGMA, d, SCALE) for _ in range(2_000 if d < 20 else 400)], dtype=float)
    assert draws.shape[1] == d
    norms = np.linalg.norm(draws, axis=1) / float(SIGMA * SCALE)
    assert stats.kstest(norms, stats.chi(d).cdf).pvalue > P_ACCEPT
    for factor in (0.7, 1.3):
        assert stats.kstest(norms, stats.chi(d, scale=factor).cdf).pvalue < P_REJECT


@pytest.mark.parametrize("spread", [Fraction(1, 7), Fraction(3), Fraction(2000, 7)])
@pytest.mark.parametrize("size", [1, 123])
def test_the_tail_bound_is_the_smallest(spread: Fraction, size: int) -> None:
    def log_tail(B: int) -> float:
        return float(np.log(2 * size) + stats.norm.logsf((B + 0.5) / float(spread)))

    B = gaussian_tail_bound(spread / 5, size, Fraction(5))
    assert log_tail(B) <= -60 * np.log(2)
    assert B == 0 or log_tail(B - 1) > -60 * np.log(2)


def test_the_tail_bound_holds_on_a_fine_grid() -> None:
    B = gaussian_tail_bound(SIGMA, 123, SCALE)
    assert np.log(2 * 123) + stats.norm.logsf(B / float(SIGMA * SCALE)) == pytest.approx(-60 * np.log(2), abs=1e-6)


def test_a_tail_bound_of_few_bits_is_exceeded_as_often_as_it_says() -> None:
    B = gaussian_tail_bound(Fraction(5), 1, Fraction(10), bits=5)
    beyond = int((np.abs(_draws("tail", Fraction(5), 50_000, Fraction(10))) > B).sum())
    assert stats.binomtest(beyond, 50_000, 2.0**-5, alternative="greater").pvalue > P_ACCEPT
    assert stats.binomtest(beyond, 50_000, 2.0**-5.5, alternative="greater").pvalue < P_ACCEPT


def test_noise_repeats_with_a_seed_and_never_without() -> None:
    assert gaussian(SimulationRng(1), SIGMA, 5, SCALE) == gaussian(SimulationRng(1), SIGMA, 5, SCALE)
    assert gaussian(SimulationRng(1), SIGMA, 5, SCALE) != gaussian(SimulationRng(2), SIGMA, 5, SCALE)
    assert gaussian(SystemRng(), SIGMA, 5, SCALE) != gaussian(SystemRng(), SIGMA, 5, SCALE)


@pytest.mark.parametrize(
    ("sigma", "size", "scale"),
    [
        (Fraction(0), 1, SCALE),
        (Fraction(-1), 1, SCALE),
        (SIGMA, 1, Fraction(0)),
        (SIGMA, 0, SCALE),
        (Fraction(2**119), 1, SCALE),
    ],
)
def test_noise_whose_accuracy_is_not_proved_is_a_bug(sigma: Fraction, size: int, scale: Fraction) -> None:
    with pytest.raises(LocalProtocolError):
        gaussian(SystemRng(), sigma, size, scale)
    with pytest.raises(LocalProtocolError):
        gaussian_tail_bound(sigma, size, scale)


def test_noise_is_cheap() -> None:
    assert calls(lambda: gaussian(SimulationRng(1), SIGMA, 123, SCALE)) < 1_000  # 604

"""Noise of density proportional to exp(-beta |x|_2): its law and no other, how close it is, its bound, its cost."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.samplers import l2_laplace as l2_module
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace, l2_tail_bound
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import calls
from tests.messages import raises
from tests.noise_helpers import P_ACCEPT, P_REJECT


@pytest.mark.parametrize("d", [1, 2, 10, 123])
def test_l2_noise_has_its_norm_and_no_other_scale(d: int) -> None:
    beta, scale, rng = Fraction(37, 10), Fraction(2**32 * 5), SimulationRng(9, str(d))
    draws = np.array([l2_laplace(rng, beta, d, scale) for _ in range(3_000 if d < 20 else 1_500)], dtype=float)
    norms = np.linalg.norm(draws, axis=1) / float(scale) * float(beta)
    assert stats.kstest(norms, stats.gamma(d).cdf).pvalue > P_ACCEPT
    for factor in (0.7, 1.3):
        assert stats.kstest(norms, stats.gamma(d, scale=factor).cdf).pvalue < P_REJECT
    signs = stats.binomtest(int((draws > 0).sum()), draws.size, 0.5).pvalue
    assert signs > P_ACCEPT


def test_l2_noise_points_everywhere_alike() -> None:
    d, rng = 5, SimulationRng(10)
    draws = np.array([l2_laplace(rng, Fraction(1), d, Fraction(2**40)) for _ in range(4_000)], dtype=float)
    norms = np.linalg.norm(draws, axis=1)
    axes = np.vstack([np.eye(d), np.ones((1, d)) / np.sqrt(d), np.array([[1, -1, 0, 0, 0]]) / np.sqrt(2)])
    for axis in axes:  # the square of a uniform direction along any axis is Beta(1/2, (d-1)/2)
        assert stats.kstest((draws @ axis / norms) ** 2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > P_ACCEPT
    assert stats.kstest((draws[:, 0] / norms) ** 2, stats.beta(0.5, d / 2).cdf).pvalue < 1e-9
    # A direction shows nothing of the norm.
    assert stats.spearmanr(np.abs(draws[:, 0]) / norms, norms).pvalue > P_ACCEPT


@pytest.mark.parametrize("bits", [60, 600])
def test_l2_noise_of_any_size_has_digits_down_to_the_last(bits: int) -> None:
    """Otherwise noise would be a multiple of a power of 2, and the remainder would show what it was added to."""
    rng = SimulationRng(14)
    rows = [l2_laplace(rng, Fraction(1, 2**bits), 4, Fraction(2**28)) for _ in range(300)]
    last = np.bincount([v % 16 for row in rows for v in row], minlength=16)
    assert stats.chisquare(last).pvalue > P_ACCEPT
    norms = np.linalg.norm([[(v >> bits) / 2**28 for v in row] for row in rows], axis=1)
    assert stats.kstest(norms, stats.gamma(4).cdf).pvalue > P_ACCEPT


def _exactly(ratio: Fraction, d: int, draws: Sequence[Sequence[int]], bits: int) -> list[Decimal]:
    """Compute the vector of l2_laplace from its uniforms in 300 digits, with none of the program's code.

    ``draws`` holds the drawn numbers in this order: d uniforms, the cuts, and points until there are enough.
    """
    top, pairs = Decimal(2) ** bits, (d + 1) // 2
    gamma = -sum(((Decimal(v) + 1) / top).ln() for v in draws[0])
    cuts = [Decimal(0), *(sorted(map(Decimal, draws[1])) if pairs > 1 else []), top]
    flat = [Decimal(2 * v + 1) / top - 1 for row in draws[2 if pairs > 1 else 1 :] for v in row]
    points = [(a, b) for a, b in zip(flat[::2], flat[1::2], strict=True) if a * a + b * b < 1]
    assert len(points) == pairs
    vector = []
    for i, (a, b) in enumerate(points):
        radius = ((cuts[i + 1] - cuts[i]) / top).sqrt() / (a * a + b * b).sqrt()
        vector += [a * radius, b * radius]
    length = sum((x * x for x in vector[:d]), Decimal(0)).sqrt()
    return [Decimal(ratio.numerator) / ratio.denominator * gamma * x / length for x in vector[:d]]


@pytest.mark.parametrize("d", [1, 2, 3, 8, 123])
@pytest.mark.parametrize("ratio", [Fraction(1, 1000), Fraction(2**29), Fraction(2**300, 7)])
@pytest.mark.parametrize("tv_bits", [60, 128])
def test_l2_noise_is_as_close_to_the_continuous_as_it_says(
    d: int, ratio: Fraction, tv_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 256 more bits behind each uniform, coordinates stay within e = 2^-(67+g+D) grid units, g = tv_bits - 60."""
    drawn: list[list[int]] = []
    original, more = l2_module._integers, SimulationRng(16, f"{d} {ratio}")

    def noted(rng: Rng, bits: int, count: int) -> list[gmpy2.mpz]:
        values = original(rng, bits, count)
        if values:
            drawn.append([int(v) for v in values])
        return values

    monkeypatch.setattr(l2_module, "_integers", noted)
    bits = l2_module._l2_bits(ratio, d, tv_bits)
    assert bits >= 2 * tv_bits
    with gmpy2.context(gmpy2.get_context(), precision=bits):
        vector = l2_module._l2_vector(SimulationRng(15, f"{d} {ratio}"), ratio, d, bits)
        ours = [Fraction(*x.as_integer_ratio()) for x in vector]
    finer = [[(v << 256) + more.bits(256) for v in row] for row in drawn]
    with localcontext() as context:
        context.prec = 300
        exact = [Fraction(x) for x in _exactly(ratio, d, finer, bits + 256)]
        wrong = [Fraction(x) for x in _exactly(ratio * 2, d, finer, bits + 256)]
    limit = Fraction(1, 2 ** (67 + tv_bits - 60 + d.bit_length()))
    assert max(abs(a - b) for a, b in zip(ours, exact, strict=True)) < limit
    assert max(abs(a - b) for a, b in zip(ours, wrong, strict=True)) > limit


def test_noise_that_is_closer_to_its_law_takes_more_digits() -> None:
    """Sixty-eight bits closer takes 170 bits more: 5/2 for each, as the proof says."""
    for d in (3, 123, 1000):
        more = l2_module._l2_bits(Fraction(2**29), d, 128) - l2_module._l2_bits(Fraction(2**29), d)
        assert 170 - 64 < more < 170 + 2 * 64
    for tv_bits in (58, 61):
        with pytest.raises(LocalProtocolError):
            l2_laplace(SystemRng(), Fraction(1), 3, Fraction(1), tv_bits)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_noise_that_is_closer_to_its_law_has_the_same_law(d: int) -> None:
    rng = SimulationRng(19, str(d))
    draws = np.array([l2_laplace(rng, Fraction(2), d, Fraction(2**40), 128) for _ in range(3_000)], dtype=float)
    norms = np.linalg.norm(draws, axis=1) / 2**40 * 2
    assert stats.kstest(norms, stats.gamma(d).cdf).pvalue > P_ACCEPT
    assert stats.kstest(norms, stats.gamma(d, scale=1.3).cdf).pvalue < P_REJECT


def test_l2_noise_takes_more_digits_the_larger_it_is() -> None:
    widths = [l2_module._l2_bits(Fraction(2**size), 123) for size in (29, 100, 600)]
    assert widths == sorted(set(widths))
    assert l2_module._l2_bits(Fraction(2**29), 12_300) > l2_module._l2_bits(Fraction(2**29), 12)


@pytest.mark.parametrize("d", [2, 3])
def test_l2_noise_takes_every_angle_alike(d: int) -> None:
    rng = SimulationRng(17, str(d))
    draws = np.array([l2_laplace(rng, Fraction(1), d, Fraction(2**40)) for _ in range(6_000)], dtype=float)
    for i, j in ((0, 1), (d - 2, d - 1), (d - 1, 0)):
        angles = np.arctan2(draws[:, i], draws[:, j])
        assert stats.kstest(angles, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > P_ACCEPT
        assert stats.kstest(np.abs(angles), stats.uniform(0, np.pi * 0.9).cdf).pvalue < P_REJECT


def test_integers_are_all_bits_that_were_drawn() -> None:
    class Given:
        def bytes(self, n: int) -> bytes:
            return bytes(range(n))

    assert l2_module._integers(Given(), 8, 4) == [3, 2, 1, 0]  # type: ignore[arg-type]  # a leading zero is kept
    assert l2_module._integers(Given(), 64, 0) == []  # type: ignore[arg-type]


def test_independent_coordinates_are_not_taken_for_l2_noise() -> None:
    draws = np.random.default_rng(11).laplace(size=(4_000, 5))
    norms = np.linalg.norm(draws, axis=1)
    assert stats.kstest((draws[:, 0] / norms) ** 2, stats.beta(0.5, 2).cdf).pvalue < P_REJECT


@pytest.mark.parametrize("d", [1, 10, 123, 1000])
def test_the_l2_tail_bound_bounds_the_norm(d: int) -> None:
    beta, scale = Fraction(7, 3), Fraction(2**40)
    x = l2_tail_bound(beta, d, scale) / float(scale) * float(beta)
    assert stats.gamma(d).logsf(x) <= -60 * np.log(2)
    assert stats.gamma(d).logsf(x - 1.01) > -60 * np.log(2)


def test_noise_repeats_with_a_seed_and_never_without() -> None:
    def draw(rng: Rng) -> list[int]:
        return l2_laplace(rng, Fraction(1), 5, Fraction(2**40))

    assert draw(SimulationRng(1)) == draw(SimulationRng(1))
    assert draw(SimulationRng(1)) != draw(SimulationRng(2))
    assert draw(SystemRng()) != draw(SystemRng())


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_no_noise_is_a_bug(bad: Fraction) -> None:
    for beta, scale in ((bad, Fraction(1)), (Fraction(1), bad)):
        with raises(LocalProtocolError, "noise_scale_not_positive"):
            l2_laplace(SystemRng(), beta, 1, scale)
        with raises(LocalProtocolError, "noise_scale_not_positive"):
            l2_tail_bound(beta, 1, scale)


def test_noise_is_cheap() -> None:
    scale = Fraction(2**40 * 10**17, 123456789012345678)
    assert calls(lambda: l2_laplace(SimulationRng(1), Fraction(37, 10), 123, scale)) < 450  # some 300

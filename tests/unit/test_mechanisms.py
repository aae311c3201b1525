"""The noise is the noise: each law is accepted at its own scale and rejected at another."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from numpy.typing import NDArray
from opendp import prelude as dp
from scipy import stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.samplers import l2_laplace as l2_module
from masquerade_core.privacy.samplers.bits import Bits
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace, tail_bound
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace, l2_tail_bound
from masquerade_core.rng import Rng, SimulationRng, SystemRng
from tests.helpers import calls

P_ACCEPT = 1e-9
"""A right sampler fails a test once in a thousand million runs."""

P_REJECT = 1e-20
"""A wrong scale is noticed beyond all doubt."""


@pytest.fixture(autouse=True)
def _opendp() -> Iterator[None]:
    dp.enable_features("contrib")
    yield
    dp.disable_features("contrib")


def _chi_square(draws: NDArray[np.int64], scale: float) -> float:
    """The p-value of draws under the discrete Laplace law of this scale; at least 5 are expected in each cell."""
    law = stats.dlaplace(1 / scale)
    reach = int(law.ppf(1 - 10 / len(draws)))
    cells = np.clip(draws, -reach, reach)
    observed = np.bincount(cells + reach, minlength=2 * reach + 1)
    expected = law.pmf(np.arange(-reach, reach + 1))
    expected[0] = expected[-1] = law.cdf(-reach)
    return float(stats.chisquare(observed, expected / expected.sum() * len(draws)).pvalue)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 2), Fraction(29)])
def test_discrete_laplace_noise_has_its_law_and_no_other_scale(scale: Fraction) -> None:
    draws = np.array(discrete_laplace(SimulationRng(5, f"{scale}"), scale, 60_000))
    assert _chi_square(draws, float(scale)) > P_ACCEPT
    assert _chi_square(draws, float(scale) * 0.7) < P_REJECT
    assert _chi_square(draws, float(scale) * 1.3) < P_REJECT


def test_discrete_laplace_noise_on_a_fine_grid_has_the_continuous_law() -> None:
    scale = Fraction(20 * 2**32 * 1000, 1237)
    draws = np.array(discrete_laplace(SimulationRng(6), scale, 30_000), dtype=float)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        p = stats.kstest(draws, stats.laplace(scale=float(scale) * factor).cdf).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT
    halves = stats.spearmanr(draws[::2], draws[1::2]).pvalue
    assert halves > P_ACCEPT
    assert len(set(draws.tolist())) == len(draws)


def test_discrete_laplace_noise_is_that_of_another_library() -> None:
    """OpenDP's exact sampler cannot be seeded, so two samples are compared."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        theirs = dp.m.make_laplace(*space, scale=6.0 * factor)([0] * 40_000)
        ours = discrete_laplace(SimulationRng(7), Fraction(6), 40_000)
        table = np.array([np.bincount(np.clip(x, -30, 30) + 30, minlength=61) for x in (ours, theirs)])
        table = table[:, table.sum(axis=0) > 0]
        p = stats.chi2_contingency(table).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT


def test_a_coin_for_exp_minus_gamma_is_fair() -> None:
    bits = Bits(SimulationRng(8))
    for numerator, denominator in ((0, 1), (1, 1), (1, 3), (10**20, 3 * 10**20)):
        heads = sum(bits.exp_minus(numerator, denominator) for _ in range(20_000))
        chance = float(np.exp(-numerator / denominator))
        assert stats.binomtest(heads, 20_000, chance).pvalue > P_ACCEPT


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
    # ... and says nothing about the norm.
    assert stats.spearmanr(np.abs(draws[:, 0]) / norms, norms).pvalue > P_ACCEPT


@pytest.mark.parametrize("bits", [60, 600])
def test_l2_noise_of_any_size_has_digits_down_to_the_last(bits: int) -> None:
    """Else it would be a multiple of a power of 2, and what it is added to would stand in the remainder."""
    rng = SimulationRng(14)
    rows = [l2_laplace(rng, Fraction(1, 2**bits), 4, Fraction(2**28)) for _ in range(300)]
    last = np.bincount([v % 16 for row in rows for v in row], minlength=16)
    assert stats.chisquare(last).pvalue > P_ACCEPT
    norms = np.linalg.norm([[(v >> bits) / 2**28 for v in row] for row in rows], axis=1)
    assert stats.kstest(norms, stats.gamma(4).cdf).pvalue > P_ACCEPT


def _exactly(ratio: Fraction, d: int, draws: Sequence[Sequence[int]], bits: int) -> list[Decimal]:
    """The vector that l2_laplace's formula makes of uniforms, in 300 digits and by nobody else's code.

    ``draws`` holds what was drawn, in this order: d uniforms, the cuts, and points until there are enough.
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
def test_l2_noise_is_as_close_to_the_continuous_as_it_says(
    d: int, ratio: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uniforms are continued by 256 bits more: coordinates stay within e = 2^-(67+D) grid units."""
    drawn: list[list[int]] = []
    original, more = l2_module._integers, SimulationRng(16, f"{d} {ratio}")

    def noted(rng: Rng, bits: int, count: int) -> list[gmpy2.mpz]:
        values = original(rng, bits, count)
        if values:
            drawn.append([int(v) for v in values])
        return values

    monkeypatch.setattr(l2_module, "_integers", noted)
    bits = l2_module._l2_bits(ratio, d)
    assert bits >= 128
    with gmpy2.context(gmpy2.get_context(), precision=bits):
        vector = l2_module._l2_vector(SimulationRng(15, f"{d} {ratio}"), ratio, d, bits)
        ours = [Fraction(*x.as_integer_ratio()) for x in vector]
    finer = [[(v << 256) + more.bits(256) for v in row] for row in drawn]
    with localcontext() as context:
        context.prec = 300
        exact = [Fraction(x) for x in _exactly(ratio, d, finer, bits + 256)]
        wrong = [Fraction(x) for x in _exactly(ratio * 2, d, finer, bits + 256)]
    limit = Fraction(1, 2 ** (67 + d.bit_length()))
    assert max(abs(a - b) for a, b in zip(ours, exact, strict=True)) < limit
    assert max(abs(a - b) for a, b in zip(ours, wrong, strict=True)) > limit


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


def test_a_test_of_the_test_independent_coordinates_are_not_l2_noise() -> None:
    draws = np.random.default_rng(11).laplace(size=(4_000, 5))
    norms = np.linalg.norm(draws, axis=1)
    assert stats.kstest((draws[:, 0] / norms) ** 2, stats.beta(0.5, 2).cdf).pvalue < P_REJECT


@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(1), Fraction(10, 3), Fraction(2**45, 12345)])
@pytest.mark.parametrize("count", [1, 123])
def test_the_tail_bound_is_the_smallest(scale: Fraction, count: int) -> None:
    with localcontext() as context:
        context.prec = 120
        q = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()

        def tail(B: int) -> Decimal:
            return count * 2 * (Decimal(B + 1) * q.ln()).exp() / (1 + q)

        B = tail_bound(scale, count=count)
        limit = Decimal(2) ** -60
        assert tail(B) <= limit
        assert B == 0 or tail(B - 1) > limit


def test_a_tail_bound_of_few_bits_is_exceeded_as_often_as_it_says() -> None:
    scale = Fraction(50)
    B = tail_bound(scale, bits=5)
    draws = np.abs(discrete_laplace(SimulationRng(12), scale, 50_000))
    beyond = int((draws > B).sum())
    assert stats.binomtest(beyond, 50_000, 2.0**-5, alternative="greater").pvalue > P_ACCEPT
    assert stats.binomtest(beyond, 50_000, 2.0**-6, alternative="greater").pvalue < P_ACCEPT


@pytest.mark.parametrize("d", [1, 10, 123, 1000])
def test_the_l2_tail_bound_bounds_the_norm(d: int) -> None:
    beta, scale = Fraction(7, 3), Fraction(2**40)
    x = l2_tail_bound(beta, d, scale) / float(scale) * float(beta)
    assert stats.gamma(d).logsf(x) <= -60 * np.log(2)
    assert stats.gamma(d).logsf(x - 1.01) > -60 * np.log(2)


def test_bounds_are_wider_for_less_data() -> None:
    scales = [Fraction(10**12, n) for n in (10, 100, 101)]
    assert sorted(map(tail_bound, scales)) == [tail_bound(s) for s in reversed(scales)]


def test_noise_repeats_with_a_seed_and_never_without() -> None:
    draws: tuple[Callable[[Rng], list[int]], ...] = (
        lambda rng: discrete_laplace(rng, Fraction(2**40), 5),
        lambda rng: l2_laplace(rng, Fraction(1), 5, Fraction(2**40)),
    )
    for draw in draws:
        assert draw(SimulationRng(1)) == draw(SimulationRng(1))
        assert draw(SimulationRng(1)) != draw(SimulationRng(2))
        assert draw(SystemRng()) != draw(SystemRng())


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_no_noise_is_a_bug(bad: Fraction) -> None:
    with pytest.raises(LocalProtocolError):
        discrete_laplace(SystemRng(), bad, 1)
    with pytest.raises(LocalProtocolError):
        l2_laplace(SystemRng(), bad, 1, Fraction(1))
    with pytest.raises(LocalProtocolError):
        l2_laplace(SystemRng(), Fraction(1), 1, bad)
    with pytest.raises(LocalProtocolError):
        tail_bound(bad)


def test_noise_is_cheap() -> None:
    scale = Fraction(2**40 * 10**17, 123456789012345678)
    assert calls(lambda: discrete_laplace(SimulationRng(1), scale, 123)) < 12_000  # some 8,500, as it draws
    assert calls(lambda: l2_laplace(SimulationRng(1), Fraction(37, 10), 123, scale)) < 450  # some 300

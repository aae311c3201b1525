"""Shares of Laplace noise: each has its law, h of them that asked for, and no other scale or number passes."""

from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import exp, gcd, hypot, pi, sqrt

import gmpy2
import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from opendp import prelude as dp
from scipy import integrate, stats

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy import discrete
from masquerade_core.privacy.discrete import (
    grid_l2_laplace,
    l2_laplace_share,
    l2_share_tail_bound,
    laplace_share,
    laplace_share_tail_bound,
)
from masquerade_core.privacy.mechanisms import _Bits
from masquerade_core.rng import SimulationRng, SystemRng
from tests.helpers import calls

_Array = NDArray[np.float64]

P_ACCEPT = 1e-9
"""A right sampler fails a test once in a thousand million runs; the seeds are fixed, so it never does."""

P_REJECT = 1e-6
"""A wrong scale is noticed with a few thousand draws."""

FINE = Fraction(2**40, 12345)


def _fits(draws: ArrayLike, law: Mapping[int, float]) -> float:
    """The p-value of draws under a law on the integers; at least 10 are expected in each cell."""
    values = np.asarray(draws, dtype=np.int64)
    points = np.array(sorted(law))
    chances = np.array([law[int(x)] for x in points])
    inner = points[chances * len(values) > 10]
    low, high = int(inner[0]), int(inner[-1])
    observed = np.bincount(np.clip(values, low, high) - low, minlength=high - low + 1)
    expected = chances[(points >= low) & (points <= high)]
    expected[0] += chances[points < low].sum()
    expected[-1] += chances[points > high].sum()
    return float(stats.chisquare(observed, expected / expected.sum() * len(values)).pvalue)


def _negative_binomial(scale: float, honest: int, reach: int) -> _Array:
    """P(k), k = 0 ... reach, by another library."""
    law: _Array = stats.nbinom(1 / honest, 1 - exp(-1 / scale)).pmf(np.arange(reach + 1))
    return law


def _share_law(scale: float, honest: int) -> dict[int, float]:
    reach = int(30 * scale) + 10
    one = _negative_binomial(scale, honest, reach)
    both = np.convolve(one, one[::-1])
    return dict(zip(range(-reach, reach + 1), both.tolist(), strict=True))


def _laplace_law(scale: float) -> dict[int, float]:
    reach = int(40 * scale) + 10
    return {x: exp(-abs(x) / scale) * (1 - exp(-1 / scale)) / (1 + exp(-1 / scale)) for x in range(-reach, reach + 1)}


# --- Laplace noise on each coordinate ------------------------------------------------


@pytest.mark.parametrize(("scale", "honest"), [(Fraction(1, 2), 2), (Fraction(7, 2), 1), (Fraction(10), 3)])
def test_a_share_has_its_law_and_no_other_scale_or_number(scale: Fraction, honest: int) -> None:
    draws = laplace_share(SimulationRng(1, f"{scale}"), scale, honest, 2_500)
    assert _fits(draws, _share_law(float(scale), honest)) > P_ACCEPT
    assert _fits(draws, _share_law(float(scale) * 0.7, honest)) < P_REJECT
    assert _fits(draws, _share_law(float(scale) * 1.3, honest)) < P_REJECT
    assert _fits(draws, _share_law(float(scale), honest + 1)) < P_REJECT


@pytest.mark.parametrize(("scale", "honest"), [(Fraction(5, 2), 2), (Fraction(7), 4)])
def test_as_many_shares_as_are_honest_are_laplace_noise_and_no_other_number_is(scale: Fraction, honest: int) -> None:
    size, law = 1_500, _laplace_law(float(scale))
    shares = np.array([laplace_share(SimulationRng(2, str(i)), scale, honest, size) for i in range(honest)])
    total = shares.sum(axis=0)
    assert _fits(total, law) > P_ACCEPT
    assert _fits(shares[:-1].sum(axis=0), law) < P_REJECT
    assert _fits(total, _laplace_law(float(scale) * 0.7)) < P_REJECT
    assert _fits(total, _laplace_law(float(scale) * 1.3)) < P_REJECT


def test_noise_for_all_parties_where_some_are_known_is_noticed() -> None:
    """The slip that is easiest to make: shares sized for K parties, of which only h count."""
    K, h, scale = 5, 3, Fraction(20)
    shares = np.array([laplace_share(SimulationRng(3, str(i)), scale, K, 1_500) for i in range(h)])
    assert _fits(shares.sum(axis=0), _laplace_law(20.0)) < P_REJECT


def test_the_laws_of_shares_convolve_to_that_of_laplace_noise() -> None:
    """What is drawn is what adds up, to the last digit of a float."""
    for scale, honest in ((2.5, 2), (4.0, 5)):
        law, reach = np.array([1.0]), 0
        one = np.array(list(_share_law(scale, honest).values()))
        for _ in range(honest):
            law, reach = np.convolve(law, one), reach + len(one) // 2
        wanted = _laplace_law(scale)
        for x in range(-40, 41):
            assert law[x + reach] == pytest.approx(wanted[x], rel=1e-10)


def test_laplace_shares_add_up_to_the_noise_of_another_library() -> None:
    """OpenDP's exact sampler cannot be seeded, so two samples are compared."""
    dp.enable_features("contrib")
    try:
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
        ours = np.sum([laplace_share(SimulationRng(4, str(i)), Fraction(6), 3, 2_000) for i in range(3)], axis=0)
        for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
            theirs = dp.m.make_laplace(*space, scale=6.0 * factor)([0] * 10_000)
            table = np.array([np.bincount(np.clip(x, -20, 20) + 20, minlength=41) for x in (ours, theirs)])
            p = stats.chi2_contingency(table).pvalue
            assert p > P_ACCEPT if accept else p < P_REJECT
    finally:
        dp.disable_features("contrib")


def test_laplace_shares_on_a_fine_grid_add_up_to_the_continuous_law() -> None:
    shares = [laplace_share(SimulationRng(5, str(i)), FINE, 3, 1_000) for i in range(3)]
    total = np.sum(shares, axis=0).astype(float)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        p = stats.kstest(abs(total), stats.expon(scale=float(FINE) * factor).cdf).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT
    assert stats.binomtest(int((total > 0).sum()), len(total)).pvalue > P_ACCEPT
    digits = np.array([v % 16 for share in shares for v in share])
    large = np.abs(np.concatenate(shares)) > 2**10  # a share is likely to be next to 0, where digits are not uniform
    assert stats.chisquare(np.bincount(digits[large], minlength=16)).pvalue > P_ACCEPT
    assert stats.spearmanr(total[::2], total[1::2]).pvalue > P_ACCEPT


@pytest.mark.parametrize(("scale", "honest"), [(Fraction(10), 3), (Fraction(1, 3), 2), (Fraction(9, 2), 1)])
def test_what_is_kept_of_each_proposal_is_its_mass_in_thirty_digits(scale: Fraction, honest: int) -> None:
    """By the recurrence g(k+1)/g(k) = (k + 1/h)/(k + 1), which knows no gamma function; and no chance is above 1."""
    law, masses = discrete._NegativeBinomial(scale, honest), list[tuple[str, int, int]]()
    for k in range(60):
        block = max(i for i, start in enumerate([*(start for start, _ in law._blocks), law._tail]) if start <= k)
        low, high = law._log_chance(block, k, 256)
        assert low <= high <= gmpy2.mpfr(2) ** -60
        lazy_low, lazy_high = law._log_chance(block, k, 128)
        assert lazy_low <= low
        assert high <= lazy_high
        with gmpy2.context(gmpy2.get_context(), precision=256):
            mass = gmpy2.exp(low) * law._offers[block]
            if block < len(law._blocks):
                mass /= 2 ** law._blocks[block][1]
            else:
                q = gmpy2.exp(-1 / gmpy2.mpfr(gmpy2.mpq(scale)))
                mass *= (1 - q) * q ** (k - law._tail)
        masses.append(gmpy2.digits(mass, 10, 60))
    with localcontext() as context:
        context.prec = 60
        q = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        exact = [Decimal(f"0.{digits}e{exponent}") for digits, exponent, _ in masses]
        for k, (mass, following) in enumerate(pairwise(exact)):
            ratio = q * (k + 1 / Decimal(honest)) / (k + 1)
            assert abs(following / mass / ratio - 1) < Decimal(10) ** -30


@pytest.mark.parametrize(("scale", "honest"), [(Fraction(10), 3), (Fraction(10), 1), (Fraction(1, 4), 2)])
@pytest.mark.parametrize("bits", [4, 20])
def test_the_tail_of_a_laplace_share_is_bounded(scale: Fraction, honest: int, bits: int) -> None:
    size, B = 7, laplace_share_tail_bound(scale, 7, bits)
    law = _share_law(float(scale), honest)
    assert size * sum(p for x, p in law.items() if abs(x) > B) <= 2**-bits * (1 + 1e-9)
    if honest == 1:  # not idle where the share is the whole noise
        assert size * sum(p for x, p in law.items() if abs(x) > 0.8 * B - scale) > 2**-bits


# --- L2 noise ------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "honest"), [(5, 1), (4, 3), (9, 5)])
def test_as_many_l2_shares_as_are_honest_have_a_gamma_norm(d: int, honest: int) -> None:
    beta, scale, size = Fraction(37, 10), Fraction(2**40), 800
    rngs = [SimulationRng(6, f"{d} {i}") for i in range(honest)]
    shares = np.array(
        [[l2_laplace_share(rng, beta, honest, d, scale) for _ in range(size)] for rng in rngs], dtype=float
    )
    r = float(scale / beta)
    total = shares.sum(axis=0) / r
    norms = np.linalg.norm(total, axis=1)
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        p = stats.kstest(norms / factor, stats.gamma(d).cdf).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT
    # Every direction alike: a coordinate's share of the square is Beta(1/2, (d-1)/2), and signs are independent.
    assert stats.kstest((total[:, 0] / norms) ** 2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > P_ACCEPT
    assert stats.binomtest(int((total[:, 0] * total[:, -1] > 0).sum()), size).pvalue > P_ACCEPT
    if honest > 1:
        fewer = np.linalg.norm(shares[:-1].sum(axis=0) / r, axis=1)
        assert stats.kstest(fewer, stats.gamma(d).cdf).pvalue < P_REJECT


def _rounded_laplace(r: float, reach: int) -> dict[int, float]:
    """Laplace noise of scale r, rounded to an integer drawn with P(w) proportional to exp(-(w - z)^2/(2 3^2))."""

    def at(x: int) -> float:
        return float(
            integrate.quad(lambda z: exp(-abs(z) / r - (x - z) ** 2 / 18), *ends(x), points=[0.0], limit=200)[0]
        )

    def ends(x: int) -> tuple[float, float]:
        return min(0.0, x - 40.0), max(0.0, x + 40.0)

    return {x: at(abs(x)) / (2 * r * 3 * sqrt(2 * pi)) for x in range(-reach, reach + 1)}


def test_an_l2_share_on_a_coarse_grid_has_its_law_and_hides_what_it_must() -> None:
    r = 4
    law = _rounded_laplace(float(r), 140)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    draws = [
        l2_laplace_share(rng, Fraction(1, r), 1, 1, Fraction(1))[0] for rng in [SimulationRng(7)] for _ in range(6_000)
    ]
    assert _fits(draws, law) > P_ACCEPT
    for wrong in (0.7, 1.3):
        assert _fits(draws, _rounded_laplace(r * wrong, 180)) < P_REJECT
    for shift in (1, 3, 10):  # epsilon = beta Delta, and nothing more
        assert max(law[x] / law[x + shift] for x in range(-60, 60)) <= exp(shift / r) * (1 + 1e-9)


@pytest.mark.parametrize("d", [1, 6])
def test_the_tail_of_an_l2_share_is_bounded(d: int) -> None:
    """Of the whole noise by quadrature over its norm and direction; a share of more parties stays within."""
    beta, scale = Fraction(1, 50), Fraction(1)

    def beyond(B: float) -> float:
        norms = np.linspace(B / 50, B / 50 + 40, 20_001)
        turned = stats.beta.sf((B / 50 / norms) ** 2, 0.5, (d - 1) / 2) if d > 1 else 1.0
        return d * float(integrate.trapezoid(stats.gamma.pdf(norms, d) * turned, norms))

    for bits in (6, 30):
        B = l2_share_tail_bound(beta, d, scale, bits)
        assert beyond(B) <= 2.0**-bits < beyond(0.5 * B - 40)
    B = l2_share_tail_bound(beta, d, scale, 6)
    for honest in (1, 4):
        rng = SimulationRng(8, f"{d} {honest}")
        draws = np.array([l2_laplace_share(rng, beta, honest, d, scale) for _ in range(500)])
        found = int((np.abs(draws).max(axis=1) > B).sum())
        assert stats.binomtest(found, 500, 2**-6, alternative="greater").pvalue > 1e-4


# --- L2 noise drawn whole --------------------------------------------------------------


def test_l2_noise_on_the_grid_has_its_law_in_one_dimension_and_in_two() -> None:
    rng = SimulationRng(9)
    line = [grid_l2_laplace(rng, Fraction(2, 7), 1)[0] for _ in range(6_000)]
    assert _fits(line, _laplace_law(3.5)) > P_ACCEPT
    for wrong in (0.7, 1.3):
        assert _fits(line, _laplace_law(3.5 * wrong)) < P_REJECT

    plane = np.array([grid_l2_laplace(rng, Fraction(1, 2), 2) for _ in range(8_000)])
    side = np.arange(-60, 61)
    for beta, accept in ((0.5, True), (0.5 / 0.7, False), (0.5 / 1.3, False)):
        weights = np.exp(-beta * np.hypot(side[:, None], side[None, :]))
        weights /= weights.sum()
        inner = [(x, y) for x in range(-3, 4) for y in range(-3, 4)]  # 49 points, and all others as one
        chances = [weights[x + 60, y + 60] for x, y in inner]
        observed = [int((plane == point).all(axis=1).sum()) for point in inner]
        table = np.array([*observed, len(plane) - sum(observed)])
        p = stats.chisquare(table, np.array([*chances, 1 - sum(chances)]) * len(plane)).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT


@pytest.mark.parametrize("d", [3, 10])
def test_l2_noise_on_a_fine_grid_has_a_gamma_norm(d: int) -> None:
    rng = SimulationRng(10, str(d))
    norms = np.array([hypot(*grid_l2_laplace(rng, Fraction(1, 2**30), d)) for _ in range(400)]) / 2**30
    for factor, accept in ((1.0, True), (0.7, False), (1.3, False)):
        p = stats.kstest(norms / factor, stats.gamma(d).cdf).pvalue
        assert p > P_ACCEPT if accept else p < P_REJECT


# --- What they are made of ----------------------------------------------------------------


def test_a_chance_known_ever_more_closely_is_met_exactly() -> None:
    """Bounds that say next to nothing at first only make it ask again."""
    asked: list[int] = []

    def bounds(p: float, precision: int) -> tuple[gmpy2.mpfr, gmpy2.mpfr]:
        asked.append(precision)
        width = gmpy2.mpfr(2) ** (126 - precision)
        exact = gmpy2.log(gmpy2.mpfr(p))
        return exact - width, exact + width

    source = _Bits(SimulationRng(11))
    for p in (0.05, 0.5, 0.93):
        happened = sum(discrete._happens(source, partial(bounds, p)) for _ in range(4_000))
        assert stats.binomtest(happened, 4_000, p).pvalue > P_ACCEPT
    assert set(asked) >= {128, 192}


def test_l2_shares_are_no_multiples_of_anything() -> None:
    """In a fixed precision large noise would be, and what it is added to could be read off the remainder."""
    draws = [abs(v) for v in l2_laplace_share(SimulationRng(12), Fraction(1, 2**140), 2, 9, Fraction(1))]
    assert min(draws) > 2**120
    assert gcd(*draws[:4]) < 1_000
    assert gcd(*draws[4:]) < 1_000


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: laplace_share(rng, Fraction(0), 1, 1),
        lambda rng: laplace_share(rng, Fraction(2) ** 201, 1, 1),
        lambda rng: laplace_share(rng, Fraction(1), 0, 1),
        lambda rng: laplace_share(rng, Fraction(1), 2**20 + 1, 1),
        lambda _: laplace_share_tail_bound(Fraction(1), 0),
        lambda rng: l2_laplace_share(rng, Fraction(0), 1, 2, Fraction(1)),
        lambda rng: l2_laplace_share(rng, Fraction(1), 0, 2, Fraction(1)),
        lambda rng: l2_laplace_share(rng, Fraction(1), 1, 0, Fraction(1)),
        lambda rng: l2_laplace_share(rng, Fraction(1), 1, 2, Fraction(2) ** 151),
        lambda _: l2_share_tail_bound(Fraction(-1), 2, Fraction(1)),
        lambda rng: grid_l2_laplace(rng, Fraction(0), 2),
        lambda rng: grid_l2_laplace(rng, Fraction(1), 21),
        lambda rng: grid_l2_laplace(rng, Fraction(1), 0),
    ],
)
def test_beyond_what_is_worked_out_nothing_is_drawn(call: object) -> None:
    assert callable(call)
    with pytest.raises(LocalProtocolError):
        call(SystemRng())


def test_shares_are_cheap() -> None:
    assert calls(lambda: laplace_share(SimulationRng(1), FINE, 3, 123)) < 20_000  # some 12,500, as they draw
    assert (
        calls(lambda: l2_laplace_share(SimulationRng(1), Fraction(37, 10), 3, 123, Fraction(2**40))) < 20_000
    )  # some 13,500

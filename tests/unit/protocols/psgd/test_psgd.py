"""psgd is gradient descent, its noise is the paper's, and a replay repeats it to the byte."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.rng import Rng
from masquerade_core.seat import Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Entry, Table, replay
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_lab.baselines.gop import gop_minimiser
from masquerade_protocols import protocol_of
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.descent import count_layout
from masquerade_protocols.blocks.noise_shares import kept, to_keep
from masquerade_protocols.blocks.paillier_sum import as_packing
from masquerade_protocols.in_memory import roles_of, run_in_memory
from masquerade_protocols.psgd import roles as psgd
from masquerade_protocols.psgd import schedule
from masquerade_protocols.psgd import schedule as psgd_schedule
from tests.messages import raises
from tests.paper_data import simulated, split
from tests.protocol_helpers import SMALL_BITS, make_data
from tests.sum_helpers import EVEN_OR_SKEWED, Descent, descend, descent_study, drawn, draws, sent

F = 1 << psgd_schedule.FRACTION_BITS

_Array = NDArray[np.float64]

VARIANTS = {
    "psgd": psgd_schedule.psgd,
    "noisy-gradient": psgd_schedule.noisy,
    "decaying-budget": psgd_schedule.decaying,
}


# --- The same in the clear, written down a second time ----------------------------------------------


def _slope(loss: str, m: _Array) -> _Array:
    """Each phi' from its paper."""
    if loss == "logistic":
        return -np.exp(-np.logaddexp(0.0, m))
    h, v = 0.5, 1 - m
    inside = v**3 / (4 * h**3) - 3 * v / (4 * h) - 0.5
    return np.where(v > h, -1.0, np.where(v < -h, 0.0, inside))


CURVATURE = {"logistic": 0.25, "smoothed-hinge": 1.5}


def _slack(study: Study, N: int) -> tuple[float, float]:
    """Procedure 2, in floats: Delta and eps~."""
    eps, lam, c = study.privacy.epsilon, study.model.regularization, CURVATURE[study.model.loss]
    left = eps - 2 * math.log(1 + c / (N * lam))
    return (0.0, left) if left > 0 else (c / (N * (math.exp(eps / 4) - 1)) - lam, eps / 2)


def _in_the_clear(
    study: Study,
    data: Mapping[str, Dataset],
    T: int,
    noise: Callable[[int], _Array] = lambda _t: np.zeros(1),
    *,
    Delta: float | None = None,
    steps: float | None = None,
) -> _Array:
    """Gradient descent on the pooled records, with the steps that the program chooses, and noise in the sum."""
    X = np.vstack([data[name].X for name in study.names])
    y = np.concatenate([data[name].y for name in study.names])
    N, lam = len(y), study.model.regularization
    mu = lam + (_slack(study, N)[0] if Delta is None else Delta)
    a = 1 / mu if steps is None else steps
    t0 = a * max(1.0, CURVATURE[study.model.loss] + mu)
    w = np.zeros(study.d)
    for t in range(T):
        gradient = ((_slope(study.model.loss, y * (X @ w)) * y)[:, None] * X).sum(axis=0) + noise(t)
        w = w - a / (t0 + t) * (gradient / N + mu * w)
    return w


def _no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    _no_eta(monkeypatch)
    _no_rho(monkeypatch)


def _unit(study: Study, N: int, variant: str = "psgd") -> int:
    """Return how many units of the grid make 1."""
    return 1 << psgd_schedule.fraction_bits(study, VARIANTS[variant](study, N), N)


def _no_eta(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psgd, "gaussian", lambda _rng, _sigma, d, _unit: [0] * d)


def _no_rho(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psgd, "l2_laplace", lambda _rng, _beta, d, _unit, _tv_bits: [0] * d)


def _watched(monkeypatch: pytest.MonkeyPatch) -> tuple[list[_Array], list[_Array]]:
    """Note all noise in the order in which it is drawn: one party after the other."""
    etas: list[_Array] = []
    rhos: list[_Array] = []

    def noted_eta(*args: Any) -> list[int]:
        values = gaussian(*args)
        etas.append(np.array([v / float(args[-1]) for v in values]))
        return values

    def noted_rho(*args: Any) -> list[int]:
        values = l2_laplace(*args)
        rhos.append(np.array([v / float(args[3]) for v in values]))
        return values

    monkeypatch.setattr(psgd, "gaussian", noted_eta)
    monkeypatch.setattr(psgd, "l2_laplace", noted_rho)
    return etas, rhos


# --- Right -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("K", "skewed", "loss", "rounds"),
    [
        (2, 0, "logistic", 40),
        (2, 1, "smoothed-hinge", 200),
        (5, 0, "smoothed-hinge", 40),
        (5, 1, "logistic", 40),
        (10, 1, "logistic", 40),
    ],
)
def test_without_noise_the_rounds_are_gradient_descent_on_the_pooled_records(
    K: int, skewed: int, loss: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What rounding leaves behind shows in many rounds, and nothing else needs them: two parties play so many."""
    _no_noise(monkeypatch)
    study = descent_study(K=K, d=10, loss=loss, section=f"rounds = {rounds}")
    data = split(simulated(0)[0], study, EVEN_OR_SKEWED[K][skewed])
    r = descend(study, data)
    assert len({model.weights for model in r.results.values()}) == 1
    np.testing.assert_allclose(r.w, _in_the_clear(study, data, rounds), rtol=0, atol=1e-6)
    assert np.linalg.norm(r.w - _in_the_clear(study, data, rounds - 1)) > 1e-6  # the test can fail: a round less
    assert _opened_size(r) == 1000


def _opened_size(r: Descent) -> int:
    (N,) = as_packing(count_layout(r.study)).unpack(
        [int.from_bytes(sent(r.table, r.study.lead, ss.RoundSum)[0].sums, "big")],
        int.from_bytes(sent(r.table, r.study.lead, ss.SumKey)[0].modulus, "big"),
        contributors=r.study.K,
    )
    return N


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_where_curvature_has_to_be_bought_it_is_in_every_step(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _no_noise(monkeypatch)
    study = descent_study(K=3, d=4, loss=loss, epsilon=0.004, section="rounds = 50")
    data = make_data(study, (200, 300, 500))
    Delta, _ = _slack(study, 1000)
    assert Delta > 0.1
    w = descend(study, data).w
    np.testing.assert_allclose(w, _in_the_clear(study, data, 50), rtol=0, atol=1e-6)
    assert np.linalg.norm(w - _in_the_clear(study, data, 50, Delta=0.0)) > 1e-3


def test_a_single_record_at_a_party_and_many_at_another_are_one_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    _no_noise(monkeypatch)
    study = descent_study(K=2, d=3, section="rounds = 20")
    records = make_data(study, (2, 999))
    data = {"p0": Dataset(records["p0"].X[:1], records["p0"].y[:1]), "p1": records["p1"]}
    r = descend(study, data)
    assert _opened_size(r) == 1000
    np.testing.assert_allclose(r.w, _in_the_clear(study, data, 20), rtol=0, atol=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
@pytest.mark.parametrize(("epsilon", "rounds"), [(0.2, 120), (0.004, 50)])
def test_with_eta_alone_descent_ends_where_gop_does(
    loss: str, epsilon: float, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same realised eta in every round: Theorem 4.2's equivalence of Algorithms 1 and 4.

    So many rounds end within a tenth of the tolerance.
    """
    _no_rho(monkeypatch)
    planted = np.linspace(-40, 60, 10)

    def plant(_rng: Rng, _sigma: Fraction, d: int, unit: Fraction) -> list[int]:
        return [round(v / 2 * unit) for v in planted[:d].tolist()]

    monkeypatch.setattr(psgd, "gaussian", plant)
    shape = partial(descent_study, K=2, d=10, loss=loss, epsilon=epsilon)
    mu = shape().model.regularization + _slack(shape(), 1000)[0]
    study = shape(section=f"rounds = {rounds}\na = {20 / mu}")
    train, _ = simulated(1)
    w = descend(study, split(train, study, (0.3, 0.7))).w
    goal = gop_minimiser(study, train, planted)
    assert np.linalg.norm(w - goal) <= 1e-3
    assert np.linalg.norm(gop_minimiser(study, train, np.zeros(10)) - goal) > 1e-2  # the noise is felt


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_the_clear_computation_with_the_noise_that_was_drawn(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    K, T = 3, 25
    study = descent_study(variant, K=K, d=6, section=f"rounds = {T}")
    protocol_of(study)
    data = make_data(study, (30, 50, 40))
    etas, rhos = _watched(monkeypatch)
    r = descend(study, data, VARIANTS[variant])
    assert (len(etas), len(rhos)) == (K if variant == "psgd" else 0, K * T)

    def noise(t: int) -> _Array:
        total: _Array = np.sum([*etas, *rhos[t::T]], axis=0)
        return total

    w = _in_the_clear(study, data, T, noise, Delta=None if variant == "psgd" else 0.0)
    scale = max(1.0, float(np.abs(w).max()))
    np.testing.assert_allclose(r.w / scale, w / scale, rtol=0, atol=1e-6)
    assert len({model.weights for model in r.results.values()}) == 1
    # The test can fail: the noise of one party in one round is missed.
    rhos[T + 3][:] = 0
    assert np.abs(_in_the_clear(study, data, T, noise, Delta=None if variant == "psgd" else 0.0) - w).max() > 1e-4


# --- The noise is the noise ------------------------------------------------------------------------


def _contributed(study: Study, variant: psgd_schedule.Variant, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Return each party's contributions after N, where gradients are 0: nothing but noise, in grid units."""
    seen: dict[str, list[Any]] = {name: [] for name in study.names}
    open_sum = ss.PaillierPartySums.open_sum

    async def watched(
        self: ss.PaillierPartySums, layout: Any, vector: Sequence[int], bound_to: bytes, *again: Any
    ) -> Any:
        seen[self.seat.me].append(tuple(vector))
        return await open_sum(self, layout, vector, bound_to, *again)

    with monkeypatch.context() as patch:
        patch.setattr(ss.PaillierPartySums, "open_sum", watched)
        patch.setattr(psgd, "_gradient", lambda study, _data, _w, _rng, **_public: (0,) * study.d)
        descend(study, make_data(study, (250,) * study.K), variant)
    return {name: vectors[1:] for name, vectors in seen.items()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_rho_has_a_gamma_norm_and_any_direction(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    K, d = 4, 5
    T = 40 if variant == "decaying-budget" else 200
    # At 0.004 computeSlack leaves half of epsilon, so that a beta from the wrong one is off by 2.
    epsilon = 0.004 if variant == "psgd" else 0.2
    study = descent_study(variant, K=K, d=d, epsilon=epsilon, section=f"rounds = {T}")
    _no_eta(monkeypatch)
    vectors = _contributed(study, VARIANTS[variant], monkeypatch)
    if variant == "psgd":
        _, epsilon = _slack(study, 1000)
    unit = _unit(study, 1000, variant)
    beta = [epsilon / 2 / (2.0 ** (t + 1) if variant == "decaying-budget" else 1) for t in range(T)]
    rho = np.array([[beta[t] * v / unit for v in x] for xs in vectors.values() for t, x in enumerate(xs)])
    assert rho.shape == (K * T, d)

    norms = np.linalg.norm(rho, axis=1)
    assert stats.kstest(norms, stats.gamma(d).cdf).pvalue > 1e-6
    # The mean of n norms is a Gamma variate of n d over n: sharper than the empirical law for a scale.
    total = stats.gamma(d * len(norms))
    assert 1e-6 < total.cdf(norms.sum()) < 1 - 1e-6
    for off in (0.7, 1.3):
        assert not 1e-6 < total.cdf(off * norms.sum()) < 1 - 1e-6
    directions = rho / norms[:, None]
    for i in range(d):
        assert stats.kstest(directions[:, i] ** 2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > 1e-6
    resultant = d * len(norms) * float((directions.mean(axis=0) ** 2).sum())  # Rayleigh
    assert stats.chi2(d).sf(resultant) > 1e-6
    # The test of direction can fail: independent Laplace coordinates have corners.
    corners = np.random.default_rng(1).laplace(size=(4_000, d))
    corners /= np.linalg.norm(corners, axis=1)[:, None]
    assert stats.kstest(corners[:, 0] ** 2, stats.beta(0.5, (d - 1) / 2).cdf).pvalue < 1e-6


@pytest.mark.parametrize(("K", "epsilon"), [(2, 0.2), (5, 0.004)])
def test_eta_is_gaussian_with_a_kth_of_the_variance(K: int, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    d = 2000 // K
    study = descent_study(K=K, d=d, epsilon=epsilon, section="rounds = 1")
    _no_rho(monkeypatch)
    vectors = _contributed(study, psgd_schedule.psgd, monkeypatch)
    _, epsilon = _slack(study, 250 * K)
    q = math.sqrt(stats.chi2(d).ppf(1 - study.privacy.delta))
    sigma = (q + math.sqrt(q * q + 2 * epsilon)) / epsilon
    eta = np.array([[v / _unit(study, 250 * K) for v in xs[0]] for xs in vectors.values()])
    unit = eta.ravel() / (sigma / math.sqrt(K))
    assert stats.kstest(unit, stats.norm.cdf).pvalue > 1e-6
    law = stats.chi2(unit.size)
    for factor, ends in ((1.0, True), (0.7, False), (1.3, False), (math.sqrt(K), False)):  # the last: no sqrt(K)
        assert (1e-6 < law.cdf(factor**2 * (unit**2).sum()) < 1 - 1e-6) == ends
    # What the sum of all has is sigma* itself.
    whole = eta.sum(axis=0) / sigma
    assert 1e-6 < stats.chi2(d).cdf((whole**2).sum()) < 1 - 1e-6


def test_eta_is_the_same_in_all_rounds_and_rho_in_none(monkeypatch: pytest.MonkeyPatch) -> None:
    study = descent_study(K=3, d=4, section="rounds = 30")
    etas, rhos = _watched(monkeypatch)
    vectors = _contributed(study, psgd_schedule.psgd, monkeypatch)
    assert len(etas) == 3
    assert len({tuple(rho) for rho in rhos}) == 3 * 30
    for k, name in enumerate(study.names):
        assert len(set(vectors[name])) == 30
        for t, x in enumerate(vectors[name]):
            left = np.array([v / _unit(study, 750) for v in x]) - rhos[30 * k + t]
            np.testing.assert_allclose(left, etas[k], rtol=0, atol=1e-6)


def test_a_gradient_leaves_its_party_under_noise_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test can fail: without noise, the contribution is the gradient."""
    study = descent_study(K=2, d=4, section="rounds = 2")
    data = make_data(study, (50, 60))
    seen: dict[tuple[str, int], Any] = {}
    open_sum = ss.PaillierPartySums.open_sum

    async def watched(
        self: ss.PaillierPartySums, layout: Any, vector: Sequence[int], bound_to: bytes, *again: Any
    ) -> Any:
        seen[self.seat.me, self._round] = tuple(vector)
        return await open_sum(self, layout, vector, bound_to, *again)

    def bare() -> list[bool]:
        r = descend(study, data)
        return [
            seen[name, t + 1] == tuple(kept(drawn(r.table, name, f"gradient {t}")))
            for name in study.names
            for t in range(2)
        ]

    monkeypatch.setattr(ss.PaillierPartySums, "open_sum", watched)
    assert not any(bare())
    _no_noise(monkeypatch)
    assert all(bare())


# --- Private in form -------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_form_of_the_traffic_depends_on_public_numbers(variant: str) -> None:
    study = descent_study(variant, K=3, d=5, section="rounds = 4")
    forms = {
        tuple(descend(study, make_data(study, sizes, seed), VARIANTS[variant]).table.passed)
        for seed, sizes in enumerate([(10, 20, 30), (20, 20, 20), (50, 5, 5), (10, 20, 30)])
    }
    assert len(forms) == 1
    more = descent_study(variant, K=3, d=40, section="rounds = 4")
    assert tuple(descend(more, make_data(more, (10, 20, 30)), VARIANTS[variant]).table.passed) not in forms


def test_the_layout_is_wide_enough_for_the_longest_gradients() -> None:
    """All records are the same, and their gradients as long as can be: the sum is N L in one coordinate, and opens."""
    study = descent_study(K=2, d=1, Lambda=1e-6, section="rounds = 1\na = 1.0\nt0 = 10.0")
    N = 2000
    data = {name: Dataset(np.ones((N // 2, 1)), -np.ones(N // 2)) for name in study.names}
    quiet = psgd_schedule.Schedule(Fraction(0), lambda _: Fraction(10**30), Fraction(0))
    bound = psgd_schedule.layout(study, quiet, N, 0).bound
    assert N * F + study.K / 2 <= bound <= N * F + 3 * study.K  # half a unit of rounding and noise of one unit a party
    assert psgd_schedule.layout(study, psgd_schedule.psgd(study, N), N, 0).bound > bound
    for machine in (True, False):
        encoded = psgd._encode_gradient(np.array([1e9]), N, Fraction(1), psgd_schedule.FRACTION_BITS, machine=machine)
        assert encoded.tolist() == [N * F]
    assert descend(study, data).w.shape == (1,)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("bits", [512, 2048])
def test_the_grid_is_fine_enough_and_as_fine_as_its_plaintexts_allow(variant: str, bits: int) -> None:
    for K, d, N in ((2, 1, 2), (5, 123, 1_000), (5, 123, 20_000), (7, 40, 10**6), (3, 300, 10**9)):
        study = _study(variant, K=K, d=d, bits=bits)
        schedule = VARIANTS[variant](study, N)
        bits_of_grid = psgd_schedule.fraction_bits(study, schedule, N)
        # K parties round their part of a sum by half a unit each; the mean gradient is an N-th of it.
        assert K / 2 / 2**bits_of_grid / N <= 2**-26
        assert 12 <= bits_of_grid <= psgd_schedule.FRACTION_BITS
        slots = psgd_schedule.layout(study, schedule, N, 0)
        if bits_of_grid < psgd_schedule.FRACTION_BITS:
            finer = psgd_schedule._slots(study, schedule, N, 0, bits_of_grid + 1)
            assert not finer.fits or finer.count > slots.count


def test_a_gradient_of_123_coordinates_takes_two_plaintexts() -> None:
    study = _study(K=5, d=123, bits=2048)
    for N, count in ((20_000, 2), (200, 3)):
        assert psgd_schedule.layout(study, psgd_schedule.psgd(study, N), N, 0).count == count


def test_noise_on_a_coarser_grid_is_within_its_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw at its bound on the finest grid, every gradient at its longest: the sum still opens."""
    study = _study(K=5, d=123, bits=2048)
    schedule, N = psgd_schedule.psgd(study, 20_000), 20_000
    bits = psgd_schedule.fraction_bits(study, schedule, N)
    most = psgd_schedule._largest_noise(schedule.beta(0), schedule.sigma, study.K, study.d)
    for eta in (0, 1, most // 3, most):  # however it is shared between eta and rho
        both = sum(round(Fraction(2 * part + 1, 2) / 2 ** (28 - bits)) for part in (eta, most - eta))
        assert N * 2**bits + study.K * both <= psgd_schedule.layout(study, schedule, N, 0).bound


def test_a_gradient_is_rounded_to_the_grid_and_clipped_to_its_bound() -> None:
    rng = np.random.default_rng(3)
    for norm in (0.0, 1e-12, 0.3, 6.9, 7.0, 7.1, 1e6):
        g = rng.normal(size=8)
        g *= norm / np.linalg.norm(g)
        back = psgd._encode_gradient(g, 7, Fraction(1), psgd_schedule.FRACTION_BITS, machine=True) / F
        np.testing.assert_allclose(back, g * min(1.0, 7 / norm) if norm else g, rtol=0, atol=0.5001 / F)


# --- Replayable ------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_role_replays_byte_for_byte(variant: str) -> None:
    study = descent_study(variant, K=3, d=5, section="rounds = 6")
    data = make_data(study, (12, 13, 14))
    r = descend(study, data, VARIANTS[variant])
    for name, role in roles_of(psgd, r.table, study, data, variant=VARIANTS[variant]).items():
        journal = r.table.journal(name)
        again = replay(role, journal)
        assert again.result == r.results[name]
        assert again.sent == tuple(e.effect for e in journal if isinstance(e.effect, Send))


@pytest.mark.parametrize("label", ["eta", "rho", "gradient 3", "obfuscators from round 1"])
def test_a_replay_notices_a_changed_draw(label: str) -> None:
    study = descent_study(K=2, d=5, section="rounds = 6")
    data = make_data(study, (12, 13))
    r = descend(study, data)
    other = descend(study, data)

    def entry(run: Descent) -> Entry:
        (found,) = (e for e in run.table.journal("p1") if getattr(e.effect, "label", "") == label)
        return found

    value = entry(other).answer
    if label.startswith("gradient"):
        first, *others = kept(unpack_plain(entry(r).answer)).tolist()
        value = pack_plain(to_keep(np.array([first + 1, *others])))
    changed = [Entry(e.effect, value) if e == entry(r) else e for e in r.table.journal("p1")]
    with raises(LocalProtocolError, "replay_differs", ..., ..., ...):
        replay(psgd.party(r.table.seat("p1"), study, data["p1"]), changed)


def test_two_runs_share_no_randomness_and_seeded_ones_share_all() -> None:
    study = descent_study(K=3, d=5, section="rounds = 4")
    data = make_data(study, (12, 13, 14))

    def everything(seed: int | None) -> tuple[set[Any], tuple[float, ...]]:
        rngs = None if seed is None else {name: SimulationRng(seed, name) for name in (*study.names, CHARLIE)}
        r = descend(study, data, rngs=rngs)
        numbers: set[Any] = set()
        for name in study.names:
            for label, value in draws(r.table, name).items():
                if not label.startswith(("sum ", "gradient ", "proof ")):  # what is computed, and drawn by nobody
                    numbers |= _flat(value)
        return numbers, r.results[CHARLIE].weights

    (a, v), (b, w), (c, x), (d, y), (e, z) = (everything(seed) for seed in (None, None, 1, 1, 2))
    assert len(a) > 3 * (5 + 20 + 5)
    assert not a & b
    assert not c & e
    assert c == d
    assert x == y
    assert len({v, w, x, z}) == 4


def _flat(value: Any) -> set[Any]:
    return set().union(*(_flat(v) for v in value)) if isinstance(value, tuple) else {value}


def test_progress_is_the_iterate_at_charlie_and_the_budget_is_debited_once_before_the_rounds() -> None:
    study = descent_study(K=2, d=3, section="rounds = 5")
    r = descend(study, make_data(study, (20, 30)))
    charlies = [p for name, p in r.table.progress if name == CHARLIE]
    assert [(p.done, p.total) for p in charlies] == [(t + 1, 5) for t in range(5)]
    assert charlies[-1].iterate == r.results[CHARLIE].weights
    assert len({p.iterate for p in charlies}) == 5
    assert [name for name, _ in r.table.releases] == ["p0", "p1"]
    assert {(x.epsilon, x.delta) for _, x in r.table.releases} == {(study.privacy.epsilon, study.privacy.delta)}


# --- Bad input ---------------------------------------------------------------------------------------


def _study(variant: str = "psgd", section: str = "rounds = 10", bits: int = SMALL_BITS, **kw: Any) -> Study:
    text = descent_study(variant, section=section, **{"K": 3, "d": 5, **kw}).to_toml()
    assert text.count(f"key_bits = {SMALL_BITS}") == 1
    return Study.parse(text.replace(f"key_bits = {SMALL_BITS}", f"key_bits = {bits}"), in_memory=True)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("rounds = 0", ("key_out_of_range", "[protocol] rounds", 0, "at least", 1)),
        ("rounds = -1", ("key_out_of_range", "[protocol] rounds", -1, "at least", 1)),
        ("rounds = 2.5", ("key_of_another_kind", "[protocol] rounds", "2.5", "a whole number")),
        ("rounds = 100001", ("key_out_of_range", "[protocol] rounds", 100001, "at most", 100000)),
        ("a = 0.0", ("key_out_of_range", "[protocol] a", "0.0", "greater than", 0)),
        ("a = -1.0", ("key_out_of_range", "[protocol] a", "-1.0", "greater than", 0)),
        ("t0 = 0.0", ("key_out_of_range", "[protocol] t0", "0.0", "greater than", 0)),
        ("a = inf", ("section_holds_only",)),
        ("a = 20.0\nt0 = 1.0", ("first_step_diverges", ..., ...)),
        ("round = 3", ("did_you_mean", "rounds")),
    ],
)
def test_a_section_that_cannot_work_is_refused(variant: str, section: str, said: tuple[Any, ...]) -> None:
    with raises(BadInput, *said):
        protocol_of(_study(variant, section))


def test_without_a_delta_psgd_is_refused_and_the_others_are_not() -> None:
    with raises(BadInput, "delta_not_in_range", "0"):
        psgd.check(_study(delta=0.0))
    psgd.check(_study("noisy-gradient", delta=0.0), psgd_schedule.noisy)


def test_steps_that_diverge_for_some_number_of_records_are_refused() -> None:
    """With few records Delta flattens the steps; with many, the same t0 would begin with steps of 333."""
    study = _study(section="rounds = 3\nt0 = 3.0", Lambda=0.001)
    psgd.Descent(study, 30, psgd_schedule.psgd)
    with raises(BadInput, "first_step_diverges", ..., ...):
        psgd.Descent(study, 10**6, psgd_schedule.psgd)
    with raises(BadInput, "first_step_diverges", ..., ...):
        psgd.check(study)


@pytest.mark.parametrize(
    ("variant", "kw", "said"),
    [
        ("psgd", {"epsilon": 1e-150}, ("epsilon_too_small", ...)),
        ("psgd", {"epsilon": 1e-13}, ("epsilon_too_small", ...)),
        ("noisy-gradient", {"epsilon": 1e-150}, ("no_room_for_slot", "the sum of round 0", ..., ...)),
        ("noisy-gradient", {"epsilon": 1e-140, "bits": 2048}, ("no_float_holds", ..., ..., 500)),
        ("decaying-budget", {"section": "rounds = 440"}, ("no_room_for_slot", "the sum of round 439", ..., ...)),
        ("decaying-budget", {"section": "rounds = 1500", "bits": 2048}, ("no_float_holds", ..., ..., 500)),
    ],
)
def test_noise_that_nothing_holds_is_refused(variant: str, kw: dict[str, Any], said: tuple[Any, ...]) -> None:
    with raises(BadInput, *said):
        protocol_of(_study(variant, **kw))


def test_slots_that_are_too_wide_are_refused_in_whole_sentences() -> None:
    """An error has the value seen, the allowed one and a remedy; it names a longer key only where that helps."""
    with pytest.raises(BadInput) as caught:
        protocol_of(_study("noisy-gradient", epsilon=1e-150))
    assert caught.value.message == (
        "the sum of round 0 needs slots of 530 bits, but a key of 512 bits has no room for such a slot"
    )
    assert caught.value.hint == "ask for fewer rounds, a larger epsilon or a longer key"
    with pytest.raises(BadInput) as caught:
        protocol_of(_study("noisy-gradient", epsilon=1e-140, bits=2048))
    assert caught.value.message == (
        "the sum of round 0 needs slots of 503 bits, but at most 500 are allowed: no float holds the classifier that "
        "would follow"
    )
    assert caught.value.hint == "ask for fewer rounds or a larger epsilon"


@pytest.mark.parametrize("bits", [512, 1024])
@pytest.mark.parametrize("variant", ["noisy-gradient", "decaying-budget"])
def test_what_the_check_lets_pass_has_a_layout_for_every_number_of_records(variant: str, bits: int) -> None:
    """Epsilons on both sides of the smallest one that the check lets pass."""
    K, schedule = 3, VARIANTS[variant]
    let_pass = 0
    for exponent in range(118, 152, 2):
        study = _study(variant, bits=bits, epsilon=float(f"1e-{exponent}"))
        try:
            psgd.check(study, schedule)
        except BadInput:
            continue
        let_pass += 1
        for N in (K, 30, 10**6, K * study.max_records):
            for t in (0, 9):
                psgd_schedule.layout(study, schedule(study, N), N, t)
    assert 0 < let_pass < 17


def test_the_longest_decaying_budget_stays_within_floats() -> None:
    study = _study("decaying-budget", "rounds = 400", bits=1024, K=2)
    protocol_of(study)
    table = Table(study.names)
    data = make_data(study, (20, 30))
    w = np.array(run_in_memory(psgd, study, data, table=table, variant=schedule.decaying)[CHARLIE].weights)
    assert np.isfinite(w @ w)
    assert np.abs(w).max() > 2.0**200

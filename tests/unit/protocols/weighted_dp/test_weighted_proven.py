"""Weighted DP with proven noise: each local descent alone keeps the privacy target, and nothing else has changed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from numpy.typing import NDArray
from scipy import stats

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.privacy.noise.local_descent import MOST_ROUNDED_RECORDS, ROUNDING, local_descent_noise
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian, discrete_gaussian_tail_bound
from masquerade_core.rng import Rng
from masquerade_core.seat import Join, Once
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study, check_section
from masquerade_core.table import replay
from masquerade_protocols import registry
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.weighted_dp import public
from masquerade_protocols.weighted_dp import roles as wd
from masquerade_protocols.weighted_dp.entry import WEIGHTED_DP
from tests.local_descent_helpers import averaged, descended, local_descent_study, run_local_descents
from tests.messages import raises, says
from tests.protocol_helpers import make_data

F = 1 << local_descent.FRACTION_BITS

_Array = NDArray[np.float64]

GATE = {0.01: 5939, 0.05: 1898, 0.1: 1101, 0.25: 520}
"""2 G sqrt(T)/mu for G = 1, T = 1000, delta = 1e-3: sd of the noise on a coordinate of a sum of gradients."""


def _study(section: str = "rounds = 30", K: int = 3, d: int = 4, **kw: Any) -> Study:
    return local_descent_study(section, K, d, proven=True, **kw)


# --- Right -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "sigmoid"])
@pytest.mark.parametrize("sizes", [(3, 197), (11, 50, 24, 75, 40)])
def test_without_noise_it_is_still_the_average_by_size_of_local_descents(
    sizes: tuple[int, ...], loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_descent, "discrete_gaussian", lambda _rng, _sigma, size: [0] * size)
    study = _study("rounds = 40", K=len(sizes), loss=loss, Lambda=0.0)
    public.check(study)
    data = make_data(study, sizes)
    r = run_local_descents(study, data)
    assert len({model.weights for model in r.results.values()}) == 1
    expected = averaged(study, data, 40)
    np.testing.assert_allclose(r.w, expected, rtol=0, atol=2.0**-20)
    assert np.abs(averaged(study, data, 39) - expected).max() > 2.0**-12


def test_with_noise_it_is_the_descent_with_the_noise_that_was_drawn_for_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    study, seen = _study(), []

    def noted(rng: Rng, sigma: Fraction, size: int) -> list[int]:
        assert sigma == public.noise_of(study).share
        seen.append(discrete_gaussian(rng, sigma, size))
        return seen[-1]

    monkeypatch.setattr(local_descent, "discrete_gaussian", noted)
    monkeypatch.setattr(local_descent, "_NORMALS", 28)  # seven rounds of four coordinates at a time
    sizes = (20, 100, 40)
    data = make_data(study, sizes)
    r = run_local_descents(study, data)
    assert len(seen) == 3 * local_descent.draws(30, 4) == 15
    flat = [v for draw in seen for v in draw]
    assert len(flat) == len(set(flat))
    descents = [
        descended(study, data[name], 30, noise=np.concatenate(seen[5 * j : 5 * j + 5]).reshape(30, 4) / F / sizes[j])
        for j, name in enumerate(study.names)
    ]
    np.testing.assert_allclose(r.w, np.average(descents, axis=0, weights=sizes), rtol=0, atol=2.0**-20)


def test_a_party_descends_before_it_joins_and_repeats_from_its_journal() -> None:
    study = _study("rounds = 5")
    data = make_data(study, (20, 30, 40))
    r = run_local_descents(study, data)
    for name in study.names:
        effects = [entry.effect for entry in r.table.journal(name)]
        (descent,) = (i for i, e in enumerate(effects) if isinstance(e, Once) and e.label == "local descent")
        (join,) = (i for i, e in enumerate(effects) if isinstance(e, Join))
        assert descent < join
        again = replay(wd.party(r.table.seat(name), study, data[name]), r.table.journal(name))
        assert again.result == r.results[name]
    assert replay(wd.charlie(r.table.seat(CHARLIE), study), r.table.journal(CHARLIE)).result == r.results[CHARLIE]
    assert [stage for who, stage in r.table.stages if who == "p1"] == ["training", "keys", "sum"]


def test_the_layout_holds_the_longest_descent_of_uneven_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    study, sizes = _study("rounds = 20", K=5, d=1, Lambda=0.0), (50, 3, 4, 5, 6)
    data = {name: Dataset(np.ones((n, 1)), np.ones(n)) for name, n in zip(study.names, sizes, strict=True)}
    reach = discrete_gaussian_tail_bound(public.noise_of(study).share, 20)
    for factor in (1, 1000):  # the second: noise beyond its bound is cut off, and the run goes on
        far = -factor * reach
        monkeypatch.setattr(local_descent, "discrete_gaussian", lambda _rng, _s, size, far=far: [far] * size)
        noise = {name: np.full((20, 1), far / F / len(part.y)) for name, part in data.items()}
        descents = [descended(study, part, 20, noise=noise[name]) for name, part in data.items()]
        whole = np.average(descents, axis=0, weights=sizes)
        assert (run_local_descents(study, data).w == pytest.approx(whole, rel=1e-9)) == (factor == 1)


# --- One record moves a sum by Delta at most -------------------------------------------------------


def _sum_on_the_grid(study: Study, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The integers of one step, before noise: theta_1 = -eta sum/(n 2^F)."""
    with monkeypatch.context() as patch:
        patch.setattr(local_descent, "discrete_gaussian", lambda _rng, _s, size: [0] * size)
        theta = local_descent.local_descent(study, 1, 1.0, Fraction(1), data, SimulationRng(1))
    return [round(Fraction(v) * len(data.y) * F) for v in (-theta).tolist()]


@pytest.mark.parametrize("others", [0, 5000, MOST_ROUNDED_RECORDS - 1])
def test_a_replaced_record_moves_a_sum_by_less_than_delta_and_some_come_close(
    others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    d = 3
    study, rng = _study("rounds = 1", d=d, Lambda=0.0), np.random.default_rng(4)
    X = rng.normal(size=(others, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Delta = public.noise_of(study).Delta
    furthest = 0
    for _ in range(3):
        x = rng.normal(size=d)
        x /= np.linalg.norm(x)
        sums = []
        for label in (1.0, -1.0):
            # At theta_0 = 0 a gradient is -y x/2: two copies of the record are as long as one can be.
            pair = Dataset(np.vstack([X, x, x]), np.concatenate([np.ones(others), [label, label]]))
            sums.append(_sum_on_the_grid(study, pair, monkeypatch))
        furthest = max(furthest, sum((a - b) ** 2 for a, b in zip(*sums, strict=True)))
    assert furthest <= Delta**2
    assert furthest > (Fraction(999, 1000) * Delta) ** 2


# --- The noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", GATE)
def test_the_noise_on_a_sum_is_that_of_two_gradients_in_t_rounds(epsilon: float) -> None:
    study = _study("rounds = 1000", d=10, epsilon=epsilon)
    noise = public.noise_of(study)
    assert float(noise.share / (1 + ROUNDING)) / F == pytest.approx(GATE[epsilon], abs=0.51)
    for n in (1, 200, 45_222):
        assert public.plan(study, n).sigma_at(n) * n * F == noise.share
    # The slip of G for 2 G, which no error rate shows.
    half = local_descent_noise(G=Fraction(1, 2), d=10, rounds=1000, epsilon=epsilon, delta=1e-3, fraction_bits=28)
    assert epsilon_of(float(noise.Delta / half.share) * math.sqrt(1000), 1e-3) > 1.9 * epsilon


def test_no_more_noise_than_the_loss_s_longest_gradient_needs() -> None:
    short, long = (public.noise_of(_study(loss=loss)) for loss in ("sigmoid", "logistic"))
    assert float(long.share / short.share) == pytest.approx(4, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta", "T"), [(0.1, 1e-3, 1000), (1.0, 1e-5, 100), (0.25, 1e-3, 1000)])
def test_an_independent_accountant_agrees_to_four_digits(epsilon: float, delta: float, T: int) -> None:
    noise = local_descent_noise(G=Fraction(1), d=10, rounds=T, epsilon=epsilon, delta=delta, fraction_bits=28)
    # The multiplier is that of replace-one, stated as 2 G; the relation of the oracle is therefore its own default.
    event = GaussianDpEvent(noise_multiplier=float(noise.share / noise.Delta))
    oracle = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-5)
    oracle.compose(SelfComposedDpEvent(event, T))
    assert oracle.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-4)


def test_a_step_s_noise_has_the_law_that_the_proof_asks_for_and_30_per_cent_more_or_less_is_not() -> None:
    d, n, epsilon = 3000, 17, 0.1
    study = _study("rounds = 1000", d=d, epsilon=epsilon)
    plan, data = public.plan(study, 900), Dataset(np.zeros((n, d)), np.ones(n))
    theta = local_descent.local_descent(study, 1, float(plan.eta), plan.sigma_at(n), data, SimulationRng(3, "law"))
    unit = -theta / 0.5 * n / GATE[epsilon]
    assert stats.kstest(unit, stats.norm.cdf).pvalue > 1e-6
    law = stats.chi2(d)
    for factor, ends in ((1.0, True), (0.7, False), (1.3, False)):
        assert (1e-6 < law.cdf(factor**2 * float(unit @ unit)) < 1 - 1e-6) == ends


@pytest.mark.parametrize("floor", [False, True])
def test_the_noise_in_the_model_does_not_tell_how_the_records_are_split(
    floor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the test can fail: noise sized for a floor of ten records does tell."""
    d, T = 600, 4
    study = _study(f"rounds = {T}", K=5, d=d, Lambda=0.0)
    share = public.noise_of(study).share
    if floor:
        monkeypatch.setattr(public.Plan, "sigma_at", lambda self, _n: self.sigma / 10)
    alike = []
    for sizes in ((40,) * 5, (10, 10, 10, 10, 160)):
        plan, total = public.plan(study, 200), np.zeros(d)
        for j, n in enumerate(sizes):
            part = Dataset(np.zeros((n, d)), np.ones(n))
            total += np.array(wd._contribution(study, plan, part, SimulationRng(5, f"{j} of {sizes}")), dtype=float)
        sd = 0.5 * math.sqrt(T * 5) * float(share)  # of the sum, on the grid
        alike.append(1e-6 < stats.chi2(d).cdf(float(total @ total) / sd**2) < 1 - 1e-6)
    assert all(alike) == (not floor)


# --- Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "kw", "said"),
    [
        ("c = 16.0", {}, ("c_given_in_vain", 16)),
        ('weights = "uniform"', {}, ("uniform_shows_smallest",)),
        ("smallest_part = 0.1", {}, ("smallest_part_in_vain", "0.1")),
        ("learning_rate = 8.0", {}, ("steps_diverge", ..., ...)),
        ("rounds = 3", {"delta": 0.0}, ("delta_not_in_range", 0)),
        ("rounds = 3", {"epsilon": 90.0}, ("epsilon_uses_up_delta", 90, "0.001", ...)),
        ("rounds = 3", {"epsilon": 1e-300, "delta": 1e-300}, ("delta_used_up", "1e-300", ...)),
    ],
)
def test_a_study_that_cannot_work_is_refused(section: str, kw: dict[str, Any], said: tuple[Any, ...]) -> None:
    study = _study(section, **kw)
    check_section(public.Parameters, study.protocol, "protocol")
    with raises(BadInput, *said):
        public.check(study)


def test_more_records_than_rounding_is_counted_for_are_refused() -> None:
    study = _study("rounds = 1", d=1)
    data = make_data(study, (10, 10, 10))
    n = MOST_ROUNDED_RECORDS + 1
    data["p1"] = Dataset(np.ones((n, 1)), np.ones(n))
    with raises(RefusedLocally, "more_than_rounding_counts", "1,048,576"):
        run_local_descents(study, data)


def test_the_new_study_s_section_is_one_that_works() -> None:
    study = _study(WEIGHTED_DP.proven_section)
    assert registry.protocol_of(study).name == WEIGHTED_DP.name
    assert registry.entry_named("weighted-dp").section_for("proven") == WEIGHTED_DP.proven_section


# --- What is said ------------------------------------------------------------------------------------


def test_every_view_is_promised_the_privacy_target() -> None:
    for colluders in (0, 3):
        text = _study(K=5, epsilon=1.0, delta=1e-6).to_toml().replace("colluders = 0", f"colluders = {colluders}")
        study = Study.parse(text, in_memory=True)
        rows = WEIGHTED_DP.statement(study)
        t = max(1, colluders)
        assert [row.view for row in rows[:-1]] == [
            "released model",
            "Charlie",
            "one party",
            f"Charlie with {t} {'party' if t == 1 else 'parties'}",
        ]
        for row in rows[:-1]:
            assert (row.epsilon, row.delta, row.provable) == (1.0, 1e-6, "epsilon = 1, delta = 1e-06")
            assert row.definition == "approximate"
            assert "docs/privacy/weighted-dp.md" in row.source
        assert rows[-1].unit == "party"
        # The fewest records are ten, so mu is ten times that of the target.
        assert rows[-1].epsilon == pytest.approx(epsilon_of(10 * mu_of(1.0, 1e-6), 1e-6), rel=1e-3)
        assert "Note delta" not in rows[0].text
    warned = WEIGHTED_DP.statement(_study(K=5, delta=0.05))[0].text
    assert says(warned, "delta_not_less", "0.05", 50)


def test_a_steward_is_told_that_the_privacy_target_is_proved_and_rests_on_nobody_else() -> None:
    told = WEIGHTED_DP.explain(_study("rounds = 70", K=4))
    text = " ".join((*told.leaves, *told.collusion, *told.cost))
    assert "70 steps" in text
    assert says(text, "proved_against_all")
    assert says(text, "trained_before_join")
    assert "not proved" not in text
    assert "{" not in text
    assert "\n" not in text

"""Noisy local descent: gradient descent at every party, with the paper's noise and hidden sizes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgpack
import numpy as np
import pytest
from scipy import stats

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import SecretKey
from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.privacy.accounting import delta_of, epsilon_of
from masquerade_core.privacy.noise.local_descent import descent_sigma, exact_mu
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian, gaussian_tail_bound
from masquerade_core.rng import Rng
from masquerade_core.seat import Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study, check_section
from masquerade_core.table import Entry, replay
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_lab.baselines import central_dp
from masquerade_protocols import entry_of
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.descent import count_layout
from masquerade_protocols.blocks.paillier_sum import as_packing
from masquerade_protocols.weighted_dp import public
from masquerade_protocols.weighted_dp import roles as wd
from masquerade_protocols.weighted_dp.entry import WEIGHTED_DP
from tests.local_descent_helpers import averaged, descended, local_descent_study, run_local_descents
from tests.messages import raises, says, sentence
from tests.protocol_helpers import SMALL_BITS, make_data
from tests.sum_helpers import descent_study, drawn, sent

F = 1 << local_descent.FRACTION_BITS

UNEVEN = {2: (3, 197), 5: (11, 50, 24, 75, 40), 20: (5, 15, *(10,) * 16, 2, 18)}


def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_descent, "gaussian", lambda _rng, _sigma, size, _unit: [0] * size)


# --- Right -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "sigmoid"])
@pytest.mark.parametrize("K", UNEVEN)
def test_without_noise_it_is_the_average_by_size_of_local_descents(
    K: int, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _quiet(monkeypatch)
    study = local_descent_study("c = 16.0\nrounds = 40\nsmallest_part = 0.01", K=K, loss=loss, Lambda=0.0)
    public.check(study)
    data = make_data(study, UNEVEN[K])
    r = run_local_descents(study, data)
    assert len({model.weights for model in r.results.values()}) == 1
    expected = averaged(study, data, 40)
    np.testing.assert_allclose(r.w, expected, rtol=0, atol=2.0**-20)
    # The test can fail: a round less, and weights that are all the same.
    assert np.abs(averaged(study, data, 39) - expected).max() > 2.0**-12
    assert np.abs(averaged(study, data, 40, by_size=False) - expected).max() > 2.0**-12


def test_a_regulariser_is_in_every_step_and_weights_may_be_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    _quiet(monkeypatch)
    study = local_descent_study('c = 16.0\nrounds = 30\nweights = "uniform"', Lambda=0.2)
    data = make_data(study, (11, 70, 29))
    r = run_local_descents(study, data)
    np.testing.assert_allclose(r.w, averaged(study, data, 30, by_size=False), rtol=0, atol=2.0**-20)
    assert np.abs(r.w - averaged(study, data, 30)).max() > 2.0**-12
    # No sum of sizes is opened.
    assert len(sent(r.table, "p1", ss.Contribution)) == 1


def test_with_noise_it_is_the_descent_with_the_noise_that_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    study, seen = local_descent_study(), []
    sds: list[Fraction] = []

    def noted(rng: Rng, sigma: Fraction, size: int, unit: Fraction) -> list[int]:
        sds.append(sigma)
        seen.append(gaussian(rng, sigma, size, unit))
        return seen[-1]

    monkeypatch.setattr(local_descent, "gaussian", noted)
    monkeypatch.setattr(local_descent, "_NORMALS", 28)  # seven rounds of four coordinates at a time
    sizes = (20, 100, 40)
    data = make_data(study, sizes)
    r = run_local_descents(study, data)
    assert len(seen) == 3 * local_descent.draws(30, 4) == 15
    # On a sum of n_j gradients it is n_j sigma, and sigma is sized for all 160 records.
    sigma = math.sqrt(16 * 30 * math.log(1000)) / (160 * 5)
    assert [float(sd) for sd in sds[::5]] == pytest.approx([n * sigma for n in sizes], rel=1e-12)
    descents = [
        descended(study, data[name], 30, noise=np.concatenate(seen[5 * j : 5 * j + 5]).reshape(30, 4) / F / sizes[j])
        for j, name in enumerate(study.names)
    ]
    np.testing.assert_allclose(r.w, np.average(descents, axis=0, weights=sizes), rtol=0, atol=2.0**-20)


# --- The noise is the noise ------------------------------------------------------------------------


@pytest.mark.parametrize(("weights", "records"), [("sizes", 900), ("uniform", 30)])
def test_a_step_s_noise_is_equation_3_s_and_30_per_cent_more_or_less_is_not(weights: str, records: int) -> None:
    """One round, no gradient: theta_1 = -eta z_0. For "uniform", n is m times the public min_records, 10."""
    K, d, epsilon, delta, c = 3, 3000, 0.5, 1e-3, 7.0
    study = local_descent_study(f'c = {c}\nrounds = 1\nweights = "{weights}"', K=K, d=d, epsilon=epsilon, delta=delta)
    data = Dataset(np.zeros((17, d)), np.ones(17))
    plan = public.plan(study, 900)
    theta = local_descent.local_descent(
        study, plan.T, float(plan.eta), plan.sigma_at(17), data, SimulationRng(3, "law")
    )
    sigma = math.sqrt(c * math.log(1 / delta)) / (records * epsilon)
    unit = -theta / 0.5 / sigma
    assert stats.kstest(unit, stats.norm.cdf).pvalue > 1e-6
    law = stats.chi2(d)
    for factor, ends in ((1.0, True), (0.7, False), (1.3, False)):
        assert (1e-6 < law.cdf(factor**2 * float(unit @ unit)) < 1 - 1e-6) == ends


@pytest.mark.parametrize("size", [3, 1 << 40, (1 << 52) - 3, (1 << 52) + 1, (1 << 60) + 1, 1 << 80])
@pytest.mark.parametrize(("n", "sign"), [(1, -1), (37, -1), (37, 1)])
def test_a_step_is_that_of_python_s_integers_however_large_the_noise_is(
    size: int, n: int, sign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    d, T, eta, F = 3, 4, 0.3, 28
    study, rng = local_descent_study(f"c = 16.0\nrounds = {T}", K=3, d=d, epsilon=1.0, delta=1e-3), SimulationRng(5)
    X = np.random.default_rng(6).uniform(-0.5, 0.5, (n, d))
    data, noise = Dataset(X, np.ones(n)), [-(sign**k) * (size + k) for k in range(d * T)]
    monkeypatch.setattr(local_descent, "gaussian", lambda *_: noise)
    theta = np.zeros(d)
    for t in range(T):
        gradient = gradient_sum(X, data.y, theta, study.model.loss).tolist()
        noisy = [round(g * 2**F) + v for g, v in zip(gradient, noise[t * d : (t + 1) * d], strict=True)]
        theta = theta - eta * (np.array([v / (n << F) for v in noisy]) + study.model.regularization * theta)
    found = local_descent.local_descent(study, T, eta, Fraction(1), data, rng)
    np.testing.assert_array_equal(found, theta)


def test_noise_is_new_in_every_round_and_at_every_party(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def noted(*args: Any) -> list[int]:
        values = gaussian(*args)
        seen.extend(values)
        return values

    monkeypatch.setattr(local_descent, "gaussian", noted)
    study = local_descent_study()
    run_local_descents(study, make_data(study, (20, 30, 40)))
    assert len(seen) == len(set(seen)) == 3 * 30 * 4


def test_sigma_is_equation_3_rounded_up_and_the_same_for_every_n_times_n() -> None:
    for c, T, eps, delta, n in ((16.0, 1000, 0.1, 1e-3, 45222), (1.0, 1, 3.0, 1e-9, 2), (2.5, 77, 1e-3, 0.9, 10**6)):
        sigma = descent_sigma(c, Fraction(1, 4), T, eps, delta, n)
        paper = math.sqrt(c * T * math.log(1 / delta)) / (4 * n * eps)
        assert float(sigma) == pytest.approx(paper, rel=1e-12)
        assert sigma >= Fraction(paper) * (1 - Fraction(1, 10**14))


# --- Private in form -------------------------------------------------------------------------------


def test_sizes_appear_in_no_message_and_do_not_change_the_form_of_the_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the test can fail: without the masks the lead's key opens what a party put in."""
    study = local_descent_study("c = 16.0\nrounds = 3\nsmallest_part = 1e-3")
    forms: set[Any] = set()
    for masked in (True, True, False):
        sizes = (1009, 2003, 3001) if len(forms) == 0 else (10, 11, 5992)
        if not masked:
            monkeypatch.setattr(ss, "mask", lambda _key, _label, _n, count: [0] * count)
        r = run_local_descents(study, make_data(study, sizes))
        if masked:
            forms.add(tuple(r.table.passed))
        secret = SecretKey(*drawn(r.table, study.lead, "key xi"))
        layout = count_layout(study)
        for name, size in zip(study.names, sizes, strict=True):
            count, model = (c.terms for c in sent(r.table, name, ss.Contribution))
            assert (_bare(as_packing(layout), secret, count) == (size,)) == (not masked)
            slots = public.layout(study, public.plan(study, sum(sizes)))
            assert (_bare(as_packing(slots), secret, model) == drawn(r.table, name, "local descent")) == (not masked)
            said = {v for kind in r.table.journal(name) for v in _numbers_said(kind)}
            assert not said & set(sizes)
    assert len(forms) == 1


def _bare(layout: Packing, secret: SecretKey, terms: Ciphertexts) -> tuple[int, ...] | None:
    """Read one contribution with the lead's key, if it is not masked."""
    try:
        plain = [secret.decrypt(c) for c in terms.read(secret.public, layout.count, "p0")]
        return layout.unpack(plain, secret.public.n, contributors=1)
    except RunFailed:
        return None


def _numbers_said(entry: Entry) -> set[int]:
    if not isinstance(entry.effect, Send) or entry.effect.kind != "message":
        return set()
    return {v for body in entry.effect.bodies for v in msgpack.unpackb(body).values() if isinstance(v, int)}


def test_every_role_repeats_from_its_journal() -> None:
    study = local_descent_study("c = 16.0\nrounds = 5")
    data = make_data(study, (20, 30, 40))
    r = run_local_descents(study, data)
    for name in study.names:
        again = replay(wd.party(r.table.seat(name), study, data[name]), r.table.journal(name))
        assert again.result == r.results[name]
    assert replay(wd.charlie(r.table.seat(CHARLIE), study), r.table.journal(CHARLIE)).result == r.results[CHARLIE]
    assert [name for name, _ in r.table.releases] == list(study.names)


def test_the_layout_holds_the_longest_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """All records alike and noise at its bound, always down: each theta_T is as far out as it can be, or further."""
    study = local_descent_study("c = 16.0\nrounds = 20", K=2, d=1, Lambda=0.0, epsilon=0.05)
    data = {name: Dataset(np.ones((50, 1)), np.ones(50)) for name in study.names}
    reach = 50 * gaussian_tail_bound(public.plan(study, 100).sigma, 20, Fraction(F))
    for factor in (1, 1000):  # the second: noise beyond its bound is cut off, and the run goes on
        far = -factor * reach
        monkeypatch.setattr(local_descent, "gaussian", lambda _rng, _s, size, _u, far=far: [far] * size)
        descents = [descended(study, part, 20, noise=np.full((20, 1), far / F / 50)) for part in data.values()]
        assert (run_local_descents(study, data).w == pytest.approx(np.mean(descents, axis=0), rel=1e-9)) == (
            factor == 1
        )


# --- Bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "kw", "said"),
    [
        ("", {}, ("c_missing", 16)),
        ("c = 0.0", {}, ("key_out_of_range", "[protocol] c", "0.0", "greater than", 0)),
        ("c = inf", {}, ("section_holds_only",)),
        ("c = 16.0\nrounds = 0", {}, ("key_out_of_range", "[protocol] rounds", 0, "at least", 1)),
        ("c = 16.0\nrounds = 10001", {}, ("key_out_of_range", "[protocol] rounds", 10001, "at most", 10000)),
        (
            "c = 16.0\nlearning_rate = 0.0",
            {},
            ("key_out_of_range", "[protocol] learning_rate", "0.0", "greater than", 0),
        ),
        ("c = 16.0\nlearning_rate = 8.0", {}, ("steps_diverge", ..., "5.714")),
        ("c = 16.0\nlearning_rate = 8.0", {"Lambda": 0.0}, ("steps_diverge", ..., 8)),
        (
            'c = 16.0\nweights = "size"',
            {},
            ("key_of_another_kind", "[protocol] weights", '"size"', '"sizes" or "uniform"'),
        ),
        ("c = 16.0\nround = 3", {}, ("did_you_mean", "rounds")),
        ("c = 16.0", {"delta": 0.0}, ("delta_not_in_range", 0)),
        ("c = 16.0", {"epsilon": 1e-13}, ("descent_epsilon_too_small", "1e-13")),
        ("c = 16.0\nlearning_rate = 1e300", {"Lambda": 0.0}, ("steps_diverge", ..., ...)),
        (
            "c = 16.0\nsmallest_part = 0.0",
            {},
            ("key_out_of_range", "[protocol] smallest_part", "0.0", "greater than", 0),
        ),
        ("c = 16.0\nsmallest_part = 0.34", {}, ("smallest_part_too_large", "0.34", 3)),
        ('c = 16.0\nweights = "uniform"\nsmallest_part = 0.1', {}, ("smallest_part_in_vain", ...)),
    ],
)
def test_a_study_that_cannot_work_is_refused(section: str, kw: dict[str, Any], said: tuple[Any, ...]) -> None:
    with raises(BadInput, *said):
        _checked(local_descent_study(section, **kw))


def _checked(study: Study) -> None:
    check_section(public.Parameters, study.protocol, "protocol")
    public.check(study)


def test_a_sum_that_fits_no_plaintext_is_refused_and_what_is_let_pass_has_room() -> None:
    def at(bits: int, **kw: Any) -> Study:
        text = local_descent_study("c = 16.0", K=3, d=2, **kw).to_toml()
        return Study.parse(text.replace(f"key_bits = {SMALL_BITS}", f"key_bits = {bits}"), in_memory=True)

    _checked(at(512, epsilon=1e-12))
    crowded = public.Plan(10_000, Fraction(10) ** 130, Fraction(1), True, True, 100)
    with raises(BadInput, "no_room_for_slot", ..., ..., ...):
        public.layout(at(512), crowded)
    with raises(BadInput, "no_float_holds", ..., ..., 500):
        public.layout(at(2048), public.Plan(10_000, Fraction(10) ** 140, Fraction(1), True, True, 100))


def test_the_new_study_s_section_is_one_that_works() -> None:
    _checked(local_descent_study(WEIGHTED_DP.section))
    assert "c = 16.0" in WEIGHTED_DP.section


# --- What is proved --------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "epsilon"), [(1 / 32, 1.713), (200 / 45222, 21.79)])
def test_the_proved_epsilon_of_the_paper_s_own_setting(part: float, epsilon: float) -> None:
    """With m = 32, n = 45222, T = 1000, delta = 1e-3 and c = 16 where .1 is claimed: an even split, and 200 records."""
    n, T, delta = 45222, 1000, 1e-3
    mu = exact_mu(c=16.0, epsilon=0.1, delta=delta, part=part)
    sigma = float(descent_sigma(16.0, Fraction(1), T, 0.1, delta, n))
    assert mu == pytest.approx(2 * math.sqrt(T) / (part * n * sigma), rel=1e-9)
    assert delta_of(mu, epsilon * 1.0005) < delta < delta_of(mu, epsilon * 0.9995)


def test_with_a_sum_in_every_round_an_even_split_would_have_216_thousandths() -> None:
    """Theorem 1's own setting: sum_j (n_j/n) z_t has the spread |p| sigma, so |p| stands where n_j/n does."""
    assert epsilon_of(exact_mu(c=16.0, epsilon=0.1, delta=1e-3, part=1 / math.sqrt(32)), 1e-3) == pytest.approx(
        0.2159, abs=5e-5
    )


def test_the_statement_has_the_claim_beside_the_proof_and_no_secret_size() -> None:
    study = local_descent_study("c = 16.0\nsmallest_part = 0.03125", K=32, d=10, epsilon=0.1)
    rows = WEIGHTED_DP.statement(study)
    views = [(row.view, row.unit) for row in rows]
    records = [(view, "record") for view in ("released model", "Charlie", "one party", "Charlie with 1 party")]
    assert views[:-1] == records
    assert views[-1] == (sentence("view_of_unit", "released model", "all", "party"), "party")
    for row in rows[:-1]:
        assert row.epsilon == pytest.approx(1.7132, rel=1e-3)
        assert row.delta == pytest.approx(1e-3)
        assert row.provable == sentence("for_every_party", "1.714", "1.0e-03")
        assert sentence("more_noise_if_less", "1/32") in row.assumptions
    assert "epsilon = 0.1" in rows[0].claimed
    assert says(rows[0].text, "part_of_all", "1/32")
    assert rows[-1].epsilon is None
    small = WEIGHTED_DP.statement(local_descent_study("c = 2.0\nsmallest_part = 0.03125", K=32, epsilon=0.1))
    assert says(small[0].claimed, "proof_needs", 16, 2)
    assert small[0].epsilon is not None
    assert rows[0].epsilon is not None
    assert small[0].epsilon > rows[0].epsilon
    uniform = WEIGHTED_DP.statement(local_descent_study('c = 16.0\nweights = "uniform"', K=32, d=10, epsilon=0.1))
    assert uniform[0].epsilon == rows[0].epsilon
    assert "min_records" in uniform[0].text
    none = WEIGHTED_DP.statement(local_descent_study("c = 1.0", K=32, epsilon=50.0))
    assert none[0].provable == "none"
    assert none[0].epsilon is None


@pytest.mark.parametrize("part", [None, 0.2, 0.01])
def test_what_is_stated_is_the_smallest_allowed_part_s_at_every_n(part: float | None) -> None:
    """From sigma and the records themselves, with no formula of the statement's."""
    named = "" if part is None else f"\nsmallest_part = {part}"
    study = local_descent_study(f"c = 16.0\nrounds = 900{named}", K=5, epsilon=0.1)
    smallest = public.smallest_part(study)
    assert smallest == (Fraction(1, 20) if part is None else Fraction(str(part)))
    stated = WEIGHTED_DP.statement(study)[0].epsilon
    assert stated is not None
    for n in (100, 45_222, 10**9):
        mu = 2 * math.sqrt(900) / float(smallest * n * public.plan(study, n).sigma)
        assert epsilon_of(mu, 1e-3) == pytest.approx(stated, rel=1e-3)


@pytest.mark.parametrize("weights", ["sizes", "uniform"])
def test_a_steward_is_told_what_leaves_and_that_the_claim_is_not_proved(weights: str) -> None:
    study = local_descent_study(f'c = 16.0\nrounds = 70\nweights = "{weights}"', K=4)
    told = WEIGHTED_DP.explain(study)
    text = " ".join((*told.leaves, *told.collusion, *told.cost))
    assert "70 steps" in text
    assert "not proved" in text
    assert "{" not in text
    assert "\n" not in text
    assert (says(text, "number_leaves")) == (weights == "sizes")


def test_a_steward_is_told_where_nothing_is_proved() -> None:
    told = WEIGHTED_DP.explain(local_descent_study("c = 1.0", K=32, epsilon=50.0)).cost[0]
    assert says(told, "claim_not_proved", sentence("nothing_provable"))
    assert "at least 1/128" not in told


# --- The central baseline ----------------------------------------------------------------------------


def test_central_dp_is_one_descent_over_everybody_s_records(monkeypatch: pytest.MonkeyPatch) -> None:
    study = descent_study("central-dp", K=3, d=4, section="c = 16.0\nrounds = 25", Lambda=0.0, delta=1e-3)
    data = make_data(study, (20, 30, 50))
    pooled = pool(study, data)
    seen: list[tuple[Fraction, list[int]]] = []

    def noted(rng: Rng, sigma: Fraction, size: int, unit: Fraction) -> list[int]:
        seen.append((sigma, gaussian(rng, sigma, size, unit)))
        return seen[-1][1]

    monkeypatch.setattr(local_descent, "gaussian", noted)
    w = entry_of(study).central(study, data, SimulationRng(1, "central"))
    ((sd, noise),) = seen
    assert float(sd) == pytest.approx(math.sqrt(16 * 25 * math.log(1000)) / study.privacy.epsilon, rel=1e-12)
    expected = descended(study, pooled, 25, noise=np.array(noise).reshape(25, 4) / F / 100)
    np.testing.assert_allclose(np.asarray(w), expected, rtol=0, atol=2.0**-20)


def test_central_dp_refuses_what_weighted_dp_does() -> None:
    with raises(BadInput, "steps_diverge", ..., ...):
        central_dp.check(descent_study("central-dp", K=2, section="c = 16.0\nlearning_rate = 9.0"))
    with raises(BadInput, "delta_not_in_range", 0):
        central_dp.check(descent_study("central-dp", K=2, section="c = 16.0", delta=0.0))
    with raises(BadInput, "c_missing", ...):
        entry_of(descent_study("central-dp", K=2, section="rounds = 3"))

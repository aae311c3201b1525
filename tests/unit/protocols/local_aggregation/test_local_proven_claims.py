"""How much noise local aggregation needs for a proof, and what is said of it: against oracles of other hands."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant

from masquerade_core.errors import LocalProtocolError
from masquerade_core.learning.erm import fit
from masquerade_core.privacy.noise import joint_gaussian
from masquerade_core.privacy.noise.gaussian_rounds import LOST_BITS
from masquerade_core.privacy.noise.joint_gaussian import MOST_COUNTED_RECORDS, SIZE_CLASSES, JointNoise
from masquerade_core.privacy.noise.output_perturbation import paper_scale, refined_l2_sensitivity
from masquerade_core.privacy.statement import Claim
from masquerade_protocols import protocol_of
from masquerade_protocols.local_aggregation import joint_noise as jn
from masquerade_protocols.local_aggregation import public
from masquerade_protocols.local_aggregation.proven_statement import proven_statement
from masquerade_protocols.local_aggregation.public import JOINT_FRACTION_BITS
from tests.messages import pattern, says, sentence
from tests.proven_helpers import GRID, SCALE_RULES, moved_by_scipy, mu_by_scipy, proven_study


def _noise(rule: str = "selected", **kw: Any) -> JointNoise:
    values: dict[str, Any] = {
        "scale_rule": rule,
        "K": 5,
        "d": 10,
        "honest": 5,
        "epsilon": 1.0,
        "delta": 1e-5,
        "Lambda": 0.1,
        "min_records": 100,
        "fraction_bits": JOINT_FRACTION_BITS,
    }
    return JointNoise(**{**values, **kw})


# --- How far a record moves the sum ------------------------------------------------------------------


@pytest.mark.parametrize("Lambda", [0.002, 0.05, 2.0])
@pytest.mark.parametrize("n", [2, 5, 12])
def test_no_replaced_record_moves_a_classifier_further(n: int, Lambda: float) -> None:
    """Classifiers are trained twice and rounded, on records that move them most. Some come close to the bound."""
    rng = np.random.default_rng(n)
    noise, counted = _noise(d=2, Lambda=Lambda), _noise("sizes", d=2, Lambda=Lambda)
    closest = 0.0
    for trial in range(60):
        X = rng.normal(size=(n, 2))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        if trial % 3 == 1:  # all on one line
            X = X[:1] * np.where(rng.random((n, 1)) < 0.5, 1.0, -1.0)
        elif trial % 3 == 2:  # the others across the line of the new record, where they do not hold it back
            X[1:] = X[0, ::-1] * (1, -1)
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        other = y.copy()
        other[0] = -y[0]
        w = [fit(X, labels, Lambda) for labels in (y, other)]
        for counts, weight in ((noise, 1), (counted, n)):
            a, b = (jn.encode(v.tolist(), weight) for v in w)
            moved = sum((i - j) ** 2 for i, j in zip(a, b, strict=True))
            assert moved <= counts.sensitivity(n) ** 2
        closest = max(closest, math.dist(*w) / float(noise.sensitivity(n) / GRID))
    assert closest > (0.75 if Lambda > 1 else 0.2)


def test_the_sensitivity_is_the_closed_form_s_with_rounding_and_inexact_minimisers() -> None:
    for n, Lambda in ((50, 0.1), (6512, 2.0), (100, 0.002), (2, 0.01), (10, 50.0)):
        for rule, times in (("selected", 1), ("floor", 1), ("sizes", MOST_COUNTED_RECORDS)):
            noise = _noise(rule, Lambda=Lambda)
            exact = times * (moved_by_scipy(max(times, n), Lambda) + 2e-9 / Lambda) * GRID + math.sqrt(10)
            assert float(noise.sensitivity(n)) == pytest.approx(exact, rel=1e-9)
            assert noise.sensitivity(n, generic=True) >= noise.sensitivity(n)
            assert float(noise.sensitivity(n, generic=True)) == pytest.approx(
                times * (2 / (max(times, n) * Lambda) + 2e-9 / Lambda) * GRID + math.sqrt(10), rel=1e-12
            )
    assert _noise("sizes").sensitivity(3) == _noise("sizes").sensitivity(30_000)


@pytest.mark.parametrize(
    ("lam", "generic", "refined"), [(1.0, 1.109, 0.616), (0.1, 1.109, 0.848), (0.001, 1.109, 1.109)]
)
def test_of_pathak_s_noise_on_adult_this_sensitivity_proves_what_is_known(
    lam: float, generic: float, refined: float
) -> None:
    """K = 5, n_(1) = 6,512, d = 123: epsilon = sqrt(d) Delta/b for Laplace noise of K times the paper's scale."""
    noise = _noise(d=123, Lambda=2 * lam)
    on_the_sum = 5 * float(paper_scale(6512, 1.0, 2 * lam)) * GRID
    proved = [math.sqrt(123) * float(noise.sensitivity(6512, generic=g)) / on_the_sum for g in (True, False)]
    assert proved == pytest.approx([generic, refined], abs=1e-3)


@pytest.mark.parametrize(("epsilon", "rms"), [(0.01, 0.083), (0.1, 0.0105), (1.0, 0.00127)])
def test_noise_on_classifiers_that_count_by_size_is_that_of_all_records(epsilon: float, rms: float) -> None:
    """Adult, n = 32,561, d = 123, lambda = 1, delta = 1e-5: Delta = 1/(n lambda), whatever the split."""
    noise = _noise("sizes", d=123, Lambda=2.0, epsilon=epsilon)
    sigma = float(noise.sigma(6512, generic=True)) / GRID / 32561
    assert math.sqrt(123) * sigma == pytest.approx(rms, rel=0.01)


# --- How much noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("honest", [1, 2, 5])
def test_any_honest_parties_have_enough_noise_and_little_more(honest: int) -> None:
    for rule in SCALE_RULES:
        noise = _noise(rule, honest=honest)
        for n in (100, 157, 40_000):
            wanted = float(noise.sensitivity(n)) / mu_by_scipy(1.0, 1e-5)
            assert float(noise.sigma(n)) == pytest.approx(wanted, rel=1e-8)
            if rule == "selected":
                share = float(noise.of_class(noise.class_of(n)).share()) * math.sqrt(honest)
                assert wanted <= share <= 1.2 * wanted
            elif n == 100:
                share = float(noise.share()) * math.sqrt(honest)
                assert wanted <= share == pytest.approx(wanted, rel=0.01)


def test_a_size_class_begins_at_its_floor_and_ends_below_the_next() -> None:
    for floor in (2, 3, 7, 100, 12_345):
        noise = _noise(min_records=floor)
        begins = [noise.class_begins(k) for k in range(SIZE_CLASSES)]
        assert begins[0] == floor
        assert begins[4:] == [pytest.approx(2 * n, abs=2) for n in begins[:-4]]
        assert all(n**4 <= floor**4 * 2**k < (n + 1) ** 4 for k, n in enumerate(begins))
        for n in (floor, floor + 1, 2 * floor - 1, 2 * floor, 1000 * floor, 2**31):
            k = noise.class_of(n)
            assert begins[k] <= n
            assert k == SIZE_CLASSES - 1 or n < begins[k + 1]
            assert noise.of_class(k) == replace(noise, scale_rule="floor", min_records=begins[k])


def test_slots_do_not_follow_a_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines differ in the last bits of an exponential. Bounds, and so lengths on the wire, must not differ."""

    def bounds() -> list[int]:
        return [_noise(rule).largest for rule in SCALE_RULES]

    exact = bounds()
    drawn = [_noise(rule).share() for rule in SCALE_RULES]
    monkeypatch.setattr(
        joint_gaussian, "refined_l2_sensitivity", lambda n, L: refined_l2_sensitivity(n, L) * (1 - 1e-6)
    )
    assert [_noise(rule).share() for rule in SCALE_RULES] != drawn
    assert bounds() == exact


def test_what_slots_hold_is_passed_less_often_than_delta_pays_for() -> None:
    """K vectors, each beyond its bound with a chance of less than erfc(B/(sqrt(2) sigma)) d."""
    for rule in SCALE_RULES:
        noise = _noise(rule, K=7, d=123, honest=4)
        sigma = noise.share(generic=True)
        chance = 7 * 123 * math.erfc(float(noise.reach(sigma) / sigma) / math.sqrt(2))
        assert 0 < chance <= 2.0 ** -(LOST_BITS + 1)
        assert noise.largest == 7 * noise.reach(sigma)
        # In every class a party draws less than that.
        assert all(noise.of_class(k).largest <= noise.largest for k in range(SIZE_CLASSES))


@cache
def _accountant(multiplier: float, delta: float) -> float:
    oracle = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=5e-4)
    oracle.compose(GaussianDpEvent(noise_multiplier=multiplier))
    return float(oracle.get_epsilon(delta))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.05), (0.1, 1e-5), (1.0, 1e-5), (2.0, 1e-6)])
@pytest.mark.parametrize("rule", SCALE_RULES)
def test_the_epsilons_of_a_statement_are_those_of_an_independent_accountant(
    rule: str, epsilon: float, delta: float
) -> None:
    noise = _noise(rule, epsilon=epsilon, delta=delta, honest=3)
    for shares in (5, 3, 1):
        # The multiplier is that of replace-one; the relation of the oracle is therefore its own default.
        expected = _accountant(math.sqrt(shares / 3) / mu_by_scipy(epsilon, delta), delta)
        found = noise.proved(shares)
        assert found is not None
        assert found[1] == pytest.approx(delta, rel=1e-9)
        assert found[0] == pytest.approx(expected, abs=5e-5)
        if shares == 3:
            assert epsilon - 1e-6 < found[0] <= epsilon
        else:
            assert abs(found[0] - epsilon) > 0.01 * epsilon or found[0] == 0


def test_what_is_proved_of_the_selected_scale_is_what_its_shares_are_worth_at_every_size() -> None:
    noise = _noise(honest=3)
    for n in (100, 118, 119, 333, 5000, 10**9):
        for m in (1, 3, 5):
            variance = m * noise.of_class(noise.class_of(n)).share() ** 2 - 9
            assert math.sqrt(noise.sensitivity(n) ** 2 / variance) <= noise.mu(m)


def test_no_noise_proves_nothing() -> None:
    assert _noise().proved(0) is None
    with pytest.raises(LocalProtocolError):
        _noise().mu(0)
    with pytest.raises(LocalProtocolError):
        _noise().sensitivity(0)


# --- What is said ---------------------------------------------------------------------------------------


def _rows(rule: str, **kw: Any) -> dict[str, Claim]:
    rows = proven_statement(_noise(rule, **kw))
    json.dumps([row.to_json() for row in rows])
    assert len({(row.view, row.unit) for row in rows}) == len(rows)
    return {row.view: row for row in rows if row.unit == "record"}


@pytest.mark.parametrize("rule", SCALE_RULES)
@pytest.mark.parametrize(("K", "honest"), [(2, 2), (2, 1), (5, 5), (5, 3), (5, 1)])
def test_the_statement_keeps_the_target_for_as_many_shares_as_were_asked_for(rule: str, K: int, honest: int) -> None:
    rows = _rows(rule, K=K, honest=honest)
    t = max(1, K - honest)
    views = {
        "released model": K,
        "Charlie": K,
        "one party, the smallest included": K - 1,
        f"Charlie with {t} {'party' if t == 1 else 'parties'}": K - t,
    }
    if rule == "selected":
        views |= {"the lead": K - 1, "Charlie with the lead": K - 1}
    if t < K - 1:
        views["Charlie with all parties but one"] = 1
    breakers = f"Charlie with {t} {'party' if t == 1 else 'parties'}, who break the rules"
    views[breakers] = K - t
    assert set(rows) == set(views)
    noise = _noise(rule, K=K, honest=honest)
    for view, shares in views.items():
        row = rows[view]
        assert (row.epsilon, row.delta) == noise.proved(shares)
        assert row.epsilon is not None
        assert (row.epsilon <= 1) == (shares >= honest)
        assert row.claimed.startswith("approximate") == (shares >= honest)
        if shares >= honest:
            colluding = {0: "no colluding part(y|ies)", 1: "1 colluding party"}
            expected = colluding.get(K - honest, f"{K - honest} colluding parties")
            assert re.search(f"{pattern('target_for')} {expected}$", row.claimed)
        alone = shares == 1 and view.startswith("Charlie with")  # no mask is left that could be broken
        assert row.definition == ("approximate" if alone else "approximate, computational")


def test_the_row_of_those_who_break_the_rules_says_what_holds_and_where() -> None:
    for rule in SCALE_RULES:
        rows = _rows(rule, honest=4)
        breakers, follow = rows["Charlie with 1 party, who break the rules"], rows["Charlie with 1 party"]
        assert (breakers.epsilon, breakers.delta) == (follow.epsilon, follow.delta)
        assert breakers.epsilon == pytest.approx(1, abs=1e-6)
        assert says(breakers.text, "noise_stays_on_sum", sentence("noise_of_followers", 4))
        # The row does not assume what it denies.
        assert [text for text in follow.assumptions if says(text, "everybody_follows")]
        assert not [text for text in breakers.assumptions if says(text, "everybody_follows")]
        assert breakers.assumptions[0] == sentence("honest_draw")
        alone = _rows(rule, K=2, honest=1)["Charlie with 1 party, who break the rules"]
        assert says(alone.text, "noise_stays_on_sum", sentence("noise_of_holder"))


def test_the_smallest_party_is_promised_what_any_other_is() -> None:
    """In the paper the smallest party takes the noise off. Here it knows one share, and the row has a number."""
    row = _rows("selected", honest=4)["one party, the smallest included"]
    assert row.epsilon == pytest.approx(1, abs=1e-6)
    assert row.provable == "epsilon = 1, delta = 1e-05"


def test_the_statement_says_which_numbers_show_sizes_and_who_reads_them() -> None:
    selected = _rows("selected", honest=3)
    assert says(" ".join(selected["released model"].assumptions), "smallest_within")
    assert says(selected["Charlie with 2 parties"].text, "who_has_fewer")
    assert says(selected[sentence("view_with_lead")].text, "read_all_sizes")
    assert says(selected[sentence("view_of_breakers", "2 parties")].text, "size_of_choice")
    floor = _rows("floor", honest=3)
    assert says(" ".join(floor["released model"].assumptions), "sizes_do_not_show")
    assert "fewer records" not in floor["Charlie with 2 parties"].text
    assert says(" ".join(_rows("sizes")["released model"].assumptions), "number_published")


def test_a_delta_that_lets_a_record_be_published_is_flagged() -> None:
    assert says(_rows("floor", delta=0.05)["released model"].text, "delta_not_less", "0.05", 500)
    assert "Note delta" not in _rows("floor")["released model"].text


@pytest.mark.parametrize("rule", SCALE_RULES)
def test_a_study_s_statement_is_that_of_its_noise(rule: str) -> None:
    study = proven_study(5, 4, rule, colluders=2, epsilon=0.5)
    rules = study.study.model_copy(update={"out_of_bounds": "clamp"})  # so that no row assumes that nobody refused
    study = study.model_copy(update={"study": rules})
    expected = _noise(rule, d=4, honest=3, epsilon=0.5, Lambda=0.05, min_records=10)
    assert public.joint_noise_of(study) == expected
    *rows, party = protocol_of(study).statement(study)
    of_every_study = ("refused to take part", "the times of messages are not covered")
    counted = tuple(
        replace(row, assumptions=tuple(a for a in row.assumptions if not any(text in a for text in of_every_study)))
        for row in rows
    )
    assert counted == proven_statement(expected)
    assert party.unit == "party"
    assert public.joint_noise_of(study) != replace(expected, honest=4)

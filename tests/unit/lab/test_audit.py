"""``masquerade audit``: bounds that exceed the truth as rarely as they say, laws of fast noise, gates, exit codes."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade_core.errors import BadInput
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Label
from masquerade_lab import audit as package
from masquerade_lab.audit import Audit, Finding, Gate, audits, catalogue, error_of
from masquerade_lab.audit.audit import CONFIDENT, ERROR
from masquerade_lab.audit.bounds import (
    choose,
    count,
    epsilon_bound,
    largest_bound,
    probability_above,
    probability_below,
)
from masquerade_lab.audit.canary import flat, study_of
from masquerade_lab.audit.made_up import made_up
from masquerade_lab.audit.proofs import descent_scores
from masquerade_lab.audit.source import Source
from masquerade_lab.audit.study import audit_study
from masquerade_lab.commands.audit import cells
from masquerade_protocols.blocks import noise_shares
from masquerade_protocols.dp_gd import roles as dp_gd
from tests.face_helpers import Shell
from tests.messages import raises, says
from tests.pages import Page, defined_tests

_Array = NDArray[np.float64]

PAGE = Page("docs/privacy/audits.md")
BITS = 28


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


# --- Bounds on a probability ------------------------------------------------------------------------


def _tail(n: int, k: int, p: float) -> float:
    """P(X >= k) of a binomial X."""
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


def test_clopper_and_pearson_where_there_is_a_closed_form() -> None:
    for n, error in ((10, 0.05), (200, 0.025), (3000, 1e-4)):
        assert probability_above(0, n, error) == pytest.approx(1 - error ** (1 / n), rel=1e-9)
        assert probability_below(n, n, error) == pytest.approx(error ** (1 / n), rel=1e-9)
        assert probability_below(0, n, error) == 0
        assert probability_above(n, n, error) == 1


@pytest.mark.parametrize(("k", "n"), [(1, 10), (7, 50), (49, 50), (150, 400)])
def test_clopper_and_pearson_solve_their_defining_equations(k: int, n: int) -> None:
    low, high = float(probability_below(k, n, 0.03)), float(probability_above(k, n, 0.03))
    assert _tail(n, k, low) == pytest.approx(0.03, rel=1e-9)
    assert 1 - _tail(n, k + 1, high) == pytest.approx(0.03, rel=1e-9)


@pytest.mark.parametrize("p", [0.001, 0.05, 0.3, 0.72, 0.999])
def test_a_bound_on_a_probability_fails_as_rarely_as_it_says(p: float) -> None:
    n, error = 60, 0.05
    law = np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])
    hits = np.arange(n + 1.0)
    assert law[probability_above(hits, n, error) < p].sum() <= error
    assert law[probability_below(hits, n, error) > p].sum() <= error


# --- Bounds on epsilon ----------------------------------------------------------------------------------


def _responses(generator: np.random.Generator, runs: int, epsilon: float) -> tuple[_Array, _Array]:
    """Randomised response to 0 and to 1: epsilon is what it says, exactly."""
    turned = 1 / (1 + math.exp(epsilon))
    return (
        (generator.random(runs) < turned).astype(float),
        (generator.random(runs) >= turned).astype(float),
    )


def test_of_randomised_response_nearly_all_is_found_and_too_much_as_rarely_as_it_says() -> None:
    generator, truth, trials = np.random.default_rng(1), 0.7, 250
    bounds = np.array([epsilon_bound(*_responses(generator, 400, truth), 0.0, 0.2) for _ in range(trials)])
    exceeded = int(np.sum(bounds > truth))
    assert exceeded > 0  # else the test below could not fail
    assert stats.binomtest(exceeded, trials, 0.2, alternative="greater").pvalue > 0.001
    assert 0.9 * truth < epsilon_bound(*_responses(generator, 100_000, truth), 0.0) < truth


def test_delta_is_taken_off() -> None:
    generator, truth, delta = np.random.default_rng(2), 1.5, 0.2
    p = math.exp(truth) / (1 + math.exp(truth))
    exact = math.log((p - delta) / (1 - p))
    bound = epsilon_bound(*_responses(generator, 100_000, truth), delta)
    assert 0.93 * exact < bound < exact


@pytest.mark.parametrize(("mu", "delta"), [(0.75, 0.05), (1.0, 0.2), (2.0, 0.01)])
def test_of_gaussian_noise_the_bound_comes_near_its_exact_curve_and_not_above(mu: float, delta: float) -> None:
    generator, exact = np.random.default_rng(3), epsilon_of(mu, delta)
    for _ in range(20):
        bound = epsilon_bound(generator.normal(size=20_000), generator.normal(mu, size=20_000), delta, 1e-4)
        assert 0.5 * exact < bound < exact


def test_two_data_sets_that_cannot_be_told_apart_are_told_apart_as_rarely_as_it_says() -> None:
    generator, trials, error = np.random.default_rng(4), 150, 0.3
    pairs = [(generator.normal(size=100), generator.normal(size=100)) for _ in range(trials)]
    found = sum(epsilon_bound(*pair, 0.0, error) > 0 for pair in pairs)
    assert stats.binomtest(found, trials, error, alternative="greater").pvalue > 0.001
    # The same runs for choosing and for counting: chance alone shows an epsilon.
    fooled = sum(count(choose(*pair, 0.0, error), *pair, 0.0, error) > 0 for pair in pairs)
    assert stats.binomtest(fooled, trials, error, alternative="greater").pvalue < 1e-6


def test_neither_side_nor_sign_of_a_score_matters() -> None:
    generator = np.random.default_rng(5)
    zeros, ones = generator.normal(size=4000), generator.normal(1.5, size=4000)
    bound = epsilon_bound(zeros, ones, 0.01)
    assert bound > 1
    assert epsilon_bound(-zeros, -ones, 0.01) == bound
    assert epsilon_bound(ones, zeros, 0.01) == pytest.approx(bound, rel=0.01)


def test_an_event_that_only_one_of_the_two_data_sets_has_is_found_whichever_it_is() -> None:
    sometimes, never = (np.random.default_rng(8).random(1000) < 0.3).astype(float), np.zeros(1000)
    for zeros, ones in ((sometimes, never), (never, sometimes), (-sometimes, never), (never, -sometimes)):
        assert epsilon_bound(zeros, ones, 0.0) > 3


def test_scores_that_are_all_alike_show_nothing_and_too_few_are_refused() -> None:
    assert epsilon_bound(np.zeros(50), np.zeros(50), 0.0) == 0
    with raises(ValueError, "too_few_runs", 19, 19):
        epsilon_bound(np.zeros(19), np.ones(19), 0.0)


def test_no_runs_show_more_than_those_that_are_always_told_apart() -> None:
    assert epsilon_bound(np.zeros(300), np.ones(300), 1e-3) == largest_bound(300, 1e-3)
    assert largest_bound(3000, 1e-3) > largest_bound(300, 1e-3)


# --- The fast laws ----------------------------------------------------------------------------------------


def _alike(a: _Array, b: _Array) -> float:
    return float(stats.ks_2samp(a, b).pvalue)


def test_the_fast_l2_noise_has_the_law_of_the_sampler() -> None:
    beta, d, unit = Fraction(1, 20), 10, Fraction(1 << BITS)
    rng, source = SimulationRng(1), Source(2, "law")
    slow = np.array([l2_laplace(rng, beta, d, unit) for _ in range(1500)]) / float(unit)
    fast = source.l2(beta, (20_000, d), BITS)
    one = source.l2_coordinate(beta, d, (20_000,), BITS)
    lengths = [np.linalg.norm(x, axis=1) for x in (slow, fast)]
    assert _alike(*lengths) > 0.001
    assert stats.kstest(lengths[1], stats.gamma(d, scale=20).cdf).pvalue > 0.001
    assert _alike(slow[:, 3], fast[:, 3]) > 0.001
    assert _alike(slow[:, 3], one) > 0.001
    assert _alike(slow[:, 3], 1.3 * one) < 1e-6


def test_the_fast_gaussian_has_the_law_of_both_samplers() -> None:
    sigma, unit = Fraction(7, 2), Fraction(1 << BITS)
    rng, source = SimulationRng(3), Source(4, "law")
    fast = source.gaussian(sigma, (20_000,), BITS)
    slow = np.array(gaussian(rng, sigma, 3000, unit)) / float(unit)
    shared = np.array(discrete_gaussian(rng, sigma * unit, 3000)) / float(unit)
    assert _alike(slow, fast) > 0.001
    assert _alike(shared, fast) > 0.001
    assert _alike(slow, 1.3 * fast) < 1e-6


def test_fast_noise_lies_on_the_grid_and_follows_from_its_seed_and_label() -> None:
    drawn = Source(5, "a").l2(Fraction(1, 3), (50, 4), 10)
    assert np.array_equal(drawn * 2**10, np.rint(drawn * 2**10))
    assert np.array_equal(drawn, Source(5, "a").l2(Fraction(1, 3), (50, 4), 10))
    assert not np.array_equal(drawn, Source(5, "b").l2(Fraction(1, 3), (50, 4), 10))
    assert not np.array_equal(drawn, Source(6, "a").l2(Fraction(1, 3), (50, 4), 10))


# --- Canaries -------------------------------------------------------------------------------------------------


def test_the_canary_alone_moves_the_last_coordinate_and_by_one_wherever_the_point_is() -> None:
    loss, generator = loss_of("logistic"), np.random.default_rng(6)
    pair = [flat(30, 5, moved=moved) for moved in (False, True)]
    assert sum((a != b).sum() for a, b in zip((pair[0].X, pair[0].y), (pair[1].X, pair[1].y), strict=True)) == 1
    assert not pair[0].X[:-1, -1].any()
    for _ in range(5):
        w = 3 * generator.normal(size=5)
        moved = np.subtract(*(gradient_sum(D.X, D.y, w, loss) for D in pair))
        assert moved == pytest.approx([0, 0, 0, 0, -1], abs=1e-12)


def test_a_section_is_changed_where_it_says_so_and_nowhere_else() -> None:
    study = study_of("dp-gd", parties=2, d=2, epsilon=1.0, delta=0.05, section={"clip": 0.5})
    assert study.protocol["clip"] == 0.5
    with raises(ValueError, "lines_of_section", ..., 0, "sparkle"):
        study_of("dp-gd", parties=2, d=2, epsilon=1.0, delta=0.05, section={"sparkle": 1})


# --- The list -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "sd"), [(0.1, 7.095), (0.2, 5.260), (1.0, 2.107)])
def test_the_noise_on_a_sum_of_dp_gd_is_sized_for_two_clipped_gradients(epsilon: float, sd: float) -> None:
    study = study_of("dp-gd", parties=2, d=10, epsilon=epsilon, delta=0.05, rounds=10, section={"clip": 0.25})
    assert float(dp_gd.noise_of(study).sigma) / 2**dp_gd.FRACTION_BITS == pytest.approx(sd, abs=6e-4)


def test_the_list_has_every_gate_and_every_protocol_with_a_proof() -> None:
    everything = audits()
    assert len({a.name for a in everything}) == len(everything)
    refuted = {a.protocol for a in everything if a.gate is Gate.REFUTED}
    assert refuted == {"noisy-gradient", "psgd", "gop", "weighted-dp", "local-aggregation"}
    proved = {a.protocol for a in everything if a.gate is Gate.HOLDS}
    assert proved == _provable()
    assert all(a.proved == a.epsilon for a in everything if a.gate is Gate.HOLDS)
    assert all(a.proved is None or a.proved > a.epsilon for a in everything if a.gate is not Gate.HOLDS)
    for gate, together in ((Gate.HOLDS, CONFIDENT), (Gate.REFUTED, ERROR), (Gate.CAUGHT, ERROR)):
        assert sum(error_of(a.gate) for a in everything if a.gate is gate) == pytest.approx(together)
    assert {a.gate for a in everything if a.quick} == set(Gate)
    assert {a.protocol for a in audits("psgd")} == {"psgd"}
    with raises(BadInput, "no_such_audit", "'einstein-1905'"):
        audits("einstein-1905")


def _provable() -> set[str]:
    from masquerade_protocols import BASELINES, PROTOCOLS

    found = {p.name for p in PROTOCOLS.values() if "proven" in p.calibrations}
    return found | {b.name for b in BASELINES.values() if "proven" in b.calibrations}


def test_an_audit_repeats_itself_and_less_noise_shows_more() -> None:
    (audit,) = (a for a in audits("input-noise") if "gaussian" in a.name)
    bound = audit.bound(400, 0.05)
    assert audit.bound(400, 0.05) == bound
    assert audit.bound(400, 0.05, Fraction(1, 8)) > bound


@pytest.mark.parametrize("name", ["dp-gd, sensitivity C for 2 C", "dp-gd, shares for K in place of h"])
def test_a_known_bug_has_as_much_less_noise_as_it_says(name: str) -> None:
    (bug,) = (a for a in audits("dp-gd") if a.name == name)
    scores: Any = bug.scores
    study, wrong, shares = scores.args
    ratio = float(wrong.share / dp_gd.noise_of(study).share)
    assert ratio == pytest.approx({"dp-gd, sensitivity C for 2 C": 0.5}.get(name, 1 / math.sqrt(5)), rel=1e-4)
    right = partial(descent_scores, study, dp_gd.noise_of(study), shares)
    spread = [f(150, False, Source(7, "bug"), Fraction(1)).std() for f in (bug.scores, right)]
    assert spread[0] / spread[1] == pytest.approx(ratio, rel=0.3)


def test_the_paper_s_claim_of_psgd_is_refuted_in_seconds() -> None:
    (audit,) = (a for a in audits("psgd") if a.name == "psgd, points chosen, epsilon 0.2")
    bound = audit.bound(3000, ERROR)
    assert 0.2 < bound < (audit.proved or 0)


# --- Verdicts and exit codes --------------------------------------------------------------------------------


def _response(gate: Gate, says: float, truth: float, **more: Any) -> Audit:
    """Randomised response of one epsilon of which another one is said; a factor of less than 1 is less noise."""

    def scores(runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
        keep = math.exp(truth / factor) / (1 + math.exp(truth / factor))
        kept = source.gaussian(Fraction(1), (runs,), 40) < stats.norm.ppf(keep)
        return np.asarray(kept == moved, dtype=float)

    fields = {"proved": says, "runs": 4000, "quick": 0, "seed": 1} | more
    return Audit(f"{gate.value} {says:g}", "response", gate, "all", "a bit", says, 0.0, scores, **fields)


@pytest.mark.parametrize(
    ("gate", "says", "truth", "verdict"),
    [
        (Gate.REFUTED, 0.5, 1.0, "refuted"),
        (Gate.REFUTED, 1.0, 0.5, "NOT REFUTED"),
        (Gate.CAUGHT, 0.5, 1.0, "caught"),
        (Gate.CAUGHT, 1.0, 1.0, "NOT CAUGHT"),
        (Gate.HOLDS, 1.0, 1.0, "not exceeded"),
        (Gate.HOLDS, 1.0, 1.3, "EXCEEDED"),
        (Gate.HOLDS, 1.0, 0.52, "NO POWER"),  # a control with a third of the noise would exceed
        (Gate.HOLDS, 1.0, 0.4, "NO POWER"),
    ],
)
def test_a_verdict_is_what_the_bounds_make_it(gate: Gate, says: float, truth: float, verdict: str) -> None:
    (finding,) = catalogue.run([_response(gate, says, truth)])
    assert finding.verdict == verdict
    assert finding.holds == verdict.islower()
    assert (finding.control is not None) == (gate is Gate.HOLDS)
    assert finding.error == error_of(gate)
    assert finding.error < (CONFIDENT if gate is Gate.HOLDS else ERROR)
    assert finding.to_json()["holds"] == finding.holds


def _list(monkeypatch: pytest.MonkeyPatch, *chosen: Audit) -> None:
    for where in (package, catalogue):
        monkeypatch.setattr(where, "audits", lambda _protocol=None: chosen)


def test_the_command_succeeds_when_all_is_as_it_must_be(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    _list(monkeypatch, _response(Gate.REFUTED, 0.5, 1.0), _response(Gate.HOLDS, 1.0, 1.0, quick=2000))
    answer = shell("audit")
    assert (answer.code, answer.out) == (0, "")
    assert "all 2 audits passed" in answer.err
    quick = shell.json("audit", "--quick")
    assert quick.code == 0
    assert [(a["audit"], a["runs"]) for a in quick.data["audits"]] == [("holds 1", 2000)]


@pytest.mark.parametrize("gate", Gate)
def test_the_command_fails_when_a_gate_does(shell: Shell, monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    _list(monkeypatch, _response(Gate.REFUTED, 0.5, 1.0), _response(gate, 2.0, 3.0 if gate is Gate.HOLDS else 1.0))
    answer = shell.json("audit")
    assert (answer.code, answer.json["error_code"]) == (1, "run_failed")
    assert f"1 of 2 audits failed: {gate.value} 2" in answer.json["message"]
    assert [a["holds"] for a in answer.data["audits"]] == [True, False]
    assert "1 of 2 audits failed" in shell("audit").err


def test_options_that_do_not_go_together_are_refused(shell: Shell, tmp_path: Path) -> None:
    assert shell("audit", "--runs", 100).code == 4
    assert shell("audit", tmp_path / "study.toml", "--quick").code == 4
    answer = shell("audit", "--protocol", "einstein-1905")
    assert answer.code == 4
    assert "noisy-gradient" in answer.err


# --- Somebody's own study -------------------------------------------------------------------------------------


def _own(protocol: str, **more: Any) -> Any:
    return study_of(protocol, **{"parties": 2, "d": 2, "epsilon": 1.0, "delta": 1e-3, "min_records": 10} | more)


def test_a_study_without_noise_is_found_out_and_one_with_it_is_not() -> None:
    found = audit_study(_own("pooled"), runs=40)
    assert found.exceeded
    assert found.bound == pytest.approx(found.most)
    kept = audit_study(_own("gop"), runs=40)
    assert not kept.exceeded
    assert kept.most > 1


def test_noise_that_goes_missing_on_the_way_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:

    def nothing(rng: Any, sigma: Any, size: int) -> Any:
        del rng, sigma
        return [0] * size

    monkeypatch.setattr(noise_shares, "discrete_gaussian", nothing)
    found = audit_study(_own("dp-gd", rounds=1), runs=40)
    assert found.exceeded
    assert (found.unit, found.key_bits) == ("record", 512)


@pytest.mark.parametrize("classes", [None, ("a", "b", "c")])
def test_the_canary_of_a_study_is_a_record_or_a_whole_party(classes: tuple[str, ...] | None) -> None:
    more: dict[str, Any] = {} if classes is None else {"label": Label(name="class", classes=classes)}
    study = _own("vote", d=3, **more)
    for whole in (False, True):
        pair = [made_up(study, whole=whole, moved=moved) for moved in (False, True)]
        assert all(set(data) == set(study.names) for data in pair)
        assert all(len(np.unique(records.y)) == len(classes or "ab") for data in pair for records in data.values())
        for name in study.names:
            a, b = (data[name] for data in pair)
            assert np.array_equal(a.X, b.X)
            turned = int(np.sum(a.y != b.y))
            canary = name == study.names[-1]
            assert turned == (0 if not canary else 1 if not whole else len(a.y) - len(classes or "ab") + 2)


def test_runs_that_could_show_nothing_are_refused() -> None:
    with raises(BadInput, "cannot_refute", 20, ..., ...):
        audit_study(_own("pooled"), runs=20)


def test_the_command_audits_a_file(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(_own("pooled").to_toml())
    answer = shell.json("audit", path, "--runs", 40)
    assert (answer.code, answer.data["exceeded"], answer.data["view"]) == (1, True, "released model")
    assert says(answer.json["hint"], "do_not_run")
    path.write_text(_own("gop").to_toml())
    answer = shell.json("audit", path, "--runs", 40)
    assert (answer.code, answer.data["exceeded"], answer.data["runs"]) == (0, False, 40)
    assert shell("audit", path, "--runs", 19).code == 4


# --- The page -------------------------------------------------------------------------------------------------


def test_the_page_has_every_audit_with_its_fixed_numbers_and_a_bound_on_the_right_side() -> None:
    rows = re.findall(r"^\| (.+?) \|$", PAGE.text, flags=re.MULTILINE)
    on_page = {cells_[0]: cells_ for cells_ in (row.split(" | ") for row in rows)}
    least = math.inf
    for a in audits():
        row = on_page[a.name]
        finding = Finding(a, a.runs, 0.0, 0.0, 0.0 if a.gate is Gate.HOLDS else None, 0.0)
        fixed = len(cells(finding)) - (4 if a.gate is Gate.HOLDS else 1)
        assert [c.strip() for c in row[:fixed]] == cells(finding)[:fixed]
        bound = float(row[fixed])
        assert (bound <= a.epsilon) == (a.gate is Gate.HOLDS)
        if a.gate is Gate.HOLDS:
            control, noticed, there = (float(c) for c in row[fixed + 1 : fixed + 4])
            assert control > a.epsilon
            assert 0.5 <= noticed < 1
            least = min(least, noticed)
            assert there > a.epsilon
        else:
            assert a.proved is None or bound < a.proved
        assert row[-1].strip() == Finding(a, a.runs, 0.0, bound, 99.0 if a.gate is Gate.HOLDS else None, 0.0).verdict
    assert f"would have noticed noise below {least:g} of the right amount" in " ".join(PAGE.text.split())


def test_the_page_says_who_attacks_what_and_how_the_runs_are_made() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.text.splitlines() if line.startswith("|")]
    said = {row[0]: row[1:] for row in rows if row[0].endswith(":")}
    assert said == {f"{a.name}:": [a.adversary, a.canary, a.how] for a in audits()}


def test_the_page_names_tests_and_files_that_there_are() -> None:
    assert len(PAGE.tests) > 4
    assert not PAGE.tests - defined_tests()
    assert len(PAGE.links) > 10
    assert not PAGE.broken_links

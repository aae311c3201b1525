"""The power of an audit: as computed and as it occurs, with controls and with adversaries whose records lead."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade import sweeps
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import fit
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.samplers import discrete_gaussian, discrete_laplace, l2_laplace, rounded_gaussian
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Study
from masquerade_lab.audit import Gate, audits, catalogue
from masquerade_lab.audit import study as study_module
from masquerade_lab.audit.bounds import epsilon_bound
from masquerade_lab.audit.canary import study_of
from masquerade_lab.audit.led import Led, descents, minimisers, objective_noise
from masquerade_lab.audit.less_noise import less_noise
from masquerade_lab.audit.power import enough_runs, fraction, least_separation, needed_separation, noticed
from masquerade_lab.audit.proofs import joint_scores
from masquerade_lab.audit.source import Source
from masquerade_lab.audit.study import ERROR, RUNGS, audit_study, check_runs, runs_enough
from masquerade_lab.baselines import gop
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.local_aggregation import joint_noise
from masquerade_protocols.local_aggregation.public import joint_noise_of
from tests.face_helpers import Shell
from tests.messages import pattern, raises, says, sentence
from tests.pages import Page

_Array = NDArray[np.float64]

PAGE = Page("docs/privacy/audits.md")
TARGET = (1.0, 0.05)  # epsilon and delta


def _normals(seed: int, runs: int, apart: float) -> tuple[_Array, _Array]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=runs), generator.normal(apart, size=runs)


def _exceeding(runs: int, apart: float, target: tuple[float, float], error: float, trials: int) -> int:
    epsilon, delta = target
    pairs = (_normals(seed, runs, apart) for seed in range(trials))
    return sum(epsilon_bound(*pair, delta, error) > epsilon for pair in pairs)


# --- Power ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("runs", "error"), [(1000, 0.01), (4000, 6e-5)])
def test_at_the_needed_separation_an_audit_nearly_always_exceeds_and_at_three_quarters_of_it_rarely(
    runs: int, error: float
) -> None:
    needed = least_separation(runs, *TARGET, error)
    trials = 120
    assert stats.binomtest(_exceeding(runs, needed, TARGET, error, trials), trials, 0.98).pvalue > 1e-3
    assert _exceeding(runs, 0.75 * needed, TARGET, error, trials) < 0.75 * trials


def test_more_runs_notice_a_smaller_separation_and_no_separation_refutes_more_than_so_few_runs_can_show() -> None:
    needed = [least_separation(runs, *TARGET, 1e-4) for runs in (500, 2000, 8000, 32000)]
    assert all(fewer > more for fewer, more in pairwise(needed))
    assert needed[-1] > mu_of(*TARGET)  # less than that is allowed
    assert math.isinf(needed_separation(40, 0.1, 5.0, 0.0, 0.01))


@pytest.mark.parametrize("scale", [0.5, 0.62, 0.9])
def test_the_noise_that_would_have_been_noticed_is_that_at_which_the_separation_is_what_is_needed(scale: float) -> None:
    runs, error = 20_000, 6e-5
    apart = scale * least_separation(runs, *TARGET, error)  # with all of the noise; 1/f times that with f of it
    found = noticed(_normals(1, runs, apart), _normals(2, runs, 2 * apart), *TARGET, error)
    assert found == pytest.approx(scale, rel=0.07)


def _noisy_bits(generator: np.random.Generator, runs: int, side: float, factor: float) -> _Array:
    """Return scores with atoms: how likely a Laplace copy of a number and its randomised sign make each data set."""
    rate = 0.7 / factor
    copy = side + np.rint(generator.laplace(scale=2 / rate, size=runs) * 2**28) / 2**28
    sign = np.where(generator.random(runs) < math.exp(0.3) / (1 + math.exp(0.3)), side, -side)
    return np.asarray(rate / 2 * (abs(copy + 1) - abs(copy - 1)) + 0.3 * sign)


@pytest.mark.parametrize("seed", [1, 3])
def test_what_would_have_been_noticed_is_found_for_scores_with_atoms_too(seed: int) -> None:
    generator, runs, target, error = np.random.default_rng(seed), 10_000, (1.0, 1e-6), 6e-5

    def pair(factor: float) -> tuple[_Array, _Array]:
        zeros, ones = (_noisy_bits(generator, runs, side, factor) for side in (1.0, -1.0))
        return zeros, ones

    found = noticed(pair(1.0), pair(0.5), *target, error)
    assert 0.5 < found < 0.75
    assert sum(epsilon_bound(*pair(found), target[1], error) > target[0] for _ in range(20)) >= 18


def test_data_sets_that_nothing_tells_apart_are_noticed_at_no_noise_and_those_far_apart_at_all_of_it() -> None:
    assert noticed(_normals(1, 4000, 0.0), _normals(2, 4000, 0.0), *TARGET, 1e-3) < 0.1
    assert noticed(_normals(1, 4000, 4.0), _normals(2, 4000, 8.0), *TARGET, 1e-3) == 1.0
    same = np.zeros(400)
    assert noticed((same, same), (same, same), *TARGET, 1e-3) == 0.0


def test_between_two_measured_fractions_the_separation_is_interpolated_and_beyond_them_it_grows_no_faster() -> None:
    assert fraction(2.0, 1.0, 2.0, (1.0, 0.5)) == 0.5
    assert fraction(2.0, 1.0, 1.0, (1.0, 0.5)) == 1.0
    assert fraction(4.0, 1.0, 2.0, (1.0, 0.5)) == pytest.approx(0.5**0.5)
    assert fraction(4.0, 1.0, 8.0, (1.0, 0.5)) == pytest.approx(0.25)  # and not .5^1.5, as from 1 to .5
    assert fraction(0.0, 0.0, 1.0, (1.0, 0.5)) == fraction(1.0, 1.0, math.inf, (1.0, 0.5)) == 0.0


@pytest.mark.parametrize("target", [(1.0, 0.05), (0.5, 0.1), (2.0, 0.02)])
def test_enough_runs_are_enough_and_a_third_of_them_are_not(target: tuple[float, float]) -> None:
    apart, error, trials = 2 * mu_of(*target), 0.01, 80
    enough = enough_runs(apart, *target, error)
    assert enough is not None
    assert _exceeding(enough, apart, target, error, trials) >= 0.93 * trials
    assert _exceeding(enough // 3, apart, target, error, trials) < 0.75 * trials


def test_enough_runs_without_delta_notice_randomised_response_and_no_number_is_named_beyond_reason() -> None:
    epsilon, generator = 1.0, np.random.default_rng(7)
    enough = enough_runs(2 * epsilon, epsilon, 0.0, 0.01, pure=True)
    assert enough is not None
    keep = math.exp(2 * epsilon) / (1 + math.exp(2 * epsilon))
    bits = [(generator.random(enough) > keep, generator.random(enough) < keep) for _ in range(40)]
    found = [epsilon_bound(zeros.astype(float), ones.astype(float), 0.0, 0.01) > epsilon for zeros, ones in bits]
    assert np.mean(found) > 0.9
    assert enough_runs(0.001, 1.0, 0.0, 0.01) is None
    assert enough_runs(2 * mu_of(30.0, 1e-6), 30.0, 1e-6, 0.01) is None


# --- The catalogue ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gop", "weighted-dp", "central-dp", "local-aggregation, sizes", "vote"])
def test_a_control_exceeds_and_so_do_runs_with_the_noise_that_would_have_been_noticed(name: str) -> None:
    (audit,) = (a for a in audits() if a.name == name and a.gate is Gate.HOLDS)
    (finding,) = catalogue.run([audit])
    assert finding.verdict == "not exceeded"
    assert finding.control is not None
    assert finding.control > audit.epsilon
    assert finding.noticed is not None
    assert 0.5 <= finding.noticed < 1
    assert finding.checked is not None
    assert finding.checked > audit.epsilon


def test_progress_counts_work_and_names_what_runs() -> None:
    (audit,) = (a for a in audits("vote") if a.gate is Gate.HOLDS)
    told: list[tuple[float, float, str]] = []
    catalogue.run([audit], quick=True, progress=lambda *values: told.append(values))
    assert [what for _, _, what in told] == ["vote"] * 2 + ["vote, noise x 0.5"] * 2 + [""]
    done = [now / of for now, of, _ in told]
    assert done == pytest.approx([0, 1 / 4, 1 / 2, 3 / 4, 1])


def test_the_cost_of_an_audit_says_about_how_long_its_runs_take() -> None:
    assert all(a.cost > 0 for a in audits())
    dear = sorted(audits(), key=lambda a: a.cost)[-2:]
    assert {a.name for a in dear} == {"weighted-dp, smallest party", "local-aggregation, smallest party"}


# --- Records that lead -----------------------------------------------------------------------------


def _led_study(protocol: str, **more: Any) -> Study:
    fields: dict[str, Any] = {"parties": 5, "d": 2, "epsilon": 1.0, "delta": 0.05, "calibration": "proven"} | more
    return study_of(protocol, **fields)


def _alike(a: _Array, b: _Array) -> float:
    return float(stats.ks_2samp(a, b).pvalue)


def test_weighted_records_have_the_gradients_of_all_their_copies() -> None:
    led, points = Led(40, -70.0), np.array([[-3.0, 0.5], [0.0, 0.0], [2.0, -1.0]])
    records = led.records()
    assert len(records.y) == 40
    for point, gradient in zip(points, led.gradients(points, "logistic"), strict=True):
        assert gradient == pytest.approx(gradient_sum(records.X, records.y, point, "logistic"))


def test_descending_together_ends_where_local_descents_end() -> None:
    study = _led_study("weighted-dp", rounds=100, regularization=0.0, section={"learning_rate": 7.5})
    led, still = Led(200, 70.0), Fraction(1, 10**6)
    own = local_descent.local_descent(study, 100, 7.5, still / led.n, led.records(), SimulationRng(1))
    assert descents(study, still, led, 2, Source(1, "still")) == pytest.approx(np.array([own, own]), abs=1e-5)
    sigma, rng = local_descent.proven_noise(study, 100).share / local_descent.UNIT, SimulationRng(2)
    slow = np.array(
        [local_descent.local_descent(study, 100, 7.5, sigma / led.n, led.records(), rng)[-1] for _ in range(150)]
    )
    fast, less = (descents(study, sigma * f, led, 4000, Source(3, "law"))[:, -1] for f in (1, Fraction(1, 2)))
    assert _alike(slow, fast) > 0.001
    assert _alike(slow, less) < 1e-3


def test_minimising_together_ends_where_gop_s_minimisers_lie() -> None:
    study, led = _led_study("gop", regularization=3e-4), Led(300, -62.0)
    noise, records = objective_noise(study, led.n), led.records()
    eta = Source(4, "eta").gaussian(noise.sigma, (30, 2), gop.FRACTION_BITS)
    extra = float(noise.Delta)
    for one, w in zip(eta, minimisers(study, led, eta, extra), strict=True):
        assert w == pytest.approx(fit(records.X, records.y, 3e-4, linear=one / led.n, extra=extra), abs=1e-5)
    rng = SimulationRng(5)
    slow = np.array([gop.gop(study, records, rng)[-1] for _ in range(150)])

    def released(factor: Fraction) -> _Array:
        source = Source(6, "law")
        drawn = source.gaussian(noise.sigma * factor, (4000, 2), gop.FRACTION_BITS)
        off = source.gaussian(noise.output * factor, (4000, 2), gop.FRACTION_BITS)
        return (minimisers(study, led, drawn, extra) + off)[:, -1]

    assert _alike(slow, released(Fraction(1))) > 0.001
    assert _alike(slow, released(Fraction(1, 2))) < 1e-3


@pytest.mark.parametrize("rule", ["selected", "floor", "sizes"])
def test_the_fast_noise_of_local_aggregation_has_the_law_of_a_party_s_share(rule: str) -> None:
    section = {"weights": "sizes"} if rule == "sizes" else {"scale": rule}
    study = _led_study("local-aggregation", colluders=4, regularization=1.0, section=section)
    noise, rng = joint_noise_of(study), SimulationRng(8)
    assert noise.scale_rule == rule
    if rule == "selected":
        noise = noise.of_class(4)  # twice the floor, which the audit's party has
    drawn = [joint_noise.draw(rng, noise) for _ in range(300)]
    slow = np.array(drawn, dtype=np.float64).ravel()
    fast, less = (joint_scores(study, 4000, False, Source(9, "law"), f) for f in (Fraction(1), Fraction(1, 2)))
    assert _alike(slow, fast - np.median(fast)) > 0.001
    assert _alike(slow, less - np.median(less)) < 1e-3


# --- Less noise through the roles --------------------------------------------------------------------

SAMPLERS = {
    "discrete Gaussian": (discrete_gaussian, "discrete_gaussian", (Fraction(1000), 4000)),
    "rounded Gaussian": (rounded_gaussian, "gaussian", (Fraction(7), 4000, Fraction(1 << 20))),
    "discrete Laplace": (discrete_laplace, "discrete_laplace", (Fraction(500), 4000)),
    "l2 Laplace": (l2_laplace, "l2_laplace", (Fraction(1, 9), 4000, Fraction(1 << 20))),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_draws_less_noise_for_as_long_as_it_is_asked_to(name: str) -> None:
    module, function, arguments = SAMPLERS[name]

    def size() -> float:
        return float(np.abs(np.array(getattr(module, function)(SimulationRng(1), *arguments), dtype=float)).mean())

    before, original = size(), getattr(module, function)
    with less_noise(Fraction(1, 4)) as drawn:
        assert size() == pytest.approx(before / 4, rel=0.1)
        kept = getattr(module, function)  # as a module would that is imported meanwhile
    assert drawn.calls == 1
    assert getattr(module, function) is original
    assert np.array_equal(kept(SimulationRng(1), *arguments), original(SimulationRng(1), *arguments))


def test_less_noise_reaches_modules_that_imported_a_sampler_by_name_and_an_error_ends_it() -> None:
    original = vars(local_descent)["gaussian"]

    def fails() -> None:
        with less_noise(Fraction(1, 2)):
            assert vars(local_descent)["gaussian"] is not original
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert vars(local_descent)["gaussian"] is original


# --- Somebody's own study ---------------------------------------------------------------------------

UNIT = Fraction(1 << 20)


def _release(apart: float) -> Any:
    """Return a simulation whose model is the canary's side and Gaussian noise."""

    def simulated(_study: Any, data: Any, *, seed: int, **_options: Any) -> Any:
        noise = rounded_gaussian.gaussian(SimulationRng(seed), Fraction(1), 2, UNIT)
        side = np.array([0.0, apart if data["party-2"].y[-1] < 0 else 0.0])
        return SimpleNamespace(model=SimpleNamespace(weights=side + np.array(noise) / float(UNIT)))

    return simulated


def _own(**more: Any) -> Study:
    return study_of("gop", **{"parties": 2, "d": 2, "epsilon": 1.0, "delta": 0.05} | more)


@pytest.mark.parametrize(
    ("apart", "verdict", "low", "high"),
    [
        (4.0, "exceeded", 1.0, 1.0),
        (1.3, "not exceeded", 0.5, 0.95),
        (0.4, "no power", 0.05, 0.4),
        (0.0, "no power", 0.0, 0.01),
    ],
)
def test_an_own_study_s_verdict_follows_from_its_control_and_it_says_what_would_have_been_noticed(
    monkeypatch: pytest.MonkeyPatch, apart: float, verdict: str, low: float, high: float
) -> None:
    monkeypatch.setattr(sweeps, "simulate", _release(apart))
    told: list[tuple[int, int, str]] = []
    found = audit_study(_own(), runs=400, progress=lambda *values: told.append(values))
    assert found.verdict == verdict == found.to_json()["verdict"]
    assert low <= found.noticed <= high
    assert (found.control is None) == found.exceeded
    assert all(done < of for done, of, _ in told)
    assert told[0][2] == sentence("all_of_the_noise")
    if not apart:  # nothing was measured that runs could confirm
        assert len({what for _, _, what in told}) == 2 + len(RUNGS)
    assert ("noise x 0.5" in {what for _, _, what in told}) == (verdict != "exceeded")


def test_a_protocol_with_a_sampler_of_its_own_has_no_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "simulate", _release(0.0))
    monkeypatch.setattr(study_module, "less_noise", lambda _factor: nullcontext(SimpleNamespace(calls=0)))
    found = audit_study(_own(), runs=100)
    assert (found.control, found.noticed, found.verdict) == (None, 0.0, "no power")


def test_how_many_runs_are_enough_follows_from_the_privacy_target() -> None:
    assert runs_enough(_own()) == enough_runs(2 * mu_of(*TARGET), *TARGET, ERROR)
    larger = runs_enough(_own(delta=1e-6))
    assert larger is not None
    assert larger > 100_000
    pure: Any = SimpleNamespace(privacy=SimpleNamespace(epsilon=1.0, delta=0.0))
    assert runs_enough(pure) == enough_runs(2.0, 1.0, 0.0, ERROR, pure=True)


def test_runs_that_cannot_refute_a_target_are_refused_with_the_number_that_can() -> None:
    with raises(BadInput, "cannot_refute", ..., ..., ...) as refused:
        check_runs(_own(epsilon=4.0), 400)
    number = int(str(refused.value.hint).split("--runs ")[1].split()[0])
    check_runs(_own(epsilon=4.0), number)
    with pytest.raises(BadInput):
        check_runs(_own(epsilon=4.0), number - 10)
    with pytest.raises(BadInput) as beyond:
        check_runs(_own(epsilon=40.0), 400)
    assert says(str(beyond.value.hint), "cannot_be_audited")


def test_the_command_says_beforehand_what_is_enough_and_afterwards_what_would_have_been_noticed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    shell, path = Shell(capsys), tmp_path / "study.toml"
    path.write_text(_own().to_toml())
    monkeypatch.setattr(sweeps, "simulate", _release(0.4))
    answer = shell("audit", path, "--runs", 400)
    words = " ".join(answer.err.split())
    enough = runs_enough(_own())
    assert answer.code == 0
    assert words.index(sentence("would_be_enough", f"{enough:,}")) < words.index("no power: 400 runs")
    assert says(words, "half_shows", ...)
    assert [" 0." in said for said in re.findall(pattern("would_have_noticed", ...), words)] == [True]
    monkeypatch.setattr(sweeps, "simulate", _release(0.7))
    words = " ".join(shell("audit", path, "--runs", 1200).err.split())
    assert says(words, "are_enough", "1,200")
    assert "not exceeded: 1,200 runs" in words


def test_the_page_says_how_many_runs_are_enough() -> None:
    text = " ".join(PAGE.text.split())
    numbers = [runs_enough(_own(delta=delta)) for delta in (0.05, 1e-3, 1e-6)]
    said = "For epsilon = 1 it is {:,} runs with delta = 0.05, {:,} with delta = 0.001 and {:,} with delta = 1e-6"
    assert said.format(*numbers) in text

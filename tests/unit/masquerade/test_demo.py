"""The parts of a demonstration: its data, its directory, its display, and its failures."""

import csv
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from masquerade import datasets
from masquerade.datasets import Cohort, breast_cancer, party_names, returning, shares, simulated, suited
from masquerade.demo import prepare
from masquerade.demo.comparison import compare
from masquerade.demo.own import Dealing, own_cohort
from masquerade.demo.processes import Event, Participants, _Child, error_from
from masquerade.demo.tuned import tuned_answers
from masquerade.demo.view import Lines, Screen, view_for
from masquerade.demo.worth import errs_less, gained
from masquerade.report import sparkline, statement
from masquerade.simulation import WATERMARK, simulate
from masquerade.working import Working
from masquerade_core.data.loading import load_csv
from masquerade_core.data.pooling import pool
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, DeadlinePassed, MasqueradeError, RefusedLocally, RunFailed
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.learning.gradients import gradient_sum
from masquerade_core.model import Model, answers_of, error_on
from masquerade_core.privacy.expectation import Verdict
from masquerade_core.privacy.noise.output_perturbation import SMALL_NOISE
from masquerade_core.study import Label, Study
from masquerade_core.study_files import load_study
from masquerade_host.store.keyfiles import load_keys
from masquerade_lab.reproduce.dp_gd import clipped_descent
from masquerade_protocols import DEFAULT_PROTOCOL, PROTOCOLS, protocol_of, statement_of
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.psgd import roles as psgd
from masquerade_protocols.psgd import schedule as psgd_schedule
from masquerade_protocols.psgd.noiseless import noise_ratio, with_epsilon, without_noise
from tests.face_helpers import Shell, split_csv
from tests.messages import pattern, raises, says, sentence

_TUNED: dict[tuple[bytes, bytes], NDArray[np.float64]] = {}
"""The answers of a classifier by the records it learned from and those it answers for."""


def _tuned(records: Dataset, X: NDArray[np.float64]) -> NDArray[np.float64]:
    key = (records.X.tobytes() + records.y.tobytes(), X.tobytes())
    if key not in _TUNED:
        _TUNED[key] = tuned_answers(records, X)
    return _TUNED[key]


@pytest.fixture
def _tuned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is learned without privacy be learned once: it depends on neither colluders nor noise."""
    monkeypatch.setattr("masquerade.demo.comparison.tuned_answers", _tuned)


# --- Data ------------------------------------------------------------------------


def test_simulated_records_are_the_same_on_every_machine_and_unevenly_spread() -> None:
    cohort = simulated(5)
    sizes = [len(records.rows) for records in cohort.parties.values()]
    assert sum(sizes) == 20_000
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 5
    assert min(sizes) >= cohort.min_records
    assert len(cohort.features) == 10
    assert len(cohort.test.rows) == 5_000
    assert [r.rows for r in simulated(5).parties.values()] == [r.rows for r in cohort.parties.values()]


@pytest.mark.parametrize("K", [2, 3, 7, 20])
def test_sizes_add_up_whatever_the_number_of_parties(K: int) -> None:
    sizes = shares(10_001, K, smallest=0.3)
    assert sum(sizes) == 10_001
    assert sizes[-1] == pytest.approx(0.3 * sizes[0], abs=2)
    assert len(set(party_names(K))) == K


def test_names_go_on_where_the_letters_end() -> None:
    assert party_names(3) == ("hospital-a", "hospital-b", "hospital-c")
    assert party_names(30)[::29] == ("hospital-01", "hospital-30")


@pytest.mark.usefixtures("_tuned_once")
@pytest.mark.parametrize("colluders", [0, 1])
def test_in_the_default_demo_joining_helps_as_was_forecast_and_the_privacy_target_is_proved(
    colluders: int, tmp_path: Path
) -> None:
    """Forecast, figure and last sentence agree in 19 of 20 runs at least. One answer for all errs in 42 %."""
    cohort = suited(PROTOCOLS[DEFAULT_PROTOCOL], 5)
    plan = prepare(cohort, epsilon=1.0, protocol=DEFAULT_PROTOCOL, directory=tmp_path / "d")
    assert (plan.study.study.protocol, plan.study.proven, plan.study.protocol) == ("dp-whitened", True, {})
    privacy = plan.study.privacy.model_copy(update={"colluders": colluders})
    crypto = plan.study.crypto.model_copy(update={"key_bits": 512})
    study = plan.study.model_copy(update={"privacy": privacy, "crypto": crypto})
    (model, *_) = protocol_of(study).statement(study)
    assert model.epsilon is not None
    assert model.epsilon <= 1.0
    assert model.delta == 1e-6
    data = {name: load_csv(plan.data_file(name), study) for name in study.names}
    test = load_csv(plan.test_file, study, need_label=False)
    released = [
        simulate(study, data, seed=seed).model for seed in range(20 if colluders else 2)
    ]  # without colluders there is less noise
    found = [error_on(model, test) for model in released]
    comparison = compare(study, cohort, released[0])
    assert comparison.noiseless == sentence("same_steps_exactly")
    assert comparison.pooled < 0.08
    assert comparison.majority > 0.4
    tell = protocol_of(study).expectation
    assert tell is not None
    assert tell(study).verdict is Verdict.HALF
    own = [_tuned(part, test.X) != test.y for part in data.values()]
    assert min(map(np.mean, own)) == comparison.best_single
    agree = [
        says(gained(error, comparison.pooled, comparison.majority, Verdict.HALF), "forecast_judged", "it was", ...)
        and all(errs_less(answers_of(model, test.X, None) != test.y, wrong) for wrong in own)
        for model, error in zip(released, found, strict=True)
    ]
    assert sum(agree) >= 0.95 * len(agree)
    assert comparison.alike is not None
    assert comparison.pooled < comparison.alike < comparison.best_single
    assert says(comparison.worth, "worth_it_for_all", ...)


@pytest.mark.usefixtures("_tuned_once")
@pytest.mark.parametrize(("colluders", "runs", "most"), [(0, 9, 0.0565), (1, 20, 0.06)])
def test_the_default_protocol_is_good_on_real_records_and_its_privacy_target_is_proved(
    colluders: int, runs: int, most: float, tmp_path: Path
) -> None:
    """20 runs err in 6 % on average at most. The more frequent answer errs in 26 %.

    One run errs in 3.9 %, with a standard deviation of 1.1 %. So 9 runs with the lower limit tell an error of 6.5 % as
    surely as 20 runs with the other one, and a good protocol passes by 4.7 standard deviations of their mean.
    """
    cohort = breast_cancer(5)
    plan = prepare(cohort, epsilon=1.0, protocol=DEFAULT_PROTOCOL, directory=tmp_path / "d")
    privacy = plan.study.privacy.model_copy(update={"colluders": colluders})
    study = plan.study.model_copy(update={"privacy": privacy})
    (model, *_) = protocol_of(study).statement(study)
    assert model.epsilon is not None
    assert model.epsilon <= 1.0
    assert model.delta == 1e-6
    data = {name: load_csv(plan.data_file(name), study) for name in study.names}
    test = load_csv(plan.test_file, study, need_label=False)
    released = [simulate(study, data, seed=seed).model for seed in range(runs)]
    found = [error_on(model, test) for model in released]
    comparison = compare(study, cohort, released[0])
    assert comparison.pooled < 0.05
    assert comparison.majority > 0.2
    assert np.mean(found) <= most
    assert max(found) < comparison.majority - 0.1


def test_who_returns_is_made_up_alike_on_every_machine_and_each_hospital_sees_another_part() -> None:
    cohort = returning(5)
    sizes = [len(records.rows) for records in cohort.parties.values()]
    assert (sum(sizes), min(sizes) >= cohort.min_records, len(cohort.test.rows)) == (1_500, True, 5_000)
    assert [r.rows for r in returning(5).parties.values()] == [r.rows for r in cohort.parties.values()]
    assert says(" ".join(cohort.notes), "made_up_story")
    assert says(" ".join(cohort.notes), "all_of_one_kind")
    widths = np.array([[f.max - f.min for f in cohort.features]])  # type: ignore[operator]  # all are numbers
    spread = np.array([np.array(r.rows)[:, :-1].astype(float).std(axis=0) for r in cohort.parties.values()]) / widths
    narrow = spread < 0.1
    assert narrow.sum(axis=1).tolist() == [4] * 5
    assert narrow.sum(axis=0).tolist() == [2] * 10
    assert spread[~narrow].min() > 0.25


@pytest.mark.parametrize(("K", "records"), [(2, 1_500), (5, 1_500), (17, 5_100)])
def test_more_hospitals_have_more_patients(K: int, records: int) -> None:
    cohort = returning(K)
    assert (len(cohort.parties), sum(len(r.rows) for r in cohort.parties.values())) == (K, records)


def test_too_little_for_clipped_steps_comes_with_an_epsilon_that_would_do(tmp_path: Path) -> None:
    cohort = breast_cancer(5)
    plan = prepare(cohort, epsilon=0.2, protocol="dp-gd", directory=tmp_path / "d")
    data = {name: load_csv(plan.data_file(name), plan.study) for name in plan.study.names}
    w = clipped_descent(pool(plan.study, data), plan.study, dp_gd.noise_of(plan.study), "few")
    comparison = compare(plan.study, cohort, Model(tuple(w.tolist()), None))
    assert comparison.noise_ratio > 0.5
    assert says(comparison.advice, "scores_moved", ...)
    assert comparison.enough_epsilon is not None
    assert comparison.enough_epsilon > 0.4
    tell = protocol_of(plan.study).expectation
    assert tell is not None
    foreseen = tell(plan.study)
    assert says(comparison.advice, "epsilon_would_do", f"about {foreseen.enough_epsilon:g}")  # as before the run
    assert f"{foreseen.enough_records:,} records in place of 456" in comparison.advice


def test_records_suit_the_protocol_and_the_number_of_parties() -> None:
    assert suited(PROTOCOLS["dp-gd"], 17).differ
    assert not suited(PROTOCOLS["psgd"], 3).differ


@pytest.mark.parametrize("K", [2, 5])
def test_where_coefficients_are_released_records_are_such_that_they_can_be_told(K: int, tmp_path: Path) -> None:
    plan = prepare(suited(PROTOCOLS["dp-glm"], K), epsilon=1.0, protocol="dp-glm", directory=tmp_path / "d")
    data = {name: load_csv(plan.data_file(name), plan.study, coding="treatment") for name in plan.study.names}
    found = simulate(plan.study, data, seed=K).model.coefficients
    assert found is not None
    assert [row.reason for row in found.rows if not row.told] == []


_drawn = cache(simulated)
"""Most protocols get the same records, and nobody changes them."""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_where_the_noise_hides_a_whole_party_a_demonstration_has_hundreds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "simulated", _drawn)
    cohort = suited(PROTOCOLS[name])
    assert len(cohort.parties) == (200 if PROTOCOLS[name].protects_parties else 5)
    if not (PROTOCOLS[name].makes_model and PROTOCOLS[name].protects_parties):
        assert not PROTOCOLS[name].protects_parties
        return
    plan = prepare(cohort, epsilon=1.0, protocol=name, directory=tmp_path / "d")
    assert plan.in_memory
    assert sorted(path.name for path in plan.directory.iterdir()) == [
        "auxiliary.csv",
        "charlie",
        "study.toml",
        "test.csv",
    ]
    tell = PROTOCOLS[name].expectation
    assert tell is not None
    assert not tell(plan.study).poor
    assert statement_of(plan.study)[0].unit == "party"
    few = prepare(suited(PROTOCOLS[name], 5), epsilon=1.0, protocol=name, directory=tmp_path / "e")
    assert tell(few.study).poor


def test_many_parties_in_memory_say_that_they_are_no_private_release(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_MANY", 65)
    monkeypatch.setattr(datasets, "_RECORDS_OF_MANY", 1_300)
    ran = shell("demo", "--protocol", "soft", "--epsilon", "5", "--out", str(tmp_path / "d"), "--format", "json")
    assert "65 parties" in ran.err
    assert says(ran.err, "in_one_process")
    data = json.loads(ran.out)["data"]
    assert (data["parties"], data["demo"]["ciphertexts"]) == (65, 0)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == [
        "auxiliary.csv",
        "charlie",
        "report.txt",
        "study.toml",
        "test.csv",
    ]
    assert json.loads((tmp_path / "d" / "charlie" / "result.json").read_text())["watermark"] == WATERMARK
    figures = data["demo"]["private_figures"]
    assert data["metrics"]["test_error"] < figures["majority"] - 0.2
    assert says(figures["worth"], "parties_looked_at", 65, 10)


def test_local_aggregation_on_simulated_records_is_within_a_point_of_no_privacy_at_its_noise(tmp_path: Path) -> None:
    cohort = simulated(5)
    plan = prepare(cohort, epsilon=1.0, protocol="local-aggregation", calibration="paper", directory=tmp_path / "d")
    study = plan.study
    comparison = compare(study, cohort)
    data = {name: load_csv(plan.data_file(name), study) for name in study.names}
    test = load_csv(plan.test_file, study, need_label=False)
    average = np.mean([fit(d.X, d.y, study.model.regularization) for d in data.values()], axis=0)
    b = 4 / (min(len(d.y) for d in data.values()) * study.privacy.epsilon * study.model.regularization)
    noise = np.random.default_rng(0).laplace(scale=b, size=(200, study.d))
    errors = [error_rate(test.X, test.y, average + eta) for eta in noise]
    assert np.quantile(errors, 0.9) < comparison.pooled + 0.01
    assert comparison.best_single > comparison.pooled
    assert comparison.without_noise == error_rate(test.X, test.y, average)
    assert comparison.advice == ""


def test_the_real_records_lie_within_their_public_bounds_and_are_too_few(tmp_path: Path) -> None:
    cohort = breast_cancer(5)
    plan = prepare(cohort, epsilon=1.0, protocol="local-aggregation", calibration="paper", directory=tmp_path / "d")
    total = sum(len(load_csv(plan.data_file(name), plan.study).y) for name in plan.study.names)  # bounds are checked
    assert total + len(cohort.test.rows) == 569
    comparison = compare(plan.study, cohort)
    assert comparison.advice.count(". ") == 2  # what was seen, why, and what to do
    assert says(comparison.advice, "too_few_for_noise_of_paper", sentence("noise_of_paper"))
    assert comparison.enough_epsilon is not None
    assert says(comparison.advice, "epsilon_would_do", f"{float(f'{comparison.enough_epsilon:.2g}'):g}")
    assert comparison.enough_epsilon > 10


# --- Gradient protocols --------------------------------------------------------------


def _descent(tmp_path: Path, protocol: str, *, epsilon: float = 1.0, rounds: int = 30) -> tuple[Study, Cohort]:
    cohort = simulated(3, n=600)
    plan = prepare(
        cohort, epsilon=epsilon, protocol=protocol, rounds=rounds, calibration="paper", directory=tmp_path / protocol
    )
    return plan.study, cohort


def _together(study: Study, directory: Path) -> Dataset:
    return pool(study, {name: load_csv(directory / name / "records.csv", study) for name in study.names})


@pytest.mark.parametrize("protocol", ["psgd", "noisy-gradient", "decaying-budget"])
def test_the_descent_without_noise_is_the_protocols_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    study, _ = _descent(tmp_path, protocol)
    small = study.model_copy(update={"crypto": study.crypto.model_copy(update={"key_bits": 512})})
    data = {name: load_csv(tmp_path / protocol / name / "records.csv", study) for name in study.names}
    monkeypatch.setattr(psgd, "gaussian", lambda _rng, _sigma, d, _unit: [0] * d)
    monkeypatch.setattr(psgd, "l2_laplace", lambda _rng, _beta, d, _unit, _tv_bits: [0] * d)
    run = simulate(small, data)
    variant = {"psgd": psgd_schedule.psgd, "noisy-gradient": psgd_schedule.noisy}.get(protocol, psgd_schedule.decaying)
    assert without_noise(study, pool(study, data), variant) == pytest.approx(np.array(run.model.weights), abs=1e-6)


@pytest.mark.parametrize("protocol", ["psgd", "noisy-gradient"])
def test_the_noises_part_of_the_scores_is_what_draws_give(tmp_path: Path, protocol: str) -> None:
    study, _ = _descent(tmp_path, protocol, epsilon=4.0)
    records = _together(study, tmp_path / protocol)
    variant = {"psgd": psgd_schedule.psgd, "noisy-gradient": psgd_schedule.noisy}[protocol]
    clean, N = without_noise(study, records, variant), len(records.y)
    schedule = variant(study, N)
    rng = np.random.default_rng(3)
    lam, a = (
        study.model.regularization + float(schedule.Delta),
        1 / (study.model.regularization + float(schedule.Delta)),
    )
    squares = []
    for _ in range(150):
        eta, w = rng.normal(scale=float(schedule.sigma), size=study.d), np.zeros(study.d)
        for t in range(30):
            u = rng.normal(size=(study.K, study.d))
            lengths = rng.gamma(study.d, 1 / float(schedule.beta(t)), size=(study.K, 1))
            rho = (u / np.linalg.norm(u, axis=1, keepdims=True) * lengths).sum(axis=0)
            gradient = gradient_sum(records.X, records.y, w) + rho + eta
            w = w - a / (a * max(1.0, 0.25 + lam) + t) * (gradient / N + lam * w)
        squares.append(np.mean((records.X @ (w - clean)) ** 2) / np.mean((records.X @ clean) ** 2))
    assert noise_ratio(study, records, clean, variant) == pytest.approx(np.sqrt(np.mean(squares)), rel=0.12)
    assert noise_ratio(with_epsilon(study, 8.0), records, clean, variant) < noise_ratio(study, records, clean, variant)


def test_too_few_records_for_psgd_come_with_an_epsilon_that_would_do(tmp_path: Path) -> None:
    study, cohort = _descent(tmp_path, "psgd", epsilon=0.1)
    comparison = compare(study, cohort)
    assert comparison.noiseless == sentence("on_exact_gradients", "30 rounds")
    assert comparison.noise_ratio > 1
    assert comparison.enough_epsilon is not None
    assert f"epsilon = {float(f'{comparison.enough_epsilon:.2g}'):g} would do" in comparison.advice
    enough, _ = _descent(tmp_path / "b", "psgd", epsilon=comparison.enough_epsilon)
    assert compare(enough, cohort).noise_ratio == pytest.approx(SMALL_NOISE, rel=0.15)
    assert compare(enough, cohort).advice == ""


def test_the_rejected_protocols_say_why_they_are(tmp_path: Path) -> None:
    study, cohort = _descent(tmp_path, "decaying-budget", rounds=40)
    comparison = compare(study, cohort)
    assert comparison.enough_epsilon is None
    N = sum(len(records.rows) for records in cohort.parties.values())
    lengths = [np.sqrt(3 * 10 * 11) * 2 * 2.0**t for t in range(1, 41)]  # K rho, at beta = epsilon/(2 2^t)
    first = next(t for t, length in enumerate(lengths, 1) if length > N)
    assert f"from round {first} of 40 on" in comparison.advice
    study, cohort = _descent(tmp_path, "noisy-gradient")
    assert says(compare(study, cohort).advice, "spent_in_every_round", "30 rounds")


def test_too_many_parties_for_the_real_records_are_refused() -> None:
    with raises(BadInput, "too_few_to_deal_out", ..., 20):
        breast_cancer(20)


# --- The user's own records ------------------------------------------------------


def test_own_records_are_split_by_a_column_and_a_fifth_is_held_out(tmp_path: Path) -> None:
    file = split_csv(tmp_path / "all.csv", ("São Paulo", "Oslo", "Charlie", "oslo!"), n=50)
    cohort = own_cohort(file, Dealing("site"), label=Label(name="ill", positive="yes"))
    assert set(cohort.parties) == {"sao-paulo", "oslo", "charlie-party", "oslo-2"}
    kept = [row for records in cohort.parties.values() for row in records.rows]
    with file.open() as lines:
        rows = [tuple(row[c] for c in ("age", "sex", "ill")) for row in csv.DictReader(lines)]
    assert sorted([*map(tuple, kept), *map(tuple, cohort.test.rows)]) == sorted(rows)
    assert len(cohort.test.rows) == pytest.approx(len(rows) / 5, abs=1)
    age, sex = cohort.features
    assert sex.levels == ("f", "m")
    assert age.min is not None
    assert age.max is not None
    assert age.min % 10 == age.max % 10 == 0  # rounded outwards
    prepare(cohort, epsilon=1.0, protocol="local-aggregation", directory=tmp_path / "d")


def test_own_records_with_a_study_take_its_bounds(shell: Shell, tmp_path: Path) -> None:
    file = split_csv(tmp_path / "all.csv")
    shell(
        "study", "new", "--output", tmp_path / "s.toml", "--throwaway-keys", "--feature", "age:0:120",
        "--label", "ill:yes", "--min-records", "25",
    )  # fmt: skip
    cohort = own_cohort(file, Dealing("site"), study=load_study(tmp_path / "s.toml")[0])
    assert [(f.name, f.min, f.max) for f in cohort.features] == [("age", 0.0, 120.0)]
    assert cohort.min_records == 25


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--data", "all.csv"], "which column is to be predicted"),
        (["--data", "all.csv", "--by", "site"], "which column is to be predicted"),
        (["--data", "all.csv", "--by", "nowhere", "--label", "ill:yes"], "no column 'nowhere'"),
        (["--data", "all.csv", "--by", "site", "--label", "well:yes"], "no column 'well'"),
        (["--data", "all.csv", "--by", "age", "--label", "ill:yes"], "different values"),
        (["--data", "gone.csv", "--by", "site", "--label", "ill:yes"], "gone.csv"),
        (["--data", "all.csv", "--by", "site", "--label", "ill:yes", "--parties", "3"], "--parties"),
        (["--data", "all.csv", "--label", "ill:yes", "--parties", "1"], "--parties is 1"),
        (["--data", "all.csv", "--label", "ill:yes", "--parties", "40"], "too few for 40 parties"),
        (["--data", "all.csv", "--label", "ill:yes", "--dataset", "simulated"], "--dataset and --data"),
        (["--data", "all.csv", "--label", "ill:yes", "--ignore", "ages"], "no column 'ages'"),
        (["--data", "all.csv", "--label", "ill:yes", "--test", "gone.csv"], "gone.csv"),
        (["--data", "all.csv", "--label", "ill:sick"], "never 'sick'"),
        (["--data", "all.csv", "--label", "site:north"], "3 different values"),
        (["--by", "site"], "--data"),
        (["--test", "all.csv"], "--data"),
        (["--ignore", "age"], "--data"),
        (["--parties", "1"], "--parties is 1"),
        (["--epsilon", "-1"], "epsilon"),
        (["--protocol", "telepathy"], "telepathy"),
        (["--protocol", "gop"], "a baseline"),
        (["--protocol", "local-aggregation", "--rounds", "5"], "no rounds"),
        (["--protocol", "psgd", "--rounds", "0"], "rounds"),
        (["--out", "."], "not empty"),
    ],
)
def test_a_demo_that_cannot_begin_says_why_and_leaves_nothing(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], named: str
) -> None:
    split_csv(tmp_path / "all.csv")
    monkeypatch.chdir(tmp_path)
    answer = shell.json("demo", *words)
    assert answer.code == 4
    assert named in answer.json["message"]
    assert not list(tmp_path.glob("runs/*"))
    assert (tmp_path / "all.csv").exists()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


# --- The directory ---------------------------------------------------------------


@pytest.fixture
def tiny() -> Cohort:
    return simulated(3, n=300)


def test_each_participant_has_a_private_place_of_its_own(tmp_path: Path, tiny: Cohort) -> None:
    plan = prepare(tiny, epsilon=2.0, protocol="local-aggregation", directory=tmp_path / "d")
    assert stat.S_IMODE(plan.directory.stat().st_mode) == 0o700
    assert {p.name for p in plan.directory.iterdir()} == {
        "study.toml", "test.csv", "charlie", "hospital-a", "hospital-b", "hospital-c",
    }  # fmt: skip
    for name in plan.study.names:
        assert stat.S_IMODE(plan.home(name).stat().st_mode) == 0o700
        assert load_keys(plan.key_file(name)).public == plan.study.party(name).key
        assert len(load_csv(plan.data_file(name), plan.study).y) == len(tiny.parties[name].rows)
    assert load_study(plan.study_file)[0] == plan.study
    assert plan.study.privacy.epsilon == 2.0
    assert plan.study.address.startswith("tcp://127.0.0.1:")


# --- Processes -------------------------------------------------------------------

PERFORMER = """
import json, sys, time
print(json.dumps({"event": "stage", "name": "training"}), flush=True)
print("not for us", flush=True)
print(json.dumps(["neither"]), flush=True)
sys.stderr.write("a warning\\n")
%s
"""


def _perform(participants: Participants, tmp_path: Path, end: str) -> list[Event]:
    (tmp_path / "performer.py").write_text(PERFORMER % end)
    environment = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{environment}"
    try:
        participants.start("north", "performer", [])
    finally:
        os.environ["PYTHONPATH"] = environment
    events = []
    until = time.monotonic() + 100  # on a busy machine; what comes is heard at once
    while time.monotonic() < until:
        if (event := participants.hear(0.1)) is not None:
            events.append(event)
            if event.name in {"exit", "stage"} and (event.name == "exit" or "sleep" in end):
                break
    return events


def test_a_participants_events_are_read_and_other_output_is_not(tmp_path: Path) -> None:
    with Participants() as participants:
        events = _perform(participants, tmp_path, "sys.exit(6)")
    assert [event.name for event in events] == ["stage", "exit"]
    assert events[1].fields == {"code": 6, "stderr": "a warning\n"}


def test_a_process_that_ends_before_all_its_listeners_have_begun_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a listener can come to its end before the next one is made."""

    class Hasty(threading.Thread):
        def start(self) -> None:
            super().start()
            self.join(100)

    monkeypatch.setattr("masquerade.demo.processes.threading.Thread", Hasty)
    with Participants() as participants:
        events = _perform(participants, tmp_path, "sys.exit(6)")
    assert [(event.name, event.fields.get("code")) for event in events] == [("stage", None), ("exit", 6)]


@pytest.mark.parametrize("stubborn", [False, True])
def test_nobody_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stubborn: bool) -> None:
    monkeypatch.setattr("masquerade.demo.processes._GRACE", 0.5)
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" if stubborn else ""
    told = 'print(json.dumps({"event": "stage", "name": "x"}), flush=True)'
    with Participants() as participants:
        _perform(participants, tmp_path, f"{ignore}{told};time.sleep(60)")
        assert participants.running() == ("north",)
        if stubborn:
            participants.hear(5)
    assert participants.running() == ()


def test_an_interrupt_between_a_start_and_its_entry_in_the_list_leaves_nobody_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []

    def interrupted(process: subprocess.Popen[str]) -> _Child:
        started.append(process)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        return _Child(process)

    monkeypatch.setattr("masquerade.demo.processes._Child", interrupted)
    with pytest.raises(KeyboardInterrupt), Participants() as participants:
        _perform(participants, tmp_path, "time.sleep(60)")
    assert started[0].poll() is not None
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("bad_input", BadInput),
        ("refused_locally", RefusedLocally),
        ("deadline_passed", DeadlinePassed),
        ("?", RunFailed),
    ],
)
def test_a_participants_error_keeps_its_words_and_its_exit_code(code: str, kind: type[MasqueradeError]) -> None:
    error = error_from("north", {"error_code": code, "message": "a sentence", "hint": "do this"})
    assert type(error) is kind
    assert (error.message, error.hint) == ("north: a sentence", "do this")


# --- What is shown ---------------------------------------------------------------

EVENTS = [
    Event("charlie", "listening", {"address": "tcp://127.0.0.1:5555"}),
    Event("north", "stage", {"name": "training"}),
    Event("south", "stage", {"name": "training"}),
    Event("north", "stage_done", {"name": "training", "seconds": 0.5, "messages": 0, "bytes": 0}),
    Event("north", "connecting", {"address": "tcp://127.0.0.1:5555"}),
    Event("charlie", "connected", {"party": "north", "joined": 1, "parties": 2}),
    Event("charlie", "stage", {"name": "keys"}),
    Event("charlie", "stage_done", {"name": "keys", "seconds": 1.25, "messages": 12, "bytes": 34_567}),
    Event("charlie", "traffic", {"messages": 12, "bytes": 34_567}),
]
STAGES = ("training", "keys", "stage 1: smallest data set")


def _console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, height=40, color_system=None)


def _shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_pipe_gets_plain_lines_and_a_terminal_a_screen() -> None:
    assert isinstance(view_for(_console(terminal=False), ("north", "south"), STAGES, "north"), Lines)
    assert isinstance(view_for(_console(terminal=True), ("north", "south"), STAGES, "north"), Screen)


def test_plain_lines_tell_who_is_connected_and_what_each_stage_cost() -> None:
    console = _console(terminal=False)
    with Lines(console) as view:
        for event in EVENTS:
            view.tell(event)
    assert _shown(console).splitlines() == [
        sentence("charlie_listens", "tcp://127.0.0.1:5555"),
        sentence("party_connected", "north", 1, 2),
        "keys: 1.25 s, 12 messages, 34.6 kB",
    ]


def test_plain_lines_say_who_is_waited_for_where_nothing_was_said_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("masquerade.demo.view.time.monotonic", lambda: now)
    console = _console(terminal=False)
    view = Lines(console)
    for who in ("charlie", "north", "south"):
        view.tell(Event(who, "started", {}))
    view.tick()
    assert _shown(console) == ""
    for seconds, event in ((1.1, EVENTS[0]), (1.2, EVENTS[5]), (1.3, EVENTS[6]), (0.5, None)):
        now += seconds
        view.tick()
        if event is not None:
            view.tell(event)
    view.tell(Event("charlie", "connected", {"party": "south", "joined": 2, "parties": 2}))
    now += 4
    view.tick()
    assert _shown(console).splitlines() == [
        sentence("waiting_to_start", "charlie, north and south"),
        sentence("charlie_listens", "tcp://127.0.0.1:5555"),
        sentence("waiting_to_start", "north and south"),
        sentence("party_connected", "north", 1, 2),
        sentence("waiting_to_start", "south"),
        sentence("party_connected", "south", 2, 2),
        "keys: 4 s so far",
    ]


def test_what_is_done_beside_a_run_is_said_in_lines_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("masquerade.working.time.monotonic", lambda: now)
    console = _console(terminal=False)
    working = Working(console)  # entered, it also ticks by itself
    for seconds, words in ((0.0, "a"), (0.5, "b"), (0.4, "c"), (0.2, ""), (0.9, ""), (0.2, "")):
        now += seconds
        if words:
            working.say(words)
        else:
            working.tick()
    assert _shown(console).split("\n") == ["  a", "  c", "  c: 1 s so far", ""]


def test_a_step_that_takes_long_is_named_again_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masquerade.working._EVERY", 0.01)
    console = _console(terminal=False)
    with Working(console) as working:
        working.say("a long step")
        until = time.monotonic() + 100  # on a busy machine
        while "so far" not in _shown(console) and time.monotonic() < until:
            time.sleep(0.01)
    assert "  a long step: 0 s so far\n" in _shown(console)
    time.sleep(0.05)
    said = _shown(console)
    with working:
        time.sleep(0.05)
    assert _shown(console) == said  # no more of the step that has ended


def test_the_screen_shows_states_stages_time_messages_and_bytes() -> None:
    console = _console(terminal=True)
    screen = Screen(console, ("north", "south"), STAGES, "north")
    for event in EVENTS:
        screen.tell(event)
    console.print(screen._draw())
    lines = {line.split()[1]: line.split() for line in _shown(console).splitlines() if len(line.split()) > 1}
    assert lines["charlie"][:3] == ["●", "charlie", "listening"]
    assert lines["north"][:4] == ["●", "north", "connected", "lead:"]
    assert lines["south"][2] == "training"
    assert lines["keys"] == ["✓", "keys", "1.25", "12", "34.6", "kB"]
    assert lines["training"][0] not in "✓·"  # south still trains
    assert lines["stage"][0] == "·"


ROUNDS = [
    Event("charlie", "stage", {"name": "rounds"}),
    Event("charlie", "progress", {"done": 10, "total": 100}),
    Event("charlie", "objective", {"done": 10, "total": 100, "message": "0.69"}),
    Event("charlie", "traffic", {"messages": 500, "bytes": 123_456}),
    Event("hospital-b", "progress", {"done": 99, "total": 100}),
    Event("charlie", "progress", {"done": 55, "total": 100}),
    Event("charlie", "objective", {"done": 55, "total": 100, "message": "0.31"}),
]
PACE = r"\d+(\.\d+)? (m)?s a round"


def test_the_screen_shows_rounds_their_time_the_objective_and_bytes_so_far() -> None:
    console = _console(terminal=True)
    screen = Screen(console, ("north", "south"), ("keys", "rounds"), "north")
    for event in (*EVENTS, *ROUNDS):
        screen.tell(event)
        time.sleep(0.002)
    console.print(screen._draw())
    text = _shown(console)
    assert "rounds 55 of 100" in text
    assert re.search(PACE + r", objective 0\.31  █▁", text)
    assert re.search(pattern("through_charlie") + r"\s+500\s+123\.5 kB", text)
    assert not any(line.split()[1:2] == ["training"] for line in text.splitlines())  # no stage of this protocol


def test_plain_lines_report_at_most_ten_rounds_each_with_its_own_objective() -> None:
    console = _console(terminal=False)
    with Lines(console) as view:
        for event in (*EVENTS, *ROUNDS):
            view.tell(event)
            time.sleep(0.002)
        for done in range(56, 101):
            view.tell(Event("charlie", "progress", {"done": done, "total": 100}))
        view.tell(Event("charlie", "stage_done", {"name": "rounds", "seconds": 2, "messages": 9, "bytes": 9}))
    lines = [line for line in _shown(console).splitlines() if line.startswith("round ")]
    assert lines[0] == "round 10 of 100: objective 0.69"
    assert re.fullmatch(r"round 55 of 100: " + PACE + r", objective 0\.31", lines[1])
    assert len(lines) <= 10


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([3.0, 2.0, 1.0], "█▄▁"),
        ([1.0, 1.0], "▁▁"),
        ([1.0, None, float("inf")], "▁██"),
        ([None], "█"),
        ([], ""),
        ([1.0, 1e4, 1e8], "▁▄█"),  # by the logarithm
    ],
)
def test_a_curve_is_a_row_of_bars(values: list[float | None], bars: str) -> None:
    assert sparkline(values).replace("▅", "▄") == bars
    assert len(sparkline(values * 100, 24)) == (24 if values else 0)


def test_a_result_without_an_observer_who_can_subtract_all_noise_says_what_each_can(tmp_path: Path) -> None:
    study, _ = _descent(tmp_path, "psgd")
    rows = [claim.to_json() for claim in protocol_of(study).statement(study)]
    console = _console(terminal=False)
    for part in statement(rows):
        console.print(part)
    text = " ".join(_shown(console).split())
    assert says(text, "nobody_subtracts_all")
    assert says(text, "what_each_can_subtract")
    assert re.search("Charlie with 1 party: " + pattern("subtracts_own_noise", ...), text)


def test_the_screen_has_room_for_many_and_marks_who_failed() -> None:
    console = _console(terminal=True)
    names = party_names(40)
    screen = Screen(console, names, STAGES, names[0])
    screen.tell(Event(names[3], "exit", {"code": 4}))
    screen.tell(Event(names[4], "done", {"result": "x"}))
    console.print(screen._draw())
    text = _shown(console)
    assert all(name in text for name in names)
    assert f"✗ {names[3]}" in text
    assert f"✓ {names[4]}" in text
    assert max(map(len, text.splitlines())) <= 100


def test_ctrl_c_ends_everybody_and_removes_copies_of_records(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "masquerade", "demo", "--parties", "2"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until = time.monotonic() + 100
    while not (found := _children(demo.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    assert found
    demo.send_signal(signal.SIGINT)
    _, err = demo.communicate(timeout=100)
    assert demo.returncode == 1
    assert says(err, "you_stopped")
    assert "Traceback" not in err
    assert not [pid for pid in found if Path(f"/proc/{pid}").exists()]
    assert not list(tmp_path.glob("runs/*"))


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    try:
        return [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:
        return []

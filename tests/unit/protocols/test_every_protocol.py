"""Every registered protocol answers ``demo`` and ``doctor``; both refuse a baseline."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade import doctor
from masquerade.datasets import Cohort, simulated
from masquerade.demo import Plan, prepare
from masquerade.demo import comparison as comparison_module
from masquerade.demo.comparison import compare
from masquerade.demo.plan import classifiers
from masquerade.demo.tuned import tuned_answers
from masquerade.doctor import Check, Verdict, examine
from masquerade.simulation import load_named, simulate
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.classifiers import named
from masquerade_core.study import CHARLIE, Study
from masquerade_core.words import counted
from masquerade_protocols import BASELINES, PROTOCOLS
from tests.face_helpers import Shell, small_study
from tests.messages import says, sentence

GENEROUS = 25.0
"""An epsilon at which the noise of most protocols is small."""

MODELS = [name for name, entry in PROTOCOLS.items() if entry.makes_model]
"""A demonstration compares models, so it shows these."""

DROWNED = {"input-noise", "vote", "soft"}
"""Those whose noise is large all the same: it hides all that a party has, or stands on every example."""

BY_LENGTH = {"local-aggregation", "weighted-dp", "vote", "soft"}
"""Those that compare lengths, before a run and after it."""

SMALL_RATIO = 0.15
"""Noise of this part of the classifier moves no error by more than a percentage point here."""


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return simulated(3, n=600)


@pytest.fixture(params=MODELS)
def plan(request: pytest.FixtureRequest, cohort: Cohort, tmp_path: Path) -> Plan:
    """A demonstration that is ready to begin, with few rounds where the protocol has rounds."""
    protocol = PROTOCOLS[request.param]
    rounds = 5 if "\nrounds = " in f"\n{protocol.section_for()}" else None
    return prepare(cohort, epsilon=GENEROUS, protocol=protocol.name, rounds=rounds, directory=tmp_path / "demo")


@pytest.fixture(scope="module")
def learn_once() -> Callable[[Dataset, NDArray[np.float64]], NDArray[np.float64]]:
    """What a demonstration compares with is learned without any protocol: for most, it is the same."""
    learned: dict[tuple[object, ...], NDArray[np.float64]] = {}

    def answers(records: Dataset, X: NDArray[np.float64]) -> NDArray[np.float64]:
        key = (records.X.tobytes(), records.y.tobytes(), records.classes, X.tobytes())
        if key not in learned:
            learned[key] = tuned_answers(records, X)
        return learned[key]

    return answers


def _small_keys(study: Study) -> Study:
    return study.model_copy(update={"crypto": study.crypto.model_copy(update={"key_bits": 512})})


def test_the_demo_compares_what_any_protocol_released_with_what_it_is_without_noise(
    plan: Plan, learn_once: Callable[..., NDArray[np.float64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison_module, "tuned_answers", learn_once)
    study = _small_keys(plan.study)
    data = load_named({name: plan.data_file(name) for name in study.names}, study)
    test = load_named({study.names[0]: plan.test_file}, study)[study.names[0]]
    votes = {name: named(kind) for name, kind in classifiers(study).items()}
    run = simulate(study, data, seed=1, test=test, classifiers=votes, auxiliary=plan.auxiliary)
    comparison = compare(study, plan.cohort, run.model, plan.auxiliary)
    assert comparison.noiseless
    if PROTOCOLS[study.study.protocol].coefficients:
        assert run.model.coefficients is not None
        refused = run.model.coefficients.refused  # these columns nearly determine the label; the noise says which it is
        assert any(words in refused for words in ("determined by the columns", "the last step was too long"))
        return
    assert comparison.pooled < 0.08
    assert comparison.best_single <= comparison.median_single <= comparison.worst_single < 0.1
    assert comparison.without_noise < comparison.majority - 0.3
    tell = PROTOCOLS[study.study.protocol].expectation
    assert tell is not None
    assert tell(study).records == 600
    if (least := tell(study).ratio) is not None and study.study.protocol in BY_LENGTH:
        assert comparison.noise_ratio > 0.6 * least  # of a real model, which is no longer than the longest
    if study.study.protocol not in DROWNED | {"decaying-budget"}:
        assert not tell(study).poor
    if study.study.protocol not in DROWNED:
        assert comparison.noise_ratio <= SMALL_RATIO
        assert run.result["metrics"]["test_error"] == pytest.approx(comparison.without_noise, abs=0.01)
    else:
        assert says(comparison.advice, "noise_moved")
        assert comparison.enough_epsilon is None or comparison.enough_epsilon > GENEROUS


def test_the_doctor_examines_a_study_of_any_protocol(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_SLOW", math.inf)  # a busy machine is slow, and the doctor would say so
    monkeypatch.setattr(doctor, "network", lambda *_: Check("network", Verdict.OK, "not looked at"))
    who, entry = plan.study.names[1], PROTOCOLS[plan.study.study.protocol]
    checks = {c.name: c for c in examine(plan.study_file, key=plan.key_file(who), data=plan.data_file(who))}
    about = entry.expectation(plan.study).about if entry.expectation else "model"
    assert {name: str(check.verdict) for name, check in checks.items()} == {
        "study": "ok", "arithmetic": "ok", "conversation": "note", about: "note", "key": "ok", "data": "ok",
        "descriptors": "ok", "network": "ok", "policy": "note", "approval": "warn", "budget": "warn",
    }  # fmt: skip
    assert checks["study"].message.startswith(f"{entry.name}, 3 parties")
    cost = entry.cost(plan.study)
    assert ("encrypts nothing" in checks["arithmetic"].message) is (cost.exponentiations == 0)
    said = checks["conversation"].message
    counts = counted(cost.sums, "secure sum"), counted(cost.ciphertexts, "ciphertext")
    assert says(said, "conversation_told", counted(cost.round_trips, "time"), *counts)
    charlie = {c.name: c for c in examine(plan.study_file, key=plan.key_file(CHARLIE))}
    assert "Charlie, the curator" in charlie["key"].message


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name not in MODELS])
def test_the_demo_refuses_a_protocol_without_a_model_in_a_sentence(cohort: Cohort, tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput) as refused:
        prepare(cohort, epsilon=1.0, protocol=name, directory=tmp_path / "demo")
    assert refused.value.message == sentence("no_model_to_demonstrate", repr(name))
    assert "masquerade simulate" in refused.value.hint
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_refused_by_both_in_a_sentence(shell: Shell, cohort: Cohort, tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput) as refused:
        prepare(cohort, epsilon=1.0, protocol=name, directory=tmp_path / "demo")
    assert refused.value.message == sentence("baseline_demonstrated", repr(name))
    assert "masquerade simulate" in refused.value.hint
    assert not (tmp_path / "demo").exists()
    (check,) = examine(small_study(shell, tmp_path / "study.toml", protocol=name, key_bits=2048))
    assert (check.name, check.verdict) == ("study", Verdict.FAIL)
    assert check.message.startswith(f"[study] protocol is {name!r}, a baseline, ")
    assert "masquerade simulate" in check.hint

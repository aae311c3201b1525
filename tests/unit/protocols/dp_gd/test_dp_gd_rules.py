"""Rounds, clip and steps of ``dp-gd`` that follow from public numbers: the rules, and that they learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.datasets import simulated
from masquerade.demo import prepare
from masquerade.demo.own import Dealing, own_cohort
from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.expectation import Verdict
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Feature, Label, Study
from masquerade_core.table import Table, replay
from masquerade_lab.reproduce.dp_gd import clipped_descent
from masquerade_protocols import PROTOCOLS, protocol_of
from masquerade_protocols.blocks import noise_shares
from masquerade_protocols.blocks.noise_shares import draw_noise_share
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.dp_gd.noiseless import clean_descent
from masquerade_protocols.dp_gd.schedule import momentum, step_of
from masquerade_protocols.in_memory import run_in_memory
from tests.messages import raises, says
from tests.protocol_helpers import make_data

_D = 10


def _study(columns: int = _D, K: int = 3, section: Mapping[str, object] | None = None, **options: Any) -> Study:
    draft = Draft(
        parties=[(f"site-{i}", throwaway_key()) for i in range(K)],
        curator_key=throwaway_key(),
        protocol="dp-gd",
        features=[Feature(name=f"c{i}", min=-1.0, max=1.0) for i in range(columns)],
        label=Label(name="ill", positive="yes"),
        intercept=False,
        **{"min_records": 2, "epsilon": 1.0, "delta": 1e-5, "key_bits": 512, "colluders": 0, **options},
    )
    study = Study.parse(draft.to_toml(), in_memory=True)
    return study.model_copy(update={"protocol": {**study.protocol, **(section or {})}})


def _records_for(s: float, d: int = _D) -> int:
    return round(s * math.sqrt(d) / mu_of(1.0, 1e-5))


# --- Rounds and clip --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("s", "rounds", "clip"),
    [(4, 30, 0.5), (98, 30, 0.5), (102, 30, 0.75), (196, 30, 0.75), (204, 60, 0.75), (5000, 60, 0.75)],
)
def test_rounds_and_clip_follow_from_the_records_that_are_expected(s: float, rounds: int, clip: float) -> None:
    study = _study(expected_records=_records_for(s))
    assert (dp_gd.rounds_of(study), dp_gd.clip_of(study)) == (rounds, Fraction(clip))
    assert (dp_gd.noise_of(study).rounds, study.protocol["rounds"]) == (rounds, "auto")
    colluding = _study(expected_records=_records_for(s), colluders=2)  # s falls by sqrt(3)
    assert dp_gd.rounds_of(colluding) == (60 if s > 346 else 30)


def test_without_an_expected_number_the_fewest_records_count() -> None:
    enough = _records_for(204)
    assert dp_gd.rounds_of(_study(min_records=enough // 3 + 1)) == 60
    assert dp_gd.rounds_of(_study(min_records=enough // 6)) == 30


def test_what_a_study_states_is_not_changed() -> None:
    study = _study(section={"rounds": 7, "clip": 0.25}, expected_records=10**6)
    assert (dp_gd.rounds_of(study), dp_gd.clip_of(study)) == (7, Fraction(1, 4))
    assert step_of(_study(section={"learning_rate": 3.5}), dp_gd.noise_of(study), 10) == 3.5


@pytest.mark.parametrize("key", ["rounds", "clip", "learning_rate"])
def test_another_word_than_auto_is_refused_with_a_sentence(key: str) -> None:
    with raises(BadInput, "number_or_auto", "many", "auto") as caught:
        protocol_of(_study(section={key: "many"}))
    assert caught.value.message.startswith(f"[protocol] {key} ")


# --- Steps --------------------------------------------------------------------------------


def test_steps_are_as_long_as_the_loss_allows_where_the_noise_is_small() -> None:
    study = _study(expected_records=10**6)
    assert step_of(study, dp_gd.noise_of(study), 10**6) == pytest.approx(1 / (0.25 + 1e-4))
    hinge = study.model_copy(update={"model": study.model.model_copy(update={"loss": "smoothed-hinge"})})
    assert step_of(hinge, dp_gd.noise_of(hinge), 10**6) < 1.4


@pytest.mark.parametrize("colluders", [0, 2])
def test_the_noise_of_all_rounds_moves_a_score_by_one_and_a_half(colluders: int) -> None:
    """Nothing but the noise of all three parties, which is more than the proof needs where two of them may collude."""
    study, N = _study(columns=40, colluders=colluders), 300
    noise, moved = dp_gd.noise_of(study), []
    assert step_of(study, noise, N) < 1
    for draw in range(30):
        descent = dp_gd.Descent(study, N)
        shares = [draw_noise_share(SimulationRng(draw, f"{k}"), noise, study.d) for k in range(study.K)]
        for t in range(noise.rounds):
            descent.step(tuple(sum(share[t][i] for share in shares) for i in range(study.d)))
        moved.append(descent.iterate)
    assert np.std(moved) == pytest.approx(1.5, rel=0.06)


def test_roles_without_noise_are_nesterovs_method_written_down_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_shares, "discrete_gaussian", lambda _rng, _sigma, size: [0] * size)
    study = _study(columns=6, section={"rounds": 12}, expected_records=200)
    data = make_data(study, (40, 60, 100))
    released = np.array(run_in_memory(dp_gd, study, data, table=Table(study.names))[CHARLIE].weights)
    X = np.concatenate([data[name].X for name in study.names])
    y = np.concatenate([data[name].y for name in study.names])
    eta = step_of(study, dp_gd.noise_of(study), 200)

    def clear(part: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        before = w = np.zeros(study.d)
        for t in range(12):
            v = w + part * t / (t + 3) * (w - before)
            slopes = -1 / (1 + np.exp(y * (X @ v)))
            gradients = (slopes * y)[:, None] * X
            gradients *= np.minimum(1, 0.5 / np.linalg.norm(gradients, axis=1))[:, None]
            before, w = w, v - eta * (gradients.mean(axis=0) + 1e-4 * v)
        return w

    np.testing.assert_allclose(released, clear(1.0), rtol=0, atol=1e-6)
    np.testing.assert_allclose(clean_descent(study, data), released, rtol=0, atol=1e-6)
    assert np.abs(clear(0.0) - released).max() > 1e-2
    assert [momentum(t) for t in (0, 1, 3)] == [0.0, 0.25, 0.5]


def test_with_momentum_a_run_repeats_to_the_byte_after_a_restart() -> None:
    study = _study(columns=3, section={"rounds": 4}, expected_records=90)
    data, table = make_data(study, (20, 30, 40)), Table(study.names)
    results = run_in_memory(dp_gd, study, data, table=table)
    assert len({model.weights for model in results.values()}) == 1
    for name in study.names:
        replay(dp_gd.party(table.seat(name), study, data[name]), table.journal(name))


# --- It learns ------------------------------------------------------------------------------


def _off_centre(n: int, seed: int) -> Dataset:
    """Records that share a long common part, with 24 % positives: as a table of public levels is, once encoded."""
    generator = np.random.default_rng(seed)
    y = np.where(generator.random(n) < 0.24, 1.0, -1.0)
    X = np.hstack([np.full((n, 1), 3.0), generator.normal(size=(n, 9)) * 0.3 + 0.13 * y[:, None]])
    return Dataset.from_unit_ball(X / np.linalg.norm(X, axis=1, keepdims=True) * (1 - 1e-12), y)


def test_records_that_lie_off_centre_are_learned_where_plain_steps_learned_nothing() -> None:
    train, test = _off_centre(10_000, 1), _off_centre(20_000, 2)
    found = {}
    plain = {"rounds": 20, "clip": 0.5, "learning_rate": 4.0}
    for name, section, Lambda in (("auto", None, None), ("plain", plain, 0.02)):
        study = _study(section=section, expected_records=10_000, regularization=Lambda)
        w = clipped_descent(train, study, dp_gd.noise_of(study), "off centre")
        found[name] = float(np.mean(np.where(test.X @ w > 0, 1.0, -1.0) != test.y))
    majority = float(np.mean(test.y > 0))
    assert found["plain"] == pytest.approx(majority, abs=0.002)
    assert found["auto"] < majority - 0.1


# --- Lambda -----------------------------------------------------------------------------------


def test_a_new_study_has_its_protocols_lambda_unless_somebody_states_another(tmp_path: Path) -> None:
    assert _study().model.regularization == 1e-4
    assert _study(regularization=0.3).model.regularization == 0.3
    parties = [("site-a", throwaway_key()), ("site-b", throwaway_key())]
    paper = Draft(parties=parties, curator_key=throwaway_key(), protocol="psgd").to_toml()
    assert Study.parse(paper, in_memory=True).model.regularization == 0.02
    cohort = simulated(3, n=600)
    for protocol, Lambda in (("dp-gd", 1e-4), ("psgd", 0.05)):
        plan = prepare(cohort, epsilon=1.0, protocol=protocol, directory=tmp_path / protocol)
        assert plan.study.model.regularization == Lambda
        assert plan.study.study.expected_records == 600


def test_the_demo_takes_the_lambda_of_a_study_that_it_is_given(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = [f"{i % 2},{(i % 7) / 10},{'yes' if i % 3 else 'no'}" for i in range(200)]
    table.write_text("\n".join(["site,c0,ill", *rows]) + "\n", encoding="utf-8")
    cohort = own_cohort(table, Dealing(by="site"), study=_study(columns=1, regularization=0.3))
    assert cohort.regularization_for(PROTOCOLS["dp-gd"]) == 0.3
    unstated = own_cohort(table, Dealing(by="site"), label=Label(name="ill", positive="yes"))
    assert unstated.regularization_for(PROTOCOLS["dp-gd"]) is None
    assert unstated.regularization_for(PROTOCOLS["psgd"]) == 0.05


@pytest.mark.parametrize(
    ("section", "Lambda", "words"),
    [
        ({}, 0.02, "But the study has regularization = 0.02, where at most 0.001 is sure to do: it may learn nothing"),
        ({"learning_rate": 4.0}, 1e-4, "But the study has a number for learning_rate, and so no momentum: it may"),
        ({"learning_rate": 4.0}, 0.02, "sure to do and a number for learning_rate, and so no momentum: it may"),
    ],
)
def test_a_study_that_may_learn_nothing_without_any_noise_is_told_so(
    section: dict[str, object], Lambda: float, words: str
) -> None:
    tell = PROTOCOLS["dp-gd"].expectation
    assert tell is not None
    good = tell(_study(expected_records=50_000))
    doubtful = tell(_study(expected_records=50_000, section=section, regularization=Lambda))
    assert good.verdict is Verdict.HALF
    assert not says(good.text, "but_study_has", ...)
    assert doubtful.verdict is Verdict.UNSURE
    assert words in doubtful.text
    assert "or epsilon = " not in doubtful.text
    few = tell(_study(min_records=20, section=section, regularization=Lambda))
    assert few.poor

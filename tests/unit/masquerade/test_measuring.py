"""A model that exists is measured by a study of its own; a new study says whether it should hold records back."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.datasets import simulated
from masquerade.demo import prepare
from masquerade.held_back import propose
from masquerade.prediction import load_model
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import BadInput
from masquerade_core.evaluation import count_sd, counts_noise
from masquerade_core.learning.expected_intervals import expected_reach, records_needed
from masquerade_core.model import Model
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, EvaluationSection, Study
from masquerade_core.table import Table
from masquerade_protocols import MEASUREMENTS, entry_of, protocol_of, statement_of
from masquerade_protocols.in_memory import run_in_memory
from tests.evaluation_helpers import evaluate_in_the_clear, held_back_study, measuring, records_of
from tests.face_helpers import Shell
from tests.messages import pattern, raises, says, sentence

W = (4.0, -3.0, 2.0, 1.0)
MODEL = Model(W, None, (-1.5,), 0.5)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


# --- The protocol -----------------------------------------------------------------------


def test_all_records_are_measured_with_the_model_that_the_study_holds() -> None:
    study = measuring(held_back_study(3, 4, min_records=30), MODEL, epsilon=2.0)
    rng = np.random.default_rng(0)
    data = {name: records_of(rng, n, W, -1.5) for name, n in zip(study.names, (2000, 500, 90), strict=True)}
    table = Table(study.names, {name: SimulationRng(3, name) for name in study.names})
    results = run_in_memory(entry_of(study), study, data, table=table)
    assert all(result == results[CHARLIE] for result in results.values())
    found = results[CHARLIE].evaluation
    assert found.records == 2590
    assert (results[CHARLIE].weights, results[CHARLIE].offset) == (W, (-1.5,))
    assert found.threshold == 0.5
    clear = evaluate_in_the_clear(held_back_study(3, 4, epsilon=2.0), MODEL, data, quiet=True)
    assert found.chosen.error.low <= (clear.chosen.error.value or 0) <= found.chosen.error.high
    assert clear.threshold == 0.5
    assert {(who, r.label) for who, r in table.releases} == {
        (name, label) for name in study.names for label in ("scores", "counts")
    }


def test_its_statement_proves_the_target_of_this_run_and_its_words_add_the_costs() -> None:
    study = measuring(held_back_study(4, 4, colluders=1), MODEL, epsilon=0.5)
    rows = statement_of(study)
    promised = [row for row in rows if not row.claimed.startswith("not promised")]
    assert [row.view for row in promised] == ["evaluation", "Charlie", "one party", "Charlie with 1 party"]
    assert all((row.epsilon or 9) <= 0.5 for row in promised)
    said = protocol_of(study).explain(study)
    assert "epsilon = 0.5" in said.cost[0]
    assert says(said.cost[1], "adds_to_cost")
    assert says(said.collusion[0], "promise_holds_even", sentence("one_other_sides"))


def test_it_publishes_the_evaluation_alone() -> None:
    study = measuring(held_back_study(2, 4), MODEL, threshold="youden")
    rng = np.random.default_rng(0)
    result = run_in_memory(entry_of(study), study, {name: records_of(rng, 800, W) for name in study.names})[CHARLIE]
    files = result.files(study, bytes(16))
    assert list(files) == ["evaluation.json"]
    assert files["evaluation.json"]["threshold"]["rule"] == "youden"
    json.dumps(files, allow_nan=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("weights = [", "weights = [1.0, "),
            "[protocol] weights has 5 numbers and offset 1, but the study's",
        ),
        (("[protocol]\n", "[protocol]\nchoose = 2.0\n"), "[protocol] choose is 2.0, but must be 'youden', 'f1', or a"),
        (("threshold = 0.5", "threshold = inf"), "[protocol] may hold only text, finite numbers"),
        (("[label]", "[evaluation]\nshare = 0.2\n[label]"), "the study has [evaluation], but evaluation holds no"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(change: tuple[str, str], message: str) -> None:
    text = measuring(held_back_study(2, 4), MODEL).to_toml()
    assert text.count(change[0]) == 1
    with pytest.raises(BadInput) as refused:
        entry_of(Study.parse(text.replace(*change), in_memory=True))
    assert message in refused.value.message


def test_a_demonstration_has_nothing_to_learn_with_it(tmp_path: Path) -> None:
    (name,) = MEASUREMENTS
    with raises(BadInput, "measures_a_model", "'evaluation'"):
        prepare(simulated(3, n=600), epsilon=1.0, protocol=name, directory=tmp_path / "demo")


# --- The command ------------------------------------------------------------------------


def _files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        data = records_of(rng, 3000, W, -1.5)
        with (folder / f"{name}.csv").open("w", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["x0", "x1", "x2", "x3", "y"])
            out.writerows([*x, "yes" if y > 0 else "no"] for x, y in zip(data.X.tolist(), data.y, strict=True))


def _new(shell: Shell, file: Path, *more: str) -> Any:
    columns = [word for i in range(4) for word in ("--feature", f"x{i}:-1:1")]
    return shell(
        "study", "new", "-o", file, "--throwaway-keys", *columns, "--label", "y:yes", "--party", "a", "--party", "b",
        "--key-bits", "512", "--format", "json", *more,
    )  # fmt: skip


def test_a_study_is_run_and_its_model_measured_by_another(shell: Shell, tmp_path: Path) -> None:
    _files(tmp_path)
    data = ["--data", f"a={tmp_path / 'a.csv'}", "--data", f"b={tmp_path / 'b.csv'}", "--seed", "1"]
    study, model, other = tmp_path / "s.toml", tmp_path / "run" / "model.json", tmp_path / "e.toml"
    assert _new(shell, study, "--min-records", "2900", "--epsilon", "2", "--colluders", "0").code == 0
    run = shell("simulate", study, *data, "--out", tmp_path / "run", "--format", "json").data
    assert run["evaluation"]["records"] == 1200
    made = shell(
        "study", "new", "--like", study, "--measure", model, "-o", other, "--epsilon", "0.7", "--threshold", "f1",
        "--format", "json",
    )  # fmt: skip
    assert made.data["epsilon"] == 0.7
    assert "epsilon = 0.7" in made.data["cost"][0]
    measured = shell("simulate", other, *data, "--format", "json").data
    assert measured["evaluation"]["records"] == 6000
    assert measured["evaluation"]["threshold"]["rule"] == "f1"
    assert measured["evaluation"]["auc"]["value"] == pytest.approx(run["evaluation"]["auc"]["value"], abs=0.06)
    for options, seen in (
        (("--like", study, "--threshold", "f1"), "--measure is not given"),
        (("--measure", model), "--like is not given"),
        (("--like", study, "--measure", model, "--rounds", "3"), "'rounds' was given as well"),
    ):
        refused = shell("study", "new", "-o", tmp_path / "w", *options, "--format", "json")
        assert (refused.code, seen in refused.json["message"]) == (4, True)
    again = shell("evaluate", study, "--model", model, "-o", other, "--format", "json")
    assert again.code == 4
    assert "exists already" in again.json["message"]
    wrong = shell("evaluate", study, "--model", model, "-o", tmp_path / "w", "--threshold", "best", "--format", "json")
    assert says(wrong.json["message"], "threshold_choice", "'best'")
    assert not (tmp_path / "w").exists()
    loaded = load_model(model)
    assert load_csv(tmp_path / "a.csv", Study.parse(other.read_text(), in_memory=True)).X.shape == (3000, 5)
    assert list(loaded.weights) == Study.parse(other.read_text(), in_memory=True).protocol["weights"]


# --- Whether a new study holds records back ------------------------------------------------


def test_a_new_study_holds_records_back_where_the_answer_is_worth_having(shell: Shell, tmp_path: Path) -> None:
    small, large = (_new(shell, tmp_path / f"{n}.toml", "--min-records", str(n)) for n in (500, 10_000))
    assert says(small.json["message"], "no_evaluation", sentence("auc_lost"), ...)
    assert says(large.json["message"], "held_back", "20%")
    texts = [(tmp_path / f"{n}.toml").read_text() for n in (500, 10_000)]
    studies = [Study.parse(text, in_memory=True) for text in texts]
    assert studies[0].evaluation is None
    assert re.search("(?i)# " + pattern("no_evaluation", ..., ...), texts[0])
    assert studies[1].evaluation is not None
    assert studies[1].evaluation.share == 0.2


@pytest.mark.parametrize(("codes", "held"), [(1, True), (3, False)])
def test_no_records_are_held_back_where_the_model_would_have_too_few_left(
    codes: int, *, held: bool, shell: Shell, tmp_path: Path
) -> None:
    """The intervals are the same in both."""
    levels = ",".join(f"l{i}" for i in range(900))
    columns = [word for i in range(codes) for word in ("--feature", f"code{i}:{levels}")]
    made = _new(shell, tmp_path / "s.toml", "--protocol", "dp-gd", "--expected-records", "15000", *columns)
    study = Study.parse((tmp_path / "s.toml").read_text(), in_memory=True)
    assert (study.evaluation is not None) is held
    assert says(made.json["message"], "few_for_the_model") is not held
    tell = protocol_of(study).expectation
    assert tell is not None
    alone, measured = (
        tell(study.model_copy(update={"evaluation": section})).s for section in (None, EvaluationSection(share=0.2))
    )
    assert alone is not None
    assert measured == pytest.approx(0.8 * alone)
    assert says(made.json["message"], "forecasts", ..., f"{alone:.0f}", ..., f"{measured:.0f}")


def test_the_line_lies_at_five_points() -> None:
    sd = count_sd(counts_noise(1.0, 1e-6, 3), 3)
    needed = records_needed(sd, 0.05)
    assert needed is not None
    assert expected_reach(needed, sd) <= 0.05 < expected_reach(int(0.95 * needed), sd)
    assert propose(int(needed / 0.2) + 10, 3, 0, 1.0, 1e-6).section.endswith("[evaluation]\nshare = 0.2\n")
    few = propose(int(0.9 * needed / 0.2), 3, 0, 1.0, 1e-6)
    assert "\n[evaluation]" not in few.section
    assert says(few.note, "no_evaluation", ..., ...)
    assert propose(1000, 3, 0, 1.0, 0.0).section == propose(1000, 3, 3, 1.0, 1e-6).section == ""
    more = count_sd(counts_noise(1.0, 1e-6, 2, retries=4), 3)
    reach = 100 * expected_reach(int(0.2 * 40_000), more)
    said = f"would reach about {reach:.1f} points"
    assert said in propose(40_000, 3, 0, 1.0, 1e-6, survivors=2, retries=4).note
    assert said not in propose(40_000, 3, 0, 1.0, 1e-6).note
    assert says(propose(4, 3, 0, 1.0, 1e-6).note, "no_evaluation", ..., ...)


@pytest.mark.parametrize("held", [1000, 10_000])
def test_what_is_expected_is_what_comes_out(held: int) -> None:
    study = held_back_study(3, 4)
    rng = np.random.default_rng(1)
    reaches = []
    for i in range(20):
        data = {name: records_of(rng, held // 3, W, -1.5) for name in study.names}
        rngs = {name: SimulationRng(i, name) for name in study.names}
        found = evaluate_in_the_clear(study, Model(W, None, (-1.5,)), data, rngs)
        reaches.append(max((e.high - e.low) / 2 for e in (found.auc, found.chosen.error)))
    expected = expected_reach(held, count_sd(counts_noise(1.0, 1e-6, 3), 3))
    assert math.isclose(float(np.mean(reaches)), expected, rel_tol=0.3)

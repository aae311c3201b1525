"""The demonstration itself: real processes, real keys, 2048 bits."""

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adult_helpers import adult_place, page_commands
from tests.face_helpers import FIELDS, RESULT_FIELDS, STATEMENT_FIELDS, split_csv
from tests.messages import says
from tests.pages import Page

AGGREGATION = ("--protocol", "local-aggregation", "--calibration", "paper")


def _demo(folder: Path, *words: str, timeout: float = 90) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "masquerade", "demo", *words],
        cwd=folder, capture_output=True, text=True, check=False, timeout=timeout,
        env={**os.environ, "COLUMNS": "110"},
    )  # fmt: skip


def _data(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer) == FIELDS
    assert (answer["status"], answer["error_code"]) == ("ok", None)
    data: dict[str, Any] = answer["data"]
    return data


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("demo")
    return folder, _data(_demo(folder, *AGGREGATION, "--parties", "3", "--out", "run", "--format", "json"))


def test_json_has_the_fields_of_a_result(three: tuple[Path, dict[str, Any]]) -> None:
    folder, data = three
    assert set(data) >= RESULT_FIELDS
    assert (data["protocol"], data["parties"], data["participant"]) == ("local-aggregation", 3, "charlie")
    assert (data["epsilon"], data["calibration"], data["n_features"]) == (1.0, "paper", 10)
    assert {s["name"] for s in data["stages"]} >= {
        "keys", "stage 1: smallest data set", "stage 2: noise", "stage 3: shares",
    }  # fmt: skip
    assert _sent(data) == {"stage 1: smallest data set": 3, "stage 2: noise": 9}
    assert data["demo"]["ciphertexts"] == 3 + 3 + 9 + 2 + 1
    assert sum(s["messages"] for s in data["stages"]) == data["messages"] > 0
    assert sum(s["bytes"] for s in data["stages"]) == data["bytes"] > 0
    assert all(set(row) >= STATEMENT_FIELDS for row in data["statement"])
    on_disk = json.loads((folder / "run" / "charlie" / "result.json").read_text())
    assert {key: data[key] for key in on_disk} == on_disk


def _sent(data: dict[str, Any]) -> dict[str, int]:
    """How many ciphertexts Charlie sent in each stage: blinded sizes, and the indicator to every party."""
    return {stage["name"]: stage["ciphertexts"] for stage in data["stages"] if stage["ciphertexts"]}


def test_by_default_the_paper_s_stages_run_and_the_noise_is_proven(tmp_path: Path) -> None:
    """A default that takes the paper's conversation out of its protocol must not go unnoticed again."""
    words = ("--protocol", "local-aggregation", "--parties", "3", "--out", "run")
    data = _data(_demo(tmp_path, *words, "--format", "json"))
    assert data["calibration"] == "proven"
    assert _sent(data) == {"stage 1: smallest data set": 3, "stage 2: noise": 9}
    assert data["demo"]["ciphertexts"] == 3 + 3 + 9 + 2 + 1
    for row in data["statement"]:
        if row["view"] in {"released model", "Charlie", "one party, the smallest included", "Charlie with 1 party"}:
            assert row["epsilon"] <= 1.0
    report = " ".join((tmp_path / "run" / "report.txt").read_text(encoding="utf-8").split())
    assert says(report, "all_sent_together", "18 ciphertexts, under keys of 2,048 bits")
    assert "Charlie sent 12 of them, which his result.json counts. Stages 1 and 2 ran as in the paper" in report
    assert "The paper's own noise (--calibration paper) would be" in report


def test_the_model_is_good_and_the_private_figures_are_marked(three: tuple[Path, dict[str, Any]]) -> None:
    _, data = three
    figures = data["demo"]["private_figures"]
    assert "demo only" in figures["warning"]
    assert data["metrics"]["test_error"] < figures["pooled"] + 0.02  # more than 99 of 100 runs
    assert figures["pooled"] < figures["best_single"] < figures["worst_single"] < figures["majority"]


def test_everybody_holds_the_same_model_in_a_private_directory(three: tuple[Path, dict[str, Any]]) -> None:
    folder, data = three
    run = folder / "run"
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    models = [json.loads((run / who / "model.json").read_text()) for who in ("charlie", "hospital-a", "hospital-c")]
    assert models[0]["shares"] == models[1]["shares"] == models[2]["shares"]
    assert models[0]["run_id"] == data["run_id"]
    words = ["predict", "run/charlie/model.json", "run/test.csv", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "masquerade", *words], cwd=folder, capture_output=True, text=True, check=True
    )
    labels = json.loads(done.stdout)["data"]["labels"]
    truth = [row.rsplit(",", 1)[1] for row in (run / "test.csv").read_text().split()[1:]]
    wrong = sum((label > 0) != (word == "yes") for label, word in zip(labels, truth, strict=True))
    assert wrong / len(truth) == pytest.approx(data["metrics"]["test_error"], abs=1e-12)


def test_the_report_holds_the_whole_statement(three: tuple[Path, dict[str, Any]]) -> None:
    folder, data = three
    report = " ".join((folder / "run" / "report.txt").read_text().split())
    for row in data["statement"]:
        assert " ".join(row["text"].split()) in report
    assert "demo only" in report


def _cpu_seconds() -> float:
    """The computing time of ended children, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_default_demo_is_quick_and_tells_everything(tmp_path: Path) -> None:
    began = _cpu_seconds()
    done = _demo(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert _cpu_seconds() - began < 30  # of all seven processes, start-up included; a busy machine adds none
    text = " ".join(done.stderr.split())
    for piece in (
        "dp-whitened, epsilon = 1",
        "1,500 made-up records, 5 parties and Charlie",
        "(5 of 5)",
        "moments: ",
        "Privacy statement",
        "None of the observers above can subtract all of it.",
        "What is proved holds if",
        "everybody follows the protocol",
        "the released model",
        "proved of it: ε = 0.8868, δ = 1e-06",
        "all records in one place",
        "the best single party",
        "oining was worth it for every party",
        "demo only, private figures",
        "runs/demo-",
        "study show",
    ):
        assert piece in text
    assert "What each has of it" not in text  # that is in report.txt
    (report,) = tmp_path.glob("runs/demo-*/report.txt")
    assert says(" ".join(report.read_text().split()), "missing_share_weakens")
    results = [json.loads(path.read_text()) for path in tmp_path.glob("runs/demo-*/*/model.json")]
    assert len(results) == 6
    assert len({json.dumps(model["weights"]) for model in results}) == 1


def test_the_default_model_is_good_and_its_wish_is_proved(tmp_path: Path) -> None:
    data = _data(_demo(tmp_path, "--format", "json"))
    figures = data["demo"]["private_figures"]
    assert (data["protocol"], data["parties"], data["calibration"]) == ("dp-whitened", 5, "proven")
    assert data["metrics"]["test_error"] < figures["pooled"] + 0.12  # more than 99 of 100 runs
    assert figures["pooled"] < 0.08
    assert figures["majority"] > 0.4
    assert data["metrics"]["test_error"] < figures["best_single"] < figures["median_single"]  # 19 of 20 runs, or more
    model = data["statement"][0]
    assert (model["epsilon"], model["delta"]) == (pytest.approx(0.8868, abs=1e-4), 1e-6)  # one colluder is counted on
    colluding = next(row for row in data["statement"] if row["view"] == "Charlie with 1 party")
    assert (colluding["epsilon"], colluding["delta"]) == (pytest.approx(1, abs=1e-6), 1e-6)


def test_local_aggregation_tells_who_could_take_its_noise_off(tmp_path: Path) -> None:
    done = _demo(tmp_path, *AGGREGATION)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stderr.split())
    for piece in (
        "20,000 simulated records, 5 parties and Charlie",
        "stage 3: shares:",
        "Theorem 4.1",
        "Who could subtract the noise",
        "The party with the fewest records",
    ):
        assert piece in text


def test_the_real_records_are_too_few_and_it_says_which_epsilon_would_do(tmp_path: Path) -> None:
    data = _data(_demo(tmp_path, *AGGREGATION, "--dataset", "breast-cancer", "--format", "json"))
    assert data["n_features"] == 30
    advice = data["demo"]["private_figures"]["advice"]
    assert "too few for this paper's noise" in advice
    assert "would do" in advice
    assert data["demo"]["private_figures"]["pooled"] < 0.1


def test_gradient_descent_shows_its_rounds_and_leaves_the_objective_of_each(tmp_path: Path) -> None:
    done = _demo(
        tmp_path, "--protocol", "psgd", "--calibration", "paper", "--parties", "3", "--rounds", "12", "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stderr.split())
    for piece in (
        "psgd, epsilon = 1",
        "rounds:",
        "12 rounds of",
        "objective on the public test set",
        "Theorem 4.2",
        "None of the observers above can subtract all of it",
        "12 rounds on exact gradients",
        "demo --protocol psgd --calibration paper --dataset breast-cancer",
    ):
        assert piece in text
    result = json.loads((tmp_path / "run" / "charlie" / "result.json").read_text())
    assert [point["round"] for point in result["rounds"]] == list(range(1, 13))
    objectives = [point["objective"] for point in result["rounds"]]
    assert objectives[-1] < objectives[0]
    assert "rounds" not in json.loads((tmp_path / "run" / "hospital-b" / "result.json").read_text())
    assert says((tmp_path / "run" / "report.txt").read_text(), "objective_shown")


def test_a_rejected_protocol_says_why_its_model_is_bad(tmp_path: Path) -> None:
    data = _data(
        _demo(tmp_path, "--protocol", "decaying-budget", "--parties", "3", "--rounds", "40", "--format", "json")
    )
    figures = data["demo"]["private_figures"]
    assert says(figures["advice"], "released_is_noise")
    assert figures["enough_epsilon"] is None
    assert data["rounds"][-1]["objective"] > data["rounds"][0]["objective"]


def test_own_records_run_with_a_warning_that_bounds_were_read_off_them(tmp_path: Path) -> None:
    split_csv(tmp_path / "all.csv", ("Oslo", "Bergen", "Zürich"), n=200)
    done = _demo(tmp_path, "--data", "all.csv", "--by", "site", "--label", "ill:yes")
    assert done.returncode == 0, done.stderr
    assert "demo only: bounds and levels were read off these records" in done.stderr
    assert len(list(tmp_path.glob("runs/demo-*/zurich/result.json"))) == 1


def test_the_page_s_demonstrations_run_on_adult_as_it_is(tmp_path: Path) -> None:
    adult_place(tmp_path)
    commands = page_commands(Page("docs/studies.md"))
    study = next(words for words in commands if words[:4] == ["study", "new", "--output", "adult.toml"])
    said = []
    for words in (study, *(words for words in commands if words[0] == "demo")):
        done = subprocess.run(
            [sys.executable, "-m", "masquerade", *words],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=90, env={**os.environ, "COLUMNS": "110"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said.append(done.stderr)
    _, with_study, alone = said
    assert "400 records of adult.csv, 3 parties" in with_study
    assert "demo only: bounds" not in with_study
    assert says(with_study, "full_stop_left_out")
    for piece in (
        "400 records of adult.csv, 5 parties",
        "demo only: bounds and levels were read off these records",
        "Bounds are rounded",
        "- no --by was given, so the records were dealt out to 5 parties at random",
        "- 80 records, drawn at random, were held out as the test set",
        "- left out as --ignore says: fnlwgt",
        "levels of",
    ):
        assert piece in alone
    report = max(tmp_path.glob("runs/demo-*/report.txt"))
    assert "- left out as --ignore says: fnlwgt" in report.read_text(encoding="utf-8")


def test_a_party_of_one_class_takes_part(tmp_path: Path) -> None:
    file = split_csv(tmp_path / "all.csv", ("a", "b", "c"), n=100)
    lines = file.read_text().splitlines()
    file.write_text("".join(f"{line[:-2]}yes\n" if line.startswith("b,") and line.endswith("no") else f"{line}\n"
                            for line in lines))  # fmt: skip
    data = _data(_demo(tmp_path, "--data", "all.csv", "--by", "site", "--label", "ill:yes", "--format", "json"))
    assert data["parties"] == 3


@pytest.mark.alone  # 200 classifiers, twice
@pytest.mark.parametrize("protocol", ["vote", "soft"])
def test_the_demo_of_votes_shows_that_votes_can_work(tmp_path: Path, protocol: str) -> None:
    """Twelve runs each erred in 7.4 % (`soft`) and 7.5 %, with standard deviations of .18 and .07 points."""
    data = _data(_demo(tmp_path, "--protocol", protocol, "--format", "json", "--out", "run"))
    assert (data["parties"], data["epsilon"], data["calibration"]) == (200, 1.0, "proven")
    assert data["metrics"]["test_error"] < 0.09
    assert not (tmp_path / "run" / "hospital-001").exists()


@pytest.mark.alone  # a forest, a kernel and what they load: 31 s of processor time
@pytest.mark.parametrize("protocol", ["vote", "soft"])
def test_a_tree_a_forest_a_kernel_and_a_line_vote_in_one_run(tmp_path: Path, protocol: str) -> None:
    words = ["--protocol", protocol, "--calibration", "paper", "--parties", "4", "--epsilon", "100000", "--out", "run"]
    words += ["--format", "json"]
    data = _data(_demo(tmp_path, *words))
    assert (data["protocol"], data["parties"]) == (protocol, 4)
    figures = data["demo"]["private_figures"]
    assert data["metrics"]["test_error"] < figures["pooled"] + 0.05  # with next to no noise
    models = [json.loads((tmp_path / "run" / who / "model.json").read_text()) for who in ("charlie", "hospital-d")]
    assert models[0]["weights"] == models[1]["weights"]
    assert len((tmp_path / "run" / "auxiliary.csv").read_text().splitlines()) == 1_001


@pytest.mark.parametrize(("protocol", "calibration"), [("weighted-dp", "proven"), ("input-noise", "paper")])
def test_other_protocols_run_between_processes_too(tmp_path: Path, protocol: str, calibration: str) -> None:
    words = ("--protocol", protocol, "--calibration", calibration, "--parties", "3", "--format", "json")
    data = _data(_demo(tmp_path, *words))
    assert (data["protocol"], data["parties"]) == (protocol, 3)
    assert data["metrics"]["test_error"] < 0.25
    assert all(set(row) >= STATEMENT_FIELDS for row in data["statement"])


def test_five_parties_estimate_coefficients_between_processes_and_the_demo_prints_them(tmp_path: Path) -> None:
    data = _data(_demo(tmp_path, "--protocol", "dp-glm", "--format", "json", "--out", "run"))
    assert (data["protocol"], data["parties"]) == ("dp-glm", 5)
    texts = {(tmp_path / "run" / who / "estimates.csv").read_text() for who in ("charlie", "hospital-a", "hospital-e")}
    assert len(texts) == 1
    lines = [line.split(",") for line in texts.pop().splitlines()[1:]]
    report = " ".join((tmp_path / "run" / "report.txt").read_text().split())
    assert "logistic regression on 20,000 records" in report
    for name, told, estimate, se, *_ in lines[:-1]:  # the last is at the means
        assert told == "yes"
        assert f"{name} {float(estimate):.4g} {float(se):.4g}" in report

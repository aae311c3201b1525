"""``masquerade budget``, and what ``doctor`` and ``study show`` say of the budget."""

import json
from pathlib import Path

import pytest

from masquerade.budgeting import budget_line
from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.study import Study
from masquerade_host.store.budget import give_budget
from masquerade_host.store.state import StateFolder
from masquerade_protocols import PROTOCOLS, entry_of
from tests.face_helpers import Shell, small_study
from tests.ledger_helpers import RECORDS, begun, budget, mechanism, named, reserved
from tests.messages import says


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with a finished study and an open one."""
    ledger = budget(tmp_path / "state")
    begun(ledger, named("first"))
    ledger.debits_for(named("first"), "p1").debit(b"r" * 16, [mechanism(epsilon=0.25, mu=0.05)])
    ledger.finish(named("first"), "p1")
    begun(ledger, named("second", epsilon=2.0))
    ledger.end_attempt(named("second", epsilon=2.0), "p1", "p2 fell silent")
    ledger.close()
    return tmp_path / "state"


def test_without_a_budget_every_command_ends_with_7_and_says_what_to_do(shell: Shell, tmp_path: Path) -> None:
    for words in (["show"], ["history"], ["limit", "--epsilon", 1, "--delta", 0], ["export", tmp_path / "out"]):
        answer = shell.json("budget", *words, "--state", tmp_path / "none")
        assert (answer.code, answer.json["error_code"]) == (7, "budget_exceeded")
        assert "budget init" in answer.json["hint"]
    assert not (tmp_path / "none").exists()


def test_a_budget_is_given_once_and_its_limit_changed(shell: Shell, tmp_path: Path) -> None:
    options = ("--epsilon", 10, "--delta", 1e-5, "--state", tmp_path)
    assert shell.json("budget", "init", *options).data["populations"][0]["epsilon"] == 10
    assert shell.json("budget", "init", *options).code == 4
    assert shell.json("budget", "init", *options, "--population", "cardiology", "--basic-only").code == 0
    changed = shell.json("budget", "limit", "--epsilon", 4, "--delta", 1e-7, "--state", tmp_path).data
    assert [(p["epsilon"], p["delta"]) for p in changed["populations"]] == [(4.0, 1e-7)]
    shown = shell.json("budget", "show", "--state", tmp_path).data["populations"]
    assert [(p["population"], p["basic_only"]) for p in shown] == [("default", False), ("cardiology", True)]


def test_the_budget_shows_what_is_spent_reserved_and_left(shell: Shell, state: Path) -> None:
    (found,) = shell.json("budget", "show", "--state", state).data["populations"]
    assert found["spent"] == pytest.approx(epsilon_of(0.05, 1e-5), rel=1e-6)
    assert found["taken"] == pytest.approx(2.0 + epsilon_of(0.05, 1e-5 - 1e-6), rel=1e-6)
    assert found["left"] == pytest.approx(10 - found["taken"])
    assert found["open_studies"] == ["second"]
    words = shell("budget", "show", "--state", state).err
    assert "limit              epsilon = 10, delta = 1e-05" in words
    assert "open studies       second" in words


def test_the_history_has_every_entry_in_words_and_as_json(shell: Shell, state: Path) -> None:
    entries = shell.json("budget", "history", "--state", state).data["entries"]
    kinds = ["limit", "dataset", "reserved", "attempt", "debit", "finished", "reserved", "attempt", "ended"]
    assert [entry["kind"] for entry in entries] == kinds
    words = shell("budget", "history", "--state", state).err
    assert "model: epsilon = 0.25, delta = 1e-06, mu = 0.05" in words
    assert says(words, "approval_shown", ..., ..., ..., ..., "steward")
    assert says(words, "attempt_ended", ..., ..., "p2 fell silent")


def test_an_export_is_one_line_of_json_for_each_entry_and_overwrites_nothing(
    shell: Shell, state: Path, tmp_path: Path
) -> None:
    file = tmp_path / "ledger.jsonl"
    assert shell.json("budget", "export", file, "--state", state).data == {"file": str(file), "entries": 9}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == shell.json("budget", "history", "--state", state).data["entries"]
    assert shell.json("budget", "export", file, "--state", state).code == 4
    assert shell.json("budget", "export", tmp_path / "no" / "where", "--state", state).code == 4


def test_a_study_that_will_not_run_is_given_up(shell: Shell, state: Path, tmp_path: Path) -> None:
    (tmp_path / "second.toml").write_text(named("second", epsilon=2.0).to_toml())
    (found,) = shell.json("budget", "release", tmp_path / "second.toml", "--state", state).data["populations"]
    assert (found["open_studies"], found["taken"]) == ([], found["spent"])
    again = shell.json("budget", "release", tmp_path / "second.toml", "--state", state)
    assert (again.code, says(again.json["message"], "no_reservation", "nobody", "second")) == (4, True)


def test_an_older_copy_is_repaired_from_the_second_file(shell: Shell, state: Path) -> None:
    for path in state.glob("ledger.sqlite*"):
        path.unlink()
    assert shell.json("budget", "show", "--state", state).code == 7
    assert shell.json("budget", "recover", "--state", state).data == {"entered": 9}
    assert shell.json("budget", "show", "--state", state).code == 0


# --- What other commands say ----------------------------------------------------------


def test_study_show_says_what_the_study_would_take_and_what_is_left(shell: Shell, state: Path, tmp_path: Path) -> None:
    study = small_study(shell, tmp_path / "study.toml", epsilon=3.0)
    said = shell.json("study", "show", study, "--state", state).data["budget"]
    assert said["fits"]
    assert says(said["text"], "study_takes", ..., ...)
    assert "epsilon = 3 and delta =" in said["text"]
    assert "are left" in said["text"]
    assert says(shell("study", "show", study, "--state", state).err, "left_of_budget")
    assert shell.json("study", "show", study, "--state", tmp_path / "none").data["budget"] is None


def test_the_doctor_warns_without_a_budget_and_fails_where_the_study_does_not_fit(
    shell: Shell, state: Path, tmp_path: Path
) -> None:
    def budget_check(study: Path, folder: Path) -> tuple[str, str]:
        answer = shell.json("doctor", study, "--state", folder)
        (found,) = [check for check in answer.data["checks"] if check["name"] == "budget"]
        assert answer.code == (7 if found["verdict"] == "fail" else 0)
        return found["verdict"], found["message"]

    study = small_study(shell, tmp_path / "study.toml", epsilon=3.0, key_bits=2048)
    large = small_study(shell, tmp_path / "large.toml", epsilon=9.0, key_bits=2048)
    assert budget_check(study, tmp_path / "none")[0] == "warn"
    assert budget_check(study, state)[0] == "ok"
    verdict, message = budget_check(large, state)
    assert verdict == "fail"
    assert says(message, "study_does_not_fit", ..., ...)


def test_the_line_knows_a_reservation_and_whose_records_they_are(tmp_path: Path) -> None:
    ledger, study = budget(tmp_path, epsilon=1.5), named("a")
    give_budget(StateFolder(tmp_path), "others", 0.5, 1e-5, by="steward")
    protocol = PROTOCOLS["local-aggregation"]
    reserved(ledger, study)
    line = budget_line(StateFolder(tmp_path), study, protocol, "p1", RECORDS)
    assert line is not None
    assert line.fits
    assert says(line.text, "reserved_for_study", ..., ...)
    other = budget_line(StateFolder(tmp_path), named("b"), protocol, "p1", RECORDS)
    assert other is not None
    assert not other.fits
    assert "'default'" in other.text


def test_a_ledger_that_cannot_be_read_is_a_sentence_of_the_doctor(tmp_path: Path) -> None:
    budget(tmp_path).close()
    (tmp_path / "ledger.lines").unlink()
    line = budget_line(StateFolder(tmp_path), named("a"), PROTOCOLS["local-aggregation"])
    assert line is not None
    assert (line.fits, "is missing" in line.text) == (False, True)


def test_what_a_protocol_spends_is_its_target_with_a_mu_where_it_is_gaussian() -> None:
    def spends(study: Study) -> tuple[int, int, bool]:
        cost = entry_of(study).spends(study)
        return cost.epsilon, cost.delta, cost.mu > 0

    assert spends(named("a")) == (10**12, 10**12, False)

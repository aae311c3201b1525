"""A person's yes: how it is given, what it reserves, and what an unattended party may do with it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import masquerade_party._run
from masquerade import doctor
from masquerade.stand_in import stand_in
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import BadInput, BudgetExceeded, RefusedLocally, RunFailed
from masquerade_core.seat import Release
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.budget import give_budget, set_limit
from masquerade_host.store.ledger import Account, Ledger
from masquerade_host.store.permissions import find_approval
from masquerade_host.store.state import StateFolder
from masquerade_party import approve
from masquerade_party._approve import in_words, login_name
from masquerade_party._records import sizes_of
from masquerade_party._site import LedgerAttempt
from masquerade_protocols import protocol_of
from tests.face_helpers import Answer, Shell
from tests.messages import raises, says
from tests.processes import Machines


class Desk:
    """A party's machine, p1's, with a budget; commands are given there."""

    def __init__(self, folder: Path, shell: Shell) -> None:
        self.machines = Machines.new(folder)
        self.study = self.machines.study
        self.state = StateFolder(folder / "state" / "p1")
        self.data = folder / "p1.csv"
        self._shell = shell

    def budget(self, epsilon: float = 10.0, delta: float = 1e-5, population: str = "default") -> None:
        """Give a population a budget."""
        give_budget(self.state.made(), population, epsilon, delta, by="a test").close()

    def policy(self, text: str) -> None:
        """Write the site's rules."""
        self.state.made().policy.write_text(text)

    def approve(self, *more: object, study: Path | None = None, typed: str | None = None) -> Answer:
        """Approve by a typed fingerprint."""
        words = ["approve", study or self.machines.folder / "study.toml", "--state", self.state.root, "--by", "Ada"]
        if "--as" not in more and "--key" not in more:
            words += ["--key", self.machines.folder / "keys" / "p1.key"]
        return self._shell.json(*words, "--fingerprint", typed or self.study.fingerprint(), *more)

    def party(self, *more: object, data: Path | None = None) -> Answer:
        """Start the party, which does not ask."""
        folder = self.machines.folder
        words = ["party", folder / "study.toml", "--key", folder / "keys" / "p1.key", "--state", self.state.root]
        words += ["--data", data or self.data, "--approved"]
        return self._shell.json(*words, *([] if "--out" in more else ["--out", folder / "run"]), *more)

    def account(self, population: str = "default") -> Account:
        """The state of a budget afterwards."""
        ledger = Ledger.open(self.state)
        try:
            return ledger.account(population)
        finally:
            ledger.close()

    @property
    def approved(self) -> bool:
        """Whether an approval is recorded."""
        return find_approval(self.state, self.study, "p1") is not None


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A party's machine, on which no run gets as far as the network."""

    def reached(role: Any, *_more: object, **_named: object) -> None:
        role.close()
        raise RunFailed("the session was reached")

    monkeypatch.setattr(masquerade_party._run, "run_role", reached)
    monkeypatch.setattr("masquerade_host.process.process.harden", lambda: None)
    return Desk(tmp_path, Shell(capsys))


def went_on(answer: Answer) -> bool:
    """Whether nothing at home stopped the party."""
    return answer.code == 1 and "the session was reached" in answer.json["message"]


# --- Approving ----------------------------------------------------------------------


def test_records_on_a_disk_are_the_same_records_to_the_ledger(desk: Desk, tmp_path: Path) -> None:
    desk.budget()
    (scratch := tmp_path / "scratch").mkdir()
    assert desk.approve("--data", desk.data, "--stream", scratch).code == 0
    assert desk.account().taken > 0
    assert went_on(desk.party())
    assert went_on(desk.party("--stream", scratch))
    assert desk.party("--stream", tmp_path / "none").code == 4
    assert list(scratch.iterdir()) == []


def test_an_approval_reserves_the_budget_and_lets_the_party_start(desk: Desk) -> None:
    desk.budget()
    assert desk.party().code == 6
    answer = desk.approve("--data", desk.data)
    assert answer.code == 0, answer.out
    data = answer.data
    assert (data["who"], data["participant"], data["population"], data["reserved"]) == ("Ada", "p1", "default", True)
    assert data["fingerprint"] == desk.study.fingerprint()
    account = desk.account()
    assert (account.spent, account.taken, account.open_studies) == (0.0, 1.0, ("toy",))
    assert went_on(desk.party())
    # What was reserved for this study is not reserved twice.
    assert desk.approve("--data", desk.data).code == 0
    assert desk.account().taken == 1.0


def test_the_study_is_shown_before_it_is_approved_of(desk: Desk) -> None:
    desk.budget()
    shown = " ".join(desk.approve("--data", desk.data).err.split())
    for words in (
        "What leaves this machine",
        "Who must not work together",
        "What it costs",
        "takes up to epsilon = 1 and delta = 0 from the budget of the population 'default', which is epsilon = 10",
        "10 is left",
        "These records were never used on this machine",
        desk.study.fingerprint(),
    ):
        assert words in shown
    again = " ".join(desk.approve("--data", desk.data).err.split())
    assert "never used" not in again
    assert "9 is left" in again


@pytest.mark.parametrize("change", [str.upper, lambda f: f.replace(" ", ""), lambda f: f.replace(" ", "-")])
def test_a_fingerprint_may_be_typed_in_any_common_form(desk: Desk, change: Callable[[str], str]) -> None:
    desk.budget()
    assert desk.approve(typed=change(desk.study.fingerprint())).code == 0


@pytest.mark.parametrize("typed", ["yes", "0000", ""])
def test_another_fingerprint_is_no_yes(desk: Desk, typed: str) -> None:
    desk.budget()
    answer = desk.approve("--data", desk.data, "--fingerprint", typed)
    assert answer.code == 6
    assert desk.study.fingerprint() not in answer.json["message"]  # it stands in the study, for those who read that
    assert not desk.approved
    assert desk.account().taken == 0


def test_the_beginning_of_a_fingerprint_is_no_yes(desk: Desk) -> None:
    desk.budget()
    assert desk.approve(typed=desk.study.fingerprint()[:9]).code == 6
    assert desk.approve(typed=desk.study.digest().hex()).code == 6
    assert not desk.approved


def test_where_nobody_can_be_asked_a_fingerprint_must_be_typed(desk: Desk) -> None:
    desk.budget()
    words = [sys.executable, "-m", "masquerade", "approve", str(desk.machines.folder / "study.toml"), "--as", "p1"]
    done = subprocess.run(
        [*words, "--state", str(desk.state.root)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=_env(),
    )
    assert done.returncode == 6
    assert says(done.stderr, "nobody_asked_for_approval")
    assert not desk.approved


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)}  # noqa: PTH100


@pytest.mark.parametrize(("said", "code"), [(b"yes\n", 0), (b"no\n", 6)])
def test_at_a_terminal_a_person_is_asked(desk: Desk, said: bytes, code: int) -> None:
    desk.budget()
    words = [sys.executable, "-m", "masquerade", "approve", str(desk.machines.folder / "study.toml"), "--as", "p1"]
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*words, "--state", str(desk.state.root)], stdin=child, stderr=subprocess.PIPE, text=True, env=_env()
    )
    os.close(child)
    os.write(parent, said)
    _, shown = process.communicate(timeout=300)
    os.close(parent)
    assert process.returncode == code, shown
    assert says(shown, "take_part_question")
    found = find_approval(desk.state, desk.study, "p1")
    assert (found is not None) == (code == 0)
    assert found is None or found.who == login_name()


def test_without_a_budget_nothing_can_be_approved_of(desk: Desk) -> None:
    answer = desk.approve("--data", desk.data)
    assert answer.code == 7
    assert says(answer.json["hint"], "budget_init_for_ledger")
    assert not desk.approved


def test_a_study_that_costs_more_than_is_left_is_refused(desk: Desk) -> None:
    desk.budget(epsilon=0.5)
    answer = desk.approve("--data", desk.data)
    assert answer.code == 7
    assert not desk.approved
    # Without records nothing is reserved, so the party finds it when it starts, before anything is sent.
    assert desk.approve().code == 0
    desk.policy(f"[[population]]\nname = 'default'\ndata = ['{desk.data}']\n")
    assert desk.party().code == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--as", "p9"], "not in the roster"),
        (["--as", CHARLIE], "not in the roster"),
        (["--key", "keys/charlie.key"], "Charlie's key"),
        (["--key", "keys/p1.key", "--as", "p2"], "is the key of p1"),
        (["--by", ""], "1 to 128"),
    ],
)
def test_an_approval_is_given_for_a_party_by_a_person(desk: Desk, words: list[str], said: str) -> None:
    desk.budget()
    words = [str(desk.machines.folder / word) if word.startswith("keys/") else word for word in words]
    answer = desk.approve(*words)
    assert answer.code == 4
    assert said in answer.json["message"]
    assert not desk.approved


def test_somebody_who_has_no_keys_may_approve_for_a_party(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--as", "p1", "--data", desk.data).code == 0
    assert went_on(desk.party())
    with raises(BadInput, "party_not_said"):
        approve(desk.machines.folder / "study.toml", state=desk.state.root, fingerprint=desk.study.fingerprint())


# --- Taking part at a terminal --------------------------------------------------------


def _attended(desk: Desk, monkeypatch: pytest.MonkeyPatch, *, agrees: bool) -> list[str]:
    """Start the party for a person who says yes, or no; returns what was shown."""
    shown: list[str] = []

    def ask(words: str) -> None:
        shown.append(words)
        assert not desk.approved
        if not agrees:
            raise RefusedLocally("no")

    monkeypatch.setattr(masquerade_party._approve, "ask", ask)
    folder = desk.machines.folder
    with pytest.raises(RunFailed if agrees else RefusedLocally):
        masquerade_party.run(
            folder / "study.toml",
            desk.data,
            folder / "keys" / "p1.key",
            out=folder / "run",
            state=desk.state.root,
        )
    return shown


def test_a_yes_at_the_terminal_is_recorded_like_any_approval(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.budget()
    (words,) = _attended(desk, monkeypatch, agrees=True)
    assert says(words, "takes_from_budget")
    assert desk.approved
    assert desk.account().taken == 1.0
    assert went_on(desk.party())


def test_a_no_at_the_terminal_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.budget()
    _attended(desk, monkeypatch, agrees=False)
    assert not desk.approved
    assert desk.account().taken == 0
    assert not (desk.machines.folder / "run").exists()
    ledger = Ledger.open(desk.state)
    assert ledger.population_of(_fingerprint_of(desk, ledger)) is None
    ledger.close()


def test_nobody_is_asked_where_the_budget_does_not_suffice(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.budget()
    ledger = Ledger.open(desk.state)
    ledger.adopt(_fingerprint_of(desk, ledger), "default", by="a test")
    set_limit(ledger, "default", 0.5, 1e-5, by="a test")
    ledger.close()
    monkeypatch.setattr(masquerade_party._approve, "ask", pytest.fail)
    folder = desk.machines.folder
    with pytest.raises(BudgetExceeded):
        masquerade_party.run(folder / "study.toml", desk.data, folder / "keys" / "p1.key", state=desk.state.root)
    monkeypatch.setattr(masquerade_party._approve, "ask", pytest.fail)
    with pytest.raises(BudgetExceeded):
        approve(folder / "study.toml", participant="p1", data_path=desk.data, state=desk.state.root)


# --- Starting unattended ------------------------------------------------------------


def test_an_approval_holds_for_exactly_this_study(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    desk.study = desk.machines.study = type(desk.study).parse(desk.study.to_toml().replace("max = 1.0", "max = 2.0"))
    desk.machines.write_study()
    answer = desk.party()
    assert answer.code == 6
    assert desk.study.fingerprint() in answer.json["message"]


def test_the_policy_holds_whoever_approved(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    desk.policy("[study]\nmax_epsilon = 0.5\n")
    for answer in (desk.party(), desk.approve("--data", desk.data)):
        assert answer.code == 6
        assert says(answer.json["message"], "policy_max_of_study_itself", "epsilon", "epsilon", 1, "0.5")
    desk.policy("[budget]\nmax_epsilon = 5.0\n")
    answer = desk.party()
    assert answer.code == 6
    assert says(answer.json["message"], "budget_of_population", "'default'")
    assert says(answer.json["message"], "policy_max_epsilon", ..., 10, 5)


def test_a_policy_with_a_mistake_stops_everything(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    desk.policy("[study]\nmax_epsilom = 5.0\n")
    assert desk.party().code == 4


def test_unknown_records_need_a_person_or_the_policy(desk: Desk) -> None:
    desk.budget()
    answer = desk.approve()
    assert answer.code == 0
    assert answer.data["reserved"] is False
    refused = desk.party()
    assert refused.code == 6
    assert says(refused.json["message"], "records_never_used")
    assert "--data" in refused.json["hint"]
    assert desk.account().taken == 0
    desk.policy(f"[[population]]\nname = 'default'\ndata = ['{desk.data}']\n")
    assert went_on(desk.party())
    assert desk.account().taken == 1.0
    desk.policy("")
    assert went_on(desk.party())  # they are known now


def test_other_records_than_those_approved_of_are_refused(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    other = desk.machines.folder / "p2.csv"
    assert desk.party(data=other).code == 6
    # Even where they are known: two runs over different records would show who was changed.
    desk.policy(f"[[population]]\nname = 'default'\ndata = ['{desk.data}', '{other}']\n")
    answer = desk.party(data=other)
    assert answer.code == 6
    assert says(answer.json["message"], "records_not_of_first_attempt")


def test_records_stay_with_their_population(desk: Desk) -> None:
    desk.budget()
    desk.budget(population="staff")
    assert desk.approve("--data", desk.data, "--population", "staff").code == 0
    assert desk.account("staff").taken == 1.0
    assert went_on(desk.party())
    answer = desk.party("--population", "default")
    assert answer.code == 6
    assert says(answer.json["message"], "approved_on_another_budget", "Ada", "'staff'")
    answer = desk.approve("--data", desk.data, "--population", "default")
    assert answer.code == 6
    assert says(answer.json["message"], "records_charged_elsewhere", "'staff'")
    assert desk.approve("--data", desk.data).data["population"] == "staff"


def test_a_finished_study_never_runs_again_wherever_its_results_are(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    ledger = Ledger.open(desk.state)
    ledger.start_attempt(desk.study, "p1", _fingerprint_of(desk, ledger))
    ledger.finish(desk.study, "p1")
    ledger.close()
    for more in ([], ["--out", desk.machines.folder / "elsewhere"]):
        answer = desk.party(*more)
        assert answer.code == 6
        assert says(answer.json["message"], "study_finished")


def test_what_fails_at_home_leaves_no_folder(desk: Desk) -> None:
    desk.budget()
    desk.party()
    desk.approve("--data", desk.data)
    desk.party()
    assert not (desk.machines.folder / "run").exists()


# --- Attempts -----------------------------------------------------------------------


def _fingerprint_of(desk: Desk, ledger: Ledger) -> bytes:
    return ledger.fingerprint(load_csv(desk.data, desk.study))


def _attempt(desk: Desk, *events: str, ends: Exception | None = None) -> list[str]:
    """One attempt, with these events of its session; returns the events that went on."""
    ledger, told = Ledger.open(desk.state), []
    sizes = sizes_of(desk.study, load_csv(desk.data, desk.study))

    def observe(event: str, /, **_fields: str | float) -> None:
        told.append(event)

    try:
        with LedgerAttempt(ledger, desk.study, "p1", _fingerprint_of(desk, ledger), sizes, observe) as attempt:
            for event in events:
                if event == "release":
                    attempt.debit(b"r" * 16, [Release("model", 1.0, 0.0)])
                else:
                    attempt.observe(event)
            if ends is not None:
                raise ends
    except RunFailed:
        pass
    finally:
        ledger.close()
    return told


def test_who_waits_and_is_stopped_has_made_no_attempt(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    for _ in range(5):
        assert _attempt(desk, "connecting", "connected", ends=RunFailed("x")) == ["connecting", "connected"]
    assert went_on(desk.party())


def test_a_party_that_would_count_its_records_in_another_way_begins_no_second_attempt(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    _attempt(desk, "joined", ends=RunFailed("x"))
    assert went_on(desk.party())
    monkeypatch.setattr(masquerade_party._run, "sizes_of", lambda *records: (sizes_of(*records)[0] - 1,))
    answer = desk.party()
    assert answer.code == 6
    assert says(answer.json["message"], "records_counted_otherwise")  # before any session


def test_attempts_that_began_and_released_nothing_are_counted(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    for _ in range(3):
        assert went_on(desk.party())
        _attempt(desk, "joined", ends=RunFailed("network down"))
    answer = desk.party()
    assert answer.code == 6
    assert "3 attempts" in answer.json["message"]
    ledger = Ledger.open(desk.state)
    ended = [entry for entry in ledger.history() if entry.kind == "ended"]
    ledger.close()
    assert [entry.fields["why"] for entry in ended] == ["network down"] * 3


def test_after_a_release_there_is_no_second_attempt(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    _attempt(desk, "joined", "release", ends=RunFailed("x"))
    assert desk.account().spent == 1.0
    assert desk.party().code == 7
    with pytest.raises(BudgetExceeded):
        _attempt(desk, "joined")


def test_a_run_that_ends_well_finishes_the_study(desk: Desk) -> None:
    desk.budget()
    assert desk.approve("--data", desk.data).code == 0
    _attempt(desk, "joined", "release")
    account = desk.account()
    assert (account.spent, account.taken, account.open_studies) == (1.0, 1.0, ())
    with raises(RefusedLocally, "study_finished"):
        _attempt(desk)


# --- The doctor ---------------------------------------------------------------------


def test_the_doctor_says_whether_policy_and_approval_are_there(desk: Desk) -> None:
    study, protocol = desk.study, protocol_of(desk.study)

    def said() -> list[tuple[str, str]]:
        checks = doctor._policy(study, protocol, desk.state), doctor._approval(study, "p1", desk.state)
        return [(check.verdict, check.message) for check in checks]

    (policy, no_rules), (approval, nobody) = said()
    assert (policy, approval) == ("note", "warn")
    assert "no rules" in no_rules
    assert says(nobody, "study_not_approved_for", "p1")
    desk.budget()
    desk.policy("[study]\nmax_epsilon = 1.0\n")
    assert desk.approve("--data", desk.data).code == 0
    (policy, rules), (approval, who) = said()
    assert (policy, approval) == ("ok", "ok")
    assert says(rules, "rules_allow_study", "policy.toml")
    assert says(who, "who_approved_it", "Ada", 20)
    desk.policy("[study]\nmax_epsilon = 0.5\n")
    desk.state.approval(study, "p1").write_text("{}")
    (policy, rules), (approval, who) = said()
    assert (policy, approval) == ("fail", "fail")
    assert "[study] max_epsilon" in rules
    assert says(who, "approval_unreadable", ...)


# --- A demonstration ----------------------------------------------------------------


def test_a_demonstration_has_a_budget_that_suffices(tmp_path: Path) -> None:
    machines = Machines.new(tmp_path)
    greedy = machines.write_study(changes={"epsilon = 1.0": "epsilon = 50.0", "delta = 0.0": "delta = 0.001"})
    study = type(machines.study).parse(greedy.read_text())
    for _ in range(2):  # a container starts again with the state of before
        stand_in(study, greedy, tmp_path / "keys" / "p1.key", tmp_path / "p1.csv", tmp_path / "own", "a demonstration")
    ledger = Ledger.open(StateFolder(tmp_path / "own"))
    assert ledger.account("default").taken == pytest.approx(50.0)
    ledger.close()
    (record,) = (tmp_path / "own" / "approvals").iterdir()
    assert json.loads(record.read_text())["who"] == "a demonstration"


# --- What looks like a mistake ------------------------------------------------------


def _with_one_label(path: Path) -> Path:
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    odd = path.with_name("odd.csv")
    odd.write_text("\n".join([header, *(line.rpartition(",")[0] + ",odd" for line in lines)]) + "\n", encoding="utf-8")
    return odd


def test_a_mistake_is_refused_before_the_yes_and_never_on_the_day(desk: Desk) -> None:
    desk.budget()
    odd, label = _with_one_label(desk.data), desk.study.label.name
    answer = desk.approve("--data", odd)
    assert (answer.code, desk.approved, desk.account().taken) == (4, False, 0.0)
    assert says(answer.err + answer.out, "looks_like_a_mistake", "odd.csv")
    assert desk.approve("--accept", label).code == 4  # it says nothing without records
    answer = desk.approve("--data", odd, "--accept", label)
    assert (answer.code, answer.data["accepted"]) == (0, [label])
    found = find_approval(desk.state, desk.study, "p1")
    assert found is not None
    assert found.accepted == (label,)
    assert went_on(desk.party(data=odd))


def test_an_approved_party_joins_whatever_its_cells_hold(desk: Desk) -> None:
    desk.budget()
    assert desk.approve().code == 0  # of the study alone
    odd = _with_one_label(desk.data)
    desk.policy(f"[[population]]\nname = 'default'\ndata = ['{odd}']\n")
    assert went_on(desk.party(data=odd))


def test_what_the_coordinator_declares_stands_before_the_yes(desk: Desk) -> None:
    desk.budget()
    declared = 'purpose = "which patients come back"\nethics_number = "2026-123"\n[privacy]'
    (path := desk.machines.folder / "new.toml").write_text(desk.study.to_toml().replace("[privacy]", declared))
    study = Study.parse(path.read_text())
    words = in_words(study, "p1", protocol_of(study).explain(study))
    title, first = words.index("What the coordinator declares"), words.index("What leaves this machine")
    assert title < words.index("Purpose: which patients come back") < words.index("Ethics number: 2026-123") < first
    assert "What the coordinator declares" not in in_words(desk.study, "p1", protocol_of(study).explain(study))


def test_a_study_that_varies_another_one_s_bounds_is_noticed(desk: Desk) -> None:
    desk.budget()
    assert desk.approve().code == 0
    first = desk.study
    old = next(f for f in first.features if f.min is not None)
    text = (
        first.to_toml().replace(first.study.nonce, "another-nonce-of-22-ch").replace('name = "toy"', 'name = "again"')
    )

    def beside(new: str) -> str:
        study = Study.parse(new)
        (path := desk.machines.folder / "new.toml").write_text(new, encoding="utf-8")
        answer = desk.approve(study=path, typed=study.fingerprint())
        assert answer.code == 0, answer.out
        return " ".join(answer.data["beside"])

    assert not beside(text)  # the same study again
    old_nonce = 'nonce = "another-nonce-of-22-ch"'
    narrow = text.replace(f"max = {old.max}", f"max = {(old.max or 0) - 1}", 1)
    assert narrow != text
    assert says(beside(narrow), "differs_in_ranges")
    declared = f'{old_nonce}\npurpose = "another"\ncontact = "nobody"'
    assert says(beside(narrow.replace(old_nonce, declared)), "differs_in_ranges")  # words hide nothing
    assert not beside(narrow.replace("epsilon = 1.0", "epsilon = 0.5"))  # it differs in more than that

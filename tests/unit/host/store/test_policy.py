"""The site's rules, and the record of a person's yes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from masquerade_core.errors import BadInput, MasqueradeError, RefusedLocally, RunFailed
from masquerade_core.privacy.accounting import cost_of
from masquerade_core.study import CHARLIE
from masquerade_host.store.approving import approval_given, record_approval
from masquerade_host.store.permissions import (
    DEFAULT_POPULATION,
    Policy,
    find_approval,
    load_policy,
    need_approval,
)
from masquerade_host.store.state import StateFolder
from tests.host_helpers import World
from tests.messages import raises, says, sentence

WORLD = World.new(3, port=5555)
OTHER = World.new(3, port=5555)
CURATOR = str(WORLD.study.curator.key)


def policy(folder: Path, text: str) -> Policy:
    """Write a policy into a state folder, and read it."""
    state = StateFolder(folder).made()
    state.policy.write_text(text)
    return load_policy(state)


def refusal(folder: Path, text: str) -> str:
    """Why the policy forbids the study."""
    with pytest.raises(RefusedLocally) as caught:
        policy(folder, text).check(WORLD.study)
    assert caught.value.exit_code == 6
    assert str(folder / "policy.toml") in caught.value.hint
    return caught.value.message


# --- The file -----------------------------------------------------------------------


def test_without_a_policy_nothing_is_forbidden(tmp_path: Path) -> None:
    found = load_policy(StateFolder(tmp_path / "nowhere"))
    found.check(WORLD.study)
    found.check_budget("default", 1e6, 0.5)
    assert found.population() == DEFAULT_POPULATION
    assert found.population("patients", tmp_path / "x.csv") == "patients"
    assert not found.names(tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[study]\nmax_epsilom = 1\n", "[study] has an unknown key 'max_epsilom' (did you mean 'max_epsilon'?)"),
        ("[studies]\n", "the top level has an unknown key 'studies' (did you mean 'study'?)"),
        ("[[population]]\nname = 'p'\ndta = []\n", "unknown key 'dta' (did you mean 'data'?)"),
        ("[[population]]\n", "[[population]] number 1, name is missing"),
        ("[study]\nmax_epsilon = 'one'\n", '[study] max_epsilon is "one", but must be a number'),
        ("[study]\nmax_epsilon = 0\n", "must be greater than 0"),
        ("[study]\nmax_delta = 1\n", "must be less than 1"),
        ("[study]\nmin_parties = 2.5\n", "must be a whole number"),
        ("[study]\nprotocols = []\n", "at least 1"),
        ("[study]\ncalibrations = ['prooven']\n", 'must be "paper" or "proven"'),
        ("[study]\ncoordinators = ['mq1:x']\n", "is not a public key of the form mq1:"),
        ("[[population]]\nname = 'p'\ndata = ['records.csv']\n", "must be an absolute path"),
        ("[[population]]\nname = 'p'\n[[population]]\nname = 'p'\n", "'p' appears twice"),
        (
            "[[population]]\nname = 'p'\ndata = ['/a/b.csv']\n[[population]]\nname = 'q'\ndata = ['/a/../a/b.csv']\n",
            "belongs to two populations",
        ),
        ("[study\n", "is not TOML"),
    ],
)
def test_a_policy_that_is_wrong_says_where(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        policy(tmp_path, text)
    assert words in caught.value.message
    assert str(tmp_path / "policy.toml") in caught.value.message


def test_a_policy_that_cannot_be_read_is_no_absent_policy(tmp_path: Path) -> None:
    StateFolder(tmp_path).policy.mkdir()
    with raises(BadInput, "file_unreadable", ..., ...):
        load_policy(StateFolder(tmp_path))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "policy.toml").write_bytes(b"\xff")
    with raises(BadInput, "file_not_utf8"):
        load_policy(StateFolder(tmp_path / "other"))


# --- The rules ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "forbidden", "words"),
    [
        (
            f"coordinators = ['{CURATOR}']",
            f"coordinators = ['{OTHER.study.curator.key}']",
            ("coordinators", WORLD.study.curator.key.fingerprint(), OTHER.study.curator.key.fingerprint()),
        ),
        ("protocols = ['psgd', 'local-aggregation']", "protocols = ['psgd', 'dp-gd']", ("protocols", "psgd and dp-gd")),
        ("calibrations = ['paper']", "calibrations = ['proven']", ("calibrations", "is paper", "proven is allowed")),
        ("max_epsilon = 1.0", "max_epsilon = 0.99", ("max_epsilon", "epsilon is 1,", "at most 0.99")),
        ("max_delta = 1e-7", "max_delta = 0.0", ("max_delta", "delta is 1e-07,", "at most 0 ")),
        ("min_parties = 3", "min_parties = 4", ("min_parties", "3 parties", "at least 4")),
        ("min_colluders = 0", "min_colluders = 1", ("min_colluders", "no colluders", "at least 1")),
    ],
)
def test_each_rule_forbids_what_is_beyond_it_and_nothing_else(
    tmp_path: Path, allowed: str, forbidden: str, words: tuple[str, ...]
) -> None:
    study = WORLD.changed("delta = 0.0", "delta = 1e-7")
    policy(tmp_path, f"[study]\n{allowed}\n").check(study)
    with pytest.raises(RefusedLocally) as caught:
        policy(tmp_path, f"[study]\n{forbidden}\n").check(study)
    assert caught.value.message.startswith(f"{sentence('one_rule_forbids')} this study: [study] ")
    for word in words:
        assert word in caught.value.message


def test_a_study_may_take_no_more_than_its_target_may_be(tmp_path: Path) -> None:
    """A paper's noise may keep less than the target that the study names."""
    found = policy(tmp_path, "[study]\nmax_epsilon = 1.0\nmax_delta = 0.1\n")
    found.check(WORLD.study, cost_of(1.0, 0.1))
    with raises(RefusedLocally, "policy_max_of_study", "epsilon", "epsilon", "11.87"):
        found.check(WORLD.study, cost_of(11.87, 0.1))
    with raises(RefusedLocally, "policy_max_of_study", "delta", "delta", "0.2"):
        found.check(WORLD.study, cost_of(1.0, 0.2))


def test_all_broken_rules_are_told_at_once(tmp_path: Path) -> None:
    said = refusal(tmp_path, "[study]\nmax_epsilon = 0.5\nmin_parties = 10\n")
    assert said.startswith(f"{sentence('rules_forbid', 2)} this study: ")
    assert "max_epsilon" in said
    assert "min_parties" in said


def test_a_papers_noise_counts_with_no_colluders(tmp_path: Path) -> None:
    study = WORLD.changed("colluders = 0", "colluders = 2")
    with raises(RefusedLocally, "policy_noise_of_paper"):
        policy(tmp_path, "[study]\nmin_colluders = 1\n").check(study)


def test_a_budget_may_not_be_larger_than_a_rule_says(tmp_path: Path) -> None:
    found = policy(tmp_path, "[budget]\nmax_epsilon = 3\nmax_delta = 1e-5\n")
    found.check_budget("patients", 3.0, 1e-5)
    with raises(RefusedLocally, "policy_max_epsilon", "the budget of the population 'patients' is", "3.1", 3):
        found.check_budget("patients", 3.1, 1e-5)
    with raises(RefusedLocally, "policy_max_delta", ..., "2e-05", "1e-05"):
        found.check_budget("patients", 3.0, 2e-5)


# --- Populations --------------------------------------------------------------------

TWO = """
[[population]]
name = "patients"
data = ["{folder}/patients.csv"]

[[population]]
name = "staff"
data = ["{folder}/staff.csv"]
"""


def test_a_file_belongs_to_the_population_that_names_it(tmp_path: Path) -> None:
    found = policy(tmp_path, TWO.format(folder=tmp_path))
    (tmp_path / "patients.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "patients.csv")
    assert found.population(data=tmp_path / "staff.csv") == "staff"
    assert found.population(data=tmp_path / "link.csv") == "patients"
    assert found.population("staff", tmp_path / "staff.csv") == "staff"
    assert found.names(tmp_path / "link.csv")
    assert not found.names(tmp_path / "other.csv")


def test_no_file_counts_on_another_populations_budget(tmp_path: Path) -> None:
    found = policy(tmp_path, TWO.format(folder=tmp_path))
    with raises(RefusedLocally, "belongs_to_population", "'staff'") as caught:
        found.population("patients", tmp_path / "staff.csv")
    told = (tmp_path / "staff.csv", ..., tmp_path / "patients.csv", "'patients'")
    assert says(caught.value.message, "files_of_population", *told)
    with raises(RefusedLocally, "not_one_of_its_files"):
        found.population("patients", tmp_path / "other.csv")
    with raises(RefusedLocally, "policy_population_unknown", "'visitors'", "patients and staff"):
        found.population("visitors")


def test_where_several_populations_are_possible_somebody_must_choose(tmp_path: Path) -> None:
    found = policy(tmp_path, TWO.format(folder=tmp_path))
    for data in (None, tmp_path / "other.csv"):
        with raises(BadInput, "file_in_no_population", "2 populations", "patients and staff"):
            found.population(data=data)


def test_the_only_population_need_not_be_named(tmp_path: Path) -> None:
    found = policy(tmp_path, "[[population]]\nname = 'patients'\n")
    assert found.population(data=tmp_path / "any.csv") == "patients"
    assert found.population() == "patients"


# --- Approval -----------------------------------------------------------------------


def test_an_approval_is_found_again_by_this_study_alone(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    given = approval_given(WORLD.study, "p1", "patients", "Ada Berg", counted=False)
    path = record_approval(state, WORLD.study, given)
    assert need_approval(state, WORLD.study, "p1") == given
    assert find_approval(state, WORLD.study, "p2") is None
    assert find_approval(state, WORLD.changed("max = 1.0", "max = 1.5"), "p1") is None
    assert find_approval(state, OTHER.study, "p1") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.root.stat().st_mode) == 0o700
    assert json.loads(path.read_text())["who"] == "Ada Berg"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_two_parties_of_one_machine_approve_each_for_itself(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    for name in ("p1", "p2"):
        record_approval(state, WORLD.study, approval_given(WORLD.study, name, "patients", name, counted=False))
    assert [need_approval(state, WORLD.study, name).who for name in ("p1", "p2")] == ["p1", "p2"]


def test_without_an_approval_the_study_is_refused_by_its_fingerprint(tmp_path: Path) -> None:
    with pytest.raises(RefusedLocally) as caught:
        need_approval(StateFolder(tmp_path), WORLD.study, "p1")
    assert WORLD.study.fingerprint() in caught.value.message
    assert "masquerade approve" in caught.value.hint


@pytest.mark.parametrize("change", ["", "{}", "digest", "participant", "more"])
def test_an_approval_that_says_something_else_is_none(tmp_path: Path, change: str) -> None:
    state = StateFolder(tmp_path)
    path = record_approval(state, WORLD.study, approval_given(WORLD.study, "p1", "patients", "Ada", counted=False))
    record = json.loads(path.read_text())
    changes: dict[str, dict[str, Any]] = {
        "digest": {"digest": "0" * 64},
        "participant": {"participant": "p2"},
        "more": {"x": 1},
    }
    altered = changes.get(change)
    path.write_text(json.dumps({**record, **altered}) if altered else change)
    with raises(BadInput, "approval_of_another" if change in {"digest", "participant"} else "approval_unreadable", ...):
        find_approval(state, WORLD.study, "p1")


def test_an_approval_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = StateFolder(tmp_path)
    record_approval(state, WORLD.study, approval_given(WORLD.study, "p1", "patients", "Ada", counted=False))

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raises(RunFailed, "approval_not_written", ..., "No space left on device"):
        record_approval(state, WORLD.study, approval_given(WORLD.study, "p1", "patients", "Eve", counted=False))
    monkeypatch.undo()
    assert need_approval(state, WORLD.study, "p1").who == "Ada"
    assert len(list((tmp_path / "approvals").iterdir())) == 1


@pytest.mark.parametrize("who", ["", "x" * 129])
def test_an_approval_has_a_persons_name(who: str) -> None:
    with raises(MasqueradeError, "approver_name_length"):
        approval_given(WORLD.study, "p1", "patients", who, counted=False)


def test_the_fingerprint_is_the_start_of_the_digest() -> None:
    study = WORLD.study
    assert study.fingerprint().replace(" ", "") == study.digest().hex()[:32]
    assert CHARLIE not in study.names

"""Files of an earlier version keep their meaning: balances, approvals, journals, transcripts, and seeded models."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from masquerade_core.crypto.masks import CheckKey
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import Damaged, LocalProtocolError, ProgramChanged, RefusedLocally
from masquerade_core.seat import Seat
from masquerade_host.process.driver import Stand, resume
from masquerade_host.process.program import Program
from masquerade_host.session.party import PartySession
from masquerade_host.store.journal import ReplayLog, journal_of
from masquerade_host.store.keyfiles import load_keys
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from masquerade_protocols import protocol_of
from tests.frozen import ARCHIVES, NOW, unpacked
from tests.frozen.known import ME, known_of, rows_of, study_of, verdict_of
from tests.frozen.models import FILE, NAMES, model_of
from tests.wired import FakePartyLink

MODELS = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=ARCHIVES)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The files of a version, and the known facts about them."""
    folder = tmp_path_factory.mktemp(request.param)
    return folder, unpacked(request.param, folder)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The files of this version, for one test."""
    unpacked(NOW, tmp_path)
    return tmp_path


def test_there_is_an_archive_of_this_wire_and_meaning() -> None:
    assert NOW in ARCHIVES


def test_a_version_s_folders_say_what_they_said(left: tuple[Path, dict[str, Any]]) -> None:
    folder, known = left
    now = known_of(folder)
    (balance,), (before,) = now.pop("balance"), known.pop("balance")
    assert now == known
    numbers = {key for key, value in before.items() if isinstance(value, float)}
    assert {key: balance[key] for key in balance.keys() - numbers} == {
        key: before[key] for key in before.keys() - numbers
    }
    assert [balance[key] for key in sorted(numbers)] == pytest.approx(
        [before[key] for key in sorted(numbers)], rel=1e-9
    )


def test_a_study_that_finished_in_an_earlier_version_never_runs_again(left: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = left
    study = study_of(folder, "done")
    with closing(Ledger.open(StateFolder(folder / "state"))) as ledger:
        assert ledger.finished(study, ME)
        fingerprint = ledger.fingerprint(load_csv(folder / "p1.csv", study))
        with pytest.raises(RefusedLocally):
            ledger.check_attempt(study, ME, fingerprint)


def replayed(site: Path, program: Program, records: str = "p1.csv") -> tuple[PartySession, Stand]:
    """Start the killed process again with this program, up to where it died."""
    study, keys = study_of(site, "open"), load_keys(site / "p1.key")
    with (
        closing(Ledger.open(StateFolder(site / "state"))) as ledger,
        journal_of(study, ME, keys, site / "state") as journal,
    ):
        data = load_csv(site / records, study)
        session = PartySession(
            ME,
            study,
            keys,
            FakePartyLink,
            lambda: pytest.fail("nobody is asked"),
            version=protocol_of(study).version,
            program=program,
            debits=ledger.debits_for(study, ME),
        )
        session.steps = ReplayLog(journal)
        role = protocol_of(study).party(Seat(ME, study.names), study, data)
        try:
            session.steps.begin(program, ledger.fingerprint(data))
            session.open()
            return session, resume(role, session)
        finally:
            role.close()


def program_of(site: Path) -> Program:
    """The program with which the attempt began, by its journal."""
    return Program.unpacked(rows_of(site)[0].data)


def test_today_s_role_sends_again_what_the_killed_process_sent_byte_for_byte(site: Path) -> None:
    rows = rows_of(site)
    session, stand = replayed(site, program_of(site))
    assert session.steps.passed == len(rows)
    assert stand.effect is not None
    assert not stand.returned
    assert [row.kind for row in rows].count("sent") > 3


def test_a_role_that_sends_something_else_is_noticed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckKey, "of", lambda *_: 0)
    with pytest.raises(LocalProtocolError):
        replayed(site, program_of(site))


def test_with_other_records_it_does_not_begin(site: Path) -> None:
    lines = (site / "p1.csv").read_text().splitlines()
    (site / "others.csv").write_text("\n".join([*lines[:-1], "0.5,1" if lines[-1] != "0.5,1" else "0.5,0"]) + "\n")
    with pytest.raises(RefusedLocally):
        replayed(site, program_of(site), "others.csv")


def test_another_program_does_not_go_on_and_what_was_spent_stays(site: Path) -> None:
    began = program_of(site)
    with pytest.raises(ProgramChanged):
        replayed(site, replace(began, files={**began.files, "masquerade_core/rng.py": ""}))
    with closing(Ledger.open(StateFolder(site / "state"))) as ledger:
        assert ledger.spent_in_attempt(study_of(site, "open"), ME) is not None


def test_one_bit_of_the_journal_is_damage(site: Path) -> None:
    (path,) = (site / "state").glob("runs/*/journal.sqlite-wal")
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0")) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(Damaged):
        rows_of(site)


def test_one_changed_digit_of_a_result_is_a_problem(site: Path) -> None:
    path = site / "runs" / "p1" / "model.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("1", "2", 1), encoding="utf-8")
    problems = verdict_of(site)["problems"]
    assert [who for who, found in problems.items() if found] == ["p1"]


# --- Seeded models ------------------------------------------------------------------------


def test_every_protocol_and_baseline_that_makes_a_model_has_one() -> None:
    assert set(MODELS) == set(NAMES)
    assert len(NAMES) == 17


@pytest.mark.parametrize("name", NAMES)
def test_a_seeded_model_is_the_same(name: str) -> None:
    """Last digits depend on the machine's linear algebra, and on nothing else."""
    assert model_of(name) == pytest.approx(MODELS[name], rel=1e-6)

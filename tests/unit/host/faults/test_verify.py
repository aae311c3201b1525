"""``masquerade verify``: what a finished run left holds, and nothing can be changed in it unnoticed."""

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from masquerade.cli import run as command
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE
from masquerade_host.faults.verifying import read_folder
from masquerade_host.process.program import Program
from masquerade_host.store.transcript import TRANSCRIPT, Entry, Recorder, Transcript, chained, read_transcript
from tests.host_helpers import World, new_keys
from tests.messages import says, sentence
from tests.run_folders import resign, run_to_folders, statement_hash, transcript_of

PARTIES = ("p1", "p2", "p3")
EVERYBODY = (*PARTIES, CHARLIE)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Path]:
    root = tmp_path_factory.mktemp("finished")
    return run_to_folders(root), root


@pytest.fixture
def world(finished: tuple[World, Path]) -> World:
    return finished[0]


@pytest.fixture
def runs(finished: tuple[World, Path], tmp_path: Path) -> Path:
    shutil.copytree(finished[1], tmp_path / "runs")
    return tmp_path / "runs"


def verify(capsys: pytest.CaptureFixture[str], *folders: Path) -> tuple[int, dict[str, Any]]:
    code = command(["verify", *map(str, folders), "--format", "json"])
    said = json.loads(capsys.readouterr().out)
    return code, said


# --- A run as it was ------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERYBODY)
def test_one_folder_of_an_honest_run_holds(
    runs: Path, name: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = verify(capsys, runs / name)
    assert (code, said["status"]) == (0, "ok"), said
    assert says(said["message"], "verified_run", "p1, p2 and p3", "'toy'")
    data = said["data"]
    assert data["took_part"] == list(PARTIES)
    assert data["study_digest"] == world.study.digest().hex()
    assert any("withheld" in words for words in data["not_proved"])
    assert any(says(words, "verified_without_charlies_folder") for words in data["not_proved"]) == (name != CHARLIE)
    assert len(data["proved"]) == 5


def test_all_folders_of_an_honest_run_hold_together(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = verify(capsys, *(runs / name for name in EVERYBODY))
    assert (code, said["data"]["contradictions"]) == (0, [])
    assert any(says(words, "sent_is_received") for words in said["data"]["proved"])
    assert not any("withheld" in words for words in said["data"]["not_proved"])


def test_a_folder_has_the_study_the_approval_the_ledger_and_the_times(runs: Path) -> None:
    files = {"study.toml", "approval.json", "ledger.json", "model.json", "notes.txt", TRANSCRIPT, "result.json"}
    assert {path.name for path in (runs / "p1").iterdir()} == files
    assert {path.name for path in (runs / CHARLIE).iterdir()} == files - {"approval.json", "ledger.json"}
    result = json.loads((runs / "p1" / "result.json").read_text())
    assert result["started"] <= result["ended"]
    assert result["started"].endswith("+00:00")
    assert {"masquerade", "python", "numpy", "pynacl", "pyzmq"} <= set(result["versions"])


def test_a_transcript_holds_hashes_and_no_contents(runs: Path) -> None:
    coins = json.loads((runs / "p1" / "model.json").read_text())["coins"]
    for name in EVERYBODY:
        text = (runs / name / TRANSCRIPT).read_text()
        for i in range(0, len(coins), 16):
            assert coins[i : i + 16] not in text
        kinds = {entry.kind for entry in transcript_of(runs / name).entries}
        assert kinds == {"roster", "message", "sealed", "closed"}  # and no beat, for their number depends on time


def test_people_read_what_is_proved_and_what_is_not(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["verify", str(runs / "p1")]) == 0
    told = capsys.readouterr().err
    assert "proved: p1, p2 and p3 took part" in told
    assert "not proved: which records the parties used" in told


# --- Somebody who has no key changes a file --------------------------------------------


@pytest.mark.parametrize("file", ["study.toml", "model.json", "notes.txt", "approval.json", "ledger.json"])
def test_each_changed_byte_of_a_file_is_noticed(runs: Path, file: str) -> None:
    path = runs / "p1" / file
    whole = path.read_bytes()
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes((whole[i] ^ (1 << i % 8),)) + whole[i + 1 :])
        with contextlib.suppress(BadInput):  # it is no study any more
            assert read_folder(runs / "p1").problems, f"byte {i}"
    path.write_bytes(whole)
    assert not read_folder(runs / "p1").problems


def test_each_changed_byte_of_a_transcript_is_noticed(runs: Path, world: World) -> None:
    from masquerade_core.crypto.boxes import verify as signed_by

    text = (runs / "p1" / TRANSCRIPT).read_text()
    key, signed = world.keys["p1"].public.sign, read_transcript(text, TRANSCRIPT).signed()

    def holds(changed: str) -> bool:
        try:
            read = read_transcript(changed, TRANSCRIPT)
        except BadInput:
            return False
        # That a signature holds for no other words is libsodium's to show, and shown for every fiftieth byte.
        return (i % 50 == 0 or read.signed() == signed) and signed_by(key, read.signed(), read.signature)

    i = 0
    assert holds(text)
    for i, letter in enumerate(text):
        for other in (chr(ord(letter) ^ (1 << i % 7)), letter.upper(), letter.lower(), "\t"):
            assert other == letter or not holds(text[:i] + other + text[i + 1 :]), (i, letter, other)
        if i % 5 == 0:
            assert not holds(text[:i] + text[i + 1 :])
            assert not holds(text[:i] + " " + text[i:])


def test_each_changed_byte_of_a_result_is_noticed(runs: Path) -> None:
    path = runs / "p1" / "result.json"
    whole = path.read_bytes()
    for i in range(0, len(whole), 97):
        path.write_bytes(whole[:i] + bytes((whole[i] ^ 1,)) + whole[i + 1 :])
        assert read_folder(runs / "p1").problems, f"byte {i}"


@pytest.mark.parametrize("file", ["study.toml", "model.json", "result.json", "approval.json", TRANSCRIPT])
def test_a_missing_file_is_said(runs: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "p1" / file).unlink()
    code, said = verify(capsys, runs / "p1")
    assert code == (1 if file in ("model.json", "approval.json") else 4)
    assert file in said["message"]


def test_the_folder_of_another_participant_cannot_pass_for_one_s_own(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = runs / "p2" / TRANSCRIPT
    path.write_text(path.read_text().replace('"participant": "p2"', '"participant": "p1"'))
    code, said = verify(capsys, runs / "p2")
    assert code == 1
    assert says(said["data"]["folders"][0]["problems"][0], "signature_of_another", "p1")


# --- The owner of a folder changes it, and signs it again ------------------------------


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _another_model(folder: Path, world: World) -> None:
    _edit(folder / "model.json", '"coins": "', '"coins": "00')
    resign(folder, world)


def _another_study(folder: Path, world: World) -> None:
    _edit(folder / "study.toml", "epsilon = 1.0", "epsilon = 0.5")
    study = world.changed("epsilon = 1.0", "epsilon = 0.5")
    resign(folder, world, lambda t: replace(t, study=study.digest()))


def _first_row(**fields: Any) -> Callable[[Path, World], None]:
    return _changed_rows(lambda rows: [{**rows[0], **fields}, *rows[1:]])


def _changed_rows(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path, World], None]:
    def changed(folder: Path, world: World) -> None:
        result = json.loads((folder / "result.json").read_text())
        rows = result["statement"] = change(result["statement"])
        (folder / "result.json").write_text(json.dumps(result))
        resign(folder, world, lambda t: replace(t, statement=statement_hash(rows)))

    return changed


def _fewer_entries(which: Callable[[Entry], bool]) -> Callable[[Path, World], None]:
    def change(folder: Path, world: World) -> None:
        def without(t: Transcript) -> Transcript:
            gone = next(entry for entry in t.entries if which(entry))
            return replace(t, entries=tuple(entry for entry in t.entries if entry != gone))

        resign(folder, world, without)

    return change


def _another_run(folder: Path, world: World) -> None:
    run = transcript_of(folder).run
    for name in ("result.json", "model.json"):
        _edit(folder / name, run.hex(), bytes(16).hex())
    resign(folder, world, lambda t: replace(t, run=bytes(16)))


def _the_other_way(folder: Path, world: World) -> None:
    def change(t: Transcript) -> Transcript:
        return replace(t, entries=tuple(replace(e, direction="received") if e.type == "Hi" else e for e in t.entries))

    resign(folder, world, change)


def _field(**fields: Any) -> Callable[[Path, World], None]:
    return lambda folder, world: resign(folder, world, lambda t: replace(t, **fields))


def _last_frame_of_somebody_else(folder: Path, world: World) -> None:
    def change(t: Transcript) -> Transcript:
        return replace(t, closing=world.keys["p1"].signing.sign(t.closing[64:]) + t.closing[64:])

    resign(folder, world, change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_another_model, "p1 signed a different result from the one in this folder"),
        (_another_study, "charlie sent a frame of another run or version"),
        (_first_row(epsilon=0.001), "computes from study.toml: in row 1, epsilon is 0.001 instead of 0.23"),
        (_first_row(source="a better paper"), "computes from study.toml: in row 1, source is 'a better paper'"),
        (_changed_rows(lambda rows: rows[1:]), "computes from study.toml: the number of rows is"),
        (_changed_rows(lambda rows: [*rows, rows[0]]), "computes from study.toml: the number of rows is"),
        (_changed_rows(lambda rows: None), "computes from study.toml: it is not a list of rows"),
        (_fewer_entries(lambda e: e.type == "All"), "p1 signed different broadcasts of charlie"),
        (_fewer_entries(lambda e: e.kind == "roster"), "the chain does not begin with the roster"),
        (_fewer_entries(lambda e: e.kind == "closed" and e.source == CHARLIE), "end with the last frame"),
        (_field(roster=b""), "charlie sent a frame of 0 bytes"),
        (_field(closing=b"x" * 100), "charlie sent a frame without a valid signature"),
        (_last_frame_of_somebody_else, "charlie sent a frame without a valid signature"),
        (_field(run=bytes(16)), "result.json is of a different run"),
        (_another_run, "the run id does not follow from study.toml and the roster"),
        (_the_other_way, "the chain has frames that p1 cannot have sent or received"),
        (_field(release=bytes(32)), "is not the result whose hash was signed"),
        (_field(statement=bytes(32)), "is not the one whose hash was signed"),
        (_field(files={}), "the signature does not cover study.toml and result.json"),
        (_field(files={"../p2/model.json": bytes(32)}), "outside of the folder"),
    ],
)
def test_what_the_owner_changes_and_signs_again_does_not_fit(
    runs: Path, world: World, change: Any, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(runs / "p1", world)
    code, said = verify(capsys, runs / "p1")
    assert (code, said["error_code"]) == (1, "not_verified")
    problems = said["data"]["folders"][0]["problems"]
    assert any(words in problem for problem in problems), problems


def test_a_folder_whose_statement_is_worded_otherwise_holds_and_is_named(
    runs: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads((runs / "p1" / "result.json").read_text())["statement"][0]
    reworded = {
        "text": f"So it is: {before['text']}",
        "assumptions": [f"{a} (so we say)" for a in before["assumptions"]],
    }
    _first_row(**reworded)(runs / "p1", world)
    code, said = verify(capsys, runs / "p1", runs / "p2")
    assert (code, said["data"]["reworded"], said["data"]["contradictions"]) == (0, ["p1"], [])
    assert any(says(words, "statement_from_study") for words in said["data"]["proved"])
    assert json.loads((runs / "p1" / "result.json").read_text())["statement"][0]["text"] == reworded["text"]
    assert command(["verify", str(runs / "p1")]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "wording" in line]
    assert line == sentence("reworded_statement", "p1")
    assert command(["verify", str(runs / "p2")]) == 0
    assert "wording" not in capsys.readouterr().err


def test_statements_that_claim_different_things_contradict_each_other(
    runs: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    def as_another_version(folder: Path, epsilon: float) -> None:
        _first_row(epsilon=epsilon)(folder, world)
        _edit(folder / "result.json", f'"version": "{transcript_of(folder).version}"', '"version": "0.0.1"')
        resign(folder, world, lambda t: replace(t, version="0.0.1"))

    as_another_version(runs / "p1", 0.5)
    as_another_version(runs / "p2", 0.25)
    assert verify(capsys, runs / "p1")[0] == verify(capsys, runs / "p2")[0] == 0  # this version does not compute them
    code, said = verify(capsys, runs / "p1", runs / "p2")
    assert code == 8
    told = [each["words"] for each in said["data"]["contradictions"]]
    assert told == [sentence("have_different", "p1", "p2", "privacy statements")]


def test_a_folder_signed_by_a_key_that_is_not_in_the_study(
    runs: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    resign(runs / "p1", World(world.study, {**world.keys, "p1": new_keys()}))
    code, said = verify(capsys, runs / "p1")
    assert code == 1
    assert says(said["message"], "signature_of_another", "p1")


# --- Folders that hold by themselves, and contradict each other ------------------------


def _swapped(entries: tuple[Entry, ...], which: Callable[[Entry], bool]) -> tuple[Entry, ...]:
    i = next(i for i, entry in enumerate(entries) if which(entry))
    changed = replace(entries[i], frame=bytes(32), boxes=tuple((name, bytes(32)) for name, _ in entries[i].boxes))
    return (*entries[:i], changed, *entries[i + 1 :])


@pytest.mark.parametrize(
    ("liar", "which", "other", "words"),
    [
        ("p1", lambda e: e.type == "Hi", CHARLIE, "the frames of p1 to charlie differ from number 0 on, a Hi"),
        (CHARLIE, lambda e: e.source == "p1" and e.type == "Hi", "p1", "the frames of p1 to charlie differ"),
        ("p2", lambda e: e.source == "p2" and e.type == "Secret", "p3", "the sealed messages of p2 to p3 differ"),
        ("p3", lambda e: e.source == "p2" and e.type == "Secret", "p2", "the sealed messages of p2 to p3 differ"),
        ("p3", lambda e: e.source == "p2" and e.type == "Secret", CHARLIE, "the frames of charlie to p3 differ"),
    ],
)
def test_signed_folders_that_contradict_each_other(
    runs: Path, world: World, liar: str, which: Any, other: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    resign(runs / liar, world, lambda t: replace(t, entries=_swapped(t.entries, which)))
    assert verify(capsys, runs / liar)[0] == 0  # by itself nothing shows it
    code, said = verify(capsys, runs / liar, runs / other)
    assert (code, said["error_code"]) == (8, "protocol_violation")
    (found,) = said["data"]["contradictions"]
    assert words in found["words"]
    assert set(found["between"]) == {liar, other}


def test_charlie_cannot_leave_out_what_he_did_not_pass_on(
    runs: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    _fewer_entries(lambda e: e.direction == "sent" and e.kind == "sealed")(runs / CHARLIE, world)
    code, said = verify(capsys, runs / CHARLIE)
    assert code == 1
    assert says(said["message"], "sealed_not_passed_on")


def test_folders_of_two_runs_or_twice_of_one_participant_are_refused(
    runs: Path, world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs / "p1", tmp_path / "again")
    code, said = verify(capsys, runs / "p1", tmp_path / "again")
    assert (code, says(said["message"], "two_folders_of_one", "p1")) == (4, True)
    run_to_folders(tmp_path / "other")
    code, said = verify(capsys, runs / "p1", tmp_path / "other" / "p2")
    assert (code, says(said["message"], "transcript_of_another_run", ...)) == (4, True)


def test_what_is_no_folder_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(capsys, tmp_path)[0] == 4
    (tmp_path / TRANSCRIPT).write_text("{}")
    (tmp_path / "study.toml").write_text("")
    (tmp_path / "result.json").write_text("[]")
    code, said = verify(capsys, tmp_path)
    assert (code, says(said["message"], "no_transcript")) == (4, True)


# --- The chain ---------------------------------------------------------------------------


def test_the_chain_depends_on_each_part_of_each_entry_and_on_their_order() -> None:
    one = Entry("sent", "p1", CHARLIE, "message", "Hi", b"1" * 32)
    two = Entry("received", CHARLIE, "*", "message", "All", b"2" * 32, (("p1", b"3" * 32),))
    changed = [
        replace(two, direction="sent"), replace(two, source="p1"), replace(two, to="p1"), replace(two, kind="sealed"),
        replace(two, type="A"), replace(two, frame=b"3" * 32), replace(two, boxes=()),
        replace(two, boxes=(("p2", b"3" * 32),)), replace(two, boxes=(("p1", b"4" * 32),)),
    ]  # fmt: skip
    heads = {chained(entries) for entries in [(), (one,), (two,), (two, one), (one, two), *((one, c) for c in changed)]}
    assert len(heads) == 5 + len(changed)


def test_a_recorder_keeps_ten_thousand_rounds_in_a_few_megabytes(finished: tuple[World, Path]) -> None:
    from masquerade_core.wire.frames import Endpoint

    world, _ = finished
    p1, charlie = world.keys["p1"].signing, world.keys[CHARLIE].signing
    end = Endpoint("p1", bytes(16), p1, {CHARLIE: charlie.public})
    recorder = Recorder("p1", PARTIES)
    sent = end.seal(CHARLIE, "message", b"body", type="Contribution")
    answer = Endpoint(CHARLIE, bytes(16), charlie, {"p1": p1.public}).seal("p1", "message", b"body", type="Opened")
    came = end.open(CHARLIE, answer)
    for _ in range(1000):
        recorder.sent(CHARLIE, sent)
        recorder.note("received", came.source, came.to, came.kind, came.type, came.body, came.data)
    assert len(recorder._packed) < 250_000
    assert len(recorder.entries()) == 2000


def test_the_programs_are_shown_as_what_each_participant_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same, other = Program({"a.py": "1"}), Program({"a.py": "2"})
    run_to_folders(tmp_path, programs={"p1": same, "p2": other, "p3": same, CHARLIE: same})
    assert command(["verify", str(tmp_path / "p1"), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["programs"] == {name: same.digest.hex() for name in ("p1", "p3", CHARLIE)} | {"p2": other.digest.hex()}
    assert data["said"] == [
        sentence("ran_program", "p1, p3 and charlie", same.digest.hex()[:16], "their"),
        sentence("ran_program", "p2", other.digest.hex()[:16], "its"),
    ]
    lie = replace(transcript_of(tmp_path / "p1"), program=other.digest)
    (tmp_path / "p1" / TRANSCRIPT).write_text(lie.to_text())
    assert command(["verify", str(tmp_path / "p1")]) == 1
    assert says(capsys.readouterr().err, "another_program_said", "p1")

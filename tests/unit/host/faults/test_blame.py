"""A refused sum leaves evidence at everybody, and ``masquerade blame`` says what it proves, over real sockets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from masquerade.cli import run as command
from masquerade_core.crypto.masks import Words, as_integers
from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import MasqueradeError, ProtocolViolation, Reported, SumRefused
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import Message, encode
from masquerade_core.wire.faults import EVIDENCE, Evidence, Findings, read_evidence
from masquerade_core.wire.frames import Endpoint
from masquerade_host.faults.endings import after_check
from masquerade_host.store.results import RunDirectory
from masquerade_protocols.blame import check_evidence, verdict
from masquerade_protocols.blocks.double_masks import DoublyMasked
from masquerade_protocols.blocks.masked_sum import Masked, Outcome, Summed, summed
from masquerade_protocols.blocks.paillier_sum import Contribution, Opened, RoundSum
from masquerade_protocols.blocks.secure_sum import set_up, set_up_charlie
from masquerade_protocols.registry import entry_named
from tests.host_helpers import World, run_together
from tests.messages import says, sentence

Change = Callable[[str, Message], Message | tuple[Message, ...]]
SAME = b"the run of a test"[:16]


def _world(kind: str) -> World:
    world = World.new(3)
    text = world.study.to_toml().replace('"local-aggregation"', '"psgd"')
    if kind == "masks":
        text = text.replace('lead = "p1"\n', "")
        text = "\n".join(line for line in text.splitlines() if not line.startswith("key_bits"))
        text = text.replace('sum = "paillier"', 'sum = "masks"')
        if 'sum = "masks"' not in text:
            text += '\n[crypto]\nsum = "masks"\n' if "[crypto]" not in text else ""
    return World(Study.parse(text), world.keys)


def _run(world: World, directory: Path, change: Change) -> dict[str, Path]:
    """One sum over sockets, with what ``change`` makes of messages; returns the files of evidence that were written."""
    study = world.study
    layout: Any = Words(4, 2**20) if study.crypto.sum == "masks" else Packing(4, 2**20, study.key_bits)

    class Changing(Seat):
        async def send(self, to: str, message: Message) -> None:
            changed = change(self.me, message)
            for one in changed if isinstance(changed, tuple) else (changed,):
                await super().send(to, one)

        async def broadcast(self, message: Message) -> None:
            changed = change(self.me, message)
            assert not isinstance(changed, tuple)
            await super().broadcast(changed)

    async def party(seat: Seat) -> Any:
        mine = Changing(seat.me, seat.names)
        await mine.join()
        sums = await set_up(mine, study)
        first = as_integers(await sums.open_sum(layout, [1, 2, 3, 4], b"first"))
        await sums.close()
        return first

    async def charlie(seat: Seat) -> Any:
        mine = Changing(seat.me, seat.names)
        await mine.join()
        sums = await set_up_charlie(mine, study)
        first = as_integers(await sums.open_sum(layout))
        await sums.close()
        return first

    version = entry_named(study.study.protocol).version
    sessions: dict[str, Any] = {CHARLIE: world.charlie(version=version)}
    sessions |= {name: world.party(name, version=version) for name in study.names}
    places = {name: RunDirectory(directory / name, session) for name, session in sessions.items()}
    for place in places.values():
        place.__enter__()
    outcome = run_together(sessions, dict.fromkeys(study.names, party) | {CHARLIE: charlie})
    for name, place in places.items():
        error = outcome.errors.get(name)
        place.__exit__(None if error is None else type(error), error, None)
    if not outcome.errors:
        assert set(outcome.results.values()) == {(3, 6, 9, 12)}
    assert all(isinstance(e, SumRefused | ProtocolViolation | Reported) for e in outcome.errors.values()), (
        outcome.errors
    )
    for error in outcome.errors.values():
        assert isinstance(error, MasqueradeError)
        assert "evidence.json has the signed frames" in error.hint
    found = {name: directory / name / "attempt-1" / EVIDENCE for name in sessions}
    return {name: path for name, path in found.items() if path.exists()}


def _blamed(world: World, directory: Path, files: dict[str, Path], capsys: Any) -> tuple[int, dict[str, Any]]:
    study = directory / "study.toml"
    study.write_text(world.study.to_toml())
    code = command(["blame", str(study), *map(str, files.values()), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def _flipped(data: bytes) -> bytes:
    return data[:-4] + bytes((data[-4] ^ 1,)) + data[-3:]


def _garbage(me: str, message: Message) -> Message:
    """p2's contribution is not that of its check value."""
    if me == "p2" and isinstance(message, Masked | DoublyMasked):
        return message.model_copy(update={"words": _flipped(message.words)})
    if me == "p2" and isinstance(message, Contribution):
        return message.model_copy(update={"check": _flipped(message.check)})
    return message


def _forged_sum(me: str, message: Message) -> Message:
    if me == CHARLIE and isinstance(message, Summed):
        return message.model_copy(update={"words": _flipped(message.words)})
    if me == CHARLIE and isinstance(message, Opened):
        return message.model_copy(update={"check": _flipped(message.check)})
    return message


def _another_after_it(me: str, message: Message) -> Message | tuple[Message, ...]:
    """p2 sends garbage, and at once another contribution to the same round; p1, the lead, opens another sum later."""
    spoilt = _garbage(me, message)
    if me == "p2" and isinstance(message, Masked):
        return spoilt, message
    if me == "p1" and isinstance(message, RoundSum):
        return message, message.model_copy(update={"sums": _flipped(message.sums)})
    return spoilt


def _forged_receipt(me: str, message: Message) -> Message:
    """Somebody sends garbage, and Charlie wants to have nothing to do with the contributions that he got."""
    if me == CHARLIE and isinstance(message, Summed | Opened):
        return message.model_copy(update={"receipt": bytes(32)})
    return _garbage(me, message)


@pytest.mark.parametrize("kind", ["masks", "paillier"])
@pytest.mark.parametrize(
    ("change", "code", "culprit", "said"),
    [
        (_garbage, 0, None, "he is cleared"),
        (_forged_sum, 1, CHARLIE, "is not that of the 3 signed contributions"),
        (_forged_receipt, 1, CHARLIE, "is not that of the 3 signed contributions"),
    ],
)
def test_evidence_clears_charlie_or_names_him(
    kind: str, change: Change, code: int, culprit: str | None, said: str, tmp_path: Path, capsys: Any
) -> None:
    world = _world(kind)
    files = _run(world, tmp_path, change)
    assert set(files) == {CHARLIE, "p1", "p2", "p3"}
    got, answer = _blamed(world, tmp_path, files, capsys)
    assert (got, answer["data"]["culprit"]) == (code, culprit)
    assert said in answer["message"]


def test_without_his_own_file_nothing_shows_that_charlie_told_what_the_lead_opened(tmp_path: Path, capsys: Any) -> None:
    world = _world("paillier")
    files = _run(world, tmp_path, _garbage)
    _, answer = _blamed(world, tmp_path, files, capsys)
    assert CHARLIE not in answer["data"]["suspects"]
    _, answer = _blamed(world, tmp_path, {name: file for name, file in files.items() if name != CHARLIE}, capsys)
    assert answer["data"]["culprit"] is None
    assert CHARLIE in answer["data"]["suspects"]


@pytest.mark.parametrize("kind", ["masks", "paillier"])
def test_what_is_signed_after_a_sum_convicts_nobody(kind: str, tmp_path: Path, capsys: Any) -> None:
    """Where Charlie waits for another message of the lead by then, he names the lead, and no file does."""
    world = _world(kind)
    code, answer = _blamed(world, tmp_path, _run(world, tmp_path, _another_after_it), capsys)
    assert (code, answer["data"]["culprit"]) == (0, None)


@pytest.mark.parametrize("change", [_garbage, _forged_sum])
def test_under_double_masks_evidence_proves_nobodys_fault(change: Change, tmp_path: Path, capsys: Any) -> None:
    """Shares are in boxes: a false one spoils a sum like a false contribution, or a false sum."""
    world = _world("masks")
    section = '\n[dropouts]\nmethod = "double-masks"\nmin_survivors = 3\npatience_seconds = 10.0\n'
    study = Study.parse(world.study.to_toml().replace('"paper"', '"proven"') + section)
    world = World(study, world.keys)
    files = _run(world, tmp_path, change)
    assert "p1" in files
    code, answer = _blamed(world, tmp_path, files, capsys)
    assert (code, answer["data"]["culprit"]) == (0, None)
    assert says(answer["message"], "sum_under_double_masks")
    assert "cleared" not in answer["message"]


def test_a_good_run_leaves_no_evidence(tmp_path: Path) -> None:
    assert _run(_world("masks"), tmp_path, lambda _, message: message) == {}


# --- A run that goes on without some -----------------------------------------------------


@pytest.fixture
def without_p2() -> tuple[World, Callable[..., Findings]]:
    """Charlie's own evidence of round 1, which p1 and p3 made; p2 is out."""
    plain = _world("masks")
    section = "\n[dropouts]\nmin_survivors = 2\npatience_seconds = 10.0\nretries = 1\n"
    world = World(Study.parse(plain.study.to_toml().replace('"paper"', '"proven"') + section), plain.keys)
    layout = Words(4, 2**20)

    def contribution(seed: int, round_: int = 1) -> Masked:
        words, check = bytes([seed]) * layout.total_bytes, bytes([seed]) * (layout.check_bytes - 1) + b"\0"
        return Masked(round=round_, words=words, check=check)

    def judged(
        members: tuple[str, ...] = ("p1", "p3"), *, late: int = 0, told: int = 3, left: str = "", again: bool = False
    ) -> Findings:
        made = {"p1": contribution(1), "p3": contribution(told)}
        outcome = Outcome(**summed(1, layout, made).model_dump(), members=members)
        sent = {"p1": [contribution(1)], "p2": [contribution(2, late)], "p3": [contribution(3)]}
        if again:
            sent["p3"].append(contribution(4))
        charlie = Endpoint(CHARLIE, SAME, world.keys[CHARLIE].signing, {})
        rows = [(CHARLIE, charlie.broadcast("message", encode(outcome, ""), type="Outcome"))]
        for name, messages in sent.items():
            endpoint = Endpoint(name, SAME, world.keys[name].signing, {CHARLIE: world.study.curator.key.sign})
            sealed = [endpoint.seal(CHARLIE, "message", encode(m, ""), type="Masked") for m in messages]
            rows += [(name, data) for data in sealed if name != left]
        return verdict(world.study, SAME, [_signed(world, Evidence(SAME.hex(), CHARLIE, tuple(rows), b""), CHARLIE)])

    return world, judged


def test_a_contribution_of_a_party_that_is_out_convicts_nobody(
    without_p2: tuple[World, Callable[..., Findings]],
) -> None:
    """p2 signed one for round 1 in advance, in place of one for round 0, and so was left out."""
    _, judged = without_p2
    for late in (0, 1):
        found = judged(late=late)
        assert found.culprit == ""
        assert found.found[0].startswith(sentence("signed_follows"))
    assert judged(late=1, told=5).culprit == CHARLIE  # the test can fail: he added up another one of p3


def test_a_second_contribution_to_a_round_convicts_nobody(without_p2: tuple[World, Callable[..., Findings]]) -> None:
    _, judged = without_p2
    assert judged(again=True).culprit == ""
    assert judged(again=True, told=4).culprit == ""  # it may be the one that he added up
    assert judged(again=True, told=5).culprit == CHARLIE


def test_where_a_members_contribution_is_not_there_nobody_is_convicted(
    without_p2: tuple[World, Callable[..., Findings]],
) -> None:
    _, judged = without_p2
    found = judged(left="p3")
    assert (found.culprit, found.suspects) == ("", ("p3", CHARLIE))
    assert judged(("p1", "p3", "nobody")).culprit == ""


def _signed(world: World, file: Evidence, who: str) -> Evidence:
    whole = Evidence(file.run, who, file.frames, b"")
    return replace(whole, signature=world.keys[who].signing.sign(whole.signed()))


def same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of a study have one id, as if everybody's nonce were the same: so two runs show what one could."""
    for module in ("session.charlie", "session.party"):
        monkeypatch.setattr(f"masquerade_host.{module}.run_id", lambda _study_id, _roster: SAME)


def test_a_party_cannot_accuse_charlie_with_contributions_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It signs another contribution for the same round. It cannot write Charlie's file, and its own does not count."""
    world, lies = _world("masks"), tmp_path / "lies"
    same_run(monkeypatch)
    files = _run(world, tmp_path, _garbage)
    run = SAME
    true = {name: read_evidence(path.read_text(), name) for name, path in files.items()}
    assert verdict(world.study, run, true.values()).culprit == ""

    again = _run(world, lies, lambda me, m: m if me != "p3" else _garbage("p2", m))  # the same run, once more
    other = read_evidence(again[CHARLIE].read_text(), CHARLIE)
    ours = [frame for frame in true[CHARLIE].frames if frame[0] != "p3"]
    mixed = Evidence(true[CHARLIE].run, CHARLIE, (*ours, *(f for f in other.frames if f[0] == "p3")), b"")
    in_his_name = _signed(world, mixed, "p3")
    assert verdict(world.study, run, [true["p1"], in_his_name]).culprit == ""
    forged = Evidence(mixed.run, CHARLIE, mixed.frames, in_his_name.signature)
    assert says(verdict(world.study, run, [forged]).found[0], "file_not_signed", "charlie")
    # The test can fail: if Charlie himself had signed that file, it would prove his fault.
    assert verdict(world.study, run, [true["p1"], _signed(world, mixed, CHARLIE)]).culprit == CHARLIE


def test_charlie_is_cleared_by_all_parties_files_alone_for_one_may_show_another_story(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = _world("masks")
    same_run(monkeypatch)
    true, lies = (
        {name: read_evidence(path.read_text(), name) for name, path in _run(world, folder, change).items()}
        for folder, change in ((tmp_path / "a", _garbage), (tmp_path / "b", _forged_sum))
    )
    assert says(verdict(world.study, SAME, true.values()).found[0], "charlie_cleared")
    for absent in world.study.names:
        found = verdict(world.study, SAME, [file for name, file in true.items() if name != absent])
        assert found.culprit == ""
        assert "is cleared" not in found.found[0]
        assert CHARLIE in found.suspects
    # p1 was told another sum, which the files of the others do not show.
    assert verdict(world.study, SAME, [*(true[name] for name in ("p2", "p3", CHARLIE)), lies["p1"]]).culprit == CHARLIE


def test_parties_contributions_count_if_they_fit_charlies_receipt_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He shows no file. What he told is right; p3 signs a second contribution, and others help to show it."""
    world = _world("masks")
    same_run(monkeypatch)
    run = SAME
    true, again = (
        {name: read_evidence(path.read_text(), name) for name, path in _run(world, folder, _garbage).items()}
        for folder in (tmp_path / "a", tmp_path / "b")
    )
    parties = [true[name] for name in world.study.names]
    assert says(verdict(world.study, run, parties).found[0], "charlie_cleared")
    second = next(row for row in again["p3"].frames if row[0] == "p3")
    told = [row for row in true["p3"].frames if row[0] == CHARLIE]
    lie = _signed(world, Evidence(true["p3"].run, "p3", (*told, second), b""), "p3")
    assert verdict(world.study, run, [*parties[:2], lie]).culprit == ""
    # Nor do two who sign files for each other count for all.
    sent = {row[0]: row for file in parties for row in file.frames if row[0] != CHARLIE} | {"p3": second}
    one = _signed(world, Evidence(true["p1"].run, "p1", (*told, sent["p2"], sent["p3"]), b""), "p1")
    two = _signed(world, Evidence(true["p3"].run, "p3", (sent["p1"],), b""), "p3")
    assert verdict(world.study, run, [one, two]).culprit == ""


@pytest.mark.parametrize("field", ["said_by", "refused_sum"])
def test_nobody_changes_what_a_file_says_of_the_end(field: str, tmp_path: Path) -> None:
    world = _world("masks")
    text = _run(world, tmp_path, _garbage)["p1"].read_text()
    was = json.loads(text)[field]  # whoever is the first to say it is the one of whom p1's file says so
    change = {field: not was if field == "refused_sum" else "p2" if was == "p3" else "p3"}
    said = check_evidence(text, world.study)
    assert said.found[0].startswith(sentence("signed_follows")) or said.suspects
    found = check_evidence(json.dumps(json.loads(text) | change), world.study)
    assert found.found[0] == sentence("file_not_signed", "p1")
    assert (found.culprit, found.suspects) == ("", ())


def test_two_sums_of_one_round_prove_charlies_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = _world("masks")
    same_run(monkeypatch)
    run = SAME
    one = read_evidence(_run(world, tmp_path / "a", _garbage)["p1"].read_text(), "p1")
    two = read_evidence(_run(world, tmp_path / "b", _forged_sum)["p3"].read_text(), "p3")
    assert verdict(world.study, run, [one, two]) == (
        CHARLIE,
        (sentence("signed_two_different", "charlie", "broadcasts", 1),),
        (),
    )
    assert verdict(world.study, run, [one]).culprit == ""


def test_files_that_are_no_evidence_are_refused_with_a_sentence(tmp_path: Path, capsys: Any) -> None:
    world = _world("masks")
    bad = tmp_path / "bad.json"
    for text in ("", "{}", '{"run_id": "00", "frames": [{"source": "p1", "frame": "?"}]}'):
        bad.write_text(text)
        code, answer = _blamed(world, tmp_path, {"p1": bad}, capsys)
        assert (code, answer["message"]) == (4, f"{bad} " + sentence("no_evidence"))
    bad.write_text(json.dumps({"run_id": "00", "participant": "p1", "roster": "", "frames": [], "signature": "Pw=="}))
    code, answer = _blamed(world, tmp_path, {"p1": bad}, capsys)
    assert code == 4
    assert says(answer["message"], "files_of_no_run_of_study", "00")


def test_files_of_two_runs_of_one_study_are_not_taken_together(tmp_path: Path, capsys: Any) -> None:
    """Otherwise Charlie would seem to have told two sums of one round: one in each run."""
    world = _world("masks")
    one, two = (_run(world, tmp_path / name, _garbage)["p1"] for name in ("a", "b"))
    code, answer = _blamed(world, tmp_path, {"p1": one, "p2": two}, capsys)
    assert code == 4
    assert says(answer["hint"], "files_of_one_run")
    runs = [bytes.fromhex(read_evidence(path.read_text(), "").run) for path in (one, two)]
    files = [read_evidence(path.read_text(), "") for path in (one, two)]
    assert runs[0] != runs[1]
    assert verdict(world.study, runs[0], files).culprit == ""
    assert says(verdict(world.study, runs[0], files).found[0], "signature_missing_in_run")


def test_verify_accepts_the_folders_of_attempts_that_failed(tmp_path: Path, capsys: Any) -> None:
    """The study lies beside the evidence. What blame says of the files, verify says of the folders."""
    files = _run(_world("masks"), tmp_path, _forged_sum)
    folders = [str(path.parent) for path in files.values()]
    assert command(["verify", *folders, "--format", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["data"]["culprit"], answer["error_code"]) == (CHARLIE, "fault_proved")
    assert command(["verify", str(files["p1"].parent), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["suspects"] == ["p2", "p3", CHARLIE]


def test_a_process_says_at_its_end_what_its_own_evidence_proves(tmp_path: Path) -> None:
    """Charlie has all contributions: he is cleared, and it is between the parties."""
    session = _world("masks").charlie()
    error = SumRefused("a sum was refused", "ask")
    suspects = Findings("", ("nobody can tell",), ("p1", "p2", CHARLIE))
    assert after_check(error, {}, tmp_path, session, lambda *_: suspects) is None
    assert error.hint.endswith("Nobody can tell. One of these is at fault: p1 and p2")
    error.add_note("spent")
    found = after_check(error, {}, tmp_path, session, lambda *_: Findings("p1", ("it signed two",)))
    assert isinstance(found, ProtocolViolation)
    assert (found.peer, found.exit_code, found.__notes__) == ("p1", 8, ["spent"])
    assert after_check(ProtocolViolation("x", peer="p2"), {}, tmp_path, session, lambda *_: suspects) is None

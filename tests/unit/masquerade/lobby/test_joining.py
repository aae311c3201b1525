"""The coordinator's lines and files, a site's questions and notes, and the connection between them."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, cast

import pytest
import zmq
from zmq.utils import z85

from masquerade.cli.join import _agree, _Paths
from masquerade.draft import PLACEHOLDER, Draft, throwaway_key
from masquerade.inviting import Inviting, completed
from masquerade.joining import Answers, Joining, in_ten_lines
from masquerade.lobby.invitation import Invitation
from masquerade.lobby.links import Caller, keep_open
from masquerade.roster_view import compared_in, roster_report, whose_keys
from masquerade_core.errors import BadInput, CannotConnect, RefusedLocally
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.approving import all_approvals, approval_given, record_approval
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.permissions import Compared
from masquerade_host.store.state import StateFolder
from masquerade_host.transport.interface import harden
from masquerade_protocols import protocol_of
from tests.host_helpers import free_port, new_keys
from tests.lobby_helpers import NOW, Room
from tests.messages import raises, says

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from masquerade.lobby.messages import Shown, Word

NAMES = ("site-a", "site-b", "site-c")


def plan_of(port: int = 5555) -> str:
    return Draft(parties=[(name, None) for name in NAMES], address=f"tcp://127.0.0.1:{port}").to_toml()


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(plan_of())
    return path


# --- The coordinator's files --------------------------------------------------------------------


def test_a_plan_is_completed_wherever_its_open_places_stand() -> None:
    keys = {name: throwaway_key() for name in (*NAMES, CHARLIE)}
    text = plan_of()
    done = completed(text, "plan", keys)
    study = Study.parse(done)
    assert {name: study.party(name).key for name in NAMES} == {name: keys[name] for name in NAMES}
    assert study.curator.key == keys[CHARLIE]
    assert done.count("\n#") == text.count("\n#") > 10
    charlie, parties = text.index("\n[curator]"), text.index("\n[[party]]")
    moved = f"{text[:charlie]}{text[parties:]}\n{text[charlie:parties]}"  # Charlie comes last
    assert Study.parse(completed(moved, "plan", keys)).digest() == study.digest()


def test_lines_stay_the_same_and_nobody_else_can_read_them(plan: Path) -> None:
    keys, said = new_keys(), list[str]()
    first = Inviting.of(plan, keys, None, 14, said.append)
    kept = plan.with_name("plan.toml.lobby")
    assert kept.stat().st_mode & 0o077 == 0
    again = Inviting.of(plan, keys, None, 14, said.append)
    assert [str(each) for each in again.invitations.values()] == [str(each) for each in first.invitations.values()]
    assert len({each.token for each in first.invitations.values()}) == len(NAMES)
    kept.write_text("{}")
    with raises(BadInput, "invitations_unreadable", kept):
        Inviting.of(plan, keys, None, 14, said.append)


def test_a_plan_that_was_changed_to_another_charlie_or_has_keys_is_refused(plan: Path) -> None:
    keys = new_keys()
    Inviting.of(plan, keys, None, 14, print)
    with raises(BadInput, "invitations_to_another", ..., plan):
        Inviting.of(plan, new_keys(), None, 14, print)
    plan.write_text(plan.read_text().replace(PLACEHOLDER, str(throwaway_key()), 1))
    with raises(BadInput, "plan_has_another_charlie", plan):
        Inviting.of(plan, keys, None, 14, print)
    plan.write_text(Draft(parties=[(name, throwaway_key()) for name in NAMES]).to_toml())
    with raises(BadInput, "plan_has_keys", plan, "site-a, site-b and site-c"):
        Inviting.of(plan, keys, None, 14, print)


def never(_question: str, _meanwhile: object) -> str:
    """Nobody is asked."""
    raise AssertionError


# --- The connection -------------------------------------------------------------------------------


@pytest.fixture
def open_lobby(plan: Path) -> Iterator[Inviting]:
    """A coordinator whose lobby is open, in a thread of his."""
    plan.write_text(plan_of(free_port()))
    keys, ended, began = new_keys(), threading.Event(), threading.Event()
    inviting = Inviting.of(plan, keys, None, 14, lambda _line: None)

    def over() -> bool:
        return inviting.over() or ended.is_set()

    thread = threading.Thread(
        target=lambda: keep_open(inviting.lobby, inviting.address, keys, over, lambda _address: began.set())
    )
    thread.start()
    assert began.wait(10)
    yield inviting
    ended.set()
    thread.join()


def test_three_sites_meet_over_sockets_and_junk_disturbs_nobody(open_lobby: Inviting, tmp_path: Path) -> None:
    with ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        stranger = stack.enter_context(context.socket(zmq.DEALER))
        harden(stranger, new_keys())
        stranger.curve_serverkey = z85.encode(next(iter(open_lobby.invitations.values())).charlie.curve)
        stranger.connect(open_lobby.address)
        for parts in ([b"", b"junk"], [b"x"], [b"", b"", b""], [b"", bytes(10_000)]):
            stranger.send_multipart(parts)
        sites = {}
        for name, each in open_lobby.invitations.items():
            keys = new_keys()
            caller = stack.enter_context(Caller(each, keys))
            sites[name] = Joining(each, keys, StateFolder(tmp_path / name), caller, print, never)
        for _ in range(4):
            for site in sites.values():
                assert site.once()
        assert len({site.guest.code for site in sites.values()}) == 1
        for site in sites.values():
            site.guest.ready = True
        for _ in range(2):
            for site in sites.values():
                if not site.guest.all_ready:
                    assert site.once()
        assert all(site.guest.all_ready for site in sites.values())
        assert not stranger.poll(100)
    study = Study.parse(open_lobby.path.read_text())
    assert {study.party(name).key for name in NAMES} == {site.keys for site in sites.values()}
    assert set(json.loads(open_lobby.path.with_name("plan.toml.lobby").read_text())["taken"]) == set(NAMES)


def test_another_server_at_the_address_is_told_apart(open_lobby: Inviting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masquerade.lobby.links._ANSWERS_WITHIN", 0.3)
    line = next(iter(open_lobby.invitations.values()))
    false = Invitation(line.name, line.address, new_keys().public, line.lobby, line.token, line.ends)
    keys = new_keys()
    room = Room()
    with Caller(false, keys) as caller, raises(CannotConnect, "not_the_invitations_charlie", line.address):
        caller.ask(room.guests["p1"].word())


# --- A site's person --------------------------------------------------------------------------------


class Here:
    """A caller without sockets."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.asked = 0

    def ask(self, word: Word) -> Shown:
        self.asked += 1
        return self.room.host.answer(word, NOW)


def joined(
    room: Room, folder: Path, say: Callable[[str], object] = print, ask: Any = never, caller: Any = None
) -> Joining:
    return Joining(
        room.invitations["p1"],
        room.keys["p1"],
        StateFolder(folder),
        caller if caller is not None else cast("Caller", Here(room)),
        say,
        ask,
    )


def ready(folder: Path, *typed: str, names: tuple[str, ...] = ("p1", "p2", "p3")) -> tuple[Room, Joining, list[str]]:
    """A site p1 whose code is there; ``CODE`` in what is typed stands for it."""
    room, said, answers = Room(names), list[str](), iter(typed)

    here = Here(room)

    def ask(_question: str, meanwhile: Callable[[], object]) -> str:
        before = here.asked
        meanwhile()
        assert here.asked == before + 1
        return next(answers).replace("CODE", room.guests["p1"].code)

    site = joined(room, folder, said.append, ask, here)
    room.guests["p1"] = site.guest
    room.go()
    return room, site, said


@pytest.mark.parametrize(
    ("typed", "heard", "unheard"),
    [
        (("CODE all",), {"p2", "p3"}, ()),
        (("CODE p2", "CODE p3"), {"p2", "p3"}, ()),
        (("CODE p2,p3",), {"p2", "p3"}, ()),
        (("CODE", "CODE p9", "CODE p2", "enough"), {"p2"}, ("p3",)),
    ],
)
def test_what_was_typed_says_who_was_heard(
    tmp_path: Path, typed: tuple[str, ...], heard: set[str], unheard: tuple[str, ...]
) -> None:
    room, site, _ = ready(tmp_path, *typed)
    compared = site.compare(Answers())
    assert set(compared.heard) == heard
    assert compared.unheard == unheard
    assert compared.heard["p2"] == str(room.keys["p2"].public)
    assert (compared.code, compared.tries) == (site.guest.code, 1)


def test_a_code_typed_with_a_blank_is_read(tmp_path: Path) -> None:
    _, site, _ = ready(tmp_path)
    spoken = site.guest.code.replace("-", " ").lower()
    compared = site.compare(Answers(code=spoken, heard=("all",)))
    assert set(compared.heard) == {"p2", "p3"}


def test_without_a_code_nothing_goes_on_unless_it_is_said(tmp_path: Path) -> None:
    _, site, _ = ready(tmp_path, "enough")
    with raises(RefusedLocally, "no_code_compared"):
        site.compare(Answers())
    compared = site.compare(Answers(unverified=True))
    assert (compared.code, compared.unheard) == ("", ("p2", "p3"))


def test_a_wrong_code_is_noted_so_that_the_next_start_is_another_try(tmp_path: Path) -> None:
    room, site, _ = ready(tmp_path, "XXXX-XXXX all")
    number = site.guest.notes.number
    with raises(RefusedLocally, "another_code", ...):
        site.compare(Answers())
    again = joined(room, tmp_path)
    assert again.guest.notes.number != number
    assert again.guest.notes.tries == 1


def test_a_number_is_on_disk_before_it_is_shown(tmp_path: Path) -> None:
    room = Room()
    seen: list[str] = []

    class Watching:
        def ask(self, word: Word) -> None:
            (file,) = (tmp_path / "lobbies").iterdir()
            assert file.stat().st_mode & 0o077 == 0
            seen.append(json.loads(file.read_text())["number"])
            assert word.commitment == site.guest.word().commitment

    site = joined(room, tmp_path, caller=Watching())
    assert not site.once()
    assert seen == [site.guest.notes.number.hex()]


def test_keys_of_an_earlier_approval_count_and_are_in_the_next_one(tmp_path: Path) -> None:
    room, site, _ = ready(tmp_path, "CODE p2", "enough")
    compared = site.compare(Answers())
    study, state = site.guest.agreed, StateFolder(tmp_path)
    record_approval(state, study, approval_given(study, "p1", "default", "a test", counted=False, compared=compared))
    assert all_approvals(state)[0].compared == compared
    later = joined(room, tmp_path)
    room.guests["p1"] = later.guest
    room.go(1)
    assert later.guest.known == ("p2",)


def test_a_machine_without_a_budget_is_asked_for_one_and_only_then(tmp_path: Path) -> None:
    _, site, _ = ready(tmp_path, "")
    site.budget(site.guest.agreed, Answers(), "a test")
    with closing(Ledger.open(StateFolder(tmp_path))) as ledger:
        assert ledger.account("default").epsilon == 10
    site.budget(site.guest.agreed, Answers(), "a test")  # nothing is asked


def test_records_that_look_like_a_mistake_are_refused_before_anybody_is_called(tmp_path: Path) -> None:
    study, key, data, said = tmp_path / "s.toml", tmp_path / "p1.key", tmp_path / "records.csv", list[str]()
    room = Room()
    room.keys["p1"] = make_keys(key)
    site = joined(room, tmp_path, said.append, never)
    room.guests["p1"] = site.guest
    room.go()
    study.write_text(site.guest.text)
    name = site.guest.agreed.label.name
    good = {f.name: "0" if f.levels is None else f.levels[0] for f in site.guest.agreed.features} | {name: "other"}
    data.write_text(",".join(good) + "\n" + f"{','.join(good.values())}\n" * 500)
    paths = _Paths(study, str(data), key, tmp_path, ())
    with raises(BadInput, "looks_like_a_mistake", "records.csv"):
        _agree(site, site.guest.agreed, Answers(), paths)
    assert said == []  # not even the code


# --- What is told -------------------------------------------------------------------------------------


def test_who_was_not_heard_stands_beside_the_statement(tmp_path: Path) -> None:
    _, site, _ = ready(tmp_path)
    study = site.guest.agreed
    rows = [claim.to_json() for claim in protocol_of(study).statement(study)]
    keys = {name: str(throwaway_key()) for name in ("p2", "p3")}
    all_heard = whose_keys(Compared(code="A", tries=2, heard=keys), rows)
    assert len(all_heard) == 1
    one = whose_keys(Compared(code="A", tries=1, heard={"p2": keys["p2"]}, unheard=("p3",)), rows)
    assert says(one[1], "count_one_more", "p3")
    none = whose_keys(Compared(code="", tries=1, unheard=("p2", "p3")), rows)
    assert says(none[0], "charlie_named_the_parties")
    assert not says(none[0], "nothing_against_all")
    assert says(whose_keys(Compared(code="", tries=1), [])[0], "nothing_against_all")


def test_a_folder_of_a_site_that_joined_otherwise_says_nothing(tmp_path: Path) -> None:
    assert roster_report(tmp_path, []) == ()
    for text in ("{", "[]", "7", '{"compared": null}', '{"compared": {"code": 1}}'):
        (tmp_path / "approval.json").write_text(text)
        assert roster_report(tmp_path, []) == ()
    joined = {"compared": {"code": "A", "tries": 1, "heard": {"b": "k"}, "vouched": {"c": ["b"]}, "unheard": ["d"]}}
    (tmp_path / "approval.json").write_text(json.dumps(joined))
    assert len(roster_report(tmp_path, [])) == 2
    assert compared_in(joined) == Compared(code="A", tries=1, heard={"b": "k"}, vouched={"c": ("b",)}, unheard=("d",))


def test_ten_lines_say_who_what_and_how_much(tmp_path: Path) -> None:
    _, site, _ = ready(tmp_path)
    study = site.guest.agreed
    compared = Compared(code="A", tries=1, heard={"p2": "k"}, unheard=("p3",))
    rest = tmp_path / "s.toml", ("Data: fine.",), compared, StateFolder(tmp_path)
    lines = tuple(in_ten_lines(study, "p1", *rest))
    assert len(lines) <= 10
    declared = study.model_copy(
        update={"study": study.study.model_copy(update={"purpose": "which patients come back"})}
    )
    (purpose,) = [line for line in in_ten_lines(declared, "p1", *rest) if line.endswith(": which patients come back")]
    assert purpose.startswith("Purpose, ")
    text = "\n".join(lines)
    for needed in ("p2 and p3", study.label.name, study.fingerprint(), "Data: fine."):
        assert needed in text
    assert study.study.name in text

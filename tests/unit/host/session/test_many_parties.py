"""Studies with more than 65 parties: each is shown a part of the roster, and a part of the last words."""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgpack
import pytest

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import BadInput, DeadlinePassed, ProtocolViolation
from masquerade_core.roster_disclosure import coin_of, heard_by, shown_to, shows_all
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Dropouts, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.faults import Judge
from masquerade_core.wire.frames import run_id
from masquerade_core.wire.merkle import is_under, path_to, root_of, tree_of
from masquerade_host.faults.verifying import check_together, contradictions, read_folder
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.large_rosters import check_size
from masquerade_host.session.lateness import Lateness
from masquerade_host.session.messages import AllClosed, Hellos, Roster, beats_every
from masquerade_host.session.session import Wait
from masquerade_host.session.states import HopEvent
from masquerade_host.store.transcript import Transcript
from tests.host_helpers import All, Hi, World
from tests.messages import raises
from tests.restarts import Group
from tests.run_folders import resign, run_to_folders, silent_charlie, silent_party
from tests.wired import Wired, hello_of

K = 70
KIND, NUMBER, BODY = 4, 5, 7  # in a frame's header


@cache
def world_of(parties: int = K) -> World:
    """A study of masked sums with so many parties."""
    world = World.new(parties)
    text = world.study.to_toml()
    start, end = text.index("[crypto]"), text.index("[protocol]")
    text = text[:start] + '[crypto]\nsum = "masks"\n\n' + text[end:]
    for old, new in (
        ('lead = "p1"\n', ""),
        ('"local-aggregation"', '"dp-gd"'),
        ("delta = 0.0", "delta = 1e-6"),
        ('calibration = "paper"', 'calibration = "proven"'),
    ):
        text = text.replace(old, new)
    return World(Study.parse(text), world.keys)


@pytest.fixture
def wired() -> Wired:
    """Nobody has joined."""
    return Wired(world_of())


@pytest.fixture
def seated(wired: Wired) -> Wired:
    """All have joined."""
    wired.join()
    assert not wired.errors
    return wired


def header(data: bytes) -> list[Any]:
    return list(msgpack.unpackb(data[SIGNATURE_BYTES:]))


def signed_by(wired: Wired, name: str, fields: list[Any]) -> bytes:
    signed = bytes(msgpack.packb(fields))
    return wired.world.keys[name].signing.sign(signed) + signed


def coin(wired: Wired) -> bytes:
    return wired.charlie._coin


def changing(wired: Wired, to: str, kind: str, change: Callable[[list[Any]], None]) -> None:
    """Let Charlie send one party another frame of this kind, well signed."""

    def tamper(source: str, target: str, data: bytes) -> Iterable[bytes]:
        fields = header(data)
        if (source, target, fields[KIND]) != (CHARLIE, to, kind):
            return (data,)
        change(fields)
        return (signed_by(wired, CHARLIE, fields),)

    wired.tamper = tamper


def fails(wired: Wired, name: str, words: str, peer: str = CHARLIE) -> None:
    error = wired.errors[name]
    assert isinstance(error, ProtocolViolation)
    assert (error.peer, words in error.message) == (peer, True), error.message


def finish(wired: Wired) -> None:
    for name in (*wired.world.study.names, CHARLIE):
        wired.finish(name)
    wired.pump(4)


# --- The honest run ------------------------------------------------------------------


def test_a_party_has_the_keys_of_its_neighbours_of_the_first_party_and_of_charlie(seated: Wired) -> None:
    study, names = seated.world.study, seated.world.study.names
    boxes = {name: hop.box_key for name, hop in seated.charlie._hops.items()}
    root = root_of([hop.hello or b"" for hop in seated.charlie._hops.values()])
    for name in names:
        keys, run, shown = seated.answers[name]
        due = shown_to(study, coin(seated), name)
        assert (run, shown) == (seated.charlie.run, root)
        assert keys == (*((other, boxes[other]) for other in due), (CHARLIE, seated.charlie._joins.box_key))  # type: ignore[union-attr]
        assert len(due) == (
            K if name == names[0] else 66 if names[0] not in heard_by(study, coin(seated), name) else 65
        )


def test_all_seats_agree_on_the_coin_and_draw_what_charlie_draws(seated: Wired) -> None:
    found = set()
    for name in (*seated.world.study.names, CHARLIE):
        seat = Seat(name, seated.world.study.names)
        role = seat.join()
        role.send(None)
        role.send(bytes(range(32)))
        with pytest.raises(StopIteration):
            role.send(seated.answers[name])
        found.add(seat.roster_hash())
    assert found == {coin(seated)} == {coin_of(seated.charlie.run, seated.answers["p1"][2])}


def test_every_party_hears_the_last_words_of_its_neighbours(seated: Wired) -> None:
    shown: dict[str, bytes] = {}

    def look(source: str, to: str, data: bytes) -> Iterable[bytes]:
        if source == CHARLIE and header(data)[KIND] == "closed":
            shown[to] = header(data)[BODY]
        return (data,)

    seated.tamper = look
    seated.tell_all(b"news")
    seated.pump(2)
    finish(seated)
    assert not seated.errors
    assert all(session.closed for session in seated.sessions.values())
    closed = {name: hop.closed for name, hop in seated.charlie._hops.items()}
    for name, body in shown.items():
        due = heard_by(seated.world.study, coin(seated), name)
        assert decode(AllClosed, body, CHARLIE).closed == tuple(closed[other] for other in due)
    assert len(shown) == K


def test_up_to_65_parties_everybody_is_shown_everything() -> None:
    assert shows_all(world_of(65).study)
    assert not shows_all(world_of(66).study)


# --- Charlie shows a party other hellos ---------------------------------------------------


def another_hello(wired: Wired, name: str) -> bytes:
    """A hello that a party has signed for this study, as in an earlier attempt."""
    body = hello_of(wired.world, name)
    session = wired.parties[name]
    return session._endpoint.__class__(name, session.study_id, wired.world.keys[name].signing, {CHARLIE: b""}).seal(
        CHARLIE, "hello", body
    )


def shown_in(fields: list[Any]) -> Hellos:
    return decode(Hellos, fields[BODY], CHARLIE)


def put(fields: list[Any], hellos: Iterable[bytes], paths: Iterable[bytes]) -> None:
    fields[BODY] = encode(Hellos(hellos=tuple(hellos), paths=tuple(paths)), CHARLIE)


def _another_at(place: int, wired: Wired, fields: list[Any]) -> None:
    """The party's own key, and signed by it, but of another attempt: no path leads from there to the root."""
    shown = shown_in(fields)
    name = shown_to(wired.world.study, coin(wired), "p9")[place]
    put(fields, [*shown.hellos[:place], another_hello(wired, name), *shown.hellos[place + 1 :]], shown.paths)


def _exchanged(_wired: Wired, fields: list[Any]) -> None:
    shown = shown_in(fields)
    put(
        fields,
        (shown.hellos[1], shown.hellos[0], *shown.hellos[2:]),
        (shown.paths[1], shown.paths[0], *shown.paths[2:]),
    )


def _one_missing(_wired: Wired, fields: list[Any]) -> None:
    shown = shown_in(fields)
    put(fields, shown.hellos[:-1], shown.paths[:-1])


def _no_paths(_wired: Wired, fields: list[Any]) -> None:
    put(fields, shown_in(fields).hellos, ())


def _a_longer_path(_wired: Wired, fields: list[Any]) -> None:
    shown = shown_in(fields)
    put(fields, shown.hellos, (shown.paths[0] + bytes(32), *shown.paths[1:]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (partial(_another_at, 0), "not under the root"),
        (partial(_another_at, 30), "not under the root"),
        (_exchanged, "not under the root"),
        (_one_missing, "hellos with 6"),
        (_no_paths, "hellos with no paths"),
        (_a_longer_path, "not under the root"),
    ],
    ids=["the first party's", "a neighbour's", "exchanged", "one missing", "no paths", "a longer path"],
)
def test_a_party_refuses_hellos_that_are_not_under_the_root(
    wired: Wired, change: Callable[[Wired, list[Any]], None], words: str
) -> None:
    changing(wired, "p9", "hellos", partial(change, wired))
    wired.join()
    fails(wired, "p9", words)
    assert "p9" not in wired.answers


def test_the_first_party_is_shown_all_hellos_that_make_the_root(wired: Wired) -> None:
    def change(fields: list[Any]) -> None:
        hellos = list(shown_in(fields).hellos)
        assert len(hellos) == K
        hellos[40] = another_hello(wired, "p41")
        put(fields, hellos, ())

    changing(wired, "p1", "hellos", change)
    wired.join()
    fails(wired, "p1", "not under the root")


def test_a_root_over_another_hello_of_ones_own_is_refused_by_its_party(wired: Wired) -> None:
    """Charlie makes the tree with a hello of an earlier attempt: its party alone can tell, and does."""
    wired.join(*wired.world.study.names)
    wired.charlie._hops["p9"].hello = another_hello(wired, "p9")
    wired.join(CHARLIE)
    assert set(wired.errors) == {CHARLIE, *wired.world.study.names}
    fails(wired, "p9", "hello of p9")


def test_a_forged_hello_under_the_root_convicts_charlie_for_everybody(wired: Wired) -> None:
    wired.join(*wired.world.study.names)
    fields = header(another_hello(wired, "p9"))
    wired.charlie._hops["p9"].hello = signed_by(wired, CHARLIE, fields)
    seen: list[bytes] = []

    def look(source: str, to: str, data: bytes) -> Iterable[bytes]:
        if (source, to, header(data)[KIND]) == (CHARLIE, "p9", "hellos"):
            seen.append(data)
        return (data,)

    wired.tamper = look
    wired.join(CHARLIE)
    fails(wired, "p1", "hello of p9")
    judge = Judge(wired.world.study, wired.charlie.run, wired.charlie.study_id)
    assert judge.of(seen[:1]).culprit == CHARLIE
    assert judge.of(tuple(header(seen[0])[1:2])).culprit == ""


def test_frames_that_show_hellos_convict_nobody_by_themselves(wired: Wired) -> None:
    frames: list[bytes] = []

    def look(source: str, to: str, data: bytes) -> Iterable[bytes]:
        if source == CHARLIE and to in ("p1", "p2") and header(data)[KIND] in ("roster", "hellos"):
            frames.append(data)
        return (data,)

    wired.tamper = look
    wired.join()
    assert len(frames) == 4
    judge = Judge(wired.world.study, wired.charlie.run, wired.charlie.study_id)
    assert judge.of(frames).culprit == ""


# --- Two trees ----------------------------------------------------------------------------


def test_two_parties_that_are_shown_two_roots_are_in_two_runs(wired: Wired) -> None:
    """Charlie shows p9 a tree in which p10 has another key, every hello well signed: nothing of p9 opens elsewhere."""
    wired.join(*wired.world.study.names)
    study, hops = wired.world.study, wired.charlie._hops
    hellos = [hop.hello or b"" for hop in hops.values()]
    hellos[9] = another_hello(wired, "p10")
    tree, run = tree_of(hellos), b""

    def other_tree(source: str, to: str, data: bytes) -> Iterable[bytes]:
        nonlocal run
        fields = header(data)
        if (source, to) != (CHARLIE, "p9") or fields[KIND] not in ("roster", "hellos"):
            return (data,)
        if fields[KIND] == "roster":
            told = decode(Roster, fields[BODY], CHARLIE)
            body = told.model_copy(update={"root": tree[-1][0]})
            fields[BODY] = encode(body, CHARLIE)
            run = run_id(wired.charlie.study_id, fields[BODY])
        else:
            fields[1] = run
            due = shown_to(study, coin_of(run, tree[-1][0]), "p9")
            places = [study.names.index(name) for name in due]
            put(fields, (hellos[i] for i in places), (path_to(tree, i) for i in places))
        return (signed_by(wired, CHARLIE, fields),)

    wired.tamper = other_tree
    wired.join(CHARLIE)
    assert wired.answers["p9"][1:] == (run, tree[-1][0])
    assert run != wired.charlie.run
    wired.say("p9")
    wired.pump(2)
    assert "another run" in wired.errors[CHARLIE].message
    assert set(wired.errors) == {CHARLIE, *study.names}


# --- Order --------------------------------------------------------------------------------


def test_nothing_that_counts_comes_before_the_hellos(wired: Wired) -> None:
    def change(fields: list[Any]) -> None:
        fields[KIND], fields[BODY] = "message", b"\x80"

    changing(wired, "p9", "hellos", change)
    wired.join()
    fails(wired, "p9", "sent 'message' out of turn. While the connection is 'meeting'")


def test_hellos_that_come_twice_are_out_of_turn(seated: Wired) -> None:
    frame = seated.charlie._endpoint.seal("p9", "hellos", encode(Hellos(hellos=(), paths=()), "p9"))
    seated.links["p9"].inbox.append(frame)
    seated.pump(1)
    fails(seated, "p9", "sent 'hellos' out of turn. While the connection is 'seated'")


def test_who_is_never_shown_its_hellos_says_that_it_waits_for_charlie(wired: Wired) -> None:
    wired.tamper = lambda source, to, data: (
        () if (source, to) == (CHARLIE, "p9") and header(data)[KIND] == "hellos" else (data,)
    )
    wired.join()
    assert wired.parties["p9"].missing() == (CHARLIE,)
    wired.parties["p9"]._wait = Wait(5.0, 5.0)
    wired.parties["p9"]._wait.begin(wired.clock.now)
    wired.pump(9, seconds=1.9)
    assert isinstance(wired.errors["p9"], DeadlinePassed)
    assert wired.errors["p9"].waited_for == (CHARLIE,)


# --- The last words -----------------------------------------------------------------------


def test_a_party_that_was_told_something_else_and_its_neighbours_keep_no_result(
    seated: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is no neighbour of p9 may finish: it was told what all others were told."""
    monkeypatch.setattr(type(seated.charlie), "_check_digests", lambda _self: None)
    changing(seated, "p9", "message", lambda fields: fields.__setitem__(BODY, b"another sum"))
    seated.tell_all(b"sum")
    seated.pump(2)
    finish(seated)
    near = set(heard_by(seated.world.study, coin(seated), "p9"))
    assert set(seated.errors) == near
    for name in near - {"p9"}:
        fails(seated, name, "sent p9 different messages", "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda closed: (*closed[:-1], b""), "words of 64 parties; it needs those of 65"),
        (lambda closed: closed[:-1], "words of 64 parties; it needs those of 65"),
        (lambda closed: (closed[1], closed[0], *closed[2:]), "with a frame of"),
    ],
    ids=["empty", "short", "exchanged"],
)
def test_the_last_words_of_all_neighbours_are_due(
    seated: Wired, change: Callable[[tuple[bytes, ...]], tuple[bytes, ...]], words: str
) -> None:
    def tamper(fields: list[Any]) -> None:
        closed = decode(AllClosed, fields[BODY], CHARLIE).closed
        fields[BODY] = encode(AllClosed(closed=change(closed)), CHARLIE)

    changing(seated, "p9", "closed", tamper)
    finish(seated)
    fails(seated, "p9", words)


def test_an_end_for_all_at_once_is_refused(seated: Wired) -> None:
    def tamper(source: str, to: str, data: bytes) -> Iterable[bytes]:
        if (source, to) == (CHARLIE, "p9") and header(data)[KIND] == "closed":
            endpoint = seated.charlie._endpoint
            return (endpoint.broadcast("closed", header(data)[BODY]),)
        return (data,)

    seated.tamper = tamper
    finish(seated)
    fails(seated, "p9", "closed the run for all; in a study with 70 parties he closes it for each by itself")


# --- Restarts -----------------------------------------------------------------------------


async def party(seat: Seat) -> bytes:
    await seat.join()
    noise = await seat.once("noise", lambda rng: rng.bytes(8))
    await seat.release("round", 0.1, 0.0)
    await seat.send(CHARLIE, Hi(coin=noise, sealed=b""))
    return (await seat.receive(All, CHARLIE)).coins


async def charlie(seat: Seat) -> bytes:
    await seat.join()
    coins = b"".join(hi.coin for hi in (await seat.gather(Hi, seat.names)).values())
    await seat.broadcast(All(coins=coins))
    return coins


def group() -> Group:
    return Group(world_of(), {CHARLIE: charlie, **dict.fromkeys(world_of().study.names, party)})


@pytest.mark.parametrize(("name", "moment"), [("p9", 5), (CHARLIE, 145)])
def test_a_kill_changes_nothing(name: str, moment: int) -> None:
    """A party's after its journal has the roster, and Charlie's while he shows hellos."""
    run = group()
    run.sites[name].kill_at = moment
    run.run(60, down=1)
    run.check()
    assert run.sites[name].starts == 2


def test_a_party_that_was_started_again_asks_its_neighbours_alone() -> None:
    run = group()
    run.run(until=lambda: bool(run.sites["p9"].debited))
    p9, study = run.sites["p9"], world_of().study
    p9.kill()
    p9.start()
    near = {name for name in heard_by(study, coin_of_run(run), "p9") if name != "p9"}
    assert set(p9.session.__dict__["_barrier"].held.missing) == near
    assert len(near) == 64
    asked: set[str] = set()

    def look(source: str, to: str, data: bytes) -> bytes:
        if source == CHARLIE and header(data)[KIND] == "standing" and header(data)[6] == "ask":
            asked.add(to)
        return data

    run.tamper = look
    run.run(60)
    run.check()
    assert asked == near


def coin_of_run(run: Group) -> bytes:
    charlie = run.sites[CHARLIE].session
    assert isinstance(charlie, CharlieSession)
    return charlie._coin


# --- Folders ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("folders")
    run_to_folders(root, world=world_of(), roles=(silent_party, silent_charlie))
    return root


def test_folders_of_a_part_are_in_order_by_themselves_and_together(folders: Path) -> None:
    study = world_of().study
    read = {name: read_folder(folders / name) for name in ("p1", "p9", "p70", CHARLIE)}
    assert {name: folder.problems for name, folder in read.items()} == {name: [] for name in read}
    check_together(list(read.values()))
    assert contradictions(list(read.values())) == []
    assert read[CHARLIE].took_part == study.names
    for name in ("p1", "p9", "p70"):
        assert name in read[name].took_part
        assert len(read[name].took_part) == 65


def _without(kind: str) -> Callable[[Transcript], Transcript]:
    return lambda t: replace(t, shown=tuple(frame for frame in t.shown if header(frame)[KIND] != kind))


@pytest.mark.parametrize(
    ("owner", "kind", "problem"),
    [
        ("p9", "hellos", "does not have all hellos that p9 was shown"),
        (CHARLIE, "hellos", "does not have all hellos that p1 was shown"),
        (CHARLIE, "closed", "words of no parties"),
    ],
)
def test_a_folder_without_what_it_was_shown_is_not_in_order(
    folders: Path, tmp_path: Path, owner: str, kind: str, problem: str
) -> None:
    shutil.copytree(folders / owner, tmp_path / owner)
    resign(tmp_path / owner, world_of(), _without(kind))
    assert any(problem in found for found in read_folder(tmp_path / owner).problems)


# --- The tree -----------------------------------------------------------------------------


def test_a_node_is_no_row_and_a_row_no_node() -> None:
    """With one tag for all, two leaves' hashes in a row would be a row of a smaller tree with the same root."""
    rows = [b"%d" % i for i in range(4)]
    tree = tree_of(rows)
    nodes = [tree[0][0] + tree[0][1], tree[0][2] + tree[0][3]]
    assert root_of(nodes) != tree[-1][0]
    assert not is_under(tree[-1][0], 2, 0, nodes[0], tree[1][1])
    assert not is_under(tree[-1][0], 4, 0, nodes[0], tree[1][1])
    assert root_of(rows[:3]) != root_of([*rows[:3], rows[2]])


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 33])
def test_each_row_is_under_the_root_at_its_place_alone(count: int) -> None:
    rows = [hashlib.sha256(b"%d" % i).digest() for i in range(count)]
    tree = tree_of(rows)
    root = tree[-1][0]
    for place, row in enumerate(rows):
        path = path_to(tree, place)
        assert is_under(root, count, place, row, path)
        others = [(p, r) for p in range(count) for r in rows if (p, r) != (place, row)]
        assert not any(is_under(root, count, p, r, path) for p, r in others)
        assert not is_under(root, count + 1, place, row, path)
        assert not is_under(root, count, place, row, path + bytes(32))
        assert not is_under(root, count, place, row, path[:-1]) or not path


def test_where_everybody_is_shown_everything_the_parties_are_limited() -> None:
    study = world_of().study
    check_size(study)
    dropouts = Dropouts(min_survivors=60, retries=1, patience_seconds=10.0)
    many = study.model_copy(update={"dropouts": dropouts, "parties": study.parties * 60})
    with raises(BadInput, "roster_too_long_for_hellos", "4,200", "4,000"):
        check_size(many)
    check_size(many.model_copy(update={"dropouts": None}))


@pytest.mark.parametrize(
    ("parties", "deadline", "seconds"), [(5, 600.0, 2.0), (100, 600.0, 2.0), (1000, 600.0, 20.0), (1000, 60.0, 10.0)]
)
def test_beats_are_rarer_with_many_parties_and_six_in_a_deadline(parties: int, deadline: float, seconds: float) -> None:
    assert beats_every(parties, deadline) == seconds


# --- What many parties cost Charlie --------------------------------------------------


def test_charlie_looks_at_all_clocks_some_times_a_second_and_not_for_every_frame(
    seated: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    find = Lateness.find

    def counting(self: Lateness, *args: Any) -> Any:
        nonlocal looks
        looks += 1
        return find(self, *args)

    monkeypatch.setattr(Lateness, "find", counting)
    for _ in range(100):
        seated.clock.now += 0.01
        seated.charlie.step()
    assert 4 <= looks <= 6


def test_charlie_gathers_frames_as_long_as_many_are_to_come(seated: Wired) -> None:
    names = seated.world.study.names
    assert not seated.charlie.gathers
    seated.expect(CHARLIE, "Hi", names)
    gathered = []
    for name in names:
        gathered.append(seated.charlie.gathers)
        seated.say(name)
        seated.pump(1)
    assert gathered == [True] * (K - 8) + [False] * 8


def test_with_few_parties_charlie_gathers_no_frames() -> None:
    wired = Wired(World.new(8))
    wired.join()
    wired.expect(CHARLIE, "Hi", wired.world.study.names)
    assert not wired.charlie.gathers


def test_the_parties_that_are_counted_are_those_that_have_joined(wired: Wired) -> None:
    def counted() -> bool:
        hops = wired.charlie._hops
        return hops.company == {name for name, hop in hops.items() if hop.joined}

    names = wired.world.study.names
    wired.join(*names[:-1])
    assert counted()
    assert len(wired.charlie._hops.company) == K - 1
    for name, event in zip(names, (HopEvent.SILENCE, HopEvent.TURNED_AWAY, HopEvent.GIVE_UP), strict=False):
        wired.charlie._hops[name].note(event)
        assert counted()

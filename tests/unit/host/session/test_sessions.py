"""Sessions without sockets: the hello, the roster, the relay, everybody's clocks, and how a run ends badly."""

from collections.abc import Sequence

import msgpack
import pytest

from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey
from masquerade_core.crypto.pair_keys import BoxKey
from masquerade_core.errors import (
    BadInput,
    BudgetExceeded,
    CannotConnect,
    ClaimRefuted,
    DeadlinePassed,
    LocalProtocolError,
    MasqueradeError,
    ProtocolViolation,
    Reported,
    RunFailed,
    StateCopied,
)
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Progress, Release, Send, Stage
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode, unpack_strict
from masquerade_core.wire.faults import Abort, pack_abort, read_abort
from masquerade_core.wire.frames import Endpoint
from masquerade_host.channel import MAX_KEPT
from masquerade_host.faults.endings import abort_of
from masquerade_host.process.progress import Relayed
from masquerade_host.session import party
from masquerade_host.session.commits import NoDebits
from masquerade_host.session.messages import AllClosed, Beat, Closed, Fields, Roster, box_keys_of, pack_beat, read_beat
from masquerade_host.session.states import Turn
from masquerade_host.transport.dialer import Answer
from masquerade_host.transport.interface import Arrival, ConnectionEvent
from tests.helpers import joining
from tests.host_helpers import VERSION, World, new_keys
from tests.messages import says, sentence
from tests.wired import Wired, hello_of, roster_of

NAMES = ("p1", "p2", "p3")
EVERYBODY = (*NAMES, CHARLIE)


@pytest.fixture
def world() -> World:
    """A study of three parties with a deadline of six seconds."""
    return World.new(3, deadline=6.0, port=5555)


@pytest.fixture
def wired(world: World) -> Wired:
    """Three parties and Charlie, who have not joined yet."""
    return Wired(world)


@pytest.fixture
def seated(wired: Wired) -> Wired:
    """The same, joined."""
    wired.join()
    assert set(wired.answers) == set(EVERYBODY)
    return wired


def ends(wired: Wired, kind: type[MasqueradeError], names: tuple[str, ...] = EVERYBODY) -> None:
    assert {name: type(wired.errors.get(name)) for name in names} == dict.fromkeys(names, kind)


def hand(wired: Wired, name: str, data: bytes | None) -> None:
    """Put raw bytes on a party's connection to Charlie."""
    wired.link.inbox.append(Arrival(name, wired.routes[name], data))


# --- The hello -------------------------------------------------------------------


def test_everybody_learns_everybodys_box_key_and_the_same_ones(seated: Wired) -> None:
    keys, run = seated.answers["p1"]
    assert [name for name, _ in keys] == list(EVERYBODY)
    assert all(seated.answers[name] == (keys, run) for name in EVERYBODY)
    assert len({key for _, key in keys}) == 4


def test_each_run_of_a_study_has_an_id_of_its_own(world: World) -> None:
    first, second = Wired(world), Wired(world)
    for wired in (first, second):
        assert {session.run for session in wired.sessions.values()} == {world.study.study_id(VERSION)}
        wired.join()
        assert {session.run for session in wired.sessions.values()} == {wired.answers["p1"][1]}
    assert len({world.study.study_id(VERSION), first.charlie.run, second.charlie.run}) == 3


@pytest.mark.parametrize("name", EVERYBODY)
def test_a_run_has_another_id_if_only_one_nonce_differs(world: World, name: str) -> None:
    runs = []
    for nonce in (b"a" * 16, b"b" * 16, b"a" * 16):
        wired = Wired(world)
        for who in EVERYBODY:
            wired.begin(who, joining(who, nonce if who == name else bytes(16), BoxKey(who.encode().ljust(32))))
        wired.pump()
        runs.append(wired.charlie.run)
    assert runs[0] == runs[2] != runs[1]


def test_no_frame_of_one_run_is_one_of_another(world: World) -> None:
    """p1's message of an earlier run of this study has the right number and signature, and is refused."""
    first, second = Wired(world), Wired(world)
    for wired in (first, second):
        wired.join()
        for session in wired.parties.values():
            session._next_beat = wired.clock.now + 60
    first.say("p1")
    (message,) = first.links["p1"].sent
    hand(second, "p1", message)
    violated(second, "p1")
    assert says(second.errors[CHARLIE].message, "frame_of_another_run")


@pytest.mark.parametrize("mutant", [False, True])
@pytest.mark.parametrize("source", ["p1", CHARLIE])
def test_a_frame_of_a_stale_attempt_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, source: str, *, mutant: bool
) -> None:
    """It has the right number and signature. If frames of all runs counted, attempt 2 would take it for its own."""
    first, second = Wired(world), Wired(world)
    for wired in (first, second):
        wired.join()
        for session in wired.sessions.values():
            session._next_beat = wired.clock.now + 60
    receiver, to = ("p1", "p1") if source == CHARLIE else (CHARLIE, None)
    first.say(source, b"of attempt 1", to=to)
    stale = first.link.sent[-1][1] if source == CHARLIE else first.links["p1"].sent[-1]
    if mutant:
        monkeypatch.setattr(Endpoint, "_is_of_this_run", lambda *_: True)
    if source == CHARLIE:
        second.links["p1"].inbox.append(stale)
    else:
        hand(second, "p1", stale)
    second.expect(receiver, "Hi", (source,))
    second.pump(1)
    if mutant:
        assert second.answers[receiver] == (b"of attempt 1",)
        return
    error = second.errors[receiver]
    assert isinstance(error, ProtocolViolation)
    assert says(error.message, "frame_of_another_run")
    assert second.answers[receiver] != (b"of attempt 1",)


@pytest.mark.parametrize("mutant", [False, True])
def test_a_hello_of_a_stale_attempt_in_the_roster_is_refused_by_the_party_that_said_it(
    world: World, monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """The signature and the study are right, so p2 alone can tell. Its process of attempt 1 had another box key."""
    first, second = Wired(world), Wired(world)
    first.join()
    second.join(*world.study.names)
    then, now = first.charlie._hops["p2"], second.charlie._hops["p2"]
    now.hello, now.box_key = then.hello, then.box_key
    if mutant:

        def any_hello(roster: Roster, study: Study, study_id: bytes, signing: SigningKey, _own: object) -> object:
            return box_keys_of(roster, study, study_id, signing, ("", b""))

        monkeypatch.setattr(party, "box_keys_of", any_hello)
    second.join(CHARLIE)
    if mutant:
        assert dict(second.answers["p2"][0])["p2"] == then.box_key
        return
    error = second.errors["p2"]
    assert isinstance(error, ProtocolViolation)
    assert (error.peer, "hello of p2" in error.message) == (CHARLIE, True)
    assert "p2" not in second.answers


def test_beats_that_cross_the_roster_are_in_order(wired: Wired) -> None:
    """A party that has no roster yet says beats with the study's id, and can read no others."""
    held: list[bytes] = []

    def hold(_source: str, to: str, data: bytes) -> tuple[bytes, ...]:
        if to != "p1":
            return (data,)
        held.append(data)
        return ()

    wired.join("p1")
    wired.tamper = hold
    wired.join("p2", "p3", CHARLIE)
    assert CHARLIE in wired.answers
    wired.pump(3, seconds=1.0)
    assert "p1" not in wired.answers
    wired.links["p1"].inbox += held
    wired.tamper = lambda _source, _to, data: (data,)
    wired.pump(3, seconds=1.0)
    assert not wired.errors
    assert wired.answers["p1"] == wired.answers[CHARLIE]


def test_a_party_reports_once_that_it_is_connected(wired: Wired) -> None:
    wired.join()
    assert wired.seen("p1").count("connected") == 1


def test_a_party_says_hello_again_until_it_is_answered_and_then_no_more(wired: Wired) -> None:
    wired.tamper = lambda source, _to, data: () if source == CHARLIE else (data,)
    wired.join("p1")
    wired.pump(3, seconds=1.0)
    assert wired.seen(CHARLIE).count("connected") == 1
    hellos = wired.parties["p1"].stats.messages
    assert hellos == 3
    wired.tamper = lambda _source, _to, data: (data,)
    wired.links["p1"].events.append(ConnectionEvent.LOST)
    wired.routes["p1"] += b"'"
    wired.pump(4, seconds=0.5)
    assert wired.parties["p1"].stats.messages == hellos + 1


def test_charlie_tells_which_field_of_a_study_differs_and_waits_for_the_others(world: World) -> None:
    wired = Wired(world, studies={"p2": world.changed("epsilon = 1.0", "epsilon = 2.0")})
    wired.join()
    error = wired.errors.pop("p2")
    assert isinstance(error, BadInput)
    assert says(error.message, "study_differs", "privacy.epsilon")
    assert ("charlie", "refused", {"party": "p2", "fields": "privacy.epsilon"}) in wired.events
    assert not wired.errors
    wired.restart("p2")
    wired.join("p2")
    assert set(wired.answers) == set(EVERYBODY)


@pytest.mark.parametrize("count", [500, 3000])
def test_large_studies_can_say_where_they_differ(count: int) -> None:
    """Three fields each: a message may have 4096 items."""
    few = World.new(2, port=5555)
    text = few.study.to_toml()
    at = text.index("[[feature]]")
    many = "".join(f'[[feature]]\nname = "x{i}"\nmin = -1.0\nmax = 1.0\n\n' for i in range(count - 1))
    world = World(Study.parse(text[:at] + many + text[at:]), few.keys)
    wired = Wired(world, studies={"p2": world.changed('name = "x490"\nmin = -1.0', 'name = "x490"\nmin = -2.0')})
    wired.join()
    assert says(wired.errors["p2"].message, "study_differs", "feature.490.min")
    assert ("charlie", "refused", {"party": "p2", "fields": "feature.490.min"}) in wired.events


def test_a_study_with_other_keys_of_others_differs_there(world: World) -> None:
    old = str(world.keys["p3"].public)
    wired = Wired(world, studies={"p1": world.changed(old, str(new_keys().public))})
    wired.join()
    assert "in: party.2.key" in wired.errors["p1"].message


def test_another_version_is_named_on_both_sides(world: World) -> None:
    wired = Wired(world, versions={"p1": "9.9.9"})
    wired.join()
    error = wired.errors["p1"]
    assert isinstance(error, BadInput)
    assert "9.9.9" in error.message
    assert VERSION in error.message
    assert ("charlie", "refused", {"party": "p1", "version": "9.9.9"}) in wired.events


@pytest.mark.parametrize("mutant", [False, True])
def test_charlie_cannot_exchange_a_partys_box_key(
    wired: Wired, monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """He signs the roster, but not what the others have said of themselves. Without that he would have p2's masks."""
    if mutant:
        monkeypatch.setattr("masquerade_core.wire.frames.verify", lambda *_: True)
    evil = BoxKey(SystemRng().bytes(32))
    study_id = wired.charlie.study_id
    charlie = Endpoint(CHARLIE, study_id, wired.world.keys[CHARLIE].signing, {"p1": wired.world.keys["p1"].public.sign})

    def exchange(source: str, to: str, data: bytes) -> tuple[bytes, ...]:
        if (source, to) != (CHARLIE, "p1"):
            return (data,)
        reader = Endpoint(
            "p1", study_id, wired.world.keys["p1"].signing, {CHARLIE: wired.world.keys[CHARLIE].public.sign}
        )
        frame = reader.open(CHARLIE, data, any_run=True, numbered=False)
        if frame.kind != "roster":
            return (charlie.seal("p1", frame.kind, frame.body),)
        roster = decode(Roster, frame.body, CHARLIE)
        hello = hello_of(wired.world, "p2", evil)
        forged = Endpoint("p2", study_id, wired.world.keys[CHARLIE].signing, {CHARLIE: b""})
        hellos = (roster.hellos[0], forged.seal(CHARLIE, "hello", hello), roster.hellos[2])
        body = encode(roster.model_copy(update={"hellos": hellos}), "p1")
        return (charlie.broadcast("roster", body),)

    wired.tamper = exchange
    wired.join()
    if mutant:
        assert dict(wired.answers["p1"][0])["p2"] == evil.public
        return
    error = wired.errors["p1"]
    assert isinstance(error, ProtocolViolation)
    assert (error.peer, "hello of p2" in error.message) == (CHARLIE, True)


@pytest.mark.parametrize("change", ["short", "own hello of before", "another run"])
def test_a_roster_is_complete_and_of_this_run_and_holds_ones_own_hello(wired: Wired, change: str) -> None:
    wired.join("p1", "p2", "p3")
    p1 = wired.parties["p1"]
    charlies = wired.world.keys[CHARLIE]
    hellos = [hop.hello for hop in wired.charlie._hops.values()]
    own = wired.world.keys["p1"].signing
    body = hello_of(wired.world, "p1")
    if change == "short":
        hellos = hellos[:2]
    elif change == "own hello of before":
        hellos[0] = Endpoint("p1", p1.run, own, {CHARLIE: b""}).seal(CHARLIE, "hello", body)
    else:
        theirs = wired.world.keys["p2"].signing
        hellos[1] = Endpoint("p2", bytes(16), theirs, {CHARLIE: b""}).seal(CHARLIE, "hello", body)
    roster = roster_of(wired.world, [h for h in hellos if h])
    endpoint = Endpoint(CHARLIE, p1.run, charlies.signing, {"p1": own.public})
    wired.links["p1"].inbox.append(endpoint.broadcast("roster", encode(roster, "p1")))
    wired.pump(1)
    error = wired.errors["p1"]
    assert isinstance(error, ProtocolViolation)
    assert error.peer == CHARLIE


def test_a_party_that_starts_anew_before_the_roster_is_welcome(wired: Wired) -> None:
    wired.join("p1", "p2")
    wired.restart("p1")
    wired.join("p1", "p3", CHARLIE)
    assert not wired.errors
    assert wired.answers["p1"] == wired.answers["p2"]


@pytest.mark.parametrize("complete", [False, True])
def test_a_party_that_is_started_twice_before_the_roster_ends_nobodys_run(wired: Wired, complete: bool) -> None:
    """The first process lives on: its heart beats, and it may say that it ends, on a connection that counts no more."""
    wired.join("p1", "p2", CHARLIE)
    first, route = wired.parties["p1"], wired.routes["p1"]
    wired.restart("p1")
    wired.join("p1")
    if complete:
        wired.join("p3")
    beat, abort = pack_beat(Beat(), EVERYBODY), Abort(reason="left", blamed=("p1",), by="p1")
    for kind, body in (("beat", beat), ("beat", beat), ("abort", pack_abort(abort, EVERYBODY))):
        data = first._endpoint.seal(CHARLIE, kind, body)  # type: ignore[arg-type]
        wired.link.inbox.append(Arrival("p1", route, data))
        wired.pump(1)
    wired.link.inbox.append(Arrival("p1", route, first._seating.hello))
    wired.pump(2)
    assert wired.link.routes["p1"] == wired.routes["p1"]
    if not complete:
        wired.join("p3")
    assert not wired.errors
    assert wired.answers["p1"] == wired.answers["p2"] == wired.answers[CHARLIE]
    wired.pump(30, seconds=0.25)
    assert not wired.errors


def test_a_party_whose_connection_breaks_before_the_roster_connects_again(wired: Wired) -> None:
    wired.join("p1")
    wired.pump(2, seconds=1.0)
    wired.cut("p1")
    wired.pump(3, seconds=0.25)
    wired.join("p2", "p3", CHARLIE)
    assert wired.links["p1"].reopened == 1
    assert not wired.errors
    assert wired.answers["p1"] == wired.answers["p2"]


@pytest.mark.parametrize("other", ["run", "study", "version"])
def test_a_party_that_starts_anew_after_the_roster_ends_nothing_and_is_told_why(seated: Wired, other: str) -> None:
    first, link, route = seated.parties["p1"], seated.links["p1"], seated.routes["p1"]
    study = seated.world.changed("epsilon = 1.0", "epsilon = 2.0") if other == "study" else None
    seated.restart("p1", study, "9.9.9" if other == "version" else None)
    seated.begin("p1", joining("p1", bytes(16)))
    seated.pump(4)
    (name, error) = seated.errors.popitem()
    wanted = {
        "run": (RunFailed, "another process of this party has its place"),
        "study": (BadInput, "differs from Charlie's in: privacy.epsilon"),
        "version": (BadInput, "9.9.9"),
    }
    assert (name, type(error), wanted[other][1] in error.message) == ("p1", wanted[other][0], True)
    assert not seated.errors
    assert {"turned_away", "refused"} & set(seated.seen(CHARLIE))
    seated.parties["p1"], seated.links["p1"], seated.routes["p1"] = first, link, route
    seated.say("p1")
    seated.expect(CHARLIE, "Hi", ("p1",))
    seated.pump(8, seconds=1.0)
    assert seated.answers[CHARLIE] == (b"hello",)
    assert not seated.errors


def test_a_party_that_leaves_before_the_roster_is_waited_for(wired: Wired) -> None:
    wired.join("p1", "p2")
    wired.parties["p1"].abort(None)
    wired.pump(2)
    assert wired.seen(CHARLIE).count("left") == 1
    wired.restart("p1")
    wired.join("p1", "p3", CHARLIE)
    assert not wired.errors


def test_a_party_that_is_silent_before_the_roster_may_come_back(wired: Wired) -> None:
    wired.join("p1", "p2")
    wired.tamper = lambda source, to, data: () if "p1" in (source, to) else (data,)
    wired.pump(5, seconds=0.9)
    assert "left" in wired.seen(CHARLIE)
    wired.join("p3", CHARLIE)
    assert CHARLIE not in wired.answers
    wired.tamper = lambda _source, _to, data: (data,)
    # What was lost while p1 was away was lost with its connection.
    wired.cut("p1")
    wired.pump(8, seconds=0.1)
    assert not wired.errors
    assert wired.answers["p1"] == wired.answers[CHARLIE]


def test_a_party_that_died_while_others_were_awaited_is_not_counted_in(wired: Wired) -> None:
    wired.join("p1")
    wired.link.gone.add("p1")
    wired.join("p2", "p3", CHARLIE)
    assert not wired.answers
    wired.restart("p1")
    wired.join("p1")
    assert not wired.errors
    assert wired.answers["p1"] == wired.answers[CHARLIE]


def test_charlie_names_who_did_not_join(wired: Wired) -> None:
    wired.join("p1", CHARLIE)
    wired.pump(9, seconds=0.9)
    for name in ("p1", CHARLIE):
        error = wired.errors[name]
        assert isinstance(error, DeadlinePassed)
        assert error.waited_for == ("p2", "p3")


def test_a_study_with_more_fields_than_a_frame_takes_is_compared_by_section() -> None:
    own = {f"feature.{i}.min": i.to_bytes(16, "big") for i in range(70_000)} | {"privacy.epsilon": bytes(16)}
    theirs = {**own, "feature.69999.min": bytes(16)}
    fields = Fields.of(theirs)
    assert len(encode(fields, CHARLIE)) < 1000
    assert fields.differing(own) == ("feature",)
    assert Fields.of(own).differing(own) == ()
    assert Fields.of({}).differing({}) == ()


@pytest.mark.parametrize(
    ("names", "hashes"),
    [
        (b"a.b", bytes(15)),
        (b"a.b", bytes(32)),
        (b"a.b\na.c", bytes(16)),
        (b"a.b\na.b", bytes(32)),
        (b"a.b\n", bytes(32)),
        (b"a.\x1b[2J", bytes(16)),
        ("a.\x9b2J".encode(), bytes(16)),
        (b"a.\xff", bytes(16)),
        (b"a" * 257, bytes(16)),
        (b"", bytes(16)),
    ],
)
def test_fields_that_are_none(names: bytes, hashes: bytes) -> None:
    body = msgpack.packb({"names": names, "hashes": hashes})
    with pytest.raises(ProtocolViolation):
        decode(Fields, body, "p1")


# --- The relay --------------------------------------------------------------------


def test_sealed_messages_are_passed_on_and_charlies_role_never_sees_them(seated: Wired) -> None:
    seated.send_sealed("p1", "Secret", ("p2", "p3"), (b"for p2", b"for p3"))
    seated.send_sealed("p3", "Secret", ("p2",), (b"alone!",))
    seated.expect("p2", "Secret", ("p1", "p3"), sealed=True)
    seated.expect("p3", "Secret", ("p1",), sealed=True)
    seated.pump(2)
    assert seated.answers["p2"] == (b"for p2", b"alone!")
    assert seated.answers["p3"] == (b"for p3",)
    assert seated.charlie.relayed == [
        Relayed("p1", "p2", "Secret", 6),
        Relayed("p1", "p3", "Secret", 6),
        Relayed("p3", "p2", "Secret", 6),
    ]


def test_messages_of_one_sender_keep_their_order(seated: Wired) -> None:
    for body in (b"1", b"2", b"3"):
        seated.say("p1", body)
    seated.pump(1)
    for body in (b"1", b"2", b"3"):
        seated.expect(CHARLIE, "Hi", ("p1",))
        assert seated.answers[CHARLIE] == (body,)


@pytest.mark.parametrize(
    ("to", "boxes"),
    [
        (("p2", "p3"), (b"equal", b"not")),
        (("p2", "p3"), (b"one",)),
        (("p1",), (b"myself",)),
        ((CHARLIE,), (b"charlie",)),
        (("nobody",), (b"x",)),
    ],
)
def test_a_sealed_message_that_is_none_ends_the_run(
    seated: Wired, monkeypatch: pytest.MonkeyPatch, to: tuple[str, ...], boxes: tuple[bytes, ...]
) -> None:
    packed = lambda boxes: msgpack.packb((len(boxes[0]), b"".join(boxes)))  # noqa: E731 - whatever their lengths
    monkeypatch.setattr(party, "pack_boxes", packed)
    if len(boxes) < len(to):
        boxes = (*boxes, b"one", b"one")
    seated.send_sealed("p1", "Secret", to, boxes)
    seated.pump(2)
    ends(seated, ProtocolViolation)
    assert {e.peer for e in seated.errors.values() if isinstance(e, ProtocolViolation)} == {"p1"}


def test_where_a_party_floods_another_or_that_one_acknowledges_nothing_neither_is_named_alone(seated: Wired) -> None:
    seated.charlie._hops["p2"].channel.kept = MAX_KEPT
    seated.send_sealed("p1", "Secret", ("p2",), (b"x",))
    seated.pump(2)
    error = seated.errors[CHARLIE]
    assert isinstance(error, ProtocolViolation)
    assert (error.peer, error.suspects) == ("", ("p1", "p2"))
    for name in ("p1", "p2", "p3"):
        word = seated.errors[name]
        assert isinstance(word, Reported)
        assert (word.said_by, word.accused) == (CHARLIE, ("p1", "p2"))


# --- Violations -------------------------------------------------------------------


def violated(wired: Wired, peer: str = "p1", *, shown: bool | None = False) -> None:
    """The one that saw it names ``peer``; the others do if they were shown it, and have its word alone otherwise.

    None: some of them saw it, too.
    """
    wired.pump(3)
    finder = CHARLIE if peer != CHARLIE else "p1"
    assert set(wired.errors) == set(EVERYBODY)
    for name, error in wired.errors.items():
        assert peer in error.message
        if name == finder or (shown if shown is not None else isinstance(error, ProtocolViolation)):
            assert isinstance(error, ProtocolViolation), (name, error)
            assert (name, error.peer) == (name, peer)
        else:
            assert isinstance(error, Reported), (name, error)
            assert (name, error.said_by, error.accused) == (name, finder, (peer,))
            assert "nobody here has checked it" in error.message


def test_garbage(seated: Wired) -> None:
    hand(seated, "p1", SystemRng().bytes(200))
    violated(seated)


def test_an_empty_frame(seated: Wired) -> None:
    hand(seated, "p1", b"")
    violated(seated)


def test_a_message_of_several_parts(seated: Wired) -> None:
    hand(seated, "p1", None)
    violated(seated)


def test_an_oversized_frame(seated: Wired) -> None:
    hand(seated, "p1", bytes(5_000_000))
    violated(seated)


def turned_away(wired: Wired, name: str = "p1") -> None:
    """A process of this party was told that it is refused; the others wait on, and take part with its next one."""
    wired.pump(3)
    error = wired.errors.pop(name, None)
    assert error is None or (type(error), "refused what this party sent" in error.message) == (RunFailed, True)
    assert error is not None or wired.parties[name]._link is None
    assert ("charlie", "turned_away", {"party": name, "reason": "broken"}) in wired.events
    assert {who for who, _ in wired.link.hung_up} == {name}
    assert not wired.errors
    wired.clock.now += 1
    wired.restart(name)
    wired.join(*(who for who in EVERYBODY if who == name or (who not in wired.answers and not _joins(wired, who))))
    assert set(wired.answers) == set(EVERYBODY)
    assert not wired.errors


def _joins(wired: Wired, name: str) -> bool:
    return wired.sessions[name]._pending is not None


def test_a_frame_that_comes_twice_counts_once(seated: Wired) -> None:
    seated.tamper = lambda source, to, data: (data, data) if "p1" in (source, to) else (data,)
    for body in (b"1", b"2"):
        seated.say("p1", body)
        seated.say(CHARLIE, body, to="p1")
    seated.pump(2)
    for body in (b"1", b"2"):
        seated.expect(CHARLIE, "Hi", ("p1",))
        seated.expect("p1", "Hi", (CHARLIE,))
        assert (seated.answers[CHARLIE], seated.answers["p1"]) == ((body,), (body,))
    for name in EVERYBODY:
        seated.finish(name)
    seated.pump(3)
    assert not seated.errors
    assert all(session.closed for session in seated.sessions.values())


@pytest.mark.parametrize("source", ["p1", CHARLIE])
def test_two_frames_of_one_number_prove_charlies_fault_and_for_a_party_that_its_state_may_be_copied(
    seated: Wired, source: str
) -> None:
    to = "p1" if source == CHARLIE else None
    seated.say(source, b"one", to=to)
    seated.pump(1)
    endpoint = seated.sessions[source]._endpoint
    endpoint._next_out[to or CHARLIE] -= 1
    two = endpoint.seal(to or CHARLIE, "message", b"two", type="Hi")
    if to:
        seated.links["p1"].inbox.append(two)
    else:
        hand(seated, "p1", two)
    if source == CHARLIE:
        violated(seated, source, shown=True)
        assert says(seated.errors["p1"].message, "two_frames_one_place")
        return
    seated.pump(3)
    for name in EVERYBODY:
        error = seated.errors[name]
        assert isinstance(error, StateCopied)  # two processes with one state would do the same
        assert (error.copied, error.said_by, len(error.frames)) == (("p1",), "", 2)


def test_a_dropped_frame(seated: Wired) -> None:
    seated.say("p1")
    seated.links["p1"].sent.clear()
    seated.say("p1")
    violated(seated)


def test_a_replayed_hello(seated: Wired) -> None:
    seated.say("p1")
    seated.pump(1)
    hand(seated, "p1", seated.parties["p1"]._seating.hello)
    violated(seated)


@pytest.mark.parametrize("kind", ["refusal", "x", "Fields"])
def test_a_hello_of_another_type_is_its_senders_fault(wired: Wired, kind: str) -> None:
    """Charlie would put it into the roster, and every party would blame Charlie for it."""
    wired.join("p2", "p3", CHARLIE)
    p1 = wired.parties["p1"]
    body = hello_of(wired.world, "p1")
    hand(wired, "p1", p1._endpoint.seal(CHARLIE, "hello", body, type=kind))
    turned_away(wired)


def test_another_partys_frame(seated: Wired) -> None:
    seated.say("p2")
    hand(seated, "p1", seated.links["p2"].sent.pop())
    violated(seated)


def test_a_type_that_is_not_due(seated: Wired) -> None:
    seated.expect(CHARLIE, "Hi", ("p1", "p2"))
    seated.say("p1", kind="Bye")
    violated(seated)


@pytest.mark.parametrize("name", ["p1", CHARLIE])
def test_a_message_before_the_roster_is_a_bug_here_and_never_leaves(wired: Wired, name: str) -> None:
    """The test below has the effect of a peer's message there."""
    wired.join("p1", "p2")
    wired.say(name, to="p1" if name == CHARLIE else None)
    assert isinstance(error := wired.errors[name], LocalProtocolError)
    assert says(error.message, "tried_to_send", "'message'", "'heard'", "beat")


@pytest.mark.parametrize("kind", ["sealed", "message", "closed", "roster"])
def test_nothing_but_hellos_beats_and_aborts_before_the_roster(wired: Wired, kind: str) -> None:
    wired.join("p1", "p2")
    to = "p2" if kind == "sealed" else CHARLIE
    body = b"\x92\x01\xc4\x01x" if kind == "sealed" else b"\x80"
    frame = wired.parties["p1"]._endpoint.seal(CHARLIE, kind, body, type="Secret", to=to)  # type: ignore[arg-type]
    hand(wired, "p1", frame)
    turned_away(wired)


def test_a_bad_frame_before_the_roster_is_told_once_a_second(wired: Wired) -> None:
    told: list[bytes] = []
    tell = wired.link.tell

    def watch(route: bytes, data: bytes) -> bool:
        told.append(route)
        return tell(route, data)

    wired.link.tell = watch  # type: ignore[method-assign]
    for i in range(300):
        wired.link.inbox.append(Arrival("p1", b"connection %d" % (i // 3), b"garbage"))
        wired.pump(1, seconds=0.01)
    assert len(told) == len(set(told)) == 3
    wired.clock.now += 1
    wired.join()
    assert set(wired.answers) == set(EVERYBODY)


@pytest.mark.parametrize("kind", ["sealed", "message", "closed"])
def test_nothing_more_after_the_close(seated: Wired, kind: str) -> None:
    seated.finish("p1")
    to = "p2" if kind == "sealed" else CHARLIE
    body = b"\x92\x01\xc4\x01x" if kind == "sealed" else b"\x80"
    frame = seated.parties["p1"]._endpoint.seal(CHARLIE, kind, body, type="Secret", to=to)  # type: ignore[arg-type]
    seated.links["p1"].sent.append(frame)
    violated(seated, shown=kind == "closed")  # whose body is none; the others' may be right elsewhere


def test_a_beat_before_the_hello(wired: Wired) -> None:
    hand(wired, "p1", wired.parties["p1"]._endpoint.seal(CHARLIE, "beat", pack_beat(Beat(), EVERYBODY)))
    turned_away(wired)


def test_a_beat_of_another_run(wired: Wired) -> None:
    wired.join("p1", "p2")
    other = Endpoint("p1", bytes(16), wired.world.keys["p1"].signing, {CHARLIE: b""})
    hand(wired, "p1", other.seal(CHARLIE, "beat", pack_beat(Beat(), EVERYBODY)))
    turned_away(wired)


@pytest.mark.parametrize("kind", ["roster", "closed", "hello"])
def test_what_charlie_may_not_say_in_the_middle(seated: Wired, kind: str) -> None:
    """A second roster would exchange keys; a close would end a role that is not done."""
    endpoint = seated.charlie._endpoint
    hellos = tuple(h.hello for h in seated.charlie._hops.values() if h.hello)
    body = encode(roster_of(seated.world, hellos), "p1")
    match kind:
        case "hello":
            frame = endpoint.seal("p1", "hello", b"\x80")
        case "roster":
            frame = endpoint.broadcast("roster", body)
        case _:
            frame = endpoint.broadcast("closed", encode(AllClosed(closed=hellos), "p1"))
    seated.links["p1"].inbox.append(frame)
    seated.pump(1)
    assert says(seated.errors["p1"].message, "out_of_turn", "charlie", f"'{kind}'", "")
    violated(seated, CHARLIE, shown=None if kind == "roster" else True)


def test_messages_that_nobody_asked_for(seated: Wired) -> None:
    for _ in range(64):
        seated.say("p1")
    seated.pump(1)
    assert not seated.errors
    seated.say("p1")
    violated(seated)


def test_bytes_that_nobody_asked_for(seated: Wired) -> None:
    """Sixty-four frames of four megabytes would pin a quarter of a gigabyte."""
    for _ in range(4):
        seated.say("p1", bytes(4_000_000))
        seated.send_sealed("p1", "Secret", ("p2", "p3"), (b"x", b"y"))
    seated.pump(1)
    assert not seated.errors
    seated.say("p1", bytes(1_000_000))
    violated(seated)


@pytest.mark.parametrize("kind", ["roster", "closed"])
def test_a_kind_that_is_not_a_partys_to_send(seated: Wired, kind: str) -> None:
    p1 = seated.parties["p1"]
    body = encode(Closed(digest=bytes(32)), CHARLIE) if kind == "closed" else b"\x80"
    seated.links["p1"].sent.append(p1._endpoint.seal(CHARLIE, kind, body))  # type: ignore[arg-type]
    if kind == "closed":  # which is fine once, and nothing may come after
        seated.pump(1)
        seated.say("p1")
    violated(seated, shown=kind == "roster")


@pytest.mark.parametrize(
    ("blamed", "by"),
    [
        (b"\x10", b"\x01"),  # the fifth of four participants
        (b"\x00", b"\x01"),
        (b"\x01\x00", b"\x01"),
        (b"", b"\x01"),
        (b"\x01", b"\x00"),
        (b"\x01", b"\x03"),
        (b"\x01", b"\x10"),
    ],
)
def test_an_abort_that_blames_a_stranger_or_nobody_or_is_nobodys(seated: Wired, blamed: bytes, by: bytes) -> None:
    body = msgpack.packb({"reason": "left", "blamed": blamed, "by": by, "frames": ()})
    seated.links["p1"].sent.append(seated.parties["p1"]._endpoint.seal(CHARLIE, "abort", body))
    violated(seated, shown=True)


def test_a_party_blames_charlie_for_what_charlie_sends(seated: Wired) -> None:
    seated.links["p1"].inbox.append(SystemRng().bytes(100))
    violated(seated, CHARLIE)


def test_a_party_checks_whose_sealed_message_it_is(seated: Wired) -> None:
    """Charlie passes on a sealed message of somebody who is not in the study."""
    hop = seated.charlie._hops["p1"].endpoint
    seated.links["p1"].inbox.append(hop.seal("p1", "sealed", b"box", type="Secret", source="mallory"))
    violated(seated, CHARLIE, shown=True)


def test_a_party_that_finds_a_violation_tells_everybody(seated: Wired) -> None:
    """p1 opened a box that p2 alone can have made, and what is in it is wrong: nobody else can check it."""
    error = ProtocolViolation("p2 sent a Secret whose coin is out of bounds", peer="p2")
    seated.errors["p1"] = error
    seated.parties["p1"].abort(error)
    seated.pump(3)
    for name in ("p2", "p3", CHARLIE):
        word = seated.errors[name]
        assert isinstance(word, Reported)
        assert (word.said_by, word.accused, word.exit_code) == ("p1", ("p2",), 1)
    assert says(seated.errors["p2"].message, "accuses_this_participant", "p1", "p2")


# --- What an error proves -----------------------------------------------------------


def suspected(wired: Wired, source: str, finder: str) -> None:
    """Everybody ends, and nobody accuses ``source`` alone, nor Charlie alone."""
    wired.pump(3)
    assert set(wired.errors) == set(EVERYBODY)
    for name, error in wired.errors.items():
        if name == finder:
            assert isinstance(error, ProtocolViolation)
            assert (error.peer, error.suspects) == ("", (source, CHARLIE))
        else:
            assert isinstance(error, Reported)
            assert (error.said_by, error.accused) == (finder, (source, CHARLIE))
        assert f"{source} or {CHARLIE} sent" in error.message
        assert "cannot tell which" in error.message


def test_a_sealed_message_of_a_type_that_is_not_due_may_be_its_sources_fault_or_charlies(seated: Wired) -> None:
    """Charlie signed the header that p1 got; whether p2 wrote the same into its own, p1 cannot see."""
    seated.expect("p1", "Secret", ("p2",), sealed=True)
    seated.send_sealed("p2", "Other", ("p1",), (b"x",))
    suspected(seated, "p2", "p1")


def test_too_many_sealed_messages_may_be_their_sources_fault_or_charlies(seated: Wired) -> None:
    for _ in range(65):
        seated.send_sealed("p2", "Secret", ("p1",), (b"x",))
    suspected(seated, "p2", "p1")


def test_a_sealed_message_after_the_end_of_a_role_may_be_its_sources_fault_or_charlies(seated: Wired) -> None:
    seated.finish("p1")
    seated.send_sealed("p2", "Secret", ("p1",), (b"x",))
    seated.pump(2)
    error = seated.errors["p1"]
    assert isinstance(error, ProtocolViolation)
    assert (error.peer, error.suspects) == ("", ("p2", CHARLIE))


def test_a_sealed_message_before_the_roster_is_charlies_fault(wired: Wired) -> None:
    """No party can sealed message before it knows the others' keys, and Charlie would relay nothing."""
    wired.join("p1", "p2")
    hop = wired.charlie._hops["p1"].endpoint
    wired.links["p1"].inbox.append(hop.seal("p1", "sealed", b"box", type="Secret", source="p2"))
    wired.pump(1)
    error = wired.errors["p1"]
    assert isinstance(error, ProtocolViolation)
    assert (error.peer, error.suspects) == (CHARLIE, ())


def test_what_a_party_signed_is_proved_where_it_is_checked_and_said_by_charlie_elsewhere(seated: Wired) -> None:
    hand(seated, "p1", b"")
    violated(seated)
    said = {name: getattr(error, "said_by", "") for name, error in seated.errors.items()}
    assert said == {CHARLIE: "", "p1": CHARLIE, "p2": CHARLIE, "p3": CHARLIE}


def test_an_abort_names_all_suspects_and_no_stranger() -> None:
    either = ProtocolViolation("x", suspects=("p2", CHARLIE))
    assert abort_of(either, "p1", ("p1", "p2")).blamed == ("p2", CHARLIE)
    assert abort_of(ProtocolViolation("x", suspects=("mallory",)), "p1", ("p1", "p2")).blamed == ()


# --- Clocks -----------------------------------------------------------------------


def late(wired: Wired, names: tuple[str, ...], waited_for: tuple[str, ...]) -> None:
    for name in names:
        error = wired.errors[name]
        assert isinstance(error, DeadlinePassed), (name, error)
        assert error.waited_for == waited_for, name


def test_a_quiet_run_with_beats_goes_on_for_ever(seated: Wired) -> None:
    seated.pump(40, seconds=0.5)
    assert not seated.errors


def beats_after_hello(training: float) -> list[float]:
    """When p1's beats leave, counted from its hello, if it has trained for so many seconds."""
    wired = Wired(World.new(2, deadline=60.0, port=5555))
    left: list[tuple[float, str]] = []

    def watch(source: str, _to: str, data: bytes) -> tuple[bytes]:
        if source == "p1":
            left.append((wired.clock.now, unpack_strict(data[SIGNATURE_BYTES:], "")[4]))
        return (data,)

    wired.tamper = watch
    wired.pump(round(8 * training), seconds=0.125)  # the process looks at its clocks while its role trains
    wired.join("p1")
    wired.pump(80, seconds=0.125)
    hello = next(now for now, kind in left if kind == "hello")
    return [now - hello for now, kind in left if kind == "beat"]


@pytest.mark.parametrize("training", [0.0, 0.5, 1.375, 3.0])
def test_the_beats_do_not_tell_how_long_a_party_has_trained(training: float) -> None:
    beats = beats_after_hello(training)
    assert len(beats) >= 4
    assert beats == beats_after_hello(0.25)


def test_a_killed_party_is_named_by_all_within_the_deadline(seated: Wired) -> None:
    seated.parties["p2"].closed = True  # it takes no further step
    begun = seated.clock.now
    while not {"p1", "p3", CHARLIE} <= set(seated.errors):
        seated.pump(1, seconds=0.25)
        assert seated.clock.now - begun < 7  # the deadline, a step of Charlie's, and one of the others'
    late(seated, ("p1", "p3", CHARLIE), ("p2",))


def test_a_killed_charlie_is_named_by_all_within_the_deadline(seated: Wired) -> None:
    seated.charlie.closed = True
    begun = seated.clock.now
    while not {"p1", "p2", "p3"} <= set(seated.errors):
        seated.pump(1, seconds=0.25)
        assert seated.clock.now - begun < 7  # the deadline, a step of Charlie's, and one of the others'
    late(seated, ("p1", "p2", "p3"), (CHARLIE,))


def test_a_role_that_hangs_is_named_though_its_heart_beats(seated: Wired) -> None:
    """Charlie waits for p1, who waits for p2's sealed message: p2 it is."""
    seated.expect(CHARLIE, "Hi", ("p1", "p3"))
    seated.expect("p1", "Secret", ("p2",), sealed=True)
    seated.say("p3")
    seated.pump(34, seconds=0.25)
    late(seated, EVERYBODY, ("p2",))


def test_charlie_follows_who_waits_for_whom(seated: Wired) -> None:
    """He waits longest, and for p3 only; but p3 waits for p1, and p1 for p2."""
    seated.expect(CHARLIE, "Hi", ("p3",))
    seated.pump(12, seconds=0.25)
    seated.expect("p3", "Secret", ("p1",), sealed=True)
    seated.expect("p1", "Secret", ("p2",), sealed=True)
    seated.pump(20, seconds=0.25)
    late(seated, EVERYBODY, ("p2",))


def test_of_two_who_wait_for_each_other_none_is_named(seated: Wired) -> None:
    """A sealed message passes through Charlie's hands, and each of the two may say what it likes."""
    seated.expect("p1", "Secret", ("p2",), sealed=True)
    seated.expect("p2", "Secret", ("p1",), sealed=True)
    seated.pump(40, seconds=0.25)  # Charlie's role waits for nobody, so it is a party that gives up, after 7.5 s
    late(seated, EVERYBODY, ())


def claim(wired: Wired, source: str, *blamed: str) -> None:
    """Let somebody say that these did not answer in time."""
    body = pack_abort(Abort(reason="deadline", blamed=blamed, by=source), EVERYBODY)
    if source == CHARLIE:
        for name in NAMES:
            wired.links[name].inbox.append(wired.charlie._endpoint.seal(name, "abort", body))
    else:
        wired.links[source].sent.append(wired.parties[source]._endpoint.seal(CHARLIE, "abort", body))
    wired.pump(3)


def claimant_alone(error: MasqueradeError, claimant: str) -> None:
    """The claim is dropped, and whoever made it is named alone."""
    assert isinstance(error, ClaimRefuted)
    assert (error.said_by, error.accused, error.exit_code) == (claimant, (), 1)
    assert not any(name in error.message for name in EVERYBODY if name != claimant)


@pytest.mark.parametrize("blamed", ["p2", CHARLIE])
def test_a_claim_that_charlies_clock_refutes_names_whoever_makes_it_alone(seated: Wired, blamed: str) -> None:
    """Charlie's role waits for p3, but not for long: neither p3 nor the one whom p1 names is named."""
    seated.expect(CHARLIE, "Hi", ("p3",))
    seated.pump(2, seconds=0.25)
    claim(seated, "p1", blamed)
    claimant_alone(seated.errors[CHARLIE], "p1")
    for name in ("p2", "p3"):
        assert str(seated.errors[name]) == sentence("left_before_end", "p1")


def test_a_claim_late_in_the_run_is_refuted_by_what_the_party_said_itself(seated: Wired) -> None:
    seated.pump(40, seconds=0.25)
    seated.expect("p1", "Secret", ("p2",), sealed=True)
    seated.pump(8, seconds=0.25)
    claim(seated, "p1", "p2")
    claimant_alone(seated.errors[CHARLIE], "p1")


def test_a_claim_that_charlie_cannot_check_is_the_partys_word(seated: Wired) -> None:
    """Its beats say for as long as the deadline that it waits for Charlie, and it ends the run in its own name."""
    seated.expect("p1", "News", (CHARLIE,), broadcast=True)
    seated.pump(40, seconds=0.25)
    late(seated, EVERYBODY, (CHARLIE,))
    said = {name: getattr(error, "said_by", "") for name, error in seated.errors.items()}
    assert said == {"p1": "", "p2": "p1", "p3": "p1", CHARLIE: "p1"}


def test_charlie_who_was_started_again_does_not_refute_what_he_cannot_know(seated: Wired) -> None:
    seated.expect("p1", "News", (CHARLIE,), broadcast=True)
    seated.pump(20, seconds=0.25)
    for hop in seated.charlie._hops.values():
        hop.waits_for, hop.beaten = {}, False
    seated.charlie.steps.passed = 1
    seated.pump(20, seconds=0.25)
    late(seated, EVERYBODY, (CHARLIE,))


def test_a_party_refutes_charlies_claim_by_its_own_clock(seated: Wired) -> None:
    claim(seated, CHARLIE, "p3")
    for name in NAMES:
        claimant_alone(seated.errors[name], CHARLIE)


def test_a_party_that_owes_nothing_refutes_charlies_claim_and_for_others_it_is_his_word(seated: Wired) -> None:
    for name in NAMES:
        seated.expect(name, "News", (CHARLIE,), broadcast=True)
    seated.pump(20, seconds=0.25)
    claim(seated, CHARLIE, "p3")
    claimant_alone(seated.errors["p3"], CHARLIE)
    late(seated, ("p1", "p2"), ("p3",))
    assert isinstance(error := seated.errors["p1"], DeadlinePassed)
    assert error.said_by == CHARLIE


def test_a_party_that_computes_does_not_refute_that_it_is_late(seated: Wired) -> None:
    seated.pump(20, seconds=0.25)
    claim(seated, CHARLIE, "p3")
    late(seated, ("p3",), ("p3",))


def test_where_a_party_says_that_it_waits_for_another_nobody_is_named(seated: Wired) -> None:
    """Charlie waits for p2, p2 for a box of p1, and p1 for Charlie: p1 may have withheld the box, or p2 may lie."""
    seated.expect(CHARLIE, "Hi", ("p2",))
    seated.expect("p2", "Secret", ("p1",), sealed=True)
    seated.expect("p1", "News", (CHARLIE,), broadcast=True)
    seated.pump(36, seconds=0.25)
    late(seated, EVERYBODY, ())


def test_charlie_waits_anew_for_each_party_that_comes(wired: Wired) -> None:
    wired.join(CHARLIE)
    for name in ("p1", "p2", "p3"):
        wired.pump(16, seconds=0.25)
        wired.join(name)
    assert not wired.errors
    assert set(wired.answers) == set(EVERYBODY)


def test_nobody_is_blamed_for_the_time_this_process_slept(seated: Wired) -> None:
    seated.clock.now += 3600
    seated.pump(4, seconds=0.25)
    assert not seated.errors


@pytest.mark.parametrize("connection_event", [ConnectionEvent.DENIED, ConnectionEvent.FAILED, ConnectionEvent.FOREIGN])
def test_a_party_that_is_not_let_in_says_so_at_once(wired: Wired, connection_event: ConnectionEvent) -> None:
    wired.who_answers = {ConnectionEvent.FOREIGN: Answer.FOREIGN}.get(connection_event, Answer.OTHER_KEY)
    wired.links["p1"].events = [connection_event] * 3
    wired.join("p1")
    error = wired.errors["p1"]
    assert isinstance(error, CannotConnect)
    told = {ConnectionEvent.DENIED: "party_not_admitted", ConnectionEvent.FAILED: "server_with_another_key"}
    assert says(error.message, told.get(connection_event, "server_of_another_protocol"))


@pytest.mark.parametrize(
    ("broken", "answer"),
    [
        (ConnectionEvent.FAILED, Answer.FOREIGN),  # a proxy, say, and Charlie is not up yet
        (ConnectionEvent.FAILED, Answer.CHARLIE),  # he has too much to do
        (ConnectionEvent.FOREIGN, Answer.CHARLIE),
        (ConnectionEvent.FOREIGN, Answer.SILENT),
        (ConnectionEvent.UNREACHED, Answer.REFUSED),
    ],
)
def test_a_handshake_that_breaks_off_is_tried_again_where_nothing_is_wrong_for_good(
    wired: Wired, broken: ConnectionEvent, answer: Answer
) -> None:
    wired.who_answers = answer
    wired.links["p1"].events = [broken] * 10
    wired.join("p1")
    wired.pump(4, seconds=1.0)
    assert not wired.errors
    wired.links["p1"].events = [ConnectionEvent.CONNECTED]
    wired.join("p2", "p3", CHARLIE)
    assert wired.answers["p1"] == wired.answers[CHARLIE]


def test_charlie_unreachable(wired: Wired) -> None:
    wired.links["p1"].events = []
    wired.join("p1")
    wired.pump(8, seconds=0.9)
    error = wired.errors["p1"]
    assert isinstance(error, CannotConnect)
    assert wired.world.study.address in error.message


def test_a_mistyped_address_is_told_and_tried_again(wired: Wired) -> None:
    wired.links["p1"].events = [ConnectionEvent.UNRESOLVED]
    wired.join("p1")
    assert ("p1", "unresolved", {"address": wired.world.study.address}) in wired.events
    assert not wired.errors


def test_a_charlie_that_is_connected_and_mute(wired: Wired) -> None:
    wired.tamper = lambda source, _to, data: () if source == CHARLIE else (data,)
    wired.join("p1")
    for _ in range(8):
        wired.links["p1"].events += [ConnectionEvent.LOST]
        wired.pump(1, seconds=0.9)
    late(wired, ("p1",), (CHARLIE,))


# --- Ends -------------------------------------------------------------------------


def test_everybody_closes_when_all_are_done(seated: Wired) -> None:
    for name in (CHARLIE, "p1", "p2"):
        seated.finish(name)
    seated.pump(2)
    assert not any(session.closed for session in seated.sessions.values())
    seated.finish("p3")
    seated.pump(2)
    assert all(session.closed for session in seated.sessions.values())
    assert not seated.errors


def test_a_beat_that_was_under_way_when_charlie_closed_ends_nothing(seated: Wired) -> None:
    for name in (CHARLIE, "p1", "p2"):
        seated.finish(name)
    seated.pump(2)
    seated.finish("p3")
    beat = seated.parties["p1"]._seal(Turn.BEAT, pack_beat(Beat(), EVERYBODY))
    seated.links["p3"].sent, closed = [], seated.links["p3"].sent
    seated.link.inbox += [Arrival("p3", seated.routes["p3"], closed[0]), Arrival("p1", seated.routes["p1"], beat)]
    seated.pump(2)
    assert all(session.closed for session in seated.sessions.values())
    assert not seated.errors
    seated.charlie.abort(None)  # whoever was told the end is told no other
    assert not seated.link.sent


def test_a_party_that_breaks_down_is_named_and_its_error_stays_at_home(seated: Wired) -> None:
    seated.errors["p2"] = RunFailed("canary-canary")
    seated.parties["p2"].abort(seated.errors["p2"])
    assert all(b"canary" not in data for data in seated.links["p2"].sent)
    seated.pump(3)
    ends(seated, RunFailed)
    for name in ("p1", "p3", CHARLIE):
        assert seated.errors[name].message.startswith("p2 left")


def test_who_leaves_cannot_say_that_another_left(seated: Wired) -> None:
    abort = Abort(reason="left", blamed=("p2",), by="p2")
    seated.links["p1"].sent.append(seated.parties["p1"]._endpoint.seal(CHARLIE, "abort", pack_abort(abort, EVERYBODY)))
    violated(seated, shown=True)


def test_a_charlie_that_breaks_down_is_named(seated: Wired) -> None:
    seated.errors[CHARLIE] = RunFailed("")
    seated.charlie.abort(None)
    seated.pump(2)
    ends(seated, RunFailed)
    assert seated.errors["p1"].message.startswith("charlie left")


def test_a_replay_over_a_second_connection_is_a_process_that_is_turned_away(seated: Wired) -> None:
    seated.say("p1")
    copy = seated.links["p1"].sent[-1]
    seated.pump(1)
    seated.link.inbox.append(Arrival("p1", b"another", copy))
    seated.pump(2)
    assert (CHARLIE, "turned_away", {"party": "p1", "reason": "broken"}) in seated.events
    seated.say("p1")
    seated.pump(8, seconds=1.0)
    assert not seated.errors


# --- The rest ---------------------------------------------------------------------


def test_stages_count_what_passes_and_beats_apart(seated: Wired) -> None:
    seated.begin(CHARLIE, Stage("one"))
    seated.say("p1", b"x" * 1000)
    seated.pump(2)
    seated.begin(CHARLIE, Stage("two"))
    seated.pump(4, seconds=1.0)
    joining, one, two = seated.charlie.stats.stages
    assert (joining.name, joining.messages) == ("joining", 6)
    assert (one.messages, 1000 < one.bytes < 1300) == (1, True)
    assert (two.messages, two.bytes) == (0, 0)
    assert seated.charlie.stats.beats >= 12


def test_a_release_is_debited_before_the_next_message_is_put_on_the_wire(seated: Wired) -> None:
    class Noted(NoDebits):
        def debit(self, run: bytes, releases: Sequence[Release]) -> None:
            debited.append((run, tuple(releases), len(seated.links["p1"].sent)))

    debited: list[tuple[bytes, tuple[Release, ...], int]] = []
    p1 = seated.parties["p1"]
    p1._commits._debits = Noted()
    before = len(seated.links["p1"].sent)
    first, second = Release("round 0", 1.0, 0.0), Release("round 1", 0.5, 1e-6, 0.25)
    seated.begin("p1", first)
    seated.begin("p1", second)
    assert (debited, p1.releases) == ([], [])
    seated.say("p1", b"x")
    assert debited == [(p1.run, (first, second), before)]
    assert p1.releases == [first, second]
    seated.say("p1", b"y")
    assert len(debited) == 1


def test_where_a_debit_is_refused_nothing_is_put_on_the_wire(seated: Wired) -> None:
    class Empty(NoDebits):
        def debit(self, run: bytes, releases: Sequence[Release]) -> None:
            raise BudgetExceeded("nothing is left")

    p1 = seated.parties["p1"]
    p1._commits._debits = Empty()
    p1.begin(Release("round 0", 1.0, 0.0))
    before = len(seated.links["p1"].sent)
    with pytest.raises(BudgetExceeded):
        p1.begin(Send("message", "Hi", (CHARLIE,), (b"x",)))
    assert (len(seated.links["p1"].sent), p1.releases) == (before, [])


def test_a_long_stage_tells_how_far_it_is_but_not_at_every_round(seated: Wired) -> None:
    for done in range(1, 101):
        seated.begin("p1", Progress(done, 100, (0.5, done / 7)))
        assert seated.answers["p1"] is None
        seated.clock.now += 0.01
    told = [fields for who, event, fields in seated.events if (who, event) == ("p1", "progress")]
    assert told[0] == {"done": 1, "total": 100}
    assert told[-1] == {"done": 100, "total": 100}
    assert len(told) == 3
    assert len(seated.parties["p1"].iterates) == 100


def test_strangers_are_reported(wired: Wired) -> None:
    wired.link.strangers = 2
    wired.pump(1)
    assert (CHARLIE, "stranger", {"count": 2}) in wired.events


def test_beats_say_whom_the_role_waits_for(seated: Wired) -> None:
    seated.expect("p1", "Secret", ("p2", "p3"), sealed=True)
    seated.pump(2, seconds=1.0)
    assert seated.charlie._hops["p1"].waits_for.keys() == {"p2", "p3"}


@pytest.mark.parametrize("K", [2, 7, 8, 1024])
def test_beats_and_aborts_are_as_long_whomever_they_name(K: int) -> None:
    everybody = (*(f"p{j}" * (j % 9 + 1) for j in range(K)), CHARLIE)
    several = [(), everybody[:1], everybody[-2:], everybody]
    said = [Beat(names, i**5 * 10**6, i * 10**9) for i, names in enumerate(several)]
    beats = [pack_beat(beat, everybody) for beat in said]
    assert [read_beat(body, everybody, "p1") for body in beats] == said
    assert len({len(body) for body in beats}) == 1
    aborts = [Abort("violation", names, by) for names in several for by in everybody[:3]]
    bodies = [pack_abort(abort, everybody) for abort in aborts]
    assert [read_abort(body, everybody, "p1") for body in bodies] == aborts
    assert len({len(body) for body in bodies}) == 1


def test_a_box_key_of_small_order_is_refused(wired: Wired) -> None:
    wired.join("p2", "p3", CHARLIE)
    hello = b"\x84\xa7version\xa51.2.3\xa7box_key\xc4\x20" + bytes(32) + b"\xa5nonce\xc4\x10" + bytes(16)
    hello += b"\xa5proof\xc4\x40" + bytes(64)
    p1 = wired.parties["p1"]
    wired.links["p1"].sent.append(p1._endpoint.seal(CHARLIE, "hello", hello))
    turned_away(wired)


def test_a_join_is_an_effect_of_a_role(wired: Wired) -> None:
    assert wired.charlie.missing() == ()
    wired.begin(CHARLIE, joining(CHARLIE))
    assert CHARLIE not in wired.answers

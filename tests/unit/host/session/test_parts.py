"""Each part of a session by itself: without a socket, and without the other parts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from masquerade_core.errors import (
    BudgetExceeded,
    DeadlinePassed,
    LocalProtocolError,
    ProtocolViolation,
    RunFailed,
    StateCopied,
)
from masquerade_core.seat import Forecast, Receive, Release
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Endpoint, Frame, run_id
from masquerade_host.channel import Channel, first_connection
from masquerade_host.process.progress import Stats, quiet
from masquerade_host.session.admission import Admission
from masquerade_host.session.agreement import ANSWER, Ask, ResumeBarrier, Standing, Standings, padded
from masquerade_host.session.commits import Commits
from masquerade_host.session.hop import Hops
from masquerade_host.session.lateness import Lateness
from masquerade_host.session.messages import Beat, Refusal, pack_beat
from masquerade_host.session.party import Seating
from masquerade_host.session.session import Allowance, Awaited, Inbox
from masquerade_host.session.states import JoinState, Turn
from masquerade_host.store.transcript import BroadcastLog, Recorder
from masquerade_host.transport.interface import Arrival
from tests.host_helpers import VERSION, World
from tests.wired import Clock, FakeCharlieLink, hello_of, roster_of

NAMES = ("p1", "p2", "p3")
EVERYBODY = (*NAMES, CHARLIE)
RELEASE = Release("round 0", 1.0, 0.0)


@pytest.fixture(name="world")
def a_world() -> World:
    return World.new(3)


def said_by(world: World, name: str) -> bytes:
    """A party's hello as it signed it."""
    endpoint = Endpoint(name, _study_id(world.study), world.keys[name].signing, {})
    return endpoint.seal(CHARLIE, "hello", hello_of(world, name))


def _study_id(study: Study) -> bytes:
    return study.study_id(VERSION)


# --- Channel --------------------------------------------------------------------------


class Wire:
    """A channel, and the frames that leave it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.channel = Channel("p1", self.sent.append)

    def left(self) -> list[bytes]:
        sent = self.sent[:]
        self.sent.clear()
        return sent


def test_a_channel_sends_nothing_before_the_other_end_has_spoken_and_then_all_that_it_lacks() -> None:
    wire = Wire()
    for frame in (b"1", b"2", b"3"):
        wire.channel.put(frame)
    wire.channel.flush()
    assert wire.left() == []
    wire.channel.hear(1)
    wire.channel.flush()
    assert wire.left() == [b"2", b"3"]
    wire.channel.break_off()
    wire.channel.put(b"4")
    wire.channel.flush()
    assert wire.left() == []
    wire.channel.hear(2)
    wire.channel.flush()
    assert wire.left() == [b"3", b"4"]
    assert (wire.channel.acknowledged, wire.channel.sent, wire.channel.kept) == (2, 4, 2)


def test_a_channel_acknowledges_what_is_safe_alone() -> None:
    channel = Wire().channel
    channel.take(b"1")
    assert channel.say() == 0
    channel.commit()
    assert channel.say() == 1


def test_a_channel_refuses_an_acknowledgement_of_what_was_not_sent_and_one_that_was_taken_back() -> None:
    channel = Wire().channel
    channel.put(b"1")
    with pytest.raises(ProtocolViolation) as caught:
        channel.hear(2)
    assert caught.value.peer == "p1"
    channel.hear(1)
    with pytest.raises(StateCopied) as copied:
        channel.hear(0)
    assert copied.value.copied == ("p1",)


# --- Commits --------------------------------------------------------------------------


class Ledger:
    """Notes what is debited, or refuses."""

    def __init__(self, log: list[str], *, empty: bool = False) -> None:
        self.log, self.empty = log, empty

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        assert run == b"run"
        if self.empty:
            raise BudgetExceeded("nothing is left")
        self.log.append("debit " + ",".join(release.label for release in releases))

    def labels(self, _run: bytes) -> frozenset[str]:
        return frozenset({"round 0", "round 7"})


def _commits(log: list[str], *, empty: bool = False) -> tuple[Commits, Channel]:
    commits = Commits("p1", Stats(lambda: 0.0, quiet), Recorder("p1", NAMES), Ledger(log, empty=empty))
    commits.steps.commit = lambda: log.append("commit")  # type: ignore[method-assign]
    channel = Channel(CHARLIE, lambda data: log.append(f"send {data.decode()}"))
    channel.hear(0)
    return commits, channel


def test_a_frame_leaves_after_the_journal_is_committed_and_its_release_is_paid_for() -> None:
    log: list[str] = []
    commits, channel = _commits(log)
    commits.owe([RELEASE])
    commits.put(channel, b"sum")
    assert log == []
    commits.post(b"run")
    assert log == ["commit", "debit round 0", "send sum"]
    assert [release.label for release in commits.releases] == ["round 0"]
    commits.post(b"run")
    assert len(log) == 3


def test_a_frame_does_not_leave_if_its_release_cannot_be_paid_for() -> None:
    log: list[str] = []
    commits, channel = _commits(log, empty=True)
    commits.owe([RELEASE])
    commits.put(channel, b"sum")
    with pytest.raises(BudgetExceeded):
        commits.post(b"run")
    assert log == ["commit"]
    assert commits.releases == []


def test_a_journal_that_lacks_a_debit_of_the_ledger_is_an_older_copy() -> None:
    commits, _ = _commits([])
    commits.owe([RELEASE])
    with pytest.raises(RunFailed) as caught:
        commits.check_ledger(b"run")
    assert "'round 7'" in str(caught.value)


# --- Inbox and pending receives ----------------------------------------------------------


def _frame(world: World, source: str, type: str = "Hi") -> Frame:  # noqa: A002 - the header's own word
    signers = {party.name: party.key.sign for party in world.study.parties}
    there = Endpoint(source, bytes(16), world.keys[source].signing, {CHARLIE: world.study.curator.key.sign})
    here = Endpoint(CHARLIE, bytes(16), world.keys[CHARLIE].signing, signers)
    return here.open(source, there.seal(CHARLIE, "message", b"", type=type), numbered=False)


def test_an_inbox_holds_so_many_frames_of_one_source_and_no_more(world: World) -> None:
    inbox, frame = Inbox(CHARLIE), _frame(world, "p1")
    for _ in range(64):
        inbox.put(frame, 0.0)
    with pytest.raises(ProtocolViolation) as caught:
        inbox.put(frame, 0.0)
    assert caught.value.peer == "p1"


def test_a_pending_receive_knows_who_is_missing_in_the_order_of_the_question(world: World) -> None:
    inbox = Inbox(CHARLIE)
    awaited = Awaited(inbox)
    inbox.put(_frame(world, "p2"), 0.0)
    awaited.begin(Receive("message", "Hi", ("p3", "p2", "p1")))
    assert awaited.in_order() == ("p3", "p1")
    assert [frame.source for frame in awaited.new()] == ["p2"]
    late = _frame(world, "p3")
    inbox.put(late, 1.0)
    assert awaited.came(late)
    assert awaited.in_order() == ("p1",)
    awaited.end()
    assert awaited.in_order() == ()


# --- Resume barrier -------------------------------------------------------------------


class Restarted:
    """A barrier of p1, and what it says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.told = BroadcastLog()
        self.said: list[tuple[str, bytes]] = []
        self.sent: list[str] = []
        self.barrier = ResumeBarrier("p1", world.study, self.told, lambda type_, body: self.said.append((type_, body)))

    def let_out(self) -> list[str]:
        for send in self.barrier.let_out():
            send()
        sent, self.sent = self.sent, []
        return sent

    def answer(self, name: str, nonce: bytes, told: BroadcastLog) -> bool:
        """Let Charlie pass on what a party says of itself."""
        keys, study = self.world.keys, self.world.study
        charlies = {CHARLIE: study.curator.key.sign}
        standing = Standing.of(Ask(asker=padded("p1"), nonce=nonce), told.chain)
        signed = Endpoint(name, bytes(16), keys[name].signing, charlies).seal(
            CHARLIE, "standing", encode(standing, CHARLIE), type=ANSWER
        )
        body = encode(Standings(party=padded(name), signed=signed), "p1")
        data = Endpoint(CHARLIE, bytes(16), keys[CHARLIE].signing, {}).seal("p1", "standing", body, type=ANSWER)
        frame = Endpoint("p1", bytes(16), keys["p1"].signing, charlies).open(CHARLIE, data, numbered=False)
        signers = {party.name: party.key.sign for party in study.parties}
        return self.barrier.hear(frame, Endpoint(CHARLIE, bytes(16), keys["p1"].signing, signers))


def test_what_is_new_waits_until_all_others_have_said_where_they_stand(world: World) -> None:
    play, nonce = Restarted(world), b"n" * 16
    play.barrier.resumed(("p2", "p3"), nonce, 0.0)
    play.barrier.hold(lambda: play.sent.append("sum"), waiting=0)
    play.barrier.ask(1.0)
    assert [type_ for type_, _ in play.said] == ["ask"]
    assert play.let_out() == []
    assert play.answer("p2", nonce, play.told)
    assert play.answer("p3", b"o" * 16, play.told)
    assert play.let_out() == []  # the answer of p3 is to an older question
    assert play.answer("p3", nonce, play.told)
    assert play.let_out() == ["sum"]


def test_what_another_party_knows_to_have_followed_is_not_sent_again(world: World) -> None:
    play, nonce, ahead = Restarted(world), b"n" * 16, BroadcastLog()
    ahead.add(b"a broadcast")
    play.barrier.resumed(("p2",), nonce, 0.0)
    play.barrier.hold(lambda: play.sent.append("sum"), waiting=0)
    play.answer("p2", nonce, ahead)
    with pytest.raises(StateCopied) as caught:
        play.let_out()
    assert caught.value.copied == ("p1",)
    assert play.sent == []


def test_a_party_that_nobody_answers_says_who_is_silent(world: World) -> None:
    play = Restarted(world)
    play.barrier.resumed(("p2", "p3"), b"n" * 16, 0.0)
    with pytest.raises(DeadlinePassed) as caught:
        play.barrier.ask(0.81 * world.study.study.deadline_seconds)
    assert caught.value.waited_for == ("p2", "p3")


# --- Seating --------------------------------------------------------------------------


def test_a_party_takes_its_seat_by_a_roster_of_sound_hellos_and_no_other(world: World) -> None:
    hellos = [said_by(world, name) for name in NAMES]
    body = encode(roster_of(world, hellos), CHARLIE)
    seating = Seating("p1", world.study, _study_id(world.study), world.keys["p1"].signing)
    seating.hello = hellos[0]
    assert seating.take_roster(body) == run_id(_study_id(world.study), body)
    assert [name for name, _ in seating.keys] == [*NAMES, CHARLIE]
    other = Seating("p1", world.study, _study_id(world.study), world.keys["p1"].signing)
    other.hello = said_by(world, "p1")
    with pytest.raises(ProtocolViolation) as caught:
        other.take_roster(body)  # with a hello of p1 that this process did not send
    assert caught.value.peer == CHARLIE
    with pytest.raises(LocalProtocolError):
        other.take_hellos(None)  # type: ignore[arg-type]


# --- Admission ------------------------------------------------------------------------


class Door:
    """Charlie's admission with a link that goes nowhere."""

    def __init__(self, world: World) -> None:
        study, self.world, self.clock = world.study, world, Clock()
        signers = {party.name: party.key.sign for party in study.parties}
        self.endpoint = Endpoint(CHARLIE, _study_id(study), world.keys[CHARLIE].signing, signers)
        self.hops = Hops(study.names, self.endpoint)
        self.link = self.hops.link = FakeCharlieLink()
        self.came: list[bool] = []
        stats = Stats(self.clock, quiet)
        self.admission = Admission(
            study,
            VERSION,
            self.hops,
            self.endpoint,
            Commits(CHARLIE, stats, Recorder(CHARLIE, study.names)),
            stats,
            quiet,
            self.clock,
            beat_every=2.0,
            beat_for=lambda _channel: pack_beat(Beat(), EVERYBODY),
            came=self.came.append,
        )

    def admit(self, name: str, route: bytes, data: bytes) -> Any:
        return self.admission.admit(self.hops[name], Arrival(name, route, data), self.clock())

    def refusals(self, route: bytes) -> list[str]:
        """Return the reasons with which a connection was refused."""
        party = Endpoint(
            "p1", self.endpoint.run, self.world.keys["p1"].signing, {CHARLIE: self.world.study.curator.key.sign}
        )
        frames = [party.open(CHARLIE, data, any_run=True, numbered=False) for at, data in self.link.told if at == route]
        return [decode(Refusal, frame.body, CHARLIE).reason for frame in frames if frame.type == "refusal"]


def test_admission_counts_each_party_that_says_hello_and_names_those_who_do_not_come(world: World) -> None:
    door = Door(world)
    for name in ("p1", "p3"):
        assert door.admit(name, b"route of " + name.encode(), said_by(world, name)) is None
    assert door.came == [True, True]
    assert not door.admission.complete(lambda: None)
    door.clock.now += world.study.study.deadline_seconds + 1
    with pytest.raises(DeadlinePassed) as caught:
        door.admission.look_who_is_absent(door.clock())
    assert caught.value.waited_for == ("p2",)


def test_admission_counts_on_nobody_whose_connection_is_gone(world: World) -> None:
    door = Door(world)
    for name in NAMES:
        door.admit(name, name.encode(), said_by(world, name))
    assert door.admission.complete(lambda: None)
    door.link.gone.add("p2")
    assert not door.admission.complete(lambda: None)
    assert door.hops["p2"].state is JoinState.AWAY
    door.hops["p3"].heard += 3.0
    door.clock.now += 10.0
    door.admission.look_who_is_away(door.clock(), 9.0)
    assert [hop.name for hop in door.hops.joined] == ["p3"]


def test_admission_refuses_another_study_and_says_where_it_differs(world: World) -> None:
    door = Door(world)
    other = World(world.changed("deadline_seconds = 600.0", "deadline_seconds = 500.0"), world.keys)
    assert door.admit("p1", b"route", said_by(other, "p1")) is None
    assert door.refusals(b"route") == ["differs"]
    assert door.came == []


def test_admission_refuses_a_frame_before_the_roster_and_a_second_process_after_it(world: World) -> None:
    door = Door(world)
    hello = said_by(world, "p1")
    door.admit("p1", b"first", hello)
    signers = {CHARLIE: world.study.curator.key.sign}
    party = Endpoint("p1", door.endpoint.run, world.keys["p1"].signing, signers)
    with pytest.raises(ProtocolViolation) as caught:
        door.admit("p1", b"first", party.seal(CHARLIE, "message", b"", type="Hi"))
    assert caught.value.peer == "p1"
    door.hops["p1"].say(Turn.ROSTER)
    door.hops["p1"].channel.take(b"a frame of the run")
    assert door.admit("p1", b"second", said_by(world, "p1")) is None
    assert door.refusals(b"second") == ["begun"]
    assert door.hops["p1"].route == b"first"


def test_another_process_takes_a_seat_only_if_the_seated_one_does_not_answer(world: World) -> None:
    door = Door(world)
    hop = door.hops["p1"]
    door.admit("p1", b"first", said_by(world, "p1"))
    hop.say(Turn.ROSTER)
    hop.channel.connection = first_connection()
    run = door.endpoint.run
    party = Endpoint("p1", run, world.keys["p1"].signing, {})
    beat = party.seal(CHARLIE, "beat", pack_beat(Beat(connection=first_connection()), EVERYBODY))
    assert door.admit("p1", b"second", beat) is None
    assert hop.contest is not None
    assert list(door.admission.settled(door.clock())) == []
    door.clock.now += 6.0
    (again,) = door.admission.settled(door.clock())
    assert again.route == b"second"
    frame = door.admit("p1", again.route, again.data or b"")
    assert frame.kind == "beat"
    assert hop.route == b"second"


# --- Lateness -------------------------------------------------------------------------


class Silence:
    """Three hops, of which some wait for others, 100 seconds after the last that came."""

    def __init__(self, world: World, waits: dict[str, Collection[str]]) -> None:
        signers = {party.name: party.key.sign for party in world.study.parties}
        endpoint = Endpoint(CHARLIE, bytes(16), world.keys[CHARLIE].signing, signers)
        self.hops = Hops(NAMES, endpoint)
        self.lateness = Lateness(self.hops, Allowance(50.0, Forecast()))
        for name, others in waits.items():
            self.hops[name].hear_waits(others, 0.0)

    def named(self, *missing: str, now: float = 100.0) -> tuple[str, ...]:
        return self.lateness.find(missing, missing, 0.0, now)[1]


@pytest.mark.parametrize(
    ("waits", "named"),
    [
        ({}, ("p1",)),
        ({"p1": ("p2",)}, ("p2",)),  # who waits for another one may be right
        ({"p1": ("p2",), "p2": ("p1",)}, ()),  # a circle names nobody
        ({"p1": (CHARLIE,)}, ("p1",)),  # and Charlie's role waits for it
    ],
)
def test_a_party_is_named_if_everything_leads_to_it(
    world: World, waits: dict[str, Collection[str]], named: tuple[str, ...]
) -> None:
    assert Silence(world, waits).named("p1") == named


def test_nobody_is_late_in_time_and_a_party_that_moved_is_not() -> None:
    silence = Silence(World.new(3), {})
    assert silence.named("p1", now=49.0) == ()
    silence.hops["p1"].moved = 60.0
    assert silence.named("p1") == ()
    assert silence.named("p2") == ("p2",)

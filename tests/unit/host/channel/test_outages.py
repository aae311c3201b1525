"""Outages: a session outlives its connections, and only silence for the study's whole deadline ends a run."""

from collections.abc import Callable

import pytest

from masquerade_core.errors import (
    CannotConnect,
    DeadlinePassed,
    MasqueradeError,
    ProtocolViolation,
    Reported,
    RunFailed,
    StateCopied,
)
from masquerade_core.study import CHARLIE
from masquerade_core.wire.faults import Judge
from masquerade_host.channel import CONNECTIONS, MAX_KEPT, Channel, first_connection
from masquerade_host.session.messages import Beat, pack_beat, read_beat
from masquerade_host.session.states import Turn
from masquerade_host.transport.interface import Arrival
from tests.host_helpers import World
from tests.messages import says
from tests.wired import Wired

NAMES = ("p1", "p2", "p3")
EVERYBODY = (*NAMES, CHARLIE)


def seated(deadline: float = 600.0) -> Wired:
    """Three parties and Charlie, who have joined."""
    wired = Wired(World.new(3, deadline=deadline, port=5555))
    wired.join()
    assert set(wired.answers) == set(EVERYBODY)
    return wired


def unplug(wired: Wired, name: str) -> None:
    """From here on no connection of this party lives, and none is made."""
    wired.cut(name)
    wired.links[name].reachable = False


def plug_in(wired: Wired, name: str) -> None:
    """The next connection that the party tries is made."""
    wired.links[name].reachable = True


def all_close(wired: Wired) -> None:
    for name in EVERYBODY:
        wired.finish(name)
    wired.pump(8, seconds=1.0)
    assert not wired.errors
    assert all(session.closed for session in wired.sessions.values())


# --- A connection that breaks ---------------------------------------------------------


@pytest.mark.parametrize("lost", ["nothing", "to Charlie", "from Charlie", "both"])
def test_what_was_under_way_when_a_connection_broke_is_sent_again(lost: str) -> None:
    wired = seated()
    if lost in ("to Charlie", "both"):
        wired.say("p1", b"one")
        wired.send_sealed("p1", "Secret", ("p2",), (b"box",))
    if lost in ("from Charlie", "both"):
        wired.say(CHARLIE, b"two", to="p1")
        wired.tell_all(b"news")
    wired.cut("p1")
    if lost in ("nothing", "from Charlie"):
        wired.say("p1", b"one")
        wired.send_sealed("p1", "Secret", ("p2",), (b"box",))
    if lost in ("nothing", "to Charlie"):
        wired.say(CHARLIE, b"two", to="p1")
        wired.tell_all(b"news")
    wired.pump(6, seconds=0.25)
    wired.expect(CHARLIE, "Hi", ("p1",))
    wired.expect("p2", "Secret", ("p1",), sealed=True)
    wired.expect("p1", "Hi", (CHARLIE,))
    assert [wired.answers[name] for name in (CHARLIE, "p2", "p1")] == [(b"one",), (b"box",), (b"two",)]
    for name in NAMES:
        wired.expect(name, "News", (CHARLIE,), broadcast=True)
        assert wired.answers[name] == (b"news",)
    assert wired.links["p1"].reopened == 1
    all_close(wired)


def test_a_beat_that_is_read_after_its_connection_was_lost_lets_nothing_out_on_the_next_one() -> None:
    wired, beats = seated(), list[bytes]()

    def watch(source: str, to: str, data: bytes) -> tuple[bytes]:
        if (source, to) == (CHARLIE, "p1") and b"beat" in data:
            beats.append(data)
        return (data,)

    wired.tamper = watch
    wired.pump(8, seconds=1.0)
    wired.say("p1", b"one")
    wired.cut("p1")  # "one" is lost on the way
    wired.links["p1"].inbox.append(beats[-1])
    while not wired.links["p1"].reopened:
        wired.pump(1, seconds=0.05)
    wired.pump(1)  # the party says its beat of the new connection
    wired.say("p1", b"two")
    wired.pump(8, seconds=0.25)
    assert not wired.errors
    for body in (b"one", b"two"):
        wired.expect(CHARLIE, "Hi", ("p1",))
        assert wired.answers[CHARLIE] == (body,)


def test_a_beat_that_is_read_after_its_connection_was_lost_is_no_answer_to_the_next_hello() -> None:
    """Before the roster, a party says hello on each connection until it is answered there."""
    wired, beats = Wired(World.new(3, port=5555)), list[bytes]()

    def watch(source: str, to: str, data: bytes) -> tuple[bytes]:
        if (source, to) == (CHARLIE, "p1") and b"beat" in data:
            beats.append(data)
        return (data,)

    wired.tamper = watch
    wired.join("p1", CHARLIE)
    wired.cut("p1")
    wired.links["p1"].inbox.append(beats[-1])
    while not wired.links["p1"].reopened:
        wired.pump(1, seconds=0.05)
    wired.join("p2", "p3")
    wired.pump(8, seconds=1.0)
    assert set(wired.answers) == set(EVERYBODY)
    all_close(wired)


def test_a_frame_that_arrived_is_not_sent_again() -> None:
    """The beats of the new connection say what each end holds, so nothing comes twice."""
    wired, seen = seated(), list[bytes]()

    def watch(_source: str, _to: str, data: bytes) -> tuple[bytes]:
        seen.append(data)
        return (data,)

    wired.tamper = watch
    for body in (b"1", b"2"):
        wired.say("p1", body)
        wired.say(CHARLIE, body, to="p1")
    wired.pump(2)
    wired.cut("p1")
    wired.pump(6, seconds=0.25)
    all_close(wired)
    assert len([data for data in seen if b"message" in data]) == 4


def test_a_connection_that_breaks_again_and_again_delays_only() -> None:
    wired = seated(60.0)
    for i in range(40):
        wired.say("p1", b"%d" % i)
        wired.say(CHARLIE, b"%d" % i, to="p1")
        if i % 2:
            wired.cut("p1")
        wired.pump(i % 5, seconds=0.25)
    wired.pump(20, seconds=0.25)
    for i in range(40):
        wired.expect(CHARLIE, "Hi", ("p1",))
        wired.expect("p1", "Hi", (CHARLIE,))
        assert wired.answers[CHARLIE] == wired.answers["p1"] == (b"%d" % i,)
    all_close(wired)


def test_a_roster_that_was_lost_with_its_connection_comes_again() -> None:
    wired = Wired(World.new(3, deadline=60.0, port=5555))
    wired.join("p1", "p2", CHARLIE)
    wired.tamper = lambda _source, to, data: () if to == "p1" else (data,)
    wired.join("p3")
    assert "p1" not in wired.answers
    assert wired.answers["p2"] == wired.answers[CHARLIE]
    wired.tamper = lambda _source, _to, data: (data,)
    wired.cut("p1")
    wired.pump(8, seconds=0.25)
    assert wired.answers["p1"] == wired.answers[CHARLIE]
    all_close(wired)


# --- Partitions -----------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [5, 30, 480])
@pytest.mark.parametrize("who", [("p1",), NAMES], ids=["one party", "all parties"])
def test_a_partition_delays_a_run_and_nothing_else(seconds: int, who: tuple[str, ...]) -> None:
    """480 seconds are 0.8 of the deadline. All roles wait, directly or not, for what p1 sends."""
    wired = seated(600.0)
    for name in who:
        unplug(wired, name)
    wired.say("p1")
    for name in NAMES:
        wired.expect(name, "News", (CHARLIE,), broadcast=True)
    wired.expect(CHARLIE, "Hi", ("p1",))
    wired.pump(2 * seconds, seconds=0.5)
    assert wired.answers[CHARLIE] != (b"hello",)
    for name in who:
        plug_in(wired, name)
    wired.pump(12, seconds=0.5)
    assert wired.answers[CHARLIE] == (b"hello",)
    wired.tell_all(b"sum")
    wired.pump(2)
    assert [wired.answers[name] for name in NAMES] == [(b"sum",)] * 3
    assert not wired.errors
    all_close(wired)


def test_a_partition_as_long_as_the_deadline_ends_the_run_and_names_who_is_gone() -> None:
    wired = seated(60.0)
    unplug(wired, "p1")
    wired.pump(140, seconds=0.5)
    for name in ("p2", "p3", CHARLIE):
        assert isinstance(error := wired.errors[name], DeadlinePassed)
        assert error.waited_for == ("p1",)
    assert isinstance(error := wired.errors["p1"], DeadlinePassed)
    assert error.waited_for == (CHARLIE,)
    assert says(error.message, "connection_lost")


def test_charlie_gives_up_before_a_party_does() -> None:
    """p1 waits for p2, which is gone. Charlie, who knows that, says it before p1's own patience ends."""
    wired = seated(60.0)
    wired.expect("p1", "Secret", ("p2",), sealed=True)
    wired.expect("p3", "News", (CHARLIE,), broadcast=True)
    wired.parties["p2"].closed = True
    wired.pump(130, seconds=0.5)
    for name in ("p1", "p3", CHARLIE):
        assert isinstance(error := wired.errors[name], DeadlinePassed)
        assert error.waited_for == ("p2",)
    assert (wired.charlie.allowance.frame, wired.charlie.allowance.of_charlie) == (60, 75)


# --- The end --------------------------------------------------------------------------


def test_a_party_that_lost_its_connection_before_the_closing_gets_it_afterwards() -> None:
    wired = seated(60.0)
    for name in ("p1", "p2", CHARLIE):
        wired.finish(name)
    wired.pump(2)
    wired.finish("p3")
    unplug(wired, "p1")
    wired.pump(40, seconds=1.0)
    assert {name for name, session in wired.sessions.items() if session.closed} == {"p2", "p3"}
    assert wired.charlie.over
    plug_in(wired, "p1")
    wired.pump(8, seconds=1.0)
    assert all(session.closed for session in wired.sessions.values())
    assert not wired.errors


def test_charlie_waits_for_the_last_acknowledgement_no_longer_than_the_deadline() -> None:
    wired = seated(60.0)
    wired.tamper = lambda source, _to, data: () if source == "p1" and wired.parties["p1"].closed else (data,)
    for name in EVERYBODY:
        wired.finish(name)
    wired.pump(3)
    wired.link.sent.clear()
    assert all(wired.parties[name].closed for name in NAMES)
    wired.pump(2, seconds=1.0)
    assert "unconfirmed" not in wired.seen(CHARLIE)  # it mostly takes a moment
    wired.pump(56, seconds=1.0)
    assert not wired.charlie.closed
    said = [fields for who, event, fields in wired.events if (who, event) == (CHARLIE, "unconfirmed")]
    assert [fields["waited_for"] for fields in said] == ["p1", "p1"]
    assert 50 <= said[0]["left"] <= 60
    assert said[0]["left"] - said[1]["left"] == pytest.approx(30, abs=1)
    wired.pump(4, seconds=1.0)
    assert wired.sessions[CHARLIE].closed
    assert not wired.errors


def test_a_party_that_ends_while_charlie_awaits_acknowledgements_ends_nothing() -> None:
    """Its abort was under way when he closed: he does not wait for it, and has no other result for it."""
    wired = seated(60.0)
    wired.tamper = lambda _source, to, data: () if to == "p1" else (data,)
    for name in EVERYBODY:
        wired.finish(name)
    wired.pump(3)
    assert wired.charlie.over
    assert not wired.charlie.closed
    wired.parties["p1"].abort(RunFailed("stopped", ""))
    wired.pump(1)
    assert wired.sessions[CHARLIE].closed
    assert not wired.errors


def test_a_charlie_who_has_forgotten_the_run_ends_it_and_nobody_is_accused() -> None:
    wired = seated()
    another = Wired(wired.world)
    beat = wired.parties["p1"]._seal(Turn.BEAT, pack_beat(Beat((), 1, 2), EVERYBODY))
    another.link.inbox.append(Arrival("p1", b"new", beat))
    another.charlie.step()
    ((route, refusal),) = another.link.told
    assert route == b"new"
    wired.links["p1"].inbox.append(refusal)
    wired.pump(1)
    assert isinstance(error := wired.errors["p1"], RunFailed)
    assert says(error.message, "run_not_known_any_more")
    assert not another.errors


# --- What is said meanwhile -----------------------------------------------------------


def notices(wired: Wired, name: str = "p1") -> list[tuple[float, float]]:
    return [fields["left"] for who, event, fields in wired.events if (who, event) == (name, "unreachable")]


@pytest.mark.parametrize("before", [True, False], ids=["before the roster", "in mid-run"])
def test_a_blocked_port_is_said_within_20_seconds_and_again_with_the_time_left(before: bool) -> None:
    wired = Wired(World.new(3, deadline=600.0, port=5555))
    if before:
        wired.links["p1"].events.clear()
        wired.links["p1"].reachable = False
        wired.join("p1")
    else:
        wired.join()
        unplug(wired, "p1")
    wired.pump(20, seconds=1.0)
    assert notices(wired) == [pytest.approx(590, abs=2)]
    wired.pump(60, seconds=1.0)
    assert notices(wired)[1:] == [pytest.approx(560, abs=3), pytest.approx(530, abs=4)]
    wired.pump(540, seconds=1.0)
    assert isinstance(wired.errors["p1"], CannotConnect if before else DeadlinePassed)
    assert len(notices(wired)) == 20


# --- Many starts, one seat ------------------------------------------------------------


def test_a_beat_of_another_connection_is_no_acknowledgement() -> None:
    wired = seated()
    wired.say("p1")
    wired.links["p1"].sent.clear()
    hop = wired.charlie._hops["p1"]
    beat = wired.charlie._endpoint.seal("p1", "beat", pack_beat(Beat((), 5, 77), EVERYBODY))
    wired.links["p1"].inbox.append(beat)
    wired.pump(1)
    assert not wired.errors
    assert wired.parties["p1"]._channel.sent == 1
    assert hop.channel.taken == 0


def acknowledge(wired: Wired, source: str, got: int) -> str:
    """Let an end of p1's hop say that it holds so many frames; return who hears it."""
    endpoint = wired.sessions[source]._endpoint
    beat = pack_beat(Beat((), got, wired.parties["p1"]._channel.connection), EVERYBODY)
    if source == CHARLIE:
        wired.links["p1"].inbox.append(endpoint.seal("p1", "beat", beat))
    else:
        wired.link.inbox.append(Arrival("p1", wired.routes["p1"], endpoint.seal(CHARLIE, "beat", beat)))
    wired.pump(3)
    return "p1" if source == CHARLIE else CHARLIE


@pytest.mark.parametrize("source", ["p1", CHARLIE])
def test_who_acknowledges_what_was_never_sent_is_at_fault_and_nobody_else_is_named(source: str) -> None:
    wired = seated()
    finder = acknowledge(wired, source, 5)
    error = wired.errors[finder]
    assert isinstance(error, ProtocolViolation)
    assert error.peer == source
    (beat,) = error.frames  # the evidence: its signer's own words
    assert Judge(wired.world.study, wired.charlie.run, wired.charlie.study_id).signer_of(beat) == source
    for name in ("p2", "p3"):
        word = wired.errors[name]
        assert isinstance(word, Reported)
        assert (word.said_by, word.accused) == (finder, (source,))


@pytest.mark.parametrize("source", ["p1", CHARLIE])
def test_a_process_that_was_started_again_does_not_blame_the_other_end_alone(source: str) -> None:
    """Its own journal may be an old copy, which lacks frames that were sent."""
    wired = seated()
    finder = "p1" if source == CHARLIE else CHARLIE
    wired.sessions[finder].steps.passed = 1
    assert acknowledge(wired, source, 5) == finder
    for name in ("p1", "p2", "p3", CHARLIE):
        assert isinstance(error := wired.errors[name], StateCopied)
        assert set(error.copied) == {"p1", CHARLIE}
        assert error.exit_code == 1


@pytest.mark.parametrize("source", ["p1", CHARLIE])
def test_who_holds_less_than_before_has_an_old_state_and_is_not_at_fault(source: str) -> None:
    wired = seated()
    if source == CHARLIE:
        wired.say("p1")
    wired.pump(4, seconds=1.0)
    acknowledge(wired, source, 0)
    for name in ("p1", "p2", "p3", CHARLIE):
        assert isinstance(error := wired.errors[name], StateCopied)
        assert error.copied == (source,)


def test_frames_on_a_connection_that_was_replaced_are_ignored() -> None:
    wired = seated()
    old = wired.routes["p1"]
    wired.cut("p1")
    wired.pump(6, seconds=0.25)
    wired.link.inbox.append(Arrival("p1", old, b"garbage"))
    wired.pump(2)
    assert not wired.errors
    all_close(wired)


@pytest.mark.parametrize("of", ["this process", "the process before"])
def test_a_beat_of_an_older_connection_takes_no_seat(of: str) -> None:
    """It comes behind those of a newer connection, and by a way that Charlie never heard before."""
    wired = seated(60.0)
    before = wired.parties["p1"]._channel.connection
    wired.pump(8, seconds=1.0)
    for _ in range(2):
        wired.cut("p1")
        if of == "the process before":
            wired.parties["p1"]._channel.connection = first_connection()
        wired.pump(6, seconds=0.25)
    last = wired.parties["p1"]._channel.connection
    for number in {before, last - 1}:
        late = wired.parties["p1"]._endpoint.seal(CHARLIE, "beat", pack_beat(Beat((), 1, number), EVERYBODY))
        wired.link.inbox.append(Arrival("p1", b"late %d" % number, late))
    wired.pump(2)
    assert wired.charlie._hops["p1"].route == wired.routes["p1"]
    wired.say("p1", b"after")
    wired.pump(2)
    wired.expect(CHARLIE, "Hi", ("p1",))
    assert wired.answers[CHARLIE] == (b"after",)
    all_close(wired)


def test_a_process_whose_connections_outnumber_its_tag_goes_on() -> None:
    """Charlie takes the next tag for another process's, and asks along a connection that is gone."""
    wired = seated()
    first = wired.parties["p1"]._channel.connection
    wired.pump(8, seconds=1.0)
    for _ in range(2 * CONNECTIONS + 8):
        wired.cut("p1")
        wired.pump(3, seconds=0.25)
        assert wired.charlie._hops["p1"].route == wired.routes["p1"]
    assert wired.parties["p1"]._channel.connection // CONNECTIONS == first // CONNECTIONS + 2
    wired.say("p1", b"after")
    wired.pump(2)
    wired.expect(CHARLIE, "Hi", ("p1",))
    assert wired.answers[CHARLIE] == (b"after",)
    all_close(wired)


def test_two_processes_hardly_ever_have_one_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 16 bits, one restart in 65,535 was taken for an older connection, and the party never got in."""
    asked: list[int] = []

    def highest(below: int) -> int:
        asked.append(below)
        return below - 1

    monkeypatch.setattr("masquerade_host.channel.secrets.randbelow", highest)
    last = first_connection() + 1000 * CONNECTIONS
    assert read_beat(pack_beat(Beat((), 1, last), EVERYBODY), EVERYBODY, "p1").connection == last
    assert asked == [tags := asked[0]]
    assert tags > 10_000_000


# --- A channel ---------------------------------------------------------------------------


@pytest.fixture
def channel() -> tuple[Channel, list[bytes]]:
    sent: list[bytes] = []
    return Channel("p1", sent.append), sent


def test_a_channel_sends_nothing_before_the_other_end_has_said_what_it_holds(
    channel: tuple[Channel, list[bytes]],
) -> None:
    it, sent = channel
    it.put(b"a")
    it.flush()
    assert sent == []
    it.hear(0)
    it.put(b"b")
    it.flush()
    assert sent == [b"a", b"b"]
    it.put(b"c")
    it.break_off()
    it.flush()
    assert sent == [b"a", b"b"]
    it.hear(1)
    it.flush()
    assert sent == [b"a", b"b", b"b", b"c"]
    it.hear(3)
    assert (it.kept, it.acknowledged, it.sent, it.all_acknowledged) == (0, 3, 3, True)


@pytest.mark.parametrize(("got", "error"), [(0, StateCopied), (3, ProtocolViolation)])
def test_a_channel_notices_an_acknowledgement_that_cannot_be(
    channel: tuple[Channel, list[bytes]], got: int, error: type[MasqueradeError]
) -> None:
    it, _ = channel
    it.put(b"a")
    it.put(b"b")
    it.hear(1)
    with pytest.raises(error):
        it.hear(got)


def test_a_channel_acknowledges_what_is_safe_and_soon_enough(channel: tuple[Channel, list[bytes]]) -> None:
    it, _ = channel
    it.take(b"x")
    assert it.say() == 0
    it.commit()
    assert it.say() == 1
    assert [it.take(bytes(1_000_000)) for _ in range(5)] == [False, False, False, False, True]
    it.say()
    assert not it.take(b"x")


@pytest.mark.parametrize("who", ["p1", CHARLIE])
def test_what_is_not_acknowledged_is_bounded(who: str) -> None:
    wired = seated()
    unplug(wired, "p1")
    say: Callable[[], None] = lambda: wired.say(who, bytes(4_000_000), to="p1" if who == CHARLIE else None)  # noqa: E731
    for _ in range(MAX_KEPT // 4_000_000):
        say()
    assert not wired.errors
    say()
    assert isinstance(error := wired.errors[who], RunFailed)
    assert "64 MB" in error.message


def test_a_long_stream_is_acknowledged_between_the_beats() -> None:
    wired = seated()
    for _ in range(50):
        wired.say("p1", bytes(3_000_000))
        wired.expect(CHARLIE, "Hi", ("p1",))
        wired.pump(1)
    assert not wired.errors
    assert wired.parties["p1"]._channel.kept < 8_000_000

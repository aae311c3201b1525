"""Nobody is held for ever: whoever lives and withholds the frame that is due is out of time, and nobody slower is."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

import msgpack
import pytest

from masquerade_core.crypto import speed
from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import ClaimRefuted, DeadlinePassed, RefusedLocally
from masquerade_core.seat import Forecast
from masquerade_core.study import CHARLIE
from masquerade_core.wire.faults import Abort, Judge
from masquerade_host.faults.endings import Known, heard
from masquerade_host.session.session import Allowance
from masquerade_host.session.states import JoinState
from masquerade_protocols import protocol_of
from masquerade_protocols.rehearsing import rehearsed
from tests.faulty import DEADLINE, NUMBERED, PLAYS, Group, arithmetic_is_remembered, play, without_faults
from tests.host_helpers import VERSION, World
from tests.messages import raises
from tests.wired import Wired

NAMES = ("p1", "p2", "p3")
EVERYBODY = (*NAMES, CHARLIE)
SOON = 6.0
KIND = 4  # its place in a frame's header
BEATS = ("beat", "standing")


def kind_of(data: bytes) -> str:
    return str(msgpack.unpackb(data[SIGNATURE_BYTES:])[KIND])


# --- Every state of the table, both ends ------------------------------------------------


@dataclass
class Withholding:
    """Somebody beats on, and from a moment on nothing else of it leaves, or nothing reaches it.

    Attributes
    ----------
    culprit : str
    deaf : bool
        What it is sent does not reach it, so its beats never acknowledge it: it withholds the acknowledgement.
    """

    wired: Wired
    culprit: str
    deaf: bool = False
    began: float = -1.0
    ended: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """From now on."""
        self.began = self.wired.clock.now
        self.wired.tamper = self._carry

    def _carry(self, source: str, to: str, data: bytes) -> Iterable[bytes]:
        mute = self.culprit == (to if self.deaf else source)
        withheld = kind_of(data) not in BEATS if mute else (source, kind_of(data)) == (self.culprit, "abort")
        return () if withheld else (data,)

    def wait(self) -> None:
        """Wait for the honest ones' ends."""
        for _ in range(400):
            self.wired.pump(1, seconds=0.1)
            for name, session in self.wired.sessions.items():
                if session.closed or name in self.wired.errors:
                    self.ended.setdefault(name, self.wired.clock.now - self.began)

    def check(self) -> None:
        """Everybody honest has ended in time, and names the culprit or nobody."""
        self.wait()
        honest = [name for name in EVERYBODY if name != self.culprit]
        held = {name: self.ended.get(name) for name in honest if not self.ended.get(name, math.inf) <= 1.5 * SOON}
        assert not held
        for name in honest:
            error = self.wired.errors.get(name)
            assert error is None or isinstance(error, DeadlinePassed), error
            said = () if error is None else error.waited_for
            assert said in ((), (self.culprit,)), (name, error)


def joins(wired: Wired) -> None:
    wired.join()
    wired.pump(4, seconds=0.5)


def seats(wired: Wired) -> None:
    joins(wired)
    assert set(wired.answers) == set(EVERYBODY)


def all_talk(wired: Wired) -> None:
    """Charlie waits for all, and all wait for his broadcast."""
    wired.expect(CHARLIE, "Hi", NAMES)
    for name in NAMES:
        wired.say(name)
        wired.expect(name, "News", (CHARLIE,), broadcast=True)


def charlie_tells(wired: Wired) -> None:
    """All wait for Charlie, who has all that he needs."""
    wired.tell_all(b"news")
    for name in NAMES:
        wired.expect(name, "News", (CHARLIE,), broadcast=True)


def charlie_tells_his_last(wired: Wired) -> None:
    """The others return when they have it."""
    wired.tell_all(b"news")
    wired.pump(2)
    wired.expect("p2", "News", (CHARLIE,), broadcast=True)
    for name in ("p1", "p3", CHARLIE):
        wired.finish(name)


def one_seals(wired: Wired) -> None:
    """p1 and p3 wait for p2's sealed message, and Charlie for what they make of it."""
    wired.send_sealed("p2", "Secret", ("p1", "p3"), (b"box", b"box"))
    for name in ("p1", "p3"):
        wired.expect(name, "Secret", ("p2",), sealed=True)
    wired.expect("p2", "News", (CHARLIE,), broadcast=True)
    wired.expect(CHARLIE, "Hi", ("p1", "p3"))


def joins_and_talks(wired: Wired) -> None:
    """Charlie waits for all, and p2 does not know the run yet."""
    joins(wired)
    wired.expect(CHARLIE, "Hi", NAMES)
    for name in ("p1", "p3"):
        wired.say(name)


def all_return(wired: Wired) -> None:
    for name in EVERYBODY:
        wired.finish(name)


def nothing(_wired: Wired) -> None:
    """The frame that is due follows from what was done before."""


MATRIX: dict[tuple[str, JoinState, str], tuple[Callable[[Wired], None], Callable[[Wired], None], bool]] = {
    # The state is that of the party's end of the hop.
    ("p2", JoinState.IDLE, "its hello"): (nothing, joins, False),
    ("p2", JoinState.HEARD, "its word that it has the roster"): (nothing, joins_and_talks, True),
    ("p2", JoinState.SEATED, "its message"): (seats, all_talk, False),
    ("p2", JoinState.SEATED, "its word that it has a message"): (seats, charlie_tells_his_last, True),
    ("p2", JoinState.SEATED, "its sealed message"): (seats, one_seals, False),
    ("p2", JoinState.SEATED, "its closed"): (seats, all_return, False),
    ("p2", JoinState.DONE, "its word that it has the last frame"): (seats, all_return, True),
    (CHARLIE, JoinState.KNOCKING, "his answer to a hello"): (nothing, joins, False),
    (CHARLIE, JoinState.HEARD, "his roster"): (nothing, joins, False),
    (CHARLIE, JoinState.SEATED, "his message"): (seats, charlie_tells, False),
    (CHARLIE, JoinState.SEATED, "a box that he relays"): (seats, one_seals, False),
    (CHARLIE, JoinState.SEATED, "his word that he has a message"): (seats, all_talk, True),
    (CHARLIE, JoinState.DONE, "his closed"): (seats, all_return, False),
}


@pytest.mark.parametrize(("culprit", "state", "what"), MATRIX, ids=lambda part: getattr(part, "value", part))
def test_whoever_beats_and_withholds_what_is_due_holds_nobody_for_long(
    culprit: str, state: JoinState, what: str
) -> None:
    wired = Wired(World.new(3, deadline=SOON, port=5555))
    before, then, deaf = MATRIX[culprit, state, what]
    before(wired)
    withholding = Withholding(wired, culprit, deaf)
    withholding.begin()
    then(wired)
    withholding.check()


# --- Every protocol, on a network of its own ----------------------------------------------


def patient(name: str) -> Group:
    """Return a group that mostly waits: a second is short beside its deadline of a minute."""
    group = Group(play(name))
    group.network.tick = 1.0
    return group


def withheld_by(culprit: str, name: str, after: int) -> Group:
    """Return a group of which one participant beats on, but none of its frames leaves after so many numbered ones."""
    group = patient(name)
    left = 0

    def beats_on(source: str, _to: str, data: bytes) -> Iterable[bytes]:
        nonlocal left
        kind = kind_of(data)
        if source != culprit or kind in BEATS:
            return (data,)
        left += kind in NUMBERED
        return () if left > after else (data,)

    group.network.tamper = beats_on
    return group


@cache
def frames_of(name: str, who: str) -> int:
    """Count the numbered frames that a participant sends in a run without faults."""
    count = 0

    def counted(source: str, _to: str, data: bytes) -> Iterable[bytes]:
        nonlocal count
        count += source == who and kind_of(data) in NUMBERED
        return (data,)

    group = Group(play(name))
    group.network.tamper = counted
    group.run()
    assert not group.errors
    return count


def seconds_after(group: Group, culprit: str) -> float:
    """Run a group until all but the culprit have ended; return how long that took from the first frame withheld."""
    since, carry = math.inf, group.network.tamper

    def noted(source: str, to: str, data: bytes) -> Iterable[bytes | None]:
        nonlocal since
        passed = tuple(carry(source, to, data))
        since = since if passed else min(since, group.clock.now)
        return passed

    group.network.tamper = noted
    honest = [site for name, site in group.sites.items() if name != culprit]
    with arithmetic_is_remembered():
        while not all(site.over for site in honest):
            for site in group.sites.values():
                site.turn()
            assert group.clock.now - since < 10 * DEADLINE, "somebody is held"
            group.move_on()
    return group.clock.now - since


# The protocols whose frames take the ways that there are: sums by masks, many relays to a lead, openings by a lead.
_WAYS = ("dp-whitened", "local-aggregation", "psgd")
_WITHHOLDING = [
    *((name, who, when) for name in PLAYS for who in (0, -1) for when in ("first", "middle")),
    *((name, who, when) for name in _WAYS for who, when in ((2, "middle"), (0, "last"), (-1, "last"))),
]


@pytest.mark.parametrize(("name", "who", "when"), _WITHHOLDING)
def test_whoever_withholds_a_frame_of_a_protocol_holds_nobody_for_long(name: str, who: int, when: str) -> None:
    """The first party is the lead where there is one, and the last participant is Charlie."""
    culprit = (*play(name).world.study.names, CHARLIE)[who]
    frames = frames_of(name, culprit)
    group = withheld_by(culprit, name, {"first": 0, "middle": frames // 2, "last": frames - 1}[when])
    seconds = seconds_after(group, culprit)
    assert seconds <= 1.5 * DEADLINE + group.forecast.seconds, seconds
    for honest, error in group.errors.items():
        if honest != culprit:
            assert isinstance(error, DeadlinePassed), (honest, error)
            assert error.waited_for in ((), (culprit,)), (honest, error)
    if when != "last":
        assert {*group.errors} >= {*group.sites} - {culprit}


@pytest.mark.parametrize(
    ("name", "slow"), [*((name, range(4)) for name in PLAYS), *((name, (who,)) for name in _WAYS for who in (0, 2, 3))]
)
def test_whoever_needs_most_of_its_time_for_each_frame_is_never_ended(name: str, slow: Sequence[int]) -> None:
    """The control: .9 of what is allowed from when its inputs were there, in every step of the whole run."""
    group = patient(name)
    for who in slow:
        [*group.sites.values()][who].slow = 0.9 * Allowance(DEADLINE, group.forecast).frame
    group.run(1e5)
    assert not group.errors, {who: str(error) for who, error in group.errors.items()}
    assert group.files(CHARLIE) == without_faults(name).files


# --- The clocks ---------------------------------------------------------------------------


def test_clocks_that_began_long_ago_make_nobody_late() -> None:
    """A machine's clock counts from its start, and not from a party's."""
    wired = Wired(World.new(3, deadline=SOON, port=5555))
    wired.clock.now = 1e8
    wired.join(CHARLIE, "p1")
    wired.join("p2", "p3")
    assert not wired.errors
    assert set(wired.answers) == set(EVERYBODY)


def test_each_partys_clock_is_its_own() -> None:
    """p1's frame gives p2 no more time, whoever comes first."""
    wired = Wired(World.new(3, deadline=SOON, port=5555))
    seats(wired)
    wired.expect(CHARLIE, "Hi", NAMES)
    wired.pump(50, seconds=0.1)
    wired.say("p1")
    wired.pump(20, seconds=0.1)
    for name in EVERYBODY:
        assert isinstance(error := wired.errors[name], DeadlinePassed)
        assert error.waited_for == ("p2", "p3")


def test_a_frame_has_its_whole_time_from_when_its_inputs_were_delivered() -> None:
    """p2 gets Charlie's word after .8 of the deadline, and needs .8 of it for its answer."""
    wired = Wired(World.new(3, deadline=60.0, port=5555))
    seats(wired)
    wired.cut("p2")
    wired.links["p2"].reachable = False
    wired.tell_all(b"news")
    for name in NAMES:
        wired.expect(name, "News", (CHARLIE,), broadcast=True)
    wired.expect(CHARLIE, "Hi", NAMES)
    wired.pump(1)
    for name in ("p1", "p3"):
        wired.say(name)
        wired.expect(name, "News", (CHARLIE,), broadcast=True)
    wired.pump(48, seconds=1.0)
    wired.links["p2"].reachable = True
    wired.pump(48, seconds=1.0)
    assert not wired.errors
    wired.say("p2")
    wired.pump(4, seconds=0.1)
    assert wired.answers[CHARLIE] == (b"hello",) * 3
    assert not wired.errors


def test_a_party_that_has_closed_keeps_its_result_where_it_hears_nothing_more() -> None:
    """And not where another one says so, or before it has closed."""
    wired = Wired(World.new(3, deadline=SOON, port=5555))
    seats(wired)
    silence, word = DeadlinePassed("nothing more came"), DeadlinePassed("p2 heard nothing", said_by="p2")
    session = wired.parties["p1"]
    assert not session.keeps(silence)
    wired.tamper = lambda source, _to, data: () if (source, kind_of(data)) == (CHARLIE, "closed") else (data,)
    all_return(wired)
    wired.pump(4)
    assert not session.over
    assert not session.keeps(word)
    assert session.unconfirmed is None
    assert session.keeps(silence)
    assert session.unconfirmed is silence


@pytest.mark.parametrize("cleared", [True, False])
def test_whoever_has_sent_all_that_is_due_refutes_that_it_was_late(*, cleared: bool) -> None:
    world = World.new(3, deadline=SOON, port=5555)
    judge = Judge(world.study, bytes(16), world.study.study_id(VERSION))
    claim = Abort(reason="deadline", blamed=("p1",), by="p2")
    error = heard(claim, b"its frame", "p2", judge, "p1", Known(cleared=("p1",) if cleared else ()))
    assert type(error) is (ClaimRefuted if cleared else DeadlinePassed)
    assert getattr(error, "waited_for", ()) == (() if cleared else ("p1",))


def test_charlies_word_that_the_run_goes_on_is_no_leave_to_go_on_for_ever() -> None:
    """A Charlie whose beats tell of ever new clocks holds a party as long as the run's longest chain, and no longer."""
    wired = Wired(World.new(3, deadline=SOON, port=5555))
    seats(wired)
    wired.expect("p1", "News", (CHARLIE,), broadcast=True)
    turns = wired.parties["p1"].allowance.forecast.turns
    most = (turns + 1) * (wired.charlie.allowance.of_charlie + SOON)
    for _ in range(int(10 * (most - 1))):
        wired.charlie._moves += 1
        wired.pump(1, seconds=0.1)
    assert not wired.errors
    wired.pump(20, seconds=0.1)
    assert isinstance(error := wired.errors["p1"], DeadlinePassed)
    assert error.waited_for == (CHARLIE,)


def test_two_who_send_each_other_boxes_hold_nobody_for_ever() -> None:
    """p2 and p3 collude: each box starts the clock of its recipient anew. Charlie waits for them no longer for that."""
    wired = Wired(World.new(3, deadline=SOON, port=5555))
    seats(wired)
    wired.expect(CHARLIE, "Hi", NAMES)
    wired.say("p1")
    most = (wired.charlie.allowance.forecast.turns + 1) * (wired.charlie.allowance.frame + SOON)
    for _ in range(int(most) + 2):
        if CHARLIE not in wired.errors:
            wired.parties["p2"]._inbox.clear()
            wired.parties["p3"]._inbox.clear()
            wired.send_sealed("p2", "Secret", ("p3",), (b"box",))
            wired.send_sealed("p3", "Secret", ("p2",), (b"box",))
        wired.pump(10, seconds=0.1)
    assert isinstance(error := wired.errors[CHARLIE], DeadlinePassed)
    assert error.waited_for == ()


# --- The forecast -------------------------------------------------------------------------


def test_the_forecast_follows_from_the_study_alone_and_sums_by_masks_need_none() -> None:
    study = play("psgd").world.study
    cost = protocol_of(study).cost(study)
    bits = study.key_bits
    assert cost.forecast(study) == Forecast(cost.exponentiations * 0.1 * (bits / 2048) ** 3, 2 * cost.round_trips)
    masks = play("dp-gd").world.study
    assert protocol_of(masks).cost(masks).forecast(masks).seconds == 0


@pytest.mark.parametrize(("share", "joins"), [(0.99, True), (1.01, False)])
def test_a_machine_that_cannot_keep_the_forecast_does_not_join(
    share: float, joins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = play("psgd").world.study
    cost = protocol_of(study).cost(study)
    allowed = DEADLINE + cost.forecast(study).seconds
    monkeypatch.setattr(speed, "seconds_of_exponentiation", lambda _bits: share * allowed / cost.exponentiations)
    if joins:
        assert rehearsed(study, cost, joined=False) == cost.forecast(study)
        return
    with raises(RefusedLocally, "needs_about_seconds"):
        rehearsed(study, cost, joined=False)
    assert rehearsed(study, cost, joined=True) == cost.forecast(study)  # the others wait for it already

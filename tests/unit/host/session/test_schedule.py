"""The public schedule: a party's frames leave in slots, and not when its records have been worked through."""

from collections.abc import Callable

import pytest

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import unpack_strict
from masquerade_host.session.party import Schedule
from tests.host_helpers import World
from tests.wired import Wired

PARTIES = ("p1", "p2", "p3")
STEP = 0.0625
SLOT = 1.0

# --- When a frame is due ------------------------------------------------------------


class Sent:
    """The frames that have left, each with its time."""

    def __init__(self, slot: float | None) -> None:
        self.schedule = Schedule(slot)
        self.left: list[tuple[str, float]] = []
        self.now = 0.0

    def hold(self, what: str, at: float, opened: float) -> None:
        self.now = at
        self.schedule.hold(at, opened, lambda: self.left.append((what, self.now)))

    def until(self, end: float) -> list[tuple[str, float]]:
        while self.now < end:
            self.now += STEP
            self.schedule.release(self.now)
        return self.left


@pytest.mark.parametrize(
    ("asked", "leaves"), [(10.0, 11.0), (10.25, 11.0), (10.9375, 11.0), (11.0, 12.0), (11.25, 12.0), (14.75, 15.0)]
)
def test_an_answer_leaves_whole_slots_after_what_it_answers(asked: float, leaves: float) -> None:
    sent = Sent(SLOT)
    sent.hold("answer", asked, 10.0)
    assert sent.schedule.due == leaves
    assert sent.until(20.0) == [("answer", leaves)]
    assert sent.schedule.due is None


def test_frames_leave_in_the_order_in_which_they_were_made() -> None:
    sent = Sent(SLOT)
    sent.hold("first", 5.5, 5.0)
    sent.hold("second", 5.75, 5.0)
    sent.hold("third", 5.75, 5.25)
    assert sent.until(10.0) == [("first", 6.0), ("second", 6.0), ("third", 6.25)]
    sent = Sent(SLOT)
    sent.hold("first", 5.5, 5.25)
    sent.hold("second", 5.75, 5.0)  # its own slot would come before that of the first
    assert sent.until(10.0) == [("first", 6.25), ("second", 6.25)]


def test_a_process_that_comes_late_waits_for_the_next_slot_with_all_it_holds() -> None:
    sent = Sent(SLOT)
    sent.hold("one", 10.5, 10.0)
    sent.hold("two", 10.5, 10.0)
    sent.now = 11.5
    sent.schedule.release(11.5)
    assert not sent.left
    assert sent.until(20.0) == [("one", 12.0), ("two", 12.0)]


def test_without_slots_everything_leaves_at_once() -> None:
    sent = Sent(None)
    sent.hold("answer", 10.3, 10.0)
    assert sent.left == [("answer", 10.3)]
    assert sent.schedule.due is None


def test_what_was_sent_before_a_restart_leaves_at_once_one_by_one() -> None:
    sent = Sent(SLOT)
    sent.hold("one", 10.5, 10.0)
    sent.hold("two", 10.5, 10.0)
    assert [sent.schedule.let_go() for _ in range(3)] == [True, True, False]
    assert sent.left == [("one", 10.5), ("two", 10.5)]


# --- A session that keeps to it -----------------------------------------------------


class Watched(Wired):
    """Notes when which kind of frame of p1 leaves; ``slot`` is the study's."""

    def __init__(self, slot: float | None, deadline: float = 20.0) -> None:
        world = World.new(3, deadline=deadline, port=5555)
        study = world.study
        if slot is not None:
            study = world.changed(
                f"deadline_seconds = {deadline}", f"deadline_seconds = {deadline}\nslot_seconds = {slot}"
            )
        super().__init__(world, studies=dict.fromkeys((*PARTIES, CHARLIE), study))
        self.left: list[tuple[str, float]] = []
        self.tamper = self._watch
        self.clock.now += 0.375  # the slots are those of the roster's arrival, and no round seconds
        self.join()
        self.seated_at = self.clock.now

    def _watch(self, source: str, _to: str, data: bytes) -> tuple[bytes]:
        if source == "p1":
            self.left.append((unpack_strict(data[SIGNATURE_BYTES:], "")[4], self.clock.now))
        return (data,)

    def wait(self, seconds: float) -> None:
        self.pump(round(seconds / STEP), seconds=STEP)

    def when(self, *kinds: str) -> list[float]:
        """The times since the start at which frames of these kinds left."""
        return [at - self.seated_at for kind, at in self.left if kind in kinds]

    def a_round(self, seconds: float, of: str = "p1") -> None:
        """Charlie opens a round, and the party computes for so long before it answers."""
        self.tell_all(b"sum")
        self.pump(2)
        for name in PARTIES:
            self.expect(name, "News", (CHARLIE,), broadcast=True)
        self.wait(seconds)
        self.say(of)


@pytest.mark.parametrize("computes", [0.0, 0.125, 0.5, 0.875])
def test_the_time_at_which_an_answer_leaves_does_not_depend_on_the_work(computes: float) -> None:
    wired = Watched(SLOT)
    wired.wait(0.25)
    wired.a_round(computes)
    wired.wait(4.0)
    assert wired.when("message") == [1.25]
    plain = Watched(None)
    plain.wait(0.25)
    plain.a_round(computes)
    plain.wait(4.0)
    assert plain.when("message") == [0.25 + computes]


def test_an_overrun_waits_for_the_next_slot() -> None:
    wired = Watched(SLOT)
    wired.a_round(1.5)
    wired.wait(4.0)
    assert wired.when("message") == [2.0]


def test_what_a_party_says_first_waits_for_a_slot_after_the_roster() -> None:
    """Records were read before the join; what was computed since is the session's to hide."""
    wired = Watched(SLOT)
    wired.wait(0.5)
    wired.say("p1")
    wired.wait(4.0)
    assert wired.when("message") == [1.0]


def test_sealed_messages_and_the_close_keep_to_the_slots_and_beats_go_on() -> None:
    wired = Watched(SLOT)
    wired.wait(0.25)
    wired.send_sealed("p1", "Secret", ("p2",), (b"box",))
    wired.wait(2.0)
    wired.expect("p2", "Secret", ("p1",), sealed=True)
    wired.tell_all(b"sum")
    wired.wait(0.125)
    for name in PARTIES:
        wired.expect(name, "News", (CHARLIE,), broadcast=True)
    heard = wired.parties["p1"]._last_came - wired.seated_at
    for name in (*PARTIES, CHARLIE):
        wired.finish(name)
    wired.wait(3.0)
    assert wired.when("sealed") == [1.0]
    assert wired.when("closed") == [heard + SLOT]
    assert all(session.closed for session in wired.sessions.values())
    assert not wired.errors
    assert wired.when("beat")


def test_slots_count_from_when_a_frame_came_and_not_from_when_the_role_asked_for_it() -> None:
    def first(asks_after: float) -> list[float]:
        wired = Watched(SLOT)
        wired.tell_all(b"sum")
        wired.wait(asks_after)
        wired.expect("p1", "News", (CHARLIE,), broadcast=True)
        wired.say("p1")
        wired.wait(4.0)
        return wired.when("message")

    assert first(0.125) == first(0.75) == [STEP + SLOT]


def test_the_session_says_when_its_next_frame_is_due() -> None:
    wired = Watched(SLOT)
    p1 = wired.parties["p1"]
    assert p1.due_in() is None
    wired.wait(0.25)
    wired.say("p1")
    assert p1.due_in() == 0.75
    assert wired.charlie.due_in() is None
    plain = Watched(None)
    plain.say("p1")
    assert plain.parties["p1"].due_in() is None


# --- The study ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        ("0", "slot_seconds is 0"),
        ("-1.0", "slot_seconds is -1"),
        ("inf", "slot_seconds"),
        ("20.0", "slot_seconds is 20, but must be less than deadline_seconds = 20"),
        ("30.0", "slot_seconds is 30, but must be less than deadline_seconds = 20"),
        ('"fast"', "slot_seconds"),
    ],
)
def test_a_slot_that_is_none_is_refused_with_a_sentence(slot: str, words: str) -> None:
    world = World.new(2, deadline=20.0, port=5555)
    change: Callable[[], object] = lambda: world.changed(  # noqa: E731
        "deadline_seconds = 20.0", f"deadline_seconds = 20.0\nslot_seconds = {slot}"
    )
    with pytest.raises(BadInput) as caught:
        change()
    assert words in str(caught.value)


def test_the_slot_is_public_and_part_of_what_everybody_approves() -> None:
    world = World.new(2, deadline=20.0, port=5555)
    slow = world.changed("deadline_seconds = 20.0", "deadline_seconds = 20.0\nslot_seconds = 2.0")
    assert world.study.study.slot_seconds is None
    assert "study.slot_seconds" not in world.study.canonical()
    assert slow.canonical()["study.slot_seconds"] == "2.0"
    assert slow.study_id("1") != world.study.study_id("1")

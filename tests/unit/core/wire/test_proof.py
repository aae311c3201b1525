"""The proofs by signed frames and their limits: no honest participant is ever convicted."""

import sys
from collections.abc import Iterable

import msgpack
import pytest

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import ProtocolViolation
from masquerade_core.rng import SystemRng
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import Message, decode, encode
from masquerade_core.wire.faults import (
    MAX_SHOWN_BYTES,
    Abort,
    AbortMessage,
    Judge,
    bits_of,
    pack_abort,
    proves,
    read_abort,
)
from masquerade_core.wire.frames import Endpoint, head_of, pack_boxes
from masquerade_host.faults.endings import shown_for
from masquerade_host.session.lateness import whom_all_wait_for
from masquerade_host.session.messages import Beat, pack_beat
from masquerade_protocols.blocks.coin_toss import Commitment
from masquerade_protocols.blocks.masked_sum import Masked, Summed
from tests.host_helpers import World

EVERYBODY = ("p1", "p2", "p3", CHARLIE)
RUN, BEFORE = b"the run's own id", b"the study's id  "
GOOD = encode(Masked(round=0, words=b"w", check=b"c"), CHARLIE)
OTHER = encode(Masked(round=0, words=b"x", check=b"c"), CHARLIE)


@pytest.fixture(scope="module")
def world() -> World:
    """Three parties and Charlie."""
    return World.new(3, port=5555)


@pytest.fixture(scope="module")
def judge(world: World) -> Judge:
    """The rules for one run."""
    return Judge(world.study, RUN, BEFORE)


class Pen:
    """Signs frames as one participant."""

    def __init__(self, world: World, name: str, run: bytes = RUN) -> None:
        self.key = world.keys[name].signing
        peers = dict.fromkeys(world.study.names if name == CHARLIE else (CHARLIE,), b"")
        self.end = Endpoint(name, run, self.key, peers)

    def message(self, body: bytes = GOOD, type_: str = "Masked", to: str = CHARLIE) -> bytes:
        """Sign a message."""
        return self.end.seal(to, "message", body, type=type_)

    def to_all(self, body: bytes, type_: str = "Summed") -> bytes:
        """Sign a broadcast."""
        return self.end.broadcast("message", body, type=type_)

    def abort(
        self, reason: str, blamed: tuple[str, ...], by: str, frames: Iterable[bytes] = (), to: str = CHARLIE
    ) -> bytes:
        """Sign an abort."""
        body = pack_abort(Abort(reason, blamed, by, tuple(frames)), EVERYBODY)  # type: ignore[arg-type]
        return self.end.seal(to, "abort", body)


# --- What proves a fault -------------------------------------------------------------


def test_two_different_frames_of_a_partys_number_show_a_copied_state_and_one_frame_twice_does_not(
    world: World, judge: Judge
) -> None:
    one, two = Pen(world, "p1").message(), Pen(world, "p1").message(OTHER)
    found = judge.of((one, two))
    assert (found.culprit, found.named, found.copied) == ("", (), "p1")
    assert proves((one, two), world.study, RUN, BEFORE) is None
    pen = Pen(world, "p1")
    for frames in [(one, one), (pen.message(), pen.message(OTHER))]:
        assert judge.of(frames).copied == ""


def test_charlie_counts_on_each_hop_and_his_broadcasts(world: World, judge: Judge) -> None:
    summed = [encode(Summed(round=0, words=w, check=b"c", receipt=bytes(32)), "*") for w in (b"v", b"w")]
    assert judge.of([Pen(world, CHARLIE).to_all(body) for body in summed]).culprit == CHARLIE
    pen = Pen(world, CHARLIE)
    here, there = (pen.end.seal(to, "abort", b"", type="") for to in ("p1", "p2"))
    alone = [Pen(world, CHARLIE).end.seal(to, "sealed", b"box", source="p3") for to in ("p1", "p2")]
    assert judge.of(alone).culprit == ""
    assert here != there


def test_two_hellos_or_beats_or_aborts_of_one_number_prove_nothing(world: World, judge: Judge) -> None:
    """A party says hello anew in every attempt, and control frames are not numbered."""
    one, two = Pen(world, "p1"), Pen(world, "p1")
    assert judge.of((one.abort("left", ("p1",), "p1"), two.abort("violation", (), "p1"))).culprit == ""


def test_two_frames_of_one_number_of_two_runs_prove_nothing(world: World, judge: Judge) -> None:
    frames = (Pen(world, "p1").message(), Pen(world, "p1", bytes(16)).message(OTHER))
    assert judge.of(frames).culprit == ""
    assert Judge(world.study, bytes(16), BEFORE).of(frames).culprit == ""
    early = (Pen(world, "p1", BEFORE).message(), Pen(world, "p1", BEFORE).message(OTHER))
    assert judge.of(early).culprit == ""  # of two attempts


def test_what_is_signed_for_another_purpose_proves_nothing(world: World, judge: Judge) -> None:
    """The same key signs a file of evidence, and frames of other runs that may have another form."""
    key = world.keys["p1"].signing
    for signed in (b"masquerade evidence\0" + bytes(32), head_of(bytes(16)) + b"\xc0", b"", b"\x98"):
        assert judge.of((key.sign(signed) + signed,)).culprit == ""
    signed = head_of(RUN) + b"\xc0"
    assert judge.of((key.sign(signed) + signed,)).culprit == "p1"


@pytest.mark.parametrize(
    ("kind", "type_", "body", "to"),
    [
        ("message", "Masked", b"\x80", CHARLIE),
        ("message", "Masked", b"\xc1", CHARLIE),
        ("message", "Commitment", encode(Commitment(digest=bytes(32)), CHARLIE), CHARLIE),
        ("sealed", "Masked", pack_boxes((b"x", b"x")), "*"),
        ("sealed", "Commitment", b"\x92\x01\xc4\x03xxx", "*"),
        ("sealed", "Commitment", pack_boxes((b"x",)), "mallory"),
        ("roster", "", b"\x80", CHARLIE),
        ("closed", "", b"\x80", CHARLIE),
        ("beat", "", b"\x80", CHARLIE),
        ("beat", "Masked", pack_beat(Beat(), EVERYBODY), CHARLIE),
        ("abort", "", b"\x80", CHARLIE),
        ("hello", "refusal", b"\x80", CHARLIE),
        ("hello", "x", b"\x80", CHARLIE),
    ],
)
def test_one_frame_that_no_party_may_sign_convicts_it(
    world: World, judge: Judge, kind: str, type_: str, body: bytes, to: str
) -> None:
    frame = Pen(world, "p1").end.seal(CHARLIE, kind, body, type=type_, to=to)  # type: ignore[arg-type]
    assert judge.of((frame,)).culprit == "p1"


def test_what_charlie_relays_is_not_his_fault(world: World, judge: Judge) -> None:
    """A party may choose any type and box; he reads neither."""
    for type_ in ("Masked", "Summed", "nonsense"):
        assert judge.of((Pen(world, CHARLIE).end.seal("p1", "sealed", b"?", type=type_, source="p2"),)).culprit == ""
    assert (
        judge.of((Pen(world, CHARLIE).end.seal("p1", "sealed", b"?", type="x", source="mallory"),)).culprit == CHARLIE
    )


def test_a_broadcast_for_one_and_a_message_for_all_convict_charlie(world: World, judge: Judge) -> None:
    summed = encode(Summed(round=0, words=b"v", check=b"c", receipt=bytes(32)), "*")
    assert judge.of((Pen(world, CHARLIE).message(summed, "Summed", "p1"),)).culprit == CHARLIE
    assert judge.of((Pen(world, CHARLIE).to_all(summed),)).culprit == ""
    assert judge.of((Pen(world, CHARLIE).to_all(GOOD, "Masked"),)).culprit == CHARLIE


# --- Messages that another site may know better -----------------------------------------


def test_an_unknown_message_is_left_open_and_convicts_neither_its_signer_nor_the_accuser(
    world: World, judge: Judge
) -> None:
    frame = Pen(world, "p1").message(b"\x80", "OfAPlugin")
    finding = judge.of((frame,))
    assert (finding.culprit, finding.open) == ("", True)
    assert judge.of((Pen(world, "p2").abort("violation", ("p1",), "p2", (frame,)),)).culprit == ""


def test_a_message_of_a_plugin_does_not_count_though_this_site_has_it(world: World, judge: Judge) -> None:
    class OfThisTest(Message):
        """Defined outside masquerade: another site may have another version of it."""

    assert OfThisTest.__module__ != "masquerade"
    assert judge.of((Pen(world, "p1").message(b"\xc1", "OfThisTest"),)).culprit == ""


# --- Accusations ---------------------------------------------------------------------------


def test_a_false_accusation_convicts_the_accuser_and_a_true_one_the_accused(world: World, judge: Judge) -> None:
    good, bad = Pen(world, "p1").message(), Pen(world, "p1").message(b"\x80")
    assert judge.of((Pen(world, "p2").abort("violation", ("p1",), "p2", (good,)),)).culprit == "p2"
    assert judge.of((Pen(world, "p2").abort("violation", ("p3",), "p2", (bad,)),)).culprit == "p2"
    assert judge.of((Pen(world, "p2").abort("violation", ("p1", CHARLIE), "p2", (bad,)),)).culprit == "p2"
    assert judge.of((Pen(world, "p2").abort("violation", ("p1",), "p2", (bad,)),)).culprit == ""
    assert judge.of((Pen(world, "p2").abort("violation", ("p1",), "p2"),)).culprit == ""


def test_charlie_passes_an_abort_on_as_it_was_signed_or_is_convicted(world: World, judge: Judge) -> None:
    word = Pen(world, "p2").abort("violation", ("p1",), "p2")

    def passed(blamed: tuple[str, ...], by: str, frames: tuple[bytes, ...], run: bytes = RUN) -> str:
        return judge.of((Pen(world, CHARLIE, run).abort("violation", blamed, by, frames, "p3"),)).culprit

    assert passed(("p1",), "p2", (word,)) == ""
    assert passed(("p3",), "p2", (word,)) == CHARLIE
    assert passed(("p1",), "p3", (word,)) == CHARLIE
    assert passed(("p1",), "p2", ()) == CHARLIE
    assert passed(("p1",), "p2", (word, word)) == CHARLIE
    old = Pen(world, "p2", bytes(16)).abort("violation", ("p1",), "p2")
    assert passed(("p1",), "p2", (old,)) == CHARLIE
    # His abort may bear the study's id where a party does not know the run's yet. Then it may be of an earlier attempt,
    # and what was right then cannot be judged now.
    assert passed(("p1",), "p2", (old,), BEFORE) == ""


def test_aborts_within_aborts_are_judged_to_a_depth_that_costs_nothing(world: World, judge: Judge) -> None:
    """A malicious participant could nest thousands. Here are more than Python's calls may nest."""
    frame = Pen(world, "p1").message()
    for _ in range(sys.getrecursionlimit() + 100):
        frame = Pen(world, "p2").abort("violation", ("p1",), "p2", (frame,))
    assert judge.of((frame,)).open


def test_an_abort_shows_four_frames_and_a_megabyte_at_most(world: World) -> None:
    def body(*frames: bytes) -> bytes:
        blamed, by = bits_of(("p1",), EVERYBODY), bits_of(("p2",), EVERYBODY)
        return bytes(msgpack.packb({"reason": "violation", "blamed": blamed, "by": by, "frames": frames}))

    half = bytes(MAX_SHOWN_BYTES // 2)
    assert read_abort(body(half, half), EVERYBODY, "p2").frames == (half, half)
    for frames in ([b"x"] * 5, [half, half, b"x"], [bytes(MAX_SHOWN_BYTES + 5000)]):
        with pytest.raises(ProtocolViolation):
            read_abort(body(*frames), EVERYBODY, "p2")
    assert decode(AbortMessage, body(*[b"x"] * 4), "p2").frames == (b"x",) * 4


def test_only_what_proves_the_fault_is_shown_and_only_what_fits(world: World, judge: Judge) -> None:
    good, bad = Pen(world, "p1").message(), Pen(world, "p1").message(b"\x80")
    error = ProtocolViolation("x", peer="p1")
    assert shown_for(error, (good, bad), judge) == (bad,)
    assert shown_for(error, (good,), judge) == ()
    assert shown_for(ProtocolViolation("x", peer="p2"), (bad,), judge) == ()
    assert shown_for(ProtocolViolation("x", suspects=("p1", CHARLIE)), (bad,), judge) == ()
    large = Pen(world, "p1").message(b"\xc1" * (MAX_SHOWN_BYTES + 1))
    assert judge.of((large,)).culprit == "p1"
    assert shown_for(error, (large,), judge) == ()


def test_random_changes_of_good_frames_convict_nobody(world: World, judge: Judge) -> None:
    """Whoever changes a byte has no signature over it."""
    frame = Pen(world, "p1").message()
    for _ in range(300):
        at = int.from_bytes(SystemRng().bytes(2), "big") % len(frame)
        changed = frame[:at] + bytes((frame[at] ^ 1,)) + frame[at + 1 :]
        assert judge.of((frame, changed)).culprit == ""
    assert judge.signer_of(frame) == "p1"
    assert judge.signer_of(frame[:SIGNATURE_BYTES]) == ""


# --- Who waits for whom ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "waits", "named"),
    [
        ("a", {}, "a"),
        ("a", {"a": "b"}, "b"),
        ("a", {"a": "b", "b": "a"}, "ab"),
        ("a", {"a": "b", "b": "c", "c": "b"}, "bc"),
        ("a", {"a": "b", "b": "c", "c": "bd"}, "d"),
        ("ad", {"a": "b", "b": "a"}, "dab"),
        ("a", {"a": "a"}, "a"),
        ("a", {"a": "bc", "b": "a"}, "c"),
        ("a", {"b": "c", "c": "b"}, "a"),
        ("c", {"c": "ab", "a": "c", "b": ""}, "b"),
        ("a", {"a": "bd", "b": "c", "c": "b", "d": "e", "e": "d"}, "bcde"),
    ],
)
def test_those_at_the_end_are_named_and_all_members_of_a_circle(
    missing: str, waits: dict[str, str], named: str
) -> None:
    assert whom_all_wait_for(missing, waits) == set(named)

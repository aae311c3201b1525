"""Frames: signed, numbered, in the right direction, of this run; anything else names the hop."""

from functools import partial
from itertools import permutations

import msgpack
import pytest

from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import MAX_BODY, PARTIES
from masquerade_core.wire.frames import MAX_FRAME, WIRE_VERSION, Endpoint, read_header
from tests.helpers import PEER, RUN, Header, cuts, endpoints, flips, violation
from tests.messages import raises, says

BOB = "bob"


@pytest.fixture
def ends() -> dict[str, Endpoint]:
    return endpoints(PEER, BOB)


@pytest.fixture
def charlie(ends: dict[str, Endpoint]) -> Endpoint:
    return ends[CHARLIE]


@pytest.fixture
def header() -> Header:
    return Header(PEER, CHARLIE)


# --- Good ----------------------------------------------------------------------


def test_a_frame_arrives_as_it_was_sealed(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    data = ends[PEER].seal(CHARLIE, "message", b"body", type="Hail")
    frame = charlie.open(PEER, data)
    read = (frame.version, frame.run, frame.kind, frame.type, frame.body)
    assert read == (WIRE_VERSION, RUN, "message", "Hail", b"body")
    assert (frame.source, frame.to, frame.size) == (PEER, CHARLIE, len(data))


def test_a_frame_made_by_hand_is_the_endpoints(ends: dict[str, Endpoint], header: Header) -> None:
    assert header.sealed() == ends[PEER].seal(CHARLIE, "message", b"body", type="Hail")


def test_each_direction_and_each_hop_counts_for_itself(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    for i in range(3):
        charlie.open(PEER, ends[PEER].seal(CHARLIE, "beat", b""))
        if i:
            charlie.open(BOB, ends[BOB].seal(CHARLIE, "beat", b""))
        ends[BOB].open(CHARLIE, charlie.seal(BOB, "message", b"x"))


def test_a_sealed_message_goes_out_to_one_or_all_and_is_passed_on(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    for to in (BOB, PARTIES):
        frame = charlie.open(PEER, ends[PEER].seal(CHARLIE, "sealed", b"box", type="Hail", to=to))
        assert (frame.source, frame.to) == (PEER, to)
    frame = ends[BOB].open(CHARLIE, charlie.seal(BOB, "sealed", b"box", type="Hail", source=PEER))
    assert (frame.source, frame.to, frame.body) == (PEER, BOB, b"box")


def test_hellos_stand_outside_the_numbering(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    hello = ends[PEER].seal(CHARLIE, "hello", b"")
    assert hello == ends[PEER].seal(CHARLIE, "hello", b"")
    charlie.open(PEER, hello)
    charlie.open(PEER, hello)
    charlie.open(PEER, ends[PEER].seal(CHARLIE, "message", b""))
    charlie.open(PEER, hello)
    charlie.open(PEER, ends[PEER].seal(CHARLIE, "message", b""))


# --- Numbers -------------------------------------------------------------------


def test_a_replayed_frame_is_refused(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    first = ends[PEER].seal(CHARLIE, "message", b"one")
    charlie.open(PEER, first)
    violation(lambda: charlie.open(PEER, first))
    charlie.open(PEER, ends[PEER].seal(CHARLIE, "message", b"two"))
    violation(lambda: charlie.open(PEER, first))


def test_a_lost_or_reordered_frame_is_noticed(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    first, second = (ends[PEER].seal(CHARLIE, "message", body) for body in (b"one", b"two"))
    assert "0 is due" in violation(lambda: charlie.open(PEER, second)).message
    charlie.open(PEER, first)
    charlie.open(PEER, second)


def test_a_refused_frame_does_not_move_the_count(charlie: Endpoint, header: Header) -> None:
    for bad in (header.sealed(seq=1), header.sealed(dst=BOB), header.sealed(v=True), b""):
        violation(partial(charlie.open, PEER, bad))
    charlie.open(PEER, header.sealed())


def test_a_frame_too_long_is_not_sealed_and_not_counted(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    with raises(LocalProtocolError, "frame_too_long"):
        ends[PEER].seal(CHARLIE, "message", bytes(MAX_BODY))
    charlie.open(PEER, ends[PEER].seal(CHARLIE, "message", b""))


def test_the_longest_frame_passes(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    spare = len(ends[PEER].seal(CHARLIE, "hello", bytes(70_000))) - 70_000
    data = ends[PEER].seal(CHARLIE, "message", bytes(MAX_FRAME - spare - 2))  # "message" is two letters longer
    assert len(data) == MAX_FRAME
    charlie.open(PEER, data)
    assert str(MAX_FRAME + 1) in violation(lambda: charlie.open(PEER, data + b"\0")).message


# --- Broadcasts -----------------------------------------------------------------


def test_a_broadcast_is_made_once_and_opens_at_every_party(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    charlie.seal(BOB, "message", b"")  # so that the hops' numbers differ
    ends[BOB]._next_in[CHARLIE] = 1
    for _ in range(3):
        data = charlie.broadcast("message", b"news", type="News")
        for name in (PEER, BOB):
            frame = ends[name].open(CHARLIE, data)
            assert (frame.source, frame.to, frame.broadcast, frame.body) == (CHARLIE, PARTIES, True, b"news")
            alone = ends[name].open(CHARLIE, charlie.seal(name, "message", b"", type="Hail"))
            assert not alone.broadcast


def test_a_broadcast_opens_once(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    data = charlie.broadcast("message", b"news", type="News")
    ends[BOB].open(CHARLIE, data)
    assert "broadcast 0, but 1 is due" in violation(lambda: ends[BOB].open(CHARLIE, data), CHARLIE).message
    ends[BOB].open(CHARLIE, charlie.broadcast("message", b"more", type="News"))
    violation(lambda: ends[BOB].open(CHARLIE, data), CHARLIE)


def _four(charlie: Endpoint) -> list[bytes]:
    return [
        charlie.seal(BOB, "message", b"0", type="Hail"),
        charlie.broadcast("message", b"1", type="News"),
        charlie.seal(BOB, "message", b"2", type="Hail"),
        charlie.broadcast("message", b"3", type="News"),
        charlie.seal(BOB, "message", b"4", type="Hail"),
    ]


def _all_open(end: Endpoint, frames: list[bytes]) -> bool:
    try:
        return all(end.open(CHARLIE, data) for data in frames)
    except ProtocolViolation as error:
        assert error.peer == CHARLIE  # noqa: PT017 - for both outcomes
        return False


def test_single_frames_and_broadcasts_open_in_their_one_order_and_none_can_be_left_out() -> None:
    frames = _four(endpoints(PEER, BOB)[CHARLIE])
    orders = [order for k in (4, 5) for order in permutations(range(5), k) if k == 5 or 4 in order]
    opened = [order for order in orders if _all_open(endpoints(PEER, BOB)[BOB], [frames[i] for i in order])]
    assert opened == [(0, 1, 2, 3, 4)]


def test_another_partys_frame_is_no_broadcast_nor_is_ones_own(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    for_bob = charlie.seal(BOB, "message", b"news", type="News")
    violation(lambda: ends[PEER].open(CHARLIE, for_bob), CHARLIE)
    assert not ends[BOB].open(CHARLIE, for_bob).broadcast


def test_only_charlie_broadcasts(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    with raises(LocalProtocolError, "frame_for_all_refused", "mallory"):
        ends[PEER].broadcast("message", b"news")
    violation(lambda: charlie.open(PEER, Header(PEER, CHARLIE).sealed(dst=PARTIES)))
    violation(lambda: charlie.open(PEER, Header(PEER, CHARLIE).sealed(dst=PARTIES, src=CHARLIE)))
    news = charlie.broadcast("message", b"news")
    violation(lambda: charlie.open(PEER, news))  # sent back to him


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({}, True),
        ({"kind": "roster"}, True),
        ({"kind": "closed"}, True),
        ({"kind": "beat"}, False),
        ({"kind": "abort"}, False),
        ({"kind": "hello"}, False),
        ({"kind": "sealed"}, False),
        ({"src": PEER}, False),
        ({"src": PARTIES}, False),
        ({"seq": 1}, False),
        ({"kind": "roster", "dst": BOB}, False),
        ({"kind": "hellos"}, False),
    ],
    ids=str,
)
def test_what_charlie_may_tell_all(ends: dict[str, Endpoint], changes: dict[str, object], good: bool) -> None:
    data = Header(CHARLIE, PARTIES).sealed(**changes)
    if good:
        assert ends[BOB].open(CHARLIE, data).broadcast
    else:
        violation(lambda: ends[BOB].open(CHARLIE, data), CHARLIE)


def test_a_frame_that_another_shows_opens_whatever_its_number(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    first, second = (ends[PEER].seal(CHARLIE, "message", body) for body in (b"one", b"two"))
    assert charlie.open(PEER, second, numbered=False).body == b"two"
    charlie.open(PEER, first)


def counted(end: Endpoint, hop: str, data: bytes) -> bool:
    return end.count(hop, end.open(hop, data, numbered=False))


def test_a_frame_that_comes_again_is_known_and_another_in_its_place_is_its_signers_fault() -> None:
    frames = _four(endpoints(PEER, BOB)[CHARLIE])
    bob, liar = endpoints(PEER, BOB)[BOB], endpoints(PEER, BOB)[CHARLIE]
    assert [counted(bob, CHARLIE, data) for data in (*frames[:3], *frames, *frames)] == [True] * 3 + (
        [False] * 3 + [True] * 2 + [False] * 5
    )
    others = (liar.seal(BOB, "message", b"?", type="Hail"), liar.broadcast("message", b"?", type="News"))
    for data in others:
        assert says(violation(partial(counted, bob, CHARLIE, data), CHARLIE).message, "two_frames_one_place")


def test_frames_that_are_long_past_are_ignored_and_few_are_kept() -> None:
    ends = endpoints(PEER)
    frames = [ends[PEER].seal(CHARLIE, "message", bytes(100_000 * (i % 2))) for i in range(200)]
    assert all(counted(ends[CHARLIE], PEER, data) for data in frames)
    assert not any(counted(ends[CHARLIE], PEER, data) for data in frames)
    assert sum(kept.size for kept in ends[CHARLIE]._recent[PEER]) < 5_000_000


@pytest.mark.parametrize("kind", ["hello", "beat", "abort"])
def test_what_counts_for_the_moment_has_no_number(charlie: Endpoint, header: Header, kind: str) -> None:
    for _ in range(2):
        assert not charlie.open(PEER, header.sealed(kind=kind)).numbered
    assert "has none" in violation(lambda: charlie.open(PEER, header.sealed(kind=kind, seq=1))).message


# --- Lengths ----------------------------------------------------------------------


def test_a_frames_length_does_not_depend_on_names_or_numbers() -> None:
    lengths = set()
    for name in ("a", "b" * 32, "hospital-of-the-holy-ghost"):
        ends = endpoints(name, "c" * len(name))
        for _ in range(300):
            out = ends[name].seal(CHARLIE, "message", b"body", type="Hail")
            back = ends[CHARLIE].seal(name, "message", b"body", type="Hail")
            to_all = ends[CHARLIE].broadcast("message", b"body", type="Hail")
            lengths |= {len(out), len(back), len(to_all)}
    assert len(lengths) == 1


# --- Forms ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"v": True},
        {"v": 5.0},
        {"v": "5"},
        {"v": 0},
        {"v": 3},
        {"v": 4},
        {"v": -1},
        {"v": None},
        {"run": bytes(16)},
        {"run": RUN[:15]},
        {"run": RUN + b"\0"},
        {"run": RUN.hex()[:16]},
        {"run": None},
        {"src": BOB},
        {"src": CHARLIE},
        {"src": ""},
        {"src": PARTIES},
        {"src": PEER.encode()},
        {"src": "x" * 33},
        {"dst": BOB},
        {"dst": PEER},
        {"dst": PARTIES},
        {"dst": ""},
        {"kind": "shout"},
        {"kind": ""},
        {"kind": b"message"},
        {"kind": 0},
        {"seq": True},
        {"seq": False},
        {"seq": 0.0},
        {"seq": -1},
        {"seq": 2**53},
        {"seq": "0"},
        {"type": b"Hail"},
        {"type": "x" * 65},
        {"type": None},
        {"body": "body"},
        {"body": None},
        {"body": (1,)},
        {"body": {"a": b""}},
        {"extra": 1},
        {"kind": "sealed"},
        {"kind": "sealed", "dst": PEER},
        {"kind": "sealed", "src": BOB},
        {"kind": "sealed", "src": BOB, "dst": PEER},
        {"kind": "sealed", "src": PARTIES, "dst": BOB},
        {"kind": "hello", "src": BOB},
        {"kind": "hello", "seq": 1},
    ],
    ids=str,
)
def test_a_signed_header_that_is_wrong_names_the_hop_and_nobody_else(
    charlie: Endpoint, header: Header, changes: dict[str, object]
) -> None:
    error = violation(lambda: charlie.open(PEER, header.sealed(**changes)))
    assert BOB not in error.message
    charlie.open(PEER, header.sealed())


@pytest.mark.parametrize("text", ["canary-canary", "\x1b[2Jcanary\n2026 INFO all is well"])
@pytest.mark.parametrize("field", ["src", "dst", "kind", "type", "body", "run"])
def test_a_header_cannot_write_into_our_log(charlie: Endpoint, header: Header, field: str, text: str) -> None:
    error = violation(lambda: charlie.open(PEER, header.sealed(**{"seq": 5, field: text})))
    assert "canary" not in f"{error} {error!r}"
    assert error.__cause__ is None


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({"src": CHARLIE, "dst": BOB}, True),
        ({"src": PEER, "dst": BOB, "kind": "sealed"}, True),
        ({"src": PEER, "dst": BOB}, False),  # only sealed messages are passed on
        ({"src": CHARLIE, "dst": BOB, "kind": "sealed"}, False),  # Charlie has no voice of his own there
        ({"src": BOB, "dst": BOB, "kind": "sealed"}, False),  # reflected
        ({"src": PARTIES, "dst": BOB, "kind": "sealed"}, False),
        ({"src": PEER, "dst": PEER, "kind": "sealed"}, False),  # meant for another
        ({"src": CHARLIE, "dst": PEER, "kind": "sealed"}, False),
        ({"src": CHARLIE, "dst": PEER}, False),
        ({"src": PEER, "dst": PARTIES, "kind": "sealed"}, False),
        ({"src": PEER, "dst": BOB, "kind": "abort"}, False),
    ],
    ids=str,
)
def test_what_charlie_may_say_to_a_party(ends: dict[str, Endpoint], changes: dict[str, str], good: bool) -> None:
    data = Header(CHARLIE, BOB).sealed(**changes)
    if good:
        ends[BOB].open(CHARLIE, data)
    else:
        violation(lambda: ends[BOB].open(CHARLIE, data), CHARLIE)


def test_other_msgpack_under_a_good_signature_is_refused(charlie: Endpoint, header: Header) -> None:
    packed = header.sealed()[64:]
    fields = list(msgpack.unpackb(packed))
    for data in (
        b"",
        b"\xc0",
        msgpack.packb(dict(zip(header.fields, fields, strict=True))),
        msgpack.packb(list(reversed(fields))),
        msgpack.packb(fields[:-1]),
        msgpack.packb([*fields, 1]),
        msgpack.packb([fields]),
        packed + b"\0",
        packed[:-1],
        b"\xdc\0\x08" + packed[1:],
        packed[:1] + b"\xcc\x04" + packed[2:],
        msgpack.packb([*fields[:-1], None])[:-1] + b"\x91" * 10_000 + b"\xc0",
        b"\x91" * 100,
    ):
        violation(partial(charlie.open, PEER, header.signed(data)))


# --- Signatures ----------------------------------------------------------------


def test_an_empty_extension_is_no_header() -> None:
    """It is unpacked to a tuple, whatever the bounds are."""
    violation(lambda: read_header(msgpack.packb(msgpack.ExtType(1, b"")), PEER))


def test_no_bit_can_be_changed(charlie: Endpoint, header: Header) -> None:
    good = header.sealed()
    for bad in (*flips(good), *cuts(good)):
        violation(partial(charlie.open, PEER, bad))
    charlie.open(PEER, good)


def test_a_frame_signed_by_another_is_refused(charlie: Endpoint, ends: dict[str, Endpoint]) -> None:
    for signer in (BOB, CHARLIE, "stranger"):
        forged = Header(signer, CHARLIE).sealed(src=PEER)
        violation(partial(charlie.open, PEER, forged))
    # What one hop signed does not pass on another, with its own source or not.
    violation(lambda: charlie.open(BOB, ends[PEER].seal(CHARLIE, "message", b"")), BOB)


def test_ones_own_frame_does_not_come_back(charlie: Endpoint) -> None:
    mine = charlie.seal(PEER, "message", b"")
    violation(lambda: charlie.open(PEER, mine))


def test_a_frame_of_another_run_is_refused_unless_a_hello_may_be_of_any(ends: dict[str, Endpoint]) -> None:
    other = endpoints(PEER, BOB, run=bytes(16))
    charlie = ends[CHARLIE]
    violation(lambda: charlie.open(PEER, other[PEER].seal(CHARLIE, "message", b"")))
    hello = other[PEER].seal(CHARLIE, "hello", b"study hashes")
    violation(lambda: charlie.open(PEER, hello))
    frame = charlie.open(PEER, hello, any_run=True)
    assert (frame.run, frame.version) == (bytes(16), WIRE_VERSION)
    assert charlie.open(PEER, Header(PEER, CHARLIE).sealed(kind="hello", v=5), any_run=True).version == 5
    # Everything else is checked all the same.
    header = Header(PEER, CHARLIE)
    for bad in (header.sealed(kind="hello", src=BOB), header.sealed(kind="hello", v=True), hello[:-1] + b"x"):
        with pytest.raises(ProtocolViolation):
            charlie.open(PEER, bad, any_run=True)

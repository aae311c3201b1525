"""Frames: signed, numbered, in the right direction, of this run; anything else names the hop."""

from functools import partial

import msgpack
import pytest

from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import MAX_BODY
from masquerade_core.wire.frames import MAX_FRAME, WIRE_VERSION, Endpoint
from masquerade_core.wire.messages import PARTIES
from tests.helpers import PEER, RUN, Header, cuts, endpoints, flips, violation

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
    assert (frame.version, frame.run, frame.kind, frame.type, frame.body) == (2, RUN, "message", "Hail", b"body")
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
    with pytest.raises(LocalProtocolError, match="too long"):
        ends[PEER].seal(CHARLIE, "message", bytes(MAX_BODY))
    charlie.open(PEER, ends[PEER].seal(CHARLIE, "message", b""))


def test_the_longest_frame_passes(ends: dict[str, Endpoint], charlie: Endpoint) -> None:
    spare = len(ends[PEER].seal(CHARLIE, "hello", bytes(70_000))) - 70_000
    data = ends[PEER].seal(CHARLIE, "message", bytes(MAX_FRAME - spare - 2))  # "message" is two letters longer
    assert len(data) == MAX_FRAME
    charlie.open(PEER, data)
    assert str(MAX_FRAME + 1) in violation(lambda: charlie.open(PEER, data + b"\0")).message


# --- Forms ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"v": True},
        {"v": 2.0},
        {"v": "2"},
        {"v": 0},
        {"v": 1},
        {"v": 3},
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
    fields = header.fields
    for data in (
        b"",
        b"\xc0",
        msgpack.packb(tuple(fields.values())),
        msgpack.packb(dict(reversed(fields.items()))),
        msgpack.packb({k: v for k, v in fields.items() if k != "type"}),
        msgpack.packb({k.encode(): v for k, v in fields.items()}),
        msgpack.packb(fields) + b"\0",
        msgpack.packb(fields)[:-1],
        b"\x89" + msgpack.packb(fields)[1:] + b"\xa1v\2",
        b"\xde\0\x08" + msgpack.packb(fields)[1:],
        msgpack.packb({**fields, "body": None})[:-1] + b"\x91" * 10_000 + b"\xc0",
        b"\x91" * 100,
    ):
        violation(partial(charlie.open, PEER, header.signed(data)))


# --- Signatures ----------------------------------------------------------------


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
    assert charlie.open(PEER, Header(PEER, CHARLIE).sealed(kind="hello", v=3), any_run=True).version == 3
    # Everything else is checked all the same.
    header = Header(PEER, CHARLIE)
    for bad in (header.sealed(kind="hello", src=BOB), header.sealed(kind="hello", v=True), hello[:-1] + b"x"):
        with pytest.raises(ProtocolViolation):
            charlie.open(PEER, bad, any_run=True)

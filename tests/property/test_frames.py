"""Laws of frames: they open once and in order, and anything else raises a ProtocolViolation and nothing worse."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from masquerade_core.errors import ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.wire.frames import Endpoint
from tests.helpers import PEER, RUN, Header, endpoints
from tests.property.strategies import QUICK, msgpack_bytes, wire_values

KINDS = ("hello", "roster", "message", "sealed", "beat", "abort", "closed")


def charlie() -> Endpoint:
    return endpoints(PEER, "bob")[CHARLIE]


def opens(end: Endpoint, data: bytes) -> bool:
    try:
        end.open(PEER, data)
    except ProtocolViolation as error:
        assert error.peer == PEER  # noqa: PT017 - a law for both outcomes
        assert PEER in error.message  # noqa: PT017
        return False
    return True


@QUICK
@given(st.lists(st.tuples(st.binary(max_size=40), st.text(max_size=16)), max_size=6))
def test_what_was_sealed_opens_once_in_order(bodies: list[tuple[bytes, str]]) -> None:
    ends = endpoints(PEER, "bob")
    sealed = [ends[PEER].seal(CHARLIE, "message", body, type=kind) for body, kind in bodies]
    for data, (body, kind) in zip(sealed, bodies, strict=True):
        frame = ends[CHARLIE].open(PEER, data)
        assert (frame.body, frame.type, frame.size) == (body, kind, len(data))
    assert not any(opens(ends[CHARLIE], data) for data in sealed)


@QUICK
@given(st.permutations(range(4)))
def test_another_order_stops_at_the_first_that_is_not_due(order: list[int]) -> None:
    ends = endpoints(PEER, "bob")
    sealed = [ends[PEER].seal(CHARLIE, "message", bytes((i,))) for i in range(4)]
    due = 0
    for i in order:
        assert opens(ends[CHARLIE], sealed[i]) == (i == due)
        due += i == due


@QUICK
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_no_byte_can_be_changed(at: int, by: int) -> None:
    good = bytearray(Header(PEER, CHARLIE).sealed())
    good[at % len(good)] ^= by
    assert not opens(charlie(), bytes(good))


@QUICK
@given(st.binary(max_size=200) | msgpack_bytes())
def test_garbage_does_not_open_signed_or_not(data: bytes) -> None:
    assert not opens(charlie(), data)
    assert not opens(charlie(), Header(PEER, CHARLIE).signed(data))


@QUICK
@given(
    st.dictionaries(st.sampled_from(list(Header(PEER, CHARLIE).fields)), wire_values, min_size=1, max_size=3),
    st.sampled_from(KINDS),
)
@example({"seq": 0}, "hello")  # a good one
def test_a_header_of_any_values_is_the_good_one_or_refused(changes: dict[str, Any], kind: str) -> None:
    header = Header(PEER, CHARLIE)
    fields = {**header.fields, "kind": kind, **changes}
    good = (
        [type(v) for v in fields.values()] == [int, bytes, str, str, str, int, str, bytes]
        and (fields["v"], fields["run"], fields["src"], fields["seq"]) == (header.fields["v"], RUN, PEER, 0)
        and fields["kind"] in KINDS
        and (fields["dst"] == CHARLIE) == (fields["kind"] != "sealed")
        and fields["dst"] != PEER
        and len(fields["dst"]) <= 32
    )
    assert opens(charlie(), header.sealed(**fields)) == good

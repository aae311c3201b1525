"""Laws of the codec: each value has one encoding, and everything else raises a ProtocolViolation."""

from typing import Annotated

import msgpack
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field

from masquerade_core.errors import ProtocolViolation
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import (
    Message,
    Name,
    decode,
    encode,
    numbers,
    open_envelope,
    pack_envelope,
    pack_numbers,
    pack_plain,
    unpack_plain,
    unpack_strict,
)
from masquerade_core.wire.frames import Frame, pack_boxes, split_boxes
from tests.helpers import PEER, RUN
from tests.property.strategies import QUICK, msgpack_bytes, plain, wire_values


class Everything(Message):
    number: Annotated[int, Field(ge=-5, le=2**40)]
    name: Name
    raw: Annotated[bytes, Field(max_length=30)]
    row: tuple[int, ...]
    sure: bool


class Coded(Message):
    terms: Ciphertexts
    pair: tuple[bytes, str]


messages = st.builds(
    Everything,
    number=st.integers(-5, 2**40),
    name=st.from_regex(r"[a-z0-9][a-z0-9-]{0,31}", fullmatch=True),
    raw=st.binary(max_size=30),
    row=st.lists(st.integers(-(2**63), 2**64 - 1), max_size=5).map(tuple),
    sure=st.booleans(),
)


@QUICK
@given(messages)
def test_a_message_comes_back(message: Everything) -> None:
    assert decode(Everything, encode(message, "bob"), PEER) == message


@QUICK
@given(wire_values)
def test_what_is_on_the_wire_comes_back(value: object) -> None:
    assert unpack_strict(msgpack.packb(value), PEER) == value


@QUICK
@given(msgpack_bytes() | st.binary(max_size=64))
@example(b"\xc7\0\5")
@example(b"\x92\xc7\0\5\xa0")
def test_only_violations_escape_and_what_passes_is_canonical(data: bytes) -> None:
    try:
        value = unpack_strict(data, PEER)
    except ProtocolViolation as error:
        assert error.peer == PEER  # noqa: PT017 - a law for both outcomes
    else:
        assert msgpack.packb(value) == data
        assert not _has(value, (float, msgpack.ExtType, msgpack.Timestamp, list))


def _has(value: object, kinds: tuple[type, ...]) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return isinstance(value, kinds) or any(_has(v, kinds) for v in inner)


@QUICK
@given(msgpack_bytes() | st.binary(max_size=64) | wire_values.map(msgpack.packb))
def test_only_violations_escape_from_decoding_and_splitting(data: bytes) -> None:
    sealed = Frame(1, RUN, PEER, "*", "sealed", "Hail", data, len(data), numbered=True, broadcast=False)
    for read in (
        lambda: decode(Everything, data, PEER),
        lambda: decode(Coded, data, PEER),
        lambda: split_boxes(sealed, ("alice", PEER, "zoe")),
    ):
        try:
            read()
        except ProtocolViolation as error:
            assert error.peer == PEER  # noqa: PT017 - most of these are violations, but not all


@QUICK
@given(st.fixed_dictionaries(dict.fromkeys(("number", "name", "raw", "row", "sure"), wire_values)))
def test_fields_of_any_type_never_confuse(fields: dict[str, object]) -> None:
    try:
        message = decode(Everything, msgpack.packb(fields), PEER)
    except ProtocolViolation as error:
        assert error.peer == PEER  # noqa: PT017
    else:
        assert message.model_dump() == fields
        assert [type(v) for v in message.model_dump().values()] == [int, str, bytes, tuple, bool]


@QUICK
@given(plain)
def test_plain_data_comes_back(value: object) -> None:
    assert unpack_plain(pack_plain(value)) == value
    assert pack_plain(unpack_plain(pack_plain(value))) == pack_plain(value)


@QUICK
@given(st.lists(st.integers(0, 2**128 - 1), max_size=6), st.integers(16, 40))
def test_numbers_come_back(values: list[int], width: int) -> None:
    raw = pack_numbers(values, width)
    assert len(raw) == width * len(values)
    assert numbers(raw, width, len(values), PEER) == tuple(values)


turns = st.tuples(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8), st.integers(0, 2**40))


@QUICK
@given(turns, turns, st.binary(max_size=50))
def test_an_envelope_opens_in_its_own_turn_alone(
    turn: tuple[str, str, str, int], other: tuple[str, str, str, int], body: bytes
) -> None:
    sealed = pack_envelope(*turn, body)
    assert open_envelope(sealed, PEER, turn) == body
    if turn != other:
        try:
            open_envelope(sealed, PEER, other)
        except ProtocolViolation:
            return
        raise AssertionError(other)


@QUICK
@given(st.binary(max_size=20), st.integers(2, 6))
def test_boxes_come_apart_as_they_were_put_together(box: bytes, K: int) -> None:
    names = tuple(f"p{j}" for j in range(K))
    boxes = tuple(bytes((j,)) + box for j in range(K - 1))
    frame = Frame(1, RUN, "p0", "*", "sealed", "Hail", pack_boxes(boxes), 0, numbered=True, broadcast=False)
    assert split_boxes(frame, names) == tuple(zip(names[1:], boxes, strict=True))

"""The codec: bounded, canonical, and silent about what it refused."""

import tracemalloc
from functools import partial
from typing import Annotated, Any

import msgpack
import pytest
from pydantic import Field, ValidationError

from masquerade_core.crypto.paillier import Fresh, FullPool
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import (
    MAX_BODY,
    PARTIES,
    Message,
    Name,
    SealedMessage,
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
from tests.helpers import PEER, cuts, either, flips, keeps_its_secret, secret_key, violation
from tests.messages import raises

CANARY = "canary-canary"


class Empty(Message):
    pass


class Hail(Message):
    number: Annotated[int, Field(ge=0, lt=1000)]
    word: Annotated[str, Field(max_length=20)]
    raw: Annotated[bytes, Field(min_length=2, max_length=40)]
    pair: tuple[int, int]
    sure: bool


class Coded(SealedMessage):
    terms: Ciphertexts


GOOD: dict[str, Any] = {"number": 7, "word": "hail", "raw": b"ab", "pair": (1, 2), "sure": True}


def body(**changes: Any) -> bytes:
    return bytes(msgpack.packb({**GOOD, **changes}))


# --- Good ----------------------------------------------------------------------


def test_a_message_comes_back_equal_and_encodes_to_the_same_bytes() -> None:
    message = Hail(**GOOD)
    assert encode(message, "bob") == body()
    assert decode(Hail, body(), PEER) == message
    assert encode(decode(Hail, body(), PEER), "eve") == body()
    assert decode(Empty, encode(Empty(), "bob"), PEER) == Empty()


# --- Bad -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"number": True},
        {"number": "7"},
        {"number": b"7"},
        {"number": None},
        {"number": -1},
        {"number": 1000},
        {"number": 2**64 - 1},
        {"number": (7,)},
        {"number": {"a": 7}},
        {"word": b"hail"},
        {"word": 7},
        {"word": "x" * 21},
        {"word": None},
        {"raw": "ab"},
        {"raw": b"a"},
        {"raw": bytes(41)},
        {"raw": (97, 98)},
        {"pair": (1,)},
        {"pair": (1, 2, 3)},
        {"pair": (1, True)},
        {"pair": {"0": 1}},
        {"pair": b"\1\2"},
        {"sure": 1},
        {"sure": 0},
        {"sure": "true"},
        {"sure": None},
    ],
    ids=str,
)
def test_a_field_of_another_type_or_out_of_bounds_is_named_without_its_value(changes: dict[str, Any]) -> None:
    error = violation(lambda: decode(Hail, body(**changes), PEER))
    (field,) = changes
    assert "Hail" in error.message
    assert field in error.message


@pytest.mark.parametrize("field", GOOD)
@pytest.mark.parametrize("wrong", [CANARY * 5, CANARY.encode() * 5, (CANARY,), {CANARY: 1}, {"a": {"b": CANARY}}, 0.5])
def test_no_refusal_contains_what_it_refused(field: str, wrong: object) -> None:
    error = violation(lambda: decode(Hail, body(**{field: wrong}), PEER))
    assert CANARY not in f"{error} {error.message} {error.hint} {error!r}"
    # Nor does a traceback show the parser's own error.
    assert error.__cause__ is None
    assert error.__suppress_context__


def _reordered() -> bytes:
    return bytes(msgpack.packb(dict(reversed(GOOD.items()))))


def _pairs(*pairs: tuple[object, object]) -> bytes:
    return bytes([0x80 | len(pairs)]) + b"".join(msgpack.packb(k) + msgpack.packb(v) for k, v in pairs)


@pytest.mark.parametrize(
    "data",
    {
        "nothing": b"",
        "a field too many": body(extra=1),
        "a field too few": msgpack.packb({k: v for k, v in GOOD.items() if k != "sure"}),
        "another order": _reordered(),
        "no map": msgpack.packb(tuple(GOOD.values())),
        "a number": b"\7",
        "nil": b"\xc0",
        "a duplicate key": _pairs(*GOOD.items(), ("sure", True)),
        "a bytes key": _pairs(*list(GOOD.items())[:-1], (b"sure", True)),
        "an int key": _pairs(*list(GOOD.items())[:-1], (4, True)),
        "a canary as key": _pairs(*list(GOOD.items())[:-1], (CANARY, True)),
        "two objects": body() + body(),
    }.items(),
    ids=lambda item: item[0],
)
def test_other_fields_than_declared_are_refused(data: tuple[str, bytes]) -> None:
    assert CANARY not in violation(lambda: decode(Hail, data[1], PEER)).message


def test_every_flipped_bit_and_every_cut_is_refused_or_another_message() -> None:
    seen = 0
    for bad in (*flips(body()), *cuts(body())):
        try:
            message = decode(Hail, bad, PEER)
        except ProtocolViolation as error:
            assert error.peer == PEER  # noqa: PT017 - a flipped bit may make another good message
            seen += 1
        else:
            assert message != Hail(**GOOD)
            assert encode(message, PEER) == bad
    assert seen > 100


# --- msgpack within bounds -----------------------------------------------------

FLOATS = [b"\xca\0\0\0\0", b"\xcb" + bytes(8), b"\xcb\x7f\xf8" + bytes(6), msgpack.packb(1.0)]
EXTENSIONS = [
    b"\xc7\0\5",  # ext 8 of no bytes
    b"\xc8\0\0\5",
    b"\xc9\0\0\0\0\5",
    b"\xc7\0\xff",  # a timestamp of no bytes
    b"\xd4\5a",
    b"\xd6\xff\0\0\0\1",  # a timestamp
    b"\xd8\5" + bytes(16),
]
NOT_CANONICAL = [
    b"\xcc\x07",  # 7 in two bytes
    b"\xcd\0\7",
    b"\xcf" + bytes(7) + b"\7",
    b"\xd0\7",
    b"\xd0\xff",  # -1 in two bytes
    b"\xd9\1a",  # a short string in the long form
    b"\xc5\0\1a",
    b"\xdc\0\1\7",
    b"\xde\0\1\xa1a\7",
]


@pytest.mark.parametrize("raw", [*FLOATS, *EXTENSIONS, *NOT_CANONICAL, b"\xc1", b"\xa1\xff", b"\xa3\xed\xa0\x80"])
def test_what_is_not_on_this_wire_is_refused_wherever_it_stands(raw: bytes) -> None:
    for data in (raw, b"\x91" + raw, b"\x81\xa1a" + raw, b"\x91\x91" + raw):
        violation(partial(unpack_strict, data, PEER))


@pytest.mark.parametrize(
    "value", [0, 127, 128, -1, -33, 2**64 - 1, -(2**63), "", "é", b"", None, True, (), ((1,), "a")]
)
def test_canonical_msgpack_is_accepted(value: object) -> None:
    assert unpack_strict(msgpack.packb(value), PEER) == value


@pytest.mark.parametrize("key", [b"\xc4\1a", b"\7", b"\xc0", b"\xc3", b"\x90", b"\x91\7"])
def test_keys_are_text(key: bytes) -> None:
    assert unpack_strict(b"\x81\xa1a\7", PEER) == {"a": 7}
    violation(lambda: unpack_strict(b"\x81" + key + b"\7", PEER))


def test_depth_is_bounded() -> None:
    for opener in (b"\x91", b"\x81\xa1a"):
        assert unpack_strict(opener * 4 + b"\7", PEER) is not None
        for depth in (5, 6, 100, 2000, 100_000):
            violation(partial(unpack_strict, opener * depth + b"\7", PEER))


def test_length_is_bounded() -> None:
    head = b"\xc6" + (MAX_BODY - 5).to_bytes(4, "big")
    assert len(unpack_strict(head + bytes(MAX_BODY - 5), PEER)) == MAX_BODY - 5
    head = b"\xc6" + (MAX_BODY - 4).to_bytes(4, "big")
    assert str(MAX_BODY) in violation(lambda: unpack_strict(head + bytes(MAX_BODY - 4), PEER)).message


@pytest.mark.parametrize(
    "value",
    [
        tuple(range(4097)),
        (tuple(range(3000)), tuple(range(3000))),
        ({},) * 65,
        "x" * 4097,
        dict.fromkeys(map(str, range(33))),
    ],
    ids=["items", "items of two", "maps", "text", "fields"],
)
def test_counts_are_bounded(value: object) -> None:
    violation(lambda: unpack_strict(msgpack.packb(value), PEER))


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xdc\xff\xff" * 1000,
        b"\xdc\xff\xff" + b"\x80" * 65_535,
        (b"\xdc\x0f\xff" + b"\x80" * 4094) * 100,
        b"\x81" * 100_000,
        b"\xde\0\x20" * 10_000,
    ],
    ids=range(9),
)
def test_no_bytes_cost_much_more_than_their_own_length(data: bytes) -> None:
    tracemalloc.start()
    try:
        violation(lambda: unpack_strict(data, PEER))
        assert tracemalloc.get_traced_memory()[1] < 2**20 + 4 * len(data)
    finally:
        tracemalloc.stop()


# --- Numbers, envelopes, plain data --------------------------------------------


def test_numbers_travel_at_a_fixed_length() -> None:
    raw = pack_numbers((0, 1, 2**64, 2**128 - 1), 16)
    assert len(raw) == 64
    assert numbers(raw, 16, 4, PEER) == (0, 1, 2**64, 2**128 - 1)
    assert numbers(b"", 16, 0, PEER) == ()
    for count in (0, 3, 5):
        violation(partial(numbers, raw, 16, count, PEER))
    for bad in (raw[:-1], raw + b"\0"):
        violation(partial(numbers, bad, 16, 4, PEER))
    for wrong in (-1, 2**128):
        with pytest.raises(OverflowError):
            pack_numbers((wrong,), 16)


TURN = ("alice", "bob", "Hail", 3)


@pytest.mark.parametrize(
    "other",
    [
        ("bob", "alice", "Hail", 3),
        ("eve", "bob", "Hail", 3),
        ("alice", "eve", "Hail", 3),
        ("alice", "bob", "Hello", 3),
        ("alice", "bob", "Hail", 2),
        ("alice", "bob", "Hail", 4),
        ("alicebob", "", "Hail", 3),
        ("alice", "bobHail", "", 3),
    ],
)
def test_an_envelope_opens_in_its_own_turn_alone(other: tuple[str, str, str, int]) -> None:
    assert open_envelope(pack_envelope(*TURN, b"body"), PEER, TURN) == b"body"
    either(lambda: open_envelope(pack_envelope(*other, b"body"), PEER, TURN))


def test_a_cut_or_changed_envelope_is_refused() -> None:
    plain = pack_envelope(*TURN, b"")
    for bad in (*flips(plain), *(plain[:i] for i in range(len(plain)))):
        either(partial(open_envelope, bad, PEER, TURN))


def test_envelopes_are_equally_long_whatever_the_names() -> None:
    lengths = {
        len(pack_envelope(*turn, b"body")) for turn in (TURN, ("a", "b", "X", 0), ("a" * 32, "b" * 32, "Y" * 64, 2**40))
    }
    assert lengths == {20}


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        2**2048 + 1,
        -(2**2048) - 1,
        1.5,
        float("inf"),
        True,
        None,
        "text",
        b"bytes",
        (),
        (1, (2**100, (b"x", -(2**100)))),
        {"a": 2**100, "b": (1, {"c": False})},
        {1: "a"},
    ],
)
def test_plain_data_comes_back_as_it_was(value: object) -> None:
    back = unpack_plain(pack_plain(value))
    assert back == value
    assert type(back) is type(value)
    assert pack_plain(back) == pack_plain(value)


def test_lists_come_back_as_tuples_and_secrets_cannot_be_written_down() -> None:
    assert unpack_plain(pack_plain([1, [2]])) == (1, (2,))
    for secret in (secret_key(), object(), {1, 2}, Hail(**GOOD)):
        with pytest.raises(TypeError):
            pack_plain(secret)


# --- Ciphertexts in messages ---------------------------------------------------


def fresh(to: str, count: int = 2, number: int = 0) -> list[Fresh]:
    key = secret_key(512, number)
    pool = FullPool(key.public, key.obfuscators(SimulationRng(0), count))
    return [pool.encrypt(i, to) for i in range(count)]


def test_ciphertexts_travel_and_open() -> None:
    key = secret_key()
    raw = encode(Coded(terms=Ciphertexts.outgoing(fresh("bob"))), "bob")
    received = decode(Coded, raw, PEER).terms
    assert len(received) == 2 * key.public.ciphertext_bytes
    assert [key.decrypt(c) for c in received.read(key.public, 2, PEER)] == [0, 1]


@pytest.mark.parametrize("to", ["eve", PARTIES, "charlie", ""])
def test_ciphertexts_made_for_one_go_to_no_other(to: str) -> None:
    message = Coded(terms=Ciphertexts.outgoing(fresh("bob")))
    with raises(LocalProtocolError, "ciphertexts_not_fresh", to, ...):
        encode(message, to)
    assert encode(message, "bob")


def test_ciphertexts_are_sent_once() -> None:
    terms = Ciphertexts.outgoing(fresh("bob"))
    encode(Coded(terms=terms), "bob")
    for message in (Coded(terms=terms), Coded(terms=terms).model_copy()):
        with raises(LocalProtocolError, "ciphertexts_not_fresh", "bob", ...):
            encode(message, "bob")


def test_received_ciphertexts_cannot_be_passed_on() -> None:
    received = decode(Coded, encode(Coded(terms=Ciphertexts.outgoing(fresh("bob"))), "bob"), PEER)
    for to in ("bob", "eve", PARTIES, PEER):
        with raises(LocalProtocolError, "ciphertexts_not_fresh", to, ...):
            encode(received, to)
        with raises(LocalProtocolError, "ciphertexts_not_fresh", to, ...):
            encode(Coded(terms=received.terms), to)


def test_a_vector_is_of_one_key_for_one_recipient_and_not_empty() -> None:
    used = fresh("bob")
    Ciphertexts.outgoing(used)
    for mixed in ([], [*fresh("bob"), *fresh("eve")], [*fresh("bob"), *fresh("bob", number=1)], used):
        with pytest.raises(LocalProtocolError):
            Ciphertexts.outgoing(mixed)


def test_a_wrong_number_of_ciphertexts_or_a_bad_one_is_the_senders_fault() -> None:
    key = secret_key().public
    raw = encode(Coded(terms=Ciphertexts.outgoing(fresh("bob"))), "bob")
    received = decode(Coded, raw, PEER).terms
    for count in (0, 1, 3):
        violation(partial(received.read, key, count, PEER))
    for value in (0, key.n, key.n**2, 2**1024 - 1):
        bad = Ciphertexts(value.to_bytes(key.ciphertext_bytes, "big"), None, None)
        violation(partial(bad.read, key, 1, PEER))


@pytest.mark.parametrize("wrong", ["text", 7, None, (b"a",), b"", True])
def test_ciphertexts_are_one_byte_string(wrong: object) -> None:
    assert "terms" in violation(lambda: decode(Coded, msgpack.packb({"terms": wrong}), PEER)).message


def test_messages_show_no_field_and_ciphertexts_are_not_pickled() -> None:
    class Coins(SealedMessage):
        nonce: bytes
        name: Name

    assert "canary" not in f"{Coins(nonce=CANARY.encode(), name=CANARY)!r} {Coins(nonce=CANARY.encode(), name=CANARY)}"
    terms = Ciphertexts.outgoing(fresh("bob", 1))
    raw = encode(Coded(terms=terms), "bob")
    keeps_its_secret(terms, raw[-128:])


def test_a_message_is_frozen_and_its_own_errors_hide_the_input() -> None:
    with pytest.raises(ValidationError) as caught:
        Hail(**GOOD).number = 8  # type: ignore[misc]
    assert caught.value.errors()[0]["type"] == "frozen_instance"
    with pytest.raises(ValidationError) as caught:
        Hail(**{**GOOD, "word": CANARY * 5})
    assert [error["loc"] for error in caught.value.errors()] == [("word",)]
    assert CANARY not in str(caught.value)

"""Words, masks and check values, without a run."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest

from masquerade_core.crypto.masks import CheckKey, Words, as_integers, mask_stream, tagged_hash
from masquerade_core.errors import LocalProtocolError, RunFailed, SumRefused
from masquerade_core.rng import SystemRng
from tests.messages import raises

RNG = SystemRng()
WIDTHS = [(1, 2**30), (5, 2**31 - 1), (700, 2**20), (5, 2**31), (9, 2**60), (700, 2**63 - 1), (3, 2**63), (4, 2**300)]


def _vectors(layout: Words, parties: int) -> list[list[int]]:
    most = layout.bound // parties
    return [[RNG.below(2 * most + 1) - most for _ in range(layout.length)] for _ in range(parties)]


def _contributions(layout: Words, vectors: list[list[int]], key: CheckKey) -> list[tuple[bytes, bytes]]:
    pairs = {pair: RNG.bytes(32) for pair in combinations(range(len(vectors)), 2)}
    return [
        layout.masked(
            layout.encode(vector),
            key.of(vector) + (key.constant if i == 0 else 0),
            [(i == a, pair_key) for (a, b), pair_key in pairs.items() if i in (a, b)],
        )
        for i, vector in enumerate(vectors)
    ]


def test_the_stream_is_rfc_8439s() -> None:
    """Appendix A.1, test vector 2: a key and a nonce of zeros, block 1."""
    expected = (
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    assert mask_stream(bytes(32), 64).hex() == expected
    assert mask_stream(bytes(32), 10).hex() == expected[:20]


def test_a_long_stream_repeats_nothing() -> None:
    stream = mask_stream(RNG.bytes(32), 200_001)
    assert len(stream) == 200_001
    blocks = [stream[i : i + 64] for i in range(0, 200_000, 64)]
    assert len(set(blocks)) == len(blocks)


def test_parts_of_a_hash_cannot_be_moved_between_each_other() -> None:
    assert tagged_hash("a", b"bc", b"d") != tagged_hash("a", b"b", b"cd")
    assert tagged_hash("ab", b"c") != tagged_hash("a", b"bc")
    assert tagged_hash("a", b"b", key=b"k") != tagged_hash("a", b"b")


@pytest.mark.parametrize(("length", "bound"), WIDTHS)
@pytest.mark.parametrize("parties", [1, 2, 5])
def test_the_sum_of_masked_words_is_the_sum(length: int, bound: int, parties: int) -> None:
    layout = Words(length, bound)
    vectors, key = _vectors(layout, parties), CheckKey(layout, RNG.bytes(32))
    sent = _contributions(layout, vectors, key)
    assert {(len(words), len(check)) for words, check in sent} == {(layout.total_bytes, layout.check_bytes)}
    total = as_integers(layout.decode(layout.add(layout.read(words) for words, _ in sent), parties))
    assert total == tuple(map(sum, zip(*vectors, strict=True)))
    check = layout.add_checks(check for _, check in sent)
    assert key.fits(total, check)
    assert not key.fits((total[0] + 1, *total[1:]), check)


def test_words_are_as_short_as_the_bound_allows() -> None:
    assert [Words(d, b).bits for d, b in WIDTHS] == [32, 32, 24, 40, 64, 64, 72, 304]
    assert [Words(1, 2**bits - 1).size for bits in (6, 7, 8, 15, 16, 31, 32, 63, 64)] == [1, 1, 2, 2, 3, 4, 5, 8, 9]
    for bound, size, marks in ((2**30, 4, 2), (2**35, 5, 2), (2**60, 8, 1), (100, 1, 8), (2**20, 3, 3), (2**80, 11, 1)):
        assert Words(123, bound).total_bytes == size * (123 + marks)
    assert not Words(1, 2**513).fits
    assert Words(1, 2**500).fits


@pytest.mark.parametrize(("length", "bound"), [(3, 2**30), (3, 2**60), (3, 2**100)])
def test_the_extremes_are_read_and_more_is_refused(length: int, bound: int) -> None:
    layout = Words(length, bound)
    for vector in ((bound, -bound, 0), (-bound, bound, -1)):
        assert as_integers(layout.decode(layout.encode(vector), 1)) == vector
    for vector in ((bound + 1, 0, 0), (0, 0, -bound - 1)):
        with raises(RunFailed, "masked_sum_too_large"):
            layout.decode(layout.encode(vector), 1)


@pytest.mark.parametrize("bound", [2**30, 2**60, 2**100])
def test_ones_own_vector_never_fails_however_large_it_is(bound: int) -> None:
    """The sum decides: another party's numbers may bring it back into bounds."""
    layout = Words(2, bound)
    huge = [1 << (layout.bits + 5), -(1 << 700)]
    others = [3 - huge[0], 4 - huge[1]]
    assert as_integers(layout.decode(layout.add([layout.encode(huge), layout.encode(others)]), 2)) == (3, 4)


def test_a_vector_of_another_length_is_a_bug() -> None:
    with raises(LocalProtocolError, "mask_vector_length", 3):
        Words(3, 10).encode((1, 2))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_marks_count_contributions(count: int) -> None:
    layout = Words(2, 2**20)
    with raises(RunFailed, "masked_sum_wrong"):
        layout.decode(layout.encode((1, 2)) * 2, count)


@pytest.mark.parametrize("bound", [100, 2**40, 2**70])
def test_every_mark_is_looked_at(bound: int) -> None:
    layout = Words(3, bound)
    sums = layout.add([layout.encode((1, 2, 3))] * 5)
    assert as_integers(layout.decode(sums, 5)) == (5, 10, 15)
    assert layout.marks == {100: 8, 2**40: 2, 2**70: 1}[bound]
    for place in range(layout.marks):
        for wrong in (4, 6):
            other = sums.copy()
            other[place] = wrong
            with raises(SumRefused, "masked_sum_wrong"):
                layout.decode(other, 5)


def test_masked_words_are_uniform_whatever_they_hide() -> None:
    """Chi-squared of the bytes of many maskings of one vector, against 255 degrees of freedom."""
    layout = Words(2, 2**30)
    raw = b"".join(layout.masked(layout.encode((5, -5)), 0, [(True, RNG.bytes(32))])[0] for _ in range(4000))
    counts = np.bincount(np.frombuffer(raw, dtype=np.uint8), minlength=256)
    chi = float(((counts - counts.mean()) ** 2 / counts.mean()).sum())
    assert 150 < chi < 380


def test_a_check_key_shows_nothing_of_itself() -> None:
    key = CheckKey(Words(2, 10), bytes(32))
    assert repr(key) == "<CheckKey: secret>"
    with pytest.raises(TypeError):
        hash(key)


@pytest.mark.parametrize("bound", [2**30, 2**60])
def test_of_10000_forged_sums_none_is_accepted(bound: int) -> None:
    """Random shifts, and those that a coefficient u_a v_b repeated or small would let through."""
    layout = Words(1030, bound)  # three values of u
    total = [RNG.below(2**20) for _ in range(layout.length)]
    key = CheckKey(layout, RNG.bytes(32))
    check = (key.of(total) + key.constant) % layout.prime
    structured = [
        {0: 1},
        {0: 1, 1: -1},
        {0: 1, 512: -1},
        {0: 1, 1: -1, 512: -1, 513: 1},
        dict.fromkeys(range(layout.length), 1),
        {1029: layout.bound},
    ]
    accepted = 0
    for attempt in range(5000):
        shift = structured[attempt] if attempt < len(structured) else {
            RNG.below(layout.length): RNG.below(2**16) + 1 for _ in range(1 + attempt % 3)
        }  # fmt: skip
        forged = total.copy()
        for i, by in shift.items():
            forged[i] += by
        added = 0 if attempt % 2 else int.from_bytes(hashlib.sha256(bytes([attempt % 251])).digest(), "big")
        accepted += key.fits(forged, ((check + added) % layout.prime).to_bytes(16, "little"))
    assert accepted == 0
    assert key.fits(total, check.to_bytes(16, "little"))


def _by_definition(layout: Words, key: bytes, vector: Sequence[int]) -> tuple[int, int]:
    """A vector's check value and the constant, modulo p, in Python's integers and straight from the key's stream."""
    width, rows, half = layout.check_bytes, -(-layout.length // 512), 1 << (layout.bits - 1)
    stream = io.BytesIO(mask_stream(key, width * (1 + rows + min(layout.length, 512))))
    constant, *r = (int.from_bytes(raw, "little") for raw in iter(lambda: stream.read(width), b""))
    u, v = r[:rows], r[rows:]
    held = [(x + half) % (2 * half) - half for x in vector]  # what words hold
    return sum(u[i // 512] * v[i % 512] * x for i, x in enumerate(held)) % layout.prime, constant % layout.prime


SIZES = [2**7 - 1, 2**15 - 1, 2**22, 2**31 - 1, 2**36, 2**47 - 1, 2**55 - 1, 2**63 - 1, 2**63, 2**300]


@pytest.mark.parametrize("bound", SIZES, ids=lambda bound: f"{bound.bit_length()} bits")
@pytest.mark.parametrize("length", [1, 511, 512, 513, 1100, 9000])
def test_check_values_and_sums_are_those_of_pythons_integers(length: int, bound: int) -> None:
    """In words of every length: the extremes of a layout and of its words, numbers beyond them, and any others."""
    layout = Words(length, bound)
    raw = RNG.bytes(32)
    key, word = CheckKey(layout, raw), 1 << layout.bits
    vectors = [
        [bound] * length,
        [-bound] * length,
        [(-1) ** i * (word // 2 - i % 2) for i in range(length)],
        [-word // 2] * length,
        [(-1) ** i * (word * i + 5) for i in range(length)],
        _vectors(layout, 1)[0],
    ]
    if length > 1100:
        vectors = vectors[1:3]
    for vector in vectors:
        check, constant = _by_definition(layout, raw, vector)
        assert (key.of(vector) - check) % layout.prime == 0
        assert (key.constant - constant) % layout.prime == 0
    masks = [(True, RNG.bytes(32)), (False, RNG.bytes(32))]
    for vector, other in pairwise(vectors):
        left, a = layout.masked(layout.encode(vector), key.of(vector), masks)
        right, b = layout.masked(layout.encode(other), key.of(other), [(not adds, mask) for adds, mask in masks])
        words, due = (
            layout.add(map(layout.read, (left, right))),
            [(x + y) % word for x, y in zip(vector, other, strict=True)],
        )
        assert [int(word_) % word for word_ in words] == [2] * layout.marks + due
        assert len(left) == layout.total_bytes
        own = [_by_definition(layout, raw, x)[0] for x in (vector, other)]
        assert int.from_bytes(layout.add_checks((a, b)), "little") == sum(own) % layout.prime
        if all(abs(x + y) <= bound for x, y in zip(vector, other, strict=True)):
            assert as_integers(layout.decode(words, 2)) == tuple(x + y for x, y in zip(vector, other, strict=True))


def test_arrays_have_the_check_values_of_lists() -> None:
    layout = Words(600, 2**40)
    (vector,), key = _vectors(layout, 1), CheckKey(layout, RNG.bytes(32))
    assert key.of(np.array(vector)) == key.of(vector) == key.of(np.array(vector, dtype=object))
    assert layout.encode(np.array(vector)).tolist() == layout.encode(vector).tolist()


@pytest.mark.parametrize("bound", [2**30, 2**40, 2**60])
def test_inner_sums_of_digits_are_exact_at_their_largest(bound: int) -> None:
    """Every bit of v and of each digit is set: no float is rounded, in whatever order it was added up."""
    layout = Words(512, bound)
    key = CheckKey(layout, RNG.bytes(32))
    key._raw = b"\xff" * len(key._raw)
    width = len(key._raw) // 512
    largest = (1 << layout.bits - 1) - 1
    columns = key._in_digits(layout.unsigned([largest] * 512))
    inner = zip(*columns, strict=True)
    row, lift = (sum(number << (32 * place) for place, number in enumerate(each)) for each in inner)
    assert (row - lift - 512 * largest * (2 ** (8 * width) - 1)) % layout.prime == 0
    assert {number.bit_length() for column in columns for number in column} == {64}
    assert key._matrix is not None
    assert (key._matrix.sum(axis=0) * 0xFFFF).max() < 2**53


@pytest.mark.parametrize("bound", [100, 2**22, 2**30, 2**40, 2**60, 2**100])
@pytest.mark.parametrize("length", [3, 40_000])
def test_masks_are_the_keys_streams_piece_by_piece(length: int, bound: int) -> None:
    """In Python's integers, from the streams: no byte of a piece serves twice, and the check value's mask is whole."""
    layout, key = Words(length, bound), RNG.bytes(32)
    size, head = layout.size, layout.check_bytes
    at_once = (65_536 - head) // size
    starts = range(0, layout.words, at_once)
    keys = [tagged_hash("piece", start.to_bytes(8, "big"), key=key) for start in starts] if len(starts) > 1 else [key]
    counts = [min(at_once, layout.words - start) for start in starts]
    streams = [mask_stream(own, head + size * count) for own, count in zip(keys, counts, strict=True)]
    due = [
        int.from_bytes(stream[at : at + size], "little") for stream in streams for at in range(head, len(stream), size)
    ]
    of_check = sum(int.from_bytes(stream[:head], "little") for stream in streams)
    plain = layout.encode([0] * length)
    for adds, sign in ((True, 1), (False, -1)):
        words, check = layout.masked(plain, 5, [(adds, key)])
        ones = [1] * layout.marks + [0] * length
        assert words == b"".join(
            ((one + sign * mask) % (1 << layout.bits)).to_bytes(size, "little")
            for one, mask in zip(ones, due, strict=True)
        )
        assert int.from_bytes(check, "little") == (5 + sign * of_check) % layout.prime


def test_marks_of_short_words_count_modulo_the_word() -> None:
    layout = Words(2, 100)
    assert (layout.size, layout.marks) == (1, 8)
    total = layout.add([layout.encode((0, 0))] * 299 + [layout.encode((5, -100))])
    assert as_integers(layout.decode(total, 300)) == (5, -100)
    with raises(SumRefused, "masked_sum_wrong"):
        layout.decode(total, 299)

"""Packing: signed vectors in slots of a public width, and sums that betray a missing term."""

import inspect
from collections.abc import Sequence

import pytest

from masquerade_core.crypto.packing import ZERO_BITS, Packing
from masquerade_core.crypto.paillier import FullPool
from masquerade_core.errors import LocalProtocolError, RunFailed
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import secret_key
from tests.messages import raises

N = (1 << 511) + 0x5EED * 2 + 1
LAYOUT = Packing(length=30, bound=10**6, modulus_bits=512)


def extremes(layout: Packing) -> list[tuple[int, ...]]:
    b, d = layout.bound, layout.length
    return [
        (b,) * d,
        (-b,) * d,
        (0,) * d,
        tuple(b if i % 2 else -b for i in range(d)),
        tuple(-b if i % 2 else b for i in range(d)),
        (-1,) * d,
        (1,) + (0,) * (d - 1),
        (0,) * (d - 1) + (-b,),
    ]


@pytest.mark.parametrize("length", [1, 2, 20, 21, 22, 123])
@pytest.mark.parametrize("bound", [1, 2, 7, 8, 2**20 - 1, 2**20, 2**40])
def test_signed_extremes_come_back(length: int, bound: int) -> None:
    layout = Packing(length, bound, 512)
    for vector in extremes(layout):
        assert layout.unpack([v % N for v in layout.pack(vector)], N) == vector


def test_the_first_coordinate_lies_lowest() -> None:
    assert Packing(3, 7, 512).pack((1, -2, 3)) == (1 - (2 << 4) + (3 << 8),)


def test_a_slot_is_as_wide_as_the_bound_and_a_sign_and_no_wider() -> None:
    assert [Packing(1, b, 512).width for b in (1, 2, 3, 4, 7, 8, 2**32)] == [2, 3, 3, 4, 4, 5, 34]


def test_the_layout_follows_from_public_numbers_alone() -> None:
    assert set(inspect.signature(Packing).parameters) == {"length", "bound", "modulus_bits"}
    assert (LAYOUT.width, LAYOUT.per_plaintext, LAYOUT.count) == (21, 21, 2)


def test_guard_and_zero_bits_stay_free_below_n() -> None:
    for bound in range(1, 3000, 7):
        layout = Packing(1000, bound, 512)
        assert layout.per_plaintext * layout.width + 1 + ZERO_BITS <= 511
        assert (layout.per_plaintext + 1) * layout.width + 1 + ZERO_BITS > 511


def test_123_coordinates_of_the_papers_noise_take_three_plaintexts_at_2048_bits() -> None:
    assert Packing(123, 2**44, 2048).count == 3


def test_a_slot_that_does_not_fit_is_refused() -> None:
    with raises(LocalProtocolError, "slot_too_wide"):
        _ = Packing(1, 2**500, 512).count


def test_sums_of_many_packed_vectors_are_the_packed_sums() -> None:
    K, layout = 50, Packing(30, 50 * 1000, 512)
    rng = SimulationRng(1)
    vectors = [tuple(rng.below(2001) - 1000 for _ in range(30)) for _ in range(K)]
    sums = [sum(column) % N for column in zip(*map(layout.pack, vectors), strict=True)]
    assert layout.unpack(sums, N) == tuple(map(sum, zip(*vectors, strict=True)))


def test_sums_that_reach_the_bound_do_not_carry() -> None:
    K = 8
    layout = Packing(30, K * 999, 512)
    for sign in (1, -1):
        sums = [K * v % N for v in layout.pack(tuple(sign * 999 * (-1) ** i for i in range(30)))]
        assert layout.unpack(sums, N) == tuple(sign * K * 999 * (-1) ** i for i in range(30))


@pytest.mark.parametrize("vector", [(0,) * 29, (0,) * 31, ()])
def test_a_vector_of_another_length_is_refused(vector: tuple[int, ...]) -> None:
    for pack in (LAYOUT.pack, LAYOUT.pack_exponents):
        with raises(LocalProtocolError, "packed_vector_length", 30):
            pack(vector)


BEYOND = [1, 2**20, 2**21 + 5, 2**64, 2**700]  # of the bound's million, of a slot's 21 bits, of a plaintext


@pytest.mark.parametrize("far", BEYOND)
@pytest.mark.parametrize("sign", [1, -1])
def test_vectors_beyond_the_bound_add_up_all_the_same(far: int, sign: int) -> None:
    """Packing is linear whatever the numbers: what is opened follows from the sum of all vectors alone."""
    far = sign * (10**6 + far)
    total = tuple(7 * i - 100 for i in range(30))
    for others in ((far,) * 30, (far,) + (0,) * 29, (0,) * 29 + (far,), tuple(far * (-1) ** i for i in range(30))):
        own = [t - o for t, o in zip(total, others, strict=True)]
        assert LAYOUT.pack(tuple(own)) != LAYOUT.pack(total)
        opened = [(a + b) % N for a, b in zip(LAYOUT.pack(own), LAYOUT.pack(others), strict=True)]
        assert LAYOUT.unpack(opened, N) == total
        exponents = [(a + b) % N for a, b in zip(*map(LAYOUT.pack_exponents, (own, others)), strict=True)]
        assert LAYOUT.unpack([e - 2 * o for e, o in zip(exponents, LAYOUT.exponent_offsets(), strict=True)], N) == total


def _each_by_itself(layout: Packing, vector: Sequence[int]) -> tuple[int, ...]:
    """Reduce each coordinate to its slot by itself, before it is packed: what must not be done."""
    full, half = 1 << layout.width, layout.offset
    return layout.pack([(v + half) % full - half for v in vector])


@pytest.mark.parametrize("linear", [True, False])
def test_how_a_total_came_about_does_not_show(linear: bool) -> None:
    """Two pairs of vectors have one sum, far beyond the bound. If each were reduced by itself, carries would differ."""
    pack = LAYOUT.pack if linear else lambda v: _each_by_itself(LAYOUT, v)
    b = LAYOUT.bound
    splits = [((9 * b,) * 30, (b,) * 30), ((5 * b,) * 30, (5 * b,) * 30), ((b // 2,) * 30, (10 * b - b // 2,) * 30)]
    opened = {tuple((a + c) % N for a, c in zip(pack(x), pack(y), strict=True)) for x, y in splits}
    assert (len(opened) == 1) is linear


def test_a_total_beyond_the_bound_is_noticed_where_it_is_opened() -> None:
    marked = [v + mark for v, mark in zip(LAYOUT.pack((2**700 + 3,) * 30), LAYOUT.mark(), strict=True)]
    with raises(RunFailed, "share_missing_or_wrong"):
        LAYOUT.unpack([v % N for v in marked], N, contributors=1)


# --- Exponents -----------------------------------------------------------------


def test_all_exponents_have_one_length_whatever_the_values() -> None:
    lengths = {tuple(e.bit_length() for e in LAYOUT.pack_exponents(v)) for v in extremes(LAYOUT)}
    assert lengths == {(21 * 21 + 1, 9 * 21 + 1)}


def test_without_the_offset_lengths_and_signs_would_show() -> None:
    assert len({tuple(p.bit_length() for p in LAYOUT.pack(v)) for v in extremes(LAYOUT)}) > 3
    assert min(p for v in extremes(LAYOUT) for p in LAYOUT.pack(v)) < 0
    assert min(e for v in extremes(LAYOUT) for e in LAYOUT.pack_exponents(v)) > 0


def test_exponents_less_their_public_offset_are_the_packed_vector() -> None:
    for vector in extremes(LAYOUT):
        less = [e - o for e, o in zip(LAYOUT.pack_exponents(vector), LAYOUT.exponent_offsets(), strict=True)]
        assert tuple(less) == LAYOUT.pack(vector)


def test_exponents_select_under_encryption() -> None:
    key, layout = secret_key(), Packing(30, 10**6, 512)
    n = key.public.n
    vectors = extremes(layout)[:3]
    pool = FullPool(key.public, key.obfuscators(SimulationRng(2), 3))
    picks = [key.public.read(pool.encrypt(int(j == 1), "x").use(), "x") for j in range(3)]
    rows = [pick.powers(layout.pack_exponents(v)) for pick, v in zip(picks, vectors, strict=True)]
    total = [sum(column[1:], start=column[0]) for column in zip(*rows, strict=True)]
    opened = [key.decrypt(c) - o for c, o in zip(total, layout.exponent_offsets(), strict=True)]
    assert layout.unpack(opened, n) == vectors[1]


# --- What a missing term does --------------------------------------------------


def test_blinds_that_cancel_leave_the_sum_and_a_missing_one_raises() -> None:
    rng = SimulationRng(3)
    for vector in extremes(LAYOUT):
        for _ in range(25):
            blinds = [rng.below(N) for _ in range(LAYOUT.count)]
            blinded = [(v + s) % N for v, s in zip(LAYOUT.pack(vector), blinds, strict=True)]
            assert LAYOUT.unpack([b - s for b, s in zip(blinded, blinds, strict=True)], N) == vector
            with raises(RunFailed, "share_missing_or_wrong"):
                LAYOUT.unpack(blinded, N)


def test_one_wrong_plaintext_among_several_is_enough() -> None:
    good = [v % N for v in LAYOUT.pack((5,) * 30)]
    for at in range(LAYOUT.count):
        bad = list(good)
        bad[at] = (bad[at] + (N >> 1)) % N
        with pytest.raises(RunFailed):
            LAYOUT.unpack(bad, N)


def test_the_zero_bits_are_all_looked_at() -> None:
    (good,) = Packing(21, 10**6, 512).pack((0,) * 21)
    top = 21 * 21
    for bit in range(top, 510):
        with pytest.raises(RunFailed):
            Packing(21, 10**6, 512).unpack([good + (1 << bit)], N)

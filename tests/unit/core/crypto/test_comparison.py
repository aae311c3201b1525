"""The comparison of two private numbers: right, balanced, and loud about bytes that are no points."""

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest

from masquerade_core.crypto import comparison
from masquerade_core.crypto.comparison import (
    BITS,
    BITS_BYTES,
    ITEMS_BYTES,
    POINT_BYTES,
    DeciderKey,
    check_point,
    evaluate,
)
from masquerade_core.rng import Rng
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import PEER, violation

M33 = 1 << 33
ORDER = 2**252 + 27742317777372353535851937790883648493
EDGES = (0, 1, 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**32 + 1, M33 - 2, M33 - 1)
IDENTITY = (1).to_bytes(32, "little")
BAD_POINTS = {
    "identity": IDENTITY,
    "order 2": (2**255 - 20).to_bytes(32, "little"),
    "order 4": bytes(32),
    "order 8": bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    "not on the curve": (2).to_bytes(32, "little"),
    "not canonical": (2**255 - 18).to_bytes(32, "little"),
    "all ones": b"\xff" * 32,
}


def outcome(rng: Rng, x: int, y: int) -> int:
    """Bit 32 of x - y, as the two find it out."""
    key = DeciderKey(DeciderKey.draw(rng))
    items, clear = evaluate(rng, key.public, key.encrypt_bits(rng, y), x, PEER)
    return key.count_zeros(items, PEER) ^ clear ^ (y >> BITS & 1)


class ToyGroup:
    """The integers modulo the group's order in the place of the points: the same algebra, logarithms in the open."""

    @staticmethod
    def read(point: bytes) -> int:
        return int.from_bytes(point, "little")

    @staticmethod
    def write(value: int) -> bytes:
        return (value % ORDER).to_bytes(32, "little")

    def install(self, patch: pytest.MonkeyPatch) -> None:
        read, write = self.read, self.write
        patch.setattr(comparison, "_add", lambda a, b: write(read(a) + read(b)))
        patch.setattr(comparison, "_times", lambda s, a: write(read(s) * read(a)))
        patch.setattr(comparison, "_base", lambda s: write(read(s)))
        patch.setattr(comparison, "_negate", lambda a: write(-read(a)))
        patch.setattr(comparison, "_ONE", write(1))
        patch.setattr(comparison, "crypto_core_ed25519_is_valid_point", lambda p: len(p) == POINT_BYTES and read(p) > 0)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ToyGroup:
    group = ToyGroup()
    group.install(monkeypatch)
    return group


# --- Right ---------------------------------------------------------------------


def test_all_small_numbers_on_the_real_curve() -> None:
    rng = SimulationRng(0)
    for x, y in product(range(5), repeat=2):
        assert outcome(rng, x, y) == (x < y)


def test_edges_on_the_real_curve() -> None:
    rng = SimulationRng(1)
    for x, y in [
        (0, M33 - 1),
        (2**32 - 1, 2**32),
        (2**32 - 1, 2**32 - 1),
        (M33 - 1, 0),
        (2**32, 0),
        (2**31, 2**31 + 1),
    ]:
        assert outcome(rng, x, y) == (x - y) % M33 >> 32


def test_all_small_numbers_in_both_directions(toy: ToyGroup) -> None:
    rng = SimulationRng(2)
    for x, y, _ in product(range(16), range(16), range(2)):
        assert outcome(rng, x, y) == (x < y)


def test_edges_and_their_neighbours(toy: ToyGroup) -> None:
    rng = SimulationRng(3)
    for x, y in product(EDGES, repeat=2):
        assert outcome(rng, x, y) == (x - y) % M33 >> 32


def test_shares_of_two_sizes_compare_as_the_sizes_whatever_the_wrap_around(toy: ToyGroup) -> None:
    rng = SimulationRng(4)
    sizes = (0, 1, 100, 101, 2**31, 2**32 - 2, 2**32 - 1)
    for n_s, n_t in product(sizes, repeat=2):
        for _ in range(4):
            b_s, b_t = rng.below(M33), rng.below(M33)
            a_s, a_t = n_s - b_s, n_t - b_t
            assert outcome(rng, (a_s - a_t) % M33, (b_t - b_s) % M33) == (n_s < n_t)


# --- Private -------------------------------------------------------------------


@pytest.mark.parametrize(("x", "y"), [(5, 9), (9, 5), (7, 7), (2**32 + 5, 9), (0, 2**32 - 1)])
def test_the_number_of_zeros_and_the_clear_bit_are_balanced(toy: ToyGroup, x: int, y: int) -> None:
    runs, zeros, clears = 300, 0, 0
    key = DeciderKey(DeciderKey.draw(SimulationRng(5)))
    bits = key.encrypt_bits(SimulationRng(6), y)
    for i in range(runs):
        items, clear = evaluate(SimulationRng(i), key.public, bits, x, PEER)
        zeros += key.count_zeros(items, PEER)
        clears += clear
    # 5 sigma of a fair coin.
    assert abs(zeros - runs / 2) < 5 * math.sqrt(runs) / 2
    assert abs(clears - runs / 2) < 5 * math.sqrt(runs) / 2


def _plaintexts(toy: ToyGroup, key: DeciderKey, items: bytes) -> list[int]:
    points = [toy.read(items[i : i + 32]) for i in range(0, ITEMS_BYTES, 32)]
    secret = toy.read(key.public)  # in the toy group a key is its own logarithm
    return [(b - secret * a) % ORDER for a, b in zip(points[::2], points[1::2], strict=True)]


def test_the_zero_stands_anywhere_and_all_else_is_large(toy: ToyGroup) -> None:
    runs, key, rng = 660, DeciderKey(DeciderKey.draw(SimulationRng(7))), SimulationRng(8)
    places: Counter[int] = Counter()
    for _ in range(runs):
        items, _clear = evaluate(rng, key.public, key.encrypt_bits(rng, 1000), 999, PEER)
        plain = _plaintexts(toy, key, items)
        places.update(i for i, m in enumerate(plain) if m == 0)
        # Unblinded, a plaintext lies within 2 + 3 * 32 of zero and tells where the first difference is.
        assert all(min(m, ORDER - m) > 2**128 for m in plain if m)
    expected = places.total() / 33
    assert sum((places[i] - expected) ** 2 / expected for i in range(33)) < 80  # 32 degrees of freedom: p = 6e-6


@pytest.mark.parametrize(("x", "y"), [(0, 0), (2**32 - 1, 2**32 - 1), (0, 2**32 - 1), (12345, 12345)])
def test_all_points_are_distinct(x: int, y: int) -> None:
    rng = SimulationRng(9)
    key = DeciderKey(DeciderKey.draw(rng))
    bits = key.encrypt_bits(rng, y)
    items, _ = evaluate(rng, key.public, bits, x, PEER)
    again, _ = evaluate(rng, key.public, bits, x, PEER)
    points = [raw[i : i + 32] for raw in (bits, items, again) for i in range(0, len(raw), 32)]
    assert len(points) == len(set(points)) == 2 * (BITS + 2 * (BITS + 1))


def test_at_most_one_item_is_zero(toy: ToyGroup) -> None:
    rng = SimulationRng(10)
    key = DeciderKey(DeciderKey.draw(rng))
    for x, y in product(EDGES, repeat=2):
        items, _ = evaluate(rng, key.public, key.encrypt_bits(rng, y), x, PEER)
        assert _plaintexts(toy, key, items).count(0) <= 1


def test_lengths_tell_nothing() -> None:
    rng = SimulationRng(11)
    key = DeciderKey(DeciderKey.draw(rng))
    for x, y in ((0, 0), (M33 - 1, 3)):
        bits = key.encrypt_bits(rng, y)
        items, clear = evaluate(rng, key.public, bits, x, PEER)
        assert (len(bits), len(items)) == (BITS_BYTES, ITEMS_BYTES)
        assert clear in {0, 1}


def test_the_number_of_group_operations_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation takes some 20 microseconds. Their number would show a share's bits to whoever knows the other."""
    counts: Counter[str] = Counter()

    def counted(name: str, operation: Callable[..., bytes]) -> None:
        def count(*args: bytes) -> bytes:
            counts[name] += 1
            return operation(*args)

        monkeypatch.setattr(comparison, name, count)

    for name in ("_add", "_base", "_times", "_negate"):
        counted(name, getattr(comparison, name))
    rng = SimulationRng(13)
    key = DeciderKey(DeciderKey.draw(rng))
    seen = set()
    for x, y in ((0, 0), (M33 - 1, 0), (0xFFFF, 0xFFFF), (0, M33 - 1), (M33 - 1, M33 - 1)):
        for _ in range(4):  # of both directions
            counts.clear()
            evaluate(rng, key.public, key.encrypt_bits(rng, y), x, PEER)
            seen.add(tuple(sorted(counts.items())))
    assert len(seen) == 1


def test_scalars_are_never_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = SimulationRng(12)
    monkeypatch.setattr(rng, "below", lambda n: 0)
    assert comparison._scalar(rng) == IDENTITY  # the number one, little-endian
    monkeypatch.setattr(rng, "below", lambda n: n - 1)
    assert comparison._scalar(rng) == (ORDER - 1).to_bytes(32, "little")


# --- Loud ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def played() -> tuple[DeciderKey, bytes, bytes]:
    rng = SimulationRng(13)
    key = DeciderKey(DeciderKey.draw(rng))
    bits = key.encrypt_bits(rng, 5)
    return key, bits, evaluate(rng, key.public, bits, 9, PEER)[0]


@pytest.mark.parametrize("kind", BAD_POINTS)
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("place", [0, 17, BITS])
def test_an_item_that_is_no_point_is_never_not_zero(
    played: tuple[DeciderKey, bytes, bytes], kind: str, half: int, place: int
) -> None:
    key, _, items = played
    at = 64 * place + 32 * half
    violation(lambda: key.count_zeros(items[:at] + BAD_POINTS[kind] + items[at + 32 :], PEER))


@pytest.mark.parametrize("kind", BAD_POINTS)
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("place", [0, BITS - 1])
def test_a_bit_that_is_no_point_is_the_deciders_fault(
    played: tuple[DeciderKey, bytes, bytes], kind: str, half: int, place: int
) -> None:
    key, bits, _ = played
    at = 64 * place + 32 * half
    changed = bits[:at] + BAD_POINTS[kind] + bits[at + 32 :]
    violation(lambda: evaluate(SimulationRng(0), key.public, changed, 9, PEER))


@pytest.mark.parametrize("kind", BAD_POINTS)
def test_a_key_that_is_no_point_is_refused(kind: str) -> None:
    violation(lambda: check_point(BAD_POINTS[kind], PEER))


@pytest.mark.parametrize("cut", [0, 1, 31, 32, 33, 63, 64, ITEMS_BYTES - 64, ITEMS_BYTES - 32, ITEMS_BYTES - 1])
def test_short_or_long_items_and_bits_are_refused(played: tuple[DeciderKey, bytes, bytes], cut: int) -> None:
    key, bits, items = played
    violation(lambda: key.count_zeros(items[:cut], PEER))
    violation(lambda: evaluate(SimulationRng(0), key.public, bits[: min(cut, BITS_BYTES - 1)], 9, PEER))
    violation(lambda: key.count_zeros(items + items[:64], PEER))
    violation(lambda: evaluate(SimulationRng(0), key.public, bits + bits[:64], 9, PEER))


def test_a_point_of_a_wrong_length_is_refused(played: tuple[DeciderKey, bytes, bytes]) -> None:
    key = played[0]
    check_point(key.public, PEER)
    for bad in (b"", key.public[:-1], key.public + b"\0"):
        violation(partial(check_point, bad, PEER))


def test_two_zeros_are_the_evaluators_fault(played: tuple[DeciderKey, bytes, bytes]) -> None:
    key, rng = played[0], SimulationRng(14)
    drawn = (evaluate(rng, key.public, key.encrypt_bits(rng, 9), 5, PEER) for _ in range(20))
    items = next(items for items, clear in drawn if not clear)  # x < y and delta = 0: one is zero
    assert key.count_zeros(items, PEER) == 1
    zero = next(
        items[i : i + 64]
        for i in range(0, ITEMS_BYTES, 64)
        if comparison._times(key._scalar, items[i : i + 32]) == items[i + 32 : i + 64]
    )
    others = b"".join(items[i : i + 64] for i in range(0, ITEMS_BYTES, 64) if items[i : i + 64] != zero)
    error = violation(lambda: key.count_zeros(zero + zero + others[: 31 * 64], PEER))
    assert "2 are zero" in error.message


def test_bits_that_cancel_to_the_identity_are_the_deciders_fault(played: tuple[DeciderKey, bytes, bytes]) -> None:
    # The second item is 1 - y_30 + 3 y_31: with y_30 = 3 y_31 to the point, no randomness is left in it.
    key, bits, _ = played
    tripled = b"".join(comparison._add(p, comparison._add(p, p)) for p in (bits[:32], bits[32:64]))
    violation(lambda: evaluate(SimulationRng(0), key.public, bits[:64] + tripled + bits[128:], 0, PEER))

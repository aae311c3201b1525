"""Sources of randomness are uniform, and repeatable only with a seed."""

import hashlib
import math
import secrets
from collections import Counter

import pytest

from masquerade_core.errors import LocalProtocolError
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.simulation_rng import SimulationRng
from tests.messages import raises


@pytest.fixture(params=["system", "simulation"])
def rng(request: pytest.FixtureRequest) -> Rng:
    return SystemRng() if request.param == "system" else SimulationRng(1)


@pytest.mark.parametrize("n", [0, 1, 7, 32, 70_000])
def test_as_many_bytes_come_as_were_asked_for(rng: Rng, n: int) -> None:
    assert len(rng.bytes(n)) == n


@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 64, 511])
def test_bits_stay_below_two_to_the_k_and_reach_the_top_bit(rng: Rng, k: int) -> None:
    drawn = [rng.bits(k) for _ in range(64)]
    assert all(0 <= v < 1 << k for v in drawn)
    assert k == 0 or max(v.bit_length() for v in drawn) == k


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 16])
def test_below_is_uniform(n: int) -> None:
    rng, draws = SimulationRng(n), 6000
    drawn = Counter(rng.below(n) for _ in range(draws))
    assert set(drawn) == set(range(n))
    spread = 4.9 * math.sqrt(draws * (1 / n) * (1 - 1 / n))  # p = 1e-6 each
    assert all(abs(count - draws / n) <= spread for count in drawn.values())


@pytest.mark.parametrize("n", [0, -1, -(2**70)])
def test_an_empty_range_is_refused_and_does_not_loop(rng: Rng, n: int) -> None:
    with raises(LocalProtocolError, "draw_from_empty_range"):
        rng.below(n)


def test_equal_seeds_and_labels_give_equal_streams() -> None:
    assert SimulationRng(5, "a").bytes(100) == SimulationRng(5, "a").bytes(100)


@pytest.mark.parametrize(
    ("one", "two"), [((5, "a"), (5, "b")), ((5, "a"), (6, "a")), ((5, ""), ("5", "")), (("5", "1"), ("51", ""))]
)
def test_other_seeds_or_labels_give_other_streams(one: tuple[int | str, str], two: tuple[int | str, str]) -> None:
    a, b = SimulationRng(*one).bytes(64), SimulationRng(*two).bytes(64)
    assert a[:8] != b[:8]
    assert sum(x == y for x, y in zip(a, b, strict=True)) < 8


@pytest.mark.parametrize(
    "cut",
    [(200_000,), (1, 65_534, 2, 65_536, 68_927), (1_023, 1, 198_976), (1_000, 25, 198_975), (*[7] * 300, 197_900)],
)
def test_a_stream_is_its_blocks_however_it_is_cut_and_never_repeats(cut: tuple[int, ...]) -> None:
    parts = SimulationRng(1, "a")
    start = b"masquerade simulation\0" + b"1\0" + b"a\0"
    blocks = [hashlib.shake_256(start + i.to_bytes(8, "big")).digest(65_536) for i in range(4)]
    whole = b"".join(blocks)[:200_000]
    assert b"".join(parts.bytes(n) for n in cut) == whole
    assert len({whole[i : i + 16] for i in range(0, len(whole), 16)}) == len(whole) // 16


def test_the_systems_source_asks_the_operating_system_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def token_bytes(n: int) -> bytes:
        asked.append(n)
        return bytes(n)

    monkeypatch.undo()  # elsewhere the tests draw what repeats
    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    rng = SystemRng()
    rng.bytes(32)
    rng.bits(9)
    rng.below(1 << 16)
    assert asked == [32, 2, 2]

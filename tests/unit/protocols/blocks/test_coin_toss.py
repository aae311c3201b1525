"""The coin toss, with parties and a Charlie who cheat."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import pytest

from masquerade_core.errors import ProtocolViolation, RunFailed
from masquerade_core.seat import Join, Once, Seat
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table
from masquerade_core.wire.frames import Frame, split_boxes
from masquerade_protocols.blocks.coin_toss import Commitment, Echo, Reveal, _commit, coin_toss
from tests.helpers import joined
from tests.messages import raises

NAMES = ("alice", "bob", "eve", "zoe")


async def tosser(seat: Seat) -> bytes:
    await seat.join()
    return await coin_toss(seat)


async def relay(seat: Seat) -> None:
    await seat.join()


Cheat = Callable[[Seat], Any]


def play(names: tuple[str, ...] = NAMES, seed: int | None = 0, **cheats: Cheat) -> dict[str, bytes]:
    rngs = None if seed is None else {name: SimulationRng(seed, name) for name in (*names, CHARLIE)}
    table = Table(names, rngs, bytes(16))
    roles = {name: cheats.get(name, tosser)(table.seat(name)) for name in names}
    return table.run({**roles, CHARLIE: relay(table.seat(CHARLIE))})


# --- The toss ------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3, 8])
def test_all_parties_get_the_same_seed(K: int) -> None:
    names = tuple(f"p{j}" for j in range(K))
    seeds = play(names, None)
    assert len({seeds[name] for name in names}) == 1
    assert len(seeds["p0"]) == 32
    assert seeds[CHARLIE] is None
    assert play(names, None)["p0"] != seeds["p0"]


def test_one_partys_coins_change_the_seed_and_its_bits_are_balanced() -> None:
    seeds = []
    for i in range(64):
        rngs = {name: SimulationRng(0, name) for name in (*NAMES, CHARLIE)} | {"zoe": SimulationRng(i, "zoe")}
        table = Table(NAMES, rngs, bytes(16))
        roles = {name: tosser(table.seat(name)) for name in NAMES}
        seeds.append(table.run({**roles, CHARLIE: relay(table.seat(CHARLIE))})["alice"])
    assert len(set(seeds)) == 64
    ones = sum(int.from_bytes(seed, "big").bit_count() for seed in seeds)
    assert abs(ones - 64 * 128) < 5 * math.sqrt(64 * 64)


def test_charlie_sees_neither_coins_nor_commitments() -> None:
    table = Table(NAMES)
    table.run({name: tosser(table.seat(name)) for name in NAMES} | {CHARLIE: relay(table.seat(CHARLIE))})
    assert [p.type for p in table.passed if p.source == "bob" and p.to == "*"] == ["Commitment", "Echo", "Reveal"]
    assert not table._players[CHARLIE].inbox


def _cheat(change: Callable[[bytes, bytes], tuple[bytes, bytes]]) -> Cheat:
    """Follow the protocol, but reveal other coins: those that ``change`` makes of one's own."""

    async def role(seat: Seat) -> bytes:
        await seat.join()
        coins = await seat.once("coins", lambda rng: rng.bytes(64))
        nonce, salt = coins[:32], coins[32:]
        await seat.send_sealed(Commitment(digest=_commit(seat.run, seat.me, nonce, salt)))
        await seat.gather(Commitment)
        await _echo(seat, _commit(seat.run, seat.me, nonce, salt))
        nonce, salt = change(nonce, salt)
        await seat.send_sealed(Reveal(nonce=nonce, salt=salt))
        await seat.gather(Reveal)
        return b""

    return role


async def _echo(seat: Seat, own: bytes) -> None:
    """Echo as honest parties do. The table's draws are seeded, so everybody's commitment is known."""
    await seat.send_sealed(Echo(digest=_seen(seat, own)))
    await seat.gather(Echo)


def _seen(seat: Seat, own: bytes) -> bytes:
    digests = []
    for name in seat.names:
        rng = SimulationRng(0, name)
        rng.bytes(32)  # the box key
        coins = rng.bytes(64)
        digests.append(own if name == seat.me else _commit(seat.run, name, coins[:32], coins[32:]))
    return hashlib.sha256(b"".join(digests)).digest()


def test_a_cheat_that_does_not_cheat_is_not_named() -> None:
    seeds = play(zoe=_cheat(lambda nonce, salt: (nonce, salt)))
    assert seeds["alice"] == play()["alice"]


@pytest.mark.parametrize(
    "change",
    [
        lambda nonce, salt: (bytes(32), salt),
        lambda nonce, salt: (nonce, bytes(32)),
        lambda nonce, salt: (nonce[:-1] + bytes((nonce[-1] ^ 1,)), salt),
        lambda nonce, salt: (salt, nonce),
    ],
    ids=["nonce", "salt", "a bit", "swapped"],
)
def test_who_reveals_other_coins_is_named(change: Callable[[bytes, bytes], tuple[bytes, bytes]]) -> None:
    with raises(ProtocolViolation, "other_coins", "zoe") as caught:
        play(zoe=_cheat(change))
    assert caught.value.peer == "zoe"


def test_a_copied_commitment_cannot_be_opened() -> None:
    """A party copies another one's commitment and its coins. This fails, because the name is hashed too."""

    async def copycat(seat: Seat) -> bytes:
        await seat.join()
        await seat.once("coins", lambda rng: rng.bytes(64))
        rng = SimulationRng(0, "alice")
        rng.bytes(32)
        coins = rng.bytes(64)
        copied = _commit(seat.run, "alice", coins[:32], coins[32:])
        await seat.send_sealed(Commitment(digest=copied))
        await seat.gather(Commitment)
        await _echo(seat, copied)
        await seat.send_sealed(Reveal(nonce=coins[:32], salt=coins[32:]))
        await seat.gather(Reveal)
        return b""

    with raises(ProtocolViolation, "other_coins", "zoe"):
        play(zoe=copycat)


def test_who_does_not_reveal_is_waited_for_by_name() -> None:
    async def silent(seat: Seat) -> bytes:
        await seat.join()
        coins = await seat.once("coins", lambda rng: rng.bytes(64))
        own = _commit(seat.run, seat.me, coins[:32], coins[32:])
        await seat.send_sealed(Commitment(digest=own))
        await seat.gather(Commitment)
        await _echo(seat, own)
        await seat.gather(Reveal)
        return b""

    with raises(RunFailed, "waits_for", "alice", "'Reveal'", "bob, eve and zoe"):
        play(zoe=silent)


def _two_faced(seat_sends: bytes) -> Cheat:
    """Commit to other coins towards each peer, and reveal to each the coins that fit its commitment."""

    async def role(seat: Seat) -> bytes:
        await seat.join()
        rng = SimulationRng(9)
        faces = {name: (rng.bytes(32), rng.bytes(32)) for name in seat.others}
        for name, face in faces.items():
            await seat.send_sealed(Commitment(digest=_commit(seat.run, seat.me, *face)), name)
        await seat.gather(Commitment)
        await seat.send_sealed(Echo(digest=seat_sends))
        await seat.gather(Echo)
        for name, (nonce, salt) in faces.items():
            await seat.send_sealed(Reveal(nonce=nonce, salt=salt), name)
        await seat.gather(Reveal)
        return b""

    return role


def test_commitments_that_differ_between_parties_are_caught_by_the_echo() -> None:
    with raises(ProtocolViolation, "other_commitments", ..., ...):
        play(zoe=_two_faced(bytes(32)))


def test_without_the_echo_an_equivocator_splits_the_seed_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    gather = Seat.gather

    async def deaf_to_echoes(self: Seat, cls: Any, senders: Any = None) -> Any:
        heard = await gather(self, cls, senders)
        return {} if cls is Echo else heard

    monkeypatch.setattr(Seat, "gather", deaf_to_echoes)
    seeds = play(zoe=_two_faced(bytes(32)))
    assert len({seeds[name] for name in ("alice", "bob", "eve")}) == 3


def test_charlie_cannot_exchange_the_boxes_of_a_commitment(monkeypatch: pytest.MonkeyPatch) -> None:
    def rotated(frame: Frame, names: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
        pairs = split_boxes(frame, names)
        if frame.source != "bob" or frame.type != "Commitment":
            return pairs
        boxes = [box for _, box in pairs]
        return tuple(zip((name for name, _ in pairs), (*boxes[1:], boxes[0]), strict=True))

    monkeypatch.setattr("masquerade_core.table.split_boxes", rotated)
    with raises(ProtocolViolation, "box_does_not_open", "bob", "bob") as caught:
        play()
    assert (caught.value.peer, caught.value.suspects) == ("", ("bob", CHARLIE))


# --- Effects -------------------------------------------------------------------


def test_a_toss_draws_once_and_only_through_the_seat() -> None:
    role = tosser(Seat("alice", NAMES))
    box = role.send(None)
    assert isinstance(box, Once)
    assert isinstance(role.send(bytes(31) + b"\1"), Join)
    keys = [(name, joined(name, NAMES)._joined_box.public) for name in (*NAMES, CHARLIE)]
    coins = role.send((keys, bytes(16)))
    assert isinstance(coins, Once)
    assert coins.label == "coins"
    role.close()

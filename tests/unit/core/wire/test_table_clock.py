"""The table's clock: who waits only so long, and parties that fall silent."""

from __future__ import annotations

from typing import Any

import pytest

from masquerade_core.errors import LocalProtocolError, RunFailed
from masquerade_core.seat import Receive, Seat
from masquerade_core.study import CHARLIE
from masquerade_core.table import Silence, Table, replay
from masquerade_core.wire.codec import Broadcast, Message
from tests.messages import raises

NAMES = ("alice", "bob", "eve")


class Number(Message):
    value: int


class Other(Message):
    value: int


class Heard(Broadcast):
    names: tuple[str, ...]


async def party(seat: Seat, rounds: int = 3) -> list[tuple[str, ...]]:
    """Send a number a round, and be told who was heard."""
    await seat.join()
    heard = []
    for t in range(rounds):
        await seat.send(CHARLIE, Number(value=t))
        heard.append((await seat.receive(Heard, CHARLIE)).names)
    return heard


async def charlie(seat: Seat, rounds: int = 3, seconds: float = 5.0) -> list[tuple[str, ...]]:
    await seat.join()
    members: tuple[str, ...] = NAMES
    heard: list[tuple[str, ...]] = []
    for _ in range(rounds):
        members = tuple(await seat.gather_within(Number, members, seconds))
        await seat.broadcast(Heard(names=members))
        heard.append(members)
    return heard


def _run(table: Table, **instead: Any) -> dict[str, Any]:
    roles = {name: instead.get(name) or party(table.seat(name)) for name in NAMES}
    return table.run({**roles, CHARLIE: instead.get(CHARLIE) or charlie(table.seat(CHARLIE))})


def test_nobody_waits_where_everybody_answers() -> None:
    table = Table(NAMES)
    assert set(map(tuple, _run(table).values())) == {(NAMES,) * 3}
    assert table.now == 0


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_silent_party_is_waited_for_once(after: int) -> None:
    table = Table(NAMES, silent={"bob": Silence("Number", after)})
    results = _run(table)
    assert results["bob"] is None
    assert results[CHARLIE] == results["alice"] == [NAMES] * after + [("alice", "eve")] * (3 - after)
    assert table.now == 5.0


def test_what_does_not_decode_is_no_answer() -> None:
    async def babbling(seat: Seat) -> None:
        await seat.join()
        object.__setattr__(number := Number(value=1), "value", "one")
        await seat.send(CHARLIE, number)

    table = Table(NAMES)
    assert _run(table, bob=babbling(table.seat("bob")))[CHARLIE] == [("alice", "eve")] * 3
    assert table.now == 0


def test_another_type_than_is_due_is_the_tables_callers_fault() -> None:
    async def other(seat: Seat) -> None:
        await seat.join()
        await seat.send(CHARLIE, Other(value=0))

    table = Table(NAMES)
    with raises(LocalProtocolError, "other_message_due", "bob", "'Other'", "'Number'"):
        _run(table, bob=other(table.seat("bob")))


def test_who_waits_without_patience_is_stuck() -> None:
    async def patient(seat: Seat) -> None:
        await seat.join()
        await seat.gather(Number, NAMES)

    table = Table(NAMES, silent={"eve": Silence("Number", 0)})
    with raises(RunFailed, "waits_for", "charlie", "'Number'", ...):
        _run(table, **{CHARLIE: patient(table.seat(CHARLIE))})
    assert table.now == 0


def test_a_role_with_patience_replays() -> None:
    table = Table(NAMES, silent={"bob": Silence("Number", 1)})
    results = _run(table)
    journal = table.journal(CHARLIE)
    waits = [entry.answer for entry in journal if isinstance(entry.effect, Receive) and entry.effect.within]
    assert [answer.count(None) for answer in waits] == [0, 1, 0]
    assert replay(charlie(table.seat(CHARLIE)), journal).result == results[CHARLIE]

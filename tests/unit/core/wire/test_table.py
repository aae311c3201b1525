"""The table in memory and its replay, with a toy protocol of two rounds."""

import itertools
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from masquerade_core.errors import LocalProtocolError, ProtocolViolation, RunFailed
from masquerade_core.rng import Rng
from masquerade_core.seat import Once, Release, Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.table import Entry, Passed, Table, replay
from masquerade_core.wire.codec import Broadcast, Message, SealedMessage, pack_plain
from tests.messages import raises, says

NAMES = ("alice", "bob", "eve")


class Coin(SealedMessage):
    value: bytes


class Hint(SealedMessage):
    value: bytes


class Tally(Message):
    value: bytes


class Result(Broadcast):
    value: bytes


def add(*rows: bytes) -> bytes:
    return bytes(sum(column) % 256 for column in zip(*rows, strict=True))


async def party(seat: Seat, own: bytes, extra: Callable[[], bytes] = lambda: b"") -> bytes:
    """Send sealed coins to all, a hint to the first party and the sum to Charlie; receive the sum of sums."""
    await seat.join()
    await seat.stage("coins")
    coin = await seat.once("coin", lambda rng: rng.bytes(16))
    await seat.send_sealed(Coin(value=add(coin, own)))
    heard = await seat.gather(Coin)
    total = add(add(coin, own), *(c.value for c in heard.values()))
    if seat.me == NAMES[0]:
        await seat.gather(Hint, seat.others)
    else:
        await seat.send_sealed(Hint(value=total), NAMES[0])
    await seat.stage("tally")
    await seat.release("tally", 1.0, 0.0)
    await seat.send(CHARLIE, Tally(value=total + extra()))
    return (await seat.receive(Result, CHARLIE)).value


async def charlie(seat: Seat) -> bytes:
    await seat.join()
    tallies = await seat.gather(Tally, NAMES)
    salt = await seat.once("salt", lambda rng: (rng.bytes(16), rng.below(1 << 200), None))
    result = add(salt[0], *(t.value[:16] for t in tallies.values()))
    await seat.broadcast(Result(value=result))
    return result


def own(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def roles(table: Table, **instead: Any) -> dict[str, Any]:
    all_roles: dict[str, Any] = {name: instead.get(name) or party(table.seat(name), own(name)) for name in NAMES}
    return {**all_roles, CHARLIE: instead.get(CHARLIE) or charlie(table.seat(CHARLIE))}


def seeded(seed: int = 0, run: bytes = bytes(16)) -> Table:
    rngs: Mapping[str, Rng] = {name: SimulationRng(seed, name) for name in (*NAMES, CHARLIE)}
    return Table(NAMES, rngs, run)


def sent(table: Table, name: str) -> tuple[Send, ...]:
    return tuple(entry.effect for entry in table.journal(name) if isinstance(entry.effect, Send))


# --- A run ---------------------------------------------------------------------


def test_everybody_ends_with_the_same_result() -> None:
    table = Table(NAMES)
    results = table.run(roles(table))
    assert set(results) == {*NAMES, CHARLIE}
    assert len(set(results.values())) == 1


def test_charlie_relays_so_many_frames_of_such_lengths() -> None:
    table = Table(NAMES)
    table.run(roles(table))
    count = {
        kind: sum(p.type == kind and p.source in NAMES and p.to in {CHARLIE, "*"} for p in table.passed)
        for kind in ("Coin", "Tally")
    }
    assert count == {"Coin": 3, "Tally": 3}
    assert sum(p.type == "Coin" for p in table.passed) == 3 + 6
    assert sum(p.type == "Hint" for p in table.passed) == 2 + 2
    assert sum(p.type == "Result" and p.source == CHARLIE for p in table.passed) == 3
    coins = [p for p in table.passed if p.type == "Coin" and p.to == "*"]
    # 64 signature, header, two boxes of (40 + 16 + body) bytes
    assert {p.length for p in coins} == {coins[0].length}
    assert all(p.length > 64 for p in table.passed)


def test_what_charlie_sees_has_one_form_in_every_run() -> None:
    def form(table: Table) -> list[Passed]:
        table.run(roles(table))
        return table.passed

    assert form(Table(NAMES)) == form(Table(NAMES))


def test_stages_and_releases_are_noted() -> None:
    table = Table(NAMES)
    table.run(roles(table))
    assert [stage for name, stage in table.stages if name == "bob"] == ["coins", "tally"]
    assert ("bob", Release("tally", 1.0, 0.0)) in table.releases
    assert len(table.releases) == 3


def test_a_seeded_table_repeats_itself_and_another_seed_differs() -> None:
    tables = [seeded(1), seeded(1), seeded(2)]
    for table in tables:
        table.run(roles(table))
    transcripts = [[sent(table, name) for name in (*NAMES, CHARLIE)] for table in tables]
    assert transcripts[0] == transcripts[1] != transcripts[2]


def test_two_runs_share_no_randomness() -> None:
    def drawn() -> set[bytes]:
        table = Table(NAMES)
        table.run(roles(table))
        answers = [e.answer for name in (*NAMES, CHARLIE) for e in table.journal(name) if isinstance(e.effect, Once)]
        bodies = [body for name in NAMES for send in sent(table, name) for body in send.bodies if send.kind == "sealed"]
        return {text[i : i + 8] for text in (*answers, *bodies, table.run_id) for i in range(len(text) - 7)}

    one, two = drawn(), drawn()
    assert not one & two
    assert len(one) > 500


def test_a_draw_comes_back_as_plain_data_as_it_would_after_a_restart() -> None:
    async def lister(seat: Seat) -> object:
        return await seat.once("x", lambda _: [1, [2**100]])

    table = Table(("a",))
    assert table.run({"a": lister(table.seat("a")), CHARLIE: lister(table.seat(CHARLIE))})["a"] == (1, (2**100,))


# --- A run that fails ----------------------------------------------------------


def test_a_deadlock_says_who_waits_for_what_from_whom() -> None:
    async def deaf(seat: Seat) -> bytes:
        await seat.join()
        return (await seat.receive(Result, CHARLIE)).value

    table = Table(NAMES)
    with pytest.raises(RunFailed) as caught:
        table.run(roles(table, bob=deaf(table.seat("bob"))))
    assert says(caught.value.message, "waits_for", "bob", "'Result'", "charlie")
    assert says(caught.value.message, "waits_for", "alice", "'Coin'", "bob and eve")
    assert says(caught.value.message, "waits_for", "charlie", "'Tally'", "alice, bob and eve")


def test_who_never_joins_keeps_everybody_waiting() -> None:
    async def absent(seat: Seat) -> bytes:
        return b""

    table = Table(NAMES)
    with raises(RunFailed, "never_joined"):
        table.run(roles(table, bob=absent(table.seat("bob"))))


def test_one_error_ends_the_run_and_every_role() -> None:
    closed = []

    async def watched(seat: Seat) -> bytes:
        try:
            return await party(seat, own("eve"))
        finally:
            closed.append(seat.me)

    async def failing(seat: Seat) -> bytes:
        await seat.join()
        raise seen

    seen = ProtocolViolation("enough", peer="alice")
    table = Table(NAMES)
    with pytest.raises(ProtocolViolation) as caught:
        table.run(roles(table, bob=failing(table.seat("bob")), eve=watched(table.seat("eve"))))
    assert caught.value is seen
    assert closed == ["eve"]


def test_a_message_out_of_turn_is_noticed() -> None:
    async def hasty(seat: Seat) -> bytes:
        await seat.join()
        await seat.send_sealed(Hint(value=b"x"))
        return b""

    table = Table(NAMES)
    with raises(LocalProtocolError, "other_message_due", "bob", "'Hint'", "'Coin'"):
        table.run(roles(table, bob=hasty(table.seat("bob"))))


# --- Replay --------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, CHARLIE])
def test_a_replay_sends_the_same_bytes_and_returns_the_same(name: str) -> None:
    table = Table(NAMES)
    results = table.run(roles(table))
    again = replay(roles_of(table, name), table.journal(name))
    assert again.sent == sent(table, name)
    assert len(again.sent) > 0
    assert again.result == results[name]


def roles_of(table: Table, name: str) -> Any:
    return charlie(table.seat(CHARLIE)) if name == CHARLIE else party(table.seat(name), own(name))


def test_a_replay_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(NAMES)
    table.run(roles(table))

    def forbidden(n: int) -> bytes:
        raise AssertionError(n)

    monkeypatch.setattr(secrets, "token_bytes", forbidden)
    replay(roles_of(table, "bob"), table.journal("bob"))


@pytest.mark.parametrize("kind", ["operating system", "counter"])
def test_a_replay_catches_what_is_drawn_or_counted_outside_once(kind: str) -> None:
    counter = itertools.count()
    extra = {
        "operating system": lambda: secrets.token_bytes(8),
        "counter": lambda: next(counter).to_bytes(8, "big"),
    }[kind]
    table = Table(NAMES)
    table.run(roles(table, bob=party(table.seat("bob"), own("bob"), extra)))
    with raises(LocalProtocolError, "replay_step_is", "Send"):
        replay(party(table.seat("bob"), own("bob"), extra), table.journal("bob"))


def test_a_replay_with_other_data_is_noticed() -> None:
    table = Table(NAMES)
    table.run(roles(table))
    with raises(LocalProtocolError, "replay_step_is", "Send"):
        replay(party(table.seat("bob"), own("BOB")), table.journal("bob"))


def test_a_replay_that_shows_secrets_in_its_error_would_be_noticed() -> None:
    table = Table(NAMES)
    table.run(roles(table))
    with pytest.raises(LocalProtocolError) as caught:
        replay(party(table.seat("bob"), b"canary".ljust(16)), table.journal("bob"))
    assert "\\x" not in caught.value.message
    assert "canary" not in caught.value.message


def test_a_replay_that_ends_early_or_late_is_noticed() -> None:
    async def short(seat: Seat) -> None:
        await seat.join()

    table = Table(NAMES)
    table.run(roles(table))
    journal = table.journal("bob")
    with raises(LocalProtocolError, "replay_ended_early", 2):
        replay(short(table.seat("bob")), journal)
    with raises(LocalProtocolError, "replay_goes_on"):
        replay(roles_of(table, "bob"), journal[:-1])


def test_a_replay_in_another_order_of_draws_is_noticed() -> None:
    table = Table(NAMES)
    table.run(roles(table))
    journal = list(table.journal("bob"))
    draws = [i for i, entry in enumerate(journal) if isinstance(entry.effect, Once)]
    i, j = draws[1], draws[2]
    journal[i], journal[j] = journal[j], journal[i]
    with raises(LocalProtocolError, "replay_step_is", "Once"):
        replay(roles_of(table, "bob"), journal)


def test_changed_answers_of_once_change_what_is_sent() -> None:
    """A replay takes every draw from the journal and makes none anew, even where the journal is wrong."""
    table = Table(NAMES)
    table.run(roles(table))
    journal = list(table.journal("bob"))
    at = next(i for i, e in enumerate(journal) if isinstance(e.effect, Once) and e.effect.label == "coin")
    journal[at] = Entry(journal[at].effect, pack_plain(bytes(16)))
    with raises(LocalProtocolError, "replay_step_is", "Send"):
        replay(roles_of(table, "bob"), journal)

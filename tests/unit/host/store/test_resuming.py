"""Restarts: a process that dies at any moment goes on where it was, and nobody ever sees a number twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from masquerade_core.seat import Seat
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_host.store.journal import ReplayLog
from tests.host_helpers import Secret, World
from tests.restarts import Group, MemoryJournal, Role, noisy_rounds, shows_all
from tests.wired import Wired

ROUNDS = 2
charlie = partial(shows_all, rounds=ROUNDS)


async def party(seat: Seat) -> bytes:
    """Send a sealed coin to all, then a fresh coin to Charlie in each round; return all that Charlie told."""
    await seat.join()
    coin = await seat.once("coin", lambda rng: rng.bytes(8))
    await seat.send_sealed(Secret(coin=coin))
    heard = await seat.gather(Secret)
    assert {*heard, seat.me} == set(seat.names)
    return await noisy_rounds(seat, ROUNDS)


@pytest.fixture(scope="module")
def world() -> World:
    return World.new(2, deadline=30.0, port=5555)


def group(world: World, **roles: Callable[[Seat], Role]) -> Group:
    return Group(world, {CHARLIE: charlie, **dict.fromkeys(world.study.names, party), **roles})


def test_without_faults(world: World) -> None:
    run = group(world)
    run.run()
    run.check()
    assert run.sites["p1"].debited == ["round 0", "round 1"]


@pytest.mark.parametrize("name", ["p1", "p2", CHARLIE])
def test_a_kill_at_every_moment_changes_nothing(world: World, name: str) -> None:
    plain = group(world)
    plain.run()
    moments = plain.sites[name].moments
    assert moments > 20
    for moment in range(1, moments + 1):
        run = group(world)
        run.sites[name].kill_at = moment
        run.run()
        assert run.sites[name].starts == 2, moment
        run.check()
        assert run.sites["p1"].debited == ["round 0", "round 1"]


@pytest.mark.parametrize("seed", range(12))
def test_kills_of_two_with_long_absences_change_nothing(world: World, seed: int) -> None:
    """Who lives goes on meanwhile: it accepts and acknowledges."""
    rng = SimulationRng(seed)
    run = group(world)
    for name in ("p1", "p2", CHARLIE)[seed % 3 :]:
        run.sites[name].kill_at = 8 + int.from_bytes(rng.bytes(1), "big") % 20
    run.run(down=9)
    run.check()
    assert run.sites["p1"].debited == ["round 0", "round 1"]


def test_the_journal_has_the_roster_before_the_ledger_counts_an_attempt() -> None:
    """A process that dies between the two goes on with this attempt; in the other order it would begin a second one."""
    wired = Wired(World.new(3, port=5555))
    journal = MemoryJournal(lambda _: None)
    party = wired.parties["p1"]
    party.steps = ReplayLog(journal.opened())
    observe, kept = party._observe, list[str]()

    def at_the_join(event: str, /, **fields: str | float) -> None:
        if event == "joined":  # with this, a party's process has its ledger count the attempt
            kept.extend(row.kind for row in journal.rows)
        observe(event, **fields)

    party._observe = at_the_join
    wired.join()
    assert "received" in kept

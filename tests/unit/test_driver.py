"""The driver: whole runs of a toy protocol over real sockets, in threads."""

import threading
import time
from typing import Any

import pytest

from masquerade_core.errors import (
    BadInput,
    CannotConnect,
    DeadlinePassed,
    ProtocolViolation,
    RefusedLocally,
    RunFailed,
)
from masquerade_core.rng import Rng, SimulationRng, SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_host.driver import run_role
from masquerade_host.session import Session
from tests.host_helpers import World, new_keys, run_together, toy_charlie, toy_party


def sessions(world: World, **changed: Session) -> Any:
    return {CHARLIE: world.charlie(), **{name: world.party(name) for name in world.study.names}, **changed}


@pytest.mark.parametrize("K", [2, 5])
def test_a_run(K: int) -> None:
    world = World.new(K)
    together = sessions(world)
    outcome = run_together(together)
    assert not outcome.errors
    assert len({outcome.results[name] for name in (*world.study.names, CHARLIE)}) == 1
    # Each party sealed messages to each other one, and each but the lead to the lead.
    assert len(together[CHARLIE].relayed) == K * (K - 1) + K - 1
    assert [s.name for s in together[CHARLIE].stats.stages] == ["joining", "coins"]
    assert together[CHARLIE].stats.bytes == sum(s.stats.bytes for n, s in together.items() if n != CHARLIE)


def test_the_role_of_a_long_draw_does_not_silence_the_process() -> None:
    """Three times the silence that is allowed passes in one ``once``; the others wait on, for the heart beats."""

    def long(rng: Rng) -> bytes:
        time.sleep(1.6)
        return rng.bytes(1)

    world = World.new(2, deadline=1.0)

    async def slow(seat: Seat) -> Any:
        await seat.join()
        await seat.once("long", long)
        return "slow"

    async def waiting(seat: Seat) -> Any:
        await seat.join()
        return "waiting"

    outcome = run_together(sessions(world), {"p1": slow, "p2": waiting, CHARLIE: waiting})
    assert outcome.results == {"p1": "slow", "p2": "waiting", CHARLIE: "waiting"}


def test_what_once_returns_is_what_a_restart_would_return() -> None:
    world = World.new(2)
    seen: list[Any] = []

    async def role(seat: Seat) -> None:
        await seat.join()
        seen.append(await seat.once("x", lambda _rng: [1, [2**200, -(2**70)], {"a": b"b"}]))

    outcome = run_together(sessions(world), dict.fromkeys(("p1", "p2", CHARLIE), role))
    assert not outcome.errors
    assert seen == [(1, (2**200, -(2**70)), {"a": b"b"})] * 3


def test_a_seed_is_refused_between_processes() -> None:
    world = World.new(2)
    session = world.party("p1")
    with pytest.raises(RefusedLocally, match="never from a seed"):
        run_role(toy_party(Seat("p1", session.names, session.run)), session, SimulationRng(1))


def test_a_role_that_fails_before_it_joins_sends_nothing() -> None:
    world = World.new(2)
    session = world.party("p1")

    async def refuses(_seat: Seat) -> None:
        raise RefusedLocally("too few")

    with pytest.raises(RefusedLocally):
        run_role(refuses(Seat("p1", session.names, session.run)), session, SystemRng())
    assert session.link is None


def test_a_bug_in_one_role_ends_the_run_for_all_and_its_text_stays_at_home() -> None:
    world = World.new(3)

    async def buggy(seat: Seat) -> None:
        await seat.join()
        raise ZeroDivisionError("canary-canary")

    outcome = run_together(sessions(world), {"p2": buggy})
    assert isinstance(outcome.errors.pop("p2"), ZeroDivisionError)
    assert set(outcome.errors) == {"p1", "p3", CHARLIE}
    for error in outcome.errors.values():
        assert isinstance(error, RunFailed)
        assert error.message.startswith("p2 left")
        assert "canary" not in str(error)


def test_a_role_that_finds_a_violation_names_the_peer_everywhere() -> None:
    world = World.new(3, deadline=30)  # of no interest here, and a busy machine must not meet it

    async def accuser(seat: Seat) -> None:
        await seat.join()
        raise ProtocolViolation("p3's box does not open", peer="p3")

    outcome = run_together(sessions(world), {"p1": accuser})
    assert {type(e) for e in outcome.errors.values()} == {ProtocolViolation}
    assert {e.peer for e in outcome.errors.values() if isinstance(e, ProtocolViolation)} == {"p3"}
    assert len(outcome.errors) == 4


def test_a_hanging_role_is_named_by_all() -> None:
    world = World.new(3, deadline=1.5)
    release = threading.Event()

    async def hangs(seat: Seat) -> None:
        await seat.join()
        await seat.once("for ever", lambda _rng: release.wait(20))

    begun = time.monotonic()
    outcome = run_together(sessions(world), {"p3": hangs})
    release.set()
    assert time.monotonic() - begun < 4
    for name in ("p1", "p2", CHARLIE):
        error = outcome.errors[name]
        assert isinstance(error, DeadlinePassed)
        assert error.waited_for == ("p3",)


def test_charlie_unreachable() -> None:
    world = World.new(2, deadline=0.8)
    outcome = run_together({"p1": world.party("p1")})
    assert isinstance(outcome.errors["p1"], CannotConnect)


def test_a_key_that_charlie_does_not_know_is_told_at_once() -> None:
    world = World.new(2, deadline=30)
    stranger = new_keys()
    study = world.changed(str(world.keys["p1"].public), str(stranger.public))
    begun = time.monotonic()
    done = threading.Event()

    async def never(seat: Seat) -> None:
        await seat.join()

    charlie = world.charlie()

    def host() -> None:
        with pytest.raises(RunFailed):
            run_role(_until(done, Seat(CHARLIE, charlie.names, charlie.run)), charlie, SystemRng())

    thread = threading.Thread(target=host)
    thread.start()
    session = world.party("p1", study=study, keys=stranger)
    with pytest.raises(CannotConnect, match="not admitted"):
        run_role(never(Seat("p1", session.names, session.run)), session, SystemRng())
    assert time.monotonic() - begun < 5
    done.set()
    thread.join()


async def _until(done: threading.Event, seat: Seat) -> None:
    await seat.once("wait", lambda _rng: done.wait(20))
    raise RunFailed("enough")


def test_another_charlie_key_is_told_soon() -> None:
    world = World.new(2, deadline=30)
    impostor = new_keys()
    study = world.changed(str(world.keys[CHARLIE].public), str(impostor.public))
    done = threading.Event()
    charlie = world.charlie()

    def host() -> None:
        with pytest.raises(RunFailed):
            run_role(_until(done, Seat(CHARLIE, charlie.names, charlie.run)), charlie, SystemRng())

    thread = threading.Thread(target=host)
    thread.start()
    begun = time.monotonic()
    session = world.party("p1", study=study)
    with pytest.raises(CannotConnect, match="wrong key"):
        run_role(toy_party(Seat("p1", session.names, session.run)), session, SystemRng())
    assert time.monotonic() - begun < 8
    done.set()
    thread.join()


def test_a_port_in_use_is_found_before_the_role_works() -> None:
    world = World.new(2)
    first = world.charlie()
    first.open()
    second = world.charlie()
    with pytest.raises(BadInput, match="in use"):
        run_role(toy_charlie(Seat(CHARLIE, second.names, second.run)), second, SystemRng())
    assert first.link is not None
    first.link.close(0)

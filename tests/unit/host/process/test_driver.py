"""The driver: whole runs of a toy protocol over real sockets, in threads."""

import queue
import socket
import threading
import time
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from masquerade_core.errors import (
    BadInput,
    CannotConnect,
    DeadlinePassed,
    ProgramChanged,
    ProtocolViolation,
    RefusedLocally,
    Reported,
    RunFailed,
)
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.seat import Progress, Release, Seat, Send, Stage
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import pack_plain
from masquerade_host.process import driver
from masquerade_host.process.driver import run_role
from masquerade_host.process.program import Program
from masquerade_host.session.hop import Hop
from masquerade_host.session.session import Session
from masquerade_host.session.states import Turn
from masquerade_host.store.journal import Entry, ReplayLog
from tests.host_helpers import World, new_keys, run_together, toy_charlie, toy_party
from tests.messages import raises
from tests.restarts import MemoryJournal


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
    """One ``once`` lasts until Charlie has heard ten beats of its process."""
    world = World.new(2)
    together = sessions(world)
    for session in together.values():
        session.beat_every = 0.05

    def long(rng: Rng) -> bytes:
        hop = together[CHARLIE]._hops["p1"]
        enough = hop.received + 10
        give_up = time.monotonic() + 120
        while hop.received < enough and time.monotonic() < give_up:
            time.sleep(0.01)
        assert hop.received >= enough
        return rng.bytes(1)

    async def slow(seat: Seat) -> Any:
        await seat.join()
        await seat.once("long", long)
        return "slow"

    async def waiting(seat: Seat) -> Any:
        await seat.join()
        return "waiting"

    outcome = run_together(together, {"p1": slow, "p2": waiting, CHARLIE: waiting})
    assert outcome.results == {"p1": "slow", "p2": "waiting", CHARLIE: "waiting"}


def test_what_once_returns_is_what_a_replay_would_return() -> None:
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
    with raises(RefusedLocally, "seed_between_processes"):
        run_role(toy_party(Seat("p1", session.names)), session, SimulationRng(1))


def test_a_role_that_fails_before_it_joins_sends_nothing() -> None:
    world = World.new(2)
    session = world.party("p1")

    async def refuses(_seat: Seat) -> None:
        raise RefusedLocally("too few")

    with pytest.raises(RefusedLocally):
        run_role(refuses(Seat("p1", session.names)), session, SystemRng())
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


def test_a_role_that_finds_a_violation_names_the_peer_here_and_is_quoted_elsewhere() -> None:
    world = World.new(3)

    async def accuser(seat: Seat) -> None:
        await seat.join()
        raise ProtocolViolation("p3 sent a Secret whose coin is out of bounds", peer="p3")

    outcome = run_together(sessions(world), {"p1": accuser})
    error = outcome.errors.pop("p1")
    assert isinstance(error, ProtocolViolation)
    assert error.peer == "p3"
    assert set(outcome.errors) == {"p2", "p3", CHARLIE}
    for word in outcome.errors.values():
        assert isinstance(word, Reported)
        assert (word.said_by, word.accused, word.exit_code) == ("p1", ("p3",), 1)


def test_a_box_that_charlie_changed_on_the_way_accuses_nobody_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """p1 sees the same bytes as if p2 had sealed nonsense; so all are told both names, and by whom."""
    world = World.new(3)
    seal = Hop.seal

    def changed(self: Hop, turn: Turn, body: bytes, **kwargs: Any) -> bytes:
        if turn is Turn.SEALED and self.name == "p1" and kwargs["source"] == "p2":
            body = body[:-1] + bytes((body[-1] ^ 1,))
        return seal(self, turn, body, **kwargs)

    monkeypatch.setattr(Hop, "seal", changed)
    outcome = run_together(sessions(world))
    assert set(outcome.errors) == {"p1", "p2", "p3", CHARLIE}
    for name, error in outcome.errors.items():
        if name == "p1":
            assert isinstance(error, ProtocolViolation)
            assert (error.peer, error.suspects) == ("", ("p2", CHARLIE))
        else:
            assert isinstance(error, Reported)
            assert (error.said_by, error.accused) == ("p1", ("p2", CHARLIE))


def test_a_hanging_role_is_named_by_all() -> None:
    world = World.new(3, deadline=8.0)
    release = threading.Event()

    async def hangs(seat: Seat) -> None:
        await seat.join()
        await seat.once("for ever", lambda _rng: release.wait(600))

    outcome = run_together(sessions(world), {"p3": hangs})
    release.set()
    for name in ("p1", "p2", CHARLIE):
        error = outcome.errors[name]
        assert isinstance(error, DeadlinePassed)
        assert error.waited_for == ("p3",)


def test_charlie_unreachable() -> None:
    world = World.new(2, deadline=0.8)
    outcome = run_together({"p1": world.party("p1")})
    assert isinstance(outcome.errors["p1"], CannotConnect)


def test_a_key_that_charlie_does_not_know_is_told_at_once() -> None:
    world = World.new(2, deadline=300)
    stranger = new_keys()
    study = world.changed(str(world.keys["p1"].public), str(stranger.public))
    done = threading.Event()

    async def never(seat: Seat) -> None:
        await seat.join()

    charlie = world.charlie()

    def host() -> None:
        with pytest.raises(RunFailed):
            run_role(_until(done, Seat(CHARLIE, charlie.names)), charlie, SystemRng())

    thread = threading.Thread(target=host)
    thread.start()
    session = world.party("p1", study=study, keys=stranger)
    with raises(CannotConnect, "party_not_admitted"):
        run_role(never(Seat("p1", session.names)), session, SystemRng())
    done.set()
    thread.join()


async def _until(done: threading.Event, seat: Seat) -> None:
    await seat.once("wait", lambda _rng: done.wait(600))
    raise RunFailed("enough")


def test_another_charlie_key_is_told_soon() -> None:
    world = World.new(2, deadline=300)
    impostor = new_keys()
    study = world.changed(str(world.keys[CHARLIE].public), str(impostor.public))
    done = threading.Event()
    charlie = world.charlie()

    def host() -> None:
        with pytest.raises(RunFailed):
            run_role(_until(done, Seat(CHARLIE, charlie.names)), charlie, SystemRng())

    thread = threading.Thread(target=host)
    thread.start()
    session = world.party("p1", study=study)
    with raises(CannotConnect, "server_with_another_key"):
        run_role(toy_party(Seat("p1", session.names)), session, SystemRng())
    done.set()
    thread.join()


def test_a_port_in_use_is_found_before_the_role_works() -> None:
    world = World.new(2)
    first = world.charlie()
    first.open()
    second = world.charlie()
    with raises(BadInput, "socket_in_use"):
        run_role(toy_charlie(Seat(CHARLIE, second.names)), second, SystemRng())
    assert first.link is not None
    first.link.close(0)


def test_a_large_draw_is_written_down_at_once() -> None:
    """A role draws many such before it sends anything, and they would all wait in memory."""
    journal, thread = MemoryJournal(lambda _: None), SimpleNamespace(asked=queue.SimpleQueue())
    session = SimpleNamespace(steps=ReplayLog(journal))
    for label, size in (("small", 1), ("large", driver._LARGE), ("after it", 1)):
        thread.asked.put(driver._Drawn(label, pack_plain(bytes(size))))
    driver._hand_over(session, thread, None)  # type: ignore[arg-type]  # all that is used of either
    assert [row.label for row in journal.rows] == ["small", "large"]
    session.steps.commit()
    assert [row.label for row in journal.rows] == ["small", "large", "after it"]


def test_a_journal_that_another_program_began_is_not_gone_on_with() -> None:
    journal = MemoryJournal(lambda _: None)
    journal.rows = [Entry("program", data=Program({"a/b.py": "1"}).packed()), Entry("begun", data=b"records")]
    session = World.new(2).party("p1", program=Program({"a/b.py": "2"}))
    with pytest.raises(ProgramChanged):
        run_role(toy_party(Seat("p1", session.names)), session, SystemRng(), journal=journal, begun=b"records")
    assert session.link is None


@pytest.mark.parametrize("gathers", [False, True])
def test_only_a_session_that_gathers_frames_is_let_sleep_on(gathers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step for each frame of many costs more than the frames do."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)

    session: Any = SimpleNamespace(link=None, gathers=gathers, due_in=lambda: 0.0)
    bell, ringer = socket.socketpair()
    bell.setblocking(False)
    with bell, ringer:
        driver._sleep(session, bell)
    assert slept == ([0.01] if gathers else [])


def test_a_role_waits_for_the_session_after_a_send_and_for_no_note() -> None:
    """A note costs no way to the other thread and back, and wakes nobody; it is there before what follows."""
    effects = (
        Stage("rounds"),
        Release("first", 1.0, 0.0),
        Progress(1, 2, ()),
        Send("message", "Hi", (CHARLIE,), (b"",)),
    )

    class Asking:
        def __await__(self) -> Generator[Any, Any, None]:
            yield from (*effects, Stage("never"))

    async def role() -> None:
        await Asking()

    bell, ringer = socket.socketpair()
    with bell, ringer:
        thread = driver._RoleThread(role(), SystemRng(), ringer)
        thread.start()
        assert tuple(thread.asked.get(timeout=10) for _ in effects) == effects
        thread.join(0.2)
        assert (thread.is_alive(), thread.asked.empty()) == (True, True)
        assert bell.recv(64) == b"\0"  # of the send
        thread.abandon()
        thread.join(60)
        assert thread.asked.empty()

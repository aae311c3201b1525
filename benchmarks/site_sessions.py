"""The cost of a study with many sites to Charlie and a party: ``python -m benchmarks.site_sessions [K] [--rounds N]``.

Charlie runs as in a process of his own: his session, his socket and his driver. The parties' sessions, sockets and
roles are the program's own as well, but many of them share one process and one thread there: 1,000 processes would
spend two processors on importing libraries alone. All messages go over CURVE on this machine's loopback.

The figures: Charlie's CPU time in the set-up (from the first hello until all have joined, and until the first round),
and in each round for each party, also in units of E, the CPU time of one ``raw_encrypt`` of phe at 2048 bits, measured
in the same process before and after; bytes of a party; and memory of a party's session.
"""

import argparse
import gc
import json
import multiprocessing
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import zmq
from phe import paillier

from masquerade_core.data.schema import Dataset
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Effect, Join, Once, Seat
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_host.process.driver import returned, run_role
from masquerade_host.process.process import allow_descriptors
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport import dialer
from masquerade_host.transport.dialer import probe
from masquerade_host.transport.sockets import CharlieSocket
from masquerade_protocols import protocol_of

__all__ = ["Figures", "free_port", "measure", "study_of"]

_RECORDS = 20  # of each party
_TICK = 0.1  # seconds between two looks at a session in which nothing happens
_PATIENCE = 900.0  # seconds for the parties to end after Charlie, on a machine that is busy with other work


def study_of(names: list[str], keys: dict[str, PublicKeys], d: int, rounds: int, address: str) -> Study:
    """Return a study of ``dp-gd`` under masks."""
    lines = [
        '[study]\nname = "sites"\nprotocol = "dp-gd"\nmin_parties = 2',
        f'min_records = {_RECORDS}\ndeadline_seconds = 600.0\nnonce = "0123456789abcdef"',
        '[privacy]\nepsilon = 1.0\ndelta = 1e-6\ncalibration = "proven"',
        f"[protocol]\nrounds = {rounds}",
        '[model]\nregularization = 0.01\n[crypto]\nsum = "masks"\n[label]\nname = "y"\npositive = "1"',
        f'[curator]\naddress = "{address}"\nkey = "{keys[CHARLIE]}"',
        *(f'[[feature]]\nname = "x{i}"\nmin = -1.0\nmax = 1.0' for i in range(d)),
        *(f'[[party]]\nname = "{name}"\nkey = "{keys[name]}"' for name in names),
    ]
    return Study.parse("\n".join(lines))


# --- The parties ----------------------------------------------------------------------


class _SharedContext(zmq.Context):  # type: ignore[type-arg]
    """One context for all parties of a process; it ends with the process."""

    def term(self) -> None:
        """Keep it for the others."""


@dataclass
class _Party:
    """One party's session and role, stepped by hand."""

    session: PartySession
    role: Coroutine[Effect, Any, Any]
    rng: SystemRng
    pending: Effect | None = None
    begun: bool = False
    started: bool = False
    done: bool = False
    sockets: tuple[Any, ...] = ()

    def prepare(self) -> None:
        """Let the role do what it does before it joins, as a process of its own would before it connects."""
        while not isinstance(self.pending, Join) and self._role_moves():
            pass

    def go_on(self) -> None:
        """Let the role do what it can, and the session too."""
        while not self.done and self._role_moves():
            pass
        if not self.session.closed:
            self.session.step()
            while not self.done and self._role_moves():
                pass

    def _role_moves(self) -> bool:
        answer: Any = None
        if isinstance(self.pending, Once):
            packed = pack_plain(self.pending.compute(self.rng))
            answer = unpack_plain(packed)
        elif self.started:
            if not self.begun:
                self.begun = True
                self.session.begin(self.pending)  # type: ignore[arg-type]
            answers = self.session.answers()
            if not answers:
                return False
            (answer,) = answers
        self.started = True
        try:
            self.pending, self.begun = self.role.send(answer), False
        except StopIteration as stop:
            self.done = True
            returned(self.session, stop.value)
        return True


def _rss() -> int:
    with open(f"/proc/{os.getpid()}/statm", encoding="ascii") as file:  # noqa: PTH123 - not a file of ours
        return int(file.read().split()[1]) * resource.getpagesize()


def _records(study: Study, number: int) -> Dataset:
    rng = np.random.default_rng(number)
    X = rng.normal(size=(_RECORDS, study.d))
    return Dataset(X / np.linalg.norm(X, axis=1, keepdims=True), np.where(X[:, 0] > 0, 1.0, -1.0))


def _play(study: Study, keys: dict[str, Keys], names: list[str], told: Any, ready: Any, listening: Any) -> None:
    """Play these parties to their end, in this process, and tell what they cost."""
    allow_descriptors()
    context = _SharedContext()
    context.set(zmq.MAX_SOCKETS, 20_000)
    dialer.zmq.Context = lambda: context  # type: ignore[attr-defined]
    protocol = protocol_of(study)
    gc.collect()
    before, cpu = _rss(), time.process_time()
    parties = {}
    for number, name in enumerate(names):
        key = keys[name]
        session = PartySession(
            name,
            study,
            key,
            partial(dialer.PartySocket, study.address, key, study.curator.key.curve),
            partial(probe, study.address, study.curator.key.curve),
            version=protocol_of(study).version,
        )
        role = protocol.party(Seat(name, study.names), study, _records(study, number))
        parties[name] = _Party(session, role, SystemRng())
    for party in parties.values():
        party.prepare()
    ready.release()
    listening.wait()
    _loop(list(parties.values()))
    gc.collect()
    some = parties[names[-1]].session
    told.put(
        {
            "begins": names[0],
            "first": parties[names[0]].session.stats.bytes,
            "bytes": some.stats.bytes,
            "by_stage": {stage.name: stage.bytes for stage in some.stats.stages},
            "memory": (_rss() - before) / len(names),
            "cpu": (time.process_time() - cpu) / len(names),
        }
    )


def _loop(parties: list[_Party]) -> None:
    """Step every party whose sockets have something, and all of them now and then."""
    live, next_tick = dict(enumerate(parties)), 0.0
    poller = zmq.Poller()
    where: dict[Any, int] = {}
    while live:
        now = time.monotonic()
        due = set(live) if now >= next_tick else set()
        next_tick = now + _TICK if due else next_tick
        for sock, _ in poller.poll(max(0, int(1000 * (next_tick - now)))):
            due |= {where[sock]} & live.keys()
        moved = False
        for number in due:
            party = live[number]
            party.go_on()
            ended = party.session.closed and party.done
            sockets = party.session.link.sockets if party.session.link is not None and not ended else ()
            moved |= sockets != party.sockets
            party.sockets = sockets
            if ended:
                del live[number]
                party.session.link.close(500)  # type: ignore[union-attr]
        if moved:  # a new connection has new sockets, and the old ones are closed
            where = {sock: number for number, party in live.items() for sock in party.sockets}
            poller = zmq.Poller()
            for sock in where:
                poller.register(sock, zmq.POLLIN)


# --- Charlie --------------------------------------------------------------------------


@dataclass
class Figures:
    """The cost of a run."""

    listens: Callable[[], None]
    marks: list[tuple[str, float, float]] = field(default_factory=list)

    def observe(self, event: str, /, **fields: str | float) -> None:
        """Note when something happened, in seconds and in Charlie's CPU time."""
        if event == "listening":
            self.listens()
        name = f"stage {fields['name']}" if event == "stage" else event
        if event == "progress" and fields["done"] == fields["total"]:
            self.marks.append(("last round", time.perf_counter(), time.process_time()))
        if event in ("stage", "joined", "listening") or (event == "connected" and fields.get("joined") == 1):
            self.marks.append((name, time.perf_counter(), time.process_time()))
        if event in ("left", "lost", "cut_off", "turned_away", "refused"):
            print(event, fields, file=sys.stderr)

    def since(self, start: str, end: str) -> tuple[float, float]:
        """Return the seconds and the CPU seconds between two marks."""
        found = {name: (wall, cpu) for name, wall, cpu in reversed(self.marks)}
        (a, b), (c, d) = found[start], found[end]
        return c - a, d - b


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _E() -> list[float]:  # noqa: N802 - its name in all tables
    key = paillier.generate_paillier_keypair(n_length=2048)[0]
    taken = []
    for _ in range(9):
        start = time.process_time()
        key.raw_encrypt(123456789)
        taken.append(time.process_time() - start)
    return taken


def measure(K: int, rounds: int, d: int, processes: int) -> dict[str, Any]:
    """Run a study with K parties once, and return what it cost."""
    allow_descriptors()
    rng = SystemRng()
    names = [f"site-{j}" for j in range(K)]
    keys = {name: Keys(rng.bytes(32), rng.bytes(32)) for name in (*names, CHARLIE)}
    public = {name: key.public for name, key in keys.items()}
    study = study_of(names, public, d, rounds, f"tcp://127.0.0.1:{free_port()}")
    protocol_of(study)
    fork = multiprocessing.get_context("fork")
    told: Any = fork.Queue()
    ready, listening = fork.Semaphore(0), fork.Event()
    shares = [names[i::processes] for i in range(processes)]
    common = (told, ready, listening)
    children = [fork.Process(target=_play, args=(study, keys, share, *common), daemon=True) for share in shares]
    for child in children:
        child.start()
    for _ in children:
        ready.acquire()
    E = _E()
    figures = Figures(listening.set)
    roster = {party.name: party.key.curve for party in study.parties}
    session = CharlieSession(
        study,
        keys[CHARLIE],
        lambda: CharlieSocket(study.address, keys[CHARLIE], roster),
        version=protocol_of(study).version,
        observe=figures.observe,
    )
    begun = _rss()
    run_role(protocol_of(study).charlie(Seat(CHARLIE, study.names), study), session, rng)
    figures.observe("stage", name="end")
    memory = _rss() - begun
    E += _E()
    parties = sorted((told.get(timeout=_PATIENCE) for _ in children), key=lambda p: study.place_of[p["begins"]])
    e = median(E)
    stages = [name for name, _, _ in figures.marks]
    first, last = stages[stages.index("stage keys") + 1], "last round"
    joining, keying = figures.since("connected", "joined"), figures.since("joined", first)
    wall, cpu = figures.since(first, last)
    closing = figures.since(last, "stage end")
    return {
        "K": K,
        "d": d,
        "rounds": rounds,
        "E_ms": 1000 * e,
        "join_wall_s": joining[0],
        "join_cpu_s": joining[1],
        "keys_wall_s": keying[0],
        "keys_cpu_s": keying[1],
        "rounds_wall_s": wall,
        "round_cpu_ms_per_party": 1000 * cpu / rounds / K,
        "round_E_per_party": cpu / rounds / K / e,
        "closing_wall_s": closing[0],
        "closing_cpu_s": closing[1],
        "charlie_memory_MB": memory / 1e6,
        "party_bytes": parties[0]["bytes"],
        "party_bytes_by_stage": parties[0]["by_stage"],
        "first_party_bytes": parties[0]["first"],
        "party_memory_kB": median(p["memory"] for p in parties) / 1e3,
        "party_cpu_s": median(p["cpu"] for p in parties),
        "beats": session.stats.beats,
    }


def main() -> int:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(prog="benchmarks.site_sessions", description="Measure a study with many sites.")
    parser.add_argument("K", type=int, nargs="*", default=[100])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("-d", type=int, default=50)
    parser.add_argument("--processes", type=int, default=4)
    arguments = parser.parse_args()
    for K in arguments.K:
        print(json.dumps(measure(K, arguments.rounds, arguments.d, arguments.processes), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

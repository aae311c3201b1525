"""Charlie's processor time between processes: a party and round of a masked sum over sockets, and a join.

``python -m benchmarks.crowd [K ...]`` starts Charlie as a process of his own, as deployed: session, sockets, driver and
threads. All parties are in another process, each with its session and its socket. What Charlie's process takes is read
by himself, from his process's clock, so it counts all his threads. E is measured in the same process.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq

from benchmarks.measure import Yardstick
from benchmarks.sums import adding, gradient_layout, gradient_study, multiplying, some_vector
from benchmarks.wall import _free_port as free_port
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Once, Seat
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_core.study_files import load_study
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_host.process.driver import run_role
from masquerade_host.process.progress import quiet
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_host.store.keyfiles import Keys, load_keys
from masquerade_host.store.new_keys import make_keys
from masquerade_host.transport.dialer import PartySocket
from masquerade_host.transport.sockets import CharlieSocket
from masquerade_protocols import protocol_of

SIZES = (50, 200, 800)
ROUNDS = int(os.environ.get("ROUNDS", "20"))
COORDINATES = 100
_PATIENCE = 600.0


@dataclass(frozen=True)
class Crowd:
    """What Charlie's process took, in seconds of processor time: for the join, and for each party and round."""

    K: int
    join: float
    round: float
    wall: float
    e: float


class _Reporting(Seat):
    """Charlie's seat, which notes the clock of his process at each stage."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.at: list[tuple[str, float, float]] = []

    async def stage(self, name: str) -> None:
        self.at.append((name, time.process_time(), time.perf_counter()))
        await super().stage(name)


def _charlie(directory: Path) -> None:
    study, _ = load_study(directory / "study.toml")
    keys, yardstick = load_keys(directory / "charlie.key"), Yardstick(2048)
    yardstick.take()
    roster = {party.name: party.key.curve for party in study.parties}
    seat = _Reporting(CHARLIE, study.names)
    host = CharlieSession(
        study,
        keys,
        lambda: CharlieSocket(study.address, keys, roster),
        version=protocol_of(study).version,
        observe=quiet,
    )
    before = time.process_time()

    async def role() -> None:
        await multiplying(seat, study, ROUNDS)
        seat.at.append(("end", time.process_time(), time.perf_counter()))

    run_role(role(), host, SystemRng())
    yardstick.take()
    at = {name: (cpu, wall) for name, cpu, wall in seat.at}
    rounds = (at["end"][0] - at["rounds"][0]) / (ROUNDS * study.K)
    wall = (at["end"][1] - at["rounds"][1]) / ROUNDS
    e = sorted(yardstick.samples)[len(yardstick.samples) // 2]
    (directory / "charlie.json").write_text(json.dumps([study.K, at["keys"][0] - before, rounds, wall, e]))


class _Party:
    """One of many parties of a process: its role is stepped where its session answers."""

    def __init__(self, name: str, study: Study, keys: Keys, version: str) -> None:
        self.session = PartySession(
            name,
            study,
            keys,
            lambda: PartySocket(study.address, keys, study.curator.key.curve),
            lambda: None,  # type: ignore[arg-type,return-value]
            version=version,
            observe=quiet,
        )
        self._role = adding(Seat(name, study.names), study, ROUNDS, time.perf_counter)
        self.total: tuple[int, ...] = ()

    def begin(self) -> None:
        self.session.open()
        self._go_on(None)

    def step(self) -> None:
        if not self.session.closed:
            self.session.step()
            self._answer()

    def _answer(self) -> None:
        for answer in self.session.answers():
            self._go_on(answer)

    def _go_on(self, answer: Any) -> None:
        from masquerade_host.process.driver import returned

        try:
            effect = self._role.send(answer)
            while isinstance(effect, Once):
                packed = pack_plain(effect.compute(SystemRng()))
                self.session.steps.note("once", label=effect.label, data=packed)
                effect = self._role.send(unpack_plain(packed))
            self.session.begin(effect)
        except StopIteration as stop:
            self.total = stop.value[1]
            returned(self.session, stop.value[1] and None)
            return
        self._answer()


def _parties(directory: Path) -> None:
    study, _ = load_study(directory / "study.toml")
    context = zmq.Context.instance(4)
    context.max_sockets = 8 * study.K + 64
    zmq.Context = lambda: _Shared(context)  # type: ignore[misc,assignment]  # one for all, as in no other process
    parties = [_Party(name, study, load_keys(directory / f"{name}.key"), protocol_of(study).version) for name in study.names]
    for party in parties:
        party.begin()
    until = time.monotonic() + _PATIENCE
    swept, poller, by_fd, known = 0.0, zmq.Poller(), {}, {}
    while not all(party.session.closed for party in parties):
        assert time.monotonic() < until, "the parties did not end in time"
        if swept + 0.3 < time.monotonic():
            swept = time.monotonic()
            for party in parties:
                party.step()
            now = {id(party): party.session.link.sockets for party in parties if party.session.link is not None}
            if now != known:
                known, poller, by_socket = now, zmq.Poller(), {}
                for party in parties:
                    for sock in now.get(id(party), ()):
                        poller.register(sock, zmq.POLLIN)
                        by_socket[sock] = party
        for party in {id(by_socket[sock]): by_socket[sock] for sock, _ in poller.poll(50) if sock in by_socket}.values():
            party.step()
    layout = gradient_layout(study)
    clear = tuple(sum(c) for c in zip(*(some_vector(layout, who) for who in study.names), strict=True))
    assert all(party.total == clear for party in parties), "a total differs from the sum without masks"


class _Shared:
    def __init__(self, context: Any) -> None:
        self._context = context

    def socket(self, *args: Any) -> Any:
        return self._context.socket(*args)

    def term(self) -> None:
        """Another one's."""


def measure(K: int) -> Crowd:
    """Play one run."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)

        def key_of(who: str) -> PublicKeys:
            return make_keys(directory / f"{who}.key").public

        study = gradient_study(K, COORDINATES, ROUNDS, masks=True, address=f"tcp://127.0.0.1:{free_port()}", key_of=key_of)
        (directory / "study.toml").write_text(study.to_toml())
        command = [sys.executable, "-m", "benchmarks.crowd"]
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if os.environ.get("CPROF"):
            started = [subprocess.Popen([sys.executable, "/tmp/w/crowd/prof.py", "charlie", name], env={**env, "PYTHONPATH": "."}), subprocess.Popen([*command, "parties", name], env=env)]
        else:
            started = [subprocess.Popen([*command, who, name], env=env) for who in (CHARLIE, "parties")]
        try:
            codes = [process.wait(_PATIENCE) for process in started]
        finally:
            for process in started:
                process.kill()
        assert not any(codes), f"a process of the benchmark ended with {codes}"
        return Crowd(*json.loads((directory / "charlie.json").read_text()))


def main(sizes: Sequence[int]) -> None:
    for K in sizes:
        c = measure(K)
        print(f"K = {K}: join {c.join:.2f} s = {c.join / c.e / K:.3f} E a party; {c.round / c.e:.4f} E a party and round; wall of a round {c.wall * 1000:.0f} ms; E = {c.e * 1000:.2f} ms", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == [CHARLIE]:
        _charlie(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["parties"]:
        _parties(Path(sys.argv[2]))
    else:
        main([int(word) for word in sys.argv[1:]] or SIZES)

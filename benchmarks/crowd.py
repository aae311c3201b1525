"""Charlie's processor time over sockets: for each party and round of a masked sum, and for the join.

``python -m benchmarks.crowd [--busy N] [K ...]`` starts Charlie in a process of his own, as deployed: session, sockets,
driver and threads. All parties are in a second process, each with its session and its socket. Charlie reads the clock
of his process, which counts all its threads. E is measured in the same process, before the join and after the last
round. With ``--busy``, so many processes that do nothing else keep the processors busy meanwhile.

``python -m benchmarks.crowd WHO DIRECTORY`` is one of the two processes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median
from typing import Any

import zmq

from benchmarks.measure import Yardstick
from benchmarks.sums import adding, gradient_layout, gradient_study, multiplying, some_vector
from benchmarks.wall import free_port
from masquerade_core.errors import RunFailed
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Once, Seat
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_core.study_files import load_study
from masquerade_core.wire.codec import Message, pack_plain, unpack_plain
from masquerade_host.process.driver import returned, run_role
from masquerade_host.process.progress import quiet
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_host.store.keyfiles import Keys, load_keys
from masquerade_host.store.new_keys import make_keys
from masquerade_host.transport.dialer import Answer, PartySocket
from masquerade_host.transport.sockets import CharlieSocket
from masquerade_protocols import protocol_of
from masquerade_protocols.blocks.layouts import as_words
from masquerade_protocols.blocks.masked_sum import Masked

SIZES = (50, 200, 800)
COORDINATES = 100
CONTRIBUTIONS = 10_000  # of all parties together; a size has as many rounds as that makes, and ten at least
_PATIENCE = 600.0
_SWEEP = 0.3  # seconds between two steps of a party for which nothing has come


def _rounds(study: Study) -> int:
    return max(10, CONTRIBUTIONS // study.K)


@dataclass(frozen=True)
class Crowd:
    """The processor seconds that Charlie's process took, and E.

    Attributes
    ----------
    parties : int
    join : float
        From before he listens until every party has joined.
    round : float
        Of one party and round.
    wall : float
        Seconds of a round by the clock.
    E : float
    """

    parties: int
    join: float
    round: float
    wall: float
    E: float


# --- Charlie --------------------------------------------------------------------------


class _Timed(Seat):
    """A seat that notes the clocks when a stage begins."""

    def __init__(self, me: str, parties: tuple[str, ...]) -> None:
        super().__init__(me, parties)
        self.at: dict[str, tuple[float, float]] = {}

    async def stage(self, name: str) -> None:
        self.at[name] = time.process_time(), time.perf_counter()
        await super().stage(name)


def _host(directory: Path) -> None:
    study, _ = load_study(directory / "study.toml")
    keys, yardstick = load_keys(directory / f"{CHARLIE}.key"), Yardstick(2048)
    roster = {party.name: party.key.curve for party in study.parties}
    seat, version = _Timed(CHARLIE, study.names), protocol_of(study).version
    session = CharlieSession(
        study, keys, lambda: CharlieSocket(study.address, keys, roster), version=version, observe=quiet
    )

    async def role() -> None:
        await multiplying(seat, study, _rounds(study))
        await seat.stage("end")

    yardstick.take()
    before = time.process_time()
    run_role(role(), session, SystemRng())
    yardstick.take()
    (cpu, wall), (cpu_end, wall_end) = seat.at["rounds"], seat.at["end"]
    crowd = Crowd(
        study.K,
        seat.at["keys"][0] - before,
        (cpu_end - cpu) / (_rounds(study) * study.K),
        (wall_end - wall) / _rounds(study),
        median(yardstick.samples),
    )
    (directory / "crowd.json").write_text(json.dumps(vars(crowd)))


# --- The parties ----------------------------------------------------------------------


class _Watched(Seat):
    """A seat that ends with an error if a contribution opens without those of the others."""

    def __init__(self, me: str, study: Study) -> None:
        super().__init__(me, study.names)
        self._words = as_words(gradient_layout(study))

    async def send(self, to: str, message: Message) -> None:
        if isinstance(message, Masked):
            with suppress(RunFailed):
                self._words.decode(self._words.read(message.words), 1)
                raise AssertionError(f"what {self.me} sent is its vector, without masks")
        await super().send(to, message)


class _Party:
    """One of many parties of a process: its role goes on whenever its session has an answer."""

    def __init__(self, name: str, study: Study, keys: Keys, version: str) -> None:
        self.session = PartySession(
            name,
            study,
            keys,
            lambda: PartySocket(study.address, keys, study.curator.key.curve),
            lambda: Answer.CHARLIE,
            version=version,
            observe=quiet,
        )
        self.total: tuple[int, ...] = ()
        self._role = adding(_Watched(name, study), study, _rounds(study), time.perf_counter)
        self.session.open()
        self._go_on(None)

    def step(self) -> None:
        """Take what has come."""
        if not self.session.closed:
            self.session.step()
            self._answer()

    def _answer(self) -> None:
        for answer in self.session.answers():
            self._go_on(answer)

    def _go_on(self, answer: Any) -> None:
        try:
            effect = self._role.send(answer)
            while isinstance(effect, Once):
                packed = pack_plain(effect.compute(SystemRng()))
                self.session.steps.note("once", label=effect.label, data=packed)
                effect = self._role.send(unpack_plain(packed))
        except StopIteration as stop:
            self.total = stop.value[1]
            returned(self.session, None)
            return
        self.session.begin(effect)
        self._answer()


class _Shared:
    """One context of ZeroMQ for all parties: with one each, they would need two threads each."""

    def __init__(self, context: Any) -> None:
        self.socket = context.socket

    def term(self) -> None:
        """The others still use it."""


def _parties(directory: Path) -> None:
    study, _ = load_study(directory / "study.toml")
    context: Any = zmq.Context.instance()
    context.max_sockets = 8 * study.K + 64
    zmq.Context = lambda: _Shared(context)  # type: ignore[misc,assignment]
    version = protocol_of(study).version
    parties = [_Party(name, study, load_keys(directory / f"{name}.key"), version) for name in study.names]
    until, swept = time.monotonic() + _PATIENCE, 0.0
    whose: dict[Any, _Party] = {}
    poller = zmq.Poller()
    while not all(party.session.closed for party in parties):
        assert time.monotonic() < until, "the parties did not end in time"
        if swept + _SWEEP < time.monotonic():
            for party in parties:
                party.step()
            now = {sock: each for each in parties if each.session.link for sock in each.session.link.sockets}
            if now.keys() != whose.keys():
                whose, poller = now, zmq.Poller()
                for sock in whose:
                    poller.register(sock, zmq.POLLIN)
            swept = time.monotonic()
        came = {id(whose[sock]): whose[sock] for sock, _ in poller.poll(50) if sock in whose}
        for party in came.values():
            party.step()
    layout = gradient_layout(study)
    clear = tuple(sum(c) for c in zip(*(some_vector(layout, name) for name in study.names), strict=True))
    assert all(party.total == clear for party in parties), "a total differs from the sum without masks"


# --- All of it ------------------------------------------------------------------------


def measure(parties: int, busy: int = 0) -> Crowd:
    """Play one run, with so many busy processes beside it.

    Raises
    ------
    AssertionError
        A process failed, a contribution left without masks, or a total is not the sum of the vectors.
    """
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)

        def key_of(who: str) -> PublicKeys:
            return make_keys(directory / f"{who}.key").public

        address = f"tcp://127.0.0.1:{free_port()}"
        study = gradient_study(parties, COORDINATES, 100, masks=True, address=address, key_of=key_of)
        (directory / "study.toml").write_text(study.to_toml())

        def start(*words: str) -> "subprocess.Popen[bytes]":
            process = subprocess.Popen([sys.executable, *words])  # noqa: S603  our own module
            stack.callback(process.kill)
            return process

        for _ in range(busy):
            start("-c", "while True: pass")
        started = [start("-m", "benchmarks.crowd", who, name) for who in (CHARLIE, "parties")]
        codes = [process.wait(_PATIENCE) for process in started]
        assert not any(codes), f"a process of the benchmark ended with {codes}"
        return Crowd(**json.loads((directory / "crowd.json").read_text()))


def main() -> None:
    """Measure some sizes, and print a line for each and the exponent of the join."""
    parser = argparse.ArgumentParser(prog="benchmarks.crowd", description="Measure Charlie's time over sockets.")
    parser.add_argument("sizes", nargs="*", type=int, metavar="K", default=SIZES, help="how many parties")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy processes beside the run")
    arguments = parser.parse_args()
    crowds = [measure(parties, arguments.busy) for parties in arguments.sizes]
    for crowd in crowds:
        print(
            f"K = {crowd.parties}: {crowd.round / crowd.E:.4f} E a party and round, join {crowd.join:.2f} s = "
            f"{crowd.join / crowd.E / crowd.parties:.3f} E a party; a round lasts {1000 * crowd.wall:.0f} ms, E is "
            f"{1000 * crowd.E:.2f} ms"
        )
    if len(crowds) > 1:
        first, last = crowds[0], crowds[-1]
        exponent = log((last.join / last.E) / (first.join / first.E)) / log(last.parties / first.parties)
        print(f"the join grows with K^{exponent:.2f}")


if __name__ == "__main__":
    if sys.argv[1:2] == [CHARLIE]:
        _host(Path(sys.argv[2]))
    elif sys.argv[1:2] == ["parties"]:
        _parties(Path(sys.argv[2]))
    else:
        main()

"""Whoever watches the network and clocks a party's answers: what it learns of the number of records.

The party's answers come from the program's own sessions over real sockets, and the gradients are real.
"""

import time
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.losses import loss_of
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import Broadcast, Message
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.transport.interface import Arrival
from masquerade_host.transport.sockets import CharlieSocket
from masquerade_protocols.dp_gd.roles import clipped_sum
from tests.host_helpers import VERSION, World, run_together
from tests.protocol_helpers import make_data, make_study

SIZES = (300, 300_000)
D = 10
ROUNDS = 200  # of two parties each
TURNS = 3  # of the schedule, at most: other work on the machine makes an answer overrun a slot


class Point(Broadcast):
    """Charlie to all: a round is open."""

    round: int


class Gradient(Message):
    """A party's answer."""

    words: bytes


class Tapped:
    """Charlie's socket, and beside it a clock that notes when rounds open and when answers arrive."""

    def __init__(self, inner: CharlieSocket) -> None:
        self._inner = inner
        self.opened = 0.0
        self.delays: dict[str, list[float]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def send(self, name: str, data: bytes) -> None:
        if b"Point" in data:
            self.opened = time.perf_counter()
        self._inner.send(name, data)

    def arrivals(self) -> Iterator[Arrival]:
        for arrival in self._inner.arrivals():
            if arrival.data is not None and b"Gradient" in arrival.data:
                self.delays.setdefault(arrival.name, []).append(time.perf_counter() - self.opened)
            yield arrival


def gradient(own: Dataset, _rng: Rng) -> tuple[int, ...]:
    """A round's work in dp-gd."""
    return tuple(clipped_sum(own, np.zeros(own.X.shape[1]), loss_of("logistic"), Fraction(1)).tolist())


def delays_of(slot: float | None, rounds: int = ROUNDS) -> tuple[np.ndarray, np.ndarray]:
    """The delays of all answers, and for each whether it was made from the larger number of records."""
    world = World.new(2, deadline=30.0)
    study = world.study
    if slot is not None:
        study = world.changed("deadline_seconds = 30.0", f"deadline_seconds = 30.0\nslot_seconds = {slot}")
    coin = SimulationRng("sizes")
    larger = {name: [coin.below(2) == 1 for _ in range(rounds)] for name in study.names}
    records = {n: next(iter(make_data(make_study(2, D), (n, n)).values())) for n in SIZES}

    async def party(seat: Seat) -> None:
        await seat.join()
        for t in range(rounds):
            await seat.receive(Point, CHARLIE)
            words = await seat.once(f"gradient {t}", partial(gradient, records[SIZES[larger[seat.me][t]]]))
            await seat.send(CHARLIE, Gradient(words=b"".join((v % 2**64).to_bytes(8, "big") for v in words)))

    async def charlie(seat: Seat) -> None:
        await seat.join()
        for t in range(rounds):
            await seat.broadcast(Point(round=t))
            await seat.gather(Gradient, seat.names)

    taps: list[Tapped] = []

    def connect() -> Any:
        roster = {p.name: p.key.curve for p in study.parties}
        taps.append(Tapped(CharlieSocket(study.address, world.keys[CHARLIE], roster)))
        return taps[0]

    sessions: dict[str, Any] = {
        CHARLIE: CharlieSession(study, world.keys[CHARLIE], connect, version=VERSION),
        **{name: world.party(name, study) for name in study.names},
    }
    outcome = run_together(sessions, {CHARLIE: charlie, **dict.fromkeys(study.names, party)})
    assert not outcome.errors
    delays = np.array([taps[0].delays[name] for name in study.names]).T.ravel()
    return delays, np.array([larger[name] for name in study.names]).T.ravel()


def accuracy(delays: np.ndarray, larger: np.ndarray) -> float:
    """The share of the second half that the threshold gets right that is best on the first half."""
    half = len(delays) // 2
    train, truth = delays[:half], larger[:half]
    cuts = np.concatenate([[-np.inf], np.sort(train)])
    _, cut, above = max(
        (np.mean(((train > cut) == above) == truth), cut, above) for cut in cuts for above in (True, False)
    )
    return float(np.mean(((delays[half:] > cut) == above) == larger[half:]))


@pytest.mark.alone
def test_the_time_of_an_answer_tells_the_size_without_the_schedule_and_not_with_it() -> None:
    delays, larger = delays_of(None)
    assert accuracy(delays, larger) >= 0.9
    slot = 8 * float(np.median(delays[larger]))  # as a study would choose it: for the largest party, with time to spare
    for _ in range(TURNS):
        delays, larger = delays_of(slot)
        if delays.max() < 1.9 * slot:
            break
        slot *= 2  # an answer overran it
    assert delays.max() < 1.9 * slot
    assert accuracy(delays, larger) <= 0.6

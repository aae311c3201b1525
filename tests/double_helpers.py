"""Sums under double masks at the table, and Charlies who cheat."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from masquerade_core.crypto.masks import Words
from masquerade_core.errors import MasqueradeError
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Silence, Table
from masquerade_protocols.blocks.double_charlie import DoubleCharlieSums
from masquerade_protocols.blocks.double_masks import DoublePartySums
from tests.dropout_helpers import masked_text

Cheat = Callable[["DoubleSums", Seat], Coroutine[Any, Any, None]]


def flaky_study(protocol: str = "dp-gd", K: int = 20, survivors: int = 17, **kw: Any) -> Study:
    """A study that goes on without silent parties by double masks."""
    section = f'[dropouts]\nmethod = "double-masks"\nmin_survivors = {survivors}\npatience_seconds = 5.0\n'
    return Study.parse(masked_text(protocol, K, kw.pop("d", 3), **kw) + section, in_memory=True)


@dataclass
class DoubleSums:
    """Some sums under double masks; ``vectors[name][t]`` is what a party contributes to sum t."""

    study: Study
    layout: Words
    rounds: int
    vectors: dict[str, list[list[int]]]
    table: Table = field(init=False)
    parties: dict[str, DoublePartySums] = field(default_factory=dict)
    charlie: DoubleCharlieSums | None = None
    accepted: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    told: list[tuple[int, ...]] = field(default_factory=list)
    errors: dict[str, MasqueradeError] = field(default_factory=dict)

    @classmethod
    def of(cls, study: Study, rounds: int = 1, length: int = 4) -> DoubleSums:
        """Small random vectors."""
        rng = SystemRng()
        vectors = {
            name: [[rng.below(2**20) - 2**19 for _ in range(length)] for _ in range(rounds)] for name in study.names
        }
        return cls(study, Words(length, 2**30), rounds, vectors)

    def run(self, charlie: Cheat | None = None, silent: dict[str, Silence] | None = None) -> DoubleSums:
        """Run the sums, by default with an honest Charlie. A party's error ends that party alone."""
        self.table = Table(self.study.names, silent=silent)
        self.accepted = {name: [] for name in self.study.names}
        roles: dict[str, Any] = {name: self._party(self.table.seat(name)) for name in self.study.names}
        roles[CHARLIE] = self._play(self.table.seat(CHARLIE), charlie)
        self.table.run(roles)
        return self

    async def _party(self, seat: Seat) -> None:
        await seat.join()
        sums = self.parties[seat.me] = await DoublePartySums.set_up(seat, self.study)
        try:
            for t in range(self.rounds):
                got = await sums.open_sum(self.layout, self.vectors[seat.me][t], f"{t}".encode())
                self.accepted[seat.me].append(got)
        except MasqueradeError as error:
            self.errors[seat.me] = error

    async def _play(self, seat: Seat, charlie: Cheat | None) -> None:
        await seat.join()
        self.charlie = await DoubleCharlieSums.set_up(seat, self.study)
        if charlie is not None:
            return await charlie(self, seat)
        for _ in range(self.rounds):
            self.told.append(await self.charlie.open_sum(self.layout, again=True))
        return None

    def added(self, t: int, without: tuple[str, ...] = ()) -> tuple[int, ...]:
        """The sum of what all others contribute to sum t."""
        rows = (self.vectors[name][t] for name in self.study.names if name not in without)
        return tuple(map(sum, zip(*rows, strict=True)))

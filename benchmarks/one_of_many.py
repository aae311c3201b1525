"""``python -m benchmarks.one_of_many``: one party's sums among 100, 1,000 and 20,000 parties, in turns within a minute.

A whole run of 20,000 parties takes minutes, in which a machine changes its speed (:mod:`benchmarks.sites`). Here one
party after another joins, finds its neighbours and contributes, at each size in turn. Nobody answers: the others' keys
are made up, and the sums are those that Charlie alone learns. So the ratios between the sizes are steady.
"""

import sys
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import KEY_BITS, Yardstick
from benchmarks.sites import COORDINATES, FLAT, crowd_study
from masquerade_core.crypto.masks import Words
from masquerade_core.crypto.pair_keys import BoxKey
from masquerade_core.neighbours import neighbours_of
from masquerade_core.rng import SystemRng
from masquerade_core.roster_disclosure import coin_of, shown_to
from masquerade_core.seat import Effect, Join, Once, Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_protocols.blocks.masked_sum import MaskedPartySums, Survivors

SIZES = 100, 1000, 20_000
TURNS = 60
ROUNDS = 5  # of each party
KEYS = 300  # of others, which are repeated

_RNG = SystemRng()
_LAYOUT = Words(COORDINATES, 1 << 30)


@dataclass
class _Crowd:
    """A study with what its parties are shown, and the seconds that they took."""

    study: Study
    keys: dict[str, bytes]
    run: bytes = field(default_factory=lambda: _RNG.bytes(16))
    root: bytes = field(default_factory=lambda: _RNG.bytes(32))
    circle: list[float] = field(default_factory=list)
    keyed: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, K: int) -> "_Crowd":
        study = crowd_study(K)
        public = [BoxKey(_RNG.bytes(32)).public for _ in range(KEYS)]
        names = (*study.names, CHARLIE)
        return cls(study, {name: public[i % KEYS] for i, name in enumerate(names)})

    async def party(self, seat: Seat) -> None:
        """Join, derive the keys that are common with neighbours, and contribute a few times."""
        began = time.process_time()
        await seat.join()
        coin = seat.roster_hash()
        sums = MaskedPartySums(seat, self.study, {}, bytes(32), coin, Survivors.of(self.study), coin)
        sums._meet()  # noqa: SLF001 - set_up would wait for the first party's key of the check values
        self.keyed.append(time.process_time() - began)
        for _ in range(ROUNDS):
            began = time.process_time()
            await sums.contribute(_LAYOUT, range(COORDINATES), b"a point")
            self.rounds.append(time.process_time() - began)

    def play(self, me: str) -> None:
        """Run one party, and answer its effects."""
        began = time.process_time()
        neighbours_of(_RNG.bytes(32), self.study.names, me)
        self.circle.append(time.process_time() - began)
        role: Coroutine[Effect, Any, None] = self.party(Seat(me, self.study.names))
        answer: Any = None
        try:
            while True:
                answer = self._answer(role.send(answer), me)
        except StopIteration:
            pass

    def _answer(self, effect: Effect, me: str) -> Any:
        match effect:
            case Once(_, compute):
                return unpack_plain(pack_plain(compute(_RNG)))
            case Join():
                shown = (*shown_to(self.study, coin_of(self.run, self.root), me), CHARLIE)
                return tuple((name, self.keys[name]) for name in shown), self.run, self.root
        return None


def main() -> int:
    """Measure, print the table, and compare the sizes."""
    crowds, yardstick = [_Crowd.of(K) for K in SIZES], Yardstick(KEY_BITS)
    for turn in range(TURNS):
        yardstick.take(2)
        for crowd in crowds:
            crowd.play(crowd.study.names[1 + 37 * turn % (crowd.study.K - 1)])
    e, least = median(yardstick.samples), median(crowds[0].rounds)
    shown = Table("K", "a round", "of K = 100", "join, keys of neighbours", "circle", title=f"E = {1e3 * e:.1f} ms")
    for crowd in crowds:
        mine = median(crowd.rounds)
        rest = (f"{median(crowd.keyed) / e:.3f} E", f"{median(crowd.circle) / e:.3f} E")
        shown.add_row(f"{crowd.study.K:,}", f"{mine / e:.3f} E", f"{mine / least:.2f}", *rest)
    Console().print(shown)
    return 0 if median(crowds[-1].rounds) <= FLAT * least else 1


if __name__ == "__main__":
    sys.exit(main())

"""Studies that may lose parties."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from masquerade_core.crypto.masks import Words, as_integers
from masquerade_core.errors import MasqueradeError, RunFailed
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Silence, Table
from masquerade_protocols.blocks import masked_sum as messages
from masquerade_protocols.blocks import masked_sum as ms
from masquerade_protocols.blocks.masked_sum import Outcome
from tests.helpers import tell_each
from tests.masked_helpers import under_masks
from tests.protocol_helpers import make_study
from tests.sum_helpers import sent

DROPOUTS = "[dropouts]\nmin_survivors = 3\nretries = 2\npatience_seconds = 5.0\n"


def masked_text(protocol: str, K: int = 5, d: int = 3, *, section: str = "", colluders: int = 0, **kw: Any) -> str:
    """A proven study whose sums are made with masks."""
    text = make_study(K, d, **kw).to_toml()
    text = re.sub(r"(lead|key_bits) = .*\n", "", text)
    for old, new in (
        ('protocol = "local-aggregation"', f'protocol = "{protocol}"'),
        ('noise = "laplace"', section),
        ('calibration = "paper"', 'calibration = "proven"'),
        ("colluders = 0", f"colluders = {colluders}"),
        ('sum = "paillier"', 'sum = "masks"'),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def losing_study(
    protocol: str = "dp-gd", K: int = 5, d: int = 3, *, survivors: int = 3, retries: int = 2, **kw: Any
) -> Study:
    """A study that goes on without parties that fall silent."""
    return Study.parse(masked_text(protocol, K, d, **kw) + _section(survivors, retries), in_memory=True)


def _section(survivors: int, retries: int) -> str:
    return DROPOUTS.replace("survivors = 3", f"survivors = {survivors}").replace("= 2\n", f"= {retries}\n")


def losing(study: Study, survivors: int = 3, retries: int = 2) -> Study:
    """The same study with masked sums, which goes on without parties that fall silent."""
    text = under_masks(study, calibration='"proven"').to_toml()
    return Study.parse(f"{text}\n{_section(survivors, retries)}", in_memory=True)


# --- Masked sums under a Charlie who cheats ----------------------------------------------------------


Cheat = Callable[["RetriedSums", Seat], Coroutine[Any, Any, None]]


@dataclass
class RetriedSums:
    """Some sums at the table, in a study that may lose parties.

    ``vectors[name][n]`` is what a party contributes the n-th time: no vector serves twice.
    """

    study: Study
    layout: Words
    rounds: int
    vectors: dict[str, list[list[int]]]
    bound_to: Callable[[int], bytes] = lambda t: f"{t}".encode()
    own: Callable[[int], int] = lambda _: 0  # added to every coordinate in sum t
    table: Table = field(init=False)
    sums: dict[str, ms.MaskedPartySums] = field(default_factory=dict)
    accepted: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    errors: dict[str, MasqueradeError] = field(default_factory=dict)
    heard: list[dict[str, messages.Masked]] = field(default_factory=list)

    @classmethod
    def of(cls, study: Study, rounds: int = 1, length: int = 4) -> RetriedSums:
        """Small random vectors."""
        rng = SystemRng()
        vectors = {name: [[rng.below(2**20) for _ in range(length)] for _ in range(9)] for name in study.names}
        return cls(study, Words(length, 2**30), rounds, vectors)

    def run(self, charlie: Cheat | None = None, silent: dict[str, Silence] | None = None) -> RetriedSums:
        """Run the sums, by default with an honest Charlie. A party's error ends that party alone."""
        self.table = Table(self.study.names, silent=silent)
        self.accepted = {name: [] for name in self.study.names}
        roles: dict[str, Any] = {name: self.party(self.table.seat(name)) for name in self.study.names}
        seat = self.table.seat(CHARLIE)
        roles[CHARLIE] = self._honest(seat) if charlie is None else self._cheating(seat, charlie)
        self.table.run(roles)
        return self

    async def party(self, seat: Seat) -> None:
        """Contribute, and keep what was accepted and what went wrong."""
        await seat.join()
        sums = self.sums[seat.me] = await ms.MaskedPartySums.set_up(seat, self.study)
        unused = iter(self.vectors[seat.me])

        def made(t: int) -> list[int]:
            return [v + self.own(t) for v in next(unused)]

        async def made_again(t: int) -> list[int]:
            return made(t)

        try:
            for t in range(self.rounds):
                got = await sums.open_sum(self.layout, made(t), self.bound_to(t), partial(made_again, t))
                self.accepted[seat.me].append(as_integers(got))
        except MasqueradeError as error:
            self.errors[seat.me] = error

    async def _honest(self, seat: Seat) -> None:
        await seat.join()
        sums = ms.MaskedCharlieSums(seat, self.study)
        for _ in range(self.rounds):
            await sums.open_sum(self.layout, again=True)

    async def _cheating(self, seat: Seat, charlie: Cheat) -> None:
        await seat.join()
        await charlie(self, seat)

    async def hear(self, seat: Seat) -> dict[str, messages.Masked]:
        """Collect what parties contribute now."""
        self.heard.append(await seat.gather_within(messages.Masked, self.study.names, 1.0))
        return self.heard[-1]

    async def ask_again(self, round_: int, sets: dict[str, tuple[str, ...]]) -> None:
        """Tell each of these parties that the sum is made again, by the set that it is told."""
        await tell_each(self.table, {name: self.asked(round_, members) for name, members in sets.items()})

    def asked(self, round_: int, members: tuple[str, ...]) -> Outcome:
        """Charlie's message to have a sum repeated by these parties."""
        return Outcome(round=round_, words=b"", check=b"", receipt=b"", members=members)

    def summed(self, round_: int, got: dict[str, messages.Masked]) -> Outcome:
        """The message of an honest Charlie about these contributions."""
        return Outcome(**messages.summed(round_, self.layout, got).model_dump(), members=tuple(got))

    def times(self, name: str) -> int:
        """How often a party contributed."""
        return len(sent(self.table, name, messages.Masked))

    def added(self, who: dict[str, int]) -> tuple[int, ...]:
        """The sum of the parties' n-th vectors."""
        return tuple(map(sum, zip(*(self.vectors[name][n] for name, n in who.items()), strict=True)))

    def opened(self, contributions: Iterable[messages.Masked]) -> tuple[int, ...] | None:
        """The sum that Charlie reads from these contributions; None if it is no sum."""
        held = list(contributions)
        try:
            return as_integers(self.layout.decode(self.layout.add(self.layout.read(c.words) for c in held), len(held)))
        except RunFailed:
            return None

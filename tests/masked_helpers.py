"""Runs of masked sums, and Charlies who cheat."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from masquerade_core.crypto.masks import Words, as_integers
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_protocols.blocks import masked_sum as messages
from masquerade_protocols.blocks import masked_sum as ms
from tests.helpers import tell_each
from tests.protocol_helpers import make_study

Contributions = dict[str, messages.Masked]
Tell = Callable[[int, Words, Contributions], dict[str, messages.Summed]]
"""Charlie's message to each party in a round, from those that he received."""


def under_masks(study: Study, **changes: str) -> Study:
    """The same study with masked sums; ``changes`` exchanges further lines, ``line_start="new line"``."""
    text = re.sub(r"(?m)^(lead|key_bits) = .*\n", "", study.to_toml())
    text = text.replace('sum = "paillier"', 'sum = "masks"')
    for key, value in changes.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert count == 1
    return Study.parse(text, in_memory=True)


def masked_study(K: int = 4, d: int = 1) -> Study:
    """A study of K parties p0 ... with masked sums."""
    return under_masks(make_study(K, d))


@dataclass
class MaskedSums:
    """Some rounds at the table: what each party's sums were, until one failed."""

    study: Study
    layouts: Sequence[Words]
    table: Table = field(init=False)
    accepted: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    seen: list[Contributions] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = Table(self.study.names)
        self.accepted = {name: [] for name in self.study.names}

    def run(
        self,
        vectors: dict[str, Sequence[Sequence[int]]],
        tell: Tell | None = None,
        bound_to: Callable[[str, int], bytes] | None = None,
    ) -> MaskedSums:
        """Run the sums; ``vectors[name][t]`` is a party's contribution in round t."""
        roles: dict[str, Any] = {
            name: self._party(self.table.seat(name), vectors[name], bound_to or (lambda _, t: f"{t}".encode()))
            for name in self.study.names
        }
        charlie = self.table.seat(CHARLIE)
        roles[CHARLIE] = self._adding(charlie) if tell is None else self._telling(charlie, tell)
        self.table.run(roles)
        return self

    async def _party(
        self, seat: Seat, vectors: Sequence[Sequence[int]], bound_to: Callable[[str, int], bytes]
    ) -> list[tuple[int, ...]]:
        await seat.join()
        sums = await ms.MaskedPartySums.set_up(seat, self.study)
        for t, (layout, vector) in enumerate(zip(self.layouts, vectors, strict=True)):
            self.accepted[seat.me].append(as_integers(await sums.open_sum(layout, vector, bound_to(seat.me, t))))
        return self.accepted[seat.me]

    async def _adding(self, seat: Seat) -> list[tuple[int, ...]]:
        await seat.join()
        sums = ms.MaskedCharlieSums(seat, self.study)
        return [as_integers(await sums.open_sum(layout)) for layout in self.layouts]

    async def _telling(self, seat: Seat, tell: Tell) -> None:
        await seat.join()
        for t, layout in enumerate(self.layouts):
            self.seen.append(await seat.gather(messages.Masked, self.study.names))
            await tell_each(self.table, tell(t, layout, self.seen[-1]))


def honest(t: int, layout: Words, got: Contributions) -> dict[str, messages.Summed]:
    """The message of an honest Charlie."""
    return dict.fromkeys(got, messages.summed(t, layout, got))


def changed(
    told: messages.Summed, layout: Words, by: Callable[[list[int]], Sequence[int]], check: int = 0
) -> messages.Summed:
    """The same message with other coordinates, right marks, and ``check`` added to the check value."""
    words = layout.read(told.words)
    other = layout.encode(by([int(v) for v in layout.signed(words)]))
    other[: layout.marks] = words[: layout.marks]
    value = (int.from_bytes(told.check, "little") + check) % layout.prime
    return told.model_copy(update={"words": layout.write(other), "check": value.to_bytes(layout.check_bytes, "little")})

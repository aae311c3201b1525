"""Sums under double masks at the table, and Charlies who cheat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from masquerade_core.crypto.masks import Words, as_integers, tagged_hash
from masquerade_core.crypto.pair_keys import End
from masquerade_core.crypto.shamir import SHARE_BYTES, join_shares
from masquerade_core.errors import MasqueradeError, SumRefused
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Silence, Table
from masquerade_protocols.blocks.double_masks import (
    VOUCH_BYTES,
    Asked,
    DoubleCharlieSums,
    DoublePartySums,
    DoublyMasked,
    Opening,
    Revealed,
    Ring,
    Vouched,
    box_bytes,
    pack_set,
    pair_mask,
)
from tests.dropout_helpers import masked_text

Cheat = Callable[["DoubleSums", Seat], Coroutine[Any, Any, None]]


def flaky_study(protocol: str = "dp-gd", K: int = 20, survivors: int = 17, **kw: Any) -> Study:
    """A study that goes on without silent parties by double masks."""
    section = f'[dropouts]\nmethod = "double-masks"\nmin_survivors = {survivors}\npatience_seconds = 5.0\n'
    return Study.parse(masked_text(protocol, K, kw.pop("d", 3), **kw) + section, in_memory=True)


async def _never() -> list[int]:
    raise AssertionError("no sum under double masks is made again")


@dataclass
class DoubleSums:
    """Some sums under double masks; ``vectors[name][t]`` is what a party contributes to sum t."""

    study: Study
    layout: Words
    rounds: int
    vectors: dict[str, list[list[int]]]
    exact: bool = False  # sums without noise, which lose nobody
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

    @property
    def ring(self) -> Ring:
        """Who stands near whom."""
        assert self.charlie is not None
        return self.charlie.ring

    def run(
        self,
        charlie: Cheat | None = None,
        silent: dict[str, Silence] | None = None,
        rngs: Mapping[str, Rng] | None = None,
    ) -> DoubleSums:
        """Run the sums, by default with an honest Charlie. A party's error ends that party alone."""
        self.table = Table(self.study.names, rngs, silent=silent)
        self.accepted = {name: [] for name in self.study.names}
        roles: dict[str, Any] = {name: self._party(self.table.seat(name)) for name in self.study.names}
        roles[CHARLIE] = self._play(self.table.seat(CHARLIE), charlie)
        self.table.run(roles)
        return self

    async def _party(self, seat: Seat) -> None:
        await seat.join()
        sums = self.parties[seat.me] = await DoublePartySums.set_up(seat, self.study)
        again = None if self.exact else _never
        try:
            for t in range(self.rounds):
                got = await sums.open_sum(self.layout, self.vectors[seat.me][t], f"{t}".encode(), again)
                self.accepted[seat.me].append(as_integers(got))
        except MasqueradeError as error:
            self.errors[seat.me] = error

    async def _play(self, seat: Seat, charlie: Cheat | None) -> None:
        await seat.join()
        self.charlie = await DoubleCharlieSums.set_up(seat, self.study)
        if charlie is not None:
            return await charlie(self, seat)
        for _ in range(self.rounds):
            self.told.append(as_integers(await self.charlie.open_sum(self.layout, again=not self.exact)))
        return None

    def added(self, t: int, without: tuple[str, ...] = ()) -> tuple[int, ...]:
        """The sum of what all others contribute to sum t."""
        rows = (self.vectors[name][t] for name in self.study.names if name not in without)
        return tuple(map(sum, zip(*rows, strict=True)))


# --- A Charlie who cheats --------------------------------------------------------------------------------------------


@dataclass
class Pool:
    """A cheating Charlie's data of one round: contributions, and all shares that parties revealed of either mask.

    ``known`` are the one-time keys of parties on his side.
    """

    run: DoubleSums
    contributions: dict[str, DoublyMasked]
    before: frozenset[str]
    keys: dict[str, bytes]
    seeds: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    secrets: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    known: dict[str, bytes] = field(default_factory=dict)

    def near(self, name: str) -> list[str]:
        """A party's neighbours that took part."""
        names, ring = self.run.study.names, self.run.ring
        return [names[i] for i in ring.neighbours(names.index(name)) if names[i] in self.before]

    def take(self, holder: str, message: Revealed, shown: Collection[str]) -> None:
        """Sort the shares that a party revealed for the set that it was shown."""
        self.hold(holder, zip(self.near(holder), _shares(message), strict=True), shown)

    def hold(self, holder: str, shares: Iterable[tuple[str, int]], shown: Collection[str]) -> None:
        """Keep these shares, of own masks for those in the set, of one-time keys for the others."""
        names, ring = self.run.study.names, self.run.ring
        for dealer, value in shares:
            point = ring.neighbours(names.index(dealer)).index(names.index(holder)) + 1
            (self.seeds if dealer in shown else self.secrets)[dealer][point] = value

    def opens(self, name: str, *, own: bool) -> bytes | None:
        """The seed of a party's own mask, or its one-time key; None if too few shares are there."""
        if not own and name in self.known:
            return self.known[name]
        try:
            return join_shares((self.seeds if own else self.secrets)[name], self.run.ring.sizes.threshold)
        except SumRefused:
            return None

    def reads(self, group: Collection[str]) -> tuple[int, ...] | None:
        """The sum of these parties' vectors, from nothing but what the pool has; None if masks are left."""
        names, layout = self.run.study.names, self.run.layout
        label = self.contributions[next(iter(group))].label
        masks = []
        for name in group:
            seed = self.opens(name, own=True)
            if seed is None:
                return None
            masks.append((False, tagged_hash("own mask", label, key=seed)))
            for peer in set(self.near(name)) - set(group):
                mine, theirs = (self.opens(who, own=False) for who in (name, peer))
                secret, public = (theirs, self.keys[name]) if mine is None else (mine, self.keys[peer])
                if secret is None:
                    return None
                both = sorted((End(who, self.keys[who]) for who in (name, peer)), key=lambda end: names.index(end.name))
                other = next(end for end in both if end.public == public)
                key = pair_mask(self.run.table.run_id, label, secret, (both[0], both[1]), other)
                masks.append((names.index(name) > names.index(peer), key))
        total = layout.add(layout.read(self.contributions[name].words) for name in group)
        raw, _ = layout.masked(total, 0, masks)
        try:
            return as_integers(layout.decode(layout.read(raw), len(group)))
        except SumRefused:
            return None


def _shares(message: Revealed) -> list[int]:
    width = SHARE_BYTES
    return [int.from_bytes(message.shares[i : i + width], "little") for i in range(0, len(message.shares), width)]


class Cheater:
    """A Charlie who has opened ``rounds`` sums as he should, and then shows every party what set he likes."""

    def __init__(self, run: DoubleSums) -> None:
        assert run.charlie is not None
        self.run, self.charlie = run, run.charlie
        self.seat, self.names = run.charlie.seat, run.study.names

    async def hear(self) -> Pool:
        """Collect what parties contribute now."""
        before = frozenset(n for n, there in zip(self.names, self.charlie._members, strict=True) if there)
        got = await self.seat.gather_within(DoublyMasked, self.names, 1.0)
        keys = dict(zip(self.names, self.charlie._keys, strict=True))
        return Pool(self.run, got, before, keys)

    async def ask(self, sets: Mapping[str, Collection[str]]) -> dict[str, dict[str, bytes]]:
        """Ask each of the committee about its own set; returns by whom, and for whom, there are proofs."""
        committee = [self.names[i] for i in self.run.ring.committee if self.names[i] in sets]
        for name in committee:
            await self.seat.send(name, Asked(round=self.charlie._round, members=self.bits(sets[name])))
        got = await self.seat.gather_within(Vouched, committee, 1.0)
        proofs = {}
        for name, message in got.items():
            there = [n for n in self.names if n in sets[name]]
            pieces = [message.proofs[i : i + VOUCH_BYTES] for i in range(0, len(message.proofs), VOUCH_BYTES)]
            proofs[name] = dict(zip(there, pieces, strict=True))
        return proofs

    def bits(self, names: Collection[str]) -> bytes:
        """A set of parties, as it travels."""
        return pack_set(np.array([name in names for name in self.names]))

    def opening(
        self, pool: Pool, to: str, shown: Collection[str], proofs: Mapping[str, bytes], **changes: Any
    ) -> Opening:
        """Charlie's message to one party: a set, proofs by their makers' names, and the boxes for it."""
        committee = [self.names[i] for i in self.run.ring.committee]
        senders = [n for n in pool.near(to) if n in shown]
        boxes = [self.box(pool, sender, to) for sender in senders]
        fields = {
            "round": self.charlie._round,
            "members": self.bits(shown),
            "vouching": pack_set(np.array([n in proofs for n in committee])),
            "proofs": b"".join(proofs[n] for n in committee if n in proofs),
            "keys": b"".join(pool.contributions[n].key for n in senders),
            "boxes": b"".join(boxes),
        }
        return Opening(**{**fields, **changes})

    def box(self, pool: Pool, sender: str, to: str) -> bytes:
        """The box of one party for another."""
        at = pool.near(sender).index(to) * box_bytes(2)
        return pool.contributions[sender].boxes[at : at + box_bytes(2)]

    async def show(self, pool: Pool, sets: Mapping[str, Collection[str]]) -> Pool:
        """Show each party its set, with all proofs that there are for this set, and keep what they reveal."""
        proofs = await self.ask(sets)
        for to, shown in sets.items():
            fitting = {by: made[to] for by, made in proofs.items() if set(sets[by]) == set(shown) and to in made}
            await self.seat.send(to, self.opening(pool, to, shown, fitting))
        for name, message in (await self.seat.gather_within(Revealed, list(sets), 1.0)).items():
            pool.take(name, message, sets[name])
        return pool

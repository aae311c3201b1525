"""Runs of secure sums and of gradient descent on them, with small keys, and Charlies who cheat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.masks import Words
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import PublicKey, SecretKey
from masquerade_core.data.schema import Dataset
from masquerade_core.model import Model
from masquerade_core.rng import Rng
from masquerade_core.seat import Once, Receive, Seat, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import PARTIES, decode, unpack_plain
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.psgd import roles as psgd
from masquerade_protocols.psgd import schedule as psgd_schedule
from tests.paper_data import study_of

EVEN_OR_SKEWED = {
    2: ((0.5, 0.5), (0.02, 0.98)),
    5: ((0.2,) * 5, (0.01, 0.29, 0.2, 0.25, 0.25)),
    10: ((0.1,) * 10, (0.01, 0.19, *(0.1,) * 8)),
}

Vectors = Mapping[str, Sequence[Sequence[int]]]
Tamper = Callable[[PublicKey, Packing, dict[str, bytes]], bytes]


# --- Secure sums ---------------------------------------------------------------------------------


@dataclass
class Sums:
    """Some rounds at the table: everybody's results or, after a failure, all that everybody had seen until then."""

    study: Study
    table: Table
    layouts: Sequence[Packing]
    results: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)

    def run(self, vectors: Vectors, charlie: Any = None, bound_to: Callable[[str, int], bytes] | None = None) -> Sums:
        """Run the sums; ``vectors[name][t]`` is a party's contribution in round t."""
        roles = {
            name: adding(self.table.seat(name), self.study, self.layouts, vectors[name], bound_to)
            for name in self.study.names
        }
        roles[CHARLIE] = (charlie or multiplying)(self.table.seat(CHARLIE), self.study, self.layouts)
        self.results = self.table.run(roles)
        return self

    @property
    def secret(self) -> SecretKey:
        """The lead's key xi, from its own journal."""
        return SecretKey(*drawn(self.table, self.study.lead, "key xi"))

    def contribution(self, name: str, round_: int) -> Ciphertexts:
        """The ciphertexts that this party sent to Charlie in this round."""
        terms: Ciphertexts = sent(self.table, name, ss.Contribution)[round_].terms
        return terms

    def opened(self, name: str, round_: int) -> tuple[int, ...]:
        """One contribution, opened with the lead's key."""
        key = self.secret.public
        terms = self.contribution(name, round_).read(key, self.layouts[round_].count, name)
        return tuple(self.secret.decrypt(c) for c in terms)


def sums_of(study: Study, layouts: Sequence[Packing], rngs: Mapping[str, Rng] | None = None) -> Sums:
    """Lay a table for one sum per layout."""
    return Sums(study, Table(study.names, rngs), layouts)


async def adding(
    seat: Seat,
    study: Study,
    layouts: Sequence[Packing],
    vectors: Sequence[Sequence[int]],
    bound_to: Callable[[str, int], bytes] | None = None,
) -> list[tuple[int, ...]]:
    """A party that does nothing but contribute."""
    await seat.join()
    sums = await ss.PaillierPartySums.set_up(seat, study)
    await sums.precompute(layouts)
    bound = bound_to or (lambda _, t: f"round {t}".encode())
    opened = [
        await sums.open_sum(layout, vector, bound(seat.me, t))
        for t, (layout, vector) in enumerate(zip(layouts, vectors, strict=True))
    ]
    await sums.close()
    return opened


async def multiplying(seat: Seat, study: Study, layouts: Sequence[Packing]) -> list[tuple[int, ...]]:
    """Charlie, who does nothing but multiply."""
    await seat.join()
    sums = await ss.PaillierCharlieSums.set_up(seat, study)
    opened = [await sums.open_sum(layout) for layout in layouts]
    await sums.close()
    return opened


def cheating(tamper: Tamper, *, in_round: int = 0) -> Any:
    """Make a Charlie whose total of one round is made by ``tamper`` from the bytes of all contributions.

    He knows the code and fits his receipt to what he sends: nothing but the total is at odds with the protocol.
    """

    async def charlie(seat: Seat, study: Study, layouts: Sequence[Packing]) -> list[tuple[int, ...]]:
        await seat.join()
        sums = await ss.PaillierCharlieSums.set_up(seat, study)
        key, results = sums.key, []
        for t, layout in enumerate(layouts):
            if t != in_round:
                results.append(await sums.open_sum(layout))
                continue
            got = await seat.gather(ss.Contribution, study.names)
            raw = tamper(key, layout, {name: c.terms._raw for name, c in got.items()})
            answer = await opening(seat, study, got, raw, t, Words(layout.length, layout.bound))
            sums._round += 1
            sums._unproved += 1
            results.append(layout.unpack(_numbers(answer, key.bits // 8), key.n, contributors=study.K))
        await sums.close()
        return results

    return charlie


async def opening(
    seat: Seat, study: Study, got: Mapping[str, ss.Contribution], raw: bytes, round_: int, words: Words, shift: int = 0
) -> bytes:
    """Charlie's part of a round from the total on, with a total of his own; ``shift`` is added to its check value."""
    paid = ss.receipt(round_, {name: ss.digest_of(c) for name, c in got.items()})
    made = Ciphertexts(raw, study.lead, None, product=True)
    told = made.also_for(PARTIES)
    await seat.send(study.lead, ss.RoundTotal(round=round_, total=made, receipt=paid))
    answer = await seat.receive(ss.RoundSum, study.lead)
    check = words.add_checks([*(c.check for c in got.values()), shift.to_bytes(words.check_bytes, "little")])
    await seat.broadcast(ss.Opened(round=round_, sums=answer.sums, total=told, check=check, receipt=paid))
    return answer.sums


def product(key: PublicKey, vectors: Sequence[bytes], plain: Sequence[int] | None = None) -> bytes:
    """Multiply vectors of ciphertexts, and encrypt ``plain`` into the product with an obfuscator of 1."""
    width = key.ciphertext_bytes
    values = [1 if plain is None else 1 + p * key.n for p in plain or [0] * (len(vectors[0]) // width)]
    for raw in vectors:
        values = [v * c % key.mod_n2 for v, c in zip(values, _numbers(raw, width), strict=True)]
    return b"".join(int(v % key.mod_n2).to_bytes(width, "big") for v in values)


def _numbers(raw: bytes, width: int) -> list[int]:
    return [int.from_bytes(raw[i : i + width], "big") for i in range(0, len(raw), width)]


# --- Descent ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Descent:
    """One run of gradient descent at the table."""

    study: Study
    data: Mapping[str, Dataset]
    table: Table
    results: Mapping[str, Model]

    @property
    def w(self) -> NDArray[np.float64]:
        """The classifier that Charlie released."""
        return np.array(self.results[CHARLIE].weights)


def descent_study(protocol: str = "psgd", K: int = 2, d: int = 5, *, section: str = "rounds = 3", **kw: Any) -> Study:
    """A study of gradient descent with a key of 512 bits."""
    return study_of(protocol, K, d, section=section, **kw)


def descend(
    study: Study,
    data: Mapping[str, Dataset],
    variant: psgd_schedule.Variant = psgd_schedule.psgd,
    rngs: Mapping[str, Rng] | None = None,
) -> Descent:
    """Run gradient descent at the in-memory table."""
    table = Table(study.names, rngs)
    return Descent(study, data, table, run_in_memory(psgd, study, data, table=table, variant=variant))


# --- What a journal holds --------------------------------------------------------------------------


def drawn(table: Table, name: str, label: str) -> Any:
    """The result of one of this participant's ``once`` calls."""
    (entry,) = (e for e in table.journal(name) if isinstance(e.effect, Once) and e.effect.label == label)
    return unpack_plain(entry.answer)


def draws(table: Table, name: str) -> dict[str, Any]:
    """All results of this participant's ``once`` calls, by label."""
    return {e.effect.label: unpack_plain(e.answer) for e in table.journal(name) if isinstance(e.effect, Once)}


def sent(table: Table, name: str, cls: type[Any]) -> list[Any]:
    """All messages of one class that this participant sent to one recipient."""
    return [
        decode(cls, e.effect.bodies[0], name)
        for e in table.journal(name)
        if isinstance(e.effect, Send) and e.effect.type == cls.__name__
    ]


def received(table: Table, name: str) -> list[tuple[str, str, bytes]]:
    """(sender, type, body) of everything that reached this participant in the clear, in order."""
    return [
        (sender, e.effect.type, body)
        for e in table.journal(name)
        if isinstance(e.effect, Receive) and e.effect.kind == "message"
        for sender, body in zip(e.effect.senders, e.answer, strict=True)
    ]

"""Secure sums for the measurements: a study whose gradients fit three ciphertexts, and roles that only add up.

All measurements run the program's own roles and building blocks, at a metered table or in processes of their own.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.measure import COORDINATES, KEY_BITS
from benchmarks.meter import MeteredSeat, MeteredTable, ordinary
from masquerade_core.crypto.masks import as_integers
from masquerade_core.crypto.paillier import PublicKey, SecretKey, draw_primes
from masquerade_core.crypto.pair_keys import BoxKey
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import RunFailed
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_core.wire.codec import decode
from masquerade_protocols.blocks.layouts import Layout, as_words
from masquerade_protocols.blocks.masked_sum import Masked
from masquerade_protocols.blocks.paillier_sum import (
    Contribution,
    PaillierCharlieSums,
    PaillierPartySums,
    SumKey,
    as_packing,
)
from masquerade_protocols.blocks.secure_sum import set_up, set_up_charlie
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.psgd import roles as psgd
from masquerade_protocols.psgd import schedule as psgd_schedule

__all__ = [
    "RECORDS",
    "Ring",
    "adding",
    "check_hidden",
    "gradient_layout",
    "gradient_study",
    "multiplying",
    "new_key",
    "run_descent",
    "run_masked_ring",
    "run_ring",
    "some_vector",
]

RECORDS = 20_000  # N, of all parties together
_KAPPA = bytes(range(32))  # the key of the check values, where no coin toss makes one
Roster = Callable[[str], PublicKeys]


def _any_key(_name: str) -> PublicKeys:
    rng = SystemRng()
    return PublicKeys(rng.bytes(32), rng.bytes(32))


def gradient_study(
    K: int = 5,
    d: int = COORDINATES,
    rounds: int = 100,
    *,
    bits: int = KEY_BITS,
    masks: bool = False,
    address: str = "tcp://127.0.0.1:5555",
    key_of: Roster = _any_key,
    slot: float | None = None,
) -> Study:
    """Return a study of gradient descent: epsilon = 1, delta = 1e-5, logistic loss, d numeric features."""
    lines = [
        '[study]\nname = "bench"\nprotocol = "psgd"\nmin_parties = 2' + ("" if masks else '\nlead = "hospital-0"'),
        f'min_records = {RECORDS // K}\ndeadline_seconds = 600.0\nnonce = "0123456789abcdef"',
        *([] if slot is None else [f"slot_seconds = {slot}"]),
        '[privacy]\nepsilon = 1.0\ndelta = 1e-5\ncalibration = "paper"',
        f"[protocol]\nrounds = {rounds}",
        "[model]\nregularization = 0.01\nintercept = false",
        "[crypto]\n" + ('sum = "masks"' if masks else f"key_bits = {bits}"),
        '[label]\nname = "y"\npositive = "1"',
        f'[curator]\naddress = "{address}"\nkey = "{key_of(CHARLIE)}"',
        *(f'[[feature]]\nname = "x{i}"\nmin = -1.0\nmax = 1.0' for i in range(d)),
        *(f'[[party]]\nname = "hospital-{j}"\nkey = "{key_of(f"hospital-{j}")}"' for j in range(K)),
    ]
    return Study.parse("\n".join(lines), in_memory=True)


def gradient_layout(study: Study) -> Layout:
    """Return how the study's gradients and their noise lie in plaintexts or words, at N = 20,000."""
    return psgd_schedule.layout(study, psgd_schedule.psgd(study, RECORDS), RECORDS, 0)


def some_vector(layout: Layout, name: str) -> tuple[int, ...]:
    """Return a vector as gradients are: some 30 bits a coordinate, and different at each party."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    largest = min(1 << 30, layout.bound // 10_000)
    return tuple(np.random.default_rng(seed).integers(-largest, largest + 1, layout.length).tolist())


# --- The whole protocol ---------------------------------------------------------------------------------------------


def _records(study: Study) -> dict[str, Dataset]:
    rng = np.random.default_rng(0)
    true = rng.normal(size=study.d)
    data = {}
    for name in study.names:
        X = rng.normal(size=(RECORDS // study.K, study.d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        data[name] = Dataset(X, np.where(X @ true > 0, 1.0, -1.0))
    return data


def run_descent(study: Study) -> MeteredTable:
    """Run gradient descent with all its noise at a metered table."""
    table, data = MeteredTable(study.names), _records(study)
    run_in_memory(psgd, study, data, table=table)
    check_hidden(table, study, gradient_layout(study))
    return table


# --- Nothing but sums -----------------------------------------------------------------------------------------------


async def adding(
    seat: Seat, study: Study, rounds: int, clock: Callable[[], float]
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """A party that contributes one vector again and again; returns when each round began and the last one ended.

    Each round counts as a release, as a round of gradients does; where the party keeps a ledger, it is debited.
    """
    layout = gradient_layout(study)
    vector = some_vector(layout, seat.me)
    await seat.join()
    await seat.stage("keys")
    sums = await set_up(seat, study)
    await sums.precompute([layout] * (rounds + 1))
    await sums.open_sum(layout, vector, b"ready")  # so that no first round waits for the pool of another party
    await seat.stage("rounds")
    times = [clock()]
    total: tuple[int, ...] = ()
    for t in range(rounds):
        await seat.release(f"round {t}", 1e-6, 0.0)
        total = as_integers(await sums.open_sum(layout, vector, t.to_bytes(4, "big")))
        times.append(clock())
    await sums.close()
    return tuple(times), total


async def multiplying(seat: Seat, study: Study, rounds: int) -> None:
    """Charlie, for parties that are :func:`adding`."""
    layout = gradient_layout(study)
    await seat.join()
    await seat.stage("keys")
    sums = await set_up_charlie(seat, study)
    await sums.open_sum(layout)
    await seat.stage("rounds")
    for _ in range(rounds):
        await sums.open_sum(layout)
    await sums.close()


# --- Many parties ---------------------------------------------------------------------------------------------------


class _Joined(MeteredSeat):
    """A seat without the join, in which K parties would compute K (K-1) Diffie-Hellman keys."""

    async def join(self) -> None:
        self._box = BoxKey(hashlib.sha256(self.me.encode()).digest())


@dataclass(frozen=True)
class Ring:
    """The cost of rounds of a secure sum: CPU seconds of a round by role, and the bytes that a party sends.

    Attributes
    ----------
    party, lead, charlie : float
        With noise and obfuscators, without set-up and the tables of fixed-base powers.
    sent : float
        Bytes a round that an ordinary party sends.
    """

    party: float
    lead: float
    charlie: float
    sent: float


def run_ring(study: Study, secret: SecretKey, rounds: int, *, noise: bool = True) -> Ring:
    """Run secure sums at a metered table, with invented pairwise keys: a coin toss of K parties takes 3 K^2 boxes."""
    key, layout = secret.public, gradient_layout(study)
    key.short_obfuscators(SystemRng(), 1)  # builds its table, which does not grow
    table = MeteredTable(study.names, seats=_Joined)
    schedule = psgd_schedule.psgd(study, RECORDS)
    unit = Fraction(1 << psgd_schedule.fraction_bits(study, schedule, RECORDS))

    def draw(rng: Rng) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(l2_laplace(rng, schedule.beta(t), study.d, unit, psgd_schedule.RHO_TV_BITS)) for t in range(rounds)
        )

    async def party(seat: Seat, pair_keys: Mapping[str, tuple[bool, bytes]]) -> tuple[int, ...]:
        await seat.join()
        sums = PaillierPartySums(seat, study, key, secret if seat.me == study.lead else None, pair_keys, _KAPPA)
        rho = await seat.once("rho", draw) if noise else ()
        await sums.precompute([layout] * rounds)
        vector = some_vector(layout, seat.me)
        total: tuple[int, ...] = ()
        for t in range(rounds):
            noisy = [v + r for v, r in zip(vector, rho[t], strict=True)] if noise else vector
            total = await sums.open_sum(layout, noisy, t.to_bytes(4, "big"))
        await sums.close()
        return total

    async def charlie(seat: Seat) -> tuple[int, ...]:
        await seat.join()
        sums = PaillierCharlieSums(seat, study, key)
        opened = [await sums.open_sum(layout) for _ in range(rounds)]
        await sums.close()
        return opened[-1]

    keys = _pair_keys(study.names)
    roles: dict[str, Any] = {name: party(table.seat(name), keys[name]) for name in study.names}
    results = table.run({**roles, CHARLIE: charlie(table.seat(CHARLIE))})
    if not noise:
        columns = zip(*(some_vector(layout, name) for name in study.names), strict=True)
        assert set(results.values()) == {tuple(sum(c) for c in columns)}, (
            "a total differs from the sum without encryption"
        )
    check_hidden(table, study, layout, key)
    others = ordinary(study.names, study.lead)
    total = table.meter.total
    return Ring(
        party=total(others) / len(others) / rounds,
        lead=total([study.lead]) / rounds,
        charlie=total([CHARLIE]) / rounds,
        sent=sum(table.bytes_sent(name) for name in others) / len(others) / rounds,
    )


def run_masked_ring(study: Study, rounds: int) -> tuple[Ring, MeteredTable]:
    """Run masked sums at a metered table, with the deployed roles; the lead is the roster's first party.

    Joining and the keys of all pairs are left out: a round costs as much however many rounds there are.
    """
    layout, table = gradient_layout(study), MeteredTable(study.names)
    roles: dict[str, Any] = {name: adding(table.seat(name), study, rounds, time.perf_counter) for name in study.names}
    results = table.run({**roles, CHARLIE: multiplying(table.seat(CHARLIE), study, rounds)})
    columns = zip(*(some_vector(layout, name) for name in study.names), strict=True)
    assert {results[name][1] for name in study.names} == {tuple(map(sum, columns))}, (
        "a total differs from the sum without masks"
    )
    check_hidden(table, study, layout)
    first, *others = study.names

    def a_round(names: Sequence[str]) -> float:
        return (table.meter.total(names) - table.meter.total_before("rounds", names)) / len(names) / rounds

    sent = sum(mean(table.sent[name, "Masked"]) for name in others) / len(others)
    return Ring(a_round(others), a_round([first]), a_round([CHARLIE]), sent), table


def check_hidden(table: MeteredTable, study: Study, layout: Layout, key: PublicKey | None = None) -> None:
    """Check that no party's last contribution shows its vector: masks, or an encryption, are there.

    Parameters
    ----------
    table : MeteredTable
    study : Study
    layout : Words or Packing
        Of the last sum.
    key : PublicKey, optional
        Under which it was encrypted, where no party told the others.

    Raises
    ------
    AssertionError
        A contribution opens without those of the others.
    """
    for name in study.names:
        if study.crypto.sum == "masks":
            words = as_words(layout)
            left = words.read(decode(Masked, table.bodies[name, "Masked"], name).words)
            with suppress(RunFailed):
                words.decode(left, 1)
                raise AssertionError(f"what {name} sent is its vector, without masks")
            continue
        if key is None:
            told = decode(SumKey, table.bodies[study.lead, "SumKey"], study.lead)
            key = PublicKey.received(told.modulus, study.key_bits, study.lead)
        terms = decode(Contribution, table.bodies[name, "Contribution"], name).terms
        # (1 + n)^m h^s is 1 modulo n if and only if h^s is: without the random part everybody reads m.
        residues = terms.residues(key, as_packing(layout).count, name)
        assert all(residue % key.n != 1 for residue in residues), f"what {name} sent is its vector, not encrypted"


def _pair_keys(names: tuple[str, ...]) -> dict[str, dict[str, tuple[bool, bytes]]]:
    """Return each party's key with each other one; the earlier in the roster adds its mask."""
    keys: dict[str, dict[str, tuple[bool, bytes]]] = {name: {} for name in names}
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            key = hashlib.sha256(f"{first} {second}".encode()).digest()
            keys[first][second], keys[second][first] = (True, key), (False, key)
    return keys


def new_key(bits: int = KEY_BITS) -> SecretKey:
    """Draw the parties' secret key, xi."""
    return SecretKey(*draw_primes(SystemRng(), bits))

"""``python -m benchmarks.votes [K ...]``: votes of very many parties, one after another, in memory that does not grow.

One party after another trains a small classifier on 22 invented records, votes on 1,000 auxiliary points and encrypts
its packed counters. Then the party is dropped; the product of all ciphertexts is kept. The opened total must equal the
counters without encryption. Each K runs in a process of its own, so its peak memory is its own.

The pairwise masks are left out: K parties would need K (K - 1)/2 keys, and each of them K - 1 mask vectors. There is no
network either.
"""

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import SecretKey, ShortPool, draw_primes
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.classifiers import Classifier, Linear, cast_votes
from masquerade_core.rng import SystemRng
from masquerade_core.study import CHARLIE
from masquerade_core.wire.ciphertexts import Ciphertexts

__all__ = ["Figures", "count_votes"]

KEY_BITS = 2048
RECORDS = 22  # of a party, as in Hamm, Cao and Belkin 2016, section 6.2
POINTS = 1000
COORDINATES = 10
BLOCK = 50  # parties whose obfuscators are drawn at once

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """The cost of K parties' votes: seconds in all and in encrypting, peak memory in MB, ciphertexts a party."""

    K: int
    seconds: float
    encrypting: float
    peak: float
    ciphertexts: int


def _unit_rows(n: int, rng: np.random.Generator) -> _Array:
    rows = rng.normal(size=(n, COORDINATES))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return rows


def _parties(K: int, X_aux: _Array, rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
    """Yield one party's votes at a time; every second one's classifier is a tree."""
    true, source = rng.normal(size=COORDINATES), SystemRng()
    kinds: tuple[Classifier, Classifier] = (Linear("logistic", 0.01, None), DecisionTreeClassifier(max_depth=3))
    for j in range(K):
        X = _unit_rows(RECORDS, rng)
        y = np.where(X @ true + 0.3 * rng.normal(size=RECORDS) > 0, 1.0, -1.0)
        yield cast_votes(kinds[j % 2], Dataset(X, y), X_aux, source)


def count_votes(K: int, points: int = POINTS, bits: int = KEY_BITS) -> Figures:
    """Train, vote, encrypt, multiply and open; AssertionError if the opened counters are wrong."""
    began = time.perf_counter()
    rng, system = np.random.default_rng(0), SystemRng()
    secret = SecretKey(*draw_primes(system, bits))
    key, layout = secret.public, Packing(points, K, bits)
    X_aux = _unit_rows(points, rng)
    expected, running, encrypting = np.zeros(points, dtype=np.int64), None, 0.0
    pool = ShortPool(key, ())
    with threadpool_limits(1):
        for j, votes in enumerate(_parties(K, X_aux, rng)):
            expected += votes
            started = time.perf_counter()
            if not len(pool):
                pool = ShortPool(key, key.short_obfuscators(system, min(BLOCK, K - j) * layout.count))
            plain = [v + m for v, m in zip(layout.pack(votes), layout.mark(), strict=True)]
            terms = Ciphertexts.outgoing([pool.encrypt(p, CHARLIE) for p in plain]).read(key, layout.count, "a party")
            running = terms if running is None else tuple(a + b for a, b in zip(running, terms, strict=True))
            encrypting += time.perf_counter() - started
    opened = layout.unpack(secret.decrypt_all(running or ()), key.n, contributors=K)
    assert opened == tuple(expected.tolist()), "the opened total differs from the counters without encryption"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Figures(K, time.perf_counter() - began, encrypting, peak, layout.count)


def main() -> int:
    """Count the votes, and print the costs."""
    parser = argparse.ArgumentParser(prog="benchmarks.votes", description="Votes of very many parties.")
    parser.add_argument("parties", nargs="*", type=int, metavar="K", default=[1000, 5000, 20000])
    console = Console()
    console.print(f"{RECORDS} records a party, {POINTS:,} auxiliary points, {KEY_BITS} bits; without pairwise masks")
    for K in parser.parse_args().parties:
        with multiprocessing.get_context("spawn").Pool(1) as process:
            f = process.apply(count_votes, (K,))
        took = f"{f.seconds:.1f} s, of which {f.encrypting:.1f} s to encrypt {f.ciphertexts} ciphertexts a party"
        console.print(f"{f.K:,} parties: {took}; peak {f.peak:.0f} MB; the opened total is right", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The figures of masked sums, each beside the same sum by Paillier in the same minute."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
from nacl.bindings import crypto_aead_chacha20poly1305_ietf_encrypt

from benchmarks import wall
from benchmarks.measure import COORDINATES, KEY_BITS, Bench
from benchmarks.meter import GRADIENTS, MeteredTable
from benchmarks.sums import (
    adding,
    gradient_layout,
    gradient_study,
    multiplying,
    new_key,
    run_descent,
    run_masked_ring,
    run_ring,
)
from masquerade_core.crypto.masks import CheckKey, Words
from masquerade_core.rng import SystemRng
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols.blocks.layouts import as_words

__all__ = ["TURNS", "accepted_forgeries", "measure_masks", "measure_masks_wall"]

K, MANY, LONG = 5, 60, 5_000
NEAR = {2: 100_000, 64: 10_000}  # neighbours, and coordinates, beside the cipher alone
TURNS = 5  # of the wall's measurements, at least
_ROUNDS, _WALL_ROUNDS = 100, 40
_FORGERIES = 10_000

Progress = Callable[[str], None]


def measure_masks(bench: Bench, progress: Progress, samples: int) -> None:
    """Measure what a round costs everybody, and how much each participant sends."""
    secret = new_key(KEY_BITS)
    usual, many, long = (
        gradient_study(parties, d, _ROUNDS, masks=True)
        for parties, d in ((K, COORDINATES), (MANY, COORDINATES), (K, LONG))
    )
    coordinates = as_words(gradient_layout(usual)).count
    paillier, long_paillier = (gradient_study(K, d, _ROUNDS) for d in (COORDINATES, LONG))
    for number in range(1, samples + 1):
        progress(f"sample {number} of {samples}: masked sums beside Paillier's")
        (ring, table), e = bench.yardstick.around(lambda: run_masked_ring(usual, _ROUNDS))
        other, e_other = bench.yardstick.around(lambda: run_ring(paillier, secret, 20, noise=False))
        bench.add("masks party", ring.party / e)
        bench.add("masks first party / party", ring.lead / ring.party)
        bench.add("masks party / Paillier", ring.party / e * e_other / other.party)
        bench.add("masks lead / Paillier", ring.lead / e * e_other / other.lead)
        bench.add("masks charlie", ring.charlie / e)
        bench.add("masks charlie additions", _additions(usual) / e)
        bench.add("masks bytes beside the coordinates", max(table.sent["hospital-1", "Masked"]) - coordinates)
        progress(f"sample {number} of {samples}: masked sums, K={MANY}, d={LONG:,}, and a whole descent")
        (ring, _), e = bench.yardstick.around(lambda: run_masked_ring(many, 10))
        bench.add(f"masks party K={MANY}", ring.party / e)
        bench.add(f"masks charlie K={MANY}", ring.charlie / e)
        (ring, _), e = bench.yardstick.around(lambda: run_masked_ring(long, 40))
        other, e_other = bench.yardstick.around(lambda: run_ring(long_paillier, secret, 1, noise=False))
        bench.add(f"masks party d={LONG}", ring.party / e)
        bench.add(f"masks party d={LONG}, Paillier / masks", other.party / e_other * e / ring.party)
        descent, e = bench.yardstick.around(lambda: run_descent(usual))
        _add_descent(bench, descent, usual, e)
        for near, length in NEAR.items():
            bench.add(f"masks party / ChaCha20, {near} neighbours", _beside_the_cipher(near, length))
    bench.add("masks boxes in the set-up", _boxes(usual))
    bench.add("masks forged sums accepted", accepted_forgeries(_FORGERIES))
    layout = as_words(gradient_layout(usual))
    bench.facts["masks"] = f"words of {layout.bits} bits, of which a coordinate takes {layout.width}"


def _add_descent(bench: Bench, table: MeteredTable, study: Study, e: float) -> None:
    first, *others = study.names
    total = table.meter.total
    bench.add("masks psgd party", total(others) / len(others) / e / _ROUNDS)
    bench.add("masks psgd first party", total([first]) / e / _ROUNDS)
    bench.add("masks psgd charlie", total([CHARLIE]) / e / _ROUNDS)
    bench.add("masks psgd party, gradient", total(others, (GRADIENTS,)) / len(others) / e / _ROUNDS)


def _additions(study: Study, times: int = 2000) -> float:
    """Return the CPU seconds in which Charlie adds everybody's words and check values."""
    layout, rng = as_words(gradient_layout(study)), SystemRng()
    received = [(rng.bytes(layout.total_bytes), rng.bytes(layout.check_bytes)) for _ in study.names]
    start = time.process_time()
    for _ in range(times):
        layout.write(layout.add(layout.read(words) for words, _ in received))
        layout.add_checks(check for _, check in received)
    return (time.process_time() - start) / times


def _beside_the_cipher(near: int, length: int, times: int = 5) -> float:
    """Return a contribution and its opening, in units of the time in which ChaCha20 alone makes the masks' bytes."""
    rng, layout = SystemRng(), Words(length, 1 << 46)
    vector = np.random.default_rng(1).integers(-(1 << 40), 1 << 40, length)
    masks, key = [(i % 2 == 0, rng.bytes(32)) for i in range(near)], rng.bytes(32)
    zeros, nonce, plain = bytes(1 << 16), bytes(12), layout.encode(vector)
    rest = [min(len(zeros), layout.total_bytes - at) for at in range(0, layout.total_bytes, len(zeros))]
    told = layout.write(plain)
    ratios = []
    for _ in range(times):
        start = time.process_time()
        for _, mask in masks:
            for size in rest:
                crypto_aead_chacha20poly1305_ietf_encrypt(zeros[:size], None, nonce, mask)
        between = time.process_time()
        check_key = CheckKey(layout, key)
        check = check_key.of(vector)
        sent, _ = layout.masked(layout.encode(vector), check, masks)
        total = layout.decode(layout.read(told), 1)
        value = ((check + check_key.constant) % layout.prime).to_bytes(layout.check_bytes, "little")
        assert check_key.fits(total, value), "a sum does not fit its own check value"
        ratios.append((time.process_time() - between) / (between - start))
        assert sum(a == b for a, b in zip(sent, told, strict=True)) < layout.total_bytes / 64, "words left unmasked"
    return median(ratios)


def _boxes(study: Study) -> int:
    """Return how many sealed boxes the set-up of a run takes."""
    table = MeteredTable(study.names)
    roles = {name: adding(table.seat(name), study, 1, time.perf_counter) for name in study.names}
    table.run({**roles, CHARLIE: multiplying(table.seat(CHARLIE), study, 1)})
    return sum(len(sizes) for (who, kind), sizes in table.sent.items() if who == CHARLIE and kind == "GroupKey")


def accepted_forgeries(count: int, length: int = COORDINATES) -> int:
    """Return how many of ``count`` forged sums fit their check value; half have it shifted too.

    The shifts are random, or as simple as can be: single coordinates, differences of two, all alike, and multiples of
    sum and check value.
    """
    rng = SystemRng()
    layout = Words(length, 1 << 30)
    accepted = 0
    for number in range(count):
        key = CheckKey(layout, rng.bytes(32))
        total = [rng.below(1 << 20) - (1 << 19) for _ in range(length)]
        check = (key.of(total) + key.constant) % layout.prime
        i, j, size = rng.below(length), rng.below(length), 1 + rng.below(1 << (1 + number % 30))
        kinds = ({i: size}, {i: 1, j: -1} if i != j else {i: 1}, dict.fromkeys(range(length), size))
        forged, told = list(total), check
        if number % 4 == 3:
            forged, told = [v * (size + 1) for v in total], check * (size + 1)
        else:
            for at, by in kinds[number % 4].items():
                forged[at] += by
        if number % 2:
            told += rng.below(layout.prime) if number % 3 else size
        accepted += key.fits(forged, (told % layout.prime).to_bytes(layout.check_bytes, "little"))
    return accepted


def measure_masks_wall(
    bench: Bench, progress: Progress, samples: int, *, d: int = COORDINATES, rounds: int = _WALL_ROUNDS
) -> None:
    """Time rounds between processes in turns with Paillier's and with MPyC's, since the machine may have other work."""
    turns = max(TURNS, samples)
    for number in range(1, turns + 1):
        progress(f"turn {number} of {turns}: masked rounds between processes, Paillier's, and MPyC's")
        masks = median(wall.processes_seconds(K, rounds, d=d, bits=KEY_BITS, masks=True))
        paillier = median(wall.processes_seconds(K, rounds, d=d, bits=KEY_BITS))
        mpyc = median(wall.mpyc_seconds(K, rounds, d))
        bench.add("masks wall, ms", 1000 * masks)
        bench.add("masks wall / Paillier", masks / paillier)
        bench.add("masks wall / MPyC", masks / mpyc)

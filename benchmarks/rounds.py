"""The secure sum's figures: what a round costs by role, how long it takes between processes, how it grows."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks import naive, wall
from benchmarks.alone import charlie_alone
from benchmarks.measure import COORDINATES, KEY_BITS, Bench, message_sizes
from benchmarks.meter import ARITHMETIC, BOXES, FRAMES, GRADIENTS, STEPS, TABLE, MeteredTable, ordinary
from benchmarks.sums import (
    Ring,
    gradient_layout,
    gradient_study,
    new_key,
    run_descent,
    run_ring,
    some_vector,
)
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols.blocks.paillier_sum import as_packing

__all__ = ["GROWTH_D", "GROWTH_K", "ROUNDS", "Point", "measure_growth", "measure_rounds", "measure_wall"]

ROUNDS = 100
K = 5
GROWTH_K = (5, 10, 30, 100, 300, 1000)  # at d = 50
GROWTH_D = (10, 30, 100, 300, 1000, 3000, 10_000)  # at K = 5
_D_FOR_K = 50
_WALL_ROUNDS = 40  # of a sample
_SLOT = 0.05  # seconds, of the rounds on a public schedule
_FEW, _MANY = 10, 1000
_PROCESSES = 5  # in which Charlie is alone, by turns

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Point:
    """One point of a curve: K, d, ciphertexts of a contribution, and the costs in E."""

    K: int
    d: int
    ciphertexts: int
    ring: Ring


# --- What a round costs ---------------------------------------------------------------------------------------------


def measure_rounds(bench: Bench, progress: Progress, samples: int) -> None:
    """Run gradient descent with everything that belongs to it, and phe's version of one sum beside it."""
    study, keys = gradient_study(K, COORDINATES, ROUNDS), naive.Keys.draw(KEY_BITS)
    layout = as_packing(gradient_layout(study))
    for number in range(1, samples + 1):
        progress(f"sample {number} of {samples}: {ROUNDS} rounds of gradient descent")
        table, e = bench.yardstick.around(lambda: run_descent(study))
        _add_rounds(bench, table, study, e)
        progress(f"sample {number} of {samples}: Charlie alone, in {_PROCESSES} fresh processes")
        for _ in range(_PROCESSES):
            alone = charlie_alone(study, table, bench.yardstick.n)
            bench.add("round charlie arithmetic", alone.arithmetic / ROUNDS)
            bench.add("round charlie arithmetic, of which set-up", alone.set_up / ROUNDS)
            bench.add("round charlie arithmetic, the meter's own readings, left out", alone.meter / ROUNDS)
            bench.add("round charlie codec and boxes, alone", alone.codec / ROUNDS)
        if number < samples or samples == 1:
            progress(f"sample {number} of {samples}: one sum with plain phe")
            _add_naive(bench, study, keys)
    bench.facts["psgd"] = (
        f"N = 20,000, epsilon = 1, delta = 1e-5, T = {ROUNDS}: slots of {layout.width} bits, "
        f"{layout.per_plaintext} in a plaintext"
    )


def _add_rounds(bench: Bench, table: MeteredTable, study: Study, e: float) -> None:
    others, unit = ordinary(study.names, study.lead), e * ROUNDS
    roles = {"party": others, "lead": (study.lead,), "charlie": (CHARLIE,)}
    meter = table.meter
    for role, names in roles.items():
        each = len(names) * unit
        total, offline = meter.total(names), meter.total_before("rounds", names)
        bench.add(f"round {role}", total / each)
        bench.add(f"round {role} offline", offline / each)
        bench.add(f"round {role} online", (total - offline) / each)
        for step in STEPS:
            bench.steps_of_round.setdefault((role, step), []).append(meter.total(names, (step,)) / each)
        gradients = meter.total(names, (GRADIENTS,))
        if gradients:
            bench.add(f"round {role} gradients", gradients / each)
            bench.add(f"round {role} without gradients", (total - gradients) / each)
    bench.add("round charlie arithmetic, at the shared table", meter.total([CHARLIE], ARITHMETIC) / unit)
    bench.add("round charlie frames", meter.total([CHARLIE], (FRAMES,)) / unit)
    bench.add("round charlie codec", meter.total([CHARLIE], (BOXES, TABLE)) / unit)

    sent = max(max(table.sent[name, "Contribution"]) for name in others)
    bench.add("round bytes", sent)
    bench.add("round bytes of the lead", sent + max(table.sent[study.lead, "RoundSum"]))
    bench.add("round ciphertexts", gradient_layout(study).count)
    bench.messages_of_round = [m for m in message_sizes(table, study.lead) if m.frames >= ROUNDS]


def _add_naive(bench: Bench, study: Study, keys: naive.Keys) -> None:
    layout = gradient_layout(study)
    vectors = [some_vector(layout, name) for name in study.names]
    (total, seconds), e = bench.yardstick.around(lambda: naive.sum_up(keys, vectors))
    assert total == tuple(sum(c) for c in zip(*vectors, strict=True)), (
        "plain phe's sum differs from the sum without encryption"
    )
    bench.add("round party phe", seconds.party / e)
    bench.add("round lead phe", seconds.lead / e)
    bench.add("round charlie phe", seconds.charlie / e)


# --- How long a round takes -----------------------------------------------------------------------------------------


def measure_wall(bench: Bench, progress: Progress, samples: int, *, d: int = COORDINATES, bits: int = KEY_BITS) -> None:
    """Time rounds between processes and their comparisons in turns, since the machine may be busy with other work."""
    secret, layout = new_key(bits), gradient_layout(gradient_study(K, d, bits=bits))
    sent = layout.count * secret.public.ciphertext_bytes + 200  # with the frame around it

    def milliseconds(figure: str, seconds: list[float]) -> float:
        middle = 1000 * median(seconds)
        bench.add(figure, middle)
        return middle

    for number in range(1, samples + 1):
        progress(f"sample {number} of {samples}: rounds between processes, and MPyC's")
        decryptions = wall.decryption_seconds(secret, layout.count, 20)
        trips = wall.round_trip_seconds(sent, sent, 50)
        ours = milliseconds("wall ours, ms", wall.processes_seconds(K, _WALL_ROUNDS, d=d, bits=bits))
        held = wall.processes_seconds(K, _WALL_ROUNDS, d=d, bits=bits, slot=_SLOT)
        milliseconds(f"wall ours on a schedule of {1000 * _SLOT:g} ms, ms", held)
        mpyc = milliseconds("wall MPyC, ms", wall.mpyc_seconds(K, _WALL_ROUNDS, d))
        decryptions += wall.decryption_seconds(secret, layout.count, 20)
        trips += wall.round_trip_seconds(sent, sent, 50)
        floor = milliseconds("wall decryption, ms", decryptions) + milliseconds("wall round trip, ms", trips)
        bench.add("wall / floor", ours / floor)
        bench.add("wall / MPyC", ours / mpyc)


# --- How it grows ---------------------------------------------------------------------------------------------------


def measure_growth(
    bench: Bench,
    progress: Progress,
    parties: tuple[int, ...] = GROWTH_K,
    lengths: tuple[int, ...] = GROWTH_D,
    *,
    bits: int = KEY_BITS,
) -> None:
    """Run secure sums with more and more parties, and of longer and longer vectors."""
    secret = new_key(bits)

    def point(K: int, d: int) -> Point:
        progress(f"growth: K = {K}, d = {d:,}")
        study = gradient_study(K, d, bits=bits)
        count = gradient_layout(study).count
        rounds = max(2, min(20, 600 // (K * count)))
        ring, e = bench.yardstick.around(lambda: run_ring(study, secret, rounds))
        return Point(K, d, count, Ring(ring.party / e, ring.lead / e, ring.charlie / e, ring.sent))

    bench.by_parties = [point(parties_, _D_FOR_K) for parties_ in parties]
    bench.by_length = [point(K, d) for d in lengths]
    if {_FEW, _MANY} <= set(parties):
        few = [p.ring.charlie / p.K for p in (*bench.by_parties, point(_FEW, _D_FOR_K)) if p.K == _FEW]
        (many,) = (p.ring.charlie / p.K for p in bench.by_parties if p.K == _MANY)
        bench.add("growth, Charlie per party, K=1000 / K=10", many / median(few))

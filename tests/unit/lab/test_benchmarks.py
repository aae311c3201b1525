"""The version with plain phe computes the right result, and the meter counts each kind of work once."""

from __future__ import annotations

import io
import itertools

import pytest
from benchmarks import naive, wall
from benchmarks.alone import charlie_alone
from benchmarks.measure import Bench, make_data, make_study, run_metered
from benchmarks.meter import EXCLUDED, MESSAGE_STEPS, Meter, MeteredTable, step_of
from benchmarks.report import GATES, print_report
from benchmarks.sums import (
    gradient_layout,
    gradient_study,
    new_key,
    run_descent,
    run_masked_ring,
    run_ring,
)
from rich.console import Console

from masquerade_core.crypto.paillier import PublicKey
from masquerade_core.rng import SystemRng
from masquerade_core.study import CHARLIE
from masquerade_protocols.blocks.masked_sum import MaskedPartySums
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.local_aggregation import before_join, tournament
from masquerade_protocols.local_aggregation import roles as local_aggregation
from tests.messages import raises

RNG = SystemRng()


@pytest.fixture(scope="module")
def keys() -> naive.Keys:
    return naive.Keys.draw(512)


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    study = make_study(3, d=2, bits=512)
    return run_metered(study, make_data(study))


# --- phe's version --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", list(itertools.permutations((10, 2000, 2**31))))
def test_plain_phe_agrees_with_the_result_without_encryption(sizes: tuple[int, ...], keys: naive.Keys) -> None:
    weights = [[2**32, -5], [-(2**33), 7], [3, -(2**31)]]
    noise = [[-(2**40), 1], [2**41, -2], [0, 2**39]]
    smallest = sizes.index(10)
    expected = tuple(sum(w) + 3 * noise[smallest][i] for i, w in enumerate(zip(*weights, strict=True)))
    assert naive.aggregate(RNG, keys, sizes, weights, noise) == expected


def test_plain_phe_selects_one_of_several_smallest(keys: naive.Keys) -> None:
    ((selected,), (again,)) = (naive.aggregate(RNG, keys, (9, 9, 30), [[0]] * 3, [[1], [2], [4]]) for _ in range(2))
    assert {selected, again} <= {3, 6}


@pytest.mark.parametrize("difference", [-(2**31), -1, 0, 1, 2**31])
def test_plain_phes_comparison_agrees_with_integers(difference: int, keys: naive.Keys) -> None:
    y = RNG.below(2**33)
    assert naive.compare(RNG, keys, (y + difference) % 2**33, y) == (difference < 0)


# --- The meter ------------------------------------------------------------------------------------------------------


class _Clock:
    """Seconds that pass only when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_moment_counts_once_under_the_innermost_key() -> None:
    clock = _Clock()
    meter = Meter(clock)
    clock.now += 100  # before anything is metered
    with meter.under("table", "queues, journal"):
        clock.now += 1
        with meter.under("p0", "comparisons"):
            clock.now += 10
            with meter.under("p0", EXCLUDED):
                clock.now += 1000
        clock.now += 2
    clock.now += 100
    assert dict(meter.seconds) == {("table", "queues, journal"): 3, ("p0", "comparisons"): 10, ("p0", EXCLUDED): 1000}
    assert meter.total() == 13
    assert meter.total(["p0"]) == 10
    assert meter.total(steps=MESSAGE_STEPS) == 3


def test_key_generation_and_training_are_excluded_and_the_noise_is_not() -> None:
    excluded = [label for label in ("classifier", "key xi", "key zeta") if step_of(label) == EXCLUDED]
    assert excluded == ["classifier", "key xi", "key zeta"]
    assert step_of("noise") == "noise sampling"
    assert step_of("a label that nobody has thought of") == "draws"


def test_a_slow_training_does_not_count_and_slow_noise_does(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock()

    def takes(seconds: float, name: str) -> None:
        module = {"evaluate": tournament, "draw_primes": local_aggregation}.get(name, before_join)
        original = getattr(module, name)

        def slow(*args: object) -> object:
            clock.now += seconds
            return original(*args)

        monkeypatch.setattr(module, name, slow)

    for seconds, name in ((1000.0, "fit_records"), (5000.0, "draw_primes"), (1.0, "draw_noise"), (0.125, "evaluate")):
        takes(seconds, name)
    study = make_study(3, d=2, bits=512)
    table = MeteredTable(study.names, Meter(clock))
    data = make_data(study)
    run_in_memory(local_aggregation, study, data, table=table)
    assert table.meter.total() == 3 * 1 + 2 * 0.125  # three parties' noise, two matches
    assert table.meter.total(steps=("noise sampling",)) == 3
    assert table.meter.total([study.lead], ("comparisons",)) == 0.25
    assert table.meter.seconds["hospital-1", EXCLUDED] == 1000
    assert table.meter.seconds[CHARLIE, EXCLUDED] == 5000


def test_every_kind_of_work_is_metered(table: MeteredTable) -> None:
    def steps(name: str) -> set[str]:
        return {step for (who, step), seconds in table.meter.seconds.items() if who == name and seconds > 0}

    messages = {"codec and boxes", "frames, signatures", "queues, journal"}
    everybody = {"role arithmetic", "draws", "obfuscators r^N", EXCLUDED, *messages}
    assert steps("hospital-1") == everybody | {"noise sampling", "selected noise"}
    assert steps("hospital-0") == everybody | {"noise sampling", "selected noise", "comparisons", "decryptions"}
    assert steps(CHARLIE) == everybody | {"comparisons", "decryptions"}
    assert steps("table") == {"queues, journal"}


def test_every_byte_that_charlie_sees_is_weighed(table: MeteredTable) -> None:
    weighed = sorted(length for lengths in table.sent.values() for length in lengths)
    assert weighed == sorted(frame.length for frame in table.passed)
    assert table.bytes_sent("hospital-1") == sum(
        length for (who, _), lengths in table.sent.items() if who == "hospital-1" for length in lengths
    )


# --- The verdict ----------------------------------------------------------------------------------------------------


def test_a_missed_limit_is_reported() -> None:
    (gate,) = (g for g in GATES if g.figure == "comparison")
    bench = Bench.__new__(Bench)
    bench.values = {"comparison": [3.0, 3.9, 99.0]}
    assert gate.passes(bench)
    bench.values = {"comparison": [3.0, 4.1, 4.2]}
    assert [gate.passes(bench, slack) for slack in (1.0, 2.0)] == [False, True]


def test_a_screen_of_80_columns_shows_the_name_of_every_figure() -> None:
    bench, shown = Bench(1), io.StringIO()
    for name in [gate.figure for gate in GATES] + [gate.against for gate in GATES if gate.against]:
        bench.values[name] = [20_000.0]
    print_report(bench, Console(width=80, file=shown))
    assert "…" not in shown.getvalue()
    words = set(shown.getvalue().split())
    assert all(words >= set(gate.title.split()) for gate in GATES)


def test_a_busy_machine_excuses_time_and_nothing_that_is_counted() -> None:
    bounds = {gate.figure: gate.bound(2.0) for gate in GATES}
    counted = ("masks forged sums accepted", "masks boxes in the set-up", "round bytes")
    timed = ("masks party", "masks party d=5000, Paillier / masks")
    assert [bounds[figure] for figure in (*counted, *timed)] == [0, 4, 1_900, 0.12, 15]


# --- Secure sums ----------------------------------------------------------------------------------------------------


def test_the_study_of_a_round_takes_two_ciphertexts() -> None:
    layout = gradient_layout(gradient_study())
    assert (layout.length, layout.count) == (123, 2)


def test_plain_phes_sum_is_the_sum(keys: naive.Keys) -> None:
    total, seconds = naive.sum_up(keys, [(1, -2), (-30, 5), (2**40, 0)])
    assert total == (2**40 - 29, 3)
    assert seconds.lead > seconds.party > 0


def test_many_parties_add_up_without_a_coin_toss() -> None:
    ring = run_ring(gradient_study(4, 3, bits=512), new_key(512), 2, noise=False)  # which checks the total
    assert min(ring.party, ring.lead, ring.charlie) > 0
    assert 128 < ring.sent < 512


def test_masked_sums_are_those_of_the_deployed_roles() -> None:
    ring, table = run_masked_ring(gradient_study(4, 3, 2, masks=True), 2)  # which checks the total
    assert min(ring.party, ring.lead, ring.charlie) > 0
    assert ring.sent == table.sent["hospital-1", "Masked"][-1]
    assert table.meter.total_before("rounds", ["hospital-1"]) > 0  # the keys of the pairs, which a round does not count


def test_a_sum_without_masks_is_no_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MaskedPartySums, "_meet", lambda _self: None)
    with pytest.raises(AssertionError, match="without masks"):
        run_masked_ring(gradient_study(4, 3, 2, masks=True), 2)


def test_a_sum_that_is_not_encrypted_is_no_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublicKey, "short_obfuscators", lambda _key, _rng, count: (1,) * count)
    with pytest.raises(AssertionError, match="not encrypted"):
        run_ring(gradient_study(4, 3, bits=512), new_key(512), 2, noise=False)


def test_what_came_before_a_stage_is_told_from_what_came_in_it() -> None:
    clock = _Clock()
    meter = Meter(clock)
    for seconds in (1, 10):
        with meter.under("p0", "decryptions"):
            clock.now += seconds
        meter.mark("p0", f"after {seconds}")
    with meter.under("p0", "gradients"):
        clock.now += 100
    assert meter.total_before("after 1", ["p0"]) == 1
    assert meter.total_before("after 10", ["p0"]) == 11
    assert meter.total(["p0"]) == 111  # gradients count
    assert meter.total(["p0"], ["gradients"]) == 100


def test_a_clock_that_takes_time_to_read_is_seen_through() -> None:
    clock = _Clock()

    def slow() -> float:
        clock.now += 0.5
        return clock.now

    meter = Meter(slow)
    with meter.under("p0", "decryptions"):
        clock.now += 10
        for _ in range(3):
            with meter.under("p0", "codec and boxes"):
                clock.now += 100
    assert meter.total(["p0"], ["decryptions"]) == 10 + 4 * 0.5
    assert meter.reading_seconds(["p0"], ["decryptions"]) == 4 * 0.5


@pytest.mark.parametrize(
    ("label", "step"),
    [
        ("obfuscators", "obfuscators r^N"),
        ("obfuscators from round 1", "obfuscators h^s"),
        ("eta", "noise sampling"),
        ("rho", "noise sampling"),
        ("sum 17", "decryptions"),
        ("gradient 3", "gradients"),
    ],
)
def test_the_draws_of_a_descent_are_told_apart(label: str, step: str) -> None:
    assert step_of(label) == step


def test_rounds_between_processes_are_timed_and_their_sum_is_checked() -> None:
    assert len(wall.processes_seconds(2, 3, d=2, bits=2048)) == 3


def test_rounds_on_a_public_schedule_take_whole_slots() -> None:
    """Of each round one for the contributions, and one for the lead's opening; an overrun waits for the next."""
    seconds = wall.processes_seconds(2, 3, d=2, bits=2048, slot=0.2)
    assert len(seconds) == 3
    assert all(one > 0.37 for one in seconds)


def test_a_plain_round_trip_brings_back_what_was_asked_for() -> None:
    assert all(seconds > 0 for seconds in wall.round_trip_seconds(100, 200, 2))


# --- Charlie alone --------------------------------------------------------------------------------------------------


def test_charlies_whole_role_runs_in_a_process_of_its_own() -> None:
    study = gradient_study(2, 3, 4, bits=2048)
    table = run_descent(study)
    alone = charlie_alone(study, table, new_key().public.n)
    assert alone.arithmetic > alone.set_up > 0.05  # one test of primality alone takes more
    assert alone.codec > 0


def test_a_role_that_differs_from_the_run_is_refused() -> None:
    study = gradient_study(2, 3, 4, bits=512)
    table = run_descent(study)
    shorter = gradient_study(2, 3, 3, bits=512)
    with raises(AssertionError, "replay_differs", ..., ..., ...):
        charlie_alone(shorter, table, new_key(512).public.n)

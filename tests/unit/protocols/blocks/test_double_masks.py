"""Sums under double masks: exact whoever falls silent, one contribution a round, and studies that run under them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from masquerade_core.errors import RunFailed
from masquerade_core.model import Model
from masquerade_core.neighbours import neighbours_of
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Silence, Table, replay
from masquerade_core.thresholds import Thresholds, thresholds
from masquerade_protocols import entry_of, protocol_of
from masquerade_protocols.blocks.descent import check_count
from masquerade_protocols.blocks.double_masks import DoublyMasked, Revealed, Ring, Vouched, pack_set, read_set
from masquerade_protocols.in_memory import run_in_memory
from tests.double_helpers import DoubleSums, flaky_study
from tests.dropout_helpers import losing, losing_study
from tests.evaluation_helpers import held_back_study, measuring
from tests.helpers import violation
from tests.messages import raises, says
from tests.protocol_helpers import make_data, make_study
from tests.sum_helpers import sent
from tests.summary_helpers import dealt, summary_study

COIN = bytes(range(32))
STUDY = flaky_study(K=20, survivors=16)
NAMES = STUDY.names


# --- Who stands near whom ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "k"), [(5, 4), (9, 8), (10, 8), (60, 14), (200, 66)])
def test_neighbours_are_those_of_the_masks_graph(count: int, k: int) -> None:
    """The same graph as where everybody is asked for by name, and the counts of neighbours are those of its lists."""
    names = tuple(f"p{i:03}" for i in range(count))
    ring = Ring(COIN, count, Thresholds(k, k, k, k))
    for i in range(0, count, 7):
        assert tuple(names[j] for j in ring.neighbours(i)) == neighbours_of(COIN, names, names[i], k)
    members = np.random.default_rng(3).random(count) < 0.7
    assert ring.near(members).tolist() == [int(members[list(ring.neighbours(i))].sum()) for i in range(count)]
    assert ring.committee == tuple(sorted(ring.order[:k].tolist()))


def test_a_set_travels_as_bits() -> None:
    members = np.array([True, False, True, True, False, False, False, True, True, False])
    assert pack_set(members) == bytes([0b10001101, 0b00000001])
    assert read_set(pack_set(members), 10, CHARLIE).tolist() == members.tolist()
    for raw in (b"", bytes(1), bytes(3), bytes([255, 0b100])):  # too short, too long, and a party that does not exist
        violation(lambda raw=raw: read_set(raw, 10, CHARLIE), CHARLIE)  # type: ignore[misc]  # bound at once


# --- Sums --------------------------------------------------------------------------------------------------------


def test_sums_are_exact_whoever_falls_silent_and_when() -> None:
    """One before it contributes, one of the committee before it answers, one before it reveals: two are in the sum."""
    ring = DoubleSums.of(STUDY).run().charlie
    assert ring is not None
    assert not ring.ring.complete
    run = DoubleSums.of(STUDY, rounds=4)
    silent = {
        NAMES[3]: Silence(DoublyMasked.__name__, 1),
        NAMES[7]: Silence(Revealed.__name__, 1),
        NAMES[11]: Silence(Revealed.__name__, 2),
        NAMES[0]: Silence(DoublyMasked.__name__, 3),  # who had whispered kappa
    }
    run.run(silent=silent)
    assert run.told == [
        run.added(0),
        run.added(1, (NAMES[3],)),
        run.added(2, (NAMES[3], NAMES[7])),
        run.added(3, (NAMES[3], NAMES[7], NAMES[11], NAMES[0])),
    ]
    assert not run.errors
    for name in NAMES:
        assert run.accepted[name] == run.told[: len(run.accepted[name])]
        assert len(run.accepted[name]) == {3: 1, 7: 1, 11: 2, 0: 3}.get(NAMES.index(name), 4)
        assert len(sent(run.table, name, DoublyMasked)) <= 4  # one a round, whoever is silent


def test_a_committee_may_lose_parties_between_its_answer_and_the_question() -> None:
    """Who is on it follows from the run's coin, so everybody may be: the first three to answer fall silent instead."""
    run = DoubleSums.of(flaky_study(K=7, survivors=5), rounds=2)
    run.run(silent={f"{run.study.names[i]}": Silence(Vouched.__name__, i) for i in (0, 1)})
    out = run.study.names[0]
    assert run.told == [run.added(0), run.added(1, (out,))]
    assert [len(run.accepted[name]) for name in run.study.names] == [0, 1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(("K", "survivors", "colluders"), [(5, 4, 0), (6, 5, 1), (20, 16, 3), (66, 60, 2)])
def test_graphs_of_all_kinds(K: int, survivors: int, colluders: int) -> None:
    study = flaky_study(K=K, survivors=survivors, colluders=colluders)
    out = study.names[-(K - survivors) :]
    run = DoubleSums.of(study, rounds=2).run(silent={name: Silence(DoublyMasked.__name__, 1) for name in out})
    assert run.told == [run.added(0), run.added(1, out)]
    assert run.charlie is not None
    assert run.charlie.ring.sizes == thresholds(K, colluders, K - survivors)


def test_one_party_too_few_ends_the_run() -> None:
    run = DoubleSums.of(STUDY)
    with raises(RunFailed, "too_few_answer", "15 parties", 20, 16):
        run.run(silent={name: Silence(DoublyMasked.__name__, 0) for name in NAMES[:5]})


def test_too_few_shares_end_the_run() -> None:
    """All contribute, and then nearly all of somebody's neighbours fall silent."""
    run = DoubleSums.of(STUDY)
    with raises(RunFailed, "too_few_shares", ..., ...):
        run.run(silent={name: Silence(Revealed.__name__, 0) for name in NAMES[:14]})


def test_wide_words_and_sums_for_charlie_alone() -> None:
    run = DoubleSums.of(flaky_study(K=7, survivors=5), rounds=2)
    run.layout = replace(run.layout, bound=2**300)
    run.vectors[run.study.names[2]][0][1] = -(2**299)
    run.run(silent={run.study.names[4]: Silence(DoublyMasked.__name__, 1)})
    assert run.told == [run.added(0), run.added(1, (run.study.names[4],))]


@pytest.mark.parametrize("made", [flaky_study, losing_study])
def test_the_sum_of_sizes_has_everybodys(made: Callable[..., Study]) -> None:
    study = made(K=20, survivors=16)
    fewest = 20 * study.study.min_records
    check_count(study, fewest)
    with raises(RunFailed, "impossible_count"):
        check_count(study, fewest - 1)


def test_a_sum_without_noise_loses_nobody() -> None:
    """Who falls silent before it contributes ends the run; who falls silent later is in the sum."""
    run = DoubleSums.of(STUDY)
    run.exact = True
    run.run(silent={NAMES[7]: Silence(Revealed.__name__, 0), NAMES[3]: Silence(Revealed.__name__, 0)})
    assert run.told == [run.added(0)]
    with raises(RunFailed, "waits_for", "charlie", "'DoublyMasked'", ...) as caught:
        run.run(silent={NAMES[3]: Silence(DoublyMasked.__name__, 0)})
    assert NAMES[3] in str(caught.value).partition("'DoublyMasked'")[2]
    assert len(run.told) == 1
    assert not [passed for passed in run.table.passed if passed.type in {"Asked", "Opening"}]  # nothing is opened


# --- Whole runs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["dp-gd", "dp-whitened"])
def test_a_protocol_runs_under_double_masks_with_its_text_unchanged(protocol: str) -> None:
    section = "rounds = 3" if protocol == "dp-gd" else ""
    study = flaky_study(protocol, K=12, survivors=9, section=section)
    silent = {study.names[2]: Silence(DoublyMasked.__name__, 2), study.names[5]: Silence(Revealed.__name__, 1)}
    table = Table(study.names, silent=silent)
    results = run_in_memory(protocol_of(study), study, make_data(study, [40] * 12), table=table)
    there = [results[name] for name in (*study.names, CHARLIE) if name not in silent]
    assert len(there) == 11
    assert len(set(there)) == 1
    assert [results[name] for name in silent] == [None, None]
    labels = [release.label for who, release in table.releases if who == study.names[0]]
    assert labels
    assert len(set(labels)) == len(labels)
    assert not any("again" in label for label in labels)  # nothing is released twice


def _doubled(study: Study) -> Study:
    """The same study with double masks in the place of retries."""
    text = study.to_toml().replace("retries = 2", 'method = "double-masks"')
    return Study.parse(text.replace("min_survivors = 3", "min_survivors = 4"), in_memory=True)


def _runs() -> dict[str, Study]:
    model = Model((0.5, -0.25, 0.125), None)
    return {
        "psgd": losing_study("psgd", section="rounds = 3"),
        "dp-gd, evaluation": losing(held_back_study(5, 3)),
        "evaluation": losing(measuring(make_study(5, 3), model)),
        "summary": losing(summary_study(5)),
    }


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", list(_runs()))
def test_every_protocol_that_makes_sums_again_runs_under_double_masks(name: str, *, last: bool) -> None:
    """A party is lost in the first sum of all that carries noise, or in the last one."""
    study = _doubled(_runs()[name])
    entry = entry_of(study)
    data = dealt(study, (40, 50, 60, 70, 80)) if name == "summary" else make_data(study, (40, 50, 60, 70, 80))
    count = 1 if name == "summary" else 2  # the sizes carry no noise
    if last:
        table = Table(study.names)
        run_in_memory(entry, study, data, table=table)
        count = len(sent(table, "p2", DoublyMasked))
    table = Table(study.names, silent={study.names[2]: Silence(DoublyMasked.__name__, count - 1)})
    results = run_in_memory(entry, study, data, table=table)
    assert results.pop(study.names[2]) is None
    assert len({repr(result) for result in results.values()}) == 1


def test_a_role_that_is_run_again_sends_the_same_bytes() -> None:
    study = flaky_study(K=6, survivors=5, section="rounds = 2")
    table = Table(study.names, silent={study.names[4]: Silence(Revealed.__name__, 1)})
    entry, data = protocol_of(study), make_data(study, [30] * 6)
    results = run_in_memory(entry, study, data, table=table)
    me = study.names[1]
    again = replay(entry.party(table.seat(me), study, data[me]), table.journal(me))
    assert again.result == results[me]


def test_the_noise_and_the_statement_count_those_who_are_left() -> None:
    """16 of 20, two of whom side with Charlie: 14 shares of noise, and no sum that is made again."""
    study = flaky_study(K=20, survivors=16, colluders=2, section="rounds = 5")
    retried = losing_study(K=20, survivors=16, colluders=2, retries=5, section="rounds = 5")
    entry = protocol_of(study)
    assert (study.honest, study.retries) == (14, 0)
    assert entry.dropout_price(study) == pytest.approx((18 / 14) ** 0.5 - 1)
    assert entry.dropout_price(retried) == pytest.approx((18 / 14 * 2) ** 0.5 - 1)
    rows = entry.statement(study)
    assert all(any(says(words, "sums_not_made_again", 16) for words in row.assumptions) for row in rows)
    assert not any(says(words, "sums_made_again", ..., ...) for row in rows for words in row.assumptions)
    said = " ".join((*entry.explain(study).cost, *entry.explain(study).collusion, *entry.explain(study).leaves))
    sizes = thresholds(20, 2, 4)
    assert sizes is not None
    assert says(said, "hold_shares", sizes.neighbours)
    assert says(said, "any_open_one", sizes.threshold)
    assert "13 % larger" in said


def test_a_chance_of_2_to_the_minus_40_is_a_part_of_delta() -> None:
    study = flaky_study(K=60, survivors=55, colluders=3)
    rows = protocol_of(study).statement(study)
    assert any(says(words, "chance_in_delta", "9.1e-13") for row in rows for words in row.assumptions)
    alone = flaky_study(K=60, survivors=55)
    rows = protocol_of(alone).statement(alone)
    assert any(says(words, "nobody_sides", ...) for row in rows for words in row.assumptions)
    assert not any(says(words, "chance_in_delta", ...) for row in rows for words in row.assumptions)


def test_five_per_cent_of_200_parties_are_lost_in_the_middle_of_a_round() -> None:
    study = flaky_study(K=200, survivors=185, colluders=2)
    run = DoubleSums.of(study, rounds=2)
    before, after = study.names[10:15], study.names[50:55]
    silent = {name: Silence(DoublyMasked.__name__, 1) for name in before}
    silent |= {name: Silence(Revealed.__name__, 1) for name in after}
    run.run(silent=silent)
    assert run.told == [run.added(0), run.added(1, before)]
    assert sum(row == run.told for row in run.accepted.values()) == 190
    assert not run.errors

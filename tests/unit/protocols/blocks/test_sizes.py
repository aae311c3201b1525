"""N and N', the exact numbers of records: no two attempts of one study open two different ones, whatever goes wrong.

Each attempt here opens them anew, from the same records. Two sums over different parties would show what is between
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from masquerade_core.errors import MasqueradeError
from masquerade_core.study import Study
from masquerade_core.table import Silence, Table
from masquerade_party._records import sizes_of
from masquerade_protocols import entry_of
from masquerade_protocols.blocks import descent, double_masks
from masquerade_protocols.blocks.double_masks import DoubleCharlieSums, DoublyMasked
from masquerade_protocols.blocks.masked_sum import MaskedPartySums
from masquerade_protocols.blocks.paillier_sum import PaillierPartySums
from masquerade_protocols.in_memory import run_in_memory
from tests import faulty
from tests.dropout_helpers import losing
from tests.evaluation_helpers import held_back_study
from tests.protocol_helpers import make_data

SIZES = (40, 51, 60, 72, 83)  # no two of them, and no two of what is held back of them, are equal
TYPES = ("DealtKeys", "Masked", "DoublyMasked", "Vouched", "Revealed")


def _study(method: str) -> Study:
    study = losing(held_back_study(5, 3))
    text = study.to_toml()
    if method == "double-masks":
        text = text.replace("retries = 2", 'method = "double-masks"').replace("min_survivors = 3", "min_survivors = 4")
    elif method == "nobody":
        text = text[: text.index("[dropouts]")] + text[text.index("patience_seconds = 5.0\n") + 23 :]
    made = Study.parse(text, in_memory=True)
    assert (made.dropouts is None) == (method == "nobody")
    return made


METHODS = pytest.mark.parametrize("method", ["nobody", "retries", "double-masks"])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """All numbers that anybody opens, as they come out of a sum: before they are checked."""
    found: set[tuple[str, int]] = set()
    check_count, check_held_back = descent.check_count, descent.check_held_back

    def count(study: Study, n: int) -> None:
        found.add(("N", n))
        check_count(study, n)

    def held_back(study: Study, n: int, held: int) -> int:
        found.add(("N'", held))
        return check_held_back(study, n, held)

    monkeypatch.setattr(descent, "check_count", count)
    monkeypatch.setattr(descent, "check_held_back", held_back)
    return found


def _sums_of_sizes_lose_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the bug: under double masks, Charlie goes on without a party, and the others let him."""

    async def those_in_time(self: DoubleCharlieSums, words: Any) -> dict[int, DoublyMasked]:
        answers = await self._answers(DoublyMasked, self._members)
        return {i: message for i, message in answers.items() if self._fits(words, i, message)}

    monkeypatch.setattr(DoubleCharlieSums, "_everybodys", those_in_time)
    monkeypatch.setattr(double_masks, "_check_whole", lambda *_: None)
    # This one asked for the records of those who may be left, while such a sum could lose parties.
    monkeypatch.setattr(descent, "fewest_to_learn_from", lambda _: 1)


def _both(study: Study) -> set[tuple[str, int]]:
    held = [int(len(data.y) * study.evaluation.share) for data in make_data(study, SIZES).values()]  # type: ignore[union-attr]  # it has one
    return {("N", sum(SIZES) - sum(held)), ("N'", sum(held))}


# --- At the table: one party falls silent at one message of the first rounds -----------------------------------------


def _attempts(study: Study, types: Sequence[str]) -> Iterator[Table]:
    """Nobody falls silent, and then each at each message that it had sent: no method has messages of all types."""
    whole = Table(study.names)
    yield whole
    sent = Counter((passed.source, passed.type) for passed in whole.passed)
    for who in study.names:
        for kind in types:
            for after in range(min(2, sent[who, kind])):
                yield Table(study.names, silent={who: Silence(kind, after)})


def _play(study: Study, types: Sequence[str] = TYPES) -> tuple[int, int]:
    """Run attempt after attempt at one study; returns how many they were, and how many had a result."""
    played = results = 0
    for table in _attempts(study, types):
        played += 1
        try:
            run_in_memory(entry_of(study), study, make_data(study, SIZES), table=table)
            results += 1
        except MasqueradeError:
            pass
    return played, results


@METHODS
def test_whoever_falls_silent_and_when_every_attempt_opens_the_same(method: str, opened: set[tuple[str, int]]) -> None:
    study = _study(method)
    assert _play(study) == {"nobody": (11, 1), "retries": (11, 6), "double-masks": (36, 26)}[method]
    assert opened == _both(study)


def test_a_sum_of_sizes_that_loses_a_party_is_found(
    opened: set[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the bug, the difference of two attempts is one party's size. Silence at contributions alone shows it."""
    _sums_of_sizes_lose_parties(monkeypatch)
    study = _study("double-masks")
    _play(study, ["DoublyMasked"])
    numbers = {n for name, n in opened if name == "N"}
    assert {max(numbers) - n for n in numbers} == {0, *(n - n // 5 for n in SIZES)}


@pytest.mark.parametrize("protocol", ["dp-gd", "dp-whitened", "psgd", "weighted-dp", "input-noise"])
def test_the_ledger_keeps_the_numbers_that_a_role_adds_to_exact_sums(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of input-noise, whose one sum also carries the weighted models, the number is the last coordinate."""
    study = faulty.play(protocol).world.study
    if protocol in {"dp-gd", "dp-whitened"}:
        study = _study("nobody")
    data = make_data(study, SIZES[: study.K])
    sent: dict[str, tuple[int, ...]] = {}
    for kind in (MaskedPartySums, PaillierPartySums):
        open_sum = kind.open_sum

        async def notes(self: Any, layout: Any, vector: Any, *more: Any, open_sum: Any = open_sum) -> Any:
            sent.setdefault(self.seat.me, tuple(vector))
            return await open_sum(self, layout, vector, *more)

        monkeypatch.setattr(kind, "open_sum", notes)
    run_in_memory(entry_of(study), study, data)
    kept = {name: sizes_of(study, records) for name, records in data.items()}
    assert {name: vector[-len(kept[name]) :] for name, vector in sent.items()} == kept


# --- Between sessions, over a network that fails ---------------------------------------------------------------------


SCHEDULES = (1, 6, 8, 10, 11, 20)
"""All three of the first two dozen that show the planted bug, and three more."""


def _schedules(method: str, seeds: Sequence[int]) -> list[faulty.Group]:
    """Run attempt after attempt at one study, each with outages of its own, of any length."""
    world = faulty.with_keys(_study(method))
    study = world.study
    played = faulty.Play(world, make_data(study, SIZES))
    groups = []
    for seed in seeds:
        faults = faulty.faults_of(seed, study.names, 60, 3 * faulty.DEADLINE)
        groups.append(faulty.Group(played, seed, faults))
        groups[-1].run(60 * faulty.DEADLINE)
    return groups


@METHODS
def test_whatever_the_network_does_every_attempt_opens_the_same(method: str, opened: set[tuple[str, int]]) -> None:
    groups = _schedules(method, range(12))
    assert opened == _both(groups[0].play.world.study)
    ends = {bool(group.errors) for group in groups}
    assert ends == {True, False}  # some came to their end, and some did not


def test_a_network_fails_so_that_a_sum_of_sizes_would_lose_a_party(
    opened: set[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _sums_of_sizes_lose_parties(monkeypatch)
    _schedules("double-masks", SCHEDULES)
    assert len({n for name, n in opened if name == "N"}) > 2

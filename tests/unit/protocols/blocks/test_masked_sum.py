"""Masked sums in runs, and attacks on them: each is coded, fails, and succeeds where its rule is taken out.

Charlie knows the code and all that reaches him. His aim is a sum that parties accept although it is not theirs, or a
number of which one party's vector follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from masquerade_core.crypto import masks
from masquerade_core.crypto.masks import CheckKey, Words, as_integers, tagged_hash
from masquerade_core.errors import ProtocolViolation, RunFailed
from masquerade_core.rng import SystemRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import replay
from masquerade_core.wire.codec import PARTIES
from masquerade_protocols import entry_of
from masquerade_protocols.blocks import masked_sum as messages
from masquerade_protocols.blocks import masked_sum as ms
from masquerade_protocols.in_memory import run_in_memory
from tests.masked_helpers import (
    Contributions,
    MaskedSums,
    changed,
    honest,
    masked_study,
    under_masks,
)
from tests.messages import raises
from tests.paper_data import simulated, split, study_of

RNG = SystemRng()
STUDY = masked_study(4)
LAYOUT = Words(6, 2**30)
NAMES = STUDY.names


def _some() -> dict[str, list[list[int]]]:
    return {name: [[RNG.below(2**21) - 2**20 for _ in range(6)] for _ in range(3)] for name in NAMES}


VECTORS = _some()


def _added(t: int, *names: str) -> tuple[int, ...]:
    return tuple(map(sum, zip(*(VECTORS[name][t] for name in names or NAMES), strict=True)))


def _sums(rounds: int = 1, study: Study = STUDY) -> MaskedSums:
    return MaskedSums(study, [LAYOUT] * rounds)


def _vectors(rounds: int) -> dict[str, Any]:
    return {name: vectors[:rounds] for name, vectors in VECTORS.items()}


# --- Sums -----------------------------------------------------------------------------


def test_everybody_gets_the_sums() -> None:
    sums = _sums(3).run(_vectors(3))
    assert sums.accepted == {name: [_added(0), _added(1), _added(2)] for name in NAMES}


def test_charlie_alone_learns_a_sum_that_is_told_to_nobody() -> None:
    study = masked_study(3)
    sums = MaskedSums(study, [LAYOUT])

    async def party(name: str) -> Any:
        seat = sums.table.seat(name)
        await seat.join()
        side = await ms.MaskedPartySums.set_up(seat, study)
        await side.contribute(LAYOUT, VECTORS[name][0], b"")
        return as_integers(await side.open_sum(LAYOUT, VECTORS[name][1], b""))

    async def charlie() -> Any:
        seat = sums.table.seat(CHARLIE)
        await seat.join()
        side = ms.MaskedCharlieSums(seat, study)
        return as_integers(await side.aggregate(LAYOUT)), as_integers(await side.open_sum(LAYOUT))

    results = sums.table.run({**{name: party(name) for name in study.names}, CHARLIE: charlie()})
    first, second = _added(0, "p0", "p1", "p2"), _added(1, "p0", "p1", "p2")
    assert results == {**dict.fromkeys(study.names, second), CHARLIE: (first, second)}
    kinds = [passed.type for passed in sums.table.passed if passed.source == CHARLIE]
    assert kinds.count("Summed") == 3  # one round was told, to three parties


def test_a_run_has_one_round_trip_for_a_sum_and_k_minus_1_boxes() -> None:
    sums = _sums(3).run(_vectors(3))
    told = [(passed.type, passed.source, passed.to) for passed in sums.table.passed]
    assert [to for kind, source, to in told if kind == "GroupKey" and to != PARTIES] == ["p1", "p2", "p3"]
    assert [source for kind, source, _ in told if kind == "Masked"] == [*NAMES] * 3
    assert [to for kind, _, to in told if kind == "Summed"] == [*NAMES] * 3
    assert {kind for kind, _, _ in told} == {"GroupKey", "Masked", "Summed"}
    frame = next(p.length for p in sums.table.passed if p.type == "Masked")
    assert frame <= 4 * LAYOUT.length + 240


def test_a_roles_run_can_be_replayed() -> None:
    sums = _sums(2).run(_vectors(2))
    again = MaskedSums(STUDY, [LAYOUT] * 2)
    role = again._party(sums.table.seat("p1"), VECTORS["p1"][:2], lambda _, t: f"{t}".encode())
    assert replay(role, sums.table.journal("p1")).result == [_added(0), _added(1)]


@pytest.mark.parametrize("protocol", ["dp-gd", "dp-whitened", "psgd"])
def test_a_protocol_runs_under_masks_with_its_text_unchanged(protocol: str) -> None:
    section = {"psgd": "rounds = 3", "dp-gd": "rounds = 3"}.get(protocol, "")
    study = under_masks(study_of(protocol, 3, epsilon=2.0, delta=1e-5, section=section), calibration='"proven"')
    data = split(simulated(0)[0], study, (0.3, 0.3, 0.4))
    results = run_in_memory(entry_of(study), study, data)
    assert len({repr(result) for result in results.values()}) == 1


# --- Charlie tells another sum (1, 2) ---------------------------------------------------


def _shifted(t: int, layout: Words, got: Contributions) -> dict[str, messages.Summed]:
    told = messages.summed(t, layout, got)
    return dict.fromkeys(got, changed(told, layout, lambda total: [total[0] + 1, *total[1:]]))


def _times(factor: int) -> Any:
    def tell(t: int, layout: Words, got: Contributions) -> dict[str, messages.Summed]:
        told = messages.summed(t, layout, got)
        more = (factor - 1) * int.from_bytes(told.check, "little")
        return dict.fromkeys(got, changed(told, layout, lambda total: [factor * v for v in total], more))

    return tell


@pytest.mark.parametrize("tell", [_shifted, _times(0), _times(2), _times(-1)], ids=["+1", "x 0", "x 2", "x -1"])
def test_charlie_alone_cannot_tell_another_sum(tell: Any) -> None:
    sums = _sums()
    with raises(RunFailed, "told_sum_unfit"):
        sums.run(_vectors(1), tell)
    assert not any(sums.accepted.values())


def test_without_the_check_a_shifted_sum_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckKey, "fits", lambda *_: True)
    shifted = (_added(0)[0] + 1, *_added(0)[1:])
    assert _sums().run(_vectors(1), _shifted).accepted == {name: [shifted] for name in NAMES}


@pytest.mark.parametrize("factor", [0, 2, -1])
def test_without_the_constant_a_multiple_is_accepted(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    made = CheckKey.__init__

    def without(self: CheckKey, layout: Words, key: bytes) -> None:
        made(self, layout, key)
        self.constant = 0

    monkeypatch.setattr(CheckKey, "__init__", without)
    multiple = tuple(factor * v for v in _added(0))
    assert _sums().run(_vectors(1), _times(factor)).accepted == {name: [multiple] for name in NAMES}


# --- Other contributions (3, 4, 5, 9) ------------------------------------------------------


def _opened(layout: Words, contributions: list[messages.Masked]) -> tuple[int, ...] | None:
    """The sum that Charlie reads from these contributions, for any number of them; None if it is no sum."""
    try:
        return as_integers(layout.decode(layout.add(layout.read(c.words) for c in contributions), len(contributions)))
    except RunFailed:
        return None


PICKS: dict[str, Callable[[Contributions], list[messages.Masked]]] = {
    "one alone": lambda got: [got["p1"]],
    "one left out": lambda got: [got["p0"], got["p2"], got["p3"]],
    "one twice": lambda got: [got["p0"], got["p0"], got["p2"], got["p3"]],
    "one twice more": lambda got: [*got.values(), got["p0"]],
}
PICKED = {
    "one alone": ("p1",),
    "one left out": ("p0", "p2", "p3"),
    "one twice": ("p0", "p0", "p2", "p3"),
    "one twice more": (*NAMES, "p0"),
}


@pytest.mark.parametrize("pick", list(PICKS))
@pytest.mark.parametrize("masks", [True, False], ids=["masks", "mutant: no masks"])
def test_no_other_choice_of_contributions_opens(monkeypatch: pytest.MonkeyPatch, pick: str, *, masks: bool) -> None:
    if not masks:
        plain = Words.masked
        monkeypatch.setattr(Words, "masked", lambda self, words, check, _: plain(self, words, check, ()))
    sums = _sums()
    sums.run(_vectors(1), honest)
    assert _opened(LAYOUT, list(sums.seen[0].values())) == _added(0)
    got = _opened(LAYOUT, PICKS[pick](sums.seen[0]))
    assert got == (None if masks else _added(0, *PICKED[pick]))


def _forgetting(monkeypatch: pytest.MonkeyPatch, *, keep: slice | None) -> None:
    """Take parts out of a round's label: the chain is the first, then come the numbers, then ``bound_to``."""
    hashed = tagged_hash

    def mutant(tag: str, *parts: bytes, key: bytes = b"", size: int = 32) -> bytes:
        kept = parts[keep] if tag == "round" and keep is not None else () if tag == "round" else parts
        return hashed(tag, *kept, key=key, size=size)

    monkeypatch.setattr(ms, "tagged_hash", mutant)


@pytest.mark.parametrize("mutant", [False, True])
def test_a_contribution_of_the_last_round_opens_nothing(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    if mutant:
        _forgetting(monkeypatch, keep=slice(2, None))  # neither the chain nor the round
    sums = _sums(2).run(_vectors(2), honest, bound_to=lambda *_: b"the same point")
    mixed = {**sums.seen[1], "p1": sums.seen[0]["p1"]}
    expected = tuple(a + b for a, b in zip(_added(1, "p0", "p2", "p3"), VECTORS["p1"][0], strict=True))
    assert _opened(LAYOUT, list(mixed.values())) == (expected if mutant else None)


# --- Different views (6, 7) ------------------------------------------------------------------


@pytest.mark.parametrize("mutant", [False, True])
def test_parties_that_depend_on_different_points_open_nothing(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    if mutant:
        _forgetting(monkeypatch, keep=slice(0, -1))  # not what the contributions are bound to
    sums = _sums()

    def other(name: str, _: int) -> bytes:
        return b"another point" if name == "p2" else b"a point"

    if mutant:
        assert sums.run(_vectors(1), bound_to=other).accepted == {name: [_added(0)] for name in NAMES}
        return
    with raises(RunFailed, "masked_sum_wrong"):
        sums.run(_vectors(1), bound_to=other)
    assert not any(sums.accepted.values())


@pytest.mark.parametrize("mutant", [False, True])
def test_two_sums_that_both_fit_break_the_next_round(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """Charlie has a party on his side: from it he knows kappa, and tells p2 another sum with a fitting check value."""
    if mutant:
        _forgetting(monkeypatch, keep=slice(1, None))  # not the chain
    check_keys: list[CheckKey] = []
    made = CheckKey.__init__

    def leak(self: CheckKey, layout: Words, key: bytes) -> None:
        made(self, layout, key)
        check_keys.append(self)

    monkeypatch.setattr(CheckKey, "__init__", leak)
    sums = _sums(2)

    def tell(t: int, layout: Words, got: Contributions) -> dict[str, messages.Summed]:
        told = messages.summed(t, layout, got)
        if t:
            return dict.fromkeys(got, told)
        more = check_keys[0].of((1, 0, 0, 0, 0, 0))
        return {**dict.fromkeys(got, told), "p2": changed(told, layout, lambda v: [v[0] + 1, *v[1:]], more)}

    if mutant:
        accepted = sums.run(_vectors(2), tell).accepted
        assert accepted["p2"][0] != accepted["p1"][0]
        assert accepted["p2"][1] == accepted["p1"][1] == _added(1)
        return
    with raises(RunFailed, "masked_sum_wrong"):
        sums.run(_vectors(2), tell)
    assert [len(accepted) for accepted in sums.accepted.values()] == [1, 1, 1, 1]
    assert _opened(LAYOUT, list(sums.seen[1].values())) is None


@pytest.mark.parametrize("mutant", [False, True])
def test_two_sums_with_one_check_value_break_the_next_round(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """With kappa, Charlie can look for another sum that has the same check value. Here all sums have one.

    Then nothing that he tells p2 and the others differs but the words.
    """
    monkeypatch.setattr(CheckKey, "of", lambda *_: 0)
    if mutant:
        hashed = tagged_hash

        def forgetting(tag: str, *parts: bytes, key: bytes = b"", size: int = 32) -> bytes:
            kept = (parts[0], *parts[2:]) if tag == "chain" else parts  # not the words
            return hashed(tag, *kept, key=key, size=size)

        monkeypatch.setattr(ms, "tagged_hash", forgetting)
    sums = _sums(2)

    def tell(t: int, layout: Words, got: Contributions) -> dict[str, messages.Summed]:
        told = messages.summed(t, layout, got)
        other = changed(told, layout, lambda v: [v[0] + 1, *v[1:]])
        assert (other.check, other.receipt) == (told.check, told.receipt)
        return dict.fromkeys(got, told) | ({} if t else {"p2": other})

    if mutant:
        accepted = sums.run(_vectors(2), tell).accepted
        assert accepted["p2"][0] != accepted["p1"][0]
        assert accepted["p2"][1] == accepted["p1"][1] == _added(1)
        return
    with raises(RunFailed, "masked_sum_wrong"):
        sums.run(_vectors(2), tell)
    assert [len(accepted) for accepted in sums.accepted.values()] == [1, 1, 1, 1]


# --- Charlie with K - 2 parties (16) -------------------------------------------------------------


@pytest.mark.parametrize("mutant", [False, True])
def test_every_split_of_the_honest_sum_explains_what_charlie_with_the_others_sees(
    monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """p0 and p1 are honest. Their common mask is uniform, and one value of it explains each split, words and check."""
    if mutant:  # the pair's mask repeats one word: differences within a vector show
        stream = masks._chacha

        def repeating(key: bytes, length: int) -> bytes:
            return (stream(key, 4)[:4] * length)[: length + 16]

        monkeypatch.setattr(masks, "_chacha", repeating)
    layout, key = Words(3, 2**30), CheckKey(Words(3, 2**30), bytes(32))
    pair, others = RNG.bytes(32), {name: (RNG.bytes(32), RNG.bytes(32)) for name in ("p2", "p3")}
    x = ([7, -8, 9], [100, 200, 300])
    sent = [
        layout.masked(
            layout.encode(x[i]),
            key.of(x[i]),
            [(i == 0, pair), *((True, keys[i]) for keys in others.values())],
        )
        for i in (0, 1)
    ]
    # What is left once the colluders' masks are taken off: x_0 + m and x_1 - m.
    bare = []
    for i, (words, check) in enumerate(sent):
        off, off_check = layout.masked(layout.encode((0, 0, 0)), 0, [(True, keys[i]) for keys in others.values()])
        left = layout.read(words) - layout.read(off) + layout.encode((0, 0, 0))
        bare.append((left, (int.from_bytes(check, "little") - int.from_bytes(off_check, "little")) % layout.prime))
    for split_off in ([0, 0, 0], [5, 6, 7], [-(10**8), 3, 10**8]):
        first = [a + s for a, s in zip(x[0], split_off, strict=True)]
        second = [b - s for b, s in zip(x[1], split_off, strict=True)]
        m, m_check = bare[0][0] - layout.encode(first), (bare[0][1] - key.of(first)) % layout.prime
        explains = (bare[1][0] + m == layout.encode(second)).all()
        assert explains
        assert (bare[1][1] + m_check - key.of(second)) % layout.prime == 0
        possible = not mutant or len(set(m[layout.marks :].tolist())) == 1  # the mutant's masks repeat one word
        assert possible == (not mutant or split_off == [0, 0, 0])


def test_contributions_of_one_party_are_uniform_to_charlie() -> None:
    firsts = []
    for _ in range(60):
        sums = _sums()
        sums.run(_vectors(1), honest)
        firsts.append(sums.seen[0]["p1"].words)
    counts = np.bincount(np.frombuffer(b"".join(firsts), dtype=np.uint8), minlength=256)
    chi = float(((counts - counts.mean()) ** 2 / counts.mean()).sum())
    assert 150 < chi < 380


# --- Messages that are not due, and whose fault it is (18) ----------------------------------------------


def test_a_sum_of_another_round_is_charlies_fault() -> None:
    def tell(t: int, layout: Words, got: Contributions) -> dict[str, messages.Summed]:
        return dict.fromkeys(got, messages.summed(t + 1, layout, got))

    with raises(ProtocolViolation, "other_round", "charlie", "added up", 1, 0) as e:
        _sums().run(_vectors(1), tell)
    assert e.value.peer == CHARLIE


@pytest.mark.parametrize("part", ["words", "check"])
def test_a_sum_of_another_length_is_charlies_fault(part: str) -> None:
    def tell(t: int, layout: Words, got: Contributions) -> dict[str, messages.Summed]:
        told = messages.summed(t, layout, got)
        return dict.fromkeys(got, told.model_copy(update={part: getattr(told, part)[:-1]}))

    with raises(ProtocolViolation, "masked_sum_length", ..., ..., ..., 32, 16) as caught:
        _sums().run(_vectors(1), tell)
    assert caught.value.peer == CHARLIE


def _told_and_got() -> tuple[messages.Summed, Contributions]:
    sums = _sums().run(_vectors(1), honest)
    return messages.summed(0, LAYOUT, sums.seen[0]), sums.seen[0]


def test_blame_clears_charlie_where_a_party_sent_garbage() -> None:
    """The run fails for everybody; the contributions that Charlie shows add up to what he told."""
    told, got = _told_and_got()
    assert messages.blame(LAYOUT, told, got) is None
    bad = {**got, "p1": got["p1"].model_copy(update={"check": bytes(16)})}
    assert messages.blame(LAYOUT, messages.summed(0, LAYOUT, bad), bad) is None


@pytest.mark.parametrize("lie", ["sum", "check", "receipt", "round", "left out"])
def test_blame_names_charlie_for_what_he_signed(lie: str) -> None:
    told, got = _told_and_got()
    match lie:
        case "sum":
            told = changed(told, LAYOUT, lambda v: [v[0] + 1, *v[1:]])
        case "check":
            told = told.model_copy(update={"check": bytes(16)})
        case "receipt":
            told = told.model_copy(update={"receipt": bytes(32)})
        case "round":
            told = told.model_copy(update={"round": 1})
        case _:
            got = {name: m for name, m in got.items() if name != "p1"}
    assert messages.blame(LAYOUT, told, got) == CHARLIE


def test_a_partys_garbage_fails_the_run_and_names_nobody() -> None:
    study = masked_study(3)
    sums = MaskedSums(study, [LAYOUT])

    def tell(t: int, layout: Words, got: Contributions) -> dict[str, messages.Summed]:
        bad = {**got, "p1": got["p1"].model_copy(update={"check": RNG.bytes(15) + b"\0"})}
        return dict.fromkeys(got, messages.summed(t, layout, bad))

    with raises(RunFailed, "told_sum_unfit"):
        sums.run({name: VECTORS[name][:1] for name in study.names}, tell)

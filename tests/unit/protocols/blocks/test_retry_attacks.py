"""Attacks on masked sums that are made again: each is coded, fails, and succeeds where its rule is taken out.

Charlie may claim that a party is silent when it is not. He knows the code and all that reaches him.
"""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

from masquerade_core.crypto.masks import Words, as_integers, tagged_hash
from masquerade_core.errors import LocalProtocolError, ProtocolViolation, RunFailed
from masquerade_core.seat import Receive, Seat, Send
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table
from masquerade_core.wire.codec import PARTIES, decode, encode, unpack_plain
from masquerade_protocols.blocks import masked_sum as messages
from masquerade_protocols.blocks import masked_sum as ms
from masquerade_protocols.blocks.descent import relay_and_count
from masquerade_protocols.blocks.layouts import Layout, as_words
from masquerade_protocols.blocks.masked_sum import Outcome, Survivors
from masquerade_protocols.blocks.noise_shares import FreshNoise, kept
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.dp_gd.schedule import layout, noise_of
from masquerade_protocols.in_memory import run_in_memory
from tests.dropout_helpers import RetriedSums, losing_study
from tests.helpers import tell_each
from tests.messages import raises, says
from tests.protocol_helpers import make_data
from tests.sum_helpers import drawn

STUDY = losing_study()  # K = 5, s = 3, R = 2
NAMES = STUDY.names
ONES = {(1, 1, 1, 1), (2**32 - 1,) * 4}
MUTANT = pytest.mark.parametrize("mutant", [False, True])


def _without(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """Take one of the parties' rules out."""
    monkeypatch.setattr(Survivors, rule, lambda *_: None)


class _stuck_or_done:  # noqa: N801 - a context manager
    """Parties that hear nothing more wait for ever, which the table reports; that is no part of the attack."""

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return isinstance(error, RunFailed) and "nobody can go on" in str(error)


def _all_told(members: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(NAMES, members)


# --- 9: different sets ------------------------------------------------------------------------------------


@MUTANT
def test_no_subset_of_what_different_sets_give_opens(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    if mutant:
        plain = Words.masked
        monkeypatch.setattr(Words, "masked", lambda self, words, check, _: plain(self, words, check, ()))
    p0, p1, p2, p3, p4 = NAMES
    sets = {p0: (p0, p1, p2), p1: (p0, p1, p3), p2: (p0, p2, p3), p3: (p1, p3, p4), p4: (p0, p1, p2, p3, p4)}

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        await run.hear(seat)
        await run.ask_again(0, sets)
        await run.hear(seat)

    run = RetriedSums.of(STUDY)
    with _stuck_or_done():
        run.run(charlie)
    first, second = run.heard
    assert list(second) == list(NAMES)
    assert run.opened(first.values()) == run.added(dict.fromkeys(NAMES, 0))
    held = [*first.items(), *second.items()]
    subsets = list(chain.from_iterable(combinations(held, n) for n in range(1, len(held) + 1)))
    opening = [subset for subset in subsets if run.opened(message for _, message in subset) is not None]
    assert len(subsets) == 1023
    assert len(opening) == (1023 if mutant else 1)


# --- 10 to 14: the rules of every party ------------------------------------------------------------------------


@MUTANT
def test_fewer_than_min_survivors_contribute_nothing(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    if mutant:
        _without(monkeypatch, "_check_enough")
    pair = NAMES[:2]

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        await run.hear(seat)
        await run.ask_again(0, dict.fromkeys(pair, pair))
        await run.hear(seat)

    with _stuck_or_done():
        run = RetriedSums.of(STUDY)
        run.run(charlie)
    if mutant:
        assert run.opened(run.heard[1].values()) == run.added(dict.fromkeys(pair, 1))
        return
    assert run.heard[1] == {}
    for name in pair:
        assert isinstance(run.errors[name], ProtocolViolation)
        assert says(str(run.errors[name]), "too_few_asked", "2 parties", 3)


@MUTANT
def test_who_is_not_named_contributes_nothing(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """Charlie has p0, p1 and p2 on his side: masks among these and p4 hide nothing from him."""
    labels = _labels(monkeypatch)
    if mutant:
        _without(monkeypatch, "_check_own")
    theirs = NAMES[:3]

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        await run.hear(seat)
        await run.ask_again(0, _all_told(theirs))
        await run.hear(seat)

    run = RetriedSums.of(STUDY)
    with _stuck_or_done():
        run.run(charlie)
    assert (run.times("p4"), isinstance(run.errors.get("p4"), RunFailed)) == ((2, False) if mutant else (1, True))
    if mutant:
        label = labels["p4", 1]
        streams = [(True, tagged_hash("mask", label, key=run.sums[name].pair_keys["p4"][1])) for name in theirs]
        masks, _ = run.layout.masked(run.layout.read(bytes(run.layout.total_bytes)), 0, streams)
        bare = run.layout.read(run.heard[1]["p4"].words) + run.layout.read(masks)  # p4 comes last: it took them off
        assert as_integers(run.layout.decode(bare, 1)) == tuple(run.vectors["p4"][1])
        return
    assert says(str(run.errors["p4"]), "goes_on_without")


def _labels(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], bytes]:
    """Note each contribution's label, by party and round."""
    labels, send = {}, ms.MaskedPartySums._send

    async def noting(self: ms.MaskedPartySums, *args: Any) -> Any:
        labels[self.seat.me, self._round], key = await send(self, *args)
        return labels[self.seat.me, self._round], key

    monkeypatch.setattr(ms.MaskedPartySums, "_send", noting)
    return labels


@MUTANT
def test_one_attempt_is_made_once(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """Charlie asks for the same attempt with another set."""
    if mutant:
        monkeypatch.setattr(ms, "check_round", lambda *_: None)

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        await run.hear(seat)
        await run.ask_again(0, _all_told(NAMES[:4]))
        await run.hear(seat)
        await run.ask_again(0, _all_told(NAMES[:3]))
        await run.hear(seat)

    run = RetriedSums.of(STUDY)
    with _stuck_or_done():
        run.run(charlie)
    assert run.times("p0") == (3 if mutant else 2)
    assert ("p0" in run.errors) is not mutant
    assert mutant or says(str(run.errors["p0"]), "other_round", ..., ..., 0, 1)


@MUTANT
def test_no_more_retries_than_the_study_allows(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    if mutant:
        _without(monkeypatch, "_check_retries")

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        for n in range(STUDY.retries + 1):
            await run.hear(seat)
            await run.ask_again(n, _all_told(NAMES))
        await run.hear(seat)

    run = RetriedSums.of(STUDY)
    with _stuck_or_done():
        run.run(charlie)
    assert {run.times(name) for name in NAMES} == {STUDY.retries + 2 if mutant else STUDY.retries + 1}
    assert mutant or says(str(run.errors["p0"]), "retries_exceeded")


@MUTANT
def test_retries_count_over_the_whole_run(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """One in the first sum and one in the second leave none for the third."""
    if mutant:
        _without(monkeypatch, "_check_retries")

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        for t in range(3):
            await run.hear(seat)
            await run.ask_again(2 * t, _all_told(NAMES))
            got = await run.hear(seat)
            if len(got) == len(NAMES):
                await seat.broadcast(run.summed(2 * t + 1, got))

    run = RetriedSums.of(STUDY, rounds=3)
    with _stuck_or_done():
        run.run(charlie)
    assert {len(accepted) for accepted in run.accepted.values()} == {3 if mutant else 2}
    assert {run.times(name) for name in NAMES} == {6 if mutant else 5}


@MUTANT
@pytest.mark.parametrize("trick", ["twice", "stranger", "order"])
def test_a_set_is_a_part_of_the_one_before(monkeypatch: pytest.MonkeyPatch, trick: str, *, mutant: bool) -> None:
    """A name that stands twice makes two parties count as three: 2 x_0 + x_1 would open."""
    if mutant:
        _without(monkeypatch, "_check_named")
    named = {"twice": ("p0", "p0", "p1"), "stranger": ("p0", "p1", "p9"), "order": ("p1", "p0", "p2")}[trick]

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        await run.hear(seat)
        await run.ask_again(0, dict.fromkeys(("p0", "p1", "p2"), named))
        await run.hear(seat)

    run = RetriedSums.of(STUDY)
    with _stuck_or_done():
        run.run(charlie)
    if mutant and trick == "stranger":  # nobody has a key with a stranger
        assert {name: type(error) for name, error in run.errors.items()} == {
            "p0": LocalProtocolError,
            "p1": LocalProtocolError,
            "p2": RunFailed,
        }
    elif not mutant:
        assert run.heard[1] == {}
        assert says(str(run.errors["p0"]), "not_a_part_of_before")
    elif trick == "twice":
        mine = run.heard[1]
        twice = tuple(2 * a + b for a, b in zip(run.vectors["p0"][1], run.vectors["p1"][1], strict=True))
        assert run.opened([mine["p0"], mine["p0"], mine["p1"]]) == twice
    else:
        assert run.opened(run.heard[1][name] for name in named) == run.added(dict.fromkeys(named, 1))


def test_who_is_out_stays_out() -> None:
    p4 = NAMES[4]

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        await run.hear(seat)
        await run.ask_again(0, dict.fromkeys(NAMES[:4], NAMES[:4]))
        await run.hear(seat)
        await run.ask_again(1, dict.fromkeys(NAMES[:4], (*NAMES[:3], p4)))

    run = RetriedSums.of(STUDY)
    with _stuck_or_done():
        run.run(charlie)
    assert {run.times(name) for name in NAMES[:4]} == {2}
    assert says(str(run.errors["p0"]), "not_a_part_of_before")


# --- 15: a lie about a dropout ---------------------------------------------------------------------------------


@MUTANT
def test_a_lie_about_a_dropout_shows_no_vector_under_less_noise_than_two_releases_have(
    monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """Charlie has the sum over all and the sum without p4. Their difference is p4's gradient, and noise."""
    if mutant:
        shares: dict[tuple[int, ...], Any] = {}
        fresh = FreshNoise.on

        def stale(self: FreshNoise, own: Any, layout: Layout) -> Any:
            return shares.setdefault(tuple(own), fresh(self, own, layout))

        monkeypatch.setattr(FreshNoise, "on", stale)
    d = 300
    study = losing_study("dp-gd", 5, d, section="rounds = 1\nclip = 0.5\nlearning_rate = 1.0")
    data, sums = make_data(study, (20,) * 5), []

    async def charlie(seat: Seat, study: Any) -> None:
        _, N = await relay_and_count(seat, study)
        slots = as_words(layout(study, noise_of(study), N))
        for n, members in ((1, NAMES), (2, NAMES[:4])):
            got = await seat.gather(messages.Masked, members)
            told = messages.summed(n, slots, got)
            sums.append(np.array(slots.decode(slots.read(told.words), len(members)), dtype=float))
            if n == 1:
                left = Outcome(round=1, words=b"", check=b"", receipt=b"", members=NAMES[:4])
                await seat.broadcast(left)

    async def left_out() -> None:
        with raises(RunFailed, "goes_on_without"):
            await dp_gd.party(table.seat("p4"), study, data["p4"])

    table = Table(study.names)
    with _stuck_or_done():
        instead = {CHARLIE: charlie(table.seat(CHARLIE), study), "p4": left_out()}
        run_in_memory(dp_gd, study, data, table=table, instead=instead)
    alone = sums[0] - sums[1] - kept(drawn(table, "p4", "gradient 0")).astype(float)
    share, release = float(noise_of(study).share), study.honest * float(noise_of(study).share) ** 2
    variance = float((alone**2).mean())
    if mutant:
        assert variance == pytest.approx(share**2, rel=0.3)
    else:
        assert variance >= 2 * release
        assert variance == pytest.approx(9 * share**2, rel=0.3)


# --- 19: "again" after a sum ------------------------------------------------------------------------------------


@MUTANT
def test_no_second_contribution_without_a_debit(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """Charlie tells p0 and p1 the sum, and the others again and again that it is made anew."""
    if mutant:
        monkeypatch.setattr(Survivors, "after", lambda self, outcome, _me: Survivors(outcome.members, 3, self.retries))
    some = NAMES[2:]

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        told, asked = run.summed(0, await run.hear(seat)), run.asked
        for n in range(STUDY.retries + 1):  # one broadcast each: parties notice a number that is left out
            others = told if n == 0 else asked(0, NAMES)
            await tell_each(run.table, {**dict.fromkeys(some, asked(n, some)), **dict.fromkeys(NAMES[:2], others)})
            await run.hear(seat)

    run = RetriedSums.of(STUDY, rounds=2)
    with _stuck_or_done():
        run.run(charlie)
    assert {run.times(name) for name in some} == {STUDY.retries + (2 if mutant else 1)}
    for n, got in enumerate(run.heard[1:3], start=1):  # what opened is paid for, and every vector is another one
        assert run.opened(got[name] for name in some) == run.added(dict.fromkeys(some, n))
    if not mutant:
        assert {run.sums[name]._survivors.retries for name in some} == {0}
        for name in NAMES[:2]:  # they went on to the second sum, and do not go back to the first
            assert run.times(name) == 2
            assert says(str(run.errors[name]), "other_round", ..., ..., 0, 1)


# --- 20: a party that is rolled back -------------------------------------------------------------------------------


@MUTANT
def test_a_party_that_is_rolled_back_uses_no_mask_for_two_vectors(
    monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """Its machine goes back to an older state, with all keys; Charlie tells it something else this time."""
    if mutant:  # a label that is the round's number alone
        hashed = tagged_hash

        def numbered(tag: str, *parts: bytes, key: bytes = b"", size: int = 32) -> bytes:
            return hashed(tag, *(parts[1:2] if tag == "round" else parts), key=key, size=size)

        monkeypatch.setattr(ms, "tagged_hash", numbered)
    told: dict[str, Outcome] = {}

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        summed = run.summed(0, await run.hear(seat))
        told.update(
            summed=summed,
            again=run.asked(0, NAMES),
            fewer=run.asked(0, NAMES[:4]),
            shrunk=summed.model_copy(update={"members": NAMES[:4]}),
        )

    run = RetriedSums.of(STUDY, rounds=2)
    run.bound_to, run.own = (lambda _: b"the same point"), (lambda t: t)  # coordinates tell the sums apart
    with _stuck_or_done():
        run.run(charlie)
    words = [run.layout.read(_rolled_back(run, outcome).words) for outcome in told.values()]
    close = [a - b for a, b in combinations(words, 2) if int((a - b)[0]) == 0]
    assert len(close) == (2 if mutant else 0)  # in the mutant, one pair for each set
    assert not mutant or {tuple(int(v) for v in difference[run.layout.marks :]) for difference in close} == ONES


def _rolled_back(run: RetriedSums, outcome: Outcome) -> messages.Masked:
    """Play p0's role again from its journal, and tell it ``outcome`` after its first contribution."""
    role, answer = run.party(run.table.seat("p0")), None
    for entry in run.table.journal("p0"):
        effect = role.send(answer)
        if isinstance(effect, Receive) and effect.type == "Outcome":
            break
        answer = unpack_plain(entry.answer) if hasattr(entry.effect, "compute") else entry.answer
    else:
        effect = role.send(answer)
        assert isinstance(effect, Receive)
    sending = role.send((encode(outcome, PARTIES),))
    role.close()
    assert isinstance(sending, Send), run.errors
    return decode(messages.Masked, sending.bodies[0], "p0")

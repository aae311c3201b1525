"""Attacks on sums under double masks: each is coded, fails, and succeeds where its rule is taken out.

Charlie says who is silent, and what each party is told. He knows the code and all that reaches him.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest

from masquerade_core.crypto import shamir
from masquerade_core.crypto.masks import CheckKey, tagged_hash
from masquerade_core.crypto.pair_keys import public_of
from masquerade_core.errors import LocalProtocolError, ProtocolViolation, RunFailed, SumRefused
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_core.table import Silence
from masquerade_core.thresholds import Thresholds
from masquerade_protocols.blocks import double_masks
from masquerade_protocols.blocks.double_masks import (
    DealtKeys,
    DoubleCharlieSums,
    DoublePartySums,
    DoublyMasked,
    Revealed,
    Ring,
)
from masquerade_protocols.blocks.masked_sum import Summed
from tests.double_helpers import Cheater, DoubleSums, Pool, flaky_study
from tests.helpers import tell_each
from tests.messages import raises, says
from tests.sum_helpers import drawn, sent

FEW = flaky_study(K=7, survivors=5)  # all are neighbours and the committee: k = 6, t = 4, and a quorum of 4
NAMES = FEW.names
EVERYBODY = frozenset(NAMES)
MUTANT = pytest.mark.parametrize("mutant", [False, True])


class _stuck_or_done:  # noqa: N801 - a context manager
    """Parties that hear nothing more wait for ever, which the table reports; that is no part of the attack."""

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return isinstance(error, RunFailed) and "nobody can go on" in str(error)


def _sizes(monkeypatch: pytest.MonkeyPatch, sizes: Thresholds) -> None:
    monkeypatch.setattr(double_masks, "thresholds_of", lambda _: sizes)


def _revealed(run: DoubleSums) -> dict[str, int]:
    return {name: len(sent(run.table, name, Revealed)) for name in run.study.names}


def _attacked(run: DoubleSums, sets: Mapping[str, Collection[str]], **kw: Any) -> Pool:
    """Show each party its set in the first round; returns what Charlie then holds."""
    pools = []

    async def charlie(run: DoubleSums, _seat: Seat) -> None:
        cheater = Cheater(run)
        pools.append(await cheater.show(await cheater.hear(), sets))

    with _stuck_or_done():
        run.run(charlie, **kw)
    return pools[0]


# --- Two sets, shown to different parties -------------------------------------------------------------------------


@pytest.mark.parametrize("without_proofs", [False, True])
@pytest.mark.parametrize("t", [4, 3])
def test_two_sets_do_not_open_both_masks_of_a_party(
    monkeypatch: pytest.MonkeyPatch, t: int, *, without_proofs: bool
) -> None:
    """Half of the neighbours are told that the victim is in, half that it is out: 3 shares of either mask."""
    _sizes(monkeypatch, Thresholds(6, t, 7, 4))
    if without_proofs:
        monkeypatch.setattr(DoublePartySums, "_check_vouched", lambda *_: None)
    victim, others = NAMES[3], EVERYBODY - {NAMES[3]}
    half = set(sorted(others)[:3])
    sets = {name: EVERYBODY if name in half or name == victim else others for name in NAMES}
    run = DoubleSums.of(FEW)
    pool = _attacked(run, sets)
    both = (pool.opens(victim, own=True), pool.opens(victim, own=False))
    assert (None not in both) == (without_proofs and t == 3)
    if without_proofs and t == 3:
        assert pool.reads({victim}) == tuple(run.vectors[victim][0])
    else:
        assert pool.reads({victim}) is None
    if not without_proofs:  # the minority's set has no quorum
        assert sorted(run.errors) == sorted(others - half)
        assert all(says(str(e), "no_quorum") for e in run.errors.values())
        assert all(isinstance(e, ProtocolViolation) and e.peer == CHARLIE for e in run.errors.values())


@MUTANT
def test_many_sets_do_not_open_the_sum_of_fewer_than_min_survivors(
    monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """Every set has five of seven, and leaves out others: three parties are out for four of their neighbours each."""
    if mutant:
        monkeypatch.setattr(DoublePartySums, "_check_vouched", lambda *_: None)
    a, b, c, d, e, f, g = NAMES
    out = {a: {b, c}, b: {a, c}, c: {a, b}, d: {a, b}, e: {b, c}, f: {a, c}, g: set[str]()}
    run = DoubleSums.of(FEW)
    pool = _attacked(run, {name: EVERYBODY - gone for name, gone in out.items()})
    assert FEW.survivors == 5
    assert pool.reads({d, e, f, g}) == (run.added(0, (a, b, c)) if mutant else None)
    if not mutant:
        assert set(run.errors) == EVERYBODY
        assert not any(_revealed(run).values())


def _without(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Derive pairs' keys without a part of what they depend on."""
    whole = Seat.pair_key

    def less(seat: Seat, peer: str, purpose: str, **parts: Any) -> bytes:
        return whole(seat, peer, purpose, **{name: value for name, value in parts.items() if name != part})

    monkeypatch.setattr(Seat, "pair_key", less)


@MUTANT
def test_a_party_of_the_committee_is_not_shown_its_own_proofs_as_others(
    monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """One names another set than the rest. With one key for both directions, a proof would fit both ways."""
    if mutant:
        _without(monkeypatch, "sender")
    me, other = NAMES[2], EVERYBODY - {NAMES[5]}

    async def charlie(run: DoubleSums, seat: Seat) -> None:
        cheater = Cheater(run)
        pool = await cheater.hear()
        made = await cheater.ask({name: other if name == me else EVERYBODY for name in NAMES})
        mirrored = {name: made[me].get(name, bytes(16)) for name in NAMES if name in other}
        await seat.send(me, cheater.opening(pool, me, other, mirrored))

    run = DoubleSums.of(FEW)
    with _stuck_or_done():
        run.run(charlie)
    assert _revealed(run)[me] == mutant
    if not mutant:
        assert set(run.errors[me].suspects) == {NAMES[0], CHARLIE}  # type: ignore[attr-defined]  # a ProtocolViolation


@MUTANT
def test_a_party_of_the_committee_does_not_count_for_a_set_that_it_did_not_name(
    monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """Three name everybody, and four a set without one party: that is a quorum. One of the four is shown everybody."""
    if mutant:
        plain = DoublePartySums._check_vouched
        monkeypatch.setattr(DoublePartySums, "_check_vouched", lambda s, la, o, _: plain(s, la, o, o.members))
    me, other, three = NAMES[2], EVERYBODY - {NAMES[6]}, set(NAMES[3:6])

    async def charlie(run: DoubleSums, seat: Seat) -> None:
        cheater = Cheater(run)
        pool = await cheater.hear()
        made = await cheater.ask({name: EVERYBODY if name in three else other for name in NAMES[:6]})
        proofs = {name: made[name][me] for name in (*sorted(three), me)}
        await seat.send(me, cheater.opening(pool, me, EVERYBODY, proofs))

    run = DoubleSums.of(FEW)
    with _stuck_or_done():
        run.run(charlie)
    assert _revealed(run)[me] == mutant
    if not mutant:
        assert says(str(run.errors[me]), "no_quorum")


# --- 21: a party among corrupt neighbours ---------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [True, False])
@pytest.mark.parametrize("t", [6, 3])
def test_a_set_that_leaves_a_party_with_corrupt_neighbours_only(
    monkeypatch: pytest.MonkeyPatch, t: int, *, rule: bool
) -> None:
    """The victim's honest neighbours are said to be silent, and three corrupt ones are left: fewer than t = 6 of 8.

    If parties do not look for t neighbours of everybody in the set, they show shares. With t = 6 these open nothing.
    """
    study = flaky_study(K=30, survivors=24, colluders=3)
    _sizes(monkeypatch, Thresholds(8, t, 8, 6))
    if not rule:
        monkeypatch.setattr(double_masks, "_check_surrounded", lambda *_: None)
    found: list[tuple[Pool, str]] = []

    async def charlie(run: DoubleSums, _seat: Seat) -> None:
        cheater, order = Cheater(run), run.ring.order.tolist()
        victim, corrupt = order[18], {order[14], order[20], order[22]}  # the committee stands at 0 to 7
        out = {study.names[i] for i in run.ring.neighbours(victim) if i not in corrupt}
        named = frozenset(study.names) - out
        assert (len(out), len(named)) == (5, 25)
        pool = await cheater.show(await cheater.hear(), dict.fromkeys(sorted(named), named))
        pool.known |= {n: drawn(run.table, n, "first one-time key")[:32] for n in (study.names[i] for i in corrupt)}
        found.append((pool, study.names[victim]))

    run = DoubleSums.of(study)
    with _stuck_or_done():
        run.run(charlie)
    pool, victim = found[0]
    named = [name for name, n in _revealed(run).items() if n]
    if t == 3:
        assert len(named) == 25
        assert pool.reads({victim}) == tuple(run.vectors[victim][0])
    else:
        assert pool.reads({victim}) is None
        assert pool.reads(set(named) - {victim} or {victim}) is None
        assert len(named) == (0 if rule else 25)
    if t == 6 and rule:
        # The committee's eight see it first, and vouch for nothing.
        assert len(run.errors) == 25
        assert sum(says(str(e), "too_few_neighbours_named", "3 neighbours", 6) for e in run.errors.values()) >= 8


# --- Keys of one round ----------------------------------------------------------------------------------------------


class _OneKey(SystemRng):
    """A party that has one key for all rounds: the second half of what it draws for a round is its next key."""

    def bytes(self, n: int) -> bytes:
        raw, key = super().bytes(n), b"\x07" * 32
        return {64: key + raw[32:], 128: raw[:32] + key + raw[64:]}.get(n, raw)


@MUTANT
def test_a_key_that_is_opened_later_unmasks_no_earlier_round(*, mutant: bool) -> None:
    """In round 0 the victim's own mask is opened; in round 1 it is said to be silent, and its key is opened."""
    victim = NAMES[4]
    run = DoubleSums.of(FEW, rounds=2)
    run.run(silent={victim: Silence("DoublyMasked", 1)}, rngs={victim: _OneKey()} if mutant else None)
    assert run.told == [run.added(0), run.added(1, (victim,))]
    pool = Pool(
        run,
        {name: sent(run.table, name, DoublyMasked)[0] for name in NAMES},
        EVERYBODY,
        {name: sent(run.table, name, DealtKeys)[0].key for name in NAMES},
    )
    for name in NAMES:
        first, *later = sent(run.table, name, Revealed)
        pool.take(name, first, EVERYBODY)
        if later:
            pool.hold(name, zip(pool.near(name), _values(later[0]), strict=True), EVERYBODY - {victim})
    assert pool.opens(victim, own=False) is not None  # the key of round 1
    assert pool.reads({victim}) == (tuple(run.vectors[victim][0]) if mutant else None)


def _values(message: Revealed) -> list[int]:
    return [int.from_bytes(message.shares[i : i + 33], "little") for i in range(0, len(message.shares), 33)]


@MUTANT
def test_a_box_of_an_earlier_round_does_not_open(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    if mutant:
        _without(monkeypatch, "context")
    me, dealer = NAMES[1], NAMES[2]

    async def charlie(run: DoubleSums, seat: Seat) -> None:
        await run.charlie.open_sum(run.layout, again=True)  # type: ignore[union-attr]  # it is there
        cheater = Cheater(run)
        pool, old = await cheater.hear(), sent(run.table, dealer, DoublyMasked)[0]
        old_box = cheater.box(Pool(run, {dealer: old}, EVERYBODY, {}), dealer, me)
        proofs = {by: made[me] for by, made in (await cheater.ask(dict.fromkeys(NAMES, EVERYBODY))).items()}
        sound = cheater.opening(pool, me, EVERYBODY, proofs)
        boxes = sound.boxes.replace(cheater.box(pool, dealer, me), old_box)
        keys = sound.keys.replace(pool.contributions[dealer].key, old.key)
        assert (boxes, keys) != (sound.boxes, sound.keys)
        await seat.send(me, sound.model_copy(update={"boxes": boxes, "keys": keys}))

    run = DoubleSums.of(FEW, rounds=2)
    with _stuck_or_done():
        run.run(charlie)
    assert _revealed(run)[me] == 1 + mutant
    if not mutant:
        assert set(run.errors[me].suspects) == {dealer, CHARLIE}  # type: ignore[attr-defined]  # a ProtocolViolation


@MUTANT
def test_charlie_does_not_put_a_key_of_his_own_beside_a_box(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """He would know the mask of the next round between two honest parties."""
    if mutant:
        seal, opened = double_masks.seal_box, double_masks.open_box
        monkeypatch.setattr(double_masks, "seal_box", lambda k, _, plain: seal(k, b"", plain))
        monkeypatch.setattr(double_masks, "open_box", lambda k, s, _, box: opened(k, s, b"", box))
    me, dealer = NAMES[1], NAMES[2]
    own = public_of(b"\x01" * 32)

    async def charlie(run: DoubleSums, seat: Seat) -> None:
        cheater = Cheater(run)
        pool = await cheater.hear()
        proofs = {by: made[me] for by, made in (await cheater.ask(dict.fromkeys(NAMES, EVERYBODY))).items()}
        sound = cheater.opening(pool, me, EVERYBODY, proofs)
        keys = sound.keys.replace(pool.contributions[dealer].key, own)
        await seat.send(me, sound.model_copy(update={"keys": keys}))

    run = DoubleSums.of(FEW)
    with _stuck_or_done():
        run.run(charlie)
    assert _revealed(run)[me] == mutant
    if mutant:
        assert own in run.parties[me]._held.keys.values()


# --- Which sets are shares shown for ------------------------------------------------------------------------------


@MUTANT
def test_fewer_than_min_survivors_are_not_opened(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    if mutant:
        monkeypatch.setattr(double_masks, "_check_enough", lambda *_: None)
        monkeypatch.setattr(double_masks, "_check_surrounded", lambda *_: None)
    named = frozenset(NAMES[:4])
    run = DoubleSums.of(FEW)
    pool = _attacked(run, dict.fromkeys(sorted(named), named))
    assert sum(_revealed(run).values()) == (4 if mutant else 0)
    if not mutant:
        said = [str(error) for error in run.errors.values()]
        assert len(said) == 4
        assert says(said[0], "too_few_named", "4 parties", 5)
    assert pool.reads(named) is None  # nobody of the four has four neighbours that answer


@MUTANT
def test_who_is_out_does_not_count_as_a_survivor(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """A set of 15 parties and one that was out before: where neighbours do not matter, 15 would pass for 16."""
    if mutant:
        monkeypatch.setattr(double_masks, "_check_known", lambda *_: None)
    study = flaky_study(K=20, survivors=16)
    gone, left_out = study.names[4], study.names[:4]

    async def charlie(run: DoubleSums, _seat: Seat) -> None:
        await run.charlie.open_sum(run.layout, again=True)  # type: ignore[union-attr]  # it is there
        cheater = Cheater(run)
        named = frozenset(study.names) - set(left_out)
        await cheater.show(await cheater.hear(), dict.fromkeys(sorted(named - {gone}), named))

    run = DoubleSums.of(study, rounds=2)
    _sizes(monkeypatch, Thresholds(4, 1, 20, 11))
    with _stuck_or_done():
        run.run(charlie, silent={gone: Silence("DoublyMasked", 0)})
    places = run.ring.neighbours(study.names.index(gone))
    strangers = [n for i, n in enumerate(study.names) if i not in places and n not in {gone, *left_out}]
    assert {_revealed(run)[name] for name in strangers} == {2 if mutant else 1}
    if not mutant:
        assert all(says(str(run.errors[name]), "out_already") for name in strangers)


@pytest.mark.parametrize("party", range(9))
def test_nobody_in_a_set_has_fewer_neighbours_there_than_open_its_masks(party: int) -> None:
    """Of four neighbours, three open a mask: a set that leaves three is good, and one that leaves two is refused."""
    ring = Ring(b"coin", 9, Thresholds(4, 3, 9, 6))
    everybody = np.ones(9, dtype=np.bool_)
    one, other, *_ = ring.neighbours(party)
    for out, good in (((one,), True), ((one, other), False)):
        named = everybody.copy()
        named[list(out)] = False
        assert int(ring.near(named)[party]) == 4 - len(out)
        me = next(i for i in range(9) if named[i])
        if good:
            double_masks.check_set(ring, 2, everybody, named, me, exact=False)
        else:
            with raises(ProtocolViolation, "too_few_neighbours_named", "2 neighbours", 3):
                double_masks.check_set(ring, 2, everybody, named, me, exact=False)


@pytest.mark.parametrize(("out", "goes_on"), [(1, True), (2, False)])
def test_charlie_himself_ends_a_round_in_which_somebody_has_too_few_neighbours(
    out: int, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sizes(monkeypatch, Thresholds(6, 5, 7, 4))  # of seven parties all are neighbours: six of each, and five open
    run = DoubleSums.of(flaky_study(K=7, survivors=5))
    silent = {name: Silence("DoublyMasked", 0) for name in run.study.names[:out]}
    if goes_on:
        assert run.run(silent=silent).told == [run.added(0, tuple(silent))]
    else:
        with raises(RunFailed, "too_few_neighbours_answer", 6, 5):
            run.run(silent=silent)
        assert not [passed for passed in run.table.passed if passed.type in {"Asked", "Opening"}]


@MUTANT
def test_two_attempts_do_not_show_what_one_party_counts(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """Charlie calls one party silent in the sum of sizes, ends the attempt, and opens everybody's in the next one."""
    if mutant:
        monkeypatch.setattr(double_masks, "_check_whole", lambda *_: None)
    victim = NAMES[2]
    named = EVERYBODY - {victim}
    first = DoubleSums.of(FEW)
    first.exact = True
    pool = _attacked(first, dict.fromkeys(sorted(named), named))
    without = pool.reads(sorted(named))
    second = DoubleSums(FEW, first.layout, 1, first.vectors, exact=True).run()
    assert second.told == [first.added(0)]
    assert _revealed(first) == {name: int(mutant and name in named) for name in NAMES}
    if mutant:
        assert without is not None
        assert [a - b for a, b in zip(second.told[0], without, strict=True)] == first.vectors[victim][0]
    else:
        assert without is None
        assert {type(first.errors[name]) for name in named} == {ProtocolViolation}
        assert says(str(first.errors[NAMES[0]]), "leaves_out", "1 party")
        assert first.errors[NAMES[0]].peer == CHARLIE  # type: ignore[attr-defined]  # a violation has one


def test_whoever_is_left_out_shows_nothing() -> None:
    named = frozenset(NAMES[:6])
    run = DoubleSums.of(FEW)
    _attacked(run, dict.fromkeys(NAMES, named))
    assert _revealed(run) == {**dict.fromkeys(NAMES[:6], 1), NAMES[6]: 0}
    assert isinstance(run.errors[NAMES[6]], RunFailed)
    assert says(str(run.errors[NAMES[6]]), "goes_on_without")


def test_a_party_shows_shares_once_a_round() -> None:
    """Another set in the same round is no message that a party waits for."""

    async def charlie(run: DoubleSums, seat: Seat) -> None:
        cheater = Cheater(run)
        pool = await cheater.show(await cheater.hear(), dict.fromkeys(NAMES, EVERYBODY))
        await seat.send(NAMES[0], cheater.opening(pool, NAMES[0], EVERYBODY - {NAMES[1]}, {}))
        await seat.gather_within(Revealed, NAMES[:1], 1.0)

    run = DoubleSums.of(FEW, rounds=2)
    with raises(LocalProtocolError, "other_message_due", ..., "'Opening'", "'Summed'"):
        run.run(charlie)
    assert set(_revealed(run).values()) == {1}


@pytest.mark.parametrize("what", ["round", "members", "proofs", "keys", "boxes", "vouching"])
def test_an_opening_of_another_round_or_length_is_refused(what: str) -> None:
    async def charlie(run: DoubleSums, seat: Seat) -> None:
        cheater = Cheater(run)
        pool = await cheater.hear()
        proofs = {by: made[NAMES[0]] for by, made in (await cheater.ask(dict.fromkeys(NAMES, EVERYBODY))).items()}
        sound = cheater.opening(pool, NAMES[0], EVERYBODY, proofs)
        other = sound.round + 1 if what == "round" else getattr(sound, what) + b"\0"
        await seat.send(NAMES[0], sound.model_copy(update={what: other}))

    run = DoubleSums.of(FEW)
    with _stuck_or_done():
        run.run(charlie)
    error = run.errors[NAMES[0]]
    assert isinstance(error, ProtocolViolation)
    assert error.peer == CHARLIE
    assert _revealed(run)[NAMES[0]] == 0


# --- The sum itself ---------------------------------------------------------------------------------------------------


@MUTANT
def test_charlie_cannot_tell_another_sum(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    plain = DoubleCharlieSums._unmasked

    def shifted(self: DoubleCharlieSums, *args: Any) -> tuple[Any, bytes]:
        total, check = plain(self, *args)
        total = total.copy()
        total[-1] += 1
        return total, check

    monkeypatch.setattr(DoubleCharlieSums, "_unmasked", shifted)
    if mutant:
        monkeypatch.setattr(CheckKey, "of", lambda *_: 0)
    run = DoubleSums.of(FEW)
    run.run()
    assert len(run.errors) == (0 if mutant else 7)
    assert all(isinstance(e, SumRefused) and says(str(e), "told_sum_unfit") for e in run.errors.values())
    assert run.told[0][-1] == run.added(0)[-1] + 1


@MUTANT
def test_two_sums_with_one_check_value_break_the_next_round(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """All sums have one check value here, as one that a Charlie with kappa looks for: the words alone differ."""
    monkeypatch.setattr(CheckKey, "of", lambda *_: 0)
    if mutant:
        hashed = tagged_hash

        def forgetting(tag: str, *parts: bytes, key: bytes = b"", size: int = 32) -> bytes:
            kept = (*parts[:2], *parts[3:]) if tag == "chain" else parts  # not the words
            return hashed(tag, *kept, key=key, size=size)

        monkeypatch.setattr(double_masks, "tagged_hash", forgetting)
    opened = []

    async def charlie(run: DoubleSums, _seat: Seat) -> None:
        sums = run.charlie
        assert sums is not None
        _, total, check = await sums._opened(run.layout, exact=False)
        told = Summed(round=0, words=run.layout.write(total), check=check, receipt=bytes(32))
        shifted = run.layout.write(np.append(total[:-1], total[-1:] + 1))
        other = told.model_copy(update={"words": shifted})
        await tell_each(run.table, dict.fromkeys(NAMES, told) | {NAMES[2]: other})
        sums._round += 1
        opened.append(await sums._opened(run.layout, exact=False))

    run = DoubleSums.of(FEW, rounds=2)
    if mutant:
        with _stuck_or_done():
            run.run(charlie)
        assert run.accepted[NAMES[2]] != run.accepted[NAMES[1]]
        assert len(opened) == 1
    else:
        with raises(SumRefused, "different_views"):
            run.run(charlie)
        assert not opened


def test_parties_that_depend_on_different_points_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their labels differ, and so do their masks; a Charlie who opens all the same reads nothing."""
    plain = DoublePartySums.open_sum

    async def other(self: DoublePartySums, layout: Any, vector: Any, bound_to: bytes, again: Any = None) -> Any:
        return await plain(self, layout, vector, bound_to + (b"!" if self.seat.me == NAMES[2] else b""), again)

    run = DoubleSums.of(FEW)
    monkeypatch.setattr(DoublePartySums, "open_sum", other)
    with raises(SumRefused, "different_views"):
        run.run()
    assert not any(_revealed(run).values())


def test_a_false_share_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, rng = shamir.deal, SystemRng()

    def false(secret: bytes, threshold: int, points: int, key: bytes) -> tuple[bytes, ...]:
        shares = plain(secret, threshold, points, key)
        return (rng.bytes(32) + b"\0", *shares[1:])

    monkeypatch.setattr(double_masks, "deal", false)
    with pytest.raises(SumRefused):
        DoubleSums.of(FEW).run()

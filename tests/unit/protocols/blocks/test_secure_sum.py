"""The secure sum adds up; its traffic follows from public numbers; no mask serves twice; rounds keep their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz
from scipy import stats

from masquerade_core.crypto.masks import CheckKey
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import ShortPool
from masquerade_core.crypto.powers import FixedBase
from masquerade_core.crypto.shares import mask
from masquerade_core.errors import LocalProtocolError, MasqueradeError, ProtocolViolation, RunFailed
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Receive, Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table, replay
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import Message
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.paillier_sum import Openings
from tests.messages import raises
from tests.protocol_helpers import SMALL_BITS, make_study
from tests.sum_helpers import Sums, adding, draws, multiplying, received, sums_of

RNG = SystemRng()


def _layout(K: int, length: int, bound: int) -> Packing:
    return Packing(length, K * bound, SMALL_BITS)


def _random(study: Study, layouts: list[Packing]) -> dict[str, list[list[int]]]:
    """One vector for each party and round, anywhere within the bound of its share."""
    return {
        name: [[RNG.below(2 * (b := at.bound // study.K) + 1) - b for _ in range(at.length)] for at in layouts]
        for name in study.names
    }


# --- Right -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 5, 20])
def test_signed_extremes_add_up_for_everybody(K: int) -> None:
    bound = 2**40 - 1
    layout = _layout(K, 23, bound)
    assert layout.count == 3
    signs: list[Callable[[int, int], int]] = [
        lambda _j, _i: 1,
        lambda _j, _i: -1,
        lambda j, _i: (-1) ** j,
        lambda j, i: (-1) ** (i + j // 2),
        lambda j, _i: int(j == K - 1),
        lambda _j, _i: 0,
    ]
    vectors = {f"p{j}": [[bound * sign(j, i) for i in range(23)] for sign in signs] for j in range(K)}
    run = sums_of(make_study(K, 1, lead=K - 1), [layout] * len(signs)).run(vectors)
    expected = [tuple(sum(bound * sign(j, i) for j in range(K)) for i in range(23)) for sign in signs]
    assert set(run.results) == {*run.study.names, CHARLIE}
    assert all(result == expected for result in run.results.values())


@pytest.mark.parametrize(
    ("vector", "said"),
    [([0, 600], ("share_missing_or_wrong",)), ([600, 0], ("opened_sum_unfit",))],
    ids=["beyond the last slot", "into the next slot"],
)
def test_a_vector_beyond_its_slots_is_sent_and_shows_on_the_total_alone(
    vector: list[int], said: tuple[Any, ...]
) -> None:
    """A party does not refuse its own vector, which would tell something of it. Everybody refuses the total."""
    layout = _layout(2, 2, 100)
    run = sums_of(make_study(2, 1), [layout])
    with raises(RunFailed, *said):
        run.run({"p0": [vector], "p1": [[0, 0]]})
    assert "Contribution" in {p.type for p in run.table.passed if p.source == "p0"}


@pytest.mark.parametrize("far", [201, 2**20, 2**300, -(2**700)])
def test_a_vector_beyond_the_bound_is_sent_like_any_other(far: int) -> None:
    """Whether its sender stops would tell of it; whether the total is within bounds tells of the total alone."""
    layout = _layout(2, 1, 100)
    run = sums_of(make_study(2, 1), [layout]).run({"p0": [[far]], "p1": [[150 - far]]})
    assert all(result == [(150,)] for result in run.results.values())
    alone = sums_of(make_study(2, 1), [layout])
    with raises(RunFailed, "share_missing_or_wrong"):
        alone.run({"p0": [[2**300]], "p1": [[0]]})
    assert sorted(p.source for p in alone.table.passed if p.type == "Contribution") == ["p0", "p1"]


def test_layouts_of_many_forms_add_up() -> None:
    study = make_study(3, 1)
    layouts = [_layout(3, *form) for form in ((1, 1), (9, 2**100), (1, 2**440), (200, 1), (5, 3 * 2**30))]
    vectors = _random(study, layouts)
    run = sums_of(study, layouts).run(vectors)
    expected = [
        tuple(sum(column) for column in zip(*(vectors[name][t] for name in study.names), strict=True))
        for t in range(len(layouts))
    ]
    assert all(result == expected for result in run.results.values())


# --- Private in form -------------------------------------------------------------------------------


def test_all_that_charlie_sees_follows_from_public_numbers() -> None:
    study, layouts = make_study(3, 1), [_layout(3, 9, 2**100), _layout(3, 40, 2**30)]
    zero = {name: [[0] * at.length for at in layouts] for name in study.names}
    forms = {tuple(sums_of(study, layouts).run(v).table.passed) for v in (zero, *(_random(study, layouts),) * 3)}
    assert len(forms) == 1
    # The test can fail: another bound is another form.
    wider = [_layout(3, 9, 2**100), _layout(3, 40, 2**60)]
    assert tuple(sums_of(study, wider).run(_random(study, wider)).table.passed) not in forms


def test_charlies_view_of_a_round_is_a_vector_of_ciphertexts_of_each_party_and_one_sum() -> None:
    K, rounds = 4, 3
    study, layout = make_study(K, 1), _layout(K, 20, 2**40)
    run = sums_of(study, [layout] * rounds).run(_random(study, [layout] * rounds))
    seen = [(sender, kind) for sender, kind, _ in received(run.table, CHARLIE)]
    assert seen[0] == ("p0", "SumKey")
    each = [*((name, "Contribution") for name in study.names), ("p0", "RoundSum")]
    assert seen[1:] == [*(each * rounds), ("p0", "OpeningProof")]
    for name in study.names:
        assert {len(run.contribution(name, t)) for t in range(rounds)} == {layout.count * 2 * SMALL_BITS // 8}
    assert Counter(p.type for p in run.table.passed if p.source == CHARLIE) == {
        "SumKey": K,
        "RoundTotal": rounds,
        "Opened": K * rounds,
        "OpeningProof": K,
    }


def test_no_obfuscator_and_no_mask_serves_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither within a run nor between two runs, even if all rounds are bound to the same bytes."""
    masks: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    take = ShortPool._take

    def watched_mask(*args: Any) -> tuple[int, ...]:
        values = mask(*args)
        masks.update(values)
        return values

    def watched_take(self: ShortPool) -> Any:
        value = take(self)
        taken[int(value)] += 1
        return value

    def stale_take(self: ShortPool) -> Any:
        taken[int(self._entries[0])] += 1
        return self._entries[0]

    study, layout, rounds = make_study(3, 1), _layout(3, 20, 2**40), 4
    assert layout.count == 2

    def reused() -> tuple[set[int], set[int]]:
        """How often each mask was computed, and each obfuscator used."""
        masks.clear()
        taken.clear()
        for _ in range(2):
            sums_of(study, [layout] * rounds).run(_random(study, [layout] * rounds), bound_to=lambda _, _t: b"same")
        return set(masks.values()), set(taken.values())

    monkeypatch.setattr(ShortPool, "_take", watched_take)
    monkeypatch.setattr(ss, "mask", watched_mask)
    assert reused() == ({2}, {1})  # at either end of a pair
    assert len(masks) == 2 * rounds * 3 * layout.count
    assert len(taken) == 2 * rounds * 3 * layout.count

    # The test can fail: masks without their label, obfuscators that stay in the pool.
    monkeypatch.setattr(ss, "mask", lambda key, _label, n, count: watched_mask(key, b"", n, count))
    monkeypatch.setattr(ShortPool, "_take", stale_take)
    assert reused() == ({2 * rounds}, {rounds * layout.count})


def test_masks_are_bound_to_what_the_round_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a party computes at another iterate, its masks do not cancel."""
    study, layout = make_study(3, 1), _layout(3, 2, 100)
    vectors = _random(study, [layout])

    def run() -> Sums:
        return sums_of(study, [layout]).run(vectors, bound_to=lambda me, _: b"w" if me != "p2" else b"another w")

    with raises(RunFailed, "share_missing_or_wrong"):
        run()
    monkeypatch.setattr(ss, "mask", lambda key, label, n, count: mask(key, label[:4], n, count))
    monkeypatch.setattr(CheckKey, "fits", lambda *_: True)  # check and proof are bound to the same
    monkeypatch.setattr(Openings, "proved_by", lambda *_: True)
    assert run().results[CHARLIE] == run().results["p2"]


def test_a_contribution_opened_with_the_leads_key_is_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five parties: Charlie and the lead together hold the key and all contributions."""
    study = make_study(5, 1)
    layouts = [_layout(5, 20, 2**40)] * 30
    vectors = _random(study, layouts)

    def opened(run: Sums) -> list[float]:
        n = run.secret.public.n
        return [v / n for name in study.names for t in range(30) for v in run.opened(name, t)]

    def shown(run: Sums) -> int:
        """Count the coordinates that stand in a slot of their party's opened contribution."""
        n, hits = run.secret.public.n, 0
        for name in study.names:
            for t, layout in enumerate(layouts):
                offsets = layout._offsets[0]
                slots = [
                    ((v + offsets) % n >> (layout.width * i)) % (1 << layout.width) - layout.offset
                    for v in run.opened(name, t)
                    for i in range(layout.per_plaintext)
                ]
                hits += len(set(slots) & set(vectors[name][t]))
        return hits

    run = sums_of(study, layouts).run(vectors)
    values = opened(run)
    assert len(values) == 5 * 30 * 2
    assert stats.kstest(values, "uniform").pvalue > 1e-6
    assert shown(run) == 0

    # The test can fail: without the masks, all 3,000 stand there.
    monkeypatch.setattr(ss.PaillierPartySums, "_masks", lambda _self, _bound_to, count: [0] * count)
    run = sums_of(study, layouts).run(vectors)
    assert stats.kstest(opened(run), "uniform").pvalue < 1e-12
    assert shown(run) >= 5 * 30 * 19


def test_the_lead_never_receives_a_contribution() -> None:
    """Compare all bytes that reach the lead, in messages and boxes, with every contributed ciphertext."""
    study = make_study(3, 1, lead=1)
    layouts = [_layout(3, 20, 2**40)] * 2
    run = sums_of(study, layouts).run(_random(study, layouts))

    def arrived(name: str) -> bytes:
        return b"\0".join(body for e in run.table.journal(name) if isinstance(e.effect, Receive) for body in e.answer)

    width = run.secret.public.ciphertext_bytes
    single = [
        run.contribution(name, t)._raw[i : i + width]
        for name in study.names
        for t in range(2)
        for i in range(0, 2 * width, width)
    ]
    assert len(single) == 12
    assert not any(c in arrived("p1") for c in single)
    assert {kind for _, kind, _ in received(run.table, "p1")} == {"SumKey", "RoundTotal", "Opened", "OpeningProof"}
    assert all(c in arrived(CHARLIE) for c in single)  # the test can fail


# --- Turns -------------------------------------------------------------------------------------------


def _meddling(monkeypatch: pytest.MonkeyPatch, who: str, kind: type[Message], **changes: Any) -> None:
    """Change the fields of the first message of a kind that ``who`` sends."""
    send, broadcast, done = Seat.send, Seat.broadcast, list[Message]()

    def changed(self: Seat, message: Message) -> Message:
        if self.me == who and isinstance(message, kind) and not done:
            done.append(message)
            return message.model_copy(update=changes)
        return message

    async def meddled_send(self: Seat, to: str, message: Message) -> None:
        await send(self, to, changed(self, message))

    async def meddled_broadcast(self: Seat, message: Message) -> None:
        await broadcast(self, changed(self, message))

    monkeypatch.setattr(Seat, "send", meddled_send)
    monkeypatch.setattr(Seat, "broadcast", meddled_broadcast)


@pytest.mark.parametrize(
    ("who", "kind", "said"),
    [
        ("p1", ss.Contribution, ("other_round", "p1", "contributed to", 1, 0)),
        (CHARLIE, ss.RoundTotal, ("other_round", "charlie", "asked for", 1, 0)),
        ("p0", ss.RoundSum, ("other_round", "p0", "opened", 1, 0)),
        (CHARLIE, ss.Opened, ("other_round", "charlie", "opened", 1, 0)),
    ],
)
def test_a_message_of_another_round_is_refused_by_name(
    who: str, kind: type[Message], said: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, layout = make_study(3, 1), _layout(3, 2, 100)
    _meddling(monkeypatch, who, kind, round=1)
    with raises(ProtocolViolation, *said) as caught:
        sums_of(study, [layout]).run(_random(study, [layout]))
    assert caught.value.peer == who


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (
            ss.RoundTotal,
            ("other_message_due", "charlie", "'RoundTotal'", "'Opened'"),
        ),  # the word of whoever carries messages
        (ss.Opened, ("other_round", "charlie", "asked for", 0, 1)),
    ],
)
def test_a_second_total_of_a_round_is_refused(after: type[Message], said: tuple[Any, ...]) -> None:
    """Charlie asks the lead to open once more in round 0, at once or when round 0 is over."""
    study, layouts = make_study(3, 1), [_layout(3, 2, 100)] * 2

    class Insistent(Seat):
        first: bytes = b""

        async def send(self, to: str, message: Message) -> None:
            if isinstance(message, ss.RoundTotal) and not self.first:
                self.first = message.total._raw
            await super().send(to, message)
            await self.again(message)

        async def broadcast(self, message: Message) -> None:
            await super().broadcast(message)
            await self.again(message)

        async def again(self, message: Message) -> None:
            if isinstance(message, (ss.RoundTotal, ss.Opened)) and isinstance(message, after) and message.round == 0:
                total = Ciphertexts(self.first, study.lead, None)
                await super().send(study.lead, ss.RoundTotal(round=0, total=total, receipt=bytes(32)))

    def insistent(seat: Seat, *args: Any) -> Any:
        return multiplying(Insistent(seat.me, seat.names), *args)

    run = sums_of(study, layouts)
    with raises(MasqueradeError, *said):
        run.run(_random(study, layouts), insistent)
    assert sum(p.type == "RoundTotal" for p in run.table.passed) == 2
    assert sum(p.type == "RoundSum" for p in run.table.passed) == 1


@pytest.mark.parametrize("who", ["p0", "p1"])
def test_what_is_no_vector_of_ciphertexts_is_its_senders_fault(who: str) -> None:
    study, layout = make_study(2, 1), _layout(2, 2, 100)

    def run(broken: Callable[[ss.Contribution, int], Ciphertexts]) -> ProtocolViolation:
        class Broken(Seat):
            modulus = 0

            async def receive(self, cls: Any, sender: str) -> Any:
                message = await super().receive(cls, sender)
                if isinstance(message, ss.SumKey):
                    self.modulus = int.from_bytes(message.modulus, "big")
                return message

            async def send(self, to: str, message: Message) -> None:
                if isinstance(message, ss.Contribution):
                    message = message.model_copy(update={"terms": broken(message, self.modulus)})
                await super().send(to, message)

        table = Table(study.names)
        roles: dict[str, Any] = {
            name: adding((Broken if name == who else Seat)(name, study.names), study, [layout], [[1, 2]])
            for name in study.names
        }
        roles[CHARLIE] = multiplying(table.seat(CHARLIE), study, [layout])
        with pytest.raises(ProtocolViolation) as caught:
            table.run(roles)
        assert not any(p.type == "RoundTotal" for p in table.passed)
        return caught.value

    width = 2 * SMALL_BITS // 8
    for broken in (
        lambda m, _: Ciphertexts(m.terms._raw[:-1], CHARLIE, None),
        lambda m, _: Ciphertexts(m.terms._raw + bytes(width), CHARLIE, None),
        lambda _m, _: Ciphertexts(bytes(width), CHARLIE, None),
        lambda _m, n: Ciphertexts(n.to_bytes(width, "big"), CHARLIE, None),
        lambda _m, n: Ciphertexts((n * n).to_bytes(width, "big"), CHARLIE, None),
    ):
        assert run(broken).peer == who


# --- Replayable ------------------------------------------------------------------------------------


def test_every_role_of_a_sum_replays_byte_for_byte() -> None:
    study = make_study(3, 1)
    layouts = [_layout(3, 20, 2**40), _layout(3, 2, 5)]
    vectors = _random(study, layouts)
    run = sums_of(study, layouts).run(vectors, bound_to=None)
    for name in (*study.names, CHARLIE):
        seat = run.table.seat(name)
        role: Any = (
            multiplying(seat, study, layouts) if name == CHARLIE else adding(seat, study, layouts, vectors[name])
        )
        journal = run.table.journal(name)
        again = replay(role, journal)
        assert again.result == run.results[name]
        assert again.sent == tuple(e.effect for e in journal if isinstance(e.effect, Send))
    changed = dict(vectors, p1=[[v + 1 for v in row] for row in vectors["p1"]])
    with raises(LocalProtocolError, "replay_differs", ..., ..., ...):
        replay(adding(run.table.seat("p1"), study, layouts, changed["p1"]), run.table.journal("p1"))


def test_two_runs_of_a_sum_share_no_draw_and_seeded_ones_share_all() -> None:
    study, layouts = make_study(3, 1), [_layout(3, 20, 2**40)]
    vectors = _random(study, layouts)

    def everything(seed: int | None) -> set[Any]:
        rngs = None if seed is None else {name: SimulationRng(seed, name) for name in (*study.names, CHARLIE)}
        table = sums_of(study, layouts, rngs).run(vectors).table
        return {
            value
            for name in study.names
            for label, result in draws(table, name).items()
            if not label.startswith(("sum ", "proof "))
            for value in (result if isinstance(result, tuple) else (result,))
        }

    a, b, c, d, e = (everything(seed) for seed in (None, None, 1, 1, 2))
    assert len(a) > 3 * (2 + 3 + layouts[0].count)
    assert not a & b
    assert c == d
    assert not c & e


# --- The comb --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 8, 71, 72, 73, 256, 511, 512, 513, 1024])
def test_the_comb_raises_to_every_power_of_its_width(bits: int) -> None:
    modulus = mpz(RNG.bits(300) | 1 | 1 << 299)
    base = mpz(RNG.below(int(modulus)))
    comb = FixedBase(base, modulus, bits)
    while comb._before:  # no table is worth its cost yet
        exponent = RNG.bits(bits)
        assert comb.power(exponent) == gmpy2.powmod(base, exponent, modulus), exponent
        assert not comb._tables
    edge = {0, 1, 2**bits - 1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, int("10" * 512, 2) % 2**bits}
    single = {1 << i for i in range(0, bits, max(1, bits // 40))}
    for exponent in sorted(edge | single | {RNG.bits(bits) for _ in range(10)}):
        assert comb.power(exponent) == gmpy2.powmod(base, exponent, modulus), exponent
    assert comb._tables

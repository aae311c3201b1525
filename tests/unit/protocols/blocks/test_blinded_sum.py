"""The sum that Charlie alone learns: it is right, uniform to the lead, and no oracle for a Charlie who cheats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gmpy2
import pytest
from scipy import stats

from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import PublicKey, SecretKey
from masquerade_core.errors import ProtocolViolation, RunFailed
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat, Send
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table, replay
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import numbers
from masquerade_protocols.blocks import paillier_sum as ss
from tests.helpers import primes
from tests.messages import raises
from tests.protocol_helpers import SMALL_BITS, make_study
from tests.sum_helpers import drawn, product, received, sent

RNG = SystemRng()
STUDY = make_study(4, 1, lead=2)
LAYOUT = Packing(1000, 4, SMALL_BITS)
VOTES = {name: [RNG.below(2) for _ in range(1000)] for name in STUDY.names}

Raw = Mapping[str, bytes]
Tamper = Callable[[PublicKey, Raw], bytes]


@pytest.fixture(autouse=True)
def _one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key in every run."""
    monkeypatch.setattr(ss, "draw_primes", lambda _rng, bits: primes(bits))


def _added(*names: str) -> tuple[int, ...]:
    return tuple(sum(column) for column in zip(*(VOTES[name] for name in names), strict=True))


def _run(charlie: Any = None, rounds: int = 1, table: Table | None = None) -> tuple[Table, dict[str, Any]]:
    table = table or Table(STUDY.names)
    return table, table.run(_roles(table, charlie, rounds))


def _roles(table: Table, charlie: Any = None, rounds: int = 1) -> dict[str, Any]:
    async def party(seat: Seat) -> None:
        await seat.join()
        sums = await ss.PaillierPartySums.set_up(seat, STUDY)
        for _ in range(rounds):
            await sums.contribute(LAYOUT, VOTES[seat.me], b"points")

    async def honest(seat: Seat) -> list[tuple[int, ...]]:
        await seat.join()
        sums = await ss.PaillierCharlieSums.set_up(seat, STUDY)
        return [await sums.aggregate(LAYOUT) for _ in range(rounds)]

    return {**{n: party(table.seat(n)) for n in STUDY.names}, CHARLIE: (charlie or honest)(table.seat(CHARLIE))}


def _secret(table: Table) -> SecretKey:
    return SecretKey(*drawn(table, STUDY.lead, "key xi"))


def test_charlie_alone_learns_the_sum_in_every_round() -> None:
    table, results = _run(rounds=3)
    assert results[CHARLIE] == [_added(*STUDY.names)] * 3
    assert all(results[name] is None for name in STUDY.names)
    told = {kind for name in STUDY.names for _, kind, _ in received(table, name)}
    assert told == {"SumKey", "BlindedTotal"}  # and nothing with a sum in it


def test_the_lead_reads_uniform_numbers_from_a_uniform_ciphertext(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 8

    def read() -> tuple[list[float], list[bool]]:
        """The numbers that the lead read, divided by n; and whether they are the counts."""
        table, _ = _run(rounds=rounds)
        secret, seen, small = _secret(table), [], []
        for answer in sent(table, STUDY.lead, ss.BlindedSum):
            opened = numbers(answer.sums, SMALL_BITS // 8, LAYOUT.count, STUDY.lead)
            seen += [v / secret.public.n for v in opened]
            try:
                small.append(LAYOUT.unpack(opened, secret.public.n, contributors=4) == _added(*STUDY.names))
            except RunFailed:
                small.append(False)
        return seen, small

    seen, small = read()
    assert stats.kstest(seen, "uniform").pvalue > 1e-6
    assert not any(small)
    # The test can fail: a Charlie who draws no blinds shows the lead the counts.
    below = SystemRng.below
    monkeypatch.setattr(SystemRng, "below", lambda self, n: 0 if n.bit_length() == SMALL_BITS else below(self, n))
    monkeypatch.setattr(PublicKey, "full_obfuscators", lambda _self, _rng, count: (1,) * count)
    seen, small = read()
    assert all(small)
    assert stats.kstest(seen, "uniform").pvalue < 1e-6


def test_what_the_lead_receives_bears_full_obfuscators() -> None:
    """Obfuscators r^N with r uniform in Z*_N: half have Jacobi symbol -1, which no short obfuscator has."""
    table, _ = _run(rounds=3)
    secret = _secret(table)
    key = secret.public
    values = [
        int.from_bytes(m.total._raw[i : i + key.ciphertext_bytes], "big")
        for m in sent(table, CHARLIE, ss.BlindedTotal)
        for i in range(0, len(m.total._raw), key.ciphertext_bytes)
    ]
    symbols = [gmpy2.jacobi(v % key.n, key.n) for v in values]
    assert {1, -1} == set(symbols)
    contributed = [
        int.from_bytes(m.terms._raw[: key.ciphertext_bytes], "big")
        for name in STUDY.names
        for m in sent(table, name, ss.Contribution)
    ]
    assert {gmpy2.jacobi(v % key.n, key.n) for v in contributed} == {1}


def _one_with_marks(key: PublicKey, got: Raw) -> bytes:
    """Charlie knows the code and adds the marks of the other three."""
    return product(key, [got["p1"]], [3 * mark for mark in LAYOUT.mark()])


def _dropped(key: PublicKey, got: Raw) -> bytes:
    return product(key, [got["p0"], got["p2"], got["p3"]], list(LAYOUT.mark()))


def _doubled(key: PublicKey, got: Raw) -> bytes:
    return product(key, [got["p0"], got["p0"], got["p2"], got["p3"]])


ATTACKS: dict[str, tuple[Tamper, tuple[str, ...]]] = {
    "one contribution": (_one_with_marks, ("p1",)),
    "one is dropped": (_dropped, ("p0", "p2", "p3")),
    "one is doubled": (_doubled, ("p0", "p0", "p2", "p3")),
}


def _cheating(tamper: Tamper, seen: list[float]) -> Any:
    """A Charlie who has another number opened than the product of all; ``seen`` gets his numbers, divided by n."""

    async def charlie(seat: Seat) -> tuple[int, ...]:
        await seat.join()
        key = (await ss.PaillierCharlieSums.set_up(seat, STUDY)).key
        got = {name: m.terms._raw for name, m in (await seat.gather(ss.Contribution, STUDY.names)).items()}
        total = Ciphertexts(tamper(key, got), STUDY.lead, key)
        await seat.send(STUDY.lead, ss.BlindedTotal(round=0, total=total))
        answer = await seat.receive(ss.BlindedSum, STUDY.lead)
        opened = numbers(answer.sums, key.bits // 8, LAYOUT.count, STUDY.lead)
        seen.extend(v / key.n for v in opened)
        return LAYOUT.unpack(opened, key.n, contributors=4)

    return charlie


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_the_product_of_all_opens_to_a_uniform_number(attack: str) -> None:
    tamper, _ = ATTACKS[attack]
    seen: list[float] = []
    for _ in range(6):
        with raises(RunFailed, "share_missing_or_wrong"):
            _run(_cheating(tamper, seen))
    assert len(seen) == 6 * LAYOUT.count
    assert stats.kstest(seen, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_the_masks_he_gets_what_he_wants(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail."""
    monkeypatch.setattr(ss.PaillierPartySums, "_masks", lambda _self, _bound_to, count: [0] * count)
    tamper, names = ATTACKS[attack]
    _, results = _run(_cheating(tamper, []))
    assert results[CHARLIE] == _added(*names)


@pytest.mark.parametrize("left_out", ["p1", "p2"])
def test_an_honest_charlie_refuses_a_sum_of_fewer(left_out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever left it out: once the blind is off, the total has no zero bits on top."""
    total = Ciphertexts.total

    def short(got: Mapping[str, Ciphertexts], *rest: Any) -> Ciphertexts:
        return total({name: terms for name, terms in got.items() if name != left_out}, *rest)

    monkeypatch.setattr(Ciphertexts, "total", short)
    with raises(RunFailed, "share_missing_or_wrong"):
        _run()


def test_masks_are_bound_to_the_points() -> None:
    """A party that votes on other points ends the run."""
    contribute = ss.PaillierPartySums.contribute

    async def other(self: ss.PaillierPartySums, layout: Packing, vector: Any, bound_to: bytes) -> None:
        await contribute(self, layout, vector, b"other points" if self.seat.me == "p3" else bound_to)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ss.PaillierPartySums, "contribute", other)
        with raises(RunFailed, "share_missing_or_wrong"):
            _run()


def test_a_second_opening_of_a_round_is_refused() -> None:
    async def greedy(seat: Seat) -> None:
        await seat.join()
        sums = await ss.PaillierCharlieSums.set_up(seat, STUDY)
        await sums.aggregate(LAYOUT)
        terms = {n: m.terms for n, m in (await seat.gather(ss.Contribution, STUDY.names)).items()}
        total = Ciphertexts.total(terms, sums.key, LAYOUT.count, STUDY.lead)
        await seat.send(STUDY.lead, ss.BlindedTotal(round=0, total=total))
        await seat.receive(ss.BlindedSum, STUDY.lead)

    with raises(ProtocolViolation, "other_round", "charlie", "asked for", 0, 1) as caught:
        _run(greedy, rounds=2)
    assert caught.value.peer == CHARLIE


@pytest.mark.parametrize("who", ["p1", "p2"])
def test_a_wrong_round_is_its_senders_fault(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = ss.Contribution if who == "p1" else ss.BlindedSum
    send = Seat.send

    async def late(self: Seat, to: str, message: Any) -> None:
        wrong = self.me == who and isinstance(message, kind)
        await send(self, to, message.model_copy(update={"round": 7}) if wrong else message)

    monkeypatch.setattr(Seat, "send", late)
    with raises(ProtocolViolation, "other_round", who, ..., 7, 0) as caught:
        _run()
    assert caught.value.peer == who


def test_every_role_replays_byte_for_byte() -> None:
    table, results = _run(rounds=2)
    for name, role in _roles(table, rounds=2).items():
        journal = table.journal(name)
        again = replay(role, journal)
        assert again.result == results[name]
        assert again.sent == tuple(e.effect for e in journal if isinstance(e.effect, Send))


def test_no_blind_and_no_obfuscator_serves_twice() -> None:
    table, _ = _run(rounds=4)
    drawn_ones = [drawn(table, CHARLIE, f"blinds of round {t}") for t in range(4)]
    values = [v for r, obfuscators in drawn_ones for v in (*r, *obfuscators)]
    assert len(set(values)) == len(values) == 8 * LAYOUT.count

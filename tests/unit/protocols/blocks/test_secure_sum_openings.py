"""Every opened total is the total: attacks by Charlie alone and by the lead alone, each with its mutant.

Two things keep them off. Neither would be enough, and for each there is an attack that the other one lets pass.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz

from masquerade_core.crypto.masks import CheckKey, tagged_hash
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import PublicKey, SecretKey
from masquerade_core.crypto.powers import product_of_powers
from masquerade_core.errors import LocalProtocolError, ProtocolViolation, RunFailed
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Receive, Seat
from masquerade_core.study import CHARLIE
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import PARTIES, Message
from masquerade_protocols.blame_openings import blame_of_opening
from masquerade_protocols.blocks import paillier_sum
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.paillier_sum import Openings, check_words
from tests.helpers import primes, tell_each
from tests.messages import raises
from tests.protocol_helpers import SMALL_BITS, make_study
from tests.sum_helpers import Sums, cheating, multiplying, product, sent, sums_of

RNG = SystemRng()
STUDY = make_study(4, 1, lead=2)
LAYOUT = Packing(6, 2**63 - 1, SMALL_BITS)
VECTORS = {name: [[RNG.below(2**41) - 2**40 for _ in range(6)] for _ in range(2)] for name in STUDY.names}
SECRET = SecretKey(*primes(SMALL_BITS))
KEY = SECRET.public


def _added(t: int) -> tuple[int, ...]:
    return tuple(map(sum, zip(*(VECTORS[name][t] for name in STUDY.names), strict=True)))


def _all(result: list[tuple[int, ...]]) -> dict[str, Any]:
    return dict.fromkeys((*STUDY.names, CHARLIE), result)


def _run(charlie: Any = None, rounds: int = 1) -> Sums:
    return sums_of(STUDY, [LAYOUT] * rounds).run({n: v[:rounds] for n, v in VECTORS.items()}, charlie)


# --- Charlie adds to the total ----------------------------------------------------------------------


def _adding(delta: list[int]) -> Any:
    """A Charlie who multiplies the total by (1 + N)^Delta, packed as contributions are."""

    def tamper(key: PublicKey, layout: Packing, got: dict[str, bytes]) -> bytes:
        return product(key, list(got.values()), layout.pack(delta))

    return cheating(tamper)


@pytest.mark.parametrize("delta", [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, -1], [2**50, -(2**50), 3, 4, 5, 6]])
def test_charlie_cannot_add_to_the_total(delta: list[int]) -> None:
    with raises(RunFailed, "opened_sum_unfit"):
        _run(_adding(delta))


def test_without_the_check_value_his_sum_is_accepted_and_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lead's proof alone does not help: it opened the ciphertext that Charlie signed."""
    monkeypatch.setattr(CheckKey, "fits", lambda *_: True)
    first, *others = _added(0)
    assert _run(_adding([1, 0, 0, 0, 0, 0])).results == _all([(first + 1, *others)])


def test_the_check_value_reaches_the_lead_after_its_answer() -> None:
    """Charlie's total to the lead carries no check value; the value is told with the sum that the lead answered."""
    run = _run()
    (opened,) = sent(run.table, CHARLIE, ss.Opened)
    before: list[bytes] = []
    for entry in run.table.journal(STUDY.lead):
        if isinstance(entry.effect, Receive) and entry.effect.type == "Opened":
            break
        if isinstance(entry.effect, Receive):
            before += entry.answer
    assert not any(opened.check in body for body in before)
    assert any(sent(run.table, CHARLIE, ss.RoundTotal)[0].receipt in body for body in before)  # the test can fail


def test_check_values_are_masked_and_each_serves_one_round() -> None:
    run = _run(rounds=2)
    checks = [m.check for name in STUDY.names for m in sent(run.table, name, ss.Contribution)]
    checks += [m.check for m in sent(run.table, CHARLIE, ss.Opened)]
    assert len(set(checks)) == len(checks) == 10
    assert {len(c) for c in checks} == {16}


@pytest.mark.parametrize("width", [32, 64, 100, 400, 900])
def test_the_prime_of_a_check_value_exceeds_every_coordinate(width: int) -> None:
    words = check_words(Packing(2, 2 ** (width - 1) - 1, 1024))
    assert words.prime >= 2**126
    assert words.prime > 2**width
    assert gmpy2.is_prime(words.prime)
    key = CheckKey(words, RNG.bytes(32))
    check = ((key.of([5, -6]) + key.constant) % words.prime).to_bytes(words.check_bytes, "little")
    assert key.fits([5, -6], check)
    assert not key.fits([5 + words.prime % 2**width, -6], check)


# --- The lead opens another sum ------------------------------------------------------------------------


def _answering(monkeypatch: pytest.MonkeyPatch, delta: Callable[[CheckKey], list[int]]) -> None:
    """Let the lead answer another sum than the total's; it knows the round's check key, as every party does."""
    keys: list[CheckKey] = []
    made, send = CheckKey.__init__, Seat.send

    def noted(self: CheckKey, *args: Any) -> None:
        made(self, *args)
        keys.append(self)

    async def lying(self: Seat, to: str, message: Message) -> None:
        if isinstance(message, ss.RoundSum):
            plain = int.from_bytes(message.sums, "big") + LAYOUT.pack(delta(keys[-1]))[0]
            plain %= int.from_bytes(sent_key[0], "big")
            message = message.model_copy(update={"sums": plain.to_bytes(SMALL_BITS // 8, "big")})
        if isinstance(message, ss.SumKey):
            sent_key.append(message.modulus)
        await send(self, to, message)

    sent_key: list[bytes] = []
    monkeypatch.setattr(CheckKey, "__init__", noted)
    monkeypatch.setattr(Seat, "send", lying)
    # The lead believes what it has answered, and what Charlie tells of it.
    opens = ss.PaillierPartySums._open

    async def believing(self: ss.PaillierPartySums, *args: Any) -> Any:
        _, digest, receipt = await opens(self, *args)
        return _AnySum(), digest, receipt

    monkeypatch.setattr(ss.PaillierPartySums, "_open", believing)


class _AnySum(bytes):
    __slots__ = ()
    __hash__ = bytes.__hash__

    def __eq__(self, _: object) -> bool:
        return True


def _unseen(key: CheckKey) -> list[int]:
    """A short vector that the check value does not see: two coordinates with r_a x + r_b y = 0 modulo p."""
    p = 2**127 - 1
    units = [[int(i == j) for j in range(6)] for i in range(6)]
    for a, b in combinations(range(6), 2):
        ratio = -key.of(units[a]) * int(gmpy2.invert(key.of(units[b]), p)) % p
        (r0, s0), (r1, s1) = (p, 0), (ratio, 1)
        while r1 >= 2**63 - 2**45:
            (r0, s0), (r1, s1) = (r1, s1), (r0 % r1, s0 - r0 // r1 * s1)
        found = [0] * 6
        found[a], found[b] = s1, r1
        if max(map(abs, found)) < 2**63 - 2**45:
            assert key.of(found) % p == 0
            return found
    raise AssertionError("none of the 15 pairs has so short a vector: a chance of one in a million")


def test_the_lead_cannot_answer_any_other_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    _answering(monkeypatch, lambda _: [1, 0, 0, 0, 0, 0])
    with raises(RunFailed, "opened_sum_unfit"):
        _run()


@pytest.mark.parametrize("checked", [True, False])
def test_the_lead_cannot_prove_a_sum_that_fits_the_check_value(
    monkeypatch: pytest.MonkeyPatch, *, checked: bool
) -> None:
    """It knows the key of the check values and finds another sum that fits. Without the proof, all accept it."""
    lies: list[list[int]] = []

    def delta(key: CheckKey) -> list[int]:
        lies.append(_unseen(key))
        return lies[-1]

    _answering(monkeypatch, delta)
    if not checked:
        monkeypatch.setattr(Openings, "proved_by", lambda *_: True)
        results = _run().results
        other = tuple(map(sum, zip(_added(0), lies[0], strict=True)))
        assert results == _all([other])
        assert other != _added(0)
        return
    with raises(RunFailed, "lead_proof_unfit"):
        _run()
    assert lies


def test_no_role_returns_anything_before_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof that does not fit is found by every party but the lead, whatever the round of the lie."""
    send = Seat.send

    async def other_root(self: Seat, to: str, message: Message) -> None:
        if isinstance(message, ss.OpeningProof):
            message = ss.OpeningProof(root=message.root[:-1] + bytes((message.root[-1] ^ 1,)))
        await send(self, to, message)

    monkeypatch.setattr(Seat, "send", other_root)
    for rounds in (1, 2):
        with raises(RunFailed, "lead_proof_unfit"):
            _run(rounds=rounds)


# --- Charlie tells other bytes than he sent to the lead ---------------------------------------------------


def _telling(names: tuple[str, ...], change: Callable[[ss.Opened], dict[str, Any]], rounds: int = 1) -> Sums:
    """Run with a Charlie who changes what he tells these parties in round 0."""

    class Telling(Seat):
        async def broadcast(self, message: Message) -> None:
            if not isinstance(message, ss.Opened) or message.round:
                await super().broadcast(message)
                return
            told: dict[str, Message] = {}
            for name in self.names:
                one = message.model_copy(update=change(message) if name in names else {})
                told[name] = one.model_copy(update={"total": Ciphertexts(one.total._raw, PARTIES, None)})
            await tell_each(run.table, told)

    run = sums_of(STUDY, [LAYOUT] * rounds)

    def charlie(seat: Seat, *args: Any) -> Any:
        return multiplying(Telling(seat.me, seat.names), *args)

    return run.run({n: v[:rounds] for n, v in VECTORS.items()}, charlie)


def _other_total(message: ss.Opened) -> dict[str, Any]:
    return {"total": Ciphertexts(message.total._raw[:-1] + bytes((message.total._raw[-1] ^ 2,)), None, None)}


def test_the_lead_sees_that_another_total_was_told() -> None:
    with raises(ProtocolViolation, "other_sum_passed_on") as caught:
        _telling(STUDY.names, _other_total)
    assert caught.value.peer == CHARLIE


def test_another_total_told_to_some_parties_does_not_fit_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(RunFailed, "lead_proof_unfit"):
        _telling(("p0",), _other_total)
    monkeypatch.setattr(Openings, "proved_by", lambda *_: True)  # the test can fail
    assert _telling(("p0",), _other_total).results["p0"] == [_added(0)]


@pytest.mark.parametrize("changes", [_other_total, lambda _: {"receipt": bytes(32)}], ids=["total", "receipt"])
def test_two_stories_break_the_next_round(changes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever differs in what two parties were told: their masks of the next round do not cancel."""
    with raises(RunFailed, "share_missing_or_wrong"):
        _telling(("p0",), changes, rounds=2)
    hashed = tagged_hash  # the test can fail: a chain of nothing
    monkeypatch.setattr(
        ss, "tagged_hash", lambda tag, *parts, **kw: hashed(tag, *(() if tag == "chain" else parts), **kw)
    )
    monkeypatch.setattr(Openings, "proved_by", lambda *_: True)
    assert _telling(("p0",), changes, rounds=2).results["p0"] == [_added(0), _added(1)]


# --- Receipts --------------------------------------------------------------------------------------


def _evidence(change: dict[str, Any] | None = None, sent_by_p1: dict[str, Any] | None = None) -> str | None:
    run = _run()
    (told,) = sent(run.table, CHARLIE, ss.Opened)
    shown = {name: sent(run.table, name, ss.Contribution)[0] for name in STUDY.names}
    shown["p1"] = shown["p1"].model_copy(update=sent_by_p1 or {})
    return blame_of_opening(run.secret.public, told.model_copy(update=change or {}), shown)


def test_contributions_clear_an_honest_charlie() -> None:
    assert _evidence() is None


@pytest.mark.parametrize(
    "change",
    [
        {"receipt": bytes(32)},
        {"check": bytes(16)},
        {"total": Ciphertexts(b"\1" * (SMALL_BITS // 4), None, None)},
        {"round": 1},
    ],
    ids=["receipt", "check value", "total", "round"],
)
def test_what_charlie_forged_names_him(change: dict[str, Any]) -> None:
    assert _evidence(change) == CHARLIE


def test_a_contribution_that_he_did_not_count_names_him() -> None:
    assert _evidence(sent_by_p1={"check": bytes(16)}) == CHARLIE


# --- The arithmetic of the proof ---------------------------------------------------------------------------


def _encrypted(plain: int) -> Any:
    (r,) = KEY.full_obfuscators(RNG, 1)
    return (1 + KEY.mod_n * plain) * r % KEY.mod_n2


def _proof(seen: Openings, by_lead: Openings) -> bool:
    return seen.proved_by(SECRET.root(by_lead.ciphertext()).to_bytes(SMALL_BITS // 8, "big"))


def _folded(rounds: list[tuple[list[Any], list[int]]], modulus: Any, seed: bytes = b"") -> Openings:
    openings = Openings(KEY, modulus)
    for t, (ciphertexts, plaintexts) in enumerate(rounds):
        openings.add(seed + t.to_bytes(4, "big"), ciphertexts, plaintexts)
    return openings


@pytest.mark.parametrize("pending", [1, 5, 1024])
def test_a_proof_holds_for_the_plaintexts_and_for_no_others(pending: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paillier_sum, "_PENDING", pending)
    plain = [[RNG.below(KEY.n) for _ in range(3)] for _ in range(4)]
    rounds = [([_encrypted(m) for m in row], row) for row in plain]
    lead = _folded(rounds, KEY.mod_n)
    assert _proof(_folded(rounds, KEY.mod_n2), lead)
    for t, i in ((0, 0), (3, 2), (1, 1)):
        for wrong in (plain[t][i] + 1, plain[t][i] - 1, 0, plain[t][i] + SECRET._p):
            other = [row if u != t else [*row[:i], wrong, *row[i + 1 :]] for u, row in enumerate(plain)]
            changed = [(c, row) for (c, _), row in zip(rounds, other, strict=True)]
            assert not _proof(_folded(changed, KEY.mod_n2), lead)


def test_coefficients_that_are_known_beforehand_would_let_two_lies_cancel() -> None:
    """So they follow from a hash of the answers: see the chain in ``open_sum``."""
    plain = [RNG.below(2**100) for _ in range(2)]
    ciphertexts = [_encrypted(m) for m in plain]
    first, second = (Openings(KEY, KEY.mod_n2) for _ in range(2))
    first.add(b"seed", ciphertexts, plain)
    e0, e1 = (coefficient for _, coefficient in first._pending)
    lies = [plain[0] + e1, plain[1] - e0]
    second.add(b"seed", ciphertexts, lies)
    assert _proof(second, _folded([(ciphertexts, plain)], KEY.mod_n)) is False  # another seed
    lead = Openings(KEY, KEY.mod_n)
    lead.add(b"seed", ciphertexts, plain)
    assert _proof(second, lead)  # the same seed, whatever the answers


def test_coefficients_follow_from_what_the_lead_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    chains: dict[bytes, tuple[bytes, ...]] = {}
    seeds: list[bytes] = []
    hashed, add = tagged_hash, Openings.add

    def noted(tag: str, *parts: bytes, **kw: Any) -> bytes:
        made = hashed(tag, *parts, **kw)
        chains[made] = parts if tag == "chain" else ()
        return made

    def added(self: Openings, seed: bytes, *args: Any) -> None:
        seeds.append(seed)
        add(self, seed, *args)

    monkeypatch.setattr(ss, "tagged_hash", noted)
    monkeypatch.setattr(Openings, "add", added)
    (told,) = sent(_run().table, CHARLIE, ss.Opened)
    assert len(seeds) == STUDY.K
    assert len(set(seeds)) == 1
    assert {told.sums, told.total.digest(), told.check, told.receipt} < set(chains[seeds[0]])


def test_a_product_of_powers_is_that() -> None:
    modulus = mpz(RNG.bits(300) | 1 | 1 << 299)
    for count in (1, 2, 7, 40):
        bases = [mpz(RNG.below(int(modulus))) for _ in range(count)]
        exponents = [RNG.bits(128) for _ in range(count - 1)] + [0]
        expected = mpz(1)
        for base, exponent in zip(bases, exponents, strict=True):
            expected = expected * gmpy2.powmod(base, exponent, modulus) % modulus
        assert product_of_powers(bases, exponents, 128, modulus) == expected


def test_a_root_is_a_root() -> None:
    value = mpz(RNG.below(KEY.n))
    assert gmpy2.powmod(SECRET.root(value), KEY.n, KEY.n) == value


def test_only_a_product_of_ciphertexts_goes_to_a_second_recipient() -> None:
    received = Ciphertexts(bytes(127) + b"\1", None, None)
    with raises(LocalProtocolError, "only_products"):
        received.also_for("p0")


# --- The form of the key ------------------------------------------------------------------------------------


def test_a_key_with_a_square_factor_opens_a_ciphertext_twice_and_has_no_proof() -> None:
    """The malicious lead's key: N = f^2 g. A sum and the sum plus N/f have the same ciphertexts."""
    f, g = mpz(65537), mpz(primes(SMALL_BITS)[0])
    key = PublicKey(int(f * f * g))
    N, N2 = key.mod_n, key.mod_n2
    assert PublicKey.received(key.to_bytes(), key.bits, "p0") == key  # the cheap checks see nothing
    r, z, m = mpz(12345), 1 + N // f, mpz(777)
    one = (1 + N * m) * gmpy2.powmod(r, N, N2) % N2
    other = (1 + N * (m + N // f)) * gmpy2.powmod(r * gmpy2.invert(z, N2) % N2, N, N2) % N2
    assert one == other
    # Its holder finds the roots of no more than a few challenges: an N-th power is 1 to the power of f - 1, modulo f^2.
    with_roots = sum(gmpy2.powmod(c, f - 1, f * f) == 1 for c in key.challenges())
    assert with_roots < 8
    assert not key.has_form(bytes(8 * len(key.to_bytes())))


def test_a_right_key_has_the_proof_and_no_other_bytes_are_one() -> None:
    proof = SECRET.proof_of_form()
    assert KEY.has_form(proof)
    for other in (b"", proof[:-1], proof + b"\1", proof[:-1] + bytes((proof[-1] ^ 1,)), b"\1" * len(proof)):
        assert not KEY.has_form(other)


def test_a_key_without_its_proof_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SecretKey, "proof_of_form", lambda _: bytes(8 * SMALL_BITS // 8))
    with raises(ProtocolViolation, "key_not_proved", ...):
        _run()
    monkeypatch.setattr(PublicKey, "has_form", lambda *_: True)  # the test can fail
    assert _run().results["p0"] == [_added(0)]

"""A Paillier key whose N shares a factor with the number of units: its holder reads what blinds should hide.

Let a prime l divide both N and q - 1, for another factor q of N. Then the units modulo N^2 fall into l classes, and
products of N-th powers and of powers of 1 + N fill one of them. No obfuscator and no blind moves a ciphertext into
another class. So a key holder who starts with a ciphertext of another class reads, modulo l, to which exponent others
have raised it. Here N is a product of many such l, each small enough for a table, and of one q. It passes all checks
but the proof of its form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz

from masquerade_core.crypto.comparison import DeciderKey
from masquerade_core.crypto.paillier import Ciphertext, Fresh, FullPool, PublicKey, SecretKey, _fresh
from masquerade_core.crypto.shares import random_permutation
from masquerade_core.errors import ProtocolViolation
from masquerade_core.learning.erm import fit
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.seat import Once, Seat, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_core.wire.codec import unpack_plain
from masquerade_protocols.local_aggregation import before_join
from masquerade_protocols.local_aggregation import roles as la
from masquerade_protocols.local_aggregation.public import packing
from tests.protocol_helpers import SMALL_BITS, make_data, make_study, run

RNG = SystemRng()
_PRIMES = 12  # small ones


def ill_formed_factors() -> tuple[int, ...]:
    """Primes l_i of 20 bits, and a q of which every l_i divides q - 1; their product has SMALL_BITS bits."""
    small: set[int] = set()
    while len(small) < _PRIMES:
        small.add(int(gmpy2.next_prime(2**19 + RNG.below(2**19))))
    product = math.prod(small)
    low, high = -(-(1 << (SMALL_BITS - 1)) // product), (1 << SMALL_BITS) // product
    while True:
        q = (low + RNG.below(high - low)) // (2 * product) * 2 * product + 1
        if q > low and (product * q).bit_length() == SMALL_BITS and gmpy2.is_prime(q):
            return (*sorted(small), q)


class IllFormed(SecretKey):
    """A secret key with these factors, and a mark that moves a ciphertext out of what an honest one can be."""

    __slots__ = ("factors", "mark", "seen")

    def __init__(self, *factors: int) -> None:
        self.public = PublicKey(math.prod(factors))
        self.factors = factors
        self.seen: list[int] = []
        *small, q = factors
        while True:
            g = 2 + RNG.below(q - 2)
            if all(pow(g, (q - 1) // prime, q) != 1 for prime in small):
                break
        # 1 modulo all other factors' squares, and of order q - 1 modulo q^2: a plaintext of 0, in another class.
        others = math.prod(small) ** 2
        self.mark = 1 + others * ((pow(g, q, q * q) - 1) * pow(others, -1, q * q) % (q * q))

    def decrypt(self, ciphertext: Ciphertext) -> int:
        """Decrypt modulo each factor."""
        value, found, modulus = ciphertext.to_int(), mpz(0), mpz(1)
        self.seen.append(value)
        for f in self.factors:
            of_one = (pow(1 + self.public.n, f - 1, f * f) - 1) // f
            part = (pow(value, f - 1, f * f) - 1) // f * pow(of_one, -1, f) % f
            found += modulus * ((part - found) * pow(int(modulus), -1, f) % f)
            modulus *= f
        return int(found)

    def obfuscators(self, rng: Rng, count: int) -> tuple[int, ...]:
        """Full ones."""
        return self.public.full_obfuscators(rng, count)

    def proof_of_form(self) -> bytes:
        """Something of the right length: there is none."""
        return bytes(8 * len(self.public.to_bytes()))

    def exponent(self, value: int) -> tuple[int, int]:
        """Return to which exponent the mark was raised in a ciphertext, and modulo what that is known."""
        *small, q = self.factors
        found, modulus = 0, 1
        for prime in small:
            cofactor = (q - 1) // prime
            wanted, power = pow(value, cofactor, q), pow(self.mark, cofactor, q)
            step = math.isqrt(prime) + 1
            table = {pow(power, i, q): i for i in range(step)}
            giant = pow(power, -step, q)
            residue = next(table[y] + step * j for j, y in enumerate(_powers(wanted, giant, q)) if y in table) % prime
            found += modulus * ((residue - found) * pow(modulus, -1, prime) % prime)
            modulus *= prime
        return found, modulus


def _powers(start: int, factor: int, modulus: int) -> Iterator[int]:
    while True:
        yield start
        start = start * factor % modulus


async def _joins(table: Table, name: str) -> None:
    await table.seat(name).join()


async def _keys(table: Table, study: Study) -> None:
    """Charlie's part until his keys are out."""
    zeta, decider = IllFormed(*ill_formed_factors()), DeciderKey(DeciderKey.draw(RNG))
    seat = table.seat(CHARLIE)
    await seat.join()
    roots = zeta.proof_of_form()
    await seat.broadcast(la.CharlieKeys(modulus=zeta.public.to_bytes(), roots=roots, decider=decider.public))


def cheats(monkeypatch: pytest.MonkeyPatch, label: str) -> list[IllFormed]:
    """Whoever draws the key of this label draws an ill-formed one."""
    keys: list[IllFormed] = []
    once, sound = Seat.once, SecretKey

    async def drawn(seat: Seat, asked: str, compute: Any) -> Any:
        return await once(seat, asked, (lambda _: ill_formed_factors()) if asked == label else compute)

    def key(*factors: int) -> SecretKey:
        if len(factors) == 2:
            return sound(*factors)
        keys.append(IllFormed(*factors))
        return keys[-1]

    monkeypatch.setattr(Seat, "once", drawn)
    monkeypatch.setattr(la, "SecretKey", key)
    return keys


def test_the_cheap_checks_pass_and_the_proof_does_not() -> None:
    key = IllFormed(*ill_formed_factors())
    assert math.gcd(key.public.n, math.prod(f - 1 for f in key.factors)) == math.prod(key.factors[:-1])
    assert PublicKey.received(key.public.to_bytes(), SMALL_BITS, CHARLIE) == key.public
    assert not key.public.has_form(key.proof_of_form())
    plain = RNG.below(key.public.n)
    cipher = Ciphertext(key.public, mpz(1 + plain * key.public.n))
    assert key.decrypt(cipher) == plain


@pytest.mark.parametrize("mutant", [False, True])
def test_charlie_does_not_read_the_noise_that_blinds_hide(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """He marks the smallest party's ciphertext, and reads the exponent that it is raised to: that party's noise."""
    if mutant:
        monkeypatch.setattr(PublicKey, "has_form", lambda *_: True)
    (zetas, study) = cheats(monkeypatch, "key zeta"), make_study(3, 1)
    data = make_data(study, [20, 30, 40])

    class Marking(FullPool):
        def encrypt(self, plain: int, recipient: str) -> Fresh:
            fresh = super().encrypt(plain, recipient)
            if recipient != "*" or plain != 1:
                return fresh
            return _fresh(self.key, recipient, fresh.use() * zetas[0].mark % self.key.mod_n2)

    monkeypatch.setattr(la, "FullPool", Marking)
    if not mutant:
        with pytest.raises(ProtocolViolation) as caught:
            run(study, data)
        assert caught.value.peer == CHARLIE
        return
    r, layout = run(study, data), packing(study)
    journal = r.table.journal("p0")
    noise = next(unpack_plain(e.answer) for e in journal if isinstance(e.effect, Once) and e.effect.label == "noise")
    (exponent,) = layout.pack_exponents(noise)
    read, modulus = zetas[0].exponent(zetas[0].seen[-1])
    assert exponent < modulus
    assert read == exponent
    # So he takes the noise off what was published, and has the sum of the three classifiers as they were trained.
    offset = layout.pack_exponents((0,))[0]
    trained = [before_join.encode_weights(fit(x.X, x.y, study.model.regularization).tolist()) for x in data.values()]
    assert r.total[0] - (read - offset) == sum(w[0] for w in trained)


def test_with_proven_noise_nobody_takes_such_a_key_either() -> None:
    """Each party checks zeta by itself, and before it has sent anything that depends on a record."""
    made = make_study(3, 1)
    privacy = made.privacy.model_copy(update={"calibration": "proven"})
    study = made.model_copy(update={"privacy": privacy, "protocol": {"scale": "selected"}})
    for name in study.names:
        table = Table(study.names)
        data = make_data(study, [20, 30, 40])
        others = {other: _joins(table, other) for other in study.names if other != name}
        with pytest.raises(ProtocolViolation) as caught:
            table.run({**others, name: la.party(table.seat(name), study, data[name]), CHARLIE: _keys(table, study)})
        assert caught.value.peer == CHARLIE
        assert {e.effect.type for e in table.journal(name) if isinstance(e.effect, Send)} <= {"LeadKey"}


@pytest.mark.parametrize("mutant", [False, True])
def test_the_lead_does_not_read_charlies_permutation(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """It marks each slot's ciphertext with a power of its own, and finds the powers in what Charlie has shuffled."""
    if mutant:
        monkeypatch.setattr(PublicKey, "has_form", lambda *_: True)
    (xis, study), drawn = (cheats(monkeypatch, "key xi"), make_study(4, 1)), list[tuple[int, ...]]()
    data, draw = make_data(study, [20, 21, 22, 23]), random_permutation

    class Marking(FullPool):
        slot = 0

        def encrypt(self, plain: int, recipient: str) -> Fresh:
            fresh = super().encrypt(plain, recipient)
            if recipient != CHARLIE:
                return fresh
            power = pow(xis[0].mark, self.slot, self.key.n**2)
            self.slot += 1
            return _fresh(self.key, recipient, fresh.use() * power % self.key.mod_n2)

    def noted(rng: Rng, size: int) -> tuple[int, ...]:
        drawn.append(draw(rng, size))
        return drawn[-1]

    monkeypatch.setattr(la, "FullPool", Marking)
    monkeypatch.setattr(la, "random_permutation", noted)
    if not mutant:
        with pytest.raises(ProtocolViolation) as caught:
            run(study, data)
        assert caught.value.peer == "p0"
        return
    run(study, data)
    assert tuple(xis[0].exponent(value)[0] for value in xis[0].seen) == drawn[-1]

"""The secret half of Paillier: the key holder decrypts, and draws obfuscators at a fraction of the price."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gmpy2
import phe
from gmpy2 import mpz

from masquerade_core.crypto.boxes import Secret
from masquerade_core.crypto.powers import FixedBase, powmods
from masquerade_core.crypto.public_key import Ciphertext, PublicKey
from masquerade_core.errors import LocalProtocolError
from masquerade_core.rng import Rng

__all__ = ["SecretKey"]


class SecretKey(Secret):
    """The factors of N. It computes modulo p^2 and q^2, and joins the two by the Chinese remainder theorem.

    Parameters
    ----------
    p, q : int
        From :func:`draw_primes`.
    """

    __slots__ = ("_p", "_phe", "_q", "_short_bases", "public")

    def __init__(self, p: int, q: int) -> None:
        self.public = PublicKey(p * q)
        self._short_bases: tuple[FixedBase, FixedBase] | None = None
        self._p, self._q = mpz(p), mpz(q)
        self._phe = phe.PaillierPrivateKey(phe.PaillierPublicKey(p * q), p, q)

    def decrypt(self, ciphertext: Ciphertext) -> int:
        """Return the plaintext in [0, N)."""
        if ciphertext.key != self.public:
            msg = "a ciphertext under another key was to be decrypted"
            raise LocalProtocolError(msg)
        return int(self._phe.raw_decrypt(ciphertext.to_int()))

    def decrypt_all(self, ciphertexts: Sequence[Ciphertext]) -> tuple[int, ...]:
        """Return the plaintexts, as :meth:`decrypt` does, but on all cores: a whole round waits for them."""
        if any(c.key != self.public for c in ciphertexts):
            msg = "a ciphertext under another key was to be decrypted"
            raise LocalProtocolError(msg)
        half = self._phe  # phe has sorted its factors
        p, q = mpz(half.p), mpz(half.q)
        jobs = [(mpz(c.to_int()), prime) for c in ciphertexts for prime in (p, q)]
        with ThreadPoolExecutor(max(1, min(os.cpu_count() or 1, len(jobs)))) as pool:
            done = pool.map(lambda job: gmpy2.powmod_base_list([job[0]], job[1] - 1, job[1] * job[1])[0], jobs)
            powers = list(done)
        at_p = [(x - 1) // p * half.hp % p for x in powers[::2]]
        at_q = [(x - 1) // q * half.hq % q for x in powers[1::2]]
        return tuple(int(half.crt(a, b)) for a, b in zip(at_p, at_q, strict=True))

    def obfuscators(self, rng: Rng, count: int) -> tuple[int, ...]:
        """Draw ``count`` values r^N mod N^2, r uniform in Z*_N, at 2/7 of the price.

        r^N mod p^2 = (r^q mod p)^p mod p^2, and r^q is as uniform in Z*_p as r, for gcd(q, p-1) = 1.
        """
        p, q = self._p, self._q
        p2, q2 = p * p, q * q
        at_p = powmods([mpz(1 + rng.below(int(p) - 1)) for _ in range(count)], p, p2)
        at_q = powmods([mpz(1 + rng.below(int(q) - 1)) for _ in range(count)], q, q2)
        return self._joined(at_p, at_q)

    def root(self, value: Any) -> int:
        """Return the only N-th root of a unit modulo N; N-th powers of units are units, and all units are such powers.

        It is computed modulo p and modulo q, with exponents of half the length.
        """
        p, q, n = self._p, self._q, self.public.mod_n
        at_p, at_q = (gmpy2.powmod(value % r, gmpy2.invert(n, r - 1), r) for r in (p, q))
        return int(at_p + p * ((at_q - at_p) * gmpy2.invert(p, q) % q))

    def proof_of_form(self) -> bytes:
        """Return what :meth:`PublicKey.has_form` asks for: the N-th roots of the key's challenges."""
        width = len(self.public.to_bytes())
        return b"".join(self.root(value).to_bytes(width, "big") for value in self.public.challenges())

    def short_obfuscators(self, rng: Rng, count: int) -> tuple[int, ...]:
        """Draw what the public key's ``short_obfuscators`` would from the same bits, at two thirds of the price."""
        half = self.public.bits // 2
        if self._short_bases is None:
            moduli = self._p * self._p, self._q * self._q
            at_p2, at_q2 = (FixedBase(self.public.short_generator % m, m, half) for m in moduli)
            self._short_bases = at_p2, at_q2
        exponents = [rng.bits(half) for _ in range(count)]
        at_p, at_q = ([base.power(s) for s in exponents] for base in self._short_bases)
        return self._joined(at_p, at_q)

    def _joined(self, at_p: Sequence[Any], at_q: Sequence[Any]) -> tuple[int, ...]:
        """Return the residues mod N^2 of residues mod p^2 and q^2."""
        p2, q2 = self._p * self._p, self._q * self._q
        p2_inverse = gmpy2.invert(p2, q2)
        return tuple(int(a + p2 * ((b - a) * p2_inverse % q2)) for a, b in zip(at_p, at_q, strict=True))

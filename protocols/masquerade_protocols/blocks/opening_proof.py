"""The proof that the lead opened every total of a sum by Paillier as it was.

For a key N of the right form, a ciphertext c is (1 + N)^m r^N mod N^2 for one plaintext m and one r modulo N. So r
proves that c opens to m. Only the holder of the secret key can compute r from c.

To check every c would take one long exponentiation each. Instead, everybody folds all ciphertexts of the run into one::

    C = product of c_i^(e_i) mod N^2        M = sum of e_i m_i        C = (1 + N)^M R^N mod N^2 ?

At the end the lead tells one root R, which is the product of all r_i^(e_i). The coefficients e_i have 128 bits. They
follow from a hash of all that Charlie told until then, c_i and m_i included. So the lead knows e_i only after it has
answered m_i. If an m_i is wrong, at most one e_i of 2^128 satisfies the equation.

The proof comes late, and that is enough. Until then, wrong totals may have chosen the points at which parties
contribute. Privacy holds at any points, and no result leaves a run before the proof.

*What R shows.* With short obfuscators, r_i is h^s mod N, where h is public and s is the sum of K parties' random
exponents. If two parties are honest, replace their factors h^a and h^b by uniform powers of h: that is the assumption
on which short obfuscators rest. Then the product h^(a + b) tells nothing of h^a, and a contribution is an encryption
with an obfuscator of its own. R tells nothing of N's factors either. Anybody can draw a power of h, and an N-th root
is unique, so no two roots of one number can be compared, as for square roots. The lead folds no other ciphertexts than
totals which opened as sums of all. So nobody gets the root of a number of his choice.
"""

from collections.abc import Sequence
from typing import Any

from gmpy2 import mpz, powmod

from masquerade_core.crypto.masks import Words, mask_stream, tagged_hash
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import PublicKey
from masquerade_core.crypto.powers import product_of_powers
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.wire.codec import numbers
from masquerade_protocols.blocks.layouts import Layout

__all__ = ["Openings", "as_packing", "check_check", "check_words", "unpacked"]

_BYTES = 16  # of a coefficient
_PENDING = 1024  # ciphertexts that wait to be folded together: each then costs less, and half a megabyte is kept


class Openings:
    """All openings of a run, folded into one.

    Parameters
    ----------
    key : PublicKey
    modulus : int
        N^2 for the verifier of the proof; N for the lead, who needs the folded ciphertext modulo N alone.
    """

    def __init__(self, key: PublicKey, modulus: Any) -> None:
        self._key, self._modulus = key, modulus
        self._pending: list[tuple[Any, int]] = []
        self._ciphertext, self._plain = mpz(1), mpz(0)
        self.count = 0

    def add(self, seed: bytes, ciphertexts: Sequence[Any], plaintexts: Sequence[int]) -> None:
        """Add the openings of one round; ``seed`` is a hash of all that was told, up to these openings."""
        raw = mask_stream(tagged_hash("coefficients", seed), _BYTES * len(ciphertexts))
        for i, (ciphertext, plain) in enumerate(zip(ciphertexts, plaintexts, strict=True)):
            coefficient = int.from_bytes(raw[_BYTES * i : _BYTES * (i + 1)], "big")
            self._pending.append((ciphertext % self._modulus, coefficient))
            self._plain += coefficient * plain
        self.count += len(ciphertexts)
        if len(self._pending) >= _PENDING:
            self._fold()

    def _fold(self) -> None:
        if self._pending:
            bases, exponents = zip(*self._pending, strict=True)
            product = product_of_powers(bases, exponents, 8 * _BYTES, self._modulus)
            self._ciphertext = self._ciphertext * product % self._modulus
            self._pending.clear()

    def ciphertext(self) -> Any:
        """Return the folded ciphertext modulo the modulus."""
        self._fold()
        return self._ciphertext

    def proved_by(self, root: bytes) -> bool:
        """Say whether R proves all openings."""
        n, n2 = self._key.mod_n, self._key.mod_n2
        opened = (1 + n * (self._plain % n)) * powmod(mpz.from_bytes(root, "big"), n, n2) % n2
        return bool(self.ciphertext() == opened)


# --- What parties and Charlie compute alike ------------------------------------------


def unpacked(layout: Packing, sums: bytes, key: PublicKey, parties: int, peer: str) -> tuple[int, ...]:
    """Read the vector from an opened sum's bytes.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``, who sent another number of bytes.
    RunFailed
        The numbers are no sum of one contribution of each party.
    """
    values = numbers(sums, (key.bits + 7) // 8, layout.count, peer)
    return layout.unpack(values, key.n, contributors=parties)


def check_words(layout: Packing) -> Words:
    """Return the layout of the same vector in words: its check value has a prime that exceeds every coordinate."""
    return Words(layout.length, layout.bound)


def check_check(words: Words, check: bytes, peer: str) -> None:
    """Refuse a check value of another length.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``.
    """
    if len(check) != words.check_bytes:
        msg = f"{peer} sent {len(check)} bytes of a check value; allowed are {words.check_bytes}"
        raise ProtocolViolation(msg, peer=peer)


def as_packing(layout: Layout) -> Packing:
    """Return the layout of a sum by Paillier; another one is a bug of the protocol."""
    if not isinstance(layout, Packing):
        raise LocalProtocolError("a sum by Paillier was to be made of words; its vectors lie in plaintexts")
    return layout

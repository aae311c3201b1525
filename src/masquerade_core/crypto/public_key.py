"""The public half of Paillier: a key, and ciphertexts to compute with, none of which can be sent."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import gmpy2
from gmpy2 import mpz

from masquerade_core.crypto.powers import FixedBase, powmods
from masquerade_core.crypto.primes import small_primes
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng

__all__ = ["Ciphertext", "PublicKey"]

_CHALLENGES = 8


class PublicKey:
    """A Paillier public key N.

    Parameters
    ----------
    n : int
        The modulus.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.bits = n.bit_length()
        self.ciphertext_bytes = (2 * self.bits + 7) // 8
        self.mod_n = mpz(n)
        self.mod_n2 = self.mod_n * self.mod_n

    def __eq__(self, other: object) -> bool:
        """Keys are equal when their moduli are."""
        return isinstance(other, PublicKey) and other.n == self.n

    def __hash__(self) -> int:
        """Hash the modulus."""
        return hash(self.n)

    def to_bytes(self) -> bytes:
        """Return N, big-endian, ``bits`` / 8 bytes."""
        return self.n.to_bytes((self.bits + 7) // 8, "big")

    @classmethod
    def received(cls, raw: bytes, bits: int, peer: str) -> "PublicKey":
        """Take a key from a peer, after the checks that cost nothing: size, small factors, primality, powers.

        These checks catch accidents. They do not catch a malicious key holder; :meth:`has_form` catches one whose
        ciphertexts would have two plaintexts.

        Raises
        ------
        ProtocolViolation
            ``peer``'s fault.
        """
        n = int.from_bytes(raw, "big")
        sound = (
            n.bit_length() == bits
            and n % 2 == 1
            and gmpy2.gcd(n, small_primes()) == 1
            and not gmpy2.is_strong_prp(n, 2)  # as every prime is, and no product of two random ones
            and not gmpy2.is_power(n)
        )
        if not sound:
            msg = f"{peer} sent a Paillier key that is not of {bits} bits, or is not the product of two large primes"
            raise ProtocolViolation(msg, peer=peer)
        return cls(n)

    @classmethod
    def proved(cls, raw: bytes, roots: bytes, bits: int, peer: str) -> "PublicKey":
        """Take a key from the peer that holds its secret half, after all checks. Roles call this for every key.

        With an N that shares a factor with the number of its units, the key holder can send ciphertexts that no honest
        one makes, and read of what they become what neither obfuscators nor blinds change.

        Raises
        ------
        ProtocolViolation
            ``peer``'s fault.
        """
        key = cls.received(raw, bits, peer)
        if not key.has_form(roots):
            msg = (
                f"{peer} sent a Paillier key that is not proved to give every ciphertext one plaintext alone; allowed "
                "are the N-th roots that prove it"
            )
            raise ProtocolViolation(msg, peer=peer)
        return key

    def challenges(self) -> tuple[Any, ...]:
        """Return numbers modulo N that follow from N alone, for the proof of the key's form."""
        length = len(self.to_bytes()) + 16
        raw = hashlib.shake_256(b"masquerade N-th roots\0" + self.to_bytes()).digest(_CHALLENGES * length)
        return tuple(mpz.from_bytes(raw[i : i + length], "big") % self.mod_n for i in range(0, len(raw), length))

    def has_form(self, roots: bytes) -> bool:
        """Say whether these are N-th roots of all :meth:`challenges`: then a ciphertext has one plaintext alone.

        A ciphertext could have two if a prime l divided both N and the number of units modulo N; a square factor l^2 of
        N is the case that matters. Then at most one of l numbers has an N-th root. No prime below 2^16 divides N
        (:meth:`received`), so all eight challenges have roots with a chance of 2^-128 at most.

        References
        ----------
        Gennaro, Micciancio and Rabin, "An efficient non-interactive statistical zero-knowledge proof system for
        quasi-safe prime products", CCS 1998.
        """
        width, challenges = len(self.to_bytes()), self.challenges()
        if len(roots) != width * len(challenges):
            return False
        given = [mpz.from_bytes(roots[i : i + width], "big") for i in range(0, len(roots), width)]
        return all(gmpy2.powmod(r, self.mod_n, self.mod_n) == c for r, c in zip(given, challenges, strict=True))

    def read(self, value: int, peer: str) -> "Ciphertext":
        """Take a ciphertext from a peer: a value in Z*_{N^2}.

        Raises
        ------
        ProtocolViolation
            ``peer``'s fault: the value lies outside Z*_{N^2}.
        """
        if not 0 < value < self.mod_n2 or gmpy2.gcd(value, self.mod_n) != 1:
            msg = (
                f"{peer} sent a number that is not a ciphertext; allowed are 1 to N^2 - 1, with no factor in common "
                "with the key N"
            )
            raise ProtocolViolation(msg, peer=peer)
        return Ciphertext(self, mpz(value))

    def full_obfuscators(self, rng: Rng, count: int) -> tuple[int, ...]:
        """Draw ``count`` values r^N mod N^2, r uniform in Z*_N: one full exponentiation each."""
        roots = [mpz(_unit(rng, self.n)) for _ in range(count)]
        return tuple(int(v) for v in powmods(roots, self.mod_n, self.mod_n2))

    def short_obfuscators(self, rng: Rng, count: int) -> tuple[int, ...]:
        """Draw ``count`` values h_s^s, s uniform with half of N's bits: for fresh encryptions of own data only."""
        half = self.bits // 2
        return tuple(int(self._short_base.power(rng.bits(half))) for _ in range(count))

    @cached_property
    def _short_base(self) -> FixedBase:
        return FixedBase(self.short_generator, self.mod_n2, self.bits // 2)

    @cached_property
    def short_generator(self) -> Any:
        """h_s = h^N mod N^2. It is public: everybody derives it from N alone."""
        # x comes from a hash of N, so nobody can have chosen it. h = -x^2 has Jacobi symbol +1, and full order among
        # the values of that symbol.
        seed = hashlib.shake_256(b"masquerade DJN base\0" + self.to_bytes()).digest(self.bits // 8 + 16)
        x = mpz(int.from_bytes(seed, "big")) % self.mod_n
        return gmpy2.powmod(self.mod_n - x * x % self.mod_n, self.mod_n, self.mod_n2)

    def __repr__(self) -> str:
        """Say the size. The modulus is not secret, but it is long."""
        return f"<PublicKey: {self.bits} bits>"


def _unit(rng: Rng, n: int) -> int:
    while gmpy2.gcd(value := rng.below(n), n) != 1:
        pass
    return value


class Ciphertext:
    """A value to compute with: E(a) + E(b), E(a) + plain, E(a) * scalar.

    It cannot be sent. A :class:`~masquerade_core.crypto.pools.FullPool` makes a value of it that can.
    """

    __slots__ = ("_value", "key")

    def __init__(self, key: PublicKey, value: Any) -> None:
        self.key = key
        self._value = value

    def __add__(self, other: "Ciphertext | int") -> "Ciphertext":
        """E(a) + E(b) = E(a + b mod N), or E(a) + b with a plain integer b."""
        key = self.key
        if isinstance(other, Ciphertext):
            if other.key != key:
                msg = "ciphertexts under different keys cannot be added"
                raise LocalProtocolError(msg)
            factor = other._value
        else:
            factor = 1 + key.mod_n * (other % key.mod_n)
        return Ciphertext(key, self._value * factor % key.mod_n2)

    def __mul__(self, scalar: int) -> "Ciphertext":
        """E(a) * s = E(s a mod N) for s > 0.

        Raises
        ------
        LocalProtocolError
            For s <= 0. A negative exponent takes 500 times longer than a small positive one, and so betrays its sign.
        """
        if scalar <= 0:
            msg = "an exponent must be positive: add an offset to it, so that its length tells nothing"
            raise LocalProtocolError(msg)
        return Ciphertext(self.key, gmpy2.powmod(self._value, scalar, self.key.mod_n2))

    def powers(self, scalars: Sequence[int]) -> tuple["Ciphertext", ...]:
        """Return E(a) * s for each s, computed on all cores."""
        if not scalars or any(s <= 0 for s in scalars):
            return tuple(self * s for s in scalars)
        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(scalars))) as pool:
            done = pool.map(lambda s: gmpy2.powmod_exp_list(self._value, [s], self.key.mod_n2), scalars)
            return tuple(Ciphertext(self.key, value) for (value,) in done)

    def to_int(self) -> int:
        """Return the residue mod N^2. This process may keep it (as a result of ``once``) and never sends it."""
        return int(self._value)

    def __repr__(self) -> str:
        """Name the key and nothing of the value."""
        return f"<{type(self).__name__} under {self.key!r}>"

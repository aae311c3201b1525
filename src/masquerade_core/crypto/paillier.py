"""Paillier's cryptosystem, with types that say what may be done with a ciphertext.

A process computes with :class:`Ciphertext` values. None of them can be sent. Only a :class:`Fresh` value leaves a
process, for one recipient and in one send. Only a pool makes Fresh values. Each of them uses up one *obfuscator*, an
encryption of 0 that the pool never gives out again:

* :class:`FullPool` holds values r^N mod N^2 with r uniform in Z*_N. It can encrypt. It can also rerandomize a
  ciphertext that was *derived* from somebody else's: then even the key holder sees nothing of how it was derived.
* :class:`ShortPool` holds the values h_s^s of Damgard, Jurik and Nielsen, which are thirteen times cheaper. They lie in
  the subgroup of Jacobi symbol +1, and they hide only from somebody who cannot factor N. The key holder can. So this
  pool only encrypts a process's own data, and has no ``rerandomize``.

A ciphertext times an obfuscator holds the same plaintext and looks like another ciphertext. Obfuscators are drawn ahead
of need. The holder of a :class:`SecretKey` decrypts, and draws obfuscators at a fraction of the price.
:mod:`~masquerade_core.crypto.powers` has the exponentiation.

References
----------
Paillier, EUROCRYPT 1999. Damgard, Jurik, Nielsen, International Journal of Information Security 9 (2010), section 4.2
(p = q = 3 mod 4, h = -x^2).
"""

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import gmpy2
import phe
from gmpy2 import mpz

from masquerade_core.crypto.boxes import Secret
from masquerade_core.crypto.powers import FixedBase, powmods
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng

__all__ = [
    "Ciphertext",
    "Fresh",
    "FullPool",
    "PublicKey",
    "SecretKey",
    "ShortPool",
    "draw_primes",
    "no_ciphertext",
    "small_primes",
]


# --- Primes ----------------------------------------------------------------------


@cache
def small_primes() -> int:
    """Return the product of all odd primes below 2^16."""
    return int(gmpy2.primorial((1 << 16) - 1)) // 2


def draw_primes(rng: Rng, bits: int) -> tuple[int, int]:
    """Draw p and q, both 3 mod 4, with gcd(p-1, q-1) = 2 and a modulus of exactly ``bits`` bits.

    The top two bits of both are set, so that the length of the product is certain. The key generation of the ``phe``
    library promises none of this.
    """
    half = bits // 2

    def prime() -> int:
        while True:
            candidate = rng.bits(half) | (3 << (half - 2)) | 3
            if gmpy2.is_prime(candidate, 40):  # it divides by small primes first
                return candidate

    p = prime()
    while (q := prime()) == p or gmpy2.gcd(p - 1, q - 1) != 2:  # noqa: PLR2004
        pass
    return p, q


# --- Public key ------------------------------------------------------------------

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
                f"{peer} sent a Paillier key that is not proved to give every ciphertext exactly one plaintext; the "
                "N-th roots that prove it must come with it"
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
            raise no_ciphertext(peer)
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


def no_ciphertext(peer: str) -> ProtocolViolation:
    """Return the error for a number that a peer sent as a ciphertext, though it lies outside Z*_{N^2}."""
    msg = (
        f"{peer} sent a number that is not a ciphertext; it must be from 1 to N^2 - 1, and have no factor in common "
        "with the key N"
    )
    return ProtocolViolation(msg, peer=peer)


def _unit(rng: Rng, n: int) -> int:
    while gmpy2.gcd(value := rng.below(n), n) != 1:
        pass
    return value


class Ciphertext:
    """A value to compute with: E(a) + E(b), E(a) + plain, E(a) * scalar.

    It cannot be sent. A :class:`~masquerade_core.crypto.paillier.FullPool` makes a value of it that can.
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


# --- Secret key ------------------------------------------------------------------


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


# --- Pools -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fresh:
    """A ciphertext that may leave this process, in one send to one recipient.

    This process rerandomized it after its last homomorphic step.
    """

    key: PublicKey
    recipient: str
    _use: Callable[[], int]

    def use(self) -> int:
        """Hand over the residue, once.

        Raises
        ------
        LocalProtocolError
            When it was handed over before: anyone who sees one ciphertext in two sends links the two.
        """
        return self._use()

    def __reduce__(self) -> Any:
        """Refuse to be pickled: a Fresh value leaves a process in one send only."""
        msg = "a fresh ciphertext leaves a process in one send only, and is never pickled"
        raise TypeError(msg)

    def __repr__(self) -> str:
        """Name the recipient and nothing of the value."""
        return f"<Fresh for {self.recipient}>"


def _fresh(key: PublicKey, recipient: str, value: Any) -> Fresh:
    once = [int(value)]

    def use() -> int:
        try:
            return once.pop()
        except IndexError:
            msg = f"a ciphertext for {recipient} was to be sent twice; each is made for one send"
            raise LocalProtocolError(msg) from None

    return Fresh(key, recipient, use)


class ShortPool:
    """Obfuscators drawn ahead of need. Each serves once, whichever thread asks first.

    Parameters
    ----------
    key : PublicKey
        The key they belong to.
    obfuscators : sequence of int
        From ``key.short_obfuscators``.
    """

    def __init__(self, key: PublicKey, obfuscators: Sequence[int]) -> None:
        self.key = key
        self._entries = [mpz(value) for value in obfuscators]
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many are left."""
        return len(self._entries)

    def _take(self) -> Any:
        with self._lock:
            if not self._entries:
                msg = "the pool of obfuscators is empty: more ciphertexts were made than obfuscators were drawn"
                raise LocalProtocolError(msg)
            return self._entries.pop()

    def encrypt(self, plain: int, to: str) -> Fresh:
        """Encrypt this process's own ``plain`` (mod N) for a send to ``to``: two multiplications."""
        key = self.key
        return _fresh(key, to, (1 + key.mod_n * (plain % key.mod_n)) * self._take() % key.mod_n2)


class FullPool(ShortPool):
    """Obfuscators r^N with r uniform in Z*_N, which also rerandomize ciphertexts derived from somebody else's.

    Parameters
    ----------
    key : PublicKey
        The key they belong to.
    obfuscators : sequence of int
        From ``key.full_obfuscators`` or, at the key holder, ``secret_key.obfuscators``.
    """

    def rerandomize(self, ciphertext: Ciphertext, to: str) -> Fresh:
        """Rerandomize a ciphertext after its last homomorphic step, for a send to ``to``."""
        if ciphertext.key != self.key:
            msg = "a ciphertext was to be rerandomized with another key's obfuscator"
            raise LocalProtocolError(msg)
        return _fresh(self.key, to, ciphertext.to_int() * self._take() % self.key.mod_n2)

"""Paillier's cryptosystem, with types that say what a ciphertext may be used for.

A process holds :class:`Ciphertext` values to compute with; none of them can be sent. What leaves is a :class:`Fresh`
value: one key, one recipient, one send. Only a pool makes Fresh values, each from one obfuscator that it never gives
out again:

* :class:`FullPool` holds r^N mod N^2 with r uniform in Z*_N. It may rerandomize a ciphertext that was *derived* from
  somebody else's: after it, nothing of the history is left, not even for the key holder.
* :class:`ShortPool` holds Damgard-Jurik-Nielsen obfuscators h_s^s, thirteen times cheaper. They live in the subgroup of
  Jacobi symbol +1 and their hiding rests on factoring, which the key holder can do; so this pool can only encrypt
  one's own data. It has no ``rerandomize``.

Arithmetic runs on GMP through gmpy2, which is at the floor; speed comes from fewer and shorter exponentiations.

References
----------
Paillier, EUROCRYPT 1999. Damgard, Jurik, Nielsen, International Journal of Information Security 9 (2010), section 4.2
(p = q = 3 mod 4, h = -x^2).
"""

import hashlib
import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gmpy2
import phe
from gmpy2 import mpz

from masquerade_core.crypto.boxes import Secret
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng

__all__ = ["Ciphertext", "Fresh", "FullPool", "PublicKey", "SecretKey", "ShortPool", "draw_primes"]

_SMALL_PRIMES = math.prod(p for p in range(3, 1 << 12) if gmpy2.is_prime(p))


def _powmods(bases: Sequence[Any], exponent: Any, modulus: Any) -> list[Any]:
    """base^exponent mod modulus for each base; on all cores, for gmpy2 releases the GIL in its list form."""
    workers = min(os.cpu_count() or 1, len(bases) // 2)
    if workers < 2:  # noqa: PLR2004
        return list(gmpy2.powmod_base_list(list(bases), exponent, modulus))
    step = -(-len(bases) // workers)
    parts = [list(bases[i : i + step]) for i in range(0, len(bases), step)]
    with ThreadPoolExecutor(len(parts)) as pool:
        done = pool.map(lambda part: gmpy2.powmod_base_list(part, exponent, modulus), parts)
    return [value for part in done for value in part]


def draw_primes(rng: Rng, bits: int) -> tuple[int, int]:
    """Draw p and q, both 3 mod 4, with gcd(p-1, q-1) = 2 and a modulus of exactly ``bits`` bits.

    The top two bits of both are set, so that the length of the product is certain. phe's own generation promises none
    of this.
    """
    half = bits // 2

    def prime() -> int:
        while True:
            candidate = rng.bits(half) | (3 << (half - 2)) | 3
            if gmpy2.gcd(candidate, _SMALL_PRIMES) == 1 and gmpy2.is_prime(candidate, 40):
                return candidate

    p = prime()
    while (q := prime()) == p or gmpy2.gcd(p - 1, q - 1) != 2:  # noqa: PLR2004
        pass
    return p, q


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

        They keep accidents out, not a malicious key holder: that needs a proof of the key's form.

        Raises
        ------
        ProtocolViolation
            ``peer``'s fault.
        """
        n = int.from_bytes(raw, "big")
        sound = (
            n.bit_length() == bits
            and n % 2 == 1
            and gmpy2.gcd(n, _SMALL_PRIMES) == 1
            and not gmpy2.is_strong_prp(n, 2)  # as every prime is, and no product of two random ones
            and not gmpy2.is_power(n)
        )
        if not sound:
            msg = f"{peer} sent a Paillier key that is not a product of two large primes with {bits} bits"
            raise ProtocolViolation(msg, peer=peer)
        return cls(n)

    def read(self, value: int, peer: str) -> "Ciphertext":
        """Take a ciphertext from a peer: a value in Z*_{N^2}, else the peer's fault (ProtocolViolation)."""
        if not 0 < value < self.mod_n2 or gmpy2.gcd(value, self.mod_n) != 1:
            msg = f"{peer} sent a number that is no ciphertext under this key"
            raise ProtocolViolation(msg, peer=peer)
        return Ciphertext(self, mpz(value))

    def full_obfuscators(self, rng: Rng, count: int) -> tuple[int, ...]:
        """Draw ``count`` values r^N mod N^2, r uniform in Z*_N: one full exponentiation each."""
        roots = [mpz(_unit(rng, self.n)) for _ in range(count)]
        return tuple(int(v) for v in _powmods(roots, self.mod_n, self.mod_n2))

    def short_obfuscators(self, rng: Rng, count: int) -> tuple[int, ...]:
        """Draw ``count`` values h_s^s, s uniform with N/2 bits: for fresh encryptions of one's own data only."""
        half = self.bits // 2
        return tuple(int(self._short_base.power(rng.bits(half))) for _ in range(count))

    @cached_property
    def _short_base(self) -> "_FixedBase":
        return _FixedBase(self.short_generator, self.mod_n2, self.bits // 2)

    @cached_property
    def short_generator(self) -> Any:
        """h_s = h^N mod N^2; public, for everybody derives it from N alone."""
        # x comes from a hash of N, so nobody can have chosen it; h = -x^2 has Jacobi symbol +1 and full order there.
        seed = hashlib.shake_256(b"masquerade DJN base\0" + self.to_bytes()).digest(self.bits // 8 + 16)
        x = mpz(int.from_bytes(seed, "big")) % self.mod_n
        return gmpy2.powmod(self.mod_n - x * x % self.mod_n, self.mod_n, self.mod_n2)

    def __repr__(self) -> str:
        """Say the size; the modulus is long, not secret."""
        return f"<PublicKey: {self.bits} bits>"


def _unit(rng: Rng, n: int) -> int:
    while gmpy2.gcd(value := rng.below(n), n) != 1:
        pass
    return value


class _FixedBase:
    """Powers of one base by Lim and Lee's comb: h rows of a bits, read by columns, in v blocks that share squarings.

    With h = 9 and v = 6, an exponent of 1,024 bits takes 114 multiplications and 19 squarings from a table of 6 x 511
    entries (1.6 MB at 2,048 bits), where a row of window tables would take 128 multiplications and 17 MB; and the table
    pays for itself after a dozen powers.

    References
    ----------
    Lim and Lee, "More flexible exponentiation with precomputation", CRYPTO 1994.
    """

    _ROWS = 9
    _BLOCKS = 6

    def __init__(self, base: Any, modulus: Any, bits: int) -> None:
        h, v = self._ROWS, self._BLOCKS
        self._modulus = modulus
        self._block = -(-bits // (h * v))
        self._columns = self._block * v
        powers = [base]  # base^(2^(a i)), i = 0 .. h-1: row i's unit
        for _ in range(h - 1):
            powers.append(_square(powers[-1], self._columns, modulus))
        self._tables = [self._table(powers, modulus)]
        for _ in range(v - 1):
            powers = [_square(power, self._block, modulus) for power in powers]
            self._tables.append(self._table(powers, modulus))

    @staticmethod
    def _table(powers: Sequence[Any], modulus: Any) -> list[Any]:
        """Products of all subsets; row 0 is an index's highest bit."""
        table = [mpz(1)]
        for power in reversed(powers):
            table += [entry * power % modulus for entry in table]
        return table

    def power(self, exponent: int) -> Any:
        """Return base^exponent for 0 <= exponent < 2^bits."""
        columns, block = self._columns, self._block
        lowest_first = f"{exponent:0{self._ROWS * columns}b}"[::-1]
        digits = [int(lowest_first[c::columns], 2) for c in range(columns)]
        value = mpz(1)
        for k in reversed(range(block)):
            value = value * value % self._modulus
            for j, table in enumerate(self._tables):
                value = value * table[digits[j * block + k]] % self._modulus
        return value


def _square(value: Any, times: int, modulus: Any) -> Any:
    for _ in range(times):
        value = value * value % modulus
    return value


class Ciphertext:
    """A value to compute with: E(a) + E(b), E(a) + plain, E(a) * scalar. It cannot be sent; see :class:`FullPool`."""

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
            For s <= 0: a negative exponent takes 500 times longer than a small positive one, and so betrays its sign.
        """
        if scalar <= 0:
            msg = "an exponent must be positive: offset it, so that its length tells nothing"
            raise LocalProtocolError(msg)
        return Ciphertext(self.key, gmpy2.powmod(self._value, scalar, self.key.mod_n2))

    def powers(self, scalars: Sequence[int]) -> tuple["Ciphertext", ...]:
        """Return E(a) * s for each s: on all cores where there are several."""
        if not scalars or any(s <= 0 for s in scalars):
            return tuple(self * s for s in scalars)
        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(scalars))) as pool:
            done = pool.map(lambda s: gmpy2.powmod_exp_list(self._value, [s], self.key.mod_n2), scalars)
            return tuple(Ciphertext(self.key, value) for (value,) in done)

    def to_int(self) -> int:
        """Return the residue mod N^2, to be kept by this process (a result of ``once``), never sent."""
        return int(self._value)

    def __repr__(self) -> str:
        """Name the key and nothing of the value."""
        return f"<{type(self).__name__} under {self.key!r}>"


@dataclass(frozen=True, eq=False)
class Fresh:
    """A ciphertext that may leave: re-randomised here after its last homomorphic step, for one recipient, once."""

    key: PublicKey
    recipient: str
    _use: Callable[[], int]

    def use(self) -> int:
        """Hand over the residue, once.

        Raises
        ------
        LocalProtocolError
            When it was handed over before: two sends of one ciphertext link them.
        """
        return self._use()

    def __reduce__(self) -> Any:
        """Refuse to be pickled: a Fresh value leaves by one send only."""
        msg = "a fresh ciphertext leaves a process by one send only"
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
            msg = f"a ciphertext for {recipient} was to be sent twice"
            raise LocalProtocolError(msg) from None

    return Fresh(key, recipient, use)


class ShortPool:
    """Obfuscators drawn ahead of need, each used once, by whichever thread comes first.

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
                msg = "the pool of obfuscators is empty: more were asked for than were drawn"
                raise LocalProtocolError(msg)
            return self._entries.pop()

    def encrypt(self, plain: int, to: str) -> Fresh:
        """Encrypt one's own ``plain`` (mod N) for a send to ``to``: two multiplications."""
        key = self.key
        return _fresh(key, to, (1 + key.mod_n * (plain % key.mod_n)) * self._take() % key.mod_n2)


class FullPool(ShortPool):
    """Obfuscators r^N with r uniform in Z*_N: these may also rerandomize what was derived from another's ciphertext.

    Parameters
    ----------
    key : PublicKey
        The key they belong to.
    obfuscators : sequence of int
        From ``key.full_obfuscators`` or, at the key holder, ``secret_key.obfuscators``.
    """

    def rerandomize(self, ciphertext: Ciphertext, to: str) -> Fresh:
        """Re-randomise a ciphertext after its last homomorphic step, for a send to ``to``."""
        if ciphertext.key != self.key:
            msg = "a ciphertext was to be rerandomized with another key's obfuscator"
            raise LocalProtocolError(msg)
        return _fresh(self.key, to, ciphertext.to_int() * self._take() % self.key.mod_n2)


class SecretKey(Secret):
    """The factors of N; decrypts, and obfuscates for its own key, by the Chinese remainder theorem.

    Parameters
    ----------
    p, q : int
        From :func:`draw_primes`.
    """

    __slots__ = ("_p", "_phe", "_q", "_short_bases", "public")

    def __init__(self, p: int, q: int) -> None:
        self.public = PublicKey(p * q)
        self._short_bases: tuple[_FixedBase, _FixedBase] | None = None
        self._p, self._q = mpz(p), mpz(q)
        self._phe = phe.PaillierPrivateKey(phe.PaillierPublicKey(p * q), p, q)

    def decrypt(self, ciphertext: Ciphertext) -> int:
        """Return the plaintext in [0, N)."""
        if ciphertext.key != self.public:
            msg = "a ciphertext under another key was to be decrypted"
            raise LocalProtocolError(msg)
        return int(self._phe.raw_decrypt(ciphertext.to_int()))

    def decrypt_all(self, ciphertexts: Sequence[Ciphertext]) -> tuple[int, ...]:
        """Return the plaintexts: as :meth:`decrypt`, on all cores, for a whole round waits for it."""
        if any(c.key != self.public for c in ciphertexts):
            msg = "a ciphertext under another key was to be decrypted"
            raise LocalProtocolError(msg)
        half = self._phe  # it has sorted its factors
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
        at_p = _powmods([mpz(1 + rng.below(int(p) - 1)) for _ in range(count)], p, p2)
        at_q = _powmods([mpz(1 + rng.below(int(q) - 1)) for _ in range(count)], q, q2)
        return self._joined(at_p, at_q)

    def short_obfuscators(self, rng: Rng, count: int) -> tuple[int, ...]:
        """Draw what the public key's ``short_obfuscators`` would from the same bits, at two thirds of the price."""
        half = self.public.bits // 2
        if self._short_bases is None:
            moduli = self._p * self._p, self._q * self._q
            at_p2, at_q2 = (_FixedBase(self.public.short_generator % m, m, half) for m in moduli)
            self._short_bases = at_p2, at_q2
        exponents = [rng.bits(half) for _ in range(count)]
        at_p, at_q = ([base.power(s) for s in exponents] for base in self._short_bases)
        return self._joined(at_p, at_q)

    def _joined(self, at_p: Sequence[Any], at_q: Sequence[Any]) -> tuple[int, ...]:
        """Return the residues mod N^2 of residues mod p^2 and q^2."""
        p2, q2 = self._p * self._p, self._q * self._q
        p2_inverse = gmpy2.invert(p2, q2)
        return tuple(int(a + p2 * ((b - a) * p2_inverse % q2)) for a, b in zip(at_p, at_q, strict=True))

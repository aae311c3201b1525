"""Masked words and their check value: what one contribution to a masked sum is, as pure functions.

A vector of signed integers is written as *words* of as many whole bytes as the sum needs. Every pair of parties has a
key in common. Both expand it into a stream of words, the *mask*: one of the two adds it, the other subtracts it. So a
single contribution is uniform, and in the sum of all contributions the masks cancel.

Before the coordinates stand *marks*, 64 bits of words that equal 1. In a sum they count the contributions. If masks do
not cancel, the marks are uniform, and everybody sees it. Where words have few bits, marks count modulo the word.

The *check value* is a linear function of the vector, modulo a prime p, under a key that only the parties share. Its
coefficient for coordinate 512 a + b is u_a v_b, with u and v uniform. A constant, also uniform, is added once. For an
adversary without the key, another sum fits the check value with a chance of at most 2/p: what it would have to guess is
a zero of a polynomial of degree 2 in uniform numbers (Schwartz and Zippel).

*Time.* A party makes its contribution between a sum that Charlie told and the moment at which he has the answer. So the
steps that a vector goes through, and the lengths of all numbers on the way, follow from the layout alone
(``test_same_time.py`` measures it). This holds for arrays of 64-bit integers, in words of 64 bits or less.
Longer words are Python's integers, whose arithmetic takes the longer the larger they are.

The stream of a 32-byte key is the ChaCha20 key stream of RFC 8439 from block 1, with a nonce of zeros. Each key serves
for one stream.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from operator import mul
from typing import Any

import numpy as np
from nacl.bindings import crypto_aead_chacha20poly1305_ietf_encrypt
from numpy.typing import NDArray

from masquerade_core.crypto.boxes import Secret
from masquerade_core.errors import LocalProtocolError, SumRefused

__all__ = ["CheckKey", "Vector", "Words", "as_array", "as_integers", "mask_stream", "tagged_hash"]

Vector = Sequence[int] | NDArray[Any]
"""Signed integers to add up. In words of 64 bits or less, a role passes an array of int64."""

_NONCE = bytes(12)
_ROW = 512  # coordinates that share one u_a
_LIMBS = 8  # digits of 16 bits of a number modulo the short prime
_AT_ONCE = 16  # rows in one product of matrices: so few that no library starts threads for them
_MARK_BITS = 64
_MACHINE_BITS = 64  # words of this length or less are numpy's
_PIECE = 65_536  # bytes of a stream that are made at once: longer pieces wait for the memory's pages
_ZEROS = bytes(_PIECE)
_SPARE = 16
_SHORT_PRIME = (1 << 127) - 1
_LONG_PRIMES = (521, 2203, 4253)  # bits: p = 2^521 - 1, and so on


def tagged_hash(tag: str, *parts: bytes, key: bytes = b"", size: int = 32) -> bytes:
    """Return BLAKE2b over a tag and parts, each preceded by its length, so that no two lists of parts are alike."""
    state = hashlib.blake2b(key=key, digest_size=size)
    for part in (tag.encode(), *parts):
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.digest()


def mask_stream(key: bytes, length: int) -> bytes:
    """Return ``length`` bytes of a key's stream. One key serves for one stream."""
    if length <= _PIECE:
        return _chacha(key, length)[:length]
    count = -(-length // _PIECE)
    pieces = (tagged_hash("piece", i.to_bytes(8, "big"), key=key) for i in range(count))
    return b"".join(_chacha(piece, _PIECE)[:_PIECE] for piece in pieces)[:length]


def _chacha(key: bytes, length: int) -> bytes:
    """Encrypt zeros: the ciphertext is the key stream. The tag, ``_SPARE`` bytes, follows."""
    return crypto_aead_chacha20poly1305_ietf_encrypt(_ZEROS[:length], None, _NONCE, key)


@dataclass(frozen=True)
class Words:
    """How a vector lies in words.

    Parameters
    ----------
    length : int
        Coordinates d of the vector.
    bound : int
        Public bound on |coordinate| of the opened sum.
    """

    length: int
    bound: int

    @cached_property
    def width(self) -> int:
        """Bits that a coordinate takes: enough for |v| <= bound, and one for the sign."""
        return self.bound.bit_length() + 1

    @cached_property
    def bits(self) -> int:
        """Bits of a word: whole bytes that hold a coordinate."""
        return -(-self.width // 8) * 8

    @cached_property
    def size(self) -> int:
        """Bytes of a word."""
        return self.bits // 8

    @cached_property
    def marks(self) -> int:
        """How many words before the coordinates equal 1 in a contribution."""
        return -(-_MARK_BITS // self.bits)

    @cached_property
    def words(self) -> int:
        """How many words a contribution has."""
        return self.marks + self.length

    @cached_property
    def count(self) -> int:
        """How many bytes the coordinates take: what a finer grid must not enlarge."""
        return self.length * self.size

    @cached_property
    def total_bytes(self) -> int:
        """How many bytes a contribution's words have."""
        return self.words * self.size

    @cached_property
    def prime(self) -> int:
        """The prime p of the check value: 2^127 - 1, or a longer one for words of more than 64 bits. It exceeds a word.

        The longest serve sums by Paillier alone, whose coordinates may fill a plaintext of 4096 bits.
        """
        if self.bits <= _MACHINE_BITS:
            return _SHORT_PRIME
        return (1 << next(bits for bits in _LONG_PRIMES if self.bits < bits - 1)) - 1

    @cached_property
    def check_bytes(self) -> int:
        """Bytes of a check value."""
        return (self.prime.bit_length() + 7) // 8

    @property
    def fits(self) -> bool:
        """Whether words of this length are allowed: the longest have 512 bits."""
        return self.bits < _LONG_PRIMES[0] - 1

    def most_in(self, room: int) -> int:
        """Return how many coordinates a message with ``room`` bytes for them can carry."""
        return (room - self.check_bytes) // self.size - self.marks

    @cached_property
    def machine(self) -> bool:
        """Whether words are numpy's, of 64 bits or less."""
        return self.bits <= _MACHINE_BITS

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of words in an array: 4 bytes or 8, of which a word may be a part, or Python's integers."""
        if not self.machine:
            return np.dtype(object)
        return np.dtype("<u4" if self.size <= 4 else "<u8")  # noqa: PLR2004 - bytes

    def cut(self, words: NDArray[Any]) -> NDArray[Any]:
        """Reduce numbers modulo the word, in place."""
        if self.size != self.dtype.itemsize or not self.machine:
            words &= (1 << self.bits) - 1
        return words

    def encode(self, vector: Vector) -> NDArray[Any]:
        """Return marks and coordinates as words; a coordinate that is too long for a word is reduced modulo the word.

        So a contribution never fails because of its own numbers, which would show something of them. The check value is
        that of the reduced numbers. Anyone who opens the sum finds a total that is out of bounds or does not fit it.

        Raises
        ------
        LocalProtocolError
            The vector has another length: a bug here.
        """
        if len(vector) != self.length:
            raise LocalProtocolError(
                f"a vector to mask has {len(vector)} coordinates, but its layout has {self.length}"
            )
        words = np.empty(self.words, dtype=self.dtype)
        words[: self.marks] = 1
        words[self.marks :] = self.unsigned(vector)
        return self.cut(words)

    def unsigned(self, vector: Vector) -> NDArray[Any]:
        """Return a vector's numbers modulo a power of 2 that is the word's or a larger one, as uint64 or integers."""
        signed = _in_64_bits(vector) if self.machine else None
        if signed is not None:
            return signed.view(np.uint64)
        modulus = 1 << self.bits
        return np.array([v % modulus for v in as_integers(vector)], dtype=np.uint64 if self.machine else object)

    def read(self, raw: bytes) -> NDArray[Any]:
        """Return words from their bytes, whose number the caller has checked."""
        return self.cut(self._apart(raw + bytes(_SPARE), 0, len(raw) // self.size).copy())

    def _apart(self, raw: bytes, start: int, count: int) -> NDArray[Any]:
        """Return so many words from bytes, of which ``_SPARE`` more follow: each is right modulo the word.

        A word of 5 bytes, say, is read as 8, with the first ones of the next word.
        """
        if self.machine:
            return np.ndarray(count, self.dtype, raw, start, (self.size,))
        return np.array(_integers(raw[start : start + count * self.size], self.size), dtype=object)

    def write(self, words: NDArray[Any]) -> bytes:
        """Return words, each modulo the word, as bytes."""
        if not self.machine:
            return b"".join((int(word) % (1 << self.bits)).to_bytes(self.size, "little") for word in words)
        if self.size == self.dtype.itemsize:
            return words.tobytes()
        part = np.dtype("<u2" if self.size % 2 == 0 else "u1")
        each = words.view(part).reshape(len(words), -1)
        kept = np.empty((len(words), self.size // part.itemsize), part)
        for place in range(kept.shape[1]):  # numpy takes long columns faster than short rows
            kept[:, place] = each[:, place]
        return kept.tobytes()

    def add(self, vectors: Iterable[NDArray[Any]]) -> NDArray[Any]:
        """Add vectors of words, each right modulo the word; the sum is reduced."""
        first, *others = vectors
        total = first.copy()
        for words in others:
            total += words
        return self.cut(total)

    def add_checks(self, checks: Iterable[bytes]) -> bytes:
        """Add check values modulo p."""
        total = sum(int.from_bytes(check, "little") for check in checks) % self.prime
        return total.to_bytes(self.check_bytes, "little")

    def masked(self, words: NDArray[Any], check: int, streams: Iterable[tuple[bool, bytes]]) -> tuple[bytes, bytes]:
        """Add or subtract the masks of all pairs, and return a contribution's bytes and its check value's bytes.

        Parameters
        ----------
        words : ndarray
            From :meth:`encode`.
        check : int
            The check value of the vector itself.
        streams : iterable of (bool, bytes)
            For each other party whether this one adds, and the key of this round's mask.
        """
        masks, at_once = list(streams), (_PIECE - self.check_bytes) // self.size
        written = []
        for start in range(0, self.words, at_once):  # in pieces that stay in the processor's caches
            some = words[start : start + at_once].copy()
            for adds, key in masks:
                own = key if self.words <= at_once else tagged_hash("piece", start.to_bytes(8, "big"), key=key)
                stream = _chacha(own, self.check_bytes + self.size * len(some))
                mask = self._apart(stream, self.check_bytes, len(some))
                of_check = int.from_bytes(stream[: self.check_bytes], "little")
                if adds:
                    some += mask
                    check += of_check
                else:
                    some -= mask
                    check -= of_check
            written.append(self.write(some))
        return b"".join(written), (check % self.prime).to_bytes(self.check_bytes, "little")

    def signed(self, words: NDArray[Any]) -> NDArray[Any]:
        """Return the signed coordinates that words, each right modulo the word, hold: int64, or Python's integers."""
        values = words[self.marks :]
        if self.machine:
            above = _MACHINE_BITS - self.bits
            signed: NDArray[Any] = np.left_shift(values, above, dtype=np.uint64).view(np.int64)
            signed >>= above  # so that the word's highest bit fills those above it
            return signed
        half = 1 << (self.bits - 1)
        return (values + half) % (2 * half) - half

    def decode(self, words: NDArray[Any], contributors: int) -> NDArray[Any]:
        """Return the signed coordinates of a sum of so many contributions: int64, or Python's integers.

        Raises
        ------
        SumRefused
            The marks do not count ``contributors``: masks did not cancel. Or a coordinate is out of bounds.
        """
        if any((int(mark) - contributors) % (1 << self.bits) for mark in words[: self.marks]):
            raise SumRefused(
                "the masked sum is not the sum of everybody's contributions: one is missing, or was made for another "
                "round or another view of the run",
                "start a new run; no participant can be blamed from the sum alone",
            )
        values = self.signed(words)
        if len(values) and (values.max() > self.bound or values.min() < -self.bound):
            raise SumRefused(
                "the opened sum is larger than all parties' contributions together can be",
                "start a new run; the sum alone does not show who changed it",
            )
        return values


def as_array(vector: Vector) -> NDArray[Any]:
    """Return a vector as an array of int64, or of Python's integers where one number does not fit."""
    signed = _in_64_bits(vector)
    return np.array(as_integers(vector), dtype=object) if signed is None else signed


def as_integers(vector: Vector) -> tuple[int, ...]:
    """Return a vector as Python's integers, for arithmetic that 64 bits do not hold."""
    return tuple(vector.tolist() if isinstance(vector, np.ndarray) else vector)


def _in_64_bits(vector: Vector) -> NDArray[np.int64] | None:
    """Return a vector as an array of int64; None where a list has a number that does not fit."""
    try:
        return np.asarray(vector, dtype=np.int64)
    except OverflowError:
        return None


def _integers(raw: bytes, width: int) -> list[int]:
    return [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]


class CheckKey(Secret):
    """The key of one round's check value: u, v and the constant, all uniform modulo p.

    Parameters
    ----------
    layout : Words
    key : bytes
        32 bytes that only the parties know, and that serve for this round alone.
    """

    __slots__ = ("_digits", "_layout", "_matrix", "_raw", "_u", "constant")

    def __init__(self, layout: Words, key: bytes) -> None:
        width, d = layout.check_bytes, layout.length
        rows = -(-d // _ROW)
        raw = mask_stream(key, width * (1 + rows + min(d, _ROW)))
        # Whole bytes have 2^i (p + 1) values, since p + 1 is a power of 2: modulo p, numbers are uniform but for 1/p.
        self.constant, *self._u = _integers(raw[: width * (1 + rows)], width)
        self._layout, self._raw = layout, raw[width * (1 + rows) :]  # those of v
        self._matrix: NDArray[np.float64] | None = None  # made of them where a vector is added up in digits
        self._digits = np.empty(0)  # memory for those of a vector: the system takes long to hand it out anew

    def of(self, vector: Vector) -> int:
        """Return a number that is <r, x> modulo p, where r_(512 a + b) = u_a v_b, of what the words of x hold.

        It is not reduced modulo p: a short result, which a vector of zeros has, would take less time afterwards.
        """
        if not self._layout.machine:
            held = self._layout.signed(self._layout.encode(vector))
            return sum(map(mul, self._u, self._in_integers(held.tolist())))
        lifted = lift = 0
        for place, column in enumerate(self._in_digits(self._layout.unsigned(vector))):
            lifted += sum(map(mul, self._u, column)) << (32 * place)
            lift += column[-1] << (32 * place)
        return lifted - lift * sum(self._u) % self._layout.prime

    def _in_integers(self, numbers: list[int]) -> list[int]:
        """Return the inner sum <x, v> of each row of Python's integers."""
        v = _integers(self._raw, self._layout.check_bytes)
        rows = (numbers[_ROW * a : _ROW * (a + 1)] for a in range(len(self._u)))
        return [sum(starmap(mul, zip(v, row, strict=False))) for row in rows]

    def _in_digits(self, x: NDArray[Any]) -> list[list[int]]:
        """Return the inner sum <x, v> modulo p of each row, and at last that of a row of zeros, in four columns.

        A column has a number for each row, and a number of column i counts 2^(32 i) times. All inner sums are larger
        than they should be, by that of the row of zeros: so every number has 64 bits, whatever the vector, and what
        follows takes the same time.

        A coordinate is cut in digits of 16 bits, once half a word was added: then it is not negative. Its digits are
        multiplied with those of v, as floats. A sum of at most 4 * 512 products of a digit and a number of
        :meth:`_digits_of_v` is less than 2^44: floats hold it exactly, whatever the order of its parts.
        """
        layout, count = self._layout, len(self._u) + 1
        if self._matrix is None:
            self._matrix = self._digits_of_v()
            self._digits = np.empty((min(count, _AT_ONCE), len(self._matrix)))
        half = layout.dtype.type(1 << (layout.bits - 1))
        space = np.empty((len(self._digits), min(layout.length, _ROW)), dtype=layout.dtype)
        sums = np.empty((count, _LIMBS))
        for a in range(0, count, len(space)):
            rows = space[: count - a]
            flat = rows.ravel()
            some = x[a * _ROW :][: len(flat)].astype(layout.dtype, copy=False)
            np.add(some, half, out=flat[: len(some)])
            flat[len(some) :] = half
            layout.cut(flat)
            digits = self._digits[: len(rows)]
            digits[...] = rows.view("<u2")
            np.matmul(digits, self._matrix, out=sums[a : a + len(rows)])
        limbs = sums.astype(np.uint64)
        pairs = limbs[:, ::2] + (limbs[:, 1::2] << np.uint64(16))  # less than 2^61
        columns: list[list[int]] = (pairs + np.uint64(1 << 63)).T.tolist()
        return columns

    def _digits_of_v(self) -> NDArray[np.float64]:
        """Return what each digit of a row adds to each of the 8 digits of its inner sum, modulo p = 2^127 - 1.

        Digit e of a coordinate and digit k of its v count for digit e + k. Beyond the eighth they count twice for digit
        e + k - 8, because 2^128 is 2 modulo p.
        """
        v = np.ascontiguousarray(np.frombuffer(self._raw, dtype="<u2").reshape(-1, _LIMBS).T).astype(np.float64)
        matrix = np.zeros((*v.shape, self._layout.dtype.itemsize // 2))
        for e in range(-(-self._layout.size // 2)):  # those beyond are 0 in every word
            matrix[e:, :, e] = v[: _LIMBS - e]
            matrix[:e, :, e] = 2 * v[_LIMBS - e :]
        return matrix.reshape(_LIMBS, -1).T

    def fits(self, total: Vector, check: bytes) -> bool:
        """Say whether a sum of vectors, to whose check values the constant was added once, has this check value."""
        return (self.of(total) + self.constant - int.from_bytes(check, "little")) % self._layout.prime == 0

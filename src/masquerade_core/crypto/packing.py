"""Pack signed integer vectors into few plaintexts: slots of equal width, derived from public bounds alone.

A plaintext holds ``per_plaintext`` slots of ``width`` bits, the lowest coordinate lowest. The top ``ZERO_BITS`` bits of
every opened sum must be zero. That check notices a missing blind: with one term short, the sum is uniform in Z_N.

Packing is linear: a vector v becomes L(v) = sum_i v_i 2^(width i) mod N, **whatever v is**. So a vector beyond the
bound makes no party stop, and the opened number is L of the sum of all vectors. It follows from that sum alone, which
has everybody's noise in it, and tells no more than the sum does. This matters where a false number of all records makes
slots too narrow for one party's own vector: an error would tell of that vector, under its own noise alone. To reduce
each coordinate by itself would tell of it too, since the carries of the sum would show how many parties did. Bounds are
checked where the sum is opened, in :meth:`Packing.unpack`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import gmpy2
from gmpy2 import mpz

from masquerade_core.errors import LocalProtocolError, SumRefused

__all__ = ["ZERO_BITS", "Packing"]

ZERO_BITS = 64
_MACHINE_BITS = 64


@dataclass(frozen=True)
class Packing:
    """How a vector lies in plaintexts modulo N.

    Parameters
    ----------
    length : int
        Coordinates d of the vector.
    bound : int
        Public bound on |coordinate| of every vector that is ever opened, the final sum included.
    modulus_bits : int
        Length of N.
    """

    length: int
    bound: int
    modulus_bits: int

    @cached_property
    def width(self) -> int:
        """Bits of a slot: enough for |v| <= bound, and one for the sign."""
        return self.bound.bit_length() + 1

    @property
    def machine(self) -> bool:
        """Whether every coordinate of an opened sum fits into 64 bits."""
        return self.width <= _MACHINE_BITS

    @property
    def offset(self) -> int:
        """2^(width-1): a coordinate plus this offset is positive."""
        return 1 << (self.width - 1)

    @property
    def _room(self) -> int:
        """Bits of a plaintext for slots. Above them stay free: a guard bit, ZERO_BITS, and the top bit of N."""
        return self.modulus_bits - 1 - ZERO_BITS - 1

    @property
    def fits(self) -> bool:
        """Whether a plaintext has room for at least one slot."""
        return self.width <= self._room

    @cached_property
    def per_plaintext(self) -> int:
        """Slots in one plaintext."""
        if not self.fits:
            msg = f"a slot of {self.width} bits does not fit into a modulus of {self.modulus_bits} bits"
            raise LocalProtocolError(msg)
        return self._room // self.width

    @property
    def count(self) -> int:
        """How many plaintexts the vector takes."""
        return -(-self.length // self.per_plaintext)

    def most_in(self, room: int) -> int:
        """Return how many coordinates a message with ``room`` bytes can carry: each ciphertext beside its plaintext."""
        return room * 8 // (3 * self.modulus_bits) * self.per_plaintext

    def pack(self, vector: Sequence[int]) -> tuple[int, ...]:
        """Pack signed coordinates as sum_i v_i 2^(width i), which may be negative; the caller reduces it mod N.

        Every vector of this length is packed, by the same steps; one beyond the bound is reduced with the rest.

        Raises
        ------
        LocalProtocolError
            The vector has another length, which follows from public numbers.
        """
        if len(vector) != self.length:
            raise LocalProtocolError(
                f"a vector to pack must have {self.length} coordinates, but this one has another number"
            )
        return tuple(
            _joined(vector[i : i + self.per_plaintext], self.width) for i in range(0, self.length, self.per_plaintext)
        )

    def pack_exponents(self, vector: Sequence[int]) -> tuple[int, ...]:
        """Pack as exponents: an offset makes every slot positive, and the guard bit above the top slot is set.

        So all exponents have one length, whatever the vector's signs and sizes, and the time of a power tells nothing.
        That holds for a vector within the bound. The exponent of any other is a number that the caller reduces mod N.
        """
        return tuple(p + e for p, e in zip(self.pack(vector), self.exponent_offsets(), strict=True))

    def exponent_offsets(self) -> tuple[int, ...]:
        """Return the public number that :meth:`pack_exponents` adds to each plaintext."""
        return tuple(lifted + mark for lifted, mark in zip(self._offsets, self._marks, strict=True))

    @cached_property
    def _marks(self) -> tuple[int, ...]:
        """A one above the slots in use, for each plaintext."""
        sizes = (min(self.per_plaintext, self.length - i) for i in range(0, self.length, self.per_plaintext))
        return tuple(1 << (self.width * size) for size in sizes)

    @cached_property
    def _offsets(self) -> tuple[int, ...]:
        """``offset`` in each slot in use, for each plaintext."""
        return tuple(self.offset * ((mark - 1) // ((1 << self.width) - 1)) for mark in self._marks)

    def mark(self) -> tuple[int, ...]:
        """Return the marks that a contributor adds above the slots, so that :meth:`unpack` can count contributors."""
        return self._marks

    def unpack(self, plaintexts: Sequence[int], modulus: int, contributors: int = 0) -> tuple[int, ...]:
        """Read signed coordinates from opened sums mod N.

        Parameters
        ----------
        plaintexts : sequence of int
        modulus : int
            N.
        contributors : int
            How many contributors have added their :meth:`mark`. The marks stand where zeros stand otherwise, so a sum
            without meaning passes with the same chance.

        Raises
        ------
        SumRefused
            The top bits are not zero: a share is missing or wrong. Nothing can be read from such a sum, not even whose
            share it is.
        """
        vector: list[int] = []
        width, offset = self.width, self.offset
        for plain, mark, lifted in zip(plaintexts, self._marks, self._offsets, strict=True):
            value = (plain + lifted) % modulus - contributors * mark
            if not 0 <= value < mark:
                msg = "the opened sum is not the sum of everybody's shares: one is missing or wrong"
                raise SumRefused(msg, "start a new run; no participant can be blamed from the sum alone")
            # The mark adds one entry. Without it gmpy2 would drop the highest slots where they are zero.
            slots = gmpy2.unpack(mpz(value + mark), width)
            vector += [int(slot) - offset for slot in slots[:-1]]
        return tuple(vector)


def _joined(chunk: Sequence[int], width: int) -> int:
    """Return sum_i v_i 2^(width i)."""
    total = mpz(0)
    for v in reversed(chunk):
        total = (total << width) + v
    return int(total)

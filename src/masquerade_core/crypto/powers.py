"""Modular exponentiation: many bases on all cores, and one base to many exponents.

The arithmetic is that of GMP through gmpy2. OpenSSL's is faster, and ``docs/performance.md`` says why it is not used.
Speed comes from fewer and shorter exponentiations.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gmpy2
from gmpy2 import mpz

__all__ = ["FixedBase", "powmods", "product_of_powers"]


def powmods(bases: Sequence[Any], exponent: Any, modulus: Any) -> list[Any]:
    """Return base^exponent mod modulus for each base.

    It uses all cores, because gmpy2 releases the interpreter's lock in the list form of its power.
    """
    workers = min(os.cpu_count() or 1, len(bases) // 2)
    if workers < 2:  # noqa: PLR2004
        return list(gmpy2.powmod_base_list(list(bases), exponent, modulus))
    step = -(-len(bases) // workers)
    parts = [list(bases[i : i + step]) for i in range(0, len(bases), step)]
    with ThreadPoolExecutor(len(parts)) as pool:
        done = pool.map(lambda part: gmpy2.powmod_base_list(part, exponent, modulus), parts)
    return [value for part in done for value in part]


def product_of_powers(bases: Sequence[Any], exponents: Sequence[int], bits: int, modulus: Any) -> Any:
    """Return the product of all base^exponent mod modulus, for exponents of at most ``bits`` bits.

    This is Pippenger's way: all bases share their squarings, and within a window of bits, bases with the same digit
    share their power. Of a thousand bases, each takes some 25 multiplications for an exponent of 128 bits.
    """
    window = max(1, len(bases).bit_length() - 3)
    total = mpz(1)
    for shift in reversed(range(0, bits, window)):
        total = _square(total, window, modulus)
        by_digit: dict[int, Any] = {}
        for base, exponent in zip(bases, exponents, strict=True):
            digit = (exponent >> shift) & ((1 << window) - 1)
            by_digit[digit] = by_digit[digit] * base % modulus if digit in by_digit else base
        running = part = mpz(1)
        for digit in reversed(range(1, 1 << window)):
            if digit in by_digit:
                running = running * by_digit[digit] % modulus
            part = part * running % modulus
        total = total * part % modulus
    return total


class FixedBase:
    """Powers of one base by Lim and Lee's comb: h rows of a bits, read by columns, in v blocks that share squarings.

    With h = 9 and v = 6, an exponent of 1,024 bits takes 114 multiplications and 19 squarings from a table of 6 x 511
    entries (1.6 MB at 2,048 bits). A row of window tables would take 128 multiplications and 17 MB.

    The table is made when it begins to pay for itself: after as many powers as have together, without one, taken so
    many multiplications as it has entries. Most keys of short runs never need one.

    References
    ----------
    Lim and Lee, "More flexible exponentiation with precomputation", CRYPTO 1994.
    """

    _ROWS = 9
    _BLOCKS = 6

    def __init__(self, base: Any, modulus: Any, bits: int) -> None:
        h, v = self._ROWS, self._BLOCKS
        self._base, self._modulus = base, modulus
        self._block = -(-bits // (h * v))
        self._columns = self._block * v
        self._before = (v << h) // bits  # powers
        self._tables: list[list[Any]] = []

    def _make(self) -> None:
        """Make the tables."""
        modulus = self._modulus
        powers = [self._base]  # base^(2^(a i)), i = 0 .. h-1: row i's unit
        for _ in range(self._ROWS - 1):
            powers.append(_square(powers[-1], self._columns, modulus))
        self._tables.append(self._table(powers, modulus))
        for _ in range(self._BLOCKS - 1):
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
        if self._before:
            self._before -= 1
            return gmpy2.powmod(self._base, exponent, self._modulus)
        if not self._tables:
            self._make()
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

"""The primes of a Paillier key, and the product of small primes that no modulus may share a factor with."""

import math
from functools import cache

import gmpy2

from masquerade_core.rng import Rng

__all__ = ["draw_primes", "small_primes"]


@cache
def small_primes() -> int:
    """Return the product of all odd primes below 2^16."""
    return math.prod(p for p in range(3, 1 << 16) if gmpy2.is_prime(p))


def draw_primes(rng: Rng, bits: int) -> tuple[int, int]:
    """Draw p and q, both 3 mod 4, with gcd(p-1, q-1) = 2 and a modulus of exactly ``bits`` bits.

    The top two bits of both are set, so that the length of the product is certain. The key generation of the ``phe``
    library promises none of this.
    """
    half = bits // 2

    def prime() -> int:
        while True:
            candidate = rng.bits(half) | (3 << (half - 2)) | 3
            if gmpy2.gcd(candidate, small_primes()) == 1 and gmpy2.is_prime(candidate, 40):
                return candidate

    p = prime()
    while (q := prime()) == p or gmpy2.gcd(p - 1, q - 1) != 2:  # noqa: PLR2004
        pass
    return p, q

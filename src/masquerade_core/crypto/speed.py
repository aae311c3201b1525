"""How fast this machine is at the arithmetic that takes most of the time of a run that encrypts."""

import secrets
import time

import gmpy2

__all__ = ["seconds_of_exponentiation"]

_TRIES = 3


def seconds_of_exponentiation(key_bits: int) -> float:
    """Return how many seconds one of Paillier's modular exponentiations takes here: the shortest of three.

    Other programs make one of them slow, but seldom all three.
    """
    n = gmpy2.mpz(secrets.randbits(key_bits) | 1 << (key_bits - 1) | 1)
    base = gmpy2.mpz(secrets.randbits(2 * key_bits)) % (n * n)
    times = []
    for _ in range(_TRIES):
        began = time.perf_counter()
        gmpy2.powmod(base, n, n * n)
        times.append(time.perf_counter() - began)
    return min(times)

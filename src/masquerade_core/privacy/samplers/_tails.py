"""The search that all bounds on the size of noise share: the smallest bound that fails rarely enough."""

from collections.abc import Callable

import gmpy2

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy._search import smallest

__all__ = ["PRECISION", "smallest_bound"]

PRECISION = 256
"""Bits of the arithmetic in which a bound is computed; a bound itself has at most 200 bits."""

_LEAST_LIMIT = 1e-300  # below it, the limit is no float, and a guess is not worth its cost


def smallest_bound(
    enough: Callable[[int, gmpy2.mpfr], bool],
    guess: Callable[[float], float],
    *,
    size: int,
    bits: int,
    otherwise: int = 0,
    least: int = 0,
    most: int = 1 << 200,
) -> int:
    """Return the smallest bound that is enough for one coordinate to exceed it with a chance of at most 2^-bits/size.

    The arithmetic is correctly rounded, so every machine gets the same bound.

    Parameters
    ----------
    enough : callable
        Whether a bound will do, given the largest allowed chance; called in a context of ``PRECISION`` bits.
    guess : callable
        Roughly the bound for this chance, computed in floats: it speeds the search up and does not change its result.
    size : int
        How many coordinates share the chance of 2^-bits.
    bits : int
        -log2 of the chance.
    otherwise : int
        The guess where the chance is too small for a float.
    least, most : int
        Where to look.

    Raises
    ------
    LocalProtocolError
        There is no such bound.
    """
    with gmpy2.context(gmpy2.get_context(), precision=PRECISION):
        limit = gmpy2.mpfr(1) / (size << bits)
        near = int(guess(float(limit))) if limit > _LEAST_LIMIT else otherwise
        bound = smallest(lambda B: enough(B, limit), near, least=least, most=most)
    if bound is None:
        raise LocalProtocolError(f"no bound was found that the noise exceeds with a chance of at most 2^-{bits}")
    return bound

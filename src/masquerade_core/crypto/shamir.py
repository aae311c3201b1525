"""Shamir's shares of a secret of 32 bytes: any t of them give it back, and fewer say nothing of it.

The secret is a number below the prime p = 2^256 + 297. The dealer chooses a polynomial of degree t - 1 with the
secret as its value at 0, and all other coefficients uniform modulo p. Share x is the polynomial's value at x. For every
secret, any t - 1 shares come from equally many polynomials. So these shares are uniform, whatever the secret is.

A prime field is faster here than bytes in GF(2^8). Points are small, so Horner's rule multiplies a long number by a
short one and reduces once. To deal 132 shares with t = 97 takes about 1 ms, and to open about as much.

*Time.* Python's integers take time that depends a little on their values. Points are public: each is a party's place
among the neighbours of another. Secrets and coefficients are uniform, and serve for one round. So what a clock could
tell of one round's numbers is of no use for another's.

*What is not checked.* Shares have no proof. If a dealer, or a holder, changes one, another secret comes out. Its
user must notice by other means. A masked sum does: masks that do not cancel show in its marks.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from operator import mul

import gmpy2

from masquerade_core.crypto.masks import mask_stream
from masquerade_core.errors import LocalProtocolError, ProtocolViolation, SumRefused

__all__ = ["PRIME", "SECRET_BYTES", "SHARE_BYTES", "deal", "join_shares", "read_share"]

PRIME = 2**256 + 297
"""The smallest prime above 2^256."""

SECRET_BYTES = 32
SHARE_BYTES = 33

_DRAW_BYTES = 48  # of a coefficient: 128 bits above those of p, so that it is uniform but for a part of 2^-127
_WEIGHTS = 256  # sets of points whose weights are kept


def deal(secret: bytes, threshold: int, points: int, key: bytes) -> tuple[bytes, ...]:
    """Return the shares at 1, 2, ... ``points``.

    Parameters
    ----------
    secret : bytes
        32 bytes.
    threshold : int
        t, how many shares give the secret back.
    points : int
        How many shares there are; at least t.
    key : bytes
        32 fresh random bytes, from which the coefficients are drawn. It serves for one secret.

    Raises
    ------
    LocalProtocolError
        The secret has another length, or the threshold is not between 1 and ``points``: a bug here.
    """
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= points:
        raise LocalProtocolError(
            f"a secret of {len(secret)} bytes was to be dealt in {points} shares with threshold {threshold}; it must "
            f"have {SECRET_BYTES} bytes, and a threshold from 1 to the number of shares"
        )
    raw = mask_stream(key, _DRAW_BYTES * (threshold - 1))
    drawn = (int.from_bytes(raw[i : i + _DRAW_BYTES], "little") for i in range(0, len(raw), _DRAW_BYTES))
    coefficients = [*(value % PRIME for value in drawn), int.from_bytes(secret, "little")]  # the highest power first
    return tuple(_value(coefficients, x).to_bytes(SHARE_BYTES, "little") for x in range(1, points + 1))


def _value(coefficients: Iterable[int], x: int) -> int:
    """Return the polynomial's value at a small x by Horner's rule."""
    total = 0
    for coefficient in coefficients:
        total = total * x + coefficient
    return total % PRIME


def read_share(raw: bytes, peer: str) -> int:
    """Read a share that came from ``peer``.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: another length, or a number that is not below p.
    """
    value = int.from_bytes(raw, "little")
    if len(raw) != SHARE_BYTES or value >= PRIME:
        raise ProtocolViolation(
            f"{peer} sent a share that is not a number below the field's prime, in {SHARE_BYTES} bytes", peer=peer
        )
    return value


def join_shares(shares: Mapping[int, int], threshold: int) -> bytes:
    """Return the secret that ``threshold`` of these shares give back.

    Parameters
    ----------
    shares : mapping of int to int
        Values by their points. More than the threshold are not needed, and not used.
    threshold : int
        t.

    Raises
    ------
    SumRefused
        There are fewer than t shares, or they are not shares of one secret.
    """
    points = tuple(sorted(shares)[:threshold])
    if len(points) < threshold:
        raise SumRefused(
            f"{len(points)} shares of a secret came, but {threshold} are needed to open it",
            "start a new run; if this happens often, let [dropouts] min_survivors allow for more silent parties",
        )
    value = sum(map(mul, _weights(points), (shares[x] for x in points))) % PRIME
    if value >> 8 * SECRET_BYTES:
        raise SumRefused(
            "shares of one secret do not belong together: who dealt or held one changed it",
            "start a new run; the shares alone do not show who it was",
        )
    return bytes(value.to_bytes(SECRET_BYTES, "little"))


@lru_cache(maxsize=_WEIGHTS)
def _weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """Return Lagrange's weights for the value at 0: the product of x_j / (x_j - x_i) over all j other than i."""
    top = prod(points)
    bottoms = (x * prod(y - x for y in points if y != x) for x in points)
    return tuple(int(top * gmpy2.invert(bottom, PRIME) % PRIME) for bottom in bottoms)

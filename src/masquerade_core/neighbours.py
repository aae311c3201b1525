"""Who shares masks with whom: a graph between parties that a public coin draws.

In a sum under masks, two parties that are *neighbours* add and subtract the same mask. With many parties, a mask for
each pair would cost every party work that grows with their number. So each party has k neighbours, here 64.

The graph is that of Bell et al. (CCS 2020, after Harary). The coin puts all members on a circle, in random order. The
neighbours of a member are the k/2 before it and the k/2 after it. Where there are at most k + 1 members, all are
neighbours. :mod:`masquerade_core.cuts` says why 64 are enough.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

__all__ = [
    "NEIGHBOURS",
    "circle_of",
    "coin_of_set",
    "neighbours_of",
]

NEIGHBOURS = 64
"""With how many others a party shares masks where there are more."""

_KEY_BYTES = 8
_CIRCLES = 4  # that are kept: roles of one process ask for the same


def coin_of_set(coin: bytes, members: Sequence[str]) -> bytes:
    """Return the coin that draws the graph of one set of parties: another set has another graph.

    The participant that names the set must not be able to keep the graph and leave out some honest party's honest
    neighbours.

    Parameters
    ----------
    coin : bytes
        The run's.
    members : sequence of str
        The set, in roster order; names hold no spaces.
    """
    state = hashlib.blake2b(digest_size=32, person=b"masq coin of set")
    state.update(len(coin).to_bytes(8, "big") + coin)
    state.update(" ".join(members).encode())
    return state.digest()


def neighbours_of(coin: bytes, members: Sequence[str], me: str, k: int = NEIGHBOURS) -> tuple[str, ...]:
    """Return with whom ``me`` shares masks, in the order of ``members``.

    The relation is symmetric, and everybody has exactly k neighbours; all others where ``members`` has at most k + 1.

    Parameters
    ----------
    coin : bytes
        Public, and known to nobody before the members are fixed.
    members : sequence of str
        All that take part, each once, in an order that everybody knows.
    me : str
        One of them.
    k : int
        Even.
    """
    n = len(members)
    if n <= k + 1:
        return tuple(name for name in members if name != me)
    order, place = _circle(coin, n)
    here, half = int(place[members.index(me)]), k // 2
    steps = np.r_[here - half : here, here + 1 : here + half + 1]
    return tuple(members[i] for i in np.sort(order[steps % n]).tolist())


def circle_of(coin: bytes, n: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return which of ``n`` members stands at each place of the circle; :func:`neighbours_of` has the coin."""
    return _circle(coin, n)[0]


@lru_cache(maxsize=_CIRCLES)
def _circle(coin: bytes, n: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], ...]:
    """Return who stands at each place of the circle, and where each stands.

    Member i gets the i-th eight bytes of SHAKE-256(coin), and the circle has the members in the order of these; two
    that are equal keep their order. So the order is the same on every machine.
    """
    drawn = hashlib.shake_256(b"masquerade circle\0" + coin).digest(_KEY_BYTES * n)
    order = np.argsort(np.frombuffer(drawn, dtype=">u8"), kind="stable")
    place = np.empty(n, dtype=np.intp)
    place[order] = np.arange(n)
    return order, place

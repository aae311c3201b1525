"""Who shares masks with whom: a graph between parties that a public coin draws.

In a sum under masks, two parties that are *neighbours* add and subtract the same mask. With many parties, a mask for
each pair would cost every party work that grows with their number. So each party has k neighbours, here 64.

The graph is that of Bell et al. (CCS 2020, after Harary). The coin puts all members on a circle, in random order. The
neighbours of a member are the k/2 before it and the k/2 after it. Where there are at most k + 1 members, all are
neighbours.

*What k is for.* Charlie and the parties that side with him, the *corrupt* ones, know every mask that a corrupt party
has a part in. The masks between honest parties hide all but one sum as long as these connect the honest parties with
each other. On the circle, an edge bridges fewer than k/2 corrupt parties in a row. So the honest parties fall apart
exactly where k/2 or more corrupt ones stand in a row at two places. Fewer than k corrupt parties never achieve that.
Of c corrupt ones among n, the expected number of pairs of such places is, with h = n - c honest parties::

    C(h, 2) C(n - 1 - k, h - 1) / C(n - 1, h - 1)

since the gaps between honest parties on the circle are a uniform composition of c. This bounds the chance of a cut
(:func:`chance_of_cut`). The least even k for a chance of 2^-40, and for one of 2^-80:

===========  ===============  ===============  ==============
parties      a tenth corrupt  a third corrupt  half corrupt
===========  ===============  ===============  ==============
1,000        18 and 30        36 and 60        56 and 92
20,000       22 and 34        42 and 68        66 and 106
===========  ===============  ===============  ==============

The coin is a hash. An attacker who chooses its input may try many values and keep the worst graph, which is called
*grinding*. Here 2^40 tries are counted. So a chance of 2^-80 for a fixed graph becomes one of 2^-40
(:func:`delta_of_cut`). The corrupt parties must be corrupt before the coin is known: an attacker who can take over
parties afterwards takes over the neighbours of one.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from math import lgamma, log, log2

import numpy as np

__all__ = [
    "GRINDING_BITS",
    "NEIGHBOURS",
    "chance_of_cut",
    "circle_of",
    "coin_of_set",
    "delta_of_cut",
    "most_corrupt",
    "neighbours_of",
]

NEIGHBOURS = 64
"""With how many others a party shares masks where there are more."""

GRINDING_BITS = 40
"""2^40 coins are what an adversary is assumed to try."""

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


def chance_of_cut(n: int, corrupt: int, k: int = NEIGHBOURS) -> float:
    """Return a bound, as a base-2 logarithm, on the chance that the honest ones of ``n`` members fall apart.

    It is -infinity where they cannot.
    """
    honest = n - corrupt
    if n <= k + 1 or corrupt < k or honest < 2:  # noqa: PLR2004
        return -float("inf")
    return log2(honest * (honest - 1) / 2) + _log2_choose(n - 1 - k, honest - 1) - _log2_choose(n - 1, honest - 1)


def _log2_choose(n: int, k: int) -> float:
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2)


def delta_of_cut(n: int, corrupt: int, k: int = NEIGHBOURS) -> float:
    """Return the chance of a cut if an attacker grinds the coin: at most 1, and 0 where none can be."""
    return float(min(1.0, 2.0 ** (GRINDING_BITS + chance_of_cut(n, corrupt, k))))


def most_corrupt(n: int, delta: float, k: int = NEIGHBOURS) -> int:
    """Return how many of ``n`` members may be corrupt for :func:`delta_of_cut` to be ``delta`` at most."""
    if n <= k + 1:
        return n - 1
    low, high = k - 1, n - 2  # fewer than k cut nothing off; and one honest party alone has nobody to be cut off from
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if delta_of_cut(n, middle, k) <= delta else (low, middle - 1)
    return low

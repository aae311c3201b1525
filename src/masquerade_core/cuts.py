"""How likely it is that corrupt parties cut honest ones off, in the graph of :mod:`masquerade_core.neighbours`.

Charlie and the parties that side with him, the *corrupt* ones, know every mask that a corrupt party has a part in. The
masks between honest parties hide all but one sum as long as these connect the honest parties with each other. On the
circle, an edge bridges fewer than k/2 corrupt parties in a row. So the honest parties fall apart
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

from math import lgamma, log, log2

from masquerade_core.neighbours import NEIGHBOURS

__all__ = ["GRINDING_BITS", "chance_of_cut", "delta_of_cut", "most_corrupt"]

GRINDING_BITS = 40
"""2^40 coins are what an adversary is assumed to try."""


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

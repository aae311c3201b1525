"""How many neighbours hold shares of a party's masks, and how many of these open them.

For a sum under double masks, every party deals shares of its secrets to k *neighbours*. Any t of them open one. Some
parties may side with Charlie, who breaks the rules with them: these are the *corrupt* ones, C of K. Some fall silent:
D of K at most. A *committee* of the first parties on the coin's circle answers for the set that a sum is made of. The
numbers are chosen so that four things hold:

1. *Nobody's two masks are both opened.* 2 t > k + c, where c is the number of a party's corrupt neighbours. Of the
   k - c honest ones, each gives a share of one mask or of the other. So both need 2 t <= (k - c) + 2 c shares.
2. *One set.* The same in the committee: two sets would need 2 t <= k + c answers.
3. *One sum.* Everybody in the set has t neighbours in the set. So at most k - t of them are out. Honest members of the
   set fall apart only if at two places of the circle k/2 in a row are corrupt or out, which takes t - k/2 corrupt ones
   among them at either place. In practice this decides: where 3 is met, 1 and 2 are.
4. *The run goes on.* At most k - t of anybody's neighbours, and of the committee, fall silent.

The coin draws the circle, so the numbers of corrupt and silent neighbours are hypergeometric. 1 to 3 may fail with a
chance of 2^-40 for an attacker who tries 2^40 coins (:data:`~masquerade_core.cuts.GRINDING_BITS`), and 4 with
2^-20. Where k would be K - 1 or more, all are neighbours, and all are the committee. Then no chance is left. It needs
min_survivors of (K + C)/2 + 1 or more, rounded up.

These are k and t, where a tenth of the parties may fall silent:

===========  ===============  ===============  ===============
parties      a tenth corrupt  a fifth corrupt  a third corrupt
===========  ===============  ===============  ===============
200          76, 57           102, 82          134, 114
1,000        132, 97          196, 152         308, 250
20,000       172, 125         264, 202         462, 370
===========  ===============  ===============  ===============
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from masquerade_core.cuts import GRINDING_BITS

__all__ = ["Thresholds", "tail_bits", "thresholds"]

_PRIVACY_BITS = 40 + GRINDING_BITS
_FAILURE_BITS = 20
_FEWEST = 4  # neighbours on a circle
_NOTHING = 1e-18  # a part of a sum that floats do not see


@dataclass(frozen=True)
class Thresholds:
    """The numbers of one run.

    Parameters
    ----------
    neighbours : int
        k.
    threshold : int
        t: shares that open a secret, and members of a set that each of its members must have as neighbours.
    committee : int
        How many parties, the first on the circle, answer for a set.
    quorum : int
        How many of these answers everybody asks for.
    """

    neighbours: int
    threshold: int
    committee: int
    quorum: int


def tail_bits(population: int, marked: int, drawn: int, least: int) -> float:
    """Return log2 of the chance that ``least`` or more of ``drawn`` members are marked, drawn without replacement.

    Parameters
    ----------
    population : int
        All members.
    marked : int
        How many of them are marked.
    drawn, least : int
        Where ``least`` is 0 or less, the chance is 1.

    Returns
    -------
    float
        -infinity where it cannot be.
    """
    first, last = max(least, 0, drawn - (population - marked)), min(drawn, marked)
    if first > last:
        return -math.inf
    log = _log_comb(marked, first) + _log_comb(population - marked, drawn - first) - _log_comb(population, drawn)
    total = term = 1.0
    for i in range(first, last):
        term *= (marked - i) * (drawn - i) / ((i + 1) * (population - marked - drawn + i + 1))
        total += term
        if term < _NOTHING * total and i * population > drawn * marked:  # beyond the mean, terms only fall
            break
    return min(0.0, (log + math.log(total)) / math.log(2))


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@lru_cache(maxsize=64)
def thresholds(
    K: int,
    corrupt: int,
    silent: int,
    privacy_bits: int = _PRIVACY_BITS,
    failure_bits: int = _FAILURE_BITS,
) -> Thresholds | None:
    """Return the least k with its t for which the four conditions of this module hold.

    Parameters
    ----------
    K : int
        Parties.
    corrupt, silent : int
        How many parties side with Charlie, and how many may fall silent.
    privacy_bits, failure_bits : int
        The chance that one coin breaks 1, 2 or 3, and that 4 fails, as powers of 2^-1.

    Returns
    -------
    Thresholds or None
        None where no numbers do: too many parties may be corrupt or silent.
    """
    shared, c = math.log2(K + 1), 0  # everybody's neighbours, and the committee
    for k in range(_FEWEST, K - 1, 2):
        while shared + 1 + tail_bits(K - 1, corrupt, k, c + 1) > -privacy_bits:  # half of the chance for 1 and 2
            c += 1
        t = (k + c) // 2 + 1
        while t <= k and _chance_of_parts(K, corrupt, k, t) > -privacy_bits - 1:  # the other half for 3
            t += 1
        if t <= k and shared + tail_bits(K - 1, silent, k, k - t + 1) <= -failure_bits:
            return Thresholds(k, t, k, t)
    t, quorum, left = (K - 1 + corrupt) // 2 + 1, (K + corrupt) // 2 + 1, K - silent
    return Thresholds(K - 1, t, K, quorum) if t < left and quorum <= left else None


def _chance_of_parts(K: int, corrupt: int, k: int, t: int) -> float:
    """Return log2 of a bound on the chance that the honest members of a set fall apart.

    There are fewer than K^2/2 pairs of places. Two that are disjoint have numbers of corrupt parties that are
    negatively associated, so the chance for both is at most the product.
    """
    return 2 * (math.log2(K) + tail_bits(K, corrupt, k // 2, t - k // 2)) - 1

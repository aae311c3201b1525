"""summary: noisy histograms of all columns in one secure sum, under noise that a proof sizes.

This program's own protocol, made of known parts. Noisy histograms are the oldest example of differential privacy
(Dwork, McSherry, Nissim and Smith 2006). The parties draw the noise in shares (Kairouz, Liu and Steinke 2021).
``docs/privacy/summary.md`` has the proof.

A run learns no classifier. It tells a coordinator what a study of the same columns should say: bounds that fit, levels
that occur, and how many values are missing. The study of a ``summary`` needs coarse public ranges alone.

In a *secure sum* Charlie adds up what all parties send, and reads nothing but the total. For K parties and H histograms
with B bins in all::

    party P_k                                                           Charlie
      |============ join: everybody's box key of this run, signed ========|
      |~~~ GroupKey: the parties' key for check values ~~~~~~~~~~~~~~~~~~~|   K - 1 boxes
      | 1. sort the records into bins; draw x^k                           |
      |     2. one secure sum: sum_k (c^k + x^k), B numbers               |
      | 3. the statistics, by everybody alike                             |

1. c^k are the counts of party k's records: each record counts once in each histogram, whatever its cells hold. x^k is
   party k's share of the noise: discrete Gaussian. Let h be the number of parties that do not side with Charlie. The
   shares of any h parties are enough noise.
2. One record, replaced, moves the counts by at most sqrt(2 H). Nothing is opened before this sum: the number of all
   records follows from it, with noise.
3. Sizes, rates, quantiles, means, and the columns of a next study follow from the noisy counts alone.

:mod:`masquerade_protocols.blocks.masked_sum` has the messages of a secure sum. With ``[crypto] sum = "paillier"`` they
are those of :mod:`masquerade_protocols.blocks.paillier_sum`.
"""

from collections.abc import Sequence
from math import sqrt

from masquerade_core.crypto.masks import as_array, as_integers
from masquerade_core.data.histograms import Cells
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.statistics import Statistics
from masquerade_core.study import Study
from masquerade_protocols.blocks.noise_shares import price_of, with_cost
from masquerade_protocols.blocks.secure_sum import set_up, set_up_charlie
from masquerade_protocols.summary.public import (
    COUNT_BITS,
    Parameters,
    check,
    grid_of,
    layout,
    noise_of,
    parameters_of,
)

__all__ = ["Parameters", "charlie", "check", "contribution", "noise_of", "party", "statistics"]

_BOUND_TO = b"histograms"  # the masks depend on the run and the round; no opened number leads to this sum


def contribution(data: Cells, noise: Sequence[int]) -> tuple[int, ...]:
    """Return what a party contributes: its counts with its share of the noise, in units of 2^-G records."""
    return tuple((count << COUNT_BITS) + x for count, x in zip(data.counts(), noise, strict=True))


def statistics(study: Study, opened: Sequence[int]) -> Statistics:
    """Return what follows from the opened sum; everybody computes the same."""
    chosen, unit = parameters_of(study), 1 << COUNT_BITS
    sd = sqrt(study.K) * float(noise_of(study).share) / unit
    noisy = tuple(count / unit for count in opened)
    return Statistics(grid_of(study), noisy, sd, chosen.low, chosen.high, chosen.suppress_below)


async def party(seat: Seat, study: Study, data: Cells) -> Statistics:
    """Party P_k, the lead included.

    Raises
    ------
    ProtocolViolation
        Another participant is at fault; the error names it where that can be known.
    RunFailed
        The total was not the sum of one contribution of each party.
    """
    # Before the join: afterwards, the time that drawing takes would tell of the noise.
    noise = noise_of(study)
    slots = layout(study, noise)
    await seat.stage("noise")

    def draw(rng: Rng) -> tuple[int, ...]:
        return contribution(data, discrete_gaussian(rng, noise.share, slots.length))

    noisy_counts = await seat.once("noisy counts", draw)
    spare = [await seat.once(f"noisy counts of retry {r}", draw) for r in range(study.retries)]
    contributions = iter([as_array(drawn) for drawn in (noisy_counts, *spare)])
    await seat.join()
    await seat.stage("keys")
    sums = await set_up(seat, study)
    await sums.precompute([slots])

    await seat.stage("histograms")
    noisy = with_cost(seat, "histograms", price_of(noise), contributions.__next__)
    opened = as_integers(await sums.open_sum(slots, await noisy(), _BOUND_TO, noisy))
    await sums.close()
    return statistics(study, opened)


async def charlie(seat: Seat, study: Study) -> Statistics:
    """Charlie: he sees K ciphertexts and one sum, and computes the statistics as everybody does.

    Raises
    ------
    ProtocolViolation
        A party is at fault; the error names it where that can be known.
    RunFailed
        The total was not the sum of one contribution of each party.
    """
    slots = layout(study, noise_of(study))
    await seat.join()
    await seat.stage("keys")
    sums = await set_up_charlie(seat, study)
    await seat.stage("histograms")
    opened = as_integers(await sums.open_sum(slots, again=True))
    await sums.close()
    return statistics(study, opened)

"""How narrow the intervals of an evaluation would be, before there is one: public numbers alone decide."""

from itertools import pairwise

import numpy as np

from masquerade_core.evaluation import COUNT_UNITS, LOCATE_UNITS, Bins, Counts, evaluate
from masquerade_core.lazy_scipy import ndtr, ndtri

__all__ = ["expected_reach", "records_needed"]

_POSITIVE, _APART = 0.3, 1.5  # of an ordinary case: 30 % positive records, an AUC of .86
_BINS = 20
_WIDE = 1.2  # standard deviation of the scores of both labels together
_MOST = 1 << 30


def expected_reach(records: int, noise_sd: float) -> float:
    """Return how far the wider of the intervals of error and AUC reaches to each side, in an ordinary case.

    Where the AUC would have no interval, it is .5.

    The case has 30 % positive records, and scores that are normal for each label, 1.5 standard deviations apart. A
    bin holds the counts that are expected there, so no luck is in the answer.

    Parameters
    ----------
    records : int
        How many records are held back.
    noise_sd : float
        The standard deviation of the noise on a count.
    """
    edges = _APART / 2 + _WIDE * np.array(ndtri(np.arange(1, _BINS) / _BINS))
    borders = np.concatenate([[-np.inf], edges, [np.inf]])
    positive, negative = (
        share * np.diff(ndtr(borders - mean)) for share, mean in ((_POSITIVE, _APART), (1 - _POSITIVE, 0.0))
    )
    middles = (*((low + high) / 2 for low, high in pairwise([2 * edges[0], *edges, 2 * edges[-1]])),)
    cuts, of_cells = tuple(range(128 - _BINS // 2 + 1, 128 + _BINS // 2)), noise_sd * COUNT_UNITS / LOCATE_UNITS
    bins = Bins(3, cuts, middles, (0.0,) * _BINS, of_cells)
    counts = Counts(records * positive, records * negative, noise_sd**2, records, bins, None)
    found = evaluate(counts)
    return max((e.high - e.low) / 2 for e in (found.auc, found.chosen.error))


def records_needed(noise_sd: float, reach: float) -> int | None:
    """Return about how many records must be held back for intervals that reach no farther; None if a billion will not.

    Parameters
    ----------
    noise_sd : float
        The standard deviation of the noise on a count.
    reach : float
        As :func:`expected_reach` returns it.
    """
    low, high = 1, 2
    while high <= _MOST and expected_reach(high, noise_sd) > reach:
        low, high = high, 2 * high
    if high > _MOST:
        return None
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if expected_reach(middle, noise_sd) > reach else (low, middle)
    return high

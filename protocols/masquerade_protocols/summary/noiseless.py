"""The release of ``summary`` without noise. Whoever computes it sees all records."""

from collections.abc import Mapping

from masquerade_core.data.histograms import Cells
from masquerade_core.statistics import Statistics
from masquerade_core.study import Study
from masquerade_protocols.summary.public import grid_of, parameters_of

__all__ = ["noiseless"]


def noiseless(study: Study, data: Mapping[str, Cells]) -> Statistics:
    """Return the statistics of the exact counts; no count of at least 1 is suppressed.

    Parameters
    ----------
    study : Study
    data : mapping of str to Cells
        Everybody's records, by name.
    """
    chosen = parameters_of(study)
    totals = (float(sum(column)) for column in zip(*(data[name].counts() for name in study.names), strict=True))
    tiny = 2.0**-30
    return Statistics(grid_of(study), tuple(totals), tiny, chosen.low, chosen.high, 1 / tiny)

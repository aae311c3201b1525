"""Estimates from noisy histograms: sizes, rates, quantiles, means, and rare levels.

All of it is computed from counts that are already noisy, so it costs no privacy. Every number comes with the standard
deviation that the noise gives it. Sums are exact or correctly rounded, so every machine computes the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import fsum, sqrt

__all__ = ["Levels", "Numbers", "reconcile", "records"]


def records(parts: Sequence[Sequence[float]], sd: float) -> tuple[float, float]:
    """Return an estimate of N, the number of all records, and its standard deviation.

    Every record is in one bin of each histogram. So each histogram adds up to N, plus the noise of its bins. The mean
    of these totals, weighted by 1/bins, is the estimate with the least variance.

    Parameters
    ----------
    parts : sequence of sequence of float
        The noisy counts of each histogram.
    sd : float
        The standard deviation of the noise on a count.
    """
    weight = fsum(1 / len(part) for part in parts)
    return fsum(fsum(part) / len(part) for part in parts) / weight, sd / sqrt(weight)


def reconcile(parts: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the counts after a correction by which every histogram adds up to the same N.

    Each histogram's surplus is taken off its bins in equal parts. Of all counts with equal totals, these are nearest to
    the noisy ones.
    """
    N, _ = records(parts, 1.0)
    return [[count + (N - fsum(part)) / len(part) for count in part] for part in parts]


@dataclass(frozen=True)
class Numbers:
    """The histogram of a column of numbers.

    Parameters
    ----------
    edges : tuple of float
        m growing edges.
    counts : tuple of float
        m + 2 noisy counts: below the first edge, between each two, above the last, and of missing cells.
    sd : float
        The standard deviation of the noise on a count.
    low, high : float
        Between which quantiles the next study's bounds shall lie.
    threshold : float
        A smaller noisy count says nothing.
    bounded : bool
        Whether the edges are all of a public range; otherwise the first bin and the last have one end each.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    sd: float
    low: float
    high: float
    threshold: float
    bounded: bool = True

    @property
    def missing(self) -> float:
        """The noisy count of missing cells."""
        return self.counts[-1]

    @property
    def present(self) -> float:
        """The noisy count of all numbers."""
        return fsum(self.counts[:-1])

    @property
    def says_nothing(self) -> bool:
        """Whether the noise hides if there is any number at all."""
        return self.present < max(self.threshold, 1.0)

    @cached_property
    def _ranks(self) -> tuple[float, ...]:
        """How many numbers lie in each bin or below, made to grow: between the largest before and the least after."""
        raw = [*accumulate(self.counts[:-2]), self.present]
        up = [min(max(rank, 0.0), self.present) for rank in accumulate(raw, max)]
        down = [min(max(rank, 0.0), self.present) for rank in reversed([*accumulate(reversed(raw), min)])]
        return tuple((a + b) / 2 for a, b in zip(up, down, strict=True))

    def _bin(self, p: float) -> int:
        """Return the number of the bin that holds the p-quantile."""
        return next(k for k, rank in enumerate(self._ranks) if rank >= p * self.present or k == len(self.edges))

    def quantile(self, p: float) -> tuple[float | None, float | None]:
        """Return the edges of the bin that holds the p-quantile; None where the bin has no end on that side."""
        k = self._bin(p)
        return self.edges[k - 1] if k else None, self.edges[k] if k < len(self.edges) else None

    @property
    def mean(self) -> tuple[float, float, float]:
        """The mean, the standard deviation that the noise gives it, and how far the width of the bins can move it.

        A number counts as the middle of its bin. Numbers below the first edge and above the last count as that edge.
        """
        middles = [self.edges[0], *((a + b) / 2 for a, b in pairwise(self.edges)), self.edges[-1]]
        mean = fsum(m * count for m, count in zip(middles, self.counts, strict=False)) / self.present
        spread = sqrt(fsum((m - mean) ** 2 for m in middles))
        half = fsum((b - a) / 2 * max(n, 0.0) for (a, b), n in zip(pairwise(self.edges), self.counts[1:], strict=False))
        return min(max(mean, self.edges[0]), self.edges[-1]), self.sd * spread / self.present, half / self.present

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds for the next study: the edges around the cells that hold the two quantiles.

        An end of the public range stays where the noise on the count beyond the quantile is larger than that count.
        """
        first, last = self.edges[0], self.edges[-1]
        if self.says_nothing:
            return first, last
        inner = range(1, len(self.edges))
        k = min(max(self._bin(self.low), inner[0]), inner[-1])
        j = min(max(self._bin(self.high), inner[0]), inner[-1])
        low = self.edges[k - 1] if self._clear(k + 1, self.low) else first
        high = self.edges[j] if self._clear(len(self.edges) + 1 - j, 1 - self.high) else last
        return low, high

    def _clear(self, bins: int, part: float) -> bool:
        """Whether the noise on a sum of so many bins is at most a part of all numbers."""
        return self.sd * sqrt(bins * (1 - bins / len(self.counts))) <= part * self.present


@dataclass(frozen=True)
class Levels:
    """The histogram of a column of levels.

    Parameters
    ----------
    levels : tuple of str
        The public levels.
    counts : tuple of float
        The noisy counts of the levels, of all other values together, and of missing cells.
    threshold : float
        A level with a smaller noisy count is rare.
    """

    levels: tuple[str, ...]
    counts: tuple[float, ...]
    threshold: float

    @property
    def missing(self) -> float:
        """The noisy count of missing cells."""
        return self.counts[-1]

    @property
    def kept(self) -> dict[str, float]:
        """The levels whose noisy count reaches the threshold, with these counts."""
        counted = zip(self.levels, self.counts, strict=False)
        return {level: count for level, count in counted if count >= self.threshold}

    @property
    def rare(self) -> tuple[str, ...]:
        """The other levels."""
        return tuple(level for level in self.levels if level not in self.kept)

    @property
    def other(self) -> float:
        """The noisy count of the rare levels and of values that are no level, together."""
        return fsum(self.counts[:-1]) - fsum(self.kept.values())

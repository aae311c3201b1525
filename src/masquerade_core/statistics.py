"""Private statistics of the columns: what a run releases that learns no classifier, and its two files.

``statistics.json`` holds everything. ``features.toml`` holds the ``[[feature]]`` blocks of a next study: their bounds
and levels follow from the noisy counts alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from masquerade_core.counts import Levels, Numbers, reconcile, records
from masquerade_core.data.histograms import MISSING, Grid, Histogram
from masquerade_core.errors import LocalProtocolError
from masquerade_core.model import FEATURES, STATISTICS
from masquerade_core.study import Feature, Study
from masquerade_core.study.text import to_toml

__all__ = ["OTHER", "Statistics"]

OTHER = "other"
"""The level of a next study that stands for rare levels and for values that are no level."""

_KIND = "masquerade statistics 1"
_QUARTILES = (0.25, 0.5, 0.75)
_LEAST_LEVELS = 2


@dataclass(frozen=True)
class Statistics:
    """Noisy histograms of all columns, the label's included, and what follows from them.

    Parameters
    ----------
    grid : Grid
        The bins.
    noisy : tuple of float
        The count of each bin, as it was opened.
    sd : float
        The standard deviation of the noise on a count.
    low, high : float
        The quantiles between which the bounds of the next study lie.
    suppress_below : float
        How many of these standard deviations a count must reach, or it is not shown.
    """

    grid: Grid
    noisy: tuple[float, ...]
    sd: float
    low: float
    high: float
    suppress_below: float

    @property
    def threshold(self) -> float:
        """The least noisy count that is shown."""
        return self.suppress_below * self.sd

    @property
    def records(self) -> tuple[float, float]:
        """An estimate of the number of all records, and the standard deviation that the noise gives it."""
        return records(self.grid.split(self.noisy), self.sd)

    @cached_property
    def columns(self) -> dict[str, Numbers | Levels]:
        """The known facts about each column, the label last."""
        parts = reconcile(self.grid.split(self.noisy))
        return {h.name: self._column(h, part) for h, part in zip(self.grid.histograms, parts, strict=True)}

    def _column(self, histogram: Histogram, counts: Sequence[float]) -> Numbers | Levels:
        if histogram.levels:
            return Levels(histogram.levels, tuple(counts), self.threshold)
        return Numbers(histogram.edges, tuple(counts), self.sd, self.low, self.high, self.threshold, histogram.bounded)

    def files(self, study: Study, run: bytes) -> Mapping[str, Mapping[str, Any] | str]:
        """Return the two files that publish the statistics."""
        return {STATISTICS: self.to_json(study, run), FEATURES: self.to_toml(study)}

    # --- statistics.json ---

    def to_json(self, study: Study, run: bytes) -> dict[str, Any]:
        """Return the contents of ``statistics.json``."""
        N, sd = self.records
        *columns, label = (self._shown(name, column) for name, column in self.columns.items())
        return {
            "kind": _KIND,
            "study": study.study.name,
            "protocol": study.study.protocol,
            "run_id": run.hex(),
            "epsilon": study.privacy.epsilon,
            "delta": study.privacy.delta,
            "records": {"estimate": round(N), "sd": _three(sd)},
            "noise_sd": _three(self.sd),
            "threshold": _three(self.threshold),
            "bounds_at": [self.low, self.high],
            "columns": columns,
            "label": label,
            "features": self.to_toml(study),
        }

    def _shown(self, name: str, column: Numbers | Levels) -> dict[str, Any]:
        N = max(self.records[0], 1.0)
        common = {"name": name, "missing": {"rate": _rate(column.missing / N), "sd": _three(self.sd / N)}}
        if isinstance(column, Levels):
            kept = {level: round(count) for level, count in column.kept.items()}
            return common | {"levels": kept, "rare": list(column.rare), "other": self._count(column.other)}
        shown: dict[str, Any] = {
            "edges": list(column.edges),
            "counts": [self._count(count) for count in column.counts[1:-2]],
            "below": self._count(column.counts[0]),
            "above": self._count(column.counts[-2]),
        }
        if column.says_nothing:
            return common | shown | {"quantiles": {}, "mean": None, "bounds": list(column.bounds)}
        mean, sd, width = column.mean
        quantiles = {f"{p:g}": list(column.quantile(p)) for p in (self.low, *_QUARTILES, self.high)}
        return (
            common
            | shown
            | {
                "quantiles": quantiles,
                "mean": {"estimate": mean, "sd": _three(sd), "bins": _three(width)} if column.bounded else None,
                "bounds": list(column.bounds),
            }
        )

    def _count(self, count: float) -> int | None:
        """Return a count as it is shown: None where it may be noise alone."""
        return round(count) if count >= self.threshold else None

    # --- features.toml ---

    def to_toml(self, study: Study) -> str:
        """Return the ``[[feature]]`` blocks for a next study, with comments."""
        N, sd = self.records
        privacy, threshold = study.privacy, _three(self.threshold)
        head = [
            f"# Columns for a next study, from the private statistics of the study {study.study.name!r}.",
            f"# They cost epsilon = {privacy.epsilon:g}, delta = {privacy.delta:g}.",
            f"# There are about {max(round(N), 0):,} records. The noise on this number has a sd of {_three(sd):g}.",
            f"# Bounds are the edges of the cells that hold the noisy {self.low:g} and {self.high:g} quantiles.",
            "# A study refuses values beyond its bounds: every party moves such values to the bound first.",
            f"# Levels with a noisy count below {threshold:g} are rare: every party writes {OTHER!r} in their cells.",
            f"# The label {study.label.name}: {self._label_rates(study)}.",
        ]
        blocks = ["\n".join(self._block(feature)) for feature in study.features]
        return "\n".join([*head, "", "\n\n".join(blocks), ""])

    def _label_rates(self, study: Study) -> str:
        """Return the parts of the records that have each value of the label."""
        label, N = self.columns[study.label.name], max(self.records[0], 1.0)
        if not isinstance(label, Levels):
            raise LocalProtocolError("the label has no levels")
        counts = [*label.kept.items(), ("all others", label.other), ("missing", label.missing)]
        rates = (f"{level} {_rate(count / N):.1%}" for level, count in counts if count >= self.threshold)
        return ", ".join(rates) or "the noise hides all of its values"

    def _block(self, feature: Feature) -> list[str]:
        """Return the lines of one column."""
        column, notes = self.columns[feature.name], []
        if column.missing >= self.threshold:
            rate = _rate(column.missing / max(self.records[0], 1.0))
            remedy = "a study needs a number" if isinstance(column, Numbers) else f"every party writes {MISSING!r}"
            notes.append(f"# {feature.name}: about {rate:.1%} of the records have no value here, where {remedy}.")
        if isinstance(column, Levels):
            return notes + self._block_of_levels(feature, column)
        if column.says_nothing:
            notes.append(f"# {feature.name}: the noise hides whether there is any number. The range is the old one.")
        chosen = feature
        if feature.edges is None:
            low, high = column.bounds
            chosen = feature.model_copy(update={"min": low, "max": high})
        return notes + _lines(chosen)

    def _block_of_levels(self, feature: Feature, column: Levels) -> list[str]:
        kept, notes = list(column.kept), []
        if rare := [level for level in column.rare if level != OTHER]:
            notes.append(f"# {feature.name}: {OTHER!r} stands for {', '.join(rare)} as well.")
        if (rare or column.other >= self.threshold or len(kept) < _LEAST_LEVELS) and OTHER not in kept:
            kept.append(OTHER)
        if column.missing >= self.threshold and kept and MISSING not in kept:
            kept.append(MISSING)
        if len(kept) < _LEAST_LEVELS:
            return [*notes, f"# {feature.name} is left out: the noise hides all of its levels."]
        return notes + _lines(feature.model_copy(update={"levels": tuple(kept)}))


def _lines(feature: Feature) -> list[str]:
    return to_toml({"feature": [feature.model_dump(mode="json", exclude_none=True)]}).rstrip("\n").split("\n")


def _rate(rate: float) -> float:
    return round(min(max(rate, 0.0), 1.0), 4)


def _three(value: float) -> float:
    """Return a standard deviation to three significant digits."""
    return float(f"{value:.3g}")

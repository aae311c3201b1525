"""The tables of a study's file that speak of columns: its features and its label."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from masquerade_core.words import UNSHOWN, counted, listed

__all__ = ["Feature", "Label", "Section"]

_Text = Annotated[str, Field(pattern=rf"\A[^{UNSHOWN}]{{1,128}}\z")]
_Real = Annotated[float, Field(allow_inf_nan=False)]


class Section(BaseModel):
    """A table of the study."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class Label(Section):
    """``[label]``: the column to predict, and which of its two values counts as +1, or the names of its classes."""

    name: _Text
    positive: _Text | None = Field(default=None, description="the label value that counts as +1, in quotes")
    classes: Annotated[tuple[_Text, ...] | None, Field(strict=False)] = None

    @model_validator(mode="after")
    def _two_or_several(self) -> Self:
        if (self.positive is None) == (self.classes is None):
            seen = "neither positive nor classes" if self.classes is None else "both positive and classes"
            raise ValueError(
                f"[label] has {seen}; set positive where the label has two values, or classes to name every class"
            )
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            raise ValueError("[label] has a class twice; classes must differ")
        if self.classes is not None and len(self.classes) < 2:  # noqa: PLR2004
            raise ValueError(f"[label] has {counted(len(self.classes), 'class', 'classes')}; at least two are needed")
        return self


class Feature(Section):
    """``[[feature]]``: a column of numbers with public bounds or bins, or of public levels (categories).

    k edges make k + 1 bins: x < e_1, e_1 <= x < e_2, ..., e_k <= x. Bins may have min and max as well. Then all edges
    lie between these two, and a number outside them is refused, or moved to the nearer of the two.

    ``missing`` is the public value, or the level, that a missing cell becomes; :attr:`filler` has its default.
    """

    name: _Text
    min: _Real | None = None
    max: _Real | None = None
    levels: Annotated[tuple[_Text, ...] | None, Field(strict=False)] = None
    edges: Annotated[tuple[_Real, ...] | None, Field(strict=False)] = None
    missing: _Real | str | None = Field(default=None, description="what a missing cell becomes; public")

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        bounds = (self.min is not None) + (self.max is not None)
        binned = self.edges is not None
        if (bounds > 0 or binned) == (self.levels is not None):
            given = [key for key in ("min", "max", "levels", "edges") if getattr(self, key) is not None]
            raise ValueError(
                f"feature {self.name!r} has {listed(given) if given else 'no range'}; set either min and max, "
                "or levels, or edges (with or without min and max)"
            )
        if bounds == 1:
            raise ValueError(f"feature {self.name!r} has only one of min and max; both are needed")
        for problem in (*self._problems_of_bounds(), *self._problems_of_levels(), *self._problems_of_edges()):
            raise ValueError(f"feature {self.name!r} has {problem}")
        for problem in self._problems_of_missing():
            raise ValueError(f"feature {self.name!r} has {problem}")
        return self

    def _problems_of_bounds(self) -> Iterator[str]:
        if self.min is None or self.max is None:
            return
        if self.min >= self.max:
            yield f"min {self.min} and max {self.max}; min must be smaller"
        if not math.isfinite(self.max - self.min):
            yield "bounds too far apart for floating point"

    def _problems_of_levels(self) -> Iterator[str]:
        if self.levels is None:
            return
        if len(set(self.levels)) != len(self.levels):
            yield "a level twice; levels must differ"
        if len(self.levels) < 2:  # noqa: PLR2004
            yield f"{counted(len(self.levels), 'level')}; at least two are needed"

    def _problems_of_edges(self) -> Iterator[str]:
        if self.edges is None:
            return
        if not self.edges:
            yield "no edges; at least one is needed"
        if any(low >= high for low, high in pairwise(self.edges)):
            yield "edges that do not grow; each must be larger than the one before it"
        if self.min is not None and self.max is not None and not all(self.min < e < self.max for e in self.edges):
            yield f"an edge that does not lie between min {self.min} and max {self.max}"

    def _problems_of_missing(self) -> Iterator[str]:
        if self.missing is None:
            return
        if self.levels is not None:
            if self.missing not in self.levels:
                yield f"missing = {self.missing!r}, but it must be one of the levels: {self.range}"
        elif isinstance(self.missing, str):
            yield f"missing = {self.missing!r}, but it must be a number, since the column holds numbers"
        elif self.min is not None and self.max is not None and not self.min <= self.missing <= self.max:
            yield f"missing = {self.missing!r}, but it must lie between min {self.min} and max {self.max}"

    @property
    def filler(self) -> float | str:
        """The value of a missing cell: ``missing``, or the one that follows from the public ranges.

        For levels that is the level "?" where there is one, else the first level. For numbers it is the middle of the
        bounds, and without bounds the middle between the first edge and the last.
        """
        if self.missing is not None:
            return self.missing
        if self.levels is not None:
            return "?" if "?" in self.levels else self.levels[0]
        ends = (self.min, self.max) if self.edges is None or self.min is not None else (self.edges[0], self.edges[-1])
        low, high = float(ends[0] or 0), float(ends[1] or 0)
        return low / 2 + high / 2

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates that this feature becomes."""
        if self.levels is not None:
            return tuple(f"{self.name}={level}" for level in self.levels)
        if self.edges is None:
            return (self.name,)
        shown = [_number(e) for e in self.edges]
        between = (f"{low}<={self.name}<{high}" for low, high in pairwise(shown))
        return (f"{self.name}<{shown[0]}", *between, f"{self.name}>={shown[-1]}")

    @property
    def range(self) -> str:
        """The values that the column may hold, in words: ``f, m``, ``0 to 120`` or ``0 to 120, in bins at 25, 50``."""
        if self.levels is not None:
            return ", ".join(self.levels)
        bounds = "" if self.min is None or self.max is None else f"{self.min:g} to {self.max:g}"
        bins = "" if self.edges is None else f"in bins at {', '.join(map(_number, self.edges))}"
        return ", ".join(part for part in (bounds, bins) if part)


def _number(x: float) -> str:
    """Return the shortest text that reads back as x, so that two edges never look the same."""
    return repr(x).removesuffix(".0")

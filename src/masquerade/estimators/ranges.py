"""The public bounds and levels of columns; read off the records where nobody gave them, with a loud warning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError

from masquerade.estimators.records import Records, text_of
from masquerade.estimators.warned import InvalidInput
from masquerade.guessing import OTHER
from masquerade_core.study import Feature
from masquerade_core.study.mistakes import explain

__all__ = ["features_of"]

_TRUTHS = ("false", "true")
_PAIR = 2


def features_of(records: Records, bounds: Any, levels: Any) -> tuple[tuple[Feature, ...], tuple[str, ...]]:
    """Return the study's features, and what was read off the records for them, in words.

    Parameters
    ----------
    records : Records
    bounds : pair, mapping or None
        A pair (low, high), each a number or one number for each column of numbers; or a pair for each name.
    levels : mapping or None
        The levels of each column of categories, by its name.

    Raises
    ------
    InvalidInput
        Bounds or levels are not of this form, or name a column that is not there.
    """
    given_levels = {} if levels is None else dict(levels)
    _check_names("levels", given_levels, records)
    numbers = [name for name in records.numbers if name not in given_levels]
    given_bounds = _bounds(bounds, numbers, records)
    features, unbounded, unlevelled = [], [], []
    for name, cells in records.columns.items():
        if name in given_levels:
            features.append(_feature(name, levels=tuple(_level(level, cells) for level in given_levels[name])))
        elif name in records.truths:
            features.append(_feature(name, levels=_TRUTHS))
        elif name in given_bounds:
            low, high = given_bounds[name]
            features.append(_feature(name, min=low, max=high))
        elif isinstance(cells, np.ndarray):
            unbounded.append(name)
            low, high = _extremes(cells)
            features.append(_feature(name, min=low, max=high))
        else:
            unlevelled.append(name)
            found = tuple(sorted(set(cells)))
            features.append(_feature(name, levels=found if len(found) > 1 else (*found, OTHER)))
    return tuple(features), (*_said("bounds", unbounded), *_said("levels", unlevelled))


def _level(level: Any, cells: Any) -> str:
    """Return a level's text as a file would hold it: 1 is "1.0" in a column of floating point."""
    real = isinstance(cells, np.ndarray) and cells.dtype.kind == "f" and isinstance(level, int | np.integer)
    return text_of(float(level) if real else level)


def _said(what: str, names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    shown = ", ".join(map(repr, names[:5]))
    return (f"the {what} of {shown}" + (f" and {len(names) - 5} more columns" if len(names) > 5 else ""),)  # noqa: PLR2004


def _extremes(cells: Any) -> tuple[float, float]:
    low, high = float(cells.min()), float(cells.max())
    if low == high:  # a study needs two bounds that differ
        low, high = low - max(1.0, abs(low)), high + max(1.0, abs(high))
    return low, high


def _bounds(bounds: Any, numbers: Sequence[str], records: Records) -> dict[str, tuple[float, float]]:
    if bounds is None:
        return {}
    if isinstance(bounds, Mapping):
        _check_names("bounds", bounds, records)
        return {str(name): _pair(pair, f"bounds[{name!r}]") for name, pair in bounds.items()}
    if not hasattr(bounds, "__len__") or len(bounds) != _PAIR:
        raise InvalidInput(
            "bounds is neither a pair (low, high) nor a mapping from column names to such pairs; write for example "
            "bounds=(0, 1), bounds=([0, 0], [120, 1]) or bounds={'age': (0, 120)}"
        )
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (len(numbers),)) for end in bounds)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"bounds is a pair, but its ends are not numbers, or not one number for each of {len(numbers)} columns of "
            "numbers; give two numbers, two lists with a number for each column, or a mapping by name"
        ) from None
    return {name: (float(a), float(b)) for name, a, b in zip(numbers, low, high, strict=True)}


def _pair(pair: Any, place: str) -> tuple[float, float]:
    try:
        low, high = pair
        return float(low), float(high)
    except (TypeError, ValueError):
        raise InvalidInput(f"{place} is not a pair of numbers; write (low, high)") from None


def _check_names(what: str, given: Mapping[Any, Any], records: Records) -> None:
    if unknown := [name for name in given if name not in records.columns]:
        known = ", ".join(map(repr, records.columns))
        raise InvalidInput(f"{what} names the column {unknown[0]!r}, but the columns are {known}; correct the name")


def _feature(name: str, **values: Any) -> Feature:
    try:
        return Feature(name=name, **values)
    except ValidationError as error:
        raise InvalidInput(f"the column {name!r} does not fit into a study: {explain(error, Feature)}") from None

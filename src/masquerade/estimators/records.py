"""Records in scikit-learn's forms, as the named columns that a study's encoder reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_X_y

from masquerade.estimators.compat import checked_array, note_columns
from masquerade.estimators.warned import InvalidInput
from masquerade_core.data.files import Column, cell_text
from masquerade_core.data.schema import MISSING_LEVEL
from masquerade_core.study import Feature

__all__ = ["MOST_CELLS", "Records", "read_records", "text_of"]

MOST_CELLS = 50_000_000
"""A sparse matrix is made dense up to so many cells, which take 400 MB: the protocols compute with dense records."""


@dataclass(frozen=True, repr=False)
class Records:
    """Records by column, in the order of the columns.

    Parameters
    ----------
    columns : dict of str to ndarray or list of str
        Numbers, or the text of categories.
    truths : frozenset of str
        The columns of truth values, whose levels everybody knows.
    y : ndarray or None
        Labels; None where records are to be predicted.
    n : int
        How many records there are.
    """

    columns: dict[str, Column]
    truths: frozenset[str]
    y: NDArray[Any] | None
    n: int

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(name for name, cells in self.columns.items() if isinstance(cells, np.ndarray))

    def encodable(self, features: Sequence[Feature]) -> Mapping[str, Column]:
        """Return the columns as an encoder of these features reads them: a number of a category is its level's text."""
        levels = {feature.name: feature.levels for feature in features if feature.levels is not None}
        return {
            name: _levels(cells, levels[name]) if name in levels and isinstance(cells, np.ndarray) else cells
            for name, cells in self.columns.items()
        }


def _levels(cells: NDArray[Any], levels: Sequence[str]) -> list[str]:
    """Return numbers as the levels that are equal to them: 1 and 1.0 are one level, however it is written."""
    known = {number: level for level in levels if (number := _number(level)) is not None}
    return [known.get(float(cell), text_of(cell)) for cell in cells.tolist()]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def text_of(value: Any) -> str:
    """Return the text of a level or a label, as a file of records would hold it; empty where it is missing."""
    return cell_text(value) or ""


def read_records(estimator: Any, X: Any, y: Any = None, *, fitting: bool) -> Records:
    """Read records as ``fit`` and ``predict`` get them: an array, a sparse matrix, a frame or a table of pyarrow.

    Parameters
    ----------
    estimator : estimator
        It gets, or has, ``n_features_in_`` and ``feature_names_in_``.
    X : array-like, sparse matrix or data frame
    y : array-like
        The labels; needed for fitting alone.
    fitting : bool

    Raises
    ------
    ValueError
        They are not of this form, or have missing or infinite numbers.
    """
    if fitting and y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        return _from_frame(estimator, X, y, fitting=fitting)
    rules: dict[str, Any] = {"accept_sparse": True, "dtype": "numeric"}
    if fitting:
        X, y = checked_array(estimator, X, y, reset=True, ensure_min_samples=2, **rules)
    else:
        X = checked_array(estimator, X, reset=False, **rules)
    if hasattr(X, "toarray"):
        X = _dense(X)
    names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
    return Records({str(name): X[:, j] for j, name in enumerate(names)}, frozenset(), y, len(X))


def _dense(X: Any) -> NDArray[Any]:
    n, d = X.shape
    if n * d > MOST_CELLS:
        raise InvalidInput(
            f"the sparse records have {n:,} rows of {d:,} columns, which makes {n * d:,} cells; the protocols compute "
            f"with dense records, and at most {MOST_CELLS:,} cells are made dense: choose fewer columns, or give fewer "
            "rows at a time"
        )
    dense: NDArray[Any] = X.toarray()
    return dense


def _from_frame(estimator: Any, frame: Any, y: Any, *, fitting: bool) -> Records:
    note_columns(estimator, frame, reset=fitting)
    labels = list(getattr(frame, "column_names", frame.columns))  # the columns of a table of pyarrow are no names
    names = [str(label) for label in labels]
    if len(set(names)) < len(names):
        raise InvalidInput("two columns of the frame have the same name; give each column a name of its own")
    columns: dict[str, Column] = {}
    truths: set[str] = set()
    for label, name in zip(labels, names, strict=True):
        cells = np.asarray(frame[label])
        columns[name] = _cells(name, cells)
        if cells.dtype.kind == "b":
            truths.add(name)
    numbers = [cells for cells in columns.values() if isinstance(cells, np.ndarray)]
    n = len(frame)
    # One column of zeros stands for all text, so that scikit-learn's own checks see the numbers and the sizes.
    block = (
        np.column_stack([*numbers, np.zeros((n, int(len(columns) > len(numbers))))]) if columns else np.zeros((n, 0))
    )
    if fitting:
        _, y = check_X_y(block, y, ensure_min_samples=2, estimator=estimator)
    else:
        check_array(block, estimator=estimator)
    return Records(columns, frozenset(truths), y, n)


def _cells(name: str, cells: NDArray[Any]) -> Column:
    """Return a column's numbers as an array, and anything else as text."""
    if cells.dtype.kind in "iuf":
        return cells
    if cells.dtype.kind in "Mmc":
        raise InvalidInput(
            f"the column {name!r} holds dates, times or complex numbers, which are not read; write it as numbers or "
            "text"
        )
    values = cells.tolist()
    if set(map(type, values)) == {str}:  # the same as below, in a tenth of the time
        return [cell or MISSING_LEVEL for cell in values]
    found = [None if _is_missing(cell) else cell for cell in values]
    there = [cell for cell in found if cell is not None]
    if there and all(isinstance(cell, Real | Decimal) and not isinstance(cell, bool) for cell in there):
        return np.array([np.nan if cell is None else float(cell) for cell in found])
    return [text_of(cell) or MISSING_LEVEL for cell in found]


def _is_missing(cell: Any) -> bool:
    return cell is None or cell != cell or type(cell).__name__ == "NAType"  # noqa: PLR0124  NaN, and pandas' NaT

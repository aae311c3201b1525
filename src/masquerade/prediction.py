"""Prediction with a published model, by anyone who has new records and nothing else: the papers call him Dave."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from masquerade.exports.provenance import Provenance
from masquerade.faulty_records import BadRecord, BadRecords, bad_records
from masquerade_core.bounded import json_of, read_text
from masquerade_core.coefficients import LEVEL, Coefficients
from masquerade_core.data.files import Column
from masquerade_core.data.schema import Encoder, lacks_column
from masquerade_core.data.sources import read_cells
from masquerade_core.errors import BadInput
from masquerade_core.lazy_scipy import logsumexp
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.model import scores_of
from masquerade_core.saved_model import SavedModel, model_from_json
from masquerade_core.study import Feature
from masquerade_core.words import listed

__all__ = ["LoadedModel", "OnError", "Prediction", "load_model", "predict"]

OnError = Literal["refuse", "skip"]
"""The treatment of records that cannot be labelled: no record is labelled, or all others are."""

_MOST_BYTES = 64 << 20

_MODEL = "model.json"
_HINT = "name the model.json that a run left in its directory, or an ONNX or skops file that was exported from it"
_CORRECT = "correct these records or leave them out; or label all others"


@dataclass(frozen=True)
class Prediction:
    """Labels for new records.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
        +1 or -1; if the study names classes, positions in ``names``. A record that was skipped has 0; with named
        classes, -1. Where the label is a number, all are 0.
    margins : ndarray, shape (n, C) or (n,)
        w.x for each named class. Without named classes one w.x: the larger, the surer is the positive label. A record
        that was skipped has NaN. Where the label is a number, its estimate in the label's own units.
    model : SavedModel
    bad : tuple of BadRecord
        The records that were skipped, with the reasons.
    ids : sequence or None
        The cells of the column that was asked for, one for each record.
    id_column : str
        The name of that column.
    intervals : ndarray or None
        For each record the limits between which the probability of the positive label lies, shape (n, 2), as the
        released coefficients tell it; where the label is a number, those of the number that is expected. None where
        the model has no coefficients, or some of them cannot be told.
    no_intervals : str
        Why there are none although the model has coefficients, as a clause.
    """

    labels: NDArray[np.intp]
    margins: NDArray[np.float64]
    model: SavedModel
    bad: tuple[BadRecord, ...] = ()
    ids: Sequence[Any] | None = None
    id_column: str = ""
    intervals: NDArray[np.float64] | None = None
    no_intervals: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes as the study names them; else the positive label and "not" it; none where it is a number."""
        label = self.model.label
        if label.number is not None:
            return ()
        return label.classes or (str(label.positive), f"not {label.positive}")

    @property
    def probabilities(self) -> NDArray[np.float64] | None:
        """The probability of the positive label, sigma(w.x), or of the label given, by softmax.

        None for another loss than the logistic one, whose margins are no probabilities.
        """
        if self.model.loss != LOGISTIC.name or self.model.label.number is not None:
            return None
        if self.margins.ndim == 1:
            return 0.5 * (1 + np.tanh(self.margins / 2))
        return np.asarray(np.exp(self.margins.max(axis=1) - logsumexp(self.margins, axis=1)), dtype=np.float64)

    @property
    def class_probabilities(self) -> NDArray[np.float64] | None:
        """The probability of each of ``names``, shape (n, len(names)); None where margins are no probabilities."""
        if (found := self.probabilities) is None:
            return None
        if self.margins.ndim == 1:
            return np.stack([found, 1 - found], axis=1)
        return np.asarray(np.exp(self.margins - logsumexp(self.margins, axis=1)[:, None]), dtype=np.float64)

    @property
    def scores(self) -> tuple[str, NDArray[np.float64]]:
        """A name, ``probability`` or ``margin``, and the numbers that a table shows beside the labels."""
        probabilities = self.probabilities
        if probabilities is not None:
            return "probability", probabilities
        if self.model.label.number is not None:
            return "estimate", self.margins
        return "margin", self.margins if self.margins.ndim == 1 else self.margins.max(axis=1)

    def words(self) -> list[str]:
        """Return each record's label in words, or its estimate; an empty text for a record that was skipped."""
        if self.model.label.number is not None:
            return ["" if np.isnan(value) else f"{value:.6g}" for value in self.margins]
        positions = self.labels if self.model.label.classes is not None else np.where(self.labels > 0, 0, 1)
        words = [self.names[i] for i in positions]
        for record in self.bad:
            words[record.row] = ""
        return words


@dataclass(frozen=True)
class LoadedModel(SavedModel):
    """A published model that labels records.

    Parameters
    ----------
    provenance : Provenance
        Where the model comes from, what is promised of it, and whether it is only a simulation's.
    """

    provenance: Provenance = field(kw_only=True)

    def predict(self, records: object, *, on_error: OnError = "refuse", ids: str | None = None) -> Prediction:
        """Label records, as :func:`predict` does."""
        return predict(self, records, on_error=on_error, ids=ids)


def load_model(path: Path | str) -> LoadedModel:
    """Read a ``model.json``, or an ``.onnx`` or ``.skops`` file that was exported from one; or a run's directory.

    Raises
    ------
    BadInput
        The file is missing, or it holds no model; or it needs a package that is not installed.
    """
    path = Path(path)
    path = path / _MODEL if path.is_dir() else path
    if path.suffix.lower() in {".onnx", ".skops"}:
        return _exported(path)
    data = json_of(read_text(path, _MOST_BYTES, "model", _HINT), path, _HINT)
    if not isinstance(data, dict):
        raise BadInput(f"{path} is JSON, but it holds no model", _HINT)
    saved = model_from_json(data)
    return _loaded(saved, Provenance.of(saved, str(data.get("watermark", ""))))


def _exported(path: Path) -> LoadedModel:
    from masquerade.exports.reading import read_onnx, read_skops

    return _loaded(*(read_onnx(path) if path.suffix.lower() == ".onnx" else read_skops(path)))


def _loaded(saved: SavedModel, provenance: Provenance) -> LoadedModel:
    return LoadedModel(**{f.name: getattr(saved, f.name) for f in fields(SavedModel)}, provenance=provenance)


def predict(
    model: Path | str | SavedModel, records: object, *, on_error: OnError = "refuse", ids: str | None = None
) -> Prediction:
    """Label records with a published model. If K + 1 shares were published, they are added up and divided by K first.

    Parameters
    ----------
    model : path or SavedModel
    records : path, mapping, data frame or ndarray
        Raw records, before any encoding: the model brings its encoder along. A CSV or Parquet file, a mapping from
        column names to cells, or a table that knows its column names, such as a pandas, Polars or Arrow one or numpy's
        structured array; columns beyond the model's are ignored. A two-dimensional array has no names: it must have
        exactly the model's columns, in the order of ``model.encoder.columns``.
    on_error : {"refuse", "skip"}
        What happens where some records cannot be labelled because a cell does not fit: no record is labelled, and the
        error names all of them; or all others are.
    ids : str, optional
        A column whose cells are passed through as the prediction's ``ids``.

    Raises
    ------
    BadRecords
        Some records cannot be labelled.
    BadInput
        The model or the records cannot be used as they are.

    References
    ----------
    Pathak, Rane, Raj 2010, section 3.3: -1 where sigma(w.x) <= 1/2, else +1. A model with a threshold of its own has
    another score in the place of 0, where sigma is 1/2.
    """
    saved = model if isinstance(model, SavedModel) else load_model(model)
    table = _table(records, saved.encoder, ids)
    X, bad = _encoded(saved.encoder, table, on_error)
    classes = saved.label.classes
    margins = scores_of(saved, X, None if classes is None else len(classes))
    labels = np.where(margins > saved.threshold, 1, -1) if classes is None else margins.argmax(axis=1)
    if (number := saved.label.number) is not None:
        labels, margins = np.zeros(len(margins), dtype=np.intp), _own(number, margins)
    intervals, why = _intervals(saved, X, margins)
    if bad:
        good = np.setdiff1d(np.arange(table.n), [record.row for record in bad])
        some, margins = margins, np.full((table.n, *margins.shape[1:]), np.nan)
        margins[good] = some
        known, labels = labels, np.full(table.n, 0 if classes is None else -1, dtype=np.intp)
        labels[good] = known
        if intervals is not None:
            limits, intervals = intervals, np.full((table.n, 2), np.nan)
            intervals[good] = limits
    passed = None if ids is None else list(table.columns[ids])
    return Prediction(labels, margins, saved, bad, passed, ids or "", intervals, why)


_Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


def _own(f: Feature, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers of [-1, 1] in their column's own units."""
    low, high = float(f.min or 0), float(f.max or 0)
    return low + (u + 1) / 2 * (high - low)


def _intervals(
    model: SavedModel, X: NDArray[np.float64], scores: NDArray[np.float64]
) -> tuple[NDArray[np.float64] | None, str]:
    """Return the limits for each record, or None and the reason.

    The score of a record x is linear in the coefficients, so its variance is a' C a with a = (1, x) and C their
    covariance (the delta method). The logistic function grows, so it maps the limits of a score to those of the
    probability.
    """
    found = model.coefficients
    if found is None:
        return None, ""
    if hidden := [row.name for row in found.rows if not row.told]:
        return None, _hidden(found, hidden)
    columns = [np.ones(len(X)), *X.T]
    place = 1
    for f in model.encoder.features:
        if not f.reference:
            columns[place] = _own(f, X[:, place - 1])
        place += len(f.covariates)
    a = np.stack(columns, axis=1)
    variance = np.einsum("ij,jk,ik->i", a, np.array(found.covariance), a)
    reach = _Z * np.sqrt(np.maximum(variance, 0.0))
    limits = np.stack([scores - reach, scores + reach], axis=1)
    return (0.5 * (1 + np.tanh(limits / 2)) if found.family == "logistic" else limits), ""


def _hidden(found: Coefficients, names: Sequence[str]) -> str:
    if found.refused:
        return found.refused
    return f"{listed(names)} cannot be told, so how sure a probability is cannot be told either"


@dataclass(frozen=True)
class _Table:
    """Raw records by column, and how to speak of a row."""

    columns: Mapping[str, Column]
    n: int
    source: str
    place: Callable[[int], str]
    broken: Mapping[int, str] = field(default_factory=dict)


def _encoded(encoder: Encoder, table: _Table, on_error: OnError) -> tuple[NDArray[np.float64], tuple[BadRecord, ...]]:
    """Return the vectors of all records that fit, and the others.

    Raises
    ------
    BadRecords
        There are others, and the caller refuses them.
    """
    if not table.broken:
        try:
            return encoder.encode(table.columns), ()
        except BadInput:
            pass  # the search for all faults is slower, and finds this one again
    bad = bad_records(encoder, table.columns, table.place, table.broken)
    if not bad:
        return encoder.encode(table.columns), ()
    if on_error != "skip":
        raise BadRecords(bad, table.n, table.source, _CORRECT)
    rows = np.setdiff1d(np.arange(table.n), [record.row for record in bad])
    return encoder.encode({name: _rows_of(table.columns[name], rows) for name in encoder.columns}), bad


def _rows_of(cells: Column, rows: NDArray[np.intp]) -> Column:
    return cells[rows] if isinstance(cells, np.ndarray) else [cells[i] for i in rows]


def _table(records: object, encoder: Encoder, ids: str | None) -> _Table:
    """Return records from a file or from memory.

    Raises
    ------
    BadInput
        The file cannot be read, or nothing says which column is which.
    """
    wanted = tuple(dict.fromkeys((*encoder.columns, *([] if ids is None else [ids]))))
    if isinstance(records, Path | str):
        clamps = encoder.out_of_bounds == "clamp"
        text = read_cells(records, wanted, fills=clamps, keeps=not clamps, keys=() if ids is None else (ids,))
        place = lambda row: f"{text.unit} {text.numbers[row]}"  # noqa: E731  the shortest form of a local function
        return _Table(text.columns, len(text.numbers), text.source, place, text.broken)
    columns = _columns(records, encoder.columns, ids)
    if ids is not None and ids not in columns:
        raise lacks_column(ids, "name the column that tells the records apart")
    first = columns.get(encoder.columns[0], ())
    n = len(first) if hasattr(first, "__len__") else 0
    return _Table(columns, n, "the data", lambda row: f"record {row + 1}")


def _columns(records: object, wanted: tuple[str, ...], ids: str | None) -> Mapping[str, Column]:
    """Return the columns of records in memory, by name.

    Raises
    ------
    BadInput
        Nothing says which column is which.
    """
    if isinstance(records, Mapping):
        return records
    if isinstance(records, np.ndarray):
        return _array_columns(records, wanted)
    names = getattr(records, "column_names", None)  # of Arrow's tables, whose columns are cells
    names = getattr(records, "columns", None) if names is None else names
    if names is None or not hasattr(records, "__getitem__"):
        raise BadInput(
            f"the records are a {type(records).__name__}, which has no columns",
            "give a file's path, a mapping from column names to cells, a data frame, or a two-dimensional array",
        )
    return {name: np.asarray(records[name]) for name in names if name in wanted or name == ids}


def _array_columns(records: NDArray[Any], wanted: tuple[str, ...]) -> Mapping[str, Column]:
    if records.dtype.names is not None:
        return {name: records[name] for name in records.dtype.names}
    if records.ndim != 2 or records.shape[1] != len(wanted):  # noqa: PLR2004
        raise BadInput(
            f"the records are an array of shape {records.shape}, but the model needs shape (n, {len(wanted)}): a row "
            "for each record and a column for each feature",
            f"the columns are, in this order, {', '.join(map(repr, wanted))}; or give a mapping from names to cells",
        )
    return dict(zip(wanted, records.T, strict=True))

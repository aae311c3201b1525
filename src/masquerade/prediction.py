"""Prediction with a published model, by whoever has new records and nothing else: the papers call him Dave."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from masquerade_core.data.loading import load_records
from masquerade_core.data.schema import Column
from masquerade_core.errors import BadInput
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.model import SavedModel, model_from_json, scores_of

__all__ = ["Prediction", "load_model", "predict"]

_MAX_BYTES = 64 << 20
_HINT = "name the model.json that a run left in its directory"


@dataclass(frozen=True)
class Prediction:
    """Labels for new records.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
        +1 or -1; if the study names classes, positions in ``names``.
    margins : ndarray, shape (n, C) or (n,)
        w.x for each named class. Without named classes one w.x: the larger, the surer is the positive label.
    model : SavedModel
    """

    labels: NDArray[np.intp]
    margins: NDArray[np.float64]
    model: SavedModel

    @property
    def names(self) -> tuple[str, ...]:
        """The classes as the study names them; else the positive label and "not" it."""
        label = self.model.label
        return label.classes or (str(label.positive), f"not {label.positive}")

    @property
    def probabilities(self) -> NDArray[np.float64] | None:
        """The probability of the positive label, sigma(w.x), or of the label given, by softmax.

        None for another loss than the logistic one, whose margins are no probabilities.
        """
        if self.model.loss != LOGISTIC.name:
            return None
        if self.margins.ndim == 1:
            return 0.5 * (1 + np.tanh(self.margins / 2))
        return np.asarray(np.exp(self.margins.max(axis=1) - logsumexp(self.margins, axis=1)), dtype=np.float64)

    @property
    def scores(self) -> tuple[str, NDArray[np.float64]]:
        """A name, ``probability`` or ``margin``, and the numbers that a table shows beside the labels."""
        probabilities = self.probabilities
        if probabilities is not None:
            return "probability", probabilities
        return "margin", self.margins if self.margins.ndim == 1 else self.margins.max(axis=1)

    def words(self) -> list[str]:
        """Return each record's label in words."""
        positions = self.labels if self.model.label.classes is not None else np.where(self.labels > 0, 0, 1)
        return [self.names[i] for i in positions]


def load_model(path: Path | str) -> SavedModel:
    """Read a ``model.json``.

    Raises
    ------
    BadInput
        The file is missing, or it holds no model.
    """
    path = Path(path)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise BadInput(f"{path} is larger than {_MAX_BYTES >> 20} MB: it cannot be a model", _HINT)
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadInput(f"there is no model at {path}", _HINT) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise BadInput(f"the model {path} cannot be read: {reason}", _HINT) from error
    if not isinstance(data, dict):
        raise BadInput(f"{path} is JSON, but it holds no model", _HINT)
    return model_from_json(data)


def predict(model: Path | str | SavedModel, records: object) -> Prediction:
    """Label records with a published model. If K + 1 shares were published, they are added up and divided by K first.

    Parameters
    ----------
    model : path or SavedModel
    records : path, mapping, data frame or ndarray
        Raw records, before any encoding: the model brings its encoder along. A CSV or Parquet file, a mapping from
        column names to cells, or a table that knows its column names, such as a pandas, Polars or Arrow one or numpy's
        structured array; columns beyond the model's are ignored. A two-dimensional array has no names: it must have
        exactly the model's columns, in the order of ``model.encoder.columns``.

    Raises
    ------
    BadInput
        The model or the records cannot be used as they are.

    References
    ----------
    Pathak, Rane, Raj 2010, section 3.3: -1 where sigma(w.x) <= 1/2, else +1. A model with a threshold of its own has
    another score in the place of 0, where sigma is 1/2.
    """
    saved = model if isinstance(model, SavedModel) else load_model(model)
    if isinstance(records, Path | str):
        X = load_records(records, saved.encoder)
    else:
        X = saved.encoder.encode(_columns(records, saved.encoder.columns))
    if saved.label.classes is not None:
        margins = scores_of(saved, X, len(saved.label.classes))
        return Prediction(margins.argmax(axis=1), margins, saved)
    margins = scores_of(saved, X, None)
    return Prediction(np.where(margins > saved.threshold, 1, -1), margins, saved)


def _columns(records: object, wanted: tuple[str, ...]) -> Mapping[str, Column]:
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
    return {name: np.asarray(records[name]) for name in names if name in wanted}


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

"""Dave: one new record, the published model, and nothing else."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from masquerade_core.data.loading import load_records
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import predict_labels
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.model import SavedModel, model_from_json

__all__ = ["Prediction", "load_model", "predict"]

_MAX_BYTES = 64 << 20
_HINT = "a run leaves model.json in its directory"


@dataclass(frozen=True)
class Prediction:
    """Labels for Dave's records.

    Parameters
    ----------
    labels : ndarray of int, shape (n,)
        +1 or -1; where the study names classes, positions in ``names``.
    margins : ndarray, shape (n, C) or (n,)
        w.x, of each named class; of two classes, the one w.x: the larger, the surer of the positive label.
    model : SavedModel
    """

    labels: NDArray[np.intp]
    margins: NDArray[np.float64]
    model: SavedModel

    @property
    def names(self) -> tuple[str, ...]:
        """The classes: as the study names them, or else the positive label and what is not it."""
        label = self.model.label
        return label.classes or (str(label.positive), f"not {label.positive}")

    @property
    def probabilities(self) -> NDArray[np.float64] | None:
        """sigma(w.x), of the positive label, or softmax(w.x), of the label given; None where that is no probability."""
        if self.model.loss != LOGISTIC.name:
            return None
        if self.margins.ndim == 1:
            return 0.5 * (1 + np.tanh(self.margins / 2))
        return np.asarray(np.exp(self.margins.max(axis=1) - logsumexp(self.margins, axis=1)), dtype=np.float64)

    @property
    def scores(self) -> tuple[str, NDArray[np.float64]]:
        """What a table of predictions shows beside the label, by its name: ``probability``, or else ``margin``."""
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
        It is missing, or no model.
    """
    path = Path(path)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise BadInput(f"{path} is larger than {_MAX_BYTES >> 20} MB: it cannot be a model")
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadInput(f"there is no model at {path}", _HINT) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise BadInput(f"the model {path} cannot be read: {reason}", _HINT) from error
    if not isinstance(data, dict):
        raise BadInput(f"{path} is not a model", _HINT)
    return model_from_json(data)


def predict(model: Path | str | SavedModel, records: Path | str) -> Prediction:
    """Label records with a published model; where K + 1 shares were published, add them up and divide by K first.

    Parameters
    ----------
    model : path or SavedModel
    records : path
        A CSV file with the model's columns; others are ignored.

    Raises
    ------
    BadInput
        One of the files cannot be used as it is.

    References
    ----------
    Pathak, Rane, Raj 2010, section 3.3: -1 where sigma(w.x) <= 1/2, else +1.
    """
    saved = model if isinstance(model, SavedModel) else load_model(model)
    X = load_records(records, saved.encoder)
    if saved.label.classes is not None:
        margins = X @ np.array(saved.weights).reshape(len(saved.label.classes), -1).T
        return Prediction(margins.argmax(axis=1), margins, saved)
    w = np.array(saved.weights)
    return Prediction(predict_labels(X, w).astype(np.intp), X @ w, saved)

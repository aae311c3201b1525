"""The answers of other libraries with an exported model."""

from typing import Any

import numpy as np
import onnxruntime as ort
import skops.io
from numpy.typing import NDArray

from masquerade.exports.onnx_file import to_onnx
from masquerade.exports.provenance import Provenance
from masquerade.exports.skops_file import to_skops
from masquerade_core.saved_model import SavedModel
from tests.export_helpers import Columns


def by_onnx(model: SavedModel | bytes, columns: Columns) -> dict[str, Any]:
    """Return what ONNX runtime answers, by the outputs' names."""
    data = model if isinstance(model, bytes) else to_onnx(model, Provenance.of(model))
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    given = {i.name: columns[i.name].reshape(-1, 1) for i in session.get_inputs()}
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, given), strict=True))


def by_skops(model: SavedModel) -> Any:
    """Return the pipeline that a skops file holds, loaded with an empty list of trusted types."""
    return skops.io.loads(to_skops(model, Provenance.of(model)), trusted=[])


def side_by_side(columns: Columns) -> NDArray[Any]:
    """Return columns as one array of objects."""
    return np.array([cells.astype(object) for cells in columns.values()], dtype=object).T

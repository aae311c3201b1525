"""Reading an exported model back: its weights, and a check that the file computes what this program would.

Others may have changed a file on its way. So an ONNX graph must be the one that this program makes of its weights.
A skops file may have been written with another version of scikit-learn, whose objects differ inside. So its pipeline
must answer records at all edges of the study as the weights do.
"""

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.exports.extras import onnx_package, skops_package
from masquerade.exports.layout import Layout, answer_names
from masquerade.exports.onnx_file import OFFSET, WEIGHTS, to_onnx
from masquerade.exports.provenance import ATTRIBUTE, Provenance
from masquerade.exports.skops_file import coordinates_of
from masquerade_core.bounded import read_bytes
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import BadInput
from masquerade_core.model import scores_of
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Feature

__all__ = ["read_onnx", "read_skops"]

_MAX_BYTES = 256 << 20
_AGREES = 1e-9
_HINT = "export the model.json of the run again"

_Array = NDArray[np.float64]


def read_onnx(path: Path) -> tuple[SavedModel, Provenance]:
    """Read a model that :func:`masquerade.exports.onnx_file.to_onnx` wrote.

    Raises
    ------
    BadInput
        onnx is not installed, or the file is something else.
    """
    onnx = onnx_package()
    data, found = read_bytes(path, _MAX_BYTES, "model", _HINT), None
    try:
        found = onnx.load_model_from_string(data)
    except Exception as error:
        if type(error).__name__ not in {"DecodeError", "ValueError", "RuntimeError"}:
            raise
    if found is None or not found.graph.node:
        raise BadInput(f"{path} is not an ONNX file, or is damaged", _HINT)
    properties = {entry.key: entry.value for entry in found.metadata_props}
    provenance = Provenance.from_text(properties.get(ATTRIBUTE, ""), path)
    constants = {tensor.name: tensor for tensor in found.graph.initializer}
    encoder, _ = provenance.schema()
    named = [_free(name, encoder) for name in (WEIGHTS, OFFSET)]
    if not all(name in constants for name in named):
        raise BadInput(f"{path} has no weights under the names that this program gives them", _HINT)
    weights, offset = (np.array(constants[name].double_data, dtype=np.float64) for name in named)
    width = len(Layout(encoder).order)
    rows = weights.reshape(width, -1).T if len(weights) % width == 0 else weights[None]
    model = _model(provenance, rows, offset, path)
    if not _same_graph(onnx, found, to_onnx(model, provenance)):
        raise BadInput(f"{path} computes something other than a model that this program exports", _HINT)
    return model, provenance


def _free(name: str, encoder: Encoder) -> str:
    while name in encoder.columns:
        name += "_"
    return name


def _same_graph(onnx: Any, found: Any, wanted: bytes) -> bool:
    graphs = (found.graph, onnx.load_model_from_string(wanted).graph)
    one, other = (graph.SerializeToString(deterministic=True) for graph in graphs)
    return bool(one == other)


def read_skops(path: Path) -> tuple[SavedModel, Provenance]:
    """Read a model that :func:`masquerade.exports.skops_file.to_skops` wrote.

    Raises
    ------
    BadInput
        skops is not installed, or the file is something else.
    """
    skops = skops_package()
    data = read_bytes(path, _MAX_BYTES, "model", _HINT)
    _check_archive(path, data)
    pipeline, strange = None, False
    try:
        pipeline = skops.loads(data, trusted=[])
    except skops.exceptions.UntrustedTypesFoundException:
        strange = True
    except (KeyError, TypeError, ValueError, AttributeError, ImportError, zipfile.BadZipFile, OSError):
        pass
    if strange:
        raise BadInput(f"{path} holds objects other than scikit-learn's own, so it was not opened", _HINT)
    about = getattr(pipeline, f"{ATTRIBUTE}_", None)
    if pipeline is None or not isinstance(about, str):
        raise BadInput(f"{path} is not a skops file of this program, or is damaged", _HINT)
    provenance = Provenance.from_text(about, path)
    try:
        model = _of_pipeline(pipeline, provenance, path)
        fits = _answers_alike(pipeline, model)
    except (AttributeError, IndexError, TypeError, ValueError):
        fits, model = False, None
    if model is None or not fits:
        raise BadInput(f"{path} computes something other than a model that this program exports", _HINT)
    return model, provenance


def _check_archive(path: Path, data: bytes) -> None:
    """Refuse an archive that would need far more memory than any model does, before it is unpacked."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except zipfile.BadZipFile:
        raise BadInput(f"{path} is not a skops file, or is damaged", _HINT) from None
    if size > _MAX_BYTES:
        raise BadInput(f"{path} unpacks to more than {_MAX_BYTES >> 20} MB: it cannot be a model", _HINT)


def _of_pipeline(pipeline: Any, provenance: Provenance, path: Path) -> SavedModel:
    encoder, label = provenance.schema()
    classifier = pipeline.steps[-1][1]
    linear = getattr(classifier, "estimator_", classifier)
    rows = np.asarray(linear.coef_, dtype=np.float64)[:, coordinates_of(Layout(encoder))]
    offset = np.asarray(linear.intercept_, dtype=np.float64)
    if label.classes is not None and len(label.classes) == 2:  # noqa: PLR2004  scikit-learn has one row for two classes
        # Only the difference of the two rows is there. So the classes get half of it each: every answer is the same.
        rows, offset = np.vstack([-rows / 2, rows / 2]), np.concatenate([-offset / 2, offset / 2])
    return _model(provenance, rows, offset, path)


def _model(provenance: Provenance, rows: _Array, offset: _Array, path: Path) -> SavedModel:
    """Return a model of weights in the exported order, a row for each class."""
    encoder, label = provenance.schema()
    order = Layout(encoder).order
    if rows.shape != (len(label.classes or ("",)), len(order)) or offset.shape != rows.shape[:1]:
        raise BadInput(f"{path} does not have as many weights as its columns and classes need", _HINT)
    if not (np.isfinite(rows).all() and np.isfinite(offset).all()):
        raise BadInput(f"{path} has a weight that is not finite", _HINT)
    weights = np.empty_like(rows)
    weights[:, order] = rows
    return SavedModel(
        weights=tuple(weights.ravel().tolist()),
        shares=None,
        encoder=encoder,
        label=label,
        study=provenance.study,
        protocol=provenance.protocol,
        run_id=provenance.run_id,
        epsilon=provenance.epsilon,
        delta=provenance.delta,
        loss=provenance.loss,
        offset=tuple(offset.tolist()) if offset.any() else (),
        threshold=provenance.threshold,
        coefficients=provenance.coefficients(),
    )


def _answers_alike(pipeline: Any, model: SavedModel) -> bool:
    """Say whether a pipeline scores records at all edges of the study as its weights do, and labels them so."""
    records = _edge_records(model.encoder)
    columns = {f.name: records[:, i] for i, f in enumerate(model.encoder.features)}
    X, classes = model.encoder.encode(columns), model.label.classes
    scores = scores_of(model, X, len(classes) if classes else None)
    found = np.asarray(pipeline.decision_function(records), dtype=np.float64)
    wanted = scores[:, 1] - scores[:, 0] if classes is not None and len(classes) == 2 else scores  # noqa: PLR2004
    if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=_AGREES, atol=_AGREES):
        return False
    places = scores.argmax(axis=1) if classes is not None else (scores > model.threshold).astype(np.intp)
    names = [answer_names(model)[place] for place in places]
    return bool(pipeline.predict(records).tolist() == names)


def _edge_records(encoder: Encoder) -> NDArray[Any]:
    """Return records of which each differs from a first one in a single cell: all levels, bounds and bins are there."""
    first = [f.filler for f in encoder.features]
    records = [list(first)]
    for i, f in enumerate(encoder.features):
        records += [[*first[:i], cell, *first[i + 1 :]] for cell in _edges(f)]
    return np.array(records, dtype=object)


def _edges(f: Feature) -> list[Any]:
    if f.levels is not None:
        return list(f.levels)
    return [x for x in (f.min, f.max, *(f.edges or ())) if x is not None]

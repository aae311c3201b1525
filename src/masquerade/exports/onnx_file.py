"""A model as an ONNX graph: raw columns in, label and probabilities out.

Each column of the study is an input of its own, of shape (records, 1): float64 for numbers, strings for levels. The
graph encodes them as the study says, in float64. Its outputs are ``label``, ``scores`` (w.x + offset) and, with the
logistic loss, ``probabilities``. Where the label is a number, they are ``estimate``, in the label's own units, and
``scores``. Where the study refuses records that do not fit, such a record gets an empty label and NaN, because a graph
cannot refuse a single record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from masquerade.exports.extras import onnx_package
from masquerade.exports.layout import Layout, aliases, answer_names, weight_rows
from masquerade.exports.provenance import ATTRIBUTE, Provenance
from masquerade_core import __version__
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Feature

__all__ = ["OFFSET", "WEIGHTS", "to_onnx"]

WEIGHTS = "weights"
"""The constant with the weights: a row for each coordinate, a column for each class."""
OFFSET = "offset"

_ML = "ai.onnx.ml"
_OPSETS = {"": 17, _ML: 3}
_IR_VERSION = 8
_LARGEST = float(np.finfo(np.float64).max)


@dataclass
class _Graph:
    """A graph while it is built. Names of values inside never meet a column's name.

    Parameters
    ----------
    taken : set of str
        Names that are in use: first of all, the columns.
    """

    taken: set[str]
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.onnx = onnx_package()
        self.kinds = {
            np.dtype(np.float64): self.onnx.TensorProto.DOUBLE,
            np.dtype(np.int64): self.onnx.TensorProto.INT64,
            np.dtype(object): self.onnx.TensorProto.STRING,
        }

    def name(self, wanted: str) -> str:
        """Return a name like the one wanted that nothing has yet."""
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted

    def constant(self, wanted: str, values: Any, dtype: Any = np.float64) -> str:
        """Add a constant and return its name."""
        array = np.array(values, dtype=dtype)
        cells = [text.encode() for text in array.ravel().tolist()] if dtype is object else array.ravel()
        name = self.name(wanted)
        self.constants.append(self.onnx.helper.make_tensor(name, self.kinds[array.dtype], array.shape, cells))
        return name

    def add(self, operation: str, inputs: Sequence[str], wanted: str = "", **attributes: Any) -> str:
        """Add an operation with one result, and return the name of it."""
        result = self.name(wanted or f"step_{len(self.nodes)}")
        domain = _ML if operation == "LabelEncoder" else ""
        node = self.onnx.helper.make_node(operation, list(inputs), [result], name=result, domain=domain, **attributes)
        self.nodes.append(node)
        return result

    def input(self, name: str, dtype: Any) -> str:
        """Add the input of one column."""
        kind = self.kinds[np.dtype(dtype)]
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, ["records", 1]))
        return name

    def output(self, wanted: str, value: str, dtype: Any, shape: Sequence[Any]) -> None:
        """Make a value an output."""
        name = self.name(wanted)
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], name=f"{name}_out"))
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, self.kinds[np.dtype(dtype)], list(shape)))


def to_onnx(model: SavedModel, provenance: Provenance) -> bytes:
    """Return a model as the bytes of an ONNX file.

    Raises
    ------
    BadInput
        onnx is not installed.
    """
    layout = Layout(model.encoder)
    g = _Graph(set(model.encoder.columns))
    for f in model.encoder.features:
        g.input(f.name, np.float64 if f.levels is None else object)
    blocks, checks = [], []
    for kind, block in (("numbers", _numbers), ("bins", _bins), ("levels", _levels)):
        for part, check in block(g, layout, layout.features(kind)):
            blocks.append(part)
            checks.append(check)
    if model.encoder.intercept:
        blocks.append(_ones(g, model.encoder.features[0]))
    X = blocks[0] if len(blocks) == 1 else g.add("Concat", blocks, "coordinates", axis=1)
    clipped = X
    if model.encoder.coding == "one-hot":  # covariates are not divided by a record's length
        norm = g.add("ReduceL2", [X], "norm", axes=[1], keepdims=1)
        clipped = g.add("Div", [X, g.add("Max", [norm, g.constant("one", 1.0)])], "clipped")
    rows = weight_rows(model)
    weights = g.constant(WEIGHTS, rows[:, layout.order].T)
    offset = g.constant(OFFSET, [list(model.offset) or [0.0] * len(rows)])
    scores = g.add("Add", [g.add("MatMul", [clipped, weights]), offset], "score")
    _answers(g, model, scores, _all_fit(g, [check for check in checks if check]) if layout.refuses else "")
    return _file(g, model, provenance)


def _filled(g: _Graph, columns: Sequence[Feature], *, all_of_them: bool) -> str:
    """Return columns of numbers side by side, in which a missing cell has become the public ``missing`` value."""
    names = [f.name for f in columns]
    values = names[0] if len(names) == 1 else g.add("Concat", names, axis=1)
    fillers = [float(f.filler) if all_of_them or f.missing is not None else np.nan for f in columns]
    if np.isnan(fillers).all():
        return values
    return g.add("Where", [g.add("IsNaN", [values]), g.constant("missing", [fillers]), values])


def _within(g: _Graph, values: str, low: Any, high: Any) -> str:
    """Return for each record whether all its numbers lie within their bounds; a missing number does not."""
    fits = g.add("And", [g.add("GreaterOrEqual", [values, low]), g.add("LessOrEqual", [values, high])])
    return g.add("ReduceMin", [g.add("Cast", [fits], to=g.kinds[np.dtype(np.int64)])], axes=[1], keepdims=1)


def _numbers(g: _Graph, layout: Layout, columns: Sequence[Feature]) -> list[tuple[str, str]]:
    if not columns:
        return []
    values = _filled(g, columns, all_of_them=not layout.refuses)
    ends = np.array([[f.min for f in columns], [f.max for f in columns]], dtype=np.float64)
    low, high = (g.constant(name, [row]) for name, row in zip(("low", "high"), ends, strict=True))
    check = _within(g, values, low, high) if layout.refuses else ""
    clamped = g.add("Min", [g.add("Max", [values, low]), high])
    share = g.add("Div", [g.add("Sub", [clamped, low]), g.constant("width", ends[1:] - ends[:1])])
    doubled = g.add("Mul", [share, g.constant("two", 2.0)])
    return [(g.add("Sub", [doubled, g.constant("one", 1.0)], "scaled"), check)]


def _bins(g: _Graph, layout: Layout, columns: Sequence[Feature]) -> list[tuple[str, str]]:
    found = []
    for f in columns:
        values = _filled(g, [f], all_of_them=not layout.refuses)
        above = g.add("GreaterOrEqual", [values, g.constant("edges", [f.edges])])
        counted = g.add("Cast", [above], to=g.kinds[np.dtype(np.int64)])
        place = g.add("ReduceSum", [counted, g.constant("axis", [1], np.int64)], keepdims=1)
        low = -_LARGEST if f.min is None else f.min
        high = _LARGEST if f.max is None else f.max
        check = _within(g, values, g.constant("low", low), g.constant("high", high)) if layout.refuses else ""
        found.append((_one_hot(g, place, f, layout), check))
    return found


def _levels(g: _Graph, layout: Layout, columns: Sequence[Feature]) -> list[tuple[str, str]]:
    found = []
    for f in columns:
        levels = f.levels or ()
        numbers = {**{level: i for i, level in enumerate(levels)}, **aliases(f)}
        place = g.add(
            "LabelEncoder",
            [f.name],
            keys_strings=list(numbers),
            values_int64s=list(numbers.values()),
            default_int64=-1 if layout.refuses else levels.index(str(f.filler)),
        )
        check = ""
        if layout.refuses:
            fits = g.add("GreaterOrEqual", [place, g.constant("zero", 0, np.int64)])
            check = g.add("Cast", [fits], to=g.kinds[np.dtype(np.int64)])
        found.append((_one_hot(g, place, f, layout), check))
    return found


def _one_hot(g: _Graph, place: str, f: Feature, layout: Layout) -> str:
    """Return a column of 0 and 1 for each level or bin; in treatment coding the first has none."""
    every = range(len(f.coordinates))
    same = g.add("Equal", [place, g.constant("places", [every[-len(layout.encoder.of(f)) :]], np.int64)])
    return g.add("Cast", [same], to=g.kinds[np.dtype(np.float64)])


def _ones(g: _Graph, first: Feature) -> str:
    """Return a column of ones, as long as the columns are."""
    shape = g.add("Shape", [first.name])
    one = g.onnx.helper.make_tensor("value", g.kinds[np.dtype(np.float64)], [1], [1.0])
    return g.add("ConstantOfShape", [shape], "constant", value=one)


def _all_fit(g: _Graph, checks: Sequence[str]) -> str:
    together = checks[0] if len(checks) == 1 else g.add("Concat", checks, axis=1)
    least = g.add("ReduceMin", [together], axes=[1], keepdims=1)
    return g.add("Equal", [least, g.constant("one", 1, np.int64)], "fits")


def _answers(g: _Graph, model: SavedModel, scores: str, fits: str) -> None:
    """Add the outputs. A record that does not fit gets an empty label and NaN."""
    if (number := model.label.number) is not None:
        low, high = float(number.min or 0), float(number.max or 0)
        half = g.add("Mul", [scores, g.constant("half_range", (high - low) / 2)])
        shown = [
            ("estimate", g.add("Add", [half, g.constant("middle", low + (high - low) / 2)]), 1),
            ("scores", scores, 1),
        ]
        _shown(g, shown, fits)
        return
    names = answer_names(model)
    text = g.constant("names", [*names, ""], object)
    if model.label.classes is None:
        above = g.add("Greater", [scores, g.constant("threshold", model.threshold)])
        place = g.add("Cast", [above], to=g.kinds[np.dtype(np.int64)])
        half = g.add("Tanh", [g.add("Mul", [scores, g.constant("half", 0.5)])])
        positive = g.add("Mul", [g.add("Add", [half, g.constant("one", 1.0)]), g.constant("half", 0.5)])
        sides = [g.add("Sub", [g.constant("one", 1.0), positive]), positive]
    else:
        place = g.add("ArgMax", [scores], axis=1, keepdims=1)
        sides = []
    if fits:
        none = g.constant("none", len(names), np.int64)
        place = g.add("Where", [fits, place, none])
    labels = g.add("Gather", [text, g.add("Squeeze", [place, g.constant("axis", [1], np.int64)])])
    g.output("label", labels, object, ["records"])
    shown = [("scores", scores, len(model.label.classes or ("",)))]
    if model.loss == LOGISTIC.name:
        chances = g.add("Concat", sides, axis=1) if sides else g.add("Softmax", [scores], axis=1)
        shown.append(("probabilities", chances, len(names)))
    _shown(g, shown, fits)


def _shown(g: _Graph, shown: Sequence[tuple[str, str, int]], fits: str) -> None:
    for name, value, width in shown:
        known = g.add("Where", [fits, value, g.constant("nan", np.nan)]) if fits else value
        g.output(name, known, np.float64, ["records", width])


def _file(g: _Graph, model: SavedModel, provenance: Provenance) -> bytes:
    helper, names = g.onnx.helper, answer_names(model)
    graph = helper.make_graph(g.nodes, "masquerade", g.inputs, g.outputs, g.constants)
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
    made.producer_name, made.producer_version = "masquerade", __version__
    marked = f"{provenance.watermark}. " if provenance.watermark else ""
    made.doc_string = (
        f"{marked}A linear model of the column {model.label.name!r}, learned with {model.protocol} in the study "
        f"{model.study!r}."
    )
    if model.label.number is None:
        made.doc_string += f" Its answers, in the order of the probabilities, are {', '.join(map(repr, names))}."
    helper.set_model_props(made, {ATTRIBUTE: provenance.text()})
    g.onnx.checker.check_model(made, full_check=True)
    found: bytes = made.SerializeToString(deterministic=True)
    return found

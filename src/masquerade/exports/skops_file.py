"""A model as a skops file: a fitted pipeline of scikit-learn's own classes, which opens without this program.

The pipeline takes raw columns: a data frame with the study's columns in any order, or an array with exactly these in
the study's order. Its steps are scikit-learn's, with the public constants of the study in the place of what a fit would
have learned. Where the study refuses a record that does not fit, a step raises ``ValueError``.

1. ``columns`` takes the columns of a data frame by name.
2. ``encoding`` has a branch for each kind of column. A number goes from [min, max] to [0, 1], and on to [-1, 1], where
   it is cut off. A branch ``checks`` refuses numbers out of bounds, and adds zeros alone.
3. ``constant`` puts a 1 before the coordinates, if the study has an intercept, or if step 4 needs one.
4. ``length`` divides a record by max(1, its length).
5. The classifier has the released weights: logistic regression, or for another loss a linear support vector machine,
   which has margins and no probabilities.
"""

import zipfile
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade.exports.extras import skops_package
from masquerade.exports.layout import Layout, aliases, answer_names, weight_rows
from masquerade.exports.provenance import ATTRIBUTE, Provenance
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Feature

__all__ = ["coordinates_of", "pipeline_of", "to_skops"]

_Array = NDArray[Any]


def to_skops(model: SavedModel, provenance: Provenance) -> bytes:
    """Return a model as the bytes of a skops file.

    Raises
    ------
    BadInput
        skops is not installed.
    """
    found: bytes = skops_package().dumps(pipeline_of(model, provenance), compression=zipfile.ZIP_DEFLATED)
    return found


def pipeline_of(model: SavedModel, provenance: Provenance) -> Any:
    """Return a model as a fitted pipeline of scikit-learn's classes; its ``masquerade_`` is the provenance."""
    from sklearn.pipeline import Pipeline

    layout = Layout(model.encoder)
    steps: list[tuple[str, Any]] = [("columns", _selection(layout)), ("encoding", _encoding(layout))]
    rows = weight_rows(model)[:, layout.order]
    columns, width = _columns_of(layout), len(layout.order) - layout.encoder.intercept
    checks = 2 * len(layout.bounded) if layout.refuses else 0
    weights = np.hstack([rows[:, columns], np.zeros((len(rows), checks))])
    steps += _length(layout, weights.shape[1])
    if layout.encoder.intercept:
        weights = np.hstack([rows[:, width:], weights])
    elif not _always_long(layout):
        weights = np.pad(weights, ((0, 0), (1, 1)))
    name = f"classifier ({provenance.watermark})" if provenance.watermark else "classifier"
    steps.append((name, _classifier(model, weights)))
    made = Pipeline(steps)
    setattr(made, f"{ATTRIBUTE}_", provenance.text())
    return made


def _columns_of(layout: Layout) -> list[int]:
    """Return the coordinate, in the layout's order, of each column that the encoding makes.

    They are one for one, but for texts that count as a level: each has a column of its own, with the level's weight.
    """
    found = list(range(len(layout.features("numbers"))))
    found += range(len(found), len(found) + sum(len(f.coordinates) for f in layout.features("bins")))
    start = len(found)
    for f in layout.features("levels"):
        width = len(f.levels or ())
        found += range(start, start + width)
        found += [start + place for place in _also(layout, f).values()]
        start += width
    return found


# --- The encoding -----------------------------------------------------------------


def _selection(layout: Layout) -> Any:
    """Return a step that makes an array of a data frame's columns, which it finds by name; an array stays as it is."""
    from sklearn.compose import ColumnTransformer

    names = layout.encoder.columns
    made = ColumnTransformer([("columns", "passthrough", list(range(len(names))))])
    made.fit(np.array([[f.filler for f in layout.encoder.features]], dtype=object))
    made.feature_names_in_ = np.array(names, dtype=object)
    return made


def coordinates_of(layout: Layout) -> list[int]:
    """Return the column of the classifier's weights at which each coordinate, in the layout's order, stands first."""
    columns = _columns_of(layout)
    width = len(layout.order) - layout.encoder.intercept
    shift = 1 if layout.encoder.intercept or not _always_long(layout) else 0
    found = [shift + columns.index(i) for i in range(width)]
    return [*found, 0] if layout.encoder.intercept else found


def _encoding(layout: Layout) -> Any:
    """Return the step that makes coordinates of cells."""
    from sklearn.compose import ColumnTransformer

    makers = {"numbers": _numbers, "bins": _bins, "levels": _levels}
    branches = [
        (kind, make(layout, layout.features(kind)), layout.places(kind))
        for kind, make in makers.items()
        if layout.places(kind)
    ]
    # Last, so that the zeros that it adds are at the end of the coordinates; the classifier has no weights for them.
    if layout.refuses and layout.bounded:
        branches.append(("checks", _checks(layout), layout.bounded))
    features = layout.encoder.features
    example = np.array([[f.filler for f in features]], dtype=object)
    made = ColumnTransformer([(name, "passthrough", places) for name, _, places in branches]).fit(example)
    made.transformers = branches
    made.transformers_ = branches
    return made


def _pipeline(*steps: tuple[str, Any]) -> Any:
    from sklearn.pipeline import Pipeline

    return Pipeline(list(steps))


def _filling(layout: Layout, columns: list[Feature]) -> list[tuple[str, Any]]:
    """Return a step in which a missing number becomes the public value; a later step refuses one that has none."""
    from sklearn.compose import ColumnTransformer

    fills = [not layout.refuses or f.missing is not None for f in columns]
    fillers = np.array([[float(f.filler) for f in columns]])
    if not any(fills):
        return []
    if all(fills):
        return [("missing", _filler(fillers))]
    # Neighbouring columns together, so that their order stays.
    ends = [0, *(i for i in range(1, len(fills)) if fills[i] != fills[i - 1]), len(fills)]
    parts = [list(range(low, high)) for low, high in pairwise(ends)]
    shown = [(f"columns {part[0]} to {part[-1]}", part) for part in parts]
    made = ColumnTransformer([(name, "passthrough", part) for name, part in shown]).fit(fillers)
    steps = [_filler(fillers[:, part]) if fills[part[0]] else _number(fillers[:, part]) for _, part in shown]
    made.transformers = [(name, step, part) for (name, part), step in zip(shown, steps, strict=True)]
    made.transformers_ = made.transformers
    return [("missing", made)]


def _filler(values: _Array) -> Any:
    """Return a step that puts a value, of its own for each column, in the place of NaN: that of the only neighbour."""
    from sklearn.impute import KNNImputer

    return KNNImputer(n_neighbors=1).fit(values)


def _number(example: _Array) -> Any:
    """Return a step that changes no number, but makes numbers of texts."""
    from sklearn.preprocessing import MaxAbsScaler

    return MaxAbsScaler().fit(np.ones_like(example))


def _share(columns: list[Feature]) -> tuple[str, Any]:
    """Return a step that takes [min, max] to [0, 1]."""
    from sklearn.preprocessing import StandardScaler

    low, high = (np.array([getattr(f, end) for f in columns], dtype=np.float64) for end in ("min", "max"))
    step = StandardScaler().fit(np.array([low, high]))
    step.mean_, step.scale_, step.var_ = low, high - low, (high - low) ** 2
    return "share", step


def _numbers(layout: Layout, columns: list[Feature]) -> Any:
    from sklearn.preprocessing import MinMaxScaler

    ends = np.array([[0.0], [1.0]]).repeat(len(columns), axis=1)
    scaled = MinMaxScaler(feature_range=(-1, 1), clip=True).fit(ends)
    return _pipeline(*_filling(layout, columns), _share(columns), ("scaled", scaled))


def _bins(layout: Layout, columns: list[Feature]) -> Any:
    from sklearn.preprocessing import KBinsDiscretizer

    ends = np.array([[0.0], [1.0]]).repeat(len(columns), axis=1)
    counts = [len(f.edges or ()) + 1 for f in columns]
    cut = KBinsDiscretizer(n_bins=counts, encode="onehot-dense", strategy="uniform", subsample=None).fit(ends)
    edges = np.empty(len(columns), dtype=object)
    for place, f in enumerate(columns):
        edges[place] = np.array([-np.inf, *(f.edges or ()), np.inf])
    cut.bin_edges_ = edges
    cut._encoder.dtype = np.float64  # noqa: SLF001  an instance of numpy.dtype is none of the types that skops trusts
    return _pipeline(*_filling(layout, columns), ("bins", cut))


def _levels(layout: Layout, columns: list[Feature]) -> Any:
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    known = [np.array([*(f.levels or ()), *_also(layout, f)], dtype=object) for f in columns]
    example = np.array([[texts[0] for texts in known]], dtype=object)
    if layout.refuses:
        return _pipeline(("levels", OneHotEncoder(categories=known, sparse_output=False).fit(example)))
    number = OrdinalEncoder(categories=known, handle_unknown="use_encoded_value", unknown_value=np.nan)
    fillers = np.array([[float((f.levels or ()).index(str(f.filler))) for f in columns]])
    places = [np.arange(len(texts), dtype=np.float64) for texts in known]
    each = OneHotEncoder(categories=places, sparse_output=False).fit(fillers)
    return _pipeline(("number", number.fit(example)), ("unknown", _filler(fillers)), ("levels", each))


def _also(layout: Layout, f: Feature) -> dict[Any, int]:
    """Return what counts as a level and is none: texts, and the objects by which data frames mark a missing cell."""
    found: dict[Any, int] = dict(aliases(f))
    if "" in found:
        found[None] = found[""]
    if "nan" in found and layout.refuses:  # else it is an unknown level, which becomes the same
        found[np.nan] = found["nan"]
    return found


def _checks(layout: Layout) -> Any:
    """Return steps that raise ValueError for a number out of bounds, and give zeros for all others."""
    from sklearn.pipeline import FeatureUnion
    from sklearn.preprocessing import Binarizer, OrdinalEncoder

    columns = [layout.encoder.features[i] for i in layout.bounded]
    zeros = np.zeros((1, len(columns)))
    sides = []
    for name, threshold, seen in (("not above", 1.0, 0.0), ("not below", np.nextafter(0.0, -1.0), 1.0)):
        only = OrdinalEncoder(categories=[np.array([seen])] * len(columns)).fit(zeros + seen)
        sides.append((name, _pipeline(("beyond", Binarizer(threshold=threshold).fit(zeros)), ("refused", only))))
    return _pipeline(*_filling(layout, columns), _share(columns), ("sides", FeatureUnion(sides)))


# --- The length, and the classifier -----------------------------------------------


def _always_long(layout: Layout) -> bool:
    """Say whether every record has length 1 or more before it is clipped, as a 1 among its coordinates ensures."""
    return layout.encoder.intercept or any(layout.places(kind) for kind in ("bins", "levels"))


def _length(layout: Layout, width: int) -> list[tuple[str, Any]]:
    """Return the steps that add the constant and divide by max(1, length).

    A record that is always longer than 1 is divided by its length. Any other is divided by the largest of its
    coordinates, its length and 1, which is as much as max(1, length).
    """
    from sklearn.cluster import KMeans
    from sklearn.pipeline import FeatureUnion
    from sklearn.preprocessing import Normalizer, PolynomialFeatures

    zeros = np.zeros((1, width))
    constant = PolynomialFeatures(degree=1).fit(zeros)
    if layout.encoder.intercept:
        return [("constant", constant), ("length", Normalizer().fit(constant.transform(zeros)))]
    if _always_long(layout):
        return [("length", Normalizer().fit(zeros))]
    distance = KMeans(n_clusters=1, n_init=1, init=zeros, max_iter=1).fit(zeros)  # from the origin
    both = FeatureUnion([("coordinates", constant), ("distance", distance)])
    return [("constant", both), ("length", Normalizer(norm="max").fit(both.transform(zeros)))]


def _classifier(model: SavedModel, weights: _Array) -> Any:
    """Return a fitted linear classifier that has these weights."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import FixedThresholdClassifier
    from sklearn.svm import LinearSVC

    names = np.array(answer_names(model))
    offset = np.array(model.offset or np.zeros(len(weights)))
    if model.label.classes is not None and len(names) == 2:  # noqa: PLR2004  scikit-learn has one row for two classes
        weights, offset = weights[1:] - weights[:1], offset[1:] - offset[:1]
    linear = LogisticRegression() if model.loss == LOGISTIC.name else LinearSVC()
    linear.coef_, linear.intercept_, linear.classes_ = np.ascontiguousarray(weights), offset, names
    linear.n_features_in_, linear.n_iter_ = weights.shape[1], np.array([0], dtype=np.int32)
    if not model.threshold:
        return linear
    # It answers with the positive label from its threshold on, the model from above it.
    least = float(np.nextafter(model.threshold, np.inf))
    made = FixedThresholdClassifier(linear, threshold=least, pos_label=names[1], response_method="decision_function")
    made.estimator_ = linear
    return made

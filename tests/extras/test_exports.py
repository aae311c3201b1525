"""Exported models answer as `predict` does: ONNX runtime and scikit-learn's pipeline, on raw records."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from masquerade.exports.onnx_file import to_onnx
from masquerade.exports.provenance import Provenance
from masquerade.prediction import Prediction, predict
from masquerade_core.errors import BadInput
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Feature, Study
from masquerade_core.study_files import read_study_text
from tests import ROOT
from tests.export_helpers import Columns, model_for, model_of, records_for
from tests.extras.exported import by_onnx, by_skops, side_by_side
from tests.messages import raises

EXAMPLES = ROOT / "examples"
STUDIES = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*.toml"))
AGREES = 1e-12

AGE = Feature(name="age", min=0.0, max=120.0)
NARROW = Feature(name="seconds", min=1e9, max=1e9 + 1, missing=1e9 + 0.25)
SEX = Feature(name="sex", levels=("f", "m"))
COLOUR = Feature(name="colour", levels=("red", "?", "blue"), missing="blue")
INCOME = Feature(name="income", edges=(0.0, 1.5, 1e5))
HOURS = Feature(name="hours", min=0.0, max=168.0, edges=(30.0, 40.0), missing=40.0)
ALL = (COLOUR, AGE, INCOME, SEX, NARROW, HOURS)


def chances(prediction: Prediction) -> Any:
    """Return all probabilities in the order of the exported outputs; the margins where there are none."""
    if prediction.probabilities is None:
        return prediction.margins
    if prediction.margins.ndim == 1:
        return np.stack([1 - prediction.probabilities, prediction.probabilities], axis=1)
    exps = np.exp(prediction.margins - prediction.margins.max(axis=1, keepdims=True))
    return exps / exps.sum(axis=1, keepdims=True)


def agree(model: SavedModel, columns: Columns) -> None:
    ours = predict(model, columns)
    wanted = chances(ours)
    answered, pipeline = by_onnx(model, columns), by_skops(model)
    assert answered["label"].tolist() == ours.words()
    scores = ours.margins.reshape(len(ours.words()), -1)
    np.testing.assert_allclose(answered["scores"], scores, rtol=0, atol=AGREES)
    for raw in (side_by_side(columns), pd.DataFrame(columns)):
        assert pipeline.predict(raw).tolist() == ours.words()
        if ours.probabilities is None:
            assert not hasattr(pipeline, "predict_proba")
            margins = pipeline.decision_function(raw)
            if wanted.ndim > 1 and margins.ndim == 1:  # two named classes
                wanted = wanted[:, 1] - wanted[:, 0]
            np.testing.assert_allclose(margins, wanted, rtol=0, atol=AGREES)
        else:
            np.testing.assert_allclose(pipeline.predict_proba(raw), wanted, rtol=0, atol=AGREES)
    if ours.probabilities is None:
        assert "probabilities" not in answered
    else:
        np.testing.assert_allclose(answered["probabilities"], wanted, rtol=0, atol=AGREES)


@pytest.mark.parametrize("name", STUDIES)
def test_onnx_runtime_skops_and_predict_agree_on_records_of_every_example_study(name: str) -> None:
    model = model_for(Study.parse(read_study_text(EXAMPLES / name)))
    columns = records_for(model.encoder, 1000)
    agree(model, columns)
    assert len(set(predict(model, columns).words())) > 1


@pytest.mark.parametrize("rule", ["clamp", "refuse"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"intercept": False},
        {"threshold": 0.75, "offsets": True},
        {"loss": "smoothed-hinge", "threshold": -0.5},
        {"classes": ("a", "b"), "offsets": True},
        {"classes": ("a", "b", "c"), "offsets": True},
        {"classes": ("a", "b", "c"), "loss": "smoothed-hinge"},
        {"classes": ("a", "b"), "loss": "smoothed-hinge"},
    ],
)
def test_they_agree_on_every_kind_of_column_and_of_answer(options: dict[str, Any], rule: str) -> None:
    model = model_of(ALL, rule=rule, **options)
    agree(model, records_for(model.encoder, 300))


@pytest.mark.parametrize("rule", ["clamp", "refuse"])
@pytest.mark.parametrize("features", [(AGE,), (AGE, NARROW), (Feature(name="x", min=-1.0, max=1.0), AGE, NARROW)])
def test_they_agree_where_records_may_be_shorter_than_one(features: tuple[Feature, ...], rule: str) -> None:
    model = model_of(features, rule=rule, intercept=False)
    columns = records_for(model.encoder, 300)
    norms = np.linalg.norm(model.encoder.encode(columns), axis=1)
    assert norms.min() < 0.9  # so dividing by the length itself would be wrong
    agree(model, columns)


def test_a_column_may_have_any_name_that_an_export_uses_itself() -> None:
    names = ("label", "scores", "probabilities", "weights", "offset", "norm", "step_0", "Größe in m²/s")
    features = tuple(Feature(name=name, min=0.0, max=1.0) for name in names)
    model = model_of((*features, Feature(name="one", levels=("label", "x"))))
    columns = records_for(model.encoder, 50)
    answered = by_onnx(model, columns)
    assert answered["label_"].tolist() == predict(model, columns).words()
    np.testing.assert_allclose(answered["scores_"][:, 0], predict(model, columns).margins, atol=AGREES)


BAD: list[tuple[str, Any]] = [
    ("age", -0.5),
    ("age", 120.5),
    ("age", math.nan),
    ("hours", 168.5),
    ("hours", -1.0),
    ("income", math.nan),
    ("sex", "x"),
    ("sex", ""),
    ("colour", "green"),
]


@pytest.mark.parametrize(("column", "cell"), BAD)
def test_a_record_that_the_study_refuses_is_refused_everywhere(column: str, cell: Any) -> None:
    model = model_of(ALL, rule="refuse")
    columns = records_for(model.encoder, 20)
    columns[column][7] = cell
    with raises(BadInput, "cannot_be_labelled", "the data", 1, "20 records", ...) as caught:
        predict(model, columns)
    assert "record 8" in caught.value.message
    answered = by_onnx(model, columns)
    others = [i for i in range(20) if i != 7]
    assert answered["label"][7] == ""
    assert np.isnan(answered["scores"][7]).all()
    assert np.isnan(answered["probabilities"][7]).all()
    fine = {name: cells[others] for name, cells in columns.items()}
    assert answered["label"][others].tolist() == predict(model, fine).words()
    with pytest.raises(ValueError, match=r"unknown categories|NaN"):
        by_skops(model).predict(pd.DataFrame(columns))


def test_a_pipeline_takes_frames_in_any_order_and_with_further_columns() -> None:
    model = model_of(ALL)
    columns = records_for(model.encoder, 40)
    wanted = predict(model, columns).words()
    frame = pd.DataFrame({"id": range(40), **dict(reversed(columns.items()))})
    pipeline = by_skops(model)
    assert pipeline.predict(frame).tolist() == wanted
    assert pipeline.predict(pl.from_pandas(frame, nan_to_null=False)).tolist() == wanted
    with pytest.raises(ValueError, match="missing"):
        pipeline.predict(frame.drop(columns="age"))


@pytest.mark.parametrize("rule", ["clamp", "refuse"])
def test_a_pipeline_takes_what_frames_have_in_the_place_of_missing_cells(rule: str) -> None:
    shade = Feature(name="shade", levels=("light", "?", "dark"))
    model = model_of((COLOUR, NARROW, shade), rule=rule)
    nothing: list[Any] = [None, math.nan, "red", "", "NA", "?"]
    shades: list[Any] = ["dark", None, "", "light", "?", "light"]
    columns: dict[str, list[Any]] = {
        "colour": nothing,
        "seconds": [1e9, math.nan, 1e9 + 1, 1e9, 1e9, 1e9],
        "shade": shades,
    }
    ours = predict(model, columns)
    assert ours.probabilities is not None
    pipeline = by_skops(model)
    found = pipeline.predict_proba(pd.DataFrame(columns, dtype=object))[:, 1]
    np.testing.assert_allclose(found, ours.probabilities, rtol=0, atol=AGREES)
    columns["shade"] = ["light"] * 6
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns, strict=False)):  # these have one kind of missing text
        assert pipeline.predict(frame).tolist() == predict(model, frame).words()


def test_the_same_model_gives_the_same_onnx_file() -> None:
    model = model_of(ALL, rule="refuse", classes=("a", "b", "c"))
    assert to_onnx(model, Provenance.of(model)) == to_onnx(model, Provenance.of(model))

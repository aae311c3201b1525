"""Data frames of Polars: an estimator and a loaded model read them like those of pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from masquerade.estimators import DPGradientDescent
from tests.unit.masquerade.test_estimators import _frame, _public
from tests.unit.masquerade.test_predict import loaded


def test_polars_and_pandas_frames_give_the_same_model() -> None:
    X, y, parties = _frame()
    pandas = _public(DPGradientDescent()).fit(X, y, parties=parties)
    polars = _public(DPGradientDescent()).fit(pl.from_pandas(X), pl.Series("outcome", list(y)), parties=parties)
    assert polars.weights_.tolist() == pandas.weights_.tolist()
    assert polars.predict(pl.from_pandas(X)).tolist() == pandas.predict(X).tolist()
    assert list(polars.feature_names_in_) == list(X.columns)
    assert pandas.study_.label.name == polars.study_.label.name == "outcome"


@pytest.mark.parametrize("rule", ["refuse", "clamp"])
def test_a_frame_of_polars_is_labelled_like_a_mapping(rule: str) -> None:
    columns: dict[str, list[Any]] = {
        "id": ["a", "b", "c", "d"], "stay": [0.5, None, 7.0, None], "sex": ["f", "m", "m", "f"],
        "age": [30.5, 0.0, 120.0, 64.0],
    }  # fmt: skip
    model, frame = loaded(rule=rule), pl.DataFrame(columns)
    wanted = model.predict(columns)
    assert not wanted.bad
    found = model.predict(frame, ids="id")
    np.testing.assert_array_equal(found.margins, wanted.margins)
    assert list(found.ids or ()) == columns["id"]

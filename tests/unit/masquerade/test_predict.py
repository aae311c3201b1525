"""Labels for new records: all faults in one reading, ids passed through, frames and arrays, probabilities."""

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import masquerade
from masquerade.exports.provenance import Provenance
from masquerade.faulty_records import BadRecord, BadRecords
from masquerade.prediction import LoadedModel, predict
from masquerade_core.data.noting import read_table
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature
from tests.export_helpers import Columns, model_of, records_for
from tests.face_helpers import Shell
from tests.messages import raises, says, sentence

AGE = Feature(name="age", min=0.0, max=120.0)
SEX = Feature(name="sex", levels=("f", "m"))
STAY = Feature(name="stay", edges=(1.0, 7.0), missing=2.0)
FEATURES = (AGE, SEX, STAY)

CELL = "zyx-cell"

LINES = (
    "id,age,sex,stay",
    "p1,30,f,3",
    f"p2,{CELL},f,3",
    "p3,121.5,m,3",
    "p4,40,m",
    "",
    f"p5,,{CELL},{CELL}",
    "p6,50,m,",
    "p7,60,f,1,9",
)
BAD = {
    "line 3": ["column 'age' holds text where the study has a number"],
    "line 4": ["column 'age' has a value outside its public bounds, 0 to 120"],
    "line 5": ["has 3 columns, but the first line has 4"],
    "line 7": [
        "column 'age' is empty or missing",
        "column 'sex' has a value that is not one of the study's levels",
        "column 'stay' holds text where the study has a number",
    ],
    "line 9": ["has 5 columns, but the first line has 4"],
}


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    path.write_text("\n".join(LINES) + "\n")
    return path


def loaded(**options: Any) -> LoadedModel:
    model = model_of(FEATURES, **{"rule": "refuse", **options})
    return LoadedModel(**vars(model), provenance=Provenance.of(model))


def saved(folder: Path, **options: Any) -> Path:
    """Write a model as a model.json."""
    model = loaded(**options)
    d, classes = model.encoder.d, model.label.classes
    rows = [
        dict(zip(model.encoder.names, model.weights[i : i + d], strict=True)) for i in range(0, len(model.weights), d)
    ]
    data = {
        "kind": "masquerade model 1", "study": "s", "protocol": "dp-whitened", "run_id": "ab", "epsilon": 1.0,
        "delta": 1e-6, "loss": model.loss, "label": model.label.model_dump(mode="json", exclude_none=True),
        "encoder": model.encoder.to_json(), "release": "weights",
        "weights": rows[0] if classes is None else dict(zip(classes, rows, strict=True)),
    }  # fmt: skip
    path = folder / "model.json"
    path.write_text(json.dumps(data))
    return path


# --- All faults at once -----------------------------------------------------------


def test_all_records_that_do_not_fit_are_named_at_once_and_no_cell_is_shown(
    shell: Shell, table: Path, tmp_path: Path
) -> None:
    model = saved(tmp_path)
    answer = shell.json("predict", model, table)
    assert (answer.code, answer.json["error_code"]) == (4, "bad_input")
    assert answer.data["bad"] == [{"place": place, "reasons": reasons} for place, reasons in BAD.items()]
    assert says(answer.json["message"], "cannot_be_labelled", "new.csv", 5, "7 records", ...)
    assert "--on-error skip" in answer.json["hint"]
    text = shell("predict", model, table)
    assert text.code == 4
    assert text.out == ""
    for place, reasons in BAD.items():
        assert place in " ".join(text.err.split())
        assert all(reason in " ".join(text.err.split()) for reason in reasons)
    assert CELL not in answer.out + text.err


def test_the_others_are_labelled_where_faults_are_skipped(shell: Shell, table: Path, tmp_path: Path) -> None:
    model = saved(tmp_path)
    answer = shell("predict", model, table, "--on-error", "skip", "--id", "id")
    assert answer.code == 0
    rows = list(csv.DictReader(answer.out.splitlines()))
    assert [row["id"] for row in rows] == ["p1", "p2", "p3", "", "p5", "p6", ""]  # lines 5 and 9 are no records
    fine = masquerade.load_model(model).predict({"age": [30, 50], "sex": ["f", "m"], "stay": [3, None]})
    assert [row["ill"] for row in rows] == [fine.words()[0], "", "", "", "", fine.words()[1], ""]
    assert fine.probabilities is not None
    shown = [row["probability"] for row in rows]
    assert shown == [f"{fine.probabilities[0]:.6f}", "", "", "", "", f"{fine.probabilities[1]:.6f}", ""]
    assert "5 skipped" in answer.err
    assert all(place in answer.err for place in BAD)
    assert CELL not in answer.out + answer.err
    data = shell.json("predict", model, table, "--on-error", "skip").data
    assert [label is None for label in data["labels"]] == [word == "" for word in (row["ill"] for row in rows)]
    assert [p is None for p in data["probabilities"]] == [word == "" for word in (row["ill"] for row in rows)]
    assert [bad["place"] for bad in data["bad"]] == list(BAD)


def test_many_places_of_one_fault_are_counted_after_the_first_ten(tmp_path: Path) -> None:
    columns = {"age": [30.0] * 5 + [130.0] * 1_234, "sex": ["f"] * 1_239, "stay": [2.0] * 1_239}
    with pytest.raises(BadRecords) as caught:
        loaded().predict(columns)
    assert "1,234 of 1,239 records" in caught.value.message
    assert "records 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 1,224 more: column 'age'" in caught.value.message
    assert len(caught.value.bad) == 1_234


def test_a_study_that_clamps_has_no_bad_records(shell: Shell, table: Path, tmp_path: Path) -> None:
    answer = shell("predict", saved(tmp_path, rule="clamp"), table)
    assert answer.code == 0
    rows = list(csv.DictReader(answer.out.splitlines()))
    assert len(rows) == 7
    assert all(row["probability"] for row in rows)


@pytest.mark.parametrize("classes", [None, ("a", "b", "c")])
@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_a_skipped_record_has_no_label_and_no_number(classes: Any, loss: str) -> None:
    model = loaded(classes=classes, loss=loss)
    columns = records_for(model.encoder, 20)
    fine = model.predict(columns)
    columns["age"][[3, 11]] = [-1.0, np.nan]
    found = model.predict(columns, on_error="skip")
    assert [record.row for record in found.bad] == [3, 11]
    assert found.bad[0] == BadRecord(3, "record 4", (f"column 'age' {sentence('outside_bounds')}, 0 to 120",))
    for row in range(20):
        if row in {3, 11}:
            assert found.words()[row] == ""
            assert found.labels[row] == (0 if classes is None else -1)
            assert np.isnan(found.margins[row]).all()
            assert np.isnan(found.scores[1][row])
        else:
            assert found.words()[row] == fine.words()[row]
            assert found.scores[1][row] == pytest.approx(fine.scores[1][row], abs=1e-15)


def test_only_the_word_skip_skips() -> None:
    wrong: Any = "ignore"
    with pytest.raises(BadRecords):
        loaded().predict({"age": [-1.0, 50.0], "sex": ["f", "f"], "stay": [1, 2]}, on_error=wrong)


def test_every_single_bad_record_may_be_skipped() -> None:
    found = loaded().predict({"age": [-1.0, 500.0], "sex": ["f", "f"], "stay": [1, 2]}, on_error="skip")
    assert found.words() == ["", ""]


def test_a_level_in_other_capitals_is_no_fault_of_a_record_where_it_counts_as_the_level() -> None:
    strict = loaded()
    model = replace(strict, encoder=replace(strict.encoder, matching="loose"))
    columns = {"age": ["500", "50", "40"], "sex": ["f", "M ", "x"], "stay": ["1", "2", "3"]}
    assert [record.row for record in model.predict(columns, on_error="skip").bad] == [0, 2]
    assert [record.row for record in strict.predict(columns, on_error="skip").bad] == [0, 1, 2]


def test_few_faults_among_many_records_are_found_quickly() -> None:
    n = 50_000
    columns: Columns = {"age": np.full(n, 30.0), "sex": np.full(n, "f", dtype=object), "stay": np.full(n, 2.0)}
    columns["age"][[7, 29_999]] = 130.0
    columns["sex"][40_000] = "x"
    began = time.perf_counter()
    found = loaded().predict(columns, on_error="skip")
    assert [record.row for record in found.bad] == [7, 29_999, 40_000]
    assert time.perf_counter() - began < 10  # one reading for each cell would take minutes


def test_a_table_keeps_broken_lines_only_where_it_is_asked_to(table: Path) -> None:
    with raises(BadInput, "columns_unlike_first", "3 columns", 4) as caught:
        read_table(table, ["age"])
    assert "line 5 " in caught.value.message
    assert read_table(table, ["age"], keeps=True).broken == {3: BAD["line 5"][0], 6: BAD["line 9"][0]}
    assert read_table(table, ["age"], fills=True).broken == {}


# --- Frames, arrays, ids, probabilities --------------------------------------------


def frames(columns: dict[str, list[Any]], folder: Path) -> dict[str, Any]:
    """Return one table in all the forms in which people have one."""
    pq.write_table(pa.table(columns), folder / "t.parquet")
    text = io.StringIO()
    pd.DataFrame(columns).to_csv(text, index=False)
    (folder / "t.csv").write_text(text.getvalue())
    array = np.array([columns[name] for name in ("age", "sex", "stay")], dtype=object).T
    return {
        "mapping": columns,
        "pandas": pd.DataFrame(columns),
        "pandas, categories": pd.DataFrame(columns).astype({"sex": "category"}),
        "arrow": pa.table(columns),
        "array": array,
        "parquet": folder / "t.parquet",
        "csv": str(folder / "t.csv"),
    }


@pytest.mark.parametrize("rule", ["refuse", "clamp"])
def test_arrays_frames_and_files_are_labelled_alike(rule: str, tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {
        "id": ["a", "b", "c", "d"], "stay": [0.5, None, 7.0, None], "sex": ["f", "m", "m", "f"],
        "age": [30.5, 0.0, 120.0, 64.0],
    }  # fmt: skip
    model = loaded(rule=rule)
    wanted = model.predict(columns)
    assert not wanted.bad
    for name, form in frames(columns, tmp_path).items():
        found = model.predict(form)
        np.testing.assert_array_equal(found.margins, wanted.margins, err_msg=name)
        if name != "array":
            assert list(model.predict(form, ids="id").ids or ()) == columns["id"], name
    with raises(BadInput, "data_lack_column", "'id'"):
        model.predict(frames(columns, tmp_path)["array"], ids="id")
    with raises(BadInput, "own_table_lacks_column", ..., "'patient'"):
        model.predict(tmp_path / "t.csv", ids="patient")


def test_an_id_may_be_a_column_of_the_model_and_is_quoted_where_csv_needs_it(shell: Shell, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text('age,sex,stay,"no, 1"\n30,f,3,"a ""b"", c"\n40,m,3,d\n')
    model = saved(tmp_path)
    assert next(iter(csv.reader([shell("predict", model, new, "--id", "age").out.splitlines()[1]])))[0] == "30"
    rows = list(csv.DictReader(shell("predict", model, new, "--id", "no, 1").out.splitlines()))
    assert [row["no, 1"] for row in rows] == ['a "b", c', "d"]
    assert shell.json("predict", model, new, "--id", "no, 1").data["ids"] == ['a "b", c', "d"]


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, ["probability of yes", "probability of not yes"]),
        ({"classes": ("a", "b", "c")}, ["probability of a", "probability of b", "probability of c"]),
        ({"classes": ("a", "b", "c"), "loss": "smoothed-hinge"}, ["margin of a", "margin of b", "margin of c"]),
        ({"loss": "smoothed-hinge"}, ["margin"]),
    ],
)
def test_each_class_has_its_number_where_it_is_asked_for(
    shell: Shell, tmp_path: Path, options: dict[str, Any], columns: list[str]
) -> None:
    new = tmp_path / "new.csv"
    new.write_text("age,sex,stay\n30,f,3\n90,m,0\n")
    path = saved(tmp_path, **options)
    rows = list(csv.DictReader(shell("predict", path, new, "--each-class").out.splitlines()))
    found = masquerade.load_model(path).predict(new)
    assert list(rows[0]) == ["ill", *columns]
    each = found.margins.reshape(2, -1) if found.class_probabilities is None else found.class_probabilities
    shown = [[float(row[name]) for name in columns] for row in rows]
    np.testing.assert_allclose(shown, each, atol=1e-6)
    if "probability" in columns[0]:
        assert [sum(row) for row in shown] == pytest.approx([1, 1], abs=3e-6)
        best = [columns[int(np.argmax(row))].removeprefix("probability of ") for row in shown]
        assert best == [row["ill"] for row in rows]


def test_a_model_labels_records_by_its_own_method(tmp_path: Path) -> None:
    model = masquerade.load_model(saved(tmp_path))
    assert model.provenance.watermark == ""
    columns = records_for(model.encoder, 10)
    assert model.predict(columns).words() == predict(model, columns).words()
    assert masquerade.load_model(tmp_path).weights == model.weights  # a run's folder serves as its model

"""Coefficients where people look at them: the table, estimates.csv, the report's forest plot, the card, predictions."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rich.console import Console

from masquerade.coefficients_view import coefficients_report, read_coefficients
from masquerade.exports.card import card_of, read_card
from masquerade.exports.provenance import Provenance
from masquerade.exports.writing import exported, forms_of
from masquerade.pages import report_page
from masquerade.pages.reading import read_run
from masquerade.pages.weights import forest
from masquerade.prediction import LoadedModel, predict
from masquerade_core.coefficients import AT_MEANS
from masquerade_core.errors import BadInput
from masquerade_core.model import ESTIMATES, Model, model_to_json
from masquerade_core.study import Study
from tests.coefficient_helpers import FEATURES, REASON, coefficients, regression
from tests.face_helpers import Shell
from tests.messages import raises, says
from tests.report_helpers import Read, run_to

if TYPE_CHECKING:
    from masquerade_core.coefficients import Family
    from masquerade_core.saved_model import SavedModel

_HIDDEN = ("stage=iii",)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run whose model was replaced by made-up coefficients."""
    folder = run_to(tmp_path_factory.mktemp("run"), "dp-whitened") / "charlie"
    study = Study.parse((folder / "study.toml").read_text(), in_memory=True)
    made = coefficients(study.covariates, hidden=study.covariates[1:2])
    model = Model((0.0,) * len(study.covariates), None, (0.0,), coefficients=made)
    (folder / "model.json").write_text(json.dumps(model_to_json(model, study, bytes(16))))
    (folder / ESTIMATES).write_text(made.to_csv())
    return folder


def _saved(model: SavedModel, folder: Path) -> Path:
    """Write a model as a model.json."""
    assert model.coefficients is not None
    data = {
        "kind": "masquerade model 1", "study": "s", "protocol": "dp-glm", "run_id": "ab" * 16, "epsilon": 1.0,
        "delta": 1e-6, "label": model.label.model_dump(mode="json", exclude_none=True), "release": "weights",
        "encoder": model.encoder.to_json(), "weights": dict(zip(model.encoder.names, model.weights, strict=True)),
        "offset": list(model.offset), "coefficients": model.coefficients.to_json(),
    }  # fmt: skip
    (folder / "model.json").write_text(json.dumps(data))
    return folder / "model.json"


def _lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# --- Files and tables ---------------------------------------------------------------------


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_estimates_csv_has_all_numbers_exactly_and_none_where_nothing_can_be_told(family: Family) -> None:
    found = coefficients(["age", "=sum, m"], family=family, hidden=["=sum, m"])
    lines = _lines(found.to_csv())
    assert [line["name"] for line in lines] == ["(intercept)", "age", "=sum, m", AT_MEANS]
    for line, row in zip(lines, (*found.rows, found.at_means), strict=True):
        for key, cell in line.items():
            if key not in {"name", "told", "reason"}:
                assert (None if cell == "" else float(cell)) == getattr(row, key)
        assert (line["told"] == "yes", line["reason"]) == (row.told, row.reason)
    assert ("odds" in lines[0]) == (family == "logistic")


def test_a_model_with_coefficients_publishes_them_and_another_does_not(folder: Path) -> None:
    study = Study.parse((folder / "study.toml").read_text(), in_memory=True)
    made = coefficients(study.covariates)
    model = Model((0.0,) * len(study.covariates), None, (0.0,), coefficients=made)
    assert model.files(study, bytes(16))[ESTIMATES] == made.to_csv()
    other = Model((0.0,) * study.d, None)
    assert list(other.files(study, bytes(16))) == ["model.json"]


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_the_table_has_each_number_and_each_reason_and_no_stars(family: Family) -> None:
    found = coefficients(["age", "sex=m"], family=family, hidden=["sex=m"])
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(*coefficients_report(found))
    text = console.export_text()
    row = found.rows[1]
    line = next(line for line in text.splitlines() if line.strip().startswith("age"))
    assert row.odds_low is not None
    numbers = [row.estimate, row.se, row.low, row.high]
    numbers += [row.odds, row.odds_low, row.odds_high] if family == "logistic" else []
    assert [cell for cell in line.split() if cell not in {"age", "to"}] == [*(f"{x:.4g}" for x in numbers), "25", "%"]
    assert says(text, "cannot_tell", "sex=m", REASON)
    assert "*" not in text
    assert ("odds ratio" in text) == (family == "logistic")


@pytest.mark.parametrize("width", [80, 200])
def test_no_number_is_cut_where_a_line_is_short(width: int) -> None:
    names = ["age", "sex=m", "a long name of a column that takes half of a line"]
    found = coefficients(names)
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(*coefficients_report(found))
    text = console.export_text()
    assert "…" not in text
    assert text.count("odds ratio") == 1
    assert (text.count("95 % interval"), text.count("sex=m")) == ((2, 2) if width == 80 else (2, 1))
    for row in found.told[:3]:
        for number in (row.estimate, row.se, row.low, row.high, row.odds, row.odds_low, row.odds_high):
            assert f"{number:.4g}" in text


def test_a_table_of_which_nothing_can_be_told_has_reasons_alone() -> None:
    found = coefficients(["age"], hidden=["(intercept)", "age"])
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(*coefficients_report(found))
    text = console.export_text()
    assert "std err" not in text
    assert text.count(REASON) == 2


# --- The report ---------------------------------------------------------------------------


def test_the_forest_plot_is_estimates_csv_and_grey_where_nothing_can_be_told(folder: Path) -> None:
    page = report_page(read_run(folder))
    read = Read(page)
    lines = _lines((folder / ESTIMATES).read_text())[:-1]
    wanted = {
        f"coefficients.{line['name']}.{key}": float(cell)
        for line in lines
        for key, cell in line.items()
        if key not in {"name", "told", "reason"} and cell
    }
    assert {key: value for key, value in read.numbers.items() if key.startswith("coefficients.")} == wanted
    for field, value, shown in re.findall(
        r'<data data-field="(coefficients[^"]*)" value="([^"]*)">([^<]*)</data>', page
    ):
        text, number = shown.replace("−", "-").replace(",", ""), float(value)
        wanted_text = 100 * number if field.endswith("privacy_share") else number
        assert float(text.removesuffix(" %")) == pytest.approx(wanted_text, rel=0.01)
    assert len([line for line in lines if line["told"] == "no"]) == 1
    assert page.count('class="unknown"') == 1
    assert page.count('class="point"') == len(lines) - 2  # neither the intercept nor the hidden one
    assert REASON in read.text
    assert not any(name.startswith("weights.") for name in read.numbers)


def test_a_real_run_leaves_everybody_the_same_estimates_and_signs_them(tmp_path: Path) -> None:
    root = run_to(tmp_path, "dp-glm")
    texts = {name: (root / name / ESTIMATES).read_text() for name in ("charlie", "north", "south", "west")}
    assert len(set(texts.values())) == 1
    lines = _lines(texts["charlie"])
    assert [line["told"] for line in lines] == ["yes"] * 6
    for line, true in zip(lines[1:3], (1 / 50, -0.5), strict=True):  # age goes from 0 to 100
        assert float(line["estimate"]) == pytest.approx(true, abs=4 * float(line["se"]))
    run = read_run(root / "north")
    assert run.verified
    read = Read(report_page(run))
    assert read.numbers[f"coefficients.{lines[1]['name']}.odds_high"] == float(lines[1]["odds_high"])
    found = read_coefficients(root / "north")
    assert found is not None
    assert found.to_csv() == texts["north"]
    assert read_coefficients(tmp_path) is None
    (root / "north" / ESTIMATES).write_text(texts["north"].replace("yes", "no", 1))
    assert not read_run(root / "north").verified


def test_a_number_is_drawn_for_a_tenth_of_its_range_and_a_level_against_the_first() -> None:
    model = regression(hidden=_HIDDEN)
    plot = forest(model)
    assert plot is not None
    assert [(row.step, row.about) for row in plot.rows[:3]] == [
        (6.0, "for 6 more"),
        (1.0, "against sex=f"),
        (1.0, "against stage=i"),
    ]
    told = [row for row in plot.rows if row.row.told]
    assert plot.reach == max(abs(row.step * x) for row in told for x in (row.row.low or 0, row.row.high or 0))
    assert (plot.at(0.0), plot.at(plot.reach), plot.at(-plot.reach)) == ("50.00%", "98.00%", "2.00%")
    age = told[0].row
    assert told[0].drawn == tuple(6 * float(x or 0) for x in (age.low, age.estimate, age.high))
    assert forest(replace(model, coefficients=None)) is None


# --- Prediction -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_an_interval_is_that_of_the_score_by_the_covariance(family: Family) -> None:
    model = regression(family=family)
    assert model.coefficients is not None
    columns = {"age": [20.0, 50.0, 80.0], "sex": ["f", "m", "m"], "stage": ["i", "ii", "iii"], "dose": [0.5, 1.5, 9.0]}
    a = np.array([[1, 20, 0, 0, 0, 0, 0], [1, 50, 1, 1, 0, 1, 0], [1, 80, 1, 0, 1, 0, 1]], dtype=float)
    eta = a @ np.array([row.estimate for row in model.coefficients.rows])
    se = np.sqrt([x @ np.array(model.coefficients.covariance) @ x for x in a])
    limits = np.stack([eta - 1.959964 * se, eta + 1.959964 * se], axis=1)
    found = predict(model, columns)
    assert found.intervals is not None
    if family == "logistic":
        eta, limits = 1 / (1 + np.exp(-eta)), 1 / (1 + np.exp(-limits))
        assert found.probabilities == pytest.approx(eta)
    else:
        assert (found.scores[0], found.names, found.probabilities) == ("estimate", (), None)
        assert found.margins == pytest.approx(eta)
    assert found.intervals == pytest.approx(limits, rel=1e-6)
    assert found.no_intervals == ""


def test_where_a_coefficient_cannot_be_told_there_is_no_interval_and_the_reason_is_said() -> None:
    columns = {f.name: [f.filler] for f in FEATURES}
    found = predict(regression(hidden=_HIDDEN), columns)
    assert found.intervals is None
    assert says(found.no_intervals, "hidden_so_no_interval", "stage=iii")
    model = regression(hidden=_HIDDEN)
    assert model.coefficients is not None
    refused = replace(model, coefficients=replace(model.coefficients, refused="there are too few records"))
    assert predict(refused, columns).no_intervals == "there are too few records"
    assert predict(replace(model, coefficients=None), columns).no_intervals == ""


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_predict_prints_the_limits_beside_each_answer(shell: Shell, tmp_path: Path, family: Family) -> None:
    model = _saved(regression(family=family), tmp_path)
    (tmp_path / "new.csv").write_text("age,sex,stage,dose\n30,f,i,0\n70,m,iii,3\n")
    answer = shell("predict", model, tmp_path / "new.csv")
    lines = list(csv.reader(io.StringIO(answer.out)))
    assert lines[0] == (["ill", "probability", "low", "high"] if family == "logistic" else ["pressure", "low", "high"])
    for line in lines[1:]:
        value, low, high = map(float, line[-3:])
        assert low < value < high
    told = shell.json("predict", model, tmp_path / "new.csv")
    assert [[float(cell) for cell in line[-2:]] for line in lines[1:]] == told.data["intervals"]


def test_predict_says_why_there_are_no_limits_and_skipped_records_have_none(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("age,sex,stage,dose\n30,f,i,0\n")
    hidden = _saved(regression(hidden=_HIDDEN), tmp_path)
    assert says(shell("predict", hidden, tmp_path / "new.csv").err, "no_intervals_because", ...)
    model = regression()
    strict = replace(model, encoder=replace(model.encoder, out_of_bounds="refuse"))
    (tmp_path / "new.csv").write_text("age,sex,stage,dose\n70,m,ii,3\n300,f,i,0\n30,f,i,0\n")
    found = shell.json("predict", _saved(strict, tmp_path), tmp_path / "new.csv", "--on-error", "skip").data
    (tmp_path / "new.csv").write_text("age,sex,stage,dose\n70,m,ii,3\n30,f,i,0\n")
    good = shell.json("predict", tmp_path / "model.json", tmp_path / "new.csv").data["intervals"]
    assert good[0] != good[1]
    assert found["intervals"] == [good[0], None, good[1]]


# --- Exports --------------------------------------------------------------------------------


def _loaded(model: SavedModel) -> LoadedModel:
    return LoadedModel(**vars(model), provenance=Provenance.of(model))


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_the_card_has_a_row_for_each_coefficient_and_is_read_back(tmp_path: Path, family: Family) -> None:
    model = regression(family=family, hidden=_HIDDEN)
    assert model.coefficients is not None
    text = card_of(Provenance.of(model))
    for row in model.coefficients.rows:
        name = row.name.replace("(", r"\(").replace(")", r"\)").replace("<", r"\<").replace(">", r"\>")
        line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        shown = f"cannot tell: {REASON}" if not row.told else f"| {row.estimate:.4g} | {row.se:.4g} |"
        assert shown in line
    (tmp_path / "card.md").write_text(text)
    assert read_card(tmp_path / "card.md").coefficients() == model.coefficients
    assert ("odds ratio" in text, "tabular-regression" in text) == (family == "logistic", family == "linear")


def test_there_is_no_skops_form_and_all_forms_leave_it_out(shell: Shell, tmp_path: Path) -> None:
    model = _loaded(regression())
    assert forms_of(model) == ("onnx", "card")
    with raises(BadInput, "no_skops_form"):
        exported(model, model.provenance, "skops")


def test_a_card_with_changed_coefficients_is_refused(tmp_path: Path) -> None:
    model = regression()
    about = Provenance.of(model)
    changed = {**about.facts, "coefficients": {**about.facts["coefficients"], "family": "probit"}}
    (tmp_path / "card.md").write_text(card_of(about).replace('"family": "logistic"', '"family": "probit"'))
    assert changed["coefficients"]["family"] == "probit"
    with pytest.raises(BadInput):
        read_card(tmp_path / "card.md")

"""The files of an exported model: read back, changed on their way, opened elsewhere, and refused where they must be."""

import io
import json
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import skops.io
import yaml
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import masquerade
from masquerade.datasets import simulated
from masquerade.demo import prepare
from masquerade.demo.plan import classifiers
from masquerade.exports import extras, reading
from masquerade.exports.card import card_of, read_card
from masquerade.exports.onnx_file import to_onnx
from masquerade.exports.provenance import Provenance
from masquerade.exports.skops_file import pipeline_of, to_skops
from masquerade.exports.writing import FILES, exported, load_run
from masquerade.prediction import load_model, predict
from masquerade.simulation import WATERMARK, load_named, simulate
from masquerade_core.errors import BadInput
from masquerade_core.learning.classifiers import named
from masquerade_core.saved_model import SavedModel
from masquerade_core.study import Feature
from masquerade_protocols import PROTOCOLS
from tests.coefficient_helpers import regression
from tests.export_helpers import model_of, records_for
from tests.extras.exported import by_onnx
from tests.face_helpers import STATEMENT_FIELDS, Shell, records, small_study, split_csv, write_csv
from tests.messages import raises, says, sentence

AGE = Feature(name="age", min=0.0, max=120.0)
FEATURES = (
    Feature(name="colour", levels=("red", "?", "blue"), missing="blue"),
    AGE,
    Feature(name="income", edges=(0.0, 1.5, 1e5)),
    Feature(name="hours", min=0.0, max=168.0, edges=(30.0, 40.0), missing=40.0),
)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def run(shell: Shell, tmp_path: Path) -> Path:
    """The folder of a simulated run."""
    study = small_study(shell, tmp_path / "study.toml", calibration="paper")
    words = ("--data", split_csv(tmp_path / "all.csv"), "--by", "site", "--seed", 1, "--out", tmp_path / "run")
    assert shell("simulate", study, *words).code == 0
    return tmp_path / "run"


def written(model: SavedModel, folder: Path, provenance: Provenance | None = None) -> dict[str, Path]:
    about = provenance or Provenance.of(model)
    paths = {"onnx": folder / "m.onnx", "skops": folder / "m.skops"}
    paths["onnx"].write_bytes(to_onnx(model, about))
    paths["skops"].write_bytes(to_skops(model, about))
    return paths


# --- Read back --------------------------------------------------------------------

OPTIONS: list[dict[str, Any]] = [
    {},
    {"intercept": False, "rule": "refuse"},
    {"threshold": 0.75, "offsets": True},
    {"loss": "smoothed-hinge", "threshold": -0.5},
    {"classes": ("a", "b", "c"), "offsets": True},
    {"features": (AGE,), "intercept": False},
    {"features": (Feature(name="weights", min=0.0, max=1.0), Feature(name="offset", levels=("a", "b")))},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("form", ["onnx", "skops"])
def test_a_model_that_is_read_back_is_the_same(form: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = model_of(**{"features": FEATURES, **options})
    about = Provenance.of(model, "", {"statement": [dict.fromkeys(STATEMENT_FIELDS, "all")], "parties": 3})
    found = load_model(written(model, tmp_path, about)[form])
    for name in (
        "weights",
        "offset",
        "threshold",
        "encoder",
        "label",
        "loss",
        "epsilon",
        "delta",
        "run_id",
        "protocol",
    ):
        assert getattr(found, name) == getattr(model, name)
    assert found.provenance == about


def test_two_named_classes_come_back_from_skops_with_the_same_answers(tmp_path: Path) -> None:
    model = model_of(FEATURES, classes=("a", "b"), offsets=True)
    columns = records_for(model.encoder, 200)
    back, ours = load_model(written(model, tmp_path)["skops"]).predict(columns), predict(model, columns)
    assert back.words() == ours.words()
    assert back.class_probabilities is not None
    assert ours.class_probabilities is not None
    np.testing.assert_allclose(back.class_probabilities, ours.class_probabilities, atol=1e-12)


def test_a_model_travels_on_from_any_of_its_forms(shell: Shell, run: Path, tmp_path: Path) -> None:
    assert shell("export", run, "--to", "all", "-o", tmp_path / "one").code == 0
    assert shell("export", tmp_path / "one" / "model.skops", "--to", "all", "-o", tmp_path / "two").code == 0
    assert shell("export", tmp_path / "two" / "model.onnx", "--to", "all", "-o", tmp_path / "three").code == 0
    for name in ("model.onnx", "MODEL_CARD.md"):
        assert (tmp_path / "three" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()


# --- Changed on the way ------------------------------------------------------------


def _onnx_with(change: Callable[[Any], object], path: Path) -> Path:
    found = onnx.load(path)
    change(found)
    path.write_bytes(found.SerializeToString())
    return path


def _without_check(found: Any) -> None:
    for node in found.graph.node:
        if node.op_type == "GreaterOrEqual":
            node.op_type = "LessOrEqual"


def _other_bound(found: Any) -> None:
    next(t for t in found.graph.initializer if t.name == "high").double_data[0] = 60.0


def _more_weights(found: Any) -> None:
    tensor = next(t for t in found.graph.initializer if t.name == "weights")
    tensor.double_data.append(1.0)
    tensor.dims[0] += 1


def _infinite(found: Any) -> None:
    next(t for t in found.graph.initializer if t.name == "weights").double_data[0] = math.inf


def _elsewhere(found: Any) -> None:
    tensor = next(t for t in found.graph.initializer if t.name == "weights")
    tensor.ClearField("double_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without_check, ("computes_otherwise",)),
        (_other_bound, ("computes_otherwise",)),
        (_more_weights, ("number_of_weights",)),
        (_infinite, ("weight_not_finite",)),
        (_elsewhere, ("number_of_weights",)),
        (lambda found: found.ClearField("metadata_props"), ("run_not_named",)),
        (lambda found: found.ClearField("graph"), ("no_onnx_file", ...)),
    ],
)
def test_an_onnx_file_that_was_changed_is_refused(change: Any, said: tuple[Any, ...], tmp_path: Path) -> None:
    path = written(model_of(FEATURES, rule="refuse"), tmp_path)["onnx"]
    load_model(path)
    with raises(BadInput, *said):
        load_model(_onnx_with(change, path))


def _other_scale(pipeline: Any) -> None:
    branch = dict(pipeline.named_steps["encoding"].transformers_[0:1][0][1].steps)
    branch["share"].scale_ = branch["share"].scale_ / 2


def _strange(pipeline: Any) -> None:
    pipeline.steps.insert(0, ("call", FunctionTransformer(func=partial(print, "hello"))))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_other_scale, ("computes_otherwise",)),
        (_strange, ("objects_of_others",)),
        (lambda pipeline: pipeline.steps.pop(), ("computes_otherwise",)),
        (lambda pipeline: pipeline.steps.insert(1, ("more", StandardScaler())), ("computes_otherwise",)),
        (lambda pipeline: delattr(pipeline, "masquerade_"), ("not_our_skops_file", ...)),
        (lambda pipeline: setattr(pipeline, "masquerade_", "{}"), ("run_not_named",)),
    ],
)
def test_a_skops_file_that_was_changed_is_refused(
    change: Any, said: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_of(FEATURES)
    pipeline = pipeline_of(model, Provenance.of(model))
    path = tmp_path / "m.skops"
    skops.io.dump(pipeline, path)
    load_model(path)
    change(pipeline)
    skops.io.dump(pipeline, path)
    with raises(BadInput, *said):
        load_model(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"hello", b"[]"])
@pytest.mark.parametrize("name", ["m.onnx", "m.skops", "model.json"])
def test_a_file_that_is_no_model_is_refused_in_a_sentence(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        load_model(path)
    assert name in caught.value.message


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", bytes(3 << 20))
    assert path.stat().st_size < 1 << 20
    monkeypatch.setattr(reading, "_MAX_BYTES", 2 << 20)
    with raises(BadInput, "archive_too_large", 2):
        load_model(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "masquerade provenance 2"},
        {"loss": "hope"},
        {"epsilon": "1"},
        {"study": 7},
        {"label": {"name": "ill"}},
        {"encoder": {"features": []}},
        {"more": 1},
        {"statement": [{"view": "all"}]},
        {"statement": "none"},
        {"facts": []},
        {"facts": {"evaluation": {"records": "many"}}},
        {"facts": {"evaluation": {"records": 9, "auc": {"value": 0.5}}}},
    ],
)
def test_a_provenance_of_another_form_is_refused(wrong: dict[str, Any]) -> None:
    about = Provenance.of(model_of(FEATURES))
    assert Provenance.from_text(about.text(), "f") == about
    with pytest.raises(BadInput) as caught:
        Provenance.from_text(json.dumps(about.to_json() | wrong), "f")
    assert re.match(r"(what )?f ", caught.value.message)


# --- Elsewhere ---------------------------------------------------------------------

ALONE = """
import sys
for name in ("masquerade", "masquerade_core", "masquerade_protocols", "masquerade_host", "pydantic", "onnx"):
    sys.modules[name] = None  # importing it is an error
import numpy, skops.io
pipeline = skops.io.load(sys.argv[1], trusted=[])
rows = numpy.array([["blue", 30.0, 2.0, 35.0], ["red", 120.0, -1.0, 99.0]], dtype=object)
print(pipeline.predict_proba(rows)[:, 1].tolist())
print(pipeline.steps[-1][0])
"""


def test_a_skops_file_opens_where_masquerade_is_not_installed(tmp_path: Path) -> None:
    model = model_of(FEATURES, rule="refuse")
    path = written(model, tmp_path, Provenance.of(model, WATERMARK))["skops"]
    done = subprocess.run([sys.executable, "-c", ALONE, path], capture_output=True, text=True, check=True)
    said, step = done.stdout.splitlines()
    cells = {"colour": ["blue", "red"], "age": [30.0, 120.0], "income": [2.0, -1.0], "hours": [35.0, 99.0]}
    assert json.loads(said) == pytest.approx(predict(model, cells).probabilities, abs=1e-12)
    assert WATERMARK in step


@pytest.mark.parametrize(("form", "package"), [("onnx", "onnx"), ("skops", "skops")])
def test_without_its_package_a_form_is_refused_with_the_extra_to_install(
    form: str, package: str, shell: Shell, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("export", run, "--to", form).code == 0

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    for words in (["export", run, "--to", form, "--force"], ["predict", run / f"model.{form}", run / "none.csv"]):
        answer = shell.json(*words)
        assert answer.code == 4
        assert says(answer.json["message"], "needs_package", ..., package)
        assert answer.json["hint"] == sentence("install_it", package)


# --- The card ----------------------------------------------------------------------

HOSTILE = "a`|```json masquerade --- <b> *x* # \"q\" 'r' {1: [2]}"


def hostile() -> SavedModel:
    features = (Feature(name=HOSTILE, min=0.0, max=1.0), Feature(name="---", levels=("```", "| --- |")))
    return model_of(features, label="```json masquerade")


@pytest.mark.parametrize("model", [model_of(FEATURES, rule="refuse", classes=("a", "b", "c")), hostile()])
@pytest.mark.parametrize("watermark", ["", WATERMARK])
def test_a_machine_reads_the_statement_back_from_a_card(model: SavedModel, watermark: str, tmp_path: Path) -> None:
    row = dict.fromkeys(STATEMENT_FIELDS, HOSTILE) | {"epsilon": 0.1 + 0.2, "delta": 1e-300, "assumptions": ["```", ""]}
    about = Provenance.of(model, watermark, {"statement": [row, row], "parties": 3, "calibration": "proven"})
    path = tmp_path / "MODEL_CARD.md"
    path.write_text(card_of(about), encoding="utf-8")
    assert read_card(path) == about
    assert path.read_text(encoding="utf-8").partition("## For machines")[0].count("```") == 2  # no name opens a block
    assert (WATERMARK in path.read_text(encoding="utf-8").partition("## How")[0]) == bool(watermark)


def test_a_cards_front_matter_is_yaml_with_what_was_measured(tmp_path: Path) -> None:
    evaluation = {
        "records": 1234,
        "error": {"value": 0.125, "low": 0.1, "high": 0.15},
        "auc": {"value": 0.9, "low": 0.85, "high": 0.95},
    }
    about = Provenance.of(model_of(FEATURES), "", {"statement": [], "evaluation": evaluation})
    card = card_of(about)
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["pipeline_tag"] == "tabular-classification"
    assert {"differential-privacy", "masquerade", "dp-whitened"} <= set(front["tags"])
    (metric, auc) = front["model-index"][0]["results"][0]["metrics"]
    assert (metric["type"], metric["value"]) == ("accuracy", 0.875)
    assert (auc["type"], auc["value"]) == ("roc_auc", 0.9)
    assert "1,234 records" in card
    assert says(card, "one_person_held")


def test_a_drowned_estimate_is_no_metric() -> None:
    evaluation = {"records": 9, "error": {"value": None, "low": 0.0, "high": 1.0}}
    card = card_of(Provenance.of(model_of(FEATURES), "", {"statement": [], "evaluation": evaluation}))
    assert "model-index" not in card
    assert not says(card, "nothing_measured")


@pytest.mark.parametrize("text", ["", "# no block", "two"])
def test_a_card_without_its_one_block_is_refused(text: str, tmp_path: Path) -> None:
    card = card_of(Provenance.of(model_of(FEATURES)))
    path = tmp_path / "MODEL_CARD.md"
    path.write_text(card + card if text == "two" else text, encoding="utf-8")
    with raises(BadInput, "blocks_of_card", ..., 2 if text == "two" else 0):
        read_card(path)


# --- The command -------------------------------------------------------------------


def test_export_writes_beside_the_model_and_never_over_a_file_unasked(shell: Shell, run: Path) -> None:
    answer = shell.json("export", run / "model.json", "--to", "all")
    assert answer.code == 0
    assert answer.data["watermark"] == WATERMARK
    assert answer.data["statement"] is True
    assert set(answer.data["files"]) == set(FILES)
    before = (run / "MODEL_CARD.md").read_bytes()
    (run / "MODEL_CARD.md").write_bytes(b"mine")
    (run / "model.onnx").unlink()
    answer = shell.json("export", run, "--to", "all")
    assert answer.code == 4
    assert "MODEL_CARD.md is there already" in answer.json["message"] or "model.skops" in answer.json["message"]
    assert not (run / "model.onnx").exists()
    assert shell("export", run, "--to", "card", "--force").code == 0
    assert (run / "MODEL_CARD.md").read_bytes() == before
    assert read_card(run / "MODEL_CARD.md").statement == json.loads((run / "result.json").read_text())["statement"]


def test_a_result_of_another_run_is_not_taken_for_the_models(shell: Shell, run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(result | {"run_id": "00"}))
    answer = shell.json("export", run, "--to", "card")
    assert answer.data["statement"] is False
    assert says(answer.json["message"], "without_statement")
    assert says((run / "MODEL_CARD.md").read_text(), "statement_missing")


def test_a_simulations_mark_is_in_every_form(shell: Shell, run: Path) -> None:
    assert shell("export", run, "--to", "all").code == 0
    found = onnx.load(run / "model.onnx")
    assert found.doc_string.startswith(WATERMARK)
    assert WATERMARK in found.metadata_props[0].value
    pipeline: Pipeline = skops.io.load(run / "model.skops", trusted=[])
    assert WATERMARK in repr(pipeline)
    assert WATERMARK in (run / "MODEL_CARD.md").read_text()
    for name in ("model.json", "model.onnx", "model.skops"):
        loaded = masquerade.load_model(run / name)
        assert loaded.provenance.watermark == WATERMARK
        assert WATERMARK in repr(loaded)


def test_a_run_that_made_no_model_is_named(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"statement": [], "protocol": "summary", "run_id": "00"}))
    answer = shell.json("export", tmp_path, "--to", "onnx")
    assert answer.code == 4
    assert says(answer.json["message"], "run_without_model", ..., "summary")


@pytest.mark.parametrize("protocol", [name for name, entry in PROTOCOLS.items() if entry.makes_model])
def test_the_model_of_every_protocol_travels(protocol: str, tmp_path: Path) -> None:
    rounds = 3 if "\nrounds = " in f"\n{PROTOCOLS[protocol].section_for()}" else None
    plan = prepare(simulated(3, n=300), epsilon=5.0, protocol=protocol, rounds=rounds, directory=tmp_path / "demo")
    study = plan.study
    study = study.model_copy(update={"crypto": study.crypto.model_copy(update={"key_bits": 512})})
    data = load_named({name: plan.data_file(name) for name in study.names}, study)
    votes = {name: named(kind) for name, kind in classifiers(study).items()}
    simulate(study, data, seed=1, classifiers=votes, auxiliary=plan.auxiliary).write(tmp_path / "run")
    model, about = load_run(tmp_path / "run")
    assert about.statement
    columns = records_for(model.encoder, 50)
    ours = model.predict(columns)
    assert by_onnx(exported(model, about, "onnx"), columns)["label"].tolist() == ours.words()
    if model.coefficients is not None:
        with raises(BadInput, "no_skops_form"):
            exported(model, about, "skops")
        return
    pipeline = skops.io.load(io.BytesIO(exported(model, about, "skops")), trusted=[])
    raw = np.array([cells.astype(object) for cells in columns.values()], dtype=object).T
    assert pipeline.predict(raw).tolist() == ours.words()
    if ours.probabilities is not None and ours.margins.ndim == 1:
        np.testing.assert_allclose(pipeline.predict_proba(raw)[:, 1], ours.probabilities, atol=1e-12)


def test_what_simulate_left_is_labelled_alike_from_every_form(shell: Shell, run: Path, tmp_path: Path) -> None:
    assert shell("export", run, "--to", "all").code == 0
    rows = [{"patient": f"p{i}", **row} for i, row in enumerate(records(30, 4))]
    new = write_csv(tmp_path / "new.csv", rows)
    shown = {name: shell("predict", run / name, new, "--id", "patient") for name in ("model.json", "model.onnx")}
    shown["model.skops"] = shell("predict", run / "model.skops", new, "--id", "patient")
    shown["the folder"] = shell("predict", run, new, "--id", "patient")
    assert {answer.code for answer in shown.values()} == {0}
    assert len({answer.out for answer in shown.values()}) == 1
    assert all(WATERMARK in answer.err for answer in shown.values())


@pytest.mark.parametrize("family", ["logistic", "linear"])
@pytest.mark.parametrize("rule", ["clamp", "refuse"])
def test_a_regression_answers_alike_as_onnx_and_is_read_back(tmp_path: Path, family: Any, rule: Any) -> None:
    model = regression(family=family)
    model = replace(model, encoder=replace(model.encoder, out_of_bounds=rule))
    path = tmp_path / "m.onnx"
    path.write_bytes(to_onnx(model, Provenance.of(model)))
    columns = records_for(model.encoder, 200)
    found, wanted = by_onnx(model, columns), predict(model, columns)
    if family == "linear":
        assert np.allclose(found["estimate"][:, 0], wanted.margins)
    else:
        assert wanted.probabilities is not None
        assert np.allclose(found["probabilities"][:, 1], wanted.probabilities)
    read = load_model(path)
    assert (read.coefficients, read.encoder) == (model.coefficients, model.encoder)
    again = predict(read, columns).intervals
    assert again is not None
    assert wanted.intervals is not None
    assert np.allclose(again, wanted.intervals)

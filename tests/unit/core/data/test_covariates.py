"""Covariates: a record's numbers as they are, in treatment coding, and labels that are numbers."""

from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from masquerade.cleaning import clean
from masquerade_core.data import records as records_module
from masquerade_core.data.examining import examine
from masquerade_core.data.loaders import COVARIATES, POINTS
from masquerade_core.data.schema import Covariates, Dataset, Encoder
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.study import Study
from masquerade_protocols.registry import entry_of
from tests.messages import raises, says
from tests.protocol_helpers import make_study

_COLUMNS = """
[[feature]]
name = "age"
min = 0
max = 100

[[feature]]
name = "sex"
levels = ["f", "m"]

[[feature]]
name = "stage"
levels = ["i", "ii", "iii"]

[[feature]]
name = "dose"
edges = [1, 2]
"""
_CELLS = """site,age,sex,stage,dose,y
a,0,f,i,0,1
a,100,m,ii,1,0
b,75,f,iii,5,1
b,50,m,i,1.5,0
"""
_X = [[-1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 1, 0], [0.5, 0, 0, 1, 0, 1], [0, 1, 0, 0, 1, 0]]
_NUMBERS = "y\n-10\n30\n10\n20\n"


def _study(label: str = 'positive = "1"', *, rule: str = "refuse") -> Study:
    text = make_study(2, 1).to_toml()
    head, _, rest = text.partition("[[feature]]")
    text = f"{head}{_COLUMNS}\n[curator]{rest.partition('[curator]')[2]}"
    text = text.replace('positive = "1"', label).replace('out_of_bounds = "refuse"', f'out_of_bounds = "{rule}"')
    return Study.parse(text.replace("min_records = 10", "min_records = 2"), in_memory=True)


def _number(*, rule: str = "refuse") -> Study:
    return _study("min = -10\nmax = 30", rule=rule)


def _file(folder: Path, labels: str = "") -> Path:
    """Write the records, perhaps with other labels."""
    path = folder / "records.csv"
    lines = _CELLS.splitlines()
    if labels:
        lines = [line.rpartition(",")[0] + "," + y for line, y in zip(lines, labels.splitlines(), strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_treatment_coding_has_a_column_for_each_level_but_the_first_and_divides_nothing(tmp_path: Path) -> None:
    study = _study()
    data = COVARIATES.one(_file(tmp_path), study)
    assert data.X.tolist() == _X
    assert data.y.tolist() == [1, -1, 1, -1]
    assert study.covariates == ("age", "sex=m", "stage=ii", "stage=iii", "1<=dose<2", "dose>=2")
    assert Encoder.from_study(study, "treatment").names == study.covariates
    assert [f.reference for f in study.features] == ["", "sex=f", "stage=i", "dose<1"]
    COVARIATES.check(data, study, "records.csv")


@pytest.mark.parametrize("labels", ["", _NUMBERS])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_file_a_stream_and_groups_give_the_same_covariates(tmp_path: Path, labels: str, suffix: str) -> None:
    study, path = _number() if labels else _study(), _file(tmp_path, labels)
    if suffix == "parquet":
        table = pyarrow.csv.read_csv(path)
        path = tmp_path / "records.parquet"
        pq.write_table(table.set_column(5, "y", table["y"].cast("float64" if labels else "string")), path)
    memory, grouped = COVARIATES.one(path, study), COVARIATES.grouped(path, study, "site")
    assert COVARIATES.streamed is not None
    streamed = COVARIATES.streamed(path, study, tmp_path)
    COVARIATES.check(streamed, study, "records.csv")
    assert streamed.coding == memory.coding == streamed.sides(0.5)[0].coding == "treatment"
    assert [part.tolist() for part in streamed.partials(records_module.Whole())] == [
        part.tolist() for part in memory.partials(records_module.Whole())
    ]
    assert np.concatenate([grouped[name].X for name in "ab"]).tolist() == memory.X.tolist() == _X
    assert np.concatenate([grouped[name].y for name in "ab"]).tolist() == memory.y.tolist()
    assert b"".join(map(bytes, streamed.content())) == b"".join(map(bytes, memory.content()))


def test_a_label_that_is_a_number_is_mapped_from_its_bounds(tmp_path: Path) -> None:
    study = _number()
    data = COVARIATES.one(_file(tmp_path, _NUMBERS), study)
    assert data.y.tolist() == [-1, 1, 0, 0.5]
    assert (data.classes, study.classes, study.outputs, study.multiclass) == (0, 0, 1, False)
    assert Study.parse(study.to_toml(), in_memory=True) == study


_FAULTY = "y\n-11\n30\nhigh\n\n"


def test_a_study_that_clamps_moves_and_fills_such_labels(tmp_path: Path) -> None:
    data = COVARIATES.one(_file(tmp_path, _FAULTY), _number(rule="clamp"))
    assert data.y.tolist() == [-1, 1, 0, 0]
    assert (data.repaired.clamped, data.repaired.filled) == (1, 2)


def test_a_study_that_refuses_names_the_lines_of_such_labels(tmp_path: Path) -> None:
    path, study = _file(tmp_path, _FAULTY), _number()
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, *[lines[2]] * 8]) + "\n", encoding="utf-8")
    found = {(fault.column, fault.kind.name, tuple(fault.first)) for fault in examine(path, study).faults}
    assert {(column, places) for column, _, places in found} == {("y", (2,)), ("y", (4,)), ("y", (5,))}
    with pytest.raises(BadInput):
        COVARIATES.one(path, study)
    cleaned = clean(path, _number(rule="clamp"), tmp_path / "mended.csv")
    assert (cleaned.kept, cleaned.dropped) == (12, 0)
    assert COVARIATES.one(tmp_path / "mended.csv", study).y.tolist() == [-1, 1, 0, 0, *[1] * 8]


def test_records_of_the_other_coding_or_of_other_labels_are_refused(tmp_path: Path) -> None:
    path, study = _file(tmp_path), _study()
    with raises(BadInput, "not_encoded", "data", "covariates", ...):
        COVARIATES.check(POINTS.one(path, study), study, "data")
    with raises(BadInput, "not_encoded", "data", "encoded records", ...):
        POINTS.check(COVARIATES.one(path, study), study, "data")
    with raises(BadInput, "other_classes", "of two unnamed classes", "numbers"):
        COVARIATES.check(COVARIATES.one(path, study), _number(), "data")


def test_no_covariate_and_no_label_exceeds_one() -> None:
    one = np.ones((1, 2))
    Covariates(one.copy(), np.array([0.5]), 0)
    for X, y in ((one * 1.01, [0.5]), (one * np.nan, [0.5]), (one, [1.01]), (one, [np.nan])):
        with pytest.raises(LocalProtocolError):
            Covariates(X.copy(), np.array(y), 0)
    with pytest.raises(LocalProtocolError):
        Dataset(one.copy(), np.array([1.0]))


def test_a_protocol_that_tells_values_apart_refuses_a_label_that_is_a_number() -> None:
    with raises(BadInput, "label_is_a_number", "local-aggregation"):
        entry_of(make_study(2, 1).model_copy(update={"label": _number().label}))


def test_such_a_label_is_explained_by_its_bounds() -> None:
    from masquerade.pages.board import subject
    from masquerade.report import _classes

    assert says(_classes(_number().label), "label_is_number", "-10 to 30")
    assert subject(_number()) == "the number “y”"


def test_an_encoder_is_read_back_with_its_coding() -> None:
    encoder = Encoder.from_study(_study(), "treatment")
    assert Encoder.from_json(encoder.to_json()) == encoder
    assert "coding" not in Encoder.from_study(_study()).to_json()
    for change in ({"coding": "other"}, {"intercept": True}):
        with pytest.raises(BadInput):
            Encoder.from_json({**encoder.to_json(), **change})

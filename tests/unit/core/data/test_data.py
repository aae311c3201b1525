"""Records: what the encoder does to them, and what is said of files that cannot be used."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade.columns import parse_feature
from masquerade.draft import Draft
from masquerade_core.data import noting
from masquerade_core.data.blocks import records_of
from masquerade_core.data.file_faults import FaultyFile
from masquerade_core.data.files import Place
from masquerade_core.data.groups import load_grouped
from masquerade_core.data.loading import load_csv, load_records
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.errors import BadInput, LocalProtocolError, MasqueradeError, RefusedLocally
from masquerade_core.study import Feature, PublicKeys, Study
from tests.messages import raises, says


def _key(seed: int) -> str:
    return str(PublicKeys(bytes([seed]) * 32, bytes([seed + 100]) * 32))


STUDY = f"""
[study]
name = "s"
protocol = "local-aggregation"
min_parties = 2
lead = "a"
min_records = 3
deadline_seconds = 600
nonce = "0123456789abcdef"
[privacy]
epsilon = 1
delta = 0
calibration = "paper"
[model]
regularization = 0.01
[label]
name = "diagnosis"
positive = "malignant"
[[feature]]
name = "radius"
min = 0
max = 40
[[feature]]
name = "sex"
levels = ["f", "m"]
[curator]
address = "tcp://localhost:5555"
key = "{_key(1)}"
[[party]]
name = "a"
key = "{_key(2)}"
[[party]]
name = "b"
key = "{_key(3)}"
"""

GOOD = """radius,comment,sex,diagnosis
20,x,f,malignant
40,"y, z",m,benign
0,,m,benign
30,w,f,malignant
"""
CANARY = "86753.09172"


def faults_in(error: FaultyFile) -> list[tuple[str, str, tuple[Place, ...]]]:
    """Return the kind, the column and the first places of each fault that an error tells of."""
    return [(fault.kind.name, fault.column, fault.first) for fault in error.faults]


@pytest.fixture
def study() -> Study:
    """A study of one number and one category, three records at least."""
    return Study.parse(STUDY)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a CSV file and return its path."""

    def _write(text: str | bytes) -> Path:
        path = tmp_path / "data.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return _write


def test_numbers_categories_and_the_constant_make_a_record(study: Study, write: Callable[[str], Path]) -> None:
    data = load_csv(write(GOOD), study)
    raw = np.array([[0, 1, 0, 1], [1, 0, 1, 1], [-1, 0, 1, 1], [0.5, 1, 0, 1]], dtype=float)
    np.testing.assert_allclose(data.X, raw / np.linalg.norm(raw, axis=1)[:, None], rtol=1e-15)
    np.testing.assert_array_equal(data.y, [1, -1, -1, 1])
    assert data.X.shape[1] == study.d == Encoder.from_study(study).d


def test_a_record_inside_the_ball_is_not_scaled(study: Study) -> None:
    encoder = Encoder(study.features[:1], intercept=False)
    np.testing.assert_array_equal(encoder.encode({"radius": ["0", "10", "20"]}), [[-1], [-0.5], [0]])


def test_one_record_does_not_change_how_another_is_encoded(study: Study) -> None:
    encoder = Encoder.from_study(study)
    alone = encoder.encode({"radius": ["3.25"], "sex": ["m"]})
    among = encoder.encode({"radius": ["40", "3.25", "0"], "sex": ["f", "m", "f"]})
    np.testing.assert_array_equal(alone[0], among[1])


def test_columns_may_stand_in_any_order_after_a_byte_order_mark(study: Study, write: Callable[[str], Path]) -> None:
    one = load_csv(write(GOOD), study)
    lines = [line.split(",") for line in GOOD.replace('"y, z"', "y").splitlines()]
    turned = "\r\n".join(",".join(reversed(cells)) for cells in lines) + "\r\n\r\n"
    two = load_csv(write("\ufeff" + turned), study)
    np.testing.assert_array_equal(one.X, two.X)
    np.testing.assert_array_equal(one.y, two.y)


def _columns_in_memory() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Radius and sex as text, and the same as something else."""
    text: dict[str, Any] = {"radius": ["20", "40", "0.1"], "sex": ["f", "m", "m"]}
    numbers = [20, 40.0, 0.1]
    sex = np.array(["f", "m", "m"])
    structured = np.array([(20, "f"), (40, "m"), (0.1, "m")], dtype=[("radius", "f8"), ("sex", "U1")])
    return {
        "list of numbers": (text, text | {"radius": numbers}),
        "numpy floats": (text, {"radius": np.array(numbers), "sex": sex}),
        "numpy integers": (text | {"radius": ["20", "40", "0"]}, {"radius": np.array([20, 40, 0]), "sex": sex}),
        "numpy scalars": (text, {"radius": list(np.array(numbers)), "sex": list(sex)}),
        "single precision": (
            text | {"radius": ["20", "40", "0.10000000149011612"]},
            {"radius": np.array(numbers, "f4"), "sex": sex},
        ),
        "decimals": (text, text | {"radius": [Decimal(20), Decimal("40.0"), Decimal("0.1")]}),
        "structured array": (text, {name: structured[name] for name in ("radius", "sex")}),
    }


@pytest.mark.parametrize("kind", _columns_in_memory())
def test_numbers_are_encoded_as_the_text_that_stands_for_them(study: Study, kind: str) -> None:
    text, other = _columns_in_memory()[kind]
    encoder = Encoder.from_study(study)
    assert encoder.encode(other).tobytes() == encoder.encode(text).tobytes()


def test_numbers_and_truth_values_are_levels_by_their_text() -> None:
    feature = Feature(name="grade", levels=("1", "1.0", "true"))
    encoder = Encoder((feature,), intercept=False)
    cells = [1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True)]
    assert encoder.encode({"grade": cells}).argmax(axis=1).tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"radius": [20.0, float("nan")], "sex": ["f", "m"]}, ("missing_word", "radius", (2,))),
        ({"radius": np.array([20.0, np.nan]), "sex": ["f", "m"]}, ("missing_word", "radius", (2,))),
        ({"radius": [None, 20.0], "sex": ["f", "m"]}, ("empty", "radius", (1,))),
        ({"radius": np.array([20.0, np.inf]), "sex": ["f", "m"]}, ("infinite", "radius", (2,))),
        ({"radius": np.array([20.0, 86753.09172]), "sex": ["f", "m"]}, ("outside", "radius", (2,))),
        ({"radius": [True, False], "sex": ["f", "m"]}, ("text", "radius", (1, 2))),
        ({"radius": [1, date(2020, 1, 1)], "sex": ["f", "m"]}, ("no_cell", "radius", (2,))),
        ({"radius": [1, 2], "sex": ["f", 86753.09172]}, ("level", "sex", (2,))),
        ({"radius": [1, 2]}, ("data_lack_column", "'sex'")),
        ({"radius": [1, 2], "sex": ["f"]}, ("columns_of_two_lengths", "'radius'", "'sex'")),
        ({"radius": 86753.09172, "sex": "f"}, ("column_not_a_list", "'radius'")),
        ({"radius": [1, 2], "sex": "fm"}, ("column_not_a_list", "'sex'")),
        ({"radius": np.ones((2, 2)), "sex": ["f", "m"]}, ("column_not_a_list", "'radius'")),
    ],
)
def test_a_bad_column_in_memory_is_refused_without_showing_a_cell(
    study: Study, columns: dict[str, Any], said: tuple[Any, ...]
) -> None:
    with pytest.raises(BadInput) as caught:
        Encoder.from_study(study).encode(columns)
    error = caught.value
    assert faults_in(error) == [said] if isinstance(error, FaultyFile) else says(error.message, *said)
    assert CANARY not in str(caught.value) + caught.value.hint
    assert caught.value.hint


def test_the_encoder_travels_as_json(study: Study) -> None:
    encoder = Encoder.from_study(study)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    assert again.names == ("radius", "sex=f", "sex=m", "(intercept)")
    for bad in ({}, {"features": [], "intercept": True}, {"features": [{"name": "a"}], "intercept": True}):
        with raises(BadInput, "model_without_encoder"):
            Encoder.from_json(bad)
    with raises(BadInput, "model_without_encoder"):
        Encoder.from_json({**encoder.to_json(), "intercept": 1})


def test_dave_reads_records_without_labels(study: Study, write: Callable[[str], Path]) -> None:
    X = load_records(write("sex,radius\nm,40\n"), Encoder.from_study(study))
    np.testing.assert_allclose(X, np.array([[1, 0, 1, 1]]) / np.sqrt(3))


BAD: list[tuple[str, str | bytes, tuple[str, ...]]] = [
    ("an empty file", "", ("is empty",)),
    ("only column names", "radius,sex,diagnosis\n", ("no records",)),
    ("a missing column", GOOD.replace("radius", "r"), ("no column 'radius'",)),
    ("a misspelt column", GOOD.replace("radius", "radiu"), ("no column 'radius'", "did you mean the column 'radiu'?")),
    ("no label column", GOOD.replace("diagnosis", "d"), ("no column 'diagnosis'",)),
    ("semicolons", GOOD.replace(",", ";"), ("no column 'radius'", "commas")),
    ("a column twice", GOOD.replace("comment", "radius"), ("column 'radius' twice",)),
    ("an empty cell", GOOD.replace("40,", ",", 1), ("line 3", "'radius'", "empty or missing")),
    ("NaN", GOOD.replace("40,", "NaN,", 1), ("line 3", "'radius'", "empty or missing")),
    ("NA", GOOD.replace("40,", "NA,", 1), ("line 3", "'radius'", "empty or missing")),
    ("text for a number", GOOD.replace("40,", f"{CANARY}mm,", 1), ("line 3", "'radius'", "text")),
    ("an underscore", GOOD.replace("40,", "4_0,", 1), ("line 3", "'radius'", "text")),
    ("infinity", GOOD.replace("40,", "-inf,", 1), ("line 3", "'radius'", "infinite")),
    (
        "out of bounds",
        GOOD.replace("40,", f"{CANARY},", 1),
        ("line 3", "'radius'", "outside", "bounds, 0 to 40"),
    ),
    ("below bounds", GOOD.replace("0,,", "-0.01,,"), ("line 4", "'radius'", "outside")),
    ("an unknown level", GOOD.replace(",m,", f",{CANARY},", 1), ("line 3", "'sex'", "'f', 'm'")),
    ("a level with a blank", GOOD.replace(",m,", ", m,", 1), ("line 3", "'sex'", "blanks")),
    ("three classes", GOOD.replace("benign", CANARY, 1), ("'diagnosis' has more than two different values",)),
    ("no positive", GOOD.replace("malignant", CANARY), ("'diagnosis' is never 'malignant'",)),
    ("an empty label", GOOD.replace("benign", "", 1), ("line 3", "'diagnosis' is empty")),
    ("a short line", GOOD.replace("0,,m,benign", "0,m,benign"), ("line 4", "3 columns, but the first line has 4")),
    ("a long line", GOOD.replace("20,x", "20,x,x"), ("line 2", "5 columns, but the first line has 4")),
    ("an open quote", GOOD + '30,"w,f,malignant\n', ("not CSV",)),
    ("not UTF-8", GOOD.encode().replace(b"w,", b"\xff,"), ("not UTF-8",)),
    ("too many lines in one cell", GOOD.replace('"y, z"', '"y\n\n"').replace("0,,", "-1,,"), ("line 6", "'radius'")),
]


@pytest.mark.parametrize(("text", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_file_is_refused_without_showing_a_cell(
    text: str, words: tuple[str, ...], study: Study, write: Callable[[str], Path]
) -> None:
    with pytest.raises(BadInput) as caught:
        load_csv(write(text), study)
    said = f"{caught.value.message} {caught.value.hint}"
    for word in words:
        assert word in said
    error: BaseException | None = caught.value
    while error is not None:  # a traceback shows the causes too
        assert CANARY not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_file_that_is_mended_between_its_two_readings_was_changed(
    study: Study, write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is refused is read once more, to say what is wrong with it."""
    path = write(GOOD.replace("20,x", "x,x"))

    def mended(*args: Any, **options: Any) -> Any:
        write(GOOD)
        return records_of(*args, **options)

    monkeypatch.setattr(noting, "records_of", mended)
    with raises(BadInput, "changed_while_read", path.name):
        load_csv(path, study)


def test_a_missing_file_is_refused(study: Study, tmp_path: Path) -> None:
    with raises(BadInput, "data_file_missing"):
        load_csv(tmp_path / "none.csv", study)
    with raises(BadInput, "folder_without_parquet", ...):
        load_csv(tmp_path, study)


def test_too_few_records_are_refused_without_a_count(study: Study, write: Callable[[str], Path]) -> None:
    short = "".join(GOOD.splitlines(keepends=True)[:3])
    with raises(RefusedLocally, "fewer_than_min_records", ..., 3) as caught:
        load_csv(write(short), study)
    assert caught.value.exit_code == 6
    assert "2" not in caught.value.message + caught.value.hint
    assert len(load_csv(write(short), study, need_label=False).y) == 2  # a public test set may be small


def test_more_records_than_the_study_can_count_are_refused(
    study: Study, write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Study, "max_records", 3)
    with raises(RefusedLocally, "more_than_allowed", ..., ...):
        load_csv(write(GOOD), study)


def _grouped(sizes: dict[str, int]) -> str:
    rows = [f"{i % 40},{'fm'[i % 2]},{('malignant', 'benign')[i % 2]},{s}" for s, n in sizes.items() for i in range(n)]
    return "\n".join(["radius,sex,diagnosis,site", *rows]) + "\n"


def test_one_file_splits_into_its_groups(study: Study, write: Callable[[str], Path]) -> None:
    groups = load_grouped(write(_grouped({"b": 4, "a": 6})), study, "site")
    assert list(groups) == ["b", "a"]
    assert [len(g.y) for g in groups.values()] == [4, 6]
    with raises(RefusedLocally, "of_the_group", "site", "'a'"):
        load_grouped(write(_grouped({"b": 4, "a": 2})), study, "site")
    with raises(BadInput, "file_lacks_column", "'hospital'"):
        load_grouped(write(_grouped({"b": 4})), study, "hospital")
    with raises(BadInput, "group_cell_empty", ..., "'site'"):
        load_grouped(write(_grouped({"": 4})), study, "site")


@pytest.mark.parametrize(("label", "counts_as"), [("benign", -1.0), ("malignant", 1.0)])
def test_a_group_of_one_class_is_read_like_any_other(
    study: Study, write: Callable[[str], Path], label: str, counts_as: float
) -> None:
    text = _grouped({"a": 6}) + f"1,f,{label},b\n" * 4
    assert load_grouped(write(text), study, "site")["b"].y.tolist() == [counts_as] * 4


class TestDataset:
    """The properties of a data set, and the parts that it hides."""

    def test_it_prints_nothing(self) -> None:
        data = Dataset.from_unit_ball([[0.5, 0.25]], [1])
        assert repr(data) == str(data) == "<Dataset: secret>"

    def test_it_cannot_be_changed(self) -> None:
        data = Dataset.from_unit_ball([[0.5, 0.25]], [1])
        with pytest.raises(ValueError):  # noqa: PT011 - NumPy's
            data.X[0, 0] = 1
        assert data.X[0, 0] == 0.5

    @pytest.mark.parametrize(
        ("X", "y"),
        [
            ([[0.6, 0.8000001]], [1]),
            ([[0.6, 0.8]], [0]),
            ([[0.6, 0.8]], [1, 1]),
            ([0.6, 0.8], [1, 1]),
            ([[np.nan, 0.8]], [1]),
        ],
    )
    def test_what_no_bound_would_hold_for_is_refused(self, X: list[list[float]], y: list[float]) -> None:
        with pytest.raises(LocalProtocolError) as caught:
            Dataset.from_unit_ball(X, y)
        assert isinstance(caught.value, MasqueradeError)

    def test_it_survives_a_pickle_for_worker_processes(self) -> None:
        data = Dataset.from_unit_ball([[0.6, 0.8]], [1])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(data)).X, data.X)  # noqa: S301  our own bytes


def test_twenty_thousand_records_load_quickly(study: Study, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = STUDY.replace(
        '[[feature]]\nname = "sex"\nlevels = ["f", "m"]\n',
        "".join(f'[[feature]]\nname = "x{i}"\nmin = -9\nmax = 9\n' for i in range(9)),
    )
    wide = Study.parse(text)
    values = rng.uniform(0, 9, (20_000, 10))
    rows = [",".join(map(repr, row)) + (",malignant" if row[0] > 4 else ",benign") for row in values.tolist()]
    path = tmp_path / "big.csv"
    path.write_text("radius," + ",".join(f"x{i}" for i in range(9)) + ",diagnosis\n" + "\n".join(rows))
    start = process_time()
    data = load_csv(path, wide)
    assert process_time() - start < 2  # 0.15 s on an idle core
    assert data.X.shape == (20_000, 11)
    assert np.linalg.norm(data.X, axis=1).max() <= 1 + 1e-12


def binned(keys: str) -> Study:
    return Study.parse(STUDY.replace("min = 0\nmax = 40\n", keys))


def test_bins_are_named_by_their_edges_and_take_an_edge_into_the_bin_above(write: Callable[[str], Path]) -> None:
    study = binned("edges = [25, 35, 50.5]\n")
    assert study.coordinates[:4] == ("radius<25", "25<=radius<35", "35<=radius<50.5", "radius>=50.5")
    rows = "".join(f"{x},f,{'malignant' if i else 'benign'}\n" for i, x in enumerate((-1e9, 24.9, 25, 35, 50.5, 1e300)))
    X = load_csv(write(f"radius,sex,diagnosis\n{rows}"), study).X
    assert list(X[:, :4].argmax(axis=1)) == [0, 0, 1, 2, 3, 3]
    np.testing.assert_allclose(X[:, :4].max(axis=1), 1 / np.sqrt(3))  # bin, level and constant, clipped
    assert (np.count_nonzero(X[:, :4], axis=1) == 1).all()


def test_bins_with_bounds_refuse_what_lies_outside_and_all_bins_refuse_what_is_no_number(
    write: Callable[[str], Path],
) -> None:
    study = binned("min = 0\nmax = 40\nedges = [10]\n")
    assert len(load_csv(write(GOOD), study).y) > 0
    for study_, cell, kind in (
        (study, "40.5", "outside"),
        (binned("edges = [10]\n"), "inf", "infinite"),
        (binned("edges = [10]\n"), "", "empty"),
        (binned("edges = [10]\n"), "nan", "missing_word"),
        (binned("edges = [10]\n"), "x", "text"),
    ):
        with pytest.raises(FaultyFile) as caught:
            load_csv(write(GOOD.replace("\n20,", f"\n{cell},", 1)), study_)
        assert faults_in(caught.value) == [(kind, "radius", (2,))]
        assert ("0 to 40" in caught.value.message) == (kind == "outside")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("edges = []\n", ("edges_missing",)),
        ("edges = [1, 1]\n", ("edges_not_growing",)),
        ("edges = [2, 1]\n", ("edges_not_growing",)),
        ("edges = [-0.0, 0.0]\n", ("edges_not_growing",)),
        ("edges = [inf]\n", ("key_of_another_kind", "edges, item 1", ..., "a finite number")),
        ("edges = [nan]\n", ("key_of_another_kind", "edges, item 1", ..., "a finite number")),
        ('edges = ["1"]\n', ("key_of_another_kind", "edges, item 1", ..., "a number")),
        ("edges = [true]\n", ("key_of_another_kind", "edges, item 1", ..., "a number")),
        ("edges = 3\n", ("key_of_another_kind", "edges", 3, "a list")),
        ("edges = [1]\nmin = 0\n", ("one_bound_only",)),
        ("edges = [1]\nmin = 1\nmax = 2\n", ("edge_outside_bounds", "1.0", "2.0")),
        ("edges = [3]\nmin = 1\nmax = 2\n", ("edge_outside_bounds", "1.0", "2.0")),
        ('edges = [1]\nlevels = ["a", "b"]\n', ("no_range", ..., ...)),
        ('min = 1\nmax = 2\nedges = [1.5]\nlevels = ["a", "b"]\n', ("no_range", ..., ...)),
        ("", ("no_range", ..., ...)),
    ],
)
def test_edges_that_make_no_bins_are_refused(keys: str, said: tuple[Any, ...]) -> None:
    with raises(BadInput, *said) as caught:
        binned(keys)
    assert ("'radius'" in caught.value.message) == (said[0] != "key_of_another_kind")


def test_edges_travel_with_the_study_the_template_and_the_model() -> None:
    study = binned("min = 0\nmax = 40\nedges = [0.1, 25]\n")
    feature = study.features[0]
    assert Study.parse(study.to_toml()).features == study.features
    assert study.field_hashes() != binned("min = 0\nmax = 40\nedges = [0.1, 26]\n").field_hashes()
    encoder = Encoder.from_study(study)
    assert Encoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder
    assert says(feature.range, "range_in_bins", "0.1, 25")
    assert feature.range.startswith("0 to 40, ")
    assert study.features[1].range == "f, m"
    assert says(binned("edges = [1]\n").features[0].range, "range_in_bins", 1)
    draft = Draft(parties=[("a", None), ("b", None)], features=[feature], protocol="local-aggregation")
    drafted = draft.to_toml()
    assert "edges = [0.1, 25.0]" in drafted


def test_a_feature_on_the_command_line_may_have_edges() -> None:
    assert parse_feature("age:edges:25,35, 50") == Feature(name="age", edges=(25.0, 35.0, 50.0))
    assert parse_feature("a:b:edges:-1") == Feature(name="a:b", edges=(-1.0,))
    assert parse_feature("age:0:120") == Feature(name="age", min=0.0, max=120.0)
    assert parse_feature("sex:f,m") == Feature(name="sex", levels=("f", "m"))
    for text in ("age:edges:", "age:edges:2,1", "age:edges:a", "age:edges:inf"):
        with raises(BadInput, "edges_option_not_growing"):
            parse_feature(text)


# A column with the values of each Arrow type, and the cells of a CSV file that say the same.
KINDS: list[tuple[str, pa.Array, list[str]]] = [
    ("float64", pa.array([0.1, 1 / 3, 40.0, 5e-324]), ["0.1", repr(1 / 3), "40", "5e-324"]),
    ("float32", pa.array([0.1, 1, 2, 3], pa.float32()), [repr(float(np.float32(0.1))), "1", "2", "3"]),
    ("float16", pa.array(np.array([0.5, 1, 2, 3], np.float16)), ["0.5", "1", "2", "3"]),
    ("int8", pa.array([0, 1, 2, 40], pa.int8()), ["0", "1", "2", "40"]),
    ("uint64", pa.array([0, 1, 2, 40], pa.uint64()), ["0", "1", "2", "40"]),
    ("decimal", pa.array([Decimal("0.10"), Decimal(1), Decimal(2), Decimal(3)]), ["0.10", "1", "2", "3"]),
    ("text", pa.array(["0.1", "1e1", " 2", "3"]), ["0.1", "1e1", " 2", "3"]),
    ("large text", pa.array(["0.1", "1", "2", "3"], pa.large_string()), ["0.1", "1", "2", "3"]),
    ("a dictionary", pa.array(["7", "1", "7", "3"]).dictionary_encode(), ["7", "1", "7", "3"]),
]
REST = {
    "sex": pa.array(["f", "m", "m", "f"]),
    "diagnosis": pa.array(["malignant", "benign", "benign", "malignant"]),
    "other": pa.array([b"\x00", b"", None, b"x"]),  # no column of the study: of any type
}


def parquet(path: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


@pytest.mark.parametrize(("radius", "cells"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
@pytest.mark.parametrize("ending", ["parquet", "pq", "PARQUET"])
def test_parquet_gives_what_csv_gives_to_the_bit(
    radius: pa.Array, cells: list[str], ending: str, study: Study, tmp_path: Path, write: Callable[[str], Path]
) -> None:
    path = parquet(tmp_path / f"data.{ending}", radius=radius, **REST)
    rows = zip(cells, *(REST[name].to_pylist() for name in ("sex", "diagnosis")), strict=True)
    same = write("radius,sex,diagnosis\n" + "".join(f"{','.join(row)}\n" for row in rows))
    one, two = load_csv(path, study), load_csv(same, study)
    assert one.X.tobytes() == two.X.tobytes()
    assert one.y.tobytes() == two.y.tobytes()
    encoder = Encoder.from_study(study)
    assert load_records(path, encoder).tobytes() == load_records(same, encoder).tobytes()


def test_parquet_is_read_in_batches_and_grouped_as_csv_is(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("masquerade_core.data.parquet._BATCH", 1000)
    n = 2500  # more than two batches
    rng = np.random.default_rng(5)
    columns = {
        "radius": pa.array(rng.uniform(0, 40, n)),
        "sex": pa.array(rng.choice(["f", "m"], n)),
        "diagnosis": pa.array(rng.choice(["malignant", "benign"], n)),
        "site": pa.array(rng.integers(0, 2, n)),
    }
    path = parquet(tmp_path / "all.parquet", **columns)
    lines = zip(*(map(str, column.to_pylist()) for column in columns.values()), strict=True)
    same = tmp_path / "all.csv"
    same.write_text("radius,sex,diagnosis,site\n" + "\n".join(map(",".join, lines)), encoding="utf-8")
    one, two = load_grouped(path, study, "site"), load_grouped(same, study, "site")
    assert list(one) == list(two)
    assert all(one[name].X.tobytes() == two[name].X.tobytes() for name in one)
    assert all(one[name].y.tobytes() == two[name].y.tobytes() for name in one)


def test_truth_values_and_whole_numbers_are_levels_and_labels_by_their_text(tmp_path: Path) -> None:
    text = STUDY.replace('["f", "m"]', '["false", "true"]').replace('"malignant"', '"4"')
    columns = {
        "radius": pa.array([1, 2, 3]),
        "sex": pa.array([True, False, True]),
        "diagnosis": pa.array([2, 4, 2]),
    }
    data = load_csv(parquet(tmp_path / "d.parquet", **columns), Study.parse(text))
    assert list(data.y) == [-1, 1, -1]
    assert list(data.X[:, 2] > 0) == [True, False, True]


def test_names_with_full_stops_are_plain_columns_in_parquet(tmp_path: Path) -> None:
    encoder = Encoder((Feature(name="emp.var.rate", min=0, max=2), Feature(name="emp", min=0, max=2)), intercept=False)
    path = parquet(
        tmp_path / "d.parquet", emp=pa.array([1.0, 1.0]), **{"emp.var.rate": pa.array([2.0, 0.0]), "x": REST["sex"][:2]}
    )
    np.testing.assert_array_equal(load_records(path, encoder), [[1, 0], [-1, 0]])


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("radius", pa.array([1.0, None, 2.0, 3.0]), ("empty", 2)),
        ("radius", pa.array([1.0, 2.0, float("nan"), 3.0]), ("missing_word", 3)),
        ("radius", pa.array([1.0, 2.0, float("inf"), 3.0]), ("infinite", 3)),
        ("radius", pa.array([1.0, 2.0, 3.0, 86753.09172]), ("outside", 4)),
        ("radius", pa.array(["1", "2", "3", CANARY + "x"]), ("unit", 4)),
        ("radius", pa.nulls(4), ("empty", 1, 2, 3)),
        ("radius", pa.array([True] * 4), ("text", 1, 2, 3)),
        ("sex", pa.array(["f", None, "m", "m"]), ("level_empty", 2)),
        ("sex", pa.array(["f", CANARY, "m", "m"]), ("level", 2)),
        ("diagnosis", pa.array(["malignant", "benign", None, "benign"]), ("label_empty", 3)),
        ("diagnosis", pa.array(["malignant", "benign", CANARY, "benign"]), ("label_third", 3)),
        ("radius", pa.array([[1.0]] * 4), ()),
        ("radius", pa.array([{"a": 1.0}] * 4), ()),
        ("radius", pa.array([b"1"] * 4), ()),
        ("radius", pa.array([b"1"] * 4).dictionary_encode(), ()),
        ("radius", pa.array([date(2026, 1, 1)] * 4), ()),
        ("radius", pa.array([1, 2, 3, 4], pa.duration("s")), ()),
    ],
)
def test_what_is_wrong_in_parquet_is_said_with_column_and_record_and_without_the_cell(
    name: str, column: pa.Array, said: tuple[Any, ...], study: Study, tmp_path: Path
) -> None:
    columns = {"radius": pa.array([1.0, 2.0, 3.0, 4.0]), **REST, name: column}
    with pytest.raises(FaultyFile) as caught:
        load_csv(parquet(tmp_path / "d.parquet", **columns), study)
    assert faults_in(caught.value) == ([(said[0], name, said[1:])] if said else [])
    assert [fault.every for fault in caught.value.faults] == ([len(said) == 4] if said else [])
    assert says(caught.value.message, "unreadable_column", f"{name!r}") == (not said)
    assert CANARY not in said_in_all(caught.value)


def said_in_all(error: BaseException | None) -> str:
    """Everything that a log could show of an error: its own words and those of the errors before it."""
    texts = []
    while error is not None:
        texts += [repr(error), str(error), getattr(error, "hint", "")]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


def test_parquet_lacks_a_column_or_has_it_twice_or_holds_nothing(study: Study, tmp_path: Path) -> None:
    good = {"radius": pa.array([1.0, 2.0, 3.0, 4.0]), **REST}
    with raises(BadInput, "file_lacks_column", "'radius'") as caught:
        load_csv(parquet(tmp_path / "d.parquet", **{**REST, "radiuss": good["radius"]}), study)
    assert says(caught.value.hint, "column_meant", "'radiuss'")
    with raises(BadInput, "file_lacks_column", "'radius'") as caught:
        load_csv(parquet(tmp_path / "d.parquet", **REST), study)
    assert says(caught.value.hint, "schema_names_columns")
    twice = pa.table([*good.values(), good["radius"]], names=[*good, "radius"])
    pq.write_table(twice, tmp_path / "d.parquet")
    with raises(BadInput, "column_twice", "'radius'"):
        load_csv(tmp_path / "d.parquet", study)
    with raises(BadInput, "no_records_below_header"):
        load_csv(parquet(tmp_path / "d.parquet", **{name: column[:0] for name, column in good.items()}), study)


def test_a_damaged_parquet_file_is_said_to_be_one(study: Study, tmp_path: Path) -> None:
    path = parquet(tmp_path / "d.parquet", radius=pa.array(["1", "2", "3", CANARY]), **REST)
    whole = path.read_bytes()
    middle = whole.index(CANARY.encode())
    for damaged in (
        b"",
        b"PAR1",
        GOOD.encode(),
        whole[:-9],
        whole[: middle - 30] + b"\xff" * 60 + whole[middle + 30 :],
    ):
        path.write_bytes(damaged)
        with raises(BadInput, "parquet_damaged") as caught:
            load_csv(path, study)
        assert caught.value.__context__ is None
    with raises(BadInput, "data_file_missing"):
        load_csv(tmp_path / "none.parquet", study)


def test_without_pyarrow_the_error_says_what_to_install(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "d.parquet", radius=pa.array([1.0, 2.0, 3.0, 4.0]), **REST)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with raises(BadInput, "pyarrow_missing", "d.parquet") as caught:
        load_csv(path, study)
    assert says(caught.value.hint, "install_pyarrow")
    assert "CSV" in caught.value.hint


def test_a_run_without_parquet_never_loads_pyarrow() -> None:
    code = "import sys, masquerade_core.data, masquerade.cli; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

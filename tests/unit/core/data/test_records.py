"""Cells that do not fit: clamped and filled where the study says so, and counted for their owner alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade_core.data.file_faults import FaultyFile
from masquerade_core.data.groups import load_grouped
from masquerade_core.data.loading import load_csv, load_records
from masquerade_core.data.records import Repaired, check_size
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.study import Feature, Study
from tests.messages import raises
from tests.unit.core.data.test_data import STUDY

CLAMPS = STUDY.replace("min_records = 3", 'min_records = 3\nout_of_bounds = "clamp"')
SEVERAL = 'classes = ["i", "ii", "iii"]'


def _study(*pairs: tuple[str, str], text: str = CLAMPS) -> Study:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return Study.parse(text)


def _row(study: Study, radius: str, sex: str) -> list[float]:
    """Return how a record is encoded that needs no repair."""
    encoded: list[float] = Encoder.from_study(study).encode({"radius": [radius], "sex": [sex]})[0].tolist()
    return encoded


def _read(tmp_path: Path, study: Study, *lines: str, name: str = "data.csv") -> Dataset:
    path = tmp_path / name
    path.write_text("radius,sex,diagnosis\n" + "".join(f"{line}\n" for line in lines))
    return load_csv(path, study, need_label=False)


@pytest.mark.parametrize(
    ("cells", "counts_as", "clamped", "filled"),
    [
        ("41,f", ("40", "f"), 1, 0),
        ("-1e300,f", ("0", "f"), 1, 0),
        ("inf,f", ("40", "f"), 1, 0),
        ("-inf,m", ("0", "m"), 1, 0),
        (",f", ("20", "f"), 0, 1),
        ("NaN,f", ("20", "f"), 0, 1),
        ("12mm,f", ("20", "f"), 0, 1),
        ("1_2,f", ("20", "f"), 0, 1),
        ("12,x", ("12", "f"), 0, 1),
        ("12,", ("12", "f"), 0, 1),
        ("12, m", ("12", "f"), 0, 1),
        ("99,?", ("40", "f"), 1, 1),
        ("40,m", ("40", "m"), 0, 0),
        ("0,m", ("0", "m"), 0, 0),
    ],
)
def test_a_cell_that_does_not_fit_counts_as_a_public_value(
    tmp_path: Path, cells: str, counts_as: tuple[str, str], clamped: int, filled: int
) -> None:
    study = _study()
    data = _read(tmp_path, study, "7,m,malignant", f"{cells},benign", "8,f,benign")
    assert data.X.tolist() == [_row(study, "7", "m"), _row(study, *counts_as), _row(study, "8", "f")]
    assert data.repaired == Repaired(clamped, filled)


@pytest.mark.parametrize("cell", ["41", "-1", "inf", "", "NaN", "12mm"])
def test_a_study_that_refuses_does_so_as_before(tmp_path: Path, cell: str) -> None:
    with pytest.raises(FaultyFile) as caught:
        _read(tmp_path, _study(text=STUDY), "7,m,malignant", f"{cell},f,benign")
    assert [(fault.column, fault.first) for fault in caught.value.faults] == [("radius", (3,))]


@pytest.mark.parametrize("rule", ["clamp", "refuse"])
def test_the_study_s_missing_value_and_level_stand_for_missing_cells_under_either_rule(
    tmp_path: Path, rule: str
) -> None:
    study = _study(
        ('"clamp"', f'"{rule}"'),
        ("max = 40", "max = 40\nmissing = 12.5"),
        ('levels = ["f", "m"]', 'levels = ["f", "m"]\nmissing = "m"'),
    )
    data = _read(tmp_path, study, "NA,f,malignant", "7,,benign", ",?,benign")
    assert data.X.tolist() == [_row(study, "12.5", "f"), _row(study, "7", "m"), _row(study, "12.5", "m")]
    assert data.repaired == Repaired(0, 4)
    if rule == "refuse":  # what is there and wrong is another matter
        for cells, column in (("12mm,f", "radius"), ("41,f", "radius"), ("12,x", "sex")):
            with pytest.raises(FaultyFile) as caught:
                _read(tmp_path, study, "7,f,benign", f"{cells},benign")
            assert [(fault.column, fault.first) for fault in caught.value.faults] == [(column, (3,))]


def test_the_level_of_missing_values_is_the_first_choice_for_unknown_ones(tmp_path: Path) -> None:
    study = _study(('["f", "m"]', '["f", "m", "?"]'))
    data = _read(tmp_path, study, "7,x,malignant", "7,,benign")
    assert data.X.tolist() == [_row(study, "7", "?")] * 2
    assert data.repaired == Repaired(0, 1)  # an empty cell is a level here


def test_bins_without_bounds_have_a_value_for_missing_cells_too(tmp_path: Path) -> None:
    study = _study(("min = 0\nmax = 40", "edges = [10, 20, 40]"))
    data = _read(tmp_path, study, "inf,f,malignant", ",f,benign", "-1e9,f,benign")
    assert data.X[:, :4].argmax(axis=1).tolist() == [3, 2, 0]  # 25 lies between the edges 20 and 40
    assert data.repaired == Repaired(0, 1)


@pytest.mark.parametrize(
    ("label", "cells", "y", "filled"),
    [
        ('positive = "malignant"', ["malignant", "", "??", "x", "malignant "], [1, -1, -1, -1, -1], 1),
        (SEVERAL, ["ii", "", "iv", "iii", "I"], [1, 0, 0, 2, 0], 3),
    ],
)
def test_a_label_that_the_study_does_not_know_is_no_reason_to_refuse(
    tmp_path: Path, label: str, cells: list[str], y: list[float], filled: int
) -> None:
    study = _study(('positive = "malignant"', label))
    data = _read(tmp_path, study, *(f"7,f,{cell}" for cell in cells))
    assert data.y.tolist() == y
    assert data.repaired == Repaired(0, filled)
    with pytest.raises(FaultyFile) as caught:
        _read(tmp_path, _study(('positive = "malignant"', label), text=STUDY), *(f"7,f,{cell}" for cell in cells))
    assert {fault.column for fault in caught.value.faults} == {"diagnosis"}


def test_a_line_with_another_number_of_cells_is_a_record_of_missing_cells(tmp_path: Path) -> None:
    study = _study()
    data = _read(tmp_path, study, "7,m,malignant", "7,1,m,malignant", "7,m", "8,f,benign")
    assert data.X.tolist() == [_row(study, "7", "m"), *[_row(study, "20", "f")] * 2, _row(study, "8", "f")]
    assert data.y.tolist() == [1, -1, -1, -1]
    assert data.repaired == Repaired(0, 6)


@pytest.mark.parametrize(
    ("line", "radius", "sex"),
    [
        (b'7,"m"x,benign', "7", "f"),  # "mx" is no level
        (b"7,\xff,benign", "7", "f"),
        (b"\xff7,m,benign", "20", "m"),
        (b'7,"m', "20", "f"),  # the quote swallows the rest of the file
    ],
)
def test_bytes_and_quotes_that_cannot_be_read_are_no_reason_to_refuse(
    tmp_path: Path, line: bytes, radius: str, sex: str
) -> None:
    study = _study()
    (tmp_path / "d.csv").write_bytes(b"radius,sex,diagnosis\n8,f,malignant\n" + line + b"\n")
    data = load_csv(tmp_path / "d.csv", study, need_label=False)
    assert data.X.tolist() == [_row(study, "8", "f"), _row(study, radius, sex)]
    with pytest.raises(FaultyFile) as caught:
        load_csv(tmp_path / "d.csv", _study(text=STUDY), need_label=False)
    assert caught.value.faults[0].kind.name == ("encoding" if b"\xff" in line else "quotes")


def test_columns_in_memory_are_repaired_like_a_file_s() -> None:
    encoder = Encoder.from_study(_study())
    radius: list[Any] = [41, float("nan"), float("inf"), None, object(), True]
    X, repaired = encoder.encode_counted({"radius": radius, "sex": ["m", 3, None, "f", "f", "f"]})
    cells = [("40", "m"), ("20", "f"), ("40", "f"), *[("20", "f")] * 3]
    assert X.tolist() == [_row(_study(), *pair) for pair in cells]
    assert repaired == Repaired(2, 6)
    array = np.array([41, np.nan, -np.inf, 7.5, 20, 20])
    X, repaired = encoder.encode_counted({"radius": array, "sex": ["f"] * 6})
    assert X.tolist() == [_row(_study(), text, "f") for text in ("40", "20", "0", "7.5", "20", "20")]
    assert repaired == Repaired(2, 1)


def test_what_was_repaired_is_not_shown_by_its_repr() -> None:
    assert "41" not in repr(Repaired(41, 17))
    assert "17" not in repr(Repaired(41, 17))


def test_a_prediction_follows_the_rule_of_the_training(tmp_path: Path) -> None:
    study = _study()
    encoder = Encoder.from_json(json.loads(json.dumps(Encoder.from_study(study).to_json())))
    assert encoder == Encoder.from_study(study)
    (tmp_path / "new.csv").write_text("radius,sex\n99,x\n")
    assert load_records(tmp_path / "new.csv", encoder).tolist() == [_row(study, "40", "f")]
    assert "out_of_bounds" not in Encoder.from_study(_study(text=STUDY)).to_json()  # an old model is read as before
    for bad in ("squeeze", 1, ["clamp"]):
        with raises(BadInput, "model_without_encoder"):
            Encoder.from_json({**encoder.to_json(), "out_of_bounds": bad})


def test_one_file_of_all_parties_is_repaired_alike(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("radius,sex,diagnosis,site\n" + "99,x,benign,a\n" * 3 + "7,m,malignant,b\n" * 3)
    groups = load_grouped(path, _study(), "site")
    assert groups["a"].X.tolist() == [_row(_study(), "40", "f")] * 3
    assert groups["b"].y.tolist() == [1.0] * 3


# --- What a study may say ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"clamp"', '"squeeze"'), '[study] out_of_bounds is "squeeze", but must be "refuse" or "clamp"'),
        (("max = 40", "max = 40\nmissing = 41"), "missing = 41.0, but it must lie between min 0.0 and max 40.0"),
        (("max = 40", 'max = 40\nmissing = "f"'), "missing = 'f', but it must be a number"),
        (('["f", "m"]', '["f", "m"]\nmissing = "x"'), "missing = 'x', but it must be one of the levels: f, m"),
        (('["f", "m"]', '["f", "m"]\nmissing = 1'), "missing = 1.0, but it must be one of the levels: f, m"),
        (
            ("min_records = 3", "min_records = 3\nmax_records = 2"),
            "[study] has max_records = 2, but it must be",
        ),
        (("min_records = 3", "min_records = 3\nmax_records = 2147483648"), "and at most 2147483647"),
        (('name = "b"\n', 'name = "b"\nmax_records = 2\n'), "party 'b' has max_records = 2, but it must be"),
        (('name = "b"\n', 'name = "b"\nmax_records = 2147483648\n'), "and at most 2147483647"),
    ],
)
def test_a_study_that_contradicts_itself_is_explained(change: tuple[str, str], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        _study(change)
    assert words in caught.value.message
    assert caught.value.exit_code == 4


def test_a_party_s_own_largest_number_goes_before_the_study_s() -> None:
    study = _study()
    assert (study.most_of("a"), study.most_records) == (2**31 - 1, 2 * (2**31 - 1))
    study = _study(
        ("min_records = 3", "min_records = 3\nmax_records = 50"), ('name = "b"\n', 'name = "b"\nmax_records = 70\n')
    )
    assert [study.most_of(name) for name in ("a", "b")] == [50, 70]
    assert (study.max_records, study.most_records, study.fewest_records) == (70, 120, 6)
    assert Study.parse(study.to_toml()) == study


@pytest.mark.parametrize(("party", "most"), [("a", 50), ("b", 70), ("", 70)])
def test_a_party_with_more_records_than_are_public_refuses_at_home(party: str, most: int) -> None:
    study = _study(
        ("min_records = 3", "min_records = 3\nmax_records = 50"), ('name = "b"\n', 'name = "b"\nmax_records = 70\n')
    )
    check_size(most, study, "data.csv", party)
    with raises(RefusedLocally, "more_than_allowed", "data.csv", most) as caught:
        check_size(most + 1, study, "data.csv", party)
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    ("feature", "filler"),
    [
        (Feature(name="x", min=-4, max=10), 3.0),
        (Feature(name="x", min=-4, max=10, missing=-4), -4),
        (Feature(name="x", min=-1e308, max=7e307), -1.5e307),
        (Feature(name="x", edges=(1, 2, 9)), 5.0),
        (Feature(name="x", min=0, max=9, edges=(1, 2)), 4.5),
        (Feature(name="x", levels=("a", "b")), "a"),
        (Feature(name="x", levels=("a", "?")), "?"),
        (Feature(name="x", levels=("a", "b"), missing="b"), "b"),
    ],
)
def test_the_value_of_missing_cells_follows_from_public_ranges(feature: Feature, filler: float | str) -> None:
    assert feature.filler == filler


# --- The pages --------------------------------------------------------------------------


def test_the_page_on_records_says_what_a_study_may_say() -> None:
    page = Path("docs/data.md").read_text(encoding="utf-8")
    example = page.split("## Cells that do not fit")[1].split("```toml\n")[1].split("```")[0]
    head, *features = example.split("[[feature]]\n")
    assert (
        head == '[study]\nout_of_bounds = "clamp"    # or "refuse", which is what counts where the line is left out\n\n'
    )
    study = _study(
        ('[[feature]]\nname = "radius"\nmin = 0\nmax = 40\n', f"[[feature]]\n{features[0]}"),
        ('[[feature]]\nname = "sex"\nlevels = ["f", "m"]\n', f"[[feature]]\n{features[1]}"),
    )
    assert [feature.filler for feature in study.features] == [36.6, "m"]
    assert Feature(name="temperature", min=30.0, max=45.0).filler == 37.5
    assert _study(text=STUDY).study.out_of_bounds == "refuse"


def test_the_page_on_studies_says_where_limits_stand() -> None:
    page = Path("docs/studies.md").read_text(encoding="utf-8")
    example = page.split("## How many records a party may have")[1].split("```toml\n")[1].split("```")[0]
    study = _study(
        ("min_records = 3\n", "".join(line + "\n" for line in example.splitlines()[1:3])),
        ('name = "b"\n', f'name = "b"\n{example.splitlines()[-1]}\n'),
    )
    assert (study.study.min_records, study.most_of("a"), study.most_of("b")) == (100, 50_000, 8_000)

"""A file that looks like a mistake is refused before a person's yes, and not on the day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from masquerade_core.data.examining import DoubtfulFile, examine, looks_like_dates, looks_like_ids
from masquerade_core.data.file_faults import THIRD, FaultyFile
from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from tests.messages import raises
from tests.unit.core.data.test_data import STUDY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLAMPS = STUDY.replace("[study]\n", '[study]\nout_of_bounds = "clamp"\n')
LOOSE = STUDY.replace("[study]\n", '[study]\nout_of_bounds = "clamp"\nmatching = "loose"\n')
STRICT_LOOSE = STUDY.replace("[study]\n", '[study]\nmatching = "loose"\n')
CLASSES = 'classes = ["benign", "malignant", "rare"]'
HEAD = "radius,sex,diagnosis\n"
N = 100

Cells = dict[str, "Callable[[int], object]"]
GOOD: Cells = {
    "radius": lambda i: i % 37 + 0.5,
    "sex": lambda i: "fm"[i % 2],
    "diagnosis": lambda i: ("benign", "malignant")[i % 3 == 0],
}


def table(**other: Callable[[int], object]) -> str:
    columns = GOOD | other
    return (
        ",".join(columns) + "\n" + "".join(",".join(str(cell(i)) for cell in columns.values()) + "\n" for i in range(N))
    )


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        (tmp_path / "data.csv").write_text(text, encoding="utf-8")
        return tmp_path / "data.csv"

    return write


def test_good_records_have_no_doubts(file: Callable[[str], Path]) -> None:
    for study in (STUDY, CLAMPS, LOOSE, STRICT_LOOSE):
        found = examine(file(table()), Study.parse(study))
        assert (found.doubts, found.faults, found.check()) == ((), (), ())


DOUBTFUL: dict[str, tuple[dict[str, Callable[[int], object]], str, str, str]] = {
    # name: (columns, study, the doubted column, the kind)
    "all positives but one in other capitals": (
        {"diagnosis": lambda i: ("benign", "Malignant" if i else "malignant")[i % 3 == 0]},
        CLAMPS,
        "diagnosis",
        "value",
    ),
    "levels in other capitals": ({"sex": lambda i: "FM"[i % 2]}, CLAMPS, "sex", "value"),
    "one cell in other capitals": ({"sex": lambda i: "F" if i == 5 else "fm"[i % 2]}, CLAMPS, "sex", "value"),
    "other levels": ({"sex": lambda i: ("w", "m")[i % 2]}, LOOSE, "sex", "value"),
    "a number in another form": ({"sex": lambda i: ("1.0", "m")[i % 2]}, LOOSE.replace('"f"', '"1"'), "sex", "value"),
    "decimal commas": ({"radius": lambda i: f'"{i % 37},5"'}, CLAMPS, "radius", "value"),
    "dates as text": ({"radius": lambda i: f"2024-01-{i % 28 + 1:02}"}, CLAMPS, "radius", "value"),
    "a third label": ({"diagnosis": lambda i: ("benign", "malignant", "unclear")[i % 3]}, CLAMPS, "diagnosis", "value"),
    "an empty label": ({"diagnosis": lambda i: "" if i == 7 else GOOD["diagnosis"](i)}, CLAMPS, "diagnosis", "value"),
    "a label that is no class": (
        {"diagnosis": lambda i: "odd" if i == 7 else GOOD["diagnosis"](i)},
        LOOSE.replace('positive = "malignant"', CLASSES),
        "diagnosis",
        "value",
    ),
    "a broken line": (
        {"diagnosis": lambda i: "benign,4" if i == 7 else GOOD["diagnosis"](i)},
        CLAMPS,
        "lines",
        "value",
    ),
    "a number for missing cells": (
        {"radius": lambda i: 9999 if i % 9 == 4 else i % 37},
        CLAMPS,
        "radius",
        "missing_code",
    ),
    "a negative number for missing cells": (
        {"radius": lambda i: "-1.0" if i % 30 == 4 else i % 37},
        CLAMPS,
        "radius",
        "missing_code",
    ),
    "numbers for missing cells beside other numbers out of bounds": (
        {"radius": lambda i: (99, -9, 41, 999, 42)[i % 5] if i < 10 else i % 37},
        CLAMPS,
        "radius",
        "missing_code",
    ),
    "another unit": ({"radius": lambda i: (i % 37 + 0.5) * 10}, CLAMPS, "radius", "repaired"),
    "many empty cells": ({"radius": lambda i: "?" if i % 4 else i % 37}, CLAMPS, "radius", "repaired"),
    "never positive": ({"diagnosis": lambda _: "benign"}, CLAMPS, "diagnosis", "one_class"),
    "always positive": ({"diagnosis": lambda _: "malignant"}, STUDY, "diagnosis", "one_class"),
    "one class of three": (
        {"diagnosis": lambda _: "benign"},
        STUDY.replace('positive = "malignant"', CLASSES),
        "diagnosis",
        "one_class",
    ),
    "a constant number": ({"radius": lambda _: 7}, STUDY, "radius", "constant"),
    "a constant level": ({"sex": lambda _: "f"}, STUDY, "sex", "constant"),
    "numbered records": ({"radius": lambda i: i + 3}, STUDY.replace("max = 40", "max = 4000"), "radius", "identifier"),
    "numbers of patients": (
        {"radius": lambda i: 700_000 + i * i * 7},
        STUDY.replace("max = 40", "max = 40000000"),
        "radius",
        "identifier",
    ),
    "dates as numbers": (
        {"radius": lambda i: 20240000 + 100 * (i % 12 + 1) + i % 28 + 1},
        STUDY.replace("max = 40", "max = 40000000"),
        "radius",
        "date",
    ),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_mistake_is_doubted_until_it_is_accepted_by_name(name: str, file: Callable[[str], Path]) -> None:
    columns, text, column, kind = DOUBTFUL[name]
    study, path = Study.parse(text), file(table(**columns))
    found = examine(path, study)
    assert {(doubt.column, doubt.kind) for doubt in found.doubts} == {(column, kind)}
    with raises(DoubtfulFile, "looks_like_a_mistake", "data.csv") as caught:
        found.check()
    assert f"--accept {column}" in str(caught.value.hint)
    assert found.check([column]) == (column,)
    # On the day the same file is read, whatever its cells hold.
    assert load_csv(path, study).n in {N, N - (column == "lines")}


@pytest.mark.parametrize("cells", [[999, 999], [9998] * 5, [99, 99, 99, 41, 42, 43, 44]])
def test_numbers_out_of_bounds_that_are_few_or_no_word_for_missing_count_as_the_bound(
    cells: list[int], file: Callable[[str], Path]
) -> None:
    found = examine(file(table(radius=lambda i: cells[i] if i < len(cells) else i % 37)), Study.parse(CLAMPS))
    assert found.check() == ()
    assert [(fault.kind.name, fault.count, fault.kind.rename) for fault in found.repaired] == [
        ("outside", len(cells), "")
    ]


def test_nines_within_the_bounds_are_numbers(file: Callable[[str], Path]) -> None:
    wide = Study.parse(CLAMPS.replace("max = 40", "max = 9999"))
    assert examine(file(table(radius=lambda i: 9999 if i % 9 == 4 else i % 37)), wide).check() == ()


def test_every_doubt_must_be_accepted_and_none_in_vain(file: Callable[[str], Path]) -> None:
    found = examine(file(table(sex=lambda _: "f", radius=lambda _: 7)), Study.parse(STUDY))
    with raises(DoubtfulFile, "column_says_the_same", "'radius'"):
        found.check(["sex"])
    with raises(BadInput, "accepted_in_vain", "age", "data.csv"):
        found.check(["sex", "radius", "age"])
    assert found.check(["sex", "radius", "sex"]) == ("sex", "radius")


def test_no_cell_is_shown_and_the_nearest_level_is(file: Callable[[str], Path]) -> None:
    wide = LOOSE.replace('["f", "m"]', '["female", "male", "unknown"]')
    for cell, meant in (("fem.", "female"), ("MALE!", "male"), ("unxnown", "unknown")):
        odd = table(sex=lambda i, cell=cell: cell if i == 9 else ("female", "male")[i % 2])  # type: ignore[misc]
        error = examine(file(odd), Study.parse(wide)).doubtful()
        assert error is not None
        assert f"perhaps {meant!r} is meant" in error.message
        assert cell not in f"{error.message} {error.hint}"
        assert "line 11" in error.message


def test_too_few_records_for_a_doubt_are_not_doubted(file: Callable[[str], Path]) -> None:
    few = HEAD + "".join(f"{i},f,{('benign', 'malignant')[i % 2]}\n" for i in range(29))
    assert examine(file(few), Study.parse(STUDY)).doubts == ()
    one_more = few + "29,f,malignant\n"
    assert {doubt.kind for doubt in examine(file(one_more), Study.parse(STUDY)).doubts} == {"constant"}


def test_a_fifth_may_be_filled_or_moved_and_not_more(file: Callable[[str], Path]) -> None:
    def outside(count: int) -> str:
        return table(radius=lambda i: 41 + i / 8 if i < count // 2 else "" if i < count else i % 37 + 0.5)

    assert examine(file(outside(20)), Study.parse(CLAMPS)).doubts == ()
    assert [d.kind for d in examine(file(outside(21)), Study.parse(CLAMPS)).doubts] == ["repaired"]


@pytest.mark.parametrize("text", [LOOSE, STRICT_LOOSE], ids=["clamp", "refuse"])
def test_a_loose_study_reads_capitals_and_blanks_as_meant_and_says_so(text: str, file: Callable[[str], Path]) -> None:
    study, plain = Study.parse(text), load_csv(file(table()), Study.parse(STUDY))
    odd = table(
        sex=lambda i: (" F", "m ")[i % 2] if i % 5 == 0 else "fm"[i % 2],
        diagnosis=lambda i: (" Benign", "MALIGNANT ")[i % 3 == 0] if i % 7 == 0 else GOOD["diagnosis"](i),
    )
    path = file(odd)
    read = load_csv(path, study)
    np.testing.assert_array_equal(read.X, plain.X)
    np.testing.assert_array_equal(read.y, plain.y)
    assert not read.repaired
    found = examine(path, study)
    assert found.check() == ()
    assert {(fault.column, fault.kind.name, fault.count) for fault in found.repaired} == {
        ("sex", "level_matched", 20),
        ("diagnosis", "label_matched", 5),
    }
    classes = Study.parse(text.replace('positive = "malignant"', CLASSES))
    np.testing.assert_array_equal(load_csv(path, classes).y, (plain.y + 1) / 2)


def test_what_is_not_clear_is_not_matched(file: Callable[[str], Path]) -> None:
    two = Study.parse(LOOSE.replace('["f", "m"]', '["F", "f", "m"]'))
    found = examine(file(table(sex=lambda i: (" f", "m", "F ")[i % 3])), two)
    assert {fault.kind.name for fault in found.faults} == {"level_matched"}  # the blanks alone decide
    unclear = Study.parse(LOOSE.replace('["f", "m"]', '["Ab", "aB", "m"]'))
    found = examine(file(table(sex=lambda i: ("AB", "m")[i % 2])), unclear)
    assert [doubt.kind for doubt in found.doubts] == ["value"]


def test_a_model_keeps_how_levels_are_matched() -> None:
    encoder = Encoder.from_study(Study.parse(LOOSE))
    assert Encoder.from_json(encoder.to_json()) == encoder
    assert encoder.to_json()["matching"] == "loose"
    np.testing.assert_array_equal(
        encoder.encode({"radius": [1, 2], "sex": [" F ", "M"]}), encoder.encode({"radius": [1, 2], "sex": ["f", "m"]})
    )
    exact = Encoder.from_study(Study.parse(STUDY))
    assert "matching" not in exact.to_json()
    with pytest.raises(BadInput):
        exact.encode({"radius": [1], "sex": ["F"]})
    with pytest.raises(BadInput):
        Encoder.from_json(exact.to_json() | {"matching": "vague"})


def test_a_label_of_a_loose_study_has_two_values_and_no_third(file: Callable[[str], Path]) -> None:
    study = Study.parse(STRICT_LOOSE)
    third = table(diagnosis=lambda i: ("benign", "Malignant", "unclear")[i % 3])
    with pytest.raises(FaultyFile) as caught:
        load_csv(file(third), study)
    assert [(fault.column, fault.kind) for fault in caught.value.faults] == [("diagnosis", THIRD)]


def test_numbers_that_only_look_like_an_identifier_or_a_date() -> None:
    counted = np.arange(300, dtype=np.float64)
    ages, doses = counted % 80 + 18.0, counted * 1000.0
    assert not looks_like_ids(ages)
    assert not looks_like_ids(doses)
    assert looks_like_ids(counted + 10.0)
    assert (looks_like_ids(counted[:49]), looks_like_ids(counted[:50])) == (False, True)
    assert not looks_like_dates(np.array([20241301.0, 20240101.0]))
    assert not looks_like_dates(np.array([1024.0]))
    assert looks_like_dates(np.array([20241231.0, 18500101.0]))
    assert not looks_like_dates(np.empty(0))

"""A table as hospitals have them becomes records in one round of mending, and they are those of the clean table."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from masquerade.draft import Draft, throwaway_key
from masquerade.looking import look, write_mended
from masquerade.own_table import read_names
from masquerade_core.data.examining import examine
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label, Study
from tests.face_helpers import Shell
from tests.messages import raises, says

if TYPE_CHECKING:
    from collections.abc import Callable

N = 90
FEATURES = (
    Feature(name="age", min=0.0, max=120.0, missing=50.0),
    Feature(name="dose", min=0.0, max=5000.0),
    Feature(name="sex", levels=("f", "m")),
)
STUDY = Study.parse(
    Draft(
        parties=[(f"p{k}", throwaway_key()) for k in (1, 2)],
        curator_key=throwaway_key(),
        features=FEATURES,
        label=Label(name="outcome", positive="yes"),
        min_records=10,
    ).to_toml(),
    in_memory=True,
)

Row = dict[str, str]


def _row(i: int) -> Row:
    return {
        "age": str(20 + i % 60),
        "dose": f"{1000 + 37.5 * (i % 71):.1f}",
        "sex": "fm"[i % 2],
        "outcome": ("no", "yes")[i % 3 == 0],
    }


def _bytes(
    change: Callable[[int, Row], Row] = lambda _, row: row, separator: str = ",", encoding: str = "utf-8"
) -> bytes:
    rows = [change(i, _row(i)) for i in range(N)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=separator, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode(encoding)


def _decimal_commas(_: int, row: Row) -> Row:
    return row | {"dose": row["dose"].replace(".", ",")}


def _thousands(_: int, row: Row) -> Row:
    whole, part = row["dose"].split(".")
    return row | {"dose": f"{whole[:-3]}.{whole[-3:]},{part}"}


def _dashes(i: int, row: Row) -> Row:
    return row | ({"age": "-"} if i % 11 == 0 else {})


def _words(i: int, row: Row) -> Row:
    return row | ({"age": "NA"} if i % 11 == 0 else {})


def _capitals(i: int, row: Row) -> Row:
    label = " Yes" if row["outcome"] == "yes" else "No"
    return row | ({"sex": row["sex"].upper(), "outcome": label} if i % 4 else {})


def _dotted(i: int, row: Row) -> Row:
    return _decimal_commas(i, row) | {"count": f"{1 + i % 7}.{i * 37 % 1000:03}"}


def _percent(i: int, row: Row) -> Row:
    return row | {"dose": f"{row['dose']} %" if i % 2 else f"{row['dose']}%"}


def _lines_as_one(before: bytes, row: bytes = b"", after: bytes = b"") -> bytes:
    """Return a table with lines before the names, a line below them, and lines at its end."""
    names, _, rest = _bytes().partition(b"\n")
    return before + names + b"\n" + row + rest + after


def _nines(i: int, row: Row) -> Row:
    return row | ({"age": ("9999", "-99")[i % 2]} if i % 11 == 0 else {})


TABLES: dict[str, tuple[bytes, bool]] = {
    # name: (the file, whether a study reads it only when it was mended)
    "clean.csv": (_bytes(), False),
    "with_a_mark.csv": (b"\xef\xbb\xbf" + _bytes(), False),
    "decimal_commas.csv": (_bytes(_decimal_commas, ";"), True),
    "quoted_commas.csv": (_bytes(_decimal_commas), True),
    "thousands.csv": (_bytes(_thousands, ";"), True),
    "semicolons.csv": (_bytes(separator=";"), True),
    "tabs.csv": (_bytes(separator="\t"), True),
    "bars.csv": (_bytes(separator="|"), True),
    "western.csv": (_bytes(lambda _, row: row | {"ward": "Süd"}, encoding="latin-1"), True),
    "utf16.csv": (_bytes(encoding="utf-16"), True),
    "packed.csv.gz": (gzip.compress(_bytes()), False),
    "lines.csv": (_bytes(lambda i, row: row | {"note": "a\nb" if i % 5 else "c"}), False),
    "dates.csv": (_bytes(lambda i, row: {"visit": f"{i % 28 + 1}.{i % 12 + 1}.2023"} | row), False),
    "numbers.csv": (_bytes(lambda i, row: {"patient": str(500_000 + 77 * i)} | row), False),
    "capitals.csv": (_bytes(_capitals), False),
    "words.csv": (_bytes(_words), False),
    "dashes.csv": (_bytes(_dashes), True),
    "nines.csv": (_bytes(_nines), True),
    "dotted.csv": (_bytes(_dotted, ";"), True),
    "percent.csv": (_bytes(_percent), True),
    "units.csv": (_lines_as_one(b"", b"years,mg,,\n"), True),
    "comments.csv": (_lines_as_one(b"# made by hand\r\n#, of ward 7\r\n\r\n"), True),
    "sep.csv": (_lines_as_one(b"sep=,\r\n"), True),
    "end.csv": (_lines_as_one(b"", after=b"\n,,,\n\n"), True),
    "trailing.csv": (_bytes(separator=";").replace(b"\n", b";\r\n"), True),
    "longer.csv": (_bytes().replace(b"\n", b",,\n").replace(b",,", b"", 1), True),
}  # fmt: skip


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.mark.parametrize("name", TABLES)
def test_each_table_becomes_the_same_records_with_at_most_one_mending(name: str, shell: Shell, tmp_path: Path) -> None:
    content, mends = TABLES[name]
    path, clean = tmp_path / name, tmp_path / "expected.csv"
    path.write_bytes(content)
    filled = name in {"words.csv", "dashes.csv", "nines.csv"}
    clean.write_bytes(_bytes(_words) if filled else _bytes())
    answer = shell.json("data", "look", path, "--label", "outcome", "--out", tmp_path / "mended.csv")
    assert answer.code == 0, answer.out
    assert bool(answer.data["mends"]) is mends
    kinds = {column["name"]: column["kind"] for column in answer.data["columns"]}
    expected = {"age": "number", "dose": "number", "sex": "category", "outcome": "label"}
    apart = {"visit": "date", "patient": "identifier", "ward": "constant", "note": "category", "count": "number"}
    assert kinds == expected | {name: kind for name, kind in apart.items() if name in kinds}
    wanted = load_csv(clean, STUDY)
    if name == "dotted.csv":
        with (tmp_path / "mended.csv").open(encoding="utf-8", newline="") as file:
            assert [row["count"] for row in csv.DictReader(file)] == [
                _dotted(i, _row(i))["count"].replace(".", "") for i in range(N)
            ]
    read = tmp_path / "mended.csv" if mends else path
    assert examine(read, STUDY).check() == ()
    got = load_csv(read, STUDY)
    np.testing.assert_array_equal(got.X, wanted.X)
    np.testing.assert_array_equal(got.y, wanted.y)
    # Without the mending it is refused, or doubted; but for nines, which a study moves to the bound.
    if mends and name != "nines.csv":
        with pytest.raises(BadInput):
            examine(path, STUDY).check()


def test_a_draft_has_no_bound_and_no_level_and_a_person_fills_it_in(shell: Shell, tmp_path: Path) -> None:
    path, draft = tmp_path / "records.csv", tmp_path / "columns.toml"
    path.write_bytes(_bytes(lambda i, row: {"patient": str(500_000 + 77 * i)} | row))
    answer = shell("data", "look", path, "--label", "outcome", "--draft", draft)
    assert answer.code == 0
    text = draft.read_text(encoding="utf-8")
    cells = {cell for i in range(N) for cell in _row(i).values()}
    assert not [cell for cell in cells - {"f", "m", "no"} if cell in text]
    assert "".join(line for line in text.splitlines() if line[:1] != "#").count("?") == 2 * 2 + 2 + 1
    assert "patient" not in text
    words = ["study", "new", "--output", tmp_path / "s.toml", "--throwaway-keys", "--features-from", draft]
    assert shell(*words).code == 4  # as long as a question mark stands there
    filled = text.replace("min = ?", "min = 0.0").replace("max = ?", "max = 5000.0")
    filled = filled.replace('["?", "?"]', '["f", "m"]').replace('positive = "?"', 'positive = "yes"')
    draft.write_text(filled, encoding="utf-8")
    assert shell(*words).code == 0
    made = tomllib.loads((tmp_path / "s.toml").read_text(encoding="utf-8"))
    assert [feature["name"] for feature in made["feature"]] == ["age", "dose", "sex"]
    assert made["label"] == {"name": "outcome", "positive": "yes"}


def test_records_without_a_label_are_left_out_of_the_copy(shell: Shell, tmp_path: Path) -> None:
    path, out = tmp_path / "records.csv", tmp_path / "mended.csv"
    path.write_bytes(_bytes(lambda i, row: row | ({"outcome": ""} if i % 10 == 0 else {})))
    assert says(shell("data", "look", path, "--label", "outcome", "--out", out).err, "copy_of_records", ..., 81)
    assert load_csv(out, STUDY).n == 81
    assert shell("data", "look", path, "--out", out).code == 4  # it is there, and is not overwritten
    assert look(path).mends == ()  # nobody said which column the label is


def test_columns_of_one_name_are_told_apart_unless_one_is_the_label(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    lines = [f"{i},{20 + i % 60},{i % 9},{('no', 'yes')[i % 2]}" for i in range(N)]
    path.write_text("\n".join([",age,age,outcome", *lines]) + "\n", encoding="utf-8")
    found = look(path, "outcome")
    assert [column.name for column in found.columns] == ["column 1", "age", "age 2", "outcome"]
    assert found.mends == ("columns without a name", "columns of one name")
    path.write_text("\n".join(["a,age,outcome,outcome", *lines]) + "\n", encoding="utf-8")
    with raises(BadInput, "column_twice", "'outcome'"):
        look(path, "outcome")


def test_a_line_of_names_may_begin_with_the_mark_of_comments(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(b"# of ward 7\n#" + _bytes())
    found = look(path, "outcome")
    assert [column.name for column in found.columns] == ["#age", "dose", "sex", "outcome"]
    assert [heading.name for heading in read_names(path)] == ["#age", "dose", "sex", "outcome"]


def test_nines_that_may_be_measured_stay(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(_bytes(lambda i, row: row | {"age": str(80 + i % 20), "dose": str(979 + i % 21)}))
    assert look(path, "outcome").mends == ()


def test_percent_signs_in_some_cells_alone_are_not_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(_bytes(lambda i, row: row | ({"dose": f"{row['dose']}%"} if i % 9 == 0 else {})))
    found = {column.name: column for column in look(path, "outcome").columns}
    assert "percent signs" in found["dose"].notes
    assert look(path, "outcome").mends == ()


def _three(i: int, row: Row) -> Row:
    return row | ({"outcome": "unknown"} if i % 10 == 0 else {"outcome": " YES"} if i % 4 == 0 else {})


def test_a_label_of_three_values_is_refused_with_the_command_that_keeps_two_of_them(
    shell: Shell, tmp_path: Path
) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(_bytes(_three))
    refused = shell("data", "look", path, "--label", "outcome", "--draft", tmp_path / "none.toml")
    assert refused.code == 4
    assert says(refused.err, "label_of_many_values", 3)
    assert not (tmp_path / "none.toml").exists()
    command = re.search(
        "masquerade (data look .*)", shell.json("data", "look", path, "--label", "outcome").json["hint"]
    )
    assert command is not None
    words = shlex.split(command[1])
    assert shell(*words).code == 0
    out = Path(words[-1])
    assert load_csv(out, STUDY).n == 81
    assert look(out, "outcome").refused is None
    assert look(path, "outcome:yes,no,unknown").refused is None  # for a protocol that tells classes apart
    assert look(path, "outcome:yes,no,unknown").mends == ()
    assert 'classes = ["yes", "no", "unknown"]' in look(path, "outcome:yes,no,unknown").draft
    assert 'positive = "yes"' in look(out, "outcome:yes").draft


@pytest.mark.parametrize(
    ("label", "key"), [("outcome", "label_of_one_value"), ("outcome:dead", "looked_label_is_never")]
)
def test_a_label_from_which_nothing_can_be_learned_is_refused(
    shell: Shell, tmp_path: Path, label: str, key: str
) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(_bytes(lambda _, row: row | {"outcome": "yes"}))
    answer = shell("data", "look", path, "--label", label)
    assert answer.code == 4
    assert says(answer.err, key, "'outcome'", *(["'dead'"] if key == "looked_label_is_never" else []))


def test_words_for_a_missing_label_are_labels_where_no_two_others_are(tmp_path: Path) -> None:
    path, out = tmp_path / "records.csv", tmp_path / "mended.csv"
    for words, mends in ((("none", "some"), ()), (("NA", "yes", "no"), ("records without a label",))):
        lines = [f"{i},{words[i % len(words)]}" for i in range(N)]
        path.write_text("\n".join(["age,outcome", *lines]) + "\n", encoding="utf-8")
        assert look(path, "outcome").mends == mends
    write_mended(look(path, "outcome"), out)
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1 + N * 2 // 3


def test_a_number_to_predict_has_bounds_in_the_draft(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(_bytes())
    found = look(path, "dose")
    assert found.refused is None
    assert '[label]\nname = "dose"\nmin = ?\nmax = ?\n' in found.draft


def test_dashes_in_a_category_are_missing_cells_but_for_minus_signs(tmp_path: Path) -> None:
    path, out = tmp_path / "records.csv", tmp_path / "mended.csv"
    path.write_bytes(_bytes(lambda i, row: row | {"sex": "-" if i % 10 == 0 else row["sex"], "smear": "+-"[i % 2]}))
    found = look(path, "outcome")
    kinds = {column.name: (column.kind, column.missing) for column in found.columns}
    assert kinds["sex"] == ("category", 9)
    assert kinds["smear"] == ("category", 0)
    write_mended(found, out)
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["sex"] == "" for row in rows] == [i % 10 == 0 for i in range(N)]
    assert {row["smear"] for row in rows} == {"+", "-"}


def test_dates_are_known_with_the_names_of_months_and_as_excel_numbers_them(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(
        _bytes(
            lambda i, row: (
                row
                | {
                    "seen": f"{i % 28 + 1:02}-Okt-23",
                    "left": f"May {i % 28 + 1}, 2023",
                    "day": str(45_000 + i * 7 % 45),
                }
            )
        )
    )
    found = {column.name: column for column in look(path).columns}
    assert {name: found[name].kind for name in ("seen", "left", "day")} == {
        "seen": "date",
        "left": "date",
        "day": "number",
    }
    assert any("Excel" in note for note in found["day"].notes)
    assert not found["dose"].notes


def test_a_table_packed_with_zstd_is_read_where_pyarrow_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.csv.zst"
    path.write_bytes(pa.compress(_bytes(), codec="zstd", asbytes=True))
    found = look(path, "outcome")
    assert found.records == N
    assert not found.mends
    assert [heading.name for heading in read_names(path)] == list(_row(0))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with raises(BadInput, "packed_with_zstd", "records.csv.zst"):
        look(path)


def test_a_number_with_text_is_a_number_and_the_text_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(_bytes(lambda i, row: row | ({"dose": "n.d."} if i % 45 == 0 else {})))
    found = {column.name: column for column in look(path, "outcome").columns}
    assert found["dose"].kind == "number"
    assert any("2 cells of text" in note for note in found["dose"].notes)


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(_bytes())
    with raises(BadInput, "own_table_lacks_column", "records.csv", "'death'"):
        look(path, "death")
    (tmp_path / "broken.csv.gz").write_bytes(gzip.compress(_bytes())[:60])
    for name, content in (
        ("zeros.csv", b"a,b\n\0\0,1\n"),
        ("empty.csv", b""),
        ("book.csv", b"PK\x03\x04\x14\0"),
        ("broken.csv.zst", pa.compress(_bytes(), codec="zstd", asbytes=True)[:60]),
    ):
        (tmp_path / name).write_bytes(content)
    for name in ("broken.csv.gz", "broken.csv.zst", "book.csv", "zeros.csv", "empty.csv", "none.csv"):
        with pytest.raises(BadInput) as caught:
            look(tmp_path / name)
        assert caught.value.hint

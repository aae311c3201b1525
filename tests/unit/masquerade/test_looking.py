"""A table as hospitals have them becomes records in one round of mending, and they are those of the clean table."""

from __future__ import annotations

import csv
import gzip
import io
import tomllib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from masquerade.draft import Draft, throwaway_key
from masquerade.looking import look
from masquerade_core.data.examining import examine
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label, Study
from tests.face_helpers import Shell
from tests.messages import raises, says

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    "packed.csv.gz": (gzip.compress(_bytes()), True),
    "lines.csv": (_bytes(lambda i, row: row | {"note": "a\nb" if i % 5 else "c"}), False),
    "dates.csv": (_bytes(lambda i, row: {"visit": f"{i % 28 + 1}.{i % 12 + 1}.2023"} | row), False),
    "numbers.csv": (_bytes(lambda i, row: {"patient": str(500_000 + 77 * i)} | row), False),
    "capitals.csv": (_bytes(_capitals), False),
    "words.csv": (_bytes(_words), False),
    "dashes.csv": (_bytes(_dashes), True),
}  # fmt: skip


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.mark.parametrize("name", TABLES)
def test_each_table_becomes_the_same_records_with_at_most_one_mending(name: str, shell: Shell, tmp_path: Path) -> None:
    content, mends = TABLES[name]
    path, clean = tmp_path / name, tmp_path / "expected.csv"
    path.write_bytes(content)
    filled = name in {"words.csv", "dashes.csv"}
    clean.write_bytes(_bytes(_words) if filled else _bytes())
    answer = shell.json("data", "look", path, "--label", "outcome", "--out", tmp_path / "mended.csv")
    assert answer.code == 0, answer.out
    assert bool(answer.data["mends"]) is mends
    kinds = {column["name"]: column["kind"] for column in answer.data["columns"]}
    expected = {"age": "number", "dose": "number", "sex": "category", "outcome": "label"}
    apart = {"visit": "date", "patient": "identifier", "ward": "constant", "note": "category"}
    assert kinds == expected | {name: kind for name, kind in apart.items() if name in kinds}
    wanted = load_csv(clean, STUDY)
    read = tmp_path / "mended.csv" if mends else path
    assert examine(read, STUDY).check() == ()
    got = load_csv(read, STUDY)
    np.testing.assert_array_equal(got.X, wanted.X)
    np.testing.assert_array_equal(got.y, wanted.y)
    if mends:  # and without the mending it is refused, or something in it is doubted
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
    assert text.count("?") == 2 * 2 + 2 + 1
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
    for name, content in (("zeros.csv", b"a,b\n\0\0,1\n"), ("empty.csv", b"")):
        (tmp_path / name).write_bytes(content)
    for name in ("broken.csv.gz", "zeros.csv", "empty.csv", "none.csv"):
        with pytest.raises(BadInput) as caught:
            look(tmp_path / name)
        assert caught.value.hint

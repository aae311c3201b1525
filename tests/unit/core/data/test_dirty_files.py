"""Files as people have them: one reading says all that is wrong, what to do about it, and shows no cell."""

import gzip
import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade_core.data import blocks, files
from masquerade_core.data.arrow import CsvColumns
from masquerade_core.data.examining import examine
from masquerade_core.data.file_faults import FaultyFile
from masquerade_core.data.files import TextTable, parse_lines
from masquerade_core.data.groups import load_grouped
from masquerade_core.data.loading import load_csv, stream_csv
from masquerade_core.data.noting import read_table
from masquerade_core.data.schema import Encoder
from masquerade_core.study import Study
from tests.messages import says
from tests.unit.core.data.test_data import CANARY, STUDY

N = 2000
HEAD = "radius,comment,sex,diagnosis"
CLASSES = STUDY.replace('positive = "malignant"', 'classes = ["benign", "malignant"]')


def rows(**columns: dict[int, str]) -> list[list[str]]:
    """Return the records of a good file; ``radius={3: "x"}`` puts a cell into the file's line 3."""
    made = [[str(i % 40), "x", "fm"[i % 2], ("malignant", "benign")[i % 3 > 0]] for i in range(N)]
    for name, cells in columns.items():
        for line, cell in cells.items():
            made[line - 2][HEAD.split(",").index(name)] = cell
    return made


def csv(head: str = HEAD, separator: str = ",", **columns: dict[int, str]) -> str:
    lines = [separator.join(head.split(",")), *(separator.join(row) for row in rows(**columns))]
    return "\n".join(lines) + "\n"


def _zip(text: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", text)
    return file.getvalue()


def _parquet(path: Path) -> bytes:
    pq.write_table(pa.table({"radius": [1.0]}), path)
    return path.read_bytes()


QUESTIONS = dict.fromkeys(range(7, 7 + 1420), "?")
DIRT: dict[str, tuple[str | bytes, Sequence[str], Sequence[str]]] = {
    "semicolons": (
        csv(separator=";"),
        ["has semicolons between its cells, where commas belong"],
        ["save the table as CSV with commas"],
    ),
    "semicolons, decimal commas and capitals at once": (
        csv(separator=";", radius={4: "7,5", 6: "8,25"}, sex={9: "F"}),
        ["has 3 kinds of fault", "has semicolons between",
         "lines 4 and 6: column 'radius'", "it has a comma before the decimals",
         "line 9: column 'sex'", "differs from a level in capitals or blanks alone"],
        ["commas", "3.5, not 3,5", "the levels of 'sex' are 'f', 'm'"],
    ),
    "tabs": (csv(separator="\t"), ["has tabs between its cells"], ["with commas"]),
    "Excel's first line": (
        "sep=;\n" + csv(separator=";"),
        ["begins with a line for Excel, sep=", "has semicolons"],
        ["remove the first line"]
    ),
    "a blank first line": (
        "\n" + csv(sex={6: "x"}), ["begins with a blank line", "line 7: column 'sex'"], ["remove it"]
    ),
    "UTF-16 and a word for a number": (
        csv(radius={5: CANARY + "x y"}).encode("utf-16"),
        ["is not UTF-8 text, but UTF-16", "line 5: column 'radius' holds text"],
        ["save the table as CSV in UTF-8"],
    ),
    "UTF-16 without a mark": (csv().encode("utf-16-le"), ["is not UTF-8 text, but UTF-16"], ["CSV in UTF-8"]),
    "Latin-1 in two lines": (
        csv(comment={8: "Müller", 12: "é"}).encode("latin-1"),
        ["lines 8 and 12: each is not UTF-8 text"],
        ["save the table as CSV in UTF-8"],
    ),
    "decimal commas in quotes": (
        csv(radius={3: '"3,5"', 5: '"-0,25"', 9: "\"1'234,5\"", 10: '"1.234,5"'}),
        ["4 lines, first 3, 5 and 9: column 'radius' holds text", "it has a comma before the decimals"],
        ["write 3.5, not 3,5"],
    ),
    "decimal commas without quotes": (
        csv(radius={3: "3,5", 4: "4,5"}),
        ["lines 3 and 4: each has 5 columns, but the first line has 4"],
        ["quote cells that hold a comma, and write a point before decimals"],
    ),
    "thousands": (
        csv(radius={3: '"1,000,000"', 4: "1 000", 5: '"1,234.5"', 6: '"1,234"'}),
        ["lines 3, 4 and 5: column 'radius'", "it has marks between thousands",
         "line 6: column 'radius'", "it has a comma before three digits"],
        ["write 1000000, not 1,000,000", "write 1.234 where 1,234 means a little more than 1"],
    ),
    "dates": (
        csv(radius={3: "2026-01-02", 4: "02.01.2026", 5: "1/2/26", 6: "2026-01-02 10:00", 7: "10:30"}),
        ["5 lines, first 3, 4 and 5: column 'radius'", "it is a date or a time"],
        ["dates are not read; write a number"],
    ),
    "percent signs": (
        csv(radius={3: "5%", 4: "7.5 %"}), ["lines 3 and 4", "a percent sign"], ["write the number alone"]
    ),
    "units": (
        csv(radius={3: "5 mg", 4: "5mg/dl", 5: "$5", 6: "36.6°C"}),
        ["4 lines, first 3, 4 and 5", "it has a unit beside the number"],
        ["in the unit that the study means"],
    ),
    "1,420 cells with a question mark": (
        csv(radius=QUESTIONS),
        ["1,420 lines, first 7, 8 and 9: column 'radius' is empty or missing", "such as '?' or 'NA'"],
        ["leave the record out", 'out_of_bounds = "clamp"'],
    ),
    "empty cells and words for them, three columns": (
        csv(radius={3: ""}, sex={4: "", 5: "NA"}, diagnosis={6: ""}),
        ["has 4 kinds of fault", "line 3: column 'radius' is empty", "line 4: column 'sex'", "the cell is empty",
         "line 5: column 'sex'", "line 6: the label 'diagnosis' is empty"],
        ["leave records without a label out"],
    ),
    "blanks and capitals": (
        csv(sex={3: " f", 4: "F", 5: "M "}, diagnosis={6: "Malignant", 8: " benign"}),
        ["lines 3, 4 and 5: column 'sex'", "lines 6 and 8: the label",
         "it differs from another value in capitals or blanks alone"],
        ["blanks and capitals count"],
    ),
    "a third label and unknown levels": (
        csv(sex={3: CANARY}, diagnosis={4: CANARY, 9: CANARY}),
        ["line 3: column 'sex' has a value that is not one", "lines 4 and 9: the label 'diagnosis' has more than two"],
        ["the levels of 'sex' are 'f', 'm'", "one value must be 'malignant'"],
    ),
    "out of bounds, infinite, text": (
        csv(radius={3: "41", 4: "-1", 5: "inf", 6: CANARY + "?", 7: "4_0"}),
        ["lines 3 and 4: column 'radius' has a value outside its public bounds, 0 to 40",
         "line 5: column 'radius' holds an infinite value", "lines 6 and 7: column 'radius' holds text"],
        ["correct the value or leave the record out"],
    ),
    "every cell of a column": (
        csv(radius=dict.fromkeys(range(2, N + 2), "x")),
        ["all lines, first 2, 3 and 4: column 'radius' holds text"],
        [],
    ),
    "short and long lines and a quote": (
        csv(comment={3: "a,b", 5: "a,b", 1900: '"open'}, sex={9: "?"}),
        ["lines 3 and 5: each has 5 columns", "line 1900 is not CSV", "line 9: column 'sex'"],
        ["see whether a quote is left open"],
    ),
    "columns that are not there": (
        csv("Radius ,comment,gender,diagnose", sex={4: CANARY}, radius={5: "x"}),
        ["has no column 'radius'", "has no column 'sex'", "has no column 'diagnosis'", "line 5: column 'radius'"],
        ["'Radius '? Blanks and capitals count", "did you mean the column 'diagnose'?", "names the columns"],
    ),
    "a column twice": (csv("radius,radius,sex,diagnosis", sex={4: "x"}), ["'radius' twice", "line 4"], ["rename"]),
    "no line of names": (
        "\n".join(csv().splitlines()[1:]),
        ["has no columns 'radius', 'sex' and 'diagnosis'"],
        ["it seems to be a record: write a line with the names"],
    ),
    "empty": ("", ["is empty"], ["the first line names the columns"]),
    "names alone": (HEAD + "\n", ["has column names but no records"], ["put a record on each further line"]),
    "Excel": (_zip(CANARY), ["is an Excel workbook"], ["save the table as 'CSV UTF-8"]),
    "gzip, twice": (gzip.compress(gzip.compress(csv().encode())), ["is compressed with gzip"], ["gunzip"]),
    "JSON": ('[{"radius": 86753.09172}]', ["is JSON, and not a CSV file"], ["save the table as CSV"]),
    "a web page": (f"<!DOCTYPE html><p>{CANARY}", ["is a web page"], ["save the table as CSV"]),
}  # fmt: skip


@pytest.fixture(params=["pyarrow", "cell by cell"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file to write, which is read with and without pyarrow, in blocks of some hundred records."""
    monkeypatch.setattr(blocks, "_WORTH_IT", 0 if request.param == "pyarrow" else 1 << 60)
    monkeypatch.setattr(blocks, "_BYTES", 1 << 13)
    return tmp_path / "data.csv"


def _refused(read: Callable[[], object]) -> FaultyFile:
    with pytest.raises(FaultyFile) as caught:
        read()
    error: BaseException | None = caught.value
    while error is not None:  # a traceback shows the causes too
        assert CANARY not in f"{error} {getattr(error, 'hint', '')}"
        assert str(N) not in str(error).replace(",", "")
        error = error.__cause__ or error.__context__
    return caught.value


@pytest.mark.parametrize("kind", DIRT)
def test_one_reading_says_all_and_what_to_do(kind: str, path: Path) -> None:
    content, said, hints = DIRT[kind]
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    study = Study.parse(STUDY)
    error = _refused(lambda: load_csv(path, study))
    for word in said:
        assert word in error.message
    for word in hints:
        assert word in error.hint
    found = examine(path, study).refused
    assert found is not None
    assert found.message == error.message


def test_a_parquet_file_by_another_name_is_recognised(path: Path) -> None:
    path.write_bytes(_parquet(path))
    assert says(_refused(lambda: load_csv(path, Study.parse(STUDY))).message, "parquet_by_another_name")


def test_what_is_good_is_not_called_faulty(path: Path) -> None:
    for text in (csv(), "\ufeff" + csv(), csv().replace("\n", "\r\n"), csv().replace(",x,", ',"x, ""y""\n",')):
        path.write_bytes(text.encode())
        study = Study.parse(STUDY)
        assert len(load_csv(path, study).y) == N
        found = examine(path, study)
        assert (found.refused, found.repaired, found.records, found.unseen) == (None, (), N, ())


def test_a_study_that_clamps_refuses_no_cell_and_examining_says_what_becomes_of_it(path: Path) -> None:
    path.write_text(csv(radius={3: "?", 4: "41"}, sex={5: "F"}, diagnosis={6: "", 7: "Malignant"}), encoding="utf-8")
    study = Study.parse(STUDY.replace("[study]\n", '[study]\nout_of_bounds = "clamp"\n'))
    data = load_csv(path, study)
    assert (data.repaired.clamped, data.repaired.filled) == (1, 3)
    found = examine(path, study)
    assert found.refused is None
    kinds = {(fault.column, fault.kind.name, fault.first) for fault in found.repaired}
    assert kinds == {
        ("radius", "missing_word", (3,)),
        ("radius", "outside", (4,)),
        ("sex", "level_alike", (5,)),
        ("diagnosis", "label_empty", (6,)),
        ("diagnosis", "label_alike", (7,)),
    }


def test_classes_are_told_apart_from_what_only_looks_like_them(path: Path) -> None:
    path.write_text(csv(diagnosis={3: "Benign", 4: "x", 5: ""}), encoding="utf-8")
    error = _refused(lambda: load_csv(path, Study.parse(CLASSES)))
    found = [(fault.kind.name, fault.first) for fault in error.faults]
    assert sorted(found) == [("class", (4,)), ("class_alike", (3,)), ("label_empty", (5,))]
    for line in (3, 4, 5):
        assert f"line {line}: the label 'diagnosis'" in error.message
    assert says(error.hint, "classes_allowed")
    assert "'benign', 'malignant'" in error.hint


def test_a_label_that_is_never_positive_is_said_to_be_and_whether_it_nearly_is(path: Path) -> None:
    study = Study.parse(STUDY)
    path.write_text(csv().replace("malignant", CANARY), encoding="utf-8")
    error = _refused(lambda: load_csv(path, study))
    assert says(error.message, "label_never_positive", "'diagnosis'", "'malignant'")
    assert not says(error.hint, "label_value_nearly")
    assert not says(error.hint, "capitals_or_blanks")
    path.write_text(csv().replace("malignant", "Malignant"), encoding="utf-8")
    error = _refused(lambda: load_csv(path, study))
    assert says(error.message, "label_never_positive", "'diagnosis'", "'malignant'")
    assert says(error.hint, "label_value_nearly")


def test_an_error_has_a_bounded_number_of_lines(path: Path) -> None:
    names = [f"x{i}" for i in range(60)]
    features = "".join(f'[[feature]]\nname = "{name}"\nmin = 0\nmax = 1\n' for name in names)
    begin, end = STUDY.index("[[feature]]"), STUDY.index("[curator]")
    study = Study.parse(STUDY[:begin] + features + STUDY[end:])
    line = ",".join(["?"] * 60 + ["benign"])
    path.write_text(",".join([*names, "diagnosis"]) + f"\n{line}\n{line}\n{line}\n{line}\n", encoding="utf-8")
    error = _refused(lambda: load_csv(path, study))
    assert says(error.message, "kinds_of_fault", ..., "60 kinds")
    assert error.message.count("\n") == 21
    assert says(error.message.splitlines()[-1], "more_faults", "40 more kinds")
    assert len(error.faults) == 60


def test_faults_of_one_party_s_file_and_of_one_file_for_all_are_said_alike(path: Path) -> None:
    path.write_text(csv(radius={3: "?", 5: "x"}, sex={4: "x"}), encoding="utf-8")
    study = Study.parse(STUDY)
    one = _refused(lambda: load_csv(path, study)).message
    assert _refused(lambda: load_grouped(path, study, "comment")).message == one
    assert says(one, "kinds_of_fault", ..., "3 kinds")


def test_the_columns_of_a_table_are_all_looked_for_at_once(path: Path) -> None:
    path.write_text(csv(separator=";"), encoding="utf-8")
    assert "has semicolons" in _refused(lambda: read_table(path, ["radius", "sex"])).message
    path.write_text(csv("a,b,c,d"), encoding="utf-8")
    assert says(_refused(lambda: read_table(path, ["radius", "sex"])).message, "columns_missing", "'radius' and 'sex'")


def test_records_in_memory_have_all_their_faults_said(tmp_path: Path) -> None:
    study = Study.parse(STUDY)
    columns: dict[str, list[object]] = {"radius": [1, None, 50, "3,5"], "sex": ["f", "M", "x", "f"]}
    error = _refused(lambda: Encoder.from_study(study).encode(columns))
    assert says(error.message, "kinds_of_fault", "the data", "5 kinds")
    assert "record 2: column 'sex'" in error.message
    table = pa.table({"radius": ["1", "x", "3"], "sex": ["f", "F", "m"], "diagnosis": ["benign", "", "malignant"]})
    pq.write_table(table, tmp_path / "d.parquet", row_group_size=1)
    error = _refused(lambda: load_csv(tmp_path / "d.parquet", study))
    assert says(error.message, "kinds_of_fault", "d.parquet", "3 kinds")
    for place in ("record 2: column 'radius'", "record 2: column 'sex'", "record 2: the label"):
        assert place in error.message


def test_a_folder_s_faults_are_named_by_file(tmp_path: Path) -> None:
    good = {"radius": [1.0, 2.0], "sex": ["f", "m"], "diagnosis": ["benign", "malignant"]}
    pq.write_table(pa.table(good), tmp_path / "a.parquet")
    pq.write_table(pa.table({**good, "radius": [1.0, 99.0], "sex": ["F", "m"]}), tmp_path / "b.parquet")
    message = _refused(lambda: load_csv(tmp_path, Study.parse(STUDY))).message
    assert "b.parquet, record 2: column 'radius'" in message
    assert says(message, "outside_bounds")
    assert "b.parquet, record 1: column 'sex'" in message


def test_an_open_quote_does_not_swallow_what_comes_after_it(path: Path) -> None:
    path.write_text(csv(comment={5: '"open'}, radius={6: "41", 1999: "x"}), encoding="utf-8")
    error = _refused(lambda: load_csv(path, Study.parse(STUDY)))
    found = {(fault.kind.name, fault.column, fault.first) for fault in error.faults}
    assert found == {("quotes", "", (5,)), ("outside", "radius", (6,)), ("text", "radius", (1999,))}


def test_a_file_with_many_more_records_than_its_first_lines_promise_is_read_whole(path: Path) -> None:
    long = [f"{i},{'x' * 4000},f,benign" for i in range(20)]
    short = [f"{i % 40},,m,malignant" for i in range(9000)]
    path.write_text("\n".join([HEAD, *long, *short]) + "\n", encoding="utf-8")
    data = load_csv(path, Study.parse(STUDY))
    first = Encoder.from_study(Study.parse(STUDY)).encode({"radius": [0, 39], "sex": ["f", "m"]})
    assert len(data.y) == 9020
    np.testing.assert_array_equal(data.X[0], first[0])
    np.testing.assert_array_equal(data.X[20 + 39], first[1])
    assert np.isfinite(data.X).all()


def test_a_file_that_is_streamed_from_disk_has_the_same_faults_said(path: Path, tmp_path: Path) -> None:
    path.write_text(csv(radius={3: "?", 1500: "x"}, sex={4: "x"}), encoding="utf-8")
    study = Study.parse(STUDY)
    one = _refused(lambda: load_csv(path, study)).message
    assert _refused(lambda: stream_csv(path, study, tmp_path)).message == one
    assert says(one, "kinds_of_fault", ..., "3 kinds")


SCATTERED = csv(
    radius={9: "?", 40: "", 700: "1e400", 701: "99", 800: "12 mm", 1200: "3,5".replace(",", "."), 1500: "x"},
    sex={9: "F ", 300: "?", 701: "other", 1999: "M"},
    diagnosis={50: "maybe", 701: "", 1300: " Malignant"},
)


def _findings(path: Path, study: Study) -> object:
    found = examine(path, study)
    try:
        loaded: object = load_csv(path, study).X.tobytes()
    except FaultyFile as error:
        loaded = (error.message, error.hint, [fault.to_json() for fault in error.faults])
    kinds = [(fault.column, fault.kind, fault.count, fault.first, fault.refused) for fault in found.faults]
    return loaded, kinds, found.records, found.unseen, found.doubts


@pytest.mark.parametrize("rule", ["clamp", "refuse"])
@pytest.mark.parametrize("matching", ["loose", "exact"])
@pytest.mark.parametrize("missing", ["", "missing = 7.0"])
def test_scattered_faults_are_the_same_whoever_reads_the_file(
    rule: str, matching: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both kinds of label, and every two of the others with each: three settings at most meet in a cell.
    odd = (rule == "clamp") ^ (matching == "loose") ^ (not missing)
    of_label = 'positive = "malignant"' if odd else 'classes = ["benign", "malignant"]'
    text = STUDY.replace("[study]", f'[study]\nout_of_bounds = "{rule}"\nmatching = "{matching}"', 1)
    text = text.replace('positive = "malignant"', of_label).replace("max = 40\n", f"max = 40\n{missing}\n", 1)
    study, path = Study.parse(text), tmp_path / "records.csv"
    path.write_text(SCATTERED, encoding="utf-8")
    for size in (1 << 21, 2000):
        monkeypatch.setattr(blocks, "_BYTES", size)
        monkeypatch.setattr(blocks, "_WORTH_IT", 1 << 60)
        slowly = _findings(path, study)
        monkeypatch.setattr(blocks, "_WORTH_IT", 0)
        assert _findings(path, study) == slowly


def _cells_read(path: Path, study: Study, monkeypatch: pytest.MonkeyPatch) -> int:
    read = 0

    def counting(body: bytes, *rest: Any, **named: Any) -> TextTable:
        nonlocal read
        found = parse_lines(body, *rest, **named)
        read += len(found.numbers)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(blocks, "parse_lines", counting)
        patch.setattr(files, "parse_lines", counting)
        with pytest.raises(FaultyFile) as caught:
            load_csv(path, study)
    assert caught.value.faults[0].count == 2 * len(range(7, N, 1000))
    return read


def test_pyarrow_names_the_column_with_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each block with one is parsed once more, to look for all columns with texts."""
    looked: list[bytes] = []

    def noted(self: CsvColumns, body: bytes) -> frozenset[str]:
        looked.append(body)
        return texts_in(self, body)

    texts_in = CsvColumns._texts_in
    monkeypatch.setattr(CsvColumns, "_texts_in", noted)
    monkeypatch.setattr(blocks, "_WORTH_IT", 0)
    path = tmp_path / "records.csv"
    path.write_text(csv(radius={7: "12 mm"}), encoding="utf-8")
    _refused(lambda: load_csv(path, Study.parse(STUDY)))
    assert not looked


@pytest.mark.parametrize("cell", ["?", "12 mm", "99"])
def test_of_a_file_with_a_fault_in_every_thousand_lines_these_lines_alone_are_read_cell_by_cell(
    cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_WORTH_IT", 0)
    path = tmp_path / "records.csv"
    faulty = csv(radius=dict.fromkeys(range(7, N, 1000), cell))
    path.write_text(faulty + faulty.partition("\n")[2], encoding="utf-8")
    assert _cells_read(path, Study.parse(STUDY), monkeypatch) == 2 * len(range(7, N, 1000))
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")  # now a line may not be a record
    assert _cells_read(path, Study.parse(STUDY), monkeypatch) == 2 * N

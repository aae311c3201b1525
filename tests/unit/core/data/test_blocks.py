"""Files are read block by block, large ones with pyarrow: to the last bit what the cells say, faults and all."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade_core.data import blocks, parquet
from masquerade_core.data.files import parse_some
from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from tests.messages import raises
from tests.unit.core.data.test_data import STUDY

_CLAMPS = STUDY.replace("[study]\n", '[study]\nout_of_bounds = "clamp"\n')
_PLAIN = ["0", "40", "39.99999999999999", "1e1", "5e-324", "+7", " 3 ", "0.1", "12.5"]
_ODD = ["", "NaN", "na", "?", " n/a ", "inf", "-1e400", "41", "-0.01", "1_0", "0x1", "é", "1,5", "a\nb", "\u0663"]
_SEXES, _ODD_SEXES = ["f", "m"], ["", "F", " m", "?", "é", "f\r\nm"]
_LABELS, _ODD_LABELS = ["malignant", "benign"], ["", "x"]


@pytest.fixture(autouse=True)
def _always_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_WORTH_IT", 0)


def _drawn(rng: np.random.Generator, plain: Sequence[str], odd: Sequence[str], n: int, share: float) -> list[str]:
    return [str(rng.choice(odd if rng.random() < share else plain)) for _ in range(n)]


def _written(path: Path, rng: np.random.Generator, n: int, share: float) -> dict[str, list[str]]:
    columns = {
        "comment": _drawn(rng, ["", "x, y", 'he said "no"', "two\nlines", "plain"], ["ü"], n, 0.1),
        "sex": _drawn(rng, _SEXES, _ODD_SEXES, n, share),
        "radius": _drawn(rng, _PLAIN, _ODD, n, share),
        "diagnosis": _drawn(rng, _LABELS, _ODD_LABELS, n, share),
    }
    with path.open("w", encoding="utf-8-sig" if rng.random() < 0.5 else "utf-8", newline="") as file:
        out = csv.writer(file, lineterminator=str(rng.choice(["\n", "\r\n"])))
        out.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            out.writerow(row)
            if rng.random() < 0.1:
                file.write("\n")
    return columns


@pytest.mark.parametrize("size", [40, 300, 1 << 20])
@pytest.mark.parametrize("seed", range(12))
def test_where_faults_are_filled_a_file_gives_what_its_cells_give(
    seed: int, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_BYTES", size)
    rng, study = np.random.default_rng([seed, size]), Study.parse(_CLAMPS)
    columns = _written(tmp_path / "d.csv", rng, 60, float(rng.choice([0.0, 0.02, 0.3])))
    data = load_csv(tmp_path / "d.csv", study)
    X, repaired = Encoder.from_study(study).encode_counted(columns)
    assert data.X.tobytes() == X.tobytes()
    labels = columns["diagnosis"]
    np.testing.assert_array_equal(data.y, [1.0 if label == "malignant" else -1.0 for label in labels])
    filled = repaired.filled + labels.count("")
    assert (data.repaired.clamped, data.repaired.filled) == (repaired.clamped, filled)


def _read(path: Path, study: Study) -> Dataset | str:
    try:
        return load_csv(path, study)
    except BadInput as error:
        return f"{error.message} {error.hint}"


@pytest.mark.parametrize("seed", range(25))
def test_where_faults_are_refused_the_first_one_is_named_as_without_pyarrow(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, study = np.random.default_rng(seed), Study.parse(STUDY)
    _written(tmp_path / "d.csv", rng, 40, float(rng.choice([0.0, 0.01, 0.03])))
    monkeypatch.setattr(blocks, "_BYTES", 1 << 20)
    quick = _read(tmp_path / "d.csv", study)
    monkeypatch.setattr(blocks, "_WORTH_IT", 1 << 60)
    careful = _read(tmp_path / "d.csv", study)
    if isinstance(quick, str) or isinstance(careful, str):
        assert quick == careful
        return
    assert quick.X.tobytes() == careful.X.tobytes()
    assert quick.y.tobytes() == careful.y.tobytes()
    monkeypatch.setattr(blocks, "_BYTES", 64)
    cut = load_csv(tmp_path / "d.csv", study)
    assert cut.X.tobytes() == careful.X.tobytes()


def test_a_fault_far_down_is_named_by_its_line_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BYTES", 100)
    rows = ['20,"a\nb",f,malignant', "0,,m,benign"] * 30
    lines = "\n".join(["radius,comment,sex,diagnosis", *rows, "x,,m,benign"])
    (tmp_path / "d.csv").write_text(lines, encoding="utf-8")
    with raises(BadInput, "text_for_number") as caught:
        load_csv(tmp_path / "d.csv", Study.parse(STUDY))
    assert f"line {lines.count(chr(10)) + 1}: column 'radius' " in caught.value.message


def test_a_column_that_nobody_wants_may_stand_twice_but_must_be_text(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(b"radius,x,sex,x,diagnosis\n1,,f,,malignant\n2,a,m,b,benign\n3,,f,,benign\n")
    assert len(load_csv(path, Study.parse(STUDY)).y) == 3
    path.write_bytes(path.read_bytes().replace(b",a,", b",\xff,"))
    with raises(BadInput, "line_not_utf8"):
        load_csv(path, Study.parse(STUDY))


def test_of_a_block_with_a_fault_the_faulty_record_alone_is_read_by_its_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_BYTES", 1000)
    rows = ["20,f,malignant", "10,m,benign"] * 100
    rows[120] = "x,m,benign"
    (tmp_path / "d.csv").write_text("\n".join(["radius,sex,diagnosis", *rows]), encoding="utf-8")
    careful: list[int] = []

    def watched(*args: Any, **kwargs: Any) -> Any:
        table = parse_some(*args, **kwargs)
        careful.append(len(args[5]))  # the rows that are asked for
        return table

    monkeypatch.setattr(blocks, "parse_some", watched)
    monkeypatch.setattr(blocks, "_tables", lambda *_: pytest.fail("a whole block was read cell by cell"))
    assert len(load_csv(tmp_path / "d.csv", Study.parse(_CLAMPS)).y) == 200
    assert careful == []  # what is repaired is no fault
    with pytest.raises(BadInput):
        load_csv(tmp_path / "d.csv", Study.parse(STUDY))
    assert careful == [1]


def test_columns_of_parquet_are_the_same_in_any_order_and_beside_its_cells(tmp_path: Path) -> None:
    values = {f"x{i}": np.arange(i, i + 3000.0) for i in range(4)}
    pq.write_table(pa.table(values), tmp_path / "d.parquet", row_group_size=1000)
    every = list(blocks.source_of(tmp_path / "d.parquet", list(values), []).blocks)
    for start, block in zip((0, 1000, 2000), every, strict=True):
        columns = block.columns()
        assert columns is not None
        for name in ("x2", "x0", "x1", "x2", "x3", "x3", "x0"):
            np.testing.assert_array_equal(columns[name], values[name][start : start + 1000])
            (table,) = block.tables()
            assert table.columns[name] == [repr(float(v)) for v in values[name][start : start + 1000]]
            assert table.numbers == range(start + 1, start + 1001)


def test_missing_values_in_parquet_become_the_public_filler_without_reading_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 1000
    rng = np.random.default_rng(0)
    radius = pa.array(rng.uniform(-5, 45, n), mask=rng.random(n) < 0.1)
    sex = pa.array(rng.choice(["f", "m", "F"], n), mask=rng.random(n) < 0.1).dictionary_encode()
    columns = {"radius": radius, "sex": sex, "diagnosis": pa.array(rng.choice(["malignant", "benign"], n))}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    study = Study.parse(_CLAMPS)
    cells = {
        "radius": ["" if v is None else repr(v) for v in radius.to_pylist()],
        "sex": ["" if v is None else v for v in sex.to_pylist()],
    }
    expected, repaired = Encoder.from_study(study).encode_counted(cells)
    monkeypatch.setattr(parquet, "TextTable", None)  # the careful way would need it
    data = load_csv(tmp_path / "d.parquet", study)
    assert data.X.tobytes() == expected.tobytes()
    assert (data.repaired.clamped, data.repaired.filled) == (repaired.clamped, repaired.filled)
    assert repaired.clamped > 50

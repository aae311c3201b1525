"""Columns of thousands of levels: of each record a single coordinate is 1, and what is zero takes no memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from masquerade_core.data.loading import load_csv
from masquerade_core.data.records import copy_rows, taken, zeros
from masquerade_core.data.schema import Columns, Encoder
from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from tests.messages import raises
from tests.unit.core.data.test_data import STUDY

LEVELS, N = 6000, 6000
_FEATURES = STUDY.replace('levels = ["f", "m"]', f"levels = [{', '.join(f'{str(i)!r}' for i in range(LEVELS))}]")

_CHILD = """
import resource, sys
from pathlib import Path
from masquerade_core.data.loading import load_csv
from masquerade_core.study import Study
few, many, study = sys.argv[1:]
study = Study.parse(Path(study).read_text())
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
load_csv(few, study)
before = peak()
load_csv(many, study)
print(peak() - before)
"""


def _write(path: Path, n: int) -> Path:
    rows = (f"{i % 40},{7 * i % LEVELS},{('malignant', 'benign')[i % 3 > 0]}" for i in range(n))
    path.write_text("\n".join(["radius,sex,diagnosis", *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need not keep pages of zeros apart")
def test_records_of_thousands_of_levels_take_a_part_of_the_memory_of_their_matrix(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(_FEATURES, encoding="utf-8")
    files = [_write(tmp_path / f"{n}.csv", n) for n in (10, N)]
    child = [sys.executable, "-c", _CHILD, *map(str, (*files, study))]
    kilobytes = int(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    assert kilobytes * 1024 < 0.5 * N * LEVELS * 8


def test_each_record_has_its_level_and_the_sides_have_all_records(tmp_path: Path) -> None:
    n = 700
    data = load_csv(_write(tmp_path / "r.csv", n), Study.parse(_FEATURES))
    start = data.d - LEVELS - 1  # the constant stands last
    assert (data.X[:, start:-1].argmax(axis=1) == 7 * np.arange(n) % LEVELS).all()
    assert (np.count_nonzero(data.X[:, start:-1], axis=1) == 1).all()
    held = (np.arange(1, n + 1) // 5) > (np.arange(n) // 5)
    for side, kept in zip(data.sides(0.2), (~held, held), strict=True):
        assert side.X.tobytes() == data.X[kept].tobytes()


def test_where_memory_is_too_small_the_error_says_what_a_record_takes_and_not_how_many_there_are() -> None:
    encoder = Encoder.from_study(Study.parse(_FEATURES))
    with raises(BadInput, "too_little_memory_for_records", f"{8 * encoder.d:,}"):
        encoder.matrix(1 << 44)


@pytest.mark.parametrize("bits", [0x8000000000000000, 0x7FF0000000000001], ids=["-0", "a number that signals"])
def test_what_the_memory_held_before_is_not_seen_in_the_records(bits: int) -> None:
    encoder = Encoder.from_study(Study.parse(STUDY))
    columns = {"radius": ["7", "20"], "sex": ["f", "m"]}
    X = np.full((2, encoder.d), bits, np.uint64).view(np.float64)
    encoder.encode_into(X, Columns(columns, {"radius"}, fills=False))
    assert X.tobytes() == encoder.encode(columns).tobytes()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_copies_of_wide_rows_are_the_same_to_the_bit(dtype: type[np.floating]) -> None:
    X = zeros(5, 3000, np.dtype(dtype))
    X[0, 7], X[1, 8], X[2] = 0.5, -0.0, np.arange(3000)
    copy = zeros(5, 3000, X.dtype)
    copy_rows(X, copy)
    assert copy.tobytes() == X.tobytes()
    kept = np.array([False, True, True, False, True])
    assert taken(X, kept).tobytes() == X[kept].tobytes()

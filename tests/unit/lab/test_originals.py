"""The original files of public data sets: each in its own form, packed or not, and what is said of a missing one."""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade_core.errors import BadInput
from masquerade_lab import originals
from tests.messages import raises

ADULT = ", ".join(["39", "State-gov", "77516", "Bachelors", "13", *["x"] * 9, "<=50K"])
ADULT_RICH = ", ".join(["50", "?", "83311", "HS-grad", "9", *["x"] * 9, ">50K"])
KDD = ",".join(["0", "tcp", "http", "SF", *["0.00"] * 37])
BANK_HEAD = (
    '"age";"job";"marital";"education";"default";"housing";"loan";"contact";"month";"day_of_week";"duration";'
    '"campaign";"pdays";"previous";"poutcome";"emp.var.rate";"cons.price.idx";"cons.conf.idx";"euribor3m";'
    '"nr.employed";"y"\n'
)
BANK_ROW = "56;" + ";".join(['"x; y"'] * 19) + ';"no"\n'
CARD_HEAD = "Time," + ",".join(f"V{i}" for i in range(1, 29)) + ",Amount,Class\n"
CARD_ROW = "406," + ",".join(["-1.5"] * 28) + ",0.00,1\n"

PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress}

FILES: dict[str, dict[str, str]] = {
    "a9a": {"a9a": "-1 3:1 123:1 \n+1 1:1 \n", "a9a.t": "+1 2:1\n"},
    "adult": {
        "adult.data": f"{ADULT}\n{ADULT_RICH}\n\n",
        "adult.test": f"|1x3 Cross validator\n{ADULT}.\n{ADULT_RICH}.\n\n",
    },
    "bank": {"bank-additional-full.csv": BANK_HEAD + BANK_ROW},
    "breast_cancer_original": {"breast-cancer-wisconsin.data": "1000025,5,1,1,1,2,1,3,1,1,2\n7,8,4,5,1,2,?,7,3,1,4\n"},
    "credit_card": {"creditcard.csv": CARD_HEAD + CARD_ROW},
    "kddcup": {"kddcup.data_10_percent": f"{KDD},normal.\n{KDD},smurf.\n", "corrected": f"{KDD},snmpguess.\n"},
}


def read(name: str, place: Path) -> Any:
    return getattr(originals, name)(place)


def lay(directory: Path, name: str, ending: str = "") -> Path:
    for file, text in FILES[name].items():
        (directory / f"{file}{ending}").write_bytes(PACKERS[ending](text.encode()))
    return directory


def tables(found: Any) -> tuple[originals.Table, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("ending", ["", ".xz", ".gz"])
@pytest.mark.parametrize("name", ["adult", "bank", "breast_cancer_original", "credit_card", "kddcup"])
def test_a_table_is_the_same_packed_or_not(name: str, ending: str, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = tables(read(name, lay(tmp_path / "plain", name)))
    packed = tables(read(name, lay(tmp_path, name, ending)))
    assert [table.rows for table in packed] == [table.rows for table in plain]
    assert all(len(row) == len(table.columns) for table in packed for row in table.rows)


def test_adult_loses_the_comment_the_blanks_and_the_full_stops_of_the_test_labels(tmp_path: Path) -> None:
    train, test = originals.adult(lay(tmp_path, "adult"))
    assert train.columns[:4] == ("age", "workclass", "fnlwgt", "education")
    assert train.rows == test.rows
    assert train.rows[0][:4] == ("39", "State-gov", "77516", "Bachelors")
    assert train.column("workclass") == ["State-gov", "?"]
    assert test.column("income") == ["<=50K", ">50K"]


def test_kdd_labels_lose_their_full_stop_and_numbers_keep_theirs(tmp_path: Path) -> None:
    train, test = originals.kddcup(lay(tmp_path, "kddcup"))
    assert len(train.columns) == len(set(train.columns)) == 42
    assert train.column("label") == ["normal", "smurf"]
    assert test.column("label") == ["snmpguess"]
    assert train.column("src_bytes") == ["0.00", "0.00"]


def test_bank_cells_may_hold_the_separator_in_quotes(tmp_path: Path) -> None:
    table = originals.bank(lay(tmp_path, "bank"))
    assert table.columns[0] == "age"
    assert table.columns[-1] == "y"
    assert table.rows == [("56", *["x; y"] * 19, "no")]


def test_what_is_missing_in_breast_cancer_stays_a_question_mark(tmp_path: Path) -> None:
    table = originals.breast_cancer_original(lay(tmp_path, "breast_cancer_original"))
    assert table.column("class") == ["2", "4"]
    assert table.column("bare_nuclei") == ["1", "?"]


@pytest.mark.parametrize("ending", ["", ".xz", ".gz"])
def test_a9a_counts_its_123_features_from_one(ending: str, tmp_path: Path) -> None:
    X, y, X_test, y_test = originals.a9a(lay(tmp_path, "a9a", ending))
    assert X.dtype == y.dtype == np.float64
    assert (X.shape, X_test.shape) == ((2, 123), (1, 123))
    assert [list(np.flatnonzero(row)) for row in (*X, *X_test)] == [[2, 122], [0], [1]]
    assert list(y) == [-1, 1]
    assert list(y_test) == [1]


def test_the_only_file_of_a_set_may_be_named_itself_under_any_name(tmp_path: Path) -> None:
    lay(tmp_path, "credit_card", ".xz")
    own = (tmp_path / "creditcard.csv.xz").rename(tmp_path / "my-selection.csv.xz")
    assert originals.credit_card(own).column("Class") == ["1"]


def test_a_file_of_a_set_of_two_stands_for_its_directory(tmp_path: Path) -> None:
    lay(tmp_path, "kddcup", ".gz")
    assert len(originals.kddcup(tmp_path / "corrected.gz")[0].rows) == 2


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in FILES.items() for file in files])
def test_a_missing_file_is_named_with_its_source_and_with_what_the_directory_must_hold(
    name: str, file: str, tmp_path: Path
) -> None:
    lay(tmp_path, name)
    (tmp_path / file).unlink()
    with pytest.raises(BadInput) as caught:
        read(name, tmp_path)
    assert f"no file {file}," in caught.value.message
    assert "https://" in caught.value.hint
    assert all(part in caught.value.hint for part in FILES[name])


@pytest.mark.parametrize(
    ("name", "file", "text", "said"),
    [
        ("adult", "adult.test", f"{ADULT}, 1\n", ("columns_of_line", 1, "16 columns", 15)),
        ("adult", "adult.test", "|1x3 Cross validator\n", ("original_without_records", ...)),
        ("kddcup", "corrected", "", ("original_without_records", ...)),
        ("bank", "bank-additional-full.csv", BANK_ROW, ("other_headings", ...)),
        ("bank", "bank-additional-full.csv", "age,job\n", ("columns_of_line", 1, "1 column", 21)),
        ("bank", "bank-additional-full.csv", BANK_HEAD, ("original_without_records", ...)),
        ("bank", "bank-additional-full.csv", BANK_HEAD.replace(";", ","), ("no_table_of_text", ...)),
        ("credit_card", "creditcard.csv", CARD_HEAD.replace("Time", "time") + CARD_ROW, ("other_headings", ...)),
        ("breast_cancer_original", "breast-cancer-wisconsin.data", '"1\n', ("no_table_of_text", ...)),
        ("a9a", "a9a", "-1 124:1\n", ("no_libsvm_file", ..., 123)),
        ("a9a", "a9a", "-1 0:1\n", ("no_libsvm_file", ..., ...)),
        ("a9a", "a9a.t", "2 1:1\n", ("not_a9a", ...)),
        ("a9a", "a9a.t", "1 1:0.5\n", ("not_a9a", ...)),
        ("a9a", "a9a.t", "", ("not_a9a", ...)),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(
    name: str, file: str, text: str, said: tuple[Any, ...], tmp_path: Path
) -> None:
    lay(tmp_path, name)
    (tmp_path / file).write_text(text, encoding="utf-8")
    with raises(BadInput, *said):
        read(name, tmp_path)


@pytest.mark.parametrize("ending", [".xz", ".gz"])
def test_a_damaged_archive_is_said_to_be_one(ending: str, tmp_path: Path) -> None:
    lay(tmp_path, "kddcup", ending)
    path = tmp_path / f"corrected{ending}"
    for damaged in (path.read_bytes()[:-20], b"no archive"):
        path.write_bytes(damaged)
        with raises(BadInput, "cannot_be_unpacked", ...):
            originals.kddcup(tmp_path)


X_TRAIN = np.array([[0.25, -1.0, 1.0], [0.5, 0.125, -0.75], [0.0, 1.0, 1.0]])
Y_TRAIN = np.array([5, 1, 6], dtype=np.uint8)


def lay_har(root: Path, ending: str = "") -> None:
    for part, rows in (("train", 3), ("test", 1)):
        (root / part).mkdir(parents=True)
        lines = ["  " + "  ".join(f"{v: .7e}" for v in row) for row in X_TRAIN[:rows]]
        (root / part / f"X_{part}.txt{ending}").write_bytes(PACKERS[ending](("\n".join(lines) + "\n").encode()))
        labels = "".join(f"{label}\n" for label in Y_TRAIN[:rows])
        (root / part / f"y_{part}.txt{ending}").write_bytes(PACKERS[ending](labels.encode()))


def check_har(place: Path) -> None:
    X, y, X_test, y_test = originals.har(place)
    np.testing.assert_array_equal(X, X_TRAIN)
    np.testing.assert_array_equal(y, Y_TRAIN)
    np.testing.assert_array_equal(X_test, X_TRAIN[:1])
    np.testing.assert_array_equal(y_test, Y_TRAIN[:1])
    assert X.dtype == y.dtype == np.float64


@pytest.mark.parametrize("ending", ["", ".xz"])
def test_har_is_found_in_its_directory_or_in_the_one_around_it(ending: str, tmp_path: Path) -> None:
    lay_har(tmp_path / "UCI HAR Dataset", ending)
    check_har(tmp_path)
    check_har(tmp_path / "UCI HAR Dataset")


def test_har_is_read_from_arrays_as_well(tmp_path: Path) -> None:
    np.savez(tmp_path / "h.npz", X_train=X_TRAIN.astype("f4"), y_train=Y_TRAIN, X_test=X_TRAIN[:1], y_test=Y_TRAIN[:1])
    check_har(tmp_path)
    check_har(tmp_path / "h.npz")


def test_har_with_something_missing_or_wrong_is_refused(tmp_path: Path) -> None:
    with raises(BadInput, "part_of_original", ..., "train/X_train.txt", ...) as caught:
        originals.har(tmp_path)
    assert "test/y_test.txt" in caught.value.hint
    with raises(BadInput, "no_original_file", tmp_path / "none.npz"):
        originals.har(tmp_path / "none.npz")
    lay_har(tmp_path)
    path = tmp_path / "train" / "y_train.txt"
    for text, key, *values in (
        ("5\n1\n7\n", "part_of_other_shape", "training", ..., ...),
        ("5\n1\n", "part_of_other_shape", "training", ..., ...),
        ("a\n", "no_table_of_numbers", ...),
    ):
        path.write_text(text, encoding="ascii")
        with raises(BadInput, key, *values):
            originals.har(tmp_path)
    path.write_text("5\n1\n6\n", encoding="ascii")
    (tmp_path / "test" / "X_test.txt").write_text("1 2\n", encoding="ascii")
    with raises(BadInput, "part_of_other_shape", "test", ..., ...):
        originals.har(tmp_path)
    np.savez(tmp_path / "h.npz", X_train=X_TRAIN)
    with raises(BadInput, "lacks_arrays", ...):
        originals.har(tmp_path / "h.npz")
    np.savez(tmp_path / "h.npz", X_train=np.array([object()]), allow_pickle=True)
    with raises(BadInput, "lacks_arrays", ...):
        originals.har(tmp_path / "h.npz")


def test_a_column_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with raises(BadInput, "original_lacks_column", "'wage'"):
        originals.bank(lay(tmp_path, "bank")).column("wage")

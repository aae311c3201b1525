"""``demo --data`` takes a table as people keep it, and says what it does to the records."""

import csv
import datetime as dt
import io
import re
import shlex
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade.datasets import Cohort, Records
from masquerade.demo import Plan, prepare
from masquerade.demo.own import Dealing, own_cohort
from masquerade.guessing import Limits, guess
from masquerade.own_table import read_names, read_own
from masquerade_core.data.examining import DoubtfulFile
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label
from masquerade_core.study_files import load_study
from masquerade_protocols import DEFAULT_PROTOCOL
from tests.adult_helpers import COLUMNS, rows, write_adult
from tests.face_helpers import Shell
from tests.messages import raises, says

INCOME = Label(name="income", positive=">50K")
RANDOM = Dealing()


@pytest.fixture
def adult(tmp_path: Path) -> Path:
    return write_adult(tmp_path / "adult.csv", rows(600))


def everybody(cohort: Cohort) -> list[tuple[str, ...]]:
    return [tuple(row) for records in (*cohort.parties.values(), cohort.test) for row in records.rows]


def feature(cohort: Cohort, name: str) -> Feature:
    return next(f for f in cohort.features if f.name == name)


def said(cohort: Cohort) -> str:
    return "\n".join(cohort.notes)


# --- As it is --------------------------------------------------------------------


def test_adult_as_it_is_becomes_five_parties_and_a_test_set_that_each_process_can_read(
    tmp_path: Path, adult: Path
) -> None:
    cohort = own_cohort(adult, RANDOM, label=INCOME, ignore=["fnlwgt"])
    assert list(cohort.parties) == [f"site-{letter}" for letter in "abcde"]
    assert [len(records.rows) for records in cohort.parties.values()] == [96] * 5
    assert len(cohort.test.rows) == 120
    assert [f.name for f in cohort.features] == [name for name in COLUMNS if name not in {"fnlwgt", "income"}]
    plan = prepare(cohort, epsilon=1.0, protocol=DEFAULT_PROTOCOL, directory=tmp_path / "d")
    read = [load_csv(plan.data_file(name), plan.study) for name in plan.study.names]
    assert sum(len(data.y) for data in read) == 480
    assert len(load_csv(plan.test_file, plan.study, need_label=False).y) == 120
    assert says(said(cohort), "dealt_at_random", 5)
    assert says(said(cohort), "held_out", "120 records")
    assert says(said(cohort), "ignored_as_asked", "fnlwgt")


def test_no_record_is_lost_or_dealt_out_twice(tmp_path: Path) -> None:
    made = sorted(rows(200), key=lambda row: row[-1])
    file = write_adult(tmp_path / "adult.csv", made)
    cohort = own_cohort(file, Dealing(parties=3), label=INCOME, ignore=["country", "fnlwgt"])
    kept = [tuple(cell for cell, name in zip(row, COLUMNS, strict=True) if name not in {"country", "fnlwgt"})
            for row in made]  # fmt: skip
    assert Counter(everybody(cohort)) == Counter(kept)
    labels = [Counter(row[-1] for row in records.rows) for records in (*cohort.parties.values(), cohort.test)]
    assert all(count[">50K"] > 5 and count["<=50K"] > 5 for count in labels)  # in random order, not the file's


def test_records_are_held_out_and_dealt_out_in_an_order_that_is_not_the_file_s(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("number,ill\n" + "".join(f"{i},{'yes' if i % 2 else 'no'}\n" for i in range(400)))
    cohort = own_cohort(file, RANDOM, label=Label(name="ill", positive="yes"), accept=["number"])
    for records in (*cohort.parties.values(), cohort.test):
        numbers = sorted(int(row[0]) for row in records.rows)
        assert len({b - a for a, b in pairwise(numbers)}) > 5  # and not every fifth record


def test_blanks_around_cells_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text(" sex ,ill\n" + " f , yes \nm,no\n" * 80)
    cohort = own_cohort(file, Dealing(parties=2), label=Label(name="ill", positive="yes"))
    assert cohort.features == (Feature(name="sex", levels=("f", "m")),)
    assert set(everybody(cohort)) == {("f", "yes"), ("m", "no")}


def test_bounds_are_round_numbers_around_the_records(adult: Path) -> None:
    cohort = own_cohort(adult, RANDOM, label=INCOME)
    assert feature(cohort, "age") == Feature(name="age", min=10.0, max=90.0)
    assert feature(cohort, "capital-gain") == Feature(name="capital-gain", min=0.0, max=100_000.0)
    assert feature(cohort, "hours-per-week") == Feature(name="hours-per-week", min=10.0, max=70.0)


def test_a_missing_category_is_a_level_and_rare_levels_are_pooled(adult: Path) -> None:
    cohort = own_cohort(adult, RANDOM, label=INCOME)
    assert feature(cohort, "workclass").levels == ("Local-gov", "Private", "Self-emp-not-inc", "?")
    levels = feature(cohort, "country").levels
    assert levels is not None
    assert levels[0] == "Country-0"
    assert levels[-1] == "other"
    place = cohort.test.columns.index("country")
    counts = Counter(row[place] for row in everybody(cohort))
    assert set(counts) == set(levels)
    assert min(counts.values()) >= 10
    assert says(said(cohort), "levels_pooled", 45 - len(levels) + 1, f"{counts['other']} records", "'other'")


def test_the_official_test_file_is_read_without_names_and_without_its_full_stops(tmp_path: Path, adult: Path) -> None:
    official = write_adult(tmp_path / "adult.test", rows(150, seed=1), heading=False, stop=".")
    cohort = own_cohort(adult, RANDOM, label=INCOME, test=official)
    assert len(cohort.test.rows) == 150
    assert sum(len(records.rows) for records in cohort.parties.values()) == 600
    assert {row[-1] for row in cohort.test.rows} == {"<=50K", ">50K"}
    assert says(said(cohort), "full_stop_left_out")
    assert "held out" not in said(cohort)


def test_a_test_file_with_names_may_have_its_columns_in_another_order(tmp_path: Path, adult: Path) -> None:
    lines = [",".join(reversed(COLUMNS)), *(",".join(reversed(row)) for row in rows(30, seed=2))]
    other = tmp_path / "other.csv"
    other.write_text("\n".join(lines))
    cohort = own_cohort(adult, RANDOM, label=INCOME, test=other)
    assert {row[-1] for row in cohort.test.rows} == {"<=50K", ">50K"}
    assert {row[0] for row in cohort.test.rows} <= {str(age) for age in range(17, 91)}


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


# --- A study, and other files ------------------------------------------------------


def study_words(path: Path, *features: str) -> list[object]:
    words = [word for text in features for word in ("--feature", text)]
    return ["study", "new", "--output", path, "--throwaway-keys", "--label", "income:>50K", "--min-records", 20, *words]


def test_with_a_study_its_protocol_and_settings_hold(shell: Shell, tmp_path: Path, adult: Path) -> None:
    words = study_words(tmp_path / "s.toml", "age:0:120")
    assert (
        shell(
            *words, "--protocol", "psgd", "--rounds", 7, "--calibration", "paper", "--colluders", 1, "--delta", 1e-5
        ).code
        == 0
    )
    study = load_study(tmp_path / "s.toml")[0]
    cohort = own_cohort(adult, RANDOM, study=study)
    same = prepare(cohort, epsilon=2.0, protocol="psgd", directory=tmp_path / "a", like=study).study
    assert (same.protocol, same.privacy.calibration) == ({"rounds": 7}, "paper")
    assert (same.privacy.epsilon, same.privacy.delta, same.privacy.colluders) == (2.0, 1e-5, 1)
    assert (same.features, same.names) == (study.features, study.names)
    other = prepare(cohort, epsilon=2.0, protocol="dp-gd", directory=tmp_path / "b", like=study).study
    fresh = prepare(cohort, epsilon=2.0, protocol="dp-gd", directory=tmp_path / "c").study
    assert (other.protocol, other.privacy.calibration, other.privacy.delta) == (fresh.protocol, "proven", 1e-5)


def test_the_demo_runs_the_protocol_of_the_study(
    shell: Shell, tmp_path: Path, adult: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(plan: Plan, *_shown: object) -> None:
        raise BadInput(f"{plan.study.study.protocol}: {plan.study.protocol}", "")

    monkeypatch.setattr("masquerade.demo.play", stop)
    words = study_words(tmp_path / "s.toml", "age:0:120")
    assert shell(*words, "--protocol", "psgd", "--rounds", 7).code == 0
    demo = ["demo", "--data", adult, "--study", tmp_path / "s.toml", "--out", tmp_path / "run"]
    assert shell.json(*demo).json["message"] == "psgd: {'rounds': 7}"
    assert shell.json(*demo, "--protocol", "dp-gd").json["message"].startswith("dp-gd: ")
    assert shell.json(*demo, "--rounds", 9).json["message"] == "psgd: {'rounds': 9}"


def test_a_draft_without_keys_will_do_for_a_demonstration(shell: Shell, tmp_path: Path, adult: Path) -> None:
    words = study_words(tmp_path / "s.toml", "age:0:9")
    assert shell(*(word for word in words if word != "--throwaway-keys"), "--out-of-bounds", "refuse").code == 0
    answer = shell.json("demo", "--data", adult, "--study", tmp_path / "s.toml")
    assert answer.code == 4
    assert says(answer.json["message"], "outside_bounds")  # the keys were no obstacle
    assert "'age'" in answer.json["message"]


def test_with_a_study_its_parties_and_bounds_hold(shell: Shell, tmp_path: Path, adult: Path) -> None:
    path = tmp_path / "s.toml"
    made = shell(*study_words(path, "age:0:120", "workclass:Private,Self-emp-not-inc,Local-gov,?"))
    assert made.code == 0, made.err
    cohort = own_cohort(adult, RANDOM, study=load_study(path)[0])
    assert list(cohort.parties) == ["site-a", "site-b", "site-c"]
    assert cohort.test.columns == ("age", "workclass", "income")
    assert {row[1] for row in everybody(cohort)} == {"Private", "Self-emp-not-inc", "Local-gov", "?"}


@pytest.mark.parametrize(
    ("features", "column", "key"),
    [(["age:0:20"], "age", "outside_bounds"), (["workclass:Private,?"], "workclass", "unknown_level")],
)
def test_records_that_a_study_does_not_allow_are_named_by_the_line_of_the_user_s_file(
    shell: Shell, tmp_path: Path, adult: Path, features: list[str], column: str, key: str
) -> None:
    path = tmp_path / "s.toml"
    assert shell(*study_words(path, *features), "--out-of-bounds", "refuse").code == 0
    with raises(BadInput, key) as caught:
        own_cohort(adult, RANDOM, study=load_study(path)[0])
    assert re.match(rf"adult\.csv, \d+ lines, first \d+, \d+ and \d+: column '{column}' ", caught.value.message)


def test_a_column_of_the_study_that_the_users_file_lacks_is_named(shell: Shell, tmp_path: Path, adult: Path) -> None:
    path = tmp_path / "s.toml"
    assert shell(*study_words(path, "wage:0:20"), "--out-of-bounds", "refuse").code == 0
    with raises(BadInput, "own_table_lacks_column", "adult.csv", "'wage'"):
        own_cohort(adult, RANDOM, study=load_study(path)[0])


def test_semicolons_tabs_and_parquet_are_read_like_commas(tmp_path: Path) -> None:
    made = rows(300)
    cohorts = []
    for name, mark in (("a.csv", ","), ("b.csv", ";"), ("c.csv", "\t")):
        file = tmp_path / name
        file.write_text("\n".join(mark.join(row) for row in (COLUMNS, *made)))
        cohorts.append(own_cohort(file, RANDOM, label=INCOME))
    columns = dict(zip(COLUMNS, zip(*made, strict=True), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    cohorts.append(own_cohort(tmp_path / "d.parquet", RANDOM, label=INCOME))
    assert len({str(everybody(cohort)) for cohort in cohorts}) == 1
    assert cohorts[0].features == cohorts[3].features


def test_an_ignored_column_of_a_parquet_file_may_hold_what_is_not_read(tmp_path: Path) -> None:
    columns = {
        "age": [i % 80 + 20 for i in range(120)],
        "ill": ["yes", "no"] * 60,
        "day": [dt.date(2020, 1, 1)] * 120,
    }
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    label = Label(name="ill", positive="yes")
    cohort = own_cohort(tmp_path / "d.parquet", Dealing(parties=2), label=label, ignore=["day"])
    assert cohort.features == (Feature(name="age", min=20.0, max=100.0),)
    with raises(BadInput, "unreadable_column", "'day'"):
        own_cohort(tmp_path / "d.parquet", Dealing(parties=2), label=label)


def test_cells_with_commas_quotes_and_line_breaks_reach_the_parties_whole() -> None:
    made = [["x,y", '"z"'], ["1\n2", ""]]
    text = Records(("a", "b"), made).to_csv()
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == [["a", "b"], *made]


@pytest.mark.parametrize("cell", ["", "?", "NA"])
def test_a_missing_number_counts_as_the_median(tmp_path: Path, cell: str) -> None:
    lines = ["age,sex,ill", *(f"{29 + i},{'fm'[i % 2]},{('yes', 'no')[i // 2 % 2]}" for i in range(120))]
    text = "\n".join(lines) + "\n"
    file = tmp_path / "all.csv"
    file.write_text(text.replace("\n30,", f"\n{cell},", 1).replace("\n90,", f"\n{cell},", 1))
    cohort = own_cohort(file, Dealing(parties=3), label=Label(name="ill", positive="yes"), accept=["age"])
    assert cohort.features[0] == Feature(name="age", min=0.0, max=200.0, missing=88.5)
    said = "age: 2 numbers are missing, the first in all.csv, line 3, and count as 88.5, the median"
    assert said in cohort.notes
    plan = prepare(cohort, epsilon=1.0, protocol=DEFAULT_PROTOCOL, directory=tmp_path / "d")
    read = [load_csv(plan.data_file(name), plan.study).X for name in plan.study.names]
    read.append(load_csv(plan.test_file, plan.study, need_label=False).X)
    ages = np.concatenate([X[:, 0] / X[:, -1] for X in read])  # the constant says how far a record was shortened
    assert np.sum(np.abs(ages - (88.5 - 100) / 100) < 1e-9) == 2
    assert len(ages) == 120


def test_with_a_study_that_moves_cells_to_their_bounds_a_demonstration_does_so_too(
    shell: Shell, tmp_path: Path, adult: Path
) -> None:
    words = study_words(tmp_path / "s.toml", "age:40:120")
    assert shell(*words).code == 0
    with raises(DoubtfulFile, "looks_like_a_mistake", "adult.csv"):
        own_cohort(adult, RANDOM, study=load_study(tmp_path / "s.toml")[0])
    assert own_cohort(adult, RANDOM, study=load_study(tmp_path / "s.toml")[0], accept=["age"]).parties
    words = study_words(tmp_path / "r.toml", "age:40:120")
    assert shell(*words, "--out-of-bounds", "refuse").code == 0
    with raises(BadInput, "outside_bounds"):
        own_cohort(adult, RANDOM, study=load_study(tmp_path / "r.toml")[0])


# --- What cannot be used -----------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("yes\n30", "\n30", "line 2: the label 'ill' is empty", "leave such records out"),
        ("\n30,", "\n30,30,", "line 3 has 4 columns, but the first line has 3", "one cell"),
        ("\n30,", '\n"30,', "is not CSV", "quote"),
        ("age,", "ill,", "has the column 'ill' twice", "rename"),
        ("age,", ",", "column 'column 1' seems to number", "--ignore 'column 1'"),
    ],
)
def test_what_cannot_be_used_is_named_by_its_line(tmp_path: Path, old: str, new: str, message: str, hint: str) -> None:
    lines = ["age,sex,ill", *(f"{29 + i},{'fm'[i % 2]},{('yes', 'no')[i // 2 % 2]}" for i in range(120))]
    text = "\n".join(lines) + "\n"
    assert old in text
    file = tmp_path / "all.csv"
    file.write_text(text.replace(old, new, 1))
    with pytest.raises(BadInput) as caught:
        own_cohort(file, RANDOM, label=Label(name="ill", positive="yes"))
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_file_without_names_shows_no_record_in_its_error(tmp_path: Path) -> None:
    file = tmp_path / "adult.data"
    file.write_text("\n".join(", ".join(row) for row in rows(200)))
    with pytest.raises(BadInput) as caught:
        own_cohort(file, RANDOM, label=INCOME)
    assert says(caught.value.hint, "names_before_records")
    assert not any(cell in caught.value.message for cell in rows(200)[0])


@pytest.mark.parametrize(
    ("label", "message", "hint"),
    [
        (Label(name="kind", positive="a"), "has 3 different values, where 2 are needed", "--label kind:VALUE,VALUE"),
        (Label(name="kind", positive="A"), "has 3 different values, where 2 are needed", "--label kind:VALUE,VALUE"),
        (Label(name="kind", positive="d"), "is never 'd'", "name one of its two values"),
        (Label(name="kind", min=0.0, max=1.0), "it is a number", "--for coefficients"),
        (
            Label(name="kind", classes=("a", "b")),
            "all.csv, line 4: the label 'kind' is not one of the classes",
            "'a', 'b'",
        ),
        (Label(name="same", positive="yes"), "has 1 value only", "add some of the other"),
    ],
)
def test_a_label_that_does_not_fit_is_refused_at_once(tmp_path: Path, label: Label, message: str, hint: str) -> None:
    file = tmp_path / "all.csv"
    file.write_text("x,same,kind\n" + "".join(f"{i},yes,{'abc'[i % 3]}\n" for i in range(150)))
    with pytest.raises(BadInput) as caught:
        own_cohort(file, RANDOM, label=label)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_named_classes_are_taken_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("x,kind\n" + "".join(f"{i},{'abc'[i % 3]}\n" for i in range(300)))
    cohort = own_cohort(file, RANDOM, label=Label(name="kind", classes=("a", "b", "c")), accept=["x"])
    assert {row[-1] for row in cohort.test.rows} == {"a", "b", "c"}


def test_a_label_too_rare_for_so_many_parties_is_said_before_anybody_starts(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("age,ill\n" + "".join(f"{20 + i % 60},{'yes' if i < 3 else 'no'}\n" for i in range(300)))
    with raises(BadInput, "label_too_rare", 5):
        own_cohort(file, RANDOM, label=Label(name="ill", positive="yes"))


# --- What looks like a mistake --------------------------------------------------------


def _table(path: Path, **columns: Callable[[int], object]) -> Path:
    shown: dict[str, Callable[[int], object]] = {
        "age": lambda i: 20 + i % 60,
        "dose": lambda i: i % 37 / 8,
        "ill": lambda i: ("no", "yes")[i % 3 == 0],
        **columns,
    }
    lines = [";".join(shown), *(";".join(str(cell(i)) for cell in shown.values()) for i in range(120))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


ILL = Label(name="ill", positive="yes")


@pytest.mark.parametrize(
    ("column", "key", "cell"),
    [
        ("visit", "holds_dates", lambda i: f"2024-01-{i % 7 + 1:02}"),
        ("visit", "holds_dates", lambda i: 20240000 + 100 * (i % 12 + 1) + i % 28 + 1),
        ("visit", "holds_dates", lambda i: f"{i % 7 + 1}-Mar-61"),
        ("visit", "seems_excel_dates", lambda i: 45_000 + i * 7 % 45),
        ("patient", "seems_to_number", lambda i: 4_000_000 + 13 * i * i),
        ("crp", "text_among_numbers", lambda i: "<0.3" if i == 9 else i / 7),
    ],
    ids=["dates", "dates as numbers", "months", "dates of Excel", "identifiers", "text among numbers"],
)
def test_a_demonstration_learns_from_no_column_that_looks_like_a_mistake(
    tmp_path: Path, column: str, key: str, cell: Callable[[int], object]
) -> None:
    file = _table(tmp_path / "all.csv", **{column: cell})
    with raises(BadInput, key, repr(column)) as caught:
        own_cohort(file, Dealing(parties=2), label=ILL)
    assert f"--ignore {column}" in str(caught.value.hint)
    assert [f.name for f in own_cohort(file, Dealing(parties=2), label=ILL, ignore=[column]).features] == [
        "age",
        "dose",
    ]
    accepted = own_cohort(file, Dealing(parties=2), label=ILL, accept=[column]).features
    assert [f.name for f in accepted] == ["age", "dose", column]


@pytest.mark.parametrize(
    ("records", "parties", "hint"),
    [(24, 5, "25 or more"), (24, 2, "25 or more"), (40, 5, "--parties 3"), (60, 5, "--parties 4")],
)
def test_who_has_too_few_records_is_told_how_many_would_do(
    tmp_path: Path, records: int, parties: int, hint: str
) -> None:
    file = _table(tmp_path / "all.csv", age=lambda i: 20 + i % 40)
    file.write_text("\n".join(file.read_text().splitlines()[: records + 1]) + "\n")
    with pytest.raises(BadInput) as caught:
        own_cohort(file, Dealing(parties=parties), label=ILL)
    assert hint in str(caught.value.hint)
    if "--parties" in hint:  # what is advised works
        assert own_cohort(file, Dealing(parties=int(hint[-1])), label=ILL).parties


def test_decimal_commas_are_read_as_such_and_this_is_said(tmp_path: Path) -> None:
    plain = own_cohort(_table(tmp_path / "plain.csv"), Dealing(parties=2), label=ILL)
    comma = _table(tmp_path / "comma.csv", dose=lambda i: str(i % 37 / 8).replace(".", ","))
    european = own_cohort(comma, Dealing(parties=2), label=ILL)
    assert european.features == plain.features
    assert [[float(cell) for cell in row[:2]] for row in everybody(european)] == [
        [float(cell) for cell in row[:2]] for row in everybody(plain)
    ]
    assert "dose: a comma before the decimals became a point" in european.notes


def test_labels_match_but_for_capitals_and_this_is_said(tmp_path: Path) -> None:
    odd = _table(tmp_path / "all.csv", ill=lambda i: ("no", "No", "NO ", "Yes", "yes")[i % 5])
    cohort = own_cohort(odd, Dealing(parties=2), label=ILL)
    assert {row[-1] for row in everybody(cohort)} == {"no", "yes"}
    assert "ill: 72 labels matched but for capitals" in cohort.notes


# --- Guesses -----------------------------------------------------------------------


def guessed(cells: list[str], levels: int = 5, rare: int = 2) -> tuple[Feature | None, list[str], str]:
    made = guess("x", cells, lambda row: f"f.csv, line {row + 2}", Limits(levels, rare), "leave it out")
    return made.feature, list(made.cells), "; ".join(made.notes)


def test_empty_cells_of_a_category_become_the_level_of_missing_ones() -> None:
    made, cells, note = guessed(["a", "", "b", "?", "a", "b", ""])
    assert made == Feature(name="x", levels=("a", "b", "?"))
    assert cells == ["a", "?", "b", "?", "a", "b", "?"]
    assert says(note, "empty_cells_became", "x", "2 empty cells", "'?'", "f.csv, line 3")


def test_few_numbers_with_missing_ones_are_levels() -> None:
    made, _, note = guessed(["1", "2", "?", "1", "2", "?"])
    assert made == Feature(name="x", levels=("1", "2", "?"))
    assert says(note, "gaps_make_levels")


def test_the_rarest_of_too_many_levels_are_pooled() -> None:
    cells = ["a"] * 9 + ["b"] * 8 + ["c"] * 7 + ["d"] * 6 + ["e"] * 5 + ["f"] * 4
    made, pooled, note = guessed(cells)
    assert made == Feature(name="x", levels=("a", "b", "c", "d", "other"))
    assert Counter(pooled)["other"] == 9
    assert says(note, "levels_pooled", 2, "9 records", "'other'")
    assert says(note, "rarest_pooled", 5)


def test_rare_levels_join_an_other_that_is_there() -> None:
    made, cells, note = guessed(["other", "other", "a", "a", "z"])
    assert made == Feature(name="x", levels=("a", "other"))
    assert cells[-1] == "other"
    assert says(note, "level_pooled", "'other'", "1 record has")


@pytest.mark.parametrize("cells", [["7", "7.0"], ["a"] * 4, ["a", "b", "c", "d"], ["\x07"] * 3 + ["y" * 200] * 3])
def test_a_column_that_tells_no_two_records_apart_is_left_out(cells: list[str]) -> None:
    made, _, note = guessed(cells)
    assert made is None
    assert says(note, "useless_column", "x")


@pytest.mark.parametrize(
    ("low", "high", "bounds"),
    [
        (17.0, 90.0, (10.0, 90.0)),
        (123456789.0, 123456790.0, (123456789.0, 123456790.0)),
        (0.1, 0.30000000000000004, (0.1, 0.4)),
        (1e-9, 3.5e-9, (1e-9, 4e-9)),
        (-7.3, -7.1, (-7.3, -7.1)),
        (-1e300, 1e300, (-1e300, 1e300)),
        (99.999, 100.001, (99.999, 100.001)),
    ],
)
def test_rounding_never_moves_a_bound_into_the_records(low: float, high: float, bounds: tuple[float, float]) -> None:
    made = guessed([repr(low), repr(high)])[0]
    assert made is not None
    assert (made.min, made.max) == bounds
    assert bounds[0] <= low < high <= bounds[1]


def test_numbers_too_far_apart_are_refused() -> None:
    with raises(BadInput, "numbers_too_far_apart", "'x'"):
        guessed(["-1e308", "1.7e308"])
    with raises(BadInput, "numbers_too_far_apart", "'x'"):
        guessed(["0", "1.75e308"])


def test_names_are_read_without_the_records(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(b'\xef\xbb\xbfage; "a;b"\n' + b"\xff" * 10)
    assert [heading.name for heading in read_names(file)] == ["age", "a;b"]
    with raises(BadInput, "line_of_columns", "x.csv", 2):
        read_own(file)


def test_all_columns_that_no_model_should_learn_from_are_named_at_once_with_the_options_that_leave_them_out(
    tmp_path: Path,
) -> None:
    columns = {"case no": lambda i: 4_000_000 + 13 * i * i, "born": lambda i: f"{i % 28 + 1}-Feb-61"}
    file = _table(tmp_path / "all.csv", **columns, crp=lambda i: "<0.3" if i == 9 else i / 7)
    with raises(BadInput, "columns_not_to_learn_from", "all.csv", "3") as caught:
        own_cohort(file, Dealing(parties=2), label=ILL)
    hint = str(caught.value.hint)
    assert "--ignore 'case no' --ignore born --ignore crp" in hint
    assert "--accept crp" in hint
    mended = own_cohort(file, Dealing(parties=2), label=ILL, ignore=["case no", "born"], accept=["crp"])
    assert [f.name for f in mended.features] == ["age", "dose", "crp"]


@pytest.mark.parametrize(
    "cell", [lambda i: ("no", "yes", "unknown")[i % 9 % 3 if i % 4 else i % 2], lambda i: ("no", "yes", "")[i % 3]]
)
def test_a_label_of_three_values_or_none_is_refused_with_the_command_that_mends_it(
    shell: Shell, tmp_path: Path, cell: Callable[[int], object]
) -> None:
    file = _table(tmp_path / "all of it.csv", ill=cell)
    with pytest.raises(BadInput) as caught:
        own_cohort(file, Dealing(parties=2), label=ILL)
    found = re.search("masquerade (data look .*)", str(caught.value.hint))
    assert found is not None
    words = shlex.split(found[1])
    assert shell(*words).code == 0
    cohort = own_cohort(Path(words[-1]), Dealing(parties=2), label=ILL)
    labels = Counter(row[-1] for row in everybody(cohort))
    assert labels == Counter(str(cell(i)) for i in range(120) if cell(i) in {"no", "yes"})


def test_levels_that_differ_in_capitals_alone_are_one(tmp_path: Path) -> None:
    file = _table(tmp_path / "all.csv", ward=lambda i: ("Nord", "nord", "Nord", "SÜD", "Süd")[i % 5])
    cohort = own_cohort(file, Dealing(parties=2), label=ILL)
    assert feature(cohort, "ward").levels in {("Nord", "SÜD"), ("Nord", "Süd")}
    assert "ward: 48 cells matched but for capitals" in said(cohort)


def test_dashes_beside_plus_signs_are_values(tmp_path: Path) -> None:
    file = _table(tmp_path / "all.csv", blood=lambda i: "+-"[i % 2], smear=lambda i: ("f", "m", "-")[i % 3])
    cohort = own_cohort(file, Dealing(parties=2), label=ILL)
    assert feature(cohort, "blood").levels == ("+", "-")
    assert feature(cohort, "smear").levels == ("f", "m", "?")

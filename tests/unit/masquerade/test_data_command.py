"""``masquerade data``: a file is checked before the day, and a corrected copy is made of it by public rules."""

import csv
import re
import shlex
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from masquerade import cleaning
from masquerade_core.data.examining import examine
from masquerade_core.data.loading import load_csv
from masquerade_core.data.records import are_held_back
from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from tests.face_helpers import Shell
from tests.messages import raises, says, sentence
from tests.summary_helpers import as_summary
from tests.unit.core.data.test_data import CANARY, GOOD, STUDY

CLAMPS = STUDY.replace("[study]\n", '[study]\nout_of_bounds = "clamp"\n')
WIDE = STUDY.replace("max = 40\n", "max = 4000\n")
FILLS = STUDY.replace("max = 40\n", "max = 40\nmissing = 12\n")
HEAD = "radius,comment,sex,diagnosis\n"
REST = "".join(f"{i},x,{'fm'[i % 2]},{('benign', 'malignant')[i % 2]}\n" for i in range(20))


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def study(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        (tmp_path / "s.toml").write_text(text, encoding="utf-8")
        return tmp_path / "s.toml"

    return write


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        (tmp_path / "data.csv").write_text(text, encoding="utf-8")
        return tmp_path / "data.csv"

    return write


Write = Callable[[str], Path]


def test_a_clean_file_ends_with_0_and_says_so(shell: Shell, study: Write, file: Write) -> None:
    answer = shell("data", "check", study(STUDY), file(GOOD))
    assert answer.code == 0
    assert says(answer.err, "data_can_be_used", "data.csv")
    data = shell.json("data", "check", study(STUDY), file(GOOD)).data
    assert data["faults"] == data["signs"] == data["unseen"] == []
    assert (data["rule"], data["size"]) == ("refuse", "fits")


def test_a_faulty_file_ends_with_4_and_all_of_it_is_said(shell: Shell, study: Write, file: Write) -> None:
    text = HEAD + REST + f'{CANARY},x,f,benign\n?,x,F,benign\n"3,5",x,{CANARY},\n'
    answer = shell.json("data", "check", study(STUDY), file(text))
    assert answer.code == 4
    assert answer.json["error_code"] == "bad_input"
    found = [(f["column"], f["kind"], f["count"], f["first"], f["refused"]) for f in answer.data["faults"]]
    assert found == [
        ("radius", "outside", 1, [22], True),
        ("radius", "missing_word", 1, [23], True),
        ("radius", "decimal_comma", 1, [24], True),
        ("sex", "level_alike", 1, [23], True),
        ("sex", "level", 1, [24], True),
        ("diagnosis", "label_empty", 1, [24], True),
    ]
    text_answer = shell("data", "check", study(STUDY), file(text))
    assert text_answer.code == 4
    for fault in answer.data["faults"]:
        assert f"line {fault['first'][0]}: {fault['says']}" in " ".join(text_answer.err.split())
    assert CANARY not in answer.out + text_answer.out + text_answer.err


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (HEAD + REST + f"{CANARY},x,f,benign\n1,x,F,benign\n", "refuse"),
        ((HEAD + REST).replace(",", ";"), "refuse"),
        (HEAD + REST + "1,x,f,Benign\n-,x,f,benign\n", "clamp"),
    ],
)
def test_what_is_said_of_a_faulty_file_has_the_command_that_mends_it(
    shell: Shell, study: Write, file: Write, text: str, rules: str
) -> None:
    chosen, records = study(STUDY if rules == "refuse" else CLAMPS), file(text)
    answer = shell.json("data", "check", chosen, records)
    assert answer.code == 4
    command = re.search(r"masquerade (data clean [^']*)'", answer.json["hint"])
    assert command is not None
    checks = shell.json("doctor", chosen, "--data", records).data["checks"]
    assert command[0] in next(check["hint"] for check in checks if check["name"] == "data")
    words = shlex.split(command[1])
    assert shell(*words).code == 0
    assert shell("data", "check", chosen, words[-1]).code == 0


OWN_WORDS: dict[str, tuple[str, Callable[[str], str], list[str]]] = {
    # name: (study, what the file has, what the person puts before each equals sign)
    "levels": (CLAMPS, lambda text: text.replace(",f,", ",female,").replace(",m,", ",Male,"), ["female", "male"]),
    "levels, refused": (
        STUDY,
        lambda text: text.replace(",f,", ",female,").replace(",m,", ",Male,"),
        ["female", "male"],
    ),
    "other levels": (
        STUDY.replace('"m"', '"<=4:1,x"'),
        lambda text: text.replace(",f,", ",wife,").replace(",m,", ",<\u20114:1,"),
        ["wife", "<\u20114\\:1"],
    ),
    "labels": (CLAMPS, lambda text: text.replace("malignant", "b\u00f6sartig"), ["B\u00f6sartig"]),
    "labels, refused": (STUDY, lambda text: text.replace("malignant", "b\u00f6sartig"), ["B\u00f6sartig"]),
}


@pytest.mark.parametrize("name", OWN_WORDS)
def test_a_person_says_what_the_words_of_a_file_stand_for(
    name: str, shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    text, spelled, words = OWN_WORDS[name]
    good = HEAD + REST
    chosen, records = study(text), file(spelled(good))
    answer = shell.json("data", "check", chosen, records)
    assert answer.code == 4
    *command, rename = shlex.split(re.findall(r".*masquerade (data clean .*--rename .*)", answer.json["hint"])[0])
    assert not any(word in answer.json["hint"].casefold() for word in words)
    out = tmp_path / "data-mended.csv"
    assert shell(*command, rename).code == 4  # with the question marks still there
    assert not out.exists()
    column, _, pairs = rename.partition(":")
    meant = re.split(r"(?<!\\),", pairs)
    values = [pair.partition("=")[2] for pair in meant]
    if "?" in values:
        values = ["f", r"<\=4\:1\,x"]
    said = ",".join(f"{word}={value}" for word, value in zip(words, values, strict=True))
    mended = shell.json(*command, f"{column}:{said}")
    assert (mended.code, mended.data["left_out"]) == (0, 0)
    assert sum(one["count"] for one in mended.data["mended"]) == (10 if "labels" in name else 20)
    assert shell("data", "check", chosen, out).code == 0
    meant_records = file(good.replace(",m,", ',"<=4:1,x",') if name == "other levels" else good)
    one, two = load_csv(out, Study.parse(text)), load_csv(meant_records, Study.parse(text))
    assert (one.X.tobytes(), one.y.tobytes()) == (two.X.tobytes(), two.y.tobytes())


def test_a_number_for_missing_cells_is_mended_by_what_a_person_says_and_by_nothing_else(
    shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    chosen, records, out = study(CLAMPS), file(HEAD + REST + "9999,x,f,benign\n" * 4), tmp_path / "out.csv"
    answer = shell.json("data", "check", chosen, records)
    assert (answer.code, [doubt["kind"] for doubt in answer.data["doubts"]]) == (4, ["missing_code"])
    assert f"{records} {tmp_path / 'data-mended.csv'} --rename 'radius:?='" in answer.json["hint"]
    assert shell("data", "clean", chosen, records, out).code == 4
    assert not out.exists()
    for value, cell in (("", "20.0"), ("40", "40")):
        assert shell("data", "clean", chosen, records, out, "--rename", f"radius:9999.0={value}").code == 0
        assert [row[0] for row in _cells(out)[-4:]] == [cell] * 4
        assert shell("data", "check", chosen, out).code == 0
        out.unlink()


def test_levels_may_be_the_other_way_round_and_a_label_left_out(
    shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    records = file(HEAD + REST + "3,x,f,unclear\n3,x, F,benign\n")
    words = ("--rename", "sex:f=m,m=f", "--rename", "diagnosis:unclear=")
    answer = shell.json("data", "clean", study(STUDY), records, out, *words)
    assert (answer.code, answer.data["left_out"]) == (0, 1)
    assert [row[1] for row in _cells(out)[1:]] == ["m", "f"] * 10 + ["m"]


def test_a_cell_that_is_a_value_of_the_study_is_no_word_in_other_capitals(
    shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    records, out = file(HEAD + REST + "3,x,F,benign\n"), tmp_path / "out.csv"
    assert shell("data", "clean", study(STUDY), records, out, "--rename", "sex:F=m").code == 0
    assert [row[1] for row in _cells(out)[1:]] == ["f", "m"] * 10 + ["m"]


@pytest.mark.parametrize(
    ("renames", "key", "values"),
    [
        (["sex"], "not_a_rename", ("'sex'",)),
        (["sex:female"], "not_a_rename", ("'sex:female'",)),
        (["sex:=f"], "not_a_rename", ("'sex:=f'",)),
        (["sex:?=f"], "question_mark_renamed", ("'sex:?=f'",)),
        (["sex:a=f,a=m"], "renamed_twice", ("'sex:a=f,a=m'", "'a'")),
        (["sex:a=f", "sex:a=m"], "word_renamed_twice", ("'a'", "'sex'")),
        (["weight:a=f"], "renames_no_column", ("'weight'",)),
        (["sex:f=female"], "renamed_to_no_value", ("'sex'", "'female'")),
        (["radius:9999=41"], "renamed_to_no_value", ("'radius'", "'41'")),
        (["radius:9999=NA"], "renamed_to_no_value", ("'radius'", "'NA'")),
        (["sex:female=f"], "no_cell_is", ("data.csv", "'sex'", "'female'")),
    ],
)
def test_what_nobody_can_mean_is_refused(
    renames: list[str], key: str, values: tuple[str, ...], shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    words = [word for rename in renames for word in ("--rename", rename)]
    answer = shell("data", "clean", study(STUDY), file(HEAD + REST), tmp_path / "out.csv", *words)
    assert answer.code == 4
    assert says(answer.err, key, *values)
    assert not (tmp_path / "out.csv").exists()


def test_of_three_labels_the_command_that_names_them_is_said(shell: Shell, study: Write, file: Write) -> None:
    chosen, records = study(CLAMPS), file(HEAD + REST + "1,x,f,unknown\n" * 3)
    answer = shell.json("data", "check", chosen, records)
    assert answer.code == 4
    command = re.search(r"masquerade (data look [^']*)'", answer.json["hint"])
    assert command is not None
    refused = shell.json(*shlex.split(command[1]))
    assert refused.code == 4
    mending = re.search(r"masquerade (data look .*)", refused.json["hint"])
    assert mending is not None
    words = shlex.split(mending[1])
    assert shell(*words).code == 0
    assert shell("data", "check", chosen, words[-1]).code == 0


def test_what_a_study_repairs_is_said_with_what_becomes_of_it(shell: Shell, study: Write, file: Write) -> None:
    text = HEAD + REST + "99,x,f,benign\n?,x,F,benign\n1,x,f,\n1,x\n"
    answer = shell(
        "data", "check", study(CLAMPS), file(text), "--accept", "lines", "--accept", "sex", "--accept", "diagnosis"
    )
    assert answer.code == 0
    said = " ".join(answer.err.split())
    for words in (
        "line 22: column 'radius' has a value outside its public bounds, 0 to 40; it counts as the nearer bound",
        "such as '?' or 'NA'; it counts as 20.0",
        "differs from a level in capitals or blanks alone; it counts as 'f'",
        "line 24: the label 'diagnosis' is empty; it counts as not 'malignant'",
        "line 25 has 2 columns, but the first line has 4; all its cells count as missing",
    ):
        assert words in said
    answer = shell("data", "check", study(FILLS), file(HEAD + REST + "?,x,f,benign\n"))
    assert answer.code == 0
    assert says(" ".join(answer.err.split()), "counts_as", ..., "12.0")


def test_size_and_labels_that_no_record_has_are_said(shell: Shell, study: Write, file: Write) -> None:
    few = shell("data", "check", study(STUDY), file(HEAD + "1,x,f,benign\n2,x,m,benign\n"))
    assert few.code == 4
    assert f"data.csv {sentence('fewer_than_the_studys', 3)}" in few.err
    one_class = file(HEAD + REST.replace("malignant", "benign"))
    answer = shell("data", "check", study(STUDY), one_class)
    assert (answer.code, says(answer.err, "label_is_never", "'malignant'")) == (4, True)
    assert shell("data", "check", study(STUDY), one_class, "--accept", "diagnosis").code == 0
    classes = STUDY.replace('positive = "malignant"', 'classes = ["benign", "malignant", "rare"]')
    counting = as_summary(Study.parse(classes)).to_toml()
    assert says(shell("data", "check", study(counting), file(HEAD + REST)).err, "label_unseen", "'rare'")
    assert examine(file(HEAD + REST), Study.parse(classes)).unseen == ("rare",)


def test_a_protocol_that_counts_refuses_no_cell(shell: Shell, study: Write, file: Write, tmp_path: Path) -> None:
    counting = as_summary(Study.parse(STUDY)).to_toml()
    text = HEAD + REST + "?,x,F,\n"
    answer = shell.json("data", "check", study(counting), file(text))
    assert (answer.code, answer.data["rule"]) == (0, "count")
    assert [fault["refused"] for fault in answer.data["faults"]] == [False, False, False]
    assert shell("data", "clean", study(counting), file(text), tmp_path / "out.csv").code == 0
    assert _cells(tmp_path / "out.csv")[-1] == ["?", "f", ""]


# --- A corrected copy -------------------------------------------------------------


def _cells(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as opened:
        return list(csv.reader(opened))


MENDED: dict[str, tuple[str, str, list[str], int]] = {
    # name: (study, the last record, the copy's last record or nothing, how many are left out)
    "decimal comma": (STUDY, '"3,5",x,f,benign', ["3.5", "f", "benign"], 0),
    "decimal comma and thousands": (CLAMPS, '"1.003,5",x,f,benign', ["40.0", "f", "benign"], 0),
    "thousands": (CLAMPS, '"1,000,000",x,f,benign', ["40.0", "f", "benign"], 0),
    "which comma": (WIDE, '"1,234",x,f,benign', [], 1),
    "blanks": (STUDY, " 3 ,x, f,benign ", ["3", "f", "benign"], 0),
    "capitals": (STUDY, "3,x,F,Benign", ["3", "f", "benign"], 0),
    "out of bounds, refused": (STUDY, "41,x,f,benign", [], 1),
    "out of bounds, clamped": (CLAMPS, "-41,x,f,benign", ["0.0", "f", "benign"], 0),
    "missing, refused": (STUDY, "?,x,f,benign", [], 1),
    "missing, filled": (FILLS, "?,x,f,benign", ["12.0", "f", "benign"], 0),
    "missing, clamped": (CLAMPS, "?,x,,benign", ["20.0", "f", "benign"], 0),
    "text, where missing alone is filled": (FILLS, "abc,x,f,benign", [], 1),
    "a date": (STUDY, "2026-01-02,x,f,benign", [], 1),
    "a unit": (STUDY, "3 mg,x,f,benign", [], 1),
    "an unknown level": (STUDY, "3,x,q,benign", [], 1),
    "an unknown level, clamped": (CLAMPS, "3,x,q,benign", ["3", "f", "benign"], 0),
    "no label": (STUDY, "3,x,f,", [], 1),
    "no label, clamped": (CLAMPS, "3,x,f,", [], 1),
    "a short line": (STUDY, "3,x", [], 1),
    "a long line, clamped": (CLAMPS, "3,x,f,benign,5", [], 1),
}


@pytest.mark.parametrize("kind", MENDED)
def test_each_rule_mends_what_it_may_and_leaves_out_the_rest(
    kind: str, shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    text, record, expected, left_out = MENDED[kind]
    dirty, out = file(f"{HEAD}{REST}{record}\n"), tmp_path / "out.csv"
    answer = shell.json("data", "clean", study(text), dirty, out)
    assert answer.code == 0
    assert answer.data["left_out"] == left_out
    assert sum(one["count"] for one in answer.data["mended"]) >= (1 if expected else 0)
    header, *records = _cells(out)
    assert header == ["radius", "sex", "diagnosis"]
    rest = [[line.split(",")[i] for i in (0, 2, 3)] for line in REST.splitlines()]
    assert records == rest + ([expected] if expected else [])
    assert shell("data", "check", study(text), out).code == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "out.csv", "s.toml"]


def test_a_copy_of_a_good_file_gives_the_same_records(study: Write, file: Write, tmp_path: Path) -> None:
    for text in (STUDY, CLAMPS):
        dirty = file(HEAD + REST + (f"{CANARY},x,q,malignant\n?,x,f,benign\n" if text is CLAMPS else ""))
        out = tmp_path / f"{len(text)}.csv"
        cleaned = cleaning.clean(dirty, Study.parse(text), out)
        one, two = load_csv(dirty, Study.parse(text)), load_csv(out, Study.parse(text))
        assert one.X.tobytes() == two.X.tobytes()
        assert one.y.tobytes() == two.y.tobytes()
        assert cleaned.kept == len(one.y)
    study(STUDY)


@pytest.mark.parametrize(
    "faulty", [(0,), (137,), (999,), (3, 4, 500, 998), tuple(range(0, 1000, 7)), tuple(range(500, 1000))]
)
def test_records_that_are_left_out_change_the_side_of_no_other_but_the_last(
    faulty: tuple[int, ...], study: Write, file: Write, tmp_path: Path
) -> None:
    text, records = WIDE, [f"{i},x,f,benign" for i in range(1000)]
    study(text)
    raw = are_held_back(1000, 0.2)
    broken = [f"{i},x" if i % 2 else "?,x,f,benign" for i in range(1000)]
    dirty = file(HEAD + "".join(f"{broken[i] if i in faulty else line}\n" for i, line in enumerate(records)))
    cleaned = cleaning.clean(dirty, Study.parse(text), tmp_path / "out.csv")
    order = [int(row[0]) for row in _cells(tmp_path / "out.csv")[1:]]
    assert (cleaned.kept, cleaned.dropped) == (1000 - len(faulty), len(faulty))
    assert sorted(order) == sorted(set(range(1000)) - set(faulty))
    moved = [i for place, i in enumerate(order) if place != i]
    assert len(moved) <= len(faulty)
    assert all(i >= cleaned.kept for i in moved)
    changed = [i for i, held in zip(order, are_held_back(len(order), 0.2), strict=True) if held != raw[i]]
    assert set(changed) <= set(moved)


def test_another_format_becomes_csv_with_the_study_s_columns(
    shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    semicolons = (HEAD + REST).replace(",", ";").replace("radius", " Radius").replace("7;x", "7,25;x")
    dirty = file("")
    dirty.write_bytes(("sep=;\n" + semicolons).encode("utf-16"))
    answer = shell.json("data", "clean", study(STUDY), dirty, tmp_path / "out.csv")
    assert answer.code == 0
    assert {sign["name"] for sign in answer.data["signs"]} == {"encoding", "sep_line", "separator", "column_alike"}
    records = _cells(tmp_path / "out.csv")
    assert records[0] == ["radius", "sex", "diagnosis"]
    assert records[8] == ["7.25", "m", "malignant"]
    assert len(records) == 21


def test_points_are_not_trusted_where_commas_stand_before_decimals(
    shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    dirty = file(HEAD + REST + '"3,5",x,f,benign\n"1,234",x,f,benign\n1.234,x,f,benign\n36.6,x,f,benign\n')
    answer = shell.json("data", "clean", study(STUDY), dirty, tmp_path / "out.csv")
    assert [one[0] for one in _cells(tmp_path / "out.csv")[-3:]] == ["3.5", "1.234", "36.6"]
    assert answer.data["left_out"] == 1
    assert [(one["kind"], one["first"]) for one in answer.data["reasons"]] == [("point", [24])]


def test_what_no_rule_mends_writes_nothing(shell: Shell, study: Write, file: Write, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    for text, said in (
        (HEAD + REST + f"1,x,f,{CANARY}\n", "more than two different values"),
        ((HEAD + REST).replace("radius", "weight"), "no column 'radius'"),
        ((HEAD + REST).replace("malignant", "yes"), "never 'malignant'"),
        (HEAD, "no records"),
        (HEAD + "?,x,f,benign\n", "no record that the public rules mend"),
        ("", "is empty"),
    ):
        answer = shell("data", "clean", study(STUDY), file(text), out)
        assert answer.code == 4
        assert said in answer.err
        assert CANARY not in answer.err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "s.toml"]


def test_a_file_that_is_there_is_never_overwritten(
    study: Write, file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirty, out, parsed = file(GOOD), tmp_path / "out.csv", Study.parse(STUDY)
    out.write_text("mine", encoding="utf-8")
    with raises(BadInput, "copy_not_overwritten", ...):
        cleaning.clean(dirty, parsed, out)
    out.unlink()

    def first(*args: object, **kwargs: object) -> object:
        out.write_text("mine", encoding="utf-8")  # somebody else's, after we have looked
        return examine(*args, **kwargs)  # type: ignore[arg-type]  # what the caller gave

    monkeypatch.setattr(cleaning, "examine", first)
    with raises(BadInput, "copy_not_overwritten", ...):
        cleaning.clean(dirty, parsed, out)
    assert out.read_text(encoding="utf-8") == "mine"
    with raises(BadInput, "copy_is_csv", ...):
        cleaning.clean(dirty, parsed, tmp_path / "out.parquet")
    monkeypatch.undo()
    with raises(BadInput, "copy_cannot_be_written", ..., ...):
        cleaning.clean(dirty, parsed, tmp_path / "none" / "out.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "out.csv"]
    study(STUDY)


def test_a_column_that_would_be_filled_is_no_corrected_column(
    shell: Shell, study: Write, file: Write, tmp_path: Path
) -> None:
    def answer(filled: int) -> int:
        text = HEAD + REST.replace("f,", "q,", filled)
        return shell("data", "clean", study(CLAMPS), file(text), tmp_path / f"out{filled}.csv").code

    assert (answer(4), answer(5)) == (0, 4)
    assert [path.name for path in tmp_path.glob("out*")] == ["out4.csv"]

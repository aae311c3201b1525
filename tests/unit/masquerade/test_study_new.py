"""``study new`` takes columns from a file, settings from another study, and whatever a protocol's section has."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade.codebook import split_levels
from masquerade.doctor import examine
from masquerade.draft import Draft
from masquerade.draft_lines import with_settings
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label, Study
from masquerade_core.study_files import load_study, read_study_text
from masquerade_core.words import listed
from masquerade_protocols import BASELINES, MEASUREMENTS, PROTOCOLS, entry_named, entry_of, statement_of
from masquerade_protocols.dp_gd import schedule as dp_gd
from tests.adult_helpers import COLUMNS, WORK, rows, write_adult
from tests.face_helpers import Answer, Shell, small_study
from tests.messages import raises, says, sentence

CODEBOOK = """\
name,use,min,max,levels,edges,positive,note
age,,0,120,,,,"years, at the census"
workclass,,,,Private | Self-emp-not-inc | Local-gov | ?,,,
fnlwgt,ignore,,,,,,a weight
capital-gain,,,,,1 | 5000 | 10000,,
"size, in m",feature,0,3,,,,
income,label,,,,,>50K,
"""

AGES = "".join(f"{age},yes\n" for age in range(40, 70))


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def new(shell: Shell, path: Path, *words: object) -> Answer:
    return shell.json("study", "new", "--output", path, "--throwaway-keys", *words)


def made(shell: Shell, path: Path, *words: object) -> Study:
    answer = new(shell, path, *words)
    assert answer.code == 0, answer.json["message"]
    study = load_study(path, in_memory=True)[0]
    entry_of(study)
    return study


# --- Columns from a file -----------------------------------------------------------


def test_of_a_table_the_names_alone_are_read_and_the_ranges_are_left_open(shell: Shell, tmp_path: Path) -> None:
    table, file = write_adult(tmp_path / "adult.csv", rows(50)), tmp_path / "s.toml"
    words = ["--features-from", table, "--ignore", "fnlwgt", "--label", "income:>50K", "--feature", "age:0:120"]
    answer = new(shell, file, *words, "--feature", "sex:Female,Male")
    open_ones = ["workclass", "education", "capital-gain", "hours-per-week", "country"]
    assert answer.data["unranged"] == open_ones
    assert answer.data["complete"] is False
    assert says(answer.json["message"], "public_ranges", "s", listed(open_ones))
    assert says(answer.json["hint"], "fill_in_ranges")
    text = file.read_text()
    assert text.count(f"# FILL IN {sentence('fill_in_any')}.") == 5
    assert not any(cell in text for cell in ("Private", "Bachelors", "99999", "Country-0"))  # these are records'
    order = [line.split('"')[1] for line in text.split("[curator]")[0].splitlines() if line.startswith("name = ")][1:]
    assert order == ["income", *(name for name in COLUMNS if name not in {"fnlwgt", "income"})]
    check = shell.json("study", "check", file)
    assert check.code == 4
    assert "5 problems" in check.json["message"]
    assert says(check.json["message"], "no_range", "'workclass'", "no range")


def test_what_a_large_run_asks_of_lines_and_machines_is_said_wherever_the_study_is(
    shell: Shell, tmp_path: Path
) -> None:
    book = tmp_path / "codebook.csv"
    for levels, large in ((1200, True), (900, False)):
        file = tmp_path / f"{levels}.toml"
        words = " | ".join(f"l{i}" for i in range(levels))
        book.write_text(f"name,min,max,levels,positive,use\nward,,,{words},,\nill,,,,yes,label\n")
        message = new(shell, file, "--features-from", book, "--protocol", "dp-whitened").json["message"]
        study = load_study(file, in_memory=True)[0]
        cost = entry_of(study).cost(study)
        sizes = [f"{size / 1e6:,.0f} MB" for size in (cost.sent, cost.received, study.K * cost.sent)]
        assert says(message, "each_party_sends", *sizes) is large
        for command in ("check", "show"):
            said = shell.json("study", command, file).data["burden"]
            assert says(said, "each_party_sends", *sizes) is large
            assert says(shell("study", command, file).err, "each_party_sends", *sizes) is large
        found = [check for check in examine(file) if check.name == "size"]
        assert [says(check.message, "each_party_sends", *sizes) for check in found] == [True] * large


def test_bounds_are_not_read_off_records_even_if_the_records_cannot_be_read_at_all(
    shell: Shell, tmp_path: Path
) -> None:
    table = tmp_path / "t.csv"
    table.write_bytes(b"age,ill\n\xff\xfe")
    assert new(shell, tmp_path / "s.toml", "--features-from", table, "--label", "ill:yes").data["unranged"] == ["age"]


def test_the_types_of_a_parquet_file_are_public(shell: Shell, tmp_path: Path) -> None:
    table, file = tmp_path / "t.parquet", tmp_path / "s.toml"
    pq.write_table(pa.table({"age": [41.5], "ward": ["north"], "smokes": [True], "ill": ["yes"]}), table)
    assert new(shell, file, "--features-from", table, "--label", "ill:yes").data["unranged"] == ["age", "ward"]
    text = file.read_text()
    assert f'name = "age"\n# FILL IN {sentence("fill_in_number")}.' in text
    assert f'name = "ward"\n# FILL IN {sentence("fill_in_text")}.' in text
    assert 'name = "smokes"\nlevels = ["false", "true"]' in text
    assert "41.5" not in text
    assert "north" not in text


def test_a_codebook_says_ranges_and_the_label(shell: Shell, tmp_path: Path) -> None:
    book = tmp_path / "codebook.csv"
    book.write_text(CODEBOOK)
    study = made(shell, tmp_path / "s.toml", "--features-from", book)
    assert study.features == (
        Feature(name="age", min=0.0, max=120.0),
        Feature(name="workclass", levels=WORK),
        Feature(name="capital-gain", edges=(1.0, 5000.0, 10000.0)),
        Feature(name="size, in m", min=0.0, max=3.0),
    )
    assert study.label == Label(name="income", positive=">50K")
    other = made(shell, tmp_path / "t.toml", "--features-from", book, "--ignore", "age", "--label", "size, in m:2",
                 "--feature", "workclass:a,b")  # fmt: skip
    assert [f.name for f in other.features] == ["workclass", "capital-gain"]
    assert other.features[0].levels == ("a", "b")
    assert other.label == Label(name="size, in m", positive="2")


def test_a_codebook_may_say_what_a_missing_cell_counts_as(shell: Shell, tmp_path: Path) -> None:
    book = tmp_path / "codebook.csv"
    head = "name,min,max,levels,edges,missing,positive,use"
    book.write_text(f"{head}\nage,0,120,,,37.5,,\nwork,,,a | b | c,,b,,\nsize,,,,1 | 9,2,,\nill,,,,,,yes,label\n")
    study = made(shell, tmp_path / "s.toml", "--features-from", book)
    assert [feature.missing for feature in study.features] == [37.5, "b", 2.0]
    for old, wrong, said in (
        ("37.5", "old", "line 2: 'missing' must be a number"),
        (",b,", ",d,", "one of the levels"),
    ):
        book.write_text(book.read_text().replace(old, wrong))
        assert said in new(shell, tmp_path / "no.toml", "--features-from", book).json["message"]
        book.write_text(book.read_text().replace(wrong, old))


def test_a_public_sample_with_a_missing_number_says_what_it_counts_as(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,ill\n" + AGES + ",no\n")
    words = ["--features-from", tmp_path / "t.csv", "--from-public-sample", "--label", "ill:yes"]
    answer = new(shell, tmp_path / "s.toml", *words)
    (age,) = load_study(tmp_path / "s.toml")[0].features
    assert age == Feature(name="age", min=40.0, max=70.0, missing=54.5)
    assert "age: 1 number is missing, the first in t.csv, line 32, and counts as 54.5" in answer.json["message"]


def test_a_codebook_s_label_may_have_classes_and_a_level_may_have_a_bar() -> None:
    assert split_levels(r"a\|b | c,d|?") == ("a|b", "c,d", "?")


def test_feature_blocks_are_read_from_toml(shell: Shell, tmp_path: Path) -> None:
    blocks = tmp_path / "blocks.toml"
    blocks.write_text('[[feature]]\nname = "age"\nmin = 0.0\nmax = 90\n[[feature]]\nname = "b"\nlevels = ["x", "?"]\n'
                      '[label]\nname = "ill"\npositive = "yes"\n')  # fmt: skip
    study = made(shell, tmp_path / "s.toml", "--features-from", blocks)
    assert study.features == (Feature(name="age", min=0.0, max=90.0), Feature(name="b", levels=("x", "?")))
    assert study.label.name == "ill"


def test_a_public_sample_gives_bounds_and_levels(shell: Shell, tmp_path: Path) -> None:
    table = write_adult(tmp_path / "adult.csv", rows(300))
    words = ["--features-from", table, "--from-public-sample", "--label", "income:>50K", "--ignore", "fnlwgt"]
    study = made(shell, tmp_path / "s.toml", *words)
    known = {f.name: f for f in study.features}
    assert list(known) == [name for name in COLUMNS if name not in {"fnlwgt", "income"}]
    assert known["age"] == Feature(name="age", min=10.0, max=90.0)
    assert known["workclass"].levels == ("Local-gov", "Private", "Self-emp-not-inc", "?")
    levels = known["country"].levels
    assert levels is not None
    assert len(levels) == len(
        {row[7] for row in rows(300)}
    )  # nothing is pooled: nobody could pool the parties' records


@pytest.mark.parametrize(
    ("name", "text", "words", "message"),
    [
        ("t.csv", "age,ill\n", ["--ignore", "wage"], "--ignore: t.csv has no column 'wage'"),
        ("t.csv", "age,ill\n", ["--feature", "wage:0:1"], "--feature: t.csv has no column 'wage'"),
        ("t.csv", "age,ill\n", ["--ignore", "age"], "has no column that a study could learn from"),
        ("t.csv", "", [], "t.csv is empty"),
        ("t.csv", "age,age\n", [], "has the column 'age' twice"),
        ("t.csv", "41,41\n", [], "names no columns"),
        ("t.csv", "41,yes\n42,no\n", [], "the first line of t.csv holds numbers, so it may be a record"),
        ("t.csv", "age,?\n42,no\n", [], "the first line of t.csv holds numbers, so it may be a record"),
        ("t.csv", "age,ill\n41,yes\n", ["--from-public-sample", "--ignore", "x"], "no column 'x'"),
        ("t.csv", "id,ill\n" + "".join(f"a{i},yes\n" for i in range(300)), ["--from-public-sample"], "300 levels"),
        ("b.csv", "name,min,max,levels\nage,low,9,\n", [], "b.csv, line 2: min, max and edges must be numbers"),
        ("b.csv", "name,min,max,levels\nage,9,0,\n", [], "b.csv, line 2: feature 'age' has min 9.0 and max 0.0"),
        ("b.csv", "name,min,max,levels\nage,9,,\n", [], "has only one of min and max"),
        ("b.csv", "name,min,max,levels\na,0,1,\na,0,1,\n", [], "'a' is described twice"),
        ("b.csv", "name,min,max,levels,use\na,0,1,,labels\n", [], "the column 'use' has a word that is not one of"),
        ("b.csv", "name,min,max,levels,use\na,,,x|y,label\nb,,,x|y,label\n", [], "there is a second label, 'b'"),
        ("b.csv", "name,min,max,levels\na,0,1,\n", ["--from-public-sample"], "b.csv has a codebook"),
        ("b.toml", "[[feature]]\nname = 'a'\n", [], "b.toml: feature 'a' has no range"),
        ("b.toml", "[[feature]\n", [], "b.toml is not TOML"),
        ("b.toml", "x = 1\n", [], "[feature] is missing"),
        ("gone.csv", None, [], "there is no file"),
    ],
)  # fmt: skip
def test_a_file_that_names_no_columns_is_refused_in_a_sentence(
    shell: Shell, tmp_path: Path, name: str, text: str | None, words: list[str], message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    answer = new(shell, tmp_path / "s.toml", "--features-from", tmp_path / name, "--label", "ill:yes", *words)
    assert (answer.code, answer.json["error_code"]) == (4, "bad_input")
    assert message in answer.json["message"]
    assert answer.json["hint"] or name == "b.toml"
    assert not (tmp_path / "s.toml").exists()


@pytest.mark.parametrize("words", [["--ignore", "age"], ["--from-public-sample"]])
def test_options_about_a_file_need_the_file(shell: Shell, tmp_path: Path, words: list[str]) -> None:
    answer = new(shell, tmp_path / "s.toml", *words)
    assert answer.code == 4
    assert words[0] in answer.json["message"]


# --- Missing values ------------------------------------------------------------------


def test_an_empty_cell_counts_as_the_level_of_missing_values_and_only_as_that() -> None:
    with_level = Encoder((Feature(name="x", levels=("a", "?")),), intercept=False)
    assert np.array_equal(with_level.encode({"x": ["a", "?", "", None]}), [[1, 0], [0, 1], [0, 1], [0, 1]])
    without = Encoder((Feature(name="x", levels=("a", "b")),), intercept=False)
    with raises(BadInput, "unknown_level"):
        without.encode({"x": ["a", ""]})


# --- Another study -----------------------------------------------------------------


def test_like_takes_columns_label_and_settings_but_neither_nonce_nor_keys(shell: Shell, tmp_path: Path) -> None:
    old = made(
        shell, tmp_path / "old.toml", "--protocol", "psgd", "--rounds", 7, "--epsilon", 0.3, "--delta", 1e-5,
        "--min-records", 50, "--regularization", 0.5, "--deadline", 9, "--key-bits", 512, "--colluders", 1,
        "--party", "a", "--party", "b", "--lead", "b", "--feature", "job:x\\,y,z,?", "--label", "ill:yes",
        "--address", "tcp://charlie.example.org:7777", "--name", "first",
    )  # fmt: skip
    again = made(shell, tmp_path / "new.toml", "--like", tmp_path / "old.toml")
    different = {name for name, value in old.canonical().items() if again.canonical()[name] != value}
    assert different == {"study.nonce", "curator.key", "party.0.key", "party.1.key"}
    changed = made(shell, tmp_path / "c.toml", "--like", tmp_path / "old.toml", "--epsilon", 2, "--rounds", 9,
                   "--party", "c", "--party", "d", "--party", "e", "--feature", "job:1:2")  # fmt: skip
    assert (changed.privacy.epsilon, changed.privacy.delta) == (2.0, 1e-5)
    assert changed.protocol == {"rounds": 9}
    assert (changed.names, changed.lead, changed.study.min_parties) == (("c", "d", "e"), "c", 3)
    assert changed.features == (Feature(name="job", min=1.0, max=2.0),)


def test_a_study_without_its_keys_may_be_liked(shell: Shell, tmp_path: Path) -> None:
    assert shell("study", "new", "--output", tmp_path / "old.toml", "--feature", "a:0:1", "--label", "b:c").code == 0
    assert made(shell, tmp_path / "new.toml", "--like", tmp_path / "old.toml").features[0].name == "a"


def test_another_protocol_takes_its_own_settings(shell: Shell, tmp_path: Path) -> None:
    words = ["--protocol", "psgd", "--rounds", 7, "--regularization", 0.7, "--feature", "a:0:1", "--label", "b:c"]
    made(shell, tmp_path / "old.toml", *words)
    study = made(shell, tmp_path / "new.toml", "--like", tmp_path / "old.toml", "--protocol", "dp-gd")
    fresh = made(shell, tmp_path / "fresh.toml", "--protocol", "dp-gd")
    assert (study.protocol, study.model) == (fresh.protocol, fresh.model)
    assert study.privacy.calibration == "proven"


def test_like_keeps_what_a_draft_does_not_show(shell: Shell, tmp_path: Path) -> None:
    """The loss, and numbers for which there is no option."""
    old = small_study(shell, tmp_path / "old.toml", protocol="psgd")
    text = old.read_text().replace('loss = "logistic"', 'loss = "smoothed-hinge"')
    old.write_text(text.replace("# max_records = 100000\n", "max_records = 700\nrecords_per_person = 2\n"))
    study = made(shell, tmp_path / "new.toml", "--like", old)
    assert (study.model.loss, study.study.max_records, study.study.records_per_person) == ("smoothed-hinge", 700, 2)


def test_like_keeps_what_a_line_that_is_left_out_meant_there(shell: Shell, tmp_path: Path) -> None:
    old = small_study(shell, tmp_path / "old.toml", protocol="dp-gd")
    lines = [
        line for line in old.read_text().splitlines() if not line.startswith(("colluders", "out_of_bounds", "sum"))
    ]
    old.write_text("\n".join(lines))
    study = made(shell, tmp_path / "new.toml", "--like", old)
    assert (study.privacy.colluders, study.study.out_of_bounds, study.crypto.sum) == (0, "refuse", "paillier")
    assert (study.lead, study.key_bits) == ("north", 512)


def test_sections_that_a_draft_does_not_know_are_kept() -> None:
    more: dict[str, dict[str, Any]] = {
        "evaluation": {"share": 0.2, "bins": [1, 2]},
        "study": {"expected_records": 500, "min_parties": 2},
    }
    text = Draft(parties=[("a", None), ("b", None)], more=more)._text(str, [Feature(name="x", min=0.0, max=1.0)])
    assert text.count("expected_records = 500") == 1
    assert text.index("[study]") < text.index("expected_records = 500") < text.index("[privacy]")
    assert text.count("min_parties = 2") == 1
    assert "[evaluation]\nshare = 0.2\nbins = [1, 2]\n" in text


# --- Settings of the protocol ------------------------------------------------------


def test_a_protocol_s_settings_are_options(shell: Shell, tmp_path: Path) -> None:
    words = ["--protocol", "dp-gd", "--rounds", 9, "--clip", 0.25, "--set", "learning_rate=2.5"]
    study = made(shell, tmp_path / "s.toml", *words)
    assert study.protocol.items() >= {"rounds": 9, "clip": 0.25, "learning_rate": 2.5}.items()
    lines = read_study_text(tmp_path / "s.toml").splitlines()
    assert lines[lines.index("learning_rate = 2.5") - 1].startswith("# ")


def test_a_setting_that_the_section_does_not_show_is_added_with_its_description() -> None:
    entry = replace(entry_named("dp-gd"), section="# How many.\nrounds = 20\n")
    text = with_settings(entry.section, entry, {"clip": 0.25, "rounds": 3})
    assert text == "# How many.\nrounds = 3\n# C, the longest gradient of a record.\nclip = 0.25\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--protocol", "dp-gd", "--set", "learning_rat=2"], "(did you mean 'learning_rate'?)"),
        (["--protocol", "psgd", "--clip", "1"], "psgd has no clip to choose"),
        (["--protocol", "dp-gd", "--clip", "7"], "clip is 7.0, but must be at most 1"),
        (["--protocol", "dp-gd", "--set", "clip=wide"], 'clip is "wide", but must be a number'),
        (["--protocol", "dp-gd", "--set", "clip"], "--set 'clip' is not KEY=VALUE"),
        (["--protocol", "pooled", "--set", "clip=1"], "pooled has no clip to choose"),
    ],
)  # fmt: skip
def test_a_setting_that_the_protocol_does_not_have_is_refused(
    shell: Shell, tmp_path: Path, words: list[str], message: str
) -> None:
    answer = new(shell, tmp_path / "s.toml", *words)
    assert answer.code == 4
    assert message in answer.json["message"]


# --- Defaults that keep the privacy target ------------------------------------------


@pytest.mark.parametrize("name", [n for n, entry in {**PROTOCOLS, **MEASUREMENTS}.items() if not entry.auxiliary])
def test_a_new_study_is_proven_and_counts_with_a_colluder_wherever_there_is_a_proof(
    shell: Shell, tmp_path: Path, name: str
) -> None:
    more = ["--set", "weights=[0.0, 0.0, 0.0, 0.0]"] if name in MEASUREMENTS else []
    study = made(shell, tmp_path / "s.toml", "--protocol", name, *more)
    able = "proven" in entry_named(name).calibrations
    assert able or name in {"noisy-gradient", "decaying-budget"}
    assert (study.privacy.calibration, study.privacy.colluders) == (("proven", 1) if able else ("paper", 0))


@pytest.mark.parametrize("name", sorted(BASELINES))
def test_nobody_colludes_in_a_baseline(shell: Shell, tmp_path: Path, name: str) -> None:
    study = made(shell, tmp_path / "s.toml", "--protocol", name)
    assert study.proven is ("proven" in entry_named(name).calibrations)
    assert study.privacy.colluders == 0
    assert says((tmp_path / "s.toml").read_text(), "nobody_in_baseline")


def test_the_paper_s_noise_has_to_be_asked_for_and_the_file_says_what_it_is_for(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    answer = new(shell, file, "--protocol", "psgd", "--calibration", "paper")
    study = load_study(file, in_memory=True)[0]
    assert (study.privacy.calibration, study.privacy.colluders) == ("paper", 0)
    comments = " ".join(file.read_text().replace("\n# ", " ").split())
    assert says(comments, "paper_noise_in_file")
    assert f"Note: {sentence('paper_noise_noted')}" in answer.json["message"]
    other = new(shell, tmp_path / "t.toml", "--protocol", "psgd")
    assert not says(other.json["message"], "paper_noise_noted")
    assert says(" ".join((tmp_path / "t.toml").read_text().replace("\n# ", " ").split()), "paper_noise_not_chosen")


def test_with_two_parties_the_file_and_the_screen_say_that_each_bears_the_whole_noise(
    shell: Shell, tmp_path: Path
) -> None:
    for K in (2, 3):
        file = tmp_path / f"{K}.toml"
        answer = new(shell, file, *(word for k in range(K) for word in ("--party", f"p{k}")))
        comments = " ".join(file.read_text().replace("\n# ", " ").split())
        factor = f"all together have {math.sqrt(K / (K - 1)):.2f} times the noise that colluders = 0 would need"
        assert factor in comments
        assert ("With two parties, each then bears the whole noise" in comments) is (K == 2)
        assert (says(answer.json["message"], "whole_noise_noted")) is (K == 2)
    study = made(shell, tmp_path / "gd.toml", "--protocol", "dp-gd", "--party", "a", "--party", "b")
    shares = [float(dp_gd.noise_of(study_with(study, t)).share) for t in (1, 0)]
    assert shares[0] == pytest.approx(math.sqrt(2) * shares[1], rel=1e-6)


def test_where_each_party_draws_the_whole_noise_the_file_says_so(shell: Shell, tmp_path: Path) -> None:
    for name in ("weighted-dp", "input-noise"):
        file = tmp_path / f"{name}.toml"
        answer = new(shell, file, "--protocol", name, "--party", "a", "--party", "b")
        text = file.read_text().replace("\n# ", " ")
        assert says(text, "whole_noise_each", ...)
        assert says(text, "own_records_alone")
        assert "two parties" not in answer.json["message"]
        rows = [statement_of(study_with(load_study(file)[0], t))[0].epsilon for t in (0, 1)]
        assert rows[0] == rows[1]


def study_with(study: Study, colluders: int) -> Study:
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"colluders": colluders})})


def test_without_colluders_the_file_and_the_screen_say_what_that_means(shell: Shell, tmp_path: Path) -> None:
    answer = new(shell, tmp_path / "s.toml", "--colluders", 0)
    assert f"Note: {sentence('no_colluders_noted')}" in answer.json["message"]
    comments = " ".join((tmp_path / "s.toml").read_text().replace("\n# ", " ").split())
    assert says(comments, "with_one_colluder")


def test_a_study_like_a_paper_s_takes_neither_its_colluders_nor_its_paper_s_settings_to_proven_noise(
    shell: Shell, tmp_path: Path
) -> None:
    paper = tmp_path / "paper.toml"
    made(shell, paper, "--protocol", "input-noise", "--calibration", "paper", "--set", "epochs=7")
    same = made(shell, tmp_path / "same.toml", "--like", paper)
    assert (same.privacy.calibration, same.privacy.colluders, same.protocol["epochs"]) == ("paper", 0, 7)
    assert same.protocol["epsilon_y"] == 1.0
    for more in (["--calibration", "proven"], ["--protocol", "dp-gd"]):
        study = made(shell, tmp_path / f"{len(more[1])}.toml", "--like", paper, *more)
        assert (study.privacy.calibration, study.privacy.colluders) == ("proven", 1)
    proven = load_study(tmp_path / "6.toml")[0]
    assert (proven.protocol["epochs"], proven.protocol["epsilon_y"]) == (7, 0.3)
    many = made(shell, tmp_path / "many.toml", "--colluders", 2)
    assert many.privacy.colluders == 2
    again = made(shell, tmp_path / "again.toml", "--like", tmp_path / "many.toml", "--protocol", "psgd")
    assert again.privacy.colluders == 2


# --- Sums, and cells that do not fit ------------------------------------------------


@pytest.mark.parametrize("name", [n for n, entry in {**PROTOCOLS, **MEASUREMENTS}.items() if not entry.auxiliary])
def test_our_own_protocols_sum_with_masks_and_the_papers_under_encryption(
    shell: Shell, tmp_path: Path, name: str
) -> None:
    more = ["--set", "weights=[0.0, 0.0, 0.0, 0.0]"] if name in MEASUREMENTS else []
    study = made(shell, tmp_path / "s.toml", "--protocol", name, *more)
    text = (tmp_path / "s.toml").read_text()
    if name in {"dp-whitened", "dp-glm", "dp-gd", "summary", "evaluation"}:
        assert (study.crypto.sum, study.lead, study.key_bits) == ("masks", "", 0)
        assert "key_bits" not in text
        assert "\nlead = " not in text
    else:
        assert (study.crypto.sum, study.lead, study.key_bits) == ("paillier", "site-a", 2048)
    assert text.count("\nsum = ") == 1


def test_a_lead_or_a_key_asks_for_encrypted_sums_and_masks_refuse_them(shell: Shell, tmp_path: Path) -> None:
    asked: tuple[tuple[str | int, ...], ...] = (("--lead", "site-b"), ("--key-bits", 3072), ("--sum", "paillier"))
    for number, words in enumerate(asked):
        study = made(shell, tmp_path / f"{number}.toml", *words)
        assert study.crypto.sum == "paillier"
        assert (study.lead, study.key_bits) == (("site-b", 2048), ("site-a", 3072), ("site-a", 2048))[number]
    for refused, said in (
        (asked[0], "no party leads; remove the line"),
        (asked[1], "uses no such key; remove key_bits"),
    ):
        answer = new(shell, tmp_path / "no.toml", "--sum", "masks", *refused)
        assert answer.code == 4
        assert said in answer.json["message"]
    assert 'must be "masks" or "paillier"' in new(shell, tmp_path / "no.toml", "--sum", "xor").json["message"]


def test_a_study_like_another_of_another_protocol_has_that_protocol_s_sums(shell: Shell, tmp_path: Path) -> None:
    ours, paper = tmp_path / "ours.toml", tmp_path / "paper.toml"
    made(shell, ours, "--protocol", "dp-gd", "--min-records", 40)
    made(shell, paper, "--like", ours, "--protocol", "psgd", "--lead", "site-c")
    study = load_study(paper)[0]
    assert (study.crypto.sum, study.lead, study.study.min_records) == ("paillier", "site-c", 40)
    again = made(shell, tmp_path / "again.toml", "--like", paper, "--protocol", "dp-gd")
    assert (again.crypto.sum, again.lead) == ("masks", "")
    same = made(shell, tmp_path / "same.toml", "--like", paper)
    assert (same.crypto.sum, same.lead) == ("paillier", "site-c")


def test_a_new_study_moves_cells_to_their_bounds_unless_it_is_told_to_refuse_them(shell: Shell, tmp_path: Path) -> None:
    assert made(shell, tmp_path / "a.toml").study.out_of_bounds == "clamp"
    assert made(shell, tmp_path / "b.toml", "--out-of-bounds", "refuse").study.out_of_bounds == "refuse"
    assert made(shell, tmp_path / "c.toml", "--like", tmp_path / "b.toml").study.out_of_bounds == "refuse"
    assert says((tmp_path / "a.toml").read_text().replace("\n# ", " "), "refusal_tells")


# --- What it is for -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("purpose", "protocol"), [("prediction", "dp-whitened"), ("coefficients", "dp-glm"), ("statistics", "summary")]
)
def test_a_purpose_chooses_the_protocol(shell: Shell, tmp_path: Path, purpose: str, protocol: str) -> None:
    words = ["--feature", "age:0:120", "--label", "ill:yes", "--for", purpose, "--expected-records", 30_000]
    study = made(shell, tmp_path / "s.toml", *words)
    assert entry_of(study).name == protocol
    assert (study.evaluation is not None) == (purpose == "prediction")  # coefficients have intervals of their own
    said = shell("study", "check", tmp_path / "s.toml").err
    assert ("1 covariate," in said, "2 coordinates," in said) == (protocol == "dp-glm", protocol != "dp-glm")


def test_a_purpose_and_a_protocol_exclude_each_other(shell: Shell, tmp_path: Path) -> None:
    answer = shell("study", "new", "-o", tmp_path / "s.toml", "--for", "statistics", "--protocol", "dp-gd")
    assert (answer.code, says(answer.err, "each_chooses_a_protocol", "statistics", "dp-gd")) == (4, True)
    answer = shell("study", "new", "-o", tmp_path / "s.toml", "--for", "fun")
    assert (answer.code, says(answer.err, "no_such_purpose", "'fun'", ...)) == (4, True)


def test_a_label_that_is_a_number_makes_a_linear_regression(shell: Shell, tmp_path: Path) -> None:
    words = ["--feature", "age:0:120", "--label", "pressure:60:240", "--for", "coefficients"]
    study = made(shell, tmp_path / "s.toml", *words)
    assert study.label == Label(name="pressure", min=60.0, max=240.0)
    assert study.protocol == {"family": "linear"}
    (tmp_path / "book.csv").write_text("name,use,min,max,levels\nage,,0,120,\npressure,label,60,240,\n")
    by_book = made(shell, tmp_path / "b.toml", "--features-from", tmp_path / "book.csv", "--for", "coefficients")
    assert (by_book.label, by_book.features, by_book.protocol) == (study.label, study.features, study.protocol)
    again = made(shell, tmp_path / "t.toml", "--like", tmp_path / "s.toml")
    assert (again.label, again.protocol) == (study.label, study.protocol)
    refused = shell("study", "new", "-o", tmp_path / "u.toml", "--label", "pressure:240:60")
    assert (refused.code, says(refused.err, "label_neither_nor")) == (4, True)

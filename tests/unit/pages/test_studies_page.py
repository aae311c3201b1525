"""The page on writing a study: its commands work on made-up records in Adult's form, and say what they are said to."""

import shlex
from pathlib import Path

import pytest

from masquerade.codebook import columns_from
from masquerade.columns import parse_feature, parse_label
from masquerade_core.study import Feature, Label, Study
from masquerade_core.study_files import load_study
from masquerade_lab.originals import ADULT_COLUMNS
from tests.adult_helpers import CODEBOOK, adult_place, page_commands
from tests.face_helpers import Shell
from tests.pages import Page

PAGE = Page("docs/studies.md")
COMMANDS = page_commands(PAGE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the page's files lie."""
    return adult_place(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def studies(place: Path) -> dict[str, Study]:
    """The studies that the page's commands write, by their files' names."""
    from masquerade.cli import run

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for words in COMMANDS:
            if words[0] == "study":
                assert run(words) == 0, words
    return {path.name: load_study(path)[0] for path in place.glob("*.toml")}


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def test_the_page_s_commands_write_studies(studies: dict[str, Study]) -> None:
    assert set(studies) == {
        "adult.toml",
        "by-codebook.toml",
        "by-sample.toml",
        "again.toml",
        "settings.toml",
    }
    assert [words[0] for words in COMMANDS].count("demo") == 2  # which tests/system runs


def test_the_options_describe_every_column_of_adult_that_is_learned_from(studies: dict[str, Study]) -> None:
    study = studies["adult.toml"]
    left_out = {"fnlwgt", "education", "native-country", "income"}
    assert [f.name for f in study.features] == [name for name in ADULT_COLUMNS if name not in left_out]
    assert study.label == Label(name="income", positive=">50K")
    book = {f.name: f for f in columns_from(CODEBOOK).features}
    same = {f.name for f in study.features if f == book.get(f.name)}
    assert same >= {"age", "workclass", "marital-status", "occupation", "relationship", "race", "sex", "capital-loss"}
    assert study.privacy.epsilon == 0.5


def test_the_codebook_is_that_of_the_original_columns(studies: dict[str, Study]) -> None:
    study = studies["by-codebook.toml"]
    left_out = {"fnlwgt", "education-num", "income"}
    assert [f.name for f in study.features] == [name for name in ADULT_COLUMNS if name not in left_out]
    missing = {f.name for f in study.features if f.levels is not None and "?" in f.levels}
    assert missing == {"workclass", "occupation", "native-country"}
    assert {f.name: len(f.levels) for f in study.features if f.levels is not None}["native-country"] == 42


def test_the_other_studies_are_as_the_page_says(studies: dict[str, Study]) -> None:
    adult, again, sample = studies["adult.toml"], studies["again.toml"], studies["by-sample.toml"]
    assert again.features == tuple(f for f in adult.features if f.name != "race")
    assert (again.privacy.epsilon, again.study.nonce != adult.study.nonce) == (1.0, True)
    assert (again.curator.key != adult.curator.key, again.names) == (True, adult.names)
    assert sample.features[0] == Feature(name="age", min=10.0, max=90.0)
    assert studies["settings.toml"].protocol.items() >= {"rounds": 40, "clip": 0.25, "learning_rate": 2.5}.items()


def test_each_option_of_the_table_is_read_as_the_page_says() -> None:
    cells = [row.split(" | ")[0].strip("| `") for row in PAGE.text.splitlines() if row.startswith("| `--")]
    words = dict.fromkeys(shlex.split(cell.replace("...,", ""))[1] for cell in cells)
    features = [parse_feature(word) for word in words if not word.startswith(("income", "stage", "pressure", "fnlwgt"))]
    assert features == [
        Feature(name="capital-gain", min=0.0, max=100_000.0),
        Feature(name="sex", levels=("Female", "Male")),
        Feature(name="age", edges=(25.0, 35.0, 45.0)),
        Feature(name="workclass", levels=("Private", "?")),
        Feature(name="job", levels=("a,b", "c:d")),
    ]
    assert parse_label("stage:i,ii,iii").classes == ("i", "ii", "iii")
    assert (parse_label("pressure:60:240").min, parse_label("pressure:60:240").max) == (60, 240)
    assert {"stage:i,ii,iii", "pressure:60:240"} <= set(words)


def test_help_explains_escapes_and_the_missing_level(shell: Shell) -> None:
    text = " ".join(shell("study", "new", "--help").out.split())
    assert "'job:a\\,b,c' has the levels 'a,b' and 'c'" in text
    assert "The level ? is for missing values, and empty cells count as it" in text


def test_help_states_the_defaults_of_a_draft(shell: Shell) -> None:
    from masquerade.draft import Draft

    text = " ".join(shell("study", "new", "--help").out.split())
    for field in ("epsilon", "delta", "min_records", "out_of_bounds", "deadline_seconds", "address"):
        value = getattr(Draft, field)
        shown = value if isinstance(value, str) else f"{value:g}".replace("1e-06", "1e-6")
        assert f"{shown} if not given" in text.replace("'", ""), field
    assert f"'{Draft.name}' if not given" in text

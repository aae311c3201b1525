"""Files are hostile input: whatever lies where a study or a model is expected, a command ends with exit code 4."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from masquerade.cli.predict import _cell
from masquerade_core.bounded import DEEPEST, LONGEST_KEY, json_of, opened, toml_of
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE
from masquerade_core.study_files import load_study
from masquerade_host.store.new_keys import make_keys
from tests.face_helpers import Shell
from tests.host_helpers import study_text
from tests.hostile import SPECIAL, texts
from tests.messages import raises

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys, records and a study."""
    folder = tmp_path_factory.mktemp("home")
    keys = {name: make_keys(folder / f"{name}.key").public for name in ("p1", "p2", CHARLIE)}
    (folder / "good.toml").write_text(study_text(keys, "tcp://x.org:5555", 60.0))
    (folder / "records.csv").write_text("x,y\n0.5,1\n0.25,0\n")
    (folder / "empty.json").write_text("{}")
    return folder


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


KINDS = [*SPECIAL, *texts("")]


def _made(folder: Path, kind: str, good: str) -> Path:
    path = folder / "hostile.toml"
    if kind in SPECIAL:
        SPECIAL[kind](path)
    else:
        path.write_bytes(texts(good)[kind])
        assert path.read_text("latin-1") != good
    return path


def _commands(home: Path, path: Path, out: Path) -> list[tuple[object, ...]]:
    key, data, state = ("--key", home / "p1.key"), ("--data", home / "records.csv"), ("--state", out / "state")
    return [
        ("study", "show", path),
        ("study", "check", path),
        ("study", "diff", home / "good.toml", path),
        ("statement", path),
        ("approve", path, *key, *data, *state),
        ("party", path, *key, *data, *state, "--approved", "--out", out / "p1"),
        ("curator", path, "--key", home / "charlie.key", "--out", out / "charlie"),
        ("simulate", path, "--data", home / "records.csv", "--test", home / "records.csv", "--out", out / "sim"),
        ("data", "check", path, home / "records.csv"),
        ("evaluate", path, "--model", home / "empty.json", "--output", out / "e.toml"),
        ("blame", path, home / "empty.json"),
        ("study", "new", "--columns", path, "--output", out / "new.toml"),
        ("predict", path, home / "records.csv"),
        ("export", path, "--to", "card", "--output", out / "card.md"),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_each_command_refuses_each_hostile_file_in_a_sentence(
    home: Path, shell: Shell, tmp_path: Path, kind: str
) -> None:
    path = _made(tmp_path, kind, (home / "good.toml").read_text())
    for command in _commands(home, path, tmp_path):
        answer = shell(*command)
        assert (answer.code, "Traceback" in answer.err) == (4, False), (command[:2], answer.err[:1000])
        assert len(answer.err) < 20_000, command[:2]


@pytest.mark.parametrize("records", [10**9, 4 * 10**9, 10**30])
def test_any_number_of_records_is_said_to_fit_or_not(home: Path, shell: Shell, tmp_path: Path, records: int) -> None:
    text = (home / "good.toml").read_text()
    for old, new in (
        ("local-aggregation", "dp-gd"),
        ('lead = "p1"\n', ""),
        ("delta = 0.0\n", "delta = 1e-6\n"),
        ('"paper"\n', '"proven"\n\n[crypto]\nsum = "masks"\n'),
    ):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "x.toml"
    for each, code in ((100, 0), (records, 0 if records < 2**31 else 4)):
        path.write_text(text.replace("min_records = 2\n", f"min_records = {each}\n"))
        for command in ("check", "show"):
            answer = shell("study", command, path)
            assert answer.code == code, (each, answer.err)


def test_a_dotted_key_has_four_names_at_most() -> None:
    """The parser would read it, in a time that grows with the square of its length."""
    assert toml_of("a.b.c.d = 1", "x.toml") == {"a": {"b": {"c": {"d": 1}}}}
    with pytest.raises(BadInput) as refused:
        toml_of("\na.b.c.d.e = 1", "x.toml")
    assert (LONGEST_KEY, "line 2" in refused.value.message) == (4, True)


def test_the_good_study_is_good(home: Path, shell: Shell) -> None:
    """Else the test above would pass for a wrong reason."""
    assert shell("study", "check", home / "good.toml").code == 0


# --- The reader ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in SPECIAL if kind != "sparse"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    SPECIAL[kind](path)
    with pytest.raises(BadInput), opened(path, 4 << 30, "study", "hint"):
        raise AssertionError("it was opened")


def test_a_link_is_followed_for_a_person_and_refused_in_a_folder_of_others(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(home / "good.toml")
    assert load_study(link)[0] == load_study(home / "good.toml")[0]
    with raises(BadInput, "is_a_link"):
        load_study(link, links=False)


def test_a_file_is_too_large_before_any_of_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SPECIAL["sparse"](tmp_path / "x")
    monkeypatch.setattr(os, "read", None)
    with (
        raises(BadInput, "file_too_large", "3,221,225,472", "study", "1,048,576"),
        opened(tmp_path / "x", 1 << 20, "study", "hint"),
    ):
        raise AssertionError("it was opened")


def _nested(opening: str, closing: str, depth: int) -> str:
    return opening * depth + closing * depth


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_bounds_are_where_they_are_said_to_be(more: int, fits: bool) -> None:
    key = ".".join(["a", '"b.b"', "'c'", "d"][:LONGEST_KEY] + ["e"] * more)
    depth = DEEPEST + more
    cases: list[Callable[[], Any]] = [
        lambda: toml_of(f"{key} = 1", "x"),
        lambda: toml_of(f"[{key}]", "x"),
        lambda: toml_of(f"a = {_nested('[', ']', depth)}", "x"),
        lambda: json_of(_nested("[", "]", depth), "x", ""),
        lambda: json_of("1" * (250 + more), "x", ""),
        lambda: toml_of(f"a = 0x{'f' * (248 + more)}", "x"),
    ]
    for case in cases:
        if fits:
            case()
        else:
            with pytest.raises(BadInput):
                case()


def test_half_of_a_character_is_no_json() -> None:
    assert json_of('["\\ud83d\\ude00", "\\\\ud800"]', "x", "") == ["\U0001f600", "\\ud800"]
    for text in ('"\\ud800"', '{"\\udc00": 1}', '["\\ude00\\ud83d"]'):
        with raises(BadInput, "file_not_json"):
            json_of(text, "x", "")


def test_strings_and_comments_count_for_nothing() -> None:
    deep = "[" * 100 + "." * 100 + "x" * 1000
    text = (
        f'a = "{deep}\\"{deep}" # {deep}\nb = \'{deep}"\'\nc = """\n{deep}"" \\""" {deep}""""\n'
        f"d = '''{deep}''{deep}'''\n\"{deep}\" = 1\n"
    )
    assert set(toml_of(text, "x")) == {"a", "b", "c", "d", deep}
    assert json_of(json.dumps({deep + '"\\': deep}), "x", "") == {deep + '"\\': deep}


def test_a_text_of_many_faults_is_a_short_sentence(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(texts((home / "good.toml").read_text())["unknown-keys"])
    with pytest.raises(BadInput) as raised:
        load_study(path)
    assert "more problems" in raised.value.message
    assert len(raised.value.message) < 5_000


@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u200f", "\u061c", "\u2028", "\u2029", "\x85"])
@pytest.mark.parametrize("place", ['name = "x', 'name = "y', 'positive = "1'])
def test_a_name_that_would_turn_a_line_is_refused_and_shown_escaped(
    home: Path, tmp_path: Path, sign: str, place: str
) -> None:
    text = (home / "good.toml").read_text()
    assert place in text
    path = tmp_path / "x.toml"
    path.write_text(text.replace(place, place + sign))
    with pytest.raises(BadInput) as raised:
        load_study(path)
    assert f"\\u{ord(sign):04x}" in raised.value.message
    assert sign not in raised.value.message


# --- What is written --------------------------------------------------------------------------


def test_no_cell_of_a_table_is_a_formula() -> None:
    for text in ("=1+1", "@SUM(A1)", "+cmd", "-2+3", "\t=1", "\r=1", "\n=1", "\uff1d1", '=HYPERLINK("a")', "--1", "-"):
        assert _cell(text).lstrip('"').startswith("'"), text
    for text in ("-3.5", "+1", "1e-9", "-1e5", ".5", "-.5", "name", "a=b", "", "12-3"):
        assert _cell(text) == text
    assert _cell("a;=1") == '"a;=1"'


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_folders_for_secrets_are_for_their_owner_alone_under_any_umask(
    home: Path, shell: Shell, tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        assert shell("keys", "new", tmp_path / "a" / "b" / "c.key").code == 0
        state = tmp_path / "state" / "of" / "site"
        assert shell("budget", "init", "--epsilon", "1", "--delta", "1e-5", "--state", state).code == 0
    finally:
        os.umask(before)
    made = [folder for folder in tmp_path.rglob("*") if folder.is_dir()]
    assert {folder: stat.S_IMODE(folder.stat().st_mode) for folder in made} == dict.fromkeys(made, 0o700)
    assert len(made) >= 5

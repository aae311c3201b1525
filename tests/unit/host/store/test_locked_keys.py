"""Key files under a passphrase, the places it comes from, and the replacement of keys by new ones."""

import base64
import getpass
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nacl.pwhash import argon2id

from masquerade_core.errors import BadInput
from masquerade_core.identity import CHARLIE, PublicKeys
from masquerade_core.study import Study
from masquerade_host.store import locked_keys
from masquerade_host.store.kept_keys import all_kept, load_keys_for, public_beside
from masquerade_host.store.keyfiles import load_keys
from masquerade_host.store.locked_keys import VARIABLE, new_passphrase, passphrase_of
from masquerade_host.store.new_keys import make_keys, rotate_keys
from tests.face_helpers import Shell
from tests.host_helpers import study_text
from tests.messages import raises, says

WORDS = "an umbrella for nine cats"


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Argon2id take no time; one test below looks at what it costs otherwise."""
    monkeypatch.setattr(locked_keys, "_PASSES", argon2id.OPSLIMIT_MIN)
    monkeypatch.setattr(locked_keys, "_MEMORY", argon2id.MEMLIMIT_MIN)
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def told(words: str) -> Callable[[Path], str]:
    return lambda _path: words


def never(_path: Path) -> str:
    raise AssertionError


def passphrase_file(folder: Path, words: str = WORDS, mode: int = 0o600) -> Path:
    path = folder / "passphrase"
    path.write_text(words, encoding="utf-8")
    path.chmod(mode)
    return path


def terminal(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Let a person type these answers; return the questions."""
    questions: list[str] = []
    waiting = list(answers)

    def asked(question: str, _stream: object) -> str:
        questions.append(question)
        return waiting.pop(0)

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", asked)
    return questions


# --- The file ---------------------------------------------------------------------


def test_keys_under_a_passphrase_come_back_with_it_and_not_without(tmp_path: Path) -> None:
    path = tmp_path / "my.key"
    made = make_keys(path, WORDS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_keys(path, told(WORDS)).public == made.public
    with raises(BadInput, "passphrase_wrong", ...) as caught:
        load_keys(path, told(WORDS + "."))
    assert caught.value.exit_code == 4
    assert WORDS not in str(caught.value) + caught.value.hint


def test_the_file_shows_nothing_of_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "my.key"
    made = make_keys(path, WORDS)
    text = path.read_text()
    seen = b"".join(base64.b64decode(line) for line in text.splitlines()[2:])
    for half in (made.curve, bytes(made.signing._key)):
        assert half[:8] not in seen
        assert base64.b64encode(half).decode()[:10] not in text


def test_two_files_under_one_passphrase_have_nothing_in_common(tmp_path: Path) -> None:
    for name in "ab":
        make_keys(tmp_path / name, WORDS)
    one, two = ((tmp_path / name).read_text().splitlines()[2:] for name in "ab")
    assert set(one) & set(two) == set()


def test_a_guess_costs_what_libsodium_calls_moderate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    make_keys(tmp_path / "my.key", WORDS)
    assert (tmp_path / "my.key").read_text().splitlines()[:2] == ["masquerade secret keys 2", "argon2id 3 268435456"]


def test_one_letter_written_in_two_ways_is_one_letter(tmp_path: Path) -> None:
    made = make_keys(tmp_path / "my.key", "ein Ko\u0308ter und neun Katzen")
    assert load_keys(tmp_path / "my.key", told("ein K\u00f6ter und neun Katzen")).public == made.public


def test_a_file_without_a_passphrase_is_read_without_a_question(tmp_path: Path) -> None:
    make_keys(tmp_path / "my.key")
    load_keys(tmp_path / "my.key", never)


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (1, lambda _: "argon2id 1 99999999999999"),  # more memory than any machine has
        (1, lambda _: "argon2id 4000000000 8192"),  # or more time
        (1, lambda _: "argon2i 1 8192"),
        (1, lambda _: "argon2id 0 8192"),
        (1, lambda line: line + " "),
        (2, lambda line: line[:-4]),
        (2, lambda _: "no base64!"),
        (3, lambda line: line + "\nmore"),
    ],
)
def test_a_file_that_no_version_wrote_is_refused_without_a_question(
    tmp_path: Path, line: int, change: Callable[[str], str]
) -> None:
    path = tmp_path / "my.key"
    make_keys(path, WORDS)
    lines = path.read_text().splitlines()
    lines[line] = change(lines[line])
    path.write_text("\n".join(lines) + "\n")
    with raises(BadInput, "key_file_of_no_keys"):
        load_keys(path, never)


@pytest.mark.parametrize("line", [2, 3])
def test_a_changed_bit_is_noticed(tmp_path: Path, line: int) -> None:
    path = tmp_path / "my.key"
    make_keys(path, WORDS)
    lines = path.read_text().splitlines()
    raw = bytearray(base64.b64decode(lines[line]))
    raw[-1] ^= 1
    lines[line] = base64.b64encode(raw).decode()
    path.write_text("\n".join(lines) + "\n")
    with raises(BadInput, "passphrase_wrong", ...):
        load_keys(path, told(WORDS))


# --- Where the passphrase comes from --------------------------------------------------


def test_a_service_reads_the_passphrase_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(passphrase_file(tmp_path, WORDS + "\n")))
    assert passphrase_of(Path("k")) == WORDS
    made = make_keys(tmp_path / "my.key", new_passphrase(Path("k")))
    assert load_keys(tmp_path / "my.key").public == made.public


@pytest.mark.parametrize(
    ("words", "mode", "said"),
    [
        (WORDS, 0o644, ("passphrase_file_mode", ..., "0644")),
        (WORDS, 0o620, ("passphrase_file_mode", ..., "0620")),
        ("", 0o600, ("passphrase_file_empty",)),
        (WORDS + "\n" + WORDS, 0o600, ("passphrase_file_empty",)),
        ("x" * 1025, 0o600, ("passphrase_file_empty",)),
    ],
)
def test_a_passphrase_file_that_cannot_be_right_is_refused_and_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, mode: int, said: str
) -> None:
    monkeypatch.setenv(VARIABLE, str(passphrase_file(tmp_path, words, mode)))
    with raises(BadInput, *said) as caught:
        passphrase_of(Path("k"))
    assert WORDS not in str(caught.value) + caught.value.hint


def test_root_s_file_that_the_service_s_group_can_read_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(passphrase_file(tmp_path, mode=0o440)))  # as systemd's credentials are
    assert passphrase_of(Path("k")) == WORDS


def test_a_missing_passphrase_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing"))
    with raises(BadInput, "passphrase_file_unreadable", "nothing", "MASQUERADE_PASSPHRASE_FILE"):
        passphrase_of(Path("k"))


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    for ask in (passphrase_of, new_passphrase):
        with raises(BadInput, "nobody_can_be_asked") as caught:
            ask(Path("k"))
        assert VARIABLE in caught.value.hint


def test_a_person_is_asked_once_for_an_old_passphrase_and_twice_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(terminal(monkeypatch, WORDS)) == 0
    assert passphrase_of(Path("k")) == WORDS
    questions = terminal(monkeypatch, WORDS, WORDS)
    assert new_passphrase(Path("k")) == WORDS
    assert len(questions) == 2
    terminal(monkeypatch, WORDS, WORDS.upper())
    with raises(BadInput, "passphrases_differ"):
        new_passphrase(Path("k"))


def test_a_short_new_passphrase_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, "x" * 11)
    with raises(BadInput, "passphrase_too_short", 11, 12):
        new_passphrase(Path("k"))


def test_the_command_makes_and_shows_keys_under_a_passphrase(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, passphrase = tmp_path / "my.key", passphrase_file(tmp_path)
    monkeypatch.setenv(VARIABLE, str(passphrase))
    made = shell("keys", "new", file, "--passphrase")
    assert made.code == 0
    assert says(" ".join(made.err.split()), "keys_lost_without_passphrase")
    assert shell("keys", "show", file).out == made.out
    passphrase.write_text("another one altogether")
    wrong = shell.json("keys", "show", file)
    assert (wrong.code, wrong.json["error_code"]) == (4, "bad_input")


# --- New keys in the place of old ones --------------------------------------------------


def test_rotated_keys_are_new_and_the_old_file_stays_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "my.key"
    old = make_keys(path)
    text = path.read_bytes()
    first = rotate_keys(path, ask=never)
    assert first.old == old.public
    assert first.keys.public == load_keys(path).public
    assert first.keys.public.curve != old.public.curve
    assert first.keys.public.sign != old.public.sign
    assert first.kept.parent == tmp_path
    assert first.kept.read_bytes() == text
    second = rotate_keys(path)  # on the same day
    assert second.old == first.keys.public
    assert load_keys(first.kept).public == old.public
    assert load_keys(second.kept).public == first.keys.public
    kept = (first.kept, second.kept)
    assert sorted(tmp_path.iterdir()) == sorted((path, *kept, *map(public_beside, kept)))
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_rotated_keys_keep_the_passphrase_or_get_another(tmp_path: Path) -> None:
    path = tmp_path / "my.key"
    make_keys(path, WORDS)
    rotate_keys(path, ask=told(WORDS))
    load_keys(path, told(WORDS))
    with raises(BadInput, "passphrase_wrong", ...):
        load_keys(path, told(WORDS + "."))
    kept = rotate_keys(path, told("quite another one"), ask=told(WORDS)).kept
    load_keys(path, told("quite another one"))
    load_keys(kept, told(WORDS))
    with raises(BadInput, "passphrase_wrong", ...):
        rotate_keys(path, ask=told(WORDS))
    load_keys(path, told("quite another one"))


@pytest.mark.parametrize("call", ["replace", "hardlink_to"])
def test_a_machine_that_stops_in_between_leaves_keys_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "my.key"
    old = make_keys(path)

    class PowerCutError(Exception):
        """The machine stops here."""

    def stop(*_: object) -> None:
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(Path, call, stop)
        with pytest.raises(PowerCutError):
            rotate_keys(path)
    assert load_keys(path).public == old.public
    assert load_keys(rotate_keys(path).kept).public == old.public


def test_a_folder_that_cannot_be_written_leaves_the_old_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my.key"
    old = make_keys(path)

    def refuse(*_: object) -> None:
        raise OSError(30, os.strerror(30))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "hardlink_to", refuse)
        with raises(BadInput, "keys_not_replaced", os.strerror(30)):
            rotate_keys(path)
    assert load_keys(path).public == old.public
    assert list(tmp_path.iterdir()) == [path]


def study_of(*public: PublicKeys) -> Study:
    return Study.parse(study_text(dict(zip(("p1", "p2", CHARLIE), public, strict=True)), "tcp://127.0.0.1:5555", 60.0))


def test_a_study_that_names_older_keys_gets_them_and_asks_for_one_passphrase(tmp_path: Path) -> None:
    path, others = tmp_path / "my.key", [make_keys(tmp_path / name).public for name in ("p2.key", "charlie.key")]
    publics = [make_keys(path, WORDS).public, *(rotate_keys(path, ask=told(WORDS)).keys.public for _ in range(2))]
    asked: list[Path] = []

    def ask(file: Path) -> str:
        asked.append(file)
        return WORDS

    kept = [file for _, file in all_kept(path)]
    for public, file in zip(publics, (*kept, path), strict=True):
        asked.clear()
        keys, found = load_keys_for(study_of(public, *others), path, ask)
        assert (keys.public, found, asked) == (public, file, [path] if file == path else [path, file])
    with raises(BadInput, "key_of_nobody", ...):
        stranger = study_of(*others, make_keys(tmp_path / "x.key").public)
        stranger.name_of(load_keys_for(stranger, path, ask)[0].public)


def test_without_its_public_half_a_kept_file_is_found_and_without_itself_it_is_named(tmp_path: Path) -> None:
    path, others = tmp_path / "my.key", [make_keys(tmp_path / name).public for name in ("p2.key", "charlie.key")]
    study = study_of(make_keys(path).public, *others)
    kept = rotate_keys(path).kept
    (half := public_beside(kept)).rename(tmp_path / "away")
    assert load_keys_for(study, path)[1] == kept
    (tmp_path / "away").rename(half)
    kept.unlink()
    with raises(BadInput, "names_older_keys", path) as caught:
        load_keys_for(study, path)
    assert str(kept) in caught.value.hint
    assert rotate_keys(path).kept != kept  # its name is that of a public half


def test_the_command_says_who_must_be_told_and_leaves_the_ledger_s_key_alone(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "ledger.key").write_bytes(b"the ledger's")
    file = tmp_path / "my.key"
    before = shell("keys", "new", file).out.strip()
    data = shell.json("keys", "rotate", file)
    assert data.code == 0
    assert data.data["old_public_key"] == before
    assert data.data["public_key"] == shell("keys", "show", file).out.strip() != before
    assert shell("keys", "show", data.data["old_file"]).out.strip() == before
    assert says(data.json["hint"], "tell_every_coordinator")
    assert data.data["old_file"] in data.json["hint"]
    assert (data.data["still_needed_by"], data.data["finished"]) == ([], 0)
    assert (tmp_path / "ledger.key").read_bytes() == b"the ledger's"

"""[dropouts]: which studies may lose parties, and what the others are told."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from masquerade_core.errors import BadInput
from masquerade_core.study import Study
from masquerade_protocols import PROTOCOLS, protocol_of
from tests.dropout_helpers import DROPOUTS, losing_study, masked_text
from tests.face_helpers import Shell
from tests.messages import raises, says

CAN_RETRY = {"dp-gd", "dp-glm", "dp-whitened", "psgd", "summary"}


def test_a_study_may_lose_parties_only_if_it_says_so() -> None:
    study = losing_study(survivors=4, colluders=1)
    assert (study.survivors, study.retries, study.honest) == (4, 2, 3)
    without = Study.parse(masked_text("dp-gd", colluders=1), in_memory=True)
    assert (without.survivors, without.retries, without.honest) == (5, 0, 4)
    assert not any(name.startswith("dropouts") for name in without.canonical())
    assert Study.parse(study.to_toml(), in_memory=True) == study


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("survivors = 3", "survivors = 1", ("min_survivors is 1", "at least 2")),
        ("survivors = 3", "survivors = 6", ("min_survivors is 6", "at most 5")),
        ("colluders = 0", "colluders = 3", ("min_survivors is 3", "more than [privacy] colluders, which is 3")),
        ("patience_seconds = 5.0", "patience_seconds = 1e9", ("patience_seconds is 1e+09", "deadline_seconds")),
        ("patience_seconds = 5.0", "patience_seconds = 31.0", ("is 31, but must be at most half", "which is 60")),
        (
            "deadline_seconds = 60.0",
            "deadline_seconds = 60.0\nslot_seconds = 5.0",
            ("more than [study] slot_seconds",),
        ),
        ("patience_seconds = 5.0", "patience_seconds = 0.0", ("patience_seconds", "greater than 0")),
        ("retries = 2", "retries = 0", ("retries", "at least 1")),
        ("retries = 2\n", "", ("retries", "missing")),
        ('"proven"', '"paper"', ("retries = 2", 'calibration is "paper"', "drawn once")),
        (
            "retries = 2",
            'retries = 2\nmethod = "double-masks"',
            ("retries = 2", "makes no sum again", "remove retries"),
        ),
        ("retries = 2", 'method = "none"', ("method", '"retries" or "double-masks"')),
    ],
)
def test_a_bad_section_is_refused_with_a_sentence(old: str, new: str, words: tuple[str, ...]) -> None:
    text = masked_text("dp-gd") + DROPOUTS
    assert text.count(old) == 1
    Study.parse(text, in_memory=True)
    with pytest.raises(BadInput) as caught:
        Study.parse(text.replace(old, new), in_memory=True)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_study_may_name_the_method_by_which_it_goes_on() -> None:
    text = masked_text("dp-gd") + DROPOUTS
    usual = Study.parse(text, in_memory=True)
    named = Study.parse(text + 'method = "retries"\n', in_memory=True)
    assert (named, named.digest()) == (usual, usual.digest())
    assert "dropouts.method" not in usual.canonical()  # as the hash of a study was before there were methods
    named_double = text.replace("retries = 2", 'method = "double-masks"')
    double = Study.parse(named_double.replace("survivors = 3", "survivors = 4"), in_memory=True)
    assert (double.survivors, double.retries, double.honest) == (4, 0, 4)
    assert double.canonical()["dropouts.method"] == '"double-masks"'
    assert Study.parse(double.to_toml(), in_memory=True) == double
    assert protocol_of(double).name == "dp-gd"
    with raises(BadInput, "min_survivors_too_few", 3, 4, 5, ...):
        Study.parse(named_double, in_memory=True)
    paper = double.to_toml().replace('"proven"', '"paper"')
    with raises(BadInput, "dropouts_need_fresh_noise", 'method = "double-masks"'):
        Study.parse(paper, in_memory=True)


def test_paillier_cannot_lose_parties() -> None:
    text = masked_text("dp-gd").replace('sum = "masks"', 'sum = "paillier"').replace("[study]", '[study]\nlead = "p1"')
    name = Study.parse(masked_text("dp-gd"), in_memory=True).names[0]
    text = text.replace('lead = "p1"', f'lead = "{name}"')
    Study.parse(text, in_memory=True)
    with raises(BadInput, "dropouts_need_masks", ..., "paillier"):
        Study.parse(text + DROPOUTS, in_memory=True)


def test_a_bad_section_ends_a_command_with_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "study.toml"
    path.write_text(masked_text("dp-gd") + DROPOUTS.replace("survivors = 3", "survivors = 1"))
    answer = Shell(capsys)("study", "show", path)
    assert answer.code == 4
    assert "min_survivors is 1" in answer.err


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_a_protocol_makes_sums_again_or_says_why_it_cannot(name: str) -> None:
    entry = PROTOCOLS[name]
    study = losing_study(name)
    if entry.no_retries:
        with raises(BadInput, "cannot_lose_parties", name, entry.no_retries):
            entry.check_dropouts(study)
    else:
        entry.check_dropouts(study)
    assert bool(entry.no_retries) == (name not in CAN_RETRY)


def test_the_check_of_a_study_asks_for_it() -> None:
    with raises(BadInput, "cannot_lose_parties", "weighted-dp", ...):
        protocol_of(losing_study("weighted-dp"))


# --- study new -----------------------------------------------------------------------------------------------------


def _new(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    path = tmp_path / f"study-{len(list(tmp_path.iterdir()))}.toml"
    parties = [word for name in "abcde" for word in ("--party", name)]
    answer = Shell(capsys)("study", "new", "-o", path, *parties, "--throwaway-keys", *more)
    return answer.code, path.read_text() if path.exists() else "", answer.out + answer.err


def test_a_new_study_may_lose_parties_and_says_what_that_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    wanted = ("--protocol", "dp-gd", "--rounds", "30", "--min-survivors", "4")
    code, text, said = _new(tmp_path, capsys, *wanted)
    assert code == 0, said
    study = Study.parse(text)
    assert study.dropouts is not None
    assert (study.survivors, study.retries, study.dropouts.patience_seconds, study.honest) == (4, 1, 30.0, 3)
    price = 100 * (math.sqrt(4 / 3 * 31 / 30) - 1)  # 4 honest parties of 5, and 3 of 4; T + R of T
    assert round(price) == 17
    assert says(text, "costs_more", "17 %")
    assert says(said, "goes_on_with", 4, 5, "17 %")
    code, text, said = _new(tmp_path, capsys, *wanted, "--retries", "9", "--patience", "2.5")
    assert "# This costs 32 % more noise" in text
    assert Study.parse(text).retries == 9
    like = tmp_path / "like.toml"
    like.write_text(text)
    code, text, said = _new(tmp_path, capsys, "--like", str(like), "--min-survivors", "3")
    again = Study.parse(text)
    assert (again.survivors, again.retries) == (3, 1)
    code, text, said = _new(tmp_path, capsys, "--like", str(like))
    assert Study.parse(text).dropouts == Study.parse(like.read_text()).dropouts


def test_a_new_study_may_go_on_by_double_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ("--protocol", "dp-gd", "--rounds", "30", "--colluders", "0", "--min-survivors", "4", "--double-masks")
    code, text, said = _new(tmp_path, capsys, *wanted)
    assert code == 0, said
    study = Study.parse(text)
    assert study.dropouts is not None
    assert (study.dropouts.method, study.survivors, study.retries) == ("double-masks", 4, 0)
    assert says(text, "masks_removed")
    assert "contribute again" not in text
    price = 100 * (math.sqrt(5 / 4) - 1)
    assert says(text, "costs_more", f"{price:.0f} %")


def test_a_new_study_needs_every_party_unless_somebody_says_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = _new(tmp_path, capsys)
    assert (code, Study.parse(text).dropouts) == (0, None)
    assert "dropouts" not in text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--retries", "2"), "no --min-survivors"),
        (("--double-masks",), "no --min-survivors"),
        (("--min-survivors", "4", "--double-masks", "--retries", "1"), "under which no sum is made again"),
        (("--min-survivors", "3", "--double-masks"), "must be at least 4"),
        (("--min-survivors", "1"), "at least 2"),
        (("--min-survivors", "4", "--patience", "400"), "at most half of [study] deadline_seconds"),
        (("--min-survivors", "4", "--sum", "paillier"), 'set sum = "masks"'),
        (("--min-survivors", "4", "--protocol", "psgd", "--sum", "masks", "--calibration", "paper"), "drawn once"),
        (("--min-survivors", "4", "--protocol", "weighted-dp", "--sum", "masks"), "cannot go on without a party"),
    ],
)
def test_a_new_study_that_cannot_lose_parties_is_refused(
    more: tuple[str, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    code, text, said = _new(tmp_path, capsys, *more)
    assert (code, text) == (4, "")
    assert words in said

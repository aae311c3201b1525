"""The command line: keys, studies, and how every command answers, above all when something is wrong."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import masquerade
from masquerade import cli
from masquerade.cli import output
from masquerade.cli.output import describe
from masquerade.columns import parse_feature, parse_label
from masquerade.draft import Draft, throwaway_key
from masquerade_core.errors import DeadlinePassed, ProtocolViolation, Reported
from masquerade_core.study import Feature, Label, Study
from masquerade_core.study_files import load_study
from masquerade_core.words import listed
from masquerade_lab.baselines.average import average_rate
from masquerade_protocols import BASELINES, PROTOCOLS
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.voting import public as voting
from tests.face_helpers import Shell, records, small_study, write_csv
from tests.messages import says, sentence


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


# --- How every command answers ---------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["study"],
        ["keys", "new"],
        ["study", "check"],
        ["study", "check", "x", "y"],
        ["predict", "only-one"],
        ["demo", "--parties", "many"],
        ["demo", "--dataset", "mnist"],
        ["keys", "show", "k", "--no-such-option"],
        ["party", "study.toml"],
    ],
)
def test_usage_errors_end_with_4_and_are_json_when_asked(shell: Shell, words: list[str]) -> None:
    answer = shell.json(*words)
    assert answer.code == 4
    assert answer.json["error_code"] == "usage"
    assert answer.json["message"]
    assert answer.err == ""
    plain = shell(*words)
    assert plain.code == 4
    assert plain.out == ""
    assert "Traceback" not in plain.err


def test_no_arguments_show_the_help_and_are_no_error(shell: Shell) -> None:
    answer = shell()
    assert answer.code == 0
    assert answer.out == shell("--help").out
    assert "demo" in answer.out


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "approve",
        "curator",
        "party",
        "simulate",
        "predict",
        "doctor",
        "reproduce",
        "audit",
        "statement",
        "bounds",
    ],
)
def test_every_command_has_a_help_page_and_both_formats(shell: Shell, command: str) -> None:
    answer = shell(command, "--help")
    assert answer.code == 0
    assert "--format" in answer.out


def test_help_lists_every_command_once_under_who_uses_it(shell: Shell) -> None:
    groups = re.split(r"(?m)^(\S.*):$", shell("--help").out)[1:]  # a heading, its lines, the next heading ...
    listed = {
        heading: re.findall(r"(?m)^  ([a-z]+)  ", text) for heading, text in zip(groups[::2], groups[1::2], strict=True)
    }
    del listed["Options"]
    assert listed == {
        "To try it": ["demo"],
        "For a site that holds records": ["join", "keys", "data", "doctor", "approve", "party", "site", "budget"],
        "For the coordinator of a study": ["study", "invite", "statement", "bounds", "curator"],
        "After a run": ["predict", "report", "verify", "blame", "export"],
        "For research": ["simulate", "reproduce", "audit"],
    }
    assert "release  Give up a study that will not run: its debits stay" in shell("budget", "--help").out


def test_no_command_takes_the_name_of_what_the_package_offers(shell: Shell) -> None:
    """Once a module was imported, its package has it as an attribute: ``cli.run`` would be one, and no function."""
    shell("--help")
    for name in cli.__all__:
        assert not isinstance(getattr(cli, name), ModuleType), name


def test_version_is_the_packages(shell: Shell) -> None:
    from masquerade_core import __version__

    assert shell("--version").out == f"masquerade {__version__}\n"


def test_an_unforeseen_error_is_a_bug_and_its_text_is_not_shown() -> None:
    try:
        raise ValueError("the record of Mrs Canary-8271")  # noqa: TRY301
    except ValueError as error:
        outcome = describe(error)
    assert (outcome.exit_code, outcome.error_code) == (5, "bug")
    assert "Canary" not in json.dumps(outcome.envelope())
    assert "ValueError at test_cli.py" in outcome.message


def test_a_traceback_is_shown_to_whoever_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MASQUERADE_TRACEBACK", "1")
    assert describe(KeyError("k")).exit_code == 5
    assert "KeyError" in capsys.readouterr().err


def test_a_deadline_names_who_was_waited_for_and_a_violation_its_peer() -> None:
    late = describe(DeadlinePassed("waited", waited_for=("north", "south")))
    assert (late.exit_code, late.data) == (3, {"waited_for": ["north", "south"], "grounds": "not answered in time"})
    foul = describe(ProtocolViolation("garbage", peer="west"))
    assert (foul.exit_code, foul.data) == (8, {"peer": "west", "grounds": "checked here"})
    either = describe(ProtocolViolation("a box did not open", suspects=("west", "charlie")))
    assert either.data == {"suspects": ["west", "charlie"], "grounds": "cannot be told"}
    word = describe(Reported("east says so", said_by="east", accused=("west",)))
    assert word.exit_code == 1
    assert word.data == {"said_by": "east", "accused": ["west"], "grounds": "said by another"}


def test_interrupts_end_with_1() -> None:
    assert describe(KeyboardInterrupt()).exit_code == 1


def test_json_is_recognised_in_both_spellings() -> None:
    assert output.wants_json(["x", "--format=json"])
    assert output.wants_json(["x", "--format", "json"])
    assert not output.wants_json(["x", "json", "--format", "text"])


def test_help_is_quick_for_it_imports_no_arithmetic_and_little_else() -> None:
    code = (
        "import sys; before = len(sys.modules); from masquerade.cli import run; run(['--help']); "
        "heavy = {'numpy', 'scipy', 'zmq', 'sklearn', 'gmpy2', 'pydantic'} & set(sys.modules); "
        "print(sorted(heavy), len(sys.modules) - before, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy, modules = done.stderr.rsplit(maxsplit=1)
    assert heavy == "[]"
    assert int(modules) < 400  # 300 are typer, rich and what these need; numpy alone has more than 150


# --- Keys ----------------------------------------------------------------------


def test_new_keys_are_private_and_their_public_half_is_shown_twice_the_same(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "home" / "my.key"
    made = shell.json("keys", "new", file).data
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert shell.json("keys", "show", file).data == made
    plain = shell("keys", "show", file)
    assert plain.out == made["public_key"] + "\n"
    assert made["fingerprint"] in plain.err


def test_keys_are_never_overwritten(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "my.key"
    assert shell("keys", "new", file).code == 0
    before = file.read_bytes()
    answer = shell.json("keys", "new", file)
    assert answer.code == 4
    assert answer.json["error_code"] == "bad_input"
    assert file.read_bytes() == before


def test_keys_that_others_can_read_are_refused_with_the_remedy(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "my.key"
    shell("keys", "new", file)
    file.chmod(0o644)
    answer = shell.json("keys", "show", file)
    assert answer.code == 4
    assert "chmod 600" in answer.json["hint"]


# --- Studies -------------------------------------------------------------------


def test_a_new_study_with_all_keys_is_valid_and_as_asked_for(shell: Shell, tmp_path: Path) -> None:
    public = {name: shell.json("keys", "new", tmp_path / name).data["public_key"] for name in ("c", "a", "b")}
    file = tmp_path / "study.toml"
    made = shell.json(
        "study", "new", "--output", file, "--name", "relapse", "--address", "tcp://charlie.example.org:5555",
        "--curator-key", public["c"], "--party", f"site-a={public['a']}", "--party", f"site-b={public['b']}",
        "--feature", "age:0:120", "--feature", "sex:f,m", "--feature", "ratio: x:-1.5:2", "--label", "relapse:yes",
        "--epsilon", "0.5", "--min-records", "300", "--lead", "site-b",
    )  # fmt: skip
    assert made.data == {
        "file": str(file), "parties": ["site-a", "site-b"], "complete": True, "examples": [], "unranged": [],
    }  # fmt: skip
    study = load_study(file)[0]
    assert (study.names, study.lead, study.privacy.epsilon) == (("site-a", "site-b"), "site-b", 0.5)
    assert (study.study.min_records, study.study.min_parties) == (300, 2)
    assert [f.name for f in study.features] == ["age", "sex", "ratio: x"]
    assert (study.features[2].min, study.features[2].max) == (-1.5, 2.0)
    assert study.features[1].levels == ("f", "m")
    assert str(study.party("site-a").key) == public["a"]
    assert str(study.curator.key) == public["c"]
    assert shell("study", "check", file).code == 0


@pytest.mark.parametrize("protocol", ["psgd", "noisy-gradient", "decaying-budget"])
def test_a_study_of_a_gradient_protocol_is_written_with_its_rounds_and_explained(
    shell: Shell, tmp_path: Path, protocol: str
) -> None:
    file = small_study(shell, tmp_path / "s.toml", protocol=protocol, rounds=37, calibration="paper")
    assert load_study(file, in_memory=True)[0].protocol == {"rounds": 37}
    data = shell.json("study", "show", file).data
    assert "37 rounds" in " ".join(data["leaves"])
    assert says(" ".join(data["leaves"]), "number_of_all_records")
    assert "The paper" in " ".join(data["cost"])
    assert load_study(small_study(shell, tmp_path / "d.toml", protocol=protocol), in_memory=True)[0].protocol == {
        "rounds": 100
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--protocol", "local-aggregation", "--rounds", 5], "local-aggregation has no rounds"),
        (["--protocol", "gop", "--rounds", 5], "gop has no rounds"),
        (["--protocol", "psgd", "--rounds", 0], "rounds"),
        (["--protocol", "psgd", "--delta", 0], "delta"),
        (["--protocol", "gop", "--delta", 0], "delta"),
        (["--protocol", "sgd"], "'sgd'"),
    ],
)
def test_a_study_that_no_protocol_can_carry_out_is_not_written(
    shell: Shell, tmp_path: Path, words: list[object], said: str
) -> None:
    answer = shell.json("study", "new", "--output", tmp_path / "s.toml", "--throwaway-keys", *words)
    assert answer.code == 4
    assert said in answer.json["message"]
    assert not (tmp_path / "s.toml").exists()


def test_two_new_studies_have_different_nonces(shell: Shell, tmp_path: Path) -> None:
    nonces = {load_study(small_study(shell, tmp_path / f"{i}.toml"), in_memory=True)[0].study.nonce for i in range(2)}
    assert len(nonces) == 2


def test_a_template_without_keys_is_commented_and_check_asks_for_the_keys(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    answer = shell.json("study", "new", "--output", file)
    assert answer.data["complete"] is False
    text = file.read_text()
    assert text.count("\n#") > 10
    assert text.count("mq1:PUT-HERE") == 4
    check = shell.json("study", "check", file)
    assert check.code == 4
    assert says(check.json["message"], "not_a_public_key")


def test_a_draft_that_lacks_its_keys_is_not_said_to_lack_its_parties(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    assert shell("study", "new", "--output", file).code == 0
    message = shell.json("study", "check", file).json["message"]
    assert "entries" not in message
    assert "4 problems: [curator] key" in message
    file.write_text("\n".join(file.read_text().split("[[party]]")[:1]))
    assert "[party] is missing" in shell.json("study", "check", file).json["message"]


def test_a_new_study_says_what_it_holds_that_nobody_asked_for(shell: Shell, tmp_path: Path) -> None:
    marks = ("# THESE COLUMNS ARE EXAMPLES", "# THIS LABEL IS AN EXAMPLE")
    file = tmp_path / "a.toml"
    words = shell("study", "new", "--output", file).err
    assert says(words, "examples_held", " and ".join(f"no --{what}" for what in ("feature", "label", "party")))
    assert says(words, "columns_named", listed(("age", "sex")))
    assert says(words, "label_named", "outcome")
    assert all(mark in file.read_text() for mark in marks)
    own = tmp_path / "b.toml"
    given = ["--feature", "age:0:120", "--feature", "sex:f,m", "--label", "outcome:yes", "--party", "a", "--party", "b"]
    answer = shell.json("study", "new", "--output", own, *given)
    assert answer.data["examples"] == []
    assert "example" not in answer.json["message"]
    assert not any(mark in own.read_text() for mark in marks)


@pytest.mark.parametrize("name", [*PROTOCOLS, *BASELINES])
def test_a_new_study_says_of_lambda_what_its_protocol_makes_of_it(name: str) -> None:
    text = Draft(parties=[("a", None), ("b", None)], protocol=name).to_toml()
    known = PROTOCOLS.get(name) or BASELINES[name]
    note = known.regularization_note
    Lambda = 0.02 if known.regularization is None else known.regularization
    assert f"# {note[0].upper()}{note[1:]}.\nregularization = {Lambda}\n" in text
    assert Lambda == 0.02 or name not in {"psgd", "local-aggregation", "weighted-dp", "vote", "soft", "input-noise"}
    assert (says(note, "less_noise")) == (name in {"local-aggregation", "vote", "soft", "average"})


def test_lambda_does_to_the_noise_what_a_new_study_says() -> None:
    def study(protocol: str, Lambda: float, **more: object) -> Study:
        parties = [(name, throwaway_key()) for name in "abc"]
        draft = Draft(parties, throwaway_key(), protocol=protocol, regularization=Lambda, **more)  # type: ignore[arg-type]  # more is checked there
        return Study.parse(draft.to_toml(), in_memory=True)

    assert dp_gd.noise_of(study("dp-gd", 0.2)).sigma == dp_gd.noise_of(study("dp-gd", 0.02)).sigma
    paper = [voting.beta(study("soft", Lambda, calibration="paper")) for Lambda in (0.2, 0.02)]
    assert paper[0] == 10 * paper[1]  # beta is a rate: less noise
    assert average_rate(study("average", 0.2)) == 10 * average_rate(study("average", 0.02))
    proven = [voting.noise_of(study("soft", Lambda, calibration="proven")).sigma for Lambda in (0.2, 0.02)]
    assert proven[0] == proven[1]


# --- Words that are others' ------------------------------------------------------


STRANGE = "job:a\\:b,[bold]c,\\:smile\\:,d\\,e"


def test_strange_names_are_shown_letter_by_letter(shell: Shell, tmp_path: Path, wide: None) -> None:
    error = shell("study", "new", "--output", tmp_path / "s.toml", "--feature", "job:a:b").err
    assert says(error, "not_a_feature", "'job:a:b'")
    assert "\\: or \\, for it" in error
    file = tmp_path / "[red]:a:[" / "s.toml"
    file.parent.mkdir()
    label = ["--label", "[ill]:a::yes"]
    words = ["study", "new", "--output", file, "--throwaway-keys", "--feature", STRANGE, *label]
    assert says(shell(*words).err, "draft_written", file, ...)
    assert load_study(file)[0].features[0].levels == ("a:b", "[bold]c", ":smile:", "d,e")
    text = " ".join(shell("study", "show", file).err.split())
    assert "job (a:b, [bold]c, :smile:, d,e)" in text
    assert says(text, "column_to_predict", "[ill]:a:", sentence("counts_as_plus_one", "'yes'"))
    assert str(file) in shell("study", "check", file).err
    assert "[/x]:a:" in shell("reproduce", "[/x]:a:").err


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("age:0:120", Feature(name="age", min=0.0, max=120.0)),
        ("a:b:0:120", Feature(name="a:b", min=0.0, max=120.0)),
        ("a\\:b:0:120", Feature(name="a:b", min=0.0, max=120.0)),
        ("sex: f, m", Feature(name="sex", levels=("f", "m"))),
        ("x:y:f,m", Feature(name="x:y", levels=("f", "m"))),
        ("x:y\\:f,m", Feature(name="x", levels=("y:f", "m"))),
        ("x:0\\:5,m", Feature(name="x", levels=("0:5", "m"))),
        ("x:f\\,g,m", Feature(name="x", levels=("f,g", "m"))),
        ("x:f\\\\,m", Feature(name="x", levels=("f\\", "m"))),
        ("x:f\\n,m", Feature(name="x", levels=("f\\n", "m"))),
        ("a:edges:1,2", Feature(name="a", edges=(1.0, 2.0))),
        ("a:edges\\:1,2", Feature(name="a", levels=("edges:1", "2"))),
    ],
)
def test_a_colon_or_a_comma_may_belong_to_a_name_or_a_level(text: str, feature: Feature) -> None:
    assert parse_feature(text) == feature


def test_a_label_may_have_colons_and_commas_too() -> None:
    assert parse_label("a:b:yes") == Label(name="a:b", positive="yes")
    assert parse_label("ill:yes\\:very") == Label(name="ill", positive="yes:very")
    assert parse_label("ill:yes\\, very") == Label(name="ill", positive="yes, very")
    assert parse_label("ill:a\\,b,c") == Label(name="ill", classes=("a,b", "c"))


def test_plain_strings_are_printed_by_the_literal_console_alone() -> None:
    face = Path(masquerade.__file__).parent
    for file in face.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "rich.markup" not in text, file
        if file.name not in {"console.py", "working.py"}:
            assert not re.search(r"\bConsole\(|import .*\bProgress\b.*rich|rich\.progress", text), file


def test_a_study_is_never_overwritten(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text("mine")
    assert shell("study", "new", "--output", file).code == 4
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--feature", "age"], "--feature 'age'"),
        (["--feature", "age:9:1"], "--feature 'age:9:1'"),
        (["--feature", "sex:f"], "--feature 'sex:f'"),
        (["--label", "outcome"], "--label 'outcome'"),
        (["--epsilon", "0"], "epsilon"),
        (["--party", "a=mq1:x:y"], "--party a="),
        (["--party", "A B"], "party"),
        (["--party", "a", "--party", "a"], "twice"),
        (["--party", "a"], "needs two or more"),
        (["--lead", "nobody"], "lead"),
        (["--address", "charlie:5555"], "tcp://HOST:PORT"),
        (["--protocol", "telepathy"], "telepathy"),
        (["--curator-key", "mq1:x:y"], "public key"),
    ],
)
def test_what_makes_no_study_is_said_and_no_file_is_written(
    shell: Shell, tmp_path: Path, words: list[str], named: str
) -> None:
    file = tmp_path / "study.toml"
    answer = shell.json("study", "new", "--output", file, *words)
    assert answer.code == 4
    assert answer.json["error_code"] == "bad_input"
    assert named in answer.json["message"]
    assert not file.exists()


def test_a_new_study_keeps_its_wish_unless_it_is_told_otherwise(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    assert shell("study", "new", "--output", file, "--throwaway-keys", "--colluders", 1).code == 0
    study = load_study(file)[0]
    assert (study.study.protocol, study.privacy.calibration, study.honest) == ("dp-whitened", "proven", 2)
    assert shell.json("study", "check", file).data["protocol"] == "dp-whitened"
    classes = ["study", "new", "--output", tmp_path / "c.toml", "--throwaway-keys", "--label", "stage:i,ii,iii"]
    assert "dp-gd" in shell.json(*classes, "--protocol", "dp-gd").json["message"]
    assert shell.json(*classes).code == 0


def test_check_finds_a_misspelt_key_and_a_misspelt_parameter(shell: Shell, tmp_path: Path) -> None:
    file = small_study(shell, tmp_path / "study.toml")
    text = file.read_text()
    file.write_text(text.replace("min_records", "min_record"))
    assert says(shell.json("study", "check", file).json["message"], "did_you_mean", "min_records")
    file.write_text(text.replace('scale = "selected"', 'scail = "floor"'))
    answer = shell.json("study", "check", file)
    assert answer.code == 4
    assert says(answer.json["message"], "did_you_mean", "scale")


def test_check_says_when_keys_are_too_short_for_a_network(shell: Shell, tmp_path: Path) -> None:
    assert "simulations only" in shell("study", "check", small_study(shell, tmp_path / "s.toml")).err
    other = small_study(shell, tmp_path / "t.toml", key_bits=2048)
    assert "simulations only" not in shell("study", "check", other).err


def test_show_explains_and_gives_every_fingerprint(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    file = small_study(shell, tmp_path / "study.toml")
    study = load_study(file, in_memory=True)[0]
    data = shell.json("study", "show", file).data
    assert data["leaves"]
    assert data["collusion"]
    assert data["cost"]
    text = shell("study", "show", file).err
    for title in ("What leaves my machine", "Who must not work together", "What it costs", "Who takes part"):
        assert title in text
    for key in (study.curator.key, *(p.key for p in study.parties)):
        assert key.fingerprint() in text
    assert data["fingerprint"] in text
    assert "age (0 to 120), sex (f, m)" in " ".join(text.split())
    assert data["declared"] == {}
    assert "What the coordinator declares" not in text
    file.write_text(re.sub(r"# (purpose|legal_basis|ethics_number|contact) =", r"\1 =", file.read_text()))
    declared = load_study(file, in_memory=True)[0].study.declared
    assert len(declared) == len(shell.json("study", "show", file).data["declared"]) == 4
    text = " ".join(shell("study", "show", file).err.split())
    for name, words in declared:
        assert f"{name[0].upper()}{name[1:]}: {words}" in text


def test_show_says_that_the_lead_holds_a_secret_key_only_where_it_does(
    shell: Shell, tmp_path: Path, wide: None
) -> None:
    def shown(file: Path) -> str:
        return " ".join(shell("study", "show", file).err.split())

    with_key = small_study(shell, tmp_path / "key.toml", calibration="proven")
    assert f"The lead, north, {sentence('lead_holds_key')}." in shown(with_key)
    text = with_key.read_text()
    without = tmp_path / "no-key.toml"
    without.write_text(text.replace('scale = "selected"', 'scale = "floor"'))
    assert f"The lead, north, {sentence('lead_holds_no_key')}" in shown(without)


def test_a_lead_is_asked_for_only_where_it_has_a_key_to_hold(shell: Shell, tmp_path: Path) -> None:
    file = small_study(shell, tmp_path / "study.toml", calibration="proven")
    text = file.read_text().replace('lead = "north"\n', "")
    file.write_text(text)
    answer = shell.json("study", "check", file)
    assert answer.code == 4
    assert says(answer.json["hint"], "lead_needed", "north")
    file.write_text(text.replace('scale = "selected"', 'scale = "floor"'))
    assert shell.json("study", "check", file).code == 0
    assert "The lead" not in shell("study", "show", file).err


def test_the_studys_fingerprint_changes_with_anything_in_it(shell: Shell, tmp_path: Path) -> None:
    file = small_study(shell, tmp_path / "study.toml")
    before = shell.json("study", "show", file).data["fingerprint"]
    file.write_text(file.read_text().replace("max = 120.0", "max = 121.0"))
    assert shell.json("study", "show", file).data["fingerprint"] != before


# --- The processes' commands, as far as they can be told without a network ----------


def test_a_party_that_is_not_in_the_roster_is_told_so(shell: Shell, tmp_path: Path) -> None:
    study = small_study(shell, tmp_path / "study.toml", key_bits=2048)
    shell("keys", "new", tmp_path / "my.key")
    data = write_csv(tmp_path / "records.csv", records(40))
    answer = shell.json("party", study, "--data", data, "--key", tmp_path / "my.key", "--approved")
    assert answer.code == 4
    assert says(answer.json["message"], "belongs_to_nobody")
    answer = shell.json("curator", study, "--key", tmp_path / "my.key")
    assert answer.code == 4
    assert not (tmp_path / "runs").exists()


def test_simulation_keys_are_refused_between_processes(shell: Shell, tmp_path: Path) -> None:
    study = small_study(shell, tmp_path / "study.toml")
    shell("keys", "new", tmp_path / "my.key")
    answer = shell.json("curator", study, "--key", tmp_path / "my.key")
    assert answer.code == 4
    assert "key_bits" in answer.json["message"]


def test_main_ends_the_process_with_the_exit_code(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "masquerade", "study", "check", str(tmp_path / "nowhere.toml"), "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 4
    assert json.loads(done.stdout)["status"] == "error"

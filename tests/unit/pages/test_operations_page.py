"""The operator's page: each of its commands works, in the page's order, and its numbers are those of the program."""

from __future__ import annotations

import getpass
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nacl.pwhash import argon2id

from masquerade_host.process import meter
from masquerade_host.process.logs import EVERY
from masquerade_host.process.metrics import STALE, serving
from masquerade_host.store import locked_keys
from tests import ROOT
from tests.face_helpers import Shell
from tests.pages import Page
from tests.site_helpers import PAGE, SITE, UNIT, WORDS, Person, Site, blocks, settings
from tests.unit.host.process.test_logs import LINE
from tests.unit.host.process.test_metrics import fetch
from tests.unit.pages.test_readme import table

STATE = "/var/lib/masquerade"


def commands(prompt: str) -> list[list[str]]:
    """The words of each command after this prompt: ``$`` for the service's user, ``#`` for root."""
    text = "".join(blocks("console")).replace("\\\n", " ")
    assert all(line[:2] in ("$ ", "# ") for line in text.splitlines())
    return [shlex.split(line[2:]) for line in text.splitlines() if line.startswith(prompt)]


# --- The whole page, as the site's user types it ---------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site(tmp_path)
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(made.state.parent))
    monkeypatch.setattr("masquerade_host.process.process.harden", lambda: None)
    monkeypatch.setattr(locked_keys, "_MEMORY", argon2id.MEMLIMIT_MIN)
    monkeypatch.setattr(getpass, "getpass", lambda *_: WORDS)
    monkeypatch.setattr(sys, "stdin", Person())
    yield made
    made.stop()


def test_the_page_s_commands_work_in_the_page_s_order(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(capsys)
    left: list[float] = []
    for program, *words in commands("$ "):
        if program == "cd":
            assert words == [SITE]
            continue
        if program == "curl":
            _asks_the_process(words)
            continue
        assert program == "masquerade"
        if words[0] == "party":
            site.others_start(shell)
        answer = shell(*words)
        assert answer.code == 0, f"{words}: {answer.err}"
        if words[:2] == ["keys", "new"]:
            site.get_studies(shell, answer.out.strip())
        if words[0] == "party":
            site.others_end()
        if words[0] in ("approve", "party"):
            (account,) = shell.json("budget", "show").data["populations"]
            left.append(account["left"])
    results = site.folder / "results" / "relapse"
    assert {path.name for path in results.iterdir()} >= {"model.json", "result.json", "transcript.json"}
    logged = (site.folder / "relapse.log").read_text(encoding="utf-8").splitlines(keepends=True)
    assert [line for line in logged if LINE.fullmatch(line) is None] == []
    assert len(logged) > 5
    assert (site.folder / "relapse.log").stat().st_mode & 0o777 == 0o600
    first, after_run, second = left
    assert first < 9.5  # what is reserved is taken
    assert after_run == pytest.approx(first, abs=0.01)
    assert 5 < second < after_run - 0.05  # the second study takes of what the first one left
    assert [path.name for path in site.folder.glob("site.key.until-*")] != []


def _asks_the_process(words: list[str]) -> None:
    """Fetch what the page's curl fetches."""
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\w+)", words[-1])
    assert found is not None
    assert f"`--metrics {found[1]}`" in PAGE.text
    with serving("0") as (observe, address):
        observe("traffic", messages=1, bytes=2)
        assert fetch(address, found[2])[0] == 200


# --- As root ---------------------------------------------------------------------------


def test_root_s_commands_are_about_what_is_there() -> None:
    known = {"python3", "useradd", "install", "sudo", "systemctl", "journalctl", "docker", "/opt/masquerade/bin/pip"}
    typed = commands("# ")
    assert {words[0] for words in typed} == known
    for words in typed:
        if words[0].endswith("pip"):
            extra = re.fullmatch(r"\.\[(\w+)\]", words[-1])
            assert extra is not None
            assert f"\n{extra[1]} = [" in (ROOT / "pyproject.toml").read_text()
        if words[:2] == ["install", "-m"] and words[3].startswith("docs/"):
            assert (ROOT / words[3]).exists()
        instances = [word for word in words if word.startswith("masquerade-party@") and len(words) < 6]
        assert all(f"{name.partition('@')[2]}.toml" in PAGE.text for name in instances)
    (shell,) = (words for words in typed if words[0] == "sudo")
    assert "XDG_STATE_HOME=/var/lib" in shell


def _in_containers() -> Iterator[tuple[list[str], list[str]]]:
    """The options of each ``docker run`` of the page, and the command in the container."""
    for words in commands("# "):
        if words[:2] == ["docker", "run"]:
            at = words.index("masquerade")  # the image
            yield words[2:at], words[at + 1 :]


def test_containers_run_the_page_s_commands_and_nothing_can_connect_to_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = [words for program, *words in commands("$ ") if program == "masquerade"]
    started = list(_in_containers())
    assert [words[0] for _, words in started] == ["budget", "approve", "party"]
    for options, words in started:
        assert [word for word in words if word not in next(t for t in typed if t[0] == words[0])] == []
        assert Shell(capsys)(*words, "--help").code == 0
        assert not {"-p", "-P", "--publish", "--publish-all", "--privileged"} & set(options)
        assert "masquerade-state:/state" in options
        assert "XDG_STATE_HOME=/state" in options
    assert "/state" in re.findall(r"mkdir -m 1777 (.*)", (ROOT / "Dockerfile").read_text())[0].split()
    assert "--approved" in started[-1][1]
    assert 'ENTRYPOINT ["masquerade"]' in (ROOT / "Dockerfile").read_text()


# --- The unit --------------------------------------------------------------------------


@pytest.fixture
def unit() -> dict[str, list[str]]:
    """Every setting of the unit."""
    sections = re.findall(r"^\[(\w+)\]$", UNIT.read_text(), flags=re.MULTILINE)
    assert sections == ["Unit", "Service", "Install"]
    return settings()


def test_the_unit_starts_the_page_s_command(unit: dict[str, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = unit["ExecStart"]
    program, *words = shlex.split(command.replace("%i", "relapse"))
    assert program == "/opt/masquerade/bin/masquerade"
    (typed,) = (line[1:] for line in commands("$ ") if line[:2] == ["masquerade", "party"])
    assert words == [word for word in typed if word not in ("--log-file", "relapse.log")]
    assert Shell(capsys)(*words, "--help").code == 0


def test_the_unit_s_folders_and_passphrase_are_the_page_s(unit: dict[str, list[str]]) -> None:
    assert unit["WorkingDirectory"] == [SITE]
    assert unit["ReadWritePaths"] == [f"{SITE}/results"]
    assert unit["ConditionPathExists"] == [f"!{SITE}/results/%i/result.json"]
    assert unit["StateDirectory"] == ["masquerade"]
    assert unit["Environment"] == ["XDG_STATE_HOME=/var/lib", "MASQUERADE_PASSPHRASE_FILE=%d/passphrase"]
    assert unit["LoadCredential"] == ["passphrase:/etc/masquerade/passphrase"]
    for path in (SITE, STATE, "/etc/masquerade/passphrase", "/opt/masquerade"):
        assert f"| `{path}` |" in PAGE.text


def test_the_unit_restarts_where_that_helps_as_the_page_says(unit: dict[str, list[str]]) -> None:
    assert unit["Restart"] == ["on-failure"]
    rows = table(PAGE, "| exit code | what happened | the service | what to do |")
    assert [row[0] for row in rows] == [
        row[0] for row in table(Page("docs/reference/commands.md"), "| exit code | meaning |")
    ]
    stays_off = [row[0] for row in rows[1:] if row[2] == "stays off"]
    assert unit["RestartPreventExitStatus"] == [" ".join(stays_off)]
    assert unit["StartLimitBurst"] == ["5"]
    assert unit["StartLimitIntervalSec"] == ["1h"]
    assert "5 times an hour at most" in PAGE.text


def test_the_unit_is_hardened(unit: dict[str, list[str]]) -> None:
    wanted = {"ProtectSystem": "strict", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "UMask": "0077"}
    assert {name: unit[name] for name in wanted} == {name: [value] for name, value in wanted.items()}
    assert unit["SocketBindDeny"] == ["any"]


def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path, unit: dict[str, list[str]]) -> None:
    """Where systemd is not installed, the names of the settings are compared with a list of those that it knows."""
    here = tmp_path / "masquerade-party@relapse.service"
    program = tmp_path / "masquerade"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    here.write_text(UNIT.read_text().replace("/opt/masquerade/bin/masquerade", str(program)))
    assert set(unit) <= set(KNOWN.split())
    if (tool := shutil.which("systemd-analyze")) is not None:
        done = subprocess.run([tool, "verify", here], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


KNOWN = """
CapabilityBoundingSet ConditionPathExists Description Environment ExecStart After LimitCORE LoadCredential
LockPersonality NoNewPrivileges PrivateDevices PrivateTmp ProtectClock ProtectControlGroups ProtectHome
ProtectHostname ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem
ReadWritePaths RemoveIPC Restart RestartPreventExitStatus RestartSec RestrictAddressFamilies RestrictNamespaces
RestrictRealtime RestrictSUIDSGID SocketBindDeny StartLimitBurst StartLimitIntervalSec StateDirectory
StateDirectoryMode KillSignal SystemCallArchitectures SystemCallFilter Type UMask User WantedBy Wants
WorkingDirectory
"""


# --- Numbers and words -----------------------------------------------------------------


def test_the_page_s_numbers_are_the_program_s() -> None:
    words = " ".join(PAGE.text.split())
    assert f"Every {EVERY:g} seconds it has a line" in words
    assert f"After {meter.PATIENCE:g} seconds of waiting" in words
    assert f"was active within the last {STALE:g} seconds" in words


def test_the_page_s_lines_of_a_log_have_the_form_of_a_log() -> None:
    (shown,) = blocks("text")
    assert [line for line in shown.splitlines(keepends=True) if LINE.fullmatch(line) is None] == []


def test_the_page_s_words_on_proxies_and_trials_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(capsys)
    for command, options in (("doctor", ("--proxy", "--listen", "MASQUERADE_PROXY")), ("party", ("--proxy",))):
        shown = shell(command, "--help").out
        assert [option for option in options if option not in shown or option not in PAGE.text] == [], command


def test_the_page_leads_somewhere() -> None:
    assert PAGE.broken_links == []
    assert "docs/operations.md" in {f"docs/{link}" for link in Page("docs/README.md").links}

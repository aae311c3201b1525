"""The page of the site and its unit: what they say is what the program does."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from masquerade_party.serving import reading, server
from masquerade_party.serving.folders import Place, State
from tests import ROOT
from tests.face_helpers import Shell
from tests.pages import Page
from tests.site_helpers import UNIT as OTHER
from tests.unit.pages.test_operations_page import KNOWN
from tests.unit.pages.test_readme import sentences, table

PAGE = Page("docs/site.md")
UNIT = ROOT / "docs" / "masquerade-site.service"


def settings(unit: Path) -> dict[str, list[str]]:
    """Every setting of a unit, with its values."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^([A-Za-z]+)=(.*)$", unit.read_text(encoding="utf-8"), flags=re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def test_the_page_s_table_has_every_state_and_folder() -> None:
    rows = table(PAGE, "| state | folder | what it means |")
    assert [row[0].strip("`") for row in rows] == list(State)
    assert {row[1].strip("`") for row in rows} == set(Place)


def test_the_page_s_numbers_are_the_program_s() -> None:
    words = " ".join(PAGE.text.split())
    for said in (
        f"nobody has written to it for {server.SETTLED:g} seconds",
        f"Runs of it failed {server._TRIES} times, or its process died {server._CRASHES + 1} times in a row",
        f"({reading._QUICK} seconds, then {reading._SLOW} once all others were read)",
        f"limits on memory ({reading._MEMORY >> 20} MB)",
        f"A name of more than {server._LONGEST_NAME} bytes",
        f"The first pause has {server._FIRST:g} seconds",
        f"at most {server._LONGEST / 60:g} minutes",
        f"after {server._AT_ONCE:g} second at first",
    ):
        assert said in words
    again, never = (", ".join(map(str, sorted(codes))) for codes in (server._AGAIN, server._NEVER))
    assert f"After {again.replace(', ', ' and ')}, when a participant was absent" in words
    assert f"After {' and '.join(never.rsplit(', ', 1))} a person has to look" in words


def test_the_page_leads_somewhere_in_short_sentences() -> None:
    assert PAGE.broken_links == []
    assert "docs/site.md" in {f"docs/{link}" for link in Page("docs/README.md").links}
    text = re.sub(r"<!--.*?-->", "", PAGE.text, flags=re.DOTALL)
    assert [sentence for sentence in sentences(text) if len(sentence.split()) > 25] == []


def test_the_unit_s_command_exists(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = settings(UNIT)["ExecStart"]
    program, *words = shlex.split(command)
    assert program == "/opt/masquerade/bin/masquerade"
    assert words[:2] == ["site", "--folder"]
    assert Shell(capsys)("site", "--help").code == 0


def test_the_unit_stops_the_site_alone_and_is_as_hardened_as_that_of_a_party() -> None:
    unit, other = settings(UNIT), settings(OTHER)
    own = {"ExecStart", "Description", "ReadWritePaths", "RestartPreventExitStatus"}
    assert set(unit) ^ set(other) == {"KillMode", "KillSignal", "ConditionPathExists"}
    assert {name for name in set(unit) & set(other) if unit[name] != other[name]} == own
    assert (unit["KillMode"], unit["Restart"]) == (["mixed"], ["on-failure"])
    assert set(unit) <= {*KNOWN.split(), "KillMode"}


def test_systemd_finds_no_fault_with_the_unit(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd is not installed")
    here, program = tmp_path / UNIT.name, tmp_path / "masquerade"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    here.write_text(UNIT.read_text().replace("/opt/masquerade/bin/masquerade", str(program)))
    done = subprocess.run([tool, "verify", here], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

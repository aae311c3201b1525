"""A party as a service of its user: the unit is what systemd reads, and the party in it is this one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from masquerade.user_service import install, unit_of
from masquerade_core.errors import BadInput, RunFailed
from tests.host_helpers import World
from tests.messages import raises

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("party", "relapse.toml", "--approved", "--data", 'a "b" 100% $x.csv')


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in that notes how it was called, and fails if there is a file ``fails``."""
    tool = tmp_path / "bin" / "systemctl"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\ntest ! -e {tmp_path}/fails\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_unit_is_written_and_started(systemctl: Path) -> None:
    path = install(World.new().study, WORDS, systemctl / "out")
    assert path == systemctl / "config" / "systemd" / "user" / "masquerade-toy.service"
    assert (systemctl / "called").read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now masquerade-toy.service",
    ]
    (systemctl / "fails").touch()
    with raises(RunFailed, "unit_not_started", path, ...):
        install(World.new().study, WORDS, systemctl / "out")


def test_a_machine_without_systemd_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises(BadInput, "no_systemd"):
        install(World.new().study, WORDS, tmp_path / "out")


def test_each_word_of_the_command_is_one_word_to_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASQUERADE_PROXY", "http://me:secret@proxy:3128")
    lines = unit_of(World.new().study, WORDS, tmp_path / "50% out").splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start.startswith(f'ExecStart="{sys.executable}" "-m" "masquerade" "party"')
    assert '"a \\"b\\" 100%% $$x.csv"' in start
    assert f"ConditionPathExists=!{tmp_path}/50%% out/result.json" in lines
    assert 'Environment="MASQUERADE_PROXY=http://me:secret@proxy:3128"' in lines
    with raises(BadInput, "not_in_a_unit", ...):
        unit_of(World.new().study, ("party", "two\nlines"), tmp_path)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "masquerade-toy.service"
    unit.write_text(unit_of(World.new().study, ("party", "relapse.toml"), tmp_path / "out"))
    done = subprocess.run(["systemd-analyze", "--user", "verify", unit], capture_output=True, text=True, check=False)
    assert "masquerade-toy.service:" not in done.stderr, done.stderr

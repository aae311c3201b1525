"""As a site's operator would: a power cut in mid-run, a restart by systemd, next month's study with what is left."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nacl.pwhash import argon2id

from masquerade_host.store import locked_keys
from tests.face_helpers import Shell
from tests.site_helpers import OTHERS, WORDS, Person, Service, Site


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def site(tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A site that has keys under a passphrase, a budget, a policy, and two studies, the first of them approved."""
    made = Site(tmp_path)
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(made.state.parent))
    monkeypatch.setattr(locked_keys, "_MEMORY", argon2id.MEMLIMIT_MIN)
    monkeypatch.setattr(getpass, "getpass", lambda *_: WORDS)
    monkeypatch.setattr(sys, "stdin", Person())
    own = shell("keys", "new", "site.key", "--passphrase").out.strip()
    made.get_studies(shell, own)
    assert shell("budget", "init", "--epsilon", "10", "--delta", "1e-5").code == 0
    approve(shell, "relapse")
    yield made
    made.stop()


def approve(shell: Shell, study: str) -> None:
    answer = shell("approve", f"{study}.toml", "--key", "site.key", "--data", "records.csv")
    assert answer.code == 0, answer.err


def left(shell: Shell) -> float:
    (account,) = shell.json("budget", "show").data["populations"]
    return float(account["left"])


def kinds(shell: Shell) -> list[str]:
    return [entry["kind"] for entry in shell.json("budget", "history").data["entries"]]


@pytest.mark.parametrize("stage", ["moments ...", "rounds ..."])
def test_a_power_cut_in_mid_run_costs_neither_the_run_nor_the_budget(site: Site, shell: Shell, stage: str) -> None:
    reserved = left(shell)
    site.others_start(shell)
    service = Service(site, "relapse")
    assert service.run(power_cut=stage) == 0, "".join(service.log)
    assert service.starts == 2
    site.others_end()
    models = [site.folder / "results" / "relapse", *(site.elsewhere / name for name in (*OTHERS, "charlie"))]
    assert len({(folder / "model.json").read_bytes() for folder in models}) == 1
    assert kinds(shell).count("attempt") == 1
    assert left(shell) == pytest.approx(reserved, abs=0.01)
    # The machine is started anew: the study is over, and its service stays off.
    assert Service(site, "relapse").run() == 0
    assert service.starts == 2
    # Next month.
    approve(shell, "relapse-2")
    assert left(shell) < reserved - 0.05
    assert json.loads((models[0] / "result.json").read_text())["epsilon"] == 1.0


def test_what_a_restart_does_not_mend_is_not_restarted(site: Site) -> None:
    service = Service(site, "relapse-2")  # nobody has approved it
    assert (service.run(), service.starts) == (6, 1)

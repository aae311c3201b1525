"""A site's machine as its operator sees it, what systemd does there, and Charlie and two other sites elsewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from masquerade_core.study_files import load_study
from tests import ROOT
from tests.face_helpers import Shell, records, write_csv
from tests.host_helpers import free_port
from tests.pages import Page

PAGE = Page("docs/operations.md")
UNIT = ROOT / "docs" / "masquerade-party@.service"
OTHERS = ("south", "west")
SITE = "/srv/masquerade"


def blocks(kind: str) -> list[str]:
    """The contents of the page's blocks of this kind."""
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.text, flags=re.DOTALL)


def settings() -> dict[str, list[str]]:
    """Every setting of the unit, with its values."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^([A-Za-z]+)=(.*)$", UNIT.read_text(encoding="utf-8"), flags=re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


WORDS = "an umbrella for nine cats"


class Person:
    """Somebody at a terminal, who says yes."""

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return "yes\n"


class Site:
    """The site's machine, and the coordinator and two other sites elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "site"
        self.state = folder / "state" / "masquerade"
        self.elsewhere = folder / "elsewhere"
        self.others: list[subprocess.Popen[str]] = []
        for made in (self.folder / "results", self.state, self.elsewhere):
            made.mkdir(parents=True)
        write_csv(self.folder / "records.csv", records(400, 7))

    def _tell(self, shell: Shell, *words: object) -> str:
        answer = shell(*words)
        assert answer.code == 0, f"{words}: {answer.err}"
        return answer.out.strip()

    def get_studies(self, shell: Shell, own: str) -> None:
        """Let the coordinator write the studies and the others approve the first, once this site's key is known."""
        keys = {name: self._tell(shell, "keys", "new", self.elsewhere / f"{name}.key") for name in (*OTHERS, "charlie")}
        who = ["--curator-key", keys["charlie"], "--party", f"north={own}"]
        who += [word for name in OTHERS for word in ("--party", f"{name}={keys[name]}")]
        columns = ["--feature", "age:0:120", "--feature", "sex:f,m", "--label", "ill:yes", "--min-records", "300"]
        address = ["--address", f"tcp://127.0.0.1:{free_port()}"]
        for name, epsilon in (("relapse", "1"), ("relapse-2", "0.5")):
            named = ["--output", self.folder / f"{name}.toml", "--name", name, "--epsilon", epsilon]
            self._tell(shell, "study", "new", *named, *who, *columns, *address)
        (policy,) = blocks("toml")
        policy = policy.replace("mq1:...", keys["charlie"]).replace(SITE, str(self.folder))
        (self.state / "policy.toml").write_text(policy)

    def others_start(self, shell: Shell) -> None:
        """Start Charlie and the other two sites."""
        study = self.folder / "relapse.toml"
        fingerprint = load_study(study)[0].fingerprint()
        for seed, name in enumerate(OTHERS):
            data = write_csv(self.elsewhere / f"{name}.csv", records(400, seed))
            state = ["--state", self.elsewhere / f"state-{name}"]
            given = ["--key", self.elsewhere / f"{name}.key", "--data", data]
            self._tell(shell, "budget", "init", "--epsilon", "10", "--delta", "1e-5", *state)
            self._tell(shell, "approve", study, *given, *state, "--fingerprint", fingerprint)
            self._start("party", study, *given, *state, "--approved", "--out", self.elsewhere / name)
        self._start("curator", study, "--key", self.elsewhere / "charlie.key", "--out", self.elsewhere / "charlie")

    def _start(self, *words: object) -> None:
        command = [sys.executable, "-m", "masquerade", *map(str, words)]
        env = {**os.environ, "XDG_STATE_HOME": str(self.elsewhere / "state")}
        self.others.append(
            subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        )

    def stop(self) -> None:
        """Kill whoever still runs elsewhere."""
        for process in self.others:
            process.kill()
            process.communicate()

    def others_end(self) -> None:
        for process in self.others:
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0, err


class Service:
    """A stand-in for systemd: it starts the unit's command, and restarts it where the unit says so.

    Parameters
    ----------
    site : Site
    study : str
        The instance's name.
    """

    def __init__(self, site: Site, study: str) -> None:
        self._site = site
        self._settings = settings()
        self._study = study
        self.log: list[str] = []
        self.starts = 0

    def _start(self) -> subprocess.Popen[str]:
        (command,) = self._settings["ExecStart"]
        _, *words = shlex.split(command.replace("%i", self._study))
        passphrase = self._site.folder.parent / "passphrase"
        passphrase.touch(0o600)
        passphrase.write_text(f"{WORDS}\n", encoding="utf-8")
        env = {
            **os.environ,
            "XDG_STATE_HOME": str(self._site.state.parent),
            "MASQUERADE_PASSPHRASE_FILE": str(passphrase),
        }
        self.starts += 1
        return subprocess.Popen(
            [sys.executable, "-m", "masquerade", *words],
            cwd=self._site.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, power_cut: str = "") -> int:
        """Start it, and again as long as the unit says so; return the last exit code.

        Parameters
        ----------
        power_cut : str
            Where the log first shows this, the process is killed.
        """
        (condition,) = self._settings["ConditionPathExists"]
        result = condition.removeprefix("!").replace("%i", self._study).replace(SITE, str(self._site.folder))
        if Path(result).exists():
            return 0
        code = 0
        for _ in range(int(self._settings["StartLimitBurst"][0])):
            process = self._start()
            assert process.stderr is not None
            for line in process.stderr:
                self.log.append(line)
                if power_cut and power_cut in line:
                    process.kill()
                    power_cut = ""
            code = process.wait()
            process.stderr.close()
            if code == 0 or str(code) in self._settings["RestartPreventExitStatus"][0].split():
                return code
        return code

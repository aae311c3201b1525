"""A party as a service of its user: systemd starts it, and starts it again after a failure or a reboot.

It needs no root. The unit for a machine that is a site and nothing else, with a user of its own and a sandbox, is
``docs/masquerade-party@.service``.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.study import Study
from masquerade_host.store.state import write_private

__all__ = ["install", "unit_of"]

_UNIT = """\
# Written by 'masquerade join --service'.
[Unit]
Description=masquerade party in the study {name}
After=network-online.target
# A study that has a result is over, and is not started again.
ConditionPathExists=!{result}

[Service]
Type=exec
WorkingDirectory={folder}
ExecStart={command}
{environment}# A wrong file (4), a refusal here (6), a small budget (7) and a broken protocol (8) are for people.
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=4 6 7 8
# A stop is a power cut: the run goes on when the service is started again. SIGTERM would end it for everybody.
KillSignal=SIGKILL
NoNewPrivileges=yes
UMask=0077
LimitCORE=0

[Install]
WantedBy=default.target
"""
_PASSED_ON = ("MASQUERADE_PASSPHRASE_FILE", "MASQUERADE_PROXY", "XDG_STATE_HOME")


def unit_of(study: Study, words: Sequence[str], out: Path) -> str:
    """Return the text of the unit.

    Parameters
    ----------
    study : Study
    words : sequence of str
        The arguments of ``masquerade`` that take part in it.
    out : Path
        The folder of the results, which is given to the command.

    Raises
    ------
    BadInput
        A path has a character that such a unit cannot hold.
    """
    command = [sys.executable, "-m", "masquerade", *words, "--out", str(out)]
    set_here = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment = [f"Environment={_quoted(f'{name}={value}')}\n" for name, value in set_here.items()]
    return _UNIT.format(
        name=study.study.name,
        result=_plain(str(out / "result.json")),
        folder=_plain(str(Path.cwd())),
        command=" ".join(_quoted(word).replace("$", "$$") for word in command),
        environment="".join(environment),
    )


def _plain(text: str) -> str:
    if not text.isprintable():
        raise BadInput(f"{text!r} cannot stand in a unit of systemd", "use a path without such characters")
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    escaped = _plain(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def install(study: Study, words: Sequence[str], out: Path) -> Path:
    """Write the unit and start it; return its file.

    Raises
    ------
    BadInput
        There is no systemd here, or the unit cannot be written.
    RunFailed
        systemd did not start it.
    """
    if shutil.which("systemctl") is None:
        raise BadInput("this machine has no systemd, which runs services", "leave --service out")
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    path = home / "systemd" / "user" / f"masquerade-{study.study.name}.service"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, unit_of(study, words, out))  # a proxy's password may stand in it
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}", "see whose folder it is") from error
    for step in (["daemon-reload"], ["enable", "--now", path.name]):
        done = subprocess.run(["systemctl", "--user", *step], capture_output=True, text=True, check=False)  # noqa: S603, S607
        if done.returncode:
            raise RunFailed(
                f"the unit {path} is written, and systemd did not start it: {done.stderr.strip() or done.returncode}",
                f"start it yourself: systemctl --user enable --now {path.name}",
            )
    return path

"""Commands of ``masquerade`` in processes of their own, without the time that loading the program takes.

One process loads what commands need, and forks for each of them. What stands on the path of a command alone, such as
another distribution's folder, only the child sees: so a command finds and loads as much of it as in a new process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["Commands"]

_LOADED = (
    "masquerade.cli.budget",
    "masquerade.cli.predict",
    "masquerade.cli.processes",
    "masquerade.cli.study",
    "masquerade.cli.study_new",
    "masquerade.draft",
    "masquerade.evaluation_view",
    "masquerade.own_table",
    "masquerade.prediction",
    "masquerade.report",
    "masquerade.statement_view",
    "masquerade_core.data.loading",
    "masquerade_core.data.noting",
    "masquerade_curator._run",
    "masquerade_party._approve",
    "masquerade_party._run",
    "masquerade_protocols.blocks.paillier_sum",
    "masquerade_protocols.dp_whitened.entry",
    "rich.console",
    "rich.columns",
)
"""What most commands load, and they load the rest: as far as what they do goes, this may be anything."""


class Commands:
    """The process that forks."""

    def __init__(self) -> None:
        paths = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)  # noqa: PTH100
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.commands"],
            env={**os.environ, "PYTHONPATH": paths},
            text=True,
            bufsize=1,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(
        self, folder: Path, words: Sequence[str], paths: Sequence[Path] = (), *, seconds: int = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder for so long at most, with more folders first on Python's path."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        with TemporaryDirectory() as said:
            order = {
                "folder": str(folder),
                "words": [*words],
                "paths": [str(path) for path in paths],
                "said": said,
                "env": {**os.environ},
                "seconds": seconds,
            }
            print(json.dumps(order), file=self._parent.stdin, flush=True)
            code = int(self._parent.stdout.readline())
            out, err = ((Path(said) / name).read_text(encoding="utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess([*words], code, out, err)

    def close(self) -> None:
        """End."""
        for pipe in (self._parent.stdin, self._parent.stdout):
            if pipe is not None:
                pipe.close()
        self._parent.wait(60)


# --- In the process that forks ----------------------------------------------------------


def _serve() -> None:
    for module in _LOADED:
        import_module(module)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _be(**json.loads(line))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        sys.stdout.flush()


def _be(folder: str, words: list[str], paths: list[str], said: str, env: dict[str, str], seconds: int) -> None:
    """Be ``python -m masquerade``, to the end."""
    code = 99
    try:
        signal.alarm(seconds)  # it ends the process
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(Path(said) / name, os.O_WRONLY | os.O_CREAT, 0o600), number)
        sys.path[:0] = paths
        sys.argv = ["masquerade", *words]
        import_module("masquerade.cli").main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001  as Python ends a process
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()

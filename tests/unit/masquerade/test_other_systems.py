"""Windows and macOS: estimators, prediction and reports need no module that one of them lacks."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

LACKING = ("fcntl", "grp", "pty", "pwd", "resource", "termios")

POSIX = ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "chown", "fchmod", "fork", "geteuid", "getuid", "killpg", "pwrite")
SIGNALS = ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGUSR1", "pthread_sigmask")

BLOCKED = f"""
import os, signal, sys
for name in {LACKING!r}:
    sys.modules[name] = None  # its import raises ImportError
for module, names in ((os, {POSIX!r}), (signal, {SIGNALS!r})):
    for name in names:
        delattr(module, name)  # Windows has none of them
"""

MODULES = (
    "masquerade", "masquerade.cli", "masquerade.cli.predict", "masquerade.cli.report", "masquerade.estimators",
    "masquerade.pages.report", "masquerade.prediction", "masquerade.report", "masquerade.simulation",
)  # fmt: skip

IMPORTS = f"""
import importlib
for name in {MODULES!r}:
    try:
        importlib.import_module(name)
        print(name, "there")
    except Exception as error:
        print(name, repr(error))
"""

FIT = """
import numpy as np
from masquerade.estimators import DPWhitened
X = np.random.default_rng(1).uniform(-1, 1, (200, 2))
model = DPWhitened(bounds=(-1, 1), n_parties=2, random_state=1).fit(X, X[:, 0] > 0)
print(model.score(X, X[:, 0] > 0) > 0.8, len(model.statement_) > 0)
"""


def _run(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED + code], cwd=cwd, capture_output=True, text=True, check=False)


@cache
def _done(cwd: Path) -> tuple[list[str], str]:
    """Import all modules in one process, which then fits: most of its time is its start.

    A module that cannot be imported is imported again where another one needs it, so each says it for itself.
    """
    done = _run(IMPORTS + FIT, cwd)
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_what_other_systems_run_needs_no_module_that_they_lack(
    module: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    said, errors = _done(tmp_path_factory.getbasetemp())
    assert [line for line in said if line.split()[0] == module] == [f"{module} there"]
    assert errors == ""


def test_a_fit_and_a_prediction_need_none_either(tmp_path_factory: pytest.TempPathFactory) -> None:
    said, errors = _done(tmp_path_factory.getbasetemp())
    assert (said[len(MODULES) :], errors) == (["True True"], "")


@pytest.mark.parametrize("statement", ["import fcntl", "import resource", "import os; os.O_DIRECTORY"])
def test_what_is_blocked_is_missing(statement: str, tmp_path: Path) -> None:
    assert _run(statement, tmp_path).returncode == 1

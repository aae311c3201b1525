"""Plants each mutant in a copy of the program, and says which of them no test shows.

``python -m tests.mutants [--jobs N] [WORD]`` takes the mutants whose kind, name or symbol has the word. First the tests
that they name pass on the program as it is; then each mutant's own tests must fail. The exit code is 1 if a mutant
survives, if it can no longer be planted, or if one of its tests is not there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import ROOT
from tests.mutants import MUTANTS, PACKAGES, Mutant

_SECONDS = 900  # where a mutant hangs, the limit of its test shows it long before
_PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout=60", "--tb=line", "-W", "ignore")
_FAILED = (1, 2)  # pytest's exit codes where a test fails, or its file cannot be loaded; others are faults of the list


def main() -> int:
    """Run the mutants, print those that survive, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants run at a time")
    parser.add_argument("word", nargs="?", default="", help="of a mutant's kind, name or symbol")
    asked = parser.parse_args()
    chosen = [each for each in MUTANTS if asked.word in f"{each.kind} {each.what} {each.symbol}"]
    if not chosen:
        sys.stderr.write(f"no mutant has {asked.word!r} in its kind, name or symbol\n")
        return 1
    began = time.monotonic()
    if wrong := _control(chosen):
        sys.stdout.write(f"{wrong}\nthese tests fail without any mutant: mend them first\n")
        return 1
    with ThreadPoolExecutor(asked.jobs) as pool:
        survivors = [mutant for mutant, shown in zip(chosen, pool.map(_is_shown, chosen), strict=True) if not shown]
    sys.stdout.write(f"{len(survivors)} of {len(chosen)} survive or are gone ({time.monotonic() - began:.0f} s)\n")
    sys.stdout.writelines(f"  {mutant.what}: {mutant.symbol}\n" for mutant in survivors)
    return int(bool(survivors))


def _control(mutants: Iterable[Mutant]) -> str:
    """Run all named tests without a mutant, and return what is wrong."""
    tests = sorted({test for mutant in mutants if mutant.kind != "process" for test in mutant.tests})
    if not tests:
        return ""
    run = subprocess.run([sys.executable, *_PYTEST, *tests], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout[-4000:] + run.stderr[-4000:]


def _is_shown(mutant: Mutant) -> bool:
    """Plant a mutant, run its tests, and say whether they notice it."""
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        for package in PACKAGES:  # with the compiled files, whose sources keep their times
            shutil.copytree(ROOT / package, Path(folder) / package)
        try:
            path, text = mutant.planted(Path(folder))
        except AssertionError as error:
            sys.stdout.write(f"GONE     {error}\n")
            return False
        path.write_text(text, encoding="utf-8")
        run = _run(mutant, [str(Path(folder) / package) for package in PACKAGES])
    shown, why = (_noticed if mutant.kind == "process" else _failed)(run)
    seconds = time.monotonic() - began
    sys.stdout.write(f"{'shown' if shown else 'SURVIVES':<8} {mutant.what} ({seconds:.0f} s): {why:.160}\n")
    sys.stdout.flush()
    return shown


def _run(mutant: Mutant, paths: Sequence[str]) -> subprocess.CompletedProcess[str]:
    module = ("-m", "tests.oracle_cases") if mutant.kind == "process" else _PYTEST
    command = [sys.executable, *module, *mutant.tests]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(ROOT)])}
    try:
        return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", "it did not end, and no test said so")


def _failed(run: subprocess.CompletedProcess[str]) -> tuple[bool, str]:
    """Say whether a test failed, and what pytest's last words are."""
    lines = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    summary = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines or [""]
    return run.returncode in _FAILED, summary[-1]


def _noticed(run: subprocess.CompletedProcess[str]) -> tuple[bool, str]:
    """Say whether a run between processes noticed: its oracle disagrees, or a participant ends with its own error."""
    last = next((line for line in run.stderr.splitlines() if '"event": "error"' in line), "")
    ended = " ended: " not in run.stderr or bool(last)  # any other end is a fault of the run
    found = run.returncode != 0 and "AssertionError" in run.stderr and ended
    return found, last or " ".join(run.stderr.partition("AssertionError")[2].split())


if __name__ == "__main__":
    sys.exit(main())

"""Each command, and a party's process before it joins, loads no more than it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade_core.lazy_scipy import __all__ as special
from masquerade_core.privacy.numbers import erfcinv, mills, phi
from masquerade_core.study_files import load_study
from masquerade_host.store.budget import give_budget
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from masquerade_party import approve
from tests.host_helpers import free_port

LARGE = {
    *("dask", "distributed", "duckdb", "joblib", "matplotlib", "numpy.f2py", "numpy.testing", "pandas"),
    *("polars", "pyarrow", "scipy.integrate", "scipy.linalg", "scipy.optimize", "scipy.sparse"),
    *("scipy.special", "scipy.stats", "sklearn", "unittest"),
}
"""Modules that take much memory or time. None of the commands below needs one of them."""

MEBIBYTES = 80
"""The memory of a party's process before it reads records, as the issue of start-up and footprint allows it."""

_RUN = """
import atexit, json, runpy, sys

atexit.register(lambda: print("MODULES", json.dumps(sorted(sys.modules)), file=sys.stderr))
sys.argv = ["masquerade", *json.loads(sys.argv[1])]
runpy.run_module("masquerade", run_name="__main__")
"""


@cache
def loaded(*words: object) -> frozenset[str]:
    """The modules that a process of a command has loaded when it ends; each command is run once."""
    paths = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)  # noqa: PTH100
    done = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps(list(map(str, words)))],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("MODULES "))
    return frozenset(json.loads(line.removeprefix("MODULES ")))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys and a study of dp-whitened, whose noise follows from special functions."""
    folder = tmp_path_factory.mktemp("footprint")
    keys = {name: make_keys(folder / f"{name}.key").public for name in ("a", "b", "charlie")}
    given = ["--party", f"a={keys['a']}", "--party", f"b={keys['b']}", "--curator-key", str(keys["charlie"])]
    given += ["--address", f"tcp://127.0.0.1:{free_port()}", "--feature", "age:0:120", "--label", "ill:yes"]
    loaded("study", "new", "--output", folder / "study.toml", "--name", "x", "--min-records", 2, "--epsilon", 1, *given)
    (folder / "site.toml").write_text('key = "a.key"\n[data.patients]\nrecords = "records.csv"\n')
    return folder


@pytest.mark.parametrize(
    ("words", "besides"),
    [
        (["--help"], {"rich", "numpy", "nacl", "masquerade_core.study", "masquerade_protocols"}),
        (["keys", "show", "a.key"], {"numpy", "zmq", "sqlite3", "masquerade_core.study", "masquerade_protocols"}),
        (["keys", "show", "a.key"], {"rich.progress", "masquerade.cli.demo"}),
        (["site", "status", "--folder", "."], {"zmq", "nacl", "masquerade_protocols", "masquerade_host.store.ledger"}),
        (["study", "show", "study.toml"], {"zmq"}),
        (["study", "check", "study.toml"], {"zmq"}),
        (["statement", "study.toml"], {"zmq"}),
        (["party", "--help"], {"rich", "zmq", "masquerade.cli.demo", "masquerade_protocols"}),
    ],
)
def test_a_command_loads_what_it_needs_and_no_more(
    place: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], besides: set[str]
) -> None:
    monkeypatch.chdir(place)
    modules = loaded(*words)
    assert modules & (LARGE | besides) == set()
    if words != ["--help"]:  # which lists the commands of the laboratory too
        assert _laboratory(modules) == set()


@pytest.mark.parametrize("command", ["party", "curator", "predict", "simulate", "reproduce", "audit"])
def test_the_laboratory_is_loaded_by_its_own_commands_alone(command: str) -> None:
    assert bool(_laboratory(loaded(command, "--help"))) is (command in {"reproduce", "audit"})


_REFUSED = """
import sys
from masquerade_core.privacy.numbers import erfcinv, mills, phi
from masquerade_core.study_files import load_study
from masquerade_core.errors import BadInput
from masquerade_protocols import entry_named, protocol_of

study, _ = load_study(sys.argv[1], in_memory=True)
try:
    protocol_of(study)
except BadInput as error:
    print("a baseline has no conversation" in str(error), "masquerade_lab" in sys.modules)
entry_named(study.study.protocol)
print("masquerade_lab" in sys.modules)
"""


def test_a_process_of_a_run_refuses_a_baseline_before_it_loads_one(place: Path) -> None:
    study = place / "baseline.toml"
    study.write_text((place / "study.toml").read_text().replace('protocol = "dp-whitened"', 'protocol = "pooled"'))
    done = subprocess.run([sys.executable, "-c", _REFUSED, str(study)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "True"]


@pytest.mark.parametrize("program", ["masquerade", "masquerade_party", "masquerade_curator"])
def test_no_plugin_of_pydantic_is_loaded(place: Path, tmp_path: Path, program: str) -> None:
    """Such a plugin is code of another distribution. pydantic loads it with the first model that is declared."""
    (tmp_path / "spy.py").write_text("import pathlib\n\npathlib.Path(__file__).with_name('loaded').touch()\n")
    metadata = tmp_path / "spy-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: spy\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[pydantic]\nspy = spy\n")
    paths = os.pathsep.join((str(tmp_path), *(os.path.abspath(p) for p in sys.path if p)))  # noqa: PTH100
    words = ["study", "check", str(place / "study.toml")] if program == "masquerade" else ["--help"]
    subprocess.run(
        [sys.executable, "-m", program, *words],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        capture_output=True,
    )
    assert not (tmp_path / "loaded").exists()


def _laboratory(modules: AbstractSet[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0] == "masquerade_lab"}


# --- scipy ------------------------------------------------------------------------------


def test_every_late_function_is_scipys() -> None:
    import scipy.linalg
    import scipy.optimize
    import scipy.special

    from masquerade_core import lazy_scipy as ours

    values_and_vectors = [eigh(np.diag([3.0, 1.0])) for eigh in (ours.eigh, scipy.linalg.eigh)]
    np.testing.assert_array_equal(values_and_vectors[0][1], values_and_vectors[1][1])
    least = [minimize(lambda x: (x[0] - 1) ** 2, [0.0]).x for minimize in (ours.minimize, scipy.optimize.minimize)]
    assert least[0] == least[1]
    values: dict[str, tuple[Any, ...]] = {"betainc": (0.5, 0.5, 0.3), "chdtri": (3, 0.1), "gammainc": (2.0, 1.0)}
    values |= {"gammainccinv": (2.0, 0.1), "logsumexp": ([1.0, 2.0],), "softmax": ([1.0, 1.0],)}
    for name in set(special) - {"eigh", "minimize"}:
        given = values.get(name, (0.4,))
        assert list(map(str, [getattr(ours, name)(*given)])) == [str(getattr(scipy.special, name)(*given))], name


def test_tails_of_the_normal_distribution_are_scipys() -> None:
    import scipy.special

    xs = np.concatenate([np.linspace(0, 40, 400), np.geomspace(1e-8, 1e9, 400)])
    scale = np.sqrt(np.pi / 2)
    np.testing.assert_allclose([mills(x) for x in xs], scale * scipy.special.erfcx(xs / np.sqrt(2)), rtol=2e-15)
    both = np.concatenate([xs, -xs[xs < 10]])
    np.testing.assert_allclose([phi(x) for x in both], scipy.special.ndtr(both), rtol=1e-13)
    ys = np.geomspace(1e-299, 0.99, 300)
    np.testing.assert_allclose([erfcinv(y) for y in ys], scipy.special.erfcinv(ys), rtol=1e-3)
    assert erfcinv(1.5) == 0.0


# --- A party's process ----------------------------------------------------------------------

_READY = """
import json, os, runpy, sys
from masquerade_host.process.progress import Progress

tell = Progress.__call__

def told(self, event, /, **fields):
    if event == "connecting":
        most = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
        print("READY", json.dumps([int(most) / 1024, sorted(sys.modules)]), file=sys.stderr, flush=True)
        os._exit(0)
    tell(self, event, **fields)

Progress.__call__ = told
sys.argv = ["masquerade_party", *json.loads(sys.argv[1])]
runpy.run_module("masquerade_party", run_name="__main__")
"""


def test_a_party_that_is_ready_to_join_takes_at_most_eighty_mebibytes(place: Path) -> None:
    """It is asked where the process says that it connects to Charlie: keys, ledger, journal and sockets are open."""
    (place / "records.csv").write_text("age,ill\n31,no\n62,yes\n70,yes\n24,no\n")
    state = StateFolder(place / "state").made()
    give_budget(state, DEFAULT_POPULATION, 10.0, 1e-3, by="a test").close()
    study = place / "study.toml"
    given = {"key_path": place / "a.key", "data_path": place / "records.csv", "state": state.root}
    approve(study, **given, by="a test", fingerprint=load_study(study)[0].fingerprint(), tell=lambda _: None)  # type: ignore[arg-type]
    words = [study, "--key", place / "a.key", "--data", place / "records.csv", "--state", state.root, "--approved"]
    paths = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)  # noqa: PTH100
    done = subprocess.run(
        [sys.executable, "-c", _READY, json.dumps([*map(str, words), "--out", str(place / "out")])],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("READY "))
    memory, modules = json.loads(line.removeprefix("READY "))
    assert set(modules) & LARGE == set()
    assert _laboratory(set(modules)) == set()
    assert memory <= MEBIBYTES

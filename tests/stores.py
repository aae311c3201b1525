"""A run between processes, with copies of everybody's state folder: before its end, and after it.

The copies are made while the processes stand still (:mod:`tests.forked`). A journal holds the result of each draw by
its label, so a test can read from the copy which noise the run had. It then computes the model again, in the clear.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Dataset
from masquerade_core.saved_model import model_from_json
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_core.wire.codec import unpack_plain
from masquerade_host.store.keyfiles import Keys
from masquerade_host.store.new_keys import make_keys
from masquerade_protocols.registry import entry_named
from tests.forked import Forked, Nursery
from tests.host_helpers import free_port
from tests.processes import Machines

__all__ = ["Case", "Ran", "run_case"]

Array = NDArray[np.float64]
_POINTS = "points.csv"


@dataclass(frozen=True)
class Case:
    """A study to run between processes.

    Parameters
    ----------
    name : str
        What is special about it.
    protocol, calibration : str
    section : str
        Of ``[protocol]``.
    sizes : tuple of int
        Everybody's number of records.
    features : int
        Columns of numbers, each a coordinate: there is no intercept.
    key_bits : int
        Of Paillier keys, the lead's and Charlie's; 0 adds up under masks, which is quicker.
    points : int
        Auxiliary records; 0 where the protocol has none.
    classes : int
        Named classes; 0 for a label that is positive or not.
    levels : int
        Levels of one more feature, each a coordinate: a study of many columns takes long to read.
    empty : bool
        Whether all numbers are 0: without levels, all gradients are then 0, and only noise moves a classifier.
    sections : str
        Further sections of the study.
    leaves : str
        The label of a draw: the last party leaves the run when it has written that draw down. Empty: it stays.
    spread : float
        How far chance moves the score that a label follows.
    """

    name: str
    protocol: str
    calibration: str
    section: str = ""
    sizes: tuple[int, ...] = (40, 25, 60)
    features: int = 6
    levels: int = 0
    epsilon: float = 1.0
    delta: float = 1e-5
    Lambda: float = 0.1
    loss: str = "logistic"
    key_bits: int = 0
    points: int = 0
    classes: int = 0
    empty: bool = False
    min_records: int = 10
    colluders: int = 0
    sections: str = ""
    leaves: str = ""
    spread: float = 0.2

    def __str__(self) -> str:
        return f"{self.protocol} {self.calibration}: {self.name}"

    def text(self, keys: Mapping[str, Keys], port: int, digest: str = "") -> str:
        """Return the study."""
        names = [name for name in keys if name != CHARLIE]
        crypto = f"key_bits = {self.key_bits}" if self.key_bits else 'sum = "masks"'
        label = f"classes = {[str(c) for c in range(self.classes)]}" if self.classes else 'positive = "1"'
        auxiliary = f'[protocol.auxiliary]\nfile = "{_POINTS}"\nsha256 = "{digest}"\nrecords = {self.points}\n'
        lines = [
            f'[study]\nname = "oracle"\nprotocol = "{self.protocol}"\nmin_parties = {len(names)}',
            'lead = "p1"' if self.key_bits else "",
            f'min_records = {self.min_records}\ndeadline_seconds = 120.0\nnonce = "0123456789abcdef"',
            f'[privacy]\nepsilon = {self.epsilon}\ndelta = {self.delta}\ncalibration = "{self.calibration}"',
            f"colluders = {self.colluders}",
            f'[model]\nregularization = {self.Lambda}\nintercept = false\nloss = "{self.loss}"',
            f"[crypto]\n{crypto}\n[protocol]\n{self.section}\n{auxiliary if self.points else ''}",
            self.sections,
            f'[label]\nname = "y"\n{label}',
            f'[curator]\naddress = "tcp://127.0.0.1:{port}"\nkey = "{keys[CHARLIE].public}"',
            *(f'[[feature]]\nname = "x{i}"\nmin = -1.0\nmax = 1.0' for i in range(self.features)),
            f'[[feature]]\nname = "g"\nlevels = {[str(level) for level in range(self.levels)]}' if self.levels else "",
            *(f'[[party]]\nname = "{name}"\nkey = "{keys[name].public}"' for name in names),
        ]
        return "\n".join(lines) + "\n"

    def rows(self, n: int, rng: np.random.Generator) -> str:
        """Return records as a file has them; labels follow a linear score, so that there is something to learn."""
        X = np.clip(rng.normal(size=(n, self.features)) / np.sqrt(self.features), -1, 1)
        X = np.zeros_like(X) if self.empty else X
        scores = X @ np.random.default_rng(7).normal(size=(self.features, max(self.classes, 2)))
        y = (scores + self.spread * rng.normal(size=scores.shape)).argmax(axis=1)
        y[: scores.shape[1]] = np.arange(scores.shape[1])  # every class occurs
        columns = [[f"{v:.6f}" for v in column] for column in X.T]
        head = [f"x{i}" for i in range(self.features)]
        if self.levels:
            head, columns = [*head, "g"], [*columns, [str(v) for v in rng.integers(self.levels, size=n)]]
        lines = [",".join(row) for row in zip(*columns, [str(v) for v in y.tolist()], strict=True)]
        return "\n".join([",".join([*head, "y"]), *lines]) + "\n"


@dataclass
class Ran:
    """A run that has ended: what was released, what everybody had, and what the stores held before their end."""

    case: Case
    study: Study
    data: Mapping[str, Dataset]
    auxiliary: Auxiliary | None
    model: Mapping[str, Any]
    result: Mapping[str, Any]
    files: Path
    before: Path
    after: Path
    held: Mapping[str, Dataset] = field(default_factory=dict)
    _draws: dict[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def weights(self) -> Array:
        """The released weights, as Dave reads them."""
        return np.array(model_from_json(self.model).weights)

    @cached_property
    def offset(self) -> Array:
        """The number added to a score."""
        return np.array(model_from_json(self.model).offset)

    @property
    def names(self) -> tuple[str, ...]:
        """The parties."""
        return self.study.names

    @cached_property
    def pooled(self) -> tuple[Array, Array]:
        """Everybody's records together."""
        X = np.vstack([self.data[name].X for name in self.names])
        return X, np.concatenate([self.data[name].y for name in self.names])

    @cached_property
    def n(self) -> Array:
        """Everybody's number of records."""
        return np.array([len(self.data[name].y) for name in self.names], dtype=np.float64)

    def rows(self, name: str) -> dict[str, bytes]:
        """Return what a participant's journal held before its end: packed results of draws by their labels."""
        (path,) = (self.before / name).rglob("journal.sqlite")
        with sqlite3.connect(path) as database:
            found = database.execute("SELECT label, data FROM rows WHERE kind = 'once'").fetchall()
        database.close()
        return dict(found)

    def drawn(self, name: str, label: str) -> Any:
        """Return what a participant drew under this label."""
        if name not in self._draws:
            self._draws[name] = {key: unpack_plain(data) for key, data in self.rows(name).items()}
        assert label in self._draws[name], f"{name} has drawn no {label!r}, but {sorted(self._draws[name])}"
        return self._draws[name][label]

    def by_party(self, label: str, unit: float = 1.0) -> Array:
        """Return what each party drew under this label, as an array with one row for each, divided by ``unit``."""
        drawn = [self.drawn(name, label) for name in self.names]
        rows = [np.frombuffer(x, dtype="<i8") if isinstance(x, bytes) else np.array(x, dtype=object) for x in drawn]
        return np.array([row / unit for row in rows]).astype(np.float64)


def run_case(
    case: Case, folder: Path, nursery: Nursery, *, stop: Mapping[str, str] | None = None, seed: int = 0
) -> Ran:
    """Run a study between processes to its end, and keep copies of everybody's state folder.

    Parameters
    ----------
    case : Case
    folder : Path
        Everything is made here.
    nursery : Nursery
    stop : mapping of str to str, optional
        A party and the label of a draw: from outside, the test stops this party's process when it has written that
        draw down, and then all others. By default each process stops by itself at its end.
    seed : int
        Of the records.
    """
    names = [f"p{j}" for j in range(1, len(case.sizes) + 1)]
    keys = {name: make_keys(folder / "keys" / f"{name}.key") for name in (*names, CHARLIE)}
    rng = np.random.default_rng(seed)
    for name, n in zip(names, case.sizes, strict=True):
        (folder / f"{name}.csv").write_text(case.rows(n, rng), encoding="utf-8")
    digest = ""
    if case.points:
        lines = [line.rpartition(",")[0] for line in case.rows(case.points, rng).splitlines()]
        (folder / _POINTS).write_text("\n".join(lines) + "\n", encoding="utf-8")
        digest = sha256((folder / _POINTS).read_bytes()).hexdigest()
    path = folder / "study.toml"
    path.write_text(case.text(keys, free_port(), digest), encoding="utf-8")
    study, auxiliary = load_study(path)
    machines = Machines(folder, study, keys)
    running = {name: _started(machines, name, nursery, stands=stop is None) for name in (CHARLIE, *names)}
    if case.leaves:
        gone = running.pop(names[-1])
        _stop_at(gone, folder / "state", case.leaves)
        shutil.copytree(folder / "state" / gone.name, folder / "before" / gone.name)
        gone.interrupt()
        assert gone.end() != 0, gone.said()
    if stop is None:
        for process in (*list(running.values())[1:], running[CHARLIE]):
            process.until("T")  # if a party fails, it says why; Charlie would only say that he waits
    else:
        _stop_in_the_middle(running, folder / "state", stop)
    for name in running:
        shutil.copytree(folder / "state" / name, folder / "before" / name)
    for process in running.values():
        process.go_on()
    for process in running.values():
        assert process.end() == 0, f"{process.name}: {process.said()}"
    model, *others = (
        [(machines.out(name) / "model.json").read_bytes() for name in running] if _has_model(case) else [b""]
    )
    assert all(other == model for other in others)
    result = json.loads((machines.out(CHARLIE) / "result.json").read_text(encoding="utf-8"))
    coding = entry_named(case.protocol).records.coding
    read = names if _has_model(case) else []
    data = {name: load_csv(folder / f"{name}.csv", study, coding=coding) for name in read}
    released = json.loads(model) if model else {}
    data, held = _sides(study, data)
    return Ran(case, study, data, auxiliary, released, result, folder, folder / "before", folder / "state", held)


def _sides(study: Study, data: Mapping[str, Dataset]) -> tuple[dict[str, Dataset], dict[str, Dataset]]:
    """Return what is learned from, and what is held back: row i where i share passes a whole number."""
    if study.evaluation is None:
        return dict(data), {}
    share = Fraction(str(study.evaluation.share))
    sides: tuple[dict[str, Dataset], dict[str, Dataset]] = ({}, {})
    for name, all_ in data.items():
        back = np.array([int((i + 1) * share) > int(i * share) for i in range(len(all_.y))])
        for side, rows in zip(sides, (~back, back), strict=True):
            side[name] = Dataset(all_.X[rows], all_.y[rows], all_.classes)
    return sides


def _has_model(case: Case) -> bool:
    return case.protocol != "summary"


def _started(machines: Machines, name: str, nursery: Nursery, *, stands: bool) -> Forked:
    folder = machines.folder
    arguments = [str(folder / "study.toml"), "--key", str(folder / "keys" / f"{name}.key")]
    arguments += ["--out", str(machines.out(name)), "--state", str(machines.state(name)), "--progress", "json"]
    if name != CHARLIE:
        machines.approve(name)
        arguments += ["--data", str(folder / f"{name}.csv"), "--approved"]
    return nursery.start(name, folder, arguments, stands=stands)


def _stop_in_the_middle(running: Mapping[str, Forked], states: Path, stop: Mapping[str, str]) -> None:
    """Stop processes once a party has written down a draw, whose label then stands in a file of its state folder."""
    for name, label in stop.items():
        _stop_at(running[name], states, label)
    for process in running.values():
        if process.state != "T":
            process.stop()


def _bytes_of(path: Path) -> bytes:
    """Read a file that SQLite may have removed since it was listed."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _stop_at(process: Forked, states: Path, label: str) -> None:
    """Stop a process once it has written down a draw."""
    while not any(label.encode() in _bytes_of(path) for path in (states / process.name).rglob("journal.sqlite*")):
        assert not process.ended, process.said()
        time.sleep(0.002)
    process.stop()

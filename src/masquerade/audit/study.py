"""An audit of somebody's own study: it runs the whole protocol, with made-up records.

The study's protocol runs hundreds of times in memory with the study's parameters, encryption included. All records are
made up, so nobody's privacy is spent. The adversary sees the released model alone, and a few hundred runs show little.
So this audit finds noise that is missing or far too small, somewhere between the study's file and the released model.
It finds no more than that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from masquerade.audit.bounds import epsilon_bound, largest_bound
from masquerade.audit.canary import FLAT, flat, others
from masquerade.simulation import simulate
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_protocols import BASELINES, entry_of, protocol_of

__all__ = ["ERROR", "StudyFinding", "audit_study"]

ERROR = 0.01
"""The bound holds at 99 %: a study that just meets its privacy target is blamed once in a hundred times at most."""

_KEY_BITS = (512, 768, 1024)  # keys hide nothing here, where one process runs all roles
_RIDGE = 0.1

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class StudyFinding:
    """What the runs of a study showed.

    Parameters
    ----------
    study : Study
    unit, canary : str
        What differs between the two data sets.
    proved : float or None
        The epsilon that the study's statement proves against whoever sees the released model.
    runs, seed : int
        Runs of each data set; what all randomness follows from.
    key_bits : int
        The length of the keys that were used.
    bound, most : float
        The lower bound on epsilon; the largest bound that so many runs could have shown.
    """

    study: Study
    unit: str
    canary: str
    proved: float | None
    runs: int
    seed: int
    key_bits: int
    bound: float
    most: float

    @property
    def exceeded(self) -> bool:
        """Whether the bound refutes the study's privacy target."""
        return self.bound > self.study.privacy.epsilon

    def to_json(self) -> dict[str, object]:
        """Return the fields of this finding."""
        privacy = self.study.privacy
        return {
            "study": self.study.study.name,
            "protocol": self.study.study.protocol,
            "calibration": privacy.calibration,
            "view": "released model",
            "unit": self.unit,
            "canary": self.canary,
            "epsilon": privacy.epsilon,
            "delta": privacy.delta,
            "proved": self.proved,
            "runs": self.runs,
            "seed": self.seed,
            "key_bits": self.key_bits,
            "error": ERROR,
            "bound": self.bound,
            "largest_bound": self.most,
            "exceeded": self.exceeded,
        }


def audit_study(
    study: Study,
    *,
    auxiliary: Auxiliary | None = None,
    runs: int = 400,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> StudyFinding:
    """Return a lower bound on the epsilon of a study's released model, from runs with made-up records.

    Parameters
    ----------
    study : Study
    auxiliary : Auxiliary, optional
        The public records that the study names, where it names any.
    runs : int
        Runs of each data set.
    seed : int
    progress : callable
        Called with (runs done, runs in all).

    Raises
    ------
    BadInput
        The study cannot be run, or so few runs cannot refute its privacy target.
    """
    privacy = study.privacy
    if not entry_of(study).makes_model:
        raise BadInput(
            f"{study.study.protocol} makes no model, and this audit looks at released models",
            f"run the audits of the protocol itself: masquerade audit --protocol {study.study.protocol}",
        )
    most = largest_bound(runs, privacy.delta, ERROR)
    if most <= privacy.epsilon:
        raise BadInput(
            f"{runs} runs of each data set can show at most epsilon = {most:.2f}, but the study's privacy target is "
            f"epsilon = {privacy.epsilon:g}, so they cannot refute it",
            "choose a larger --runs; the number of runs that is needed grows as exp(epsilon)",
        )
    small = _small_keys(study)
    row = _statement(small)
    whole = row is not None and row.unit == "party"
    pair = [_data(small, whole=whole, moved=moved) for moved in (False, True)]
    released: tuple[list[_Array], list[_Array]] = ([], [])
    for run in range(runs):
        progress(2 * run, 2 * runs)
        for moved, data in enumerate(pair):
            simulation = simulate(small, data, seed=(seed << 32) + 2 * run + moved, auxiliary=auxiliary)
            released[moved].append(np.array(simulation.model.weights))
    zeros, ones = (np.array(models) for models in released)
    direction = _direction(zeros[: runs // 2], ones[: runs // 2])
    return StudyFinding(
        study,
        "party" if whole else "record",
        "all labels of a party, reversed" if whole else FLAT,
        None if row is None else row.epsilon,
        runs,
        seed,
        small.key_bits,
        epsilon_bound(zeros @ direction, ones @ direction, privacy.delta, ERROR),
        most,
    )


def _small_keys(study: Study) -> Study:
    """Return the study with the shortest keys that are long enough for its numbers."""
    for bits in _KEY_BITS:
        if bits >= study.key_bits:
            break
        small = study.model_copy(update={"crypto": study.crypto.model_copy(update={"key_bits": bits})})
        try:
            _statement(small)
        except BadInput:  # too short, or refused for another reason, which the study's own keys will show
            continue
        return small
    return study


def _statement(study: Study) -> Claim | None:
    """Return the statement's first row about the released model; None where there is none.

    Raises
    ------
    BadInput
        The study cannot be run.
    """
    baseline = study.study.protocol in BASELINES
    rows = entry_of(study).statement(study) if baseline else protocol_of(study).statement(study)
    return next((row for row in rows if row.view.startswith("released model")), None)


def _data(study: Study, *, whole: bool, moved: bool) -> Mapping[str, Dataset]:
    """Return everybody's made-up records; the last party holds the canary, or is the canary as a whole."""
    n, d, canary = study.study.min_records, study.d, study.names[-1]
    data = {}
    for k, name in enumerate(study.names):
        if name == canary and not whole:
            records = flat(n, d, moved=moved)
            X, y = records.X, records.y
        else:
            X, y = others(n, d, seed=k + 1)
            turned = moved if name == canary else k % 2 == 1
            y = -y if whole and turned else y
        data[name] = Dataset.from_unit_ball(X, _classes(y, study), study.classes)
    return data


def _classes(y: _Array, study: Study) -> _Array:
    """Turn labels -1 and +1 into the first two classes, and give each other class one record."""
    if study.classes is None:
        return y
    indices = (y < 0).astype(np.float64)
    indices[: study.classes - 2] = np.arange(2, study.classes)
    return indices


def _direction(zeros: _Array, ones: _Array) -> _Array:
    """Return Fisher's discriminant, with a ridge, since few runs say little of a covariance."""
    centred = np.concatenate([zeros - zeros.mean(axis=0), ones - ones.mean(axis=0)])
    spread = centred.T @ centred / len(centred)
    spread += (_RIDGE * np.trace(spread) / len(spread) + 1e-300) * np.eye(len(spread))
    found: _Array = np.linalg.solve(spread, ones.mean(axis=0) - zeros.mean(axis=0))
    return found

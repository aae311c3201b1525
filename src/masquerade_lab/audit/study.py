"""An audit of somebody's own study: it runs the whole protocol, with made-up records.

The study's protocol runs hundreds of times in memory with the study's parameters, encryption included. All records are
made up, so nobody's privacy is spent. The adversary sees the released model alone, and a few hundred runs show little.
So this audit finds noise that is missing or far too small, somewhere between the study's file and the released model.

It says how far too small: the study runs again with half of its noise, and with less, until the bound exceeds the
privacy target. If half of the noise does not exceed it, the audit has no power, and the study's own bound says little.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from masquerade.sweeps import simulate_many
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study
from masquerade_lab.audit.audit import CONTROL
from masquerade_lab.audit.bounds import epsilon_bound, largest_bound
from masquerade_lab.audit.canary import FLAT
from masquerade_lab.audit.less_noise import less_noise
from masquerade_lab.audit.made_up import made_up
from masquerade_lab.audit.power import MOST_RUNS, enough_runs, fraction, least_separation
from masquerade_protocols import BASELINES, entry_of, protocol_of

__all__ = ["ERROR", "RUNGS", "StudyFinding", "audit_study", "check_runs", "runs_enough"]

ERROR = 0.01
"""The bound holds at 99 %: a study that just meets its privacy target is blamed once in a hundred times at most."""

RUNGS = tuple(Fraction(1, 2**k) for k in range(2, 8))
"""Fractions of the noise that are tried in turn where half of it shows nothing."""

_KEY_BITS = (512, 768, 1024)  # keys hide nothing here, where one process runs all roles
_RIDGE = 0.1
_FEWER, _FEWEST = 4, 60  # a rung has a quarter of the runs, and at least 60
_TRIES, _LOWER = 4, Fraction(3, 4)  # how often an estimate is lowered until runs confirm it, and to what
_PARTS = 1000

_Array = NDArray[np.float64]
_Pair = tuple[_Array, _Array]
Progress = Callable[[int, int, str], None]
"""(runs done, runs in all as far as is known, how much noise the next runs have)."""


@dataclass(frozen=True)
class StudyFinding:
    """The result of a study's runs.

    Parameters
    ----------
    study : Study
    unit, canary : str
        What differs between the two data sets.
    proved : float or None
        The epsilon that the study's statement proves against an observer of the released model.
    runs, seed : int
        Runs of each data set; what all randomness follows from.
    key_bits : int
        The length of the keys that were used.
    bound, most : float
        The lower bound on epsilon; the largest bound that so many runs could have shown.
    control : float or None
        The bound with half of the noise; None where the bound exceeds epsilon already, or no noise could be halved.
    noticed : float
        The fraction of the noise with which as many runs exceeded epsilon; 0 where none of those that were tried did.
    enough : int or None
        Runs of each data set with which half of the noise is noticed, if the canary moves the model as far as a proof
        allows; None if there would have to be more than anybody makes.
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
    control: float | None
    noticed: float
    enough: int | None

    @property
    def exceeded(self) -> bool:
        """Whether the bound refutes the study's privacy target."""
        return self.bound > self.study.privacy.epsilon

    @property
    def power(self) -> bool:
        """Whether the audit exceeds the privacy target with half of the noise."""
        return self.exceeded or (self.control is not None and self.control > self.study.privacy.epsilon)

    @property
    def verdict(self) -> str:
        """The outcome in a word or two."""
        return "exceeded" if self.exceeded else "not exceeded" if self.power else "no power"

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
            "control_noise": None if self.control is None else str(CONTROL),
            "control": self.control,
            "noticed": self.noticed,
            "enough_runs": self.enough,
            "exceeded": self.exceeded,
            "verdict": self.verdict,
        }


def runs_enough(study: Study) -> int | None:
    """Return how many runs of each data set notice half of the noise, if a canary is as good as a proof allows.

    The noise is taken to keep the study's privacy target exactly. No audit of that study needs fewer runs than its best
    canary does; None if that is more than anybody makes.
    """
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    if delta == 0:
        return enough_runs(epsilon / float(CONTROL), epsilon, delta, ERROR, pure=True)
    return enough_runs(mu_of(epsilon, delta) / float(CONTROL), epsilon, delta, ERROR)


@dataclass
class _Runs:
    """Runs of a study, counted for a progress line; ``noisy`` says whether the last ones drew any noise."""

    study: Study
    pair: tuple[Mapping[str, Dataset], Mapping[str, Dataset]]
    seed: int
    auxiliary: Auxiliary | None
    progress: Progress
    planned: int
    done: int = 0
    noisy: bool = True

    def scores(self, runs: int, factor: Fraction) -> _Pair:
        """Run the study with less noise, and combine each model's weights as the first half of the runs suggests."""
        self.planned = max(self.planned, self.done + 2 * runs)
        released: tuple[list[_Array], list[_Array]] = ([], [])
        label = "all of the noise" if factor == 1 else f"noise x {float(factor):.3g}"
        first = ((self.seed << 32) + int(factor * _PARTS)) << 32
        with less_noise(factor) as drawn:
            pair = [
                simulate_many(self.study, data, range(first + moved, first + 2 * runs, 2), auxiliary=self.auxiliary)
                for moved, data in enumerate(self.pair)
            ]
            for simulations in zip(*pair, strict=True):
                self.progress(self.done, self.planned, label)
                for moved, simulation in enumerate(simulations):
                    released[moved].append(np.array(simulation.model.weights))
                    self.done += 1
        zeros, ones = (np.array(models) for models in released)
        direction = _direction(zeros[: runs // 2], ones[: runs // 2])
        self.noisy = drawn.calls > 0
        return zeros @ direction, ones @ direction


def audit_study(
    study: Study,
    *,
    auxiliary: Auxiliary | None = None,
    runs: int = 400,
    seed: int = 0,
    progress: Progress = lambda *_: None,
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
        Called before each run; see :data:`Progress`.

    Raises
    ------
    BadInput
        The study cannot be run, or so few runs cannot refute its privacy target.
    """
    check_runs(study, runs)
    privacy = study.privacy
    small = _small_keys(study)
    row = _statement(small)
    party = row is not None and row.unit == "party"
    pair = made_up(small, whole=party, moved=False), made_up(small, whole=party, moved=True)
    table = _Runs(small, pair, seed, auxiliary, progress, 6 * runs)

    def bound(scores: _Pair) -> float:
        return epsilon_bound(*scores, privacy.delta, ERROR)

    found = bound(whole := table.scores(runs, Fraction(1)))
    control, noticed = (None, 1.0) if found > privacy.epsilon else _with_less(table, runs, whole, bound)
    return StudyFinding(
        study,
        "party" if party else "record",
        "all labels of a party, reversed" if party else FLAT,
        None if row is None else row.epsilon,
        runs,
        seed,
        small.key_bits,
        found,
        largest_bound(runs, privacy.delta, ERROR),
        control,
        noticed,
        runs_enough(study),
    )


def check_runs(study: Study, runs: int) -> None:
    """Refuse an audit that could show nothing.

    Raises
    ------
    BadInput
        The study makes no model, or so few runs cannot refute its privacy target.
    """
    privacy = study.privacy
    if not entry_of(study).makes_model:
        raise BadInput(
            f"{study.study.protocol} makes no model, and this audit looks at released models",
            f"run the audits of the protocol itself: masquerade audit --protocol {study.study.protocol}",
        )
    most = largest_bound(runs, privacy.delta, ERROR)
    if most <= privacy.epsilon:
        fewest = _fewest(privacy.epsilon, privacy.delta)
        raise BadInput(
            f"{runs} runs of each data set can show at most epsilon = {most:.2f}, but the study's privacy target is "
            f"epsilon = {privacy.epsilon:g}, so they cannot refute it",
            f"choose --runs {fewest} or more"
            if fewest
            else f"no --runs up to {MOST_RUNS:,} is enough: so large an epsilon cannot be audited",
        )


def _fewest(epsilon: float, delta: float) -> int | None:
    """Return the fewest runs that can show more than epsilon, to the next ten; None if ``MOST_RUNS`` cannot."""
    low, high = 0, MOST_RUNS // 10
    if largest_bound(10 * high, delta, ERROR) <= epsilon:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if largest_bound(10 * middle, delta, ERROR) > epsilon else (middle, high)
    return 10 * high


def _with_less(table: _Runs, runs: int, whole: _Pair, bound: Callable[[_Pair], float]) -> tuple[float | None, float]:
    """Return the bound with half of the noise, and the fraction of the noise that as many runs notice.

    The separation of the two data sets, measured with less and less noise, says where to look for that fraction.
    """
    if not table.noisy:
        return None, 0.0
    privacy = table.study.privacy
    half = table.scores(runs, CONTROL)
    control, needed = bound(half), least_separation(runs, privacy.epsilon, privacy.delta, ERROR)
    (more, far), (less, near) = (Fraction(1), _apart(whole)), (CONTROL, _apart(half))
    for rung in RUNGS:
        if near >= needed or math.isinf(needed):
            break
        more, far = less, near
        less, near = rung, _apart(table.scores(max(_FEWEST, runs // _FEWER), rung))
    if near >= needed:
        x = max(less, Fraction(math.floor(_PARTS * fraction(near, far, needed, (float(more), float(less)))), _PARTS))
        for _ in range(_TRIES):
            if bound(table.scores(runs, x)) > privacy.epsilon:
                return control, float(x)
            x *= _LOWER
    return control, float(CONTROL) if control > privacy.epsilon else 0.0


def _apart(scores: _Pair) -> float:
    """Return how many standard deviations the two data sets' scores lie apart, in the runs that chose no direction."""
    zeros, ones = (x[len(x) // 2 :] for x in scores)
    spread = math.sqrt((zeros.var() + ones.var()) / 2)
    return float(abs(ones.mean() - zeros.mean()) / spread) if spread > 0 else math.inf


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


def _direction(zeros: _Array, ones: _Array) -> _Array:
    """Return Fisher's discriminant, with a ridge, since few runs say little of a covariance."""
    centred = np.concatenate([zeros - zeros.mean(axis=0), ones - ones.mean(axis=0)])
    spread = centred.T @ centred / len(centred)
    spread += (_RIDGE * np.trace(spread) / len(spread) + 1e-300) * np.eye(len(spread))
    found: _Array = np.linalg.solve(spread, ones.mean(axis=0) - zeros.mean(axis=0))
    return found

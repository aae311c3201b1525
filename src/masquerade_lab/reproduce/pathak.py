"""Pathak, Rane and Raj 2010, figure 2: local aggregation on Adult's records, for three splits among five parties.

The figure has no numbers, and its lambda = 1 is so large that the classifier without noise answers "no" to everybody.
At a smaller lambda the paper's sentences hold. The bands are those of another program of a few lines, for every point
of every curve. ``docs/reproduction/pathak-2010.md`` says which part of the figure can be met.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.shares import random_permutation
from masquerade_core.learning.erm import error_rate, fit, predict_labels
from masquerade_core.learning.losses import LOGISTIC, logistic_loss
from masquerade_core.learning.theorems import zeros_excess
from masquerade_core.privacy.noise.output_perturbation import paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.rng import Rng
from masquerade_core.simulation_rng import SimulationRng
from masquerade_lab.originals import a9a
from masquerade_lab.reproduce.engine.judging import judged, reference
from masquerade_lab.reproduce.engine.report import Measured, Panel, Report, Row, Series, mean_and_error, measured
from masquerade_lab.reproduce.engine.tasks import RunTasks, Task, joined
from masquerade_protocols.local_aggregation import theorems
from masquerade_protocols.local_aggregation.public import FRACTION_BITS

__all__ = [
    "CURVES",
    "EPSILON",
    "HALF",
    "PUBLISHED",
    "SPLITS",
    "Errors",
    "K",
    "Records",
    "Setting",
    "alone",
    "averages",
    "compared",
    "excesses",
    "figure_2",
    "mistaken",
    "noise",
    "run",
    "sizes",
    "stored",
    "tables",
    "w_star",
]

# --- Runs -----------------------------------------------------------------------------

K = 5
EVERYBODY = "w*"
SPLITS = {"even": None, "15%": Fraction(15, 100), "10%": Fraction(10, 100)}
"""The smallest party's fraction of all records; None where all parties have as many."""

_ROW_NORM = math.sqrt(14)  # Adult has 14 attributes, and a record at most one 1 for each

_Array = NDArray[np.float64]
Errors = dict[tuple[str, float], _Array]
"""By curve and epsilon, test errors of shape (partitions, draws)."""


@dataclass(frozen=True, repr=False)
class Records:
    """Training and test records with rows as in the file, 0 and 1."""

    X: _Array
    y: _Array
    X_test: _Array
    y_test: _Array

    def scaled(self, *, unit: bool) -> "Records":
        """Return rows in the unit ball, or as they are."""
        return Records(self.X / _ROW_NORM, self.y, self.X_test / _ROW_NORM, self.y_test) if unit else self

    def error(self, w: _Array) -> float:
        """Return the error rate on the test records."""
        return error_rate(self.X_test, self.y_test, w)

    def errors(self, w: _Array) -> _Array:
        """Return the error rates of classifiers that are columns; shape (R,)."""
        return np.asarray((predict_labels(self.X_test, w) != self.y_test[:, None]).mean(axis=0))


@dataclass(frozen=True)
class Setting:
    """The values that the curves of one table share.

    Parameters
    ----------
    lam : float
        The paper's lambda.
    unit : bool
        Whether rows lie in the unit ball, as the paper's theorems ask, or have norms up to sqrt 14.
    epsilons : tuple of float
        Rising.
    """

    lam: float
    unit: bool
    epsilons: tuple[float, ...]

    @property
    def strong_convexity(self) -> float:
        """Lambda, the coefficient of (1/2) ||w||^2."""
        return 2 * self.lam

    @property
    def name(self) -> str:
        """The name that the tables use."""
        return f"lambda = {self.lam:g}, {'unit' if self.unit else 'raw'} rows"


CURVES = {"w* + eta": EVERYBODY} | {split: split for split in SPLITS}
"""The classifier of each curve: that of all records, or a split's average. As for the noise, all records count as one
party's."""

HALF = "half of the noise"


def mistaken(curve: str, n: int, epsilon: float) -> dict[str, float]:
    """Return the noise of programs with a known mistake, as a multiple of a curve's own noise.

    Each mistake is in the noise's scale alone, and the law is the same.
    """
    found = {HALF: 0.5, "lambda for Lambda in the noise": 2.0, "1/eps for eps": epsilon**2}
    if curve in SPLITS:
        found["eta/K"] = 1 / K
    if SPLITS.get(curve) is not None:
        found["n/K for n_(1)"] = min(sizes(n, curve)) / (n // K)
    return found


def sizes(n: int, split: str) -> tuple[int, ...]:
    """Return how many records the five parties have: three a fifth each, one the smallest part, one the rest."""
    fifth, smallest = n // K, SPLITS[split]
    least = fifth if smallest is None else math.floor(n * smallest)
    return (fifth, fifth, fifth, least, n - 3 * fifth - least)


def w_star(records: Records, setting: Setting) -> _Array:
    """Train on everybody's records at once."""
    return fit(records.X, records.y, setting.strong_convexity)


def averages(records: Records, Lambda: float, seed: str) -> dict[str, _Array]:
    """Deal the records at random and average the parties' classifiers, for each split.

    Three parties have the same records in all splits, so the splits are compared on one partition.
    """
    n = len(records.y)
    order = np.array(random_permutation(SimulationRng(seed, "partition"), n))

    @cache
    def trained(a: int, b: int) -> _Array:
        return fit(records.X[order[a:b]], records.y[order[a:b]], Lambda)

    found = {}
    for split in SPLITS:
        ends = np.cumsum((0, *sizes(n, split))).tolist()
        found[split] = np.mean([trained(a, b) for a, b in pairwise(ends)], axis=0)
    return found


def noise(rng: Rng, curve: str, n: int, epsilon: float, Lambda: float, d: int) -> _Array:
    """Draw a curve's eta, of scale 2/(n_(1) epsilon lambda) for each coordinate.

    As in the protocol, P times eta is drawn at once for P parties, on the grid of 2^-F.
    """
    P, size = (1, n) if CURVES[curve] == EVERYBODY else (K, min(sizes(n, curve)))
    unit = Fraction(P << FRACTION_BITS)
    drawn = discrete_laplace(rng, unit * paper_scale(size, epsilon, Lambda), d)
    return np.array(drawn, dtype=np.float64) / float(unit)


@lru_cache(maxsize=1)
def stored(directory: Path) -> Records:
    """Read a9a and a9a.t, and keep them for the next task of this process."""
    return Records(*a9a(directory))


def run(
    source: Records | Path, setting: Setting, mistakes: Sequence[str], numbers: Sequence[int], draws: int, seed: int
) -> Errors:
    """Return the test errors of every curve at every epsilon, and of every split's average without noise.

    Parameters
    ----------
    source : Records or path
        Rows as in the file, or the directory that holds the files.
    mistakes : sequence of str
        Which of :func:`mistaken` to compute too. Their curves are named "CURVE: MISTAKE".
    numbers : sequence of int
        Which random partitions. Each has its own streams.
    draws : int
        Draws of the noise for each of them. Each draw is followed, after all others, by its mirror image, which has the
        same law: the two together scatter less than two draws.

    Returns
    -------
    dict of ndarray
        By curve and epsilon, errors of shape (partitions, 2 draws). Epsilon is inf where there is no noise, for which
        one classifier suffices.
    """
    records = (source if isinstance(source, Records) else stored(source)).scaled(unit=setting.unit)
    n, d = records.X.shape
    central = w_star(records, setting)
    collected: defaultdict[tuple[str, float], list[list[float]]] = defaultdict(list)
    for number in numbers:
        label = f"pathak-2010 {seed} {number}"
        w = averages(records, setting.strong_convexity, label) | {EVERYBODY: central}
        for name, trained in CURVES.items():
            collected[name, math.inf].append([records.error(w[trained])])
            rng = SimulationRng(label, f"{setting.name} {name}")
            for epsilon in setting.epsilons:
                drawn = [noise(rng, name, n, epsilon, setting.strong_convexity, d) for _ in range(draws)]
                etas = np.transpose([*drawn, *(-eta for eta in drawn)])
                known = mistaken(name, n, epsilon)
                scales = {name: 1.0} | {
                    f"{name}: {mistake}": known[mistake] for mistake in mistakes if mistake in known
                }
                noisy = np.hstack([w[trained][:, None] + scale * etas for scale in scales.values()])
                found = np.split(records.errors(noisy), len(scales))
                for one, values in zip(scales, found, strict=True):
                    collected[one, epsilon].append(values.tolist())
    return {key: np.array(values) for key, values in collected.items()}


def alone(source: Records | Path, setting: Setting) -> tuple[float, float, float, int]:
    """Return what w* does without noise.

    Returns
    -------
    tuple
        Its error; how many test records it answers with yes; the error of a wrong one, which takes the paper's lambda
        for Lambda; and the number of training records.
    """
    records = (source if isinstance(source, Records) else stored(source)).scaled(unit=setting.unit)
    w = w_star(records, setting)
    positive = float(np.sum(predict_labels(records.X_test, w) > 0))
    return records.error(w), positive, records.error(fit(records.X, records.y, setting.lam)), len(records.y)


# --- The theorems, measured -----------------------------------------------------------

PUBLISHED = Setting(1.0, True, ())
"""The paper's lambda, and rows in the unit ball, which the theorems ask for."""

EPSILON = 0.1

_EVEN, _UNEVEN = "even", "10%"
_ZEROS = "none: the model of zeros"


def excesses(source: Records | Path, numbers: Sequence[int], draws: int, seed: int) -> dict[str, list[list[float]]]:
    """Return what the theorems bound, as it is measured on these random partitions.

    Parameters
    ----------
    source : Records or path
        Rows as in the file, or the directory that holds the files.
    numbers : sequence of int
        Which random partitions.
    draws : int
        Draws of the noise for each of them.

    Returns
    -------
    dict of str to list
        For each quantity, a list for each partition: |w^ - w*| as "distance", J(w^) - J(w*) as "quiet", J(w^s) - J(w*)
        as "noisy", the same on test records as "fresh"; each of a split. "central" is J(w* + eta) - J(w*) with the
        noise of a party that has all records. "zeros" is J(0) - J(w*), and "shape" the records' own.
    """
    records = (source if isinstance(source, Records) else stored(source)).scaled(unit=PUBLISHED.unit)
    (n, d), Lambda = records.X.shape, PUBLISHED.strong_convexity
    best = w_star(records, PUBLISHED)
    found: dict[str, list[list[float]]] = {}

    def add(name: str, values: _Array) -> None:
        found.setdefault(name, []).append(values.tolist())

    def excess(w: _Array, X: _Array, y: _Array) -> _Array:
        return _risks(w, X, y) - _risks(best[:, None], X, y)

    for number in numbers:
        label = f"pathak-2010 {seed} {number}"
        averaged = averages(records, Lambda, label)
        for split in (_EVEN, _UNEVEN):
            w, rng = averaged[split][:, None], SimulationRng(label, f"theorems {split}")
            etas = [noise(rng, split, n, EPSILON, Lambda, d) for _ in range(draws)]
            noisy = w + np.transpose(etas)
            add(f"distance {split}", np.linalg.norm(w - best[:, None], axis=0))
            add(f"quiet {split}", excess(w, records.X, records.y))
            add(f"noisy {split}", excess(noisy, records.X, records.y))
            add(f"fresh {split}", excess(noisy, records.X_test, records.y_test))
        rng = SimulationRng(label, "theorems w*")
        etas = [noise(rng, "w* + eta", n, EPSILON, Lambda, d) for _ in range(draws)]
        add("central", excess(best[:, None] + np.transpose(etas), records.X, records.y))
        add("zeros", excess(np.zeros((d, 1)), records.X, records.y))
        add("shape", np.array([n, d], dtype=float))
    return found


def _risks(w: _Array, X: _Array, y: _Array) -> _Array:
    """Return J of each column of w, shape (R,)."""
    losses = logistic_loss((X @ w) * y[:, None])
    return np.asarray(losses.mean(axis=0) + PUBLISHED.lam * (w**2).sum(axis=0))


def compared(parts: Sequence[dict[str, list[list[float]]]]) -> list[Measured]:
    """Return each theorem's bound beside what was measured.

    Parameters
    ----------
    parts : sequence of dict
        Of :func:`excesses`, for partitions that are all different.
    """
    found = joined(parts)
    (n, d), lam = found["shape"][0].astype(int).tolist(), PUBLISHED.lam
    made: list[Measured] = []
    for split in (_EVEN, _UNEVEN):
        least = min(sizes(n, split))
        bounds = {
            ("Theorem 4.2", "distance"): theorems.theorem_4_2(K, least, lam),
            ("(3)", "quiet"): theorems.inequality_3(K, least, lam),
            ("Theorem 4.3", "noisy"): theorems.theorem_4_3(K, least, lam, d, EPSILON),
            ("Theorem 4.4", "fresh"): theorems.theorem_4_4(K, least, n, lam, d, EPSILON),
        }
        for (theorem, quantity), bound in bounds.items():
            made.append(measured(f"{theorem}, {split}", bound, found[f"{quantity} {split}"]))
    made.append(measured("(4), one party", theorems.inequality_4(n, lam, d, EPSILON), found["central"]))
    return [*made, measured(_ZEROS, zeros_excess(LOGISTIC, PUBLISHED.strong_convexity), found["zeros"])]


# --- Figure 2 -------------------------------------------------------------------------

_PARTITIONS, _CHUNK = 50, 10
_USEFUL = Setting(0.001, True, (0.05, 0.1, 0.2, 0.5, 1.0, 5.0))
_OTHERS = (
    Setting(0.01, False, (0.1, 0.5, 5.0)),
    Setting(1.0, False, (0.005, 0.01, 0.02, 0.1)),
    Setting(1.0, True, (0.005, 0.01, 0.02, 0.1)),
)
_EPS = 0.5

_W_STAR = {0.001: 0.163933, 0.01: 0.160678, 1.0: 0.236226}
"""The error of w* without noise by the other program, by lambda."""
_TRIVIAL = 1.0
"""The paper's lambda, at which w* answers no to everybody."""
_FEW = 0.0002
"""Three test records: where a score is almost 0, two programs may differ."""

_PLAIN = "A1: w*, without noise"
_SPLIT = f"A3: {_USEFUL.name}, eps = {_EPS:g}"
_FALLS = f"A4: {_USEFUL.name}: from one eps to the next"

_NONE, _INVERSE, _CHANCE = "no noise", "1/eps for eps", "a random classifier"
_MISTAKES = (HALF, "lambda for Lambda in the noise", "eta/K", "n/K for n_(1)", _INVERSE)

_OTHER = {(one.lam, one.unit): one.name for one in _OTHERS}
_UNSEEN: dict[str, frozenset[tuple[str, str]]] = {
    _SPLIT: frozenset({("10% minus 15%, eps = 0.5", "lambda for Lambda in the noise")}),
    _USEFUL.name: frozenset({("w* + eta, eps = 1", HALF)}),
    _OTHER[0.01, False]: frozenset({("w* + eta, eps = 5", HALF)}),
    _OTHER[1.0, False]: frozenset(
        product(("even, eps = 0.01", "15%, eps = 0.01", "10%, eps = 0.02"), (_NONE, HALF)),
    ),
    _OTHER[1.0, True]: frozenset(
        product(("w* + eta, eps = 0.005", "even, eps = 0.02", "10%, eps = 0.1"), (_NONE, HALF)),
    ),
}
"""By table, the quantities and the mistakes that they cannot show: too little noise, or too few draws."""

_CLEAR = (
    "The parties' classifiers are averaged without encryption. The protocol's own functions train them and draw the "
    "noise."
)
_SEEDED = "The noise comes from a seed: nothing here is a private release."
_MEANING = (
    "Numbers are error rates on the test records, averaged over random partitions and all draws, each with its mirror "
    "image; the standard error is that of the partitions' means. "
    "Lambda = 2 lambda is the coefficient of (1/2) |w|^2. Unit rows are divided by "
    "sqrt 14; raw rows are not, and the paper's theorems do not cover them."
)

_SILENT = "The paper's text states no error rate, so the drawings have no claimed curve."

"""By curve and epsilon; see :func:`run`."""
_Alone = tuple[float, float, float, int]


def figure_2(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return figure 2's tables.

    Parameters
    ----------
    draws : int
        How many draws of the noise, and their mirror images, for each of fifty partitions.
    seed : int
    run_tasks : callable
        What runs the tasks.
    data : path
        The directory that holds a9a and a9a.t; the current one by default.

    Raises
    ------
    BadInput
        The files are not there, or are not these.
    """
    return tables(data or Path(), draws, seed, run_tasks)


def tables(source: Records | Path, draws: int, seed: int, run_tasks: RunTasks) -> Report:
    """Return figure 2's tables for these records, or for those in this directory."""
    settings = (_USEFUL, *_OTHERS)
    plain = [Task(f"{one.name}: w*", alone, (source, one)) for one in settings]
    chunks = [range(_PARTITIONS)[i : i + _CHUNK] for i in range(0, _PARTITIONS, _CHUNK)]
    noisy = [
        Task(
            f"{one.name}: partitions {chunk[0]} to {chunk[-1]}",
            run,
            (source, one, _MISTAKES if one == _USEFUL else (HALF,), tuple(chunk), draws, seed),
            5.0,
        )
        for one in settings
        for chunk in chunks
    ]
    bounded = [
        Task(f"theorems: partitions {c[0]} to {c[-1]}", excesses, (source, tuple(c), draws, seed)) for c in chunks
    ]
    results = run_tasks([*plain, *noisy, *bounded])
    quiet: dict[Setting, _Alone] = dict(zip(settings, results, strict=False))
    after = results[len(settings) :]
    found = {one: joined(after[i * len(chunks) : (i + 1) * len(chunks)]) for i, one in enumerate(settings)}
    useful = found[_USEFUL]
    rows = [*_plain_rows(quiet), *_split_rows(useful), *_falling_rows(useful)]
    rows += [row for one in settings for row in _curve_rows(one, found[one])]
    return Report(
        "pathak-2010",
        "2",
        (_CLEAR, _SEEDED, _MEANING, _SILENT),
        {"records": quiet[_USEFUL][3], "K": K, "partitions": _PARTITIONS, "draws": draws, "seed": seed},
        rows,
        [_panel(one, found[one], quiet[one][0]) for one in settings],
        compared(results[-len(chunks) :]),
    )


def _panel(setting: Setting, errors: Errors, quiet: float) -> Panel:
    """Return the paper's axes: test error over epsilon."""
    return Panel(
        setting.name,
        "epsilon",
        "error rate on test records",
        [Series.of(name, setting.epsilons, [errors[name, eps] for eps in setting.epsilons]) for name in CURVES],
        x_scale="log",
        reference=(("w*, without noise", quiet),),
    )


def _plain_rows(quiet: dict[Setting, _Alone]) -> list[Row]:
    rows = []
    for setting in (*_OTHERS[1:], _USEFUL, _OTHERS[0]):
        (error, positive, wrong, _), trivial = quiet[setting], setting.lam == _TRIVIAL
        band = _about_w_star(setting)
        rows.append(Row(_PLAIN, f"{setting.name}: error", error, None, *band))
        mistake = f"{setting.name}, lambda for Lambda"
        if trivial:
            rows.append(Row(_PLAIN, mistake, wrong, note="not seen here: this too says no to everybody"))
            rows.append(Row(_PLAIN, f"{setting.name}: answers yes", positive, None, 0.0, 0.0))
        else:
            rows.append(Row(_PLAIN, mistake, wrong, None, *band, broken=True))
    return rows


def _about_w_star(setting: Setting) -> tuple[float, float]:
    return round(_W_STAR[setting.lam] - _FEW, 6), round(_W_STAR[setting.lam] + _FEW, 6)


def _told(table: str, setting: Setting, name: str, values: _Array, mistakes: Mapping[str, _Array]) -> list[Row]:
    """Return a quantity's row with its band, and a row for each mistake."""
    hidden = {mistake for of, mistake in _UNSEEN.get(table, ()) if of == name}
    return judged(table, name, values, reference("pathak-2010 2", f"{setting.name}, {name}"), mistakes, hidden=hidden)


def _variants(errors: Errors, curve: str, eps: float) -> dict[str, _Array]:
    """Return a curve's mistakes at an epsilon, as far as they were run."""
    run = {mistake: errors.get((f"{curve}: {mistake}", eps)) for mistake in _MISTAKES}
    return {_NONE: errors[curve, np.inf]} | {mistake: found for mistake, found in run.items() if found is not None}


def _split_rows(errors: Errors) -> list[Row]:
    rows = []
    for curve in CURVES:
        mistakes = _variants(errors, curve, _EPS)
        del mistakes[_INVERSE]
        other = "even" if curve not in SPLITS else "w* + eta"
        mistakes |= {f"{other} in its place": errors[other, _EPS], _CHANCE: np.full_like(errors[curve, _EPS], 0.5)}
        rows += _told(_SPLIT, _USEFUL, f"{curve}, eps = {_EPS:g}", errors[curve, _EPS], mistakes)
    for below, above in pairwise(CURVES):
        low, high = ({"": errors[curve, _EPS]} | _variants(errors, curve, _EPS) for curve in (below, above))
        mistakes = {
            mistake: high[mistake] - low.get(mistake, low[""]) for mistake in high if mistake not in ("", _INVERSE)
        }
        rows += _told(_SPLIT, _USEFUL, f"{above} minus {below}, eps = {_EPS:g}", high[""] - low[""], mistakes)
    return rows


def _falling_rows(errors: Errors) -> list[Row]:
    rows = []
    for curve in CURVES:
        quiet, inverse = errors[curve, np.inf], f"{curve}: {_INVERSE}"
        for low, high in pairwise(_USEFUL.epsilons):
            mistakes = {_NONE: quiet - quiet, _INVERSE: errors[inverse, low] - errors[inverse, high]}
            found = errors[curve, low] - errors[curve, high]
            rows += _told(_FALLS, _USEFUL, f"{curve}, eps = {low:g} minus {high:g}", found, mistakes)
    return rows


def _curve_rows(setting: Setting, errors: Errors) -> list[Row]:
    rows = []
    for curve in CURVES:
        for eps in setting.epsilons:
            name = f"{curve}, eps = {eps:g}"
            found = mean_and_error(errors[curve, eps])
            if (setting, eps) == (_USEFUL, _EPS):
                rows.append(Row(setting.name, name, *found, note="its band: A3"))
            elif setting.lam == _TRIVIAL and reference("pathak-2010 2", f"{setting.name}, {name}") is None:
                said = "noise cannot be seen here: without it the error is the same"
                rows.append(Row(setting.name, name, *found, *_about_w_star(setting), note=said))
            else:
                mistakes = _variants(errors, curve, eps)
                kept = {mistake: mistakes[mistake] for mistake in (_NONE, HALF)}
                rows += _told(setting.name, setting, name, errors[curve, eps], kept)
        if curve in SPLITS:
            rows.append(Row(setting.name, f"{curve}, no noise", *mean_and_error(errors[curve, np.inf])))
    return rows

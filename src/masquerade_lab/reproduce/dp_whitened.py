"""``dp-whitened`` on public data sets, beside central methods that see all records in one place.

No paper prints these figures. The bands come from an independent implementation in floating point.
``docs/reproduction/dp-whitened.md`` has the tables.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import hypot
from pathlib import Path
from typing import Any

from masquerade_core.errors import BadInput
from masquerade_lab.reproduce.bands import Report, Row
from masquerade_lab.reproduce.dp_whitened_data import BENCHMARKS, Benchmark, Split
from masquerade_lab.reproduce.dp_whitened_found import Found
from masquerade_lab.reproduce.dp_whitened_runs import (
    ADASSP,
    AMP,
    CENTRAL_DRAWS,
    EACH,
    EPSILONS,
    FREE,
    HALVED,
    LARGE,
    MAJORITY,
    OBJECTIVE,
    OURS,
    PARTIES,
    ROLES_EPSILON,
    THINNED,
    halved_epsilon,
    measure_once,
)
from masquerade_lab.reproduce.panels import Panel, Series
from masquerade_lab.reproduce.tasks import RunTasks, Task

__all__ = ["figure_1", "tables"]

_PROMISED = 40  # the s from which a threshold is promised
_MAJORITY_SLACK, _CENTRAL_SLACK = 0.01, 0.003
_SAME = 1e-4
_MU_BAND = (0.96, 1.04)

_BANDS: dict[str, dict[float, tuple[float | None, float | None]]] = {
    "Adult": {0.1: (0.170, 0.872), 0.2: (0.164, 0.882), 0.5: (0.159, 0.890), 1.0: (0.157, 0.894), 3.0: (0.155, 0.898)},
    "a9a": {0.1: (0.165, None), 0.2: (0.160, None), 0.5: (0.156, None), 1.0: (0.155, None), 3.0: (0.154, None)},
    "KDD": {0.1: (0.034, None), 0.2: (0.027, None), 0.5: (0.021, None), 1.0: (0.019, None), 3.0: (0.019, None)},
    "WDBC": {0.2: (None, 0.93), 0.5: (None, 0.98), 1.0: (0.060, None), 3.0: (0.050, None)},
    "Breast cancer original": {
        0.1: (0.15, None),
        0.2: (0.09, None),
        0.5: (0.075, None),
        1.0: (0.050, None),
        3.0: (0.048, None),
    },
    "Credit card": {0.2: (0.19, None), 0.5: (0.14, None), 1.0: (0.12, None), 3.0: (0.085, None)},
    "HAR": {0.5: (0.23, None), 1.0: (0.185, None), 3.0: (0.13, None)},
    "Bank": {
        0.1: (None, 0.70),
        0.2: (None, 0.715),
        0.5: (0.111, 0.737),
        1.0: (0.110, 0.745),
        3.0: (0.110, 0.75),
    },
}
"""By data set and epsilon: the largest mean error, and the smallest mean AUC."""

_TWO_SIDED = {"Adult": {0.1: 0.163}}
"""The least mean error, where a smaller one would mean too little noise."""

_WEIGHTS = {"Adult": 30.0, "a9a": 20.0, "KDD": 30.0, "HAR": 15.0, "Bank": 20.0}
_SMALL, _WITHOUT_CENTRAL = ("WDBC", "Breast cancer original", "Credit card", "HAR"), 0.05
"""About how long draws take; the large sets have the central methods in their first draws alone."""

_ROLES = f"Through the real roles, eps = {ROLES_EPSILON}: how far the classifier is from that in the clear"
_MU = "The noise itself: the mu that it keeps, measured over all sums, beside that of epsilon and delta"
_BROKEN = "Broken variants must miss"

_CLEAR = (
    "Sums are computed without encryption: from the protocol's own integer vectors, with the shares of noise of five "
    "parties from its sampler, and with everything that follows from them on its grid. One run for each data set goes "
    "through the real roles too, with keys of 512 bits, in memory; it must give the same classifier."
)
_SEEDED = "The noise comes from a seed and one draw serves all epsilons: nothing here is a private release."
_MEANING = (
    "Error is the fraction of test records with a wrong answer. AUC is the probability that a positive record has a "
    "higher score than a negative one. s = N mu/sqrt(d) says how much there is to go by, beside the noise. Adult, a9a, "
    "KDD and HAR have one split, and the standard error counts the noise. The others have random splits of 80 to 20, "
    f"and the standard error counts both; sets of at most {LARGE:,} records have {EACH} draws for each split."
)
_CENTRAL = (
    "AMP, objective perturbation and AdaSSP are central: one person has all records. Objective perturbation has the "
    "best of five penalties, and logistic regression without privacy the best of four, both chosen on the test "
    f"records, which flatters them. On sets of more than {LARGE:,} records they have {CENTRAL_DRAWS} draws at most."
)

# --- The tables -----------------------------------------------------------------------


def figure_1(draws: int, seed: int, run_tasks: RunTasks, data: Path | None) -> Report:
    """Return the tables for the data sets whose folders are there.

    Parameters
    ----------
    draws : int
        How many draws of the noise for each data set; where it has no fixed split, how many splits.
    seed : int
    run_tasks : callable
        It runs a task for each draw or split of each data set.
    data : path
        The directory that holds the folders; the current one by default.

    Raises
    ------
    BadInput
        None of the folders is there, or a file is not what its name says.
    """
    root = data or Path()
    there = [one for one in BENCHMARKS if not one.folder or (root / one.folder).is_dir()]
    if not any(one.folder for one in there):
        raise BadInput(
            f"{root} has none of the folders {', '.join(one.folder for one in BENCHMARKS if one.folder)}",
            "give --data DIRECTORY, where DIRECTORY holds at least one of these folders",
        )
    absent = [f"{one.title} (no folder {one.folder})" for one in BENCHMARKS if one not in there]
    notes = [f"Left out, since {root} does not have it: {', '.join(absent)}."] if absent else []
    tasks = [
        Task(
            f"{one.title}, {number}",
            _measured,
            (one.title, root / one.folder if one.folder else None, number, seed),
            _WEIGHTS.get(one.title, 1.0) * (1.0 if number < CENTRAL_DRAWS or one.title in _SMALL else _WITHOUT_CENTRAL),
        )
        for one in there
        for number in range(draws)
    ]
    results = iter(run_tasks(tasks))
    found = [Found(one) for one in there]
    for one in found:
        for _ in range(draws):
            one.add(next(results))
    return tables(found, draws, seed, notes)


def _measured(title: str, folder: Path | None, number: int, seed: int) -> dict[str, Any]:
    """Measure one draw or split of a data set."""
    (benchmark,) = (one for one in BENCHMARKS if one.title == title)
    files = sorted(folder.rglob("*")) if folder else []
    records = _read(benchmark, folder or Path(), tuple((path, path.stat().st_mtime_ns) for path in files))
    return measure_once(benchmark, records, number, seed, broken=tuple(_TWO_SIDED.get(title, {}))).parts()


@lru_cache(maxsize=1)  # the large ones take some tens of megabytes each
def _read(benchmark: Benchmark, folder: Path, _times: tuple[tuple[Path, int], ...]) -> Split:
    """Read a data set; the times of its files say whether it has been read already."""
    return benchmark.read(folder)


def tables(found: Sequence[Found], draws: int, seed: int, notes: Sequence[str] = ()) -> Report:
    """Return the tables of what was measured."""
    rows = [row for one in found for row in (*_own_rows(one), *_beside_rows(one), *_promised_rows(one))]
    settings = {"draws": draws, "K": PARTIES, "seed": seed, "data_sets": len(found)}
    last = (*_mu_rows(found), *_role_rows(found), *_broken_rows(found))
    notes = (_CLEAR, _SEEDED, _MEANING, _CENTRAL, *notes)
    return Report("dp-whitened", "1", notes, settings, [*rows, *last], [_panel(one) for one in found])


def _panel(found: Found) -> Panel:
    """Draw errors against epsilon, ours and those of central methods."""
    curves = []
    for method in (OURS, AMP, OBJECTIVE, ADASSP):
        points = [found.error(found.best(method, epsilon), epsilon) for epsilon in EPSILONS]
        curves.append(Series(method, EPSILONS, [value for value, _ in points], [error or 0.0 for _, error in points]))
    levels = tuple((name, found.error(found.best(name, 0), 0)[0]) for name in (MAJORITY, FREE))
    return Panel(f"{found.benchmark.title}, N = {found.N:,}", "epsilon", "error rate", curves, "log", reference=levels)


def _heading(found: Found) -> str:
    return f"{found.benchmark.title}, N = {found.N:,}, d = {found.d}, delta = {found.benchmark.delta:g}"


def _own_rows(found: Found) -> list[Row]:
    bands, least = _BANDS[found.benchmark.title], _TWO_SIDED.get(found.benchmark.title, {})
    errors, aucs = [], []
    for epsilon in EPSILONS:
        high, low = bands.get(epsilon, (None, None))
        name, note = f"eps = {epsilon}", f"s = {found.strength(epsilon):.1f}"
        errors.append(
            Row(f"{_heading(found)}: error", name, *found.error(OURS, epsilon), least.get(epsilon), high, note=note)
        )
        aucs.append(Row(f"{_heading(found)}: AUC", name, *found.auc(OURS, epsilon), low))
    return [*errors, *aucs]


def _beside_rows(found: Found) -> list[Row]:
    table = f"{found.benchmark.title}, beside it"
    rows = []
    for name, method in ((MAJORITY, MAJORITY), (FREE, found.best(FREE, 0))):
        rows.append(Row(table, name, *found.error(method, 0), note=f"AUC {found.auc(method, 0)[0]:.3f}"))
    for method in (AMP, OBJECTIVE, ADASSP):
        for epsilon in EPSILONS:
            best = found.best(method, epsilon)
            note = f"AUC {found.auc(best, epsilon)[0]:.3f}"
            rows.append(Row(table, f"{method}, eps = {epsilon}", *found.error(best, epsilon), note=note))
    return rows


def _promised_rows(found: Found) -> list[Row]:
    """Where s says that there is enough to go by, ours is no worse than the majority's rule and central methods."""
    rows = []
    for epsilon in EPSILONS:
        if found.strength(epsilon) < _PROMISED:
            continue
        value, error = found.error(OURS, epsilon)
        for method, at, slack in (
            (MAJORITY, 0, _MAJORITY_SLACK),
            (AMP, epsilon, _CENTRAL_SLACK),
            (OBJECTIVE, epsilon, _CENTRAL_SLACK),
        ):
            other, other_error = found.error(found.best(method, at), at)
            both = hypot(error or 0, other_error or 0) or None
            name = f"{method}, eps = {epsilon}"
            rows.append(
                Row(f"{found.benchmark.title}, s >= 40: error less that of", name, value - other, both, high=slack)
            )
    return rows


def _mu_rows(found: Sequence[Found]) -> list[Row]:
    """Show the epsilon at which the noise of a data set's runs is farthest from what it must be."""
    rows = []
    for one in found:
        kept = {epsilon: one.mu_kept(OURS, epsilon) for epsilon in EPSILONS}
        worst = max(kept, key=lambda epsilon: abs(kept[epsilon] - 1))
        rows.append(Row(_MU, one.benchmark.title, kept[worst], None, *_MU_BAND, note=f"eps = {worst}"))
    return rows


def _role_rows(found: Sequence[Found]) -> list[Row]:
    return [Row(_ROLES, one.benchmark.title, one.apart, high=_SAME) for one in found]


def _broken_rows(found: Sequence[Found]) -> list[Row]:
    """Half the noise makes errors smaller, so only the noise itself shows it, and a band that has a lower end."""
    rows = []
    for one in found:
        title, delta = one.benchmark.title, one.benchmark.delta
        for epsilon, low in _TWO_SIDED.get(title, {}).items():
            note, high = f"its epsilon is {halved_epsilon(epsilon, delta):.2f}", _BANDS[title][epsilon][0]
            name = f"{title}, eps = {epsilon}, {{}}: {{}}".format
            rows.append(Row(_BROKEN, name(HALVED, "error"), *one.error(HALVED, epsilon), low, high, True, note))
            rows.append(Row(_BROKEN, name(THINNED, "error"), *one.error(THINNED, epsilon), note="an error cannot tell"))
            rows += [
                Row(_BROKEN, name(variant, "mu"), one.mu_kept(variant, epsilon), None, *_MU_BAND, True, note)
                for variant in (HALVED, THINNED)
            ]
    return rows

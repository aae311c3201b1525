"""``dp-whitened`` beside the same rules in floats, on the same records and with noise drawn apart.

Start it with ``python -m tests.whitened_beside_floats DATA OUT [PAIRS [ROW ...]]``. DATA holds the folders of the data
sets, and OUT/pairs.csv gets a line for each pair of runs. A pair that has a line is not run again, so the command may
be stopped. Each row gets PAIRS pairs, 20 by default; rows are chosen by how their names begin. The table of
``docs/reproduction/dp-whitened.md`` is printed from all lines that are there.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from masquerade_core.data.schema import Dataset
from masquerade_core.study import Study
from masquerade_lab.encoding import unit_ball
from masquerade_lab.originals import har
from masquerade_lab.reproduce.dp_whitened import BENCHMARKS, Split, draw_shares, learn_in_clear, sampled, study_of
from masquerade_protocols.dp_whitened.public import OFF_DIAGONAL, SIGMA, Plan
from tests.whitened_oracle import oracle

__all__ = ["FIELDS", "ROWS", "pair", "table"]

_Floats = NDArray[np.float64]
_Drawn = tuple[Dataset, Dataset]
_Line = tuple[str, float, int, float, float, float, float, float]
FIELDS = ("records", "epsilon", "number", "s", "error_roles", "error_floats", "loss_roles", "loss_floats")


@cache
def _read(title: str, data: Path) -> Split:
    (found,) = (one for one in BENCHMARKS if one.title == title)
    return found.read(data / found.folder)


def _whole(title: str, data: Path, label: str) -> _Drawn:
    return _read(title, data).draw(label)


def _few(count: int, data: Path, label: str) -> _Drawn:
    """Draw so many of Adult's records to learn from."""
    train, test = _read("Adult", data).draw(label)
    return sampled(train, label, count, count)[0], test


def _rare(data: Path, label: str) -> _Drawn:
    """Draw 4,850 of KDD's normal records and 150 attacks, and test records of which 3 % are attacks as well."""
    found = []
    for records, count in zip(_read("KDD", data).draw(label), (5_000, 10_000), strict=True):
        kinds = [Dataset(records.X[records.y == y], records.y[records.y == y]) for y in (-1.0, 1.0)]
        sizes = (count * 97 // 100, count * 3 // 100)
        parts = [sampled(kind, label, size, size)[0] for kind, size in zip(kinds, sizes, strict=True)]
        found.append(Dataset(np.vstack([part.X for part in parts]), np.concatenate([part.y for part in parts])))
    return found[0], found[1]


@cache
def _moves(data: Path, kinds: tuple[int, ...]) -> _Drawn:
    """Return HAR's records that go up (2) against those that go down (3); or all, those of ``kinds`` against others."""
    X, y, X_test, y_test = har(data / "uci-har-time265")
    found = []
    for rows, labels in ((X, y), (X_test, y_test)):
        chosen = np.isin(labels, (2, 3)) if len(kinds) == 1 else labels > 0
        found.append(Dataset(unit_ball(rows[chosen, :265]), np.where(np.isin(labels[chosen], kinds), 1.0, -1.0)))
    return found[0], found[1]


def _digits(_data: Path, label: str) -> _Drawn:
    X, y = load_digits(return_X_y=True)
    return Split(Dataset(unit_ball(X / 8 - 1), np.where(y % 2 == 0, 1.0, -1.0))).draw(label)


def _made(N: int, bound: float, _data: Path, label: str) -> _Drawn:
    """Make records of six standard normals, with a logistic law."""
    rng = np.random.default_rng(list(label.encode()))
    X = rng.standard_normal((N + 20_000, 6))
    chance = 1 / (1 + np.exp(0.5 - X @ np.array([1.0, -0.8, 0.6, 0.5, -0.3, 0.2])))
    all_ = Dataset(unit_ball(np.clip(X / bound, -1, 1)), np.where(rng.random(len(X)) < chance, 1.0, -1.0))
    return Dataset(all_.X[:N], all_.y[:N]), Dataset(all_.X[N:], all_.y[N:])


_Draw = Callable[[Path, str], _Drawn]
ROWS: dict[str, tuple[_Draw, float, tuple[float, ...]]] = {
    "made up, bounds of 40 sd, 30,000": (partial(_made, 30_000, 40.0), 1e-6, (1.0,)),
    "made up, bounds of 40 sd, 3,000": (partial(_made, 3_000, 40.0), 1e-5, (1.0,)),
    "made up, bounds of 4 sd, 30,000": (partial(_made, 30_000, 4.0), 1e-6, (1.0,)),
    "KDD, 3 % positive, 5,000": (_rare, 1e-5, (0.5, 1.0, 3.0)),
    "Adult, 500": (partial(_few, 500), 1e-5, (0.5, 1.0, 3.0)),
    "Adult, 8,000": (partial(_few, 8_000), 1e-5, (0.2, 1.0, 3.0)),
    "Adult, 32,561": (partial(_whole, "Adult"), 1e-6, (0.1, 0.2, 0.5, 1.0, 3.0)),
    "KDD, 45,000": (partial(_whole, "KDD"), 1e-6, (0.1, 1.0, 3.0)),
    "Bank, 36,169": (partial(_whole, "Bank"), 1e-6, (0.1, 1.0, 3.0)),
    "digits, even or odd, 1,438": (_digits, 1e-5, (0.5, 1.0, 3.0)),
    "HAR, upstairs or downstairs, 2,059": (lambda data, _: _moves(data, (2,)), 1e-5, (0.5, 1.0, 3.0)),
    "HAR, stairs or not, 7,352": (lambda data, _: _moves(data, (2, 3)), 1e-5, (0.2, 1.0, 3.0)),
    "Credit card, 757": (partial(_whole, "Credit card"), 1e-5, (0.5, 1.0, 3.0)),
    "WDBC, 456": (partial(_whole, "WDBC"), 1e-5, (0.5, 1.0, 3.0)),
}
"""By name: how training and test records are drawn, delta, and each epsilon."""


@lru_cache(maxsize=1)
def _drawn(name: str, number: int, data: Path) -> _Drawn:
    return ROWS[name][0](data, f"beside floats {name} {number}")


@cache
def _study(d: int, epsilon: float, delta: float) -> Study:
    """Return a study of five parties and one colluder."""
    study = study_of(d, epsilon, delta)
    return study.model_copy(update={"privacy": study.privacy.model_copy(update={"colluders": 1})})


@cache
def _shares(number: int, d: int) -> NDArray[np.int64]:
    """Return the parties' shares of noise in the pair of a number: one draw serves each epsilon."""
    return draw_shares(f"beside floats {number}", d)


def _normals(d: int, *place: int) -> Callable[[str, int], _Floats]:
    """Return central noise for the oracle; products of two coordinates have less, since they count twice."""
    rng = np.random.default_rng(place)

    def noise(label: str, length: int) -> _Floats:
        drawn = rng.standard_normal(length)
        if label == "second moments":
            drawn[: d * (d - 1) // 2] *= OFF_DIAGONAL / SIGMA
        return drawn

    return noise


def _measured(test: Dataset, weights: _Floats, offset: float) -> tuple[float, float]:
    """Return the error in percent, and the log loss."""
    margins = test.y * (test.X @ weights + offset)
    return 100 * float(np.mean(margins <= 0)), float(np.logaddexp(0, -margins).mean())


def pair(name: str, epsilon: float, number: int, data: Path) -> _Line:
    """Run both once, on the same records and with noise drawn apart."""
    train, test = _drawn(name, number, data)
    study = _study(train.X.shape[1], epsilon, ROWS[name][1])
    plan = Plan(study, train.n)
    model = learn_in_clear(study, train, _shares(number, study.d))
    place = (number, list(ROWS).index(name), round(1000 * epsilon))
    weights, offsets = oracle(plan, train.X, train.y[:, None], _normals(study.d, *place))
    roles, floats = _measured(test, np.array(model.weights), model.offset[0]), _measured(test, weights[0], offsets[0])
    return name, epsilon, number, float(plan.strength), roles[0], floats[0], roles[1], floats[1]


_HEAD = (
    "| records, N | eps | s | pairs | error %, roles | floats | difference (standard error) | log loss, roles | floats "
    "| difference (standard error) |"
)


def table(lines: Iterable[_Line]) -> str:
    """Return the page's table; a difference of more than .2 points or .01, and two standard errors, gets a mark."""
    found: defaultdict[tuple[str, float], list[_Line]] = defaultdict(list)
    for line in lines:
        found[line[0], line[1]].append(line)
    told = [_HEAD, "|-|-:|-:|-:|-:|-:|-:|-:|-:|-:|"]
    for name, (_, _, epsilons) in ROWS.items():
        for epsilon in epsilons:
            values = np.array([line[3:] for line in found[name, epsilon]])
            if len(values) > 1:
                cells = [f"{values[0, 0]:.0f}", str(len(values))]
                for at, places, most in ((1, 2, 0.2), (3, 3, 0.01)):
                    apart = values[:, at] - values[:, at + 1]
                    mean, error = float(apart.mean()), float(apart.std(ddof=1)) / len(apart) ** 0.5
                    mark = " beyond" if abs(mean) > most + 2 * error else ""
                    means = [f"{value:.{places}f}" for value in values[:, at : at + 2].mean(axis=0)]
                    cells += [*means, f"{mean:+.{places}f} ({error:.{places}f}){mark}"]
                told.append(f"| {name} | {epsilon:g} | {' | '.join(cells)} |")
    return "\n".join(told) + "\n"


def _lines(path: Path) -> list[_Line]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    return [(row[0], float(row[1]), int(row[2]), *map(float, row[3:])) for row in rows]  # type: ignore[misc]  # as many as _Line has


def main(data: Path, out: Path, pairs: int = 20, chosen: Sequence[str] = ("",)) -> None:
    """Run the pairs that are missing, and print the table."""
    path = out / "pairs.csv"
    lines = _lines(path)
    there = {line[:3] for line in lines}
    out.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8", buffering=1) as file:
        writer = csv.writer(file)
        if not lines:
            writer.writerow(FIELDS)
        for number in range(pairs):
            for name, (_, _, epsilons) in ROWS.items():
                for epsilon in epsilons:
                    if name.startswith(tuple(chosen)) and (name, epsilon, number) not in there:
                        lines.append(pair(name, epsilon, number, data))
                        writer.writerow(lines[-1])
    sys.stdout.write(table(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 20, sys.argv[4:] or [""])

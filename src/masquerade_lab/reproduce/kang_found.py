"""The numbers of Kang's figures: accuracies and gaps at the best learning rate, and curves of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import BadInput
from masquerade_lab.reproduce.bands import mean_and_error
from masquerade_lab.reproduce.kang_cells import BEST, LOSS, SHARE, Cells
from masquerade_lab.reproduce.kang_data import LARGE, SMALL
from masquerade_lab.reproduce.panels import Panel, Series

__all__ = ["METHODS", "OPTIMISTIC", "SEEDED", "SHOWN", "Found", "folders", "panels"]

METHODS = (
    "There are m parties with n records together; n_j of them are party j's, and n_(1) the smallest party's. W: local "
    "descents with the noise of n records, averaged by size. J: gradient perturbation as in Jayaraman et al., the "
    "paper's comparator: in each round the plain average of the parties' mean gradients at one theta, with one noise "
    "of m n_(1) records. C: one descent on all records with the noise of n records. U: W's descents, plain average. "
    "U min: the same with the noise of m n_(1) records, which is no method of either paper. W own: W with the noise "
    "of n_j records."
)
OPTIMISTIC = (
    "The learning rates are 0.01, 0.05, 0.1, 0.5 and 1. For each data set, method and point, the one counts that is "
    "best on the test records. That flatters all methods alike, and the choice is not private. A gap is the loss on "
    "the training records, less that of the best classifier without privacy; its rate is the one with the least gap."
)
SEEDED = (
    "The descent is the protocol's, in floating point. The normals come from a seed and not from the protocol's "
    "sampler; all rates and values of {shared} share them, and so do W and U. Nothing here is a private release."
)
SHOWN = {
    "W": "W, the paper's",
    "J": "J, compared",
    "C": "C, central",
    "U": "U, plain average",
    "U min": "U min",
    "W own": "W own",
}
"""The methods, and what the curves are called."""

_AXES = {"u": "u: the large parties' records over the small ones'", "eps": "epsilon"}

_Array = NDArray[np.float64]
Methods = Sequence[str]


def folders(data: Path | None, *, needed: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """Return the folders of the data sets that are there, and a note on those that are not.

    Raises
    ------
    BadInput
        None of the needed ones is there.
    """
    root, named = data or Path(), {name: folder for name, (folder, _) in (SMALL | LARGE).items()}
    there = {name: root / folder for name, folder in named.items() if (root / folder).is_dir()}
    if not set(there) & set(needed):
        raise BadInput(
            f"{root} has neither a folder {' nor a folder '.join(named[name] for name in needed)}; one is needed",
            "give --data DIRECTORY, where DIRECTORY holds at least one of these folders",
        )
    absent = [f"{name} (no folder {folder})" for name, folder in named.items() if name not in there]
    return there, [f"Left out, with its rows: {', '.join(absent)}."] if absent else []


@dataclass(frozen=True)
class Found:
    """What the tasks of one data set found.

    Parameters
    ----------
    cells : dict
        Accuracies and losses by "METHOD, AXIS = POINT", shape (partitions, etas, draws).
    axis : str
        "u" or "eps".
    """

    cells: Cells
    axis: str

    def at(self, method: str, point: float) -> _Array:
        """Return the accuracies, shape (partitions, etas, draws)."""
        return self.cells[f"{method}, {self.axis} = {point:g}"]

    def best(self, method: str, point: float) -> _Array:
        """Return the accuracies at the best learning rate, shape (partitions, draws)."""
        return _at_rate(self.at(method, point), np.argmax)

    def gap(self, method: str, point: float) -> _Array:
        """Return the training losses at the best learning rate less the least possible one, of the same shape."""
        return _at_rate(self.at(LOSS + method, point), np.argmin) - self.cells[BEST][:, None]

    @property
    def share(self) -> float:
        """The accuracy of always giving the more frequent label."""
        return float(self.cells[SHARE][0])


def _at_rate(values: _Array, best: Any) -> _Array:
    by_rate = np.ascontiguousarray(np.moveaxis(values, 1, 0))
    return np.asarray(by_rate[int(best(by_rate.mean(axis=(1, 2))))])


def panels(
    figures: tuple[int, int],
    setting: str,
    found: dict[str, Found],
    points: Mapping[str, Sequence[float]],
    methods: Methods,
) -> list[Panel]:
    """Return a panel of accuracies for each data set, and then one of gaps.

    Parameters
    ----------
    figures : tuple of int
        The paper's two figures.
    setting : str
        What the titles say of both.
    found, points : dict
        By data set: what was found, and where. C does not depend on u.
    methods : sequence of str
    """
    accuracy, gap = figures
    shown = []
    for name, one in found.items():
        quiet = float(one.best("W none", points[name][0]).mean())
        curves = [_curve(one, method, points[name], one.best) for method in methods]
        levels = (("the more frequent label", one.share), ("W without noise", quiet))
        title, label = f"Figure {accuracy}: {name}, {setting}", _AXES[one.axis]
        shown.append(Panel(title, label, "accuracy on test records", curves, reference=levels))
    for name, one in found.items():
        curves = [_curve(one, method, points[name], one.gap) for method in methods]
        title, label = f"Figure {gap}: {name}, {setting}", _AXES[one.axis]
        shown.append(Panel(title, label, "optimal gap on training records", curves, y_scale="log"))
    return shown


def _curve(found: Found, method: str, points: Sequence[float], values: Callable[[str, float], _Array]) -> Series:
    fixed = method == "C" and found.axis == "u"
    pairs = [mean_and_error(values(method, points[0] if fixed else point)) for point in points]
    name = SHOWN.get(method, method)
    return Series(name, tuple(points), [mean for mean, _ in pairs], [error for _, error in pairs])

"""What is drawn of ``dp-gd``: errors against epsilon, on simulated records and on breast cancer."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from masquerade_lab.reproduce.bands import Row, mean_and_error
from masquerade_lab.reproduce.panels import Panel, Series

__all__ = ["panels"]

_Errors = Mapping[str, NDArray[np.float64]]

_CURVES = {
    "dp-gd, delta = 0.05": "{} 5",
    "dp-gd, T = 20, C = 0.5": "{} 0.05 usual",
    "dp-gd, delta = 1e-05": "{} 1e-05",
    "local aggregation": "la {}",
    "PSGD": "psgd {}",
}
"""By the name of a curve, the name of its errors."""


def panels(errors: _Errors, cancer: Sequence[Row], title: str) -> list[Panel]:
    """Draw errors against epsilon.

    Parameters
    ----------
    errors : mapping of str to ndarray
        The errors on simulated records, by name.
    cancer : sequence of Row
        Those on breast cancer.
    title : str
        What breast cancer's panel is called.
    """
    epsilons = [name.removeprefix("psgd ") for name in errors if name.startswith("psgd ")]
    simulated = [
        _series(name, ((float(e), *mean_and_error(errors[of.format(e)])) for e in epsilons if of.format(e) in errors))
        for name, of in _CURVES.items()
    ]
    free = [name for name in errors if name.startswith("no privacy")][-1]
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for row in cancer:
        steps, middle, rest = row.name.partition(", eps = ")
        epsilon, _, delta = rest.partition(", ")
        if middle:
            curves.setdefault(f"{steps}, {delta}", []).append((float(epsilon), row.value, row.error or 0.0))
    levels = tuple((row.name, row.value) for row in cancer[:2])
    return [
        Panel(
            "simulated records, K = 5",
            "epsilon",
            "error rate",
            simulated,
            "log",
            reference=(("no privacy", mean_and_error(errors[free])[0]),),
        ),
        Panel(title, "epsilon", "error rate", [_series(*each) for each in curves.items()], "log", reference=levels),
    ]


def _series(name: str, points: Iterable[tuple[float, float, float]]) -> Series:
    x, y, error = zip(*points, strict=True)
    return Series(name, x, y, error)

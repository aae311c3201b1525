"""Hamm, Cao and Belkin's figures under noise: the points with a band, and what broken programs give there.

A point is a method at one 1/eps. Its band comes from another program's draws. Each mistake is run with as many draws as
the method itself, so the report says how surely the band catches it. Where noise hides a mistake, the report says that.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from masquerade_lab.reproduce.engine.judging import FALSE_ALARM, against, judged, reference
from masquerade_lab.reproduce.engine.report import Row

__all__ = [
    "EXP",
    "HALF",
    "NO_NOISE",
    "PRIVATE",
    "Drawn",
    "Point",
    "Pool",
    "in_place",
    "mistaken",
    "norm_rows",
    "parted",
    "point_rows",
]

PRIVATE = ("vote", "soft", "avg")
NO_NOISE, HALF, EXP = "no noise", "half of the noise", "norm from Exp(Delta/eps)"
_OTHER = {"published": "tight", "tight": "published"}
_SHORT = 0.95

_Array = NDArray[np.float64]
Sensitivity = Callable[[str, str, int], float]
"""Delta by method, kind and M."""


class Point(NamedTuple):
    """A method, its sensitivity ("published", or "tight": at most the diameter), 1/eps, and the number of parties."""

    method: str
    kind: str
    inverse: float
    M: int

    @property
    def name(self) -> str:
        """Its name in a row."""
        return f"{self.method}, {self.kind}, 1/eps = {self.inverse:g}"

    @property
    def key(self) -> str:
        """The same with M, as the references have it."""
        return f"M = {self.M}: {self.name}"


def in_place(other: str) -> str:
    """Return the name of the mistake that takes another classifier."""
    return f"{other} in its place"


class Drawn(NamedTuple):
    """Draws of the noise at Delta/eps = 1: which of the pool, and by what each is stretched."""

    which: NDArray[np.intp]
    stretch: _Array


class Pool:
    """A trial's draws of the noise at Delta/eps = 1, which are handed out in turn.

    Parameters
    ----------
    eta : ndarray, shape (pool, d)
    wrong : ndarray, shape (pool,)
        Norms from Exp(1).
    """

    def __init__(self, eta: _Array, wrong: _Array) -> None:
        self.eta, self.norms, self.wrong = eta, np.linalg.norm(eta, axis=1), wrong
        self._start = 0

    def take(self, count: int, kind: str) -> Drawn:
        """Return the next draws; their norms are the wrong ones if the kind is "exp"."""
        which = np.arange(self._start, self._start + count) % len(self.eta)
        self._start += count
        return Drawn(which, (self.wrong / self.norms)[which] if kind == "exp" else np.ones(count))


def mistaken(
    points: Iterable[Point],
    sensitivity: Sensitivity,
    pool: Pool,
    draws: int,
    score: Callable[[str, int, float, Drawn], _Array],
) -> dict[str, _Array]:
    """Return a trial's accuracies under the mistakes that no curve has, by "POINT: MISTAKE".

    Parameters
    ----------
    points : iterable of Point
    sensitivity : callable
    pool : Pool
    draws : int
    score : callable
        (method, M, scale, drawn) -> the accuracy of that method's classifier under each draw, times the scale.
    """
    found = {}
    for point in points:
        method, kind, inverse, M = point
        scale = inverse * sensitivity(method, kind, M)
        found[f"{point.key}: {HALF}"] = score(method, M, scale / 2, pool.take(draws, kind))
        found[f"{point.key}: {EXP}"] = score(method, M, scale, pool.take(draws, "exp"))
        for other in PRIVATE:
            if other == method:
                continue
            found[f"{point.key}: {in_place(other)}"] = score(other, M, scale, pool.take(draws, kind))
        for name, Delta in _exchanged(point, sensitivity).items():
            found[f"{point.key}: {name}"] = score(method, M, Delta * inverse, pool.take(draws, kind))
    return found


def _exchanged(point: Point, sensitivity: Sensitivity) -> dict[str, float]:
    """Return other sensitivities by name: the other kind's, and other methods'. Half of the noise is there already."""
    own = sensitivity(point.method, point.kind, point.M)
    others = {f"the {_OTHER[point.kind]} Delta": sensitivity(point.method, _OTHER[point.kind], point.M)}
    others |= {f"{other}'s Delta": sensitivity(other, point.kind, point.M) for other in PRIVATE}
    return {name: Delta for name, Delta in others.items() if not np.isclose(Delta / own, (0.5, 1)).any()}


# --- The rows -------------------------------------------------------------------------------------


def parted(broken: Mapping[str, _Array], hidden: Iterable[str]) -> tuple[dict[str, _Array], dict[str, _Array]]:
    """Return the mistakes that a band must catch, and the hidden ones; each hidden one must be there."""
    caught = dict(broken)
    return caught, {name: caught.pop(name) for name in hidden}


def point_rows(
    table: str,
    figure: str,
    point: Point,
    right: _Array,
    still: _Array,
    found: Mapping[str, _Array],
    hidden: Iterable[str],
    note: str = "",
) -> list[Row]:
    """Return a point's row with its band, and a row for each mistake.

    Parameters
    ----------
    table, figure : str
    point : Point
    right : ndarray, shape (trials, draws)
        The accuracies of the method.
    still : ndarray, shape (trials, 1)
        Those without noise.
    found : mapping of str to ndarray
        What ``mistaken`` returned, for all trials.
    hidden : iterable of str
        The mistakes that noise hides at this point.
    note : str
    """
    start = f"{point.key}: "
    broken = {NO_NOISE: still}
    broken |= {name.removeprefix(start): draws for name, draws in found.items() if name.startswith(start)}
    caught, unseen = parted(broken, hidden)
    expected = reference(f"hamm-2016 {figure}", point.key)
    return judged(table, point.name, right, expected, caught, unseen=unseen, note=note)


def norm_rows(table: str, norms: _Array, wrong: _Array, d: int) -> list[Row]:
    """Return the mean norm of the noise in units of d Delta/eps, with its band, beside those of broken samplers.

    The band needs no other program: a norm is distributed as Gamma(d), and the sum of n norms as Gamma(n d).

    Parameters
    ----------
    table : str
    norms, wrong : ndarray, shape (trials, pool)
        At Delta/eps = 1, and those of a sampler that forgets the dimension.
    d : int
    """
    ends = stats.gamma.ppf((FALSE_ALARM / 2, 1 - FALSE_ALARM / 2), norms.size * d) / (norms.size * d)
    broken = {
        NO_NOISE: np.zeros_like(norms),
        HALF: norms / 2 / d,
        f"{1 - _SHORT:.0%} short".replace("%", " %"): _SHORT * norms / d,
        EXP: wrong / d,
    }
    return against(table, "norm", norms / d, (float(ends[0]), float(ends[1])), broken)

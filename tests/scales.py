"""How large the noise must be, from each paper's formula, and a test of the draws that stores hold against it.

Each law has a statistic whose distribution is known exactly when the scale is right: the sum of squares of normal
numbers is chi-square, the sum of Laplace numbers' sizes is Gamma, and so is the sum of the lengths of vectors with the
density exp(-beta |x|). The test rejects a scale when that statistic is as far out as one run in a million.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from masquerade_core.study import CHARLIE
from masquerade_protocols.dp_glm.public import Plan as GlmPlan
from tests.clear import LIPSCHITZ, counts_of, descent_unit, gradient, size_class, slack
from tests.stores import Ran

__all__ = ["Draws", "draws_of"]

Array = NDArray[np.float64]
_CHANCE = 1e-6


@dataclass(frozen=True)
class Draws:
    """Numbers that were drawn, each divided by its scale.

    Parameters
    ----------
    what : str
        Which noise.
    law : str
        "normal" of standard deviation 1; "laplace" of scale 1; "l2", whose rows have the density exp(-|x|).
    values : ndarray
        Any shape; for "l2" one row for each vector.
    """

    what: str
    law: str
    values: Array

    @property
    def count(self) -> int:
        """How many independent numbers there are, each coordinate counted."""
        return int(self.values.size)

    def accepts(self, scale: float = 1.0) -> bool:
        """Whether the test takes these numbers, multiplied by ``scale``, for noise of the right scale."""
        low, high = self._law.cdf(self._size(scale)), self._law.sf(self._size(scale))
        return bool(min(low, high) > _CHANCE / 2)

    def power(self, scale: float) -> float:
        """Return the probability that the test rejects noise that is ``scale`` times too large."""
        low, high = self._law.ppf(_CHANCE / 2), self._law.isf(_CHANCE / 2)
        factor = scale**2 if self.law == "normal" else scale
        return float(self._law.cdf(low / factor) + self._law.sf(high / factor))

    def _size(self, scale: float) -> float:
        values = self.values * scale
        if self.law == "normal":
            return float((values**2).sum())
        return float(np.abs(values).sum() if self.law == "laplace" else np.linalg.norm(values, axis=1).sum())

    @property
    def _law(self) -> Any:
        return stats.chi2(self.count) if self.law == "normal" else stats.gamma(self.count)


# --- How large it must be ---------------------------------------------------------------------


def _mu(epsilon: float, delta: float) -> float:
    """The parameter of Gaussian differential privacy that meets a target (Balle and Wang 2018, Theorem 8)."""

    def excess(mu: float) -> float:
        first = stats.norm.cdf(mu / 2 - epsilon / mu)
        return float(first - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - delta)

    return float(brentq(excess, 1e-4, 20.0, xtol=1e-10))


def _share(ran: Ran, moved: float) -> float:
    """One party's standard deviation, where a record moves everything that is opened by ``moved`` in L2 norm."""
    return moved / _mu(ran.case.epsilon, ran.case.delta) / math.sqrt(ran.study.survivors - ran.case.colluders)


def _psgd(ran: Ran) -> Iterator[Draws]:
    case, unit, T = ran.case, descent_unit(ran), ran.study.protocol["rounds"]
    L, K = LIPSCHITZ[case.loss], len(ran.names)
    if ran.study.proven:  # T rounds compose exactly, and a replaced record moves each sum by 2 L
        yield Draws("noise", "normal", ran.by_party("noise", unit) / _share(ran, 2 * L * math.sqrt(T)))
        return
    rho = ran.by_party("rho", unit)  # (K, T, d)
    if case.protocol == "psgd":
        _, left = slack(case, int(ran.n.sum()))
        # Pr(U <= (sigma^2 eps~ - 2)^2/(4 sigma^2)) = 1 - delta, U chi-square with d degrees of freedom
        q = math.sqrt(stats.chi2(ran.study.d).isf(case.delta))
        sigma = brentq(lambda s: (s * s * left - 2) / (2 * s) - q, math.sqrt(2 / left), 1e9)
        yield Draws("eta", "normal", ran.by_party("eta", unit) / (sigma / math.sqrt(K)))
    else:
        left = case.epsilon
    halved = 2.0 ** np.arange(1, T + 1) if case.protocol == "decaying-budget" else np.ones(T)
    beta = left / halved / (2 * L)
    yield Draws("rho", "l2", (rho * beta[None, :, None]).reshape(-1, ran.study.d))


def _dp_gd(ran: Ran) -> Iterator[Draws]:
    section = ran.study.protocol
    # With [dropouts] there is noise for every sum that may be made again, and the shares of the fewest are enough.
    moved = 2 * min(section["clip"], LIPSCHITZ[ran.case.loss]) * math.sqrt(section["rounds"] + ran.study.retries)
    yield Draws("noise", "normal", ran.by_party("noise", 2.0**28) / _share(ran, moved))


def _longest(Lambda: float) -> float:
    """R: no minimiser of the logistic loss is longer."""
    R = math.sqrt(0.2784645427610738 / Lambda)
    return R if R > 1.2784645427610738 else float(brentq(lambda r: Lambda * r - 1 / (1 + math.exp(r)), 0, R))


def _local_aggregation(ran: Ran) -> Iterator[Draws]:
    case, K, chosen = ran.case, len(ran.names), ran.study.protocol
    if not ran.study.proven:
        drawn = ran.by_party("noise", 2.0**32) / K  # P_j draws K eta_j
        if chosen.get("noise") == "l2":  # beta = n_j lambda eps/2
            yield Draws("eta", "l2", drawn * (ran.n * case.Lambda * case.epsilon / 2)[:, None])
        else:  # b = 2/(n_j eps lambda), and our Lambda is twice the paper's lambda
            yield Draws("eta", "laplace", drawn / (4 / (ran.n * case.epsilon * case.Lambda))[:, None])
        return
    # A replaced record moves w_j by 2 s/(n_j Lambda) and by 2 R at most; s = sigma(R) is the longest slope.
    R = _longest(case.Lambda)
    s, label, most = 1 / (1 + math.exp(-R)), "noise", 2 * R
    if chosen.get("weights") == "sizes":  # the sum of n_j w_j moves as far for every n_j
        n, most = 1.0, math.inf
    elif chosen.get("scale") == "floor":
        n = float(case.min_records)
    else:
        k, n = size_class(ran)
        label = f"noise of class {k}"
    moved = min(2 * s / (n * case.Lambda), most)
    yield Draws("noise", "normal", ran.by_party(label, 2.0**40) / _share(ran, moved))


def _weighted(ran: Ran) -> Iterator[Draws]:
    """Records without features have gradients 0, so theta_T = -eta sum_t (1 - eta Lambda)^(T-1-t) z_t."""
    case, section = ran.case, ran.study.protocol
    by_size, T, eta = section.get("weights", "sizes") == "sizes", section["rounds"], section["learning_rate"]
    G, n = LIPSCHITZ[case.loss], ran.n.sum() if by_size else len(ran.n) * case.min_records
    if ran.study.proven:  # the noise on a party's own sum keeps the target alone
        sigma = 2 * G * math.sqrt(T) / _mu(case.epsilon, case.delta) / ran.n
    else:  # equation (3)
        sigma = np.full(len(ran.n), math.sqrt(section["c"] * G**2 * T * math.log(1 / case.delta)) / (n * case.epsilon))
        part = ran.n / ran.n.sum() * 4 * len(ran.n)  # a party with less than smallest_part adds more
        sigma = sigma / np.minimum(1.0, part) if by_size else sigma
    assert all(not data.X.any() for data in ran.data.values()) or T == 1
    local = ran.by_party("local descent", 2.0**28) / (ran.n[:, None] if by_size else 1.0)
    if T == 1:
        zero = np.zeros(ran.study.d)
        moved = [eta * gradient(case.loss, data.X, data.y, zero) / len(data.y) for data in ran.data.values()]
        local = local + np.array(moved)
    gains = eta * math.sqrt(sum((1 - eta * case.Lambda) ** (2 * t) for t in range(T)))
    yield Draws("z", "normal", local / (sigma * gains)[:, None])


def _input_noise(ran: Ran) -> Iterator[Draws]:
    """Records without features, and a penalty so heavy that all scores stay near 0, where the loss has the slope -1/2.

    So the minimiser on the noisy copies is theta_j = mean_i y_i noise_i/(2 Lambda), to within a per cent or two.
    """
    case, section = ran.case, ran.study.protocol
    assert all(not data.X.any() for data in ran.data.values())
    if ran.study.proven:  # what the label leaves of epsilon; two records are 2 apart at most
        sd = 2 / _mu(case.epsilon - section["epsilon_y"], case.delta)
    elif section.get("noise") == "l2":  # the density exp(-(alpha/2) |n|)
        sd = math.sqrt(ran.study.d + 1) / (section["alpha"] / 2)
    else:
        sd = 1 / section["alpha"]
    local = ran.by_party("classifier", 2.0**28)
    yield Draws("noise on records", "normal", local * (2 * case.Lambda * np.sqrt(ran.n) / sd)[:, None])


def _votes(ran: Ran) -> Iterator[Draws]:
    case, C, M = ran.case, ran.case.classes or 2, len(ran.names)
    if ran.study.proven:  # a party changes a counter, or two of them, at every point
        moved = math.sqrt(case.points * (1 if C == 2 else 2))
        yield Draws("noise", "normal", ran.by_party("noise", 2.0**10) / _share(ran, moved))
        return
    beta = case.Lambda * case.epsilon / (math.sqrt(2) if case.classes else 2)
    if case.protocol == "soft":
        beta *= M
        if ran.study.protocol.get("private_auxiliary"):
            beta *= case.points / (case.points + M - 1)
    eta = np.array(ran.drawn(CHARLIE, "eta"), dtype=np.float64) / 2**40
    yield Draws("eta", "l2", eta[None, :] * beta)


def _whitened(ran: Ran) -> Iterator[Draws]:
    """The grid is fitted to the noise: a share's is 2^32 units, and that of a product 2^32/sqrt(2)."""
    pairs = ran.study.d * (ran.study.d - 1) // 2
    drawn = ran.by_party("noise", 2.0**32)
    yield Draws("noise on products", "normal", drawn[:, :pairs] * math.sqrt(2))
    yield Draws("noise", "normal", drawn[:, pairs:])


def _glm(ran: Ran) -> Iterator[Draws]:
    """The same grid; only there are more products."""
    pairs, _ = GlmPlan(ran.study, 1).numbers_drawn
    drawn = ran.by_party("noise", 2.0**32)
    yield Draws("noise on products", "normal", drawn[:, :pairs] * math.sqrt(2))
    yield Draws("noise", "normal", drawn[:, pairs:])


def _summary(ran: Ran) -> Iterator[Draws]:
    """A replaced record moves two counts of each histogram by 1."""
    noise = ran.by_party("noisy counts", 2.0**10) - np.array([counts_of(ran, name) for name in ran.names])
    yield Draws("noise on counts", "normal", noise / _share(ran, math.sqrt(2 * (ran.case.features + 1))))


_DRAWS: dict[str, Callable[[Ran], Iterator[Draws]]] = {
    "psgd": _psgd,
    "noisy-gradient": _psgd,
    "decaying-budget": _psgd,
    "dp-gd": _dp_gd,
    "local-aggregation": _local_aggregation,
    "weighted-dp": _weighted,
    "input-noise": _input_noise,
    "vote": _votes,
    "soft": _votes,
    "dp-whitened": _whitened,
    "dp-glm": _glm,
    "summary": _summary,
}


def draws_of(ran: Ran) -> list[Draws]:
    """Return the noise that a run's stores hold, each kind divided by the scale that its paper or proof demands."""
    return list(_DRAWS[ran.case.protocol](ran))

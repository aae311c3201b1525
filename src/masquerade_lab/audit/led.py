"""Audits of proofs that count long gradients: ``gop``, ``weighted-dp`` and ``central-dp``.

Their proofs count two gradients of length 1 that point away from each other. Two records have such gradients only where
both are labelled wrongly, and by far. So here all records but one are the same: they lead the descent, or the
minimiser, far along the first axis. The canary lies to one side of that axis or to the other. At 70 degrees it still
counts as labelled wrongly, and most of its gradient points to its side.

So many equal records are one record with a weight. All runs descend together, one row each, with noise of the fast law;
tests compare them with the protocols' own functions.
"""

import math
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import TOLERANCE
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.noise.proven_objective import Perturbation, perturbation
from masquerade_core.study import Study
from masquerade_lab.audit.audit import Audit
from masquerade_lab.audit.canary import proof, proven
from masquerade_lab.audit.source import Source
from masquerade_lab.baselines import gop
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.weighted_dp import public as weighted_dp

__all__ = ["LEADERS", "Led", "descents", "led_proofs", "minimisers", "objective_noise"]

LEADERS = 100_000
"""Records in all, of one party or of everybody."""

_RUNS, _QUICK = 20_000, 10_000
_STEPS = 60  # of Newton's method

_Array = NDArray[np.float64]


class Led(NamedTuple):
    """``n`` records: ``n`` - 1 at the first axis, labelled -1, and a canary labelled +1 at an angle to that axis."""

    n: int
    degrees: float

    @property
    def X(self) -> _Array:  # noqa: N802  the field's letter
        """The leader and the canary, shape (2, 2)."""
        angle = math.radians(self.degrees)
        return np.array([[1.0, 0.0], [math.cos(angle), math.sin(angle)]])

    @property
    def y(self) -> _Array:
        """Their labels, shape (2,)."""
        return np.array([-1.0, 1.0])

    @property
    def counts(self) -> _Array:
        """How often each of them stands in the data set, shape (2,)."""
        return np.array([self.n - 1.0, 1.0])

    def gradients(self, points: _Array, loss: str) -> _Array:
        """Return the sum of all records' gradients at each point; both have the shape (runs, 2)."""
        sums: _Array = (loss_of(loss).derivative(self.y * (points @ self.X.T)) * self.y * self.counts) @ self.X
        return sums

    def records(self) -> Dataset:
        """Return all ``n`` records, for the protocols' own functions."""
        times = self.counts.astype(int)
        return Dataset.from_unit_ball(np.repeat(self.X, times, axis=0), np.repeat(self.y, times))


# --- weighted-dp and central-dp -------------------------------------------------------------------


def descents(study: Study, sigma: Fraction, led: Led, runs: int, source: Source) -> _Array:
    """Return where many runs of :func:`~masquerade_protocols.blocks.local_descent.local_descent` end, shape (runs, 2).

    Parameters
    ----------
    sigma : Fraction
        Standard deviation of a coordinate of the noise on the *sum* of gradients.
    """
    chosen, Lambda = local_descent.DescentParameters.model_validate(study.protocol), study.model.regularization
    theta, bits = np.zeros((runs, 2)), local_descent.FRACTION_BITS
    for _ in range(chosen.rounds):
        gradient = np.rint(led.gradients(theta, study.model.loss) * 2.0**bits) / 2.0**bits
        mean = (gradient + source.gaussian(sigma, (runs, 2), bits)) / led.n
        theta = theta - chosen.learning_rate * (mean + Lambda * theta)
    return theta


def _descent_scores(
    study: Study, sigma: Fraction, degrees: float, runs: int, moved: bool, source: Source, factor: Fraction
) -> _Array:
    """Look at the last coordinate, along which nobody but the canary pulls."""
    side: _Array = descents(study, sigma * factor, Led(LEADERS, degrees if moved else -degrees), runs, source)[:, -1]
    return side


def _descent(protocol: str, adversary: str) -> Audit:
    study, degrees = proven(protocol, rounds=100, regularization=0.0, section={"learning_rate": 7.5}), 70
    if protocol == "weighted-dp":
        sigma = LEADERS * weighted_dp.plan(study, 2 * LEADERS).sigma_at(LEADERS)
    else:
        sigma = local_descent.proven_noise(study, 100).share / local_descent.UNIT
    return proof(
        protocol,
        study,
        partial(_descent_scores, study, sigma, degrees),
        adversary=adversary,
        canary="a unit vector 70 degrees to one side of 99,999 others, or to the other side",
        runs=_RUNS,
        quick=_QUICK,
        how="own plan and loss; all runs descend together, with noise by the fast law",
        cost=0.03,
    )


# --- gop ------------------------------------------------------------------------------------------


def objective_noise(study: Study, n: int) -> Perturbation:
    """Return the noise of a proven ``gop`` with n records."""
    return perturbation(
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        Lambda=study.model.regularization,
        N=n,
        c=float(loss_of(study.model.loss).c),
        d=study.d,
        tolerance=TOLERANCE,
        grid=2.0**-gop.FRACTION_BITS,
    )


def minimisers(study: Study, led: Led, eta: _Array, extra: float) -> _Array:
    """Return the minimiser of ``gop``'s objective for each eta, by Newton's method; both have the shape (runs, 2).

    Parameters
    ----------
    extra : float
        Delta, the curvature that ``gop`` adds.
    """
    loss, curvature = loss_of(study.model.loss), study.model.regularization + extra
    outer = led.X[:, :, None] * led.X[:, None, :]
    w = np.zeros_like(eta)
    for _ in range(_STEPS):
        gradient = (led.gradients(w, study.model.loss) + eta) / led.n + curvature * w
        if np.linalg.norm(gradient, axis=1).max() <= TOLERANCE:
            return w
        bends = loss.curvature(led.y * (w @ led.X.T)) * led.counts / led.n
        hessians = np.einsum("ri,ijk->rjk", bends, outer) + curvature * np.eye(2)
        step = np.linalg.solve(hessians, gradient[:, :, None])[:, :, 0]
        length = np.linalg.norm(step, axis=1, keepdims=True)
        w = w - step / np.maximum(length, 1.0)  # far away, Newton's steps overshoot
    raise AssertionError("the minimisers of an audit were not found, which is this audit's own fault")


def _objective_scores(study: Study, degrees: float, runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Release the minimiser, from which the adversary computes the length of eta under D and under D'."""
    pair = [Led(LEADERS, -degrees), Led(LEADERS, degrees)]
    noise, bits = objective_noise(study, LEADERS), gop.FRACTION_BITS
    eta, off = (source.gaussian(sigma * factor, (runs, 2), bits) for sigma in (noise.sigma, noise.output))
    w = minimisers(study, pair[moved], eta, float(noise.Delta)) + off
    curvature = study.model.regularization + float(noise.Delta)
    taken = [led.gradients(w, study.model.loss) + led.n * curvature * w for led in pair]  # eta, but for the sign
    return np.asarray(np.sum(taken[0] ** 2, axis=1) - np.sum(taken[1] ** 2, axis=1))


def _gop() -> Audit:
    study, degrees = proven("gop", regularization=3e-4), 62
    return proof(
        "gop",
        study,
        partial(_objective_scores, study, degrees),
        adversary="whoever sees the released model",
        canary="a unit vector 62 degrees to one side of 99,999 others, or to the other side",
        runs=_RUNS,
        quick=_QUICK,
        how="own noise and loss; all runs minimise together, with noise by the fast law",
        cost=0.01,
    )


def led_proofs() -> tuple[Audit, ...]:
    """Return the audits of this module."""
    return (
        _gop(),
        _descent("weighted-dp", "everybody but the record's party: the local descent of that party alone"),
        _descent("central-dp", "whoever sees the released model"),
    )

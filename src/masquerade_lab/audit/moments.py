"""Audits of ``dp-whitened``: neighbours that move its noisy sums as far as the proof allows, or nearly.

The adversary also chooses the public numbers from which contributions are computed: the centre, and the point at which
gradients are taken. The proof allows that.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import cos, radians, sin

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.study import Study
from masquerade_lab.audit.audit import Audit, Gate
from masquerade_lab.audit.canary import study_of
from masquerade_lab.audit.source import Source
from masquerade_protocols.blocks.adaptive_sums import draw_noise
from masquerade_protocols.dp_whitened import vectors
from masquerade_protocols.dp_whitened.estimates import Centre, Point, Scorer
from masquerade_protocols.dp_whitened.public import SIGMA, Plan, numbers_drawn

__all__ = ["moments"]

_Array = NDArray[np.float64]
_Integers = NDArray[np.int64]
_Sums = Sequence[tuple[_Integers, ...]]
"""For each sum, what the one record and the other add to it; all other records are known, and left out."""

_D = 2
_PRODUCTS = 1  # how many products of two different coordinates there are
_FEW, _MANY = 2, 1000  # records in all: so few that second moments have nearly all of mu^2, and enough for every sum


def _record(degrees: float, label: float) -> Dataset:
    angle = radians(degrees)
    return Dataset.from_unit_ball(np.array([[cos(angle), sin(angle)]]), np.array([label]))


def _second_moments(plan: Plan) -> _Sums:
    centre, B = Centre.none(_D, 1), plan.moments(centred=False)
    pair = (_record(0, 1.0), _record(60, -1.0))
    return [tuple(vectors.moments_sum(record, centre, B) for record in pair)]


def _all_sums(plan: Plan) -> _Sums:
    pair = (_record(0, -1.0), _record(180, -1.0))
    centre, B = Centre(np.zeros(_D), 1.0, np.zeros(1), centred=True), plan.moments(centred=True)
    point = Point(
        np.eye(_D), 1.0, 2.0**-20, np.array([[1e-6], [0.0]]), np.array([6.0]), centred=True
    )  # all but sure of the label +1
    gradients = tuple(
        vectors.gradient_sum(record, centre, point, plan.gradient, weighted=plan.weighs) for record in pair
    )
    scorer = Scorer(np.eye(_D)[:, :1], np.zeros(1), np.zeros(1), np.full(1, 0.1))  # they lie at its two ends
    return [
        tuple(vectors.mean_sum(record, plan.first_mean) for record in pair),
        tuple(vectors.shift_sum(record, centre, plan.second_mean, distance=plan.plenty) for record in pair),
        tuple(vectors.moments_sum(record, centre, B) for record in pair),
        *[gradients] * plan.rounds,
        tuple(vectors.counts_sum(record, scorer, plan.counts) for record in pair),
    ]


def _scores(
    sums: _Sums, moments_at: int, shares: int, runs: int, moved: bool, source: Source, factor: Fraction
) -> _Array:
    """Add up, over all sums, how much likelier the opened numbers are with the other record than with the one."""
    scores = np.zeros(runs)
    for run in range(runs):
        drawn = sum(np.frombuffer(draw_noise(source.rng, numbers_drawn(_D, 1)), dtype="<i8") for _ in range(shares))
        products, others = np.split(float(factor) * np.asarray(drawn, dtype=np.float64), [_PRODUCTS])
        for i, (one, other) in enumerate(sums):
            count = _PRODUCTS if i == moments_at else 0
            noise, others = np.split(others, [len(one) - count])
            opened = (other if moved else one) + np.concatenate([products[:count], noise])
            weights = np.append(np.full(count, 2.0), np.ones(len(noise))) / SIGMA**2
            scores[run] += (weights * (other - one)) @ opened
    return scores


def _study() -> Study:
    return study_of("dp-whitened", parties=5, d=_D, epsilon=1.0, delta=0.05, colluders=4)


def _audit(name: str, study: Study, sums: _Sums, moments_at: int, canary: str, quick: int) -> Audit:
    return Audit(
        name=name,
        protocol=study.study.protocol,
        gate=Gate.HOLDS,
        adversary="Charlie with 4 of 5 parties, who chooses the public numbers",
        canary=canary,
        epsilon=study.privacy.epsilon,
        delta=study.privacy.delta,
        scores=partial(_scores, sums, moments_at, study.honest),
        runs=4000,
        quick=quick,
        proved=study.privacy.epsilon,
        how="own contributions and shares of noise; the sums as they are opened",
        cost=1.4,
    )


def moments() -> tuple[Audit, ...]:
    """Return the audits of ``dp-whitened``."""
    study = _study()
    return (
        _audit(
            "dp-whitened, second moments",
            study,
            _second_moments(Plan(study, _FEW)),
            0,
            "one of two unit vectors 60 degrees apart, with different labels",
            3000,
        ),
        _audit(
            "dp-whitened, all sums",
            study,
            _all_sums(Plan(study, _MANY)),
            2,
            "one of two opposite unit vectors, both labelled -1",
            0,
        ),
    )

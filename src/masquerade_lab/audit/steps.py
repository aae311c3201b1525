"""An audit of ``dp-glm``: two records that move its six noisy sums together nearly as far as the proof allows.

The adversary also chooses the public numbers from which contributions are computed: where the columns lie, and the
coefficients at which steps are taken. The proof allows that.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import Covariates
from masquerade_core.study import Study
from masquerade_lab.audit.audit import Audit, Gate
from masquerade_lab.audit.canary import study_of
from masquerade_lab.audit.source import Source
from masquerade_protocols.blocks.adaptive_sums import SIGMA, draw_noise
from masquerade_protocols.dp_glm import vectors
from masquerade_protocols.dp_glm.estimates import Design, Located, Location, Point
from masquerade_protocols.dp_glm.public import SUMS, Plan

__all__ = ["steps"]

_N = 100
_LONG = 1000.0  # the length of either record in the adversary's coordinates

_Array = NDArray[np.float64]
_Integers = NDArray[np.int64]


def _moves(plan: Plan) -> dict[str, tuple[_Integers, _Integers]]:
    """Return for each sum what the one record and the other add to it; all other records are known, and left out."""
    pair = [Covariates(np.array([[u]]), np.array([1.0])) for u in (1.0, -1.0)]
    design = Design(np.zeros(1), np.full(1, 1 / _LONG), np.eye(1))
    # The first record is undecided and fills the Hessian's part; the other is sure of the wrong label, and has none.
    point = Point(np.array([-10.0, 10 / _LONG]), 0.501 * _LONG, _LONG**2 / 4)
    rows: dict[str, Callable[[_Array, _Array], _Array]] = {
        "location": vectors.location(plan.columns, linear=False),
        "spread": vectors.spread(plan.columns, Location(np.zeros(1), np.ones(1), np.zeros(0), 0.5), linear=False),
        "moments": vectors.moments(Located(np.zeros(1), np.full(1, 1 / _LONG), 0.5), linear=False),
        **{label: vectors.step(design, point, number) for number, label in enumerate(SUMS[3:], 1)},
    }

    def added(record: Covariates, label: str) -> _Integers:
        return vectors.contribution(record, rows[label], plan.columns, plan.scale(label))

    return {label: (added(pair[0], label), added(pair[1], label)) for label in SUMS}


def _scores(plan: Plan, shares: int, runs: int, moved: bool, source: Source, factor: Fraction) -> _Array:
    """Add up, over all sums, how much likelier the opened numbers are with the other record than with the one."""
    scores, moves = np.zeros(runs), _moves(plan)
    for run in range(runs):
        drawn = sum(np.frombuffer(draw_noise(source.rng, plan.numbers_drawn), dtype="<i8") for _ in range(shares))
        noise = float(factor) * np.asarray(drawn, dtype=np.float64)
        of_products, of_others = np.split(noise, [plan.numbers_drawn[0]])
        for label, (one, other) in moves.items():
            count = plan.sums[label].products
            first, of_products = np.split(of_products, [count])
            rest, of_others = np.split(of_others, [len(one) - count])
            opened = (other if moved else one) + np.concatenate([first, rest])
            weights = np.append(np.full(count, 2.0), np.ones(len(rest))) / SIGMA**2
            scores[run] += (weights * (other - one)) @ opened
    return scores


def _study() -> Study:
    return study_of("dp-glm", parties=5, d=1, epsilon=1.0, delta=0.05, colluders=4)


def steps() -> tuple[Audit, ...]:
    """Return the audit of ``dp-glm``."""
    study = _study()
    return (
        Audit(
            name="dp-glm, all sums",
            protocol="dp-glm",
            gate=Gate.HOLDS,
            adversary="Charlie with 4 of 5 parties, who chooses the public numbers",
            canary="one of two opposite records, both with the positive label",
            epsilon=study.privacy.epsilon,
            delta=study.privacy.delta,
            scores=partial(_scores, Plan(study, _N), study.honest),
            runs=4000,
            quick=3000,
            proved=study.privacy.epsilon,
            how="own contributions and shares of noise; the sums as they are opened",
            cost=2.0,
        ),
    )

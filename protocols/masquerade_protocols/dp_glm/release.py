"""From the agreed result to the released coefficients: in the columns' own units, and told only where they can be.

Every participant computes this from the same numbers, and must come to the same bits. So nothing here is left to a
library of linear algebra: products are added up exactly rounded.
"""

import math
from collections.abc import Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from masquerade_core.coefficients import Coefficient, Coefficients
from masquerade_core.model import Model, Published
from masquerade_core.study import INTERCEPT, Feature, Label
from masquerade_protocols.dp_glm.estimates import Fit, Located
from masquerade_protocols.dp_glm.public import LEAST_STRENGTH, Plan

__all__ = ["QUANTILE", "WIDER", "WIDEST", "WIDEST_INTERCEPT", "refusal", "release", "too_few"]

_Floats = NDArray[np.float64]

QUANTILE = 1.96
"""Half of an interval, in standard errors."""

WIDER = 1.02
"""How much wider a standard error is made, for what the noise does to the covariance itself."""

WIDEST = 1.5
"""A slope's standard error, per standard deviation of the column, from which it is not told."""

WIDEST_INTERCEPT = 6.0
"""The same of the intercept."""

_LONGEST_STEP = 1.0

_TOO_FEW = f"the records are too few beside the noise: the strength is below {LEAST_STRENGTH}"
_NOT_SETTLED = "the last step was too long: the noise or the label leaves the estimate unsettled"
_ONE_LABEL = "nearly all labels are equal, as far as the noise lets that be seen"
_DETERMINED = "the label is nearly determined by the columns"
_NO_SPREAD = "the noise hides it: the column is nearly constant, or nearly follows from other columns"
_NO_INTERCEPT = "its interval would be too wide to tell anything"
_NO_SLOPE = "no other coefficient can be told"


def too_few(plan: Plan) -> Model:
    """Return the release where nothing can be told whatever the records say; no noisy sum was opened for it."""
    p = plan.columns.p
    nothing = _nothing(plan, _TOO_FEW, ())
    return Model((0.0,) * p, None, offset=(0.0,), published=Published(plan.N), coefficients=nothing)


def refusal(plan: Plan, place: Located, fit: Fit) -> str:
    """Return why nothing can be told of all coefficients; empty where something can."""
    if plan.linear:
        return _NOT_SETTLED if fit.last_step >= _LONGEST_STEP else ""
    if fit.last_step >= _LONGEST_STEP:
        rare = min(place.yb, 1 - place.yb)
        return _ONE_LABEL if rare < 3 * _sd_of_share(plan) else _NOT_SETTLED
    return _DETERMINED if fit.longest >= plan.longest else ""


def release(plan: Plan, place: Located, fit: Fit) -> Model:
    """Return the released model: the coefficients that can be told, and the weights that follow from these alone."""
    m, s = place.m.tolist(), place.s.tolist()
    middles, halves = _units(plan.study.features)
    means = tuple(middle + half * mean for middle, half, mean in zip(middles, halves, m, strict=True))
    published = Published(plan.N) if plan.linear else Published(plan.N, (place.yb,), _sd_of_share(plan))
    # The label is yb + sy times the linear predictor, between its bounds; in its own units that is origin + unit times.
    origin, unit = 0.0, 1.0
    if plan.linear:
        middle, half = _label(plan.study.label)
        origin, unit = middle + half * place.yb, half * place.sy
    if reason := refusal(plan, place, fit):
        nothing = _nothing(plan, reason, means, fit)
        offset = place.yb if plan.linear else math.log(place.yb / (1 - place.yb))
        return Model((0.0,) * len(m), None, offset=(offset,), published=published, coefficients=nothing)
    to_own = [unit / (spread * half) for spread, half in zip(s, halves, strict=True)]  # a slope in units of the column
    at_zero = [unit, *(-mean * factor for mean, factor in zip(means, to_own, strict=True))]
    V, Vs = (_moved(M.tolist(), at_zero, to_own) for M in (fit.V, fit.Vs))
    beta, move = fit.beta.tolist(), fit.move.tolist()
    estimates = [origin + _dot(at_zero, beta), *(b * k for b, k in zip(beta[1:], to_own, strict=True))]
    moves = [_dot(at_zero, move), *(b * k for b, k in zip(move[1:], to_own, strict=True))]
    numbers = set(plan.columns.numbers)
    # Newton's step is wrong by about the square of how far it went, per standard deviation of a column of numbers.
    spreads = [1.0, *(s[j] * halves[j] if j in numbers else 1.0 for j in range(len(s)))]
    for j, (D, spread) in enumerate(zip(moves, spreads, strict=True)):
        V[j][j] += 0.0 if plan.linear else (0.5 * D * D * spread) ** 2
    remainder = 0.0 if plan.linear else (0.5 * move[0] ** 2) ** 2
    at_means = _coefficient(
        INTERCEPT,
        origin + unit * beta[0],
        unit**2 * (float(fit.V[0, 0]) + remainder),
        unit**2 * float(fit.Vs[0, 0]),
        WIDEST_INTERCEPT * unit,
    )
    slopes = [
        _coefficient(name, estimates[j], V[j][j], Vs[j][j], WIDEST * unit / (s[j - 1] * halves[j - 1]))
        for j, name in enumerate(plan.study.covariates, 1)
    ]
    first = _coefficient(INTERCEPT, estimates[0], V[0][0], Vs[0][0], WIDEST_INTERCEPT * unit)
    if not any(row.told for row in slopes):
        first, at_means = (Coefficient(INTERCEPT, reason=_NO_SLOPE),) * 2
    rows = (first, *slopes)
    told = [row.told for row in rows]
    wider = WIDER**2
    coefficients = Coefficients(
        family="linear" if plan.linear else "logistic",
        records=plan.N,
        mu=plan.mu,
        strength=plan.strength,
        rows=rows,
        at_means=at_means,
        means=means,
        covariance=tuple(tuple(wider * v for v in compress(row, told)) for row in compress(V, told)),
        weighted_down=fit.weighted_down,
        beyond=fit.beyond if plan.linear else None,
        last_step=fit.last_step,
        weak=fit.weak,
    )
    sy, yb = (place.sy, place.yb) if plan.linear else (1.0, 0.0)
    weights = [sy * b / spread if row.told else 0.0 for b, spread, row in zip(beta[1:], s, slopes, strict=True)]
    offset = math.fsum([yb, sy * beta[0], *(-weight * mean for weight, mean in zip(weights, m, strict=True))])
    return Model(tuple(weights), None, offset=(offset,), published=published, coefficients=coefficients)


def _sd_of_share(plan: Plan) -> float:
    """Return the sd of the noise on the share of positive labels."""
    return plan.sd("location") * math.sqrt(2.7)


def _nothing(plan: Plan, reason: str, means: tuple[float, ...], fit: Fit | None = None) -> Coefficients:
    rows = tuple(Coefficient(name, reason=reason) for name in (INTERCEPT, *plan.study.covariates))
    beyond = 0.0 if fit is None else fit.beyond
    return Coefficients(
        family="linear" if plan.linear else "logistic",
        records=plan.N,
        mu=plan.mu,
        strength=plan.strength,
        rows=rows,
        at_means=rows[0],
        means=means,
        covariance=(),
        weighted_down=0.0 if fit is None else fit.weighted_down,
        beyond=beyond if plan.linear else None,
        last_step=0.0 if fit is None else fit.last_step,
        weak=0 if fit is None else fit.weak,
        refused=reason,
    )


def _label(label: Label) -> tuple[float, float]:
    """Return the middle of a label's bounds and half of their distance; 0 and 1 where it is no number."""
    if label.min is None or label.max is None:
        return 0.0, 1.0
    return label.min / 2 + label.max / 2, label.max / 2 - label.min / 2


def _units(features: Sequence[Feature]) -> tuple[list[float], list[float]]:
    """Return for each covariate the middle of its bounds and half of their distance; levels have 0 and 1."""
    middles: list[float] = []
    halves: list[float] = []
    for f in features:
        numeric = f.levels is None and f.edges is None and f.min is not None and f.max is not None
        middles += [f.min / 2 + f.max / 2 if numeric else 0.0] * len(f.covariates)  # type: ignore[operator]  # numeric
        halves += [f.max / 2 - f.min / 2 if numeric else 1.0] * len(f.covariates)  # type: ignore[operator]  # numeric
    return middles, halves


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def _moved(V: list[list[float]], at_zero: list[float], to_own: list[float]) -> list[list[float]]:
    """Return the covariance of the intercept at 0 and of the slopes in their own units."""
    factors = [1.0, *to_own]
    with_intercept = [_dot(at_zero, row) for row in V]
    rows = [[v * factors[i] * factors[j] for j, v in enumerate(row)] for i, row in enumerate(V)]
    rows[0] = [_dot(at_zero, with_intercept), *(v * k for v, k in zip(with_intercept[1:], to_own, strict=True))]
    for j in range(1, len(V)):
        rows[j][0] = rows[0][j]
    return rows


def _coefficient(name: str, estimate: float, V: float, Vs: float, widest: float) -> Coefficient:
    """Return a coefficient, told if its standard error is smaller than the widest that is told."""
    # Written so that a number that is not finite fails as well.
    if not (V > 0 and Vs >= 0 and (se := WIDER * math.sqrt(V)) < widest and math.isfinite(estimate)):
        return Coefficient(name, reason=_NO_INTERCEPT if name == INTERCEPT else _NO_SPREAD)
    half = QUANTILE * se
    return Coefficient(name, estimate, se, estimate - half, estimate + half, max(0.0, 1 - math.sqrt(min(1.0, Vs / V))))

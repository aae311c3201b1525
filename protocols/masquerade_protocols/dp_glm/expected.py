"""The forecast of a ``dp-glm`` run, from public numbers and before anybody joins."""

import math
from collections.abc import Iterator

from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.privacy.expectation import (
    Expectation,
    ExpectedInterval,
    Verdict,
    counted_records,
    rounded_up,
)
from masquerade_core.study import INTERCEPT, Feature, Study
from masquerade_protocols.dp_glm.public import LEAST_STRENGTH, Plan, width_ratio
from masquerade_protocols.dp_glm.release import QUANTILE, WIDER, WIDEST, WIDEST_INTERCEPT

__all__ = ["expected"]

_SPREAD = 1 / 6
"""A number's standard deviation, as a part of the distance between its bounds."""

_LOOSE = (
    "Where a column spreads half as much, its interval is twice as wide. So a width is a guess: it may be four times "
    "too small or too large."
)

_LARGEST_ODDS = 1e6


def expected(study: Study) -> Expectation:
    """Say whether coefficients can be told, and how much wider the noise makes their intervals."""
    N, words = counted_records(study)
    plan = Plan(study, N)
    s = plan.strength
    factor = LEAST_STRENGTH / s
    mu = mu_of(study.privacy.epsilon, study.privacy.delta)
    enough_epsilon = rounded_up(epsilon_of(factor * mu, study.privacy.delta))
    enough = math.ceil(factor * N)
    share = None if plan.linear else study.study.commoner_share
    ratio = width_ratio(study, N, share or 0.5)
    measured = f"The strength s = N mu/sqrt(d) is {s:,.0f}, where {LEAST_STRENGTH} is the least"
    if ratio is None:
        text = (
            f"With {words}, no coefficient can be told. {measured}: {enough:,} records would do, or epsilon = "
            f"{enough_epsilon:g}. The run would end without a noisy sum."
        )
        return Expectation(Verdict.NOTHING, text, N, s, enough, enough_epsilon, None, "coefficients")
    labels = ", if both labels are common; wider if one is rare" if share is None and not plan.linear else ""
    text = (
        f"With {words}, expect coefficients with intervals about {ratio:.1f} times as wide as without noise{labels}. "
        f"{measured}."
    )
    return Expectation(
        Verdict.COEFFICIENTS,
        text,
        N,
        s,
        enough,
        enough_epsilon,
        None,
        "coefficients",
        tuple(_intervals(plan, ratio, share or 0.5)),
        _assumed(plan, share),
    )


def _assumed(plan: Plan, share: float | None) -> str:
    """Return in words what the intervals assume of the records."""
    if plan.linear:
        labels, label = "levels are", ", and the label spreads by a sixth of its bounds"
    elif share is None:
        labels, label = "levels and labels are", ""
    else:
        labels, label = "levels are", f", and the commoner label has a share of {share:g}"
    return (
        f"Assumed: a number spreads by a sixth of its bounds (standard deviation), {labels} equally common, columns do "
        f"not go together and tell little of the label{label}. {_LOOSE}"
    )


def _intervals(plan: Plan, ratio: float, share: float) -> Iterator[ExpectedInterval]:
    """Yield the interval of each coefficient, the intercept first."""
    label = plan.study.label.number
    unit = 1.0 if label is None else _spread(label)  # of the label: a linear model's residuals spread as it does
    sd = WIDER * ratio * unit / math.sqrt(plan.N * (1.0 if plan.linear else share * (1 - share)))
    at_zero = 1.0
    rows = []
    for f in plan.study.features:
        if f.reference:
            shares = len(f.coordinates)  # a level's share of all records is one of so many
            at_zero += shares - 1
            largest = WIDEST * unit / math.sqrt((1 - 1 / shares) / shares)
            rows += [(name, sd * math.sqrt(2 * shares), largest) for name in f.covariates]
        else:
            at_zero += ((f.min or 0.0) / 2 + (f.max or 0.0) / 2) ** 2 / _spread(f) ** 2
            rows += [(name, sd / _spread(f), WIDEST * unit / _spread(f)) for name in f.covariates]
    for name, se, largest in ((INTERCEPT, sd * math.sqrt(at_zero), WIDEST_INTERCEPT * unit), *rows):
        width = 2 * QUANTILE * se if se < largest else None
        shown = width is not None and not plan.linear and width < math.log(_LARGEST_ODDS)
        yield ExpectedInterval(name, width, math.exp(width) if shown and width is not None else None)


def _spread(f: Feature) -> float:
    return _SPREAD * ((f.max or 0.0) - (f.min or 0.0))

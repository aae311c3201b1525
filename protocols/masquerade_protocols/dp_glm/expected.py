"""What can be expected of a ``dp-glm`` run, from public numbers and before anybody joins."""

import math

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.privacy.expectation import Expectation, Verdict, counted_records, rounded_up
from masquerade_core.study import Study
from masquerade_protocols.dp_glm.public import LEAST_STRENGTH, Plan, width_ratio

__all__ = ["expected"]


def expected(study: Study) -> Expectation:
    """Say whether coefficients can be told, and how much wider the noise makes their intervals."""
    N, words = counted_records(study)
    s = Plan(study, N).strength
    factor = LEAST_STRENGTH / s
    mu = mu_of(study.privacy.epsilon, study.privacy.delta)
    enough_epsilon = rounded_up(epsilon_of(factor * mu, study.privacy.delta))
    enough = math.ceil(factor * N)
    ratio = width_ratio(study, N)
    measured = f"The strength s = N mu/sqrt(d) is {s:,.0f}, where {LEAST_STRENGTH} is the least"
    if ratio is None:
        text = (
            f"With {words}, no coefficient can be told. {measured}: {enough:,} records would do, or epsilon = "
            f"{enough_epsilon:g}. The run would end without a noisy sum."
        )
        return Expectation(Verdict.NOTHING, text, N, s, enough, enough_epsilon, None, "coefficients")
    text = (
        f"With {words}, expect coefficients with intervals about {ratio:.1f} times as wide as without noise, if both "
        f"labels are common; wider if one is rare. {measured}."
    )
    return Expectation(Verdict.COEFFICIENTS, text, N, s, enough, enough_epsilon, None, "coefficients")

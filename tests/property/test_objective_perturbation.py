"""Laws of objective perturbation: its parts never cost more than epsilon together, nor much less."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from masquerade_core.privacy.noise.objective_perturbation import (
    SIGMA_BITS,
    SLACK_BITS,
    Slack,
    compute_slack,
    noise_sigma,
    sigma_share,
)

C = Fraction(1, 4)


@given(
    eps=st.floats(1e-6, 50, allow_subnormal=False),
    Lambda=st.floats(1e-8, 1e3),
    N=st.integers(1, 10**9),
    c=st.sampled_from([C, Fraction(3, 2)]),
)
def test_slack_and_determinants_never_cost_more_than_epsilon(eps: float, Lambda: float, N: int, c: Fraction) -> None:
    slack = compute_slack(eps, Lambda, N, c)
    assert isinstance(slack, Slack)
    assert slack.Delta >= 0
    assert slack.epsilon > 0
    for value in (slack.Delta, slack.epsilon):
        assert (value * (1 << SLACK_BITS)).denominator == 1
    spent = 2 * math.log1p(float(c) / (N * (Lambda + float(slack.Delta))))
    assert float(slack.epsilon) + spent <= eps * (1 + 1e-12)
    assert float(slack.epsilon) + spent >= eps - 2.0**-36 - eps * 2.0**-30 or slack.Delta > 0


@given(
    d=st.integers(1, 40),
    eps=st.floats(1e-4, 50, allow_subnormal=False),
    delta=st.floats(1e-12, 0.9),
    K=st.integers(1, 1000),
)
def test_what_everybody_draws_together_is_enough_and_hardly_more(d: int, eps: float, delta: float, K: int) -> None:
    sigma = noise_sigma(d, eps, delta)
    share = sigma_share(sigma, K)
    assert sigma**2 * Fraction(eps) > 2 * (1 - Fraction(1, 10**9))
    assert sigma**2 <= K * share**2 < (sigma + Fraction(K, 1 << SIGMA_BITS)) ** 2

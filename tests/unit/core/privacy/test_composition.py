"""The composition of costs: no small cost is lost, and each rule gives what its theorem says."""

import math

import pytest

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.accounting import (
    DELTA_UNITS,
    UNITS,
    Cost,
    Total,
    cost_of,
    delta_of,
    down,
    epsilon_of,
    mu_of,
    target,
    up,
)


def total(*costs: Cost) -> Total:
    return sum(map(Total.of, costs), start=Total())


def composed(sum_: Total, delta: float, *, basic_only: bool = False) -> float:
    return sum_.composed(down(delta, DELTA_UNITS), basic_only=basic_only)


def test_costs_are_rounded_up_and_limits_down() -> None:
    assert cost_of(1e-300, 1e-300, 1e-300, 1e-300) == Cost(1, 1, 1, 1)
    assert (up(0.1, UNITS), down(0.1, UNITS)) == (10**11, 10**11)
    assert (up(1 / 3, UNITS), down(1 / 3, UNITS)) == (333333333334, 333333333333)
    assert cost_of(0.0, 0.0) == Cost(0, 0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e-9])
def test_what_is_no_cost_is_refused(value: float) -> None:
    with pytest.raises(LocalProtocolError):
        cost_of(value, 0.0)


def test_two_costs_add_up_exactly_where_nothing_is_better() -> None:
    both = total(cost_of(0.1, 1e-6), cost_of(0.2, 2e-6))
    assert composed(both, 3e-6) == pytest.approx(0.3, rel=1e-12)
    assert composed(both, 2.9e-6) == math.inf


def test_many_small_costs_compose_by_the_advanced_rule_and_few_by_adding_up() -> None:
    many = total(*[cost_of(0.01, 0.0)] * 1000)
    advanced = 1000 * 0.01 * math.tanh(0.005) + math.sqrt(2 * math.log(1e6) * 1000 * 0.01**2)
    assert composed(many, 1e-6) == pytest.approx(advanced, rel=1e-9)
    assert composed(many, 1e-6, basic_only=True) == pytest.approx(10, rel=1e-9)
    assert composed(total(cost_of(0.01, 0.0)), 1e-6) == pytest.approx(0.01, rel=1e-9)


def test_gaussian_releases_compose_to_the_root_of_squares() -> None:
    both = total(cost_of(5.0, 1e-6, 0.3), cost_of(5.0, 1e-6, 0.4))
    assert composed(both, 1e-6) == pytest.approx(epsilon_of(0.5, 1e-6), rel=1e-9)
    assert composed(both, 2e-6, basic_only=True) == pytest.approx(10)


def test_a_gaussian_release_beside_another_leaves_it_less_delta() -> None:
    both = total(cost_of(5.0, 1e-6, 0.5), cost_of(0.1, 4e-7))
    assert composed(both, 1e-6) == pytest.approx(0.1 + epsilon_of(0.5, 6e-7), rel=1e-9)


def test_the_slack_of_gaussian_releases_is_taken_from_delta() -> None:
    plain, slack = (total(cost_of(5.0, 1e-6, 0.5, s)) for s in (0.0, 9e-7))
    assert composed(plain, 1e-6) == pytest.approx(epsilon_of(0.5, 1e-6), rel=1e-9)
    assert composed(slack, 1e-6) == pytest.approx(epsilon_of(0.5, 1e-7), rel=1e-9)
    assert composed(total(cost_of(5.0, 1e-6, 0.5, 1.1e-6)), 1e-6) == 5.0


def test_a_target_that_is_gaussian_keeps_what_it_says_and_several_keep_more_than_by_adding_up() -> None:
    whole = target(1.0, 1e-6, gaussian=True)
    assert delta_of(whole.mu / UNITS, 1.0) == pytest.approx(1e-6, rel=1e-6)
    assert total(whole).fits(up(1.0, UNITS), up(1e-6, DELTA_UNITS))
    assert composed(total(*[whole] * 4), 4e-6) == pytest.approx(epsilon_of(2 * mu_of(1.0, 1e-6), 4e-6), rel=1e-6)
    assert composed(total(*[target(1.0, 1e-6, gaussian=False)] * 4), 4e-6) == 4.0


def test_a_target_without_delta_is_never_gaussian() -> None:
    assert target(1.0, 0.0, gaussian=True) == Cost(10**12, 0)


def test_a_whole_run_never_counts_more_than_its_target() -> None:
    rounds = total(*[cost_of(0.9, 1e-7, 0.01)] * 100)
    assert composed(rounds, 1e-5, basic_only=True) == pytest.approx(90)
    kept = rounds.at_most(target(1.0, 1e-6, gaussian=False))
    assert composed(kept, 1e-5, basic_only=True) == 1.0
    assert kept.mu2 == rounds.mu2


def test_nothing_costs_nothing() -> None:
    assert Total().composed(0) == 0
    assert Total().fits(0, 0)


def test_with_a_delta_of_one_gaussian_releases_keep_any_epsilon() -> None:
    assert composed(total(cost_of(50.0, 0.5, 3.0), cost_of(50.0, 0.5, 3.0)), 1.0) == 0.0

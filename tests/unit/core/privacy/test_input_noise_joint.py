"""The joint cost of noisy features and a randomised label: exactly, against an integral and another library."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.integrate import quad

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.accounting import delta_of, epsilon_of, mu_of
from masquerade_core.privacy.noise.noisy_copies import (
    access_sensitivity,
    copies_delta,
    copies_epsilon,
    delta_with_label,
    largest_alpha,
    proven_alpha,
)

TARGETS = [(1.0, 0.3, 1e-5), (1.0, 0.9, 1e-5), (0.2, 0.1, 0.05), (3.0, 1.0, 1e-9), (10.0, 4.0, 1e-6)]


def _kept(epsilon_y: float) -> float:
    return 1 / (1 + math.exp(-epsilon_y))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)  # scipy.stats takes a hundred times as long for one number


def _integral(shift: float, keeps: tuple[float, float], epsilon: float) -> float:
    """The integral of max(0, P - exp(epsilon) Q) over a label and a number.

    P has N(shift, 1), and the label +1 with probability ``keeps[0]``. Q has N(0, 1), and +1 with probability
    ``keeps[1]``.
    """
    total = 0.0
    for of_p, of_q in (keeps, (1 - keeps[0], 1 - keeps[1])):

        def above(x: float, of_p: float = of_p, of_q: float = of_q) -> float:
            return of_p * _density(x - shift) - math.exp(epsilon) * of_q * _density(x)

        start = (epsilon + math.log(of_q / of_p)) / shift + shift / 2
        low, high = (start, max(start, shift) + 40) if shift > 0 else (min(start, shift) - 40, start)
        middle = min(max(shift, low), high)
        for ends in ((low, middle), (middle, high)):
            total += quad(above, *ends, epsabs=0, epsrel=1e-10, limit=400)[0] if ends[0] < ends[1] else 0.0
    return total


@pytest.mark.parametrize("epsilon_y", [0.05, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("mu", [0.2, 1.0, 4.0])
def test_a_label_and_noisy_features_cost_what_the_integral_says(mu: float, epsilon_y: float) -> None:
    p = _kept(epsilon_y)
    for epsilon in (0.0, 0.5 * epsilon_y, epsilon_y, epsilon_y + 1):
        found = delta_with_label(mu, epsilon_y, epsilon)
        assert found == pytest.approx(_integral(mu, (p, 1 - p), epsilon), rel=1e-8)
        # Either way, and whichever label comes first: noise and labels look the same from both sides.
        for shift, keeps in ((-mu, (p, 1 - p)), (mu, (1 - p, p))):
            assert found == pytest.approx(_integral(shift, keeps, epsilon), rel=1e-8)
        # No pair of records that differ in less is easier to tell apart.
        assert found * (1 + 1e-9) > _integral(mu, (p, p), epsilon)
        assert found * (1 + 1e-9) > _integral(mu / 2, (p, 1 - p), epsilon)


def test_a_label_that_does_not_change_costs_nothing() -> None:
    for mu, epsilon in ((0.2, 0.0), (1.0, 0.7), (4.0, 3.0)):
        assert delta_with_label(mu, 0.0, epsilon) == pytest.approx(delta_of(mu, epsilon), rel=1e-14)


@pytest.mark.parametrize(("epsilon", "epsilon_y", "delta"), TARGETS)
def test_both_together_are_another_library_s_composition(epsilon: float, epsilon_y: float, delta: float) -> None:
    """Their privacy loss distributions are convolved there, on a grid, and rounded up."""
    alpha = largest_alpha(law="gaussian", epsilon=epsilon, delta=delta, copies=3, epsilon_y=epsilon_y)
    features = pld.from_gaussian_mechanism(1 / (2 * alpha * math.sqrt(3)))
    label = pld.from_randomized_response(2 * (1 - _kept(epsilon_y)), 2)
    theirs = features.compose(label).get_epsilon_for_delta(delta)
    ours = copies_epsilon(law="gaussian", alpha=alpha, copies=3, delta=delta, epsilon_y=epsilon_y)
    assert ours == pytest.approx(epsilon, rel=1e-9)
    assert -1e-9 < theirs - ours < 1e-4 + 1e-9
    # The test can fail: the sum of both costs, and either cost alone, are other numbers.
    alone = copies_epsilon(law="gaussian", alpha=alpha, copies=3, delta=delta)
    assert alone + epsilon_y > theirs + 0.002
    assert max(alone, epsilon_y) < ours - 0.01


@pytest.mark.parametrize(("epsilon", "epsilon_y", "delta"), TARGETS)
def test_a_proven_alpha_uses_up_delta_and_is_larger_than_if_costs_were_added(
    epsilon: float, epsilon_y: float, delta: float
) -> None:
    s, p = access_sensitivity(10, 28), _kept(epsilon_y)
    alpha = proven_alpha(law="gaussian", epsilon=epsilon, epsilon_y=epsilon_y, delta=delta, sensitivity=s)
    left = delta - copies_delta(law="gaussian", copies=1, epsilon=epsilon)
    assert (1 - 1e-5) * left < _integral(s * alpha, (p, 1 - p), epsilon) <= left
    assert alpha > 1.0005 * mu_of(epsilon - epsilon_y, left) / s
    # The test can fail: a thousandth more is too much.
    assert _integral(1.001 * s * alpha, (p, 1 - p), epsilon) > left


def test_the_gain_of_an_exact_composition_is_some_four_percent() -> None:
    for epsilon_y, gain in ((0.1, 0.040), (0.3, 0.037), (0.5, 0.033), (0.7, 0.030)):
        s = access_sensitivity(10, 28)
        alpha = proven_alpha(law="gaussian", epsilon=1.0, epsilon_y=epsilon_y, delta=1e-5, sensitivity=s)
        assert alpha * s / mu_of(1 - epsilon_y, 1e-5) - 1 == pytest.approx(gain, abs=5e-4)


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
def test_epsilon_is_the_smallest_that_will_do_and_0_where_none_is_needed(mu: float) -> None:
    for epsilon_y in (0.1, 1.0):
        for delta in (1e-9, 1e-5, 0.05, 0.5, 0.999):
            found = copies_epsilon(law="gaussian", alpha=mu / 2, copies=1, delta=delta, epsilon_y=epsilon_y)
            assert delta_with_label(mu, epsilon_y, found) <= delta
            assert found <= epsilon_of(mu, delta) + epsilon_y
            if found:
                assert delta_with_label(mu, epsilon_y, found * (1 - 1e-9)) > delta
    assert copies_epsilon(law="gaussian", alpha=0.05, copies=1, delta=0.5, epsilon_y=0.1) == 0


def test_more_noise_on_either_is_more_private() -> None:
    by_label = [delta_with_label(0.5, e, 1.0) for e in (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)]
    by_noise = [delta_with_label(mu, 0.3, 1.0) for mu in (1e-9, 0.1, 0.5, 1.0, 5.0, 50.0)]
    assert all(a < b for deltas in (by_label, by_noise) for a, b in pairwise(deltas))
    assert by_noise[-1] == pytest.approx(1)
    with pytest.raises(LocalProtocolError):
        largest_alpha(law="gaussian", epsilon=1.0, delta=1e-5, copies=1, epsilon_y=1.0)


@pytest.mark.parametrize("law", ["gaussian", "l2"])
def test_an_alpha_follows_from_the_distance_of_records_and_the_number_of_copies(law: str) -> None:
    target: dict[str, Any] = {"law": law, "delta": 1e-5, "epsilon_y": 0.3}
    for copies, sensitivity in ((1, 2.0), (4, 2.0), (1, 3.0), (9, 3.0)):
        alpha = largest_alpha(epsilon=1.0, copies=copies, sensitivity=sensitivity, **target)
        assert copies_epsilon(alpha=alpha, copies=copies, sensitivity=sensitivity, **target) == pytest.approx(1.0)
        for m, s in ((copies, 1.9), (copies + 1, sensitivity)):
            assert copies_epsilon(alpha=alpha, copies=m, sensitivity=s, **target) != pytest.approx(1.0, rel=1e-3)
    proven = {s: proven_alpha(law=law, epsilon=1.0, epsilon_y=0.3, delta=1e-5, sensitivity=s) for s in (2.0, 3.0)}
    assert proven[2.0] == pytest.approx(1.5 * proven[3.0], rel=1e-12)


def test_of_pure_noise_nothing_is_lost_by_adding() -> None:
    """The largest privacy loss of both occurs together: beyond a record on its line, with the label as it is."""
    alpha = proven_alpha(law="l2", epsilon=1.0, epsilon_y=0.3, delta=1e-5, sensitivity=2.0)
    x, other, seen = -1.0, 1.0, -7.0
    of_features = alpha / 2 * (abs(seen - other) - abs(seen - x))
    of_label = math.log(_kept(0.3) / (1 - _kept(0.3)))
    assert of_features + of_label == pytest.approx(1.0, rel=1e-6)
    assert of_features + of_label <= 1.0

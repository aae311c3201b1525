"""The privacy statement: its numbers against independent ones, and no number where nothing is proved."""

import json
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.noise.output_perturbation import (
    LARGEST_SMALLEST,
    l2_sensitivity,
    paper_beta,
    paper_scale,
    provable_delta,
    provable_epsilon,
)
from masquerade_core.privacy.samplers.discrete_laplace import tail_bound
from masquerade_core.privacy.statement import NONE, Claim
from masquerade_protocols.local_aggregation.statement import paper_statement
from tests.messages import says

F = 32


def _statement(
    K: int = 5,
    d: int = 123,
    eps: float = 1.0,
    Lambda: float = 2.0,
    noise: str = "laplace",
    delta: float = 0.0,
    colluders: int = 0,
) -> tuple[Claim, ...]:
    return paper_statement(
        K=K,
        d=d,
        eps=eps,
        delta=delta,
        Lambda=Lambda,
        noise=noise,
        fraction_bits=F,
        colluders=colluders,
        min_records=100,
    )


@pytest.mark.parametrize(
    ("K", "d", "lam", "generic", "refined"),
    [
        (5, 123, 1.0, 1.109, 0.616),
        (5, 123, 0.1, 1.109, 0.848),
        (5, 123, 0.01, 1.109, 1.083),
        (5, 123, 0.001, 1.109, 1.109),
        (5, 10, 1.0, 0.316, None),
        (1, 123, 1.0, 5.545, 3.08),
    ],
)
def test_known_values_for_the_paper_s_noise(K: int, d: int, lam: float, generic: float, refined: float | None) -> None:
    """At the paper's lambda, that is Lambda = 2 lambda."""
    of: dict[str, Any] = {"K": K, "d": d, "eps": 1.0, "Lambda": 2 * lam, "noise": "laplace"}
    assert provable_epsilon(**of, refined=False) == pytest.approx(generic, abs=6e-4)
    if refined is not None:
        assert provable_epsilon(**of) == pytest.approx(refined, abs=6e-4)


def test_the_generic_epsilon_is_the_exact_privacy_loss_of_the_worst_shift() -> None:
    """Log P(x)/P(x - v) summed over coordinates, from the very scales that the parties draw at."""
    K, d, eps, Lambda, n = 3, 16, 0.7, 0.05, 400
    scale = K * 2**F * paper_scale(n, eps, Lambda)
    shift = Fraction(l2_sensitivity(n, Lambda)) * 2**F / 4  # in each of 16 coordinates
    loss = d * shift / scale
    assert float(loss) == pytest.approx(
        provable_epsilon(K=K, d=d, eps=eps, Lambda=Lambda, noise="laplace", refined=False), rel=1e-12
    )
    l2_loss = float(paper_beta(n, eps, Lambda)) / K * l2_sensitivity(n, Lambda)
    assert l2_loss == pytest.approx(
        provable_epsilon(K=K, d=d, eps=eps, Lambda=Lambda, noise="l2", refined=False), rel=1e-12
    )


def test_rounding_is_counted_at_the_most_records_that_are_assumed() -> None:
    K, d, Lambda, n, bits = 2, 9, 0.5, LARGEST_SMALLEST, 20
    of: dict[str, Any] = {"K": K, "d": d, "eps": 1.0, "Lambda": Lambda, "noise": "laplace", "refined": False}
    extra = provable_epsilon(**of, fraction_bits=bits) - provable_epsilon(**of)
    grid = d / (K * 2**bits * float(paper_scale(n, 1.0, Lambda)))  # an L1 shift of d grid steps
    assert extra == pytest.approx(grid, rel=0.02)
    assert provable_epsilon(**of, fraction_bits=F) > provable_epsilon(**of)


def test_delta_covers_what_the_slots_cut_off() -> None:
    """Sum over coordinates of P(B - v < |x| <= B), which only one of two neighbours can produce."""
    d, s = 4, 1000.0
    B = tail_bound(Fraction(1000), count=d)
    v = np.array([6000.0, 300.0, 0.0, 50.0])
    cut = sum(math.exp(-(B - x) / s) - math.exp(-B / s) for x in v) / 2
    epsilon = math.sqrt(d) * float(np.linalg.norm(v)) / s
    assert 0 < cut <= provable_delta(d=d, epsilon=epsilon, noise="laplace") < 1e-15
    assert provable_delta(d=d, epsilon=2000.0, noise="l2") == 1.0


def test_every_view_of_the_contract_stands_in_the_statement() -> None:
    views = [row.view for row in _statement(colluders=2)]
    assert views[0] == "released model"
    assert {"Charlie", "one party, not the smallest", "the party with the fewest records"} <= set(views)
    assert any(says(view, "view_of_charlie_with_lead") for view in views)
    assert any(says(view, "view_of_charlie_with_others", "2 parties") for view in views)


@pytest.mark.parametrize("noise", ["laplace", "l2"])
def test_where_nothing_is_proved_stands_no_number(noise: str) -> None:
    rows = _statement(noise=noise)
    open_rows = [row for row in rows if row.provable == NONE]
    assert {row.view for row in open_rows} >= {"the party with the fewest records"}
    for row in open_rows:
        assert row.epsilon is None
        assert row.delta is None
        assert not re.search(r"epsilon\s*=\s*\d", f"{row.provable} {row.holds_at} {row.text}")
    for row in rows:
        if row not in open_rows:
            assert row.epsilon is not None
            assert row.assumptions
            assert row.source
            assert f"{row.delta:.1e}" in row.provable


def test_numbers_are_rounded_up() -> None:
    for eps in np.geomspace(0.01, 100, 37):
        row = _statement(eps=float(eps))[0]
        shown = float(re.findall(r"epsilon = ([\d.e+-]+),", row.provable)[0])
        assert row.epsilon is not None
        assert row.epsilon * (1 - 1e-9) <= shown <= row.epsilon * 1.002


def test_whether_the_privacy_target_is_met_is_said() -> None:
    assert says(_statement(K=5, Lambda=2.0)[0].text, "target_met")
    assert says(_statement(K=5, Lambda=0.001)[0].text, "target_not_proved")
    assert says(_statement(K=6, Lambda=0.001)[0].text, "target_met")


def test_the_calibration_that_would_hold_is_given_in_the_study_s_terms() -> None:
    row = _statement(K=2, Lambda=0.01)[0]
    assert row.epsilon is not None
    at = float(re.findall(r"epsilon = ([\d.]+) in the study", row.holds_at)[0])
    again = _statement(K=2, Lambda=0.01, eps=at)[0]
    assert again.epsilon is not None
    assert 0.99 < again.epsilon <= 1.0


def test_two_parties_are_told_that_one_sees_the_other_s_classifier() -> None:
    text = next(row.text for row in _statement(K=2) if row.view == "the party with the fewest records")
    assert "the other party's classifier exactly" in text


def test_who_claims_what() -> None:
    assert "Theorem 4.1" in _statement()[0].claimed
    assert "footnote 2" in _statement(noise="l2")[0].claimed
    with pytest.raises(LocalProtocolError):
        _statement(noise="gauss")


def test_the_statement_is_plain_json() -> None:
    rows = [row.to_json() for row in _statement()]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows

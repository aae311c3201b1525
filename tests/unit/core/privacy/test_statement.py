"""The rows of a privacy statement: no number without a proof, and no bound that looks better than it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from masquerade_core.privacy.statement import (
    COMPUTATIONAL,
    NONE,
    REPLACE_RECORD,
    Claim,
    Rows,
    SharedNoiseRows,
    digits,
    honest_noise,
    large_delta,
)
from tests.messages import says


@dataclass(frozen=True)
class Shares:
    """Noise in shares of which three meet the target; less than two prove nothing, as delta would reach 1."""

    epsilon: float = 1.0
    delta: float = 1e-6
    honest: int = 3

    def proved(self, shares: int, size: int = 1) -> tuple[float, float] | None:
        return None if shares < 2 else (3.0 * size / shares, 1e-6 if shares >= 3 else 1e-4)


ROWS = Rows(source="Theorem 1", assumptions=("encryption holds",))
SHARED = SharedNoiseRows(source="Theorem 2", assumptions=("encryption holds",), noise=Shares(), K=5)


# --- Rows --------------------------------------------------------------------------------


def _proved(**other: str) -> Claim:
    return ROWS.proved(
        "Charlie",
        "He sees.",
        "nobody lies",
        claimed="all",
        provable="epsilon = 1",
        epsilon=1.0,
        delta=0.0,
        holds_at="this",
        **other,
    )


def test_a_row_with_a_proof_has_its_numbers_and_what_all_rows_have_in_common() -> None:
    row = _proved()
    assert (row.view, row.text, row.claimed, row.provable) == ("Charlie", "He sees.", "all", "epsilon = 1")
    assert (row.epsilon, row.delta, row.holds_at) == (1.0, 0.0, "this")
    assert (row.unit, row.neighbours, row.definition) == ("record", REPLACE_RECORD, COMPUTATIONAL)
    assert row.source == "Theorem 1"
    assert row.assumptions == ("encryption holds", "nobody lies")


def test_a_row_may_differ_from_what_all_have_in_common() -> None:
    row = _proved(unit="party", neighbours="replace a party", source="Lemma 3", definition="pure")
    assert (row.unit, row.neighbours, row.source, row.definition) == ("party", "replace a party", "Lemma 3", "pure")


def test_a_row_without_a_proof_has_no_number_and_none_of_the_proofs_assumptions() -> None:
    row = ROWS.none("Charlie with everybody", "He knows all noise.", "one thing", claimed="nothing", holds_at="nowhere")
    assert (row.epsilon, row.delta, row.provable, row.definition) == (None, None, NONE, NONE)
    assert row.assumptions == ("one thing",)
    assert row.source == "by inspection"
    assert (row.unit, row.neighbours) == ("record", REPLACE_RECORD)
    other = ROWS.none("a", "b", claimed="c", holds_at="d", unit="party", neighbours="e", source="f")
    assert (other.unit, other.neighbours, other.source) == ("party", "e", "f")


def test_a_row_goes_into_json_with_its_assumptions_as_a_list() -> None:
    assert _proved().to_json()["assumptions"] == ["encryption holds", "nobody lies"]
    assert _proved().to_json()["epsilon"] == 1.0


# --- Noise in shares -----------------------------------------------------------------------


@pytest.mark.parametrize(("unknown", "epsilon"), [(3, "1"), (4, "0.75"), (5, "0.6")])
def test_a_view_that_misses_enough_shares_meets_the_target(unknown: int, epsilon: str) -> None:
    row = SHARED.row("Charlie", unknown, "text", "more")
    assert says(row.claimed, "target_for_colluders", "epsilon = 1, delta = 1e-06", "2 colluding parties")
    assert row.provable == f"epsilon = {epsilon}, delta = 1e-06"
    assert (row.epsilon, row.delta) == (3.0 / unknown, 1e-6)
    assert row.holds_at == "this noise"
    assert row.assumptions == ("encryption holds", "more")
    assert (row.source, row.definition) == ("Theorem 2", COMPUTATIONAL)


def test_fewer_unknown_shares_than_honest_parties_prove_less_and_say_what_would_do() -> None:
    row = SHARED.row("Charlie with 3 parties", 2, "text")
    assert row.claimed == "not promised; proved anyway: epsilon = 1.5, delta = 0.0001"
    assert (row.provable, row.epsilon, row.delta) == ("epsilon = 1.5, delta = 0.0001", 1.5, 1e-4)
    assert says(row.holds_at, "colluders_would_do", 3)


def test_where_delta_would_reach_1_there_is_no_number() -> None:
    row = SHARED.row("Charlie with 4 parties", 1, "text", "more", unit="party", neighbours="a party")
    assert (row.provable, row.epsilon, row.delta, row.definition) == (NONE, None, None, NONE)
    assert row.claimed == "not promised; nothing is proved"
    assert says(row.holds_at, "colluders_would_do", 4)
    assert (row.source, row.assumptions) == ("Theorem 2", ("encryption holds", "more"))
    assert (row.unit, row.neighbours) == ("party", "a party")


@pytest.mark.parametrize(
    ("K", "shown"), [(3, "no colluding parties"), (4, "1 colluding party"), (6, "3 colluding parties")]
)
def test_colluding_parties_are_counted_in_correct_english(K: int, shown: str) -> None:
    row = SharedNoiseRows(source="s", noise=Shares(), K=K).row("Charlie", 3, "text")
    assert row.claimed.endswith(f"for {shown}")


# --- Words -----------------------------------------------------------------------------------


def test_the_noise_of_honest_parties_is_counted() -> None:
    assert says(honest_noise(1), "noise_of_one_honest")
    assert says(honest_noise(3), "noise_of_honest", 3)


@pytest.mark.parametrize(("delta", "units"), [(0.01, 100), (0.5, 100), (1.0, 1)])
def test_a_delta_of_one_in_so_many_records_or_more_is_warned_of(delta: float, units: int) -> None:
    warning = large_delta(delta, units)
    assert warning.startswith(" ")
    assert f"delta = {delta:g}" in warning
    assert f"1/{units}" in warning
    assert "that record" in warning


def test_a_small_delta_is_not_warned_of() -> None:
    assert large_delta(0.0099, 100) == ""
    assert large_delta(1e-6, 100) == ""


def test_a_delta_for_parties_is_warned_of_in_parties() -> None:
    warning = large_delta(0.1, 2_000, "party")
    assert "There are 2,000 parties" in warning
    assert says(warning, "all_records_of_party")
    assert "that record " not in warning


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (12345.0, "1.235e+04"),
        (1.0001, "1.001"),
        (0.00012341, "0.0001235"),
        (2.5e-9, "2.5e-09"),
        (0.001, "0.001"),
        (0.004, "0.004"),
        (0.0, "0"),
        (-1.0, "0"),
    ],
)
def test_a_bound_has_four_digits_and_is_rounded_up(value: float, shown: str) -> None:
    assert digits(value) == shown


@pytest.mark.parametrize("value", [1.0001, 0.99996, 3.14159, 9.9999e-5, 123.456])
def test_digits_are_on_the_side_that_was_asked_for(value: float) -> None:
    assert value * (1 - 1e-12) <= float(digits(value)) <= value * 1.0011
    assert value * 0.9989 <= float(digits(value, math.floor)) <= value * (1 + 1e-12)

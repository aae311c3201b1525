"""Studies whose parties share masks with 64 neighbours each: their text and their runs."""

from __future__ import annotations

import pytest

from masquerade_core.cuts import delta_of_cut
from masquerade_core.errors import BadInput
from masquerade_core.privacy.statement import COMPUTATIONAL
from masquerade_core.study import Study
from masquerade_protocols import PROTOCOLS, protocol_of
from masquerade_protocols.dp_gd.schedule import noise_of
from masquerade_protocols.variants import LARGEST_CHANCE, chance_of_cut_in
from tests.dropout_helpers import losing_study, masked_text
from tests.messages import raises, says

K = 150
MOST = 78  # the most colluders of 150 parties


def study_of(colluders: int, parties: int = K, protocol: str = "dp-gd", delta: float = 1e-5) -> Study:
    text = masked_text(protocol, parties, colluders=colluders, section="rounds = 3" if protocol == "dp-gd" else "")
    return Study.parse(text.replace("delta = 1e-05", f"delta = {delta!r}"), in_memory=True)


def test_up_to_63_colluders_cost_nothing() -> None:
    """The graph is 64-connected: whoever is left stays connected, with certainty."""
    for t in (0, 1, 63):
        assert chance_of_cut_in(study_of(t)) == 0
        rows = protocol_of(study_of(t)).statement(study_of(t))
        assert max(row.delta or 0.0 for row in rows if "not promised" not in row.claimed) == 1e-5
        assumed = [row.assumptions[-1] for row in rows if row.definition == COMPUTATIONAL]
        assert assumed
        assert all(says(words, "few_side_with_charlie", 64) for words in assumed)


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
def test_the_chance_of_a_cut_is_a_part_of_delta(delta: float) -> None:
    """No row exceeds the study's target, and the noise is sized for what is left."""
    study = study_of(MOST, delta=delta)
    chance = chance_of_cut_in(study)
    assert 0 < chance == delta_of_cut(K, MOST) <= LARGEST_CHANCE
    rows = protocol_of(study).statement(study)
    charlie = next(row for row in rows if row.view == f"Charlie with {MOST} parties")
    assert charlie.delta == delta
    assert charlie.provable.endswith(f"delta = {delta:g}")
    assert f"delta = {delta:g}" in charlie.claimed
    assert says(charlie.claimed, "is_the_target")
    assert says(charlie.assumptions[-1], "chance_in_delta", f"{chance:.2g}")
    beyond = next(row for row in rows if row.view == "Charlie with all parties but one")
    assert not any("neighbours" in words or "shares masks" in words for words in beyond.assumptions)
    smaller = replace_delta(study, delta - chance)
    assert protocol_of(study).spends(study) == PROTOCOLS["dp-gd"].spends(smaller)
    said = protocol_of(study).explain(study)
    assert says(said.collusion[-1], "chance_of_such_a_coin")
    assert f" {chance:.2g} " in said.collusion[-1]
    assert not any(says(words, "such_a_coin") for words in protocol_of(study_of(1)).explain(study_of(1)).collusion)
    if delta < 1e-9:
        assert noise_of(smaller).share > noise_of(study).share


def replace_delta(study: Study, delta: float) -> Study:
    """The same study with few enough colluders for no chance, but for the same noise."""
    privacy = study.privacy.model_copy(update={"delta": delta, "colluders": 0})
    dropouts = losing_study(K=5).dropouts
    assert dropouts is not None
    lost = dropouts.model_copy(update={"min_survivors": study.honest, "retries": None})
    return study.model_copy(update={"privacy": privacy, "dropouts": lost})


def test_more_colluders_than_64_neighbours_bear_are_refused() -> None:
    protocol_of(study_of(MOST))
    with raises(BadInput, "colluders_too_many", MOST + 1, MOST, ...) as caught:
        protocol_of(study_of(MOST + 1))
    assert "more than 2^-40" in str(caught.value)
    protocol_of(study_of(64, parties=65))  # all are neighbours
    with raises(BadInput, "colluders_too_many", ..., 63, ...):
        protocol_of(study_of(64, parties=66))


def test_the_smallest_set_counts_where_parties_may_be_lost() -> None:
    study = losing_study(K=K, survivors=K - 10, colluders=MOST, section="rounds = 3")
    assert chance_of_cut_in(study) == pytest.approx(delta_of_cut(K - 10, MOST))
    with raises(BadInput, "colluders_too_many", ..., 75, ...) as caught:
        protocol_of(study)
    assert caught.value.hint == "lower colluders, or raise [dropouts] min_survivors"


def test_a_delta_that_the_chance_takes_up_is_refused() -> None:
    with raises(BadInput, "delta_below_cut", "1e-13"):
        protocol_of(study_of(MOST, delta=1e-13))


def test_paillier_and_small_studies_have_no_neighbours() -> None:
    small = study_of(60, parties=65)
    assert chance_of_cut_in(small) == 0
    rows = protocol_of(small).statement(small)
    assert not any(says(words, "shares_masks_with", 64) for row in rows for words in row.assumptions)
    assert says(" ".join(protocol_of(small).explain(small).leaves), "every_two_share_randomness")
    said = protocol_of(study_of(1)).explain(study_of(1))
    assert says(" ".join(said.leaves), "neighbours_share_randomness", 64)
    assert says(" ".join(said.collusion), "many_side_with_charlie", 64)

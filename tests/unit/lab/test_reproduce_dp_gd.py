"""dp-gd's tables: rounds equal the protocol's, a reduced run is in its bands, and broken variants are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from masquerade.datasets import Records, unit_ball
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.learning.erm import error_rate
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table
from masquerade_lab.reproduce import PAPERS, Report, dp_gd
from masquerade_lab.reproduce.engine.tasks import one_after_another
from masquerade_protocols.blocks import noise_shares
from masquerade_protocols.dp_gd import roles as protocol
from masquerade_protocols.in_memory import run_in_memory
from tests.messages import sentence
from tests.paper_data import split

WIDENED = 4.0
"""Standard errors."""


@pytest.fixture(scope="module")
def reduced() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        _reduce(patch)
        return dp_gd.figure_1(1, 2012, one_after_another)


def _reduce(patch: pytest.MonkeyPatch, sets: int = 5) -> None:
    patch.setattr(dp_gd, "_SETS", sets)
    patch.setattr(dp_gd, "_PSGD_SETS", 2)
    patch.setattr(dp_gd, "_PSGD_ROUNDS", 3)
    patch.setattr(dp_gd, "_PARTIES", (5, 15))
    patch.setattr(dp_gd, "_CANCER_DRAWS", 2)
    patch.setattr(dp_gd, "_DELTAS", (0.05,))


def _small_keys(study: Any) -> Any:
    return study.model_copy(update={"crypto": study.crypto.model_copy(update={"key_bits": 1024})})


def test_rounds_without_encryption_equal_those_under_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(_rng: Any, _sigma: Any, size: int) -> list[int]:
        return [v * 10**7 for v in SimulationRng(3).bytes(size)]

    monkeypatch.setattr(noise_shares, "discrete_gaussian", known)
    records, _ = unit_ball(0)
    study = _small_keys(dp_gd._study(1.0, 0.05, 5))
    parts, table = split(records, study, (0.01, 0.29, 0.2, 0.25, 0.25)), Table(study.names)
    encrypted = run_in_memory(protocol, study, parts, table=table)[CHARLIE].weights
    clear = dp_gd.clipped_descent(records, study, protocol.noise_of(study), "seed")
    np.testing.assert_allclose(clear, encrypted, rtol=0, atol=1e-6)
    assert np.linalg.norm(dp_gd.clipped_descent(records, study, None, "") - encrypted) > 0.1


def test_settings_are_those_of_the_bars_or_the_larger_ones() -> None:
    study = dp_gd._study(0.2, 0.05, 10, 9)
    assert study.protocol == {"rounds": 10, "clip": 0.25, "learning_rate": 4.0}
    usual = dp_gd._study(0.2, 0.05, 10, usual=True)
    assert usual.protocol == {"rounds": 20, "clip": 0.5, "learning_rate": 4.0}
    assert "T = 20, C = 0.5" in dp_gd._USUAL
    assert (study.model.regularization, study.d, study.K, study.honest) == (0.02, 10, 10, 1)
    assert (study.privacy.epsilon, study.privacy.delta) == (0.2, 0.05)


def test_the_noise_on_a_sum_is_that_of_two_gradients_and_of_one_is_caught(reduced: Report) -> None:
    tables = reduced.tables()
    assert [row.holds for row in tables[dp_gd._NOISE]] == [True] * 3
    broken = [row for row in tables[dp_gd._BROKEN] if row.name.startswith("sensitivity C")]
    assert [row.verdict for row in broken] == ["outside: caught"] * 3
    assert [row.note for row in broken] == [sentence("epsilon_of_noise", value) for value in ("0.42", "0.70", "2.93")]


def test_a_reduced_run_lies_in_its_bands_give_or_take_its_errors(reduced: Report) -> None:
    rows = [row for row in reduced.rows if row.banded and not row.broken]
    assert len(rows) == 3 + 3 * 2
    assert [row for row in rows if not row.inside(WIDENED)] == []


def test_noise_of_which_each_share_is_enough_is_told_from_shares_of_it(reduced: Report) -> None:
    """At epsilon = .1 the difference is certain: all parties' noise has fifteen times the variance."""
    tables = reduced.tables()
    errors = {row.name: row for table in (dp_gd._ERROR, dp_gd._BESIDE) for row in tables[table]}
    broken = [row for row in tables[dp_gd._BROKEN] if row.name.startswith("all noise")]
    assert not broken[0].inside(WIDENED)
    assert broken[0].value > errors["eps = 0.1, K = 15"].value + 0.05
    assert errors["PSGD, eps = 0.1"].value > errors["eps = 0.1, K = 5"].value
    assert errors["local aggregation, eps = 0.1"].value > 0.3


def test_the_usual_steps_learn_breast_cancer_and_those_of_the_bars_do_not(reduced: Report) -> None:
    found = {row.name: row.value for row in reduced.tables()[dp_gd._CANCER]}
    often = found["always the more frequent answer"]
    assert found["T = 10, C = 0.25, no noise"] > often - 0.05
    assert found["T = 20, C = 0.5, no noise"] < 0.1
    assert found["T = 20, C = 0.5, eps = 1.0, delta = 0.05"] < 0.12
    assert found["no privacy"] < 0.06


def test_records_are_encoded_by_the_study_and_labelled_by_its_value() -> None:
    records = Records(("x1", "x2", "ill"), [["0.5", "-1", "yes"], ["0", "0", "no"]])
    features = dp_gd._study(1.0, 0.05, 5).features[:2]
    data = dp_gd._encoded(records, Encoder(tuple(features), intercept=False), "yes")
    assert isinstance(data, Dataset)
    np.testing.assert_array_equal(data.y, [1.0, -1.0])
    assert data.X[0, 0] > 0 > data.X[0, 1]
    assert error_rate(data.X[:1], data.y[:1], np.array([1.0, 0.0])) == 0


def test_the_same_seed_gives_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    _reduce(monkeypatch, 2)
    monkeypatch.setattr(dp_gd, "_PARTIES", (5,))
    monkeypatch.setattr(dp_gd, "_BARS", {1.0: 0.04})
    first = dp_gd.figure_1(1, 7, one_after_another)
    assert first.to_json() == dp_gd.figure_1(1, 7, one_after_another).to_json()
    assert first.rows != dp_gd.figure_1(1, 8, one_after_another).rows
    assert "dp-gd" in PAPERS

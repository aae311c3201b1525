"""Statements of the baselines with noise; and central-dp with noise that keeps the privacy target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from masquerade.draft import Draft, throwaway_key
from masquerade_core.data.pooling import pool
from masquerade_core.errors import BadInput
from masquerade_core.learning import gradients
from masquerade_core.learning.losses import loss_of
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Feature, Label, Study
from masquerade_lab.baselines.average import average_rate
from masquerade_lab.baselines.central_dp import central_dp
from masquerade_protocols import BASELINES, entry_of, statement_of
from tests.messages import raises
from tests.protocol_helpers import make_data


def _study(name: str, K: int = 3, d: int = 4, **kw: Any) -> Study:
    draft = Draft(
        parties=[(f"p{k}", throwaway_key()) for k in range(K)],
        curator_key=throwaway_key(),
        protocol=name,
        features=[Feature(name=f"x{i}", min=-1.0, max=1.0) for i in range(d)],
        intercept=False,
        **{"delta": 1e-5, "regularization": 0.1, "min_records": 10, "calibration": "paper", **kw},
    )
    return Study.parse(draft.to_toml(), in_memory=True)


def _epsilon(mu: float, delta: float) -> float:
    def lost(e: float) -> float:
        return float(stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)) - delta

    return float(optimize.brentq(lost, 0, 100))


def test_central_dp_s_claim_is_true_by_far_where_c_is_16() -> None:
    for c, epsilon in ((16.0, 1.0), (1.0, 0.1), (0.5, 1.0)):
        (model, computes, *_) = statement_of(_study("central-dp", epsilon=epsilon, parameters=(("c", c),)))
        mu = 2 * epsilon / math.sqrt(c * math.log(1e5))
        exact = _epsilon(mu, 1e-5)
        assert exact < (model.epsilon or 0) < exact * (1 + 1e-3)  # what floats and the grid add is counted
        assert (model.epsilon or 0) < epsilon or c < 16
        assert ("needs c >= 16" in model.claimed) == (c < 16)
        # With the c that the row names, rounded up to four digits, the privacy target is what is proved.
        named = float(model.holds_at.removeprefix("c = ").removesuffix(" in the study"))
        (model, *_) = statement_of(_study("central-dp", epsilon=epsilon, parameters=(("c", named),)))
        assert epsilon * (1 - 2e-3) < (model.epsilon or 0) <= epsilon
        assert computes.epsilon is None


def test_proven_central_dp_draws_the_noise_of_its_privacy_target(monkeypatch: pytest.MonkeyPatch) -> None:
    study = _study("central-dp", d=8, calibration="proven", rounds=60)
    assert not any(line.startswith("c = ") for line in study.to_toml().splitlines())
    (model, *_) = statement_of(study)
    assert (model.epsilon, model.delta) == (1.0, 1e-5)
    # Where gradients are 0, the descent is the sum of the noise.
    monkeypatch.setattr(gradients, "gradient_sum", lambda X, _y, _w, _loss: np.zeros(X.shape[1]))
    data = make_data(study, (40, 50, 60))
    study = study.model_copy(update={"model": study.model.model_copy(update={"regularization": 0.0})})
    rate = float(study.protocol.get("learning_rate", 0.5))
    descents = np.array([central_dp(study, pool(study, data), SimulationRng(s)) for s in range(40)])
    mu = optimize.brentq(lambda m: _epsilon(m, 1e-5) - 1.0, 0.05, 3)
    spread = rate * math.sqrt(60) * 2 * float(loss_of(study.model.loss).L) * math.sqrt(60) / (mu * 150)
    law = stats.chi2(descents.size)
    for factor, ends in ((1.0, True), (0.7, False), (1.3, False)):
        assert (1e-6 < law.cdf(factor**2 * float(((descents / spread) ** 2).sum())) < 1 - 1e-6) == ends


def test_average_is_better_than_its_claim_where_lambda_is_small() -> None:
    for M, Lambda, per in ((3, 1e-4, None), (3, 10.0, 1.0)):
        study = _study("average", K=M, regularization=Lambda)
        (model, _) = statement_of(study)
        assert model.unit == "party"
        assert model.epsilon is not None
        Delta = 2 / (M * Lambda)
        assert float(1 / average_rate(study)) == pytest.approx(Delta)
        R = math.sqrt(0.2784645427610738 / Lambda)
        assert model.epsilon <= min(1.0, 2 * R / M / Delta) * (1 + 1e-4)
        if per is None:
            assert model.epsilon < 0.02


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_has_a_statement_or_no_privacy(name: str) -> None:
    for calibration in BASELINES[name].calibrations:
        study = _study(name, calibration=calibration)
        rows = statement_of(study)
        assert bool(rows) == (name in {"gop", "central-dp", "average"})
        assert all(row.text for row in rows)


def test_c_beside_a_proven_calibration_is_refused() -> None:
    text = _study("central-dp").to_toml().replace('calibration = "paper"', 'calibration = "proven"')
    with raises(BadInput, "c_given_in_vain", 16):
        entry_of(Study.parse(text, in_memory=True))


def test_average_of_named_classes_counts_softmax_s_radius() -> None:
    label = Label(name="y", classes=("a", "b", "c"))
    study = _study("average", K=1000, regularization=1e-4, label=label)
    (model, _) = statement_of(study)
    # V = W(2/e) for three classes, over lambda; the paper counts 2 sqrt2/(M lambda).
    V = 0.46305
    assert model.epsilon == pytest.approx(2 * math.sqrt(V / 1e-4) / (2 * math.sqrt(2) / 1e-4), rel=1e-3)

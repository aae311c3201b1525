"""psgd with ``calibration = "proven"``: the descent, the noise that its proof needs, and its statement."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.learning.losses import loss_of
from masquerade_core.study import Study
from masquerade_protocols import protocol_of
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.psgd import roles as psgd
from masquerade_protocols.psgd import schedule as psgd_schedule
from tests.messages import raises, says
from tests.paper_data import simulated, split
from tests.protocol_helpers import make_data
from tests.sum_helpers import descend, descent_study
from tests.unit.protocols.dp_gd.test_dp_gd import _study as dp_gd_study
from tests.unit.protocols.psgd.test_psgd import _in_the_clear


def _study(protocol: str = "psgd", *, colluders: int = 0, delta: float | None = None, **kw: Any) -> Study:
    text = descent_study(protocol, **kw).to_toml()
    assert text.count('calibration = "paper"') == text.count("colluders = 0") == 1
    text = text.replace('calibration = "paper"', 'calibration = "proven"')
    text = text.replace("colluders = 0", f"colluders = {colluders}")
    if delta is not None:
        (line,) = (line for line in text.splitlines() if line.startswith("delta = "))
        text = text.replace(line, f"delta = {delta}")
    return Study.parse(text, in_memory=True)


def _mu(epsilon: float, delta: float) -> float:
    """Balle and Wang's curve once more."""

    def lost(mu: float) -> float:
        above = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        return float(above - delta)

    return float(optimize.brentq(lost, 1e-6, 50.0, xtol=1e-14))


def _vectors(study: Study, monkeypatch: pytest.MonkeyPatch, sizes: int = 250) -> NDArray[np.float64]:
    """Return every party's contributions where gradients are 0; shape (K, T, d), in units of 1."""
    seen: dict[str, list[list[int]]] = {name: [] for name in study.names}
    open_sum = ss.PaillierPartySums.open_sum

    async def watched(self: ss.PaillierPartySums, layout: Any, vector: Any, bound_to: bytes, *again: Any) -> Any:
        seen[self.seat.me].append(list(vector))
        return await open_sum(self, layout, vector, bound_to, *again)

    with monkeypatch.context() as patch:
        patch.setattr(ss.PaillierPartySums, "open_sum", watched)
        patch.setattr(psgd, "_gradient", lambda study, _data, _w, _rng, **_public: (0,) * study.d)
        descend(study, make_data(study, (sizes,) * study.K))
    N = sizes * study.K
    unit = 2 ** psgd_schedule.fraction_bits(study, psgd_schedule.psgd(study, N), N)
    contributed = np.array([vectors[1:] for vectors in seen.values()], dtype=np.float64)
    return np.asarray(contributed / unit, dtype=np.float64)


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_without_noise_it_is_gradient_descent(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psgd, "draw_noise_share", lambda _rng, noise, d: ((0,) * d,) * noise.rounds)
    study = _study(K=5, d=10, loss=loss, epsilon=0.004, section="rounds = 50")
    data = split(simulated(0)[0], study, (0.01, 0.29, 0.2, 0.25, 0.25))
    w = descend(study, data).w
    # Epsilon is small, but no curvature is bought: that is for eta's sake.
    np.testing.assert_allclose(w, _in_the_clear(study, data, 50, Delta=0.0), rtol=0, atol=1e-6)
    assert np.linalg.norm(w - _in_the_clear(study, data, 50)) > 1e-3


@pytest.mark.parametrize(("K", "colluders"), [(2, 0), (4, 2)])
def test_the_sum_has_the_noise_that_the_curve_asks_for(K: int, colluders: int, monkeypatch: pytest.MonkeyPatch) -> None:
    T, d = 50, 8
    study = _study(K=K, d=d, colluders=colluders, section=f"rounds = {T}")
    shares = _vectors(study, monkeypatch)
    assert shares.shape == (K, T, d)
    L = float(loss_of(study.model.loss).L)
    sigma = 2 * L * math.sqrt(T) / _mu(study.privacy.epsilon, study.privacy.delta)
    honest = shares[colluders:].sum(axis=0).ravel() / sigma  # any h = K - colluders of them are enough
    law = stats.chi2(honest.size)
    for factor, ends in ((1.0, True), (0.7, False), (1.3, False), (math.sqrt(K), False)):
        assert (1e-6 < law.cdf(factor**2 * float((honest**2).sum())) < 1 - 1e-6) == ends
    assert stats.kstest(honest, stats.norm.cdf).pvalue > 1e-6
    # It is new in every round: nothing is left of rho and eta.
    rounds = shares.sum(axis=0)
    assert abs(np.corrcoef(rounds[:-1].ravel(), rounds[1:].ravel())[0, 1]) < 5 / math.sqrt(T * d)


@pytest.mark.parametrize("bits_of_grid", [12, 20, 28])
def test_rounding_is_counted_on_every_grid(bits_of_grid: int) -> None:
    study = _study(K=3, d=400, section="rounds = 7")
    noise = psgd_schedule.joint_noise(study, bits_of_grid)
    floats = 1 + 2.0**-12  # of a sum of a million gradients
    moved = 2 * floats * float(loss_of(study.model.loss).L) * 2**bits_of_grid + math.sqrt(study.d)
    assert float(noise.Delta) == pytest.approx(moved, rel=1e-12)
    wanted = moved * math.sqrt(7) / _mu(study.privacy.epsilon, study.privacy.delta)
    assert wanted <= float(noise.sigma) * (1 + 1e-9)
    assert float(noise.sigma) == pytest.approx(wanted, rel=1e-6)


def test_the_grid_s_lower_bound_is_one() -> None:
    for K, d, epsilon in ((2, 10, 1.0), (5, 123, 1.0), (3, 40, 1e-3)):
        for build in (descent_study, _study):
            study = build(K=K, d=d, section="rounds = 20", epsilon=epsilon)
            low = psgd_schedule.coarsest_bits(study)
            most = study.most_records
            N = study.K  # fewer than there should be: somebody may lie
            while most >= N:
                assert psgd_schedule.fraction_bits(study, psgd_schedule.psgd(study, N), N) >= low
                N = N * 3 + 1


def test_a_number_of_records_below_the_floor_makes_no_other_grid() -> None:
    text = descent_study(K=5, d=123, section="rounds = 20").to_toml().replace("key_bits = 512", "key_bits = 2048")
    study = Study.parse(text.replace("min_records = 10\n", "min_records = 10000\n"), in_memory=True)
    fewest = study.K * study.study.min_records
    assert fewest == 50_000
    schedule = psgd_schedule.psgd(study, fewest)
    assert (
        psgd_schedule.fraction_bits(study, schedule, study.K)
        == psgd_schedule.fraction_bits(study, schedule, fewest)
        < 28
    )


def test_what_is_proved_is_the_privacy_target_and_more_parties_on_charlies_side_see_more() -> None:
    study = _study(K=5, d=10, colluders=1, section="rounds = 100")
    claims = {claim.view: claim for claim in protocol_of(study).statement(study)}
    target = (study.privacy.epsilon, study.privacy.delta)
    for view in ("released model and all iterates", "Charlie", "one party", "Charlie with 1 party"):
        found = claims[view].epsilon
        assert found is not None
        assert found <= target[0]
        assert claims[view].delta == target[1]
    last = claims["Charlie with all parties but one"].epsilon
    assert last is not None
    # One share of four is left: mu is twice the privacy target's.
    mu = 2 * _mu(*target)
    assert last == pytest.approx(optimize.brentq(lambda e: _mu(e, target[1]) - mu, target[0], 100), rel=1e-3)


@pytest.mark.parametrize("protocol", ["noisy-gradient", "decaying-budget"])
def test_what_the_paper_rejects_has_no_proven_noise(protocol: str) -> None:
    with raises(BadInput, "no_such_calibration", "'proven'", ...):
        protocol_of(_study(protocol))


@pytest.mark.parametrize(
    ("kw", "said"),
    [
        ({"delta": 0.0}, ("delta_not_in_range", 0)),
        ({"epsilon": 90.0}, ("epsilon_uses_up_delta", ..., ..., ...)),
        ({"colluders": 3}, ("nobody_honest", ..., ...)),
    ],
)
def test_a_privacy_target_that_cannot_be_met_is_refused(kw: dict[str, Any], said: tuple[Any, ...]) -> None:
    with raises(BadInput, *said):
        protocol_of(_study(K=3, **kw))


def test_the_paper_s_statement_counts_all_rounds_by_their_law() -> None:
    """Ten dimensions, T = 1000: the proved epsilon is far above the claimed one, and far below T epsilon."""
    for epsilon, found in ((0.1, 1.569), (0.2, 4.5726)):
        text = descent_study(K=5, d=10, epsilon=epsilon, section="rounds = 1000").to_toml()
        (line,) = (line for line in text.splitlines() if line.startswith("delta = "))
        study = Study.parse(
            text.replace(line, "delta = 0.05").replace("key_bits = 512", "key_bits = 2048"), in_memory=True
        )
        for claim in protocol_of(study).statement(study)[:-1]:
            assert claim.epsilon == pytest.approx(found, abs=6e-4)
            assert claim.delta == 0.05
            assert f"epsilon = {epsilon:g}" in claim.claimed or claim.claimed.startswith("nothing")


@pytest.mark.parametrize(
    "study",
    [
        lambda: dp_gd_study(2, 3, "rounds = 1"),
        lambda: _study(K=2, d=3, section="rounds = 1"),
        lambda: descent_study("psgd", 2, 3, section="rounds = 1"),
        lambda: descent_study("noisy-gradient", 2, 3, section="rounds = 1"),
        lambda: descent_study("decaying-budget", 2, 3, section="rounds = 1"),
    ],
    ids=["dp-gd", "psgd, proven", "psgd", "noisy-gradient", "decaying-budget"],
)
def test_one_round_is_said_in_the_singular(study: Callable[[], Study]) -> None:
    made = study()
    entry = protocol_of(made)
    explanation = entry.explain(made)
    words = [*explanation.leaves, *explanation.collusion, *explanation.cost]
    words += [f"{claim.text} {claim.claimed} {claim.holds_at}" for claim in entry.statement(made)]
    wrong = r"\b(1 \w*( \w+)? ?(sums|rounds|parties)|each of (1|one) round|0 \w+ parties|1 colluding parties)\b"
    assert [text for text in words if re.search(wrong, text)] == []
    assert any(says(text, "leaves_in", "one round") for text in explanation.leaves)
    assert any("1 noisy sum" in text for text in words)


def test_more_records_than_rounding_is_counted_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psgd, "MOST_ROUNDED_RECORDS", 99)
    study = _study(K=2, d=3, section="rounds = 2")
    with raises(RefusedLocally, "more_than_noise_covers", 99):
        descend(study, make_data(study, (100, 20)))
    paper = descent_study(K=2, d=3, section="rounds = 2")
    assert descend(paper, make_data(paper, (100, 20))).w.shape == (3,)

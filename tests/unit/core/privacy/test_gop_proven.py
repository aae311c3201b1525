"""gop with noise that a proof sizes: the worst two records, its one number, and the errors of floating point."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import TOLERANCE, fit, gradient_norm
from masquerade_core.learning.losses import loss_of
from masquerade_core.privacy.accounting import delta_of, epsilon_of
from masquerade_core.privacy.noise.proven_objective import gop_sigma, perturbation, plane_delta
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import Study
from masquerade_lab.baselines import gop
from masquerade_protocols import entry_of, statement_of
from tests.messages import raises
from tests.pages import Page, defined_tests
from tests.paper_data import N, simulated, study_of

_Array = NDArray[np.float64]


def _proven(**kw: Any) -> Study:
    text = study_of("gop", **kw).to_toml()
    assert text.count('calibration = "paper"') == 1
    return Study.parse(text.replace('calibration = "paper"', 'calibration = "proven"'), in_memory=True)


# --- The worst two records ---------------------------------------------------------------------


def _angle_delta(epsilon: float, sigma: float, angle: float, points: int = 700) -> float:
    """Return E max(0, 1 - exp(epsilon - M)), M the largest loss of v = a z - b z', a and b in [0, 1], at this angle.

    M is convex in (a, b), so that the four corners are enough; a quadrature over the plane of z and z'.
    """
    x = np.linspace(-9, 9, points)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    first, second = np.meshgrid(x, x, indexing="ij")
    A = first  # eta.z/sigma
    B = -(math.cos(angle) * first + math.sin(angle) * second)  # -eta.z'/sigma
    s = 1 / sigma
    both = s * (A + B) + s * s * (1 - math.cos(angle))
    M = np.maximum.reduce([np.zeros_like(A), s * A + s * s / 2, s * B + s * s / 2, both])
    return float(density @ np.maximum(-np.expm1(epsilon - M), 0) @ density)


TARGETS = [(0.1, 0.05), (0.2, 0.05), (1.0, 0.05), (0.1, 1e-3), (1.0, 1e-5), (3.0, 1e-2)]


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_two_opposite_records_are_the_worst(epsilon: float, delta: float) -> None:
    sigma = gop_sigma(epsilon, delta)
    assert sigma**2 * epsilon >= 1
    angles = np.linspace(0, math.pi, 9)
    values = [_angle_delta(epsilon, sigma, angle) for angle in angles]
    assert (np.diff(values) >= -1e-6).all()  # it grows with the angle; the quadrature is off by less
    worst = delta_of(2 / sigma, epsilon)
    assert values[-1] == pytest.approx(worst, rel=1e-3, abs=1e-9)
    assert max(values) <= worst * 1.001 + 1e-9
    # It is no bound for less noise.
    assert _angle_delta(epsilon, 0.9 * sigma, math.pi) > delta


def test_no_corner_of_the_square_is_forgotten() -> None:
    """The largest loss over a grid of (a, b) is that of the four corners."""
    rng = np.random.default_rng(1)
    a, b = np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 1, 21))
    for _ in range(200):
        z, other, eta = rng.normal(size=(3, 3))
        z, other = z / np.linalg.norm(z), other / np.linalg.norm(other)
        v = a[..., None] * z - b[..., None] * other
        loss = v @ eta + (v**2).sum(axis=-1) / 2
        corners = loss[[0, 0, -1, -1], [0, -1, 0, -1]]
        assert loss.max() <= corners.max() + 1e-12


def test_where_the_proof_stops_the_claim_does() -> None:
    """With sigma^2 epsilon < 1 other angles can be worse: the condition is no formality."""
    sigma, epsilon = 0.5, 0.1
    opposite = _angle_delta(epsilon, sigma, math.pi)
    assert max(_angle_delta(epsilon, sigma, angle) for angle in (0.3, 1.0, 2.0)) > 0
    assert opposite == pytest.approx(delta_of(2 / sigma, epsilon), rel=1e-3)
    same = _angle_delta(0.0, sigma, 0.01)
    assert same > 0.3  # two records alike, and noise of half a gradient: each may be the one that is left out


@pytest.mark.parametrize(
    ("epsilon", "delta", "plane", "opposite"),
    [(0.1, 0.05, 18.35, 8.97), (0.2, 0.05, 12.07, 6.65), (1.0, 0.05, 3.87, 2.67), (0.1, 1e-5, 72.7, None)],
)
def test_sigma_does_not_depend_on_the_dimension(
    epsilon: float, delta: float, plane: float, opposite: float | None
) -> None:
    root = optimize.brentq(lambda sigma: plane_delta(epsilon, sigma) - delta, 1, 1000)
    assert root == pytest.approx(plane, rel=1e-3)
    sigma = gop_sigma(epsilon, delta)
    assert sigma < root
    if opposite is not None:
        assert sigma == pytest.approx(opposite, abs=0.006)

    # Balle and Wang's curve by a quadrature that shares nothing with it.
    def lost(x: float) -> float:
        mu = 2 / sigma
        return float(stats.norm.pdf(x - mu) - math.exp(epsilon) * stats.norm.pdf(x))

    start = epsilon * sigma / 2 + 1 / sigma
    value, _ = integrate.quad(lost, start, start + 40)
    assert value <= delta
    assert value == pytest.approx(delta, rel=1e-5)


def test_the_paper_s_sigma_is_more_than_enough() -> None:
    """85.81, of ten dimensions: nothing of epsilon is used up at delta = .05."""
    assert plane_delta(0.0, 85.81) < 0.05
    assert epsilon_of(2 / 85.81, 0.05) == 0.0


# --- A run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "Lambda"), [(0.1, 0.1), (0.1, 0.001), (2.0, 0.01)])
@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_epsilon_is_spent_once_on_determinants_noise_and_output(loss: str, epsilon: float, Lambda: float) -> None:
    c = float(loss_of(loss).c)
    noise = perturbation(
        epsilon=epsilon, delta=0.05, Lambda=Lambda, N=1000, c=c, d=10, tolerance=TOLERANCE, grid=2.0**-32
    )
    curvature = Lambda + float(noise.Delta)
    slack = math.log(1 + c / (1000 * curvature))
    whole, part = epsilon * 63 / 64, 0.05 * 63 / 64
    assert slack <= 0.3 * whole * (1 + 1e-9)
    assert (noise.Delta > 0) == (math.log(1 + c / (1000 * Lambda)) > 0.3 * whole)
    found = epsilon_of(2 / float(noise.sigma), part)
    assert found + slack <= whole
    assert found + slack == pytest.approx(whole, rel=1e-6)
    # The minimiser's distance from an exact one, of both neighbours, under the noise on it.
    off = (TOLERANCE + math.sqrt(10) * 2.0**-33 / 1000) / curvature + math.sqrt(10) * 2.0**-33
    assert delta_of(2 * off / float(noise.output), epsilon / 64) <= 0.05 / 64


def test_a_run_is_the_minimiser_under_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    study, (records, _) = _proven(epsilon=0.2), simulated(0)
    sigmas: list[Fraction] = []

    def planted(_rng: SimulationRng, sigma: Fraction, d: int, unit: Fraction) -> list[int]:
        sigmas.append(sigma)
        return [round(sigma * unit * (k - 4) / 3) for k in range(d)]

    monkeypatch.setattr(gop, "gaussian", planted)
    w = gop.gop(study, records, SimulationRng(1))
    sigma, output = (float(s) for s in sigmas)
    eta = sigma * (np.arange(10) - 4) / 3
    noise = gop.gop_perturbation(study, N)
    assert (float(noise.sigma), float(noise.output)) == (sigma, output)
    exact = fit(records.X, records.y, 0.1, linear=eta / N, extra=float(noise.Delta))
    np.testing.assert_allclose(w, exact + output * (np.arange(10) - 4) / 3, atol=1e-8)
    assert np.linalg.norm(w - fit(records.X, records.y, 0.1)) > 0.01
    assert ((w * 2**32) % 1 == 0).all()


def test_eta_and_the_output_have_their_scale_and_no_other() -> None:
    study = _proven(epsilon=0.2)
    noise = gop.gop_perturbation(study, N)
    rng = SimulationRng(5)
    for sigma in (noise.sigma, noise.output):
        drawn = np.concatenate([gop._noise(rng, sigma, 10) for _ in range(300)]) / float(sigma)
        law = stats.chi2(drawn.size)
        for factor, ends in ((1.0, True), (0.7, False), (1.3, False)):
            assert (1e-6 < law.cdf(factor**2 * float((drawn**2).sum())) < 1 - 1e-6) == ends


def test_the_shift_of_the_gradient_is_what_the_proof_counts() -> None:
    """At one w the gradients of two records differ by a z - b z': |v| <= 2, and 2 is reached by opposite records."""
    rng = np.random.default_rng(2)
    loss = loss_of("logistic")
    longest = 0.0
    for _ in range(2000):
        x, other = rng.normal(size=(2, 3))
        x, other = x / np.linalg.norm(x), other / np.linalg.norm(other)
        w = rng.normal(size=3) * 20
        a, b = (-float(loss.derivative(np.array([z @ w]))[0]) for z in (x, other))
        assert 0 <= a <= 1
        assert 0 <= b <= 1
        longest = max(longest, float(np.linalg.norm(a * x - b * other)))
    assert 1.5 < longest <= 2


def test_the_inexact_minimiser_is_where_the_proof_says() -> None:
    """A gradient of norm gamma moves the minimiser by gamma/(Lambda + Delta) at most; so does a step of eta."""
    records, _ = simulated(0)
    eta = np.full(10, 3.0)
    exact = fit(records.X, records.y, 0.1, linear=eta / N)
    moved = fit(records.X, records.y, 0.1, linear=(eta + 1e-3) / N)
    assert gradient_norm(moved, records.X, records.y, 0.1, linear=eta / N) > 1e-7
    assert np.linalg.norm(moved - exact) <= math.sqrt(10) * 1e-3 / N / 0.1 + 2 * TOLERANCE / 0.1


def test_the_statements() -> None:
    claims = statement_of(_proven(epsilon=0.2))
    assert (claims[0].epsilon, claims[0].delta) == (0.2, 0.05)
    assert claims[1].epsilon is None
    for epsilon, Lambda in ((0.1, 0.1), (0.2, 0.1), (0.1, 0.001)):
        (model, *_) = statement_of(study_of("gop", epsilon=epsilon, Lambda=Lambda))
        assert model.epsilon is not None
        # One logarithm where the paper charges two, and nothing for eta: less than what is claimed.
        assert 0 < model.epsilon <= epsilon / 2 + 1e-3
        assert model.delta == 0.05


@pytest.mark.parametrize("kw", [{"epsilon": 60.0}, {"epsilon": 1e3}])
def test_a_privacy_target_without_noise_is_refused(kw: dict[str, Any]) -> None:
    with raises(BadInput, "delta_used_up_at_epsilon"):
        entry_of(_proven(**kw))


def test_other_baselines_have_no_such_calibration() -> None:
    text = study_of("pooled").to_toml().replace('calibration = "paper"', 'calibration = "proven"')
    with raises(BadInput, "calibration_unknown", "pooled", "'paper'"):
        entry_of(Study.parse(text, in_memory=True))


def test_a_record_is_hidden_in_practice() -> None:
    """The likelihood ratio of eta itself, over draws: the loss exceeds eps~ as seldom as delta allows."""
    epsilon, delta = 0.5, 0.02
    sigma = gop_sigma(epsilon, delta)
    eta = np.random.default_rng(7).normal(scale=sigma, size=(400_000, 2))
    v = np.array([2.0, 0.0])
    loss = (2 * eta @ v + v @ v) / (2 * sigma**2)
    lost = np.maximum(-np.expm1(epsilon - loss), 0)
    assert lost.mean() == pytest.approx(delta, abs=5 * lost.std() / math.sqrt(len(lost)))


@pytest.mark.parametrize("name", ["gop", "sigma-star"])
def test_every_test_and_file_that_the_pages_name_exists(name: str) -> None:
    page = Page(f"docs/privacy/{name}.md")
    assert len(page.links) > 2
    assert not page.tests - defined_tests()
    assert page.broken_links == []

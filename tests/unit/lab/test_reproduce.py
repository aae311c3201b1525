"""Reproduced figures: a reduced run is in its bands, broken variants are not, and rounds equal encrypted rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from masquerade.datasets import deal, random_split, unit_ball
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.privacy.samplers.l2_laplace import l2_laplace
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.simulation_rng import SimulationRng
from masquerade_lab.reproduce import PAPERS, Figure, Report, Row, rajkumar, reproduce
from masquerade_lab.reproduce.engine.judging import judged, reference
from masquerade_lab.reproduce.engine.report import mean_and_error
from masquerade_protocols.psgd import roles as psgd
from masquerade_protocols.psgd import schedule as psgd_schedule
from tests.face_helpers import Shell
from tests.messages import raises, says
from tests.paper_data import split
from tests.sum_helpers import descend, descent_study

_Array = NDArray[np.float64]

WIDENED = 4.0  # standard errors, of five means
PSGD_MISTAKES = {"eta^k of variance sigma*^2, not sigma*^2/K", "no eta", "a fresh eta in every round", rajkumar._ROOT}


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    monkeypatch.chdir(tmp_path)  # figures are written where one is
    return Shell(capsys)


def _float_rho(
    seed: str, schedule: psgd_schedule.Schedule, rounds: int, draws: int, parties: Sequence[int], d: int = rajkumar.D
) -> _Array:
    """The law of ``draw_rho`` in floats, for all rounds at once: the sampler would take nearly all of the time.

    That ``draw_rho`` has this law in each round has a test of its own.
    """
    rng, shape = SimulationRng(seed, "rho in floats"), (rounds, parties[-1], draws)

    def uniform(*size: int) -> _Array:
        return (np.frombuffer(rng.bytes(8 * math.prod(size)), "<u8").reshape(size) + 0.5) / 2**64

    beta = np.array([float(schedule.beta(t)) for t in range(rounds)])
    direction = special.ndtri(uniform(*shape, d))
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    rho = direction * special.gammaincinv(d, uniform(*shape, 1)) / beta[:, None, None, None]
    return np.asarray(rho.cumsum(axis=1)[:, [K - 1 for K in parties]])


@pytest.fixture(scope="module")
def reduced() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rajkumar, "draw_rho", _float_rho)
        patch.setattr(rajkumar, "FIGURE_1", replace(rajkumar.FIGURE_1, rounds=(10, 50, 100)))
        return reproduce("rajkumar-2012", draws=4)


# --- Rajkumar and Agarwal, figure 1 ----------------------------------------------------------------


def test_a_reduced_run_lies_in_its_bands_give_or_take_its_errors(reduced: Report) -> None:
    rows = [row for row in reduced.rows if row.banded and not row.broken]
    psgd, beside, rho, aggregation, random, left_open, panels = 2 * 3, 2 * 6, 3, 4 + 3, 2 * 3, 1 + 2 + 1, 4 * 7
    assert len(rows) == 4 + 2 + psgd + beside + rho + aggregation + random + left_open + panels
    assert [row for row in rows if not row.inside(WIDENED)] == []


def test_the_panels_are_the_papers_four(reduced: Report) -> None:
    titles = [panel.title for panel in reduced.panels]
    assert [(title.partition(",")[0], title[-3:]) for title in titles] == [
        ("Number of parties", "0.1"),
        ("Number of parties", "0.2"),
        ("Relative sizes", "0.1"),
        ("Relative sizes", "0.2"),
    ]
    rows = {(row.table, row.name): row for row in reduced.rows}
    left, right = reduced.panels[2:]
    for panel, eps in ((left, 0.1), (right, 0.2)):
        (curve,) = (series for series in panel.series if series.name == "local aggregation, noise / K")
        assert tuple(curve.x) == (1, 2, 3)
        shown = [rows[rajkumar._NOISE["la / K"].format(eps), name] for name in ("even, K = 5", "skew 2", "skew 3")]
        assert tuple(curve.y) == tuple(row.value for row in shown)
        assert tuple(curve.error or ()) == tuple(row.error for row in shown)
    psgd = {series.name: series for series in reduced.panels[0].series}["PSGD"]
    assert tuple(psgd.x) == (5, 10, 15)
    assert tuple(psgd.y) == tuple(rows[rajkumar._PSGD.format(0.1), f"K = {K}"].value for K in (5, 10, 15))
    # With half the epsilon, everything that is not chance yet gets worse.
    for low, high in ((reduced.panels[0], reduced.panels[1]), (left, right)):
        for name in ("GOP", "PSGD"):
            values = [next(series.y for series in panel.series if series.name == name) for panel in (low, high)]
            assert all(worse > better + 0.03 for worse, better in zip(*values, strict=True))


def test_broken_psgd_lies_outside_even_of_the_widened_bands(reduced: Report) -> None:
    beside = [row for row in reduced.rows if row.table == rajkumar._BESIDE.format(0.2) and "minus" not in row.name]
    rows = [row for row in beside if row.name.partition(": ")[2] in PSGD_MISTAKES]
    assert len(rows) == 4 * 3
    assert all(row.broken for row in rows)
    assert [row for row in rows if row.inside(WIDENED)] == []
    values = {row.name.partition(": ")[2]: row.value for row in rows}
    assert values["eta^k of variance sigma*^2, not sigma*^2/K"] > 0.1
    for too_little in PSGD_MISTAKES - {"eta^k of variance sigma*^2, not sigma*^2/K"}:
        assert values[too_little] < -0.1


def _outside(values: list[_Array], name: str) -> bool:
    (row,) = judged("t", "q", np.array(values), reference("rajkumar-2012 1", name), {})
    assert row.banded
    return not row.inside(WIDENED)


@pytest.mark.parametrize(("scale", "noticed"), [(1.0, False), (0.5, True), (0.0, True)])
def test_a_program_with_half_of_the_noise_or_none_leaves_the_bands(
    scale: float, noticed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("draw_eta", "output_noise"):
        right = getattr(rajkumar, name)
        monkeypatch.setattr(rajkumar, name, lambda *given, right=right: scale * right(*given))
    monkeypatch.setattr(rajkumar, "draw_rho", _float_rho)
    seed, splits = 2012, {"even, K = 5": (0.2,) * 5}
    sets = [rajkumar.gradient("simulated", seed, i, 4, 0.1, 0.2, (5,), (100,), False) for i in range(5)]
    assert _outside([found["gop, same eta, 0.2"] for found in sets], "GOP, eps = 0.2") == noticed
    assert _outside([found["psgd 0.2 5 100"] for found in sets], "PSGD, K = 5, T = 100, eps = 0.2") == noticed
    sets = [rajkumar.aggregated("simulated", seed, i, 2, 40, 0.1, (1.0,), splits, (5,)) for i in range(5)]
    for key, name in (("la", "LA"), ("la / K", "LA / K")):
        values = [found[f"{key} 1.0 even, K = 5"] for found in sets]
        assert _outside(values, f"{name}, even, K = 5, eps = 1.0") == noticed


def test_mirror_images_follow_their_draws_and_mistakes_are_made_of_the_same_noise() -> None:
    found = rajkumar.aggregated("simulated", 1, 0, 3, 4, 0.1, (1.0,), {"skew": (0.1, 0.9)}, (2,))
    assert {len(values) for name, values in found.items() if name.endswith("skew") and "quiet" not in name} == {8}
    assert {len(values) for name, values in found.items() if name.endswith("random 2") and "quiet" not in name} == {6}
    records, test = rajkumar.load("simulated", 1, 0)
    law = rajkumar.Split((0.1, 0.9), 1.0)
    average = rajkumar.average(records, law.parts, 0.1)
    eta = rajkumar.output_noise(records, law, 0.1, "rajkumar-2012 1 0", 4)
    for part, scale in (("", 1.0), ("half ", 0.5), ("n/K ", 0.2), ("quiet ", 0.0)):
        w = [average + sign * scale * one for sign in (1, -1) for one in eta]
        name = "quiet la skew" if part == "quiet " else f"{part}la 1.0 skew"
        np.testing.assert_allclose(found[name], [error_rate(test.X, test.y, one) for one in w][: len(found[name])])


def test_rounds_without_encryption_equal_those_under_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    etas: list[list[int]] = []
    rhos: list[list[int]] = []

    def noted(source: Any, notes: list[list[int]]) -> Any:
        def draw(*args: Any) -> list[int]:
            notes.append(source(*args))
            return notes[-1]

        return draw

    monkeypatch.setattr(psgd, "gaussian", noted(gaussian, etas))
    monkeypatch.setattr(psgd, "l2_laplace", noted(l2_laplace, rhos))
    T, K = 12, 5
    records, _ = unit_ball(0)
    study = descent_study(K=K, d=10, section=f"rounds = {T}")
    encrypted = descend(study, split(records, study, (0.01, 0.29, 0.2, 0.25, 0.25))).w
    eta = np.sum(np.array(etas, dtype=float), axis=0) / 2**psgd_schedule.FRACTION_BITS
    rho = np.array(rhos, dtype=float).reshape(K, T, 10).sum(axis=0) / 2**psgd_schedule.FRACTION_BITS
    rows = np.array([0.0, 1.0])[:, None]  # two runs at once: without and with the noise
    schedule = psgd_schedule.psgd(study, len(records.y))
    before, after = rajkumar.descend(records, study, schedule, lambda t: rows * (eta + rho[t]), (T - 1, T))
    np.testing.assert_allclose(after[1], encrypted, rtol=0, atol=1e-6)
    assert np.linalg.norm(after[0] - encrypted) > 1e-3
    assert np.linalg.norm(before[1] - encrypted) > 1e-6


def test_everybodys_sum_of_eta_has_the_law_of_sigma_star_and_no_other() -> None:
    sigma = Fraction(44)
    eta = rajkumar.draw_eta("law", sigma, 300).ravel()
    assert stats.kstest(eta, stats.norm(scale=44).cdf).pvalue > 1e-6
    for factor in (0.7, 1.3):
        assert stats.kstest(eta, stats.norm(scale=44 * factor).cdf).pvalue < 1e-6
    fresh = rajkumar.draw_fresh("law", sigma, 30, 2)
    assert fresh.shape == (30, 2, 10)
    assert stats.kstest(fresh.ravel(), stats.norm(scale=44).cdf).pvalue > 1e-6
    assert len(np.unique(fresh[:, 0, 0])) == 30


def test_rho_has_its_law_for_one_party_and_adds_up_over_the_first_of_them() -> None:
    schedule = psgd_schedule.Schedule(Fraction(0), lambda t: Fraction(1, 10 + t), Fraction(0))
    drawn, floats = (draw("law", schedule, 20, 30, (1, 2, 4)) for draw in (rajkumar.draw_rho, _float_rho))
    for rho in (drawn, floats):
        assert rho.shape == (20, 3, 30, 10)
        _check_rho(rho / (1 + np.arange(20) / 10)[:, None, None, None])


def _check_rho(rho: _Array) -> None:
    """Check noise whose beta was brought to 1/10 in all rounds."""
    norms = np.linalg.norm(rho[:, 0].reshape(-1, 10), axis=1)
    for factor, fits in ((1.0, True), (0.7, False), (1.3, False)):
        assert (stats.kstest(norms, stats.gamma(10, scale=10 * factor).cdf).pvalue > 1e-6) == fits
    # Independent parties: variances add up, and what the later ones add has nothing to do with the first.
    assert rho[:, 2].var() / rho[:, 0].var() == pytest.approx(4, rel=0.15)
    later = (rho[:, 1] - rho[:, 0]).ravel()
    assert abs(np.corrcoef(rho[:, 0].ravel(), later)[0, 1]) < 0.06
    # And so are rounds, and draws.
    assert abs(np.corrcoef(rho[1:, 0].ravel(), rho[:-1, 0].ravel())[0, 1]) < 0.07
    assert abs(np.corrcoef(rho[:, 0, 1:].ravel(), rho[:, 0, :-1].ravel())[0, 1]) < 0.07


def test_local_aggregation_adds_the_smallest_partys_noise_to_the_average() -> None:
    records, _ = unit_ball(1)
    parts = (0.05, 0.35, 0.6)
    average = np.mean([fit(part.X, part.y, 0.1) for part in deal(records, parts)], axis=0)
    l2 = rajkumar.Split(parts, 1.0)
    norms = np.linalg.norm(rajkumar.aggregates(records, l2, 0.1, "law", 400) - average, axis=1)
    beta = 50 * 0.1 / 2
    for factor, fits in ((1.0, True), (0.7, False), (1.3, False)):
        assert (stats.kstest(norms, stats.gamma(10, scale=factor / beta).cdf).pvalue > 1e-6) == fits
    divided = rajkumar.aggregates(records, rajkumar.Split(parts, 1.0, divided=True), 0.1, "law", 400)
    assert np.linalg.norm(divided - average, axis=1).mean() == pytest.approx(norms.mean() / 3, rel=0.1)
    laplace = rajkumar.aggregates(records, rajkumar.Split(parts, 1.0, "laplace"), 0.1, "law", 100)
    assert stats.kstest((laplace - average).ravel(), stats.laplace(scale=4 / (50 * 0.1)).cdf).pvalue > 1e-6


def test_the_printed_root_solves_the_printed_equation() -> None:
    assert rajkumar.printed_root(10, 0.1, 0.05) == pytest.approx(0.231, abs=5e-4)
    sigma, e = rajkumar.printed_root(7, 0.3, 0.01), 0.3
    assert stats.chi2(7).cdf((sigma * e - 2) ** 2 / (4 * sigma**2)) == pytest.approx(0.99)


def test_all_records_are_dealt_at_random_and_every_party_gets_one() -> None:
    records, _ = unit_ball(2)
    for seed in range(20):
        parts = random_split(15, 1000, 7, seed)
        sizes = [len(part.y) for part in deal(records, parts)]
        assert (len(sizes), sum(sizes)) == (15, 1000)
        assert min(sizes) >= 1
    assert random_split(15, 1000, 7, 1) == random_split(15, 1000, 7, 1) != random_split(15, 1000, 7, 2)


# --- Rows -------------------------------------------------------------------------------------------


def test_the_standard_error_is_that_of_the_data_sets_means() -> None:
    assert mean_and_error(np.array([[1.0, 3.0], [2.0, 4.0], [3.0, 5.0]])) == pytest.approx((3.0, 1 / np.sqrt(3)))


@pytest.mark.parametrize(
    ("value", "broken", "holds", "verdict"),
    [
        (0.5, False, True, "within"),
        (0.8, False, False, "OUTSIDE"),
        (0.8, True, True, "outside: caught"),
        (0.5, True, False, "within: NOT CAUGHT"),
    ],
)
def test_a_broken_variant_must_miss_the_band_and_all_else_lie_in_it(
    value: float, broken: bool, holds: bool, verdict: str
) -> None:
    row = Row("t", "r", value, 0.1, 0.4, 0.6, broken)
    assert (row.holds, row.verdict, row.band) == (holds, verdict, "0.4 to 0.6")
    assert row.inside(2.0)
    assert Row("t", "r", value).holds
    assert Row("t", "r", value, low=0.9).inside() is False


# --- The command --------------------------------------------------------------------------------------


def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rajkumar, "FIGURE_1", replace(rajkumar.FIGURE_1, sets=2, rounds=(1, 2, 3)))


def test_the_command_gives_every_row_and_fails_when_a_band_is_missed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    _small(monkeypatch)
    answer = shell.json("reproduce", "rajkumar-2012", "1", "--draws", 1)
    assert (answer.code, answer.json["error_code"]) == (1, "run_failed")  # three rounds are too few
    assert (answer.data["settings"]["draws"], answer.data["settings"]["seed"]) == (1, 2012)
    missed = [row for row in answer.data["rows"] if row["holds"] is False]
    assert missed[0]["name"] in answer.json["message"]
    assert any("without encryption" in note for note in answer.data["notes"])
    assert shell.json("reproduce", "rajkumar-2012", "--draws", 1).out == answer.out
    assert shell.json("reproduce", "rajkumar-2012", "--draws", 1, "--seed", 3).out != answer.out
    text = shell("reproduce", "rajkumar-2012", "--draws", 1)
    assert (text.code, text.out) == (1, "")
    assert "OUTSIDE" in text.err
    assert "without encryption" in text.err


def test_it_succeeds_when_everything_is_where_it_must_be(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (Row("t", "right", 0.5, 0.1, 0.4, 0.6), Row("t", "wrong", 0.9, 0.1, 0.4, 0.6, broken=True))
    monkeypatch.setitem(PAPERS, "rajkumar-2012", {"1": Figure(lambda *_: Report("p", "1", (), {}, rows), 1, 1)})
    assert shell.json("reproduce", "rajkumar-2012").code == 0
    assert says(shell("reproduce", "rajkumar-2012").err, "all_where_they_must_be", 2)


def test_a_mistake_that_is_not_caught_is_a_failure_unless_fewer_draws_were_asked_for(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (Row("t", "right", 0.5, 0.1, 0.4, 0.6), Row("t", "wrong", 0.5, 0.1, 0.4, 0.6, broken=True))
    monkeypatch.setitem(PAPERS, "rajkumar-2012", {"1": Figure(lambda *_: Report("p", "1", (), {}, rows), 4, 1)})
    assert [shell("reproduce", "rajkumar-2012", "--draws", draws).code for draws in (3, 4, 5)] == [0, 1, 1]
    away = (Row("t", "right", 0.7, 0.1, 0.4, 0.6),)
    monkeypatch.setitem(PAPERS, "rajkumar-2012", {"1": Figure(lambda *_: Report("p", "1", (), {}, away), 4, 1)})
    assert shell("reproduce", "rajkumar-2012", "--draws", 3).code == 1


def test_unknown_papers_and_figures_are_refused(shell: Shell) -> None:
    answer = shell("reproduce", "einstein-1905")
    assert answer.code == 4
    assert "rajkumar-2012" in answer.err
    answer = shell("reproduce", "rajkumar-2012", "3")
    assert answer.code == 4
    assert "docs/reproduction.md" in answer.err
    assert shell("reproduce", "rajkumar-2012", "--draws", 0).code == 4
    with raises(BadInput, "too_little", "draws", 0, ...):
        reproduce("rajkumar-2012", draws=0)


def test_figures_on_real_data_ask_for_them(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Path | None] = []

    def figure(draws: int, seed: int, _progress: object, data: Path | None) -> Report:
        seen.append(data)
        return Report("p", "1", (), {"draws": draws, "seed": seed}, (Row("t", "a", 0.5, None, 0.4, 0.6),))

    monkeypatch.setitem(PAPERS, "real", {"1": Figure(figure, 7, 8, needs="a9a and a9a.t")})
    answer = shell("reproduce", "real")
    assert answer.code == 4
    assert "a9a and a9a.t" in answer.err
    answer = shell.json("reproduce", "real", "--data", tmp_path)
    assert (answer.code, answer.data["settings"], seen) == (0, {"draws": 7, "seed": 8}, [tmp_path])
    answer = shell("reproduce", "rajkumar-2012", "--data", tmp_path)
    assert answer.code == 4
    assert "simulated" in answer.err

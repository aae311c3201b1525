"""A model is measured on records that nothing else touches: the split, the noise, the order of frames, the refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from scipy import optimize, stats

from masquerade.prediction import predict
from masquerade.simulation import Simulation, simulate
from masquerade_core.crypto.masks import CheckKey
from masquerade_core.data.records import are_held_back, split, training_sides
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.evaluation import (
    CELLS,
    COUNT_UNITS,
    LOCATE_UNITS,
    MOST_BINS,
    cells_of,
    counts_noise,
    locate_bins,
    score_range,
)
from masquerade_core.model import Model, model_to_json
from masquerade_core.saved_model import model_from_json
from masquerade_core.seat import Send, Stage
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table, replay
from masquerade_protocols import BASELINES, PROTOCOLS, entry_of, statement_of
from masquerade_protocols.blocks import evaluation as block
from masquerade_protocols.blocks import paillier_sum
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.descent import check_held_back
from masquerade_protocols.dp_gd.noiseless import clean_descent
from masquerade_protocols.in_memory import run_in_memory
from tests.evaluation_helpers import (
    contributions,
    evaluate_in_the_clear,
    halves,
    held_back_study,
    records_of,
    report_text,
)
from tests.messages import raises, says

W = (4.0, -3.0, 2.0, 1.0)
MODEL = Model(W, None, (-1.5,))


def _data(study: Study, n: int = 60, seed: int = 0) -> dict[str, Dataset]:
    rng = np.random.default_rng(seed)
    return {name: records_of(rng, n, W, -1.5) for name in study.names}


# --- The split ----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.5, 0.2, 0.1, 0.3, 0.07])
def test_a_share_of_the_rows_is_held_back_spread_evenly(share: float) -> None:
    for n in (1, 14, 15, 100, 1001):
        held = are_held_back(n, share)
        assert held.sum() == math.floor(Fraction(str(share)) * n)
        assert np.all(np.abs(np.cumsum(held) - share * np.arange(1, n + 1)) <= 1)


def test_the_side_of_a_record_follows_from_its_place_alone() -> None:
    study = held_back_study(share=0.3)
    (data, other) = (_data(study, seed=seed)["p0"] for seed in (0, 1))
    at = 3  # the first row that is held back: floor(4 * .3) > floor(3 * .3)
    assert list(np.flatnonzero(are_held_back(8, 0.3))) == [3, 6]
    X, y = data.X.copy(), data.y.copy()
    X[at], y[at] = other.X[at], -y[at]
    (training, held), (same, changed) = split(study, data), split(study, Dataset(X, y))
    assert held is not None
    assert changed is not None
    assert np.array_equal(training.X, same.X)
    assert np.array_equal(held.X[1:], changed.X[1:])
    assert not np.array_equal(held.X[0], changed.X[0])
    assert len(training.y) + len(held.y) == len(data.y)


# --- What leaves, and when ------------------------------------------------------------


def _frames(study: Study, data: Mapping[str, Dataset]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return what each participant sent before the evaluation began, and from then on."""
    rngs = {name: SimulationRng(7, name) for name in (*study.names, CHARLIE)}
    table = Table(study.names, rngs, bytes(16))
    run_in_memory(entry_of(study), study, data, table=table)
    before: dict[str, list[Any]] = {}
    after: dict[str, list[Any]] = {}
    for name in (*study.names, CHARLIE):
        side = before.setdefault(name, [])
        for entry in table.journal(name):
            if entry.effect == Stage("evaluation"):
                side = after.setdefault(name, [])
            elif isinstance(entry.effect, Send):
                side.append((entry.effect.type, entry.effect.to, entry.effect.bodies))
    return before, after


@pytest.mark.parametrize("protocol", ["dp-gd", "dp-whitened", "psgd"])
def test_records_held_back_touch_nothing_before_the_model_is_there(protocol: str) -> None:
    study = held_back_study(3, 4, protocol=protocol)
    data = _data(study)
    held = are_held_back(60, 0.2)

    def changed(rows: Any) -> dict[str, Dataset]:
        fresh = _data(study, seed=1)
        X, y = ((np.where(rows[:, None] if part.ndim == 2 else rows, new, part)) for part, new in (
            (data["p1"].X, fresh["p1"].X), (data["p1"].y, fresh["p1"].y)))  # fmt: skip
        return {**data, "p1": Dataset(X, y)}

    (before, after), (same, differs) = _frames(study, data), _frames(study, changed(held))
    assert before == same
    assert min(map(len, before.values())) >= 2 + 3  # the keys, the number of records, three rounds
    assert after["p1"] != differs["p1"]  # the control: the evaluation does depend on them
    assert _frames(study, changed(~held))[0] != before  # and the training on the others


def test_the_model_is_learned_from_the_other_records_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masquerade_protocols.blocks.noise_shares.discrete_gaussian", lambda _r, _s, n: [0] * n)
    study = held_back_study(2, 4, section="rounds = 5")
    data = _data(study, 100)
    found = run_in_memory(entry_of(study), study, data)[CHARLIE]
    plain = Study.parse(study.to_toml().replace("[evaluation]\nshare = 0.2\n", ""), in_memory=True)
    clean = clean_descent(plain, training_sides(study, data))
    assert np.allclose(found.weights, clean, atol=1e-6)
    assert np.allclose(found.weights, clean_descent(study, data), atol=1e-6)
    assert not np.allclose(found.weights, clean_descent(plain, data), atol=1e-3)


@pytest.mark.parametrize("protocol", ["dp-gd", "dp-whitened", "psgd"])
def test_everybody_has_the_same_model_and_the_same_figures(protocol: str) -> None:
    study = held_back_study(3, 4, protocol=protocol, rule='"f1"', epsilon=5.0)
    results = run_in_memory(entry_of(study), study, _data(study, 500))
    assert all(model == results[CHARLIE] for model in results.values())
    found = results[CHARLIE].evaluation
    assert found is not None
    assert found.records == 3 * 100
    assert results[CHARLIE].threshold == found.chosen.score


def test_an_evaluation_repeats_to_the_byte_and_its_frames_have_public_sizes() -> None:
    study, shapes = held_back_study(3, 4), []
    for seed in (0, 1):
        data, table = _data(study, seed=seed), Table(study.names)
        run_in_memory(entry_of(study), study, data, table=table)
        for name in study.names:
            replay(entry_of(study).party(table.seat(name), study, data[name]), table.journal(name))
        effects = [(name, e.effect) for name in (*study.names, CHARLIE) for e in table.journal(name)]
        sent = [(name, e) for name, e in effects if isinstance(e, Send)]
        shapes.append([(name, e.type, e.to, tuple(map(len, e.bodies))) for name, e in sent])
    assert shapes[0] == shapes[1]


# --- The noise --------------------------------------------------------------------------


def _sd(epsilon: float, delta: float) -> float:
    """The sd on a count against an outsider, in records: sqrt(2 64^2 + 2 192^2 + 96^2)/(192 mu), mu on its own."""

    def off(mu: float) -> float:
        below = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        return float(below - delta)

    return math.sqrt(2 * 64**2 + 2 * 192**2 + 96**2) / 192 / float(optimize.brentq(off, 1e-6, 50.0, xtol=1e-14))


@pytest.mark.parametrize(("epsilon", "colluders"), [(1.0, 0), (0.3, 0), (1.0, 2)])
def test_the_counts_carry_the_noise_that_the_curve_asks_for(
    epsilon: float, colluders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = held_back_study(3, 4, epsilon=epsilon, colluders=colluders)
    held = halves(study, _data(study, 200))
    opened: list[tuple[Any, ...]] = []
    judged = block._judged

    def watched(*args: Any) -> Model:
        opened.append(args)
        return judged(*args)

    monkeypatch.setattr(block, "_judged", watched)
    for i in range(25):  # 1,125 counts: half as much variance again would pass once in a million
        evaluate_in_the_clear(study, MODEL, held, {name: SimulationRng(i, name) for name in study.names})
    noise: list[float] = []
    for _, _, bins, _, sums, _ in opened[:: study.K]:
        true = sum(np.array(contributions(study, MODEL, side, bins)[1], dtype=np.float64) for side in held.values())
        noise += list((np.array(sums) - true) / COUNT_UNITS)
    expected = _sd(epsilon, 1e-6) * math.sqrt(3 / (3 - colluders))
    law, squares = stats.chi2(len(noise)), float(np.square(noise).sum()) / expected**2
    assert len(noise) == 25 * (2 * MOST_BINS + 1)
    assert 1e-6 < law.cdf(squares) < 1 - 1e-6
    for wrong in (0.7, 1.3):
        assert not 1e-6 < law.cdf(squares / wrong**2) < 1 - 1e-6


def test_the_noise_is_sized_for_both_vectors_together_and_told_as_it_is() -> None:
    noise = counts_noise(1.0, 1e-6, 3)
    assert float(noise.Delta) == pytest.approx(math.sqrt(2 * 64**2 + 2 * 192**2 + 96**2), rel=1e-9)
    study = held_back_study(3, 4)
    found = evaluate_in_the_clear(study, MODEL, halves(study, _data(study)))
    assert found.noise_sd == pytest.approx(_sd(1.0, 1e-6), rel=1e-4)


def test_a_replaced_record_moves_both_vectors_by_delta_at_most_and_some_come_close() -> None:
    study = held_back_study(3, 4)
    rng = np.random.default_rng(3)
    wild = Model((4000.0, -3000.0, 2000.0, 1000.0), None, (0.0,))
    Delta, largest = counts_noise(1.0, 1e-6, 3).Delta, 0.0
    bins = locate_bins([10.0] * CELLS, 1.0, 4)
    for _ in range(200):
        data = records_of(rng, 20, W)
        X, y = data.X.copy(), data.y.copy()
        X[5], y[5] = rng.permutation(X[5]) * rng.choice([-1, 1], 4), rng.choice([-1.0, 1.0])
        sides = [contributions(study, wild, side, bins) for side in (data, Dataset(X, y))]
        moved = [a - b for one, other in zip(*sides, strict=True) for a, b in zip(one, other, strict=True)]
        assert sum(m * m for m in moved) <= Delta**2
        largest = max(largest, math.sqrt(sum(m * m for m in moved)))
    assert largest > 0.999 * float(Delta)


# --- The figures, without noise ---------------------------------------------------------


def test_without_noise_the_figures_are_those_of_a_computation_in_the_clear() -> None:
    study = held_back_study(2, 4)
    rng = np.random.default_rng(1)
    held = {name: records_of(rng, 4000, W, -1.5) for name in study.names}
    X, y = (np.concatenate([getattr(side, name) for side in held.values()]) for name in ("X", "y"))
    found = evaluate_in_the_clear(study, MODEL, held, quiet=True)
    scores, positive = X @ np.array(W) - 1.5, y > 0
    said = scores > 0
    chosen = found.chosen
    assert chosen.score == found.threshold == 0
    assert (chosen.true_positives, chosen.false_positives) == ((said & positive).sum(), (said & ~positive).sum())
    assert (chosen.false_negatives, chosen.true_negatives) == ((~said & positive).sum(), (~said & ~positive).sum())
    values = {name: cast("Any", getattr(chosen, name)).value for name in ("error", "answered", "sensitivity", "f1")}
    tp, fp, fn = chosen.true_positives, chosen.false_positives, chosen.false_negatives
    assert values == pytest.approx(
        {
            "error": (said != positive).mean(),
            "answered": said.mean(),
            "sensitivity": tp / (tp + fn),
            "f1": 2 * tp / (2 * tp + fp + fn),
        }
    )
    U = stats.mannwhitneyu(scores[positive], scores[~positive]).statistic
    assert found.auc.value == pytest.approx(U / (positive.sum() * (~positive).sum()), abs=0.001)
    assert found.brier is not None
    assert found.brier.value == pytest.approx(np.mean((1 / (1 + np.exp(-scores)) - positive) ** 2), abs=0.001)
    assert found.majority_error == pytest.approx(positive.mean())
    assert found.advantage.value == pytest.approx(positive.mean() - (said != positive).mean())
    inside = [group.observed.low <= group.predicted <= group.observed.high for group in found.calibration]
    assert sum(inside) >= 0.8 * len(inside) >= 16
    assert found.better_than_majority
    assert not found.same_answer


@pytest.mark.parametrize("rule", ['"youden"', '"f1"', "0.2"])
def test_a_threshold_is_the_best_edge_and_its_intervals_hold_for_all(rule: str) -> None:
    study = held_back_study(2, 4, rule=rule)
    rng = np.random.default_rng(1)
    held = {name: records_of(rng, 4000, W, -1.5) for name in study.names}
    found = evaluate_in_the_clear(study, MODEL, held, quiet=True)
    X, y = (np.concatenate([getattr(side, name) for side in held.values()]) for name in ("X", "y"))
    scores, positive = X @ np.array(W) - 1.5, y > 0

    def worth(cut: float) -> float:
        said = scores > cut
        tp, fp = (said & positive).sum(), (said & ~positive).sum()
        if rule == '"youden"':
            return float(tp / positive.sum() - fp / (~positive).sum())
        return float(2 * tp / (tp + fp + positive.sum()) if rule == '"f1"' else -abs(said.mean() - 0.2))

    assert found.threshold == max((point.score for point in found.curve), key=worth)
    assert found.threshold != 0
    if rule == "0.2":
        assert found.chosen.answered.value == pytest.approx(0.2, abs=0.02)
    alone = next(point for point in found.curve if point.score == found.threshold)
    assert found.chosen.error.low < alone.error.low < alone.error.high < found.chosen.error.high
    assert says(found.to_json()["threshold"]["intervals"], "intervals_at_all_thresholds")


def test_the_threshold_goes_with_the_model_and_decides() -> None:
    study = held_back_study(2, 4)
    plain = Model(W, None, (-1.5,))
    kept = replace(plain, threshold=0.75)
    assert "threshold" not in model_to_json(plain, study, bytes(16))
    saved = model_from_json(json.loads(json.dumps(model_to_json(kept, study, bytes(16)))))
    assert saved.threshold == 0.75
    rows = {f"x{i}": np.linspace(-1, 1, 50) * w / 6 for i, w in enumerate(W)}
    answers = predict(saved, rows)
    assert np.array_equal(answers.labels > 0, answers.margins > 0.75)
    assert (answers.labels != predict(replace(saved, threshold=0.0), rows).labels).any()
    with pytest.raises(BadInput):
        model_from_json({**model_to_json(kept, study, bytes(16)), "threshold": math.inf})


# --- Cells and bins -------------------------------------------------------------------


def test_no_score_lies_beyond_the_range_and_zero_is_an_edge() -> None:
    assert score_range((3.0, 4.0)) == 3  # 5 <= 8
    assert score_range((3.0, 4.0), (3.0,)) == 3
    assert score_range((3.0, 4.0), (3.1,)) == 4
    assert score_range(()) == -20
    assert score_range((1e300, 1.0)) == score_range((math.inf,)) == score_range((math.nan,)) == 4
    cells = cells_of(np.array([-8.0, -1e-9, 0.0, 1e-9, 8.0, math.inf, -math.inf, math.nan]), 3)
    assert list(cells) == [0, 127, 127, 128, 255, 255, 0, 127]
    bins = locate_bins(np.bincount(cells, minlength=CELLS).tolist(), 0.1, 3)
    assert 0.0 in bins.edges
    scores = np.random.default_rng(0).normal(size=1000) * 3
    for i, edge in enumerate(bins.edges):
        assert np.array_equal(bins.of(scores) > i, scores > edge)


@pytest.mark.parametrize(("center", "sd", "weight"), [(-4.0, 0.5, 9.0), (0.0, 0.03, 0.2), (6.0, 3.0, 40.0)])
def test_bins_follow_the_scores_wherever_they_lie(center: float, sd: float, weight: float) -> None:
    rng = np.random.default_rng(0)
    scores, exponent = rng.normal(center, sd, 10_000), score_range((weight,))
    noisy = np.bincount(cells_of(scores, exponent), minlength=CELLS) + rng.normal(0, 19, CELLS)
    bins = locate_bins(noisy.tolist(), 19.0, exponent)
    held = np.bincount(bins.of(scores), minlength=len(bins.middles))
    assert (held > 200).sum() >= 12
    assert held.max() < 2500


@pytest.mark.parametrize("kind", ["one label", "no score", "not a number", "all the same"])
def test_hopeless_records_are_measured_without_a_stop(kind: str) -> None:
    study = held_back_study(2, 4)
    held = _data(study, 5000)
    model = MODEL
    if kind == "one label":
        held = {name: Dataset(side.X, np.ones_like(side.y)) for name, side in held.items()}
    elif kind == "no score":
        model = Model((0.0,) * 4, None)
    elif kind == "not a number":
        model = Model((math.nan, math.inf, 1.0, 1.0), None)
    else:
        held = {name: Dataset(np.tile(side.X[:1], (5000, 1)), side.y) for name, side in held.items()}
    rngs = {name: SimulationRng(2, name) for name in held}  # the intervals are of 95 %, and hold with these
    found = evaluate_in_the_clear(study, model, held, rngs)
    shown = found.to_json()
    json.dumps(shown, allow_nan=False)
    if kind == "one label":
        assert shown["auc"]["value"] is None
        assert (shown["auc"]["low"], shown["auc"]["high"]) == (0.0, 1.0)
    else:
        assert found.auc.low < 0.5 < found.auc.high
    if kind in {"no score", "all the same"}:
        assert found.same_answer == "negative"


# --- What is refused --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("share = 0", "[evaluation] share is 0, but must be greater than 0"),
        ("share = 0.9", "[evaluation] share is 0.9, but must be at most 0.5"),
        ("share = 0.05", "[evaluation] share is 0.05, but of min_records = 10 that is less than one record"),
        ("", "[evaluation] share is missing"),
        ('share = 0.2\nthreshold = "best"', "[evaluation] threshold is 'best', but must be 'youden', 'f1', or a"),
        ("share = 0.2\nthreshold = 1.0", "[evaluation] threshold is 1.0, but must be 'youden', 'f1', or a number"),
        ("share = 0.2\nbins = 3", "[evaluation] has an unknown key 'bins'"),
    ],
)
def test_a_share_or_a_threshold_that_cannot_be_is_refused(change: str, message: str) -> None:
    text = held_back_study().to_toml().replace("share = 0.2", change)
    with pytest.raises(BadInput) as refused:
        Study.parse(text, in_memory=True)
    assert message in refused.value.message


def test_half_of_the_records_may_be_held_back() -> None:
    study = held_back_study(2, 4, share=0.5)
    assert run_in_memory(entry_of(study), study, _data(study))[CHARLIE].evaluation.records == 60


def test_protocols_that_hold_nothing_back_say_so() -> None:
    for name, entry in (PROTOCOLS | BASELINES).items():
        if not entry.evaluates:
            made = held_back_study(3, 4)
            study = made.model_copy(
                update={
                    "study": made.study.model_copy(update={"protocol": name}),
                    "privacy": made.privacy.model_copy(update={"calibration": entry.calibrations[0]}),
                    "protocol": {},
                }
            )
            if "model" in entry.parameters.model_fields or "auxiliary" in entry.parameters.model_fields:
                continue  # its own section is not complete
            with pytest.raises(BadInput) as refused:
                entry_of(study)
            assert "[evaluation]" in refused.value.message, name
            assert says(refused.value.hint, "study_new_measure")
    paper = held_back_study(3, 4, protocol="psgd", calibration="paper")
    with raises(BadInput, "holds_no_records_back", 'psgd with calibration = "paper"'):
        entry_of(paper)


def test_a_number_of_records_held_back_that_cannot_be_ends_the_run() -> None:
    study = held_back_study(3, 4)
    for n, held in ((80, 20), (83, 18), (80, 19)):
        assert check_held_back(study, n, held) == held
    for n, held in ((80, 21), (80, 16), (0, 100), (20, 5)):
        with raises(RunFailed, "held_back_refused"):
            check_held_back(study, n, held)


def test_a_charlie_who_shifts_the_number_held_back_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    study = held_back_study(3, 4)
    unpacked = paillier_sum.unpacked

    def shifted(layout: Any, *args: Any) -> tuple[int, ...]:
        sums = unpacked(layout, *args)
        return (sums[0], sums[1] - 12) if layout.length == 2 else sums

    monkeypatch.setattr(CheckKey, "fits", lambda *_: True)  # which would find him out before
    for module in (ss, paillier_sum):
        monkeypatch.setattr(module, "unpacked", shifted)
    with raises(RunFailed, "held_back_refused"):
        run_in_memory(entry_of(study), study, _data(study))


# --- What is said ---------------------------------------------------------------------


def test_the_statement_and_the_plain_words_say_that_the_costs_do_not_add_up() -> None:
    study = held_back_study(4, 4, colluders=1)
    rows = {claim.view: claim for claim in statement_of(study)}
    for view in ("evaluation, with the model", "evaluation, to Charlie with 1 party"):
        assert rows[view].delta == 1e-6
        assert cast("float", rows[view].epsilon) <= 1.0
        assert says(rows[view].text, "row_adds_nothing")
    plain = Study.parse(study.to_toml().replace("[evaluation]\nshare = 0.2\n", ""), in_memory=True)
    kept = [claim for claim in statement_of(study) if not claim.view.startswith("evaluation")]
    assert kept == list(statement_of(plain))
    said, before = entry_of(study).explain(study), entry_of(plain).explain(plain)
    assert said.leaves[-1].startswith("20 % ")
    assert said.leaves[:-1] == before.leaves
    assert says(said.cost[-1], "evaluation_costs_nothing")
    assert said.cost[:-1] == before.cost


@pytest.fixture(scope="module")
def simulated() -> Simulation:
    study = held_back_study(3, 4, rule='"youden"', section="rounds = 10", min_records=100)
    return simulate(study, _data(study, 3000), seed=1)


def test_the_result_the_report_and_the_model_have_it(simulated: Simulation) -> None:
    found = simulated.result["evaluation"]
    assert found["records"] == 1800
    assert simulated.model_json()["threshold"] == found["threshold"]["score"] == simulated.model.threshold
    assert "evaluation" not in simulated.model_json()
    shown = report_text(simulated.result)
    assert says(shown, "measured_on_records", "1,800")
    assert says(shown, "threshold_chosen_by", "youden")
    assert says(shown, "intervals_at_one_threshold")
    assert shown.count("●") > 15
    assert not says(shown, "not_shown_better_than_constant")
    assert "evaluation" in [stage["name"] for stage in simulated.result["stages"]]


def test_a_model_that_always_says_the_same_is_called_so(simulated: Simulation) -> None:
    study = held_back_study(3, 4)
    data = _data(study, 20_000)
    found = evaluate_in_the_clear(study, Model((0.1,) * 4, None, (-3.0,)), halves(study, data))
    assert found.same_answer == "negative"
    assert not found.better_than_majority
    shown = report_text({**simulated.result, "evaluation": found.to_json()})
    assert says(shown, "nearly_all_one_answer", "the other label than the positive one")
    assert says(shown, "not_shown_better_than_constant")


def test_a_study_without_an_evaluation_is_what_it_was() -> None:
    study = held_back_study(3, 4)
    plain = Study.parse(study.to_toml().replace("[evaluation]\nshare = 0.2\n", ""), in_memory=True)
    assert "evaluation" not in " ".join(plain.canonical())
    model = run_in_memory(entry_of(plain), plain, _data(plain))[CHARLIE]
    assert (model.evaluation, model.threshold) == (None, 0.0)
    assert LOCATE_UNITS * 3 == COUNT_UNITS

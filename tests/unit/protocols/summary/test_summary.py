"""summary counts what records hold, under noise that is all the proof needs; no record makes a party refuse."""

from __future__ import annotations

import itertools
import json
import math
import re
import tomllib
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade.cli.output import Format
from masquerade.cli.processes import _done
from masquerade.doctor import examine
from masquerade.simulation import WATERMARK, load_split, simulate
from masquerade.statistics import bars
from masquerade_core.counts import Numbers
from masquerade_core.data.histograms import Cells, Grid, Histogram
from masquerade_core.errors import BadInput, LocalProtocolError, RefusedLocally, RunFailed
from masquerade_core.privacy.accounting import delta_of, epsilon_of
from masquerade_core.privacy.noise.histogram_counts import histogram_noise, histogram_sensitivity
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_core.seat import Release, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Feature, Label
from masquerade_core.study_files import load_study
from masquerade_core.table import replay
from masquerade_core.wire.codec import MAX_BODY
from masquerade_core.words import counted
from masquerade_protocols import PROTOCOLS, protocol_of
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.paillier_sum import as_packing
from masquerade_protocols.summary import public, roles
from masquerade_protocols.summary.noiseless import noiseless
from tests.face_helpers import Shell, records, small_study, split_csv, write_csv
from tests.messages import pattern, raises, says, sentence
from tests.summary_helpers import AGE, BMI, LABEL, SEX, dealt, patients, run_summary, summary_study

UNIT = 1 << public.COUNT_BITS

_Array = NDArray[np.float64]


def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "discrete_gaussian", lambda _rng, _sigma, size: [0] * size)


# --- Right -----------------------------------------------------------------------------------------


def _in_the_clear(columns: dict[str, list[str]], cells: int = 32) -> list[float]:
    """Count with numpy and by hand: age, sex, bmi, ill."""

    def number(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return math.nan

    ages = np.array([number(cell) for cell in columns["age"]])
    counts, _ = np.histogram(ages[~np.isnan(ages)], bins=np.linspace(0, 120, cells + 1))
    out = [np.sum(ages < 0), *counts, np.sum(ages > 120), np.sum(np.isnan(ages))]
    sexes = Counter(columns["sex"])
    out += [sexes["f"], sexes["m"], sexes["x"], sexes["F"], sexes["?"]]
    bmis = np.array([number(cell) for cell in columns["bmi"]])
    inner, _ = np.histogram(bmis, bins=[-np.inf, 18.5, 25, 30, 1e300])
    out += [*inner[:3], inner[3] + np.sum(np.isposinf(bmis)), np.sum(np.isnan(bmis))]
    ill = Counter(columns["ill"])
    return [float(v) for v in (*out, ill["yes"], ill["no"] + ill["perhaps"], ill[""])]


def test_without_noise_the_opened_counts_are_those_of_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    _quiet(monkeypatch)
    study, sizes = summary_study(), (300, 41, 1000)
    results, _ = run_summary(study, dealt(study, sizes))
    together = np.sum([_in_the_clear(patients(n, seed)) for seed, n in enumerate(sizes)], axis=0)
    assert together.sum() == 4 * sum(sizes)  # each record counts once in each histogram
    assert {result.noisy for result in results.values()} == {tuple(together.tolist())}
    assert noiseless(study, dealt(study, sizes)).noisy == results[CHARLIE].noisy
    assert results[CHARLIE].records[0] == pytest.approx(sum(sizes), abs=1e-9)


def test_a_loose_study_counts_a_level_in_capitals_as_that_level() -> None:
    columns = patients(300, 1)
    capitals = columns["sex"].count("F")
    assert capitals
    sexes = [Grid.from_study(summary_study(matching=how), 32).histograms[1] for how in ("exact", "loose")]
    exact, loose = (np.bincount(histogram.places(columns["sex"]), minlength=5).tolist() for histogram in sexes)
    assert loose[0] == exact[0] + capitals
    assert sum(loose) == sum(exact)


def test_everybody_computes_the_same_statistics_from_one_sum() -> None:
    study = summary_study(5)
    results, table = run_summary(study, dealt(study, (400,) * 5))
    files = [json.dumps(dict(result.files(study, b"run"))) for result in results.values()]
    assert len(set(files)) == 1
    for name in study.names:
        sends = [e.effect for e in table.journal(name) if isinstance(e.effect, Send | Release)]
        contributed = [i for i, effect in enumerate(sends) if getattr(effect, "type", "") == "Contribution"]
        assert len(contributed) == 1
        (paid,) = (i for i, effect in enumerate(sends) if isinstance(effect, Release))
        release = sends[paid]
        assert isinstance(release, Release)
        assert (release.epsilon, release.delta) == (study.privacy.epsilon, study.privacy.delta)
        assert paid == contributed[0] - 1  # debited right before it leaves


def test_a_party_that_starts_again_sends_the_same_bytes() -> None:
    study = summary_study(2)
    data = dealt(study, (50, 60))
    _, table = run_summary(study, data)
    name = study.names[1]
    replay(roles.party(table.seat(name), study, data[name]), table.journal(name))


def test_the_form_of_the_traffic_follows_from_public_numbers() -> None:
    """Lengths, order and recipients do not depend on records, not even on how many there are."""
    study = summary_study()
    forms = []
    for sizes in ((30, 30, 30), (3000, 11, 500)):
        _, table = run_summary(study, dealt(study, sizes), seed=sizes[0])
        forms.append([(f.source, f.to, f.type, f.length) for f in table.passed])
    assert forms[0] == forms[1]


# --- Places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "bin_"),
    [
        ("-0.001", 0), ("-inf", 0), ("0", 1), ("29.99", 1), ("30", 2), ("60", 3), ("89", 3), ("90.0", 4), ("120", 4),
        ("120.0001", 5), ("1e999", 5), ("", 6), ("?", 6), ("NaN", 6), ("old", 6), ("1_0", 6), (" 30 ", 2),
        (30, 2), (30.5, 2), (True, 6), (None, 6), (object(), 6), (math.nan, 6), (math.inf, 5),
    ],
)  # fmt: skip
def test_every_cell_of_a_column_of_numbers_has_a_bin(cell: Any, bin_: int) -> None:
    assert Histogram.of_feature(AGE, 4).places([cell]).tolist() == [bin_]


@pytest.mark.parametrize(
    ("cell", "bin_"), [("f", 0), ("x", 2), ("F", 3), ("f ", 3), ("", 4), (" n/A ", 4), ("?", 4), (7, 3), (None, 4)]
)
def test_every_cell_of_a_column_of_levels_has_a_bin(cell: Any, bin_: int) -> None:
    assert Histogram.of_feature(SEX, 4).places([cell]).tolist() == [bin_]


def test_a_level_may_be_a_word_that_elsewhere_stands_for_missing() -> None:
    histogram = Histogram.of_feature(Feature(name="x", levels=("none", "some")), 4)
    assert histogram.places(["none", "None", "?", "some"]).tolist() == [0, 3, 3, 1]


def test_where_missing_cells_have_a_level_empty_ones_count_as_it() -> None:
    histogram = Histogram.of_feature(Feature(name="x", levels=("a", "?")), 4)
    assert histogram.places(["?", "", None, "NA", "b"]).tolist() == [1, 1, 1, 3, 2]


def test_edges_make_bins_of_their_own_and_bounds_add_two() -> None:
    open_, closed = (
        Histogram.of_feature(feature, 4) for feature in (BMI, BMI.model_copy(update={"min": 10.0, "max": 60.0}))
    )
    assert open_.places(["10", "18.5", "30", "1e9", "?"]).tolist() == [0, 1, 3, 3, 4]
    assert closed.places(["9", "10", "18.5", "30", "60", "61", "?"]).tolist() == [0, 1, 2, 4, 4, 5, 6]
    assert (len(open_), len(closed)) == (5, 7)


def test_classes_have_bins_of_their_own() -> None:
    study = summary_study(label=Label(name="ill", classes=("a", "b", "c")))
    protocol_of(study)
    assert public.grid_of(study).histograms[-1].places(["a", "c", "d", ""]).tolist() == [0, 2, 3, 4]


def test_a_place_that_no_histogram_has_is_this_program_s_fault() -> None:
    grid = Grid((Histogram.of_feature(SEX, 4),))
    assert Cells(np.array([[4]], dtype=np.int32), grid).counts() == (0, 0, 0, 0, 1)
    for places in ([[5]], [[-1]], [[0, 0]]):
        with raises(LocalProtocolError, "not_one_place_each"):
            Cells(np.array(places, dtype=np.int32), grid)


def test_records_are_loaded_for_counting_and_none_is_refused(tmp_path: Path) -> None:
    study, columns = summary_study(), patients(50)
    path = tmp_path / "records.csv"
    rows = zip(*columns.values(), ["p1", "p2"] * 25, strict=True)
    path.write_text("\n".join(",".join(row) for row in ((*columns, "site"), *rows)) + "\n", encoding="utf-8")
    records = protocol_of(study).records
    whole = records.one(path, study)
    assert whole.counts() == tuple(int(v) for v in _in_the_clear(columns))
    assert repr(whole) == "<Cells: secret>"
    groups = records.grouped(path, study, "site")
    assert {name: part.n for name, part in groups.items()} == {"p1": 25, "p2": 25}
    assert np.sum([part.counts() for part in groups.values()], axis=0).tolist() == list(whole.counts())
    few = study.model_copy(update={"study": study.study.model_copy(update={"min_records": 51})})
    with raises(RefusedLocally, "fewer_than_min_records", ..., 51):
        records.one(path, few)
    with raises(BadInput, "file_lacks_column", "'weight'"):
        records.one(path, summary_study(features=(Feature(name="weight", min=0.0, max=1.0),)))


def test_records_for_another_protocol_are_refused_in_a_sentence() -> None:
    study = summary_study()
    with raises(BadInput, "not_sorted_into_bins", ..., "summary"):
        PROTOCOLS["summary"].records.check(object(), study, "the data of p1")
    other = dealt(summary_study(cells=8), (30, 30, 30))["p1"]
    with raises(BadInput, "not_sorted_into_bins", ..., ...):
        PROTOCOLS["summary"].records.check(other, study, "the data of p1")
    changed = study.model_copy(update={"study": study.study.model_copy(update={"protocol": "dp-gd"})})
    with raises(BadInput, "not_encoded", ..., "encoded records", "dp-gd"):
        PROTOCOLS["dp-gd"].records.check(other, changed, "the data of p1")


# --- Sensitivity and noise -------------------------------------------------------------------------


def test_no_replaced_record_moves_what_is_sent_by_more_than_delta_and_one_comes_up_to_it() -> None:
    """Brute force: every pair of records that two ages, three sexes, two weights and two labels can make."""
    study = summary_study(cells=2)
    grid, H = public.grid_of(study), 4
    zeros = [0] * len(grid)
    worst, pairs = 0, 0
    base = grid.place(patients(20)).places
    options = [range(len(histogram)) for histogram in grid.histograms]
    records = list(itertools.product(options[0], options[1][:3], options[2][:2], options[3]))
    for old, new in itertools.product(records, records[:: len(records) // 7]):
        both = (Cells(np.array([*base, record], dtype=np.int32), grid) for record in (old, new))
        before, after = (roles.contribution(cells, zeros) for cells in both)
        worst = max(worst, sum((a - b) ** 2 for a, b in zip(before, after, strict=True)))
        pairs += 1
    assert pairs > 300
    assert worst == 2 * H * UNIT**2
    assert histogram_sensitivity(H) ** 2 >= worst
    assert float(histogram_sensitivity(H)) == pytest.approx(math.sqrt(2 * H) * UNIT, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta", "H"), [(0.5, 1e-6, 15), (1.0, 1e-5, 4), (3.0, 1e-9, 100)])
def test_the_noise_meets_the_target_and_is_the_least_that_does(epsilon: float, delta: float, H: int) -> None:
    noise = histogram_noise(histograms=H, epsilon=epsilon, delta=delta, honest=3)
    mu = math.sqrt(2 * H) * UNIT / float(noise.sigma)
    assert delta_of(mu, epsilon) <= delta * (1 + 1e-9)
    assert delta_of(mu * (1 + 1e-6), epsilon) > delta
    assert 3 * noise.share**2 >= noise.sigma**2 + 9
    # Half of the sensitivity is the easiest mistake; it would be worth so much less.
    slip = histogram_noise(histograms=H, epsilon=epsilon, delta=delta, honest=3).mu(3) * 2
    assert epsilon_of(slip, delta) > 1.9 * epsilon


def test_on_adult_s_fifteen_columns_a_count_has_noise_of_44_records() -> None:
    noise = histogram_noise(histograms=15, epsilon=0.5, delta=1e-6, honest=5)
    assert float(noise.sigma) / UNIT == pytest.approx(44.13, abs=0.01)


def _opened_noise(t: int, monkeypatch: pytest.MonkeyPatch, times: float = 1.0) -> tuple[_Array, float]:
    """Return what is opened where no record is: nothing but noise; and the sd that the statistics state."""
    study = summary_study(4, [Feature(name=f"x{i}", min=0.0, max=1.0) for i in range(6)], colluders=t, cells=100)

    def scaled(rng: Rng, sigma: Fraction, size: int) -> list[int]:
        return discrete_gaussian(rng, sigma * Fraction(times), size)

    with monkeypatch.context() as patch:
        patch.setattr(roles, "discrete_gaussian", scaled)
        patch.setattr(Cells, "counts", lambda self: (0,) * len(self.grid))
        results, _ = run_summary(study, dict.fromkeys(study.names, _nothing(public.grid_of(study))))
    return np.array(results[CHARLIE].noisy), results[CHARLIE].sd


def _nothing(grid: Grid) -> Cells:
    return Cells(np.zeros((10, len(grid.histograms)), dtype=np.int32), grid)


def _sd_accepted(noise: _Array, sd: float) -> bool:
    """Whether chi-square allows the sum of squares; it refuses a right one with a chance of 2e-6."""
    return 1e-6 < float(stats.chi2(noise.size).cdf((noise**2).sum() / sd**2)) < 1 - 1e-6


@pytest.mark.parametrize("t", [0, 3])
def test_the_opened_noise_has_the_law_that_the_proof_asks_for(t: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = math.sqrt(2 * 7) / 0.2367 * math.sqrt(4 / (4 - t))  # mu of epsilon = 1, delta = 1e-6; 7 histograms
    noise, stated = _opened_noise(t, monkeypatch)
    assert noise.size == 6 * 103 + 3
    assert stated == pytest.approx(wanted, rel=2e-3)
    assert _sd_accepted(noise, wanted)
    assert stats.kstest(noise / wanted, "norm").pvalue > 1e-6
    for off in (0.5, 0.7, 1.3):  # the test can fail
        assert not _sd_accepted(off * noise, wanted)
    if t == 0:
        assert not _sd_accepted(_opened_noise(t, monkeypatch, 0.7)[0], wanted)


def test_the_statement_counts_the_shares_that_a_view_does_not_know() -> None:
    study = summary_study(5)
    rows = {claim.view: claim for claim in PROTOCOLS["summary"].statement(study)[:-1]}
    noise = public.noise_of(study)
    assert rows["released statistics"].epsilon == pytest.approx(1.0)
    assert rows["one party"].epsilon == pytest.approx(epsilon_of(noise.mu(4), 1e-6), rel=1e-3)
    assert rows[sentence("view_all_but_one")].epsilon == pytest.approx(epsilon_of(noise.mu(1), 1e-6), rel=1e-3)
    assert all("docs/privacy/summary.md" in claim.source for claim in rows.values())
    most = PROTOCOLS["summary"].statement(summary_study(5, colluders=4))
    assert {claim.view: claim.epsilon for claim in most}["Charlie with 4 parties"] == pytest.approx(1.0)


def test_the_explanation_says_that_no_record_is_refused() -> None:
    explained = PROTOCOLS["summary"].explain(summary_study())
    assert says(explained.needs[-1], "no_record_refuses")
    assert "age (0 to 120)" in explained.needs[0]


# --- What follows from the counts ------------------------------------------------------------------


def test_a_large_study_s_bounds_lie_within_a_cell_of_the_exact_ones() -> None:
    """As many records as Adult has, and its noise: columns of several shapes, at three seeds."""
    rng = np.random.default_rng(5)
    n = 32_000
    shapes = {
        "normal": rng.normal(50, 12, n),
        "skewed": np.minimum(rng.exponential(12, n), 119),
        "mostly zero": np.where(rng.random(n) < 0.9, 0, rng.uniform(10, 90, n)),
        "uniform": rng.uniform(20, 100, n),
        "integers": np.rint(rng.normal(40, 8, n)),
    }
    features = [Feature(name=name, min=0.0, max=120.0) for name in shapes]
    study = summary_study(3, features, epsilon=0.5)
    columns = {name: [f"{v:.3f}" for v in values] for name, values in shapes.items()}
    cells = public.grid_of(study).place({**columns, "ill": ["yes"] * n})
    parts = np.array_split(cells.places, 3)
    data = {name: Cells(part, cells.grid) for name, part in zip(study.names, parts, strict=True)}
    for seed in range(3):
        statistics = run_summary(study, data, seed)[0][CHARLIE]
        for name, values in shapes.items():
            low, high = statistics.columns[name].bounds
            width = 120 / 32
            assert abs(low - math.floor(np.quantile(values, 0.02) / width) * width) <= width, name
            assert abs(high - math.ceil(np.quantile(values, 0.98) / width) * width) <= width, name
            mean, sd, bins = statistics.columns[name].mean
            assert abs(mean - values.mean()) <= 5 * sd + bins, name


def test_exact_counts_give_the_exact_quantiles_cells() -> None:
    study = summary_study(2, (AGE,))
    ages = [str(age) for age in range(100)]
    grid = public.grid_of(study)
    cells = grid.place({"age": ages, "ill": ["yes"] * 100})
    statistics = noiseless(study, dict.fromkeys(study.names, cells))
    age = statistics.columns["age"]
    assert isinstance(age, Numbers)
    assert age.quantile(0.5) == (48.75, 52.5)
    assert age.bounds == (0.0, 97.5)  # 98 of 100 ages are 97 or less
    assert age.mean[0] == pytest.approx(49.5, abs=1.9)


def test_where_noise_hides_the_quantile_the_old_bound_stays() -> None:
    """Under noise of 73, thirty records say nothing, and 2 % of 2,400 are too few: no bound may follow from noise.

    One of 32 counts is above three standard deviations in 4 % of runs: then the noise seems to say something.
    """
    study = summary_study(3, (AGE,), epsilon=0.1)
    for n, runs, hidden in ((10, 20, True), (800, 5, False)):
        found = [run_summary(study, dealt(study, (n, n, n)), seed)[0][CHARLIE] for seed in range(runs)]
        quiet = [statistics for statistics in found if statistics.columns["age"].says_nothing or not hidden]
        assert len(quiet) >= 3 * runs / 4
        for statistics in quiet:
            assert statistics.columns["age"].bounds == (0.0, 120.0)
            (block,) = tomllib.loads(statistics.to_toml(study))["feature"]
            assert (block["min"], block["max"]) == (0.0, 120.0)


def _released(levels: dict[str, int], *, missing: int = 0, unknown: int = 0, **more: Any) -> tuple[Any, Any]:
    """A study of one column of levels, and its released statistics."""
    study = summary_study(2, (Feature(name="x", levels=tuple(levels)),), **more)
    cells = [level for level, n in levels.items() for _ in range(n)] + ["?"] * missing + ["never heard of"] * unknown
    grid = public.grid_of(study)
    data = grid.place({"x": cells, "ill": ["no"] * len(cells)})
    return study, run_summary(study, {"p1": data, "p2": data})[0][CHARLIE]


def test_rare_levels_are_pooled_by_their_noisy_counts() -> None:
    study, released = _released({"a": 5000, "b": 400, "c": 3, "d": 0}, missing=800)
    column = released.columns["x"]
    assert released.threshold == pytest.approx(3 * released.sd)
    assert list(column.kept) == ["a", "b"]
    assert column.rare == ("c", "d")
    shown = released.to_json(study, b"")["columns"][0]
    assert set(shown["levels"]) == {"a", "b"}
    assert shown["levels"]["a"] == pytest.approx(10_000, abs=5 * released.sd)
    assert shown["other"] is None  # six records are not shown: they may be noise
    assert shown["missing"]["rate"] == pytest.approx(800 / 6203, abs=0.01)
    toml = released.to_toml(study)
    (block,) = tomllib.loads(toml)["feature"]
    assert block["levels"] == ["a", "b", "other", "?"]
    assert says(toml, "other_stands_for", "x", "'other'", "c, d")
    (missing,) = re.findall(pattern("no_value_here", "x", ..., ...), toml)
    assert re.search(r" 1[23]\.\d% .* '\?'\.$", missing)
    (label,) = re.findall(pattern("shares_of_label", "ill", ...), toml)
    assert re.search(r" (9\d\.\d|100\.0)%", toml[toml.index(label) :].splitlines()[0])


def test_a_level_is_kept_or_pooled_by_the_noise_and_not_by_the_truth() -> None:
    """A true count at the threshold is kept in about half of all runs."""
    study = summary_study(2, (Feature(name="x", levels=("a", "b")),))
    border = round(3 * math.sqrt(4) / 0.2367 / 2)
    grid = public.grid_of(study)
    data = grid.place({"x": ["a"] * 500 + ["b"] * border, "ill": ["no"] * (500 + border)})
    kept = [
        "b" in run_summary(study, {"p1": data, "p2": data}, seed)[0][CHARLIE].columns["x"].kept for seed in range(40)
    ]
    assert 8 <= sum(kept) <= 32


def test_unknown_values_ask_for_a_level_of_their_own() -> None:
    study, released = _released({"a": 500, "b": 500}, unknown=300)
    (block,) = tomllib.loads(released.to_toml(study))["feature"]
    assert block["levels"] == ["a", "b", "other"]
    known, released = _released({"a": 500, "b": 500})
    (block,) = tomllib.loads(released.to_toml(known))["feature"]
    assert block["levels"] == ["a", "b"]


def test_a_column_whose_levels_all_drown_is_left_out_and_one_level_gets_company() -> None:
    study, released = _released({"a": 10, "b": 10}, epsilon=0.1)
    toml = released.to_toml(study)
    assert "feature" not in tomllib.loads(toml)
    assert says(toml, "left_out_by_noise", "x")
    study, released = _released({"a": 500, "b": 0})
    (block,) = tomllib.loads(released.to_toml(study))["feature"]
    assert Feature.model_validate(block).levels == ("a", "other")


def test_a_level_for_missing_cells_stands_in_a_block_once() -> None:
    study = summary_study(2, (Feature(name="x", levels=("a", "?")),))
    data = public.grid_of(study).place({"x": ["a"] * 500 + ["?"] * 400 + ["NA"] * 300, "ill": ["no"] * 1200})
    toml = run_summary(study, {"p1": data, "p2": data})[0][CHARLIE].to_toml(study)
    (block,) = tomllib.loads(toml)["feature"]
    assert Feature.model_validate(block).levels == ("a", "?")


def test_a_level_called_other_stays_what_it_is() -> None:
    study, released = _released({"a": 500, "other": 400, "c": 0}, unknown=200)
    (block,) = tomllib.loads(released.to_toml(study))["feature"]
    assert block["levels"] == ["a", "other"]


def test_the_blocks_are_columns_that_a_study_takes() -> None:
    study = summary_study()
    statistics = run_summary(study, dealt(study, (3000, 4000, 5000)))[0][CHARLIE]
    blocks = [Feature.model_validate(block) for block in tomllib.loads(statistics.to_toml(study))["feature"]]
    assert [block.name for block in blocks] == ["age", "sex", "bmi"]
    assert blocks[0].min is not None
    assert 0 < blocks[0].min < 25
    assert blocks[2] == BMI  # edges stay as they are
    assert protocol_of(summary_study(features=blocks, label=LABEL)) is PROTOCOLS["summary"]


def test_the_estimate_of_all_records_weighs_the_histograms_by_their_noise() -> None:
    study, sizes = summary_study(), (400, 500, 600)
    data = dealt(study, sizes)
    found = [run_summary(study, data, seed)[0][CHARLIE] for seed in range(40)]
    errors = np.array([statistics.records[0] - 1500 for statistics in found])
    sd = found[0].records[1]
    assert sd == pytest.approx(found[0].sd / math.sqrt(1 / 35 + 1 / 5 + 1 / 5 + 1 / 3))
    assert 0.6 < math.sqrt(np.mean(errors**2)) / sd < 1.5


# --- What is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cells": 1}, ("key_out_of_range", "[protocol] cells", 1, "at least", 2)),
        ({"cells": 2.5}, ("key_of_another_kind", "[protocol] cells", "2.5", "a whole number")),
        ({"low": 0.0}, ("key_out_of_range", "[protocol] low", "0.0", "greater than", 0)),
        ({"low": 0.9, "high": 0.1}, ("low_not_smaller", "0.9", "0.1")),
        ({"suppress_below": -1.0}, ("key_out_of_range", "[protocol] suppress_below", "-1.0", "at least", 0)),
        ({"delta": 0.0}, ("delta_not_in_range", 0)),
        ({"calibration": "paper"}, ("no_such_calibration", "'paper'", "summary")),
        ({"epsilon": 1e-20, "delta": 1e-30}, ("noise_too_large", ..., "1e-30")),
    ],
)
def test_a_summary_that_cannot_be_carried_out_is_refused_in_a_sentence(
    changes: dict[str, Any], words: tuple[Any, ...]
) -> None:
    with raises(BadInput, *words):
        summary_study(**changes)


def test_a_summary_without_ranges_is_refused_in_a_sentence() -> None:
    text = summary_study().to_toml().replace("min = 0.0\nmax = 120.0\n", "")
    with raises(BadInput, "no_range", "'age'", "no range"):
        type(summary_study()).parse(text, in_memory=True)


def test_more_bins_than_a_message_holds_are_refused_before_anybody_joins() -> None:
    features = [Feature(name=f"x{i}", min=0.0, max=1.0) for i in range(2)]
    study = summary_study(features=features, cells=1000)
    bins, key = len(public.grid_of(study)), study.key_bits
    per_plaintext = as_packing(public.layout(study, public.noise_of(study))).per_plaintext
    room = (MAX_BODY - 4096) // (key // 4 + key // 8) * per_plaintext  # a total and its sum, as everybody is told
    protocol_of(study)
    many = [Feature(name=f"x{i}", min=0.0, max=1.0) for i in range(room // 1003 + 1)]
    with raises(BadInput, "too_many_bins", ..., f"{room:,}"):
        summary_study(features=many, cells=1000)
    assert bins == 2 * 1003 + 3


def test_one_party_alone_is_refused() -> None:
    study = summary_study(2)
    alone = study.model_copy(update={"parties": study.parties[:1]})
    with raises(BadInput, "one_party_alone", "summary"):
        protocol_of(alone)


# --- Attacks ---------------------------------------------------------------------------------------


def test_a_dropped_contribution_ends_the_run_and_nothing_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    study = summary_study()
    gather = ss.PaillierCharlieSums._gather

    async def dropped(self: ss.PaillierCharlieSums) -> Any:
        terms = await gather(self)
        terms["p3"] = terms["p2"]
        return terms

    monkeypatch.setattr(ss.PaillierCharlieSums, "_gather", dropped)
    with pytest.raises(RunFailed):
        run_summary(study, dealt(study, (30, 30, 30)))


def test_noise_is_drawn_before_the_join_and_by_everybody_for_itself() -> None:
    study = summary_study()
    _, table = run_summary(study, dealt(study, (30, 30, 30)))
    for name in study.names:
        effects = [type(e.effect).__name__ for e in table.journal(name)]
        assert effects.index("Once") < effects.index("Join")
    share = [SimulationRng(1, name) for name in study.names]
    drawn = {tuple(discrete_gaussian(rng, public.noise_of(study).share, 5)) for rng in share}
    assert len(drawn) == 3


# --- The command line ------------------------------------------------------------------------------


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def everybody(tmp_path: Path) -> Path:
    """One file with three parties' records; some cells fit no bound and no level."""
    path = split_csv(tmp_path / "all.csv", n=400)
    rows = path.read_text().splitlines()
    rows[1:4] = ["north,999,f,yes", "north,,m,no", "south,30,unheard of,"]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_simulate_shows_the_statistics_and_prints_the_blocks(
    shell: Shell, everybody: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    study, out = small_study(shell, tmp_path / "s.toml", protocol="summary"), tmp_path / "out"
    answer = shell("simulate", study, "--data", everybody, "--by", "site", "--seed", 1, "--out", out)
    assert answer.code == 0
    blocks = [Feature.model_validate(block) for block in tomllib.loads(answer.out)["feature"]]
    assert [block.name for block in blocks] == ["age", "sex"]
    assert (out / "features.toml").read_text() == answer.out
    assert answer.out.startswith(f"# {WATERMARK}\n")
    for words in ("Columns of numbers", "Columns of levels, and the label", "are not shown", "█"):
        assert words in answer.err
    on_disk = json.loads((out / "statistics.json").read_text())
    assert on_disk["watermark"] == WATERMARK
    assert {path.name for path in out.iterdir()} == {"statistics.json", "features.toml", "result.json"}
    told = shell.json("simulate", study, "--data", everybody, "--by", "site", "--seed", 1).data
    assert told["metrics"] == {}
    assert told["statistics"] == {key: value for key, value in on_disk.items() if key != "watermark"}
    again = shell("simulate", study, "--data", everybody, "--by", "site", "--out", out)
    assert again.code == 4


def test_simulate_says_that_there_is_no_model_to_test(shell: Shell, everybody: Path, tmp_path: Path) -> None:
    study = small_study(shell, tmp_path / "s.toml", protocol="summary")
    test = write_csv(tmp_path / "test.csv", records(60, 9))
    answer = shell.json("simulate", study, "--data", everybody, "--by", "site", "--test", test)
    assert answer.code == 4
    assert says(answer.json["message"], "no_classifier_to_test", "summary")
    loaded, _ = load_study(study, in_memory=True)
    run = simulate(loaded, load_split(everybody, loaded, "site"), seed=1)
    others = dict.fromkeys(loaded.names, _nothing(public.grid_of(summary_study())))
    with raises(BadInput, "not_sorted_into_bins", "the data of north", ...):
        simulate(loaded, others)
    with raises(BadInput, "makes_no_model", "summary"):
        _ = run.model
    answer = shell.json("audit", study)
    assert answer.code == 4
    assert says(answer.json["message"], "no_model_to_audit", "summary")


def test_a_study_is_shown_and_the_doctor_examines_it(
    shell: Shell, everybody: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    study = small_study(shell, tmp_path / "s.toml", protocol="summary", key_bits=2048, address="tcp://127.0.0.1:9")
    shown = " ".join(shell("study", "show", study).err.split())
    assert says(shown, "counts_leave", "3 histograms")
    assert says(shown, "no_record_refuses")
    assert "is refused. Correct it" not in shown
    checks = {check.name: check for check in examine(study, data=everybody)}
    assert says(checks["data"].message, "data_complete", "all.csv")
    assert says(checks["conversation"].message, "conversation_told", ..., counted(1, "secure sum"), ...)
    missing = write_csv(tmp_path / "no.csv", [{"age": "1", "sex": "f"}] * 40)
    assert says({c.name: c for c in examine(study, data=missing)}["data"].message, "file_lacks_column", "'ill'")


def test_what_a_participant_is_shown_after_a_run_are_the_statistics(
    shell: Shell, everybody: Path, tmp_path: Path
) -> None:
    study, out = small_study(shell, tmp_path / "s.toml", protocol="summary"), tmp_path / "out"
    shell("simulate", study, "--data", everybody, "--by", "site", "--seed", 1, "--out", out)
    text, machine = (_done(out / "result.json", output) for output in Format)
    assert text.stdout == json.loads((out / "statistics.json").read_text())["features"]
    assert len(text.shown) > 4
    assert machine.shown == ()
    assert machine.data["statistics"]["kind"] == "masquerade statistics 1"


def test_bars_are_as_high_as_their_counts_and_neighbours_are_added_up() -> None:
    assert bars([0, 1, 4, 8, None]) == " ▁▄█ "
    assert bars([2, 2, 1, 1, 0, None], width=3) == "█▄ "
    assert bars([]) == ""
    assert bars([None, None]) == "  "

"""The comparison of a released model in a demonstration, and the report on it."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import RenderableType
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from masquerade.cli.demo import _introduce
from masquerade.console import literal_console
from masquerade.datasets import simulated
from masquerade.demo import comparison as comparing
from masquerade.demo import prepare
from masquerade.demo.comparison import compare
from masquerade.demo.outcome import outcome_shown
from masquerade.demo.play import Played
from masquerade.demo.tuned import tuned_answers
from masquerade.demo.worth import gained, same_answer, worth_it
from masquerade_core.data.loaders import POINTS
from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.erm import fit
from masquerade_core.model import Model, answers_of, gives_one_answer
from masquerade_core.privacy.expectation import Verdict
from masquerade_protocols import PROTOCOLS
from masquerade_protocols.dp_gd.noiseless import clean_descent
from masquerade_protocols.entry import Noiseless
from tests.messages import says, sentence

N = 1000


def _wrong(errors: int, start: int = 0) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return on which of 1,000 records a model errs: ``errors`` of them, from ``start`` on."""
    wrong = np.zeros(N, dtype=bool)
    wrong[start : start + errors] = True
    return wrong


# --- Whether joining was worth it ----------------------------------------------------


@pytest.mark.parametrize(
    ("released", "own", "begin"),
    [
        (150, (200, 240, 210), "Joining was worth it for every party: the released model errs in 15.0%, the parties' "),
        (150, (200, 100, 210), "Joining was worth it for 2 of 3 parties, and for 1 party it was not: "),
        (
            150,
            (200, 152, 210),
            "Joining was worth it for 2 of 3 parties, and for 1 the test set is too small to tell: ",
        ),
        (150, (90, 100, 80), "Joining was worth it for no party: the released model errs in 15.0%, "),
        (150, (90, 100, 151), "Joining was worth it for no party that the test set can tell: "),
        (150, (149, 151, 150), "The test set is too small to tell whether joining was worth it: "),
        (299, (200, 210, 310), "Joining was not worth it, since the released model is no better than no model: "),
        (500, (200, 210, 310), "Joining was not worth it, since the released model is no better than no model: "),
    ],
)
def test_a_sentence_says_whether_joining_was_worth_it(released: int, own: tuple[int, ...], begin: str) -> None:
    parties = {f"site-{i}": _wrong(errors) for i, errors in enumerate(own)}
    said = worth_it(_wrong(released), parties, _wrong(300))
    assert said.startswith(begin)
    low, high = min(own) / N, max(own) / N
    assert says(said, "compared_with", f"{low:.1%} to {high:.1%}", "30.0%.")


def test_a_difference_counts_only_beyond_what_chance_explains() -> None:
    """The two err on other records: 40 against 60 may be chance (sd 10), 40 against 80 is not (sd 11)."""
    for errors, begin in ((60, "The test set is too small to tell"), (80, "Joining was worth it for every party")):
        assert worth_it(_wrong(40), {"a": _wrong(errors, start=500)}, _wrong(300, start=40)).startswith(begin)


@pytest.mark.parametrize(
    ("released", "pooled", "said"),
    [
        (0.2, 0.1, ("it was", "67%")),
        (0.25, 0.1, ("it was", "50%")),
        (0.3, 0.1, ("it was not", "33%")),
    ],
)
def test_the_end_says_whether_the_forecast_held(released: float, pooled: float, said: tuple[str, str]) -> None:
    assert says(gained(released, pooled, 0.4, Verdict.HALF), "forecast_judged", *said)


@pytest.mark.parametrize(("pooled", "verdict"), [(0.1, Verdict.BETTER), (0.1, None), (0.4, Verdict.HALF)])
def test_where_half_was_not_forecast_or_the_columns_tell_nothing_it_says_nothing(
    pooled: float, verdict: Verdict | None
) -> None:
    assert gained(0.2, pooled, 0.4, verdict) == ""


# --- Always the same answer ----------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "rare", "same"),
    [
        (0, 24, True),  # always no, though 24 % are yes
        (0, 1, True),
        (0, 0, False),  # all labels are alike, and so are the answers
        (1, 24, True),
        (3, 24, False),
        (1, 2, False),  # yes is rare among the answers since it is rare
        (24, 24, False),
    ],
)
def test_the_same_answer_is_one_although_labels_differ(others: int, rare: int, *, same: bool) -> None:
    answers, labels = (np.where(np.arange(100) < count, 1.0, -1.0) for count in (others, rare))
    assert gives_one_answer(answers, labels) is same
    assert gives_one_answer(-answers, -labels) is same


def test_the_same_answer_is_said_with_its_name() -> None:
    said = same_answer(np.where(np.arange(1000) < 3, 1.0, -1.0), learned="not '>50K'")
    assert says(said, "same_answer", "997 of 1,000", "not '>50K'")
    assert "gives all 50 test records" in same_answer(np.ones(50), learned="'yes'")


# --- What records are worth without privacy --------------------------------------------


def _off_centre(n: int, seed: int, positives: float = 0.24) -> Dataset:
    """Records that share a long common part, as most encoded tables do, and differ little by class."""
    generator = np.random.default_rng(seed)
    y = np.where(generator.random(n) < positives, 1.0, -1.0)
    X = np.hstack([np.full((n, 1), 3.0), generator.normal(size=(n, 5)) * 0.3 + 0.15 * y[:, None]])
    return Dataset.from_unit_ball(X / np.linalg.norm(X, axis=1, keepdims=True) * (1 - 1e-12), y)


def test_no_privacy_is_as_good_as_the_best_penalty_and_not_as_bad_as_the_studys() -> None:
    """Under the study's old default, Lambda = .02, the same records seem to teach nothing."""
    train, test = _off_centre(4000, 1), _off_centre(20_000, 2)
    found = float(np.mean(tuned_answers(train, test.X) != test.y))

    def at(Lambda: float) -> float:
        return float(np.mean(np.where(test.X @ fit(train.X, train.y, Lambda) > 0, 1.0, -1.0) != test.y))

    assert at(0.02) > 0.23
    assert found < 0.15
    assert found < min(map(at, (1e-3, 1e-4, 1e-5, 1e-6))) + 0.003


def test_the_penalty_is_chosen_on_few_records_and_all_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds over all records of a large table would take most of a demonstration's time."""
    sizes: dict[str, int] = {}

    def noting(kind: type[LogisticRegression]) -> None:
        whole = kind.fit

        def noted(self: LogisticRegression, X: Any, y: Any) -> Any:
            sizes[kind.__name__] = len(X)
            return whole(self, X, y)

        monkeypatch.setattr(kind, "fit", noted)

    noting(LogisticRegressionCV)
    noting(LogisticRegression)
    tuned_answers(_off_centre(4000, 1), np.zeros((1, 6)))
    assert sizes == {"LogisticRegressionCV": 3000, "LogisticRegression": 4000}


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_class_alone_is_a_model_that_says_so(label: float) -> None:
    X = np.full((30, 2), 0.5)
    assert tuned_answers(Dataset(X, np.full(30, label)), X[:4]).tolist() == [label] * 4


def test_a_label_that_is_too_rare_for_folds_is_no_failure() -> None:
    X = np.linspace(-0.7, 0.7, 40)[:, None]
    y = np.where(np.arange(40) == 39, 1.0, -1.0)
    assert set(tuned_answers(Dataset(X, y), X)) <= {-1.0, 1.0}


def test_named_classes_are_learned_too() -> None:
    generator = np.random.default_rng(5)
    y = generator.integers(3, size=600).astype(float)
    centres = np.array([[0.5, 0.0], [-0.3, 0.4], [-0.3, -0.4]])
    X = np.clip(centres[y.astype(int)] + 0.1 * generator.normal(size=(600, 2)), -0.7, 0.7)
    records = Dataset(X, y, 3)
    assert np.mean(tuned_answers(records, X) != y) < 0.01


# --- In the comparison -------------------------------------------------------------------


def test_an_offset_counts_in_all_that_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = simulated(3, n=600)
    plan = prepare(cohort, epsilon=25.0, protocol="dp-gd", directory=tmp_path / "demo")
    study, data = plan.study, {n: load_csv(plan.data_file(n), plan.study) for n in plan.study.names}
    weights = tuple(clean_descent(study, data).tolist())
    plain, shifted = Model(weights, None), Model(weights, None, (50.0,))
    near, far = (PROTOCOLS["dp-gd"].noiseless(study, data, model) for model in (plain, shifted))
    assert near.noise_ratio == pytest.approx(0.0, abs=1e-9)
    assert far.noise_ratio > 5
    entry = SimpleNamespace(
        noiseless=lambda *_args, **_named: Noiseless(shifted, "w", 0.0, None),
        classifiers=False,
        auxiliary=False,
        records=POINTS,
    )
    monkeypatch.setattr(comparing, "protocol_of", lambda _study: entry)
    moved = compare(study, cohort, shifted)
    positives = float(np.mean([row[-1] == "yes" for row in cohort.test.rows]))
    assert moved.without_noise == pytest.approx(1 - positives)
    assert says(moved.same_answer, "same_answer", "all 5,000", "'yes'")
    assert says(moved.worth, "not_worth_it")
    assert moved.useless
    good = compare(study, cohort, plain)
    assert good.same_answer == ""
    assert not good.useless
    assert not says(good.worth, "not_worth_it")
    test = load_csv(plan.test_file, study, need_label=False)
    errs = f"{np.mean(answers_of(plain, test.X, None) != test.y):.1%}"
    assert says(good.worth, "model_errs", errs, ...)


def _shown(parts: Iterable[RenderableType]) -> str:
    out = io.StringIO()
    console = literal_console(file=out, width=400, color_system=None, force_terminal=False, legacy_windows=False)
    for part in parts:
        console.print(part)
    return " ".join(out.getvalue().split())


def test_the_demo_says_before_and_after_that_soft_cannot_learn_and_of_others_it_does_not(tmp_path: Path) -> None:
    """The one has drawn noise for its parties; the other's model is as good as it can be."""
    cohort = simulated(3, n=600)
    for protocol, learns in (("soft", False), ("dp-gd", True)):
        plan = prepare(cohort, epsilon=3.0, protocol=protocol, directory=tmp_path / protocol)
        data = {n: load_csv(plan.data_file(n), plan.study) for n in plan.study.names}
        together = np.concatenate([part.X for part in data.values()]), np.concatenate([p.y for p in data.values()])
        w = fit(*together, 0.01) * (1 if learns else -1)
        compared = compare(plan.study, cohort, Model(tuple(w.tolist()), None), plan.auxiliary)
        ended = {"statement": [], "metrics": {"test_error": 0.25}, "seconds": 1.0, "stages": []}
        played = Played(ended, 0, compared, 2.0)
        out = io.StringIO()
        _introduce(literal_console(file=out, width=400, color_system=None), plan, loud=False)
        assert (says(out.getvalue(), "cannot_learn_at_all")) is not learns
        said = _shown(outcome_shown(plan, played))
        assert compared.worth in said
        assert f"tuned alike; the median: {compared.median_single:.1%}, the worst: {compared.worst_single:.1%}" in said
        assert (
            says(said, "before_the_run", sentence("what_to_expect", "600 records", sentence("cannot_learn_at_all")))
        ) is not learns

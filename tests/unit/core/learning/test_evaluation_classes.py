"""A model of several named classes is measured by its noisy confusion matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.evaluation import count_sd, counts_noise
from masquerade_core.model import Model, scores_of
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols import entry_of
from masquerade_protocols.in_memory import run_in_memory
from tests.evaluation_helpers import evaluate_classes_in_the_clear, held_back_study, measuring, report_text
from tests.messages import raises, says
from tests.unit.core.learning.test_evaluation import _sd


def _class_study(C: int, **more: Any) -> Study:
    text = held_back_study(3, 4, **more).to_toml()
    names = ", ".join(f'"c{i}"' for i in range(C))
    return Study.parse(text.replace('positive = "1"', f"classes = [{names}]"), in_memory=True)


def _class_data(C: int, n: int, seed: int = 0) -> tuple[Model, Dataset]:
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(99).normal(size=(C, 4)) * 6
    X = rng.normal(size=(n, 4)) * 0.4
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = (X @ W.T + rng.gumbel(size=(n, C))).argmax(axis=1)
    return Model(tuple(W.ravel().tolist()), None), Dataset(X, y.astype(np.float64), C)


@pytest.mark.parametrize("C", [3, 6, 10])
def test_the_confusion_matrix_of_several_classes_is_counted(C: int) -> None:
    study = _class_study(C)
    model, data = _class_data(C, 6000)
    held = {name: Dataset(data.X[i::3], data.y[i::3], C) for i, name in enumerate(study.names)}
    found = evaluate_classes_in_the_clear(study, model, held, quiet=True)
    answers = (data.X @ np.array(model.weights).reshape(C, 4).T).argmax(axis=1)
    exact = [[((data.y == c) & (answers == a)).sum() for a in range(C)] for c in range(C)]
    assert np.array_equal(found.confusion, exact)
    assert found.error.value == pytest.approx((answers != data.y).mean())
    assert found.majority_error == pytest.approx(1 - max((data.y == c).mean() for c in range(C)))
    assert found.advantage.value == pytest.approx(found.majority_error - (answers != data.y).mean())
    assert found.classes[1].sensitivity.value == pytest.approx((answers[data.y == 1] == 1).mean())
    assert found.classes[1].precision.value == pytest.approx((data.y[answers == 1] == 1).mean())
    shown = report_text({"stages": [], "metrics": {}, "statement": [], "evaluation": found.to_json()})
    assert shown.count("c1") >= 2


def test_several_classes_have_their_own_noise_and_their_intervals_cover() -> None:
    C, hits = 6, {"error": 0, "sensitivity": 0, "advantage": 0}
    study = _class_study(C)
    model, fresh = _class_data(C, 500_000, seed=1)
    answers = scores_of(model, fresh.X, C).argmax(axis=1)
    truth = {
        "error": float((answers != fresh.y).mean()),
        "sensitivity": float((answers[fresh.y == 0] == 0).mean()),
    }
    truth["advantage"] = 1 - max(float((fresh.y == c).mean()) for c in range(C)) - truth["error"]
    for i in range(300):
        _, data = _class_data(C, 3000, seed=i + 2)
        held = {name: Dataset(data.X[j::3], data.y[j::3], C) for j, name in enumerate(study.names)}
        rngs = {name: SimulationRng(i, name) for name in study.names}
        found = evaluate_classes_in_the_clear(study, model, held, rngs)
        got = {"error": found.error, "sensitivity": found.classes[0].sensitivity, "advantage": found.advantage}
        for name, interval in got.items():
            hits[name] += interval.low <= truth[name] <= interval.high
    assert all(0.91 <= hit / 300 <= 0.985 for hit in hits.values()), hits
    # One vector, of sensitivity sqrt(2) records: less noise than with two.
    two = math.sqrt(2 * 64**2 + 2 * 192**2 + 96**2) / 192
    sd = count_sd(counts_noise(1.0, 1e-6, 3, classes=True), 3)
    assert sd == pytest.approx(_sd(1.0, 1e-6) * math.sqrt(2) / two, rel=1e-4)
    assert _class_noise() == sd


def _class_noise() -> float:
    """Return the sd that an evaluation of three classes says of itself."""
    study = _class_study(3)
    _, data = _class_data(3, 300)
    held = {name: Dataset(data.X[j::3], data.y[j::3], 3) for j, name in enumerate(study.names)}
    return evaluate_classes_in_the_clear(study, Model((0.0,) * 12, None), held).noise_sd


def test_a_model_of_several_classes_is_measured_between_participants_too() -> None:
    C = 4
    model, data = _class_data(C, 1200)
    study = measuring(_class_study(C), model)
    held = {name: Dataset(data.X[i::3], data.y[i::3], C) for i, name in enumerate(study.names)}
    results = run_in_memory(entry_of(study), study, held)
    assert all(result == results[CHARLIE] for result in results.values())
    assert results[CHARLIE].evaluation.records == 1200
    assert says(" ".join(entry_of(study).explain(study).leaves), "evaluation_counts")
    with raises(BadInput, "threshold_with_classes"):
        _class_study(3, rule='"f1"')


def test_a_model_of_several_classes_that_always_says_the_same_is_called_so() -> None:
    study = _class_study(3)
    _, data = _class_data(3, 9000)
    held = {name: Dataset(data.X[i::3], data.y[i::3], 3) for i, name in enumerate(study.names)}
    found = evaluate_classes_in_the_clear(study, Model((0.0,) * 12, None, (0.0, 1.0, 0.0)), held)
    assert found.same_answer == "c1"
    assert says(
        report_text({"stages": [], "metrics": {}, "statement": [], "evaluation": found.to_json()}),
        "nearly_all_one_answer",
        "'c1'",
    )

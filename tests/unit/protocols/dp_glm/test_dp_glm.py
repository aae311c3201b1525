"""dp-glm: a run of the roles is what its functions compute, and what cannot be told has a reason and no number."""

from __future__ import annotations

import json
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.model import Model
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.expectation import Verdict
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Feature, Label, Study
from masquerade_core.table import Silence, Table
from masquerade_protocols.blocks import adaptive_sums
from masquerade_protocols.blocks.adaptive_sums import SIGMA
from masquerade_protocols.blocks.clear_sums import ClearSide, finished
from masquerade_protocols.dp_glm import roles, vectors
from masquerade_protocols.dp_glm.entry import DP_GLM
from masquerade_protocols.dp_glm.estimates import Design, Fit, Located, Point, logistic
from masquerade_protocols.dp_glm.expected import expected
from masquerade_protocols.dp_glm.noiseless import noiseless
from masquerade_protocols.dp_glm.public import SUMS, Plan, width_ratio
from masquerade_protocols.dp_glm.release import refusal
from masquerade_protocols.in_memory import run_in_memory
from tests import glm_oracle
from tests.dropout_helpers import losing
from tests.evaluation_helpers import held_back_study
from tests.glm_helpers import FEATURES, as_data, glm_study, made_up, split_up

_Floats = NDArray[np.float64]

_TRUTH = (-1.0, 0.02, 0.5, -0.4, 0.3, 0.0)
_NUMBERS = tuple(Feature(name=f"x{i}", min=-4, max=4) for i in range(1, 5))


def _clear(study: Study, data: Dataset) -> Model:
    """The release without noise."""
    plan = Plan(study, data.n)
    return finished(roles.learn(ClearSide(plan, data), plan))


# --- The noise ----------------------------------------------------------------------


@pytest.mark.parametrize("colluders", [0, 1, 4])
@pytest.mark.parametrize("N", [300, 30_000, 2_000_000])
def test_all_sums_together_cost_the_privacy_target(colluders: int, N: int) -> None:
    study = glm_study(5, colluders=colluders, epsilon=0.7)
    plan, h = Plan(study, N), 5 - colluders
    moves = [plan.sums[label].squared * plan.unit(label) ** 2 for label in SUMS]
    mu, target = sqrt(sum(moves) / (h * SIGMA**2)), mu_of(0.7, 1e-5)
    assert 0.995 * target <= mu <= target


def test_the_sd_of_each_sum_is_its_formula() -> None:
    """S/(N mu sqrt(part)) sqrt(K/h): 3 numbers and levels count 4 + 4 + 1 + 2, and the label 1."""
    study = glm_study(5, colluders=1)
    plan = Plan(study, 10_000)
    mu = mu_of(1.0, 1e-5) * sqrt(4 / 5)
    squares = {"location": 12 / 2.7, "spread": 11 / 2.7, "moments": 4.5, "step 1": 6, "step 2": 5.05, "step 3": 5.05}
    parts = {"location": 0.04, "spread": 0.04, "moments": 0.12, "step 1": 0.1, "step 2": 0.22, "step 3": 0.48}
    assert sum(parts.values()) == pytest.approx(1)
    for label in SUMS:
        assert plan.sd(label) == pytest.approx(sqrt(squares[label] / parts[label]) / (10_000 * mu), rel=1e-3)
    assert plan.mu == pytest.approx(mu, rel=1e-6)


def test_noise_is_drawn_for_every_number_of_every_sum_and_for_retries() -> None:
    study = glm_study(5)
    plan, p, d = Plan(study, 1000), 5, 6
    products = p * (p - 1) // 2 + 3 * d * (d - 1)
    others = (p + 2 + 1) + (p + 2) + 2 * p + 3 * 3 * d + 18 + 2
    assert plan.numbers_drawn == (products, others)
    assert sum(noisy.length for noisy in plan.sums.values()) == products + others


# --- Runs ---------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"colluders": 1, "K": 4}], ids=str)
def test_a_run_tells_coefficients_near_the_true_ones(changes: dict[str, Any]) -> None:
    study = glm_study(**{"K": 3, "epsilon": 4.0, **changes})
    models = run_in_memory(roles, study, split_up(study, made_up(4000)))
    assert all(models[name] == models[CHARLIE] for name in study.names)
    found = models[CHARLIE].coefficients
    assert found is not None
    for row, true in zip(found.rows, _TRUTH, strict=True):
        assert row.told
        assert abs(row.estimate - true) < 4 * row.se
    again = type(found).from_json(json.loads(json.dumps(found.to_json())), study.covariates)
    assert again == found


def test_without_noise_estimates_and_errors_are_those_of_the_fit() -> None:
    """Beside Newton's method on the same records; no record is long, so none counts less than 1."""
    data = made_up(20_000)
    found = _clear(glm_study(epsilon=8.0), data).coefficients
    assert found is not None
    own = data.X.copy()
    own[:, 0], own[:, 1] = 60 + 40 * own[:, 0], 4 * own[:, 1]
    A, y = np.column_stack([np.ones(data.n), own]), (data.y + 1) / 2
    theta, H = np.zeros(6), np.eye(6)
    for _ in range(20):
        p = logistic(A @ theta)
        H = (A * (p * (1 - p))[:, None]).T @ A
        theta = theta + np.linalg.solve(H, A.T @ (y - p))
    se = np.sqrt(np.diag(np.linalg.inv(H)))
    for row, estimate, error in zip(found.rows, theta, se, strict=True):
        assert row.estimate == pytest.approx(estimate, abs=0.1 * error)
        assert row.se == pytest.approx(error, rel=0.1)  # of which 2 % are for the noise in it
    covariance = np.linalg.inv(H)
    assert np.array(found.covariance) == pytest.approx(
        covariance, abs=0.1 * np.sqrt(np.outer(*[np.diag(covariance)] * 2)).max()
    )
    assert found.weighted_down < 0.02


def test_the_weights_give_the_chances_that_the_coefficients_give() -> None:
    data = made_up(4000)
    model = _clear(glm_study(epsilon=8.0), data)
    assert model.coefficients is not None
    u = data.X[:50]
    own = u.copy()
    own[:, 0], own[:, 1] = 60 + 40 * u[:, 0], 4 * u[:, 1]
    estimates = np.array([row.estimate for row in model.coefficients.rows])
    assert u @ np.array(model.weights) + model.offset[0] == pytest.approx(estimates[0] + own @ estimates[1:])


@pytest.mark.parametrize("kind", ["masks", "paillier"])
def test_a_run_without_noise_is_what_one_computes_who_has_all_records(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, together = glm_study(3, epsilon=4.0, features=FEATURES[1:2]), made_up(3000)
    study = study.model_copy(update={"crypto": study.crypto.model_copy(update={"sum": kind})})
    together = as_data(np.ascontiguousarray(together.X[:, 1:2]), together.y)
    monkeypatch.setattr(adaptive_sums, "draw_noise", lambda _rng, numbers: bytes(8 * sum(numbers)))
    found, clear = run_in_memory(roles, study, split_up(study, together))[CHARLIE], _clear(study, together)
    assert found.coefficients is not None
    assert clear.coefficients is not None
    for row, other in zip(found.coefficients.rows, clear.coefficients.rows, strict=True):
        assert (row.estimate, row.se) == pytest.approx((other.estimate, other.se), rel=1e-5)


@pytest.mark.parametrize(("b0", "share"), [(-3.6, 0.04), (-3.0, 0.07), (-1.0, 0.3)], ids=["rare", "less so", "common"])
def test_a_run_without_noise_is_what_the_oracle_computes(
    b0: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise to be expected counts all the same: where labels are rare, it shortens the first theta, and C."""
    study, X = glm_study(2, epsilon=3.0, features=_NUMBERS), _normals(6000)
    data = as_data(X, _labels(b0 + 4 * X @ (0.8, -0.4, 0.3, 0.0)))
    assert np.mean(data.y > 0) == pytest.approx(share, abs=0.015)
    plan = Plan(study, data.n)
    monkeypatch.setattr(adaptive_sums, "draw_noise", lambda _rng, numbers: bytes(8 * sum(numbers)))
    found = run_in_memory(roles, study, split_up(study, data))[CHARLIE]
    assert found.coefficients is not None
    assert len(found.coefficients.told) == 5
    none = lambda _label, numbers, _products: np.zeros(numbers)  # noqa: E731
    weights, offset = glm_oracle.oracle(plan, data.X, (data.y + 1) / 2, none)
    assert found.weights == pytest.approx(weights, abs=1e-6)
    assert found.offset[0] == pytest.approx(offset, abs=1e-6)


def test_a_sum_is_exact_however_records_are_split() -> None:
    study, data = glm_study(3), made_up(10_000)
    plan, d = Plan(study, data.n), 6
    design = Design(np.zeros(5), np.full(5, 0.3), np.eye(5))
    rows = vectors.step(design, Point.at(np.linspace(-1, 1, d), 1.0, 1.6), 1)
    whole, *parts = (
        vectors.contribution(each, rows, plan.columns, plan.scale("step 1"))
        for each in (data, *split_up(study, data).values())
    )
    assert (whole == sum(parts)).all()
    assert np.abs(whole).max() > plan.unit("step 1")


def test_records_from_a_file_streamed_or_not_give_the_same_model(tmp_path: Path) -> None:
    study, data = glm_study(2, epsilon=4.0), {}
    for name, part in split_up(study, made_up(4000)).items():
        kinds = np.array(["a", "b", "c"])[(part.X[:, 3:] @ (1, 2)).astype(int)]
        rows = zip(
            60 + 40 * part.X[:, 0],
            4 * part.X[:, 1],
            np.array(["f", "m"])[part.X[:, 2].astype(int)],
            kinds,
            part.y,
            strict=True,
        )
        path = data[name] = tmp_path / f"{name}.csv"
        lines = [f"{float(age)!r},{float(dose)!r},{sex},{site},{int(y > 0)}" for age, dose, sex, site, y in rows]
        path.write_text("\n".join(["age,dose,sex,site,y", *lines]))
    loader, found = DP_GLM.records, []
    assert loader.streamed is not None
    for read in (loader.one, lambda path, study: loader.streamed(path, study, tmp_path)):
        table = Table(study.names, {name: SimulationRng("read", name) for name in (*study.names, CHARLIE)}, bytes(16))
        records = {name: read(path, study) for name, path in data.items()}
        found.append(run_in_memory(DP_GLM, study, records, table=table)[CHARLIE])
    assert found[0] == found[1]
    assert found[0].coefficients.told


# --- A linear model -----------------------------------------------------------------


def _linear(K: int = 3, epsilon: float = 4.0, *, low: float = -5.0, high: float = 15.0) -> Study:
    study = glm_study(K, epsilon=epsilon)
    label = Label(name="y", min=low, max=high)
    return study.model_copy(update={"label": label, "protocol": {"family": "linear"}})


def _with_numbers(n: int, seed: int = 4) -> tuple[Dataset, _Floats, _Floats]:
    """Records with a label that is a number, the same in own units with a constant, and the label in its own."""
    data, rng = made_up(n, seed), np.random.default_rng(seed + 1)
    own = data.X.copy()
    own[:, 0], own[:, 1] = 60 + 40 * own[:, 0], 4 * own[:, 1]
    A = np.column_stack([np.ones(n), own])
    y = np.clip(A @ (2.0, 0.05, 0.5, -0.4, 0.3, 0.0) + rng.standard_normal(n), -5, 15)
    return as_data(data.X.copy(), (y - 5) / 10), A, y


def test_slopes_of_a_number_are_in_its_own_units() -> None:
    study, (data, A, _) = _linear(), _with_numbers(6000)
    roles.check(study)
    models = run_in_memory(roles, study, split_up(study, data))
    assert all(models[name] == models[CHARLIE] for name in study.names)
    model = models[CHARLIE]
    found = model.coefficients
    assert found is not None
    assert found.family == "linear"
    for row, true in zip(found.rows, (2.0, 0.05, 0.5, -0.4, 0.3, 0.0), strict=True):
        assert row.told
        assert abs(row.estimate - true) < 4 * row.se
    estimates = np.array([row.estimate for row in found.rows])
    predicted = data.X[:50] @ np.array(model.weights) + model.offset[0]
    assert 5 + 10 * predicted == pytest.approx(A[:50] @ estimates)
    assert found.beyond is not None
    assert type(found).from_json(json.loads(json.dumps(found.to_json())), study.covariates) == found


def test_without_noise_slopes_and_errors_are_those_of_least_squares() -> None:
    study, (data, A, y) = _linear(epsilon=20.0), _with_numbers(20_000)
    found = _clear(study, data).coefficients
    assert found is not None
    inverse = np.linalg.inv(A.T @ A)
    theta = inverse @ A.T @ y
    residuals = y - A @ theta
    se = np.sqrt(np.diag(inverse) * (residuals @ residuals) / (data.n - 6))
    for row, estimate, error in zip(found.rows, theta, se, strict=True):
        assert row.estimate == pytest.approx(estimate, abs=0.3 * error)  # a few of the residuals are cut
        assert row.se == pytest.approx(error, rel=0.12)


@pytest.mark.parametrize(
    ("study", "said"),
    [
        (glm_study(3).model_copy(update={"protocol": {"family": "linear"}}), "no number"),
        (_linear().model_copy(update={"protocol": {}}), "no positive value"),
    ],
    ids=["a label of two values", "a number"],
)
def test_a_label_of_the_other_family_is_refused(study: Study, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        roles.check(study)


# --- Evaluation, and parties that are lost ------------------------------------------------


def test_records_that_are_held_back_measure_the_model() -> None:
    study = glm_study(3, epsilon=4.0)
    study = study.model_copy(update={"evaluation": held_back_study(3, 4).evaluation})
    model = run_in_memory(DP_GLM, study, split_up(study, made_up(6000)))[CHARLIE]
    assert model.evaluation is not None
    assert model.coefficients is not None
    assert model.coefficients.records < 6000
    assert 0.5 < model.evaluation.auc.value < 0.75


def test_a_run_goes_on_without_a_party_that_falls_silent() -> None:
    study = losing(glm_study(4, epsilon=4.0), 3, 2)
    table = Table(study.names, silent={"p2": Silence("Masked", 4)})
    found = run_in_memory(roles, study, split_up(study, made_up(6000)), table=table)
    assert found["p0"] == found[CHARLIE]
    assert found[CHARLIE].coefficients is not None
    assert found[CHARLIE].coefficients.told


# --- What cannot be told ----------------------------------------------------------------


def _normals(n: int, seed: int = 1) -> _Floats:
    rows: _Floats = np.clip(np.random.default_rng(seed).standard_normal((n, 4)), -4, 4) / 4
    return rows


def _labels(eta: _Floats, seed: int = 2) -> _Floats:
    return np.where(np.random.default_rng(seed).random(len(eta)) < logistic(eta), 1.0, -1.0)


def _noisy(X: _Floats, y: _Floats, features: tuple[Feature, ...] = _NUMBERS) -> Any:
    study = glm_study(2, epsilon=2.0, features=features)
    found = run_in_memory(roles, study, split_up(study, as_data(X, y)))[CHARLIE]
    assert found.coefficients is not None
    for row in found.coefficients.rows:
        assert row.told == (row.estimate is not None) == (row.se is not None)
    return found


def test_where_records_are_too_few_no_noisy_sum_is_opened() -> None:
    study = glm_study(2, features=_NUMBERS)
    X = _normals(300)

    def learned() -> Model:
        plan = Plan(study, len(X))
        return finished(roles.learn(None, plan))  # type: ignore[arg-type]  # nothing is asked of a side

    model = learned()
    assert model.coefficients is not None
    assert "too few" in model.coefficients.refused
    assert {row.reason for row in model.coefficients.rows} == {model.coefficients.refused}
    assert (model.weights, model.offset) == ((0.0,) * 4, (0.0,))
    assert run_in_memory(roles, study, split_up(study, as_data(X, _labels(X[:, 0]))))[CHARLIE] == model


@pytest.mark.parametrize("label", [1.0, -1.0])
def test_equal_records_with_one_label_accuse_nobody(label: float) -> None:
    """A step may then be of any length; what a message holds is limited, and everybody limits it alike."""
    X = np.tile([[0.5, 0.5, 0.0, 0.0]], (3000, 1))
    for _ in range(4):
        assert not _noisy(X, np.full(3000, label)).coefficients.told


def test_fewer_records_than_coefficients_tell_nothing() -> None:
    features = tuple(Feature(name=f"x{i}", min=-1, max=1) for i in range(40))
    study = glm_study(2, features=features, epsilon=20.0)
    plan = Plan(study, 30)
    assert not plan.tells


@pytest.mark.parametrize("seed", range(4))
def test_where_the_label_is_determined_nothing_is_told(seed: int) -> None:
    X = _normals(4000, seed)
    found = _noisy(X, np.where(X[:, 0] + X[:, 1] > 0.1, 1.0, -1.0)).coefficients
    assert "determined" in found.refused or "unsettled" in found.refused
    assert not found.told
    assert found.covariance == ()


def test_what_is_too_long_is_refused_and_with_a_rare_label_it_has_another_reason() -> None:
    plan, d = Plan(glm_study(3), 4000), 6
    at = Fit(np.zeros(d), np.eye(d), np.eye(d), np.zeros(d), 0.5, plan.longest - 0.01, 0.0, 0.0, 0)
    common, rare = (Located(np.zeros(5), np.ones(5), yb) for yb in (0.4, 0.001))
    assert refusal(plan, common, at) == refusal(plan, rare, at) == ""
    longer = replace(at, longest=plan.longest)
    assert "determined" in refusal(plan, common, longer)
    assert refusal(Plan(_linear(), 4000), common, longer) == ""
    assert "unsettled" in refusal(plan, common, replace(longer, last_step=1.0))
    assert "labels are equal" in refusal(plan, rare, replace(longer, last_step=1.0))
    assert "unsettled" in refusal(Plan(_linear(), 4000), rare, replace(longer, last_step=1.0))


def test_with_one_label_nothing_is_told_and_the_reason_is_said() -> None:
    model = _noisy(_normals(4000), np.ones(4000))
    assert "labels are equal" in model.coefficients.refused
    assert model.offset[0] > 3


def test_of_two_equal_columns_neither_is_told_and_the_others_are() -> None:
    X = _normals(4000)
    X[:, 1] = X[:, 0]
    found = _noisy(X, _labels(4 * X[:, 2])).coefficients
    assert [row.told for row in found.rows] == [True, False, False, True, True]
    assert "follows from other columns" in found.rows[1].reason
    assert len(found.covariance) == 3


def test_a_constant_column_is_not_told_and_neither_is_the_intercept() -> None:
    X = _normals(4000)
    X[:, 1] = 0.3
    model = _noisy(X, _labels(4 * X[:, 2]))
    assert [row.told for row in model.coefficients.rows] == [False, True, False, True, True]
    assert model.coefficients.at_means.told
    assert model.weights[1] == 0
    assert abs(model.offset[0]) < 0.5


def test_where_all_columns_are_constant_nothing_is_told() -> None:
    found = _noisy(np.full((4000, 4), 0.3), _labels(np.zeros(4000))).coefficients
    assert not found.told
    assert not found.at_means.told


@pytest.mark.parametrize(
    ("n", "label", "said"),
    [(300, "noisy", "no noisy sum was opened"), (4000, "own", "Without noise nothing can be told either: ")],
)
def test_without_noise_the_reason_is_that_of_these_records(n: int, label: str, said: str) -> None:
    study, X = glm_study(2, epsilon=2.0, features=_NUMBERS), _normals(n)
    y = np.where(X[:, 0] > 0.05, 1.0, -1.0) if label == "own" else _labels(X[:, 0])
    data = split_up(study, as_data(X, y))
    found = noiseless(study, data, run_in_memory(roles, study, data)[CHARLIE])
    assert said in found.advice
    assert found.enough_epsilon is None
    assert found.model.coefficients is not None
    assert not found.model.coefficients.told
    assert ("few" in found.advice) == (n == 300)


# --- Before a run -------------------------------------------------------------------------


def test_what_is_expected_follows_from_public_numbers() -> None:
    study = glm_study(5, features=_NUMBERS)
    few, many = (
        study.model_copy(update={"study": study.study.model_copy(update={"expected_records": n})})
        for n in (1000, 30_000)
    )
    assert expected(few).verdict is Verdict.NOTHING
    assert expected(few).poor
    assert expected(many).verdict is Verdict.COEFFICIENTS
    assert not expected(many).poor
    enough = expected(few).enough_records or 0
    assert Plan(study, enough).tells
    assert not Plan(study, int(0.99 * enough)).tells
    assert width_ratio(study, 1000) is None
    assert expected(few).intervals == ()
    mu = mu_of(1.0, 1e-5)
    assert width_ratio(study, 30_000) == pytest.approx(sqrt(1 + 17 * 5 / (30_000 * mu**2 * 0.25)), rel=1e-3)
    rare = many.model_copy(update={"study": many.study.model_copy(update={"commoner_share": 0.9})})
    ratio = width_ratio(study, 30_000, 0.1) or 0.0
    assert ratio == pytest.approx(sqrt(1 + 17 * 5 / (30_000 * mu**2 * 0.09)), rel=1e-3)
    assert f"about {ratio:.1f} times" in expected(rare).text
    assert "0.9 for the commoner" not in expected(many).assumed
    widths = [(one.width or 0.0) / (other.width or 1.0) for one, other in _pairs(rare, many)]
    common = width_ratio(study, 30_000) or 0.0
    assert widths == pytest.approx([ratio / common * sqrt(0.25 / 0.09)] * 5)


def _pairs(one: Study, other: Study) -> Any:
    return zip(expected(one).intervals, expected(other).intervals, strict=True)


@pytest.mark.parametrize("family", ["logistic", "linear"])
def test_the_widths_that_are_expected_are_those_of_a_run_on_such_records(family: str) -> None:
    """Columns that spread by a sixth of their bounds, levels as common as each other, and a label that is chance.

    Of such columns no record is long, and the noise is a little less than with rare levels, for which it is foretold.
    """
    study, n, rng = glm_study(3, epsilon=1.0), 10_000, np.random.default_rng(3)
    if family == "linear":
        study = study.model_copy(update={"label": Label(name="y", min=-5, max=15), "protocol": {"family": "linear"}})
    study = study.model_copy(update={"study": study.study.model_copy(update={"expected_records": n})})
    numbers, site = np.clip(rng.normal(0, 1 / 3, (n, 2)), -1, 1), rng.choice(3, n)
    X = np.column_stack([numbers, rng.random(n) < 0.5, site == 1, site == 2]).astype(float)
    y = np.clip(rng.normal(0, 1 / 3, n), -1, 1) if family == "linear" else np.where(rng.random(n) < 0.5, 1.0, -1.0)
    found = run_in_memory(roles, study, split_up(study, as_data(X, y)))[CHARLIE].coefficients
    assert found is not None
    told = expected(study)
    assert "sixth" in told.assumed
    for interval, row in zip(told.intervals, found.rows, strict=True):
        assert interval.name == row.name
        assert interval.width is not None
        assert 0.7 < (row.high - row.low) / interval.width < 1.1
        assert interval.odds == (None if family == "linear" else pytest.approx(np.exp(interval.width)))
    assert told.to_json()["intervals"][1]["width"] == told.intervals[1].width


def test_no_width_is_expected_where_it_would_be_too_wide_to_be_told() -> None:
    """Years of birth lie far from 0, where the intercept is; and a unit of a share is all of its range."""
    features = (Feature(name="born", min=1930, max=2000), Feature(name="share", min=0, max=0.001))
    study = glm_study(3, features=features)
    study = study.model_copy(update={"study": study.study.model_copy(update={"expected_records": 3000})})
    intercept, born, share = expected(study).intervals
    assert (intercept.width, intercept.odds) == (None, None)
    assert born.width is not None
    assert share.width is not None
    assert share.width == pytest.approx(born.width * 70_000)
    assert born.odds == pytest.approx(np.exp(born.width))
    assert share.odds is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"protocol": {"family": "probit"}}, "family"),
        ({"features": tuple(Feature(name=f"x{i}", min=0, max=1) for i in range(201))}, "at most 200"),
    ],
    ids=["family", "columns"],
)
def test_a_study_that_cannot_be_carried_out_is_refused(changed: dict[str, Any], said: str) -> None:
    study = glm_study(3)
    roles.check(study)
    with pytest.raises(BadInput, match=said):
        roles.check(study.model_copy(update=changed))


def test_a_step_starts_where_the_mean_curvature_is_that_of_normal_columns() -> None:
    """W of a known theta, beside a mean over many normal scores."""
    point = Point.at(np.array([0.4, 0.6, -0.8]), 1.25, 2.0)
    scores = 0.4 + np.random.default_rng(0).standard_normal(400_000)
    p = logistic(scores)
    assert pytest.approx(2.0 * 3 * np.mean(p * (1 - p)), rel=3e-3) == point.CH
    assert pytest.approx(1.25 * sqrt(3)) == point.C

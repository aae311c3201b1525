"""dp-whitened: one replaced record moves each sum as far as the proof says, and the noise is what the proof needs."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import isqrt, sqrt
from typing import Any, cast

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from numpy.typing import NDArray
from scipy import stats

from masquerade.burden import burden_of
from masquerade_core.data.pooling import pool
from masquerade_core.data.records import ROWS, OfBlock
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, ProtocolViolation
from masquerade_core.learning.class_evaluation import ClassEvaluation
from masquerade_core.model import Model, error_on
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.study import CHARLIE, Label, Study
from masquerade_core.table import Table
from masquerade_host.channel import MAX_KEPT
from masquerade_lab.reproduce.dp_whitened import draw_shares, learn_in_clear, study_of
from masquerade_protocols import entry_of
from masquerade_protocols.blocks import adaptive_sums
from masquerade_protocols.blocks.adaptive_sums import CharlieSide, Noise, PartySide, rounded
from masquerade_protocols.blocks.clear_sums import ClearSide, finished
from masquerade_protocols.dp_whitened import estimates, public, roles, vectors
from masquerade_protocols.dp_whitened.estimates import SMALL, Centre, Point, Scorer, Whitened, whitened
from masquerade_protocols.dp_whitened.public import OFF_DIAGONAL, SIGMA, Plan, noise_of
from masquerade_protocols.in_memory import run_in_memory
from tests.evaluation_helpers import held_back_study
from tests.masked_helpers import under_masks
from tests.messages import raises, says
from tests.protocol_helpers import make_data
from tests.whitened_helpers import whitened_study
from tests.whitened_oracle import oracle

_Floats = NDArray[np.float64]


def _record(u: _Floats, y: float) -> Dataset:
    return Dataset(u[None, :].copy(), np.array([y]))


def _rows(rng: np.random.Generator, count: int, d: int) -> _Floats:
    """Rows of length 1 and less, on the axes, opposite, and anywhere."""
    rows: _Floats = rng.normal(size=(count, d))
    rows[::4] = np.eye(d)[rng.integers(d, size=len(rows[::4]))] * rng.choice([-1.0, 1.0], size=(len(rows[::4]), 1))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[1::3] *= rng.random((len(rows[1::3]), 1))
    return rows * (1 - 1e-12)


def _squared_move(a: NDArray[np.int64], b: NDArray[np.int64], products: int = 0) -> int:
    """The squared length of a - b in integers of any size, where the first numbers, products, count twice."""
    move = [int(x) - int(y) for x, y in zip(a, b, strict=True)]
    return 2 * sum(x * x for x in move[:products]) + sum(x * x for x in move[products:])


# --- How far one record moves a sum -----------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 7])
def test_one_record_moves_a_mean_by_no_more_than_the_proof_says(d: int) -> None:
    rng, B = np.random.default_rng(d), 1 << 20
    rows = _rows(rng, 60, d)
    centre = Centre(_rows(rng, 3, d)[-1] / 20, 0.3, np.array([0.2]), centred=True)
    first, second, far = [], [], []
    for u, x in zip(rows[::2], rows[1::2], strict=True):
        for labels in ((1.0, -1.0), (1.0, 1.0)):
            a, b = (_record(row, y) for row, y in zip((u, x), labels, strict=True))
            first.append(_squared_move(vectors.mean_sum(a, B), vectors.mean_sum(b, B)))
            second.append(_squared_move(vectors.shift_sum(a, centre, B), vectors.shift_sum(b, centre, B)))
            both = [vectors.shift_sum(c, centre, B, distance=True) for c in (a, b)]
            far.append(_squared_move(both[0], both[1]))
    opposite = np.eye(d)[0] * (1 - 1e-12)
    a, b = _record(opposite, 1.0), _record(-opposite, -1.0)
    first.append(_squared_move(vectors.mean_sum(a, B), vectors.mean_sum(b, B)))
    second.append(_squared_move(vectors.shift_sum(a, centre, B), vectors.shift_sum(b, centre, B)))
    at_centre, across = _record(centre.m * (1 + 2.0**-30), 1.0), _record(opposite, 1.0)
    near, wide = (vectors.shift_sum(c, centre, B, distance=True) for c in (at_centre, across))
    far.append(_squared_move(near, wide))
    assert far[-1] >= 1.999 * B**2  # the distance moves by B, and z by B as well
    assert max(far) <= 5 * B**2
    assert max(first) <= 5 * B**2
    assert max(first) >= 4.99 * B**2
    assert 3.5 * B**2 <= max(second) <= 4 * B**2


@pytest.mark.parametrize("B", [4, 5, 7, 1000, 1 << 20])
def test_a_distance_moves_its_sum_by_no_more_than_one_record_counts(B: int) -> None:
    """From nothing to R and beyond: the numbers are halvings of R, from 0 to 6, whatever rounding does."""
    centre = Centre(np.zeros(2), 0.25, np.zeros(1), centred=True)
    lengths = [0.0, *(0.25 * 2.0**-k for k in range(8)), 1.0]
    found = [int(vectors.shift_sum(_record(np.array([x, 0.0]), 1.0), centre, B, distance=True)[-1]) for x in lengths]
    assert max(found) - min(found) == B - B % 2
    assert found[0] == found[7] == found[8]
    assert found[1] == found[9] == -found[0]
    assert found[2:7] == sorted(found[2:7])


def _scorer(d: int, outputs: int, rng: np.random.Generator) -> Scorer:
    return Scorer(rng.normal(size=(d, outputs)), np.zeros(outputs), np.zeros(outputs), np.full(outputs, 0.3))


@pytest.mark.parametrize("B", [7, 1 << 12, (1 << 20) + 1])
@pytest.mark.parametrize("outputs", [1, 3, 5])
def test_one_record_moves_the_counts_by_no_more_than_the_proof_says(outputs: int, B: int) -> None:
    rng, d, found = np.random.default_rng(B), 3, []
    scorer, classes = _scorer(d, outputs, rng), None if outputs == 1 else outputs
    sharp = replace(scorer, spread=np.full(outputs, 1e-3))  # every record lies at the first node or at the last one
    for u in _rows(rng, 50, d):
        y = rng.choice([-1.0, 1.0], size=2) if classes is None else rng.integers(classes, size=2).astype(float)
        a, b = (Dataset(row[None], y[[i]], classes) for i, row in enumerate((u, -u)))
        for one in (scorer, sharp):
            sums = [vectors.counts_sum(record, one, B) for record in (a, b)]
            found.append(_squared_move(sums[0], sums[1]))
            for counts in sums:
                assert counts.min() >= 0
                assert set(counts.reshape(outputs, -1).sum(axis=1)) == {isqrt(B**2 // outputs)}
    assert max(found) <= 2 * B**2
    assert max(found) >= (1.99 if B > 100 and outputs == 1 else 1) * B**2


def _moments(u: _Floats, y: float, yb: float, B: int, *, centred: bool) -> NDArray[np.int64]:
    centre = Centre(np.zeros(len(u)), 1.0, np.array([yb]), centred=centred)
    return vectors.moments_sum(_record(u, y), centre, B)


@pytest.mark.parametrize(("centred", "most"), [(True, Fraction(5)), (False, Fraction(9, 2))])
def test_one_record_moves_the_second_moments_by_no_more_than_the_proof_says(*, centred: bool, most: Fraction) -> None:
    """On a grid of lengths, angles, labels and yb, and at random; the bound is reached and never exceeded."""
    B, d, found = 1 << 14, 3, []
    lengths, angles = (0.5, 0.8, 1 - 1e-9), np.linspace(0, np.pi, 25)
    for p, q, angle, yb in (
        (p, q, angle, yb)
        for p in lengths
        for q in lengths
        for angle in angles
        for yb in ((0.0, 0.4, -0.9) if centred else (0.0,))
    ):
        u, x = np.array([p, 0, 0]), q * np.array([np.cos(angle), np.sin(angle), 0])
        for labels in ((1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)):
            a, b = (_moments(row, y, yb, B, centred=centred) for row, y in zip((u, x), labels, strict=True))
            found.append(_squared_move(a, b, d * (d - 1) // 2))
    rng = np.random.default_rng(5)
    for u, x in _rows(rng, 200, d).reshape(100, 2, d):
        drawn = rng.choice([-1.0, 1.0], size=2).tolist()
        a, b = (_moments(row, y, 0.0, B, centred=centred) for row, y in zip((u, x), drawn, strict=True))
        found.append(_squared_move(a, b, d * (d - 1) // 2))
    assert max(found) <= most * B**4
    assert max(found) >= 0.995 * most * B**4


def _in_python(X: _Floats, Y: _Floats, centre: Centre, B: int) -> list[int]:
    """Return the sum of second moments in Python's integers, from rows that are cut and rounded one after the other."""

    def on_grid(v: _Floats) -> list[int]:
        v = v * B
        longest = max(0.0, (B - sqrt(len(v)) / 2) * (1 - 2.0**-30))
        return [int(number) for number in np.rint(v * (longest / max(np.sqrt((v * v).sum()), longest)))]

    d, m, total = X.shape[1], Y.shape[1], [0] * public.moments_length(X.shape[1], Y.shape[1], centred=centre.centred)
    for u, labels in zip(X, Y, strict=True):
        moved = (u - centre.m) / centre.R
        z, c = on_grid(moved / max(np.sqrt((moved * moved).sum()), 1.0)), on_grid((labels - centre.yb) / centre.h)
        found = [z[j] * z[k] for j in range(d) for k in range(j + 1, d)] + [v * v for v in z]
        found += [each * v for each in c for v in z]
        unit = isqrt(vectors.label_unit(B**2, m) ** 2 // 2)
        found += [unit * int(label) for label in labels] if centre.centred else []
        total = [one + other for one, other in zip(total, found, strict=True)]
    return total


@pytest.mark.parametrize("B", [7, 12_345, public._LONGEST_FACTOR])
@pytest.mark.parametrize(("n", "d", "classes"), [(1, 1, None), (200, 5, None), (90, 7, 3), (5, 300, None)])
@pytest.mark.parametrize("centred", [True, False])
def test_second_moments_are_those_of_python_s_integers_however_they_are_cut_up(
    n: int, d: int, classes: int | None, B: int, *, centred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, m = np.random.default_rng(n), classes or 1
    X = _rows(rng, n, d)
    y = rng.choice([-1.0, 1.0], n) if classes is None else rng.integers(classes, size=n).astype(np.float64)
    centre = Centre(X.mean(axis=0), 0.7, np.full(m, 0.3), centred=True) if centred else Centre.none(d, m)
    expected = _in_python(X, vectors.coded(y, m), centre, B)
    assert vectors.moments_sum(Dataset(X, y, classes), centre, B).tolist() == expected
    _cut_up(monkeypatch)
    monkeypatch.setattr(vectors, "_EXACT", 17 * B**2)  # seventeen records in a sum of floats
    assert vectors.moments_sum(Dataset(X, y, classes), centre, B).tolist() == expected


class _OneBlock(Dataset):
    """Records of which no others are a block of their own, however many they are."""

    def total(self, f: OfBlock) -> NDArray[np.int64]:
        return f(self.X, self.y)


def test_second_moments_of_more_records_than_a_float_can_add_are_exact() -> None:
    """The records are as long as a record can be, and B is the largest: each product is nearly 2^36."""
    B, n = public._LONGEST_FACTOR, 5 * (1 << 17) + 3
    assert vectors._EXACT // B**2 == 1 << 17 >= ROWS  # so a block of records is one sum of floats
    assert (2.0**53 - 1, 2.0**53) == ((1 << 53) - 1, 1 << 53)
    assert 2.0**53 + 1 == 1 << 53  # the first that is missing
    rng = np.random.default_rng(4)
    X = np.sign(rng.random((n, 1)) - 0.01) * (1 - rng.integers(9, size=(n, 1)) * 2.0**-17)
    y = rng.choice([-1.0, 1.0], n)
    z, c = (vectors.on_grid(each, B)[:, 0].tolist() for each in (X, y[:, None]))
    exact = [sum(v * v for v in z), sum(a * b for a, b in zip(c, z, strict=True))]
    assert exact[0] > 4 << 53
    assert vectors.moments_sum(_OneBlock(X, y), Centre.none(1, 1), B).tolist() == exact


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("classes", [3, 6, 10])
def test_with_several_classes_one_record_moves_no_sum_farther(classes: int, *, centred: bool) -> None:
    """At every angle, with the same class and with another, and with unequal shares of the classes."""
    rng, B, d = np.random.default_rng(classes), 1 << 14, 4
    yb = 2 * rng.dirichlet(np.full(classes, 0.5)) - 1 if centred else np.zeros(classes)
    centre = Centre(np.zeros(d), 1.0, yb, centred=centred)
    point = Point(np.eye(d), 1.0, 1.0, rng.normal(size=(d, classes)), np.zeros(classes), centred=centred)
    found: dict[str, list[float]] = {"first": [], "labels": [], "moments": [], "gradient": []}
    rows = _rows(rng, 80, d).reshape(40, 2, d).tolist()
    rows += [
        [[1 - 1e-9, 0, 0, 0], [np.cos(angle) * (1 - 1e-9), np.sin(angle) * (1 - 1e-9), 0, 0]]
        for angle in np.linspace(0, np.pi, 25)
    ]
    for u, x in rows:
        for other in (0, 1):
            a = Dataset(np.array([u]), np.array([0.0]), classes)
            b = Dataset(np.array([x]), np.array([float(other)]), classes)
            sums: dict[str, Callable[[Dataset], NDArray[np.int64]]] = {
                "first": partial(vectors.mean_sum, B=B),
                "labels": partial(vectors.labels_sum, B=B),
                "moments": partial(vectors.moments_sum, centre=centre, B=B),
                "gradient": partial(vectors.gradient_sum, centre=centre, point=point, B=B),
            }
            for name, added in sums.items():
                pairs, unit = (d * (d - 1) // 2, B**4) if name == "moments" else (0, B**2)
                found[name].append(_squared_move(added(a), added(b), pairs) / unit)
    most = {"first": 5, "labels": 4, "moments": 5 if centred else 4.5, "gradient": 4}
    for name, moved in found.items():
        assert max(moved) <= most[name], name
    assert max(found["first"]) > 3.9
    assert max(found["moments"]) > (4.4 if not centred else 3.9)


def test_one_record_moves_a_gradient_by_no_more_than_the_proof_says() -> None:
    rng, B, d = np.random.default_rng(3), 1 << 20, 6
    root = rng.normal(size=(d, d))
    centre = Centre(np.full(d, 0.05), 0.5, np.array([0.1]), centred=True)
    point = Point(root @ root.T, 1.4 * sqrt(d), 1.5, rng.normal(size=(d, 1)) * 3, np.array([0.4]), centred=True)
    for weighted in (False, True):
        found, given = [], {"weighted": weighted}
        for u, x in _rows(rng, 400, d).reshape(200, 2, d):
            a, b = (
                vectors.gradient_sum(_record(row, y), centre, point, B, **given) for row, y in ((u, 1.0), (x, -1.0))
            )
            found.append(_squared_move(a, b))
        assert 3.5 * B**2 <= max(found) <= 4 * B**2


def test_a_record_s_weight_does_not_look_at_its_label() -> None:
    """With the chance p of +1, it adds p - 1 or p times one vector: nothing on average, so it does not bend a model."""
    rng, B, d = np.random.default_rng(4), 1 << 30, 6
    centre = Centre(np.full(d, 0.05), 0.1, np.array([0.1]), centred=True)
    point = Point(3 * np.eye(d), 1.4 * sqrt(d), 1.5, rng.normal(size=(d, 1)) * 3, np.array([0.4]), centred=True)
    cut_apart = []
    for u in _rows(rng, 50, d):
        p = float(point.probabilities(centre.uncut(u[None]) @ point.A @ point.th + point.b0)[0, 0])
        for weighted in (False, True):
            found = [vectors.gradient_sum(_record(u, y), centre, point, B, weighted=weighted) / B for y in (1.0, -1.0)]
            bend = float(np.abs(p * found[0] + (1 - p) * found[1]).max())
            assert not weighted or bend < 1e-7
            cut_apart.append(bend)
    assert max(cut_apart) > 1e-2


def test_no_point_makes_a_contribution_longer() -> None:
    """Charlie chooses the point, within its bounds: each record is cut all the same."""
    B, d = 1 << 20, 3
    centre = Centre(np.array([2.0**30, -(2.0**30), 0]), 2.0**-10, np.array([0.9]), centred=True)
    point = Point(
        np.full((d, d), 2.0**30), 2.0**30, 2.0**30, np.full((d, 1), -(2.0**30)), np.array([6.0]), centred=True
    )
    data = _record(np.array([0.6, 0.0, -0.8]), 1.0)
    for weighted in (False, True):
        moved = vectors.gradient_sum(data, centre, point, B, weighted=weighted)
        assert _squared_move(moved, np.zeros(d + 2, dtype=np.int64)) <= B**2
    assert _squared_move(vectors.shift_sum(data, centre, B), np.zeros(d, dtype=np.int64)) <= B**2
    assert abs(int(vectors.shift_sum(data, centre, B, distance=True)[-1])) <= B // 2
    far = Scorer(np.full((d, 1), 2.0**30), np.full(1, -(2.0**30)), np.full(1, 2.0**30), np.full(1, -(2.0**30)))
    for scorer in (far, Scorer.of(far.numbers(), d, 1)):
        assert _squared_move(vectors.counts_sum(data, scorer, B), np.zeros(18, dtype=np.int64)) <= B**2


# --- The noise ----------------------------------------------------------------------


@pytest.mark.parametrize(("N", "epsilon"), [(300, 1.0), (3_000, 1.0), (30_000, 0.1), (400_000, 3.0)])
@pytest.mark.parametrize("colluders", [0, 1, 4])
def test_all_sums_together_cost_the_privacy_target(N: int, epsilon: float, colluders: int) -> None:
    """A replaced record's moves, as measured above, beside the noise of h parties: their squares add up to mu^2."""
    study = whitened_study(5, 20, epsilon=epsilon, colluders=colluders)
    plan, h = Plan(study, N), 5 - colluders
    for centred in (True, False):
        moves: list[Fraction | int] = [(5 if centred else Fraction(9, 2)) * plan.moments(centred=centred) ** 4]
        if plan.looks_for_centre:
            moves += [5 * plan.first_mean**2, (5 if plan.strength >= 200 else 4) * plan.second_mean**2]
        moves += [4 * plan.gradient**2] * plan.rounds
        moves += [2 * plan.counts**2] if plan.recalibrates else []
        mu = sqrt(sum(moves) / (h * SIGMA**2))
        target = mu_of(epsilon, 1e-5)
        assert 0.995 * target <= mu <= target
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    accountant.compose(GaussianDpEvent(2 / mu_of(epsilon, 1e-5)))
    found, delta = noise_of(study).proved(h) or (np.inf, 1.0)
    assert found <= epsilon
    assert delta == 1e-5
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize("colluders", [0, 1, 4])
def test_every_standard_deviation_is_its_formula(colluders: int) -> None:
    """S/(mu sqrt(part)) sqrt(K/h) on a sum, with the S of the derivation, to three digits."""
    study = whitened_study(5, 20, colluders=colluders)
    N = 6_000
    plan, mu = Plan(study, N), mu_of(1.0, 1e-5) / sqrt(5 / (5 - colluders))
    f0, f1, f2, f3, f4 = map(float, plan.parts)
    assert f0 + f1 + f2 + f3 + f4 == pytest.approx(1)
    assert f4 == 0.02
    assert plan.noise_sd(plan.first_mean) * N == pytest.approx(2 * sqrt(1.25) / (mu * sqrt(f0)), rel=1e-3)
    S1 = sqrt(5) if plan.plenty else 2
    assert plan.noise_sd(plan.second_mean) * N == pytest.approx(S1 / (mu * sqrt(f1)), rel=1e-3)
    assert plan.noise_sd(plan.counts) * N == pytest.approx(sqrt(2) / (mu * sqrt(f4)), rel=1e-3)
    for centred, S2 in ((True, 5), (False, 4.5)):
        B = plan.moments(centred=centred)
        assert plan.noise_sd(B**2) * N == pytest.approx(sqrt(S2) / (mu * sqrt(f2)), rel=1e-3)
    assert plan.noise_sd(plan.gradient) * N == pytest.approx(2 * sqrt(plan.rounds) / (mu * sqrt(f3)), rel=1e-3)


def test_the_noise_of_products_has_half_the_variance_and_not_less() -> None:
    assert 2 * OFF_DIAGONAL**2 >= SIGMA**2 + 9
    assert pytest.approx(sqrt(0.5), rel=1e-9) == OFF_DIAGONAL / SIGMA
    assert isqrt(OFF_DIAGONAL) > public.MOST_COORDINATES


# --- The noise on the weights ---------------------------------------------------------


@pytest.mark.parametrize(("N", "epsilon"), [(1_500, 1.0), (3_000, 1.0)])
def test_noise_intervals_hold_the_weight_without_noise_as_often_as_they_say(N: int, epsilon: float) -> None:
    """60 draws of the noise over the same records, below s = 200 and above: intervals of 1.96 sd hold 95 of 100."""
    rng = np.random.default_rng(N)
    X = np.clip(rng.normal(size=(N, 6)) / 4, -1, 1)
    X = np.column_stack([X, np.ones(N)]) / np.sqrt(1 + (X * X).sum(axis=1))[:, None]
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-8 * X[:, 0] + 4 * X[:, 1])), 1.0, -1.0)
    study, data = study_of(7, epsilon, 1e-5), Dataset(X, y)
    plan = Plan(study, N)
    assert plan.plenty == (N > 2_000)
    exact = np.array(finished(roles.learn(ClearSide(plan, data), plan)).weights)
    models = [learn_in_clear(study, data, draw_shares(f"noise {i}", 7)) for i in range(60)]
    weights = np.array([model.weights for model in models])
    sds = np.array([model.published.weight_noise for model in models if model.published is not None])
    assert 0.92 <= np.mean(np.abs(weights - exact) <= 1.96 * sds) <= 0.99
    assert np.median(sds.mean(axis=0) / weights.std(axis=0)) == pytest.approx(1, abs=0.25)


def test_a_run_tells_its_noise_with_two_classes_and_where_a_last_sum_tells_its_length() -> None:
    for N, classes, told in ((3_000, None, True), (500, None, False), (3_000, ("a", "b", "c"), False)):
        study = whitened_study(5, 7)
        if classes:
            study = study.model_copy(update={"label": Label(name="y", classes=classes)})
        assert Plan(study, N).tells_noise == told


# --- A run ----------------------------------------------------------------------------


@dataclass
class _Watched:
    """A run whose opened sums were noted: by label, the mean that Charlie opened, and its exact value."""

    study: Study
    plan: Plan
    data: Dataset
    sums: dict[str, tuple[_Floats, _Floats]]
    models: dict[str, Model]


def _watched_run(study: Study, data: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch) -> _Watched:
    together, sums = pool(study, data), {}
    total = CharlieSide.total

    async def noted(self: Any, label: str, length: int, unit: int, own: Any, products: int = 0) -> _Floats:
        opened = await total(self, label, length, unit, own, products)
        sums[label] = opened, own(together) / (float(unit) * len(together.y))
        return opened

    with monkeypatch.context() as patch:
        patch.setattr(CharlieSide, "total", noted)
        models = run_in_memory(roles, study, data)
    return _Watched(study, Plan(study, len(together.y)), together, sums, models)


@pytest.fixture(scope="module")
def watched() -> _Watched:
    study = whitened_study(4, 40, epsilon=3.0, colluders=1)
    return _watched_run(study, make_data(study, (150, 400, 250, 300)), pytest.MonkeyPatch())


def test_everybody_has_the_same_model(watched: _Watched) -> None:
    assert set(watched.models) == {*watched.study.names, CHARLIE}
    assert len({model.weights + model.offset for model in watched.models.values()}) == 1


def test_the_noise_has_the_standard_deviation_that_the_plan_says(watched: _Watched) -> None:
    """That of all K shares. A scale that is wrong by 30 % fails."""
    plan, pairs, d = watched.plan, 40 * 39 // 2, 40
    centred = len(watched.sums["second moments"][0]) == public.moments_length(d, 1, centred=True)
    opened, exact = watched.sums["second moments"]
    z = (opened - exact) / plan.noise_sd(plan.moments(centred=centred) ** 2)
    after = "second mean" if "second mean" in watched.sums else "labels"
    means = [(watched.sums["first mean"], plan.first_mean), (watched.sums[after], plan.second_mean)]
    gradients = [(watched.sums[f"gradient {t}"], plan.gradient) for t in range(plan.rounds)]
    gradients.append((watched.sums["score counts"], plan.counts))
    vectors_ = np.concatenate([(o - e) / plan.noise_sd(B) for (o, e), B in (*means, *gradients)])
    for noise in (z[:pairs] * sqrt(2), np.concatenate([z[pairs:], vectors_])):
        low, high = stats.chi2.ppf([1e-6, 1 - 1e-6], len(noise))
        for scale in (1.0, 1.3, 0.7):
            assert (low <= float(noise @ noise) * scale**2 <= high) == (scale == 1)


def test_no_noise_serves_twice(watched: _Watched) -> None:
    found = np.concatenate([opened - exact for opened, exact in watched.sums.values()])
    assert len(np.unique(found)) == len(found)


def test_charlie_who_sends_other_numbers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    study = whitened_study(3, 5, epsilon=3.0)
    data = make_data(study, (60, 80, 70))
    for step in range(5):
        sent = iter(range(100))

        def wrong(numbers: _Floats, step: int = step, sent: Any = sent) -> bytes:
            return rounded(numbers + (next(sent) == step) * 1e-3 * np.arange(1, len(numbers) + 1))

        with monkeypatch.context() as patch:
            patch.setattr(adaptive_sums, "rounded", wrong)
            with raises(ProtocolViolation, "other_numbers_sent") as caught:
                run_in_memory(roles, study, data)
        assert caught.value.peer == CHARLIE


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (b"\0" * 8, ("bytes_of_numbers", 8, 16)),
        ((1 << 63).to_bytes(8, "little") * 2, ("number_out_of_range",)),
    ],
)
def test_numbers_that_are_none_are_charlie_s_fault(values: bytes, match: tuple[Any, ...]) -> None:
    with raises(ProtocolViolation, *match) as caught:
        adaptive_sums._read_numbers(values, 2)
    assert caught.value.peer == CHARLIE


def test_a_number_that_is_not_finite_never_passes() -> None:
    """A comparison with NaN is false, whichever way it is written but one."""

    class Seat:
        me = "p0"

        async def receive(self, _kind: object, _sender: str) -> adaptive_sums.PublicNumbers:
            return adaptive_sums.PublicNumbers(step=0, values=rounded(np.zeros(2)))

    agreement = adaptive_sums.Agreement(Seat(), 10)  # type: ignore[arg-type]  # a seat that has no more than is used
    with pytest.raises(ProtocolViolation):
        agreement.on(np.array([np.nan, 0.0])).send(None)


def test_charlie_within_the_tolerance_is_believed_and_what_he_sent_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    study = whitened_study(3, 5, epsilon=3.0)
    data = make_data(study, (60, 80, 70))
    with monkeypatch.context() as patch:
        patch.setattr(adaptive_sums, "rounded", lambda numbers: rounded(numbers + adaptive_sums.TOLERANCE / 2))
        models = run_in_memory(roles, study, data)
    assert len(set(models.values())) == 1


def test_where_the_two_largest_eigenvalues_are_equal_charlies_point_is_taken_whatever_it_is() -> None:
    """Which of the two is the largest follows from last bits, which differ from machine to machine."""
    d = 3
    plan, bit = Plan(whitened_study(3, d), 60_000), 1e-14
    b, none = np.array([0.1, 0.05, 0.02]), Centre.none(d, 1)

    def found(gap: float, last_bit: float) -> Whitened:
        products = np.array([last_bit, 0, 0])
        return whitened(plan, none, [np.concatenate([products, [0.4, 0.4 - gap, 0.1], b, [0.0]])])

    def agreed(own: Whitened, his: Whitened, **more: bool) -> _Floats:
        class Seat:
            me = "p0"

            async def receive(self, _kind: object, _sender: str) -> adaptive_sums.PublicNumbers:
                return adaptive_sums.PublicNumbers(step=0, values=rounded(his.numbers()))

        agreement = adaptive_sums.Agreement(Seat(), 10)  # type: ignore[arg-type]  # a seat that has no more than is used
        with pytest.raises(StopIteration) as done:
            agreement.on(own.numbers(), **more).send(None)
        return cast("_Floats", done.value.value)

    own, his = found(0.0, bit), found(0.0, -bit)
    assert own.unsure
    np.testing.assert_allclose(agreed(own, his, unsure=own.unsure), his.numbers(), atol=1e-9)
    with raises(ProtocolViolation, "other_numbers_sent"):
        agreed(own, his)
    # Farther apart, every machine finds the same, and Charlie's are checked.
    own, his = found(1e-3, bit), found(1e-3, -bit)
    assert not own.unsure
    agreed(own, his, unsure=own.unsure)


# --- Records of every kind --------------------------------------------------------------


def _ball(X: _Floats) -> _Floats:
    inside: _Floats = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return inside


def _encoded(X: _Floats) -> _Floats:
    """Records as the encoder makes them, with a constant."""
    return _ball(np.column_stack([X, np.ones(len(X))]))


KINDS: dict[str, Callable[[np.random.Generator], tuple[_Floats, _Floats]]] = {
    "fewer records than coordinates": lambda g: (_encoded(g.normal(size=(12, 30))), g.choice([-1.0, 1.0], size=12)),
    "one class": lambda g: (_encoded(g.normal(size=(300, 4))), np.ones(300)),
    "the other class": lambda g: (_encoded(g.normal(size=(3000, 4))), -np.ones(3000)),
    "constant columns": lambda g: (
        _encoded(np.column_stack([np.ones((400, 3)), g.normal(size=400)])),
        g.choice([-1.0, 1.0], size=400),
    ),
    "one coordinate": lambda g: (g.uniform(-1, 1, size=(500, 1)), g.choice([-1.0, 1.0], size=500)),
    "all records equal": lambda _: (np.tile([0.6, 0.0, 0.8], (600, 1)), np.where(np.arange(600) % 3 == 0, 1.0, -1.0)),
    "all records zero": lambda _: (np.zeros((600, 3)), np.where(np.arange(600) % 3 == 0, 1.0, -1.0)),
}


@pytest.mark.parametrize("epsilon", [1e-5, 0.1, 1.0, 20.0])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_records_gives_a_model(kind: str, epsilon: float) -> None:
    """Mostly under masks: their sums are as exact, and take less time. But the most noise must fit a plaintext."""
    X, y = KINDS[kind](np.random.default_rng(4))
    study = whitened_study(3, X.shape[1], epsilon=epsilon, min_records=2)
    if epsilon > 1e-5:
        study = under_masks(study)
    parts = np.array_split(np.arange(len(y)), 3)
    data = {name: Dataset(X[part].copy(), y[part].copy()) for name, part in zip(study.names, parts, strict=True)}
    model = run_in_memory(roles, study, data)[CHARLIE]
    assert np.isfinite(model.weights + model.offset).all()
    if epsilon > 1 and kind in {"one class", "the other class", "all records equal"}:
        assert error_on(model, pool(study, data)) <= (0.4 if kind == "all records equal" else 0.01)


@pytest.mark.parametrize("N", [2, 3, 50, 10**6])
def test_every_sum_has_a_unit_wherever_a_study_is_accepted(N: int) -> None:
    """Down to the smallest privacy target that the check accepts; a smaller one is refused in a sentence."""
    study = whitened_study(2, 4, epsilon=4e-7, delta=4e-7)
    public.check(study)
    plan = Plan(study, N)
    assert min(plan.moments(centred=True), plan.moments(centred=False), plan.gradient) >= 4
    assert not plan.looks_for_centre or min(plan.first_mean, plan.second_mean) >= 4
    with raises(BadInput, "below_one_unit"):
        public.check(whitened_study(2, 4, epsilon=1e-7, delta=1e-7))


def test_a_study_with_too_many_coordinates_is_refused_in_a_sentence() -> None:
    study = whitened_study(2, public.MOST_COORDINATES + 1)
    with raises(BadInput, "too_many_coordinates", 4001, "dp-whitened", 4000) as caught:
        public.check(study)
    assert "choose dp-gd" in (caught.value.hint or "")


def test_a_study_with_too_many_coordinates_and_classes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "MOST_TOLD", public.point_length(4, 2))
    public.check(_of_classes(whitened_study(2, 4), 2))
    with raises(BadInput, "too_many_told", 4, 3):
        public.check(_of_classes(whitened_study(2, 4), 3))


def test_what_charlie_sends_at_once_is_kept_until_every_party_has_confirmed_it() -> None:
    """The largest study of two classes fits as well."""
    assert public.point_length(public.MOST_COORDINATES, 1) < public.MOST_TOLD
    assert 8 * public.MOST_TOLD + (1 << 20) < MAX_KEPT


class _Echo:
    """A seat and a secure sum of one party alone: what is contributed is opened."""

    me, run = "p0", b""

    async def once(self, _label: str, compute: Callable[[Any], Any]) -> Any:
        return compute(None)

    async def stage(self, _name: str) -> None: ...

    async def release(self, *_cost: object) -> None: ...

    async def open_sum(
        self, _layout: object, vector: Sequence[int], _bound_to: bytes, _again: object
    ) -> tuple[int, ...]:
        return tuple(vector)


def test_the_memory_of_a_party_stays_below_four_matrices() -> None:
    """While it adds up second moments, adds noise and has the pieces opened."""
    d, rng, echo = 400, np.random.default_rng(0), _Echo()
    study = whitened_study(2, d, min_records=2)
    data, B = Dataset(_ball(rng.normal(size=(100, d))), rng.choice([-1.0, 1.0], size=100)), 1 << 14
    length, pairs = public.moments_length(d, 1, centred=True), d * (d - 1) // 2
    plan, noise = Plan(study, 100), Noise([(pairs, np.ones(public.most_numbers(d, 1), dtype="<i8").tobytes())])
    own = partial(vectors.moments_sum, centre=Centre(np.zeros(d), 1.0, np.zeros(1), centred=True), B=B)
    side = PartySide(echo, plan, echo, data, noise)  # type: ignore[arg-type]  # all that is used of either
    tracemalloc.start()
    try:
        with pytest.raises(StopIteration):
            side.total("second moments", length, B**2, own, products=pairs).send(None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 8 * d * d < peak < 4 * 8 * d * d


def test_the_memory_of_what_follows_from_second_moments_stays_below_four_matrices() -> None:
    """From the opened sum to the model, of a matrix that is so large that it is worked on in parts."""
    d, rng = SMALL + 76, np.random.default_rng(0)
    study, told = whitened_study(2, d, epsilon=8.0, min_records=2), []
    data = Dataset(_ball(rng.normal(size=(40, d))), rng.choice([-1.0, 1.0], size=40))
    plan = Plan(study, 100_000)
    assert plan.tells_noise

    class Told(ClearSide):
        async def total(self, label: str, length: int, *rest: Any, **more: Any) -> _Floats:
            opened = await super().total(label, length, *rest, **more)
            if label == "second moments":
                tracemalloc.start()
            return opened.copy()

        async def agree_on_many(self, length: int, own: Callable[[], tuple[_Floats, bool]]) -> _Floats:
            heard = np.empty(length)  # as a party takes it in
            heard[:] = own()[0]
            told.append(length)
            return heard

    try:
        finished(roles.learn(Told(plan, data), plan))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert told == [public.point_length(d, 1)]
    assert 8 * d * d < peak < 4 * 8 * d * d


def test_a_large_matrix_is_overwritten_where_its_eigenvectors_are_found() -> None:
    """Numpy's routine would take room for four more matrices, which no tracer of memory sees."""
    rng, d = np.random.default_rng(0), SMALL + 1
    G = rng.normal(size=(d, d))
    G += G.T
    given = G.copy()
    values, found = estimates._eigenvectors(G)
    assert not np.array_equal(G, given)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose((found * values) @ found.T, given, atol=1e-10)


def test_matrices_in_parts_give_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    study = whitened_study(2, 7, epsilon=3.0)
    data = pool(study, make_data(study, (2000, 2000)))
    plan = Plan(study, data.n)
    whole = finished(roles.learn(ClearSide(plan, data), plan))
    _cut_up(monkeypatch)
    parts = finished(roles.learn(ClearSide(plan, data), plan))
    assert whole.published is not None
    assert parts.published is not None
    np.testing.assert_allclose(parts.weights, whole.weights, rtol=1e-9)
    np.testing.assert_allclose(parts.published.weight_noise, whole.published.weight_noise, rtol=1e-9)


@pytest.mark.parametrize(
    ("d", "epsilon", "n", "classes"), [(200, 1.0, 100, None), (200, 20.0, 1500, None), (200, 3.0, 200, 3)]
)
def test_the_bytes_that_are_forecast_are_sent_and_received(d: int, epsilon: float, n: int, classes: int | None) -> None:
    """By each party, in a run whose number of records was foretold; all but what a run of any size has."""
    study = under_masks(whitened_study(3, d, epsilon=epsilon))
    study = study if classes is None else _of_classes(study, classes)
    study = study.model_copy(update={"study": study.study.model_copy(update={"expected_records": 3 * n})})
    data = make_data(study, (n,) * 3) if classes is None else _classes(study, (n,) * 3, classes)
    table = Table(study.names, study=study)
    run_in_memory(roles, study, data, table=table)
    cost = entry_of(study).cost(study)
    for name in study.names:
        sent = sum(frame.length for frame in table.passed if frame.source == name)
        received = sum(frame.length for frame in table.passed if frame.to == name)
        assert cost.sent == pytest.approx(sent, rel=0.02)
        assert cost.received == pytest.approx(received, rel=0.02)
    assert cost.memory == 64_000_000 + 4 * 8 * d * d
    assert not burden_of(cost, study.K)


@pytest.mark.parametrize(
    ("d", "s", "classes", "named"),
    [(500, 5.9, None, True), (499, 5.9, None, False), (500, 6.1, None, False), (500, 5.9, 3, False)],
)
def test_the_forecast_names_another_protocol_where_that_errs_less(
    d: int, s: float, classes: int | None, named: bool
) -> None:
    study = whitened_study(2, d, min_records=2)
    study = study if classes is None else _of_classes(study, classes)
    N = round(s * sqrt(d) / mu_of(study.privacy.epsilon, study.privacy.delta))
    study = study.model_copy(update={"study": study.study.model_copy(update={"expected_records": N})})
    tell = entry_of(study).expectation
    assert tell is not None
    found = tell(study)
    assert found.s == pytest.approx(s, abs=0.09)
    assert says(found.text, "other_protocol_errs_less", 6, 500) is named


def test_nobody_counts_the_bytes_of_sums_by_paillier() -> None:
    study = whitened_study(3, 20)
    assert study.crypto.sum == "paillier"
    cost = entry_of(study).cost(study)
    assert (cost.sent, cost.received, cost.memory) == (0, 0, 0)


def test_noise_serves_once_and_in_its_order_whatever_its_parts_are() -> None:
    products, others = np.arange(10), 100 + np.arange(7)
    parts = [(4, products[:4]), (4, products[4:8]), (2, np.append(products[8:], others[:2])), (0, others[2:])]
    noise = Noise([(count, part.astype("<i8").tobytes()) for count, part in parts])
    taken = [noise.take(0, 1), noise.take(9, 0), noise.take(1, 5), noise.take(0, 1)]
    np.testing.assert_array_equal(np.concatenate(taken), [100, *range(9), 9, *range(101, 106), 106])


def test_a_party_takes_in_many_numbers_before_it_computes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they would wait in its channel, which holds a part of them only."""
    monkeypatch.setattr(adaptive_sums, "TOLD_AT_ONCE", 4)
    numbers = np.linspace(-2, 2, 11)
    heard: list[int] = []

    class Seat:
        me = "p0"

        async def receive(self, _kind: object, _sender: str) -> adaptive_sums.PublicNumbers:
            heard.append(len(heard))
            start = 4 * heard[-1]
            return adaptive_sums.PublicNumbers(step=heard[-1], values=rounded(numbers[start : start + 4]))

    def own() -> tuple[_Floats, bool]:
        assert heard == [0, 1, 2]
        return numbers, False

    agreement = adaptive_sums.Agreement(Seat(), 10)  # type: ignore[arg-type]  # a seat that has no more than is used
    with pytest.raises(StopIteration) as done:
        agreement.on_many(11, own).send(None)
    np.testing.assert_allclose(done.value.value, numbers, atol=1e-9)


# --- The same a second time ---------------------------------------------------------------


def _classes(study: Study, sizes: Sequence[int], classes: int) -> dict[str, Dataset]:
    rng, data = np.random.default_rng(8), {}
    true = rng.normal(size=(study.d, classes))
    for name, n in zip(study.names, sizes, strict=True):
        X = _ball(0.3 + 0.4 * rng.normal(size=(n, study.d)))
        data[name] = Dataset(X, (X @ true + 0.2 * rng.normal(size=(n, classes))).argmax(axis=1).astype(float), classes)
    return data


def _of_classes(study: Study, classes: int) -> Study:
    label = Label(name="y", classes=tuple(f"c{k}" for k in range(classes)))
    return study.model_copy(update={"label": label})


@pytest.mark.parametrize(
    ("classes", "epsilon", "centred"),
    [
        (None, 0.3, None),
        (None, 1.0, False),
        (None, 1.0, True),
        (None, 3.0, None),
        (None, 8.0, True),
        (3, 2.0, None),
        (10, 20.0, None),
    ],
)
def test_a_run_is_what_the_oracle_computes(
    classes: int | None, epsilon: float, centred: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are given the same noise. The oracle goes along eigenvectors, and the protocol never does."""
    study = whitened_study(3, 6, epsilon=epsilon)
    sizes = (150, 90, 120)
    if classes is not None:
        study = _of_classes(study, classes)
        data = _classes(study, sizes, classes)
    else:
        data = make_data(study, sizes)
        if centred:
            moved = {name: _ball(part.X * 0.3 + 0.35) for name, part in data.items()}
            data = {name: Dataset(moved[name], part.y.copy()) for name, part in data.items()}
    run = _watched_run(study, data, monkeypatch)
    noises = {}
    for label, (opened, exact) in run.sums.items():
        unit = {"first mean": run.plan.first_mean, "second mean": run.plan.second_mean, "labels": run.plan.second_mean}
        B = (unit | {"score counts": run.plan.counts}).get(label, run.plan.gradient)
        if label == "second moments":
            B = run.plan.moments(centred="second mean" in run.sums) ** 2
        noises[label] = (opened - exact) / run.plan.noise_sd(B)
    X, Y = run.data.X, vectors.coded(run.data.y, classes or 1)
    weights, offsets = oracle(run.plan, X, Y, lambda label, length: noises[label][:length])
    if centred is not None:
        assert ("second mean" in run.sums) == centred
    found = run.models[CHARLIE]
    np.testing.assert_allclose(np.reshape(found.weights, weights.shape), weights, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.offset, offsets, rtol=1e-6, atol=1e-6)


def _cut_up(patch: pytest.MonkeyPatch) -> None:
    """Make all limits so small that noise, sums, numbers and matrices come in parts."""
    for module, name, value in (
        (adaptive_sums, "PIECE", 4),
        (public, "PIECE", 4),
        (adaptive_sums, "_KEPT", 8),
        (adaptive_sums, "TOLD_AT_ONCE", 5),
        (estimates, "SMALL", 1),
        (estimates, "SMALL", 1),
        (estimates, "_AT_ONCE", 4),
        (vectors, "_COLUMNS", 4),
        (vectors, "_CACHED", 4),
        (vectors, "_PRODUCT", 3),
    ):
        assert hasattr(module, name)
        patch.setattr(module, name, value)


@pytest.mark.parametrize(("classes", "centred"), [(None, False), (None, True), (3, None)])
def test_a_run_in_parts_is_what_the_oracle_computes(
    classes: int | None, centred: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With limits so small that 6 coordinates are cut up like 4,000."""
    _cut_up(monkeypatch)
    test_a_run_is_what_the_oracle_computes(classes, 2.0, centred, monkeypatch)


def test_a_model_of_several_classes_is_measured_on_records_that_were_held_back() -> None:
    study = held_back_study(3, 5, protocol="dp-whitened", epsilon=8.0)
    study = study.model_copy(update={"label": Label(name="y", classes=("a", "b", "c"))})
    models = run_in_memory(roles, study, _classes(study, (200, 150, 250), 3))
    assert len({model.weights + model.offset for model in models.values()}) == 1
    found = models[CHARLIE].evaluation
    assert isinstance(found, ClassEvaluation)
    assert found.error.low <= 0.3
    assert len(found.classes) == 3

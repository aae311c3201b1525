"""Descent on noisy examples: the noise is the law's, every door adds it, and the models are averaged by size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from masquerade.simulation import simulate
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, ProtocolViolation, RunFailed
from masquerade_core.learning import input_noise as learning
from masquerade_core.model import Model
from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.noise.noisy_copies import copies_epsilon, largest_alpha
from masquerade_core.rng import Rng
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study, check_section
from masquerade_core.table import Table, replay
from masquerade_protocols.blocks.paillier_sum import as_packing
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.input_noise import public
from masquerade_protocols.input_noise import roles as input_noise
from masquerade_protocols.input_noise.entry import INPUT_NOISE
from masquerade_protocols.input_noise.statement import input_noise_statement
from masquerade_protocols.registry import entry_named
from tests.messages import raises, says, sentence
from tests.paper_data import study_of
from tests.protocol_helpers import make_data
from tests.sum_helpers import drawn

_Array = NDArray[np.float64]
_Laws = ("gaussian", "l2")
UNIT = 1 << learning.FRACTION_BITS
ALONE = "min_parties = 1"


def _study(K: int = 3, d: int = 4, section: str = "alpha = 1.0", **kw: Any) -> Study:
    if K > 1:
        return study_of("input-noise", K, d, section=section, **kw)
    text = study_of("input-noise", 2, d, section=section, **kw).to_toml().replace("min_parties = 2", ALONE)
    return Study.parse(text[: text.rindex("[[party]]")], in_memory=True)


def _checked(study: Study) -> Study:
    check_section(public.Parameters, study.protocol, "protocol")
    public.check(study)
    return study


def _rng(label: object = "") -> Rng:
    return SimulationRng("input noise", str(label))


def _run(study: Study, data: Mapping[str, Dataset], seed: int = 1) -> tuple[dict[str, Model], Table]:
    everybody = (*study.names, CHARLIE)
    table = Table(study.names, {who: SimulationRng(seed, who) for who in everybody})
    return run_in_memory(input_noise, study, data, table=table), table


# --- The descent: an independent path ---------------------------------------------------------------


_SLOPES: dict[
    str, Callable[[float], float]
] = {  # d/dm of log(1 + e^-m), and of Chaudhuri's smoothed hinge with h = 1/2
    "logistic": lambda m: -1 / (1 + math.exp(m)),
    "smoothed-hinge": lambda m: (
        -1.0 if m < 0.5 else 0.0 if m > 1.5 else (1 - m) ** 3 / (4 * 0.5**3) - 3 * (1 - m) / (4 * 0.5) - 0.5
    ),
}


def _by_hand(
    w: _Array, X: _Array, y: _Array, order: Sequence[Sequence[int]], t: float, loss: str, lam: float
) -> _Array:
    """Equations (8) and (9) in loops, with one 1/b."""
    w = w.copy()
    for batch in order:
        gradient = np.zeros_like(w)
        for i in batch:
            gradient += _SLOPES[loss](float(y[i] * np.dot(w, X[i]))) * y[i] * X[i] / len(batch)
        w -= t * (gradient + lam * w)
    return w


@pytest.mark.parametrize("loss", _SLOPES)
@pytest.mark.parametrize(("batch", "lam"), [(1, 0.0), (7, 0.0), (7, 0.1), (50, 0.1)])
def test_planted_noise_and_order_make_the_path_that_loops_make(batch: int, lam: float, loss: str) -> None:
    made = np.random.default_rng(1)
    X, noise, w0 = made.normal(size=(30, 5)), made.normal(size=(30, 5)), made.uniform(-1, 1, 5)
    y = np.where(made.random(30) < 0.5, 1.0, -1.0)
    order = [chunk for _ in range(3) for chunk in np.array_split(made.permutation(30), max(1, 30 // batch))]
    w = learning.sgd(w0, ((X[b] + noise[b], y[b]) for b in order), 0.1, loss, lam)
    expected = _by_hand(w0, X + noise, y, [b.tolist() for b in order], 0.1, loss, lam)
    np.testing.assert_allclose(w, expected, rtol=0, atol=1e-9)
    assert np.linalg.norm(w - _by_hand(w0, X, y, [b.tolist() for b in order], 0.1, loss, lam)) > 1e-3


@pytest.mark.parametrize("once", [True, False])
def test_a_partys_classifier_is_the_descent_on_what_was_drawn(once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is planted, the order is noted; labels, epochs, batches and the start are the study's."""
    study = _checked(_study(d=3, section=f"alpha = 0.5\nonce = {str(once).lower()}\nbatch = 4\nepochs = 3"))
    data = make_data(study, (10, 10, 10))["p0"]
    noise, orders, starts = iter(range(10_000)), [], []
    epochs_of, initial = learning.epochs_of, learning.initial_weights

    def planted(_rng: Rng, sigma: Fraction, d: int, _unit: Fraction) -> list[int]:
        assert sigma == 2
        return [UNIT * (next(noise) % 5 - 2) for _ in range(d)]

    def noted(*args: Any) -> Any:
        for batch in epochs_of(*args):
            orders.append(batch.tolist())
            yield batch

    def started(*args: Any) -> _Array:
        starts.append(initial(*args))
        return starts[-1]

    monkeypatch.setattr(learning, "gaussian", planted)
    monkeypatch.setattr(input_noise, "epochs_of", noted)
    monkeypatch.setattr(input_noise, "initial_weights", started)
    theta = np.array(input_noise.train(_rng(), study, data)) / UNIT

    assert [len(b) for b in orders] == [4, 4, 2] * 3
    assert [sorted(i for b in orders[e : e + 3] for i in b) for e in (0, 3, 6)] == [list(range(10))] * 3
    assert len({str(orders[i : i + 3]) for i in (0, 3, 6)}) == 3
    assert (np.abs(starts[0]) <= 1).all()
    counter = iter(range(10_000))

    def noisy(rows: _Array) -> _Array:
        planted: _Array = rows + [[next(counter) % 5 - 2 for _ in range(3)] for _ in rows]
        return planted

    w = starts[0]
    kept = noisy(data.X) if once else None
    for batch in orders:
        X = noisy(data.X[batch]) if kept is None else kept[batch]
        w = _by_hand(w, X, data.y[batch], [range(len(batch))], 0.05, "logistic", 0.1)
    np.testing.assert_allclose(theta, w, rtol=0, atol=1e-7)  # records were rounded to the grid


def test_the_start_is_uniform_between_minus_one_and_one() -> None:
    w = np.concatenate([learning.initial_weights(_rng(i), 50) for i in range(100)])
    assert stats.kstest(w, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert stats.kstest(w, stats.uniform(-0.9, 1.8).cdf).pvalue < 1e-9


def test_every_order_is_as_likely_as_any_other() -> None:
    batches = list(learning.epochs_of(_rng("orders"), 4, 4800, 4))
    counts = np.unique([b.tolist() for b in batches], axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-4


# --- The noise: laws, and what an access is -----------------------------------------------------------


def _noise(law: Any, alpha: str, n: int, d: int) -> _Array:
    X: _Array = np.full((n, d), 0.5 / math.sqrt(d))
    noise: _Array = learning.perturb(_rng(law), X, Fraction(alpha), law) - X
    return noise


def test_gaussian_noise_has_variance_one_over_alpha_squared_and_no_other() -> None:
    values = _noise("gaussian", "0.5", 4000, 3).ravel()
    assert stats.kstest(values, stats.norm(scale=2).cdf).pvalue > 1e-3
    for wrong in (0.7, 1.3):
        assert stats.kstest(values, stats.norm(scale=2 * math.sqrt(wrong)).cdf).pvalue < 1e-6


def test_l2_noise_has_a_gamma_norm_of_rate_half_alpha_and_every_direction() -> None:
    noise = _noise("l2", "0.5", 6000, 3)
    norms = np.linalg.norm(noise, axis=1)
    assert stats.kstest(norms, stats.gamma(3, scale=4).cdf).pvalue > 1e-3
    for wrong in (0.7, 1.3):
        assert stats.kstest(norms, stats.gamma(3, scale=4 * wrong).cdf).pvalue < 1e-6
    assert stats.kstest(noise[:, 0] / norms, stats.uniform(-1, 2).cdf).pvalue > 1e-3  # Archimedes, d = 3


@pytest.mark.parametrize("law", _Laws)
def test_what_leaves_lies_on_the_grid(law: Any) -> None:
    noisy = learning.perturb(_rng(), np.full((20, 3), 1 / 3), Fraction(1), law) * UNIT
    assert (noisy == np.round(noisy)).all()
    assert (np.round(noisy) % 2 == 1).any()  # to its last bit


def _accessed(rng: Rng, once: bool, n: int, epochs: int, d: int) -> _Array:
    """The noise of each record's accesses, shape (epochs, n, d): each comes with its record's number for a label."""
    door = learning.kept_accesses if once else learning.fresh_accesses
    batches = learning.epochs_of(rng, n, epochs, 10)
    noise = np.empty((epochs, n, d))
    X = np.full((n, d), 0.25)
    seen = np.zeros(n, dtype=int)
    for x, number in door(rng, X, np.arange(n, dtype=np.float64), batches, Fraction(10), "gaussian"):
        i = number.astype(int)
        noise[seen[i], i] = x - 0.25
        seen[i] += 1
    assert (seen == epochs).all()
    return noise


def test_fresh_accesses_of_a_record_are_as_good_as_independent() -> None:
    """``masquerade reproduce bixler`` asks the same of 10^5 accesses in ten dimensions."""
    noise = _accessed(_rng(), False, 1000, 40, 2)
    covariance = np.cov(noise.reshape(-1, 2).T) * 10**2
    assert np.abs(np.diag(covariance) - 1).max() <= 0.03
    assert abs(covariance[0, 1]) <= 0.02
    assert abs(np.corrcoef(noise[::2].ravel(), noise[1::2].ravel())[0, 1]) <= 0.02
    assert abs(np.corrcoef(noise[:, ::2].ravel(), noise[:, 1::2].ravel())[0, 1]) <= 0.02


def test_kept_accesses_of_a_record_are_one_and_of_two_are_not() -> None:
    noise = _accessed(_rng(), True, 1000, 5, 2)
    assert all((a == b).all() for a, b in pairwise(noise))
    assert abs(np.corrcoef(noise[0, ::2].ravel(), noise[0, 1::2].ravel())[0, 1]) <= 0.15


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_labels_are_kept_as_often_as_they_must_be(epsilon: str) -> None:
    y = np.where(np.arange(20_000) % 3 == 0, 1.0, -1.0)
    kept = learning.randomised_response(_rng(epsilon), y, Fraction(epsilon)) == y
    p = 1 / (1 + math.exp(-float(epsilon)))
    for label in (1.0, -1.0):
        among = kept[y == label]
        assert stats.binomtest(int(among.sum()), len(among), p).pvalue > 1e-3
        assert stats.binomtest(int(among.sum()), len(among), 1 - (1 - p) * 0.7).pvalue < 1e-6


def test_labels_are_randomised_where_the_study_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def noted(w: _Array, batches: Any, *_: Any) -> _Array:
        seen.append(np.concatenate([y for _, y in batches]))
        return w

    monkeypatch.setattr(input_noise, "sgd", noted)
    section = 'alpha = 1.0\nepochs = 2\nlabels = "randomised-response"\nepsilon_y = 0.5'
    data = Dataset.from_unit_ball(np.zeros((400, 4)), np.ones(400))
    for text in (section, "alpha = 1.0"):
        input_noise.train(_rng(), _checked(_study(section=text)), data)
    assert (seen[0][:400] == -1).sum() == (seen[0][400:] == -1).sum()  # once, also where features are met twice
    assert 100 < (seen[0][:400] == -1).sum() < 200
    assert (seen[1] == 1).all()


# --- The sum ---------------------------------------------------------------------------------------


def test_the_opened_sum_tells_nothing_of_what_the_sizes_have_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    study = _checked(_study(5, 40))
    data = make_data(study, [40] * 5)

    def common() -> int:
        weights = _run(study, data)[0][CHARLIE].weights
        return math.gcd(*(round(w * 200 * UNIT) for w in weights))

    assert common() == 1
    monkeypatch.setattr(input_noise, "_weighted", lambda _rng, theta_j, n_j: tuple(n_j * v for v in theta_j))
    assert common() % 40 == 0


@pytest.mark.parametrize("K", [1, 2, 5, 20])
def test_the_model_is_the_average_of_classifiers_by_size(K: int) -> None:
    study = _checked(_study(K, 3, 'alpha = 1.0\nnoise = "l2"'))
    data = make_data(study, [10 + 3 * j for j in range(K)])
    results, table = _run(study, data)
    assert len({model.weights for model in results.values()}) == 1
    thetas = np.array([drawn(table, name, "classifier") for name in study.names]) / UNIT
    sizes = np.array([len(data[name].y) for name in study.names])
    expected = sizes @ thetas / sizes.sum()
    np.testing.assert_allclose(results[CHARLIE].weights, expected, rtol=0, atol=2.0**-20)
    if K > 1:
        assert np.abs(thetas.mean(axis=0) - expected).max() > 2.0**-20
    for name in study.names:
        again = replay(input_noise.party(table.seat(name), study, data[name]), table.journal(name))
        assert again.result == results[name]


def test_training_is_over_before_anybody_joins_and_the_debit_is_what_is_proved() -> None:
    study = _checked(_study(section='alpha = 0.5\nnoise = "l2"\nonce = false\nepochs = 4'))
    _, table = _run(study, make_data(study, (10, 20, 30)))
    kinds = [type(entry.effect).__name__ for entry in table.journal("p1")]
    assert kinds[:5] == ["Stage", "Once", "Once", "Once", "Join"]
    assert [stage for who, stage in table.stages if who == "p1"] == list(INPUT_NOISE.stages)
    ((_, debit),) = [release for release in table.releases if release[0] == "p1"]
    assert debit.epsilon == pytest.approx(4 * 0.5, rel=1e-6)
    assert debit.delta < 2.0**-50
    assert says(debit.label, "labels_not_covered")


def test_charlie_receives_nothing_but_the_lead_s_key_and_one_contribution_of_each() -> None:
    study = _checked(_study())
    _, table = _run(study, make_data(study, (10, 20, 30)))
    kinds = [(p.source, p.type) for p in table.passed if p.to == CHARLIE]
    assert sorted(kinds) == sorted(
        [
            ("p0", "SumKey"),
            ("p0", "RoundSum"),
            ("p0", "OpeningProof"),
            *((name, "Contribution") for name in study.names),
        ]
    )


def test_what_is_too_large_for_a_slot_is_scaled_and_what_is_no_number_dropped() -> None:
    w = np.array([2.0**33, -(2.0**40), 1.0])
    assert input_noise._on_the_grid(w) == tuple(round(v * 2**28) for v in (w * 2.0**-8).tolist())
    assert input_noise._on_the_grid(np.array([1.0, np.nan])) == (0, 0)
    slots = as_packing(public.layout(study := _study(K=3)))
    most = study.max_records * (1 << 60)
    assert slots.unpack(slots.pack([most] * 5), 1 << 511) == (most,) * 5
    assert 3 * most <= slots.bound


def test_a_sum_of_sizes_that_cannot_be_ends_the_run() -> None:
    with raises(RunFailed, "impossible_count"):
        input_noise._average((0, 0, 29), _study(K=3))
    assert input_noise._average((30 << 28, 0, 30), _study(K=3)).weights == (1.0, 0.0)


@pytest.mark.parametrize(
    ("raw", "why"),
    [(b"\0" * 24, ("bytes_of_classifier", ..., 24, 32)), (b"\xff" * 32, ("weight_sent_not_finite", ...))],
)
def test_a_lone_partys_bytes_are_looked_at(raw: bytes, why: tuple[Any, ...]) -> None:
    with raises(ProtocolViolation, *why):
        input_noise._own(input_noise.OwnClassifier(weights=raw), 4, "p0")


@pytest.mark.parametrize("K", [1, 3])
def test_it_runs_at_the_in_memory_table_by_name(K: int) -> None:
    study = _study(K, 3, INPUT_NOISE.section)
    data = make_data(study, [200] * K)
    done = simulate(study, data, seed=3, test=data["p0"])
    assert done.result["metrics"]["test_error"] < 0.5
    assert [row["view"] for row in done.result["statement"]][:2] == ["released model", "Charlie"]
    assert done.model.weights == simulate(study, data, seed=3).model.weights != simulate(study, data).model.weights


def test_with_little_noise_it_learns() -> None:
    study = _study(2, 3, "alpha = 100.0\nepochs = 10\nlearning_rate = 0.5", Lambda=0.001)
    data = make_data(study, (300, 300))
    assert simulate(study, data, seed=1, test=data["p0"]).result["metrics"]["test_error"] < 0.2


# --- Studies that cannot be --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ("", "[protocol] alpha is missing"),
        ("alpha = 0.0", "[protocol] alpha is 0.0, but must be greater than 0"),
        ("alpha = -1.0", "[protocol] alpha is -1.0, but must be greater than 0"),
        ("alpha = 1e-30", "leaves nothing to learn from"),
        ('alpha = 1.0\nnoise = "half-line"', '[protocol] noise is "half-line", but must be "gaussian" or "l2"'),
        ('alpha = 1.0\nlabels = "randomised-response"', "[protocol] epsilon_y is missing"),
        ("alpha = 1.0\nepsilon_y = 1.0", "[protocol] epsilon_y is 1, but labels are used as they are"),
        (
            'alpha = 1.0\nlabels = "randomised-response"\nepsilon_y = 0.0',
            "[protocol] epsilon_y is 0.0, but must be greater than 0",
        ),
        ("alpha = 1.0\nepochs = 0", "[protocol] epochs is 0, but must be at least 1"),
        ("alpha = 1.0\nbatch = 0", "[protocol] batch is 0, but must be at least 1"),
        ("alpha = 1.0\nlearning_rate = 10.0", "their product must be less than 1"),
        ("alpha = 1.0\nsteps = 5", "unknown key 'steps'"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(section: str, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        _checked(_study(section=section))
    assert sentence in caught.value.message


def test_gaussian_noise_needs_a_delta_and_l2_noise_none() -> None:
    with raises(BadInput, "delta_not_in_range", 0):
        _checked(_study(delta=0.0))
    _checked(_study(delta=0.0, section='alpha = 1.0\nnoise = "l2"'))


# --- What is proved -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "gaussian", "l2"),
    [
        (0.01, (0.059, 0.207, 2.59), (0.01, 0.1, 10)),
        (0.1, (0.726, 2.59, 46.2), (0.1, 1, 100)),
        (1, (10.0, 46.2, 2269), (1, 10, 1000)),
    ],
)
def test_epsilon_grows_with_the_number_of_accesses(
    alpha: float, gaussian: tuple[float, ...], l2: tuple[float, ...]
) -> None:
    for m, of_gaussian, of_l2 in zip((1, 10, 1000), gaussian, l2, strict=True):
        found = copies_epsilon(law="gaussian", alpha=alpha, copies=m, delta=1e-5)
        assert found == pytest.approx(of_gaussian, rel=0.01)
        mu = 2 * alpha * math.sqrt(m)
        norm = stats.norm
        exact = norm.cdf(-found / mu + mu / 2) - math.exp(found + norm.logcdf(-found / mu - mu / 2))
        assert exact == pytest.approx(1e-5, rel=1e-6)
        assert copies_epsilon(law="l2", alpha=alpha, copies=m) == pytest.approx(of_l2)


@pytest.mark.parametrize("law", _Laws)
def test_the_largest_alpha_for_an_epsilon_costs_that_epsilon(law: str) -> None:
    alpha = largest_alpha(law=law, epsilon=0.7, delta=1e-5, copies=9)
    assert copies_epsilon(law=law, alpha=alpha, copies=9, delta=1e-5) == pytest.approx(0.7, rel=1e-9)


def test_the_l2_density_ratio_reaches_alpha_and_no_more() -> None:
    """The likelihood ratio of two records at distance 2, at points along their line and off it."""
    made = np.random.default_rng(0)
    points = made.normal(size=(2000, 3)) * 3
    points[0] = 50, 0, 0
    x, other = np.array([1.0, 0, 0]), np.array([-1.0, 0, 0])
    ratio = 0.3 / 2 * (np.linalg.norm(points - other, axis=1) - np.linalg.norm(points - x, axis=1))
    assert ratio.max() <= 0.3 + 1e-12
    assert ratio[0] == pytest.approx(copies_epsilon(law="l2", alpha=0.3, copies=1))


def _statement(section: str, K: int = 3, **kw: Any) -> Any:
    return INPUT_NOISE.statement(_checked(_study(K, section=section, delta=1e-5, **kw)))


def test_labels_as_they_are_leave_the_record_unproved_and_its_features_proved() -> None:
    whole, *views, party = _statement("alpha = 0.1")
    assert (whole.provable, whole.epsilon) == ("none", None)
    assert {row.epsilon for row in views} == {views[0].epsilon}
    assert views[0].epsilon == pytest.approx(0.7255, abs=1e-3)
    assert all("features" in row.neighbours for row in views)
    assert [row.view for row in views] == ["released model", "Charlie", "one party", "Charlie with 2 parties"]
    assert party.unit == "party"


def test_randomised_labels_add_their_epsilon_and_accesses_count_unless_copies_are_kept() -> None:
    labels = 'labels = "randomised-response"\nepsilon_y = 0.25\nepochs = 10'
    kept = _statement(f'alpha = 0.1\nnoise = "l2"\n{labels}')[0]
    fresh = _statement(f'alpha = 0.1\nnoise = "l2"\nonce = false\n{labels}')[0]
    assert (kept.epsilon, fresh.epsilon) == (pytest.approx(0.35), pytest.approx(1.25))
    assert public.cost(_study(section=f'alpha = 0.1\nnoise = "l2"\n{labels}')) == (kept.epsilon, kept.delta)
    assert kept.neighbours == sentence("neighbours_one_record")
    assert says(fresh.text, "target_verdict", ..., sentence("not_proved"))
    assert fresh.holds_at.startswith("epsilon_y = ")


@pytest.mark.parametrize(("law", "alpha"), [("l2", 0.07499), ("gaussian", 0.03383)])
def test_the_alpha_that_a_statement_names_holds_when_it_is_put_into_the_study(law: str, alpha: float) -> None:
    """It is rounded down from what the law allows: two records on the grid are a little more than 2 apart."""
    labels = f'noise = "{law}"\nonce = false\n{_LABELS}epsilon_y = 0.25\nepochs = 10'
    row = _statement(f"alpha = 0.1\n{labels}", epsilon=1.0)[0]
    assert says(row.text, "target_verdict", ..., sentence("not_proved"))
    assert row.holds_at == sentence("alpha_holds", "", alpha)
    for chosen, verdict in ((alpha, "target holds"), (alpha + 0.00002, "target is not proved")):
        assert verdict in _statement(f"alpha = {chosen}\n{labels}", epsilon=1.0)[0].text


def test_one_party_has_no_others_to_collude() -> None:
    rows = _statement("alpha = 0.1", K=1)
    assert [row.view for row in rows[1:-1]] == ["released model", "Charlie"]


def test_the_sampler_s_distance_and_the_grid_are_counted() -> None:
    rows = input_noise_statement(
        K=2, d=10_000, law="l2", alpha=1.0, copies=1, epsilon_y=None, eps=1.0, delta=0.0, fraction_bits=10
    )
    assert rows[1].epsilon == pytest.approx(1 + 100 * 2.0**-11)
    assert rows[1].delta == pytest.approx(2.0**-60 * (1 + math.exp(1 + 100 * 2.0**-11)))


# --- Proven: alpha follows from the privacy target ----------------------------------------------------


def _proven(section: str = "", **kw: Any) -> Study:
    section = section or 'labels = "randomised-response"\nepsilon_y = 0.3'
    target = {"epsilon": 1.0, "delta": 1e-5, **kw}
    text = _study(section=section, **target).to_toml()
    assert text.count('calibration = "paper"') == 1
    return Study.parse(text.replace('calibration = "paper"', 'calibration = "proven"'), in_memory=True)


_LABELS = 'labels = "randomised-response"\n'


def _together(mu: float, epsilon_y: float, epsilon: float) -> float:
    """The exact delta of Gaussian noise and a randomised label, from scipy's normal."""
    p, norm = math.exp(epsilon_y) / (1 + math.exp(epsilon_y)), stats.norm

    def gaussian(e: float) -> float:
        return float(norm.sf(e / mu - mu / 2) - math.exp(e) * norm.sf(e / mu + mu / 2))

    return p * gaussian(epsilon - epsilon_y) + (1 - p) * gaussian(epsilon + epsilon_y)


@pytest.mark.parametrize(("epsilon", "delta", "epsilon_y", "d"), [(1.0, 1e-5, 0.3, 10), (0.2, 0.05, 0.1, 123)])
def test_a_proven_alpha_keeps_the_privacy_target_and_hardly_more(
    epsilon: float, delta: float, epsilon_y: float, d: int
) -> None:
    """Against scipy's normal and the ratio of densities, with two records at opposite ends of the ball."""
    target = {"epsilon": epsilon, "delta": delta, "d": d}
    study = _checked(_proven(f"{_LABELS}epsilon_y = {epsilon_y}", **target))
    s = 2 + math.sqrt(d) * 2.0**-28
    lost = _together(s * public.alpha_of(study), epsilon_y, epsilon)
    assert lost + (1 + math.exp(epsilon)) * 2.0**-60 <= delta
    assert lost == pytest.approx(delta, rel=1e-5)
    pure = _checked(_proven(f'{_LABELS}epsilon_y = {epsilon_y}\nnoise = "l2"', **target))
    assert 1 - 1e-6 < public.alpha_of(pure) * s / 2 / (epsilon - epsilon_y) <= 1


def test_a_label_and_its_features_keep_the_privacy_target_together() -> None:
    """The exact delta of a record that changes in both, from scipy, is all of the target's delta."""
    study = _checked(_proven())
    mu = (2 + math.sqrt(study.d) * 2.0**-28) * public.alpha_of(study)
    assert _together(mu, 0.3, 1) == pytest.approx(1e-5, rel=1e-5)
    # The test can fail: adding both costs up leaves nearly half of delta, and features that have all of epsilon break
    # the target.
    assert _together(mu_of(0.7, 1e-5), 0.3, 1) < 0.6e-5
    assert _together(mu_of(1.0, 1e-5), 0.3, 1) > 1e-5


def test_a_proven_study_draws_noise_with_the_derived_alpha(monkeypatch: pytest.MonkeyPatch) -> None:
    study = _checked(_proven())
    sigmas = []

    def noted(_rng: Rng, sigma: Fraction, d: int, _unit: Fraction) -> list[int]:
        sigmas.append(float(sigma))
        return [0] * d

    monkeypatch.setattr(learning, "gaussian", noted)
    input_noise.train(_rng(), study, make_data(study, (5, 5, 5))["p0"])
    assert sigmas == pytest.approx([1 / public.alpha_of(study)] * 5)
    assert sigmas[0] > 2 / 0.2681  # mu of (1, 1e-5); the label took a part


@pytest.mark.parametrize(
    ("section", "target", "sentence"),
    [
        (f"alpha = 1.0\n{_LABELS}epsilon_y = 0.3", {}, "alpha is 1, but with calibration"),
        (f"once = false\n{_LABELS}epsilon_y = 0.3", {}, "new noise at every use would cost privacy again"),
        ("epochs = 2", {}, "nothing can be proved of a label without noise"),
        (f"{_LABELS}epsilon_y = 1.0", {}, "left for a record's features"),
        (f'noise = "l2"\n{_LABELS}epsilon_y = 0.3', {"delta": 0.0}, "use up a delta of 3.2e-18"),
        (f"{_LABELS}epsilon_y = 0.3", {"epsilon": 40.0}, "small errors of the noise alone use up a delta of 0.2"),
        (f"{_LABELS}epsilon_y = 1e-30", {"epsilon": 2e-30, "delta": 1e-25}, "small errors of the noise alone use up"),
        (
            f'noise = "l2"\n{_LABELS}epsilon_y = 1e-30',
            {"epsilon": 2e-30, "delta": 1e-16},
            "choose a larger epsilon or delta",
        ),
    ],
)
def test_what_no_alpha_covers_is_refused_with_the_reason(section: str, target: dict[str, float], sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        _checked(_proven(section, **target))
    assert sentence in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("law", _Laws)
@pytest.mark.parametrize("K", [1, 3])
def test_a_proven_statement_is_the_privacy_target_in_every_view(law: str, K: int) -> None:
    study = _checked(_proven(f'noise = "{law}"\n{_LABELS}epsilon_y = 0.3', K=K))
    *views, party = INPUT_NOISE.statement(study)
    assert len(views) == (4 if K > 1 else 2)
    for row in views:
        found = (row.epsilon, row.neighbours, row.holds_at)
        assert found == (1.0, sentence("neighbours_one_record"), "this noise")
        assert row.delta == (1e-5 if law == "gaussian" else pytest.approx(2.0**-60 * (1 + math.e)))
    assert says(views[0].text, "target_verdict", ..., "holds")
    features = "0.7" if law == "l2" else "0.7284"  # which alone would be allowed 0.7, were the costs added up
    assert says(views[0].text, "features_cost", features, f" {sentence('label_cost', '0.3', 1)}")
    assert party.unit == "party"
    assert public.cost(study) == (views[0].epsilon, views[0].delta)
    cost = " ".join(INPUT_NOISE.explain(study).cost)
    assert says(cost, "odds_change", ..., "e^epsilon = 2.719", 1, ..., ...)
    assert says(cost, "label_included")
    assert says(cost, "label_alone", "0.3")


def test_a_new_proven_study_has_no_alpha() -> None:
    _checked(_proven(entry_named("input-noise").section_for("proven")))
    assert "alpha = " in entry_named("input-noise").section_for("paper")
    assert entry_named("input-noise").section_for("proven") == entry_named("input-noise").section_for()


@pytest.mark.parametrize("section", ["alpha = 0.5\nonce = false\nepochs = 7", INPUT_NOISE.section])
@pytest.mark.parametrize("K", [1, 3])
def test_it_is_explained_in_words(section: str, K: int) -> None:
    study = _checked(_study(K, section=section))
    words = INPUT_NOISE.explain(study)
    text = " ".join((*words.leaves, *words.collusion, *words.cost))
    assert ("7 times" in text) == ("false" in section and "epochs = 7" in section)
    assert (says(text, "labels_unproved")) == ("randomised" not in section)
    assert ("encrypted" in text) == (K > 1)
    assert f"epsilon = {public.cost(study)[0]:.4g}" in text


def test_a_new_study_has_the_corrections() -> None:
    study = _checked(_study(section=INPUT_NOISE.section))
    chosen = public.Parameters.model_validate(study.protocol)
    assert (chosen.once, chosen.labels, chosen.copies) == (True, "randomised-response", 1)
    assert says(INPUT_NOISE.section, "own_way_of_paper")

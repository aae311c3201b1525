"""dp-gd is descent along clipped gradients, and its noise is all that the proof needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from numpy.typing import NDArray
from scipy import integrate, stats

from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.losses import loss_of
from masquerade_core.model import Model
from masquerade_core.privacy.accounting import delta_of, epsilon_of
from masquerade_core.privacy.closeness import closeness_of_sum
from masquerade_core.privacy.noise.gaussian_rounds import gaussian_share_sigma, rounds_noise, rounds_sigma, sensitivity
from masquerade_core.privacy.samplers.discrete_gaussian import discrete_gaussian
from masquerade_core.rng import Rng
from masquerade_core.seat import Progress, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table, replay
from masquerade_protocols import PROTOCOLS, protocol_of
from masquerade_protocols.blocks import noise_shares
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.dp_gd.noiseless import clean_descent
from masquerade_protocols.in_memory import run_in_memory
from tests.messages import raises, says, sentence
from tests.protocol_helpers import make_data, make_study
from tests.sum_helpers import drawn

F = 1 << dp_gd.FRACTION_BITS

_Array = NDArray[np.float64]

UNEVEN = {2: (30, 170), 5: (12, 50, 24, 75, 39)}


_PLAIN = {"rounds": "20", "clip": "0.5", "learning_rate": "4.0"}


def _stated(section: str) -> str:
    """Return a section in which nothing is left to the program: what it does not state is as in ``_PLAIN``."""
    keys = {line.partition(" = ")[0] for line in section.splitlines()}
    return "\n".join([section, *(f"{key} = {value}" for key, value in _PLAIN.items() if key not in keys)])


def _study(K: int = 3, d: int = 4, section: str = "", **kw: Any) -> Study:
    changes = {"delta": 1e-5, "colluders": 0, "loss": "logistic", "calibration": "proven", **kw}
    own = {key: changes.pop(key) for key in ("delta", "colluders", "loss", "calibration")}
    text = make_study(K, d, **changes).to_toml()
    for old, new in (
        ('protocol = "local-aggregation"', 'protocol = "dp-gd"'),
        ("delta = 1e-05", f"delta = {own['delta']}"),
        ("colluders = 0", f"colluders = {own['colluders']}"),
        ('calibration = "paper"', f'calibration = "{own["calibration"]}"'),
        ('loss = "logistic"', f'loss = "{own["loss"]}"'),
        ('noise = "laplace"', _stated(section)),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return Study.parse(text, in_memory=True)


@dataclass(frozen=True)
class Run:
    """One run at the table."""

    study: Study
    table: Table
    results: Mapping[str, Model]

    @property
    def w(self) -> _Array:
        return np.array(self.results[CHARLIE].weights)


def _run(study: Study, data: Mapping[str, Dataset], rngs: Mapping[str, Rng] | None = None) -> Run:
    table = Table(study.names, rngs)
    return Run(study, table, run_in_memory(dp_gd, study, data, table=table))


def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_shares, "discrete_gaussian", lambda _rng, _sigma, size: [0] * size)


# --- The same in the clear, written down a second time ----------------------------------------------


def _slope(loss: str, m: float) -> float:
    if loss == "logistic":
        return -1 / (1 + math.exp(m))
    if loss == "sigmoid":
        return -math.exp(m) / (1 + math.exp(m)) ** 2
    h, v = 0.5, 1 - m
    return -1.0 if v > h else 0.0 if v < -h else v**3 / (4 * h**3) - 3 * v / (4 * h) - 0.5


def _in_the_clear(
    study: Study,
    data: Mapping[str, Dataset],
    T: int = 20,
    C: float = 0.5,
    eta: float = 4.0,
    noise: Sequence[_Array] | None = None,
) -> _Array:
    """Record by record: clip, add up, step."""
    w = np.zeros(study.d)
    N = sum(len(part.y) for part in data.values())
    for t in range(T):
        total = np.zeros(study.d) if noise is None else noise[t].copy()
        for part in data.values():
            for x, y in zip(part.X, part.y, strict=True):
                g = _slope(study.model.loss, float(y * (w @ x))) * y * x
                length = math.sqrt(float(g @ g))
                total += g if length <= C else g * (C / length)
        w = w - eta * (total / N + study.model.regularization * w)
    return w


# --- Right -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize(
    ("loss", "section", "T", "C", "eta"),
    [
        ("logistic", "", 20, 0.5, 4.0),
        ("logistic", "rounds = 10\nclip = 0.25", 10, 0.25, 4.0),
        ("logistic", "rounds = 3\nclip = 0.01\nlearning_rate = 6.0", 3, 0.01, 6.0),
        ("logistic", "rounds = 5\nclip = 1.0\nlearning_rate = 2.0", 5, 1.0, 2.0),
        ("smoothed-hinge", "rounds = 12\nlearning_rate = 1.0", 12, 0.5, 1.0),
        ("sigmoid", "rounds = 7\nclip = 0.2", 7, 0.2, 4.0),
    ],
)
def test_without_noise_it_is_descent_along_clipped_gradients(
    K: int, loss: str, section: str, T: int, C: float, eta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    _quiet(monkeypatch)
    study = _study(K, 6, section, loss=loss)
    protocol_of(study)
    data = make_data(study, UNEVEN[K])
    r = _run(study, data)
    clear = partial(_in_the_clear, study, data, eta=eta)
    np.testing.assert_allclose(r.w, clear(T, C), rtol=0, atol=1e-6)
    assert len({model.weights for model in r.results.values()}) == 1
    np.testing.assert_allclose(clean_descent(study, data), r.w, rtol=0, atol=1e-6)
    # The test can fail: a round less, another clip.
    assert np.abs(clear(T - 1, C) - r.w).max() > 1e-5
    if C < 1:
        assert np.abs(clear(T, 0.9 * C) - r.w).max() > 1e-4


def test_clipping_sums_and_clipping_records_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake to exclude: the sum of all gradients, cut to N C, is hardly ever cut."""
    _quiet(monkeypatch)
    study = _study(2, 5, "rounds = 10\nclip = 0.25")
    data = make_data(study, (40, 60))
    assert np.abs(_in_the_clear(study, data, T=10, C=1.0) - _run(study, data).w).max() > 0.1


def test_with_noise_it_is_the_descent_with_the_noise_that_was_drawn() -> None:
    study = _study(3, 5, "rounds = 6")
    data = make_data(study, (40, 60, 100))
    r = _run(study, data)
    shares = [np.array(drawn(r.table, name, "noise"), dtype=np.float64) / F for name in study.names]
    assert [x.shape for x in shares] == [(6, 5)] * 3
    total = list(np.sum(shares, axis=0))
    np.testing.assert_allclose(r.w, _in_the_clear(study, data, 6, noise=total), rtol=0, atol=1e-6)
    without_one = list(np.sum(shares[1:], axis=0))
    assert np.abs(r.w - _in_the_clear(study, data, 6, noise=without_one)).max() > 1e-3


def test_it_repeats_to_the_byte_and_charlie_shows_every_iterate() -> None:
    study = _study(2, 3, "rounds = 4")
    data = make_data(study, (30, 50))
    r = _run(study, data)
    for name in study.names:
        replay(dp_gd.party(r.table.seat(name), study, data[name]), r.table.journal(name))
    seen = [e.effect for e in r.table.journal(CHARLIE) if isinstance(e.effect, Progress)]
    assert [(p.done, p.total) for p in seen] == [(t, 4) for t in range(1, 5)]
    assert seen[-1].iterate == r.results[CHARLIE].weights


def test_the_form_of_the_traffic_depends_on_public_numbers() -> None:
    study = _study(3, 4, "rounds = 3")
    shapes = []
    for sizes in ((40, 60, 100), (198, 1, 1)):
        records = make_data(study, tuple(max(2, n) for n in sizes))
        data = {name: Dataset(p.X[:n], p.y[:n]) for (name, p), n in zip(records.items(), sizes, strict=True)}
        shapes.append(_shape(study, _run(study, data).table))
    assert shapes[0] == shapes[1]


def _shape(study: Study, table: Table) -> list[tuple[object, ...]]:
    """Who sends what to whom, in which order and how long it is."""
    return [
        (name, e.effect.type, e.effect.to, tuple(map(len, e.effect.bodies)))
        for name in (*study.names, CHARLIE)
        for e in table.journal(name)
        if isinstance(e.effect, Send)
    ]


def test_files_that_differ_in_every_cell_give_traffic_of_one_form(tmp_path: Path) -> None:
    """So who varies the bounds of studies cannot read off a party's joining what its cells hold."""
    study = _study(3, 4, "rounds = 3")
    text = study.to_toml().replace('out_of_bounds = "refuse"', 'out_of_bounds = "clamp"')
    study = Study.parse(text, in_memory=True)
    assert study.study.out_of_bounds == "clamp"
    header = [*(f.name for f in study.features), study.label.name]
    shapes = []
    for cells in (["0.25"] * len(study.features), ["high", "1e9", "", "2024-01-31", "-"][: len(study.features)]):
        for label in (str(study.label.positive), "never seen"):
            lines = [",".join(header), *[",".join([*cells, label])] * 60]
            (path := tmp_path / "records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
            table = _run(study, dict.fromkeys(study.names, load_csv(path, study))).table
            shapes.append(_shape(study, table))
    assert all(shape == shapes[0] for shape in shapes)


# --- One record moves a sum by Delta at most -------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge", "sigmoid"])
@pytest.mark.parametrize("C", [Fraction(1, 4), Fraction(1, 10_000), Fraction(1)])
def test_no_record_is_longer_than_half_of_delta_and_some_come_close(loss: str, C: Fraction) -> None:
    d = 7
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, d))
    X *= rng.choice([1.0, 0.7, 0.25, 1e-3, 1e-170], size=(300, 1)) / (np.linalg.norm(X, axis=1, keepdims=True) + 1e-15)
    y = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    Delta = sensitivity(C, d, dp_gd.FRACTION_BITS)
    longest = 0
    for w in (rng.normal(size=d) / 10, 100 * rng.normal(size=d)):
        for i in range(len(y)):
            z = dp_gd.clipped_sum(Dataset(X[i : i + 1], y[i : i + 1]), w, loss_of(loss), C)
            longest = max(longest, 4 * sum(v * v for v in z))
    assert longest <= Delta**2
    if loss_of(loss).L >= C and (loss, C) != ("sigmoid", Fraction(1, 4)):
        assert longest > (Fraction(999, 1000) * Delta) ** 2
    assert Delta > 2 * C * F + Fraction(math.isqrt(d * 10**12), 10**6)


def test_a_sum_of_many_blocks_is_the_sum_of_all() -> None:
    rng = np.random.default_rng(6)
    X, y = rng.uniform(-0.5, 0.5, size=(9_001, 3)), np.where(rng.random(9_001) < 0.5, 1.0, -1.0)
    both = [dp_gd.clipped_sum(Dataset(X[p], y[p]), np.ones(3), loss_of("logistic"), Fraction(1, 4))
            for p in (slice(0, 5_000), slice(5_000, None), slice(None))]  # fmt: skip
    assert (both[0] + both[1]).tolist() == both[2].tolist()


# --- How much noise --------------------------------------------------------------------------------

GATE = {0.1: 7.095, 0.2: 5.260, 1.0: 2.107}
"""2 C sqrt(T)/mu for C = .25, T = 10, delta = .05."""


@pytest.mark.parametrize("epsilon", GATE)
def test_the_noise_on_a_sum_has_the_sd_of_two_clipped_gradients(epsilon: float) -> None:
    study = _study(5, 10, "rounds = 10\nclip = 0.25", epsilon=epsilon, delta=0.05)
    sd = float(dp_gd.noise_of(study).sigma) / F
    assert sd == pytest.approx(GATE[epsilon], abs=5e-4)
    slip = rounds_noise(
        clip=Fraction(1, 8), d=10, rounds=10, epsilon=epsilon, delta=0.05, honest=5, fraction_bits=28
    )  # the sensitivity of adding or removing a record, C for 2 C
    assert float(slip.sigma) / F != pytest.approx(GATE[epsilon], abs=0.4 * GATE[epsilon])


def test_the_slip_of_c_for_2c_costs_what_the_curve_says() -> None:
    """A run that takes C for 2 C has half of the noise, and so twice the mu."""
    for epsilon, true in ((0.1, 0.42), (0.2, 0.70), (1.0, 2.93)):
        noise = dp_gd.noise_of(_study(5, 10, epsilon=epsilon, delta=0.05))
        assert epsilon_of(2 * noise.mu(5), 0.05) == pytest.approx(true, abs=0.02)


@pytest.mark.parametrize(
    ("epsilon", "delta", "T"), [(0.1, 0.05, 10), (1.0, 0.05, 10), (1.0, 1e-5, 10), (0.5, 1e-6, 40)]
)
def test_the_accountant_agrees_with_an_independent_one(epsilon: float, delta: float, T: int) -> None:
    noise = rounds_noise(clip=Fraction(1, 4), d=10, rounds=T, epsilon=epsilon, delta=delta, honest=3, fraction_bits=28)
    # The multiplier is that of replace-one, stated as 2 C; the relation of the oracle is therefore its own default.
    event = GaussianDpEvent(noise_multiplier=float(noise.sigma / noise.Delta))
    oracle = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=4e-5)
    oracle.compose(SelfComposedDpEvent(event, T))
    assert oracle.get_epsilon(delta) == pytest.approx(epsilon, abs=1e-4)
    # And with a quadrature: delta = E max(0, 1 - exp(epsilon - L)), L ~ N(mu^2/2, mu^2).
    mu = float(noise.Delta / noise.sigma) * math.sqrt(T)
    law = stats.norm(mu * mu / 2, mu)
    value, _ = integrate.quad(lambda x: law.pdf(x) * -math.expm1(epsilon - x), epsilon, epsilon + 12 * mu, epsabs=1e-14)
    assert value == pytest.approx(delta, rel=1e-4)


def test_no_more_noise_than_the_loss_s_longest_gradient_needs() -> None:
    """The sigmoid's slope is at most 1/4. A longer clip cuts nothing, and costs no noise."""
    long, short = (_study(loss="sigmoid", section=f"clip = {C}") for C in (1.0, 0.25))
    assert dp_gd.noise_of(long) == dp_gd.noise_of(short)


def test_sigma_is_the_smallest_that_will_do() -> None:
    Delta = sensitivity(Fraction(1, 4), 10, 28)
    for epsilon, delta in ((0.1, 0.05), (1.0, 1e-5), (3.0, 1e-9), (40.0, 1e-6)):
        sigma = rounds_sigma(Delta, 10, epsilon, delta)
        mu = float(Delta / sigma) * math.sqrt(10)
        assert delta_of(mu, epsilon) <= delta * (1 + 1e-9)
        assert delta_of(mu * (1 + 1e-6), epsilon) > delta
        assert rounds_sigma(2 * Delta, 10, epsilon, delta) == pytest.approx(2 * sigma)
        assert float(rounds_sigma(Delta, 40, epsilon, delta)) == pytest.approx(2 * float(sigma))


@pytest.mark.parametrize("t", range(5))
def test_any_honest_parties_have_enough_noise(t: int) -> None:
    noise, alone = (dp_gd.noise_of(_study(5, 10, colluders=c)) for c in (t, 4))
    assert noise.sigma == alone.sigma
    assert (5 - t) * noise.share**2 >= noise.sigma**2
    assert float(noise.share) == pytest.approx(float(alone.share) / math.sqrt(5 - t), rel=1e-9)
    assert epsilon_of(noise.mu(5 - t), 1e-5) == pytest.approx(1.0, abs=1e-6)


def _opened_noise(study: Study, monkeypatch: pytest.MonkeyPatch, times: float = 1.0) -> _Array:
    """Return all opened sums where gradients are 0: nothing but noise, in units of 1."""
    opened: list[tuple[int, ...]] = []
    open_sum = ss.PaillierPartySums.open_sum

    async def watched(self: ss.PaillierPartySums, *args: Any) -> Any:
        sums = await open_sum(self, *args)
        if self.seat.me == self.study.lead:
            opened.append(sums)
        return sums

    def scaled(rng: Rng, sigma: Fraction, size: int) -> list[int]:
        return discrete_gaussian(rng, sigma * Fraction(times), size)

    with monkeypatch.context() as patch:
        patch.setattr(ss.PaillierPartySums, "open_sum", watched)
        patch.setattr(noise_shares, "discrete_gaussian", scaled)
        patch.setattr(dp_gd.Descent, "gradient", lambda _self, _data: np.zeros(study.d, dtype=np.int64))
        rngs = {name: SimulationRng(7, name) for name in (*study.names, CHARLIE)}
        _run(study, make_data(study, (10,) * study.K), rngs)
    return np.array(opened[1:], dtype=np.float64) / F


def _sd_accepted(noise: _Array, sd: float) -> bool:
    """Whether chi-square allows the sum of squares; it refuses a right one with a chance of 2e-6."""
    law = stats.chi2(noise.size)
    return 1e-6 < float(law.cdf((noise**2).sum() / sd**2)) < 1 - 1e-6


@pytest.mark.parametrize("t", [0, 3])
def test_the_opened_sum_s_noise_has_the_law_that_the_proof_asks_for(t: int, monkeypatch: pytest.MonkeyPatch) -> None:
    study = _study(4, 60, "rounds = 10\nclip = 0.25", epsilon=0.2, delta=0.05, colluders=t, bits=1024)
    wanted = GATE[0.2] * math.sqrt(4 / (4 - t))  # 4 shares, of which 4 - t are enough
    noise = _opened_noise(study, monkeypatch)
    assert noise.shape == (10, 60)
    assert _sd_accepted(noise, wanted)
    assert stats.kstest(noise.ravel() / wanted, "norm").pvalue > 1e-6
    lag = np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]
    assert abs(lag) < 5 / math.sqrt(540)  # new in every round
    # The test can fail: the wrong clip sensitivity, and 30 % more or less.
    for off in (0.5, 0.7, 1.3):
        assert not _sd_accepted(off * noise, wanted)
    if t == 0:
        assert not _sd_accepted(_opened_noise(study, monkeypatch, 0.7), wanted)


# --- The sum of shares against the continuous curve: what the proof says of the law ------------------


def _sum_law(share: float, h: int, reach: int) -> dict[int, float]:
    """The distribution of the sum of h discrete Gaussians, by convolution."""
    x = np.arange(-reach, reach + 1)
    one = np.exp(-(x**2) / (2 * share**2))
    one /= one.sum()
    law = one
    for _ in range(h - 1):
        law = np.convolve(law, one)
    return dict(zip(range(-h * reach, h * reach + 1), law.tolist(), strict=True))


@pytest.mark.parametrize("h", [1, 3])
@pytest.mark.parametrize("shift", [(1,), (3,), (9,), (1, 1), (2, 0), (3, -2)])
def test_a_sum_of_discrete_shares_is_within_the_continuous_curve(h: int, shift: tuple[int, ...]) -> None:
    """On a coarse grid, where a difference would show: the exact delta, summed up, in one and two dimensions."""
    share = gaussian_share_sigma(Fraction(5), h)
    law = _sum_law(float(share), h, math.ceil(9 * float(share)))
    size = len(shift)
    Delta = math.sqrt(sum(v * v for v in shift))
    points = [k for k in law if abs(k) <= 60] if size > 1 else list(law)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        exact = 0.0
        for k in product(points, repeat=size):
            p = math.prod(law[i] for i in k)
            q = math.prod(law.get(i - v, 0.0) for i, v in zip(k, shift, strict=True))
            exact += max(0.0, p - math.exp(epsilon) * q)
        proved = delta_of(Delta / 5, epsilon) + (1 + math.exp(epsilon)) * closeness_of_sum(share, h, size)
        assert exact <= proved


def test_without_the_margin_a_coarse_grid_breaks_the_curve() -> None:
    """The curve of a normal proves nothing of a discrete Gaussian of the same sigma: its delta can be larger."""
    law = _sum_law(2.0, 1, 40)
    worst = 0.0
    for epsilon in np.linspace(0, 2, 81):
        exact = sum(max(0.0, p - math.exp(epsilon) * law.get(k - 1, 0.0)) for k, p in law.items())
        worst = max(worst, exact / delta_of(0.5, float(epsilon)))
    assert worst > 1.01


# --- What cannot be met, and what is said -----------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delta": 0}, ("delta_not_in_range", 0)),
        ({"delta": 1e-40}, ("delta_used_up", "1e-40", ...)),
        ({"epsilon": 100.0}, ("epsilon_uses_up_delta", 100, "1e-05", ...)),
        ({"epsilon": 1e9}, ("epsilon_uses_up_delta", "1e+09", "1e-05", ...)),
        ({"calibration": "paper"}, ("no_such_calibration", "'paper'", "dp-gd")),
        ({"section": "rounds = 0"}, ("key_out_of_range", "[protocol] rounds", 0, "at least", 1)),
        ({"section": "clip = 0.0"}, ("key_out_of_range", "[protocol] clip", "0.0", "at least", "0.0001")),
        ({"section": "clip = 1.5"}, ("key_out_of_range", "[protocol] clip", "1.5", "at most", 1)),
        (
            {"section": "learning_rate = -1.0"},
            ("key_out_of_range", "[protocol] learning_rate", "-1.0", "greater than", 0),
        ),
        ({"section": "noise = 3"}, ("unknown_key", "[protocol]", "noise", ...)),
        ({"section": "learning_rate = 8.0"}, ("steps_diverge", 8, "6.667")),
        ({"epsilon": 1e-20, "delta": 1e-30}, ("noise_too_large", ..., ...)),
    ],
)
def test_a_privacy_target_that_cannot_be_met_is_refused(changes: dict[str, Any], words: tuple[Any, ...]) -> None:
    study = _study(**changes)
    with raises(BadInput, *words) as caught:
        protocol_of(study)
    assert caught.value.hint or "[protocol]" in caught.value.message


@pytest.mark.parametrize(
    ("epsilon", "delta", "message", "hint"),
    [
        (
            1.0,
            1e-40,
            (
                "[privacy] delta is 1e-40, but small errors of the noise use up a delta of 2.4e-38 or less, whatever "
                "epsilon is"
            ),
            "choose a larger delta, which is still less than 1 divided by the number of all records",
        ),
        (
            10_000.0,
            1e-6,
            (
                "[privacy] epsilon is 10000, but with delta = 1e-06 it can be at most 74.2: beyond that, small errors "
                "of the noise use up all of delta"
            ),
            "choose an epsilon of 74.2 or less",
        ),
        (
            1e-20,
            1e-30,
            (
                "[privacy] epsilon is 1e-20 and delta is 1e-30, but the noise that they need is larger than any "
                "encrypted number"
            ),
            "choose a larger epsilon or a larger delta",
        ),
    ],
)
def test_a_refused_privacy_target_says_what_is_allowed(epsilon: float, delta: float, message: str, hint: str) -> None:
    with pytest.raises(BadInput) as caught:
        protocol_of(_study(epsilon=epsilon, delta=delta))
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize("delta", [1e-36, 1e-30, 1e-6, 0.3])
def test_the_epsilon_that_a_refusal_names_is_accepted_and_hardly_more(delta: float) -> None:
    with pytest.raises(BadInput) as caught:
        rounds_sigma(Fraction(1), 1, 10_000.0, delta)
    named = float(str(caught.value.hint).removeprefix("choose an epsilon of ").removesuffix(" or less"))
    assert rounds_sigma(Fraction(1), 1, named, delta) > 0
    with raises(BadInput, "epsilon_uses_up_delta", ..., ..., ...):
        rounds_sigma(Fraction(1), 1, named + 0.2, delta)


def test_one_party_alone_is_refused() -> None:
    study = _study(2)
    alone = study.model_copy(update={"parties": study.parties[:1]})
    with raises(BadInput, "one_party_alone", "dp-gd"):
        protocol_of(alone)


def test_no_honest_party_and_no_epsilon_are_refused() -> None:
    with raises(BadInput, "nobody_honest", ..., ...):
        _study(3, colluders=3)
    with raises(BadInput, "key_out_of_range", "[privacy] epsilon", "0.0", "greater than", 0):
        _study(3, epsilon=0.0)
    ask = partial(rounds_noise, clip=Fraction(1, 4), d=3, rounds=10, delta=1e-5, fraction_bits=28)
    with raises(BadInput, "noise_of_nobody"):
        ask(epsilon=1.0, honest=0)
    with raises(BadInput, "epsilon_not_positive", 0):
        ask(epsilon=0.0, honest=2)


def test_a_loss_without_one_minimiser_and_no_regularization_will_do() -> None:
    protocol_of(_study(regularization=0.0))
    protocol_of(_study(loss="sigmoid"))


def _epsilons(study: Study) -> dict[str, float | None]:
    return {claim.view: claim.epsilon for claim in PROTOCOLS["dp-gd"].statement(study)[:-1]}


def test_the_statement_counts_the_shares_that_a_view_does_not_know() -> None:
    """Against an independent curve: mu grows as sqrt(h/s)."""

    def curve(mu: float, delta: float) -> float:
        low, high = 0.0, 100.0
        for _ in range(80):
            e = (low + high) / 2
            above = stats.norm.cdf(-e / mu + mu / 2) - math.exp(e) * stats.norm.cdf(-e / mu - mu / 2) > delta
            low, high = (e, high) if above else (low, e)
        return high

    mu = 0.26805  # of epsilon = 1, delta = 1e-5
    none = _epsilons(_study(5, 10))
    assert none == {
        sentence("view_all_iterates"): pytest.approx(1.0),
        "Charlie": pytest.approx(1.0),
        "one party": pytest.approx(curve(mu * math.sqrt(5 / 4), 1e-5), rel=1e-3),
        "Charlie with 1 party": pytest.approx(curve(mu * math.sqrt(5 / 4), 1e-5), rel=1e-3),
        sentence("view_all_but_one"): pytest.approx(curve(mu * math.sqrt(5), 1e-5), rel=1e-3),
        sentence("everybody_and_free_rider"): pytest.approx(curve(mu * math.sqrt(5 / 4), 1e-5), rel=1e-3),
    }
    two = _epsilons(_study(5, 10, colluders=2))
    assert two[sentence("view_all_iterates")] == pytest.approx(curve(mu * math.sqrt(3 / 5), 1e-5), rel=1e-3)
    assert two["one party"] == pytest.approx(curve(mu * math.sqrt(3 / 4), 1e-5), rel=1e-3)
    assert two["Charlie with 2 parties"] == pytest.approx(1.0)
    assert two[sentence("view_of_free_rider", "2 parties")] == pytest.approx(
        curve(mu * math.sqrt(3 / 2), 1e-5), rel=1e-3
    )
    all_but_one = _epsilons(_study(5, 10, colluders=4))
    assert list(all_but_one)[3:] == ["Charlie with 4 parties"]
    assert all_but_one["Charlie with 4 parties"] == pytest.approx(1.0)


def test_a_view_beyond_the_privacy_target_says_what_would_help_and_claims_nothing() -> None:
    rows = {claim.view: claim for claim in PROTOCOLS["dp-gd"].statement(_study(5, 10))}
    assert rows["Charlie"].holds_at == "this noise"
    party = rows["one party"]
    assert party.claimed == f"not promised; proved anyway: {party.provable}"
    assert party.holds_at == sentence("colluders_would_do", 1)
    assert rows[sentence("view_all_but_one")].holds_at == sentence("colluders_would_do", 4)
    text = " ".join(PROTOCOLS["dp-gd"].explain(_study(5, 10)).collusion)
    assert says(text, "set_colluders")


def test_a_delta_that_publishes_a_record_is_flagged() -> None:
    """At K min_records = 50 records, delta = .02 is one of them."""
    for delta, flagged in ((0.05, True), (0.02, True), (0.0199, False), (1e-5, False)):
        study = _study(5, 10, delta=delta)
        assert ("Note delta" in PROTOCOLS["dp-gd"].statement(study)[0].text) == flagged
        assert (says(" ".join(PROTOCOLS["dp-gd"].explain(study).cost), "delta_is_large")) == flagged


def test_the_doctor_counts_its_rounds() -> None:
    few, many = (PROTOCOLS["dp-gd"].cost(_study(section=f"rounds = {T}")).plaintexts - 1 for T in (10, 20))
    assert many == 2 * few

"""Runs that lose parties: what is learned, how much noise is in it, and what is told of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from masquerade_core import evaluation
from masquerade_core.crypto.masks import as_integers
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import ProtocolViolation, RunFailed
from masquerade_core.model import Model
from masquerade_core.privacy.accounting import LEAST_SHARE_SIGMA
from masquerade_core.privacy.noise.gaussian_rounds import charge
from masquerade_core.rng import Rng
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Silence, Table, replay
from masquerade_core.wire.codec import decode
from masquerade_protocols import entry_of, statement_of
from masquerade_protocols.blocks import adaptive_sums
from masquerade_protocols.blocks import masked_sum as messages
from masquerade_protocols.blocks import masked_sum as ms
from masquerade_protocols.blocks.layouts import as_words
from masquerade_protocols.blocks.masked_sum import Outcome
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.dp_gd.schedule import layout, noise_of
from masquerade_protocols.dp_whitened import public
from masquerade_protocols.dp_whitened import roles as dp_whitened
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.summary import public as summary
from tests.dropout_helpers import RetriedSums, losing, losing_study
from tests.evaluation_helpers import held_back_study, measuring
from tests.messages import raises, says, sentence
from tests.protocol_helpers import make_data, make_study
from tests.sum_helpers import drawn, received
from tests.summary_helpers import dealt, summary_study
from tests.whitened_helpers import whitened_study

_Array = NDArray[np.float64]
F = 1 << dp_gd.FRACTION_BITS
PLAIN = "rounds = {}\nclip = 0.5\nlearning_rate = 2.0"


# --- Sums -----------------------------------------------------------------------------------------------


def test_a_sum_is_made_again_without_the_silent_and_all_others_go_on() -> None:
    run = RetriedSums.of(losing_study(), rounds=3)
    run.run(silent={"p1": Silence("Masked", 1), "p4": Silence("Masked", 3)})
    four = ("p0", "p2", "p3", "p4")
    three = ("p0", "p2", "p3")
    expected = [run.added(dict.fromkeys(run.study.names, 0)), run.added(dict.fromkeys(four, 2))]
    # p4 contributed a third time, in the second sum's retry, and falls silent in the third sum.
    expected.append(run.added(dict.fromkeys(three, 4)))
    assert [run.accepted[name] for name in three] == [expected] * 3
    assert run.errors == {}
    assert run.table.now == 2 * 5.0


def test_the_rosters_first_party_may_be_lost_too() -> None:
    """It told everybody kappa, and adds the constant of the check value; the first that is left does that after it."""
    run = RetriedSums.of(losing_study(), rounds=3)
    run.run(silent={"p0": Silence("Masked", 1), "p1": Silence("Masked", 3)})
    expected = [
        run.added(dict.fromkeys(run.study.names, 0)),
        run.added(dict.fromkeys(("p1", "p2", "p3", "p4"), 2)),
        run.added(dict.fromkeys(("p2", "p3", "p4"), 4)),
    ]
    assert [run.accepted[name] for name in ("p2", "p3", "p4")] == [expected] * 3
    assert run.errors == {}


@pytest.mark.parametrize(
    ("silent", "words"),
    [
        (dict.fromkeys(("p0", "p1", "p2"), 0), ("too_few_left", "p0, p1 and p2", "no longer answer", "2 parties", 3)),
        ({"p0": 0, "p1": 1, "p2": 2}, ("retries_used_up", "p2", "no longer answers")),
    ],
)
def test_charlie_ends_a_run_that_too_few_are_left_for(silent: dict[str, int], words: tuple[Any, ...]) -> None:
    with raises(RunFailed, *words):
        RetriedSums.of(losing_study(), rounds=3).run(silent={name: Silence("Masked", n) for name, n in silent.items()})


def test_a_broken_contribution_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """p3's contribution is a byte too short: the run goes on without it, instead of ending."""
    cut = messages.Masked.__init__

    def short(self: messages.Masked, **fields: Any) -> None:
        cut(self, **{**fields, "words": fields["words"][:-1]} if bad else fields)

    bad = False
    run = RetriedSums.of(losing_study())
    party = run.party

    async def broken(seat: Any) -> None:
        nonlocal bad
        role = party(seat)
        answer: Any = None
        try:
            while True:
                bad = seat.me == "p3"
                effect = role.send(answer)
                bad = False
                answer = await effect
        except StopIteration:
            return

    monkeypatch.setattr(messages.Masked, "__init__", short)
    run.party = broken  # type: ignore[method-assign]  # this run's alone
    run.run()
    members = ("p0", "p1", "p2", "p4")
    assert [run.accepted[name] for name in members] == [[run.added(dict.fromkeys(members, 1))]] * 4
    assert says(str(run.errors["p3"]), "goes_on_without")
    assert run.table.now == 0  # nobody had to wait


def test_the_number_of_all_records_is_opened_once() -> None:
    """A party that falls silent before there is noise ends the run: Charlie waits, and asks for nothing again."""
    study = losing_study(section=PLAIN.format(2))
    table = Table(study.names, silent={"p2": Silence("Masked", 0)})
    with raises(RunFailed, "waits_for", "charlie", "'Masked'", "p0, p1, p2, p3 and p4"):
        run_in_memory(dp_gd, study, make_data(study, (20,) * 5), table=table)
    assert not [passed for passed in table.passed if passed.type == "Outcome"]


def test_an_exact_sum_is_not_made_again_whoever_asks() -> None:
    study, errors = losing_study(), {}
    table = Table(study.names)

    async def party(name: str) -> None:
        seat = table.seat(name)
        await seat.join()
        sums = await ms.MaskedPartySums.set_up(seat, study)
        with raises(ProtocolViolation, "no_fresh_noise") as caught:
            await sums.open_sum(RetriedSums.of(study).layout, [1, 2, 3, 4], b"N")
        errors[name] = caught.value.peer

    async def charlie() -> None:
        seat = table.seat(CHARLIE)
        await seat.join()
        await seat.gather(messages.Masked, study.names)
        await seat.broadcast(Outcome(round=0, words=b"", check=b"", receipt=b"", members=study.names))

    table.run({**{name: party(name) for name in study.names}, CHARLIE: charlie()})
    assert errors == dict.fromkeys(study.names, CHARLIE)


# --- 200 rounds of descent, and the same in the clear ----------------------------------------------------------


def _in_the_clear(
    study: Study, data: Mapping[str, Dataset], shares: Mapping[str, Any], T: int, lost: tuple[str, int] | None
) -> _Array:
    """Descend record by record; from the lost party's round on, its records and its noise are not there."""
    w, N, n = np.zeros(study.d), sum(len(part.y) for part in data.values()), 0
    members = list(study.names)
    for t in range(T):
        if lost is not None and t == lost[1]:
            members.remove(lost[0])
            n += 1  # the noise of the sum that did not come about
        total = np.zeros(study.d)
        for name in members:
            part = data[name]
            m = part.y * (part.X @ w)
            gradients = (-part.y / (1 + np.exp(m)))[:, None] * part.X
            length = np.linalg.norm(gradients, axis=1)
            total += (gradients * np.minimum(1, 0.5 / length)[:, None]).sum(axis=0)
            total += np.array(shares[name][n], dtype=float) / F
        n += 1
        w = w - 2.0 * (total / N + study.model.regularization * w)
    return w


@pytest.mark.parametrize(("how", "T"), [("masks", 200), ("paillier", 50), ("a party lost", 50)])
def test_the_rounds_are_the_descent_in_the_clear(how: str, T: int) -> None:
    """What rounding leaves behind shows in many rounds; they are played with masks, which are the quickest."""
    section = PLAIN.format(T)
    study = losing_study("dp-gd", 3, 4, survivors=2, section=section, epsilon=4.0)
    lost = ("p1", 27) if how == "a party lost" else None
    if how != "a party lost":
        study = Study.parse(_without_dropouts(study), in_memory=True)
    if how == "paillier":
        text = _without_dropouts(study).replace('sum = "masks"', 'sum = "paillier"\nkey_bits = 1024')
        study = Study.parse(text.replace("[study]\n", '[study]\nlead = "p0"\n'), in_memory=True)
    data = make_data(study, (40, 60, 100))
    table = Table(study.names, silent={"p1": Silence("Masked", 28)} if lost else None)  # N, and rounds 0 to 26
    models = run_in_memory(dp_gd, study, data, table=table)
    shares = {name: drawn(table, name, "noise") for name in study.names}
    assert len(shares["p0"]) == T + (2 if lost else 0)
    expected = _in_the_clear(study, data, shares, T, lost)
    assert models["p0"].weights == models[CHARLIE].weights
    np.testing.assert_allclose(models[CHARLIE].weights, expected, rtol=0, atol=1e-5)
    longer = {name: (*rows, rows[0]) for name, rows in shares.items()}
    other = _in_the_clear(study, data, longer, T, None if lost else ("p1", 27))
    assert np.abs(np.array(models[CHARLIE].weights) - other).max() > 1e-2


def _without_dropouts(study: Study) -> str:
    return study.model_copy(update={"dropouts": None}).to_toml()


# --- How much noise -----------------------------------------------------------------------------------------------


def _mu(epsilon: float, delta: float) -> float:
    """The largest mu for (epsilon, delta), written down a second time: Balle and Wang 2018, Theorem 8."""

    def excess(mu: float) -> float:
        a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return float(stats.norm.cdf(a) - math.exp(epsilon) * stats.norm.cdf(b)) - delta

    return float(optimize.brentq(excess, 1e-3, 50))


def _opened(table: Table, name: str, slots: Any) -> _Array:
    """The sums that a party was told, without N, in units of 1."""
    told = _told(table, name)
    sums = [as_integers(slots.decode(slots.read(each.words), len(members))) for each, members in _with_members(told)]
    return np.array(sums, dtype=float) / F


def _with_members(told: Sequence[Outcome]) -> list[tuple[Outcome, tuple[str, ...]]]:
    """Each sum after the first, with those who made it."""
    before = told[0].members
    found = []
    for outcome in told[1:]:
        if not outcome.again:
            found.append((outcome, before))
        before = outcome.members
    return found


def _sd_accepted(noise: _Array, sd: float) -> bool:
    """Whether chi-square allows the sum of squares; it refuses a right one with a chance of 2e-6."""
    return 1e-6 < float(stats.chi2(noise.size).cdf((noise**2).sum() / sd**2)) < 1 - 1e-6


def test_the_noise_has_the_law_that_t_plus_r_sums_of_s_parties_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """K = 5, c = 1, s = 3, T = R = 6: after two losses, three parties' shares are on each sum, and two are enough."""
    T, d = 6, 150
    study = losing_study("dp-gd", 5, d, survivors=3, retries=6, colluders=1, section=PLAIN.format(T), epsilon=0.5)
    monkeypatch.setattr(dp_gd.Descent, "gradient", lambda _self, _data: np.zeros(d, dtype=np.int64))
    rngs: dict[str, Rng] = {name: SimulationRng(11, name) for name in (*study.names, CHARLIE)}
    table = Table(study.names, rngs, silent={"p3": Silence("Masked", 1), "p4": Silence("Masked", 2)})
    run_in_memory(dp_gd, study, make_data(study, (10,) * 5), table=table)
    N = 50
    noise = _opened(table, "p0", layout(study, noise_of(study), N))
    assert noise.shape == (T, d)
    Delta = 2 * 0.5 + math.sqrt(d) / F
    enough = Delta * math.sqrt(T + 6) / _mu(0.5, study.privacy.delta)  # what two honest shares must have together
    wanted = enough * math.sqrt(3 / 2)
    assert _sd_accepted(noise, wanted)
    assert stats.kstest(noise.ravel() / wanted, "norm").pvalue > 1e-6
    # The test can fail: 30 % more or less, no retries in the account, and shares for K - c parties.
    for off in (0.7, 1.3, math.sqrt(T / (T + 6)), math.sqrt(2 / 4)):
        assert not _sd_accepted(off * noise, wanted)


@pytest.mark.parametrize(("retries", "survivors", "colluders"), [(0, 5, 1), (3, 5, 1), (3, 4, 1), (10, 3, 0)])
def test_equal_rounds_are_charged_as_t_plus_r(retries: int, survivors: int, colluders: int) -> None:
    section, kw = PLAIN.format(20), {"colluders": colluders}
    study = losing_study("dp-gd", survivors=survivors, retries=max(retries, 1), section=section, **kw)
    if not retries:
        study = Study.parse(_without_dropouts(study), in_memory=True)
    noise = noise_of(study)
    least = float(noise.Delta) ** 2 * (20 + retries) / _mu(1.0, study.privacy.delta) ** 2
    variance = (survivors - colluders) * float(noise.share) ** 2 - LEAST_SHARE_SIGMA**2
    assert variance == pytest.approx(least, rel=1e-6)
    assert noise.mu(survivors - colluders) == pytest.approx(_mu(1.0, study.privacy.delta), rel=1e-6)


def _moves(plan: public.Plan) -> list[float]:
    """How far one record may move each sum, squared: means, then second moments, then gradients."""
    squared: list[float] = [5 * plan.first_mean**2, 4 * plan.second_mean**2] if plan.looks_for_centre else []
    squared.append((5 if plan.looks_for_centre else 4.5) * plan.moments(centred=plan.looks_for_centre) ** 4)
    return [*squared, *[4 * plan.gradient**2] * plan.rounds]


@pytest.mark.parametrize("N", [50, 400, 2_000, 100_000])
@pytest.mark.parametrize("retries", [1, 5])
def test_unequal_sums_pay_for_retries_of_the_dearest(N: int, retries: int) -> None:
    study = losing(whitened_study(4, 6, epsilon=1.0), 3, retries)
    plan = public.Plan(study, N)
    moves = _moves(plan)
    budget = _mu(1.0, 1e-5) ** 2 * 3 * public.SIGMA**2
    spent = sum(moves) + retries * max(moves)
    assert 0.9 * budget < spent <= budget * (1 + 1e-9)
    # Charged like equal rounds, retries of the dearest sum would cost more than is there.
    assert retries * max(moves) > 1.2 * retries * sum(moves) / len(moves)


def test_a_single_release_is_charged_as_1_plus_r() -> None:
    study = losing(summary_study(5, epsilon=1.0), 4, 3)
    noise, alone = summary.noise_of(study), summary.noise_of(Study.parse(_without_dropouts(study), in_memory=True))
    assert float(noise.sigma / alone.sigma) == pytest.approx(2.0, rel=1e-9)
    assert float(noise.share / alone.share) == pytest.approx(2 * math.sqrt(5 / 4), rel=1e-6)


@pytest.mark.parametrize("classes", [False, True])
def test_an_evaluation_is_charged_for_its_dearer_vector(classes: bool) -> None:
    noise = evaluation.counts_noise(1.0, 1e-5, 3, classes=classes, retries=4)
    first, second = 0 if classes else 2 * 64**2, 2 * 192**2 + (0 if classes else 96**2)
    spent = first + second + 4 * second
    assert float(noise.sigma) == pytest.approx(math.sqrt(spent) / _mu(1.0, 1e-5), rel=1e-6)
    assert noise.mu(3) == pytest.approx(_mu(1.0, 1e-5), rel=1e-4)
    assert charge(4, noise.largest) == 1 + 4 * Fraction(second, first + second)


# --- Every protocol that can ---------------------------------------------------------------------------------------


def _runs() -> dict[str, tuple[Study, int]]:
    """Studies, and after how many contributions a party is lost."""
    model = Model((0.5, -0.25, 0.125), None)
    return {
        "dp-gd": (losing_study("dp-gd", section=PLAIN.format(3)), 2),
        "psgd": (losing_study("psgd", section="rounds = 3"), 2),
        "dp-whitened": (losing(whitened_study(5, 3)), 1),
        "dp-gd, evaluation": (losing(held_back_study(5, 3)), -2),
        "dp-gd, counts": (losing(held_back_study(5, 3)), -1),
        "evaluation": (losing(measuring(make_study(5, 3), model)), 1),
    }


@pytest.mark.parametrize("name", list(_runs()))
def test_a_run_goes_on_without_a_party_and_uses_no_noise_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study, after = _runs()[name]
    data = make_data(study, (40, 50, 60, 70, 80))
    entry = entry_of(study)
    if after < 0:  # counted from the end
        table = Table(study.names)
        run_in_memory(entry, study, data, table=table)
        after += len(ms_sent(table, "p2"))
    sent: list[tuple[int, ...]] = []
    open_sum = ms.MaskedPartySums._send

    async def watched(self: ms.MaskedPartySums, words: Any, vector: Sequence[int], bound_to: bytes) -> Any:
        if self.seat.me == "p0":
            sent.append(tuple(vector))
        return await open_sum(self, words, vector, bound_to)

    monkeypatch.setattr(ms.MaskedPartySums, "_send", watched)
    table = Table(study.names, silent={"p2": Silence("Masked", after)})
    models = run_in_memory(entry, study, data, table=table)
    assert models.pop("p2") is None
    assert len({repr(model) for model in models.values()}) == 1
    assert table.now == 5.0
    # The sum was made twice. Its two vectors differ by two draws of noise, in every coordinate but a few.
    first, second = sent[after], sent[after + 1]
    assert len(first) == len(second)
    assert sum(a == b for a, b in zip(first, second, strict=True)) <= len(first) // 4


def ms_sent(table: Table, name: str) -> list[Any]:
    """The contribution of a party."""
    return [entry for entry in table.journal(name) if getattr(entry.effect, "type", "") == "Masked"]


def test_a_summary_is_made_again_with_noise_of_its_own() -> None:
    study = losing(summary_study(5))
    data = dealt(study, (30, 40, 50, 60, 70))
    table = Table(study.names, silent={"p2": Silence("Masked", 0)})
    results = run_in_memory(entry_of(study), study, data, table=table)
    assert results.pop("p2") is None
    assert len({repr(result) for result in results.values()}) == 1
    first, spare = drawn(table, "p1", "noisy counts"), drawn(table, "p1", "noisy counts of retry 0")
    assert sum(a == b for a, b in zip(first, spare, strict=True)) <= len(first) // 10
    (summed,) = (each for each in _told(table, "p1") if not each.again)
    slots = as_words(summary.layout(study, summary.noise_of(study)))
    others = [drawn(table, name, "noisy counts of retry 0") for name in ("p1", "p3", "p4", "p5")]
    assert as_integers(slots.decode(slots.read(summed.words), 4)) == tuple(map(sum, zip(*others, strict=True)))


def _told(table: Table, name: str) -> list[Outcome]:
    return [decode(Outcome, body, CHARLIE) for _, kind, body in received(table, name) if kind == "Outcome"]


# --- A large sum in pieces -----------------------------------------------------------------------------------------


def test_a_piece_of_a_large_sum_is_made_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second moments of d = 6 go in pieces of 8; products have noise of their own size, also the second time."""
    for module in (public, adaptive_sums):
        monkeypatch.setattr(module, "PIECE", 8)
    study = losing(whitened_study(4, 6), 3, 2)
    vectors: list[tuple[int, ...]] = []
    send = ms.MaskedPartySums._send

    async def watched(self: ms.MaskedPartySums, words: Any, vector: Sequence[int], bound_to: bytes) -> Any:
        if self.seat.me == "p0":
            vectors.append(tuple(vector))
        return await send(self, words, vector, bound_to)

    monkeypatch.setattr(ms.MaskedPartySums, "_send", watched)
    monkeypatch.setattr(dp_whitened, "moments_sum", lambda *_, **__: np.zeros(27, dtype=np.int64))
    monkeypatch.setattr(adaptive_sums, "draw_noise", _numbered)
    table = Table(study.names, silent={"p2": Silence("Masked", 2)})
    models = run_in_memory(dp_whitened, study, make_data(study, (20,) * 4), table=table)
    assert models["p0"].weights == models[CHARLIE].weights
    pieces = vectors[1:6]  # after N: 8, 8 again (for p2 is silent in the second piece: 8 more), 8, 3
    products = [number for piece in pieces for number in piece if number < 1000]
    others = [number for piece in pieces for number in piece if number >= 1000]
    assert [len(piece) for piece in pieces] == [8, 8, 8, 8, 3]
    assert products == list(range(8 + 7 + 7))  # 15 products, of which the second piece's 7 came twice
    assert others == list(range(1000, 1000 + 1 + 1 + 8 + 3))


def _numbered(_rng: Rng, numbers: tuple[int, int]) -> bytes:
    """Noise that can be told apart: 0, 1, ... on products, 1000, 1001, ... on all else."""
    products, others = numbers
    return np.concatenate([np.arange(products), 1000 + np.arange(others)]).astype("<i8").tobytes()


# --- What is told ----------------------------------------------------------------------------------------------------


def test_rows_count_the_parties_that_a_sum_has_at_least() -> None:
    section = PLAIN.format(20)
    study = losing_study(survivors=4, retries=5, colluders=1, section=section, epsilon=1.0)
    rows = {row.view: row for row in statement_of(study)}
    noise = noise_of(study)
    delta = study.privacy.delta
    for view, unknown in (("released model and all iterates", 4), ("Charlie", 4), ("one party", 3)):
        assert rows[view].epsilon == pytest.approx(noise.proved(unknown)[0], rel=1e-9)  # type: ignore[index]
        assert rows[view].delta == delta
    assert rows["Charlie with 1 party"].epsilon == pytest.approx(1.0, abs=1e-6)
    assert says(rows[sentence("view_all_iterates")].text, "parties_at_least", 4, 5)
    sized = "a sum has 4 parties or more, and Charlie has 5 sums made again at most: every honest party sees to both"
    assert all(sized in row.assumptions for row in rows.values())


@pytest.mark.parametrize(("survivors", "retries", "price"), [(4, 2, 21), (5, 2, 5), (3, 10, 73)])
def test_the_price_is_told_in_percent(survivors: int, retries: int, price: int) -> None:
    study = losing_study(survivors=survivors, retries=retries, colluders=1, section=PLAIN.format(20))
    entry = entry_of(study)
    without = Study.parse(_without_dropouts(study), in_memory=True)
    ratio = float(noise_of(study).share / noise_of(without).share)
    assert entry.dropout_price(study) == pytest.approx(ratio - 1, rel=1e-6)
    expected = math.sqrt(4 / (survivors - 1) * (20 + retries) / 20) - 1
    assert ratio - 1 == pytest.approx(expected, rel=1e-6)
    assert round(100 * expected) == price
    (said,) = (text for text in entry.explain(study).cost if "fall silent" in text)
    assert says(said, "goes_on_while", survivors, 5)
    assert says(said, "noise_is_larger", f"{price} %")
    assert not [text for text in entry.explain(without).cost if "fall silent" in text]
    assert entry.dropout_price(without) == 0


@pytest.mark.parametrize(
    ("K", "survivors", "colluders", "forks"), [(5, 3, 0, 0), (5, 3, 1, 1), (6, 3, 0, 1), (5, 4, 2, 0)]
)
def test_a_study_in_which_two_groups_could_part_says_so(K: int, survivors: int, colluders: int, forks: int) -> None:
    study = losing_study(K=K, survivors=survivors, colluders=colluders, section=PLAIN.format(20))
    assert sum(says(text, "two_models") for text in entry_of(study).explain(study).cost) == forks


def test_a_role_that_makes_a_sum_again_replays() -> None:
    study = losing_study(section=PLAIN.format(3))
    data = make_data(study, (20,) * 5)
    table = Table(study.names, silent={"p2": Silence("Masked", 2)})
    models = run_in_memory(dp_gd, study, data, table=table)
    for name in ("p0", CHARLIE):
        role = dp_gd.party(table.seat(name), study, data[name]) if name != CHARLIE else None
        again = replay(role or dp_gd.charlie(table.seat(CHARLIE), study), table.journal(name))
        assert again.result.weights == models[name].weights

"""The cost of a run's contributions: each is with_cost before it leaves, and together they keep the target."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from masquerade_core.errors import LocalProtocolError
from masquerade_core.privacy.accounting import DELTA_UNITS, Total, cost_of, down, epsilon_of, target
from masquerade_core.privacy.noise.gaussian_rounds import rounds_noise
from masquerade_core.seat import Release, Seat, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Silence, Table
from masquerade_protocols import PROTOCOLS, entry_of
from masquerade_protocols.blocks.noise_shares import Parallel, Price, price_of, with_cost
from masquerade_protocols.in_memory import run_in_memory
from tests.messages import raises
from tests.protocol_helpers import make_data
from tests.unit.protocols import test_refusals as every

_CONTRIBUTIONS = {"Contribution", "Masked", "Share"}

_SOME = {False: 30, True: every.MANY}  # from a few records no coefficient is told, and then nothing is with_cost

DEARER = {"input-noise"}
"""Its cost is what is proved of it, and the paper's noise proves more than the target."""


def composed(releases: list[Release], delta: float) -> float:
    total = sum((Total.of(cost_of(r.epsilon, r.delta, r.mu, r.slack)) for r in releases), start=Total())
    return total.composed(down(delta, DELTA_UNITS) + 2 * len(releases))


@cache
def ran(name: str, folder: Path) -> tuple[Study, Table]:
    study = every._made(name)
    entry = entry_of(study)
    data = {
        party: entry.records.one(every._file(folder, every.USUAL, n), study)
        for party, n in zip(study.names, (every.FEW, _SOME[entry.coefficients], every.FEW), strict=True)
    }
    table = Table(study.names)
    options: dict[str, Any] = {"auxiliary": every.POINTS} if entry.auxiliary else {}
    run_in_memory(entry, study, data, table=table, **options)
    return study, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def effects(table: Table, name: str) -> list[Release | Send]:
    found = [entry.effect for entry in table.journal(name)]
    return [e for e in found if isinstance(e, Release) or (isinstance(e, Send) and e.type in _CONTRIBUTIONS)]


@pytest.mark.parametrize("name", [name for name in every.STUDIES if name not in DEARER])
def test_all_that_a_run_counts_composes_to_its_target_at_most(name: str, folder: Path) -> None:
    study, table = ran(name, folder)
    for party in study.names:
        own = [release for who, release in table.releases if who == party]
        assert own
        assert composed(own, study.privacy.delta) <= study.privacy.epsilon * (1 + 1e-6)
        assert len({release.label for release in own}) == len(own)
    assert not [who for who, _ in table.releases if who == CHARLIE]


@pytest.mark.parametrize("name", [name for name, (_, how, *_) in every.STUDIES.items() if how == "proven"])
def test_what_a_proven_run_counts_is_nearly_its_target(name: str, folder: Path) -> None:
    study, table = ran(name, folder)
    own = [release for who, release in table.releases if who == study.names[0]]
    assert composed(own, study.privacy.delta) >= 0.85 * study.privacy.epsilon


@pytest.mark.parametrize("name", ["dp-gd", "dp-gd, masks", "psgd, proven"])
def test_each_round_is_counted_right_before_its_contribution(name: str, folder: Path) -> None:
    study, table = ran(name, folder)
    for party in study.names:
        size, *rounds = effects(table, party)
        assert isinstance(size, Send)  # the number of all records, which no epsilon covers
        assert [e.label if isinstance(e, Release) else "sent" for e in rounds] == ["round 1", "sent", "round 2", "sent"]


@pytest.mark.parametrize("name", every.STUDIES)
def test_after_the_first_release_nothing_that_depends_on_records_leaves_uncounted(name: str, folder: Path) -> None:
    study, table = ran(name, folder)
    for party in study.names:
        made = effects(table, party)
        first = next(i for i, effect in enumerate(made) if isinstance(effect, Release))
        before = [e for e in made[:first] if isinstance(e, Send)]
        assert len(before) == (1 if name in every.COUNTED else 0)


def test_a_run_that_is_cut_short_has_counted_what_had_left_and_no_more(folder: Path) -> None:
    study, table = ran("dp-gd", folder)
    own = [release for who, release in table.releases if who == study.names[0]]
    assert [release.label for release in own] == ["round 1", "round 2"]
    half, whole = (composed(own[:n], study.privacy.delta) for n in (1, 2))
    mu = own[0].mu
    assert half == pytest.approx(epsilon_of(mu, study.privacy.delta), rel=1e-6)
    assert whole == pytest.approx(epsilon_of(2**0.5 * mu, study.privacy.delta), rel=1e-6)
    assert half < 0.75 * whole


def test_an_evaluation_costs_only_what_the_training_did_not_pay(folder: Path) -> None:
    study, table = ran("dp-gd, evaluated", folder)
    own = [release for who, release in table.releases if who == study.names[0]]
    assert [release.label for release in own if release.label.startswith("round")] == ["round 1", "round 2"]
    more = sum(release.mu**2 for release in own if not release.label.startswith("round"))
    assert more <= 1e-6 * own[0].mu ** 2


def _seat() -> Seat:
    return Seat("p0", ("p0", "p1"))


def _drive(role: Any) -> list[Release]:
    made = []
    try:
        while True:
            made.append(role.send(None))
    except StopIteration:
        return made


def test_records_held_back_pay_for_what_their_own_sums_cost_beyond_the_training() -> None:
    async def role(seat: Seat) -> None:
        await seat.release("round 1", 1.0, 1e-6, 0.3)
        paid = Parallel(seat)
        for label, mu in (("scores", 0.2), ("counts", 0.4)):
            await with_cost(seat, label, Price(1.0, 1e-6, mu), list, paid)()

    training, counts = _drive(role(_seat()))
    assert (training.label, counts.label) == ("round 1", "counts")
    assert training.mu**2 + counts.mu**2 == pytest.approx(0.2**2 + 0.4**2)


def test_after_a_training_of_unknown_mu_an_evaluation_costs_nothing_more() -> None:
    async def role(seat: Seat) -> None:
        await seat.release("whole", 1.0, 1e-6)
        await with_cost(seat, "scores", Price(1.0, 1e-6, 0.4), list, Parallel(seat))()

    assert [release.label for release in _drive(role(_seat()))] == ["whole"]


def test_what_is_made_again_is_counted_again_under_a_label_of_its_own() -> None:
    async def role(seat: Seat) -> None:
        made = with_cost(seat, "round 1", Price(1.0, 1e-6, 0.4), list)
        for _ in range(3):
            await made()

    labels = [release.label for release in _drive(role(_seat()))]
    assert labels == ["round 1", "round 1, made again 1", "round 1, made again 2"]


def test_one_label_is_counted_once() -> None:
    async def role(seat: Seat) -> None:
        await seat.release("round 1", 1.0, 0.0)
        await seat.release("round 1", 1.0, 0.0)

    with raises(LocalProtocolError, "release_counted_twice", "'round 1'"):
        _drive(role(_seat()))


@pytest.mark.parametrize(("rounds", "retries"), [(1, 0), (7, 0), (1000, 0), (4, 3), (1, 5)])
def test_all_rounds_and_all_retries_together_keep_the_target(rounds: int, retries: int) -> None:
    noise = rounds_noise(
        clip=Fraction(1),
        d=5,
        rounds=rounds,
        epsilon=1.0,
        delta=1e-6,
        honest=2,
        fraction_bits=20,
        retries=retries,
    )
    price = price_of(noise, Fraction(1, rounds))
    each = Release("x", price.epsilon, price.delta, price.mu, price.slack)
    assert composed([each] * (rounds + retries), 1e-6) == pytest.approx(1.0, rel=1e-5)
    assert composed([each], price.delta) == pytest.approx(price.epsilon, rel=1e-6)
    whole = target(1.0, 1e-6, gaussian=True)
    assert Total.of(cost_of(*vars(price).values())).mu2 * (rounds + retries) <= whole.mu**2 * (1 + 1e-5)


def test_a_round_that_is_made_again_without_a_silent_party_is_counted_twice(folder: Path) -> None:
    study = every._made("dp-gd, masks")
    more = {"min_survivors": 2, "retries": 1, "patience_seconds": 5.0}
    study = Study.model_validate({**study.model_dump(by_alias=True, exclude_none=True), "dropouts": more})
    table = Table(study.names, silent={"p2": Silence("Masked", 2)})
    run_in_memory(PROTOCOLS["dp-gd"], study, make_data(study, (20, 20, 20)), table=table)
    own = [release for who, release in table.releases if who == "p0"]
    assert [release.label for release in own] == ["round 1", "round 2", "round 2, made again 1"]
    assert composed(own, study.privacy.delta) == pytest.approx(study.privacy.epsilon, rel=1e-5)

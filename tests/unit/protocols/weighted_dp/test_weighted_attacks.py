"""Whoever raises the number of all records, from which the paper's noise follows, takes no noise below a limit away."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from masquerade_core.crypto.masks import CheckKey, Words
from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import RefusedLocally, RunFailed
from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.privacy.samplers.rounded_gaussian import gaussian
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_core.table import Table
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.descent import count_layout
from masquerade_protocols.blocks.paillier_sum import as_packing
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.weighted_dp import public
from masquerade_protocols.weighted_dp import roles as wd
from masquerade_protocols.weighted_dp.entry import WEIGHTED_DP
from tests.local_descent_helpers import local_descent_study
from tests.messages import says
from tests.protocol_helpers import make_data
from tests.sum_helpers import EVEN_OR_SKEWED, opening, product, sent

SIZES = (40, 60, 50)


def _study(section: str = "c = 16.0\nrounds = 30", *, proven: bool = False, K: int = 3) -> Study:
    return local_descent_study(section, K, proven=proven, epsilon=0.5)


def _shifting(by: int) -> Any:
    """Make a Charlie who adds ``by`` to the sum of sizes before the lead opens it, and else does what he should."""

    async def charlie(seat: Seat, study: Study) -> Any:
        await seat.join()
        sums = await ss.PaillierCharlieSums.set_up(seat, study)
        key = sums.key
        got = await seat.gather(ss.Contribution, study.names)
        layout = as_packing(count_layout(study))
        raw = product(key, [c.terms._raw for c in got.values()], [by])
        answer = await opening(seat, study, got, raw, 0, Words(layout.length, layout.bound))
        (n,) = layout.unpack([int.from_bytes(answer, "big")], key.n, contributors=study.K)
        descent = public.plan(study, n)
        sums = ss.PaillierCharlieSums(seat, study, key, 1)
        opened = await sums.open_sum(public.layout(study, descent))
        await sums.close()
        return wd._released(descent, opened)

    return charlie


@pytest.fixture(autouse=True)
def _check_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charlie has a party on his side, who knows the key of the check values: his own sums fit theirs."""
    monkeypatch.setattr(CheckKey, "fits", lambda *_: True)


def _claiming(monkeypatch: pytest.MonkeyPatch, liar: str, records: int) -> None:
    """Let one party count ``records``, whatever it has."""
    open_sum = ss.PaillierPartySums.open_sum

    async def false(self: ss.PaillierPartySums, layout: Packing, vector: Any, bound_to: bytes) -> Any:
        lies = self.seat.me == liar and bound_to == b"N"
        return await open_sum(self, layout, [records] if lies else vector, bound_to)

    monkeypatch.setattr(ss.PaillierPartySums, "open_sum", false)


def _ends(study: Study, data: Mapping[str, Dataset], charlie: Any = wd.charlie) -> tuple[Table, dict[str, Any]]:
    """How each party's role ended, one by one: with a model, with its own refusal, or waiting for others."""
    table, ends = Table(study.names), dict[str, Any]()

    async def watched(seat: Seat, study: Study, data: Dataset) -> Any:
        try:
            ends[seat.me] = await wd.party(seat, study, data)
        except (RefusedLocally, RunFailed) as error:
            ends[seat.me] = error

    with suppress(RunFailed):  # Charlie waits for those who have gone
        run_in_memory(replace(WEIGHTED_DP, party=watched, charlie=charlie), study, data, table=table)
    return table, ends


def _noise_drawn(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list that fills with the standard deviation of each party's noise on a sum of gradients."""
    drawn: list[float] = []

    def noted(rng: Any, sigma: Fraction, size: int, unit: Fraction) -> list[int]:
        drawn.append(float(sigma))
        return list(gaussian(rng, sigma, size, unit))

    monkeypatch.setattr(local_descent, "gaussian", noted)
    return drawn


@pytest.mark.parametrize("by", [0, 600, 10**6])
def test_a_charlie_who_adds_to_the_number_of_all_records_finds_everybody_there(
    by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each party adds the noise for n, or that for 12 times its own records if these are fewer."""
    drawn, study = _noise_drawn(monkeypatch), _study()
    table, ends = _ends(study, make_data(study, SIZES), _shifting(by))
    assert not any(isinstance(end, Exception) for end in ends.values())
    for name in study.names:
        assert len(sent(table, name, ss.Contribution)) == 2
    n = sum(SIZES) + by
    wanted = [own * public.plan(study, min(n, 12 * own)).sigma for own in SIZES]
    assert drawn == pytest.approx(list(map(float, wanted)))


def test_the_attack_is_one_and_what_it_can_reach_is_what_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """If parties took n as it is, the noise would all but vanish; no party has less than the statement counts on."""
    drawn, study, by = _noise_drawn(monkeypatch), _study(), 10**6
    data, n = make_data(study, SIZES), sum(SIZES)
    stated = WEIGHTED_DP.statement(study)[0].epsilon
    assert stated is not None

    def true_epsilon(shift: int) -> float:
        drawn.clear()
        _ends(study, data, _shifting(shift))
        assert len(drawn) == 3
        return max(epsilon_of(2 * 30**0.5 / sd, 1e-3) for sd in drawn)

    assert stated == pytest.approx(3.70, abs=0.005)
    assert true_epsilon(0) == pytest.approx(0.9035, abs=1e-4)
    for shift in (12 * 40 - n, 12 * 40 - n + 1, by):  # of n + shift, 40 are a twelfth, or less
        assert 0.95 * stated <= true_epsilon(shift) <= stated
    monkeypatch.setattr(wd, "_own_plan", lambda _study, descent, _own, _n: descent)
    assert true_epsilon(by) == pytest.approx(2.8e6, rel=0.02)


def test_a_party_that_claims_a_million_records_gains_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, study = _noise_drawn(monkeypatch), _study()
    _claiming(monkeypatch, "p2", 1 << 20)
    table, ends = _ends(study, make_data(study, SIZES))
    assert not any(isinstance(end, Exception) for end in ends.values())
    wanted = [own * public.plan(study, 12 * own).sigma for own in SIZES]
    assert drawn == pytest.approx(list(map(float, wanted)))
    assert all(len(sent(table, name, ss.Contribution)) == 2 for name in study.names)


def test_a_number_that_there_cannot_be_ends_the_run() -> None:
    study = _study()
    data = make_data(study, SIZES)
    for by in (-121, 1 << 32):  # of all, twenty-nine are left: fewer than three parties have at least
        _, ends = _ends(study, data, _shifting(by))
        assert all(isinstance(end, RunFailed) for end in ends.values())
        assert says(str(ends["p1"]), "impossible_count")


def test_proven_noise_follows_from_no_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither attack gains anything: the noise is drawn before n is opened, and the model is merely wrong."""
    study = _study("rounds = 30", proven=True)
    data = make_data(study, SIZES)
    seen: list[Any] = []

    def noted(rng: Any, sigma: Any, size: int) -> list[int]:
        seen.append((sigma, size))
        return [0] * size

    monkeypatch.setattr(local_descent, "discrete_gaussian", noted)
    for by in (0, 10**6):
        _ends(study, data, _shifting(by))
    _claiming(monkeypatch, "p2", 1 << 20)
    _, ends = _ends(study, data)
    assert not any(isinstance(end, Exception) for end in ends.values())
    assert len(seen) == 9
    assert set(seen) == {(public.noise_of(study).share, 30 * 4)}


@pytest.mark.parametrize("named", [False, True])
def test_a_skewed_split_runs_whatever_part_the_study_names(named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = _noise_drawn(monkeypatch)
    study = _study("c = 16.0\nrounds = 5" + ("\nsmallest_part = 0.01" if named else ""), K=5)
    _, skewed = EVEN_OR_SKEWED[5]
    data = make_data(study, [round(1000 * part) for part in skewed])
    _, ends = _ends(study, data)
    assert len({model.weights for model in ends.values()}) == 1
    own = min(len(records.y) for records in data.values())
    assert own == 10
    assert drawn[0] == pytest.approx(float(own * public.plan(study, 1000 if named else 200).sigma))

"""Whoever raises the number of all records, from which the paper's noise follows, finds the honest parties gone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from masquerade_core.crypto.masks import CheckKey, Words
from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import RefusedLocally, RunFailed
from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of
from masquerade_core.seat import Once, Seat, Send
from masquerade_core.study import Study
from masquerade_core.table import Table
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.descent import count_layout
from masquerade_protocols.blocks.layouts import as_packing
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.weighted_dp import public
from masquerade_protocols.weighted_dp import roles as wd
from masquerade_protocols.weighted_dp.entry import WEIGHTED_DP
from tests.local_descent_helpers import local_descent_study
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


def _said_after_n(table: Table, name: str) -> list[str]:
    """What a party drew or sent once it had contributed to the sum of sizes."""
    effects = [entry.effect for entry in table.journal(name)]
    (own,) = (i for i, e in enumerate(effects) if isinstance(e, Send) and e.type == "Contribution")
    found = [e for e in effects[own + 1 :] if isinstance(e, Once | Send)]
    return [e.label if isinstance(e, Once) else e.type for e in found]


@pytest.mark.parametrize("by", [600, 10**6])
def test_a_charlie_who_adds_to_the_number_of_all_records_finds_nobody_there(by: int) -> None:
    study = _study()
    table, ends = _ends(study, make_data(study, SIZES), _shifting(by))
    for name in study.names:
        assert isinstance(ends[name], RefusedLocally)
        assert "smallest_part, 1/12, of all" in str(ends[name])
        assert not set("0123456789") & set(str(ends[name]).replace("1/12", ""))  # no size
        assert "smaller smallest_part" in ends[name].hint
        assert _said_after_n(table, name) == (["sum 0", "RoundSum"] if name == study.lead else [])
        assert len(sent(table, name, ss.Contribution)) == 1
    assert not table.releases


def test_the_attack_is_one_and_what_it_can_reach_is_what_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the refusal the noise all but vanishes; with it no party has less than the statement counts on."""
    study, by = _study(), 10**6
    data = make_data(study, SIZES)
    n = sum(SIZES)
    stated = WEIGHTED_DP.statement(study)[0].epsilon
    assert stated is not None

    def true_epsilon(counted: int) -> float:
        return epsilon_of(2 * 30**0.5 / float(40 * public.plan(study, counted).sigma), 1e-3)

    assert true_epsilon(n) == pytest.approx(0.9035, abs=1e-4)
    assert stated == pytest.approx(3.70, abs=0.005)
    assert true_epsilon(n + by) == pytest.approx(2.8e6, rel=0.02)
    most = 12 * 40  # of which 40 are a twelfth
    assert true_epsilon(most) <= stated
    for counted, refused in ((most, False), (most + 1, True)):
        _, ends = _ends(study, data, _shifting(counted - n))
        assert isinstance(ends["p0"], RefusedLocally) == refused
    monkeypatch.setattr(wd, "_check_part", lambda *_: None)
    _, ends = _ends(study, data, _shifting(by))
    assert not any(isinstance(end, Exception) for end in ends.values())


def test_a_party_that_claims_a_million_records_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    study = _study()
    _claiming(monkeypatch, "p2", 1 << 20)
    table, ends = _ends(study, make_data(study, SIZES))
    for name in ("p0", "p1"):
        assert isinstance(ends[name], RefusedLocally)
        assert "local descent" not in _said_after_n(table, name)
        assert len(sent(table, name, ss.Contribution)) == 1


def test_a_number_that_there_cannot_be_ends_the_run() -> None:
    study = _study()
    data = make_data(study, SIZES)
    for by in (-120, 1 << 32):  # of all, thirty are left: fewer than anybody's own
        _, ends = _ends(study, data, _shifting(by))
        assert all(isinstance(end, RunFailed) for end in ends.values())
        assert "number of all records cannot be" in str(ends["p1"])


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
def test_a_skewed_split_runs_where_the_study_names_a_small_enough_part(named: bool) -> None:
    study = _study("c = 16.0\nrounds = 5" + ("\nsmallest_part = 0.01" if named else ""), K=5)
    _, skewed = EVEN_OR_SKEWED[5]
    data = make_data(study, [round(1000 * part) for part in skewed])
    _, ends = _ends(study, data)
    if named:
        assert len({model.weights for model in ends.values()}) == 1
    else:
        assert isinstance(ends["p0"], RefusedLocally)
        assert "1/20" in str(ends["p0"])

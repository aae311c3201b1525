"""Masks are bound to key and roster, each release is debited, and Charlie checks N for himself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import LocalProtocolError, MasqueradeError, RunFailed
from masquerade_core.rng import Rng
from masquerade_core.seat import Release, Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_protocols import PROTOCOLS
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.in_memory import run_in_memory
from tests.helpers import primes
from tests.local_descent_helpers import local_descent_study
from tests.messages import raises
from tests.protocol_helpers import SMALL_BITS, make_data, make_study
from tests.sum_helpers import multiplying, sums_of
from tests.unit.protocols.dp_gd.test_dp_gd import _study as dp_gd_study
from tests.unit.protocols.psgd.test_psgd_proven import _study as psgd_study
from tests.vote_helpers import points_of, vote_data, vote_study

# --- What the masks of a secure sum are bound to ----------------------------------------------------

Keys = dict[tuple[str, str], bytes]


def _pair_keys(
    monkeypatch: pytest.MonkeyPatch,
    *,
    seed: bytes = b"seed",
    number: int = 0,
    names: tuple[str, ...] = ("p0", "p1", "p2"),
) -> Keys:
    """Return the key of every pair of parties. Nothing else than these parameters differs between calls."""
    study = make_study(len(names), 1)
    roster = [party.model_copy(update={"name": name}) for party, name in zip(study.parties, names, strict=True)]
    study = study.model_copy(update={"parties": tuple(roster)})
    assert study.names == names
    found: Keys = {}

    async def tossed(_seat: Seat) -> bytes:
        return seed

    async def party(seat: Seat) -> None:
        await seat.join()
        sums = await ss.PaillierPartySums.set_up(seat, study)
        found.update({(seat.me, peer): key for peer, (_, key) in sums.pair_keys.items()})

    async def charlie(seat: Seat) -> None:
        await seat.join()
        await ss.PaillierCharlieSums.set_up(seat, study)

    rngs: dict[str, Rng] = {name: SimulationRng(5, name) for name in (*names, CHARLIE)}
    table = Table(names, rngs, bytes(16))
    with monkeypatch.context() as patch:
        patch.setattr(ss, "coin_toss", tossed)
        patch.setattr(ss, "draw_primes", lambda _rng, bits: primes(bits, number))
        table.run({**{name: party(table.seat(name)) for name in names}, CHARLIE: charlie(table.seat(CHARLIE))})
    return found


def test_a_pairs_mask_key_is_the_same_at_both_and_in_a_second_run_like_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control of the three tests below: if nothing changes, the keys do not change either."""
    keys = _pair_keys(monkeypatch)
    assert keys == _pair_keys(monkeypatch)
    assert all(keys[a, b] == keys[b, a] for a, b in keys)
    assert len(set(keys.values())) == 3


def test_mask_keys_are_bound_to_the_seed_of_the_coin_toss(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (_pair_keys(monkeypatch, seed=seed) for seed in (b"seed", b"another seed"))
    assert [pair for pair in first if first[pair] == second[pair]] == []


def test_mask_keys_are_bound_to_the_leads_public_key(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (_pair_keys(monkeypatch, number=number) for number in (0, 1))
    assert [pair for pair in first if first[pair] == second[pair]] == []


def test_mask_keys_are_bound_to_the_roster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of two parties changes when a third has another name, is missing, or joins."""
    first = _pair_keys(monkeypatch)
    for names in (("p0", "p1", "p3"), ("p0", "p1"), ("p0", "p1", "p2", "p3")):
        assert _pair_keys(monkeypatch, names=names)["p0", "p1"] != first["p0", "p1"]


# --- Obfuscators ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("left", "refused"), [(0, False), (1, True)])
def test_a_pool_with_obfuscators_left_is_not_replaced(left: int, refused: bool) -> None:
    study = make_study(2, 1)
    layout = Packing(1, 2_000, SMALL_BITS)
    ends: dict[str, object] = {}
    run = sums_of(study, [layout])

    async def party(seat: Seat) -> None:
        await seat.join()
        sums = await ss.PaillierPartySums.set_up(seat, study)
        await sums.precompute([layout] * (1 + left))
        await sums.open_sum(layout, [7], b"round")
        try:
            await sums.precompute([layout] * 5)
            ends[seat.me] = "filled"
        except LocalProtocolError as error:
            ends[seat.me] = str(error)
        await sums.close()

    table = run.table
    table.run(
        {
            **{name: party(table.seat(name)) for name in study.names},
            CHARLIE: multiplying(table.seat(CHARLIE), study, [layout]),
        }
    )
    said = "new obfuscators were to be drawn while others were left, which would be lost" if refused else "filled"
    assert ends == dict.fromkeys(study.names, said)


# --- Debits -----------------------------------------------------------------------------------------


def _effects(table: Table, name: str) -> list[str]:
    """The debits and messages of a party, in order."""
    effects = [entry.effect for entry in table.journal(name)]
    return ["debit" if isinstance(e, Release) else e.type for e in effects if isinstance(e, Release | Send)]


def _debits(study: Study, data: Mapping[str, Any], **options: Any) -> Table:
    table = Table(study.names)
    run_in_memory(PROTOCOLS[study.study.protocol], study, data, table=table, **options)
    return table


def test_a_party_of_dp_gd_debits_each_round_before_its_gradient() -> None:
    study = dp_gd_study(3, 4, "rounds = 2")
    table = _debits(study, make_data(study, (20, 30, 40)))
    for name in study.names:
        sizes, *rounds = [e for e in _effects(table, name) if e in {"debit", "Contribution"}]
        assert (sizes, rounds) == ("Contribution", ["debit", "Contribution"] * 2)


@pytest.mark.parametrize("calibration", ["paper", "proven"])
def test_a_party_that_votes_debits_the_privacy_target_before_its_votes(calibration: str) -> None:
    made = vote_study(K=3, N=5)
    privacy = made.privacy.model_copy(update={"calibration": calibration})
    study = made.model_copy(update={"privacy": privacy})
    table = _debits(study, vote_data(study), auxiliary=points_of(made))
    target = (study.privacy.epsilon, study.privacy.delta)
    assert [(name, r.epsilon, r.delta) for name, r in table.releases] == [(name, *target) for name in study.names]
    for name in study.names:
        assert [e for e in _effects(table, name) if e in {"debit", "Contribution"}] == ["debit", "Contribution"]


# --- Charlie's own look at N ------------------------------------------------------------------------

STUDIES: dict[str, Callable[[], Study]] = {
    "dp-gd": lambda: dp_gd_study(3, 4, "rounds = 2"),
    "psgd": lambda: psgd_study(K=3, d=4, section="rounds = 2"),
    "weighted-dp": lambda: local_descent_study("c = 16.0\nrounds = 2"),
}


@pytest.mark.parametrize("too", ["few", "many"])
@pytest.mark.parametrize("protocol", STUDIES)
def test_charlie_himself_refuses_a_number_of_records_that_there_cannot_be(
    protocol: str, too: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parties that lie together can make such a number, and then none of them refuses it."""
    study, entry = STUDIES[protocol](), PROTOCOLS[protocol]
    claimed = study.K - 1 if too == "few" else study.most_records + 1
    open_sum, ends = ss.PaillierPartySums.open_sum, dict[str, MasqueradeError]()

    async def false(self: ss.PaillierPartySums, layout: Packing, vector: Any, bound_to: bytes, *again: Any) -> Any:
        lies = bound_to in {b"N", b"n"}
        return await open_sum(self, layout, [claimed * (self.seat.me == "p0")] if lies else vector, bound_to, *again)

    async def watched(seat: Seat, study: Study) -> Any:
        try:
            return await entry.charlie(seat, study)
        except MasqueradeError as error:
            ends[seat.me] = error
            raise

    monkeypatch.setattr(ss.PaillierPartySums, "open_sum", false)
    with raises(RunFailed, "impossible_count"):
        run_in_memory(replace(entry, charlie=watched), study, make_data(study, (40, 40, 40)))
    assert isinstance(ends.get(CHARLIE), RunFailed)

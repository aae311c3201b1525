"""A Charlie who changes N: parties refuse an N that cannot be, and the masks are bound to every other."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from masquerade_core.crypto.masks import CheckKey, Words
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import PublicKey, SecretKey
from masquerade_core.crypto.shares import mask
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import LocalProtocolError, RunFailed
from masquerade_core.learning.losses import loss_of
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_core.table import Table
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import PARTIES, pack_numbers
from masquerade_protocols import PROTOCOLS
from masquerade_protocols.blocks import descent
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.blocks.paillier_sum import as_packing
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.psgd import roles as psgd
from masquerade_protocols.psgd import schedule as psgd_schedule
from tests.helpers import tell_each
from tests.messages import raises, says
from tests.protocol_helpers import make_data
from tests.sum_helpers import drawn, opening, product, sent
from tests.unit.protocols.dp_gd.test_dp_gd import _study as dp_gd_study
from tests.unit.protocols.psgd.test_psgd_proven import _study as psgd_study

SIZES = (40, 40, 40)
ROLES: dict[str, Any] = {"dp-gd": dp_gd, "psgd": psgd}


def _made(protocol: str, **kw: Any) -> Study:
    return dp_gd_study(3, 4, **kw) if protocol == "dp-gd" else psgd_study(K=3, d=4, section="rounds = 20", **kw)


@pytest.fixture(autouse=True)
def _check_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charlie has a party on his side, who knows the key of the check values: his own sums fit theirs."""
    monkeypatch.setattr(CheckKey, "fits", lambda *_: True)


def _slots(study: Study, protocol: str, N: int) -> Packing:
    if protocol == "dp-gd":
        return as_packing(dp_gd.layout(study, dp_gd.noise_of(study), N))
    return as_packing(psgd_schedule.layout(study, psgd_schedule.psgd(study, N), N, 0))


def _ends(
    study: Study, protocol: str, data: Mapping[str, Dataset], charlie: Any, table: Table | None = None
) -> tuple[Table, dict[str, Any]]:
    """Run against this Charlie; return the table, and each party's result or error."""
    table, ends = table or Table(study.names), dict[str, Any]()

    async def watched(seat: Seat, study: Study, data: Dataset) -> Any:
        try:
            ends[seat.me] = await ROLES[protocol].party(seat, study, data)
        except (RunFailed, LocalProtocolError, ValueError) as error:
            ends[seat.me] = error

    with suppress(RunFailed, ValueError):  # Charlie waits for those who have gone
        run_in_memory(replace(PROTOCOLS[protocol], party=watched, charlie=charlie), study, data, table=table)
    return table, ends


async def _open(seat: Seat, study: Study, key: PublicKey, layout: Packing, round_: int, by: list[int]) -> int:
    """Charlie's part of a sum to which he adds a vector; returns its first coordinate."""
    got = await seat.gather(ss.Contribution, study.names)
    raw = product(key, [c.terms._raw for c in got.values()], layout.pack(by))
    sums = await opening(seat, study, got, raw, round_, Words(layout.length, layout.bound))
    width = len(sums) // layout.count
    plain = [int.from_bytes(sums[i : i + width], "big") for i in range(0, len(sums), width)]
    return layout.unpack(plain, key.n, contributors=study.K)[0]


def _dividing_by_nothing(protocol: str, by: int) -> Any:
    """Make a Charlie who changes N, and then asks for gradients at a point whose coordinates he has blown up."""

    async def charlie(seat: Seat, study: Study) -> Any:
        await seat.join()
        key = (await ss.PaillierCharlieSums.set_up(seat, study)).key
        N = await _open(seat, study, key, as_packing(descent.count_layout(study)), 0, [by])
        slots = _slots(study, protocol, N)
        await _open(seat, study, key, slots, 1, [-(slots.bound // 2)] * study.d)
        await seat.gather(ss.Contribution, study.names)

    return charlie


def _records(study: Study, *, odd: bool) -> dict[str, Dataset]:
    """All records have positive coordinates, except for one in the neighbouring data set."""
    rng, made = np.random.default_rng(5), {}
    for name in study.names:
        X = np.abs(rng.normal(size=(40, study.d)))
        X /= 1.01 * np.linalg.norm(X, axis=1)[:, None]
        if odd and name == "p1":
            X[7, 2] *= -1
        made[name] = Dataset(X, np.where(rng.random(40) < 0.5, 1.0, -1.0))
    return made


@pytest.mark.parametrize("protocol", ROLES)
def test_no_iterate_is_made_infinite(protocol: str) -> None:
    study = _made(protocol)
    for odd in (False, True):
        table, ends = _ends(study, protocol, _records(study, odd=odd), _dividing_by_nothing(protocol, -sum(SIZES)))
        for name in study.names:
            assert isinstance(ends[name], RunFailed)
            assert says(str(ends[name]), "impossible_count")
            assert not set("0123456789") & set(str(ends[name]))
            assert len(sent(table, name, ss.Contribution)) == 1  # the size, and nothing after
        assert not table.releases


@pytest.mark.parametrize("protocol", ["psgd"])  # dp-gd packs whatever comes of an infinite iterate
def test_without_the_refusal_who_fails_tells_of_a_record(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack works: with N = 0, whether a party answers tells the neighbours apart, under any noise.

    It works where vectors are Python's integers, as in sums of more than 64 bits: an array holds whatever comes.
    """
    monkeypatch.setattr(descent, "check_count", lambda *_: None)
    encode = psgd._encode_gradient
    monkeypatch.setattr(psgd, "_encode_gradient", lambda *gradient, machine: encode(*gradient, machine=not machine))
    study = _made(protocol)
    for odd in (False, True):
        with np.errstate(all="ignore"):
            charlie = _dividing_by_nothing(protocol, -sum(SIZES))
            table, _ = _ends(study, protocol, _records(study, odd=odd), charlie)
        assert len(sent(table, "p1", ss.Contribution)) == (2 if odd else 3)


def test_the_numbers_that_are_possible_follow_from_public_limits() -> None:
    study = _made("dp-gd")
    assert (study.fewest_records, study.most_records) == (30, 3 * (2**30 - 1))
    for n, possible in (
        (0, False),
        (-5, False),
        (29, False),
        (30, True),
        (3 * 2**30 - 3, True),
        (3 * 2**30 - 2, False),
    ):
        if possible:
            descent.check_count(study, n)
        else:
            with raises(RunFailed, "impossible_count"):
                descent.check_count(study, n)


def test_a_party_s_own_largest_number_lowers_what_is_possible() -> None:
    text = _made("dp-gd").to_toml()
    for name, most in (("p0", 50), ("p1", 60), ("p2", 70)):
        text = text.replace(f'name = "{name}"', f'name = "{name}"\nmax_records = {most}')
    study = Study.parse(text, in_memory=True)
    descent.check_count(study, 180)
    with raises(RunFailed, "impossible_count"):
        descent.check_count(study, 181)


def _shifting_the_count(by: int) -> Any:
    """Make a Charlie who changes N, and goes away once he has seen which parties go on."""

    async def charlie(seat: Seat, study: Study) -> Any:
        await seat.join()
        key = (await ss.PaillierCharlieSums.set_up(seat, study)).key
        await _open(seat, study, key, as_packing(descent.count_layout(study)), 0, [by])
        await seat.gather(ss.Contribution, study.names)
        raise RunFailed("he has seen enough")

    return charlie


def _goes_on(study: Study, protocol: str, data: Mapping[str, Dataset], N: int) -> frozenset[str]:
    """Return the parties that contribute a gradient when they are told that there are N records."""
    true = sum(len(records.y) for records in data.values())
    table, _ = _ends(study, protocol, data, _shifting_the_count(N - true))
    return frozenset(name for name in study.names if len(sent(table, name, ss.Contribution)) == 2)


def _own_size_counts(monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    """Let a party refuse an N that leaves less than one record for each other party: what it must not do."""
    join_and_count = descent.join_and_count

    async def compares(seat: Seat, study: Study, data: Dataset, held: Dataset | None = None) -> Any:
        sums, N = await join_and_count(seat, study, data, held)
        if len(data.y) + study.K - 1 > N:
            raise RunFailed("too few for me")
        return sums, N

    monkeypatch.setattr(ROLES[protocol], "join_and_count", compares)


@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize("protocol", ROLES)
def test_runs_that_charlie_spoils_tell_no_party_s_size(
    protocol: str, careful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """He searches for the least N at which a party goes on. With its own size in the check, that is size + K - 1."""
    if not careful:
        _own_size_counts(monkeypatch, protocol)
    study = _made(protocol)
    sizes = dict(zip(study.names, (60, 1000, 85), strict=True))
    data = make_data(study, tuple(sizes.values()))
    low, high, runs = study.fewest_records - 1, 1 << 12, 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if "p1" in _goes_on(study, protocol, data, middle) else (middle, high)
        runs += 1
    assert runs <= 12  # each halves what is left; from a million, 20 would
    assert (high == sizes["p1"] + study.K - 1) is not careful
    if careful:
        assert high == study.fewest_records
        answers = {_goes_on(study, protocol, data, N) for N in (30, 59, 60, 62, 999, 1000, 1001, 1002, 1145, 10**9)}
        assert answers == {frozenset(study.names)}
        assert _goes_on(study, protocol, data, 29) == _goes_on(study, protocol, data, 2**32) == frozenset()


def _one_sided(study: Study, sizes: tuple[int, ...]) -> dict[str, Dataset]:
    """All records are the same, and so are their labels: gradients add up to the largest sum that there can be."""
    x = np.full(study.d, 0.999 / np.sqrt(study.d))
    return {name: Dataset(np.tile(x, (n, 1)), np.ones(n)) for name, n in zip(study.names, sizes, strict=True)}


@pytest.mark.parametrize("reduces", [True, False])
@pytest.mark.parametrize("protocol", ROLES)
def test_a_party_with_a_sum_beyond_its_slots_goes_on(
    protocol: str, reduces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Charlie says that there are as few records as there may be, so that one party's own sum has no room."""
    study = _made(protocol)
    data = _one_sided(study, (10, 30_000, 10))
    slots = _slots(study, protocol, study.fewest_records)
    own = dp_gd.clipped_sum(data["p1"], np.zeros(study.d), loss_of("logistic"), dp_gd.clip_of(study))
    assert protocol != "dp-gd" or max(map(abs, own)) > 10 * slots.bound
    if not reduces:
        pack = Packing.pack

        def strict(self: Packing, vector: Any) -> Any:
            if max(map(abs, vector)) > self.bound:
                raise LocalProtocolError("beyond the bound")
            return pack(self, vector)

        monkeypatch.setattr(Packing, "pack", strict)
    goes_on = _goes_on(study, protocol, data, study.fewest_records)
    assert goes_on == frozenset(study.names if reduces else {"p0", "p2"})


def _two_faced(table: Table, told: Mapping[str, int], seen: dict[str, Any]) -> Any:
    """Make a Charlie who, with the lead's help, tells each party another N, and keeps the contributions that follow."""

    async def charlie(seat: Seat, study: Study) -> Any:
        await seat.join()
        key = seen["key"] = (await ss.PaillierCharlieSums.set_up(seat, study)).key
        layout = as_packing(descent.count_layout(study))
        await seat.gather(ss.Contribution, study.names)
        opened = {}
        for name, n in told.items():
            plain = layout.pack([n])[0] + study.K * layout.mark()[0]
            sums = pack_numbers([plain % key.n], (key.bits + 7) // 8)
            total = Ciphertexts(layout.count * b"\0" * (key.ciphertext_bytes - 1) + b"\1", PARTIES, key)
            check = bytes(Words(layout.length, layout.bound).check_bytes)
            opened[name] = ss.Opened(round=0, sums=sums, total=total, check=check, receipt=b"\0" * 32)
        await tell_each(table, opened)
        contributions = await seat.gather(ss.Contribution, list(told))
        seen.update({name: message.terms for name, message in contributions.items()})

    return charlie


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("protocol", ROLES)
def test_parties_that_are_told_different_numbers_stay_masked(
    protocol: str, bound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If masks were not bound to N, they would cancel, and two widths of slots would show one noisy gradient."""
    if not bound:
        monkeypatch.setattr(ss, "mask", lambda key, label, n, count: mask(key, label[:4], n, count))
    study = _made(protocol, colluders=1)
    told = {"p1": 100, "p2": study.most_records}
    sums: dict[str, ss.PaillierPartySums] = {}
    set_up = ss.PaillierPartySums.set_up

    async def kept(seat: Seat, study: Study) -> ss.PaillierPartySums:
        sums[seat.me] = await set_up(seat, study)
        return sums[seat.me]

    monkeypatch.setattr(descent, "set_up", kept)
    seen: dict[str, Any] = {}
    table = Table(study.names)
    _ends(study, protocol, make_data(study, SIZES), _two_faced(table, told, seen), table)
    assert study.lead == "p0"
    secret = SecretKey(*drawn(table, "p0", "key xi"))
    slots = {name: _slots(study, protocol, n) for name, n in told.items()}
    assert slots["p1"].width != slots["p2"].width
    assert slots["p1"].count == slots["p2"].count == 1
    (one,), (two,) = ([secret.decrypt(c) for c in seen[n].read(seen["key"], 1, n)] for n in told)
    sums["p0"]._round = 1
    # What p0 shares with both cancels against p0's own masks; what they share with each other cancels, or not.
    w = np.zeros(study.d)
    modulus = secret.public.n
    found = []
    for n in told.values():
        own = sums["p0"]._masks(descent.fingerprint(n, w), 1)[0]
        total = (one + two + own - slots["p1"].mark()[0] - slots["p2"].mark()[0]) % modulus
        found.append(min(total, modulus - total).bit_length())
    room = study.d * max(s.width for s in slots.values()) + 2
    assert (min(found) <= room) is not bound

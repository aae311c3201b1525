"""Attacks on noise in shares, each coded: it succeeds when its fix is taken out, and fails with it.

The names are those of ``docs/privacy/local-aggregation.md`` and ``docs/protocols/local-aggregation.md``. Every attacker
uses only what it holds in the protocol, its own draws and what it received, and public numbers.
"""

from __future__ import annotations

import inspect
import math
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import gmpy2
import numpy as np
import pytest
from scipy import stats

from masquerade_core.crypto.paillier import Ciphertext, Fresh, FullPool, PublicKey, SecretKey, _fresh
from masquerade_core.crypto.shares import mask
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import ProtocolViolation, RunFailed, SumRefused
from masquerade_core.privacy.noise.joint_gaussian import SIZE_CLASSES
from masquerade_core.rng import SystemRng
from masquerade_core.saved_model import Shares
from masquerade_core.seat import Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import PARTIES
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.local_aggregation import additive_shares, public, public_scale, size_class
from masquerade_protocols.local_aggregation import joint_noise as jn
from masquerade_protocols.local_aggregation import roles as la
from masquerade_protocols.local_aggregation.public import FRACTION_BITS
from masquerade_protocols.local_aggregation.zero_sharing import zero_share
from tests.helpers import joined, secret_key, tell_each, until
from tests.messages import raises
from tests.protocol_helpers import Run, make_data, make_study, run
from tests.proven_helpers import (
    GRID,
    Vector,
    encoded_sum,
    opened_sum,
    proven_study,
    sd_by_scipy,
    weights,
    without_classifiers,
)
from tests.sum_helpers import drawn, received

# --- G6: the smallest party takes the noise off ------------------------------------------------------


@pytest.mark.parametrize("rule", ["selected", "floor"])
def test_g6_the_smallest_party_no_longer_takes_the_noise_off(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left with the others' sum under K - 1 shares of noise."""
    K, d, sizes = 3, 60, (60, 20, 90)
    study = proven_study(K, d, rule, colluders=1)
    data = make_data(study, sizes)
    rngs = {name: SystemRng() for name in (*study.names, CHARLIE)}

    def left() -> Vector:
        r = run(study, data, rngs)
        noise = drawn(r.table, "p1", "noise of class 4" if rule == "selected" else "noise")
        own = zip(opened_sum(r), noise, jn.encode(drawn(r.table, "p1", "classifier")), strict=True)
        others = [w for w, name in zip(weights(study, data), study.names, strict=True) if name != "p1"]
        rest: Vector = np.array([o - x - w for o, x, w in own], dtype=np.float64) / GRID - np.sum(others, axis=0)
        return rest

    # K - 1 = h shares: as much noise as the privacy target asks for, and no less.
    sd = sd_by_scipy(study, rule, 20 if rule == "selected" else 10)
    assert 1e-6 < stats.chi2(d).cdf((left() ** 2).sum() / sd**2) < 1 - 1e-6
    # With the fix taken out it has the others' sum to the last bit: one party draws all of the noise.
    draw = jn.draw
    monkeypatch.setattr(jn, "draw", lambda rng, noise: draw(rng, noise) if rng is rngs["p1"] else (0,) * d)
    assert np.abs(left()).max() < 1e-11


def test_g6_in_the_paper_s_calibration_it_still_does() -> None:
    study = make_study(3, 5)
    data = make_data(study, (60, 20, 90))
    r = run(study, data)
    own = np.array(drawn(r.table, "p1", "noise"), dtype=np.float64) / 2**FRACTION_BITS
    rest = np.array(r.total) / 2**FRACTION_BITS - own
    np.testing.assert_allclose(rest, np.sum(weights(study, data), axis=0), atol=1e-8)


# --- The size class under encryption ------------------------------------------------------------------


def _term_of(v: Ciphertext, study: Study, k_j: int, patch: pytest.MonkeyPatch) -> int:
    """The ciphertext that a party, not the lead, sends to the lead in a sealed message."""
    left: list[bytes] = []
    outgoing = Ciphertexts.outgoing

    def noted(fresh: Sequence[Fresh]) -> Ciphertexts:
        message = outgoing(fresh)
        left.append(message._raw)
        return message

    async def role(seat: Seat) -> None:
        pool = await size_class.draw_ahead(seat, v.key)
        await size_class.select_class(seat, study, pool, v, k_j)

    with patch.context() as inner:
        inner.setattr(Ciphertexts, "outgoing", noted)
        until(role(joined("p1", study.names)), Send, SimulationRng(secrets.randbits(64)))
    return int.from_bytes(left[0], "big")


def _indicator(key: PublicKey, bit: int, zeta: SecretKey) -> Ciphertext:
    """v_j as Charlie makes it."""
    return key.read(FullPool(key, zeta.obfuscators(SystemRng(), 1)).encrypt(bit, "x").use(), CHARLIE)


def test_f3_the_lead_reads_the_parity_of_a_class_off_a_short_obfuscator(monkeypatch: pytest.MonkeyPatch) -> None:
    """J(v^e c) = J(v)^e J(c), and J(c) = 1 for a short obfuscator: so of k_j, and of n_j."""
    study, zeta = proven_study(2, 3), secret_key(512)
    key = zeta.public

    def right(times: int) -> int:
        hits = 0
        for i in range(times):
            while True:  # the lead waits for a v_j whose symbol is -1
                v = _indicator(key, i % 2, zeta)
                if gmpy2.jacobi(v.to_int() % key.n, key.n) == -1:
                    break
            seen = _term_of(v, study, i, monkeypatch)
            hits += int(gmpy2.jacobi(seen % key.n, key.n) == -1) == i % 2
        return hits

    assert 25 < right(100) < 75  # beyond with a chance of 6e-7
    monkeypatch.setattr(PublicKey, "full_obfuscators", PublicKey.short_obfuscators)
    assert right(30) == 30


def test_a_class_is_found_by_trying_all_unless_it_leaves_rerandomized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has v_j can work out v_j^(k + 2^7) for every class k: the lead does, and has each party's term."""
    study, zeta = proven_study(2, 3), secret_key(512)
    v = _indicator(zeta.public, 0, zeta)

    def found() -> list[int]:
        target = _term_of(v, study, 47, monkeypatch)
        tried = (gmpy2.powmod(v.to_int(), k + SIZE_CLASSES, zeta.public.mod_n2) for k in range(SIZE_CLASSES))
        return [k for k, power in enumerate(tried) if power == target]

    assert found() == []
    monkeypatch.setattr(FullPool, "rerandomize", lambda self, c, to: _fresh(self.key, to, c.to_int()))
    assert found() == [47]


def test_f6_classes_leave_under_exponents_of_one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of v_j^(k_j + 2^7) shows little of k_j; k_j alone would have 0 to 7 bits."""
    lengths: set[int] = set()
    times = Ciphertext.__mul__

    def watched(self: Ciphertext, scalar: int) -> Ciphertext:
        lengths.add(scalar.bit_length())
        return times(self, scalar)

    study, zeta = proven_study(2, 3), secret_key(512)
    v = _indicator(zeta.public, 1, zeta)
    monkeypatch.setattr(Ciphertext, "__mul__", watched)
    for k in (0, 1, 64, SIZE_CLASSES - 1):
        _term_of(v, study, k, monkeypatch)
    assert lengths == {8}


def test_g20_nobody_alone_opens_another_s_class() -> None:
    """Terms travel in boxes that Charlie cannot open, under a key that the parties lack. The total shows one class."""
    study = proven_study(3, 4, colluders=1)
    r = run(study, make_data(study, (60, 20, 90)))
    kinds = {kind for _, kind, _ in received(r.table, CHARLIE)}
    assert "ClassTotal" in kinds
    assert "ClassTerm" not in kinds
    assert drawn(r.table, CHARLIE, "size class") == SIZE_CLASSES + 4  # 20 = 10 2^(4/4), and of 60 and 90 nothing
    # The lead's own key is another: as a ciphertext under it, the total is a number of nearly full length.
    (body,) = (body for _, kind, body in received(r.table, CHARLIE) if kind == "ClassTotal")
    xi = SecretKey(*drawn(r.table, "p0", "key xi"))
    value = gmpy2.mpz(int.from_bytes(body[-xi.public.ciphertext_bytes :], "big"))
    assert xi.decrypt(Ciphertext(xi.public, value % xi.public.mod_n2)) > 2**400


def _changed(old: str, new: str) -> Any:
    """``select_class`` as it is, but for one expression."""
    source = inspect.getsource(size_class.select_class)
    assert source.count(old) == 1
    names = vars(size_class).copy()
    exec(source.replace(old, new), names)  # noqa: S102
    return names["select_class"]


def _with_indicator(patch: pytest.MonkeyPatch, u: Sequence[int]) -> None:
    """A Charlie who sends these numbers in place of a single 1."""
    encrypt, slots = FullPool.encrypt, iter(u)
    patch.setattr(
        FullPool, "encrypt", lambda self, plain, to: encrypt(self, next(slots) if to == PARTIES else plain, to)
    )


def test_an_indicator_with_weights_shows_charlie_one_class_and_rho_hides_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With u = (1, 2^40, 2^80) he would read every k_j out of one total."""
    study = proven_study(3, 4)
    data = make_data(study, (40, 20, 90))
    opened: list[int] = []
    decrypt = SecretKey.decrypt

    def watched(self: SecretKey, c: Ciphertext) -> int:
        opened.append(decrypt(self, c))
        return opened[-1]

    def read() -> set[int]:
        opened.clear()
        with monkeypatch.context() as patch:
            patch.setattr(SecretKey, "decrypt", watched)
            _with_indicator(patch, (1, 2**40, 2**80))
            with suppress(SumRefused):
                run(study, data)
        return {opened[-1] >> shift & (2**40 - 1) for shift in (0, 40, 80)}

    classes = {SIZE_CLASSES + public.joint_noise_of(study).class_of(n) for n in (40, 20, 90)}
    assert len(read() & classes) <= 1
    # With rho taken out he reads all three.
    monkeypatch.setattr(size_class, "select_class", _changed("rho << _CLASS_BITS", "0"))
    assert read() == classes


# --- Who breaks the rules: the check carries the proof --------------------------------------------------


def _claims(patch: pytest.MonkeyPatch, who: str, k: int) -> None:
    """A party that sends this class in place of its own, and then accepts whatever is announced."""
    select = size_class.select_class

    async def lying(seat: Seat, study: Study, pool: FullPool, v_j: Ciphertext, k_j: int) -> int:
        if seat.me != who:
            return await select(seat, study, pool, v_j, k_j)
        try:
            return await select(seat, study, pool, v_j, k)
        except SumRefused:
            return k

    patch.setattr(size_class, "select_class", lying)


def _announces(patch: pytest.MonkeyPatch, k: int) -> None:
    """A Charlie who announces this class, whatever was selected."""

    async def lying(seat: Seat, study: Study, zeta: SecretKey) -> None:
        await seat.receive(size_class.ClassTotal, study.lead)
        await seat.broadcast(size_class.SizeClass.model_construct(k=k))

    patch.setattr(size_class, "announce_class", lying)


def _sent_shares(study: Study, data: dict[str, Dataset]) -> set[str]:
    """Run until somebody refuses; return who had sent a share by then."""
    table = Table(study.names)
    with pytest.raises(SumRefused, match="asks for less noise than this party's records need") as caught:
        run_in_memory(la, study, data, table=table)
    assert not getattr(caught.value, "peer", "")  # nobody can tell who
    return {message.source for message in table.passed if message.type == "Share"}


@pytest.mark.parametrize("k", [5, 40, 127])
def test_a_class_that_is_too_large_for_anybody_s_records_is_refused_before_a_share_leaves(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smallest party, of 20 records and class 4, lies about its size; or Charlie about the total."""
    study = proven_study(3, 4)
    data = make_data(study, (22, 20, 21))  # all of class 4
    with monkeypatch.context() as patch:
        _claims(patch, "p1", k)
        assert not _sent_shares(study, data) & {"p0", "p2"}
    _announces(monkeypatch, k)
    assert not _sent_shares(study, data)


def test_a_number_that_is_no_class_is_charlie_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    study = proven_study(3, 4)
    _announces(monkeypatch, 10**6)
    with pytest.raises(ProtocolViolation) as caught:
        run(study, make_data(study, (20, 30, 40)))
    assert caught.value.peer == CHARLIE


def test_the_second_smallest_party_s_class_is_refused_by_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    study = proven_study(3, 4)
    _announces(monkeypatch, 8)  # that of 40 records
    assert "p1" not in _sent_shares(study, make_data(study, (40, 20, 90)))


def _left(r: Run, study: Study) -> float:
    """The noise of a run whose classifiers are zero, over that which 20 records need."""
    opened = opened_sum(r)
    return math.sqrt(sum(v * v for v in opened) / len(opened)) / GRID / sd_by_scipy(study, "selected", 20)


def test_the_check_carries_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the check, claims and indicators of any kind leave as much noise as p1's 20 records need, or no release.

    Without it a claim of a hundred times the records leaves a hundredth of the noise, and nobody notices.
    """
    study = proven_study(3, 400, bits=1024)
    data = make_data(study, (60, 20, 90))
    without_classifiers(monkeypatch)
    assert 0.9 < _left(run(study, data), study) < 1.1
    for k in (0, 2, 4):  # a claim of fewer records: more noise than is needed
        with monkeypatch.context() as patch:
            _claims(patch, "p1", k)
            assert _left(run(study, data), study) > 0.9
    monkeypatch.setattr(size_class, "select_class", _changed("k > k_j", "False"))
    with monkeypatch.context() as patch:
        _announces(patch, 4 + 26)  # 2^(26/4), ninety times the records
        assert _left(run(study, data), study) < 0.02


async def _tells_each_its_own_class(table: Table, study: Study, sizes: Sequence[int]) -> None:
    noise = public.joint_noise_of(study)
    told = {n: size_class.SizeClass(k=noise.class_of(size)) for n, size in zip(study.names, sizes, strict=True)}
    await tell_each(table, told)


def test_parties_that_were_told_different_classes_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charlie tells each party its own class, which it accepts. What they open has too little noise for the smallest.

    The masks follow from the class, so they do not cancel. With masks that do not, the sum opens.
    """
    study, sizes = proven_study(3, 400, bits=1024), (4000, 20, 4000)
    data = make_data(study, sizes)
    without_classifiers(monkeypatch)

    def outcome() -> Run:
        table = Table(study.names)

        async def lying(seat: Seat, study: Study, zeta: SecretKey) -> None:
            await seat.receive(size_class.ClassTotal, study.lead)
            await _tells_each_its_own_class(table, study, sizes)

        monkeypatch.setattr(size_class, "announce_class", lying)
        return Run(study, data, table, run_in_memory(la, study, data, table=table))

    with pytest.raises(RunFailed):
        outcome()
    share = public_scale.share_noisy
    monkeypatch.setattr(
        public_scale, "share_noisy", lambda seat, study, vector, bound_to: share(seat, study, vector, bound_to[:32])
    )
    assert _left(outcome(), study) < 0.7


def test_a_charlie_who_selects_nobody_announces_no_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """With u = 0 the offset is missing from the total."""
    _with_indicator(monkeypatch, (0, 0, 0))
    study = proven_study(3, 20)
    with raises(SumRefused, "no_size_class"):
        run(study, make_data(study, (10, 20, 30)))


@pytest.mark.parametrize("rule", ["selected", "floor", "sizes"])
def test_charlie_and_a_party_that_break_the_rules_cannot_take_the_others_noise_off(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p0 adds neither noise nor a classifier, and Charlie knows all that p0 knows.

    They are left with the honest parties' sum under K - 1 shares of noise: as much as the privacy target asks for.
    """
    d = 400
    study = proven_study(3, d, rule, colluders=1, bits=1024)
    data, layout = make_data(study, (60, 20, 90)), public.packing(study)
    modulus, give = public_scale._modulus(study), additive_shares.give_share
    known: dict[str, list[int]] = {name: [0] * layout.count for name in ("p1", "p2")}

    published: dict[str, tuple[int, ...]] = {}

    async def lying(seat: Seat, *args: Any) -> Shares:
        study, layout, modulus, vector, hidden_by, seed = args
        sent = (0,) * len(vector) if seat.me == "p0" else vector
        shares = await give(seat, study, layout, modulus, sent, hidden_by, seed)
        published.update(shares.values)
        return shares

    def watched(seat: Seat, participants: Sequence[str], bound_to: bytes, modulus: int, count: int) -> tuple[int, ...]:
        if seat.me in known:  # the masks that p0 or Charlie can compute, of each honest party's share
            for liar, seed in (("p0", bound_to), (CHARLIE, b"")):
                sign = 1 if participants.index(seat.me) < participants.index(liar) else -1
                masks = mask(seat.pair_key(liar, "shares of zero", context=seed), b"zero share", modulus, count)
                known[seat.me] = [k + sign * m for k, m in zip(known[seat.me], masks, strict=True)]
        return zero_share(seat, participants, bound_to, modulus, count)

    monkeypatch.setattr(public_scale, "give_share", lying)
    monkeypatch.setattr(additive_shares, "zero_share", watched)
    run(study, data, {name: SimulationRng(11, name) for name in (*study.names, CHARLIE)})
    rest = {
        name: [(s - k) % modulus for s, k in zip(published[name], masks, strict=True)] for name, masks in known.items()
    }
    for values in rest.values():  # no single vector
        with pytest.raises(RunFailed):
            layout.unpack(values, modulus)
    both = layout.unpack([(a + b) % modulus for a, b in zip(*rest.values(), strict=True)], modulus)
    honest = {name: data[name] for name in known}
    left = [v - e for v, e in zip(both[-d:], encoded_sum(study, honest, rule), strict=True)]
    sd = sd_by_scipy(study, rule, 20 if rule == "selected" else 10) * GRID
    assert 1e-6 < stats.chi2(d).cdf(sum((v / sd) ** 2 for v in left)) < 1 - 1e-6
    # The test can fail: with 30 % less or more.
    for off in (0.7, 1.3):
        assert not 1e-6 < stats.chi2(d).cdf(sum((off * v / sd) ** 2 for v in left)) < 1 - 1e-6

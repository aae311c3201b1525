"""Attacks on noise in shares, each coded: it succeeds when its fix is taken out, and fails with it.

The names are those of ``docs/privacy/local-aggregation.md`` and ``docs/protocols/local-aggregation.md``. Every attacker
uses only what it holds in the protocol, its own draws and what it received, and public numbers.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Sequence
from typing import Any

import gmpy2
import numpy as np
import pytest
from scipy import stats

from masquerade_core.crypto.paillier import Ciphertext, Fresh, FullPool, PublicKey, SecretKey
from masquerade_core.crypto.pools import _fresh
from masquerade_core.crypto.shares import mask, permutation
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import RunFailed
from masquerade_core.model import Shares
from masquerade_core.privacy.noise.joint_gaussian import FINE, UNIT, JointNoise
from masquerade_core.rng import Rng, SimulationRng, SystemRng
from masquerade_core.seat import Seat, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.messages import PARTIES, Ciphertexts
from masquerade_protocols.local_aggregation import additive_shares, public, public_scale
from masquerade_protocols.local_aggregation import joint_noise as jn
from masquerade_protocols.local_aggregation.public import FRACTION_BITS
from masquerade_protocols.local_aggregation.zero_sharing import zero_share
from tests.helpers import joined, secret_key, until
from tests.protocol_helpers import Run, make_data, make_study, run
from tests.proven_helpers import GRID, Vector, encoded_sum, opened_sum, proven_study, sd_by_scipy, weights
from tests.sum_helpers import drawn, received

# --- G6: the smallest party takes the noise off ------------------------------------------------------


def _without_own(r: Run, me: str, b: int) -> Vector:
    """The opened sum less all that a party knows of it: its classifier, and its share of noise at scale b."""
    unit, fine = drawn(r.table, me, "noise")
    w = jn.encode(drawn(r.table, me, "classifier"))
    own = [u * b + f + v for u, f, v in zip(unit or (0,) * len(fine), fine, w, strict=True)]
    return np.array([o - s for o, s in zip(opened_sum(r), own, strict=True)], dtype=np.float64) / GRID


@pytest.mark.parametrize("rule", ["selected", "floor"])
def test_g6_the_smallest_party_no_longer_takes_the_noise_off(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left with the others' sum under K - 1 shares of noise, even if somebody tells it the scale."""
    K, d, sizes = 3, 60, (60, 20, 90)
    study = proven_study(K, d, rule, colluders=1)
    data = make_data(study, sizes)
    b = public.joint_noise_of(study).scale(20)

    def left() -> Vector:
        others = [w for w, name in zip(weights(study, data), study.names, strict=True) if name != "p1"]
        rest: Vector = _without_own(run(study, data), "p1", b) - np.sum(others, axis=0)
        return rest

    # K - 1 = h shares: as much noise as the privacy target asks for, and no less.
    sd = sd_by_scipy(study, rule, 20 if rule == "selected" else 10)
    assert 1e-6 < stats.chi2(d).cdf((left() ** 2).sum() / sd**2) < 1 - 1e-6
    # With the fix taken out it has the others' sum to the last bit: one party draws all of the noise.
    draw, of_one = jn.draw, iter((0, 1, 0))

    def alone(rng: Rng, noise: JointNoise) -> jn.Drawn:
        mine = draw(rng, noise)
        return mine if next(of_one) else jn.Drawn(tuple(0 for _ in mine.unit), tuple(0 for _ in mine.fine))

    monkeypatch.setattr(jn, "draw", alone)
    assert np.abs(left()).max() < 1e-11


def test_g6_in_the_paper_s_calibration_it_still_does() -> None:
    study = make_study(3, 5)
    data = make_data(study, (60, 20, 90))
    r = run(study, data)
    own = np.array(drawn(r.table, "p1", "noise"), dtype=np.float64) / 2**FRACTION_BITS
    rest = np.array(r.total) / 2**FRACTION_BITS - own
    np.testing.assert_allclose(rest, np.sum(weights(study, data), axis=0), atol=1e-8)


# --- F1: a multiple of the noise leaves the sum on a lattice -----------------------------------------


def _fine_times(patch: pytest.MonkeyPatch, factor: float) -> None:
    """Take the fix out: multiply the fine noise by a factor, where 0 removes it."""
    draw = jn.draw

    def changed(rng: Rng, noise: JointNoise) -> jn.Drawn:
        one = draw(rng, noise)
        return one._replace(fine=tuple(round(v * factor) for v in one.fine))

    patch.setattr(jn, "draw", changed)


def _residues(study: Study, data: dict[str, Dataset], runs: int) -> list[list[float]]:
    """The release less the sum that Dave expects, modulo b, over b. He guesses one record, and knows all else."""
    b = public.joint_noise_of(study).scale(min(len(part.y) for part in data.values()))
    assert b > 10**6
    expected = encoded_sum(study, data)
    return [[(v - e) % b / b for v, e in zip(opened_sum(run(study, data)), expected, strict=True)] for _ in range(runs)]


@pytest.mark.parametrize("K", [2, 3])
def test_f1_anybody_tells_records_by_the_sum_modulo_the_scale(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    study = proven_study(K, 12, epsilon=0.1)
    data = make_data(study, [20 + j for j in range(K)])

    # With the fine noise a residue is uniform: no coordinate is 0, and none is likelier than another.
    found = np.array(_residues(study, data, 6)).ravel()
    assert found.min() > 0
    assert stats.kstest(found, "uniform").pvalue > 1e-6

    # Without it every coordinate of every release is that of these records: they are recognised every time.
    _fine_times(monkeypatch, 0)
    assert not np.any(_residues(study, data, 3))


def _guesses(study: Study, times: int) -> int:
    """How often Dave tells which of two neighbouring tables was used: the one whose residues are nearer to 0.

    The release is made here; ``test_local_proven.py`` shows that it is just that, to the bit.
    """
    data = make_data(study, (20, 21))
    y = data["p0"].y.copy()
    y[5] = -y[5]
    tables = [encoded_sum(study, table) for table in (data, {**data, "p0": Dataset(data["p0"].X, y)})]
    noise, rng = public.joint_noise_of(study), SimulationRng(5)
    b, hits = noise.scale(20), 0
    for i in range(times):
        total = tables[i % 2]
        for one in (jn.draw(rng, noise) for _ in study.names):
            total = [w + b * g + f for w, g, f in zip(total, one.unit, one.fine, strict=True)]
        distance = [sum(min((t - e) % b, (e - t) % b) for t, e in zip(total, table, strict=True)) for table in tables]
        hits += int(distance[1] < distance[0]) == i % 2
    return hits


def test_f1_guessing_between_neighbours_is_no_better_than_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    study = proven_study(2, 8, epsilon=0.1)
    assert 27 < _guesses(study, 100) < 73  # beyond with a chance of 6e-6
    with monkeypatch.context() as patch:
        _fine_times(patch, 0)
        assert _guesses(study, 20) == 20
    # A hundredth of it, about b/10, is too little.
    _fine_times(monkeypatch, 1 / 100)
    assert _guesses(study, 100) > 75


# --- The scale under encryption -----------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[int]]]:
    """Every vector of ciphertexts that anybody reads: (sender, residues)."""
    seen: list[tuple[str, list[int]]] = []
    read = Ciphertexts.read

    def watched(self: Ciphertexts, key: PublicKey, count: int, peer: str) -> tuple[Ciphertext, ...]:
        values = read(self, key, count, peer)
        seen.append((peer, [c.to_int() for c in values]))
        return values

    monkeypatch.setattr(Ciphertexts, "read", watched)
    return seen


def _scales(seen: list[tuple[str, list[int]]]) -> dict[str, int]:
    """ScaleTerms and the lead's Scale by sender; vectors of noise are longer."""
    return {peer: values[0] for peer, values in seen if len(values) == 1}


def _zeta(r: Run) -> SecretKey:
    return SecretKey(*drawn(r.table, CHARLIE, "key zeta"))


def test_g20_the_lead_cannot_open_the_scale_and_charlie_with_a_party_can(reads: list[tuple[str, list[int]]]) -> None:
    """The scale is under Charlie's key. With a party he learns n_(1), as the statement says, and no other size."""
    study = proven_study(3, 20, colluders=1)
    noise = public.joint_noise_of(study)
    r = run(study, make_data(study, (60, 20, 90)))
    seen = _scales(reads)
    assert set(seen) == {"p0", "p1", "p2"}
    zeta, xi = _zeta(r), SecretKey(*drawn(r.table, "p0", "key xi"))

    def opened(peer: str) -> int:
        return zeta.decrypt(Ciphertext(zeta.public, gmpy2.mpz(seen[peer])))

    # The lead's own key is another: as a ciphertext under it, each is a number of nearly full length, and no scale.
    for value in seen.values():
        assert xi.decrypt(Ciphertext(xi.public, gmpy2.mpz(value) % xi.public.mod_n2)) > 2**400

    # Charlie relays boxes: neither message reaches him in the clear.
    kinds = {kind for _, kind, _ in received(r.table, CHARLIE)}
    assert "NoiseTotal" in kinds
    assert not {"ScaleTerm", "Scale"} & kinds

    # With p2 he reads b; p2 has no other party's term. With the lead, which has them, v_j b_j: 0 but for the smallest.
    assert opened("p0") == noise.scale(20)
    assert [opened("p1"), opened("p2")] == [noise.scale(20) + (1 << noise.largest_scale.bit_length()), 0]


def _term_of(v: Ciphertext, study: Study, noise: JointNoise, b_j: int, patch: pytest.MonkeyPatch) -> int:
    """The ciphertext that a party, not the lead, sends to the lead in a sealed message."""
    left: list[bytes] = []
    outgoing = Ciphertexts.outgoing

    def noted(fresh: Sequence[Fresh]) -> Ciphertexts:
        message = outgoing(fresh)
        left.append(message._raw)
        return message

    with patch.context() as inner:
        inner.setattr(Ciphertexts, "outgoing", noted)
        seat = joined("p1", study.names)
        until(jn.select_scale(seat, study, noise, v, b_j), Send, SimulationRng(secrets.randbits(64)))
    return int.from_bytes(left[0], "big")


def test_f3_the_lead_reads_the_parity_of_a_scale_off_a_short_obfuscator(monkeypatch: pytest.MonkeyPatch) -> None:
    """J(v^e c) = J(v)^e J(c), and J(c) = 1 for a short obfuscator: so of b_j, and of n_j."""
    study = proven_study(2, 3)
    noise, zeta, rng = public.joint_noise_of(study), secret_key(512), SystemRng()
    key = zeta.public

    def right(times: int) -> int:
        hits = 0
        for i in range(times):
            while True:  # Charlie's v_j; the lead waits for one whose symbol is -1
                v = key.read(FullPool(key, zeta.obfuscators(rng, 1)).encrypt(i % 2, "x").use(), CHARLIE)
                if gmpy2.jacobi(v.to_int() % key.n, key.n) == -1:
                    break
            b_j = noise.scale(20 + i)
            seen = _term_of(v, study, noise, b_j, monkeypatch)
            hits += int(gmpy2.jacobi(seen % key.n, key.n) == -1) == b_j % 2
        return hits

    assert 25 < right(100) < 75  # beyond with a chance of 6e-7
    monkeypatch.setattr(PublicKey, "full_obfuscators", PublicKey.short_obfuscators)
    assert right(30) == 30


def _indicator(r: Run, name: str) -> int:
    """v_j as every party has it: the entry of Charlie's broadcast at this party's slot of pi1."""
    nonces = b"".join(drawn(r.table, who, "coins")[:32] for who in r.study.names)
    seed = hashlib.sha256(b"masquerade seed\0" + r.table.run_id + nonces).digest()
    slot = permutation(seed, "pi1", r.study.K)[r.study.names.index(name)]
    (body,) = (body for _, kind, body in received(r.table, "p0") if kind == "Indicator")
    width = _zeta(r).public.ciphertext_bytes
    raw = body[-r.study.K * width :]
    return int.from_bytes(raw[slot * width : (slot + 1) * width], "big")


@pytest.mark.parametrize("attacker", ["p0", "p1"])
def test_a_scale_is_found_by_trying_all_sizes_unless_it_leaves_rerandomized(
    attacker: str, monkeypatch: pytest.MonkeyPatch, reads: list[tuple[str, list[int]]]
) -> None:
    """Whoever has v_j can work out v_j^(b_j + offset) for every n_j: the lead for p1, and p1 for the lead."""
    study = proven_study(2, 20)
    noise = public.joint_noise_of(study)
    offset = 1 << noise.largest_scale.bit_length()

    def found() -> list[int]:
        reads.clear()
        r = run(study, make_data(study, (33, 47)))
        seen, key = _scales(reads), _zeta(r).public
        target, victim = seen["p1"], "p1"
        if attacker == "p1":  # the total without its own term and the offset
            target, victim = seen["p0"] * gmpy2.invert(seen["p1"], key.mod_n2) * (1 + offset * key.n), "p0"
        v = _indicator(r, victim)
        tried = {n: gmpy2.powmod(v, noise.scale(n) + offset, key.mod_n2) for n in range(10, 90)}
        return [n for n, power in tried.items() if (power - target) % key.mod_n2 == 0]

    assert found() == []
    monkeypatch.setattr(FullPool, "rerandomize", lambda self, c, to: _fresh(self.key, to, c.to_int()))
    assert found() == [47 if attacker == "p0" else 33]


def test_f6_scales_leave_under_exponents_of_one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of v_j^(b_j + offset) shows nothing of n_j; b_j alone would."""
    lengths: set[int] = set()
    times = Ciphertext.__mul__

    def watched(self: Ciphertext, scalar: int) -> Ciphertext:
        lengths.add(scalar.bit_length())
        return times(self, scalar)

    study = proven_study(2, 3)
    noise, key = public.joint_noise_of(study), secret_key(512).public
    v = key.read(FullPool(key, key.full_obfuscators(SystemRng(), 1)).encrypt(1, "x").use(), CHARLIE)
    monkeypatch.setattr(Ciphertext, "__mul__", watched)
    scales = [noise.scale(n) for n in (10, 100, 5000, 10**6)]
    assert len({b.bit_length() for b in scales}) == 4
    for b in scales:
        _term_of(v, study, noise, b, monkeypatch)
    assert lengths == {noise.largest_scale.bit_length() + 1}


# --- Who has what of the noise ------------------------------------------------------------------------


def test_charlie_with_the_lead_gets_the_others_sum_with_its_noise_and_no_single_one(
    reads: list[tuple[str, list[int]]],
) -> None:
    """They hold both keys and open every NoiseTerm. Only the mask between two honest parties still hides these."""
    study = proven_study(3, 20, colluders=1)
    data = make_data(study, (60, 20, 90))
    r = run(study, data)
    layout, zeta, shares = public.packing(study), _zeta(r), r.shares.values
    N, noise = zeta.public.n, public.joint_noise_of(study)
    b = zeta.decrypt(Ciphertext(zeta.public, gmpy2.mpz(_scales(reads)["p0"])))
    terms = {peer: values for peer, values in reads if len(values) == layout.count and peer in ("p1", "p2")}

    def half(name: str) -> list[int]:
        """B g_j + S_j, opened, and the share W_j + f_j - S_j + z_j: without S_j."""
        plain = [zeta.decrypt(Ciphertext(zeta.public, gmpy2.mpz(c))) for c in terms[name]]
        offsets = layout.exponent_offsets()
        return [(p - b * o + s) % N for p, o, s in zip(plain, offsets, shares[name], strict=True)]

    # Their own z_0 + z_C, from what the two sent: then the honest parties' z_1 + z_2 is known too.
    unit, fine = drawn(r.table, "p0", "noise")
    own = layout.pack([w + f for w, f in zip(jn.encode(drawn(r.table, "p0", "classifier")), fine, strict=True)])
    blind, opened = drawn(r.table, "p0", "blinds S"), drawn(r.table, CHARLIE, "blinded noise")
    masks = [a - w + s + c - o for a, w, s, c, o in zip(shares["p0"], own, blind, shares[CHARLIE], opened, strict=True)]
    both = [(x + y + z) % N for x, y, z in zip(half("p1"), half("p2"), masks, strict=True)]

    true = [0] * study.d
    for name in ("p1", "p2"):
        g, f = drawn(r.table, name, "noise")
        w = jn.encode(drawn(r.table, name, "classifier"))
        true = [t + b * x + y + z for t, x, y, z in zip(true, g, f, w, strict=True)]
    assert b == noise.scale(20)
    assert layout.unpack(both, N) == tuple(true)
    for name in ("p1", "p2"):
        with pytest.raises(RunFailed):
            layout.unpack(half(name), N)
        with pytest.raises(RunFailed):
            layout.unpack([(x + z) % N for x, z in zip(half(name), masks, strict=True)], N)
    assert len(unit) == study.d


def test_a_lead_that_sends_a_scale_of_zero_leaves_the_fine_noise_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the statement says of rule breakers: nobody notices, and FINE/UNIT of the largest noise is left."""
    select = jn.select_scale

    async def none(seat: Seat, study: Study, noise: JointNoise, v_j: Ciphertext, b_j: int) -> Ciphertext:
        if seat.me != study.lead:
            return await select(seat, study, noise, v_j, b_j)
        await seat.gather(jn.ScaleTerm)
        pool = FullPool(v_j.key, await seat.once("zeros", lambda rng: v_j.key.full_obfuscators(rng, 2)))
        await seat.send_sealed(jn.Scale(scale=Ciphertexts.outgoing([pool.encrypt(0, PARTIES)])))
        return v_j.key.read(pool.encrypt(0, seat.me).use(), seat.me)

    monkeypatch.setattr(jn, "select_scale", none)
    study = proven_study(3, 60)
    data = make_data(study, (10, 20, 30))
    r = run(study, data)
    left = np.array([v - e for v, e in zip(opened_sum(r), encoded_sum(study, data), strict=True)], dtype=np.float64)
    sd = math.sqrt(3) * FINE * public.joint_noise_of(study).largest_scale
    assert 1e-6 < stats.chi2(60).cdf(((left / sd) ** 2).sum()) < 1 - 1e-6


def test_one_party_that_claims_the_fewest_records_and_no_scale_leaves_the_fine_noise_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the statement says of rule breakers with "selected". Charlie and all others follow the protocol."""
    select = jn.select_scale

    async def nothing(seat: Seat, study: Study, noise: JointNoise, v_j: Ciphertext, b_j: int) -> Ciphertext:
        if seat.me != "p2":
            return await select(seat, study, noise, v_j, b_j)
        pool = FullPool(v_j.key, await seat.once("mine", lambda rng: v_j.key.full_obfuscators(rng, 1)))
        term = v_j * (1 << noise.largest_scale.bit_length())  # the offset alone, which makes b_j = 0
        fresh = Ciphertexts.outgoing([pool.rerandomize(term, study.lead)])
        await seat.send_sealed(jn.ScaleTerm(term=fresh), study.lead)
        (scale,) = (await seat.receive(jn.Scale, study.lead)).scale.read(v_j.key, 1, study.lead)
        return scale

    monkeypatch.setattr(jn, "select_scale", nothing)
    study = proven_study(3, 60)
    data = make_data(study, (20, 30, 10))
    r = run(study, data)
    left = np.array([v - e for v, e in zip(opened_sum(r), encoded_sum(study, data), strict=True)], dtype=np.float64)
    sd = math.sqrt(3) * FINE * public.joint_noise_of(study).largest_scale
    assert 1e-6 < stats.chi2(60).cdf(((left / sd) ** 2).sum()) < 1 - 1e-6


@pytest.mark.parametrize("rule", ["floor", "sizes"])
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
                masks = mask(seat.shared_key(liar, b"zero" + seed), b"zero share", modulus, count)
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
    sd = sd_by_scipy(study, rule, 10) * GRID
    assert 1e-6 < stats.chi2(d).cdf(sum((v / sd) ** 2 for v in left)) < 1 - 1e-6
    # The test can fail: with 30 % less or more.
    for off in (0.7, 1.3):
        assert not 1e-6 < stats.chi2(d).cdf(sum((off * v / sd) ** 2 for v in left)) < 1 - 1e-6


def test_a_charlie_who_selects_nobody_gets_more_noise_and_not_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """With u = 0 only the offset is left of the scale, and the offset is larger than any scale."""
    encrypt = FullPool.encrypt
    monkeypatch.setattr(FullPool, "encrypt", lambda self, plain, to: encrypt(self, 0 if to == PARTIES else plain, to))
    study = proven_study(3, 20)
    data = make_data(study, (10, 20, 30))
    r = run(study, data)
    left = np.array([v - e for v, e in zip(opened_sum(r), encoded_sum(study, data), strict=True)], dtype=np.float64)
    assert np.std(left) > UNIT * public.joint_noise_of(study).largest_scale


def test_by_default_there_is_no_indicator_to_check() -> None:
    """Nothing proves that Charlie's encrypted indicator holds one 1. By default there is none, nor a lead's scale.

    For "selected" the statement says what an indicator that is none does; the three tests above carry it out.
    """
    study = proven_study(3, 4, section="")
    assert public.joint_noise_of(study).scale_rule == "floor"
    data = make_data(study, (10, 20, 30))
    about_scales = {"Indicator", "ScaleTerm", "Scale", "PermutedShares"}
    assert not about_scales & {message.type for message in run(study, data).table.passed}
    selected = proven_study(3, 4, "selected")
    assert about_scales <= {message.type for message in run(selected, data).table.passed}

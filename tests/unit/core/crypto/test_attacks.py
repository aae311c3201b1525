"""Attacks on local aggregation, each coded: it succeeds when its fix is taken out, and fails with it.

The names are those of ``docs/protocols/local-aggregation.md``. Every attacker uses only what it holds in the
protocol: its own keys and draws, and what it received; taking a fix out is a monkeypatch of the one function that is
the fix.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import cycle
from typing import Any

import gmpy2
import pytest
from nacl.bindings import crypto_core_ed25519_sub

from masquerade_core import seat
from masquerade_core.crypto import comparison, shares
from masquerade_core.crypto.boxes import BOX_OVERHEAD
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import (
    Ciphertext,
    Fresh,
    FullPool,
    PublicKey,
    SecretKey,
    ShortPool,
    _fresh,
    draw_primes,
)
from masquerade_core.crypto.shares import invert, permutation
from masquerade_core.learning.erm import fit
from masquerade_core.privacy.noise.output_perturbation import paper_scale
from masquerade_core.privacy.samplers.discrete_laplace import discrete_laplace
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.frames import Endpoint, Frame
from masquerade_protocols.blocks import coin_toss as joint
from masquerade_protocols.local_aggregation import before_join, tournament
from masquerade_protocols.local_aggregation import roles as la
from masquerade_protocols.local_aggregation.public import FRACTION_BITS
from tests.helpers import primes
from tests.protocol_helpers import make_data, make_study, run

RNG = SystemRng()


class _SeenEnough(Exception):
    """Ends a run when the attacker has all that it uses: what follows costs time and says nothing."""


@pytest.fixture
def known_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all runs have the same two keys, where an attack does not depend on them: primes take long to find."""
    keys = cycle((0, 1))
    monkeypatch.setattr(la, "draw_primes", lambda _rng, bits: primes(bits, next(keys)))


# --- F1: a multiple of the noise leaves the sum on a lattice ---------------------------------------


def _multiplied(rng: Rng, study: Study, n: int) -> tuple[int, ...]:
    """The noise with the fix taken out: drawn for the average, then multiplied by K."""
    b = paper_scale(n, study.privacy.epsilon, study.model.regularization) * Fraction(1 << FRACTION_BITS)
    return tuple(study.K * v for v in discrete_laplace(rng, b, study.d))


@pytest.mark.usefixtures("known_keys")
@pytest.mark.parametrize("K", [2, 3])
def test_f1_anybody_tells_neighbours_apart_by_the_sum_modulo_k(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    study = make_study(K, 30, epsilon=0.1)
    data = make_data(study, [20 + j for j in range(K)])

    def guessed() -> bool:
        """Say whether the released sum is that of these records, of which Dave knows all but one."""
        r = run(study, data)
        w = [before_join.encode_weights(fit(x.X, x.y, study.model.regularization).tolist()) for x in data.values()]
        known = [sum(column) for column in zip(*w, strict=True)]
        return all((t - k) % K == 0 for t, k in zip(r.total, known, strict=True))

    assert not any(guessed() for _ in range(2))  # by chance: K^-30 a run
    monkeypatch.setattr(before_join, "draw_noise", _multiplied)
    assert all(guessed() for _ in range(2))


# --- F2: the bracket shows ties --------------------------------------------------------------------


def _brackets(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], runs: int) -> Counter[tuple[Any, ...]]:
    """Which side wins each match, as Charlie and the lead see it. The comparison itself is replaced by its outcome."""
    study = make_study(len(sizes), 1)
    data = make_data(study, sizes)
    seen: list[Any] = []
    whole_round = tournament.charlie_round

    async def watched(*args: Any) -> list[int]:
        left = await whole_round(*args)
        seen.append(tuple(pair.index(w) for pair, w in zip(tournament.pairings(args[4]), left, strict=False)))
        if len(left) == 1:
            raise _SeenEnough
        return left

    def in_the_clear(_rng: Rng, _public: bytes, bits: bytes, x: int, _peer: str) -> tuple[bytes, int]:
        y = int.from_bytes(bits[:8], "big")
        bit = int(x % 2**32 < y % 2**32)
        return bit.to_bytes(comparison.ITEMS_BYTES, "big"), x >> 32

    with monkeypatch.context() as patch:
        patch.setattr(tournament, "charlie_round", watched)
        patch.setattr(tournament, "evaluate", in_the_clear)
        patch.setattr(
            comparison.DeciderKey,
            "encrypt_bits",
            lambda _self, _rng, y: y.to_bytes(8, "big") + bytes(comparison.BITS_BYTES - 8),
        )
        patch.setattr(comparison.DeciderKey, "count_zeros", lambda _self, items, _peer: items[-1])
        counts: Counter[tuple[Any, ...]] = Counter()
        for _ in range(runs):
            seen.clear()
            with pytest.raises(_SeenEnough):
                run(study, data)
            counts[tuple(seen)] += 1
    return counts


_LAW = {((first,), (second,)): 1 / 3 - second / 6 for first in (0, 1) for second in (0, 1)}
"""Of the bracket of three slots in an order that says nothing: the third is the smallest in one case of three."""


def _variation(found: Counter[tuple[Any, ...]]) -> float:
    assert set(found) <= set(_LAW)
    return sum(abs(found[k] / found.total() - chance) for k, chance in _LAW.items()) / 2


@pytest.mark.usefixtures("known_keys")
def test_f2_the_bracket_tells_equal_sizes_from_distinct_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    # A sample of 75 is as far from its law as two samples of 150 are from each other: 0.30 is passed once in a million.
    for sizes in ((25, 25, 25), (25, 30, 35)):
        assert _variation(_brackets(monkeypatch, sizes, 75)) < 0.30, sizes

    # Without the tie permutation's rank in N_j, all brackets are the same one.
    monkeypatch.setattr(la, "_size_with_tie", lambda n, _rank, study: n << tournament.rounds(study.K))
    assert _variation(_brackets(monkeypatch, (25, 25, 25), 10)) > 0.5


# --- F3: short obfuscators keep the Jacobi symbol --------------------------------------------------


@pytest.fixture
def watched_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[int, ...]]]:
    """What goes into Charlie's shuffle and what comes back, with the lead's key: (its modulus, residues)."""
    seen: list[tuple[int, tuple[int, ...]]] = []
    read = Ciphertexts.read

    def watched(self: Ciphertexts, key: PublicKey, count: int, peer: str) -> tuple[Ciphertext, ...]:
        values = read(self, key, count, peer)
        seen.append((key.n, tuple(c.to_int() for c in values)))
        if len(seen) == 2:
            raise _SeenEnough
        return values

    monkeypatch.setattr(Ciphertexts, "read", watched)
    return seen


def _symbols_survive(reads: list[tuple[int, tuple[int, ...]]], runs: int) -> int:
    """In how many runs the lead sees as many symbols -1 come back from Charlie's shuffle as it had sent into it."""
    study = make_study(5, 1)
    data = make_data(study, [20, 21, 22, 23, 24])
    hits = 0
    for _ in range(runs):
        reads.clear()
        with pytest.raises(_SeenEnough):
            run(study, data)
        (n, sent), (_, back) = reads
        hits += sum(gmpy2.jacobi(c % n, n) for c in sent) == sum(gmpy2.jacobi(c % n, n) for c in back)
    return hits


@pytest.mark.usefixtures("known_keys")
def test_f3_charlies_shuffle_keeps_each_slots_jacobi_symbol(
    monkeypatch: pytest.MonkeyPatch, watched_reads: list[tuple[int, tuple[int, ...]]]
) -> None:
    # By chance the counts agree with probability C(10,5)/2^10 = .246; 24 runs or more agree once in 10^10.
    assert _symbols_survive(watched_reads, 30) < 24
    monkeypatch.setattr(PublicKey, "full_obfuscators", PublicKey.short_obfuscators)
    assert _symbols_survive(watched_reads, 10) == 10


def test_f3_the_lead_reads_the_parity_of_everybodys_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key and in spite of the blind: J(v^e (1+SN) c) = J(v)^e J(c), and J(c) = 1 for a short obfuscator."""
    zeta = SecretKey(*draw_primes(RNG, 512))
    key, n = zeta.public, zeta.public.n

    def right(rounds: int) -> int:
        hits = 0
        for _ in range(rounds):
            layout = Packing(3, 1000, key.bits)
            eta = [RNG.below(2001) - 1000 for _ in range(3)]
            while True:  # Charlie's v_j; the lead waits for one whose symbol is -1
                v = key.read(FullPool(key, zeta.obfuscators(RNG, 1)).encrypt(0, "x").use(), CHARLIE)
                if gmpy2.jacobi(v.to_int() % n, n) == -1:
                    break
            (power,) = la._select(v, layout.pack_exponents(eta))
            blinded = Ciphertext(key, power) + RNG.below(n)
            pool = FullPool(key, key.full_obfuscators(RNG, 1))
            seen = pool.rerandomize(blinded, "p0").use()
            guess = int(gmpy2.jacobi(seen % n, n) == -1)
            hits += guess == (eta[0] + layout.offset) % 2
        return hits

    assert right(100) < 85  # 50 by chance; 85 once in 10^12
    monkeypatch.setattr(PublicKey, "full_obfuscators", PublicKey.short_obfuscators)
    assert right(30) == 30


# --- F4: b_j under its sender's name hands pi1 to Charlie ------------------------------------------


def _pi1_as_charlie_reads_it(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str | None], list[str]]:
    """Charlie looks for the bytes of each slot's sealed share in the frames that the parties sent under their names."""
    frames: list[Frame] = []
    opened = Endpoint.open

    def watched(self: Endpoint, hop: str, data: bytes, **kw: Any) -> Frame:
        frame = opened(self, hop, data, **kw)
        if hop != CHARLIE:
            frames.append(frame)
        return frame

    study = make_study(4, 1, lead=3)
    data = make_data(study, [20, 21, 22, 23])
    with monkeypatch.context() as patch:
        patch.setattr(Endpoint, "open", watched)
        r = run(study, data)
    (slots,) = (f.body for f in frames if f.type == "PermutedShares")
    sealed = slots[-4 * la._SEALED_BYTES :]
    boxes = [sealed[i * la._SEALED_BYTES : (i + 1) * la._SEALED_BYTES] for i in range(4)]
    found = [next((f.source for f in frames if f.type == "SizeShare" and box in f.body), None) for box in boxes]
    (seed,) = {_seed_of(r.table.journal("p0"), study, r.table.run_id)}
    true = [study.names[j] for j in invert(permutation(seed, "pi1", 4))]
    return found, true


def _seed_of(journal: Any, study: Study, run_id: bytes) -> bytes:
    """The seed of the coin toss, from everybody's nonces (for the test's verdict, not for the attack)."""
    nonces = dict(_reveals)
    return hashlib.sha256(b"masquerade seed\0" + run_id + b"".join(nonces[name] for name in study.names)).digest()


_reveals: dict[str, bytes] = {}


@pytest.fixture
def known_coins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Note everybody's coins, so that the test knows the true permutation."""
    commit = joint._commit

    def noted(run_id: bytes, name: str, nonce: bytes, salt: bytes) -> bytes:
        _reveals[name] = nonce
        return commit(run_id, name, nonce, salt)

    monkeypatch.setattr(joint, "_commit", noted)
    yield
    _reveals.clear()


@pytest.mark.usefixtures("known_coins")
def test_f4_charlie_finds_the_sealed_shares_under_their_senders_names(monkeypatch: pytest.MonkeyPatch) -> None:
    found, true = _pi1_as_charlie_reads_it(monkeypatch)
    assert found == [None] * 4

    # Without the box around it: the frame that P_j signs holds the sealed share as it stands.
    monkeypatch.setattr(seat, "seal", lambda _key, plain, _nonce: bytes(BOX_OVERHEAD) + plain)
    monkeypatch.setattr(seat, "open_sealed", lambda _key, sealed, _peer: sealed[BOX_OVERHEAD:])
    found, true = _pi1_as_charlie_reads_it(monkeypatch)
    assert [f for f in found if f] == [t for t in true if t != "p3"]  # the lead's own share stays at the lead
    assert found.count(None) == 1


# --- F6: an exponent's sign and size show in its time ----------------------------------------------


def _slowest_to_fastest() -> float:
    """CPU time of the selected noise for eta_j = -900 against +900."""
    zeta = SecretKey(*draw_primes(RNG, 1024))
    layout = Packing(1, 1000, 1024)
    v = Ciphertext(zeta.public, gmpy2.mpz(zeta.obfuscators(RNG, 1)[0]))

    def seconds(eta: int) -> float:
        exponents = [e % zeta.public.n for e in layout.pack_exponents([eta])]
        times = []
        for _ in range(15):
            start = time.thread_time()
            for e in exponents * 4:
                _ = v * e
            times.append(time.thread_time() - start)
        return min(times)

    plus, minus = seconds(900), seconds(-900)
    return max(plus, minus) / min(plus, minus)


def test_f6_a_clock_tells_the_noises_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _slowest_to_fastest() < 3
    monkeypatch.setattr(Packing, "pack_exponents", Packing.pack)
    assert _slowest_to_fastest() > 10


# --- The comparison: the scalar alone does not hide the lead's input -------------------------------


def _recover_x(scalar: int, rhos: list[int], y: int, items: bytes) -> int | None:
    """Charlie's attack: he knows every rho of his own, so an item that is only multiplied by a scalar is an equation.

    An item is s (rho G, rho X + c G) with rho a combination of his own, by the bits of x above; B - x A = s c G and A
    = s rho G. Walking from the top bit he tries both values and keeps the one for which rho (B - x A) = c A holds for
    some item.
    """
    order = comparison._ORDER
    times, sub = comparison._times, crypto_core_ed25519_sub

    def mul(k: int, point: bytes) -> bytes:
        return times((k % order).to_bytes(32, "little"), point)

    pairs = []
    for i in range(0, len(items), 64):
        a, b = items[i : i + 32], items[i + 32 : i + 64]
        if mul(scalar, a) != b:
            pairs.append((a, sub(b, mul(scalar, a))))
    for delta in (0, 1):
        x, above_rho, above_c = 0, 0, 0
        for i in reversed(range(32)):
            y_i, rho_i = y >> i & 1, rhos[31 - i]
            for x_i in (0, 1):
                rho = -rho_i + 3 * above_rho
                c = 1 - 2 * delta + x_i - y_i + 3 * above_c
                if c and any(mul(rho, p) == mul(c, a) for a, p in pairs):
                    break
            else:
                # The one item with c = 0 is not among the pairs; its bit is the one that makes it zero.
                x_i = next((v for v in (0, 1) if 1 - 2 * delta + v - y_i + 3 * above_c == 0), -1)
                if x_i < 0:
                    break
            x |= x_i << i
            above_rho += -rho_i if x_i else rho_i
            above_c += x_i ^ y_i
        else:
            return x
    return None


def test_comparison_charlie_divides_his_own_randomness_out(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = comparison._scalar
    drawn: list[int] = []

    def noted(rng: Rng) -> bytes:
        value = draw(rng)
        drawn.append(int.from_bytes(value, "little"))
        return value

    def attack(x: int, y: int) -> int | None:
        drawn.clear()
        secret = draw(RNG)
        key = comparison.DeciderKey(secret)
        with monkeypatch.context() as patch:
            patch.setattr(comparison, "_scalar", noted)
            bits = key.encrypt_bits(RNG, y)
        items, _ = comparison.evaluate(RNG, key.public, bits, x, CHARLIE)
        return _recover_x(int.from_bytes(secret, "little"), list(drawn), y, items)

    x, y = RNG.bits(32), RNG.bits(32)
    assert attack(x, y) != x

    def scalar_only(rng: Rng, _public: bytes, item: tuple[bytes, bytes]) -> bytes:
        s = draw(rng)
        return comparison._times(s, item[0]) + comparison._times(s, item[1])

    monkeypatch.setattr(comparison, "_blind", scalar_only)
    for _ in range(3):
        x, y = RNG.bits(32), RNG.bits(32)
        assert attack(x, y) == x


# --- G13: a blinded share that keeps its randomness shows Charlie's permutation --------------------


def _pi2_as_the_lead_reads_it(reads: list[tuple[int, tuple[int, ...]]]) -> list[int]:
    """C mod N of E(a) is r^N mod N whatever a is: the lead looks for its own randomness in what comes back."""
    study = make_study(4, 1)
    reads.clear()
    with pytest.raises(_SeenEnough):
        run(study, make_data(study, [20, 21, 22, 23]))
    (n, sent), (_, back) = reads
    own = [c % n for c in sent]
    return [own.index(c % n) if c % n in own else -1 for c in back]


def test_g13_the_lead_reads_charlies_permutation(
    monkeypatch: pytest.MonkeyPatch, watched_reads: list[tuple[int, tuple[int, ...]]]
) -> None:
    assert _pi2_as_the_lead_reads_it(watched_reads) == [-1] * 4

    def not_rerandomized(a_i: Ciphertext, r_i: int, _pool: ShortPool, lead: str) -> Fresh:
        return _fresh(a_i.key, lead, (a_i + r_i).to_int())

    drawn: list[tuple[int, ...]] = []
    draw: Callable[[Rng, int], tuple[int, ...]] = shares.random_permutation

    def noted(rng: Rng, size: int) -> tuple[int, ...]:
        drawn.append(draw(rng, size))
        return drawn[-1]

    monkeypatch.setattr(la, "_blinded_share", not_rerandomized)
    monkeypatch.setattr(la, "random_permutation", noted)
    read = _pi2_as_the_lead_reads_it(watched_reads)
    assert read == list(drawn[-1])

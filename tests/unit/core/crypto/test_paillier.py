"""Paillier: identities against phe, obfuscators, and the types that say what may leave."""

import math
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial

import gmpy2
import phe
import pytest
from gmpy2 import mpz

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.crypto.comparison import DeciderKey
from masquerade_core.crypto.paillier import Ciphertext, Fresh, FullPool, PublicKey, SecretKey, ShortPool, draw_primes
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import PEER, keeps_its_secret, primes, secret_key, violation
from tests.messages import raises


@pytest.fixture
def key() -> SecretKey:
    return secret_key()


@pytest.fixture
def oracle() -> phe.PaillierPrivateKey:
    p, q = primes(512)
    return phe.PaillierPrivateKey(phe.PaillierPublicKey(p * q), p, q)


def encrypt(key: SecretKey, plain: int, label: str = "") -> Ciphertext:
    pool = FullPool(key.public, key.obfuscators(SimulationRng(plain % key.public.n, label), 1))
    return key.public.read(pool.encrypt(plain, "x").use(), "x")


# --- Arithmetic, with phe as the oracle ----------------------------------------


@pytest.mark.parametrize("plain", [0, 1, 2, 2**31, 2**400 + 12345])
def test_phe_opens_what_we_encrypt_and_we_open_what_phe_encrypts(
    key: SecretKey, oracle: phe.PaillierPrivateKey, plain: int
) -> None:
    assert oracle.raw_decrypt(encrypt(key, plain).to_int()) == plain
    theirs = oracle.public_key.raw_encrypt(plain)
    assert key.decrypt(key.public.read(theirs, "phe")) == plain


@pytest.mark.parametrize("count", [0, 1, 7])
def test_all_at_once_and_one_by_one_are_the_same(key: SecretKey, count: int) -> None:
    plain = [key.public.n - 1 - 5**i for i in range(count)]
    assert key.decrypt_all([encrypt(key, p) for p in plain]) == tuple(plain)


def test_of_several_ciphertexts_none_may_be_under_another_key(key: SecretKey) -> None:
    other = secret_key(number=1)
    with raises(LocalProtocolError, "ciphertext_of_another_key"):
        key.decrypt_all([encrypt(key, 1), encrypt(other, 2)])


def test_the_key_holders_short_obfuscators_are_everybodys(key: SecretKey) -> None:
    for count in (1, 3):  # the second time from the tables of the first
        theirs = key.public.short_obfuscators(SimulationRng(3), count)
        assert key.short_obfuscators(SimulationRng(3), count) == theirs


@pytest.mark.parametrize("plain", [0, 1, 3**100])
def test_with_the_same_r_our_ciphertext_is_phes_to_the_bit(
    key: SecretKey, oracle: phe.PaillierPrivateKey, plain: int
) -> None:
    n, r = key.public.n, 5**150
    pool = FullPool(key.public, [pow(r, n, n * n)])
    assert pool.encrypt(plain, "x").use() == oracle.public_key.raw_encrypt(plain, r_value=r)


def test_sums_and_products_are_those_of_the_plaintexts(key: SecretKey, oracle: phe.PaillierPrivateKey) -> None:
    n, a, b, s = key.public.n, 2**300 + 7, 3**200, 2**90 + 1
    ea, eb = encrypt(key, a), encrypt(key, b)
    cases = {ea + eb: a + b, ea + b: a + b, ea + -b: a - b, ea * s: a * s, ea * s + eb * 3: a * s + 3 * b}
    for ciphertext, plain in cases.items():
        assert key.decrypt(ciphertext) == plain % n
        assert oracle.raw_decrypt(ciphertext.to_int()) == plain % n
    assert oracle.raw_decrypt(oracle.public_key.raw_encrypt(a) * ea.to_int() % n**2) == 2 * a % n


def test_sums_wrap_around_at_n(key: SecretKey) -> None:
    n = key.public.n
    assert key.decrypt(encrypt(key, n - 1) + 5) == 4
    assert key.decrypt(encrypt(key, -3)) == n - 3
    assert key.decrypt(encrypt(key, 2) * (n - 1)) == n - 2


def test_powers_are_the_products(key: SecretKey) -> None:
    ciphertext = encrypt(key, 12345)
    scalars = [1, 2, 2**200, key.public.n - 1]
    assert [c.to_int() for c in ciphertext.powers(scalars)] == [(ciphertext * s).to_int() for s in scalars]
    assert ciphertext.powers([]) == ()


@pytest.mark.parametrize("scalar", [0, -1, -(2**200)])
def test_an_exponent_that_is_not_positive_is_refused(key: SecretKey, scalar: int) -> None:
    ciphertext = encrypt(key, 5)
    with raises(LocalProtocolError, "exponent_not_positive"):
        ciphertext * scalar
    with raises(LocalProtocolError, "exponent_not_positive"):
        ciphertext.powers([1, scalar])


def test_two_keys_do_not_mix(key: SecretKey) -> None:
    other = secret_key(512, 1)
    mine, theirs = encrypt(key, 1), encrypt(other, 1)
    pool = FullPool(key.public, key.obfuscators(SimulationRng(0), 1))
    for mix in (lambda: mine + theirs, lambda: key.decrypt(theirs), lambda: pool.rerandomize(theirs, "x")):
        with pytest.raises(LocalProtocolError):
            mix()
    assert len(pool) == 1


# --- Keys ----------------------------------------------------------------------


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_primes_are_3_mod_4_with_gcd_2_and_an_exact_modulus_length(bits: int) -> None:
    rng = SimulationRng(bits)
    for _ in range(8):
        p, q = draw_primes(rng, bits)
        assert gmpy2.is_prime(p)
        assert gmpy2.is_prime(q)
        assert p % 4 == q % 4 == 3
        assert p != q
        assert math.gcd(p - 1, q - 1) == 2
        assert (p * q).bit_length() == bits


class _Scripted:
    """Draws the given primes (and nothing else), whatever is asked for."""

    def __init__(self, *values: int) -> None:
        self._values = list(values)

    def bytes(self, n: int) -> bytes:
        return self.bits(8 * n).to_bytes(n, "big")

    def bits(self, k: int) -> int:
        return self._values.pop(0)

    def below(self, n: int) -> int:
        return self.bits(n.bit_length())


def test_equal_primes_and_a_common_factor_are_drawn_again() -> None:
    # 3 divides p-1 and q-1 both, so the first three candidates for q are no good.
    good = [p for p in range((1 << 32) - 2**16, 1 << 32) if gmpy2.is_prime(p) and p % 4 == 3]
    with_3 = [p for p in good if p % 3 == 1]
    p = with_3[0]
    q = next(q for q in good if math.gcd(p - 1, q - 1) == 2)
    assert draw_primes(_Scripted(p, p, with_3[1], with_3[2], q), 64) == (p, q)


def test_a_key_travels_and_stays_equal(key: SecretKey) -> None:
    received = PublicKey.received(key.public.to_bytes(), 512, PEER)
    assert received == key.public
    assert hash(received) == hash(key.public)
    assert received != secret_key(512, 1).public
    assert len(key.public.to_bytes()) == 64


def _bad_moduli() -> dict[str, int]:
    p, q = primes(512)
    r = primes(1024, 3)[0]
    prime = int(gmpy2.next_prime(2**511 + 2**510))
    small = int(gmpy2.next_prime(2**511 // 4093 + 2**508))
    return {
        "even": (p * q) ^ 1,
        "prime": prime,
        "square of a prime": int(gmpy2.next_prime(2**255 + 2**254)) ** 2,
        "cube": int(gmpy2.next_prime(2**170 + 2**169)) ** 3,
        "small factor": 4093 * small,
        "too long": r * q,
        "too short": p * int(gmpy2.next_prime(2**200)),
        "one": 1,
        "zero": 0,
    }


@pytest.mark.parametrize("kind", _bad_moduli())
def test_a_modulus_that_cannot_be_a_key_is_the_senders_fault(kind: str) -> None:
    n = _bad_moduli()[kind]
    bits = n.bit_length() if kind in {"small factor", "cube"} else 512
    raw = n.to_bytes(max(64, (n.bit_length() + 7) // 8), "big")
    error = violation(lambda: PublicKey.received(raw, bits, PEER))
    assert str(n) not in error.message or n < 2


def test_a_good_modulus_of_another_size_is_refused(key: SecretKey) -> None:
    violation(lambda: PublicKey.received(key.public.to_bytes(), 2048, PEER))


def test_only_units_mod_n_squared_are_ciphertexts(key: SecretKey) -> None:
    n, (p, q) = key.public.n, primes(512)
    for value in (0, n, n * n, n * n + 1, -1, p, 7 * p, q, n * n - q, n * 12345):
        error = violation(partial(key.public.read, value, PEER))
        assert str(value) not in error.message or abs(value) < 10
    for value in (1, n - 1, n + 1, n * n - 1):
        assert key.public.read(value, PEER).to_int() == value


# --- Obfuscators ---------------------------------------------------------------


def _symbols(values: tuple[int, ...], modulus: int) -> Counter[int]:
    return Counter(int(gmpy2.jacobi(v % modulus, modulus)) for v in values)


def test_every_obfuscator_is_an_nth_residue_and_so_encrypts_zero(key: SecretKey) -> None:
    rng, public = SimulationRng(3), key.public
    drawn = (
        *key.obfuscators(rng, 20),
        *public.full_obfuscators(rng, 20),
        *public.short_obfuscators(rng, 20),
    )
    assert len(set(drawn)) == 60
    p, q = primes(512)
    for value in drawn:
        # The N-th residues are the subgroup of order (p-1)(q-1).
        assert pow(value, (p - 1) * (q - 1), public.n**2) == 1
        assert key.decrypt(public.read(value, "x")) == 0


@pytest.mark.parametrize("source", ["crt", "full"])
def test_full_obfuscators_have_all_four_pairs_of_symbols_equally_often(key: SecretKey, source: str) -> None:
    rng, (p, q), count = SimulationRng(4, source), primes(512), 800
    draw = key.obfuscators if source == "crt" else key.public.full_obfuscators
    values = draw(rng, count)
    pairs = Counter((int(gmpy2.jacobi(v % p, p)), int(gmpy2.jacobi(v % q, q))) for v in values)
    assert len(pairs) == 4
    # Four sigma of a binomial at 1/4.
    assert all(abs(n - count / 4) < 4 * math.sqrt(count * 3 / 16) for n in pairs.values())


def test_short_obfuscators_have_jacobi_symbol_one_and_full_ones_do_not(key: SecretKey) -> None:
    rng, n = SimulationRng(5), key.public.n
    assert set(_symbols(key.public.short_obfuscators(rng, 200), n)) == {1}
    assert set(_symbols(key.public.full_obfuscators(rng, 200), n)) == {1, -1}
    assert set(_symbols(key.obfuscators(rng, 200), n)) == {1, -1}


def test_crt_obfuscators_reach_every_nth_residue_equally_often() -> None:
    # N = 7 * 11: the N-th residues mod N^2 are so few, 60, that each can be counted.
    key, count = SecretKey(7, 11), 12000
    drawn = Counter(key.obfuscators(SimulationRng(6), count))
    assert set(drawn) == {pow(r, 77, 77**2) for r in range(1, 77) if math.gcd(r, 77) == 1}
    chi2 = sum((n - count / 60) ** 2 / (count / 60) for n in drawn.values())
    assert chi2 < 120  # 59 degrees of freedom: p < 1e-5


def test_the_short_base_comes_from_a_hash_of_n_alone_and_spans_the_symbol_one_subgroup(key: SecretKey) -> None:
    n = key.public.n
    again = PublicKey(n)
    assert again.short_obfuscators(SimulationRng(7), 3) == key.public.short_obfuscators(SimulationRng(7), 3)
    base = key.public.short_obfuscators(_Scripted(1), 1)[0]
    p, q = primes(512)
    # h = -x^2 is a non-residue mod p and mod q, as both are 3 mod 4: nobody can be sorted by it.
    assert (gmpy2.jacobi(base % p, p), gmpy2.jacobi(base % q, q)) == (-1, -1)
    s = 2**255 + 2**77 + 12345
    assert key.public.short_obfuscators(_Scripted(s), 1)[0] == pow(base, s, n * n)


# --- Pools ---------------------------------------------------------------------


def test_no_obfuscator_is_given_out_twice_across_threads(key: SecretKey) -> None:
    count, threads = 2000, 16
    pool = ShortPool(key.public, range(1, count + 1))
    barrier, lock = threading.Barrier(threads), threading.Lock()
    taken: list[int] = []
    empty: list[LocalProtocolError] = []

    def drain() -> None:
        mine: list[int] = []
        barrier.wait()
        try:
            mine.extend(pool.encrypt(0, "x").use() for _ in range(count + 1))
        except LocalProtocolError as error:
            with lock:
                empty.append(error)
        with lock:
            taken.extend(mine)

    workers = [threading.Thread(target=drain) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(empty) == threads
    assert sorted(taken) == list(range(1, count + 1))
    assert len(pool) == 0


def test_an_empty_pool_says_so_and_never_encrypts_without(key: SecretKey) -> None:
    pool = FullPool(key.public, key.obfuscators(SimulationRng(0), 1))
    pool.encrypt(1, "x")
    with raises(LocalProtocolError, "obfuscators_used_up"):
        pool.encrypt(1, "x")
    with raises(LocalProtocolError, "obfuscators_used_up"):
        pool.rerandomize(encrypt(key, 1), "x")


def test_encrypting_equal_plaintexts_gives_unequal_ciphertexts(key: SecretKey) -> None:
    pool = FullPool(key.public, key.obfuscators(SimulationRng(0), 10))
    assert len({pool.encrypt(7, "x").use() for _ in range(10)}) == 10


def test_only_the_full_pool_rerandomizes(key: SecretKey) -> None:
    assert not hasattr(ShortPool(key.public, ()), "rerandomize")
    pool, old = FullPool(key.public, key.public.full_obfuscators(SimulationRng(8), 1)), encrypt(key, 99)
    fresh = pool.rerandomize(old, "x").use()
    assert fresh != old.to_int()
    assert key.decrypt(key.public.read(fresh, "x")) == 99


def test_rerandomizing_leaves_nothing_of_the_symbol_and_a_short_obfuscator_would(key: SecretKey) -> None:
    rng, (p, _) = SimulationRng(9), primes(512)
    old, public = encrypt(key, 1), key.public
    before = gmpy2.jacobi(old.to_int() % p, p)
    pool = FullPool(public, public.full_obfuscators(rng, 200))
    after = Counter(int(gmpy2.jacobi(pool.rerandomize(old, "x").use() % p, p)) for _ in range(200))
    assert 60 < after[1] < 140
    symbol = gmpy2.jacobi(old.to_int() % public.n, public.n)
    misused = FullPool(public, public.short_obfuscators(rng, 50))
    kept = {int(gmpy2.jacobi(misused.rerandomize(old, "x").use() % public.n, public.n)) for _ in range(50)}
    assert kept == {int(symbol)}
    assert before in {1, -1}


# --- What may leave ------------------------------------------------------------


def test_a_fresh_ciphertext_is_used_once(key: SecretKey) -> None:
    fresh = FullPool(key.public, key.obfuscators(SimulationRng(0), 1)).encrypt(1, "bob")
    fresh.use()
    with raises(LocalProtocolError, "ciphertext_sent_twice", "bob"):
        fresh.use()


def test_a_replaced_fresh_ciphertext_is_still_used_once(key: SecretKey) -> None:
    fresh = FullPool(key.public, key.obfuscators(SimulationRng(0), 1)).encrypt(1, "bob")
    other = replace(fresh, recipient="eve")
    fresh.use()
    with pytest.raises(LocalProtocolError):
        other.use()


def test_one_of_many_threads_uses_a_fresh_ciphertext(key: SecretKey) -> None:
    pool = FullPool(key.public, range(1, 101))
    for _ in range(100):
        fresh = pool.encrypt(0, "bob")
        got: list[int] = []
        barrier = threading.Barrier(4)

        def use(fresh: Fresh = fresh, got: list[int] = got, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            with suppress(LocalProtocolError):
                got.append(fresh.use())

        workers = [threading.Thread(target=use) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert len(got) == 1


def test_what_is_secret_is_not_pickled_copied_or_shown(key: SecretKey) -> None:
    p, q = primes(512)
    keeps_its_secret(key, p, q, p * q, key.public.n**2)
    fresh = FullPool(key.public, [1]).encrypt(2**300 + 5, "bob")
    keeps_its_secret(fresh, 2**300 + 5, fresh.use())
    seed = SimulationRng(1).bytes(32)
    keeps_its_secret(SigningKey(seed), seed)
    scalar = DeciderKey.draw(SimulationRng(2))
    keeps_its_secret(DeciderKey(scalar), scalar, scalar[::-1])


def test_a_ciphertext_shows_its_key_and_no_digit(key: SecretKey) -> None:
    ciphertext = encrypt(key, 2**300 + 5)
    assert repr(ciphertext) == str(ciphertext) == "<Ciphertext under <PublicKey: 512 bits>>"


@pytest.mark.parametrize("other", [None, 1, "itself"])
def test_comparing_or_hashing_a_secret_key_raises(key: SecretKey, other: object) -> None:
    second: object = secret_key() if other == "itself" else other
    with raises(TypeError, "secret_key_compared"):
        _ = key == second
    with raises(TypeError, "secret_key_compared"):
        _ = key != second
    with pytest.raises(TypeError):
        hash(key)


def test_a_source_that_is_the_operating_systems_works_too(key: SecretKey) -> None:
    rng: Rng = SystemRng()
    one, two = key.obfuscators(rng, 1), key.obfuscators(rng, 1)
    assert one != two
    assert mpz(one[0]) < key.public.mod_n2
    with pytest.raises(ProtocolViolation):
        key.public.read(0, "x")

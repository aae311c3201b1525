"""Laws of Paillier encryption, compared with the arithmetic of the library phe."""

import phe
from hypothesis import given
from hypothesis import strategies as st

from masquerade_core.crypto.paillier import Ciphertext, FullPool, PublicKey, ShortPool
from masquerade_core.errors import ProtocolViolation
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import PEER, primes, secret_key
from tests.property.strategies import QUICK

KEY = secret_key(256)
N = KEY.public.n
ORACLE = phe.PaillierPrivateKey(phe.PaillierPublicKey(N), *primes(256))

plains = st.integers(0, N - 1) | st.sampled_from([0, 1, N - 1, N // 2])
scalars = st.integers(1, N - 1) | st.integers(1, 5)


def encrypt(plain: int, seed: int) -> Ciphertext:
    pool = FullPool(KEY.public, KEY.obfuscators(SimulationRng(seed), 1))
    return KEY.public.read(pool.encrypt(plain, "x").use(), "x")


def opened(ciphertext: Ciphertext) -> int:
    plain = KEY.decrypt(ciphertext)
    assert ORACLE.raw_decrypt(ciphertext.to_int()) == plain
    return plain


@QUICK
@given(plains, plains, scalars, st.integers(-(2**300), 2**300), st.integers())
def test_computing_under_encryption_is_computing_mod_n(a: int, b: int, s: int, k: int, seed: int) -> None:
    ea, eb = encrypt(a, seed), encrypt(b, seed + 1)
    assert opened(ea) == a
    assert opened(ea + eb) == (a + b) % N
    assert opened(ea + k) == (a + k) % N
    assert opened(ea * s) == a * s % N
    assert opened((ea + eb) * s) == opened(ea * s + eb * s)


@QUICK
@given(plains, st.lists(scalars, max_size=5), st.integers())
def test_powers_are_products(a: int, many: list[int], seed: int) -> None:
    ea = encrypt(a, seed)
    assert [opened(c) for c in ea.powers(many)] == [a * s % N for s in many]


@QUICK
@given(plains, st.integers(1, N - 1))
def test_encryption_with_phes_randomness_is_phes(a: int, r: int) -> None:
    if pow(r, KEY.public.n, N) == 0:
        return
    pool = ShortPool(KEY.public, [pow(r, N, N * N)])
    assert pool.encrypt(a, "x").use() == ORACLE.public_key.raw_encrypt(a, r_value=r)


@QUICK
@given(plains, st.integers())
def test_freshening_changes_the_ciphertext_and_not_the_plaintext(a: int, seed: int) -> None:
    old = encrypt(a, seed)
    pool = FullPool(KEY.public, KEY.public.full_obfuscators(SimulationRng(seed, "fresh"), 1))
    fresh = KEY.public.read(pool.rerandomize(old, "x").use(), "x")
    assert fresh.to_int() != old.to_int()
    assert opened(fresh) == a


@QUICK
@given(st.integers(-(2**600), 2**600) | st.integers(0, 2**20).map(lambda k: k * primes(256)[0]))
def test_what_is_read_is_a_unit_and_all_else_is_refused(value: int) -> None:
    try:
        ciphertext = KEY.public.read(value, PEER)
    except ProtocolViolation as error:
        assert error.peer == PEER  # noqa: PT017 - a law for both outcomes
        assert not 0 < value < N * N or value % primes(256)[0] == 0 or value % primes(256)[1] == 0
    else:
        assert 0 < ciphertext.to_int() < N * N
        opened(ciphertext)


@QUICK
@given(st.binary(max_size=40) | st.integers(2**255, 2**256 - 1).map(lambda n: n.to_bytes(32, "big")))
def test_any_bytes_are_a_key_that_could_be_one_or_refused(raw: bytes) -> None:
    try:
        key = PublicKey.received(raw, 256, PEER)
    except ProtocolViolation as error:
        assert error.peer == PEER  # noqa: PT017
    else:
        assert key.bits == 256
        assert key.n % 2

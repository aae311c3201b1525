"""Shamir's shares against fixed numbers, and against computations that share no code with them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpyc import thresha
from mpyc.finfields import GF

from masquerade_core.crypto.masks import mask_stream
from masquerade_core.crypto.shamir import PRIME, SECRET_BYTES, SHARE_BYTES, deal, join_shares, read_share
from masquerade_core.errors import LocalProtocolError, SumRefused
from masquerade_core.rng import SystemRng
from tests.helpers import violation
from tests.messages import raises, says
from tests.property.strategies import QUICK

RNG = SystemRng()
SECRET, KEY = bytes(range(32)), bytes(range(32, 64))
VECTORS = [
    "6bc3095d6dcb4d759da7c6c8e6726eb70b624f73d31cede515a6385bffc0830a00",
    "dad6758e570784852aaf2de898a1317020860371eec238689f94deee64cf502300",
    "4d3b4697c2b8a837af1f3f69229957394e7d2e0c6507f99db4e40bd64c48856900",
    "c4f07a77aedfbb8b2bf9fa4b8359e0129547d04437ea2d875596c010b72b21dd00",
    "16f6132f1b7cbd819f3b6190bbe2cbfcf4e4e81a656bd72382a9fc9ea379247e00",
]

secrets = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)


def _shares(secret: bytes, threshold: int, points: int, key: bytes | None = None) -> dict[int, int]:
    dealt = deal(secret, threshold, points, RNG.bytes(32) if key is None else key)
    return {x + 1: int.from_bytes(raw, "little") for x, raw in enumerate(dealt)}


def test_the_field_is_that_of_the_smallest_prime_above_all_secrets() -> None:
    assert PRIME == 2**256 + 297
    assert [d for d in range(1, 297, 2) if pow(3, 2**256 + d - 1, 2**256 + d) == 1] == []  # Fermat: none of these
    assert pow(3, PRIME - 1, PRIME) == 1
    assert (PRIME - 1).bit_length() <= 8 * SHARE_BYTES


def test_known_answers() -> None:
    """3 of 5, from a polynomial that is written out here: coefficients are 48 bytes each of the key's stream."""
    raw = mask_stream(KEY, 96)
    c2, c1 = int.from_bytes(raw[:48], "little"), int.from_bytes(raw[48:], "little")
    c0 = int.from_bytes(SECRET, "little")
    expected = [(c0 + c1 * x + c2 * x * x) % (2**256 + 297) for x in range(1, 6)]
    dealt = deal(SECRET, 3, 5, KEY)
    assert [int.from_bytes(share, "little") for share in dealt] == expected
    assert [share.hex() for share in dealt] == VECTORS


@QUICK
@given(secrets, st.integers(1, 9), st.data())
def test_any_threshold_of_shares_gives_the_secret_back(secret: bytes, t: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(t, 12))
    shares = _shares(secret, t, count)
    chosen = data.draw(st.lists(st.sampled_from(sorted(shares)), min_size=t, unique=True))
    assert join_shares({x: shares[x] for x in chosen}, t) == secret


@QUICK
@given(secrets, st.integers(1, 8), st.data())
def test_lagrange_over_the_rationals_agrees(secret: bytes, t: int, data: st.DataObject) -> None:
    """The oracle works with exact fractions and reduces modulo p at the end."""
    shares = _shares(secret, t, 10)
    chosen = data.draw(st.lists(st.sampled_from(sorted(shares)), min_size=t, max_size=t, unique=True))
    value = Fraction(0)
    for x in chosen:
        weight = Fraction(1)
        for y in chosen:
            if y != x:
                weight *= Fraction(-y, x - y)
        value += weight * shares[x]
    opened = value.numerator * pow(value.denominator, -1, 2**256 + 297) % (2**256 + 297)
    assert opened == int.from_bytes(secret, "little")
    assert join_shares({x: shares[x] for x in chosen}, t) == secret


@pytest.mark.parametrize(("t", "count"), [(1, 1), (2, 3), (67, 96), (97, 132)])
def test_mpyc_opens_these_shares(t: int, count: int) -> None:
    secret = RNG.bytes(32)
    shares = _shares(secret, t, count)
    field = GF(modulus=2**256 + 297)
    points = sorted(shares)[-t:]
    opened = thresha.recombine(field, [(x, [shares[x]]) for x in points])
    assert int(opened[0]) % PRIME == int.from_bytes(secret, "little")  # its numbers are signed
    assert join_shares({x: shares[x] for x in points}, t) == secret


@QUICK
@given(secrets, secrets, st.integers(2, 6))
def test_one_share_too_few_fits_every_secret(secret: bytes, other: bytes, t: int) -> None:
    """For any other secret there is a polynomial through t - 1 of the shares, so these say nothing."""
    shares = _shares(secret, t, t)
    del shares[t]
    through = {**shares, 0: int.from_bytes(other, "little")}
    value = 0
    for x, y in through.items():
        weight = 1
        for z in through:
            if z != x:
                weight = weight * (t - z) * pow(x - z, -1, PRIME) % PRIME
        value += weight * y
    assert join_shares({**shares, t: value % PRIME}, t) == other


def test_shares_of_two_dealings_give_neither_secret() -> None:
    first, second = (_shares(SECRET, 3, 5) for _ in range(2))
    try:
        assert join_shares({1: first[1], 2: first[2], 3: second[3]}, 3) != SECRET
    except SumRefused as error:
        assert says(str(error), "shamir_shares_mixed")  # noqa: PT017 - both ends are right, and most runs take the first


def test_too_few_shares_and_a_number_beyond_a_secret_are_refused() -> None:
    shares = _shares(SECRET, 3, 5)
    with raises(SumRefused, "too_few_shares", 2, 3):
        join_shares({1: shares[1], 4: shares[4]}, 3)
    with raises(SumRefused, "shamir_shares_mixed"):
        join_shares({1: 2**256 + 5}, 1)
    assert join_shares({1: 2**256 - 1}, 1) == b"\xff" * 32


def test_a_share_from_a_peer_is_a_number_below_the_prime() -> None:
    assert read_share(deal(SECRET, 3, 5, KEY)[4], "mallory") == _shares(SECRET, 3, 5, KEY)[5]
    for raw in (b"", bytes(32), bytes(34), PRIME.to_bytes(33, "little"), b"\xff" * 33):
        violation(lambda raw=raw: read_share(raw, "mallory"))  # type: ignore[misc]  # bound at once


@pytest.mark.parametrize(
    ("secret", "t", "count"), [(bytes(31), 2, 3), (bytes(33), 2, 3), (SECRET, 0, 3), (SECRET, 4, 3)]
)
def test_what_cannot_be_dealt_is_a_bug(secret: bytes, t: int, count: int) -> None:
    with raises(LocalProtocolError, "shamir_secret_length", 32):
        deal(secret, t, count, KEY)

"""Laws of shares: they add up to the value, each alone is independent of it, and permutations are permutations."""

from hypothesis import given
from hypothesis import strategies as st

from masquerade_core.crypto.shares import invert, mask, permutation, random_permutation, share
from masquerade_core.simulation_rng import SimulationRng
from tests.property.strategies import QUICK

moduli = st.integers(1, 2**70) | st.just(1 << 33) | st.integers(2**511, 2**512)


@QUICK
@given(st.data(), moduli)
def test_shares_add_up(data: st.DataObject, modulus: int) -> None:
    value = data.draw(st.integers(0, modulus - 1))
    a, b = share(SimulationRng(data.draw(st.integers())), value, modulus)
    assert 0 <= a < modulus
    assert 0 <= b < modulus
    assert (a + b) % modulus == value


@QUICK
@given(st.data(), st.integers(1, 2**64))
def test_a_share_alone_can_be_a_share_of_anything(data: st.DataObject, modulus: int) -> None:
    value, other, seed = (data.draw(st.integers(0, modulus - 1)) for _ in range(3))
    # The first share does not depend on the value; the second one mirrors the first.
    assert share(SimulationRng(seed), value, modulus)[0] == share(SimulationRng(seed), other, modulus)[0]


@QUICK
@given(st.binary(max_size=40), st.text(max_size=8), st.integers(0, 60))
def test_a_public_permutation_is_one_and_undone_by_its_inverse(seed: bytes, label: str, size: int) -> None:
    p = permutation(seed, label, size)
    assert sorted(p) == list(range(size))
    assert permutation(seed, label, size) == p
    assert [invert(p)[i] for i in p] == list(range(size))
    assert invert(invert(p)) == p


@QUICK
@given(st.integers(), st.integers(0, 60))
def test_a_private_permutation_is_one(seed: int, size: int) -> None:
    assert sorted(random_permutation(SimulationRng(seed), size)) == list(range(size))


@QUICK
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=8), moduli, st.integers(0, 5), st.integers(0, 5))
def test_masks_lie_below_the_modulus_and_a_longer_row_begins_with_the_shorter(
    key: bytes, label: bytes, modulus: int, count: int, more: int
) -> None:
    row = mask(key, label, modulus, count + more)
    assert all(0 <= v < modulus for v in row)
    assert mask(key, label, modulus, count) == row[:count]

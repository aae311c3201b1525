"""The law of the comparison: for any two shares it returns bit 32 of their difference."""

from hypothesis import example, given
from hypothesis import strategies as st

from masquerade_core.crypto.comparison import BITS, BITS_BYTES, ITEMS_BYTES, DeciderKey, evaluate
from masquerade_core.errors import ProtocolViolation
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import PEER
from tests.property.strategies import SLOW

M33 = 1 << 33
shares = st.integers(0, M33 - 1) | st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**32, M33 - 1])


@SLOW
@given(shares, shares, st.integers(0, 2**64))
@example(0, 0, 0)
@example(2**32, 2**32 - 1, 1)
@example(2**32 - 1, 2**32, 2)
def test_the_outcome_is_bit_32_of_the_difference(x: int, y: int, seed: int) -> None:
    rng = SimulationRng(seed)
    key = DeciderKey(DeciderKey.draw(rng))
    items, clear = evaluate(rng, key.public, key.encrypt_bits(rng, y), x, PEER)
    assert key.count_zeros(items, PEER) ^ clear ^ (y >> BITS) == (x - y) % M33 >> BITS


@SLOW
@given(st.integers(0, 2**32 - 1), st.sampled_from([-1, 0, 1]), st.integers(0, M33 - 1))
def test_neighbouring_sizes_compare_right_through_any_sharing(n: int, by: int, b: int) -> None:
    other = min(max(n + by, 0), 2**32 - 1)
    rng = SimulationRng(n, f"{by}")
    key = DeciderKey(DeciderKey.draw(rng))
    b_other = rng.below(M33)
    x, y = (n - b - (other - b_other)) % M33, (b_other - b) % M33
    items, clear = evaluate(rng, key.public, key.encrypt_bits(rng, y), x, PEER)
    assert key.count_zeros(items, PEER) ^ clear ^ (y >> BITS) == (n < other)


@SLOW
@given(st.binary(max_size=100) | st.binary(min_size=ITEMS_BYTES, max_size=ITEMS_BYTES))
def test_random_bytes_are_never_an_outcome(raw: bytes) -> None:
    key = DeciderKey(DeciderKey.draw(SimulationRng(0)))
    for read in (
        lambda: key.count_zeros(raw, PEER),
        lambda: evaluate(SimulationRng(0), key.public, raw[:BITS_BYTES], 5, PEER),
    ):
        try:
            read()
        except ProtocolViolation as error:
            assert error.peer == PEER  # noqa: PT017 - the law is that nothing else is raised
        else:
            raise AssertionError(raw)

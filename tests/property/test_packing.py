"""Laws of packing: vectors come back, sums are sums, and the length of an exponent reveals nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import RunFailed
from tests.property.strategies import QUICK


@st.composite
def layouts(draw: st.DrawFn) -> Packing:
    bits = draw(st.sampled_from([256, 512, 2048]))
    return Packing(draw(st.integers(1, 40)), draw(st.integers(1, 2 ** draw(st.integers(1, 120)))), bits)


@st.composite
def packed(draw: st.DrawFn) -> tuple[Packing, int, tuple[int, ...]]:
    layout = draw(layouts())
    n = draw(st.integers(1 << (layout.modulus_bits - 1), (1 << layout.modulus_bits) - 1)) | 1
    coordinate = st.integers(-layout.bound, layout.bound) | st.sampled_from([layout.bound, -layout.bound, 0, 1, -1])
    return layout, n, tuple(draw(st.lists(coordinate, min_size=layout.length, max_size=layout.length)))


@QUICK
@given(packed())
def test_a_vector_comes_back(case: tuple[Packing, int, tuple[int, ...]]) -> None:
    layout, n, vector = case
    plain = layout.pack(vector)
    assert len(plain) == layout.count
    assert layout.unpack([p % n for p in plain], n) == vector


@QUICK
@given(packed())
def test_exponents_less_their_offset_come_back_and_have_the_offsets_length(
    case: tuple[Packing, int, tuple[int, ...]],
) -> None:
    layout, n, vector = case
    exponents, offsets = layout.pack_exponents(vector), layout.exponent_offsets()
    assert [e.bit_length() for e in exponents] == [o.bit_length() for o in offsets]
    assert all(0 < e < n for e in exponents)
    assert layout.unpack([e - o for e, o in zip(exponents, offsets, strict=True)], n) == vector


@QUICK
@given(st.data())
def test_packed_sums_are_sums_of_packed(data: st.DataObject) -> None:
    K, each, length = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 10**9)), data.draw(st.integers(1, 30))
    layout, n = Packing(length, K * each, 512), (1 << 511) + 12345
    rows = data.draw(
        st.lists(st.lists(st.integers(-each, each), min_size=length, max_size=length), min_size=K, max_size=K)
    )
    sums = [sum(column) % n for column in zip(*map(layout.pack, rows), strict=True)]
    assert layout.unpack(sums, n) == tuple(sum(column) for column in zip(*rows, strict=True))


@QUICK
@given(packed(), st.data())
def test_a_blind_that_is_not_taken_off_fails(case: tuple[Packing, int, tuple[int, ...]], data: st.DataObject) -> None:
    layout, n, vector = case
    at = data.draw(st.integers(0, layout.count - 1))
    # A random blind that is shorter than the slots would pass; that has a chance of 2^-64.
    blind = data.draw(st.integers(n >> 40, n - (n >> 40)))
    plain = [p % n for p in layout.pack(vector)]
    plain[at] = (plain[at] + blind) % n
    with pytest.raises(RunFailed):
        layout.unpack(plain, n)

"""Arithmetic on records gives what numpy gives. Its times are measured with the sums that protocols make of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade_core import same_time


@pytest.mark.parametrize("name", ["exp", "log", "log2", "tanh"])
def test_functions_are_numpys_to_the_bit(name: str) -> None:
    x = np.abs(np.random.default_rng(1).normal(size=1000)) * 3
    assert getattr(same_time, name)(x).tobytes() == getattr(np, name)(x).tobytes()


@given(st.lists(st.integers(-8, 8), max_size=40), st.sets(st.integers(-6, 6), max_size=9))
def test_a_place_is_that_of_a_search(values: list[int], edges: set[int]) -> None:
    x, e = np.array(values, dtype=np.float64) / 2, np.array(sorted(edges), dtype=np.float64) / 2
    np.testing.assert_array_equal(same_time.places(x, e), np.searchsorted(e, x, side="right"))


@given(st.integers(0, 5), st.integers(1, 5), st.data())
def test_the_first_largest_is_that_of_argmax(n: int, k: int, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(-2, 2), min_size=n * k, max_size=n * k))
    rows = np.array(numbers, dtype=np.float64).reshape(n, k)
    np.testing.assert_array_equal(same_time.first_largest(rows), rows.argmax(axis=1))


@given(st.lists(st.integers(0, 255), max_size=60), st.sampled_from([256, 300]), st.integers(-(2**40), 2**40))
def test_counts_and_sums_are_those_of_bincount(values: list[int], size: int, number: int) -> None:
    where = np.array(values, dtype=np.int64)
    numbers = number + np.arange(len(where))
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, where, numbers)
    np.testing.assert_array_equal(same_time.counts(where, size), np.bincount(where, minlength=size))
    np.testing.assert_array_equal(same_time.sums(where, size, numbers), sums)

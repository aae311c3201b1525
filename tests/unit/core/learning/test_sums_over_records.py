"""Sums over records: blocks follow from the source, sums of integers are exact, those of floats have a fixed order."""

import pickle
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]  # it ships no types

from masquerade_core.data.records import ROWS, OfBlock, are_held_back
from masquerade_core.data.schema import Dataset
from masquerade_core.evaluation import locate_bins
from masquerade_core.learning.gradients import GradientSum, gradient_sum
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.model import Model
from masquerade_protocols.blocks.evaluation import Confusion, InBins, InCells
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.dp_whitened import vectors
from masquerade_protocols.dp_whitened.estimates import Centre
from tests.messages import raises

_Array = NDArray[np.float64]


def _dataset(n: int, d: int = 3, classes: int | None = None) -> Dataset:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1) * 1.01)[:, None]
    y = rng.choice([-1.0, 1.0], n) if classes is None else rng.integers(classes, size=n).astype(np.float64)
    return Dataset(X, y, classes)


@pytest.fixture(scope="module")
def large() -> Dataset:
    """Records of three blocks, the last of them short."""
    return _dataset(2 * ROWS + 10)


@dataclass(frozen=True)
class _Rows:
    """The number of records of a block, and whatever each of them is worth."""

    worth: int = 1

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        assert X.shape == (len(y), 3)
        return np.array([len(y), self.worth * len(y)], dtype=np.int64)


def _sizes(data: Dataset) -> list[int]:
    return [int(part[0]) for part in data.partials(_Rows())]


def test_a_block_is_a_run_of_rows_of_the_source(large: Dataset) -> None:
    assert (large.n, large.d) == (2 * ROWS + 10, 3)
    assert _sizes(large) == [ROWS, ROWS, 10]
    assert _sizes(_dataset(ROWS)) == [ROWS]
    assert _sizes(_dataset(0)) == [0]


def test_what_is_held_back_leaves_the_blocks_where_they_are(large: Dataset) -> None:
    kept, held = large.sides(0.3)
    expected = [int(are_held_back(ROWS, 0.3, start)[: large.n - start].sum()) for start in (0, ROWS, 2 * ROWS)]
    assert _sizes(held) == expected
    assert _sizes(kept) == [whole - part for whole, part in zip((ROWS, ROWS, 10), expected, strict=True)]
    np.testing.assert_array_equal(held.X, large.X[are_held_back(large.n, 0.3)])
    one, none = _dataset(ROWS + 1).sides(0.1)
    assert (_sizes(one)[1], _sizes(none)[1]) == (1, 0)  # a block of which nothing is kept is still there


@pytest.mark.parametrize("share", [0.5, 0.2, 0.1 + 0.2])
def test_which_rows_are_held_back_does_not_depend_on_where_one_begins_to_count(share: float) -> None:
    n, at = 1000, 137
    whole = are_held_back(n, share)
    np.testing.assert_array_equal(np.concatenate((are_held_back(at, share), are_held_back(n - at, share, at))), whole)
    exact = Fraction(repr(share))
    assert whole.tolist() == [int((i + 1) * exact) > int(i * exact) for i in range(n)]


def test_a_sum_of_integers_that_does_not_fit_into_63_bits_is_exact(large: Dataset) -> None:
    worth = (1 << 62) // ROWS
    total = large.total(_Rows(worth))
    assert total.tolist() == [large.n, large.n * worth]
    assert large.n * worth > 1 << 63
    assert large.total(_Rows(-1)).dtype == np.int64


def test_a_ledger_knows_records_by_the_same_fields_as_ever() -> None:
    """Another field would give all records of all sites another fingerprint, and so a fresh budget."""
    assert [field.name for field in fields(Dataset)] == ["X", "y", "classes", "repaired"]


def test_floats_are_added_in_the_order_of_the_blocks(large: Dataset) -> None:
    w = np.array([3.0, -1.0, 0.5])
    a, b, c = (gradient_sum(large.X[i : i + ROWS], large.y[i : i + ROWS], w, "logistic") for i in (0, ROWS, 2 * ROWS))
    np.testing.assert_array_equal(large.added(GradientSum(w)), (a + b) + c)
    small = _dataset(1000)
    np.testing.assert_array_equal(small.added(GradientSum(w)), gradient_sum(small.X, small.y, w, "logistic"))


def test_sums_do_not_depend_on_the_number_of_threads() -> None:
    """OpenBLAS splits a product of this size, and then its last bits are other ones."""
    data, w = _dataset(ROWS, 10), np.linspace(-1, 1, 10)
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(limits=threads, user_api="blas"):
            found.append([*data.added(lambda X, y: X.T @ y), *data.added(GradientSum(w))])
            found[-1] += [*data.total(dp_gd.ClippedSum(w, LOGISTIC, Fraction(1, 2)))]
            with pytest.raises(ZeroDivisionError):
                data.added(lambda X, _: X / (1 // 0))
            assert {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"} == {threads}
    assert found[0] == found[1] == found[2]


def test_the_sums_of_protocols_are_those_of_their_blocks(large: Dataset) -> None:
    """Each record is rounded by itself, so a sum over all is the sum over any parts that hold whole chunks."""
    w, B = np.array([3.0, -1.0, 0.5]), 1 << 20
    centre = Centre(np.full(3, 0.1), 0.7, np.array([0.2]), centred=True)
    parts = [Dataset(large.X[i : i + ROWS], large.y[i : i + ROWS]) for i in (0, ROWS, 2 * ROWS)]

    def sums(data: Dataset) -> list[int]:
        clipped = dp_gd.clipped_sum(data, w, LOGISTIC, Fraction(1, 2))
        moments, means = vectors.moments_sum(data, centre, B), vectors.mean_sum(data, B)
        return [*clipped, *moments.tolist(), *means.tolist(), *vectors.shift_sum(data, centre, B).tolist()]

    assert sums(large) == np.sum([sums(part) for part in parts], axis=0).tolist()


def test_a_sum_that_a_layout_cannot_hold_is_an_error_of_this_program(large: Dataset) -> None:
    with raises(Exception, "sum_beyond_63_bits"):
        vectors._total(large, lambda u, _: np.array([len(u) << 46]))


@pytest.mark.parametrize("classes", [None, 3])
def test_what_is_sent_to_the_blocks_can_be_pickled(large: Dataset, classes: int | None) -> None:
    w, empty = np.array([3.0, -1.0, 0.5]), _dataset(0, classes=classes)
    model = Model(tuple(range((classes or 1) * 3)), None)
    bins = locate_bins([1.0] * 256, 1.0, 2)
    functions: list[OfBlock] = [GradientSum(w, LOGISTIC), dp_gd.ClippedSum(w, LOGISTIC, Fraction(1, 2))]
    functions += [InCells(model, 2), InBins(model, bins)] if classes is None else [Confusion(model, classes)]
    for f in functions:
        again = pickle.loads(pickle.dumps(f))  # noqa: S301  its own bytes
        if classes is None:
            np.testing.assert_array_equal(again(large.X[:100], large.y[:100]), f(large.X[:100], large.y[:100]))
        assert not empty.total(f).any()

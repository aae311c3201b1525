"""One party's records as a source of blocks, wherever they lie: in memory, on disk, or on the machines of a cluster.

A protocol asks for sums over records. A *block* is a run of 65,536 records of the source: block i holds the rows from
65,536 i on. Where some records are held back, a block is what is kept of these rows. The blocks follow from the source
alone, and a function is always called with one whole block. So every kind of records gives it the same arrays, and the
same bits come out, even of sums of floating-point numbers, which depend on the order of the terms.

*Records that are held back* to measure a model follow from their place in the file, never from a value. Row i of a
party's records, counted from 0, is held back if and only if floor((i + 1) share) > floor(i share). So of n records,
floor(n share) are held back, spread evenly over the file. A replaced record keeps its place, and so its side: it is
either learned from or measured with, in both of two neighbouring data sets. The proof of an evaluation that adds no
epsilon rests on this (``docs/privacy/evaluation.md``).

Records that change places change sides, so a file must not be sorted by what the records say. Where `data clean` leaves
records out, it fills their places with the last ones (:mod:`masquerade.cleaning`).

A study has no column that says which records belong to one person. So a person with several records may stand on both
sides. Privacy is then counted for each record by itself, as everywhere. But the measured quality may come out too good.
"""

import hashlib
import importlib
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import LocalProtocolError, RefusedLocally
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.study import Coding, Study

__all__ = [
    "ROWS",
    "DigestOf",
    "OfBlock",
    "Records",
    "Repaired",
    "Whole",
    "are_held_back",
    "cached_rows",
    "cells_in",
    "check_size",
    "content_of",
    "copy_rows",
    "counted_to_learn_from",
    "exact_sum",
    "few_rows",
    "fewest_held_back",
    "fewest_to_learn_from",
    "most_held_back",
    "most_to_learn_from",
    "split",
    "taken",
    "training_sides",
    "zeros",
]


# --- Records ---------------------------------------------------------------------

ROWS = 1 << 16
"""The number of rows of the source in a block; the last block may have fewer."""

OfBlock = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[Any]]
"""f(X, y), the contribution of one block: X of shape (rows, d), y of shape (rows,); its result has a fixed shape.

It is a frozen dataclass of picklable fields, or anything else that can be pickled, since a block may lie on another
machine. It neither keeps nor changes X and y. A block may be empty.
"""

_SHARED = 1 << 13  # numbers; a smaller product has one thread anyway
_LARGEST = (1 << 63) - 1  # of an int64


@dataclass(frozen=True, repr=False)
class Repaired:
    """How many cells did not fit. These numbers are secret: they are for the data owner alone, and never leave.

    Parameters
    ----------
    clamped : int
        Numbers that were moved to a public bound.
    filled : int
        Cells that became the public ``missing`` value, level or class.
    """

    clamped: int = 0
    filled: int = 0

    def __add__(self, other: "Repaired") -> "Repaired":
        """Count the cells of two columns, or of two tables."""
        return Repaired(self.clamped + other.clamped, self.filled + other.filled)

    def __bool__(self) -> bool:
        """Return whether any cell did not fit."""
        return bool(self.clamped or self.filled)

    def __repr__(self) -> str:
        return "<Repaired: secret>"


class Records(ABC):
    """One party's records. They are secret, and so is their number.

    Attributes
    ----------
    classes : int or None
        The number of named classes; 0 where labels are numbers in [-1, 1]; None where they are -1 and +1.
    repaired : Repaired
        How many cells were moved to a bound, and how many were filled. It is secret too.
    """

    classes: int | None
    repaired: Repaired

    @property
    def coding(self) -> Coding:
        """Whether the records lie in the unit ball, or are the covariates of a regression."""
        return "one-hot"

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of records."""

    @property
    @abstractmethod
    def d(self) -> int:
        """The number of a record's coordinates."""

    @abstractmethod
    def partials(self, f: OfBlock) -> Iterator[NDArray[Any]]:
        """Return f of each block, in the order of the blocks; of one empty block where there are no records."""

    def content(self) -> Iterator[Any]:
        """Return, as buffers, what a ledger's fingerprint is made of; :func:`content_of` says what it is."""
        raise LocalProtocolError(f"a ledger cannot tell {type(self).__name__} from others")

    @abstractmethod
    def sides(self, share: float) -> tuple[Self, Self]:
        """Return the records to learn from, and the part of this share that is held back.

        :func:`masquerade_core.data.records.are_held_back` says which records these are.
        """

    def total(self, f: OfBlock) -> NDArray[Any]:
        """Return the exact sum of f over all blocks, where f returns integers (int64, or Python's as objects).

        It is an array of int64, or of Python's integers where a sum might not fit.
        """
        with _one_thread(self.n * self.d):
            return exact_sum(self.partials(f))

    def added(self, f: OfBlock) -> NDArray[np.float64]:
        """Return the sum of f over all blocks, where f returns floats; they are added in the order of the blocks."""
        with _one_thread(self.n * self.d):
            partials = self.partials(f)
            total: NDArray[np.float64] = next(partials)
            for part in partials:
                total = total + part
        return total

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: secret>"


def check_size(n: int, study: Study, source: str, party: str = "") -> None:
    """Check that one party's records are neither too few nor too many for a study.

    A party that refuses because of its size tells of its size alone, and never of what a record says.

    Parameters
    ----------
    n : int
        The number of the records.
    study : Study
    source : str
        Names the records in the error; how many there are is secret, and is not said.
    party : str
        The party's name, where it is known: it may have a largest number of its own.

    Raises
    ------
    RefusedLocally
        There are fewer records than the study's ``min_records``, or more than its ``max_records``.
    """
    floor = study.study.min_records
    if n < floor:
        raise RefusedLocally(
            f"{source} has fewer records than the study's min_records, {floor}",
            "take part with more records, or ask the coordinator for a study with a smaller min_records",
        )
    most = study.most_of(party) if party else study.max_records
    if n > most:
        raise RefusedLocally(
            f"{source} has more than {most:,} records, the most that a party may have in this study",
            "take part with fewer records, or ask the coordinator for a study with a larger max_records",
        )


# --- Matrices ----------------------------------------------------------------------

_CELLS = 1 << 20  # of a matrix that are worked on at once
_CACHED = 1 << 18  # of a larger one, that are in a processor's cache when they are read a second time
_PAGE = 4096
_WIDE = 4 * _PAGE // 8  # coordinates of a record in which whole pages of memory may hold zeros alone


def few_rows(X: NDArray[Any], cells: int = _CELLS) -> Iterator[slice]:
    """Return runs of rows that are worked on at once: what is computed of so many cells takes little memory."""
    step = min(ROWS, max(1, cells // max(1, X.shape[1])))
    return (slice(start, start + step) for start in range(0, len(X), step))


def cached_rows(X: NDArray[Any], least: int = 1) -> Iterator[slice]:
    """Return runs of rows that are read twice in a row: of a matrix that no cache holds, the second time from a cache.

    Parameters
    ----------
    X : ndarray, shape (n, d)
    least : int
        How many rows a run has at least, but for the last one.
    """
    cells = X.size if X.size <= _CELLS else max(_CACHED, least * X.shape[1])
    return few_rows(X, cells)


def zeros(n: int, d: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a matrix of zeros; where a page of it is not written to, it takes no memory.

    Of a column with 10,000 levels a record has a single 1. So its other pages stay the system's one page of zeros.
    """
    if d < _WIDE or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros((n, d), dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    pages = mmap.mmap(-1, max(1, n * d * dtype.itemsize), flags=flags)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # of two megabytes hardly any holds zeros alone
        with suppress(OSError):  # a system may have no such pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype, count=n * d).reshape(n, d)


def cells_in(rows: NDArray[Any]) -> tuple[NDArray[np.intp], ...] | None:
    """Return the places of the cells of wide rows that are not zero, to the bit; None where they are many."""
    if rows.shape[1] < _WIDE:
        return None
    bits = rows.view(f"u{rows.dtype.itemsize}")
    return None if 8 * np.count_nonzero(bits) > bits.size else np.nonzero(bits)


def copy_rows(rows: NDArray[Any], into: NDArray[Any]) -> None:
    """Copy rows into rows of zeros, which stay untouched where they stay zero."""
    for some in few_rows(rows):
        at = cells_in(rows[some])
        if at is None:
            into[some] = rows[some]
        else:
            into[some][at] = rows[some][at]


def taken(X: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[Any]:
    """Return a copy of some rows of a matrix; of wide ones, what is zero takes no memory here either."""
    if X.shape[1] < _WIDE:
        return X[kept]
    found, done = zeros(int(kept.sum()), X.shape[1], X.dtype), 0
    for some in few_rows(X):
        rows = X[some][kept[some]]
        copy_rows(rows, found[done : done + len(rows)])
        done += len(rows)
    return found


def content_of(
    X: Iterable[NDArray[Any]], y: Iterable[NDArray[Any]], records: Records, dtype: np.dtype[Any]
) -> Iterator[Any]:
    """Return the content of records whose coordinates and labels come part by part; the parts do not matter.

    A site's ledgers know records by it, so it never changes, and it is the same wherever the records lie. Of more than
    one block it is the blocks' hashes, which the machines of a cluster can compute at the same time.

    Parameters
    ----------
    X, y : iterable of ndarray
        They are read where there is one block alone.
    records : Records
    dtype : dtype
        Of a coordinate.
    """
    n, d = records.n, records.d
    if n > ROWS:
        yield f"Dataset blocks {dtype.str} {(n, d)} ".encode()
        yield from records.partials(DigestOf())
    else:
        yield f"Dataset X array {dtype.str} {(n, d)} ".encode()
        yield from map(np.ascontiguousarray, X)
        yield f"y array <f8 {(n,)} ".encode()
        yield from map(np.ascontiguousarray, y)
    repaired = records.repaired
    named = (
        (b"classes ", records.classes),
        (b"repaired Repaired clamped ", repaired.clamped),
        (b"filled ", repaired.filled),
    )
    for name, value in named:
        text = repr(value).encode()
        yield name + len(text).to_bytes(8, "big") + text


@dataclass(frozen=True)
class DigestOf:
    """A block's hash."""

    def __call__(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return 32 bytes."""
        state = hashlib.sha256(f"{X.shape} ".encode())
        for part in (X, y):
            state.update(np.ascontiguousarray(part, dtype="<f8").data)
        return np.frombuffer(state.digest(), dtype=np.uint8)


@dataclass(frozen=True)
class Whole:
    """A block itself, its labels as the last column; for records of one block."""

    def __call__(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a matrix."""
        return np.column_stack((X, y))


def exact_sum(parts: Iterator[NDArray[Any]]) -> NDArray[Any]:
    """Return the sum of arrays of integers: int64, or Python's integers where a sum might not fit."""
    total = np.array(next(parts))
    reach = _reach(total)
    for part in parts:
        reach += _reach(part)
        if reach > _LARGEST or part.dtype == object:
            total = total.astype(object, copy=False)
        total += part
    return total


@contextmanager
def _one_thread(size: int) -> Iterator[None]:
    """Give linear algebra one thread: a product that several threads share may differ in its last bit."""
    if size < _SHARED:
        yield
        return
    several = [(library, threads) for library in _libraries() if (threads := library.get_num_threads()) != 1]
    for library, _ in several:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, threads in several:
            library.set_num_threads(threads)


@lru_cache(maxsize=1)
def _libraries() -> list[Any]:
    loaded = importlib.import_module("threadpoolctl").ThreadpoolController()  # numpy's, which is loaded by now
    return [library for library in loaded.lib_controllers if library.user_api == "blas"]


def _reach(part: NDArray[Any]) -> int:
    """Return the largest absolute value, as one of Python's integers, which never overflow."""
    return max(abs(int(part.min())), abs(int(part.max()))) if part.size else 0


# --- Holdout ---------------------------------------------------------------------

AnyRecords = TypeVar("AnyRecords", bound=Records)


def are_held_back(n: int, share: float, start: int = 0) -> NDArray[np.bool_]:
    """Return for each of n rows whether it is held back.

    Parameters
    ----------
    n : int
        The number of rows.
    share : float
        Between 0 and 1. It counts as the decimal number that a study's file shows, so that all machines agree.
    start : int
        The place of the first of these rows among all records.
    """
    exact = as_fraction(share)
    fits = (start + n) * exact.numerator < 1 << 63
    places = np.arange(start, start + n + 1, dtype=np.int64 if fits else object)
    below: NDArray[np.int64] = (places * exact.numerator // exact.denominator).astype(np.int64)
    return np.diff(below) > 0


def split(study: Study, data: AnyRecords) -> tuple[AnyRecords, AnyRecords | None]:
    """Return the records to learn from, and those held back; None where the study has no ``[evaluation]``."""
    return (data, None) if study.evaluation is None else data.sides(study.evaluation.share)


def training_sides(study: Study, data: Mapping[str, AnyRecords]) -> dict[str, AnyRecords]:
    """Return each party's records to learn from: all of them where the study has no ``[evaluation]``."""
    return {name: split(study, records)[0] for name, records in data.items()}


def fewest_held_back(study: Study) -> int:
    """Return the fewest records that all parties together can hold back; 0 where the study has no ``[evaluation]``."""
    return study.K * _held_back(study, study.study.min_records)


def most_held_back(study: Study) -> int:
    """Return the most records that all parties together can hold back; 0 where the study has no ``[evaluation]``."""
    return sum(parties * _held_back(study, most) for most, parties in study.record_limits.items())


def fewest_to_learn_from(study: Study) -> int:
    """Return the fewest records that all parties together can have to learn from."""
    return study.fewest_records - fewest_held_back(study)


def counted_to_learn_from(study: Study) -> int:
    """Return how many records to learn from a forecast counts on: of those that are expected, else of the fewest."""
    N = study.study.expected_records or study.fewest_records
    return N - _held_back(study, N)


def most_to_learn_from(study: Study) -> int:
    """Return the most records that all parties together can have to learn from.

    No share is more than a half, so a party with more records has at least as many to learn from.
    """
    return study.most_records - most_held_back(study)


def _held_back(study: Study, n: int) -> int:
    return 0 if study.evaluation is None else int(as_fraction(study.evaluation.share) * n)

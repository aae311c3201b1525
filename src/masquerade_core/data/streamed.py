"""Records that are read once, encoded, and kept in a scratch file: more of them than memory holds.

Each sum over records reads the file block by block. Its result is that of the same records in memory, bit for bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.holdout import are_held_back
from masquerade_core.data.records import ROWS, OfBlock, Records, Repaired, content_of
from masquerade_core.data.schema import check_labels, check_unit_ball
from masquerade_core.data.scratch import Scratch
from masquerade_core.errors import LocalProtocolError
from masquerade_core.study import as_fraction

__all__ = ["Room", "Streamed"]

_LABEL = np.dtype(np.float64)


class Room:
    """A matrix in a scratch file, which fills from its first row on.

    Parameters
    ----------
    folder : path
        The folder of the scratch file.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = folder
        self._scratch: Scratch | None = None
        self._X: NDArray[Any] = np.empty((0, 0))
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the scratch file, unless records were made of it."""
        if self._scratch is not None:
            self._scratch.close()

    def matrix(self, most: int, d: int, dtype: Any) -> NDArray[Any]:
        """Return the matrix of ``most`` rows; there is space for as many labels.

        Raises
        ------
        BadInput
            The folder cannot be used, or its disk has too little space.
        """
        self._scratch = Scratch(self._folder, most * (d * np.dtype(dtype).itemsize + _LABEL.itemsize))
        self._X = self._scratch.array((most, d), dtype)
        return self._X

    def filled(self, n: int) -> None:
        """Check the rows up to ``n``, which are not touched again, and give their memory back."""
        if n > len(self._X):
            raise LocalProtocolError("a source has more records than it said")
        check_unit_ball(self._X[self._done : n])
        if self._scratch is not None:
            width = self._X.strides[0]
            self._scratch.forget(self._done * width, n * width)
        self._done = n

    def records(self, y: NDArray[Any], classes: int | None, repaired: Repaired) -> "Streamed":
        """Return the rows that were filled, with their labels."""
        X, scratch, self._X, self._scratch = self._X, self._scratch, np.empty((0, 0)), None
        assert scratch is not None  # noqa: S101  the matrix was made
        found = Streamed(scratch, len(y), X.shape[1], X.dtype, classes, repaired)
        scratch.shrink(len(y) * (X.strides[0] + _LABEL.itemsize))
        for start in range(0, len(y), ROWS):
            some = np.asarray(y[start : start + ROWS], dtype=_LABEL)
            check_labels(some, classes)
            scratch.write(found.place_of_labels + start * _LABEL.itemsize, some)
        return found


@dataclass(frozen=True, repr=False, eq=False)
class Streamed(Records):
    """One party's records in a scratch file. They are secret, and so is their number.

    Parameters
    ----------
    scratch : Scratch
        All records, row after row, and all labels behind them.
    rows : int
        How many records the file holds.
    width : int
        The number of a record's coordinates.
    dtype : dtype
        Of a coordinate: float64 or float32.
    classes : int or None
    repaired : Repaired
    share : float, optional
        The share of records that is held back from learning, where these are one side of the file's records.
    held : bool
        Whether they are those held back.
    """

    scratch: Scratch
    rows: int
    width: int
    dtype: np.dtype[Any]
    classes: int | None = None
    repaired: Repaired = field(default_factory=Repaired)
    share: float | None = None
    held: bool = False

    @property
    def n(self) -> int:
        """The number of records."""
        if self.share is None:
            return self.rows
        held = int(as_fraction(self.share) * self.rows)
        return held if self.held else self.rows - held

    @property
    def d(self) -> int:
        """The number of a record's coordinates."""
        return self.width

    @property
    def place_of_labels(self) -> int:
        """Where the labels begin in the file."""
        return self.rows * self._record

    @property
    def _record(self) -> int:
        return self.width * self.dtype.itemsize

    @property
    def _starts(self) -> range:
        return range(0, max(1, self.rows), ROWS)

    def _kept(self, start: int) -> NDArray[np.bool_]:
        rows = min(ROWS, self.rows - start)
        return np.full(rows, True) if self.share is None else are_held_back(rows, self.share, start) == self.held

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return the records and labels of each block; the next block takes the place of the one before."""
        most = min(ROWS, self.rows)
        stored = np.empty((most, self.width), dtype=self.dtype)
        exact = stored if self.dtype == np.float64 else np.empty((most, self.width))
        labels = np.empty(most, dtype=_LABEL)
        for start in self._starts:
            end = min(start + ROWS, self.rows)
            X, y = exact[: end - start], labels[: end - start]
            self.scratch.read(start * self._record, stored[: end - start])
            self.scratch.read(self.place_of_labels + start * _LABEL.itemsize, y)
            self.scratch.expect(end * self._record, min(ROWS, self.rows - end) * self._record)
            if exact is not stored:
                np.copyto(X, stored[: end - start])
            if self.share is None:
                yield X, y
            else:
                kept = self._kept(start)
                yield X[kept], y[kept]

    def partials(self, f: OfBlock) -> Iterator[NDArray[Any]]:
        """Return f of each block, in the order of the blocks; of one empty block where there are no records."""
        return (f(X, y) for X, y in self.blocks())

    def sides(self, share: float) -> tuple[Self, Self]:
        """Return the records to learn from, and the part of this share that is held back."""
        one, other = (
            type(self)(self.scratch, self.rows, self.width, self.dtype, self.classes, share=share, held=held)
            for held in (False, True)
        )
        return one, other

    def content(self) -> Iterator[Any]:
        """Return what a ledger's fingerprint is made of."""
        if self.share is not None:
            raise LocalProtocolError("a ledger knows all records of a source, and not one side of them")
        X = self._parts(0, np.empty((min(ROWS, self.rows), self.width), dtype=self.dtype))
        y = self._parts(self.place_of_labels, np.empty(min(ROWS, self.rows), dtype=_LABEL))
        return content_of(X, y, self, self.dtype)

    def _parts(self, place: int, into: NDArray[Any]) -> Iterator[NDArray[Any]]:
        for start in range(0, self.rows, ROWS):
            part = into[: self.rows - start]
            self.scratch.read(place + start * into.strides[0], part)
            yield part

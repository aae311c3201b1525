"""Records that are read once, encoded, and kept in a scratch file: more of them than memory holds.

Each sum over records reads the file block by block. Its result is that of the same records in memory, bit for bit.

A scratch file without a name: no other program can open it, and the system frees it when this process ends.

That holds however the process ends, ``kill -9`` and a power cut included. While it lives, its blocks lie on the disk in
the clear, as the file of the records does.
"""

import errno
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import ROWS, OfBlock, Records, Repaired, are_held_back, content_of
from masquerade_core.data.schema import check_labels, check_rows
from masquerade_core.errors import BadInput, LocalProtocolError, RunFailed
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.study import Coding

__all__ = ["Room", "Scratch", "Streamed"]


# --- Scratch ---------------------------------------------------------------------

_PAGE = mmap.ALLOCATIONGRANULARITY
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Scratch:
    """A file of a fixed size in a folder; all of its space is there before anything is written.

    Parameters
    ----------
    folder : path
        On a disk of this machine.
    size : int
        In bytes.

    Raises
    ------
    BadInput
        The folder is not there, nothing may be written to it, or it has too little space.
    """

    def __init__(self, folder: Path | str, size: int) -> None:
        self.size = size
        self._folder = Path(folder)
        self._mapped: mmap.mmap | None = None
        try:
            self._handle = _opened(self._folder)
        except OSError as error:
            raise BadInput(
                f"no scratch file can be made in {folder}: {error.strerror}",
                "name a folder on a disk of this machine that this user may write to",
            ) from None
        self._free = weakref.finalize(self, os.close, self._handle)
        try:
            _reserve(self._handle, size)
        except OSError as error:
            raise self._refused(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<Scratch: secret>"

    def close(self) -> None:
        """Free the file's space."""
        self._mapped = None
        self._free()

    def array(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return the beginning of the file as an array. What is written to it, is written to the file."""
        self._mapped = mmap.mmap(self._handle, max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize))
        return np.frombuffer(self._mapped, dtype, count=int(np.prod(shape))).reshape(shape)

    def forget(self, start: int, end: int) -> None:
        """Give back the memory of some bytes of the array; the bytes themselves stay in the file."""
        start, end = -(-start // _PAGE) * _PAGE, end // _PAGE * _PAGE
        if self._mapped is not None and end > start and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED, start, end - start)

    def _refused(self, error: OSError) -> BadInput:
        """Free the file, and return an error. Its size is not told: it follows from the number of records."""
        self.close()
        if error.errno not in _FULL:
            return BadInput(
                f"the scratch file in {self._folder} cannot be written: {error.strerror}",
                "name a folder on another disk of this machine",
            )
        return BadInput(
            f"the disk of {self._folder} has too little free space for the records; nothing was left there",
            "free some space, or name a folder on another disk: a record takes 8 bytes for each coordinate and 8 for "
            'its label, or 4 for each coordinate where the study has precision = "float32"',
        )

    def shrink(self, size: int) -> None:
        """Give back the space behind some bytes, and take no more arrays' bytes for the file's."""
        self._mapped = None
        os.ftruncate(self._handle, max(1, size))

    def write(self, offset: int, array: NDArray[Any]) -> None:
        """Write an array's bytes.

        Raises
        ------
        BadInput
            The disk does not take them.
        """
        left = array.reshape(-1).view(np.uint8).data
        try:
            while left:
                done = os.pwrite(self._handle, left, offset)
                left, offset = left[done:], offset + done
        except OSError as error:
            raise self._refused(error) from None

    def expect(self, offset: int, size: int) -> None:
        """Have the system read some bytes ahead."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._handle, offset, size, os.POSIX_FADV_WILLNEED)

    def read(self, offset: int, into: NDArray[Any]) -> None:
        """Fill an array with the bytes from a place on.

        Raises
        ------
        RunFailed
            The disk does not give them.
        """
        left = into.reshape(-1).view(np.uint8).data
        try:
            while left:
                done = _read_some(self._handle, left, offset)
                left, offset = left[done:], offset + done
        except OSError as error:
            raise RunFailed(
                f"the scratch file in {self._folder} cannot be read: {error.strerror}",
                "check the disk, and start the run again",
            ) from None


def _opened(folder: Path) -> int:
    """Open a file that has no name, or none any more, with mode 0600."""
    if hasattr(os, "O_TMPFILE"):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EISDIR}:  # the file system has only files with names
                raise
    handle, name = tempfile.mkstemp(prefix=".masquerade-", dir=folder)
    Path(name).unlink()
    return handle


def _read_some(handle: int, into: memoryview, offset: int) -> int:
    done = os.preadv(handle, [into], offset)
    if not done:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return done


def _reserve(handle: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, max(1, size))
    else:
        os.truncate(handle, max(1, size))


# --- Streamed --------------------------------------------------------------------

_LABEL = np.dtype(np.float64)


class Room:
    """A matrix in a scratch file, which fills from its first row on.

    Parameters
    ----------
    folder : path
        The folder of the scratch file.
    coding : Coding
        What the rows are.
    """

    def __init__(self, folder: Path | str, coding: Coding = "one-hot") -> None:
        self._folder, self._coding = folder, coding
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
        check_rows(self._X[self._done : n], self._coding)
        if self._scratch is not None:
            width = self._X.strides[0]
            self._scratch.forget(self._done * width, n * width)
        self._done = n

    def records(self, y: NDArray[Any], classes: int | None, repaired: Repaired) -> "Streamed":
        """Return the rows that were filled, with their labels."""
        X, scratch, self._X, self._scratch = self._X, self._scratch, np.empty((0, 0)), None
        assert scratch is not None  # noqa: S101  the matrix was made
        found = Streamed(scratch, len(y), X.shape[1], X.dtype, classes, repaired, coding=self._coding)
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
    coding : Coding
        What they are.
    """

    scratch: Scratch
    rows: int
    width: int
    dtype: np.dtype[Any]
    classes: int | None = None
    repaired: Repaired = field(default_factory=Repaired)
    share: float | None = None
    held: bool = False
    coding: Coding = "one-hot"

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
        one, other = (replace(self, repaired=Repaired(), share=share, held=held) for held in (False, True))
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

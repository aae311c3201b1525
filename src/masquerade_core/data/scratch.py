"""A scratch file without a name: no other program can open it, and the system frees it when this process ends.

That holds however the process ends, ``kill -9`` and a power cut included. While it lives, its blocks lie on the disk in
the clear, as the file of the records does.
"""

import errno
import mmap
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import BadInput, RunFailed

__all__ = ["Scratch"]

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

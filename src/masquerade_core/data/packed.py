"""Files of records that are packed with gzip or zstd: unpacked while they are read, some bytes at a time.

A file of some kilobytes may unpack to terabytes. Nobody asks here how many bytes there are, and none is kept: a packed
file costs its reader the memory and the disk that the same file costs unpacked.
"""

import gzip
import importlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

from masquerade_core.errors import BadInput

__all__ = ["MAGIC", "Packing", "Unpacked", "packing_of", "unpacked"]

Packing = Literal["gzip", "zstd", ""]

MAGIC: dict[Packing, bytes] = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
"""The first bytes of packed files."""


def packing_of(head: bytes) -> Packing:
    """Return how a file that begins with these bytes is packed; nothing where it is not."""
    return next((packing for packing, magic in MAGIC.items() if head.startswith(magic)), "")


class Unpacked:
    """The content of a packed file.

    Parameters
    ----------
    file : binary file
        The content, unpacked by a library.
    packing : str
    name : str
        The file's name, for an error.
    damaged : tuple of type
        The errors by which that library says that the file is damaged.
    """

    def __init__(self, file: Any, packing: Packing, name: str, damaged: tuple[type[Exception], ...]) -> None:
        self.packing = packing
        """How the file is packed."""
        self._file, self._name, self._damaged = file, name, damaged

    def read(self, size: int) -> bytes:
        """Return this many bytes; fewer at the end of the file.

        Raises
        ------
        BadInput
            The file is damaged, or its end is missing.
        """
        found = bytearray()
        try:
            while len(found) < size and (more := self._file.read(size - len(found))):
                found += more
        except self._damaged:
            pass
        else:
            return bytes(found)
        # Raised outside the handler: what a library says may show bytes of a record.
        raise BadInput(
            f"{self._name} is packed with {self.packing}, and damaged or cut off", "copy or write the file again"
        )


@contextmanager
def unpacked(file: BinaryIO, path: Path) -> Iterator[BinaryIO | Unpacked]:
    """Return the content of a file, which is open at its beginning: unpacked, where it is packed.

    Raises
    ------
    BadInput
        It is packed with zstd, and nothing here unpacks that.
    """
    packing = packing_of(file.read(max(map(len, MAGIC.values()))))
    file.seek(0)
    if packing == "gzip":
        with gzip.GzipFile(fileobj=file) as content:
            yield Unpacked(content, packing, path.name, (OSError, EOFError, zlib.error))
    elif packing == "zstd":
        content, damaged = _zstd(file, path)
        with content:
            yield Unpacked(content, packing, path.name, damaged)
    else:
        yield file


def _zstd(file: BinaryIO, path: Path) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return a file's content, and the errors by which it is damaged: by Python's own library, or by Parquet's."""
    try:
        zstd = importlib.import_module("compression.zstd")  # from Python 3.14 on
        return zstd.ZstdFile(file), (zstd.ZstdError, OSError, EOFError)
    except ImportError:
        pass
    try:
        return importlib.import_module("pyarrow").CompressedInputStream(file, "zstd"), (OSError,)
    except ImportError:
        pass
    raise BadInput(
        f"{path.name} is packed with zstd, and pyarrow, which unpacks it, is not installed",
        "unpack it with unzstd, or install pyarrow with 'pip install pyarrow'",
    )

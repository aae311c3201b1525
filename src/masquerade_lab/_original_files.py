"""Reading the files in which public data sets are given out, packed as .xz or .gz or not."""

import csv
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from masquerade_core.errors import BadInput
from masquerade_core.words import counted, listed

__all__ = ["Array", "Original", "Split", "Table", "read_arrays", "read_libsvm", "read_numbers", "read_table"]

Array = NDArray[np.float64]
Split = tuple[Array, Array, Array, Array]
"""X_train, y_train, X_test, y_test."""

_GET_AGAIN = "this is not the original file: get it again"
_PACKED: dict[str, Callable[[Path, str], Any]] = {"": Path.open, ".xz": lzma.open, ".gz": gzip.open}


@dataclass(frozen=True, repr=False)
class Table:
    """Text cells with headings, the label among them.

    Parameters
    ----------
    columns : tuple of str
    rows : sequence of sequence of str
        Each as long as ``columns``.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]

    def column(self, name: str) -> list[str]:
        """Return the cells of one column.

        Raises
        ------
        BadInput
            There is no such column.
        """
        if name not in self.columns:
            raise BadInput(
                f"the original files have no column {name!r}", f"name one of their columns: {', '.join(self.columns)}"
            )
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


@dataclass(frozen=True)
class Original:
    """A data set's original files, and where they come from."""

    title: str
    files: tuple[str, ...]
    source: str

    def find(self, place: Path, name: str) -> Path:
        """Return the path of one of the files, packed or not; ``place`` is the directory or a file in it."""
        if place.is_file() and len(self.files) == 1:
            return place
        directory = place.parent if place.is_file() else place
        for ending in _PACKED:
            if (path := directory / f"{name}{ending}").is_file():
                return path
        raise BadInput(f"{directory} holds no file {name}, which is a part of {self.title}", self.hint)

    @property
    def hint(self) -> str:
        """How to get the files."""
        return (
            f"get it from {self.source}; the directory must hold {listed(self.files)}, unpacked or packed as .xz or .gz"
        )


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, packed or not, and say in a sentence what is wrong with it."""
    ending = path.suffix if path.suffix in _PACKED else ""
    try:
        with _PACKED[ending](path, "rb") as file:
            yield file
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}", "correct the path") from error
    except (lzma.LZMAError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInput(f"{path} cannot be unpacked", _GET_AGAIN) from error
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read: {error.strerror or error}", "check the path and who may read it"
        ) from error


def read_table(
    path: Path,
    columns: tuple[str, ...],
    *,
    delimiter: str = ",",
    heading: bool = False,
    comment: str = "",
    label_stop: bool = False,
) -> Table:
    """Read a table of text.

    Parameters
    ----------
    path : Path
    columns : tuple of str
        The columns that every line must have.
    delimiter : str
    heading : bool
        Whether the first line names the columns.
    comment : str
        The beginning of lines to leave out.
    label_stop : bool
        Whether a full stop after a label is left out.

    Raises
    ------
    BadInput
        It is no such file.
    """
    rows: list[tuple[str, ...]] = []
    known: dict[str, str] = {}  # most cells repeat: one copy of each text
    with _opened(path) as file:
        try:
            text = (line.decode() for line in file)
            reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
            for row in reader:
                if not row or (comment and row[0].startswith(comment)):
                    continue
                if len(row) != len(columns):
                    raise BadInput(
                        f"{path}, line {reader.line_num} has {counted(len(row), 'column')}, "
                        f"where {len(columns)} are expected",
                        _GET_AGAIN,
                    )
                rows.append(tuple(known.setdefault(cell, cell) for cell in row))
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadInput(f"{path} is not a table of text in columns", _GET_AGAIN) from error
    if heading:
        if not rows or rows[0] != columns:
            raise BadInput(
                f"{path} has different headings from the original", f"the original's are {', '.join(columns)}"
            )
        del rows[0]
    if not rows:
        raise BadInput(f"{path} holds no records", _GET_AGAIN)
    if label_stop:
        labels = {row[-1]: row[-1].removesuffix(".") for row in rows}
        rows = [(*row[:-1], labels[row[-1]]) for row in rows]
    return Table(columns, rows)


def read_libsvm(path: Path, features: int) -> tuple[Array, Array]:
    """Read a file in LIBSVM's format, of 0/1 features and labels -1 and +1.

    Raises
    ------
    BadInput
        It is no such file.
    """
    with _opened(path) as file:
        try:
            X, y = load_svmlight_file(file, n_features=features, zero_based=False)
        except ValueError as error:
            raise BadInput(
                f"{path} is not in LIBSVM's format, or has features beyond {features}", _GET_AGAIN
            ) from error
    if not len(y) or not (np.abs(y) == 1).all() or not (X.data == 1).all():
        raise BadInput(f"{path} is not a9a: its labels are -1 and +1, and every feature is 0 or 1", _GET_AGAIN)
    return X.toarray(), y


def read_numbers(path: Path) -> Array:
    """Read a table of numbers between blanks.

    Raises
    ------
    BadInput
        It is no such file.
    """
    with _opened(path) as file:
        try:
            return np.loadtxt(file, dtype=np.float64, ndmin=2)
        except ValueError as error:
            raise BadInput(f"{path} is not a table of numbers", _GET_AGAIN) from error


def read_arrays(path: Path, hint: str) -> Split:
    """Read the four arrays of an .npz file; ``hint`` says where to get the data otherwise.

    Raises
    ------
    BadInput
        It does not hold them.
    """
    with _opened(path) as file:
        try:
            arrays = np.load(file, allow_pickle=False)
            X, y, X_test, y_test = (
                np.asarray(arrays[name], dtype=np.float64) for name in ("X_train", "y_train", "X_test", "y_test")
            )
        except (KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
            raise BadInput(f"{path} does not hold the arrays X_train, y_train, X_test and y_test", hint) from error
    return X, y, X_test, y_test

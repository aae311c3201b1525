"""A folder of Parquet files as one table: its files in the order of their names, all with the same columns.

The names are sorted by their characters, so ``part-10`` comes before ``part-2``. Names that begin with a full stop or
an underscore are those of other programs' notes, such as ``_SUCCESS``, and are left out.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade_core.data.files import PARQUET
from masquerade_core.data.parquet import ParquetFile
from masquerade_core.errors import BadInput

__all__ = ["Folder", "open_folder"]


@dataclass(frozen=True, repr=False)
class Folder:
    """A folder of Parquet files.

    Parameters
    ----------
    name : str
        The folder's name, for an error.
    files : tuple of Path
        In the order in which they are read.
    sizes : tuple of int
        The number of records of each.
    """

    name: str
    files: tuple[Path, ...]
    sizes: tuple[int, ...]


def open_folder(path: Path, wanted: Sequence[str]) -> Folder:
    """Return a folder's files.

    Parameters
    ----------
    path : Path
    wanted : sequence of str
        The columns that will be read.

    Raises
    ------
    BadInput
        The folder cannot be read, holds none or something else, or its files differ in columns, or a wanted column
        differs in type.
    """
    name = path.resolve().name
    files = tuple(sorted((file for file in _listed(path, name) if file.name[0] not in "._"), key=lambda f: f.name))
    if (strange := next((f for f in files if f.is_dir() or f.suffix.lower() not in PARQUET), None)) is not None:
        raise BadInput(
            f"the folder {name} holds {strange.name}, which is not a Parquet file",
            "a folder of records holds files that end in .parquet, and nothing else",
        )
    if not files:
        raise BadInput(f"the folder {name} holds no Parquet file", "write the records into it, or correct the path")
    sizes, first = [], None
    for file in files:
        each = ParquetFile(file)
        each.find(wanted)
        sizes.append(sum(each.groups))
        shape = each.names, {column: each.type_of(column) for column in wanted}
        if first is None:
            first = shape
        _same(first, shape, files[0].name, file.name)
    return Folder(name, files, tuple(sizes))


def _listed(path: Path, name: str) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as error:
        raise BadInput(f"the folder {name} cannot be read: {error.strerror}", "check who may read it") from error


def _same(first: tuple[Any, Any], other: tuple[Any, Any], one: str, two: str) -> None:
    """Refuse a file whose columns differ from the first file's."""
    if set(first[0]) != set(other[0]):
        raise BadInput(
            f"{two} and {one} do not have the same columns", "write all files of the folder from one and the same table"
        )
    is_null = importlib.import_module("pyarrow").types.is_null
    for column, kind in other[1].items():
        if kind != first[1][column] and not is_null(kind) and not is_null(first[1][column]):
            raise BadInput(
                f"{two} and {one} have the column {column!r} in two types, {kind} and {first[1][column]}",
                "write the column with one type, since 4 and 4.0 differ as texts",
            )

"""All cells of a table as text, wherever it lies: in a file, a folder of Parquet files, or a database."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from masquerade_core.data.databases import open_query
from masquerade_core.data.files import Place, TextTable, data_at
from masquerade_core.data.folders import open_folder
from masquerade_core.data.noting import read_table
from masquerade_core.errors import BadInput

__all__ = ["read_cells"]


@dataclass(frozen=True, repr=False)
class _OfFolder(TextTable):
    """The cells of several files.

    Parameters
    ----------
    parts : sequence of TextTable
        One for each file.
    """

    parts: Sequence[TextTable] = ()

    def at(self, row: int) -> str:
        ends = list(accumulate(len(part.numbers) for part in self.parts))
        place = bisect_right(ends, row)
        return self.parts[place].at(row - (ends[place - 1] if place else 0))

    def places(self, source: str) -> Sequence[Place]:
        return [place for part in self.parts for place in part.places(source)]


def read_cells(
    data: Path | str,
    wanted: Sequence[str],
    *,
    fills: bool = False,
    keeps: bool = False,
    keys: Sequence[str] = (),
) -> TextTable:
    """Read the wanted columns of a table.

    Parameters
    ----------
    data : path or str
        As :func:`masquerade_core.data.files.data_at` reads it.
    wanted : sequence of str
    fills, keeps : bool
        As in :func:`masquerade_core.data.blocks.read_table`.
    keys : sequence of str
        Those wanted columns by which a query may order its records.

    Raises
    ------
    BadInput
        The table cannot be used as it is.
    """
    found = data_at(data)
    if isinstance(found, Path) and not found.is_dir():
        return read_table(found, wanted, fills=fills, keeps=keeps)
    if isinstance(found, Path):
        folder = open_folder(found, wanted)
        parts = [read_table(file, wanted) for file, n in zip(folder.files, folder.sizes, strict=True) if n]
        name = folder.name
    else:
        rows = open_query(found, (), wanted, fills=fills, keys=keys)
        parts = [table for _, tables in rows.blocks for table in tables()]
        name = found.name
    if not parts:
        raise BadInput(f"{name} has column names but no records", "write the records into it")
    columns = {column: [cell for part in parts for cell in part.columns[column]] for column in wanted}
    return _OfFolder(dict(columns), range(1, len(columns[wanted[0]]) + 1), "record", name, parts=parts)

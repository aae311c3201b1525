"""A file of records as a run of blocks, so that no more than a block of it is in memory as text.

A block of a CSV file holds whole lines, a block of a Parquet file whole records. Where pyarrow is there, it reads all
wanted columns of a block at once: a column of numbers as an array, another one as its different texts and each record's
place among them. :meth:`Block.tables` reads the same block cell by cell, with the line of each record for an error. The
caller does that where pyarrow is not there. Where a cell does not fit, it does so for that record alone, with
:meth:`Block.some`.

Reading the wanted columns of a CSV or Parquet file as text cells, all of them at once.

CSV is UTF-8 with commas and one line of column names. Of a Parquet file (.parquet, .pq) only the wanted columns are
read, a batch of records at a time. Each value becomes the text that stands for exactly it, and a missing value an empty
cell. So equal data give equal records from either kind of file. An error shows a column name of the file only if it is
nearly a wanted one, since the first line of a file without headings is a record.
"""

import importlib.util
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from masquerade_core.data.file_faults import Faults, FaultyFile, Sign, line_kind
from masquerade_core.data.files import (
    PARQUET,
    Block,
    Layout,
    Opening,
    Recoded,
    Source,
    TextTable,
    cell_text,
    content_of_file,
    data_at,
    encoding_of,
    nothing,
    opening_of,
    parse_lines,
    parse_some,
)
from masquerade_core.data.schema import WholeColumn

if TYPE_CHECKING:
    from masquerade_core.data.packed import Unpacked

__all__ = ["NO_RECORDS", "TextTable", "cell_text", "no_records", "note_broken", "read_table", "source_of"]


# --- Blocks ----------------------------------------------------------------------

_BYTES = 1 << 21  # of a block of CSV
_HEAD = 1 << 16
_LONGEST = 1 << 25  # of a record; a quote that is open for longer will not be closed
_LARGE = 1 << 20  # records of a group, as pyarrow writes them
_WORTH_IT = 1 << 20  # a CSV file with fewer bytes is read before pyarrow would be there
_UNPACKED = 6  # a table is about so many times as large as it is packed
_THREADS = 2  # that read blocks of CSV while the last ones are encoded


def source_of(
    path: Path | str, numbers: Sequence[str], others: Sequence[str], *, fills: bool = False, small: bool = False
) -> Source:
    """Return a file's wanted columns, block by block.

    Parameters
    ----------
    path : path or str
        A CSV or Parquet file, a folder of Parquet files, or a query to a database, as a text.
    numbers : sequence of str
        The columns that hold numbers.
    others : sequence of str
        The columns whose texts matter.
    fills : bool
        As in :func:`masquerade_core.data.blocks.read_table`.
    small : bool
        Whether very large groups of records of a Parquet file are cut into several blocks.

    Raises
    ------
    BadInput
        The file cannot be opened, or is a damaged Parquet file.
    """
    found = data_at(path)
    if not isinstance(found, Path):
        from masquerade_core.data.databases import open_query

        rows = open_query(found, numbers, others, fills=fills)
        return Source(found.name, rows.n, starmap(Block, rows.blocks))
    path = found
    if path.is_dir():
        from masquerade_core.data.folders import open_folder

        folder = open_folder(path, (*numbers, *others))
        parts = (source_of(file, numbers, others, small=small) for file in folder.files)
        return Source(folder.name, sum(folder.sizes), chain.from_iterable(part.blocks for part in parts))
    if path.suffix.lower() in PARQUET:
        from masquerade_core.data.parquet import ParquetFile, parquet_source

        return parquet_source(ParquetFile(path), numbers, others, most=_LARGE if small else sys.maxsize)
    wanted = (*numbers, *others)
    with content_of_file(path) as file:
        encoding = encoding_of(file.read(_HEAD))
        is_packed = not hasattr(file, "fileno")
    with content_of_file(path) as file:
        first, _ = next(_whole_lines(_as_utf8(file, encoding), _HEAD), (b"", True))
    size = path.stat().st_size
    if is_packed:
        size *= _UNPACKED
    opening = opening_of(first, wanted, encoding, fills=fills)
    reader = None
    if size >= _WORTH_IT and not opening.signs:
        reader = _columns_reader(opening.layout, numbers, others, fills=fills)
    body = first[opening.size :]
    lines = 2 * size * (body.count(b"\n") + 1) // (len(body) + 1)  # lines further down may be half as long
    about = min(lines, size // max(1, len(opening.layout.header))) + 1
    blocks = _csv(path, opening, reader, fills=fills)
    return Source(path.name, about, blocks, opening.signs, "line", path)


def _columns_reader(layout: Layout, numbers: Sequence[str], others: Sequence[str], *, fills: bool) -> Any:
    """Return what reads a block of CSV column by column; None where pyarrow is not there."""
    if importlib.util.find_spec("pyarrow") is None:
        return None
    from masquerade_core.data.arrow import CsvColumns

    return CsvColumns(layout, numbers, others, fills=fills)


# --- CSV -------------------------------------------------------------------------------


def _as_utf8(file: "BinaryIO | Unpacked", encoding: str) -> "BinaryIO | Recoded | Unpacked":
    return file if encoding == "utf-8" else Recoded(file, encoding)


def _csv(path: Path, opening: Opening, reader: Any, *, fills: bool) -> Iterator[Block]:
    line, layout = opening.lines, opening.layout
    with content_of_file(path) as file, ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Block] = deque()
        text = _as_utf8(file, opening.encoding)
        text.read(opening.size)
        for body, is_whole in _whole_lines(text, _BYTES):
            tables = partial(_tables, body, layout, path.name, line, fills)
            columns: Callable[[], Mapping[str, WholeColumn] | None] = nothing
            if reader is not None and is_whole:
                columns = pool.submit(reader, body).result
            some = partial(parse_some, body, layout, path.name, line, fills)
            waiting.append(Block(columns, tables, some))
            line += body.count(b"\n")
            if len(waiting) > _THREADS:
                yield waiting.popleft()
        yield from waiting


def _tables(body: bytes, layout: Layout, source: str, first: int, fills: bool) -> Iterable[TextTable]:
    return (parse_lines(body, layout, source, first, fills=fills),)


def _whole_lines(file: "BinaryIO | Recoded | Unpacked", size: int) -> Iterator[tuple[bytes, bool]]:
    """Cut a file into blocks that end where a line does, which is not inside quotes; and say whether they do."""
    kept, seen, inside = b"", 0, False
    while data := file.read(size):
        kept += data
        end = kept.rfind(b"\n") + 1
        if end > seen:
            inside ^= kept.count(b'"', seen, end) % 2 == 1
            seen = end
        if end and (not inside or len(kept) > max(_LONGEST, 16 * size)):
            yield kept[:end], not inside
            kept, seen, inside = kept[end:], 0, False
        elif len(kept) > max(_LONGEST, 16 * size):  # one line, which no record is as long as
            yield kept, False
            kept, seen, inside = b"", 0, False
    if kept:
        yield kept, kept.count(b'"') % 2 == 0


# --- Tables ----------------------------------------------------------------------

NO_RECORDS = Sign("no_records", "has column names but no records", "put a record on each further line")
"""The sign of a file with a header and nothing else."""


def read_table(path: Path | str, wanted: Sequence[str], *, fills: bool = False, keeps: bool = False) -> TextTable:
    """Read the wanted columns of a file.

    Parameters
    ----------
    path : path
    wanted : sequence of str
    fills : bool
        Whether a faulty line of a CSV file makes faulty cells and no error: a line with too many or too few cells
        becomes a record of empty cells, bytes that are no UTF-8 become a character that no number and no level has, and
        quotes are read as well as can be.
    keeps : bool
        Whether a line that is no record is no error, but noted in the table's ``broken``.

    Raises
    ------
    BadInput
        The file cannot be used as it is; the error says all that is wrong with it.
    """
    source = source_of(path, (), wanted, fills=fills)
    faults = Faults(source.name, source.unit, signs=list(source.signs))
    if any(sign.final for sign in source.signs):
        faults.check()
    columns: dict[str, list[str]] = {name: [] for name in wanted}
    numbers: list[int] = []
    broken: dict[int, str] = {}
    for block in source.blocks:
        for table in block.tables():
            note_broken(table, faults, refused=not keeps)
            broken |= {len(numbers) + row: wrong for row, wrong in table.broken.items()}
            numbers += table.numbers
            for name, cells in table.columns.items():
                columns[name] += cells
    faults.check()
    if not numbers:
        raise no_records(source.name)
    return TextTable(dict(columns), numbers, source.unit, source.name, broken)


def note_broken(table: TextTable, faults: Faults, *, refused: bool) -> None:
    """Count the lines of a table that are no records."""
    places = table.places(faults.source)
    faults.records += len(table.broken)
    for wrong in dict.fromkeys(table.broken.values()):
        numbers = [places[row] for row, other in table.broken.items() if other == wrong]
        faults.add("", line_kind(wrong), numbers, refused=refused)


def no_records(source: str) -> FaultyFile:
    """Return the error of a file with a header and nothing else."""
    return FaultyFile(source, (NO_RECORDS,), (), "line")

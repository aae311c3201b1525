"""A file of records as a run of blocks, so that no more than a block of it is in memory as text.

A block of a CSV file holds whole lines, a block of a Parquet file whole records. Where pyarrow is there, it reads all
wanted columns of a block at once: a column of numbers as an array, another one as its different texts and each record's
place among them. :meth:`Block.table` reads the same block cell by cell, with the line of each record for an error. The
caller does that where pyarrow is not there, or where a cell does not fit.
"""

import codecs
import importlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import IO, Any

from masquerade_core.data.arrow import is_number, levels_of, numbers_of
from masquerade_core.data.columns import MISSING_WORDS, WholeColumn
from masquerade_core.data.databases import open_query
from masquerade_core.data.files import no_utf8, opened
from masquerade_core.data.folders import open_folder
from masquerade_core.data.parquet import PARQUET, ParquetFile, one_array
from masquerade_core.data.queries import Query, data_at
from masquerade_core.data.tables import TextTable, parse_header, parse_lines

__all__ = ["Block", "Source", "source_of"]

_BYTES = 1 << 21  # of a block of CSV
_WORTH_IT = 1 << 20  # a CSV file with fewer bytes is read before pyarrow would be there
_NULLS = tuple(sorted({shape(word) for word in MISSING_WORDS for shape in (str, str.upper, str.capitalize)} | {"NaN"}))


@dataclass(frozen=True, repr=False)
class Block:
    """Some records of a file, in their order.

    Parameters
    ----------
    columns : callable
        Returns the columns as pyarrow reads them, or None where it cannot. A missing number is NaN.
    tables : callable
        Returns the block's cells, and the place of each record in the file; a large block's in several tables.
    """

    columns: Callable[[], Mapping[str, WholeColumn] | None]
    tables: Callable[[], Iterable[TextTable]]


@dataclass(frozen=True, repr=False)
class Source:
    """A file of records.

    Parameters
    ----------
    name : str
        The file's name, for an error.
    most : int
        The file has no more records than this.
    blocks : iterator of Block
        They can be read once. A block without records has an empty table.
    """

    name: str
    most: int
    blocks: Iterator[Block]


def source_of(path: Path | str, numbers: Sequence[str], others: Sequence[str], *, fills: bool = False) -> Source:
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
        As in :func:`masquerade_core.data.tables.read_table`.

    Raises
    ------
    BadInput
        The file cannot be used as it is. While blocks are read: a line cannot be used as it is.
    """
    found = data_at(path)
    if isinstance(found, Query):
        rows = open_query(found, numbers, others, fills=fills)
        return Source(found.name, rows.n, starmap(Block, rows.blocks))
    path = found
    if path.is_dir():
        folder = open_folder(path, (*numbers, *others))
        parts = (source_of(file, numbers, others) for file in folder.files)
        return Source(folder.name, sum(folder.sizes), chain.from_iterable(part.blocks for part in parts))
    if path.suffix.lower() in PARQUET:
        parquet = ParquetFile(path)
        return Source(path.name, sum(parquet.groups), _parquet(parquet, numbers, others))
    with opened(path) as file:
        size, lines = 0, 0
        while data := file.read(_BYTES):
            size, lines = size + len(data), lines + data.count(b"\n") + data.count(b"\r")
    reader = _arrow() if size >= _WORTH_IT else None
    return Source(path.name, lines + 1, _csv(path, numbers, others, reader, fills=fills))


def _arrow() -> Any:
    with suppress(ImportError):
        importlib.import_module("pyarrow.csv")
        return importlib.import_module("pyarrow")
    return None


# --- CSV -------------------------------------------------------------------------------


def _csv(path: Path, numbers: Sequence[str], others: Sequence[str], arrow: Any, *, fills: bool) -> Iterator[Block]:
    wanted, header, line = (*numbers, *others), list[str](), 0
    with opened(path) as file:
        for data in _whole_lines(file):
            body, first = data, line
            line += data.count(b"\n")
            if not header:
                text = io.StringIO(_decoded(data.removeprefix(codecs.BOM_UTF8), path.name, fills=fills), newline="")
                header, first = parse_header(text, wanted, path.name, fills=fills)
                body = text.read().encode("utf-8", "surrogatepass")

            def tables(body: bytes = body, first: int = first, header: list[str] = header) -> Iterable[TextTable]:
                lines = io.StringIO(_decoded(body, path.name, fills=fills), newline="")
                return (parse_lines(lines, header, wanted, path.name, first, fills=fills),)

            def columns(body: bytes = body, header: list[str] = header) -> Mapping[str, WholeColumn] | None:
                if arrow is None:
                    return None
                if not (fills or body.isascii()):
                    _decoded(body, path.name, fills=False)
                return _csv_columns(arrow, body, header, numbers, others)

            yield Block(columns, tables)
    if not header:
        parse_header(io.StringIO(), wanted, path.name, fills=fills)


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Cut a file into blocks that end where a line does. A line does not end inside quotes."""
    kept = b""
    while data := file.read(_BYTES):
        kept += data
        end = kept.rfind(b"\n") + 1
        if end and kept.count(b'"', 0, end) % 2 == 0:
            yield kept[:end]
            kept = kept[end:]
    if kept:
        yield kept


def _decoded(body: bytes, source: str, *, fills: bool) -> str:
    try:
        return body.decode("utf-8", errors="replace" if fills else "strict")
    except UnicodeDecodeError:
        pass
    raise no_utf8(source)  # outside the handler: the original error shows a record


def _csv_columns(
    arrow: Any, body: bytes, header: Sequence[str], numbers: Sequence[str], others: Sequence[str]
) -> Mapping[str, WholeColumn] | None:
    level = arrow.dictionary(arrow.int32(), arrow.string())
    names = [name if header.count(name) == 1 else f"{name}\0{i}" for i, name in enumerate(header)]
    try:
        table = arrow.csv.read_csv(
            arrow.py_buffer(body),
            read_options=arrow.csv.ReadOptions(column_names=names, block_size=len(body) + 1),
            parse_options=arrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow.csv.ConvertOptions(
                column_types=dict.fromkeys(numbers, arrow.float64()) | dict.fromkeys(others, level),
                include_columns=[*numbers, *others],
                null_values=_NULLS,
                strings_can_be_null=False,
            ),
        )
    except arrow.ArrowException:
        return None
    found: dict[str, WholeColumn] = {name: numbers_of(one_array(table.column(name))) for name in numbers}
    return found | {name: levels_of(one_array(table.column(name)), lambda texts: texts.to_pylist()) for name in others}


# --- Parquet ---------------------------------------------------------------------------


def _parquet(file: ParquetFile, numbers: Sequence[str], others: Sequence[str]) -> Iterator[Block]:
    wanted, first = (*numbers, *others), 1
    file.find(wanted)
    for group, n in enumerate(file.groups):

        def tables(group: int = group, first: int = first) -> Iterator[TextTable]:
            for records in file.batches(wanted, group):
                cells = {name: file.texts(records.column(name), name) for name in wanted}
                yield TextTable(dict(cells), range(first, first + records.num_rows), "record", file.name)
                first += records.num_rows

        def columns(group: int = group) -> Mapping[str, WholeColumn] | None:
            if not all(is_number(file.type_of(name)) for name in numbers):
                return None
            return _Columns({name: partial(_parquet_column, file, group, name, name in numbers) for name in wanted})

        yield Block(columns, tables)
        first += n


def _parquet_column(file: ParquetFile, group: int, name: str, is_number: bool) -> WholeColumn:
    column = file.column(name, group)
    return numbers_of(column) if is_number else levels_of(column, partial(file.texts, name=name))


class _Columns(Mapping[str, WholeColumn]):
    """Columns that are read when they are asked for, one at a time."""

    def __init__(self, reads: Mapping[str, Callable[[], WholeColumn]]) -> None:
        self._reads = reads

    def __getitem__(self, name: str) -> WholeColumn:
        return self._reads[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._reads)

    def __len__(self) -> int:
        return len(self._reads)

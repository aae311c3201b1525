"""A file of records as a run of blocks, so that no more than a block of it is in memory as text.

A block of a CSV file holds whole lines, a block of a Parquet file whole records. Where pyarrow is there, it reads all
wanted columns of a block at once: a column of numbers as an array, another one as its different texts and each record's
place among them. :meth:`Block.table` reads the same block cell by cell, with the line of each record for an error. The
caller does that where pyarrow is not there, or where a cell does not fit.
"""

import importlib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import Any, BinaryIO

from masquerade_core.data.arrow import is_number, levels_of, numbers_of
from masquerade_core.data.columns import MISSING_WORDS, WholeColumn
from masquerade_core.data.databases import open_query
from masquerade_core.data.dialects import Opening, Recoded, encoding_of, opening_of
from masquerade_core.data.faults import Sign, Unit
from masquerade_core.data.files import columns_of, opened
from masquerade_core.data.folders import open_folder
from masquerade_core.data.parquet import PARQUET, ParquetFile, one_array
from masquerade_core.data.queries import Query, data_at
from masquerade_core.data.texts import Layout, TextTable, parse_lines
from masquerade_core.errors import BadInput

__all__ = ["Block", "Source", "source_of"]

_BYTES = 1 << 21  # of a block of CSV
_HEAD = 1 << 16
_LONGEST = 1 << 25  # of a record; a quote that is open for longer will not be closed
_LARGE = 1 << 20  # records of a group, as pyarrow writes them
_WORTH_IT = 1 << 20  # a CSV file with fewer bytes is read before pyarrow would be there
_THREADS = 2  # that read blocks of CSV while the last ones are encoded
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
    about : int
        Roughly how many records there are; seldom fewer than that.
    blocks : iterator of Block
        They can be read once. A block without records has an empty table.
    signs : tuple of Sign
        What is wrong with the file as a whole. The blocks have those columns that could be found.
    unit : str
        What places in it count: "line" or "record".
    lines_of : Path or None
        The CSV file, whose lines are not counted yet.
    """

    name: str
    about: int
    blocks: Iterator[Block]
    signs: tuple[Sign, ...] = ()
    unit: Unit = "record"
    lines_of: Path | None = None

    @property
    def most(self) -> int:
        """There are no more records than this."""
        if self.lines_of is None:
            return self.about
        lines = 1
        with opened(self.lines_of) as file:
            while data := file.read(_BYTES):
                lines += data.count(b"\n") + data.count(b"\r")
        return lines


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
        As in :func:`masquerade_core.data.tables.read_table`.
    small : bool
        Whether very large groups of records of a Parquet file are cut into several blocks.

    Raises
    ------
    BadInput
        The file cannot be opened, or is a damaged Parquet file.
    """
    found = data_at(path)
    if isinstance(found, Query):
        rows = open_query(found, numbers, others, fills=fills)
        return Source(found.name, rows.n, starmap(Block, rows.blocks))
    path = found
    if path.is_dir():
        folder = open_folder(path, (*numbers, *others))
        parts = (source_of(file, numbers, others, small=small) for file in folder.files)
        return Source(folder.name, sum(folder.sizes), chain.from_iterable(part.blocks for part in parts))
    if path.suffix.lower() in PARQUET:
        return _parquet_source(ParquetFile(path), numbers, others, most=_LARGE if small else sys.maxsize)
    wanted = (*numbers, *others)
    with opened(path) as file:
        encoding = encoding_of(file.read(_HEAD))
        file.seek(0)
        first, _ = next(_whole_lines(_as_utf8(file, encoding), _HEAD), (b"", True))
        size = os.fstat(file.fileno()).st_size
    opening = opening_of(first, wanted, encoding, fills=fills)
    reader = _arrow() if size >= _WORTH_IT and not opening.signs else None
    body = first[opening.size :]
    lines = 2 * size * (body.count(b"\n") + 1) // (len(body) + 1)  # lines further down may be half as long
    about = min(lines, size // max(1, len(opening.layout.header))) + 1
    blocks = _csv(path, numbers, others, opening, reader, fills=fills)
    return Source(path.name, about, blocks, opening.signs, "line", path)


def _arrow() -> Any:
    with suppress(ImportError):
        importlib.import_module("pyarrow.csv")
        return importlib.import_module("pyarrow")
    return None


# --- CSV -------------------------------------------------------------------------------


def _as_utf8(file: BinaryIO, encoding: str) -> BinaryIO | Recoded:
    return file if encoding == "utf-8" else Recoded(file, encoding)


def _csv(
    path: Path, numbers: Sequence[str], others: Sequence[str], opening: Opening, arrow: Any, *, fills: bool
) -> Iterator[Block]:
    line, layout = opening.lines, opening.layout
    with opened(path) as file, ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Block] = deque()
        text = _as_utf8(file, opening.encoding)
        text.read(opening.size)
        for body, is_whole in _whole_lines(text, _BYTES):
            tables = partial(_tables, body, layout, path.name, line, fills)
            columns: Callable[[], Mapping[str, WholeColumn] | None] = _nothing
            if arrow is not None and is_whole:
                columns = pool.submit(_csv_columns, arrow, body, layout, numbers, others, fills).result
            waiting.append(Block(columns, tables))
            line += body.count(b"\n")
            if len(waiting) > _THREADS:
                yield waiting.popleft()
        yield from waiting


def _tables(body: bytes, layout: Layout, source: str, first: int, fills: bool) -> Iterable[TextTable]:
    return (parse_lines(body, layout, source, first, fills=fills),)


def _nothing() -> None:
    return None


def _whole_lines(file: BinaryIO | Recoded, size: int) -> Iterator[tuple[bytes, bool]]:
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
    if kept:
        yield kept, kept.count(b'"') % 2 == 0


def _csv_columns(
    arrow: Any, body: bytes, layout: Layout, numbers: Sequence[str], others: Sequence[str], fills: bool
) -> Mapping[str, WholeColumn] | None:
    if not (fills or body.isascii()):
        try:
            body.decode()
        except UnicodeDecodeError:
            return None
    header = layout.header
    level = arrow.dictionary(arrow.int32(), arrow.string())
    names = [name if header.count(name) == 1 else f"{name}\0{i}" for i, name in enumerate(header)]
    try:
        table = arrow.csv.read_csv(
            arrow.py_buffer(body),
            read_options=arrow.csv.ReadOptions(column_names=names, block_size=len(body) + 1, use_threads=False),
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


def _parquet_source(file: ParquetFile, numbers: Sequence[str], others: Sequence[str], *, most: int) -> Source:
    picks, signs = columns_of(file.names, (*numbers, *others), "the file's own schema names the columns")
    for name in list(picks):
        try:
            file.find([file.names[picks[name]]])
        except BadInput as error:
            says = error.message.removeprefix(f"{file.name}: ")
            signs.append(Sign("column_type", says, error.hint))
            del picks[name]
    signs = [replace(sign, final=not picks) for sign in signs]
    numbers, others = ([name for name in some if name in picks] for some in (numbers, others))
    names = {name: file.names[picks[name]] for name in picks}
    blocks = _parquet(file, numbers, others, names, fits=not signs, most=most)
    return Source(file.name, sum(file.groups), blocks, tuple(signs))


def _parquet(
    file: ParquetFile, numbers: Sequence[str], others: Sequence[str], names: Mapping[str, str], *, fits: bool, most: int
) -> Iterator[Block]:
    wanted, first = (*numbers, *others), 1
    file.find([names[name] for name in wanted])
    fits = fits and all(is_number(file.type_of(name)) for name in numbers)
    for group, n in enumerate(file.groups):
        if n > most:
            yield from _batches(file, numbers, wanted, names, group, first, fits=fits)
            first += n
            continue

        def tables(group: int = group, first: int = first) -> Iterator[TextTable]:
            for records in file.batches([names[name] for name in wanted], group):
                cells = {name: file.texts(records.column(names[name]), names[name]) for name in wanted}
                yield TextTable(dict(cells), range(first, first + records.num_rows), "record", file.name)
                first += records.num_rows

        def columns(group: int = group) -> Mapping[str, WholeColumn] | None:
            if not fits:
                return None
            return _Columns({name: partial(_parquet_column, file, group, name, name in numbers) for name in wanted})

        yield Block(columns, tables)
        first += n


def _batches(
    file: ParquetFile,
    numbers: Sequence[str],
    wanted: Sequence[str],
    names: Mapping[str, str],
    group: int,
    first: int,
    *,
    fits: bool,
) -> Iterator[Block]:
    """Cut a group of records into blocks, of which memory holds one at a time, with all its columns."""
    for records in file.batches([names[name] for name in wanted], group):

        def tables(records: Any = records, first: int = first) -> Iterator[TextTable]:
            cells = {name: file.texts(records.column(names[name]), names[name]) for name in wanted}
            yield TextTable(dict(cells), range(first, first + records.num_rows), "record", file.name)

        def columns(records: Any = records) -> Mapping[str, WholeColumn] | None:
            found = {name: records.column(names[name]) for name in wanted}
            return None if not fits else {name: _whole(file, found[name], name, name in numbers) for name in wanted}

        yield Block(columns, tables)
        first += records.num_rows


def _parquet_column(file: ParquetFile, group: int, name: str, is_number: bool) -> WholeColumn:
    return _whole(file, file.column(name, group), name, is_number)


def _whole(file: ParquetFile, column: Any, name: str, is_number: bool) -> WholeColumn:
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

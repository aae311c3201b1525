"""A file of records as a run of blocks, so that no more than a block of it is in memory as text.

A block of a CSV file holds whole lines, a block of a Parquet file whole records. Where pyarrow is there, it reads all
wanted columns of a block at once: a column of numbers as an array, another one as its different texts and each record's
place among them. :meth:`Block.table` reads the same block cell by cell, with the line of each record for an error. The
caller does that where pyarrow is not there, or where a cell does not fit.
"""

import codecs
import importlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from masquerade_core.data.columns import MISSING_WORDS, Levels, WholeColumn
from masquerade_core.data.files import no_utf8, opened
from masquerade_core.data.parquet import PARQUET, Batch, parquet_batches, parquet_size
from masquerade_core.data.tables import TextTable, parse_header, parse_lines

__all__ = ["Block", "Source", "source_of"]

_BYTES = 16 << 20  # of a block of CSV
_WORTH_IT = 1 << 20  # a CSV file with fewer bytes is read before pyarrow would be there
_NULLS = tuple(sorted({shape(word) for word in MISSING_WORDS for shape in (str, str.upper, str.capitalize)} | {"NaN"}))


@dataclass(frozen=True, repr=False)
class Block:
    """Some records of a file, in their order.

    Parameters
    ----------
    columns : callable
        Returns the columns as pyarrow reads them, or None where it cannot. A missing number is NaN.
    table : callable
        Returns the block's cells, and the place of each record in the file.
    """

    columns: Callable[[], Mapping[str, WholeColumn] | None]
    table: Callable[[], TextTable]


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
    path : path
        A CSV or Parquet file.
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
    path = Path(path)
    if path.suffix.lower() in PARQUET:
        return Source(path.name, parquet_size(path), _parquet(path, numbers, others))
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

            def table(body: bytes = body, first: int = first, header: list[str] = header) -> TextTable:
                lines = io.StringIO(_decoded(body, path.name, fills=fills), newline="")
                return parse_lines(lines, header, wanted, path.name, first, fills=fills)

            def columns(body: bytes = body, header: list[str] = header) -> Mapping[str, WholeColumn] | None:
                if arrow is None:
                    return None
                if not (fills or body.isascii()):
                    _decoded(body, path.name, fills=False)
                return _csv_columns(arrow, body, header, numbers, others)

            yield Block(columns, table)
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
    records = table.combine_chunks().to_batches()
    return _columns(records[0], numbers, others, lambda texts, _: texts.to_pylist()) if records else None


# --- Parquet ---------------------------------------------------------------------------


def _parquet(path: Path, numbers: Sequence[str], others: Sequence[str]) -> Iterator[Block]:
    wanted, first = (*numbers, *others), 1
    for batch in parquet_batches(path, wanted):

        def table(batch: Batch = batch, first: int = first) -> TextTable:
            cells = {name: batch.texts(batch.records.column(name), name) for name in wanted}
            return TextTable(dict(cells), range(first, first + batch.records.num_rows), "record", path.name)

        def columns(batch: Batch = batch) -> Mapping[str, WholeColumn] | None:
            return _columns(batch.records, numbers, others, batch.texts)

        yield Block(columns, table)
        first += batch.records.num_rows


# --- Arrow -----------------------------------------------------------------------------


def _columns(
    records: Any, numbers: Sequence[str], others: Sequence[str], texts: Callable[[Any, str], list[str]]
) -> Mapping[str, WholeColumn] | None:
    found: dict[str, WholeColumn] = {}
    for name in numbers:
        column = records.column(name)
        if not str(column.type).startswith(("double", "float", "halffloat", "int", "uint")):
            return None
        values = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
        found[name] = np.asarray(values, dtype=np.float64)
    for name in others:
        column = records.column(name)
        if not str(column.type).startswith("dictionary"):
            column = column.dictionary_encode()
        different = texts(column.dictionary, name)
        places = column.indices.fill_null(len(different)).to_numpy(zero_copy_only=False)
        found[name] = Levels(places.astype(np.intp, copy=False), (*different, ""))
    return found

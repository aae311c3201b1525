"""A source of records, block by block: its columns as the encoder takes them, and its text cells where they are needed.

A CSV file is read here, with pyarrow where it is large. Every other source has a module of its own, which is loaded
where it is named. Of a Parquet file (.parquet, .pq) only the wanted columns are read, a batch of records at a time.
Each value becomes the text that stands for exactly it, and a missing value an empty cell. So equal data give equal
records from either kind of file.
"""

import importlib.util
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from masquerade_core.data.files import (
    PARQUET,
    Block,
    Layout,
    Opening,
    Source,
    TextTable,
    content_of_file,
    data_at,
    nothing,
    parse_lines,
    parse_some,
    plain_opening,
)
from masquerade_core.data.schema import Encoder, Labels, numeric

if TYPE_CHECKING:
    from masquerade_core.data.dialects import Recoded
    from masquerade_core.data.packed import Unpacked

__all__ = ["records_of", "source_of"]


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
        As in :func:`masquerade_core.data.files.parse_lines`.
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
    first, opening = _opening(path, wanted, fills=fills)
    with content_of_file(path) as file:
        size = path.stat().st_size * (1 if hasattr(file, "fileno") else _UNPACKED)
    reader = None
    if size >= _WORTH_IT and not opening.signs:
        reader = _columns_reader(opening.layout, numbers, others, fills=fills)
    body = first[opening.size :]
    lines = 2 * size * (body.count(b"\n") + 1) // (len(body) + 1)  # lines further down may be half as long
    about = min(lines, size // max(1, len(opening.layout.header))) + 1
    blocks = _csv(path, opening, reader, fills=fills)
    return Source(path.name, about, blocks, opening.signs, "line", path)


def records_of(
    path: Path | str, encoder: Encoder, labels: Labels | None, *, fills: bool, small: bool = False
) -> Source:
    """Return the columns that records are made of, block by block; ``fills`` and ``small`` as in :func:`source_of`."""
    wanted = (*encoder.columns, *(() if labels is None else (labels.name,)))
    numbers = numeric(encoder, labels)
    some, others = ([name for name in wanted if (name in numbers) == is_number] for is_number in (True, False))
    return source_of(path, some, others, fills=fills, small=small)


def _opening(path: Path, wanted: Sequence[str], *, fills: bool) -> tuple[bytes, Opening]:
    """Return a CSV file's first lines, in UTF-8, and how it begins."""
    with content_of_file(path) as file:
        first, _ = next(_whole_lines(file, _HEAD), (b"", True))
    if (opening := plain_opening(first, wanted, fills=fills)) is not None:
        return first, opening
    from masquerade_core.data.dialects import encoding_of, opening_of

    with content_of_file(path) as file:
        encoding = encoding_of(file.read(_HEAD))
    with content_of_file(path) as file:
        first, _ = next(_whole_lines(_as_utf8(file, encoding), _HEAD), (b"", True))
    return first, opening_of(first, wanted, encoding, fills=fills)


def _columns_reader(layout: Layout, numbers: Sequence[str], others: Sequence[str], *, fills: bool) -> Any:
    """Return what reads a block of CSV column by column; None where pyarrow is not there."""
    if importlib.util.find_spec("pyarrow") is None:
        return None
    from masquerade_core.data.arrow import CsvColumns

    return CsvColumns(layout, numbers, others, fills=fills, threads=_THREADS)


def _as_utf8(file: "BinaryIO | Unpacked", encoding: str) -> "BinaryIO | Recoded | Unpacked":
    if encoding == "utf-8":
        return file
    from masquerade_core.data.dialects import Recoded

    return Recoded(file, encoding)


def _csv(path: Path, opening: Opening, reader: Any, *, fills: bool) -> Iterator[Block]:
    line, layout = opening.lines, opening.layout
    with content_of_file(path) as file:
        waiting: deque[Block] = deque()
        text = _as_utf8(file, opening.encoding)
        text.read(opening.size)
        for body, is_whole in _whole_lines(text, _BYTES):
            tables = partial(_tables, body, layout, path.name, line, fills)
            columns = reader.begin(body) if reader is not None and is_whole else nothing
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

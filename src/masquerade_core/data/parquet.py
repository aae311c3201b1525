"""Reading the wanted columns of a Parquet file, some records at a time, with pyarrow."""

import importlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from masquerade_core.data.arrow import is_number, levels_of, numbers_of
from masquerade_core.data.dialects import columns_of, find_columns
from masquerade_core.data.files import SAVE_AS_CSV, Block, Sign, Source, TextTable, nothing, opened
from masquerade_core.data.schema import TOGETHER, WholeColumn
from masquerade_core.errors import BadInput

__all__ = ["ParquetFile", "parquet_source", "text_writer"]

_BATCH = 1 << 16
_BUFFER = 1 << 18
_NAMES = "the file's own schema names the columns"
_AS_TEXT = "dates, binary data and nested values are not read; write such a column as numbers or text"

T = TypeVar("T")


class ParquetFile:
    """A Parquet file: groups of records, each of them column by column.

    Parameters
    ----------
    path : path

    Raises
    ------
    BadInput
        The file cannot be used as it is; pyarrow is not there. The same holds for every method that reads.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        """The file's name."""
        try:
            importlib.import_module("pyarrow")
            parquet = importlib.import_module("pyarrow.parquet")
        except ImportError:
            raise BadInput(
                f"{path.name} is a Parquet file, and pyarrow, which reads such files, is not installed",
                f"install it with 'pip install pyarrow', or {SAVE_AS_CSV}",
            ) from None
        with opened(path):  # says what is wrong with the path
            pass
        # Some bytes at a time: without a buffer, pyarrow holds a whole group of records beside what comes of it.
        self._file = _sound(lambda: parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False), path.name)
        self._schema = self._file.schema_arrow  # pyarrow reads it anew whenever it is asked
        self.names: tuple[str, ...] = tuple(self._schema.names)
        """The columns' names."""
        self._to_text: dict[str, Callable[[Any], str]] = {}

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of records in each group."""
        metadata = self._file.metadata
        return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))

    def find(self, wanted: Sequence[str]) -> None:
        """Check that the wanted columns are there, and hold what can be read."""
        picks = find_columns(self.names, wanted, self.name, _NAMES)
        self._to_text = {name: self._writer(i) for name, i in picks.items()}

    def refused(self, place: int) -> Sign | None:
        """Return what is wrong with the type of the column at this place, if something is."""
        try:
            self._writer(place)
        except BadInput as error:
            return Sign("column_type", error.message.removeprefix(f"{self.name}: "), error.hint)
        return None

    def _writer(self, place: int) -> Callable[[Any], str]:
        types = importlib.import_module("pyarrow").types
        return text_writer(types, self._schema.field(place).type, self.names[place], self.name, _AS_TEXT)

    def type_of(self, name: str) -> Any:
        """Return the Arrow type of a column."""
        return self._schema.field(name).type

    def columns(self, wanted: Sequence[str], group: int) -> Any:
        """Return columns of a group of records, as an Arrow table."""
        return _sound(lambda: self._file.read_row_group(group, columns=list(wanted), use_threads=False), self.name)

    def batches(self, wanted: Sequence[str], group: int) -> Iterator[Any]:
        """Return the wanted columns of a group of records, as Arrow's batches of records."""
        batches = self._file.iter_batches(batch_size=_BATCH, columns=list(wanted), row_groups=[group])
        while (records := _sound(lambda: next(batches, None), self.name)) is not None:
            yield records

    def texts(self, array: Any, name: str) -> list[str]:
        """Return an Arrow array's values as the texts of a column."""
        to_text = self._to_text[name]
        return _sound(lambda: ["" if v is None else to_text(v) for v in array.to_pylist()], self.name)


def _sound(read: Callable[[], T], source: str) -> T:
    arrow = importlib.import_module("pyarrow")
    try:
        return read()
    except (OSError, UnicodeDecodeError, arrow.ArrowException):
        pass
    # Raised outside the handler: the original error may show a cell, and must not become this one's context.
    raise BadInput(f"{source} is not a Parquet file, or is damaged", f"write the file again, or {SAVE_AS_CSV}")


def text_writer(types: Any, kind: Any, name: str, source: str, otherwise: str) -> Callable[[Any], str]:
    """Return a function that writes a value of an Arrow type as the text that stands for exactly it.

    Parameters
    ----------
    types : module
        pyarrow.types
    kind : DataType
    name, source : str
        The column and where it stands, for an error.
    otherwise : str
        What to do with a column of another type.

    Raises
    ------
    BadInput
        The type is neither that of numbers, of texts nor of truth values.
    """
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if types.is_floating(kind):
        return lambda value: repr(float(value))  # of every width: read back, it is the same number
    if types.is_decimal(kind):
        return lambda value: format(value, "f")  # digits alone: 0.0000001, never 1E-7
    if types.is_integer(kind) or types.is_null(kind):
        return str
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return str
    raise BadInput(f"{source}: column {name!r} holds neither numbers, text nor truth values", otherwise)


# --- Blocks --------------------------------------------------------------------------


def parquet_source(file: ParquetFile, numbers: Sequence[str], others: Sequence[str], *, most: int) -> Source:
    """Return a file's wanted columns, block by block; a group with more than ``most`` records is cut into several."""
    picks, signs = columns_of(file.names, (*numbers, *others), _NAMES)
    for name, place in list(picks.items()):
        if (sign := file.refused(place)) is not None:
            signs.append(sign)
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
    reader = ThreadPoolExecutor(1)  # it lives as long as somebody may ask for columns
    of_numbers = frozenset(numbers)

    def read(group: int, some: Sequence[str]) -> dict[str, WholeColumn]:
        table = file.columns([names[name] for name in some], group)
        return {name: _whole(file, table.column(names[name]), names[name], name in of_numbers) for name in some}

    for group, n in enumerate(file.groups):
        if n > most:
            yield from _batches(file, numbers, wanted, names, group, first, fits=fits)
            first += n
            continue

        def tables(group: int = group, first: int = first) -> Iterator[TextTable]:
            reader.submit(nothing).result()  # a file is read by one thread at a time
            for records in file.batches([names[name] for name in wanted], group):
                cells = {name: file.texts(records.column(names[name]), names[name]) for name in wanted}
                yield TextTable(dict(cells), range(first, first + records.num_rows), "record", file.name)
                first += records.num_rows

        def some(rows: Sequence[int], _n: int, group: int = group, first: int = first) -> TextTable:
            reader.submit(nothing).result()
            return _some(file, file.batches([names[name] for name in wanted], group), names, rows, first)

        def columns(group: int = group) -> Mapping[str, WholeColumn] | None:
            if not fits:
                return None
            step = max(1, TOGETHER // (8 * max(1, file.groups[group])))
            return _Columns([wanted[i : i + step] for i in range(0, len(wanted), step)], partial(read, group), reader)

        yield Block(columns, tables, some)
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

        def some(rows: Sequence[int], _n: int, records: Any = records, first: int = first) -> TextTable:
            return _some(file, (records,), names, rows, first)

        yield Block(columns, tables, some)
        first += records.num_rows


def _some(
    file: ParquetFile, batches: Iterable[Any], names: Mapping[str, str], rows: Sequence[int], first: int
) -> TextTable:
    """Return the cells of some records in batches that follow each other."""
    cells: dict[str, list[str]] = {name: [] for name in names}
    start = at = 0
    for records in batches:
        end = bisect_left(rows, start + records.num_rows, at)
        if end > at:
            few = records.take([row - start for row in rows[at:end]])
            for name, column in names.items():
                cells[name] += file.texts(few.column(column), column)
        start, at = start + records.num_rows, end
    return TextTable(dict(cells), [first + row for row in rows], "record", file.name)


def _whole(file: ParquetFile, column: Any, name: str, is_number: bool) -> WholeColumn:
    return numbers_of(column) if is_number else levels_of(column, partial(file.texts, name=name))


class _Columns(Mapping[str, WholeColumn]):
    """Columns that are read when they are asked for, some at a time; the next ones are read while these are encoded."""

    def __init__(
        self,
        parts: Sequence[Sequence[str]],
        read: Callable[[Sequence[str]], dict[str, WholeColumn]],
        reader: ThreadPoolExecutor,
    ) -> None:
        self._parts, self._read, self._reader = parts, read, reader
        self._part_of = {name: i for i, part in enumerate(parts) for name in part}
        self._waiting: dict[int, Future[dict[str, WholeColumn]]] = {}

    def __getitem__(self, name: str) -> WholeColumn:
        part = self._part_of[name]
        found = self._submitted(part).result()
        column = found.pop(name) if name in found else self._again(name)
        if not found:
            del self._waiting[part]
        if part + 1 < len(self._parts):
            self._submitted(part + 1)
        return column

    def _again(self, name: str) -> WholeColumn:
        return self._reader.submit(self._read, [name]).result()[name]

    def _submitted(self, part: int) -> "Future[dict[str, WholeColumn]]":
        if part not in self._waiting:
            self._waiting[part] = self._reader.submit(self._read, self._parts[part])
        return self._waiting[part]

    def __iter__(self) -> Iterator[str]:
        return iter(self._part_of)

    def __len__(self) -> int:
        return len(self._part_of)

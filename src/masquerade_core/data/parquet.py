"""Reading the wanted columns of a Parquet file, some records at a time, with pyarrow."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from masquerade_core.data.files import SAVE_AS_CSV, find_columns, opened
from masquerade_core.errors import BadInput

__all__ = ["PARQUET", "ParquetFile", "one_array", "text_writer"]

PARQUET = frozenset({".parquet", ".pq"})
"""The endings of Parquet files."""

_BATCH = 1 << 16
_BUFFER = 1 << 18
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
        self._to_text: dict[str, Callable[[Any], str]] = {}

    @property
    def groups(self) -> tuple[int, ...]:
        """The number of records in each group."""
        metadata = self._file.metadata
        return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(self._file.schema_arrow.names)

    def find(self, wanted: Sequence[str]) -> None:
        """Check that the wanted columns are there, and hold what can be read."""
        types, schema = importlib.import_module("pyarrow").types, self._file.schema_arrow
        picks = find_columns(schema.names, wanted, self.name, "the file's own schema names the columns")
        self._to_text = {
            name: text_writer(types, schema.field(i).type, name, self.name, _AS_TEXT) for name, i in picks.items()
        }

    def type_of(self, name: str) -> Any:
        """Return the Arrow type of a column."""
        return self._file.schema_arrow.field(name).type

    def column(self, name: str, group: int) -> Any:
        """Return a column of a group of records, as one Arrow array."""
        read = partial(self._file.read_row_group, group, columns=[name], use_threads=False)
        return _sound(lambda: one_array(read().column(0)), self.name)

    def batches(self, wanted: Sequence[str], group: int) -> Iterator[Any]:
        """Return the wanted columns of a group of records, as Arrow's batches of records."""
        batches = self._file.iter_batches(batch_size=_BATCH, columns=list(wanted), row_groups=[group])
        while (records := _sound(lambda: next(batches, None), self.name)) is not None:
            yield records

    def texts(self, array: Any, name: str) -> list[str]:
        """Return an Arrow array's values as the texts of a column."""
        to_text = self._to_text[name]
        return _sound(lambda: ["" if v is None else to_text(v) for v in array.to_pylist()], self.name)


def one_array(column: Any) -> Any:
    """Return an Arrow column of several arrays as one."""
    whole = column.unify_dictionaries() if str(column.type).startswith("dictionary") else column
    return whole.combine_chunks()


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

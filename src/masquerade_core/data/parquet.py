"""Reading the wanted columns of a Parquet file, some records at a time, with pyarrow."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from masquerade_core.data.files import SAVE_AS_CSV, find_columns, opened
from masquerade_core.errors import BadInput

__all__ = ["PARQUET", "Batch", "parquet_batches", "parquet_size"]

PARQUET = frozenset({".parquet", ".pq"})
"""The endings of Parquet files."""

_BATCH = 1 << 16
_BUFFER = 1 << 20  # of a column that is read; without one, pyarrow holds a whole group of rows

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Batch:
    """Some records of a Parquet file.

    Parameters
    ----------
    records : pyarrow.RecordBatch
    source : str
        The file's name.
    to_text : dict of str to callable
        For each column, what writes a value as the text that stands for exactly it.
    """

    records: Any
    source: str
    to_text: dict[str, Callable[[Any], str]]

    def texts(self, array: Any, name: str) -> list[str]:
        """Return an Arrow array's values as the texts of a column.

        Raises
        ------
        BadInput
            The file is damaged.
        """
        to_text = self.to_text[name]
        return _sound(lambda: ["" if v is None else to_text(v) for v in array.to_pylist()], self.source)


def parquet_size(path: Path) -> int:
    """Return how many records a Parquet file has.

    Raises
    ------
    BadInput
        It is not one.
    """
    with opened(path) as raw:
        return int(_parquet_file(raw, path.name).metadata.num_rows)


def parquet_batches(path: Path, wanted: Sequence[str]) -> Iterator[Batch]:
    """Return the wanted columns of a Parquet file, some records at a time.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    with opened(path) as raw:
        file = _parquet_file(raw, path.name)
        types, schema = importlib.import_module("pyarrow").types, file.schema_arrow
        picks = find_columns(schema.names, wanted, path.name, "the file's own schema names the columns")
        to_text = {name: _to_text(types, schema.field(i).type, name, path.name) for name, i in picks.items()}
        batches = file.iter_batches(batch_size=_BATCH, columns=list(picks))
        while (records := _sound(lambda: next(batches, None), path.name)) is not None:
            yield Batch(records, path.name, to_text)


def _parquet_file(raw: BinaryIO, source: str) -> Any:
    try:
        importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise BadInput(
            f"{source} is a Parquet file, and pyarrow, which reads such files, is not installed",
            f"install it with 'pip install pyarrow', or {SAVE_AS_CSV}",
        ) from None
    return _sound(lambda: parquet.ParquetFile(raw, buffer_size=_BUFFER, pre_buffer=False), source)


def _sound(read: Callable[[], T], source: str) -> T:
    arrow = importlib.import_module("pyarrow")
    try:
        return read()
    except (OSError, UnicodeDecodeError, arrow.ArrowException):
        pass
    # Raised outside the handler: the original error may show a cell, and must not become this one's context.
    raise BadInput(f"{source} is not a Parquet file, or is damaged", f"write the file again, or {SAVE_AS_CSV}")


def _to_text(types: Any, kind: Any, name: str, source: str) -> Callable[[Any], str]:
    """Return a function that writes a value of an Arrow type as the text that stands for exactly it."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if types.is_floating(kind):
        return lambda value: repr(float(value))  # of every width: read back, it is the same number
    if types.is_integer(kind) or types.is_decimal(kind) or types.is_null(kind):
        return str
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return str
    raise BadInput(
        f"{source}: column {name!r} holds neither numbers, text nor truth values",
        "dates, binary data and nested values are not read; write such a column as numbers or text",
    )

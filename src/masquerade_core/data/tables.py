"""Reading the wanted columns of a CSV or Parquet file as text cells.

CSV is UTF-8 with commas and one line of column names. Of a Parquet file (.parquet, .pq) only the wanted columns are
read, a batch of records at a time. Each value becomes the text that stands for exactly it, and a missing value an empty
cell. So equal data give equal records from either kind of file. An error shows a column name of the file only if it is
nearly a wanted one, since the first line of a file without headings is a record.
"""

import csv
import difflib
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TextIO

from masquerade_core.errors import BadInput
from masquerade_core.words import counted

__all__ = ["TextTable", "cell_text", "read_table"]

_PARQUET = frozenset({".parquet", ".pq"})
_BATCH = 1 << 16
_SAVE_AS_CSV = "save the table as CSV in UTF-8"


@dataclass(frozen=True, repr=False)
class TextTable:
    """Text cells, and the place of each record in its file.

    Parameters
    ----------
    columns : dict of str to sequence of str
        The wanted columns, all of one length.
    numbers : sequence of int
        The record's line in a CSV file, or the record's own number, from 1.
    unit : str
        The thing that ``numbers`` count.
    source : str
        The file's name.
    broken : dict of int to str
        Rows that stand for lines with too many or too few cells, and what is wrong with each; their cells are empty.
    """

    columns: dict[str, Sequence[str]]
    numbers: Sequence[int]
    unit: Literal["line", "record"]
    source: str
    broken: dict[int, str] = field(default_factory=dict)

    def at(self, row: int) -> str:
        """Name the place of the record that stands at ``row``, counted from 0."""
        return f"{self.source}, {self.unit} {self.numbers[row]}"


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
        Whether a line with too many or too few cells is no error, but noted in the table's ``broken``.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    path = Path(path)
    try:
        if path.suffix.lower() in _PARQUET:
            return _parquet(path, wanted)
        with path.open(encoding="utf-8-sig", newline="", errors="replace" if fills else "strict") as file:
            return _parse(file, wanted, path.name, fills=fills, keeps=keeps)
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}", "correct the path") from error
    except UnicodeDecodeError:
        raise BadInput(f"{path.name} is not UTF-8 text", _SAVE_AS_CSV) from None
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}", "check the path and who may read it") from error


def cell_text(value: Any) -> str | None:
    """Return the text that stands for exactly one cell's value, as :func:`read_table` gives it.

    Returns
    -------
    str or None
        An empty text for a missing value, which is None or pandas' NA; None where a value is neither text, a number nor
        a truth value.
    """
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "item") and hasattr(value, "dtype"):  # a number of numpy's
        value = value.item()
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Integral() | Decimal():
            return str(value)
        case Real():
            return repr(float(value))
        case _:
            return "" if type(value).__name__ == "NAType" else None


def _parse(file: TextIO, wanted: Sequence[str], source: str, *, fills: bool, keeps: bool) -> TextTable:
    reader = csv.reader(file, strict=not fills)
    rows: list[list[str]] = []
    lines: list[int] = []
    header: list[str] | None = None
    picks: dict[str, int] = {}
    broken: dict[int, str] = {}
    try:
        for row in reader:
            if header is None:
                header = row
                picks = _find(header, wanted, source, "the first line of the file names the columns")
            elif row:  # a blank line is no record
                fits = len(row) == len(header)
                if not fits:
                    wrong = f"has {counted(len(row), 'column')}, but the first line has {len(header)}"
                    if not (fills or keeps):
                        raise BadInput(
                            f"{source}, line {reader.line_num} {wrong}",
                            "each record has one cell for each column; quote cells that hold a comma",
                        )
                    broken |= {len(rows): wrong} if keeps else {}
                rows.append(row if fits else [""] * len(header))
                lines.append(reader.line_num)
    except csv.Error:
        raise BadInput(f"{source}, line {reader.line_num} is not CSV", "see whether a quote is left open") from None
    if header is None:
        raise BadInput(f"{source} is empty", "the first line names the columns, each further line is a record")
    if not rows:
        raise BadInput(f"{source} has column names and no records", "put a record on each further line")
    cells = list(zip(*rows, strict=True))
    return TextTable({name: cells[i] for name, i in picks.items()}, lines, "line", source, broken)


def _find(header: Sequence[str], wanted: Iterable[str], source: str, otherwise: str) -> dict[str, int]:
    picks: dict[str, int] = {}
    for name in wanted:
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1, cutoff=0.75)
            hint = f"did you mean the column {near[0]!r}?" if near else otherwise
            if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
                hint = "columns are separated by commas, not by semicolons or tabs"
            raise BadInput(f"{source} has no column {name!r}", hint)
        if header.count(name) > 1:
            raise BadInput(f"{source} has the column {name!r} twice", "rename or remove one of them")
        picks[name] = header.index(name)
    return picks


def _parquet(path: Path, wanted: Sequence[str]) -> TextTable:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise BadInput(
            f"{path.name} is a Parquet file, and pyarrow, which reads such files, is not installed",
            f"install it with 'pip install pyarrow', or {_SAVE_AS_CSV}",
        ) from None
    columns: dict[str, list[str]] | None
    with path.open("rb") as raw:
        try:
            columns = _batches(parquet.ParquetFile(raw), wanted, path.name, arrow.types)
        except (OSError, UnicodeDecodeError, arrow.ArrowException):
            columns = None
    # Raised outside the handler: the original error may show a cell, and must not become this one's context.
    if columns is None:
        raise BadInput(f"{path.name} is not a Parquet file, or is damaged", f"write the file again, or {_SAVE_AS_CSV}")
    n = len(columns[wanted[0]])
    if not n:
        raise BadInput(f"{path.name} has column names and no records", "write the records into it")
    return TextTable(dict(columns), range(1, n + 1), "record", path.name)


def _batches(file: Any, wanted: Sequence[str], source: str, types: Any) -> dict[str, list[str]]:
    schema = file.schema_arrow
    picks = _find(schema.names, wanted, source, "the file's own schema names the columns")
    text = {name: _to_text(types, schema.field(i).type, name, source) for name, i in picks.items()}
    columns: dict[str, list[str]] = {name: [] for name in picks}
    for batch in file.iter_batches(batch_size=_BATCH, columns=list(picks), use_threads=False):
        for name, cells in columns.items():
            cells += ["" if v is None else text[name](v) for v in batch.column(name).to_pylist()]
    return columns


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

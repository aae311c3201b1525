"""Reading the wanted columns of a CSV or Parquet file as text cells, all of them at once.

CSV is UTF-8 with commas and one line of column names. Of a Parquet file (.parquet, .pq) only the wanted columns are
read, a batch of records at a time. Each value becomes the text that stands for exactly it, and a missing value an empty
cell. So equal data give equal records from either kind of file. An error shows a column name of the file only if it is
nearly a wanted one, since the first line of a file without headings is a record.
"""

from collections.abc import Sequence
from pathlib import Path

from masquerade_core.data.blocks import source_of
from masquerade_core.data.faults import Faults, FaultyFile, Sign
from masquerade_core.data.kinds import line_kind
from masquerade_core.data.texts import TextTable, cell_text

__all__ = ["NO_RECORDS", "TextTable", "cell_text", "no_records", "note_broken", "read_table"]

NO_RECORDS = Sign("no_records", "has column names and no records", "put a record on each further line")
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

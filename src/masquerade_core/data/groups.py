"""Which records of one table belong to which party."""

from masquerade_core.data.tables import TextTable
from masquerade_core.errors import BadInput

__all__ = ["row_groups"]


def row_groups(table: TextTable, column: str) -> dict[str, list[int]]:
    """Return the rows of each party, whose names stand in a column; in the order in which they first appear.

    Raises
    ------
    BadInput
        A record has no party.
    """
    groups: dict[str, list[int]] = {}
    for row, value in enumerate(table.columns[column]):
        groups.setdefault(value, []).append(row)
    if "" in groups:
        raise BadInput(
            f"{table.at(groups[''][0])}: the cell of column {column!r} is empty",
            "write the name of the party that owns the record",
        )
    return groups

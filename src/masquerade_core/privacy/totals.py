"""Whose own number follows from published totals over different groups of sites.

Each study that opens N tells the sum of its sites' numbers. Several such sums are linear equations. One site's number
follows from them if and only if its unit vector lies in the span of the groups' indicator vectors.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from functools import reduce

__all__ = ["told_apart"]


def told_apart(groups: Sequence[Collection[str]]) -> frozenset[str]:
    """Return the sites whose own numbers follow from the totals of these groups.

    In the reduced row echelon form of the indicator vectors, a unit vector of the span is a row of its own. Sites that
    are in the same groups are one column, and never told apart.
    """
    members: dict[str, set[int]] = defaultdict(set)
    for number, group in enumerate(groups):
        for site in group:
            members[site].add(number)
    alike: dict[frozenset[int], list[str]] = defaultdict(list)
    for site, where in members.items():
        alike[frozenset(where)].append(site)
    columns = list(alike)
    rows = _reduced([[Fraction(number in where) for where in columns] for number in range(len(groups))])
    alone = ([place for place, value in enumerate(row) if value] for row in rows)
    found = (alike[columns[places[0]]] for places in alone if len(places) == 1)
    return frozenset(sites[0] for sites in found if len(sites) == 1)


def _reduced(rows: Iterable[list[Fraction]]) -> list[list[Fraction]]:
    """Return the reduced row echelon form, without rows of zeros."""
    done: list[list[Fraction]] = []
    for row in rows:
        rest = reduce(_without, done, row)
        pivot = _pivot(rest)
        if pivot is not None:
            new = [value / rest[pivot] for value in rest]
            done = [*(_without(known, new) for known in done), new]
    return done


def _pivot(row: Sequence[Fraction]) -> int | None:
    return next((place for place, value in enumerate(row) if value), None)


def _without(row: list[Fraction], known: list[Fraction]) -> list[Fraction]:
    """Take a multiple of a known row away, such that nothing is left at its first place."""
    pivot = _pivot(known)
    if pivot is None or not (factor := row[pivot]):
        return row
    return [value - factor * other for value, other in zip(row, known, strict=True)]

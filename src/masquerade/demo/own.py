"""The user's own table as a demonstration: dealt out to parties, with a part held out as a public test set."""

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from masquerade.datasets import Cohort, Records, party_names, shuffled
from masquerade.guessing import (
    MOST_LEVELS,
    Guess,
    Limits,
    copy_command,
    dotted_thousands,
    guess,
    label_typed,
    without_label,
)
from masquerade.own_table import check_names, column_of, read_noted, read_own
from masquerade_core.data.examining import examine_table
from masquerade_core.data.files import TextTable, spelled
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label, Study
from masquerade_core.words import counted, listed

__all__ = ["Dealing", "own_cohort"]

_LIMITS = Limits(levels=MOST_LEVELS, rare=10)
_MOST_PARTIES = 64
_PARTIES = 5
_FEWEST = 10
_HELD_OUT = 5
_LONGEST_NAME = 32


@dataclass(frozen=True)
class Dealing:
    """Whose each record is.

    Parameters
    ----------
    by : str or None
        The column whose values are the parties. If None, the records are dealt out at random.
    parties : int or None
        To how many parties, where ``by`` is None; by default the study's number, or 5.
    """

    by: str | None = None
    parties: int | None = None


@dataclass(frozen=True, repr=False)
class _Everything:
    """The records of both files: those to deal out, then those of the test set, if it has a file of its own."""

    path: Path
    dealt: TextTable
    tests: TextTable | None

    @property
    def count(self) -> int:
        """How many records are to be dealt out, or to be held out of them."""
        return len(self.dealt.numbers)

    def column(self, name: str) -> Sequence[str]:
        """A column of both."""
        first = column_of(self.dealt, name)
        return first if self.tests is None else (*first, *column_of(self.tests, name))

    @property
    def tables(self) -> tuple[TextTable, ...]:
        """The tables of both files."""
        return (self.dealt,) if self.tests is None else (self.dealt, self.tests)

    def at(self, row: int) -> str:
        """The file and the line of a record."""
        if self.tests is None or row < self.count:
            return self.dealt.at(row)
        return self.tests.at(row - self.count)


def own_cohort(
    path: Path,
    dealing: Dealing,
    *,
    label: Label | None = None,
    study: Study | None = None,
    ignore: Collection[str] = (),
    accept: Collection[str] = (),
    test: Path | None = None,
) -> Cohort:
    """Read a file that holds everybody's records.

    Parameters
    ----------
    path : Path
        CSV in UTF-8, with the columns' names in its first line, or Parquet.
    dealing : Dealing
        Whose each record is.
    label : Label, optional
        Needed if no study is given.
    study : Study, optional
        It gives the features with public bounds, the label, the regularization and ``min_records``. Without it, bounds
        and levels come from the data, which only a demonstration may do.
    ignore : collection of str
        Columns that are not learned from, where no study is given.
    accept : collection of str
        Columns that look like a mistake, and are none.
    test : Path, optional
        A file with the public test set. Without it, one fifth of the records is held out.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    label = study.label if study is not None else label
    if label is None:
        raise BadInput(
            "--label was not given: nothing says which column is to be predicted",
            "add --label COLUMN:POSITIVE, for example outcome:yes",
        )
    check_names(path, ignore, "--ignore")
    check_names(path, accept, "--accept")
    dealt, shape = read_noted(path, ignore=tuple(ignore), label=label.name)
    tests = None if test is None else read_own(test, heading=tuple(dealt.columns), ignore=tuple(ignore))
    both = _Everything(path, dealt, tests)
    loose = study is None or study.study.matching == "loose"
    labels, notes = _labels(both, label, loose=loose)
    if study is None:
        features, cells, said = _guessed(both, label, dealing.by, ignore, accept)
    else:
        features, cells, said = study.features, _checked(both, study, labels, accept), ()
    rows = list(zip(*(cells[f.name] for f in features), labels, strict=True))
    order = shuffled(both.count)
    held_out = order[::_HELD_OUT] if tests is None else []
    dealt_out = [row for place, row in enumerate(order) if tests is not None or place % _HELD_OUT]
    parties, how = _dealt_out(both, dealing, study, dealt_out, labels)
    if tests is None:
        how += (f"{counted(len(held_out), 'record')}, drawn at random, were held out as the test set",)
    columns = (*(f.name for f in features), label.name)
    return Cohort(
        parties={name: Records(columns, [rows[i] for i in group]) for name, group in parties.items()},
        test=Records(columns, [*(rows[i] for i in held_out), *rows[both.count :]]),
        features=tuple(features),
        label=label,
        min_records=study.study.min_records if study is not None else _FEWEST,
        regularization=study.model.regularization if study is not None else 0.05,
        intercept=study.model.intercept if study is not None else True,
        origin=f"{both.count:,} records of {path.name}",
        notes=(*how, *shape, *notes, *said),
        stated=study is not None,
    )


def _labels(both: _Everything, label: Label, *, loose: bool) -> tuple[Sequence[str], tuple[str, ...]]:
    """Return the labels, and what was done to them. A full stop after the labels of the test file alone is dropped."""
    cells = both.column(label.name)
    notes: tuple[str, ...] = ()
    lost = without_label(cells, label.classes or (str(label.positive),))
    if place := next((both.at(row) for row, cell in enumerate(cells) if cell in lost), ""):
        typed = label.name
        values = Counter(cell for cell in cells if cell not in lost)
        if label.classes is None and len({value.casefold() for value in values}) > 2:  # noqa: PLR2004
            typed = _of_two(label, values)
        raise BadInput(
            f"{place}: the label {label.name!r} is empty",
            f"leave such records out: {copy_command(both.path, typed)}",
        )
    first, second = cells[: both.count], cells[both.count :]
    known, more = set(first), set(second)
    if more - known and {value.removesuffix(".") for value in more} <= known:
        cells = (*first, *(cell.removesuffix(".") for cell in second))
        notes = ("the labels of the test set end with a full stop, which was left out",)
    first_of: dict[str, str] = {}
    meant = {}
    for cell in dict.fromkeys(cells):
        value = spelled(cell, label.classes or (str(label.positive),), loose=loose)
        meant[cell] = first_of.setdefault(value.strip().casefold(), value) if loose and not label.classes else value
    if changed := sum(cell != meant[cell] for cell in cells):
        notes += (f"{label.name}: {counted(changed, 'label')} matched but for capitals",)
        cells = [meant[cell] for cell in cells]
    _check_labels(both, label, cells)
    return cells, notes


def _of_two(label: Label, values: Counter[str]) -> str:
    """Return the text that names a label's positive value, and the most frequent of the others."""
    other = next((value for value, _ in values.most_common() if value != label.positive), "")
    return label_typed(label.name, (str(label.positive), other))


def _check_labels(both: _Everything, label: Label, cells: Sequence[str]) -> None:
    source, values = both.dealt.source, set(cells)
    if label.number is not None:
        raise BadInput(
            f"{source}: the label {label.name!r} has bounds, so it is a number; a demonstration compares classifiers",
            "fit it with 'masquerade study new --for coefficients' and 'masquerade simulate'",
        )
    if label.classes is not None:
        if more := values - set(label.classes):
            row = next(row for row, cell in enumerate(cells) if cell in more)
            raise BadInput(
                f"{both.at(row)}: the label {label.name!r} is not one of the classes",
                f"the classes are {', '.join(map(repr, label.classes))}; capitals count",
            )
    elif label.positive not in values:
        raise BadInput(
            f"{source}: the label {label.name!r} is never {label.positive!r}",
            "name one of its two values",
        )
    elif len(values) == 1:
        raise BadInput(
            f"{source}: the label {label.name!r} has 1 value only",
            "a classifier is learned from records of both kinds; add some of the other",
        )
    elif len(values) > 2:  # noqa: PLR2004
        kept = _of_two(label, Counter(cells))
        raise BadInput(
            f"{source}: the label {label.name!r} has {len(values):,} different values, where 2 are needed",
            f"keep the records with two of them: {copy_command(both.path, kept)}\n"
            f"  or write one and the same value wherever it is not {label.positive!r}; or name them all, by --label "
            f"{label.name}:VALUE,VALUE,..., for a protocol that tells classes apart",
        )


_Columns = dict[str, Sequence[str]]


def _guessed(
    both: _Everything, label: Label, by: str | None, ignore: Collection[str], accept: Collection[str]
) -> tuple[tuple[Feature, ...], _Columns, tuple[str, ...]]:
    """Read bounds and levels off the records."""
    apart = {label.name, by, *ignore}
    dotted = dotted_thousands(both.dealt)
    guesses: dict[str, Guess] = {}
    refused: dict[str, BadInput] = {}
    for name in both.dealt.columns:
        if name not in apart:
            cells, leave_out, use = both.column(name), f"leave the column out with {_ignore(name)}", _accept(name)
            if name in dotted:
                cells = [cell.replace(".", "") for cell in cells]
            try:
                guesses[name] = guess(name, cells, both.at, _LIMITS, leave_out, accept=use, accepted=name in accept)
            except BadInput as error:
                refused[name] = error
    if len(refused) == 1:
        raise next(iter(refused.values()))
    if refused:
        raise BadInput(
            f"{both.dealt.source} has {len(refused)} columns that no model should learn from as they are:"
            + "".join(f"\n  {error.message}" for error in refused.values()),
            "".join(f"\n  {error.hint}" for error in refused.values())
            + f"\n  or leave all of them out with {' '.join(map(_ignore, refused))}",
        )
    features = tuple(found.feature for found in guesses.values() if found.feature is not None)
    if not features:
        raise BadInput(
            f"{both.dealt.source} has no column to learn from besides {listed(sorted(map(repr, apart - {None})))}",
            "add a column, for example the patients' age",
        )
    notes = tuple(note for found in guesses.values() for note in found.notes)
    if ignore:
        notes = (f"left out as --ignore says: {', '.join(ignore)}", *notes)
    return features, {name: found.cells for name, found in guesses.items()}, notes


def _ignore(name: str) -> str:
    """Return the option with which a demonstration leaves a column out."""
    return f"--ignore {shlex.quote(name)}"


def _accept(name: str) -> str:
    """Return the option with which a demonstration uses a column that looks like a mistake."""
    return f"--accept {shlex.quote(name)}"


def _checked(both: _Everything, study: Study, labels: Sequence[str], accept: Collection[str]) -> _Columns:
    """Check records against a study's bounds and levels, so that an error names the line of the user's own file."""
    columns = {feature.name: both.column(feature.name) for feature in study.features}
    start = 0
    for table in both.tables:
        end = start + len(table.numbers)
        found = examine_table(replace(table, columns={**table.columns, study.label.name: labels[start:end]}), study)
        if (error := found.refused or found.doubtful(accept)) is not None:
            raise error
        start = end
    return columns


def _at_least(dealt: int, both: _Everything) -> int:
    """Return how many records a file needs, of which so many are left once a test set is held out."""
    return dealt if both.tests is not None else -(-dealt * _HELD_OUT // (_HELD_OUT - 1))


def _dealt_out(
    both: _Everything, dealing: Dealing, study: Study | None, rows: Sequence[int], labels: Sequence[str]
) -> tuple[dict[str, list[int]], tuple[str, ...]]:
    """Return each party's records by their numbers, and how they came to it; ``rows`` are in random order."""
    if dealing.by is not None:
        values = column_of(both.dealt, dealing.by)
        different = list(dict.fromkeys(values))
        if not 2 <= len(different) <= _MOST_PARTIES:  # noqa: PLR2004
            raise BadInput(
                f"the column {dealing.by!r}, which --by names, has {counted(len(different), 'different value')}, one "
                f"for each party, but a demonstration has 2 to {_MOST_PARTIES} parties",
                "choose another column with --by, or leave --by out: then the records are dealt out at random",
            )
        names = _names(different)
        by_value: dict[str, list[int]] = {name: [] for name in names.values()}
        for row in rows:
            by_value[names[values[row]]].append(row)
        return by_value, ()
    K = dealing.parties or (study.K if study is not None else _PARTIES)
    fewest = study.study.min_records if study is not None else _FEWEST
    if len(rows) < K * fewest:
        fit = len(rows) // fewest
        raise BadInput(
            f"{both.dealt.source} has {counted(len(rows), 'record')} to deal out, too few for {K} parties with "
            f"{fewest} or more each",
            f"ask for {fit} with --parties {fit}, or add records"
            if fit > 1
            else f"add records: a demonstration needs {_at_least(2 * fewest, both)} or more",
        )
    known = study.names if study is not None and study.K == K else party_names(K, "site")
    groups = {name: list(rows[j::K]) for j, name in enumerate(known)}
    if any(len({labels[row] for row in group}) == 1 for group in groups.values()):
        raise BadInput(
            f"{both.dealt.source} has too few records of one label to deal some out to each of {K} parties",
            "ask for fewer with --parties, or add records with that label",
        )
    said = f"no --by was given, so the records were dealt out to {K} parties at random"
    return groups, (said,)


def _names(values: Sequence[str]) -> dict[str, str]:
    """Turn the column's values into names for the roster, all different."""
    names: dict[str, str] = {}
    for value in values:
        plain = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode()
        base = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[: _LONGEST_NAME - 3] or "party"
        if base == "charlie":
            base = "charlie-party"
        name, number = base, 2
        while name in names.values():
            name, number = f"{base}-{number}", number + 1
        names[value] = name
    return names

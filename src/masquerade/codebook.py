"""A study's columns from a file: from a codebook, from ``[[feature]]`` blocks, or from the names of a table's columns.

Of a table the names alone are read, and a Parquet file's types; its records are private. Only if its owner says that
they are a public sample are bounds and levels read off them.

A *codebook* is a CSV file with a line for each column of the records. Its own columns are ``name``, ``min``, ``max``
and ``levels``, and where needed ``edges``, ``missing`` (what a missing cell counts as), ``use`` ("feature", "label" or
"ignore") and ``positive``. Others are not read.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from masquerade.guessing import Limits, guess
from masquerade.own_table import Heading, check_heading, check_names, read_names, read_own
from masquerade_core.bounded import toml_of
from masquerade_core.data.files import TextTable
from masquerade_core.errors import BadInput
from masquerade_core.study import Feature, Label
from masquerade_core.study.mistakes import did_you_mean, explain
from masquerade_core.study_files import read_study_text

__all__ = ["Columns", "Unranged", "columns_from", "split_levels"]

T = TypeVar("T", Feature, Label)

_NEEDED = ("name", "min", "max", "levels")
_USES = ("feature", "label", "ignore")
_LIMITS = Limits(levels=200)


@dataclass(frozen=True)
class Unranged:
    """A column whose public range somebody has still to fill in.

    Parameters
    ----------
    name : str
    kind : str
        "number" or "text" where the file's schema says so, else empty.
    """

    name: str
    kind: Literal["number", "text", ""] = ""


@dataclass(frozen=True)
class Columns:
    """The columns that a file names.

    Parameters
    ----------
    features : tuple of Feature or Unranged
        In the file's order.
    label : Label or None
        None where the file does not say which column is to be predicted.
    notes : tuple of str
        What a reader should know of them, in sentences without a full stop.
    """

    features: tuple[Feature | Unranged, ...]
    label: Label | None = None
    notes: tuple[str, ...] = ()

    def without(self, names: Collection[str], source: str) -> "Columns":
        """Leave columns out; BadInput if there is no such column."""
        known = [feature.name for feature in self.features]
        for name in names:
            if name not in known:
                raise BadInput(f"--ignore: {source} has no column {name!r}", _which(name, known))
        return Columns(tuple(f for f in self.features if f.name not in names), self.label, self.notes)

    def with_ranges(self, given: Sequence[Feature], source: str) -> "Columns":
        """Put the columns of ``--feature`` into the places of the file's; BadInput if the file has no such column."""
        known = [feature.name for feature in self.features]
        for feature in given:
            if feature.name not in known:
                raise BadInput(f"--feature: {source} has no column {feature.name!r}", _which(feature.name, known))
        ranges = {feature.name: feature for feature in given}
        return Columns(tuple(ranges.get(f.name, f) for f in self.features), self.label, self.notes)


def _which(name: str, known: Sequence[str]) -> str:
    return f"name one of its columns{did_you_mean(name, known)}"


def columns_from(
    path: Path, *, public_sample: bool = False, ignore: Collection[str] = (), label: str | None = None
) -> Columns:
    """Read the columns that a file names.

    Parameters
    ----------
    path : Path
        TOML with ``[[feature]]`` blocks, a codebook, or a table of records (CSV or Parquet).
    public_sample : bool
        Whether the table's records are public, so that bounds and levels may be read off them.
    ignore : collection of str
        Columns of a public sample that are not looked at.
    label : str or None
        The column to predict, which has no range.

    Raises
    ------
    BadInput
        The file cannot be used as it is.
    """
    blocks = path.suffix.lower() == ".toml"
    headings = () if blocks else read_names(path)
    book = set(_NEEDED) <= {heading.name for heading in headings}
    if public_sample and (blocks or book):
        what = "[[feature]] blocks" if blocks else "a codebook"
        raise BadInput(f"--from-public-sample is for records, but {path.name} has {what}", "leave it out")
    if blocks:
        return _from_toml(path)
    if book:
        return _from_codebook(read_own(path))
    check_heading(path, headings)
    if public_sample:
        check_names(path, ignore, "--ignore")
        return _from_sample(read_own(path, ignore=tuple(ignore)), {*ignore, label})
    return Columns(tuple(_unranged(heading) for heading in headings))


def _unranged(heading: Heading) -> Feature | Unranged:
    if heading.kind == "truth":
        return Feature(name=heading.name, levels=("false", "true"))
    return Unranged(heading.name, heading.kind)


def _from_sample(table: TextTable, ignore: Collection[str | None]) -> Columns:
    features: list[Feature] = []
    notes: tuple[str, ...] = ()
    for name in table.columns:
        if name not in ignore:
            found = guess(name, table.columns[name], table.at, _LIMITS, f"leave the column out with --ignore {name}")
            features += [] if found.feature is None else [found.feature]
            notes += found.notes
    return Columns(tuple(features), notes=notes)


class _Blocks(BaseModel):
    """The part of a TOML file that is read; the rest of it, if it is a whole study, is for ``--like``."""

    model_config = ConfigDict(frozen=True, strict=True, hide_input_in_errors=True)

    features: tuple[Feature, ...] = Field(alias="feature", strict=False, min_length=1)
    label: Label | None = None


def _from_toml(path: Path) -> Columns:
    try:
        blocks = _Blocks.model_validate(toml_of(read_study_text(path), path.name))
    except ValidationError as error:
        raise BadInput(f"{path.name}: {explain(error, _Blocks)}", "correct the block") from error
    return Columns(blocks.features, blocks.label)


# --- Codebooks -------------------------------------------------------------------


def split_levels(text: str) -> tuple[str, ...]:
    r"""Split ``a | b | c`` at its bars; ``\|`` is a bar that belongs to a level."""
    return tuple(part.strip().replace(r"\|", "|") for part in re.split(r"(?<!\\)\|", text))


def _from_codebook(book: TextTable) -> Columns:
    names = book.columns["name"]
    features: list[Feature | Unranged] = []
    label: Label | None = None
    for row, name in enumerate(names):
        cells = {key: column[row] for key, column in book.columns.items()}
        use = cells.get("use", "") or "feature"
        if use not in _USES:
            raise BadInput(
                f"{book.at(row)}: the column 'use' has a word that is not one of {', '.join(_USES)}",
                "correct the codebook",
            )
        if name in names[:row]:
            raise BadInput(f"{book.at(row)}: the column {name!r} is described twice", "leave one of the lines out")
        if use == "label" and label is not None:
            raise BadInput(f"{book.at(row)}: there is a second label, {name!r}", "a study predicts one column")
        if use == "label":
            label = _described(Label, book.at(row), {"name": name, **_label_values(cells, book.at(row))})
        elif use == "feature":
            values = _feature_values(cells, book.at(row))
            features.append(_described(Feature, book.at(row), {"name": name, **values}) if values else Unranged(name))
    return Columns(tuple(features), label)


def _label_values(cells: dict[str, str], place: str) -> dict[str, Any]:
    if positive := cells.get("positive", ""):
        return {"positive": positive}
    if cells["levels"]:
        return {"classes": split_levels(cells["levels"])}
    return {key: value for key, value in _feature_values(cells, place).items() if key in {"min", "max"}}


def _feature_values(cells: dict[str, str], place: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    try:
        values |= {key: float(cells[key]) for key in ("min", "max") if cells[key]}
        if edges := cells.get("edges", ""):
            values["edges"] = tuple(float(edge) for edge in split_levels(edges))
    except ValueError as error:
        raise BadInput(
            f"{place}: min, max and edges must be numbers", "write numbers with a decimal point, and | between edges"
        ) from error
    if cells["levels"]:
        values["levels"] = split_levels(cells["levels"])
    if values and (missing := cells.get("missing", "")):
        values["missing"] = missing if cells["levels"] else _filler(missing, place)
    return values


def _filler(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(
            f"{place}: 'missing' must be a number in a column of numbers", "correct that line of the codebook"
        ) from error


def _described(kind: type[T], place: str, values: dict[str, Any]) -> T:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"{place}: {explain(error, kind)}", "correct that line of the codebook") from error

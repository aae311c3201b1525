"""Arrow's columns as the columns that this program encodes: numbers, or different texts and where each stands."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.schema import MISSING_WORDS, Levels, WholeColumn
from masquerade_core.data.texts import Layout

__all__ = ["csv_columns", "is_number", "levels_of", "numbers_of", "one_array"]

_NULLS = tuple(sorted({shape(word) for word in MISSING_WORDS for shape in (str, str.upper, str.capitalize)} | {"NaN"}))


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is one of integers or of floating-point numbers."""
    return str(kind).startswith(("double", "float", "halffloat", "int", "uint"))


def numbers_of(column: Any) -> NDArray[np.float64]:
    """Return an Arrow array of numbers, NaN where one is missing."""
    values = column.cast("float64", safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def levels_of(column: Any, texts: Callable[[Any], list[str]]) -> Levels:
    """Return an Arrow array as its different texts, as ``texts`` writes them, and each record's place among them."""
    if not str(column.type).startswith("dictionary"):
        column = column.dictionary_encode()
    different = texts(column.dictionary)
    places = column.indices.fill_null(len(different)).to_numpy(zero_copy_only=False)
    return Levels(places.astype(np.intp, copy=False), (*different, ""))


def csv_columns(
    body: bytes, layout: Layout, numbers: Sequence[str], others: Sequence[str], fills: bool
) -> Mapping[str, WholeColumn] | None:
    """Return the columns of a block of CSV; None where pyarrow cannot read them, so that it is read cell by cell."""
    if not (fills or body.isascii()):
        try:
            body.decode()
        except UnicodeDecodeError:
            return None
    arrow, reads = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
    header = layout.header
    level = arrow.dictionary(arrow.int32(), arrow.string())
    names = [name if header.count(name) == 1 else f"{name}\0{i}" for i, name in enumerate(header)]
    try:
        table = reads.read_csv(
            arrow.py_buffer(body),
            read_options=reads.ReadOptions(column_names=names, block_size=len(body) + 1, use_threads=False),
            parse_options=reads.ParseOptions(newlines_in_values=True),
            convert_options=reads.ConvertOptions(
                column_types=dict.fromkeys(numbers, arrow.float64()) | dict.fromkeys(others, level),
                include_columns=[*numbers, *others],
                null_values=_NULLS,
                strings_can_be_null=False,
            ),
        )
    except arrow.ArrowException:
        return None
    found: dict[str, WholeColumn] = {name: numbers_of(one_array(table.column(name))) for name in numbers}
    return found | {name: levels_of(one_array(table.column(name)), lambda texts: texts.to_pylist()) for name in others}


def one_array(column: Any) -> Any:
    """Return an Arrow column of several arrays as one."""
    whole = column.unify_dictionaries() if str(column.type).startswith("dictionary") else column
    return whole.combine_chunks()

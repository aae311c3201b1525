"""Arrow's columns as the columns that this program encodes: numbers, or different texts and where each stands."""

import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.file_faults import number_of
from masquerade_core.data.files import MISSING_WORDS, Layout, is_missing
from masquerade_core.data.schema import Levels, WholeColumn

__all__ = ["CsvColumns", "is_number", "levels_of", "numbers_of", "one_array"]

_NULLS = tuple(sorted({shape(word) for word in MISSING_WORDS for shape in (str, str.upper, str.capitalize)} | {"NaN"}))

_PLAIN = r"^[+-]?[0-9]{1,30}(\.[0-9]{0,30})?$"  # a number, without any doubt


def is_number(kind: Any) -> bool:
    """Return whether an Arrow type is one of integers or of floating-point numbers."""
    return str(kind).startswith(("double", "float", "halffloat", "int", "uint"))


def numbers_of(column: Any) -> NDArray[np.float64]:
    """Return an Arrow column of numbers, NaN where one is missing."""
    if column.type != _float64():
        column = column.cast("float64", safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


@lru_cache(maxsize=1)
def _float64() -> Any:
    return importlib.import_module("pyarrow").float64()


def levels_of(column: Any, texts: Callable[[Any], list[str]]) -> Levels:
    """Return an Arrow array as its different texts, as ``texts`` writes them, and each record's place among them."""
    column = one_array(column)
    if not str(column.type).startswith("dictionary"):
        column = column.dictionary_encode()
    different = texts(column.dictionary)
    places = column.indices.fill_null(len(different)).to_numpy(zero_copy_only=False)
    return Levels(places.astype(np.intp, copy=False), (*different, ""))


class CsvColumns:
    """Reads blocks of a CSV file column by column.

    Parameters
    ----------
    layout : Layout
    numbers, others : sequence of str
        The wanted columns that hold numbers, and those whose texts matter.
    fills : bool
        Whether bytes that are no UTF-8, and texts where numbers belong, are read as well as can be.
    threads : int
        How many blocks are read at a time.
    """

    def __init__(
        self, layout: Layout, numbers: Sequence[str], others: Sequence[str], *, fills: bool, threads: int
    ) -> None:
        self._numbers, self._others, self._fills = numbers, others, fills
        self._threads = ThreadPoolExecutor(threads)  # they end with this reader
        self._odd = frozenset[str]()  # columns of numbers that have had a text in some block
        self._arrow, self._reads = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
        often = Counter(layout.header)
        self._names = [name if often[name] == 1 else f"{name}\0{i}" for i, name in enumerate(layout.header)]
        self._options: dict[frozenset[str], Any] = {}

    def begin(self, body: bytes) -> Callable[[], Mapping[str, WholeColumn] | None]:
        """Begin to read a block in a thread; return what waits for its columns.

        They are None where pyarrow cannot read them, so that the block is read cell by cell. A text in a column of
        numbers is NaN where the study fills such cells. Elsewhere it is infinite: such a number fits nowhere, so its
        record is taken anew from its cells, which say what is wrong.
        """
        return self._threads.submit(self._columns, body).result

    def _columns(self, body: bytes) -> Mapping[str, WholeColumn] | None:
        if not (self._fills or body.isascii()):
            try:
                body.decode()
            except UnicodeDecodeError:
                return None
        odd = self._odd
        try:
            table = self._read(body, odd)
        except self._arrow.ArrowException as error:
            if "conversion" not in str(error):
                return None
            try:  # most often the column that it names is the only one with texts
                more = odd | self._named_in(str(error))
                table = self._read(body, more)
            except self._arrow.ArrowException:
                if not (more := odd | self._texts_in(body)) - odd:
                    return None
                table = self._read(body, more)
            self._odd = odd = more
        found: dict[str, WholeColumn] = {}
        for name in self._numbers:
            column = table.column(name)
            found[name] = self._some_numbers(column) if name in odd else numbers_of(column)
        return found | {name: levels_of(table.column(name), _as_list) for name in self._others}

    def _read(self, body: bytes, odd: frozenset[str]) -> Any:
        if odd not in self._options:
            types = dict.fromkeys(self._numbers, _float64()) | dict.fromkeys(odd, self._arrow.string())
            types |= dict.fromkeys(self._others, self._arrow.dictionary(self._arrow.int32(), self._arrow.string()))
            self._options = {odd: self._converting((*self._numbers, *self._others), types, nulls=False)}
        return self._table(body, self._options[odd])

    def _named_in(self, error: str) -> frozenset[str]:
        """Return the column of numbers in which the first text was found, by what pyarrow says."""
        found = re.search(r"column #(\d+):", error)
        return frozenset({self._names[int(found[1])]} if found else ()) & frozenset(self._numbers)

    def _texts_in(self, body: bytes) -> frozenset[str]:
        """Return the columns of numbers in which some cell of a block is a text."""
        types = dict.fromkeys(self._numbers, self._arrow.string())
        try:
            table = self._table(body, self._converting(self._numbers, types, nulls=True))
        except self._arrow.ArrowException:
            return frozenset()
        return frozenset(name for name in self._numbers if not self._casts(table.column(name)))

    def _casts(self, column: Any) -> bool:
        try:
            column.cast(_float64())
        except self._arrow.ArrowException:
            return False
        return True

    def _some_numbers(self, column: Any) -> NDArray[np.float64]:
        compute = importlib.import_module("pyarrow.compute")
        is_plain = compute.match_substring_regex(column, _PLAIN)
        values = numbers_of(compute.if_else(is_plain, column, None)).copy()
        others = np.flatnonzero(~is_plain.to_numpy())
        for row, text in zip(others.tolist(), column.take(others).to_pylist(), strict=True):
            value = number_of(text)[0]
            values[row] = math.inf if math.isnan(value) and not (self._fills or is_missing(text)) else value
        return values

    def _converting(self, names: Sequence[str], types: Mapping[str, Any], *, nulls: bool) -> Any:
        return self._reads.ConvertOptions(
            column_types=types, include_columns=names, null_values=_NULLS, strings_can_be_null=nulls
        )

    def _table(self, body: bytes, converting: Any) -> Any:
        return self._reads.read_csv(
            self._arrow.py_buffer(body),
            read_options=self._reads.ReadOptions(column_names=self._names, block_size=len(body) + 1, use_threads=False),
            parse_options=self._reads.ParseOptions(newlines_in_values=True),
            convert_options=converting,
        )


def _as_list(texts: Any) -> list[str]:
    found: list[str] = texts.to_pylist()
    return found


def one_array(column: Any) -> Any:
    """Return an Arrow column as one array, of however many it is made."""
    if not hasattr(column, "chunks"):
        return column
    whole = column.unify_dictionaries() if str(column.type).startswith("dictionary") else column
    return whole.combine_chunks()

"""The labels of a file, block by block; and what is wrong with them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.columns import Levels, WholeColumn
from masquerade_core.data.faults import Faults, FaultyFile, Kind, Place, Sign
from masquerade_core.data.kinds import LABEL_EMPTY, THIRD, THIRD_ALIKE, alike, kind_of_class
from masquerade_core.data.texts import TextTable
from masquerade_core.errors import LocalProtocolError
from masquerade_core.study import Study

__all__ = ["Labels"]

_DIFFERENT = 100  # values that are counted apart
_REST = "\0"


class Labels:
    """The labels of a file, block by block.

    Where the study clamps, no label makes a party refuse: what is not the positive value is the other one, and what is
    no class is the first class.

    A label of two values has the positive one and one other. Which values are too many shows at the end of the file
    alone, so the places of every further value are noted while the file is read.

    Parameters
    ----------
    study : Study
    strict : bool
        Whether a block whose labels do not fit is to be read cell by cell even where the study clamps.
    clamps : bool, optional
        Whether no label makes a party refuse; by default as the study says.
    part : bool
        Whether these are the labels of one part of the records. Then :meth:`check` says of all parts together whether
        there is a value too many.
    """

    def __init__(self, study: Study, *, strict: bool = False, clamps: bool | None = None, part: bool = False) -> None:
        self.filled = 0
        """How many cells were empty, or no class."""
        self.texts = set[str]()
        """The different texts."""
        self.name = study.label.name
        self._positive, self._classes = study.label.positive, study.label.classes
        self._clamps = study.study.out_of_bounds == "clamp" if clamps is None else clamps
        self._strict, self._part = strict or not self._clamps, part
        self._type = np.int16 if len(self._classes or ()) < 1 << 15 else np.int32  # small beside the records
        self._has_positive = False
        self._other: str | None = None
        self._odd: dict[str, tuple[int, list[Place]]] = {}
        self._parts: list[NDArray[Any]] = []

    def take(self, table: TextTable, faults: Faults) -> None:
        """Take a block's labels from its cells, and note those that cannot be used."""
        if self.name not in table.columns:
            return
        cells, all_places = table.columns[self.name], table.places(faults.source)
        numbers = {text: i for i, text in enumerate(dict.fromkeys(cells))}
        places = np.fromiter((numbers[cell] for cell in cells), np.intp, len(cells))
        levels = list(numbers)
        for i, text in enumerate(levels):
            kind, is_odd = self._kind(text), self._is_odd(text)
            if kind is None and not is_odd:
                continue
            where = [all_places[row] for row in np.flatnonzero(places == i).tolist()]
            if kind is not None:
                faults.add(self.name, kind, where, refused=not self._clamps, allowed=self._allowed)
            else:
                key = text if text in self._odd or len(self._odd) < _DIFFERENT else _REST
                count, first = self._odd.get(key, (0, []))
                self._odd[key] = (count + len(where), [*first, *where][:3])
        self._keep(Levels(places, levels), np.bincount(places, minlength=len(levels)).tolist())

    def take_whole(self, columns: Mapping[str, WholeColumn]) -> bool:
        """Take a block's labels, and return whether each of them can be used."""
        levels = columns[self.name]
        if not isinstance(levels, Levels):
            raise LocalProtocolError("a label is read as text")
        counts = np.bincount(levels.places, minlength=len(levels.texts)).tolist()
        seen = [text for text, count in zip(levels.texts, counts, strict=True) if count]
        if self._strict and any(self._kind(text) is not None or self._is_odd(text) for text in seen):
            return False
        self._keep(levels, counts)
        return True

    def _kind(self, text: str) -> Kind | None:
        """Return what is wrong with a label, whatever the others are."""
        if self._classes is not None:
            return None if text in self._classes else kind_of_class(text, self._classes)
        return None if text else LABEL_EMPTY

    def _is_odd(self, text: str) -> bool:
        """Return whether a label of two values is neither the positive one nor the other one."""
        if self._positive is None or self._part or not text:
            return False
        if text == self._positive:
            self._has_positive = True
            return False
        if alike(text, [self._positive]) is not None:
            return True
        if self._other is None:
            self._other = text
        return text != self._other

    @property
    def _allowed(self) -> str:
        return ", ".join(map(repr, self._classes or (self._positive,)))

    def _keep(self, levels: Levels, counts: Sequence[int]) -> None:
        faulty = [not text if self._classes is None else text not in self._classes for text in levels.texts]
        self.filled += sum(count for count, is_faulty in zip(counts, faulty, strict=True) if is_faulty)
        self.texts |= {text for text, count in zip(levels.texts, counts, strict=True) if count}
        self._parts.append(np.array([self._number(text) for text in levels.texts], dtype=self._type)[levels.places])

    def _number(self, text: str) -> int:
        if self._classes is None:
            return 1 if text == self._positive else -1
        return self._classes.index(text) if text in self._classes else 0

    def note(self, faults: Faults) -> None:
        """Note the values of a label that are too many, once all labels were taken."""
        others = len(self._odd) + (self._other is not None)
        if others == 2 and not self._has_positive and not self._clamps:  # noqa: PLR2004  neither is the positive one
            near = any(alike(text, [str(self._positive)]) is not None for text in self._odd)
            near_hint = "; one of its values differs from that in capitals or blanks alone" if near else ""
            faults.signs.append(Sign("label_never", self._never, f"{_two(self._allowed)}{near_hint}"))
            if not near:
                return
        if others < 2 and not self._clamps:  # noqa: PLR2004
            return
        known = [text for text in (self._positive, self._other) if text is not None]
        for text, (count, first) in self._odd.items():
            is_alike = alike(text, known) is not None
            if is_alike or not self._clamps:
                kind = THIRD_ALIKE if is_alike else THIRD
                faults.add(self.name, kind, first, count=count, refused=not self._clamps, allowed=self._allowed)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The values that the study names and that no record has."""
        numbers = np.unique(self.numbers()).tolist()
        names = self._classes or (str(self._positive),)
        return tuple(name for name in names if self._number(name) not in numbers)

    @property
    def other(self) -> str | None:
        """The first value that is not the positive one, nor differs from it in capitals or blanks alone."""
        return self._other

    def finish(self) -> NDArray[np.float64]:
        """Return all labels."""
        return self.numbers().astype(np.float64)

    def numbers(self) -> NDArray[Any]:
        """Return all labels that were taken, as small integers."""
        return np.concatenate([np.empty(0, self._type), *self._parts])

    def check(self, source: str) -> None:
        """Check that a label of two values has one that is not the positive one, and no third.

        Raises
        ------
        BadInput
            It has a third; or neither of its two is the positive one.
        """
        positive, others = self._positive, self.texts - {self._positive, ""}
        if positive is None or len(others) < 2 or self._clamps:  # noqa: PLR2004  a positive value and another
            return
        says = f"the label {self.name!r} has more than two different values"
        if len(others) == 2 and positive not in self.texts:  # noqa: PLR2004
            says = self._never
        raise FaultyFile(source, (Sign("label_third", says, _two(self._allowed)),), (), "record")

    @property
    def _never(self) -> str:
        return f"the label {self.name!r} is never {self._positive!r}, the study's positive value"


def _two(allowed: str) -> str:
    return f"one value must be {allowed} and all others must be equal; blanks and capitals count"

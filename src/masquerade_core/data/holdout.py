"""Records that are held back to measure a model: which ones follows from their place in the file, never from a value.

Row i of a party's records, counted from 0, is held back if and only if floor((i + 1) share) > floor(i share). So of n
records, floor(n share) are held back, spread evenly over the file. A replaced record keeps its place, and so its side:
it is either learned from or measured with, in both of two neighbouring data sets. The proof of an evaluation that adds
no epsilon rests on this (``docs/privacy/evaluation.md``).

Records that change places change sides, so a file must not be sorted by what the records say. Where `data clean` leaves
records out, it fills their places with the last ones (:mod:`masquerade.cleaning`).

A study has no column that says which records belong to one person. So a person with several records may stand on both
sides. Privacy is then counted for each record by itself, as everywhere. But the measured quality may come out too good.
"""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from masquerade_core.data.records import Records
from masquerade_core.study import Study, as_fraction

__all__ = [
    "are_held_back",
    "fewest_held_back",
    "fewest_to_learn_from",
    "most_held_back",
    "most_to_learn_from",
    "split",
    "training_sides",
]

AnyRecords = TypeVar("AnyRecords", bound=Records)


def are_held_back(n: int, share: float, start: int = 0) -> NDArray[np.bool_]:
    """Return for each of n rows whether it is held back.

    Parameters
    ----------
    n : int
        The number of rows.
    share : float
        Between 0 and 1. It counts as the decimal number that a study's file shows, so that all machines agree.
    start : int
        The place of the first of these rows among all records.
    """
    exact = as_fraction(share)
    fits = (start + n) * exact.numerator < 1 << 63
    places = np.arange(start, start + n + 1, dtype=np.int64 if fits else object)
    below: NDArray[np.int64] = (places * exact.numerator // exact.denominator).astype(np.int64)
    return np.diff(below) > 0


def split(study: Study, data: AnyRecords) -> tuple[AnyRecords, AnyRecords | None]:
    """Return the records to learn from, and those held back; None where the study has no ``[evaluation]``."""
    return (data, None) if study.evaluation is None else data.sides(study.evaluation.share)


def training_sides(study: Study, data: Mapping[str, AnyRecords]) -> dict[str, AnyRecords]:
    """Return each party's records to learn from: all of them where the study has no ``[evaluation]``."""
    return {name: split(study, records)[0] for name, records in data.items()}


def fewest_held_back(study: Study) -> int:
    """Return the fewest records that all parties together can hold back; 0 where the study has no ``[evaluation]``."""
    return study.K * _held_back(study, study.study.min_records)


def most_held_back(study: Study) -> int:
    """Return the most records that all parties together can hold back; 0 where the study has no ``[evaluation]``."""
    return sum(parties * _held_back(study, most) for most, parties in study.record_limits.items())


def fewest_to_learn_from(study: Study) -> int:
    """Return the fewest records that all parties together can have to learn from."""
    return study.fewest_records - fewest_held_back(study)


def most_to_learn_from(study: Study) -> int:
    """Return the most records that all parties together can have to learn from.

    No share is more than a half, so a party with more records has at least as many to learn from.
    """
    return study.most_records - most_held_back(study)


def _held_back(study: Study, n: int) -> int:
    return 0 if study.evaluation is None else int(as_fraction(study.evaluation.share) * n)

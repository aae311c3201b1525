"""How good a model of several named classes is, from noisy counts of records by class and answer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from masquerade_core.evaluation import Estimate, Noisy, fraction_of, share_of, z_value

__all__ = ["ClassEvaluation", "OneClass", "evaluate_classes"]

_Array = NDArray[np.float64]

_DIGITS = 6
_RARE = 0.01  # of all answers together, but the most frequent one


@dataclass(frozen=True)
class OneClass:
    """One class against all others.

    Parameters
    ----------
    name : str
    share : Estimate
        The share of records that belong to it.
    sensitivity : Estimate
        The share of these that the model finds.
    precision : Estimate
        The share of the answers with this class that are right.
    """

    name: str
    share: Estimate
    sensitivity: Estimate
    precision: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {"name": self.name, **{k: v.to_json() for k, v in vars(self).items() if isinstance(v, Estimate)}}


@dataclass(frozen=True)
class ClassEvaluation:
    """How good a model of several classes is on records that it has not seen.

    Parameters
    ----------
    records : int
        How many records were held back, at all parties together.
    noise_sd : float
        The standard deviation of the noise on each count, in records.
    error : Estimate
        The share of records that are answered with a wrong class.
    majority_error : float
        The error of always answering with the most frequent class.
    advantage : Estimate
        That error less the model's.
    same_answer : str
        The class that nearly all records are answered with; empty if there is none.
    classes : tuple of OneClass
    confusion : tuple of tuple of float
        Row c holds the records of class c, by the model's answer: noisy counts.
    """

    records: int
    noise_sd: float
    error: Estimate
    majority_error: float
    advantage: Estimate
    same_answer: str
    classes: tuple[OneClass, ...]
    confusion: tuple[tuple[float, ...], ...]

    @property
    def better_than_majority(self) -> bool:
        """Whether it is shown that the model errs less than the same answer for every record."""
        return self.advantage.low > 0

    def to_json(self) -> dict[str, Any]:
        """Return the field ``evaluation`` of ``result.json``."""
        return {
            "records": self.records,
            "noise_sd": round(self.noise_sd, _DIGITS),
            "error": self.error.to_json(),
            "majority_error": round(self.majority_error, _DIGITS),
            "advantage": self.advantage.to_json(),
            "better_than_majority": self.better_than_majority,
            "same_answer": self.same_answer or None,
            "classes": [one.to_json() for one in self.classes],
            "confusion": [[round(count, _DIGITS) for count in row] for row in self.confusion],
        }


def evaluate_classes(counts: _Array, variance: float, records: int, names: tuple[str, ...]) -> ClassEvaluation:
    """Estimate how good a model is.

    Parameters
    ----------
    counts : ndarray, shape (C, C)
        Noisy counts: row c holds the records of class c, by the model's answer.
    variance : float
        The variance of the noise on each count.
    records : int
        How many records were held back: exact, and public.
    names : tuple of str
        The C classes.
    """
    z, C = z_value(), len(names)
    # All counts together are known to be ``records``, so what is too much or too little is spread over them.
    opened, counts = counts, counts + (records - counts.sum()) / counts.size
    right, rows, columns = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    rest = (C - 1) * variance  # of C - 1 counts; and, after the spreading, of a row, a column and the diagonal
    most, often = int(rows.argmax()), int(columns.argmax())
    others = np.arange(C) != most
    won, lost = float(right[others].sum()), float(rows[most] - right[most])
    gain = (won - lost) / records
    spread = max(0.0, (won + lost) / records - gain**2) / records + 2 * rest / records**2
    reach = z * spread**0.5
    answered = share_of(float(columns[often]), rest, records, z)

    def fraction(c: int, lines: _Array, seen: _Array) -> Estimate:
        """Return which fraction of a row or a column is on the diagonal."""
        others = Noisy(records - float(np.delete(seen, c).sum()), C * rest)
        return fraction_of(Noisy(float(right[c]), variance), Noisy(float(lines[c] - right[c]), rest), others, z)

    return ClassEvaluation(
        records=records,
        noise_sd=variance**0.5,
        error=share_of(records - float(right.sum()), rest, records, z),
        majority_error=1 - min(1.0, max(0.0, float(rows[most]) / records)),
        advantage=Estimate(gain, max(-1.0, gain - reach), min(1.0, gain + reach)),
        same_answer=names[often] if (answered.value or 0.0) > 1 - _RARE else "",
        classes=tuple(
            OneClass(
                name,
                share_of(float(rows[c]), rest, records, z),
                fraction(c, rows, opened.sum(axis=1)),
                fraction(c, columns, opened.sum(axis=0)),
            )
            for c, name in enumerate(names)
        ),
        confusion=tuple(tuple(row) for row in counts.tolist()),
    )

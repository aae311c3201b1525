"""Released regression coefficients: what each is estimated to be, how sure that is, and where nothing can be told.

A coefficient that cannot be told has a reason and no number: a number that noise has made would be read all the same.
"""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from masquerade_core.errors import BadInput
from masquerade_core.study import INTERCEPT

__all__ = ["AT_MEANS", "LEVEL", "Coefficient", "Coefficients", "Family"]

LEVEL = 0.95
"""How often an interval covers the coefficient that it is for."""

AT_MEANS = "(intercept at the means)"
"""The name of the last line of ``estimates.csv``: the intercept for all columns at their means."""

Family = Literal["logistic", "linear"]
"""The model: a binary label's log-odds, or a number, as a linear function of the columns."""

_NUMBERS = ("estimate", "se", "low", "high", "privacy_share")
_ODDS = ("odds", "odds_low", "odds_high")
_HINT = "use the model.json that the run wrote to its directory"


@dataclass(frozen=True)
class Coefficient:
    """One coefficient, in its column's own units.

    Parameters
    ----------
    name : str
        A covariate of the study, or ``(intercept)``.
    estimate, se, low, high : float or None
        The estimate, its standard error and the limits of its interval: log-odds per unit of the column, or units of
        the label per unit of the column. A level is compared with its column's first one. None if it cannot be told.
    privacy_share : float or None
        The part of the interval's width that is due to the noise: 0 where the noise adds nothing.
    reason : str
        Why it cannot be told, as a clause; empty where it can.
    """

    name: str
    estimate: float | None = None
    se: float | None = None
    low: float | None = None
    high: float | None = None
    privacy_share: float | None = None
    reason: str = ""

    @property
    def told(self) -> bool:
        """Whether it can be told."""
        return not self.reason

    @property
    def odds(self) -> float | None:
        """The odds ratio, exp(estimate)."""
        return _exp(self.estimate)

    @property
    def odds_low(self) -> float | None:
        """The lower limit of the odds ratio."""
        return _exp(self.low)

    @property
    def odds_high(self) -> float | None:
        """The upper limit of the odds ratio."""
        return _exp(self.high)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value: numbers where it can be told, and the reason where it cannot."""
        if not self.told:
            return {"name": self.name, "told": False, "reason": self.reason}
        return {"name": self.name, "told": True, **{key: getattr(self, key) for key in _NUMBERS}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` wrote; raises ValueError, KeyError or TypeError for anything else."""
        if not data["told"]:
            return cls(_text(data["name"]), reason=_text(data["reason"]))
        estimate, se, low, high, share = (_finite(data[key]) for key in _NUMBERS)
        if not (low <= estimate <= high and se >= 0):
            raise ValueError("a coefficient lies outside its interval")
        return cls(_text(data["name"]), estimate, se, low, high, share)


@dataclass(frozen=True)
class Coefficients:
    """All coefficients of a run, and what they rest on.

    Parameters
    ----------
    family : str
        "logistic" or "linear".
    records : int
        N, how many records they were learned from: exact.
    mu : float
        The parameter of Gaussian differential privacy that the noise of all parties together amounts to.
    strength : float
        s = N mu/sqrt(d), d the number of coefficients: how much there is to go by, beside the noise.
    rows : tuple of Coefficient
        The intercept, for all columns at 0 and at their first levels; then one for each covariate of the study.
    at_means : Coefficient
        The intercept for all columns at their means.
    means : tuple of float
        These means, each in its column's own units, with noise. Empty where no sum was opened.
    covariance : tuple of tuple of float
        The covariance matrix of the rows that can be told, in their order.
    weighted_down : float
        The share of records that counted less than 1, with noise.
    beyond : float or None
        With a linear model, the share of records whose residual was cut, with noise.
    last_step : float
        How far the last step moved all coefficients, in standardised coordinates.
    weak : int
        In how many directions the noise hides what the records say.
    refused : str
        Why nothing can be told, as a clause; empty where something can.
    """

    family: Family
    records: int
    mu: float
    strength: float
    rows: tuple[Coefficient, ...]
    at_means: Coefficient
    means: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    weighted_down: float
    beyond: float | None
    last_step: float
    weak: int
    refused: str = ""

    @property
    def told(self) -> tuple[Coefficient, ...]:
        """The coefficients that can be told."""
        return tuple(row for row in self.rows if row.told)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value that keeps every number exactly."""
        return {
            "family": self.family,
            "level": LEVEL,
            "records": self.records,
            "mu": self.mu,
            "strength": self.strength,
            **({"refused": self.refused} if self.refused else {}),
            "rows": [row.to_json() for row in self.rows],
            "at_means": self.at_means.to_json(),
            "means": list(self.means),
            "covariance": [list(row) for row in self.covariance],
            "weighted_down": self.weighted_down,
            **({} if self.beyond is None else {"beyond": self.beyond}),
            "last_step": self.last_step,
            "weak": self.weak,
        }

    def to_csv(self) -> str:
        """Return ``estimates.csv``: a line for each coefficient, with empty cells where it cannot be told.

        Each number is the shortest text that reads back as it.
        """
        logistic = self.family == "logistic"
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name", "told", *_NUMBERS, *(_ODDS if logistic else ()), "reason"])
        for name, row in (*((row.name, row) for row in self.rows), (AT_MEANS, self.at_means)):
            numbers = [getattr(row, key) for key in (*_NUMBERS, *(_ODDS if logistic else ()))]
            cells = ["" if number is None else repr(number) for number in numbers]
            writer.writerow([name, "yes" if row.told else "no", *cells, row.reason])
        return file.getvalue()

    @classmethod
    def from_json(cls, data: Mapping[str, Any], covariates: tuple[str, ...]) -> Self:
        """Read what :meth:`to_json` wrote.

        Parameters
        ----------
        data : mapping
        covariates : tuple of str
            The names that the model's encoder gives its coordinates.

        Raises
        ------
        BadInput
            It is not what this program writes, or is of other columns.
        """
        try:
            read = cls._read(data)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise BadInput(
                "the coefficients in the model file do not have the form that this program writes", _HINT
            ) from error
        names = tuple(row.name for row in read.rows)
        if names != (INTERCEPT, *covariates) or len(read.means) not in {0, len(covariates)}:
            raise BadInput("the model file has coefficients of other columns than its encoder", _HINT)
        told = len(read.told)
        if len(read.covariance) != told or any(len(row) != told for row in read.covariance):
            raise BadInput(
                f"the model file has {told} coefficients that can be told, and a covariance matrix of another size",
                _HINT,
            )
        return read

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        if data["family"] not in get_args(Family) or data["level"] != LEVEL:
            raise ValueError("another family or level")
        beyond = data.get("beyond")
        return cls(
            family=data["family"],
            records=_count(data["records"]),
            mu=_finite(data["mu"]),
            strength=_finite(data["strength"]),
            rows=tuple(map(Coefficient.from_json, data["rows"])),
            at_means=Coefficient.from_json(data["at_means"]),
            means=tuple(map(_finite, data["means"])),
            covariance=tuple(tuple(map(_finite, row)) for row in data["covariance"]),
            weighted_down=_finite(data["weighted_down"]),
            beyond=None if beyond is None else _finite(beyond),
            last_step=_finite(data["last_step"]),
            weak=_count(data["weak"]),
            refused=str(data.get("refused", "")),
        )


def _exp(x: float | None) -> float | None:
    if x is None:
        return None
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("not a finite number")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("not a count")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("not a text")
    return value

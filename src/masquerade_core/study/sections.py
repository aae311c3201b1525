"""The tables of a study's file, each with what it may hold."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from masquerade_core.identity import PublicKeysField
from masquerade_core.words import counted, listed

__all__ = [
    "CHARLIE",
    "THRESHOLD_RULES",
    "AuxiliaryFile",
    "Crypto",
    "Curator",
    "EvaluationSection",
    "Feature",
    "Label",
    "Model",
    "OutOfBounds",
    "Party",
    "Privacy",
    "Section",
    "StudySection",
    "threshold_rule",
]

CHARLIE = "charlie"
"""The curator's name in every run; no party may have it."""

_Name = Annotated[str, Field(pattern=r"\A[a-z0-9][a-z0-9-]{0,31}\z")]
_Text = Annotated[str, Field(pattern=r"\A[^\x00-\x1f\x7f-\x9f]{1,128}\z")]
_Real = Annotated[float, Field(allow_inf_nan=False)]

OutOfBounds = Literal["refuse", "clamp"]
"""What happens to cells that do not fit the study's public bounds and levels."""


class Section(BaseModel):
    """A table of the study."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class StudySection(Section):
    """``[study]``: its name, its protocol, and the rules under which it runs."""

    name: _Name
    protocol: _Name
    min_parties: int = Field(ge=1, description="the fewest parties a run may have")
    lead: _Name | None = Field(
        default=None, description="the party that holds the secret half of the parties' encryption key"
    )
    min_records: int = Field(ge=2, description="the fewest records that a party may have; public")
    records_per_person: int = Field(
        default=1, ge=1, description="how many records one person may have, with one party or several; public"
    )
    max_records: int | None = Field(default=None, ge=1, description="the most records that a party may have; public")
    out_of_bounds: OutOfBounds = Field(
        default="refuse",
        description='"clamp" moves numbers to their bounds and fills missing cells; "refuse" refuses the whole file',
    )
    expected_records: int | None = Field(
        default=None, ge=1, description="how many records all parties together are expected to have; public"
    )
    deadline_seconds: float = Field(gt=0, allow_inf_nan=False, description="the seconds of silence that end a run")
    slot_seconds: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="the slot of the public schedule, in seconds"
    )
    nonce: str = Field(pattern=r"\A[A-Za-z0-9_-]{16,64}\z", description="16 random characters, made by 'study new'")

    @model_validator(mode="after")
    def _slot_within_the_deadline(self) -> Self:
        if self.slot_seconds is not None and self.slot_seconds >= self.deadline_seconds:
            raise ValueError(
                f"[study] slot_seconds is {self.slot_seconds:g}, but must be less than deadline_seconds = "
                f"{self.deadline_seconds:g}: whoever waits for its slot must not count as silent"
            )
        return self


class Privacy(Section):
    """``[privacy]``: the privacy target, and what the noise is to do for it."""

    epsilon: float = Field(
        gt=0,
        allow_inf_nan=False,
        description="the odds of a guess about a record change by at most e^epsilon; there is no default",
    )
    delta: float = Field(ge=0, lt=1, allow_inf_nan=False, description="the probability that epsilon does not hold")
    calibration: Literal["paper", "proven"] = Field(
        description='"paper" for the noise of the paper, "proven" for as much as a proof needs for the privacy target'
    )
    colluders: int = Field(default=0, ge=0, description="how many parties may side with Charlie")


_UNFIT_LOSSES = {
    "hinge": "which has no derivative where the margin is 1",
    "huber-hinge": "which has no second derivative at two margins",
    "squared-hinge": "whose derivative has no bound",
    "squared": "whose derivative has no bound",
    "exponential": "whose derivative has no bound",
    "zero-one": "which is not convex",
}


class Model(Section):
    """``[model]``: the loss and Lambda of (Lambda/2) ||w||^2, which is twice Pathak's lambda."""

    loss: Literal["logistic", "smoothed-hinge", "sigmoid"] = "logistic"
    regularization: float = Field(ge=0, allow_inf_nan=False, description="Lambda of (Lambda/2) |w|^2")
    intercept: bool = True

    @field_validator("loss", mode="before")
    @classmethod
    def _meets_the_theorems(cls, value: Any) -> Any:
        if isinstance(value, str) and value in _UNFIT_LOSSES:
            raise ValueError(
                f'is "{value}", {_UNFIT_LOSSES[value]}; the proofs need a convex loss with two derivatives, the '
                'first between -1 and 1 and the second bounded: set "logistic" or "smoothed-hinge"'
            )
        return value


class Crypto(Section):
    """``[crypto]``: how sums are made, and the length of the key where they are made under encryption."""

    sum: Literal["masks", "paillier"] = Field(
        default="paillier", description='"masks" for words under masks, "paillier" for encrypted numbers'
    )
    key_bits: int | None = Field(default=None, ge=512, le=4096, description="length of the parties' encryption key")

    @model_validator(mode="before")
    @classmethod
    def _usual_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("sum", "paillier") == "paillier":
            return {"key_bits": 2048, **value}
        return value

    @model_validator(mode="after")
    def _key_of_use(self) -> Self:
        if self.sum == "masks" and self.key_bits is not None:
            raise ValueError(
                f'[crypto] has key_bits = {self.key_bits}, but sum = "masks" uses no such key; remove key_bits, or set '
                'sum = "paillier"'
            )
        return self


THRESHOLD_RULES = ("youden", "f1")
"""The rules by which a threshold may be chosen from the noisy counts of an evaluation."""


def threshold_rule(value: Any) -> Any:
    """Return the value of a field that says how a threshold is chosen, after a check."""
    rate = isinstance(value, float) and 0 < value < 1
    if value is not None and not rate and value not in THRESHOLD_RULES:
        raise ValueError(
            f"is {value!r}, but must be 'youden', 'f1', or a number between 0 and 1: the share of records that the "
            "model shall answer with the positive label"
        )
    return value


class EvaluationSection(Section):
    """``[evaluation]``: the share of each party's records that measures the model, and how a threshold is chosen.

    No more than half of the records may be held back. Beyond that, fewer records are left to learn from than to measure
    with, and the intervals hardly become narrower: their width falls with the square root of the records held back.
    """

    share: float = Field(gt=0, le=0.5, allow_inf_nan=False, description="the share of each party's records held back")
    threshold: str | float | None = None

    _threshold = field_validator("threshold", mode="before")(threshold_rule)


class Label(Section):
    """``[label]``: the column to predict, and which of its two values counts as +1, or the names of its classes."""

    name: _Text
    positive: _Text | None = Field(default=None, description="the label value that counts as +1, in quotes")
    classes: Annotated[tuple[_Text, ...] | None, Field(strict=False)] = None

    @model_validator(mode="after")
    def _two_or_several(self) -> Self:
        if (self.positive is None) == (self.classes is None):
            seen = "neither positive nor classes" if self.classes is None else "both positive and classes"
            raise ValueError(
                f"[label] has {seen}; set positive where the label has two values, or classes to name every class"
            )
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            raise ValueError("[label] has a class twice; classes must differ")
        if self.classes is not None and len(self.classes) < 2:  # noqa: PLR2004
            raise ValueError(f"[label] has {counted(len(self.classes), 'class', 'classes')}; at least two are needed")
        return self


class AuxiliaryFile(Section):
    """``[protocol.auxiliary]``: public records without labels, in a file beside the study. The study holds its hash."""

    file: str = Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z", description="a file's name, beside the study")
    sha256: str = Field(pattern=r"\A[0-9a-f]{64}\z", description="the file's SHA-256, in lower-case hexadecimal digits")
    records: int = Field(ge=1, description="how many records it holds")


class Feature(Section):
    """``[[feature]]``: a column of numbers with public bounds or bins, or of public levels (categories).

    k edges make k + 1 bins: x < e_1, e_1 <= x < e_2, ..., e_k <= x. Bins may have min and max as well. Then all edges
    lie between these two, and a number outside them is refused, or moved to the nearer of the two.

    ``missing`` is the public value, or the level, that a missing cell becomes; :attr:`filler` has its default.
    """

    name: _Text
    min: _Real | None = None
    max: _Real | None = None
    levels: Annotated[tuple[_Text, ...] | None, Field(strict=False)] = None
    edges: Annotated[tuple[_Real, ...] | None, Field(strict=False)] = None
    missing: _Real | str | None = Field(default=None, description="what a missing cell becomes; public")

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        bounds = (self.min is not None) + (self.max is not None)
        binned = self.edges is not None
        if (bounds > 0 or binned) == (self.levels is not None):
            given = [key for key in ("min", "max", "levels", "edges") if getattr(self, key) is not None]
            raise ValueError(
                f"feature {self.name!r} has {listed(given) if given else 'no range'}; set either min and max, "
                "or levels, or edges (with or without min and max)"
            )
        if bounds == 1:
            raise ValueError(f"feature {self.name!r} has only one of min and max; both are needed")
        for problem in (*self._problems_of_bounds(), *self._problems_of_levels(), *self._problems_of_edges()):
            raise ValueError(f"feature {self.name!r} has {problem}")
        for problem in self._problems_of_missing():
            raise ValueError(f"feature {self.name!r} has {problem}")
        return self

    def _problems_of_bounds(self) -> Iterator[str]:
        if self.min is None or self.max is None:
            return
        if self.min >= self.max:
            yield f"min {self.min} and max {self.max}; min must be smaller"
        if not math.isfinite(self.max - self.min):
            yield "bounds too far apart for floating point"

    def _problems_of_levels(self) -> Iterator[str]:
        if self.levels is None:
            return
        if len(set(self.levels)) != len(self.levels):
            yield "a level twice; levels must differ"
        if len(self.levels) < 2:  # noqa: PLR2004
            yield f"{counted(len(self.levels), 'level')}; at least two are needed"

    def _problems_of_edges(self) -> Iterator[str]:
        if self.edges is None:
            return
        if not self.edges:
            yield "no edges; at least one is needed"
        if any(low >= high for low, high in pairwise(self.edges)):
            yield "edges that do not grow; each must be larger than the one before it"
        if self.min is not None and self.max is not None and not all(self.min < e < self.max for e in self.edges):
            yield f"an edge that does not lie between min {self.min} and max {self.max}"

    def _problems_of_missing(self) -> Iterator[str]:
        if self.missing is None:
            return
        if self.levels is not None:
            if self.missing not in self.levels:
                yield f"missing = {self.missing!r}, but it must be one of the levels: {self.range}"
        elif isinstance(self.missing, str):
            yield f"missing = {self.missing!r}, but it must be a number, since the column holds numbers"
        elif self.min is not None and self.max is not None and not self.min <= self.missing <= self.max:
            yield f"missing = {self.missing!r}, but it must lie between min {self.min} and max {self.max}"

    @property
    def filler(self) -> float | str:
        """What a missing cell becomes: ``missing``, or what follows from the public ranges.

        For levels that is the level "?" where there is one, else the first level. For numbers it is the middle of the
        bounds, and without bounds the middle between the first edge and the last.
        """
        if self.missing is not None:
            return self.missing
        if self.levels is not None:
            return "?" if "?" in self.levels else self.levels[0]
        ends = (self.min, self.max) if self.edges is None or self.min is not None else (self.edges[0], self.edges[-1])
        low, high = float(ends[0] or 0), float(ends[1] or 0)
        return low / 2 + high / 2

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates that this feature becomes."""
        if self.levels is not None:
            return tuple(f"{self.name}={level}" for level in self.levels)
        if self.edges is None:
            return (self.name,)
        shown = [_number(e) for e in self.edges]
        between = (f"{low}<={self.name}<{high}" for low, high in pairwise(shown))
        return (f"{self.name}<{shown[0]}", *between, f"{self.name}>={shown[-1]}")

    @property
    def range(self) -> str:
        """The values that the column may hold, in words: ``f, m``, ``0 to 120`` or ``0 to 120, in bins at 25, 50``."""
        if self.levels is not None:
            return ", ".join(self.levels)
        bounds = "" if self.min is None or self.max is None else f"{self.min:g} to {self.max:g}"
        bins = "" if self.edges is None else f"in bins at {', '.join(map(_number, self.edges))}"
        return ", ".join(part for part in (bounds, bins) if part)


def _number(x: float) -> str:
    """Return the shortest text that reads back as x, so that two edges never look the same."""
    return repr(x).removesuffix(".0")


class Curator(Section):
    """``[curator]``: the address at which Charlie, the curator, listens, and his public key."""

    address: str = Field(pattern=r"\Atcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):[1-9][0-9]{0,4}\z")
    key: PublicKeysField

    @field_validator("address")
    @classmethod
    def _port(cls, value: str) -> str:
        if int(value.rpartition(":")[2]) > 65535:  # noqa: PLR2004
            raise ValueError(f"is {value!r}, but a port is at most 65535")
        return value


class Party(Section):
    """``[[party]]``: one data owner of the roster."""

    name: _Name
    key: PublicKeysField
    max_records: int | None = Field(default=None, ge=1, description="the most records that this party may have; public")

    @field_validator("name")
    @classmethod
    def _not_charlie(cls, value: str) -> str:
        if value == CHARLIE:
            raise ValueError(f"is {CHARLIE!r}, which is the curator's name; give the party another name")
        return value

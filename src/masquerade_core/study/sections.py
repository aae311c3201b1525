"""The tables of a study's file, each with what it may hold.

Some tables speak of columns: the features and the label. Others set public limits, of the roster and of the parties'
sizes; this module says which limits contradict each other, or leave nothing to measure with.

``[dropouts]`` says how a run goes on without parties that no longer answer. A party that falls silent leaves a sum
without its contribution. The study says by which ``method`` the run goes on:

``"retries"``
    Charlie asks the others for new contributions, with fresh noise, to a sum that is theirs alone: a *retry*. He may
    also falsely claim that a party is silent, and so get one more noisy sum. Therefore the noise is sized as if he
    used every retry that the study allows, and as if every sum had only ``min_survivors`` parties.
``"double-masks"``
    A contribution is under two masks. The others hold shares of both, and open one of the two: which one depends on
    whether the party's contribution came. No sum is made again, so the study has no ``retries``. The noise is sized as
    if every sum had only ``min_survivors`` parties.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from masquerade_core.errors import BadInput
from masquerade_core.identity import CHARLIE, PublicKeysField
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.words import DELTA, UNSHOWN, counted, listed

__all__ = [
    "CHARLIE",
    "DECLARED",
    "MOST_PARTIES",
    "THRESHOLD_RULES",
    "AuxiliaryFile",
    "Coding",
    "Crypto",
    "Curator",
    "Dropouts",
    "EvaluationSection",
    "Feature",
    "Label",
    "Matching",
    "Model",
    "OutOfBounds",
    "Party",
    "Precision",
    "Privacy",
    "Section",
    "StudySection",
    "check_network",
    "crowd_problems",
    "dropout_problems",
    "evaluation_problems",
    "lead_problems",
    "size_problems",
    "threshold_rule",
]


# --- Columns ---------------------------------------------------------------------

# The length stands beside the pattern: in it, compiling the patterns would take some 20 ms of every start.
_Text = Annotated[str, Field(pattern=rf"\A[^{UNSHOWN}]+\z", max_length=128)]
_Real = Annotated[float, Field(allow_inf_nan=False)]


class Section(BaseModel):
    """A table of the study."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class Label(Section):
    """``[label]``: the column to predict, and its values.

    It has two values, of which ``positive`` counts as +1. Or it has several, whose names are the ``classes``. Or it is
    a number between the public bounds ``min`` and ``max``, for protocols that fit a regression line.
    """

    name: _Text
    positive: _Text | None = Field(default=None, description="the label value that counts as +1, in quotes")
    classes: Annotated[tuple[_Text, ...] | None, Field(strict=False)] = None
    min: _Real | None = Field(default=None, description="the smallest number; public")
    max: _Real | None = Field(default=None, description="the largest number; public")

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        bounds = (self.min is not None) + (self.max is not None)
        if (self.positive is not None) + (self.classes is not None) + (bounds > 0) != 1:
            given = [key for key in ("positive", "classes", "min", "max") if getattr(self, key) is not None]
            seen = f"both {listed(given)}" if given else "neither positive nor classes nor bounds"
            raise ValueError(
                f"[label] has {seen}; set positive "
                "where the label has two values, or classes to name every class, or min and max where it is a number"
            )
        if bounds == 1:
            raise ValueError("[label] has only one of min and max; both are needed")
        if self.min is not None and self.max is not None:
            for problem in _problems_of_bounds(self.min, self.max):
                raise ValueError(f"[label] has {problem}")
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            raise ValueError("[label] has a class twice; classes must differ")
        if self.classes is not None and len(self.classes) < 2:  # noqa: PLR2004
            raise ValueError(f"[label] has {counted(len(self.classes), 'class', 'classes')}; at least two are needed")
        return self

    @property
    def number(self) -> "Feature | None":
        """The label as a column of numbers with public bounds; None if it has values or classes."""
        return None if self.min is None else Feature(name=self.name, min=self.min, max=self.max)


def _problems_of_bounds(low: float, high: float) -> Iterator[str]:
    if low >= high:
        yield f"min {low} and max {high}; min must be smaller"
    if not math.isfinite(high - low):
        yield "bounds too far apart for floating point"


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
        if self.min is not None and self.max is not None:
            for problem in _problems_of_bounds(self.min, self.max):
                raise ValueError(f"feature {self.name!r} has {problem}")
        for problem in (*self._problems_of_levels(), *self._problems_of_edges()):
            raise ValueError(f"feature {self.name!r} has {problem}")
        for problem in self._problems_of_missing():
            raise ValueError(f"feature {self.name!r} has {problem}")
        return self

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
        """The value of a missing cell: ``missing``, or the one that follows from the public ranges.

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
    def covariates(self) -> tuple[str, ...]:
        """The names of the columns that a regression has for this feature.

        It is in *treatment coding*: a level, or a bin, has a column of 0 and 1 of its own unless it is the first. All
        others are compared with the first.
        """
        return self.coordinates if self.levels is None and self.edges is None else self.coordinates[1:]

    @property
    def reference(self) -> str:
        """The name of the first level or bin, with which a regression compares the others; "" for a number."""
        return self.coordinates[0] if self.levels is not None or self.edges is not None else ""

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


# --- Sections --------------------------------------------------------------------

_Name = Annotated[str, Field(pattern=r"\A[a-z0-9][a-z0-9-]{0,31}\z")]
_Purpose = Annotated[str, Field(pattern=rf"\A[^{UNSHOWN}]+\z", max_length=400)]

DECLARED = {
    "purpose": "purpose",
    "legal_basis": "legal basis",
    "ethics_number": "ethics number",
    "contact": "contact",
}
"""The declarations that a coordinator may make: the fields of ``[study]``, and their names in plain words."""

OutOfBounds = Literal["refuse", "clamp"]
"""The treatment of cells that do not fit the study's public bounds and levels."""

Matching = Literal["exact", "loose"]
"""Whether capitals, and blanks around a cell, count where it is compared with the study's levels and labels."""

Coding = Literal["one-hot", "treatment"]
"""The numbers that records become.

"one-hot": vectors in the unit ball, with a coordinate for each level. "treatment": the covariates of a regression, each
between -1 and 1, with a column for each level but the first.
"""

Precision = Literal["float64", "float32"]
"""How a record's coordinates are stored."""


class StudySection(Section):
    """``[study]``: its name, its protocol, what is declared about it, and the rules under which it runs."""

    name: _Name
    protocol: _Name
    purpose: _Purpose | None = Field(default=None, description="what the study is for; public")
    legal_basis: _Text | None = Field(default=None, description="the legal basis of the study; public")
    ethics_number: _Text | None = Field(default=None, description="its number at an ethics committee; public")
    contact: _Text | None = Field(default=None, description="whom to ask about the study; public")
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
    matching: Matching | None = Field(
        default=None,
        description='"loose" ignores capitals, and blanks around a cell, where they leave one level or label only; '
        '"exact", if left out, does not',
    )
    precision: Precision | None = Field(
        default=None,
        description='"float32" stores coordinates in half the memory, with 7 digits; "float64", with 16, if left out',
    )
    expected_records: int | None = Field(
        default=None, ge=1, description="how many records all parties together are expected to have; public"
    )
    commoner_share: float | None = Field(
        default=None,
        ge=0.5,
        lt=1,
        allow_inf_nan=False,
        description="the share of records that are expected to have the commoner label; public",
    )
    deadline_seconds: float = Field(gt=0, allow_inf_nan=False, description="the seconds of silence that end a run")
    slot_seconds: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="the slot of the public schedule, in seconds"
    )
    attempts: int = Field(
        default=3, ge=1, le=100, description="how many attempts may end that released nothing, at each party"
    )
    charged_attempts: int = Field(
        default=0,
        ge=0,
        le=10,
        description="how many further attempts may follow that released something; each attempt gets its share of "
        "epsilon and delta, so there is more noise",
    )
    nonce: str = Field(pattern=r"\A[A-Za-z0-9_-]{16,64}\z", description="16 random characters, made by 'study new'")

    @property
    def declared(self) -> tuple[tuple[str, str], ...]:
        """The coordinator's declarations about the study: the name of each given field in plain words, and its text."""
        given = ((words, getattr(self, field)) for field, words in DECLARED.items())
        return tuple((words, text) for words, text in given if text is not None)


class Privacy(Section):
    """``[privacy]``: the privacy target, and what the noise is to do for it."""

    epsilon: float = Field(
        gt=0,
        allow_inf_nan=False,
        description="the odds of a guess about a record change by at most e^epsilon; there is no default",
    )
    delta: float = Field(ge=0, lt=1, allow_inf_nan=False, description=DELTA)
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


class AuxiliaryFile(Section):
    """``[protocol.auxiliary]``: public records without labels, in a file beside the study. The study holds its hash."""

    file: str = Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z", description="a file's name, beside the study")
    sha256: str = Field(pattern=r"\A[0-9a-f]{64}\z", description="the file's SHA-256, in lower-case hexadecimal digits")
    records: int = Field(ge=1, description="how many records it holds")


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


# --- Limits ----------------------------------------------------------------------

MOST_PARTIES = 32_768
"""The most parties of a study. One message to all others has a box of 99 bytes for each, and 4 MB hold no more of them
than 42,000. The list of all names takes 1.1 MB of such a message."""

_NETWORK_KEY_BITS = (2048, 3072)
_MOST_PAIRED = 1024  # where every two parties have something to tell each other: half a million pairs


def crowd_problems(crypto: Crypto, K: int) -> Iterator[str]:
    """Yield what is wrong with a roster of so many parties, as sentences."""
    if crypto.sum != "masks" and K > _MOST_PAIRED:
        yield (
            f'the roster has {counted(K, "party", "parties")}, but with [crypto] sum = "{crypto.sum}" at most '
            f"{_MOST_PAIRED:,} are allowed, since every two of them exchange messages; remove parties, or choose a "
            'protocol that makes its sums with masks, and set sum = "masks"'
        )


def check_network(crypto: Crypto, K: int, min_parties: int) -> None:
    """Refuse, with BadInput, a study of K parties that must not run between processes."""
    if crypto.sum == "paillier" and crypto.key_bits not in _NETWORK_KEY_BITS:
        raise BadInput(
            f"[crypto] key_bits is {crypto.key_bits}, but between processes only 2048 and 3072 are allowed",
            "set key_bits = 2048; 'masquerade simulate' alone takes other lengths",
        )
    if min(K, min_parties) == 1:
        raise BadInput(
            f"the roster has {counted(K, 'party', 'parties')} and min_parties is {min_parties}, "
            "but a run between processes has at least two parties",
            "add parties and set min_parties = 2 or more, or run the study with 'masquerade simulate'",
        )


def lead_problems(lead: str | None, crypto: Crypto, names: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with a study's lead, as sentences; ``names`` are the parties.

    Whether there must be one depends on the protocol, whose registry asks for it.
    """
    if crypto.sum == "masks":
        if lead is not None:
            yield f'[study] lead is {lead!r}, but with [crypto] sum = "masks" no party leads; remove the line'
    elif lead is not None and lead not in names:
        yield f"[study] lead is {lead!r}, but must be one of the parties: {', '.join(names)}"


def size_problems(rules: StudySection, parties: Sequence[Party], countable: int) -> Iterator[str]:
    """Yield what is wrong with the numbers of records that a study allows, as sentences.

    Parameters
    ----------
    rules : StudySection
        ``min_records``, ``max_records`` and ``expected_records``.
    parties : sequence of Party
        Each may have a ``max_records`` of its own.
    countable : int
        The most records of a party that a run of so many parties can count.
    """
    fewest, K = rules.min_records, len(parties)
    if fewest > countable:
        yield (
            f"[study] min_records is {fewest}, but must be at most {countable}, the most records that a party may have "
            "in a study with this number of parties"
        )
    own = [(f"party {party.name!r} has", party.max_records) for party in parties]
    for owner, most in (("[study] has", rules.max_records), *own):
        if most is not None and not fewest <= most <= countable:
            yield (
                f"{owner} max_records = {most}, but it must be at least min_records, which is {fewest}, and at most "
                f"{countable}"
            )
    together = sum(party.max_records or rules.max_records or countable for party in parties)
    if rules.expected_records is not None and not K * fewest <= rules.expected_records <= together:
        yield (
            f"[study] expected_records is {rules.expected_records}, but {counted(K, 'party', 'parties')} with "
            f"min_records = {fewest} have {K * fewest} to {together} records together; correct expected_records "
            "or min_records"
        )


def evaluation_problems(section: EvaluationSection, min_records: int, label: Label) -> Iterator[str]:
    """Yield what is wrong with a study's ``[evaluation]``, as sentences."""
    if as_fraction(section.share) * min_records < 1:
        yield (
            f"[evaluation] share is {section.share:g}, but of min_records = {min_records} that is less than one "
            "record; choose a larger share, or a larger min_records"
        )
    if label.number is not None:
        yield (
            "[evaluation] counts right and wrong answers, but the label is a number with min and max; "
            "leave [evaluation] out"
        )
    if label.classes is not None and section.threshold is not None:
        yield "[evaluation] has a threshold, but the label has named classes, and no threshold tells them apart"


# --- Dropouts --------------------------------------------------------------------

_FEWEST = 2


class Dropouts(Section):
    """``[dropouts]``: how many parties must remain, how often a sum may be made again, and how long Charlie waits."""

    min_survivors: int = Field(description="the fewest parties with which a run goes on; the noise is sized for these")
    method: Literal["retries", "double-masks"] = Field(
        default="retries",
        exclude_if=lambda method: method == "retries",  # so the hash of a study from before this field stays the same
        description='"retries" to make sums again, "double-masks" to remove the masks of those who fall silent',
    )
    retries: int | None = Field(
        default=None, ge=1, le=1000, description="how many sums a run may make again; the noise pays for all"
    )
    patience_seconds: float = Field(
        gt=0, allow_inf_nan=False, description="how long Charlie waits for a contribution before he goes on without it"
    )


def dropout_problems(section: Dropouts, rules: StudySection, privacy: Privacy, crypto: Crypto, K: int) -> Iterator[str]:
    """Yield what is wrong with a study's ``[dropouts]``, as sentences.

    Parameters
    ----------
    section : Dropouts
    rules, privacy, crypto : StudySection, Privacy, Crypto
        The sections with which it may not agree.
    K : int
        Parties.
    """
    yield from _method_problems(section)
    s, t = section.min_survivors, privacy.colluders
    if s < _FEWEST:
        yield (
            f"[dropouts] min_survivors is {s}, but must be at least {_FEWEST}: the sum of a single party hides nothing "
            "but what its own noise hides"
        )
    elif s > K:
        yield f"[dropouts] min_survivors is {s}, but must be at most {K}, the number of parties"
    elif s <= t:
        yield (
            f"[dropouts] min_survivors is {s}, but must be more than [privacy] colluders, which is {t}: at least one "
            "of those who remain must be honest"
        )
    elif section.method == "double-masks" and not _opens_one_set(K, t, s):
        yield (
            f"[dropouts] min_survivors is {s}, but must be at least {(K + t - 1) // 2 + 2} with method = "
            f'"double-masks", {K} parties and {t} colluders: with fewer, two sets of parties could be opened at once; '
            'raise min_survivors, lower colluders, or set method = "retries"'
        )
    patience, deadline, slot = section.patience_seconds, rules.deadline_seconds, rules.slot_seconds
    if patience > deadline / 2:
        yield (
            f"[dropouts] patience_seconds is {patience:g}, but must be at most half of [study] deadline_seconds, which "
            f"is {deadline:g}: after that others end the run"
        )
    if slot is not None and patience <= slot:
        yield (
            f"[dropouts] patience_seconds is {patience:g}, but must be more than [study] slot_seconds, which is "
            f"{slot:g}: no contribution leaves before its slot"
        )
    seen = f"retries = {section.retries}" if section.method == "retries" else f'method = "{section.method}"'
    if privacy.calibration == "paper":
        why = "and the same noise on two sums hides neither"
        if section.method == "double-masks":
            why = "and a sum without a party has less of it than the paper counts"
        yield (
            f'[dropouts] has {seen}, but [privacy] calibration is "paper", where noise is drawn once for a run, {why}; '
            'set calibration = "proven", or remove [dropouts]'
        )
    if crypto.sum != "masks":
        yield (
            f'[dropouts] has {seen}, but [crypto] sum is "{crypto.sum}", where the sum needs '
            'every party to the end; set sum = "masks", or remove [dropouts]'
        )


def _opens_one_set(K: int, t: int, s: int) -> bool:
    from masquerade_core.thresholds import thresholds

    return thresholds(K, t, K - s) is not None


def _method_problems(section: Dropouts) -> Iterator[str]:
    if section.method == "retries" and section.retries is None:
        yield (
            "[dropouts] retries is missing: it says how many sums may be made again; set retries = 1 or more, or "
            'method = "double-masks", which makes none again'
        )
    if section.method == "double-masks" and section.retries is not None:
        yield (
            f'[dropouts] has retries = {section.retries}, but method is "double-masks", which makes no sum again; '
            'remove retries, or set method = "retries"'
        )

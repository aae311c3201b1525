"""The tables of a study's file, each with what it may hold."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from masquerade_core.identity import CHARLIE, PublicKeysField
from masquerade_core.study.columns import Section
from masquerade_core.words import DELTA

__all__ = [
    "CHARLIE",
    "THRESHOLD_RULES",
    "AuxiliaryFile",
    "Crypto",
    "Curator",
    "EvaluationSection",
    "Model",
    "OutOfBounds",
    "Party",
    "Precision",
    "Privacy",
    "StudySection",
    "threshold_rule",
]

_Name = Annotated[str, Field(pattern=r"\A[a-z0-9][a-z0-9-]{0,31}\z")]

OutOfBounds = Literal["refuse", "clamp"]
"""The treatment of cells that do not fit the study's public bounds and levels."""

Precision = Literal["float64", "float32"]
"""How a record's coordinates are stored."""


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
    precision: Precision | None = Field(
        default=None,
        description='"float32" stores coordinates in half the memory, with 7 digits; "float64", with 16, if left out',
    )
    expected_records: int | None = Field(
        default=None, ge=1, description="how many records all parties together are expected to have; public"
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

"""The study that a fit simulates, from an estimator's settings and the public shape of the records."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade.draft import Draft, throwaway_key
from masquerade.estimators.warned import InvalidInput
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.study import AuxiliaryFile, Feature, Label, Study

__all__ = [
    "AUXILIARY_FILE",
    "AgainstNoise",
    "Penalty",
    "Public",
    "Shape",
    "beside_noise",
    "draft_of",
    "next_to_none",
    "parsed",
    "write_new",
]

AUXILIARY_FILE = "auxiliary.csv"
"""The name of the file of auxiliary records, beside the study's."""

_SETTINGS = (
    "epsilon",
    "delta",
    "calibration",
    "colluders",
    "regularization",
    "loss",
    "intercept",
    "out_of_bounds",
    "expected_records",
)
_REALS = ("epsilon", "delta", "regularization")
_FINITE = {
    "epsilon": "for a model without noise use Pooled, and leave epsilon out",
    "delta": "choose another one, or leave it out",
    "regularization": "choose another one, or leave it out",
}


@dataclass(frozen=True)
class Public:
    """Public records without labels.

    Parameters
    ----------
    named : AuxiliaryFile
        What the study says of them.
    text : str
        Their file's.
    records : Auxiliary
    """

    named: AuxiliaryFile
    text: str
    records: Auxiliary


@dataclass(frozen=True)
class Shape:
    """The study's description of the records: all of it is public between machines.

    Parameters
    ----------
    features : tuple of Feature
    label : Label
    parties : tuple of str
        The roster.
    fewest : int
        The fewest records of a party.
    records : int
        The number of all records. A study does not say it: only what has no noise, and hides nothing, makes use of it.
    auxiliary : AuxiliaryFile or None
        Public records without labels, where the protocol learns from them.
    """

    features: tuple[Feature, ...]
    label: Label
    parties: tuple[str, ...]
    fewest: int
    records: int
    auxiliary: AuxiliaryFile | None = None


Penalty = Callable[..., float]
"""(shape, epsilon, *, intercept) -> Lambda, from public numbers where there is noise."""


def next_to_none(shape: Shape, epsilon: float, *, intercept: bool) -> float:
    """Return 0.02/n, for n records and no noise: about the penalty of scikit-learn's LogisticRegression.

    Its C = 1 means Lambda = 1/n on columns of variance 1. Those of a study lie between -1 and 1, and a record's vector
    is at most 1 long. So the same model has weights there that are some seven times as long.
    """
    del epsilon, intercept
    return 0.02 / shape.records


def beside_noise(shape: Shape, epsilon: float, *, intercept: bool) -> float:
    """Return 1e-4, which ``dp-gd`` has as well: for noise that does not depend on Lambda."""
    del shape, epsilon, intercept
    return 1e-4


@dataclass(frozen=True)
class AgainstNoise:
    """Lambda = factor sqrt(d)/(N epsilon): for noise on the weights with a length like sqrt(d)/(N epsilon Lambda).

    The rule keeps that length the same, whatever the study. All numbers are public: d coordinates, and for N the fewest
    records that all parties may have together.

    Parameters
    ----------
    factor : float
        Chosen by hand, once, on three public data sets.
    """

    factor: float

    def __call__(self, shape: Shape, epsilon: float, *, intercept: bool) -> float:
        """Return Lambda, at most 1."""
        d = sum(len(feature.coordinates) for feature in shape.features) + intercept
        return min(1.0, self.factor * math.sqrt(d) / (len(shape.parties) * shape.fewest * epsilon))


def draft_of(
    protocol: str,
    settings: Mapping[str, Any],
    section: Mapping[str, Any],
    shape: Shape,
    penalty: Penalty | None = None,
) -> Draft:
    """Return the draft of a study, with keys that nobody holds.

    Parameters
    ----------
    protocol : str
    settings : mapping
        An estimator's parameters, by name.
    section : mapping
        Those that stand in ``[protocol]``; None where the protocol's own default is meant.
    shape : Shape
    penalty : Penalty, optional
        How Lambda follows where the settings have none; otherwise it is that of a new study.

    Raises
    ------
    InvalidInput
        A setting is not of its type.
    """
    values = {key: _plain(settings[key]) for key in _SETTINGS}
    for key in _REALS:
        if values[key] is not None and (
            isinstance(values[key], bool | str) or not isinstance(values[key], float | int)
        ):
            raise InvalidInput(f"{key} is {values[key]!r}, but must be a number")
        if values[key] is not None and not math.isfinite(values[key]):
            raise InvalidInput(f"{key} is {values[key]}, but must be a finite number; {_FINITE[key]}")
    fewest = settings["min_records"]
    if values["regularization"] is None and penalty is not None and values["epsilon"] > 0:
        values["regularization"] = penalty(shape, values["epsilon"], intercept=bool(values["intercept"]))
    return Draft(
        name="simulated-fit",
        protocol=protocol,
        parties=[(name, throwaway_key()) for name in shape.parties],
        curator_key=throwaway_key(),
        features=shape.features,
        label=shape.label,
        auxiliary=shape.auxiliary,
        min_records=shape.fewest if fewest is None else _plain(fewest),
        parameters={key: _plain(value) for key, value in section.items() if value is not None},
        sum="paillier" if "key_bits" in settings else "masks",
        key_bits=_plain(settings.get("key_bits")),
        **values,
    )


def _plain(value: Any) -> Any:
    """Return a number of numpy's as one of Python's, which a study's file can hold."""
    return value.item() if hasattr(value, "item") else value


def parsed(text: str) -> Study:
    """Read the study of a fit."""
    return Study.parse(text, "the estimator's study", in_memory=True)


def write_new(path: Path, text: str) -> None:
    """Write a file that must not exist; InvalidInput where it does, or cannot be written."""
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}; choose another file") from None

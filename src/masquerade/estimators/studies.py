"""The study that a fit simulates, from an estimator's settings and the public shape of the records."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade.draft import Draft, throwaway_key
from masquerade.estimators.warned import InvalidInput
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.study import AuxiliaryFile, Feature, Label, Study

__all__ = ["AUXILIARY_FILE", "Public", "Shape", "draft_of", "parsed", "write_new"]

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
    auxiliary : AuxiliaryFile or None
        Public records without labels, where the protocol learns from them.
    """

    features: tuple[Feature, ...]
    label: Label
    parties: tuple[str, ...]
    fewest: int
    auxiliary: AuxiliaryFile | None = None


def draft_of(protocol: str, settings: Mapping[str, Any], section: Mapping[str, Any], shape: Shape) -> Draft:
    """Return the draft of a study, with keys that nobody holds.

    Parameters
    ----------
    protocol : str
    settings : mapping
        An estimator's parameters, by name.
    section : mapping
        Those that stand in ``[protocol]``; None where the protocol's own default is meant.
    shape : Shape

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
    fewest = settings["min_records"]
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

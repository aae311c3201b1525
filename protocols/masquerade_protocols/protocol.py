"""What a protocol is to those who choose, check, explain and run it."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from masquerade_core.errors import BadInput
from masquerade_core.model import Model
from masquerade_core.privacy.claims import Claim
from masquerade_core.seat import Effect
from masquerade_core.study import Study

__all__ = ["Explanation", "Protocol", "check_calibration", "paragraphs"]

Role = Coroutine[Effect, Any, Model]


@dataclass(frozen=True)
class Explanation:
    """A study in a data steward's words: what leaves the machine, who must not collude, what it costs."""

    leaves: tuple[str, ...]
    collusion: tuple[str, ...]
    cost: tuple[str, ...]


@dataclass(frozen=True)
class Protocol:
    """One protocol.

    Parameters
    ----------
    name : str
        As in the study's ``protocol`` and in results.
    paper : str
        Where it comes from.
    party, charlie : callable
        The roles: (seat, study, data) and (seat, study); both also take ``auxiliary`` where that flag is set.
    parameters : type of BaseModel
        The study's ``[protocol]`` section.
    section : str
        The ``[protocol]`` section of a new study, as commented TOML.
    stages : tuple of str
        The stages that the roles announce, in order.
    check : callable
        Raises BadInput for a study that this protocol cannot carry out.
    statement : callable
        The privacy statement that follows from the study.
    explain : callable
        The study in plain words.
    calibrations : tuple of str
        How its noise may follow from the wish; that of a new study first.
    proven_section : str
        ``section`` of a new study with ``calibration = "proven"``, where it is another.
    multiclass : bool
        Whether it can tell more classes than two apart.
    alone : bool
        Whether a party can run it without others, at the in-memory table.
    classifiers : bool
        Whether a party may bring a classifier of its own; the party's role then takes one as ``classifier``.
    auxiliary : bool
        Whether it learns from the study's auxiliary records; both roles then take them as ``auxiliary``.
    regularization_note : str
        What a larger Lambda does to the noise and to the model: a clause for the comment in a new study's file.
    """

    name: str
    paper: str
    party: Callable[..., Role]
    charlie: Callable[..., Role]
    parameters: type[BaseModel]
    section: str
    stages: tuple[str, ...]
    check: Callable[[Study], object]
    statement: Callable[[Study], tuple[Claim, ...]]
    explain: Callable[[Study], Explanation]
    calibrations: tuple[str, ...] = ("paper",)
    proven_section: str = ""
    multiclass: bool = False
    alone: bool = False
    classifiers: bool = False
    auxiliary: bool = False
    regularization_note: str = "the larger, the simpler the model"


def paragraphs(text: str, words: Mapping[str, object]) -> tuple[str, ...]:
    """Return a text's paragraphs, each in one line, with ``words`` put in."""
    return tuple(" ".join(p.split()).format(**words) for p in text.strip().split("\n\n"))


def check_calibration(study: Study, calibrations: Sequence[str]) -> None:
    """Refuse a study whose calibration its protocol or baseline does not have.

    Raises
    ------
    BadInput
        It is none of ``calibrations``.
    """
    if study.privacy.calibration not in calibrations:
        raise BadInput(
            f"[privacy] calibration is {study.privacy.calibration!r}, but {study.study.protocol} has only "
            f"{', '.join(map(repr, calibrations))}",
            f"set calibration = {calibrations[0]!r}".replace("'", '"'),
        )

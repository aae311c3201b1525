"""Auxiliary records: public records without labels. The study holds their hash, so every participant has the same."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade_core.bounded import opened
from masquerade_core.data.loading import load_records
from masquerade_core.data.schema import Encoder, check_rows
from masquerade_core.errors import BadInput
from masquerade_core.study import AuxiliaryFile, Study, check_section
from masquerade_core.words import counted

__all__ = ["Auxiliary", "check_auxiliary", "load_auxiliary"]

_MOST_RECORDS = 1 << 30


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """Public records.

    Parameters
    ----------
    X : ndarray of float64, shape (N, d)
        Encoded records, each with ||x||_2 <= 1.
    digest : bytes
        SHA-256 of the file that the records come from; of the array, if they come from no file.

    Raises
    ------
    LocalProtocolError
        The array is no matrix of such records.
    """

    X: NDArray[np.float64]
    digest: bytes

    def __post_init__(self) -> None:
        """Check that all records have norm at most 1, which every privacy bound needs, and freeze the array."""
        check_rows(self.X)
        self.X.setflags(write=False)

    @classmethod
    def from_unit_ball(cls, X: ArrayLike) -> Self:
        """Copy records that are already encoded and clipped to length 1."""
        copy = np.array(X, dtype=np.float64, order="C")
        head = b"masquerade auxiliary" + b"".join(size.to_bytes(8, "big") for size in copy.shape)
        return cls(copy, hashlib.sha256(head + copy.astype("<f8").tobytes()).digest())


def check_auxiliary(study: Study, auxiliary: Auxiliary | None) -> None:
    """Check that auxiliary records are those that a study's ``[protocol.auxiliary]`` names.

    Parameters
    ----------
    study : Study
    auxiliary : Auxiliary or None
        None where there are none.

    Raises
    ------
    BadInput
        The study names records and these are others, or none; or it names none and there are some.
    """
    named = study.protocol.get("auxiliary")
    if named is None:
        if auxiliary is not None:
            raise BadInput(
                f"{study.study.protocol} has no auxiliary records in this study, but some were given", "leave them out"
            )
        return
    check_section(AuxiliaryFile, named, "protocol.auxiliary")
    wanted = AuxiliaryFile.model_validate(named)
    if auxiliary is None:
        raise BadInput(
            f"the study's auxiliary records were not given: [protocol.auxiliary] names the file {wanted.file}, with "
            f"{counted(wanted.records, 'record')}",
            "load the study with masquerade.load_study, which reads the file beside it, and pass on both that it "
            "returns",
        )
    _check_digest(auxiliary.digest, wanted)
    if auxiliary.X.shape != (wanted.records, study.d):
        raise BadInput(
            f"there are {len(auxiliary.X)} auxiliary records of {auxiliary.X.shape[1]} coordinates; the study names "
            f"{wanted.records} records of {study.d} coordinates",
            "correct the number of records in [protocol.auxiliary]",
        )


def _check_digest(digest: bytes, wanted: AuxiliaryFile) -> None:
    if digest.hex() != wanted.sha256:
        raise BadInput(
            f"the auxiliary records' sha256 is {digest.hex()}, but the study's is {wanted.sha256}",
            "all participants need the same file; ask the coordinator for it",
        )


def load_auxiliary(study: Study, folder: Path, *, links: bool = True) -> Auxiliary:
    """Read the auxiliary records that a study names, from a folder.

    Raises
    ------
    BadInput
        The file is missing, unreadable or not the one that the study names.
    """
    named = study.protocol["auxiliary"]
    check_section(AuxiliaryFile, named, "protocol.auxiliary")
    wanted = AuxiliaryFile.model_validate(named)
    file = folder / wanted.file
    hint = "put the file that the study's [protocol.auxiliary] names beside the study"
    with opened(file, _MOST_RECORDS, "file of auxiliary records", hint, links=links) as content:
        digest = hashlib.file_digest(content, "sha256").digest()
    _check_digest(digest, wanted)  # before anything of it is parsed
    auxiliary = Auxiliary(load_records(file, Encoder.from_study(study)), digest)
    check_auxiliary(study, auxiliary)
    return auxiliary

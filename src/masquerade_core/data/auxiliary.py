"""Auxiliary records: public, without labels, the same at every participant because the study holds their hash."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from masquerade_core.data.loading import load_records
from masquerade_core.data.schema import Encoder, check_unit_ball
from masquerade_core.errors import BadInput
from masquerade_core.study import AuxiliaryFile, Study, check_section

__all__ = ["Auxiliary", "load_study"]


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """Public records.

    Parameters
    ----------
    X : ndarray of float64, shape (N, d)
        Encoded records, each with ||x||_2 <= 1.
    digest : bytes
        SHA-256 of the file that they come from; of the array, for records that come from none.

    Raises
    ------
    LocalProtocolError
        The array is not such.
    """

    X: NDArray[np.float64]
    digest: bytes

    def __post_init__(self) -> None:
        """Check what every privacy bound rests on, and freeze the array."""
        check_unit_ball(self.X)
        self.X.setflags(write=False)

    @classmethod
    def from_unit_ball(cls, X: ArrayLike) -> Self:
        """Take records that are encoded and clipped already; the array is copied."""
        copy = np.array(X, dtype=np.float64, order="C")
        head = b"masquerade auxiliary" + b"".join(size.to_bytes(8, "big") for size in copy.shape)
        return cls(copy, hashlib.sha256(head + copy.astype("<f8").tobytes()).digest())


def load_study(path: Path | str, *, in_memory: bool = False) -> Study:
    """Read a study, and the auxiliary records beside it where it names any.

    Raises
    ------
    BadInput
        A file is missing, unreadable or not what it should be.
    """
    study = Study.load(path, in_memory=in_memory)
    named = study.protocol.get("auxiliary")
    if named is None:
        return study
    check_section(AuxiliaryFile, named, "protocol.auxiliary")
    file = Path(path).parent / AuxiliaryFile.model_validate(named).file
    try:
        digest = hashlib.sha256(file.read_bytes()).digest()
    except FileNotFoundError:
        raise BadInput(
            f"there is no file {file}, which the study's [protocol.auxiliary] names", "put it beside the study"
        ) from None
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from error
    return study.with_auxiliary(Auxiliary(load_records(file, Encoder.from_study(study)), digest))

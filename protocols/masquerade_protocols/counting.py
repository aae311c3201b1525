"""How many records everybody has together: the first secure sum of a descent.

Slots, grids and steps follow from the number that is opened, so everybody refuses one that there cannot be. Charlie can
add what he likes to the total before the lead opens it. Had he made it 0, iterates would be infinite, and who then
fails to send a gradient would tell of its records; had he made it small, slots would be too narrow for one party's sum.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.packing import Packing
from masquerade_core.errors import RunFailed
from masquerade_core.study import Study

__all__ = ["check_count", "count_layout", "fingerprint"]

_RECORDS_BITS = 32  # of a party's n_j


def count_layout(study: Study) -> Packing:
    """Lay out the sum of sizes."""
    return Packing(1, study.K << _RECORDS_BITS, study.crypto.key_bits)


def check_count(study: Study, own: int, n: int) -> None:
    """Refuse a number of all records that there cannot be.

    Parameters
    ----------
    study : Study
    own : int
        A party's own records, at least 1; 1 for Charlie, who has none.
    n : int
        What was opened.

    Raises
    ------
    RunFailed
        It is less than ``own`` with a record for each other party, or more than K times ``max_records``.
    """
    if not own + study.K - 1 <= n <= study.K * study.max_records:
        raise RunFailed(
            "the number of all records, as it was opened, is none that there can be",
            "start a new run; who changed it cannot be seen from the sum alone",
        )


def fingerprint(n: int, w: NDArray[np.float64] | None = None) -> bytes:
    """Return what binds a round's masks to n, and to the iterate: who was told others ends the run, and sends nothing.

    Parameters
    ----------
    n : int
        Records of everybody.
    w : ndarray, optional
        The iterate.
    """
    # Little-endian everywhere: the machine's own order would give participants different hashes, and end every run.
    iterate = b"" if w is None else w.astype("<f8").tobytes()
    return hashlib.sha256(n.to_bytes(16, "big") + iterate).digest()

"""How every descent begins, and the checks that all descents share.

First a secure sum tells everybody N, the number of all records. Slots, grids and steps follow from N, so everybody
refuses an N that cannot be right. This matters because Charlie can add any number to the total before the lead opens
it. An N of 0 would make iterates infinite. Whether a party then still sends a gradient would tell of its records. A
small N would make slots too narrow for one party's sum.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.packing import Packing
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.learning.losses import loss_of
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.secure_sum import CharlieSums, PartySums, relay_key, set_up

__all__ = [
    "TAIL_BITS",
    "check_count",
    "check_steps",
    "count_layout",
    "fingerprint",
    "join_and_count",
    "relay_and_count",
]

TAIL_BITS = 128
"""The noise of a whole run, where a proof sizes it, goes beyond its slots with a chance of 2^-TAIL_BITS at most."""

_RECORDS_BITS = 32  # of a party's n_j
_DIVERGES = 2.0  # a step times the largest curvature


def count_layout(study: Study) -> Packing:
    """Lay out the sum of sizes."""
    return Packing(1, study.K << _RECORDS_BITS, study.crypto.key_bits)


def check_count(study: Study, own: int, n: int) -> None:
    """Refuse a number of all records that cannot be right.

    Parameters
    ----------
    study : Study
    own : int
        This party's own records, at least 1; 1 for Charlie, who has none.
    n : int
        The opened number.

    Raises
    ------
    RunFailed
        The number leaves less than one record for each other party, or is more than K times ``max_records``.
    """
    if not own + study.K - 1 <= n <= study.K * study.max_records:
        raise RunFailed(
            "the opened number of all records cannot be right: it is less than this participant's own records with one "
            "record of each other party, or more than all parties together may have",
            "start a new run; the sum alone does not show who changed it",
        )


async def join_and_count(seat: Seat, study: Study, data: Dataset) -> tuple[PartySums, int]:
    """Begin a descent as a party: join, set up the secure sums and contribute n_j; returns the sums and N."""
    await seat.join()
    await seat.stage("keys")
    sums = await set_up(seat, study)
    await sums.precompute(1)
    (N,) = await sums.open_sum(count_layout(study), [len(data.y)], b"N")
    check_count(study, len(data.y), N)
    return sums, N


async def relay_and_count(seat: Seat, study: Study) -> tuple[CharlieSums, int]:
    """Begin a descent as Charlie: join, relay the lead's key and open N; returns the sums and N."""
    await seat.join()
    await seat.stage("keys")
    sums = await relay_key(seat, study)
    (N,) = await sums.open_sum(count_layout(study))
    check_count(study, 1, N)
    return sums, N


def fingerprint(n: int, w: NDArray[np.float64] | None = None) -> bytes:
    """Return the hash that binds a round's masks to n and to the iterate.

    If a party was told another n or another iterate, the masks do not cancel, and the run ends.

    Parameters
    ----------
    n : int
        The number of all records.
    w : ndarray, optional
        The iterate.
    """
    doubles = b"" if w is None else w.astype("<f8").tobytes()
    return hashlib.sha256(n.to_bytes(16, "big") + doubles).digest()


def check_steps(study: Study, learning_rate: float, hint: str = "choose a smaller learning_rate") -> None:
    """Refuse steps that diverge.

    Parameters
    ----------
    study : Study
        Its loss and its Lambda, the weight of the penalty on the model's weights, give the objective's largest
        curvature.
    learning_rate : float
        The longest step.
    hint : str
        What the study's author can do.

    Raises
    ------
    BadInput
        The step times that curvature is 2 or more.
    """
    curvature = float(loss_of(study.model.loss).c) + study.model.regularization
    if not learning_rate * curvature < _DIVERGES:
        raise BadInput(
            f"[protocol] learning_rate is {learning_rate:g}, but steps of {_DIVERGES / curvature:.4g} or more "
            f"diverge: a step times the objective's largest curvature, {curvature:.4g}, must be less than 2",
            hint,
        )

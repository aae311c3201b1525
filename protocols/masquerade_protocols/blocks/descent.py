"""How every descent begins, and the checks that all descents share.

First a secure sum tells everybody N, the number of all records. N carries no noise. Two such sums over different
parties would show what is between them, so this one has all K parties in every attempt, or the attempt ends.

Slots, grids and steps follow from N, so everybody refuses an N that cannot be right. This matters because a party can
claim any number, and Charlie with a party's help can change the total. An N of 0 would make iterates infinite. Whether
a party then still sends a gradient would tell of its records.

What can be right follows from public limits alone: K ``min_records``, and the sum of the parties' ``max_records``. So
all participants answer alike. If a party compared N with its own size, Charlie could learn that size from a few runs
that he spoils: he shifts N, and sees whether this party goes on. Between the limits an N may still be false, and too
small for one party's sum. Then slots are too narrow, and that party goes on all the same
(:mod:`masquerade_core.crypto.packing`). The model is spoilt, and nothing else is told.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from masquerade_core.crypto.masks import as_integers
from masquerade_core.data.records import (
    Records,
    fewest_held_back,
    fewest_to_learn_from,
    most_held_back,
    most_to_learn_from,
)
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.privacy.numbers import as_fraction
from masquerade_core.seat import Seat
from masquerade_core.study import Study
from masquerade_protocols.blocks.layouts import Layout, layout_of
from masquerade_protocols.blocks.secure_sum import CharlieSums, PartySums, set_up, set_up_charlie

__all__ = [
    "TAIL_BITS",
    "check_count",
    "check_held_back",
    "check_steps",
    "count_layout",
    "descent_lengths",
    "fingerprint",
    "join_and_count",
    "relay_and_count",
]

TAIL_BITS = 128
"""The noise of a whole run, where a proof sizes it, goes beyond its slots with a chance of 2^-TAIL_BITS at most."""

_RECORDS_BITS = 32  # of a party's n_j
_DIVERGES = 2.0  # a step times the largest curvature


def count_layout(study: Study) -> Layout:
    """Lay out the sum of sizes: one number, or two where records are held back for an evaluation."""
    return layout_of(study, 1 if study.evaluation is None else 2, study.K << _RECORDS_BITS)


def descent_lengths(study: Study) -> set[int]:
    """Return how many numbers the sums of a descent have: sizes, and gradients or classifiers."""
    return {count_layout(study).length, study.d}


def check_count(study: Study, n: int) -> None:
    """Refuse a number of all records that cannot be right, by public limits alone.

    Parameters
    ----------
    study : Study
        With ``[evaluation]``, the number is that of the records to learn from.
    n : int
        The opened number.

    Raises
    ------
    RunFailed
        The number is less than all parties have at least, or more than they may have.
    """
    if not fewest_to_learn_from(study) <= n <= most_to_learn_from(study):
        raise RunFailed(
            "the opened number of all records cannot be right: it is less than min_records for each party, or more "
            "than all parties together may have",
            "start a new run; the sum alone does not show who changed it",
        )


def check_held_back(study: Study, n: int, held: int) -> int:
    """Return the opened number of records held back, after a check that it can be, by public numbers alone.

    Of a party's m records, floor(share m) are held back. So all of them together are less than K below their share.

    Parameters
    ----------
    study : Study
    n : int
        The opened number of the records that are learned from.
    held : int
        The opened number of those held back.

    Raises
    ------
    RunFailed
        The two numbers do not fit together, or the second is out of its public limits.
    """
    share = as_fraction(study.evaluation.share) if study.evaluation is not None else 0
    together = share * (n + held)
    if not max(fewest_held_back(study), together - study.K) <= held <= min(most_held_back(study), together):
        raise RunFailed(
            "the opened number of records held back cannot be right: it is not the study's share of all records, or "
            "it is outside the limits that follow from min_records and max_records",
            "start a new run; the sum alone does not show who changed it",
        )
    return held


async def join_and_count(seat: Seat, study: Study, data: Records, held: Records | None = None) -> tuple[PartySums, int]:
    """Begin a descent as a party: join, set up the secure sums and contribute n_j; returns the sums and N.

    Where records are ``held`` back for an evaluation, their number is opened too; it is ``held_back`` of the sums.
    """
    await seat.join()
    await seat.stage("keys")
    sums = await set_up(seat, study)
    await sums.precompute([count_layout(study)])
    own = [side.n for side in (data, held) if side is not None]
    N, *more = as_integers(await sums.open_sum(count_layout(study), own, b"N"))
    check_count(study, N)
    if more:
        sums.held_back = check_held_back(study, N, more[0])
    return sums, N


async def relay_and_count(seat: Seat, study: Study) -> tuple[CharlieSums, int]:
    """Begin a descent as Charlie: join, relay the lead's key and open N; returns the sums and N."""
    await seat.join()
    await seat.stage("keys")
    sums = await set_up_charlie(seat, study)
    N, *more = as_integers(await sums.open_sum(count_layout(study)))
    check_count(study, N)
    if more:
        sums.held_back = check_held_back(study, N, more[0])
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
    from masquerade_core.learning.losses import loss_of

    curvature = float(loss_of(study.model.loss).c) + study.model.regularization
    if not learning_rate * curvature < _DIVERGES:
        raise BadInput(
            f"[protocol] learning_rate is {learning_rate:g}, but steps of {_DIVERGES / curvature:.4g} or more "
            f"diverge: a step times the objective's largest curvature, {curvature:.4g}, must be less than 2",
            hint,
        )

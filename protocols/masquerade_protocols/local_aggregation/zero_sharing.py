"""A sharing of zero: every participant holds a number, and all of them add up to 0."""

from collections.abc import Sequence

from masquerade_core.crypto.shares import mask
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE

__all__ = ["zero_share"]


def zero_share(seat: Seat, participants: Sequence[str], bound_to: bytes, modulus: int, count: int) -> tuple[int, ...]:
    """Return this participant's share of zero: all participants' shares add up to 0 modulo ``modulus``.

    Each pair expands its common key; the earlier in ``participants`` adds, the later subtracts. Whoever lacks a
    pair's key, Charlie and the lead together included, learns of the honest participants' masked values nothing but
    their sum.

    Parameters
    ----------
    seat : Seat
    participants : sequence of str
        All of them, in the same order everywhere.
    bound_to : bytes
        What two parties' masks are bound to besides the run, a toss that Charlie cannot choose; a label serves once.
    modulus, count : int
        ``count`` values modulo ``modulus``.
    """
    total = [0] * count
    own = participants.index(seat.me)
    for i, peer in enumerate(participants):
        if peer == seat.me:
            continue
        secret_from_charlie = CHARLIE not in (peer, seat.me)
        key = seat.shared_key(peer, b"zero" + (bound_to if secret_from_charlie else b""))
        for at, value in enumerate(mask(key, b"zero share", modulus, count)):
            total[at] += value if own < i else -value
    return tuple(value % modulus for value in total)

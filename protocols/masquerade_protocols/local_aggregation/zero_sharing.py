"""A sharing of zero: every participant holds numbers that look random, and all of them add up to 0."""

from collections.abc import Sequence

from masquerade_core.crypto.shares import mask
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE

__all__ = ["zero_share"]


def zero_share(seat: Seat, participants: Sequence[str], bound_to: bytes, modulus: int, count: int) -> tuple[int, ...]:
    """Return this participant's share of zero: all participants' shares add up to 0 modulo ``modulus``.

    Each pair of participants expands its common key. The earlier of the two in ``participants`` adds the result, the
    later subtracts it. So anyone who lacks the honest participants' common keys learns only the sum of their values.
    That holds for Charlie and the lead together, too.

    Parameters
    ----------
    seat : Seat
    participants : sequence of str
        All of them, in the same order everywhere.
    bound_to : bytes
        The coin toss's result, which Charlie cannot choose. The masks of two parties depend on it, and on the run. One
        result serves for one sharing.
    modulus, count : int
        ``count`` values modulo ``modulus``.
    """
    total = [0] * count
    own = participants.index(seat.me)
    for i, peer in enumerate(participants):
        if peer == seat.me:
            continue
        secret_from_charlie = CHARLIE not in (peer, seat.me)
        key = seat.pair_key(peer, "shares of zero", context=bound_to if secret_from_charlie else b"")
        for at, value in enumerate(mask(key, b"zero share", modulus, count)):
            total[at] += value if own < i else -value
    return tuple(value % modulus for value in total)

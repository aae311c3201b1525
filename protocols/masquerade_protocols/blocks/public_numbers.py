"""Numbers that everybody goes on from: Charlie computes them, rounds them to a grid and sends them; each party checks.

Eigenvectors come out with other last bits on other machines, and so does every number that follows from them. A number
on which the next contributions or the model depend must be the same everywhere. So Charlie's counts, and the masks of
all later sums are bound to its bytes. A party computes the same numbers for itself, and accepts his within a tolerance.

Privacy does not depend on this: whatever the numbers are, each party cuts each of its records by itself. A wrong number
could only harm the model.
"""

import hashlib
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from masquerade_core.errors import ProtocolViolation
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_core.wire.messages import Broadcast

__all__ = ["TOLERANCE", "Agreement", "PublicNumbers", "rounded"]

_BITS = 32  # of a fraction
_LARGEST = 2.0**30  # of a number, so that it fits into 63 bits
_PIECE = 1 << 18  # numbers in a message

TOLERANCE = 2.0**-20
"""How far Charlie's numbers may lie from a party's own, beside the largest of them, or beside 1 if that is larger."""

_Floats = NDArray[np.float64]


class PublicNumbers(Broadcast):
    """Charlie to all: numbers in units of 2^-32, 8 bytes each, the lowest byte first; ``step`` counts such messages."""

    step: Annotated[int, Field(ge=0, lt=2**32)]
    values: bytes


def rounded(numbers: _Floats) -> bytes:
    """Return numbers as integers in units of 2^-32; those beyond +-2^30 become +-2^30."""
    return np.rint(np.clip(numbers, -_LARGEST, _LARGEST) * 2.0**_BITS).astype("<i8").tobytes()


def _read(values: bytes, length: int) -> _Floats:
    if len(values) != 8 * length:
        raise ProtocolViolation(
            f"charlie sent {len(values)} bytes of public numbers; {8 * length} are due", peer=CHARLIE
        )
    integers = np.frombuffer(values, dtype="<i8")
    limit = int(_LARGEST * 2.0**_BITS)
    if not ((integers >= -limit) & (integers <= limit)).all():
        raise ProtocolViolation("charlie sent a public number outside +-2^30", peer=CHARLIE)
    return integers.astype(np.float64) / 2.0**_BITS


class Agreement:
    """The numbers that were sent so far; :attr:`digest` binds the masks of the next sum to them.

    Parameters
    ----------
    seat : Seat
    N : int
        The number of all records.
    """

    def __init__(self, seat: Seat, N: int) -> None:
        self._seat, self._step = seat, 0
        self.digest = hashlib.sha256(b"masquerade public numbers" + N.to_bytes(16, "big")).digest()

    async def on(self, own: _Floats, *, unsure: bool = False) -> _Floats:
        """Agree on numbers; returns Charlie's.

        Parameters
        ----------
        own : ndarray
            What this participant computed.
        unsure : bool
            Whether a tiny change of what it was computed from could change it much. Then Charlie's are taken as they
            are.

        Raises
        ------
        ProtocolViolation
            Charlie's numbers are not those that follow from the opened sums.
        """
        agreed = np.concatenate(
            [await self._piece(own[start : start + _PIECE]) for start in range(0, len(own), _PIECE)]
        )
        # Written so that a number that is not finite fails as well.
        if not unsure and not np.abs(agreed - own).max() <= TOLERANCE * max(1.0, float(np.abs(own).max())):
            raise ProtocolViolation("charlie sent public numbers that do not follow from the opened sums", peer=CHARLIE)
        return agreed

    async def _piece(self, own: _Floats) -> _Floats:
        seat = self._seat
        if seat.me == CHARLIE:
            values = rounded(own)
            await seat.broadcast(PublicNumbers(step=self._step, values=values))
        else:
            message = await seat.receive(PublicNumbers, CHARLIE)
            if message.step != self._step:
                raise ProtocolViolation(
                    f"charlie sent public numbers {message.step} where {self._step} are due", peer=CHARLIE
                )
            values = message.values
        self._step += 1
        self.digest = hashlib.sha256(self.digest + values).digest()
        return _read(values, len(own))

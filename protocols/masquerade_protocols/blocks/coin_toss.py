"""A coin toss of all parties, which Charlie relays and cannot see.

Every party commits to its coins, echoes what it received, and reveals its coins::

    P_j -> all   Commitment   H(run, j, nonce_j, salt_j)                    32 bytes
    P_j -> all   Echo         H(all commitments)                            32 bytes
    P_j -> all   Reveal       nonce_j, salt_j                               64 bytes

All three travel in sealed boxes. The seed is uniform if at least one party is honest. A party that does not reveal its
coins stops the run, and the error names it: everybody waits for that party.

References
----------
Blum, "Coin flipping by telephone", CRYPTO 1981, for K parties with an echo against equivocation by the relay.
"""

import hashlib
from typing import Annotated

from pydantic import Field

from masquerade_core.errors import ProtocolViolation
from masquerade_core.seat import Seat
from masquerade_core.wire.codec import SealedMessage

__all__ = ["Commitment", "Echo", "Reveal", "coin_toss"]

_Bytes32 = Annotated[bytes, Field(min_length=32, max_length=32)]


class Commitment(SealedMessage):
    """A party's commitment to its coins: a hash that it cannot open to other coins."""

    digest: _Bytes32


class Echo(SealedMessage):
    """A party's hash of all commitments that it received."""

    digest: _Bytes32


class Reveal(SealedMessage):
    """A party's coins, which open its commitment."""

    nonce: _Bytes32
    salt: _Bytes32


def _commit(run: bytes, name: str, nonce: bytes, salt: bytes) -> bytes:
    return hashlib.sha256(b"masquerade toss\0" + run + name.encode() + b"\0" + nonce + salt).digest()


async def coin_toss(seat: Seat) -> bytes:
    """Toss a 32-byte seed that all parties know and Charlie does not.

    Raises
    ------
    ProtocolViolation
        A party revealed other coins than it had committed to; the error names it. Or two parties received different
        commitments; then nothing shows who sent different ones.
    """
    coins = await seat.once("coins", lambda rng: rng.bytes(64))
    nonce, salt = coins[:32], coins[32:]

    await seat.send_sealed(Commitment(digest=_commit(seat.run, seat.me, nonce, salt)))
    commitments = {name: c.digest for name, c in (await seat.gather(Commitment)).items()}
    commitments[seat.me] = _commit(seat.run, seat.me, nonce, salt)

    seen = hashlib.sha256(b"".join(commitments[name] for name in seat.names)).digest()
    await seat.send_sealed(Echo(digest=seen))
    for name, echo in (await seat.gather(Echo)).items():
        if echo.digest != seen:
            msg = (
                f"{name} saw different commitments in the coin toss from those that {seat.me} saw; all parties must "
                "see the same. A party or Charlie sent different ones, and nothing shows who"
            )
            raise ProtocolViolation(msg)

    await seat.send_sealed(Reveal(nonce=nonce, salt=salt))
    nonces = {seat.me: nonce}
    for name, reveal in (await seat.gather(Reveal)).items():
        if _commit(seat.run, name, reveal.nonce, reveal.salt) != commitments[name]:
            msg = f"{name} revealed other coins in the coin toss than those that it had committed to"
            raise ProtocolViolation(msg, peer=name)
        nonces[name] = reveal.nonce
    return hashlib.sha256(b"masquerade seed\0" + seat.run + b"".join(nonces[name] for name in seat.names)).digest()

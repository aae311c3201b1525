"""What participants make jointly: a coin toss that Charlie relays and cannot see, and a sharing of zero.

The toss is commit, echo, reveal::

    P_j -> all   Commitment   H(run, j, nonce_j, salt_j)                    32 bytes
    P_j -> all   Echo         H(all commitments)                            32 bytes
    P_j -> all   Reveal       nonce_j, salt_j                               64 bytes

All three travel in sealed boxes. The seed is uniform if one party is honest; whoever does not reveal is waited for by
name.

References
----------
Blum, "Coin flipping by telephone", CRYPTO 1981, for K parties with an echo against equivocation by the relay.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from masquerade_core.crypto.shares import mask
from masquerade_core.errors import ProtocolViolation
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_core.wire.messages import Whisper

__all__ = ["Commitment", "Echo", "Reveal", "toss", "zero_share"]

_Bytes32 = Annotated[bytes, Field(min_length=32, max_length=32)]


class Commitment(Whisper):
    """A party's commitment to its coins."""

    digest: _Bytes32


class Echo(Whisper):
    """What a party saw of everybody's commitments."""

    digest: _Bytes32


class Reveal(Whisper):
    """A party's coins."""

    nonce: _Bytes32
    salt: _Bytes32


def _commit(run: bytes, name: str, nonce: bytes, salt: bytes) -> bytes:
    return hashlib.sha256(b"masquerade toss\0" + run + name.encode() + b"\0" + nonce + salt).digest()


async def toss(seat: Seat) -> bytes:
    """Toss a 32-byte seed that all parties know and Charlie does not.

    Raises
    ------
    ProtocolViolation
        A party revealed other coins than it committed to (it is named), or saw other commitments than this party (it
        or Charlie equivocated).
    """
    coins = await seat.once("coins", lambda rng: rng.bytes(64))
    nonce, salt = coins[:32], coins[32:]

    await seat.whisper(Commitment(digest=_commit(seat.run, seat.me, nonce, salt)))
    commitments = {name: c.digest for name, c in (await seat.gather(Commitment)).items()}
    commitments[seat.me] = _commit(seat.run, seat.me, nonce, salt)

    seen = hashlib.sha256(b"".join(commitments[name] for name in seat.names)).digest()
    await seat.whisper(Echo(digest=seen))
    for name, echo in (await seat.gather(Echo)).items():
        if echo.digest != seen:
            msg = f"{name} saw other commitments in the coin toss than {seat.me}: a party or Charlie showed two faces"
            raise ProtocolViolation(msg)  # the echo does not tell whose

    await seat.whisper(Reveal(nonce=nonce, salt=salt))
    nonces = {seat.me: nonce}
    for name, reveal in (await seat.gather(Reveal)).items():
        if _commit(seat.run, name, reveal.nonce, reveal.salt) != commitments[name]:
            msg = f"{name} revealed other coins in the toss than it had committed to"
            raise ProtocolViolation(msg, peer=name)
        nonces[name] = reveal.nonce
    return hashlib.sha256(b"masquerade seed\0" + seat.run + b"".join(nonces[name] for name in seat.names)).digest()


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

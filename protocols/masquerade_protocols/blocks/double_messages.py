"""The messages of sums under double masks, in the order in which participants send them, and the boxes inside.

Boxes for all neighbours of a party travel in one message, one behind the other. All are equally long.
"""

from collections.abc import Sequence
from typing import Annotated

from nacl.bindings import crypto_aead_chacha20poly1305_ietf_decrypt, crypto_aead_chacha20poly1305_ietf_encrypt
from nacl.exceptions import CryptoError
from pydantic import Field

from masquerade_core.crypto.masks import tagged_hash
from masquerade_core.crypto.shamir import SHARE_BYTES
from masquerade_core.errors import ProtocolViolation
from masquerade_core.study import CHARLIE
from masquerade_core.wire.messages import Message
from masquerade_core.words import counted
from masquerade_protocols.blocks.layouts import Round

__all__ = [
    "KEY_BYTES",
    "VOUCH_BYTES",
    "Asked",
    "DealtKeys",
    "DoublyMasked",
    "HeldKeys",
    "Opening",
    "Revealed",
    "Vouched",
    "box_bytes",
    "open_box",
    "seal_box",
    "split",
    "vouch",
]

KEY_BYTES = 32
VOUCH_BYTES = 16
_TAG_BYTES = 16
_NONCE = bytes(12)  # the key of a box serves for this box alone

_Bytes32 = Annotated[bytes, Field(min_length=32, max_length=32)]


class DealtKeys(Message):
    """P_j to Charlie, once a run: its first one-time key, and for each neighbour a box with a share of its secret."""

    key: _Bytes32
    boxes: bytes


class HeldKeys(Message):
    """Charlie to P_j, once a run: its neighbours' keys, and their boxes for it."""

    keys: bytes
    boxes: bytes


class DoublyMasked(Message):
    """P_j to Charlie: words and check value under two masks, its next key, a box for each neighbour that takes part."""

    round: Round
    label: _Bytes32
    words: bytes
    check: bytes
    key: _Bytes32
    boxes: bytes


class Asked(Message):
    """Charlie to each of the committee: the set whose sum shall be opened."""

    round: Round
    members: bytes


class Vouched(Message):
    """One of the committee to Charlie: for each party of the set a proof that this one named no other set."""

    round: Round
    proofs: bytes


class Opening(Message):
    """Charlie to each of the set: the set, the proofs of a quorum of the committee, the neighbours' keys and boxes."""

    round: Round
    members: bytes
    vouching: bytes
    proofs: bytes
    keys: bytes
    boxes: bytes


class Revealed(Message):
    """P_j to Charlie: of each neighbour one share, of its own mask if it is in the set, else of its one-time key."""

    round: Round
    shares: bytes


def box_bytes(shares: int) -> int:
    """Return how long a box with so many shares is."""
    return shares * SHARE_BYTES + _TAG_BYTES


def seal_box(key: bytes, public: bytes, shares: bytes) -> bytes:
    """Seal shares for a neighbour, together with a one-time key that travels beside the box.

    Parameters
    ----------
    key : bytes
        Of this round, the two parties and this direction. It serves for this box alone.
    public : bytes
        The key, which anybody may see and nobody can change.
    shares : bytes
    """
    return bytes(crypto_aead_chacha20poly1305_ietf_encrypt(shares, public, _NONCE, key))


def open_box(key: bytes, sender: str, public: bytes, box: bytes) -> bytes:
    """Open a box that Charlie relayed as ``sender``'s of this round, with the key ``public`` beside it.

    Raises
    ------
    ProtocolViolation
        The box does not open. It bears no signature, so ``sender`` and Charlie are both suspects.
    """
    try:
        return bytes(crypto_aead_chacha20poly1305_ietf_decrypt(box, public, _NONCE, key))
    except (CryptoError, ValueError, TypeError) as error:
        raise ProtocolViolation(
            f"a box that came as {sender}'s of this round does not open: either {sender} sealed it wrongly, or "
            "Charlie, who relayed it, changed it; which of the two cannot be told",
            suspects=(sender, CHARLIE),
        ) from error


def vouch(key: bytes, label: bytes, members: bytes) -> bytes:
    """Return the proof, for one other party, that this set was named in the round of ``label``.

    ``key`` is of the two parties and this direction. So it is another proof than the other party's own.
    """
    return tagged_hash("double masks set", label, members, key=key, size=VOUCH_BYTES)


def split(raw: bytes, width: int, count: int, peer: str, what: str) -> Sequence[bytes]:
    """Take ``count`` pieces of ``width`` bytes apart that came from ``peer``.

    Raises
    ------
    ProtocolViolation
        The fault of ``peer``: another number of bytes.
    """
    if len(raw) != width * count:
        raise ProtocolViolation(
            f"{peer} sent {counted(len(raw), 'byte')} of {what}; allowed are {width * count}, {width} for each of "
            f"{count}",
            peer=peer,
        )
    return [raw[i : i + width] for i in range(0, len(raw), width)]

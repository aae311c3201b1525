"""Boxes between two participants, anonymous boxes to one, and signatures: libsodium, through PyNaCl.

A *box* is a sealed byte string that only its two key holders can make or open. Every box key lives for one run, and
its owner shows its public half once, signed, when the run begins. So a box that opens is authentic without a signature
of its own, and a key that is stolen after the run opens no box of it.
"""

import hashlib
from typing import Never

from nacl.bindings import crypto_scalarmult_base
from nacl.exceptions import BadSignatureError, CryptoError
from nacl.public import Box, PrivateKey, PublicKey
from nacl.signing import SigningKey as _SigningKey
from nacl.signing import VerifyKey

from masquerade_core.errors import ProtocolViolation
from masquerade_core.identity import CHARLIE
from masquerade_core.rng import Rng

__all__ = [
    "ANONYMOUS_OVERHEAD",
    "BOX_OVERHEAD",
    "SIGNATURE_BYTES",
    "BoxKey",
    "Secret",
    "SigningKey",
    "open_anonymous",
    "seal_anonymous",
    "verify",
]

BOX_OVERHEAD = 40  # a nonce of 24 bytes and a tag of 16
ANONYMOUS_OVERHEAD = 48  # an ephemeral key of 32 bytes and a tag of 16
SIGNATURE_BYTES = 64


class Secret:
    """Base of every secret: an object that must not be sent, printed, compared or pickled."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # a hash would be a fingerprint of the secret

    def __repr__(self) -> str:
        """Name the class and nothing else."""
        return f"<{type(self).__name__}: secret>"

    def __reduce__(self) -> Never:
        """Refuse to be pickled or copied."""
        msg = f"a {type(self).__name__} is secret and cannot be pickled"
        raise TypeError(msg)

    def __eq__(self, other: object) -> Never:
        """Refuse to be compared."""
        msg = f"a {type(self).__name__} is secret and cannot be compared"
        raise TypeError(msg)


class BoxKey(Secret):
    """One participant's X25519 key of one run."""

    __slots__ = ("_boxes", "_key", "public")

    def __init__(self, secret: bytes) -> None:
        self._key = PrivateKey(secret)
        self.public = bytes(self._key.public_key)
        self._boxes: dict[bytes, Box] = {}

    def _box(self, peer_key: bytes) -> Box:
        if peer_key not in self._boxes:
            self._boxes[peer_key] = Box(self._key, PublicKey(peer_key))
        return self._boxes[peer_key]

    def check(self, peer_key: bytes, peer: str) -> None:
        """Refuse a public key with which no secret can be shared: a wrong length, or a point of small order.

        Raises
        ------
        ProtocolViolation
            The fault of ``peer``, who signed this key as its own.
        """
        try:
            self._box(peer_key)
        except (CryptoError, ValueError, TypeError) as error:
            msg = f"{peer} joined with a key for sealed boxes that is not a usable X25519 public key"
            raise ProtocolViolation(msg, peer=peer) from error

    def seal(self, peer_key: bytes, plain: bytes, nonce: bytes) -> bytes:
        """Seal ``plain`` for the holder of ``peer_key``.

        Parameters
        ----------
        peer_key : bytes
            The recipient's public key.
        plain : bytes
            What to seal; the box is ``BOX_OVERHEAD`` bytes longer.
        nonce : bytes
            24 fresh random bytes.
        """
        return bytes(self._box(peer_key).encrypt(plain, nonce))

    def open(self, peer_key: bytes, sealed: bytes, peer: str) -> bytes:
        """Open a box that Charlie relayed as ``peer``'s.

        Raises
        ------
        ProtocolViolation
            The key is not usable, which is the fault of ``peer``. Or the box does not open: a box bears no signature,
            so either ``peer`` sealed it wrongly or Charlie changed it. Then both are suspects.
        """
        self.check(peer_key, peer)
        try:
            return bytes(self._box(peer_key).decrypt(sealed))
        except (CryptoError, ValueError, TypeError) as error:
            msg = (
                f"a box that came as {peer}'s does not open: either {peer} sealed it wrongly, or Charlie, who relayed "
                "it, changed it; which of the two cannot be told"
            )
            raise ProtocolViolation(msg, suspects=(peer, CHARLIE)) from error

    def shared_key(self, peer_key: bytes, label: bytes) -> bytes:
        """Derive a 32-byte key that only the two participants know; both derive the same one."""
        shared = self._box(peer_key).shared_key()
        return hashlib.blake2b(label, key=shared, digest_size=32, person=b"masq pair key").digest()

    def decrypt_anonymous(self, sealed: bytes) -> bytes:
        """Open a box that :func:`seal_anonymous` made for this key; libsodium's errors pass through."""
        ephemeral = sealed[:32]
        nonce = _anonymous_nonce(ephemeral, self.public)
        return bytes(Box(self._key, PublicKey(ephemeral)).decrypt(sealed[32:], nonce))


def _anonymous_nonce(ephemeral: bytes, public: bytes) -> bytes:
    return hashlib.blake2b(ephemeral + public, digest_size=24).digest()


def seal_anonymous(rng: Rng, public: bytes, data: bytes) -> bytes:
    """Seal ``data`` for the holder of ``public`` in libsodium's ``crypto_box_seal`` format.

    The ephemeral key comes from ``rng`` and not from libsodium, so that a run can be repeated from its draws.
    """
    ephemeral = PrivateKey(rng.bytes(32))
    ephemeral_public = crypto_scalarmult_base(bytes(ephemeral))
    nonce = _anonymous_nonce(ephemeral_public, public)
    return bytes(ephemeral_public + Box(ephemeral, PublicKey(public)).encrypt(data, nonce).ciphertext)


def open_anonymous(key: BoxKey, sealed: bytes) -> bytes:
    """Open an anonymous box.

    Raises
    ------
    ProtocolViolation
        The box was not sealed for this key. It bears no name, so nobody can tell whose fault that is.
    """
    try:
        return key.decrypt_anonymous(sealed)
    except (CryptoError, ValueError, TypeError) as error:
        msg = (
            "an anonymous box does not open: it was not sealed for this participant in this run. "
            "It bears no name, so nobody can tell who made it"
        )
        raise ProtocolViolation(msg) from error


class SigningKey(Secret):
    """A participant's Ed25519 identity, pinned in the study."""

    __slots__ = ("_key", "public")

    def __init__(self, seed: bytes) -> None:
        self._key = _SigningKey(seed)
        self.public = bytes(self._key.verify_key)

    def sign(self, data: bytes) -> bytes:
        """Return the 64-byte signature of ``data``."""
        return bytes(self._key.sign(data).signature)


def verify(public: bytes, data: bytes, signature: bytes) -> bool:
    """Say whether the holder of ``public`` signed exactly these bytes."""
    try:
        VerifyKey(public).verify(data, signature)
    except (BadSignatureError, ValueError, TypeError):
        return False
    return True

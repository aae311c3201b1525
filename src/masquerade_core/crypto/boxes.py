"""Boxes between two participants, anonymous boxes to one, and signatures: libsodium, through PyNaCl.

Every box key lives for one run. It is shown once, signed, at the join; so a box is authentic without a signature of its
own, and a key that is stolen later opens nothing of today.
"""

import hashlib
from typing import Never

from nacl.bindings import crypto_scalarmult_base
from nacl.exceptions import BadSignatureError, CryptoError
from nacl.public import Box, PrivateKey, PublicKey
from nacl.signing import SigningKey as _SigningKey
from nacl.signing import VerifyKey

from masquerade_core.errors import ProtocolViolation
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
    """Base of everything that must not be sent, printed, compared or pickled."""

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
        """Refuse a key with which no secret can be shared: a wrong length, a point of small order.

        Raises
        ------
        ProtocolViolation
            The fault of ``peer``, who joined with it.
        """
        try:
            self._box(peer_key)
        except (CryptoError, ValueError, TypeError) as error:
            msg = f"{peer} joined with a box key that is no key"
            raise ProtocolViolation(msg, peer=peer) from error

    def seal(self, peer_key: bytes, plain: bytes, nonce: bytes) -> bytes:
        """Box ``plain`` for ``peer_key``'s holder: ``BOX_OVERHEAD`` bytes longer; the nonce: 24 fresh random bytes."""
        return bytes(self._box(peer_key).encrypt(plain, nonce))

    def open(self, peer_key: bytes, sealed: bytes, peer: str) -> bytes:
        """Open a box from ``peer``.

        Raises
        ------
        ProtocolViolation
            The box was not made by ``peer`` for this participant in this run, or Charlie changed it on the way.
        """
        try:
            return bytes(self._box(peer_key).decrypt(sealed))
        except (CryptoError, ValueError, TypeError) as error:
            msg = f"a box that came as {peer}'s does not open: {peer} or Charlie, who relayed it, changed it"
            raise ProtocolViolation(msg, peer=peer) from error

    def shared_key(self, peer_key: bytes, label: bytes) -> bytes:
        """A 32-byte key known to the two participants alone; the same on both sides."""
        shared = self._box(peer_key).shared_key()
        return hashlib.blake2b(label, key=shared, digest_size=32, person=b"masq pair key").digest()

    def decrypt_anonymous(self, sealed: bytes) -> bytes:
        """Open a box made by :func:`seal_anonymous` for this key; raises what libsodium raises."""
        ephemeral = sealed[:32]
        nonce = _anonymous_nonce(ephemeral, self.public)
        return bytes(Box(self._key, PublicKey(ephemeral)).decrypt(sealed[32:], nonce))


def _anonymous_nonce(ephemeral: bytes, public: bytes) -> bytes:
    return hashlib.blake2b(ephemeral + public, digest_size=24).digest()


def seal_anonymous(rng: Rng, public: bytes, data: bytes) -> bytes:
    """Seal for ``public`` in libsodium's ``crypto_box_seal`` format, with the ephemeral key from the seat's ``rng``."""
    ephemeral = PrivateKey(rng.bytes(32))
    ephemeral_public = crypto_scalarmult_base(bytes(ephemeral))
    nonce = _anonymous_nonce(ephemeral_public, public)
    return bytes(ephemeral_public + Box(ephemeral, PublicKey(public)).encrypt(data, nonce).ciphertext)


def open_anonymous(key: BoxKey, sealed: bytes) -> bytes:
    """Open an anonymous box.

    Raises
    ------
    ProtocolViolation
        It was not sealed for this key. Whose fault cannot be known: the box bears no name.
    """
    try:
        return key.decrypt_anonymous(sealed)
    except (CryptoError, ValueError, TypeError) as error:
        msg = "an anonymous box does not open: it was not sealed for this participant in this run"
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
    """Say whether ``signature`` is ``public``'s over exactly these bytes."""
    try:
        VerifyKey(public).verify(data, signature)
    except (BadSignatureError, ValueError, TypeError):
        return False
    return True

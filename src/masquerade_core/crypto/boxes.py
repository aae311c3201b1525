"""Sealed boxes and signatures: libsodium, through PyNaCl.

A *box* is a sealed byte string that only one participant can make, and one can open. Its key is one that these two
share for one direction of one run (:mod:`masquerade_core.crypto.pair_keys`). So a box that opens is authentic without a
signature of its own, and a key that is stolen after the run opens no box of it.
"""

from typing import Never

from nacl.exceptions import BadSignatureError, CryptoError
from nacl.secret import SecretBox
from nacl.signing import SigningKey as _SigningKey
from nacl.signing import VerifyKey

from masquerade_core.errors import ProtocolViolation
from masquerade_core.identity import CHARLIE

__all__ = [
    "BOX_OVERHEAD",
    "SIGNATURE_BYTES",
    "Secret",
    "SigningKey",
    "open_sealed",
    "seal",
    "verify",
]

BOX_OVERHEAD = 40  # a nonce of 24 bytes and a tag of 16
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


def seal(key: bytes, plain: bytes, nonce: bytes) -> bytes:
    """Seal ``plain`` under a pair's key for one direction.

    Parameters
    ----------
    key : bytes
        32 bytes.
    plain : bytes
        What to seal; the box is ``BOX_OVERHEAD`` bytes longer.
    nonce : bytes
        24 fresh random bytes.
    """
    return bytes(SecretBox(key).encrypt(plain, nonce))


def open_sealed(key: bytes, sealed: bytes, peer: str) -> bytes:
    """Open a box that Charlie relayed as ``peer``'s.

    Raises
    ------
    ProtocolViolation
        The box does not open. It bears no signature, so either ``peer`` sealed it wrongly or Charlie changed it. Both
        are suspects.
    """
    try:
        return bytes(SecretBox(key).decrypt(sealed))
    except (CryptoError, ValueError, TypeError) as error:
        msg = (
            f"a box that came in the name of {peer} does not open: either {peer} sealed it wrongly, or Charlie, who "
            "relayed it, changed it; nobody can tell which of the two"
        )
        raise ProtocolViolation(msg, suspects=(peer, CHARLIE)) from error


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

"""A participant's identity: two public keys, written as one line that fits into an email."""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, PlainSerializer

from masquerade_core.errors import BadInput

__all__ = ["CHARLIE", "PublicKeys", "PublicKeysField"]

CHARLIE = "charlie"
"""The curator's name in every run; no party may have it."""

_KEY_BYTES = 32
_FORM = re.compile(r"mq1:([A-Za-z0-9_-]{43}):([A-Za-z0-9_-]{43})")


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass(frozen=True)
class PublicKeys:
    """A participant's public identity.

    Parameters
    ----------
    curve : bytes
        The X25519 key of its connections (ZeroMQ's CURVE), 32 bytes.
    sign : bytes
        The Ed25519 key that checks the signatures of its messages, 32 bytes.

    Raises
    ------
    BadInput
        A key does not have 32 bytes.
    """

    curve: bytes
    sign: bytes

    def __post_init__(self) -> None:
        """Check the lengths of both keys."""
        if len(self.curve) != _KEY_BYTES or len(self.sign) != _KEY_BYTES:
            raise BadInput(
                f"the halves of a public key have {len(self.curve)} and {len(self.sign)} bytes; each must have 32"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``mq1:<curve>:<sign>``, each half in unpadded base64url.

        Raises
        ------
        BadInput
            The text has another form. The error does not show it, since somebody may have pasted a secret key.
        """
        match = _FORM.fullmatch(text)
        try:
            halves = [base64.urlsafe_b64decode(half + "=") for half in match.groups()] if match else []
        except binascii.Error:
            halves = []
        if not match or [_b64(h) for h in halves] != list(match.groups()):
            raise BadInput(
                "is not a public key of the form mq1:<curve key>:<signing key>",
                "copy the whole line that 'masquerade keys show' prints",
            )
        return cls(*halves)

    def __str__(self) -> str:
        return f"mq1:{_b64(self.curve)}:{_b64(self.sign)}"

    def fingerprint(self) -> str:
        """Return eight groups of four hexadecimal digits, which two people can compare over the telephone."""
        digest = hashlib.blake2b(self.curve + self.sign, digest_size=16, person=b"masq fingerprint").hexdigest()
        return " ".join(digest[i : i + 4] for i in range(0, 32, 4))


def _read(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return PublicKeys.parse(value)
        except BadInput as error:
            raise ValueError(f"{error.message}; {error.hint}") from error
    return value


PublicKeysField = Annotated[PublicKeys, BeforeValidator(_read), PlainSerializer(str, return_type=str)]
"""A field of a study file that holds public keys, written as text."""

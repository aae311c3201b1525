"""The line that invites one site: where Charlie listens, his keys, the site's name, and a token that is used once.

Whoever reads the line can take the seat. It is no proof of anybody's identity: the code is
(:mod:`~masquerade.lobby.code`).
"""

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Self

from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys

__all__ = ["ID_BYTES", "TOKEN_BYTES", "Invitation"]

ID_BYTES = 16
TOKEN_BYTES = 16
_KEY_BYTES = 32
_END_BYTES = 5
_CHECK_BYTES = 4
_PARTS = (_KEY_BYTES, _KEY_BYTES, ID_BYTES, TOKEN_BYTES, _END_BYTES, _CHECK_BYTES)
_FORM = re.compile(r"mqj1:(?P<name>[^\s@/]{1,64})@(?P<place>[^\s/]+:[0-9]{1,5})/(?P<rest>[A-Za-z0-9_-]+)")


@dataclass(frozen=True)
class Invitation:
    """One site's invitation.

    Parameters
    ----------
    name : str
        The site's name in the study.
    address : str
        ``tcp://host:port``, where the coordinator listens.
    charlie : PublicKeys
        Charlie's.
    lobby : bytes
        Which lobby, 16 bytes.
    token : bytes
        What takes the seat, once; 16 bytes.
    ends : int
        When the invitation ends, in seconds since 1970.
    """

    name: str
    address: str
    charlie: PublicKeys
    lobby: bytes
    token: bytes
    ends: int

    def __repr__(self) -> str:
        """Show no token."""
        return f"Invitation({self.name!r}, {self.address!r})"

    def __str__(self) -> str:
        """Return the line that is sent to the site."""
        head = f"mqj1:{self.name}@{self.address.removeprefix('tcp://')}/"
        body = self.charlie.curve + self.charlie.sign + self.lobby + self.token + self.ends.to_bytes(_END_BYTES)
        return head + base64.urlsafe_b64encode(body + _check(head, body)).decode().rstrip("=")

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read a line.

        Raises
        ------
        BadInput
            It has another form, or a letter of it was lost or changed. The error does not show it, for whoever reads
            it can take the seat.
        """
        found = _FORM.fullmatch(line.strip())
        parts: list[bytes] = []
        if found is not None:
            text = found["rest"]
            try:
                data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            except binascii.Error:
                data = b""
            if len(data) == sum(_PARTS) and data[-_CHECK_BYTES:] == _check(
                line.strip()[: found.start("rest")], data[:-_CHECK_BYTES]
            ):
                for length in _PARTS:
                    parts.append(data[:length])
                    data = data[length:]
        if found is None or not parts:
            raise BadInput(
                "this is no whole invitation; it must be the line that begins with mqj1, as the coordinator sent it",
                "copy the whole line again, in quotes",
            )
        curve, sign, lobby, token, ends, _ = parts
        return cls(
            found["name"], f"tcp://{found['place']}", PublicKeys(curve, sign), lobby, token, int.from_bytes(ends)
        )

    @property
    def day(self) -> str:
        """The day on which it ends, in UTC, as 2026-12-31."""
        return datetime.fromtimestamp(self.ends, UTC).strftime("%Y-%m-%d")


def _check(head: str, body: bytes) -> bytes:
    return blake2b(head.encode() + body, digest_size=_CHECK_BYTES, person=b"masq invitation").digest()

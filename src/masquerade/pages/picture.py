"""A picture that the user gives, such as that of an audit, as a part of the page: nothing is loaded from elsewhere."""

import base64
from dataclasses import dataclass
from pathlib import Path

from masquerade_core.bounded import read_bytes
from masquerade_core.errors import BadInput

__all__ = ["Picture", "read_picture"]

_KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
_MOST = 4 << 20


@dataclass(frozen=True)
class Picture:
    """A picture as a page shows it. A browser runs no script of a picture that stands in an ``img``.

    Parameters
    ----------
    name : str
        The file's name.
    address : str
        A ``data:`` address that holds the whole picture.
    """

    name: str
    address: str


def read_picture(path: Path) -> Picture:
    """Read a picture from an SVG or PNG file.

    Raises
    ------
    BadInput
        It is no such file, cannot be read, or is too large.
    """
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise BadInput(
            f"{path} is not a picture for a page; SVG and PNG are allowed", "draw it with 'audit --plot x.svg'"
        )
    content = read_bytes(path, _MOST, "picture", "name a file that is there, and not too large")
    return Picture(path.name, f"data:{kind};base64,{base64.b64encode(content).decode()}")

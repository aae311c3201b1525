"""A participant's secret keys on disk: one small file that nobody else may read.

The file holds the secret halves of the two keys that the study shows: the CURVE key of the connections, and the seed
of the Ed25519 identity. The program makes it once, never overwrites it, and refuses it when others could read it. A
passphrase encrypts it if its owner so chooses (:mod:`masquerade_host.store.locked_keys`).
"""

import base64
import binascii
import os
import stat
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Self

from nacl.public import PrivateKey

from masquerade_core.crypto.boxes import Secret, SigningKey
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys

__all__ = ["HALVES_BYTES", "Keys", "load_keys", "text_of"]

_MAGIC = "masquerade secret keys 1"
_LOCKED_MAGIC = "masquerade secret keys 2"  # the same keys under a passphrase
_KEY_BYTES = 32
HALVES_BYTES = 2 * _KEY_BYTES
"""The length of both halves, one after the other."""

_MAX_BYTES = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Keys(Secret):
    """The secret halves of a participant's identity.

    Parameters
    ----------
    curve, seed : bytes
        The CURVE secret key and the Ed25519 seed, 32 bytes each.
    """

    __slots__ = ("curve", "public", "signing")

    def __init__(self, curve: bytes, seed: bytes) -> None:
        self.curve = curve
        self.signing = SigningKey(seed)
        self.public = PublicKeys(curve=bytes(PrivateKey(curve).public_key), sign=self.signing.public)

    @classmethod
    def of(cls, halves: bytes) -> Self:
        """Return the keys with these halves, the CURVE key first."""
        return cls(halves[:_KEY_BYTES], halves[_KEY_BYTES:])

    def key_for(self, purpose: bytes) -> bytes:
        """Return a key (32 bytes) of this participant's own files for one purpose."""
        return blake2b(purpose, digest_size=_KEY_BYTES, key=self.curve, person=b"masq own files").digest()


def text_of(halves: bytes, locked: Sequence[str] = ()) -> str:
    """Return the text of a key file: both halves, or the lines that hold them under a passphrase."""
    lines = (
        [_LOCKED_MAGIC, *locked] if locked else [_MAGIC, *(_written(halves[i:][:_KEY_BYTES]) for i in (0, _KEY_BYTES))]
    )
    return "\n".join(lines) + "\n"


def _written(half: bytes) -> str:
    return base64.b64encode(half).decode()


def load_keys(path: Path | str, ask: Callable[[Path], str] | None = None) -> Keys:
    """Read a participant's keys.

    Parameters
    ----------
    path : path
    ask : callable, optional
        Returns the passphrase; called only for a file that has one. By default it is
        :func:`masquerade_host.store.locked_keys.passphrase_of`.

    Raises
    ------
    BadInput
        The file is missing, is a symbolic link, belongs to another user, can be read by others, or holds no keys; or
        its passphrase is another one.
    """
    path = Path(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise BadInput(f"there is no key file at {path}", "make one with 'masquerade keys new'") from error
    except OSError as error:
        link = path.is_symlink()
        reason = "it is a symbolic link" if link else error.strerror
        hint = "give the path of the file itself" if link else "give a file that you can read"
        raise BadInput(f"the key file {path} cannot be used: {reason}", hint) from error
    try:
        _check_access(path, os.fstat(descriptor))
        raw = os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)
    return _parse(path, raw, ask)


def _check_access(path: Path, status: os.stat_result) -> None:
    """Refuse a file that others could have read or written; the open file, so that nobody exchanges it meanwhile."""
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{path} is not a file", "give the file that 'masquerade keys new' made")
    if status.st_uid != os.geteuid():
        raise BadInput(f"the key file {path} belongs to another user", "run as the user who made the keys")
    if status.st_mode & _OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise BadInput(
            f"the key file {path} has mode {mode:04o}: others than its owner can use it; only 0600 is allowed",
            f"chmod 600 {path}; if anybody may have read it, make new keys",
        )
    folder = path.absolute().parent
    _check_folder(folder, stat.S_IWGRP | stat.S_IWOTH)
    for above in (*folder.parents, *folder.resolve().parents):  # of the path as given, and behind its symbolic links
        _check_folder(above, stat.S_IWOTH)


def _check_folder(folder: Path, others: int) -> None:
    mode = folder.stat().st_mode
    if mode & others and not mode & stat.S_ISVTX:
        raise BadInput(f"others can write to {folder}, and so replace the key file", f"chmod go-w {folder}")


def _parse(path: Path, raw: bytes, ask: Callable[[Path], str] | None) -> Keys:
    # No cause is chained and nothing is quoted: the text may be half a key.
    lines = raw.decode("ascii", "replace").splitlines()
    if lines[:1] == [_LOCKED_MAGIC]:
        from masquerade_host.store.locked_keys import unlocked  # few key files have a passphrase

        halves = unlocked(path, lines[1:], ask)
        if halves is not None and len(halves) == HALVES_BYTES:
            return Keys.of(halves)
    try:
        magic, curve, seed = lines[0], *(base64.b64decode(line, validate=True) for line in lines[1:3])
    except (IndexError, ValueError, binascii.Error):
        magic, curve, seed = "", b"", b""
    if magic != _MAGIC or len(lines) != 3 or (len(curve), len(seed)) != (_KEY_BYTES, _KEY_BYTES):  # noqa: PLR2004
        raise BadInput(f"{path} is not a key file of this program", "give the file that 'masquerade keys new' made")
    return Keys(curve, seed)

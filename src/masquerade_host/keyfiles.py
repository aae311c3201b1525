"""A participant's secret keys on disk: one small file that nobody else may read.

The file holds the secret halves of the two keys that the study shows: the CURVE key of the connections, and the seed
of the Ed25519 identity. The program makes it once, never overwrites it, and refuses it when others could read it.
"""

import base64
import binascii
import os
import stat
from pathlib import Path

from nacl.public import PrivateKey

from masquerade_core.crypto.boxes import Secret, SigningKey
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.rng import SystemRng

__all__ = ["Keys", "load_keys", "make_keys"]

_MAGIC = "masquerade secret keys 1"
_KEY_BYTES = 32
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


def make_keys(path: Path | str) -> Keys:
    """Draw new keys and write them to ``path`` with mode 0600. A missing directory is made with mode 0700.

    Raises
    ------
    BadInput
        The file exists already (keys are never overwritten), or cannot be written there.
    """
    path = Path(path)
    rng = SystemRng()
    curve, seed = rng.bytes(_KEY_BYTES), rng.bytes(_KEY_BYTES)
    text = f"{_MAGIC}\n{base64.b64encode(curve).decode()}\n{base64.b64encode(seed).decode()}\n"
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise BadInput(
            f"keys cannot be written to {path}: {path.parent} cannot be made", "choose another file"
        ) from error
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise BadInput(f"{path} exists already, and keys are never overwritten", "choose another file") from error
    except OSError as error:
        raise BadInput(f"keys cannot be written to {path}: {error.strerror}", "choose another file") from error
    return Keys(curve, seed)


def load_keys(path: Path | str) -> Keys:
    """Read a participant's keys.

    Raises
    ------
    BadInput
        The file is missing, is a symbolic link, belongs to another user, can be read by others, or holds no keys.
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
        return _parse(path, os.read(descriptor, _MAX_BYTES))
    finally:
        os.close(descriptor)


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


def _parse(path: Path, raw: bytes) -> Keys:
    # No cause is chained and nothing is quoted: the text may be half a key.
    lines = raw.decode("ascii", "replace").splitlines()
    try:
        magic, curve, seed = lines[0], *(base64.b64decode(line, validate=True) for line in lines[1:3])
    except (IndexError, ValueError, binascii.Error):
        magic, curve, seed = "", b"", b""
    if magic != _MAGIC or len(lines) != 3 or (len(curve), len(seed)) != (_KEY_BYTES, _KEY_BYTES):  # noqa: PLR2004
        raise BadInput(f"{path} is not a key file of this program", "give the file that 'masquerade keys new' made")
    return Keys(curve, seed)

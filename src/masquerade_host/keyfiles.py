"""A participant's secret keys on disk: one small file that nobody else may read.

The file holds the secret halves of the two keys that the study shows: the CURVE key of the connections, and the seed
of the Ed25519 identity. The program makes it once, never overwrites it, and refuses it when others could read it. A
passphrase encrypts it if its owner so chooses (:mod:`masquerade_host.locked_keys`).
"""

import base64
import binascii
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from nacl.public import PrivateKey

from masquerade_core.crypto.boxes import Secret, SigningKey
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.rng import SystemRng
from masquerade_host.state import private_folder

__all__ = ["Keys", "Rotated", "load_keys", "make_keys", "rotate_keys"]

_MAGIC = "masquerade secret keys 1"
_LOCKED_MAGIC = "masquerade secret keys 2"  # the same keys under a passphrase
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

    def key_for(self, purpose: bytes) -> bytes:
        """Return a key (32 bytes) of this participant's own files for one purpose."""
        return blake2b(purpose, digest_size=_KEY_BYTES, key=self.curve, person=b"masq own files").digest()


def make_keys(path: Path | str, passphrase: str | None = None) -> Keys:
    """Draw new keys and write them to ``path`` with mode 0600. A missing directory is made with mode 0700.

    Parameters
    ----------
    path : path
    passphrase : str, optional
        Encrypts the file. Without it, whoever can read the file has the keys.

    Raises
    ------
    BadInput
        The file exists already (keys are never overwritten), or cannot be written there.
    """
    path = Path(path)
    try:
        private_folder(path.parent)
    except OSError as error:
        raise BadInput(
            f"keys cannot be written to {path}: {path.parent} cannot be made", "choose another file"
        ) from error
    halves = SystemRng().bytes(2 * _KEY_BYTES)
    try:
        _write(path, _text(halves, passphrase, path))
    except FileExistsError as error:
        raise BadInput(f"{path} exists already, and keys are never overwritten", "choose another file") from error
    except OSError as error:
        raise BadInput(f"keys cannot be written to {path}: {error.strerror}", "choose another file") from error
    return Keys(halves[:_KEY_BYTES], halves[_KEY_BYTES:])


def _text(halves: bytes, passphrase: str | None, path: Path) -> str:
    if passphrase is None:
        lines = [_MAGIC, *(base64.b64encode(x).decode() for x in (halves[:_KEY_BYTES], halves[_KEY_BYTES:]))]
    else:
        from masquerade_host.locked_keys import LockedKeys, NotEnoughMemory

        try:
            locked = LockedKeys.lock(halves, passphrase, SystemRng())
        except NotEnoughMemory as error:
            raise _too_little_memory(path, error) from None
        lines = [_LOCKED_MAGIC, *locked.lines]
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@dataclass(frozen=True)
class Rotated:
    """New keys in the place of old ones.

    Attributes
    ----------
    keys : Keys
        The new ones.
    old : PublicKeys
        The public half of those before.
    kept : Path
        The file where the old keys are now.
    """

    keys: Keys
    old: PublicKeys
    kept: Path


def rotate_keys(
    path: Path | str, new: Callable[[Path], str] | None = None, ask: Callable[[Path], str] | None = None
) -> Rotated:
    """Draw new keys into ``path``; the old file stays beside it, under a name with today's date.

    At every moment, also if the machine stops, ``path`` holds the old keys or the new ones as a whole.

    Parameters
    ----------
    path : path
        A key file.
    new : callable, optional
        Returns the passphrase for the new keys. Without it they get that of the old ones, if those have one.
    ask : callable, optional
        Returns the passphrase of the old keys; by default :func:`masquerade_host.passphrases.passphrase_of`.

    Raises
    ------
    BadInput
        The old file cannot be used, or nothing can be written beside it.
    """
    path = Path(path)
    given: list[str] = []  # in a list, so that the passphrase is asked for once

    def asked(file: Path) -> str:
        given.append((ask or _passphrase_of)(file))
        return given[-1]

    old = load_keys(path, asked)
    passphrase = new(path) if new is not None else given[-1] if given else None
    fresh = path.with_name(f".{path.name}.rotating")
    fresh.unlink(missing_ok=True)  # of a rotation that did not come to its end
    keys = make_keys(fresh, passphrase)
    try:
        kept = _kept_beside(path)
        fresh.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise BadInput(f"the keys in {path} cannot be replaced: {error.strerror}", "see who owns its folder") from error
    return Rotated(keys, old.public, kept)


def _kept_beside(path: Path) -> Path:
    """Give the file a second name with today's date, and a number where that name is taken."""
    number = 1
    while True:
        name = f"{path.name}.until-{datetime.now(UTC):%Y-%m-%d}" + (f"-{number}" if number > 1 else "")
        try:
            path.with_name(name).hardlink_to(path)
        except FileExistsError:
            number += 1
        else:
            return path.with_name(name)


def load_keys(path: Path | str, ask: Callable[[Path], str] | None = None) -> Keys:
    """Read a participant's keys.

    Parameters
    ----------
    path : path
    ask : callable, optional
        Returns the passphrase; called only for a file that has one. By default it is
        :func:`masquerade_host.passphrases.passphrase_of`.

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


def _passphrase_of(path: Path) -> str:
    from masquerade_host.passphrases import passphrase_of

    return passphrase_of(path)


def _parse(path: Path, raw: bytes, ask: Callable[[Path], str] | None) -> Keys:
    # No cause is chained and nothing is quoted: the text may be half a key.
    lines = raw.decode("ascii", "replace").splitlines()
    if lines[:1] == [_LOCKED_MAGIC] and (halves := _unlocked(path, lines[1:], ask)) is not None:
        return Keys(halves[:_KEY_BYTES], halves[_KEY_BYTES:])
    try:
        magic, curve, seed = lines[0], *(base64.b64decode(line, validate=True) for line in lines[1:3])
    except (IndexError, ValueError, binascii.Error):
        magic, curve, seed = "", b"", b""
    if magic != _MAGIC or len(lines) != 3 or (len(curve), len(seed)) != (_KEY_BYTES, _KEY_BYTES):  # noqa: PLR2004
        raise BadInput(f"{path} is not a key file of this program", "give the file that 'masquerade keys new' made")
    return Keys(curve, seed)


def _unlocked(path: Path, lines: list[str], ask: Callable[[Path], str] | None) -> bytes | None:
    """Return both halves of keys that a passphrase encrypts; None if the lines hold no such keys."""
    from masquerade_host.locked_keys import LockedKeys, NotEnoughMemory, WrongPassphrase

    if (locked := LockedKeys.parse(lines)) is None:
        return None
    try:
        halves: bytes = locked.open((ask or _passphrase_of)(path))
    except WrongPassphrase:
        raise BadInput(
            f"the passphrase does not open the key file {path}, or somebody changed the file",
            "give the passphrase that was chosen when the keys were made; nothing else can open them",
        ) from None
    except NotEnoughMemory as error:
        raise _too_little_memory(path, error) from None
    return halves if len(halves) == 2 * _KEY_BYTES else None


def _too_little_memory(path: Path, error: Exception) -> BadInput:
    return BadInput(
        f"the passphrase of {path} needs {error} MB of memory for a moment, which this machine does not give",
        "raise the memory limit of this process or container",
    )

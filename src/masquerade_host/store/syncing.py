"""What outlives a power cut: the one place that tells a disk to keep a file, or a folder's list of files."""

import contextlib
import errno
import os
import secrets
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, which has os.fsync alone
    fcntl = None  # type: ignore[assignment]

__all__ = ["sync_file", "sync_folder", "write_private"]

_NOT_OFFERED = {errno.ENOTSUP, errno.EINVAL, errno.ENOTTY}


def sync_file(file: int) -> None:
    """Return when the disk has all that was written to an open file, or to a folder.

    On macOS ``fsync`` returns when the disk has the bytes in its own cache, which a power cut empties. ``F_FULLFSYNC``
    empties that cache to the medium. A file system that does not offer it, such as a share of the network, gets the
    ``fsync`` of other systems.

    Parameters
    ----------
    file : int
        A descriptor.

    Raises
    ------
    OSError
        The disk could not write.
    """
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(file, full)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
        else:
            return
    os.fsync(file)


def sync_folder(path: Path) -> None:
    """Return when the disk has a folder's list of files: a new name, or one that was changed.

    Raises
    ------
    OSError
        The folder is not there, or the disk could not write.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def write_private(path: Path, text: str) -> None:
    """Write a file for its owner alone, whole or not at all; one of this name is replaced.

    Raises
    ------
    OSError
        The disk is full or broken, or the folder cannot be written to.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            sync_file(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise

"""What outlives a power cut: the one place that tells a disk to keep a file, or a folder's list of files."""

import errno
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, which has os.fsync alone
    fcntl = None  # type: ignore[assignment]

__all__ = ["sync_file", "sync_folder"]

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

"""Space for a log: a commit into a file that need not grow costs the disk one write in place of three.

SQLite writes each transaction to a log beside the database, the file ``-wal``, and waits until the disk has it. Where
the file grows, the disk must also write the file's new length, and with it the journal of the file system. Several
processes that do so at the same time wait for each other. So the log gets its full length once, before the run.

SQLite reads a log up to the first entry that is not whole and of this log. The zeros after it are no entry.
"""

import contextlib
import os
from pathlib import Path

__all__ = ["LOG_PAGES", "grow"]

LOG_PAGES = 256
"""The length of a log, in pages of SQLite. It copies a full log to its place, and begins the log anew."""

_BYTES = (LOG_PAGES + 64) * (4096 + 24)  # each page with its header; the transaction that fills the log may be long


def grow(log: Path) -> None:
    """Give a log its full length, if it is there and shorter. Without space on the disk it stays as it is.

    Parameters
    ----------
    log : Path
        Of a database that nobody writes at this moment.
    """
    with contextlib.suppress(OSError):
        file = os.open(log, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if (length := os.fstat(file).st_size) < _BYTES:
                os.pwrite(file, bytes(_BYTES - length), length)
                os.fsync(file)
        finally:
            os.close(file)

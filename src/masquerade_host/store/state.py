"""The state folder: what a participant's machine keeps, and what outlives a power cut.

The folder lies outside the folders of results. It holds the ledger of the privacy budget, the site's policy, the
approvals, and the journals of runs under way. One machine has one such folder for all its studies, so a budget cannot
be spent twice by writing results elsewhere.

*Power cuts.* This is the one place that tells a disk to keep a file, or a folder's list of files.
"""

import contextlib
import errno
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from masquerade_core.errors import BadInput

try:
    import fcntl
except ImportError:  # Windows, which has os.fsync alone
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from masquerade_core.study import Study

__all__ = [
    "StateFolder",
    "hold",
    "private_folder",
    "state_folder",
    "sync_file",
    "sync_folder",
    "write_new",
    "write_private",
]


# --- Power cuts ------------------------------------------------------------------

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


def write_new(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file that is not there yet, by default for its owner alone. The disk has it when this returns.

    Raises
    ------
    OSError
        It is there, the disk is full or broken, or the folder cannot be written to.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        sync_file(file.fileno())


def write_private(path: Path, data: str | bytes) -> None:
    """Write a file for its owner alone, whole or not at all; one of this name is replaced.

    Raises
    ------
    OSError
        The disk is full or broken, or the folder cannot be written to.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        write_new(part, data.encode() if isinstance(data, str) else data)
        part.replace(path)
        sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def hold(file: int, *, wait: bool) -> None:
    """Hold an open file for this process alone until it is closed. Windows has no such lock, and keeps no store.

    Raises
    ------
    OSError
        Another process holds it, and this one shall not wait.
    """
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- State -----------------------------------------------------------------------


@dataclass(frozen=True)
class StateFolder:
    """Where the files of a participant's machine lie.

    Attributes
    ----------
    root : Path
        The folder, which only its owner can enter.
    """

    root: Path

    @property
    def ledger(self) -> Path:
        """The ledger of the privacy budget."""
        return self.root / "ledger.sqlite"

    @property
    def ledger_key(self) -> Path:
        """The key under which the ledger fingerprints records. ``masquerade keys rotate`` leaves it alone."""
        return self.root / "ledger.key"

    @property
    def ledger_lines(self) -> Path:
        """The second file of the ledger, which shows whether the first is an older copy."""
        return self.root / "ledger.lines"

    @property
    def policy(self) -> Path:
        """The site's rules, ``policy.toml``, which a person writes."""
        return self.root / "policy.toml"

    @property
    def approvals(self) -> Path:
        """The folder of the records of people's yes."""
        return self.root / "approvals"

    def approval(self, study: "Study", me: str) -> Path:
        """Return the record of a person's yes to taking part in this study as participant ``me``."""
        return self.approvals / f"{study.digest().hex()}-{me}.json"

    def run(self, study: "Study", me: str) -> Path:
        """Return the folder of participant ``me`` for what a run of this study needs after a restart."""
        return self.root / "runs" / f"{study.digest().hex()}-{me}"

    def made(self) -> "StateFolder":
        """Make the folder if it is not there, for its owner alone, and return it.

        Raises
        ------
        BadInput
            It cannot be made, or nothing can be written there.
        """
        try:
            private_folder(self.root)
        except OSError as error:
            raise BadInput(
                f"the state folder {self.root} cannot be made: {error.strerror}", "give another one with --state"
            ) from error
        if not self.root.is_dir() or not os.access(self.root, os.W_OK | os.X_OK):
            raise BadInput(f"nothing can be written into the state folder {self.root}", "give another with --state")
        return self


def private_folder(path: Path) -> None:
    """Make a folder if it is not there, with those above it: each new one is for its owner alone, whatever the umask.

    Raises
    ------
    OSError
        It cannot be made, or something else has the name.
    """
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:  # somebody has just made it, or it is a link to nothing, which the last line refuses
            continue
        try:
            folder.chmod(0o700)  # a umask may have taken the owner's own rights
            sync_folder(folder.parent)  # else a power cut may take a new folder, with files in it that are synced
        except BaseException:
            folder.rmdir()
            raise
    path.mkdir(mode=0o700, exist_ok=True)


def state_folder(option: Path | str | None = None) -> StateFolder:
    """Return the state folder of this machine.

    Parameters
    ----------
    option : path, optional
        The folder that the command line names; by default ``$XDG_STATE_HOME/masquerade``, and where that variable is
        not set ``~/.local/state/masquerade``.
    """
    if option is not None:
        return StateFolder(Path(option))
    base = os.environ.get("XDG_STATE_HOME", "")
    # The convention asks to ignore a relative path there.
    home = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    return StateFolder(home / "masquerade")

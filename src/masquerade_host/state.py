"""The state folder: what a participant's machine keeps from run to run, outside the folders of results.

It holds the ledger of the privacy budget, the site's policy, the approvals, and the journals of runs under way. One
machine has one such folder for all its studies, so a budget cannot be spent twice by writing results elsewhere.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from masquerade_core.errors import BadInput

if TYPE_CHECKING:  # a command that reads a key needs no study
    from masquerade_core.study import Study

__all__ = ["StateFolder", "private_folder", "state_folder"]


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
        folder.chmod(0o700)  # a umask may have taken the owner's own rights
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

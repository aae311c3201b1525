"""New secret keys: drawn once and written to a file, or drawn to take the place of older ones."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_core.rng import SystemRng
from masquerade_host.store.kept_keys import UNTIL, public_beside
from masquerade_host.store.keyfiles import HALVES_BYTES, Keys, load_keys, text_of
from masquerade_host.store.locked_keys import LockedKeys, NotEnoughMemory, passphrase_of, too_little_memory
from masquerade_host.store.state import private_folder, sync_folder, write_new

__all__ = ["Rotated", "make_keys", "rotate_keys"]


def make_keys(path: Path | str, passphrase: str | None = None) -> Keys:
    """Draw new keys and write them to ``path`` with mode 0600. A missing directory is made with mode 0700.

    Parameters
    ----------
    path : path
    passphrase : str, optional
        Encrypts the file. Without it, anyone who can read the file has the keys.

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
    halves = SystemRng().bytes(HALVES_BYTES)
    try:
        write_new(path, _text(halves, passphrase, path).encode())
    except FileExistsError as error:
        raise BadInput(f"{path} exists already, and keys are never overwritten", "choose another file") from error
    except OSError as error:
        raise BadInput(f"keys cannot be written to {path}: {error.strerror}", "choose another file") from error
    return Keys.of(halves)


def _text(halves: bytes, passphrase: str | None, path: Path) -> str:
    if passphrase is None:
        return text_of(halves)
    try:
        return text_of(halves, LockedKeys.lock(halves, passphrase, SystemRng()).lines)
    except NotEnoughMemory as error:
        raise too_little_memory(path, error) from None


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
        Returns the passphrase of the old keys; by default :func:`masquerade_host.store.locked_keys.passphrase_of`.

    Raises
    ------
    BadInput
        The old file cannot be used, or nothing can be written beside it.
    """
    path = Path(path)
    given: list[str] = []  # in a list, so that the passphrase is asked for once

    def asked(file: Path) -> str:
        given.append((ask or passphrase_of)(file))
        return given[-1]

    old = load_keys(path, asked)
    passphrase = new(path) if new is not None else given[-1] if given else None
    fresh = path.with_name(f".{path.name}.rotating")
    fresh.unlink(missing_ok=True)  # of a rotation that did not come to its end
    keys = make_keys(fresh, passphrase)
    try:
        kept = _kept_beside(path)
        write_new(public_beside(kept), f"{old.public}\n".encode())
        fresh.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise BadInput(f"the keys in {path} cannot be replaced: {error.strerror}", "see who owns its folder") from error
    return Rotated(keys, old.public, kept)


def _kept_beside(path: Path) -> Path:
    """Give the file a second name with today's date, and a number where that name, or its public half's, is taken."""
    number = 1
    while True:
        name = f"{path.name}{UNTIL}{datetime.now(UTC):%Y-%m-%d}" + (f"-{number}" if number > 1 else "")
        kept = path.with_name(name)
        try:
            if not public_beside(kept).exists():
                kept.hardlink_to(path)
                return kept
        except FileExistsError:
            pass
        number += 1

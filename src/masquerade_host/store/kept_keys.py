"""Older keys of a participant, which ``masquerade keys rotate`` keeps beside the new ones.

A study names public keys. One that was drafted before a rotation names the old ones, and only they can run it. The
public half of kept keys lies beside them in a file of its own, so that nobody needs a passphrase to find the right one.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys
from masquerade_host.store.keyfiles import Keys, load_keys

if TYPE_CHECKING:
    from masquerade_core.study import Study

__all__ = ["UNTIL", "all_kept", "kept_for", "load_keys_for", "public_beside"]

UNTIL = ".until-"
"""The text between the name of a key file and the date until which its keys were the newest."""

_PUBLIC = ".pub"


def public_beside(kept: Path) -> Path:
    """Return the file with the public half of kept keys."""
    return kept.with_name(kept.name + _PUBLIC)


def all_kept(path: Path, ask: Callable[[Path], str] | None = None) -> Iterator[tuple[PublicKeys, Path]]:
    """Yield the public half of all keys that were rotated away from a file, and the file with the secret one.

    A file that is gone, but whose public half is there, is yielded as well. One that cannot be read is left out.
    ``ask`` is as in :func:`load_keys`.
    """
    beside = [file for file in path.parent.iterdir() if file.name.startswith(f"{path.name}{UNTIL}")]
    for kept in sorted({file.with_name(file.name.removesuffix(_PUBLIC)) for file in beside}):
        try:
            yield PublicKeys.parse(public_beside(kept).read_text(encoding="ascii").strip()), kept
        except (OSError, ValueError, BadInput):
            try:
                yield load_keys(kept, ask).public, kept
            except BadInput:
                continue


def load_keys_for(study: "Study", path: Path | str, ask: Callable[[Path], str] | None = None) -> tuple[Keys, Path]:
    """Read the keys in a file, or those that :func:`kept_for` finds beside it; return them, and where they are.

    Raises
    ------
    BadInput
        A file cannot be used, or the study names older keys whose file is gone. ``ask`` is as in :func:`load_keys`.
    """
    return kept_for(study, Path(path), load_keys(path, ask), ask)


def kept_for(study: "Study", path: Path, newest: Keys, ask: Callable[[Path], str] | None = None) -> tuple[Keys, Path]:
    """Return the keys that a study names, and where they are: the newest in a file, or older ones that were there.

    Where it names none of them, it is the newest.

    Raises
    ------
    BadInput
        It names older keys, but their file is gone, or cannot be used.
    """
    for public, kept in () if study.names_key(newest.public) else all_kept(path, ask):
        if not study.names_key(public):
            continue
        if not kept.exists():
            raise BadInput(
                f"this study names older keys of {path}, which were replaced by 'masquerade keys rotate'",
                f"put {kept} back, which had the older ones; or ask the coordinator for a study with the new ones",
            )
        if (keys := load_keys(kept, ask)).public == public:
            return keys, kept
    return newest, path

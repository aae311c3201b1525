"""Finds the studies on this machine that still need keys that ``masquerade keys rotate`` replaces.

A study names the public keys of its parties. So a study that was approved before a rotation runs with the old keys
only. The state folder says which studies were approved and are not over, and the folders of a site which ones wait.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from masquerade_core.errors import BudgetExceeded, MasqueradeError
from masquerade_core.identity import PublicKeys
from masquerade_core.study_files import load_study
from masquerade_host.store.approving import all_approvals
from masquerade_host.store.ledger import Books, Ledger, Reservation
from masquerade_host.store.permissions import Approval
from masquerade_host.store.state import StateFolder, state_folder
from masquerade_party.serving.folders import Folders, Place
from masquerade_party.serving.settings import SETTINGS, Settings, key_of, load_settings

__all__ = ["Need", "Needs", "needs_of"]

_HALF = 32  # digits of a study's hash that are its fingerprint


@dataclass(frozen=True)
class Need:
    """A study that needs the old keys: its name, its fingerprint, which party this machine is in it, and why."""

    study: str
    fingerprint: str
    participant: str
    why: str


@dataclass(frozen=True)
class Needs:
    """The studies that need the old keys.

    Attributes
    ----------
    studies : tuple of Need
        Those that are not over.
    finished : int
        How many studies are over whose results were signed with these keys. They need the public half, which is in
        their study.
    """

    studies: tuple[Need, ...]
    finished: int


def needs_of(file: Path, keys: PublicKeys, state: Path | str | None = None) -> Needs:
    """Return what on this machine needs keys.

    Parameters
    ----------
    file : path
        Where they are. If ``site.toml`` lies beside it, the folders of that site are read as well.
    keys : PublicKeys
        Their public half.
    state : path, optional
        The state folder, if it is not the usual one.

    Raises
    ------
    MasqueradeError
        A file of the state folder, or ``site.toml``, cannot be read.
    """
    root = file.absolute().parent
    settings = load_settings(root) if (root / SETTINGS).exists() else None
    used = (
        {} if settings is None else {n: d for n, d in settings.data.items() if _same(key_of(root, settings, d), file)}
    )
    states = {state_folder(state).root: None, **{(root / d.state): None for d in used.values() if d.state is not None}}
    found: dict[tuple[str, str], Need] = {}
    finished = 0
    for folder in map(StateFolder, states):
        books = _books(folder)
        for approval in all_approvals(folder):
            if approval.key not in {"", keys.fingerprint()}:
                continue
            entry = books.get((approval.digest, approval.participant))
            finished += entry is not None and entry.state == "finished"
            if (why := _why(folder, approval, entry)) is not None:
                digits = approval.digest[:_HALF]
                shown = " ".join(digits[i : i + 4] for i in range(0, _HALF, 4))
                found[approval.digest, approval.participant] = Need(approval.study, shown, approval.participant, why)
    for digest, need in _waiting(root, settings, list(used), keys):
        found.setdefault((digest, need.participant), need)
    return Needs(tuple(found.values()), finished)


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _books(folder: StateFolder) -> Mapping[tuple[str, str], Reservation]:
    """Return what a ledger says of each study and participant; nothing where there is no ledger."""
    books = Books()
    with suppress(BudgetExceeded), closing(Ledger.open(folder)) as ledger:
        books.enter(ledger.history())
    return books.reservations


def _why(folder: StateFolder, approval: Approval, entry: Reservation | None) -> str | None:
    """Return why an approved study needs its keys; None where it is over."""
    if any((folder.root / "runs" / f"{approval.digest}-{approval.participant}").glob("journal*")):
        return "its run has begun, and the journal is written with these keys"
    if entry is not None and not entry.goes_on:
        return None
    if entry is not None and entry.attempt is not None:
        return "an attempt at it has begun"
    return f"{approval.who} approved it on {approval.when[:10]}, and it has not run"


def _waiting(root: Path, settings: Settings | None, used: list[str], keys: PublicKeys) -> Iterator[tuple[str, Need]]:
    """Yield the studies in a site's folders that the site has read, with their hash, and that name these keys."""
    folders = Folders(root)
    for place in (Place.RUNNING, Place.INBOX) if settings is not None else ():
        for item in (item for name in used for item in folders.items(place, name)):
            if not folders.record(item).participant:  # nobody has read it within limits yet
                continue
            with suppress(MasqueradeError):
                study, _ = load_study(folders.study(item), links=False)
                if study.names_key(keys):
                    words = f"its file is in {folders.study(item).relative_to(root).parent}"
                    yield (
                        study.digest().hex(),
                        Need(study.study.name, study.fingerprint(), study.name_of(keys), words),
                    )

"""The values that today's program reads from an archive: they must always be the same."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from masquerade.cli import run as command
from masquerade_core.study import Study
from masquerade_host.faults.verifying import check_together, contradictions, read_folder
from masquerade_host.store.journal import Entry, journal_of
from masquerade_host.store.keyfiles import load_keys
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.permissions import find_approval
from masquerade_host.store.state import StateFolder
from masquerade_protocols import protocol_of

__all__ = ["ME", "known_of", "promises_of", "rows_of", "study_of", "verdict_of"]

STUDIES = ("done", "open")
ME = "p1"


def known_of(folder: Path) -> dict[str, Any]:
    """Return all that is compared, of an archive that was unpacked into a folder."""
    rows = rows_of(folder)
    return {
        "balance": balance_of(folder),
        "entries": entries_of(folder),
        "approved_by": approvers_of(folder),
        "rows": hash_of(rows),
        "kinds": [row.kind for row in rows],
        "verdict": verdict_of(folder),
    }


def study_of(folder: Path, name: str) -> Study:
    """Return one of the two studies."""
    return Study.parse((folder / f"{name}.toml").read_text(encoding="utf-8"))


def balance_of(folder: Path) -> list[dict[str, Any]]:
    """Return what ``masquerade budget show`` says."""
    found: list[dict[str, Any]] = _said("budget", "show", "--state", folder / "state")["populations"]
    return found


def entries_of(folder: Path) -> list[str]:
    """Return the kinds of the ledger's entries, in order."""
    with closing(Ledger.open(StateFolder(folder / "state"))) as ledger:
        return [entry.kind for entry in ledger.history()]


def approvers_of(folder: Path) -> list[str]:
    """Return who has approved both studies."""
    found = [find_approval(StateFolder(folder / "state"), study_of(folder, name), ME) for name in STUDIES]
    return [approval.who for approval in found if approval is not None]


def rows_of(folder: Path) -> list[Entry]:
    """Return the rows of the journal of the attempt that was under way."""
    keys = load_keys(folder / "p1.key")
    with journal_of(study_of(folder, "open"), ME, keys, folder / "state") as journal:
        return list(journal.entries())


def verdict_of(folder: Path) -> dict[str, Any]:
    """Return what the checks of ``masquerade verify`` find in all folders of the finished run.

    The statement's words may change. What it promises may not.
    """
    folders = [
        read_folder(path, lambda study: [claim.to_json() for claim in protocol_of(study).statement(study)])
        for path in sorted((folder / "runs").iterdir())
    ]
    check_together(folders)
    return {
        "run_id": folders[0].transcript.run.hex(),
        "study_digest": folders[0].study.digest().hex(),
        "problems": {each.owner: each.problems for each in folders},
        "contradictions": [each.words for each in contradictions(folders)],
        "took_part": list(folders[0].took_part),
        "frames": {each.owner: len(each.transcript.entries) for each in folders},
        "promises": promises_of(
            [claim.to_json() for claim in protocol_of(folders[0].study).statement(folders[0].study)]
        ),
    }


def promises_of(rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return what each row of a statement promises, without its words."""
    return [
        [
            *(row[key] for key in ("unit", "definition", "adversary")),
            *(_digits(row[key]) for key in ("epsilon", "delta")),
        ]
        for row in rows
    ]


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.9g}"


def hash_of(rows: list[Entry]) -> str:
    """Return a hash over rows."""
    facts = [(row.kind, row.peer, row.label, row.data.hex()) for row in rows]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _said(*words: object) -> dict[str, Any]:
    """Run a command that succeeds, and return the data of its answer."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = command([*map(str, words), "--format", "json"])
    assert code == 0, out.getvalue()
    found: dict[str, Any] = json.loads(out.getvalue())["data"]
    return found

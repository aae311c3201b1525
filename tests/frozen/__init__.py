"""Files that one version of the program left on a disk: ``wire-N.M.tar.xz``, for the numbers of wire and `dp-gd`.

``python -m tests.frozen`` makes the archive of this version, from real processes, and refuses where there is one. Each
archive stays for ever: budgets in existing state folders survive whatever changes. It holds

* ``state``: a site's state folder. Its ledger has spent on the study ``done``, which has finished, and on the study
  ``open``, whose process was killed in the middle of the run; the journal of that attempt is there;
* ``runs``: what all participants of ``done`` have left, with their signed transcripts;
* ``p1.key`` and ``p1.csv``: the site's keys and records, and both studies.

``known.json`` beside the archives says what each of them is worth: balance, entries, rows, and the verdict.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from masquerade_protocols.registry import entry_named

__all__ = ["ARCHIVES", "KNOWN", "NOW", "unpacked"]

FOLDER = Path(__file__).parent
KNOWN = FOLDER / "known.json"
ARCHIVES = tuple(sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("wire-*.tar.xz")))
NOW = f"wire-{entry_named('dp-gd').version}"


def unpacked(archive: str, folder: Path) -> dict[str, Any]:
    """Unpack an archive into a folder, and return what is known of it."""
    with tarfile.open(FOLDER / f"{archive}.tar.xz") as file:
        file.extractall(folder, filter="data")
    known: dict[str, Any] = json.loads(KNOWN.read_text(encoding="utf-8"))[archive]
    return known

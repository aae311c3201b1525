"""Write each example's study for the default protocol: the columns, label and parties of study.toml, other defaults.

    python examples/write_defaults.py

Run it when the default protocol or its defaults change; a test compares the files with what it would write. A data set
whose label the default protocol cannot learn gets no such study.
"""

import base64
import hashlib
import sys
from pathlib import Path

from masquerade.draft import Draft
from masquerade_core.study import Study
from masquerade_core.study_files import read_study_text
from masquerade_protocols import DEFAULT_PROTOCOL, entry_named

HERE = Path(__file__).parent
FILE = "default.toml"
_COLUMNS = "# The column to predict"


def names() -> list[str]:
    """Return the examples that the default protocol can learn."""
    able = entry_named(DEFAULT_PROTOCOL).multiclass
    found = sorted(path.parent.name for path in HERE.glob("*/study.toml"))
    return [name for name in found if able or not _study(name).multiclass]


def _study(name: str) -> Study:
    return Study.parse(read_study_text(HERE / name / "study.toml"))


def default_text(name: str) -> str:
    """Return the text of an example's study for the default protocol.

    The comments on the columns are those of the other study, and so are the keys. The nonce follows from the names of
    the example and of the protocol: a published study is for simulations, and should not change by itself.
    """
    old = _study(name)
    seed = hashlib.sha256(f"{name} {DEFAULT_PROTOCOL}".encode()).digest()[:18]
    draft = Draft(
        parties=[(party.name, party.key) for party in old.parties],
        curator_key=old.curator.key,
        name=f"{name}-default",
        features=old.features,
        label=old.label,
        address=old.address,
        min_records=old.study.min_records,
        intercept=old.model.intercept,
        measured=True,
        nonce=base64.urlsafe_b64encode(seed).decode(),
    )
    head = draft.to_toml().partition(_COLUMNS)[0]
    columns = read_study_text(HERE / name / "study.toml").partition(_COLUMNS)
    return head + "".join(columns[1:])


def main() -> int:
    """Write the files, and remove those of data sets that the default protocol cannot learn."""
    for stale in HERE.glob(f"*/{FILE}"):
        stale.unlink()
    for name in names():
        path = HERE / name / FILE
        path.write_text(default_text(name), encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A folder for the examples in docstrings: a study of two hospitals, their records and a test set."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path

from masquerade.cli import run
from masquerade_core.data.loading import load_csv
from masquerade_core.data.schema import Dataset
from masquerade_core.study_files import load_study

_NEW = (
    "study new --output study.toml --throwaway-keys --party north --party south --min-records 20 "
    "--feature age:0:120 --feature marker:0:10 --label ill:yes --format json"
)


def enter() -> Dataset:
    """Make the folder, go there, and return the test set."""
    os.chdir(tempfile.mkdtemp(prefix="examples-"))
    rows = [
        f"{age},{marker},{('no', 'yes')[age + 8 * marker > 90]},{('north', 'south')[i % 2]}"  # noqa: PLR2004
        for i, (age, marker) in enumerate((age, marker) for age in range(20, 90, 10) for marker in range(10))
    ]
    for name in ("records.csv", "test.csv"):
        Path(name).write_text("\n".join(["age,marker,ill,hospital", *rows, ""]), encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        run(_NEW.split())
    study, _ = load_study("study.toml", in_memory=True)
    return load_csv("test.csv", study, need_label=False)

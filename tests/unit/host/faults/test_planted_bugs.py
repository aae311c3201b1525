"""The table of planted bugs in CONTRIBUTING.md: each test that it names exists, with its parameters."""

import re

import pytest

from tests import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## Planted bugs")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| ([^|`]+) \| `(test_\w+\.py)::(test_\w+)(?:\[(\w+)-(\w+)\])?` \|$", SECTION, re.MULTILINE)
BUGS = (
    "drawn again",
    "acknowledged before",
    "debit comes after",
    "comes twice",
    "order of frames",
    "late beat of a lost connection lets",
    "late beat of a lost connection answers",
    "takes the seat",
    "without its journal",
    "eigenvalue",
    "without names",
    "who owns a key",
    "proof of its form",
    "secret",
    "frame of a stale attempt",
    "hello of a stale attempt",
    "changed program",
    "damaged end",
    "rollback",
    "size class",
    "echo",
    "ZAP",
    "sum of sizes",
    "choose the path",
    "is searched for",
    "no deadline",
)


def test_each_bug_has_a_row() -> None:
    assert len(ROWS) == len(BUGS) == SECTION.count("::")
    assert all(word in bug for word, (bug, *_) in zip(BUGS, ROWS, strict=True))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_test_that_a_row_names_exists(row: tuple[str, str, str, str, str]) -> None:
    _, file, name, plant, check = row
    (path,) = (ROOT / "tests" / "unit").rglob(file)
    source = path.read_text(encoding="utf-8")
    assert f"\ndef {name}(" in source
    if plant:
        assert f'({plant}, "{check}"),' in source

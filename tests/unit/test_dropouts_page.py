"""The page on runs that may lose parties says what the program does."""

from __future__ import annotations

import re

from masquerade_protocols import entry_of
from tests.dropout_helpers import losing, losing_study
from tests.pages import ROOT, Page
from tests.summary_helpers import summary_study
from tests.whitened_helpers import whitened_study

PAGE = Page("docs/privacy/dropouts.md")


def test_the_prices_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| (\d+), (\d+), (\d+) \| (\d+) % \| (\d+) % \| (\d+) % \|$", PAGE.text, flags=re.MULTILINE)
    assert len(rows) == 5
    for row in rows:
        K, s, R, *prices = map(int, row)
        studies = (
            losing_study("dp-gd", K, 10, survivors=s, retries=R, colluders=1, section="rounds = 30"),
            losing(whitened_study(K, 10, colluders=1, epsilon=1.0, min_records=1000 // K), s, R),
            losing(summary_study(K, colluders=1), s, R),
        )
        assert [round(100 * entry_of(study).dropout_price(study)) for study in studies] == prices


def test_every_test_that_the_page_names_exists() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "unit").glob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", PAGE.text)
    assert len(named) > 10
    assert not [name for name in named if f"def {name}(" not in tests]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE.text):
        assert (ROOT / "docs" / "privacy" / target).exists(), target

"""The page on runs that may lose parties says what the program does."""

from __future__ import annotations

import re

from benchmarks.flaky import DOUBLE, RETRIES, STUDIES, few, most_lost, prices

from masquerade_protocols import entry_of
from tests import ROOT
from tests.dropout_helpers import losing, losing_study
from tests.pages import Page
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


def test_both_ways_are_compared_with_the_programs_numbers() -> None:
    line = r"^\| ([\d,]+), (\d+) \|((?: \d+, \d+ %, [^|]+\|){3}) (\d+), (\d+) \|$"
    rows = re.findall(line, PAGE.text, flags=re.MULTILINE)
    assert len(rows) == 7
    for count, lost, shown, *most in rows:
        K = int(count.replace(",", ""))
        assert few(K) == int(lost)
        assert [most_lost(K, way) for way in (RETRIES, DOUBLE)] == [int(each) for each in most]
        for cell, rounds in zip(shown.strip(" |").split(" | "), STUDIES, strict=True):
            retries, first, second = prices(K, rounds)
            double = "refused" if second is None else f"{100 * second:.0f} %"
            assert cell == f"{retries}, {100 * first:.0f} %, {double}"


def test_every_test_that_the_page_names_exists() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "unit").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", PAGE.text)
    assert len(named) > 10
    assert not [name for name in named if f"def {name}(" not in tests]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE.text):
        assert (ROOT / "docs" / "privacy" / target).exists(), target

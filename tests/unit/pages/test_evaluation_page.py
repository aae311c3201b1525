"""The numbers, tests and links on the evaluation's two pages are right."""

from __future__ import annotations

import re

import pytest
from benchmarks.coverage import FIGURES, GRID, Case, tallies

from masquerade_core.evaluation import (
    CELLS,
    COUNT_UNITS,
    LOCATE_UNITS,
    MOST_BINS,
    SQUARE_UNITS,
    count_sd,
    counts_noise,
    locate_bins,
)
from masquerade_core.learning.expected_intervals import expected_reach
from masquerade_protocols.blocks.evaluation import evaluation_layouts
from tests.evaluation_helpers import held_back_study
from tests.pages import Page, defined_tests

PAGE = Page("docs/protocols/evaluation.md")
PROOF = Page("docs/privacy/evaluation.md")


@pytest.mark.parametrize("held", [500, 1000, 2000, 5000, 10000, 50000])
def test_the_table_of_widths_is_what_a_new_study_expects(held: int) -> None:
    (row,) = re.findall(rf"^\| {held} \| (\S+) \| (\S+) \| (\S+) \|$", PAGE.text, re.MULTILINE)
    for told, epsilon in zip(row, (0.3, 1.0, 3.0), strict=True):
        expected = 100 * expected_reach(held, count_sd(counts_noise(epsilon, 1e-6, 3), 3))
        assert (50.0 if told == "none" else float(told)) == pytest.approx(expected, abs=0.051)


def test_the_table_of_coverage_has_all_cases_and_every_number_is_near_what_is_promised() -> None:
    rows = re.findall(r"^\| ([\d,]+) \| (\d+) % \| ([\d.]+) \|(.*)\|$", PAGE.text, re.MULTILINE)
    cases = [(int(n.replace(",", "")), float(share) / 100, float(epsilon)) for n, share, epsilon, _ in rows]
    assert cases == list(GRID)
    shown = [[cell.strip() for cell in cells.split("|")] for *_, cells in rows]
    assert {len(cells) for cells in shown} == {len(FIGURES)}
    assert all(0.925 <= float(cell) <= 0.985 for cells in shown for cell in cells if cell != "-")
    for case, cells in zip(cases, shown, strict=True):  # a few runs show which figures have no interval
        few = tallies(Case(*case), 20)
        for name, cell in zip(FIGURES, cells, strict=True):
            part = few[name].intervals / few[name].possible
            assert part < 0.5 if cell == "-" else part > 0, (case, name)


def test_the_page_says_from_how_many_records_on_the_aucs_bins_are_known() -> None:
    (times,) = re.findall(r"more than (\d+) `noise_sd` records", PAGE.text)
    bins = locate_bins([0.0] * CELLS, COUNT_UNITS / LOCATE_UNITS, 0)
    assert bins.resolve(int(times) + 1)
    assert not bins.resolve(int(times))


def test_the_proof_s_numbers_are_the_program_s() -> None:
    study = held_back_study(3, 4)
    cells, counts = (layout.length for layout in evaluation_layouts(study, 1000))
    assert (cells, counts) == (CELLS, 2 * MOST_BINS + 1)
    assert f"All {cells + counts} numbers" in PROOF.text
    assert f"{CELLS} *cells*" in PROOF.text
    assert f"| q_1: {CELLS} cells | {LOCATE_UNITS} to one number | {LOCATE_UNITS} sqrt(2) |" in PROOF.text
    row = f"| q_2: 2 x {MOST_BINS} counts, 1 sum of squares | {COUNT_UNITS} to one count, and 0 to {SQUARE_UNITS} to"
    assert row in PROOF.text
    (sd,) = re.findall(r"standard deviation of ([\d.]+) records", PROOF.text)
    assert float(sd) == pytest.approx(count_sd(counts_noise(1.0, 1e-6, 3), 3), abs=0.05)


def test_the_pages_name_tests_that_exist() -> None:
    named = PAGE.tests | PROOF.tests
    assert named
    assert named <= defined_tests()

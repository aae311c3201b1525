"""The sizes, numbers, tests and links on summary's two pages are right."""

from __future__ import annotations

import re

import pytest
from benchmarks.meter import MeteredTable

from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.noise.histogram_counts import COUNT_BITS, histogram_noise
from masquerade_core.study import CHARLIE, Feature
from masquerade_protocols import PROTOCOLS
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.summary import public, roles
from tests.masked_helpers import under_masks
from tests.pages import Page, defined_tests
from tests.summary_helpers import summary_study

PAGE = Page("docs/protocols/summary.md")
PROOF = Page("docs/privacy/summary.md")
FIRST, PARTY = "p1", "p2"


def test_the_diagrams_sizes_are_those_on_the_wire() -> None:
    numbers = [Feature(name=f"x{i}", min=0.0, max=1.0) for i in range(5)]
    levels = [Feature(name=f"l{i}", levels=("a", "b", "c", "d")) for i in range(5)]
    study = under_masks(summary_study(5, [*numbers, *levels]))
    grid = public.grid_of(study)
    assert f"K = 5 and B = {len(grid)}" in PAGE.text
    cells = grid.place({name: ["0.5"] * 10 for name in grid.columns})
    table = MeteredTable(study.names)
    run_in_memory(roles, study, dict.fromkeys(study.names, cells), table=table)
    assert table.sent[FIRST, "GroupKey"] == PAGE.sizes("GroupKey")
    for kind, source in (("Masked", PARTY), ("Masked", FIRST), ("Summed", CHARLIE)):
        assert list(dict.fromkeys(table.sent[source, kind])) == PAGE.sizes(kind)
    assert f"sends {table.bytes_sent(PARTY):,} bytes in all" in PAGE.text


def test_defaults_on_the_page_are_the_program_s() -> None:
    for key, value in public.Parameters().model_dump().items():
        assert f"| `{key}` | {value} |" in PAGE.text


@pytest.mark.parametrize("H", [5, 15, 31, 101])
def test_the_noise_on_a_count_is_that_of_the_page(H: int) -> None:
    found = (histogram_noise(histograms=H, epsilon=e, delta=1e-6, honest=1).sigma for e in (0.1, 0.5, 1.0, 3.0))
    assert PAGE.row(str(H)) == [round(float(sigma) / 2**COUNT_BITS, 2) for sigma in found]


def test_the_proof_s_numbers_are_those_of_the_curve_and_of_the_statement() -> None:
    said = re.search(r"mu is ([.\d]+), ([.\d]+), ([.\d]+) and ([.\d]+) for", " ".join(PROOF.text.split()))
    assert said is not None
    assert [float(mu) for mu in said.groups()] == [round(mu_of(e, 1e-6), 4) for e in (0.1, 0.5, 1.0, 3.0)]
    rows = {claim.view: claim.epsilon for claim in PROTOCOLS["summary"].statement(summary_study(5))}
    words = " ".join(PROOF.text.split())
    assert f"epsilon is {rows['one party']:.3f} against one curious party" in words
    assert f"{rows['Charlie with all parties but one']:.3f} against Charlie with all parties but one" in words


@pytest.mark.parametrize("page", [PAGE, PROOF])
def test_every_test_that_a_page_names_exists(page: Page) -> None:
    assert len(page.tests) > 2
    assert not page.tests - defined_tests()


@pytest.mark.parametrize("page", [PAGE, PROOF])
def test_its_links_lead_somewhere(page: Page) -> None:
    assert len(page.links) > 2
    assert page.broken_links == []

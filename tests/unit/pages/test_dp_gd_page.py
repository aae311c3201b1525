"""The sizes, epsilons, tests and links on dp-gd's two pages are right."""

from __future__ import annotations

import re

import pytest
from benchmarks.measure import make_data, make_study
from benchmarks.meter import MeteredTable

from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.study import CHARLIE
from masquerade_protocols.blocks.noisy_sums import noisy_sums_statement
from masquerade_protocols.dp_gd import roles as dp_gd
from masquerade_protocols.in_memory import run_in_memory
from tests.masked_helpers import under_masks
from tests.pages import Page, defined_tests

PAGE = Page("docs/protocols/dp-gd.md")
PROOF = Page("docs/privacy/dp-gd.md")
ROUNDS = 3
FIRST, PARTY = "hospital-0", "hospital-1"


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    made = make_study(5)
    rules = made.study.model_copy(update={"protocol": "dp-gd"})
    study = under_masks(made.model_copy(update={"study": rules, "protocol": {"rounds": ROUNDS}}))
    table, data = MeteredTable(study.names), make_data(study)
    run_in_memory(dp_gd, study, data, table=table)
    return table


def test_the_diagrams_sizes_are_those_on_the_wire(table: MeteredTable) -> None:
    assert table.sent[FIRST, "GroupKey"] == PAGE.sizes("GroupKey")
    assert (PARTY, "GroupKey") not in table.sent
    for kind, source in (("Masked", FIRST), ("Masked", PARTY), ("Summed", CHARLIE)):
        assert list(dict.fromkeys(table.sent[source, kind])) == PAGE.sizes(kind)
    assert len(table.sent[PARTY, "Masked"]) == 1 + ROUNDS


def test_the_sums_of_sizes_are_right(table: MeteredTable) -> None:
    a_round = table.sent[PARTY, "Masked"][1]
    before = table.bytes_sent(PARTY) - ROUNDS * a_round
    text = " ".join(PAGE.text.split())
    assert f"sends {before:,} bytes before the rounds and {a_round:,} bytes a round" in text
    assert f"put {5 * a_round + 5 * table.sent[CHARLIE, 'Summed'][-1]:,} bytes a round on the wire" in text


@pytest.mark.parametrize("page", [PAGE, PROOF])
def test_the_epsilons_of_the_views_are_those_of_the_statement(page: Page) -> None:
    columns = []
    for t in (0, 2, 4):
        study = make_study(5)
        privacy = study.privacy.model_copy(update={"epsilon": 1.0, "delta": 1e-5, "colluders": t})
        study = study.model_copy(update={"privacy": privacy, "protocol": {}})
        noise = dp_gd.noise_of(study)
        rows = {claim.view: claim.epsilon for claim in noisy_sums_statement(study, noise)}
        beyond = epsilon_of(noise.mu(3), 1e-5)  # where t = 2 is not the study's own number
        views = (
            "released model and all iterates",
            "one party",
            "Charlie with 2 parties",
            "Charlie with all parties but one",
        )
        columns.append([rows.get(view, 1.0 if view.endswith("but one") else beyond) for view in views])
    lines = [
        line for line in page.text.splitlines() if re.match(r"\| (the model and all|one party|Charlie with)", line)
    ]
    said = [[float(cell) for cell in line.split("|")[3:6]] for line in lines[-4:]]
    for column, found in enumerate(columns):
        for row, value in enumerate(found):
            assert value is not None
            assert value - 1e-9 <= said[row][column] < value + 1.1e-3  # rounded up


def test_defaults_on_the_page_are_the_program_s() -> None:
    chosen = dp_gd.Parameters()
    for key, value in chosen.model_dump().items():
        assert value is None
        assert f"| `{key}` | auto |" in PAGE.text


@pytest.mark.parametrize("page", [PAGE, PROOF])
def test_every_test_that_a_page_names_exists(page: Page) -> None:
    assert len(page.tests) > 2
    assert not page.tests - defined_tests()


@pytest.mark.parametrize("page", [PAGE, PROOF])
def test_links_lead_somewhere(page: Page) -> None:
    assert len(page.links) > 2
    assert page.broken_links == []

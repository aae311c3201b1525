"""The sizes, tests and links on psgd's two pages are right."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.measure import make_data, make_study
from benchmarks.meter import MeteredTable

from masquerade_core.data.schema import Dataset
from masquerade_core.study import CHARLIE
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.psgd import roles as psgd
from tests.pages import Page, defined_tests

PAGE = Page("docs/protocols/psgd.md")
PROOF = Page("docs/privacy/psgd.md")
ROUNDS = 3
LEAD, PARTY = "hospital-0", "hospital-1"


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    made = make_study(5)
    rules = made.study.model_copy(update={"protocol": "psgd"})
    study = made.model_copy(update={"study": rules, "protocol": {"rounds": ROUNDS}})
    # So many records that a round takes two ciphertexts.
    data = {name: Dataset(np.tile(x.X, (10, 1)), np.tile(x.y, 10)) for name, x in make_data(study).items()}
    table = MeteredTable(study.names)
    run_in_memory(psgd, study, data, table=table)
    return table


def test_the_diagrams_sizes_are_those_on_the_wire(table: MeteredTable) -> None:
    assert [table.sent[LEAD, "SumKey"][0], table.sent[CHARLIE, "SumKey"][0]] == PAGE.sizes("SumKey")
    assert [table.sent[PARTY, kind][0] for kind in ("Commitment", "Echo", "Reveal")] == PAGE.sizes("Commitment")
    for kind, source in (("Contribution", LEAD), ("Contribution", PARTY), ("RoundTotal", CHARLIE), ("RoundSum", LEAD)):
        first, *rounds = table.sent[source, kind]
        assert [first, *sorted(set(rounds))] == PAGE.sizes(kind)
        assert len(rounds) == ROUNDS
    assert list(dict.fromkeys(table.sent[CHARLIE, "Opened"])) == PAGE.sizes("Opened")
    assert [table.sent[LEAD, "OpeningProof"][0], table.sent[CHARLIE, "OpeningProof"][0]] == PAGE.sizes("OpeningProof")


def test_the_sums_of_sizes_are_right(table: MeteredTable) -> None:
    a_round = table.sent[PARTY, "Contribution"][1]
    before = table.bytes_sent(PARTY) - ROUNDS * a_round
    assert f"sends {before:,} bytes before the rounds and {a_round:,} bytes a round" in PAGE.text
    everybody = sum(
        lengths[-1] * (5 if kind == "Opened" else 1)
        for (_, kind), lengths in table.sent.items()
        if kind in {"Contribution", "RoundTotal", "RoundSum", "Opened"}
    )
    assert f"{everybody:,} bytes a round on the wire" in PAGE.text


@pytest.mark.parametrize(("page", "least"), [(PAGE, 10), (PROOF, 4)])
def test_every_test_that_a_page_names_exists(page: Page, least: int) -> None:
    assert len(page.tests) > least
    assert not page.tests - defined_tests()


@pytest.mark.parametrize("page", [PAGE, PROOF])
def test_links_lead_somewhere(page: Page) -> None:
    assert len(page.links) > 2
    assert page.broken_links == []

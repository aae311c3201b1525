"""The sizes, figures and tests in docs/protocols/weighted-dp.md are right."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from benchmarks.measure import make_data, make_study
from benchmarks.meter import MeteredTable

from masquerade_core.privacy.accounting import epsilon_of
from masquerade_core.privacy.noise.local_descent import C_OF_THE_PROOF, exact_mu
from masquerade_core.study import CHARLIE
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.weighted_dp import public
from masquerade_protocols.weighted_dp import roles as weighted_dp
from tests.pages import Page, defined_tests

PAGE = Page("docs/protocols/weighted-dp.md")
LEAD, PARTY = "hospital-0", "hospital-1"


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    made = make_study(5)
    rules = made.study.model_copy(update={"protocol": "weighted-dp"})
    study = made.model_copy(update={"study": rules, "protocol": {"c": 16.0, "rounds": 1000}})
    table, data = MeteredTable(study.names), make_data(study)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted_dp, "local_descent", lambda *_: np.zeros(study.d))  # no frame's length depends on it
        run_in_memory(weighted_dp, study, data, table=table)
    return table


def test_the_diagrams_sizes_are_those_on_the_wire(table: MeteredTable) -> None:
    assert [table.sent[LEAD, "SumKey"][0], table.sent[CHARLIE, "SumKey"][0]] == PAGE.sizes("SumKey")
    assert [table.sent[PARTY, kind][0] for kind in ("Commitment", "Echo", "Reveal")] == PAGE.sizes("Commitment")
    for kind, source in (("Contribution", LEAD), ("Contribution", PARTY), ("RoundTotal", CHARLIE), ("RoundSum", LEAD)):
        assert table.sent[source, kind] == PAGE.sizes(kind)
    assert list(dict.fromkeys(table.sent[CHARLIE, "Opened"])) == PAGE.sizes("Opened")
    assert f"An ordinary party sends {table.bytes_sent(PARTY):,} bytes in all" in PAGE.text


def test_what_the_page_says_is_proved_is_what_is_computed() -> None:
    for part, said in ((1 / 32, "1.713"), (200 / 45222, "21.79")):
        epsilon = epsilon_of(exact_mu(c=float(C_OF_THE_PROOF), epsilon=0.1, delta=1e-3, part=part), 1e-3)
        assert said == f"{epsilon:.4g}"
        assert said in PAGE.text


def test_the_page_s_defaults_are_the_parameters() -> None:
    fields = public.Parameters.model_fields
    for name in ("rounds", "learning_rate"):
        assert f"| `{name}` | {fields[name].default} |" in PAGE.text
    assert fields["c"].default is None
    assert "| `c` | none |" in PAGE.text
    assert fields["smallest_part"].default is None
    assert public.smallest_part(make_study(5)) == Fraction(1, 20)
    assert "| `smallest_part` | 1/(4m) |" in PAGE.text
    assert f"needs c >= {C_OF_THE_PROOF}" in PAGE.text
    assert f"F = {local_descent.FRACTION_BITS}" in PAGE.text


def test_every_test_and_file_that_the_page_names_exists() -> None:
    assert len(PAGE.tests) > 12
    assert not PAGE.tests - defined_tests("test_weighted_*.py")
    assert PAGE.broken_links == []

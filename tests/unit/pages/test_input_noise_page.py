"""The sizes, numbers and tests in docs/protocols/input-noise.md and docs/privacy/input-noise.md are right."""

from __future__ import annotations

import math
import re

import pytest
from benchmarks.measure import make_data, make_study
from benchmarks.meter import MeteredTable

from masquerade_core.privacy.accounting import mu_of
from masquerade_core.privacy.noise.noisy_copies import access_sensitivity, copies_epsilon, proven_alpha
from masquerade_core.study import CHARLIE
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.input_noise import public
from masquerade_protocols.input_noise import roles as input_noise
from tests.pages import Page, defined_tests

PAGE = Page("docs/protocols/input-noise.md")
PRIVACY = Page("docs/privacy/input-noise.md")
_ADDED, _EXACT = "alpha, costs added up", "alpha, exact"
LEAD, PARTY = "hospital-0", "hospital-1"


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    made = make_study(5)
    rules = made.study.model_copy(update={"protocol": "input-noise"})
    study = made.model_copy(update={"study": rules, "protocol": {"alpha": 1.0}})
    assert study.d == 123
    table, data = MeteredTable(study.names), make_data(study)
    run_in_memory(input_noise, study, data, table=table)
    assert public.layout(study).count == 6
    return table


def test_the_diagrams_sizes_are_those_on_the_wire(table: MeteredTable) -> None:
    assert table.sent[LEAD, "SumKey"] == PAGE.sizes("SumKey")
    assert {*table.sent[CHARLIE, "SumKey"]} == {*PAGE.sizes("SumKey")}
    assert [table.sent[PARTY, kind][0] for kind in ("Commitment", "Echo", "Reveal")] == PAGE.sizes("Commitment")
    for kind, source in (("Contribution", LEAD), ("Contribution", PARTY), ("RoundTotal", CHARLIE), ("RoundSum", LEAD)):
        assert table.sent[source, kind] == PAGE.sizes(kind)
    assert {*table.sent[CHARLIE, "Opened"]} == {*PAGE.sizes("Opened")}


def test_what_a_party_sends_is_what_the_page_says(table: MeteredTable) -> None:
    assert f"sends {table.bytes_sent(PARTY):,} bytes in all, in six ciphertexts and three boxes" in PAGE.text


def test_the_table_of_epsilons_is_right_and_rounded_up() -> None:
    rows = re.findall(r"^\| (0\.01|0\.1|1) \|(.*)\|$", PAGE.text, flags=re.MULTILINE)
    assert len(rows) == 3
    for alpha, cells in rows:
        shown = [float(cell) for cell in cells.split("|")]
        exact = [
            copies_epsilon(law=law, alpha=float(alpha), copies=m, delta=1e-5)
            for law in ("gaussian", "l2")
            for m in (1, 10, 1000)
        ]
        for said, found in zip(shown, exact, strict=True):
            assert found * (1 - 1e-12) <= said <= found * 1.001


def test_the_alphas_of_a_privacy_target_are_those_that_are_derived() -> None:
    said = re.findall(r"alpha is ([\d.]+) \(gaussian\) or ([\d.]+) \(l2\)", PAGE.text)
    target = {"epsilon": 1.0, "epsilon_y": 0.3, "delta": 1e-5, "sensitivity": access_sensitivity(10, 28)}
    assert said == [tuple(f"{proven_alpha(law=law, **target):.4g}" for law in ("gaussian", "l2"))]


def test_the_derivation_s_table_is_what_is_derived() -> None:
    target = {"epsilon": 1.0, "epsilon_y": 0.3, "sensitivity": access_sensitivity(10, 28)}
    rows = re.findall(r'^\| "(\w+)"(?:, delta = (\S+))? \| ([\d.]+) \| ([\d.]+) \|$', PRIVACY.text, flags=re.MULTILINE)
    assert [row[:2] for row in rows] == [("gaussian", "1e-5"), ("gaussian", "0.05"), ("l2", "")]
    for law, delta, alpha, sd in rows:
        found = proven_alpha(law=law, delta=float(delta or 1e-5), **target)
        assert alpha == f"{found:.4g}"
        # A vector whose norm is Gamma(d) of rate alpha/2 has E|n|^2 = d (d + 1) 4/alpha^2.
        assert sd == f"{(1 / found if law == 'gaussian' else 2 * math.sqrt(11) / found):.4g}"


@pytest.mark.parametrize(("page", "least"), [(PAGE, 10), (PRIVACY, 5)])
def test_every_test_and_file_that_the_pages_name_exists(page: Page, least: int) -> None:
    assert len(page.tests) > least
    assert not page.tests - defined_tests()
    assert page.broken_links == []


def test_the_parameters_on_the_page_are_the_protocol_s() -> None:
    shown = set(re.findall(r"^\| `([a-z_]+)`", PAGE.text, flags=re.MULTILINE)) | {"epochs", "learning_rate"}
    assert shown == set(public.Parameters.model_fields)
    chosen = public.Parameters(alpha=1.0)
    assert f"| {chosen.batch}, {chosen.epochs}, {chosen.learning_rate} |" in PAGE.text


def test_the_gain_of_an_exact_composition_is_what_the_page_says() -> None:
    names = ("epsilon_y", _ADDED, _EXACT)
    rows = [re.findall(rf"^\| {name} \|(.*)\|$", PRIVACY.text, flags=re.MULTILINE) for name in names]
    shares, added, exact = ([cell.strip() for cell in row.split("|")] for (row,) in rows)
    s = access_sensitivity(10, 28)
    for epsilon_y, one, other in zip(map(float, shares), added, exact, strict=True):
        assert one == f"{mu_of(1 - epsilon_y, 1e-5) / s:.4g}"
        found = proven_alpha(law="gaussian", epsilon=1.0, epsilon_y=epsilon_y, delta=1e-5, sensitivity=s)
        assert other == f"{found:.4g}"

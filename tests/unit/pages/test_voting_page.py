"""The sizes, numbers, names and tests in docs/protocols/voting.md and docs/privacy/voting.md are right."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from benchmarks.measure import make_study
from benchmarks.meter import MeteredTable

from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.accounting import epsilon_of, mu_of
from masquerade_core.privacy.noise.vote_counts import COUNT_BITS, count_noise
from masquerade_core.privacy.noise.votes import minimiser_radius, sharp_sensitivity, votes_sensitivity
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.voting import public, roles
from tests.pages import Page, defined_tests
from tests.vote_helpers import unit_rows

PAGE = Page("docs/protocols/voting.md")
PRIVACY = Page("docs/privacy/voting.md")
POINTS = 1000
AUXILIARY = Auxiliary.from_unit_ball(unit_rows(POINTS, 123, 0))
LEAD, PARTY = "hospital-0", "hospital-1"


def _study() -> Study:
    """K = 5, d = 123, 2048 bits, N = 1,000: votes for a positive label."""
    made = make_study(5)
    rules = made.study.model_copy(update={"protocol": "soft"})
    section = {"auxiliary": {"file": "points.csv", "sha256": AUXILIARY.digest.hex(), "records": POINTS}}
    return made.model_copy(update={"study": rules, "protocol": section})


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    return _run(_study())


def _run(study: Study) -> MeteredTable:
    public.check(study)
    table = MeteredTable(study.names)
    X = unit_rows(10, 123, 1)
    data = Dataset(X, np.where(np.arange(10) % 2, 1.0, -1.0))
    run_in_memory(roles, study, dict.fromkeys(study.names, data), table=table, auxiliary=AUXILIARY)
    return table


def test_the_diagrams_sizes_are_those_on_the_wire(table: MeteredTable) -> None:
    assert [table.sent[LEAD, "SumKey"][0], table.sent[CHARLIE, "SumKey"][0]] == PAGE.sizes("SumKey")
    assert [table.sent[PARTY, kind][0] for kind in ("Commitment", "Echo", "Reveal")] == PAGE.sizes("Commitment")
    for kind, source in (
        ("Contribution", PARTY),
        ("BlindedTotal", CHARLIE),
        ("BlindedSum", LEAD),
        ("Released", CHARLIE),
    ):
        assert sorted(set(table.sent[source, kind])) == PAGE.sizes(kind)
    assert table.sent[LEAD, "Contribution"] == table.sent[PARTY, "Contribution"]


def test_what_a_party_sends_is_right(table: MeteredTable) -> None:
    assert f"An ordinary party sends {table.bytes_sent(PARTY):,} bytes in all" in PAGE.text
    assert f"{public.layout(_study()).count} ciphertexts" in PAGE.text


def test_what_a_party_sends_of_noisy_counts_is_right() -> None:
    study = _study()
    target = study.privacy.model_copy(update={"calibration": "proven", "epsilon": 1.0, "delta": 1e-5})
    proven = study.model_copy(update={"privacy": target})
    slots = public.layout(proven)
    sizes = _run(proven).sent[PARTY, "Contribution"]
    assert f"{slots.count} ciphertexts in place of {public.layout(study).count}" in PAGE.text
    assert f"a contribution has {sizes[0]:,} bytes" in PAGE.text


# --- The derivation --------------------------------------------------------------------------------------


def test_the_noise_in_the_derivation_is_that_of_the_code() -> None:
    shown = {tuple(row[0].split(", N = ")): row[1:] for row in PRIVACY.rows(3) if " N = " in row[0]}
    assert len(shown) == 4
    for (kind, N), cells in shown.items():
        for epsilon, cell in zip((1.0, 5.0, 10.0), cells, strict=True):
            C = 2 if kind == "two classes" else 3
            sigma = float(count_noise(N=int(N), classes=C, epsilon=epsilon, delta=1e-5, honest=1).sigma)
            assert float(cell) == pytest.approx(sigma / (1 << COUNT_BITS), rel=1e-3)


def test_the_epsilons_by_view_are_those_that_are_proved() -> None:
    shown = [row for row in PRIVACY.rows(3) if " N = " not in row[0]]
    assert len(shown) == 4
    for row, shares in zip(shown, (5, 4, 3, 1), strict=True):
        for t, cell in zip((0, 2, 4), row[2:], strict=True):
            noise = count_noise(N=100, classes=2, epsilon=1.0, delta=1e-5, honest=5 - t)
            assert float(cell) == pytest.approx(epsilon_of(noise.mu(shares), 1e-5), abs=1e-3)


def test_the_sharp_sensitivities_are_those_of_the_code() -> None:
    said = {row[0]: row[1:3] for row in PRIVACY.rows(2) if row[-1].split(",")[0] in {"diameter", "labels"}}
    assert len(said) == 5
    for what, (paper, sharp) in said.items():
        soft, classes = what.startswith("`soft`"), 6 if "6 classes" in what else None
        shape: dict[str, Any] = {"Lambda": 1e-4, "M": 1000}
        if "average" in what:
            found = 2 * minimiser_radius(loss="logistic", classes=None, Lambda=1e-4) / 1000
        else:
            assert float(paper) == pytest.approx(
                votes_sensitivity(soft=soft, softmax=classes is not None, **shape), rel=5e-4
            )
            found = sharp_sensitivity(soft=soft, loss="logistic", classes=classes, **shape)
        assert float(sharp) == pytest.approx(found, rel=5e-4)
    keeps = sharp_sensitivity(soft=False, loss="logistic", classes=None, Lambda=1e-4, M=1000) / 20_000
    assert re.search(rf"keeps epsilon\s+=\s+{keeps:.2g}\.", PRIVACY.text)
    least = [math.ceil(epsilon / mu_of(epsilon, 1e-5)) for epsilon in (1, 5, 10)]
    assert f"d >= {least[0]}, {least[1]}, {least[2]}" in " ".join(PRIVACY.text.split())


@pytest.mark.parametrize(("page", "least"), [(PAGE, 10), (PRIVACY, 8)])
def test_every_test_that_the_pages_name_exists(page: Page, least: int) -> None:
    assert len(page.tests) > least
    assert not page.tests - defined_tests()


@pytest.mark.parametrize("page", [PAGE, PRIVACY])
def test_every_link_of_the_pages_leads_to_a_file(page: Page) -> None:
    assert len(page.links) > 3
    assert not page.broken_links

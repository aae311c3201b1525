"""What docs/protocols/voting.md says of sizes, names and tests is so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.measure import make_study
from benchmarks.meter import MeteredTable

from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols import voting
from tests.vote_helpers import unit_rows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/protocols/voting.md").read_text(encoding="utf-8")
POINTS = 1000
LEAD, PARTY = "hospital-0", "hospital-1"


def _study() -> Study:
    """K = 5, d = 123, 2048 bits, N = 1,000: votes for a positive label."""
    made, points = make_study(5), Auxiliary.from_unit_ball(unit_rows(POINTS, 123, 0))
    rules = made.study.model_copy(update={"protocol": "soft"})
    section = {"auxiliary": {"file": "points.csv", "sha256": points.digest.hex(), "records": POINTS}}
    return made.model_copy(update={"study": rules, "protocol": section}).with_auxiliary(points)


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    study = _study()
    voting.check(study)
    table = MeteredTable(study.names)
    X = unit_rows(10, 123, 1)
    data = Dataset(X, np.where(np.arange(10) % 2, 1.0, -1.0))
    roles = {name: voting.party(table.seat(name), study, data) for name in study.names}
    table.run({**roles, CHARLIE: voting.charlie(table.seat(CHARLIE), study)})
    return table


def _in_the_diagram(kind: str) -> list[int]:
    """The numbers right of a message's lines, in order."""
    (diagram,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    lines = [line for line in diagram.splitlines() if f" {kind}" in line]
    tails = [re.split(r"\s{3,}", line.rpartition("|")[2].strip())[0] for line in lines]
    return [int(n.replace(",", "")) for tail in tails for n in re.findall(r"\d[\d,]*", tail)]


def test_the_diagrams_sizes_are_those_on_the_wire(table: MeteredTable) -> None:
    assert [table.sent[LEAD, "SumKey"][0], table.sent[CHARLIE, "SumKey"][0]] == _in_the_diagram("SumKey")
    assert [table.sent[PARTY, kind][0] for kind in ("Commitment", "Echo", "Reveal")] == _in_the_diagram("Commitment")
    for kind, source in (
        ("Contribution", PARTY),
        ("BlindedTotal", CHARLIE),
        ("BlindedSum", LEAD),
        ("Released", CHARLIE),
    ):
        assert sorted(set(table.sent[source, kind])) == _in_the_diagram(kind)
    assert table.sent[LEAD, "Contribution"] == table.sent[PARTY, "Contribution"]


def test_what_a_party_sends_is_right(table: MeteredTable) -> None:
    assert f"An ordinary party sends {table.bytes_sent(PARTY):,} bytes in all" in PAGE
    assert f"{voting.layout(_study()).count} ciphertexts" in PAGE


def test_every_test_that_the_page_names_exists() -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 10
    assert not named - defined

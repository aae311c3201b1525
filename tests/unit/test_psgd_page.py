"""What docs/protocols/psgd.md says of sizes and tests is so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.measure import make_data, make_study
from benchmarks.meter import MeteredTable

from masquerade_core.data.schema import Dataset
from masquerade_core.study import CHARLIE
from masquerade_protocols.psgd import roles as psgd

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/protocols/psgd.md").read_text(encoding="utf-8")
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
    roles = {name: psgd.party(table.seat(name), study, data[name]) for name in study.names}
    table.run({**roles, CHARLIE: psgd.charlie(table.seat(CHARLIE), study)})
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
    for kind, source in (("Contribution", LEAD), ("Contribution", PARTY), ("RoundTotal", CHARLIE), ("RoundSum", LEAD)):
        first, *rounds = table.sent[source, kind]
        assert [first, *sorted(set(rounds))] == _in_the_diagram(kind)
        assert len(rounds) == ROUNDS
    assert list(dict.fromkeys(table.sent[CHARLIE, "Opened"])) == _in_the_diagram("Opened")


def test_the_sums_of_sizes_are_right(table: MeteredTable) -> None:
    a_round = table.sent[PARTY, "Contribution"][1]
    before = table.bytes_sent(PARTY) - ROUNDS * a_round
    assert f"sends {before:,} bytes before the rounds and {a_round:,} bytes a round" in PAGE
    everybody = sum(
        lengths[-1] * (5 if kind == "Opened" else 1)
        for (_, kind), lengths in table.sent.items()
        if kind in {"Contribution", "RoundTotal", "RoundSum", "Opened"}
    )
    assert f"{everybody:,} bytes a round on the wire" in PAGE


def test_every_test_that_the_page_names_exists() -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 10
    assert not named - defined

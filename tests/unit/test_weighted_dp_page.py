"""What docs/protocols/weighted-dp.md says of sizes, figures and tests is so."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from benchmarks.measure import make_data, make_study
from benchmarks.meter import MeteredTable

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of
from masquerade_core.privacy.noise.local_descent import C_OF_THE_PROOF, exact_mu
from masquerade_core.study import CHARLIE
from masquerade_protocols.blocks import local_descent
from masquerade_protocols.weighted_dp import roles as weighted_dp

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/protocols/weighted-dp.md").read_text(encoding="utf-8")
LEAD, PARTY = "hospital-0", "hospital-1"


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    made = make_study(5)
    rules = made.study.model_copy(update={"protocol": "weighted-dp"})
    study = made.model_copy(update={"study": rules, "protocol": {"c": 16.0, "rounds": 1000}})
    table, data = MeteredTable(study.names), make_data(study)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weighted_dp, "walk", lambda *_: np.zeros(study.d))  # no frame's length depends on it
        roles = {name: weighted_dp.party(table.seat(name), study, data[name]) for name in study.names}
        table.run({**roles, CHARLIE: weighted_dp.charlie(table.seat(CHARLIE), study)})
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
        assert table.sent[source, kind] == _in_the_diagram(kind)
    assert list(dict.fromkeys(table.sent[CHARLIE, "Opened"])) == _in_the_diagram("Opened")
    assert f"An ordinary party sends {table.bytes_sent(PARTY):,} bytes in all" in PAGE


def test_what_the_page_says_is_proved_is_what_is_computed() -> None:
    for part, said in ((1 / 32, "1.713"), (200 / 45222, "21.79")):
        epsilon = epsilon_of(exact_mu(c=float(C_OF_THE_PROOF), epsilon=0.1, delta=1e-3, part=part), 1e-3)
        assert said == f"{epsilon:.4g}"
        assert said in PAGE


def test_the_page_s_defaults_are_the_parameters() -> None:
    fields = weighted_dp.Parameters.model_fields
    for name in ("rounds", "learning_rate"):
        assert f"| `{name}` | {fields[name].default} |" in PAGE
    assert fields["c"].default is None
    assert "| `c` | none |" in PAGE
    assert fields["smallest_part"].default is None
    assert weighted_dp.smallest_part(make_study(5)) == Fraction(1, 20)
    assert "| `smallest_part` | 1/(4m) |" in PAGE
    assert f"needs c >= {C_OF_THE_PROOF}" in PAGE
    assert f"F = {local_descent.FRACTION_BITS}" in PAGE


def test_every_test_that_the_page_names_exists() -> None:
    text = "".join(
        (ROOT / f"tests/unit/test_weighted_{part}.py").read_text(encoding="utf-8") for part in ("dp", "attacks")
    )
    defined = set(re.findall(r"^def (test_\w+)", text, flags=re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 12
    assert not named - defined

"""What docs/protocols/dp-gd.md says of sizes, epsilons and tests is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.measure import make_data, make_study
from benchmarks.meter import MeteredTable

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of
from masquerade_core.study import CHARLIE
from masquerade_protocols.blocks.noisy_sums import noisy_sums_statement
from masquerade_protocols.dp_gd import roles as dp_gd

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/protocols/dp-gd.md").read_text(encoding="utf-8")
PROOF = (ROOT / "docs/privacy/dp-gd.md").read_text(encoding="utf-8")
ROUNDS = 3
LEAD, PARTY = "hospital-0", "hospital-1"


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    made = make_study(5)
    rules = made.study.model_copy(update={"protocol": "dp-gd"})
    study = made.model_copy(update={"study": rules, "protocol": {"rounds": ROUNDS}})
    table, data = MeteredTable(study.names), make_data(study)
    roles = {name: dp_gd.party(table.seat(name), study, data[name]) for name in study.names}
    table.run({**roles, CHARLIE: dp_gd.charlie(table.seat(CHARLIE), study)})
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


@pytest.mark.parametrize("page", [PAGE, PROOF])
def test_the_epsilons_of_the_views_are_those_of_the_statement(page: str) -> None:
    columns = []
    for t in (0, 2, 4):
        study = make_study(5)
        privacy = study.privacy.model_copy(update={"epsilon": 1.0, "delta": 1e-5, "colluders": t})
        study = study.model_copy(update={"privacy": privacy, "protocol": {}})
        noise = dp_gd.noise_of(study)
        rows = {claim.view: claim.epsilon for claim in noisy_sums_statement(noise, K=5, min_records=100)}
        beyond = epsilon_of(noise.mu(3), 1e-5)  # where t = 2 is not the study's own number
        views = (
            "released model and all iterates",
            "one party",
            "Charlie with 2 parties",
            "Charlie with all parties but one",
        )
        columns.append([rows.get(view, 1.0 if view.endswith("but one") else beyond) for view in views])
    lines = [
        line for line in page.splitlines() if re.match(r"\| (the model and all|one party, the lead|Charlie with)", line)
    ]
    said = [[float(cell) for cell in line.split("|")[3:6]] for line in lines[-4:]]
    for column, found in enumerate(columns):
        for row, value in enumerate(found):
            assert value is not None
            assert value - 1e-9 <= said[row][column] < value + 1.1e-3  # rounded up


def test_defaults_on_the_page_are_the_program_s() -> None:
    chosen = dp_gd.Parameters()
    for key, value in chosen.model_dump().items():
        assert f"| `{key}` | {value} |" in PAGE


@pytest.mark.parametrize("page", [PAGE, PROOF])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 2
    assert not named - defined


@pytest.mark.parametrize(("page", "folder"), [(PAGE, "protocols"), (PROOF, "privacy")])
def test_links_lead_somewhere(page: str, folder: str) -> None:
    links = re.findall(r"\]\(([^)#]+)[)#]", page)
    assert len(links) > 2
    assert [link for link in links if not (ROOT / "docs" / folder / link).exists()] == []

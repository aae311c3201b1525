"""What docs/protocols/local-aggregation.md says of sizes and tests is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.measure import make_data, make_study, run_metered
from benchmarks.meter import MeteredTable

from masquerade_core.seat import Join, Once
from masquerade_core.study import CHARLIE
from tests.protocol_helpers import make_data as small_data
from tests.protocol_helpers import make_study as small_study
from tests.protocol_helpers import run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/protocols/local-aggregation.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    study = make_study(5)
    return run_metered(study, make_data(study))


def _in_the_diagram(kind: str) -> list[int]:
    """The numbers at the end of a message's line, in order."""
    (diagram,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    (line,) = [line for line in diagram.splitlines() if kind in line]
    tail = re.split(r"\s{3,}", line.rpartition("|")[2].strip())[0]
    return [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", tail)]


def test_the_diagrams_sizes_are_those_on_the_wire(table: MeteredTable) -> None:
    lead, party = "hospital-0", "hospital-1"
    for kind, source in [
        ("LeadKey", lead),
        ("CharlieKeys", CHARLIE),
        ("SizeShare", party),
        ("PermutedShares", lead),
        ("BlindedShares", CHARLIE),
        ("Indicator", CHARLIE),
        ("NoiseTerm", party),
        ("NoiseTotal", lead),
        ("Share:", party),
        ("Published", CHARLIE),
    ]:
        name, label = kind.rstrip(":"), kind if kind != "Share:" else " Share "
        assert set(table.sent[source, name]) == set(_in_the_diagram(label)), name
    toss = [table.sent[party, kind][0] for kind in ("Commitment", "Echo", "Reveal")]
    assert toss == _in_the_diagram("Commitment")
    for kind, source in (("MatchBits", CHARLIE), ("MatchItems", lead)):
        first, *others = table.sent[source, kind]
        assert [first, *dict.fromkeys(others)] == _in_the_diagram(kind)
        assert len(others) == 2
    assert f"sends {table.bytes_sent(party):,} bytes" in PAGE


def test_every_test_that_the_page_names_exists() -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 10
    assert not named - defined


def test_f8_whatever_takes_time_by_the_number_of_records_is_done_before_the_join() -> None:
    study = small_study(3, 2)
    r = run(study, small_data(study, (20, 21, 22)))
    for name in study.names:
        effects = [e.effect for e in r.table.journal(name)]
        joined = next(i for i, effect in enumerate(effects) if isinstance(effect, Join))
        before = {effect.label for effect in effects[:joined] if isinstance(effect, Once)}
        assert {"classifier", "noise"} <= before

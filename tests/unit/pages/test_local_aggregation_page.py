"""The sizes, numbers and tests in both pages local-aggregation.md, of docs/protocols and docs/privacy, are right."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.measure import make_data, make_study, run_metered
from benchmarks.meter import MeteredTable

from masquerade_core.privacy.closeness import closeness_of_sum
from masquerade_core.privacy.noise.joint_gaussian import JointNoise
from masquerade_core.privacy.noise.output_perturbation import paper_noise_norm, refined_l2_sensitivity
from masquerade_core.seat import Join, Once
from masquerade_core.study import CHARLIE, Study
from masquerade_protocols.local_aggregation.public import JOINT_FRACTION_BITS
from tests.pages import Page, defined_tests
from tests.protocol_helpers import make_data as small_data
from tests.protocol_helpers import make_study as small_study
from tests.protocol_helpers import run
from tests.proven_helpers import proven_study

PAGE = Page("docs/protocols/local-aggregation.md")
PRIVACY = Page("docs/privacy/local-aggregation.md")
SECTIONS = {"selected": {"scale": "selected"}, "floor": {"scale": "floor"}, "sizes": {"weights": "sizes"}}
PAPER, SELECTED, PUBLIC = range(3)  # the diagrams of the page


@pytest.fixture(scope="module")
def table() -> MeteredTable:
    study = make_study(5)
    return run_metered(study, make_data(study))


@pytest.fixture(scope="module")
def proven() -> dict[str, MeteredTable]:
    made = make_study(5)
    privacy = made.privacy.model_copy(update={"calibration": "proven"})
    tables = {}
    for rule, section in SECTIONS.items():
        study = made.model_copy(update={"privacy": privacy, "protocol": section})
        tables[rule] = run_metered(study, make_data(study))
    return tables


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
        name, label = kind.rstrip(":"), kind if kind != "Share:" else "Share "
        assert set(table.sent[source, name]) == set(PAGE.sizes(label, PAPER)), name
    toss = [table.sent[party, kind][0] for kind in ("Commitment", "Echo", "Reveal")]
    assert toss == PAGE.sizes("Commitment", PAPER)
    for kind, source in (("MatchBits", CHARLIE), ("MatchItems", lead)):
        first, *others = table.sent[source, kind]
        assert [first, *dict.fromkeys(others)] == PAGE.sizes(kind, PAPER)
        assert len(others) == 2
    assert f"sends {table.bytes_sent(party):,} bytes" in PAGE.text


def test_the_sizes_with_proven_noise_are_those_on_the_wire(
    table: MeteredTable, proven: dict[str, MeteredTable]
) -> None:
    lead, party = "hospital-0", "hospital-1"
    selected = proven["selected"]
    for kind, source in [
        ("ClassTerm", party),
        ("ClassTotal", lead),
        ("SizeClass", CHARLIE),
        ("Share", party),
        ("Published", CHARLIE),
    ]:
        label = {"Share": "Share "}.get(kind, kind)
        assert set(selected.sent[source, kind]) == set(PAGE.sizes(label, SELECTED)), kind
    toss = [proven["floor"].sent[party, kind][0] for kind in ("Commitment", "Echo", "Reveal")]
    assert toss == PAGE.sizes("Commitment", PUBLIC)
    assert [*proven["floor"].sent[party, "Share"]] == PAGE.sizes("Share ", PUBLIC)
    assert {*proven["floor"].sent[CHARLIE, "Published"]} == {*PAGE.sizes("Published", PUBLIC)}
    public = PAGE.diagram(PUBLIC)
    (share,), published = proven["sizes"].sent[party, "Share"], proven["sizes"].sent[CHARLIE, "Published"][0]
    assert f"+ z_j, {share:,}\n" in public
    assert f"K + 1 shares; {published:,}\n" in public
    paper = f"{table.bytes_sent(party):,}"
    sums = " | ".join(f"{t.bytes_sent(party):,}" for t in proven.values())
    assert f"| what a party sends, K = 5, d = 123 | {paper} | {sums} |" in PAGE.text


def _proven_noise(rule: str, **changes: Any) -> JointNoise:
    values = {"d": 10, "honest": 5, "epsilon": 1.0, "Lambda": 0.1, "min_records": 100, **changes}
    return JointNoise(scale_rule=rule, K=5, delta=1e-5, fraction_bits=JOINT_FRACTION_BITS, **values)


def test_the_table_of_noise_is_right() -> None:
    rows = re.findall(r"^\| (0\.01|0\.1|1) \|((?: [\d.]+ \|){4})$", PRIVACY.text, flags=re.MULTILINE)
    assert len(rows) == 3
    for epsilon, cells in rows:
        said = [float(cell) for cell in cells.split("|")[:-1]]
        noise = {
            rule: _proven_noise(rule, d=123, Lambda=2.0, min_records=1000, epsilon=float(epsilon)) for rule in SECTIONS
        }
        root, selected = math.sqrt(5 * 123) / 2**JOINT_FRACTION_BITS, noise["selected"]
        exact = [
            paper_noise_norm(123, 3256, float(epsilon), 2.0),
            root * float(selected.of_class(selected.class_of(3256)).share()) / 5,
            root * float(noise["floor"].share()) / 5,
            root * float(noise["sizes"].share()) / 32_561,
        ]
        assert said == pytest.approx(exact, rel=5e-3)


def test_the_table_of_epsilons_by_view_is_right_and_rounded_up() -> None:
    rows = re.findall(r"^\| .* \| (K|K - 1|K - 2|1) \|((?: [\d.]+ \|){3})$", PRIVACY.text, flags=re.MULTILINE)
    assert [left for left, _ in rows] == ["K", "K - 1", "K - 2", "1"]
    for shares, (_, cells) in zip((5, 4, 3, 1), rows, strict=True):
        for honest, cell in zip((5, 4, 1), cells.split("|")[:-1], strict=True):
            for rule in SECTIONS:
                found = _proven_noise(rule, honest=honest).proved(shares)
                assert found is not None
                assert found[0] - 1e-9 <= float(cell) <= found[0] + 0.001


def test_the_slopes_and_the_closeness_of_the_derivation_are_right() -> None:
    for Lambda, said in ((2.0, ".5554"), (0.2, ".7645"), (0.02, ".9767")):
        assert refined_l2_sensitivity(10**6, Lambda) * 10**6 * Lambda / 2 == pytest.approx(float(said), abs=1e-4)
    assert "s = .5554; at .2, .7645; at .02, .9767" in PRIVACY.text
    share = _proven_noise("selected").share()
    assert all(closeness_of_sum(share, m, 1) < 1e-37 for m in (1, 5))


def test_every_test_that_the_page_names_exists() -> None:
    for page in (PAGE, PRIVACY):
        assert len(page.tests) > 10
        assert not page.tests - defined_tests()


@pytest.mark.parametrize("make", [small_study, proven_study])
def test_f8_whatever_takes_time_by_the_number_of_records_is_done_before_the_join(make: Callable[..., Study]) -> None:
    study = make(3, 2)
    r = run(study, small_data(study, (20, 21, 22)))
    for name in study.names:
        effects = [e.effect for e in r.table.journal(name)]
        joined = next(i for i, effect in enumerate(effects) if isinstance(effect, Join))
        before = {effect.label for effect in effects[:joined] if isinstance(effect, Once)}
        assert "classifier" in before
        assert "noise" in before or study.proven  # a share of proven noise is sized by public numbers alone

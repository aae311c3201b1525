"""docs/privacy/noise.md names every sampler and tests that exist, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from masquerade_core.privacy.accounting import closeness
from masquerade_core.privacy.noise import shares
from masquerade_core.privacy.samplers import discrete_gaussian, discrete_laplace, l2_laplace, rounded_gaussian
from masquerade_protocols import PROTOCOLS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "privacy" / "noise.md"
TEXT = PAGE.read_text(encoding="utf-8")

_MODULES = (discrete_gaussian, discrete_laplace, l2_laplace, rounded_gaussian, shares, closeness)


def test_every_sampler_and_every_protocol_is_on_the_page() -> None:
    functions = {name for module in _MODULES for name in module.__all__ if name.islower()}
    samplers = {name for name in functions if not name.endswith("tail_bound")}
    assert len(samplers) == 7  # four of them with the draw of one, a share's sigma, two closenesses, less the draw
    assert [name for name in sorted(samplers | set(PROTOCOLS)) if f"`{name}`" not in TEXT] == []


def test_every_test_that_the_page_names_exists() -> None:
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert len(named) > 20
    assert sorted(named - defined) == []


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(links) > 2
    assert [link for link in links if not (PAGE.parent / link).exists()] == []


def test_a_calibration_is_on_the_page_for_each_protocol_that_has_it() -> None:
    rows = [line.split("|")[1:3] for line in TEXT.splitlines() if re.match(r"\| `[a-z-]+`.* \| (`\"|both)", line)]
    said = {
        (name, calibration)
        for protocols, which in rows
        for name in re.findall(r"`([a-z-]+)`", protocols)
        for calibration in (("paper", "proven") if which.strip() == "both" else re.findall(r'"(\w+)"', which))
    }
    assert said == {(p.name, calibration) for p in PROTOCOLS.values() for calibration in p.calibrations}

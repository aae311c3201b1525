"""docs/privacy/noise.md names every sampler and protocol, its tests exist, and its links lead somewhere."""

from __future__ import annotations

import re

from masquerade_core.privacy.samplers import discrete_gaussian, discrete_laplace, l2_laplace, rounded_gaussian
from masquerade_protocols import PROTOCOLS
from tests.pages import Page, defined_tests

PAGE = Page("docs/privacy/noise.md")

_MODULES = (discrete_gaussian, discrete_laplace, l2_laplace, rounded_gaussian)


def test_every_sampler_and_every_protocol_is_on_the_page() -> None:
    functions = {name for module in _MODULES for name in module.__all__ if name.islower()}
    samplers = {name for name in functions if not name.endswith("tail_bound")}
    assert len(samplers) == 6  # four of them, a single draw, and the same into an array
    due = samplers | {"gaussian_share_sigma", "closeness_of_sum"} | set(PROTOCOLS)
    assert [name for name in sorted(due) if f"`{name}`" not in PAGE.text] == []


def test_every_test_that_the_page_names_exists() -> None:
    assert len(PAGE.tests) > 20
    assert sorted(PAGE.tests - defined_tests()) == []


def test_its_links_lead_somewhere() -> None:
    assert len(PAGE.links) > 2
    assert PAGE.broken_links == []


def test_a_calibration_is_on_the_page_for_each_protocol_that_has_it() -> None:
    rows = [line.split("|")[1:3] for line in PAGE.text.splitlines() if re.match(r"\| `[a-z-]+`.* \| (`\"|both)", line)]
    said = {
        (name, calibration)
        for protocols, which in rows
        for name in re.findall(r"`([a-z-]+)`", protocols)
        for calibration in (("paper", "proven") if which.strip() == "both" else re.findall(r'"(\w+)"', which))
    }
    assert said == {(p.name, calibration) for p in PROTOCOLS.values() for calibration in p.calibrations}

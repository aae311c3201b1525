"""The page that compares protocols names every one, its links lead somewhere, and its numbers are the statements'."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from masquerade.datasets import Cohort, breast_cancer, simulated
from masquerade.demo import prepare
from masquerade_protocols import BASELINES, PROTOCOLS, statement_of
from tests.pages import Page

PAGE = Page("docs/protocols/README.md")
_BY_DEFAULT, _, _PAPERS = PAGE.text.partition("**With the noise of the papers**")


def _rows(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `([\w-]+)`[^|]*\|.*\| ([^|]*epsilon = [^|]*) \|$", text, flags=re.MULTILINE))


ROWS = {None: _rows(_BY_DEFAULT), "paper": _rows(_PAPERS)}


def test_every_protocol_and_baseline_is_named() -> None:
    assert [name for name in (*PROTOCOLS, *BASELINES) if f"`{name}`" not in PAGE.text] == []


def test_its_links_lead_somewhere() -> None:
    assert len(PAGE.links) > 5
    assert PAGE.broken_links == []


def test_all_protocols_of_models_but_the_refuted_stand_in_the_last_tables() -> None:
    models = {name for name, entry in PROTOCOLS.items() if entry.makes_model and not entry.coefficients}
    assert models - set(ROWS[None]) == {"noisy-gradient", "decaying-budget"}
    assert set(ROWS[None]) <= models
    assert set(ROWS["paper"]) == {name for name in ROWS[None] if "paper" in PROTOCOLS[name].calibrations}


@cache
def _cohort(records: Callable[[int], Cohort]) -> Cohort:
    """Return records of five parties, which all protocols get alike."""
    return records(5)


@pytest.mark.parametrize("records", [simulated, breast_cancer])
@pytest.mark.parametrize(("calibration", "protocol"), [(which, name) for which in ROWS for name in sorted(ROWS[which])])
def test_what_is_proved_is_what_the_demo_s_statement_says(
    calibration: str | None, protocol: str, records: Callable[[int], Cohort], tmp_path: Path
) -> None:
    said = re.search(r"epsilon = ([\d.]+)(?: \(([\d.]+) on the real records)?", ROWS[calibration][protocol])
    assert said is not None
    shown = (records is breast_cancer and said[2]) or said[1]
    plan = prepare(
        _cohort(records), epsilon=1.0, protocol=protocol, calibration=calibration, directory=tmp_path / "demo"
    )
    study = plan.study
    proved = statement_of(study)[0].epsilon
    assert proved is not None
    assert shown == f"{proved:.{len(shown.partition('.')[2])}f}"

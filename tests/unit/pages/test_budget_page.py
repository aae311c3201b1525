"""The page on the budget says what the program does."""

from __future__ import annotations

import re

import typer

from masquerade.cli import budget
from masquerade_core.errors import BudgetExceeded, RefusedLocally
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS, Total, target
from masquerade_core.study.sections import StudySection
from masquerade_host.store.state import StateFolder, state_folder
from tests import ROOT
from tests.pages import Page

PAGE = Page("docs/budget.md")


def test_every_command_of_the_budget_is_on_the_page_and_no_other() -> None:
    commands = getattr(typer.main.get_command(budget.app), "commands")  # noqa: B009 (typer's groups are typed as commands)
    assert set(re.findall(r"^masquerade budget (\w+)", PAGE.text, flags=re.MULTILINE)) == set(commands)


def test_the_settings_of_attempts_have_the_defaults_of_the_page() -> None:
    for name in ("attempts", "charged_attempts"):
        said = re.search(rf"^\| `{name}` \| (\d+) \|", PAGE.text, flags=re.MULTILINE)
        assert said is not None
        assert int(said[1]) == StudySection.model_fields[name].default


def test_the_exit_codes_the_files_and_the_units_are_those_of_the_program() -> None:
    folder = StateFolder(ROOT)
    for name in (folder.ledger.name, folder.ledger_key.name, folder.ledger.with_suffix(".lines").name):
        assert f"`{name}`" in PAGE.text
    assert "Exit code 7 means that there is no budget" in PAGE.text
    assert BudgetExceeded.exit_code == 7
    assert "refused (exit code 6)" in PAGE.text
    assert RefusedLocally.exit_code == 6
    assert (UNITS, DELTA_UNITS) == (10**12, 10**18)
    assert "units of 10^-12 and delta in units of 10^-18" in PAGE.text
    assert state_folder().root.name == "masquerade"


def test_four_gaussian_studies_cost_less_than_their_sum() -> None:
    assert "Four studies with epsilon = 1 and delta = 1e-6 each then cost less than 4" in " ".join(PAGE.text.split())
    whole = Total.of(target(1.0, 1e-6, gaussian=True))
    assert (whole + whole + whole + whole).composed(4 * 10**12) < 2.5
    plain = Total.of(target(1.0, 1e-6, gaussian=False))
    assert (plain + plain + plain + plain).composed(4 * 10**12) == 4.0

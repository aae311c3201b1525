"""Ways to break the protocol: nobody innocent is named, and what can be attributed is, with evidence."""

import pytest

from masquerade_core.errors import ProtocolViolation
from tests import ROOT
from tests.misdeeds import MISDEEDS, Misdeed, row_of

PAGE = ROOT / "docs" / "blame.md"


@pytest.mark.parametrize("misdeed", MISDEEDS, ids=lambda m: f"{m.culprit} {m.what}")
def test_nobody_innocent_is_named_and_the_page_says_what_everybody_reports(misdeed: Misdeed) -> None:
    stage = misdeed.played()
    for name in stage.honest:
        error = stage.wired.errors.get(name)
        if isinstance(error, ProtocolViolation):
            assert error.peer in ("", misdeed.culprit)
            assert not error.suspects or misdeed.culprit in error.suspects
    row = row_of(misdeed, stage)
    assert row in PAGE.read_text(encoding="utf-8"), f"docs/blame.md should hold:\n\n{row}\n"

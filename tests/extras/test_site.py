"""The site: what its extension to Sphinx writes."""

import sys

import pytest

from tests import ROOT
from tests.pages import Page, every_command


def test_the_site_s_page_of_commands_has_every_command_and_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "extensions"))
    import masquerade_docs  # type: ignore[import-not-found]

    text = "\n".join(masquerade_docs.help_of_commands())
    assert masquerade_docs.COMMANDS in Page("docs/reference/commands.md").text
    for name, command in every_command().items():
        assert f"\n## masquerade {name}\n" in f"\n{text}"
        for parameter in command.params:
            assert any(option in text for option in parameter.opts), (name, parameter.opts)
    del sys.modules["masquerade_docs"]

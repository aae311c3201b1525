"""The page that compares protocols names every one, and its links lead somewhere."""

from __future__ import annotations

from masquerade_protocols import BASELINES, PROTOCOLS
from tests.pages import Page

PAGE = Page("docs/protocols/README.md")


def test_every_protocol_and_baseline_is_named() -> None:
    assert [name for name in (*PROTOCOLS, *BASELINES) if f"`{name}`" not in PAGE.text] == []


def test_its_links_lead_somewhere() -> None:
    assert len(PAGE.links) > 5
    assert PAGE.broken_links == []

"""The page that compares protocols names every one, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

from masquerade_protocols import BASELINES, PROTOCOLS

PAGE = Path(__file__).parents[2] / "docs" / "protocols" / "README.md"


def test_every_protocol_and_baseline_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in (*PROTOCOLS, *BASELINES) if f"`{name}`" not in text] == []


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text(encoding="utf-8"))
    assert len(links) > 5
    assert [link for link in links if not (PAGE.parent / link).exists()] == []

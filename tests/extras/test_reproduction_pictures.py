"""The pictures of docs/reproduction: each is what matplotlib draws from the stored curves."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.unit.pages.test_reproduction_pages import DRAW, HERE, STEMS


@pytest.mark.parametrize("stem", STEMS)
def test_a_page_shows_its_picture_which_is_drawn_from_the_stored_curves(stem: str, tmp_path: Path) -> None:
    path = HERE / "figures" / f"{stem}.svg"
    drawn = path.read_text(encoding="utf-8")
    assert f"](figures/{stem}.svg)" in (HERE / DRAW.PAGES[stem]).read_text(encoding="utf-8")
    assert path.stat().st_size < DRAW.LARGEST
    ET.fromstring(drawn)  # noqa: S314 - made here
    assert "prefers-color-scheme: dark" in drawn
    DRAW.picture(stem, tmp_path / "new.svg")
    assert (tmp_path / "new.svg").read_text(encoding="utf-8") == drawn, f"python docs/reproduction/draw.py {stem}"

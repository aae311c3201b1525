"""The pictures of docs/reproduction: each is what matplotlib draws from the stored curves."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.unit.pages.test_reproduction_pages import DRAW, HERE, STEMS

LAST_DIGIT = 0.1
"""Of a coordinate. Two processors round a logarithm in its last bit, and so a coordinate that lies between two."""

_ID, _NUMBER = re.compile(r"\b[a-z]+[0-9a-f]{10}\b"), re.compile(r"-?\d+\.\d")


def _parts(text: str) -> tuple[str, list[float]]:
    """Return a picture without its coordinates, and these; names, which are hashes of coordinates, by their order."""
    names: dict[str, str] = {}
    text = _ID.sub(lambda found: names.setdefault(found[0], f"id{len(names)}"), text)
    return _NUMBER.sub("#", text), [float(found) for found in _NUMBER.findall(text)]


@pytest.mark.parametrize("stem", STEMS)
def test_a_page_shows_its_picture_which_is_drawn_from_the_stored_curves(stem: str, tmp_path: Path) -> None:
    path = HERE / "figures" / f"{stem}.svg"
    drawn = path.read_text(encoding="utf-8")
    assert f"](figures/{stem}.svg)" in (HERE / DRAW.PAGES[stem]).read_text(encoding="utf-8")
    assert path.stat().st_size < DRAW.LARGEST
    ET.fromstring(drawn)  # noqa: S314 - made here
    assert "prefers-color-scheme: dark" in drawn
    DRAW.picture(stem, tmp_path / "new.svg")
    new, old = _parts((tmp_path / "new.svg").read_text(encoding="utf-8")), _parts(drawn)
    assert new[0] == old[0], f"python docs/reproduction/draw.py {stem}"
    assert len(new[1]) == len(old[1])
    assert max(abs(a - b) for a, b in zip(new[1], old[1], strict=True)) < LAST_DIGIT + 0.01

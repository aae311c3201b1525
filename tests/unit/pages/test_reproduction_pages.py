"""The pages of reproduced figures: their tables are the stored results, and each shows its picture."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import pytest

from tests import ROOT

HERE = ROOT / "docs" / "reproduction"


def _draw() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_reproduction", HERE / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


DRAW = _draw()
STEMS: list[str] = DRAW.there()


def test_results_are_stored() -> None:
    expected = {
        "kang-1",
        "kang-2",
        "kang-pl",
        "hamm-2016-2",
        "hamm-2016-3",
        "hamm-2016-4",
        "bixler-4",
        "pathak-2010-2",
        "rajkumar-2012-1",
    }
    assert expected <= set(STEMS)


@pytest.mark.parametrize("stem", STEMS)
def test_a_page_s_tables_are_the_stored_results(stem: str) -> None:
    page = (HERE / DRAW.PAGES[stem]).read_text(encoding="utf-8")
    assert DRAW.filled(stem, page) == page, f"python docs/reproduction/draw.py {stem}"
    above = re.findall(r"^\*\*([^\n]+)\*\*\n\n\| \| reached", page, flags=re.MULTILINE)
    shown = [row.table for row in DRAW.stored(stem) if DRAW._cell(row.table) in above]
    assert shown
    row = next(row for row in DRAW.stored(stem) if row.table == shown[0])
    wrong = page.replace(f"| {row.value:.4f} |", "| 0.1234 |")
    assert wrong != page
    assert DRAW.filled(stem, wrong) != wrong


def test_a_grid_has_every_stored_value_with_its_error() -> None:
    page = (HERE / "kang.md").read_text(encoding="utf-8")
    for stem, names in (
        ("kang-1", ("Adult over epsilon", "the appendix over epsilon")),
        ("kang-2", ("the appendix over u",)),
    ):
        for name in names:
            tables, rows = DRAW.GRIDS[name]
            shown = DRAW.grid(stem, name)
            assert shown in page
            found = [
                f"{row.shown} ({row.shown_error})"
                for row in DRAW.stored(stem)
                if re.fullmatch(tables, row.table) and re.fullmatch(rows, row.name)
            ]
            assert sorted(found) == sorted(re.findall(r"(?<=\| )\S+ \([^)]*\)", shown))
            assert len(found) >= 30
            wrong = page.replace(found[0], "0.1234 (0.0001)")
            assert DRAW.filled(stem, wrong) == page != wrong


@pytest.mark.parametrize("stem", ["pathak-2010-2", "rajkumar-2012-1", "rajkumar-2012-2"])
def test_what_is_not_seen_has_too_little_power_and_what_is_caught_has_enough(stem: str) -> None:
    for row in DRAW.stored(stem):
        if row.note.startswith("not seen here: power "):
            assert float(row.note.rpartition(" ")[2]) < 0.95
        assert row.power is None or row.power >= 0.95


def test_a_line_names_what_its_band_catches_and_what_it_cannot_see() -> None:
    Row = DRAW.Row
    rows = [
        Row("t", "q", 0.5, 0.01, 0.4, 0.6),
        Row("t", "q: a", 0.9, 0.01, 0.4, 0.6, True, power=1.0),
        Row("t", "q: b*", 0.7, 0.01, 0.4, 0.6, True, power=0.987),
        Row("t", "q: c", 0.5, 0.01, note="not seen here: power 0.03"),
        Row("t", "r", 0.7, 0.01, 0.4, 0.6),
    ]
    first, second = DRAW.caught(rows).splitlines()[2:]
    assert first == r"| q | 0.5000 | 0.0100 | 0.4 to 0.6 | a; b\* (power 0.987 or more) | c (0.03) |"
    assert second == "| r | 0.7000 | 0.0100 | 0.4 to 0.6 OUTSIDE |  |  |"


@pytest.mark.parametrize("figure", ["2", "3", "4"])
def test_curves_and_crossings_that_a_page_has_as_tables_are_the_stored_ones(figure: str) -> None:
    stem = f"hamm-2016-{figure}"
    page = (HERE / "hamm-2016.md").read_text(encoding="utf-8")
    stored = {(row.table, row.name): row for row in DRAW.stored(stem)}
    part = page.split(f"<!-- tables {stem} -->")[1].split("<!-- tables ")[0]
    tables = re.findall(r"\*\*(Accuracy by [^\n]*?)\*\*[^|]*\n\n\| 1/eps \|([^\n]*)\|\n[^\n]*\n((?:\|[^\n]*\n)+)", part)
    assert len(tables) == 3
    for name, points, lines in tables:
        for line in lines.splitlines():
            method, *shown = (cell.strip() for cell in line.strip("|").split("|"))
            found = [f"{stored[name, f'{method}, 1/eps = {x.strip()}'].value:.3f}" for x in points.split("|")]
            assert shown == found
    by_parties = re.findall(r"\*\*(1/eps up to [^\n]*?)\*\*\n\n\| \| (M = [^\n]*)\|\n[^\n]*\n((?:\|[^\n]*\n)+)", part)
    assert len(by_parties) == (0 if figure == "2" else 2)
    for name, sizes, lines in by_parties:
        for line in lines.splitlines():
            method, *shown = (cell.strip() for cell in line.strip("|").split("|"))
            rows = [stored[name, f"{M.strip()}, {method}"] for M in sizes.split("|")]
            ends = [f"{'<' if row.value < 1 else '>'} {row.value:g}" for row in rows]
            places = [f"{row.value:.4f} ({row.shown_error})" for row in rows]
            assert shown == [place if row.error else end for row, place, end in zip(rows, places, ends, strict=True)]


def test_a_figure_s_tables_are_not_filled_from_another_one_s_results() -> None:
    page = (HERE / "hamm-2016.md").read_text(encoding="utf-8")
    before, after = page.split("<!-- tables hamm-2016-3 -->")
    wrong = f"{before}<!-- tables hamm-2016-3 -->{after.replace('0.9', '0.8')}"
    filled = DRAW.filled("hamm-2016-3", wrong)
    others = "<!-- tables hamm-2016-4 -->"
    assert filled.split(others)[1] == wrong.split(others)[1]
    assert filled.split(others)[0] != wrong.split(others, maxsplit=1)[0]


def test_what_stands_beside_the_paper_s_words_is_a_stored_number() -> None:
    for stem in set(DRAW.BESIDE) & set(STEMS):
        values = {f"{row.value:.4f}" for row in DRAW.stored(stem)}
        shown = re.findall(r"\| (-?\d+\.\d{4}) \|", DRAW.beside(stem))
        assert shown
        assert set(shown) <= values | {row.shown_error for row in DRAW.stored(stem)}

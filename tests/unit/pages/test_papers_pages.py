"""docs/papers/: each numbered item of the five papers has one row, and what a row names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests import ROOT
from tests.pages import Page, defined_tests
from tests.unit.pages.test_readme import sentences


def numbered(count: int) -> list[str]:
    """The numbers of a paper's equations."""
    return [f"({number})" for number in range(1, count + 1)]


ITEMS = {
    "pathak-2010": [
        *numbered(4),
        *(f"Stage {stage}, step {step}" for stage, last in ((1, 6), (2, 4), (3, 3)) for step in range(1, last + 1)),
        *(f"Theorem {number}" for number in ("4.1", "4.2", "4.3", "4.4", "6.1")),
        *("Lemma 6.2", "Figure 1", "Figure 2", "section 3.3", "property (a)", "property (b)"),
        *(r"baseline w\*", r"baseline w\* + eta"),
    ],
    "rajkumar-2012": [
        *numbered(19),
        *("Algorithm 1", "Procedure 2", "Procedure 3", "Algorithm 4", "Definition"),
        *("Proposition 3.1", "Theorem 4.1", "Theorem 4.2", "Theorem 5.1", "Proposition 5.2", "Theorem 5.3"),
        *("footnote 2", "footnote 3", "footnote 4", "Figure 1", "Figure 2", "baseline GOP", "baseline LA"),
    ],
    "kang": [
        *numbered(17),
        *("Table 1", "Definition 1", "Definition 2", "Theorem 1", "Theorem 2", "Theorem 3", "Remark 1"),
        *("Algorithm 1, lines 1 and 2", "Algorithm 1, line 3", "Algorithm 1, lines 4 to 6"),
        *("Algorithm 1, lines 7 to 9", "Algorithm 1, lines 10 and 11"),
        *(f"Figure {number}" for number in range(1, 17)),
        *("centralized method", "compared method"),
    ],
    "hamm-2016": [
        *numbered(60),
        *("Algorithm 1", "Algorithm 2", "Theorem 1", "Lemma 2", "Theorem 3", "Theorem 4", "Lemma 5", "Lemma 6"),
        *(f"Figure {number}" for number in range(1, 5)),
        *("A.1", "A.2", "A.5", "B.1", "B.2", "B.3", "B.4", "section 4.5"),
        *("baseline batch", "baseline indiv", "avg", "vote", "soft"),
    ],
    "bixler": [*numbered(9), "baseline SGD", "line search", "w_0"],
}
"""The numbered or compared items of each paper, read from the papers and not from the pages."""

NO_CODE = {"no code", "not in the program"}


def page_of(paper: str) -> Page:
    return Page(f"docs/papers/{paper}.md")


def rows_of(paper: str) -> list[list[str]]:
    """The rows of all tables of a page: item, what it is, where, deviation, test."""
    lines = [line for line in page_of(paper).text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[0] != "item"]


def items_in(cell: str) -> Iterator[str]:
    """The items that a row is about: "(30) to (32)" are three of them."""
    if cell.startswith(("Algorithm 1, line", "property")):
        yield cell
        return
    for first, last in re.findall(r"\((\d+)\) to \((\d+)\)", cell):
        yield from (f"({number})" for number in range(int(first), int(last) + 1))
    for part in re.split(r", (?!step)|: ", re.sub(r"\(\d+\) to \(\d+\)", "", cell)):
        yield part.strip()


@cache
def symbols_of(path: str) -> frozenset[str]:
    """The names of all functions and classes that a file defines, and of what it assigns."""
    tree = list(ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))))
    defined = {node.name for node in tree if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    assigned = {
        name.id for node in tree if isinstance(node, ast.Assign) for name in node.targets if isinstance(name, ast.Name)
    }
    return frozenset(defined | assigned)


@pytest.mark.parametrize("paper", ITEMS)
def test_each_item_of_a_paper_has_one_row(paper: str) -> None:
    found = [item for row in rows_of(paper) for item in items_in(row[0])]
    assert [item for item in ITEMS[paper] if found.count(item) != 1] == []


@pytest.mark.parametrize("paper", ITEMS)
def test_what_a_row_names_is_there(paper: str) -> None:
    assert page_of(paper).broken_links == []
    assert page_of(paper).tests <= defined_tests()
    for item, what, where, deviation, tests in rows_of(paper):
        named = re.findall(r"\[`(\w+)`\]\(\.\./\.\./([\w/]+\.py)\)", where)
        assert [(name, path) for name, path in named if name not in symbols_of(path)] == [], item
        assert bool(named) != (where in NO_CODE), (item, where)
        assert what, item
        if named:
            assert re.search(r"`test_\w+`", tests), f"{item} has code and names no test"
        else:
            assert len(deviation.split()) > 3, f"{item} has no code, and no reason"


@pytest.mark.parametrize("paper", ["README", *ITEMS])
def test_the_pages_of_the_papers_have_short_sentences_and_are_on_the_site(paper: str) -> None:
    text = re.sub(r"<!--.*?-->", "", page_of(paper).text, flags=re.DOTALL)
    assert [sentence for sentence in sentences(text) if len(sentence.split()) > 25] == []
    assert paper == "README" or f"({paper}.md)" in page_of("README").text
    assert "papers/*" in Page("docs/index.md").text


def test_a_range_is_all_its_items() -> None:
    assert list(items_in("B.1: (40) to (42)")) == ["(40)", "(41)", "(42)", "B.1", ""]
    assert list(items_in("(13), (14)")) == ["(13)", "(14)"]
    assert list(items_in("Stage 1, step 2")) == ["Stage 1, step 2"]

"""The front pages say what the program does: guarantee, commands, exit codes, output, addresses, words."""

from __future__ import annotations

import ast
import html
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from masquerade.draft import Draft
from masquerade_core import errors
from masquerade_core.privacy.statement import Claim
from masquerade_core.rng import SystemRng
from masquerade_core.study import PublicKeys, Study
from masquerade_protocols import DEFAULT_PROTOCOL, PROTOCOLS, statement_of
from tests import ROOT
from tests.pages import Page, every_command

README = Page("README.md")
COMMANDS = Page("docs/reference/commands.md")
GLOSSARY = Page("docs/glossary.md")
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
)
FRONT = [
    page
    for page in PAGES
    if page.startswith(("examples/", "docs/protocols/README")) or page.count("/") - page.startswith("docs/") == 0
]
PARTIES = 5


def table(page: Page, heading: str) -> list[list[str]]:
    """The cells of the table whose first line is this, row by row."""
    lines = page.text.splitlines()
    start = lines.index(heading) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


# --- The guarantee ---------------------------------------------------------------


def default_statement(**changes: int) -> tuple[Claim, ...]:
    """The statement of what ``masquerade study new`` writes for five parties, but for these changes."""
    rng = SystemRng()
    keys = [PublicKeys(rng.bytes(32), rng.bytes(32)) for _ in range(PARTIES + 1)]
    parties = [(f"p{number}", key) for number, key in enumerate(keys[1:])]
    draft = replace(Draft(parties, curator_key=keys[0]), **changes)  # type: ignore[arg-type]  # of fields of type int
    study = Study.parse(draft.to_toml())
    assert study.study.protocol == DEFAULT_PROTOCOL
    return statement_of(study)


def proved(cell: str) -> tuple[float, float] | None:
    """Epsilon and delta of a cell; None where it says that nothing is proved."""
    found = re.fullmatch(r"ε = ([\d.]+), δ = ([\d.e-]+)", cell)
    assert found or cell.startswith("nothing"), cell
    return (float(found[1]), float(found[2])) if found else None


def printed(claim: Claim) -> tuple[float, float] | None:
    """The numbers that ``masquerade statement`` prints in the column "proved"."""
    shown = re.search(r"epsilon = ([\d.]+).*?delta = ([\d.e-]+)", claim.provable)
    return (float(shown[1]), float(shown[2])) if shown else None


def test_the_guarantee_has_the_numbers_of_the_default_study_s_statement() -> None:
    rows = table(README, "| who looks | what they see | proved for one record |")
    claims = default_statement()
    assert [proved(row[-1]) for row in rows] == [printed(claim) for claim in claims], [c.view for c in claims]
    assert [proved(row[-1]) for row in rows][2:4] == [(1.0, 1e-6)] * 2


def test_without_a_colluder_in_the_study_a_party_that_takes_its_noise_off_has_more() -> None:
    said = re.search(
        r"With `colluders = 0` a party that takes its own noise off has ε = ([\d.]+)\.", " ".join(README.text.split())
    )
    assert said is not None
    assert printed(default_statement(colluders=0)[2]) == (float(said[1]), 1e-6)


# --- Commands, exit codes, output ------------------------------------------------


def test_the_table_of_commands_is_what_help_lists() -> None:
    listed = [row[0].strip("`") for row in table(COMMANDS, "| command | what it does |")]
    assert sorted(listed) == sorted(name for name, command in every_command().items() if not command.hidden)


def test_what_was_a_command_before_still_works_and_is_not_listed() -> None:
    assert {name for name, command in every_command().items() if command.hidden} == {"evaluate"}


def test_the_table_of_exit_codes_is_that_of_the_errors() -> None:
    listed = [int(row[0]) for row in table(COMMANDS, "| exit code | meaning |")]
    raised = {getattr(errors, name).exit_code for name in errors.__all__ if name != "MasqueradeError"}
    assert listed == [0, *sorted(raised)]


def test_every_protocol_that_may_protect_somebody_is_named() -> None:
    refuted = {"noisy-gradient", "decaying-budget"}  # the paper itself rejects them
    assert {name for name in PROTOCOLS if f"`{name}`" not in README.text} == refuted


def drawn(name: str) -> list[str]:
    """The lines of text in a picture, without their blanks."""
    text = (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    lines: dict[float, list[tuple[float, str]]] = {}
    for x, y, words in re.findall(r'<text[^>]*? x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', text):
        lines.setdefault(float(y), []).append((float(x), words))
    return [
        "".join("".join(html.unescape(words) for _, words in sorted(line)).split()) for _, line in sorted(lines.items())
    ]


def test_the_readme_s_output_is_that_of_the_drawn_demo() -> None:
    (output,) = re.findall(r"```text\n(.*?)```", README.text, flags=re.DOTALL)
    shown = [line for line in output.splitlines() if line.strip() != "..."]
    assert 8 <= len(shown) <= 10
    assert [line for line in shown if "".join(line.split()) not in drawn("demo")] == []


def test_the_drawn_conversation_is_that_of_the_roles() -> None:
    source = (ROOT / "protocols/masquerade_protocols/dp_whitened/roles.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring is not None
    diagram = re.search(r"::\n\n((?:    .*\n|\n)+)", docstring)
    assert diagram is not None
    lines = ["".join(line.split()) for line in diagram[1].splitlines() if line.strip()]
    missing = [line for line in lines if line not in drawn("conversation")]
    assert missing == [], "draw it anew: python docs/pictures/make.py conversation"


# --- Links and addresses ---------------------------------------------------------


@pytest.mark.parametrize("page", FRONT)
def test_a_page_s_links_lead_somewhere(page: str) -> None:
    assert Page(page).broken_links == []


def anchors(page: str) -> set[str]:
    """The names of a page's headings in an address: lower case, no marks, hyphens for blanks."""
    heads = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES)
def test_a_link_into_a_page_leads_to_a_heading(page: str) -> None:
    here = (ROOT / page).parent
    lost = []
    for link, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", Page(page).text):
        target = (here / link).resolve() if link else ROOT / page
        if "://" not in link and anchor not in anchors(str(target.relative_to(ROOT))):
            lost.append(f"{link}#{anchor}")
    assert lost == []


def test_the_index_names_every_page() -> None:
    index = Page("docs/README.md")
    reached = {str((ROOT / "docs" / link).resolve().relative_to(ROOT)) for link in index.links}
    examples = {page for page in PAGES if page.startswith("examples/") and page != "examples/README.md"}
    assert set(PAGES) - reached - examples == {"docs/README.md"}


def test_each_paper_has_one_address_for_the_package_the_readme_and_the_citation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    addresses = set(project["urls"].values())
    assert set(re.findall(r"https?://[^\s)>\]]+", README.text)) == addresses
    cited = re.findall(r"url: (\S+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert set(cited) == addresses


# --- Words -----------------------------------------------------------------------


def terms() -> list[str]:
    """The glossary's terms, in the page's order."""
    return [row[0].strip("*") for row in table(GLOSSARY, "| term | meaning |")]


@cache
def everything() -> str:
    """All pages but the glossary, and all docstrings and comments."""
    pages = [ROOT / page for page in PAGES if page != GLOSSARY.path]
    code = [path for folder in ("src", "protocols", "parties", "curator") for path in (ROOT / folder).rglob("*.py")]
    return " ".join(path.read_text(encoding="utf-8") for path in (*pages, *code))


def test_the_glossary_is_sorted() -> None:
    assert len(terms()) > 30
    assert terms() == sorted(terms(), key=str.casefold)


@pytest.mark.parametrize("term", terms())
def test_a_term_of_the_glossary_is_used(term: str) -> None:
    assert re.search(r"\b" + r"\s+".join(term.split()) + r"(s|es)?\b", everything())


def test_the_glossary_s_meanings_are_short() -> None:
    for term, meaning in table(GLOSSARY, "| term | meaning |"):
        sentences = re.split(r"(?<=[.:;])\s", meaning)
        assert max(len(sentence.split()) for sentence in sentences) <= 25, term


MODELS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/README.md", "docs/data.md", "docs/protocols/README.md")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, without code, tables, headings and addresses."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    kept = "\n".join(line for line in text.splitlines() if not line.startswith(("    ", "|", "#", "[", "<", "!")))
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. )", re.sub(r"\]\([^)]*\)", "]", kept)):
        yield from re.split(r"(?<=[.?!:;])[*)\"]*\s", " ".join(paragraph.split()))


@pytest.mark.parametrize("page", [*MODELS, *(page for page in FRONT if page.startswith("examples/"))])
def test_the_pages_that_are_models_have_short_sentences(page: str) -> None:
    found = list(sentences(Page(page).text))
    assert len(found) > 5
    assert [sentence for sentence in found if len(sentence.split()) > 25] == []


def test_the_readme_is_short_enough_to_be_read_at_once() -> None:
    assert len(README.text.splitlines()) <= 150

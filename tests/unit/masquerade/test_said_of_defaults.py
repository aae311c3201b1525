"""Pages state the defaults that ``study new`` writes: each such sentence has a mark, and each mark holds."""

from __future__ import annotations

import re

import pytest

from masquerade.draft import Draft, throwaway_key
from masquerade_core.study import Study
from masquerade_protocols import PROTOCOLS, entry_named
from tests import ROOT
from tests.defaults import MARK, Said, fact, marks, wrong
from tests.face_helpers import Shell
from tests.messages import says

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md"))
    if path.name not in {"CHANGELOG.md", "CONTRIBUTING.md"}
)

CLAIMS = re.compile(
    r"(?i)\bthe default\b|\bby default\b|\bdefault (study|protocol)|\ba new study (has|asks)|\ba draft asks"
)
ABOUT = re.compile(
    r"`(" + "|".join(PROTOCOLS) + r")`|\bcalibration\b|\bcolluders\b|\"(proven|selected|floor)\"|\bPaillier\b"
    r"|\bdefault protocol\b|\bdefault study\b|\bnew study\b"
)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if MARK.search(text_of(page))])
def test_what_a_page_says_of_a_default_holds(page: str) -> None:
    assert [problem for said in marks(page, text_of(page)) if (problem := wrong(said))] == []


def test_the_front_pages_and_the_papers_protocols_have_marks() -> None:
    marked = {page for page in PAGES if MARK.search(text_of(page))}
    assert {"README.md", "SECURITY.md", "docs/studies.md", "docs/protocols/README.md"} <= marked
    assert {"docs/protocols/local-aggregation.md", "docs/protocols/masked-sum.md"} <= marked


@pytest.mark.parametrize("page", PAGES)
def test_a_sentence_on_a_protocol_s_default_has_a_mark(page: str) -> None:
    blocks = re.split(r"\n\n|\n(?=\||- )", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL))
    bare = [" ".join(block.split())[:160] for block in blocks if CLAIMS.search(block) and ABOUT.search(block)]
    marked = [" ".join(block.split())[:160] for block in blocks if MARK.search(block)]
    assert [block for block in bare if block not in marked] == [], (
        f"{page}: add <!-- default: ... --> (tests/defaults.py)"
    )


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("local-aggregation.scale", "floor"),
        ("local-aggregation.encrypts", "no"),
        ("papers.sum", "masks"),
        ("all.calibration", "paper"),
        ("all.colluders", "0"),
        ("protocol", "dp-gd"),
    ],
)
def test_a_default_that_changes_is_told_with_page_and_sentence(key: str, other: str) -> None:
    def changed(asked: str) -> str:
        return other if asked == key else fact(asked)

    told = [wrong(said, changed) for page in PAGES for said in marks(page, text_of(page)) if said.key == key]
    assert told
    assert all(f"{key} = {fact(key)}, but a new study has {other}" in line for line in told)
    assert all(re.match(r"\S+\.md:\d+: ['\"].{8,}", line) for line in told)


def test_a_mark_whose_text_does_not_say_the_value_is_told() -> None:
    (said,) = marks("page.md", "One.\n\nThe scale is that.<!-- default: local-aggregation.scale = selected -->\n\nTwo.")
    assert said == Said("page.md", 3, "The scale is that.", "local-aggregation.scale", "selected", "The scale is that.")
    assert wrong(said) == "page.md:3: 'The scale is that.' is marked with selected, and does not say it"


HELP = [
    (("study", "new"), "'paillier' for the papers' protocols", {"papers.sum": "paillier"}),
    (("study", "new"), "else 'masks'", {"ours.sum": "masks"}),
    (("demo",), "'proven' wherever the protocol has it", {"all.calibration": "proven"}),
]
"""Words of ``--help``, and what they rest on."""


@pytest.mark.parametrize(("command", "words", "facts"), HELP)
def test_what_help_says_of_a_default_holds(
    shell: Shell, command: tuple[str, ...], words: str, facts: dict[str, str]
) -> None:
    assert words in " ".join(shell(*command, "--help").out.split())
    assert {key: fact(key) for key in facts} == facts


# --- The comments of a new study ----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        *((name, {}) for name in PROTOCOLS),
        ("local-aggregation", {"scale": "floor"}),
        ("local-aggregation", {"weights": "sizes"}),
    ],
)
def test_a_new_study_has_a_lead_and_a_key_only_where_something_is_encrypted(name: str, setting: dict[str, str]) -> None:
    entry = entry_named(name)
    parties = [(f"p{k}", throwaway_key()) for k in range(3)]
    draft = Draft(parties, curator_key=throwaway_key(), protocol=name, parameters=setting)
    text = draft.to_toml()
    study = Study.parse(text, in_memory=True)
    cost = entry.cost(study)
    assert bool(study.lead) == ("# The lead" in text) == ("key_bits = " in text) == (cost.ciphertexts > 0)
    assert (says(text, "kind_of_sums")) == (cost.sums > 0)
    assert (says(text, "compared_and_encrypted")) == (cost.ciphertexts > 0 and cost.sums == 0)


def test_one_party_alone_has_no_lead() -> None:
    text = Draft([("p", throwaway_key())], curator_key=throwaway_key(), protocol="input-noise").to_toml()
    assert "lead" not in text
    assert "[crypto]" not in text

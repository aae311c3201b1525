"""Numbers with their nouns, and names as lists, in correct English."""

from __future__ import annotations

import re

import pytest

from masquerade_core.words import DELTA, counted, listed
from tests import ROOT
from tests.messages import raises


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "no rounds"), (1, "1 round"), (2, "2 rounds"), (20, "20 rounds"), (1_000, "1,000 rounds")],
)
def test_one_is_singular_and_every_other_number_plural(number: int, shown: str) -> None:
    assert counted(number, "round") == shown


def test_a_noun_may_have_a_plural_of_its_own() -> None:
    assert counted(1, "party", "parties") == "1 party"
    assert counted(0, "party", "parties") == "no parties"
    assert counted(3, "sum is", "sums are") == "3 sums are"


def test_another_word_may_stand_for_zero() -> None:
    assert counted(0, "message", none="none of") == "none of messages"
    assert counted(0, "message", none="0") == "0 messages"
    assert counted(1, "message", none="0") == "1 message"


@pytest.mark.parametrize(
    ("names", "shown"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c"), (("a", "b", "c", "d"), "a, b, c and d")],
)
def test_names_make_a_list_whose_last_word_is_joined_by_and(names: list[str], shown: str) -> None:
    assert listed(names) == shown


def test_the_last_name_may_be_joined_by_another_word() -> None:
    assert listed(["a", "b", "c"], "or") == "a, b or c"
    assert listed(["a"], "or") == "a"


def test_a_list_of_nothing_is_a_mistake_of_the_caller() -> None:
    with raises(ValueError, "no_names_to_list"):
        listed([])


# --- What delta is ----------------------------------------------------------------


SAYS = [
    "README.md",
    "docs/glossary.md",
    "docs/privacy/statement.md",
    "docs/privacy/noise.md",
    "docs/privacy/audits.md",
    "docs/reproduction.md",
]
WRONG = re.compile(
    r"(probability|chance|odds)[^.|]{0,40}(epsilon|bound|guarantee)[^.|]{0,20}(not hold|fails?\b)"
    r"|bounds the probability of an exception|but for a chance of delta"
    r"|except with (a )?probability (of about )?\*?delta",
    re.IGNORECASE,
)


def test_every_page_says_of_delta_what_it_is_in_the_same_words() -> None:
    for name in SAYS:
        text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
        assert re.sub(r"\bis slack\b", "slack", text).count(DELTA) == 1, name
    assert f"# {DELTA.capitalize()}." in (ROOT / "examples/adult/default.toml").read_text(encoding="utf-8")


def test_nothing_says_that_delta_is_the_chance_that_epsilon_fails() -> None:
    """That is another definition, which some papers call probabilistic privacy."""
    folders = ("docs", "examples", "src", "parties", "curator", "protocols")
    files = [
        *ROOT.glob("*.md"),
        *(p for f in folders for kind in ("md", "py", "toml", "html") for p in (ROOT / f).rglob(f"*.{kind}")),
    ]
    assert len(files) > 300
    texts = {str(path.relative_to(ROOT)): " ".join(path.read_text(encoding="utf-8").split()) for path in files}
    found = {name: hit[0] for name, text in texts.items() if (hit := WRONG.search(text))}
    allowed = {"docs/privacy/statement.md", "src/masquerade_core/words.py"}  # they say that it is not that
    assert found.keys() <= allowed, found
    assert WRONG.search("The probability that epsilon does not hold.")

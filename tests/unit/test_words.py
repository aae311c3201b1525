"""Numbers with their nouns, and names as lists, in correct English."""

from __future__ import annotations

import pytest

from masquerade_core.words import counted, listed


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "no rounds"), (1, "1 round"), (2, "2 rounds"), (20, "20 rounds"), (1_000, "1,000 rounds")],
)
def test_one_is_singular_and_every_other_number_plural(number: int, shown: str) -> None:
    assert counted(number, "round") == shown


def test_a_noun_may_have_a_plural_of_its_own() -> None:
    assert counted(1, "party", "parties") == "1 party"
    assert counted(0, "party", "parties") == "no parties"
    assert counted(3, "noisy sum is", "noisy sums are") == "3 noisy sums are"


def test_another_word_may_stand_for_zero() -> None:
    assert counted(0, "message", none="not one of the") == "not one of the messages"
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
    with pytest.raises(ValueError, match="no names"):
        listed([])

"""The page on double masks says what the program does."""

from __future__ import annotations

import re

from masquerade_core.crypto.shamir import SHARE_BYTES
from masquerade_core.study import Study
from masquerade_core.thresholds import thresholds
from masquerade_protocols.blocks.double_masks import VOUCH_BYTES, box_bytes
from tests.dropout_helpers import masked_text
from tests.pages import Page, defined_tests
from tests.unit.pages.test_readme import sentences

PAGE = Page("docs/protocols/double-masks.md")


def test_the_table_of_neighbours_is_the_program_s() -> None:
    rows = re.findall(r"^\| ([\d,]+) \| (\d+, \d+) \| (\d+, \d+) \| (\d+, \d+) \|$", PAGE.text, flags=re.MULTILINE)
    assert len(rows) == 3
    for count, *shown in rows:
        K = int(count.replace(",", ""))
        found = [thresholds(K, corrupt, K // 10) for corrupt in (K // 10, K // 5, K // 3)]
        assert [f"{row.neighbours}, {row.threshold}" for row in found if row] == shown
    assert "colluders = 0`, K = 1,000 and a tenth silent, 36 and 19" in PAGE.text
    alone = thresholds(1000, 0, 100)
    assert alone is not None
    assert (alone.neighbours, alone.threshold) == (36, 19)


def test_k_and_t_of_the_comparison_are_the_program_s() -> None:
    shown = re.findall(r"^\| ([\d,]+) \| (\d+), (\d+) \|$", PAGE.text, flags=re.MULTILINE)
    assert len(shown) == 5
    for count, k, t in shown:
        K = int(count.replace(",", ""))
        found = thresholds(K, max(1, K // 10), max(1, K // 10))
        assert found is not None
        assert (found.neighbours, found.threshold) == (int(k), int(t))


def test_lengths_are_the_program_s() -> None:
    assert f"and {box_bytes(2)} for each neighbour" in PAGE.text
    assert f"{VOUCH_BYTES} bytes for each of U" in PAGE.text
    assert f"{SHARE_BYTES} bytes for each neighbour" in PAGE.text


def test_the_study_s_lines_are_a_study_s() -> None:
    (section,) = re.findall(r"```toml\n(.*?)```", PAGE.text, flags=re.DOTALL)
    text = masked_text("dp-gd", 30) + section.replace("900", "27")
    study = Study.parse(text, in_memory=True)
    assert (study.survivors, study.retries) == (27, 0)


def test_the_tests_and_pages_that_it_names_exist() -> None:
    assert len(PAGE.tests) > 10
    assert PAGE.tests <= defined_tests()
    assert PAGE.broken_links == []


def test_sentences_are_short() -> None:

    assert [sentence for sentence in sentences(PAGE.text) if len(sentence.split()) > 25] == []

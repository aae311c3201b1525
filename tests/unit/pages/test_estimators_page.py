"""The page on estimators: its examples run and show what they say, and its table has every estimator."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path

import pytest

from masquerade import estimators
from masquerade.estimators import PrivacyLeakWarning
from tests.pages import Page
from tests.unit.masquerade.test_estimators_checks import ESTIMATORS

PAGE = Page("docs/estimators.md")


def test_the_examples_show_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(re.findall(r"```pycon\n(.*?)```", PAGE.text, flags=re.DOTALL))
    examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.path, PAGE.path, 0)
    assert len(examples.examples) > 20
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        failed, _ = doctest.DocTestRunner().run(examples, out=said.append)
    assert failed == 0, "".join(said)


def test_the_table_has_every_estimator_and_how_many_classes_it_learns() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.text.splitlines() if line.startswith("| `")]
    learns = {name: cells[2].strip() for cells in rows for name in re.findall(r"`(\w+)`", cells[0])}
    assert learns == {type(e).__name__: "several" if e._several else "two" for e in ESTIMATORS}


def test_every_name_that_the_page_takes_from_the_package_is_there() -> None:
    named = set(re.findall(r"`(\w*(?:Warning|SearchCV|_cost))\b", PAGE.text)) - {"GridSearchCV"}
    assert (
        {"PrivacyLeakWarning", "CountedGridSearchCV", "search_cost", "joint_cost"} <= named <= set(estimators.__all__)
    )

"""The list of mutants: each can still be planted, and the tests that must show it are there."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.mutants import MUTANTS, REPLACED, Mutant, span_of
from tests.mutants.anchors import place_now
from tests.oracle_cases import named

BY_NAME = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)


def test_so_many_mutants_stand_in_the_list() -> None:
    kinds = Counter(mutant.kind for mutant in MUTANTS)
    assert (kinds["drawn"], kinds["mended"], kinds["process"]) == (60, 71, 30)
    assert len({(mutant.symbol, mutant.old, mutant.new) for mutant in MUTANTS if mutant.kind != "process"}) == 131


def test_a_draw_that_was_replaced_has_a_reason_and_no_mutant() -> None:
    assert all(each["reason"].startswith(("equivalent: ", "a text: ")) for each in REPLACED)
    drawn = [*(each["what"] for each in REPLACED), *(mutant.what for mutant in MUTANTS if mutant.kind == "drawn")]
    numbers = sorted(int(what.removeprefix("draw ").partition(":")[0]) for what in drawn)
    assert numbers == list(range(len(numbers)))


@BY_NAME
def test_a_mutant_can_still_be_planted(mutant: Mutant) -> None:
    path, text = mutant.planted()
    assert text != path.read_text(encoding="utf-8")
    compile(text, str(path), "exec")


@BY_NAME
def test_the_tests_that_must_show_it_are_there(mutant: Mutant) -> None:
    assert mutant.tests
    if mutant.kind == "process":
        named(*mutant.tests)
        return
    for test in mutant.tests:
        file, _, function = test.partition("[")[0].partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {function}\(", text, re.MULTILINE), test


@pytest.mark.parametrize(
    "change",
    [
        {"symbol": "masquerade_core.no_such_module:f"},
        {"symbol": "masquerade_host.channel:Channel.no_such_method"},
        {"old": "what does not stand there"},
        {"old": "self."},
    ],
)
def test_what_does_not_apply_is_an_error(change: dict[str, Any]) -> None:
    whole = Mutant("a bug", "mended", "masquerade_host.channel:Channel.take", "self.taken += 1", "pass", ())
    assert "pass" in whole.planted()[1]
    with pytest.raises(AssertionError):
        replace(whole, **change).planted()


def test_a_symbol_is_found_with_its_decorators_and_within_its_class_alone() -> None:
    text = "x = 1\nclass A:\n    @property\n    def f(self):\n        def g(): ...\n        return 1\ndef f(): ...\n"
    at = {name: text[slice(*span_of(f"module:{name}", text))] for name in ("x", "A.f", "A.f.g", "f")}
    assert at["x"] == "x = 1\n"
    assert at["A.f"].startswith("    @property\n")
    assert at["A.f"].endswith("return 1\n")
    assert at["A.f.g"] == "        def g(): ...\n"
    assert at["f"] == "def f(): ...\n"


def test_code_that_has_moved_is_found_again_by_its_text(tmp_path: Path) -> None:
    """A method of the same name stands elsewhere, with another text."""
    package = tmp_path / "src" / "pack"
    package.mkdir(parents=True)
    (package / "one.py").write_text("class A:\n    def f(self):\n        return 1\n")
    (package / "two.py").write_text(
        "class B:\n    def f(self):\n        return 2\n    def g(self):\n        return 2\n"
    )
    moved = Mutant("a bug", "mended", "pack.old:A.f", "return 1", "return 3", ())
    assert place_now(moved, tmp_path) == ["pack.one:A.f"]
    assert place_now(replace(moved, symbol="pack.old:f"), tmp_path) == ["pack.one:A.f"]
    assert place_now(replace(moved, symbol="pack.old:h", old="return 2"), tmp_path) == ["pack.two:B.f", "pack.two:B.g"]
    assert place_now(replace(moved, symbol="pack.old:g", old="return 2"), tmp_path) == ["pack.two:B.g"]
    assert place_now(replace(moved, old="return 4"), tmp_path) == []

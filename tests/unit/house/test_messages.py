"""The table of messages: each text stands in its module, and each key is used by a test."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests import ROOT
from tests.messages import ENTRIES, pattern, raises, says, sentence
from tests.prose import compares_prose, count
from tests.trees import nodes

_FOLDERS = (ROOT / "src", ROOT / "parties", ROOT / "curator", ROOT / "protocols")


def _file(module: str) -> Path:
    """Return the file of a module, or of a template that is named by its path below a package."""
    name = module if "/" in module else module.replace(".", "/")
    for folder in _FOLDERS:
        for path in (folder / name, folder / f"{name}.py", folder / name / "__init__.py"):
            if path.is_file():
                return path
    raise FileNotFoundError(f"tests/messages.toml has a section for {module}, which is no module and no template")


@cache
def _texts(path: Path) -> tuple[str, ...]:
    """Return every string of a file, with ``{}`` for what is computed, and blanks instead of ends of lines.

    What is computed stands in an f-string, or has a name in a text that ``format`` fills in, such as ``{rounds:,}``.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return (" ".join(re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "{}", text).split()),)
    return tuple(
        " ".join(_joined(node).split())
        for node in nodes(ast.parse(text))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )


def _joined(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_joined(value) for value in node.values)
    return re.sub(r"\{[A-Za-z]\w*(:[^{}]*)?\}", "{}", str(node.value)) if isinstance(node, ast.Constant) else "{}"


@pytest.mark.parametrize(("module", "key", "text"), ENTRIES, ids=[key for _, key, _ in ENTRIES])
def test_each_text_stands_in_its_module(module: str, key: str, text: str) -> None:
    wanted = " ".join(text.split())
    assert any(wanted in each for each in _texts(_file(module))), f"{module} does not say what {key} has"


def test_a_key_stands_once_and_is_used() -> None:
    keys = [key for _, key, _ in ENTRIES]
    assert len(keys) == len(set(keys))
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert set(keys) - set(re.findall(r"(?<=[\"'])\w+(?=[\"'])", tests)) == set()


def test_a_sentence_is_found_across_lines_and_with_its_values_only() -> None:
    error = ValueError("p1 sent 'beat'\n  out of turn. While")
    assert says(str(error), "out_of_turn", "p1", "'beat'", "")
    assert says(str(error), "out_of_turn", ..., ..., "")
    assert not says(str(error), "out_of_turn", "p2", "'beat'", "")
    with raises(ValueError, "out_of_turn", "p1", ..., ...):
        raise error
    assert sentence("out_of_turn", "p1", "'beat'", "") == "p1 sent 'beat' out of turn. While"
    with pytest.raises(ValueError, match="3 places"):
        pattern("out_of_turn", "p1")


def test_few_tests_compare_prose() -> None:
    tests, prose = count()
    assert prose.total() < 0.08 * tests.total()


def test_prose_is_found_where_it_is_compared_and_only_there() -> None:
    found = {
        "assert 'three words here' in text": True,
        "assert 'two words' in text": False,
        "with pytest.raises(ValueError, match='x'): pass": True,
        "text = 'three words here'": False,
    }
    for line, prose in found.items():
        text = f"def test_it():\n    {line}"
        assert compares_prose(ast.parse(text), text) is prose

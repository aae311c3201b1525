"""The closure of a default party and of Charlie: the modules that each loads are listed by name.

``tests/closure.toml`` is the list. It also has every import that one of these modules makes later, in a function or by
a name in a string: such an import loads what only some studies need. ``python -m tests.closure --write`` writes the
file anew, from a run between real processes; ``tests/system/test_closure.py`` compares it with four such runs.
"""

from __future__ import annotations

import re
import sys

import pytest

from tests.closure import CHARLIE, LISTED, PARTY, late_imports
from tests.imports import closure_of, imports_in, modules_of

KINDS = (PARTY, CHARLIE)
MAIN = {PARTY: "masquerade_party.__main__", CHARLIE: "masquerade_curator.__main__"}
NEVER = re.compile(
    r"paillier|ciphertext|double|opening|parquet|arrow|sqlite|\.sql|databases|dask|cluster|scratch|streamed|"
    r"masquerade_lab|masquerade\.|serving|report$|metrics|proxy|passphrase|locked|new_keys|statistics|classifiers|"
    r"noiseless|expectation|comparing|store\.budget|approving"
)
"""Modules that no default run loads, under any name."""

PROTOCOL = "dp_whitened"
OTHERS = {"gmpy2", "msgpack", "nacl", "numpy", "pydantic", "pydantic_core", "typer", "zmq"}
"""Whose code a default run loads, Python's own aside."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_default_run_loads_follows_from_its_imports(kind: str) -> None:
    listed = set(LISTED[kind])
    asked = {late for name in listed for late in modules_of(name).late if late in listed}
    assert closure_of(MAIN[kind], *asked) == listed, "python -m tests.closure --write"


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_run_never_loads_what_its_study_does_not_name(kind: str) -> None:
    assert [name for name in LISTED[kind] if NEVER.search(name)] == []
    folders = {name.split(".")[1] for name in LISTED[kind] if re.match(r"masquerade_protocols\.\w+\.", name)}
    assert folders == {"blocks", PROTOCOL}


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_run_loads_few_other_distributions(kind: str) -> None:
    found = set().union(*(modules_of(name).others for name in LISTED[kind])) - sys.stdlib_module_names
    assert found <= OTHERS


def test_every_late_import_of_a_default_run_is_listed() -> None:
    assert late_imports() == LISTED["late"], "python -m tests.closure --write"


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    from masquerade_core import words",
        "def f():\n    import masquerade_core.words",
        "class C:\n    def f(self):\n        from masquerade_core.words import counted",
        'import_module("masquerade_core.words")',
        'f = late("masquerade_core.words", "counted")',
        'PLACES = {"x": "masquerade_core.words:counted"}',
    ],
)
def test_an_import_in_a_function_or_by_name_is_found(code: str) -> None:
    found = imports_in("masquerade_host.x", code)
    assert "masquerade_core.words" in found.late
    assert "masquerade_core.words" not in found.at_once


@pytest.mark.parametrize(
    "code", ["from masquerade_core.words import counted", "class C:\n    import masquerade_core.words"]
)
def test_an_import_at_once_is_no_late_one(code: str) -> None:
    found = imports_in("masquerade_host.x", code)
    assert "masquerade_core.words" in found.at_once
    assert "masquerade_core.words" not in found.late


@pytest.mark.parametrize("code", ['"""masquerade_core.words"""', "if TYPE_CHECKING:\n    import masquerade_core.words"])
def test_an_explanation_and_an_import_for_types_load_nothing(code: str) -> None:
    assert imports_in("masquerade_host.x", code).late == frozenset()

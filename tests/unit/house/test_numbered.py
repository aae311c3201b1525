"""Two programs whose numbers are equal make a run: so a number changes whenever known answers do."""

from __future__ import annotations

import pytest

from masquerade_protocols import MEASUREMENTS, PROTOCOLS
from tests import numbered

COMMITTED = numbered.committed()


def test_the_wires_number_changes_with_its_vectors() -> None:
    assert numbered.stale(COMMITTED["wire"], numbered.wire()) == ""


def test_every_protocol_has_answers() -> None:
    assert set(COMMITTED["protocols"]) == set(PROTOCOLS | MEASUREMENTS)


@pytest.mark.parametrize("name", PROTOCOLS | MEASUREMENTS)
def test_a_protocols_number_changes_with_its_answers(name: str) -> None:
    """Another release, or another message, under the same number is refused; last digits are no other release."""
    before, now = COMMITTED["protocols"][name], numbered.protocol(name)
    assert numbered.stale(before, now) == ""
    other = [value * 1.001 + 0.001 for value in now["released"]]
    assert "raise it by one" in numbered.stale(before, {**now, "released": other})
    assert "raise it by one" in numbered.stale(before, {**now, "said": "something else"})
    assert "writes it anew" in numbered.stale(before, {**now, "number": now["number"] + 1})
    assert numbered.stale(before, {**now, "released": [value * (1 + 1e-12) for value in now["released"]]}) == ""

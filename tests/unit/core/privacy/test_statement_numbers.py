"""No number of any privacy statement changed when the statements moved to their protocols' folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.statement_studies import numbers, studies

ROUNDED = 1e-9
"""Fourier transforms round as the processor's vector instructions do: two processors were up to 1.3e-10 apart."""

BEFORE: dict[str, list[list[Any]]] = json.loads(Path("tests/statement_numbers.json").read_text(encoding="utf-8"))


def test_every_study_of_the_file_is_compared() -> None:
    assert [name for name, _ in studies()] == list(BEFORE)


@pytest.mark.parametrize("protocol", sorted({name.split()[0] for name in BEFORE}))
def test_every_row_has_the_numbers_that_it_had(protocol: str) -> None:
    for name, text in studies():
        if name.split()[0] == protocol:
            after = json.loads(json.dumps(numbers(text)))
            assert len(after) == len(BEFORE[name]), name
            for row, before in zip(after, BEFORE[name], strict=True):
                assert row[0] == before[0], name
                assert row[1:3] == [
                    value if value is None else pytest.approx(value, rel=ROUNDED) for value in before[1:3]
                ]
                kept = [
                    [[number for number in part if number != "0"] for part in parts] for parts in (row[3:], before[3:])
                ]
                assert kept[0] == kept[1], name  # "for 0 colluding parties" may have become "for no"

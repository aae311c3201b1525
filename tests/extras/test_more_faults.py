"""More schedules of faults than ``test_faults.py`` has: a run ends with the model of a run without faults."""

from __future__ import annotations

import pytest

from tests.faulty import CHECKS, PLAYS

MORE = 150
"""Schedules of each protocol. The rarest bug that test_faults.py plants shows in one of some 40."""
_CHUNK = 25


@pytest.mark.parametrize("first", range(0, MORE, _CHUNK))
@pytest.mark.parametrize("name", PLAYS)
def test_a_run_with_other_faults_ends_with_the_model_of_a_run_without(name: str, first: int) -> None:
    for seed in range(first, first + _CHUNK):
        CHECKS["kills" if seed % 2 else "network"](name, seed)

"""Runs between processes against oracles in the clear, which take the noise from copies of the participants' stores.

:mod:`tests.oracle_cases` has the runs; ``test_between_processes.py`` has the few that ``make test`` runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import Nursery
from tests.oracle_cases import REST, check
from tests.stores import Case, run_case


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One process that forks all participants of this file."""
    found = Nursery()
    yield found
    found.close()


@pytest.mark.parametrize("case", REST, ids=str)
def test_a_run_releases_what_its_oracle_computes_under_noise_of_the_right_size(
    case: Case, tmp_path: Path, nursery: Nursery
) -> None:
    check(run_case(case, tmp_path, nursery))


def test_processes_that_are_stopped_from_outside_hold_the_noise_as_well(tmp_path: Path, nursery: Nursery) -> None:
    """Nothing of these processes is changed: SIGSTOP comes from outside, in an early one of many rounds."""
    case = Case("many rounds", "psgd", "paper", "rounds = 300", levels=144)
    ran = run_case(case, tmp_path, nursery, stop={"p2": "gradient 3"})
    drawn = ran.rows("p2")
    assert {"eta", "rho"} <= set(drawn)
    assert "gradient 299" not in drawn  # it was stopped before the end
    check(ran)

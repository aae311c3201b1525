"""A few runs between processes against oracles in the clear."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from masquerade_protocols.registry import PROTOCOLS
from tests.forked import Nursery
from tests.oracle_cases import ALL, QUICK, check, check_nothing_is_left
from tests.scales import draws_of
from tests.stores import Case, Ran, run_case


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One process that forks all participants of this file."""
    found = Nursery()
    yield found
    found.close()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Ran:
    """A short run that has ended."""
    case = Case("short", "psgd", "paper", "rounds = 3", levels=144)
    return run_case(case, tmp_path_factory.mktemp("finished"), nursery)


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_a_run_releases_what_its_oracle_computes_under_noise_of_the_right_size(
    case: Case, tmp_path: Path, nursery: Nursery
) -> None:
    check(run_case(case, tmp_path, nursery))


def test_after_the_end_nothing_that_was_drawn_can_be_had_from_a_state_folder(finished: Ran, tmp_path: Path) -> None:
    check_nothing_is_left(finished)
    # The test can fail: a journal that were merely given another name would be found.
    shutil.copytree(finished.after, tmp_path / "after")
    (journal,) = (finished.before / "p1").rglob("journal.sqlite")
    shutil.copy(journal, tmp_path / "after" / "p1" / "kept.bin")
    careless = Ran(**{**vars(finished), "after": tmp_path / "after"})
    with pytest.raises(AssertionError, match="has left what it drew"):
        check_nothing_is_left(careless)


def test_noise_that_is_30_per_cent_off_is_rejected(finished: Ran) -> None:
    for draws in draws_of(finished):
        assert draws.accepts()
        assert not draws.accepts(0.7)
        assert not draws.accepts(1.3)
        assert min(draws.power(0.7), draws.power(1.3)) > 0.99


# --- What the runs cover ------------------------------------------------------------------


def test_every_protocol_runs_with_each_of_its_calibrations() -> None:
    covered = {(case.protocol, case.calibration) for case in ALL}
    assert covered == {(name, calibration) for name in PROTOCOLS for calibration in PROTOCOLS[name].calibrations}


def test_every_protocol_runs_under_masks_and_under_encryption() -> None:
    covered = {(case.protocol, case.key_bits > 0) for case in ALL}
    # Pathak's protocol makes no secure sum: its shares are its own.
    assert {(name, by) for name in PROTOCOLS for by in (False, True)} - covered == {("local-aggregation", False)}


def test_pairs_of_options_are_covered() -> None:
    options: dict[str, Callable[[Case], Any]] = {
        "calibration": lambda case: case.calibration,
        "loss": lambda case: case.loss,
        "sum": lambda case: "paillier" if case.key_bits else "masks",
        "colluders": lambda case: case.colluders > 0,
        "classes": lambda case: case.classes > 0,
    }
    impossible = {
        # Named classes have the logistic loss alone, and the paper's calibration knows no colluders.
        (("loss", "sigmoid"), ("classes", True)),
        (("loss", "smoothed-hinge"), ("classes", True)),
        (("calibration", "paper"), ("colluders", True)),
    }
    seen = {pair for case in ALL for pair in combinations([(name, of(case)) for name, of in options.items()], 2)}
    values = [sorted({(name, of(case)) for case in ALL}) for name, of in options.items()]
    wanted = {(a, b) for one, other in combinations(values, 2) for a in one for b in other}
    assert wanted - seen <= impossible, sorted(wanted - seen - impossible)

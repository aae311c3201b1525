"""Auxiliary records: bound to the study by their hash, read beside it, the same for everybody."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from masquerade_core.data.auxiliary import Auxiliary, check_auxiliary
from masquerade_core.errors import BadInput, LocalProtocolError
from masquerade_core.study import Study
from masquerade_core.study_files import load_study
from tests.messages import raises
from tests.unit.core.study.test_study import GOOD

RECORDS = "radius_mean,sex\n10,f\n20,m\n40,f\n"


def text(records: int = 3, content: str = RECORDS) -> str:
    digest = hashlib.sha256(content.encode()).hexdigest()
    table = f'[protocol.auxiliary]\nfile = "aux.csv"\nsha256 = "{digest}"\nrecords = {records}\n\n[label]'
    return GOOD.replace("[label]", table, 1)


def test_they_are_read_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(text())
    (tmp_path / "aux.csv").write_text(RECORDS)
    study, auxiliary = load_study(tmp_path / "study.toml")
    assert auxiliary is not None
    assert auxiliary.X.shape == (3, study.d)
    assert (np.linalg.norm(auxiliary.X, axis=1) <= 1 + 1e-12).all()
    assert auxiliary.digest == hashlib.sha256(RECORDS.encode()).digest()
    assert study == Study.parse(text())


def test_a_study_without_any_has_none(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(GOOD)
    study, auxiliary = load_study(tmp_path / "study.toml")
    assert study == Study.parse(GOOD)
    assert auxiliary is None
    check_auxiliary(study, None)
    with raises(BadInput, "auxiliary_not_wanted"):
        check_auxiliary(study, Auxiliary.from_unit_ball(np.zeros((3, study.d))))


def test_a_study_that_names_records_is_refused_without_them() -> None:
    with raises(BadInput, "auxiliary_not_given") as caught:
        check_auxiliary(Study.parse(text()), None)
    assert "aux.csv" in caught.value.message


def test_other_records_are_refused(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(text())
    with raises(BadInput, "file_missing", "file of auxiliary records"):
        load_study(tmp_path / "study.toml")
    (tmp_path / "aux.csv").write_text(RECORDS + "30,m\n")
    with raises(BadInput, "other_auxiliary", ..., ...):
        load_study(tmp_path / "study.toml")
    (tmp_path / "aux.csv").write_text(RECORDS)
    (tmp_path / "study.toml").write_text(text(records=4))
    with raises(BadInput, "auxiliary_number_differs", 3):
        load_study(tmp_path / "study.toml")


def test_other_columns_are_refused(tmp_path: Path) -> None:
    other = RECORDS.replace("radius_mean", "radius")
    (tmp_path / "study.toml").write_text(text(content=other))
    (tmp_path / "aux.csv").write_text(other)
    with raises(BadInput, "file_lacks_column", "'radius_mean'"):
        load_study(tmp_path / "study.toml")


def test_arrays_are_bound_by_their_hash_too() -> None:
    study = Study.parse(text())
    X = np.zeros((3, study.d))
    given = Auxiliary.from_unit_ball(X)
    assert given.digest != Auxiliary.from_unit_ball(X.reshape(study.d, 3)).digest
    with raises(BadInput, "other_auxiliary", ..., ...):
        check_auxiliary(study, given)
    digest = hashlib.sha256(RECORDS.encode()).hexdigest()
    bound = Study.parse(text().replace(digest, given.digest.hex()))
    check_auxiliary(bound, given)
    with pytest.raises(LocalProtocolError):
        Auxiliary.from_unit_ball(np.ones((3, study.d)))

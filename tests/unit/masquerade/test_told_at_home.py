"""A data owner's report on its own records, on its own screen: by the party's process, and by the doctor."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade import doctor
from masquerade.report import _most_records
from masquerade_core.data.records import Repaired
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import RefusedLocally
from masquerade_host.process.progress import Mode, Progress
from masquerade_host.store.ledger import Account
from masquerade_party._records import tell_the_owner, tell_what_was_got
from masquerade_protocols import protocol_of
from tests.messages import raises, says
from tests.unit.core.data.test_records import _study


def _told(data: object) -> list[tuple[str, dict[str, Any]]]:
    events: list[tuple[str, dict[str, Any]]] = []

    def observe(event: str, /, **fields: str | float) -> None:
        events.append((event, fields))

    tell_the_owner(data, observe)
    return events


def _data(y: list[float], repaired: Repaired) -> Dataset:
    return Dataset(np.zeros((len(y), 4)), np.array(y), None, repaired)


def test_the_owner_is_told_of_cells_that_do_not_fit_and_of_one_class() -> None:
    assert _told(_data([1, -1], Repaired())) == []
    assert _told(object()) == []
    assert _told(_data([1, -1], Repaired(3, 4))) == [("repaired", {"clamped": 3, "filled": 4})]
    assert _told(_data([1, 1], Repaired())) == [("one_class", {})]


def _account(spent: float, left: float) -> Account:
    return Account("default", 10.0, 1e-5, False, spent, spent, left, 1e-5, ())


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        ({}, ["Of the budget of 'default', epsilon = 3 is spent, this study included; 7 is left."]),
        (
            {
                "published": {"records": 1234.4},
                "evaluation": {"error": {"value": 0.1234, "low": 0.1, "high": 0.15}},
            },
            [
                "The release rests on 1,234 records of all parties.",
                "On records that were held back the model's error is 12.3%; 10.0% to 15.0% with 95 % confidence.",
                "Of the budget of 'default', epsilon = 3 is spent, this study included; 7 is left.",
            ],
        ),
        (
            {"evaluation": {"error": {"value": None, "low": 0.0, "high": 1.0}}},
            [
                (
                    "On records that were held back the model's error is lost in the noise; 0.0% to 100.0% with 95 % "
                    "confidence."
                ),
                "Of the budget of 'default', epsilon = 3 is spent, this study included; 7 is left.",
            ],
        ),
    ],
    ids=["a budget alone", "all", "an error that cannot be told"],
)
def test_the_last_screen_says_what_was_got_and_what_it_took(summary: dict[str, Any], said: list[str]) -> None:
    out = io.StringIO()
    tell_what_was_got(summary, _account(3.0, 7.0), Progress(Mode.TEXT, out, out))
    assert out.getvalue().splitlines() == said


@pytest.mark.parametrize("mode", [Mode.TEXT, Mode.JSON])
def test_the_screen_says_how_many(mode: Mode) -> None:
    out = io.StringIO()
    progress = Progress(mode, out, out)
    progress("repaired", clamped=3, filled=4)
    progress("one_class")
    first, second = out.getvalue().splitlines()
    if mode is Mode.JSON:
        assert json.loads(first) == {"event": "repaired", "clamped": 3, "filled": 4}
        assert json.loads(second) == {"event": "one_class"}
    else:
        assert says(first, "cells_told", 3, 4)
        assert says(second, "one_label_told")


@pytest.mark.parametrize(
    ("lines", "verdict", "words"),
    [
        (["7,m,malignant", "8,f,benign", "9,f,benign"], "ok", "its values are within the bounds"),
        (
            ["99,m,malignant", ",f,benign", *["9,f,benign"] * 8],
            "ok",
            "1 number out of bounds will count as the bound, and 1 cell will be filled with the study's value",
        ),
    ],
)
def test_the_doctor_says_it_beforehand(tmp_path: Path, lines: list[str], verdict: str, words: str) -> None:
    study = _study()
    (tmp_path / "d.csv").write_text("radius,sex,diagnosis\n" + "".join(f"{line}\n" for line in lines))
    check, _ = doctor._records(tmp_path / "d.csv", study, protocol_of(study), "a")
    assert (check.verdict, check.message.endswith(words)) == (verdict, True)


@pytest.mark.parametrize(
    ("lines", "column"),
    [
        (["7,m,malignant"] * 3, "diagnosis"),
        (["7,x,malignant", *["9,f,benign"] * 8], "sex"),
        (["99,m,malignant", "9,f,benign", "8,f,benign"], "radius"),
    ],
    ids=["one class", "another level", "another unit"],
)
def test_the_doctor_does_not_call_a_mistake_ok(tmp_path: Path, lines: list[str], column: str) -> None:
    study, path = _study(), tmp_path / "d.csv"
    path.write_text("radius,sex,diagnosis\n" + "".join(f"{line}\n" for line in lines))
    check, records = doctor._records(path, study, protocol_of(study), "a")
    assert (check.verdict, says(check.message, "looks_like_a_mistake", "d.csv")) == ("fail", True)
    assert f"--accept {column}" in check.hint
    assert records is not None  # the budget is looked at nevertheless
    assert doctor._records(path, study, protocol_of(study), "a", [column])[0].verdict == "ok"


def test_the_doctor_knows_the_party_s_own_largest_number(tmp_path: Path) -> None:
    study = _study(('name = "b"\n', 'name = "b"\nmax_records = 4\n'))
    (tmp_path / "d.csv").write_text("radius,sex,diagnosis\n" + "7,m,malignant\n8,f,benign\n" * 3)
    for me, verdict in (("a", "ok"), ("b", "fail"), (None, "ok"), ("charlie", "ok")):
        assert doctor._records(tmp_path / "d.csv", study, protocol_of(study), me)[0].verdict == verdict
    data = protocol_of(study).records.one(tmp_path / "d.csv", study)
    with raises(RefusedLocally, "more_than_allowed", ..., 4):
        protocol_of(study).records.check(data, study, "d.csv", "b")


@pytest.mark.parametrize(
    ("study_s", "own", "words"),
    [
        ("", "", ""),
        ("\nmax_records = 5000", "", " and at most 5,000"),
        ("", "max_records = 70\n", " and at most the max"),
    ],
)
def test_the_plain_words_say_how_many_records_are_too_many(study_s: str, own: str, words: str) -> None:
    study = _study(("min_records = 3", f"min_records = 3{study_s}"), ('name = "b"\n', f'name = "b"\n{own}'))
    said = _most_records(study)
    assert said.startswith(words)
    assert bool(said) is bool(words)

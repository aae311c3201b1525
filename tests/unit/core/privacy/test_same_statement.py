"""Two privacy statements are the same where they claim the same, in whatever words."""

import json
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

import pytest

from masquerade_core.privacy.same_statement import difference, same_words
from masquerade_core.privacy.statement import BREAKS, COMPUTATIONAL, FOLLOWS, NONE, NOT_PROMISED, Claim
from masquerade_core.study import Study
from masquerade_protocols import statement_of
from tests.statement_studies import studies

ROW = Claim(
    view="Charlie with 2 parties",
    unit="record",
    neighbours="replace one record, all sizes fixed",
    definition=COMPUTATIONAL,
    claimed="approximate, epsilon = 1, delta = 1e-05: the privacy target, for 2 colluding parties",
    provable="epsilon = 1.5, delta = 1e-05",
    epsilon=1.5,
    delta=1e-05,
    holds_at='calibration = "proven" and colluders = 1,000 in the study',
    source="docs/privacy/dp-gd.md; Balle and Wang 2018, Theorem 8",
    assumptions=("everybody follows the protocol", "every party has at least 50 records", "nobody looked"),
    text='The noise is that of 3 parties, so they gain 1.5 at most, as "refuse" tells nothing. 3 are enough.',
    adversary=FOLLOWS,
)
SECOND = replace(
    ROW, definition=NONE, claimed=f"{NOT_PROMISED}; nothing is proved", provable=NONE, epsilon=None, delta=None
)
STATEMENT = [ROW.to_json(), SECOND.to_json()]


def with_row(**values: Any) -> list[dict[str, Any]]:
    """Return the statement with other values in its first row."""
    rows = deepcopy(STATEMENT)
    rows[0] |= values
    return rows


def test_a_statement_is_the_same_as_itself() -> None:
    assert difference(deepcopy(STATEMENT), STATEMENT) == ""
    assert same_words(deepcopy(STATEMENT), STATEMENT)


@pytest.mark.parametrize(
    "words",
    [
        {"claimed": "approximate: epsilon = 1 and delta = 1e-05, which is the target, with 2 on his side"},
        {"provable": "epsilon = 1.5 and delta = 1e-05, of every party"},
        {"holds_at": 'calibration = "proven", colluders = 1000 in your study'},
        {"assumptions": ["all obey the protocol", "no party has less than 50 records", "no one looked"]},
        {"text": '"refuse" tells nothing. The noise of 3 parties allows them to gain no more than 1.5.'},
    ],
)
def test_other_words_are_the_same_statement(words: dict[str, Any]) -> None:
    assert difference(with_row(**words), STATEMENT) == ""
    assert not same_words(with_row(**words), STATEMENT)


CHANGES: list[dict[str, Any]] = [
    {"view": "Charlie with 3 parties"},
    {"view": "Charlie and 2 parties"},
    {"unit": "party"},
    {"neighbours": "add one record"},
    {"definition": "approximate"},
    {"claimed": "approximate, epsilon = 2, delta = 1e-05: the privacy target, for 2 colluding parties"},
    {"claimed": "approximate, epsilon = 1, delta = 1e-05: the privacy target, for 3 colluding parties"},
    {"claimed": "approximate, delta = 1, epsilon = 1e-05: the privacy target, for 2 colluding parties"},
    {"claimed": "pure, epsilon = 1, delta = 1e-05: the privacy target, for 2 colluding parties"},
    {"claimed": f"{NOT_PROMISED}, epsilon = 1, delta = 1e-05, for 2 colluding parties"},
    {"provable": "epsilon = 1.4, delta = 1e-05"},
    {"provable": NONE},
    {"epsilon": 1.5 * (1 + 2e-9)},
    {"epsilon": None, "delta": None},
    {"epsilon": "1.5"},
    {"delta": 1e-06},
    {"delta": 0.0},
    {"delta": float("nan")},
    {"holds_at": 'calibration = "paper" and colluders = 1,000 in the study'},
    {"holds_at": 'calibration = "proven" and colluders = 1,001 in the study'},
    {"holds_at": 'calibration = "proven" and attempts = 1,000 in the study'},
    {"source": "docs/privacy/dp-gd.md; Balle and Wang 2018, Theorem 9"},
    {"source": "by inspection"},
    {"assumptions": list(ROW.assumptions[:2])},
    {"assumptions": [*ROW.assumptions, "nobody is curious"]},
    {"assumptions": ["everybody follows the protocol", "every party has at least 51 records", "nobody looked"]},
    {"assumptions": "abc"},
    {"text": ROW.text.replace("1.5", "1.4")},
    {"text": ROW.text.replace("3 parties", "-3 parties")},
    {"text": ROW.text.replace("refuse", "clamp")},
    {"text": f"{ROW.text} It is 99 % safe."},
    {"text": None},
    {"adversary": BREAKS},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_row_that_claims_something_else_is_another_statement(change: dict[str, Any]) -> None:
    assert difference(with_row(**change), STATEMENT)
    assert difference(STATEMENT, with_row(**change))


def test_each_field_of_a_row_is_changed_above() -> None:
    assert {name for change in CHANGES for name in change} == {field.name for field in fields(Claim)}


@pytest.mark.parametrize(
    "rows",
    [
        STATEMENT[:1],
        STATEMENT[1:],
        [*STATEMENT, STATEMENT[0]],
        STATEMENT[::-1],
        [],
        None,
        {},
        [1, 2],
        [{**STATEMENT[0], "more": ""}, STATEMENT[1]],
        [{k: v for k, v in STATEMENT[0].items() if k != "text"}, STATEMENT[1]],
    ],
)
def test_other_rows_are_another_statement(rows: object) -> None:
    assert difference(rows, STATEMENT)
    assert difference(STATEMENT, rows)


def test_epsilon_may_differ_in_the_digits_that_a_numeric_library_decides() -> None:
    assert difference(with_row(epsilon=1.5000000000000002, delta=1.0000000000000002e-05), STATEMENT) == ""


def test_the_place_of_a_difference_is_said() -> None:
    rows = deepcopy(STATEMENT)
    rows[1]["source"] = "dream"
    assert difference(rows, STATEMENT) == f"in row 2, source is 'dream' instead of {ROW.source!r}"


def test_a_statement_of_every_protocol_is_the_same_after_a_file_held_it() -> None:
    seen = set()
    for name, text in studies():
        kind = tuple(name.split()[:3])
        if kind not in seen:
            seen.add(kind)
            rows = [claim.to_json() for claim in statement_of(Study.parse(text, in_memory=True))]
            assert difference(json.loads(json.dumps(rows)), rows) == "", name
    assert len(seen) > 30

"""Each error has the exit code that the command line documents."""

import inspect

import pytest

from masquerade_core import errors
from masquerade_core.errors import (
    ClaimRefuted,
    DeadlinePassed,
    Grounds,
    MasqueradeError,
    ProtocolViolation,
    Reported,
    StateCopied,
    SumRefused,
)

DOCUMENTED = {
    "RunFailed": (1, "run_failed"),
    "SumRefused": (1, "run_failed"),
    "Reported": (1, "run_failed"),
    "ClaimRefuted": (1, "run_failed"),
    "StateCopied": (1, "run_failed"),
    "Damaged": (1, "run_failed"),
    "CannotConnect": (2, "cannot_connect"),
    "DeadlinePassed": (3, "deadline_passed"),
    "BadInput": (4, "bad_input"),
    "LocalProtocolError": (5, "bug"),
    "RefusedLocally": (6, "refused_locally"),
    "OlderCopy": (6, "refused_locally"),
    "ProgramChanged": (6, "refused_locally"),
    "BudgetExceeded": (7, "budget_exceeded"),
    "ProtocolViolation": (8, "protocol_violation"),
}


def test_every_error_has_its_documented_code() -> None:
    found = {
        name: (kind.exit_code, kind.error_code)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, MasqueradeError) and kind is not MasqueradeError
    }
    assert found == DOCUMENTED
    assert set(errors.__all__) == {*DOCUMENTED, "MasqueradeError"}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_an_error_carries_its_sentence_and_its_hint(name: str) -> None:
    error = getattr(errors, name)("seen", "to do")
    assert isinstance(error, MasqueradeError)
    assert (str(error), error.message, error.hint) == ("seen", "seen", "to do")
    assert getattr(errors, name)("seen").hint == ""


def test_a_deadline_and_a_violation_name_names() -> None:
    assert DeadlinePassed("x", waited_for=("a", "b")).waited_for == ("a", "b")
    assert DeadlinePassed("x").waited_for == ()
    assert ProtocolViolation("x", peer="a").peer == "a"
    assert ProtocolViolation("x").peer == ""


def test_what_names_participants_has_grounds_each_with_what_it_proves_and_what_not() -> None:
    assert [kind.words for kind in Grounds] == [
        "checked here",
        "said by another",
        "not answered in time",
        "cannot be told",
    ]
    assert all(s.endswith(".") and s.count(". ") == 0 for kind in Grounds for s in (kind.proves, kind.proves_not))
    assert ProtocolViolation("x", peer="p1").grounds is Grounds.CHECKED
    assert ProtocolViolation("x", suspects=("p1", "p2")).grounds is Grounds.UNTOLD
    assert ProtocolViolation("x").grounds is SumRefused("x").grounds is Grounds.UNTOLD
    assert Reported("x", said_by="p1").grounds is ClaimRefuted("x", said_by="p1").grounds is Grounds.SAID
    assert StateCopied("x", copied=("p1",)).grounds is Grounds.UNTOLD
    assert DeadlinePassed("x", waited_for=("p1",)).grounds is Grounds.SILENT
    assert DeadlinePassed("x").grounds is Grounds.UNTOLD
    assert MasqueradeError("x").grounds is None

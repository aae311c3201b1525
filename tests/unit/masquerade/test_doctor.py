"""The doctor's report on the machine's speed, with a clock that the test sets, and on the conversation."""

from __future__ import annotations

import pytest

from masquerade import doctor
from masquerade_core.words import counted
from masquerade_protocols import Cost
from tests.messages import says, sentence
from tests.protocol_helpers import make_study


@pytest.mark.parametrize(
    ("seconds", "verdict", "said"), [(0.099, "ok", "99 ms for an exponentiation"), (0.101, "warn", "101 ms")]
)
def test_an_exponentiation_of_more_than_a_tenth_of_a_second_is_slow(
    seconds: float, verdict: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "seconds_of_exponentiation", lambda _bits: seconds)
    check = doctor._arithmetic(make_study(5, 3), Cost(0, 1, 1, 1, exponentiations=80.0))
    assert (check.verdict, check.name) == (verdict, "arithmetic")
    assert said in check.message
    assert says(check.message, "for_all_participants", f"{80 * seconds:.1f}")
    assert (says(check.hint, "slow_or_busy")) is (verdict == "warn")


def test_a_run_that_encrypts_nothing_is_never_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "seconds_of_exponentiation", lambda _bits: 1.0)
    check = doctor._arithmetic(make_study(5, 3), Cost(1, 0, 0, 5, exponentiations=0.0))
    assert check.verdict == "ok"
    assert says(check.message, "encrypts_nothing", ...)


def test_the_conversation_is_told_in_numbers_with_their_nouns() -> None:
    told = [doctor._conversation(Cost(sums, 0, sent, 1, 0.0)).message for sums, sent in ((1, 0), (0, 12_000))]
    assert told == [
        sentence("conversation_told", "1 time", counted(1, "secure sum"), "no ciphertexts"),
        sentence("conversation_told", "1 time", counted(0, "secure sum"), "12,000 ciphertexts"),
    ]

"""The doctor's report on the machine's speed, with a clock that the test sets, and on the conversation."""

from __future__ import annotations

import pytest

from masquerade import doctor
from masquerade_protocols import Cost
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
    assert f"about {80 * seconds:.1f} s for those of all participants" in check.message
    assert ("slow or busy" in check.hint) is (verdict == "warn")


def test_a_run_that_encrypts_nothing_is_never_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "seconds_of_exponentiation", lambda _bits: 1.0)
    check = doctor._arithmetic(make_study(5, 3), Cost(1, 0, 0, 5, exponentiations=0.0))
    assert check.verdict == "ok"
    assert check.message.endswith("this run encrypts nothing and needs none")


def test_the_conversation_is_told_in_numbers_with_their_nouns() -> None:
    told = [doctor._conversation(Cost(sums, 0, sent, 1, 0.0)).message for sums, sent in ((1, 0), (0, 12_000))]
    wait = "Charlie and the parties wait for each other 1 time; all in all they make"
    assert told == [
        f"{wait} 1 secure sum and send no ciphertexts",
        f"{wait} no secure sums and send 12,000 ciphertexts",
    ]

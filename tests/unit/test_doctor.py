"""What the doctor says of the machine's speed, by a clock that the test sets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from masquerade import doctor
from tests.protocol_helpers import make_study


@pytest.mark.parametrize(
    ("seconds", "verdict", "said"), [(0.099, "ok", "99 ms for an exponentiation"), (0.101, "warn", "101 ms")]
)
def test_an_exponentiation_of_more_than_a_tenth_of_a_second_is_slow(
    seconds: float, verdict: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "time", SimpleNamespace(perf_counter=iter((7.0, 7.0 + seconds)).__next__))
    check = doctor._arithmetic(make_study(5, 3))
    assert (check.verdict, check.name) == (verdict, "arithmetic")
    assert said in check.message
    assert ("slow or busy" in check.hint) is (verdict == "warn")

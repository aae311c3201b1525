"""Re-signed mutants of true frames, over all protocols and roles: a few of those that the command tries."""

from __future__ import annotations

from collections import Counter
from typing import NoReturn

import pytest

from masquerade_core.errors import ProtocolViolation
from masquerade_core.wire import codec
from masquerade_core.wire.frames import Endpoint, Frame
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_protocols.registry import MEASUREMENTS, PROTOCOLS
from tests.mutated_frames import PLAYS, Case, cases, play_case, play_of

SAMPLE, CHUNK = 420, 42  # each participant of each protocol has five turns


@pytest.mark.parametrize("first", range(0, SAMPLE, CHUNK))
def test_nobody_hangs_nothing_foreign_is_raised_and_nobody_innocent_is_named(first: int) -> None:
    wrong = [played for case in cases(CHUNK, first) if (played := play_case(case)).wrong]
    assert not wrong, "\n".join(f"{tuple(p.case)} {p.told}: {p.wrong}" for p in wrong)


@pytest.mark.parametrize(
    "case",
    [Case("decaying-budget", "p1", 28_361), Case("local-aggregation, floor", "p1", 29_813)],
    ids=lambda case: case.play,
)
def test_a_frame_that_is_wrong_by_itself_accuses_nobody_of_a_copied_state(case: Case) -> None:
    """A party sends what Charlie alone may send, under a number that it has used: it is convicted, and he is not."""
    played = play_case(case)
    assert not played.wrong
    assert {getattr(error, "peer", "") for error in played.errors.values()} == {case.guilty}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Case("retries", "p2", 42_150), id="p2 sends p3's first contribution once more, and Charlie's file has both"
        ),
        pytest.param(Case("psgd", "p2", 44_654), id="p2 says at the end that somebody was late"),
    ],
)
def test_evidence_of_a_run_whose_sums_were_well_made_speaks_against_nobody_else(case: Case) -> None:
    assert not play_case(case).wrong


def test_whoever_says_that_it_refused_a_sum_puts_nobody_else_under_suspicion() -> None:
    """p2 ends the run in place of its last frame, and says that somebody unknown broke the protocol."""
    case = Case("dp-gd, evaluated", "p2", 6_942)
    played = play_case(case)
    assert not played.wrong
    assert {getattr(error, "said_by", "") for error in played.errors.values()} == {case.guilty}


def test_every_protocol_and_every_role_has_its_turn() -> None:
    played = {play_of(name).world.study.study.protocol for name in PLAYS}
    assert played == {name for entries in (PROTOCOLS, MEASUREMENTS) for name in entries}
    turns = Counter((case.play, case.guilty) for case in cases(SAMPLE))
    assert turns.keys() == {(name, who) for name in PLAYS for who in (*play_of(name).world.study.names, "charlie")}
    assert set(turns.values()) == {5}


def _goes_wrong(what: str) -> bool:
    """Play until this goes wrong."""
    return any(line.startswith(what) for case in cases(SAMPLE) for line in play_case(case).wrong)


def test_an_innocent_who_is_named_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Endpoint.count

    def careless(self: Endpoint, hop: str, frame: Frame) -> bool:
        try:
            return count(self, hop, frame)
        except ProtocolViolation as error:
            error.peer = next(name for name in ("p1", "p0") if name != hop)
            raise

    monkeypatch.setattr(Endpoint, "count", careless)
    assert _goes_wrong("innocent")


def test_a_foreign_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(what: str, _peer: str) -> NoReturn:
        raise ValueError(what)

    monkeypatch.setattr(codec, "_violation", careless)
    assert _goes_wrong("foreign")


def test_somebody_who_is_held_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for session in (CharlieSession, PartySession):
        monkeypatch.setattr(session, "_check_dues", lambda *_: None)
    assert _goes_wrong("hangs")

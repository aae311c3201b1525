"""Networks that break and processes that die: a run ends as it would without faults, or ends for everybody."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any

import pytest

from masquerade_core.errors import DeadlinePassed, ProtocolViolation, RunFailed, StateCopied
from masquerade_core.seat import Once
from masquerade_core.wire.codec import unpack_plain
from masquerade_core.wire.frames import Endpoint, Frame
from masquerade_host.channel import Channel
from masquerade_host.process import driver
from masquerade_host.session.commits import Commits
from masquerade_host.session.party import PartySession
from masquerade_host.session.session import Session
from masquerade_host.store.journal import ReplayLog
from tests.faulty import (
    CHECKS,
    DEADLINE,
    OUTAGES,
    PLAYS,
    Fault,
    Group,
    Site,
    check_ends,
    check_kill_at,
    check_network,
    play,
    schedule_of_ends,
    without_faults,
)

SEEDS = 144
"""Schedules in all. tests/extras/test_more_faults.py takes 150 of each protocol, and ``make soak`` takes others."""
MOMENTS = int(os.environ.get("FAULT_MOMENTS", "12"))
"""Every so manyth moment is one at which a process dies."""


def seeds_of(name: str, end: int) -> range:
    """Return a protocol's share of the schedules before ``end``: no two protocols have one in common.

    Sessions and channels bear the same faults under every protocol, so another schedule shows more than the same one
    does under another protocol. There is an odd number of protocols: each gets schedules of both parities.
    """
    return range(PLAYS.index(name), end, len(PLAYS))


@pytest.mark.parametrize("name", PLAYS)
def test_a_run_with_faults_ends_with_the_model_of_a_run_without(name: str) -> None:
    """The network loses, delays, repeats and reorders; in every second schedule processes die as well."""
    seeds = seeds_of(name, SEEDS)
    assert len({seed % 2 for seed in seeds[:2]}) == 2
    for seed in seeds:
        CHECKS["kills" if seed % 2 else "network"](name, seed)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("name", PLAYS)
def test_a_process_that_dies_at_any_moment_goes_on_byte_for_byte_with_its_debits(name: str, place: int) -> None:
    """Each moment of ``dp-gd`` is tried: before and after each commit, debit and frame that leaves.

    Of the other protocols CI has time for some; ``FAULT_MOMENTS=1`` tries each.
    """
    who, moments = list(without_faults(name).moments.items())[place]
    assert moments > 15
    for moment in range(1, moments + 1, 1 if name == "dp-gd" else MOMENTS):
        check_kill_at(name, who, moment)


@pytest.mark.parametrize("commits", [1, 2, 4])
@pytest.mark.parametrize("who", ["p0", "p1"])
def test_a_party_whose_journal_is_an_older_copy_signs_nothing_twice_and_accuses_nobody(who: str, commits: int) -> None:
    """:meth:`Group.run` checks that no number of a frame has two contents; it draws other numbers the second time."""
    ended = 0
    for moment in range(1, without_faults("dp-gd").moments[who] + 1, 3):
        errors = check_kill_at("dp-gd", who, moment, commits).errors
        assert {type(error) for error in errors.values()} <= {RunFailed, StateCopied, DeadlinePassed}, (moment, errors)
        ended += bool(errors)
    assert ended


@pytest.mark.parametrize("name", PLAYS)
def test_where_the_outage_is_too_long_everybody_ends_and_nobody_is_accused(name: str) -> None:
    ended, long, short = 0, 4, 2  # schedules with an outage that may be too long, and without one
    for seed in seeds_of(name, 1000):
        lasts = any(fault.seconds > DEADLINE and fault.kind in OUTAGES for fault in schedule_of_ends(name, seed))
        if not (long if lasts else short):
            continue
        ended += bool(check_ends(name, seed).errors)
        long, short = long - lasts, short - (not lasts)
    assert (long, short) == (0, 0)
    assert ended  # else no outage was too long


@pytest.mark.parametrize("whom", [("p0",), ("p1", "p2"), ("p0", "p1", "p2")])
@pytest.mark.parametrize("kind", OUTAGES)
def test_a_partition_that_is_shorter_than_the_deadline_ends_nothing(kind: str, whom: tuple[str, ...]) -> None:
    expected = without_faults("dp-gd")
    for after, seconds in zip(range(0, expected.frames, 7), cycle((5.0, 30.0, 0.8 * DEADLINE)), strict=False):
        group = Group(play("dp-gd"), after, [Fault(after, kind, whom, seconds)])
        group.run()
        assert not group.errors, (after, {who: str(error) for who, error in group.errors.items()})
        assert group.files("charlie") == expected.files


@pytest.mark.parametrize("name", PLAYS)
def test_no_report_and_no_error_shows_what_a_role_drew(name: str) -> None:
    group = Group(play(name))
    group.run()
    assert not _shown(group)


def _shown(group: Group) -> set[str]:
    """Return the secrets that stand in reports, as text."""
    told = "\n".join(f"{event} {fields}" for _, event, fields in group.events)
    return {text for drawn in group.drawn for text in _texts(drawn) if text in told}


def _texts(value: Any) -> Iterator[str]:
    match value:
        case bytes() if len(value) >= 8:
            yield from (value.hex(), repr(value)[2:-1])
        case int() if abs(value) >= 1 << 32:
            yield from (str(value), f"{value:x}")
        case tuple() | list():
            for part in value:
                yield from _texts(part)
        case Mapping():
            for part in value.values():
                yield from _texts(part)


# --- Planted bugs: each is found by the schedules above ------------------------------------


def _delivers_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    count = Endpoint.count

    def no_deduplication(self: Endpoint, hop: str, frame: Frame) -> bool:
        count(self, hop, frame)
        return True

    monkeypatch.setattr(Endpoint, "count", no_deduplication)


def _ignores_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbered frames leave on a new connection before the other end has said what it lacks."""

    def put(self: Channel, data: bytes) -> None:
        self._frames.append(data)
        self.kept += len(data)
        self._send(data)

    monkeypatch.setattr(Channel, "put", put)


def _forgets_what_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    hear = Channel.hear

    def never_again(self: Channel, got: int) -> None:
        self.live = True
        hear(self, got)

    monkeypatch.setattr(Channel, "hear", never_again)


def _waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Session.__init__

    def unbounded(self: Session, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self.deadline = 1e9
        self.beat_every = 2.0

    monkeypatch.setattr(Session, "__init__", unbounded)


def _debits_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message's release is written down after the message has left."""
    post = Commits.post

    def late(self: Commits, run: bytes) -> None:
        for channel in self._ready.values():
            channel.flush()
        post(self, run)

    monkeypatch.setattr(Commits, "post", late)


def _draws_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart, numbers are drawn a second time, with another result."""

    def another(packed: bytes) -> Any:
        value = unpack_plain(packed)
        return bytes((value[0] ^ 1, *value[1:])) if isinstance(value, bytes) and value else value

    monkeypatch.setattr(driver, "unpack_plain", another)


def _acknowledges_before_it_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Channel.take

    def at_once(self: Channel, data: bytes) -> None:
        take(self, data)
        self.got = self.taken

    monkeypatch.setattr(Channel, "take", at_once)
    monkeypatch.setattr(ReplayLog, "commit", _seldom(ReplayLog.commit))


def _seldom(commit: Callable[[ReplayLog], None]) -> Callable[[ReplayLog], None]:
    """Commit every third time only: what was acknowledged between is not there after a restart."""
    calls = 0

    def sometimes(self: ReplayLog) -> None:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            commit(self)

    return sometimes


def _trusts_a_late_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat that is read after its connection was lost lets frames out on the next connection."""
    reopen = PartySession._reopen

    def still_live(self: PartySession) -> None:
        live = self._channel.live
        reopen(self)
        self._channel.live = live

    monkeypatch.setattr(PartySession, "_reopen", still_live)


def _is_answered_by_a_late_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the roster, a party says no hello on the next connection."""
    reopen = PartySession._reopen

    def still_heard(self: PartySession) -> None:
        state = copy.copy(self._state)
        reopen(self)
        self._state = state

    monkeypatch.setattr(PartySession, "_reopen", still_heard)


def _found(check: str) -> bool:
    """Say whether schedules of this kind find it: those above, or outages of any length."""
    seeds = {"network": range(0, SEEDS, 2), "kills": range(1, SEEDS, 2), "ends": range(200)}[check]
    for seed in seeds:
        try:
            CHECKS[check]("dp-gd" if check == "ends" else PLAYS[seed % len(PLAYS)], seed)
        except (AssertionError, ProtocolViolation):
            return True
    return False


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (_delivers_twice, "network"),
        (_ignores_the_order, "network"),
        (_forgets_what_was_lost, "network"),
        (_trusts_a_late_beat, "network"),
        (_is_answered_by_a_late_beat, "network"),
        (_draws_anew, "kills"),
        (_acknowledges_before_it_commits, "kills"),
        (_waits_for_ever, "ends"),
    ],
)
def test_a_planted_bug_is_found(plant: Any, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PLAYS:
        without_faults(name)
    plant(monkeypatch)
    assert _found(check)


def test_a_debit_after_the_frame_is_found_in_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = without_faults("dp-gd")
    assert expected.debited["p0"]
    _debits_later(monkeypatch)
    with pytest.raises(AssertionError, match="before it debited"):
        check_network("dp-gd", 0)


def test_a_secret_in_a_report_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Site._draw

    def tells(self: Site, once: Once) -> Any:
        result = draw(self, once)
        self.session._observe("drawn", label=once.label, value=str(result))
        return result

    monkeypatch.setattr(Site, "_draw", tells)
    group = Group(play("vote"))
    group.run()
    assert _shown(group)

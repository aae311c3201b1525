"""A machine whose journal was rolled back, with a Charlie who helps: nothing is sent a second time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from masquerade_core.errors import DeadlinePassed, ProtocolViolation, RunFailed, StateCopied
from masquerade_core.seat import Release, Seat
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Endpoint
from masquerade_host.channel import Channel
from masquerade_host.process.progress import quiet
from masquerade_host.session.agreement import ANSWER, Ask, ResumeBarrier, Standing, Standings
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.commits import Commits
from masquerade_host.session.party import PartySession
from masquerade_host.session.states import Turn
from masquerade_host.store.journal import Entry
from masquerade_host.store.ledger import NO_RELEASES, Ledger
from masquerade_party._site import LedgerAttempt
from tests.host_helpers import All, Hi, World
from tests.ledger_helpers import RECORDS, budget, mechanism, reserved
from tests.messages import says
from tests.restarts import Group, Role, Site, noisy_rounds, shows_all

ROUNDS = 3
charlie = partial(shows_all, rounds=ROUNDS)


async def party(seat: Seat) -> bytes:
    """Send fresh noise in each round."""
    await seat.join()
    return await noisy_rounds(seat, ROUNDS)


@pytest.fixture(scope="module")
def world() -> World:
    return World.new(3, deadline=30.0, port=5555)


def told(run: Group, name: str) -> int:
    return len(run.sites[name].session.transcript.told.chain) - 1


def rolled_back(world: World, attempt: LedgerAttempt | None = None, *, copied_ledger: bool = True) -> Group:
    """Return a run in which p1's state folder is a copy from before round 1, and the others are behind it.

    With ``attempt``, p1 has a real ledger, and its journal alone is a copy.
    """
    run = Group(world, {CHARLIE: charlie, **dict.fromkeys(world.study.names, party)})
    p1 = run.sites["p1"]
    if attempt is not None:
        pays(p1, attempt)
    copies: list[list[Entry]] = []

    def before_round_1() -> bool:
        if not copies and [row.kind for row in p1.journal.rows].count("sent") == 2:  # the hello, and round 0
            copies.append(list(p1.journal.rows))
        return bool(copies)

    run.run(until=before_round_1)
    lie(run.sites[CHARLIE].session._channel_to("p1"))
    run.run(until=lambda: min(told(run, name) for name in ("p2", "p3")) >= 3)
    p1.kill()
    p1.journal.rows = copies[0]
    p1.put_back = ["round 0"] if copied_ledger else None
    p1.start()
    return run


def pays(site: Site, attempt: LedgerAttempt) -> None:
    """Let a site have a real ledger."""
    note = site.debit

    def debit(run: bytes, releases: Sequence[Release]) -> None:
        note(run, releases)
        attempt.debit(run, releases)

    site.debit = debit  # type: ignore[method-assign]
    site.labels = attempt.labels  # type: ignore[method-assign]


def lie(channel: Channel) -> None:
    """Keep all that was sent, to send it again; and deny what came since."""
    channel.forget(1)  # the roster
    channel.forget = lambda got: None  # type: ignore[method-assign]
    channel.say = lambda: 1  # type: ignore[method-assign]


@pytest.mark.parametrize("question", [True, False])
@pytest.mark.parametrize("ledger", [True, False])
def test_the_question_and_the_ledger_each_stop_a_rollback_and_nothing_else_does(
    world: World, monkeypatch: pytest.MonkeyPatch, *, question: bool, ledger: bool
) -> None:
    """Without both, a Charlie who helps has two noisy answers under one label, for the price of one."""
    if not question:
        monkeypatch.setattr(ResumeBarrier, "resumed", lambda *_: None)
    if not ledger:
        monkeypatch.setattr(Commits, "check_ledger", lambda _self, _run: None)
    run = rolled_back(world, copied_ledger=False)
    run.run(100)
    assert bool(run.twice()) is not (question or ledger)
    too_late = bool(getattr(run.sites["p1"].error, "frames", ()))  # Charlie has two frames of one number
    assert too_late is not (question or ledger)


def test_a_journal_that_was_rolled_back_ends_the_attempt_and_sends_nothing_twice(world: World) -> None:
    run = rolled_back(world)
    debited = list(run.sites["p1"].debited)
    run.run(100)
    assert run.twice() == []
    error = run.sites["p1"].error
    assert isinstance(error, StateCopied)
    assert error.copied == ("p1",)
    assert "p2 and p3 signed for 3 broadcasts" in error.message
    for name in ("p2", "p3", CHARLIE):
        heard = run.sites[name].error
        assert isinstance(heard, StateCopied)
        assert (heard.copied, heard.said_by) == (("p1",), "p1")
    assert run.sites["p1"].debited == debited


def attempt_in(ledger: Ledger, world: World) -> LedgerAttempt:
    """Return p1's attempt, whose debits a ledger on the disk keeps."""
    reserved(ledger, world.study)
    return LedgerAttempt(ledger, world.study, "p1", ledger.fingerprint(RECORDS), (), quiet)


def test_a_journal_that_is_older_than_its_ledger_ends_the_attempt_before_anything_is_sent(
    world: World, tmp_path: Path
) -> None:
    """Its own ledger tells a party, before it asks anybody."""
    with closing(budget(tmp_path)) as ledger:
        run = rolled_back(world, attempt_in(ledger, world))
        error = run.sites["p1"].error
        assert isinstance(error, RunFailed)
        assert says(error.message, "journal_behind_ledger", "'round 1'")
        assert says(error.hint or "", "debits_stay")
        run.run(100)
        assert run.twice() == []
        assert run.sites["p1"].error is error
        labels = [entry.fields["label"] for entry in ledger.history() if entry.kind == "debit"]
        labels = [label for label in labels if label not in NO_RELEASES]
        assert labels[:2] == ["round 0", "round 1"]
        assert labels == run.sites["p1"].debited


def test_a_party_connects_once_its_replay_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[object] = []
    check = PartySession.check_ledger

    def seen(session: PartySession) -> None:
        links.append(session.link)
        check(session)

    monkeypatch.setattr(PartySession, "check_ledger", seen)
    run = Group(world, {CHARLIE: charlie, **dict.fromkeys(world.study.names, party)})
    run.run(until=lambda: told(run, "p1") >= 2)
    run.sites["p1"].kill()
    run.sites["p1"].start()
    run.run()
    run.check()
    assert links == [None]


def test_a_journal_that_is_as_old_as_its_ledger_goes_on(world: World, tmp_path: Path) -> None:
    """Whenever p1 dies, its journal knows all that its ledger does."""
    roles: dict[str, Callable[[Seat], Role]] = {
        CHARLIE: charlie,
        **dict.fromkeys(world.study.names, party),
    }
    plain = Group(world, roles)
    plain.run()
    for moment in range(1, plain.sites["p1"].moments + 1, 2):
        with closing(budget(tmp_path / str(moment))) as ledger:
            run = Group(world, roles)
            pays(run.sites["p1"], attempt_in(ledger, world))
            run.sites["p1"].kill_at = moment
            run.run()
            run.check()
            assert run.sites["p1"].starts == 2


def test_the_ledger_knows_the_labels_of_one_run_alone(tmp_path: Path, world: World) -> None:
    with closing(budget(tmp_path)) as ledger:
        attempt = attempt_in(ledger, world)
        assert attempt.labels(b"r" * 16) == frozenset()
        attempt.debit(b"r" * 16, [mechanism("round 0", 0.1, 0.0), mechanism("round 1", 0.1, 0.0)])
        assert attempt.labels(b"r" * 16) == {"round 0", "round 1"}
        assert attempt.labels(b"s" * 16) == frozenset()


def swapped(run: Group, swap: Any) -> None:
    """Let Charlie exchange what he passes on to p1 of others' answers; None drops it."""
    charlie = run.sites[CHARLIE].session
    assert isinstance(charlie, CharlieSession)
    reader = Endpoint("p1", charlie.run, run.world.keys["p1"].signing, {CHARLIE: run.world.study.curator.key.sign})

    def tamper(source: str, to: str, data: bytes) -> bytes | None:
        if (source, to) != (CHARLIE, "p1"):
            return data
        frame = reader.open(CHARLIE, data, any_run=True, numbered=False)
        if frame.kind != "standing" or frame.type != ANSWER:
            return data
        passed_on = swap(decode(Standings, frame.body, CHARLIE))
        if passed_on is None:
            return None
        return charlie._hops["p1"].seal(Turn.STANDING, encode(passed_on, "p1"), type=ANSWER)

    run.tamper = tamper


def test_answers_that_charlie_withholds_let_nothing_out(world: World) -> None:
    run = rolled_back(world)
    swapped(run, lambda answer: answer if answer.party.strip() == "p3" else None)
    run.run(300)
    assert run.twice() == []
    error = run.sites["p1"].error
    assert isinstance(error, DeadlinePassed)
    assert error.waited_for == ("p2",)


def test_answers_to_an_older_question_do_not_count(world: World) -> None:
    run = rolled_back(world)
    p2 = run.sites["p2"].session

    def old(answer: Standings) -> Standings | None:
        if answer.party.strip() != "p2":
            return answer
        standing = Standing.of(Ask(asker="p1".ljust(len(answer.party)), nonce=bytes(16)), p2.transcript.told.chain[:2])
        signed = p2._endpoint.seal(CHARLIE, "standing", encode(standing, CHARLIE), type=ANSWER)
        return Standings(party=answer.party, signed=signed)

    swapped(run, old)
    run.run(300)
    assert run.twice() == []
    assert isinstance(error := run.sites["p1"].error, DeadlinePassed)
    assert error.waited_for == ("p2",)


def test_answers_that_charlie_forged_name_him(world: World) -> None:
    run = rolled_back(world)
    charlie = run.sites[CHARLIE].session

    def forged(answer: Standings) -> Standings:
        return Standings(party=answer.party, signed=charlie._keys.signing.sign(answer.signed[64:]) + answer.signed[64:])

    swapped(run, forged)
    run.run(100)
    assert run.twice() == []
    assert isinstance(error := run.sites["p1"].error, ProtocolViolation)
    assert error.peer == CHARLIE


def test_others_who_were_told_something_else_end_the_attempt(world: World) -> None:
    run = rolled_back(world)
    p2 = run.sites["p2"].session
    p2.transcript.told.chain[-1] = bytes(32)  # as if p2 had been sent another broadcast than p1 will be
    run.run(100)
    assert run.twice() == []
    assert isinstance(error := run.sites["p1"].error, RunFailed)
    assert says(error.message, "signed_other_broadcasts", "p2")


@pytest.mark.parametrize("down", [0, 3, 12])
def test_an_honest_restart_is_let_out_again(world: World, down: int) -> None:
    run = Group(world, {CHARLIE: charlie, **dict.fromkeys(world.study.names, party)})
    run.run(until=lambda: told(run, "p2") == 2)
    run.sites["p1"].kill()
    run.run(down=down)
    run.check()
    assert run.sites["p1"].debited == ["round 0", "round 1", "round 2"]


def test_all_are_started_again_at_once(world: World) -> None:
    run = Group(world, {CHARLIE: charlie, **dict.fromkeys(world.study.names, party)})
    run.run(until=lambda: told(run, "p2") == 2)
    for site in run.sites.values():
        site.kill()
    run.run()
    run.check()


async def draws_ahead(seat: Seat) -> bytes:
    """Send in each round, and draw before the answer."""
    await seat.join()
    told = b""
    for number in range(ROUNDS):
        noise = await seat.once(f"noise {number}", lambda rng: rng.bytes(8))
        await seat.release(f"round {number}", 0.1, 0.0)
        await seat.send(CHARLIE, Hi(coin=noise, sealed=b""))
        await seat.once(f"ahead {number}", lambda rng: rng.bytes(8))
        told += (await seat.receive(All, CHARLIE)).coins
    return told


@pytest.mark.parametrize(("later", "first"), [(1, 1), (2, 2), (3, 2), (4, 1), (6, 1), (9, 2)])
def test_a_party_that_dies_again_while_its_message_is_held_back_goes_on(world: World, later: int, first: int) -> None:
    """Its role had gone on and drawn: the message left after the draw, where without a restart it left before.

    It dies first at every other moment, from the first or the second one on: in three cases at the odd ones.
    """
    roles: dict[str, Callable[[Seat], Role]] = {
        CHARLIE: charlie,
        **dict.fromkeys(world.study.names, draws_ahead),
    }
    plain = Group(world, roles)
    plain.run()
    for moment in range(first, plain.sites["p1"].moments + 1, 2):
        run = Group(world, roles)
        p1 = run.sites["p1"]
        p1.kill_at = moment
        run.run(until=lambda p1=p1: p1.starts == 2)  # type: ignore[misc]
        p1.kill_at = max(p1.moments, moment) + later
        run.run()
        run.check()
        assert p1.debited == ["round 0", "round 1", "round 2"]

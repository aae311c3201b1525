"""Sessions of runs that may lose parties: who is waited for, who is told what, and how such a run closes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from masquerade_core.errors import DeadlinePassed, ProtocolViolation, RunFailed
from masquerade_core.seat import Receive
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import PARTIES, encode
from masquerade_core.wire.faults import Abort, pack_abort
from masquerade_host.session.messages import AllClosed, Beat, pack_beat
from tests.host_helpers import World
from tests.messages import says
from tests.wired import Wired

NAMES = ("p1", "p2", "p3")


def _study(world: World, *, losing: bool = True) -> Study:
    """The world's study under masks; it goes on with two parties."""
    text = world.study.to_toml().replace('lead = "p1"\n', "").replace("key_bits = 2048\n", "")
    text = text.replace('sum = "paillier"', 'sum = "masks"').replace('"paper"', '"proven"')
    more = "\n[dropouts]\nmin_survivors = 2\nretries = 2\npatience_seconds = 10.0\n" if losing else ""
    return Study.parse(text + more)


def _wired(*, losing: bool = True) -> Wired:
    """Everybody has joined; all but p3 have sent a number, and Charlie waits for all three with patience."""
    world = World.new(deadline=60.0)
    wired = Wired(replace(world, study=_study(world, losing=losing)))
    wired.join()
    for name in ("p1", "p2"):
        wired.say(name)
        wired.expect(name, "News", (CHARLIE,), broadcast=True)
    wired.begin(CHARLIE, Receive("message", "Hi", NAMES, within=10.0))
    wired.pump()
    return wired


def test_charlie_goes_on_when_his_patience_is_over() -> None:
    wired = _wired()
    wired.pump(9, seconds=1.0)
    assert CHARLIE not in wired.answers or wired.answers[CHARLIE] != (b"hello", b"hello", None)
    wired.pump(4, seconds=1.0)
    assert wired.answers[CHARLIE] == (b"hello", b"hello", None)
    assert wired.errors.keys() == {"p3"}  # it is told at once
    assert isinstance(wired.errors["p3"], RunFailed)
    assert says(str(wired.errors["p3"]), "went_on_without_party")
    assert ("lost", {"party": "p3"}) in [(event, fields) for who, event, fields in wired.events if who == CHARLIE]


def test_the_others_end_the_run_without_it() -> None:
    wired = _wired()
    wired.pump(14, seconds=1.0)
    wired.tell_all(b"news")
    wired.pump()
    assert wired.answers["p1"] == wired.answers["p2"] == (b"news",)
    for name in ("p1", "p2", CHARLIE):
        wired.finish(name)
    wired.pump()
    assert [wired.sessions[name].closed for name in (*NAMES, CHARLIE)] == [True, True, False, True]
    assert wired.errors.keys() == {"p3"}


@pytest.mark.parametrize("how", ["leaves", "breaks", "another type"])
def test_who_leaves_or_breaks_the_protocol_is_lost_at_once(how: str) -> None:
    wired = _wired()
    match how:
        case "leaves":
            wired.parties["p3"].abort(RunFailed("out of memory", "buy some"))
        case "breaks":
            wired.links["p3"].sent.append(b"not a frame" * 20)
        case "another type":
            wired.say("p3", kind="Bye")
    wired.pump()
    assert wired.answers[CHARLIE] == (b"hello", b"hello", None)
    assert "lost" in wired.seen(CHARLIE)
    assert CHARLIE not in wired.errors
    assert not {"p1", "p2"} & wired.errors.keys()
    wired.tell_all(b"news")
    wired.pump()
    for name in ("p1", "p2", CHARLIE):
        wired.finish(name)
    wired.pump()
    assert wired.charlie.closed


def test_who_starts_again_is_told_that_it_is_too_late_and_is_lost_when_patience_is_over() -> None:
    wired = _wired()
    wired.restart("p3")
    wired.join("p3")
    assert says(str(wired.errors["p3"]), "another_process_of_party")
    assert CHARLIE not in wired.errors
    wired.pump(14, seconds=1.0)
    assert wired.answers[CHARLIE] == (b"hello", b"hello", None)
    assert wired.errors.keys() == {"p3"}


def test_a_party_whose_connection_breaks_is_not_lost() -> None:
    wired = _wired()
    wired.cut("p3")
    wired.pump(8, seconds=1.0)
    wired.say("p3")
    wired.pump()
    assert wired.answers[CHARLIE] == (b"hello",) * 3
    assert not wired.errors


def test_without_dropouts_the_same_ends_the_run() -> None:
    wired = _wired(losing=False)
    wired.links["p3"].sent.append(b"not a frame" * 20)
    wired.pump()
    assert isinstance(wired.errors[CHARLIE], ProtocolViolation)
    assert wired.errors.keys() == {*NAMES, CHARLIE}


def test_what_a_lost_party_says_later_is_ignored() -> None:
    wired = _wired()
    wired.pump(14, seconds=1.0)
    wired.errors.pop("p3")  # its session is as it was; it tries to go on
    wired.links["p3"].sent.append(b"late" * 100)
    wired.pump()
    assert CHARLIE not in wired.errors


def test_where_charlie_has_no_patience_a_lost_party_ends_the_run() -> None:
    """So in the sum of sizes, which is opened once."""
    world = World.new(deadline=60.0)
    wired = Wired(replace(world, study=_study(world)))
    wired.join()
    for name in ("p1", "p2"):
        wired.say(name)
    wired.expect(CHARLIE, "Hi", NAMES)
    wired.parties["p3"]._next_beat = 1e9  # it is silent from now on
    wired.pump(63, seconds=1.0)
    error = wired.errors[CHARLIE]
    assert isinstance(error, DeadlinePassed)
    assert error.waited_for == ("p3",)


@pytest.mark.parametrize("shown", [1, 2])
def test_a_run_closes_with_min_survivors_or_more(shown: int) -> None:
    wired = _wired()
    wired.pump(14, seconds=1.0)
    wired.tell_all(b"news")
    wired.pump()
    for name in ("p1", "p2"):
        wired.finish(name)
    wired.pump()
    frames = [hop.closed for hop in wired.charlie._hops.values()]
    body = encode(AllClosed(closed=(frames[0], frames[1] if shown > 1 else b"", b"")), PARTIES)
    wired.charlie._broadcast("closed", body)
    wired.pump()
    if shown == 2:
        assert wired.parties["p1"].closed
    else:
        assert isinstance(wired.errors["p1"], ProtocolViolation)
        assert says(str(wired.errors["p1"]), "closed_on_too_few", "1 party", "goes", "on with 2 or more")


@pytest.mark.parametrize("lie", ["acknowledgement", "deadline"])
def test_a_false_acknowledgement_or_claim_loses_its_signer_alone(lie: str) -> None:
    wired = _wired()
    everybody = (*NAMES, CHARLIE)
    endpoint = wired.parties["p3"]._endpoint
    if lie == "acknowledgement":
        beat = pack_beat(Beat((), 99, wired.parties["p3"]._channel.connection), everybody)
        wired.links["p3"].sent.append(endpoint.seal(CHARLIE, "beat", beat))
    else:
        body = pack_abort(Abort(reason="deadline", blamed=("p1",), by="p3"), everybody)
        wired.links["p3"].sent.append(endpoint.seal(CHARLIE, "abort", body))
    wired.pump()
    assert wired.errors.keys() == {"p3"}
    assert wired.answers[CHARLIE] == (b"hello", b"hello", None)
    wired.tell_all(b"news")
    wired.pump()
    assert wired.answers["p1"] == wired.answers["p2"] == (b"news",)

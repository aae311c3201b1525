"""Sessions of a study with ``[dropouts]``: Charlie goes on without a party that is silent, broken or gone."""

import threading
from functools import partial
from typing import Any

import pytest

from masquerade_core.errors import BadInput, DeadlinePassed, ProtocolViolation, RunFailed
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Receive, Seat
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.messages import Message
from masquerade_host.session_messages import AllClosed
from masquerade_host.transport import Arrival
from masquerade_protocols.blocks.masked_sum import Masked
from masquerade_protocols.dp_gd import roles as dp_gd
from tests.host_helpers import World, run_together
from tests.protocol_helpers import make_data
from tests.unit.test_closing import BODY, KIND, header, signed_by
from tests.wired import Wired

PARTIES = ("p1", "p2", "p3")
PATIENCE = 2.0
STEP = 0.25


def losing(world: World, survivors: int) -> Study:
    text = world.study.to_toml()
    for old, new in (
        ('lead = "p1"\n', ""),
        ('calibration = "paper"', 'calibration = "proven"'),
        ("delta = 0.0", "delta = 1e-6"),
    ):
        assert old in text
        text = text.replace(old, new)
    lines = [line for line in text.splitlines() if not line.startswith(("key_bits", "sum", "[crypto]"))]
    text = "\n".join(lines)
    return Study.parse(
        f"{text}\n[crypto]\nsum = 'masks'\n"
        f"[dropouts]\nmin_survivors = {survivors}\nretries = 3\npatience_seconds = {PATIENCE}\n"
    )


def seat_all(survivors: int = 2) -> Wired:
    world = World.new(3, deadline=6.0, port=5555)
    world.study = losing(world, survivors)
    wired = Wired(world)
    wired.join()
    assert set(wired.answers) == {*PARTIES, CHARLIE}
    return wired


@pytest.fixture
def wired() -> Wired:
    """Three parties, of which two must remain, and Charlie."""
    return seat_all()


def asks(wired: Wired, *senders: str) -> None:
    """Charlie waits for contributions, as long as the study says."""
    wired.answers.pop(CHARLIE, None)
    wired.begin(CHARLIE, Receive("message", "Hi", senders or PARTIES, within=PATIENCE))


def wait(wired: Wired, seconds: float) -> None:
    wired.pump(round(seconds / STEP), seconds=STEP)


def closes(wired: Wired, *there: str) -> None:
    """The roles of these parties and of Charlie return, and all of them close."""
    for name in (*there, CHARLIE):
        wired.finish(name)
    wired.pump(4)
    assert {name for name, session in wired.sessions.items() if session.closed} == {*there, CHARLIE}
    assert not {*there, CHARLIE} & set(wired.errors)


def test_charlie_waits_as_long_as_the_study_says_and_then_has_what_came(wired: Wired) -> None:
    asks(wired)
    wired.say("p1", b"1")
    wired.say("p3", b"3")
    wait(wired, PATIENCE - 2 * STEP)
    assert CHARLIE not in wired.answers
    wait(wired, 3 * STEP)
    assert wired.answers[CHARLIE] == (b"1", None, b"3")
    asks(wired, "p1", "p3")
    wired.say("p1", b"1")
    wired.say("p3", b"3")
    wired.pump(2)
    assert wired.answers[CHARLIE] == (b"1", b"3")
    assert "goes on without this party" in wired.errors["p2"].message
    closes(wired, "p1", "p3")


def test_a_killed_party_is_lost_and_the_others_close_without_it(wired: Wired) -> None:
    wired.parties["p2"].closed = True  # it takes no further step
    wait(wired, 4.0)
    assert not wired.errors
    assert wired.seen(CHARLIE).count("left") == 1
    asks(wired)
    wired.say("p1", b"1")
    wired.say("p3", b"3")
    wired.pump(2)
    assert wired.answers[CHARLIE] == (b"1", None, b"3")  # at once: nothing more can come
    wired.tell_all(b"sum")
    wired.pump(2)
    wired.parties["p2"].closed = False
    closes(wired, "p1", "p3")


@pytest.mark.parametrize("misdeed", ["garbage", "leaves", "another type", "starts anew", "replay"])
def test_a_party_that_breaks_or_leaves_is_lost_and_the_others_go_on(wired: Wired, misdeed: str) -> None:
    asks(wired)
    match misdeed:
        case "garbage":
            wired.link.inbox.append(Arrival("p2", wired.routes["p2"], SystemRng().bytes(200)))
        case "leaves":
            wired.errors["p2"] = RunFailed("its machine is needed")
            wired.parties["p2"].abort(None)
        case "another type":
            wired.say("p2", kind="Bye")
        case "starts anew":
            wired.restart("p2")
            wired.join("p2")
        case _:
            wired.say("p2", b"2")
            wired.links["p2"].sent.append(wired.links["p2"].sent[-1])
    wired.say("p1", b"1")
    wired.say("p3", b"3")
    wired.pump(3)
    assert wired.answers[CHARLIE] == (b"1", None, b"3")
    assert wired.charlie._hops["p2"].lost is not None
    wired.pump(3)
    assert isinstance(wired.errors["p2"], RunFailed)
    assert misdeed == "leaves" or "goes on without this party" in wired.errors["p2"].message
    closes(wired, "p1", "p3")


def test_what_a_lost_party_still_sends_is_ignored(wired: Wired) -> None:
    wired.link.inbox.append(Arrival("p2", wired.routes["p2"], b""))
    wired.say("p2", b"late")
    wired.pump(1)
    wired.link.inbox.append(Arrival("p2", wired.routes["p2"], SystemRng().bytes(500)))
    wired.pump(2)
    asks(wired)
    wired.say("p1", b"1")
    wired.say("p3", b"3")
    wired.pump(2)
    assert wired.answers[CHARLIE] == (b"1", None, b"3")
    closes(wired, "p1", "p3")


def test_a_role_that_needs_a_lost_party_ends_the_run(wired: Wired) -> None:
    """A count of all records, for example, which cannot be made again."""
    wired.parties["p2"].closed = True
    wired.expect(CHARLIE, "Hi", PARTIES)
    wired.say("p1")
    wired.say("p3")
    wait(wired, 5.0)
    for name in ("p1", "p3", CHARLIE):
        error = wired.errors[name]
        assert isinstance(error, DeadlinePassed)
        assert error.waited_for == ("p2",)


def test_with_too_few_parties_left_nobody_closes() -> None:
    wired = seat_all(survivors=3)
    for name in ("p1", "p3", CHARLIE):
        wired.finish(name)
    wired.pump(2)
    wired.errors["p2"] = RunFailed("its machine is needed")
    wired.parties["p2"].abort(None)
    wired.pump(3)
    assert not any(session.closed for session in wired.sessions.values())
    assert "p2 left the run before its end; the study allows no fewer than 3" in wired.errors[CHARLIE].message
    assert {"p1", "p3"} <= set(wired.errors)


def test_a_party_that_closes_with_a_wrong_hash_is_left_out_of_the_close(wired: Wired) -> None:
    wired.parties["p2"]._told.add("message", "News", b"never said")
    wired.finish("p2")
    closes(wired, "p1", "p3")
    error = wired.charlie._hops["p2"].lost
    assert isinstance(error, ProtocolViolation)
    assert error.peer == "p2"
    assert wired.charlie._hops["p2"].closed == b""


@pytest.mark.parametrize(("left_out", "good"), [(("p2",), True), (("p1",), False), (("p2", "p3"), False)])
def test_charlie_may_leave_out_no_more_parties_than_the_study_allows(
    wired: Wired, left_out: tuple[str, ...], good: bool
) -> None:
    def change(source: str, to: str, data: bytes) -> tuple[bytes]:
        fields = header(data)
        if (source, to, fields[KIND]) == (CHARLIE, "p1", "closed"):
            shown = decode(AllClosed, fields[BODY], CHARLIE).closed
            closed = tuple(b"" if name in left_out else frame for name, frame in zip(PARTIES, shown, strict=True))
            fields[BODY] = encode(AllClosed(closed=closed), to)
            return (signed_by(wired, CHARLIE, fields),)
        return (data,)

    wired.tamper = change
    for name in (*PARTIES, CHARLIE):
        wired.finish(name)
    wired.pump(3)
    assert wired.parties["p1"].closed is good
    if not good:
        error = wired.errors["p1"]
        assert isinstance(error, ProtocolViolation)
        assert error.peer == CHARLIE


def test_charlie_is_more_patient_than_a_slot() -> None:
    text = losing(World.new(3, deadline=6.0, port=5555), 2).to_toml()
    Study.parse(text.replace("[privacy]", "slot_seconds = 1.9\n[privacy]"))
    with pytest.raises(BadInput, match=r"patience_seconds is 2, but must be more than .* slot_seconds, which is 2"):
        Study.parse(text.replace("[privacy]", "slot_seconds = 2.0\n[privacy]"))


def test_the_same_silence_ends_a_run_whose_study_has_no_dropouts() -> None:
    wired = Wired(World.new(3, deadline=6.0, port=5555))
    wired.join()
    wired.parties["p2"].closed = True
    wait(wired, 5.0)
    assert {type(wired.errors[name]) for name in ("p1", "p3", CHARLIE)} == {DeadlinePassed}


# --- A whole run over sockets ---------------------------------------------------------


@pytest.mark.parametrize("leaves", [True, False])
def test_a_descent_over_sockets_goes_on_without_a_party(leaves: bool) -> None:
    """p4 leaves, or hangs, on the way to its third contribution; all others and Charlie have one model."""
    world = World.new(4, deadline=30.0)
    text = losing(world, 3).to_toml()
    for old, new in (
        ('protocol = "local-aggregation"', 'protocol = "dp-gd"'),
        ("patience_seconds = 2.0", "patience_seconds = 6.0"),
        ("[protocol]\n", "[protocol]\nrounds = 4\n"),
    ):
        assert old in text
        text = text.replace(old, new)
    study = world.study = Study.parse(text)
    hangs = threading.Event()

    class Leaving(Seat):
        async def send(self, to: str, message: Message) -> None:
            if isinstance(message, Masked) and message.round == 2:
                if leaves:
                    raise RunFailed("its machine is needed")
                await self.once("hang", lambda _rng: hangs.wait(300))
            await super().send(to, message)

    records = make_data(study, (20, 30, 40, 50))
    roles = {name: partial(dp_gd.party, study=study, data=records[name]) for name in study.names[:3]}

    async def leaver(seat: Seat) -> object:
        return await dp_gd.party(Leaving(seat.me, seat.names, seat.run), study, records["p4"])

    sessions: dict[str, Any] = {CHARLIE: world.charlie(), **{name: world.party(name) for name in study.names}}
    outcome = run_together(sessions, {**roles, "p4": leaver, CHARLIE: partial(dp_gd.charlie, study=study)})
    hangs.set()
    assert set(outcome.errors) == {"p4"}
    assert isinstance(outcome.errors["p4"], RunFailed)
    assert set(outcome.results) == {"p1", "p2", "p3", CHARLIE}
    assert len({tuple(model.weights) for model in outcome.results.values()}) == 1

"""Closing digests: no two honest parties keep results that follow from different broadcasts of Charlie's."""

from collections.abc import Callable, Iterable
from typing import Any

import msgpack
import pytest

from masquerade_core.crypto.boxes import SIGNATURE_BYTES, SigningKey
from masquerade_core.errors import MasqueradeError, ProtocolViolation, Reported
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import PARTIES as FOR_ALL
from masquerade_core.wire.codec import decode, encode
from masquerade_core.wire.frames import Endpoint
from masquerade_host.session import party
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.messages import AllClosed, Closed, Roster
from masquerade_host.store.transcript import BroadcastLog, hashed
from tests.host_helpers import World, run_together
from tests.messages import says
from tests.wired import Wired, announced_by

PARTIES = ("p1", "p2", "p3")
EVERYBODY = (*PARTIES, CHARLIE)
KIND, TYPE, BODY = 4, 6, 7  # places in a frame's header


@pytest.fixture
def wired() -> Wired:
    """Three parties and Charlie, who have not joined yet."""
    return Wired(World.new(3, deadline=6.0, port=5555))


@pytest.fixture
def seated(wired: Wired) -> Wired:
    """The same, joined."""
    wired.join()
    assert set(wired.answers) == set(EVERYBODY)
    return wired


def header(data: bytes) -> list[Any]:
    return list(msgpack.unpackb(data[SIGNATURE_BYTES:]))


def signed_by(wired: Wired, name: str, fields: list[Any]) -> bytes:
    data = msgpack.packb(fields)
    return wired.world.keys[name].signing.sign(data) + bytes(data)


def telling(wired: Wired, victim: str, old: bytes, new: bytes) -> None:
    """Let a malicious Charlie tell one party another broadcast, under the same number and with a valid signature."""

    def change(source: str, to: str, data: bytes) -> Iterable[bytes]:
        fields = header(data)
        if (source, to, fields[BODY]) == (CHARLIE, victim, old):
            fields[BODY] = new
            return (signed_by(wired, CHARLIE, fields),)
        return (data,)

    wired.tamper = change


def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A malicious Charlie does not end the run because of what he did."""
    monkeypatch.setattr(CharlieSession, "_check_digests", lambda _self: None)


def all_finish(wired: Wired) -> None:
    for name in EVERYBODY:
        wired.finish(name)
    wired.pump(3)


def hears_all(wired: Wired, body: bytes = b"sum") -> None:
    wired.tell_all(body)
    wired.pump(2)
    for name in PARTIES:
        wired.expect(name, "News", (CHARLIE,), broadcast=True)


# --- The honest run -----------------------------------------------------------------


def test_all_close_when_all_were_told_the_same(seated: Wired) -> None:
    for i in range(5):
        hears_all(seated, bytes((i,)))
        assert {seated.answers[name] for name in PARTIES} == {(bytes((i,)),)}
    all_finish(seated)
    assert all(session.closed for session in seated.sessions.values())
    assert not seated.errors
    assert len({session.transcript.told.digest() for session in seated.sessions.values()}) == 1


def test_what_charlie_says_to_one_party_alone_is_no_part_of_the_hash(seated: Wired) -> None:
    seated.say(CHARLIE, b"for the lead", to="p1")
    seated.send_sealed("p2", "Secret", ("p3",), (b"box",))
    seated.pump(2)
    seated.expect("p1", "Hi", (CHARLIE,))
    assert seated.answers["p1"] == (b"for the lead",)
    hears_all(seated)
    all_finish(seated)
    assert all(session.closed for session in seated.sessions.values())


def test_the_hash_is_of_whole_frames_and_their_order() -> None:
    def of(*frames: bytes) -> bytes:
        told = BroadcastLog()
        for frame in frames:
            told.add(hashed(frame))
        return told.digest()

    one, two = b"frame 1", b"frame 2"
    assert of(one, two) == of(one, two)
    others = [of(), of(one), of(two, one), of(one, two, two), of(one, b"frame 3"), of(b"frame ", b"1frame 2")]
    assert len({*others, of(one, two)}) == len(others) + 1


# --- Attack 8: Charlie tells one party something else in the last round -----------------


def test_two_parties_that_were_told_different_sums_both_keep_no_result(
    seated: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    unchecked(monkeypatch)
    telling(seated, "p1", b"sum", b"another sum")
    hears_all(seated)
    assert seated.answers["p1"] == (b"another sum",)
    assert seated.answers["p2"] == (b"sum",)
    all_finish(seated)
    suspects = {"p1": ("p2", "p3", CHARLIE), "p2": ("p1", CHARLIE), "p3": ("p1", CHARLIE)}
    for name in PARTIES:
        assert not seated.parties[name].closed
        error = seated.errors[name]
        assert isinstance(error, ProtocolViolation)
        assert (error.peer, error.suspects) == ("", suspects[name])
        assert says(error.message, "told_other_messages", "charlie", ..., name)
    assert not seated.link.sent


def test_the_attack_succeeds_where_nobody_compares(seated: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    unchecked(monkeypatch)
    monkeypatch.setattr(party, "check_closing", lambda *_arguments: None)
    telling(seated, "p1", b"sum", b"another sum")
    hears_all(seated)
    all_finish(seated)
    assert not seated.errors
    assert all(session.closed for session in seated.parties.values())


def test_a_run_over_sockets_in_which_one_party_is_told_something_else_returns_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World.new(3)
    unchecked(monkeypatch)
    put = CharlieSession._put

    def lie(self: CharlieSession, name: str, data: bytes, **counted: bool) -> None:
        fields = header(data)
        if name == "p1" and fields[TYPE] == "All":
            coins = dict(msgpack.unpackb(fields[BODY]))["coins"]
            fields[BODY] = msgpack.packb({"coins": coins[::-1]})
            signed = msgpack.packb(fields)
            data = world.keys[CHARLIE].signing.sign(signed) + signed
        put(self, name, data, **counted)

    monkeypatch.setattr(CharlieSession, "_put", lie)

    async def believes(seat: Any) -> bytes:
        from tests.host_helpers import All, Hi, Reply, Secret

        await seat.join()
        coin = await seat.once("coin", lambda rng: rng.bytes(8))
        sealed = await seat.once("seal", lambda rng: seat.seal(rng, CHARLIE, coin))
        await seat.send(CHARLIE, Hi(coin=coin, sealed=sealed))
        await seat.send_sealed(Secret(coin=coin))
        heard = {name: secret.coin for name, secret in (await seat.gather(Secret)).items()}
        lead = seat.names[0]
        if seat.me == lead:
            await seat.gather(Reply)
        else:
            await seat.send_sealed(Reply(coin=heard[lead]), lead)
        return (await seat.receive(All, CHARLIE)).coins  # type: ignore[no-any-return]

    sessions: dict[str, Any] = {CHARLIE: world.charlie(), **{name: world.party(name) for name in world.study.names}}
    outcome = run_together(sessions, dict.fromkeys(PARTIES, believes))
    assert set(outcome.results) == {CHARLIE}
    assert {type(error) for error in outcome.errors.values()} == {ProtocolViolation}
    assert set(outcome.errors) == set(PARTIES)


def test_a_box_key_that_one_party_alone_is_shown_is_found_at_the_close(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The roster is a broadcast: Charlie's own key in it is the same for all, or nobody keeps a result."""
    unchecked(monkeypatch)
    evil = announced_by(wired.world, CHARLIE)

    def exchange(source: str, to: str, data: bytes) -> Iterable[bytes]:
        fields = header(data)
        if (source, to, fields[KIND]) == (CHARLIE, "p1", "roster"):
            fields[BODY] = encode(decode(Roster, fields[BODY], CHARLIE).model_copy(update=evil), FOR_ALL)
            return (signed_by(wired, CHARLIE, fields),)
        return (data,)

    wired.tamper = exchange
    wired.join()
    assert dict(wired.answers["p1"][0])[CHARLIE] == evil["box_key"]
    all_finish(wired)
    # Another roster is another run: Charlie accuses p1 of frames of another run, and nobody else can check that.
    for name in PARTIES:
        error = wired.errors[name]
        assert isinstance(error, Reported)
        assert (error.said_by, error.accused) == (CHARLIE, ("p1",))


# --- A party that lies about what it was told ------------------------------------------


def test_a_party_that_closes_with_a_wrong_hash_is_named_by_charlie(seated: Wired) -> None:
    hears_all(seated)
    seated.parties["p2"].transcript.told.add(b"never said")
    all_finish(seated)
    for name, error in seated.errors.items():
        if name == CHARLIE:
            assert isinstance(error, ProtocolViolation)
            assert error.peer == "p2"
        else:
            assert isinstance(error, Reported)
            assert (error.said_by, error.accused) == (CHARLIE, ("p2",))
    assert set(seated.errors) == set(EVERYBODY)
    assert says(seated.errors[CHARLIE].message, "closed_with_wrong_hash", "p2")


# --- Charlie shows other frames than the parties signed ----------------------------------


def _of_another_run(wired: Wired, frames: list[bytes]) -> list[bytes]:
    fields = header(frames[1])
    return [frames[0], signed_by(wired, "p2", [fields[0], bytes(16), *fields[2:]]), frames[2]]


def _another_kind(wired: Wired, frames: list[bytes]) -> list[bytes]:
    fields = header(frames[1])
    fields[KIND] = "message"
    return [frames[0], signed_by(wired, "p2", fields), frames[2]]


def _forged(wired: Wired, frames: list[bytes]) -> list[bytes]:
    return [frames[0], signed_by(wired, CHARLIE, header(frames[1])), frames[2]]


def _ones_own_of_before(wired: Wired, frames: list[bytes]) -> list[bytes]:
    """A frame that p1 signed for this run, but another one than it sent."""
    own = Endpoint("p1", wired.charlie.run, wired.world.keys["p1"].signing, {CHARLIE: b""})
    return [own.seal(CHARLIE, "closed", encode(Closed(digest=bytes(32)), CHARLIE)), *frames[1:]]


@pytest.mark.parametrize(
    ("show", "words"),
    [
        (lambda _wired, frames: frames[:2], "words of 2 parties; the study has 3"),
        (lambda _wired, frames: [*frames, frames[0]], "words of 4 parties; the study has 3"),
        (lambda _wired, frames: [frames[0], frames[0], frames[2]], "frame of p2"),
        (lambda _wired, frames: [frames[0], frames[2], frames[1]], "frame of p2"),
        (lambda _wired, frames: [frames[0], b"", frames[2]], "words of 2 parties; the study has 3"),
        (_of_another_run, "frame of p2"),
        (_another_kind, "frame of p2"),
        (_forged, "frame of p2"),
        (_ones_own_of_before, "frame of p1"),
    ],
    ids=[
        "one too few",
        "one too many",
        "twice",
        "exchanged",
        "empty",
        "another run",
        "kind",
        "forged",
        "own of before",
    ],
)
def test_charlie_has_to_show_what_every_party_signed(
    seated: Wired, show: Callable[[Wired, list[bytes]], list[bytes]], words: str
) -> None:
    hears_all(seated)

    def change(source: str, to: str, data: bytes) -> Iterable[bytes]:
        fields = header(data)
        if (source, to, fields[KIND]) == (CHARLIE, "p1", "closed"):
            shown = show(seated, list(msgpack.unpackb(fields[BODY])["closed"]))
            fields[BODY] = encode(AllClosed(closed=tuple(shown)), to)
            return (signed_by(seated, CHARLIE, fields),)
        return (data,)

    seated.tamper = change
    all_finish(seated)
    error: MasqueradeError = seated.errors["p1"]
    assert isinstance(error, ProtocolViolation)
    assert (error.peer, words in error.message) == (CHARLIE, True)
    assert not seated.parties["p1"].closed
    assert seated.parties["p2"].closed


# --- A broadcast and a message for one are two things -------------------------------------


def test_a_sum_that_charlie_sends_to_one_party_alone_is_refused(seated: Wired) -> None:
    """It would not be in the hash."""
    seated.say(CHARLIE, b"sum", kind="News", to="p1")
    seated.pump(1)
    seated.expect("p1", "News", (CHARLIE,), broadcast=True)
    seated.pump(2)
    error = seated.errors["p1"]
    assert isinstance(error, ProtocolViolation)
    assert error.peer == CHARLIE
    assert says(error.message, "one_is_allowed", "'News'", "to p1 alone", "to all parties")


def test_what_is_due_for_one_party_is_refused_when_it_went_to_all(seated: Wired) -> None:
    seated.expect("p1", "News", (CHARLIE,))
    seated.tell_all(b"sum")
    seated.pump(2)
    error = seated.errors["p1"]
    assert isinstance(error, ProtocolViolation)
    assert error.peer == CHARLIE
    assert says(error.message, "one_is_allowed", "'News'", "to all parties", "to p1 alone")


def test_charlie_signs_a_broadcast_once(seated: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[bytes] = []
    sign = SigningKey.sign

    def counting(self: SigningKey, data: bytes) -> bytes:
        signed.append(data)
        return sign(self, data)

    monkeypatch.setattr(SigningKey, "sign", counting)
    seated.tell_all(b"sum")
    assert len(signed) == 1
    frames = [data for _, data in seated.link.sent if header(data)[KIND] == "message"]
    assert len(frames) == 3
    assert len(set(frames)) == 1

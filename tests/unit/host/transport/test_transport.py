"""Real sockets on this machine: who gets in, whose word counts, and what a party is told when it does not get in."""

import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import zmq
from zmq.utils import z85

from masquerade_core.errors import BadInput
from masquerade_core.rng import SystemRng
from masquerade_core.wire.frames import MAX_FRAME
from masquerade_host.channel import CHUNK, MAX_JOINED, MAX_MESSAGE, cut
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport import dialer, sockets
from masquerade_host.transport.dialer import Answer, Dialing, PartySocket, probe
from masquerade_host.transport.interface import Arrival, ConnectionEvent
from masquerade_host.transport.sockets import CharlieSocket, _Doorkeeper
from tests import ROOT
from tests.host_helpers import free_port, new_keys
from tests.messages import raises


class Place:
    """Charlie's socket with a roster of two."""

    def __init__(self) -> None:
        self.keys = {name: new_keys() for name in ("charlie", "p1", "p2", "stranger")}
        self.address = f"tcp://127.0.0.1:{free_port()}"
        roster = {name: self.keys[name].public.curve for name in ("p1", "p2")}
        self.charlie = CharlieSocket(self.address, self.keys["charlie"], roster)
        self.parties: list[PartySocket] = []

    def party(self, name: str, server: str = "charlie") -> PartySocket:
        """Connect with somebody's key."""
        party = PartySocket(self.address, self.keys[name], self.keys[server].public.curve)
        self.parties.append(party)
        return party

    def close(self) -> None:
        """Close all."""
        for party in self.parties:
            party.close(0)
        self.charlie.close(0)


@pytest.fixture
def place() -> Iterator[Place]:
    """Charlie, listening."""
    place = Place()
    yield place
    place.close()


PATIENT = 120.0  # seconds: what must come is waited for, however busy the machine is


def until(found: Callable[[], object], seconds: float = PATIENT) -> object:
    end = time.monotonic() + seconds
    while not (value := found()) and time.monotonic() < end:
        time.sleep(0.01)
    return value


def arrivals(place: Place, seconds: float = PATIENT) -> list[Arrival]:
    found = until(lambda: list(place.charlie.arrivals()), seconds)
    assert isinstance(found, list)
    return found


def connection_event(party: PartySocket, seconds: float = PATIENT) -> ConnectionEvent | None:
    found = until(lambda: list(party.connection_events()), seconds)
    return found[0] if isinstance(found, list) and found else None


def test_frames_go_both_ways_under_the_keys_name(place: Place) -> None:
    party = place.party("p1")
    assert connection_event(party) is ConnectionEvent.CONNECTED
    party.send(b"hello")
    [arrival] = arrivals(place)
    assert (arrival.name, arrival.data) == ("p1", b"hello")
    place.charlie.send("p1", b"early")  # waits: no valid signature has come along this route yet
    assert place.charlie.waiting("p1") == 5
    place.charlie.found("p1", arrival.route)
    place.charlie.flush()
    assert until(lambda: list(party.arrivals())) == [b"early"]
    assert not place.charlie.busy


def test_another_process_of_a_party_can_be_told_something_while_the_first_one_goes_on(place: Place) -> None:
    first, second = place.party("p1"), place.party("p1")
    first.send(b"hello")
    [arrival] = arrivals(place)
    place.charlie.found("p1", arrival.route)
    second.send(b"me too")
    [other] = arrivals(place)
    refusal = bytes(3 * CHUNK)
    place.charlie.tell(other.route, refusal)
    place.charlie.send("p1", b"for the first")
    assert until(lambda: list(second.arrivals())) == [refusal]
    assert until(lambda: list(first.arrivals())) == [b"for the first"]
    place.charlie.tell(b"nowhere", refusal)  # whoever was there is gone: nothing happens


def test_a_key_that_is_not_on_the_roster_is_denied_and_told_so(place: Place) -> None:
    party = place.party("stranger")
    party.send(b"let me in")
    assert connection_event(party) is ConnectionEvent.DENIED
    assert arrivals(place, 0.3) == []
    assert until(place.charlie.denied) == 1


def test_without_the_doorkeepers_list_nobody_gets_in() -> None:
    """Fail closed: the list decides, and an empty one admits nobody."""
    keys = new_keys()
    address = f"tcp://127.0.0.1:{free_port()}"
    charlie = CharlieSocket(address, keys, {})
    party = PartySocket(address, new_keys(), keys.public.curve)
    assert connection_event(party) is ConnectionEvent.DENIED
    party.close(0)
    charlie.close(0)


def test_the_pauses_between_attempts_grow_and_start_anew_after_a_connection() -> None:
    dialing = Dialing("tcp://here", lambda: Answer.SILENT)
    pauses: list[float | None] = []
    for event in [ConnectionEvent.UNREACHED] * 5 + [ConnectionEvent.CONNECTED, ConnectionEvent.LOST]:
        dialing.reopen_at = None
        dialing.note(event, 10.0)
        pauses.append(dialing.reopen_at)
    assert pauses == [10.25, 10.5, 11.0, 12.0, 12.0, None, 10.25]


class _NoDoorkeeper:
    """Nobody answers ZeroMQ's question whether a key may come in."""

    def __init__(self, _context: object, _allowed: object) -> None:
        self.denied: deque[bytes] = deque()

    def start(self) -> None:
        """Start nothing."""

    def join(self) -> None:
        """Wait for nothing."""


def test_where_the_doorkeeper_is_missing_nobody_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail closed: without ZAP_ENFORCE_DOMAIN ZeroMQ would let everybody in, and keys on no list with them."""
    monkeypatch.setattr(sockets, "_Doorkeeper", _NoDoorkeeper)
    keys = new_keys()
    address = f"tcp://127.0.0.1:{free_port()}"
    charlie = CharlieSocket(address, keys, {})
    party = PartySocket(address, new_keys(), keys.public.curve)
    try:
        assert connection_event(party) is ConnectionEvent.FAILED
    finally:
        party.close(0)
        charlie.close(0)


_KNOCKS = """
import sys, threading, zmq
from masquerade_host.transport import sockets as transport
from masquerade_host.transport.dialer import PartySocket
from tests.host_helpers import free_port, new_keys

how, enforced = sys.argv[1], sys.argv[2] == "True"
threading.excepthook = lambda _: None
if how == "raising":
    def judge(self, request):
        raise OSError("a bug")
    transport._Doorkeeper._judge = judge
else:
    transport._Doorkeeper.run = lambda self: self._socket.close(0)
if not enforced:
    setsockopt = zmq.Socket.setsockopt
    zmq.Socket.setsockopt = lambda self, option, value: (
        None if option == zmq.ZAP_ENFORCE_DOMAIN else setsockopt(self, option, value)
    )
keys, listed = new_keys(), new_keys()
address = f"tcp://127.0.0.1:{free_port()}"
charlie = transport.CharlieSocket(address, keys, {"p1": listed.public.curve})
parties = []
for own in (listed, new_keys(), listed, new_keys()):  # the first ones end a doorkeeper that raises
    parties.append(PartySocket(address, own, keys.public.curve))
    parties[-1].send(b"let me in")
    came = charlie._router.poll(1000)
print("admitted" if came else "nobody")
for party in parties:
    party.close(0)
charlie.close(0)
print("closed")
"""


@pytest.mark.parametrize("enforced", [True, False])
@pytest.mark.parametrize("how", ["raising", "dead"])
def test_where_the_doorkeeper_fails_nobody_is_admitted(how: str, *, enforced: bool) -> None:
    """It runs in a process of its own: a ZeroMQ context that waits for a dead thread would wait for ever."""
    done = subprocess.run(
        [sys.executable, "-c", _KNOCKS, how, str(enforced)],
        capture_output=True,
        text=True,
        timeout=PATIENT,
        check=False,
        cwd=ROOT,
    )
    # Without ZAP_ENFORCE_DOMAIN everybody comes in, strangers too: so this test tests something.
    assert done.stdout.split() == ["nobody" if enforced else "admitted", "closed"], done.stderr


def test_a_wrong_server_key_breaks_the_handshake_and_the_other_side_has_another_key(place: Place) -> None:
    party = place.party("p1", server="stranger")
    assert connection_event(party) is ConnectionEvent.FAILED
    assert probe(place.address, place.keys["stranger"].public.curve) is Answer.OTHER_KEY
    assert probe(place.address, place.keys["charlie"].public.curve) is Answer.CHARLIE


def test_nobody_there_is_no_failure_but_a_reason_to_try_again() -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    charlies = new_keys()
    party_keys = new_keys()
    party = PartySocket(address, party_keys, charlies.public.curve)
    assert connection_event(party) is ConnectionEvent.UNREACHED
    assert probe(address, charlies.public.curve) is Answer.REFUSED
    charlie = CharlieSocket(address, charlies, {"p1": party_keys.public.curve})
    assert connection_event(party, 1.0) is None  # it makes one attempt; the session says when the next one is due
    party.reopen()
    assert connection_event(party) is ConnectionEvent.CONNECTED
    party.close(0)
    charlie.close(0)


@pytest.mark.parametrize("name", ["no-such-name.invalid", "a..b"])
def test_a_name_that_nobody_knows_is_told_once(name: str) -> None:
    party = PartySocket(f"tcp://{name}:5555", new_keys(), new_keys().public.curve)
    assert connection_event(party) is ConnectionEvent.UNRESOLVED
    assert connection_event(party, 0.5) is None
    party.reopen()
    assert connection_event(party) is ConnectionEvent.UNREACHED
    party.close(0)


def test_an_attempt_of_which_nothing_is_heard_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that only ZeroMQ cannot resolve is reported by nobody."""
    monkeypatch.setattr(dialer, "_ATTEMPT", 0.1)
    monkeypatch.setattr(PartySocket, "_resolve", lambda _: None)
    party = PartySocket("tcp://no-such-name.invalid:5555", new_keys(), new_keys().public.curve)
    assert connection_event(party) is ConnectionEvent.UNREACHED
    party.close(0)


def test_a_broken_connection_is_lost_once_and_made_again_when_asked(place: Place) -> None:
    party = place.party("p1")
    assert connection_event(party) is ConnectionEvent.CONNECTED
    place.charlie.close(0)
    assert connection_event(party) is ConnectionEvent.LOST
    roster = {"p1": place.keys["p1"].public.curve}
    place.charlie = CharlieSocket(place.address, place.keys["charlie"], roster)
    assert connection_event(party, 1.0) is None
    party.reopen()
    assert connection_event(party) is ConnectionEvent.CONNECTED


def test_somebody_who_speaks_something_else_is_foreign() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" + bytes(64))
                connection.close()

        threading.Thread(target=talk, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        party = PartySocket(address, new_keys(), new_keys().public.curve)
        assert connection_event(party) is ConnectionEvent.FOREIGN
        party.close(0)
        assert probe(address, new_keys().public.curve) is Answer.FOREIGN


def test_a_mute_listener_is_silent_and_an_unknown_name_is_unknown() -> None:
    key = new_keys().public.curve
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert probe(f"tcp://127.0.0.1:{server.getsockname()[1]}", key, seconds=0.2) is Answer.SILENT
    assert probe("tcp://no-such-name.invalid:5555", key) is Answer.UNKNOWN_NAME
    assert probe("tcp://a..b:5555", key) is Answer.UNKNOWN_NAME


@pytest.mark.parametrize(("clock", "answer"), [([0.0, 0.9], Answer.OTHER_KEY), ([0.0, 1.1], Answer.SILENT)])
def test_only_who_hangs_up_at_once_has_another_key(
    place: Place, clock: list[float], answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("masquerade_host.transport.dialer.time", SimpleNamespace(monotonic=iter(clock).__next__))
    assert probe(place.address, place.keys["stranger"].public.curve) is answer


def test_a_server_without_curve_is_foreign_or_fails() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    plain = context.socket(zmq.ROUTER)
    port = plain.bind_to_random_port("tcp://127.0.0.1")
    address = f"tcp://127.0.0.1:{port}"
    party = PartySocket(address, new_keys(), new_keys().public.curve)
    assert connection_event(party) in (ConnectionEvent.FOREIGN, ConnectionEvent.FAILED)
    assert probe(address, new_keys().public.curve) is Answer.FOREIGN
    party.close(0)
    plain.close(0)
    context.term()


def raw(place: Place, keys: Keys | None, routing_id: bytes = b"") -> "zmq.Socket[bytes]":
    """A DEALER with none of our care."""
    dealer: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    dealer.linger = 0
    if routing_id:
        dealer.routing_id = routing_id
    if keys is not None:
        dealer.curve_secretkey = z85.encode(keys.curve)
        dealer.curve_publickey = z85.encode(keys.public.curve)
        dealer.curve_serverkey = z85.encode(place.keys["charlie"].public.curve)
    dealer.connect(place.address)
    return dealer


def test_without_curve_nothing_gets_through(place: Place) -> None:
    dealer = raw(place, None)
    dealer.send(b"hello")
    assert arrivals(place, 0.5) == []
    dealer.close()


def test_a_borrowed_routing_id_makes_nobody_somebody_else(place: Place) -> None:
    honest = place.party("p2")
    honest.send(b"I am p2")
    [arrival] = arrivals(place)
    place.charlie.found("p2", arrival.route)
    thief = raw(place, place.keys["p1"], arrival.route)
    thief.send(next(cut(b"I am p2, too")))
    stolen = arrivals(place, 1.0)
    assert {a.name for a in stolen} <= {"p1"}
    place.charlie.send("p2", b"for p2 alone")
    assert until(lambda: list(honest.arrivals())) == [b"for p2 alone"]
    assert thief.poll(200) == 0
    thief.close()


def test_a_message_that_is_longer_than_a_chunk_never_arrives(place: Place) -> None:
    dealer = raw(place, place.keys["p1"])
    dealer.send(bytes(MAX_MESSAGE))  # and CURVE's own bytes
    assert arrivals(place, 0.5) == []

    def sent_again() -> list[Arrival]:
        dealer.send(next(cut(b"short")))  # lost as well, unless there is a new connection already
        return arrivals(place, 2.0)

    received = until(sent_again)
    assert isinstance(received, list)
    assert {a.data for a in received} == {b"short"}
    dealer.close()


@pytest.mark.parametrize("length", [0, 1, CHUNK, CHUNK + 1, MAX_FRAME, MAX_JOINED])
def test_frames_of_all_lengths_go_both_ways(place: Place, length: int) -> None:
    party = place.party("p1")
    frame = SystemRng().bytes(length)
    party.send(frame)

    def went() -> list[Arrival]:
        party.flush()
        return list(place.charlie.arrivals())

    found = until(went)
    assert isinstance(found, list)
    [arrival] = found
    assert (arrival.name, arrival.data) == ("p1", frame)
    place.charlie.found("p1", arrival.route)
    place.charlie.send("p1", frame)

    def came() -> list[bytes | None]:
        place.charlie.flush()
        return list(party.arrivals())

    assert until(came) == [frame]
    assert not party.busy
    assert place.charlie.waiting("p1") == 0


@pytest.mark.parametrize(
    "message", [[b"no header"], [b""], [next(cut(b"x" * CHUNK))[:-1]], [next(cut(b"a")), next(cut(b"b"))]]
)
def test_what_is_no_chunk_arrives_as_nothing_under_the_senders_name(place: Place, message: list[bytes]) -> None:
    dealer = raw(place, place.keys["p1"])
    dealer.send_multipart(message)
    [arrival] = arrivals(place)
    assert (arrival.name, arrival.data) == ("p1", None)
    dealer.close()


def test_what_a_party_cannot_take_waits_here(place: Place) -> None:
    party = place.party("p1")
    party.send(b"hello")
    [arrival] = arrivals(place)
    place.charlie.found("p1", arrival.route)
    party.close(0)
    place.parties.clear()

    def sent() -> bool:
        place.charlie.send("p1", b"x" * 100)
        return place.charlie.busy

    assert until(sent)  # ZeroMQ takes frames until it has noticed that the connection is gone
    assert place.charlie.waiting("p1") == 100
    place.charlie.forget("p1")
    assert not place.charlie.busy


def test_the_last_frame_before_the_close_arrives(place: Place) -> None:
    """With ZMQ_IMMEDIATE it was lost in one case of ten."""
    keys = new_keys()
    for _ in range(40):
        address = f"tcp://127.0.0.1:{free_port()}"
        charlie = CharlieSocket(address, keys, {"p1": place.keys["p1"].public.curve})
        party = PartySocket(address, place.keys["p1"], keys.public.curve)
        party.send(b"hello")
        found = until(lambda charlie=charlie: list(charlie.arrivals()))  # type: ignore[misc]
        assert isinstance(found, list)
        charlie.found("p1", found[0].route)
        charlie.send("p1", b"bye")
        charlie.close(int(1000 * PATIENT))
        assert until(lambda party=party: list(party.arrivals())) == [b"bye"]  # type: ignore[misc]
        party.close(0)


def test_a_port_in_use(place: Place) -> None:
    with raises(BadInput, "socket_in_use"):
        CharlieSocket(place.address, new_keys(), {})


@pytest.mark.parametrize("host", ["8.8.8.8", "no-such-name.invalid", "[2001:db8::1]"])
def test_an_address_that_is_not_this_machines(host: str) -> None:
    with pytest.raises(BadInput) as caught:
        CharlieSocket(f"tcp://{host}:5555", new_keys(), {})
    assert "--listen" in caught.value.hint


def test_a_name_is_resolved() -> None:
    port = free_port()
    charlie = CharlieSocket(f"tcp://localhost:{port}", new_keys(), {})
    assert charlie.address.endswith(f":{port}")
    charlie.close(0)


@pytest.mark.parametrize(
    "request_",
    [
        [],
        [b"1.0"],
        [b"1.0", b"1", b"masquerade", b"", b"", b"NULL"],
        [b"1.0", b"1", b"masquerade", b"", b"", b"PLAIN", b"user", b"password"],
        [b"1.0", b"1", b"other", b"", b"", b"CURVE", b"k" * 32],
        [b"2.0", b"1", b"masquerade", b"", b"", b"CURVE", b"k" * 32],
        [b"1.0", b"1", b"masquerade", b"", b"", b"CURVE", b"unknown"],
        [b"1.0", b"1", b"masquerade", b"", b"", b"CURVE", b"k" * 32, b"more"],
    ],
)
def test_the_doorkeeper_denies_whatever_is_not_a_listed_key(request_: list[bytes]) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    keeper = _Doorkeeper(context, [b"k" * 32])
    assert keeper._judge(request_)[2] == b"400"
    good = [b"1.0", b"7", b"masquerade", b"127.0.0.1", b"", b"CURVE", b"k" * 32]
    assert keeper._judge(good) == [b"1.0", b"7", b"200", b"OK", z85.encode(b"k" * 32), b""]
    keeper._socket.close(0)
    context.term()


def test_a_listed_key_may_connect_only_so_often_and_is_not_told_that_it_is_unknown() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    keeper = _Doorkeeper(context, [b"k" * 32, b"j" * 32])
    request = [b"1.0", b"7", b"masquerade", b"127.0.0.1", b"", b"CURVE", b"k" * 32]
    answers = [keeper._judge(request)[2] for _ in range(40)]
    assert answers[:16] == [b"200"] * 16
    assert set(answers[20:]) == {b"300"}
    assert keeper._judge([*request[:-1], b"j" * 32])[2] == b"200"
    assert keeper._may_connect(b"k" * 32, time.monotonic() + 0.6)
    keeper.pause(b"j" * 32)
    now = time.monotonic()
    assert [keeper._may_connect(b"j" * 32, now + after) for after in (0.0, 0.5, 1.2)] == [False, False, True]
    assert not keeper.denied
    keeper._socket.close(0)
    context.term()


def test_a_party_that_is_hung_up_hears_why_and_comes_back_later(place: Place) -> None:
    party = place.party("p1")
    party.send(b"hello")
    [arrival] = arrivals(place)
    reason = SystemRng().bytes(2 * CHUNK)
    place.charlie.tell(arrival.route, reason)
    place.charlie.hang_up("p1", arrival.route)
    party.send(b"this is dropped")
    assert until(lambda: list(party.arrivals())) == [reason]
    assert until(lambda: ConnectionEvent.LOST in list(party.connection_events()))
    assert arrivals(place, 0.1) == []
    party.reopen()
    party.send(b"hello again")
    events = [connection_event(party)]
    while events[-1] is not ConnectionEvent.CONNECTED:
        assert events[-1] is ConnectionEvent.FAILED  # for a second
        party.reopen()
        events.append(connection_event(party))
    party.send(b"hello again")
    assert {a.data for a in arrivals(place)} == {b"hello again"}


def test_half_open_connections_do_not_keep_a_party_out(place: Place) -> None:
    silent = [socket.create_connection(("127.0.0.1", int(place.address.rpartition(":")[2]))) for _ in range(50)]
    party = place.party("p1")
    assert connection_event(party) is ConnectionEvent.CONNECTED
    for connection in silent:
        connection.close()

"""The Seat: what a role may ask for, and which rules it cannot break."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from masquerade_core.crypto.boxes import seal
from masquerade_core.crypto.paillier import FullPool
from masquerade_core.crypto.pair_keys import BoxKey
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.rng import Rng
from masquerade_core.seat import Effect, Join, Once, Receive, Release, Seat, Send, Stage
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import Broadcast, Message, SealedMessage, encode, pack_envelope
from tests.helpers import RUN, finish, joined, secret_key, until
from tests.messages import raises, says

NAMES = ("alice", "bob", "eve")
NONCE = bytes(24)


class Loud(Message):
    word: str


class News(Broadcast):
    word: str


class Hush(SealedMessage):
    word: str


class Psst(SealedMessage):
    word: str


class Terms(SealedMessage):
    terms: Ciphertexts


class Total(Broadcast):
    total: Ciphertexts


@pytest.fixture
def alice() -> Seat:
    return joined("alice", NAMES)


@pytest.fixture
def bob() -> Seat:
    return joined("bob", NAMES)


@pytest.fixture
def charlie() -> Seat:
    return joined(CHARLIE, NAMES)


def refused(role: Coroutine[Effect, Any, Any], key: str = "", *values: object) -> None:
    """Expect that a role fails with a bug of its own, with this sentence, before anything is sent."""
    with raises(LocalProtocolError, key, *values) if key else pytest.raises(LocalProtocolError):
        until(role, Send)


def sealed(seat: Seat, message: SealedMessage, to: str | None = None) -> dict[str, bytes]:
    """The boxes of one sealed message, by recipient."""
    role = seat.send_sealed(message, to)
    send = until(role, Send)
    with pytest.raises(StopIteration):
        role.send(None)
    assert (send.kind, send.type) == ("sealed", type(message).__name__)
    return dict(zip(send.to, send.bodies, strict=True))


def hear(seat: Seat, box: bytes, sender: str, cls: type[Message] = Hush) -> Any:
    role = seat.receive(cls, sender)
    assert role.send(None) == Receive("sealed", cls.__name__, (sender,))
    return finish(role, (box,))


def not_heard(
    seat: Seat, box: bytes, sender: str, cls: type[Message] = Hush, *, proved: bool = False
) -> ProtocolViolation:
    """Expect a violation: ``proved`` to be the sender's fault, or one that may be the sender's or Charlie's."""
    with pytest.raises(ProtocolViolation) as caught:
        hear(seat, box, sender, cls)
    blame = (sender, ()) if proved else ("", (sender, CHARLIE))
    assert (caught.value.peer, caught.value.suspects) == blame
    assert sender in caught.value.message
    assert "canary" not in caught.value.message
    return caught.value


# --- Effects -------------------------------------------------------------------


def test_others_are_the_other_parties_in_roster_order(bob: Seat, charlie: Seat) -> None:
    assert bob.others == ("alice", "eve")
    assert charlie.others == NAMES


def test_a_message_goes_to_charlie_and_from_charlie(alice: Seat, charlie: Seat) -> None:
    body = encode(Loud(word="hi"), "")
    assert until(alice.send(CHARLIE, Loud(word="hi")), Send) == Send("message", "Loud", (CHARLIE,), (body,))
    assert until(charlie.send("bob", Loud(word="hi")), Send) == Send("message", "Loud", ("bob",), (body,))
    assert until(charlie.broadcast(News(word="hi")), Send) == Send("message", "News", NAMES, (body,) * 3, True)
    assert until(alice.send(CHARLIE, News(word="hi")), Send) == Send("message", "News", (CHARLIE,), (body,))


def test_stages_releases_and_draws_are_effects(alice: Seat) -> None:
    assert until(alice.stage("one"), Stage) == Stage("one")
    assert until(alice.release("shares", 1.0, 1e-5), Release) == Release("shares", 1.0, 1e-5)
    once = alice.once("coin", lambda rng: rng.bytes(1)).send(None)
    assert isinstance(once, Once)
    assert once.label == "coin"
    assert once.compute(SimulationRng(1)) == SimulationRng(1).bytes(1)


def test_what_is_gathered_comes_by_name_in_roster_order(alice: Seat, charlie: Seat) -> None:
    role = charlie.gather(Loud, NAMES)
    assert role.send(None) == Receive("message", "Loud", NAMES)
    bodies = tuple(encode(Loud(word=name), "") for name in NAMES)
    heard = finish(role, bodies)
    assert list(heard) == list(NAMES)
    assert all(heard[name].word == name for name in NAMES)
    assert alice.gather(Loud).send(None) == Receive("message", "Loud", ("bob", "eve"))


def test_a_party_takes_a_broadcast_only_if_it_went_to_all(alice: Seat, charlie: Seat) -> None:
    assert alice.receive(News, CHARLIE).send(None) == Receive("message", "News", (CHARLIE,), broadcast=True)
    assert alice.receive(Loud, CHARLIE).send(None) == Receive("message", "Loud", (CHARLIE,))
    assert charlie.receive(News, "bob").send(None) == Receive("message", "News", ("bob",))


def test_garbage_in_the_clear_names_the_sender(charlie: Seat) -> None:
    role = charlie.gather(Loud, NAMES)
    role.send(None)
    good = encode(Loud(word="x"), "")
    with pytest.raises(ProtocolViolation) as caught:
        finish(role, (good, b"canary", good))
    assert caught.value.peer == "bob"


# --- What a role may not do ----------------------------------------------------


def test_a_label_serves_once(alice: Seat) -> None:
    finish(alice.once("noise", lambda rng: rng.bytes(4)))
    refused(alice.once("noise", lambda rng: rng.bytes(4)), "drawn_twice", "'noise'")
    finish(alice.once("more noise", lambda rng: rng.bytes(4)))


def test_a_seat_is_joined_once(alice: Seat) -> None:
    refused(alice.join(), "drawn_twice", "'box key'")


def test_a_sealed_message_never_travels_in_the_clear(alice: Seat, charlie: Seat) -> None:
    refused(alice.send(CHARLIE, Hush(word="x")), "sealed_in_the_clear", "Hush")
    refused(charlie.send("bob", Hush(word="x")), "sealed_in_the_clear", "Hush")
    refused(charlie.broadcast(Hush(word="x")), "sealed_in_the_clear", "Hush")


def test_a_message_is_not_sealed_for_a_party(alice: Seat) -> None:
    refused(alice.send_sealed(Loud(word="x"), "bob"), "not_a_sealed_message", "Loud")  # type: ignore[arg-type]
    refused(alice.send_sealed(Loud(word="x")), "not_a_sealed_message", "Loud")  # type: ignore[arg-type]


@pytest.mark.parametrize("to", [CHARLIE, "alice", "stranger", "*", ""])
def test_no_sealed_message_goes_to_charlie_to_oneself_or_to_a_stranger(alice: Seat, to: str) -> None:
    refused(alice.send_sealed(Hush(word="x"), to), "sealed_to_no_party", "alice")


def test_charlie_sends_no_sealed_message_and_parties_do_not_broadcast(alice: Seat, charlie: Seat) -> None:
    refused(charlie.send_sealed(Hush(word="x")), "sealed_to_no_party", "charlie")
    refused(charlie.send_sealed(Hush(word="x"), "bob"), "sealed_to_no_party", "charlie")
    refused(alice.broadcast(News(word="x")), "cannot_broadcast", "alice")


def test_charlie_broadcasts_what_is_declared_so_and_nothing_else(charlie: Seat) -> None:
    refused(charlie.broadcast(Loud(word="x")), "not_a_broadcast", "Loud")
    refused(charlie.send("bob", News(word="x")), "broadcast_to_one", "News", "charlie", "bob")


def test_parties_do_not_send_to_each_other_nor_charlie_to_himself(alice: Seat, charlie: Seat) -> None:
    refused(alice.send("bob", Loud(word="x")), "neither_end_is_charlie")
    refused(alice.send("alice", Loud(word="x")), "neither_end_is_charlie")
    refused(charlie.send(CHARLIE, Loud(word="x")), "neither_end_is_charlie")


def test_nobody_talks_or_listens_before_joining() -> None:
    alice, charlie = Seat("alice", NAMES), Seat(CHARLIE, NAMES)
    for role in (
        alice.send(CHARLIE, Loud(word="x")),
        alice.send_sealed(Hush(word="x")),
        alice.receive(Loud, CHARLIE),
        alice.gather(Hush),
        charlie.broadcast(Loud(word="x")),
    ):
        refused(role, "used_before_joining")
    calls: tuple[Callable[[], object], ...] = (
        lambda: alice.seal(SimulationRng(0), CHARLIE, b"x"),
        lambda: alice.unseal(bytes(50), length=2),
        lambda: alice.pair_key("bob", "x"),
    )
    for call in calls:
        with raises(LocalProtocolError, "used_before_joining"):
            call()


@pytest.mark.parametrize("key", [bytes(32), (1).to_bytes(32, "little"), bytes(31), b""])
def test_who_joins_with_no_key_is_named(key: bytes) -> None:
    seat = Seat("alice", NAMES)
    role = seat.join()
    until(role, Join)
    good = [(name, BoxKey(SimulationRng(name).bytes(32)).public) for name in ("alice", "eve", CHARLIE)]
    with pytest.raises(ProtocolViolation) as caught:
        role.send(((*good, ("bob", key)), RUN))
    assert caught.value.peer == "bob"


def test_ciphertexts_go_where_they_were_made_for(alice: Seat, charlie: Seat) -> None:
    key = secret_key()

    def made(to: str) -> Ciphertexts:
        return Ciphertexts.outgoing([FullPool(key.public, key.obfuscators(SimulationRng(0), 1)).encrypt(1, to)])

    refused(alice.send(CHARLIE, Total(total=made("bob"))), "ciphertexts_not_fresh", "charlie", ...)
    refused(alice.send_sealed(Terms(terms=made(CHARLIE)), "bob"), "ciphertexts_not_fresh", "bob", ...)
    refused(alice.send_sealed(Terms(terms=made("eve")), "bob"), "ciphertexts_not_fresh", "bob", ...)
    refused(alice.send_sealed(Terms(terms=made("bob"))), "ciphertexts_not_fresh", ..., ...)
    refused(charlie.broadcast(Total(total=made("bob"))), "ciphertexts_not_fresh", ..., ...)
    assert len(until(alice.send_sealed(Terms(terms=made("bob")), "bob"), Send).bodies) == 1
    assert len(until(charlie.broadcast(Total(total=made("*"))), Send).bodies) == 3


def test_what_came_off_the_wire_is_not_passed_on(alice: Seat, bob: Seat) -> None:
    key = secret_key()
    fresh = FullPool(key.public, key.obfuscators(SimulationRng(0), 1)).encrypt(1, "bob")
    box = sealed(alice, Terms(terms=Ciphertexts.outgoing([fresh])), "bob")["bob"]
    received = hear(bob, box, "alice", Terms)
    refused(bob.send_sealed(received, "eve"), "ciphertexts_not_fresh", ..., ...)
    refused(bob.send(CHARLIE, Total(total=received.terms)), "ciphertexts_not_fresh", ..., ...)


# --- Sealed messages ------------------------------------------------------------


def test_a_sealed_message_reaches_its_recipient(alice: Seat, bob: Seat) -> None:
    boxes = sealed(alice, Hush(word="canary"))
    assert list(boxes) == ["bob", "eve"]
    assert hear(bob, boxes["bob"], "alice") == Hush(word="canary")
    not_heard(joined("eve", NAMES), boxes["bob"], "alice")
    assert b"canary" not in boxes["bob"] + boxes["eve"]


def test_all_boxes_of_a_sealed_message_are_equally_long_whatever_the_names() -> None:
    names = ("a", "b" * 32, "a-rather-long-name")
    boxes = sealed(joined("a", names), Hush(word="x"))
    longer = sealed(joined("b" * 32, names), Hush(word="x"))
    assert {len(box) for box in (*boxes.values(), *longer.values())} == {len(boxes["b" * 32])}


def test_every_box_has_a_nonce_of_its_own(alice: Seat) -> None:
    rng = SimulationRng(3)
    nonces = []
    for word in ("one", "two"):
        nonces += [box[:24] for box in until(alice.send_sealed(Hush(word=word)), Send, rng).bodies]
    assert len(set(nonces)) == 4


def test_an_old_box_is_not_heard_again(alice: Seat, bob: Seat) -> None:
    first = sealed(alice, Hush(word="canary"))["bob"]
    second = sealed(alice, Hush(word="canary"))["bob"]
    hear(bob, first, "alice")
    not_heard(bob, first, "alice")
    hear(bob, second, "alice")


def test_boxes_out_of_order_are_not_heard(alice: Seat, bob: Seat) -> None:
    sealed(alice, Hush(word="canary"))
    not_heard(bob, sealed(alice, Hush(word="canary"))["bob"], "alice")


def test_ones_own_box_does_not_come_back_as_the_peers(alice: Seat) -> None:
    # Each direction has a key of its own: alice cannot take what she sealed for bob for his.
    mine = sealed(alice, Hush(word="canary"))["bob"]
    assert says(not_heard(alice, mine, "bob").message, "box_does_not_open", ..., ...)


def test_a_box_of_another_type_is_not_heard(alice: Seat, bob: Seat) -> None:
    assert "another turn" in not_heard(bob, sealed(alice, Psst(word="canary"))["bob"], "alice").message


def test_a_box_of_another_sender_is_not_heard(alice: Seat, bob: Seat) -> None:
    box = sealed(alice, Hush(word="canary"))["bob"]
    not_heard(bob, box, "eve")


def test_a_changed_box_is_not_heard(alice: Seat, bob: Seat) -> None:
    box = sealed(alice, Hush(word="canary"))["bob"]
    for bad in (box[:-1], box + b"\0", b"", box[:24], bytes((box[0] ^ 1,)) + box[1:], box[:-1] + bytes((box[-1] ^ 1,))):
        not_heard(bob, bad, "alice")
    hear(bob, box, "alice")


def test_garbage_in_a_good_box_of_this_turn_names_the_sender_for_charlie_cannot_make_one(bob: Seat) -> None:
    key = joined("alice", NAMES).pair_key("bob", "sealed message", sender="alice")
    garbage = pack_envelope("alice", "bob", "Hush", 0, b"canary")
    not_heard(joined("bob", NAMES), seal(key, garbage, NONCE), "alice", proved=True)
    for plain in (b"", b"canary"):  # for all bob can tell, Charlie may have sent an old box of alice's again
        not_heard(joined("bob", NAMES), seal(key, plain, NONCE), "alice")


def test_sealed_messages_are_counted_for_each_pair(alice: Seat, bob: Seat) -> None:
    eve = joined("eve", NAMES)
    to_bob = sealed(alice, Hush(word="for bob"), "bob")["bob"]
    to_eve = sealed(alice, Hush(word="for eve"), "eve")["eve"]
    to_all = sealed(alice, Hush(word="for all"))
    of_eve = sealed(eve, Hush(word="from eve"), "bob")["bob"]
    assert hear(eve, to_eve, "alice").word == "for eve"
    assert hear(bob, to_bob, "alice").word == "for bob"
    assert hear(bob, of_eve, "eve").word == "from eve"
    assert hear(bob, to_all["bob"], "alice").word == "for all"
    assert hear(eve, to_all["eve"], "alice").word == "for all"


# --- For a third participant ---------------------------------------------------


def test_a_sealed_value_opens_at_its_owner_and_bears_no_name(alice: Seat, bob: Seat, charlie: Seat) -> None:
    of_alice, of_bob = (seat.seal(SimulationRng(1), CHARLIE, b"12345") for seat in (alice, bob))
    assert of_alice == of_bob  # with the same randomness, since a box contains nothing of its sender
    assert charlie.unseal(of_alice, length=5) == b"12345"
    with pytest.raises(ProtocolViolation):
        bob.unseal(of_alice, length=5)


@pytest.mark.parametrize("length", [0, 4, 6])
def test_a_sealed_value_of_another_length_is_refused(alice: Seat, charlie: Seat, length: int) -> None:
    with raises(ProtocolViolation, "sealed_value_length", 5, length):
        charlie.unseal(alice.seal(SimulationRng(1), CHARLIE, b"12345"), length=length)


def test_pair_keys_are_bound_to_the_pair_the_run_the_purpose_the_direction_and_the_context(
    alice: Seat, bob: Seat, charlie: Seat
) -> None:
    def all_of(seat: Seat, peer: str) -> list[bytes]:
        return [
            seat.pair_key(peer, "x"),
            seat.pair_key(peer, "y"),
            seat.pair_key(peer, "x", sender="alice"),
            seat.pair_key(peer, "x", sender=peer if seat.me == "alice" else seat.me),
            seat.pair_key(peer, "x", context=b"z"),
        ]

    common = all_of(alice, "bob")
    assert common == all_of(bob, "alice")
    assert alice.pair_key(CHARLIE, "x") == charlie.pair_key("alice", "x")
    others = [alice.pair_key("eve", "x"), joined("alice", NAMES, bytes(16)).pair_key("bob", "x")]
    assert len({*common, *others, alice.pair_key(CHARLIE, "x")}) == 8


def test_a_seat_draws_through_once_alone(alice: Seat) -> None:
    """The seat has no source of randomness of its own, so it cannot seal before the nonces are drawn."""
    role = alice.send_sealed(Hush(word="x"))
    once = role.send(None)
    assert isinstance(once, Once)

    class Empty:
        def bytes(self, n: int) -> bytes:
            return bytes(n)

        def bits(self, k: int) -> int:
            return 0

        def below(self, n: int) -> int:
            return 0

    rng: Rng = Empty()
    send = role.send(once.compute(rng))
    assert isinstance(send, Send)
    assert all(box[:24] == NONCE for box in send.bodies)

"""Boxes, anonymous boxes and signatures, with PyNaCl's own as the oracle."""

from functools import partial

import pytest
from nacl.public import Box, PrivateKey, PublicKey, SealedBox
from nacl.signing import SigningKey as NaclSigningKey
from nacl.signing import VerifyKey

from masquerade_core.crypto.boxes import (
    ANONYMOUS_OVERHEAD,
    BOX_OVERHEAD,
    SIGNATURE_BYTES,
    BoxKey,
    SigningKey,
    open_anonymous,
    seal_anonymous,
    verify,
)
from masquerade_core.errors import ProtocolViolation
from masquerade_core.rng import SimulationRng
from tests.helpers import PEER, cuts, either, flips, keeps_its_secret, violation

ALICE, BOB, EVE = (SimulationRng(name).bytes(32) for name in ("alice", "bob", "eve"))
NONCE = bytes(range(24))
SMALL_ORDER = (bytes(32), (1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little"))


@pytest.fixture
def alice() -> BoxKey:
    return BoxKey(ALICE)


@pytest.fixture
def bob() -> BoxKey:
    return BoxKey(BOB)


# --- Between two ---------------------------------------------------------------


def test_a_box_is_pynacls(alice: BoxKey, bob: BoxKey) -> None:
    sealed = alice.seal(bob.public, b"hello", NONCE)
    assert sealed == bytes(Box(PrivateKey(ALICE), PublicKey(bob.public)).encrypt(b"hello", NONCE))
    assert Box(PrivateKey(BOB), PublicKey(alice.public)).decrypt(sealed) == b"hello"
    theirs = bytes(Box(PrivateKey(BOB), PublicKey(alice.public)).encrypt(b"back"))
    assert alice.open(bob.public, theirs, PEER) == b"back"


@pytest.mark.parametrize("length", [0, 1, 100, 10_000])
def test_boxes_are_longer_by_a_constant(alice: BoxKey, bob: BoxKey, length: int) -> None:
    assert len(alice.seal(bob.public, bytes(length), NONCE)) == length + BOX_OVERHEAD
    assert len(seal_anonymous(SimulationRng(0), bob.public, bytes(length))) == length + ANONYMOUS_OVERHEAD


def test_a_changed_box_may_be_the_peers_fault_or_charlies_and_accuses_neither_alone(alice: BoxKey, bob: BoxKey) -> None:
    sealed = alice.seal(bob.public, b"canary-canary", NONCE)
    for bad in (*flips(sealed), *cuts(sealed)):
        error = either(partial(bob.open, alice.public, bad, PEER))
        assert "canary" not in error.message


def test_a_box_of_somebody_else_does_not_open(alice: BoxKey, bob: BoxKey) -> None:
    eve = BoxKey(EVE)
    either(lambda: bob.open(alice.public, eve.seal(bob.public, b"hello", NONCE), PEER))
    either(lambda: eve.open(alice.public, alice.seal(bob.public, b"hello", NONCE), PEER))


@pytest.mark.parametrize("key", [*SMALL_ORDER, b"", bytes(31), bytes(33)])
def test_a_key_of_small_order_or_wrong_length_is_named_and_never_used(alice: BoxKey, key: bytes) -> None:
    violation(lambda: alice.check(key, PEER))
    violation(lambda: alice.open(key, bytes(100), PEER))


def test_both_compute_one_pair_key_and_nobody_else_does(alice: BoxKey, bob: BoxKey) -> None:
    eve = BoxKey(EVE)
    common = alice.shared_key(bob.public, b"zero")
    assert common == bob.shared_key(alice.public, b"zero")
    assert len(common) == 32
    others = {
        alice.shared_key(bob.public, b"one"),
        alice.shared_key(eve.public, b"zero"),
        eve.shared_key(alice.public, b"one"),
        eve.shared_key(bob.public, b"zero"),
        Box(PrivateKey(ALICE), PublicKey(bob.public)).shared_key(),
    }
    assert len(others) == 5
    assert common not in others


# --- Anonymous -----------------------------------------------------------------


def test_pynacl_opens_ours_and_we_open_pynacls(bob: BoxKey) -> None:
    ours = seal_anonymous(SimulationRng(1), bob.public, b"b_j")
    assert SealedBox(PrivateKey(BOB)).decrypt(ours) == b"b_j"
    theirs = SealedBox(PublicKey(bob.public)).encrypt(b"b_j")
    assert open_anonymous(bob, theirs) == b"b_j"
    assert len(theirs) == len(ours)


def test_an_anonymous_box_takes_its_randomness_from_the_seat(bob: BoxKey) -> None:
    one = seal_anonymous(SimulationRng(1), bob.public, b"b_j")
    assert one == seal_anonymous(SimulationRng(1), bob.public, b"b_j")
    other = seal_anonymous(SimulationRng(2), bob.public, b"b_j")
    assert one[:32] != other[:32]
    assert one[32:] != other[32:]


def test_a_changed_anonymous_box_blames_nobody(bob: BoxKey) -> None:
    sealed = seal_anonymous(SimulationRng(1), bob.public, b"canary")
    bad_keys = [key + sealed[32:] for key in SMALL_ORDER]
    for bad in (*flips(sealed), *cuts(sealed), *bad_keys, b""):
        with pytest.raises(ProtocolViolation, match="anonymous box") as caught:
            open_anonymous(bob, bad)
        assert (caught.value.peer, caught.value.suspects) == ("", ())
        assert "canary" not in caught.value.message


def test_an_anonymous_box_opens_for_its_owner_alone(alice: BoxKey, bob: BoxKey) -> None:
    with pytest.raises(ProtocolViolation):
        open_anonymous(alice, seal_anonymous(SimulationRng(1), bob.public, b"b_j"))


# --- Signatures ----------------------------------------------------------------


def test_a_signature_is_pynacls() -> None:
    key = SigningKey(ALICE)
    assert key.public == bytes(NaclSigningKey(ALICE).verify_key)
    signature = key.sign(b"data")
    assert len(signature) == SIGNATURE_BYTES
    assert VerifyKey(key.public).verify(b"data", signature) == b"data"
    assert verify(key.public, b"data", signature)


def test_no_change_of_data_signature_or_key_verifies() -> None:
    key = SigningKey(ALICE)
    signature = key.sign(b"data")
    assert not any(verify(key.public, bad, signature) for bad in (*flips(b"data"), *cuts(b"data")))
    assert not any(verify(key.public, b"data", bad) for bad in (*flips(signature), *cuts(signature)))
    assert not any(verify(bad, b"data", signature) for bad in (*flips(key.public), *cuts(key.public)))
    assert not verify(SigningKey(BOB).public, b"data", signature)


# --- Secret --------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BoxKey, SigningKey])
def test_a_key_is_not_pickled_copied_shown_or_compared(kind: type[BoxKey | SigningKey]) -> None:
    key = kind(ALICE)
    keeps_its_secret(key, ALICE, ALICE[::-1])
    for other in (kind(ALICE), None, key):
        with pytest.raises(TypeError, match="compared"):
            _ = key == other
    with pytest.raises(TypeError):
        hash(key)
    with pytest.raises(TypeError):
        vars(key)

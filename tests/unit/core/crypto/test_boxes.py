"""Sealed boxes and signatures, with PyNaCl's own as the oracle."""

from functools import partial

import pytest
from nacl.secret import SecretBox
from nacl.signing import SigningKey as NaclSigningKey
from nacl.signing import VerifyKey

from masquerade_core.crypto.boxes import BOX_OVERHEAD, SIGNATURE_BYTES, SigningKey, open_sealed, seal, verify
from masquerade_core.crypto.pair_keys import BoxKey
from masquerade_core.simulation_rng import SimulationRng
from tests.helpers import PEER, cuts, either, flips, keeps_its_secret
from tests.messages import raises

ALICE, BOB = (SimulationRng(name).bytes(32) for name in ("alice", "bob"))
NONCE = bytes(range(24))


def test_a_box_is_pynacls() -> None:
    sealed = seal(ALICE, b"hello", NONCE)
    assert SecretBox(ALICE).decrypt(sealed) == b"hello"
    assert open_sealed(ALICE, bytes(SecretBox(ALICE).encrypt(b"back")), PEER) == b"back"


@pytest.mark.parametrize("length", [0, 1, 100, 10_000])
def test_boxes_are_longer_by_a_constant(length: int) -> None:
    assert len(seal(ALICE, bytes(length), NONCE)) == length + BOX_OVERHEAD


def test_a_changed_box_may_be_the_peers_fault_or_charlies_and_accuses_neither_alone() -> None:
    sealed = seal(ALICE, b"canary-canary", NONCE)
    for bad in (*flips(sealed), *cuts(sealed)):
        error = either(partial(open_sealed, ALICE, bad, PEER))
        assert "canary" not in error.message


def test_a_box_under_another_key_does_not_open() -> None:
    either(lambda: open_sealed(ALICE, seal(BOB, b"hello", NONCE), PEER))


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
        with raises(TypeError, "secret_key_compared"):
            _ = key == other
    with pytest.raises(TypeError):
        hash(key)
    with pytest.raises(TypeError):
        vars(key)

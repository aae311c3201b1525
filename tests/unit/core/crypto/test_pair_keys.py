"""Keys that two participants share: whom they bind, who can derive them, and who can prove that a key is its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from nacl.bindings import (
    crypto_core_ed25519_add,
    crypto_core_ed25519_is_valid_point,
    crypto_core_ed25519_sub,
    crypto_scalarmult,
)
from nacl.signing import SigningKey as NaclSigningKey

from masquerade_core.crypto import pair_keys
from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.crypto.pair_keys import (
    ANONYMOUS_OVERHEAD,
    BoxKey,
    End,
    alike,
    check_distinct,
    check_owned,
    derive,
    image_of,
    public_of,
    seal_anonymous,
)
from masquerade_core.errors import ProtocolViolation
from masquerade_core.simulation_rng import SimulationRng
from tests import ROOT
from tests.helpers import PEER, RUN, cuts, flips, keeps_its_secret, violation
from tests.messages import raises

ALICE, BOB, EVE = (SimulationRng(name).bytes(32) for name in ("alice", "bob", "eve"))
NEUTRAL = (1).to_bytes(32, "little")
ORDER_2 = (2**255 - 20).to_bytes(32, "little")
ORDER_8 = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")
SMALL_ORDER = (bytes(32), NEUTRAL, ORDER_2, ORDER_8)


@pytest.fixture
def alice() -> BoxKey:
    return BoxKey(ALICE)


@pytest.fixture
def bob() -> BoxKey:
    return BoxKey(BOB)


@pytest.fixture
def eve() -> BoxKey:
    return BoxKey(EVE)


def negative(public: bytes) -> bytes:
    """The point with the other sign: X25519 does not see the difference."""
    return public[:31] + bytes((public[31] ^ 0x80,))


# --- The derivation ------------------------------------------------------------


def test_it_is_hkdf_sha256(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 5869, test case 1, whose first 32 bytes are one block."""
    salt, info = bytes(range(13)), bytes(range(0xF0, 0xFA))
    monkeypatch.setattr(pair_keys, "crypto_scalarmult", lambda *_: b"\x0b" * 22)
    monkeypatch.setattr(pair_keys, "_joined", lambda *_: info)
    key = derive(salt, b"", b"", "", (End("", b""), End("", b"")))
    assert key.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


def test_both_derive_one_key_and_nobody_else_does(alice: BoxKey, bob: BoxKey, eve: BoxKey) -> None:
    ends = (End("alice", alice.public), End("bob", bob.public))
    common = alice.pair_key(RUN, bob.public, "x", ends)
    assert common == bob.pair_key(RUN, alice.public, "x", ends)
    assert len(common) == 32
    others = {
        eve.pair_key(RUN, alice.public, "x", ends),
        eve.pair_key(RUN, bob.public, "x", ends),
        crypto_scalarmult(alice._scalar, image_of(bob.public)),
    }
    assert len(others) == 3
    assert common not in others


@dataclass(frozen=True)
class Asked:
    """The inputs of a key."""

    run: bytes = RUN
    purpose: str = "masks"
    one: str = "alice"
    one_key: bytes = b"a"
    two: str = "bob"
    two_key: bytes = b"b"
    sender: str = ""
    context: bytes = b""

    def key(self) -> bytes:
        """The key."""
        ends = End(self.one, self.one_key), End(self.two, self.two_key)
        return derive(self.run, ALICE, public_of(BOB), self.purpose, ends, sender=self.sender, context=self.context)


def test_a_key_depends_on_all_that_it_is_derived_from_and_on_where_each_part_ends() -> None:
    good = Asked()
    others = [
        replace(good, run=bytes(16)),
        replace(good, purpose="mask"),
        replace(good, one="eve"),
        replace(good, two="eve"),
        replace(good, one_key=b"c"),
        replace(good, two_key=b"c"),
        replace(good, one="bob", one_key=b"b", two="alice", two_key=b"a"),
        replace(good, sender="alice"),
        replace(good, sender="bob"),
        replace(good, context=b"x"),
        replace(good, purpose="masksalice", one=""),
        replace(good, one="alic", one_key=b"ea"),
        replace(good, two="bo", two_key=b"bb"),
        replace(good, two_key=b"", sender="b"),
        replace(good, sender="", context=b"alice"),
    ]
    assert len({asked.key() for asked in (good, *others)}) == 1 + len(others)


def test_whoever_copies_a_key_gets_no_key_that_another_pair_has(alice: BoxKey, bob: BoxKey) -> None:
    """Eve announces bob's key, or one that X25519 takes for his: alice has other keys with her than with him."""
    sound = alice.pair_key(RUN, bob.public, "x", (End("alice", alice.public), End("bob", bob.public)))
    for copy in (bob.public, negative(bob.public)):
        assert image_of(copy) == image_of(bob.public)
        eves = alice.pair_key(RUN, copy, "x", (End("alice", alice.public), End("eve", copy)))
        own = alice.pair_key(RUN, copy, "x", (End("alice", alice.public), End("bob", copy)))
        assert eves != sound
        assert (own == sound) == (copy == bob.public)


# --- Where the secrets of two keys come from -----------------------------------


_AGREES = {
    "crypto_scalarmult",
    "crypto_box",
    "crypto_box_beforenm",
    "crypto_box_easy",
    "Box",
    "SealedBox",
}
_FOLDERS = ("src", "parties", "curator", "protocols")


def _uses(path: Path) -> Iterator[str]:
    """The names of functions and classes by which a file makes two X25519 keys agree."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if any(name in text for name in _AGREES) else ():
        names = {
            ast.ImportFrom: lambda n: [alias.name for alias in n.names] if (n.module or "").startswith("nacl") else [],
            ast.Attribute: lambda n: [n.attr],
            ast.Name: lambda n: [n.id],
        }.get(type(node), lambda _: [])(node)
        yield from (name for name in names if name in _AGREES)


def test_two_keys_agree_in_one_place_and_in_the_probe_of_the_transports_handshake() -> None:
    """The probe speaks ZeroMQ's CURVE, whose format is not ours, and learns no key of a run."""
    found = {
        path.relative_to(ROOT).as_posix() for f in _FOLDERS for path in (ROOT / f).rglob("*.py") if set(_uses(path))
    }
    assert found == {"src/masquerade_core/crypto/pair_keys.py", "src/masquerade_host/transport/dialer.py"}


def test_the_secret_of_two_keys_is_extracted_from_and_serves_nothing_else() -> None:
    tree = ast.parse((ROOT / "src/masquerade_core/crypto/pair_keys.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "crypto_scalarmult"]
    (extract,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_extract")
    assert len(calls) == 1
    assert calls[0] in set(ast.walk(extract))


def test_no_two_uses_have_one_purpose() -> None:
    """Each purpose stands in one place, or in a constant that two directions of one use share."""
    written: list[str] = []
    texts = (path.read_text(encoding="utf-8") for f in _FOLDERS for path in (ROOT / f).rglob("*.py"))
    for text in (text for text in texts if "pair_key" in text or "derive" in text):
        for node in ast.walk(ast.parse(text)):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            at = {"pair_key": 1, "derive": 3}.get(name)
            if isinstance(node, ast.Call) and at is not None and len(node.args) > at:
                argument = node.args[at]
                written += [str(argument.value)] if isinstance(argument, ast.Constant) else []
    assert {"masks", "Paillier blinds", "shares of zero", "vouches", "one-time masks"} <= set(written)
    assert len(written) == len(set(written))


# --- The proof that a key is one's own -----------------------------------------


@dataclass(frozen=True)
class Claim:
    """A participant's announcement, and its purpose."""

    box_key: bytes
    nonce: bytes
    proof: bytes
    study_id: bytes
    name: str
    signing: bytes

    def check(self) -> None:
        """Check it."""
        check_owned(self, self.study_id, self.name, self.signing)


@pytest.fixture
def claim(alice: BoxKey) -> Claim:
    signing = SigningKey(ALICE[::-1]).public
    return Claim(alice.public, bytes(16), alice.prove(RUN, "alice", signing, bytes(16)), RUN, "alice", signing)


def test_whoever_owns_a_key_proves_it(claim: Claim) -> None:
    claim.check()


def test_a_proof_is_for_one_study_name_identity_nonce_and_key(claim: Claim, eve: BoxKey) -> None:
    for changes in (
        {"study_id": bytes(16)},
        {"name": "eve"},
        {"signing": SigningKey(EVE).public},
        {"nonce": b"\1" * 16},
        {"box_key": eve.public},
        {"box_key": negative(claim.box_key)},
        {"box_key": crypto_core_ed25519_sub(claim.box_key, ORDER_2)},
        *({"proof": bad} for bad in (*flips(claim.proof), *cuts(claim.proof), b"")),
    ):
        wrong = replace(claim, **changes)  # type: ignore[arg-type]
        with pytest.raises(ProtocolViolation) as caught:
            wrong.check()
        assert (caught.value.peer, caught.value.suspects) == (wrong.name, ())


def test_a_proof_is_no_signature_of_the_identity_and_a_frame_is_no_proof(claim: Claim, alice: BoxKey) -> None:
    """The statement begins with a domain of its own: what a key signs elsewhere proves nothing here."""
    for said in (b"", RUN, b"alice" + alice.public, alice.public):
        with pytest.raises(ProtocolViolation):
            replace(claim, proof=SigningKey(ALICE).sign(said)).check()


def test_an_owner_who_signs_two_names_shows_two_proofs_of_one_key(alice: BoxKey, bob: BoxKey) -> None:
    """With two valid proofs nobody can tell who gave the key away: both are suspects."""
    keys = [("alice", alice.public), ("bob", bob.public)]
    assert alike(keys) is None
    check_distinct(keys)
    for copy in (alice.public, negative(alice.public)):
        with pytest.raises(ProtocolViolation) as caught:
            check_distinct([*keys, ("eve", copy)], {"eve": b"of eve", "alice": b"of alice", "bob": b"of bob"})
        assert (caught.value.peer, caught.value.suspects) == ("", ("alice", "eve"))
        assert caught.value.frames == (b"of alice", b"of eve")


def test_the_negative_of_a_key_is_owned_by_its_owner_alone(alice: BoxKey) -> None:
    """It is a point of the main subgroup with the same image. The scalar -a proves it; without a nobody has that."""
    copy = negative(alice.public)
    assert crypto_core_ed25519_is_valid_point(copy)
    assert crypto_core_ed25519_add(alice.public, copy) == NEUTRAL
    assert image_of(copy) == image_of(alice.public)


# --- Which keys are none -------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        *SMALL_ORDER,
        b"",
        bytes(31),
        bytes(33),
        crypto_core_ed25519_sub(BoxKey(BOB).public, ORDER_2),
        crypto_core_ed25519_sub(BoxKey(BOB).public, ORDER_8),
        (2**255 - 19).to_bytes(32, "little"),
        b"\xff" * 32,
    ],
    ids=lambda key: key.hex()[:8] or "nothing",
)
def test_what_lies_outside_the_main_subgroup_is_no_key_and_is_named(alice: BoxKey, key: bytes) -> None:
    violation(lambda: alice.check(key, PEER))
    with raises(ValueError, "box_key_unusable"):
        image_of(key)


def test_a_key_is_pynacls_image_of_its_ed25519_key(alice: BoxKey) -> None:
    key = NaclSigningKey(ALICE)
    assert alice.public == bytes(key.verify_key)
    assert image_of(alice.public) == bytes(key.verify_key.to_curve25519_public_key())
    assert public_of(bytes(key.to_curve25519_private_key())) == image_of(alice.public)


# --- Anonymous -----------------------------------------------------------------


def test_an_anonymous_box_takes_its_randomness_from_the_seat(bob: BoxKey) -> None:
    to = End("bob", bob.public)
    one = seal_anonymous(SimulationRng(1), RUN, to, b"b_j")
    assert one == seal_anonymous(SimulationRng(1), RUN, to, b"b_j")
    other = seal_anonymous(SimulationRng(2), RUN, to, b"b_j")
    assert one[:32] != other[:32]
    assert one[32:] != other[32:]
    assert len(one) == 3 + ANONYMOUS_OVERHEAD


def test_a_changed_anonymous_box_blames_nobody(bob: BoxKey) -> None:
    sealed = seal_anonymous(SimulationRng(1), RUN, End("bob", bob.public), b"canary")
    assert bob.open_anonymous(RUN, "bob", sealed) == b"canary"
    bad_keys = [key + sealed[32:] for key in (bytes(32), NEUTRAL, ORDER_2)]
    for bad in (*flips(sealed), *cuts(sealed), *bad_keys, b""):
        with raises(ProtocolViolation, "anonymous_box_shut") as caught:
            bob.open_anonymous(RUN, "bob", bad)
        assert (caught.value.peer, caught.value.suspects) == ("", ())
        assert "canary" not in caught.value.message


def test_an_anonymous_box_opens_for_its_owner_in_its_run_under_its_name_alone(alice: BoxKey, bob: BoxKey) -> None:
    sealed = seal_anonymous(SimulationRng(1), RUN, End("bob", bob.public), b"b_j")
    for key, run, name in ((alice, RUN, "bob"), (bob, bytes(16), "bob"), (bob, RUN, "alice")):
        with pytest.raises(ProtocolViolation):
            key.open_anonymous(run, name, sealed)


def test_a_box_key_shows_nothing_of_its_secret(alice: BoxKey) -> None:
    keeps_its_secret(alice, ALICE, ALICE[::-1])

"""Whoever announces a box key owns it, or is named, alone; two that have one key are both suspects."""

from __future__ import annotations

import hashlib
import json
from functools import partial

import pytest
from nacl.bindings import (
    crypto_core_ed25519_scalar_add,
    crypto_core_ed25519_scalar_mul,
    crypto_core_ed25519_scalar_negate,
    crypto_core_ed25519_scalar_reduce,
    crypto_scalarmult_ed25519_base_noclamp,
    crypto_sign_ed25519_sk_to_curve25519,
)

from masquerade_core.crypto import pair_keys
from masquerade_core.crypto.pair_keys import BoxKey
from masquerade_core.errors import ProtocolViolation
from masquerade_core.neighbours import neighbours_of
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Join
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import encode
from masquerade_core.wire.faults import Judge
from masquerade_host.session import admission, messages
from masquerade_host.session.messages import Hello
from masquerade_protocols.blame import check_evidence
from masquerade_protocols.registry import entry_named
from tests.helpers import joining
from tests.host_helpers import World
from tests.messages import says
from tests.unit.host.session.test_many_parties import world_of
from tests.wired import Wired

EVERYBODY = ("p1", "p2", "p3", CHARLIE)
HONEST = ("p1", "p3", CHARLIE)


@pytest.fixture
def wired() -> Wired:
    """Nobody has joined."""
    return Wired(World.new(3, port=5555))


def copying(key: bytes, nonce: bytes = bytes(16)) -> Join:
    """Announce a key of somebody else, with a proof under a key of one's own."""
    return Join(key, nonce, partial(BoxKey(SystemRng().bytes(32)).prove, name="p2", nonce=nonce))


def all_join(wired: Wired, **others: Join) -> None:
    """Everybody joins; ``others`` says who joins with what."""
    for name in (*wired.world.study.names, CHARLIE):
        wired.begin(name, others.get(name) or joining(name))
    wired.pump(6)


def careless(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charlie is on the other side: he admits whoever comes."""
    monkeypatch.setattr(wired.charlie._admission, "_fault_in", lambda _keys: None)


def named_alone(wired: Wired, name: str, *by: str) -> None:
    """Each of ``by`` has checked itself that it is ``name``, and nobody is said to be at fault besides."""
    for who in by:
        error = wired.errors[who]
        assert isinstance(error, ProtocolViolation), error
        assert (error.peer, error.suspects) == (name, ())
        judge = wired.sessions[who].judge
        assert judge.of(error.frames).culprit == name


def without_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: nobody verifies a proof, and nobody looks for two alike."""
    monkeypatch.setattr(messages, "check_owned", lambda *_: None)
    for module in (admission, messages):
        monkeypatch.setattr(module, "check_distinct", lambda *_: None)


# --- A key that is another's ---------------------------------------------------


@pytest.mark.parametrize("mutant", [False, True])
def test_a_party_that_announces_anothers_key_is_named_by_everybody_at_once(
    wired: Wired, monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    if mutant:
        without_proofs(monkeypatch)
    first = joining("p1")
    all_join(wired, p1=first, p2=copying(first.box_key))
    if mutant:
        assert not wired.errors
        assert dict(wired.answers["p3"][0])["p2"] == first.box_key
        return
    named_alone(wired, "p2", *HONEST)
    assert wired.charlie.run == wired.charlie.study_id  # Charlie saw it himself, and no roster left
    assert says(wired.errors["p2"].message, "accuses_this_participant", ..., ...) or says(
        wired.errors["p2"].message, "shows_this_participant"
    )


@pytest.mark.parametrize("key", ["another's", "nobody's"])
def test_where_charlie_admits_it_each_party_names_it_from_the_roster(
    wired: Wired, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    careless(wired, monkeypatch)
    first = joining("p1")
    all_join(wired, p1=first, p2=copying(first.box_key if key == "another's" else BoxKey(b"?" * 32).public))
    named_alone(wired, "p2", "p1", "p3")
    assert not {"p1", "p3"} & wired.answers.keys()  # no role began


def test_a_proof_for_another_name_or_nonce_is_none(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    careless(wired, monkeypatch)
    key, nonce = BoxKey(SystemRng().bytes(32)), bytes(16)
    all_join(wired, p2=Join(key.public, nonce, partial(key.prove, name="p3", nonce=nonce)))
    named_alone(wired, "p2", "p1", "p3")


def test_a_party_that_comes_again_with_a_key_of_its_own_takes_part(wired: Wired) -> None:
    first = joining("p1")
    wired.begin("p1", first)
    wired.begin("p2", copying(first.box_key))
    wired.pump()
    wired.restart("p2")
    wired.join("p2", "p3", CHARLIE)
    assert not wired.errors
    assert set(wired.answers) == set(EVERYBODY)


def test_charlie_owns_the_key_that_he_announces_or_is_named(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    careless(wired, monkeypatch)
    first = joining("p1")
    copy = Join(first.box_key, bytes(16), joining(CHARLIE, bytes(16)).prove)
    all_join(wired, **{"p1": first, CHARLIE: copy})
    named_alone(wired, CHARLIE, "p1", "p2", "p3")


def test_among_many_parties_its_neighbours_and_the_first_name_it_and_all_hear_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wired = Wired(world_of())
    names = wired.world.study.names
    careless(wired, monkeypatch)
    victim, copier = joining(names[20]), names[40]
    all_join(wired, **{names[20]: victim, copier: copying(victim.box_key)})
    near = neighbours_of(wired.charlie._coin, names, copier)
    assert set(near) < set(names)
    found = [name for name in names if name != copier]
    for name in found:
        error = wired.errors[name]
        assert isinstance(error, ProtocolViolation), (name, error)
        assert (error.peer, error.suspects) == (copier, ()), (name, error)
    assert any(name not in near and name != names[0] for name in found)  # they were shown its hello in an abort


# --- One key, two owners -------------------------------------------------------


class _Negative(BoxKey):
    """The same key with the other sign: another point, the same secrets, and a proof that only its owner can make."""

    def __init__(self, seed: bytes) -> None:
        super().__init__(seed)
        clamped = bytes(crypto_sign_ed25519_sk_to_curve25519(seed + self.public))
        scalar = crypto_core_ed25519_scalar_reduce(clamped + bytes(32))
        self.public = self.public[:31] + bytes((self.public[31] ^ 0x80,))
        negative = crypto_core_ed25519_scalar_negate(scalar)

        class Signer:
            def sign(_self, data: bytes) -> bytes:  # noqa: N805
                r = crypto_core_ed25519_scalar_reduce(SystemRng().bytes(64))
                big_r = crypto_scalarmult_ed25519_base_noclamp(r)
                k = crypto_core_ed25519_scalar_reduce(hashlib.sha512(big_r + self.public + data).digest())
                return bytes(big_r + crypto_core_ed25519_scalar_add(r, crypto_core_ed25519_scalar_mul(k, negative)))

        self._signing = Signer()  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [BoxKey, _Negative])
@pytest.mark.parametrize("mutant", [False, True])
def test_two_valid_proofs_of_one_secret_end_the_attempt_with_both_as_suspects(
    wired: Wired, monkeypatch: pytest.MonkeyPatch, kind: type[BoxKey], *, mutant: bool
) -> None:
    if mutant:
        monkeypatch.setattr(pair_keys, "alike", lambda _keys: None)
    seed = SystemRng().bytes(32)
    all_join(wired, p1=joining("p1", key=BoxKey(seed)), p2=joining("p2", key=kind(seed)))
    if mutant:
        assert not wired.errors
        return
    for who in EVERYBODY:
        error = wired.errors[who]
        assert isinstance(error, ProtocolViolation), error
        assert (error.peer, error.suspects) == ("", ("p1", "p2"))
        assert wired.sessions[who].judge.of(error.frames).suspects == ("p1", "p2")


def test_the_file_of_a_third_one_says_between_whom_it_is() -> None:
    world = World.new(3, port=5555)
    wired = Wired(world, versions=dict.fromkeys(EVERYBODY, entry_named(world.study.study.protocol).version))
    key = BoxKey(SystemRng().bytes(32))
    names, study_id = world.study.names, wired.charlie.study_id
    signing = {name: world.keys[name].public.sign for name in names}
    frames = []
    for name in ("p1", "p2"):
        proof = key.prove(study_id, name, signing[name], bytes(16))
        version = wired.parties[name].version
        hello = Hello(version=version, box_key=key.public, nonce=bytes(16), proof=proof)
        frames.append(wired.parties[name]._endpoint.seal(CHARLIE, "hello", encode(hello, CHARLIE)))
    error = ProtocolViolation("one of two", suspects=("p1", "p2"), frames=tuple(frames))
    session = wired.parties["p3"]
    content = session.evidence({"run_id": session.run.hex(), "participant": "p3"}, error)
    found = check_evidence(json.dumps(content), world.study)
    assert (found.culprit, found.suspects) == ("", ("p1", "p2"))


def test_where_charlie_admits_both_each_party_finds_it_in_the_roster(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless(wired, monkeypatch)
    key = BoxKey(SystemRng().bytes(32))
    all_join(wired, p1=joining("p1", key=key), p2=joining("p2", key=key))
    for who in ("p1", "p2", "p3"):
        error = wired.errors[who]
        assert isinstance(error, ProtocolViolation), error
        assert (error.peer, error.suspects) == ("", ("p1", "p2"))


def test_charlie_and_a_party_with_one_key_are_both_suspects(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    careless(wired, monkeypatch)
    key = BoxKey(SystemRng().bytes(32))
    all_join(wired, p1=joining("p1", key=key), **{CHARLIE: joining(CHARLIE, key=key)})
    for who in ("p1", "p2", "p3"):
        error = wired.errors[who]
        assert isinstance(error, ProtocolViolation), error
        assert (error.peer, error.suspects) == ("", ("p1", CHARLIE))


def test_hellos_of_two_keys_prove_nothing(wired: Wired) -> None:
    wired.join()
    frames = [hop.hello or b"" for hop in wired.charlie._hops.values()]
    finding = Judge(wired.world.study, wired.charlie.run, wired.charlie.study_id).of(frames)
    assert (finding.culprit, finding.suspects, finding.named) == ("", (), ())

"""The committed known answers, good and bad. Where one fails, the wire has changed: see generate.py."""

import hashlib
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import phe
import pytest

from masquerade_core.crypto.boxes import SigningKey, open_sealed, seal
from masquerade_core.crypto.comparison import DeciderKey, check_point, evaluate
from masquerade_core.crypto.packing import Packing
from masquerade_core.crypto.paillier import FullPool, PublicKey, SecretKey
from masquerade_core.crypto.pair_keys import BoxKey, End, check_owned, image_of, seal_anonymous
from masquerade_core.crypto.shares import mask, permutation
from masquerade_core.errors import ProtocolViolation, RunFailed
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import Message, decode, encode, open_envelope, pack_envelope
from masquerade_core.wire.frames import Endpoint
from masquerade_core.wire.merkle import is_under, path_to, root_of, tree_of
from masquerade_protocols.blocks import coin_toss as joint
from masquerade_protocols.local_aggregation import roles as local_aggregation
from masquerade_protocols.local_aggregation import tournament
from tests.helpers import either, violation
from tests.messages import raises
from tests.vectors import generate

HERE = Path(__file__).parent


def load(name: str) -> Any:
    return json.loads((HERE / name).read_text())


FRAMES, MESSAGES, BOXES = load("frames.json"), load("messages.json"), load("boxes.json")
TREES = load("trees.json")
COMPARISON, PAILLIER, PACKING, COINS = (
    load("comparison.json"),
    load("paillier.json"),
    load("packing.json"),
    load("coins.json"),
)


def name_of(case: Any) -> str:
    return str(case["name"] if isinstance(case, dict) and "name" in case else "")


def test_the_committed_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    made = generate.vectors()
    generate.write(made, tmp_path)
    assert set(made) == {path.name for path in HERE.glob("*.json")}
    for name in made:
        assert (tmp_path / name).read_text() == (HERE / name).read_text(), name


# --- Trees ---------------------------------------------------------------------


@pytest.mark.parametrize("case", TREES["trees"], ids=lambda case: str(case["count"]))
def test_a_tree_has_the_root_and_the_paths_of_the_vectors(case: dict[str, Any]) -> None:
    count, root = case["count"], bytes.fromhex(case["root"])
    rows = [b"row %d" % i for i in range(count)]
    tree = tree_of(rows)
    assert root_of(rows) == tree[-1][0] == root
    for at in case["paths"]:
        place, path = at["place"], bytes.fromhex(at["path"])
        assert path_to(tree, place) == path
        assert is_under(root, count, place, rows[place], path)


# --- Frames --------------------------------------------------------------------


def charlie() -> Endpoint:
    keys = {name: bytes.fromhex(key) for name, key in FRAMES["keys"].items()}
    signing = SigningKey(generate.SEEDS[CHARLIE])
    return Endpoint(CHARLIE, bytes.fromhex(FRAMES["run"]), signing, {"alice": keys["alice"], "bob": keys["bob"]})


def alice() -> Endpoint:
    keys = {CHARLIE: bytes.fromhex(FRAMES["keys"][CHARLIE])}
    return Endpoint("alice", bytes.fromhex(FRAMES["run"]), SigningKey(generate.SEEDS["alice"]), keys)


@pytest.mark.parametrize("case", FRAMES["good"], ids=name_of)
def test_a_good_frame_opens_and_is_made_the_same(case: dict[str, Any]) -> None:
    header, data = case["header"], bytes.fromhex(case["frame"])
    frame = charlie().open("alice", data)
    assert (frame.version, frame.run.hex(), frame.source, frame.to) == (
        header["v"],
        header["run"],
        header["src"],
        header["dst"],
    )
    assert (frame.kind, frame.type, frame.body.hex()) == (header["kind"], header["type"], header["body"])
    again = alice().seal(CHARLIE, header["kind"], frame.body, type=header["type"], to=header["dst"])
    assert again == data


@pytest.mark.parametrize("case", FRAMES["bad"], ids=name_of)
def test_a_bad_frame_is_refused(case: dict[str, Any]) -> None:
    violation(lambda: charlie().open("alice", bytes.fromhex(case["frame"])), "alice")


def test_a_broadcast_opens_and_is_made_the_same() -> None:
    header, data = FRAMES["broadcast"]["header"], bytes.fromhex(FRAMES["broadcast"]["frame"])
    frame = alice().open(CHARLIE, data)
    assert (frame.source, frame.to, frame.kind, frame.type, frame.body.hex()) == tuple(
        header[name] for name in ("src", "dst", "kind", "type", "body")
    )
    assert charlie().broadcast(header["kind"], frame.body, type=header["type"]) == data


@pytest.mark.parametrize("case", FRAMES["bad broadcasts"], ids=name_of)
def test_a_bad_broadcast_is_refused(case: dict[str, Any]) -> None:
    violation(lambda: alice().open(CHARLIE, bytes.fromhex(case["frame"])), CHARLIE)


def test_an_overlong_frame_is_refused() -> None:
    header = generate._header(body=bytes(4 * 1024 * 1024))
    violation(lambda: charlie().open("alice", generate._signed(generate._packed(header))), "alice")


# --- Messages ------------------------------------------------------------------


def message_class(name: str) -> type[Message]:
    modules = (joint, tournament, local_aggregation)
    cls: type[Message] = next(getattr(module, name) for module in modules if hasattr(module, name))
    return cls


@pytest.mark.parametrize("case", MESSAGES["good"], ids=lambda case: case["class"])
def test_a_good_body_decodes_and_encodes_to_itself(case: dict[str, Any]) -> None:
    message = decode(message_class(case["class"]), bytes.fromhex(case["body"]), "alice")
    assert {name: getattr(message, name).hex() for name in case["fields"]} == case["fields"]
    assert encode(message, CHARLIE).hex() == case["body"]


@pytest.mark.parametrize("case", MESSAGES["bad"], ids=name_of)
def test_a_bad_body_is_refused(case: dict[str, Any]) -> None:
    violation(lambda: decode(message_class(case["class"]), bytes.fromhex(case["body"]), "alice"), "alice")


# --- Boxes ---------------------------------------------------------------------

KEYS = {name: BoxKey(bytes.fromhex(secret)) for name, secret in BOXES["secrets"].items()}


class _Ephemeral:
    """Hands out the vector's ephemeral key."""

    def bytes(self, n: int) -> bytes:
        key = bytes.fromhex(BOXES["anonymous"]["ephemeral"])
        assert len(key) == n
        return key

    def bits(self, k: int) -> int:
        raise AssertionError(k)

    def below(self, n: int) -> int:
        raise AssertionError(n)


@pytest.mark.parametrize("name", KEYS)
def test_box_keys_and_their_proofs_are_the_vectors(name: str) -> None:
    key, proofs = KEYS[name], BOXES["proofs"]
    study_id, nonce, signing = (
        bytes.fromhex(v) for v in (proofs["study_id"], proofs["nonce"], proofs["signing"][name])
    )
    assert key.public.hex() == BOXES["public"][name]
    assert image_of(key.public).hex() == BOXES["images"][name]
    proof = key.prove(study_id, name, signing, nonce)
    assert proof.hex() == proofs["proof"][name]
    announced = SimpleNamespace(box_key=key.public, nonce=nonce, proof=proof)
    check_owned(announced, study_id, name, signing)
    for other in proofs["proof"].keys() - {name}:
        changed = SimpleNamespace(box_key=key.public, nonce=nonce, proof=bytes.fromhex(proofs["proof"][other]))
        violation(lambda: check_owned(changed, study_id, name, signing), name)  # noqa: B023 - called at once


@pytest.mark.parametrize("case", BOXES["pair_keys"]["keys"], ids=lambda case: f"{case['purpose']} {case['sender']}")
def test_pair_keys_are_the_vectors(case: dict[str, Any]) -> None:
    one, two = (End(name, KEYS[name].public) for name in case["between"])
    run, context = bytes.fromhex(BOXES["pair_keys"]["run"]), bytes.fromhex(case["context"])
    for mine, theirs in ((one, two), (two, one)):
        key = KEYS[mine.name].pair_key(
            run, theirs.public, case["purpose"], (one, two), sender=case["sender"], context=context
        )
        assert key.hex() == case["key"]


def test_a_box_is_the_vectors() -> None:
    case = BOXES["box"]
    key, plain, nonce = (bytes.fromhex(case[part]) for part in ("key", "plain", "nonce"))
    assert seal(key, plain, nonce).hex() == case["sealed"]
    assert open_sealed(key, bytes.fromhex(case["sealed"]), "alice") == plain


def test_the_anonymous_box_is_the_vectors() -> None:
    case = BOXES["anonymous"]
    run, key = bytes.fromhex(BOXES["pair_keys"]["run"]), KEYS[CHARLIE]
    sealed = seal_anonymous(_Ephemeral(), run, End(CHARLIE, key.public), bytes.fromhex(case["plain"]))
    assert sealed.hex() == case["sealed"]
    assert key.open_anonymous(run, CHARLIE, sealed).hex() == case["plain"]


@pytest.mark.parametrize("name", BOXES["bad_boxes"])
def test_a_bad_box_is_refused(name: str) -> None:
    key, sealed = bytes.fromhex(BOXES["box"]["key"]), bytes.fromhex(BOXES["bad_boxes"][name])
    either(lambda: open_sealed(key, sealed, "alice"), "alice")


@pytest.mark.parametrize("name", BOXES["bad_anonymous"])
def test_a_bad_anonymous_box_is_refused(name: str) -> None:
    run = bytes.fromhex(BOXES["pair_keys"]["run"])
    with pytest.raises(ProtocolViolation):
        KEYS[CHARLIE].open_anonymous(run, CHARLIE, bytes.fromhex(BOXES["bad_anonymous"][name]))


@pytest.mark.parametrize("name", BOXES["bad_keys"])
def test_a_bad_box_key_is_refused(name: str) -> None:
    violation(lambda: KEYS["bob"].check(bytes.fromhex(BOXES["bad_keys"][name]), "alice"), "alice")


def test_the_envelope_is_the_vectors_and_opens_in_its_own_turn_alone() -> None:
    source, to, kind, count = BOXES["envelope"]["turn"]
    plain = bytes.fromhex(BOXES["envelope"]["plain"])
    assert pack_envelope(source, to, kind, count, b"body") == plain
    assert open_envelope(plain, "alice", (source, to, kind, count)) == b"body"
    for other in BOXES["other_turns"]:
        either(partial(open_envelope, plain, "alice", tuple(other)), "alice")


# --- The comparison ------------------------------------------------------------


@pytest.mark.parametrize("case", COMPARISON["transcripts"], ids=lambda case: f"{case['x']}-{case['y']}")
def test_a_transcript_is_played_again(case: dict[str, Any]) -> None:
    rng = SimulationRng(case["seed"], "comparison")
    key = DeciderKey(DeciderKey.draw(rng))
    assert key.public.hex() == case["public"]
    bits = key.encrypt_bits(rng, case["y"])
    assert hashlib.sha256(bits).hexdigest() == case["bits_sha256"]
    items, clear = evaluate(rng, key.public, bits, case["x"], "lead")
    assert (hashlib.sha256(items).hexdigest(), clear) == (case["items_sha256"], case["clear"])
    assert key.count_zeros(items, "lead") ^ clear ^ (case["y"] >> 32) == case["outcome"]


@pytest.fixture(scope="module")
def played() -> tuple[DeciderKey, bytes, bytes]:
    rng = SimulationRng(0)
    key = DeciderKey(DeciderKey.draw(rng))
    bits = key.encrypt_bits(rng, 5)
    return key, bits, evaluate(rng, key.public, bits, 9, "lead")[0]


@pytest.mark.parametrize("name", COMPARISON["bad_points"])
def test_a_bad_point_is_refused_wherever_it_stands(played: tuple[DeciderKey, bytes, bytes], name: str) -> None:
    key, bits, items = played
    point = bytes.fromhex(COMPARISON["bad_points"][name])
    violation(lambda: check_point(point, "lead"), "lead")
    for place in COMPARISON["places"]:
        at = 32 * place
        bad = items[:at] + point + items[at + 32 :]
        violation(partial(key.count_zeros, bad, "lead"), "lead")
        worse = bits[:at] + point + bits[at + 32 :]
        violation(partial(evaluate, SimulationRng(1), key.public, worse, 9, CHARLIE), CHARLIE)


# --- Paillier ------------------------------------------------------------------


@pytest.fixture(scope="module")
def key() -> SecretKey:
    return SecretKey(int(PAILLIER["p"], 16), int(PAILLIER["q"], 16))


@pytest.mark.parametrize("case", PAILLIER["encrypted"], ids=lambda case: case["plain"][:12])
def test_a_ciphertext_with_known_randomness_is_phes(key: SecretKey, case: dict[str, str]) -> None:
    plain, r, ciphertext = (int(case[name], 16) for name in ("plain", "r", "ciphertext"))
    n = key.public.n
    assert FullPool(key.public, [pow(r, n, n * n)]).encrypt(plain, "x").use() == ciphertext
    assert key.decrypt(key.public.read(ciphertext, "x")) == plain
    p, q = int(PAILLIER["p"], 16), int(PAILLIER["q"], 16)
    assert phe.PaillierPrivateKey(phe.PaillierPublicKey(n), p, q).raw_decrypt(ciphertext) == plain


class _Exponent:
    """Draws one exponent."""

    def __init__(self, value: int) -> None:
        self._value = value

    def bits(self, k: int) -> int:
        assert self._value < 1 << k
        return self._value

    def bytes(self, n: int) -> bytes:
        raise AssertionError(n)

    def below(self, n: int) -> int:
        raise AssertionError(n)


@pytest.mark.parametrize("case", PAILLIER["short"], ids=lambda case: case["exponent"][:12])
def test_a_short_obfuscator_is_a_power_of_the_hashed_base(key: SecretKey, case: dict[str, str]) -> None:
    drawn = key.public.short_obfuscators(_Exponent(int(case["exponent"], 16)), 1)
    assert drawn == (int(case["obfuscator"], 16),)


@pytest.mark.parametrize("name", PAILLIER["bad_ciphertexts"])
def test_a_bad_ciphertext_is_refused(key: SecretKey, name: str) -> None:
    violation(lambda: key.public.read(int(PAILLIER["bad_ciphertexts"][name], 16), "alice"), "alice")


@pytest.mark.parametrize("name", PAILLIER["bad_keys"])
def test_a_bad_key_is_refused(name: str) -> None:
    raw = int(PAILLIER["bad_keys"][name], 16).to_bytes(64, "big")
    violation(lambda: PublicKey.received(raw, 512, "lead"), "lead")


# --- Packing -------------------------------------------------------------------


@pytest.mark.parametrize("case", PACKING["good"], ids=lambda case: case["bound"])
def test_a_vector_lies_in_its_slots_and_comes_back(case: dict[str, Any]) -> None:
    vector, modulus = tuple(int(v, 16) for v in case["vector"]), int(PACKING["modulus"], 16)
    layout = Packing(len(vector), int(case["bound"], 16), 512)
    packed, exponents = ([int(v, 16) for v in case[name]] for name in ("packed", "exponents"))
    assert list(layout.pack(vector)) == packed
    assert list(layout.pack_exponents(vector)) == exponents
    assert layout.unpack([p % modulus for p in packed], modulus) == vector


@pytest.mark.parametrize("name", PACKING["bad"])
def test_a_sum_that_is_no_vector_is_refused(name: str) -> None:
    modulus = int(PACKING["modulus"], 16)
    with raises(RunFailed, "share_missing_or_wrong"):
        Packing(3, 7, 512).unpack([int(PACKING["bad"][name], 16)], modulus)


# --- Coins ---------------------------------------------------------------------


def test_commitments_permutations_and_masks_are_the_vectors() -> None:
    case = COINS["commitment"]
    nonce, salt = bytes.fromhex(case["nonce"]), bytes.fromhex(case["salt"])
    assert joint._commit(bytes.fromhex(FRAMES["run"]), case["name"], nonce, salt).hex() == case["digest"]
    for order in COINS["permutations"]:
        drawn = permutation(bytes.fromhex(order["seed"]), order["label"], len(order["order"]))
        assert list(drawn) == order["order"]
    case = COINS["mask"]
    row = mask(bytes.fromhex(case["key"]), bytes.fromhex(case["label"]), int(case["modulus"], 16), 3)
    assert [hex(v) for v in row] == case["values"]

"""Writes the known answers: ``python -m tests.vectors.generate``.

Everything but the comparison's transcripts is computed here a second time, from msgpack, libsodium, hashlib and
``pow`` alone, so a vector says what the bytes are and not what our code makes of them. Committed files change only
when the wire format does, and then WIRE_VERSION has to change with them.
"""

import hashlib
import hmac
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack
import phe
from nacl.bindings import (
    crypto_aead_chacha20poly1305_ietf_encrypt,
    crypto_core_ed25519_sub,
    crypto_scalarmult,
    crypto_scalarmult_base,
    crypto_secretbox,
)
from nacl.signing import SigningKey

from masquerade_core.crypto.comparison import DeciderKey, evaluate
from masquerade_core.simulation_rng import SimulationRng

HERE = Path(__file__).parent
RUN = bytes(range(16))
SEEDS = {name: hashlib.sha256(name.encode()).digest() for name in ("alice", "bob", "charlie")}

# From SimulationRng(512, "test primes 0"): 3 mod 4, gcd(p-1, q-1) = 2, a product of 512 bits.
P = 91667049759335767891013218089510323531009456838757037031735143514955874152751
Q = 100715576672012390800966323529529660255030065328053821327634460941321758768767


def write(files: dict[str, Any], folder: Path = HERE) -> None:
    """Write each file of vectors."""
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=True) + "\n")


def vectors() -> dict[str, Any]:
    """Return the content of each file."""
    return {
        "frames.json": frames(),
        "messages.json": messages(),
        "boxes.json": boxes(),
        "comparison.json": comparison(),
        "paillier.json": paillier(),
        "packing.json": packing(),
        "coins.json": coins(),
        "trees.json": trees(),
    }


# --- Frames --------------------------------------------------------------------


def _signed(data: bytes, signer: str = "alice") -> bytes:
    return bytes(SigningKey(SEEDS[signer]).sign(data).signature) + data


def _header(**changes: Any) -> dict[str, Any]:
    good = {
        "v": 6,
        "run": RUN,
        "src": "alice",
        "dst": "charlie",
        "kind": "message",
        "seq": 0,
        "type": "Share",
        "body": b"\x81\xa5share\xc4\x02ab",
    }
    return {**good, **changes}


def _packed(header: dict[str, Any]) -> bytes:
    """The header as it is signed: an array, names padded to 32 bytes, the number in 4 bytes."""
    fields = dict(header)
    for name in ("src", "dst"):
        fields[name] = fields[name].ljust(32)
    if type(fields["seq"]) is int and fields["seq"] >= 0:
        fields["seq"] = fields["seq"].to_bytes(4, "big")
    return bytes(msgpack.packb(tuple(fields.values())))


def frames() -> dict[str, Any]:
    """Good and bad frames of alice's, as Charlie receives them first, and broadcasts, as alice receives them first."""
    packed = _packed(_header())
    header = list(msgpack.unpackb(packed))
    good = {
        "message": _header(),
        "hello": _header(kind="hello", type="", body=b""),
        "sealed message to one": _header(kind="sealed", dst="bob", type="Coin", body=b"\x92\x03\xc4\x03box"),
        "sealed message to all": _header(kind="sealed", dst="*", type="Coin", body=b"\x92\x03\xc4\x03box"),
        "beat": _header(kind="beat", type="", body=b""),
        "abort": _header(kind="abort", type="", body=b"reason"),
    }
    bad_headers: dict[str, dict[str, Any]] = {
        "another run": {"run": bytes(16)},
        "a run id too short": {"run": RUN[:15]},
        "wrong number": {"seq": 1},
        "number below zero": {"seq": -1},
        "number as a float": {"seq": 0.0},
        "number as a truth value": {"seq": False},
        "version True": {"v": True},
        "version 6.0": {"v": 6.0},
        "version 5": {"v": 5},
        "another's name": {"src": "bob"},
        "another's sealed message": {"src": "bob", "kind": "sealed"},
        "for somebody else": {"dst": "bob"},
        "a sealed message for Charlie": {"kind": "sealed"},
        "a sealed message to oneself": {"kind": "sealed", "dst": "alice"},
        "an unknown kind": {"kind": "shout"},
        "a body of text": {"body": "text"},
        "a type of bytes": {"type": b"Share"},
        "a type too long": {"type": "x" * 65},
        "a field too many": {"more": 1},
        "a broadcast by a party": {"dst": "*"},
        "a deep body": {"body": ((((1,),),),)},
    }
    bad = {name: _signed(_packed(_header(**changes))) for name, changes in bad_headers.items()}
    bad |= {
        "nothing": b"",
        "a signature alone": _signed(b""),
        "bad signature": bytes((_signed(packed)[0] ^ 1,)) + _signed(packed)[1:],
        "signed by bob": _signed(packed, "bob"),
        "signed by Charlie": _signed(packed, "charlie"),
        "a changed body": _signed(packed)[:-1] + b"B",
        "a byte too many": _signed(packed) + b"\0",
        "a signed byte too many": _signed(packed + b"\0"),
        "cut": _signed(packed)[:-1],
        "signed and cut": _signed(packed[:-1]),
        "not canonical: an array header of 16 bits": _signed(b"\xdc\0\x08" + packed[1:]),
        "not canonical: the version in two bytes": _signed(packed[:1] + b"\xcc\x05" + packed[2:]),
        "a field too few": _signed(msgpack.packb(header[:-1])),
        "a map": _signed(msgpack.packb(dict(zip(_header(), header, strict=True)))),
        "a name that is not padded": _signed(msgpack.packb([*header[:2], "alice", *header[3:]])),
        "a name that is padded with zeros": _signed(msgpack.packb([*header[:2], "alice".ljust(32, "\0"), *header[3:]])),
        "a number that is an integer": _signed(msgpack.packb([*header[:5], 0, *header[6:]])),
        "a number in 8 bytes": _signed(msgpack.packb([*header[:5], bytes(8), *header[6:]])),
        "an extension type": _signed(_packed(_header(body=msgpack.ExtType(5, b"x")))),
        "an empty extension type": _signed(packed[: -len(_header()["body"]) - 2] + b"\xc7\0\5"),
        "a timestamp": _signed(_packed(_header(body=msgpack.Timestamp(1)))),
        "nested too deep": _signed(b"\x91" * 2000 + b"\xc0"),
        "a huge array's header": _signed(b"\xdd\xff\xff\xff\xff"),
        "text that is not UTF-8": _signed(packed.replace(b"Share", b"Sha\xffe")),
    }
    return {
        "keys": {name: bytes(SigningKey(seed).verify_key).hex() for name, seed in SEEDS.items()},
        "run": RUN.hex(),
        "good": [{"name": n, "header": _hex(h), "frame": _signed(_packed(h)).hex()} for n, h in good.items()],
        "bad": [{"name": name, "frame": frame.hex()} for name, frame in bad.items()],
        **_broadcasts(),
    }


def _broadcasts() -> dict[str, Any]:
    good = _header(src="charlie", dst="*")
    bad = {
        "signed by alice": _signed(_packed(good)),
        "in alice's name": _signed(_packed({**good, "src": "alice"}), "charlie"),
        "wrong number": _signed(_packed({**good, "seq": 1}), "charlie"),
        "a beat": _signed(_packed({**good, "kind": "beat", "type": "", "body": b""}), "charlie"),
        "a sealed message": _signed(_packed({**good, "kind": "sealed"}), "charlie"),
        "a roster for one": _signed(_packed({**good, "kind": "roster", "dst": "alice"}), "charlie"),
        "hellos for all": _signed(_packed({**good, "kind": "hellos"}), "charlie"),
    }
    return {
        "broadcast": {"header": _hex(good), "frame": _signed(_packed(good), "charlie").hex()},
        "bad broadcasts": [{"name": name, "frame": frame.hex()} for name, frame in bad.items()],
    }


def _hex(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: v.hex() if isinstance(v, bytes) else v for k, v in fields.items()}


# --- Trees ---------------------------------------------------------------------


def _tagged(tag: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32, person=tag).digest()


def _node(rows: Sequence[bytes], at: int, wide: int) -> bytes:
    """Return the node over the ``wide`` places, a power of two, from ``at`` on, by a recursion from above."""
    if wide == 1:
        return _tagged(b"masq leaf", at.to_bytes(4, "big") + rows[at])
    half = wide // 2
    left = _node(rows, at, half)
    return left if at + half >= len(rows) else _tagged(b"masq node", left + _node(rows, at + half, half))


def _path(rows: Sequence[bytes], at: int) -> bytes:
    path, wide = b"", 1
    while wide < len(rows):
        other = at // wide * wide ^ wide
        path += _node(rows, other, wide) if other < len(rows) else b""
        wide *= 2
    return path


def trees() -> dict[str, Any]:
    """Roots over rows, and the paths to some of them."""
    found = []
    for count in (1, 2, 3, 5, 8, 67):
        rows = [b"row %d" % i for i in range(count)]
        wide = 1 << (count - 1).bit_length()
        root = _tagged(b"masq root", count.to_bytes(4, "big") + _node(rows, 0, wide))
        places = sorted({0, count // 2, count - 1})
        paths = [{"place": place, "path": _path(rows, place).hex()} for place in places]
        found.append({"count": count, "root": root.hex(), "paths": paths})
    return {"rows": "row 0, row 1, ...", "trees": found}


# --- Messages ------------------------------------------------------------------


def messages() -> dict[str, Any]:
    """Bodies of messages that are on the wire, and bodies that are refused."""
    good: dict[str, list[dict[str, Any]]] = {
        "Commitment": [{"digest": bytes(range(32))}],
        "Reveal": [{"nonce": bytes(32), "salt": b"\xff" * 32}],
        "Share": [{"share": b"abc"}],
        "MatchItems": [{"items": b"", "clear": b"\0\1"}],
        "CharlieKeys": [{"modulus": b"\x0f\xff", "roots": b"\1", "decider": bytes(32)}],
    }
    nonce = {"nonce": bytes(32), "salt": bytes(32)}
    bad: list[tuple[str, str, bytes]] = [
        ("Reveal", "a nonce too short", msgpack.packb({**nonce, "nonce": bytes(31)})),
        ("Reveal", "a salt too long", msgpack.packb({**nonce, "salt": bytes(33)})),
        ("Reveal", "text for bytes", msgpack.packb({**nonce, "salt": "x" * 32})),
        ("Reveal", "a number for bytes", msgpack.packb({**nonce, "salt": 32})),
        ("Reveal", "nil for bytes", msgpack.packb({**nonce, "salt": None})),
        ("Reveal", "a truth value for bytes", msgpack.packb({**nonce, "salt": True})),
        ("Reveal", "a float for bytes", msgpack.packb({**nonce, "salt": 1.0})),
        ("Reveal", "an array for bytes", msgpack.packb({**nonce, "salt": tuple(range(32))})),
        ("Reveal", "an extension for bytes", msgpack.packb({**nonce, "salt": msgpack.ExtType(1, bytes(32))})),
        ("Reveal", "a field short", msgpack.packb({"nonce": bytes(32)})),
        ("Reveal", "a field too many", msgpack.packb({**nonce, "more": 1})),
        ("Reveal", "another order", msgpack.packb(dict(reversed(nonce.items())))),
        ("Reveal", "a duplicate key", b"\x83" + msgpack.packb(nonce)[1:] + b"\xa4salt\xc4\x20" + bytes(32)),
        ("Reveal", "a key of bytes", msgpack.packb({b"nonce": bytes(32), "salt": bytes(32)})),
        ("Reveal", "bytes in the long form", msgpack.packb(nonce).replace(b"\xc4\x20", b"\xc5\0\x20")),
        ("Reveal", "bytes after the end", msgpack.packb(nonce) + b"\0"),
        ("Reveal", "cut", msgpack.packb(nonce)[:-1]),
        ("Reveal", "nothing", b""),
        ("Reveal", "an array", msgpack.packb(tuple(nonce.values()))),
        ("Commitment", "a message of another class", msgpack.packb(nonce)),
        ("Indicator", "no ciphertext", msgpack.packb({"u": b""})),
        ("Indicator", "ciphertexts as an array", msgpack.packb({"u": (b"a", b"b")})),
        ("CharlieKeys", "a point too short", msgpack.packb({"modulus": b"\xff", "roots": b"", "decider": bytes(31)})),
    ]
    return {
        "good": [
            {"class": name, "fields": _hex(fields), "body": msgpack.packb(fields).hex()}
            for name, cases in good.items()
            for fields in cases
        ],
        "bad": [{"class": cls, "name": name, "body": body.hex()} for cls, name, body in bad],
    }


# --- Boxes ---------------------------------------------------------------------


def _scalar(name: str) -> bytes:
    """The X25519 key that belongs to an Ed25519 seed; its bits are clamped where it is used."""
    return hashlib.sha512(SEEDS[name]).digest()[:32]


def _parts(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _pair_key(
    secret: bytes,
    theirs: bytes,
    purpose: str,
    ends: Sequence[tuple[str, bytes]],
    sender: str = "",
    context: bytes = b"",
) -> bytes:
    """HKDF-SHA256 of RFC 5869, one block, from the output of X25519."""
    extracted = hmac.new(RUN, crypto_scalarmult(secret, theirs), "sha256").digest()
    (one, one_key), (two, two_key) = ends
    parts = (purpose.encode(), one.encode(), one_key, two.encode(), two_key, sender.encode(), context)
    return hmac.new(extracted, _parts(b"masquerade pair key", *parts) + b"\1", "sha256").digest()


def _anonymous(ephemeral: bytes, name: str, public: bytes, data: bytes) -> bytes:
    """Seal with an ephemeral key that is given."""
    own = crypto_scalarmult_base(ephemeral)
    key = _pair_key(ephemeral, crypto_scalarmult_base(_scalar(name)), "anonymous box", (("", own), (name, public)))
    return bytes(own + crypto_aead_chacha20poly1305_ietf_encrypt(data, None, bytes(12), key))


def boxes() -> dict[str, Any]:
    """Box keys with their proofs, pair keys, boxes, anonymous boxes and envelopes."""
    public = {name: bytes(SigningKey(seed).verify_key) for name, seed in SEEDS.items()}
    nonce, ephemeral = bytes(range(24)), bytes(range(32))
    names = ("alice", "bob", "charlie")
    keys: list[dict[str, Any]] = [
        {
            "between": [one, two],
            "purpose": purpose,
            "sender": sender,
            "context": context.hex(),
            "key": _pair_key(
                _scalar(one),
                crypto_scalarmult_base(_scalar(two)),
                purpose,
                ((one, public[one]), (two, public[two])),
                sender,
                context,
            ).hex(),
        }
        for one, two, purpose, sender, context in (
            ("alice", "bob", "masks", "", b""),
            ("alice", "bob", "sealed message", "alice", b""),
            ("alice", "bob", "sealed message", "bob", b""),
            ("bob", "charlie", "shares of zero", "", b"coins"),
        )
    ]
    key = bytes.fromhex(keys[1]["key"])
    box = nonce + crypto_secretbox(b"hello", nonce, key)
    sealed = _anonymous(ephemeral, "charlie", public["charlie"], b"\0\0\x012\x10")
    small = {
        "zero": bytes(32),
        "one": (1).to_bytes(32, "little"),
        "order 8": bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
        "with a component of order 2": crypto_core_ed25519_sub(public["bob"], (2**255 - 20).to_bytes(32, "little")),
    }
    proofs = {
        name: SigningKey(seed)
        .sign(
            _parts(
                b"masquerade box key is owned",
                RUN,
                name.encode(),
                bytes(SigningKey(SEEDS[names[i - 1]]).verify_key),
                bytes(16),
                public[name],
            )
        )
        .signature.hex()
        for i, (name, seed) in enumerate(SEEDS.items())
    }
    return {
        "secrets": {name: seed.hex() for name, seed in SEEDS.items()},
        "public": {name: key.hex() for name, key in public.items()},
        "images": {name: crypto_scalarmult_base(_scalar(name)).hex() for name in names},
        "proofs": {
            "study_id": RUN.hex(),
            "nonce": bytes(16).hex(),
            "signing": {name: public[names[i - 1]].hex() for i, name in enumerate(names)},
            "proof": proofs,
        },
        "pair_keys": {"run": RUN.hex(), "names": list(names), "keys": keys},
        "box": {"key": key.hex(), "plain": b"hello".hex(), "nonce": nonce.hex(), "sealed": box.hex()},
        "bad_boxes": {
            "changed tag": (box[:24] + bytes((box[24] ^ 1,)) + box[25:]).hex(),
            "changed nonce": (bytes((box[0] ^ 1,)) + box[1:]).hex(),
            "cut": box[:-1].hex(),
            "nonce alone": box[:24].hex(),
            "nothing": "",
            "in the other direction": (nonce + crypto_secretbox(b"hello", nonce, bytes.fromhex(keys[2]["key"]))).hex(),
        },
        "anonymous": {"ephemeral": ephemeral.hex(), "plain": b"\0\0\x012\x10".hex(), "sealed": sealed.hex()},
        "bad_anonymous": {
            "changed": (sealed[:-1] + bytes((sealed[-1] ^ 1,))).hex(),
            "cut": sealed[:-1].hex(),
            "an ephemeral key alone": sealed[:32].hex(),
            "nothing": "",
            "for bob": _anonymous(ephemeral, "bob", public["bob"], b"x").hex(),
            "for bob under Charlie's key": _anonymous(ephemeral, "charlie", public["bob"], b"x").hex(),
            "an ephemeral key of small order": (bytes(32) + sealed[32:]).hex(),
        },
        "bad_keys": {**{name: key.hex() for name, key in small.items()}, "short": bytes(31).hex()},
        "envelope": {
            "turn": ["alice", "bob", "Coin", 3],
            "plain": (
                hashlib.blake2b(
                    msgpack.packb(("alice", "bob", "Coin", 3)), digest_size=16, person=b"masq envelope"
                ).digest()
                + b"body"
            ).hex(),
        },
        "other_turns": [
            ["bob", "alice", "Coin", 3],
            ["alice", "charlie", "Coin", 3],
            ["alice", "bob", "Hint", 3],
            ["alice", "bob", "Coin", 2],
            ["alice", "bob", "Coin", 4],
        ],
    }


# --- The comparison ------------------------------------------------------------


def comparison() -> dict[str, Any]:
    """Transcripts with a seeded source, the first in full; items and bits that are refused."""
    cases = [(5, 9), (9, 5), (7, 7), (0, 2**32 - 1), (2**32 - 1, 2**32), (2**33 - 1, 0), (2**32, 2**31 + 1)]
    played = []
    for number, (x, y) in enumerate(cases):
        rng = SimulationRng(number, "comparison")
        key = DeciderKey(DeciderKey.draw(rng))
        bits = key.encrypt_bits(rng, y)
        items, clear = evaluate(rng, key.public, bits, x, "lead")
        played.append(
            {
                "seed": number,
                "x": x,
                "y": y,
                "public": key.public.hex(),
                "bits_sha256": hashlib.sha256(bits).hexdigest(),
                "items_sha256": hashlib.sha256(items).hexdigest(),
                "clear": clear,
                "outcome": (x - y) % 2**33 >> 32,
            }
        )
    points = {
        "identity": (1).to_bytes(32, "little"),
        "order 2": (2**255 - 20).to_bytes(32, "little"),
        "order 4": bytes(32),
        "not on the curve": (2).to_bytes(32, "little"),
        "not canonical": (2**255 - 18).to_bytes(32, "little"),
        "all ones": b"\xff" * 32,
        "short": bytes(31),
    }
    return {
        "transcripts": played,
        "places": [0, 1, 32, 63],
        "bad_points": {name: point.hex() for name, point in points.items()},
    }


# --- Paillier ------------------------------------------------------------------


def paillier() -> dict[str, Any]:
    """Ciphertexts with known randomness, as phe makes them; ciphertexts and keys that are refused."""
    n = P * Q
    oracle = phe.PaillierPublicKey(n)
    plains = [0, 1, 2**64, n - 1, n // 3]
    r = [2, 3, 5**100, n - 2, 7**150]
    x = int.from_bytes(hashlib.shake_256(b"masquerade DJN base\0" + n.to_bytes(64, "big")).digest(512 // 8 + 16), "big")
    base = pow(-x * x, n, n * n)
    exponents = [1, 2, 2**200 + 17]
    return {
        "p": hex(P),
        "q": hex(Q),
        "encrypted": [
            {"plain": hex(m), "r": hex(s), "ciphertext": hex(oracle.raw_encrypt(m, r_value=s))}
            for m, s in zip(plains, r, strict=True)
        ],
        "short": [{"exponent": hex(s), "obfuscator": hex(pow(base, s, n * n))} for s in exponents],
        "bad_ciphertexts": {
            "zero": hex(0),
            "N": hex(n),
            "N^2": hex(n * n),
            "above N^2": hex(n * n + 1),
            "p": hex(P),
            "a multiple of p": hex(12345 * P),
            "a multiple of q": hex(n * n - Q),
        },
        "bad_keys": {
            "even": hex(n + 1),
            "a square": hex(P * P),
            "a prime": hex(_next_prime(1 << 511)),
            "a small factor": hex(3 * _next_prime(1 << 510)),
            "another size": hex(P),
            "zero": hex(0),
        },
    }


def _next_prime(n: int) -> int:
    # Fermat to base 2 and 3: enough for a number that nobody chose.
    n |= 1
    while pow(2, n - 1, n) != 1 or pow(3, n - 1, n) != 1:
        n += 2
    return n


# --- Packing -------------------------------------------------------------------


def _pack(vector: Sequence[int], width: int) -> int:
    return sum(v * 2 ** (width * i) for i, v in enumerate(vector))


def packing() -> dict[str, Any]:
    """Vectors in their slots, and opened sums that are none."""
    n, good = P * Q, []
    for bound, vector in [
        (7, (1, -2, 3)),
        (7, (7, -7, 7)),
        (2**40, (2**40, -(2**40), 0, 1, -1) * 5),
        (1, (-1,)),
        (8, (-8, 8)),
    ]:
        width = bound.bit_length() + 1
        slots = (512 - 1 - 64 - 1) // width
        chunks = [vector[i : i + slots] for i in range(0, len(vector), slots)]
        offsets = [_pack((2 ** (width - 1),) * len(c), width) + 2 ** (width * len(c)) for c in chunks]
        good.append(
            {
                "bound": hex(bound),
                "vector": [hex(v) for v in vector],
                "packed": [hex(_pack(c, width)) for c in chunks],
                "exponents": [hex(_pack(c, width) + o) for c, o in zip(chunks, offsets, strict=True)],
            }
        )
    return {"modulus": hex(n), "good": good, "bad": dict(_bad_sums(n))}


def _bad_sums(n: int) -> Iterator[tuple[str, str]]:
    # Of three coordinates with |v| <= 7: 12 bits.
    blind = int.from_bytes(hashlib.shake_256(b"blind").digest(64), "big") % n
    yield "a blind left over", hex((_pack((1, -2, 3), 4) + blind) % n)
    yield "the first bit above the slots", hex(_pack((1, -2, 3), 4) + 2**12)
    yield "a zero bit at the top", hex(_pack((1, -2, 3), 4) + 2**509)
    yield "below zero", hex((_pack((1, -2, 3), 4) - 2**12) % n)
    yield "half of N", hex(n // 2)


# --- Coins ---------------------------------------------------------------------


def coins() -> dict[str, Any]:
    """Commitments, public permutations and masks."""
    nonce, salt, seed, key = bytes(32), b"\xff" * 32, bytes(range(32)), bytes(reversed(range(32)))
    n = P * Q
    width = (n.bit_length() + 128 + 7) // 8
    stream = hashlib.shake_256(key + b"zero share").digest(3 * width)
    return {
        "commitment": {
            "name": "alice",
            "nonce": nonce.hex(),
            "salt": salt.hex(),
            "digest": hashlib.sha256(b"masquerade toss\0" + RUN + b"alice\0" + nonce + salt).hexdigest(),
        },
        "permutations": [
            {"seed": seed.hex(), "label": label, "order": _permutation(seed, label, size)}
            for label, size in (("pi1", 5), ("tie", 5), ("pi1", 50), ("pi1", 1))
        ],
        "mask": {
            "key": key.hex(),
            "label": b"zero share".hex(),
            "modulus": hex(n),
            "values": [hex(int.from_bytes(stream[i * width : (i + 1) * width], "big") % n) for i in range(3)],
        },
    }


def _permutation(seed: bytes, label: str, size: int) -> list[int]:
    """Fisher-Yates from the top; each draw is SHAKE-256 of a counter, cut to the bits needed, until it is in range."""
    order, at = list(range(size)), 0
    for i in reversed(range(1, size)):
        bits, j = i.bit_length(), i + 1
        while j > i:
            at += 1
            digest = hashlib.shake_256(seed + b"\0" + label.encode() + b"\0" + at.to_bytes(8, "big")).digest(
                -(-bits // 8)
            )
            j = int.from_bytes(digest, "big") >> (-bits % 8)
        order[i], order[j] = order[j], order[i]
    return order


if __name__ == "__main__":
    write(vectors(), Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

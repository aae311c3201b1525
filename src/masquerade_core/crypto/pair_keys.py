"""Keys that two participants share, all from one derivation, and the proof that a participant owns its announced key.

A *box key* is a participant's key of one run. Its owner shows the public half once, signed, when the run begins. Two
box keys agree on a secret by X25519. That secret serves for nothing but :func:`derive`, and every key that two
participants share comes from there: for masks, for shares of zero, for sealed boxes, for proofs among parties. The
one-time keys of double masks and the ephemeral keys of anonymous boxes take the same way.

*Keys bind names.* A derived key depends on the run, on the purpose, and on both names with both public keys. So a
participant that announces a key that is not its own gets no key that anybody else has: where Eve copies Bob's key,
Alice has one key with Bob and another with Eve, and Eve knows neither. Without the names Alice would add and subtract
one mask, and send her vector in the clear. A key under which something is sealed also depends on who seals. So there is
one for each direction, and nothing that one sealed can be sent back to it as the other's.

*An announced key is owned.* The box key is an Ed25519 key pair, and X25519 works on its birational image. Its owner
signs with it what the key is announced for (:func:`check_owned`). An Ed25519 signature is a proof of knowledge of
the secret, and it is bound to the key under which it verifies. So neither a copy nor a variant of another's key passes.
One key pair may serve for both: each proof and each derivation has a domain of its own.

*Different keys, one secret.* X25519 sees one coordinate of a point. It takes a point and its negative for the same, and
drops a component of small order. So :func:`image_of` refuses what lies outside of the main subgroup, and
:func:`alike` finds two keys with one image.

References
----------
Krawczyk and Eronen, RFC 5869: HKDF. Langley, Hamburg and Turner, RFC 7748: X25519. Josefsson and Liusvaara, RFC 8032:
Ed25519. Thormarker, "On using the same key pair for Ed25519 and an X25519 based KEM", IACR ePrint 2021/509.
"""

import hmac
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

from nacl.bindings import (
    crypto_aead_chacha20poly1305_ietf_decrypt,
    crypto_aead_chacha20poly1305_ietf_encrypt,
    crypto_scalarmult,
    crypto_scalarmult_base,
    crypto_sign_ed25519_pk_to_curve25519,
    crypto_sign_ed25519_sk_to_curve25519,
)
from nacl.exceptions import CryptoError

from masquerade_core.crypto.boxes import Secret, SigningKey, verify
from masquerade_core.errors import ProtocolViolation
from masquerade_core.rng import Rng

__all__ = [
    "ANONYMOUS_OVERHEAD",
    "Announced",
    "BoxKey",
    "End",
    "alike",
    "alike_words",
    "check_distinct",
    "check_owned",
    "derive",
    "image_of",
    "public_of",
    "seal_anonymous",
]

ANONYMOUS_OVERHEAD = 48  # an ephemeral key of 32 bytes and a tag of 16

_DERIVED = b"masquerade pair key"
_OWNED = b"masquerade box key is owned"
_IMAGES = 1024  # a key's image is asked for when it comes, when all are compared, and when a key is derived
_NONCE = bytes(12)  # the key of an anonymous box serves for this box alone


class End(NamedTuple):
    """One of two participants that share a key: its name, and the public key that it announced."""

    name: str
    public: bytes


def derive(
    run: bytes,
    secret: bytes,
    theirs: bytes,
    purpose: str,
    ends: tuple[End, End],
    *,
    sender: str = "",
    context: bytes = b"",
) -> bytes:
    """Derive a 32-byte key that two participants share; nobody else can, and both derive the same.

    Parameters
    ----------
    run : bytes
        The run id.
    secret : bytes
        The own X25519 key.
    theirs : bytes
        The other one's public X25519 key.
    purpose : str
        What the key is for. No two uses have the same.
    ends : pair of End
        Both names with the keys as they were announced, in the roster's order; Charlie comes last.
    sender : str
        Who seals or proves something under this key; empty where both use it alike.
    context : bytes
        What else the key depends on.

    Raises
    ------
    CryptoError, ValueError, TypeError
        ``theirs`` is no key with which a secret can be shared.
    """
    return _expand(_extract(run, secret, theirs), purpose, ends, sender, context)


def _extract(run: bytes, secret: bytes, theirs: bytes) -> bytes:
    """HKDF-Extract: the run id is the salt. The only place that sees the output of X25519."""
    return hmac.digest(run, crypto_scalarmult(secret, theirs), "sha256")


def _expand(extracted: bytes, purpose: str, ends: tuple[End, End], sender: str, context: bytes) -> bytes:
    """HKDF-Expand to one block of 32 bytes."""
    (one, one_key), (two, two_key) = ends
    parts = (purpose.encode(), one.encode(), one_key, two.encode(), two_key, sender.encode(), context)
    return hmac.digest(extracted, _joined(_DERIVED, *parts) + b"\x01", "sha256")


def _joined(*parts: bytes) -> bytes:
    """Return the parts, each after its length, so that no two lists of parts are alike."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def public_of(secret: bytes) -> bytes:
    """Return the public half of an X25519 key."""
    return bytes(crypto_scalarmult_base(secret))


@lru_cache(maxsize=_IMAGES)
def image_of(public: bytes) -> bytes:
    """Return the X25519 key of an announced box key. A box key and its negative have the same.

    Raises
    ------
    ValueError
        It is no point of the main subgroup, so no box key.
    """
    try:
        return bytes(crypto_sign_ed25519_pk_to_curve25519(public))
    except (CryptoError, TypeError) as error:
        raise ValueError("is not a usable box key") from error


def alike(keys: Iterable[tuple[str, bytes]]) -> tuple[str, str] | None:
    """Return the first two owners whose box keys share the same secrets with everybody; None where all differ."""
    owners: dict[bytes, str] = {}
    for name, public in keys:
        if (other := owners.setdefault(image_of(public), name)) != name:
            return other, name
    return None


class Announced(Protocol):
    """A message in which a participant announces its box key, with a nonce and the proof that it owns the key."""

    @property
    def box_key(self) -> bytes:
        """The public half."""
        ...

    @property
    def nonce(self) -> bytes:
        """Fresh in every run."""
        ...

    @property
    def proof(self) -> bytes:
        """The result of :meth:`BoxKey.prove`."""
        ...


def check_owned(announced: Announced, study_id: bytes, name: str, signing: bytes) -> None:
    """Check that a participant owns the box key that it announces.

    Parameters
    ----------
    announced : Announced
    study_id : bytes
        The id of the study for whose run the key is announced.
    name : str
        Who announces it.
    signing : bytes
        The key under which ``name`` signs, as the study pins it.

    Raises
    ------
    ProtocolViolation
        The fault of ``name``, who signed the announcement.
    """
    key = announced.box_key
    if not verify(key, _joined(_OWNED, study_id, name.encode(), signing, announced.nonce, key), announced.proof):
        raise ProtocolViolation(
            f"{name} announced a key for sealed boxes that it does not prove to own; it must announce a key of its "
            "own, with the proof for this study, this name and this nonce",
            peer=name,
        )


def check_distinct(keys: Iterable[tuple[str, bytes]], frames: Mapping[str, bytes] = MappingProxyType({})) -> None:
    """Check that no two participants have box keys with which they share the same secrets.

    Parameters
    ----------
    keys : iterable of (str, bytes)
        Who owns which key, as :func:`check_owned` has found.
    frames : mapping of str to bytes
        The frames in which participants signed what they announced.

    Raises
    ------
    ProtocolViolation
        Two have: one gave its key to the other, and nobody can tell who.
    """
    if found := alike(keys):
        raise ProtocolViolation(
            f"{alike_words(*found)}; nobody can tell which of the two gave its key away",
            suspects=found,
            frames=tuple(frames[name] for name in found if name in frames),
        )


def alike_words(one: str, two: str) -> str:
    """Say that two participants announced one key."""
    return f"{one} and {two} announced keys for sealed boxes with one secret, and both prove to own it"


class BoxKey(Secret):
    """One participant's key of one run.

    Parameters
    ----------
    seed : bytes
        32 fresh random bytes.

    Attributes
    ----------
    public : bytes
        What its owner announces.
    """

    __slots__ = ("_extracted", "_scalar", "_signing", "public")

    def __init__(self, seed: bytes) -> None:
        self._signing = SigningKey(seed)
        self.public = self._signing.public
        self._scalar = bytes(crypto_sign_ed25519_sk_to_curve25519(seed + self.public))
        self._extracted: dict[tuple[bytes, bytes], bytes] = {}

    def prove(self, study_id: bytes, name: str, signing: bytes, nonce: bytes) -> bytes:
        """Prove that ``name`` owns this key; :func:`check_owned` has the parameters."""
        return self._signing.sign(_joined(_OWNED, study_id, name.encode(), signing, nonce, self.public))

    def check(self, public: bytes, peer: str) -> None:
        """Refuse a box key with which no secret can be shared.

        Raises
        ------
        ProtocolViolation
            The fault of ``peer``, who signed this key as its own.
        """
        try:
            image_of(public)
        except ValueError as error:
            msg = f"{peer} joined with a key for sealed boxes that is not a point of Ed25519's main subgroup"
            raise ProtocolViolation(msg, peer=peer) from error

    def pair_key(
        self, run: bytes, theirs: bytes, purpose: str, ends: tuple[End, End], *, sender: str = "", context: bytes = b""
    ) -> bytes:
        """Derive a key that is shared with the owner of the box key ``theirs``, as :func:`derive` does."""
        if (run, theirs) not in self._extracted:
            self._extracted[run, theirs] = _extract(run, self._scalar, image_of(theirs))
        return _expand(self._extracted[run, theirs], purpose, ends, sender, context)

    def open_anonymous(self, run: bytes, name: str, sealed: bytes) -> bytes:
        """Open a box that :func:`seal_anonymous` made for ``name``, the owner of this key.

        Raises
        ------
        ProtocolViolation
            The box was not sealed for this key in this run. It carries no name, so nobody can tell whose fault that is.
        """
        ephemeral = sealed[:32]
        try:
            key = derive(run, self._scalar, ephemeral, *_anonymous(ephemeral, End(name, self.public)))
            return bytes(crypto_aead_chacha20poly1305_ietf_decrypt(sealed[32:], None, _NONCE, key))
        except (CryptoError, ValueError, TypeError) as error:
            msg = (
                "an anonymous box does not open: it was not sealed for this participant in this run. It carries no "
                "name, so nobody can tell who made it"
            )
            raise ProtocolViolation(msg) from error


def seal_anonymous(rng: Rng, run: bytes, to: End, data: bytes) -> bytes:
    """Seal ``data`` for the owner of a box key, without a sender's name: ``ANONYMOUS_OVERHEAD`` bytes longer.

    The ephemeral key comes from ``rng``, so that a run can be repeated from its draws.
    """
    secret = rng.bytes(32)
    ephemeral = public_of(secret)
    key = derive(run, secret, image_of(to.public), *_anonymous(ephemeral, to))
    return ephemeral + bytes(crypto_aead_chacha20poly1305_ietf_encrypt(data, None, _NONCE, key))


def _anonymous(ephemeral: bytes, to: End) -> tuple[str, tuple[End, End]]:
    """Return the purpose and the ends of an anonymous box's key: the sealer has no name."""
    return "anonymous box", (End("", ephemeral), to)

"""Ciphertexts in a message: a field type that a vector leaves once, for the recipient for whom it was made."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Never

from gmpy2 import gcd, mpz
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from masquerade_core.crypto.paillier import Ciphertext, Fresh, PublicKey, no_ciphertext
from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.wire.codec import OneSend
from masquerade_core.words import counted

__all__ = ["Ciphertexts"]


class Ciphertexts(OneSend):
    """A vector of Paillier ciphertexts in a message: one byte string on the wire.

    A vector made from ``Fresh`` values (:meth:`outgoing`) can be encoded once, for the recipient they were made for. A
    vector that came off the wire can only be read: there is no way to pass it on.
    """

    __slots__ = ("_key", "_product", "_raw", "_recipient")

    def __init__(self, raw: bytes, recipient: str | None, key: PublicKey | None, *, product: bool = False) -> None:
        self._raw = raw
        self._recipient = recipient
        self._key = key
        self._product = product

    @classmethod
    def outgoing(cls, fresh: Sequence[Fresh]) -> "Ciphertexts":
        """Use up fresh ciphertexts of one key and one recipient.

        Raises
        ------
        LocalProtocolError
            The vector is empty, its keys or recipients differ, or one of its ciphertexts was used up before.
        """
        if len({(f.key, f.recipient) for f in fresh}) != 1:
            msg = "a message carries one or more fresh ciphertexts, all of one key and for one recipient"
            raise LocalProtocolError(msg)
        key, recipient = fresh[0].key, fresh[0].recipient
        raw = b"".join(f.use().to_bytes(key.ciphertext_bytes, "big") for f in fresh)
        return cls(raw, recipient, key)

    @classmethod
    def total(cls, received: Mapping[str, "Ciphertexts"], key: PublicKey, count: int, recipient: str) -> "Ciphertexts":
        """Multiply the vectors of several senders: E(sum of their plaintexts), for ``recipient``.

        The product needs no obfuscator of its own, since it bears those of all its factors, and each sender gave one
        factor. The plaintexts must be masked, so that a product of too few factors shows nothing.

        Raises
        ------
        ProtocolViolation
            The fault of the sender that it names: a wrong number of bytes, or a value outside Z*_{N^2}.
        """
        width, modulus = key.ciphertext_bytes, key.mod_n2
        products, *others = (vector.residues(key, count, peer) for peer, vector in received.items())
        for values in others:
            products = tuple(product * value % modulus for product, value in zip(products, values, strict=True))
        # A product is a unit if all its factors are.
        if gcd(reduce(lambda a, b: a * b % key.mod_n, products, mpz(1)), key.mod_n) != 1:
            for peer, vector in received.items():
                vector.read(key, count, peer)  # raises for the sender whose value shares a factor with N
        return cls(b"".join(p.to_bytes(width, "big") for p in products), recipient, key, product=True)

    def also_for(self, recipient: str) -> "Ciphertexts":
        """Return a product for a second recipient: its recipient learns nothing by knowing that it is the same.

        Raises
        ------
        LocalProtocolError
            The vector is no product that this process made.
        """
        if not self._product:
            msg = f"only a product of ciphertexts goes to a second recipient; this vector is not one for {recipient}"
            raise LocalProtocolError(msg)
        return Ciphertexts(self._raw, recipient, self._key, product=True)

    def take(self, recipient: str) -> bytes:
        """Hand over the bytes, once, for a send to ``recipient``.

        Raises
        ------
        LocalProtocolError
            This process would send ciphertexts that are not fresh, or send them to another recipient.
        """
        if self._recipient != recipient:
            msg = (
                f"ciphertexts that are not fresh for {recipient} cannot be sent to {recipient}: each is made for one "
                "recipient and one send"
            )
            raise LocalProtocolError(msg)
        self._recipient = None
        return self._raw

    def read(self, key: PublicKey, count: int, peer: str) -> tuple[Ciphertext, ...]:
        """Check and return ``count`` ciphertexts under ``key``.

        Raises
        ------
        ProtocolViolation
            The sender's fault: a wrong number of bytes, or a value outside Z*_{N^2}.
        """
        return tuple(key.read(value, peer) for value in self.residues(key, count, peer))

    def residues(self, key: PublicKey, count: int, peer: str) -> tuple[Any, ...]:
        """Return ``count`` residues below N^2. The caller checks that they are units.

        Raises
        ------
        ProtocolViolation
            The fault of ``peer``: a wrong number of bytes, or a value that is 0 or too large.
        """
        width = key.ciphertext_bytes
        if len(self._raw) != count * width:
            due = f"{width} for each of {counted(count, 'ciphertext')}"
            msg = f"{peer} sent {len(self._raw)} bytes of ciphertexts, but {count * width} are due: {due}"
            raise ProtocolViolation(msg, peer=peer)
        values = tuple(mpz.from_bytes(self._raw[i : i + width], "big") for i in range(0, count * width, width))
        if not (min(values) > 0 and max(values) < key.mod_n2):
            raise no_ciphertext(peer)
        return values

    @property
    def count(self) -> int:
        """How many ciphertexts this process sends with it; 0 in a vector that was received."""
        return 0 if self._key is None else len(self._raw) // self._key.ciphertext_bytes

    def digest(self) -> bytes:
        """Return the SHA-256 of the bytes on the wire, as a receipt."""
        return hashlib.sha256(self._raw).digest()

    def __len__(self) -> int:
        """Return the length on the wire in bytes."""
        return len(self._raw)

    def __reduce__(self) -> Never:
        """Refuse to be pickled: ciphertexts leave a process only by a send."""
        msg = "ciphertexts cannot be pickled: they leave a process only by a send"
        raise TypeError(msg)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept an outgoing vector as it is, and bytes (from the codec) as a received one."""
        received = core_schema.no_info_after_validator_function(
            lambda raw: cls(raw, None, None), core_schema.bytes_schema(min_length=1, strict=True)
        )
        return core_schema.union_schema([core_schema.is_instance_schema(cls), received])

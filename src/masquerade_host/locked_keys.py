"""Secret keys under a passphrase: Argon2id makes a key of it, under which a SecretBox encrypts and authenticates.

Argon2id is slow and needs much memory on purpose, so that guessing passphrases is expensive. How slow is written into
the file, so that later versions can ask for more and still read old files. Both functions are those of libsodium.
"""

import base64
import binascii
import unicodedata
from dataclasses import dataclass

import nacl.exceptions
from nacl.pwhash import argon2id
from nacl.secret import SecretBox

from masquerade_core.rng import Rng

__all__ = ["LockedKeys", "NotEnoughMemory", "WrongPassphrase"]

_NAME = "argon2id"
_PASSES, _MEMORY = argon2id.OPSLIMIT_MODERATE, argon2id.MEMLIMIT_MODERATE  # 256 MB, and about a second
# What a file may ask for. Somebody who can change the file could otherwise make this program fill the machine's memory.
_MOST_PASSES, _MOST_MEMORY = 10, 1 << 30


class WrongPassphrase(Exception):
    """The passphrase does not open the keys, or the file was changed; nobody can tell which."""


class NotEnoughMemory(Exception):
    """This machine cannot give Argon2id the memory that the file asks for; the text is the number of megabytes."""


@dataclass(frozen=True)
class LockedKeys:
    """Encrypted secret keys, as a file holds them.

    Attributes
    ----------
    passes, memory : int
        The cost of one guess: passes of Argon2id, and bytes of memory.
    salt, box : bytes
        Argon2id's salt; the SecretBox with its nonce in front.
    """

    passes: int
    memory: int
    salt: bytes
    box: bytes

    @classmethod
    def lock(cls, secret: bytes, passphrase: str, rng: Rng) -> "LockedKeys":
        """Encrypt ``secret`` under a passphrase."""
        salt = rng.bytes(argon2id.SALTBYTES)
        key = _key(passphrase, salt, _PASSES, _MEMORY)
        return cls(_PASSES, _MEMORY, salt, bytes(SecretBox(key).encrypt(secret, rng.bytes(SecretBox.NONCE_SIZE))))

    @classmethod
    def parse(cls, lines: list[str]) -> "LockedKeys | None":
        """Read the lines that :attr:`lines` gives; ``None`` if they are anything else."""
        try:
            head, salt, box = lines
            name, passes, memory = head.split(" ")
            found = cls(int(passes), int(memory), *(base64.b64decode(line, validate=True) for line in (salt, box)))
        except (ValueError, binascii.Error):
            return None
        fits = (
            argon2id.OPSLIMIT_MIN <= found.passes <= _MOST_PASSES
            and argon2id.MEMLIMIT_MIN <= found.memory <= _MOST_MEMORY
            and len(found.salt) == argon2id.SALTBYTES
        )
        return found if name == _NAME and fits and found.lines == lines else None

    @property
    def lines(self) -> list[str]:
        """The text of a file, line by line."""
        return [f"{_NAME} {self.passes} {self.memory}", *(base64.b64encode(x).decode() for x in (self.salt, self.box))]

    def open(self, passphrase: str) -> bytes:
        """Return the secret.

        Raises
        ------
        WrongPassphrase
        NotEnoughMemory
        """
        try:
            return SecretBox(_key(passphrase, self.salt, self.passes, self.memory)).decrypt(self.box)
        except nacl.exceptions.CryptoError:
            raise WrongPassphrase from None


def _key(passphrase: str, salt: bytes, passes: int, memory: int) -> bytes:
    # Two keyboards may write one letter in two ways, such as with one code or with a code and an accent.
    words = unicodedata.normalize("NFC", passphrase).encode()
    try:
        return argon2id.kdf(SecretBox.KEY_SIZE, words, salt, opslimit=passes, memlimit=memory)
    except nacl.exceptions.RuntimeError:
        raise NotEnoughMemory(str(memory >> 20)) from None

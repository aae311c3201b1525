"""Secret keys under a passphrase: where the passphrase comes from, and the key that Argon2id makes of it.

The passphrase of a key file comes from a file that a service's manager provides, or from a person at a terminal. It
never comes from the command line or from the environment itself, which other processes of this machine may see.

Argon2id makes a key of the passphrase, under which a SecretBox encrypts and authenticates the secret keys. Argon2id is
slow and needs much memory on purpose, so that guessing passphrases is expensive. How slow it is stands in the file, so
later versions can ask for more and still read old files. Both functions are those of libsodium.
"""

import base64
import binascii
import getpass
import os
import stat
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nacl.exceptions
from nacl.pwhash import argon2id
from nacl.secret import SecretBox

from masquerade_core.errors import BadInput
from masquerade_core.rng import Rng

__all__ = [
    "VARIABLE",
    "LockedKeys",
    "NotEnoughMemory",
    "WrongPassphrase",
    "new_passphrase",
    "passphrase_of",
    "too_little_memory",
    "unlocked",
]


# --- Passphrases -----------------------------------------------------------------

VARIABLE = "MASQUERADE_PASSPHRASE_FILE"
_SHORTEST = 12  # characters
_MAX_BYTES = 1024


def passphrase_of(key_file: Path) -> str:
    """Return the passphrase for an existing key file.

    Raises
    ------
    BadInput
        There is no terminal to ask at and no file, or the file cannot be used.
    """
    if path := os.environ.get(VARIABLE):
        return _read(Path(path))
    _check_terminal(key_file)
    return _asked(f"Passphrase of {key_file}: ")


def new_passphrase(key_file: Path) -> str:
    """Return the passphrase for a key file that is about to be made; at a terminal it is asked for twice.

    Raises
    ------
    BadInput
        As above; or it is too short, or the two answers differ.
    """
    if path := os.environ.get(VARIABLE):
        words = _read(Path(path))
    else:
        _check_terminal(key_file)
        words = _asked(f"New passphrase for {key_file}: ")
    if len(words) < _SHORTEST:
        raise BadInput(
            f"the new passphrase has {len(words)} characters; it must have at least {_SHORTEST}",
            "use several words; they need not be unusual",
        )
    if not path and _asked("The new passphrase again: ") != words:
        raise BadInput("the two passphrases differ, so no keys were made", "run the command again")
    return words


def _check_terminal(key_file: Path) -> None:
    if not sys.stdin.isatty():
        raise BadInput(
            f"the key file {key_file} needs a passphrase, and nobody can be asked: standard input is not a terminal",
            f"write the passphrase into a file with mode 0600, and name that file in the variable {VARIABLE}",
        )


def _asked(question: str) -> str:
    try:
        return getpass.getpass(question, sys.stderr)
    except EOFError:
        return ""


def _read(path: Path) -> str:
    """Read the first line of the passphrase file.

    The file may belong to another user: systemd gives a service a file of root's that only the service can read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise BadInput(
            f"the passphrase file {path}, which {VARIABLE} names, cannot be read: {error.strerror}",
            "write the passphrase into it, or unset the variable",
        ) from None
    try:
        mode = os.fstat(descriptor).st_mode
        raw = os.read(descriptor, _MAX_BYTES + 1) if stat.S_ISREG(mode) else b""
    finally:
        os.close(descriptor)
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise BadInput(
            f"the passphrase file {path} has mode {stat.S_IMODE(mode):04o}: others can use it; 0600 and 0400 are "
            "allowed",
            f"chmod 600 {path}; if anybody may have read it, change the passphrase with 'masquerade keys rotate'",
        )
    try:
        words = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        words = ""
    if not words or "\n" in words or len(raw) > _MAX_BYTES:
        # Nothing is quoted: it may be the passphrase.
        raise BadInput(
            f"the passphrase file {path} does not hold a passphrase: one line of at most {_MAX_BYTES} bytes is allowed",
            "write the passphrase into it, and nothing else",
        )
    return words


# --- Locked keys -----------------------------------------------------------------

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


def unlocked(path: Path, lines: list[str], ask: Callable[[Path], str] | None) -> bytes | None:
    """Return the secret that these lines of a key file hold; None if they hold none.

    Raises
    ------
    BadInput
        The passphrase is another one, or this machine has too little memory for it.
    """
    if (locked := LockedKeys.parse(lines)) is None:
        return None
    try:
        return locked.open((ask or passphrase_of)(path))
    except WrongPassphrase:
        raise BadInput(
            f"the passphrase does not open the key file {path}, or the file was changed",
            "give the passphrase that was chosen when the keys were made; nothing else can open them",
        ) from None
    except NotEnoughMemory as error:
        raise too_little_memory(path, error) from None


def too_little_memory(path: Path, error: Exception) -> BadInput:
    """Return the error of a key file whose passphrase needs more memory than there is."""
    return BadInput(
        f"the passphrase of {path} needs {error} MB of memory for a moment, which this machine does not give",
        "raise the memory limit of this process or container",
    )

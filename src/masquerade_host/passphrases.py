"""Where the passphrase of a key file comes from: a file that a service's manager provides, or a person at a terminal.

It never comes from the command line or from the environment itself, which other processes of this machine may see.
"""

import getpass
import os
import stat
import sys
from pathlib import Path

from masquerade_core.errors import BadInput

__all__ = ["VARIABLE", "new_passphrase", "passphrase_of"]

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
            f"the new passphrase has {len(words)} characters; allowed are at least {_SHORTEST}",
            "take several words, which need not be strange ones",
        )
    if not path and _asked("The same again: ") != words:
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

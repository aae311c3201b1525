"""Who answers at an address: the first two messages of a CURVE handshake, without libzmq, which would not say.

A handshake breaks off in the same way for a wrong key, for a proxy with nobody behind it, and for a server that has too
much to do. A CURVE server proves its long-term key in its second message. So this tells these cases apart. It proves no
key of this side, and leaves no trace in a session.
"""

import socket
import time
from contextlib import closing
from enum import Enum, auto
from typing import TYPE_CHECKING

from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey

from masquerade_core.rng import SystemRng
from masquerade_host.transport.interface import ProxyRefusedError

if TYPE_CHECKING:
    from masquerade_host.transport.proxy import Proxy

__all__ = ["Answer", "probe"]

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
_MECHANISM = slice(12, 32)
_COMMAND = 4  # the flag of a ZMTP command with a length of one byte
_WELCOME = b"\x07WELCOME"
_WELCOME_BYTES = len(_WELCOME) + 16 + 144
_AT_ONCE = 1.0  # seconds
_HELLO_NONCE, _WELCOME_NONCE = b"CurveZMQHELLO---", b"WELCOME-"


class Answer(Enum):
    """The result of a probe of an address."""

    UNKNOWN_NAME = auto()  # the name cannot be resolved here
    REFUSED = auto()  # the machine answers that nobody listens there
    BLOCKED = auto()  # nothing answers: no such machine, or a firewall drops what is sent
    SILENT = auto()  # a connection was made, and nothing came in time
    FOREIGN = auto()  # somebody else's program, or a proxy that closed the connection
    OTHER_KEY = auto()  # a CURVE server that does not have the study's key
    NOT_ALLOWED = auto()  # the proxy does not allow the connection
    CHARLIE = auto()  # a CURVE server with the study's key


def probe(address: str, server_key: bytes, proxy: "Proxy | None" = None, *, seconds: float = 3.0) -> Answer:
    """Ask the server at ``address`` to prove a CURVE key.

    Parameters
    ----------
    address : str
        ``tcp://host:port``.
    server_key : bytes
        Charlie's CURVE key, as in the study.
    proxy : Proxy, optional
        The way out of this party's network.
    seconds : float
        How long to wait for each step.

    References
    ----------
    ZeroMQ RFC 37 (ZMTP 3.1), section "Greeting"; RFC 26 (CurveZMQ), HELLO and WELCOME.
    """
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    try:
        if proxy is not None:
            connection = proxy.connect(address, timeout=seconds)
        else:
            connection = socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)
    except ProxyRefusedError:
        return Answer.NOT_ALLOWED
    except (socket.gaierror, UnicodeError):
        return Answer.UNKNOWN_NAME
    except ConnectionRefusedError:
        return Answer.REFUSED
    except OSError:
        return Answer.BLOCKED
    with closing(connection):
        return ask(connection, server_key)


def ask(connection: socket.socket, server_key: bytes) -> Answer:
    """Do what :func:`probe` does, over a connection that is there."""
    try:
        connection.sendall(_GREETING)
        greeting = _read(connection, len(_GREETING))
    except TimeoutError:
        return Answer.SILENT
    except OSError:
        return Answer.FOREIGN
    greets = greeting[:1] + greeting[9:10] == b"\xff\x7f" and greeting[_MECHANISM] == _GREETING[_MECHANISM]
    return _prove(connection, server_key) if greets else Answer.FOREIGN


def _prove(connection: socket.socket, server_key: bytes) -> Answer:
    """Say hello, and see whether the welcome comes from the owner of the key."""
    mine = PrivateKey(SystemRng().bytes(32))
    box = Box(mine, PublicKey(server_key))
    nonce = bytes(7) + b"\1"
    proof = box.encrypt(bytes(64), _HELLO_NONCE + nonce).ciphertext
    hello = b"\x05HELLO\x01\x00" + bytes(72) + bytes(mine.public_key) + nonce + proof
    asked = time.monotonic()
    try:
        connection.sendall(bytes([_COMMAND, len(hello)]) + hello)
        welcome = _read(connection, 2 + _WELCOME_BYTES)[2:]
    except TimeoutError:
        return Answer.SILENT
    except OSError:
        # A server that cannot read a hello hangs up at once; one that has too much to do hangs up later.
        return Answer.OTHER_KEY if time.monotonic() - asked < _AT_ONCE else Answer.SILENT
    try:
        box.decrypt(welcome[-144:], _WELCOME_NONCE + welcome[len(_WELCOME) : -144])
    except CryptoError:
        return Answer.OTHER_KEY
    return Answer.CHARLIE


def _read(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        part = connection.recv(length - len(received))
        if not part:
            raise ConnectionResetError
        received += part
    return received

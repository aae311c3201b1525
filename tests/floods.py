"""Strangers and parties that send all that they may: ``python -m tests.floods PORT KIND ...``, a process of its own."""

import contextlib
import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any

from nacl.public import Box, PrivateKey, PublicKey
from nacl.utils import random

from masquerade_host.channel import CHUNK
from masquerade_host.process.process import allow_descriptors

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
_LONG, _COMMAND, _MORE = 2, 4, 1
_BLOCK = bytes(65536)


def framed(body: bytes, flags: int = 0) -> bytes:
    """Frame a ZMTP message or command."""
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | _LONG]) + struct.pack(">Q", len(body)) + body


def say(word: str) -> None:
    """Tell whoever started this process."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class Strangers:
    """Sockets that send a greeting and then a command of one length, and prove no key.

    Parameters
    ----------
    port, length : int
    again : bool
        Connect again whenever the server hangs up.
    """

    def __init__(self, port: int, length: int, *, again: bool = False) -> None:
        self._port = port
        self._again = again
        self._head = GREETING + bytes([_COMMAND | _LONG]) + struct.pack(">Q", length)
        self._total = len(self._head) + length
        self._selector = selectors.DefaultSelector()
        self._position: dict[socket.socket, int] = {}
        self.sent = 0

    def _connect(self) -> None:
        sock = socket.socket()
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            sock.connect(("127.0.0.1", self._port))
        self._selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        self._position[sock] = 0

    def _push(self, sock: socket.socket, mask: int) -> None:
        if mask & selectors.EVENT_READ and not sock.recv(4096):
            raise ConnectionResetError
        if mask & selectors.EVENT_WRITE:
            at = self._position[sock]
            if not (rest := self._head[at:] or _BLOCK[: self._total - at]):
                self._selector.modify(sock, selectors.EVENT_READ)
                return
            count = sock.send(rest)
            self._position[sock] += count
            self.sent += count

    def run(self, sockets: int, seconds: float) -> int:
        """Send for so long, or until the server has hung up all; return how many bytes were sent."""
        for _ in range(sockets):
            self._connect()
        end = time.monotonic() + seconds
        say("begun")
        while time.monotonic() < end and self._position:
            for key, mask in self._selector.select(0.1):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                try:
                    self._push(sock, mask)
                except BlockingIOError:
                    pass
                except OSError:
                    self._selector.unregister(sock)
                    sock.close()
                    del self._position[sock]
                    if self._again:
                        self._connect()
        for sock in self._position:
            sock.close()
        return self.sent


class Admitted:
    """A CURVE connection of an admitted party that is no libzmq's: it can leave a message unfinished.

    References
    ----------
    ZeroMQ RFC 26 (CurveZMQ).
    """

    def __init__(self, port: int, secret: bytes, server: bytes) -> None:
        mine, short, theirs = PrivateKey(secret), PrivateKey.generate(), PublicKey(server)
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=2)
        self.sock.sendall(GREETING)
        self._read(64)
        nonce = bytes(7) + b"\1"
        proof = Box(short, theirs).encrypt(bytes(64), b"CurveZMQHELLO---" + nonce).ciphertext
        self.sock.sendall(framed(b"\x05HELLO\1\0" + bytes(72) + bytes(short.public_key) + nonce + proof, _COMMAND))
        welcome = self._read(2 + 168)[2:]
        opened = Box(short, theirs).decrypt(welcome[24:], b"WELCOME-" + welcome[8:24])
        session, cookie = PublicKey(opened[:32]), opened[32:]
        self._box, self._next = Box(short, session), 3
        vouch = random(16)
        voucher = Box(mine, session).encrypt(bytes(short.public_key) + server, b"VOUCH---" + vouch).ciphertext
        meta = b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
        nonce = bytes(7) + b"\2"
        secret_part = bytes(mine.public_key) + vouch + voucher + meta
        sealed = self._box.encrypt(secret_part, b"CurveZMQINITIATE" + nonce).ciphertext
        self.sock.sendall(framed(b"\x08INITIATE" + cookie + nonce + sealed, _COMMAND))
        assert self._read(8)[2:] == b"\x05READY"

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.sock.recv(length - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return data

    def part(self, body: bytes, *, more: bool) -> None:
        """Send one part of a message."""
        nonce = struct.pack(">Q", self._next)
        self._next += 1
        flags = bytes([_MORE if more else 0])
        self.sock.sendall(
            framed(b"\x07MESSAGE" + nonce + self._box.encrypt(flags + body, b"CurveZMQMESSAGEC" + nonce).ciphertext)
        )


def _first_chunk() -> bytes:
    return struct.pack(">II", 4 * 1024 * 1024, 0) + bytes(CHUNK)


def _connections(port: int, secret: bytes, server: bytes, end: float) -> Iterator[Admitted]:
    while time.monotonic() < end:
        try:
            yield Admitted(port, secret, server)
        except OSError:
            time.sleep(0.05)


def endless(port: int, secret: bytes, server: bytes, seconds: float) -> int:
    """Send one multipart message that never ends; connect again when the server hangs up."""
    end, sent = time.monotonic() + seconds, 0
    for connection in _connections(port, secret, server, end):
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                connection.part(bytes(CHUNK), more=True)
                sent += CHUNK
    return sent


def unfinished(port: int, secret: bytes, server: bytes, seconds: float, parts: int = 40) -> int:
    """Open as many connections as one gets, and leave a message of many parts unfinished on each."""
    end, open_ = time.monotonic() + seconds, []
    for connection in _connections(port, secret, server, end):
        with contextlib.suppress(OSError):
            for _ in range(parts):
                connection.part(bytes(CHUNK), more=True)
            open_.append(connection)
    return len(open_)


def frames(port: int, secret: bytes, server: bytes, seconds: float) -> int:
    """Open as many connections as one gets, and leave a frame unfinished on each."""
    end, open_ = time.monotonic() + seconds, []
    for connection in _connections(port, secret, server, end):
        with contextlib.suppress(OSError):
            connection.part(_first_chunk(), more=False)
            open_.append(connection)
    return len(open_)


def garbage(port: int, secret: bytes, server: bytes, seconds: float) -> int:
    """Send whole frames of 4 MB without meaning, as fast as they are taken."""
    end, sent = time.monotonic() + seconds, 0
    length = 4 * 1024 * 1024
    chunks = [struct.pack(">II", length, at) + bytes(min(CHUNK, length - at)) for at in range(0, length, CHUNK)]
    for connection in _connections(port, secret, server, end):
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                for chunk in chunks:
                    connection.part(chunk, more=False)
                sent += length
    return sent


_PARTIES = {"endless": endless, "unfinished": unfinished, "frames": frames, "garbage": garbage}


def main(kind: str, options: dict[str, Any]) -> None:
    """Flood, and then print how much was sent or left open."""
    allow_descriptors()
    if kind != "strangers":
        say("begun")
    if kind == "strangers":
        flood = Strangers(options["port"], options["length"], again=options.get("again", False))
        done = flood.run(options["sockets"], options["seconds"])
    else:
        secret, server = bytes.fromhex(options["secret"]), bytes.fromhex(options["server"])
        done = _PARTIES[kind](options["port"], secret, server, options["seconds"])
    say(str(done))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

"""Out through a proxy: a tunnel from a port of this machine through an HTTP proxy (CONNECT) or a SOCKS5 proxy.

ZeroMQ knows no HTTP proxy, and of a SOCKS proxy's refusal it says nothing. So the party connects to a port of its own
machine, and threads carry the bytes on. The proxy sees encrypted bytes, as the network does: CURVE's handshake is with
Charlie. Only the option ``--proxy`` names a proxy. No variable of the environment, such as ``HTTPS_PROXY``, is read.

A ZeroMQ server speaks first, so its greeting may come in one packet with the proxy's answer. python-socks 3.2 and
``http.client`` read the answer in blocks and drop what follows it, and the handshake waits for ever. So the answer is
read here, byte by byte.
"""

import base64
import contextlib
import socket
import threading
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from masquerade_core.errors import BadInput
from masquerade_host.transport.interface import ProxyRefusedError

__all__ = ["Proxy", "Tunnel"]

_BLOCK = 64 * 1024
_LONGEST_ANSWER = 16 * 1024  # bytes of a proxy's answer before the connection is there
_TIMEOUT = 10.0  # seconds for the proxy's answer
_BEHIND = ("500", "502", "503", "504")  # the proxy allows it, but could not reach Charlie
_SOCKS_NOT_ALLOWED = 2
_SOCKS_PASSWORD = 2  # the method "user name and password" (RFC 1929)


@dataclass(frozen=True)
class Proxy:
    """A proxy, as the option ``--proxy`` names it.

    Attributes
    ----------
    scheme : str
        ``http`` or ``socks5``.
    host, port : str, int
    user, password : str
        Empty where the proxy asks for none.
    """

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        """Return the proxy's address without the password."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Proxy":
        """Read ``http://[user:password@]host:port`` or ``socks5://[user:password@]host:port``.

        Raises
        ------
        BadInput
            It is neither. The text is not shown, since it may hold a password.
        """
        with contextlib.suppress(ValueError):
            parts = urlsplit(text)
            if parts.scheme in ("http", "socks5") and parts.hostname and parts.port and parts.path in ("", "/"):
                user, password = unquote(parts.username or ""), unquote(parts.password or "")
                return cls(parts.scheme, parts.hostname, parts.port, user, password)
        raise BadInput(
            "the proxy has no address that this program understands",
            "write --proxy http://HOST:PORT or --proxy socks5://HOST:PORT, with USER:PASSWORD@ before HOST if needed",
        )

    def tunnel(self, address: str) -> "Tunnel":
        """Return a tunnel to an address, ``tcp://host:port``, which is not started yet."""
        return Tunnel(self, address)

    def connect(self, address: str, timeout: float = _TIMEOUT) -> socket.socket:
        """Connect to ``tcp://host:port`` through the proxy, which looks the name up.

        Raises
        ------
        ProxyRefusedError
            The proxy does not allow it.
        ConnectionRefusedError
            The proxy allows it, and reaches nobody there.
        OSError
            The proxy cannot be reached, or did not answer as a proxy.
        """
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        sock = socket.create_connection((self.host, self.port), timeout=timeout)
        try:
            ask = self._ask_http if self.scheme == "http" else self._ask_socks
            ask(sock, host.strip("[]"), int(port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _ask_http(self, sock: socket.socket, host: str, port: int) -> None:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        words = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
        if self.user:
            credentials = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            words.append(f"Proxy-Authorization: Basic {credentials}")
        sock.sendall("\r\n".join([*words, "", ""]).encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += _read(sock, 1)  # what follows the answer is Charlie's already
            if len(answer) > _LONGEST_ANSWER:
                raise ConnectionAbortedError
        status = answer.split(b" ", 2)[1][:3].decode("latin-1") if answer.startswith(b"HTTP/1.") else ""
        if status in _BEHIND:
            raise ConnectionRefusedError
        if status[:1] == "4":
            raise ProxyRefusedError
        if status != "200":
            raise ConnectionAbortedError

    def _ask_socks(self, sock: socket.socket, host: str, port: int) -> None:
        name = host.encode("idna") if not host.isascii() else host.encode()
        sock.sendall(b"\x05\x02\x00\x02" if self.user else b"\x05\x01\x00")
        version, method = _read(sock, 2)
        if version == 5 and method == _SOCKS_PASSWORD and self.user:  # noqa: PLR2004 - SOCKS 5
            user, password = self.user.encode(), self.password.encode()
            sock.sendall(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
            if _read(sock, 2)[1]:
                raise ProxyRefusedError
        elif (version, method) != (5, 0):
            raise ProxyRefusedError
        sock.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + port.to_bytes(2, "big"))
        _, reply, _, kind = _read(sock, 4)
        if reply:
            raise ProxyRefusedError if reply == _SOCKS_NOT_ALLOWED else ConnectionRefusedError
        _read(sock, {1: 4, 3: _read(sock, 1)[0] if kind == 3 else 0, 4: 16}[kind] + 2)  # noqa: PLR2004 - 3: a name


def _read(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = sock.recv(length - len(data))
        if not part:
            raise ConnectionAbortedError
        data += part
    return data


class Tunnel(threading.Thread):
    """Listens at a port of this machine, and carries every connection through the proxy.

    Parameters
    ----------
    proxy : Proxy
    address : str
        Charlie's, ``tcp://host:port``.
    """

    def __init__(self, proxy: Proxy, address: str) -> None:
        super().__init__(name="tunnel", daemon=True)
        self._proxy = proxy
        self._to = address
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"

    def run(self) -> None:
        """Accept connections until the end."""
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._carry, args=(near,), name="tunnel", daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError), near, self._proxy.connect(self._to) as far:
            for sock in (near, far):
                sock.settimeout(None)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = threading.Thread(target=_pump, args=(far, near), name="tunnel", daemon=True)
            back.start()
            _pump(near, far)
            back.join()

    def close(self) -> None:
        """Take no more connections. Those that are there end with either of their ends."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry bytes in one direction; then end both, since ZeroMQ has no use for half a connection."""
    with contextlib.suppress(OSError):
        while data := source.recv(_BLOCK):
            sink.sendall(data)
    for sock in (source, sink):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

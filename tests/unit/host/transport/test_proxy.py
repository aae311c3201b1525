"""Out through a proxy: an HTTP proxy and a SOCKS5 proxy, both as small as they can be, on this machine."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from masquerade_core.errors import BadInput, CannotConnect
from masquerade_core.rng import SystemRng
from masquerade_host.channel import CHUNK
from masquerade_host.transport.dialer import Answer, Dialing, PartySocket, probe
from masquerade_host.transport.interface import Arrival, ConnectionEvent
from masquerade_host.transport.proxy import Proxy
from tests.host_helpers import free_port, new_keys
from tests.messages import raises
from tests.unit.host.transport.test_transport import Place, connection_event, until


class TinyProxy:
    """Takes connections, lets ``ask`` find out where they are to go, and carries bytes."""

    def __init__(self, scheme: str, answer: bytes = b"") -> None:
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self._talk = {"http": self._http, "socks5": self._socks}[scheme]
        self.scheme = scheme
        self.asked: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def proxy(self, credentials: str = "") -> Proxy:
        """Its address, as an option would name it."""
        return Proxy.parse(f"{self.scheme}://{credentials}127.0.0.1:{self._server.getsockname()[1]}")

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._one, args=(near,), daemon=True).start()

    def _one(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError, IndexError):
            if (far := self._talk(near)) is not None:
                with far:
                    back = threading.Thread(target=self._carry, args=(far, near), daemon=True)
                    back.start()
                    self._carry(near, far)
                    back.join()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)

    def _http(self, near: socket.socket) -> socket.socket | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += near.recv(1) or b"\r\n\r\n"
        self.asked.append(head)
        if self._answer:
            near.sendall(self._answer)
            return None
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        try:
            far = socket.create_connection((host, int(port)))
        except OSError:
            near.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return None
        near.sendall(b"HTTP/1.1 200 Connection established\r\nVia: tiny\r\n\r\n")
        return far

    def _socks(self, near: socket.socket) -> socket.socket | None:
        near.recv(2 + near.recv(2, socket.MSG_PEEK)[1])
        if self._answer[:1] == b"\x05":  # the method, and then perhaps more
            near.sendall(self._answer[:2])
            self.asked.append(near.recv(256))
            near.sendall(self._answer[2:])
            return None
        near.sendall(b"\x05\x00")
        head = near.recv(256)
        self.asked.append(head)
        far = socket.create_connection((head[5:-2].decode(), int.from_bytes(head[-2:], "big")))
        near.sendall(b"\x05\x00\x00\x01" + bytes(6))
        return far


@pytest.fixture
def place() -> Iterator[Place]:
    """Charlie, listening."""
    place = Place()
    yield place
    place.close()


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_frames_go_both_ways_through_a_proxy(place: Place, scheme: str) -> None:
    tiny = TinyProxy(scheme)
    key = place.keys["charlie"].public.curve
    party = PartySocket(place.address, place.keys["p1"], key, tiny.proxy())
    place.parties.append(party)
    assert connection_event(party) is ConnectionEvent.CONNECTED
    assert len(tiny.asked) == 1
    frame = SystemRng().bytes(20 * CHUNK)
    party.send(frame)

    def went() -> list[Arrival]:
        party.flush()
        return list(place.charlie.arrivals())

    found = until(went)
    assert isinstance(found, list)
    assert found[0].data == frame
    place.charlie.found("p1", found[0].route)
    place.charlie.send("p1", b"back")
    assert until(lambda: list(party.arrivals())) == [b"back"]
    party.reopen()
    assert connection_event(party) is ConnectionEvent.CONNECTED
    assert len(tiny.asked) == 2
    assert probe(place.address, key, tiny.proxy()) is Answer.CHARLIE
    tiny.close()


@pytest.mark.parametrize(
    ("scheme", "answer"),
    [
        ("http", b"HTTP/1.1 200 Connection established\r\nVia: tiny\r\n\r\n"),
        ("socks5", b"\x05\x00\x05\x00\x00\x01" + bytes(6)),
    ],
)
def test_what_follows_a_proxys_answer_in_one_packet_is_charlies(scheme: str, answer: bytes) -> None:
    tiny = TinyProxy(scheme, answer + b"greeting")
    with tiny.proxy().connect("tcp://charlie.example.org:443") as connection:
        assert connection.recv(100) == b"greeting"
    tiny.close()


def test_an_http_proxy_gets_the_name_and_the_credentials() -> None:
    tiny = TinyProxy("http", b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
    address = "tcp://charlie.example.org:443"
    assert probe(address, new_keys().public.curve, tiny.proxy("me:p%40ss@")) is Answer.NOT_ALLOWED
    credentials = base64.b64encode(b"me:p@ss")
    head = b"CONNECT charlie.example.org:443 HTTP/1.1\r\nHost: charlie.example.org:443\r\n"
    assert tiny.asked == [head + b"Proxy-Authorization: Basic " + credentials + b"\r\n\r\n"]
    tiny.close()


def test_a_socks_proxy_gets_the_credentials_and_the_name() -> None:
    tiny = TinyProxy("socks5", b"\x05\x02\x01\x01")
    address = "tcp://charlie.example.org:443"
    assert probe(address, new_keys().public.curve, tiny.proxy("me:secret@")) is Answer.NOT_ALLOWED
    assert tiny.asked == [b"\x01\x02me\x06secret"]
    tiny.close()


@pytest.mark.parametrize(
    ("scheme", "answer", "found"),
    [
        ("http", b"HTTP/1.1 403 Forbidden\r\n\r\n", Answer.NOT_ALLOWED),
        ("http", b"HTTP/1.1 502 Bad Gateway\r\n\r\n", Answer.REFUSED),
        ("http", b"HTTP/1.1 302 Found\r\n\r\n", Answer.BLOCKED),
        ("http", b"SSH-2.0-OpenSSH_9.2\r\n\r\n", Answer.BLOCKED),
        ("http", b"x" * 20_000, Answer.BLOCKED),
        ("socks5", b"\x05\xff", Answer.NOT_ALLOWED),
        ("socks5", b"\x05\x00\x05\x02\x00\x01", Answer.NOT_ALLOWED),
        ("socks5", b"\x05\x00\x05\x05\x00\x01", Answer.REFUSED),
    ],
)
def test_what_a_proxy_answers_is_told_apart(scheme: str, answer: bytes, found: Answer) -> None:
    tiny = TinyProxy(scheme, answer)
    assert probe("tcp://127.0.0.1:9", new_keys().public.curve, tiny.proxy()) is found
    tiny.close()


def test_a_proxy_that_is_not_there_is_blocked_or_refused() -> None:
    proxy = Proxy("http", "127.0.0.1", free_port())
    assert probe("tcp://127.0.0.1:9", new_keys().public.curve, proxy) is Answer.REFUSED


def test_a_party_that_the_proxy_does_not_let_out_says_so() -> None:
    dialing = Dialing("tcp://here:1", lambda: Answer.NOT_ALLOWED)
    for _ in range(2):
        dialing.note(ConnectionEvent.FOREIGN, 0.0)
    with raises(CannotConnect, "proxy_refuses"):
        dialing.note(ConnectionEvent.FOREIGN, 0.0)


def test_behind_a_proxy_that_refuses_the_connection_fails_and_can_be_made_again(place: Place) -> None:
    tiny = TinyProxy("http", b"HTTP/1.1 503 Later\r\n\r\n")
    party = PartySocket(place.address, place.keys["p1"], place.keys["charlie"].public.curve, tiny.proxy())
    place.parties.append(party)
    for _ in range(2):
        assert connection_event(party) in (ConnectionEvent.FOREIGN, ConnectionEvent.FAILED)
        party.reopen()
    tiny.close()


@pytest.mark.parametrize(
    "text",
    ["", "proxy:8080", "https://proxy:8080", "http://proxy", "http://:8080", "http://proxy:x", "http://a:1/path"],
)
def test_what_is_no_proxy_is_refused_and_not_shown(text: str) -> None:
    with raises(BadInput, "proxy_address_refused") as caught:
        Proxy.parse(text)
    assert not text or text not in str(caught.value)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(Proxy.parse("http://me:secret@proxy:8080"))


def test_the_environment_names_no_proxy(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert connection_event(place.party("p1")) is ConnectionEvent.CONNECTED

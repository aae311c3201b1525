"""Who is hung up: connections that cost more than an honest party's, and no others."""

from __future__ import annotations

import os
import socket
import time

import pytest

from masquerade_core.errors import BadInput
from masquerade_host.channel import MAX_CONNECTIONS, MAX_MESSAGE, QUEUE
from masquerade_host.transport import connection_limits
from masquerade_host.transport.connection_limits import (
    UNFINISHED,
    Connection,
    ConnectionLimits,
    check_descriptors,
    too_costly,
)
from tests.messages import sentence


def connection(fd: int, since: float = 0.0, *, name: str = "", host: str = "a", read: int = 0) -> Connection:
    return Connection(fd, host, since, spoke=since if name else 0.0, name=name, read=read)


def chosen(connections: list[Connection], now: float = 10.0, most: int = 100) -> list[int]:
    return [c.fd for c in too_costly(connections, now, most)]


def test_what_an_honest_party_may_leave_unread_is_allowed() -> None:
    assert UNFINISHED > (QUEUE + 1) * MAX_MESSAGE
    assert chosen([connection(1, name="p1", read=UNFINISHED)]) == []


def test_too_much_unfinished_is_hung_up() -> None:
    assert chosen([connection(1, name="p1", read=UNFINISHED + 1), connection(2, 9.0, read=UNFINISHED + 1)]) == [1, 2]


def test_who_does_not_speak_in_time_is_hung_up() -> None:
    assert chosen([connection(1, name="p1"), connection(2), connection(3, 1.0)], now=15.5) == [2]


def test_a_party_keeps_its_last_connections() -> None:
    many = [connection(i, float(i), name="p1") for i in range(MAX_CONNECTIONS + 2)]
    assert chosen([*many, connection(99, name="p2")]) == [1, 0]


def test_of_too_many_the_oldest_silent_ones_of_the_greediest_address_go() -> None:
    flood = [connection(i, float(i)) for i in range(10)]
    others = [connection(20, host="b"), connection(21, host="b"), connection(30, name="p1")]
    assert chosen([*flood, *others], most=10) == [0, 1, 2]
    assert chosen([*flood, *others], most=3) == [*range(9), 20]  # when the flood has one left, b has the most
    assert 30 not in chosen([*flood, *others], most=0)


@pytest.fixture
def pair() -> tuple[socket.socket, socket.socket, socket.socket]:
    """A listener, an accepted connection, and its other end."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    return server, server.accept()[0], client


def test_it_counts_what_was_read_and_hangs_up_the_connection_of_its_port_alone(
    pair: tuple[socket.socket, socket.socket, socket.socket],
) -> None:
    server, accepted, client = pair
    other, far = socket.socketpair()
    connection_limits = ConnectionLimits(server.getsockname()[1])
    client.sendall(bytes(100_000))
    accepted.recv(50_000, socket.MSG_WAITALL)
    now = time.monotonic()
    connection_limits.look(now)
    [found] = connection_limits._known.values()
    assert (found.fd, found.host, found.read, found.name) == (accepted.fileno(), "127.0.0.1", 50_000, "")
    accepted.recv(50_000, socket.MSG_WAITALL)
    connection_limits.spoke(accepted.fileno(), "p1", b"way")
    connection_limits.look(now)
    assert (found.name, found.mark) == ("p1", 100_000)
    for _ in range(2 * UNFINISHED // 100_000):
        client.sendall(bytes(100_000))
        accepted.recv(100_000, socket.MSG_WAITALL)
    connection_limits.look(now)
    assert connection_limits.hung_up == 1
    assert accepted.recv(1) == b""
    far.sendall(b"untouched")
    assert other.recv(9) == b"untouched"
    for sock in (server, accepted, client, other, far):
        sock.close()


def test_it_works_where_no_descriptor_is_left(
    pair: tuple[socket.socket, socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, accepted, client = pair

    def no_descriptor_left(_path: str) -> list[str]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "listdir", no_descriptor_left)
    connection_limits = ConnectionLimits(server.getsockname()[1])
    connection_limits.look(0.0)
    connection_limits.look(20.0)
    assert connection_limits.hung_up == 1
    assert client.recv(1) == b""
    for sock in (server, accepted, client):
        sock.close()


def test_charlie_says_at_once_how_many_files_so_many_parties_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _which: (1024, 4096))
    check_descriptors(448)
    with pytest.raises(BadInput) as caught:
        check_descriptors(449)
    assert caught.value.message == sentence("files_too_few", "1,024", 449, "1,026")
    assert caught.value.hint.endswith("ulimit -n 1026")


def test_listed_parties_have_room_beside_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _which: (65_536, 65_536))
    assert ConnectionLimits(1, 1000)._most == 3024
    assert ConnectionLimits(1)._most == 1024


def test_of_many_connections_each_is_looked_at_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A party that floods is hung up within ten looks; the others, of whom messages come, never are."""
    read = dict.fromkeys(range(200), 0)
    hung_up: list[int] = []

    def note(fd: int, _inode: int) -> int:
        hung_up.append(fd)
        return 1

    monkeypatch.setattr(connection_limits, "_descriptors", lambda: list(read))
    monkeypatch.setattr(connection_limits, "_inode", lambda fd: fd)
    monkeypatch.setattr(connection_limits, "_look_at", lambda fd, _port: ("a", read[fd]))
    monkeypatch.setattr(connection_limits, "_hang_up", note)
    watching = ConnectionLimits(1, 200)
    for fd in read:
        watching.spoke(fd, f"p{fd}", b"%d" % fd)
    watching.look(0.0)
    for turn in range(12):
        for fd in read:
            read[fd] += UNFINISHED // 4 if fd != 77 else UNFINISHED
            if fd != 77:
                watching.spoke(fd, f"p{fd}", b"%d" % fd)
        watching.look(0.1 * turn)
    assert set(hung_up) == {77}

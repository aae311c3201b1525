"""The network before the day: Charlie's listener, and what a site's doctor says of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from masquerade import network_checks
from masquerade.checks import Verdict
from masquerade.network_checks import descriptors, network
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE
from masquerade_host.transport.rehearsal import rehearse
from tests.host_helpers import World, new_keys
from tests.messages import raises, says, sentence
from tests.unit.host.transport.test_proxy import TinyProxy
from tests.unit.host.transport.test_transport import until


class Rehearsal:
    """Charlie's listener, in a thread."""

    def __init__(self) -> None:
        self.world = World.new(2)
        self.lines: list[str] = []
        self.came: list[tuple[str, ...]] = []
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert until(lambda: self.lines)

    def _run(self) -> None:
        world = self.world
        self.came.append(rehearse(world.study, world.keys[CHARLIE], self.lines.append, over=lambda: self._over))

    def end(self) -> tuple[str, ...]:
        """End it, if it still listens, and return who came."""
        self._over = True
        self._thread.join()
        return self.came[0]


@pytest.fixture
def rehearsal() -> Iterator[Rehearsal]:
    """A listener."""
    rehearsal = Rehearsal()
    yield rehearsal
    rehearsal.end()


def test_a_site_sees_the_port_the_key_and_that_it_is_admitted_and_the_coordinator_sees_the_site(
    rehearsal: Rehearsal,
) -> None:
    world = rehearsal.world
    check = network(world.study, "p1", world.keys["p1"])
    assert (check.verdict, check.message) == (
        Verdict.OK,
        f"{sentence('charlie_answers', world.study.address)}; it admits p1",
    )
    assert until(lambda: len(rehearsal.lines) > 1)
    assert rehearsal.lines[1] == sentence("reached_port", "p1", sentence("not_yet", "p2"))
    tiny = TinyProxy("http")
    assert network(world.study, "p2", world.keys["p2"], tiny.proxy()).verdict is Verdict.OK
    tiny.close()
    assert until(lambda: rehearsal.came) == [("p1", "p2")]


def test_a_key_that_the_listener_does_not_know_is_told_at_both_ends(rehearsal: Rehearsal) -> None:
    stranger = new_keys()
    world = rehearsal.world
    check = network(world.changed(str(world.keys["p1"].public), str(stranger.public)), "p1", stranger)
    assert check.verdict is Verdict.FAIL
    assert says(check.message, "not_admitted", ..., "p1")
    assert until(lambda: len(rehearsal.lines) > 1)
    assert rehearsal.lines[1] == sentence("keys_of_strangers", "1 connection")
    assert rehearsal.end() == ()


def test_without_a_key_nobody_is_admitted_and_the_port_is_seen_to_be_open(rehearsal: Rehearsal) -> None:
    check = network(rehearsal.world.study, None, None)
    assert (check.verdict, says(check.message, "charlie_answers", ...)) == (Verdict.OK, True)
    assert len(rehearsal.lines) == 1


def test_a_listener_with_another_key_is_not_charlie(rehearsal: Rehearsal) -> None:
    world = rehearsal.world
    study = world.changed(str(world.keys[CHARLIE].public), str(new_keys().public))
    check = network(study, "p1", world.keys["p1"])
    assert (check.verdict, says(check.message, "charlies_key_missing", ...)) == (Verdict.FAIL, True)


def test_only_charlie_listens() -> None:
    world = World.new(2)
    with raises(BadInput, "only_charlie_listens"):
        rehearse(world.study, world.keys["p1"], print)


def test_a_blocked_port_and_a_proxy_that_says_no_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.new(2)
    tiny = TinyProxy("http", b"HTTP/1.1 403 Forbidden\r\n\r\n")
    check = network(world.study, "p1", world.keys["p1"], tiny.proxy())
    assert (check.verdict, says(check.message, "proxy_forbids", ...)) == (Verdict.FAIL, True)
    tiny.close()

    def dropped(*_args: Any, **_kwargs: Any) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", dropped)
    check = network(world.study, "p1", world.keys["p1"])
    assert (check.verdict, "firewall" in check.hint) == (Verdict.WARN, True)


@pytest.mark.parametrize(
    ("me", "most", "verdict"),
    [(CHARLIE, 4096, "ok"), (CHARLIE, 4095, "warn"), ("p1", 256, "ok"), ("p1", 255, "warn"), (None, 1024, "ok")],
)
def test_file_descriptors_are_counted(me: str | None, most: int, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_checks, "allow_descriptors", lambda: most)
    check = descriptors(me)
    assert check.verdict == verdict
    assert ("LimitNOFILE" in check.hint) == (verdict == "warn")

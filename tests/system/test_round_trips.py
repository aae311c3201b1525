"""A masked sum takes one round trip: measured between processes, through a relay that makes the way long."""

from __future__ import annotations

import socket
import threading
import time
from statistics import median

import pytest
from benchmarks import wall
from benchmarks.relay import DelayingRelay

pytestmark = pytest.mark.alone

ROUNDS, TURNS = 20, 4


def _fastest_median(trip: float, enough: float) -> float:
    """The median of 20 rounds; another turn, up to four, where other work on this machine has lengthened them."""
    found = float("inf")
    for _ in range(TURNS):
        found = min(found, median(wall.processes_seconds(5, ROUNDS, d=123, bits=2048, masks=True, trip=trip)))
        if found <= enough:
            break
    return found


@pytest.mark.parametrize(("trip", "most"), [(0.05, 1.3), (0.1, 1.15)])
def test_a_masked_sum_takes_little_more_than_a_round_trip(trip: float, most: float) -> None:
    found = _fastest_median(trip, most * trip)
    assert trip <= found <= most * trip


def test_a_sum_by_paillier_takes_two() -> None:
    """The test above can fail: here the lead has to open the total in between."""
    assert median(wall.processes_seconds(5, ROUNDS, d=123, bits=2048, trip=0.05)) >= 2 * 0.05


def test_the_relay_delays_both_directions() -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        near, _ = server.accept()
        with near:
            while data := near.recv(100):
                near.sendall(data)

    echoing = threading.Thread(target=echo, daemon=True)
    echoing.start()
    with (
        server,
        DelayingRelay(server.getsockname()[1], 0.1) as relay,
        socket.create_connection(("127.0.0.1", relay.port)) as sock,
    ):
        start = time.monotonic()
        for _ in range(2):  # one after the other
            sock.sendall(b"ping")
            assert sock.recv(4) == b"ping"
        assert 0.4 <= time.monotonic() - start < 3
    echoing.join(5)

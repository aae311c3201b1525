"""Metrics for a monitoring system: numbers that tell nothing about records, and whether the process is alive."""

import contextlib
import http.client
import io
import re
import socket
import sys
import time
from collections.abc import Iterator
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from masquerade_core.errors import BadInput
from masquerade_host.process import metrics as module
from masquerade_host.process.metrics import STALE, Metrics, address_of, serving
from masquerade_host.process.process import Reporting, reporting
from masquerade_host.transport.interface import ConnectionEvent
from tests.face_helpers import Shell
from tests.host_helpers import World
from tests.messages import raises, says, sentence
from tests.wired import Clock, Wired

PER_RUN = {
    "masquerade_bytes_total",
    "masquerade_charlie_silent_seconds",
    "masquerade_connected",
    "masquerade_connections_lost_total",
    "masquerade_frames_total",
    "masquerade_info",
    "masquerade_participants_waited_for",
    "masquerade_parties_here",
    "masquerade_rounds_done",
    "masquerade_rounds_planned",
    "masquerade_seconds_since_step",
    "masquerade_strangers_total",
    "masquerade_waiting_seconds",
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> Metrics:
    return Metrics(clock)


def values(metrics: Metrics) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def fetch(address: str, path: str) -> tuple[int, str]:
    try:
        with urlopen(address.removesuffix("/metrics") + path, timeout=10) as answer:  # noqa: S310  our own server
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


# --- Numbers ------------------------------------------------------------------------


def test_the_numbers_are_these_and_no_others(metrics: Metrics) -> None:
    assert set(values(metrics)) == PER_RUN


def test_numbers_follow_the_events(metrics: Metrics) -> None:
    metrics("connected", party="p1", joined=2, parties=3)
    metrics("stranger", count=4)
    metrics("traffic", messages=3, bytes=100, waited_for="p1, p2", seconds=1.5, silence=0.5)
    metrics("traffic", messages=5, bytes=130, waited_for="p2", seconds=2.5, silence=2.0)
    metrics("progress", done=7, total=20)
    metrics("cut_off", address="tcp://charlie:5555")
    assert (
        values(metrics).items()
        >= {
            "masquerade_frames_total": 5.0,
            "masquerade_bytes_total": 130.0,
            "masquerade_rounds_done": 7.0,
            "masquerade_rounds_planned": 20.0,
            "masquerade_parties_here": 2.0,
            "masquerade_participants_waited_for": 1.0,
            "masquerade_waiting_seconds": 2.5,
            "masquerade_charlie_silent_seconds": 2.0,
            "masquerade_connections_lost_total": 1.0,
            "masquerade_connected": 0.0,
            "masquerade_strangers_total": 4.0,
        }.items()
    )
    metrics("joined", parties=3)
    metrics("connected", party="p1")
    assert (values(metrics)["masquerade_parties_here"], values(metrics)["masquerade_connected"]) == (3.0, 1.0)


def test_events_about_records_and_times_before_the_join_leave_no_trace(metrics: Metrics) -> None:
    before = values(metrics)
    metrics("repaired", clamped=17, filled=23)
    metrics("one_class")
    metrics("same_answer")
    metrics("stage", name="training")
    metrics("stage_done", name="training", seconds=17.0, messages=0, bytes=0)
    assert values(metrics) == before


def test_a_session_feeds_them(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wired, "_observer", lambda _self, name: metrics if name == "p1" else lambda *_, **__: None)
    wired = Wired(World.new(3, port=5555))
    wired.join()
    wired.say("p1")
    wired.pump(10, seconds=1.0)
    found = values(metrics)
    assert found["masquerade_frames_total"] == wired.parties["p1"].stats.messages > 2
    assert found["masquerade_bytes_total"] == wired.parties["p1"].stats.bytes
    assert (found["masquerade_parties_here"], found["masquerade_connected"]) == (3.0, 1.0)
    assert found["masquerade_charlie_silent_seconds"] <= 2.0
    wired.charlie.closed = True  # he takes no further step
    wired.pump(20, seconds=1.0)
    assert values(metrics)["masquerade_charlie_silent_seconds"] == pytest.approx(20.0, abs=3.0)
    wired.links["p1"].events.append(ConnectionEvent.LOST)
    wired.pump(1)
    assert values(metrics)["masquerade_connections_lost_total"] == 1.0
    assert values(metrics)["masquerade_connected"] == 0.0
    wired.links["p1"].events.append(ConnectionEvent.CONNECTED)
    wired.pump(1)
    assert values(metrics)["masquerade_connected"] == 1.0


# --- Health -------------------------------------------------------------------------


def test_a_process_is_well_while_the_thread_of_the_sockets_steps(metrics: Metrics, clock: Clock) -> None:
    well, words = metrics.health()
    assert (well, says(words, "run_not_begun")) == (False, True)
    metrics("stage", name="training")  # an event of another thread's would not do
    assert metrics.health()[0] is False
    metrics("traffic", messages=0, bytes=0)
    clock.now += STALE
    assert metrics.health() == (True, "ok")
    clock.now += 1.0
    well, words = metrics.health()
    assert (well, words) == (False, sentence("sockets_thread_stuck", 16, 15))


def test_a_session_s_step_is_a_sign_of_life_often_enough(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before the join, while a role trains, and in studies with long deadlines."""
    monkeypatch.setattr(Wired, "_observer", lambda _self, name: metrics if name == "p1" else lambda *_, **__: None)
    wired = Wired(World.new(3, deadline=86_400.0, port=5555))
    metrics._clock = wired.clock
    for _ in range(40):
        wired.pump(1, seconds=1.0)
        assert metrics.health()[0]


# --- The server ---------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[tuple[Metrics, str]]:
    with serving("0") as (observe, address):
        assert isinstance(observe, Metrics)
        yield observe, address


def test_the_numbers_are_served_as_prometheus_reads_them(served: tuple[Metrics, str]) -> None:
    metrics, address = served
    metrics("traffic", messages=3, bytes=100)
    status, text = fetch(address, "/metrics")
    assert status == 200
    assert "masquerade_frames_total 3.0\n" in text
    assert set(re.findall(r"^# TYPE (\w+) ", text, flags=re.MULTILINE)) >= PER_RUN - {"masquerade_info"}
    assert "process_" not in text
    assert "python_" not in text


def test_health_has_the_status_that_a_supervisor_looks_at(served: tuple[Metrics, str]) -> None:
    metrics, address = served
    assert fetch(address, "/healthz")[0] == 503
    metrics("traffic", messages=3, bytes=100)
    assert fetch(address, "/healthz") == (200, "ok\n")
    metrics._stepped = time.monotonic() - 60
    assert fetch(address, "/healthz")[0] == 503
    assert fetch(address, "/")[0] == 404


def test_a_port_alone_is_of_this_machine_alone(served: tuple[Metrics, str]) -> None:
    assert urlsplit(served[1]).hostname == "127.0.0.1"


def idle(address: str, count: int) -> contextlib.ExitStack:
    """Open connections that ask nothing; the last one is turned away at once, while the others are still waited for."""
    where = (str(urlsplit(address).hostname), urlsplit(address).port)
    stack = contextlib.ExitStack()
    opened = [stack.enter_context(socket.create_connection(where, timeout=10)) for _ in range(count)]
    if count > module._MOST_CONNECTIONS:
        assert opened[-1].recv(1) == b""
    return stack


def answers_again(address: str) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            assert fetch(address, "/healthz")[0] == 503
        except (OSError, http.client.HTTPException):
            assert time.monotonic() < until
        else:
            return


def test_connections_that_ask_nothing_are_bounded(served: tuple[Metrics, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 600)
    with idle(served[1], module._MOST_CONNECTIONS + 4):
        pass
    answers_again(served[1])


def test_connections_that_ask_nothing_are_closed(served: tuple[Metrics, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 0.2)
    with idle(served[1], module._MOST_CONNECTIONS):
        answers_again(served[1])


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("localhost:9464", ("127.0.0.1", 9464)),
        ("192.0.2.7:9464", ("192.0.2.7", 9464)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize(
    "text", ["", ":9464", "x:9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "-1", "1.5", "²", "٩٤٦٤"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with raises(BadInput, "metrics_address_refused", ...):
        address_of(text)


def test_a_port_that_is_taken_is_bad_input(served: tuple[Metrics, str]) -> None:
    with raises(BadInput, "metrics_port_in_use"), serving(str(urlsplit(served[1]).port)):
        raise AssertionError


def test_without_the_prometheus_client_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with raises(BadInput, "metrics_package_missing") as caught:
        Metrics()
    assert "masquerade[metrics]" in caught.value.hint


def test_a_run_s_report_serves_them_and_says_where() -> None:
    err = io.StringIO()
    with reporting(Reporting(metrics="0"), err) as observe:
        (address,) = re.findall(r"Metrics are at (http://127.0.0.1:\d+/metrics)\.", err.getvalue())
        observe("traffic", messages=3, bytes=100)
        assert "masquerade_frames_total 3.0\n" in fetch(address, "/metrics")[1]
    with pytest.raises(URLError) as caught:
        fetch(address, "/metrics")
    assert isinstance(caught.value.reason, ConnectionRefusedError)


@pytest.mark.parametrize("command", ["party", "curator"])
def test_both_processes_have_the_option(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("masquerade_host.process.process.harden", lambda: None)
    more = ["--data", "d"] if command == "party" else []
    answer = Shell(capsys)(command, "no.toml", "--key", "k", "--metrics", "everywhere", *more)
    assert (answer.code, says(answer.err, "metrics_address_refused", "'everywhere'")) == (4, True)

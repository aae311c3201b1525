"""Metrics of a running process for a monitoring system: numbers for Prometheus, and whether the process is alive.

The numbers are those that every participant of the run may know, or that only tell of connections. The default
collectors of the Prometheus client are left out: the processor time and the memory of a process depend on how many
records it has. For the same reason nothing is counted before the join but whether the process is alive.
"""

import contextlib
import ipaddress
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

from masquerade_core import __version__
from masquerade_core.errors import BadInput
from masquerade_host.process.progress import Observer

__all__ = ["Metrics", "address_of", "serving"]

STALE = 15.0
"""Seconds without a step of the thread that serves the sockets, after which a process counts as stuck."""

_LOOPBACK = "127.0.0.1"
_MOST_CONNECTIONS = 16
_PATIENCE = 5.0  # seconds for a request to arrive
_PLAIN = "text/plain; charset=utf-8"


def address_of(text: str) -> tuple[str, int]:
    """Read ``PORT``, ``ADDRESS:PORT`` or ``[ADDRESS]:PORT``; without an address it is this machine's own, 127.0.0.1.

    Raises
    ------
    BadInput
        It is none of these.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else _LOOPBACK
    try:
        address = str(ipaddress.ip_address("127.0.0.1" if host == "localhost" else host))
        if not (port.isascii() and port.isdigit() and 0 <= int(port) <= 65535):  # noqa: PLR2004  the largest port
            raise ValueError  # noqa: TRY301
    except ValueError:
        raise BadInput(
            f"--metrics is {text!r}, but must be PORT or ADDRESS:PORT, where ADDRESS is a numeric address of this "
            "machine",
            "write 9464, for example, which only programs on this machine can reach",
        ) from None
    return address, int(port)


class Metrics:
    """An observer that keeps the numbers.

    Parameters
    ----------
    clock : callable
        Seconds, monotonic.

    Raises
    ------
    BadInput
        The Prometheus client is not installed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge
        except ImportError as error:
            raise BadInput(
                "--metrics needs the package prometheus-client, which is not installed",
                "install it: pip install 'masquerade[metrics]'",
            ) from error
        self._clock = clock
        self._stepped: float | None = None
        self.registry = CollectorRegistry(auto_describe=True)

        def gauge(name: str, words: str) -> Gauge:
            return Gauge(f"masquerade_{name}", words, registry=self.registry)

        def counter(name: str, words: str) -> Counter:
            return Counter(f"masquerade_{name}", words, registry=self.registry)

        info = Gauge("masquerade_info", "Always 1.", ["version"], registry=self.registry)
        info.labels(__version__).set(1)
        gauge("seconds_since_step", "Time since the socket thread last ran.").set_function(self._since_step)
        self._done = gauge("rounds_done", "Rounds that are finished.")
        self._planned = gauge("rounds_planned", "Number of rounds in the stage.")
        self._here = gauge("parties_here", "At Charlie: parties that have joined.")
        self._waited_for = gauge("participants_waited_for", "Participants whom this one waits for.")
        self._waiting = gauge("waiting_seconds", "How long it has waited for them.")
        self._silence = gauge("charlie_silent_seconds", "At a party: time since the last frame from Charlie.")
        self._connected = gauge("connected", "At a party: 1 while there is a connection to Charlie.")
        self._lost = counter("connections_lost", "Connections that broke.")
        self._strangers = counter("strangers", "At Charlie: connections whose key is not in the study.")
        self._frames = counter("frames", "Frames sent and received.")
        self._bytes = counter("bytes", "Bytes of these frames.")
        self._counted = {"messages": 0.0, "bytes": 0.0}

    def __call__(self, event: str, /, **fields: str | float) -> None:
        """Take one event."""
        match event:
            case "progress":
                self._done.set(float(fields["done"]))
                self._planned.set(float(fields["total"]))
            case "traffic":
                self._stepped = self._clock()
                self._take_traffic(fields)
            case "connected":
                self._connected.set(1)
                if "joined" in fields:
                    self._here.set(float(fields["joined"]))
            case "reconnected":
                self._connected.set(1)
            case "joined":
                self._here.set(float(fields["parties"]))
            case "cut_off" | "left":
                self._lost.inc()
                self._connected.set(0)
            case "stranger":
                self._strangers.inc(float(fields["count"]))

    def _take_traffic(self, fields: dict[str, str | float]) -> None:
        for name, counter in (("messages", self._frames), ("bytes", self._bytes)):
            now = float(fields[name])
            counter.inc(max(0.0, now - self._counted[name]))
            self._counted[name] = now
        self._waited_for.set(len([name for name in str(fields.get("waited_for", "")).split(", ") if name]))
        self._waiting.set(float(fields.get("seconds", 0.0)))
        self._silence.set(float(fields.get("silence", 0.0)))

    def _since_step(self) -> float:
        return -1.0 if self._stepped is None else self._clock() - self._stepped

    def health(self) -> tuple[bool, str]:
        """Say whether the run goes on, and why not."""
        if self._stepped is None:
            return False, "the run has not begun: this process reads its files, or waits for approval"
        if (since := self._since_step()) > STALE:
            return False, f"the socket thread has not run for {since:.0f} seconds; at most {STALE:g} are allowed"
        return True, "ok"


class _Handler(BaseHTTPRequestHandler):
    """Answers ``/metrics`` and ``/healthz``."""

    metrics: Metrics
    timeout = _PATIENCE
    server_version = "masquerade"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request."""
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(200, generate_latest(self.metrics.registry), CONTENT_TYPE_LATEST)
            case "/healthz":
                well, words = self.metrics.health()
                self._answer(200 if well else 503, f"{words}\n".encode())
            case _:
                self._answer(404, b"there are /metrics and /healthz\n")

    def _answer(self, status: int, body: bytes, kind: str = _PLAIN) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the log is the run's."""


class _Server(socketserver.ThreadingTCPServer):
    """A server with a bounded number of threads. http.server's own would look for this machine's name in the DNS."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, unless too many are busy."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a client that went away."""


@contextlib.contextmanager
def serving(address: str) -> Iterator[tuple[Observer, str]]:
    """Answer a monitoring system for the time of this block; return the observer that feeds it, and the address.

    Parameters
    ----------
    address : str
        As :func:`address_of` reads it; port 0 is any free one.

    Raises
    ------
    BadInput
        The address is none, nothing can listen there, or the Prometheus client is not installed.
    """
    place = address_of(address)
    metrics = Metrics()
    try:
        server = _Server(place, type("_BoundHandler", (_Handler,), {"metrics": metrics}))
    except OSError as error:
        raise BadInput(
            f"nothing can listen at {address} for --metrics: {error.strerror}", "choose another port or address"
        ) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics", daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    shown = f"[{host!s}]" if ":" in str(host) else str(host)
    try:
        yield metrics, f"http://{shown}:{port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Whether this machine is ready for a study: each check one line, and what to do where it fails."""

import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import gmpy2

from masquerade_core.data.auxiliary import load_study
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import MasqueradeError
from masquerade_core.study import CHARLIE, Study
from masquerade_host.dialer import speaks_curve
from masquerade_host.keyfiles import load_keys
from masquerade_protocols import protocol_of

__all__ = ["Check", "Verdict", "examine"]

_SLOW = 0.1  # seconds for one exponentiation
_TIMEOUT = 2.0  # seconds for somebody to answer


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One line.

    Parameters
    ----------
    name : str
        What was looked at.
    verdict : Verdict
    message : str
        What was seen.
    hint : str
        What to do about it.
    """

    name: str
    verdict: Verdict
    message: str
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value."""
        return {**asdict(self), "verdict": str(self.verdict)}


def examine(study_file: Path, *, key: Path | None = None, data: Path | None = None) -> Iterator[Check]:
    """Look at a study, and at what a participant would bring to it; nothing is sent to anybody.

    Parameters
    ----------
    study_file : Path
    key : Path, optional
        The participant's secret keys.
    data : Path, optional
        A party's records.
    """
    try:
        study, _ = load_study(study_file)
        protocol = protocol_of(study)
    except MasqueradeError as error:
        yield _failed("study", error)
        return
    yield Check("study", Verdict.OK, f"{protocol.name}, {study.K} parties, epsilon = {study.privacy.epsilon:g}")
    yield _arithmetic(study)
    me: str | None = None
    if key is not None:
        try:
            me = study.name_of(load_keys(key).public)
            role = "Charlie" if me == CHARLIE else f"{me}, the lead" if me == study.lead else me
            yield Check("key", Verdict.OK, f"you are {role}; nobody else can read {key}")
        except MasqueradeError as error:
            yield _failed("key", error)
    if data is not None:
        yield _records(data, study)
    yield _network(study, me)
    yield Check(
        "budget", Verdict.NOTE, "no record is kept of what earlier runs over these records have cost: add it up"
    )


def _failed(name: str, error: MasqueradeError) -> Check:
    return Check(name, Verdict.FAIL, error.message, error.hint)


def _arithmetic(study: Study) -> Check:
    """Time the one operation that a run consists of."""
    bits = study.crypto.key_bits
    n = gmpy2.mpz(secrets.randbits(bits) | 1 << (bits - 1) | 1)
    base = gmpy2.mpz(secrets.randbits(2 * bits)) % (n * n)
    began = time.perf_counter()
    gmpy2.powmod(base, n, n * n)
    seconds = time.perf_counter() - began
    total = seconds * protocol_of(study).cost(study).exponentiations
    version = f"gmpy2 {gmpy2.version()} with {gmpy2.mp_version()}"
    words = f"{version}: {seconds * 1000:.0f} ms for an exponentiation, about {total:.1f} s for everybody's together"
    if seconds > _SLOW:
        return Check("arithmetic", Verdict.WARN, words, "this machine is slow or busy; the study's deadline may pass")
    return Check("arithmetic", Verdict.OK, words)


def _records(path: Path, study: Study) -> Check:
    try:
        load_csv(path, study)
    except MasqueradeError as error:
        return _failed("data", error)
    return Check("data", Verdict.OK, f"{path} has all columns, within bounds, both classes, and enough records")


def _network(study: Study, me: str | None) -> Check:
    """Look at the port from the side on which this participant stands."""
    host, _, port = study.address.removeprefix("tcp://").rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    except OSError:
        return Check(
            "network", Verdict.FAIL, f"the name {host} is not known here", "check the study's [curator] address"
        )
    if me == CHARLIE:
        return _can_listen(study.address, found)
    if speaks_curve(study.address):
        return Check("network", Verdict.OK, f"Charlie answers at {study.address}")
    try:
        with socket.create_connection((host, int(port)), timeout=_TIMEOUT):
            message = f"whoever answers at {study.address} is not Charlie"
            return Check("network", Verdict.FAIL, message, "another program listens there, or a proxy stands between")
    except ConnectionRefusedError:
        return Check(
            "network", Verdict.WARN, f"nobody listens at {study.address} yet", "Charlie has to be started first"
        )
    except OSError:
        return Check(
            "network", Verdict.WARN, f"{study.address} does not answer", "a firewall, or Charlie's machine is off"
        )


def _can_listen(address: str, found: Any) -> Check:
    family, kind, _, _, place = found
    try:
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        hint = "stop what listens there; or, behind address translation, listen elsewhere with --listen"
        return Check("network", Verdict.FAIL, f"you cannot listen at {address}: {error.strerror}", hint)
    if place[0].startswith("127.") or place[0] == "::1":
        return Check("network", Verdict.NOTE, f"you can listen at {address}, where only this machine's parties get")
    return Check("network", Verdict.OK, f"you can listen at {address}")

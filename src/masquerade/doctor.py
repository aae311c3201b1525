"""The doctor: is this machine ready for a study? Each check is one line, with what to do if it fails."""

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
    """The result of a check."""

    OK = "ok"
    NOTE = "note"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Check:
    """One check's line.

    Parameters
    ----------
    name : str
        The subject of the check.
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
    """Check a study, and the key and the records that a participant would bring to it. Nothing is sent to anybody.

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
            role = (
                "Charlie, the curator"
                if me == CHARLIE
                else f"{me}, the lead (the party with the secret key)"
                if me == study.lead
                else me
            )
            yield Check("key", Verdict.OK, f"you are {role}, and only you can read {key}")
        except MasqueradeError as error:
            yield _failed("key", error)
    if data is not None:
        yield _records(data, study)
    yield _network(study, me)
    yield Check(
        "budget",
        Verdict.NOTE,
        "the program does not know what earlier runs over these records have cost; the costs add up",
        "add the epsilons and deltas of all runs over these records yourself",
    )


def _failed(name: str, error: MasqueradeError) -> Check:
    return Check(name, Verdict.FAIL, error.message, error.hint)


def _arithmetic(study: Study) -> Check:
    """Time one modular exponentiation: a run consists of little else."""
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
        return Check(
            "arithmetic",
            Verdict.WARN,
            words,
            "this machine is slow or busy, so the deadline may pass: end other programs, or ask for a longer deadline",
        )
    return Check("arithmetic", Verdict.OK, words)


def _records(path: Path, study: Study) -> Check:
    try:
        load_csv(path, study)
    except MasqueradeError as error:
        return _failed("data", error)
    return Check(
        "data", Verdict.OK, f"{path} has all columns, values within bounds, two classes or more, and enough records"
    )


def _network(study: Study, me: str | None) -> Check:
    """Check Charlie's port: whether Charlie can listen there, or a party reach it."""
    host, _, port = study.address.removeprefix("tcp://").rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
    except OSError:
        return Check(
            "network",
            Verdict.FAIL,
            f"this machine does not know the name {host}",
            "check the study's [curator] address",
        )
    if me == CHARLIE:
        return _can_listen(study.address, found)
    if speaks_curve(study.address):
        return Check("network", Verdict.OK, f"Charlie answers at {study.address}")
    try:
        with socket.create_connection((host, int(port)), timeout=_TIMEOUT):
            message = f"a program answers at {study.address}, but it is not Charlie's"
            hint = "ask the coordinator whether another program or a proxy has that port"
            return Check("network", Verdict.FAIL, message, hint)
    except ConnectionRefusedError:
        return Check("network", Verdict.WARN, f"nobody listens at {study.address} yet", "Charlie has to start first")
    except OSError:
        return Check(
            "network",
            Verdict.WARN,
            f"{study.address} does not answer",
            "see whether Charlie's machine is on, and whether a firewall blocks the port",
        )


def _can_listen(address: str, found: Any) -> Check:
    family, kind, _, _, place = found
    try:
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        hint = "stop the program that listens there; or, behind address translation, listen elsewhere with --listen"
        return Check("network", Verdict.FAIL, f"you cannot listen at {address}: {error.strerror}", hint)
    if place[0].startswith("127.") or place[0] == "::1":
        return Check(
            "network", Verdict.NOTE, f"you can listen at {address}, but parties on other machines cannot reach it"
        )
    return Check("network", Verdict.OK, f"you can listen at {address}")

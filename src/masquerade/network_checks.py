"""The doctor's checks of the network: whether Charlie can listen, and whether a party reaches him."""

import socket
import time
from typing import Any

from masquerade.checks import Check, Verdict
from masquerade_core.study import CHARLIE, Study
from masquerade_host.process.process import allow_descriptors
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.dialer import Answer, PartySocket, probe
from masquerade_host.transport.interface import ConnectionEvent
from masquerade_host.transport.proxy import Proxy

__all__ = ["descriptors", "network"]

_TIMEOUT = 5.0  # seconds for a handshake
_ENOUGH = 4096  # file descriptors: at Charlie, half of them are for connections, a stranger's too
_ENOUGH_AT_A_PARTY = 256


def descriptors(me: str | None) -> Check:
    """Check how many file descriptors a process may have: each connection takes one."""
    most, enough = allow_descriptors(), _ENOUGH if me == CHARLIE else _ENOUGH_AT_A_PARTY
    found = f"a process may open {most:,} files and connections"
    if most >= enough:
        return Check("descriptors", Verdict.OK, found)
    whose = "Charlie" if me == CHARLIE else "a party"
    hint = f"raise the hard limit: 'ulimit -Hn {enough}', or LimitNOFILE={enough} in the systemd unit"
    return Check("descriptors", Verdict.WARN, f"{found}; {whose} should have {enough:,}", hint)


def network(study: Study, me: str | None, keys: Keys | None, proxy: Proxy | None = None) -> Check:
    """Check Charlie's address: Charlie has to be able to listen there, and a party to reach it.

    Parameters
    ----------
    study : Study
    me : str or None
        The participant, if its key is known.
    keys : Keys or None
        With them, a party also asks Charlie to admit it.
    proxy : Proxy, optional
        The party's way out. Then the proxy looks up Charlie's name.
    """
    if proxy is not None and me != CHARLIE:
        return _who_answers(study, me, keys, proxy)
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
    return _who_answers(study, me, keys, proxy)


def _who_answers(study: Study, me: str | None, keys: Keys | None, proxy: Proxy | None) -> Check:
    """Ask the server at Charlie's address to prove the study's key."""
    answer = probe(study.address, study.curator.key.curve, proxy)
    if answer is not Answer.CHARLIE:
        return _nobody(study.address, answer)
    message = f"the port is open, and a server with Charlie's key answers at {study.address}"
    if keys is None or me is None:
        return Check("network", Verdict.OK, message)
    match _admission(study, keys, proxy):
        case ConnectionEvent.CONNECTED:
            return Check("network", Verdict.OK, f"{message}; it admits {me}")
        case ConnectionEvent.DENIED:
            hint = "ask the coordinator whether that server has the same study, with your key in it"
            return Check("network", Verdict.FAIL, f"{message}; but it does not admit {me}", hint)
        case _:
            hint = "try again; Charlie may have too much to do"
            return Check("network", Verdict.WARN, f"{message}; but it did not complete the handshake", hint)


def _admission(study: Study, keys: Keys, proxy: Proxy | None) -> ConnectionEvent | None:
    """Connect as the party does in a run, and say nothing."""
    party = PartySocket(study.address, keys, study.curator.key.curve, proxy)
    try:
        end = time.monotonic() + _TIMEOUT
        while time.monotonic() < end:
            for event in party.connection_events():
                return event
            time.sleep(0.02)
        return None
    finally:
        party.close(0)


def _nobody(address: str, answer: Answer) -> Check:
    """Say what answers there instead of Charlie."""
    match answer:
        case Answer.OTHER_KEY:
            message = f"a server answers at {address}, but it does not have the key that Charlie has in this study"
            hint = "compare the fingerprint in 'masquerade study show' with the coordinator's, by telephone"
            return Check("network", Verdict.FAIL, message, hint)
        case Answer.FOREIGN:
            message = f"a program answers at {address}, but it is not Charlie's"
            hint = "ask the coordinator whether another program or a proxy has that port"
            return Check("network", Verdict.FAIL, message, hint)
        case Answer.REFUSED:
            hint = (
                "Charlie has to start first; before the day, the coordinator can run 'masquerade doctor STUDY --listen'"
            )
            return Check("network", Verdict.WARN, f"nobody listens at {address} yet", hint)
        case Answer.SILENT:
            message = f"a program answers at {address}, but it says nothing, so it is not Charlie's"
            hint = "ask the coordinator whether another program or a proxy has that port, or Charlie has too much to do"
            return Check("network", Verdict.FAIL, message, hint)
        case Answer.NOT_ALLOWED:
            message = f"the proxy does not allow a connection to {address}, or does not accept this user"
            hint = "ask the proxy's operator to allow CONNECT to that address and port; many allow port 443 only"
            return Check("network", Verdict.FAIL, message, hint)
        case _:
            hint = "see whether Charlie's machine is on, and whether a firewall blocks the port"
            return Check("network", Verdict.WARN, f"{address} does not answer", hint)


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

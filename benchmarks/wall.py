"""Wall time of a round between 1 + K processes over CURVE, and of the work that every such round needs.

``python -m benchmarks.wall WHO DIRECTORY`` is one participant: the program's own session, sockets and driver, with a
role that only adds up. It writes the times at which its rounds began to ``WHO.json``.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import zmq

from benchmarks.relay import DelayingRelay
from benchmarks.sums import adding, gradient_layout, gradient_study, multiplying, some_vector
from masquerade_core.crypto.paillier import SecretKey, ShortPool
from masquerade_core.privacy.accounting import target
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE, PublicKeys, Study
from masquerade_core.study_files import load_study
from masquerade_host.process.driver import run_role
from masquerade_host.process.progress import quiet
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.commits import Debits
from masquerade_host.session.party import PartySession
from masquerade_host.store.budget import give_budget
from masquerade_host.store.journal import SqliteJournal
from masquerade_host.store.keyfiles import Keys, load_keys
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.state import StateFolder
from masquerade_host.transport.dialer import PartySocket, probe
from masquerade_host.transport.sockets import CharlieSocket
from masquerade_protocols import protocol_of

__all__ = ["decryption_seconds", "mpyc_seconds", "processes_seconds", "round_trip_seconds"]

_PATIENCE = 240.0  # seconds, for any of the processes


# --- Our round --------------------------------------------------------------------------------------------------------


def _take_part(who: str, directory: Path) -> None:
    """Run one participant, and write its result to a file."""
    study, _ = load_study(directory / "study.toml")
    keys = load_keys(directory / f"{who}.key")
    rounds = json.loads((directory / "rounds.json").read_text())
    journal = SqliteJournal(directory / f"{who}-state", bytes(32)) if (directory / "durable").exists() else None
    if who == CHARLIE:
        roster = {party.name: party.key.curve for party in study.parties}
        host = CharlieSession(
            study,
            keys,
            lambda: CharlieSocket(study.address, keys, roster),
            version=protocol_of(study).version,
            observe=quiet,
        )
        run_role(multiplying(Seat(who, study.names), study, rounds), host, SystemRng(), journal=journal)
        return
    dialed = json.loads((directory / "dialed.json").read_text())
    session = PartySession(
        who,
        study,
        keys,
        lambda: PartySocket(dialed, keys, study.curator.key.curve),
        lambda: probe(dialed, study.curator.key.curve),
        version=protocol_of(study).version,
        observe=quiet,
        debits=None if journal is None else _debits(study, who, StateFolder(directory / f"{who}-state"), rounds),
    )
    role = adding(Seat(who, study.names), study, rounds, time.perf_counter)
    times, total = run_role(role, session, SystemRng(), journal=journal)
    (directory / f"{who}.json").write_text(json.dumps({"times": times, "total": total}))


def _debits(study: Study, who: str, folder: StateFolder, rounds: int) -> Debits:
    """Return a ledger's place for the debits of so many rounds."""
    ledger = give_budget(folder, "default", epsilon=10.0, delta=0.0, by="a benchmark")
    own = ledger.fingerprint(who)
    ledger.adopt(own, "default", by="a benchmark")
    spends = target(1e-6 * (rounds + 1), 0.0, gaussian=False)
    ledger.reserve(study, who, population="default", fingerprint=own, approved_by="a benchmark", spends=spends)
    ledger.start_attempt(study, who, own)
    return ledger.debits_for(study, who)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)


def processes_seconds(
    K: int,
    rounds: int,
    *,
    d: int,
    bits: int,
    masks: bool = False,
    slot: float | None = None,
    trip: float = 0.0,
    durable: bool = False,
) -> list[float]:
    """Return the wall seconds of each round of a secure sum between 1 + K processes, at the roster's first party.

    ``trip`` is the round-trip time in seconds between a party and Charlie, which a relay adds to this machine's own.

    With ``slot``, in seconds, what parties send leaves on the public schedule. With ``durable``, everybody keeps a
    journal, and each party a ledger that every round is debited in.

    Raises
    ------
    AssertionError
        A process failed, or the total is not the sum of the vectors.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        keys: dict[str, Keys] = {}

        def key_of(who: str) -> PublicKeys:
            keys[who] = make_keys(directory / f"{who}.key")
            return keys[who].public

        port = _free_port()
        address = f"tcp://127.0.0.1:{port}"
        study = gradient_study(K, d, rounds, bits=bits, masks=masks, slot=slot, address=address, key_of=key_of)
        (directory / "study.toml").write_text(study.to_toml())
        (directory / "rounds.json").write_text(json.dumps(rounds))
        if durable:
            (directory / "durable").touch()
        command = [sys.executable, "-m", "benchmarks.wall"]
        with DelayingRelay(port, trip / 2) as relay:
            dialed = f"tcp://127.0.0.1:{relay.port}" if trip else address
            (directory / "dialed.json").write_text(json.dumps(dialed))
            started = [subprocess.Popen([*command, CHARLIE, name])]  # noqa: S603  our own module
            if trip:
                _wait_for(port)  # a relay takes connections before Charlie does, and would break them
            started += [subprocess.Popen([*command, who, name]) for who in study.names]  # noqa: S603  our own modules
            try:
                codes = [process.wait(_PATIENCE) for process in started]
            finally:
                for process in started:
                    process.kill()
        assert not any(codes), f"a process of the benchmark ended with {codes}"
        said = {who: json.loads((directory / f"{who}.json").read_text()) for who in study.names}
        layout = gradient_layout(study)
        clear = [sum(c) for c in zip(*(some_vector(layout, who) for who in study.names), strict=True)]
        assert all(one["total"] == clear for one in said.values()), "a total differs from the sum without encryption"
        return [after - before for before, after in pairwise(said[study.names[0]]["times"])]


# --- What it is compared with -----------------------------------------------------------------------------------------


def decryption_seconds(secret: SecretKey, count: int, samples: int) -> list[float]:
    """Return the wall seconds in which ``count`` ciphertexts are decrypted, as the lead does it."""
    pool = ShortPool(secret.public, secret.public.short_obfuscators(SystemRng(), count))
    raw = [pool.encrypt(SystemRng().bits(1900), CHARLIE).use() for _ in range(count)]
    taken = []
    for _ in range(samples):
        ciphertexts = [secret.public.read(c, "nobody") for c in raw]
        start = time.perf_counter()
        for ciphertext in ciphertexts:
            secret.decrypt(ciphertext)
        taken.append(time.perf_counter() - start)
    return taken


def round_trip_seconds(request: int, reply: int, samples: int) -> list[float]:
    """Return the wall seconds of plain round trips over CURVE: so many bytes to another process and back."""
    address = f"tcp://127.0.0.1:{_free_port()}"
    server_key, server_secret = zmq.curve_keypair()
    command = [sys.executable, "-m", "benchmarks.wall", "echo", address, server_key.decode(), str(reply)]
    # The secret goes by the environment, as a key on a command line is everybody's to read.
    with subprocess.Popen(command, env={**os.environ, "ECHO_SECRET": server_secret.decode()}) as process:  # noqa: S603
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        sock = context.socket(zmq.DEALER)
        try:
            sock.linger = 0
            sock.rcvtimeo = 20_000
            sock.curve_publickey, sock.curve_secretkey = zmq.curve_keypair()
            sock.curve_serverkey = server_key
            sock.connect(address)
            data, taken = os.urandom(request), []
            for _ in range(samples + 1):
                start = time.perf_counter()
                sock.send(data)
                assert len(sock.recv()) == reply
                taken.append(time.perf_counter() - start)
            return taken[1:]  # the first one waited for the connection
        finally:
            process.kill()
            context.destroy(0)


def _echo(address: str, public: str, reply: int) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    sock = context.socket(zmq.ROUTER)
    sock.curve_server = True
    sock.curve_publickey, sock.curve_secretkey = public.encode(), os.environ["ECHO_SECRET"].encode()
    sock.bind(address)
    answer = os.urandom(reply)
    while True:
        route, _ = sock.recv_multipart()
        sock.send_multipart([route, answer])


def mpyc_seconds(K: int, rounds: int, d: int) -> list[float]:
    """Return the wall seconds of each round of MPyC's secure sum between K processes on this machine."""
    command = [sys.executable, "-m", "benchmarks.mpyc_sum", str(rounds), str(d), f"-M{K}", "--no-log"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)  # noqa: S603
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        _echo(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        _take_part(sys.argv[1], Path(sys.argv[2]))

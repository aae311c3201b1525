"""Real processes over real sockets: one run that succeeds, and every way in which one may fail."""

import base64
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from masquerade.cli import run as command
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import DeadlinePassed, MasqueradeError, ProtocolViolation, Reported, RunFailed
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Release, Seat, Send
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import encode
from masquerade_core.wire.faults import Abort, pack_abort
from masquerade_core.wire.frames import MAX_FRAME, Frame
from masquerade_host.process.driver import run_role
from masquerade_host.session.messages import Beat, Closed, pack_beat, read_beat
from masquerade_host.session.party import PartySession
from masquerade_host.session.states import Turn
from masquerade_host.store.new_keys import make_keys
from masquerade_host.transport.dialer import PartySocket, probe
from masquerade_protocols import protocol_of
from tests.messages import says, sentence
from tests.processes import ALWAYS, PARTYS, Ended, Machines, Participant


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """A study of three parties with a deadline that no slow machine misses."""
    machines = Machines.new(tmp_path)
    yield machines
    machines.close()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Machines]:
    """The same with a deadline of twelve seconds, for those who miss it on purpose."""
    machines = Machines.new(tmp_path, deadline=12.0)
    yield machines
    machines.close()


def nothing_is_left(machines: Machines) -> None:
    """No run directory, and no part of a file."""
    assert not list(machines.out("").rglob("*"))


class Insider:
    """An admitted party in this process: it joins as it should, and then does what a test wants.

    Parameters
    ----------
    misdeed : callable
        Gets the session, in its I/O thread's stead, once the roster is out; the role then waits for ever.
    """

    def __init__(self, machines: Machines, name: str, misdeed: Callable[[PartySession], None] | None = None) -> None:
        study, keys = machines.study, machines.keys[name]
        self.folder = machines.folder
        self.error: BaseException | None = None
        self._misdeed = misdeed
        self._over = threading.Event()
        self.session = PartySession(
            name,
            study,
            keys,
            lambda: PartySocket(study.address, keys, study.curator.key.curve),
            lambda: probe(study.address, study.curator.key.curve),
            version=protocol_of(study).version,
        )
        self._seat = Seat(name, study.names)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        begin = self.session.begin

        def hijacked(effect: Any) -> None:
            if isinstance(effect, Send) and self._misdeed is not None:
                self._misdeed(self.session)
            begin(effect)

        self.session.begin = hijacked  # type: ignore[method-assign]
        try:
            run_role(self._role(), self.session, SystemRng())
        except MasqueradeError as error:
            self.error = error

    async def _role(self) -> None:
        await self._seat.join()
        if self._misdeed is not None:
            await Send("message", "Nothing", (CHARLIE,), ())
        await self._seat.once("hold everybody up", lambda _rng: self._over.wait(600))

    def end(self) -> BaseException | None:
        """Wait for its end, and return what it raised."""
        self._thread.join(300)
        self._over.set()
        assert not self._thread.is_alive()
        return self.error


# --- A run ------------------------------------------------------------------------


def test_everybody_ends_with_the_same_model_and_a_whole_result(machines: Machines) -> None:
    processes = {CHARLIE: machines.start(CHARLIE, "--test", str(machines.folder / "test.csv"))}
    processes |= machines.start_all("p1", "p2", "p3")
    ended = {name: process.end() for name, process in processes.items()}
    assert {name: e.code for name, e in ended.items()} == dict.fromkeys(processes, 0), ended
    models, results = {}, {}
    for name in processes:
        assert {p.name for p in machines.out(name).iterdir()} == {
            "model.json",
            *ALWAYS,
            *(() if name == CHARLIE else PARTYS),
        }
        assert stat.S_IMODE((machines.out(name) / "result.json").stat().st_mode) & 0o777 == 0o666 & ~_umask() & 0o644
        models[name] = json.loads((machines.out(name) / "model.json").read_text())
        results[name] = json.loads((machines.out(name) / "result.json").read_text())
        assert results[name]["participant"] == name
        assert ended[name].events[-1] == {"event": "done", "result": str(machines.out(name) / "result.json")}
    assert all(model == models[CHARLIE] for model in models.values())
    assert command(["verify", *(str(machines.out(name)) for name in processes)]) == 0
    result = results[CHARLIE]
    assert (result["parties"], result["n_features"], result["epsilon"]) == (3, 1, 1.0)
    assert 0 <= result["metrics"]["test_error"] <= 1
    assert result["bytes"] == sum(results[name]["bytes"] for name in ("p1", "p2", "p3"))
    assert result["bytes"] == sum(stage["bytes"] for stage in result["stages"])
    assert result["statement"]
    joined = [event for event in ended[CHARLIE].events if event["event"] == "connected"]
    assert sorted(event["party"] for event in joined) == ["p1", "p2", "p3"]


def _umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value


def test_a_model_that_says_the_same_of_a_partys_own_records_tells_that_party_alone(machines: Machines) -> None:
    """p1 has records of one side alone, with labels at random. What the others learn tells p1's labels not apart."""
    rows = [f"{0.6 + i / 200:.3f},{i % 2}" for i in range(60)]
    (machines.folder / "p1.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    study = machines.write_study(changes={"epsilon = 1.0": "epsilon = 1000.0"})
    ended = {name: machines.start(name, study=study) for name in (CHARLIE, *machines.study.names)}
    told = {name: [event["event"] for event in process.end().events] for name, process in ended.items()}
    assert told["p1"][-2:] == ["same_answer", "done"]
    assert not any("same_answer" in events for name, events in told.items() if name != "p1")
    for name in told:
        assert "same_answer" not in "".join(path.read_text() for path in machines.out(name).iterdir())


_FIELDS = {"event", "party", "name", "address", "seconds", "messages", "bytes", "joined", "parties", "result"}


def test_nothing_secret_is_said(machines: Machines) -> None:
    processes = machines.start_all()
    for process in processes.values():
        assert process.end().code == 0
    words = "".join("".join(p.lines) + "".join(p._stderr) for p in processes.values())
    for name, keys in machines.keys.items():
        assert base64.b64encode(keys.curve).decode()[:10] not in words
        assert keys.curve.hex()[:16] not in words
        records = (machines.folder / f"{name}.csv").read_text().split() if name != CHARLIE else []
        untimed = re.sub(r'"seconds": [\d.e-]+', "", words)  # a time may be anybody's number, by chance
        assert not [record for record in records[1:] if record.partition(",")[0] in untimed]
    for event in (event for p in processes.values() for event in p.events):
        if event["event"] == "paid":  # a site's own budget, for which no record was looked at
            assert set(event) == {"event", "epsilon", "population", "left"}
            continue
        # Every party has 60 records; no count of anything may be that by name or place.
        assert set(event) <= {
            "event",
            "party",
            "name",
            "address",
            "seconds",
            "messages",
            "bytes",
            "joined",
            "parties",
            "waited_for",
        } | {"result"}


# --- What is refused at home --------------------------------------------------------


def refused(process: Participant, code: int, *words: str) -> Ended:
    ended = process.end()
    assert ended.code == code, ended
    told = ended.error["message"] + " " + ended.error["hint"]
    for word in words:
        assert word in told
    assert "connecting" not in [event["event"] for event in ended.events]
    return ended


def test_a_key_that_is_not_in_the_study_is_refused_at_home_with_its_fingerprint(machines: Machines) -> None:
    stranger = make_keys(machines.folder / "stranger.key")
    process = machines.start("p1", key=machines.folder / "stranger.key")
    refused(process, 4, stranger.public.fingerprint())
    nothing_is_left(machines)


def test_a_key_file_that_others_can_read(machines: Machines) -> None:
    for name in ("p1", CHARLIE):
        path = machines.folder / "keys" / f"{name}.key"
        path.chmod(0o644)
        refused(machines.start(name), 4, "mode 0644", "chmod 600")
    nothing_is_left(machines)


def test_charlies_key_is_no_partys_and_the_other_way_round(machines: Machines) -> None:
    refused(machines.start("p1", key=machines.folder / "keys" / "charlie.key"), 4, "Charlie's key")
    refused(machines.start(CHARLIE, key=machines.folder / "keys" / "p1.key"), 4, "key of p1")


def test_without_approval_nothing_is_sent(machines: Machines) -> None:
    refused(machines.start("p1", approved=False), 6, machines.study.fingerprint(), "masquerade approve")
    machines.approve("p1", machines.write_study("older.toml", {"max = 1.0": "max = 1.5"}))
    refused(machines.start("p1", approved=False), 6, machines.study.fingerprint(), "masquerade study diff")


def test_without_a_budget_nothing_is_sent(machines: Machines) -> None:
    machines.approve("p1")
    for path in machines.state("p1").glob("ledger*"):
        path.unlink()
    refused(machines.start("p1", approved=False), 7, "masquerade budget init")
    nothing_is_left(machines)


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("x,z\n0.1,1\n", 4, "'y'"),
        ("x,y\n0.1,1\n0.2,0\nnan,1\n", 4, "line 4"),
        ("x,y\n0.1,1\n0.2,0\n7.5,1\n", 4, "line 4"),
        ("x,y\n0.1,1\n-0.1,0\n", 6, "min_records"),
        ("", 4, "empty"),
    ],
)
def test_records_that_do_not_fit_are_refused_before_anything_is_sent(
    machines: Machines, text: str, code: int, word: str
) -> None:
    machines.write_study(changes={"min_records = 2": "min_records = 5"})
    data = machines.folder / "bad.csv"
    data.write_text(text)
    refused(machines.start("p1", data=data), code, word)
    nothing_is_left(machines)


def test_results_are_never_overwritten(machines: Machines) -> None:
    machines.out("p1").mkdir(parents=True)
    (machines.out("p1") / "result.json").write_text("mine")
    refused(machines.start("p1"), 4, "already holds", "--out")
    assert (machines.out("p1") / "result.json").read_text() == "mine"


def test_a_wrong_command_line_is_bad_input(machines: Machines) -> None:
    process = machines.start("p1", "--nonsense")
    assert "nonsense" in refused(process, 4).error["message"]


def test_people_are_told_in_words_on_stderr(machines: Machines) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "masquerade_party", "no.toml", "--data", "x", "--key", "k"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=machines.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"error: {sentence('file_missing', 'study')} no.toml")


# --- Connections --------------------------------------------------------------------


def test_a_port_in_use(machines: Machines) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(machines.study.address.rpartition(":")[2])))
        taken.listen()
        refused(machines.start(CHARLIE), 4, "in use by another process")
    nothing_is_left(machines)


def test_an_address_of_another_machine(machines: Machines) -> None:
    study = machines.write_study(changes={"tcp://127.0.0.1": "tcp://192.0.2.1"})
    refused(machines.start(CHARLIE, study=study), 4, "not an address of this machine", "--listen")


def test_charlie_unreachable(machines: Machines) -> None:
    machines.write_study(changes={"deadline_seconds = 120.0": "deadline_seconds = 2.0"})
    ended = machines.start("p1").end()
    assert ended.code == 2
    assert machines.study.address in ended.error["message"]
    nothing_is_left(machines)


def test_a_party_that_is_not_on_charlies_roster_is_not_admitted(machines: Machines) -> None:
    other = make_keys(machines.folder / "other.key")
    study = machines.write_study("hers.toml", {str(machines.keys["p1"].public): str(other.public)})
    charlie = machines.start(CHARLIE)
    charlie.wait_for("listening")
    ended = machines.start("p1", study=study, key=machines.folder / "other.key").end()
    assert (ended.code, says(ended.error["message"], "party_not_admitted")) == (2, True)
    charlie.wait_for("stranger")
    assert charlie.popen.poll() is None


def test_a_wrong_server_key_is_told_soon(machines: Machines) -> None:
    other = make_keys(machines.folder / "other.key")
    study = machines.write_study("hers.toml", {str(machines.keys[CHARLIE].public): str(other.public)})
    machines.start(CHARLIE).wait_for("listening")
    ended = machines.start("p1", study=study).end()
    assert (ended.code, says(ended.error["message"], "server_with_another_key")) == (2, True)


# --- The hello -----------------------------------------------------------------------


def test_a_differing_study_is_named_by_field_and_the_others_are_waited_for(machines: Machines) -> None:
    charlie = machines.start(CHARLIE)
    study = machines.write_study("hers.toml", {"epsilon = 1.0": "epsilon = 10.0"})
    ended = machines.start("p2", study=study).end()
    assert (ended.code, "privacy.epsilon" in ended.error["message"]) == (4, True)
    charlie.wait_for("refused", party="p2", fields="privacy.epsilon")
    for process in (*machines.start_all("p1", "p2", "p3").values(), charlie):
        assert process.end().code == 0


def test_another_version_is_named(machines: Machines) -> None:
    charlie = machines.start(CHARLIE)
    ended = machines.start("p2", version=True).end()
    assert ended.code == 4
    assert "9.9.9" in ended.error["message"]
    assert protocol_of(machines.study).version in ended.error["message"]
    charlie.wait_for("refused", party="p2", version="9.9.9")


_NEXT = """
import masquerade_core, masquerade_host.process.program as program
masquerade_core.__version__, program._FILE_BYTES = {!r}, {}
""".strip().replace("\n", "; ")


def test_programs_of_different_versions_run_together_where_their_numbers_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machines = Machines.new(tmp_path, K=2)
    versions = {CHARLIE: ("0.8.3", 14), "p1": ("0.9.0", 15), "p2": ("0.10.1", 16)}
    running = {name: machines.start(name, changed=_NEXT.format(*each)) for name, each in versions.items()}
    ends = {name: process.end() for name, process in running.items()}
    assert [end.code for end in ends.values()] == [0, 0, 0], ends
    folders = [str(machines.out(name)) for name in versions]
    told = [json.loads((Path(folder) / "result.json").read_text())["version"] for folder in folders]
    assert told == [version for version, _ in versions.values()]
    assert command(["verify", *folders]) == 0
    capsys.readouterr()


def test_who_never_joins_is_named(machines: Machines) -> None:
    machines.write_study(changes={"deadline_seconds = 120.0": "deadline_seconds = 10.0"})
    processes = machines.start_all(CHARLIE, "p2")
    for process in processes.values():
        ended = process.end()
        assert ended.code == 3
        assert ended.error["waited_for"] == "p1, p3"
    nothing_is_left(machines)


# --- Peers that do not follow the protocol ---------------------------------------------


def seated_with(
    machines: Machines, name: str, misdeed: Callable[[PartySession], None] | None = None
) -> tuple[dict[str, Participant], Insider]:
    """Start Charlie and the others, and let the insider come last."""
    processes = machines.start_all(CHARLIE, *(other for other in machines.study.names if other != name))
    for other in processes:
        if other != CHARLIE:
            processes[CHARLIE].wait_for("connected", party=other)
    return processes, Insider(machines, name, misdeed)


def _link(session: PartySession) -> Any:
    return session.link


def garbage(session: PartySession) -> None:
    _link(session).send(SystemRng().bytes(500))


def oversized(session: PartySession) -> None:
    _link(session).send(bytes(MAX_FRAME + 1))


def wrong_acknowledgement(session: PartySession) -> None:
    beat = pack_beat(Beat((), session._channel.got + 1000, session._channel.connection), session.everybody)
    _link(session).send(session._endpoint.seal(CHARLIE, "beat", beat))


def out_of_turn(session: PartySession) -> None:
    _link(session).send(session._endpoint.seal(CHARLIE, "closed", encode(Closed(digest=bytes(32)), CHARLIE)))
    _link(session).send(session._endpoint.seal(CHARLIE, "message", b"\x80", type="Share"))


def of_another_type(session: PartySession) -> None:
    """It goes over the channel, which counts it: Charlie may acknowledge it before his role finds it out of turn."""
    session._put(session._endpoint.seal(CHARLIE, "message", b"\x80", type="Share"))


def forged(session: PartySession) -> None:
    session._endpoint._key = machines_key()
    _link(session).send(session._endpoint.seal(CHARLIE, "message", b"\x80", type="Share"))


def machines_key() -> Any:
    from masquerade_core.crypto.boxes import SigningKey

    return SigningKey(SystemRng().bytes(32))


@pytest.mark.parametrize("misdeed", [garbage, oversized, wrong_acknowledgement, out_of_turn, forged])
def test_an_admitted_peer_that_breaks_the_protocol_is_named_by_charlie_who_is_quoted_by_all(
    machines: Machines, misdeed: Callable[[PartySession], None]
) -> None:
    processes, insider = seated_with(machines, "p3", misdeed)
    for name, process in processes.items():
        ended = process.end()
        if name == CHARLIE or "peer" in ended.error:
            assert (ended.code, ended.error["peer"], ended.error["grounds"]) == (8, "p3", "checked here"), ended
        else:
            assert (ended.code, ended.error["said_by"], ended.error["accused"]) == (1, "charlie", "p3"), ended
        assert "p3" in ended.error["message"]
    error = insider.end()
    assert isinstance(error, Reported | ProtocolViolation)
    left = {path.name for path in machines.out("").rglob("*") if path.is_file()}
    assert left == {"evidence.json", "study.toml"}  # Charlie's signed accusation, at the others at least


@pytest.mark.parametrize("accused", ["p1", CHARLIE])
def test_a_false_deadline_names_nobody_but_whoever_claims_it(machines: Machines, accused: str) -> None:
    def claims(session: PartySession) -> None:
        body = pack_abort(Abort("deadline", (accused,), "p3"), session.everybody)
        _link(session).send(session._endpoint.seal(CHARLIE, "abort", body))

    processes, insider = seated_with(machines, "p3", claims)
    for name, process in processes.items():
        ended = process.end()
        assert ended.code == 1, ended
        assert ended.error.get("said_by", "p3") == "p3"
        assert not {"peer", "suspects", "accused", "waited_for", "copied"} & ended.error.keys()
        assert "p3" in ended.error["message"]
        assert not any(innocent in ended.error["message"] for innocent in ("p1", "p2", CHARLIE)), (name, ended.error)
    insider.end()


def test_a_type_that_is_not_due_is_out_of_turn(machines: Machines) -> None:
    """The lead owes Charlie its key; something else comes."""
    processes, insider = seated_with(machines, "p1", of_another_type)
    for process in processes.values():
        ended = process.end()
        assert (ended.code, ended.error.get("peer")) == (8, "p1"), ended
    insider.end()


# --- Participants that die ----------------------------------------------------------------


def seated(machines: Machines) -> tuple[dict[str, Participant], Insider]:
    """Start Charlie, p1 and p2; p3, in this process, keeps them all waiting in the middle of the protocol."""
    processes, insider = seated_with(machines, "p3")
    for process in processes.values():
        process.wait_for("joined")
    return processes, insider


@pytest.mark.parametrize("victim", ["p1", "p2"])
def test_a_killed_party_is_named_by_all(hasty: Machines, victim: str) -> None:
    """p1 is the lead. How soon it is named is tested on a clock that the test moves, in ``tests/unit``."""
    processes, insider = seated(hasty)
    processes.pop(victim).kill()
    for process in processes.values():
        ended = process.end()
        assert ended.code == 3, ended
        assert ended.error["waited_for"] == victim
    error = insider.end()
    assert isinstance(error, DeadlinePassed)
    assert error.waited_for == (victim,)


def test_a_killed_charlie_is_named_by_all(hasty: Machines) -> None:
    processes, insider = seated(hasty)
    processes.pop(CHARLIE).kill()
    for process in processes.values():
        ended = process.end()
        assert ended.code == 3, ended
        assert ended.error["waited_for"] == CHARLIE
    insider.end()


def test_a_frozen_party_is_named_by_all(hasty: Machines) -> None:
    processes, insider = seated(hasty)
    frozen = processes.pop("p2")
    frozen.kill(signal.SIGSTOP)
    for process in processes.values():
        ended = process.end()
        assert (ended.code, ended.error["waited_for"]) == (3, "p2"), ended
    frozen.kill(signal.SIGCONT)  # it wakes up, and learns how the run ended
    assert frozen.end().code in (1, 3)
    insider.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("leaver", ["p2", CHARLIE])
def test_a_participant_that_is_stopped_says_so(machines: Machines, leaver: str, number: int) -> None:
    processes, insider = seated(machines)
    processes[leaver].kill(number)
    stopped = processes.pop(leaver).end()
    assert (stopped.code, signal.Signals(number).name in stopped.error["message"]) == (1, True)
    for process in processes.values():
        ended = process.end()
        assert ended.code == 1, ended
        assert ended.error["message"].startswith(f"{leaver} left")
    error = insider.end()
    assert isinstance(error, RunFailed)
    nothing_is_left(machines)


class Hesitant(Insider):
    """Takes part with its records until its share is about to leave, and then waits for ever.

    ``alone`` is set once Charlie's beats say that he waits for this party alone: the others' shares have reached him.
    """

    def __init__(self, machines: Machines, name: str) -> None:
        self.alone = threading.Event()
        self._hesitates = False
        super().__init__(machines, name)

    async def _role(self) -> None:
        hesitates, handles = self.session.begin, self.session._handle

        def handle(turn: Turn, frame: Frame) -> None:
            handles(turn, frame)
            waits_for = read_beat(frame.body, self.session.everybody, CHARLIE).waits_for if turn is Turn.BEAT else ()
            if self._hesitates and waits_for == (self._seat.me,):
                self.alone.set()

        self.session._handle = handle  # type: ignore[method-assign]

        def begin(effect: Any) -> None:
            self._hesitates = self._hesitates or isinstance(effect, Release)
            if not self._hesitates:
                hesitates(effect)

        self.session.begin = begin  # type: ignore[method-assign]
        study, name = self.session.study, self._seat.me
        await protocol_of(study).party(self._seat, study, load_csv(self.folder / f"{name}.csv", study))


@pytest.mark.parametrize("leaver", ["p2", CHARLIE])
def test_who_is_stopped_after_the_shares_have_left_says_and_keeps_what_they_cost(
    machines: Machines, leaver: str
) -> None:
    processes = machines.start_all(CHARLIE, "p1", "p2")
    insider = Hesitant(machines, "p3")
    for name in ("p1", "p2"):
        processes[name].wait_for("stage", name="stage 3: shares")
    assert insider.alone.wait(300)
    processes[leaver].kill(signal.SIGTERM)
    for name, process in processes.items():
        ended = process.end()
        assert ended.code == 1, ended
        spent = "count epsilon = 1, delta = 0 as spent" in ended.error["message"]
        assert not says(ended.error["message"], "before_release") or name == CHARLIE
        assert spent == (name != CHARLIE)
        kept = [str(path.relative_to(machines.out(name))) for path in machines.out(name).rglob("*.*")]
        assert kept == (["attempt-1/spent.json"] if name != CHARLIE else [])
    assert isinstance(insider.end(), RunFailed)


def test_a_party_may_start_long_before_charlie_and_start_again(machines: Machines) -> None:
    early = machines.start_all("p1", "p2", "p3")
    early["p1"].wait_for("connecting")
    charlie = machines.start(CHARLIE)
    charlie.wait_for("listening")
    for process in (*early.values(), charlie):
        assert process.end().code == 0


def test_a_party_that_is_killed_while_others_are_awaited_may_come_back(machines: Machines) -> None:
    charlie = machines.start(CHARLIE)
    first = machines.start("p1")
    charlie.wait_for("connected", party="p1")
    first.kill()
    first.end()
    for process in (*machines.start_all("p1", "p2", "p3").values(), charlie):
        assert process.end().code == 0

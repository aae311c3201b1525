"""Real processes and somebody who beats on and withholds the end: nobody is held for ever, and no result is lost."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgpack
import pytest

from masquerade.cli import run as command
from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.data.loading import load_csv
from masquerade_core.errors import MasqueradeError
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_host.process.driver import run_role
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_host.transport.dialer import PartySocket, probe
from masquerade_host.transport.sockets import CharlieSocket
from masquerade_protocols import protocol_of
from tests.processes import Ended, Machines

Link = TypeVar("Link", PartySocket, CharlieSocket)


def kind_of(data: bytes) -> str:
    return str(msgpack.unpackb(data[SIGNATURE_BYTES:])[4])


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """A study of three parties with a deadline of twenty seconds."""
    machines = Machines.new(tmp_path, deadline=20.0)
    yield machines
    machines.close()


@dataclass
class Withheld:
    """The frame that a beating participant withholds.

    Attributes
    ----------
    sends : str
        From its first frame of this kind on nothing of it leaves but its beats, if it is not their kind.
    hears : str
        From the first frame of this kind on it takes nothing but beats, so it never says that it has that frame.
    happened : bool
        Such a frame was there.
    """

    sends: str = ""
    hears: str = ""
    happened: bool = False

    def out(self, data: bytes) -> bool:
        """Say whether a frame leaves."""
        return not self.sends or self._passes(kind_of(data), self.sends)

    def into(self, data: bytes | None) -> bool:
        """Say whether a frame is taken."""
        return data is None or not self.hears or self._passes(kind_of(data), self.hears)

    def _passes(self, found: str, kind: str) -> bool:
        self.happened |= found == kind
        return not self.happened or (found == "beat" and kind != "beat")


class Withholding:
    """A participant in this process that takes part as it should, and withholds; if nothing else, its last frame.

    Parameters
    ----------
    machines : Machines
    name : str
    withheld : Withheld, optional
        What it withholds in place of its last frame, or before that.

    Attributes
    ----------
    relents_for : str
        A party whose next beat makes Charlie send his last frame after all.
    """

    def __init__(self, machines: Machines, name: str, withheld: Withheld | None = None) -> None:
        self.machines, self.relents_for = machines, ""
        self._withheld = withheld or Withheld()
        self.session = self._charlie() if name == CHARLIE else self._party(name)
        if withheld is not None:  # it ends nothing itself
            self.session._check_dues = lambda now: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._run, args=(name,), daemon=True)
        self._thread.start()

    def _party(self, name: str) -> PartySession:
        study, keys = self.machines.study, self.machines.keys[name]
        session = PartySession(
            name,
            study,
            keys,
            lambda: self._tampered(PartySocket(study.address, keys, study.curator.key.curve)),
            lambda: probe(study.address, study.curator.key.curve),
            version=protocol_of(study).version,
        )
        if self._withheld.hears != "closed":
            session._close = lambda: None  # type: ignore[method-assign]
        return session

    def _charlie(self) -> CharlieSession:
        study, keys = self.machines.study, self.machines.keys[CHARLIE]
        roster = {party.name: party.key.curve for party in study.parties}
        session = CharlieSession(
            study,
            keys,
            lambda: self._tampered(CharlieSocket(study.address, keys, roster)),
            version=protocol_of(study).version,
        )
        close, hear = session._close_if_done, session._hear_beat
        session._close_if_done = lambda: None  # type: ignore[method-assign]

        def hear_beat(hop: object, frame: object) -> None:
            hear(hop, frame)  # type: ignore[arg-type]
            if getattr(hop, "name", "") == self.relents_for:
                close()

        session._hear_beat = hear_beat  # type: ignore[method-assign]
        return session

    def _tampered(self, link: Link) -> Link:
        send, arrivals, withheld = link.send, link.arrivals, self._withheld

        def some_leave(*arguments: Any) -> None:
            if withheld.out(arguments[-1]):
                send(*arguments)

        def some_arrive() -> Iterator[Any]:
            for arrival in arrivals():
                data: bytes | None = arrival if isinstance(arrival, bytes) else getattr(arrival, "data", None)
                if withheld.into(data):
                    yield arrival

        link.send, link.arrivals = some_leave, some_arrive  # type: ignore[method-assign,assignment]
        return link

    def _run(self, name: str) -> None:
        study = self.machines.study
        seat, protocol = Seat(name, study.names), protocol_of(study)
        if name == CHARLIE:
            role = protocol.charlie(seat, study)
        else:
            role = protocol.party(seat, study, load_csv(self.machines.folder / f"{name}.csv", study))
        try:
            run_role(role, self.session, SystemRng())
        except MasqueradeError as error:
            self.error = error

    def end(self) -> None:
        """Wait for its end."""
        self._thread.join(240)
        assert not self._thread.is_alive()


def confirmed(machines: Machines, name: str) -> bool:
    return bool(json.loads((machines.out(name) / "result.json").read_text())["confirmed"])


def exported(machines: Machines, name: str, *more: str) -> int:
    card = machines.folder / f"{name}.md"
    return command(["export", str(machines.out(name)), "--to", "card", "-o", str(card), *more])


def verified(machines: Machines, *names: str) -> int:
    return command(["verify", *(str(machines.out(name)) for name in names)])


def test_a_party_that_beats_on_and_never_closes_is_named_by_all(machines: Machines) -> None:
    processes = machines.start_all(CHARLIE, "p1", "p2")
    withholding = Withholding(machines, "p3")
    for process in processes.values():
        ended = process.end(120)
        assert (ended.code, ended.error["waited_for"]) == (3, "p3"), ended
    withholding.end()


MATRIX: dict[str, tuple[str, Withheld]] = {
    "a party's hello": ("p3", Withheld(sends="hello")),
    "a party's word that it has the roster": ("p3", Withheld(hears="roster")),
    "a party's message": ("p3", Withheld(sends="message")),
    "a party's word that it has a message": ("p3", Withheld(hears="message")),
    "a party's sealed message": ("p3", Withheld(sends="sealed")),
    "a party's word that it has the last frame": ("p3", Withheld(hears="closed")),
    "Charlie's answer to a hello": (CHARLIE, Withheld(sends="beat")),
    "Charlie's roster": (CHARLIE, Withheld(sends="roster")),
    "Charlie's message": (CHARLIE, Withheld(sends="message")),
    "a box that Charlie relays": (CHARLIE, Withheld(sends="sealed")),
    "Charlie's word that he has a message": (CHARLIE, Withheld(hears="message")),
}
"""Each state of either end of a hop, and what is due in it; the two last frames have tests of their own."""


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Ended]]:
    """How everybody honest ended, by what was due; three runs at a time begin, and all wait at once."""
    beginning = threading.Semaphore(3)

    def play(due: str, folder: Path) -> dict[str, Ended]:
        culprit, withheld = MATRIX[due]
        machines = Machines.new(folder, deadline=45.0)
        honest = [name for name in (CHARLIE, *machines.study.names) if name != culprit]
        try:
            with beginning:
                withholding = Withholding(machines, culprit, withheld)
                processes = machines.start_all(*honest)
                for name, process in processes.items():
                    process.wait_for("listening" if name == CHARLIE else "connecting")
            ended = {name: process.end(240) for name, process in processes.items()}
            withholding.end()
        finally:
            machines.close()
        return ended

    with ThreadPoolExecutor(len(MATRIX)) as pool:
        folders = [tmp_path_factory.mktemp("due") for _ in MATRIX]  # which no two threads can make at once
        return dict(zip(MATRIX, pool.map(play, MATRIX, folders), strict=True))


@pytest.mark.parametrize("due", MATRIX)
def test_whoever_beats_on_and_withholds_what_is_due_holds_nobody(ends: dict[str, dict[str, Ended]], due: str) -> None:
    culprit, withheld = MATRIX[due]
    assert withheld.happened
    if withheld.hears == "closed":  # everybody else has the result, whoever says that it has it
        assert {name: one.code for name, one in ends[due].items()} == dict.fromkeys(ends[due], 0)
        return
    for one in ends[due].values():
        assert one.code == 3, one
        assert one.error.get("waited_for", culprit) == culprit, one


def test_parties_keep_what_charlie_never_confirms_and_he_or_all_of_them_may_confirm_it_later(
    machines: Machines,
) -> None:
    withholding = Withholding(machines, CHARLIE)
    names = machines.study.names
    for process in machines.start_all(*names).values():
        ended = process.end(120)
        assert (ended.code, ended.error.get("waited_for")) == (3, CHARLIE), ended
        assert "not confirmed" in ended.error["message"]
    assert not any(confirmed(machines, name) for name in names)
    assert exported(machines, "p1") == 4
    assert exported(machines, "p1", "--unconfirmed") == 0
    assert verified(machines, "p1") == 1
    assert verified(machines, "p1", "p2") == 1
    assert verified(machines, *names) == 0
    withholding.relents_for = "p1"
    assert machines.start("p1").end(120).code == 0  # Charlie still runs
    assert confirmed(machines, "p1")
    assert exported(machines, "p1", "--force") == 0
    assert verified(machines, "p1", "p2") == 0  # p1 has everybody's signed last words
    withholding.end()
    assert machines.start("p2").end(120).code == 3  # he is gone
    assert not confirmed(machines, "p2")
    assert machines.start("p2").end(120).code == 6  # nothing is left of that run but its result
    assert not list(machines.out("p2").glob("attempt-*"))

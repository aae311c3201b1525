"""Two processes that use copies of one party's state: the seated one stays, and nobody is accused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from masquerade_core.errors import MasqueradeError, StateCopied
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import encode
from masquerade_core.wire.faults import Evidence
from masquerade_core.wire.frames import read_header
from masquerade_host.channel import first_connection
from masquerade_host.session.agreement import ASK, Ask, padded
from masquerade_host.session.hop import Hop
from masquerade_host.session.messages import Beat, beats_every, pack_beat
from masquerade_host.transport.interface import Arrival
from masquerade_protocols.blame import verdict
from tests.host_helpers import World
from tests.messages import says
from tests.wired import Wired

NAMES = ("p1", "p2", "p3")
EVERYBODY = (*NAMES, CHARLIE)
SECOND = b"the second machine"
_DROPOUTS = "\n[dropouts]\nmin_survivors = 2\nretries = 2\npatience_seconds = 10.0\n"


def kind_of(data: bytes) -> tuple[str, str]:
    header = read_header(data[64:], "")
    return header.kind, header.type


@dataclass
class Play:
    """A run in which a second machine has a copy of p1's state, and what Charlie tells along each of p1's routes."""

    wired: Wired
    connection: int = field(default_factory=first_connection)
    told: list[tuple[bytes, bytes]] = field(default_factory=list)

    @classmethod
    def new(cls, *, losing: bool = False) -> Play:
        world = World.new(3, deadline=60.0, port=5555)
        if losing:
            text = world.study.to_toml().replace('lead = "p1"\n', "").replace("key_bits = 2048\n", "")
            text = text.replace('sum = "paillier"', 'sum = "masks"').replace('"paper"', '"proven"')
            world = World(Study.parse(text + _DROPOUTS), world.keys)
        play = cls(Wired(world))
        tell = play.wired.link.tell

        def listened(route: bytes, data: bytes) -> bool:
            play.told.append((route, data))
            return tell(route, data)

        play.wired.link.tell = listened  # type: ignore[method-assign]
        play.wired.join()
        play.wired.pump(4, seconds=1.0)
        play.first = play.hop.route
        return play

    first: bytes = b""

    @property
    def hop(self) -> Hop:
        """Charlie's end of p1's hop."""
        return self.wired.charlie._hops["p1"]

    @property
    def seated(self) -> bytes:
        """The route of the process that has the seat."""
        return bytes(self.hop.route)

    def refused(self) -> list[bytes]:
        """The routes along which somebody was refused."""
        return [route for route, data in self.told if kind_of(data) == ("hello", "refusal")]

    def beat(self) -> None:
        """Let the second machine say its beat."""
        body = pack_beat(Beat((CHARLIE,), self.hop.channel.acknowledged, self.connection), EVERYBODY)
        endpoint = self.wired.parties["p1"]._endpoint
        self.hand(SECOND, endpoint.seal(CHARLIE, "beat", body))
        ask = encode(Ask(asker=padded("p1"), nonce=bytes(16)), CHARLIE)
        self.hand(SECOND, endpoint.seal(CHARLIE, "standing", ask, type=ASK))  # it was started again

    def hand(self, route: bytes, data: bytes) -> None:
        self.wired.link.inbox.append(Arrival("p1", route, data))

    def message(self, body: bytes) -> bytes:
        """Sign p1's next message, which the other machine may sign, too."""
        endpoint = self.wired.parties["p1"]._endpoint
        data = endpoint.seal(CHARLIE, "message", body, type="Hi")
        endpoint._next_out[CHARLIE] -= 1
        return data

    def stop_first(self) -> None:
        """The first machine takes no further step, but its connection stays."""
        self.wired.parties["p1"].closed = True

    def second_takes_the_seat(self) -> None:
        self.stop_first()
        self.beat()
        self.wired.pump(8, seconds=1.0)
        self.beat()
        self.wired.pump(2, seconds=0.1)
        assert self.seated == SECOND


@pytest.fixture
def play() -> Play:
    return Play.new()


def copied(error: MasqueradeError | None) -> None:
    assert isinstance(error, StateCopied), error
    assert (error.copied, error.exit_code) == (("p1",), 1)


def test_a_seated_process_that_answers_stays_and_the_other_one_is_refused(play: Play) -> None:
    play.beat()
    play.wired.pump(3, seconds=0.1)
    assert (play.seated, play.refused()) == (play.first, [SECOND])
    for name in EVERYBODY:
        play.wired.finish(name)
    play.wired.pump(8, seconds=1.0)
    assert not play.wired.errors


def test_a_seated_process_that_does_not_answer_loses_its_seat_in_time_and_is_told(play: Play) -> None:
    play.stop_first()
    play.beat()
    play.wired.pump(round(4 * beats_every(3, 60.0)), seconds=0.5)
    assert (play.seated, play.refused()) == (play.first, [])  # so long it may take to answer
    play.wired.pump(4, seconds=0.5)
    assert (play.seated, play.refused()) == (SECOND, [play.first])
    assert not play.wired.errors


def test_a_seated_process_whose_connection_is_gone_loses_its_seat_at_once(play: Play) -> None:
    play.stop_first()
    play.wired.link.gone.add("p1")
    play.beat()
    play.wired.pump(1)
    assert play.seated == SECOND


def test_an_old_answer_does_not_keep_the_seat(play: Play) -> None:
    """Only an answer to the question of the moment shows that a process lives."""
    answers: list[bytes] = []

    def watch(source: str, _to: str, data: bytes) -> tuple[bytes, ...]:
        if source == "p1" and kind_of(data) == ("standing", "answer"):
            answers.append(data)
        return (data,)

    play.wired.tamper = watch
    play.beat()
    play.wired.pump(3, seconds=1.0)
    assert len(answers) == 1
    play.stop_first()
    play.connection = first_connection()
    play.hand(b"another way", play.wired.parties["p1"]._endpoint.seal(CHARLIE, "beat", _beat_of(play)))
    play.wired.pump(1)
    play.hand(play.first, answers[0])
    play.wired.pump(8, seconds=1.0)
    assert play.seated == b"another way"


def _beat_of(play: Play) -> bytes:
    return pack_beat(Beat((), play.hop.channel.acknowledged, play.connection), EVERYBODY)


def test_a_process_that_has_lost_its_seat_and_connects_again_is_refused(play: Play) -> None:
    tag = play.hop.channel.connection
    play.second_takes_the_seat()
    play.connection = tag + 1
    play.hand(b"third", play.wired.parties["p1"]._endpoint.seal(CHARLIE, "beat", _beat_of(play)))
    play.wired.pump(2, seconds=1.0)
    assert play.seated == SECOND
    assert b"third" in play.refused()
    assert not play.wired.errors


def test_a_seated_party_that_is_refused_says_that_its_state_was_copied(play: Play) -> None:
    play.stop_first()
    play.beat()
    play.wired.pump(8, seconds=1.0)
    play.wired.parties["p1"].closed = False
    play.wired.pump(2)
    assert play.wired.errors.keys() == {"p1"}
    copied(play.wired.errors["p1"])


@pytest.mark.parametrize("sooner", ["first", "second"])
@pytest.mark.parametrize("losing", [False, True])
def test_two_processes_that_both_contribute_end_the_attempt_and_accuse_nobody(sooner: str, *, losing: bool) -> None:
    play = Play.new(losing=losing)
    play.second_takes_the_seat()
    ways = [(play.first, play.message(b"one")), (SECOND, play.message(b"two"))]
    for route, data in ways if sooner == "first" else reversed(ways):
        play.hand(route, data)
        play.wired.pump(2)
    if losing:
        assert play.hop.lost is not None
        assert not {"p2", "p3", CHARLIE} & play.wired.errors.keys()
        copied(play.hop.lost)
        return
    for name in ("p2", "p3", CHARLIE):
        error = play.wired.errors[name]
        copied(error)
        assert isinstance(error, StateCopied)
        assert {error.said_by, *error.frames} == {"", *(data for _, data in ways)}  # everybody has checked it


def test_the_same_bytes_by_two_processes_are_those_of_one_that_went_on(play: Play) -> None:
    play.second_takes_the_seat()
    for route in (play.first, SECOND, play.first):
        play.hand(route, play.message(b"one"))
        play.wired.pump(1)
    play.wired.expect(CHARLIE, "Hi", ("p1",))
    assert play.wired.answers[CHARLIE] == (b"one",)
    assert not play.wired.errors


def test_files_of_both_machines_and_of_charlie_convict_nobody(play: Play) -> None:
    study, run, keys = play.wired.world.study, play.wired.charlie.run, play.wired.world.keys
    one, two = play.message(b"one"), play.message(b"two")
    files = []
    for who, frames in (("p1", (one,)), ("p1", (two,)), (CHARLIE, (one, two))):
        whole = Evidence(run.hex(), who, tuple(("p1", frame) for frame in frames), b"", refused_sum=False)
        files.append(replace(whole, signature=keys[who].signing.sign(whole.signed())))
    found = verdict(study, run, files)
    assert (found.culprit, found.suspects) == ("", ())
    assert says(found.found[0], "state_folder_copied")

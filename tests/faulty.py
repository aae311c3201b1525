"""Whole runs of real protocols over a network that breaks, on a clock that the simulation moves.

A *schedule* follows from its seed: which connections break after which frame, what is then lost or arrives late, how
long nobody can connect, and where frames stand still for a while. Everybody's randomness is seeded by the draw's label.
So each run must end with the model of the run without faults, bit for bit, or end for everybody with an error that
accuses nobody.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import msgpack

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import DeadlinePassed, MasqueradeError, RunFailed
from masquerade_core.rng import SimulationRng
from masquerade_core.seat import Effect, Once, Release, Seat, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_host.charlie_session import CharlieSession
from masquerade_host.dialer import ConnectionEvent
from masquerade_host.keyfiles import Keys
from masquerade_host.party_session import PartySession
from masquerade_host.probe import Answer
from masquerade_host.transport import Arrival
from masquerade_protocols import protocol_of
from tests.host_helpers import VERSION, World
from tests.masked_helpers import under_masks
from tests.paper_data import study_of
from tests.protocol_helpers import make_data
from tests.vote_helpers import points_of, vote_data, vote_study
from tests.wired import Clock, FakeCharlieLink, FakePartyLink

DEADLINE = 60.0
NUMBERED = ("roster", "message", "sealed", "closed")
_DETECTION = 3.0  # seconds until an end notices, at most, that its connection is gone
_LONGEST = 0.8 * DEADLINE  # of an outage after which a run must go on


# --- What is run ------------------------------------------------------------------------


@dataclass(frozen=True)
class Play:
    """A study with everybody's keys and records."""

    world: World
    data: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    def role(self, seat: Seat) -> Any:
        """Make a participant's role."""
        study = self.world.study
        protocol = protocol_of(study)
        if seat.me == CHARLIE:
            return protocol.charlie(seat, study, **self.options)
        return protocol.party(seat, study, self.data[seat.me], **self.options)


def _with_keys(study: Study) -> World:
    """Give everybody keys that follow from the name, and the study a deadline."""
    keys = {}
    for name in (*study.names, CHARLIE):
        rng = SimulationRng("keys", name)
        keys[name] = Keys(rng.bytes(32), rng.bytes(32))
    parties = tuple(party.model_copy(update={"key": keys[party.name].public}) for party in study.parties)
    rules = study.study.model_copy(update={"deadline_seconds": DEADLINE})
    curator = study.curator.model_copy(update={"key": keys[CHARLIE].public})
    return World(study.model_copy(update={"parties": parties, "curator": curator, "study": rules}), keys)


@cache
def play(name: str) -> Play:
    """Return one of the runs by its protocol's name: three parties, short keys, few rounds."""
    if name == "vote":
        study = vote_study("vote", 3, 3, N=6)
        return Play(_with_keys(study), vote_data(study), {"auxiliary": points_of(study)})
    if name == "dp-gd":
        text = study_of("dp-gd", 3, 3, section="rounds = 3").to_toml()
        study = under_masks(Study.parse(text.replace('"paper"', '"proven"'), in_memory=True))
    elif name == "psgd":
        study = study_of("psgd", 3, 3, section="rounds = 3")
    else:
        study = study_of("local-aggregation", 3, 3, section='noise = "laplace"')
    return Play(_with_keys(study), make_data(study, (12, 15, 20)))


# --- The network ------------------------------------------------------------------------


@dataclass
class Connection:
    """One connection of a party. What is sent arrives in order, after a delay, while the connection lives."""

    party: str
    route: bytes
    opens_at: float
    delay: float
    lives: bool = True
    still_until: float = 0.0
    to_charlie: deque[tuple[float, bytes]] = field(default_factory=deque)
    to_party: deque[tuple[float, bytes]] = field(default_factory=deque)
    passed: list[tuple[str, bytes]] = field(default_factory=list)  # numbered frames, each with the end it goes to


@dataclass(frozen=True)
class Fault:
    """What goes wrong after a number of frames.

    Attributes
    ----------
    after : int
        Frames that have left anybody in this run.
    kind : str
        ``cut``: connections are lost with all that is under way. ``tail``: the same, but what was on the way to Charlie
        arrives late, behind the frames of the next connection. ``still``: nothing moves for a while. ``slow``: every
        frame takes longer from here on. ``again``: the last frames of a connection arrive a second time.
    whom : tuple of str
        The parties whose connections it concerns.
    seconds : float
        For so long no new connection can be made, or nothing moves.
    """

    after: int
    kind: str
    whom: tuple[str, ...]
    seconds: float


def faults_of(seed: int, names: Sequence[str], frames: int, longest: float = _LONGEST) -> list[Fault]:
    """Draw a schedule: one to six faults within a run of so many frames."""
    draw = random.Random(f"schedule {seed}")  # noqa: S311 - it shall be the same each time
    faults = []
    for _ in range(draw.randint(1, 6)):
        kind = draw.choice(("cut", "cut", "tail", "tail", "still", "slow", "again"))
        whom = tuple(names) if draw.random() < 0.2 else tuple(draw.sample(list(names), draw.randint(1, len(names) - 1)))
        seconds = draw.choice((0.0, 0.1, 1.0, draw.uniform(0, 10), draw.uniform(0, longest)))
        faults.append(Fault(draw.randint(0, frames), kind, whom, seconds))
    return sorted(faults, key=lambda fault: fault.after)


class Network:
    """All connections, and the faults that are still to come."""

    def __init__(self, clock: Clock, names: Sequence[str], seed: int, faults: Sequence[Fault]) -> None:
        self.clock = clock
        self.draw = random.Random(f"network {seed}")  # noqa: S311 - as above
        self.faults = deque(faults)
        self.frames = 0
        self.made: Counter[str] = Counter()
        self.closed_until = dict.fromkeys(names, 0.0)
        self.slow = dict.fromkeys(names, 0.0)
        self.now: dict[str, Connection] = {}
        self.old: list[Connection] = []  # lost, with a tail that is still under way
        self.links: dict[str, FaultyPartyLink] = {}
        self.signed: dict[tuple[Any, ...], set[bytes]] = defaultdict(set)

    def connect(self, party: str) -> Connection:
        """Make a party's next connection; what it does not hold of the last one is gone."""
        if party in self.now:
            self.lose(self.now[party], tail=False)
        self.made[party] += 1
        opens_at = max(self.clock.now + self.draw.uniform(0.0, 0.3), self.closed_until[party])
        route = f"{party}.{self.made[party]}".encode()
        self.now[party] = Connection(party, route, opens_at, self.draw.uniform(0.0, 0.05) + self.slow[party])
        return self.now[party]

    def lose(self, connection: Connection, *, tail: bool) -> None:
        """End a connection; with a tail, what was on the way to Charlie arrives late."""
        if not connection.lives:
            return
        connection.lives = False
        connection.to_party.clear()
        if tail:
            late = self.clock.now + self.draw.uniform(0.0, 6.0)
            connection.to_charlie = deque((late, data) for _, data in connection.to_charlie)
            self.old.append(connection)

    def put(self, connection: Connection, queue: deque[tuple[float, bytes]], data: bytes) -> None:
        """Put a frame on its way, unless its connection is gone."""
        if connection.lives:
            queue.append((self.clock.now + connection.delay * self.draw.uniform(0.5, 1.5), data))

    def left(self, source: str, to: str, data: bytes) -> None:
        """Note a frame that somebody has sent, and let the next faults happen."""
        self.frames += 1
        _v, run, _who, whom, kind, number, _type, _body = msgpack.unpackb(data[SIGNATURE_BYTES:])
        if kind in NUMBERED:
            party = source if to == CHARLIE else to
            # A roster that comes twice bears no run's id, so it is refused. It is never sent twice: who says that it
            # holds nothing has not begun a run.
            if (connection := self.now.get(party)) is not None and kind != "roster":
                connection.passed.append((to, data))
            hop = to if source == CHARLIE else source
            self.signed[run, source, hop if whom.strip() != "*" else "*", number].add(data)
        while self.faults and self.faults[0].after <= self.frames:
            self._happen(self.faults.popleft())

    def _happen(self, fault: Fault) -> None:
        until = self.clock.now + fault.seconds
        for party in fault.whom:
            connection = self.now.get(party)
            if fault.kind == "slow":
                self.slow[party] = min(fault.seconds, 2.0)
            if connection is None:
                continue
            if fault.kind == "slow":
                connection.delay += self.slow[party]
            elif fault.kind == "still":
                connection.still_until = until
            elif fault.kind == "again":
                self._repeat(connection)
            elif connection.lives:
                self.lose(connection, tail=fault.kind == "tail")
                self.closed_until[party] = until
                self.links[party].lost_at = self.clock.now + self.draw.uniform(0.0, _DETECTION)

    def _repeat(self, connection: Connection) -> None:
        for to, data in connection.passed[-self.draw.randint(1, 6) :]:
            self.put(connection, connection.to_charlie if to == CHARLIE else connection.to_party, data)

    def taken(self, connection: Connection, queue: deque[tuple[float, bytes]]) -> Iterator[bytes]:
        """Take what has arrived."""
        while queue and queue[0][0] <= self.clock.now and connection.still_until <= self.clock.now:
            yield queue.popleft()[1]

    def next_event(self) -> float:
        """Return when the next frame arrives, at the latest a quarter of a second from now."""
        soon = self.clock.now + 0.25
        for connection in (*self.now.values(), *self.old):
            for queue in (connection.to_charlie, connection.to_party):
                if queue:
                    soon = min(soon, max(queue[0][0], connection.still_until))
        return max(soon, self.clock.now + 0.001)


class FaultyPartyLink(FakePartyLink):
    """A party's end: it makes one connection after the other, and is told late that one is lost."""

    def __init__(self, network: Network, site: Site) -> None:
        super().__init__(events=[])
        self._network, self._site = network, site
        self.lost_at: float | None = None
        self._opened = False
        self._connection = network.connect(site.name)
        network.links[site.name] = self

    def connection_events(self) -> list[ConnectionEvent]:
        """Tell of what happened since."""
        now, events = self._network.clock.now, []
        if not self._opened and self._connection.lives and now >= self._connection.opens_at:
            self._opened = True
            events.append(ConnectionEvent.CONNECTED)
        if self.lost_at is not None and now >= self.lost_at:
            events.append(ConnectionEvent.LOST if self._opened else ConnectionEvent.UNREACHED)
            self.lost_at, self._opened = None, False
        return events

    def arrivals(self) -> Iterator[bytes | None]:
        """Take what has arrived."""
        yield from self._network.taken(self._connection, self._connection.to_party)

    def send(self, data: bytes) -> None:
        """Put a frame on its way."""
        self._site.check_debited(data)
        self._network.put(self._connection, self._connection.to_charlie, data)
        self._network.left(self._site.name, CHARLIE, data)

    def reopen(self) -> None:
        """Make the next connection."""
        self.lost_at, self._opened = None, False
        self._connection = self._network.connect(self._site.name)
        self.reopened += 1


class FaultyCharlieLink(FakeCharlieLink):
    """Charlie's end of all connections."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def _of(self, name: str) -> Connection | None:
        connection = self._network.now.get(name)
        return connection if connection is not None and connection.route == self.routes.get(name) else None

    def arrivals(self) -> Iterator[Arrival]:
        """Take what has arrived, old tails last."""
        network = self._network
        connections = [*network.now.values(), *network.old]
        network.draw.shuffle(connections)
        for connection in connections:
            if connection.lives and network.clock.now < connection.opens_at:
                continue
            for data in network.taken(connection, connection.to_charlie):
                yield Arrival(connection.party, connection.route, data)
        network.old = [connection for connection in network.old if connection.to_charlie]

    def send(self, name: str, data: bytes) -> None:
        """Put a frame on its way; a connection that is gone takes nothing."""
        if (connection := self._of(name)) is not None:
            self._network.put(connection, connection.to_party, data)
        self._network.left(CHARLIE, name, data)

    def reachable(self, name: str) -> bool:
        """Whether the connection by which a party came is still there."""
        connection = self._of(name)
        return connection is not None and connection.lives


# --- The participants --------------------------------------------------------------------


class Site:
    """One participant: a session and a role, without threads."""

    def __init__(self, group: Group, name: str) -> None:
        self.group = group
        self.name = name
        self.error: MasqueradeError | None = None
        self.result: Any = None
        self.debited: list[str] = []
        self.draws: Counter[str] = Counter()
        self.needs: list[frozenset[str]] = []  # for each numbered frame, the releases that it depends on
        self.sent: dict[bytes, int] = {}  # frames in the order in which they left first
        self._released: list[str] = []
        self.start()

    def start(self) -> None:
        """Start a process."""
        self.session = self.group.session(self)
        self.role = self.group.play.role(Seat(self.name, self.session.names))
        self.effect: Effect | None = None
        self.begun = self.returned = False
        self.session.open()

    def debit(self, _run: bytes, releases: Sequence[Release]) -> None:
        """Keep the ledger."""
        self.debited += [release.label for release in releases if release.label not in self.debited]

    def check_debited(self, data: bytes) -> None:
        """Check that what a frame releases was debited before it left."""
        _v, _run, _src, _dst, kind, _number, type_, _body = msgpack.unpackb(data[SIGNATURE_BYTES:])
        if kind in ("message", "sealed"):
            number = self.sent.setdefault(data, len(self.sent))
            needed = self.needs[number] - set(self.debited)
            assert not needed, f"{self.name} sent a {type_} before it debited {needed}"

    @property
    def over(self) -> bool:
        """Whether this participant has ended, well or badly."""
        return self.session.closed or self.error is not None

    def turn(self) -> None:
        """Let the participant do what it can."""
        if self.over:
            return
        try:
            while self._role_goes_on():
                pass
            if not self.session.closed:
                self.session.step()
        except MasqueradeError as error:
            self.error = error
            self.session.abort(error)

    def _role_goes_on(self) -> bool:
        answer: Any = None
        if self.returned:
            return False
        if isinstance(self.effect, Once):
            answer = self._draw(self.effect)
        elif self.effect is not None:
            if not self.begun:
                self.begun = True
                self._note(self.effect)
                self.session.begin(self.effect)
            answers = self.session.answers()
            if not answers:
                return False
            (answer,) = answers
        try:
            self.effect, self.begun = self.role.send(answer), False
        except StopIteration as stop:
            self.effect, self.returned, self.result = None, True, stop.value
            self.session.finish()
        return True

    def _draw(self, once: Once) -> Any:
        rng = SimulationRng(f"{once.label} {self.draws[once.label]}", self.name)
        self.draws[once.label] += 1
        result = unpack_plain(pack_plain(once.compute(rng)))
        self.group.drawn.append(result)
        return result

    def _note(self, effect: Effect) -> None:
        if isinstance(effect, Release):
            self._released.append(effect.label)
        elif isinstance(effect, Send):
            frames = 1 if effect.kind == "sealed" else len(effect.bodies)
            self.needs += [frozenset(self._released)] * frames


class Group:
    """Charlie and the parties, with one clock and one network."""

    def __init__(self, play: Play, seed: int = 0, faults: Sequence[Fault] = ()) -> None:
        self.play = play
        self.drawn: list[Any] = []
        self.clock = Clock()
        study = play.world.study
        self.network = Network(self.clock, study.names, seed, faults)
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.sites = {name: Site(self, name) for name in (*study.names, CHARLIE)}

    def session(self, site: Site) -> Any:
        """Make a participant's session."""
        world, keys = self.play.world, self.play.world.keys[site.name]
        observe = partial(self._observe, site.name)
        if site.name == CHARLIE:
            link = FaultyCharlieLink(self.network)
            return CharlieSession(world.study, keys, lambda: link, version=VERSION, clock=self.clock, observe=observe)
        return PartySession(
            site.name,
            world.study,
            keys,
            lambda: FaultyPartyLink(self.network, site),
            lambda: Answer.CHARLIE,
            version=VERSION,
            clock=self.clock,
            debits=site,
            observe=observe,
        )

    def _observe(self, name: str, event: str, /, **fields: Any) -> None:
        self.events.append((name, event, fields))

    def run(self, seconds: float = 20 * DEADLINE) -> None:
        """Let everybody go on until all have ended.

        Raises
        ------
        AssertionError
            Somebody hangs, or one number of a frame bears two contents.
        """
        end = self.clock.now + seconds
        while not all(site.over for site in self.sites.values()):
            assert self.clock.now < end, f"these hang: {[n for n, site in self.sites.items() if not site.over]}"
            for site in self.sites.values():
                site.turn()
            self.clock.now = self.network.next_event()
        twice = {where: len(contents) for where, contents in self.network.signed.items() if len(contents) > 1}
        assert not twice, f"frames of one number with several contents: {twice}"

    @property
    def errors(self) -> dict[str, MasqueradeError]:
        """How those ended who have no result."""
        return {name: site.error for name, site in self.sites.items() if site.error is not None}

    def files(self, name: str) -> Mapping[str, Any]:
        """Return what a participant publishes."""
        site = self.sites[name]
        files: Mapping[str, Any] = site.result.files(self.play.world.study, site.session.run)
        return files


@dataclass(frozen=True)
class Expected:
    """The run without faults."""

    files: Mapping[str, Any]
    frames: int
    debited: Mapping[str, list[str]]


@cache
def without_faults(name: str) -> Expected:
    """Run a protocol over a network that never fails."""
    group = Group(play(name))
    group.run()
    assert not group.errors, group.errors
    files = group.files(CHARLIE)
    assert all(group.files(party) == files for party in group.play.world.study.names)
    debited = {party: group.sites[party].debited for party in group.play.world.study.names}
    return Expected(files, group.network.frames, debited)


def check_completes(name: str, seed: int) -> Group:
    """Run a schedule whose outages are shorter than the deadline: it ends with the model of the run without faults."""
    expected = without_faults(name)
    study = play(name).world.study
    group = Group(play(name), seed, faults_of(seed, study.names, expected.frames))
    group.run()
    assert not group.errors, {who: str(error) for who, error in group.errors.items()}
    for who in (*study.names, CHARLIE):
        assert group.files(who) == expected.files, f"{who} has another result"
    for who, debited in expected.debited.items():
        assert group.sites[who].debited == debited
    return group


def check_ends(name: str, seed: int) -> Group:
    """Run a schedule with outages of any length: it completes, or ends for everybody, and nobody is accused."""
    expected = without_faults(name)
    study = play(name).world.study
    group = Group(play(name), seed, faults_of(seed, study.names, expected.frames, 3 * DEADLINE))
    group.run()
    for error in group.errors.values():
        assert type(error) in (DeadlinePassed, RunFailed), f"{type(error).__name__}: {error}"
    for who, site in group.sites.items():
        assert site.error is not None or group.files(who) == expected.files
    return group


PLAYS = ("dp-gd", "psgd", "local-aggregation", "vote")
CHECKS: dict[str, Callable[[str, int], Group]] = {"completes": check_completes, "ends": check_ends}

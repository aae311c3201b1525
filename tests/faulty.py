"""Whole runs of real protocols over a network that breaks, on a clock that the simulation moves.

A *schedule* follows from its seed: which connections break after which frame, what is then lost or arrives late, how
long nobody can connect, where frames stand still for a while, and which processes die. A process that died is started
again with its journal. Everybody's randomness is seeded by the draw's label. So each run must end with the model of the
run without faults, bit for bit, or end for everybody with an error that accuses nobody.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import gmpy2
import msgpack
import nacl.bindings
import pytest

from masquerade_core.crypto import comparison
from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import CannotConnect, DeadlinePassed, MasqueradeError, RunFailed
from masquerade_core.seat import Forecast, Join, Once, Receive, Release, Seat, Send
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_host.process.driver import Stand, resume, returned
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_host.store.journal import Entry, ReplayLog
from masquerade_host.store.keyfiles import Keys
from masquerade_host.transport.dialer import Answer
from masquerade_host.transport.interface import Arrival, ConnectionEvent
from masquerade_protocols import protocol_of
from masquerade_protocols.entry import Protocol
from tests.glm_helpers import FEATURES, as_data, glm_study, made_up, split_up
from tests.host_helpers import World
from tests.local_descent_helpers import local_descent_study
from tests.masked_helpers import under_masks
from tests.paper_data import study_of
from tests.protocol_helpers import make_data
from tests.restarts import KilledError, MemoryJournal
from tests.summary_helpers import dealt, summary_study
from tests.vote_helpers import points_of, vote_data, vote_study
from tests.whitened_helpers import whitened_study
from tests.wired import Clock, FakeCharlieLink, FakePartyLink, Tamper, faithful

DEADLINE = 60.0
OUTAGES = ("cut", "tail", "still")
"""The kinds of faults in which nothing moves for a while."""
NUMBERED = ("roster", "message", "sealed", "closed")
_DETECTION = 3.0  # seconds until an end notices, at most, that its connection is gone
_BEFORE_NEXT = 0.25  # seconds between that and the next connection, at least
_LONGEST = 0.8 * DEADLINE  # of an outage after which a run must go on


class _Signatures:
    """Signs, and knows again what it signed: libsodium need not verify what libsodium made."""

    def __init__(self) -> None:
        self._sign = _remembers(nacl.bindings.crypto_sign)
        self._open = _remembers(nacl.bindings.crypto_sign_open)
        self._known: dict[tuple[bytes, bytes], bytes] = {}

    def sign(self, message: bytes, secret: bytes) -> bytes:
        """Sign; the second half of a secret key is the public key."""
        signed = bytes(self._sign(message, secret))
        if len(self._known) > 1 << 15:
            self._known.clear()
        self._known[signed, secret[32:]] = message
        return signed

    def open(self, signed: bytes, public: bytes) -> bytes:
        """Verify; what anybody else made, or made under another key, goes to libsodium."""
        known = self._known.get((signed, public))
        return bytes(self._open(signed, public)) if known is None else known


def _one_by_one(power: Callable[[Any, Any, Any], Any]) -> Callable[[Sequence[Any], Any, Any], list[Any]]:
    return lambda bases, exponent, modulus: [power(base, exponent, modulus) for base in bases]


def _remembers(true: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that remembers this one's results, and what it raised."""

    @lru_cache(1 << 14)
    def done(*arguments: Any) -> tuple[Any, Exception | None]:
        try:
            return true(*arguments), None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the same each time
            return None, error

    def remembering(*arguments: Any) -> Any:
        result, error = done(*arguments)
        if error is not None:
            raise error.with_traceback(None)
        return result

    return remembering


def _remembering() -> Iterator[tuple[Any, str, Any, Any]]:
    """Go through functions that follow from their arguments alone, each with another that remembers its results."""
    signatures = _Signatures()
    yield nacl.bindings, "crypto_sign", nacl.bindings.crypto_sign, signatures.sign
    yield nacl.bindings, "crypto_sign_open", nacl.bindings.crypto_sign_open, signatures.open
    for module, names in (
        (comparison, ("_add", "_base", "_times", "crypto_core_ed25519_is_valid_point")),
        (gmpy2, ("is_prime", "is_strong_prp", "powmod")),
    ):
        for name in names:
            true = getattr(module, name)
            yield module, name, true, _remembers(true)
    yield gmpy2, "powmod_base_list", gmpy2.powmod_base_list, _one_by_one(_remembers(gmpy2.powmod))


_REMEMBERING = tuple(_remembering())


@contextmanager
def arithmetic_is_remembered() -> Iterator[None]:
    """Let libsodium and GMP compute nothing twice: most of a run is what all other runs of its play have as well."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, true, remembering in _REMEMBERING:
            if getattr(module, name) is true:  # and not what a test has put in its place
                patch.setattr(module, name, remembering)
        yield


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
        if seat.me == CHARLIE:
            return self.protocol.charlie(seat, study, **self.options)
        return self.protocol.party(seat, study, self.data[seat.me], **self.options)

    @cached_property
    def protocol(self) -> Protocol:
        """The study's protocol."""
        return protocol_of(self.world.study)

    @cached_property
    def forecast(self) -> Forecast:
        """How long the study's run may take."""
        return self.protocol.cost(self.world.study).forecast(self.world.study)


def with_keys(study: Study, deadline: float = DEADLINE) -> World:
    """Give everybody keys that follow from the name, and the study a deadline."""
    keys = {}
    for name in (*study.names, CHARLIE):
        rng = SimulationRng("keys", name)
        keys[name] = Keys(rng.bytes(32), rng.bytes(32))
    parties = tuple(party.model_copy(update={"key": keys[party.name].public}) for party in study.parties)
    rules = study.study.model_copy(update={"deadline_seconds": deadline})
    curator = study.curator.model_copy(update={"key": keys[CHARLIE].public})
    return World(study.model_copy(update={"parties": parties, "curator": curator, "study": rules}), keys)


@cache
def play(name: str) -> Play:
    """Return one of the runs by its protocol's name: three parties, short keys, few rounds."""
    match name:
        case "vote" | "soft":
            study = vote_study(name, 3, 3, N=6)
            return Play(with_keys(study), vote_data(study), {"auxiliary": points_of(study)})
        case "summary":
            study = under_masks(summary_study())
            return Play(with_keys(study), dealt(study, (12, 15, 20)))
        case "dp-whitened":
            study = under_masks(whitened_study(3, 3))
        case "dp-glm":
            study = under_masks(glm_study(3, epsilon=8.0, features=FEATURES[:3]))
            records = made_up(1200)
            return Play(with_keys(study), split_up(study, as_data(records.X[:, :3].copy(), records.y)))
        case "dp-gd":
            text = study_of("dp-gd", 3, 3, section="rounds = 3").to_toml()
            study = under_masks(Study.parse(text.replace('"paper"', '"proven"'), in_memory=True))
        case "weighted-dp":
            study = local_descent_study("c = 16.0\nrounds = 3", 3, 3)
        case "input-noise":
            study = study_of(name, 3, 3, section="alpha = 1.0")
        case "local-aggregation":
            study = study_of("local-aggregation", 3, 3, section='noise = "laplace"')
        case _:
            study = study_of(name, 3, 3, section="rounds = 3")
    return Play(with_keys(study), make_data(study, (12, 15, 20)))


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
    """A fault after a number of frames.

    Attributes
    ----------
    after : int
        Frames that have left anybody in this run.
    kind : str
        ``cut``: connections are lost with all that is under way. ``tail``: the same, but what was on the way to Charlie
        arrives late, behind the frames of the next connection. ``still``: nothing moves for a while. ``slow``: every
        frame takes longer from here on. ``again``: the last frames of a connection arrive a second time. ``kill``: a
        process dies.
    whom : tuple of str
        The parties whose connections it concerns, or the participants whose processes die.
    seconds : float
        For so long no new connection can be made, or nothing moves, or the process stays dead.
    """

    after: int
    kind: str
    whom: tuple[str, ...]
    seconds: float


def faults_of(
    seed: int, names: Sequence[str], frames: int, longest: float = _LONGEST, *, kills: bool = False
) -> list[Fault]:
    """Draw a schedule: one to six faults within a run of so many frames; with ``kills``, processes die as well."""
    draw = random.Random(f"schedule {seed}")  # noqa: S311 - it shall be the same each time
    faults, left = [], longest
    for _ in range(draw.randint(1, 6)):
        kind = draw.choice((*("kill",) * 6 * kills, "cut", "cut", "tail", "tail", "still", "slow", "again"))
        if kind == "kill":
            whom = tuple(draw.sample([*names, CHARLIE], draw.choice((1, 1, 1, 2, len(names) + 1))))
            faults.append(Fault(draw.randint(0, frames), kind, whom, draw.uniform(0, 15)))
            continue
        whom = tuple(names) if draw.random() < 0.2 else tuple(draw.sample(list(names), draw.randint(1, len(names) - 1)))
        seconds = draw.choice((0.0, 0.1, 1.0, draw.uniform(0, 10), draw.uniform(0, longest)))
        # Together they last no longer than one may: one outage right after another is one outage.
        seconds = max(min(seconds, left), 0.0)
        left -= seconds + _DETECTION
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
        self.kill: Callable[[str, float], None] = lambda _name, _until: None
        self.tamper: Tamper = faithful
        self.delay = 0.05  # seconds, at most, that a frame is under way if nothing goes wrong
        self.tick = 0.25  # seconds after which everybody has a turn where nothing happens
        self.signed: dict[tuple[Any, ...], set[bytes]] = defaultdict(set)

    def connect(self, party: str) -> Connection:
        """Make a party's next connection; what it does not hold of the last one is gone."""
        if party in self.now:
            self.lose(self.now[party], tail=False)
        self.made[party] += 1
        opens_at = max(self.clock.now + self.draw.uniform(0.0, 0.3), self.closed_until[party])
        route = f"{party}.{self.made[party]}".encode()
        self.now[party] = Connection(party, route, opens_at, self.draw.uniform(0.0, self.delay) + self.slow[party])
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

    def put(self, connection: Connection, to: str, data: bytes) -> None:
        """Put a frame on its way, unless its connection is gone."""
        if not connection.lives:
            return
        queue = connection.to_charlie if to == CHARLIE else connection.to_party
        for sent in self.tamper(connection.party if to == CHARLIE else CHARLIE, to, data):
            queue.append((self.clock.now + connection.delay * self.draw.uniform(0.5, 1.5), sent or b""))
        # A roster that comes twice bears no run's id, so it is refused. Nobody sends one twice: a party that says that
        # it holds nothing has not begun a run.
        if _kind(data) in NUMBERED[1:]:
            connection.passed.append((to, data))

    def left(self, source: str, to: str, data: bytes) -> None:
        """Note a frame that somebody has sent, and let the next faults happen."""
        self.frames += 1
        _v, run, _who, whom, kind, number, _type, _body = msgpack.unpackb(data[SIGNATURE_BYTES:])
        if kind in NUMBERED:
            hop = to if source == CHARLIE else source
            self.signed[run, source, hop if whom.strip() != "*" else "*", number].add(data)
        while self.faults and self.faults[0].after <= self.frames:
            self._happen(self.faults.popleft())

    def _happen(self, fault: Fault) -> None:
        until = self.clock.now + fault.seconds
        if fault.kind == "kill":
            for name in fault.whom:
                self.kill(name, until)
            return
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
                came = self._reached(connection)
                self.lose(connection, tail=fault.kind == "tail")
                self.closed_until[party] = until
                self._tell_late(connection, came)

    def die(self, name: str, until: float) -> None:
        """Lose the connections of a process that died; who connects to a dead Charlie waits for the next one."""
        for party in self.closed_until if name == CHARLIE else (name,):
            if (connection := self.now.get(party)) is None:
                continue
            came = self._reached(connection)
            self.lose(connection, tail=name != CHARLIE and self.draw.random() < 0.5)
            if name == CHARLIE:
                self.closed_until[party] = max(until, self.closed_until[party])
                self._tell_late(connection, came)

    def _reached(self, connection: Connection) -> list[bytes]:
        """Return what has reached a party's machine by now, and waits there to be read: the first few frames."""
        on_the_way = [data for _, data in connection.to_party] if connection.lives else []
        return on_the_way[: self.draw.randint(0, len(on_the_way))]

    def _tell_late(self, connection: Connection, came: Sequence[bytes]) -> None:
        """Let a party learn later that its connection is lost; it reads what came before until it connects anew."""
        lost_at = self.links[connection.party].lost_at = self.clock.now + self.draw.uniform(0.0, _DETECTION)
        read_at = self.draw.choice((self.clock.now, lost_at + self.draw.uniform(0.0, _BEFORE_NEXT)))
        connection.to_party = deque((read_at, data) for data in came)

    def _repeat(self, connection: Connection) -> None:
        for to, data in connection.passed[-self.draw.randint(1, 6) :]:
            self.put(connection, to, data)

    def taken(self, connection: Connection, queue: deque[tuple[float, bytes]]) -> Iterator[bytes]:
        """Take what has arrived."""
        while queue and queue[0][0] <= self.clock.now and connection.still_until <= self.clock.now:
            yield queue.popleft()[1]

    def next_event(self, reads_from: Mapping[str, float]) -> float:
        """Return when somebody next has a frame to read, at the latest a tick from now.

        ``reads_from`` says from when on each participant reads. A frame waits for whoever is dead until then.
        """
        soon = self.clock.now + self.tick
        for connection in (*self.now.values(), *self.old):
            if connection.to_party:
                soon = min(soon, max(connection.to_party[0][0], connection.still_until, reads_from[connection.party]))
            if connection.to_charlie:
                opens_at = connection.opens_at if connection.lives else 0.0
                at = max(connection.to_charlie[0][0], connection.still_until, reads_from[CHARLIE], opens_at)
                soon = min(soon, at)
        return max(soon, self.clock.now + 0.001)


def _kind(data: bytes) -> str:
    return str(msgpack.unpackb(data[SIGNATURE_BYTES:])[4])


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
        self._site.moment("send")
        self._site.check(data)
        self._network.put(self._connection, CHARLIE, data)
        self._network.left(self._site.name, CHARLIE, data)
        self._site.moment("sent")

    def reopen(self) -> None:
        """Make the next connection."""
        self.lost_at, self._opened = None, False
        self._connection = self._network.connect(self._site.name)
        self.reopened += 1


class FaultyCharlieLink(FakeCharlieLink):
    """Charlie's end of all connections."""

    def __init__(self, network: Network, site: Site) -> None:
        super().__init__()
        self._network, self._site = network, site

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
        self._site.moment("send")
        if (connection := self._of(name)) is not None:
            self._network.put(connection, name, data)
        self._network.left(CHARLIE, name, data)
        self._site.moment("sent")

    def tell(self, route: bytes, data: bytes) -> bool:
        """Put a frame on its way along any connection; False if it is gone."""
        for name, connection in self._network.now.items():
            if connection.route == route and connection.lives:
                self._network.put(connection, name, data)
                return True
        return False

    def reachable(self, name: str) -> bool:
        """Whether the connection by which a party came is still there."""
        connection = self._of(name)
        return connection is not None and connection.lives


# --- The participants --------------------------------------------------------------------


class FaultyJournal(MemoryJournal):
    """A journal that remembers what was ever durable in it, so that an older copy can be put back."""

    def __init__(self, moment: Callable[[str], None]) -> None:
        super().__init__(moment)
        self.ever: Counter[str] = Counter()  # the draws that were ever durable
        self._marks = [0]

    def commit(self, entries: Sequence[Entry] = ()) -> None:
        """Write, and remember."""
        added = [entry.label for entry in entries if entry.kind == "once"]
        before = len(self.rows)
        try:
            super().commit(entries)
        finally:
            if len(self.rows) > before:
                self.ever.update(added)
                self._marks.append(len(self.rows))

    def roll_back(self, commits: int) -> None:
        """Put back the copy from so many commits ago."""
        self._marks = self._marks[: max(1, len(self._marks) - commits)]
        self.rows = self.rows[: self._marks[-1]]


class Site:
    """One participant's machine: a process without threads, and what outlives it.

    A process can die at each *moment* at which something becomes durable or visible: before and after a commit, a debit
    and a frame that leaves.
    """

    def __init__(self, group: Group, name: str) -> None:
        self.group = group
        self.name = name
        self.journal = FaultyJournal(self.moment)
        self.rolls_back = 0
        self.moments = 0
        self.kill_at = -1
        self.dies_until: float | None = None
        self.slow = 0.0  # seconds of work for whatever follows from what came
        self._came_at = 0.0
        self.lives = False
        self.starts_at = 0.0
        self.error: MasqueradeError | None = None
        self.result: Any = None
        self.debited: list[str] = []
        self.costs: dict[bytes, frozenset[str]] = {}  # each numbered frame, and the releases that it depends on
        self._released: list[str] = []

    def moment(self, what: str) -> None:
        """Die here, if it is time."""
        self.moments += 1
        if self.moments == self.kill_at:
            self.dies_until = self.group.clock.now + 3.0
        if self.dies_until is not None:
            raise KilledError(what)

    def start(self) -> None:
        """Start a process, which finds what an earlier one left."""
        self.lives = True
        self.journal.roll_back(self.rolls_back)
        self.session = self.group.session(self)
        self.session.steps = ReplayLog(self.journal.opened())
        self.role = self.group.play.role(Seat(self.name, self.session.names))
        self.stand = Stand()
        self._guarded(self._open)

    def _open(self) -> None:
        self.session.steps.begin(self.session.program, b"")
        self.session.open()
        self.stand = resume(self.role, self.session)
        if self.session.steps.passed:
            self.session.resumed(SimulationRng(f"nonce {self.moments}", self.name).bytes(16))

    def debit(self, _run: bytes, releases: Sequence[Release]) -> None:
        """Keep the ledger."""
        self.moment("debit")
        self.debited += [release.label for release in releases if release.label not in self.debited]
        self.moment("debited")

    def labels(self, run: bytes) -> frozenset[str]:
        """Return what stands in the ledger."""
        del run  # each site has one ledger, for one run
        return frozenset(self.debited)

    def check(self, data: bytes) -> None:
        """Check that a frame is one of the run without faults, and that what it releases was debited before it left."""
        _v, _run, _src, _dst, kind, _number, type_, _body = msgpack.unpackb(data[SIGNATURE_BYTES:])
        if kind not in NUMBERED:
            return
        costs = self.group.costs.get(self.name)
        if costs is None:
            self.costs[data] = frozenset(self._released)
            return
        assert data in costs, f"{self.name} sent a {type_ or kind} that is not that of the run without faults"
        missing = costs[data] - set(self.debited)
        assert not missing, f"{self.name} sent a {type_ or kind} before it debited {set(missing)}"

    @property
    def over(self) -> bool:
        """Whether this participant has ended, well or badly."""
        return self.lives and (self.session.closed or self.error is not None)

    @property
    def reads_from(self) -> float:
        """When this participant reads what has arrived: now, when it is started again, or never, if it has ended."""
        if not self.lives:
            return self.starts_at
        return math.inf if self.over else self.group.clock.now

    def turn(self) -> None:
        """Let the participant do what it can."""
        if not self.lives and self.group.clock.now >= self.starts_at:
            self.start()
        if self.lives and not self.over:
            self._guarded(self._turn)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            try:
                if self.dies_until is not None:
                    raise KilledError
                work()
            except MasqueradeError as error:
                self.error = error
                self.session.abort(error)
            if self.session.closed:
                self.result = self.stand.result
        except KilledError:
            self.lives, self.starts_at, self.dies_until = False, self.dies_until or 0.0, None
            self.error = None if self.error is None else self.error
            self.role.close()
            self.group.network.die(self.name, self.starts_at)

    def _turn(self) -> None:
        while self._role_goes_on():
            pass
        if not self.session.closed:
            self.session.step()

    def _role_goes_on(self) -> bool:
        stand = self.stand
        answer: Any = None
        if stand.returned:
            return False
        if isinstance(stand.effect, Once):
            answer = self._draw(stand.effect)
        elif stand.effect is not None:
            if isinstance(stand.effect, Send) and self.group.clock.now < self._came_at + self.slow:
                return False
            if not stand.begun:
                stand.begun = True
                if isinstance(stand.effect, Release):
                    self._released.append(stand.effect.label)
                self.session.begin(stand.effect)
            answers = self.session.answers()
            if not answers:
                return False
            (answer,) = answers
            if isinstance(stand.effect, (Join, Receive)):
                self._came_at = self.group.clock.now
        try:
            stand.effect, stand.begun = self.role.send(answer), False
        except StopIteration as stop:
            stand.effect, stand.returned, stand.result = None, True, stop.value
            returned(self.session, stop.value)
        return True

    def _draw(self, once: Once) -> Any:
        """Draw: the same number each time until it is in the journal, and from then on another one."""
        before = self.journal.ever[once.label]
        packed = pack_plain(once.compute(SimulationRng(f"{once.label} {before}", self.name)))
        self.session.steps.note("once", label=once.label, data=packed)
        result = unpack_plain(packed)
        self.group.drawn.append(result)
        return result


class Group:
    """Charlie and the parties, with one clock and one network."""

    def __init__(
        self,
        play: Play,
        seed: int = 0,
        faults: Sequence[Fault] = (),
        costs: Mapping[str, Mapping[bytes, frozenset[str]]] | None = None,
    ) -> None:
        self.play = play
        self.drawn: list[Any] = []
        self.clock = Clock()
        study = play.world.study
        self.forecast = play.forecast
        self.network = Network(self.clock, study.names, seed, faults)
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.costs = costs or {}
        self.sites = {name: Site(self, name) for name in (*study.names, CHARLIE)}
        self.network.kill = self._kill

    def _kill(self, name: str, until: float) -> None:
        """Let a process die at its next moment, or with its next turn."""
        site = self.sites[name]
        if site.lives and not site.over:
            site.dies_until = until

    def session(self, site: Site) -> Any:
        """Make a participant's session."""
        world, keys = self.play.world, self.play.world.keys[site.name]
        observe = partial(self._observe, site.name)
        if site.name == CHARLIE:
            link = FaultyCharlieLink(self.network, site)
            return CharlieSession(
                world.study,
                keys,
                lambda: link,
                version=self.play.protocol.version,
                clock=self.clock,
                observe=observe,
                forecast=self.forecast,
            )
        return PartySession(
            site.name,
            world.study,
            keys,
            lambda: FaultyPartyLink(self.network, site),
            lambda: Answer.CHARLIE,
            version=self.play.protocol.version,
            clock=self.clock,
            debits=site,
            observe=observe,
            forecast=self.forecast,
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
        with arithmetic_is_remembered():
            while not all(site.over for site in self.sites.values()):
                assert self.clock.now < end, f"these hang: {[n for n, site in self.sites.items() if not site.over]}"
                for site in self.sites.values():
                    site.turn()
                self.move_on()
        twice = {where: len(contents) for where, contents in self.network.signed.items() if len(contents) > 1}
        assert not twice, f"frames of one number with several contents: {twice}"

    def move_on(self) -> None:
        """Move the clock on to what happens next."""
        self.clock.now = self.network.next_event({name: site.reads_from for name, site in self.sites.items()})

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
    costs: Mapping[str, Mapping[bytes, frozenset[str]]]
    moments: Mapping[str, int]


@cache
def without_faults(name: str) -> Expected:
    """Run a protocol over a network that never fails."""
    group = Group(play(name))
    group.run()
    assert not group.errors, group.errors
    files = group.files(CHARLIE)
    assert all(group.files(party) == files for party in group.play.world.study.names)
    parties = {party: group.sites[party] for party in group.play.world.study.names}
    return Expected(
        files,
        group.network.frames,
        {party: site.debited for party, site in parties.items()},
        {party: site.costs for party, site in parties.items()},
        {name: site.moments for name, site in group.sites.items()},
    )


def completes(name: str, group: Group) -> Group:
    """Run a group to its end, which must be that of the run without faults."""
    expected = without_faults(name)
    group.run()
    assert not group.errors, {who: str(error) for who, error in group.errors.items()}
    for who, site in group.sites.items():
        assert group.files(who) == expected.files, f"{who} has another result"
        assert site.debited == expected.debited.get(who, [])
    return group


def _schedule(name: str, seed: int, *arguments: float, kills: bool = False) -> list[Fault]:
    return faults_of(seed, play(name).world.study.names, without_faults(name).frames, *arguments, kills=kills)


def schedule_of_ends(name: str, seed: int) -> list[Fault]:
    """Return the schedule of :func:`check_ends`: outages of any length."""
    return _schedule(name, seed, 3 * DEADLINE)


def _group(name: str, seed: int, faults: Sequence[Fault]) -> Group:
    return Group(play(name), seed, faults, without_faults(name).costs)


def check_network(name: str, seed: int) -> Group:
    """Run a schedule in which the network fails, each time for less than the deadline."""
    return completes(name, _group(name, seed, _schedule(name, seed)))


def check_kills(name: str, seed: int) -> Group:
    """Run a schedule in which processes die as well."""
    return completes(name, _group(name, seed, _schedule(name, seed, 20.0, kills=True)))


def check_kill_at(name: str, who: str, moment: int, rolls_back: int = 0) -> Group:
    """Let one process die at one moment, and start it again with its journal, or with an older copy of that."""
    # A party whose journal is an older copy may begin another run, whose frames are others.
    group = Group(play(name), moment, (), None if rolls_back else without_faults(name).costs)
    site = group.sites[who]
    site.kill_at, site.rolls_back = moment, rolls_back
    if not rolls_back:
        return completes(name, group)
    group.run()
    return group


def check_ends(name: str, seed: int) -> Group:
    """Run a schedule with outages of any length: it completes, or ends for everybody, and nobody is accused."""
    group = _group(name, seed, schedule_of_ends(name, seed))
    group.run()
    for error in group.errors.values():
        assert type(error) in (CannotConnect, DeadlinePassed, RunFailed), f"{type(error).__name__}: {error}"
    for who, site in group.sites.items():
        assert site.error is not None or group.files(who) == without_faults(name).files
    return group


PLAYS = (
    "dp-whitened",
    "dp-gd",
    "local-aggregation",
    "psgd",  # and with it noisy-gradient and decaying-budget, whose roles are the same
    "weighted-dp",
    "vote",
    "soft",
    "input-noise",
    "summary",
)
CHECKS: dict[str, Callable[[str, int], Group]] = {
    "network": check_network,
    "kills": check_kills,
    "ends": check_ends,
}

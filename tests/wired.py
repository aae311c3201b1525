"""Sessions joined by lists instead of sockets, on a clock that the test moves: every byte can be seen and changed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from masquerade_core.crypto.pair_keys import BoxKey
from masquerade_core.errors import MasqueradeError
from masquerade_core.seat import Receive, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import encode
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.messages import Hello, Roster
from masquerade_host.session.party import PartySession
from masquerade_host.transport.dialer import Answer
from masquerade_host.transport.interface import Arrival, ConnectionEvent
from tests.helpers import joining
from tests.host_helpers import VERSION, World


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeCharlieLink:
    """Charlie's messages are in ``sent``."""

    sent: list[tuple[str, bytes]] = field(default_factory=list)
    inbox: list[Arrival] = field(default_factory=list)
    address: str = "tcp://here"
    sockets: tuple[Any, ...] = ()
    busy: bool = False
    strangers: int = 0
    told: list[tuple[bytes, bytes]] = field(default_factory=list)
    routes: dict[str, bytes] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    hung_up: list[tuple[str, bytes]] = field(default_factory=list)

    def arrivals(self) -> Iterator[Arrival]:
        """Take what has arrived."""
        while self.inbox:
            yield self.inbox.pop(0)

    def found(self, name: str, route: bytes) -> None:
        """Remember the way back."""
        self.routes[name] = route
        self.gone.discard(name)

    def forget(self, name: str) -> None:
        """Nothing waits here."""

    def send(self, name: str, data: bytes) -> None:
        """Send."""
        self.sent.append((name, data))

    def hang_up(self, name: str, route: bytes) -> None:
        """Remember who was hung up."""
        self.hung_up.append((name, route))

    def flush(self) -> None:
        """Nothing waits here."""

    def reachable(self, name: str) -> bool:
        """Unless the test says otherwise."""
        return name not in self.gone

    def tell(self, route: bytes, data: bytes) -> bool:
        """Send along another route than a party's own."""
        self.told.append((route, data))
        return True

    def denied(self) -> int:
        """As many strangers as the test says."""
        count, self.strangers = self.strangers, 0
        return count

    def close(self, linger: int) -> None:
        """Close."""


@dataclass
class FakePartyLink:
    """The party's messages are in ``sent``."""

    sent: list[bytes] = field(default_factory=list)
    inbox: list[bytes | None] = field(default_factory=list)
    events: list[ConnectionEvent] = field(default_factory=lambda: [ConnectionEvent.CONNECTED])
    sockets: tuple[Any, ...] = ()
    busy: bool = False
    reopened: int = 0
    reachable: bool = True
    alive: bool = True

    def connection_events(self) -> Iterable[ConnectionEvent]:
        """Take what happened."""
        events, self.events = self.events, []
        return events

    def arrivals(self) -> Iterator[bytes | None]:
        """Take what has arrived."""
        while self.inbox:
            yield self.inbox.pop(0)

    def send(self, data: bytes) -> None:
        """Send."""
        if self.alive:
            self.sent.append(data)

    def flush(self) -> None:
        """Nothing waits here."""

    def reopen(self) -> None:
        """Connect again at once, where that is possible; what lay in the old connection is gone."""
        self.inbox.clear()
        self.sent.clear()
        self.reopened += 1
        self.alive = self.reachable
        self.events.append(ConnectionEvent.CONNECTED if self.reachable else ConnectionEvent.UNREACHED)

    def close(self, linger: int) -> None:
        """Close."""


def announced_by(world: World, name: str, key: BoxKey | None = None) -> dict[str, bytes]:
    """A participant's announcement when it joins, by default with a fresh key."""
    join = joining(name, key=key)
    proof = join.prove(study_id=world.study.study_id(VERSION), signing=world.keys[name].public.sign)
    return {"box_key": join.box_key, "nonce": join.nonce, "proof": proof}


def hello_of(world: World, name: str, key: BoxKey | None = None) -> bytes:
    """The body of a party's hello."""
    return encode(Hello(version=VERSION, **announced_by(world, name, key)), CHARLIE)


def roster_of(world: World, hellos: Iterable[bytes], key: BoxKey | None = None) -> Roster:
    """A roster with these hellos."""
    return Roster(hellos=tuple(hellos), **announced_by(world, CHARLIE, key))


Tamper = Callable[[str, str, bytes], Iterable[bytes | None]]


def faithful(_source: str, _to: str, data: bytes) -> Iterable[bytes | None]:
    """Pass every frame on as it is."""
    return (data,)


class Wired:
    """Charlie's session and K parties' sessions.

    Parameters
    ----------
    world : World
    studies, versions : mapping of str
        Another study or version for one of them.
    """

    def __init__(
        self,
        world: World,
        studies: dict[str, Study] | None = None,
        versions: dict[str, str] | None = None,
        answers: Answer = Answer.CHARLIE,
    ) -> None:
        studies, versions = studies or {}, versions or {}
        self.world = world
        self.clock = Clock()
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.link = FakeCharlieLink()
        self.links = {name: FakePartyLink() for name in world.study.names}
        self.routes = {name: name.encode() for name in world.study.names}
        self.restarts = 0
        self.tamper: Tamper = faithful
        self.who_answers = answers
        self.charlie = CharlieSession(
            studies.get(CHARLIE, world.study),
            world.keys[CHARLIE],
            lambda: self.link,
            version=versions.get(CHARLIE, VERSION),
            observe=self._observer(CHARLIE),
            clock=self.clock,
        )
        self.parties = {name: self._party(name, studies.get(name), versions.get(name)) for name in world.study.names}
        self.errors: dict[str, MasqueradeError] = {}
        self.answers: dict[str, Any] = {}
        self.charlie.open()

    def _observer(self, name: str) -> Any:
        def observe(event: str, /, **fields: str | float) -> None:
            self.events.append((name, event, fields))

        return observe

    def _party(self, name: str, study: Study | None, version: str | None) -> PartySession:
        return PartySession(
            name,
            study or self.world.study,
            self.world.keys[name],
            lambda: self.links[name],
            lambda: self.who_answers,
            version=version or VERSION,
            observe=self._observer(name),
            clock=self.clock,
        )

    def cut(self, name: str) -> None:
        """Break a party's connection, with all that lies in it; the next one takes another route."""
        self.links[name].events.append(ConnectionEvent.LOST)
        self.links[name].alive = False
        self.link.gone.add(name)
        self.links[name].inbox.clear()
        self.links[name].sent.clear()
        self.link.sent = [(to, data) for to, data in self.link.sent if to != name]
        self.link.inbox = [arrival for arrival in self.link.inbox if arrival.name != name]
        self.routes[name] += b"'"

    def restart(self, name: str, study: Study | None = None, version: str | None = None) -> None:
        """Exchange a party's session for a new one that comes along another route."""
        self.links[name] = FakePartyLink()
        self.link.gone.add(name)
        self.restarts += 1
        self.routes[name] += b"'%d" % self.restarts
        self.parties[name] = self._party(name, study, version)
        self.answers.pop(name, None)
        self.errors.pop(name, None)

    @property
    def sessions(self) -> dict[str, CharlieSession | PartySession]:
        """Everybody's, Charlie last."""
        return {**self.parties, CHARLIE: self.charlie}

    def seen(self, name: str) -> list[str]:
        """Return the events of one participant."""
        return [event for who, event, _ in self.events if who == name]

    def begin(self, name: str, effect: Any) -> None:
        """Let a participant's role ask for something."""
        self._guard(name, lambda: self.sessions[name].begin(effect))

    def finish(self, name: str) -> None:
        """Let a participant's role return."""
        self._guard(name, self.sessions[name].finish)

    def _guard(self, name: str, action: Callable[[], None]) -> None:
        session = self.sessions[name]
        if name in self.errors:
            return
        try:
            action()
        except MasqueradeError as error:
            self.errors[name] = error
            session.abort(error)
        for answer in session.answers():
            self.answers[name] = answer

    def pump(self, rounds: int = 4, seconds: float = 0.0) -> None:
        """Step everybody and carry the frames; the clock moves by ``seconds`` after each round."""
        for _ in range(rounds):
            for name, session in self.sessions.items():
                if not session.closed:
                    self._guard(name, session.step)
                self._carry()
            self.clock.now += seconds

    def _carry(self) -> None:
        for name, link in self.links.items():
            sent, link.sent = link.sent, []
            for data in sent:
                self.link.inbox += [Arrival(name, self.routes[name], d) for d in self.tamper(name, CHARLIE, data)]
        sent_by_charlie, self.link.sent = self.link.sent, []
        for name, data in sent_by_charlie:
            if self.link.routes[name] != self.routes[name] or not self.links[name].alive:
                continue  # that connection is gone
            self.links[name].inbox += self.tamper(CHARLIE, name, data)
        told, self.link.told = self.link.told, []
        for route, data in told:
            for name, link in self.links.items():
                if self.routes[name] == route:
                    link.inbox += self.tamper(CHARLIE, name, data)

    def join(self, *names: str) -> None:
        """Let these participants join, by default all."""
        for name in names or (*self.world.study.names, CHARLIE):
            self.begin(name, joining(name))
        self.pump()

    def say(self, name: str, body: bytes = b"hello", kind: str = "Hi", to: str | None = None) -> None:
        """Send a message to Charlie (from a party) or to ``to`` (from Charlie)."""
        self.begin(name, Send("message", kind, (to or CHARLIE,), (body,)))

    def send_sealed(self, name: str, kind: str, to: tuple[str, ...], boxes: tuple[bytes, ...]) -> None:
        """SealedMessage."""
        self.begin(name, Send("sealed", kind, to, boxes))

    def tell_all(self, body: bytes, kind: str = "News") -> None:
        """Let Charlie's role broadcast."""
        names = self.world.study.names
        self.begin(CHARLIE, Send("message", kind, names, (body,) * len(names), broadcast=True))

    def expect(
        self, name: str, kind: str, senders: tuple[str, ...], *, sealed: bool = False, broadcast: bool = False
    ) -> None:
        """Wait for something."""
        self.begin(name, Receive("sealed" if sealed else "message", kind, senders, broadcast))

"""Participants whose processes die at any moment and are started again, with journals in memory and no sockets.

A *site* is one participant's machine: its journal outlives its process. A process is a session, a role and a driver
without threads. It can be killed at every *moment* at which something becomes visible or durable: before a draw is
noted, before and after a commit, before and after a frame leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from masquerade_core.crypto.boxes import SIGNATURE_BYTES
from masquerade_core.errors import MasqueradeError
from masquerade_core.rng import SystemRng
from masquerade_core.seat import Effect, Once, Release, Seat
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_host.process.driver import Stand, resume, returned
from masquerade_host.process.program import Program
from masquerade_host.session.charlie import CharlieSession
from masquerade_host.session.party import PartySession
from masquerade_host.store.journal import Entry, Journal, ReplayLog
from masquerade_host.transport.dialer import Answer
from masquerade_host.transport.interface import Arrival, ConnectionEvent
from tests.host_helpers import VERSION, All, Hi, World
from tests.wired import Clock, FakeCharlieLink, FakePartyLink

Role = Coroutine[Effect, Any, Any]
NUMBERED = ("roster", "message", "sealed", "closed")


class KilledError(BaseException):
    """The process is gone: nothing after this line happens in it."""


class MemoryJournal(Journal):
    """Rows that outlive the process, and tell when something becomes durable."""

    kept = True

    def __init__(self, moment: Callable[[str], None]) -> None:
        self.rows: list[Entry] = []
        self.commits = 0
        self._moment = moment

    def opened(self) -> MemoryJournal:
        """Return the journal as the next process finds it."""
        self.run = next((row.data for row in self.rows if row.kind == "run"), b"")
        return self

    def entries(self) -> Iterator[Entry]:
        return iter(tuple(self.rows))

    def commit(self, entries: Sequence[Entry] = ()) -> None:
        if entries:
            self._moment("commit")
            self.commits += 1
            self.rows += entries
            self._moment("committed")


@dataclass
class Net:
    """The carrier of frames between sites: in order on a connection, and lost with it."""

    to_charlie: list[Arrival] = field(default_factory=list)
    to_party: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    left: dict[tuple[Any, ...], set[bytes]] = field(default_factory=lambda: defaultdict(set))

    def note(self, data: bytes, hop: str) -> None:
        """Remember the bytes of a numbered frame: one number never has two contents."""
        version, run, source, to, kind, number, kind_of, _body = msgpack.unpackb(data[SIGNATURE_BYTES:])
        if kind in NUMBERED:
            self.left[version, run, source.strip(), to.strip(), hop, number].add(
                kind.encode() + kind_of.encode() + data
            )


class Site:
    """One participant's machine."""

    def __init__(self, group: Group, name: str, role: Callable[[Seat], Role]) -> None:
        self.group = group
        self.name = name
        self.make_role = role
        self.journal = MemoryJournal(self.moment)
        self.moments = 0
        self.kill_at = -1
        self.lives = False
        self.starts = 0
        self.result: Any = None
        self.error: MasqueradeError | None = None
        self.program = Program()
        self.parts = False
        self.debited: list[str] = []
        self.put_back: list[str] | None = None
        self.messages: set[bytes] = set()

    def moment(self, _what: str) -> None:
        """Die here, if this is the moment."""
        self.moments += 1
        if self.moments == self.kill_at:
            raise KilledError

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        """Keep the ledger: each label once."""
        assert run == self.session.run
        self.moment("debit")
        self.debited += [release.label for release in releases if release.label not in self.debited]

    def labels(self, run: bytes) -> frozenset[str]:
        """Return what stands in the ledger, or in the older copy that was put in its place."""
        assert run == self.session.run
        return frozenset(self.debited if self.put_back is None else self.put_back)

    def pay(self, data: bytes) -> None:
        """Check that a message is paid for before it leaves; in these tests' roles each releases something."""
        fields = msgpack.unpackb(data[SIGNATURE_BYTES:])
        if fields[4] == "message":
            self.messages.add(fields[5])
            assert len(self.messages) <= len(self.debited), "a message left before its release was debited"

    def start(self) -> None:
        """Start a process, which finds what an earlier one left."""
        self.starts += 1
        self.lives, self.error = True, None
        self.session = self.group.session(self)
        self.parts = False
        self.rng = SimulationRng(int.from_bytes(f"{self.name} {self.starts}".encode()))
        self.role = self.make_role(Seat(self.name, self.session.names))
        self.stand = Stand()
        self._guarded(self._open)

    def _open(self) -> None:
        self.journal.opened()
        self.parts = bool(self.journal.run)  # until this process stands where the last one stood
        self.session.steps = ReplayLog(self.journal)
        self.session.steps.begin(self.session.program, b"")
        self.session.open()
        self.stand = resume(self.role, self.session)
        self.parts = False
        if self.session.steps.passed:
            self.session.resumed(SystemRng().bytes(16))
        self._finish()

    def turn(self) -> None:
        """Let the process do what it can."""
        if self.lives and self.parts and self.error is not None:
            self.parts = not self.session.part(self.journal.run, self.session.last_word(self.error))
        if self.lives and not self.session.closed and self.error is None:
            self._guarded(self._turn)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except KilledError:
            self.kill()
        except MasqueradeError as error:
            self.error = error
            self.role.close()
            try:
                if not self.parts:
                    self.session.abort(error)
            except KilledError:
                self.kill()

    def kill(self) -> None:
        """The process is gone, with its connections."""
        self.lives = False
        self.group.cut(self.name)

    def _turn(self) -> None:
        while self._role_goes_on():
            pass
        self.session.step()
        self._finish()

    def _finish(self) -> None:
        if self.session.closed and self.stand.returned:
            self.result = self.stand.result

    def _role_goes_on(self) -> bool:
        stand, session = self.stand, self.session
        if stand.returned:
            return False
        answer: Any = None
        if isinstance(stand.effect, Once):
            packed = pack_plain(stand.effect.compute(self.rng))
            session.steps.note("once", label=stand.effect.label, data=packed)
            answer = unpack_plain(packed)
        elif stand.effect is not None:
            if not stand.begun:
                stand.begun = True
                session.begin(stand.effect)
            answers = session.answers()
            if not answers:
                return False
            (answer,) = answers
        try:
            stand.effect, stand.begun = self.role.send(answer), False
        except StopIteration as stop:
            stand.effect, stand.returned, stand.result = None, True, stop.value
            returned(session, stop.value)
        return True


class _PartyLink(FakePartyLink):
    def __init__(self, group: Group, site: Site) -> None:
        super().__init__()
        self._group, self._site = group, site
        group.connect(site.name)

    def send(self, data: bytes) -> None:
        self._site.moment("send")
        self._site.pay(data)
        self._group.carry(self._site.name, CHARLIE, data)
        self._site.moment("sent")

    def arrivals(self) -> Iterator[bytes | None]:
        while self._group.net.to_party[self._site.name]:
            yield self._group.net.to_party[self._site.name].pop(0)

    def reopen(self) -> None:
        self._group.connect(self._site.name)
        self.reopened += 1
        self.events.append(ConnectionEvent.CONNECTED)


class _CharlieLink(FakeCharlieLink):
    def __init__(self, group: Group, site: Site) -> None:
        super().__init__()
        self._group, self._site = group, site

    def send(self, name: str, data: bytes) -> None:
        self._site.moment("send")
        if self.routes.get(name) == self._group.routes[name]:
            self._group.carry(CHARLIE, name, data)
        self._site.moment("sent")

    def reachable(self, name: str) -> bool:
        return self.routes.get(name) == self._group.routes[name]

    def tell(self, route: bytes, data: bytes) -> bool:
        for name, latest in self._group.routes.items():
            if latest == route:
                self._group.carry(CHARLIE, name, data)
        return route in self._group.routes.values()

    def arrivals(self) -> Iterator[Arrival]:
        while self._group.net.to_charlie:
            yield self._group.net.to_charlie.pop(0)


class Group:
    """Charlie's site and the parties', with one clock and one network."""

    site: type[Site] = Site

    def __init__(self, world: World, roles: dict[str, Callable[[Seat], Role]]) -> None:
        self.world = world
        self.clock = Clock()
        self.net = Net()
        self.routes: dict[str, bytes] = {}
        self._connections = 0
        self.links: dict[str, _PartyLink] = {}
        self.tamper: Callable[[str, str, bytes], bytes | None] = lambda _source, _to, data: data
        self.sites = {name: self.site(self, name, roles[name]) for name in (*world.study.names, CHARLIE)}

    def session(self, site: Site) -> PartySession | CharlieSession:
        """Make a session of a new process."""
        keys = self.world.keys[site.name]
        if site.name == CHARLIE:
            link = _CharlieLink(self, site)
            return CharlieSession(
                self.world.study, keys, lambda: link, version=VERSION, clock=self.clock, program=site.program
            )
        return PartySession(
            site.name,
            self.world.study,
            keys,
            lambda: self._link(site),
            lambda: Answer.CHARLIE,
            version=VERSION,
            clock=self.clock,
            debits=site,
            program=site.program,
        )

    def _link(self, site: Site) -> _PartyLink:
        self.links[site.name] = _PartyLink(self, site)
        return self.links[site.name]

    def connect(self, name: str) -> None:
        """Give a party a new connection: what is under way on the old one is lost."""
        self._connections += 1
        self.routes[name] = f"{name}.{self._connections}".encode()
        self.net.to_party[name].clear()
        self.net.to_charlie = [arrival for arrival in self.net.to_charlie if arrival.name != name]

    def cut(self, name: str) -> None:
        """Lose the connections of a process that died."""
        for party in self.world.study.names if name == CHARLIE else (name,):
            if party in self.links:
                self.connect(party)
                if name == CHARLIE and self.sites[party].lives:
                    self.links[party].events += [ConnectionEvent.LOST, ConnectionEvent.CONNECTED]

    def carry(self, source: str, to: str, data: bytes) -> None:
        """Put a frame on its way."""
        self.net.note(data, to if source == CHARLIE else source)
        changed = self.tamper(source, to, data)
        if changed is None:
            return
        if to == CHARLIE:
            self.net.to_charlie.append(Arrival(source, self.routes[source], changed))
        else:
            self.net.to_party[to].append(changed)

    def run(
        self, turns: int = 300, *, down: int = 3, seconds: float = 0.3, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Let everybody go on until all have ended; who dies is started again after ``down`` turns."""
        dead: dict[str, int] = {}
        for site in self.sites.values():
            if not site.starts:
                site.start()
        for _ in range(turns):
            for name, site in self.sites.items():
                if not site.lives:
                    dead[name] = dead.get(name, 0) + 1
                    if dead[name] > down:
                        dead[name] = 0
                        site.start()
                site.turn()
            self.clock.now += seconds
            if until() or all(site.lives and (site.session.closed or site.error) for site in self.sites.values()):
                return

    def twice(self) -> list[tuple[Any, ...]]:
        """Return the places of frames that had two contents."""
        return [where for where, contents in self.net.left.items() if len(contents) > 1]

    def check(self) -> None:
        """Nobody failed, all have one result, and no number of a frame ever had two contents."""
        assert {name: site.error for name, site in self.sites.items() if site.error} == {}
        assert len({site.result for site in self.sites.values()}) == 1
        assert self.twice() == []


# --- Roles ------------------------------------------------------------------------------


async def noisy_rounds(seat: Seat, rounds: int) -> bytes:
    """A party's rounds: each sends fresh noise, and hears everybody's."""
    told = b""
    for number in range(rounds):
        noise = await seat.once(f"noise {number}", lambda rng: rng.bytes(8))
        await seat.release(f"round {number}", 0.1, 0.0)
        await seat.send(CHARLIE, Hi(coin=noise, sealed=b""))
        told += (await seat.receive(All, CHARLIE)).coins
    return told


async def shows_all(seat: Seat, rounds: int) -> bytes:
    """Charlie's part: he shows each round's noise to all."""
    await seat.join()
    told = b""
    for _ in range(rounds):
        coins = b"".join(hi.coin for hi in (await seat.gather(Hi, seat.names)).values())
        await seat.broadcast(All(coins=coins))
        told += coins
    return told

"""The table: all roles of one run in one process and one thread, with the same signed frames as between processes.

A *role* is one participant's part of a protocol, written as a coroutine (:mod:`masquerade_core.seat`). Simulations,
tests and figures run roles at a table. The table records every effect and its answer, so that :func:`replay` can run a
role a second time and check that it sends the same bytes.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.errors import LocalProtocolError, RunFailed
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.seat import Effect, Join, Once, Progress, Receive, Release, Seat, Send, Stage
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import pack_plain, unpack_plain
from masquerade_core.wire.frames import RUN_BYTES, Endpoint, Frame
from masquerade_core.wire.relay import pack_boxes, split_boxes, target
from masquerade_core.words import listed

__all__ = ["Entry", "Passed", "Replay", "Silence", "Table", "replay"]

Role = Coroutine[Effect, Any, Any]


@dataclass(frozen=True)
class Passed:
    """One frame as Charlie, the server, saw it: sender, recipient, type, and length in bytes."""

    source: str
    to: str
    type: str
    length: int


@dataclass(frozen=True)
class Entry:
    """One effect of a role and its answer; a result of ``once`` is kept as packed bytes."""

    effect: Effect
    answer: Any


@dataclass(frozen=True)
class Silence:
    """From when on a party sends nothing more and hears nothing more, as if its process were killed.

    Parameters
    ----------
    type : str
        A message's type.
    after : int
        How many messages of this type the party has sent before it falls silent, on the way to its next one.
    """

    type: str
    after: int


@dataclass
class _Player:
    """A role with everything that the table keeps for it."""

    role: Role
    endpoint: Endpoint
    rng: Rng
    pending: Effect | None = None
    started: bool = False
    done: bool = False
    result: Any = None
    box_key: bytes | None = None
    journal: list[Entry] = field(default_factory=list)
    silence: Silence | None = None
    sent: Counter[str] = field(default_factory=Counter)
    deadline: float | None = None
    inbox: dict[tuple[str, str], deque[Frame]] = field(default_factory=lambda: defaultdict(deque))


class Table:
    """A run of K parties and Charlie, the server, in memory.

    Parameters
    ----------
    names : sequence of str
        The parties, in the order of the study's roster.
    rngs : mapping of str to Rng, optional
        Each participant's source of randomness; by default the operating system's.
    run : bytes, optional
        The run id, 16 bytes; by default a random one.
    silent : mapping of str to Silence, optional
        The parties that fall silent, and when. Their roles end there and return None.
    groups : mapping of str to tuple of str, optional
        The sub-curators, each with the parties whose messages it gets in Charlie's place. What Charlie broadcasts
        reaches them, too. They have roles of their own.

    Attributes
    ----------
    passed : list of Passed
        All frames that reached or left Charlie, in order.
    stages : list of (str, str)
        (participant, stage), in the order in which the stages began.
    progress : list of (str, Progress)
        (participant, progress), in order.
    releases : list of (str, Release)
        (participant, what a send of it cost in privacy), in order.
    now : float
        The table's clock in seconds. Messages and arithmetic take no time: it moves only where everybody waits, to the
        moment at which a participant's patience ends.
    """

    def __init__(
        self,
        names: Sequence[str],
        rngs: Mapping[str, Rng] | None = None,
        run: bytes | None = None,
        *,
        silent: Mapping[str, Silence] | None = None,
        groups: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        system = SystemRng()
        self.names = tuple(names)
        self.groups = dict(groups or {})
        self._curator_of = {name: sub for sub, group in self.groups.items() for name in group}
        self.run_id = system.bytes(RUN_BYTES) if run is None else run
        everybody = (*self.names, *self.groups, CHARLIE)
        keys = {name: SigningKey(system.bytes(32)) for name in everybody}
        public = {name: key.public for name, key in keys.items()}
        below = {name: key for name, key in public.items() if name != CHARLIE}
        self._endpoints = {
            name: Endpoint(name, self.run_id, keys[name], below if name == CHARLIE else {CHARLIE: public[CHARLIE]})
            for name in everybody
        }
        self._rngs = {name: (rngs or {}).get(name, system) for name in everybody}
        self._players: dict[str, _Player] = {}
        self._silent = dict(silent or {})
        self.now = 0.0
        self.passed: list[Passed] = []
        self.stages: list[tuple[str, str]] = []
        self.progress: list[tuple[str, Progress]] = []
        self.releases: list[tuple[str, Release]] = []

    def seat(self, name: str) -> Seat:
        """Return a new seat for this participant's role."""
        return Seat(name, self.names, self.groups if name == CHARLIE or name in self.groups else {})

    def run(self, roles: Mapping[str, Role]) -> dict[str, Any]:
        """Run all roles to their end and return each role's result by its participant's name.

        Raises
        ------
        RunFailed
            Every role waits for another one, so the protocol is stuck. The message says who waits for whom.
        MasqueradeError
            A role raised it, which ends the run.
        """
        self._players = {
            name: _Player(roles[name], self._endpoints[name], self._rngs[name], silence=self._silent.get(name))
            for name in (*self.names, *self.groups, CHARLIE)
        }
        try:
            while not all(player.done for player in self._players.values()):
                moved = [self._advance(name) for name in self._players]
                if not any(moved) and not self._wait():
                    raise RunFailed(self._stuck())
        finally:
            for player in self._players.values():
                player.role.close()
        return {name: player.result for name, player in self._players.items()}

    def journal(self, name: str) -> tuple[Entry, ...]:
        """Return all effects of this participant's role with their answers, in order."""
        return tuple(self._players[name].journal)

    def _wait(self) -> bool:
        """Move the clock to the moment at which the first participant's patience ends; False if nobody's does."""
        ends = [player.deadline for player in self._players.values() if player.deadline is not None]
        if not ends or min(ends) <= self.now:
            return False
        self.now = min(ends)
        return True

    def _advance(self, name: str) -> bool:
        """Run one role until it has to wait; return whether it did anything."""
        player, moved = self._players[name], False
        while not player.done:
            answer: Any = None
            if player.started:
                ready, answer = self._answer(name, player)
                if not ready:
                    return moved
                if player.pending is not None:
                    player.journal.append(Entry(player.pending, answer))
            player.started = moved = True
            try:
                player.pending = player.role.send(_read(player.pending, answer))
            except StopIteration as stop:
                player.done, player.result = True, stop.value
            if _falls_silent(player):
                player.done = True
        return moved

    def _answer(self, name: str, player: _Player) -> tuple[bool, Any]:
        match player.pending:
            case Once(_, compute):
                return True, pack_plain(compute(player.rng))
            case Send():
                self._deliver(name, player.pending)
            case Receive():
                return self._collect(player, player.pending)
            case Join(box_key):
                player.box_key = box_key
                keys = [(other, self._players[other].box_key) for other in (*self.names, CHARLIE)]
                return all(key is not None for _, key in keys), (tuple(keys), self.run_id)
            case Stage(stage):
                self.stages.append((name, stage))
            case Progress() as progress:
                self.progress.append((name, progress))
            case Release() as release:
                self.releases.append((name, release))
        return True, None

    def _deliver(self, name: str, send: Send) -> None:
        endpoint, charlie = self._endpoints[name], self._endpoints[CHARLIE]
        if send.broadcast:
            data = endpoint.broadcast("message", send.bodies[0], type=send.type)
            for to in (*send.to, *self.groups):
                self._to_party(to, data)
        elif name == CHARLIE:
            for to, body in zip(send.to, send.bodies, strict=True):
                self._to_party(to, endpoint.seal(to, "message", body, type=send.type))
        elif send.kind == "sealed":
            data = endpoint.seal(CHARLIE, "sealed", pack_boxes(send.bodies), type=send.type, to=target(send.to))
            frame = charlie.open(name, data)
            self.passed.append(Passed(frame.source, frame.to, frame.type, frame.size))
            for to, box in split_boxes(frame, self.names):
                self._to_party(to, charlie.seal(to, "sealed", box, type=send.type, source=name))
        else:
            frame = charlie.open(name, endpoint.seal(CHARLIE, "message", send.bodies[0], type=send.type))
            self.passed.append(Passed(frame.source, frame.to, frame.type, frame.size))
            self._players[self._curator_of.get(name, CHARLIE)].inbox[name, "message"].append(frame)

    def _to_party(self, name: str, data: bytes) -> None:
        frame = self._endpoints[name].open(CHARLIE, data)
        self.passed.append(Passed(frame.source, name, frame.type, frame.size))
        self._players[name].inbox[frame.source, frame.kind].append(frame)

    def _collect(self, player: _Player, wanted: Receive) -> tuple[bool, Any]:
        here = [bool(player.inbox[sender, wanted.kind]) for sender in wanted.senders]
        if wanted.within is not None and player.deadline is None:
            player.deadline = self.now + wanted.within
        if not all(here) and (player.deadline is None or self.now < player.deadline):
            return False, None
        player.deadline = None
        return True, tuple(
            _head(player, wanted, sender) if there else None for sender, there in zip(wanted.senders, here, strict=True)
        )

    def _stuck(self) -> str:
        waits = [
            f"{name} waits for {p.pending.type!r} from {listed(p.pending.senders)}"
            for name, p in self._players.items()
            if isinstance(p.pending, Receive) and not p.done
        ]
        return "nobody can go on: " + "; ".join(waits or ["a participant never joined"])


def _falls_silent(player: _Player) -> bool:
    """Count a message that is about to be sent; return whether it is the one on the way to which a party vanishes."""
    if not isinstance(player.pending, Send) or player.done:
        return False
    player.sent[player.pending.type] += 1
    silence = player.silence
    return silence is not None and player.sent[silence.type] > silence.after


def _head(player: _Player, wanted: Receive, sender: str) -> bytes:
    """Take the next body that this sender sent."""
    frame = player.inbox[sender, wanted.kind].popleft()
    if (frame.type, frame.broadcast) != (wanted.type, wanted.broadcast):
        msg = f"{sender} sent {frame.type!r} where {wanted.type!r} is due"
        raise LocalProtocolError(msg)
    return frame.body


def _read(effect: Effect | None, answer: Any) -> Any:
    """Return a stored answer in the form in which the role receives it."""
    return unpack_plain(answer) if isinstance(effect, Once) else answer


@dataclass(frozen=True)
class Replay:
    """What a role sent and returned when it was run again."""

    sent: tuple[Send, ...]
    result: Any


def replay(role: Role, journal: Sequence[Entry]) -> Replay:
    """Run a role again with the answers of its journal, so that nothing is drawn anew.

    Raises
    ------
    LocalProtocolError
        The role asked for something else than the first time, or would send other bytes. Such a role depends on
        something besides its seat: a clock, a source of randomness of its own, or data from another run.
    """
    sent: list[Send] = []
    answer: Any = None
    try:
        for number, entry in enumerate(journal):
            effect = _step(role, answer, number)
            if not _same(effect, entry.effect):
                msg = f"step {number} of a replay is {effect!r:.60} where the run had {entry.effect!r:.60}"
                raise LocalProtocolError(msg)
            if isinstance(effect, Send):
                sent.append(effect)
            answer = _read(entry.effect, entry.answer)
        try:
            role.send(answer)
        except StopIteration as stop:
            return Replay(tuple(sent), stop.value)
        msg = "a replay asked for more after the step with which the run had ended"
        raise LocalProtocolError(msg)
    finally:
        role.close()


def _step(role: Role, answer: Any, number: int) -> Effect:
    try:
        return role.send(answer)
    except StopIteration:
        msg = f"a replay ended before step {number}, although the run had gone on"
        raise LocalProtocolError(msg) from None


def _same(a: Effect, b: Effect) -> bool:
    if isinstance(a, Once) and isinstance(b, Once):
        return a.label == b.label
    return a == b

"""The table: all roles of one run in one process and one thread, with the same signed frames as between processes.

A *role* is one participant's part of a protocol, written as a coroutine (:mod:`masquerade_core.seat`). Simulations,
tests and figures run roles at a table. The table records every effect and its answer, so that
:func:`replay` can run a role a second time and check that it sends the same bytes.
"""

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.errors import LocalProtocolError, RunFailed
from masquerade_core.replaying import Entry, Replay, as_received, replay
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.roster_disclosure import coin_of, shown_to, shows_all
from masquerade_core.seat import Effect, Join, Once, Progress, Receive, Release, Seat, Send, Stage
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import pack_plain
from masquerade_core.wire.frames import RUN_BYTES, Endpoint, Frame, pack_boxes, split_boxes, target
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
    study : Study, optional
        The study that is run. It says whose keys a party is shown (``masquerade_core.roster_disclosure``); all of them
        by default.

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
        study: Study | None = None,
    ) -> None:
        system = SystemRng()
        self.names = tuple(names)
        self.run_id = system.bytes(RUN_BYTES) if run is None else run
        everybody = (*self.names, CHARLIE)
        keys = {name: SigningKey(system.bytes(32)) for name in everybody}
        public = {name: key.public for name, key in keys.items()}
        below = {name: key for name, key in public.items() if name != CHARLIE}
        self._endpoints = {
            name: Endpoint(name, self.run_id, keys[name], below if name == CHARLIE else {CHARLIE: public[CHARLIE]})
            for name in everybody
        }
        self._shows_all = study is None or shows_all(study)
        self._study = study
        self._joined: dict[str, bytes] = {}
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
        return Seat(name, self.names)

    def run(self, roles: Mapping[str, Role]) -> dict[str, Any]:
        """Run all roles to their end and return each role's result by its participant's name.

        Raises
        ------
        RunFailed
            Every role waits for another one, so the protocol is stuck. The message says who waits for whom.
        MasqueradeError
            A role raised it, which ends the run.
        """
        self._joined = {}
        self.__dict__.pop("_keys", None)
        self._players = {
            name: _Player(roles[name], self._endpoints[name], self._rngs[name], silence=self._silent.get(name))
            for name in (*self.names, CHARLIE)
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
                player.pending = player.role.send(as_received(player.pending, answer))
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
                self._joined[name] = box_key
                everybody = len(self._joined) == len(self._players)
                return everybody, self._roster(name) if everybody else None
            case Stage(stage):
                self.stages.append((name, stage))
            case Progress() as progress:
                self.progress.append((name, progress))
            case Release() as release:
                self.releases.append((name, release))
        return True, None

    @cached_property
    def _keys(self) -> tuple[tuple[tuple[str, bytes], ...], bytes]:
        """Everybody's key, once all have joined, and a hash of them, for the root of the tree over all hellos."""
        keys = tuple((name, self._joined[name]) for name in (*self.names, CHARLIE))
        return keys, hashlib.blake2b(b"".join(name.encode() + b"\0" + key for name, key in keys)).digest()

    def _roster(self, name: str) -> tuple[Any, ...]:
        """Return what this participant is shown of the roster, as :class:`Join` has it."""
        keys, root = self._keys
        if self._study is None or self._shows_all:
            return keys, self.run_id
        if name == CHARLIE:
            return keys, self.run_id, root
        shown = (*shown_to(self._study, coin_of(self.run_id, root), name), CHARLIE)
        return tuple((other, self._joined[other]) for other in shown), self.run_id, root

    def _deliver(self, name: str, send: Send) -> None:
        endpoint, charlie = self._endpoints[name], self._endpoints[CHARLIE]
        if send.broadcast:
            data = endpoint.broadcast("message", send.bodies[0], type=send.type)
            for to in send.to:
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
            self._players[CHARLIE].inbox[name, "message"].append(frame)

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

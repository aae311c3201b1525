"""Charlie's hops: what he knows of each party, the state of their connection, and the link over which he sends."""

import math
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from masquerade_core.errors import LocalProtocolError, MasqueradeError, ProtocolViolation
from masquerade_core.wire.frames import Endpoint, Frame, Kind, two_contents
from masquerade_host.channel import CONNECTIONS, Channel
from masquerade_host.session.states import End, HopEvent, HopState, JoinState, Turn, turn_of
from masquerade_host.transport.interface import Arrival, CharlieLink

__all__ = ["Contest", "Hop", "Hops", "Whose"]

_MAX_REPLACED = 64  # connections of one party that are remembered


class Whose(Enum):
    """Whose a party's connection is."""

    SEATED = "the seated process's next one"
    OLDER = "an older one of the seated process"
    ANOTHER = "another process's, which has not been seen before"
    REPLACED = "that of a process that had the seat before"


@dataclass
class Contest:
    """Another process of a party that would take the seat.

    Attributes
    ----------
    arrival : Arrival
        Its newest beat.
    nonce : bytes
        Of the question to the seated process.
    until : float
        When the seated process must have answered.
    """

    arrival: Arrival
    nonce: bytes
    until: float


@dataclass
class Hop:
    """Charlie's knowledge of one party.

    Attributes
    ----------
    name : str
        The party.
    endpoint : Endpoint
        Charlie's end of all hops.
    hello : bytes or None
        The party's signed hello, if Charlie holds one.
    box_key : bytes
        The public key in that hello.
    unowned : ProtocolViolation or None
        The party's fault, where it does not prove to own that key.
    route : bytes
        The connection by which the party came.
    heard : float
        When the party was last heard, in seconds of the session's clock.
    moved : float
        When a numbered frame last came over this hop, or the party last acknowledged something, or it was sent
        something and had acknowledged all else: from then on the next frame is due, or the next acknowledgement.
    channel : Channel
        The numbered frames of this hop.
    company : set of str
        The parties on which Charlie counts, of all hops. This hop's is in it while :attr:`joined`.
    received : int
        How many other frames than hellos came over this connection.
    refused_at : float
        When a connection of this party was last refused.
    waits_for : mapping of str to float
        Whom the party's role waits for, by its last beat, and since when all its beats have said so.
    beaten : bool
        Whether this process of Charlie's has heard a beat of the party.
    closed, digest : bytes
        The frame with which the party closed the run, and the hash in it.
    lost : MasqueradeError or None
        Why the run goes on without this party; None while it takes part.
    replaced : deque of bytes
        Connections of the party before this one: what still comes from there is ignored.
    gone : deque of int
        The tags of the party's processes before this one.
    unseated : deque of bytes
        Those connections before this one which belonged to another process.
    sent_beside : dict of int to bytes
        Frames that such a process sent afterwards, by their numbers.
    contest : Contest or None
        Another process that would take the seat, while the seated one is asked whether it lives.
    """

    name: str
    endpoint: Endpoint
    channel: Channel
    company: set[str] = field(default_factory=set)
    _state: HopState = field(default_factory=lambda: HopState(End.CHARLIE), init=False)
    hello: bytes | None = None
    box_key: bytes = b""
    unowned: ProtocolViolation | None = None
    route: bytes = b""
    heard: float = 0.0
    moved: float = 0.0
    received: int = 0
    refused_at: float = -math.inf
    waits_for: Mapping[str, float] = field(default_factory=dict)
    beaten: bool = False
    closed: bytes = b""
    digest: bytes = b""
    lost: MasqueradeError | None = None
    replaced: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MAX_REPLACED))
    gone: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_REPLACED))
    unseated: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MAX_REPLACED))
    sent_beside: dict[int, bytes] = field(default_factory=dict)
    contest: Contest | None = None

    @property
    def state(self) -> JoinState:
        """The state of Charlie's end."""
        return self._state.now

    @property
    def joined(self) -> bool:
        """Whether Charlie counts on this party: he holds its hello, and it is not away."""
        return self.state not in (JoinState.IDLE, JoinState.AWAY)

    def may_send(self, turn: Turn) -> bool:
        """Say whether Charlie may send this over the hop now."""
        return self._state.may_send(turn)

    def say(self, turn: Turn) -> None:
        """Move the state on before Charlie sends this."""
        self._state.send(turn)
        self._keep_company()

    def seal(self, turn: Turn, body: bytes, *, type: str = "", source: str | None = None) -> bytes:  # noqa: A002
        """Move the state on, and make the frame; ``type`` and ``source`` as in :meth:`Endpoint.seal`."""
        self.say(turn)
        kind: Kind = "hello" if turn is Turn.REFUSAL else turn.value
        return self.endpoint.seal(self.name, kind, body, type=type, source=source)

    def receive(self, turn: Turn) -> None:
        """Move the state on after a frame of the party; an illegal one is the party's fault."""
        before = self._state.now
        self._state.receive(turn, self.name)
        if self._state.now is not before:
            self._keep_company()

    def note(self, event: HopEvent) -> None:
        """Move the state on after an event."""
        self._state.note(event)
        self._keep_company()

    def _keep_company(self) -> None:
        (self.company.add if self.joined else self.company.discard)(self.name)

    def turn_of_hello(self, frame: Frame, arrival: Arrival) -> Turn:
        """Return the turn of a frame of kind ``hello``, which depends on what came over this hop before.

        Parameters
        ----------
        frame : Frame
        arrival : Arrival
            The same frame as it arrived.

        Raises
        ------
        ProtocolViolation
            The party's fault: a hello of a type that does not exist.
        """
        here, same = arrival.route == self.route, arrival.data == self.hello
        turn = turn_of(frame)
        began = self.state.has_roster or self.state is JoinState.ENDED
        if turn is Turn.FIELDS:
            return turn
        # Who acknowledged the roster, or sent anything since, has it in the journal. A process that then says hello
        # again has an older copy of the journal. It cannot take part, for it would not know the run's frames.
        unseated = self.state is JoinState.SEATED and not (self.channel.acknowledged or self.channel.taken)
        if same and (not self.received if here else unseated):
            return Turn.SAME_HELLO
        if here and (self.received or began):
            return Turn.LATE_HELLO
        if turn is None:  # every party would find it in the roster, and blame Charlie
            raise ProtocolViolation(
                f"{self.name} sent a hello of an unknown type; only a plain one and one of type 'fields' are allowed",
                peer=self.name,
            )
        if turn is Turn.HELLO and not frame.own:
            return Turn.FOREIGN_HELLO
        return Turn.STALE_HELLO if turn is Turn.HELLO and began else turn

    def whose(self, connection: int) -> Whose:
        """Say whose a connection is: the seated process's next one or an older one, or another process's.

        A process that was started again counts its connections anew, under a tag of its own (:func:`first_connection`).
        """
        process, number = divmod(connection, CONNECTIONS)
        current, latest = divmod(self.channel.connection, CONNECTIONS)
        if process in self.gone:
            return Whose.REPLACED
        if process != current:
            return Whose.ANOTHER
        return Whose.OLDER if number <= latest else Whose.SEATED

    def make_room(self) -> None:
        """Take the seat from the process that has it; what it still sends is compared with what the next one sends."""
        self.gone.append(self.channel.connection // CONNECTIONS)
        if self.route:
            self.unseated.append(self.route)

    def beside(self, frame: Frame) -> None:
        """Compare a numbered frame with what another process of the party sends, or has sent, under the same number.

        Raises
        ------
        StateCopied
            They differ. A process that goes on where another one died sends the same bytes again.
        """
        other = self.sent_beside.get(frame.number)
        if other is not None and other != frame.data:
            raise two_contents(self.name, frame, other)

    def note_beside(self, frame: Frame) -> None:
        """Take note of a numbered frame of a process that has lost the seat, and compare it.

        Raises
        ------
        StateCopied
            Another process of the party has sent another frame under its number.
        """
        if not self.endpoint.compare(self.name, frame) and len(self.sent_beside) < _MAX_REPLACED:
            self.beside(frame)
            self.sent_beside[frame.number] = frame.data

    def move(self, route: bytes) -> None:
        """Listen to the party on another connection, and to the old one no more."""
        self.contest = None
        if self.route not in (b"", route):
            self.replaced.append(self.route)
        self.route, self.received = route, 0
        self.channel.break_off()

    def forget_hello(self) -> None:
        """Hold no hello of this party any more, and listen to its connection no more."""
        self.move(b"")
        self.hello, self.waits_for = None, {}

    def hear_waits(self, names: Collection[str], now: float) -> None:
        """Take note of whom a beat says that the party's role waits for."""
        self.waits_for = {name: self.waits_for.get(name, now) for name in names if name != self.name}


class Hops(dict[str, Hop]):
    """All hops by the name of the party, in roster order, and the link that they share.

    Parameters
    ----------
    names : sequence of str
    endpoint : Endpoint
        Charlie's end of all hops.

    Attributes
    ----------
    link : CharlieLink or None
        None until Charlie listens.
    company : set of str
        The parties on which Charlie counts.
    """

    def __init__(self, names: Sequence[str], endpoint: Endpoint) -> None:
        self.link: CharlieLink | None = None
        self.company: set[str] = set()
        super().__init__({name: Hop(name, endpoint, self._channel_to(name), self.company) for name in names})

    def _channel_to(self, name: str) -> Channel:
        return Channel(name, lambda data: self.out.send(name, data))

    @property
    def out(self) -> CharlieLink:
        """The link.

        Raises
        ------
        LocalProtocolError
            Charlie does not listen yet.
        """
        if self.link is None:
            raise LocalProtocolError("Charlie's session was used before it was opened")
        return self.link

    @property
    def joined(self) -> tuple[Hop, ...]:
        """The hops of the parties on which Charlie counts."""
        return tuple(hop for hop in self.values() if hop.name in self.company)

    @property
    def there(self) -> tuple[Hop, ...]:
        """The hops of the parties that still take part."""
        return tuple(hop for hop in self.values() if hop.lost is None)

    def say(self, hop: Hop, turn: Turn, body: bytes, *, type: str = "") -> None:  # noqa: A002
        """Send a frame without a number to a party; :meth:`Hop.seal` says whether it may be sent."""
        self.out.send(hop.name, hop.seal(turn, body, type=type))

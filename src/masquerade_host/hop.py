"""Charlie's view of one hop: what he knows of one party, and the state of their connection."""

import math
from collections import deque
from dataclasses import dataclass, field

from masquerade_core.errors import MasqueradeError, ProtocolViolation
from masquerade_core.wire.frames import Endpoint, Frame, Kind
from masquerade_host.lane import CONNECTIONS, Lane
from masquerade_host.session_states import End, HopEvent, JoinState, Turn, after, may_send, received, sending
from masquerade_host.transport import Arrival

__all__ = ["Hop", "turn_of"]

_MAX_REPLACED = 64  # connections of one party that are remembered

_HELLOS = {"": Turn.HELLO, "fields": Turn.FIELDS, "refusal": Turn.REFUSAL}


def turn_of(frame: Frame) -> Turn | None:
    """Return a frame's turn by its header alone; ``None`` for a hello of a type that does not exist."""
    return _HELLOS.get(frame.type) if frame.kind == "hello" else Turn(frame.kind)


@dataclass
class Hop:
    """What Charlie knows of one party.

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
    route : bytes
        The connection by which the party came.
    heard : float
        When the party was last heard, in seconds of the session's clock.
    lane : Lane
        The numbered frames of this hop.
    received : int
        How many other frames than hellos came over this connection.
    refused_at : float
        When a connection of this party was last refused.
    waits_for : tuple of str
        Whom the party's role waits for, by its last beat.
    closed, digest : bytes
        The frame with which the party closed the run, and the hash in it.
    lost : MasqueradeError or None
        Why the run goes on without this party; None while it takes part.
    replaced : deque of bytes
        Connections of the party before this one: what still comes from there is ignored.
    gone : deque of int
        The tags of the party's processes before this one.
    """

    name: str
    endpoint: Endpoint
    lane: Lane
    state: JoinState = JoinState.IDLE
    hello: bytes | None = None
    box_key: bytes = b""
    route: bytes = b""
    heard: float = 0.0
    received: int = 0
    refused_at: float = -math.inf
    waits_for: tuple[str, ...] = ()
    closed: bytes = b""
    digest: bytes = b""
    lost: MasqueradeError | None = None
    replaced: deque[bytes] = field(default_factory=lambda: deque(maxlen=_MAX_REPLACED))
    gone: deque[int] = field(default_factory=lambda: deque(maxlen=_MAX_REPLACED))

    @property
    def joined(self) -> bool:
        """Whether Charlie counts on this party: he holds its hello, and it is not away."""
        return self.state not in (JoinState.IDLE, JoinState.AWAY)

    def may_send(self, turn: Turn) -> bool:
        """Say whether Charlie may send this over the hop now."""
        return may_send(End.CHARLIE, self.state, turn)

    def say(self, turn: Turn) -> None:
        """Move the state on before Charlie sends this."""
        self.state = sending(End.CHARLIE, self.state, turn)

    def seal(self, turn: Turn, body: bytes, *, type: str = "", source: str | None = None) -> bytes:  # noqa: A002
        """Move the state on, and make the frame; ``type`` and ``source`` as in :meth:`Endpoint.seal`."""
        self.say(turn)
        kind: Kind = "hello" if turn is Turn.REFUSAL else turn.value
        return self.endpoint.seal(self.name, kind, body, type=type, source=source)

    def receive(self, turn: Turn) -> None:
        """Move the state on after a frame of the party; an illegal one is the party's fault."""
        self.state = received(End.CHARLIE, self.state, turn, self.name)

    def note(self, event: HopEvent) -> JoinState:
        """Move the state on after an event, and return it."""
        self.state = after(End.CHARLIE, self.state, event)
        return self.state

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
        unseated = self.state is JoinState.SEATED and not (self.lane.acknowledged or self.lane.taken)
        if same and (not self.received if here else unseated):
            return Turn.SAME_HELLO
        if here and (self.received or began):
            return Turn.LATE_HELLO
        if turn is None:  # every party would find it in the roster, and blame Charlie
            raise ProtocolViolation(
                f"{self.name} sent a hello of an unknown type; allowed are a plain one and one of type 'fields'",
                peer=self.name,
            )
        if turn is Turn.HELLO and not frame.own:
            return Turn.FOREIGN_HELLO
        return Turn.STALE_HELLO if turn is Turn.HELLO and began else turn

    def is_older(self, connection: int) -> bool:
        """Say whether a connection is older than the one of the moment, and note that a new process has come if not.

        A process that was started again counts its connections anew, under a tag of its own (:func:`first_connection`).
        """
        process, number = divmod(connection, CONNECTIONS)
        current, latest = divmod(self.lane.connection, CONNECTIONS)
        if process in self.gone or (process == current and number <= latest):
            return True
        if process != current:
            self.gone.append(current)
        return False

    def move(self, route: bytes) -> None:
        """Listen to the party on another connection, and to the old one no more."""
        if self.route not in (b"", route):
            self.replaced.append(self.route)
        self.route, self.received = route, 0
        self.lane.break_off()

    def forget_hello(self) -> None:
        """Hold no hello of this party any more, and listen to its connection no more."""
        self.move(b"")
        self.hello, self.waits_for = None, ()

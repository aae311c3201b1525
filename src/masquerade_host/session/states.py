"""The states of a hop, which kinds of frame are legal in each of them, and all transitions: one table for both ends.

A *hop* is the connection between one party and Charlie, the curator. Both ends keep a state of it. Three mappings hold
all rules: :data:`SENDS` (what this end may send), :data:`RECEIVES` (what the other end may send) and :data:`EVENTS`
(what changes the state without a frame). Each maps an end, a state and a turn or an event to the next state. What is
not in a mapping is illegal: one failed look-up with one error.

A state changes here and nowhere else. Each end of a hop has a :class:`HopState`. A session tells it every frame before
it leaves, every frame that arrived, and every event.

The form follows h11's ``_state.py``. ``docs/sessions.md`` shows the table as a diagram; a test draws that diagram from
the mappings here and compares it with the page.
"""

from collections.abc import Mapping
from enum import Enum

from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.wire.frames import Frame

__all__ = [
    "EVENTS",
    "RECEIVES",
    "SENDS",
    "End",
    "HopEvent",
    "HopState",
    "JoinState",
    "Turn",
    "turn_of",
]


class End(Enum):
    """The two ends of a hop."""

    PARTY = "party"
    CHARLIE = "Charlie"


class JoinState(Enum):
    """A state: one end's knowledge of the run. The same name means the same on both ends."""

    __hash__ = object.__hash__  # Enum's own is slower, and the table is asked for every frame

    IDLE = "idle"  # party: nothing was sent, its role still trains; Charlie: he holds no hello of this party
    KNOCKING = "knocking"  # party only: it connects, and says hello until it is answered
    REFUSED = "refused"  # party only: Charlie does not let this process in
    HEARD = "heard"  # Charlie holds the hello and has answered it; other parties are still awaited
    AWAY = "away"  # Charlie only: he held the hello, then the party was silent before the roster went out
    MEETING = "meeting"  # party only: it has the roster, and lacks hellos of others that Charlie shows
    SEATED = "seated"  # the roster is out, and the roles talk
    DONE = "done"  # the party's role has returned
    CLOSED = "closed"  # every role has returned
    PARTING = "parting"  # this process was started again, cannot go on, and has nothing to say but that
    ENDED = "ended"  # the run ended before its goal, and this end has said or heard why

    @property
    def has_roster(self) -> bool:
        """Whether the roster was put on this hop: from then on frames are numbered, and no other process can come."""
        return self in (JoinState.MEETING, JoinState.SEATED, JoinState.DONE, JoinState.CLOSED)


class Turn(Enum):
    """A frame's part in the conversation: its kind, told apart where one kind has several meanings.

    A value that is a kind of frame is the kind's name on the wire.
    """

    __hash__ = object.__hash__

    HELLO = "hello"
    SAME_HELLO = "the same hello again"  # byte for byte, same connection, nothing numbered came after the first
    LATE_HELLO = "hello after an answered hello"  # same connection, and other frames have come: a replay
    STALE_HELLO = "hello after the roster"  # of another process of this party, which is told that it comes too late
    FOREIGN_HELLO = "hello of another study or version"
    REFUSAL = "refusal"
    FIELDS = "fields"
    ROSTER = "roster"
    HELLOS = "hellos"  # those that a party is shown, where the roster has no room for them
    MESSAGE = "message"
    SEALED = "sealed"
    BEAT = "beat"
    STANDING = "standing"  # a party that was started again asks where the others stand, or is answered
    CLOSED = "closed"
    LEAVE = "abort (left)"  # a party's abort that says that it stops, which before the roster ends no run
    ABORT = "abort"

    @property
    def words(self) -> str:
        """The turn as people read it, in errors and in ``docs/sessions.md``."""
        return "sealed message" if self is Turn.SEALED else self.value


class HopEvent(Enum):
    """An event that may change a state without a frame."""

    __hash__ = object.__hash__

    JOIN = "role joins"
    MET = "has all hellos"  # with the roster already, up to a number of parties
    LOST = "connection lost"
    SILENCE = "silent too long"
    TURNED_AWAY = "turned away"
    FAULT = "breaks a rule"  # after the end of the run, where it counts for this hop alone
    GIVE_UP = "cannot go on after a restart"  # this end; it tells the other end so
    DROPPED = "the run goes on without it"  # only where the study has [dropouts]


_S, _T, _E = JoinState, Turn, HopEvent
_Turns = Mapping[End, Mapping[JoinState, Mapping[Turn, JoinState]]]
_Events = Mapping[End, Mapping[JoinState, Mapping[HopEvent, JoinState]]]

SENDS: _Turns = {
    End.PARTY: {
        _S.KNOCKING: {_T.HELLO: _S.KNOCKING},
        _S.REFUSED: {_T.FIELDS: _S.ENDED},
        _S.HEARD: {_T.BEAT: _S.HEARD, _T.ABORT: _S.ENDED},
        _S.MEETING: {_T.BEAT: _S.MEETING, _T.STANDING: _S.MEETING, _T.ABORT: _S.ENDED},
        _S.SEATED: {
            _T.MESSAGE: _S.SEATED,
            _T.SEALED: _S.SEATED,
            _T.BEAT: _S.SEATED,
            _T.STANDING: _S.SEATED,
            _T.CLOSED: _S.DONE,
            _T.ABORT: _S.ENDED,
        },
        _S.DONE: {_T.BEAT: _S.DONE, _T.STANDING: _S.DONE, _T.ABORT: _S.ENDED},
        _S.CLOSED: {_T.BEAT: _S.CLOSED},  # it acknowledges Charlie's last frame
        _S.PARTING: {_T.ABORT: _S.ENDED},
    },
    End.CHARLIE: {
        # A refusal goes to a process that is not the one he knows, or that he does not listen to any more.
        _S.IDLE: {_T.REFUSAL: _S.IDLE},
        _S.HEARD: {_T.BEAT: _S.HEARD, _T.ROSTER: _S.SEATED, _T.REFUSAL: _S.HEARD, _T.ABORT: _S.ENDED},
        _S.AWAY: {_T.REFUSAL: _S.AWAY},
        _S.SEATED: {
            _T.HELLOS: _S.SEATED,
            _T.MESSAGE: _S.SEATED,
            _T.SEALED: _S.SEATED,
            _T.BEAT: _S.SEATED,
            _T.STANDING: _S.SEATED,
            _T.REFUSAL: _S.SEATED,
            _T.ABORT: _S.ENDED,
        },
        # A party may say too early that it is done. What others still send it is passed on, and the party judges it.
        _S.DONE: {
            _T.MESSAGE: _S.DONE,
            _T.SEALED: _S.DONE,
            _T.BEAT: _S.DONE,
            _T.STANDING: _S.DONE,
            _T.CLOSED: _S.CLOSED,
            _T.REFUSAL: _S.DONE,
            _T.ABORT: _S.ENDED,
        },
        _S.CLOSED: {_T.BEAT: _S.CLOSED, _T.REFUSAL: _S.CLOSED},  # a party may have lost its connection meanwhile
        _S.PARTING: {_T.ABORT: _S.ENDED},
        # The party that reported the end is told Charlie's verdict as well.
        _S.ENDED: {_T.REFUSAL: _S.ENDED, _T.ABORT: _S.ENDED},
    },
}
"""The frames that an end may send in a state, and the state after each."""

RECEIVES: _Turns = {
    End.PARTY: {
        # Anything but a refusal answers the hello, so the state after it is that of a hello that was heard.
        _S.KNOCKING: {_T.BEAT: _S.HEARD, _T.REFUSAL: _S.REFUSED, _T.ROSTER: _S.MEETING, _T.ABORT: _S.ENDED},
        _S.HEARD: {_T.BEAT: _S.HEARD, _T.REFUSAL: _S.REFUSED, _T.ROSTER: _S.MEETING, _T.ABORT: _S.ENDED},
        # A Charlie who was started again, and has forgotten the run, refuses its frames.
        _S.MEETING: {
            _T.HELLOS: _S.MEETING,
            _T.BEAT: _S.MEETING,
            _T.STANDING: _S.MEETING,
            _T.REFUSAL: _S.REFUSED,
            _T.ABORT: _S.ENDED,
        },
        _S.SEATED: {
            _T.MESSAGE: _S.SEATED,
            _T.SEALED: _S.SEATED,
            _T.BEAT: _S.SEATED,
            _T.STANDING: _S.SEATED,
            _T.REFUSAL: _S.REFUSED,
            _T.ABORT: _S.ENDED,
        },
        _S.DONE: {
            _T.BEAT: _S.DONE,
            _T.STANDING: _S.DONE,
            _T.CLOSED: _S.CLOSED,
            _T.REFUSAL: _S.REFUSED,
            _T.ABORT: _S.ENDED,
        },
    },
    End.CHARLIE: {
        # A refused party's fields may reach a Charlie who was started anew and refused nobody.
        _S.IDLE: {_T.HELLO: _S.HEARD, _T.FOREIGN_HELLO: _S.IDLE, _T.FIELDS: _S.IDLE},
        _S.HEARD: {
            _T.HELLO: _S.HEARD,
            _T.SAME_HELLO: _S.HEARD,
            _T.FOREIGN_HELLO: _S.HEARD,
            _T.FIELDS: _S.HEARD,
            _T.BEAT: _S.HEARD,
            _T.LEAVE: _S.IDLE,
            _T.ABORT: _S.IDLE,  # nothing has begun that it could end for others
        },
        _S.AWAY: {
            _T.HELLO: _S.HEARD,
            _T.SAME_HELLO: _S.AWAY,
            _T.FOREIGN_HELLO: _S.AWAY,
            _T.FIELDS: _S.AWAY,
            _T.BEAT: _S.HEARD,
            _T.LEAVE: _S.IDLE,
            _T.ABORT: _S.IDLE,
        },
        # A hello is said again until it is answered, so the same one may still be under way when the roster leaves. It
        # may also come over a new connection, if the roster was lost with the old one.
        _S.SEATED: {
            _T.SAME_HELLO: _S.SEATED,
            _T.STALE_HELLO: _S.SEATED,
            _T.FOREIGN_HELLO: _S.SEATED,
            _T.FIELDS: _S.SEATED,
            _T.MESSAGE: _S.SEATED,
            _T.SEALED: _S.SEATED,
            _T.BEAT: _S.SEATED,
            _T.STANDING: _S.SEATED,
            _T.CLOSED: _S.DONE,
            _T.LEAVE: _S.ENDED,
            _T.ABORT: _S.ENDED,
        },
        _S.DONE: {
            _T.STALE_HELLO: _S.DONE,
            _T.FOREIGN_HELLO: _S.DONE,
            _T.FIELDS: _S.DONE,
            _T.BEAT: _S.DONE,
            _T.STANDING: _S.DONE,
            _T.LEAVE: _S.ENDED,
            _T.ABORT: _S.ENDED,
        },
        _S.CLOSED: {
            _T.STALE_HELLO: _S.CLOSED,
            _T.FOREIGN_HELLO: _S.CLOSED,
            _T.FIELDS: _S.CLOSED,
            _T.BEAT: _S.CLOSED,
            _T.STANDING: _S.CLOSED,  # it was started again, and its question crosses the end
            _T.LEAVE: _S.ENDED,
            _T.ABORT: _S.ENDED,
        },
        _S.ENDED: {_T.STALE_HELLO: _S.ENDED, _T.FOREIGN_HELLO: _S.ENDED, _T.FIELDS: _S.ENDED},
    },
}
"""The frames that an end may receive in a state, and the state after each."""

EVENTS: _Events = {
    End.PARTY: {
        # A process that was started again and cannot go on opens a connection to say so, whether its role joins or not.
        _S.IDLE: {_E.JOIN: _S.KNOCKING, _E.LOST: _S.IDLE, _E.GIVE_UP: _S.PARTING},
        _S.KNOCKING: {_E.LOST: _S.KNOCKING, _E.GIVE_UP: _S.PARTING},
        _S.HEARD: {_E.LOST: _S.KNOCKING},
        _S.MEETING: {_E.MET: _S.SEATED, _E.LOST: _S.MEETING, _E.GIVE_UP: _S.PARTING},
        _S.SEATED: {_E.LOST: _S.SEATED, _E.GIVE_UP: _S.PARTING},
        _S.DONE: {_E.LOST: _S.DONE, _E.GIVE_UP: _S.PARTING},
        _S.CLOSED: {_E.LOST: _S.CLOSED, _E.GIVE_UP: _S.PARTING},
    },
    End.CHARLIE: {
        _S.IDLE: {_E.TURNED_AWAY: _S.IDLE, _E.GIVE_UP: _S.PARTING},
        _S.HEARD: {_E.SILENCE: _S.AWAY, _E.TURNED_AWAY: _S.IDLE, _E.GIVE_UP: _S.PARTING},
        _S.AWAY: {_E.TURNED_AWAY: _S.IDLE},
        _S.SEATED: {_E.DROPPED: _S.ENDED, _E.GIVE_UP: _S.PARTING},
        _S.DONE: {_E.GIVE_UP: _S.PARTING},
        _S.CLOSED: {_E.FAULT: _S.ENDED, _E.GIVE_UP: _S.PARTING},
        _S.ENDED: {_E.FAULT: _S.ENDED, _E.GIVE_UP: _S.PARTING},  # the party comes back over another connection
    },
}
"""The events without a frame in a state, and the state after each."""


class HopState:
    """The state of one end of a hop. Each method moves it on by the table, or raises and leaves it as it is.

    Parameters
    ----------
    end : End
        Whose end it is.
    now : JoinState, optional
        Where it begins; by default idle.

    Attributes
    ----------
    now : JoinState
        The state at this moment.
    """

    def __init__(self, end: End, now: JoinState = JoinState.IDLE) -> None:
        self._end = end
        self.now = now

    def may_send(self, turn: Turn) -> bool:
        """Say whether this end may send this now."""
        return turn in SENDS[self._end].get(self.now, {})

    def send(self, turn: Turn) -> None:
        """Move on before this end sends ``turn``.

        Raises
        ------
        LocalProtocolError
            The turn is illegal: a bug of this program, found before anything leaves.
        """
        legal = SENDS[self._end].get(self.now, {})
        if turn not in legal:
            raise LocalProtocolError(
                f"this program tried to send {turn.words!r} while its connection is {self.now.value!r}; only these "
                f"are legal then: {_named(legal)}"
            )
        self.now = legal[turn]

    def receive(self, turn: Turn, sender: str, suspects: tuple[str, ...] = ()) -> None:
        """Move on after ``sender``, at the other end, sent ``turn``.

        Parameters
        ----------
        turn : Turn
        sender : str
            Who signed the frame.
        suspects : tuple of str
            Those who may be at fault, where the frame does not prove it to be ``sender``.

        Raises
        ------
        ProtocolViolation
            The turn is illegal.
        """
        legal = RECEIVES[self._end].get(self.now, {})
        if turn not in legal:
            who, doubt = (" or ".join(suspects), "; nobody can tell which of them") if suspects else (sender, "")
            raise ProtocolViolation(
                f"{who} sent {turn.words!r} out of turn{doubt}. While the connection is {self.now.value!r}, only "
                f"these are legal: {_named(legal)}",
                peer="" if suspects else sender,
                suspects=suspects,
            )
        self.now = legal[turn]

    def note(self, event: HopEvent) -> None:
        """Move on after an event.

        Raises
        ------
        LocalProtocolError
            The event cannot happen in this state: a bug of this program.
        """
        legal = EVENTS[self._end].get(self.now, {})
        if event not in legal:
            raise LocalProtocolError(
                f"this program noted {event.value!r} while its connection is {self.now.value!r}; only these are "
                f"legal then: {', '.join(each.value for each in legal) or 'no events'}"
            )
        self.now = legal[event]


def _named(legal: Mapping[Turn, JoinState]) -> str:
    return ", ".join(turn.words for turn in legal) or "no frames"


_HELLOS = {"": Turn.HELLO, "fields": Turn.FIELDS, "refusal": Turn.REFUSAL}


def turn_of(frame: Frame) -> Turn | None:
    """Return a frame's turn by its header alone; ``None`` for a hello of a type that does not exist."""
    return _HELLOS.get(frame.type) if frame.kind == "hello" else Turn(frame.kind)

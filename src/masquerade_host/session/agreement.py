"""Where the others stand: participants compare it after a restart, and again before anybody keeps a result.

*The rollback check.* A party that was started again asks the others before it sends anything new. The journal of a
party may be an old copy: somebody restored a backup, or a whole virtual machine. Such a party would draw numbers a
second time that it has sent already, and send two messages where one is allowed. The worst of it are two noisy answers
to one question, each for the price of one. Charlie, who passes all messages on, would notice and might like it. So the
party asks the other parties, who would not.

Its question contains a fresh random number, and Charlie passes it on. Each other party answers under its own signature:
that number, how many of Charlie's broadcasts it has received, and the running hash of them. Charlie can withhold these
answers, but he can neither change them nor repeat old ones. While one is missing, the party sends nothing new.

A broadcast follows from what the parties sent before. So if another party has received more broadcasts than this
party's role has taken when it wants to send, then this message was sent once before, or Charlie went on without it. In
both cases the attempt ends.

In a study with more than 65 parties and without ``[dropouts]`` the party asks its neighbours alone. Charlie could keep
a broadcast from all of them and not from others. That gains him nothing: no further sum opens without them, so he
could as well keep it from everybody, and then nobody could know of it either. It is assumed that one of the neighbours
is honest, as for the masks. With ``[dropouts]`` the run could go on without them, so there everybody is asked.

*The closing digests.* No two honest parties end a run with results that follow from different broadcasts. Charlie, the
curator, *broadcasts* the opened sums and the released numbers: he sends all parties the same bytes. He could send some
of them other bytes. Every party keeps a hash of all that he broadcast, in order, and its last frame, ``Closed``,
carries it under the party's own signature. Charlie answers with all these frames. Each party checks them before it
returns any result. What Charlie sends to one party alone is no part of the hash.

*In a study with more than 65 parties* Charlie shows a party the frames of its 64 neighbours alone
(:mod:`masquerade_core.neighbours`). That is enough as long as the honest parties hang together in the graph of
neighbours, which is assumed for the masks as well: each of them compares its hash with those of its honest neighbours,
and these with those of theirs, so all honest hashes are equal, or some honest party keeps no result. The graph falls
apart only if 32 parties in a row on the circle collude, at two places; ``chance_of_cut`` bounds that. Every neighbour's
frame must be there. Where the study has ``[dropouts]``, a frame may be missing, and Charlie chooses whose. He could say
that 32 parties at two places are lost, and tell the two arcs between them different things. So there every party is
shown everybody's frame (:func:`masquerade_core.roster_disclosure.closes_with_all`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Self

from pydantic import Field

from masquerade_core.crypto.boxes import SigningKey
from masquerade_core.errors import DeadlinePassed, ProtocolViolation, RunFailed, StateCopied
from masquerade_core.roster_disclosure import closes_with_all, heard_by
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import NAME_BYTES, Message, decode, encode
from masquerade_core.wire.frames import NONCE_BYTES, Endpoint, Frame
from masquerade_core.words import counted, listed
from masquerade_host.session.messages import DIGEST_BYTES, AllClosed, Closed
from masquerade_host.store.transcript import BroadcastLog

__all__ = [
    "ANSWER",
    "ASK",
    "Ask",
    "Held",
    "ResumeBarrier",
    "Standing",
    "Standings",
    "check_all_closed",
    "check_closing",
    "closed_by",
    "padded",
]


def check_closing(
    frame: Frame, study: Study, run: bytes, signing: SigningKey, own: tuple[str, bytes, bytes], coin: bytes
) -> None:
    """Check the frame with which Charlie closes the run.

    Parameters
    ----------
    frame : Frame
    study, run, signing, own
        As for :func:`check_all_closed`.
    coin : bytes
        Draws everybody's neighbours, whose frames a party is shown in a large study.

    Raises
    ------
    ProtocolViolation
        He closes it for all where each is due by itself, or the other way round; or as for :func:`check_all_closed`.
    """
    if frame.broadcast != closes_with_all(study):
        raise ProtocolViolation(
            f"{CHARLIE} closed the run for {'all' if frame.broadcast else 'one party alone'}; in a study with "
            f"{study.K} parties he closes it for {'each by itself' if frame.broadcast else 'all at once'}",
            peer=CHARLIE,
        )
    check_all_closed(decode(AllClosed, frame.body, CHARLIE), study, run, signing, own, heard_by(study, coin, own[0]))


def check_all_closed(
    answer: AllClosed,
    study: Study,
    run: bytes,
    signing: SigningKey,
    own: tuple[str, bytes, bytes],
    due: Sequence[str] | None = None,
) -> None:
    """Check that every party that is shown signed the same hash as this one.

    Parameters
    ----------
    answer : AllClosed
        Charlie's last message.
    study : Study
        It pins the key under which each party signs.
    run : bytes
        The run id.
    signing : SigningKey
        This party's identity. It signs nothing here.
    own : (str, bytes, bytes)
        This party's name, the frame with which it closed, and its hash.
    due : sequence of str, optional
        Whose frames are shown, in roster order; by default everybody's.

    Raises
    ------
    ProtocolViolation
        A frame is missing, or is not one that its party signed for this run: Charlie's fault. Or a hash differs: then
        Charlie or that party may be at fault.
    """
    me, frame, digest = own
    due = study.names if due is None else due
    closed = {name: said.digest for name, said in closed_by(answer, study, run, signing, due).items()}
    if answer.closed[due.index(me)] != frame:
        raise _bad_frame(me)
    if others := tuple(name for name, theirs in closed.items() if theirs != digest):
        raise ProtocolViolation(
            f"{CHARLIE} sent {listed(others)} different messages from those to {me}, or {listed(others, 'or')} closed "
            f"the run with a wrong hash of them; {me} cannot tell which, and keeps no result",
            "no result of this run can be trusted; compare the frames that Charlie signed for all parties: two that "
            "have the same number and differ prove his fault",
            suspects=(*others, CHARLIE),
        )


def closed_by(
    answer: AllClosed, study: Study, run: bytes, signing: SigningKey, due: Sequence[str] | None = None
) -> Mapping[str, Closed]:
    """Return what each party signed when its role had returned; parties without which the run went on are left out.

    The parameters are those of :func:`check_all_closed`.

    Raises
    ------
    ProtocolViolation
        Charlie's fault: a frame is missing, or is not one that its party signed for this run.
    """
    due = study.names if due is None else due
    there = sum(map(bool, answer.closed))
    if due != study.names and (len(answer.closed), there) != (len(due), len(due)):
        raise ProtocolViolation(
            f"{CHARLIE} closed the run with the words of {counted(there, 'party', 'parties')}; it needs those of "
            f"{counted(len(due), 'party', 'parties')}, the neighbours of one",
            peer=CHARLIE,
        )
    if due == study.names and (len(answer.closed) != study.K or there < study.survivors):
        raise ProtocolViolation(
            f"{CHARLIE} closed the run with the words of {counted(there, 'party', 'parties')}; the study "
            f"{'has' if study.dropouts is None else 'goes on with'} {study.survivors}"
            f"{'' if study.dropouts is None else ' or more'}",
            peer=CHARLIE,
        )
    reader = Endpoint(CHARLIE, run, signing, {party.name: party.key.sign for party in study.parties})
    said = {}
    for name, signed in zip(due, answer.closed, strict=True):
        if not signed:
            continue  # the run went on without this party
        try:
            frame = reader.open(name, signed, numbered=False)
            said[name] = decode(Closed, frame.body, name)
        except ProtocolViolation as error:
            raise _bad_frame(name) from error
        if frame.kind != "closed":
            raise _bad_frame(name)
    return said


def _bad_frame(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} closed the run with a frame of {name} that is not one with which {name} closed this run; it must "
        f"be the frame that {name} signed",
        peer=CHARLIE,
    )


# --- Rollback check -----------------------------------------------------------------


ASK, ANSWER = "ask", "answer"
"""The types of frames of kind ``standing``."""

_COUNT_BYTES = 4

_Name = Annotated[str, Field(min_length=NAME_BYTES, max_length=NAME_BYTES)]  # padded: its length tells nothing
_Count = Annotated[bytes, Field(min_length=_COUNT_BYTES, max_length=_COUNT_BYTES)]
_Nonce = Annotated[bytes, Field(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
_Digest = Annotated[bytes, Field(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]


class Ask(Message):
    """The question where a party stands: from one that was started again to Charlie, and from him to every other."""

    asker: _Name
    nonce: _Nonce


class Standing(Message):
    """From a party to Charlie: how many of his broadcasts it has received, and the running hash of them."""

    asker: _Name
    nonce: _Nonce
    broadcasts: _Count
    chain: _Digest

    @classmethod
    def of(cls, ask: Ask, chain: Sequence[bytes]) -> Self:
        """Answer a question; ``chain`` is as :attr:`BroadcastLog.chain`."""
        count = (len(chain) - 1).to_bytes(_COUNT_BYTES, "big")
        return cls(asker=ask.asker, nonce=ask.nonce, broadcasts=count, chain=chain[-1])


class Standings(Message):
    """From Charlie to the party that asked: one party's :class:`Standing`, in the frame that this party signed."""

    party: _Name
    signed: Annotated[bytes, Field(max_length=1024)]


def padded(name: str) -> str:
    """Return a name as it stands in these messages."""
    return name.ljust(NAME_BYTES)


class Held:
    """A party that was started again, until everybody whom it asks has said where it stands.

    Parameters
    ----------
    me : str
    others : sequence of str
        Those whom it asks.
    nonce : bytes
        Fresh, and random.
    """

    def __init__(self, me: str, others: Sequence[str], nonce: bytes) -> None:
        self.me = me
        self.nonce = nonce
        self._missing = list(others)
        self._said: dict[str, tuple[int, bytes]] = {}

    @property
    def missing(self) -> tuple[str, ...]:
        """The parties that have not answered."""
        return tuple(self._missing)

    def ask(self) -> bytes:
        """Return the body of the question."""
        return encode(Ask(asker=padded(self.me), nonce=self.nonce), CHARLIE)

    def take(self, answer: Standings, reader: Endpoint) -> None:
        """Take one party's answer, as Charlie passed it on; an answer to an older question is ignored.

        Parameters
        ----------
        answer : Standings
        reader : Endpoint
            Reads the frames that parties signed for Charlie in this run.

        Raises
        ------
        ProtocolViolation
            Charlie's fault: the party did not sign this.
        """
        party = answer.party.rstrip(" ")
        if party not in self._missing:
            return
        try:
            frame = reader.open(party, answer.signed, numbered=False)
            standing = decode(Standing, frame.body, party)
        except ProtocolViolation as error:
            raise _forged(party) from error
        if (frame.kind, frame.type) != ("standing", ANSWER):
            raise _forged(party)
        if (standing.asker, standing.nonce) == (padded(self.me), self.nonce):
            self._missing.remove(party)
            self._said[party] = int.from_bytes(standing.broadcasts, "big"), standing.chain

    def check(self, chain: Sequence[bytes]) -> None:
        """Check that the others received the same broadcasts, as far as this party has received them.

        Parameters
        ----------
        chain : sequence of bytes
            This party's own, as :attr:`masquerade_host.session.agreement.BroadcastLog.chain`.

        Raises
        ------
        RunFailed
            They received others.
        """
        for name, (count, theirs) in self._said.items():
            if count < len(chain) and chain[count] != theirs:
                raise RunFailed(
                    f"{name} has signed for different broadcasts of {CHARLIE} from those in the journal of {self.me}: "
                    f"the state of this machine was rolled back, or {CHARLIE} told two parties different things",
                    "nothing was sent; this attempt is over",
                )

    def check_send(self, taken: int) -> None:
        """Check that the role may send something new; not before everybody has answered.

        Parameters
        ----------
        taken : int
            How many broadcasts the role had taken when it wanted to send.

        Raises
        ------
        StateCopied
            Another party has received more than that.
        """
        if ahead := tuple(name for name, (count, _) in self._said.items() if count > taken):
            most = max(count for count, _ in self._said.values())
            raise StateCopied(
                f"this machine's state was rolled back, or is a copy: {listed(ahead)} signed for "
                f"{counted(most, 'broadcast')} of {CHARLIE}, and {self.me} would now send what followed number {taken}",
                "nothing was sent a second time; this attempt is over. If a backup was restored here, then the ledger "
                "of the budget may be too old as well: compare it with the reports of the other parties",
                copied=(self.me,),
            )


def _forged(name: str) -> ProtocolViolation:
    return ProtocolViolation(
        f"{CHARLIE} passed on a standing of {name} that it did not sign for this run; only what a party signed may be "
        "passed on",
        peer=CHARLIE,
    )


# --- Resume barrier -------------------------------------------------------------------

_ANSWERS = 0.8  # of the study's deadline: how long a party that was started again waits for the others' word


class ResumeBarrier:
    """Holds back what a restarted party would send, until all that it asks have said where they stand.

    Parameters
    ----------
    me : str
        This party.
    study : Study
    told : BroadcastLog
        What Charlie has broadcast to this party.
    say : callable
        Sends a frame of kind ``standing``, of this type and with this body, if the connection is there.

    Attributes
    ----------
    held : Held or None
        The others' answers so far; None where nothing is held back.
    """

    def __init__(self, me: str, study: Study, told: BroadcastLog, say: Callable[[str, bytes], None]) -> None:
        self._me = me
        self._deadline = study.study.deadline_seconds
        self._told = told
        self._say = say
        self.held: Held | None = None
        self._since = 0.0
        self._withheld: list[tuple[int, Callable[[], None]]] = []  # each with the broadcasts that the role had taken

    def resumed(self, others: Sequence[str], nonce: bytes, now: float) -> None:
        """Hold back what is new until these others have answered, over a fresh nonce."""
        self.held, self._since = Held(self._me, others, nonce), now

    def hold(self, send: Callable[[], None], waiting: int) -> None:
        """Keep a message until :meth:`let_out`; ``waiting`` is how many broadcasts the role has not taken yet."""
        self._withheld.append((len(self._told.chain) - 1 - waiting, send))

    def let_out(self) -> Iterator[Callable[[], None]]:
        """Yield what may be sent now, in order.

        Raises
        ------
        StateCopied
            Another party has received more broadcasts than the role had taken: this was sent once before.
        """
        if self.held is not None and self.held.missing:
            return
        withheld, self._withheld = self._withheld, []
        for taken, send in withheld:
            if self.held is not None:
                self.held.check_send(taken)
                self.held = None  # what others receive from here on follows from this message
            yield send

    def let_go(self) -> bool:
        """Send the first message that is kept, for it was sent before; return whether there was one."""
        if not self._withheld:
            return False
        self._withheld.pop(0)[1]()
        return True

    def ask(self, now: float) -> None:
        """Ask those that have not answered, as often as there is a beat.

        Raises
        ------
        DeadlinePassed
            They have not answered for most of the time that the study allows: Charlie, who does not know what this
            party waits for, would end the run next.
        """
        if self.held is None or not (missing := self.held.missing):
            return
        allowed = _ANSWERS * self._deadline
        if now - self._since > allowed:
            raise DeadlinePassed(
                f"{self._me} was started again and asked where the run stands, but no answer from {listed(missing)} "
                f"came within {allowed:g} seconds",
                "see whether they still run; without their answers this party sends nothing new",
                waited_for=missing,
            )
        self._say(ASK, self.held.ask())

    def hear(self, frame: Frame, reader: Endpoint) -> bool:
        """Answer another party's question, or take an answer to the own one.

        Parameters
        ----------
        frame : Frame
        reader : Endpoint
            As for :meth:`Held.take`.

        Returns
        -------
        bool
            Whether it was an answer, so that something may be let out.
        """
        if frame.type == ASK:
            ask = decode(Ask, frame.body, CHARLIE)
            self._say(ANSWER, encode(Standing.of(ask, self._told.chain), CHARLIE))
            return False
        if self.held is None:
            return False
        self.held.take(decode(Standings, frame.body, CHARLIE), reader)
        self.held.check(self._told.chain)
        return True

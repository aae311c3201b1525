"""A site's part in a lobby: what it says next, what it checks of each answer, and from whom it heard the code.

It knows no socket, no file and no clock. What must outlive the process is in :class:`Notes`, which is written down
before the next message leaves: a number that was shown once is never used with another study or other commitments.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Self

import msgpack

from masquerade.lobby.code import NUMBER_BYTES, Seat, code_of, commitment, read_code, transcript
from masquerade.lobby.invitation import Invitation
from masquerade.lobby.messages import SeatShown, Shown, Word
from masquerade_core.crypto.boxes import verify
from masquerade_core.errors import BadInput, LocalProtocolError, ProtocolViolation, RefusedLocally, RunFailed
from masquerade_core.identity import PublicKeys
from masquerade_core.study import CHARLIE, Study
from masquerade_core.words import counted, listed
from masquerade_host.store.keyfiles import Keys

__all__ = ["Guest", "Notes", "vouch_text"]

_AGAIN = "start the same command again: it draws a new number"


@dataclass
class Notes:
    """A site's notes of one lobby. The number is secret until it is shown.

    Attributes
    ----------
    number : bytes
        Drawn for this try; 32 bytes.
    shown_for : bytes
        A hash of the study and of all commitments for which the number is shown; empty before.
    transcript : bytes
        The hash that the code is the start of; empty before all numbers are there.
    tries : int
        How often a number of this site was shown in this lobby.
    heard : list of str
        The sites from whom the code was heard.
    """

    number: bytes
    shown_for: bytes = b""
    transcript: bytes = b""
    tries: int = 0
    heard: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return what can be written down."""
        return {key: value.hex() if isinstance(value, bytes) else value for key, value in asdict(self).items()}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` returns.

        Raises
        ------
        ValueError, TypeError, KeyError
            It is something else.
        """
        number, shown_for, told = (bytes.fromhex(data[key]) for key in ("number", "shown_for", "transcript"))
        if len(number) != NUMBER_BYTES:
            raise ValueError("no number of 32 bytes")
        return cls(number, shown_for, told, int(data["tries"]), [str(name) for name in data["heard"]])


def vouch_text(lobby: bytes, told: bytes, heard: Sequence[str]) -> bytes:
    """Return what a site signs: from whom it heard the code of this transcript."""
    return b"masquerade vouch" + bytes(msgpack.packb([lobby, told, list(heard)]))


class Guest:
    """One site in a lobby.

    Parameters
    ----------
    invitation : Invitation
    keys : Keys
        This site's.
    notes : Notes
        Of this lobby.
    draw : callable
        Returns so many random bytes.
    known : collection of (str, str)
        The names and the public keys of sites whose code this site heard in an earlier study.
    """

    def __init__(
        self,
        invitation: Invitation,
        keys: Keys,
        notes: Notes,
        draw: Callable[[int], bytes],
        known: Collection[tuple[str, str]] = (),
    ) -> None:
        self._invitation = invitation
        self._keys = keys
        self.notes = notes
        self._draw = draw
        self._known = frozenset(known)
        self.study: Study | None = None
        self.text = ""
        self.seats: tuple[Seat, ...] = ()
        self.missing: tuple[str, ...] = ()
        self.ready = False
        self.all_ready = False
        self._vouched: dict[str, frozenset[str]] = {}

    # --- What it says -----------------------------------------------------------

    def word(self) -> Word:
        """Return what to say next. The notes must be kept before it leaves."""
        me, notes = self._invitation, self.notes
        heard = tuple(notes.heard)
        return Word(
            lobby=me.lobby,
            token=me.token,
            name=me.name,
            keys=str(self._keys.public),
            commitment=self._commitment,
            number=notes.number if notes.shown_for else b"",
            heard=heard,
            vouch=self._keys.signing.sign(vouch_text(me.lobby, notes.transcript, heard)) if heard else b"",
            ready=self.ready,
        )

    @property
    def _commitment(self) -> bytes:
        return commitment(self._invitation.lobby, self._invitation.name, self._keys.public, self.notes.number)

    def begin_anew(self) -> None:
        """Forget this try: the next one has a number of its own."""
        self.study, self.text, self.seats = None, "", ()
        self.notes = Notes(self._draw(NUMBER_BYTES), tries=self.notes.tries)

    # --- What it is shown -------------------------------------------------------

    def take(self, shown: Shown) -> None:
        """Take an answer.

        Raises
        ------
        BadInput
            The token is not valid, or not any more.
        RefusedLocally
            Somebody else used the token.
        RunFailed
            The lobby began anew, or the study or somebody's commitment was changed: this try is over.
        ProtocolViolation
            Charlie's fault: what he shows does not fit together.
        """
        self._check_refusal(shown)
        self.missing = shown.missing
        if not shown.study:
            return
        study = Study.parse(shown.study, "the study in the lobby")
        seats = tuple(self._seat(seat) for seat in shown.seats)
        self._check(study, seats)
        shown_for = _hash([study.digest(), [[seat.name, seat.commitment] for seat in seats]])
        if self.notes.shown_for not in {b"", shown_for}:
            self._over("the study or the keys of a site were changed after this site had shown its number")
        if not self.notes.shown_for:
            self.notes.shown_for = shown_for
            self.notes.tries += 1
        self.study, self.text = study, shown.study
        if all(seat.number for seat in seats):
            self._take_numbers(study, seats)
            self._vouched = {seat.name: self._vouch_of(seat) for seat in shown.seats}
            self.all_ready = all(seat.ready for seat in shown.seats)

    def _check_refusal(self, shown: Shown) -> None:
        match shown.refused:
            case "unknown":
                raise BadInput(
                    "Charlie does not know this invitation: it is of another lobby, or was withdrawn",
                    "ask the coordinator for a new line",
                )
            case "over":
                raise BadInput(f"this invitation ended on {self._invitation.day}", "ask the coordinator for a new line")
            case "used":
                raise RefusedLocally(
                    f"the invitation of {self._invitation.name} was used before, with other keys than these",
                    "if you used it yourself, give the same --key. Otherwise somebody has read your line: tell the "
                    "coordinator by telephone, and ask for a new lobby",
                )
            case "anew":
                self._over("the lobby began anew, because a site came with a new number")

    def _over(self, why: str) -> None:
        tries = self.notes.tries
        self.begin_anew()
        raise RunFailed(
            f"{why}. Nothing was approved. This was try {tries}: a dishonest coordinator had one guess in 2^40",
            _AGAIN,
        )

    def _seat(self, shown: SeatShown) -> Seat:
        try:
            keys = PublicKeys.parse(shown.keys)
        except BadInput:
            raise _wrong(f"keys of {shown.name} that are none") from None
        return Seat(shown.name, keys, shown.commitment, shown.number)

    def _check(self, study: Study, seats: Sequence[Seat]) -> None:
        me, own = self._invitation, self._keys.public
        if tuple(seat.name for seat in seats) != study.names:
            raise _wrong("seats that are not the parties of the study")
        if study.curator.key != me.charlie or study.address != me.address:
            raise _wrong("a study with another Charlie than the invitation has")
        for seat, party in zip(seats, study.parties, strict=True):
            if seat.keys != party.key:
                raise _wrong(f"keys of {seat.name} that the study does not have")
        mine = next((seat for seat in seats if seat.name == me.name), None)
        if mine is None or (mine.keys, mine.commitment) != (own, self._commitment):
            raise _wrong(f"a seat of {me.name} that this site did not take")
        if len({seat.commitment for seat in seats}) < len(seats):
            raise _wrong("one commitment for two sites")

    def _take_numbers(self, study: Study, seats: tuple[Seat, ...]) -> None:
        lobby = self._invitation.lobby
        for seat in seats:
            if commitment(lobby, seat.name, seat.keys, seat.number) != seat.commitment:
                raise _wrong(f"a number of {seat.name} that does not open its commitment")
        # It stays what it was: nothing else opens the commitments for which this site has shown its number.
        self.notes.transcript, self.seats = transcript(lobby, study.digest(), seats), seats

    def _vouch_of(self, shown: SeatShown) -> frozenset[str]:
        """Return for whom a seat vouches, if it signed that; nothing counts without this site's hearing it itself."""
        keys, text = (
            PublicKeys.parse(shown.keys),
            vouch_text(self._invitation.lobby, self.notes.transcript, shown.heard),
        )
        return frozenset(shown.heard) if shown.vouch and verify(keys.sign, text, shown.vouch) else frozenset()

    @property
    def agreed(self) -> Study:
        """The study that the code is about; it is there with the code."""
        if self.study is None:
            raise LocalProtocolError("the study was asked for before it was there")
        return self.study

    # --- What people say --------------------------------------------------------

    @property
    def code(self) -> str:
        """The code of what this process was shown; empty before all numbers are there."""
        return code_of(self.notes.transcript) if self.seats else ""

    @property
    def others(self) -> tuple[str, ...]:
        """The other sites."""
        return tuple(seat.name for seat in self.seats if seat.name != self._invitation.name)

    def hear(self, typed: str, names: Sequence[str]) -> None:
        """Take the code that a person heard, and from whom.

        Raises
        ------
        BadInput
            A name is not that of another site. Nothing is noted then.
        RefusedLocally
            It is another code: somebody was shown something else. This try is over.
        """
        if strange := [name for name in names if name not in self.others]:
            raise BadInput(
                f"{listed(strange)} is not another site of this study", f"name some of {listed(self.others)}"
            )
        if read_code(typed) != self.code:
            self.begin_anew()
            raise RefusedLocally(
                f"{listed(names)} read another code than this site has. Either it was misheard, or somebody between "
                "you showed you different keys or studies. Nothing was approved",
                "compare once more by telephone, letter by letter. If the codes differ, do not go on with this "
                "coordinator. To begin anew, start the same command again",
            )
        self.notes.heard = sorted({*self.notes.heard, *names})

    @property
    def known(self) -> tuple[str, ...]:
        """The sites whose keys this site compared in an earlier study."""
        found = {seat.name for seat in self.seats if (seat.name, str(seat.keys)) in self._known}
        return tuple(name for name in self.others if name in found)

    @property
    def vouched(self) -> dict[str, tuple[str, ...]]:
        """Sites that this one did not hear, each with those that vouch for it: c + 1 or more that it did hear.

        At most c of them side with Charlie, so one of them is honest, and it heard the very code that this site has.
        """
        if self.study is None:
            return {}
        itself = {*self.notes.heard, *self.known}
        vouching = {
            name: tuple(sorted(other for other in itself if name in self._vouched.get(other, ())))
            for name in self.others
            if name not in itself
        }
        return {name: by for name, by in vouching.items() if len(by) > self.study.privacy.colluders}

    @property
    def unheard(self) -> tuple[str, ...]:
        """The sites of which nothing shows that the keys are theirs: each counts as one that sides with Charlie."""
        sure = {*self.notes.heard, *self.known, *self.vouched}
        return tuple(name for name in self.others if name not in sure)

    def tries_in_words(self) -> str:
        """Return how many tries this lobby took, as a sentence."""
        return (
            f"This lobby took {counted(self.notes.tries, 'try', 'tries')} so far. In each, a dishonest coordinator has "
            "one guess in 2^40."
        )


def _wrong(what: str) -> ProtocolViolation:
    return ProtocolViolation(f"{CHARLIE} showed {what}; nothing was approved", peer=CHARLIE)


def _hash(values: list[Any]) -> bytes:
    return blake2b(msgpack.packb(values), digest_size=32, person=b"masq lobby shown").digest()

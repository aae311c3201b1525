"""The coordinator's part in a lobby: he gives each invited site its seat, and shows all of them the same.

It knows no socket, no file and no clock. Nobody has to believe it: each site checks what it is shown
(:mod:`masquerade.lobby.guest`), and people compare the code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hmac import compare_digest

from masquerade.lobby.invitation import Invitation
from masquerade.lobby.messages import SeatShown, Shown, Word
from masquerade_core.errors import BadInput
from masquerade_core.identity import PublicKeys

__all__ = ["Lobby"]

Tell = Callable[[str, str], object]
"""Is told of an event, and of the site that it is about: "came", "used", "anew", "heard", "ready"."""


@dataclass
class _Seat:
    invitation: Invitation
    keys: str = ""
    word: Word | None = None
    told: bool = False


class Lobby:
    """The seats of one study.

    Parameters
    ----------
    invitations : mapping of str to Invitation
        By the names of the sites, in the study's order.
    complete : callable
        Returns the study as TOML with these public keys, by the names of the sites.
    tell : callable
        Is told what happens.
    taken : mapping of str to str
        The public keys with which seats were taken before this process was started.
    """

    def __init__(
        self,
        invitations: Mapping[str, Invitation],
        complete: Callable[[Mapping[str, PublicKeys]], str],
        tell: Tell,
        taken: Mapping[str, str] | None = None,
    ) -> None:
        self._seats = {name: _Seat(each, (taken or {}).get(name, "")) for name, each in invitations.items()}
        self._complete = complete
        self._tell = tell
        self._old: set[bytes] = set()  # commitments of tries that are over
        self._study = ""

    @property
    def study(self) -> str:
        """The complete study as TOML; empty until everybody is there."""
        return self._study

    @property
    def taken(self) -> dict[str, str]:
        """The public keys with which seats are taken, by name."""
        return {name: seat.keys for name, seat in self._seats.items() if seat.keys}

    @property
    def missing(self) -> tuple[str, ...]:
        """The sites that did not come yet."""
        return tuple(name for name, seat in self._seats.items() if seat.word is None)

    @property
    def all_ready(self) -> bool:
        """Whether each site's person has said yes."""
        return all(seat.word is not None and seat.word.ready for seat in self._seats.values())

    @property
    def over(self) -> bool:
        """Whether each site has been answered that all have said yes."""
        return all(seat.told for seat in self._seats.values())

    def answer(self, word: Word, now: float) -> Shown:
        """Take what a site says, and return the answer.

        Parameters
        ----------
        word : Word
        now : float
            Seconds since 1970.
        """
        seat = self._seats.get(word.name)
        if seat is None or not compare_digest(word.lobby + word.token, seat.invitation.lobby + seat.invitation.token):
            return Shown(refused="unknown")
        if seat.keys not in {"", word.keys}:
            self._tell("used", word.name)
            return Shown(refused="used")
        if not seat.keys and now > seat.invitation.ends:
            return Shown(refused="over")
        if word.commitment in self._old:
            return Shown(refused="anew")
        try:
            PublicKeys.parse(word.keys)
        except BadInput:
            return Shown(refused="unknown")
        seat.keys = word.keys
        self._take(seat, word)
        seat.told = self.all_ready
        return self._shown()

    def _take(self, seat: _Seat, word: Word) -> None:
        before = seat.word
        if before is not None and before.commitment != word.commitment:
            self._old.add(before.commitment)
            if self._study:  # the others have shown their numbers, or are about to
                self._begin_anew(seat)
        seat.word = word
        if before is None:
            self._tell("came", word.name)
        elif word.heard != before.heard:
            self._tell("heard", word.name)
        if word.ready and not (before is not None and before.ready):
            self._tell("ready", word.name)
        if not self._study and not self.missing:
            self._study = self._complete({name: PublicKeys.parse(each.keys) for name, each in self._seats.items()})

    def _begin_anew(self, by: _Seat) -> None:
        self._tell("anew", by.invitation.name)
        for seat in self._seats.values():
            if seat.word is not None:
                self._old.add(seat.word.commitment)
            seat.word = None
        self._study = ""

    def _shown(self) -> Shown:
        if not self._study:
            return Shown(missing=self.missing)
        words = [seat.word for seat in self._seats.values() if seat.word is not None]
        seats = tuple(
            SeatShown(
                name=word.name,
                keys=word.keys,
                commitment=word.commitment,
                number=word.number,
                heard=word.heard,
                vouch=word.vouch,
                ready=word.ready,
            )
            for word in words
        )
        return Shown(study=self._study, seats=seats)

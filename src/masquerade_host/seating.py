"""Roster verification: a party's checks of the roster at the start, and of the last words of the run at its end.

The rest of a party's session is in :mod:`masquerade_host.party_session`.
"""

from typing import TYPE_CHECKING, Any

from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.shown import closes_with_all, coin_of, heard_by, shows_all
from masquerade_core.study import CHARLIE, Study
from masquerade_core.wire.codec import decode
from masquerade_core.wire.frames import Endpoint, Frame, run_id
from masquerade_host.closing import check_all_closed
from masquerade_host.holding import HoldingSession
from masquerade_host.roster import box_keys_of
from masquerade_host.session_messages import AllClosed, Hellos, Roster
from masquerade_host.session_states import JoinState, Turn

if TYPE_CHECKING:
    from masquerade_host.large_rosters import Shown

__all__ = ["SeatingSession", "load_for"]


def load_for(study: Study) -> None:
    """Load what a party's session of a study needs, and others do not: before it says hello."""
    if not shows_all(study):
        _shown_class()


def _shown_class() -> "type[Shown]":
    from masquerade_host.large_rosters import Shown

    return Shown


class SeatingSession(HoldingSession):
    """The checks of a party's session; it is made as a :class:`~masquerade_host.session.Session`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._state = JoinState.IDLE
        signing, curator = self._keys.signing, self.study.curator
        self._endpoint = Endpoint(self.me, self.study_id, signing, {CHARLIE: curator.key.sign})
        self._hello = b""
        self._closed = b""
        self._shown: Shown | None = None
        self._seated_at = 0.0

    def _take_seat(self, body: bytes) -> None:
        roster = decode(Roster, body, CHARLIE)
        keys = box_keys_of(roster, self.study, self.study_id, self._keys.signing, (self.me, self._hello))
        run = run_id(self.study_id, body)
        self._endpoint.begin(run)
        self._coin = coin_of(run, roster.root)
        self._last_came = self._seated_at = self._clock()
        self._wait.begin(self._last_came)
        if keys:
            self._begin_run(keys, body, run)
            return
        self.run, self.kept.roster = run, body
        own = (self.me, self._hello)
        self._shown = _shown_class()(roster, run, self.study, self.study_id, self._keys.signing, own)

    def _take_hellos(self, shown: Hellos) -> None:
        if self._shown is None:
            raise LocalProtocolError("hellos were taken before a roster")
        self._shown.take(shown)
        if self._shown.keys:
            self._last_came = self._clock()
            self._begin_run(self._shown.keys, self.kept.roster, self.run, self._shown.root)
            self._beat()  # Charlie keeps what he has shown until then

    def _check_end(self, frame: Frame) -> None:
        own = (self.me, self._closed, self._told.digest())
        due = heard_by(self.study, self._coin, self.me)
        if frame.broadcast != closes_with_all(self.study):
            raise ProtocolViolation(
                f"{CHARLIE} closed the run for {'all' if frame.broadcast else 'one party alone'}; in a study with "
                f"{self.study.K} parties he closes it for {'each by itself' if frame.broadcast else 'all at once'}",
                peer=CHARLIE,
            )
        check_all_closed(decode(AllClosed, frame.body, CHARLIE), self.study, self.run, self._keys.signing, own, due)

    def _check_roster_is_whole(self, turn: Turn, frame: Frame) -> None:
        """Check that Charlie says nothing else that counts before this party has the hellos that it is shown."""
        waits = self._shown is not None and not self._shown.keys
        if frame.numbered and self._state is JoinState.SEATED and waits != (turn is Turn.HELLOS):
            due = "allowed are the hellos that this party is shown" if waits else "it was shown all its hellos before"
            raise ProtocolViolation(f"{CHARLIE} sent {turn.words!r} out of turn; {due}", peer=CHARLIE)

    def missing(self) -> tuple[str, ...]:
        """Return whom the role waits for at this moment; Charlie, where hellos are missing that it is to be shown."""
        return (CHARLIE,) if self._shown is not None and not self._shown.keys else super().missing()

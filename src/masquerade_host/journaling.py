"""What every session does with its journal: nothing leaves before all that led to it is written down.

A session puts frames aside while it works. At the end of each step it commits the journal, has the budget pay for what
the frames release, and only then lets them out. After a restart it first does again what the journal says
(:mod:`masquerade_host.resuming`). Nothing leaves meanwhile.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from masquerade_core.effects import Release
from masquerade_host.debits import Debits, NoDebits
from masquerade_host.journal import Entry
from masquerade_host.steps import Steps

__all__ = ["Journaling"]


class Journaling(ABC):
    """The side of a session that a restart needs.

    Parameters
    ----------
    debits : Debits, optional
        Where the cost of a release is written down before the release leaves; by default nowhere.

    Attributes
    ----------
    run : bytes
        The id of the run, once it is known.
    steps : Steps
        What happened, written or compared. By default nothing is written. A caller sets another one before the run.
    releases : list of Release
        What each release so far cost in privacy: all that was debited, whether it has left or not.
    """

    run: bytes

    def __init__(self, debits: Debits | None = None) -> None:
        self.steps = Steps()
        self.releases: list[Release] = []
        self._debits: Debits = debits or NoDebits()
        self._due: list[Release] = []  # what the next send costs
        self._owed: list[Release] = []  # what the frames that are put aside cost
        self._outgoing: list[Callable[[], None]] = []

    def _leave(self, send: Callable[[], None]) -> None:
        """Call ``send``, which puts a frame on the wire, as soon as all that led to the frame is written down."""
        self._outgoing.append(send)

    def _post(self) -> None:
        """Write down what happened, pay for it, and let out what waits.

        The journal is written before the ledger. So a ledger never knows of a release that the journal of the same run
        does not, unless somebody put an older journal in its place.
        """
        if self.steps.due is not None:
            self._outgoing.clear()
            return
        if not (self._outgoing or self._owed):
            return
        outgoing, self._outgoing = self._outgoing, []
        owed, self._owed = self._owed, []
        self.steps.commit()
        if owed:
            self._debits.debit(self.run, owed)
            self.releases.extend(owed)
        for send in outgoing:
            send()

    @abstractmethod
    def again(self, row: Entry) -> None:
        """Take again what came from outside before this process was started."""

    @abstractmethod
    def look_again(self) -> None:
        """Answer the role if its answer is there."""

    def let_go(self) -> bool:
        """Send what this session holds back, for it was sent before; return whether there was anything."""
        return False

"""The steps: a session writes down through it what happens, and after a restart it checks that the same happens.

While a session lives, :meth:`Steps.note` adds a row to the journal. After a restart the journal already has rows.
Then the same calls compare what happens with the next row and add nothing. So a program that has changed meanwhile is
found out before it sends anything. :mod:`masquerade_host.resuming` feeds the inputs among the rows to the session.

These kinds of rows exist:

=============  ========================================================================================================
``begun``      the program and the records with which the attempt began
``once``       a number that the role drew, or the result of its arithmetic
``hello``      a party's hello that stands in Charlie's roster
``received``   a numbered frame that was accepted
``sent``       the hash of a numbered frame, or a party's hello, that was made for the other end of a hop
``acked``      how many frames the other end of a hop holds for certain
``lost``       Charlie goes on without a party
``patience``   a wait ended because its time was over
=============  ========================================================================================================
"""

import hashlib
from collections.abc import Iterator

from masquerade_core.errors import LocalProtocolError, MasqueradeError
from masquerade_host.journal import Entry, Journal, NoJournal

__all__ = ["Steps", "digest_of"]

_DIGEST_BYTES = 32


def digest_of(frame: bytes) -> bytes:
    """Return the hash by which a journal knows a frame that was sent."""
    return hashlib.blake2b(frame, digest_size=_DIGEST_BYTES, person=b"masq sent").digest()


class Steps:
    """One participant's journal, written or compared.

    Parameters
    ----------
    journal : Journal, optional
        By default nothing is kept.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal: Journal = NoJournal() if journal is None else journal
        self._rows: Iterator[Entry] = self._journal.entries()
        self._due = next(self._rows, None)
        self.passed = 0  # rows that were compared
        self.kept = self._journal.kept

    @property
    def due(self) -> Entry | None:
        """The row that must come next in a replay; ``None`` when this participant lives."""
        return self._due

    def note(self, kind: str, peer: str = "", label: str = "", data: bytes = b"") -> None:
        """Write down what happens; in a replay, check that it is what happened.

        Raises
        ------
        LocalProtocolError
            Something else happened then.
        """
        entry = Entry(kind, peer, label, data)
        if self._due is None:
            self._journal.append(entry)
            return
        if entry != self._due:
            raise self.changed(f"{kind} {label}".strip())
        self._advance()

    def drawn(self, label: str) -> bytes | None:
        """Return what was drawn under this label, in a replay; ``None`` when it is to be drawn now.

        Raises
        ------
        LocalProtocolError
            Something else came next then.
        """
        if self._due is None:
            return None
        if (self._due.kind, self._due.label) != ("once", label):
            raise self.changed(f"the draw {label!r}")
        data = self._due.data
        self._advance()
        return data

    def decide(self, kind: str, *, now: bool) -> bool:
        """Return ``now``, which a clock has decided, and write it down if it is true; in a replay, what was decided."""
        if self._due is not None:
            now = self._due.kind == kind
        if now:
            self.note(kind)
        return now

    def _advance(self) -> None:
        self._due = next(self._rows, None)
        self.passed += 1

    def changed(self, what: str) -> LocalProtocolError:
        """Return the error for a replay that does not do what was done then."""
        due = "the end of the run so far" if self._due is None else f"{self._due.kind} {self._due.label}".strip()
        return LocalProtocolError(
            f"this program or its records changed since the run began: step {self.passed} is now {what}, and was {due}",
            "this attempt is over; a new one needs the program and the records unchanged until its end",
        )

    def commit(self) -> None:
        """Write to the disk what was noted.

        Raises
        ------
        RunFailed
            It could not be written. From here on nothing is kept, so that the others can still be told of the end.
        """
        try:
            self._journal.commit()
        except MasqueradeError:
            self._journal, self._rows, self._due = NoJournal(), iter(()), None
            raise

"""The steps: a session writes down through it what happens, and after a restart it checks that the same happens.

While a session lives, :meth:`Steps.note` adds a row to the journal. After a restart the journal already has rows.
Then the same calls compare what happens with the next row and add nothing. So a process that would go on in another way
is found out before it sends anything. :mod:`masquerade_host.resuming` feeds the inputs among the rows to the session.

These kinds of rows exist:

=============  ========================================================================================================
``program``    the program with which the attempt began
``begun``      a hash of the records with which it began
``run``        the run's id, once it is known
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

from masquerade_core.errors import LocalProtocolError, MasqueradeError, RefusedLocally
from masquerade_host.journal import Entry, Journal, NoJournal
from masquerade_host.program import Program

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

    def begin(self, program: Program, records: bytes) -> None:
        """Write down with what the attempt begins; after a restart, check that it is what it began with.

        Parameters
        ----------
        program : Program
        records : bytes
            A hash of this participant's records.

        Raises
        ------
        ProgramChanged
            The program is another one.
        RefusedLocally
            The records are others.
        """
        if self._due is None:
            self.note("program", data=program.packed())
            self.note("begun", data=records)
            return
        program.check_same(Program.unpacked(self._take("program")))
        if self._take("begun") != records:
            raise RefusedLocally(
                "these records are not those with which the run began on this machine",
                "nothing more was sent, and this attempt is over; a new one needs its records unchanged until its end",
            )

    def _take(self, kind: str) -> bytes:
        """Return what the row that is due holds, which is of this kind."""
        if self._due is None or self._due.kind != kind:
            raise self.changed(kind)
        data = self._due.data
        self._advance()
        return data

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
            f"what this process does now is not what it did before it was started again: step {self.passed} is now "
            f"{what}, and was {due}",
            "this attempt is over; start the next one and its restarts with the same options. If they were the same, "
            "this is a bug",
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

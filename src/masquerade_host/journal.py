"""The journal: what a process needs to go on with a run after it died, written down before anything leaves.

A participant's part of a run follows from a few inputs: the frames that it accepted, the numbers that it drew, and the
decisions that a clock made. The journal holds these inputs in order, and a hash of each frame that followed from them.
A process that starts again feeds the inputs to the same program (:mod:`masquerade_host.resuming`). So it sends the same
bytes again, and no number is drawn a second time for another purpose.

The session adds rows as things happen, and commits them in one transaction before it sends or acknowledges anything. A
power cut loses what was not committed; nobody else has seen it. The journal contains secrets, such as keys and noise.
It is deleted when the attempt ends. :mod:`masquerade_host.journal_file` keeps it on disk.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

__all__ = ["FINISHED", "Entry", "Journal", "NoJournal"]

FINISHED = "finished"
"""How an attempt ended that has its result."""


@dataclass(frozen=True)
class Entry:
    """One row of a journal.

    Attributes
    ----------
    kind : str
        What happened; :mod:`masquerade_host.resuming` has the list.
    peer : str
        The participant at the other end, or ``*`` for a frame that goes to all parties.
    label : str
        Tells rows of one kind apart, such as the label of a draw.
    data : bytes
    """

    kind: str
    peer: str = ""
    label: str = ""
    data: bytes = b""


class Journal(Protocol):
    """Where a session writes down what it needs after a restart.

    Attributes
    ----------
    kept : bool
        Whether rows outlive the process.
    joined : bool
        Whether an earlier process of this attempt took part in a run: it had accepted a frame.
    run : bytes
        The id of the run under way, once it is known; empty before, and after the end.
    finished : bytes
        The id of a run that finished here, if the process died while it deleted the journal of that run. The deletion
        is complete now.
    """

    kept: bool
    joined: bool
    run: bytes
    finished: bytes

    def entries(self) -> Iterator[Entry]:
        """Return the rows that an earlier process of this attempt committed, in order."""

    def append(self, entry: Entry) -> None:
        """Add a row to the next transaction."""

    def commit(self) -> None:
        """Write the rows added since the last commit. When this returns, a power cut does not lose them.

        Raises
        ------
        RunFailed
            They could not be written. No row can be written after this.
        """

    def end(self, how: str, run: bytes = b"") -> None:
        """The attempt is over: delete every row, and keep one line that says how it ended."""

    def __enter__(self) -> Self:
        """Return the journal."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let another process open the journal. The attempt lives, unless it was ended."""


class NoJournal:
    """Nothing outlives the process: for runs in memory, for tests, and for ``--no-journal``."""

    kept = False
    joined = False
    run = b""
    finished = b""

    def entries(self) -> Iterator[Entry]:
        """Return nothing."""
        return iter(())

    def append(self, entry: Entry) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Do nothing."""

    def end(self, how: str, run: bytes = b"") -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Do nothing."""

"""The budget hook of a session: it writes a cost into the ledger before anything leaves.

A role counts what its next message costs in privacy. The session has this debited first, and only then puts the message
on the wire. So a process that dies between the two has paid for something that never left, and never the reverse.
"""

from collections.abc import Sequence
from typing import Protocol

from masquerade_core.seat import Release

__all__ = ["Debits", "NoDebits"]


class Debits(Protocol):
    """Where a session debits what its releases cost."""

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        """Write down what these releases of this run cost. When this returns, a power cut does not lose it.

        The same label of the same run costs once, however often it is debited: after a restart, a role releases again
        what it had released before.

        Raises
        ------
        BudgetExceeded
            The budget does not cover them.
        RunFailed
            They cannot be written down.
        """

    def labels(self, run: bytes) -> frozenset[str]:
        """Return the labels of all that was debited for this run, by this process or by an earlier one."""


class NoDebits:
    """No budget is kept: that of Charlie, who has no records, and of tests."""

    def debit(self, run: bytes, releases: Sequence[Release]) -> None:
        """Do nothing."""

    def labels(self, run: bytes) -> frozenset[str]:
        """Return nothing."""
        del run
        return frozenset()

"""Pending receives: the senders whose frames a role waits for, found without rescanning on each arrival."""

from collections.abc import Iterator

from masquerade_core.seat import Receive
from masquerade_core.wire.frames import Frame
from masquerade_host.inbox import Inbox

__all__ = ["Awaited"]


class Awaited:
    """The role's pending Receive, and what of it is still missing.

    Parameters
    ----------
    inbox : Inbox
        Where the frames are.

    Attributes
    ----------
    wanted : Receive or None
        None while the role waits for no frame.
    missing : set of str
        Whose frame has not come.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.wanted: Receive | None = None
        self.missing: set[str] = set()
        self._senders: frozenset[str] = frozenset()
        self._new: list[str] = []

    def begin(self, wanted: Receive) -> None:
        """Wait for these frames; some may have come before."""
        self.wanted, self._senders = wanted, frozenset(wanted.senders)
        self._new = [sender for sender in wanted.senders if self._inbox[sender, wanted.kind]]
        self.missing = set(self._senders.difference(self._new))

    def end(self) -> None:
        """Wait for nothing more."""
        self.wanted, self._senders, self.missing, self._new = None, frozenset(), set(), []

    def came(self, frame: Frame) -> bool:
        """Take note of a frame in the inbox; return whether the role waits for something of its source."""
        if self.wanted is not None and frame.kind == self.wanted.kind and frame.source in self.missing:
            self.missing.remove(frame.source)
            self._new.append(frame.source)
        return frame.source in self._senders

    def new(self) -> Iterator[Frame]:
        """Yield each frame that is next in turn, once. A caller that finds one wrong may take it out of the inbox."""
        while self._new and self.wanted is not None:
            queue = self._inbox[self._new[-1], self.wanted.kind]
            if queue:
                yield queue[0][1]
            sender = self._new.pop()
            if not queue:
                self.missing.add(sender)

    def in_order(self) -> tuple[str, ...]:
        """Return whose frame is missing, in the order of the role's question."""
        if self.wanted is None or not self.missing:
            return ()
        return tuple(sender for sender in self.wanted.senders if sender in self.missing)

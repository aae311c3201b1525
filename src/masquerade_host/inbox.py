"""The inbox: frames for a role that it has not asked for yet, in a bounded space."""

from collections import defaultdict, deque

from masquerade_core.wire.codec import MAX_BODY
from masquerade_core.wire.frames import Frame
from masquerade_host.session_states import Turn
from masquerade_host.verdicts import violation_in

__all__ = ["Inbox"]

_MAX_FRAMES = 64  # of one source and kind that the role has not asked for yet
_MAX_BYTES = 4 * MAX_BODY  # of one source: no role is ever so far behind another


class Inbox(defaultdict[tuple[str, str], deque[tuple[float, Frame]]]):
    """The frames of each source and kind in their order, each with the time at which it came.

    Parameters
    ----------
    me : str
        The participant whose role they are for.
    """

    def __init__(self, me: str) -> None:
        super().__init__(deque)
        self._me = me

    def put(self, frame: Frame, now: float) -> None:
        """Put a role's frame into its source's queue.

        Raises
        ------
        ProtocolViolation
            More came than the role can have asked for.
        """
        queue = self[frame.source, frame.kind]
        queue.append((now, frame))
        if len(queue) > _MAX_FRAMES:
            what = f"more {Turn(frame.kind).words}s than were asked for; allowed are {_MAX_FRAMES}"
            raise violation_in(frame, self._me, what)
        queues = (self[frame.source, kind] for kind in ("message", "sealed"))
        if sum(len(waiting.body) for queue in queues for _, waiting in queue) > _MAX_BYTES:
            what = f"more bytes than were asked for; allowed are {_MAX_BYTES >> 20} MB"
            raise violation_in(frame, self._me, what)

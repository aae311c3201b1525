"""The form of a sealed message on its way to Charlie, and how he takes it apart.

A *sealed message* is a message from a party to other parties. It travels as one sealed box for each recipient.
"""

from collections.abc import Sequence

import msgpack

from masquerade_core.errors import LocalProtocolError, ProtocolViolation
from masquerade_core.wire.codec import unpack_strict
from masquerade_core.wire.frames import Frame
from masquerade_core.wire.messages import PARTIES

__all__ = ["pack_boxes", "split_boxes", "target"]


def target(to: Sequence[str]) -> str:
    """Return the header's ``dst`` of a sealed message: its one recipient's name, or ``*`` for all other parties."""
    return to[0] if len(to) == 1 else PARTIES


def pack_boxes(boxes: Sequence[bytes]) -> bytes:
    """Put one box for each recipient, in roster order, into one body: their common length, and all of them in a row.

    So the number of recipients is bounded by a frame's length alone.

    Raises
    ------
    LocalProtocolError
        The boxes are not equally long.
    """
    widths = {len(box) for box in boxes}
    if len(widths) != 1:
        msg = f"boxes of one sealed message have {len(widths)} lengths; all must be equally long"
        raise LocalProtocolError(msg)
    return bytes(msgpack.packb((widths.pop(), b"".join(boxes))))


def split_boxes(frame: Frame, names: Sequence[str]) -> tuple[tuple[str, bytes], ...]:
    """Return the (recipient, box) pairs of a sealed message that Charlie received from its source.

    Raises
    ------
    ProtocolViolation
        The source's fault, for it signed this frame: an unknown recipient, a wrong number of boxes, or boxes of
        unequal length.
    """
    others = tuple(name for name in names if name != frame.source)
    # With two parties, "the other one" and "all others" mean the same, and the header may say either.
    to = others if frame.to == PARTIES else (frame.to,)
    match unpack_strict(frame.body, frame.source):
        case (int(width), bytes(boxes)) if width > 0 and width is not True and len(boxes) == width * len(to):
            if set(to) <= set(others):
                return tuple((name, boxes[i * width : (i + 1) * width]) for i, name in enumerate(to))
    msg = f"{frame.source} sent a malformed sealed message; it needs one box for each recipient, all equally long"
    raise ProtocolViolation(msg, peer=frame.source)

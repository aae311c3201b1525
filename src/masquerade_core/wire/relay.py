"""The form of a sealed message on its way to Charlie, and how he takes it apart.

A *sealed message* is a message from a party to other parties. It travels as one sealed box for each recipient.
"""

from collections.abc import Sequence

import msgpack

from masquerade_core.errors import ProtocolViolation
from masquerade_core.wire.codec import unpack_strict
from masquerade_core.wire.frames import Frame
from masquerade_core.wire.messages import PARTIES

__all__ = ["pack_boxes", "split_boxes", "target"]


def target(to: Sequence[str]) -> str:
    """Return the header's ``dst`` of a sealed message: its one recipient's name, or ``*`` for all other parties."""
    return to[0] if len(to) == 1 else PARTIES


def pack_boxes(boxes: Sequence[bytes]) -> bytes:
    """Put one box for each recipient, in roster order, into one body."""
    return bytes(msgpack.packb(tuple(boxes)))


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
    boxes = unpack_strict(frame.body, frame.source)
    sound = (
        isinstance(boxes, tuple)
        and set(to) <= set(others)
        and len(boxes) == len(to)
        and all(isinstance(box, bytes) for box in boxes)
        and len({len(box) for box in boxes}) == 1
    )
    if not sound:
        msg = f"{frame.source} sent a malformed sealed message; it needs one box for each recipient, all equally long"
        raise ProtocolViolation(msg, peer=frame.source)
    return tuple(zip(to, boxes, strict=True))

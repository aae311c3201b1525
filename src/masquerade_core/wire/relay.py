"""How a sealed message lies in a frame on its way to Charlie, and how he takes it apart."""

from collections.abc import Sequence

import msgpack

from masquerade_core.errors import ProtocolViolation
from masquerade_core.wire.codec import unpack_strict
from masquerade_core.wire.frames import Frame
from masquerade_core.wire.messages import PARTIES

__all__ = ["pack_boxes", "split_boxes", "target"]


def target(to: Sequence[str]) -> str:
    """Return the header's ``dst`` for a sealed message: the one party's name, or ``*`` for all others."""
    return to[0] if len(to) == 1 else PARTIES


def pack_boxes(boxes: Sequence[bytes]) -> bytes:
    """Put one box per recipient, in roster order, into one body."""
    return bytes(msgpack.packb(tuple(boxes)))


def split_boxes(frame: Frame, names: Sequence[str]) -> tuple[tuple[str, bytes], ...]:
    """Return (recipient, box) pairs of a sealed message that a party handed to Charlie.

    Raises
    ------
    ProtocolViolation
        The source's fault: no such recipient, a wrong number of boxes, or boxes of unequal length.
    """
    others = tuple(name for name in names if name != frame.source)
    # With two parties "the other" and "all others" are one, and the header may say either.
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
        msg = f"{frame.source} sent a sealed message that is not one box of equal length for each of its recipients"
        raise ProtocolViolation(msg, peer=frame.source)
    return tuple(zip(to, boxes, strict=True))

"""A sealed message's way through Charlie's hands: one box for each recipient, equally long."""

from dataclasses import replace
from functools import partial

import msgpack
import pytest

from masquerade_core.errors import LocalProtocolError
from masquerade_core.study import CHARLIE
from masquerade_core.wire.codec import PARTIES
from masquerade_core.wire.frames import Frame, pack_boxes, split_boxes, target
from tests.helpers import PEER, RUN, cuts, violation
from tests.messages import raises

NAMES = ("alice", "bob", PEER, "zoe")
OTHERS = ("alice", "bob", "zoe")
BOXES = (b"box-1", b"box-2", b"box-3")


def frame(to: str, body: bytes, source: str = PEER) -> Frame:
    return Frame(2, RUN, source, to, "sealed", "Hail", body, len(body), numbered=True, broadcast=False)


def test_boxes_for_all_come_out_in_roster_order() -> None:
    assert split_boxes(frame(PARTIES, pack_boxes(BOXES)), NAMES) == tuple(zip(OTHERS, BOXES, strict=True))


def test_a_box_for_one_comes_out_for_that_one() -> None:
    assert split_boxes(frame("bob", pack_boxes(BOXES[:1])), NAMES) == (("bob", b"box-1"),)


def test_with_two_parties_the_other_and_all_others_are_one() -> None:
    for to in (PARTIES, "bob"):
        assert split_boxes(frame(to, pack_boxes(BOXES[:1])), (PEER, "bob")) == (("bob", b"box-1"),)


def test_the_header_says_one_name_or_all() -> None:
    assert target(("bob",)) == "bob"
    assert target(("bob", "zoe")) == PARTIES


@pytest.mark.parametrize(
    ("to", "boxes"),
    [
        (PARTIES, (5, b"box-1box-2")),
        (PARTIES, (5, b"box-1box-2box-3box-4")),
        (PARTIES, (5, b"box-1box-2box-33")),
        (PARTIES, (4, b"box-1box-2box-3")),
        (PARTIES, (0, b"")),
        (PARTIES, (-5, b"box-1box-2box-3")),
        (PARTIES, (True, b"box")),
        (PARTIES, (5, "box-1box-2box-3")),
        (PARTIES, ("5", b"box-1box-2box-3")),
        (PARTIES, (5, b"box-1box-2box-3", b"")),
        (PARTIES, BOXES),
        (PARTIES, ()),
        (PARTIES, b"box-1box-2box-3"),
        (PARTIES, {"alice": b"box-1"}),
        (PARTIES, 3),
        ("bob", ()),
        ("bob", (5, b"box-1box-2")),
        ("bob", b"box-1"),
        (PEER, (5, b"box-1")),
        (CHARLIE, (5, b"box-1")),
        ("nobody", (5, b"box-1")),
        ("", (5, b"box-1")),
    ],
    ids=str,
)
def test_anything_else_is_the_speakers_fault(to: str, boxes: object) -> None:
    error = violation(lambda: split_boxes(frame(to, msgpack.packb(boxes)), NAMES))
    assert "box-1" not in error.message
    assert "nobody" not in error.message


def test_cut_or_overlong_bytes_are_the_speakers_fault() -> None:
    whole = frame(PARTIES, pack_boxes(BOXES))
    for bad in cuts(whole.body):
        violation(partial(split_boxes, replace(whole, body=bad), NAMES))


def test_boxes_of_two_lengths_are_never_packed() -> None:
    with raises(LocalProtocolError, "boxes_of_two_lengths"):
        pack_boxes((b"box-1", b"box-22"))


def test_a_name_longer_or_shorter_changes_no_length() -> None:
    assert len(pack_boxes(BOXES)) == len(pack_boxes((b"BOX-A", b"BOX-B", b"BOX-C")))

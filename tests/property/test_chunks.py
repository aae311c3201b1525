"""Frames in chunks: every frame comes out whole, and nothing that breaks the order comes out at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade_host.channel import (
    CHUNK,
    MAX_CONNECTIONS,
    MAX_JOINED,
    MAX_MESSAGE,
    BadChunk,
    Joiner,
    Joiners,
    Outbox,
    cut,
)

lengths = st.one_of(st.integers(0, 5 * CHUNK), st.sampled_from([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, MAX_JOINED]))
_CURVE = 33  # bytes that CURVE adds to a message


def frame_of(length: int, first: int = 0) -> bytes:
    return bytes((first + i // CHUNK) % 251 for i in range(0, length, CHUNK)).ljust(length, b"x")[:length]


def joined(chunks: list[bytes]) -> list[bytes]:
    joiner = Joiner()
    return [frame for chunk in chunks if (frame := joiner.take(chunk)) is not None]


@given(st.lists(lengths, max_size=4))
def test_frames_come_out_as_they_went_in(each: list[int]) -> None:
    frames = [frame_of(length, i) for i, length in enumerate(each)]
    chunks = [chunk for frame in frames for chunk in cut(frame)]
    assert all(len(chunk) + _CURVE <= MAX_MESSAGE for chunk in chunks)
    assert joined(chunks) == frames


@given(st.integers(2 * CHUNK, 6 * CHUNK), st.integers(2 * CHUNK, 6 * CHUNK), st.data())
def test_no_broken_order_gets_through(first: int, second: int, data: st.DataObject) -> None:
    """Leave a chunk out, repeat one, exchange two, or cut one short: the frame that it belongs to never comes out."""
    chunks = [*cut(frame_of(first)), *cut(frame_of(second, 7))]
    broken = list(chunks)
    at = data.draw(st.integers(0, len(chunks) - 2))
    match data.draw(st.sampled_from(["left out", "repeated", "exchanged", "cut short", "longer"])):
        case "left out":
            del broken[at]
        case "repeated":
            broken.insert(at, chunks[at])
        case "exchanged":
            broken[at], broken[at + 1] = broken[at + 1], broken[at]
        case "cut short":
            broken[at] = broken[at][:-1]
        case "longer":
            broken[at] += b"x"
    with pytest.raises(BadChunk):
        joined(broken)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_chunk_or_refused(chunk: bytes) -> None:
    try:
        frame = Joiner().take(chunk)
    except BadChunk:
        return
    assert frame is not None
    assert list(cut(frame)) == [chunk]


def test_a_frame_that_would_be_too_long_is_refused_at_its_first_chunk() -> None:
    with pytest.raises(BadChunk):
        Joiner().take(next(cut(bytes(MAX_JOINED + 1))))


def test_an_announced_length_costs_nothing_before_it_comes() -> None:
    joiner = Joiner()
    joiner.take(next(cut(bytes(MAX_JOINED))))
    assert len(joiner._part) == CHUNK


def test_another_length_in_the_middle_of_a_frame_is_refused() -> None:
    joiner = Joiner()
    joiner.take(next(cut(bytes(2 * CHUNK))))
    with pytest.raises(BadChunk):
        joiner.take(list(cut(bytes(2 * CHUNK + 1)))[1])


def test_a_party_holds_unfinished_frames_on_few_connections_and_older_ones_are_dropped() -> None:
    joiners, chunks = Joiners(), list(cut(frame_of(2 * CHUNK)))
    routes = [bytes([i]) for i in range(150)]
    assert [joiners.take(route, chunks[0]) for route in routes] == [None] * 150
    assert len(joiners._joiners) == MAX_CONNECTIONS
    assert [joiners.take(route, chunks[1]) for route in routes[-MAX_CONNECTIONS:]] == [frame_of(2 * CHUNK)] * 4
    assert joiners.take(routes[-MAX_CONNECTIONS - 1], chunks[1]) is None


@given(st.integers(0, CHUNK - 1))
def test_a_chunk_that_is_shorter_than_it_could_be_is_refused(length: int) -> None:
    """Many small chunks would cost much more than the bytes that they carry."""
    with pytest.raises(BadChunk):
        Joiner().take(next(cut(bytes(2 * CHUNK)))[: 8 + length])


def test_a_frame_that_was_begun_on_a_broken_connection_is_sent_again_from_its_start() -> None:
    outbox, sent = Outbox(), list[bytes]()

    def takes_two(chunk: bytes) -> None:
        if len(sent) == 2:
            raise BlockingIOError
        sent.append(chunk)

    frames = [frame_of(3 * CHUNK), b"next"]
    for frame in frames:
        outbox.put(frame)
    with pytest.raises(BlockingIOError):
        outbox.offer(takes_two)
    assert outbox.waiting == 3 * CHUNK + 4
    outbox.restart()
    sent.clear()
    with pytest.raises(BlockingIOError):
        outbox.offer(takes_two)
    outbox.offer(sent.append)  # the rest, from where it stopped
    assert joined(sent) == frames
    assert outbox.waiting == 0

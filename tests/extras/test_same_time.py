"""Times of a party's contribution on both sides of every power of two, where ``make test`` has the edges alone."""

from masquerade_protocols.blocks.masked_sum import MaskedPartySums
from tests.unit.protocols.blocks.test_same_time import (
    made_sums,  # noqa: F401 - a fixture
    told_apart,
)


def test_times_tell_no_two_vectors_apart_whatever_their_lengths(sums: MaskedPartySums) -> None:
    assert told_apart(sums, range(62)) == {}

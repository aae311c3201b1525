"""The sharing of zero: shares that cancel in the sum of all and in no other sum."""

from __future__ import annotations

from collections import Counter

import pytest

from masquerade_core.crypto import pair_keys
from masquerade_core.crypto.pair_keys import End
from masquerade_core.crypto.shares import mask
from masquerade_core.study import CHARLIE
from masquerade_protocols.local_aggregation.zero_sharing import zero_share
from tests.helpers import RUN, box_key_of, joined

NAMES = ("alice", "bob", "eve", "zoe")
N = (1 << 511) + 0xBAD5EED


def shares(
    participants: tuple[str, ...], bound_to: bytes = b"seed", modulus: int = N, count: int = 3, run: bytes = RUN
) -> dict[str, tuple[int, ...]]:
    names = tuple(name for name in participants if name != CHARLIE)
    return {
        me: zero_share(joined(me, names, run), participants, b"" if me == CHARLIE else bound_to, modulus, count)
        for me in participants
    }


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize(
    "participants", [NAMES, (*NAMES, CHARLIE), NAMES[:2], ("alice", CHARLIE), (*NAMES[:2], CHARLIE)]
)
def test_the_shares_add_up_to_zero_and_are_none(participants: tuple[str, ...], count: int) -> None:
    rows = shares(participants, count=count)
    assert [sum(column) % N for column in zip(*rows.values(), strict=True)] == [0] * count
    values = [value for row in rows.values() for value in row]
    assert len(set(values)) == len(values)
    assert all(0 < value < N for value in values)


@pytest.mark.parametrize("missing", [*NAMES, CHARLIE])
def test_all_but_one_share_add_up_to_nothing(missing: str) -> None:
    rows = shares((*NAMES, CHARLIE))
    rest = [sum(row[0] for name, row in rows.items() if name != missing) % N]
    assert rest[0] > N >> 32
    assert rest[0] < N - (N >> 32)


def test_shares_are_bound_to_the_toss_and_the_run() -> None:
    one, other, again = shares(NAMES), shares(NAMES, b"another seed"), shares(NAMES, run=bytes(15) + b"\1")
    values = [value for rows in (one, other, again) for row in rows.values() for value in row]
    assert len(set(values)) == len(values)
    assert shares(NAMES) == one


def test_parties_that_disagree_on_the_toss_do_not_cancel() -> None:
    rows = {**shares(NAMES), "zoe": shares(NAMES, b"another seed")["zoe"]}
    assert all(sum(column) % N for column in zip(*rows.values(), strict=True))


@pytest.mark.parametrize("who", ["alice", "eve", CHARLIE])
@pytest.mark.parametrize("modulus", [3 << 60, 1 << 33, N])
def test_a_share_alone_is_uniform(who: str, modulus: int) -> None:
    participants, cells = (*NAMES, CHARLIE), 16
    seats = joined(who, NAMES)
    values = zero_share(seats, participants, b"seed", modulus, 4000)
    for drawn in (Counter(v % cells for v in values), Counter(v * cells // modulus for v in values)):
        # 15 degrees of freedom: passed by chance once in 200,000.
        assert sum((drawn[i] - 250) ** 2 / 250 for i in range(cells)) < 52.2


@pytest.mark.parametrize("mutant", [False, True])
def test_whoever_copies_a_key_takes_no_masks_off(monkeypatch: pytest.MonkeyPatch, *, mutant: bool) -> None:
    """Zoe announces alice's key. Bob, who stands between the two, would add and subtract one mask."""
    if mutant:
        whole, nobody = pair_keys._expand, (End("", b""), End("", b""))
        monkeypatch.setattr(pair_keys, "_expand", lambda made, purpose, _, *rest: whole(made, purpose, nobody, *rest))
    names = ("alice", "bob", "zoe")
    bob = joined("bob", names, announced={"zoe": box_key_of("alice").public})
    (share,) = zero_share(bob, (*names, CHARLIE), b"seed", N, 1)
    (charlies,) = mask(joined(CHARLIE, names).pair_key("bob", "shares of zero"), b"zero share", N, 1)
    assert (share == charlies) == mutant


def test_who_lacks_one_pairs_key_still_misses_a_uniform_mask() -> None:
    """Charlie and all parties but two pool what they know: the two's common mask stays between them."""
    rows = shares((*NAMES, CHARLIE), count=1)
    known = {"bob": joined("bob", NAMES), "zoe": joined("zoe", NAMES), CHARLIE: joined(CHARLIE, NAMES)}
    left = rows["alice"][0]
    for name, seat in known.items():
        label = b"" if name == CHARLIE else b"seed"
        left -= mask(seat.pair_key("alice", "shares of zero", context=label), b"zero share", N, 1)[0]
    common = mask(joined("eve", NAMES).pair_key("alice", "shares of zero", context=b"seed"), b"zero share", N, 1)[0]
    assert left % N == common
    assert sum(rows[name][0] for name in ("alice", "eve")) % N != 0

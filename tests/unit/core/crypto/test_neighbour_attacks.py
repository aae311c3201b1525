"""Attacks on who shares masks with whom: each is coded, fails, and succeeds where its rule is taken out.

Charlie has 60 of 90 parties on his side, and every party has 64 neighbours. He knows the coin, which is public.
"""

from __future__ import annotations

from typing import Any

import pytest

from masquerade_core.crypto.masks import as_integers, tagged_hash
from masquerade_core.errors import RunFailed
from masquerade_core.neighbours import coin_of_set, neighbours_of
from masquerade_core.seat import Seat
from masquerade_protocols.blocks import masked_sum as ms
from masquerade_protocols.blocks.masked_sum import Masked
from tests.dropout_helpers import RetriedSums, losing_study
from tests.messages import raises

STUDY = losing_study(K=90, survivors=61, retries=2, colluders=60, section="rounds = 3")
NAMES = STUDY.names
CORRUPT = NAMES[10:70]
VICTIM = NAMES[80]


def _labels(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], bytes]:
    """Note each contribution's label, by party and round. Every party knows it."""
    found, send = {}, ms.MaskedPartySums._send

    async def noting(side: ms.MaskedPartySums, *args: Any) -> Any:
        found[side.seat.me, side._round], key = await send(side, *args)
        return found[side.seat.me, side._round], key

    monkeypatch.setattr(ms.MaskedPartySums, "_send", noting)
    return found


def _without_their_masks(run: RetriedSums, label: bytes, contribution: Masked) -> tuple[int, ...] | None:
    """Take the masks off that the victim shares with corrupt parties; its vector, if nothing else hides it."""
    near = [run.sums[name].pair_keys[VICTIM] for name in CORRUPT if VICTIM in run.sums[name]._near]
    streams = [(adds, tagged_hash("mask", label, key=key)) for adds, key in near]
    masks, _ = run.layout.masked(run.layout.read(bytes(run.layout.total_bytes)), 0, streams)
    try:
        return as_integers(run.layout.decode(run.layout.read(contribution.words) + run.layout.read(masks), 1))
    except RunFailed:
        return None


@pytest.mark.parametrize("mutant", [False, True])
def test_survivors_named_so_that_a_party_has_corrupt_neighbours_only(
    monkeypatch: pytest.MonkeyPatch, *, mutant: bool
) -> None:
    """Attack 21. Charlie claims that all honest neighbours of one party are gone.

    With one graph for all sets, the party's vector then is under masks alone that he can take off. The graph of the set
    that he names gives the party honest neighbours again.
    """
    if mutant:
        monkeypatch.setattr(ms, "neighbours_of", _drawn_once)
    run, labels = RetriedSums.of(STUDY), _labels(monkeypatch)
    named: list[tuple[str, ...]] = []

    async def charlie(run: RetriedSums, seat: Seat) -> None:
        await run.hear(seat)
        near = run.sums[VICTIM]._near
        honest = set(near) - set(CORRUPT)
        named.append(tuple(name for name in NAMES if name not in honest))
        await run.ask_again(0, dict.fromkeys(NAMES, named[0]))
        await run.hear(seat)

    with raises(RunFailed, "nobody_goes_on"):  # Charlie ends here, and the parties wait
        run.run(charlie)
    assert 0 < len(NAMES) - len(named[0]) <= STUDY.K - STUDY.survivors
    assert set(CORRUPT) < set(named[0])
    read = _without_their_masks(run, labels[VICTIM, 1], run.heard[1][VICTIM])
    assert read == (tuple(run.vectors[VICTIM][1]) if mutant else None)
    assert bool(set(run.sums[VICTIM]._near) - set(CORRUPT)) == (not mutant)
    if not mutant:  # drawn from coin and set, and not by shifting everybody's place in one circle
        coin = coin_of_set(run.sums[VICTIM].seat.roster_hash(), named[0])
        assert run.sums[VICTIM]._near == neighbours_of(coin, named[0], VICTIM)
    together = {name: run.heard[1][name] for name in named[0]}  # the sum itself is right in either case
    assert run.opened(together.values()) == run.added(dict.fromkeys(named[0], 1))


def _drawn_once(_: bytes, members: tuple[str, ...], me: str) -> tuple[str, ...]:
    """The rule taken out: one graph for all sets, of which those who are gone are missing."""
    return tuple(name for name in neighbours_of(b"the run's coin", NAMES, me) if name in set(members))

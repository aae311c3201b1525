"""A signed contribution as long as none of its study's sums convicts its signer: so an entry must name all lengths."""

from __future__ import annotations

import pytest

from masquerade_core.crypto.masks import Words
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table
from masquerade_core.wire.codec import Message
from masquerade_protocols import blame
from masquerade_protocols.blocks.double_masks import DoublyMasked
from masquerade_protocols.blocks.masked_sum import Masked, fits
from tests.mutated_frames import PLAYS, play_of


@pytest.mark.parametrize("name", PLAYS)
def test_every_contribution_of_an_honest_run_has_a_length_that_the_entry_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, seen = play_of(name), []
    send = Seat.send

    async def watched(self: Seat, to: str, message: Message) -> None:
        if isinstance(message, Masked | DoublyMasked):
            seen.append(message)
        await send(self, to, message)

    monkeypatch.setattr(Seat, "send", watched)
    study = play.world.study
    table = Table(study.names, study=study)
    table.run({who: play.role(table.seat(who)) for who in (*study.names, CHARLIE)})
    assert bool(seen) == (study.crypto.sum == "masks")
    lengths = play.protocol.sum_lengths(study)
    layouts = [Words(length, bound) for length in lengths for bound in blame._BOUNDS]
    assert all(any(fits(layout, message) for layout in layouts) for message in seen)

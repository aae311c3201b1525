"""A tree of curators: the same sums and models as with one Charlie, and sub-curators who cheat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from masquerade_core.crypto.masks import Words
from masquerade_core.errors import BadInput, RunFailed
from masquerade_core.rng import SimulationRng, SystemRng
from masquerade_core.seat import Seat
from masquerade_core.study import CHARLIE
from masquerade_core.table import Table
from masquerade_protocols import entry_of
from masquerade_protocols.blocks import masked_messages as messages
from masquerade_protocols.blocks import tree
from masquerade_protocols.blocks.secure_sum import set_up, set_up_charlie
from masquerade_protocols.in_memory import run_in_memory
from tests.dropout_helpers import losing_study
from tests.masked_helpers import masked_study, under_masks
from tests.paper_data import simulated, split, study_of

RNG = SystemRng()
STUDY = masked_study(6)
GROUPS = {"north": STUDY.names[:3], "south": STUDY.names[3:]}
LAYOUT = Words(5, 2**30)
VECTORS = {name: [RNG.below(2**20) for _ in range(5)] for name in STUDY.names}
TOTAL = tuple(map(sum, zip(*VECTORS.values(), strict=True)))
CHARLIES = [*GROUPS, CHARLIE]


async def _party(seat: Seat) -> Any:
    await seat.join()
    sums = await set_up(seat, STUDY)
    return [await sums.open_sum(LAYOUT, VECTORS[seat.me], b"%d" % t) for t in range(2)]


async def _curator(seat: Seat) -> Any:
    await seat.join()
    sums = await set_up_charlie(seat, STUDY)
    return [await sums.open_sum(LAYOUT) for _ in range(2)]


def _run(instead: dict[str, Callable[[Seat], Any]] | None = None) -> tuple[Table, dict[str, Any]]:
    table = Table(STUDY.names, groups=GROUPS)
    play: dict[str, Callable[[Seat], Any]] = {
        **dict.fromkeys(STUDY.names, _party),
        **dict.fromkeys(CHARLIES, _curator),
        **(instead or {}),
    }
    return table, table.run({name: role(table.seat(name)) for name, role in play.items()})


def test_everybody_gets_the_sum_that_one_charlie_would_add_up() -> None:
    _, results = _run()
    assert results == {name: [TOTAL, TOTAL] for name in (*STUDY.names, *CHARLIES)}


def test_charlie_reads_one_message_for_each_group_and_no_contribution() -> None:
    table, _ = _run()
    players = table._players  # what reached whom: an inbox is kept by its sender's name
    clear = {name: {source for source, kind in players[name].inbox if kind == "message"} for name in CHARLIES}
    assert clear == {"north": {*GROUPS["north"], CHARLIE}, "south": {*GROUPS["south"], CHARLIE}, CHARLIE: {*GROUPS}}


@pytest.mark.parametrize("protocol", ["dp-gd", "dp-whitened"])
def test_a_protocol_gives_the_same_model_under_a_tree(protocol: str) -> None:
    section = {"dp-gd": "rounds = 3"}.get(protocol, "")
    study = under_masks(study_of(protocol, 4, epsilon=2.0, delta=1e-5, section=section), calibration='"proven"')
    data = split(simulated(0)[0], study, (0.25,) * 4)
    models = []
    for groups in ({}, {"north": study.names[:1], "south": study.names[1:]}):
        rngs = {name: SimulationRng(name) for name in (*study.names, CHARLIE)}
        table = Table(study.names, rngs, groups=groups)
        results = run_in_memory(entry_of(study), study, data, table=table)
        assert len({repr(result) for result in results.values()}) == 1
        models.append(repr(results[CHARLIE]))
    assert models[0] == models[1]


# --- Sub-curators who cheat ---------------------------------------------------------------


def _cheating(change: Callable[[messages.Summed], dict[str, Any]]) -> Callable[[Seat], Any]:
    async def role(seat: Seat) -> None:
        await seat.join()
        made = await seat.gather(messages.Masked, GROUPS[seat.me])
        own = messages.summed(0, LAYOUT, made)
        await seat.send(CHARLIE, tree.Added(**{**own.model_dump(), **change(own)}))
        await seat.receive(messages.Summed, CHARLIE)

    return role


def _one_more(own: messages.Summed) -> dict[str, Any]:
    words = LAYOUT.read(own.words).copy()
    words[-1] += 1
    return {"words": LAYOUT.write(words)}


def test_a_sub_curator_cannot_change_the_sum_unseen() -> None:
    with pytest.raises(RunFailed, match="does not fit its check value"):
        _run({"north": _cheating(_one_more)})


def test_a_sub_curator_cannot_leave_a_party_out_unseen() -> None:
    async def role(seat: Seat) -> None:
        await seat.join()
        made = await seat.gather(messages.Masked, GROUPS[seat.me])
        made.pop(GROUPS[seat.me][0])
        await seat.send(CHARLIE, tree.Added(**messages.summed(0, LAYOUT, made).model_dump()))
        await seat.receive(messages.Summed, CHARLIE)

    with pytest.raises(RunFailed, match="not the sum of everybody's contributions"):
        _run({"north": role})


def test_a_groups_sum_is_not_the_sum_of_its_vectors() -> None:
    seen: dict[str, Any] = {}

    def watching(own: messages.Summed) -> dict[str, Any]:
        seen["words"] = LAYOUT.read(own.words)
        return {}

    with pytest.raises(RunFailed):  # its role ends after one round
        _run({"north": _cheating(watching)})
    own = [sum(VECTORS[name][i] for name in GROUPS["north"]) for i in range(5)]
    marks = seen["words"][: LAYOUT.marks].tolist()
    assert marks != [3] * LAYOUT.marks  # uniform: masks with the other group's parties remain
    assert not set(own) & set(seen["words"][LAYOUT.marks :].tolist())


# --- Blame ------------------------------------------------------------------------------


def _evidence() -> tuple[messages.Summed, dict[str, tree.Added], dict[str, dict[str, messages.Masked]]]:
    def contribution(name: str) -> messages.Masked:
        words, check = LAYOUT.masked(LAYOUT.encode(VECTORS[name]), 7, [(True, RNG.bytes(32))])
        return messages.Masked(round=0, words=words, check=check)

    shown = {sub: {name: contribution(name) for name in group} for sub, group in GROUPS.items()}
    groups = {sub: tree.Added(**messages.summed(0, LAYOUT, made).model_dump()) for sub, made in shown.items()}
    return tree._summed(0, LAYOUT, groups), groups, shown


def test_blame_clears_who_added_rightly() -> None:
    assert tree.blame_in_tree(LAYOUT, *_evidence()) is None


def test_blame_names_charlie_for_another_sum_of_the_groups() -> None:
    told, groups, shown = _evidence()
    assert tree.blame_in_tree(LAYOUT, told.model_copy(update=_one_more(told)), groups, shown) == CHARLIE


@pytest.mark.parametrize("sub", [*GROUPS])
def test_blame_names_the_sub_curator_that_added_wrongly(sub: str) -> None:
    _, groups, shown = _evidence()
    groups[sub] = groups[sub].model_copy(update=_one_more(groups[sub]))  # type: ignore[arg-type]  # it has words, too
    assert tree.blame_in_tree(LAYOUT, tree._summed(0, LAYOUT, groups), groups, shown) == sub


# --- What a tree does not do ------------------------------------------------------------


def test_a_tree_refuses_dropouts_and_sums_for_charlie_alone() -> None:
    seat = Table(STUDY.names, groups=GROUPS).seat("north")
    with pytest.raises(BadInput, match="needs every party to the end"):
        tree.tree_sums(seat, losing_study(K=6))
    with pytest.raises(BadInput, match="Charlie alone may learn"):
        tree.tree_sums(seat, STUDY).aggregate(LAYOUT).send(None)

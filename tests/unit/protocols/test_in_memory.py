"""The shortest way to run a protocol: all roles in one thread."""

from __future__ import annotations

from typing import Any

from masquerade_core.errors import RunFailed
from masquerade_core.rng import Rng
from masquerade_core.seat import Seat
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_protocols import PROTOCOLS, protocol_of
from masquerade_protocols.in_memory import roles_of, run_in_memory
from masquerade_protocols.psgd import roles as psgd
from masquerade_protocols.psgd import schedule
from masquerade_protocols.voting import roles as voting
from tests.messages import raises
from tests.protocol_helpers import make_data
from tests.sum_helpers import descent_study, drawn
from tests.vote_helpers import Fixed, points_of, vote_data, vote_study

STUDY = descent_study(K=3)
DATA = make_data(STUDY, (20, 30, 40))


def _seeded() -> Table:
    rngs: dict[str, Rng] = {name: SimulationRng(3, name) for name in (*STUDY.names, CHARLIE)}
    return Table(STUDY.names, rngs, bytes(16))


def test_a_module_and_the_entry_in_the_registry_are_the_same_protocol() -> None:
    by_module = run_in_memory(psgd, STUDY, DATA, table=_seeded())
    by_entry = run_in_memory(protocol_of(STUDY), STUDY, DATA, table=_seeded())
    assert list(by_module) == [*STUDY.names, CHARLIE]
    assert by_module == by_entry
    # The test can fail: another protocol's entry draws other noise.
    assert run_in_memory(PROTOCOLS["noisy-gradient"], STUDY, DATA, table=_seeded()) != by_module


def test_options_reach_every_role() -> None:
    by_option = run_in_memory(psgd, STUDY, DATA, table=_seeded(), variant=schedule.noisy)
    assert by_option == run_in_memory(PROTOCOLS["noisy-gradient"], STUDY, DATA, table=_seeded())


def test_without_a_table_the_operating_system_draws() -> None:
    first, second = (run_in_memory(psgd, STUDY, DATA)[CHARLIE] for _ in range(2))
    assert first.weights != second.weights


def test_a_party_votes_with_the_classifier_that_it_brings() -> None:
    study = vote_study(K=3, N=5)
    table = Table(study.names)
    brought = {"p1": Fixed([-1.0, 1.0, 1.0, -1.0, 1.0])}
    run_in_memory(voting, study, vote_data(study), table=table, auxiliary=points_of(study), classifiers=brought)
    assert list(drawn(table, "p1", "votes")) == [0, 1, 1, 0, 1]
    assert set(drawn(table, "p1", "votes")) < {0, 1, 2}


def test_a_deviating_role_takes_the_place_of_the_protocols_own() -> None:
    async def silent(seat: Seat, _study: Study) -> Any:
        await seat.join()

    table = Table(STUDY.names)
    roles = roles_of(psgd, table, STUDY, DATA, instead={CHARLIE: silent(table.seat(CHARLIE), STUDY)})
    assert list(roles) == [*STUDY.names, CHARLIE]
    with raises(RunFailed, "nobody_goes_on"):
        table.run(roles)

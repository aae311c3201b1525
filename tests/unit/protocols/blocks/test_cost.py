"""A run costs what its protocol's entry says: every protocol is run in memory, and its messages are counted."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from masquerade_core.seat import Join, Receive, Seat, Send
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_core.wire.ciphertexts import Ciphertexts
from masquerade_core.wire.codec import Message
from masquerade_protocols import MEASUREMENTS, PROTOCOLS, protocol_of
from masquerade_protocols.blocks import paillier_sum as ss
from masquerade_protocols.in_memory import run_in_memory
from tests.evaluation_helpers import held_back_study, measuring_of
from tests.glm_helpers import glm_study, made_up, split_up
from tests.local_descent_helpers import local_descent_study
from tests.protocol_helpers import make_data, make_study
from tests.proven_helpers import proven_study
from tests.sum_helpers import descent_study, sent
from tests.summary_helpers import dealt, summary_study
from tests.unit.protocols.dp_gd.test_dp_gd import _study as dp_gd_study
from tests.unit.protocols.input_noise.test_input_noise import _study as input_noise_study
from tests.unit.protocols.psgd.test_psgd_proven import _study as psgd_study
from tests.vote_helpers import points_of, vote_data, vote_study
from tests.whitened_helpers import whitened_study

D = 40
"""Coordinates: with keys of 512 bits, a vector takes several plaintexts."""


def _proven_votes(protocol: str) -> Study:
    made = vote_study(protocol, K=3, N=70)
    privacy = made.privacy.model_copy(update={"calibration": "proven"})
    return made.model_copy(update={"privacy": privacy})


STUDIES: dict[str, Callable[[], Study]] = {
    "dp-whitened": lambda: whitened_study(3, D),
    "dp-whitened, with gradients": lambda: whitened_study(3, D, epsilon=3.0, min_records=300),
    "dp-glm": lambda: glm_study(3, epsilon=8.0, min_records=400),
    "dp-gd": lambda: dp_gd_study(3, D, "rounds = 2"),
    "dp-gd, five parties": lambda: dp_gd_study(5, D, "rounds = 3"),
    "dp-gd, evaluated": lambda: held_back_study(3, D, section="rounds = 2"),
    "psgd, evaluated": lambda: held_back_study(3, D, protocol="psgd", section="rounds = 2"),
    "evaluation": lambda: measuring_of(D),
    "psgd": lambda: descent_study("psgd", 3, D, section="rounds = 2"),
    "psgd, proven": lambda: psgd_study(K=4, d=D, section="rounds = 2"),
    "noisy-gradient": lambda: descent_study("noisy-gradient", 3, D, section="rounds = 2"),
    "decaying-budget": lambda: descent_study("decaying-budget", 3, D, section="rounds = 70"),
    "weighted-dp": lambda: local_descent_study("c = 16.0\nrounds = 2", d=D),
    "weighted-dp, uniform": lambda: local_descent_study('c = 16.0\nrounds = 2\nweights = "uniform"', d=D),
    "weighted-dp, proven": lambda: local_descent_study("rounds = 2", K=4, d=D, proven=True),
    "vote": lambda: vote_study("vote", K=3, N=400),
    "vote, proven": lambda: _proven_votes("vote"),
    "soft": lambda: vote_study("soft", K=4, N=300, classes=3),
    "soft, proven": lambda: _proven_votes("soft"),
    "summary": lambda: summary_study(3),
    "summary, five parties": lambda: summary_study(5, cells=200),
    "input-noise": lambda: input_noise_study(4, D),
    "input-noise, one party": lambda: input_noise_study(1, D),
    "local-aggregation": lambda: make_study(3, D),
    "local-aggregation, nine parties": lambda: make_study(9, D),
    "local-aggregation, proven": lambda: proven_study(5, D),
    "local-aggregation, public scale": lambda: proven_study(3, D, "floor"),
    "local-aggregation, by sizes": lambda: proven_study(3, D, "sizes"),
}


@dataclass
class Counted:
    """The messages of one run."""

    table: Table
    sent: dict[str, int] = field(default_factory=dict)
    """Ciphertexts by sender: one message to three participants counts three times, a relayed box once."""


def _counted_run(study: Study, monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Run a study in memory, with the minimum of records."""
    entry, run = protocol_of(study), Counted(Table(study.names))

    def note(seat: Seat, message: Message, copies: int) -> None:
        for value in (getattr(message, name) for name in type(message).model_fields):
            if isinstance(value, Ciphertexts):
                assert value._key is not None
                vector = len(value) // value._key.ciphertext_bytes
                run.sent[seat.me] = run.sent.get(seat.me, 0) + copies * vector

    send, broadcast, send_sealed = Seat.send, Seat.broadcast, Seat.send_sealed

    async def noted_send(self: Seat, to: str, message: Message) -> None:
        note(self, message, 1)
        await send(self, to, message)

    async def noted_broadcast(self: Seat, message: Message) -> None:
        note(self, message, len(self.names))
        await broadcast(self, message)

    async def noted_sealed(self: Seat, message: Any, to: str | None = None) -> None:
        note(self, message, len(self.others) if to is None else 1)
        await send_sealed(self, message, to)

    with monkeypatch.context() as patch:
        patch.setattr(Seat, "send", noted_send)
        patch.setattr(Seat, "broadcast", noted_broadcast)
        patch.setattr(Seat, "send_sealed", noted_sealed)
        data: Mapping[str, Any]
        if entry.auxiliary:
            data = vote_data(study)
            run_in_memory(entry, study, data, table=run.table, auxiliary=points_of(study))
        elif not entry.makes_model:
            run_in_memory(entry, study, dealt(study, (study.study.min_records,) * study.K), table=run.table)
        else:
            sizes = (study.study.min_records,) * study.K
            data = split_up(study, made_up(sum(sizes))) if entry.coefficients else make_data(study, sizes)
            run_in_memory(entry, study, data, table=run.table)
    return run


class _Chain:
    """The longest chain of frames of which each waits for the one before; a box that Charlie relays is two frames."""

    def __init__(self, table: Table) -> None:
        self.journals = {name: deque(table.journal(name)) for name in (*table.names, CHARLIE)}
        self.length = dict.fromkeys(self.journals, 0)
        """The chain that ends at this participant."""
        self.on_the_way: dict[tuple[str, str, str], deque[int]] = defaultdict(deque)
        while any(self.journals.values()):
            self._go_on(next(name for name, journal in self.journals.items() if journal and self._may_go_on(name)))

    @property
    def round_trips(self) -> int:
        return math.ceil(max(self.length.values()) / 2)

    def _may_go_on(self, name: str) -> bool:
        effect = self.journals[name][0].effect
        if isinstance(effect, Join):
            return all(journal and isinstance(journal[0].effect, Join) for journal in self.journals.values())
        if isinstance(effect, Receive):
            return all(self.on_the_way[sender, name, effect.kind] for sender in effect.senders)
        return True

    def _go_on(self, name: str) -> None:
        effect = self.journals[name][0].effect
        if isinstance(effect, Join):
            joined = max(self.length.values()) + 2
            for other, journal in self.journals.items():
                journal.popleft()
                self.length[other] = joined
            return
        self.journals[name].popleft()
        if isinstance(effect, Send):
            for to in effect.to:
                self.on_the_way[name, to, effect.kind].append(self.length[name] + 1 + (effect.kind == "sealed"))
        elif isinstance(effect, Receive):
            arrived = [self.on_the_way[sender, name, effect.kind].popleft() for sender in effect.senders]
            self.length[name] = max(self.length[name], *arrived)


def test_every_protocol_is_priced_here() -> None:
    assert {name.partition(",")[0] for name in STUDIES} == set(PROTOCOLS | MEASUREMENTS)


@pytest.mark.parametrize("name", STUDIES)
def test_a_run_costs_what_its_entry_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = STUDIES[name]()
    assert study.study.protocol == name.partition(",")[0]
    cost = protocol_of(study).cost(study)
    run = _counted_run(study, monkeypatch)
    ordinary = [party for party in study.names if party != study.lead] or list(study.names)
    assert len(sent(run.table, ordinary[0], ss.Contribution)) == cost.sums
    assert {run.sent.get(party, 0) for party in ordinary} == {cost.plaintexts}
    assert sum(run.sent.values()) == cost.ciphertexts
    assert _Chain(run.table).round_trips == cost.round_trips
    assert (cost.exponentiations > 0) == (cost.ciphertexts > 0)


def test_the_studies_try_vectors_of_several_plaintexts() -> None:
    """With one plaintext a vector, a price that forgets how many there are would be right."""
    for name in ("dp-gd", "psgd", "weighted-dp", "vote", "soft", "summary", "input-noise", "local-aggregation"):
        study = STUDIES[name]()
        cost = protocol_of(study).cost(study)
        assert cost.plaintexts > cost.sums + 1

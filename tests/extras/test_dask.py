"""A party whose records lie on its own Dask cluster, among real processes: workers end, and the run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import masquerade
from masquerade_core.errors import BadInput
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.budget import give_budget
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from tests.dask_helpers import LocalDask, local_dask
from tests.messages import raises, says
from tests.processes import Machines
from tests.unit.masquerade.test_sweeps import SEEDS, _data, _study

_CHANGES = {
    'protocol = "local-aggregation"': 'protocol = "dp-gd"',
    "delta = 0.0": "delta = 1e-06",
    'calibration = "paper"': 'calibration = "proven"',
    "[protocol]": "[protocol]\nrounds = 40",
}
N = 200_000


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Three parties; the records of p1 are many, in Parquet, and its policy names them."""
    machines = Machines.new(tmp_path)
    text = machines.study.to_toml()
    for old, new in _CHANGES.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    machines.study = Study.parse(text)
    machines.write_study()
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, N)
    table = pa.table({"x": x, "y": pa.array(np.where(x + rng.normal(size=N) > 0, "1", "0"))})
    pq.write_table(table, tmp_path / "p1.parquet", row_group_size=60_000)
    state = StateFolder(machines.state("p1"))
    give_budget(state.made(), DEFAULT_POPULATION, 100.0, 1e-3, by="a test").close()
    state.policy.write_text(f'[[population]]\nname = "{DEFAULT_POPULATION}"\ndata = ["{tmp_path}/p1.parquet"]\n')
    yield machines
    machines.close()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[LocalDask]:
    with local_dask(tmp_path / "dask") as started:
        started.work(2)
        yield started


def test_a_worker_that_is_killed_in_the_middle_of_a_run_costs_time_alone(machines: Machines, dask: LocalDask) -> None:
    records = machines.folder / "p1.parquet"
    on_cluster = machines.start("p1", "--dask", dask.address, data=records)
    others = machines.start_all(CHARLIE, "p2", "p3")
    on_cluster.wait_for("stage", name="rounds")
    dask.workers[0].kill()
    for name, process in {"p1": on_cluster, **others}.items():
        ended = process.end()
        assert ended.code == 0, (name, ended)
    models = {json.dumps(json.loads((machines.out(name) / "model.json").read_text())) for name in ("p1", "p2")}
    assert len(models) == 1
    assert dask.workers[0].poll() is not None
    with closing(Ledger.open(StateFolder(machines.state("p1")))) as ledger:
        known = [row.fields["fingerprint"] for row in ledger.history() if row.kind == "dataset"]
    assert len(known) == 1  # approved with the records in memory, taken part with on the cluster


def test_a_scheduler_that_others_can_reach_is_refused_before_anything_is_sent(machines: Machines) -> None:
    process = machines.start("p1", "--dask", "tcp://10.0.0.7:8786", data=machines.folder / "p1.parquet")
    ended = process.end()
    assert ended.code == 6
    assert says(ended.error["message"], "reachable_by_others", ..., ...)
    assert not any(event["event"] == "connecting" for event in ended.events)


def test_a_scheduler_that_does_not_answer_is_refused_before_anything_is_computed() -> None:
    with raises(BadInput, "no_scheduler", ...):
        masquerade.simulate_many(_study(), _data(), SEEDS, dask="127.0.0.1:9")

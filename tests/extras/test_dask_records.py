"""Records on a Dask cluster: the same bits as in memory, whatever workers there are, and however they end."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]  # it ships no types

from masquerade_core.data import cluster as cluster_module
from masquerade_core.data.cluster import Cluster
from masquerade_core.data.dask_records import DaskRecords, count_cells
from masquerade_core.data.loading import load_csv
from masquerade_core.data.records import ROWS, DigestOf, Records, Whole
from masquerade_core.data.schema import Covariates, Dataset
from masquerade_core.data.tasks import Task, check_address
from masquerade_core.errors import BadInput, LocalProtocolError, RefusedLocally, RunFailed
from masquerade_core.learning.gradients import GradientSum
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Label, Study
from masquerade_core.table import Table
from masquerade_host.store.ledger import canonical
from masquerade_party._records import read_records
from masquerade_protocols import protocol_of
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.registry import PROTOCOLS
from masquerade_protocols.summary.public import grid_of
from tests.dask_helpers import LocalDask, local_dask
from tests.evaluation_helpers import held_back_study
from tests.messages import raises
from tests.protocol_helpers import make_study
from tests.summary_helpers import patients, summary_study

_Array = NDArray[np.float64]

WORKERS = tuple(map(int, os.environ.get("DASK_WORKERS", "1 2").split()))  # with "1 2 4" it takes half a minute more
N = 3 * ROWS + 1000
D = 3


def _study(protocol: str = "dp-gd", **changes: Any) -> Study:
    return held_back_study(2, D, protocol=protocol, **changes)


def _write(folder: Path) -> Path:
    """Files whose ends are those of no block, with groups of records whose ends are those of no file."""
    rng, folder = np.random.default_rng(3), folder / "records"
    folder.mkdir()
    X = rng.uniform(-1, 1, size=(N, D))
    y = np.where(X @ np.array([2.0, -1.0, 0.5]) + rng.normal(size=N) > 0, "1", "0")
    for number, (start, end) in enumerate(((0, 70_001), (70_001, 70_002), (70_002, N))):
        columns = {f"x{i}": X[start:end, i] for i in range(D)}
        table = pa.table({**columns, "y": pa.array(y[start:end]).dictionary_encode()})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=50_000)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def in_memory(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The same records from one file."""
    one = tmp_path_factory.mktemp("one") / "records.parquet"
    pq.write_table(pq.read_table(folder), one)
    return load_csv(one, _study())


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDask]:
    with local_dask(tmp_path_factory.mktemp("dask")) as started:
        started.work(1)
        yield started


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_LOOK", 0.2)


@pytest.fixture
def connected(dask: LocalDask) -> Iterator[Cluster]:
    with Cluster(dask.address, patience=30) as cluster:
        yield cluster


def hash_of(records: Records) -> bytes:
    """The ledger's fingerprint of the records, but without its key."""
    state = hashlib.sha256()
    for part in canonical(records):
        state.update(part)
    return state.digest()


@dataclass(frozen=True)
class _Deadly:
    """The number of records of a block; the first worker that is asked for it ends by SIGKILL."""

    mark: Path

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        assert X.shape == (len(y), D)
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return np.array([len(y)])
        os.kill(os.getpid(), signal.SIGKILL)
        return np.array([0])


@dataclass(frozen=True)
class _Worth:
    """The cost of many records, each the same."""

    worth: int = 1

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        return np.array([len(y), self.worth * len(y)], dtype=np.int64)


@dataclass(frozen=True)
class _Leaky:
    """A function that fails, and would say what it was given."""

    def __call__(self, X: _Array, y: _Array) -> NDArray[np.int64]:
        raise ValueError(f"the record {X[0]}")


def _same_sums(found: Records, expected: Records) -> None:
    w = np.array([3.0, -1.0, 0.5])
    for f in (_Worth(), _Worth((1 << 62) // ROWS)):
        np.testing.assert_array_equal(found.total(f), expected.total(f))
    gradient = GradientSum(w)
    for one, other in zip(found.partials(gradient), expected.partials(gradient), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found.added(gradient), expected.added(gradient))


def _released(study: Study, records: Records) -> Any:
    """The model of one run, with its evaluation; the second party is the same every time."""
    rng = np.random.default_rng(8)
    X = rng.uniform(-0.5, 0.5, size=(5000, D))
    other = Dataset(X, np.where(X[:, 0] > 0, 1.0, -1.0))
    rngs = {name: SimulationRng(1, name) for name in (*study.names, CHARLIE)}
    return run_in_memory(
        protocol_of(study), study, dict(zip(study.names, (records, other), strict=True)), table=Table(study.names, rngs)
    )[CHARLIE]


def test_with_any_number_of_workers_the_same_bits_come_out_as_in_memory(
    dask: LocalDask, folder: Path, in_memory: Dataset
) -> None:
    studies = [_study(), _study("dp-whitened")]
    expected = [_released(study, in_memory) for study in studies]
    for number in WORKERS:
        dask.work(number - len(dask.workers))
        with Cluster(dask.address) as cluster:
            cluster.wait_for(number)
            records = DaskRecords.read(cluster, folder, studies[0])
            assert (records.n, records.d, records.classes) == (N, D, None)
            _same_sums(records, in_memory)
            assert _released(studies[0], records) == expected[0]
            if number == WORKERS[-1]:
                for side, other in zip(records.sides(0.3), in_memory.sides(0.3), strict=True):
                    assert side.n == other.n
                    _same_sums(side, other)
                assert _released(studies[1], records) == expected[1]


def test_a_regression_tells_the_same_coefficients_as_in_memory(
    connected: Cluster, folder: Path, tmp_path: Path
) -> None:
    study, one = _study("dp-glm").model_copy(update={"protocol": {}}), tmp_path / "records.parquet"
    pq.write_table(pq.read_table(folder), one)
    here = load_csv(one, study, coding="treatment")
    other = Covariates(here.X[:5000], here.y[:5000])
    found = []
    for records in (here, DaskRecords.read(connected, folder, study, "treatment")):
        table = Table(study.names, {name: SimulationRng(1, name) for name in (*study.names, CHARLIE)})
        model = run_in_memory(
            protocol_of(study), study, dict(zip(study.names, (records, other), strict=True)), table=table
        )
        found.append(model[CHARLIE])
    assert found[0] == found[1]
    assert found[0].evaluation is not None
    assert found[0].coefficients is not None
    assert len(found[0].coefficients.told) == D + 1
    assert found[0].coefficients.rows[1].estimate > 5 * found[0].coefficients.rows[1].se


def test_a_worker_that_is_killed_in_the_middle_of_a_sum_costs_time_and_nothing_else(
    dask: LocalDask, connected: Cluster, folder: Path, tmp_path: Path
) -> None:
    dask.work(2 - _alive(dask))
    alive = _alive(dask)
    assert alive > 1
    connected.wait_for(alive)
    records = DaskRecords.read(connected, folder, _study())
    assert records.total(_Deadly(tmp_path / "mark")).tolist() == [N]
    assert _alive(dask) == alive - 1


class _Killing(DaskRecords):
    """Records whose third sum begins with the end of a worker."""

    dask: LocalDask
    sums: list[int]

    def total(self, f: Any) -> NDArray[Any]:
        self.sums.append(1)
        if len(self.sums) == 3:
            dask, alive = self.dask, [w for w in self.dask.workers if w.poll() is None]
            alive[-1].kill()
            assert _alive(dask) == len(alive) - 1
        return super().total(f)

    def sides(self, share: float) -> Any:
        sides = super().sides(share)
        for side in sides:
            side.dask, side.sums = self.dask, self.sums
        return sides


def test_a_worker_that_is_killed_in_the_middle_of_a_run_changes_no_bit_of_the_model(
    dask: LocalDask, connected: Cluster, folder: Path, in_memory: Dataset
) -> None:
    dask.work(2 - _alive(dask))
    connected.wait_for(2)
    records = _Killing.read(connected, folder, _study())
    records.dask, records.sums = dask, []
    assert _released(_study(), records) == _released(_study(), in_memory)
    assert len(records.sums) > 3


def _alive(dask: LocalDask) -> int:
    for worker in dask.workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(0.1)
    return sum(worker.poll() is None for worker in dask.workers)


def test_a_summary_counts_the_same_cells(connected: Cluster, tmp_path: Path) -> None:
    study = summary_study()
    cells = patients(ROWS + 5)
    path = tmp_path / "patients.parquet"
    pq.write_table(pa.table(cells), path, row_group_size=40_000)
    loader = protocol_of(study).records
    expected = loader.one(path, study)
    found = count_cells(connected, path, study, grid_of(study))
    loader.check(found, study, "patients", "p1")
    assert (found.counts(), found.n) == (expected.counts(), expected.n)
    again = count_cells(connected, path, study, grid_of(study))
    assert again == found
    cells["age"][7] = "51.5"  # another record, of the same bin
    pq.write_table(pa.table({**cells, "sex": [*cells["sex"][:-1], "x"]}), path)
    assert count_cells(connected, path, study, grid_of(study)) != found


def test_a_ledger_knows_records_wherever_they_lie(
    connected: Cluster, folder: Path, in_memory: Dataset, tmp_path: Path
) -> None:
    path, study = tmp_path / "few.parquet", _study()
    whole = pq.read_table(folder)
    expected = hash_of(in_memory)
    assert hash_of(DaskRecords.read(connected, folder, study)) == expected
    assert hash_of(in_memory.sides(0.3)[0]) != expected
    pq.write_table(whole.slice(0, 1000), path)  # of one block
    few = hash_of(load_csv(path, study))
    assert hash_of(DaskRecords.read(connected, path, study)) == few
    half = study.model_copy(update={"study": study.study.model_copy(update={"precision": "float32"})})
    for some in (1000, ROWS + 1):
        pq.write_table(whole.slice(0, some), path)
        assert hash_of(DaskRecords.read(connected, path, half)) == hash_of(load_csv(path, half)) != few
    values = whole["x0"].to_numpy().copy()
    values[-1] = -values[-1]
    pq.write_table(whole.set_column(0, "x0", pa.array(values)), path)
    assert hash_of(DaskRecords.read(connected, path, study)) != expected


def test_a_file_that_changes_during_a_run_ends_it(dask: LocalDask, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    whole = pq.read_table(folder)
    pq.write_table(whole, path)
    with Cluster(dask.address) as cluster:
        records = DaskRecords.read(cluster, path, _study())
        pq.write_table(whole.slice(0, N - 1), path)
        assert records.total(_Worth()).tolist() == [N, N]  # the workers hold the records
        cluster.close()
        with raises(RunFailed, "part_changed", "records.parquet"):
            records.total(_Worth())


def test_no_record_stands_in_an_error(connected: Cluster, folder: Path, tmp_path: Path) -> None:
    records = DaskRecords.read(connected, folder, _study())
    with raises(LocalProtocolError, "cluster_task_failed", ...) as caught:
        records.total(_Leaky())
    assert re.search(r": ValueError at test_dask_records\.py:\d+$", str(caught.value))
    assert caught.value.__cause__ is None


def test_faults_of_records_are_said_as_where_they_are_read_here(
    connected: Cluster, folder: Path, tmp_path: Path
) -> None:
    path, whole = tmp_path / "records.parquet", pq.read_table(folder)
    values, labels = whole["x1"].to_numpy().copy(), whole["y"].to_pylist()
    values[[5, ROWS + 7, 2 * ROWS + 9, N - 1]] = 4321.5
    for number, change in enumerate(((1, "x1", pa.array(values)), (3, "y", pa.array([*labels[:-1], "4321"])))):
        pq.write_table(whole.set_column(*change), path, row_group_size=50_000)
        with pytest.raises(BadInput) as expected:
            load_csv(path, _study())
        with pytest.raises(BadInput) as refused:
            DaskRecords.read(connected, path, _study())
        assert str(refused.value) == str(expected.value)
        assert "4321" not in refused.value.message + refused.value.hint
        assert number or all(str(place) in refused.value.message for place in (6, ROWS + 8, 2 * ROWS + 10))


def test_numbers_that_stand_as_text_are_read_cell_by_cell(connected: Cluster, folder: Path, tmp_path: Path) -> None:
    path, few = tmp_path / "records.parquet", pq.read_table(folder).slice(0, ROWS + 20)
    texts = pa.array([repr(value) for value in few["x2"].to_pylist()])
    pq.write_table(few.set_column(2, "x2", texts), path, row_group_size=50_000)
    _same_sums(DaskRecords.read(connected, path, _study()), load_csv(path, _study()))


def test_a_worker_of_another_version_is_refused(connected: Cluster, folder: Path) -> None:
    answer = connected.result(lambda client: client.submit(Task(_one), pure=False))
    assert answer == 1
    with raises(BadInput, "worker_of_other_version", ..., "0.0.1"):
        connected.result(lambda client: client.submit(Task(_one, version="0.0.1"), pure=False))


def _one() -> int:
    return 1


def test_a_task_has_one_thread_for_linear_algebra(connected: Cluster) -> None:
    found = connected.result(lambda client: client.submit(Task(_threads), pure=False))
    assert found
    assert set(found) == {1}


def _threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info()]


def test_where_there_is_no_scheduler_or_no_worker_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "_CONNECT", 0.5)
    with raises(BadInput, "no_scheduler", "tcp://127.0.0.1:9") as caught:
        Cluster("tcp://127.0.0.1:9")
    assert caught.value.exit_code == 4
    with raises(BadInput, "needs_certificates", "tls://127.0.0.1:9"):
        Cluster("tls://127.0.0.1:9")
    with local_dask(tmp_path / "lonely") as lonely:
        with raises(BadInput, "no_worker", ...):
            Cluster(lonely.address)
        lonely.work(1)
        monkeypatch.setattr(cluster_module, "_CONNECT", 30.0)  # until the worker is there
        with Cluster(lonely.address, patience=0.5) as cluster:
            lonely.workers[0].kill()
            with raises(RunFailed, "no_worker_for", "0.5"):
                cluster.result(lambda client: client.submit(Task(_one), pure=False))
            lonely.end()
            with raises(RunFailed, "no_answer_for", ..., "0.5"):
                cluster.result(lambda client: client.submit(Task(_one), pure=False))


@pytest.mark.parametrize("address", ["tls://10.0.0.7:8786", "tcp://127.0.0.1:8786", "tcp://[::1]:8786", "localhost:1"])
def test_an_address_over_tls_or_within_one_machine_is_allowed(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize("address", ["tcp://10.0.0.7:8786", "tcp://0.0.0.0:8786", "cluster.example:8786", "tcp://h:1"])
def test_an_address_that_others_can_reach_is_refused(address: str) -> None:
    with raises(RefusedLocally, "reachable_by_others", ..., ...):
        check_address(address)


@pytest.mark.parametrize("address", ["", "127.0.0.1", "tcp://127.0.0.1", "http://127.0.0.1:8787", "inproc://1/2/3"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with raises(BadInput, "no_scheduler_address", ..., ...):
        check_address(address)


def test_a_scheduler_that_listens_to_other_machines_is_refused(tmp_path: Path) -> None:
    open_to_all = LocalDask(tmp_path / "open")
    try:
        open_to_all.schedule(host="0.0.0.0")  # noqa: S104 - this is the test
        open_to_all.address = f"tcp://127.0.0.1:{open_to_all.address.rpartition(':')[2]}"
        with raises(RefusedLocally, "reachable_by_others", "the Dask scheduler's own address", ...):
            Cluster(open_to_all.address)
    finally:
        open_to_all.end()


def test_only_parquet_is_read(connected: Cluster, tmp_path: Path) -> None:
    (tmp_path / "records.csv").write_text("x0,x1,x2,y\n0,0,0,1\n")
    with raises(BadInput, "parquet_alone", ...):
        DaskRecords.read(connected, tmp_path / "records.csv", _study())


def test_a_protocol_that_needs_all_records_in_one_process_says_so(connected: Cluster, folder: Path) -> None:
    assert not PROTOCOLS["input-noise"].streams
    with raises(BadInput, "dask_impossible", ...) as caught:
        read_records(PROTOCOLS["input-noise"], folder, _study(), "p0", cluster=connected)
    assert "dp-gd" in caught.value.hint
    with raises(BadInput, "stream_and_dask"):
        read_records(PROTOCOLS["dp-gd"], folder, _study(), "p0", stream=folder, cluster=connected)
    assert read_records(PROTOCOLS["dp-gd"], folder, _study(), "p0", cluster=connected).n == N


def test_covariates_and_numbers_as_labels_are_those_in_memory(connected: Cluster, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(7), tmp_path / "records.parquet"
    columns = {f"x{i}": rng.uniform(-1, 1, size=ROWS + 10) for i in range(D)}
    pq.write_table(pa.table({**columns, "y": rng.uniform(0, 9, size=ROWS + 10)}), path)
    study = make_study(2, D)
    study = study.model_copy(update={"label": Label(name="y", min=0.0, max=10.0)})
    memory, remote = load_csv(path, study, coding="treatment"), DaskRecords.read(connected, path, study, "treatment")
    assert (remote.coding, remote.classes, remote.d) == (memory.coding, memory.classes, memory.d) == ("treatment", 0, D)
    for f in (Whole(), DigestOf()):
        pairs = zip(memory.partials(f), remote.partials(f), strict=True)
        assert all((one == other).all() for one, other in pairs)

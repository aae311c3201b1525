"""Records on a Dask cluster: the same bits as in memory, whatever workers there are, and however they end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core.data import cluster as cluster_module
from masquerade_core.data.cluster import Cluster
from masquerade_core.data.dask_records import DaskRecords
from masquerade_core.data.loading import load_csv
from masquerade_core.data.records import ROWS, Records
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.gradients import GradientSum
from masquerade_core.rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_protocols import protocol_of
from masquerade_protocols.in_memory import run_in_memory
from tests.dask_helpers import LocalDask, local_dask
from tests.evaluation_helpers import held_back_study

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("distributed")

_Array = NDArray[np.float64]

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
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_LOOK", 0.2)


@pytest.fixture
def connected(dask: LocalDask) -> Iterator[Cluster]:
    with Cluster(dask.address, patience=30) as cluster:
        yield cluster


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
    """What many records are worth, each the same."""

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


def test_with_one_two_and_four_workers_the_same_bits_come_out_as_in_memory(
    dask: LocalDask, folder: Path, in_memory: Dataset
) -> None:
    studies = [_study(), _study("dp-whitened")]
    expected = [_released(study, in_memory) for study in studies]
    for more in (0, 1, 2):
        dask.work(more)
        with Cluster(dask.address) as cluster:
            cluster._client.wait_for_workers(len(dask.workers), timeout=60)
            records = DaskRecords.read(cluster, folder, studies[0])
            assert (records.n, records.d, records.classes) == (N, D, None)
            _same_sums(records, in_memory)
            for side, other in zip(records.sides(0.3), in_memory.sides(0.3), strict=True):
                assert side.n == other.n
                _same_sums(side, other)
            assert [_released(study, records) for study in studies] == expected


def test_a_worker_that_is_killed_in_the_middle_of_a_sum_costs_time_and_nothing_else(
    dask: LocalDask, connected: Cluster, folder: Path, tmp_path: Path
) -> None:
    dask.work(1)
    connected._client.wait_for_workers(2, timeout=60)
    alive = _alive(dask)
    records = DaskRecords.read(connected, folder, _study())
    assert records.total(_Deadly(tmp_path / "mark")).tolist() == [N]
    assert _alive(dask) == alive - 1


def _alive(dask: LocalDask) -> int:
    return sum(worker.poll() is None for worker in dask.workers)

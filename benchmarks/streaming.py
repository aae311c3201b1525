"""A round's sum over records that a disk holds, beside the same sum over a matrix in memory; and the memory of both.

    python -m benchmarks.streaming --records 20_000_000 --columns 50 --folder /var/tmp

It makes a Parquet file and reads it in one process of its own with a scratch file; with ``--in-memory`` also in another
one into memory. Each of them computes the sum of clipped gradients of ``dp-gd`` some times, and says how much memory it
took at most. Both sums must be the same. All files are deleted at the end.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import make_study
from masquerade_core.data.loading import load_csv, stream_csv
from masquerade_core.data.records import Records
from masquerade_core.data.schema import Dataset
from masquerade_core.learning.losses import LOGISTIC, logistic_slope
from masquerade_core.study import Study
from masquerade_protocols.dp_gd.roles import ClippedSum

_GROUP = 1 << 20  # as pyarrow writes them
_TIMES = 3


def make_file(path: Path, records: int, columns: int, seed: int = 0) -> dict[str, Any]:
    """Write simulated records as a Parquet file, a group at a time."""
    rng = np.random.default_rng(seed)
    names = [*(f"x{i}" for i in range(columns)), "y"]
    schema = pa.schema([*((name, pa.float32()) for name in names[:-1]), ("y", pa.dictionary(pa.int32(), pa.string()))])
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, records, _GROUP):
            n = min(_GROUP, records - start)
            X = rng.uniform(-0.2, 0.2, size=(columns, n)).astype(np.float32)
            y = pa.DictionaryArray.from_arrays((X.sum(axis=0) + rng.normal(size=n) > 0).astype(np.int32), ["0", "1"])
            writer.write_table(pa.table([*map(pa.array, X), y], schema=schema), row_group_size=_GROUP)
    return {}


def sized(study: Study, records: int) -> Study:
    """Return a study that allows so many records of a party."""
    rules = study.study.model_copy(update={"max_records": max(records, 1000)})
    return study.model_copy(update={"study": rules})


def measure(read: Callable[[], Records], columns: int) -> dict[str, Any]:
    """Read the records, compute the sum some times, and return what it took."""
    before, f = time.perf_counter(), ClippedSum(np.linspace(-1, 1, columns), LOGISTIC, Fraction(1, 2))
    data = read()
    found: dict[str, Any] = {"read_s": time.perf_counter() - before, "sum_s": float("inf")}
    for _ in range(_TIMES):
        before = time.perf_counter()
        found["sum"] = [int(v) for v in data.total(f)[:3]]
        found["sum_s"] = min(found["sum_s"], time.perf_counter() - before)
    if isinstance(data, Dataset):
        before = time.perf_counter()
        _ = data.X.T @ (logistic_slope(data.y * (data.X @ f.w)) * data.y)
        found["plain_gradient_s"] = time.perf_counter() - before
    return found | {"peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run something in a fresh process, whose peak of memory is its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    if (child := os.fork()) == 0:
        try:
            theirs.send(work())
        finally:
            os._exit(0)
    theirs.close()
    try:
        return dict(ours.recv())
    finally:
        os.waitpid(child, 0)


def main() -> None:
    """Make the file, measure, print, and delete everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--in-memory", action="store_true", help="also measure the whole matrix in memory")
    chosen = parser.parse_args()
    study = sized(make_study(2, chosen.columns), chosen.records)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        path = Path(folder) / "records.parquet"
        # A child makes the file, so that this process, and those that it forks, stay small.
        _in_child(lambda: make_file(path, chosen.records, chosen.columns))
        figures: dict[str, Any] = {"idle_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
        figures["streamed"] = _in_child(lambda: measure(lambda: stream_csv(path, study, folder), chosen.columns))
        if chosen.in_memory:
            figures["memory"] = _in_child(lambda: measure(lambda: load_csv(path, study), chosen.columns))
            figures["ratio"] = figures["memory"]["sum_s"] / figures["streamed"]["sum_s"]
            figures["same"] = figures["memory"]["sum"] == figures["streamed"]["sum"]
        figures["left_in_folder"] = [p.name for p in Path(folder).iterdir() if p != path]
    json.dump(figures, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()

"""How long a party takes to read a file of records, beside pyarrow's own reading of the same file; and the memory.

    python -m benchmarks.reading --records 1_000_000 --columns 50 --folder /var/tmp

It makes a CSV file and a Parquet file of the same records. Then it reads each of them some times, in turns: once as a
party does, checks, encoding and clipping included, and once with pyarrow alone, which makes a matrix of float64 of it.
Each reading has a process of its own. The shortest times count. The memory is the most that a process took, above what
it took before. By then it has read a file of 10,000 records, which loads what is loaded once. All files are deleted at
the end.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.measure import make_study
from masquerade_core.data.loading import load_csv

_TIMES = 3


def make_files(folder: Path, records: int, columns: int, seed: int = 0) -> None:
    """Write simulated records as records.csv and records.parquet, and a few of them as few.csv and few.parquet."""
    rng = np.random.default_rng(seed)
    values = {f"x{i}": rng.uniform(-1, 1, records).round(4) for i in range(columns)}
    table = pa.table({**values, "y": rng.choice(["0", "1"], records)})
    for name, some in (("records", table), ("few", table[:10_000])):
        pyarrow.csv.write_csv(some, folder / f"{name}.csv")
        pq.write_table(some, folder / f"{name}.parquet")


def read_as_a_party(path: Path, columns: int) -> None:
    """Read records as a party does."""
    load_csv(path, make_study(2, columns), need_label=False)


def read_with_pyarrow(path: Path, columns: int) -> None:
    """Read a file with pyarrow, and make a matrix of it."""
    table = pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    X = np.empty((table.num_rows, columns))
    for i in range(columns):
        X[:, i] = table.column(f"x{i}").to_numpy()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _measured(read: Callable[[Path, int], None], path: Path, columns: int) -> dict[str, float]:
    read(path.with_stem("few"), columns)  # loads what is loaded once
    before, wall, cpu = _peak(), time.perf_counter(), time.process_time()
    read(path, columns)
    return {
        "seconds": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_MB": (_peak() - before) / 1024,
    }


def _best(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(min(run[key] for run in runs), 3) for key in runs[0]}


def main() -> None:
    """Measure, and print what was found as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    matrix = options.records * options.columns * 8 / 2**20
    found: dict[str, object] = {"records": options.records, "columns": options.columns, "matrix_MB": round(matrix, 1)}
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        with spawn.Pool(1) as pool:
            pool.apply(make_files, (folder, options.records, options.columns))
        for path in (folder / "records.csv", folder / "records.parquet"):
            runs: dict[str, list[dict[str, float]]] = {"party": [], "pyarrow": []}
            for _ in range(_TIMES):
                for who, read in (("pyarrow", read_with_pyarrow), ("party", read_as_a_party)):
                    with spawn.Pool(1) as pool:
                        runs[who].append(pool.apply(_measured, (read, path, options.columns)))
            party, plain = _best(runs["party"]), _best(runs["pyarrow"])
            found[path.suffix[1:]] = {
                "party": party,
                "pyarrow": plain,
                "ratio": round(party["seconds"] / plain["seconds"], 2),
                "cpu_ratio": round(party["cpu_s"] / plain["cpu_s"], 2),
                "memory_of_matrices": round(party["peak_MB"] / matrix, 2),
            }
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()

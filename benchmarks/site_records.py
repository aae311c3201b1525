"""Records of one site, as many as you like: a folder of Parquet files, made from a seed and a known model.

Ten numbers of 32 bits, uniform between -1 and 1, and a label that is "yes" with the probability of a logistic model.
Each file has a seed of its own, so a folder of the same number of records is the same everywhere.
"""

import argparse
import importlib
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

__all__ = ["COLUMNS", "LABEL", "POSITIVE", "WEIGHTS", "make", "study_columns"]

COLUMNS = tuple(f"x{i}" for i in range(10))
LABEL, POSITIVE, NEGATIVE = "answer", "yes", "no"
WEIGHTS = (3.0, -2.0, 1.5, -1.0, 0.5, -0.25, 0.0, 0.0, 2.0, -3.0)
GROUP = 1 << 20  # records of a group in a file
FILE = 10_000_000  # records of a file


def make(folder: Path, records: int, *, of_file: int = FILE, seed: int = 0) -> int:
    """Write the files into an empty folder, and return how many bytes they have."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, records, of_file)):
        rng = np.random.default_rng([seed, number])
        _write(folder / f"part-{number:05}.parquet", min(of_file, records - start), rng)
    return sum(path.stat().st_size for path in folder.iterdir())


def _write(path: Path, records: int, rng: np.random.Generator) -> None:
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    fields = [(name, arrow.float32()) for name in COLUMNS]
    schema = arrow.schema([*fields, (LABEL, arrow.dictionary(arrow.int8(), arrow.string()))])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=[LABEL]) as writer:
        for start in range(0, records, GROUP):
            X = rng.uniform(-1, 1, size=(min(GROUP, records - start), len(COLUMNS))).astype(np.float32)
            says = rng.uniform(size=len(X)) < 1 / (1 + np.exp(-(X @ np.array(WEIGHTS, dtype=np.float32))))
            label = arrow.DictionaryArray.from_arrays(arrow.array(says.astype(np.int8)), [NEGATIVE, POSITIVE])
            writer.write_table(arrow.Table.from_arrays([*map(arrow.array, X.T), label], schema=schema))


def study_columns() -> str:
    """Return the study's part on the label and the columns, as TOML."""
    features = (f'[[feature]]\nname = "{name}"\nmin = -1.0\nmax = 1.0\n' for name in COLUMNS)
    return f'[label]\nname = "{LABEL}"\npositive = "{POSITIVE}"\n\n' + "\n".join(features)


def main() -> None:
    """Make the records."""
    parser = argparse.ArgumentParser(prog="benchmarks.site_records", description="Make a site's records.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=100_000_000)
    chosen = parser.parse_args()
    began = time.perf_counter()
    size = make(chosen.folder, chosen.records)
    Console().print(f"{chosen.records:,} records, {size / 1e9:.2f} GB, {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()

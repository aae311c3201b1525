"""Real processes load everything before the hello, and nothing that their study does not name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.closure import KINDS, LISTED, RUNS, closures, module_named

FOREIGN = {
    *("sklearn", "scipy.stats", "pandas", "pyarrow", "duckdb", "dask", "distributed", "matplotlib", "jinja2", "rich"),
    *("phe", "joblib", "onnx", "skops", "prometheus_client", "structlog"),
}


@pytest.mark.parametrize("run", sorted(RUNS))
def test_a_run_loads_what_is_listed_and_all_of_it_before_the_hash_of_its_program(tmp_path: Path, run: str) -> None:
    for kind, processes in closures(run, tmp_path).items():
        for closure in processes:
            assert list(map(module_named, closure.after)) == []
            assert sorted(map(module_named, closure.files)) == LISTED[kind]
            assert {name for name in closure.others if name.partition(".")[0] in FOREIGN or name in FOREIGN} == set()
    assert set(KINDS) <= set(LISTED)

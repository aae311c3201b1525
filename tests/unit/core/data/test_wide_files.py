"""Files of very many columns: what finding them costs grows with their number, and not with its square."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from masquerade_core.data import blocks
from masquerade_core.data.dialects import columns_of
from masquerade_core.data.loading import load_csv
from masquerade_core.data.parquet import ParquetFile, parquet_source
from masquerade_core.data.schema import Encoder
from tests.helpers import calls
from tests.protocol_helpers import make_study


def _found(count: int) -> None:
    names = [f"x{i}" for i in range(count)]
    picks, signs = columns_of(names, reversed(names), "")
    assert not signs
    assert picks == {name: i for i, name in enumerate(names)}


def test_finding_four_times_as_many_columns_costs_four_times_as_much() -> None:
    assert calls(lambda: _found(2000)) <= 4.5 * calls(lambda: _found(500))


def test_a_parquet_file_with_many_columns_is_opened_as_fast(tmp_path_factory: pytest.TempPathFactory) -> None:
    def cost(count: int) -> int:
        file, names = tmp_path_factory.mktemp("wide") / "w.parquet", [f"x{i}" for i in range(count)]
        pq.write_table(pa.table({name: [0.5, 1.5] for name in names}), file)

        def read() -> None:
            source = parquet_source(ParquetFile(file), names, (), most=1000)
            (block,) = source.blocks
            assert not source.signs
            columns = block.columns()
            assert columns is not None
            assert len(columns) == count

        return calls(read)

    assert cost(400) <= 4.5 * cost(100)


def _loads(folder: Path, ending: str, count: int) -> int:
    """Return how many functions the loading of 200 records of so many columns calls, once all modules are there."""
    path, names = folder / f"w.{ending}", [f"x{i}" for i in range(count)]
    table = pa.table({**{name: [0.5, -0.25] * 100 for name in names}, "y": ["0", "1"] * 100})
    pq.write_table(table, path) if ending == "parquet" else pyarrow.csv.write_csv(table, path)
    study = make_study(2, count)

    def load() -> None:
        assert load_csv(path, study).X.shape == (200, count)

    load()
    return calls(load)


@pytest.mark.parametrize(("ending", "most"), [("csv", 48), ("parquet", 85)])
def test_opening_and_reading_a_column_more_costs_a_few_calls(
    ending: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_WORTH_IT", 0)
    assert _loads(tmp_path, ending, 400) - _loads(tmp_path, ending, 100) <= 300 * most


def test_columns_of_numbers_are_encoded_many_at_a_time() -> None:
    def cost(count: int) -> int:
        encoder, found = Encoder.from_study(make_study(2, count)), {f"x{i}": np.array([0.5, 2.0]) for i in range(count)}
        X = np.empty((2, encoder.d))
        return calls(lambda: encoder.encode_into(X, found))

    assert cost(400) - cost(100) <= 300 * 8

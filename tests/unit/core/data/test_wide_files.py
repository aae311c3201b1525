"""Files of very many columns: what finding them costs grows with their number, and not with its square."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from masquerade_core.data.files import columns_of
from masquerade_core.data.parquet import ParquetFile, parquet_source
from tests.helpers import calls


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

"""Files of records that are packed: they are read as the same file unpacked, and a small one that unpacks to much."""

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from masquerade_core.data import blocks, packed
from masquerade_core.data.examining import examine
from masquerade_core.data.file_faults import FaultyFile
from masquerade_core.data.loading import load_csv, stream_csv
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.study import Study
from tests.messages import raises
from tests.unit.core.data.test_data import STUDY
from tests.unit.core.data.test_dirty_files import csv


def _zstd(content: bytes) -> bytes:
    found: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return found


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": _zstd}


@pytest.fixture(params=[0, 1 << 60], ids=["pyarrow", "cell by cell"], autouse=True)
def _reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_WORTH_IT", request.param)
    monkeypatch.setattr(blocks, "_BYTES", 1 << 13)


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_packed_file_has_the_records_the_faults_and_the_fingerprint_of_the_plain_one(
    ending: str, encoding: str, tmp_path: Path
) -> None:
    study, plain, small = Study.parse(STUDY), tmp_path / "r.csv", tmp_path / f"r.csv.{ending}"
    for text in (csv(), csv(radius={9: "?", 1700: "12 mm"}, sex={40: "x"})):
        plain.write_bytes(text.encode(encoding))
        small.write_bytes(PACKERS[ending](plain.read_bytes()))
        one, other = examine(plain, study), examine(small, study)
        assert other.faults == one.faults
        assert [sign.name for sign in other.signs] == [sign.name for sign in one.signs]
        if one.refused is not None:
            with pytest.raises(FaultyFile):
                load_csv(small, study)
            continue
        data, same, streamed = load_csv(plain, study), load_csv(small, study), stream_csv(small, study, tmp_path)
        assert same.X.tobytes() == data.X.tobytes()
        contents = [b"".join(map(bytes, records.content())) for records in (data, same, streamed)]
        assert len(set(contents)) == 1


@pytest.mark.parametrize("ending", PACKERS)
def test_a_file_that_is_damaged_or_cut_off_is_refused(ending: str, tmp_path: Path) -> None:
    path, whole = tmp_path / f"r.csv.{ending}", PACKERS[ending](csv().encode())
    flipped = bytes([*whole[: len(whole) // 2], whole[len(whole) // 2] ^ 255, *whole[len(whole) // 2 + 1 :]])
    for content in (whole[:9], whole[: len(whole) // 2], whole[:-1], flipped):
        path.write_bytes(content)
        for read in (load_csv, examine):
            with pytest.raises(BadInput) as caught:
                read(path, Study.parse(STUDY))
            assert caught.value.exit_code == 4
    path.write_bytes(whole[:-1])
    with raises(BadInput, "packed_damaged", path.name, {"gz": "gzip", "zst": "zstd"}[ending]):
        load_csv(path, Study.parse(STUDY))


def test_without_a_library_for_zstd_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.csv.zst"
    path.write_bytes(_zstd(csv().encode()))
    for library in ("pyarrow", "compression.zstd"):
        monkeypatch.setitem(sys.modules, library, None)
    with raises(BadInput, "packed_with_zstd", "r.csv.zst"):
        load_csv(path, Study.parse(STUDY))


@pytest.mark.parametrize("read", [load_csv, lambda path, study: stream_csv(path, study, path.parent)])
def test_of_a_small_file_that_unpacks_to_many_records_no_more_is_read_than_a_party_may_have(
    read: Callable[[Path, Study], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 0

    def counting(self: packed.Unpacked, wanted: int) -> bytes:
        nonlocal size
        found = _READ(self, wanted)
        size += len(found)
        return found

    study, path = Study.parse(STUDY.replace("min_records = 3", "min_records = 3\nmax_records = 3_000")), tmp_path / "r"
    head, _, body = csv().partition("\n")
    path.write_bytes(gzip.compress(f"{head}\n".encode()) + 200 * gzip.compress(body.encode()))
    monkeypatch.setattr(packed.Unpacked, "read", counting)
    with pytest.raises(RefusedLocally):
        read(path, study)
    whole = len(head) + 200 * len(body)
    assert size < (whole / 10 if read is load_csv else 1.2 * whole)  # a scratch file's lines are counted before


_READ = packed.Unpacked.read


def test_a_line_that_does_not_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        left = 100

        def read(self, size: int) -> bytes:
            self.left -= 1
            return b"1" * size if self.left else b""

    monkeypatch.setattr(blocks, "_LONGEST", 1 << 16)
    found = [len(body) for body, is_whole in blocks._whole_lines(Endless(), 1 << 12) if not is_whole]  # type: ignore[arg-type]  # it has what is used of a file
    assert sum(found) > 80 << 12
    assert max(found) <= (1 << 16) + (1 << 12)


def test_a_small_file_packed_with_gzip_loads_no_engine(tmp_path: Path) -> None:
    code = (
        "import sys; from masquerade_core.data.loading import load_csv; from masquerade_core.study import Study\n"
        "load_csv(sys.argv[1], Study.parse(sys.argv[2])); sys.exit('pyarrow' in sys.modules)"
    )
    path = tmp_path / "r.csv.gz"
    path.write_bytes(gzip.compress(csv().encode()))
    subprocess.run([sys.executable, "-c", code, str(path), STUDY], check=True)
    assert np.isfinite(load_csv(path, Study.parse(STUDY)).X).all()

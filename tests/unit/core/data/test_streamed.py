"""Records in a scratch file: the same bits as in memory, in bounded memory, and nothing left behind."""

import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from masquerade_core.data import blocks
from masquerade_core.data.loaders import POINTS
from masquerade_core.data.loading import load_csv, stream_csv
from masquerade_core.data.records import ROWS, Records, Repaired
from masquerade_core.data.schema import Dataset, Encoder
from masquerade_core.data.streamed import Room, Scratch, Streamed
from masquerade_core.errors import BadInput, LocalProtocolError, RefusedLocally, RunFailed
from masquerade_core.learning.classifiers import Linear, cast_votes, named
from masquerade_core.learning.erm import TOLERANCE, fit, fit_records, gradient_norm
from masquerade_core.learning.gradients import GradientSum
from masquerade_core.learning.losses import LOGISTIC
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_host.store.ledger import canonical
from masquerade_party._records import read_records
from masquerade_protocols import protocol_of
from masquerade_protocols.dp_gd.roles import clip_of, clipped_sum
from masquerade_protocols.in_memory import run_in_memory
from masquerade_protocols.registry import MEASUREMENTS, PROTOCOLS
from tests.evaluation_helpers import held_back_study
from tests.messages import raises
from tests.protocol_helpers import make_study
from tests.summary_helpers import patients, summary_study

_Array = NDArray[np.float64]

_N, _D = ROWS + 1500, 3


def _write(path: Path, n: int, d: int = _D, seed: int = 1) -> Path:
    """Write records of which some lie outside the unit ball, so that the encoder clips them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d)).round(4)
    y = (X.sum(axis=1) + rng.normal(size=n) > 0).astype(int)
    lines = [",".join([*(f"x{i}" for i in range(d)), "y"])]
    lines += [",".join(map(str, (*row, label))) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of scratch files, where nothing is ever seen."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> tuple[Dataset, Streamed]:
    """Records of two blocks, in memory and on the disk."""
    path = _write(tmp_path_factory.mktemp("data") / "data.csv", _N)
    study = make_study(2, _D)
    return load_csv(path, study), stream_csv(path, study, folder)


def _same(a: Records, b: Records) -> None:
    assert (a.n, a.d, a.classes, a.repaired) == (b.n, b.d, b.classes, b.repaired)
    w = np.resize([2.0, -3.0, 0.25], a.d)
    parts = zip(a.partials(GradientSum(w)), b.partials(GradientSum(w)), strict=True)
    assert all((one == other).all() for one, other in parts)
    clip = clip_of(held_back_study())
    assert clipped_sum(a, w, LOGISTIC, clip).tolist() == clipped_sum(b, w, LOGISTIC, clip).tolist()


def test_the_sums_are_those_of_the_records_in_memory_bit_for_bit(both: tuple[Dataset, Streamed], folder: Path) -> None:
    memory, streamed = both
    assert memory.n > ROWS
    _same(memory, streamed)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("share", [0.3, 0.5, 0.001])
def test_so_are_those_of_both_sides(both: tuple[Dataset, Streamed], share: float) -> None:
    for one, other in zip(*(data.sides(share) for data in both), strict=True):
        _same(one, other)
        assert isinstance(other, Streamed)
        assert sum(len(y) for _, y in other.blocks()) == other.n


@pytest.mark.parametrize(("n", "share", "held"), [(100, 0.29, 29), (200, 0.29, 58), (29, 0.1, 2)])
def test_a_share_counts_as_the_decimal_number_of_the_study(tmp_path: Path, n: int, share: float, held: int) -> None:
    """The nearest float to 0.29, times 100, is less than 29."""
    assert (int(share * n) < held) == (n != 29)
    study, path = make_study(2, _D), _write(tmp_path / "data.csv", n)
    for records in (load_csv(path, study), stream_csv(path, study, tmp_path)):
        assert [side.n for side in records.sides(share)] == [n - held, held]
    for one, other in zip(
        load_csv(path, study).sides(share), stream_csv(path, study, tmp_path).sides(share), strict=True
    ):
        _same(one, other)


def test_a_ledger_knows_them_as_the_same_records(both: tuple[Dataset, Streamed]) -> None:
    memory, streamed = both
    assert b"".join(map(bytes, canonical(streamed))) == b"".join(map(bytes, canonical(memory)))
    small = Dataset(np.array([[0.5, 0.25]]), np.array([1.0]))
    assert (
        b"".join(map(bytes, canonical(small)))
        == (b"Dataset X array <f8 (1, 2) " + small.X.tobytes() + b"y array <f8 (1,) " + small.y.tobytes())
        + b"classes \0\0\0\0\0\0\0\x04Nonerepaired Repaired clamped \0\0\0\0\0\0\0\x010filled \0\0\0\0\0\0\0\x010"
    )
    with pytest.raises(LocalProtocolError):
        list(streamed.sides(0.5)[0].content())


def test_a_very_large_group_of_parquet_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(blocks, "_LARGE", 1000)
    kind = '[[feature]]\nname = "kind"\nlevels = ["a", "b"]\n\n[[feature]]\nname = "x2"'
    text = make_study(2, _D).to_toml()
    study = Study.parse(text.replace('[[feature]]\nname = "x2"', kind), in_memory=True)
    n, path, cells = ROWS + 3000, tmp_path / "data.parquet", _numbers(ROWS + 3000)
    columns = cells | {
        "kind": pa.array(["a", "b", "b"] * (n // 3) + ["a"] * (n % 3)),
        "y": pa.array(["0", "1"] * (n // 2)),
    }
    pq.write_table(pa.table(columns), path, row_group_size=n)
    _same(load_csv(path, study), stream_csv(path, study, tmp_path))
    cells["x1"][[5, ROWS + 7]] = (7.0, 8.0)
    pq.write_table(pa.table(columns | cells), path, row_group_size=n)
    messages = []
    for read in (lambda: load_csv(path, study), lambda: stream_csv(path, study, tmp_path)):
        with pytest.raises(BadInput) as caught:
            read()
        messages.append(caught.value.message)
    assert messages[0] == messages[1]
    assert str(ROWS + 8) in messages[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.parquet"]


def _numbers(n: int) -> dict[str, _Array]:
    rng = np.random.default_rng(4)
    return {f"x{i}": rng.uniform(-0.5, 0.5, n) for i in range(_D)}


# --- Whole runs -------------------------------------------------------------------------


def _model(study: Study, data: dict[str, Records]) -> object:
    table = Table(study.names, {name: SimulationRng("streamed", name) for name in (*study.names, CHARLIE)}, bytes(16))
    return run_in_memory(protocol_of(study), study, data, table=table)[CHARLIE]


@pytest.mark.parametrize(
    ("protocol", "section", "calibration"),
    [("dp-gd", "rounds = 3", "proven"), ("dp-whitened", "", "proven"), ("psgd", "rounds = 3", "proven")],
)
def test_a_run_gives_the_same_model_and_the_same_evaluation(
    tmp_path: Path, protocol: str, section: str, calibration: str
) -> None:
    study = held_back_study(2, _D, protocol=protocol, section=section, calibration=calibration)
    paths = {name: _write(tmp_path / f"{name}.csv", 400, seed=i) for i, name in enumerate(study.names)}
    memory = _model(study, {name: load_csv(path, study) for name, path in paths.items()})
    streamed = _model(study, {name: stream_csv(path, study, tmp_path) for name, path in paths.items()})
    assert memory == streamed
    assert getattr(memory, "evaluation", None) is not None


@pytest.mark.parametrize("calibration", ["paper", "proven"])
def test_so_does_a_fit_at_each_party(tmp_path: Path, calibration: str) -> None:
    text = make_study(3, _D).to_toml().replace('calibration = "paper"', f'calibration = "{calibration}"')
    study = Study.parse(text.replace('noise = "laplace"\n', "") if calibration == "proven" else text, in_memory=True)
    paths = {name: _write(tmp_path / f"{name}.csv", 300, seed=i) for i, name in enumerate(study.names)}
    memory = _model(study, {name: load_csv(path, study) for name, path in paths.items()})
    assert memory == _model(study, {name: stream_csv(path, study, tmp_path) for name, path in paths.items()})


def test_so_does_a_descent_at_each_party(tmp_path: Path) -> None:
    text = make_study(3, _D).to_toml().replace("local-aggregation", "weighted-dp").replace('"paper"', '"proven"')
    study = Study.parse(text.replace('noise = "laplace"', "rounds = 5"), in_memory=True)
    paths = {name: _write(tmp_path / f"{name}.csv", 300, seed=i) for i, name in enumerate(study.names)}
    memory = _model(study, {name: load_csv(path, study) for name, path in paths.items()})
    assert memory == _model(study, {name: stream_csv(path, study, tmp_path) for name, path in paths.items()})


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge"])
def test_the_exact_minimiser_is_the_same_bit_for_bit(both: tuple[Dataset, Streamed], loss: str) -> None:
    memory, streamed = both
    w = fit_records(streamed, 1e-3, loss)
    np.testing.assert_array_equal(w, fit_records(memory, 1e-3, loss))
    assert gradient_norm(w, memory.X, memory.y, 1e-3, loss) <= 2 * TOLERANCE
    np.testing.assert_allclose(w, fit(memory.X, memory.y, 1e-3, loss), atol=1e-6)
    small = Dataset(memory.X[:1000], memory.y[:1000])
    np.testing.assert_array_equal(fit_records(small, 1e-3, loss), fit(small.X, small.y, 1e-3, loss))


def test_a_summary_counts_the_same_cells_and_a_ledger_knows_them(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_BYTES", 1 << 18)
    study, path, columns = summary_study(), tmp_path / "data.csv", patients(_N)
    lines = [",".join(columns), *(",".join(cells) for cells in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    loader = protocol_of(study).records
    assert loader.streamed is not None
    memory, streamed = loader.one(path, study), loader.streamed(path, study, folder)
    assert memory.counts() == streamed.counts()
    assert b"".join(map(bytes, canonical(streamed))) == b"".join(map(bytes, canonical(memory)))
    loader.check(streamed, study, "data", study.names[0])
    assert list(folder.iterdir()) == []


def test_votes_of_the_studys_own_classifier_are_the_same(both: tuple[Dataset, Streamed]) -> None:
    rng, X_aux = SimulationRng("votes"), np.random.default_rng(2).uniform(-0.5, 0.5, (500, _D))
    own = [cast_votes(Linear("logistic", 1e-3, None), data, X_aux, rng) for data in both]
    assert own[0] == own[1]
    assert len(set(own[0])) == 2
    assert own[0] == tuple((X_aux @ fit_records(both[0], 1e-3) > 0).astype(int).tolist())
    streamed = both[1]
    for classifier in (named("tree"), Linear("logistic", 1e-3, 3)):
        data = replace(streamed, classes=3) if isinstance(classifier, Linear) else streamed
        with raises(BadInput, "classifier_not_streamed"):
            cast_votes(classifier, data, X_aux, rng)


# --- What a party is told ----------------------------------------------------------------


def test_a_protocol_that_needs_all_records_in_memory_says_which_ones_do_not(tmp_path: Path) -> None:
    study = make_study(2, _D)
    path = _write(tmp_path / "p0.csv", 20)
    with raises(BadInput, "streams_not", "input-noise") as caught:
        read_records(PROTOCOLS["input-noise"], path, study, "p0", tmp_path)
    assert caught.value.exit_code == 4
    named = caught.value.hint.rpartition(": ")[2].split(", ")
    assert named == sorted(name for name, p in (PROTOCOLS | MEASUREMENTS).items() if p.streams)
    assert {"dp-gd", "dp-whitened", "evaluation", "local-aggregation", "psgd", "soft", "weighted-dp"} <= set(named)
    assert isinstance(read_records(PROTOCOLS["dp-gd"], path, study, "p0", tmp_path), Streamed)
    assert isinstance(read_records(PROTOCOLS["dp-gd"], path, study, "p0"), Dataset)


def test_the_size_is_checked_as_in_memory(tmp_path: Path) -> None:
    study = make_study(2, _D, min_records=30)
    with raises(RefusedLocally, "fewer_than_min_records", ..., ...):
        stream_csv(_write(tmp_path / "few.csv", 20), study, tmp_path)
    POINTS.check(stream_csv(_write(tmp_path / "enough.csv", 40), study, tmp_path), study, "data", "p0")


def test_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    with raises(BadInput, "scratch_not_made"):
        Scratch(tmp_path / "none", 100)
    (tmp_path / "file").touch()
    with raises(BadInput, "scratch_not_made"):
        Scratch(tmp_path / "file", 100)


@contextmanager
def _limit(kind: int, value: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def test_a_disk_without_space_ends_with_a_sentence_and_nothing_is_left(tmp_path: Path, folder: Path) -> None:
    path = _write(tmp_path / "data.csv", 5000)
    with (
        _limit(resource.RLIMIT_FSIZE, 100_000),  # as a disk that takes no more of this file
        raises(BadInput, "disk_too_full") as caught,
    ):
        stream_csv(path, make_study(2, _D), folder)
    assert not any(digits in str(caught.value) for digits in ("5000", "5,000", "160"))  # nor how many records
    assert list(folder.iterdir()) == []


def test_a_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    data = stream_csv(_write(tmp_path / "data.csv", 100), make_study(2, _D), tmp_path)
    data.scratch.shrink(10)
    with raises(RunFailed, "scratch_unreadable", ...):
        data.total(GradientSum(np.zeros(_D)))


def test_a_row_outside_the_unit_ball_is_found_before_it_counts(tmp_path: Path) -> None:
    with Room(tmp_path) as room:
        X = room.matrix(10, 2, np.float64)
        X[:4] = 0.5
        room.filled(4)
        X[4] = 0.9
        with raises(LocalProtocolError, "record_outside_unit_ball"):
            room.filled(5)
        with raises(LocalProtocolError, "source_longer_than_said"):
            room.filled(11)


def test_a_label_that_is_none_is_found_before_it_counts(tmp_path: Path) -> None:
    with Room(tmp_path) as room:
        room.matrix(10, 2, np.float64)[:3] = 0.1
        room.filled(3)
        with raises(LocalProtocolError, "labels_not_one_each"):
            room.records(np.array([1, -1, 0]), None, Repaired())


# --- In a process of its own ---------------------------------------------------------------

_CHILD = """
import re, sys, time
from pathlib import Path
from masquerade_core.data.records import Repaired
from masquerade_core.data.loading import stream_csv
from masquerade_core.study import Study
from masquerade_core.learning.erm import TOLERANCE, fit, fit_records, gradient_norm
from masquerade_core.learning.gradients import GradientSum
import numpy as np, pyarrow.csv, pyarrow.parquet
path, study, folder = sys.argv[1:]
study = Study.parse(Path(study).read_text(), in_memory=True)
peak = lambda: int(re.search("VmHWM: *(\\d+) kB", Path("/proc/self/status").read_text().replace("\\t", " "))[1])
before = peak()
data = stream_csv(path, study, folder)
data.added(GradientSum(np.ones(study.d)))
print(peak() - before, data.n, flush=True)
time.sleep(600 if "wait" in folder else 0)
"""


def _child(path: Path, study: Study, folder: Path) -> subprocess.Popen[str]:
    text = path.with_suffix(".toml")
    text.write_text(study.to_toml(), encoding="utf-8")
    command = [sys.executable, "-c", _CHILD, str(path), str(text), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads a peak of memory that starts anew with a program")
def test_memory_holds_a_few_blocks_of_the_records(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n, d, path = 8 * ROWS, 40, tmp_path / "data.parquet"
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.uniform(-0.1, 0.1, n).astype(np.float32) for i in range(d)}
    table = pa.table(columns | {"y": pa.array(["0", "1"] * (n // 2))})
    pq.write_table(table, path, row_group_size=ROWS, use_dictionary=["y"])  # numbers have no two alike
    child = _child(path, make_study(2, d), tmp_path)
    kilobytes, found = child.communicate(timeout=120)[0].split()
    assert int(found) == n
    assert int(kilobytes) * 1024 < 0.8 * n * d * 8  # a block is an eighth of them; all would be beside the rest


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the files of another process")
def test_the_scratch_file_has_no_name_and_is_gone_with_its_process(tmp_path: Path) -> None:
    folder = tmp_path / "wait"
    folder.mkdir()
    child = _child(_write(tmp_path / "data.csv", 3000), make_study(2, _D), folder)
    with child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline()
            handles = Path(f"/proc/{child.pid}/fd")
            (scratch,) = (h for h in handles.iterdir() if str(folder) in str(h.readlink()))
            status = scratch.stat()
            assert stat.S_IMODE(status.st_mode) == 0o600
            assert (status.st_nlink, status.st_size) == (0, 3000 * (_D + 1) * 8)
            assert list(folder.iterdir()) == []
        finally:
            child.send_signal(signal.SIGKILL)
    assert list(folder.iterdir()) == []


# --- float32 --------------------------------------------------------------------------------


def _half(study: Study) -> Study:
    return Study.parse(study.to_toml().replace("[study]\n", '[study]\nprecision = "float32"\n'), in_memory=True)


def test_a_study_that_says_nothing_of_precision_keeps_its_hash() -> None:
    study = make_study(2, _D)
    assert "precision" not in study.to_toml()
    assert not any("precision" in name for name in study.canonical())
    assert _half(study).digest() != study.digest()
    assert _half(study).study.precision == "float32"
    with raises(BadInput, "key_of_another_kind", "precision", '"float16"', '"float64" or "float32"'):
        Study.parse(study.to_toml().replace("[study]\n", '[study]\nprecision = "float16"\n'), in_memory=True)


@pytest.mark.parametrize("intercept", [False, True])
def test_no_record_is_longer_than_one_after_it_was_rounded(intercept: bool) -> None:
    """To the nearest, about half of the clipped records would be, by more than the check allows."""
    encoder = replace(Encoder.from_study(_half(make_study(2, 5))), intercept=intercept)
    rng = np.random.default_rng(3)
    columns = {f"x{i}": rng.uniform(-1, 1, 3000) for i in range(5)}
    X, exact = encoder.encode(columns), replace(encoder, precision="float64").encode(columns)
    assert X.dtype == np.float32
    lengths = np.linalg.norm(X.astype(np.float64), axis=1)
    assert lengths.max() <= 1 + 1e-15
    assert (np.linalg.norm(exact.astype(np.float32).astype(np.float64), axis=1) > 1 + 1e-12).mean() > 0.2
    np.testing.assert_allclose(X, exact, rtol=3e-7)
    Dataset(X, np.ones(3000))


def test_float32_gives_the_same_bits_in_memory_and_on_the_disk(tmp_path: Path) -> None:
    study, path = _half(make_study(2, _D)), _write(tmp_path / "data.csv", _N)
    memory, streamed = load_csv(path, study), stream_csv(path, study, tmp_path)
    assert {memory.X.dtype.name, streamed.dtype.name} == {"float32"}
    _same(memory, streamed)
    for one, other in zip(memory.sides(0.3), streamed.sides(0.3), strict=True):
        _same(one, other)
    assert b"".join(map(bytes, canonical(streamed))) == b"".join(map(bytes, canonical(memory)))
    exact = load_csv(path, make_study(2, _D))
    both = (clipped_sum(records, np.ones(_D), LOGISTIC, Fraction(1, 2)).tolist() for records in (exact, memory))
    assert next(both) != next(both)


def test_a_run_with_float32_gives_the_same_model(tmp_path: Path) -> None:
    study = _half(held_back_study(2, _D))
    paths = {name: _write(tmp_path / f"{name}.csv", 400, seed=i) for i, name in enumerate(study.names)}
    memory = _model(study, {name: load_csv(path, study) for name, path in paths.items()})
    assert memory == _model(study, {name: stream_csv(path, study, tmp_path) for name, path in paths.items()})

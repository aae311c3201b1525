"""Every example study can be run, and describes the tables that prepare.py makes of the original files."""

import csv
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from masquerade.draft import Draft
from masquerade_core.data.groups import load_grouped
from masquerade_core.data.loading import load_csv, load_records
from masquerade_core.data.schema import Encoder
from masquerade_core.privacy.expectation import Verdict
from masquerade_core.study import Study
from masquerade_core.study_files import read_study_text
from masquerade_lab.originals import ADULT_COLUMNS, BANK_COLUMNS, KDDCUP_COLUMNS
from masquerade_protocols import BASELINES, DEFAULT_PROTOCOL, entry_named, entry_of, protocol_of
from tests import ROOT

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/study.toml"))
N = 80


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


prepare = _module("prepare")


def study_of(name: str) -> Study:
    return Study.parse(read_study_text(EXAMPLES / name / "study.toml"))


def cells(study: Study, columns: tuple[str, ...], row: int) -> dict[str, str]:
    """Invent cells that the study allows, and put a "7" in columns that the study does not use."""
    out = dict.fromkeys(columns, "7")
    for place, feature in enumerate(study.features):
        if feature.levels is not None:
            out[feature.name] = feature.levels[(row + place) % len(feature.levels)]
        elif feature.edges is not None:
            out[feature.name] = str(int(feature.edges[row % len(feature.edges)]))
        else:
            out[feature.name] = "1"
    return out


def lines(name: str, columns: tuple[str, ...], labels: tuple[str, str], join: str = ",", end: str = "") -> str:
    study = study_of(name)
    rows = []
    for row in range(N):
        made = cells(study, columns, row)
        made[columns[-1]] = labels[row % 3 == 0]
        rows.append(join.join(made.values()) + end)
    return "\n".join(rows) + "\n"


def adult(directory: Path) -> None:
    text = lines("adult", ADULT_COLUMNS, ("<=50K", ">50K"), ", ")
    lacking = text.splitlines()[0].replace("Self-emp-not-inc", "?").replace("Private", "?") + "\n"
    (directory / "adult.data").write_text(text + lacking, encoding="ascii")
    (directory / "adult.test").write_text("|1x3\n" + text.replace("K\n", "K.\n") + lacking, encoding="ascii")


def a9a(directory: Path) -> None:
    for file in ("a9a", "a9a.t"):
        rows = [f"{'+1' if i % 3 == 0 else '-1'} {i + 1}:1 {i + 30}:1" for i in range(N)]
        (directory / file).write_text("\n".join(rows), encoding="ascii")


def bank(directory: Path) -> None:
    text = ";".join(BANK_COLUMNS) + "\n" + lines("bank", BANK_COLUMNS, ("no", "yes"), ";")
    (directory / "bank-additional-full.csv").write_text(text, encoding="ascii")


def kdd(directory: Path) -> None:
    text = lines("kdd", KDDCUP_COLUMNS, ("normal", "smurf"), end=".")
    for file in ("kddcup.data_10_percent", "corrected"):
        (directory / file).write_text(text.replace("smurf", "neptune", 3), encoding="ascii")


def breast_cancer_original(directory: Path) -> None:
    rows = [f"{i},{','.join(str(1 + (i * k) % 10) for k in range(9))},{2 + 2 * (i % 2)}" for i in range(N)]
    (directory / "breast-cancer-wisconsin.data").write_text("\n".join([*rows, "1,2,?,4,5,6,7,8,9,10,2"]))


def credit_card(directory: Path) -> None:
    head = ",".join(["Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class"])
    rows = [",".join([str(i), *(f"{i % 9 - 4}.5" for _ in range(28)), "9.99", str(+(i % 5 == 0))]) for i in range(500)]
    (directory / "creditcard.csv").write_text("\n".join([head, *rows]), encoding="ascii")


def har_arrays(features: int = 265) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    parts: dict[str, Any] = {}
    for part in ("train", "test"):
        parts[f"X_{part}"] = np.array([float(f"{x:.7e}") for x in rng.uniform(-1, 1, N * features)]).reshape(N, -1)
        parts[f"y_{part}"] = 1 + np.arange(N) % 6
    return parts


def har(directory: Path) -> None:
    arrays = har_arrays()
    single = {name: array.astype("f4") if name.startswith("X") else array for name, array in arrays.items()}
    np.savez(directory / "har.npz", allow_pickle=False, **single)


def nothing(directory: Path) -> None:
    """scikit-learn brings it along."""


ORIGINALS: dict[str, Callable[[Path], None]] = {
    "adult": adult,
    "a9a": a9a,
    "bank": bank,
    "kdd": kdd,
    "breast-cancer-original": breast_cancer_original,
    "credit-card": credit_card,
    "har": har,
    "breast-cancer-wdbc": nothing,
}


def prepared(name: str, directory: Path) -> Path:
    originals, out = directory / "originals", directory / "out"
    originals.mkdir()
    ORIGINALS[name](originals)
    assert prepare.main([name, str(originals), "--out", str(out)]) == 0
    return out


def head(path: Path) -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file))


def test_every_data_set_has_its_example_and_every_example_its_page() -> None:
    assert set(NAMES) == set(prepare.SETS) == set(ORIGINALS)
    for name in NAMES:
        page = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
        assert f"examples/prepare.py {name}" in page
        shown = re.findall(rf"masquerade simulate examples/{name}/(\S+)", page)
        assert shown == ["default.toml" if _expected(name, "study.toml") is Verdict.NOTHING else "study.toml"]
        assert _expected(name, *shown) is not Verdict.NOTHING


def _expected(name: str, file: str) -> Verdict:
    study = Study.parse(read_study_text(EXAMPLES / name / file))
    tell = entry_named(study.study.protocol).expectation
    assert tell is not None
    return tell(study).verdict


@pytest.mark.parametrize("name", NAMES)
def test_an_example_study_is_valid_and_its_protocol_can_carry_it_out(name: str) -> None:
    study = study_of(name)
    assert study.study.name == name
    assert study.K == 5
    entry_of(study) if study.study.protocol in BASELINES else protocol_of(study)


# --- The default protocol's studies ------------------------------------------------

defaults = _module("write_defaults")


def test_every_data_set_that_the_default_protocol_can_learn_has_a_study_for_it() -> None:
    able = entry_named(DEFAULT_PROTOCOL).multiclass
    learned = [name for name in NAMES if able or not study_of(name).multiclass]
    assert len(learned) >= 7
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/default.toml")) == learned == defaults.names()


@pytest.mark.parametrize("name", defaults.names())
def test_a_default_study_is_what_study_new_writes_with_the_same_columns(name: str) -> None:
    text = read_study_text(EXAMPLES / name / "default.toml")
    assert text == defaults.default_text(name), "write it anew: python examples/write_defaults.py"
    study, other = Study.parse(text), study_of(name)
    protocol_of(study)
    assert (study.study.name, study.study.protocol) == (f"{name}-default", DEFAULT_PROTOCOL)
    assert (study.features, study.label, study.parties) == (other.features, other.label, other.parties)
    assert study.study.nonce != other.study.nonce
    draft = Draft(parties=[(party.name, party.key) for party in study.parties], curator_key=study.curator.key)
    fresh = Study.parse(draft.to_toml())
    assert (study.protocol, study.privacy, study.model) == (fresh.protocol, fresh.privacy, fresh.model)


@pytest.mark.parametrize("file", ["study.toml", "default.toml"])
@pytest.mark.parametrize("name", NAMES)
def test_what_prepare_writes_is_what_the_study_describes(name: str, file: str, tmp_path: Path) -> None:
    out = prepared(name, tmp_path)
    text = (EXAMPLES / name / file).read_text(encoding="utf-8")
    few = text.replace(f"min_records = {study_of(name).study.min_records}\n", "min_records = 5\n")
    study = Study.parse(few)
    columns = [*(f.name for f in study.features), study.label.name]
    assert head(out / f"{name}.csv") == [*columns, "party"]
    assert head(out / "test.csv") == columns
    groups = load_grouped(out / f"{name}.csv", study, "party")
    assert list(groups) == list(study.names)
    assert len(load_csv(out / "test.csv", study, need_label=False).y) > 0
    assert (out / "auxiliary.csv").exists() == ("auxiliary" in study_of(name).protocol)
    if "auxiliary" in study_of(name).protocol:
        assert head(out / "auxiliary.csv") == columns[:-1]
        assert len(load_records(out / "auxiliary.csv", Encoder.from_study(study))) > 0


@pytest.mark.parametrize(("name", "records", "tests"), [("adult", N, N), ("breast-cancer-original", 64, 16)])
def test_incomplete_records_are_left_out_and_no_other(name: str, records: int, tests: int, tmp_path: Path) -> None:
    out = prepared(name, tmp_path)
    for file, count in ((f"{name}.csv", records), ("test.csv", tests)):
        assert len((out / file).read_text(encoding="utf-8").splitlines()) == 1 + count


def test_every_attack_is_one_class(tmp_path: Path) -> None:
    with (prepared("kdd", tmp_path) / "kdd.csv").open(encoding="utf-8") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    assert labels.count("attack") == -(-N // 3)
    assert labels.count("normal") == N - labels.count("attack")


def test_as_many_payments_as_frauds_are_kept(tmp_path: Path) -> None:
    out = prepared("credit-card", tmp_path)
    labels = []
    for path in (out / "credit-card.csv", out / "test.csv"):
        with path.open(encoding="utf-8") as file:
            labels += [row["Class"] for row in csv.DictReader(file)]
    assert (labels.count("1"), labels.count("0")) == (100, 100)


def test_har_is_the_same_from_the_original_directory_and_from_arrays_in_single_precision(tmp_path: Path) -> None:
    out = prepared("har", tmp_path)
    root = tmp_path / "UCI HAR Dataset"
    arrays = har_arrays()
    for part in ("train", "test"):
        (root / part).mkdir(parents=True)
        more = np.hstack([arrays[f"X_{part}"], np.zeros((N, 296))])  # frequencies and angles follow
        np.savetxt(root / part / f"X_{part}.txt", more, fmt="%.7e")
        np.savetxt(root / part / f"y_{part}.txt", arrays[f"y_{part}"], fmt="%d")
    assert prepare.main(["har", str(tmp_path), "--out", str(tmp_path / "again")]) == 0
    for file in ("har.csv", "test.csv", "auxiliary.csv"):
        assert (tmp_path / "again" / file).read_bytes() == (out / file).read_bytes()


def test_without_the_originals_prepare_says_where_they_are_to_be_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare.main(["bank", str(tmp_path), "--out", str(tmp_path / "out")]) == 4
    assert "https://doi.org/10.24432/C5K306" in capsys.readouterr().err
    assert prepare.main(["bank"]) == 4
    assert "README.md" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

"""Simulations, Dave and the doctor from the command line and from Python."""

import csv
import json
import math
import socket
from email.message import Message
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import masquerade
from masquerade import statement_view
from masquerade.simulation import WATERMARK
from masquerade_core.data.loading import load_csv, load_records
from masquerade_core.errors import BadInput
from masquerade_core.learning.erm import error_rate, fit
from masquerade_core.study_files import load_study
from masquerade_core.words import listed
from masquerade_protocols import BASELINES, PROTOCOLS, protocol_of
from tests.face_helpers import (
    PARTIES,
    RESULT_FIELDS,
    STATEMENT_FIELDS,
    Answer,
    Shell,
    records,
    small_study,
    split_csv,
    write_csv,
)
from tests.messages import raises, says


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def study(shell: Shell, tmp_path: Path) -> Path:
    return small_study(shell, tmp_path / "study.toml", calibration="paper")


@pytest.fixture
def everybody(tmp_path: Path) -> Path:
    return split_csv(tmp_path / "all.csv")


def _with(rows: list[dict[str, str]], column: str, value: str) -> list[dict[str, str]]:
    return [rows[0] | {column: value}, *rows[1:]]


# --- simulate --------------------------------------------------------------------


def test_a_simulation_has_a_runs_fields_and_a_watermark(
    shell: Shell, study: Path, everybody: Path, tmp_path: Path
) -> None:
    test = write_csv(tmp_path / "test.csv", records(30, 9))
    answer = shell.json("simulate", study, "--data", everybody, "--by", "site", "--test", test)
    assert answer.code == 0
    data = answer.data
    assert set(data) >= RESULT_FIELDS
    assert data["watermark"] == WATERMARK
    assert WATERMARK in answer.json["message"]
    assert 0 <= data["metrics"]["test_error"] <= 1
    assert all(set(row) >= STATEMENT_FIELDS for row in data["statement"])
    assert sum(stage["messages"] for stage in data["stages"]) == data["messages"] > 0
    assert sum(stage["bytes"] for stage in data["stages"]) == data["bytes"] > 0
    assert WATERMARK.upper() in shell("simulate", study, "--data", everybody, "--by", "site").err


def test_a_file_for_each_party_is_the_same_as_a_column(
    shell: Shell, study: Path, everybody: Path, tmp_path: Path
) -> None:
    files = {name: write_csv(tmp_path / f"{name}.csv", records(40 + i, i)) for i, name in enumerate(PARTIES)}
    named = [word for name, file in files.items() for word in ("--data", f"{name}={file}")]
    one, two = tmp_path / "one", tmp_path / "two"
    assert shell("simulate", study, *named, "--seed", 5, "--out", one).code == 0
    assert shell("simulate", study, "--data", everybody, "--by", "site", "--seed", 5, "--out", two).code == 0
    weights = [json.loads((where / "model.json").read_text())["weights"] for where in (one, two)]
    assert weights[0] == weights[1]


def test_a_seed_repeats_the_noise_and_nothing_else_does(
    shell: Shell, study: Path, everybody: Path, tmp_path: Path
) -> None:
    def weights(number: int, *words: object) -> list[float]:
        out = tmp_path / str(number)
        assert shell("simulate", study, "--data", everybody, "--by", "site", "--out", out, *words).code == 0
        model = json.loads((out / "model.json").read_text())
        assert model["watermark"] == WATERMARK
        return list(model["weights"].values())

    seeded = [weights(i, "--seed", 7) for i in range(2)]
    assert seeded[0] == seeded[1]
    assert weights(2, "--seed", 8) != seeded[0]
    free = [weights(i) for i in (3, 4)]
    assert free[0] != free[1]


def test_results_are_never_overwritten(shell: Shell, study: Path, everybody: Path, tmp_path: Path) -> None:
    words = ["simulate", study, "--data", everybody, "--by", "site", "--out", tmp_path / "out"]
    assert shell(*words).code == 0
    before = (tmp_path / "out" / "model.json").read_bytes()
    assert shell(*words).code == 4
    assert (tmp_path / "out" / "model.json").read_bytes() == before


BAD_DATA = {
    "missing column": ([{k: v for k, v in row.items() if k != "age"} for row in records(40)], 4, "no column 'age'"),
    "nan": (_with(records(40), "age", "nan"), 4, "empty or missing"),
    "text": (_with(records(40), "age", "old"), 4, "holds text"),
    "outside": (_with(records(40), "age", "121"), 4, "outside its public bounds"),
    "unknown level": (_with(records(40), "sex", "x"), 4, "not one of the study's levels"),
    "too few": (records(19), 6, "min_records"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_records_end_with_their_exit_code_and_leave_nothing(
    shell: Shell, study: Path, real: Path, tmp_path: Path, case: str
) -> None:
    rows, code, words = BAD_DATA[case]
    for file in (study, real):
        text = file.read_text()
        assert 'out_of_bounds = "clamp"' in text
        file.write_text(text.replace('out_of_bounds = "clamp"', 'out_of_bounds = "refuse"'))
    good = [f"{name}={write_csv(tmp_path / f'{name}.csv', records(40))}" for name in PARTIES[1:]]
    bad = f"north={write_csv(tmp_path / 'north.csv', rows)}"
    named = [word for entry in (bad, *good) for word in ("--data", entry)]
    answer = shell.json("simulate", study, *named, "--out", tmp_path / "out")
    assert answer.code == code
    assert words in answer.json["message"]
    assert not (tmp_path / "out").exists()
    check = shell.json("doctor", real, "--data", tmp_path / "north.csv")
    assert (check.code, _verdicts(check)["data"]) == (4, "fail")  # the doctor says it beforehand


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--data", "all.csv"], "names no party"),
        (["--data", "north=a.csv", "--data", "north=b.csv"], "twice"),
        (["--data", "east=a.csv"], "'east' is not in the roster"),
        (["--data", "a.csv", "--data", "b.csv", "--by", "site"], "--by splits one file"),
        (["--data", "nowhere.csv", "--by", "site"], "nowhere.csv"),
    ],
)
def test_data_that_fits_no_roster_is_refused(shell: Shell, study: Path, words: list[str], named: str) -> None:
    answer = shell.json("simulate", study, *words)
    assert answer.code == 4
    assert named in answer.json["message"]


def test_a_party_without_records_is_missed_by_name(shell: Shell, study: Path, tmp_path: Path) -> None:
    file = split_csv(tmp_path / "two.csv", PARTIES[:2])
    answer = shell.json("simulate", study, "--data", file, "--by", "site")
    assert answer.code == 4
    assert says(answer.json["message"], "not_everybodys_records", listed(PARTIES), listed(PARTIES[:2]))


# --- protocols and baselines by name ------------------------------------------------


@pytest.fixture
def test_file(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "test.csv", records(60, 9))


def _named(shell: Shell, tmp_path: Path, name: str) -> Path:
    rounds: dict[str, Any] = {"rounds": 12} if name in {"psgd", "noisy-gradient", "decaying-budget"} else {}
    if name in {"vote", "soft"}:
        rounds["auxiliary"] = write_csv(tmp_path / "auxiliary.csv", records(50, 11))
    if name == "weighted-dp":
        rounds["rounds"] = 12
    return small_study(shell, tmp_path / f"{name}.toml", protocol=name, **rounds)


@pytest.mark.parametrize("name", [*(name for name, entry in PROTOCOLS.items() if entry.makes_model), *BASELINES])
def test_every_protocol_of_a_model_and_every_baseline_runs_by_its_name(
    shell: Shell, everybody: Path, test_file: Path, tmp_path: Path, name: str
) -> None:
    study, out = _named(shell, tmp_path, name), tmp_path / "out"
    answer = shell.json(
        "simulate", study, "--data", everybody, "--by", "site", "--test", test_file, "--seed", 1, "--out", out
    )
    assert answer.code == 0
    data = answer.data
    assert set(data) >= RESULT_FIELDS
    assert (data["protocol"], data["watermark"], data["seed"]) == (name, WATERMARK, 1)
    on_disk = json.loads((out / "model.json").read_text())
    assert (on_disk["protocol"], on_disk["watermark"]) == (name, WATERMARK)
    labels = masquerade.predict(out / "model.json", test_file).labels
    wrong = [(label > 0) != (row["ill"] == "yes") for label, row in zip(labels, records(60, 9), strict=True)]
    assert np.mean(wrong) == pytest.approx(data["metrics"]["test_error"])
    assert "Traceback" not in shell("simulate", study, "--data", everybody, "--by", "site").err


@pytest.mark.parametrize("name", ["psgd", "noisy-gradient", "decaying-budget"])
def test_public_iterates_give_an_objective_for_each_round(
    shell: Shell, everybody: Path, test_file: Path, tmp_path: Path, name: str
) -> None:
    words = ["simulate", _named(shell, tmp_path, name), "--data", everybody, "--by", "site", "--seed", 1]
    rounds = shell.json(*words, "--test", test_file).data["rounds"]
    assert [point["round"] for point in rounds] == list(range(1, 13))
    assert rounds[0]["objective"] > 0
    assert "rounds" not in shell.json(*words).data  # nothing public to measure it on
    text = " ".join(shell(*words, "--test", test_file).err.split())
    assert "12 rounds of" in text
    assert says(text, "objective_shown")


def test_the_noiseless_baselines_are_exact_minimisers(
    shell: Shell, everybody: Path, test_file: Path, tmp_path: Path
) -> None:
    study = _named(shell, tmp_path, "individual")
    loaded = load_study(study, in_memory=True)[0]
    data = masquerade.load_split(everybody, loaded, "site")
    test = load_csv(test_file, loaded, need_label=False)
    own = {name: fit(d.X, d.y, 0.1) for name, d in data.items()}
    errors = {name: error_rate(test.X, test.y, w) for name, w in own.items()}
    run = masquerade.simulate(loaded, data, test=test)
    assert {name: list(model.weights) for name, model in run.classifiers.items()} == {
        name: w.tolist() for name, w in own.items()
    }
    assert run.result["metrics"]["test_errors"] == errors
    best = run.result["metrics"]["chosen"]
    assert errors[best] == min(errors.values()) == run.result["metrics"]["test_error"]
    assert run.model is run.classifiers[best]
    run.write(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "model.json", "result.json", *(f"model-{name}.json" for name in PARTIES),
    }  # fmt: skip
    assert masquerade.simulate(loaded, data).result["metrics"] == {"chosen": "west"}  # it has the most records
    pooled = masquerade.simulate(load_study(_named(shell, tmp_path, "pooled"), in_memory=True)[0], data)
    X, y = np.vstack([d.X for d in data.values()]), np.concatenate([d.y for d in data.values()])
    assert pooled.model.weights == tuple(fit(X, y, 0.1).tolist())


def test_a_seed_repeats_objective_perturbation(shell: Shell, everybody: Path, tmp_path: Path) -> None:
    study = load_study(_named(shell, tmp_path, "gop"), in_memory=True)[0]
    data = masquerade.load_split(everybody, study, "site")
    runs = [masquerade.simulate(study, data, seed=seed).model.weights for seed in (1, 1, 2, None, None)]
    assert runs[0] == runs[1]
    assert len(set(runs)) == 4


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_is_refused_where_parties_would_have_to_talk(shell: Shell, tmp_path: Path, name: str) -> None:
    study = _named(shell, tmp_path, name)
    checked = shell("study", "check", study)
    assert checked.code == 0
    assert says(" ".join(checked.err.split()), "baseline_checked", name)
    for words, key in (
        (["study", "show", study], "baseline_shown"),
        (["demo", "--protocol", name, "--out", tmp_path / "d"], "baseline_demonstrated"),
    ):
        answer = shell.json(*words)
        assert (answer.code, answer.json["error_code"]) == (4, "bad_input")
        assert says(answer.json["message"], key, f"'{name}'")
        assert "simulate" in answer.json["hint"]
    assert not (tmp_path / "d").exists()


def test_a_baseline_without_records_of_a_party_is_refused(shell: Shell, tmp_path: Path) -> None:
    file = split_csv(tmp_path / "two.csv", PARTIES[:2])
    answer = shell.json("simulate", _named(shell, tmp_path, "pooled"), "--data", file, "--by", "site")
    assert answer.code == 4
    assert says(answer.json["message"], "not_everybodys_records", listed(PARTIES), ...)


# --- predict ---------------------------------------------------------------------


def test_only_the_logistic_loss_gives_a_probability(
    shell: Shell, everybody: Path, test_file: Path, tmp_path: Path
) -> None:
    shown = {}
    for loss in ("logistic", "smoothed-hinge"):
        study = small_study(shell, tmp_path / f"{loss}.toml", protocol="pooled")
        study.write_text(study.read_text().replace('loss = "logistic"', f'loss = "{loss}"'))
        out = tmp_path / loss
        assert shell("simulate", study, "--data", everybody, "--by", "site", "--out", out).code == 0
        shown[loss] = shell("predict", out / "model.json", test_file).out.splitlines()[0]
        data = shell.json("predict", out / "model.json", test_file).data
        prediction = masquerade.predict(out / "model.json", test_file)
        if loss == "logistic":
            assert prediction.probabilities is not None
            assert data["probabilities"] == pytest.approx(prediction.probabilities.tolist(), abs=1e-6)
            assert "margins" not in data
        else:
            assert prediction.probabilities is None
            assert data["margins"] == pytest.approx(prediction.margins.tolist(), abs=1e-6)
            assert "probabilities" not in data
            assert min(data["margins"]) < 0  # and so no probabilities
    assert shown == {"logistic": "ill,probability", "smoothed-hinge": "ill,margin"}


def test_a_model_of_an_unknown_loss_is_refused_and_one_of_none_is_logistic(model: Path) -> None:
    saved = json.loads(model.read_text())
    assert saved.pop("loss") == "logistic"
    model.write_text(json.dumps(saved))
    assert masquerade.load_model(model).loss == "logistic"  # as the first version wrote it
    model.write_text(json.dumps(saved | {"loss": "hope"}))
    with pytest.raises(BadInput):
        masquerade.load_model(model)


@pytest.fixture
def model(shell: Shell, study: Path, everybody: Path, tmp_path: Path) -> Path:
    assert (
        shell("simulate", study, "--data", everybody, "--by", "site", "--seed", 1, "--out", tmp_path / "run").code == 0
    )
    return tmp_path / "run" / "model.json"


def test_daves_labels_are_those_computed_in_the_clear(shell: Shell, study: Path, model: Path, tmp_path: Path) -> None:
    new = write_csv(tmp_path / "new.csv", [{k: v for k, v in row.items() if k != "ill"} for row in records(50, 4)])
    answer = shell("predict", model, new)
    assert answer.code == 0
    rows = list(csv.DictReader(answer.out.splitlines()))
    loaded = load_study(study, in_memory=True)[0]
    saved = masquerade.load_model(model)
    assert saved.shares is not None
    K, N = loaded.K, saved.shares.modulus
    total = saved.shares.packing.unpack([sum(c) % N for c in zip(*saved.shares.values.values(), strict=True)], N)
    w = np.array(total) / (K << saved.shares.fraction_bits)
    clear = 1 / (1 + np.exp(-load_records(new, saved.encoder) @ w))
    assert [row["ill"] for row in rows] == ["yes" if p > 0.5 else "not yes" for p in clear]
    assert [float(row["probability"]) for row in rows] == pytest.approx(clear.tolist(), abs=1e-6)
    assert {row["ill"] for row in rows} == {"yes", "not yes"}


class Frame:
    """As much of a data frame as a prediction needs."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._cells = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self._cells[name]


def test_records_in_memory_are_labelled_as_those_of_a_file(model: Path, tmp_path: Path) -> None:
    rows = records(30, 4)
    file = write_csv(tmp_path / "new.csv", rows)
    wanted = masquerade.predict(model, file)
    age, sex, other = [float(row["age"]) for row in rows], [row["sex"] for row in rows], ["x"] * len(rows)
    columns: dict[str, list[Any]] = {"comment": other, "sex": sex, "age": age}
    for given in (
        columns,
        Frame(columns),
        pa.table(columns),
        np.array(list(zip(age, sex, strict=True)), dtype=[("age", "f8"), ("sex", "U1")]),
        np.array(list(zip(age, sex, strict=True)), dtype=object),
        np.array([[str(a), s] for a, s in zip(age, sex, strict=True)]),
    ):
        assert masquerade.predict(model, given).margins.tobytes() == wanted.margins.tobytes()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.ones((3, 3)), ("array_of_other_shape", (3, 3), 2)),
        (np.ones(2), ("array_of_other_shape", (2,), 2)),
        ([[30.0, "f"]], ("records_have_no_columns", "list")),
        (None, ("records_have_no_columns", "NoneType")),
        ({"age": [30.0]}, ("data_lack_column", "'sex'")),
    ],
)
def test_records_in_memory_whose_columns_cannot_be_told_are_refused(
    model: Path, given: object, said: tuple[Any, ...]
) -> None:
    with raises(masquerade.MasqueradeError, *said) as caught:
        masquerade.predict(model, given)
    assert "'age', 'sex'" in caught.value.hint or "column names" in caught.value.hint


def test_predictions_go_to_a_file_or_into_json(shell: Shell, model: Path, tmp_path: Path) -> None:
    new = write_csv(tmp_path / "new.csv", records(20, 4))
    shown = shell("predict", model, new).out
    answer = shell.json("predict", model, new, "--output", tmp_path / "labels.csv")
    assert (tmp_path / "labels.csv").read_text() == shown
    assert answer.data["records"] == 20
    data = shell.json("predict", model, new).data
    assert set(data["labels"]) == {1, -1}
    assert len(data["probabilities"]) == 20
    api = masquerade.predict(model, new)
    assert api.labels.tolist() == data["labels"]


def _damaged(text: str, how: str) -> str:
    model = json.loads(text)
    match how:
        case "no JSON":
            return text[:-20]
        case "a list":
            return "[1, 2]"
        case "another file":
            return json.dumps({"run_id": "x"})
        case "a share is missing":
            model["shares"]["values"].popitem()
        case "the encoder is missing":
            del model["encoder"]
        case "the encoder is another's":
            model["encoder"]["intercept"] = False
    return json.dumps(model)


@pytest.mark.parametrize(
    "how",
    [
        "no JSON", "a list", "another file", "a share is missing", "the encoder is missing", "the encoder is another's",
    ],
)  # fmt: skip
def test_a_damaged_model_is_refused(shell: Shell, model: Path, tmp_path: Path, how: str) -> None:
    new = write_csv(tmp_path / "new.csv", records(20, 4))
    bad = tmp_path / "bad.json"
    bad.write_text(_damaged(model.read_text(), how))
    answer = shell.json("predict", bad, new)
    assert answer.code == 4
    assert answer.json["error_code"] == "bad_input"


def test_a_wrong_share_opens_to_an_error_and_never_to_labels(shell: Shell, model: Path, tmp_path: Path) -> None:
    new = write_csv(tmp_path / "new.csv", records(20, 4))
    saved = json.loads(model.read_text())
    saved["shares"]["values"]["north"][0] = hex(int(saved["shares"]["values"]["north"][0], 16) ^ 1 << 400)
    (tmp_path / "bad.json").write_text(json.dumps(saved))
    answer = shell.json("predict", tmp_path / "bad.json", new)
    assert (answer.code, answer.data) == (4, {})
    assert says(answer.json["message"], "shares_are_no_weights")


# --- doctor ----------------------------------------------------------------------


def _verdicts(answer: Answer) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in answer.data["checks"]}


@pytest.fixture
def real(shell: Shell, tmp_path: Path) -> Path:
    """A study for a network, with keys of charlie, north and south."""
    public = {name: shell.json("keys", "new", tmp_path / f"{name}.key").data["public_key"] for name in ("c", "n", "s")}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    answer = shell(
        "study", "new", "--output", tmp_path / "real.toml", "--address", f"tcp://127.0.0.1:{port}",
        "--curator-key", public["c"], "--party", f"north={public['n']}", "--party", f"south={public['s']}",
        "--feature", "age:0:120", "--feature", "sex:f,m", "--label", "ill:yes", "--min-records", "20",
    )  # fmt: skip
    assert answer.code == 0
    return tmp_path / "real.toml"


def test_the_doctor_finds_nothing_wrong_where_nothing_is(
    shell: Shell, real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("masquerade.doctor._SLOW", math.inf)  # a busy machine is slow, and the doctor would say so
    data = write_csv(tmp_path / "records.csv", records(40))
    party = shell.json("doctor", real, "--key", tmp_path / "n.key", "--data", data, "--state", tmp_path / "state")
    assert party.code == 0
    assert _verdicts(party) == {
        "study": "ok", "arithmetic": "ok", "conversation": "note", "model": "note", "key": "ok", "data": "ok",
        "descriptors": "ok", "network": "warn", "policy": "note", "approval": "warn", "budget": "warn",
    }  # fmt: skip
    assert "north" in party.out
    assert "lead" not in party.out  # nobody leads where sums are made with masks
    curator = shell.json("doctor", real, "--key", tmp_path / "c.key")
    assert curator.code == 0
    assert _verdicts(curator)["network"] == "note"  # a loopback address: only this machine's parties get there


def test_the_doctor_finds_a_port_in_use_and_a_stranger_on_it(shell: Shell, real: Path, tmp_path: Path) -> None:
    port = int(load_study(real)[0].address.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        curator = shell.json("doctor", real, "--key", tmp_path / "c.key")
        assert (curator.code, _verdicts(curator)["network"]) == (4, "fail")
        party = shell.json("doctor", real, "--key", tmp_path / "n.key")
        assert (party.code, _verdicts(party)["network"]) == (4, "fail")
        assert says(party.out, "not_charlie")


def test_the_doctor_finds_keys_of_strangers_and_keys_that_others_read(shell: Shell, real: Path, tmp_path: Path) -> None:
    shell("keys", "new", tmp_path / "stranger.key")
    answer = shell.json("doctor", real, "--key", tmp_path / "stranger.key")
    assert (answer.code, _verdicts(answer)["key"]) == (4, "fail")
    (tmp_path / "n.key").chmod(0o640)
    answer = shell.json("doctor", real, "--key", tmp_path / "n.key")
    assert (answer.code, _verdicts(answer)["key"]) == (4, "fail")
    assert "chmod 600" in answer.out


def test_the_doctor_ends_at_a_broken_study(shell: Shell, tmp_path: Path) -> None:
    answer = shell.json("doctor", tmp_path / "nowhere.toml")
    assert (answer.code, _verdicts(answer)) == (4, {"study": "fail"})
    assert "1 of 1 checks failed" in shell("doctor", tmp_path / "nowhere.toml").err


# --- Python ------------------------------------------------------------------------


def test_everything_in_the_public_api_can_be_imported() -> None:
    for name in masquerade.__all__:
        assert getattr(masquerade, name).__name__ == name
    assert set(masquerade.__all__) <= set(dir(masquerade))
    with raises(AttributeError, "no_such_attribute", "'nonsense'"):
        masquerade.nonsense  # noqa: B018


def test_a_simulation_from_python(study: Path, everybody: Path) -> None:
    loaded = masquerade.load_study(study, in_memory=True)[0]
    data = masquerade.load_split(everybody, loaded, "site")
    simulation = masquerade.simulate(loaded, data, seed=1)
    assert len(simulation.model.weights) == loaded.d
    assert simulation.result["watermark"] == WATERMARK
    assert simulation.model.shares is not None
    assert simulation.model.shares.open() == simulation.model.weights


@pytest.mark.parametrize("protocol", ["dp-gd", "pooled"])
def test_simulated_data_meet_what_a_partys_process_asks_of_its_records(
    shell: Shell, everybody: Path, tmp_path: Path, protocol: str
) -> None:
    study, _ = masquerade.load_study(_named(shell, tmp_path, protocol), in_memory=True)
    data = masquerade.load_split(everybody, study, "site")
    whole, floor = data["north"], study.study.min_records

    def simulate(north: masquerade.Dataset) -> None:
        masquerade.simulate(study, {**data, "north": north}, seed=1)

    simulate(masquerade.Dataset(whole.X[:floor], whole.y[:floor]))
    with raises(masquerade.MasqueradeError, "fewer_than_min_records", "the data of north", floor) as few:
        simulate(masquerade.Dataset(whole.X[: floor - 1], whole.y[: floor - 1]))
    assert (few.value.exit_code, few.value.error_code) == (6, "refused_locally")
    with raises(masquerade.MasqueradeError, "other_coordinates", study.d - 1, study.d):
        simulate(masquerade.Dataset(whole.X[:, 1:], whole.y))
    with raises(masquerade.MasqueradeError, "other_classes", "of 3 classes", ...):
        simulate(masquerade.Dataset(whole.X, (whole.y + 1) / 2, 3))


def test_a_study_with_auxiliary_records_runs_from_python_as_on_the_command_line(
    shell: Shell, everybody: Path, tmp_path: Path
) -> None:
    path, out = _named(shell, tmp_path, "soft"), tmp_path / "out"
    study, auxiliary = masquerade.load_study(path, in_memory=True)
    data = masquerade.load_split(everybody, study, "site")
    simulation = masquerade.simulate(study, data, seed=1, auxiliary=auxiliary)
    assert shell("simulate", path, "--data", everybody, "--by", "site", "--seed", 1, "--out", out).code == 0
    assert masquerade.load_model(out / "model.json").weights == simulation.model.weights
    with raises(masquerade.MasqueradeError, "auxiliary_not_given"):
        masquerade.simulate(study, data, seed=1)


def test_the_doctor_expects_more_time_of_more_rounds(shell: Shell, tmp_path: Path) -> None:
    few, many, wider = (
        load_study(small_study(shell, tmp_path / f"{i}.toml", protocol=name, rounds=rounds), in_memory=True)[0]
        for i, (name, rounds) in enumerate((("psgd", 10), ("psgd", 1000), ("decaying-budget", 10)))
    )
    one = 3 * (1 / 6 + 1 / 50) + 1 / 2  # of a plaintext; N and three coordinates fit one each
    once = 3 * (2.5 + 1)  # each party checks the key's form and the proof of all openings
    cost = [protocol_of(study).cost(study).exponentiations for study in (few, many, wider)]
    assert cost[0] == pytest.approx(11 * one + once)
    assert cost[1] == pytest.approx(1001 * one + once)
    assert cost[2] >= cost[0]


# --- votes, and the statement ---------------------------------------------------------


def test_parties_vote_with_what_they_name(shell: Shell, everybody: Path, tmp_path: Path) -> None:
    study = _named(shell, tmp_path, "vote")
    words = ["simulate", study, "--data", everybody, "--by", "site", "--seed", 1]
    mixed = shell.json(*words, "--classifier", "north=tree", "--classifier", "south=GaussianNB")
    assert mixed.code == 0
    answer = shell.json(*words, "--classifier", "north=trees")
    assert (answer.code, says(answer.json["hint"], "did_you_mean_classifier", "'tree'")) == (4, True)
    answer = shell.json(*words, "--classifier", "nowhere=tree")
    assert answer.code == 4
    assert says(answer.json["message"], "not_in_roster", "'nowhere'")
    for other in ("psgd", "pooled"):
        answer = shell.json("simulate", _named(shell, tmp_path, other), *words[2:], "--classifier", "north=tree")
        assert answer.code == 4
        assert says(answer.json["message"], "classifiers_given_in_vain", other)


def test_a_study_without_its_auxiliary_file_says_so(shell: Shell, everybody: Path, tmp_path: Path) -> None:
    study = _named(shell, tmp_path, "soft")
    assert shell("study", "check", study).code == 0
    (tmp_path / "auxiliary.csv").write_text("age,sex\n20,f\n")
    answer = shell.json("simulate", study, "--data", everybody, "--by", "site")
    assert answer.code == 4
    assert "sha256" in answer.json["message"]
    (tmp_path / "auxiliary.csv").unlink()
    for words in (["study", "check", study], ["simulate", study, "--data", everybody, "--by", "site"]):
        answer = shell.json(*words)
        assert answer.code == 4
        assert "auxiliary.csv" in answer.json["message"]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_statement_is_there_before_anything_is_run(shell: Shell, tmp_path: Path, name: str) -> None:
    study = _named(shell, tmp_path, name)
    answer = shell.json("statement", study)
    assert answer.code == 0
    assert {row["view"] for row in answer.data["statement"]} >= {"Charlie"} or name == "input-noise"
    assert any(says(flag, "taken_as_public") for flag in answer.data["flags"])
    text = shell("statement", study).err
    assert "Privacy statement" in text
    assert says(text, "not_to_be_overlooked")


@pytest.mark.parametrize("urls", [["Source, https://example.org/s", "Documentation, https://example.org/d"], [], None])
def test_a_statement_says_where_the_pages_are_that_it_cites(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, urls: list[str] | None
) -> None:
    def metadata(_name: str) -> Message:
        if urls is None:
            raise PackageNotFoundError
        headers = Message()
        for url in urls:
            headers["Project-URL"] = url
        return headers

    monkeypatch.setattr(statement_view, "metadata", metadata)
    monkeypatch.setenv("COLUMNS", "160")
    where = "https://example.org/d" if urls else "the docs folder of the project's sources"
    study = small_study(shell, tmp_path / "dp.toml", protocol="dp-gd")
    text = shell("statement", study).err
    assert "source: docs/privacy/dp-gd.md" in text
    assert says(text, "pages_are_here", where)
    assert shell.json("statement", study).data["documentation"] == where
    other = small_study(shell, tmp_path / "la.toml", protocol="local-aggregation")
    assert ("docs/" in shell("statement", other).err) == ("are here:" in shell("statement", other).err)


def test_a_delta_that_publishes_a_record_is_flagged(shell: Shell, tmp_path: Path) -> None:
    study = small_study(shell, tmp_path / "large.toml", protocol="psgd", delta=0.05)
    assert any(says(flag, "delta_publishes_records") for flag in shell.json("statement", study).data["flags"])
    study = small_study(shell, tmp_path / "small.toml", protocol="psgd", delta=0.01)
    assert not any(says(flag, "delta_publishes_records") for flag in shell.json("statement", study).data["flags"])

"""The report of a finished run and the study for signature: their numbers, what they escape, and what they refuse."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
from jinja2.bccache import Bucket

from masquerade.pages import report_page, signature_page
from masquerade.pages.picture import read_picture
from masquerade.pages.privacy import Axis, observers, views
from masquerade.pages.reading import read_run
from masquerade.pages.render import number
from masquerade.pages.weights import learned
from masquerade.simulation import WATERMARK, simulate
from masquerade_core.errors import BadInput
from masquerade_core.saved_model import model_from_json
from masquerade_core.study import Study
from masquerade_protocols import WeightNoise, entry_of, statement_of
from tests.face_helpers import Shell
from tests.messages import pattern, raises, says
from tests.protocol_helpers import make_data, make_study
from tests.report_helpers import HOSTILE, NAMES, Read, field_of, make_world, run_to
from tests.statement_studies import studies
from tests.summary_helpers import dealt, summary_study
from tests.whitened_helpers import whitened_study

PROTOCOLS = ("dp-gd", "dp-whitened", "local-aggregation", "vote")


class _Compiled(jinja2.BytecodeCache):
    """Keeps what templates were compiled to, as long as their text is the same: a page takes most of its time there."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


@pytest.fixture(autouse=True, scope="module")
def _templates_are_compiled_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jinja2, "Environment", partial(jinja2.Environment, bytecode_cache=_Compiled()))
        yield


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return one run of each protocol, whose free names are all hostile."""
    return {name: run_to(tmp_path_factory.mktemp(name), name, HOSTILE) for name in PROTOCOLS}


def _page(folder: Path) -> str:
    return report_page(read_run(folder))


def _result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


# --- Its numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["charlie", "north"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_number_of_a_report_is_that_of_the_result_or_the_model(
    runs: dict[str, Path], protocol: str, who: str
) -> None:
    folder = runs[protocol] / who
    result, model = _result(folder), json.loads((folder / "model.json").read_text())
    read = Read(_page(folder)).numbers
    weights = {name: read.pop(f"weights.{name}") for name in model["weights"]}
    assert weights == model["weights"]
    offset = [read.pop(f"offset.{i}") for i in range(len(model.get("offset", ())))]
    assert offset == model.get("offset", [])
    for field in [name for name in read if name.startswith("evaluation.")]:
        assert read.pop(field) == _evaluated(result["evaluation"], field.removeprefix("evaluation."))
    assert read == {field: field_of(result, field) for field in read}
    assert {"epsilon", "delta", "parties", "n_features", "seconds", "messages", "bytes", "run_id"} <= set(read)
    proved = [i for i, row in enumerate(result["statement"]) if row["epsilon"] is not None]
    assert {f"statement.{i}.epsilon" for i in proved} == {name for name in read if re.match(r"statement.*eps", name)}
    assert sum(read[f"stages.{i}.bytes"] for i in range(len(result["stages"]))) == read["bytes"]


def _evaluated(found: Any, field: str) -> Any:
    value = field_of(found, field)
    return value["value"] if isinstance(value, dict) else value


def test_an_evaluation_that_was_bought_stands_in_the_report_with_the_class_balance(runs: dict[str, Path]) -> None:
    folder = runs["dp-gd"] / "charlie"
    read, found = Read(_page(folder)), _result(folder)["evaluation"]
    assert read.numbers["evaluation.records"] == found["records"]
    assert read.numbers["evaluation.positive_share"] == found["positive_share"]["value"]
    assert "class balance" in read.text


def test_the_class_balance_is_that_which_the_first_noisy_sum_showed(runs: dict[str, Path]) -> None:
    result = _result(runs["dp-whitened"] / "west")
    published = result["published"]
    assert published == _result(runs["dp-whitened"] / "charlie")["published"]
    # 80 records of each of three parties, a quarter of them held back; y is +1 where a sum is positive.
    assert published["records"] == 180
    X = [np.random.default_rng(seed).uniform(-0.4, 0.4, size=(80, 7)) for seed in range(3)]
    share = float(np.mean([np.mean(x @ np.arange(7) > 0) for x in X]))
    assert published["class_shares"][0] == pytest.approx(share, abs=6 * published["class_shares_sd"] + 0.1)
    assert 0.1 < published["class_shares_sd"] < 0.5  # few records
    read = Read(_page(runs["dp-whitened"] / "west"))
    assert read.numbers["published.class_shares.0"] == published["class_shares"][0]
    assert says(read.text, "balance_lost_in_noise")


def test_a_class_balance_with_little_noise_is_shown_in_percent(runs: dict[str, Path]) -> None:
    run = read_run(runs["dp-whitened"] / "west")
    published = {"records": 4321, "class_shares": [0.3141], "class_shares_sd": 0.012}
    text = Read(report_page(replace(run, result={**run.result, "published": published}))).text
    assert "learned from 4,321 records" in text
    assert re.search(r"about 31\.4 % are “ill .* 2\.4 points", text)


def test_weights_are_shown_in_the_columns_own_units(runs: dict[str, Path]) -> None:
    model = model_from_json(json.loads((runs["local-aggregation"] / "west" / "model.json").read_text()))
    (found,) = learned(model, WeightNoise(0.25))
    by_name = {weight.coordinate.split(" ")[0]: weight for weight in found.weights}
    age = by_name["age"]
    assert age.released == model.weights[0]
    # From 0 to 100 the coordinate goes from -1 to 1, so that one unit of the column is a fiftieth of it.
    assert age.pull == pytest.approx(2 * model.weights[0])
    assert age.per_unit == pytest.approx(model.weights[0] / 50)
    assert age.noise == pytest.approx(0.5)
    assert age.per_unit_noise == pytest.approx(0.25 / 50)
    smoker = by_name["smoker=yes"]
    assert (smoker.pull, smoker.noise, smoker.per_unit) == (smoker.released, 0.25, None)
    assert [abs(w.pull) for w in found.largest] == sorted((abs(w.pull) for w in found.largest), reverse=True)
    assert "(intercept)" not in {w.coordinate for w in found.largest}


def test_the_noise_on_a_weight_is_that_of_the_sum_and_bars_stand_where_it_is_known(runs: dict[str, Path]) -> None:
    study = read_run(runs["local-aggregation"] / "charlie").study
    assert study is not None
    known = entry_of(study).weight_noise
    assert known is not None
    noise = known(study, None)
    assert noise is not None
    assert not noise.at_most
    assert (
        _drawn(runs["local-aggregation"], "whisker") == 3 * 6
    )  # three lines for each of six coordinates but the constant
    assert _drawn(runs["dp-gd"], "whisker") == 3 * 6
    assert _drawn(runs["dp-whitened"], "whisker") == 0  # too few records for a last sum
    assert _drawn(runs["vote"], "whisker") == _drawn(runs["vote"], "pulls") == 0
    assert says(Read(_page(runs["vote"] / "charlie")).text, "noise_on_weight_unknown")


def test_a_bar_is_grey_where_its_noise_interval_crosses_zero(runs: dict[str, Path]) -> None:
    """A run tells the noise on each weight, the constant's last: of 7 coordinates, 6 have a bar."""
    run = read_run(runs["dp-whitened"] / "north")
    assert run.model is not None
    for wide in range(7):
        sizes = sorted(abs(w) / 2 for w in run.model.weights[:6])
        sd = [0.5 * sizes[0], *[(a + b) / 2 for a, b in pairwise(sizes)], 2 * sizes[-1]][wide]
        published = {**run.result["published"], "weight_noise": [sd] * 7}
        tags = Read(report_page(replace(run, result={**run.result, "published": published}))).tags
        found = [tag.get("class") for _, tag in tags]
        assert (found.count("lost"), found.count("up") + found.count("down")) == (wide, 6 - wide)
        assert found.count("whisker") == 3 * 6


def _drawn(root: Path, kind: str) -> int:
    return sum(found.get("class") == kind for _, found in Read(_page(root / "charlie")).tags)


# --- The picture of the statement, and page one ----------------------------------------------


def test_the_axis_is_logarithmic_and_holds_all_that_stands_on_it() -> None:
    axis = Axis.over([0.2, 1.0, 50.0])
    places = [float(axis.at(value).rstrip("%")) for value in (0.2, 1.0, 5.0, 50.0)]
    assert places == sorted(places)
    assert 0 < places[0] < places[-1] < 100
    assert places[2] - places[1] == pytest.approx(places[1] - places[0], abs=0.02)  # a factor of 5 each
    assert all(0 < float(place.rstrip("%")) < 100 for _, place in axis.ticks)


def test_each_view_shows_its_claim_and_proof_and_an_audit_stands_at_what_it_looked_at(runs: dict[str, Path]) -> None:
    rows = _result(runs["dp-gd"] / "charlie")["statement"]
    found = views(rows, {"unit": "record", "bound": 0.31, "runs": 400})
    assert [view.proved for view in found] == [row["epsilon"] for row in rows]
    assert [view.claimed for view in found if view.promised] == [1.0] * sum(view.promised for view in found)
    assert {view.audited for view in found if not view.row["view"].startswith("released")} == {None}
    assert found[0].audited == 0.31
    assert found[-1].proved is None  # a whole party is hidden by nothing


def test_page_one_takes_the_worst_row_of_each_observer(runs: dict[str, Path]) -> None:
    rows = _result(runs["local-aggregation"] / "charlie")["statement"]
    public, charlie, party, together = observers(rows)
    assert (public.epsilon, charlie.epsilon) == (rows[0]["epsilon"], rows[1]["epsilon"])
    of_parties = [row for row in rows if row["view"].startswith(("one party", "the lead"))]
    assert party.epsilon == max(row["epsilon"] for row in of_parties)
    for one in of_parties:
        assert observers([{**row, "epsilon": 3.0} if row is one else row for row in rows])[2].epsilon == 3.0
    assert "1 party" in together.name
    assert public.percent == pytest.approx(100 / (1 + math.exp(-rows[0]["epsilon"])))
    bare = [{**row, "epsilon": None, "delta": None} if row["view"] == "Charlie" else row for row in rows]
    assert observers(bare)[1].percent is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_page_one_has_no_formula_and_says_who_agreed_and_what_is_verified(runs: dict[str, Path], protocol: str) -> None:
    page = _page(runs[protocol] / "north")
    board = Read(page[page.index('<div class="board">') : page.index('<div class="reference">')]).text.replace(
        HOSTILE, ""
    )
    assert not re.search(r"delta|[εδ]|e\^|=", board)
    assert re.findall(r"epsilon\s+\S+", board) == ["epsilon 1"]
    assert "Dr. A. Steward" in board
    assert "Signatures verified" in board
    assert all(name in board for name in NAMES)
    for declared in ("come to the ward again", "consent", "2026-123", "a.coordinator@example.org"):
        assert declared in board


def test_the_lines_of_reference_fold_each_under_a_name_of_its_own(runs: dict[str, Path]) -> None:
    page = _page(runs["dp-gd"] / "north")
    folded = re.findall(
        r"<details>\s*<summary[^>]*>(.*?)</summary>\s*<dl(.*?)</dl>\s*</details>", page, flags=re.DOTALL
    )
    assert len(folded) == page.count('<div class="row"') > 1
    assert len({Read(summary).text for summary, _ in folded}) == len(folded)
    assert all(each.count("<dt>") in {6, 7} for _, each in folded)


def test_a_folder_that_was_changed_is_not_called_verified(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "north"
    shutil.copytree(runs["dp-gd"] / "north", folder)
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text(text.replace('"epsilon": 1.0', '"epsilon": 0.1', 1))
    run = read_run(folder)
    assert not run.verified
    page = Read(report_page(run)).text
    assert says(page, "folder_does_not_hold")
    assert "Signatures verified" not in page


# --- The conversation -----------------------------------------------------------------------


def test_charlies_report_says_who_was_waited_for_and_a_partys_cannot(runs: dict[str, Path]) -> None:
    page = Read(_page(runs["dp-gd"] / "charlie")).text
    told = [int(n) for n in re.findall(r"(\d+) of \d+\s*(?=north|south|west|“Spoke)", page)]
    assert sum(told) == int(re.findall(r"\d+ of (\d+)\s*south", page)[0])
    assert says(Read(_page(runs["dp-gd"] / "west")).text, "waited_for_elsewhere")


def test_no_time_of_a_single_message_is_in_a_report(runs: dict[str, Path]) -> None:
    run = read_run(runs["dp-gd"] / "charlie")
    assert run.transcript is not None
    assert all(len(entry.to_json()) in {6, 7} for entry in run.transcript.entries)
    assert "no times" in Read(report_page(run)).text


# --- What comes from files of others ------------------------------------------------------------


def _hostile(page: str) -> Iterator[str]:
    for tag, found in Read(page).tags:
        if tag in {"script", "iframe", "object", "embed", "form", "link", "base"}:
            yield tag
        yield from (name for name in found if name.startswith("on") or name == "style")
        yield from (str(found[name]) for name in ("src", "href") if name in found and not _inner(found[name]))


def _inner(address: str | None) -> bool:
    return str(address).startswith(("#", "data:image/"))


@pytest.mark.parametrize("who", ["charlie", "south"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_hostile_names_do_nothing_in_a_report(runs: dict[str, Path], protocol: str, who: str) -> None:
    page = _page(runs[protocol] / who)
    assert list(_hostile(page)) == []
    assert HOSTILE in Read(page).text  # it is there, as a text


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_hostile_names_do_nothing_in_a_study_for_signature(protocol: str) -> None:
    page = signature_page(make_world(protocol, HOSTILE, port=5555).study, budget=HOSTILE)
    assert list(_hostile(page)) == []
    assert HOSTILE in Read(page).text


def test_all_texts_of_a_changed_result_are_escaped(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(runs["dp-gd"] / "south", folder)
    result = _result(folder)
    marked = _marked(result)
    (folder / "result.json").write_text(json.dumps(marked))
    page = report_page(read_run(folder))
    assert list(_hostile(page)) == []
    assert Read(page).text.count(HOSTILE) > 40


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: one if key in {"protocol", "unit", "same_answer"} else _marked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_marked(one) for one in value]
    return f"{value} {HOSTILE}" if isinstance(value, str) else value


@pytest.mark.parametrize("field", ["stages", "published", "statement", "evaluation", "epsilon", "releases", "versions"])
@pytest.mark.parametrize("value", [None, 3, "x", ["x"], {"x": []}])
def test_a_result_of_another_form_is_bad_input_and_no_bug(
    runs: dict[str, Path], tmp_path: Path, shell: Shell, field: str, value: Any
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(runs["dp-gd"] / "south", folder)
    (folder / "result.json").write_text(json.dumps({**_result(folder), field: value}))
    assert shell("report", folder).code in {0, 4}


def test_the_policy_lets_the_pages_own_style_sheet_through_and_nothing_else(runs: dict[str, Path]) -> None:
    page = _page(runs["vote"] / "charlie")
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [found["content"] for tag, found in Read(page).tags if "http-equiv" in found and tag == "meta"]
    assert str(policy).split("; ") == [
        "default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:", "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip
    assert "url(" not in style
    assert "@import" not in style


# --- Simulations and baselines ------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["local-aggregation", "pooled"])
def test_a_simulation_is_marked_all_over(tmp_path: Path, protocol: str) -> None:
    text = make_study(3, 3).to_toml().replace('"local-aggregation"', f'"{protocol}"')
    study = Study.parse(text.replace('noise = "laplace"', ""), in_memory=True)
    simulate(study, make_data(study, [20, 30, 40]), seed=1).write(tmp_path / "run")
    page = _page(tmp_path / "run")
    read = Read(page)
    assert read.text.count(WATERMARK) >= 3
    assert ("body", {"class": "marked"}) in read.tags
    assert "Signatures verified" not in read.text
    assert says(read.text, "user_saw_all")


def test_a_study_with_short_keys_is_marked_and_a_baseline_is_refused(shell: Shell, tmp_path: Path) -> None:
    page = Read(signature_page(make_world("vote", port=5555).study))
    assert len(re.findall(pattern("short_keys", 512), page.text)) >= 3
    study = tmp_path / "study.toml"
    study.write_text(
        make_study(3, 3).to_toml().replace('"local-aggregation"', '"pooled"').replace('noise = "laplace"', "")
    )
    assert shell("study", "show", study, "--format", "html").code == 4


def _kinds() -> dict[str, Study]:
    """Return one study of each protocol and calibration."""
    found: dict[str, Study] = {}
    for name, text in studies():
        kind = " ".join(re.findall(r'^(?:protocol|calibration) = "(.*)"$', text, re.MULTILINE))
        if kind not in found and "example" not in name:
            found[kind] = Study.parse(text, name, in_memory=True)
    return found


def test_there_is_a_page_for_signature_of_every_protocol_and_what_is_bare_is_said_on_page_one() -> None:
    found = {kind: study for kind, study in _kinds().items() if not entry_of(study).baseline}
    assert len(found) > 10
    for study in found.values():
        page = signature_page(study)
        text = Read(page[: page.index('<div class="reference">')]).text
        seen = observers([row.to_json() for row in statement_of(study)], study.study.records_per_person)
        assert (says(text, "nothing_proved_against", ...)) == any(one.percent is None for one in seen)


def test_with_several_records_of_a_person_all_bars_are_there_each_with_a_proved_bound() -> None:
    """The bounds of group privacy, computed here by another way: record after record."""
    study = whitened_study(5, 4)
    text = study.to_toml()
    four = Study.parse(text.replace("records_per_person = 1", "records_per_person = 4"), in_memory=True)
    assert four.study.records_per_person == 4
    one, several = ([row.to_json() for row in statement_of(each)] for each in (study, four))
    alone, together = observers(one), observers(several, 4)
    assert [observer.name for observer in together] == [observer.name for observer in alone]
    (person,) = [row for row in several if row["unit"] == "person"]
    assert together[0].epsilon == person["epsilon"]
    for observer, of_four in zip(alone[1:], together[1:], strict=True):
        assert observer.epsilon is not None
        if 4 * observer.epsilon > 20:
            assert of_four.epsilon is None
        else:
            assert of_four.epsilon == pytest.approx(4 * observer.epsilon)
    pages = [Read(signature_page(each)).text for each in (study, four)]
    headings = [f"What may be learned about one {unit}" for unit in ("record", "person")]
    assert [[heading in page for heading in headings] for page in pages] == [[True, False], [False, True]]


def test_the_report_of_statistics_has_no_weights_and_says_where_they_are(tmp_path: Path) -> None:
    study = summary_study()
    simulate(study, dealt(study, [30, 40, 50]), seed=1).write(tmp_path / "run")
    read = Read(_page(tmp_path / "run"))
    assert says(read.text, "statistics_of_records")
    assert says(read.text, "released_elsewhere")
    assert not any(name.startswith("weights") for name in read.numbers)


# --- The commands ---------------------------------------------------------------------------------


def test_report_writes_one_file_and_says_whether_it_is_verified(
    runs: dict[str, Path], shell: Shell, tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    answer = shell.json("report", runs["vote"] / "west", "--out", out)
    assert (answer.code, answer.data["verified"], answer.data["problems"]) == (0, True, [])
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert "masquerade verify" in out.read_text()


def test_study_show_writes_a_page_for_signature_with_the_budget(shell: Shell, tmp_path: Path) -> None:
    study, state = tmp_path / "study.toml", tmp_path / "state"
    study.write_text(make_world("dp-gd", port=5555).study.to_toml())
    assert shell("budget", "init", "--epsilon", 5, "--delta", 1e-5, "--state", state).code == 0
    page = shell("study", "show", study, "--format", "html", "--state", state)
    assert page.code == 0
    read = Read(page.out)
    assert read.numbers["takes.epsilon"] == pytest.approx(1.0)
    assert says(read.text, "of_the_limit", ..., 5, "1e-05")
    assert all(word in read.text for word in ("Name, role", "Place, date", "Signature"))
    out = tmp_path / "page.html"
    assert shell("study", "show", study, "--format", "html", "-o", out, "--state", state).code == 0
    assert out.read_text() == page.out


def test_an_audit_and_its_picture_stand_in_both_pages(runs: dict[str, Path], shell: Shell, tmp_path: Path) -> None:
    audit, picture = tmp_path / "audit.json", tmp_path / "audit.svg"
    found = {"study": "ward", "protocol": "dp-gd", "epsilon": 1.0, "delta": 1e-6, "unit": "record", "bound": 0.25}
    found |= {"runs": 400, "exceeded": False}
    audit.write_text(json.dumps({"status": "ok", "data": found}))
    picture.write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    study = runs["dp-gd"] / "charlie" / "study.toml"
    out = tmp_path / "page.html"
    given = ("--audit", audit, "--picture", picture, "-o", out)
    for words in (("report", runs["dp-gd"] / "charlie"), ("study", "show", study, "--format", "html")):
        assert shell(*words, *given).code == 0
        read = Read(out.read_text())
        assert "audit.svg" in read.text
        assert len(re.findall(pattern("audit_found", "0.250"), read.text)) == 1
        assert [f["src"] for t, f in read.tags if t == "img"] == [read_picture(picture).address]
        assert list(_hostile(out.read_text())) == []


def test_an_audit_that_refutes_the_promise_stands_on_page_one_and_one_of_another_study_is_refused(
    runs: dict[str, Path], shell: Shell, tmp_path: Path
) -> None:
    audit, out, folder = tmp_path / "audit.json", tmp_path / "page.html", runs["dp-gd"] / "charlie"
    found = {"study": "ward", "protocol": "dp-gd", "epsilon": 1.0, "delta": 1e-6, "unit": "record", "bound": 2.5}
    audit.write_text(json.dumps({**found, "runs": 400, "exceeded": True}))
    assert shell("report", folder, "--audit", audit, "-o", out).code == 0
    page = out.read_text()
    assert "refuted" in Read(page[: page.index('<div class="reference">')]).text
    for field, value in (("study", "other"), ("protocol", "vote"), ("epsilon", 2.0)):
        audit.write_text(json.dumps({**found, "runs": 400, field: value}))
        answer = shell("report", folder, "--audit", audit, "-o", out)
        assert (answer.code, says(answer.err, "audit_of_other_study", field, ...)) == (4, True)
        assert shell("study", "show", folder / "study.toml", "--format", "html", "--audit", audit).code == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--audit", "page.html"), "does not hold JSON"),
        (("--picture", "page.pdf"), "SVG and PNG"),
        (("--picture", "none.svg"), "there is no picture"),
        (("--out", "none/none.html"), "cannot be written"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(
    runs: dict[str, Path], shell: Shell, tmp_path: Path, words: tuple[str, str], said: str
) -> None:
    (tmp_path / "page.html").write_text("x")
    answer = shell("report", runs["dp-gd"] / "charlie", "-o", tmp_path / "o.html", words[0], tmp_path / words[1])
    assert answer.code == 4
    assert said in answer.err


def test_a_folder_without_a_result_is_refused(shell: Shell, tmp_path: Path) -> None:
    assert shell("report", tmp_path).code == 4
    (tmp_path / "result.json").write_text("{}")
    with raises(BadInput, "no_result_of_run", ..., "run_id"):
        read_run(tmp_path)


def test_without_jinja_a_sentence_says_what_to_install(
    runs: dict[str, Path], shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    answer = shell("report", runs["vote"] / "charlie")
    assert answer.code == 4
    assert "masquerade[report]" in answer.err


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (-0.3596517, "−0.360"),
        (1234.5, "1,230"),
        (2.659, "2.66"),
        (1e-7, "1e-07"),
        (None, "–"),
        (99.96, "100"),
    ],
)
def test_numbers_are_written_for_people(value: float | None, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_statement_of_a_page_for_signature_is_that_of_the_study(protocol: str) -> None:
    study = make_world(protocol, port=5555).study
    read, rows = Read(signature_page(study)).numbers, statement_of(study)
    found = {f"statement.{i}.epsilon": row.epsilon for i, row in enumerate(rows) if row.epsilon is not None}
    assert found == {name: value for name, value in read.items() if name.endswith("epsilon") and "statement" in name}

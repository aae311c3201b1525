"""A summary between processes: everybody ends with the same statistics, whatever the cells hold."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from masquerade_core.study import CHARLIE, Feature, Study
from tests.messages import says
from tests.processes import ALWAYS, Machines
from tests.summary_helpers import as_summary


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    """Three parties, and a study of their columns in place of the usual one."""
    made = Machines.new(tmp_path)
    made.study = as_summary(made.study)
    made.write_study()
    yield made
    made.close()


def test_everybody_ends_with_the_same_statistics_and_the_columns_of_a_next_study(machines: Machines) -> None:
    for name in machines.study.names:
        rows = [f"{k % 5 - 1}.5,{k % 3}" for k in range(60)]
        rows[:4] = ["not a number,1", ",", "1e99,0", "0.5,strange"]  # no record makes a party refuse
        (machines.folder / f"{name}.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    ended = {name: participant.end() for name, participant in machines.start_all().items()}
    assert {name: end.code for name, end in ended.items()} == dict.fromkeys((CHARLIE, *machines.study.names), 0)
    files = {name: machines.out(name) for name in ended}
    texts = {(folder / "features.toml").read_text(encoding="utf-8") for folder in files.values()}
    assert len({(folder / "statistics.json").read_bytes() for folder in files.values()}) == len(texts) == 1
    assert {path.name for path in files[CHARLIE].iterdir()} == {"statistics.json", "features.toml", *ALWAYS}
    (block,) = tomllib.loads(texts.pop())["feature"]
    assert Feature.model_validate(block).name == "x"
    for name in machines.study.names:  # debited like any release
        result = json.loads((files[name] / "result.json").read_text(encoding="utf-8"))
        privacy = machines.study.privacy
        assert result["releases"] == [{"label": "histograms", "epsilon": privacy.epsilon, "delta": privacy.delta}]
        assert result["metrics"] == {}
    again = machines.start("p1").end()
    assert again.code == 6
    assert says(again.error["message"], "study_finished")


def test_a_test_set_is_refused_since_there_is_no_model_to_test(machines: Machines) -> None:
    end = machines.start(CHARLIE, "--test", str(machines.folder / "test.csv")).end()
    assert end.code == 4
    assert says(end.error["message"], "no_classifier_to_test", ...)
    assert Study.parse((machines.folder / "study.toml").read_text(), "it") == machines.study

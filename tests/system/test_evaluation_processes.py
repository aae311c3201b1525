"""Real processes measure a model: in the run that learns it, and in a study of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from masquerade.measuring import measuring_study
from masquerade.prediction import load_model
from masquerade_core.study import CHARLIE, Study
from masquerade_host.store.budget import give_budget
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.permissions import DEFAULT_POPULATION
from masquerade_host.store.state import StateFolder
from tests.processes import ALWAYS, PARTYS, Machines

_CHANGES = {
    'protocol = "local-aggregation"': 'protocol = "dp-gd"',
    "delta = 0.0": "delta = 1e-06",
    'calibration = "paper"': 'calibration = "proven"',
    "[protocol]": "[protocol]\nrounds = 2",
    "[label]": '[evaluation]\nshare = 0.25\nthreshold = "f1"\n\n[label]',
    "min_records = 2": "min_records = 4",
}


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    machines = Machines.new(tmp_path)
    yield machines
    machines.close()


def _run(machines: Machines, study: Study) -> dict[str, dict[str, Any]]:
    machines.study = study
    machines.write_study()
    for name, process in machines.start_all().items():
        ended = process.end()
        assert ended.code == 0, (name, ended)
    names = (CHARLIE, *study.names)
    return {name: json.loads((machines.out(name) / "result.json").read_text()) for name in names}


def test_a_run_measures_its_model_and_a_second_study_measures_it_again(machines: Machines) -> None:
    text = machines.study.to_toml()
    for old, new in _CHANGES.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    # At the delta that other tests allow, this much Gaussian noise would count as an epsilon of 0.
    give_budget(StateFolder(machines.state("p1")).made(), DEFAULT_POPULATION, 100.0, 1e-3, by="a test").close()
    results = _run(machines, Study.parse(text))
    found = results[CHARLIE]["evaluation"]
    assert all(result["evaluation"] == found for result in results.values())
    assert found["records"] == 3 * 15
    # Once, for both: the rounds together cost the study's target, and the measurement nothing more.
    assert [r["label"] for r in results["p1"]["releases"]] == ["round 1", "round 2"]
    with closing(Ledger.open(StateFolder(machines.state("p1")))) as ledger:
        assert 0 < ledger.account("default").spent <= 1.0
    model = load_model(machines.out("p2") / "model.json")
    assert model.threshold == found["threshold"]["score"]

    again = measuring_study(machines.study, model, epsilon=3.0)
    machines.out("").rename(machines.folder / "first")
    results = _run(machines, again)
    found = results[CHARLIE]["evaluation"]
    assert all(result["evaluation"] == found for result in results.values())
    assert found["records"] == 3 * 60
    assert [r["label"] for r in results["p1"]["releases"]] == ["scores", "counts"]
    with closing(Ledger.open(StateFolder(machines.state("p1")))) as ledger:
        assert 1.0 < ledger.account("default").spent <= 1.0 + 3.0
    assert {path.name for path in machines.out("p1").iterdir()} == {"evaluation.json", *ALWAYS, *PARTYS}

"""Whoever sees the lengths of frames learns no participant's name by it, in any protocol."""

import pytest

from masquerade_core.study import Study
from tests.sum_helpers import descent_study
from tests.unit.protocols.blocks import test_cost
from tests.unit.protocols.blocks.test_cost import STUDIES, _counted_run

SHORT = {"decaying-budget": lambda: descent_study("decaying-budget", 3, 4, section="rounds = 3")}
"""Fewer rounds than for their costs: each round has the frames of the one before."""


def renamed(study: Study) -> Study:
    """The same study, whose parties have names of different lengths."""
    names = {name: f"x{j}".ljust(32 - 5 * (j % 6), "y") for j, name in enumerate(study.names)}
    parties = tuple(party.model_copy(update={"name": names[party.name]}) for party in study.parties)
    rules = study.study.model_copy(update={"lead": names.get(study.study.lead or "")})
    return study.model_copy(update={"parties": parties, "study": rules})


@pytest.mark.parametrize("name", [name for name in STUDIES if "," not in name])
def test_no_frame_is_longer_for_a_longer_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_cost, "D", 4)  # a vector's length says nothing of names
    study = SHORT.get(name, STUDIES[name])()
    assert len({len(other) for other in renamed(study).names}) > 1
    short, long = (
        [(frame.type, frame.length) for frame in _counted_run(named, monkeypatch).table.passed]
        for named in (study, renamed(study))
    )
    assert short == long

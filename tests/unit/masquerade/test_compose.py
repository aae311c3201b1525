"""Charlie's container: which runs it begins."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from masquerade import compose, datasets
from masquerade.draft import throwaway_key
from masquerade_core.errors import BadInput
from masquerade_host.process.progress import Mode, Progress
from masquerade_protocols.registry import PROTOCOLS
from tests.messages import raises

MODELS = sorted(name for name, entry in PROTOCOLS.items() if entry.makes_model and not entry.measures)
CANNOT_LEARN = {"vote", "soft", "decaying-budget"}


_drawn = cache(datasets.simulated)
"""Most protocols get the same records, and nobody changes them."""


class _Begun(Exception):
    pass


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that starts Charlie's container, and raises _Begun once he would run the study."""

    def run_curator(*_: object, **__: object) -> None:
        raise _Begun

    (tmp_path / "meeting" / "keys").mkdir(parents=True)
    for name, place in (("MEETING", "meeting"), ("SCRATCH", "."), ("READY", "ready"), ("KEY", "own/charlie.key")):
        monkeypatch.setattr(compose, name, tmp_path / place)
    monkeypatch.setattr(compose, "run_curator", run_curator)
    monkeypatch.setattr(datasets, "simulated", _drawn)

    def begin(protocol: str, parties: int = 5, calibration: str | None = None) -> None:
        for _ in range(parties):
            key = throwaway_key()
            (tmp_path / "meeting" / "keys" / f"{key.fingerprint().replace(' ', '')}.pub").write_text(str(key))
        compose.curator(parties, protocol, tmp_path / "runs", Progress(Mode.TEXT), calibration)

    return begin


@pytest.mark.parametrize("name", MODELS)
def test_a_run_that_cannot_learn_is_not_begun(name: str, begin: Any, tmp_path: Path) -> None:
    if name not in CANNOT_LEARN:
        with pytest.raises(_Begun):
            begin(name)
        return
    with raises(BadInput, "cannot_learn", ..., ..., ...) as refused:
        begin(name)
    assert f"masquerade demo --protocol {name}" in refused.value.hint
    assert not (tmp_path / "meeting" / "study.toml").exists()  # no party has begun either


@pytest.mark.parametrize("name", ["local-aggregation", "psgd"])
def test_the_papers_noise_is_run_where_it_can_learn(name: str, begin: Any) -> None:
    with pytest.raises(_Begun):
        begin(name, calibration="paper")


def test_so_many_parties_that_votes_outweigh_the_noise_are_run(begin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes are counted, and no record; so each party has fifty here, as in the demonstration of so many."""
    monkeypatch.setattr(compose, "suited", lambda entry, parties: datasets.simulated(parties, 50 * parties))
    with pytest.raises(_Begun):
        begin("vote", parties=200)

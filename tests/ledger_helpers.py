"""A state folder with a ledger, studies that spend from it, and a data set."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from masquerade_core.data.schema import Dataset
from masquerade_core.privacy.accounting import target
from masquerade_core.seat import Release
from masquerade_core.study import Study
from masquerade_host.store import ledger
from masquerade_host.store.budget import give_budget
from masquerade_host.store.ledger import Ledger
from masquerade_host.store.state import StateFolder
from tests.host_helpers import World

__all__ = ["RECORDS", "DiedError", "begun", "budget", "dying", "mechanism", "named", "reserved", "stepped"]

RECORDS = Dataset.from_unit_ball([[0.5], [-0.25], [0.0]], [1.0, -1.0, 1.0])

_WORLD = World.new(2, port=5555)


def named(name: str, epsilon: float = 1.0, delta: float = 1e-6, **options: int) -> Study:
    """Return a study with this name and target; ``options`` are further settings of ``[study]``."""
    text = _WORLD.study.to_toml().replace('name = "toy"', f'name = "{name}"', 1)
    text = text.replace("epsilon = 1.0", f"epsilon = {epsilon!r}").replace("delta = 0.0", f"delta = {delta!r}")
    for option, value in options.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{option} =")]
        text = "\n".join(lines).replace("[study]", f"[study]\n{option} = {value}", 1)
    return Study.parse(text)


def budget(folder: Path, epsilon: float = 10.0, delta: float = 1e-5, **options: bool) -> Ledger:
    """Make a ledger with one population, whose data set is known."""
    ledger = give_budget(StateFolder(folder), "default", epsilon, delta, by="steward", **options)
    ledger.adopt(ledger.fingerprint(RECORDS), "default", by="steward")
    return ledger


def reserved(ledger: Ledger, study: Study, *, gaussian: bool = False) -> Ledger:
    """Reserve what the study may take."""
    ledger.reserve(
        study,
        "p1",
        population="default",
        fingerprint=ledger.fingerprint(RECORDS),
        approved_by="steward",
        spends=target(study.privacy.epsilon, study.privacy.delta, gaussian=gaussian),
    )
    return ledger


def begun(ledger: Ledger, study: Study, *, gaussian: bool = False) -> int:
    """Reserve, and begin an attempt; returns its number."""
    reserved(ledger, study, gaussian=gaussian)
    return ledger.start_attempt(study, "p1", ledger.fingerprint(RECORDS))


def mechanism(label: str = "model", epsilon: float = 1.0, delta: float = 1e-6, mu: float = 0.0) -> Release:
    """Return a release; by default one that costs what the studies here may take."""
    return Release(label, epsilon, delta, mu)


class DiedError(BaseException):
    """The process ends here."""


def stepped(name: str, action: Callable[..., object], steps: list[str], at: int) -> Callable[..., object]:
    """Return an action that counts as a step, and before whose ``at``-th step the process dies."""

    def step(*arguments: object, **options: object) -> object:
        steps.append(name)
        if len(steps) > at:
            raise DiedError
        return action(*arguments, **options)

    return step


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[list[str]]:
    """Let the process die before its ``at``-th step that touches the disk."""
    steps: list[str] = []

    def stepping(name: str, action: Callable[..., object]) -> Callable[..., object]:
        return stepped(name, action, steps, at)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", stepping("fsync", os.fsync))
        patch.setattr(os, "fdopen", stepping("fdopen", os.fdopen))
        for name in ("_insert", "_mirror", "_compare", "_read"):
            patch.setattr(ledger.LedgerFile, name, stepping(name, getattr(ledger.LedgerFile, name)))
        yield steps

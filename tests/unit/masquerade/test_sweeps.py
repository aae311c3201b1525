"""Many simulations: each is that of its seed, in the order of the seeds, in one process or in two."""

from __future__ import annotations

import operator
import threading
import time
from typing import Any

import numpy as np
import pytest

import masquerade
import masquerade.sweeps
from masquerade.simulation import WATERMARK
from masquerade.workers import Call, in_workers
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput, MasqueradeError, RefusedLocally
from masquerade_core.study import Study
from masquerade_lab.audit.canary import others, study_of
from tests.messages import raises

SEEDS = (5, 2, 9)


def _study() -> Study:
    return study_of("dp-gd", parties=3, d=3, epsilon=1.0, delta=1e-5, rounds=2)


def _data(n: int = 20) -> dict[str, Dataset]:
    return {f"party-{k}": Dataset.from_unit_ball(*others(n, 3, seed=k)) for k in (1, 2, 3)}


def _timeless(simulation: masquerade.Simulation) -> dict[str, Any]:
    untimed = {name: value for name, value in simulation.result.items() if name not in ("seconds", "stages")}
    return {**untimed, "weights": simulation.model.weights}


@pytest.mark.parametrize("jobs", [1, 2])
def test_they_are_those_of_one_at_a_time_in_the_order_of_the_seeds(jobs: int) -> None:
    study, data, test = _study(), _data(), Dataset.from_unit_ball(*others(50, 3, seed=9))
    many = [_timeless(one) for one in masquerade.simulate_many(study, data, SEEDS, test=test, jobs=jobs)]
    assert many == [_timeless(masquerade.simulate(study, data, seed=seed, test=test)) for seed in SEEDS]
    assert len({one["weights"] for one in many}) == 3
    assert [one["seed"] for one in many] == list(SEEDS)
    assert all("test_error" in one["metrics"] for one in many)
    assert all(one["watermark"] == WATERMARK for one in many)


def test_with_one_process_they_are_made_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(masquerade.sweeps, "simulate", lambda *_, seed, **__: made.append(seed))
    runs = masquerade.simulate_many(_study(), _data(), range(10**6))
    next(runs)
    next(runs)
    assert made == [0, 1]
    list(masquerade.simulate_many(_study(), _data(), np.arange(7, 9)))  # type: ignore[arg-type]
    assert made == [0, 1, 7, 8]


def test_those_that_come_early_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masquerade.sweeps, "in_workers", lambda *_, **__: iter([(2, "c"), (0, "a"), (1, "b")]))
    assert list(masquerade.simulate_many(_study(), _data(), SEEDS)) == ["a", "b", "c"]  # type: ignore[comparison-overlap]


def test_what_makes_no_sense_is_refused_before_anything_is_computed() -> None:
    study, data = _study(), _data()
    for seeds in ([1.5], ["1"], [True], [None], [np.float64(1)]):
        with raises(BadInput, "no_seed", ...):
            masquerade.simulate_many(study, data, seeds)  # type: ignore[arg-type]
    with raises(BadInput, "jobs_too_few", 0):
        masquerade.simulate_many(study, data, SEEDS, jobs=0)
    with pytest.raises(RefusedLocally) as caught:
        list(masquerade.simulate_many(study, _data(4), SEEDS, jobs=2))
    named = [seed for seed in SEEDS if f"task seed {seed}: " in caught.value.message]
    assert len(named) == 1  # all fail, and any may be the first
    with pytest.raises(RefusedLocally) as alone:
        masquerade.simulate(study, _data(4), seed=5)
    assert caught.value.message == f"task seed {named[0]}: {alone.value.message}"
    assert caught.value.hint == alone.value.hint


def test_a_pool_that_is_ended_while_it_takes_up_a_task_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from joblib.externals.loky.process_executor import _ExecutorManagerThread

    processed, waited, shown = _ExecutorManagerThread.process_result_item, [], threading.excepthook

    def until_it_is_ended(thread: Any, item: Any) -> None:
        processed(thread, item)  # and with it, the next task is submitted
        deadline = time.monotonic() + 20
        while not thread.executor_flags.kill_workers and time.monotonic() < deadline:
            time.sleep(0.001)
        waited.append(thread.executor_flags.kill_workers)

    monkeypatch.setattr(_ExecutorManagerThread, "process_result_item", until_it_is_ended)
    with pytest.raises(MasqueradeError, match="ZeroDivisionError"):
        list(in_workers([Call(f"{n}", operator.truediv, (n, 0)) for n in range(20)], jobs=2))
    assert waited == [True]
    assert threading.excepthook is shown

"""Many simulations of one study, one for each seed: here, in several processes, or on a Dask cluster."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import index
from typing import Any

from masquerade.simulation import Simulation, simulate
from masquerade.workers import Call, check_workers, in_workers
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.classifiers import Classifier
from masquerade_core.study import Study

__all__ = ["simulate_many"]


def simulate_many(
    study: Study,
    data: Mapping[str, Any],
    seeds: Sequence[int],
    *,
    test: Dataset | None = None,
    classifiers: Mapping[str, Classifier] | None = None,
    auxiliary: Auxiliary | None = None,
    jobs: int = 1,
    dask: str | None = None,
) -> Iterator[Simulation]:
    """Simulate a study once for each seed, and give the simulations in the order of the seeds.

    A simulation depends on its seed alone: it is that of :func:`masquerade.simulate`, no matter who computes it, but
    for the seconds that it took. On machines of different kinds its last digits may differ.

    Parameters
    ----------
    study, data, test, classifiers, auxiliary
        As :func:`masquerade.simulate` takes them.
    seeds : sequence of int
    jobs : int
        How many processes of this machine share the work. With 1, each simulation is made when it is asked for.
    dask : str, optional
        The address of a Dask scheduler, whose workers share the work. They get the records: let nobody's records go to
        machines that may not have them.

    Yields
    ------
    Simulation

    Raises
    ------
    BadInput
        A seed is no whole number, ``jobs`` is less than 1, or no scheduler or no worker answers at the address.
    MasqueradeError
        As :func:`masquerade.simulate`; the message names the seed.

    Examples
    --------
    >>> runs = masquerade.simulate_many(study, data, range(100), test=test, jobs=2)
    >>> errors = [run.result["metrics"]["test_error"] for run in runs]
    """
    check_workers(jobs, dask)
    options = {"test": test, "classifiers": classifiers, "auxiliary": auxiliary}
    calls = [Call(f"seed {seed}", _simulated, (study, data, seed, options)) for seed in map(_whole, seeds)]
    return _in_order(calls, jobs, dask)


def _whole(seed: object) -> int:
    """Return a seed as Python's own number, for numpy's whole numbers are seeds too."""
    if not isinstance(seed, bool):
        with suppress(TypeError):
            return index(seed)  # type: ignore[arg-type]
    raise BadInput(f"a seed is {seed!r}", "give a whole number for each simulation, such as range(100)")


def _simulated(study: Study, data: Mapping[str, Any], seed: int, options: Mapping[str, Any]) -> Simulation:
    return simulate(study, data, seed=seed, **options)


def _in_order(calls: Sequence[Call], jobs: int, dask: str | None) -> Iterator[Simulation]:
    early: dict[int, Simulation] = {}
    following = 0
    for number, simulation in in_workers(calls, jobs=jobs, dask=dask):
        early[number] = simulation
        while following in early:
            yield early.pop(following)
            following += 1

"""Simulation: all roles of a protocol in one process, for research and figures. It is never a private release.

The one process sees all parties' records. A seed makes the noise repeatable, so anyone who knows the seed can subtract
it.
"""

import time
from collections.abc import Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from masquerade_core import __version__
from masquerade_core.data.auxiliary import Auxiliary, check_auxiliary
from masquerade_core.data.schema import Dataset
from masquerade_core.errors import BadInput
from masquerade_core.learning.classifiers import Classifier
from masquerade_core.learning.trace import objective_trace
from masquerade_core.model import Model, Release, error_on, model_to_json
from masquerade_core.rng import Rng, SystemRng
from masquerade_core.seat import Effect, Stage
from masquerade_core.seat import Release as Debit
from masquerade_core.simulation_rng import SimulationRng
from masquerade_core.statistics import Statistics
from masquerade_core.study import CHARLIE, Study
from masquerade_core.table import Table
from masquerade_core.words import listed
from masquerade_host.store.results import RESULT, RunDirectory, evaluation_of
from masquerade_protocols import Protocol, entry_of
from masquerade_protocols.in_memory import roles_of

__all__ = ["WATERMARK", "Simulation", "load_named", "load_split", "simulate"]

WATERMARK = "simulation: not a private release"


@dataclass(frozen=True)
class Simulation:
    """The outcome of a simulated run.

    Parameters
    ----------
    release : Release
        What Charlie would have published: a model, for most protocols.
    result : dict
        The fields of a run's ``result.json``, and a watermark.
    study : Study
    classifiers : mapping of str to Model
        For the baseline ``individual``, each party's model. ``release`` is the one with the smallest error on the test
        set; without a test set, that of the party with the most records.
    debits : mapping of str to tuple of masquerade_core.seat.Release
        What each party's process would have debited of its privacy budget, in order. A baseline has none.
    """

    release: Release
    result: dict[str, Any]
    study: Study
    classifiers: Mapping[str, Model] = field(default_factory=dict)
    debits: Mapping[str, tuple[Debit, ...]] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """The model that Charlie would have published.

        Raises
        ------
        BadInput
            The protocol makes no model.
        """
        if not isinstance(self.release, Model):
            raise BadInput(f"{self.study.study.protocol} makes no model", "look at the simulation's release")
        return self.release

    def model_json(self, party: str | None = None) -> dict[str, Any]:
        """Return the content of a run's ``model.json`` with a watermark; of one party's own model if it is named."""
        model = self.model if party is None else self.classifiers[party]
        return {**model_to_json(model, self.study, bytes.fromhex(self.result["run_id"])), "watermark": WATERMARK}

    def statistics_json(self) -> dict[str, Any] | None:
        """Return the content of a run's ``statistics.json``; None where the protocol releases a model."""
        if not isinstance(self.release, Statistics):
            return None
        return self.release.to_json(self.study, bytes.fromhex(self.result["run_id"]))

    def write(self, directory: Path | str) -> None:
        """Write what was released, a ``model-<party>.json`` for each party's own model, and ``result.json``.

        Each of them has a watermark.

        Raises
        ------
        BadInput
            The directory holds results already, or cannot be used.
        """
        own = {f"model-{party}.json": self.model_json(party) for party in self.classifiers}
        released = self.release.files(self.study, bytes.fromhex(self.result["run_id"]))
        marked = {name: _marked(content) for name, content in released.items()}
        with RunDirectory(directory, signed=False) as run:
            run.write({**own, **marked, RESULT: self.result})


def _marked(content: Mapping[str, Any] | str) -> Mapping[str, Any] | str:
    """Return a file's content with a watermark: a field of its own, or a comment."""
    return f"# {WATERMARK}\n{content}" if isinstance(content, str) else {**content, "watermark": WATERMARK}


def simulate(
    study: Study,
    data: Mapping[str, Any],
    *,
    seed: int | None = None,
    test: Dataset | None = None,
    classifiers: Mapping[str, Classifier] | None = None,
    auxiliary: Auxiliary | None = None,
) -> Simulation:
    """Run a study's protocol, or the baseline that it names, in this process.

    Parameters
    ----------
    study : Study
        Small keys and baselines are allowed here, and with some protocols a single party.
    data : mapping of str to Dataset
        Each party's records, by the roster's names; for a protocol that makes no model, in the form that
        :func:`load_named` and :func:`load_split` return.
    seed : int, optional
        It makes the run repeatable. Without it, the randomness is the operating system's.
    test : Dataset, optional
        It gives ``metrics.test_error``, and ``rounds`` if the protocol's iterates are public.
    classifiers : mapping of str to Classifier, optional
        In a protocol of votes, what each party votes with; by default a classifier with the study's loss.
    auxiliary : Auxiliary, optional
        The public records that the study names, as :func:`masquerade.load_study` returns them beside the study.

    Raises
    ------
    BadInput
        The data and the study do not fit together; or the auxiliary records are missing, or others than the study's.
    RefusedLocally
        A party has fewer records than the study's ``min_records``, or more than its ``max_records``.
    MasqueradeError
        The error that ended the run.
    """
    if set(data) != set(study.names):
        raise BadInput(
            f"the roster has {_listed(study.names)}, but there are records of {_listed(data)}",
            "give records for every party of the study, and for nobody else",
        )
    protocol = entry_of(study)
    for name in study.names:
        protocol.records.check(data[name], study, f"the data of {name}", name)
    check_auxiliary(study, auxiliary)
    chosen = classifiers or {}
    protocol.check_test(study, given=test is not None)
    _check_classifiers(chosen, study, protocol)
    if protocol.baseline:
        return _baseline(protocol, study, data, seed, test)
    shared = {"auxiliary": auxiliary} if protocol.auxiliary else {}
    everybody = (*study.names, CHARLIE)
    rngs = {who: _rng(seed, who) for who in everybody}
    table = Table(study.names, rngs, study.study_id(protocol.version), study=study)
    charlie = _Metered(protocol.charlie(table.seat(CHARLIE), study, **shared), table)
    roles = roles_of(protocol, table, study, data, classifiers=chosen, instead={CHARLIE: charlie}, **shared)
    release: Release = table.run(roles)[CHARLIE]
    stages = charlie.stages()
    result = {
        **_header(study, seed),
        "seconds": round(sum(stage["seconds"] for stage in stages), 3),
        "stages": stages,
        "messages": len(table.passed),
        "bytes": sum(frame.length for frame in table.passed),
        "statement": [claim.to_json() for claim in protocol.statement(study)],
        **evaluation_of(release),
        "metrics": {"test_error": error_on(release, test)} if test is not None and isinstance(release, Model) else {},
    }
    told = [(progress.done, progress.iterate) for who, progress in table.progress if who == CHARLIE]
    if rounds := objective_trace(told, test, study):
        result["rounds"] = rounds
    debits = {name: tuple(debit for who, debit in table.releases if who == name) for name in study.names}
    return Simulation(release, result, study, debits=debits)


def _baseline(
    baseline: Protocol, study: Study, data: Mapping[str, Dataset], seed: int | None, test: Dataset | None
) -> Simulation:
    """Run a baseline. One person holds all records, so nobody sends anything."""
    began = time.perf_counter()
    found = baseline.central(study, data, _rng(seed, baseline.name))
    seconds = time.perf_counter() - began
    metrics: dict[str, Any] = {}
    classifiers: dict[str, Model] = {}
    if isinstance(found, dict):
        classifiers = {name: Model(tuple(w.tolist()), None) for name, w in found.items()}
        errors = {} if test is None else {name: error_on(model, test) for name, model in classifiers.items()}
        # Of equals, the first in the roster wins, in both cases.
        chosen = min(errors, key=errors.__getitem__) if errors else max(study.names, key=lambda name: len(data[name].y))
        model = classifiers[chosen]
        metrics = {"chosen": chosen, **({"test_errors": errors} if errors else {})}
    else:
        model = Model(tuple(found.tolist()), None)
    if test is not None:
        metrics["test_error"] = error_on(model, test)
    result = {
        **_header(study, seed),
        "seconds": round(seconds, 3),
        "stages": [],
        "messages": 0,
        "bytes": 0,
        "statement": [claim.to_json() for claim in baseline.statement(study)],
        "metrics": metrics,
    }
    return Simulation(model, result, study, classifiers)


def _header(study: Study, seed: int | None) -> dict[str, Any]:
    return {
        "watermark": WATERMARK,
        "run_id": study.study_id(entry_of(study).version).hex(),
        "version": __version__,
        "study": study.study.name,
        "protocol": study.study.protocol,
        "participant": CHARLIE,
        "parties": study.K,
        "n_features": len(study.features),
        "epsilon": study.privacy.epsilon,
        "delta": study.privacy.delta,
        "calibration": study.privacy.calibration,
        "releases": [],
        "seed": seed,
    }


def _rng(seed: int | None, who: str) -> Rng:
    return SystemRng() if seed is None else SimulationRng(seed, who)


def _check_classifiers(chosen: Mapping[str, Classifier], study: Study, protocol: Protocol) -> None:
    for name in chosen:
        study.party(name)
    if chosen and not protocol.classifiers:
        raise BadInput(
            f"classifiers were given, but {protocol.name} trains the study's own classifier",
            "leave the parties' classifiers out",
        )


class _Metered(Coroutine[Effect, Any, Any]):
    """Charlie's role, which notes the time and the number of frames whenever a stage begins."""

    def __init__(self, role: Coroutine[Effect, Any, Any], table: Table) -> None:
        self._role = role
        self._table = table
        self._marks: list[tuple[str, float, int]] = [("training and joining", time.perf_counter(), 0)]

    def send(self, value: Any) -> Effect:
        """Step the role."""
        effect = self._role.send(value)
        if isinstance(effect, Stage):
            self._marks.append((effect.name, time.perf_counter(), len(self._table.passed)))
        return effect

    def throw(self, *error: Any) -> Effect:
        """Raise an error inside the role."""
        return self._role.throw(*error)

    def close(self) -> None:
        """End the role."""
        self._role.close()

    def __await__(self) -> Generator[Effect, Any, Any]:
        return self._role.__await__()

    def stages(self) -> list[dict[str, Any]]:
        """Return each stage's seconds, messages and bytes, once the role has ended."""
        frames = self._table.passed
        marks = [*self._marks, ("", time.perf_counter(), len(frames))]
        return [
            {
                "name": name,
                "seconds": round(end - start, 3),
                "messages": last - first,
                "bytes": sum(frame.length for frame in frames[first:last]),
            }
            for (name, start, first), (_, end, last) in pairwise(marks)
        ]


def load_split(path: Path | str, study: Study, column: str) -> dict[str, Any]:
    """Read one file with all parties' records; the values of ``column`` are the parties' names.

    Raises
    ------
    BadInput
        The file cannot be used, or its parties are not the study's.
    """
    return entry_of(study).records.grouped(path, study, column)


def load_named(files: Mapping[str, Path | str], study: Study) -> dict[str, Any]:
    """Read one file for each party.

    Raises
    ------
    BadInput
        A file cannot be used, or a name is not that of a party.
    """
    for name in files:
        study.party(name)
    loader = entry_of(study).records
    return {name: loader.one(path, study) for name, path in files.items()}


def _listed(names: Mapping[str, Any] | tuple[str, ...]) -> str:
    return listed(tuple(names)) if names else "nobody"

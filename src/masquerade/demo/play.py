"""The course of a demonstration: start all participants, watch them, and report how the run ended."""

import json
import threading
import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from masquerade.demo.comparison import Comparison, compare, encoded
from masquerade.demo.plan import Plan, classifiers
from masquerade.demo.processes import Event, Participants, error_from
from masquerade.demo.view import View
from masquerade.prediction import load_model
from masquerade.simulation import simulate
from masquerade.stand_in import stand_in
from masquerade.workers import one_thread
from masquerade.working import Working
from masquerade_core.data.schema import Encoder
from masquerade_core.errors import MasqueradeError, RunFailed
from masquerade_core.learning.classifiers import named
from masquerade_core.study import CHARLIE
from masquerade_curator.options import CuratorOptions
from masquerade_party.options import PartyOptions
from masquerade_protocols import protocol_of

__all__ = ["Played", "play", "play_in_memory"]

_TICK = 0.1
_VERDICT = 2.0  # seconds that Charlie has to end by himself after a party has failed


@dataclass(frozen=True)
class Played:
    """The end of a demonstration.

    Parameters
    ----------
    result : dict
        Charlie's ``result.json``.
    ciphertexts : int
        How many all participants sent together, each counted once for each recipient.
    comparison : Comparison
    seconds : float
        From the first process's start to the last one's end.
    """

    result: dict[str, Any]
    ciphertexts: int
    comparison: Comparison
    seconds: float


def play_in_memory(plan: Plan, working: Working) -> Played:
    """Run Charlie and the parties in this process; the files say that this is a simulation."""
    began = time.monotonic()
    study = plan.study
    encoder = Encoder.from_study(study, protocol_of(study).records.coding)
    with working, one_thread():  # with few records each, threads wait longer than they compute
        working.say(f"the run: {study.K} parties learn, and Charlie learns from them")
        simulation = simulate(
            study,
            {name: encoded(records, encoder, study) for name, records in plan.cohort.parties.items()},
            test=encoded(plan.cohort.test, encoder, study),
            classifiers={name: named(kind) for name, kind in classifiers(study).items()},
            auxiliary=plan.auxiliary,
        )
        simulation.write(plan.home(CHARLIE))
        seconds = time.monotonic() - began
        compared = compare(study, plan.cohort, simulation.model, plan.auxiliary, working.say)
    return Played(simulation.result, 0, compared, seconds)


def play(plan: Plan, view: View, working: Working) -> Played:
    """Run Charlie and the parties to their end.

    Parameters
    ----------
    plan : Plan
    view : View
        Shows the run.
    working : Working
        Says what is computed after it.

    Raises
    ------
    MasqueradeError
        With Charlie's message and exit code; a party that failed before him is quoted first.
    """
    began = time.monotonic()
    with Participants() as participants:
        with view:
            _start(plan, participants, view)
            _watch(participants, view)
        seconds = time.monotonic() - began
    results = {
        who: json.loads((plan.home(who) / "result.json").read_text(encoding="utf-8"))
        for who in (CHARLIE, *plan.study.names)
    }
    released = load_model(plan.home(CHARLIE) / "model.json")
    ciphertexts = sum(result["ciphertexts"] for result in results.values())
    with working:
        compared = compare(plan.study, plan.cohort, released, plan.auxiliary, working.say)
    return Played(results[CHARLIE], ciphertexts, compared, seconds)


def _start(plan: Plan, participants: Participants, view: View) -> None:
    def common(who: str) -> dict[str, Any]:
        state = plan.state_folder(who)
        return {"study": plan.study_file, "key": plan.key_file(who), "out": plan.home(who), "state": state}

    charlie = CuratorOptions(**common(CHARLIE), test=plan.test_file)
    participants.start(CHARLIE, "masquerade_curator", [*charlie.words(), "--progress=json"])
    view.tell(Event(CHARLIE, "started", {}))
    chosen = classifiers(plan.study)
    for name in plan.study.names:
        state, data = plan.state_folder(name), str(plan.data_file(name))
        stand_in(plan.study, plan.study_file, plan.key_file(name), plan.data_file(name), state, "the demonstration")
        party = PartyOptions(**common(name), data=data, approved=True, classifier=chosen.get(name))
        participants.start(name, "masquerade_party", [*party.words(), "--progress=json"])
        view.tell(Event(name, "started", {}))
        view.tick()
    # The figures after the run need it, and loading it takes seconds. This process has nothing else to do meanwhile.
    threading.Thread(target=import_module, args=("sklearn.linear_model",), daemon=True).start()


def _watch(participants: Participants, view: View) -> None:
    """Show all events until every participant has ended; raise the error of a run that failed."""
    failures: dict[str, MasqueradeError] = {}
    patience: float | None = None
    ended = 0
    while ended < participants.count:
        event = participants.hear(_TICK)
        view.tick()
        if event is not None:
            view.tell(event)
            ended += event.name == "exit"
            if (failure := _failure(event)) is not None:
                failures.setdefault(event.who, failure)
                patience = patience or time.monotonic() + _VERDICT
        if CHARLIE in failures or (patience is not None and time.monotonic() > patience):
            break
    if failures:
        raise _verdict(failures)


def _verdict(failures: dict[str, MasqueradeError]) -> MasqueradeError:
    """Choose Charlie's error and exit code; a party that failed before him is quoted first."""
    first = next(iter(failures.values()))
    charlies = failures.get(CHARLIE, first)
    if charlies is first:
        return first
    charlies.message = f"{first.message}; {charlies.message}"
    charlies.hint = first.hint or charlies.hint
    return charlies


def _failure(event: Event) -> MasqueradeError | None:
    if event.name == "error":
        return error_from(event.who, event.fields)
    if event.name == "exit" and event.fields["code"] != 0:
        code, stderr = event.fields["code"], event.fields["stderr"].strip()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return RunFailed(f"{event.who} {how}", stderr.splitlines()[-1] if stderr else "")
    return None

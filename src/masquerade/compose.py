"""The composed run: one participant per container, and a common folder through which they find each other.

``python -m masquerade.compose curator`` and ``... party`` are what ``docker-compose.yml`` starts. The containers share
one folder for public things alone::

    party                                   curator
      | makes its keys                        | makes its keys
      |--- <fingerprint>.pub ---------------->| waits for PARTIES of them and names their owners
      |<---------------- study.toml ----------| and writes the study
      | finds its name by its key             |
      | takes its part of the example data    |
      |<============ the run ================>|

The folder takes the place of the telephone and the e-mail of a real study, where people compare the fingerprints of
keys. Here nobody does so.

In a real run a party waits for Charlie as long as its owner lets it. Nobody watches these containers, so a party ends
soon after Charlie's process has ended (:mod:`masquerade.alive`).
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from masquerade.alive import show_life, while_alive
from masquerade.coefficients_view import coefficients_report, read_coefficients
from masquerade.console import literal_console
from masquerade.datasets import suited
from masquerade.demo.plan import AUXILIARY, classifiers
from masquerade.draft import Draft, auxiliary_file
from masquerade.report import result_report
from masquerade.stand_in import stand_in
from masquerade_core.errors import BadInput, DeadlinePassed
from masquerade_core.identity import PublicKeys
from masquerade_core.privacy.expectation import Verdict
from masquerade_core.study import Study
from masquerade_core.study_files import load_study
from masquerade_core.words import counted
from masquerade_curator import run as run_curator
from masquerade_host.process.process import harden
from masquerade_host.process.progress import Mode, Progress
from masquerade_host.store.keyfiles import Keys, load_keys
from masquerade_host.store.new_keys import make_keys
from masquerade_party import run as run_party
from masquerade_protocols import Protocol, entry_named, protocol_of

__all__ = ["curator", "main", "party"]

MEETING = Path("/meeting")
KEY = Path("/keys/private/participant.key")
STATE = Path("/keys/state")  # on the same volume, so that it outlives the container
SCRATCH = Path("/tmp")  # noqa: S108 - the only place where a read-only container can write, and its own
ALIVE = MEETING / "charlie.alive"
READY = SCRATCH / "ready"
PORT = 5555
_PATIENCE = 120.0  # seconds for everybody's container to start
_LOOK_EVERY = 0.2

T = TypeVar("T")


def _keys() -> Keys:
    """Return this container's keys; an earlier start may have made them already."""
    return load_keys(KEY) if KEY.exists() else make_keys(KEY)


def _publish(path: Path, text: str) -> None:
    """Write a file such that nobody can read a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.rename(path)


def _await(look: Callable[[], T | None], what: str) -> T:
    until = time.monotonic() + _PATIENCE
    while (found := look()) is None:
        if time.monotonic() > until:
            raise DeadlinePassed(
                f"{what} did not come within {_PATIENCE:g} seconds",
                "check with docker compose ps that all containers run",
            )
        time.sleep(_LOOK_EVERY)
    return found


def curator(parties: int, protocol: str, runs: Path, progress: Progress, calibration: str | None = None) -> None:
    """Act as Charlie: collect the keys, write the study, run it, and print the result."""
    keys = _keys()
    folder = MEETING / "keys"
    folder.mkdir(parents=True, exist_ok=True)
    READY.touch()

    def everybody() -> list[Path] | None:
        found = sorted(folder.glob("*.pub"))
        return found if len(found) >= parties else None

    halves = [PublicKeys.parse(path.read_text()) for path in _await(everybody, f"the keys of {parties} parties")]
    if len(halves) != parties:
        raise BadInput(
            f"there are keys of {counted(len(halves), 'party', 'parties')}, but the run is for {parties}",
            "an earlier run may have left its keys: run docker compose down --volumes, and start again",
        )
    entry = entry_named(protocol)
    cohort = suited(entry, parties)
    if entry.auxiliary:
        cohort = cohort.with_auxiliary()
    study = SCRATCH / "study.toml"
    study.unlink(missing_ok=True)
    auxiliary = None
    if cohort.auxiliary is not None:
        points = cohort.auxiliary.to_csv()
        for place in (SCRATCH, MEETING):
            _publish(place / AUXILIARY, points)
        auxiliary = auxiliary_file(SCRATCH / AUXILIARY, cohort.features)
    records = sum(len(part.rows) for part in cohort.parties.values())
    draft = Draft(
        parties=list(zip(cohort.parties, halves, strict=True)),
        curator_key=keys.public,
        name="compose",
        protocol=protocol,
        calibration=calibration,
        auxiliary=auxiliary,
        address=f"tcp://curator:{PORT}",
        features=cohort.features,
        label=cohort.label,
        min_records=cohort.min_records,
        expected_records=records,
        deadline_seconds=120.0,
        regularization=cohort.regularization_for(entry),
        intercept=cohort.intercept,
    )
    text = draft.write(study)
    _refuse_what_cannot_learn(entry, load_study(study)[0])
    test = SCRATCH / "test.csv"
    test.write_text(cohort.test.to_csv(), encoding="utf-8")
    _publish(MEETING / "study.toml", text)
    out = runs / time.strftime("%Y%m%d-%H%M%S")
    address = f"tcp://0.0.0.0:{PORT}"
    result = run_curator(study, KEY, out=out, test=test, listen=address, state=STATE, observe=progress)
    console = literal_console(width=110)
    console.print(*result_report(json.loads(result.read_text(encoding="utf-8"))))
    if (coefficients := read_coefficients(result.parent)) is not None:
        console.print(*coefficients_report(coefficients))


def _refuse_what_cannot_learn(entry: Protocol, study: Study) -> None:
    expected = entry.expectation(study) if entry.expectation is not None else None
    if expected is None or expected.verdict is not Verdict.NOTHING:
        return
    instead = "which compares the model with others"
    if entry.protects_parties:
        instead = "which has enough parties, all in one process"
    raise BadInput(
        f"{entry.name} was asked for with {counted(study.K, 'party', 'parties')}, but such a run cannot learn. "
        f"{expected.text}",
        f"run 'masquerade demo --protocol {entry.name}', {instead}; or give another PROTOCOL",
    )


def party(progress: Progress) -> None:
    """Act as a party: publish the key, find its name in the study, and take part with its part of the example data."""
    keys = _keys()
    _publish(MEETING / "keys" / f"{keys.public.fingerprint().replace(' ', '')}.pub", str(keys.public))
    READY.touch()

    def study_with_me() -> Study | None:
        path = MEETING / "study.toml"
        # The folder may still hold the study of an earlier start. The study that counts has this container's key.
        study = load_study(path)[0] if path.exists() else None
        return study if study and any(p.key == keys.public for p in study.parties) else None

    study = _await(study_with_me, "the study")
    me = study.name_of(keys.public)
    cohort = suited(protocol_of(study), study.K)
    data = SCRATCH / "records.csv"
    data.write_text(cohort.parties[me].to_csv(), encoding="utf-8")
    out, own = SCRATCH / f"run-{time.time_ns()}", classifiers(study).get(me)
    path = MEETING / "study.toml"
    stand_in(study, path, KEY, data, STATE, "the composed run")
    run_party(path, data, KEY, classifier=own, out=out, state=STATE, approved=True, observe=progress)


def _start(arguments: list[str], progress: Progress) -> None:
    match arguments:
        case ["curator"]:
            settings = os.environ
            protocol, calibration = settings["MASQUERADE_PROTOCOL"], settings.get("MASQUERADE_CALIBRATION") or None
            parties, runs = int(settings["MASQUERADE_PARTIES"]), Path(settings["MASQUERADE_RUNS"])
            with show_life(ALIVE):
                curator(parties, protocol, runs, progress, calibration)
        case ["party"]:
            with while_alive(ALIVE):
                party(progress)
        case _:
            raise BadInput(
                f"the arguments are {' '.join(arguments) or 'missing'}, but they must be curator or party",
                "correct the command in docker-compose.yml",
            )


def main() -> int:
    """Start the participant that the arguments name, and return its exit code."""
    harden()
    progress = Progress(Mode.TEXT)
    try:
        _start(sys.argv[1:], progress)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the process's outermost edge
        return progress.end(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())

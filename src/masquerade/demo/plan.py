"""The files of a demonstration: each participant has a directory of its own, as it would have a machine of its own."""

import shutil
import socket
import time
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from masquerade.datasets import Cohort
from masquerade.draft import Draft, auxiliary_file, throwaway_key
from masquerade.drafting import run_settings
from masquerade_core.data.auxiliary import Auxiliary
from masquerade_core.errors import BadInput
from masquerade_core.learning.classifiers import SHORT_NAMES
from masquerade_core.study import CHARLIE, Study
from masquerade_core.study_files import load_study
from masquerade_core.words import counted, listed
from masquerade_host.store.new_keys import make_keys
from masquerade_host.store.state import private_folder
from masquerade_protocols import PROTOCOLS, entry_named, protocol_of

__all__ = ["MOST_PROCESSES", "Plan", "classifiers", "discard", "prepare"]

MOST_PROCESSES = 64
"""The most parties that a demonstration has as processes; more of them meet in memory."""

AUXILIARY = "auxiliary.csv"
_LOOPBACK = "127.0.0.1"
_DEADLINE_SECONDS = 120.0
_AUXILIARY_OF_MANY = 500  # each point takes a draw of noise at each of the parties


@dataclass(frozen=True)
class Plan:
    """Where the files of a demonstration are.

    Parameters
    ----------
    directory : Path
        Of mode 0700; holds ``study.toml``, ``test.csv`` and a directory for each participant.
    study : Study
    cohort : Cohort
    auxiliary : Auxiliary or None
        The public records that the study names, where it names any.
    """

    directory: Path
    study: Study
    cohort: Cohort
    auxiliary: Auxiliary | None = None

    @property
    def in_memory(self) -> bool:
        """Whether all parties and Charlie are in one process, since they are too many for processes."""
        return self.study.K > MOST_PROCESSES

    @property
    def study_file(self) -> Path:
        """The study."""
        return self.directory / "study.toml"

    @property
    def auxiliary_file(self) -> Path:
        """The public records without labels, where there are any."""
        return self.directory / AUXILIARY

    @property
    def test_file(self) -> Path:
        """The public test set."""
        return self.directory / "test.csv"

    def key_file(self, who: str) -> Path:
        """A participant's secret keys."""
        return self.directory / who / f"{who}.key"

    def data_file(self, who: str) -> Path:
        """A party's records."""
        return self.directory / who / "records.csv"

    def state_folder(self, who: str) -> Path:
        """The state that a party's machine keeps from run to run: its privacy budget and its approvals."""
        return self.directory / who / "state"

    def home(self, who: str) -> Path:
        """A participant's directory, where its results go too."""
        return self.directory / who


def prepare(
    cohort: Cohort,
    *,
    epsilon: float,
    protocol: str,
    directory: Path | None,
    rounds: int | None = None,
    calibration: str | None = None,
    like: Study | None = None,
) -> Plan:
    """Make keys, a study and data files.

    Parameters
    ----------
    cohort : Cohort
    epsilon : float
        The privacy target.
    protocol : str
        Its name.
    directory : path, optional
        Empty or not there yet; ``runs/demo-<time>`` by default.
    rounds : int, optional
        How many, for a protocol that has rounds; the protocol's default if None.
    calibration : str, optional
        "proven" or "paper"; that of ``like`` or of a new study if None.
    like : Study, optional
        It gives delta, the colluders, the loss and, if it has the same protocol, that protocol's settings.

    Raises
    ------
    BadInput
        The directory is in use; the protocol is unknown or a baseline; or the values make no valid study.
    """
    names = tuple(cohort.parties)
    if len(names) < 2:  # noqa: PLR2004
        raise BadInput(
            f"there is {counted(len(names), 'party', 'parties')}, but a demonstration needs at least 2",
            "give --parties 2 or more",
        )
    entry = entry_named(protocol)
    if entry.baseline:
        raise BadInput(
            f"{protocol!r} is a baseline: one person holds everybody's records, so there is no conversation to show",
            f"run it with 'masquerade simulate', or choose one of the protocols {listed(list(PROTOCOLS))}",
        )
    if not entry.makes_model:
        raise BadInput(
            f"{protocol!r} makes no model, and a demonstration compares models",
            "write a study with 'masquerade study new', and run it with 'masquerade simulate' or between processes",
        )
    if entry.measures:
        raise BadInput(
            f"{protocol!r} measures a model that exists, so a demonstration has nothing to learn with it",
            f"choose one of the protocols {listed(list(PROTOCOLS))}",
        )
    where = directory if directory is not None else Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")
    ours = _make(where)
    if entry.auxiliary:
        cohort = cohort.with_auxiliary(_AUXILIARY_OF_MANY) if len(names) > MOST_PROCESSES else cohort.with_auxiliary()
    try:
        new = {"protocol": protocol, "calibration": calibration}
        settings = new if like is None else run_settings(like, protocol, calibration)
        return _fill(where, cohort, {**settings, "epsilon": epsilon, "rounds": rounds})
    except BaseException:
        discard(where, ours=ours)
        raise


def _fill(where: Path, cohort: Cohort, settings: dict[str, Any]) -> Plan:
    names = tuple(cohort.parties)
    if len(names) > MOST_PROCESSES:
        (where / CHARLIE).mkdir(mode=0o700)
        keys = {who: throwaway_key() for who in (CHARLIE, *names)}
        settings = {**settings, "sum": "masks"}  # encrypted sums of so many would take minutes
    else:
        for who in (CHARLIE, *names):
            (where / who).mkdir(mode=0o700)
        keys = {who: make_keys(where / who / f"{who}.key").public for who in (CHARLIE, *names)}
    auxiliary = None
    if cohort.auxiliary is not None:
        (where / AUXILIARY).write_text(cohort.auxiliary.to_csv(), encoding="utf-8")
        auxiliary = auxiliary_file(where / AUXILIARY, cohort.features)
    draft = Draft(
        parties=[(name, keys[name]) for name in names],
        curator_key=keys[CHARLIE],
        name="demo",
        auxiliary=auxiliary,
        address=f"tcp://{_LOOPBACK}:{_free_port()}",
        features=cohort.features,
        label=cohort.label,
        min_records=cohort.min_records,
        expected_records=max(cohort.min_records * len(names), sum(len(part.rows) for part in cohort.parties.values())),
        deadline_seconds=_DEADLINE_SECONDS,
        regularization=cohort.regularization_for(entry_named(settings["protocol"])),
        intercept=cohort.intercept,
        **settings,
    )
    draft.write(where / "study.toml")
    study, points = load_study(where / "study.toml")
    plan = Plan(where, study, cohort, points)
    for name, records in () if plan.in_memory else cohort.parties.items():
        plan.data_file(name).write_text(records.to_csv(), encoding="utf-8")
    plan.test_file.write_text(cohort.test.to_csv(), encoding="utf-8")
    return plan


def classifiers(study: Study) -> dict[str, str]:
    """Return each party's classifier, in a protocol of votes: one kind after the other, since every kind can vote.

    Of very many parties, the forests have 10 trees.
    """
    kinds = tuple(SHORT_NAMES) if protocol_of(study).classifiers else ()
    if study.K > MOST_PROCESSES:
        kinds = tuple(f"{SHORT_NAMES[kind]}(n_estimators=10)" if kind == "forest" else kind for kind in kinds)
    return dict(zip(study.names, cycle(kinds), strict=False))


def discard(directory: Path, *, ours: bool) -> None:
    """Remove the files of a demonstration that failed, since they are copies of records, and keys."""
    for entry in directory.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if ours:
        directory.rmdir()


def _make(directory: Path) -> bool:
    """Make the directory, and say whether it is new."""
    try:
        ours = not directory.exists()
        private_folder(directory)
        if any(directory.iterdir()):
            raise BadInput(
                f"the directory {directory} is not empty", "choose another directory with --out, or empty it"
            )
        directory.chmod(0o700)
    except OSError as error:
        raise BadInput(
            f"{directory} cannot be used: {error.strerror}", "choose another directory with --out"
        ) from error
    return ours


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port

"""What is to become of a study in the inbox: refused, waiting for a person, or ready; and the run that it would be."""

import shlex
from contextlib import closing
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from masquerade_core.data.auxiliary import load_study
from masquerade_core.data.queries import Query, data_at
from masquerade_core.errors import BadInput, BudgetExceeded, MasqueradeError, RefusedLocally
from masquerade_core.identity import PublicKeys
from masquerade_core.privacy.accounting.composition import DELTA_UNITS, UNITS
from masquerade_core.study import CHARLIE, AuxiliaryFile, Study
from masquerade_host.approvals import find_approval
from masquerade_host.keyfiles import load_keys
from masquerade_host.run_files import RESULT
from masquerade_host.state import state_folder
from masquerade_party._site import Site
from masquerade_party.serving.folders import Mark, mark_of
from masquerade_party.serving.settings import DataSet, Settings
from masquerade_protocols import protocol_of

__all__ = ["Facts", "Judge", "Kind", "Known", "Verdict"]


class Kind(Enum):
    """What a verdict says."""

    REFUSED = auto()
    WAITS = auto()
    READY = auto()


@dataclass(frozen=True)
class Facts:
    """What stands in a study that the record of it shows: its name, its fingerprint, and which party this site is."""

    study: str = ""
    fingerprint: str = ""
    participant: str = ""


@dataclass(frozen=True)
class Verdict:
    """What is to become of a study, and why.

    Attributes
    ----------
    kind : Kind
    error : MasqueradeError or None
        The reason; None where nothing stands in the way.
    facts : Facts
    """

    kind: Kind
    error: MasqueradeError | None = None
    facts: Facts = Facts()


@dataclass(frozen=True)
class Known:
    """A study that could be read, and what its run on this machine would be.

    Attributes
    ----------
    facts : Facts
    records : str
        What ``--data`` gets.
    file : Path or None
        The same, if it is a file or a folder and no query.
    key, results : Path
        What ``--key`` and ``--out`` get.
    state : Path or None
        What ``--state`` gets, if anything.
    population : str or None
        What ``--population`` gets, if anything.
    journal : Path
        The folder of the run's journal.
    beside : str
        The name of the file with auxiliary records that must lie beside the study; "" where it needs none.
    """

    facts: Facts
    records: str
    file: Path | None
    key: Path
    results: Path
    state: Path | None
    population: str | None
    journal: Path
    beside: str = ""

    @property
    def begun(self) -> bool:
        """Whether a journal is there: the same command goes on with the run that began."""
        return any(self.journal.glob("journal*"))

    @property
    def over(self) -> bool:
        """Whether the run has its results, and nothing is left to do."""
        return (self.results / RESULT).exists() and not self.begun


class Judge:
    """Reads studies for the data sets of one site.

    Parameters
    ----------
    root : Path
        The site's folder.
    settings : Settings

    Raises
    ------
    BadInput
        A key file, or the address of a database, cannot be used.
    """

    def __init__(self, root: Path, settings: Settings) -> None:
        self._root = root
        self._settings = settings
        for each in settings.data.values():
            self._file(each)  # what cannot be read at all is found now
        files = {self._key(each) for each in settings.data.values()}
        self._read_before: dict[Path, tuple[Mark, Known, Study]] = {}
        self._public: dict[Path, PublicKeys] = {file: load_keys(file).public for file in files}

    def known(self, path: Path, data: str) -> Known:
        """Read a study.

        Raises
        ------
        BadInput
            It is no valid study, or this site is none of its parties.
        """
        return self._read(path, data)[0]

    def verdict(self, path: Path, data: str) -> Verdict:
        """Say what is to become of a study in the inbox. The records are not read."""
        try:
            known, study = self._read(path, data)
        except MasqueradeError as error:
            return Verdict(Kind.REFUSED, error)
        facts = known.facts
        try:
            site = Site(known.state, study, facts.participant)
        except RefusedLocally as error:
            return Verdict(Kind.REFUSED, error, facts)
        except MasqueradeError as error:  # of the policy's file, which is not the study's fault
            return Verdict(Kind.WAITS, error, facts)
        try:
            if (against := self._against(known, site, data)) is not None:
                return Verdict(Kind.REFUSED, against, facts)
            waits = self._missing(known, site, path)
        except (
            MasqueradeError
        ) as error:  # of the ledger, an approval's file or the settings: it stays until it is mended
            waits = error
        return Verdict(Kind.READY if waits is None else Kind.WAITS, waits, facts)

    def _read(self, path: Path, data: str) -> tuple[Known, Study]:
        """Read a study that has changed since the last time."""
        mark = mark_of(path)
        if (before := self._read_before.get(path)) is not None and before[0] == mark:
            return before[1:]
        self._read_before.pop(path, None)
        known, study = self._read_anew(path, data)
        self._read_before[path] = mark, known, study
        return known, study

    def _read_anew(self, path: Path, data: str) -> tuple[Known, Study]:
        if path.is_symlink():
            raise BadInput(f"{path.name} is a symbolic link", "put the study's file itself into the inbox")
        study, _ = load_study(path)
        protocol_of(study)
        mine = self._settings.data[data]
        me = study.name_of(self._public[self._key(mine)])
        if me == CHARLIE:
            raise BadInput("this site's key is Charlie's in this study, and a site is a party", "ask the coordinator")
        file = self._file(mine)
        state = None if mine.state is None else self._root / mine.state
        named = study.protocol.get("auxiliary")
        known = Known(
            facts=Facts(study.study.name, study.fingerprint(), me),
            records=str(file) if isinstance(file, Path) else mine.records,
            file=file if isinstance(file, Path) else None,
            key=self._key(mine),
            results=self._root / self._settings.results / data / f"{study.study.name}-{study.digest().hex()[:8]}",
            state=state,
            population=mine.population,
            journal=state_folder(state).run(study, me),
            beside="" if named is None else AuxiliaryFile.model_validate(named).file,
        )
        return known, study

    def _against(self, known: Known, site: Site, data: str) -> MasqueradeError | None:
        """Return why the ledger does not let a study run, as an error."""
        study, me = site.study, site.me
        approval = find_approval(site.state, study, me)
        if approval is None:
            population = site.policy.population(self._settings.data[data].population, known.file)
        else:
            population = approval.population
        with closing(site.ledger()) as ledger:
            account = site.account(ledger, population)
            if ledger.finished(study, me):
                return RefusedLocally(
                    f"the study {study.study.name} has finished on this machine, and a finished study never runs again",
                    "for a new run, ask for a new study, with a nonce of its own",
                )
            if me in ledger.parties_of(study) or ledger.would_fit(study, me, population, site.spends):
                return None
        return BudgetExceeded(
            f"the study would take epsilon = {site.spends.epsilon / UNITS:.4g} and delta = "
            f"{site.spends.delta / DELTA_UNITS:.3g}, and the budget of {population!r} does not cover it: of its limit, "
            f"epsilon = {account.epsilon:g} and delta = {account.delta:g}, epsilon = {account.left:.4g} and delta = "
            f"{account.delta_left:.3g} are left",
            "decline it, or ask for a smaller epsilon; after 'masquerade budget limit' move it back into the inbox",
        )

    @staticmethod
    def _missing(known: Known, site: Site, path: Path) -> MasqueradeError | None:
        """Return what a person has to do before the study can run, as an error."""
        if known.file is not None and not known.file.exists():
            return BadInput(f"the records {known.file} are not there", "put them there; the study then runs")
        if find_approval(site.state, site.study, site.me) is None:
            data = shlex.quote(str(known.file)) if known.file is not None else "QUERY"  # a query is shown to nobody
            option = "" if known.state is None else f" --state {shlex.quote(str(known.state))}"
            given = f"{shlex.quote(str(path))} --key {shlex.quote(str(known.key))} --data {data}{option}"
            return RefusedLocally(
                f"nobody has approved of this study for {site.me}; its fingerprint is {known.facts.fingerprint}",
                f"read it, and approve of it: masquerade approve {given}",
            )
        return None

    def _key(self, mine: DataSet) -> Path:
        return self._root / (mine.key or self._settings.key)

    def _file(self, mine: DataSet) -> Path | Query:
        found = data_at(mine.records)
        return self._root / found if isinstance(found, Path) else found

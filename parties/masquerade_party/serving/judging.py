"""The decision on a study in the inbox: refused, waiting for a person, or ready; and the run that it would be."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from masquerade_core.errors import BadInput, BudgetExceeded, MasqueradeError, RefusedLocally
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS
from masquerade_core.study import CHARLIE, AuxiliaryFile, Study
from masquerade_core.study_files import load_study
from masquerade_host.store.budget import parties_of, would_fit
from masquerade_host.store.permissions import find_approval
from masquerade_host.store.state import state_folder
from masquerade_party._site import Site, expect_same_code
from masquerade_party.serving.settings import OwnKey, Settings, records_of
from masquerade_party.serving.verdicts import Facts, Kind, Known, Verdict
from masquerade_protocols import plugin_of, protocol_of

__all__ = ["Judge"]


class Judge:
    """Reads studies for the data sets of one site.

    Parameters
    ----------
    root : Path
        The site's folder.
    settings : Settings
    keys : mapping of str to sequence of OwnKey
        The public keys of the site for each data set: the newest, and those that were rotated away. A study's run gets
        the file of the keys that it names.
    """

    def __init__(self, root: Path, settings: Settings, keys: Mapping[str, Sequence[OwnKey]]) -> None:
        self._root = root
        self._settings = settings
        self._keys = keys

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
        state = state_folder(known.state)
        ledger = (state.ledger, state.ledger.with_name(f"{state.ledger.name}-wal"), state.ledger.with_suffix(".lines"))
        rests_on = (state.approval(study, facts.participant), state.policy, *ledger, *filter(None, [known.file]))
        try:
            site = Site(known.state, study, facts.participant)
        except RefusedLocally as error:
            return Verdict(Kind.REFUSED, error, facts, known, rests_on)
        except MasqueradeError as error:  # of the policy's file, which is not the study's fault
            return Verdict(Kind.WAITS, error, facts, known, rests_on)
        try:
            if (against := self._against(known, site, data)) is not None:
                return Verdict(Kind.REFUSED, against, facts, known, rests_on)
            waits = self._missing(known, site, path)
        except (
            MasqueradeError
        ) as error:  # of the ledger, an approval's file or the settings: it stays until it is mended
            waits = error
        return Verdict(Kind.READY if waits is None else Kind.WAITS, waits, facts, known, rests_on)

    def _read(self, path: Path, data: str) -> tuple[Known, Study]:
        study, _ = load_study(path, links=False)
        mine = self._settings.data[data]
        own = self._keys[data]
        public, key = next((each for each in own if study.names_key(each[0])), own[0])
        me = study.name_of(public)
        if me == CHARLIE:
            raise BadInput("this site's key is Charlie's in this study, and a site is a party", "ask the coordinator")
        file = records_of(self._root, mine)
        state = None if mine.state is None else self._root / mine.state
        if plugin_of(study) is not None:
            expect_same_code(state_folder(state), study, me)
        protocol_of(study)
        named = study.protocol.get("auxiliary")
        known = Known(
            facts=Facts(study.study.name, study.fingerprint(), me),
            records=str(file) if isinstance(file, Path) else mine.records,
            file=file if isinstance(file, Path) else None,
            key=key,
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
                    "for a new run, ask for a new study, with its own nonce",
                )
            if me in parties_of(ledger, study) or would_fit(ledger, study, me, population, site.spends):
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
                f"this study has not been approved for {site.me}; its fingerprint is {known.facts.fingerprint}",
                f"read it, and approve it: masquerade approve {given}",
            )
        return None

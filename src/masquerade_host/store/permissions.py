"""The permissions of a site: a person's yes to a study, and the rules of the file ``policy.toml``.

*A person's yes* is recorded (:mod:`masquerade_host.store.approving`): which study, as which participant, on which
population's budget, who and when. A record stands for one study *fingerprint*. A study whose file was changed in any
way has not been approved.

*The rules* in ``policy.toml``, in the state folder, say which studies this machine may take part in. The person
responsible for a site's data writes the file once. Every rule is optional, and a missing file forbids nothing. A study
that breaks a rule is refused here, before anything is sent, no matter who approved it.

.. code-block:: toml

    [study]
    coordinators = ["mq1:..."]         # the only curators' keys
    protocols = ["dp-whitened"]
    calibrations = ["proven"]
    max_epsilon = 1.0
    max_delta = 1e-6
    min_parties = 3
    min_colluders = 1                  # how many colluders the noise must allow for

    [budget]                           # the largest limits of a population's budget, for all studies together
    max_epsilon = 10.0
    max_delta = 1e-5

    [[population]]                     # whose records these are: they share one budget
    name = "patients"
    data = ["/srv/data/records.csv"]   # the only files of that population
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from masquerade_core.bounded import read_text, toml_of
from masquerade_core.data.files import Data, data_at
from masquerade_core.errors import BadInput, RefusedLocally
from masquerade_core.identity import PublicKeysField
from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS, Cost, cost_of, up
from masquerade_core.study import Study
from masquerade_core.study.sections import Section
from masquerade_core.study.text import first_repeated
from masquerade_core.words import counted, listed
from masquerade_host.store.state import StateFolder

__all__ = [
    "DEFAULT_POPULATION",
    "Approval",
    "BudgetRules",
    "Compared",
    "Policy",
    "Population",
    "Rules",
    "StudyRules",
    "find_approval",
    "load_policy",
    "need_approval",
]


DEFAULT_POPULATION = "default"
"""The population of all records where the policy names none."""

_Name = Annotated[str, Field(pattern=r"\A[a-z0-9][a-z0-9-]{0,31}\z")]
_Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Delta = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
_MOST_BYTES = 1 << 20


class StudyRules(Section):
    """``[study]``: what each single study must be."""

    coordinators: Annotated[tuple[PublicKeysField, ...] | None, Field(strict=False, min_length=1)] = None
    protocols: Annotated[tuple[_Name, ...] | None, Field(strict=False, min_length=1)] = None
    calibrations: Annotated[tuple[Literal["paper", "proven"], ...] | None, Field(strict=False, min_length=1)] = None
    max_epsilon: _Epsilon | None = None
    max_delta: _Delta | None = None
    min_parties: Annotated[int, Field(ge=1)] | None = None
    min_colluders: Annotated[int, Field(ge=0)] | None = None


class BudgetRules(Section):
    """``[budget]``: the largest limits that the budget of a population may have, for all studies together."""

    max_epsilon: _Epsilon | None = None
    max_delta: _Delta | None = None


class Population(Section):
    """``[[population]]``: the people whose records share one budget, and the files that hold records of theirs."""

    name: _Name
    data: Annotated[tuple[str, ...] | None, Field(strict=False, min_length=1)] = None

    @field_validator("data")
    @classmethod
    def _absolute(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for text in value or ():
            try:
                data = data_at(text)
            except BadInput as error:
                raise ValueError(error.message) from None
            if not _is_absolute(text, data):
                raise ValueError(f"is {str(data)!r}, but must be an absolute path, such as /srv/data/records.csv")
        return value

    def holds(self, data: Data) -> bool:
        """Return whether the policy names this file or query as one of the population's."""
        return any(_resolved(data_at(text)) == _resolved(data) for text in self.data or ())


def _resolved(data: Data) -> Data:
    return data.resolve() if isinstance(data, Path) else data


def _is_absolute(text: str, data: Data) -> bool:
    """Return whether a place is the same from every folder: a query to a file has three slashes then."""
    if isinstance(data, Path):
        return data.is_absolute()
    return data.scheme == "postgresql" or text.partition("://")[2][:1] in {"/", " "}


class Rules(Section):
    """The whole file."""

    study: StudyRules = StudyRules()
    budget: BudgetRules = BudgetRules()
    populations: Annotated[tuple[Population, ...], Field(alias="population", strict=False)] = ()

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if (name := first_repeated([p.name for p in self.populations])) is not None:
            raise ValueError(f"population {name!r} appears twice; give it one [[population]] with all its files")
        files = [_resolved(data_at(text)) for p in self.populations for text in p.data or ()]
        if (path := next((file for i, file in enumerate(files) if file in files[:i]), None)) is not None:
            raise ValueError(f"{path} belongs to two populations, but its records are charged to one budget")
        return self


@dataclass(frozen=True)
class Policy:
    """The rules of this site, and the file where they stand.

    Parameters
    ----------
    path : Path
        The file, which errors name. It need not exist.
    rules : Rules
    """

    path: Path
    rules: Rules = field(default_factory=Rules)

    def check(self, study: Study, spends: Cost | None = None) -> None:
        """Refuse a study that a rule forbids.

        Parameters
        ----------
        study : Study
        spends : Cost, optional
            What it takes from the budget, which may be more than its target: a paper's noise may keep less than that.
            By default its target.

        Raises
        ------
        RefusedLocally
            The sentence names each rule that forbids it, what the study has, and what is allowed.
        """
        self._refuse([*self._broken(study), *self._too_dear(study, spends)])

    def check_budget(self, population: str, epsilon: float, delta: float) -> None:
        """Refuse to run on a budget that is larger than all studies together may cost.

        Parameters
        ----------
        population : str
        epsilon, delta : float
            The limit of its budget, which the ledger enforces.

        Raises
        ------
        RefusedLocally
            The limit is above that of ``[budget]``.
        """
        rules, said = self.rules.budget, f"the budget of the population {population!r} is"
        broken = []
        if rules.max_epsilon is not None and epsilon > rules.max_epsilon:
            broken.append(
                f"[budget] max_epsilon: {said} epsilon = {epsilon:g}, where at most {rules.max_epsilon:g} is allowed"
            )
        if rules.max_delta is not None and delta > rules.max_delta:
            broken.append(f"[budget] max_delta: {said} delta = {delta:g}, where at most {rules.max_delta:g} is allowed")
        self._refuse(broken, "lower it with 'masquerade budget limit'")

    def population(self, chosen: str | None = None, data: Data | None = None) -> str:
        """Return the population on whose budget a run counts.

        Parameters
        ----------
        chosen : str, optional
            The one that the person named.
        data : Path or Query, optional
            The file with the records, or the query that gives them.

        Raises
        ------
        RefusedLocally
            The policy does not have this population, or the file is not one of its files.
        BadInput
            The policy has several populations, and nothing says which is meant.
        """
        known = {population.name: population for population in self.rules.populations}
        owner = next((p.name for p in known.values() if data is not None and p.holds(data)), None)
        if not known:
            return chosen or DEFAULT_POPULATION
        names = listed(list(known))
        if chosen is not None and chosen not in known:
            self._refuse(
                [f"[[population]]: there is no population {chosen!r}; the populations are {names}"],
                "choose one of them with --population",
            )
        name = chosen or owner or (next(iter(known)) if len(known) == 1 else None)
        if name is None:
            raise BadInput(
                f"{self.path} has {counted(len(known), 'population')}, {names}, and none of them names this file",
                "say whose records they are with --population, or name the file in the policy",
            )
        if data is not None and owner != name and (owner is not None or known[name].data is not None):
            allowed = listed([str(data_at(text)) for text in known[name].data or ()] or ["no file"])
            whose = f"belongs to the population {owner!r}" if owner else "is not one of its files"
            self._refuse(
                [f"[[population]] data: {data} {whose}, where {allowed} may be used for the population {name!r}"],
                "give a file that the policy names with --data",
            )
        return name

    def names(self, data: Data) -> bool:
        """Return whether the policy names this file or query, so that its records may count unseen on a population."""
        return any(population.holds(data) for population in self.rules.populations)

    def _broken(self, study: Study) -> Iterator[str]:
        """Yield each rule that forbids a study: the rule, what the study has, and what is allowed."""
        rules, target = self.rules.study, study.privacy
        if rules.coordinators is not None and study.curator.key not in rules.coordinators:
            allowed = listed([key.fingerprint() for key in rules.coordinators])
            yield (
                f"[study] coordinators: the curator's key has the fingerprint {study.curator.key.fingerprint()}, where "
                f"the fingerprints allowed are {allowed}"
            )
        if rules.protocols is not None and study.study.protocol not in rules.protocols:
            yield (
                f"[study] protocols: the study's protocol is {study.study.protocol}, where {listed(rules.protocols)} "
                "is allowed"
            )
        if rules.calibrations is not None and target.calibration not in rules.calibrations:
            yield (
                f"[study] calibrations: the study's calibration is {target.calibration}, where "
                f"{listed(rules.calibrations)} is allowed"
            )
        if rules.min_parties is not None and study.survivors < rules.min_parties:
            fewest = f"{counted(study.K, 'party', 'parties')}"
            if study.dropouts is not None:
                fewest += f" and may go on with {study.survivors}"
            yield f"[study] min_parties: the study has {fewest}, where at least {rules.min_parties} are required"
        covered = target.colluders if study.proven else 0
        if rules.min_colluders is not None and covered < rules.min_colluders:
            why = "" if study.proven else ", since its noise is a paper's and not sized for any"
            yield (
                f"[study] min_colluders: the study's noise allows for {counted(covered, 'colluder')}{why}, where at "
                f"least {rules.min_colluders} are required"
            )

    def _too_dear(self, study: Study, spends: Cost | None) -> Iterator[str]:
        """Yield the limits of a single study that its target exceeds, or what it takes from the budget."""
        takes = spends or cost_of(study.privacy.epsilon, study.privacy.delta)
        for name, units in (("epsilon", UNITS), ("delta", DELTA_UNITS)):
            most, asked = getattr(self.rules.study, f"max_{name}"), getattr(study.privacy, name)
            if most is None:
                continue
            if asked > most:
                yield f"[study] max_{name}: the study's {name} is {asked:g}, where at most {most:g} is allowed"
            elif getattr(takes, name) > up(most, units):
                yield (
                    f"[study] max_{name}: the study would take {name} = {getattr(takes, name) / units:.4g} from the "
                    f"budget, where at most {most:g} is allowed"
                )

    def _refuse(self, broken: list[str], remedy: str = "ask the coordinator for a study within the rules") -> None:
        if not broken:
            return
        which = "a rule of this site forbids" if len(broken) == 1 else f"{len(broken)} rules of this site forbid"
        raise RefusedLocally(
            f"{which} this study: {'; '.join(broken)}",
            f"{remedy}; the rules are in {self.path}, and the person responsible for this site's data can change them",
        )


def load_policy(state: StateFolder) -> Policy:
    """Read the site's policy; without the file there are no rules.

    Raises
    ------
    BadInput
        The file cannot be read, or is no valid policy. The sentence says what was seen and what is allowed.
    """
    path = state.policy
    if not os.path.lexists(path):
        return Policy(path)
    data = toml_of(read_text(path, _MOST_BYTES, "policy", "make it a text file that you can read"), path)
    try:
        return Policy(path, Rules.model_validate(data))
    except ValidationError as error:
        from masquerade_core.study.mistakes import explain

        raise BadInput(f"{path}: {explain(error, Rules)}", "docs/policy.md has all rules") from error


# --- A person's yes -----------------------------------------------------------------

_Text = Annotated[str, Field(min_length=1, max_length=128)]


class Compared(BaseModel):
    """Of which other parties this site knows that the keys are theirs, where it joined by an invitation.

    Parameters
    ----------
    code : str
        The code that was compared; empty where none was.
    tries : int
        How often a code was made in this lobby. In each try, a dishonest coordinator has one guess in 2^40.
    heard, known : dict of str to str
        The parties that read the code to this site's person, and those whose keys it compared for an earlier study;
        each with its public keys.
    vouched : dict of str to tuple of str
        Parties that this site did not hear, each with those it heard that vouch for it.
    unheard : tuple of str
        The rest. Each counts as one that sides with Charlie.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    code: str
    tries: int
    heard: dict[str, str] = {}
    known: dict[str, str] = {}
    vouched: dict[str, Annotated[tuple[str, ...], Field(strict=False)]] = {}
    unheard: Annotated[tuple[str, ...], Field(strict=False)] = ()


class Approval(BaseModel):
    """One person's yes to one study.

    Parameters
    ----------
    schema_version : int
        Of this record's form.
    study : str
        The study's name.
    digest : str
        The study's whole hash, in hexadecimal digits. Its fingerprint is the start of it.
    participant, population : str
        As which party this machine takes part, and on whose budget the run counts.
    who : str
        The person.
    when : str
        The time, in UTC.
    version : str
        That of the program which showed the study.
    counted_with : dict of str to str, optional
        The other parties' names, and the fingerprints of their keys, where a run opens the exact number of all their
        records and this party's. A later approval asks for them (:mod:`masquerade_core.privacy.totals`).
    code : str
        Where the protocol is another distribution's: which one, its version, and a hash of its files.
    accepted : tuple of str
        The columns that looked like a mistake in the records, and that the person accepted.
    ranges, but_ranges : str
        Hashes of the study's bounds, levels, edges and fillers, and of all else in it but its name, its nonce and what
        is declared of its purpose. A later study that differs in the first alone is noticed.
    key : str
        The fingerprint of the keys by which the study names this machine's party; "" in older records.
    compared : Compared, optional
        Whose keys were compared, where this site joined by an invitation.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    schema_version: Literal[1] = 1
    study: str
    digest: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    participant: str
    population: str
    who: _Text
    when: str
    version: str
    counted_with: dict[str, str] = {}
    code: str = ""
    accepted: Annotated[tuple[str, ...], Field(strict=False)] = ()
    ranges: str = ""
    but_ranges: str = ""
    compared: Compared | None = None
    key: str = ""


def find_approval(state: StateFolder, study: Study, me: str) -> Approval | None:
    """Return the recorded approval of exactly this study for participant ``me``, or None.

    Raises
    ------
    BadInput
        There is a record, but it cannot be read or says something else than its name.
    """
    path = state.approval(study, me)
    hint = f"remove it, and approve the study again: masquerade approve STUDY --state {state.root}"
    try:
        approval = Approval.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise BadInput(f"the approval {path} cannot be read", hint) from error
    if (approval.digest, approval.participant) != (study.digest().hex(), me):
        raise BadInput(f"the approval {path} is not of the study and participant in its name", hint)
    return approval


def need_approval(state: StateFolder, study: Study, me: str) -> Approval:
    """Return the recorded approval of exactly this study.

    Raises
    ------
    RefusedLocally
        It has not been approved, as participant ``me``, in this state folder.
    """
    if (approval := find_approval(state, study, me)) is not None:
        return approval
    raise RefusedLocally(
        f"this study has not been approved for {me}: its fingerprint is {study.fingerprint()}, and {state.root} holds "
        "no approval of it",
        "read it and approve it with 'masquerade approve STUDY'; 'masquerade study diff OLD NEW' says what changed "
        "since an older one",
    )

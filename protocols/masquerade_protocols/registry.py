"""The protocols by name, baselines among them: one line each. An entry is imported when it is first asked for.

A protocol outside this tree registers itself: its distribution names the entry under ``[project.entry-points]`` in the
group ``masquerade.protocols``. Every process of a run needs it installed. It is loaded only where a study names it
(:mod:`masquerade_protocols.plugins`), and no such name replaces one of this tree.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from masquerade_core.data.loaders import COVARIATES, POINTS
from masquerade_core.errors import BadInput
from masquerade_core.neighbours import NEIGHBOURS
from masquerade_core.privacy.statement import Claim
from masquerade_core.seat import Seat
from masquerade_core.study import Study, check_section
from masquerade_core.words import listed
from masquerade_protocols.blocks.layouts import has_double_masks
from masquerade_protocols.entry import Protocol

if TYPE_CHECKING:
    from masquerade_core.learning.theorems import Theorem
    from masquerade_protocols.plugins import Plugin

__all__ = [
    "BASELINES",
    "DEFAULT_PROTOCOL",
    "MEASUREMENTS",
    "NO_REFUSAL",
    "NO_TIMES",
    "PROTOCOLS",
    "PURPOSES",
    "entry_named",
    "entry_of",
    "plugin_of",
    "protocol_of",
    "register",
    "statement_of",
    "theorems_of",
]

DEFAULT_PROTOCOL = "dp-whitened"
"""The protocol of a new study and of a demonstration: what is proved of it is the study's privacy target."""

PURPOSES = {"prediction": DEFAULT_PROTOCOL, "coefficients": "dp-glm", "statistics": "summary"}
"""The purposes of a study, each with the protocol that suits it."""


class Entries(Mapping[str, Protocol]):
    """Entries by name. The names import nothing; an entry is imported when it is asked for.

    Parameters
    ----------
    package : str
        The package in which all of them are.
    places : mapping of str to str
        Where each is: ``folder.entry:NAME``, below the package.
    """

    def __init__(self, package: str, places: Mapping[str, str]) -> None:
        self._package, self._places = package, dict(places)
        self._made: dict[str, Protocol] = {}

    def __getitem__(self, name: str) -> Protocol:
        if name not in self._made:
            module, _, attribute = self._places[name].partition(":")
            self._made[name] = _complete(getattr(import_module(f"{self._package}.{module}"), attribute))
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __or__(self, other: Mapping[str, Protocol]) -> dict[str, Protocol]:
        return {**self, **other}

    def add(self, entry: Protocol) -> None:
        """Add an entry that is there already."""
        self._places[entry.name], self._made[entry.name] = "", entry


PROTOCOLS = Entries("masquerade_protocols", {
    "dp-whitened": "dp_whitened.entry:DP_WHITENED",
    "dp-glm": "dp_glm.entry:DP_GLM",
    "dp-gd": "dp_gd.entry:DP_GD",
    "local-aggregation": "local_aggregation.entry:LOCAL_AGGREGATION",
    "psgd": "psgd.entry:PSGD",
    "noisy-gradient": "psgd.entry:NOISY_GRADIENT",
    "decaying-budget": "psgd.entry:DECAYING_BUDGET",
    "input-noise": "input_noise.entry:INPUT_NOISE",
    "weighted-dp": "weighted_dp.entry:WEIGHTED_DP",
    "vote": "voting.entry:VOTE",
    "soft": "voting.entry:SOFT",
    "summary": "summary.entry:SUMMARY",
})  # fmt: skip
"""The entries with a conversation that learn a model, by name."""

MEASUREMENTS = Entries("masquerade_protocols", {"evaluation": "evaluation.entry:EVALUATION"})
"""The entries with a conversation that measure a model, by name."""

BASELINES = Entries("masquerade_lab", {
    "gop": "baselines.entry:GOP",
    "central-dp": "baselines.entry:CENTRAL_DP",
    "pooled": "baselines.entry:POOLED",
    "individual": "baselines.entry:INDIVIDUAL",
    "batch": "baselines.entry:BATCH",
    "average": "baselines.entry:AVERAGE",
})  # fmt: skip
"""The entries without a conversation, by name.

They are in the laboratory, above this floor: nothing here imports them, and no process of a run asks for one.
"""


_OURS = frozenset({*PROTOCOLS, *MEASUREMENTS, *BASELINES})


def plugin_of(study: Study) -> "Plugin | None":
    """Return the protocol that a study names if it is another distribution's, without loading it; else None.

    Raises
    ------
    BadInput
        Two distributions have a protocol of this name.
    """
    name = study.study.protocol
    if name in _OURS:
        return None
    from masquerade_protocols.plugins import plugin_named

    return plugin_named(name)


def register(entry: Protocol) -> None:
    """Make a protocol or a baseline known, under its name.

    Raises
    ------
    BadInput
        The name is taken. A name in a study file must not change its meaning.
    """
    if any(entry.name in known for known in (PROTOCOLS, MEASUREMENTS, BASELINES)):
        raise BadInput(f"there are two protocols called {entry.name}", "give the newer one another name")
    (BASELINES if entry.baseline else MEASUREMENTS if entry.measures else PROTOCOLS).add(_complete(entry))


# --- Side channels that no proof counts -----------------------------------------------

NO_REFUSAL = (
    'no party refused to take part because of a record: with out_of_bounds = "refuse" everybody would see that it did, '
    'and no row counts this information; out_of_bounds = "clamp" needs no such assumption'
)
"""The assumption of every proof where a record that does not fit makes a party refuse."""

NO_TIMES = (
    "the times of messages are not covered: an observer of answer times learns roughly how many records a party has; "
    "slot_seconds in [study] lets answers leave on a public schedule"
)
"""The sentence of every row where a study has no public schedule."""


def _with_refusals(entry: Protocol) -> Protocol:
    """Return a protocol's entry whose proofs name what they assume of refusals, where a study's records can cause one.

    Where the study clamps, the entry says what it said before.
    """

    def statement(study: Study) -> tuple[Claim, ...]:
        rows = entry.statement(study)
        if study.study.out_of_bounds == "clamp":
            return rows
        return tuple(
            row if row.epsilon is None else replace(row, assumptions=(*row.assumptions, NO_REFUSAL)) for row in rows
        )

    return replace(entry, statement=statement)


def _with_times(entry: Protocol) -> Protocol:
    """Return a protocol's entry whose statement says that times are not covered, where a study has no ``slot_seconds``.

    Rows without a proof say it as well, since in some statements there are no others.
    """

    def statement(study: Study) -> tuple[Claim, ...]:
        rows = entry.statement(study)
        if study.study.slot_seconds is not None:
            return rows
        return tuple(replace(row, assumptions=(*row.assumptions, NO_TIMES)) for row in rows)

    return replace(entry, statement=statement)


def _with_variants(entry: Protocol) -> Protocol:
    """Return a protocol's entry that also takes studies with several attempts, and with neighbours.

    What these need is loaded for them alone. For any other study the entry says and does what it did before.
    """

    def of(study: Study) -> Protocol:
        if not (study.study.charged_attempts or has_double_masks(study) or study.K > NEIGHBOURS + 1):
            return entry
        from masquerade_protocols.variants import with_attempts, with_neighbours

        return with_attempts(with_neighbours(entry))

    async def party(seat: Seat, study: Study, data: Any, **options: Any) -> Any:
        return await of(study).party(seat, study, data, **options)

    async def charlie(seat: Seat, study: Study, **options: Any) -> Any:
        return await of(study).charlie(seat, study, **options)

    def expectation(study: Study) -> Any:
        found = of(study).expectation
        return None if found is None else found(study)

    return replace(
        entry,
        check=lambda study: of(study).check(study),
        party=party,
        charlie=charlie,
        statement=lambda study: of(study).statement(study),
        explain=lambda study: of(study).explain(study),
        spends=lambda study: of(study).spends(study),
        cost=lambda study: of(study).cost(study),
        expectation=None if entry.expectation is None else expectation,
    )


def _complete(entry: Protocol) -> Protocol:
    """Return an entry with what all of its kind have in common."""
    if entry.records in {POINTS, COVARIATES} and not entry.baseline:
        entry = _with_refusals(entry)
    return entry if entry.baseline else _with_variants(_with_times(entry))


def entry_named(name: str) -> Protocol:
    """Return the protocol or the baseline of this name; BadInput where there is none."""
    for known in (PROTOCOLS, MEASUREMENTS, BASELINES):
        if name in known:
            return known[name]
    from masquerade_protocols.plugins import plugin_named, plugin_names

    if (plugin := plugin_named(name)) is not None:
        register(plugin.load())
        return entry_named(name)
    others = [other for other in plugin_names() if other not in PROTOCOLS]
    raise BadInput(
        f"[study] protocol is {name!r}, but the protocols are {listed([*PROTOCOLS, *others])}, and the baselines are "
        f"{listed(list(BASELINES))}",
        "choose one of them",
    )


def entry_of(study: Study) -> Protocol:
    """Return the protocol or the baseline that a study names, after a check that it can carry the study out.

    Raises
    ------
    BadInput
        There is no such protocol, or its section has an unknown key or a value out of range. Or the protocol cannot
        learn the study's label, needs more parties, or does not have this calibration. Or the key is too short for its
        numbers.
    """
    entry = entry_named(study.study.protocol)
    check_section(entry.parameters, study.protocol, "protocol")
    entry.check_calibration(study)
    entry.check_dropouts(study)
    _check_label(entry, study)
    if not entry.baseline:
        _check_table(entry, study)
    _check_evaluation(entry, study)
    entry.check(study)
    if not (study.lead or entry.baseline) and entry.cost(study).ciphertexts:
        raise BadInput(
            f"[study] has no lead, but {entry.name} encrypts numbers here under a key that one party must hold",
            f"add lead = with the name of one of the parties: {', '.join(study.names)}",
        )
    return entry


def _check_evaluation(entry: Protocol, study: Study) -> None:
    """Refuse a study that holds records back for a protocol which does not."""
    if study.evaluation is None or (entry.evaluates and study.proven):
        return
    which = f'{entry.name} with calibration = "{study.privacy.calibration}"' if entry.evaluates else entry.name
    raise BadInput(
        f"the study has [evaluation], but {which} holds no records back",
        "leave [evaluation] out, and measure the model afterwards with 'masquerade study new --measure'; or choose "
        f'{listed([p.name for p in PROTOCOLS.values() if p.evaluates], "or")} with calibration = "proven"',
    )


def _check_label(entry: Protocol, study: Study) -> None:
    """Refuse a label that is a number, where the protocol cannot fit one."""
    if study.label.number is not None and not entry.numbers:
        able = [p.name for p in PROTOCOLS.values() if p.numbers]
        raise BadInput(
            f"[label] has min and max, so it is a number, but {entry.name} learns to tell values apart",
            "name one value as positive" + (f", or choose {listed(able, 'or')}" if able else ""),
        )


def _check_table(entry: Protocol, study: Study) -> None:
    """Refuse a label or a roster that the protocol cannot handle."""
    if study.multiclass and not entry.multiclass:
        able = [p.name for p in PROTOCOLS.values() if p.multiclass]
        raise BadInput(
            f"[label] has classes, but {entry.name} learns to tell one value from all others",
            "name that value as positive" + (f", or choose {listed(able, 'or')}" if able else ""),
        )
    if study.K == 1 and not entry.alone:
        raise BadInput(f"the roster has one party, but {entry.name} needs two or more", "add parties")


def protocol_of(study: Study) -> Protocol:
    """Return the protocol that a study names, as :func:`entry_of` does; a baseline is refused.

    Raises
    ------
    BadInput
        See :func:`entry_of`; or the study names a baseline.
    """
    name = study.study.protocol
    if name in BASELINES or entry_named(name).baseline:  # the first of the two loads nothing
        raise BadInput(
            f"[study] protocol is {name!r}, a baseline, and a baseline has no conversation: one process holds "
            "everybody's records",
            "run it with 'masquerade simulate'",
        )
    return entry_of(study)


def statement_of(study: Study) -> tuple[Claim, ...]:
    """Return what is claimed and what is proved of a study; there are no rows where the protocol protects nothing.

    Raises
    ------
    BadInput
        See :func:`entry_of`.
    """
    return entry_of(study).statement(study)


def theorems_of(study: Study) -> "tuple[Theorem, ...]":
    """Return the paper's bounds on how good a study's model is; there are none where the paper has no such theorem.

    Raises
    ------
    BadInput
        See :func:`entry_of`.
    """
    entry = entry_of(study)
    return import_module(entry.theorems).theorems(study) if entry.theorems else ()

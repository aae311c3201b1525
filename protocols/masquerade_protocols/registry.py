"""The protocols by name, baselines among them: one line each.

A protocol outside this tree registers itself: its distribution names the entry under ``[project.entry-points]`` in the
group ``masquerade.protocols``. Every process of a run needs it installed.
"""

from importlib.metadata import entry_points

from masquerade_core.data.loading import POINTS
from masquerade_core.errors import BadInput
from masquerade_core.privacy.statement import Claim
from masquerade_core.study import Study, check_section
from masquerade_core.words import listed
from masquerade_protocols.attempts import with_attempts
from masquerade_protocols.baselines.entry import AVERAGE, BATCH, CENTRAL_DP, GOP, INDIVIDUAL, POOLED
from masquerade_protocols.dp_gd.entry import DP_GD
from masquerade_protocols.dp_whitened.entry import DP_WHITENED
from masquerade_protocols.entry import Protocol
from masquerade_protocols.evaluation.entry import EVALUATION
from masquerade_protocols.input_noise.entry import INPUT_NOISE
from masquerade_protocols.local_aggregation.entry import LOCAL_AGGREGATION
from masquerade_protocols.neighbouring import with_neighbours
from masquerade_protocols.psgd.entry import DECAYING_BUDGET, NOISY_GRADIENT, PSGD
from masquerade_protocols.refusing import with_refusals
from masquerade_protocols.summary.entry import SUMMARY
from masquerade_protocols.voting.entry import SOFT, VOTE
from masquerade_protocols.weighted_dp.entry import WEIGHTED_DP

__all__ = [
    "BASELINES",
    "DEFAULT_PROTOCOL",
    "MEASUREMENTS",
    "PROTOCOLS",
    "entry_named",
    "entry_of",
    "protocol_of",
    "register",
    "statement_of",
]

DEFAULT_PROTOCOL = DP_WHITENED.name
"""The protocol of a new study and of a demonstration: what is proved of it is the study's privacy target."""

PROTOCOLS: dict[str, Protocol] = {}
"""The entries with a conversation that learn a model, by name."""

MEASUREMENTS: dict[str, Protocol] = {}
"""The entries with a conversation that measure a model, by name."""

BASELINES: dict[str, Protocol] = {}
"""The entries without a conversation, by name."""


def register(entry: Protocol) -> None:
    """Make a protocol or a baseline known, under its name.

    Raises
    ------
    BadInput
        The name is taken. A name in a study file must not change its meaning.
    """
    if any(entry.name in known for known in (PROTOCOLS, MEASUREMENTS, BASELINES)):
        raise BadInput(f"there are two protocols called {entry.name}", "give the newer one another name")
    if entry.records is POINTS and not entry.baseline:
        entry = with_refusals(entry)
    if not entry.baseline:
        entry = with_attempts(with_neighbours(entry))
    (BASELINES if entry.baseline else MEASUREMENTS if entry.measures else PROTOCOLS)[entry.name] = entry


for _entry in (
    DP_WHITENED,
    DP_GD,
    LOCAL_AGGREGATION,
    PSGD,
    NOISY_GRADIENT,
    DECAYING_BUDGET,
    INPUT_NOISE,
    WEIGHTED_DP,
    VOTE,
    SOFT,
    SUMMARY,
    EVALUATION,
    GOP,
    CENTRAL_DP,
    POOLED,
    INDIVIDUAL,
    BATCH,
    AVERAGE,
):
    register(_entry)

for _point in entry_points(group="masquerade.protocols"):
    register(_point.load())


def entry_named(name: str) -> Protocol:
    """Return the protocol or the baseline of this name; BadInput where there is none."""
    found = PROTOCOLS.get(name) or MEASUREMENTS.get(name) or BASELINES.get(name)
    if found is None:
        raise BadInput(
            f"[study] protocol is {name!r}, but the protocols are {listed(list(PROTOCOLS))}, and the baselines are "
            f"{listed(list(BASELINES))}",
            "choose one of them",
        )
    return found


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
    if not entry.baseline:
        _check_table(entry, study)
    _check_evaluation(entry, study)
    entry.check(study)
    return entry


def _check_evaluation(entry: Protocol, study: Study) -> None:
    """Refuse a study that holds records back for a protocol which does not."""
    if study.evaluation is None or (entry.evaluates and study.proven):
        return
    which = f'{entry.name} with calibration = "{study.privacy.calibration}"' if entry.evaluates else entry.name
    raise BadInput(
        f"the study has [evaluation], but {which} holds no records back",
        "leave [evaluation] out, and measure the model afterwards with 'masquerade evaluate'; or choose "
        f'{listed([p.name for p in PROTOCOLS.values() if p.evaluates], "or")} with calibration = "proven"',
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
    if name in BASELINES:
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

"""The protocols by name."""

from masquerade_core.errors import BadInput
from masquerade_core.privacy.claims import Claim
from masquerade_core.study import Study, check_section
from masquerade_protocols.baselines import BASELINES, baseline_of
from masquerade_protocols.catalogue.dp_gd import DP_GD
from masquerade_protocols.catalogue.gradients import DECAYING_BUDGET, NOISY_GRADIENT, PSGD
from masquerade_protocols.catalogue.input_noise import INPUT_NOISE
from masquerade_protocols.catalogue.local_aggregation import LOCAL_AGGREGATION
from masquerade_protocols.catalogue.voting import SOFT, VOTE
from masquerade_protocols.catalogue.weighted_dp import WEIGHTED_DP
from masquerade_protocols.protocol import Protocol, check_calibration

__all__ = ["PROTOCOLS", "protocol_of", "section_of", "statement_of"]

PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (DP_GD, LOCAL_AGGREGATION, PSGD, NOISY_GRADIENT, DECAYING_BUDGET, INPUT_NOISE, WEIGHTED_DP, VOTE, SOFT)
}


def _named(name: str) -> Protocol:
    if name in BASELINES:
        raise BadInput(
            f"[study] protocol is {name!r}, a baseline: somebody holds everybody's records, and there is nobody to "
            "talk to",
            "run it with 'masquerade simulate'",
        )
    if name not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise BadInput(f"[study] protocol is {name!r}; the protocols are {known}", "correct the study's protocol")
    return PROTOCOLS[name]


def section_of(name: str, calibration: str | None = None) -> str:
    """Return the ``[protocol]`` section of a new study for this protocol; BadInput where there is none of that name."""
    protocol = _named(name)
    proven = (calibration or protocol.calibrations[0]) == "proven"
    return (proven and protocol.proven_section) or protocol.section


def protocol_of(study: Study) -> Protocol:
    """Return the protocol that a study names, after a check that it can carry the study out.

    Raises
    ------
    BadInput
        There is no such protocol; its section has an unknown key or a value out of range; it cannot learn the study's
        label, or not with so few parties; or its numbers fit no key.
    """
    protocol = _named(study.study.protocol)
    check_section(protocol.parameters, study.protocol, "protocol")
    check_calibration(study, protocol.calibrations)
    if study.multiclass and not protocol.multiclass:
        able = [p.name for p in PROTOCOLS.values() if p.multiclass]
        raise BadInput(
            f"[label] has classes, but {protocol.name} learns to tell one value from all others",
            "name that value as positive" + (f", or choose {' or '.join(able)}" if able else ""),
        )
    if study.K == 1 and not protocol.alone:
        raise BadInput(f"the roster has one party, but {protocol.name} needs two or more", "add parties")
    protocol.check(study)
    return protocol


def statement_of(study: Study) -> tuple[Claim, ...]:
    """Return what is claimed and what is proved of a study, a baseline's too; nothing where there is no privacy.

    Raises
    ------
    BadInput
        See :func:`protocol_of` and :func:`~masquerade_protocols.baselines.baseline_of`.
    """
    known = baseline_of(study) if study.study.protocol in BASELINES else protocol_of(study)
    return known.statement(study)

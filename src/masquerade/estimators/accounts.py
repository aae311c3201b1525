"""The debits that a fit would have made to each party's privacy budget, had the parties been machines."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from masquerade_core.privacy.accounting import DELTA_UNITS, UNITS, Cost, Total, cost_of
from masquerade_core.seat import Release
from masquerade_core.study import Study
from masquerade_protocols import Protocol

__all__ = ["Debits", "debits_of", "spending"]


@dataclass(frozen=True)
class Debits:
    """One party's hypothetical cost of a fit.

    Parameters
    ----------
    epsilon, delta : float
        What all its releases keep together, at the study's delta; never more than the study's target. Infinite, and 1,
        for a baseline without any noise.
    releases : tuple of Release
        Each release by itself, in order. A baseline has none, because nobody sends anything: its one model costs the
        study's target.
    """

    epsilon: float
    delta: float
    releases: tuple[Release, ...]


def spending(entry: Protocol, study: Study) -> Cost | None:
    """Return what a whole run takes of a budget; None where nothing is protected, so that no budget is enough."""
    if entry.baseline and not entry.statement(study):
        return None
    return entry.spends(study)


def debits_of(entry: Protocol, study: Study, releases: Mapping[str, Sequence[Release]]) -> dict[str, Debits]:
    """Return each party's debits, as its ledger would have them after the run."""
    whole = spending(entry, study)
    return {name: _debits(whole, tuple(releases.get(name, ())), entry.baseline) for name in study.names}


def _debits(whole: Cost | None, releases: tuple[Release, ...], baseline: bool) -> Debits:
    if whole is None:
        return Debits(math.inf, 1.0, ())
    if baseline:
        return Debits(whole.epsilon / UNITS, whole.delta / DELTA_UNITS, ())
    total = sum((Total.of(cost_of(r.epsilon, r.delta, r.mu, r.slack)) for r in releases), Total()).at_most(whole)
    delta = max(whole.delta, total.delta if not total.mu2 else 0)
    return Debits(total.composed(delta), delta / DELTA_UNITS, releases)

"""All audits, and how they are run."""

import time
from collections.abc import Callable, Sequence
from functools import cache

from masquerade.audit.audit import CONFIDENT, ERROR, Audit, Finding, Gate
from masquerade.audit.claims import claims
from masquerade.audit.counts import count_proofs
from masquerade.audit.known_bugs import known_bugs
from masquerade.audit.moments import moments
from masquerade.audit.proofs import proofs
from masquerade_core.errors import BadInput

__all__ = ["audits", "confident", "run"]

Progress = Callable[[int, int, str], None]
"""(audits done, audits in all, the name of the next)."""


@cache
def audits(protocol: str | None = None) -> tuple[Audit, ...]:
    """Return all audits, or those of one protocol.

    Raises
    ------
    BadInput
        No audit is of that protocol.
    """
    everything = (*claims(), *known_bugs(), *proofs(), *moments(), *count_proofs())
    found = tuple(a for a in everything if protocol in {None, a.protocol})
    if not found:
        known = ", ".join(dict.fromkeys(a.protocol for a in everything))
        raise BadInput(f"there is no audit of a protocol called {protocol!r}", f"choose one of {known}")
    return found


def confident() -> float:
    """Return the chance that one bound on what is proved is too large: all such audits share ``CONFIDENT``."""
    return CONFIDENT / sum(a.gate is Gate.HOLDS for a in audits())


def run(chosen: Sequence[Audit], *, quick: bool = False, progress: Progress = lambda *_: None) -> tuple[Finding, ...]:
    """Run audits.

    Parameters
    ----------
    chosen : sequence of Audit
    quick : bool
        With fewer runs, and without the slow audits.
    progress : callable
        Called before each audit; see :data:`Progress`.
    """
    todo = [a for a in chosen if a.quick or not quick]
    findings = []
    for done, audit in enumerate(todo):
        progress(done, len(todo), audit.name)
        findings.append(_found(audit, audit.quick if quick else audit.runs))
    return tuple(findings)


def _found(audit: Audit, runs: int) -> Finding:
    began, proof = time.perf_counter(), audit.gate is Gate.HOLDS
    error = confident() if proof else ERROR
    bound = audit.bound(runs, error)
    control = audit.bound(runs, error, audit.control) if proof else None
    return Finding(audit, runs, error, bound, control, time.perf_counter() - began)

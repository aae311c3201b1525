"""All audits, and how they are run."""

import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from masquerade_core.errors import BadInput
from masquerade_lab.audit.audit import CONFIDENT, CONTROL, ERROR, Audit, Finding, Gate
from masquerade_lab.audit.bounds import epsilon_bound
from masquerade_lab.audit.claims import claims
from masquerade_lab.audit.counts import count_proofs
from masquerade_lab.audit.known_bugs import known_bugs
from masquerade_lab.audit.led import led_proofs
from masquerade_lab.audit.moments import moments
from masquerade_lab.audit.power import noticed
from masquerade_lab.audit.proofs import proofs
from masquerade_lab.audit.steps import steps

__all__ = ["Progress", "audits", "error_of", "run"]

Progress = Callable[[float, float, str], None]
"""(work done, work in all, the name of the audit and what runs next)."""

_Pair = tuple[NDArray[np.float64], NDArray[np.float64]]

_PARTS = 100  # the fraction of the noise that would be noticed is rounded down to a multiple of 1/100


@cache
def audits(protocol: str | None = None) -> tuple[Audit, ...]:
    """Return all audits, or those of one protocol.

    Raises
    ------
    BadInput
        No audit is of that protocol.
    """
    everything = (*claims(), *known_bugs(), *proofs(), *led_proofs(), *moments(), *steps(), *count_proofs())
    found = tuple(a for a in everything if protocol in {None, a.protocol})
    if not found:
        known = ", ".join(dict.fromkeys(a.protocol for a in everything))
        raise BadInput(f"there is no audit of a protocol called {protocol!r}", f"choose one of {known}")
    return found


def error_of(gate: Gate) -> float:
    """Return the chance that one bound is too large: all audits of a gate share ``CONFIDENT`` or ``ERROR`` equally.

    So by Bonferroni's inequality all bounds of a gate hold together, also in a selection of the audits.
    """
    return (CONFIDENT if gate is Gate.HOLDS else ERROR) / sum(a.gate is gate for a in audits())


def run(chosen: Sequence[Audit], *, quick: bool = False, progress: Progress = lambda *_: None) -> tuple[Finding, ...]:
    """Run audits.

    Parameters
    ----------
    chosen : sequence of Audit
    quick : bool
        With fewer runs, without the slow audits, and without the check of what would have been noticed.
    progress : callable
        Called before each part of an audit, and at the end; see :data:`Progress`.
    """
    todo = [(a, a.quick if quick else a.runs) for a in chosen if a.quick or not quick]
    work, done = sum(_work(*each, quick=quick) for each in todo), 0.0

    def drawn(audit: Audit, runs: int, moved: bool, factor: Fraction) -> NDArray[np.float64]:
        nonlocal done
        progress(done, work, audit.name if factor == 1 else f"{audit.name}, noise x {float(factor):g}")
        scores = audit.drawn(runs, moved, factor)
        done += audit.cost * runs
        return scores

    findings = tuple(_found(audit, runs, partial(drawn, audit, runs), quick=quick) for audit, runs in todo)
    progress(work, work, "")
    return findings


def _work(audit: Audit, runs: int, *, quick: bool) -> float:
    return audit.cost * runs * 2 * (1 if audit.gate is not Gate.HOLDS else 2 if quick else 3)


def _found(audit: Audit, runs: int, drawn: Callable[[bool, Fraction], NDArray[np.float64]], *, quick: bool) -> Finding:
    began, error = time.perf_counter(), error_of(audit.gate)

    def pair(factor: Fraction) -> _Pair:
        return drawn(False, factor), drawn(True, factor)

    def bound(scores: _Pair) -> float:
        return epsilon_bound(*scores, audit.delta, error)

    whole = pair(Fraction(1))
    if audit.gate is not Gate.HOLDS:
        return Finding(audit, runs, error, bound(whole), None, time.perf_counter() - began)
    less = pair(CONTROL)
    x = Fraction(math.floor(_PARTS * noticed(whole, less, audit.epsilon, audit.delta, error)), _PARTS)
    checked = None if quick or not x else bound(pair(x))
    seconds = time.perf_counter() - began
    return Finding(audit, runs, error, bound(whole), bound(less), seconds, float(x), checked)

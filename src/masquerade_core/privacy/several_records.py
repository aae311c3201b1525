"""Rows of a privacy statement about several records together: those of one person, and those of a whole party.

Noise is sized for one record. What it hides of m records follows from what it hides of one (*group privacy*). If one
record is hidden as Gaussian noise hides it, with mu = Delta/sigma, then m records are hidden with m mu, exactly (Dong,
Roth and Su 2022, Theorem 2.14). Of any other guarantee (epsilon, delta) only a weaker one follows: m epsilon, with
delta (exp(m epsilon) - 1)/(exp(epsilon) - 1).
"""

import math
from collections.abc import Callable
from dataclasses import replace

from masquerade_core.privacy.accounting.gaussian_dp import epsilon_of, mu_of
from masquerade_core.privacy.statement import NONE, Claim, not_promised, shown
from masquerade_core.privacy.statement_words import digits, gained
from masquerade_core.study import Study

__all__ = ["ABSURD", "PARTY", "PERSON", "group_bound", "several_records"]

ABSURD = 20.0
"""An epsilon from which on a statement says "none": a guess could become all but certain."""

PARTY, PERSON = "party", "person"
"""The units of the rows."""

_MOST = 700.0  # the exponential of more is no float

Bound = tuple[float, float] | None
"""(epsilon, delta), or None where nothing is proved."""


def group_bound(epsilon: float, delta: float, size: int) -> Bound:
    """Return what (epsilon, delta) for one record guarantees for ``size`` records; None where delta would reach 1."""
    if size * epsilon > _MOST:
        return None
    growth = float(size) if epsilon == 0 else math.expm1(size * epsilon) / math.expm1(epsilon)
    spent = delta * growth * (1 + 1e-12)
    return (size * epsilon, spent) if spent < 1 else None


def several_records(
    study: Study,
    row: Claim,
    gaussian: Callable[[int], Bound] | None = None,
    *,
    least: str = "",
    enough: float | None = None,
) -> tuple[Claim, ...]:
    """Return the rows about the records of one person, where the study counts on several, and of a whole party.

    Parameters
    ----------
    study : Study
        Says how many records a person may have, and how many a party has at least.
    row : Claim
        What is proved of one record, in the same view.
    gaussian : callable, optional
        size -> (epsilon, delta), or None, for so many records. By default it follows from ``row`` alone.
    least : str
        What else a study needs for the privacy target to hold for the row, such as ``calibration = "proven"``.
    enough : float, optional
        The study's epsilon with which the privacy target holds for one record; its own by default.
    """

    def bound(size: int) -> Bound:
        if row.epsilon is None or row.delta is None:
            return None
        return gaussian(size) if gaussian else group_bound(row.epsilon, row.delta, size)

    exact = gaussian is not None
    people, fewest = study.study.records_per_person, study.study.min_records
    rows = (
        [
            _about(
                study,
                row,
                bound(people),
                size=people,
                unit=PERSON,
                neighbours=f"replace all {people:,} records of one person, all sizes fixed",
                whose=f"A person may have {people:,} records in this study, with one party or several.",
                exact=exact,
                least=least,
                enough=enough,
            )
        ]
        if people > 1
        else []
    )
    party = _about(
        study,
        row,
        bound(fewest),
        size=fewest,
        unit=PARTY,
        neighbours="replace all records of one party, all sizes fixed",
        whose=f"A party has {fewest:,} records or more. This row is about a party with exactly so many; a party with "
        "more is hidden less.",
        exact=exact,
        least=least,
        enough=enough,
    )
    return (*rows, party)


def _about(
    study: Study,
    row: Claim,
    found: Bound,
    *,
    size: int,
    unit: str,
    neighbours: str,
    whose: str,
    exact: bool,
    least: str,
    enough: float | None,
) -> Claim:
    """Return the row about ``size`` records together; "none" where the bound allows a guess to become certain."""
    rule = (
        f"Gaussian noise hides {size:,} records together as it hides one record with noise that is {size:,} times "
        "smaller."
        if exact
        else f"{size:,} records together cost at most {size:,} times the epsilon of one, and delta grows as well."
    )
    text = f"The noise is sized for one record. {whose} {rule}"
    about = f"the {size:,} records of one {unit}"
    common = replace(
        row,
        view=f"{row.view}, {'all' if unit == PARTY else f'{size:,}'} records of one {unit}",
        unit=unit,
        neighbours=neighbours,
        claimed=not_promised(None),
        holds_at=_holds_at(study, size, exact=exact, least=least, enough=enough),
    )
    if found is None or found[0] > ABSURD:
        why = (
            f"What follows is epsilon = {digits(found[0])}, with which a guess may become all but certain."
            if found
            else "What follows is an epsilon so large that delta would reach 1, and a delta of 1 allows everything."
            if row.epsilon is not None
            else "Nothing is proved of one record, so nothing is proved of several."
        )
        text = f"{text} {why} So the statement promises nothing about {about}: none."
        return replace(common, definition=NONE, provable=NONE, epsilon=None, delta=None, text=text)
    epsilon, delta = found
    return replace(
        common,
        claimed=not_promised(found),
        provable=shown(epsilon, delta),
        epsilon=epsilon,
        delta=delta,
        text=f"{text} {gained(epsilon, delta, about=about)}",
    )


def _holds_at(study: Study, size: int, *, exact: bool, least: str, enough: float | None) -> str:
    """Return an epsilon, and a delta, with which the study's noise would hide ``size`` records as it now hides one."""
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    if exact and delta > 0:
        smaller = epsilon_of(mu_of(epsilon, delta) / size, delta) if size > 1 else epsilon
        setting = f"epsilon = {digits(smaller * (1 - 1e-6), math.floor)}"
    else:
        smaller, also = (epsilon if enough is None else enough) / size, ""
        if delta > 0:
            spent = delta / (size * math.exp(min(epsilon, _MOST)))
            also = f" and delta = {digits(spent, math.floor)}"
            if "calibration" in least:  # proven noise may be Gaussian, which hides several records in its own way
                smaller = min(smaller, epsilon_of(mu_of(epsilon, spent) / size, spent) * (1 - 1e-6))
        setting = f"epsilon = {digits(smaller, math.floor)}{also}"
    return f"{least}{setting} in the study"
